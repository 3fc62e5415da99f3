"""Health, with real servers that are asked: down and up, at whose word, and what becomes of picks meanwhile."""

import re
import signal
import time

import pytest

from checked_server import Instance, closed_port
from usher import wait_until

CHAIN = ["ready", "health"]


@pytest.fixture
def instances():
    """Make instances by name; all are stopped in the end."""
    made = []

    def make(*names, **more):
        fresh = [Instance(name, **more) for name in names]
        made.extend(fresh)
        return fresh if len(fresh) > 1 else fresh[0]

    yield make
    for instance in made:
        instance.stop()


def checked(health=None, chain=None, **service):
    """The configuration of a service catalog that is asked often."""
    whole = {"http": {"path": "/health"}, "interval": "50ms", "timeout": "20s", "jitter": "0%", "rise": 2, "fall": 3}
    whole.update(health or {})
    return {"services": {"catalog": {"health": whole, "chain": CHAIN if chain is None else chain, **service}}}


def known(daemon, service="catalog"):
    """All endpoints by id, those left out, too."""
    answer = daemon.get(f"/v1/services/{service}/endpoints?all=true")
    return {e["id"]: e for e in answer["endpoints"]}


def states(daemon, service="catalog"):
    return {name: e["health"]["state"] for name, e in known(daemon, service).items()}


def wait_states(daemon, service="catalog", **expected):
    def are_so():
        answer = daemon.call("GET", f"/v1/services/{service}/endpoints?all=true")
        # A service that has just been declared may have no answer from its source yet.
        return answer.status == 200 and {e["id"]: e["health"]["state"] for e in answer.json["endpoints"]} == expected

    return wait_until(f"the states of {service} are {expected}", are_so)


def pick_code(daemon):
    answer = daemon.pick()
    return answer.status, answer.json.get("code")


def asked_again(instance, times):
    """Until the instance has been asked so many times more."""
    before = instance.count
    wait_until(f"{instance.name} is asked {times} times more", lambda: instance.count >= before + times)


def lines(daemon, pattern):
    return re.findall(pattern, daemon.log_text())


def said(daemon, pattern):
    """What is published may be told a moment later."""
    return wait_until(f"it is said: {pattern}", lambda: lines(daemon, pattern))


# ---- down and up ----


def test_an_endpoint_goes_down_and_comes_up_again(usherd, instances):
    a, b = instances("a", "b")
    daemon = usherd(checked())
    daemon.write_endpoints({"catalog": [a.endpoint(), b.endpoint()]})
    daemon.start()
    wait_states(daemon, a="up", b="up")
    assert daemon.picked() == {"a", "b"}
    assert set(a.requests) == {"/health"}

    a.status = 503
    wait_states(daemon, a="down", b="up")
    assert daemon.picked() == {"b"}
    health = known(daemon)["a"]["health"]
    assert health["reason"] == "status" and "503" in health["error"]
    assert said(daemon, r"Endpoint a of catalog is down: .*503.*\(3 in a row\)")

    a.status = 200
    wait_states(daemon, a="up", b="up")
    assert daemon.picked() == {"a", "b"}
    assert said(daemon, r"Endpoint a of catalog is up again; it was down for")


def test_rise_and_fall_count_what_the_server_answered(usherd, instances):
    a = instances("a")
    daemon = usherd(checked({"fall": 5, "rise": 4}))
    daemon.write_endpoints({"catalog": [a.endpoint()]})
    daemon.start()
    wait_states(daemon, a="up")
    a.status, before = 500, a.count
    wait_states(daemon, a="down")
    assert a.count - before >= 5
    a.status, before = 200, a.count
    wait_states(daemon, a="up")
    assert a.count - before >= 4


def test_degraded_is_a_state_of_its_own_and_used_when_nobody_is_up(usherd, instances):
    a, b = instances("a", "b")
    daemon = usherd(checked({"http": {"path": "/health", "degraded": [429]}}))
    daemon.write_endpoints({"catalog": [a.endpoint(), b.endpoint()]})
    daemon.start()
    wait_states(daemon, a="up", b="up")
    a.status = 429
    wait_states(daemon, a="degraded", b="up")
    assert daemon.picked() == {"b"}
    b.status = 500
    wait_states(daemon, a="degraded", b="down")
    assert daemon.picked() == {"a"}


