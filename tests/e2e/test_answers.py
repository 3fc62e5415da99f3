"""What people and consumers are shown of choices, health and costs, by a real usherd: API, usherctl and metrics say the same."""

import json
import re

import pytest

from checked_server import Instance
from usher import UnixConnection, endpoint, wait_until


@pytest.fixture
def instances():
    made = {name: Instance(name) for name in "abc"}
    yield made
    for instance in made.values():
        instance.stop()


def endpoints(instances, **more):
    return {"catalog": [endpoint(i.name, i.port, metadata={"API_VERSION": "1.0"}, **more) for i in instances.values()]}


def metrics(daemon):
    lines = daemon.call("GET", "/metrics").body.decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def health_of(daemon):
    return {e["id"]: e["health"] for e in daemon.get("/v1/services/catalog/endpoints?all=true")["endpoints"]}


def wait_states(daemon, **states):
    wait_until(f"the states are {states}", lambda: {k: h["state"] for k, h in health_of(daemon).items()} == states)


CHECKED = {"health": {"http": {"path": "/health"}, "interval": "50ms", "timeout": "2s"}, "chain": ["ready", "health"]}


def test_health_reads_the_same_in_api_usherctl_explain_and_metrics(usherd, instances):
    daemon = usherd({"services": {"catalog": CHECKED}})
    daemon.write_endpoints(endpoints(instances))
    daemon.start()
    instances["b"].status = 503
    wait_states(daemon, a="up", b="down", c="up")

    health = health_of(daemon)
    assert (health["b"]["reason"], health["b"]["error"]) == ("status", "HTTP 503, expected 200")
    assert health["b"]["good"] == 0 < health["b"]["bad"] and health["a"]["bad"] == 0 < health["a"]["good"]
    assert health["a"]["took_ms"] >= 0 and health["a"]["age_ms"] >= 0 and health["a"]["error"] is None
    # A consumer's list is rendered once for all, and has only what a revision is about.
    assert {k: e["health"] for k, e in daemon.listed().items()} == {"a": {"state": "up"}, "c": {"state": "up"}}
    assert daemon.pick().json["endpoint"]["health"] == {"state": "up"}

    explained = daemon.get("/v1/services/catalog/explain")
    left = next(s for s in explained["stages"] if s["stage"] == "health")["left"]
    assert [(e["id"], e["health"]["error"]) for e in left] == [("b", "HTTP 503, expected 200")]
    assert re.search(r"^  health +3 +2 +- +yes +b +down: its checks fail: HTTP 503, expected 200, \d+s ago$",
                     daemon.ctl("explain", "catalog").stdout, re.M)
    text = daemon.ctl("describe", "endpoint", "catalog/b").stdout
    assert re.search(r"^Health: +down for \d+s$", text, re.M)
    assert re.search(r"^  Last error: +HTTP 503, expected 200, \d+s ago$", text, re.M)
    assert re.search(r"^b .* down for \d+s +\d+s +HTTP 503, expected 200, \d+s ago +down", daemon.ctl("get", "endpoints", "catalog", "-o", "wide").stdout, re.M)
    assert re.search(r"^Health: +2 up, 1 down$", daemon.ctl("describe", "service", "catalog").stdout, re.M)
    shown = metrics(daemon)
    assert shown['usher_health_endpoints{service="catalog",state="down"}'] == "1"
    assert shown['usher_health_endpoints{service="catalog",state="up"}'] == "2"
    assert shown['usher_health_panic{service="catalog"}'] == "0"
    assert int(shown['usher_health_probes_total{service="catalog"}']) >= 6


