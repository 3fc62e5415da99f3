"""The real usherd against a Eureka server that is played, in good order and in bad."""

import base64
import gzip
import json
import statistics
import time

import pytest
from scripted_eureka import Eureka
from scripted_registry import Cut, Fault, Flood, Raw, Redirect, Reply, Reset, Silence, Slow
from usher import wait_until


@pytest.fixture
def server():
    with Eureka() as registry:
        yield registry


@pytest.fixture
def pair():
    """Two that tell each other."""
    with Eureka() as one, Eureka() as other:
        one.peers.append(other)
        other.peers.append(one)
        yield one, other


def start(usherd, *servers, guard=None, max_age="60s", services=None, **options):
    daemon = usherd({
        "sources": [{"name": "eureka", "plugin": "eureka",
                     "options": {"servers": [s.url for s in servers], "interval": "1s", "cache": "0s", **options}}],
        "services": services or {"catalog": {"freshness": {"max_age": max_age, "on_stale": "serve"}, **(guard or {})}},
    })
    daemon.start()
    return daemon


def feed(daemon, service="catalog"):
    return daemon.get(f"/v1/services/{service}")["feeds"][0]


def all_of(daemon, service="catalog"):
    return {e["id"]: e for e in daemon.get(f"/v1/services/{service}/endpoints?all=true")["endpoints"]}


def wait_failed(daemon, text):
    return wait_until(f"it fails with {text}", lambda: text in (feed(daemon)["error"] or ""))


def wait_live(daemon):
    return wait_until("it is live", lambda: feed(daemon)["state"] == "live" and not feed(daemon)["error"])


# ---- as it should be ----

def test_instances_appear_change_and_disappear(usherd, server):
    server.put("CATALOG", "a", "b")
    daemon = start(usherd, server)
    daemon.wait_listed(["a", "b"])
    with daemon.watch() as stream:
        stream.next()
        server.put("CATALOG", "c", metadata={"version": "2", "zone": "west", "weight": "7"})
        stream.until(lambda line: '"c"' in json.dumps(line))
    daemon.wait_listed(["a", "b", "c"])
    assert daemon.listed()["c"]["weight"] == 7
    assert daemon.listed()["c"]["zone"] == "west"
    assert daemon.listed()["c"]["metadata"]["version"] == "2"
    server.take("CATALOG", "a")
    daemon.wait_listed(["b", "c"])


def test_after_the_list_of_all_only_changes_are_asked_for(usherd, server):
    server.put("CATALOG", "a")
    daemon = start(usherd, server)
    daemon.wait_listed(["a"])
    server.wait_asked(lambda r: r.path.endswith("/delta"), 4)
    assert len(server.asked(lambda r: r.path.endswith("/apps/"))) == 1


def test_out_of_service_is_a_state_and_down_is_not_ready(usherd, server):
    server.put("CATALOG", "a", "b", "c", "d")
    daemon = start(usherd, server)
    daemon.wait_listed(["a", "b", "c", "d"])
    server.override("CATALOG", "a", "OUT_OF_SERVICE")
    server.status("CATALOG", "b", "DOWN")
    server.status("CATALOG", "c", "STARTING")
    wait_until("only d is picked", lambda: daemon.picked() == {"d"})
    seen = all_of(daemon)
    assert seen["a"]["admin_state"] == "maintenance" and seen["a"]["conditions"]["ready"]
    assert seen["b"]["admin_state"] == "ready" and not seen["b"]["conditions"]["ready"]
    assert not seen["c"]["conditions"]["ready"]
    server.override("CATALOG", "a", None)
    server.status("CATALOG", "b", "UP")
    server.status("CATALOG", "c", "UP")
    wait_until("all are picked", lambda: daemon.picked() == {"a", "b", "c", "d"})


@pytest.mark.parametrize("by, name", [("vip", "front"), ("secure_vip", "front"), ("app", "shop")])
def test_services_are_looked_up_by_app_or_by_vip(usherd, server, by, name):
    server.put("SHOP", "a", vip="front,back", secure=True)
    server.put("OTHER", "b", vip="back", secure=True)
    daemon = start(usherd, server, by=by, services={"catalog": {"sources": [{"source": "eureka", "name": name}]}})
    daemon.wait_listed(["a"])
    assert daemon.listed()["a"]["secure"]


def test_a_port_can_be_chosen(usherd, server):
    server.put("CATALOG", "a", metadata={"management.port": "9001"})
    daemon = start(usherd, server, services={"catalog": {"sources": [{"source": "eureka", "port": "management"}]}})
    daemon.wait_listed(["a"])
    assert daemon.listed()["a"]["port"] == 9001


