"""The real usherd against a server of Nacos that is played, in good order and in bad."""

import gzip
import socket
import time

import pytest
from scripted_nacos import Nacos
from scripted_registry import Cut, Fault, Flood, Raw, Redirect, Reply, Reset, Silence, Slow
from usher import wait_until


@pytest.fixture
def nacos():
    with Nacos() as registry:
        yield registry


def configuration(servers, guard=None, max_age="60s", services=("catalog",), **options):
    servers = servers if isinstance(servers, list) else [servers]
    return {
        "sources": [{"name": "nacos", "plugin": "nacos",
                     "options": {"servers": [s.url for s in servers], "poll": "200ms", **options}}],
        "services": {name: {"freshness": {"max_age": max_age, "on_stale": "serve"}, **(guard or {})} for name in services},
    }


def start(usherd, servers, **more):
    daemon = usherd(configuration(servers, **more))
    daemon.start()
    return daemon


def feed_of(daemon, service):
    return daemon.get(f"/v1/services/{service}")["feeds"][0]


def feed(daemon):
    return feed_of(daemon, "catalog")


def wait_failed(daemon, text):
    return wait_until(f"it fails with {text}", lambda: text in (feed(daemon)["error"] or ""))


def wait_live(daemon):
    return wait_until("it is live", lambda: feed(daemon)["state"] == "live" and not feed(daemon)["error"])


def is_list(request):
    return request.path.endswith("/instance/list")


@pytest.mark.parametrize("apis", [("v1",), ("v3",), ("v1", "v3")])
def test_instances_appear_change_and_disappear_over_each_api(usherd, apis):
    with Nacos(apis) as nacos:
        nacos.put("catalog", "a", "b")
        nacos.put("catalog", "e", clusterName="east")
        daemon = start(usherd, nacos)
        daemon.wait_listed(["a", "b", "e"])
        nacos.put("catalog", "c")
        daemon.wait_listed(["a", "b", "c", "e"])
        nacos.find("c")["metadata"]["version"] = "2"
        wait_until("the version is 2", lambda: daemon.listed()["c"]["metadata"].get("version") == "2")
        nacos.take("catalog", "a")
        daemon.wait_listed(["b", "c", "e"])
        assert daemon.listed()["e"]["metadata"]["nacos.cluster"] == "east"


def test_an_api_that_goes_is_replaced_by_the_other(usherd, nacos):
    nacos.put("catalog", "a")
    daemon = start(usherd, nacos)
    daemon.wait_listed(["a"])
    nacos.apis = ("v3",)
    nacos.put("catalog", "b")
    daemon.wait_listed(["a", "b"])
    assert not feed(daemon)["error"]
    nacos.apis = ("v1",)
    nacos.put("catalog", "c")
    daemon.wait_listed(["a", "b", "c"])


def test_a_server_without_either_api_is_said_to_be_none(usherd, nacos):
    nacos.apis = ()
    daemon = start(usherd, nacos)
    wait_failed(daemon, "is `context_path` right?")
    nacos.apis = ("v3",)
    nacos.put("catalog", "a")
    daemon.wait_listed(["a"])


def test_namespaces_groups_and_clusters(usherd, nacos):
    nacos.put("catalog", "a", clusterName="east")
    nacos.put("catalog", "b", clusterName="west")
    nacos.put("OTHER@@catalog", "c", clusterName="west")
    daemon = usherd({
        "sources": [{"name": "nacos", "plugin": "nacos", "options": {
            "servers": [nacos.url], "poll": "200ms", "clusters": "west", "namespace": "6f1e", "cluster_is_zone": True}}],
        "services": {"catalog": {}, "other": {"sources": [{"source": "nacos", "name": "OTHER@@catalog"}]}},
    })
    daemon.start()
    daemon.wait_listed(["b"])
    assert daemon.listed()["b"]["zone"] == "west"
    assert all(r.query["namespaceId"] == "6f1e" for r in nacos.asked(is_list))


