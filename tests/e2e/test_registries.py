"""What holds for every registry, whatever its protocol: the real usherd against each of them, played."""

import os
import resource
import time

import played
import pytest
from certificates import Certificates
from usher import replace_file, wait_until

NAMES = [f"n{i}" for i in range(10)]


@pytest.fixture(params=played.ALL, ids=lambda one: one.plugin)
def registry(request):
    with request.param() as one:
        yield one


def config(registry, services=("catalog",), guard=None, max_age="5m", options=None):
    policy = {"freshness": {"max_age": max_age, "on_stale": "serve"}, "startup_timeout": "100ms"}
    return {
        "sources": [{"name": "it", "plugin": registry.plugin, "options": {**registry.options, **(options or {})}}],
        "defaults": {"sources": ["it"], **policy, **({"removal_guard": guard} if guard else {})},
        "services": services if isinstance(services, dict) else {name: {} for name in services},
    }


def start(usherd, registry, **more):
    return usherd(config(registry, **more)).start()


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
    whole = config(registry)
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
        assert set(daemon.listed(name)) == set(ids[name])


# hashicorp/consul#3018, hashicorp/consul-template#591
def test_sources_that_reloads_open_anew_leave_no_descriptor_behind(usherd, registry):
    registry.put("catalog", "a")
    daemon = start(usherd, registry)
    daemon.wait_listed(registry.ids_of("a"))

    def descriptors():
        return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))

    def open_anew(n):
        asked = registry.asked()
        daemon.configure(config(registry, options=registry.other_options(n)))
        daemon.reload()
        wait_until("the new one asks", lambda: registry.asked() > asked)

    open_anew(0)
    wait_live(daemon)
    before = descriptors()
    for n in range(1, 20):
        open_anew(n)
    wait_live(daemon)
    # A connection or two may be kept for another time, or be in use just now.
    wait_until("there are no more than before", lambda: descriptors() <= before + 4)


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
    assert feed(daemon, "half")["error"] == feed(daemon)["error"]
    registry.start()
    for name in ("catalog", "half"):
        wait_live(daemon, name)


def test_an_answer_that_comes_late_is_that_old(usherd, registry):
    registry.put("catalog", "a")
    registry.delay(1)
    daemon = start(usherd, registry)
    daemon.wait_listed(registry.ids_of("a"))
    ages = set()

    def has_been_renewed():
        ages.add(feed(daemon)["age_ms"])
        return len(ages) > 20

    wait_until("it was looked at often", has_been_renewed, every=0.1)
    assert min(ages) >= 1000


# linkerd/linkerd2#8956, kubernetes/kubernetes#65012
def test_a_quiet_registry_is_told_from_one_that_is_gone(usherd, registry):
    registry.put("catalog", "a")
    daemon = start(usherd, registry)
    daemon.wait_listed(registry.ids_of("a"))

    def since(what):
        return daemon.get("/v1/sources")["sources"][0][f"last_{what}_ms"]

    wait_until("nothing has changed for a while, and it is in touch", lambda: since("change") > 4000 and since("contact") < 3000)
    registry.stop()
    wait_until("it is out of touch", lambda: since("contact") > 4000)


# kubernetes/client-go#1381, k3s-io/k3s#5482
@pytest.mark.parametrize("how", ["fail", "deny"])
def test_what_always_fails_is_asked_for_less_and_less_and_said_once(usherd, registry, how):
    if not hasattr(registry, how):
        pytest.skip("no such denial")
    registry.put("catalog", "a")
    daemon = start(usherd, registry)
    daemon.wait_listed(registry.ids_of("a"))
    getattr(registry, how)()
    wait_until("it fails", lambda: feed(daemon)["state"] == {"fail": "failed", "deny": "denied"}[how])
    before = registry.asked()
    time.sleep(3)
    # Waits of 0.2 s doubling, of which a random part is waited, are about five in this time.
    assert registry.asked() - before < 30
    assert daemon.log_text().count("Cannot read") == 1
    assert set(daemon.listed()) == set(registry.ids_of("a"))
    source = daemon.get("/v1/sources")["sources"][0]
    assert source["state"] == feed(daemon)["state"] and source["error"] and source["remedy"]
    registry.behave()
    wait_live(daemon)


# ---- what HTTP has for all of them ----

@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    for ca in ("ca", "other-ca"):
        made.make_ca(ca)
    made.make("registry", "ca", "DNS:registry.test")
    made.make("node", "other-ca", "DNS:node.test")
    return made