def test_the_names_of_services_are_known(usherd, server):
    server.put("CATALOG", "a")
    server.put("SEARCH", "s")
    daemon = start(usherd, server)
    wait_until("it knows two", lambda: daemon.get("/v1/sources")["sources"][0]["known"] == 2)


def test_a_service_that_nobody_declared_is_there_at_once(usherd, server):
    server.put("CATALOG", "a")
    server.put("SEARCH", "s")
    daemon = start(usherd, server)
    daemon.wait_listed(["a"])
    daemon.wait_listed(["s"], "search")


# ---- bad answers ----

MISBEHAVIOURS = {
    "500": lambda request: Reply("", 500),
    "503": lambda request: Reply("", 503),
    "not ready yet": lambda request: Reply("", 403),
    "denied": lambda request: Reply({"error": "Unauthorized"}, 401),
    "reset": lambda request: Reset(),
    "closed": lambda request: Raw(),
    "half a head": lambda request: Raw(b"HTTP/1.1 200"),
    "cut": lambda request: Cut(Reply('{"applications":{"application":[]}}'), 20),
    "ends in its midst": lambda request: Reply('{"applications":{"apps__hashcode":"","application":['),
    "no http": lambda request: Raw(b"\x00\x01\x02\r\n\r\n"),
    "xml": lambda request: Reply("<applications/>"),
    "another document": lambda request: Reply({"services": []}),
    "null": lambda request: Reply("null"),
    "redirected": lambda request: Redirect("http://127.0.0.1:1/"),
    "endless head": lambda request: Flood(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1000),
    "endless value": lambda request: Flood(b'HTTP/1.1 200 OK\r\n\r\n{"applications":{"apps__hashcode":"'),
}


@pytest.mark.parametrize("name", MISBEHAVIOURS)
def test_whatever_goes_wrong_empties_nothing_and_is_got_over(usherd, server, name):
    server.put("CATALOG", "a", "b")
    daemon = start(usherd, server)
    daemon.wait_listed(["a", "b"])
    fault = Fault(MISBEHAVIOURS[name], times=None)
    server.faults.append(fault)
    wait_until("it fails", lambda: feed(daemon)["error"])
    assert set(daemon.listed()) == {"a", "b"}
    server.faults.remove(fault)
    server.put("CATALOG", "c")
    daemon.wait_listed(["a", "b", "c"])
    wait_live(daemon)


def test_a_single_500_is_over_with_the_next_change(usherd, server):
    server.put("CATALOG", "a")
    daemon = start(usherd, server)
    daemon.wait_listed(["a"])
    server.faults.append(Fault(lambda request: Reply("", 500)))
    wait_until("it is used up", lambda: not server.faults)
    server.put("CATALOG", "b")
    daemon.wait_listed(["a", "b"])


def test_slow_bytes_are_an_answer(usherd, server):
    server.put("CATALOG", "a")
    server.faults.append(Fault(lambda request: Slow(server.say(request), 64, 0.01), times=3))
    start(usherd, server).wait_listed(["a"])


def test_silence_behind_a_head_is_noticed(usherd, server):
    server.put("CATALOG", "a")
    daemon = start(usherd, server)
    daemon.wait_listed(["a"])
    fault = Fault(lambda request: Silence(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), times=None)
    server.faults.append(fault)
    wait_failed(daemon, "silent")
    server.faults.remove(fault)
    server.put("CATALOG", "b")
    daemon.wait_listed(["a", "b"])


def test_the_wrong_base_url_is_told_as_such(usherd, server):
    daemon = usherd({
        "sources": [{"name": "eureka", "plugin": "eureka", "options": {"servers": [server.url + "/v2"], "interval": "1s"}}],
        "services": {"catalog": {"startup_timeout": "1s"}},
    })
    daemon.start()
    wait_failed(daemon, "with /eureka (Spring Cloud)")


def test_news_of_other_services_tells_consumers_nothing(usherd, server):
    server.put("CATALOG", "a")
    daemon = start(usherd, server)
    daemon.wait_listed(["a"])
    revision = daemon.get("/v1/services/catalog")["revision"]
    seen = len(server.requests)
    for i in range(20):
        server.put("OTHER", f"o{i}")
    server.wait_asked(count=seen + 3)
    assert daemon.get("/v1/services/catalog")["revision"] == revision


# ---- emptiness ----

