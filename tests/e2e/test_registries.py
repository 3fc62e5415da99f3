"""What every registry's directory becomes, whatever its protocol: the real usherd against each of them, played."""

import played
import pytest
from usher import wait_until

NAMES = [f"n{i}" for i in range(10)]


@pytest.fixture(params=played.ALL, ids=lambda one: one.plugin)
def registry(request):
    with request.param() as one:
        yield one


def start(usherd, registry, **more):
    return usherd(played.config(registry, **more)).start()


def feed(daemon, service="catalog"):
    return daemon.get(f"/v1/services/{service}")["feeds"][0]


def wait_live(daemon, service="catalog"):
    wait_until("it is live", lambda: feed(daemon, service)["state"] == "live" and not feed(daemon, service)["error"])


# prometheus/prometheus#1707, traefik/traefik#2147
def test_a_registry_that_is_not_there_at_the_start_is_found_later(usherd, registry):
    registry.put("catalog", "a")
    registry.stop()
    daemon = start(usherd, registry)
    wait_until("it is missed", lambda: feed(daemon)["error"])
    assert feed(daemon)["state"] == "failed"
    assert daemon.pick().json["code"] == "source_failed"
    registry.start()
    daemon.wait_listed(registry.ids_of("a"))


# projectcontour/contour#420
def test_a_service_that_is_truly_empty_is_an_answer(usherd, registry):
    registry.put("other", "x")
    registry.put("catalog")
    whole = played.config(registry)
    whole["defaults"]["startup_timeout"] = "50s"
    daemon = usherd(whole).start()
    assert "startup_timeout" not in daemon.log_text()
    assert feed(daemon)["state"] == "live"
    assert daemon.pick().json["code"] == "empty"
    registry.put("catalog", "a")
    daemon.wait_listed(registry.ids_of("a"))


# hashicorp/consul#2216
def test_what_is_written_again_and_is_the_same_tells_consumers_nothing(usherd, registry):
    registry.put("catalog", "a")
    daemon = start(usherd, registry)
    daemon.wait_listed(registry.ids_of("a"))
    with daemon.watch() as stream:
        assert stream.next()["type"] == "snapshot"
        for _ in range(20):
            registry.put("catalog", "a")
        registry.put("catalog", "b")
        line = stream.until(lambda x: x["type"] == "update")
        assert [e["id"] for e in line["changed"]] == registry.ids_of("b")


# hashicorp/consul-template#233
def test_what_goes_and_comes_at_once_is_there_as_it_came(usherd, registry):
    if registry.plugin == "dns":
        pytest.skip("what has another port has another id")
    registry.put("catalog", "a", "b")
    daemon = start(usherd, registry, guard={"share": "100%"})
    daemon.wait_listed(["a", "b"])
    for n in range(20):
        registry.take("catalog", "a")
        registry.put("catalog", "a", port=2000 + n)
    wait_until("it is as it came last", lambda: registry.port_in(daemon.listed().get("a", {"port": 0, "address": "...0.0"})) == 2019)
    daemon.wait_listed(["a", "b"])


@pytest.mark.parametrize("registry", played.IN_JSON, ids=lambda one: one.plugin, indirect=True)
def test_an_instance_that_usher_cannot_hold_takes_no_other_along(usherd, registry):
    registry.put("catalog", "a", "b")
    registry.put("search", "s")
    daemon = start(usherd, registry, services=["catalog", "search"], guard={"share": "100%"})
    daemon.wait_listed(["a", "b"])
    registry.poison("catalog")
    registry.put("catalog", "c")
    daemon.wait_listed(["a", "b", "c"])
    registry.take("catalog", "a")
    registry.put("search", "t")
    for _ in range(2):
        daemon.wait_listed(["b", "c"])
        daemon.wait_listed(["s", "t"], "search")
        wait_live(daemon)
        wait_until("it is said", lambda: "control characters" in daemon.log_text())
        daemon.restart()


# linkerd/linkerd2#6842
def test_many_that_go_at_once_leave_exactly_the_rest(usherd, registry):
    registry.put("catalog", *NAMES)
    daemon = start(usherd, registry, guard={"share": "100%"})
    daemon.wait_listed(registry.ids_of(NAMES))
    with daemon.watch() as stream:
        listed = {e["id"] for e in stream.next()["endpoints"]}
        for name in NAMES[:8]:
            registry.take("catalog", name)
        while listed != set(registry.ids_of(NAMES[8:])):
            line = stream.next()
            listed = (listed | {e["id"] for e in line.get("changed", [])}) - set(line.get("removed", []))
    daemon.wait_listed(registry.ids_of(NAMES[8:]))


# nacos-group/nacos-sdk-nodejs PR#94, networknt/light-4j#376
def test_the_last_that_are_taken_out_are_gone_after_the_hold(usherd, registry):
    registry.put("catalog", "a", "b")
    daemon = start(usherd, registry, guard={"hold": "500ms"})
    daemon.wait_listed(registry.ids_of("ab"))
    registry.take("catalog", "a", "b")
    daemon.wait_listed([])
    wait_live(daemon)
    assert daemon.pick().json["code"] == "empty"


# envoyproxy/envoy#13072, istio/istio#25100, elastic/cloud-on-k8s#4956
def test_a_registry_that_lost_everything_empties_no_service_nor_does_a_restart_of_usherd_then(usherd, registry):
    services = [f"s{i}" for i in range(20)]
    for name in services:
        registry.put(name, f"{name}-1", f"{name}-2")
    daemon = start(usherd, registry, services=services, guard={"hold": "10m"})
    ids = {name: registry.ids_of([f"{name}-1", f"{name}-2"]) for name in services}
    for name in services:
        daemon.wait_listed(ids[name], name)
    registry.wipe()
    for _ in range(2):
        for name in services:
            wait_until(f"{name} is missed", lambda: feed(daemon, name)["held"] or feed(daemon, name)["error"])
            assert set(daemon.listed(name)) == set(ids[name])
        daemon.restart()
    for name in services:
        registry.put(name, f"{name}-1", f"{name}-2")
    for name in services:
        wait_until(f"nothing of {name} is held", lambda: not feed(daemon, name)["held"])
        wait_live(daemon, name)
        daemon.wait_listed(ids[name], name)  # the two come back one after the other


# prometheus/prometheus#4019, #5345
def test_two_services_of_one_name_there_keep_what_they_had(usherd, registry):
    registry.put("catalog", "a", "b")
    daemon = start(usherd, registry, services={
        "catalog": {}, "half": {"sources": [{"source": "it", "name": "catalog"}], "chain": [{"subset": {"size": 1}}]}})
    daemon.wait_listed(registry.ids_of("ab"))
    one = set(wait_until("half has one", lambda: daemon.listed("half")))
    registry.stop()
    for name in ("catalog", "half"):
        wait_until(f"{name} fails", lambda: feed(daemon, name)["error"])
    assert set(daemon.listed()) == set(registry.ids_of("ab")) and set(daemon.listed("half")) == one
    registry.start()
    for name in ("catalog", "half"):
        wait_live(daemon, name)