def source_for_each(registry, kinds):
    """A source with the options of each kind, and a service of its name that has catalog of it."""
    whole = config(registry)
    whole["sources"] = [{"name": kind, "plugin": registry.plugin, "options": {**registry.options, **options}}
                        for kind, options in kinds.items()]
    whole["defaults"]["sources"] = list(kinds)[:1]
    whole["services"] = {kind: {"sources": [{"source": kind, "name": "catalog"}]} for kind in kinds}
    return whole


@pytest.mark.parametrize("registry", played.OVER_HTTP, ids=lambda one: one.plugin, indirect=True)
def test_a_certificate_is_verified_unless_that_is_switched_off(usherd, registry, certificates):
    registry.stop()
    registry.server.tls = certificates.context("registry")
    registry.start()
    registry.put("catalog", "a")
    ca, other_ca = certificates.at("ca.pem"), certificates.at("other-ca.pem")
    named = {"server_name": "registry.test"}
    daemon = usherd(source_for_each(registry, {
        "good": {**named, "ca": ca}, "unverified": {"verify": False},
        "unknown": named, "stranger": {**named, "ca": other_ca}, "misnamed": {"ca": ca},
    })).start()
    for kind in ("good", "unverified"):
        daemon.wait_listed(["a"], kind)
    for kind in ("unknown", "stranger", "misnamed"):
        wait_until(f"{kind} fails", lambda: feed(daemon, kind)["error"])
        error = feed(daemon, kind)["error"]
        assert "certificate" in error and "`ca`" in error and "`server_name`" in error
        assert daemon.pick(kind).json["code"] == "source_failed"


@pytest.mark.parametrize("registry", played.OVER_HTTP[:1], ids=lambda one: one.plugin, indirect=True)
def test_a_certificate_of_its_own_is_shown_to_a_registry_that_asks_for_one(usherd, registry, certificates):
    registry.stop()
    registry.server.tls = certificates.context("registry", client_ca="other-ca")
    registry.start()
    registry.put("catalog", "a")
    known = {"ca": certificates.at("ca.pem"), "server_name": "registry.test"}
    daemon = usherd(source_for_each(registry, {
        "shown": {**known, "certificate": certificates.at("node.pem"), "key": certificates.at("node.key")}, "none": known,
    })).start()
    daemon.wait_listed(["a"], "shown")
    wait_until("it fails", lambda: feed(daemon, "none")["error"])


@pytest.mark.parametrize("registry", played.OVER_HTTP[:1], ids=lambda one: one.plugin, indirect=True)
def test_another_ca_in_the_file_is_believed_from_then_on(usherd, registry, certificates, tmp_path):
    certificates.make("successor", "other-ca", "DNS:registry.test")
    ca = tmp_path / "ca.pem"
    ca.write_text(open(certificates.at("ca.pem"), encoding="ascii").read())
    registry.stop()
    registry.server.tls = certificates.context("registry")
    registry.start()
    registry.put("catalog", "a")
    daemon = start(usherd, registry, options={"ca": str(ca), "server_name": "registry.test"})
    daemon.wait_listed(["a"])
    registry.stop()
    registry.server.tls = certificates.context("successor")
    registry.start()
    wait_until("it is not believed", lambda: "certificate" in (feed(daemon)["error"] or ""))
    replace_file(ca, open(certificates.at("other-ca.pem"), encoding="ascii").read())
    registry.put("catalog", "b")
    daemon.wait_listed(["a", "b"])


# hashicorp/consul#3886, #9233
@pytest.mark.parametrize("registry", played.OVER_HTTP[:1], ids=lambda one: one.plugin, indirect=True)
def test_where_descriptors_run_out_it_recovers_when_there_are_some_again(usherd, registry):
    services = [f"s{i}" for i in range(30)]
    for name in services:
        registry.put(name, f"{name}-1")
    daemon = start(usherd, registry, services=services[:1])
    daemon.wait_listed(["s0-1"], "s0")
    pid = daemon.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    # A few of the 30 get a connection to wait on.
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")) + 8, before[1]))
    daemon.configure(config(registry, services=services))
    daemon.reload()
    # An admin gets in all the same.
    failed = wait_until("some fail", lambda: [
        s for s in services if daemon.get(f"/v1/services/{s}", admin=True)["feeds"][0]["error"]])
    assert daemon.get("/v1/services/s0/endpoints", admin=True)["endpoints"]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    for name in failed:
        daemon.wait_listed([f"{name}-1"], name)
        wait_live(daemon, name)
    daemon.wait_listed(["s29-1"], "s29")
