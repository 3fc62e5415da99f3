"""Health checks at scale: the prober beside HAProxy's `option httpchk`, at the same rate, at the same time.

HAProxy asks 5,000 ports of loopback once a second, and beside it for a minute usher's prober, in a program that has nothing
else (bench-prober): first with a new connection a check, then with connections that are kept. Each has an nginx of its own, which
counts what it was asked. The two share one core, the nginx another. CPU time is that of the whole process, from /proc.
"""

import contextlib
import json
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import sys
import time

ENDPOINTS, INTERVAL_MS, SECONDS = 5000, 1000, 60
FIRST_PORT, STATUS_PORT = 20000, 19999
NEW_GOAL, KEPT_GOAL = 1.25, 0.8  # CPU a probe, times HAProxy's
LATE_GOAL = 0.05  # p99, of the interval
TICK = os.sysconf("SC_CLK_TCK")
PROBERS = {"haproxy": "127.0.0.2", "new": "127.0.0.3", "kept": "127.0.0.4"}

NGINX = """daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
worker_rlimit_nofile {files};
events {{ worker_connections {connections}; use epoll; multi_accept on; }}
http {{
	access_log off; keepalive_timeout 75s; keepalive_requests 1000000; reset_timedout_connection on;
	client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
	uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
	server {{
		{listen}
		location /health {{ return 200 "ok"; }}
		location /status {{ stub_status; }}
	}}
}}
"""

HAPROXY = """global
	maxconn 100
	nbthread 1
	stats socket {folder}/haproxy.sock mode 600 level admin
defaults
	mode http
	timeout connect 1s
	timeout client 1s
	timeout server 1s
	timeout check 1s
backend bench
	option httpchk GET /health
	http-check expect status 200
	default-server inter {interval}ms fastinter {interval}ms downinter {interval}ms rise 2 fall 3
"""


def find(program, variable):
    found = os.environ.get(variable) or shutil.which(program)
    if not found or not os.access(found, os.X_OK):
        sys.exit(f"bench: {program} is needed; ./dev bench brings it")
    return found


@contextlib.contextmanager
def running(arguments, core, **options):
    process = subprocess.Popen(arguments, preexec_fn=lambda: os.sched_setaffinity(0, {core}), **options)
    try:
        yield process
    finally:
        if process.stdin:
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5 if process.stdin else 0)
        if process.poll() is None:
            process.kill()
            process.wait()


def await_port(address, port, process):
    end = time.monotonic() + 20
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((address, port), 1):
            return
        time.sleep(0.05)
    sys.exit(f"bench: nothing listens at {address}:{port}")


def nginx(folder, address, core, limit):
    folder.mkdir()
    listen = "\n".join(f"listen {address}:{port} backlog=4096;" for port in (STATUS_PORT, *range(FIRST_PORT, FIRST_PORT + ENDPOINTS)))
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, listen=listen, files=limit, connections=limit - 100))
    return running([find("nginx", "USHER_NGINX"), "-e", folder / "error.log", "-p", folder, "-c", folder / "nginx.conf"], core,
                   stderr=subprocess.DEVNULL)


