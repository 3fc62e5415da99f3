"""What the real servers that are written in Java have in common: where they come from, and the ports they take."""

import hashlib
import os
import pathlib
import re
import shutil
import socket
import time

from servers import Process, fetched, run
from usher import free_port

DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
# They are to start soon; none of them runs for long.
JVM = ["-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
# Two cores that have other work to do need so long to start one.
START_DEADLINE = 300
ATTEMPTS = 5
PORT_IS_TAKEN = re.compile(r"Address already in use|Failed to bind|Port \d+ was already in use")


def named_after(name, paths):
    """With what they contain in it, so that whatever is changed is fetched and built anew."""
    return f"{name}-{hashlib.sha256(b''.join(path.read_bytes() for path in paths)).hexdigest()[:8]}"


def class_path(name, here):
    """That of what the folder `here` has: programs in Java, and in pom.xml what they need from Maven's repository."""
    pom, sources = here / "pom.xml", sorted(here.glob("*.java"))

    def fetch(folder):
        shutil.copy(pom, folder)
        run("mvn", "-B", "-q", "-f", folder / "pom.xml", f"{DEPENDENCIES}:copy-dependencies", f"{DEPENDENCIES}:build-classpath",
            f"-DoutputDirectory={folder}/jars", f"-Dmdep.outputFile={folder}/class-path",
            env={**os.environ, "MAVEN_OPTS": f"{os.environ.get('MAVEN_OPTS', '')} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"})

    def compile_all(folder):
        run("javac", "-cp", f"{fetched_jars}/jars/*", "-d", folder, *sources)

    fetched_jars = fetched(named_after(name, [pom]), fetch)
    classes = fetched(named_after(f"{name}-classes", [pom, *sources]), compile_all)
    # In Maven's order: a class that two jars have is that of the first.
    jars = [pathlib.Path(jar).name for jar in (fetched_jars / "class-path").read_text().strip().split(":")]
    return ":".join([str(classes), *(f"{fetched_jars}/jars/{jar}" for jar in jars)])


def are_free(ports):
    try:
        for port in ports:
            socket.create_server(("", port)).close()
    except OSError:
        return False
    return True


def find_port(distances):
    """One for a server that also listens on the ports at these distances from it; none of them is one that the kernel gives to
    whoever connects to somewhere."""
    while True:
        port = free_port() - max(distances)
        if are_free([port + distance for distance in distances]):
            return port


class JavaServer(Process):
    """Where somebody was faster at one of its ports it takes others; once it was ready its ports are known, and it waits for
    them."""

    DISTANCES = [0]  # of the ports on which it listens from its main one

    def __init__(self, folder):
        super().__init__(folder)
        self.port, self.was_ready = find_port(self.DISTANCES), False
        self.log_size = 0

    def start(self, wait=True):
        log = self.folder / "log"
        self.log_size = log.stat().st_size if log.exists() else 0
        super().start(wait=False)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, deadline=START_DEADLINE):
        for left in reversed(range(ATTEMPTS)):
            try:
                super().wait_ready(deadline)
                self.was_ready = True
                return
            except RuntimeError:
                if not left or not self.has_lost_a_port():
                    raise
            self.kill()
            if self.was_ready:
                time.sleep(1)
            else:
                self.port = find_port(self.DISTANCES)
            self.start(wait=False)

    def is_ready(self):
        """Whoever has lost a port does not always end."""
        if self.has_lost_a_port():
            raise RuntimeError(f"somebody else has one of the ports {[self.port + distance for distance in self.DISTANCES]}")
        return self.answers()

    def has_lost_a_port(self):
        """By what it has said since it was started last."""
        return PORT_IS_TAKEN.search((self.folder / "log").read_bytes()[self.log_size:].decode(errors="replace"))

    def answers(self):
        raise NotImplementedError


def start_all(*servers):
    """Those that tell each other. Each is told where the others are when it is started: where one has to take other ports all
    are started anew."""
    while True:
        ports = [server.port for server in servers]
        for server in servers:
            server.start(wait=False)
        for server in servers:
            server.wait_ready()
        if ports == [server.port for server in servers]:
            return
        for server in servers:
            server.kill()
