"""A registry that speaks HTTP and misbehaves on purpose, for the end-to-end tests of discovery plug-ins.

    registry = Registry(answer).start()     # answer(request) returns what is said
    registry.url                            # "http://127.0.0.1:PORT"

What is said is a Reply, or one of the ways not to say it:

    Reply(body, status, headers)   JSON for what is no text; whole, with its length
    Raw(b"...", ...)               bytes as they are, piece after piece, then the connection is closed
    Cut(reply, at)                 the first `at` bytes of the reply's body, then the connection is closed
    Slow(reply, bytes, every)      so many bytes at a time, with a pause between
    Stream(pieces)                 chunked; pieces is an iterable of texts and may wait; ends when they end
    Silence(head)                  the head of an answer or nothing, and then not a byte more
    Flood(head, piece)             the piece again and again for as long as anybody reads
    Reset()                        the connection is reset without an answer

One that is not to last: registry.faults.append(Fault(lambda request: Reply("no leader", 500), times=1)). A fault takes
requests away from `answer` while its `times` last (None: until it is removed) and `when(request)` is true.

The whole server: stop() closes the door and every connection, so that connections are refused, and start() opens the
same port again; freeze() is a process stopped by SIGSTOP, which takes connections and says nothing, thaw() ends it.

With registry.tls, an ssl.SSLContext, it speaks HTTPS, and registry.url says so.

What was asked is on record: registry.requests, each with its time (time.monotonic()).
"""

import json
import socket
import ssl
import struct
import threading
import time
import urllib.parse

HEAD_MAX = 65536


class Request:
    def __init__(self, method, target, headers, body, connection):
        self.method, self.target, self.headers, self.body = method, target, headers, body
        self.connection = connection  # its number, from 0
        self.time = time.monotonic()
        parts = urllib.parse.urlsplit(target)
        self.path = urllib.parse.unquote(parts.path)
        self.query = {k: v[-1] for k, v in urllib.parse.parse_qs(parts.query, keep_blank_values=True).items()}

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.method} {self.target}"


class Reply:
    def __init__(self, body="", status=200, headers=None, reason="Said"):
        self.status, self.reason = status, reason
        self.headers = dict(headers or {})
        if isinstance(body, bytes):
            self.body = body
        elif isinstance(body, str):
            self.body = body.encode()
        else:
            self.body = json.dumps(body).encode()
            self.headers.setdefault("Content-Type", "application/json")

    def head(self, framing):
        lines = [f"HTTP/1.1 {self.status} {self.reason}", framing, *(f"{k}: {v}" for k, v in self.headers.items())]
        return ("\r\n".join(line for line in lines if line) + "\r\n\r\n").encode()

    def say(self, to):
        to.send(self.head(f"Content-Length: {len(self.body)}") + self.body)
        return True


class Redirect(Reply):
    def __init__(self, location, status=302):
        super().__init__("", status, {"Location": location})


class Raw:
    def __init__(self, *pieces):
        self.pieces = pieces

    def say(self, to):
        for piece in self.pieces:
            to.send(piece)
        return False


class Cut:
    def __init__(self, reply, at):
        self.reply, self.at = reply, at

    def say(self, to):
        to.send(self.reply.head(f"Content-Length: {len(self.reply.body)}") + self.reply.body[:self.at])
        return False


class Slow:
    def __init__(self, reply, size=1, every=0.01):
        self.reply, self.size, self.every = reply, size, every

    def say(self, to):
        whole = self.reply.head(f"Content-Length: {len(self.reply.body)}") + self.reply.body
        for i in range(0, len(whole), self.size):
            to.send(whole[i:i + self.size])
            if to.gone.wait(self.every):
                return False
        return True


class Stream:
    """Pieces may come from a generator that waits; it is given up when the other side goes."""

    def __init__(self, pieces, headers=None, status=200):
        self.pieces, self.reply = pieces, Reply("", status, headers)

    def say(self, to):
        to.send(self.reply.head("Transfer-Encoding: chunked"))
        for piece in self.pieces:
            data = piece.encode() if isinstance(piece, str) else piece
            if data:
                to.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        to.send(b"0\r\n\r\n")
        return True


class Silence:
    def __init__(self, head=b""):
        self.head = head

    def say(self, to):
        if self.head:
            to.send(self.head)
        to.wait_gone()
        return False


