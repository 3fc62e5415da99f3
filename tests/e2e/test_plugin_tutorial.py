"""The walk-through of docs/plugins.md: its program is compiled as strictly as the tree is, and does in a real usherd what the page
says that it does.
"""

import re
import subprocess

import pytest
from usher import PLUGINS, SOURCE, USHERD, wait_until

PAGE = SOURCE / "docs" / "plugins.md"


def program_of_the_page():
    return re.search(r"```c\n(/\* command\.c:.*?)```", PAGE.read_text(), re.S)[1]


def strict_flags():
    """The warnings of the tree."""
    text = (SOURCE / "cmake" / "compiler.cmake").read_text()
    options = re.search(r"add_compile_options\(\n(.*?)\)", text, re.S)[1]
    return ["-std=c17", "-O2", "-Wpedantic", "-Werror", *re.findall(r"-W[\w=-]+", options)]



@pytest.fixture(scope="module")
def command(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugins")
    source = folder / "command.c"
    source.write_text(program_of_the_page())
    done = subprocess.run(["cc", *strict_flags(), "-fPIC", "-fvisibility=hidden", "-shared", "-I", SOURCE / "api" / "include", source,
                           "-o", folder / "command.so"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (folder / "command.so").chmod(0o644)
    folder.chmod(0o755)
    return folder / "command.so"


class Script:
    def __init__(self, path):
        self.path = path
        self.say("true")

    def say(self, text):
        temporary = self.path.with_name("new")
        temporary.write_text(f"#!/bin/sh\n{text}\n")
        temporary.chmod(0o755)
        temporary.rename(self.path)


@pytest.fixture
def script(tmp_path):
    return Script(tmp_path / "program")


@pytest.fixture
def daemon(usherd, command, script):
    script.say("echo catalog 10.0.0.5:80")
    daemon = usherd({
        "sources": [{"name": "inventory", "plugin": "command", "options": {"program": str(script.path)}}],
        "services": {"catalog": {"sources": ["inventory"]}, "search": {"sources": ["inventory"], "startup_timeout": "100ms"}},
    }, plugin_dirs=[command.parent, PLUGINS]).start()
    daemon.wait_listed(["10.0.0.5:80"])
    return daemon


def error(daemon, service="catalog"):
    return daemon.get(f"/v1/services/{service}")["feeds"][0]["error"] or ""


def test_it_is_short():
    assert len(program_of_the_page().splitlines()) < 80


def test_usherd_knows_it_without_running_it(command):
    done = subprocess.run([str(USHERD), "--check-plugin", str(command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "command" in done.stdout


FAULTS = {
    "exit 1": "fails, takes over 2 s",
    "echo catalog 10.0.0.6:80; kill -9 $$": "fails, takes over 2 s",
    "exec sleep 100": "fails, takes over 2 s",
    "echo catalog 10.0.0.5": "10.0.0.5",
    "true": "no whole text",
    r"printf 'catalog 10.0.0.5:80\ncatalog 10.0.0.6:8'": "no whole text",
    r"printf 'catalog 10.0.0.6:80\n\0\n'": "no whole text",
    "while :; do echo catalog 10.0.0.6:80; done": "no whole text",
    "echo search 10.0.0.9:80": "no line for catalog",
}


@pytest.mark.parametrize("text", FAULTS)
def test_it_breaks_well(daemon, script, text):
    script.say(text)
    wait_until("the failure is told", lambda: FAULTS[text] in error(daemon))
    assert set(daemon.listed()) == {"10.0.0.5:80"}
    script.say("echo catalog 10.0.0.5:80; echo catalog '[fd00::6]:80'; echo search 10.0.0.9:80")
    daemon.wait_listed(["10.0.0.5:80", "[fd00::6]:80"])
    daemon.wait_listed(["10.0.0.9:80"], service="search")
    wait_until("it is live", lambda: not error(daemon))


def test_the_page_names_the_scripts_that_are_tried():
    page = PAGE.read_text().replace("\\\\n", "\\n")
    for text in ("exit 1", "echo catalog 10.0.0.5", "true", "echo search 10.0.0.9:80",
                 r"printf 'catalog 10.0.0.5:80\ncatalog 10.0.0.6:8'"):
        assert f"`{text}`" in page and text in FAULTS


def test_it_stops_when_usherd_does_even_amid_a_run(daemon, script):
    script.say("exec sleep 100")
    wait_until("it fails", lambda: error(daemon))
    daemon.stop()
    assert "left behind" not in daemon.log_text()
