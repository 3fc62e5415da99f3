"""A name server that is played: it answers from a zone that a test changes, and misbehaves as a test says.

    with DnsServer() as dns:
        dns.srv("_http._tcp.web.test", (10, 1, 8080, "a.test"), ttl=1)
        dns.a("a.test", "10.0.0.1", ttl=1)
        dns.faults.append(Fault(servfail, times=None))

It is authoritative for `test`, refuses what is not below it, answers over UDP and TCP on one port, truncates what is too long for
UDP, and gives each negative answer an SOA. A fault takes a question and what would be answered, and returns the
messages to be sent instead: none, or several; or None to leave this question alone.
"""

import ipaddress
import socket
import struct
import threading
import time

A, CNAME, SOA, AAAA, SRV, OPT = 1, 5, 6, 28, 33, 41
NOERROR, SERVFAIL, NXDOMAIN, REFUSED = 0, 2, 3, 5


def encode_name(name):
    labels = [label.encode() for label in name.strip(".").split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def record(name, kind, ttl, data):
    return encode_name(name) + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data


class Question:
    def __init__(self, data, tcp):
        self.data, self.tcp = data, tcp
        self.id, self.flags, _, _, _, extra = struct.unpack("!6H", data[:12])
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1:at + 1 + data[at]].decode())
            at += 1 + data[at]
        self.name = ".".join(labels).lower()
        self.kind, _ = struct.unpack("!HH", data[at + 1:at + 5])
        self.raw = data[12:at + 5]
        self.time = time.monotonic()
        self.edns = None
        if extra and data[at + 5] == 0:
            kind, size = struct.unpack("!HH", data[at + 6:at + 10])
            self.edns = size if kind == OPT else None

    def __repr__(self):
        return f"{self.name} {self.kind}{' tcp' if self.tcp else ''}"


class Answer:
    def __init__(self, rcode=NOERROR, answers=(), authority=(), additional=(), truncated=False, aa=True):
        self.rcode, self.answers, self.authority, self.additional = rcode, list(answers), list(authority), list(additional)
        self.truncated, self.aa = truncated, aa

    def encode(self, question, limit=65535):
        flags = 0x8000 | (0x0400 if self.aa else 0) | (question.flags & 0x0100) | self.rcode
        additional = list(self.additional)
        if question.edns is not None:
            additional.append(b"\0" + struct.pack("!HHIH", OPT, 1232, 0, 0))
        while True:
            answers = [] if self.truncated else self.answers
            size = 12 + len(question.raw) + sum(map(len, answers + self.authority + additional))
            if size <= limit:
                break
            if len(additional) > (question.edns is not None):
                additional.pop(0)
            else:
                self.truncated = True
        head = struct.pack("!6H", question.id, flags | (0x0200 if self.truncated else 0), 1, len(answers), len(self.authority),
                           len(additional))
        return head + question.raw + b"".join(answers + self.authority + additional)


class Fault:
    """do(question, message) gives the messages to send; for so many questions (None: all), where when(question)."""

    def __init__(self, do, times=1, when=lambda question: True):
        self.do, self.times, self.when = do, times, when


def rcode(code):
    return lambda question, message: [Answer(code).encode(question)]


servfail, refused, bare_nxdomain = rcode(SERVFAIL), rcode(REFUSED), rcode(NXDOMAIN)


def silence(question, message):
    return []


def wrong_id(question, message):
    return [struct.pack("!H", question.id ^ 1) + message[2:]]


def wrong_question(question, message):
    other = Question(question.data, question.tcp)
    other.raw = encode_name("other.test") + other.raw[-4:]
    return [Answer().encode(other)]


def garbage(question, message):
    return [message[:2] + b"\x84\x00\x00\x01\x00\x05" + message[8:40]]


def truncated(question, message):
    return [Answer(truncated=True).encode(question)]


def late(seconds):
    def do(question, message):
        time.sleep(seconds)
        return [message]
    return do


