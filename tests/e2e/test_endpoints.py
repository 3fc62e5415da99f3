"""What sources say of endpoints, as consumers see it: weights, addresses, slices, identity."""

import json

import pytest

from usher import endpoint, replace_file, wait_until


def feed(daemon, name="catalog"):
    return daemon.get(f"/v1/services/{name}")["feeds"][0]


def test_weight_zero_is_listed_and_never_picked(usherd):
    daemon = usherd({"services": {name: {"select": name} for name in ("round_robin", "random", "weighted_round_robin")}})
    both = [endpoint("none", 8081, weight=0), endpoint("some", 8082, weight=5)]
    daemon.write_endpoints({name: both for name in ("round_robin", "random", "weighted_round_robin")})
    daemon.start()
    for name in ("round_robin", "random", "weighted_round_robin"):
        assert set(daemon.listed(name)) == {"none", "some"}
        assert daemon.picked(name, 50) == {"some"}


@pytest.mark.parametrize("weight", [" 20 ", "30%", "-5", "1e9", "NaN", "", "0x10", "4294967295", "100001"])
def test_what_is_no_weight_counts_as_one_and_is_reported(usherd, weight):
    daemon = usherd({"services": {"catalog": {}}})
    daemon.write_endpoints({"catalog": [endpoint("a", 8081, metadata={"weight": weight}), endpoint("b", 8082, weight="20")]})
    daemon.start()
    listed = daemon.listed()
    assert (listed["a"]["weight"], listed["a"]["weight_invalid"]) == (1, True)
    assert listed["b"]["weight"] == 20 and "weight_invalid" not in listed["b"]
    assert daemon.get("/v1/services/catalog")["weight_invalid"] == 1


def test_picks_follow_the_largest_weights_exactly(usherd):
    daemon = usherd({"services": {"catalog": {"select": "weighted_round_robin"}}})
    daemon.write_endpoints({"catalog": [endpoint("a", 8081, weight=100000), endpoint("b", 8082, weight=50000),
                                        endpoint("c", 8083, weight=50000)]})
    daemon.start()
    ids = [daemon.pick().json["endpoint"]["id"] for _ in range(40)]
    assert (ids.count("a"), ids.count("b"), ids.count("c")) == (20, 10, 10)


@pytest.mark.parametrize("address", ["fd00::10", "::1", "fe80::1%eth0", "::ffff:10.0.0.1", "2001:db8::1:8080"])
def test_ipv6_addresses_are_taken_without_brackets(usherd, address):
    daemon = usherd({"services": {"catalog": {}}})
    daemon.write_endpoints({"catalog": [{"address": address, "port": 8080}]})
    daemon.start()
    (name, only), = daemon.listed().items()
    assert only["address"] == address and only["port"] == 8080
    assert name == f"[{address}]:8080"


@pytest.mark.parametrize("target", ["2001:db8::1:8080", "::1", "[::1]80", "host:", "host:99999"])
def test_an_ambiguous_target_is_refused_with_its_place(usherd, target):
    daemon = usherd({"services": {"catalog": {"startup_timeout": "100ms"}}})
    path = daemon.folder / "targets.json"
    path.write_text(json.dumps([{"targets": [target], "labels": {"service": "catalog"}}]))
    daemon.configure({"sources": [{"name": "files", "plugin": "file", "options": {"path": str(path), "format": "prometheus"}}],
                      "services": {"catalog": {"startup_timeout": "100ms"}}})
    daemon.start()
    wait_until("the failure is told", lambda: feed(daemon)["error"])
    assert f"{path}:1:" in feed(daemon)["error"]
    assert target in feed(daemon)["error"]


def test_the_same_place_with_another_uid_is_another_endpoint(usherd):
    daemon = usherd({"services": {"catalog": {"drain": {"in_flight": {"quiet": "50ms"}, "min_ready": 0}}}})
    daemon.write_endpoints({"catalog": [endpoint("a", 8081, uid="pod-1"), endpoint("b", 8082, uid="pod-2")]})
    daemon.start()
    record = daemon.wait_finished(daemon.drain("a")["id"])
    assert record["uid"] == "pod-1"
    # The address is used again, by another: the old drain does not bind it.
    daemon.write_endpoints({"catalog": [endpoint("a", 8081, uid="pod-9"), endpoint("b", 8082, uid="pod-2")]})
    wait_until("the new one is chosen", lambda: "a" in daemon.picked())
    assert daemon.listed()["a"]["uid"] == "pod-9"


