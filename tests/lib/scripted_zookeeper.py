"""A server of ZooKeeper that is played: nodes, sessions, watches and ACLs as the real one has them, and faults on purpose."""

import base64
import hashlib
import itertools
import json
import socket
import struct
import threading
import time
import zlib

import jute
from jute import Reader, Writer


class Failure(Exception):
    def __init__(self, code):
        super().__init__(str(code))
        self.code = code


class Gone(Exception):
    """The connection is over."""


# ---- what goes wrong: called with (connection, request or None for the greeting) in place of the answer ----

def silence(connection, _):
    connection.wait_gone()


def cut(connection, _):
    raise Gone


def reset(connection, _):
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raise Gone


def raw(*pieces):
    def say(connection, _):
        for piece in pieces:
            connection.send(piece)
        raise Gone
    return say


def raw_and_silence(data):
    def say(connection, _):
        connection.send(data)
        connection.wait_gone()
    return say


def flood(piece=b"\0\0\0\x10" + b"x" * 16):
    def say(connection, _):
        while True:
            connection.send(piece * 4096)
    return say


def error(code):
    def say(connection, request):
        connection.reply(request.xid, code)
    return say


class Fault:
    """answer(connection, request) for so many requests (None: for all) for which `when` holds."""

    def __init__(self, answer, times=1, when=lambda request: True):
        self.answer, self.times, self.when = answer, times, when


class Request:
    def __init__(self, frame):
        reader = Reader(frame)
        self.xid, self.op = reader.int(), reader.int()
        self.body = frame[8:]
        self.path = None
        if self.op not in (jute.PING, jute.CLOSE, jute.AUTH, jute.SET_WATCHES, jute.MULTI):
            self.path = Reader(self.body).text()

    def __repr__(self):
        return f"{self.op} {self.path} (xid {self.xid})"


class Node:
    def __init__(self, data, acl, owner, zxid, container=False):
        self.data, self.acl, self.owner, self.container = data, acl, owner, container
        self.czxid = self.mzxid = self.pzxid = zxid
        self.version = self.cversion = self.acl_version = 0


def digest_of(secret):
    name = secret.split(":")[0]
    return name + ":" + base64.b64encode(hashlib.sha1(secret.encode()).digest()).decode()


class Connection:
    def __init__(self, server, sock):
        self.server, self.sock = server, sock
        self.sending = threading.Lock()
        self.session = None
        self.ids = {("world", "anyone")}
        self.watches = {"data": set(), "exist": set(), "child": set()}

    def send(self, data):
        with self.sending:
            try:
                self.sock.sendall(data)
            except OSError:
                raise Gone from None

    def read(self, size):
        data = b""
        while len(data) < size:
            try:
                piece = self.sock.recv(size - len(data))
            except OSError:
                piece = b""
            if not piece:
                raise Gone
            data += piece
        return data

    def read_frame(self):
        return self.read(struct.unpack(">i", self.read(4))[0])

    def wait_gone(self):
        while True:
            self.read(1)

    def reply(self, xid, code=jute.OK, body=b""):
        writer = Writer().int(xid).long(self.server.zxid).int(code)
        writer.data += body if code == jute.OK else b""
        self.send(writer.frame())

    def tell(self, change, path):
        self.send(Writer().int(jute.WATCH_XID).long(-1).int(0).int(change).int(3).text(path).frame())

    def greet(self):
        reader = Reader(self.read_frame())
        reader.int()
        seen, timeout, number, password = reader.long(), reader.int(), reader.long(), reader.bytes()
        self.server.greetings.append({"zxid": seen, "timeout": timeout, "session": number, "at": time.monotonic()})
        if self.server.fault(self, None):
            return False
        if seen > self.server.zxid:
            raise Gone
        with self.server.lock:
            self.server.sessions.setdefault(0, None)
            known = self.server.sessions.get(number)
            if number and known != password:
                self.send(Writer().int(0).int(0).long(0).bytes(b"\0" * 16).bool(False).frame())
                raise Gone
            if not number:
                number = next(self.server.numbers)
                password = number.to_bytes(16, "big")
                self.server.sessions[number] = password
            self.session = number
            self.server.connections.append(self)
        timeout = self.server.timeout or timeout
        self.send(Writer().int(0).int(timeout).long(number).bytes(password).bool(self.server.read_only).frame())
        return True

    def serve(self):
        try:
            while not self.greet():
                pass
            while True:
                request = Request(self.read_frame())
                self.server.requests.append(request)
                if request.op == jute.PING:
                    self.reply(jute.PING_XID)
                elif not self.server.fault(self, request):
                    self.answer(request)
        except (Gone, EOFError):
            pass
        finally:
            with self.server.lock:
                if self in self.server.connections:
                    self.server.connections.remove(self)
            self.sock.close()

    def answer(self, request):
        if request.op == jute.CLOSE:
            self.reply(request.xid)
            self.server.expire(self.session)
            raise Gone
        with self.server.lock:
            try:
                body = self.server.act(self, request.op, Reader(request.body))
                code = jute.OK
            except Failure as failure:
                body, code = b"", failure.code
            self.reply(request.xid, code, body)