def test_shares_of_weights_are_kept(usherd, nacos):
    nacos.put("catalog", "a", "b")
    daemon = start(usherd, nacos)
    daemon.wait_listed(["a", "b"])
    assert {e["weight"] for e in daemon.listed().values()} == {1}
    nacos.find("b")["weight"] = 0.1
    wait_until("b has a tenth", lambda: {k: e["weight"] for k, e in daemon.listed().items()} == {"a": 10, "b": 1})
    nacos.find("b")["weight"] = 0.0
    wait_until("b gets nothing", lambda: daemon.picked() == {"a"})


MISBEHAVIOURS = {
    "500": lambda request: Reply("caused: java.lang.NullPointerException", 500),
    "503": lambda request: Reply("server is DOWN now, please try again later!", 503),
    "reset": lambda request: Reset(),
    "closed": lambda request: Raw(),
    "half a head": lambda request: Raw(b"HTTP/1.1 200"),
    "cut": lambda request: Cut(Reply('{"hosts":[{"ip":"127.0.0.1"}]}'), 10),
    "no http": lambda request: Raw(b"\x00\x01\x02\r\n\r\n"),
    "no json": lambda request: Reply("<html>"),
    "another document": lambda request: Reply("[]"),
    "no hosts": lambda request: Reply({"name": "DEFAULT_GROUP@@catalog", "hosts": None}),
    "a fault in an envelope": lambda request: Reply({"code": 30000, "message": "server error", "data": None}),
    "redirected": lambda request: Redirect("http://127.0.0.1:1/"),
    "endless head": lambda request: Flood(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1000),
    "denied": lambda request: Reply({"status": 403, "error": "Forbidden"}, 403),
    "not let in": lambda request: Reply("", 401),
    "no such path": lambda request: Reply("", 404),
    "gone": lambda request: Reply("", 410),
    "too many": lambda request: Reply("", 429),
}


@pytest.mark.parametrize("name", MISBEHAVIOURS)
def test_whatever_goes_wrong_empties_nothing_and_is_got_over(usherd, nacos, name):
    nacos.put("catalog", "a", "b")
    daemon = start(usherd, nacos)
    daemon.wait_listed(["a", "b"])
    fault = Fault(MISBEHAVIOURS[name], times=None, when=is_list)
    nacos.faults.append(fault)
    wait_until("it fails", lambda: feed(daemon)["error"])
    assert set(daemon.listed()) == {"a", "b"}
    nacos.faults.remove(fault)
    nacos.put("catalog", "c")
    daemon.wait_listed(["a", "b", "c"])
    wait_live(daemon)


def test_slow_bytes_are_an_answer(usherd, nacos):
    nacos.put("catalog", "a")
    nacos.faults.append(Fault(lambda request: Slow(nacos.say(request), 64, 0.01), times=3))
    start(usherd, nacos).wait_listed(["a"])


def test_a_list_that_is_empty_for_a_while_empties_nothing(usherd, nacos):
    nacos.put("catalog", "a", "b")
    daemon = start(usherd, nacos)
    daemon.wait_listed(["a", "b"])
    saved = dict(nacos.instances)
    nacos.instances.clear()
    wait_until("it is held", lambda: feed(daemon)["held"])
    assert set(daemon.listed()) == {"a", "b"}
    assert daemon.picked() == {"a", "b"}
    nacos.instances.update(saved)
    wait_until("nothing is held", lambda: not feed(daemon)["held"])
    assert set(daemon.listed()) == {"a", "b"}


def test_a_server_that_was_restarted_and_knows_less_is_doubted(usherd, nacos):
    nacos.put("catalog", "a", "b", "c", "d")
    daemon = start(usherd, nacos)
    daemon.wait_listed(["a", "b", "c", "d"])
    nacos.stop()
    wait_until("it fails", lambda: feed(daemon)["error"])
    nacos.take("catalog", "a")  # less than the guard's share
    nacos.start()
    wait_until("it is held", lambda: feed(daemon)["held"])
    assert set(daemon.listed()) == {"a", "b", "c", "d"}
    nacos.put("catalog", "a")
    wait_until("nothing is held", lambda: not feed(daemon)["held"])
    assert set(daemon.listed()) == {"a", "b", "c", "d"}


