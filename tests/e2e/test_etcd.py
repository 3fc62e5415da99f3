"""The real usherd against a member of etcd that is played, in good order and in bad."""

import json
import time

import pytest
from scripted_etcd import Etcd, documents
from scripted_registry import Cut, Fault, Flood, Raw, Redirect, Reply, Reset, Silence, Slow
from usher import wait_until


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def both(request):
    with Etcd(dialect=request.param) as registry:
        yield registry


@pytest.fixture
def etcd():
    with Etcd() as registry:
        yield registry


def start(usherd, *members, services=("catalog",), guard=None, max_age="60s", drain=None, **options):
    policy = {"freshness": {"max_age": max_age, "on_stale": "serve"}}
    if guard:
        policy["removal_guard"] = guard
    if drain:
        policy["drain"] = drain
    return usherd({
        "sources": [{"name": "etcd", "plugin": "etcd",
                     "options": {"servers": [m.url for m in members], "probe": "500ms", **options}}],
        "defaults": {"sources": ["etcd"]},
        "services": {name: policy for name in services},
    }).start()


def feed(daemon, service="catalog"):
    return daemon.get(f"/v1/services/{service}")["feeds"][0]


def wait_failed(daemon, text, service="catalog"):
    return wait_until(f"it fails with {text}", lambda: text in (feed(daemon, service)["error"] or ""))


def wait_live(daemon):
    return wait_until("it is live", lambda: feed(daemon)["state"] == "live" and not feed(daemon)["error"])


def is_watch(request):
    return request.path == "/v3/watch"


def is_range(request):
    return request.path == "/v3/kv/range"


def is_pulse(request):
    return is_range(request) and "range_end" not in request.json


def is_probe(request):
    return request.path == "/v3/kv/txn"


def test_instances_appear_change_and_disappear(usherd, both):
    both.instance("catalog", "a")
    both.instance("catalog", "b", 8081)
    daemon = start(usherd, both)
    daemon.wait_listed(["a", "b"])
    both.instance("catalog", "c", 8082)
    daemon.wait_listed(["a", "b", "c"])
    both.gone("catalog", "a")
    daemon.wait_listed(["b", "c"])


def test_a_service_of_many_pages_is_read_whole(usherd, etcd):
    ids = [f"i{n:04}" for n in range(1201)]
    for n, name in enumerate(ids):
        etcd.instance("catalog", name, 1000 + n)
    daemon = start(usherd, etcd)
    daemon.wait_listed(ids)
    pages = etcd.asked(is_range)
    assert len(pages) == 3
    assert len({p.json["revision"] for p in pages[1:]}) == 1


# apache/curator PR#261
@pytest.mark.parametrize("before", ["the next page", "the watch"])
def test_what_changes_while_it_is_read_is_not_missed(usherd, etcd, before):
    ids = [f"i{n:04}" for n in range(600)]
    for n, name in enumerate(ids):
        etcd.instance("catalog", name, 1000 + n)

    def meanwhile(request):
        etcd.instance("catalog", "a", 900)
        etcd.gone("catalog", "i0599")
        return etcd.say(request)

    etcd.faults.append(Fault(meanwhile, when=is_watch if before == "the watch" else lambda r: "revision" in r.json))
    daemon = start(usherd, etcd, probe="60s")  # no proof finds it
    daemon.wait_listed(ids[:-1] + ["a"])
    assert not etcd.faults


def test_a_watch_asks_to_be_ended_where_there_is_no_leader(usherd, etcd):
    etcd.instance("catalog", "a")
    start(usherd, etcd).wait_listed(["a"])
    assert etcd.wait_asked(is_watch)[0].headers["grpc-metadata-hasleader"] == "true"


