"""The members of a real etcd."""

import base64
import json
import pathlib
import urllib.request

from servers import Process, from_debian
from usher import free_port


def etcd_program():
    return from_debian("bookworm", "etcd-server=3.4.23-4+b4") / "usr/bin/etcd"


def b64(text):
    return base64.b64encode(text.encode()).decode()


class Member(Process):
    def __init__(self, folder, name, ports, cluster, token):
        super().__init__(folder)
        self.program = etcd_program()
        self.name, self.cluster, self.token = name, cluster, token
        self.client, self.peer = (f"http://127.0.0.1:{port}" for port in ports)

    def command(self):
        return [str(self.program), "--name", self.name, "--data-dir", str(self.data),
                "--listen-client-urls", self.client, "--advertise-client-urls", self.client,
                "--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer,
                "--initial-cluster", self.cluster, "--initial-cluster-token", self.token,
                "--heartbeat-interval", "100", "--election-timeout", "1000", "--logger", "zap", "--log-level", "error"]

    def is_ready(self):
        """It has a leader."""
        try:
            with urllib.request.urlopen(self.client + "/health", timeout=2) as answer:
                return json.load(answer)["health"] == "true"
        except OSError:
            return False


class Etcd:
    """A cluster of so many members."""

    def __init__(self, folder, count=1):
        folder = pathlib.Path(folder)
        ports = [(free_port(), free_port()) for _ in range(count)]
        cluster = ",".join(f"m{i}=http://127.0.0.1:{peer}" for i, (_, peer) in enumerate(ports))
        self.members = [Member(folder / f"m{i}", f"m{i}", ports[i], cluster, folder.name) for i in range(count)]
        self.authorization = None

    @property
    def urls(self):
        return [m.client for m in self.members]

    def wait_ready(self):
        for m in self.members:
            m.wait_ready()

    def __enter__(self):
        try:
            for m in self.members:
                m.start(wait=False)
            self.wait_ready()
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        for m in self.members:
            m.kill()

    def call(self, path, body, member=None):
        member = member or next(m for m in self.members if m.process.poll() is None)
        headers = {"Content-Type": "application/json"}
        if self.authorization:
            headers["Authorization"] = self.authorization
        request = urllib.request.Request(member.client + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def put(self, service, name, value, lease=None, **more):
        body = {"key": b64(f"/services/{service}/{name}"),
                "value": b64(value if isinstance(value, str) else json.dumps(value))}
        if lease:
            body["lease"] = lease
        return self.call("/v3/kv/put", body, **more)

    def delete(self, service, name, **more):
        return self.call("/v3/kv/deleterange", {"key": b64(f"/services/{service}/{name}")}, **more)

    def get(self, service, name, **more):
        """The pair, its value as JSON, or None."""
        answer = self.call("/v3/kv/range", {"key": b64(f"/services/{service}/{name}")}, **more)
        for kv in answer.get("kvs", []):
            return {**kv, "value": json.loads(base64.b64decode(kv["value"]))}
        return None

    def grant(self, ttl):
        return self.call("/v3/lease/grant", {"TTL": str(ttl)})["ID"]

    def log_in(self, name, password):
        self.authorization = None
        self.authorization = self.call("/v3/auth/authenticate", {"name": name, "password": password})["token"]

    def compact(self):
        revision = self.call("/v3/kv/range", {"key": b64("x")})["header"]["revision"]
        return self.call("/v3/kv/compaction", {"revision": revision, "physical": True})


def instance(port, address="127.0.0.1", **more):
    return {"address": address, "port": port, **more}
