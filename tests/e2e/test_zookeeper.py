"""The real usherd against a server of ZooKeeper that is played, in good order and in bad."""

import socket
import statistics

import jute
import pytest
from scripted_zookeeper import (Fault, ZooKeeper, curator, cut, digest_of, error, flood, port_of, raw, raw_and_silence,
                                reset, silence)
from usher import wait_until


@pytest.fixture
def zookeeper():
    with ZooKeeper() as server:
        yield server


@pytest.fixture
def live_port():
    """Where somebody listens, as a restore wants to see."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def start(usherd, *servers, services=("catalog",), guard=None, max_age="60s", drain=None, wait=True, **options):
    policy = {"freshness": {"max_age": max_age, "on_stale": "serve"}}
    if guard:
        policy["removal_guard"] = guard
    if drain:
        policy["drain"] = drain
    return usherd({
        "sources": [{"name": "zookeeper", "plugin": "zookeeper",
                     "options": {"servers": [s.address for s in servers], "probe": "500ms", **options}}],
        "defaults": {"sources": ["zookeeper"]},
        "services": {name: policy for name in services},
    }).start(wait=wait)


def feed(daemon, service="catalog"):
    try:
        return daemon.get(f"/v1/services/{service}")["feeds"][0]
    except (FileNotFoundError, ConnectionError):  # it is about to listen
        return {"state": None, "error": None, "held": None}


def wait_failed(daemon, text, service="catalog"):
    return wait_until(f"it fails with {text}", lambda: text in (feed(daemon, service)["error"] or ""))


def wait_live(daemon, service="catalog"):
    return wait_until("it is live",
                      lambda: feed(daemon, service)["state"] == "live" and not feed(daemon, service)["error"])


def test_instances_appear_change_and_disappear(usherd, zookeeper):
    zookeeper.instance("catalog", "a", metadata={"zone": "east", "weight": "3", "tier": "gold"})
    daemon = start(usherd, zookeeper)
    daemon.wait_listed(["a"])
    a = daemon.listed()["a"]
    assert (a["address"], a["port"], a["zone"], a["weight"]) == ("127.0.0.1", port_of("a"), "east", 3)
    assert a["metadata"]["tier"] == "gold" and "instance_status" not in a["metadata"]
    zookeeper.instance("catalog", "b", 8081)
    daemon.wait_listed(["a", "b"])
    zookeeper.instance("catalog", "a", 9090)
    wait_until("the port is 9090", lambda: daemon.listed()["a"]["port"] == 9090)
    zookeeper.gone("catalog", "b")
    daemon.wait_listed(["a"])


def test_a_service_whose_node_comes_later_is_empty_first(usherd, zookeeper):
    zookeeper.instance("other", "x")
    daemon = start(usherd, zookeeper)
    assert daemon.listed() == {}
    wait_live(daemon)
    assert daemon.get("/v1/services/catalog/endpoints")["code"] == "empty"
    zookeeper.instance("catalog", "a")
    daemon.wait_listed(["a"])


def test_a_missing_base_is_said_and_no_emptiness(usherd, zookeeper):
    daemon = start(usherd, zookeeper, wait=False)
    wait_until("it says so", lambda: "has no node /services" in daemon.log_text())
    assert daemon.call("GET", "/v1/services/catalog/endpoints").json.get("code") != "empty"
    zookeeper.instance("catalog", "a")
    daemon.wait_listed(["a"])


def test_what_was_below_a_base_that_goes_is_held(usherd, zookeeper):
    zookeeper.instance("catalog", "a")
    zookeeper.instance("catalog", "b")
    daemon = start(usherd, zookeeper, guard={"share": "90%", "hold": "5m"})
    daemon.wait_listed(["a", "b"])
    zookeeper.delete("/services")
    wait_until("it is held", lambda: feed(daemon)["held"])
    assert set(daemon.listed()) == {"a", "b"}
    zookeeper.instance("catalog", "a")
    zookeeper.instance("catalog", "b")
    wait_until("nothing is held", lambda: not feed(daemon)["held"])


# apache/curator#684
def test_a_parent_that_is_deleted_and_made_again_is_followed(usherd, zookeeper):
    zookeeper.instance("other", "x")
    zookeeper.instance("catalog", "a")
    daemon = start(usherd, zookeeper, guard={"share": "100%", "hold": "1s"})
    daemon.wait_listed(["a"])
    for n in range(5):
        zookeeper.delete("/services/catalog")
        zookeeper.instance("catalog", f"n{n}")
        daemon.wait_listed([f"n{n}"])


# hashicorp/consul-template#233
def test_a_node_that_goes_and_comes_at_once_is_read_again(usherd, zookeeper):
    zookeeper.instance("catalog", "a", 8000)
    daemon = start(usherd, zookeeper)
    daemon.wait_listed(["a"])
    for n in range(20):
        with zookeeper.lock:
            zookeeper.gone("catalog", "a")
            zookeeper.instance("catalog", "a", 8001 + n)
    wait_until("the last port is listed", lambda: daemon.listed().get("a", {}).get("port") == 8020)


# prometheus/prometheus#2262
def test_another_instance_at_an_id_is_another_incarnation(usherd, zookeeper):
    zookeeper.instance("catalog", "a")
    daemon = start(usherd, zookeeper)
    daemon.wait_listed(["a"])
    assert daemon.listed()["a"]["uid"] == "1700000000000"
    zookeeper.put("/services/catalog/a", {**curator("catalog", "a", port_of("a")), "registrationTimeUTC": 1800000000000})
    wait_until("it is another", lambda: daemon.listed()["a"]["uid"] == "1800000000000")


def test_two_services_may_have_one_node_and_other_ports(usherd, zookeeper):
    zookeeper.put("/services/web/a", {**curator("web", "a"), "sslPort": 8443})
    daemon = usherd({
        "sources": [{"name": "zookeeper", "plugin": "zookeeper", "options": {"servers": [zookeeper.address]}}],
        "services": {"plain": {"sources": [{"source": "zookeeper", "name": "web", "port": "http"}]},
                     "secure": {"sources": [{"source": "zookeeper", "name": "web"}]}},
    }).start()
    daemon.wait_listed(["a"], "plain")
    daemon.wait_listed(["a"], "secure")
    plain, secure = daemon.listed("plain")["a"], daemon.listed("secure")["a"]
    assert (plain["port"], plain["secure"]) == (8080, False)
    assert (secure["port"], secure["secure"]) == (8443, True)


def test_one_that_cannot_be_read_keeps_what_it_said_before(usherd, zookeeper):
    zookeeper.instance("catalog", "a")
    zookeeper.instance("catalog", "b")
    daemon = start(usherd, zookeeper)
    daemon.wait_listed(["a", "b"])
    zookeeper.put("/services/catalog/a", "{")
    zookeeper.put("/services/catalog/c", "not for us")
    zookeeper.instance("catalog", "d")
    daemon.wait_listed(["a", "b", "d"])
    daemon.wait_said("keeping what it said before")
    daemon.wait_said("leaving it out")


# linkerd/linkerd2#6842
def test_what_comes_and_goes_in_a_crowd_is_exact_in_the_end(usherd, zookeeper):
    for n in range(200):
        zookeeper.instance("catalog", f"i{n}", 1000 + n)
    daemon = start(usherd, zookeeper, guard={"share": "100%", "hold": "1s"})
    daemon.wait_listed([f"i{n}" for n in range(200)])
    for n in range(0, 200, 2):
        zookeeper.gone("catalog", f"i{n}")
        zookeeper.instance("catalog", f"j{n}", 3000 + n)
    daemon.wait_listed([f"i{n}" for n in range(1, 200, 2)] + [f"j{n}" for n in range(0, 200, 2)])


# ---- what a server says in error ----

def reply(xid, code=0, body=b"", zxid=1):
    writer = jute.Writer().int(xid).long(zxid).int(code)
    writer.data += body
    return writer.frame()


def is_question(request):
    return request is not None and request.op != jute.PING


def is_greeting(request):
    return request is None


def is_list(request):
    return request is not None and request.op == jute.GET_CHILDREN2


def is_get(request):
    return request is not None and request.op == jute.GET_DATA


GARBLED = jute.Writer().int(1000000).text("a").data

IN_QUESTIONS = {
    "silence": (silence, is_question),
    "cut": (cut, is_question),
    "reset": (reset, is_question),
    "half a frame": (raw(b"\0\0\1\0half"), is_question),
    "half a frame and silence": (raw_and_silence(b"\0\0\1\0half"), is_question),
    "a length that is none": (raw(b"\xff\xff\xff\xff"), is_question),
    "two gigabytes": (raw_and_silence(b"\x7f\xff\xff\xff"), is_question),
    "a flood": (flood(), is_question),
    "a frame without a header": (raw(b"\0\0\0\4abcd"), is_question),
    "an answer nobody asked for": (raw(reply(77777)), is_question),
    "a watch without a path": (raw(jute.Writer().int(-1).long(-1).int(0).int(4).int(3).frame()), is_question),
    "http": (raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"), is_question),
    "garbled lists": (lambda c, r: c.reply(r.xid, 0, GARBLED), is_list),
    "lists that are cut": (lambda c, r: c.reply(r.xid, 0, jute.Writer().texts(["a"]).data), is_list),
    "garbled data": (lambda c, r: c.reply(r.xid, 0, b"\0\0\0\1x"), is_get),
    "expired": (error(jute.SESSION_EXPIRED), is_question),
    "throttled": (error(-127), is_question),
    "an error that nobody knows": (error(-77), is_question),
}


@pytest.mark.parametrize("name", IN_QUESTIONS)
def test_nothing_that_a_server_says_in_error_empties_a_service(usherd, zookeeper, name):
    zookeeper.instance("catalog", "a")
    zookeeper.instance("catalog", "b")
    daemon = start(usherd, zookeeper, session_timeout="2s", connect_timeout="1s")
    daemon.wait_listed(["a", "b"])
    answer, when = IN_QUESTIONS[name]
    fault = Fault(answer, None, when)
    zookeeper.faults.append(fault)
    zookeeper.expire()
    wait_until("it fails", lambda: feed(daemon)["error"])
    assert set(daemon.listed()) == {"a", "b"}
    zookeeper.faults.remove(fault)
    zookeeper.instance("catalog", "c")
    daemon.wait_listed(["a", "b", "c"])
    wait_live(daemon)
    assert feed(daemon)["held"] is None


IN_GREETINGS = {
    "silence": silence,
    "cut": cut,
    "reset": reset,
    "http": raw(b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\n\r\n<html>No</html>"),
    "no session": raw(jute.Writer().int(0).int(0).long(0).bytes(b"\0" * 16).bool(False).frame()),
    "a short password": raw(jute.Writer().int(0).int(4000).long(7).bytes(b"\0").bool(False).frame()),
    "read-only": raw(reply(0, -119)),
    "two gigabytes": raw_and_silence(b"\x7f\xff\xff\xff"),
    "nothing": raw(b""),
}


@pytest.mark.parametrize("name", IN_GREETINGS)
def test_a_server_in_error_at_the_start_is_waited_for(usherd, zookeeper, name):
    zookeeper.instance("catalog", "a")
    fault = Fault(IN_GREETINGS[name], None, is_greeting)
    zookeeper.faults.append(fault)
    daemon = start(usherd, zookeeper, wait=False, connect_timeout="500ms")
    wait_until("it is asked again and again", lambda: len(zookeeper.greetings) > 3)
    assert daemon.call("GET", "/v1/services/catalog/endpoints").json.get("code") != "empty"
    zookeeper.faults.remove(fault)
    daemon.wait_listed(["a"])


# kubernetes/kubernetes#16666
def test_connections_that_end_all_the_time_leave_no_gap_and_read_nothing_again(usherd, zookeeper):
    ids = {"a"}
    zookeeper.instance("catalog", "a")
    daemon = start(usherd, zookeeper)
    daemon.wait_listed(ids)
    for n in range(4):
        before = len(zookeeper.greetings)
        zookeeper.cut()
        zookeeper.instance("catalog", f"n{n}", 9000 + n)
        ids.add(f"n{n}")
        daemon.wait_listed(ids)
        wait_until("it is back", lambda: len(zookeeper.greetings) > before)
    assert len({g["session"] for g in zookeeper.greetings[1:]}) == 1
    assert len(zookeeper.asked(jute.GET_DATA, "/services/catalog/a")) == 1


def test_a_server_may_be_given_by_its_name(usherd, zookeeper):
    zookeeper.instance("catalog", "a")
    daemon = start(usherd, zookeeper, servers=[f"localhost:{zookeeper.address.rpartition(':')[2]}"])
    daemon.wait_listed(["a"])


def test_a_session_that_expired_reads_everything_again(usherd, zookeeper):
    zookeeper.instance("catalog", "a")
    daemon = start(usherd, zookeeper, guard={"share": "100%", "hold": "1s"})
    daemon.wait_listed(["a"])
    with zookeeper.lock:
        zookeeper.expire()
        zookeeper.gone("catalog", "a")
        zookeeper.instance("catalog", "b")
    daemon.wait_listed(["b"])
    assert "another history" not in daemon.log_text()


# k3s-io/k3s#5482
def test_what_always_fails_is_tried_less_and_less_often(usherd, zookeeper):
    """Of many, the one in the middle waits longer for its seventh try than it did for its second."""
    zookeeper.faults.append(Fault(cut, None, is_question))
    names = [f"z{i}" for i in range(21)]
    timeouts = {name: 4000 + i for i, name in enumerate(names)}  # as the server tells them apart
    usherd({
        "sources": [{"name": name, "plugin": "zookeeper",
                     "options": {"servers": [zookeeper.address], "session_timeout": f"{timeouts[name]}ms"}} for name in names],
        "defaults": {"sources": names[:1]},
        "services": {name: {"sources": [name]} for name in names},
    }).start(wait=False)

    def tries():
        greetings = list(zookeeper.greetings)
        return [[g["at"] for g in greetings if g["timeout"] == timeout] for timeout in timeouts.values()]

    wait_until("each has failed seven times", lambda: all(len(times) >= 7 for times in tries()), deadline=180, every=0.2)
    early, late = (statistics.median(times[n] - times[n - 1] for times in tries()) for n in (1, 6))
    # What the machine adds it adds to both. Without a longer wait they differ by that alone.
    assert late - early > 0.5, (early, late)


# ---- another history ----

def wiped(zookeeper, *survivors):
    """It has lost all it had, and whoever lives has registered again."""
    zookeeper.stop()
    zookeeper.forget()
    for name in survivors:
        zookeeper.instance("catalog", name)
    zookeeper.start()


def test_a_wiped_server_that_refuses_is_joined_again_and_empties_nothing(usherd, zookeeper):
    for name in "abc":
        zookeeper.instance("catalog", name)
    for n in range(30):
        zookeeper.instance("other", f"x{n}")
    daemon = start(usherd, zookeeper, guard={"share": "90%", "hold": "5m"}, session_timeout="1s")
    daemon.wait_listed("abc")
    wiped(zookeeper, "a")
    wait_until("it is told", lambda: "another history" in daemon.log_text())
    wait_until("it is held", lambda: feed(daemon)["held"])
    assert set(daemon.listed()) == set("abc")
    for name in "bc":
        zookeeper.instance("catalog", name)
    wait_until("nothing is held", lambda: not feed(daemon)["held"])


def test_a_lower_zxid_is_another_history(usherd, zookeeper):
    for name in "abc":
        zookeeper.instance("catalog", name)
    daemon = start(usherd, zookeeper, guard={"share": "90%", "hold": "5m"})
    daemon.wait_listed("abc")
    with zookeeper.lock:
        zookeeper.zxid = 1
        zookeeper.gone("catalog", "c")
    wait_until("it is told", lambda: "another history" in daemon.log_text())
    wait_until("it is held", lambda: feed(daemon)["held"])
    assert set(daemon.listed()) == set("abc")


def test_another_ensemble_with_more_transactions_is_another_history(usherd, zookeeper):
    for name in "abc":
        zookeeper.instance("catalog", name)
    daemon = start(usherd, zookeeper, guard={"share": "90%", "hold": "5m"})
    daemon.wait_listed("abc")
    zookeeper.stop()
    zookeeper.forget()
    zookeeper.zxid = 1000
    zookeeper.instance("catalog", "a")
    zookeeper.start()
    wait_until("it is told", lambda: "another history" in daemon.log_text())
    wait_until("it is held", lambda: feed(daemon)["held"])
    assert set(daemon.listed()) == set("abc")


# ---- who may ----

def digest(secret):
    return [(jute.ALL, "digest", digest_of(secret))]


def test_a_folder_that_may_not_be_read_is_a_denial(usherd, zookeeper):
    zookeeper.instance("catalog", "a")
    zookeeper.instance("catalog", "b")
    daemon = start(usherd, zookeeper)
    daemon.wait_listed(["a", "b"])
    # Who may not read is told nothing, and the watch stays silent.
    with zookeeper.lock:
        zookeeper.protect("/services/catalog", digest("usher:secret"))
        for connection in zookeeper.connections:
            connection.watches["child"].discard("/services/catalog")
    wait_until("it is denied", lambda: feed(daemon)["state"] == "denied")
    assert "ACL" in feed(daemon)["error"]
    assert set(daemon.listed()) == {"a", "b"}
    zookeeper.protect("/services/catalog", jute.OPEN)
    zookeeper.instance("catalog", "c")
    daemon.wait_listed(["a", "b", "c"])


def test_nodes_that_may_not_be_read_are_no_emptiness(usherd, zookeeper):
    for name in "abc":
        zookeeper.instance("catalog", name)
    daemon = start(usherd, zookeeper, guard={"share": "90%", "hold": "5m"})
    daemon.wait_listed("abc")
    for name in "ab":
        zookeeper.protect(f"/services/catalog/{name}", digest("usher:secret"))
    zookeeper.expire()
    zookeeper.instance("catalog", "d")
    daemon.wait_listed("abcd")
    daemon.wait_said("its ACL denies reading it")
    for name in "cd":
        zookeeper.protect(f"/services/catalog/{name}", digest("usher:secret"))
    wait_until("it is denied", lambda: feed(daemon)["state"] == "denied")
    assert set(daemon.listed()) == set("abcd")
    for name in "abcd":
        zookeeper.protect(f"/services/catalog/{name}", jute.OPEN)
    wait_live(daemon)


def test_the_password_is_read_again_when_it_changes(usherd, zookeeper, tmp_path):
    zookeeper.instance("catalog", "a")
    zookeeper.protect("/services/catalog", digest("usher:new"))
    password = tmp_path / "password"
    daemon = start(usherd, zookeeper, wait=False, user="usher", password_file=str(password))
    wait_failed(daemon, "the password cannot be read")
    password.write_text("old\n")
    wait_failed(daemon, "denies")
    password.write_text("new\n")
    daemon.wait_listed(["a"])
    assert "old" not in daemon.log_text().replace("hold", "")


def test_a_server_that_takes_no_user_is_a_denial(usherd, zookeeper):
    zookeeper.instance("catalog", "a")

    def refuse(connection, request):
        connection.reply(jute.AUTH_XID, jute.AUTH_FAILED)
        cut(connection, request)

    zookeeper.faults.append(Fault(refuse, None, lambda r: r is not None and r.op == jute.AUTH))
    daemon = start(usherd, zookeeper, wait=False, user="usher", password="secret")
    wait_until("it is denied", lambda: "does not take user and password" in daemon.log_text())
    assert "secret" not in daemon.log_text()


# ---- several servers, read-only ----

def test_another_server_takes_over(usherd, zookeeper):
    zookeeper.instance("catalog", "a")
    with ZooKeeper() as other:
        # Both are of one ensemble.
        other.nodes, other.sessions, other.zxid = zookeeper.nodes, zookeeper.sessions, zookeeper.zxid
        daemon = start(usherd, zookeeper, other, connect_timeout="500ms", session_timeout="2s")
        daemon.wait_listed(["a"])
        servers = {True: zookeeper, False: other}
        for n in range(4):
            first = bool(zookeeper.connections)
            used, spare = servers[first], servers[not first]
            fault = Fault([silence, cut, reset, error(-127)][n], None)
            used.faults.append(fault)
            spare.zxid = used.zxid
            wait_until("the other is used", lambda: spare.connections)
            spare.instance("catalog", f"n{n}")
            wait_until("it is listed", lambda: f"n{n}" in daemon.listed())
            used.faults.remove(fault)
            used.cut()


def test_a_server_without_a_majority_proves_nothing(usherd, zookeeper):
    zookeeper.instance("catalog", "a")
    zookeeper.read_only = True
    daemon = start(usherd, zookeeper, wait=False, read_only=True, max_age="30s")
    wait_failed(daemon, "read-only")
    daemon.wait_listed(["a"])
    assert daemon.get("/v1/services/catalog/endpoints")["freshness"]["state"] != "live"
    zookeeper.read_only = False
    zookeeper.cut()
    wait_live(daemon)


# hashicorp/consul#9469
def test_many_that_lose_their_server_do_not_come_back_together(usherd, zookeeper):
    zookeeper.instance("catalog", "a")
    sources = [f"s{n}" for n in range(60)]
    daemon = usherd({
        "sources": [{"name": s, "plugin": "zookeeper", "options": {"servers": [zookeeper.address], "probe": "60s"}}
                    for s in sources],
        "defaults": {"sources": sources[:1]},
        "services": {"catalog": {}},
    }).start()
    wait_until("all are connected", lambda: len(zookeeper.connections) == 60)
    before = len(zookeeper.greetings)
    zookeeper.cut()
    wait_until("all are back", lambda: len(zookeeper.greetings) >= before + 60)
    times = sorted(g["at"] for g in zookeeper.greetings[before:before + 60])
    # The window is 0.2 s; a machine that is busy makes it longer, never shorter.
    assert times[-1] - times[0] > 0.8 * 0.2 * 0.9
    assert daemon.process.poll() is None


# ---- what is held on to ----

# hashicorp/consul-template#1086, hashicorp/consul#3018
def test_many_services_and_reloads_take_one_connection(usherd, zookeeper):
    names = [f"s{n}" for n in range(200)]
    for name in names:
        zookeeper.instance(name, "a")
    daemon = start(usherd, zookeeper, services=names)
    for name in names[::20]:
        daemon.wait_listed(["a"], name)
    for _ in range(5):
        daemon.reload()
    wait_live(daemon, names[0])
    assert len(zookeeper.connections) == 1


def test_answers_that_trickle_in_are_taken(usherd, zookeeper):
    zookeeper.instance("catalog", "a")

    def slowly(connection, request):
        send = connection.send
        connection.send = lambda data: [send(data[i:i + 7]) for i in range(0, len(data), 7)]
        connection.answer(request)
        connection.send = send

    zookeeper.faults.append(Fault(slowly, 20, is_question))
    daemon = start(usherd, zookeeper)
    daemon.wait_listed(["a"])


# ---- drains ----

DRAIN = {"propagation": {"registry": "30s", "consumer_refresh": "0s", "consumer_cache": "0s", "margin": "0s"}}


def status_of(zookeeper, name="a"):
    return zookeeper.value(f"/services/catalog/{name}")["payload"]["metadata"]["instance_status"]


@pytest.mark.parametrize("order", ["serve_stale", "refuse_first"])
def test_a_drain_is_said_in_the_node_and_taken_back(usherd, zookeeper, order, live_port):
    zookeeper.instance("catalog", "a", live_port, metadata={"custom": "kept"})
    zookeeper.nodes["/services/catalog/a"].owner = 77
    zookeeper.instance("catalog", "b", 8081)
    daemon = start(usherd, zookeeper, drain={**DRAIN, "order": order})
    daemon.wait_listed(["a", "b"])
    drain = daemon.drain("a")
    assert daemon.wait_finished(drain["id"])["state"] == "done"
    assert status_of(zookeeper) == "OUT_OF_SERVICE"
    assert daemon.picked() == {"b"}
    daemon.restore("a")
    wait_until("a is back", lambda: daemon.picked() == {"a", "b"})
    assert status_of(zookeeper) == "UP"
    # Its own session has it still, and nothing else of it was changed.
    assert zookeeper.nodes["/services/catalog/a"].owner == 77
    assert zookeeper.value("/services/catalog/a")["payload"]["metadata"] == {"instance_status": "UP", "custom": "kept"}


def test_a_layout_without_a_place_for_a_state_says_so(usherd, zookeeper):
    for name in "ab":
        zookeeper.put(f"/services/catalog/{name}", {"host": "127.0.0.1", "port": 8080, "name": name})
    daemon = start(usherd, zookeeper, drain=DRAIN)
    daemon.wait_listed(["a", "b"])
    drain = daemon.drain("a")
    record = daemon.wait_finished(drain["id"])
    assert "no room for a state" in str(record)
    assert daemon.picked() == {"b"}


def test_a_drain_waits_for_a_server_that_is_away(usherd, zookeeper, live_port):
    zookeeper.instance("catalog", "a", live_port)
    zookeeper.instance("catalog", "b", 8081)
    daemon = start(usherd, zookeeper, drain=DRAIN, max_age="5m")
    daemon.wait_listed(["a", "b"])
    fault = Fault(cut, None, lambda r: r is not None and r.op == jute.SET_DATA)
    zookeeper.faults.append(fault)
    drain = daemon.drain("a")
    wait_until("it was tried", lambda: zookeeper.asked(jute.SET_DATA))
    zookeeper.faults.remove(fault)
    assert daemon.wait_finished(drain["id"])["state"] == "done"
    assert status_of(zookeeper) == "OUT_OF_SERVICE"


# ---- registrations ----

PATH = "/services/catalog/mine"


def with_registration(zookeeper, options=None, **more):
    item = {"service": "catalog", "id": "mine", "address": "127.0.0.1", "port": 8080, "health": "none",
            "metadata": {"tier": "gold"}, **more}
    return {
        "sources": [{"name": "zookeeper", "plugin": "zookeeper",
                     "options": {"servers": [zookeeper.address], "probe": "500ms", "ttl": "3s", **(options or {})}}],
        "defaults": {"sources": ["zookeeper"], "removal_guard": {"share": "100%", "hold": "1s"}},
        "services": {"catalog": {"drain": DRAIN}},
        "registrations": [item],
    }


def register(usherd, zookeeper, options=None, wait=True, **more):
    return usherd(with_registration(zookeeper, options, **more)).start(wait=wait)


def wait_node(zookeeper, path=PATH):
    return wait_until(f"{path} is there", lambda: zookeeper.nodes.get(path))


def looks_after(zookeeper):
    """Who registers reads without a watch, and who discovers with one."""
    return [r for r in zookeeper.asked(jute.GET_DATA, PATH) if r.body[-1] == 0]


def registration(daemon):
    return daemon.get("/v1/registrations/catalog/mine")


def test_an_instance_is_registered_as_spring_cloud_does_it(usherd, zookeeper):
    daemon = register(usherd, zookeeper, weight=3)
    node = wait_node(zookeeper)
    assert node.owner in zookeeper.sessions
    value = zookeeper.value(PATH)
    assert (value["name"], value["id"], value["address"], value["port"]) == ("catalog", "mine", "127.0.0.1", 8080)
    assert value["sslPort"] is None and value["serviceType"] == "DYNAMIC"
    assert value["payload"]["metadata"] == {
        "instance_status": "UP", "tier": "gold", "weight": "3", "registered-by": "usher"} | {
        k: v for k, v in value["payload"]["metadata"].items() if k == "zone"}
    assert zookeeper.nodes["/services/catalog"].container
    daemon.wait_listed(["mine"])


@pytest.mark.parametrize("form", ["curator", "nerve"])
def test_other_formats_are_written_and_read_back(usherd, zookeeper, form):
    daemon = register(usherd, zookeeper, {"format": form})
    daemon.wait_listed(["mine"])
    value = zookeeper.value(PATH)
    assert value["port"] == 8080
    assert ("payload" in value and value["payload"] is None) if form == "curator" else value["host"] == "127.0.0.1"


# apache/curator#702, Netflix/curator#131
def test_a_session_that_expired_registers_the_newest_again(usherd, zookeeper):
    daemon = register(usherd, zookeeper)
    wait_node(zookeeper)
    changed = zookeeper.value(PATH)
    changed["payload"]["metadata"]["weight"] = "50"
    # Somebody has changed it; it is seen when it is looked after.
    zookeeper.put(PATH, changed)
    looks = len(looks_after(zookeeper))
    wait_until("it is looked after", lambda: len(looks_after(zookeeper)) >= looks + 2)
    owner = zookeeper.nodes[PATH].owner
    zookeeper.expire(owner)
    wait_until("it is there again", lambda: PATH in zookeeper.nodes and zookeeper.nodes[PATH].owner != owner)
    assert zookeeper.value(PATH)["payload"]["metadata"]["weight"] == "50"
    assert daemon.process.poll() is None


def test_a_node_that_somebody_deletes_is_made_again(usherd, zookeeper):
    register(usherd, zookeeper)
    wait_node(zookeeper)
    zookeeper.delete("/services")
    wait_node(zookeeper)


def test_a_wiped_server_gets_the_registration_again(usherd, zookeeper):
    register(usherd, zookeeper)
    wait_node(zookeeper)
    for n in range(30):
        zookeeper.instance("other", f"x{n}")
    wiped(zookeeper)
    wait_node(zookeeper)


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_restart_of_usherd_leaves_no_gap(usherd, zookeeper, how):
    daemon = register(usherd, zookeeper, {"ttl": "60s"})
    before = wait_node(zookeeper)
    if how == "killed":
        daemon.kill()
    else:
        daemon.stop()
    assert zookeeper.nodes[PATH] is before
    daemon.start()
    # The old session would take it away in the end: it is made again in the new one, in one transaction.
    wait_until("it is in the new session", lambda: zookeeper.nodes[PATH].owner != before.owner)
    assert zookeeper.asked(jute.MULTI)
    assert not zookeeper.asked(jute.DELETE)


def kept_alive(usherd, zookeeper, port, **options):
    """A registration of usherd's whose instance will not be well when usherd comes back."""
    return register(usherd, zookeeper, options, port=port, health={"tcp": {}, "interval": "100ms"})


