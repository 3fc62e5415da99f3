"""What holds between usherd and every registry, whatever its protocol: ages, failures, reloads, TLS, descriptors. Each is played."""

import os
import re
import resource
import time

import played
import pytest
from certificates import Certificates
from usher import replace_file, wait_until


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


# hashicorp/consul#3018, hashicorp/consul-template#591
def test_sources_that_reloads_open_anew_leave_no_descriptor_behind(usherd, registry):
    registry.put("catalog", "a")
    daemon = start(usherd, registry)
    daemon.wait_listed(registry.ids_of("a"))

    def descriptors():
        return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))

    def open_anew(n):
        asked = registry.asked()
        daemon.configure(played.config(registry, options=registry.other_options(n)))
        daemon.reload()
        wait_until("the new one asks", lambda: registry.asked() > asked)

    open_anew(0)
    wait_live(daemon)
    before = descriptors()
    for n in range(1, 12):
        open_anew(n)
    wait_live(daemon)
    # A connection or two may be kept for another time, or be in use just now.
    wait_until("there are no more than before", lambda: descriptors() <= before + 4)


def test_an_answer_that_comes_late_is_that_old(usherd, registry):
    registry.put("catalog", "a")
    registry.delay(1)
    daemon = start(usherd, registry)
    daemon.wait_listed(registry.ids_of("a"))
    ages = set()

    def has_been_renewed():
        ages.add(feed(daemon)["age_ms"])
        return len(ages) > 10

    wait_until("it was looked at often", has_been_renewed, every=0.1)
    assert min(ages) >= 1000


# linkerd/linkerd2#8956, kubernetes/kubernetes#65012
def test_a_quiet_registry_is_told_from_one_that_is_gone(usherd, registry):
    registry.put("catalog", "a")
    daemon = start(usherd, registry)
    daemon.wait_listed(registry.ids_of("a"))

    def since(what):
        """As the API says and the metrics confirm, in seconds."""
        age = daemon.get("/v1/sources")["sources"][0][f"last_{what}_ms"] / 1000
        metrics = daemon.call("GET", "/metrics").body.decode()
        assert re.search(f'usher_source_{what}_age_seconds{{source="it"}} [0-9.]+', metrics)
        return age

    wait_until("nothing has changed for a while, and it is in touch", lambda: since("change") > 3 and since("contact") < 2.5)
    registry.stop()
    wait_until("it is out of touch", lambda: since("contact") > 3)


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
    whole = played.config(registry)
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
    daemon.configure(played.config(registry, services=services))
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
