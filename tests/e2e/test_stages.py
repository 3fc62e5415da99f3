"""Stages that judge the service as a whole or share requests out, as consumers meet them."""

import json
import subprocess

import pytest

from usher import USHERD, UnixConnection, as_yaml, endpoint, replace_file, wait_until

CANARY = {"track": "canary"}
AT_ONCE = {"removal_guard": {"share": "100%"}}  # removals are believed


def start(usherd, service, endpoints):
    daemon = usherd({"services": {"catalog": {**AT_ONCE, **service}}})
    daemon.write_endpoints({"catalog": endpoints})
    daemon.start()
    return daemon


def ids_by_key(daemon, count, headers=None):
    """What is picked for so many keys."""
    connection = UnixConnection(daemon.socket)
    picked = {}
    for i in range(count):
        connection.request("POST", "/v1/services/catalog/pick", json.dumps({"key": f"user-{i}", "headers": headers or {}}))
        response = connection.getresponse()
        body = json.loads(response.read())
        picked[f"user-{i}"] = body["endpoint"]["id"] if response.status == 200 else body["stage"]
    connection.close()
    return picked


def stage(daemon, name, query=""):
    told = daemon.get(f"/v1/services/catalog/explain{query}")
    return next(s for s in told["stages"] if s["stage"] == name)


def test_a_growing_canary_keeps_those_who_are_in(usherd):
    endpoints = [endpoint("old-1", 8081), endpoint("old-2", 8082), endpoint("new", 8083, metadata=CANARY)]

    def service(share):
        return {"chain": [{"canary": {"match": "track=canary", "share": share}}]}

    daemon = start(usherd, service("10%"), endpoints)
    few = {key for key, picked in ids_by_key(daemon, 1000).items() if picked == "new"}
    assert 50 < len(few) < 150
    daemon.configure({"services": {"catalog": service("40%")}})
    daemon.reload()
    more = {key for key, picked in ids_by_key(daemon, 1000).items() if picked == "new"}
    assert few < more and 320 < len(more) < 480


def test_the_rest_never_gets_the_canary(usherd):
    daemon = start(usherd, {"chain": [{"canary": {"match": "track=canary", "share": "50%", "on_empty": "pass"}}]},
                   [endpoint("old", 8081), endpoint("new", 8082, metadata=CANARY)])
    both = ids_by_key(daemon, 100)
    assert set(both.values()) == {"old", "new"}

    # without canaries, those of the share get the others
    daemon.write_endpoints({"catalog": [endpoint("old", 8081)]})
    daemon.wait_listed({"old"})
    assert set(ids_by_key(daemon, 100).values()) == {"old"}

    # without others, the rest gets nothing
    daemon.write_endpoints({"catalog": [endpoint("new", 8082, metadata=CANARY)]})
    daemon.wait_listed({"new"})
    assert ids_by_key(daemon, 100) == {key: "new" if picked == "new" else "canary" for key, picked in both.items()}
    left_out = next(key for key, picked in both.items() if picked == "old")
    assert "nobody else" in stage(daemon, "canary", f"?key={left_out}")["told"]


def test_a_canary_on_demand_only(usherd):
    daemon = start(usherd, {"chain": [{"canary": [
        {"when": {"header.X-Canary": "present"}, "match": "track=canary", "share": "100%", "on_empty": "fail"},
        {"match": "track=canary", "share": "0%"}]}]},
        [endpoint("old", 8081), endpoint("new", 8082, metadata=CANARY)])
    assert set(ids_by_key(daemon, 50).values()) == {"old"}
    assert set(ids_by_key(daemon, 50, {"x-canary": "1"}).values()) == {"new"}
    daemon.write_endpoints({"catalog": [endpoint("old", 8081)]})
    daemon.wait_listed({"old"})
    assert set(ids_by_key(daemon, 5, {"X-Canary": "1"}).values()) == {"canary"}
    assert set(ids_by_key(daemon, 50).values()) == {"old"}


def test_a_zone_that_is_short_gives_away_what_it_cannot_bear(usherd):
    service = {"chain": [{"zone": {"spill_over": {"share": "50%"}}}]}
    west = [endpoint(f"w{i}", 8090 + i, metadata={"zone": "west"}) for i in range(4)]
    daemon = start(usherd, service, [endpoint("e0", 8080, zone="east"), *west])
    picked = list(ids_by_key(daemon, 500).values())
    assert 230 < picked.count("e0") < 330  # 56 %
    told = stage(daemon, "zone", "?key=user-1")["told"]
    assert told.startswith("zone east has 20% of the capacity for 50% of the traffic: 44% of its requests go elsewhere")

    daemon.write_endpoints({"catalog": [endpoint("e0", 8080, zone="east"), west[0]]})
    daemon.wait_listed({"e0", "w0"})
    assert set(ids_by_key(daemon, 50).values()) == {"e0"}
    assert stage(daemon, "zone")["told"] is None

    daemon.write_endpoints({"catalog": west})
    daemon.wait_listed({"w0", "w1", "w2", "w3"})
    assert stage(daemon, "zone")["told"] == "nobody is in zone east"
    assert set(ids_by_key(daemon, 50).values()) == {"w0", "w1", "w2", "w3"}


