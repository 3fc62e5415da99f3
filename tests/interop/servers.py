"""Real registries for the interop tests: fetched once into build/servers with their versions pinned, run on loopback.

A server that cannot be had is an error that says so, never a test that is skipped. Each is a process of its own, with
its own folder and ports, and is stopped by its pid.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from usher import DEADLINE, SOURCE, wait_until

CACHE = pathlib.Path(os.environ.get("USHER_SERVERS", SOURCE / "build" / "servers"))
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def fetched(name, make):
    """The folder build/servers/NAME, which make(folder) fills where it is not there yet. It is filled beside and renamed:
    what was broken off is not taken for whole. The name has the version in it, so that another version is another folder."""
    at, fresh = CACHE / name, CACHE / f".{name}.new"
    if not at.exists():
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        make(fresh)
        fresh.rename(at)
    return at


def from_debian(suite, *packages):
    """The folder with these packages ("NAME=VERSION") of that suite unpacked; nothing is installed. apt gets folders of its
    own, so that the machine's sources stay as they are."""
    def make(root):
        with tempfile.TemporaryDirectory(dir=CACHE, prefix=".apt-") as apt:
            for folder in ("lists/partial", "cache/archives/partial", "parts"):
                (pathlib.Path(apt) / folder).mkdir(parents=True)
            (pathlib.Path(apt) / "sources.list").write_text(
                f"deb [signed-by={KEYRING}] http://deb.debian.org/debian {suite} main\n")
            options = [f"-oDir::State::Lists={apt}/lists", f"-oDir::Etc::SourceList={apt}/sources.list",
                       f"-oDir::Etc::SourceParts={apt}/parts", f"-oDir::Cache={apt}/cache", "-oAPT::Sandbox::User=root"]
            run("apt-get", *options, "-qq", "update")
            run("apt-get", *options, "-qq", "download", *packages, cwd=apt)
            for package in pathlib.Path(apt).glob("*.deb"):
                run("dpkg", "-x", package, root)

    return fetched(packages[0].replace("=", "-"), make)


class Process:
    """A server that is stopped, killed, frozen, wiped and started again."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.data = self.folder / "data"
        self.process = None

    def command(self):
        raise NotImplementedError

    def environment(self):
        return {}

    def is_ready(self):
        raise NotImplementedError

    def start(self, wait=True):
        self.data.mkdir(exist_ok=True)
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                            cwd=self.folder, env={**os.environ, **self.environment()})
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, deadline=DEADLINE):
        def is_ready():
            if self.process.poll() is not None:
                log = (self.folder / "log").read_text(errors="replace")[-4000:]
                raise RuntimeError(f"{type(self).__name__} ended with {self.process.returncode}:\n{log}")
            return self.is_ready()

        wait_until(f"{type(self).__name__} is ready", is_ready, deadline)

    def stop(self, how=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.thaw()
            self.process.send_signal(how)
            self.process.wait(DEADLINE)

    def kill(self):
        self.stop(signal.SIGKILL)

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def wipe(self):
        shutil.rmtree(self.data)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_):
        self.kill()
