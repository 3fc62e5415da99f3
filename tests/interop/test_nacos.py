"""The real usherd against a real server of Nacos."""

# Needs from Debian: default-jdk-headless maven

import json
import socket
import threading
import time
import urllib.error

import pytest
from nacos_server import LASTING, NacosServer, nacos_classes
from usher import wait_until

BUILDS = [nacos_classes]
SERVER = "Nacos 3.1.0 (rebuilt as io.github.pig-mesh.nacos), one server"


@pytest.fixture(scope="module")
def nacos(tmp_path_factory):
    """Started once, for that takes long; each test has services of its own."""
    with NacosServer(tmp_path_factory.mktemp("nacos") / "server") as server:
        yield server


@pytest.fixture
def open_ports():
    """Where somebody listens, as the server wants to see of what is not ephemeral."""
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        yield first.getsockname()[1], second.getsockname()[1]


@pytest.fixture
def service(request):
    """A name that no other test has."""
    return "catalog-" + request.node.name.replace("[", "-").replace("]", "").replace("_", "-")[-40:].strip("-")


def start(usherd, nacos, service, options=None, registrations=(), **more):
    daemon = usherd({
        "registrations": list(registrations),
        "sources": [{"name": "nacos", "plugin": "nacos", "options": {"servers": [nacos.url], "poll": "500ms", **(options or {})}}],
        "services": {"catalog": {"sources": [{"source": "nacos", "name": service}],
                                 "freshness": {"max_age": "60s", "on_stale": "serve"}, **more}},
    })
    daemon.start()
    return daemon


def feed(daemon):
    return daemon.get("/v1/services/catalog")["feeds"][0]


def key(port):
    return f"127.0.0.1:{port}"


class Beats:
    """A provider that registers by HTTP and gives signs of life; it registers again when it is told that it is unknown."""

    def __init__(self, nacos, service, *ports, every=1.0):
        self.nacos, self.service, self.ports, self.every = nacos, service, ports, every
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def beat(self, port):
        said = self.nacos.call("PUT", "/v1/ns/instance/beat", serviceName=f"DEFAULT_GROUP@@{self.service}", ip="127.0.0.1", port=port)
        if said["code"] == 20404:
            self.nacos.put(self.service, port, ephemeral="true")

    def run(self):
        while not self.over.wait(self.every):
            for port in self.ports:
                try:
                    self.beat(port)
                except (OSError, urllib.error.HTTPError):
                    pass

    def __enter__(self):
        for port in self.ports:
            self.nacos.put(self.service, port, ephemeral="true")
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


@pytest.mark.parametrize("api, ephemeral", [("v1", "true"), ("v3", "true"), ("v3", "false")])
def test_appear_change_drain_restore_disappear(usherd, nacos, service, open_ports, api, ephemeral):
    kind, (open_port, other) = {"ephemeral": ephemeral}, open_ports
    a, b = key(open_port), key(other)
    nacos.put(service, open_port, metadata={"version": "1", "zone": "east"}, weight=2.5, clusterName="c1", **kind)
    if ephemeral == "false":
        nacos.look_away(service, "c1")
        nacos.look_away(service)
    daemon = start(usherd, nacos, service, {"api": api})
    daemon.wait_listed([a])
    assert daemon.listed()[a]["weight"] == 25
    assert daemon.listed()[a]["zone"] == "east"
    assert daemon.listed()[a]["metadata"]["nacos.cluster"] == "c1"
    nacos.put(service, other, **kind)
    daemon.wait_listed([a, b])
    nacos.put(service, open_port, metadata={"version": "2"}, weight=2.5, clusterName="c1", **kind)
    wait_until("the version is 2", lambda: daemon.listed()[a]["metadata"].get("version") == "2")

    drain = daemon.drain(a)
    daemon.wait_finished(drain["id"])
    assert daemon.picked() == {b}
    assert nacos.look(service, open_port, cluster="c1")["enabled"] is False
    daemon.restore(a)
    wait_until("it is back", lambda: daemon.picked() == {a, b})
    found = nacos.look(service, open_port, cluster="c1")
    assert (found["enabled"], found["weight"], found["metadata"]) == (True, 2.5, {"version": "2"})

    nacos.take(service, open_port, clusterName="c1", **kind)
    daemon.wait_listed([b])


def test_signs_of_life_that_stay_away(usherd, nacos, service):
    with Beats(nacos, service, 8001):
        with Beats(nacos, service, 8002):
            daemon = start(usherd, nacos, service)
            daemon.wait_listed([key(8001), key(8002)])
        wait_until("one is picked", lambda: daemon.picked() == {key(8001)})
        daemon.wait_listed([key(8001)])


def test_a_frozen_server_loses_nothing_and_is_noticed(usherd, nacos, service, report):
    with Beats(nacos, service, 8001):
        daemon = start(usherd, nacos, service)
        daemon.wait_listed([key(8001)])
        with report.nothing_lost(daemon, [key(8001)], "frozen"):
            nacos.freeze()
            try:
                wait_until("it is noticed", lambda: feed(daemon)["error"])
            finally:
                nacos.thaw()
            wait_until("it is live", lambda: not feed(daemon)["error"])
        nacos.put(service, 8002, ephemeral="true")
        wait_until("it is listed", lambda: key(8002) in daemon.listed())


