"""The real usherd against a name server that is played, in good order and in bad."""

import itertools
import socket
import time

import pytest
from scripted_dns import (AAAA, SRV, A, DnsServer, Fault, bare_nxdomain, garbage, late, rcode, refused, servfail, silence, truncated,
                          wrong_id, wrong_question)
from usher import wait_until

WEB = "_http._tcp.web.test"


@pytest.fixture
def dns():
    with DnsServer() as server:
        yield server


def start(usherd, *servers, source=None, wait=True, config=None, **service):
    daemon = usherd({
        "sources": [{"name": "dns", "plugin": "dns",
                     "options": {"servers": [s.address for s in servers], "ttl_min": "100ms", "ttl_max": "200ms",
                                 "timeout": "300ms", **(source or {})}}],
        "services": {"catalog": {"sources": [{"source": "dns", "name": WEB}], "freshness": {"max_age": "60s", "on_stale": "serve"},
                                 **service}},
        **(config or {}),
    })
    return daemon.start(wait)


def by_address(port=8080, name="web.test"):
    return {"sources": [{"source": "dns", "name": name, "port": port}]}


def feed(daemon):
    return daemon.get("/v1/services/catalog")["feeds"][0]


def wait_failed(daemon, text):
    return wait_until(f"it fails with {text}", lambda: text in (feed(daemon)["error"] or ""))


def wait_live(daemon):
    return wait_until("it is live", lambda: feed(daemon)["state"] == "live" and not feed(daemon)["error"])


def offer(dns, *numbers, ttl=1):
    """One target with one address for each number."""
    for n in numbers:
        dns.a(f"t{n}.test", f"10.0.0.{n}", ttl=ttl)
    dns.srv(WEB, *((10, n, 8080, f"t{n}.test") for n in numbers), ttl=ttl)


def ids(*numbers):
    return [f"10.0.0.{n}:8080" for n in numbers]


def test_srv_records_appear_change_and_disappear(usherd, dns):
    offer(dns, 1, 2)
    daemon = start(usherd, dns)
    daemon.wait_listed(ids(1, 2))
    first = daemon.listed()["10.0.0.2:8080"]
    assert first["weight"] == 2
    assert first["metadata"] == {"dns.priority": "10", "dns.target": "t2.test", "dns.tier": "1"}
    offer(dns, 1, 2, 3)
    daemon.wait_listed(ids(1, 2, 3))
    dns.srv(WEB, (10, 7, 8080, "t1.test"), (10, 2, 8080, "t2.test"), (10, 3, 8080, "t3.test"))
    wait_until("the weight is 7", lambda: daemon.listed()["10.0.0.1:8080"]["weight"] == 7)
    offer(dns, 2, 3)
    daemon.wait_listed(ids(2, 3))


def test_addresses_take_the_port_of_the_configuration(usherd, dns):
    dns.a("web.test", "10.0.0.1", "10.0.0.2")
    daemon = start(usherd, dns, source={"hold": "1s"}, removal_guard={"hold": "1s"}, **by_address(9000))
    daemon.wait_listed(["10.0.0.1:9000", "10.0.0.2:9000"])
    dns.a("web.test", "10.0.0.2", "10.0.0.3")
    daemon.wait_listed(["10.0.0.2:9000", "10.0.0.3:9000"])


def test_a_name_with_addresses_and_without_a_port_says_what_to_write(usherd, dns):
    dns.a("web.test", "10.0.0.1")
    daemon = start(usherd, dns, wait=False, sources=[{"source": "dns", "name": "web.test"}])
    wait_until("it answers", daemon.answers)
    wait_failed(daemon, "`port:` of the service's source")