def test_a_server_that_was_started_again_empties_nothing(usherd, server):
    """Spring's server knows nobody then and says so; instances come back with their next sign of life."""
    server.put("CATALOG", "a", "b", "c")
    daemon = start(usherd, server, guard={"removal_guard": {"hold": "200ms"}})
    daemon.wait_listed(["a", "b", "c"])
    server.stop()
    wait_until("it fails", lambda: feed(daemon)["error"])
    server.lose_all()
    server.start()
    wait_failed(daemon, "lists 0 of 3 instances")
    server.put("CATALOG", "b")
    wait_failed(daemon, "lists 1 of 3 instances")
    assert set(daemon.listed()) == {"a", "b", "c"}
    server.put("CATALOG", "d")  # who is new is there at once
    daemon.wait_listed(["a", "b", "c", "d"])
    server.put("CATALOG", "a", "c")
    wait_live(daemon)
    daemon.wait_listed(["a", "b", "c", "d"])


def test_a_server_that_was_started_again_unnoticed_empties_nothing(usherd, server):
    server.put("CATALOG", "a", "b")
    daemon = start(usherd, server, guard={"removal_guard": {"hold": "200ms"}})
    daemon.wait_listed(["a", "b"])
    server.lose_all()
    wait_failed(daemon, "lists 0 of 2 instances")
    assert daemon.picked() == {"a", "b"}
    server.put("CATALOG", "a", "b")
    wait_live(daemon)


def test_who_does_not_come_back_is_gone_when_the_time_is_over(usherd, server):
    server.put("CATALOG", "a", "b", "c")
    daemon = start(usherd, server, settle="12s")
    daemon.wait_listed(["a", "b", "c"])
    server.lose_all()
    server.put("CATALOG", "a", "b")
    wait_failed(daemon, "lists 2 of 3 instances")
    daemon.wait_listed(["a", "b"])
    wait_live(daemon)


def test_a_server_that_knows_nobody_is_not_believed_at_the_start(usherd, server):
    daemon = start(usherd, server, settle="20s", services={"catalog": {"startup_timeout": "500ms"}})
    wait_failed(daemon, "lists no instance of catalog")
    assert daemon.pick().json["code"] != "empty"
    wait_until("it is believed", lambda: feed(daemon)["state"] == "live")
    assert daemon.pick().json["code"] == "empty"


def test_a_restart_of_usherd_against_a_server_that_knows_less_loses_nothing(usherd, server):
    server.put("CATALOG", "a", "b", "c", "d")
    daemon = start(usherd, server)
    daemon.wait_listed(["a", "b", "c", "d"])
    daemon.stop()
    server.lose_all()
    server.put("CATALOG", "a", "b", "c")  # less than the guard's share is missing
    daemon.start()
    wait_until("it is held", lambda: feed(daemon)["held"])
    assert set(daemon.listed()) == {"a", "b", "c", "d"}
    server.put("CATALOG", "d")
    wait_until("nothing is held", lambda: not feed(daemon)["held"])


# ---- hashes and caches ----

def test_another_hash_asks_for_all_once_and_then_seldom(usherd, server):
    server.put("CATALOG", "a")
    daemon = start(usherd, server)
    daemon.wait_listed(["a"])
    with server.changing:  # a change that is not told
        server.apps["CATALOG"]["b"] = server.instance("CATALOG", "b")
    daemon.wait_listed(["a", "b"])
    assert len(server.asked(lambda r: r.path.endswith("/apps/"))) == 2
    server.hash = "UP_77_"
    began = time.monotonic()
    seen = len(server.asked(lambda r: r.path.endswith("/delta")))
    server.put("CATALOG", "c")
    daemon.wait_listed(["a", "b", "c"])
    server.wait_asked(lambda r: r.path.endswith("/delta"), seen + 6)
    # At once, after 10 s, after 20 s more: not once with each answer.
    assert len(server.asked(lambda r: r.path.endswith("/apps/"))) <= 4 + (time.monotonic() - began) / 10
    wait_until("it is told", lambda: 'counts "UP_77_"' in daemon.log_text())
    assert not feed(daemon)["error"]


def test_a_change_that_no_hash_shows_comes_with_the_list_of_all(usherd, server):
    server.put("CATALOG", "a", metadata={"version": "1"})
    daemon = start(usherd, server, resync="10s")
    daemon.wait_listed(["a"])
    with server.changing:
        server.apps["CATALOG"]["a"] = server.instance("CATALOG", "a", metadata={"version": "2"})
    wait_until("the version is 2", lambda: daemon.listed()["a"]["metadata"]["version"] == "2")


