"""The selectors as consumers meet them: by name in the configuration, with keys, exclusions and open requests."""

import collections
import contextlib
import json
import subprocess

import pytest

from usher import USHERD, UnixConnection, endpoint

SELECTORS = ("round_robin", "random", "weighted_round_robin", "weighted_random", "least_request", "peak_ewma", "ring_hash", "maglev")
HASHING = ("ring_hash", "maglev")


def start(usherd, endpoints, select):
    daemon = usherd({"services": {name: {"select": value} for name, value in select.items()}})
    daemon.write_endpoints({name: endpoints for name in select})
    daemon.start()
    return daemon


def ids(daemon, name, bodies):
    return [daemon.pick(name, body).json["endpoint"]["id"] for body in bodies]


def test_every_selector_serves_those_with_weight(usherd):
    daemon = start(usherd, [endpoint("a", 8081), endpoint("b", 8082, weight=3), endpoint("none", 8083, weight=0)],
                   {name: name for name in SELECTORS})
    for name in SELECTORS:
        assert daemon.picked(name, 60) == {"a", "b"}


def test_explain_shows_the_share(usherd):
    daemon = start(usherd, [endpoint("a", 8081), endpoint("b", 8082, weight=3)], {name: name for name in SELECTORS})
    for name in SELECTORS:
        choice = daemon.get(f"/v1/services/{name}/explain")
        even = name in ("round_robin", "random")
        assert choice["share"] == (0.5 if even else 0.75 if choice["choice"] == "b" else 0.25)


@pytest.mark.parametrize("name", HASHING)
def test_a_key_stays_and_moves_only_with_its_endpoint(usherd, name):
    endpoints = [endpoint(f"e{i}", 8080 + i) for i in range(10)]
    daemon = start(usherd, endpoints, {name: name})
    bodies = [{"key": f"session-{i}"} for i in range(100)]
    before = ids(daemon, name, bodies)
    assert ids(daemon, name, bodies) == before
    assert max(collections.Counter(before).values()) < 30

    gone = before[0]
    excluded = ids(daemon, name, [{**body, "exclude": [gone]} for body in bodies])
    assert gone not in excluded
    assert [e for e, b in zip(excluded, before) if b != gone] == [b for b in before if b != gone]


@pytest.mark.parametrize("select", ("least_request", {"ring_hash": {"bounded_load": "125%"}}))
def test_open_requests_are_looked_at(usherd, select):
    daemon = start(usherd, [endpoint("a", 8081), endpoint("b", 8082)], {"catalog": select})
    busy = daemon.pick(body={"key": "k"}).json["endpoint"]["id"]
    path = f"/v1/services/catalog/endpoints/{busy}/in-flight"
    with contextlib.closing(UnixConnection(daemon.socket)) as reporter:
        reporter.request("PUT", path, json.dumps({"count": 1000, "ttl": "60s"}))
        assert reporter.getresponse().status == 204
        assert busy not in ids(daemon, "catalog", [{"key": "k"}] * 20)


def test_slow_endpoints_get_less(usherd):
    daemon = start(usherd, [endpoint("slow", 8081), endpoint("fast", 8082)], {"catalog": "peak_ewma"})
    reports = [{"endpoint": "slow", "outcome": "ok", "latency_ms": 900}, {"endpoint": "fast", "outcome": "ok", "latency_ms": 1}]
    assert daemon.call("POST", "/v1/services/catalog/reports", reports).status == 204
    assert ids(daemon, "catalog", [{}] * 20) == ["fast"] * 20


@pytest.mark.parametrize("select,words", [
    ({"maglev": {"table_size": 65536}}, "65537"),
    ({"ring_hash": {"min_size": 1000}}, "power of two"),
    ({"ring_hash": {"bounded_load": "90%"}}, "100%"),
    ({"least_request": {"choices": 1}}, "2"),
    ({"peak_ewma": {"decay": "0s"}}, "decay"),
])
def test_an_option_that_makes_no_sense_is_refused_with_its_place(usherd, select, words):
    daemon = usherd({"services": {"catalog": {"select": select}}})
    checked = subprocess.run([USHERD, "--check", daemon.config_path], capture_output=True, text=True, check=False)
    assert checked.returncode != 0
    assert words in checked.stderr + checked.stdout and "usher.yaml:" in checked.stderr + checked.stdout
