"""usherctl and a follower of libusher against the real usherd: the two sides of the API agree."""

import json
import subprocess

import yaml

from usher import USHERCTL, USHERD, endpoint, free_port

SERVICE = {
    "chain": [{"ready": {}}, {"zone": {"prefer": "east", "on_empty": "pass"}}],
    "select": "round_robin",
    "drain": {"propagation": {"registry": "100ms", "consumer_refresh": "0", "consumer_cache": "0", "margin": "0"}, "in_flight": {"quiet": "50ms", "from": ["tcp"]}},
}


def start(usherd):
    daemon = usherd({"services": {"catalog": SERVICE, "empty": {}}})
    port = free_port()
    daemon.write_endpoints({
        "catalog": [endpoint("a", port, zone="east"), endpoint("b", port, zone="east"), endpoint("c", port, zone="east", ready=False)],
        "empty": [],
    })
    return daemon.start()


def done(daemon, *arguments, code=0):
    result = daemon.ctl(*arguments)
    assert result.returncode == code, f"{arguments}: {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def test_every_verb_that_reads_understands_the_daemon(usherd):
    daemon = start(usherd)
    for arguments in (
        ["get", "services"], ["get", "endpoints", "catalog"], ["get", "sources"], ["get", "consumers"], ["get", "plugins"], ["describe", "service", "catalog"],
        ["describe", "endpoint", "catalog/a"], ["describe", "source", "files"], ["describe", "plugin", "file"], ["explain", "catalog"], ["budget", "catalog", "--rate", "200"], ["status"],
    ):
        table = done(daemon, *arguments)
        assert table.strip()
        value = json.loads(done(daemon, *arguments, "-o", "json"))
        assert set(yaml.safe_load(done(daemon, *arguments, "-o", "yaml"))) == set(value)
    assert "left out by ready" in done(daemon, "get", "endpoints", "catalog")
    assert done(daemon, "pick", "catalog").split()[0] in ("a", "b")
    assert done(daemon, "pick", "catalog", "--exclude", "a").split()[0] == "b"
    done(daemon, "pick", "empty", code=1)
    done(daemon, "get", "endpoints", "catalog/x", code=5)
    assert "catalog" in done(daemon, "top")


def test_a_consumer_is_connected_for_as_long_as_it_is(usherd):
    daemon = start(usherd)
    consumers = json.loads(done(daemon, "get", "consumers", "-o", "json"))["consumers"]
    assert [consumer["connected_ms"] < 60000 for consumer in consumers] == [True]


def test_p5_drain_wait_goes_on_through_kill_9(usherd):
    daemon = usherd({"services": {"catalog": {**SERVICE, "drain": {"propagation": {"registry": "100ms", "consumer_refresh": "2s", "consumer_cache": "0", "margin": "0"}}}}})
    daemon.write_endpoints({"catalog": [endpoint("a"), endpoint("b")]})
    daemon.start()
    process = subprocess.Popen(
        [USHERCTL, "drain", "catalog/a", "--wait", "--socket", str(daemon.admin)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    lines = []
    while not any("propagation" in line for line in lines):
        line = process.stdout.readline()
        assert line, lines
        lines.append(line)
    daemon.kill()
    daemon.start()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    assert "usherd went away" in out and "usherd is back" in out
    assert out.rstrip().splitlines()[-1].split()[1] == "done:"
    assert len(daemon.get("/v1/drains")["drains"]) == 1


def test_guards_and_cancel_through_the_cli(usherd):
    daemon = usherd({"services": {"catalog": {**SERVICE, "drain": {"propagation": {"registry": "100ms", "consumer_refresh": "600s", "consumer_cache": "0", "margin": "0"}, "deadline": "700s"}}}})
    daemon.write_endpoints({"catalog": [endpoint("a"), endpoint("b")]})
    daemon.start()
    done(daemon, "drain", "catalog/a", "--reason", "rollout 42")
    assert "runs already" in done(daemon, "drain", "catalog/a")
    done(daemon, "drain", "catalog/b", code=9)
    done(daemon, "drain", "catalog/a", "--wait-timeout", "200ms", code=124)
    assert "rollout 42" in done(daemon, "get", "drains", "catalog/a")
    done(daemon, "drain", "catalog/nope", code=5)
    done(daemon, "cancel", "catalog/a", "--wait")
    daemon.wait_listed({"a", "b"})
    done(daemon, "cancel", "catalog/a", code=5)


def test_what_is_drained_already_is_said_to_be_done(usherd):
    daemon = start(usherd)
    done(daemon, "drain", "catalog/a", "--wait")
    assert done(daemon, "drain", "catalog/a").endswith("of catalog/a is done already (serve_stale)\n")


def test_a_failed_drain_is_not_drained_again_before_it_is_brought_back(usherd):
    failing = {**SERVICE, "drain": {**SERVICE["drain"], "close": {"exec": ["/bin/false"]}}, "restore": {"probe": {"enabled": False}}}
    daemon = usherd({"services": {"catalog": failing}})
    daemon.write_endpoints({"catalog": [endpoint("a"), endpoint("b")]})
    daemon.start()
    told = done(daemon, "drain", "catalog/a", "--wait", code=1)
    assert "note       attempt 3 starts" in told
    result = daemon.ctl("drain", "catalog/a")
    assert result.returncode == 9
    assert "failed: bring it back with `usherctl restore catalog/a`, then drain it" in result.stderr
    done(daemon, "restore", "catalog/a", "--wait")
    daemon.wait_listed({"a", "b"})


def test_p7_the_consumer_socket_does_not_drain(usherd):
    daemon = start(usherd)
    done(daemon, "--socket", str(daemon.socket), "drain", "catalog/a", code=4)
    done(daemon, "--socket", str(daemon.socket), "reload", code=4)


def test_check_says_what_usherd_says(usherd, monkeypatch):
    monkeypatch.setenv("PATH", f"{USHERD.parent}:/usr/bin:/bin")
    daemon = usherd()
    done(daemon, "check", str(daemon.config_path))
    daemon.write_config("nodes: {}\n")
    result = daemon.ctl("check", str(daemon.config_path))
    assert result.returncode == 1
    assert f"{daemon.config_path}:1:1: " in result.stderr


def test_a_refused_reload_is_told(usherd):
    daemon = start(usherd)
    done(daemon, "reload")
    daemon.write_config("nodes: {}\n")
    result = daemon.ctl("reload")
    assert result.returncode == 1
    assert f"{daemon.config_path}:1:" in result.stderr