def test_users_and_permissions(usherd, tmp_path, open_ports):
    ids = [key(port) for port in open_ports]
    with NacosServer(tmp_path / "nacos", password="first",
                     properties=["nacos.core.auth.plugin.nacos.token.expire.seconds=20"]) as nacos:
        nacos.new_user("reader", "r-password", "r")
        for port in open_ports:
            nacos.put("catalog", port, ephemeral="true", metadata=LASTING)
        path = tmp_path / "password"
        path.write_text("wrong")
        daemon = start(usherd, nacos, "catalog", {"user": "reader", "password_file": str(path)})
        wait_until("it is denied", lambda: "cannot log in as reader" in (feed(daemon)["error"] or ""))
        path.write_text("r-password\n")
        daemon.wait_listed(ids)

        # Who may read cannot drain, and is told so.
        drain = daemon.drain(ids[0])
        record = daemon.wait_finished(drain["id"])
        assert "permission to write" in json.dumps(record)
        daemon.restore(ids[0])
        daemon.wait_listed(ids)

        nacos.call("DELETE", "/v3/auth/permission", role="role-reader", resource="public:*:*", action="r")
        wait_until("it is denied", lambda: "403" in (feed(daemon)["error"] or ""))
        assert set(daemon.listed()) == set(ids)
        nacos.call("POST", "/v3/auth/permission", role="role-reader", resource="public:*:*", action="r")
        wait_until("it is live", lambda: not feed(daemon)["error"])
        assert "r-password" not in daemon.log_text()


def test_the_time_from_a_write_to_the_watchers_line(usherd, nacos, service, open_port, report):
    nacos.put(service, open_port, ephemeral="true", metadata=LASTING)
    daemon = start(usherd, nacos, service, {"poll": "10s"})  # as the server says: it is told of changes
    daemon.wait_listed([key(open_port)])
    times = []
    with daemon.watch() as stream:
        stream.next()
        for i in range(30):
            time.sleep(0.3)
            before = time.monotonic()
            nacos.put(service, open_port, ephemeral="true", metadata={"round": f"r{i}", **LASTING})
            stream.until(lambda line: f'r{i}"' in json.dumps(line))
            times.append((time.monotonic() - before) * 1000)
    report.times(times)


def registrations(port):
    return [{"service": "own", "id": "me", "address": "127.0.0.1", "port": port, "weight": 3, "metadata": {"version": "1"},
             "health": "none", "on_stop": "deregister", "sources": ["nacos"]}]


def test_what_is_registered_by_usherd_lives_is_drained_and_goes(usherd, nacos, open_port):
    daemon = usherd({
        "sources": [{"name": "nacos", "plugin": "nacos", "options": {"servers": [nacos.url], "poll": "500ms", "beat": "1s"}}],
        "services": {"own": {}}, "registrations": registrations(open_port),
    })
    daemon.start()
    daemon.wait_listed(["me"], "own")
    found = nacos.look("own", open_port)
    assert (found["ephemeral"], found["weight"]) == (True, 3.0)
    assert found["metadata"] == {"version": "1", "zone": "east", "usher.id": "me", "registered-by": "usher"}
    # Longer than the server waits for a sign of life before it calls an instance unhealthy.
    time.sleep(17)
    assert nacos.look("own", open_port)["healthy"]
    daemon.stop()
    wait_until("it is deregistered", lambda: nacos.look("own", open_port) is None)


@pytest.mark.parametrize("wipe", [False, True], ids=["killed", "wiped"])
def test_a_server_that_is_started_again_loses_nothing(usherd, nacos, service, open_port, report, wipe):
    ports = (8001, 8002, 8003)
    ids = [key(port) for port in ports]
    with Beats(nacos, service, *ports):
        daemon = start(usherd, nacos, service, {"beat": "1s"}, registrations(open_port))
        daemon.wait_listed(ids)
        daemon.wait_listed(["me"], "own")
        with report.nothing_lost(daemon, ids, "wiped" if wipe else "killed"):
            nacos.kill()
            wait_until("it fails", lambda: feed(daemon)["error"])
            if wipe:
                nacos.wipe()
            nacos.start()
            wait_until("it is live", lambda: feed(daemon)["state"] == "live" and not feed(daemon)["error"])
            wait_until("nothing is held", lambda: not feed(daemon)["held"])
            assert daemon.picked() == set(ids)
        found = wait_until("what usherd has registered is there again", lambda: nacos.look("own", open_port))
        assert found["metadata"]["version"] == "1"


def test_a_thousand_services_of_a_hundred_endpoints(usherd, nacos, report):
    names, endpoints = [f"many-{i}" for i in range(1000)], 100
    with nacos.provided(len(names), endpoints):
        daemon = usherd({
            "sources": [{"name": "nacos", "plugin": "nacos", "options": {"servers": [nacos.url]}}],
            "services": {name: {"startup_timeout": "30s", "freshness": {"max_age": "5m"}} for name in names},
        })
        before = time.monotonic()
        daemon.start()
        ids = [f"10.0.0.{i + 1}:8080" for i in range(endpoints)]
        for name in names:
            daemon.wait_listed(ids, name, 300)
        report.fact("1,000 services of 100 endpoints listed after", f"{time.monotonic() - before:.0f} s")
        with report.nothing_lost(daemon, ids, "with 100,000 endpoints", "many-7"), daemon.watch("many-7") as stream:
            stream.next()
            before = time.monotonic()
            nacos.put("many-7", 8001, ephemeral="true", metadata=LASTING)
            stream.until(lambda line: key(8001) in json.dumps(line))
            report.fact("then one more seen after", f"{time.monotonic() - before:.1f} s")
