"""The real usherd against real servers of Spring Cloud Netflix Eureka."""

# Needs from Debian: default-jdk-headless maven

import json
import time

import pytest
from eureka_servers import EurekaServer, eureka_classes
from java_servers import start_all
from usher import wait_until

BUILDS = [eureka_classes]
SERVER = "Spring Cloud Netflix Eureka 5.0.3, one server and two peers, caches of 0.5 s, asked every second"


@pytest.fixture(scope="module")
def peers(tmp_path_factory):
    """Two that tell each other: one stays as it is, the other may be killed and started again."""
    one = EurekaServer(tmp_path_factory.mktemp("one"))
    other = EurekaServer(tmp_path_factory.mktemp("other"), hostname="localhost")
    one.peer, other.peer = other, one
    try:
        start_all(one, other)
        one.put("GHOSTS", "ghost", 8099, lease=1)  # will have been away for minutes when it is looked for, in the end
        yield one, other
    finally:
        for server in (one, other):
            server.kill()


@pytest.fixture
def apps(request, peers):
    """A name of its own for each test's app, which is empty in the end."""
    name = f"APP{abs(hash(request.node.name)) % 1000000}"
    yield name
    for server in peers:
        if server.process.poll() is None:
            listed = server.call("GET", "/apps/")["applications"]["application"]
            for app in listed:
                for one in app["instance"] if app["name"] == name else []:
                    server.take(name, one["instanceId"])
            break


def start(usherd, app, *servers, service=None, **options):
    daemon = usherd({
        "sources": [{"name": "eureka", "plugin": "eureka",
                     "options": {"servers": [s.url for s in servers], "interval": "1s", "cache": "500ms", **options}}],
        "services": {"catalog": {"freshness": {"max_age": "10s", "on_stale": "serve"},
                                 "sources": [{"source": "eureka", "name": app.lower()}], **(service or {})}},
    })
    daemon.start()
    return daemon


def feed(daemon):
    return daemon.get("/v1/services/catalog")["feeds"][0]


def wait_live(daemon):
    return wait_until("it is live", lambda: feed(daemon)["state"] == "live" and not feed(daemon)["error"], 120)


def test_appear_change_drain_restore_disappear(usherd, peers, apps, open_port):
    one, other = peers
    one.put(apps, "a", open_port, zone="east", weight="7", version="1")
    daemon = start(usherd, apps, one)
    daemon.wait_listed(["a"])
    assert daemon.listed()["a"]["weight"] == 7
    assert daemon.listed()["a"]["zone"] == "east"
    one.put(apps, "b", 8002)
    daemon.wait_listed(["a", "b"])
    one.put(apps, "a", open_port, version="2")
    wait_until("the version is 2", lambda: daemon.listed()["a"]["metadata"].get("version") == "2")

    drain = daemon.drain("a")
    daemon.wait_finished(drain["id"])
    assert daemon.picked() == {"b"}
    assert one.one(apps, "a")["overriddenStatus"] == "OUT_OF_SERVICE"
    one.put(apps, "a", open_port, version="2")  # the instance speaks on
    assert one.one(apps, "a")["status"] == "OUT_OF_SERVICE"
    wait_until("the peer has heard of it", lambda: (other.one(apps, "a") or {}).get("status") == "OUT_OF_SERVICE")
    daemon.restore("a")
    wait_until("a is back", lambda: daemon.picked() == {"a", "b"})
    assert one.one(apps, "a")["status"] == "UP"
    assert one.one(apps, "a")["overriddenStatus"] == "UNKNOWN"
    assert one.one(apps, "a")["metadata"]["version"] == "2"
    one.put(apps, "a", open_port, version="3")  # and is heard
    wait_until("the version is 3", lambda: daemon.listed()["a"]["metadata"].get("version") == "3")

    one.take(apps, "a")
    daemon.wait_listed(["b"])


def test_the_time_from_a_write_to_the_watchers_line(usherd, peers, apps, report):
    one, _ = peers
    one.put(apps, "a", 8001)
    daemon = start(usherd, apps, one)
    daemon.wait_listed(["a"])
    times = []
    with daemon.watch() as stream:
        stream.next()
        for i in range(30):
            before = time.monotonic()
            one.put(apps, "a", 8001, round=f"r{i}")
            stream.until(lambda line: f'"r{i}"' in json.dumps(line))
            times.append((time.monotonic() - before) * 1000)
    report.times(times)


def registration(daemon):
    return daemon.get("/v1/registrations/catalog/web-1")


