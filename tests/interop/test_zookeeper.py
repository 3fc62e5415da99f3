"""The real usherd against a real ZooKeeper."""

# Needs from Debian: default-jre-headless zookeeper

import json
import re
import signal
import time

import jute
import pytest
from scripted_zookeeper import curator, digest_of
from usher import DEADLINE, free_port, wait_until
from zookeeper_servers import Ensemble, Server

SERVER = "ZooKeeper 3.8.0 of Debian 12, one server and three"


@pytest.fixture
def zookeeper(tmp_path):
    with Server(tmp_path / "zookeeper", free_port()) as server:
        yield server


@pytest.fixture
def three(tmp_path):
    with Ensemble(tmp_path / "three") as ensemble:
        yield ensemble


def start(usherd, *servers, services=("catalog",), options=None, hold="20s", max_age="10s", drain=None, wait=True):
    policy = {"drain": drain} if drain else {}
    daemon = usherd({
        "sources": [{"name": "registry", "plugin": "zookeeper",
                     "options": {"servers": [s.address for s in servers], "probe": "1s", "session_timeout": "4s",
                                 **(options or {})}}],
        "defaults": {"sources": ["registry"], "freshness": {"max_age": max_age, "on_stale": "serve"},
                     "removal_guard": {"share": "60%", "hold": hold}},
        "services": {name: policy for name in services},
    })
    return daemon.start(wait=wait)


def feed(daemon, service="catalog"):
    return daemon.get(f"/v1/services/{service}")["feeds"][0]


def wait_live(daemon, service="catalog", deadline=DEADLINE):
    return wait_until("it is live", lambda: feed(daemon, service)["state"] == "live" and not feed(daemon, service)["error"],
                      deadline)


def wait_error(daemon, text="", service="catalog"):
    return wait_until(f"it fails with {text}", lambda: text in (feed(daemon, service)["error"] or "-"))


def put_three(server):
    for i, name in enumerate("abc"):
        server.put("catalog", name, 8080 + i)


# ---- what comes and goes ----

def test_appear_change_drain_restore_disappear(usherd, zookeeper, open_port):
    with zookeeper.client() as app:
        app.put("/services/catalog/a", curator("catalog", "a", open_port, metadata={"zone": "east", "weight": "3"}),
                mode=jute.EPHEMERAL)
        daemon = start(usherd, zookeeper, drain={"propagation": {"registry": "30s", "consumer_refresh": "0s",
                                                                 "consumer_cache": "0s", "margin": "0s"}})
        daemon.wait_listed(["a"])
        assert (daemon.listed()["a"]["zone"], daemon.listed()["a"]["weight"]) == ("east", 3)
        zookeeper.put("catalog", "b", 8002)
        daemon.wait_listed(["a", "b"])
        zookeeper.put("catalog", "b", 8003)
        wait_until("the port is 8003", lambda: daemon.listed()["b"]["port"] == 8003)

        # The node is the application's: it stays in its session, and says that it is out of service.
        drain = daemon.drain("a")
        daemon.wait_finished(drain["id"])
        assert daemon.picked() == {"b"}
        value, owner = zookeeper.value("catalog", "a")
        assert value["payload"]["metadata"]["instance_status"] == "OUT_OF_SERVICE"
        assert owner == app.session
        daemon.restore("a")
        wait_until("a is back", lambda: daemon.picked() == {"a", "b"})
        value, owner = zookeeper.value("catalog", "a")
        assert value == curator("catalog", "a", open_port, metadata={"zone": "east", "weight": "3"})
        assert owner == app.session

        app.close()
        daemon.wait_listed(["b"])


def test_what_springs_actuator_takes_out_of_service_is_not_picked(usherd, zookeeper):
    put_three(zookeeper)
    daemon = start(usherd, zookeeper)
    daemon.wait_listed(["a", "b", "c"])
    zookeeper.put("catalog", "a", 8080, status="OUT_OF_SERVICE")
    wait_until("it is in maintenance", lambda: daemon.listed().get("a", {}).get("admin_state") != "ready")
    wait_until("it is not picked", lambda: daemon.picked() == {"b", "c"})
    zookeeper.put("catalog", "a", 8080)
    wait_until("it is picked", lambda: daemon.picked() == {"a", "b", "c"})


def test_a_session_that_runs_out_takes_its_instances_away(usherd, zookeeper):
    put_three(zookeeper)
    app = zookeeper.client(timeout=2000)
    app.put("/services/catalog/d", curator("catalog", "d"), mode=jute.EPHEMERAL)
    daemon = start(usherd, zookeeper)
    daemon.wait_listed(["a", "b", "c", "d"])
    app.vanish()
    daemon.wait_listed(["a", "b", "c"])


