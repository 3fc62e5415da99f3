"""The real usherd with a program that prints the directory: a shell script."""

import json
import os
import pathlib
import subprocess

import pytest
from usher import USHERD, endpoint, replace_file, wait_until

# Prints what stands in the file, and keeps in a file what it was told to register.
SCRIPT = """#!/bin/sh
cd "$FOLDER" || exit 1
case $1 in
'')
	[ ! -e hang ] || exec sleep 1000
	[ ! -e fail ] || { echo "the database is down" >&2; exit "$(cat fail)"; }
	exec cat directory.json
	;;
*)
	{ echo "$@"; cat; echo; } >>verbs
	[ ! -e refuse ] || exit "$(cat refuse)"
	;;
esac
"""

# The same as a stream: a line after each change, an empty one where nothing has changed.
STREAM = """#!/bin/sh
cd "$FOLDER" || exit 1
last=
while [ ! -e fail ]; do
	now=$(cat directory.json)
	if [ "$now" = "$last" ]; then echo; else echo "$now"; fi
	last=$now
	sleep 0.1
done
echo "the database is down" >&2
exit 1
"""


class Program:
    def __init__(self, folder, text):
        self.folder = pathlib.Path(folder)
        self.path = self.folder / "program"
        self.path.write_text(text)
        self.path.chmod(0o755)
        self.say({})

    def say(self, services):
        replace_file(self.folder / "directory.json", json.dumps({"services": services}) + "\n")

    def offer(self, *names):
        self.say({"catalog": [endpoint(n, 8000 + ord(n)) for n in names]})

    def set(self, name, text=""):
        replace_file(self.folder / name, text)

    def clear(self, name):
        os.unlink(self.folder / name)

    @property
    def verbs(self):
        path = self.folder / "verbs"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path, SCRIPT)


@pytest.fixture
def stream(tmp_path):
    return Program(tmp_path, STREAM)


def start(usherd, program, options=None, **service):
    daemon = usherd({
        "sources": [{"name": "script", "plugin": "exec", "options": {
            "command": [str(program.path)], "environment": [f"FOLDER={program.folder}"], "interval": "100ms", **(options or {})}}],
        "services": {"catalog": {"sources": ["script"], "freshness": {"max_age": "60s", "on_stale": "serve"}, **service}},
    })
    return daemon.start()


def feed(daemon):
    return daemon.get("/v1/services/catalog")["feeds"][0]


def wait_failed(daemon, text):
    return wait_until(f"it fails with {text}", lambda: text in (feed(daemon)["error"] or ""))


def wait_live(daemon):
    return wait_until("it is live", lambda: feed(daemon)["state"] == "live" and not feed(daemon)["error"])


@pytest.mark.parametrize("mode", ["interval", "stream"])
def test_what_it_prints_appears_changes_and_disappears(usherd, tmp_path, mode):
    program = Program(tmp_path, STREAM if mode == "stream" else SCRIPT)
    program.offer("a", "b")
    daemon = start(usherd, program, {"mode": mode})
    daemon.wait_listed("ab")
    with daemon.watch() as lines:
        lines.next()
        program.say({"catalog": [endpoint("a", 8001, weight=7, zone="west", metadata={"version": "2"}), endpoint("b", 8002)]})
        lines.until(lambda line: any(e["weight"] == 7 for e in line.get("changed", [])))
    program.offer("b", "c")
    daemon.wait_listed("bc")
    assert "catalog" in str(daemon.get("/v1/services"))


@pytest.mark.parametrize("status,text", [("1", "failed with exit status 1; its last words: the database is down"),
                                         ("77", "was denied access"), ("75", "cannot say for now")])
def test_a_program_that_fails_empties_nothing(usherd, program, status, text):
    program.offer("a", "b")
    daemon = start(usherd, program)
    daemon.wait_listed("ab")
    program.set("fail", status)
    wait_failed(daemon, text)
    assert feed(daemon)["state"] == ("denied" if status == "77" else "failed")
    assert set(daemon.listed()) == {"a", "b"}
    program.clear("fail")
    wait_live(daemon)


def test_a_program_that_hangs_is_ended_and_run_again(usherd, program):
    program.offer("a", "b")
    daemon = start(usherd, program, {"timeout": "1s"})
    daemon.wait_listed("ab")
    program.set("hang")
    wait_failed(daemon, "has not ended within its timeout of 1s")
    assert set(daemon.listed()) == {"a", "b"}
    program.clear("hang")
    wait_live(daemon)


@pytest.mark.parametrize("text", ["", "{", '{"services": {"catalog": [{"address": "10.0.0.1"}]}}\n', "<html>\n",
                                  '{"services": {"catalog": []}}'])
def test_nonsense_empties_nothing(usherd, program, text):
    program.offer("a", "b")
    daemon = start(usherd, program)
    daemon.wait_listed("ab")
    program.set("directory.json", text)
    wait_until("it fails", lambda: feed(daemon)["error"])
    assert set(daemon.listed()) == {"a", "b"}
    program.offer("a", "b", "c")
    daemon.wait_listed("abc")
    wait_live(daemon)


