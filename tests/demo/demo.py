#!/usr/bin/env python3
"""The main job of usher on real processes: three nginx servers are rolled out under load, with usher and the usual way.

Run it with ./dev demo. Both ways meet the same servers, the same load and the same restarts:

- with usher, each request asks the consumer socket for an endpoint; each instance is drained with `usherctl drain --wait`
  (whose close hook stops the server), started again, and brought back with `usherctl restore --wait`;
- the usual way, the consumers hold a list of endpoints that they refresh every few seconds; each instance leaves the list,
  is stopped, and started again.
"""

import argparse
import collections
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

RATE = 200  # requests a second
CALLERS = 16
CACHE_SECONDS = 5.0  # how long a consumer keeps its list, the usual way
RESTART_SECONDS = 2.0  # what a new version takes to come up
SETTLE_SECONDS = 2.0
BODY_BYTES = 4000
BYTES_PER_SECOND = 100_000  # so that a request is under way for some 40 ms
NAMES = ("catalog-a", "catalog-b", "catalog-c")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=5)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Servers:
    """Three nginx servers, each with one worker on a port of its own."""

    def __init__(self, folder, nginx):
        self.folder, self.nginx = folder, nginx
        self.ports = {name: free_port() for name in NAMES}
        for name, port in self.ports.items():
            self.write(name, port)
        self.script = folder / "instance"
        self.script.write_text(
            "#!/bin/sh\n"
            "# instance start|stop NAME: what a process manager would do; stop returns once the server is gone.\n"
            "set -eu\n"
            f"cd {folder}\n"
            f'nginx="{nginx} -p {folder} -e $2/error.log -c $2/nginx.conf"\n'
            'case "$1" in\n'
            "start) exec $nginx ;;\n"
            "stop)\n"
            '\t[ -s "$2/nginx.pid" ] || exit 0\n'
            '\tpid=$(cat "$2/nginx.pid")\n'
            '\tkill -TERM "$pid" 2>/dev/null || true\n'
            '\twhile kill -0 "$pid" 2>/dev/null; do sleep 0.02; done ;;\n'
            "esac\n")
        self.script.chmod(0o755)

    def write(self, name, port):
        home = self.folder / name
        (home / "html").mkdir(parents=True)
        (home / "html" / "index.html").write_text(f"{name}\n".ljust(BODY_BYTES, "."))
        temporary = "".join(f"{kind}_temp_path {home}/{kind};\n" for kind in
                            ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (home / "nginx.conf").write_text(
            f"pid {home}/nginx.pid;\nworker_processes 1;\nerror_log {home}/error.log;\n"
            + ("user root;\n" if os.geteuid() == 0 else "")
            + "events {}\n"
            f"http {{\naccess_log off;\n{temporary}"
            f"server {{\nlisten 127.0.0.1:{port};\nkeepalive_timeout 0;\nroot {home}/html;\n"
            f"location / {{ limit_rate {BYTES_PER_SECOND}; }}\n"
            "location /health { return 200 ok; }\n}\n}\n")

    def run(self, verb, name):
        subprocess.run([self.script, verb, name], check=True, stdin=subprocess.DEVNULL)

    def start(self, name):
        self.run("start", name)
        end = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.ports[name]), 1).close()
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def stop(self, name):
        self.run("stop", name)

    def stop_all(self):
        for name in NAMES:
            self.stop(name)


class Usher:
    """A real usherd whose source is a file, and the real usherctl."""

    def __init__(self, folder, build, servers):
        self.folder, self.build = folder, build
        self.socket, self.admin = folder / "usher.sock", folder / "admin.sock"
        self.ctl = build / "api" / "usherctl" / "usherctl"
        endpoints = [{"id": name, "address": "127.0.0.1", "port": port} for name, port in servers.ports.items()]
        (folder / "endpoints.yaml").write_text(json.dumps({"services": {"catalog": endpoints}}, indent=1))
        config = {
            "node": {"name": "demo"},
            "api": {"consumer": {"socket": str(self.socket)}, "admin": {"socket": str(self.admin)}},
            "state_dir": str(folder / "state"),
            "plugin_dirs": [str(build / "plugins" / "lib")],
            "sources": [{"name": "files", "plugin": "file", "options": {"path": str(folder / "endpoints.yaml")}}],
            "services": {"catalog": {
                "chain": [{"ready": {}}],
                "select": "round_robin",
                "drain": {
                    "order": "serve_stale",
                    "in_flight": {"timeout": "20s", "quiet": "200ms", "from": ["tcp", "consumers"]},
                    "deadline": "60s",
                    "close": {"exec": [str(servers.script), "stop", "{id}"]},
                },
                "restore": {"probe": {"http": {"path": "/health"}}, "ramp": "1s"},
            }},
        }
        (folder / "usher.yaml").write_text(json.dumps(config, indent=1))

    def start(self):
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(str(self.folder / "notify.sock"))
        notify.settimeout(30)
        with open(self.folder / "usherd.log", "wb") as log:
            self.process = subprocess.Popen(
                [self.build / "daemon" / "usherd", "--config", self.folder / "usher.yaml"], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, env={**os.environ, "NOTIFY_SOCKET": str(self.folder / "notify.sock")})
        try:
            while b"READY=1" not in notify.recv(4096):
                pass
        except TimeoutError:
            sys.exit(f"usherd did not become ready; see {self.folder}/usherd.log")
        finally:
            notify.close()

    def run(self, *arguments):
        environment = {**os.environ, "USHER_SOCKET": str(self.socket), "USHER_ADMIN_SOCKET": str(self.admin)}
        subprocess.run([self.ctl, *arguments], check=True, env=environment, stdin=subprocess.DEVNULL)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)


