"""How many descriptors usherd may open, and what its programs inherit of it."""

import contextlib
import pathlib
import resource

from usher import endpoint, wait_until


@contextlib.contextmanager
def soft_limit(limit):
    """What is started meanwhile begins with so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield str(hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def limits_of(pid):
    for line in pathlib.Path(f"/proc/{pid}/limits").read_text().splitlines():
        if line.startswith("Max open files"):
            return line.split()[3:5]
    raise AssertionError("no such limit")


def test_usherd_may_open_as_many_descriptors_as_it_is_allowed_to(usherd):
    daemon = usherd()
    with soft_limit(256) as hard:
        daemon.start()
    assert limits_of(daemon.process.pid) == [hard, hard]


def test_a_program_that_usherd_runs_has_the_limit_that_usherd_was_started_with(usherd, tmp_path):
    script = tmp_path / "check"
    # It begins a moment before the limit is given back to it.
    script.write_text(f"#!/bin/bash\nuntil [ $(ulimit -n) = 256 ]; do read -t 0.01 <> <(:); done\ntouch {tmp_path}/seen\n")
    script.chmod(0o755)
    daemon = usherd({"services": {"catalog": {"chain": ["health"], "health": {
        "exec": {"command": [str(script)]}, "timeout": "5s"}}}})
    daemon.write_endpoints({"catalog": [endpoint("a")]})
    with soft_limit(256):
        daemon.start()
    wait_until("the check has run", (tmp_path / "seen").exists)
