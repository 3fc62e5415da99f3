"""A real usherd in a folder of its own, and ways to look at it: its API, its CLI, what it tells systemd.

Nothing here waits for time to pass: a start waits for READY=1 on a NOTIFY_SOCKET, everything else for what the API, a
stream or the log says, with a deadline after which the test fails.
"""

import http.client
import json
import os
import pathlib
import random
import select
import signal
import socket
import subprocess
import time

import yaml

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("USHER_BUILD", SOURCE / "build" / "dev")).resolve()
USHERD = BUILD / "daemon" / "usherd"
USHERCTL = BUILD / "api" / "usherctl" / "usherctl"
PLUGINS = BUILD / "plugins" / "lib"
# Sanitized binaries are several times slower, and share the machine with other tests.
DEADLINE = 60.0


def wait_until(what, probe, deadline=DEADLINE, every=0.02):
    """The first true value that probe returns; fails after the deadline, saying what was waited for."""
    end = time.monotonic() + deadline
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline} s: {what}; last: {value!r}")
        time.sleep(every)


class PlainDumper(yaml.SafeDumper):
    """Without anchors and aliases, which usher refuses."""

    def ignore_aliases(self, _):
        return True


def as_yaml(value):
    return yaml.dump(value, Dumper=PlainDumper, sort_keys=False)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=DEADLINE):
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:400]!r}"


