"""Stages that go by what a request says of itself, as consumers meet them."""

import subprocess

import pytest

from usher import USHERD, endpoint, wait_until

AT_ONCE = {"removal_guard": {"share": "100%"}}  # removals are believed
TWO_VERSIONS = [endpoint("one", 8081, metadata={"API_VERSION": "1.2"}), endpoint("two", 8082, metadata={"API_VERSION": "v2"}),
                endpoint("none", 8083), endpoint("odd", 8084, metadata={"API_VERSION": "latest"})]


def start(usherd, chain, endpoints, **service):
    daemon = usherd({"services": {"catalog": {**AT_ONCE, "chain": chain, **service}}})
    daemon.write_endpoints({"catalog": endpoints})
    daemon.start()
    return daemon


def picked(daemon, consumer=None, count=80, **body):
    """The ids that so many picks returned, or the problem of the first that had none. Of three that are drawn at
    random, so many leave one out once in 10^13."""
    ids = set()
    for _ in range(count):
        answer = daemon.pick(body=body, headers={"Usher-Consumer": consumer} if consumer else None)
        if answer.status != 200:
            return f"{answer.json['code']} {answer.json.get('stage', '-')}"
        ids.add(answer.json["endpoint"]["id"])
    return ids


def stage(daemon, name, query=""):
    told = daemon.get(f"/v1/services/catalog/explain{query}")
    return next(s for s in told["stages"] if s["stage"] == name)


def test_a_version_is_asked_for_by_field_header_or_default(usherd):
    daemon = start(usherd, [{"version": {"default": "1.x"}}], TWO_VERSIONS)
    assert picked(daemon) == {"one"}
    assert picked(daemon, version="2.0") == {"two"}
    assert picked(daemon, version=">=1.2 <3") == {"one", "two"}
    assert picked(daemon, headers={"x-api-version": "^2"}) == {"two"}
    assert picked(daemon, version="1.2.0", headers={"X-API-Version": "2"}) == {"one"}
    # strict, and a version that cannot be read is nobody's
    assert picked(daemon, version="3.0") == "filtered version"
    assert picked(daemon, version="newest") == "filtered version"
    assert picked(daemon, headers={"X-API-Version": ""}) == "filtered version"
    assert picked(daemon) == {"one"}


def test_who_has_a_version_that_cannot_be_read_is_left_out_alone_and_named(usherd):
    daemon = start(usherd, ["version"], TWO_VERSIONS)
    told = stage(daemon, "version", "?version=2")
    assert (told["in"], told["out"]) == (4, 1)
    assert told["told"] == "asked for is 2; 1 cannot be read in label API_VERSION"
    assert {left["id"]: left["reason"] for left in told["left"]} == {
        "one": "version 1.2, asked for is 2",
        "none": "has no label API_VERSION, asked for is 2",
        "odd": 'label API_VERSION cannot be read: "latest" ends too early: expected a version, as in 1, 1.0 or 1.2.3'}
    assert stage(daemon, "version")["told"] == "no version is asked for, and there is no default"
    assert stage(daemon, "version", "?header=X-API-Version:1,0")["told"].startswith(
        'the version that is asked for cannot be read: "1,0" is wrong at character 2')


def test_rules_send_each_request_to_its_version(usherd):
    rules = [{"when": {"header.X-Beta": "present"}, "default": "2.x", "on_empty": "next"},
             {"when": {"consumer": "batch"}, "default": "9", "on_empty": "fail"},
             {"default": "1.x", "on_empty": "fail"}]
    daemon = start(usherd, [{"version": rules}], TWO_VERSIONS)
    assert picked(daemon) == {"one"}
    assert picked(daemon, headers={"X-Beta": "yes"}) == {"two"}
    assert picked(daemon, consumer="batch") == "filtered version"
    assert picked(daemon, consumer="batch", headers={"X-Beta": "yes"}) == {"two"}

    # the one for beta goes, and beta gets what the next rule says
    daemon.write_endpoints({"catalog": TWO_VERSIONS[:1]})
    daemon.wait_listed({"one"})
    assert picked(daemon, headers={"X-Beta": "yes"}) == {"one"}
    assert picked(daemon, consumer="batch", headers={"X-Beta": "yes"}) == "filtered version"
    told = stage(daemon, "version", "?header=X-Beta:yes")
    assert (told["rule"], told["out"]) == (2, 1)