class DnsServer:
    def __init__(self, additional=True, port=0):
        self.additional, self.port = additional, port
        self.lock = threading.RLock()
        self.records = {}   # (name, kind): [(ttl, data)]
        self.faults = []
        self.questions = []
        self.part = None    # so many records an answer, and others each time
        self.turn = 0
        self.negative_ttl = 1
        self.aliases = {}
        self.sockets = []
        self.threads = []

    # ---- the zone ----

    def put(self, name, kind, ttl, data):
        with self.lock:
            self.records[(name.lower(), kind)] = [(ttl, d) for d in data]

    def a(self, name, *addresses, ttl=1):
        self.put(name, A, ttl, [ipaddress.IPv4Address(a).packed for a in addresses])

    def aaaa(self, name, *addresses, ttl=1):
        self.put(name, AAAA, ttl, [ipaddress.IPv6Address(a).packed for a in addresses])

    def srv(self, name, *targets, ttl=1):
        self.put(name, SRV, ttl, [struct.pack("!HHH", *t[:3]) + encode_name(t[3]) for t in targets])

    def cname(self, name, target, ttl=1):
        self.put(name, CNAME, ttl, [encode_name(target)])
        with self.lock:
            self.aliases[name.lower()] = target.lower()

    def drop(self, name, kind=None):
        with self.lock:
            for key in [k for k in self.records if k[0] == name.lower() and kind in (None, k[1])]:
                del self.records[key]

    def asked(self, name, kind):
        with self.lock:
            return [q for q in self.questions if q.name == name and q.kind == kind]

    # ---- answering ----

    def of(self, name, kind):
        all_ = [record(name, kind, ttl, data) for ttl, data in self.records.get((name, kind), [])]
        if self.part and len(all_) > self.part:
            self.turn += self.part
            return [all_[(self.turn + i) % len(all_)] for i in range(self.part)]
        return all_

    def answer(self, question):
        if not question.name.endswith("test"):
            return Answer(REFUSED, aa=False)
        answers, name = [], question.name
        for _ in range(20):
            alias = self.of(name, CNAME)
            if not alias or question.kind == CNAME:
                break
            answers += alias
            name = self.aliases[name]
        found = self.of(name, question.kind)
        extra = []
        if question.kind == SRV and self.additional:
            targets = {decode_target(data) for _, data in self.records.get((name, SRV), [])}
            for target in sorted(targets):
                extra += self.of(target, A) + self.of(target, AAAA)
        if found:
            return Answer(NOERROR, answers + found, additional=extra)
        exists = any(key[0] == name for key in self.records)
        soa = record("test", SOA, 60, b"\0\0" + struct.pack("!5I", 1, 60, 60, 60, self.negative_ttl))
        return Answer(NOERROR if exists else NXDOMAIN, answers, authority=[soa])

    def respond(self, data, tcp):
        question = Question(data, tcp)
        with self.lock:
            self.questions.append(question)
            limit = 65535 if tcp else question.edns or 512
            message = self.answer(question).encode(question, limit)
            fault = next((f for f in self.faults if f.when(question)), None)
            if fault and fault.times is not None:
                fault.times -= 1
                if fault.times == 0:
                    self.faults.remove(fault)
        said = fault.do(question, message) if fault else None
        return [message] if said is None else said

    def serve_udp(self, udp):
        while True:
            try:
                data, peer = udp.recvfrom(65535)
            except OSError:
                return
            if not data:  # shut down
                return
            threading.Thread(target=self.answer_udp, args=(udp, data, peer), daemon=True).start()

    def answer_udp(self, udp, data, peer):
        for message in self.respond(data, False):
            try:
                udp.sendto(message, peer)
            except OSError:
                return

    def serve_tcp(self, tcp):
        while True:
            try:
                connection, _ = tcp.accept()
            except OSError:
                return
            threading.Thread(target=self.answer_tcp, args=(connection,), daemon=True).start()

    def answer_tcp(self, connection):
        with connection, connection.makefile("rb") as stream:
            connection.settimeout(60)
            try:
                while head := stream.read(2):
                    data = stream.read(struct.unpack("!H", head)[0])
                    for message in self.respond(data, True):
                        connection.sendall(struct.pack("!H", len(message)) + message)
            except OSError:
                return

    # ---- life ----

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def start(self):
        """On the port of before, when there was one."""
        for attempt in range(50):
            tcp = socket.socket()
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                tcp.bind(("127.0.0.1", self.port))
                udp.bind(("127.0.0.1", tcp.getsockname()[1]))
                break
            except OSError:
                tcp.close()
                udp.close()
                if attempt == 49:
                    raise
                time.sleep(0.1 if self.port else 0)
        self.port = tcp.getsockname()[1]
        tcp.listen(64)
        self.sockets = [tcp, udp]
        self.threads = [threading.Thread(target=self.serve_tcp, args=(tcp,), daemon=True),
                        threading.Thread(target=self.serve_udp, args=(udp,), daemon=True)]
        for thread in self.threads:
            thread.start()
        return self

    def stop(self):
        for s in self.sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self.threads:
            thread.join()
        for s in self.sockets:
            s.close()
        self.sockets, self.threads = [], []

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


def decode_target(data):
    labels, at = [], 6
    while data[at]:
        labels.append(data[at + 1:at + 1 + data[at]].decode())
        at += 1 + data[at]
    return ".".join(labels).lower()