def test_a_watch_tells_a_change_of_health_and_a_panic(usherd, instances):
    daemon = usherd({"services": {"catalog": {**CHECKED, "health": {**CHECKED["health"], "on_all_down": "panic"}}}})
    daemon.write_endpoints(endpoints(instances))
    daemon.start()
    wait_states(daemon, a="up", b="up", c="up")
    with daemon.watch() as watch:
        assert "panic" not in watch.next()
        instances["b"].status = 503
        assert watch.until(lambda line: "b" in line.get("removed", []))["type"] == "update"
        instances["a"].status = instances["c"].status = 503
        watch.until(lambda line: line.get("panic") and "b" in {e["id"] for e in line.get("changed", [])})
        assert set(daemon.listed()) == {"a", "b", "c"}
        assert daemon.pick().json["panic"] is True
        assert metrics(daemon)['usher_health_panic{service="catalog"}'] == "1"
        assert "in panic" in daemon.ctl("get", "services").stdout
        assert "too few endpoints of catalog are well" in daemon.ctl("pick", "catalog").stderr
        for instance in instances.values():
            instance.status = 200
        watch.until(lambda line: line["type"] == "update" and "panic" not in line)


def test_what_on_empty_ruled_is_counted_and_told(usherd, instances):
    rules = [{"when": {"header.X-Beta": "present"}, "label": "API_VERSION", "default": "2.0", "on_empty": "next"},
             {"label": "API_VERSION", "default": "1.0", "on_empty": "fail"}]
    daemon = usherd({"services": {"catalog": {"chain": [{"version": rules}, {"hint": {"on_empty": "pass"}}]}}})
    daemon.write_endpoints(endpoints(instances))
    daemon.start()

    for _ in range(2):
        assert daemon.pick(body={"headers": {"x-beta": "1"}}).status == 200
    refused = daemon.pick(body={"headers": {"X-API-Version": "9.0"}})
    assert (refused.status, refused.json["code"], refused.json["stage"]) == (503, "filtered", "version")
    for _ in range(3):
        assert daemon.pick(body={"hint": "blue"}).status == 200

    version, hint = daemon.get("/v1/services/catalog")["chain"]
    assert version["rules"] == [{"on_empty": "next", "when": {"header.X-Beta": "present"}}, {"on_empty": "fail", "when": None}]
    assert version["emptied"] == {"pass": 0, "fail": 1, "next": 2}
    assert hint["emptied"] == {"pass": 3, "fail": 0, "next": 0}
    shown = metrics(daemon)
    assert shown['usher_stage_empty_total{service="catalog",stage="version",ruled="next"}'] == "2"
    assert shown['usher_stage_empty_total{service="catalog",stage="hint",ruled="pass"}'] == "3"
    assert "left nobody: fail 1 times, next 2 times" in daemon.ctl("describe", "service", "catalog").stdout

    text = daemon.ctl("explain", "catalog", "--header", "X-Beta: 1").stdout
    assert re.search(r"^  version \(rule 2 of 2\) +3 +3 +next", text, re.M)
    text = daemon.ctl("explain", "catalog", "--header", "X-API-Version:9.0").stdout
    assert re.search(r"^  version \(rule 2 of 2\) +3 +0 +fail", text, re.M)
    assert re.search(r"^Why none: +filtered by version$", text, re.M)
    # Explaining is no pick.
    assert daemon.get("/v1/services/catalog")["chain"][0]["emptied"] == version["emptied"]


def test_explain_as_data_says_what_its_table_says(usherd, instances):
    daemon = usherd({"services": {"catalog": {"chain": ["ready", {"label": {"match": "API_VERSION=1.0"}}], "select": "weighted_random"}}})
    daemon.write_endpoints({"catalog": [endpoint("a", 1, weight=3, metadata={"API_VERSION": "1.0"}), endpoint("b", 2, metadata={"API_VERSION": "2"}),
                                        endpoint("c", 3, metadata={"API_VERSION": "1.0"})]})
    daemon.start()
    data = json.loads(daemon.ctl("explain", "catalog", "-o", "json").stdout)
    assert [(s["stage"], s["in"], s["out"]) for s in data["stages"]] == [("admin", 3, 3), ("ready", 3, 3), ("label", 3, 2)]
    assert [e["id"] for e in data["stages"][2]["left"]] == ["b"]
    assert data["candidates"] == 2
    assert data["share"] == {"a": 0.75, "c": 0.25}[data["choice"]]
    assert re.search(r"^Share: +(75|25).0%$", daemon.ctl("explain", "catalog").stdout, re.M)


