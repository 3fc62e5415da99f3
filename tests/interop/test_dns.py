"""The real usherd against real name servers."""

# Needs from Debian: debian-archive-keyring dpkg dnsmasq-base

import time

import pytest
from name_servers import Dnsmasq, Knot
from usher import wait_until

SERVER = "Knot DNS 3.2.6 and dnsmasq 2.90 of Debian 12, TTL 1 s"
WEB = "_http._tcp.web"


@pytest.fixture
def knot(tmp_path):
    with Knot(tmp_path / "knot") as server:
        yield server


@pytest.fixture(params=[False, True], ids=["plain", "authoritative"])
def dnsmasq(request, tmp_path):
    server = Dnsmasq(tmp_path / "dnsmasq", request.param)
    server.put(a=["A 10.0.0.1"], b=["A 10.0.0.2"], c=["A 10.0.0.3"],
               **{WEB: ["SRV 10 1 8080 a", "SRV 10 2 8080 b", "SRV 20 3 8080 c"]})
    with server:
        yield server


def start(usherd, *servers, options=None, services=None, **service):
    daemon = usherd({
        "sources": [{"name": "dns", "plugin": "dns", "options": {
            "servers": [s.address for s in servers], "name": "{name}.test", "timeout": "500ms", **(options or {})}}],
        "services": services or {"catalog": {"sources": [{"source": "dns", "name": WEB}],
                                             "freshness": {"max_age": "10s", "on_stale": "serve"}, **service}},
    })
    daemon.start()
    return daemon


def feed(daemon):
    return daemon.get("/v1/services/catalog")["feeds"][0]


def wait_live(daemon):
    wait_until("it is live", lambda: feed(daemon)["state"] == "live" and not feed(daemon)["error"])


def ids(*numbers):
    return [f"10.0.0.{n}:8080" for n in numbers]


def offer(knot, *numbers):
    knot.put(**{f"t{n}": [f"A 10.0.0.{n}"] for n in numbers}, **{WEB: [f"SRV 10 {n} 8080 t{n}" for n in numbers]})


def test_appear_change_drain_restore_disappear(usherd, knot, open_port):
    knot.put(a=["A 127.0.0.1"], b=["A 10.0.0.2"], **{WEB: [f"SRV 10 5 {open_port} a"]})
    a, b = f"127.0.0.1:{open_port}", "10.0.0.2:8080"
    daemon = start(usherd, knot, removal_guard={"hold": "2s"})
    daemon.wait_listed([a])
    knot.put(**{WEB: [f"SRV 10 7 {open_port} a", "SRV 10 0 8080 b"]})
    daemon.wait_listed([a, b])
    wait_until("the weight is 7", lambda: daemon.listed()[a]["weight"] == 7)

    record = daemon.wait_finished(daemon.drain(a)["id"])
    assert daemon.picked() == {b}
    assert "cannot" in str(record)  # DNS is not told: usher itself keeps the node's consumers away
    daemon.restore(a)
    wait_until("it is back", lambda: daemon.picked() == {a, b})

    knot.put(**{WEB: ["SRV 10 0 8080 b"]})
    daemon.wait_listed([b])
    knot.put(**{WEB: ["SRV 0 0 0 ."]})
    daemon.wait_listed([])


def test_cnames_families_and_long_answers(usherd, knot):
    knot.put(one=["CNAME two"], two=["CNAME three"], three=[f"A 10.1.0.{n}" for n in range(1, 201)],
             six=["AAAA fd00::6"])
    daemon = start(usherd, knot, services={
        "catalog": {"sources": [{"source": "dns", "name": "one", "port": 80}]},
        "six": {"sources": [{"source": "dns", "name": "six", "port": 80}]}})
    daemon.wait_listed([f"10.1.0.{n}:80" for n in range(1, 201)])
    daemon.wait_listed(["[fd00::6]:80"], service="six")


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_restart_loses_nothing(usherd, knot, report, how):
    offer(knot, 1, 2, 3)
    daemon = start(usherd, knot)
    daemon.wait_listed(ids(1, 2, 3))
    with report.nothing_lost(daemon, ids(1, 2, 3), "stopped" if how == "stop" else "killed"):
        getattr(knot, how)()
        wait_until("it fails", lambda: feed(daemon)["error"])
        knot.start()
        wait_live(daemon)


def test_a_frozen_server_loses_nothing_and_is_noticed(usherd, knot, report):
    offer(knot, 1, 2)
    daemon = start(usherd, knot)
    daemon.wait_listed(ids(1, 2))
    with report.nothing_lost(daemon, ids(1, 2), "frozen (SIGSTOP)"):
        knot.freeze()
        wait_until("it is noticed", lambda: "no answer within" in (feed(daemon)["error"] or ""))
        knot.thaw()
        wait_live(daemon)
    offer(knot, 1, 2, 3)
    daemon.wait_listed(ids(1, 2, 3))


def test_a_zone_that_is_wiped_loses_nothing_for_the_time_of_the_guard(usherd, knot, report):
    offer(knot, 1, 2)
    daemon = start(usherd, knot, removal_guard={"hold": "20s"})
    daemon.wait_listed(ids(1, 2))
    with report.nothing_lost(daemon, ids(1, 2), "wiped"):
        saved, knot.records = knot.records, {}
        knot.publish()
        wait_until("it is held", lambda: feed(daemon)["held"])
        knot.records = saved
        knot.publish()
        wait_until("nothing is held", lambda: not feed(daemon)["held"])
    knot.records = {}
    knot.publish()
    daemon.wait_listed([])


