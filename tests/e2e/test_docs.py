"""The pages tell the truth: what docs/first-drain.md says to type is typed, and what it shows is what comes; links and files
that pages name are there.
"""

import os
import pathlib
import re
import select
import shutil
import subprocess
import tempfile
import time

import pytest
import yaml

from usher import BUILD, PLUGINS, SOURCE, USHERD, as_yaml, free_port

PAGE = SOURCE / "docs" / "first-drain.md"
# What the page has, and the test puts another for.
PAGE_HOME, PAGE_PORTS = "/home/alice", ("9101", "9102")
DEADLINE = 120.0  # of one command

# `./dev install`, but from what is built already.
DEV = """#!/bin/sh
set -eu
umask 022
[ $# = 3 ] && [ "$1 $2" = "install --prefix" ]
cmake --install {build} --prefix "$3" >/dev/null
echo "Installed under $3; build/install.log lists each file" >&2
"""


class Shell:
    """One bash that the whole page is typed into."""

    def __init__(self, folder, home):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("USHER_", "LISTEN_", "NOTIFY_"))}
        environment.update(HOME=str(home), NO_COLOR="1", LC_ALL="C.UTF-8")
        self.process = subprocess.Popen(["bash", "--norc", "--noprofile"], cwd=folder, env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.number = 0

    def run(self, command):
        """What it prints, and its exit status."""
        self.number += 1
        end = f"[the end of {self.number}] "
        self.process.stdin.write(f"{command}\nprintf '{end}%d\\n' $?\n".encode())
        self.process.stdin.flush()
        text, until = b"", time.monotonic() + DEADLINE
        while not (found := re.search(re.escape(end.encode()) + rb"(\d+)\n", text)):
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise AssertionError(f"not within {DEADLINE} s: {command}\n{text.decode()}")
            data = os.read(self.process.stdout.fileno(), 65536)
            assert data, f"the shell ended at: {command}\n{text.decode()}"
            text += data
        return text[:found.start()].decode(), int(found[1])

    def close(self):
        """End it, and what of the page still runs in it."""
        try:
            os.write(self.process.stdin.fileno(), b"kill $(jobs -p) 2>/dev/null; wait; exit\n")
            self.process.wait(10)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self.process.kill()
            self.process.wait()


class Block:
    def __init__(self, kind, text):
        self.kind, self.text = kind, text

    def commands(self):
        """(command, what the page shows for it or None) in order: a "sh" block is one command whose output nobody shows."""
        if self.kind == "sh":
            return [(self.text, None)]
        found = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
        return [(command, "\n".join(shown)) for command, shown in found]


def blocks(text):
    """Every fenced block; one that is neither typed nor an excerpt of a known kind fails the test, so that none is passed over."""
    found = [Block(kind, body) for kind, body in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M)]
    assert {b.kind for b in found} == {"sh", "console"}
    return found


PROGRESS = re.compile(r"T (not yet|note|proven|assumed) .*|T \S+ waiting\b.*|T bookmark .*|cancelling: .*")
VARYING = [
    (r"\b[dr]-\d{8}-\d{6}-[0-9a-f]{4}\b", "ID"),
    (r"\b\d\d:\d\d:\d\d\b", "T"),
    (r"(?<![\w.])(\d+(\.\d+)?(us|ms|s|m|h|d))+\b", "T"),
    (r"\brevision \d+", "revision N"),
    (r"^(Revision:) \d+$", r"\1 N"),
]


def essence(text, command):
    """What an output says beyond times and numbers. The lines on the way to an end are as many as the machine is slow."""
    lines = []
    for line in text.splitlines():
        line = " ".join(line.split())
        for pattern, word in VARYING:
            line = re.sub(pattern, word, line)
        if not PROGRESS.fullmatch(line):
            lines.append(line)
    said = "\n".join(lines).strip()
    if re.search(r"\b(pick|explain)\b", command):  # whose turn it is
        said = re.sub(r"catalog-[ab]( 127.0.0.1:\d+)?", "ENDPOINT", said)
    return said


def same(shown, printed, command):
    """Whether the page shows what came; a line "…" of the page stands for any lines."""
    parts = [re.escape(part.strip("\n")) for part in re.split(r"^…$", essence(shown, command), flags=re.M)]
    return re.fullmatch(r"\n(.*\n)*".join(parts), essence(printed, command))


@pytest.fixture
def home():
    # Short, for a socket's path has at most 107 bytes.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="usher-docs-"))
    yield folder
    for name in ("catalog-a", "catalog-b"):  # where the page did not come to its end
        if (folder / "first-drain" / f"{name}.pid").exists():
            subprocess.run([folder / "first-drain" / "instance", "stop", name], check=False)
    shutil.rmtree(folder)


def type_page(home, text):
    """Type the page; yields each command with what is shown and what came."""
    checkout = home / "checkout"
    checkout.mkdir()
    (checkout / "dev").write_text(DEV.format(build=BUILD))
    (checkout / "dev").chmod(0o755)
    shell = Shell(checkout, home)
    try:
        for block in blocks(text):
            for command, shown in block.commands():
                printed, code = shell.run(command)
                assert code == 0, f"{command}\nended with {code}:\n{printed}"
                yield command, shown, printed
    finally:
        shell.close()


def test_the_first_drain_goes_as_its_page_says(home):
    text = PAGE.read_text().replace(PAGE_HOME, str(home))
    for number in PAGE_PORTS:
        text = text.replace(number, str(free_port()))
    typed = 0
    for command, shown, printed in type_page(home, text):
        if shown is not None:
            assert same(shown, printed, command), f"{command}\nprinted:\n{printed}\nand the page shows:\n{shown}"
        typed += 1
    assert typed == sum(len(b.commands()) for b in blocks(text))
    assert not (home / "first-drain").exists() and not (home / "usher-first").exists()


# ---- what pages point at ----

DISCOVERY = sorted((SOURCE / "plugins" / "discovery").glob("*/README.md"))
PAGES = sorted([SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", SOURCE / "charts" / "usher" / "README.md",
                *(SOURCE / "docs").glob("*.md"), *DISCOVERY])


def name_of(page):
    return f"{page.parent.name}-{page.name}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_a_page_links_to_is_there(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        assert re.match(r"https?://", target) or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_map_of_the_architecture_names_files_that_are_there():
    table = (SOURCE / "docs" / "architecture.md").read_text().split("## I want to change how")[1]
    named = [name for row in table.splitlines() if row.startswith("|") for name in re.findall(r"`([^`]+)`", row)]
    assert named
    for name in named:
        pattern = re.sub(r"\b[A-Z]{2,}\b", "*", name)  # format-NAME.c: one of a kind
        assert any(SOURCE.glob(pattern)), f"{name} is not there"


# ---- what discovery plug-ins show ----


@pytest.mark.parametrize("page", DISCOVERY, ids=name_of)
def test_a_configuration_that_a_discovery_plug_in_shows_is_one_that_usherd_takes(page, tmp_path):
    shown = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.S)
             if re.search(r"^sources:", block, re.M)]
    assert shown, f"{page} shows none"
    for config in shown:
        path = tmp_path / "usher.yaml"
        path.write_text(as_yaml({**config, "plugin_dirs": [str(PLUGINS)]}))
        done = subprocess.run([USHERD, "--check", path], capture_output=True, text=True)
        assert done.returncode == 0, f"{config}: {done.stderr}"