@pytest.mark.parametrize("which,expected", [
    ("prefer_ipv4", {"10.0.0.1:80", "[fd00::2]:80"}),
    ("prefer_ipv6", {"[fd00::1]:80", "[fd00::2]:80"}),
    ("ipv4", {"10.0.0.1:80"}),
    ("ipv6", {"[fd00::1]:80", "[fd00::2]:80"}),
    ("both", {"10.0.0.1:80", "[fd00::1]:80", "[fd00::2]:80"}),
])
def test_both_families(usherd, dns, which, expected):
    dns.a("t1.test", "10.0.0.1")
    dns.aaaa("t1.test", "fd00::1")
    dns.aaaa("t2.test", "fd00::2")
    dns.srv(WEB, (1, 1, 80, "t1.test"), (1, 1, 80, "t2.test"))
    start(usherd, dns, source={"addresses": which}).wait_listed(expected)


FAULTS = {
    "SERVFAIL": (servfail, "SERVFAIL"),
    "REFUSED": (refused, "REFUSED"),
    "NOTIMP": (rcode(4), "NOTIMP"),
    "silence": (silence, "no answer within 0.9 s"),
    "another id": (wrong_id, "no answer within 0.9 s"),
    "another question": (wrong_question, "no answer within 0.9 s"),
    "garbage": (garbage, "malformed"),
    "truncated even over TCP": (truncated, "cut off, even over TCP"),
    "NXDOMAIN without SOA": (bare_nxdomain, "require_soa"),
    "NODATA without SOA": (rcode(0), "require_soa"),
}


@pytest.mark.parametrize("additional", [True, False], ids=["srv", "srv and addresses"])
@pytest.mark.parametrize("name", FAULTS)
def test_whatever_goes_wrong_empties_nothing_and_is_got_over(usherd, name, additional):
    do, text = FAULTS[name]
    with DnsServer(additional=additional) as dns:
        offer(dns, 1, 2)
        daemon = start(usherd, dns)
        daemon.wait_listed(ids(1, 2))
        dns.faults.append(Fault(do, times=None))
        wait_failed(daemon, text)
        assert set(daemon.listed()) == set(ids(1, 2))
        dns.faults.clear()
        offer(dns, 1, 2, 3)
        daemon.wait_listed(ids(1, 2, 3))
        wait_live(daemon)


@pytest.mark.parametrize("do", [servfail, silence, refused], ids=["SERVFAIL", "silence", "REFUSED"])
def test_a_target_that_fails_keeps_its_addresses_and_no_other_is_kept_back(usherd, do):
    with DnsServer(additional=False) as dns:
        offer(dns, 1, 2)
        daemon = start(usherd, dns)
        daemon.wait_listed(ids(1, 2))
        dns.faults.append(Fault(do, times=None, when=lambda q: q.name == "t1.test"))
        wait_failed(daemon, "t1.test")
        offer(dns, 1, 2, 3)
        daemon.wait_listed(ids(1, 2, 3))
        dns.faults.clear()
        wait_live(daemon)


def test_a_target_without_an_address_does_not_keep_the_others_from_use(usherd, dns):
    offer(dns, 1, 2)
    dns.drop("t1.test")
    daemon = start(usherd, dns)
    daemon.wait_listed(ids(2))
    wait_live(daemon)
    daemon.wait_said("1 of 2 targets of _http._tcp.web.test have no address and are left out, such as t1.test")
    offer(dns, 1, 2)
    daemon.wait_listed(ids(1, 2))


def test_a_target_that_is_gone_keeps_its_addresses_until_it_is_said_again(usherd, dns):
    offer(dns, 1, 2)
    daemon = start(usherd, dns)
    daemon.wait_listed(ids(1, 2))
    dns.negative_ttl = 2
    dns.drop("t1.test")
    wait_failed(daemon, "there is no such name")
    assert set(daemon.listed()) == set(ids(1, 2))
    daemon.wait_listed(ids(2))
    wait_live(daemon)


@pytest.mark.parametrize("kind", ["no such name", "no such records"])
def test_what_is_not_there_is_held_and_then_empty(usherd, dns, kind):
    offer(dns, 1, 2)
    daemon = start(usherd, dns, removal_guard={"hold": "12s"})
    daemon.wait_listed(ids(1, 2))
    if kind == "no such records":
        dns.a(WEB, "10.9.9.9")
    dns.drop(WEB, SRV)
    wait_until("it is held", lambda: feed(daemon)["held"])
    assert set(daemon.listed()) == set(ids(1, 2))
    offer(dns, 1, 2)
    wait_until("nothing is held", lambda: not feed(daemon)["held"])
    assert set(daemon.listed()) == set(ids(1, 2))
    dns.drop(WEB, SRV)
    daemon.wait_listed([])
    assert daemon.pick().json["code"] == "empty"


