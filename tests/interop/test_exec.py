"""The real usherd with a program that watches a file and prints the directory, line after line."""

import json
import time

from usher import endpoint, replace_file, wait_until

SERVER = "a shell script, as a stream that looks every 10 ms"

SCRIPT = """#!/bin/sh
last=
while now=$(cat "$1"); do
	if [ "$now" = "$last" ]; then echo; else echo "$now"; fi
	last=$now
	sleep 0.01
done
exit 1
"""


def test_the_time_from_a_write_to_the_watchers_line_and_a_kill(usherd, tmp_path, report):
    source, script = tmp_path / "directory.json", tmp_path / "program"

    def say(*endpoints):
        replace_file(source, json.dumps({"services": {"catalog": endpoints}}) + "\n")

    script.write_text(SCRIPT)
    script.chmod(0o755)
    say(endpoint("a"), endpoint("b"))
    daemon = usherd({
        "sources": [{"name": "script", "plugin": "exec", "options": {"mode": "stream", "command": [str(script), str(source)]}}],
        "services": {"catalog": {"sources": ["script"]}}})
    daemon.start()
    daemon.wait_listed("ab")
    times = []
    with daemon.watch() as stream:
        stream.next()
        for i in range(60):
            before = time.monotonic()
            say(endpoint("a", weight=100 + i), endpoint("b"))
            stream.until(lambda line: any(e["weight"] == 100 + i for e in line.get("changed", [])))
            times.append((time.monotonic() - before) * 1000)
    report.times(times)

    def feed():
        return daemon.get("/v1/services/catalog")["feeds"][0]

    with report.nothing_lost(daemon, "ab", "ended with an error"):
        source.rename(source.with_suffix(".away"))
        wait_until("it fails", lambda: feed()["error"])
        source.with_suffix(".away").rename(source)
        wait_until("it is live", lambda: feed()["state"] == "live" and not feed()["error"])