def test_a_server_that_tells_no_changes_is_asked_for_all(usherd, server):
    server.deltas = False
    server.put("CATALOG", "a")
    daemon = start(usherd, server)
    daemon.wait_listed(["a"])
    server.put("CATALOG", "b")
    daemon.wait_listed(["a", "b"])
    assert not feed(daemon)["error"]


def test_the_age_has_the_servers_cache_in_it(usherd, server):
    server.put("CATALOG", "a")
    daemon = start(usherd, server, cache="20s")
    daemon.wait_listed(["a"])
    assert daemon.get("/v1/services/catalog/endpoints")["freshness"]["age_ms"] >= 20000


def test_a_cached_answer_that_is_older_takes_nobody_back(usherd, server):
    server.put("CATALOG", "a", "b")
    daemon = start(usherd, server)
    daemon.wait_listed(["a", "b"])
    server.take("CATALOG", "b")
    daemon.wait_listed(["a"])
    server.caching = True  # from here on, what has changed stays as it is now
    seen = len(server.asked(lambda r: r.path.endswith("/delta")))
    server.wait_asked(lambda r: r.path.endswith("/delta"), seen + 1)
    server.put("CATALOG", "b")
    server.wait_asked(lambda r: r.path.endswith("/delta"), seen + 3)
    daemon.wait_listed(["a"])
    server.refresh()
    daemon.wait_listed(["a", "b"])


def test_leases_that_are_over_and_kept_are_shown(usherd, server):
    server.put("CATALOG", "a", "b")
    with server.changing:
        server.apps["CATALOG"]["a"]["leaseInfo"]["lastRenewalTimestamp"] -= 1000_000
    daemon = start(usherd, server)
    daemon.wait_listed(["a", "b"])
    assert daemon.listed()["a"]["metadata"]["eureka.lease"] == "overdue"
    assert "eureka.lease" not in daemon.listed()["b"]["metadata"]
    wait_until("it is told", lambda: "it preserves itself" in daemon.log_text())


# ---- several servers ----

@pytest.mark.parametrize("how", ["stop", "freeze"])
def test_a_server_that_goes_is_replaced_by_its_peer(usherd, pair, how):
    one, other = pair
    one.put("CATALOG", "a", "b")
    daemon = start(usherd, one, other)
    daemon.wait_listed(["a", "b"])
    used, left = (one, other) if one.asked() else (other, one)
    getattr(used, how)()
    left.peers.clear()
    left.put("CATALOG", "c")
    daemon.wait_listed(["a", "b", "c"])
    wait_live(daemon)
    assert left.asked(lambda r: r.path.endswith("/apps/"))
    used.thaw()


def test_a_peer_that_knows_less_empties_nothing(usherd, pair):
    one, other = pair
    one.put("CATALOG", "a", "b", "c")
    daemon = start(usherd, one, other)
    daemon.wait_listed(["a", "b", "c"])
    used, left = (one, other) if one.asked() else (other, one)
    left.lose_all()
    left.peers.clear()
    left.put("CATALOG", "a")
    used.stop()
    wait_failed(daemon, "lists 1 of 3 instances")
    assert set(daemon.listed()) == {"a", "b", "c"}
    left.put("CATALOG", "b", "c")
    wait_live(daemon)


def test_serving_goes_on_and_ages_while_all_are_down(usherd, server):
    server.put("CATALOG", "a")
    daemon = start(usherd, server, max_age="2s")
    daemon.wait_listed(["a"])
    server.stop()
    wait_until("it is stale", lambda: daemon.get("/v1/services/catalog/endpoints")["freshness"]["state"] != "live")
    age = daemon.get("/v1/services/catalog/endpoints")["freshness"]["age_ms"]
    wait_until("it ages", lambda: daemon.get("/v1/services/catalog/endpoints")["freshness"]["age_ms"] > age)
    assert daemon.picked() == {"a"}
    server.start()
    wait_live(daemon)


# ---- credentials and resources ----

def test_a_password_is_read_again_when_its_file_changes(usherd, server, tmp_path):
    server.user = "Basic dXNoZXI6b25l"  # usher:one
    server.put("CATALOG", "a")
    path = tmp_path / "password"
    path.write_text("one\n")
    daemon = start(usherd, server, user="usher", password_file=str(path))
    daemon.wait_listed(["a"])
    server.user = "Basic dXNoZXI6dHdv"  # usher:two
    wait_failed(daemon, "401")
    assert daemon.get("/v1/sources")["sources"][0]["state"] == "denied"
    assert set(daemon.listed()) == {"a"}
    path.write_text("two\n")
    server.put("CATALOG", "b")
    daemon.wait_listed(["a", "b"])
    assert "dXNoZXI" not in daemon.log_text() and "two" not in daemon.log_text()


