"""A service's instance that is asked whether it is well: an HTTP server whose answers a test decides."""

import http.server
import socket
import threading


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        instance = self.server.instance
        with instance.lock:
            instance.requests.append(self.path)
            status = instance.status
            if instance.turns:
                status = instance.turns[len(instance.requests) % len(instance.turns)]
        instance.open.wait()
        if instance.delay:
            instance.wake.wait(instance.delay)
        body = instance.body
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            pass  # whoever asked has given up

    def log_message(self, *_):
        pass


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass


class Instance:
    """status, body, delay (seconds) and turns (statuses in turn) may be changed at any time; hold() keeps answers back."""

    def __init__(self, name, port=0, status=200):
        self.name, self.status, self.body, self.delay, self.turns = name, status, b"ok", 0, None
        self.requests = []
        self.lock = threading.Lock()
        self.open, self.wake = threading.Event(), threading.Event()
        self.open.set()
        self.server = _Server(("127.0.0.1", port), _Handler)
        self.server.instance = self
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    @property
    def count(self):
        with self.lock:
            return len(self.requests)

    def hold(self):
        self.open.clear()

    def let_go(self):
        self.open.set()

    def stop(self):
        self.let_go()
        self.wake.set()
        self.server.shutdown()
        self.server.server_close()

    def endpoint(self, **more):
        return {"id": self.name, "address": "127.0.0.1", "port": self.port, **more}


def closed_port():
    """A port that nobody listens on, and nobody else is given while the socket is held."""
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    return held, held.getsockname()[1]