def test_services_that_are_all_empty_after_a_restart_are_all_held(usherd, nacos):
    names = [f"s{i}" for i in range(60)]
    for name in names:
        nacos.put(name, f"{name}-1", f"{name}-2")
    daemon = start(usherd, nacos, services=names)
    for name in names:
        daemon.wait_listed([f"{name}-1", f"{name}-2"], name)
    nacos.stop()
    saved = dict(nacos.instances)
    nacos.instances.clear()
    nacos.start()
    for name in names:
        wait_until(f"{name} is held", lambda: feed_of(daemon, name)["held"])
        assert len(daemon.listed(name)) == 2
    nacos.instances.update(saved)
    for name in names:
        wait_until(f"nothing of {name} is held", lambda: not feed_of(daemon, name)["held"])
        assert len(daemon.listed(name)) == 2


def test_all_that_are_unhealthy_at_once_stay(usherd, nacos):
    nacos.put("catalog", "a", "b")
    daemon = start(usherd, nacos)
    daemon.wait_listed(["a", "b"])
    nacos.put("catalog", "a", "b", healthy=False)
    wait_until("it is held", lambda: feed(daemon)["held"])
    assert daemon.picked() == {"a", "b"}
    nacos.put("catalog", "a", "b")
    wait_until("nothing is held", lambda: not feed(daemon)["held"])


def test_one_that_is_unhealthy_is_not_picked(usherd, nacos):
    nacos.put("catalog", "a", "b")
    daemon = start(usherd, nacos)
    daemon.wait_listed(["a", "b"])
    nacos.put("catalog", "a", healthy=False)
    wait_until("only b is picked", lambda: daemon.picked() == {"b"})
    # Too few are healthy now, says the server, so all are called so.
    nacos.forged = True
    nacos.put("catalog", "a")
    nacos.put("catalog", "c")
    wait_until("b and c are picked", lambda: daemon.picked() == {"b", "c"})
    nacos.forged = False
    wait_until("all are picked", lambda: daemon.picked() == {"a", "b", "c"})


def test_one_of_three_servers_that_says_empty_wipes_nothing(usherd, nacos):
    with Nacos() as second, Nacos() as third:
        for server in (nacos, second, third):
            server.put("catalog", "a", "b")
        daemon = start(usherd, [nacos, second, third])
        daemon.wait_listed(["a", "b"])
        asked = next(s for s in (nacos, second, third) if s.asked(is_list))
        asked.instances.clear()
        others = [s for s in (nacos, second, third) if s is not asked]
        wait_until("another is asked", lambda: any(s.asked(is_list) for s in others))
        revision = daemon.get("/v1/services/catalog")["revision"]
        count = sum(len(s.asked(is_list)) for s in others)
        wait_until("it goes on there", lambda: sum(len(s.asked(is_list)) for s in others) > count + 3)
        assert set(daemon.listed()) == {"a", "b"}
        assert daemon.get("/v1/services/catalog")["revision"] == revision
        assert not feed(daemon)["held"]


def test_a_server_that_goes_is_replaced_by_the_next(usherd, nacos):
    with Nacos() as second:
        for server in (nacos, second):
            server.put("catalog", "a")
        daemon = start(usherd, [nacos, second])
        daemon.wait_listed(["a"])
        first, other = (nacos, second) if nacos.asked(is_list) else (second, nacos)
        first.stop()
        other.put("catalog", "b")
        daemon.wait_listed(["a", "b"])
        wait_live(daemon)


def test_a_server_that_freezes_is_noticed(usherd, nacos):
    nacos.put("catalog", "a")
    daemon = start(usherd, nacos)
    daemon.wait_listed(["a"])
    nacos.freeze()
    wait_until("it fails", lambda: feed(daemon)["error"])
    assert set(daemon.listed()) == {"a"}
    nacos.thaw()
    nacos.put("catalog", "b")
    daemon.wait_listed(["a", "b"])


