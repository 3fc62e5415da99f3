"""Servers that health checks ask: good ones, bad ones, and liars.

Run with a folder, it makes a CA and certificates there with openssl, starts every server on a port of
127.0.0.1 that the kernel chooses, prints "NAME PORT" lines and "ready", and serves until its standard
input ends.
"""

import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from certificates import Certificates

FOLDER = sys.argv[1]


def at(name):
    return os.path.join(FOLDER, name)


# ---- certificates ----


def make_certificates():
    made = Certificates(FOLDER)
    made.make_ca("ca")
    made.make_ca("other-ca")
    own = "DNS:localhost,DNS:shop.test,IP:127.0.0.1"
    made.make("good", "ca", own)
    made.make("stranger", "other-ca", own)
    made.make("misnamed", "ca", "DNS:elsewhere.test")
    made.make("expired", "ca", own, ("-startdate", "20200101000000Z", "-enddate", "20200102000000Z"))


def tls_context(name, alpn=()):
    context = Certificates(FOLDER).context(name)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


# ---- HTTP ----


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self):
        with self.server.lock:
            self.server.requests += 1
        path = self.path.split("?")[0]
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        if path == "/hang":
            self.rfile.read(1)
            return
        status = int(path[1:]) if path[1:].isdigit() else 200
        body = json.dumps({"status": "UP", "sni": getattr(self.connection, "sni", None), "requests": self.server.requests,
                           "connections": self.server.connections, "method": self.command,
                           "host": self.headers["Host"], "path": self.path}).encode()
        if path == "/large":
            body = b"x" * 300000
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if path == "/headers":
            for i in range(99):
                self.send_header(f"X-{i}", "x" * 1000)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_OPTIONS = answer


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, context=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.context = context
        self.connections = self.requests = 0
        self.lock = threading.Lock()

    def finish_request(self, request, client_address):  # in the connection's own thread
        with self.lock:
            self.connections += 1
        try:
            if self.context:
                request = self.context.wrap_socket(request, server_side=True)
            super().finish_request(request, client_address)
        except OSError:
            pass
        finally:
            request.close()

    def handle_error(self, request, client_address):
        pass


def remember_sni(connection, name, _):
    connection.sni = name


def start_http(certificate=None):
    context = tls_context(certificate) if certificate else None
    if context:
        context.sni_callback = remember_sni
    server = Server(context)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


# ---- anything over TCP ----


def start_tcp(serve, context=None):
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)

    def run(connection):
        try:
            if context:
                connection = context.wrap_socket(connection, server_side=True)
            serve(connection)
        except OSError:
            pass
        finally:
            connection.close()

    def accept():
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=run, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def until_end(connection):
    while connection.recv(4096):
        pass


def redis(connection):
    if connection.recv(64) == b"PING\r\n":
        connection.sendall(b"+PO")
        connection.sendall(b"NG\r\n")
    until_end(connection)


def banner(connection):
    connection.sendall(b"220 ready\r\n")
    until_end(connection)


def hang_up(connection):
    connection.recv(64)


def garbage(connection):
    connection.recv(64)
    connection.sendall(b"\x00\x01\x02 nothing that anybody speaks \xff\xfe\r\n\r\n")
    until_end(connection)


# ---- gRPC, by the real library ----


def health_check(request, context):
    """HealthCheckRequest and HealthCheckResponse by hand: field 1 of each."""
    service = request[2:].decode() if request else ""
    if service == "deep":  # where the field comes late, behind one that nobody knows
        return b"\x12\x03abc\x08\x02\x08\x01"
    if len(request) > 130:
        service = request[3:].decode()
    if service in ("", "shop") or set(service) == {"s"}:
        return b"\x08\x01"
    if service == "closed":
        return b"\x08\x02"
    if service == "undecided":
        return b""
    if service == "broken":
        context.abort(grpc.StatusCode.INTERNAL, "the database is \u00fcberfull\n100 %")
    if service == "slow":
        threading.Event().wait(60)
    context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
    return b""


def start_grpc(with_health=True, certificate=None):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
    if with_health:
        check = grpc.unary_unary_rpc_method_handler(health_check)
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": check}),))
    if certificate:
        pair = tuple(open(at(f"{certificate}.{kind}"), "rb").read() for kind in ("key", "pem"))
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    SERVERS.append(server)
    return port


# ---- HTTP/2, by hand: liars ----

DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY = 0, 1, 3, 4, 7
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def hpack_length(value, bits):
    limit = (1 << bits) - 1
    if value < limit:
        return bytes((value,))
    out, value = [limit], value - limit
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes((*out, value))


