"""A daemon that says what a test tells it to: HTTP over a Unix socket, in the shapes of docs/api.md.

Answers are looked up by method and path, without the query; a stream is a Channel that the test
feeds line by line. stop() and start() are a restart: the socket goes, and so does every connection.
"""

import json
import os
import queue
import socket
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, unquote, urlsplit


class Problem(Exception):
    def __init__(self, status, code, detail, **more):
        super().__init__(detail)
        self.status = status
        self.body = {"type": "about:blank", "title": code, "status": status, "code": code, "detail": detail, **more}


class Channel:
    """A stream: every line put is sent to each connection that follows it, from its first line on."""

    def __init__(self, *lines):
        self.lines = list(lines)
        self.followers = []
        self.lock = threading.Lock()
        self.opened = threading.Semaphore(0)

    def put(self, line):
        with self.lock:
            self.lines.append(line)
            for follower in self.followers:
                follower.put(line)

    def end(self):
        self.put(None)

    def follow(self):
        follower = queue.Queue()
        with self.lock:
            for line in self.lines:
                follower.put(line)
            self.followers.append(follower)
        self.opened.release()
        return follower


class Request:
    def __init__(self, method, path, query, body, headers):
        self.method = method
        self.path = path
        self.query = query
        self.body = body
        self.headers = headers

    def __repr__(self):
        return f"{self.method} {self.path} {self.query} {self.body}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def address_string(self):
        return "unix"

    def setup(self):
        super().setup()
        self.server.daemon.connections.add(self.connection)

    def finish(self):
        self.server.daemon.connections.discard(self.connection)
        try:
            super().finish()
        except OSError:
            pass

    def handle(self):
        try:
            super().handle()
        except OSError:
            pass

    def answer(self, status, body, content_type="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        if status == 204:
            data = b""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, channel):
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        follower = channel.follow()
        while True:
            line = follower.get()
            if line is None:
                self.wfile.write(b"0\r\n\r\n")
                return
            data = line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

    def serve(self):
        url = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(length) if length else b""
        query = {name: values if len(values) > 1 else values[0] for name, values in parse_qs(url.query).items()}
        request = Request(self.command, unquote(url.path), query, json.loads(text) if text else None, self.headers)
        daemon = self.server.daemon
        daemon.requests.append(request)
        try:
            answer = daemon.find(request)
            if isinstance(answer, Channel):
                self.stream(answer)
            elif isinstance(answer, tuple):
                self.answer(*answer)
            else:
                self.answer(200, answer)
        except Problem as problem:
            self.answer(problem.status, problem.body, "application/problem+json")

    do_GET = do_POST = do_PUT = do_DELETE = serve


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128


class ScriptedDaemon:
    def __init__(self, path):
        self.path = str(path)
        self.answers = {}
        self.requests = []
        self.connections = set()
        self.server = None

    def on(self, method, path, answer):
        """answer: a value (200), (status, value), a Problem, a Channel, or a function of the request."""
        self.answers[(method, path)] = answer

    def find(self, request):
        if (request.method, request.path) not in self.answers:
            raise Problem(404, "not_found", f"there is nothing at {request.path}")
        answer = self.answers[(request.method, request.path)]
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, Problem):
            raise answer
        return answer

    def asked(self, method, path):
        return [request for request in self.requests if (request.method, request.path) == (method, path)]

    def start(self):
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.server = Server(self.path, Handler)
        self.server.daemon = self
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def stop(self, leave_socket=False):
        if not self.server:
            return
        self.server.shutdown()
        self.server.server_close()
        self.server = None
        if not leave_socket:
            os.unlink(self.path)
        for connection in list(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __enter__(self):
        return self.start()

    def __exit__(self, *args):
        self.stop()