class Flood:
    def __init__(self, head=b"HTTP/1.1 200 OK\r\n\r\n", piece=b"x" * 65536):
        self.head, self.piece = head, piece

    def say(self, to):
        to.send(self.head)
        while True:
            to.send(self.piece)


class Reset:
    def say(self, to):
        to.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        to.socket.close()
        return False


class Fault:
    def __init__(self, answer, times=1, when=lambda request: True):
        self.answer, self.times, self.when = answer, times, when


class Gone(Exception):
    """The other side, or the server itself, has closed the connection."""


class Connection:
    def __init__(self, registry, sock, number):
        self.registry, self.socket, self.number = registry, sock, number
        self.gone = threading.Event()
        self.buffer = b""

    def send(self, data):
        self.registry.running.wait()
        try:
            self.socket.sendall(data)
        except OSError as e:
            raise Gone from e

    def wait_gone(self):
        try:
            while self.socket.recv(65536):
                pass
        except OSError:
            pass
        self.gone.set()

    def fill(self):
        try:
            data = self.socket.recv(65536)
        except OSError as e:
            raise Gone from e
        if not data:
            raise Gone
        self.buffer += data

    def read(self):
        while b"\r\n\r\n" not in self.buffer:
            if len(self.buffer) > HEAD_MAX:
                raise Gone
            self.fill()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ", 2)
        headers = {k.strip().lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:])}
        size = int(headers.get("content-length", "0"))
        if headers.get("expect", "").lower() == "100-continue":
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        while len(self.buffer) < size:
            self.fill()
        body, self.buffer = self.buffer[:size], self.buffer[size:]
        return Request(method, target, headers, body, self.number)

    def serve(self):
        try:
            if self.registry.tls:
                self.shake_hands()
            while True:
                request = self.read()
                self.registry.running.wait()
                if not self.registry.choose(request).say(self):
                    break
        except Gone:
            pass
        finally:
            self.close()
            self.registry.forget(self)

    def shake_hands(self):
        try:
            self.socket = self.registry.tls.wrap_socket(self.socket, server_side=True)
        except (OSError, ssl.SSLError) as e:
            raise Gone from e

    def close(self):
        self.gone.set()
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()


class Registry:
    def __init__(self, answer):
        self.answer = answer
        self.faults = []
        self.requests = []
        self.lock = threading.Condition()
        self.running = threading.Event()
        self.running.set()
        self.connections = set()
        self.connection_count = self.most_open = 0
        self.port = 0
        self.tls = None
        self.listener = self.thread = None

    @property
    def url(self):
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    # ---- the whole server ----

    def start(self):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", self.port))
        self.listener.listen(1024)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.accept, args=(self.listener,), daemon=True)
        self.thread.start()
        return self

    def stop(self):
        self.thaw()
        if self.listener:
            # A close alone does not end an accept() that waits.
            try:
                self.listener.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            self.listener.close()
            self.thread.join()
            self.listener = None
        with self.lock:
            connections = list(self.connections)
            self.lock.notify_all()
        for connection in connections:
            connection.close()

    def freeze(self):
        self.running.clear()

    def thaw(self):
        self.running.set()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with self.lock:
                connection = Connection(self, sock, self.connection_count)
                self.connection_count += 1
                self.connections.add(connection)
                self.most_open = max(self.most_open, len(self.connections))
            threading.Thread(target=connection.serve, daemon=True).start()

    def forget(self, connection):
        with self.lock:
            self.connections.discard(connection)

    # ---- what is asked and said ----

    def choose(self, request):
        with self.lock:
            self.requests.append(request)
            self.lock.notify_all()
            answer = self.answer
            for fault in list(self.faults):
                if not fault.when(request):
                    continue
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times <= 0:
                        self.faults.remove(fault)
                answer = fault.answer
                break
        # Outside the lock: an answer may wait.
        said = answer(request)
        return said if hasattr(said, "say") else Reply(said)

    def asked(self, when=lambda request: True):
        with self.lock:
            return [r for r in self.requests if when(r)]

    def wait_asked(self, when=lambda request: True, count=1, deadline=60.0):
        """Wait until so many requests match; returns them."""
        end = time.monotonic() + deadline
        with self.lock:
            while True:
                found = [r for r in self.requests if when(r)]
                if len(found) >= count:
                    return found
                left = end - time.monotonic()
                if left <= 0 or not self.lock.wait(left):
                    raise AssertionError(f"{len(found)} of {count} requests within {deadline} s; "
                                         f"the last ones: {self.requests[-10:]}")