@pytest.mark.parametrize("initial", ["unknown", "up", "down"])
def test_before_the_first_answer_the_initial_state_rules(usherd, instances, initial):
    a = instances("a")
    a.hold()
    daemon = usherd(checked({"initial": initial, "timeout": "60s"}))
    daemon.write_endpoints({"catalog": [a.endpoint()]})
    daemon.start()  # and does not wait for health
    assert states(daemon) == {"a": initial}
    assert pick_code(daemon) == ((503, "all_unhealthy") if initial == "down" else (200, None))
    a.let_go()
    wait_states(daemon, a="up")
    assert daemon.picked() == {"a"}


def test_a_network_that_is_absent_at_boot_and_then_there(usherd, instances):
    held, port = closed_port()
    daemon = usherd(checked())
    daemon.write_endpoints({"catalog": [{"id": "a", "address": "127.0.0.1", "port": port}]})
    daemon.start()
    wait_states(daemon, a="down")
    assert known(daemon)["a"]["health"]["reason"] == "refused"
    assert pick_code(daemon) == (503, "all_unhealthy")
    held.close()
    instances("a", port=port)
    wait_states(daemon, a="up")
    assert daemon.picked() == {"a"}


# ---- time ----


def test_the_timeout_is_apart_from_the_interval(usherd, instances):
    slow, quick = instances("slow", "quick")
    slow.delay = 0.3  # six intervals
    daemon = usherd(checked({"timeout": "30s"}))
    daemon.write_endpoints({"catalog": [slow.endpoint(), quick.endpoint()]})
    daemon.start()
    wait_states(daemon, slow="up", quick="up")
    asked_again(slow, 4)
    assert states(daemon) == {"slow": "up", "quick": "up"}
    assert quick.count > slow.count


def test_an_answer_that_takes_too_long_is_none(usherd, instances):
    a, b = instances("a", "b")
    daemon = usherd(checked({"interval": "100ms", "timeout": "500ms", "fall": 2}))
    daemon.write_endpoints({"catalog": [a.endpoint(), b.endpoint()]})
    daemon.start()
    wait_states(daemon, a="up", b="up")
    a.hold()
    wait_states(daemon, a="down", b="up")
    assert known(daemon)["a"]["health"]["reason"] == "timeout"
    assert daemon.picked() == {"b"}
    a.let_go()
    wait_states(daemon, a="up", b="up")


def test_nobody_is_judged_for_the_time_that_usherd_stood_still(usherd, instances):
    made = instances(*"abcdefgh")
    daemon = usherd(checked({"interval": "300ms", "timeout": "3s", "fall": 1, "rise": 1}))
    daemon.write_endpoints({"catalog": [i.endpoint() for i in made]})
    daemon.start()
    everybody = {i.name: "up" for i in made}
    wait_states(daemon, **everybody)
    for i in made:
        i.delay = 0.02  # so that some attempts are under way
    for _ in range(3):
        asked_again(made[0], 2)
        daemon.process.send_signal(signal.SIGSTOP)
        time.sleep(4)  # what passes is the subject: longer than the timeout
        daemon.process.send_signal(signal.SIGCONT)
        for i in made:
            asked_again(i, 3)
    assert states(daemon) == everybody
    assert not lines(daemon, r"is down")


# ---- all down ----


def test_when_all_are_down_picks_fail_and_say_why(usherd, instances):
    a, b = instances("a", "b")
    daemon = usherd(checked())
    daemon.write_endpoints({"catalog": [a.endpoint(), b.endpoint()]})
    daemon.start()
    wait_states(daemon, a="up", b="up")
    a.status = b.status = 500
    wait_until("picks fail", lambda: pick_code(daemon) == (503, "all_unhealthy"))
    assert states(daemon) == {"a": "down", "b": "down"}
    assert said(daemon, r"No endpoint of catalog is usable \(2 down\)")
    a.status = 200
    wait_until("picks are answered", lambda: daemon.pick().status == 200)
    assert daemon.picked() == {"a"}
    assert len(said(daemon, r"Endpoints of catalog are usable again")) == 1