def test_a_service_that_is_decidedly_not_offered_is_empty(usherd, dns):
    offer(dns, 1, 2)
    daemon = start(usherd, dns, removal_guard={"share": "100%"})
    daemon.wait_listed(ids(1, 2))
    dns.srv(WEB, (0, 0, 0, "."))
    daemon.wait_listed([])
    assert feed(daemon)["state"] == "live"


def test_a_second_server_that_has_the_name_outweighs_one_that_lost_it(usherd, dns):
    with DnsServer() as other:
        for server in (dns, other):
            offer(server, 1, 2)
        daemon = start(usherd, dns, other)
        daemon.wait_listed(ids(1, 2))
        dns.drop(WEB)
        wait_until("the other is asked", lambda: other.asked(WEB, SRV))
        wait_until("nothing is held", lambda: not feed(daemon)["held"])
        assert set(daemon.listed()) == set(ids(1, 2))


@pytest.mark.parametrize("do", [silence, servfail, refused, None], ids=["silence", "SERVFAIL", "REFUSED", "stopped"])
def test_the_next_server_is_asked_where_one_fails(usherd, dns, do):
    with DnsServer() as other:
        offer(other, 1, 2)
        if do:
            dns.faults.append(Fault(do, times=None))
        else:
            dns.stop()
        daemon = start(usherd, dns, other)
        daemon.wait_listed(ids(1, 2))
        wait_live(daemon)
        # Whoever answered is asked first from then on, unless it is late.
        before = len(dns.questions)
        wait_until("the other is asked", lambda: len(other.asked(WEB, SRV)) > 20)
        assert len(dns.questions) - before < 10


def test_all_servers_are_named_where_all_fail(usherd, dns):
    with DnsServer() as other:
        offer(dns, 1)
        daemon = start(usherd, dns, other)
        daemon.wait_listed(ids(1))
        dns.faults.append(Fault(servfail, times=None))
        other.faults.append(Fault(refused, times=None))
        error = wait_failed(daemon, "REFUSED") and feed(daemon)["error"]
        assert f"{dns.address}: SERVFAIL" in error and f"{other.address}: REFUSED" in error


def test_a_slow_server_is_an_answer(usherd, dns):
    offer(dns, 1)
    dns.faults.append(Fault(late(0.4), times=4))
    start(usherd, dns, source={"timeout": "10s"}).wait_listed(ids(1))


@pytest.mark.parametrize("tcp", [False, True])
def test_an_answer_that_is_too_long_for_udp_comes_over_tcp(usherd, dns, tcp):
    offer(dns, *range(1, 61))
    daemon = start(usherd, dns, source={"tcp": tcp})
    daemon.wait_listed(ids(*range(1, 61)))
    assert any(q.tcp for q in dns.asked(WEB, SRV))
    assert tcp == all(q.tcp for q in dns.questions)


# hashicorp/consul#3850
def test_an_answer_that_breaks_off_over_tcp_is_a_failure(usherd, dns):
    def break_off(question, message):
        raise ConnectionResetError  # where it is answered, the connection ends then

    offer(dns, *range(1, 61))
    daemon = start(usherd, dns)
    daemon.wait_listed(ids(*range(1, 61)))
    fault = Fault(break_off, times=None, when=lambda q: q.tcp)
    dns.faults.append(fault)
    wait_until("it fails", lambda: feed(daemon)["error"])
    assert set(daemon.listed()) == set(ids(*range(1, 61)))
    dns.faults[:] = [Fault(truncated, times=None)]
    wait_failed(daemon, "take the endpoints from the registry itself")
    assert set(daemon.listed()) == set(ids(*range(1, 61)))
    dns.faults.clear()
    wait_live(daemon)