class Chooser:
    """Where the next request goes: one for each caller."""

    def __init__(self, usher=None, registry=None):
        self.usher, self.registry = usher, registry
        self.connection, self.list, self.read_at, self.turn = None, [], 0.0, 0

    def choose(self):
        return self.ask() if self.usher else self.recall()

    def ask(self):
        for last in (False, True):
            try:
                if not self.connection:
                    self.connection = UnixConnection(str(self.usher.socket))
                self.connection.request("POST", "/v1/services/catalog/pick", headers={"Usher-Consumer": "demo-load"})
                response = self.connection.getresponse()
                body = json.loads(response.read())
                if response.status != 200:
                    raise RuntimeError(f"pick: {body}")
                return body["endpoint"]["id"], body["endpoint"]["port"]
            except (OSError, http.client.HTTPException):
                # A kept connection may have gone with a restart of usherd; a new one tells.
                self.connection = None
                if last:
                    raise

    def recall(self):
        now = time.monotonic()
        if now - self.read_at > CACHE_SECONDS:
            self.list, self.read_at = list(self.registry.items()), now
        self.turn += 1
        return self.list[self.turn % len(self.list)]


class Load:
    """About RATE requests a second for as long as it runs, each to an endpoint chosen for it."""

    def __init__(self, make_chooser):
        self.make_chooser = make_chooser
        self.lock = threading.Lock()
        self.requests = 0
        self.failures = collections.Counter()
        self.last_pick = {}  # name -> when it was last chosen
        self.left = {}  # name -> when it left the directory
        self.last_stale = 0.0
        self.ending = threading.Event()
        self.threads = [threading.Thread(target=self.call, args=(i,), daemon=True) for i in range(CALLERS)]

    def start(self):
        self.began = time.monotonic()
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.ending.set()
        for thread in self.threads:
            thread.join()
        self.seconds = time.monotonic() - self.began

    def call(self, number):
        chooser = self.make_chooser(number)
        next_at = time.monotonic() + number / RATE
        while not self.ending.wait(max(0.0, next_at - time.monotonic())):
            next_at = max(next_at + CALLERS / RATE, time.monotonic() - 1.0)
            failure = None
            try:
                name, port = chooser.choose()
                self.note_pick(name)
                self.request(port)
            except (OSError, http.client.HTTPException, RuntimeError) as e:
                failure = f"{type(e).__name__}: {e}"[:100]
            with self.lock:
                self.requests += 1
                if failure:
                    self.failures[failure] += 1

    def request(self, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/")
            response = connection.getresponse()
            body = response.read()
            if response.status != 200 or len(body) != BODY_BYTES:
                raise RuntimeError(f"status {response.status}, {len(body)} bytes")
        finally:
            connection.close()

    def note_pick(self, name):
        now = time.monotonic()
        with self.lock:
            if name in self.left:
                self.last_stale = max(self.last_stale, now - self.left[name])

    def leave(self, name):
        """From now on, choosing it is a stale pick."""
        with self.lock:
            self.left[name] = time.monotonic()

    def come_back(self, name):
        with self.lock:
            self.left.pop(name, None)

    def result(self, rollout_seconds):
        return {"requests": self.requests, "failed": sum(self.failures.values()),
                "rate_per_s": round(self.requests / self.seconds, 1),
                "last_stale_pick_s": round(self.last_stale, 2), "rollout_s": round(rollout_seconds, 1),
                "failures": dict(self.failures)}


def rollout_with_usher(usher, servers, load):
    for name in NAMES:
        # The close hook stops the server, and only once the evidence says that nobody uses it.
        usher.run("drain", f"catalog/{name}", "--wait", "--reason", "demo rollout")
        load.leave(name)
        time.sleep(RESTART_SECONDS)
        servers.start(name)
        load.come_back(name)
        usher.run("restore", f"catalog/{name}", "--wait")


def rollout_as_usual(registry, servers, load):
    for name in NAMES:
        port = registry.pop(name)
        load.leave(name)
        servers.stop(name)
        time.sleep(RESTART_SECONDS)
        servers.start(name)
        registry[name] = port
        load.come_back(name)
        time.sleep(CACHE_SECONDS)


def measure(make_chooser, rollout):
    load = Load(make_chooser)
    load.start()
    try:
        time.sleep(SETTLE_SECONDS)
        began = time.monotonic()
        rollout(load)
        seconds = time.monotonic() - began
        time.sleep(SETTLE_SECONDS)
    finally:
        load.stop()
    return load.result(seconds)


def print_side_by_side(with_usher, as_usual):
    rows = [("requests", "requests", "{}"), ("of them failed", "failed", "{}"),
            ("last stale pick", "last_stale_pick_s", "{} s"), ("rollout of three instances", "rollout_s", "{} s")]
    print(f"\n{'':28}{'with usher':>14}{'as usual':>14}")
    for title, key, form in rows:
        columns = [form.format(r[key]) if r else "-" for r in (with_usher, as_usual)]
        if key == "last_stale_pick_s":
            columns = ["none" if r and r[key] == 0 else c for c, r in zip(columns, (with_usher, as_usual))]
        print(f"{title:28}{columns[0]:>14}{columns[1]:>14}")
    for title, result in (("with usher", with_usher), ("as usual", as_usual)):
        for failure, count in (result or {"failures": {}})["failures"].items():
            print(f"  {title}: {count} x {failure}")
    print(f"\nAs usual: each consumer keeps its list for {CACHE_SECONDS:.0f} s.")


def wait_for_the_user(folder, usher):
    print(f"""
Everything goes on running in {folder}. In another terminal:

    export USHER_SOCKET={usher.socket} USHER_ADMIN_SOCKET={usher.admin}
    {usher.ctl} get endpoints catalog
    {usher.ctl} watch catalog
    {usher.ctl} drain catalog/catalog-a --wait      # its close hook stops the server
    {folder}/instance start catalog-a
    {usher.ctl} restore catalog/catalog-a --wait

Ctrl-C stops all of it.""", flush=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        print()


def run(options, folder):
    servers = Servers(folder, options.nginx)
    usher = Usher(folder, options.build, servers)
    usher_runs, as_usual = [], None
    try:
        for name in NAMES:
            servers.start(name)
        usher.start()
        for number in range(options.runs):
            print(f"With usher: rolling out {', '.join(NAMES)} under {RATE} requests/s", flush=True)
            usher_runs.append(measure(lambda _: Chooser(usher=usher), lambda load: rollout_with_usher(usher, servers, load)))
        if not options.only_usher:
            print("\nThe same rollout as usual: stop, start, and consumers with a cached list", flush=True)
            registry = dict(servers.ports)
            as_usual = measure(lambda _: Chooser(registry=registry), lambda load: rollout_as_usual(registry, servers, load))
        print_side_by_side(usher_runs[-1], as_usual)
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps({"with_usher": usher_runs, "as_usual": as_usual}))
        if options.keep:
            wait_for_the_user(folder, usher)
    finally:
        if hasattr(usher, "process"):
            usher.stop()
        servers.stop_all()
    return 0 if all(r["failed"] == 0 for r in usher_runs) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=lambda p: pathlib.Path(p).resolve(), required=True, help="where usher is built")
    parser.add_argument("--nginx", required=True, help="the nginx program")
    parser.add_argument("--keep", action="store_true", help="leave everything running until Ctrl-C")
    parser.add_argument("--runs", type=int, default=1, help="how many rollouts with usher")
    parser.add_argument("--only-usher", action="store_true", help="leave the usual way out")
    parser.add_argument("--json", help="write the results there as well")
    options = parser.parse_args()
    # Short, for a socket's path has at most 107 bytes.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="usher-demo-"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = 1
    try:
        code = run(options, folder)
    except KeyboardInterrupt:
        print("\nStopped.")
    finally:
        if code == 0:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"The logs are in {folder}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