def test_a_denial_for_ever_is_asked_about_less_and_less_often(usherd, server):
    """Of many sources, the one in the middle waits longer for its seventh try than it did for its second."""
    server.put("CATALOG", "a")
    names = [f"s{i}" for i in range(21)]
    daemon = usherd({
        "sources": [{"name": name, "plugin": "eureka", "options": {
            "servers": [server.url], "interval": "1s", "cache": "0s", "user": name, "password": "none"}} for name in names],
        "defaults": {"sources": names[:1]},
        "services": {name: {"sources": [{"source": name, "name": "catalog"}]} for name in names},
    }).start()
    for name in names:
        daemon.wait_listed(["a"], name)
    server.faults.append(Fault(lambda request: Reply("", 401), times=None))
    began = time.monotonic()

    def tries():
        asked = [request for request in list(server.requests) if request.time > began]
        users = [f"Basic {base64.b64encode(f'{name}:none'.encode()).decode()}" for name in names]
        return [[request.time for request in asked if request.headers["authorization"] == user] for user in users]

    wait_until("each has failed seven times", lambda: all(len(times) >= 7 for times in tries()), deadline=180, every=0.2)
    early, late = (statistics.median(times[n] - times[n - 1] for times in tries()) for n in (1, 6))
    # What the machine adds it adds to both. Without a longer wait they differ by that alone.
    assert late - early > 0.5, (early, late)
    assert all(set(daemon.listed(name)) == {"a"} for name in names)


def test_an_answer_that_is_large_once_it_is_unpacked_is_read(usherd, server):
    """A hundred thousand instances are 70 MB of JSON, and 2 MB on the way."""
    server.put("CATALOG", "a")
    whole = json.dumps(server.listed(server.apps["CATALOG"].values())).encode()
    packed = gzip.compress(whole[:1] + b" " * (80 << 20) + whole[1:], 1)
    server.faults.append(Fault(lambda request: Reply(packed, headers={"Content-Encoding": "gzip"}), times=None,
                               when=lambda request: request.path.endswith("/apps/")))
    daemon = start(usherd, server)
    daemon.wait_listed(["a"])
    wait_live(daemon)


def test_two_hundred_services_need_one_connection(usherd, server):
    names = [f"s{i}" for i in range(200)]
    for name in names:
        server.put(name.upper(), f"{name}-1")
    daemon = start(usherd, server, services={name: {} for name in names})
    for name in names:
        daemon.wait_listed([f"{name}-1"], name)
    for name in names:
        server.put(name.upper(), f"{name}-2")
    for name in names:
        daemon.wait_listed([f"{name}-1", f"{name}-2"], name)
    assert server.most_open == 1


# ---- drains ----

def test_a_drain_puts_an_instance_out_of_service_and_a_restore_brings_it_back(usherd, server, open_port):
    server.put("CATALOG", "a", port=open_port)  # a restore wants to see that somebody listens
    server.put("CATALOG", "b")
    dirty = int(server.apps["CATALOG"]["a"]["lastDirtyTimestamp"])
    daemon = start(usherd, server)
    daemon.wait_listed(["a", "b"])
    drain = daemon.drain("a")
    wait_until("it is out of service", lambda: server.overrides.get(("CATALOG", "a")) == "OUT_OF_SERVICE")
    wait_until("a is draining", lambda: daemon.picked() == {"b"})
    assert daemon.wait_finished(drain["id"])
    # The instance speaks on, and changes nothing; its timestamp is its own.
    server.put("CATALOG", "a", port=open_port, lastDirtyTimestamp=str(dirty + 1))
    assert server.apps["CATALOG"]["a"]["status"] == "OUT_OF_SERVICE"
    daemon.restore("a")
    wait_until("it is back", lambda: server.apps["CATALOG"]["a"]["status"] == "UP")
    wait_until("a is picked", lambda: daemon.picked() == {"a", "b"})
    assert not server.overrides
    server.put("CATALOG", "a", port=open_port, lastDirtyTimestamp=str(dirty + 2))
    assert server.apps["CATALOG"]["a"]["status"] == "UP"