def test_a_hint_is_a_wish_or_an_order(usherd):
    endpoints = [endpoint("a", 8081, metadata={"hint": "stable"}), endpoint("b", 8082, metadata={"hint": "canary"}),
                 endpoint("c", 8083)]
    daemon = start(usherd, ["hint"], endpoints)
    assert picked(daemon) == {"a", "b", "c"}
    assert picked(daemon, hint="canary") == {"b"}
    assert picked(daemon, headers={"X-SC-LB-Hint": "canary"}) == {"b"}
    assert picked(daemon, hint="nobody") == {"a", "b", "c"}
    daemon.configure({"services": {"catalog": {"chain": [{"hint": {"value": "stable", "header": "", "on_empty": "fail"}}]}}})
    daemon.reload()
    assert picked(daemon) == {"a"}
    assert picked(daemon, headers={"X-SC-LB-Hint": "canary"}) == {"a"}
    assert picked(daemon, hint="nobody") == "filtered hint"


def test_a_session_stays_until_its_endpoint_goes(usherd):
    fleet = [endpoint(name, 8080 + i) for i, name in enumerate("abc")]
    daemon = start(usherd, ["ready", {"sticky": {"cookie": "shop"}}], fleet)
    cookie = {"headers": {"Cookie": 'theme=dark; shop="b"; x=y=z'}}
    assert picked(daemon, **cookie) == {"b"}
    assert picked(daemon, sticky="c", **cookie) == {"c"}
    assert picked(daemon) == {"a", "b", "c"}

    # not ready, of weight 0, drained, gone: the session moves, and comes back when the endpoint does
    for change in ({"ready": False}, {"weight": 0}, {"state": "draining"}, None):
        others = [e for e in fleet if e["id"] != "b"]
        daemon.write_endpoints({"catalog": others + ([{**fleet[1], **change}] if change else [])})
        wait_until(f"the session moves: {change}", lambda: picked(daemon, **cookie) == {"a", "c"})
        daemon.write_endpoints({"catalog": fleet})
        wait_until("the session is back", lambda: picked(daemon, **cookie) == {"b"})


def test_a_consumer_goes_where_it_was_last(usherd):
    fleet = [endpoint(name, 8080 + i) for i, name in enumerate("abc")]
    daemon = start(usherd, ["same_instance"], fleet)
    first = {name: picked(daemon, name, 3) for name in ("shop", *(f"till-{i}" for i in range(60)))}
    assert all(len(ids) == 1 for ids in first.values())
    assert set().union(*first.values()) == {"a", "b", "c"}
    assert {name: picked(daemon, name, 1) for name in first} == first
    assert stage(daemon, "same_instance")["told"] == "this consumer was given none yet"

    # another is chosen when it goes, and is the last from then on
    gone = next(iter(first["shop"]))
    daemon.write_endpoints({"catalog": [e for e in fleet if e["id"] != gone]})
    daemon.wait_listed({"a", "b", "c"} - {gone})
    second = picked(daemon, consumer="shop")
    assert len(second) == 1 and second != first["shop"]
    daemon.write_endpoints({"catalog": fleet})
    daemon.wait_listed({"a", "b", "c"})
    assert picked(daemon, consumer="shop") == second


@pytest.mark.parametrize("chain, when_all_are_tried", [
    ([], "filtered exclude"),
    (["exclude"], "filtered exclude"),
    ([{"exclude": {"on_empty": "pass"}}], {"a", "b", "c"}),
])
def test_a_retry_goes_where_none_went_before(usherd, chain, when_all_are_tried):
    daemon = start(usherd, chain, [endpoint(name, 8080 + i) for i, name in enumerate("abc")])
    assert picked(daemon, exclude=["a"]) == {"b", "c"}
    assert picked(daemon, exclude=["a", "c"]) == {"b"}
    assert picked(daemon, exclude=["a", "b", "c"]) == when_all_are_tried
    assert picked(daemon, exclude=["A", "z"]) == {"a", "b", "c"}
    assert picked(daemon) == {"a", "b", "c"}


@pytest.mark.parametrize("stage_options, words", [
    ({"version": {"default": "latest"}}, 'version: default "latest" is wrong at character 1: expected a version, as in 1.0, ^1.2 or 1.x'),
    ({"version": {"default": ">=1.0<2"}}, 'is wrong at character 6: expected a blank, "||" or the end'),
    ({"hint": {"value": ""}}, "hint: value is empty: leave it out"),
    ({"sticky": {"cookie": "my cookie"}}, 'sticky: cookie "my cookie" is no name of a cookie'),
])
def test_options_that_cannot_be_meant_are_refused_with_their_place(usherd, stage_options, words):
    daemon = usherd({"services": {"catalog": {"chain": [stage_options]}}})
    checked = subprocess.run([USHERD, "--check", daemon.config_path], capture_output=True, text=True, check=False)
    assert checked.returncode == 1
    assert f"{daemon.config_path}:" in checked.stderr and words in checked.stderr