def test_the_cost_of_checks_is_told_before_and_while_they_run(usherd, instances):
    daemon = usherd({"services": {"catalog": CHECKED, "later": {**CHECKED, "startup_timeout": "1s"}}})
    daemon.write_endpoints({**endpoints(instances), "later": []})
    daemon.start()

    before = daemon.get("/v1/services/later/budget")["checks"]
    assert before["measured"] is None and before["estimate"]["probes_per_s"] == 0
    planned = daemon.get("/v1/services/later/budget?endpoints=500")["checks"]["estimate"]
    assert planned["endpoints"] == 500 and planned["probes_per_s"] == planned["connections_per_s"] == 10000 and planned["bytes_per_s"] > 1e6
    assert re.search(r"^later +http +50ms +500 +10000 +10000 +\d+ +estimated$", daemon.ctl("budget", "later", "--endpoints", "500").stdout, re.M)

    measured = wait_until("all were asked", lambda: (daemon.get("/v1/services/catalog/budget")["checks"]["measured"] or {}).get("probes", 0) > 10
                          and daemon.get("/v1/services/catalog/budget")["checks"]["measured"])
    assert measured["endpoints"] == 3 and 1 < measured["probes_per_s"] < 90
    assert measured["connections"] == pytest.approx(measured["probes"], abs=5) and measured["bytes"] > 100 * measured["probes"]
    whole = daemon.get("/v1/budget")
    assert [s["service"] for s in whole["services"]] == ["catalog", "later"]
    assert whole["total"]["measured"]["endpoints"] == 3
    assert whole["prober"]["stretch"] == 1 and whole["prober"]["late_ms"]["p50"] <= whole["prober"]["late_ms"]["max"]
    text = daemon.ctl("budget").stdout
    assert re.search(r"^catalog +http +50ms +3 .* measured$", text, re.M) and re.search(r"^\(all\) ", text, re.M)
    assert re.search(r"^Cap: +none$", text, re.M)


def test_a_cap_stretches_intervals_and_says_so(usherd, instances):
    daemon = usherd({"prober": {"max_rate": 10}, "services": {"catalog": CHECKED}})
    daemon.write_endpoints(endpoints(instances))
    daemon.start()
    prober = wait_until("the cap holds", lambda: daemon.get("/v1/budget")["prober"]["stretch"] > 1 and daemon.get("/v1/budget")["prober"])
    assert (prober["max_rate_per_s"], prober["wanted_per_s"], prober["stretch"]) == (10, 60, 6)
    measured = wait_until("some were asked", lambda: daemon.get("/v1/services/catalog/budget")["checks"]["measured"])
    assert measured["probes_per_s"] <= 20, "what happens, and not what the intervals ask for"
    assert daemon.get("/v1/budget")["prober"]["rate_per_s"] <= 20
    assert daemon.get("/v1/status")["prober"]["stretch"] == 6
    assert metrics(daemon)["usher_probe_stretch"] == "6"
    assert re.search(r"^Cap: +10 per second, and the intervals ask for 60: each is 6 times as long$", daemon.ctl("budget").stdout, re.M)
    assert "intervals stretched by prober.max_rate" in daemon.ctl("status").stdout


def test_open_requests_that_consumers_tell_steer_the_choice(usherd):
    daemon = usherd({"services": {"catalog": {"chain": ["ready"], "select": "least_request"}}})
    daemon.write_endpoints({"catalog": [endpoint("a", 1), endpoint("b", 2)]})
    daemon.start()
    connection = UnixConnection(daemon.socket)
    try:
        connection.request("PUT", "/v1/services/catalog/endpoints/a/in-flight", json.dumps({"count": 1000, "ttl": "1h"}))
        connection.getresponse().read()
        assert daemon.picked(count=30) == {"b"}
    finally:
        connection.close()
    # The report goes with its connection.
    wait_until("a is chosen again", lambda: "a" in daemon.picked(count=30))