def test_nerves_layout_and_serversets_are_read(usherd, zookeeper):
    with zookeeper.client() as client:
        client.put("/nerve/services/catalog/services/i-1_0000000001",
                   {"host": "10.0.0.1", "port": 8080, "name": "i-1", "weight": 3, "labels": {"zone": "west"}})
        client.put("/nerve/services/catalog/services/member_0000000002",
                   {"serviceEndpoint": {"host": "10.0.0.2", "port": 8081}, "additionalEndpoints": {}, "status": "ALIVE"})
        daemon = start(usherd, zookeeper, options={"layout": "/nerve/services/{service}/services/{id}"})
        daemon.wait_listed(["i-1_0000000001", "member_0000000002"])
        assert daemon.listed()["i-1_0000000001"]["zone"] == "west"
        client.delete("/nerve/services/catalog/services/i-1_0000000001")
        daemon.wait_listed(["member_0000000002"])


def test_a_chroot_and_services_that_nobody_declared(usherd, zookeeper):
    with zookeeper.client() as client:
        client.put("/apps/prod/services/catalog/a", curator("catalog", "a"))
        client.put("/apps/prod/services/search/s", curator("search", "s"))
        daemon = start(usherd, zookeeper, options={"chroot": "/apps/prod"})
        daemon.wait_listed(["a"])
        wait_until("search is known", lambda: "search" in daemon.get("/v1/services")["known"])


# https://github.com/apache/curator/issues/684
def test_a_parent_that_is_deleted_and_made_again_is_followed(usherd, zookeeper):
    zookeeper.put("catalog", "a")
    zookeeper.put("other", "x")
    daemon = start(usherd, zookeeper, hold="1s")
    daemon.wait_listed(["a"])
    with zookeeper.client() as client:
        client.delete("/services/catalog")
        daemon.wait_listed([])
        assert not feed(daemon)["error"]
        zookeeper.put("catalog", "b")
        daemon.wait_listed(["b"])


# ---- what goes wrong ----

@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_restart_loses_nothing(usherd, zookeeper, report, how):
    put_three(zookeeper)
    with zookeeper.client(timeout=10000) as app:
        app.put("/services/catalog/d", curator("catalog", "d"), mode=jute.EPHEMERAL)
        daemon = start(usherd, zookeeper)
        daemon.wait_listed("abcd")
        with report.nothing_lost(daemon, "abcd", how):
            zookeeper.stop(signal.SIGKILL if how == "killed" else signal.SIGTERM)
            wait_error(daemon)
            zookeeper.start()
            wait_live(daemon)
    zookeeper.put("catalog", "e", 9000)
    wait_until("e is listed", lambda: "e" in daemon.listed())


def test_a_frozen_server_loses_nothing_and_is_noticed(usherd, zookeeper, report):
    put_three(zookeeper)
    daemon = start(usherd, zookeeper, max_age="3s")
    daemon.wait_listed("abc")
    with report.nothing_lost(daemon, "abc", "frozen (SIGSTOP)"):
        zookeeper.freeze()
        wait_until("it is stale", lambda: daemon.get("/v1/services/catalog/endpoints")["freshness"]["state"] == "stale")
        wait_error(daemon)
        zookeeper.thaw()
        wait_live(daemon)
    zookeeper.gone("catalog", "c")
    daemon.wait_listed("ab")


def test_a_wiped_server_is_joined_again_and_loses_nothing(usherd, zookeeper, report):
    put_three(zookeeper)
    for i in range(20):
        zookeeper.put("other", f"x{i}")
    daemon = start(usherd, zookeeper)
    daemon.wait_listed("abc")
    with report.nothing_lost(daemon, "abc", "wiped"):
        zookeeper.kill()
        zookeeper.wipe()
        zookeeper.start()
        with zookeeper.client() as client:
            client.create("/services")
        wait_until("the other history is told", lambda: "another history" in daemon.log_text())
        wait_until("it is held", lambda: feed(daemon)["held"])
        put_three(zookeeper)
        wait_until("nothing is held", lambda: not feed(daemon)["held"])
        wait_live(daemon)
    zookeeper.put("catalog", "d", 9000)
    daemon.wait_listed("abcd")