def test_in_panic_all_are_used_and_every_answer_says_so(usherd, instances):
    a, b = instances("a", "b")
    daemon = usherd(checked({"on_all_down": "panic"}))
    daemon.write_endpoints({"catalog": [a.endpoint(), b.endpoint()]})
    daemon.start()
    wait_states(daemon, a="up", b="up")
    assert "panic" not in daemon.pick().json
    a.status = b.status = 500
    wait_states(daemon, a="down", b="down")
    assert daemon.picked() == {"a", "b"}
    assert daemon.pick().json["panic"] is True
    assert daemon.get("/v1/services/catalog/endpoints")["panic"] is True
    assert daemon.get("/v1/services/catalog/explain")["panic"] is True
    a.status = 200
    wait_states(daemon, a="up", b="down")
    assert daemon.picked() == {"a"}
    assert "panic" not in daemon.pick().json
    assert len(said(daemon, r"Too few endpoints of catalog are usable")) == 1
    assert len(said(daemon, r"The panic about catalog is over")) == 1


def test_what_is_drained_on_purpose_does_not_make_a_panic(usherd, instances):
    made = instances(*"abcde")
    daemon = usherd(checked({"on_all_down": "panic", "panic_threshold": "60%"}))
    endpoints = [i.endpoint() for i in made]
    for e in endpoints[:3]:
        e["state"] = "draining"
    daemon.write_endpoints({"catalog": endpoints})
    daemon.start()
    wait_states(daemon, **{name: "up" for name in "abcde"})
    # 2 of 5 are left, and both are well: no panic
    assert "panic" not in daemon.pick().json
    assert daemon.picked() == {"d", "e"}
    made[3].status = 500
    wait_states(daemon, a="up", b="up", c="up", d="down", e="up")
    # 1 of the 2 that are left is less than 60 %
    assert daemon.pick().json["panic"] is True
    assert daemon.picked() == {"d", "e"}


def test_the_last_that_is_well_is_not_drained(usherd, instances):
    a, b = instances("a", "b")
    a.status = 500
    # a threshold of 60 %: one of two that is well is a panic, and both are picked
    daemon = usherd(checked({"on_all_down": "panic", "panic_threshold": "60%"}))
    daemon.write_endpoints({"catalog": [a.endpoint(), b.endpoint()]})
    daemon.start()
    wait_states(daemon, a="down", b="up")
    assert daemon.picked() == {"a", "b"}
    refused = daemon.call("POST", "/v1/drains", {"service": "catalog", "endpoint": "b"}, admin=True)
    assert (refused.status, refused.json["code"]) == (409, "refused")
    assert "would leave 0 ready endpoints" in refused.json["detail"]
    # the one that is down is no loss
    daemon.wait_finished(daemon.drain("a")["id"])
    assert states(daemon)["b"] == "up"


# ---- flapping ----


def test_what_flaps_is_published_once_at_most_and_flagged(usherd, instances):
    a, b = instances("a", "b")
    daemon = usherd(checked({"interval": "20ms"}))
    daemon.write_endpoints({"catalog": [a.endpoint(), b.endpoint()]})
    daemon.start()
    wait_states(daemon, a="up", b="up")
    a.turns = [200, 503]
    wait_until("a flaps", lambda: known(daemon)["a"]["health"].get("flapping"))
    asked_again(a, 200)
    assert len(lines(daemon, r"Endpoint a of catalog is (?:up|down)")) <= 1
    assert len(said(daemon, r"Endpoint a of catalog flaps")) == 1
    assert known(daemon)["a"]["health"]["flapping"] is True
    assert "flapping" not in known(daemon)["b"]["health"]


def test_flapping_ends_when_the_checks_agree(usherd, instances):
    a = instances("a")
    daemon = usherd(checked({"interval": "20ms", "rise": 1, "fall": 1,
                             "flapping": {"changes": 4, "window": "60s", "hold": "500ms"}}))
    daemon.write_endpoints({"catalog": [a.endpoint()]})
    daemon.start()
    wait_states(daemon, a="up")
    a.turns = [200, 503]
    wait_until("a flaps", lambda: known(daemon)["a"]["health"].get("flapping"))
    asked_again(a, 20)
    assert states(daemon) == {"a": "down"}
    a.turns = None
    wait_states(daemon, a="up")
    assert "flapping" not in known(daemon)["a"]["health"]