class Stream:
    """The lines of a watch, each as JSON."""

    def __init__(self, path, url, headers=None, timeout=DEADLINE):
        self.connection = UnixConnection(path, timeout)
        self.connection.request("GET", url, headers=headers or {})
        self.response = self.connection.getresponse()
        self.status = self.response.status

    def next(self):
        line = self.response.readline()
        if not line:
            raise EOFError("the stream has ended")
        return json.loads(line)

    def until(self, wanted):
        """Read on to the first line for which wanted(line) is true."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            line = self.next()
            if wanted(line):
                return line
        raise AssertionError("the line did not come")

    def close(self):
        # The response shares the connection's socket: both must go.
        self.response.close()
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Usherd:
    """One usherd. config is what usher.yaml says, beyond where its sockets, state and plug-ins are."""

    def __init__(self, folder, config=None, environment=None, plugin_dirs=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.endpoints = self.folder / "endpoints.yaml"
        self.socket = self.folder / "usher.sock"
        self.admin = self.folder / "admin.sock"
        self.config_path = self.folder / "usher.yaml"
        self.log_path = self.folder / "usherd.log"
        self.plugin_dirs = [str(p) for p in (plugin_dirs or [PLUGINS])]
        self.environment = dict(environment or {})
        self.prefix = []  # what usherd is started by
        self.process = None
        self.notify = None
        self.told = []  # every message to systemd, as a dict
        self.log_mark = 0
        self.configure(config or {})

    # ---- configuration and endpoints ----

    def configure(self, config):
        whole = {
            "node": {"name": "node-1", "zone": "east"},
            "api": {
                "consumer": {"socket": str(self.socket), "mode": "0666"},
                "admin": {"socket": str(self.admin), "mode": "0660"},
            },
            "state_dir": str(self.folder / "state"),
            "plugin_dirs": self.plugin_dirs,
            "sources": [{"name": "files", "plugin": "file", "options": {"path": str(self.endpoints)}}],
        }
        whole.update(config)
        self.write_config(as_yaml(whole))

    def write_config(self, text):
        replace_file(self.config_path, text)

    def write_endpoints(self, services, path=None):
        """{"catalog": [{"id": ..., "address": ..., "port": ...}]} in usher's own format, atomically."""
        replace_file(path or self.endpoints, as_yaml({"services": services}))

    # ---- life ----

    def start(self, wait=True, arguments=(), pass_fds=(), environment=None):
        notify_path = self.folder / "notify.sock"
        if self.notify:
            self.notify.close()
        notify_path.unlink(missing_ok=True)
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(str(notify_path))
        self.told = []
        whole = {k: v for k, v in os.environ.items() if not k.startswith(("USHER_", "LISTEN_", "WATCHDOG_"))}
        whole.update({"NOTIFY_SOCKET": str(notify_path)})
        whole.update(self.environment)
        whole.update(environment or {})
        with open(self.log_path, "ab") as log:
            self.log_mark = self.log_path.stat().st_size
            self.process = subprocess.Popen(
                [*self.prefix, str(USHERD), "--config", str(self.config_path), "--log-level", "debug", *arguments],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=whole, pass_fds=pass_fds)
        if wait:
            self.wait_told("READY", "1")
        return self

    def listen_to_systemd(self, timeout):
        """Take one message to systemd, if one comes in time."""
        if not select.select([self.notify], [], [], timeout)[0]:
            return None
        message = dict(part.split("=", 1) for part in self.notify.recv(65536).decode().splitlines() if "=" in part)
        self.told.append(message)
        return message

    def wait_told(self, key, value=None, deadline=DEADLINE):
        """Wait for the next message to systemd that has the key (with the value, when one is given)."""
        end = time.monotonic() + deadline
        while True:
            message = self.listen_to_systemd(max(0.0, min(0.2, end - time.monotonic())))
            if message and key in message and value in (None, message[key]):
                return message
            if not message and self.process.poll() is not None:
                raise AssertionError(f"usherd ended with {self.process.returncode}:\n{self.log_text()}")
            if time.monotonic() > end:
                raise AssertionError(f"usherd did not say {key}={value}; it said {self.told}\n{self.log_text()}")

    def status(self):
        """The last STATUS= said."""
        while self.listen_to_systemd(0):
            pass
        return next((m["STATUS"] for m in reversed(self.told) if "STATUS" in m), None)

    def stop(self, expect=0):
        if not self.process or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(DEADLINE)
        assert code == expect, f"usherd ended with {code}:\n{self.log_text()}"

    def kill(self):
        self.process.kill()
        self.process.wait(DEADLINE)

    def wait_end(self, deadline=DEADLINE):
        """The exit status, once it ends by itself."""
        return self.process.wait(deadline)

    def restart(self):
        self.stop()
        return self.start()

    def reload(self):
        """SIGHUP, and the READY=1 that must follow."""
        while self.listen_to_systemd(0):
            pass
        self.process.send_signal(signal.SIGHUP)
        self.wait_told("RELOADING", "1")
        return self.wait_told("READY", "1")

    def log_text(self):
        """What this run of usherd has logged."""
        return self.log_path.read_bytes()[self.log_mark:].decode(errors="replace")

    def wait_said(self, text):
        """What is published may be logged a moment later."""
        wait_until(f"it is logged: {text}", lambda: text in self.log_text())

    # ---- the API ----

    def answers(self):
        """Whether somebody listens on the consumer socket, while a start is not waited for."""
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(str(self.socket)) == 0

    def call(self, method, path, body=None, admin=False, headers=None, timeout=DEADLINE):
        connection = UnixConnection(self.admin if admin else self.socket, timeout)
        try:
            text = None if body is None else body if isinstance(body, (str, bytes)) else json.dumps(body)
            connection.request(method, path, body=text, headers=headers or {})
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path, **more):
        answer = self.call("GET", path, **more)
        assert answer.status == 200, answer
        return answer.json

    def listed(self, service="catalog"):
        """The endpoints that consumers see, by id."""
        return {e["id"]: e for e in self.get(f"/v1/services/{service}/endpoints")["endpoints"]}

    def pick(self, service="catalog", body=None, **more):
        return self.call("POST", f"/v1/services/{service}/pick", body, **more)

    def picked(self, service="catalog", count=20):
        """The ids that so many picks returned."""
        connection = UnixConnection(self.socket)
        ids = set()
        try:
            for _ in range(count):
                connection.request("POST", f"/v1/services/{service}/pick")
                response = connection.getresponse()
                body = response.read()
                assert response.status == 200, body
                ids.add(json.loads(body)["endpoint"]["id"])
        finally:
            connection.close()
        return ids

    def watch(self, service="catalog", query="", headers=None, admin=False):
        return Stream(self.admin if admin else self.socket,
                      f"/v1/services/{service}/endpoints?watch=true{query}", headers)

    def drain(self, endpoint, service="catalog", **more):
        answer = self.call("POST", "/v1/drains", {"service": service, "endpoint": endpoint, **more}, admin=True)
        assert answer.status in (200, 201), answer
        return answer.json

    def restore(self, endpoint, service="catalog", **more):
        answer = self.call("POST", "/v1/restores", {"service": service, "endpoint": endpoint, **more}, admin=True)
        assert answer.status in (200, 201), answer
        return answer.json

    def record(self, drain_id):
        return self.get(f"/v1/drains/{drain_id}")

    def wait_finished(self, drain_id, deadline=DEADLINE):
        def finished():
            record = self.record(drain_id)
            return record if record["finished_at"] else None

        return wait_until(f"{drain_id} is finished", finished, deadline)

    def wait_listed(self, ids, service="catalog", deadline=DEADLINE):
        """An answer that is not there yet is waited for, too."""
        def is_listed():
            answer = self.call("GET", f"/v1/services/{service}/endpoints")
            return answer.status == 200 and {e["id"] for e in answer.json["endpoints"]} == set(ids)

        return wait_until(f"{service} lists {sorted(ids)}", is_listed, deadline)

    # ---- the CLI ----

    def ctl(self, *arguments, timeout=DEADLINE, **more):
        environment = {**os.environ, "USHER_SOCKET": str(self.socket), "USHER_ADMIN_SOCKET": str(self.admin)}
        return subprocess.run([str(USHERCTL), *arguments], env=environment, capture_output=True, text=True,
                              timeout=timeout, **more)


def replace_file(path, text):
    """As careful writers do it: whole, under another name, then renamed."""
    path = pathlib.Path(path)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text)
    os.replace(temporary, path)


def endpoint(name, port=8080, address="127.0.0.1", **more):
    return {"id": name, "address": address, "port": port, **more}


def free_port():
    """One that nobody is given by the kernel, for it is below those: nobody else takes it until it is used."""
    while True:
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", random.randrange(10240, 32768)))
                return s.getsockname()[1]
            except OSError:
                pass