@pytest.mark.parametrize("form", ["curator", "nerve"])
def test_what_is_ill_when_usherd_comes_back_is_in_its_new_session(usherd, zookeeper, form):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        daemon = kept_alive(usherd, zookeeper, listener.getsockname()[1], format=form)
        before = wait_node(zookeeper)
        daemon.kill()
    daemon.start()
    wait_until("it is in the new session", lambda: zookeeper.nodes[PATH].owner != before.owner)
    zookeeper.expire(before.owner)
    assert zookeeper.value(PATH) and registration(daemon)["state"] == "waiting_for_health"


def test_who_has_taken_the_id_meanwhile_is_left_alone(usherd, zookeeper):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        daemon = kept_alive(usherd, zookeeper, listener.getsockname()[1])
        wait_node(zookeeper)
        daemon.kill()
    zookeeper.delete(PATH)
    zookeeper.put(PATH, curator("catalog", "mine", 9999), owner=77)
    looks = len(looks_after(zookeeper))
    daemon.start()
    wait_until("it is looked at", lambda: len(looks_after(zookeeper)) >= looks + 2)
    assert zookeeper.nodes[PATH].owner == 77 and not zookeeper.asked(jute.MULTI)


def test_what_an_earlier_run_has_registered_is_deleted_when_nobody_wants_it(usherd, zookeeper):
    daemon = register(usherd, zookeeper, {"ttl": "60s"})
    wait_node(zookeeper)
    daemon.kill()
    daemon.configure({**with_registration(zookeeper, {"ttl": "60s"}), "registrations": []})
    daemon.start()
    wait_until("it is gone", lambda: PATH not in zookeeper.nodes)