def haproxy(folder, core):
    lines = [f"	server s{i} {PROBERS['haproxy']}:{FIRST_PORT + i} check" for i in range(ENDPOINTS)]
    (folder / "haproxy.cfg").write_text("\n".join([HAPROXY.format(folder=folder, interval=INTERVAL_MS), *lines, ""]))
    program = pathlib.Path(find("haproxy", "USHER_HAPROXY"))
    environment = dict(os.environ)
    if program.parent != pathlib.Path("/usr/sbin"):  # unpacked, with its libraries beside it
        environment["LD_LIBRARY_PATH"] = ":".join(str(path) for path in program.parent.parent.glob("lib/*-linux-gnu*"))
    return running([program, "-db", "-q", "-f", folder / "haproxy.cfg"], core, env=environment, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def prober(build, kind, core):
    return running([build / "tests/bench/bench-prober", PROBERS[kind], str(FIRST_PORT), str(ENDPOINTS), str(INTERVAL_MS),
                    "keep" if kind == "kept" else "new"], core, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def requests(address):
    """What nginx says it was asked, without this question."""
    with socket.create_connection((address, STATUS_PORT), 5) as s:
        s.sendall(b"GET /status HTTP/1.0\r\n\r\n")
        answer = b""
        while part := s.recv(4096):
            answer += part
    return int(answer.split(b"server accepts handled requests\n")[1].split()[2])


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def resident_bytes(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def all_up(folder):
    """Whether HAProxy has found every server up."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.settimeout(5)
        s.connect(str(folder / "haproxy.sock"))
        s.sendall(b"show stat bench 4 -1\n")
        answer = b""
        while part := s.recv(65536):
            answer += part
    return answer.count(b"L7OK,") == ENDPOINTS


def await_all_up(folder):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if all_up(folder):
                return
        time.sleep(0.5)
    sys.exit("bench: HAProxy does not find every server up")


def reading(process, kind):
    return cpu_seconds(process.pid), requests(PROBERS[kind])


def figures(before, after, seconds, process):
    probes = after[1] - before[1] - 1  # the question itself
    return {"probes": probes, "rate": probes / seconds, "cpu_usec": (after[0] - before[0]) * 1e6 / probes,
            "resident_bytes": resident_bytes(process.pid)}


def measure_beside(folder, build, kind, haproxy_process, core):
    """usher's prober and HAProxy's checks in the same minute."""
    with prober(build, kind, core) as process:
        if process.stdout.readline() != "asking\n":
            sys.exit("bench: bench-prober does not get through")
        await_all_up(folder)
        time.sleep(2)
        process.stdin.write("count\n")
        process.stdin.flush()
        start = time.monotonic()
        before = reading(process, kind), reading(haproxy_process, "haproxy")
        time.sleep(SECONDS)
        seconds = time.monotonic() - start
        after = reading(process, kind), reading(haproxy_process, "haproxy")
        result = {"seconds": seconds, "usher": figures(before[0], after[0], seconds, process),
                  "haproxy": figures(before[1], after[1], seconds, haproxy_process)}
        process.stdin.close()
        result["usher"] |= json.loads(process.stdout.readline())
        process.wait(10)
        process.stdin = None
        if not all_up(folder):
            sys.exit("bench: HAProxy has found servers down")
    result["cpu_ratio"] = result["usher"]["cpu_usec"] / result["haproxy"]["cpu_usec"]
    return result


def measure(folder, build, server_core, prober_core):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    if limit < 3 * ENDPOINTS:
        sys.exit(f"bench: {3 * ENDPOINTS} open files are needed, the limit is {limit} (ulimit -Hn)")
    with contextlib.ExitStack() as stack:
        for kind, address in PROBERS.items():
            process = stack.enter_context(nginx(folder / kind, address, server_core, limit))
            await_port(address, FIRST_PORT + ENDPOINTS - 1, process)
        other = stack.enter_context(haproxy(folder, prober_core))
        return {"endpoints": ENDPOINTS, "interval_ms": INTERVAL_MS,
                "runs": {kind: measure_beside(folder, build, kind, other, prober_core) for kind in ("new", "kept")}}


def table(result):
    print(f"Checks of {result['endpoints']:,} endpoints every {result['interval_ms'] / 1000:g} s, side by side for {SECONDS} s each")
    print("                              checks/s  CPU/check, us  ratio    MiB   late, ms: p50    p99    max  not good")
    for kind, run in result["runs"].items():
        us, other = run["usher"], run["haproxy"]
        print(f"{'usher, connections ' + kind:<28}{us['rate']:>10,.0f}{us['cpu_usec']:>15.1f}{run['cpu_ratio']:>7.2f}"
              f"{us['resident_bytes'] / 2**20:>7.1f}{us['late_p50_usec'] / 1e3:>16.1f}{us['late_p99_usec'] / 1e3:>7.1f}"
              f"{us['late_max_usec'] / 1e3:>7.1f}{us['counted'] - us['good']:>10}")
        print(f"{'  HAProxy, option httpchk':<28}{other['rate']:>10,.0f}{other['cpu_usec']:>15.1f}{1:>7.2f}"
              f"{other['resident_bytes'] / 2**20:>7.1f}")
    print()


def goals(result):
    limit = LATE_GOAL * result["interval_ms"]
    for kind, goal in (("new", NEW_GOAL), ("kept", KEPT_GOAL)):
        run = result["runs"][kind]
        late = run["usher"]["late_p99_usec"] / 1e3
        yield f"health, connections {kind}: CPU a check {run['cpu_ratio']:.2f} times HAProxy's, at most {goal}", run["cpu_ratio"] <= goal
        yield f"health, connections {kind}: lateness p99 {late:.1f} ms, at most {limit:.0f}", late <= limit