# ---- endpoints that change ----


def test_the_probe_of_a_port_that_is_left_stops(usherd, instances):
    old, new = instances("a", "a")
    daemon = usherd(checked())
    daemon.write_endpoints({"catalog": [old.endpoint()]})
    daemon.start()
    wait_states(daemon, a="up")
    daemon.write_endpoints({"catalog": [new.endpoint()]})
    wait_until("the new port is asked", lambda: new.count > 0)
    left_at = old.count
    asked_again(new, 10)
    assert old.count == left_at
    assert states(daemon) == {"a": "up"}


def test_removing_wins_over_whatever_health_says(usherd, instances):
    a, b, c = instances("a", "b", "c")
    b.status = 500
    daemon = usherd(checked(removal_guard={"share": "100%"}))
    daemon.write_endpoints({"catalog": [a.endpoint(), b.endpoint(), c.endpoint()]})
    daemon.start()
    wait_states(daemon, a="up", b="down", c="up")
    # one that is well, and one that fails
    daemon.write_endpoints({"catalog": [c.endpoint()]})
    wait_until("both are gone", lambda: set(known(daemon)) == {"c"})
    asked_again(c, 2)  # an attempt that was under way has come by then
    left_at = a.count, b.count
    asked_again(c, 10)
    assert (a.count, b.count) == left_at
    # back again: it starts anew
    b.hold()
    daemon.write_endpoints({"catalog": [b.endpoint(), c.endpoint()]})
    wait_until("b is there", lambda: "b" in known(daemon))
    assert states(daemon)["b"] == "unknown"
    b.let_go()
    wait_states(daemon, b="down", c="up")


@pytest.mark.parametrize("state", ["draining", "maintenance"])
def test_what_people_decided_and_what_was_observed_are_kept_apart(usherd, instances, state):
    a, b = instances("a", "b")
    a.status = 500
    daemon = usherd(checked())
    daemon.write_endpoints({"catalog": [a.endpoint(state=state), b.endpoint(state=state)]})
    daemon.start()
    wait_states(daemon, a="down", b="up")
    assert {name: e["admin_state"] for name, e in known(daemon).items()} == {"a": state, "b": state}
    assert pick_code(daemon) == (503, "filtered")  # and not all_unhealthy
    daemon.write_endpoints({"catalog": [a.endpoint(), b.endpoint()]})
    wait_until("both are ready", lambda: {e["admin_state"] for e in known(daemon).values()} == {"ready"})
    assert states(daemon) == {"a": "down", "b": "up"}
    assert daemon.picked() == {"b"}


def test_what_the_registry_says_and_what_was_observed_stand_side_by_side(usherd, instances):
    b = instances("b")
    held, port = closed_port()
    daemon = usherd(checked())
    daemon.write_endpoints({"catalog": [{"id": "a", "address": "127.0.0.1", "port": port, "ready": True}, b.endpoint()]})
    daemon.start()
    wait_states(daemon, a="down", b="up")
    assert daemon.picked() == {"b"}
    a = known(daemon)["a"]
    assert a["conditions"]["ready"] is True
    assert (a["health"]["state"], a["health"]["reason"]) == ("down", "refused")
    held.close()


def test_draining_failing_and_silent_are_different_words_everywhere(usherd, instances):
    drained, failing, silent, well = instances("drained", "failing", "silent", "well")
    daemon = usherd(checked({"interval": "100ms", "timeout": "500ms", "fall": 1}))
    daemon.write_endpoints({"catalog": [drained.endpoint(state="draining"), failing.endpoint(), silent.endpoint(),
                                        well.endpoint()]})
    failing.status = 500
    silent.hold()
    daemon.start()
    wait_states(daemon, drained="up", failing="down", silent="down", well="up")

    all_known = known(daemon)
    assert {name: e["admin_state"] for name, e in all_known.items()} == {
        "drained": "draining", "failing": "ready", "silent": "ready", "well": "ready"}
    assert [all_known[name]["health"]["reason"] for name in ("drained", "failing", "silent")] == ["ok", "status", "timeout"]

    metrics = daemon.call("GET", "/metrics").body.decode()
    counts = dict(re.findall(r'^usher_health_endpoints\{service="catalog",state="(\w+)"\} (\d+)$', metrics, re.M))
    assert counts == {"unknown": "0", "up": "2", "degraded": "0", "down": "2", "ejected": "0"}

    told = daemon.get("/v1/services/catalog/explain")
    left = {stage["stage"]: {e["id"]: e["reason"] for e in stage["left"]} for stage in told["stages"]}
    assert left["admin"] == {"drained": "draining"}
    assert set(left["health"]) == {"failing", "silent"}
    silent.let_go()