def headers(stream, pairs, flags=0):
    block = b""
    for name, value in pairs:
        name, value = name.encode(), value.encode()
        block += b"\x00" + hpack_length(len(name), 7) + name + hpack_length(len(value), 7) + value
    return frame(HEADERS, flags | END_HEADERS, stream, block)


OK = [(":status", "200"), ("content-type", "application/grpc")]
FINE = [("grpc-status", "0")]


def grpc_frame(message, compressed=0, length=None):
    return bytes((compressed,)) + struct.pack(">I", len(message) if length is None else length) + message


def answer_of(message, trailers, **how):
    return (headers(1, OK) + frame(DATA, 0, 1, grpc_frame(message, **how)) +
            headers(1, trailers, END_STREAM))


LIES = {
    "h2-good": answer_of(b"\x08\x01", FINE),
    "h2-no-status": headers(1, OK) + frame(DATA, END_STREAM, 1, grpc_frame(b"\x08\x01")),
    "h2-odd-status": answer_of(b"\x08\x01", [("grpc-status", "0x0")]),
    "h2-status-first": headers(1, OK + FINE) + frame(DATA, 0, 1, grpc_frame(b"\x08\x01")) +
                       headers(1, [("grpc-status", "14"), ("grpc-message", "going%20away")], END_STREAM),
    "h2-no-message": headers(1, OK + FINE, END_STREAM),
    "h2-long-frame": answer_of(b"\x08\x01", FINE, length=3),
    "h2-two-frames": headers(1, OK) + frame(DATA, 0, 1, grpc_frame(b"\x08\x01") * 2) + headers(1, FINE, END_STREAM),
    "h2-compressed": answer_of(b"\x08\x01", FINE, compressed=1),
    "h2-no-protobuf": answer_of(b"\xff\xff\xff", FINE),
    "h2-unknown-state": answer_of(b"\x08\x2a", FINE),
    "h2-html": headers(1, [(":status", "404"), ("content-type", "text/html")]) + frame(DATA, END_STREAM, 1, b"<p>no"),
    "h2-plain": headers(1, [(":status", "200"), ("content-type", "text/plain")]) + frame(DATA, END_STREAM, 1, b"ok"),
    "h2-flood": headers(1, OK) + frame(DATA, 0, 1, b"\x00" * 16000),
    "h2-reset": headers(1, OK) + frame(RST_STREAM, 0, 1, struct.pack(">I", 2)),
    "h2-goaway": frame(GOAWAY, 0, 0, struct.pack(">II", 0, 11)),
    "h2-cut": headers(1, OK) + frame(DATA, 0, 1, grpc_frame(b"\x08\x01"))[:12],
    "h2-many-headers": headers(1, OK + [(f"x-{i}", "x" * 1000) for i in range(15)]),
    "h2-rubbish": b"\xff" * 64,
    "h2-http1": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
}


def receive_exactly(connection, size):
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise OSError("ended")
        data += part
    return data


def lie(answer, hangs_up):
    def serve(connection):
        receive_exactly(connection, 24)  # the preface
        if answer[:4] != b"HTTP":
            connection.sendall(frame(SETTINGS, 0, 0, b""))
        while True:
            head = receive_exactly(connection, 9)
            receive_exactly(connection, int.from_bytes(head[:3], "big"))
            if head[3] == DATA and head[4] & END_STREAM:
                break
        connection.sendall(answer)
        if not hangs_up:
            until_end(connection)
    return serve


# ---- all of them ----

SERVERS = []


def main():
    make_certificates()
    ports = {
        "http": start_http(),
        "https": start_http("good"),
        "https-stranger": start_http("stranger"),
        "https-misnamed": start_http("misnamed"),
        "https-expired": start_http("expired"),
        "redis": start_tcp(redis),
        "banner": start_tcp(banner),
        "hang-up": start_tcp(hang_up),
        "garbage": start_tcp(garbage),
        "silent": start_tcp(until_end),
        "tls-hang-up": start_tcp(hang_up, tls_context("good")),
        "tls-garbage": start_tcp(garbage, tls_context("good")),
        "grpc": start_grpc(),
        "grpc-tls": start_grpc(certificate="good"),
        "grpc-bare": start_grpc(with_health=False),
    }
    for name, answer in LIES.items():
        ports[name] = start_tcp(lie(answer, hangs_up=name in ("h2-cut", "h2-http1", "h2-goaway")))
    for name, port in ports.items():
        print(name, port)
    print("ready", flush=True)
    sys.stdin.read()
    os._exit(0)


main()
