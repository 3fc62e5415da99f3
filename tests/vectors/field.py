"""Where vectors are run: a real usherd with a service for every vector.

Judges first say what they need (declare), then one start serves all of them; so hundreds of vectors cost one daemon, and
each still has a service of its own.
"""

import http.server
import pathlib
import sqlite3
import subprocess
import threading
import time
import urllib.parse

import usher
from verdict import Failure


def address_of(n):
    """An address of its own on the loopback network for the n-th endpoint of all."""
    return f"127.{16 + n // 62500}.{n // 250 % 250}.{n % 250 + 1}"


class Field:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.services = {}  # name: configuration
        self.lists = {}     # (source, service): endpoints, or a text that is written as it is
        self.cursors = {}
        self.addresses = {}
        self.sources = ["files"]
        self.daemon = None
        self.instances = None  # that answer health checks, when a judge needs them

    # ---- before the start ----

    def service(self, name, instances=None, source="files", **config):
        """A service with these instances: {"id", "metadata"} or ids."""
        config.setdefault("removal_guard", {"share": "100%"})
        config.setdefault("chain", [])
        config.setdefault("sources", [source])
        self.services[name] = config
        if instances is not None:
            self.put(name, instances, source)

    def source(self, name):
        self.sources.append(name)

    def start(self):
        self.daemon = usher.Usherd(self.folder)
        for source in self.sources:
            (self.folder / source).mkdir()
        whole = {
            "node": {"name": "vectors"},
            "sources": [{"name": s, "plugin": "file", "options": {"path": str(self.folder / s), "poll": "100ms"}}
                        for s in self.sources],
            "defaults": {"lazy": {"allow": False}},
            "services": {},
        }
        whole["services"] = self.services
        self.daemon.configure(whole)
        for (source, service) in self.lists:
            self.write(service, source)
        if self.cursors:
            self.set_cursors()
        self.daemon.start(wait=False)
        usher.wait_until("usherd listens or ends", lambda: self.daemon.process.poll() is not None or self.daemon.answers())
        if self.daemon.process.poll() is not None:
            raise Failure(f"usherd does not start: {self.daemon.log_text()}")

    def set_cursors(self):
        """A first life leaves what the second one goes on from."""
        self.daemon.start()
        self.daemon.stop()
        with sqlite3.connect(self.folder / "state" / "usher.db") as db:
            db.executemany("INSERT OR REPLACE INTO cursor VALUES (?, ?)", self.cursors.items())

    def stop(self):
        if self.daemon and self.daemon.process and self.daemon.process.poll() is None:
            self.daemon.stop()
        if self.instances:
            self.instances.close()

    # ---- the directory ----

    def endpoint(self, instance):
        if isinstance(instance, str):
            instance = {"id": instance}
        metadata = instance.get("metadata") or {}
        n = self.addresses.setdefault(instance["id"], len(self.addresses))
        return {"id": instance["id"], "address": instance.get("address", address_of(n)), "port": instance.get("port", 8080),
                "metadata": {str(k): str(v) for k, v in metadata.items()}}

    def put(self, service, instances, source="files"):
        if not isinstance(instances, str):
            instances = [self.endpoint(i) for i in instances]
        self.lists[source, service] = instances
        if self.daemon:
            self.write(service, source)

    def write(self, service, source="files"):
        what = self.lists[source, service]
        text = what if isinstance(what, str) else usher.as_yaml({"services": {service: what}})
        usher.replace_file(self.folder / source / f"{service}.yaml", text)

    def show(self, service, instances):
        """Make the list this one, and wait until usher has it."""
        self.put(service, instances)
        wanted = {e["id"]: e["metadata"] for e in self.lists["files", service]}

        def shown():
            answer = self.all(service)
            return answer is not None and {e["id"]: e["metadata"] for e in answer} == wanted

        usher.wait_until(f"{service} has {wanted}", shown)

    def all(self, service):
        answer = self.daemon.call("GET", f"/v1/services/{service}/endpoints?all=true")
        return answer.json["endpoints"] if answer.status == 200 else None

    def listed(self, service):
        """The ids that consumers see, in their order; waits for the first answer."""
        def answer():
            got = self.daemon.call("GET", f"/v1/services/{service}/endpoints")
            return got if got.status == 200 else None

        return [e["id"] for e in usher.wait_until(f"{service} answers", answer).json["endpoints"]]

    # ---- asking ----

    def pick(self, service, consumer=None, **body):
        """(the chosen id or None, the problem's code or None)"""
        headers = {"Usher-Consumer": consumer} if consumer else {}
        answer = self.daemon.pick(service, body, headers=headers)
        if answer.status == 200:
            return answer.json["endpoint"]["id"], None
        if answer.status == 503:
            return None, answer.json["code"]
        raise Failure(f"pick of {service} with {body}: {answer}")

    def picks(self, service, count, **body):
        return [self.pick(service, **body)[0] for _ in range(count)]

    def explain(self, service, headers=None, **query):
        pairs = [(k, v) for k, v in query.items() if v is not None]
        pairs += [("header", f"{k}:{v}") for k, v in (headers or {}).items()]
        return self.daemon.get(f"/v1/services/{service}/explain?{urllib.parse.urlencode(pairs, doseq=True)}")

    def candidates(self, service, **query):
        """The ids that the chain leaves for such a request, in their order, and the explanation."""
        self.listed(service)
        told = self.explain(service, **query)
        left = {e["id"] for stage in told["stages"] for e in stage["left"]}
        return [e["id"] for e in self.all(service) if e["id"] not in left], told

    def check(self, config):
        """What `usherd --check` says of a configuration: (exit status, text)."""
        self.folder.mkdir(exist_ok=True)
        path = self.folder / "checked.yaml"
        whole = {"plugin_dirs": [str(usher.PLUGINS)],
                 "sources": [{"name": "files", "plugin": "file", "options": {"path": str(self.folder)}}]}
        path.write_text(usher.as_yaml({**whole, **config}))
        done = subprocess.run([str(usher.USHERD), "--check", str(path)], capture_output=True, text=True, timeout=usher.DEADLINE)
        return done.returncode, done.stdout + done.stderr


class Instances:
    """Instances that are asked for their health: every address of 127/8 at one port, answering as scripted."""

    def __init__(self):
        self.scripts = {}  # address: [{"latency_ms", "result" or "status"}], the last one for ever
        self.asked = {}    # address: [path of each probe]
        self.lock = threading.Lock()
        instances = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                step = instances.step(self.connection.getsockname()[0], self.path)
                time.sleep(step.get("latency_ms", 0) / 1000)  # the instance's own slowness
                if step.get("result") == "hang":
                    instances.released.wait(usher.DEADLINE)
                    return
                if step.get("result") == "error":
                    return  # closed without an answer
                self.send_response(step.get("status", {"up": 200, "down": 503}.get(step.get("result"), 200)))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_):
                pass  # a probe that was broken off: its time was over

        self.released = threading.Event()
        self.server = Server(("0.0.0.0", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def step(self, address, path):
        with self.lock:
            asked = self.asked.setdefault(address, [])
            script = self.scripts.get(address, [{}])
            step = script[min(len(asked), len(script) - 1)]
            asked.append(path)
            return step

    def close(self):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()