def test_canaries_are_counted_when_they_are_well(usherd, instances):
    old = instances("old")
    new = instances("new-1", "new-2", "new-3")
    canary = {"canary": {"match": "version=v2", "share": "100%", "minimum": 2, "on_empty": "pass"}}
    daemon = usherd(checked(chain=[*CHAIN, canary]))
    daemon.write_endpoints({"catalog": [old.endpoint()] + [i.endpoint(metadata={"version": "v2"}) for i in new]})
    daemon.start()
    wait_states(daemon, **{i.name: "up" for i in [old, *new]})
    assert daemon.picked(count=80) == {"new-1", "new-2", "new-3"}
    new[0].status = 500
    wait_until("two are left", lambda: daemon.picked(count=80) == {"new-2", "new-3"})
    # one is too few, and none is, too: then all that are well take the requests
    new[1].status = 500
    wait_until("the old one is used", lambda: daemon.picked(count=80) == {"old", "new-3"})
    new[2].status = 500
    wait_until("only the old one is used", lambda: daemon.picked() == {"old"})
    new[0].status = new[1].status = 200
    wait_until("canaries are used again", lambda: daemon.picked(count=80) == {"new-1", "new-2"})


def test_a_label_may_say_the_port_and_the_path(usherd, instances):
    a, aside = instances("a", "aside")
    daemon = usherd(checked({"http": {"path": "/health", "path_label": "health_path"}, "port_label": "health_port"}))
    labels = {"health_port": str(aside.port), "health_path": "/ready"}
    daemon.write_endpoints({"catalog": [a.endpoint(metadata=labels)]})
    daemon.start()
    wait_states(daemon, a="up")
    assert set(aside.requests) == {"/ready"} and a.count == 0
    daemon.write_endpoints({"catalog": [a.endpoint(metadata={"health_port": "none"})]})
    wait_states(daemon, a="down")
    health = known(daemon)["a"]["health"]
    assert health["reason"] == "target" and "health_port" in health["error"]
    assert said(daemon, r"Endpoint a of catalog is down, for it cannot be asked: .*health_port")


# ---- reports ----


def report(daemon, *reports):
    answer = daemon.call("POST", "/v1/services/catalog/reports", list(reports))
    assert answer.status == 204, answer


def test_an_endpoint_whose_calls_fail_is_ejected_for_a_while(usherd, instances):
    made = instances("a", "b", "c")
    daemon = usherd(checked({"outlier": {"enabled": True, "ejection": "1s", "max_ejection": "10s"}}))
    daemon.write_endpoints({"catalog": [i.endpoint() for i in made]})
    daemon.start()
    wait_states(daemon, a="up", b="up", c="up")
    report(daemon, {"endpoint": "a", "outcome": "error", "count": 4}, {"endpoint": "a", "outcome": "timeout"},
           {"endpoint": "b", "outcome": "failed", "count": 50})
    # of three, one may go; and good checks do not bring it back
    wait_states(daemon, a="ejected", b="up", c="up")
    assert daemon.picked() == {"b", "c"}
    assert known(daemon)["a"]["health"]["ejected_ms"] > 0
    wait_states(daemon, a="up", b="up", c="up")
    assert said(daemon, r"Endpoint a of catalog is used again; it was ejected for 1s")


def test_a_cap_on_ejections_does_not_hold_for_checks(usherd, instances):
    made = instances("a", "b", "c")
    daemon = usherd(checked({"outlier": {"enabled": True}}))
    daemon.write_endpoints({"catalog": [i.endpoint() for i in made]})
    daemon.start()
    wait_states(daemon, a="up", b="up", c="up")
    report(daemon, {"endpoint": "a", "outcome": "error", "count": 5})
    made[1].status = 500
    wait_states(daemon, a="ejected", b="down", c="up")
    assert daemon.picked() == {"c"}


