"""Real registries for the interop tests: fetched once into build/servers with their versions pinned, run on loopback.

A server that cannot be had is an error that says so, never a test that is skipped. Each is a process of its own, with
its own folder and ports, and is stopped by its pid.
"""

import contextlib
import fcntl
import fnmatch
import functools
import multiprocessing
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from usher import DEADLINE, SOURCE, wait_until

CACHE = pathlib.Path(os.environ.get("USHER_SERVERS", SOURCE / "build" / "servers"))
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# The second has what is not maintained any more, and is as old as its last signature.
MIRRORS = {"http://deb.debian.org/debian": [],
           "http://archive.debian.org/debian": ["-oAcquire::Check-Valid-Until=false"]}


def say(text):
    """To the person, whatever pytest does with the output."""
    sys.__stderr__.write(f"{text}\n")


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def alone(name):
    """Whoever else wants build/servers/NAME, in this process or another, waits."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f".{name}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def fetched(name, make):
    """The folder build/servers/NAME, which make(folder) fills where it is not there yet. It is filled beside and renamed:
    what was broken off is not taken for whole. The name has the version in it, so that another version is another folder."""
    at, fresh = CACHE / name, CACHE / f".{name}.new"
    with alone(name):
        if not at.exists():
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
            make(fresh)
            fresh.rename(at)
    return at


class Builder:
    """Fetches and builds what suites want later, one after the other, in the time that the machine has left over."""

    def __init__(self, wanted):
        self.process = multiprocessing.get_context("fork").Process(target=self.build, args=(wanted,))
        self.process.start()
        self.group()

    def group(self):
        """Of its own, with all that it starts. Whoever comes first does it, the process or who has started it."""
        with contextlib.suppress(OSError):
            os.setpgid(self.process.pid or 0, 0)

    def build(self, wanted):
        self.group()
        os.nice(19)
        for fetch in wanted:
            try:
                fetch()
            except Exception as failure:  # who needs it tries again, and fails
                say(f"{fetch.__name__}: {failure}")
        apt_of.cache_clear()  # with the folders

    def stop(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        self.process.join()


# ---- Debian's packages ----

@functools.cache
def apt_of(suite):
    """apt-get's options for that suite and no other, with its index read: apt gets folders of its own, so that the machine's
    sources stay as they are."""
    folder = tempfile.TemporaryDirectory(dir=CACHE, prefix=".apt-")
    apt, failures = folder.name, []
    for name in ("lists/partial", "cache/archives/partial", "parts"):
        (pathlib.Path(apt) / name).mkdir(parents=True)
    options = [f"-oDir::State::Lists={apt}/lists", f"-oDir::Etc::SourceList={apt}/sources.list",
               f"-oDir::Etc::SourceParts={apt}/parts", f"-oDir::Cache={apt}/cache", "-oAPT::Sandbox::User=root",
               "-oAcquire::Languages=none", "-oAcquire::Retries=3", "-oAPT::Update::Error-Mode=any"]
    for mirror, more in MIRRORS.items():
        (pathlib.Path(apt) / "sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror} {suite} main\n")
        try:
            run("apt-get", *options, *more, "-qq", "update")
            return folder, [*options, *more]
        except RuntimeError as failure:
            failures.append(str(failure))
    raise RuntimeError(f"Debian's {suite} cannot be had:\n" + "\n".join(failures))


def series(version):
    return re.match(r"(?:\d+:)?(\d*)", version)[1]


def choose(suite, package, offered):
    """Which of the versions offered, newest first, is NAME=VERSION: a mirror has the newest of a suite only, so that with a
    point release the one that was written here may be gone, and its successor is of the same series."""
    name, wanted = package.split("=")
    for version in offered:
        if fnmatch.fnmatchcase(version, wanted):
            return version
    for version in offered:
        if series(version) == series(wanted):
            say(f"Debian's {suite} has {name} {wanted} no longer: taking {version}. Write that into tests/interop")
            return version
    raise RuntimeError(f"Debian's {suite} has neither {name} {wanted} nor another of the series {series(wanted)}, but "
                       f"{' and '.join(offered) or 'no version'}: write one that is there into tests/interop")


def from_debian(suite, *packages):
    """The folder with these packages ("NAME=VERSION") of that suite unpacked; nothing is installed."""
    def make(root):
        _, options = apt_of(suite)
        chosen = []
        for package in packages:
            name = package.split("=")[0]
            found = run("apt-cache", *options, "madison", name)
            offered = [line.split("|")[1].strip() for line in found.splitlines()]
            chosen.append(f"{name}={choose(suite, package, offered)}")
        with tempfile.TemporaryDirectory(dir=CACHE, prefix=".deb-") as folder:
            run("apt-get", *options, "-qq", "download", *chosen, cwd=folder)
            for package in pathlib.Path(folder).glob("*.deb"):
                run("dpkg", "-x", package, root)

    return fetched(packages[0].replace("=", "-"), make)


# ---- processes ----


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