def test_a_server_without_its_zone_is_a_failure(usherd, knot, report):
    offer(knot, 1, 2)
    daemon = start(usherd, knot)
    daemon.wait_listed(ids(1, 2))
    with report.nothing_lost(daemon, ids(1, 2), "started without its zone"):
        knot.kill()
        conf = (knot.folder / "knot.conf").read_text()
        (knot.folder / "knot.conf").write_text(conf[:conf.index("zone:")])
        knot.start(wait=False)
        wait_until("it is refused", lambda: "REFUSED" in (feed(daemon)["error"] or ""))
        assert feed(daemon)["state"] == "denied"
        knot.kill()
        (knot.folder / "knot.conf").write_text(conf)
        knot.start()
        wait_live(daemon)


def test_the_second_server_takes_over(usherd, knot, tmp_path, report):
    with Knot(tmp_path / "other") as other:
        for server in (knot, other):
            offer(server, 1, 2)
        daemon = start(usherd, knot, other)
        daemon.wait_listed(ids(1, 2))
        with report.nothing_lost(daemon, ids(1, 2), "one of two killed"):
            knot.kill()
            offer(other, 1, 2, 3)
            daemon.wait_listed(ids(1, 2, 3))


def test_the_time_from_a_write_to_the_watchers_line(usherd, knot, report):
    offer(knot, 1)
    daemon = start(usherd, knot)
    daemon.wait_listed(ids(1))
    times = []
    with daemon.watch() as stream:
        stream.next()
        for i in range(30):
            before = time.monotonic()
            knot.put(**{WEB: [f"SRV 10 {100 + i} 8080 t1"]})
            stream.until(lambda line: any(e["weight"] == 100 + i for e in line.get("changed", [])))
            times.append((time.monotonic() - before) * 1000)
            time.sleep(0.013 * i)  # at all points of a TTL
    report.times(times)


def test_a_thousand_names_with_a_hundred_addresses_each(usherd, knot, report):
    knot.ttl = 5
    knot.put(**{f"s{n}": [f"A 10.{n // 250}.{n % 250}.{i}" for i in range(1, 101)] for n in range(1000)})
    names = [f"s{n}" for n in range(1000)]
    begun = time.monotonic()
    daemon = start(usherd, knot, options={"addresses": "ipv4"}, services={
        n: {"sources": [{"source": "dns", "name": n, "port": 80}], "startup_timeout": "60s"} for n in names})
    report.fact("1,000 names of 100 addresses read after", f"{time.monotonic() - begun:.1f} s")
    for n in names[::50]:
        assert len(daemon.listed(n)) == 100
    for n in ("s7", "s900"):
        knot.records[n].append("A 10.99.99.99")
    knot.publish()
    for n in ("s7", "s900"):
        wait_until(f"{n} has one more", lambda n=n: "10.99.99.99:80" in daemon.listed(n))


def test_dnsmasq(usherd, dnsmasq, report):
    daemon = start(usherd, dnsmasq, options={"require_soa": dnsmasq.authoritative}, removal_guard={"hold": "20s"})
    daemon.wait_listed(ids(1, 2, 3))
    assert [daemon.listed()[i]["metadata"]["dns.tier"] for i in ids(1, 2, 3)] == ["1", "1", "2"]
    dnsmasq.put(c=["A 10.0.0.3", "A 10.0.0.4"])
    daemon.wait_listed(ids(1, 2, 3, 4))
    with report.nothing_lost(daemon, ids(1, 2, 3, 4), "killed"):
        dnsmasq.kill()
        wait_until("it fails", lambda: feed(daemon)["error"])
        dnsmasq.start()
        wait_live(daemon)
    with report.nothing_lost(daemon, ids(1, 2, 3, 4), "frozen (SIGSTOP)"):
        dnsmasq.freeze()
        wait_until("it fails", lambda: feed(daemon)["error"])
        dnsmasq.thaw()
        wait_live(daemon)
    dnsmasq.put(c=[])
    daemon.wait_listed(ids(1, 2))
    dnsmasq.put(c=["A 10.0.0.3"])
    daemon.wait_listed(ids(1, 2, 3))
    saved = dict(dnsmasq.records)
    with report.nothing_lost(daemon, ids(1, 2, 3), "wiped"):
        dnsmasq.stop()
        dnsmasq.records = {}
        dnsmasq.start()
        wait_until("it is held", lambda: feed(daemon)["held"])
        dnsmasq.stop()
        dnsmasq.records = saved
        dnsmasq.start()
        wait_until("nothing is held", lambda: not feed(daemon)["held"])


def test_dnsmasq_that_is_not_authoritative_proves_nothing(usherd, tmp_path):
    server = Dnsmasq(tmp_path / "dnsmasq")
    server.put(web=["A 10.0.0.1"])
    with server:
        daemon = start(usherd, server, sources=[{"source": "dns", "name": "web", "port": 8080}])
        daemon.wait_listed(ids(1))
        server.put(web=[])
        wait_until("it says what to do", lambda: "require_soa: false" in (feed(daemon)["error"] or ""))
        assert set(daemon.listed()) == set(ids(1))