def slice_of(name, endpoints, ports=None, service="catalog", **more):
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": "7",
                         "labels": {"kubernetes.io/service-name": service}},
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}] if ports is None else ports,
            "endpoints": endpoints, **more}


def pod(name, address, ready=True, **conditions):
    return {"addresses": [address], "conditions": {"ready": ready, **conditions}, "zone": "east",
            "targetRef": {"kind": "Pod", "name": name, "namespace": "shop", "uid": f"uid-{name}"}}


@pytest.fixture
def kubernetes(usherd):
    """An usherd that reads a file as kubectl prints it."""
    daemon = usherd()
    daemon.configure({"services": {"catalog": {"startup_timeout": "100ms",
                                               "sources": [{"source": "files", "port": "http"}]}}})

    def write(*slices):
        replace_file(daemon.endpoints, json.dumps({"apiVersion": "v1", "kind": "List", "items": list(slices)}))
        return daemon

    return daemon, write


def test_all_slices_of_a_service_are_one_directory(kubernetes):
    daemon, write = kubernetes
    write(slice_of("one", [pod("a", "10.0.0.1")]), slice_of("two", [pod("b", "10.0.0.2")]))
    daemon.start()
    daemon.wait_listed(["a", "b"])
    assert daemon.listed()["a"]["uid"] == "uid-a"
    assert daemon.listed()["a"]["zone"] == "east"


def test_a_pod_in_two_slices_is_one_endpoint_and_ready_wins(kubernetes):
    daemon, write = kubernetes
    write(slice_of("one", [pod("a", "10.0.0.1", ready=True)]), slice_of("two", [pod("a", "10.0.0.1", ready=False)]))
    daemon.start()
    daemon.wait_listed(["a"])
    assert daemon.listed()["a"]["conditions"]["ready"] is True


def test_each_endpoint_gets_the_number_that_its_slice_gives_the_port(kubernetes):
    daemon, write = kubernetes
    write(slice_of("one", [pod("a", "10.0.0.1")], [{"name": "metrics", "port": 1}, {"name": "http", "port": 8080}]),
          slice_of("two", [pod("b", "10.0.0.2")], [{"name": "http", "port": 9090}]))
    daemon.start()
    daemon.wait_listed(["a", "b"])
    assert {n: e["port"] for n, e in daemon.listed().items()} == {"a": 8080, "b": 9090}


@pytest.mark.parametrize("odd", [
    {"ports": [{"name": "http"}]}, {"ports": [{}]}, {"ports": []}, {"endpoints": [{"addresses": []}]}, {"endpoints": [{}]},
    {"endpoints": [{"addresses": ["10.0.0.9"]}]}, {"endpoints": [{"addresses": ["10.0.0.9"], "conditions": None}]},
])
def test_odd_slices_crash_nothing(kubernetes, odd):
    daemon, write = kubernetes
    odd_slice = {**slice_of("odd", []), **odd}
    write(slice_of("good", [pod("a", "10.0.0.1")]), odd_slice)
    daemon.start()
    wait_until("it has looked", lambda: feed(daemon)["state"] in ("live", "failed"))
    assert daemon.process.poll() is None
    write(slice_of("good", [pod("a", "10.0.0.1")]))
    daemon.wait_listed(["a"])


def test_all_endpoints_swapped_and_swapped_back_leave_no_empty_moment(kubernetes):
    daemon, write = kubernetes
    old = slice_of("one", [pod("a", "10.0.0.1"), pod("b", "10.0.0.2")])
    new = slice_of("one", [pod("c", "10.0.0.3"), pod("d", "10.0.0.4")])
    write(old)
    daemon.configure({"services": {"catalog": {"removal_guard": {"share": "100%"},
                                               "sources": [{"source": "files", "port": "http"}]}}})
    daemon.start()
    with daemon.watch() as watch:
        listed = {e["id"] for e in watch.next()["endpoints"]}
        for turn in (new, old, new):
            write(turn)
            want = {e["targetRef"]["name"] for e in turn["endpoints"]}
            while listed != want:
                line = watch.until(lambda line: line["type"] == "update")
                listed = (listed | {e["id"] for e in line["changed"]}) - set(line["removed"])
                assert listed