def test_rights_that_are_taken_away_empty_nothing(usherd, zookeeper, report, tmp_path):
    put_three(zookeeper)
    password = tmp_path / "password"
    password.write_text("wrong\n")
    readers = [(jute.ALL, "digest", digest_of("usher:secret"))]
    protect(zookeeper, "usher:secret", readers)
    daemon = start(usherd, zookeeper, wait=False, options={"user": "usher", "password_file": str(password)})
    wait_until("it is denied", lambda: feed_or_none(daemon)["state"] == "denied")
    assert "ACL" in feed(daemon)["error"]
    password.write_text("secret\n")
    daemon.wait_listed("abc")
    with report.nothing_lost(daemon, "abc", "rights taken away"):
        protect(zookeeper, "usher:secret", [(jute.ALL, "digest", digest_of("usher:other"))])
        with zookeeper.client(secret="usher:other") as other:
            other.put("/services/catalog/d", curator("catalog", "d"))
        wait_until("it is denied", lambda: feed(daemon)["state"] == "denied")
        protect(zookeeper, "usher:other", readers)
        daemon.wait_listed("abcd")
    assert "secret" not in daemon.log_text()


def protect(zookeeper, secret, acl):
    with zookeeper.client(secret=secret) as admin:
        admin.protect("/services/catalog", acl)


def feed_or_none(daemon):
    try:
        return feed(daemon)
    except OSError:
        return {"state": None}


# ---- what usherd registers ----

def register(usherd, zookeeper, port, ttl="2s", **options):
    daemon = usherd({
        "sources": [{"name": "registry", "plugin": "zookeeper",
                     "options": {"servers": [zookeeper.address], "probe": "1s", "session_timeout": "4s", "ttl": ttl,
                                 **options}}],
        "defaults": {"sources": ["registry"], "removal_guard": {"share": "100%", "hold": "1s"}},
        "registrations": [{"service": "catalog", "id": "mine", "address": "127.0.0.1", "port": port,
                           "metadata": {"tier": "gold"}, "health": {"tcp": {}, "interval": "200ms"}}],
    }).start()
    wait_until("it is registered", lambda: zookeeper.value("catalog", "mine"))
    return daemon


def renewed_ago(daemon):
    """Seconds since the registration was last looked after."""
    found = re.search(r'"renewed_ms": ?([0-9]+)', json.dumps(daemon.get("/v1/registrations/catalog/mine")))
    return int(found[1]) / 1000 if found else float("inf")


def owner_of(zookeeper):
    value = zookeeper.value("catalog", "mine")
    return value and value[1]


def test_an_instance_is_registered_and_outlives_what_happens_to_it(usherd, zookeeper, open_port):
    daemon = register(usherd, zookeeper, open_port)
    value, owner = zookeeper.value("catalog", "mine")
    assert owner
    assert value["payload"]["metadata"]["tier"] == "gold"
    daemon.wait_listed(["mine"])
    # Somebody changes it: that is what the next session gets.
    value["payload"]["metadata"]["weight"] = "7"
    with zookeeper.client() as client:
        client.put("/services/catalog/mine", value)
    wait_until("it is listed so", lambda: daemon.listed()["mine"]["weight"] == 7)
    written = time.monotonic()
    wait_until("it is looked after", lambda: renewed_ago(daemon) < time.monotonic() - written - 0.1)
    daemon.process.send_signal(signal.SIGSTOP)
    wait_until("its session has run out", lambda: owner_of(zookeeper) is None)
    daemon.process.send_signal(signal.SIGCONT)
    wait_until("it is registered again", lambda: owner_of(zookeeper) not in (None, owner))
    assert zookeeper.value("catalog", "mine")[0] == value
    # The server comes back with what it had, and the session goes on; then without.
    zookeeper.kill()
    zookeeper.start()
    wait_until("it is there", lambda: owner_of(zookeeper))
    zookeeper.kill()
    zookeeper.wipe()
    zookeeper.start()
    wait_until("it is registered again", lambda: owner_of(zookeeper))


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_restart_of_usherd_leaves_no_gap(usherd, zookeeper, open_port, how):
    daemon = register(usherd, zookeeper, open_port, ttl="8s")
    before = owner_of(zookeeper)
    if how == "killed":
        daemon.kill()
    else:
        daemon.stop()
    with zookeeper.client() as client:
        daemon.start(wait=False)
        end = time.monotonic() + 60
        while (owner := client.get("/services/catalog/mine")[1]) == before:
            assert time.monotonic() < end
        # It outlives the session that it was in.
        end = time.monotonic() + 10
        while time.monotonic() < end:
            assert client.get("/services/catalog/mine")[1] == owner
            time.sleep(0.1)


def test_a_registration_is_drained_and_restored(usherd, zookeeper, open_port):
    zookeeper.put("catalog", "other", 9000)
    daemon = register(usherd, zookeeper, open_port)
    daemon.wait_listed(["mine", "other"])
    drain = daemon.drain("mine", timeout="60s")
    wait_until("it is gone", lambda: owner_of(zookeeper) is None)
    daemon.call("POST", f"/v1/drains/{drain['id']}/cancel", admin=True)
    wait_until("it is back", lambda: owner_of(zookeeper))
    daemon.wait_listed(["mine", "other"])