def test_a_stream_that_ends_is_started_again_and_loses_nothing(usherd, stream):
    stream.offer("a", "b")
    daemon = start(usherd, stream, {"mode": "stream"})
    daemon.wait_listed("ab")
    stream.set("fail")
    wait_failed(daemon, "failed with exit status 1; its last words: the database is down")
    assert set(daemon.listed()) == {"a", "b"}
    stream.clear("fail")
    wait_live(daemon)


def test_empty_lines_keep_the_answer_young(usherd, stream):
    stream.offer("a")
    daemon = start(usherd, stream, {"mode": "stream"}, freshness={"max_age": "60s", "on_stale": "fail"})
    daemon.wait_listed("a")
    ages = []

    def is_older():
        ages.append(daemon.get("/v1/services/catalog/endpoints")["freshness"]["age_ms"])
        return sum(b < a for a, b in zip(ages, ages[1:])) >= 5

    wait_until("the age has gone back five times", is_older)


def test_less_than_before_a_failure_is_doubted_at_first(usherd, program):
    program.offer("a", "b", "c", "d")
    daemon = start(usherd, program, {"interval": "5s"})
    daemon.wait_listed("abcd")
    program.set("fail", "1")
    wait_until("it fails", lambda: feed(daemon)["error"])
    program.offer("a", "b", "c")
    program.clear("fail")
    wait_until("it is held", lambda: feed(daemon)["held"])
    assert set(daemon.listed()) == {"a", "b", "c", "d"}
    daemon.wait_listed("abc")


def test_a_drain_is_told_with_verbs(usherd, program):
    program.offer("a", "b")
    daemon = start(usherd, program, {"registers": True})
    daemon.wait_listed("ab")
    daemon.drain("a")
    wait_until("the program is told", lambda: "remove catalog a" in program.verbs or "set-state catalog a draining" in program.verbs)
    wait_until("nobody picks a", lambda: daemon.picked() == {"b"})


def test_a_program_that_does_not_register_says_so(usherd, program):
    program.offer("a", "b")
    daemon = start(usherd, program, drain={
        "propagation": {"registry": "0s", "consumer_refresh": "0s", "consumer_cache": "0s", "margin": "0s"},
        "in_flight": {"timeout": "1s", "quiet": "100ms"}})
    daemon.wait_listed("ab")
    record = daemon.wait_finished(daemon.drain("a")["id"])
    assert "registers: true" in str(record), record
    assert not program.verbs


def test_nothing_is_left_behind_when_usherd_stops(usherd, program):
    program.set("program", "#!/bin/sh\necho $$ >\"$FOLDER/pid\"\nsleep 1000 & wait\n")
    program.path.chmod(0o755)
    daemon = start(usherd, program, {"mode": "stream"}, startup_timeout="100ms")
    pid = int(wait_until("it runs", lambda: (program.folder / "pid").exists() and (program.folder / "pid").read_text().strip()))
    daemon.stop()
    wait_until("its group is gone", lambda: not alive(pid))


def test_a_verb_that_runs_is_ended_when_usherd_stops(usherd, program):
    """Even one that does not care about SIGTERM."""
    program.offer("b")
    program.set("program", "#!/bin/sh\ncd \"$FOLDER\" || exit 1\n[ \"$1\" = add ] || exec cat directory.json\n"
                "trap '' TERM\necho $$ >pid\nwhile :; do sleep 1; done\n")
    program.path.chmod(0o755)
    daemon = start(usherd, program, {"registers": True, "timeout": "50s"})
    assert daemon.call("PUT", "/v1/registrations/catalog/a", {"address": "127.0.0.1", "port": 80}, admin=True).status == 201
    pid = int(wait_until("it runs", lambda: (program.folder / "pid").exists() and (program.folder / "pid").read_text().strip()))
    daemon.stop()
    wait_until("its group is gone", lambda: not alive(pid))
    assert "leaving its thread behind" not in daemon.log_text()


# hashicorp/consul#3018
def test_reloads_leave_no_program_behind(usherd, tmp_path):
    program = Program(tmp_path, STREAM.replace("last=\n", 'last=\necho $$ >>"$FOLDER/pids"\n'))
    program.offer("a")
    daemon = start(usherd, program, {"mode": "stream"})
    daemon.wait_listed("a")

    def pids():
        return [int(pid) for pid in (program.folder / "pids").read_text().split()]

    for n in range(5):
        begun = len(pids())
        daemon.write_config(daemon.config_path.read_text().replace("FOLDER=", f"N={n}\n    - FOLDER=", 1))
        daemon.reload()
        wait_until("it is run anew", lambda: len(pids()) > begun)
    wait_until("one is left", lambda: len([pid for pid in pids() if alive(pid)]) == 1)
    program.offer("a", "b")
    daemon.wait_listed("ab")


def alive(group):
    """Whether anybody of the process group runs; who waits for pid 1 to look at it does not."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(of) == group and state not in "ZX":
            return True
    return False


def test_the_configuration_is_judged(usherd):
    daemon = usherd({"sources": [{"name": "s", "plugin": "exec", "options": {"command": ["cat", "x"]}}], "services": {}})
    done = subprocess.run([str(USHERD), "--check", str(daemon.config_path)], capture_output=True, text=True)
    assert done.returncode != 0
    assert "is no absolute path" in done.stderr + done.stdout