class ZooKeeper:
    """Nodes and everything else, with the way to do to it what the world does."""

    def __init__(self):
        self.lock = threading.RLock()
        self.timeout = None  # of sessions, in ms; None: as is asked for
        self.read_only = False
        self.faults = []
        self.requests, self.greetings = [], []
        self.connections = []
        self.numbers = itertools.count(0x100001)
        self.epoch = itertools.count(1)
        self.forget()
        self.listener = None
        self.port = 0
        self.start()

    def forget(self):
        """As it is when its data were wiped."""
        with self.lock:
            self.zxid = 0
            self.sessions = {}
            self.nodes = {"/": Node(b"", jute.OPEN, 0, 0)}

    # ---- life ----

    def start(self):
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=1024)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=Connection(self, sock).serve, daemon=True).start()

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()

    def cut(self):
        """Every connection ends."""
        with self.lock:
            for connection in list(self.connections):
                try:
                    connection.sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def fault(self, connection, request):
        with self.lock:
            for fault in list(self.faults):
                if not fault.when(request):
                    continue
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times == 0:
                        self.faults.remove(fault)
                break
            else:
                return False
        fault.answer(connection, request)
        return True

    def asked(self, op=None, path=None):
        return [r for r in list(self.requests) if (op is None or r.op == op) and (path is None or r.path == path)]

    # ---- what a test does ----

    def put(self, path, data, owner=0, acl=None):
        """Make it, with everything above it, or change it."""
        data = data if isinstance(data, bytes) else (data if isinstance(data, str) else json.dumps(data)).encode()
        with self.lock:
            if path in self.nodes:
                self.set_data(path, data)
                return
            parent = path.rpartition("/")[0]
            if parent and parent not in self.nodes:
                self.put(parent, b"")
            self.create(path, data, acl or jute.OPEN, owner)

    def delete(self, path):
        with self.lock:
            for child in self.children(path):
                self.delete(f"{path.rstrip('/')}/{child}")
            self.remove(path)

    def instance(self, service, name, port=None, base="/services", **more):
        self.put(f"{base}/{service}/{name}", curator(service, name, port or port_of(name), **more))

    def gone(self, service, name):
        self.delete(f"/services/{service}/{name}")

    def value(self, path):
        node = self.nodes.get(path)
        return node and json.loads(node.data)

    def protect(self, path, acl):
        with self.lock:
            self.nodes[path].acl = acl
            self.nodes[path].acl_version += 1

    def expire(self, number=None):
        """End a session, or all of them, with their nodes and connections."""
        with self.lock:
            for one in [number] if number else [n for n in self.sessions if n]:
                self.sessions.pop(one, None)
                for path in [p for p, node in self.nodes.items() if node.owner == one]:
                    self.remove(path)
                for connection in list(self.connections):
                    if connection.session == one:
                        try:
                            connection.sock.shutdown(socket.SHUT_RDWR)
                        except OSError:
                            pass

    # ---- the tree ----

    def children(self, path):
        start = path.rstrip("/") + "/"
        return [p[len(start):] for p in self.nodes if p.startswith(start) and p != "/" and "/" not in p[len(start):]]

    def fire(self, path, change, *kinds):
        for connection in list(self.connections):
            hit = [kind for kind in kinds if path in connection.watches[kind]]
            for kind in hit:
                connection.watches[kind].discard(path)
            if hit:
                try:
                    connection.tell(change, path)
                except Gone:
                    pass

    def create(self, path, data, acl, owner, container=False):
        parent = path.rpartition("/")[0] or "/"
        if parent not in self.nodes:
            raise Failure(jute.NO_NODE)
        if path in self.nodes:
            raise Failure(jute.NODE_EXISTS)
        self.zxid += 1
        self.nodes[path] = Node(data, acl, owner, self.zxid, container)
        self.nodes[parent].pzxid = self.zxid
        self.nodes[parent].cversion += 1
        self.fire(path, jute.CREATED, "exist", "data")
        self.fire(parent, jute.CHILD, "child")

    def remove(self, path, version=-1):
        node = self.nodes.get(path)
        if not node:
            raise Failure(jute.NO_NODE)
        if version not in (-1, node.version):
            raise Failure(jute.BAD_VERSION)
        if self.children(path):
            raise Failure(jute.NOT_EMPTY)
        self.zxid += 1
        del self.nodes[path]
        parent = path.rpartition("/")[0] or "/"
        self.nodes[parent].pzxid = self.zxid
        self.fire(path, jute.DELETED, "data", "exist", "child")
        self.fire(parent, jute.CHILD, "child")

    def set_data(self, path, data, version=-1):
        node = self.nodes.get(path)
        if not node:
            raise Failure(jute.NO_NODE)
        if version not in (-1, node.version):
            raise Failure(jute.BAD_VERSION)
        self.zxid += 1
        node.data, node.mzxid = data, self.zxid
        node.version += 1
        self.fire(path, jute.CHANGED, "data", "exist")

    # ---- what is asked ----

    def may(self, connection, path, permission):
        node = self.nodes.get(path)
        if node and not any(p & permission and (scheme, name) in connection.ids for p, scheme, name in node.acl):
            raise Failure(jute.NO_AUTH)
        return node

    def stat(self, path):
        n = self.nodes[path]
        writer = Writer().long(n.czxid).long(n.mzxid).long(0).long(0).int(n.version).int(n.cversion)
        return writer.int(n.acl_version).long(n.owner).int(len(n.data)).int(len(self.children(path))).long(n.pzxid).data

    def act(self, connection, op, reader):
        if op == jute.AUTH:
            return self.authenticate(connection, reader)
        if op == jute.SET_WATCHES:
            return self.watch_again(connection, reader)
        if op == jute.MULTI:
            return self.multi(connection, reader)
        path = reader.text()
        if op == jute.SYNC:
            return Writer().text(path).data
        if op in (jute.EXISTS, jute.GET_DATA, jute.GET_CHILDREN2):
            return self.read(connection, op, path, reader.bool())
        return self.write(connection, op, path, reader)

    def read(self, connection, op, path, watch):
        if op == jute.EXISTS:
            if watch:
                connection.watches["exist" if path not in self.nodes else "data"].add(path)
            if path not in self.nodes:
                raise Failure(jute.NO_NODE)
            return self.stat(path)
        node = self.may(connection, path, jute.READ)
        if not node:
            raise Failure(jute.NO_NODE)
        if watch:
            connection.watches["data" if op == jute.GET_DATA else "child"].add(path)
        writer = Writer()
        if op == jute.GET_DATA:
            writer.bytes(node.data)
        else:
            writer.texts(self.children(path))
        writer.data += self.stat(path)
        return writer.data

    def write(self, connection, op, path, reader):
        if op in (jute.CREATE, jute.CREATE_CONTAINER):
            data, acl, mode = reader.bytes(), reader.acl(), reader.int()
            self.may(connection, path.rpartition("/")[0] or "/", 4)
            acl = [(p, *one) for p, scheme, name in acl
                   for one in (connection.ids - {("world", "anyone")} if scheme == "auth" else [(scheme, name)])]
            self.create(path, data, acl, connection.session if mode == jute.EPHEMERAL else 0, mode == jute.CONTAINER)
            return Writer().text(path).data + (self.stat(path) if op == jute.CREATE_CONTAINER else b"")
        if op == jute.DELETE:
            self.may(connection, path.rpartition("/")[0] or "/", 8)
            self.remove(path, reader.int())
            return b""
        if op == jute.SET_DATA:
            self.may(connection, path, 2)
            self.set_data(path, reader.bytes(), reader.int())
            return self.stat(path)
        raise Failure(jute.UNIMPLEMENTED)

    def multi(self, connection, reader):
        """All or nothing: what fails undoes what went before it."""
        before = dict(self.nodes)
        writer = Writer()
        while True:
            op, done, _ = reader.int(), reader.bool(), reader.int()
            if done:
                writer.int(-1).bool(True).int(-1)
                return writer.data
            try:
                body = self.write(connection, op, reader.text(), reader)
            except Failure as failure:
                self.nodes = before
                return Writer().int(-1).bool(False).int(failure.code).int(failure.code).int(-1).bool(True).int(-1).data
            writer.int(op).bool(False).int(0)
            writer.data += body

    def authenticate(self, connection, reader):
        reader.int()
        scheme, secret = reader.text(), reader.bytes()
        connection.ids.add((scheme, digest_of(secret.decode())))
        return b""

    def watch_again(self, connection, reader):
        seen = reader.long()
        data, exist, child = reader.texts(), reader.texts(), reader.texts()
        for kind, paths in (("data", data), ("exist", exist), ("child", child)):
            for path in paths:
                node = self.nodes.get(path)
                if kind == "exist" and node:
                    connection.tell(jute.CREATED, path)
                elif kind != "exist" and not node:
                    connection.tell(jute.DELETED, path)
                elif node and (node.mzxid if kind == "data" else node.pzxid) > seen:
                    connection.tell(jute.CHANGED if kind == "data" else jute.CHILD, path)
                else:
                    connection.watches[kind].add(path)
        return b""


def port_of(name):
    """One of its own: two instances at one address would be one that has another name."""
    return 10000 + zlib.crc32(name.encode()) % 50000


def curator(service, name, port=8080, address="127.0.0.1", status="UP", metadata=None, **more):
    """An instance as Spring Cloud registers it."""
    payload = {"@class": "org.springframework.cloud.zookeeper.discovery.ZookeeperInstance", "id": name, "name": service,
               "metadata": {"instance_status": status, **(metadata or {})}}
    return {"name": service, "id": name, "address": address, "port": port, "sslPort": None, "payload": payload,
            "registrationTimeUTC": 1700000000000, "serviceType": "DYNAMIC", "uriSpec": {"parts": [
                {"value": "scheme", "variable": True}, {"value": "://", "variable": False},
                {"value": "address", "variable": True}, {"value": ":", "variable": False},
                {"value": "port", "variable": True}]}, **more}