# ---- three of them ----

def test_another_server_takes_over_and_nothing_is_missed(usherd, three, report):
    put_three(three.servers[0])
    daemon = start(usherd, *three.servers)
    daemon.wait_listed("abc")
    ids = set("abc")
    with report.nothing_lost(daemon, "abc", "each of three killed in turn"):
        for number, server in enumerate(three.servers):
            server.kill()
            other = three.servers[(number + 1) % 3]
            wait_until("it serves", other.is_ready)
            wait_until("it is written", lambda: write(other, f"n{number}", 9000 + number))
            ids.add(f"n{number}")
            daemon.wait_listed(ids)
            server.start()
            three.wait_ready()


def write(server, name, port):
    try:
        server.put("catalog", name, port)
        return True
    except (OSError, RuntimeError):
        return False


def test_without_a_majority_nothing_is_proven_and_nothing_lost(usherd, three, report):
    put_three(three.servers[0])
    daemon = start(usherd, *three.servers, max_age="3s")
    daemon.wait_listed("abc")
    with report.nothing_lost(daemon, "abc", "without a majority"):
        for server in three.servers[1:]:
            server.kill()
        wait_until("it is stale", lambda: daemon.get("/v1/services/catalog/endpoints")["freshness"]["state"] == "stale")
        for server in three.servers[1:]:
            server.start(wait=False)
        three.wait_ready()
        wait_live(daemon)
    three.servers[0].gone("catalog", "c")
    daemon.wait_listed("ab")


def test_a_server_that_is_read_only_tells_what_it_last_knew(usherd, tmp_path):
    with Ensemble(tmp_path / "three", "localSessionsEnabled=true\n") as three:
        tells_what_it_last_knew(usherd, three)


def tells_what_it_last_knew(usherd, three):
    put_three(three.servers[0])
    for server in three.servers[1:]:
        server.kill()
    wait_until("it is read-only", lambda: three.servers[0].mode() == "read-only")
    daemon = start(usherd, *three.servers, options={"read_only": True})
    daemon.wait_listed("abc")
    wait_error(daemon)
    assert daemon.get("/v1/services/catalog/endpoints")["freshness"]["state"] == "stale"
    for server in three.servers[1:]:
        server.start(wait=False)
    three.wait_ready()
    wait_live(daemon)
    wait_until("it is fresh", lambda: daemon.get("/v1/services/catalog/endpoints")["freshness"]["state"] == "live")


# ---- how fast, how many ----

def test_the_time_from_a_write_to_the_watchers_line(usherd, zookeeper, report):
    put_three(zookeeper)
    daemon = start(usherd, zookeeper)
    daemon.wait_listed("abc")
    times = []
    with daemon.watch() as stream, zookeeper.client() as client:
        stream.next()
        for i in range(100):
            time.sleep(0.05)
            before = time.monotonic()
            client.put("/services/catalog/a", curator("catalog", "a", metadata={"round": f"r{i}"}))
            stream.until(lambda line: any(e["metadata"].get("round") == f"r{i}" for e in line.get("changed", [])))
            times.append((time.monotonic() - before) * 1000)
    report.times(times)


def test_a_thousand_services_of_a_hundred_endpoints(usherd, zookeeper, report):
    names = [f"s{i}" for i in range(1000)]
    with zookeeper.client() as client:
        client.create("/services")
        client.create_many((f"/services/{name}", b"") for name in names)
        client.create_many((f"/services/{name}/i{i}", json.dumps(curator(name, f"i{i}", 1000 + i)).encode())
                           for name in names for i in range(100))
    began = time.monotonic()
    daemon = start(usherd, zookeeper, services=names, max_age="60s", options={"session_timeout": "10s"})
    for name in [*names[::97], names[-1]]:
        daemon.wait_listed([f"i{i}" for i in range(100)], name, deadline=3 * DEADLINE)
    report.fact("100,000 endpoints listed after", f"{time.monotonic() - began:.1f} s")
    zookeeper.gone("s500", "i7")
    wait_until("it is gone", lambda: "i7" not in daemon.listed("s500"))
    # All that is watched is told to the next connection in many requests, for one would be too long.
    with report.nothing_lost(daemon, [f"i{i}" for i in range(100)], "killed with 100,000 watches", "s1"):
        zookeeper.kill()
        wait_error(daemon, service="s1")
        zookeeper.start()
        wait_live(daemon, "s1", 3 * DEADLINE)
        wait_live(daemon, "s999", 3 * DEADLINE)
    zookeeper.gone("s501", "i8")
    wait_until("it is gone", lambda: "i8" not in daemon.listed("s501"))
