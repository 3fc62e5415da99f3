"""Knot DNS and dnsmasq, as the suite dns runs them: a zone `test` that is changed while they run."""

import signal
import socket
import struct

from scripted_dns import encode_name
from servers import Process, from_debian, run
from usher import free_port

# Not installed, for its package would start it as a service.
KNOT = ["knot=3.2.6-1", "libdnssec9=3.2.6-1", "libknot13=3.2.6-1", "libzscanner4=3.2.6-1", "libcap-ng0=0.8.3-1+b3",
        "liblmdb0=0.9.24-1", "liburcu8=0.13.2-1", "libxdp1=1.3.1-1", "libbpf1=1:1.1*", "libfstrm0=0.6.1-1",
        "libprotobuf-c1=1.4.1-1+b1", "libmaxminddb0=1.7.1-1"]


class NameServer(Process):
    """records: {"a.test": ["A 10.0.0.1"]}, in the words of a zone file."""

    def __init__(self, folder):
        super().__init__(folder)
        self.port = free_port()
        self.records = {}
        self.ttl = 1

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def is_ready(self):
        """It answers about its zone, whatever it says."""
        question = struct.pack("!6H", 7, 0, 1, 0, 0, 0) + encode_name("ready.test") + struct.pack("!HH", 1, 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.settimeout(0.5)
            udp.connect(("127.0.0.1", self.port))
            try:
                udp.send(question)
                return udp.recv(4096)[3] & 0xf in (0, 3)
            except OSError:
                return False

    def put(self, **records):
        """put(a=["A 10.0.0.1"]) is about a.test; an empty list takes the name away."""
        for name, values in records.items():
            self.records[name] = values
        self.publish()

    def publish(self):
        raise NotImplementedError


class Knot(NameServer):
    def __init__(self, folder):
        super().__init__(folder)
        self.root = from_debian("bookworm", *KNOT)
        self.serial = 1
        (self.folder / "knot.conf").write_text(
            f"server:\n  rundir: {self.folder}\n  listen: 127.0.0.1@{self.port}\n  udp-workers: 1\n  tcp-workers: 1\n"
            f"control:\n  listen: knot.sock\ndatabase:\n  storage: {self.folder}/db\nlog:\n  - target: stderr\n    any: warning\n"
            f"zone:\n  - domain: test\n    storage: {self.data}\n    file: test.zone\n    journal-content: none\n"
            "    zonefile-load: whole\n    zonefile-sync: -1\n")

    def environment(self):
        library = self.root / "usr/lib/x86_64-linux-gnu"
        return {"LD_LIBRARY_PATH": f"{library}:{self.root}/lib/x86_64-linux-gnu"}

    def command(self):
        self.write_zone()
        return [str(self.root / "usr/sbin/knotd"), "-c", str(self.folder / "knot.conf")]

    def write_zone(self):
        lines = ["$ORIGIN test.", f"$TTL {self.ttl}", f"@ SOA ns admin {self.serial} 60 60 60 1", "@ NS ns", "ns A 127.0.0.1"]
        lines += [f"{name} {value}" for name, values in self.records.items() for value in values]
        self.data.mkdir(exist_ok=True)
        (self.data / "test.zone").write_text("\n".join(lines) + "\n")

    def publish(self):
        self.serial += 1
        self.write_zone()
        if self.process:
            run(self.root / "usr/sbin/knotc", "-c", self.folder / "knot.conf", "-b", "zone-reload", "test",
                env=self.environment())


class Dnsmasq(NameServer):
    """Addresses can be changed while it runs; SRV records are read when it starts. It proves no negative answer, unless it is
    authoritative."""

    def __init__(self, folder, authoritative=False):
        super().__init__(folder)
        self.authoritative = authoritative
        self.hosts = self.folder / "hosts"
        self.hosts.write_text("")

    def command(self):
        lines = ["keep-in-foreground", "no-resolv", "no-hosts", "bind-interfaces", "listen-address=127.0.0.1", f"port={self.port}",
                 f"addn-hosts={self.hosts}", f"local-ttl={self.ttl}", "pid-file=", "user=", "local=/test/", "log-facility=-"]
        if self.authoritative:
            lines += ["auth-server=ns.test,lo", "auth-zone=test", f"auth-ttl={self.ttl}"]
        for name, values in self.records.items():
            for value in values:
                kind, *data = value.split()
                if kind == "SRV":
                    priority, weight, port, target = data
                    lines.append(f"srv-host={name}.test,{target}.test,{port},{priority},{weight}")
        (self.folder / "dnsmasq.conf").write_text("\n".join(lines) + "\n")
        return ["/usr/sbin/dnsmasq", f"--conf-file={self.folder}/dnsmasq.conf"]

    def publish(self):
        lines = [f"{value.split()[1]} {name}.test" for name, values in self.records.items() for value in values
                 if value.split()[0] in ("A", "AAAA")]
        self.hosts.write_text("\n".join(lines) + "\n")
        if self.process:
            self.process.send_signal(signal.SIGHUP)
