"""The servers of a real ZooKeeper, and a client to write into them."""

import json
import pathlib
import socket
import struct
import sys
import threading

from servers import Process
from usher import SOURCE, free_port, wait_until

sys.path.insert(0, str(SOURCE / "tests" / "lib"))

import jute  # noqa: E402
from jute import Reader, Writer  # noqa: E402
from scripted_zookeeper import curator  # noqa: E402

CLASSES = "/usr/share/java/zookeeper.jar"  # of the package, which names the others that it needs


class Denied(Exception):
    pass


class Client:
    """A session, and its answers one after the other."""

    def __init__(self, port, timeout=10000, secret=None):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.xid = 0
        self.lock = threading.Lock()
        self.send(Writer().int(0).long(0).int(timeout).long(0).bytes(b"\0" * 16).bool(False))
        reader = Reader(self.receive())
        reader.int()
        self.timeout, self.session = reader.int(), reader.long()
        if secret:
            self.send(Writer().int(jute.AUTH_XID).int(jute.AUTH).int(0).text("digest").text(secret))
            assert Reader(self.receive()).int() == jute.AUTH_XID

    def send(self, writer):
        self.sock.sendall(writer.frame())

    def receive(self):
        size = struct.unpack(">i", self.exactly(4))[0]
        return self.exactly(size)

    def exactly(self, size):
        data = b""
        while len(data) < size:
            piece = self.sock.recv(size - len(data))
            if not piece:
                raise ConnectionError("ZooKeeper has closed the connection")
            data += piece
        return data

    def begin(self, op, body):
        self.xid += 1
        self.send(Writer().int(self.xid).int(op).raw(body.data))

    def finish(self):
        """(code, what follows)"""
        while True:
            reader = Reader(self.receive())
            xid = reader.int()
            reader.long()
            code = reader.int()
            if xid > 0:
                return code, reader

    def ask(self, op, body, fine=()):
        with self.lock:
            self.begin(op, body)
            code, reader = self.finish()
        if code == jute.NO_AUTH:
            raise Denied(f"{op}: not for us")
        if code != jute.OK and code not in fine:
            raise RuntimeError(f"ZooKeeper answers {code} to {op}")
        return code, reader

    @staticmethod
    def creation(path, data, mode, acl):
        return Writer().text(path).bytes(data).acl(acl).int(mode)

    def create(self, path, data=b"", mode=jute.PERSISTENT, acl=None):
        """With everything above it. Whether it was not there."""
        acl = acl or jute.OPEN
        body = self.creation(path, data, mode, acl)
        code, _ = self.ask(jute.CREATE, body, (jute.NO_NODE, jute.NODE_EXISTS))
        if code == jute.NO_NODE:
            self.create(path.rpartition("/")[0])
            code, _ = self.ask(jute.CREATE, body, (jute.NODE_EXISTS,))
        return code == jute.OK

    def set(self, path, data):
        self.ask(jute.SET_DATA, Writer().text(path).bytes(data).int(-1))

    def put(self, path, value, **more):
        data = json.dumps(value).encode()
        if not self.create(path, data, **more):
            self.set(path, data)

    def get(self, path):
        """The data as JSON and the session it belongs to, or None."""
        code, reader = self.ask(jute.GET_DATA, Writer().text(path).bool(False), (jute.NO_NODE,))
        if code == jute.NO_NODE:
            return None
        data = reader.bytes()
        reader.take(8 * 4 + 4 * 3)
        return json.loads(data), reader.long()

    def children(self, path):
        return self.ask(jute.GET_CHILDREN2, Writer().text(path).bool(False))[1].texts()

    def delete(self, path):
        """With everything below it."""
        for child in self.children(path):
            self.delete(f"{path}/{child}")
        self.ask(jute.DELETE, Writer().text(path).int(-1), (jute.NO_NODE,))

    def protect(self, path, acl):
        self.ask(jute.SET_ACL, Writer().text(path).acl(acl).int(-1))

    def create_many(self, paths_and_data):
        """All of them, without waiting for each."""
        with self.lock:
            under_way = 0
            for path, data in paths_and_data:
                self.begin(jute.CREATE, self.creation(path, data, jute.PERSISTENT, jute.OPEN))
                under_way += 1
                if under_way == 500:
                    self.finish()
                    under_way -= 1
            for _ in range(under_way):
                self.finish()

    def close(self):
        """End the session, and with it its nodes."""
        self.ask(jute.CLOSE, Writer())
        self.sock.close()

    def vanish(self):
        """As who is killed: the session goes on for its time."""
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()


class Server(Process):
    def __init__(self, folder, port, tick=500, more=""):
        super().__init__(folder)
        self.port = port
        self.number = None
        (self.folder / "zoo.cfg").write_text(
            f"tickTime={tick}\ndataDir={self.data}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
            f"admin.enableServer=false\n4lw.commands.whitelist=srvr\nmaxClientCnxns=0\ninitLimit=20\nsyncLimit=6\n{more}")

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def command(self):
        if self.number:
            (self.data / "myid").write_text(f"{self.number}\n")
        return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dreadonlymode.enabled=true",
                "-Dzookeeper.jmx.log4j.disable=true", "-cp", CLASSES,
                "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self.folder / "zoo.cfg")]

    def mode(self):
        """What it says of itself: standalone, leader, follower, read-only; None: it does not serve."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as sock:
                sock.sendall(b"srvr")
                text = b""
                while piece := sock.recv(65536):
                    text += piece
        except OSError:
            return None
        return next((line.split(b": ")[1].decode() for line in text.splitlines() if line.startswith(b"Mode: ")), None)

    def is_ready(self):
        return self.mode() in ("standalone", "leader", "follower")

    def client(self, **more):
        return Client(self.port, **more)

    def put(self, service, name, port=8080, **more):
        with self.client() as client:
            client.put(f"/services/{service}/{name}", curator(service, name, port, **more))

    def gone(self, service, name):
        with self.client() as client:
            client.delete(f"/services/{service}/{name}")

    def value(self, service, name):
        with self.client() as client:
            return client.get(f"/services/{service}/{name}")


class Ensemble:
    """Three of them."""

    def __init__(self, folder, more=""):
        folder = pathlib.Path(folder)
        ports = [(free_port(), free_port(), free_port()) for _ in range(3)]
        lines = "".join(f"server.{i + 1}=127.0.0.1:{peer}:{election}\n" for i, (_, peer, election) in enumerate(ports))
        self.servers = [Server(folder / f"s{i + 1}", client, more=lines + more) for i, (client, _, _) in enumerate(ports)]
        for number, server in enumerate(self.servers):
            server.number = number + 1

    def wait_ready(self):
        for server in self.servers:
            server.wait_ready()

    def __enter__(self):
        try:
            for server in self.servers:
                server.start(wait=False)
            self.wait_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.kill()

    def leader(self):
        return wait_until("there is a leader", lambda: next((s for s in self.servers if s.mode() == "leader"), None))