MISBEHAVIOURS = {
    "no leader": lambda request: Reply({"code": 14, "message": "etcdserver: no leader"}, 503),
    "500": lambda request: Reply({"code": 2, "message": "context deadline exceeded"}, 500),
    "reset": lambda request: Reset(),
    "closed": lambda request: Raw(),
    "half a head": lambda request: Raw(b"HTTP/1.1 200"),
    "cut": lambda request: Cut(Reply('{"header":{"cluster_id":"1","revision":"99"}}'), 20),
    "no http": lambda request: Raw(b"\x00\x01\x02\r\n\r\n"),
    "no json": lambda request: Reply("<html>Please log in</html>"),
    "another document": lambda request: Reply("{}"),
    "pairs without a header": lambda request: Reply({"kvs": []}),
    "nothing at all": lambda request: Reply(""),
    "redirected": lambda request: Redirect("http://127.0.0.1:1/"),
    "endless head": lambda request: Flood(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1000),
    "silence": lambda request: Silence(),
    "silence after the head": lambda request: Silence(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"),
    "denied": lambda request: Reply({"code": 7, "message": "etcdserver: permission denied"}, 403),
}


@pytest.mark.parametrize("name", MISBEHAVIOURS)
def test_nothing_that_a_member_says_in_error_empties_a_service(usherd, etcd, name):
    etcd.instance("catalog", "a")
    etcd.instance("catalog", "b")
    daemon = start(usherd, etcd)
    daemon.wait_listed(["a", "b"])
    fault = Fault(MISBEHAVIOURS[name], times=None)
    etcd.faults.append(fault)
    etcd.end_streams()
    wait_until("it fails", lambda: feed(daemon)["state"] in ("failed", "denied"))
    assert set(daemon.listed()) == {"a", "b"}
    etcd.faults.remove(fault)
    etcd.instance("catalog", "c")
    daemon.wait_listed(["a", "b", "c"])
    wait_live(daemon)


@pytest.mark.parametrize("name", MISBEHAVIOURS)
def test_a_member_in_error_at_the_start_is_waited_for(usherd, etcd, name):
    etcd.instance("catalog", "a")
    fault = Fault(MISBEHAVIOURS[name], times=None)
    etcd.faults.append(fault)
    daemon = usherd({
        "sources": [{"name": "etcd", "plugin": "etcd", "options": {"servers": [etcd.url], "probe": "500ms"}}],
        "services": {"catalog": {"sources": ["etcd"]}},
    }).start(wait=False)
    etcd.wait_asked(count=3)
    etcd.faults.remove(fault)
    daemon.wait_listed(["a"])


def test_answers_that_trickle_in_are_taken(usherd, etcd):
    etcd.instance("catalog", "a")
    etcd.faults.append(Fault(lambda request: Slow(Reply(etcd.say(request)), 16, 0.005), when=is_range))
    start(usherd, etcd).wait_listed(["a"])


def test_streams_that_end_all_the_time_cost_no_reading_and_no_gap(usherd, etcd):
    etcd.instance("catalog", "a")
    daemon = start(usherd, etcd)
    daemon.wait_listed(["a"])
    ids = {"a"}
    for n in range(8):
        etcd.end_streams()
        etcd.instance("catalog", f"n{n}", 9000 + n)
        ids.add(f"n{n}")
        daemon.wait_listed(ids)
    assert feed(daemon)["state"] == "live"
    assert "Cannot read" not in daemon.log_text()


@pytest.mark.parametrize("last", [
    '{"error":{"grpc_code":14,"http_code":503,"message":"transport is closing","http_status":"Service Unavailable"}}',
    '{"error":{"code":1,"message":"grpc: the client connection is closing"}}\n',
    '{"result":{"header":{"cluster_id":"1","revision":"5"},"watch_id":"-1","created":true,"canceled":true}}\n',
    "<html>", "[]", '{"result":',
])
def test_whatever_a_stream_ends_with_the_watch_goes_on(usherd, etcd, last):
    etcd.instance("catalog", "a")
    daemon = start(usherd, etcd)
    daemon.wait_listed(["a"])
    etcd.wait_asked(is_watch)
    etcd.end_streams(last)
    etcd.wait_asked(is_watch, count=2)
    etcd.instance("catalog", "b")
    daemon.wait_listed(["a", "b"])


# etcd-io/etcd#8668, cilium/cilium#3011
def test_what_was_written_in_a_compacted_gap_is_read(usherd, etcd):
    etcd.instance("catalog", "a")
    daemon = start(usherd, etcd)
    daemon.wait_listed(["a"])
    etcd.wait_asked(is_watch)
    # Neither proof nor watch gets through while the gap comes to be.
    gap = Fault(lambda request: Reply({"code": 14, "message": "etcdserver: no leader"}, 503), times=None)
    etcd.faults.append(gap)
    etcd.end_streams()
    etcd.instance("catalog", "b")
    etcd.put("/other", "x")
    etcd.compact()
    etcd.faults.remove(gap)
    daemon.wait_listed(["a", "b"])


# k3s-io/k3s#5482
def test_a_watch_that_is_cancelled_for_ever_is_not_spun_on(usherd, etcd):
    etcd.instance("catalog", "a")

    def cancel(request):
        watches = [d["create_request"]["watch_id"] for d in documents(request.body.decode())]
        return Reply("".join(json.dumps({"result": etcd.header(watch_id=w, **more)}) + "\n" for w in watches
                             for more in ({"created": True}, {"canceled": True, "compact_revision": "5"})))

    etcd.faults.append(Fault(cancel, times=None, when=is_watch))
    daemon = start(usherd, etcd)
    daemon.wait_listed(["a"])
    etcd.instance("catalog", "b")
    daemon.wait_listed(["a", "b"])  # by proof alone
    time.sleep(5)
    # 0.2 s doubling: half of 0.2 + 0.4 + 0.8 + 1.6 + 3.2 s for five of them, on the average
    assert len(etcd.asked(is_watch)) < 25


def test_a_stream_that_says_nothing_is_found_out(usherd, etcd):
    etcd.instance("catalog", "a")
    etcd.faults.append(Fault(lambda request: Silence(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
                             times=None, when=is_watch))
    daemon = start(usherd, etcd)
    daemon.wait_listed(["a"])
    etcd.instance("catalog", "b")
    daemon.wait_listed(["a", "b"])
    etcd.gone("catalog", "a")
    daemon.wait_listed(["b"])


def test_a_wiped_member_is_another_history_and_empties_nothing(usherd, etcd):
    for name in "abc":
        etcd.instance("catalog", name)
    daemon = start(usherd, etcd, guard={"share": "50%", "hold": "30s"})
    daemon.wait_listed(["a", "b", "c"])
    etcd.stop()
    etcd.wipe()
    etcd.start()
    wait_until("it is told", lambda: "another history" in daemon.log_text())
    assert set(daemon.listed()) == {"a", "b", "c"}
    for name in "abcd":
        etcd.instance("catalog", name)
    daemon.wait_listed(["a", "b", "c", "d"])
    wait_live(daemon)


def test_a_member_of_another_cluster_is_another_history(usherd, etcd):
    with Etcd(cluster="8814478109098187450") as other:
        for name in "abc":
            etcd.instance("catalog", name)
        for _ in range(20):
            other.put("/other", "x")
        daemon = start(usherd, etcd, other, guard={"share": "50%", "hold": "30s"})
        wait_until("it is asked", lambda: etcd.asked() or other.asked())
        if other.asked():  # where it begins is drawn
            other.stop()
            daemon.wait_listed(["a", "b", "c"])
            other.start()
        daemon.wait_listed(["a", "b", "c"])
        etcd.stop()
        wait_until("it is told", lambda: "another history" in daemon.log_text())
        assert set(daemon.listed()) == {"a", "b", "c"}


def test_the_next_member_takes_over(usherd, etcd):
    with Etcd() as second:
        for member in (etcd, second):
            member.instance("catalog", "a")
        daemon = start(usherd, etcd, second)
        daemon.wait_listed(["a"])
        first = etcd if etcd.asked(is_watch) else second
        other = second if first is etcd else etcd
        other.instance("catalog", "b")
        first.freeze()
        daemon.wait_listed(["a", "b"])
        first.thaw()
        wait_live(daemon)
        assert "Cannot read" not in daemon.log_text()


# ---- who may ----

def test_the_token_is_sent_bare_and_asked_for_again(usherd, both):
    both.users = {"usher": "secret"}
    both.instance("catalog", "a")
    daemon = start(usherd, both, user="usher", password="secret")
    daemon.wait_listed(["a"])
    assert both.wait_asked(is_range)[-1].headers["authorization"] == "token.1"
    both.tokens.clear()
    both.end_streams()
    both.instance("catalog", "b")
    daemon.wait_listed(["a", "b"])
    assert "secret" not in daemon.log_text()
    assert "token." not in daemon.log_text()


def test_a_member_that_stands_still_keeps_nobody_from_logging_in_elsewhere(usherd, etcd):
    with Etcd() as second:
        for member in (etcd, second):
            member.users = {"usher": "secret"}
            member.instance("catalog", "a")
        for frozen in (etcd, second):  # where it begins is drawn
            frozen.freeze()
            daemon = start(usherd, etcd, second, user="usher", password="secret")
            daemon.wait_listed(["a"])
            wait_live(daemon)
            daemon.stop()
            frozen.thaw()


def test_a_wrong_password_is_said_and_not_hammered(usherd, etcd, tmp_path):
    etcd.users = {"usher": "secret"}
    etcd.instance("catalog", "a")
    password = tmp_path / "password"
    password.write_text("wrong\n")
    daemon = usherd({
        "sources": [{"name": "etcd", "plugin": "etcd",
                     "options": {"servers": [etcd.url], "user": "usher", "password_file": str(password)}}],
        "services": {"catalog": {"sources": ["etcd"]}},
    }).start(wait=False)
    wait_until("it is denied", lambda: daemon.answers() and feed(daemon)["state"] == "denied")
    time.sleep(2)
    assert len(etcd.asked(lambda r: r.path == "/v3/auth/authenticate")) < 15
    password.write_text("secret\n")
    daemon.wait_listed(["a"])


def test_a_service_that_may_not_be_read_does_not_disturb_the_others(usherd, etcd):
    etcd.readable = ["/services/catalog/"]
    etcd.instance("catalog", "a")
    etcd.instance("search", "s")
    daemon = usherd({
        "sources": [{"name": "etcd", "plugin": "etcd", "options": {"servers": [etcd.url], "probe": "500ms"}}],
        "defaults": {"sources": ["etcd"]},
        "services": {"catalog": {}, "search": {}},
    }).start(wait=False)
    wait_until("it listens", daemon.answers)
    daemon.wait_listed(["a"])
    wait_until("search is denied", lambda: feed(daemon, "search")["state"] == "denied")
    wait_live(daemon)
    etcd.readable = [""]
    daemon.wait_listed(["s"], "search")
    # Taken away again: neither is emptied.
    etcd.readable = ["/services/search/"]
    wait_until("catalog is denied", lambda: feed(daemon)["state"] == "denied")
    assert set(daemon.listed()) == {"a"}


# ---- drains ----

QUICK = {"propagation": {"registry": "1s", "consumer_refresh": "0s", "consumer_cache": "0s", "margin": "0s"},
         "in_flight": {"quiet": "0s", "from": ["consumers"]}}


def test_a_drained_instance_is_put_back_under_its_own_lease(usherd, etcd, open_port):
    etcd.leases[77] = 600
    etcd.put("/services/catalog/a", {"address": "127.0.0.1", "port": open_port, "owner": "shop"}, 77)
    etcd.instance("catalog", "b", 8081)
    daemon = start(usherd, etcd, drain=QUICK)
    daemon.wait_listed(["a", "b"])
    assert daemon.wait_finished(daemon.drain("a")["id"])["state"] == "done"
    assert etcd.value("catalog", "a") is None
    assert daemon.wait_finished(daemon.restore("a")["id"])["state"] == "done"
    assert etcd.value("catalog", "a") == {"address": "127.0.0.1", "port": open_port, "owner": "shop"}
    assert etcd.keys["/services/catalog/a"]["lease"] == "77"


def test_an_instance_whose_lease_has_run_out_meanwhile_gets_one_of_ushers(usherd, etcd, open_port):
    etcd.leases[77] = 600
    etcd.put("/services/catalog/a", {"address": "127.0.0.1", "port": open_port}, 77)
    etcd.instance("catalog", "b", 8081)
    daemon = start(usherd, etcd, drain=QUICK)
    daemon.wait_listed(["a", "b"])
    assert daemon.wait_finished(daemon.drain("a")["id"])["state"] == "done"
    etcd.expire(77)
    assert daemon.wait_finished(daemon.restore("a")["id"])["state"] == "done"
    assert int(etcd.keys["/services/catalog/a"]["lease"]) in etcd.leases


def test_a_refusing_drain_sets_the_state_under_the_lease(usherd, etcd):
    etcd.leases[77] = 600
    etcd.put("/services/catalog/a", {"address": "127.0.0.1", "port": 8080}, 77)
    etcd.instance("catalog", "b", 8081)
    daemon = start(usherd, etcd, drain={**QUICK, "order": "refuse_first"})
    daemon.wait_listed(["a", "b"])
    states = []
    with daemon.watch() as stream:
        stream.next()
        drain = daemon.drain("a")["id"]
        line = stream.until(lambda x: x["type"] == "update")
        states += [e["admin_state"] for e in line.get("changed", [])]
    daemon.wait_finished(drain)
    assert states == ["draining"]
    puts = [r.json for r in etcd.asked(is_probe) if "request_put" in r.json["success"][0]]
    assert puts and puts[0]["success"][0]["request_put"]["ignore_lease"] is True


# ---- many ----

def test_a_thousand_services_share_a_stream_and_few_questions(usherd, etcd):
    names = [f"s{n}" for n in range(1000)]
    for name in names:
        etcd.instance(name, "a")
    daemon = start(usherd, etcd, services=names, probe="2s")
    for name in names[::111]:
        daemon.wait_listed(["a"], name)
    etcd.wait_asked(is_watch)
    # While nothing is written, one question proves all of them.
    etcd.wait_asked(is_pulse, count=3)
    assert not etcd.asked(is_probe)
    assert etcd.most_open <= 64
    etcd.instance("s500", "b")
    daemon.wait_listed(["a", "b"], "s500")
    # What was written may concern each of them, as far as anybody can tell.
    etcd.wait_asked(is_probe, count=16)
    assert len(etcd.asked(is_watch)) <= 10


def test_what_others_write_leaves_a_service_proven(usherd, etcd):
    etcd.instance("catalog", "a")
    daemon = start(usherd, etcd)
    daemon.wait_listed(["a"])
    ranges = len(etcd.asked(lambda r: is_range(r) and not is_pulse(r)))
    for n in range(4):
        etcd.put(f"/others/{n}", "x")
        etcd.wait_asked(is_probe, count=n + 1)
    wait_live(daemon)
    # It was asked about, and not read again.
    assert len(etcd.asked(lambda r: is_range(r) and not is_pulse(r))) == ranges