def test_what_is_deregistered_on_stop_is_gone(usherd, zookeeper):
    daemon = register(usherd, zookeeper, on_stop="deregister")
    wait_node(zookeeper)
    daemon.stop()
    assert PATH not in zookeeper.nodes


def test_a_node_of_another_instance_is_left_alone(usherd, zookeeper):
    zookeeper.instance("catalog", "mine", 9999)
    daemon = register(usherd, zookeeper)
    wait_until("it says so", lambda: "of another instance at 127.0.0.1 port 9999" in str(registration(daemon)))
    assert zookeeper.value(PATH)["port"] == 9999


def test_a_registration_is_taken_out_by_a_drain_and_put_back(usherd, zookeeper, live_port):
    zookeeper.instance("catalog", "other")
    daemon = register(usherd, zookeeper, port=live_port)
    daemon.wait_listed(["mine", "other"])
    drain = daemon.drain("mine")
    assert daemon.wait_finished(drain["id"])["state"] == "done"
    assert PATH not in zookeeper.nodes
    daemon.restore("mine")
    node = wait_node(zookeeper)
    assert node.owner in zookeeper.sessions
    wait_until("it is picked", lambda: daemon.picked() == {"mine", "other"})


def test_a_registration_over_the_api_goes_as_it_came(usherd, zookeeper):
    zookeeper.instance("catalog", "other")
    daemon = start(usherd, zookeeper)
    path = "/v1/registrations/catalog/mine"
    assert daemon.call("PUT", path, {"port": 8080, "address": "127.0.0.1", "health": "none"}, admin=True).status < 300
    wait_node(zookeeper)
    assert daemon.call("PUT", path, {"port": 8081, "address": "127.0.0.1", "health": "none"}, admin=True).status < 300
    wait_until("the port is 8081", lambda: zookeeper.value(PATH)["port"] == 8081)
    assert daemon.call("DELETE", path, admin=True).status < 300
    wait_until("it is gone", lambda: PATH not in zookeeper.nodes)


def test_a_registration_waits_for_a_server_and_says_so(usherd, zookeeper):
    zookeeper.stop()
    daemon = register(usherd, zookeeper, wait=False)
    wait_until("it says why", lambda: "refused" in str(registration_or_none(daemon)))
    zookeeper.start()
    wait_node(zookeeper)


def registration_or_none(daemon):
    try:
        return registration(daemon)
    except (FileNotFoundError, ConnectionError):
        return None


def test_nodes_may_be_readable_to_all_and_changed_by_one(usherd, zookeeper):
    register(usherd, zookeeper, {"acl": "readable", "user": "usher", "password": "secret"})
    node = wait_node(zookeeper)
    assert sorted(node.acl) == sorted([(jute.READ, "world", "anyone"), *digest("usher:secret")])


def test_a_denied_registration_says_what_to_do(usherd, zookeeper):
    zookeeper.instance("catalog", "a")
    zookeeper.protect("/services/catalog", [(jute.READ, "world", "anyone")])
    daemon = register(usherd, zookeeper)
    wait_until("it says so", lambda: "see user and password_file" in str(registration(daemon)))
    zookeeper.protect("/services/catalog", jute.OPEN)
    wait_node(zookeeper)