def test_a_server_without_edns_has_its_additional_records_doubted_where_they_may_be_cut(usherd, dns):
    """12 targets, of which 512 bytes have room for the records and not for all addresses."""
    offer(dns, *range(1, 7))
    daemon = start(usherd, dns)
    daemon.wait_listed(ids(*range(1, 7)))
    dns.additional = False
    dns.questions.clear()
    wait_until("targets are asked for", lambda: dns.asked("t3.test", A))
    daemon.wait_listed(ids(*range(1, 7)))


def test_cnames_are_followed(usherd, dns):
    dns.cname("web.test", "one.test", ttl=40)
    dns.cname("one.test", "two.test", ttl=40)
    dns.a("two.test", "10.0.0.1", "10.0.0.2")
    daemon = start(usherd, dns, **by_address())
    daemon.wait_listed(ids(1, 2))
    dns.a("two.test", "10.0.0.1")
    daemon.wait_listed(ids(1))


def test_cnames_in_a_circle_are_a_failure(usherd, dns):
    dns.a("web.test", "10.0.0.1")
    daemon = start(usherd, dns, **by_address())
    daemon.wait_listed(ids(1))
    dns.drop("web.test")
    dns.cname("web.test", "one.test")
    dns.cname("one.test", "web.test")
    wait_failed(daemon, "in a circle")
    assert set(daemon.listed()) == set(ids(1))


@pytest.mark.parametrize("rotates", ["auto", "yes"])
def test_a_name_that_rotates_loses_nobody(usherd, dns, rotates):
    """8 addresses, 3 an answer."""
    dns.part = 3
    dns.a("web.test", *(f"10.0.0.{n}" for n in range(1, 9)))
    daemon = start(usherd, dns, source={"rotates": rotates}, **by_address())
    with daemon.watch() as stream:
        daemon.wait_listed(ids(*range(1, 9)))
        asked = len(dns.questions)
        wait_until("30 answers have come", lambda: len(dns.questions) > asked + 60)
        assert set(daemon.listed()) == set(ids(*range(1, 9)))
        lines = [stream.next()]
        while len(seen_in(lines)) < 8:
            lines.append(stream.next())
        assert not any(line.get("removed") for line in lines)
    assert "3 an answer and another part each time" in feed(daemon)["revision"]


# hashicorp/consul#375
def test_an_answer_over_udp_that_hides_most_of_the_targets_hides_nobody(usherd, dns):
    """12 targets, 3 an answer, and no word of it."""
    dns.part = 3
    offer(dns, *range(1, 13))
    daemon = start(usherd, dns)
    daemon.wait_listed(ids(*range(1, 13)))
    asked = len(dns.asked(WEB, SRV))
    wait_until("20 more answers have come", lambda: len(dns.asked(WEB, SRV)) > asked + 20)
    assert set(daemon.listed()) == set(ids(*range(1, 13)))
    daemon.wait_said(f"Each answer for {WEB} has another part of its records, such as 3")


def seen_in(lines):
    return {e["id"] for line in lines for e in line.get("endpoints", []) + line.get("changed", [])}


def test_who_left_a_name_that_rotates_is_gone_after_the_hold(usherd, dns):
    dns.part = 3
    dns.a("web.test", *(f"10.0.0.{n}" for n in range(1, 9)))
    daemon = start(usherd, dns, source={"rotates": "yes", "hold": "4s"}, **by_address())
    daemon.wait_listed(ids(*range(1, 9)))
    dns.a("web.test", *(f"10.0.0.{n}" for n in range(1, 8)))
    daemon.wait_listed(ids(*range(1, 8)))


def assert_no_storm(dns, began):
    """No more questions than one in each 0.3 s since then, however late the machine lets them come."""
    wait_until("20 questions have come", lambda: len(dns.asked(WEB, SRV)) >= 20)
    count = len(dns.asked(WEB, SRV))
    assert count <= 2 + (time.monotonic() - began) / 0.3