def test_latencies_that_consumers_tell_steer_the_choice(usherd):
    daemon = usherd({"services": {"catalog": {"chain": ["ready"], "select": "peak_ewma"}}})
    daemon.write_endpoints({"catalog": [endpoint("a", 1), endpoint("b", 2)]})
    daemon.start()
    for _ in range(20):
        reports = [{"endpoint": "a", "outcome": "ok", "latency_ms": 900}, {"endpoint": "b", "outcome": "ok", "latency_ms": 1.5}]
        assert daemon.call("POST", "/v1/services/catalog/reports", reports).status == 204
    counts = {"a": 0, "b": 0}
    for _ in range(40):
        chosen = daemon.pick().json["endpoint"]["id"]
        counts[chosen] += 1
        daemon.call("POST", "/v1/services/catalog/reports", [{"endpoint": chosen, "outcome": "ok", "latency_ms": {"a": 900, "b": 1.5}[chosen]}])
    assert counts["b"] > 3 * counts["a"]


def told(answer):
    return {k: answer[k] for k in ("code", "stage") if k in answer}


def words(daemon, service="catalog"):
    """What a list, the list with all, the first line of a watch and a pick say of why there is nobody to choose; once, as it is the same."""
    path = f"/v1/services/{service}/endpoints"
    with daemon.watch(service) as watch:
        said = [told(watch.next()), told(daemon.get(path)), told(daemon.get(f"{path}?all=true"))]
    refused = daemon.pick(service)
    assert refused.status == 503
    assert said == [told(refused.json)] * 3
    return said[0]


def test_a_list_and_a_watch_say_in_a_picks_words_why_there_is_nobody(usherd):
    gold = {"chain": [{"label": {"match": "tier=gold", "on_empty": "fail"}}]}
    daemon = usherd({"services": {"catalog": {}, "strict": gold, "nobody": {}}})
    one = [endpoint("a", 8080)]
    daemon.write_endpoints({"catalog": one, "strict": one, "nobody": []})
    daemon.start()
    assert "code" not in daemon.get("/v1/services/catalog/endpoints")
    assert words(daemon, "strict") == {"code": "filtered", "stage": "label"}
    assert words(daemon, "nobody") == {"code": "empty"}

    shown = daemon.ctl("get", "endpoints", "strict")
    assert shown.stderr == "strict (live): no endpoint is chosen: the stage label leaves none; usherctl explain strict says more.\n"
    assert re.search(r"^a .* left out by label$", shown.stdout, re.M)
    shown = daemon.ctl("get", "endpoints", "nobody")
    assert "no endpoint is chosen: there are none, and every source is sure of that" in shown.stderr


def test_a_list_and_a_watch_tell_all_down_from_all_in_maintenance(usherd, instances):
    daemon = usherd({"services": {"catalog": {**CHECKED, "health": {**CHECKED["health"], "on_all_down": "fail"}}}})
    daemon.write_endpoints(endpoints(instances))
    daemon.start()
    wait_states(daemon, a="up", b="up", c="up")
    with daemon.watch() as watch:
        assert "code" not in watch.next()
        for instance in instances.values():
            instance.status = 503
        line = watch.until(lambda line: "code" in line)
        assert (line["type"], told(line)) == ("update", {"code": "all_unhealthy"})
        assert words(daemon) == {"code": "all_unhealthy"}
        assert "no endpoint is chosen: all are unhealthy; usherctl explain catalog" in daemon.ctl("get", "endpoints", "catalog").stderr

        # Who is listed stays the same, which is nobody: the reason alone is an update.
        daemon.write_endpoints(endpoints(instances, state="maintenance"))
        line = watch.until(lambda line: line.get("code") == "filtered")
        assert (line["type"], told(line), line["changed"], line["removed"]) == (
            "update", {"code": "filtered", "stage": "drain"}, [], [])
        assert words(daemon) == {"code": "filtered", "stage": "drain"}

        for instance in instances.values():
            instance.status = 200
        daemon.write_endpoints(endpoints(instances))
        line = watch.until(lambda line: "code" not in line and line.get("changed"))
        assert line["type"] == "update"


def test_when_all_are_drained_the_list_has_them_and_says_so(usherd):
    daemon = usherd({"services": {"catalog": {}}})
    daemon.write_endpoints({"catalog": [endpoint(name, 8080, state="draining") for name in "ab"]})
    daemon.start()
    assert words(daemon) == {"code": "filtered", "stage": "drain"}
    assert set(daemon.listed()) == {"a", "b"}
