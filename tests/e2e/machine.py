"""A machine of its own: this one's systemd, booted as PID 1 of private namespaces over an overlay of /."""

import os
import pathlib
import subprocess

from usher import SOURCE, UnixConnection, wait_until

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class Machine:
    def __init__(self, stage):
        self.stage = pathlib.Path(stage)

    def __enter__(self):
        self.boot = subprocess.Popen([SOURCE / "tests" / "lib" / "boot-systemd", self.stage], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, text=True)
        first = self.boot.stdout.readline().strip()
        assert first, "systemd did not boot"
        self.pid = int(first)
        self.root = pathlib.Path(f"/proc/{self.pid}/root")
        self.enter = ["nsenter", "-t", first, "-p", "-m", "-C", "-u", "-i", f"--root={self.root}",
                      f"--wd={self.root}", "env", "-i", f"PATH={PATH}", "LC_ALL=C.UTF-8"]
        # degraded or running: booted either way.
        wait_until("systemd has booted", lambda: self.run("systemctl", "is-active", "-q", "bare.target").returncode == 0)
        return self

    def __exit__(self, *_):
        self.boot.terminate()
        self.boot.wait(60)
        self.boot.stdout.close()

    def command(self, *arguments):
        return [*self.enter, *map(str, arguments)]

    def run(self, *arguments, timeout=120):
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=timeout)

    def check(self, *arguments, **more):
        done = self.run(*arguments, **more)
        assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}\n{self.journal()}"
        return done.stdout

    def show(self, unit, name):
        """One property of a unit."""
        return self.check("systemctl", "show", "-P", name, unit).strip()

    def journal(self, *arguments):
        return self.run("journalctl", "--no-pager", "-o", "short-monotonic", *arguments).stdout[-20000:]

    def write(self, path, text):
        """Atomically, as careful writers do it."""
        path = pathlib.Path(str(self.root) + path)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_text(text)
        os.replace(temporary, path)

    def connect(self, path, timeout=60):
        """HTTP over a Unix socket of the machine: filesystem sockets are reached through its root."""
        return UnixConnection(str(self.root) + path, timeout)