def test_the_second_source_is_asked_when_the_first_is_short(usherd):
    daemon = usherd()
    partner = daemon.folder / "partner.yaml"
    sources = [{"name": name, "plugin": "file", "options": {"path": str(path)}}
               for name, path in (("own", daemon.endpoints), ("partner", partner))]
    daemon.configure({"sources": sources, "services": {"catalog": {
        "sources": ["own", "partner"], "merge": "union", "chain": ["ready", {"priority": {"by": "source"}}]}}})
    daemon.write_endpoints({"catalog": [endpoint("own-1", 8081), endpoint("own-2", 8082)]})
    replace_file(partner, as_yaml({"services": {"catalog": [endpoint("partner-1", 8091), endpoint("partner-2", 8092)]}}))
    daemon.start()
    assert set(ids_by_key(daemon, 100).values()) == {"own-1", "own-2"}

    daemon.write_endpoints({"catalog": [endpoint("own-1", 8081), endpoint("own-2", 8082, ready=False, serving=False)]})
    daemon.wait_listed({"own-1", "partner-1", "partner-2"})
    picked = list(ids_by_key(daemon, 500).values())
    assert 290 < picked.count("own-1") < 410  # 70 %
    assert stage(daemon, "priority")["told"].startswith("source 1 1 of 2 usable: 70%; source 2 2 of 2 usable: 30%; ")

    # one that drains is not missed
    daemon.write_endpoints({"catalog": [endpoint("own-1", 8081), endpoint("own-2", 8082, state="draining")]})
    wait_until("nobody but own-1 is asked", lambda: set(ids_by_key(daemon, 50).values()) == {"own-1"})


def test_a_node_keeps_its_subset(usherd):
    fleet = [endpoint(f"e{i:02}", 8000 + i) for i in range(40)]
    daemon = start(usherd, {"chain": [{"subset": {"size": 10}}]}, fleet)
    kept = set(daemon.listed())
    assert len(kept) == 10
    told = stage(daemon, "subset")
    assert told["told"] == '10 of 40, by rank for the identity "node-1"'
    assert "rank" in told["left"][0]["reason"]
    gone = sorted(kept)[0]
    daemon.write_endpoints({"catalog": [e for e in fleet if e["id"] != gone]})
    after = wait_until("the subset changes", lambda: set(daemon.listed()) if set(daemon.listed()) != kept else None)
    assert kept - after == {gone} and len(after) == 10
    assert daemon.restart() and set(daemon.listed()) == after


def test_one_that_comes_starts_slowly(usherd):
    daemon = start(usherd, {"chain": [{"slow_start": {"window": "2s"}}], "select": "weighted_random"}, [endpoint("a", 8081)])
    assert "ramp" not in daemon.listed()["a"]
    with daemon.watch() as stream:
        daemon.write_endpoints({"catalog": [endpoint("a", 8081), endpoint("b", 8082, weight=7)]})
        ramps = []
        while not ramps or ramps[-1] < 1:
            line = stream.until(lambda line: any(e["id"] == "b" for e in line.get("changed", [])))
            b = next(e for e in line["changed"] if e["id"] == "b")
            assert b["weight"] == 7
            ramps.append(b.get("ramp", 1))
    assert ramps[0] < 0.5 and ramps == sorted(ramps) and len(ramps) > 3
    assert "ramp" not in daemon.listed()["a"] and "ramp" not in daemon.listed()["b"]


@pytest.mark.parametrize("service, word", [
    ({"chain": ["health"]}, "health"),
    ({"chain": ["slow_start"], "select": "round_robin"}, "slow_start"),
    ({"chain": [{"canary": {"match": "a", "share": "5%"}}, {"subset": {"size": 3}}]}, "subset"),
    ({"chain": [{"hint": {}}, {"priority": {"by": "zone"}}]}, "priority"),
    ({"chain": [{"zone": {"spill_over": {"share": "0%"}}}]}, "spill_over.share"),
    ({"chain": [{"priority": {"label": "tier"}}]}, "order"),
])
def test_what_cannot_be_meant_is_refused_with_its_place(usherd, service, word):
    daemon = usherd({"services": {"catalog": service}})
    checked = subprocess.run([USHERD, "--check", daemon.config_path], capture_output=True, text=True)
    assert checked.returncode != 0
    assert f"{daemon.config_path}:" in checked.stderr and word in checked.stderr