def test_ttls_of_zero_do_not_make_a_storm(usherd, dns):
    offer(dns, 1, ttl=0)
    began = time.monotonic()
    daemon = start(usherd, dns, source={"ttl_min": "300ms", "ttl_max": "300ms", "timeout": "10s"})
    assert_no_storm(dns, began)
    # Failures between answers are the ones that are got over soonest.
    turns = itertools.count()
    fault = Fault(bare_nxdomain, times=None, when=lambda q: q.kind == SRV and next(turns) % 2)
    began = time.monotonic()
    dns.questions.clear()
    dns.faults.append(fault)
    assert_no_storm(dns, began)
    assert next(turns) >= 10
    dns.faults[:] = [Fault(bare_nxdomain, times=None)]
    wait_failed(daemon, "require_soa")
    assert set(daemon.listed()) == set(ids(1))


def test_require_soa_false_believes_a_bare_nxdomain(usherd, dns):
    offer(dns, 1)
    daemon = start(usherd, dns, source={"require_soa": False}, removal_guard={"share": "100%"})
    daemon.wait_listed(ids(1))
    dns.faults.append(Fault(bare_nxdomain, times=None))
    daemon.wait_listed([])


def test_search_domains_are_tried_in_turn_and_only_when_asked_for(usherd, dns):
    dns.a("web.test", "10.0.0.1")
    dns.a("web.b.test", "10.0.0.2")
    daemon = start(usherd, dns, source={"search": ["a.test", "b.test"], "hold": "1s"}, removal_guard={"hold": "1s"},
                   **by_address(name="web"))
    daemon.wait_listed(ids(2))
    dns.a("web.a.test", "10.0.0.3")
    daemon.wait_listed(ids(3))


def test_a_domain_that_fails_is_not_passed_over(usherd, dns):
    dns.a("web.a.test", "10.0.0.1")
    dns.a("web.b.test", "10.0.0.2")
    daemon = start(usherd, dns, source={"search": ["a.test", "b.test"]}, **by_address(name="web"))
    daemon.wait_listed(ids(1))
    dns.faults.append(Fault(servfail, times=None, when=lambda q: q.name == "web.a.test"))
    wait_failed(daemon, "SERVFAIL")
    assert set(daemon.listed()) == set(ids(1))


def test_a_template_makes_the_name(usherd, dns):
    offer(dns, 1)
    daemon = start(usherd, dns, source={"name": "_{port}._tcp.{name}.test"},
                   sources=[{"source": "dns", "name": "web", "port": "http"}])
    daemon.wait_listed(ids(1))


def test_a_whole_name_passes_the_template_by(usherd, dns):
    offer(dns, 1)
    daemon = start(usherd, dns, source={"name": "{name}.elsewhere.test"}, sources=[{"source": "dns", "name": WEB + "."}])
    daemon.wait_listed(ids(1))


def test_a_name_that_is_none_is_never_asked_for(usherd, dns):
    offer(dns, 1)
    daemon = start(usherd, dns, config={"defaults": {"sources": ["dns"], "lazy": {"allow": True}}})
    daemon.wait_listed(ids(1))
    answer = daemon.call("GET", "/v1/services/" + "x" * 64 + "/endpoints")
    assert answer.status == 200 or answer.json["code"], answer
    wait_until("it fails", lambda: "no name of DNS" in str(daemon.get("/v1/services/" + "x" * 64)["feeds"][0]["error"]))
    assert not [q for q in dns.questions if q.name.startswith("xx")]