def test_silence_behind_a_head_is_noticed(usherd, nacos):
    nacos.put("catalog", "a")
    daemon = start(usherd, nacos)
    daemon.wait_listed(["a"])
    fault = Fault(lambda request: Silence(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), times=None, when=is_list)
    nacos.faults.append(fault)
    wait_until("it fails", lambda: feed(daemon)["error"])
    nacos.faults.remove(fault)
    nacos.put("catalog", "b")
    daemon.wait_listed(["a", "b"])


def test_a_thousand_looks_that_find_nothing_new_tell_consumers_nothing(usherd, nacos):
    nacos.put("catalog", "a")
    daemon = start(usherd, nacos, poll="100ms")
    daemon.wait_listed(["a"])
    revision = daemon.get("/v1/services/catalog")["revision"]
    nacos.wait_asked(is_list, len(nacos.asked(is_list)) + 20)
    assert daemon.get("/v1/services/catalog")["revision"] == revision


def test_it_is_asked_as_often_as_the_server_says(usherd, nacos):
    nacos.put("catalog", "a")
    daemon = usherd({"sources": [{"name": "nacos", "plugin": "nacos", "options": {"servers": [nacos.url]}}],
                     "services": {"catalog": {}}})
    began = time.monotonic()
    daemon.start()
    # Every second, and up to a fifth sooner; where the server is not heard it is every 10 s.
    count = len(nacos.wait_asked(is_list, 12, deadline=90.0))
    assert count <= 2 + (time.monotonic() - began) / 0.8


def test_more_services_than_connections_are_all_looked_after(usherd, nacos):
    names = [f"s{i}" for i in range(30)]
    for name in names:
        nacos.put(name, f"{name}-1")
    daemon = start(usherd, nacos, services=names, connections=4)
    for name in names:
        daemon.wait_listed([f"{name}-1"], name)
        nacos.put(name, f"{name}-2")
    for name in names:
        daemon.wait_listed([f"{name}-1", f"{name}-2"], name)
    assert nacos.most_open <= 4


# ---- pushes ----


def test_word_of_a_change_makes_it_look_at_once(usherd, nacos):
    nacos.put("catalog", "a")
    daemon = start(usherd, nacos, poll="300s")
    daemon.wait_listed(["a"])
    nacos.put("catalog", "b")
    nacos.push()
    daemon.wait_listed(["a", "b"])
    assert nacos.wait_acknowledged() == {"type": "push-ack", "lastRefTime": "85961000123", "data": ""}
    nacos.put("catalog", *[f"many-{i}" for i in range(20)])  # so many that it is compressed
    nacos.push()
    daemon.wait_listed(["a", "b", *[f"many-{i}" for i in range(20)]])


def test_what_a_push_says_is_not_believed(usherd, nacos):
    nacos.put("catalog", "a")
    daemon = start(usherd, nacos, poll="300s")
    daemon.wait_listed(["a"])
    count = len(nacos.asked(is_list))
    saved = dict(nacos.instances)
    nacos.instances.clear()  # the packet tells of none at all
    nacos.push()
    nacos.wait_acknowledged()
    nacos.instances.update(saved)
    nacos.wait_asked(is_list, count + 1)
    assert set(daemon.listed()) == {"a"}


def test_packets_that_are_none_and_too_many_of_them_do_no_harm(usherd, nacos):
    nacos.put("catalog", "a")
    daemon = start(usherd, nacos, poll="300s")
    daemon.wait_listed(["a"])
    for data in (b"", b"{", b"[]", b"\x1f\x8b", b"\x1f\x8b" + bytes(100), gzip.compress(bytes(8 << 20)), bytes(65000),
                 b'{"type":"dom","data":"{}","lastRefTime":1}', b'{"type":"dump","data":"x","lastRefTime":1}'):
        nacos.push(data=data or b"\n")
    count = len(nacos.asked(is_list))
    nacos.push(times=2000)
    nacos.wait_asked(is_list, count + 1)
    # A flood is answered with four requests a second.
    nacos.put("catalog", "b")
    nacos.push()
    daemon.wait_listed(["a", "b"])
    assert len(nacos.asked(is_list)) - count < 100