# ---- reload and restart ----


def test_a_reload_keeps_what_is_known(usherd, instances):
    a, b = instances("a", "b")
    a.status = 500
    daemon = usherd(checked())
    daemon.write_endpoints({"catalog": [a.endpoint(), b.endpoint()]})
    daemon.start()
    wait_states(daemon, a="down", b="up")
    a.hold(), b.hold()  # no answer may be the reason for what is known then
    daemon.configure(checked({"interval": "40ms", "rise": 3, "timeout": "60s"}))
    daemon.reload()
    assert states(daemon) == {"a": "down", "b": "up"}
    a.status = 200
    a.let_go(), b.let_go()
    wait_states(daemon, a="up", b="up")


def test_checks_that_come_go_and_change_places_do_not_mix(usherd, instances):
    a, b = instances("a", "b")

    def configuration(*names):
        health = checked()["services"]["catalog"]
        return {"services": {name: health for name in names}}

    daemon = usherd(configuration("first", "second"))
    a.status = 500
    daemon.write_endpoints({"first": [a.endpoint()], "second": [b.endpoint()], "third": [b.endpoint()]})
    daemon.start()
    wait_states(daemon, "first", a="down")
    wait_states(daemon, "second", b="up")
    daemon.configure(configuration("third", "first"))
    daemon.reload()
    wait_states(daemon, "third", b="up")
    assert states(daemon, "first") == {"a": "down"}
    a.status = 200
    wait_states(daemon, "first", a="up")


def test_switching_a_check_off_and_on(usherd, instances):
    a = instances("a")
    a.status = 500
    daemon = usherd(checked())
    daemon.write_endpoints({"catalog": [a.endpoint()]})
    daemon.start()
    wait_states(daemon, a="down")
    daemon.configure({"services": {"catalog": {"chain": ["ready"], "health": "none"}}})
    daemon.reload()
    assert daemon.picked() == {"a"}
    assert "health" not in known(daemon)["a"]
    a.status = 200
    daemon.configure(checked())
    daemon.reload()
    wait_states(daemon, a="up")


def test_health_is_not_remembered_over_a_restart(usherd, instances):
    a = instances("a")
    a.status = 500
    daemon = usherd(checked())
    daemon.write_endpoints({"catalog": [a.endpoint()]})
    daemon.start()
    wait_states(daemon, a="down")
    daemon.kill()
    a.hold()
    daemon.start()
    assert states(daemon) == {"a": "unknown"}
    assert daemon.picked() == {"a"}
    a.let_go()
    wait_states(daemon, a="down")


def test_a_service_that_nobody_declared_is_asked_as_the_defaults_say(usherd, instances):
    a = instances("a")
    whole = checked()["services"]["catalog"]
    daemon = usherd({"defaults": whole, "services": {"quiet": {"health": "none", "chain": ["ready"]}}})
    daemon.write_endpoints({"catalog": [a.endpoint()], "quiet": [a.endpoint()]})
    daemon.start()
    assert a.count == 0
    daemon.wait_listed({"a"})
    wait_states(daemon, a="up")
    a.status = 500
    wait_states(daemon, a="down")
    assert pick_code(daemon) == (503, "all_unhealthy")


# ---- many ----


def test_a_mass_of_changes_is_told_in_few_lines(usherd, instances):
    a = instances("a")
    daemon = usherd(checked({"fall": 1, "interval": "1s", "timeout": "30s"}))
    daemon.write_endpoints({"catalog": [dict(a.endpoint(), id=f"e{i:03}") for i in range(200)]})
    daemon.start()
    wait_until("all are up", lambda: set(states(daemon).values()) == {"up"})
    a.status = 500
    wait_until("all are down", lambda: set(states(daemon).values()) == {"down"})
    assert len(lines(daemon, r"Endpoint e\d+ of catalog is down")) <= 10
    wait_until("the rest is told", lambda: lines(daemon, r"More endpoints of catalog have become another .*down"))