def test_what_usherd_registers_survives_that_all_is_lost(usherd, report, tmp_path, open_port):
    """A server alone keeps nothing: killed, it is wiped, and says with status 200 that there is nobody."""
    with EurekaServer(tmp_path / "alone") as server:
        for i, name in enumerate("abc"):
            server.put("SHOP", name, 8001 + i)
        daemon = start(usherd, "shop", server, service={"removal_guard": {"hold": "3s"}}, lease="3s")
        daemon.wait_listed(["a", "b", "c"])
        answer = daemon.call("PUT", "/v1/registrations/catalog/web-1", {
            "port": open_port, "address": "127.0.0.1", "weight": 5, "sources": [{"source": "eureka", "name": "shop"}]}, admin=True)
        assert answer.status in (200, 201, 202), answer
        daemon.wait_listed(["a", "b", "c", "web-1"])
        assert server.one("SHOP", "web-1")["metadata"]["weight"] == "5"
        with report.nothing_lost(daemon, ["a", "b", "c", "web-1"], "wiped"):
            server.kill()
            wait_until("it fails", lambda: feed(daemon)["error"])
            server.start()
            # usherd registers again by itself, with the next sign of life.
            wait_until("it is registered again", lambda: server.one("SHOP", "web-1"))
            wait_until("the others are missed", lambda: "instances, and has not said" in (feed(daemon)["error"] or ""))
            for i, name in enumerate("abc"):
                server.put("SHOP", name, 8001 + i)
            wait_live(daemon)
        assert server.one("SHOP", "web-1")["metadata"]["weight"] == "5"
        daemon.call("DELETE", "/v1/registrations/catalog/web-1", admin=True)
        wait_until("it is taken out", lambda: server.one("SHOP", "web-1") is None)
        daemon.wait_listed(["a", "b", "c"])


def test_each_of_two_peers_in_turn_may_freeze(usherd, peers, apps, report):
    one, other = peers
    for i, name in enumerate("ab"):
        one.put(apps, name, 8001 + i)
    wait_until("the peer has heard of it", lambda: other.one(apps, "b"))
    daemon = start(usherd, apps, one, other)
    daemon.wait_listed(["a", "b"])
    with report.nothing_lost(daemon, "ab", "each of two frozen (SIGSTOP) in turn"):
        for frozen, left, name in ((one, other, "c"), (other, one, "d")):
            frozen.freeze()
            try:
                left.put(apps, name, 8000 + ord(name))
                wait_until(f"{name} is listed", lambda: name in daemon.listed())
            finally:
                frozen.thaw()
            wait_live(daemon)


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_server_that_ends_and_comes_back_loses_nothing(usherd, peers, apps, report, how):
    one, other = peers
    for i, name in enumerate("abc"):
        one.put(apps, name, 8001 + i)
    wait_until("the peer has heard of it", lambda: other.one(apps, "c"))
    daemon = start(usherd, apps, other, one)
    daemon.wait_listed(["a", "b", "c"])
    with report.nothing_lost(daemon, "abc", how):
        other.kill() if how == "killed" else other.stop()
        one.put(apps, "d", 8004)
        daemon.wait_listed(["a", "b", "c", "d"])
        other.start()
        wait_live(daemon)


def test_a_thousand_services_of_a_hundred_endpoints(usherd, report, tmp_path):
    with EurekaServer(tmp_path / "large", memory="2g") as server:
        for first in range(0, 1000, 10):
            server.put_many([server.instance(f"S{s}", f"s{s}-{i}", 10000 + s % 100 * 100 + i, lease=3600)
                             for s in range(first, first + 10) for i in range(100)])
        daemon = usherd({
            "sources": [{"name": "eureka", "plugin": "eureka",
                         "options": {"servers": [server.url], "interval": "1s", "cache": "500ms"}}],
            "services": {f"s{s}": {"startup_timeout": "30s", "freshness": {"max_age": "5m"}} for s in range(1000)},
        })
        before = time.monotonic()
        daemon.start()
        for s in range(1000):
            daemon.wait_listed([f"s{s}-{i}" for i in range(100)], f"s{s}", 300)
        report.fact("1,000 services of 100 endpoints listed after", f"{time.monotonic() - before:.0f} s")
        times = []
        with report.nothing_lost(daemon, [f"s7-{i}" for i in range(100)], "read whole again and again", "s7"):
            with daemon.watch("s7") as stream:
                stream.next()
                for i in range(3):
                    before = time.monotonic()
                    server.put("S7", "s7-0", 10700, round=f"r{i}")
                    stream.until(lambda line: f'"r{i}"' in json.dumps(line))
                    times.append(time.monotonic() - before)
            server.take("S8", "s8-0")
            daemon.wait_listed([f"s8-{i}" for i in range(1, 100)], "s8", 300)
        report.fact("then a change of one seen after", f"{sorted(times)[1]:.1f} s")


def test_a_server_that_preserves_itself_is_seen_through(usherd, peers, report):
    """It misses signs of life, and so takes nobody out any more: not the ghost either, whose lease was of a second."""
    one, _ = peers
    daemon = start(usherd, "ghosts", one, resync="10s")
    wait_until("the ghost is listed", lambda: "ghost" in daemon.listed())
    with report.nothing_lost(daemon, ["ghost"], "preserving itself"):
        def is_told():
            one.put("GHOSTS", "alive", 8098)
            return daemon.listed()["ghost"]["metadata"].get("eureka.lease") == "overdue"

        wait_until("its lease is said to be over", is_told, 300, every=2)
        assert "INSTANCES ARE NOT BEING EXPIRED" in one.page()
    assert "eureka.lease" not in daemon.listed()["alive"]["metadata"]
    assert "it preserves itself" in daemon.log_text()