def test_the_second_priority_is_used_when_all_of_the_first_are_down_and_back(usherd, dns):
    sockets = {}

    def listen(host, port=0):
        sockets[host] = socket.create_server((host, port))
        return sockets[host].getsockname()[1]

    try:
        port = listen("127.0.0.2")
        listen("127.0.0.3", port)
        listen("127.0.0.4", port)
        for n in (2, 3, 4):
            dns.a(f"t{n}.test", f"127.0.0.{n}")
        dns.srv(WEB, (10, 0, port, "t2.test"), (10, 0, port, "t3.test"), (20, 0, port, "t4.test"))
        daemon = start(usherd, dns, health={"tcp": {}, "interval": "200ms", "timeout": "5s", "rise": 1, "fall": 1},
                       chain=["ready", "health", {"priority": {"label": "dns.tier", "order": ["1", "2"]}}])
        best, spare = {f"127.0.0.2:{port}", f"127.0.0.3:{port}"}, {f"127.0.0.4:{port}"}

        def picks():
            answers = [daemon.pick() for _ in range(20)]
            return {a.json["endpoint"]["id"] for a in answers if a.status == 200}

        wait_until("the first tier is picked", lambda: picks() == best)
        sockets["127.0.0.2"].close()
        sockets["127.0.0.3"].close()
        wait_until("the second tier is picked", lambda: picks() == spare)
        listen("127.0.0.2", port)
        listen("127.0.0.3", port)
        wait_until("the first tier is picked", lambda: picks() == best)
    finally:
        for s in sockets.values():
            s.close()


def test_weights_of_zero_are_equal_among_themselves_and_small_among_others(usherd, dns):
    for n in (1, 2, 3, 4):
        dns.a(f"t{n}.test", f"10.0.0.{n}")
    dns.srv(WEB, (10, 0, 8080, "t1.test"), (10, 0, 8080, "t2.test"), (20, 0, 8080, "t3.test"), (20, 10, 8080, "t4.test"))
    daemon = start(usherd, dns)
    daemon.wait_listed(ids(1, 2, 3, 4))
    assert [daemon.listed()[i]["weight"] for i in ids(1, 2, 3, 4)] == [1, 1, 1, 10]
    assert [daemon.listed()[i]["metadata"]["dns.tier"] for i in ids(1, 2, 3, 4)] == ["1", "1", "2", "2"]


def test_an_address_that_goes_to_another_target_is_another_incarnation(usherd, dns):
    offer(dns, 1)
    daemon = start(usherd, dns)
    daemon.wait_listed(ids(1))
    before = daemon.listed()["10.0.0.1:8080"]["uid"]
    dns.a("new.test", "10.0.0.1")
    dns.srv(WEB, (10, 1, 8080, "new.test"))
    wait_until("the uid is another", lambda: daemon.listed()["10.0.0.1:8080"]["uid"] != before)


def test_an_outage_ten_times_as_long_as_the_ttl_serves_on_and_tells_its_age(usherd, dns):
    offer(dns, 1, 2)
    daemon = start(usherd, dns, freshness={"max_age": "1s", "on_stale": "serve"})
    daemon.wait_listed(ids(1, 2))
    dns.stop()
    answer = wait_until("it is stale", lambda: next(
        (a for a in [daemon.get("/v1/services/catalog/endpoints")] if a["freshness"]["state"] != "live"
         and a["freshness"]["age_ms"] > 2000), None))
    assert len(answer["endpoints"]) == 2
    assert daemon.pick().status == 200
    dns.start()
    wait_live(daemon)
    wait_until("it is fresh", lambda: daemon.get("/v1/services/catalog/endpoints")["freshness"]["state"] == "live")


def test_a_drain_says_that_dns_cannot_be_told(usherd, dns):
    offer(dns, 1, 2)
    daemon = start(usherd, dns, drain={"propagation": {"registry": "0s", "consumer_refresh": "0s", "consumer_cache": "0s", "margin": "0s"},
                                       "in_flight": {"timeout": "1s", "quiet": "100ms"}})
    daemon.wait_listed(ids(1, 2))
    record = daemon.wait_finished(daemon.drain("10.0.0.1:8080")["id"])
    assert daemon.picked() == {"10.0.0.2:8080"}
    assert "cannot" in str(record), record


def test_no_more_questions_are_under_way_than_allowed(usherd, dns):
    names = [f"s{n}" for n in range(40)]
    for n in names:
        dns.a(f"{n}.test", "10.0.0.1")
    daemon = start(usherd, dns, source={"queries": 4, "addresses": "ipv4"}, config={
        "services": {n: {"sources": [{"source": "dns", "name": f"{n}.test", "port": 80}]} for n in names}})
    for n in names:
        daemon.wait_listed(["10.0.0.1:80"], service=n)
    assert not dns.asked("s0.test", AAAA)