def test_a_server_that_cannot_push_is_looked_at_from_time_to_time(usherd, nacos):
    nacos.apis = ("v3",)
    nacos.put("catalog", "a")
    daemon = start(usherd, nacos, push_address="192.0.2.9")
    daemon.wait_listed(["a"])
    nacos.put("catalog", "b")
    daemon.wait_listed(["a", "b"])
    assert not nacos.subscribers


# ---- being let in ----


def test_a_login_is_made_and_renewed_before_its_time_is_over(usherd, nacos, tmp_path):
    nacos.users, nacos.ttl = {"usher": "one"}, 2
    nacos.put("catalog", "a")
    path = tmp_path / "password"
    path.write_text("one\n")
    daemon = start(usherd, nacos, user="usher", password_file=str(path))
    daemon.wait_listed(["a"])
    wait_until("it has logged in three times", lambda: nacos.logins >= 3)
    assert not feed(daemon)["error"]
    assert "token-" not in daemon.log_text()


@pytest.mark.parametrize("apis", [("v1",), ("v3",)])
def test_a_token_that_is_no_good_any_more_is_replaced(usherd, apis):
    with Nacos(apis) as nacos:
        nacos.users = {"usher": "one"}
        nacos.put("catalog", "a")
        daemon = start(usherd, nacos, user="usher", password="one")
        daemon.wait_listed(["a"])
        nacos.tokens.clear()  # as after a restart with another key
        nacos.put("catalog", "b")
        # One that is young is not replaced at once, for it was denied for another reason.
        daemon.wait_listed(["a", "b"])


def test_a_wrong_password_is_a_denial_until_the_file_has_the_right_one(usherd, nacos, tmp_path):
    nacos.users = {"usher": "one"}
    nacos.put("catalog", "a")
    path = tmp_path / "password"
    path.write_text("two")
    daemon = start(usherd, nacos, user="usher", password_file=str(path))
    wait_failed(daemon, "cannot log in as usher")
    assert not nacos.asked(is_list)
    path.write_text("one")
    daemon.wait_listed(["a"])
    assert "two" not in daemon.log_text()


def test_a_denial_empties_nothing_and_does_not_log_in_for_ever(usherd, nacos):
    nacos.users = {"usher": "one"}
    nacos.put("catalog", "a")
    daemon = start(usherd, nacos, user="usher", password="one")
    daemon.wait_listed(["a"])
    nacos.faults.append(Fault(lambda request: Reply({"status": 403}, 403), times=None, when=is_list))
    wait_failed(daemon, "403")
    count = len(nacos.asked(is_list))
    nacos.wait_asked(is_list, count + 3)
    assert nacos.logins <= 2
    assert set(daemon.listed()) == {"a"}
    nacos.faults.clear()
    wait_live(daemon)


def test_a_fixed_token_is_read_again_when_its_file_changes(usherd, nacos, tmp_path):
    nacos.users, nacos.tokens = {"usher": "one"}, {"first"}
    nacos.put("catalog", "a")
    path = tmp_path / "token"
    path.write_text("first\n")
    daemon = start(usherd, nacos, token_file=str(path))
    daemon.wait_listed(["a"])
    nacos.tokens = {"second"}
    wait_failed(daemon, "403")
    path.write_text("second\n")
    nacos.put("catalog", "b")
    daemon.wait_listed(["a", "b"])
    assert "second" not in daemon.log_text()


# ---- drains ----


@pytest.fixture
def open_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("apis", [("v1",), ("v3",), ("v1", "v3")])
def test_a_drain_disables_the_instance_and_a_restore_enables_it(usherd, apis, open_port):
    with Nacos(apis) as nacos:
        nacos.put("catalog", "a", port=open_port, weight=2.5, metadata={"version": "1"})
        nacos.put("catalog", "b", "c")
        key = f"127.0.0.1:{open_port}"
        # It is enabled again by its address and port, which no other id may hide.
        del nacos.find("a")["metadata"]["usher.id"]
        daemon = start(usherd, nacos)
        daemon.wait_listed([key, "b", "c"])
        drain = daemon.drain(key)
        wait_until("it is disabled", lambda: not nacos.instances["DEFAULT_GROUP@@catalog"][key]["enabled"])
        wait_until("it is not picked", lambda: daemon.picked() == {"b", "c"})
        assert daemon.wait_finished(drain["id"])
        assert nacos.instances["DEFAULT_GROUP@@catalog"][key]["weight"] == 2.5
        daemon.restore(key)
        wait_until("it is enabled", lambda: nacos.instances["DEFAULT_GROUP@@catalog"][key]["enabled"])
        wait_until("it is back", lambda: daemon.picked() == {key, "b", "c"})
        assert nacos.instances["DEFAULT_GROUP@@catalog"][key]["metadata"] == {"version": "1"}


def start_with_registration(usherd, nacos, port, **registration):
    daemon = usherd({
        "sources": [{"name": "nacos", "plugin": "nacos", "options": {"servers": [nacos.url], "poll": "200ms", "beat": "1s"}}],
        "services": {"own": {}},
    })
    daemon.start()
    put_registration(daemon, port, **registration)
    daemon.wait_listed(["me"], "own")
    return daemon


def put_registration(daemon, port, **registration):
    body = {"address": "127.0.0.1", "port": port, "health": "none", "sources": ["nacos"], **registration}
    answer = daemon.call("PUT", "/v1/registrations/own/me", body, admin=True)
    assert answer.status in (200, 201, 202), answer


def is_sign_of_life(request):
    return request.path.endswith("/beat") or request.query.get("heartBeat") == "true"


@pytest.mark.parametrize("apis", [("v1",), ("v3",)])
def test_what_is_registered_gets_signs_of_life_and_is_registered_again_when_it_is_forgotten(usherd, apis, open_port):
    with Nacos(apis) as nacos:
        daemon = start_with_registration(usherd, nacos, open_port, metadata={"version": "1"})
        nacos.wait_asked(is_sign_of_life, 3)
        assert not feed_of(daemon, "own")["error"]
        # The newest that was said of it, not the first.
        put_registration(daemon, open_port, metadata={"version": "2"})
        key = f"127.0.0.1:{open_port}"
        wait_until("it is described anew",
                   lambda: nacos.instances["DEFAULT_GROUP@@own"][key]["metadata"]["version"] == "2")
        nacos.instances["DEFAULT_GROUP@@own"].clear()
        found = wait_until("it is registered again", lambda: nacos.instances["DEFAULT_GROUP@@own"].get(key))
        assert found["metadata"]["version"] == "2"
        daemon.call("DELETE", "/v1/registrations/own/me", admin=True)
        wait_until("it is gone", lambda: key not in nacos.instances["DEFAULT_GROUP@@own"])


def test_a_restart_of_usherd_leaves_no_gap(usherd, nacos, open_port):
    key = f"127.0.0.1:{open_port}"
    daemon = start_with_registration(usherd, nacos, open_port)
    daemon.restart()
    nacos.wait_asked(is_sign_of_life, len(nacos.asked(is_sign_of_life)) + 2)
    assert not nacos.asked(lambda request: request.method == "DELETE")
    assert nacos.instances["DEFAULT_GROUP@@own"][key]["enabled"]


def test_the_names_of_services_are_known(usherd, nacos):
    for i in range(3):
        nacos.put(f"s{i}", f"s{i}")
    daemon = start(usherd, nacos)
    wait_until("it knows three", lambda: daemon.get("/v1/sources")["sources"][0]["known"] == 3)
