"""The plug-in kubernetes against an API server that behaves, and that does not."""

import os
import statistics
import time

import pytest
import yaml
from scripted_kubernetes import Cluster, endpoint_slice, pod, status, whole_pod
from scripted_registry import Cut, Fault, Registry, Reply, Silence, Stream

from usher import as_yaml, wait_until


def is_watch(request):
    return "watch" in request.query


def is_proof(request):
    return request.query.get("limit") == "1"


def is_list(request):
    return not is_watch(request) and not is_proof(request)


def feed(daemon, name="catalog"):
    return daemon.get(f"/v1/services/{name}")["feeds"][0]


def everything(daemon):
    """Also what takes no requests."""
    return {e["id"]: e for e in daemon.get("/v1/services/catalog/endpoints?all=true")["endpoints"]}


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def server(cluster):
    with Registry(cluster.answer) as registry:
        yield registry
        cluster.end_watches()


@pytest.fixture
def follow(usherd, server):
    """An usherd that follows the cluster; not started yet where it is to be changed."""
    def make(options=None, services=None, start=True, **more):
        whole = {"servers": [server.url], "prove": "500ms", **(options or {})}
        whole = {name: value for name, value in whole.items() if value is not None}
        daemon = usherd({"sources": [{"name": "cluster", "plugin": "kubernetes", "options": whole}],
                         "services": services or {"catalog": {}}, **more})
        if start:
            daemon.start()
        return daemon

    return make


def two_pods():
    return [pod("a", "10.0.0.1", zone="east"), pod("b", "10.0.0.2", zone="west")]


# ---- a cluster that behaves ----


def test_endpoints_appear_change_and_disappear(cluster, follow):
    hints = {"forZones": [{"name": "east"}, {"name": "west"}]}
    cluster.put(endpoint_slice("catalog-1", "catalog", [pod("a", "10.0.0.1", zone="east", hints=hints), pod("b", "10.0.0.2")]))
    daemon = follow()
    daemon.wait_listed(["a", "b"])
    one = daemon.listed()["a"]
    assert (one["address"], one["port"], one["zone"]) == ("10.0.0.1", 8080, "east")
    assert one["metadata"]["kubernetes.zone-hints"] == "east,west"
    cluster.put(endpoint_slice("catalog-2", "catalog", [pod("c", "10.0.0.3")]))
    daemon.wait_listed(["a", "b", "c"])
    cluster.put(endpoint_slice("catalog-1", "catalog", [pod("a", "10.0.0.1", ready=False), pod("b", "10.0.0.2")]))
    daemon.wait_listed(["b", "c"])
    assert everything(daemon)["a"]["conditions"]["ready"] is False
    cluster.put(endpoint_slice("catalog-1", "catalog", [pod("b", "10.0.0.2")]))
    # Else two of three would go at once, which is held back.
    wait_until("a is gone", lambda: "a" not in everything(daemon))
    cluster.delete("catalog-2")
    daemon.wait_listed(["b"])


def test_all_slices_and_families_are_put_together(cluster, follow):
    cluster.put(endpoint_slice("v4", "catalog", two_pods(), [{"name": "grpc", "port": 9090}, {"name": "http", "port": 8080}]))
    cluster.put(endpoint_slice("v6", "catalog", [pod("a", "fd00::1")], [{"name": "http", "port": 8080}], kind="IPv6"))
    daemon = follow(services={"catalog": {"sources": [{"source": "cluster", "port": "http"}]}})
    daemon.wait_listed(["a", "b"])
    assert daemon.listed()["a"]["port"] == 8080
    assert daemon.listed()["a"]["metadata"]["kubernetes.other-address"] == "fd00::1"


def test_a_list_comes_in_pages(cluster, server, follow):
    for i in range(1100):
        cluster.put(endpoint_slice(f"catalog-{i:04}", "catalog", [pod(f"p{i}", f"10.1.{i // 250}.{i % 250 + 1}")]))
    daemon = follow()
    daemon.wait_listed([f"p{i}" for i in range(1100)])
    assert len(server.asked(is_list)) == 3


def test_an_endpoint_that_moves_to_another_slice_never_misses(cluster, follow):
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    daemon = follow({"settle": "20s"})
    daemon.wait_listed(["a", "b"])
    with daemon.watch() as stream:
        cluster.put(endpoint_slice("catalog-1", "catalog", [pod("a", "10.0.0.1")]))
        time.sleep(0.1)
        cluster.put(endpoint_slice("catalog-2", "catalog", [pod("b", "10.0.0.2"), pod("c", "10.0.0.3")]))
        seen = []
        stream.until(lambda line: seen.append(line) or "c" in {e["id"] for e in line.get("changed", [])})
    assert not any(line.get("removed") for line in seen)
    daemon.wait_listed(["a", "b", "c"])


def test_only_what_is_wanted_is_asked_for(cluster, server, follow):
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    cluster.put(endpoint_slice("search-1", "search", [pod("s", "10.0.1.1", uid="s")], namespace="shop"))
    daemon = follow(services={"catalog": {}, "search": {"sources": [{"source": "cluster", "name": "shop/search"}]}})
    daemon.wait_listed(["a", "b"])
    daemon.wait_listed(["s"], "search")
    assert {r.path.split("/")[5] for r in server.asked(is_list)} == {"default", "shop"}
    assert all("kubernetes.io/service-name in (" in r.query["labelSelector"] for r in server.asked(is_list))


def test_a_selector_leaves_out_other_slices(cluster, server, follow):
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods(), labels={"team": "shop"}))
    cluster.put(endpoint_slice("catalog-2", "catalog", [pod("c", "10.0.0.3")], labels={"team": "other"}))
    daemon = follow({"selector": "team=shop,team in (shop,search)"})
    daemon.wait_listed(["a", "b"])
    cluster.put(endpoint_slice("catalog-3", "catalog", [pod("d", "10.0.0.4")], labels={"team": "other"}))
    cluster.put(endpoint_slice("catalog-1", "catalog", [*two_pods(), pod("e", "10.0.0.5")], labels={"team": "shop"}))
    daemon.wait_listed(["a", "b", "e"])


def test_one_stream_may_follow_the_whole_cluster(cluster, server, follow):
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    cluster.put(endpoint_slice("search-1", "search", [pod("s", "10.0.1.1")], namespace="shop"))
    daemon = follow({"watch": "cluster"},
                    {"catalog": {}, "search": {"sources": [{"source": "cluster", "name": "shop/search"}]}})
    daemon.wait_listed(["a", "b"])
    daemon.wait_listed(["s"], "search")
    server.wait_asked(is_watch)
    assert len(server.asked(is_list)) == 1 and len(server.asked(is_watch)) == 1


def test_an_empty_slice_is_an_empty_service_and_no_slice_is_none(cluster, follow):
    cluster.put(endpoint_slice("catalog-1", "catalog", None))
    daemon = follow(services={"catalog": {}, "typo": {"startup_timeout": "100ms"}})
    daemon.wait_listed([])
    assert "no EndpointSlice is of Service typo in namespace default" in str(feed(daemon, "typo"))


def test_a_service_that_is_deleted_is_doubted(cluster, follow):
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    daemon = follow()
    daemon.wait_listed(["a", "b"])
    cluster.delete("catalog-1")
    wait_until("its removal is held back", lambda: "held" in str(feed(daemon)) or feed(daemon).get("suspect"))
    assert set(daemon.listed()) == {"a", "b"}


# ---- watches ----


def test_a_watch_that_is_too_old_leads_to_a_list_and_nothing_is_lost(cluster, server, follow):
    """410 as an event in a stream of status 200, again and again."""
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    expired = Stream([Cluster.line("ERROR", status(410, "Expired", "too old resource version"))])
    daemon = follow(services={"catalog": {"removal_guard": {"share": "100%"}}})
    daemon.wait_listed(["a", "b"])
    lists = len(server.asked(is_list))
    with daemon.watch() as stream:
        wait_until("it watches", lambda: cluster.watches)
        watches = len(server.asked(is_watch))
        server.faults.append(Fault(lambda request: expired, 3, is_watch))
        cluster.end_watches()
        server.wait_asked(is_watch, watches + 4)
        assert len(server.asked(is_list)) == lists + 3
        cluster.put(endpoint_slice("catalog-2", "catalog", [pod("c", "10.0.0.3")]))
        seen = []
        stream.until(lambda line: seen.append(line) or "c" in {e["id"] for e in line.get("changed", [])})
    assert not any(line.get("removed") for line in seen)
    daemon.wait_listed(["a", "b", "c"])


def test_a_bookmark_lets_a_watch_go_on_behind_what_was_compacted(cluster, server, follow):
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    daemon = follow()
    daemon.wait_listed(["a", "b"])
    server.wait_asked(is_watch)
    cluster.bookmark_every = 0.1
    cluster.tick(100)
    wait_until("it is told by a bookmark", lambda: cluster.bookmarks)
    cluster.compact()
    cluster.end_watches()
    # The end of the stream comes behind the bookmark.
    server.wait_asked(is_watch, 2)
    cluster.put(endpoint_slice("catalog-2", "catalog", [pod("c", "10.0.0.3")]))
    daemon.wait_listed(["a", "b", "c"])
    assert len(server.asked(is_list)) == 1


# apache/curator PR#261
@pytest.mark.parametrize("before", ["the next page", "the watch"])
def test_what_changes_while_it_is_read_is_not_missed(cluster, server, follow, before):
    for i in range(600):
        cluster.put(endpoint_slice(f"catalog-{i:04}", "catalog", [pod(f"p{i}", f"10.1.{i // 250}.{i % 250 + 1}")]))

    def meanwhile(request):
        cluster.put(endpoint_slice("catalog-0000", "catalog", [pod("p0", "10.1.0.1"), pod("new", "10.9.9.9")]))
        cluster.delete("catalog-0599")
        return cluster.answer(request)

    server.faults.append(Fault(meanwhile, 1, is_watch if before == "the watch" else lambda r: "continue" in r.query))
    daemon = follow()
    daemon.wait_listed([f"p{i}" for i in range(599)] + ["new"])
    assert not server.faults and len(server.asked(is_list)) == 2


def test_a_status_410_of_a_watch_leads_to_a_list(cluster, server, follow):
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    server.faults.append(Fault(lambda request: Reply(status(410, "Gone", "too old"), 410), 1, is_watch))
    daemon = follow()
    server.wait_asked(is_watch, 2)
    cluster.put(endpoint_slice("catalog-1", "catalog", [pod("b", "10.0.0.2")]))
    daemon.wait_listed(["b"])


def test_pages_that_got_too_old_are_thrown_away(cluster, server, follow):
    for i in range(600):
        cluster.put(endpoint_slice(f"catalog-{i:04}", "catalog", [pod(f"p{i}", f"10.1.{i // 250}.{i % 250 + 1}")]))
    cluster.page_age = 0
    daemon = follow()
    daemon.wait_listed([f"p{i}" for i in range(600)])
    assert "limit" not in server.asked(is_list)[-1].query


def test_a_watch_that_always_fails_at_once_is_tried_less_and_less_often(usherd, cluster, server):
    """Of many, the one in the middle waits longer for its seventh try than it did for its second."""
    server.faults.append(Fault(lambda request: Reply(status(500, "InternalError", "no"), 500), None, is_watch))
    names = [f"s{i}" for i in range(21)]
    for name in names:
        cluster.put(endpoint_slice(f"{name}-1", name, two_pods()))
    daemon = usherd({
        "sources": [{"name": name, "plugin": "kubernetes", "options": {"servers": [server.url]}} for name in names],
        "defaults": {"sources": names[:1]},
        "services": {name: {"sources": [name]} for name in names},
    }).start()

    def tries():
        asked = server.asked(is_watch)
        return [[r.time for r in asked if f"({name})" in r.query["labelSelector"]] for name in names]

    wait_until("each has failed seven times", lambda: all(len(times) >= 7 for times in tries()), deadline=180, every=0.2)
    early, late = (statistics.median(times[n] - times[n - 1] for times in tries()) for n in (1, 6))
    # What the machine adds it adds to both. Without a longer wait they differ by that alone.
    assert late - early > 0.5, (early, late)
    assert all(set(daemon.listed(name)) == {"a", "b"} for name in names)


def test_watches_that_end_by_design_go_on_without_a_list(cluster, server, follow):
    cluster.put(endpoint_slice("catalog-1", "catalog", [pod("a", "10.0.0.1")]))
    cluster.watch_ends_after = 1.1
    daemon = follow()
    daemon.wait_listed(["a"])
    for i in range(20):
        cluster.put(endpoint_slice("catalog-1", "catalog", [pod("a", "10.0.0.1", ready=bool(i % 2))]))
        wait_until("the change is seen", lambda: daemon.listed()["a"]["conditions"]["ready"] == bool(i % 2))
        time.sleep(0.25)
    server.wait_asked(is_watch, 4)
    assert len(server.asked(is_list)) == 1
    assert "rror" not in daemon.log_text() and "arning" not in daemon.log_text()


def test_events_may_come_in_any_pieces(cluster, server, follow):
    cluster.put(endpoint_slice("catalog-1", "catalog", [pod("a", "10.0.0.1")]))
    made = endpoint_slice("catalog-9", "catalog", [pod("ä{\"", "10.0.0.9")])
    made["metadata"].update(uid="nine", resourceVersion="100")
    gone = {**made, "metadata": {**made["metadata"], "resourceVersion": "101"}}
    text = Cluster.line("ADDED", made) + Cluster.line("DELETED", gone).strip() + Cluster.line("ADDED", made)
    server.faults.append(Fault(lambda request: Stream(list(text) + [""]), 1, is_watch))
    daemon = follow()
    wait_until("the last event counts", lambda: len(daemon.listed()) == 2)


@pytest.mark.parametrize("text", ["nonsense\n", "[1]\n", '{"type":"NEWS","object":{}}\n', '{"type":"ADDED","object":{}}\n',
                                  '{"type":"ADDED"', "\x00\x00"])
def test_a_watch_of_nonsense_changes_nothing(cluster, server, follow, text):
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    server.faults.append(Fault(lambda request: Stream([text]), 2, is_watch))
    daemon = follow()
    daemon.wait_listed(["a", "b"])
    server.wait_asked(is_watch, 3)
    cluster.put(endpoint_slice("catalog-2", "catalog", [pod("c", "10.0.0.3")]))
    daemon.wait_listed(["a", "b", "c"])


# ---- silence, and other histories ----


def test_a_frozen_server_is_left_for_the_other(cluster, usherd):
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    with Registry(cluster.answer) as one, Registry(cluster.answer) as two:
        daemon = usherd({"sources": [{"name": "cluster", "plugin": "kubernetes",
                                      "options": {"servers": [one.url, two.url], "prove": "500ms"}}],
                         "services": {"catalog": {}}})
        daemon.start()
        daemon.wait_listed(["a", "b"])
        first, other = (one, two) if one.asked(is_watch) else (two, one)
        first.freeze()
        cluster.put(endpoint_slice("catalog-1", "catalog", [pod("b", "10.0.0.2")]))
        other.wait_asked(is_watch)
        daemon.wait_listed(["b"])
        cluster.end_watches()
        first.thaw()


def test_a_half_open_watch_is_opened_anew(cluster, server, follow):
    """The version rises, and this watch alone says nothing."""
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    server.faults.append(Fault(lambda request: Silence(head), 1, is_watch))
    daemon = follow({"silence": "2s"})
    daemon.wait_listed(["a", "b"])
    server.wait_asked(is_watch)
    cluster.put(endpoint_slice("catalog-1", "catalog", [pod("b", "10.0.0.2")]))
    daemon.wait_listed(["b"])
    assert len(server.asked(is_watch)) >= 2 and len(server.asked(is_list)) == 1


def test_versions_that_rise_by_others_changes_disturb_nothing(cluster, server, follow):
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    cluster.bookmark_every = 0.5
    daemon = follow({"silence": "5s"})
    daemon.wait_listed(["a", "b"])
    for _ in range(35):
        cluster.tick(7)
        time.sleep(0.2)
    wait_until("it is confirmed", lambda: feed(daemon)["age_ms"] < 3500)
    assert len(server.asked(is_watch)) == 1 and len(server.asked(is_list)) == 1


def test_silence_with_the_store_gone_is_no_proof(cluster, follow):
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    daemon = follow()
    daemon.wait_listed(["a", "b"])
    cluster.store_is_down = True
    wait_until("the answer ages", lambda: feed(daemon)["age_ms"] > 3000)
    assert "504" in str(feed(daemon)) and set(daemon.listed()) == {"a", "b"}
    cluster.store_is_down = False
    wait_until("it is young again", lambda: feed(daemon)["age_ms"] < 1500)


def test_a_store_that_was_restored_is_noticed_though_the_watch_is_silent(cluster, server, follow):
    """A watch from a version that is yet to come is accepted, and says nothing."""
    cluster.version = 500
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    daemon = follow()
    daemon.wait_listed(["a", "b"])
    cluster.restore(40, [endpoint_slice("catalog-1", "catalog", [pod("a", "10.0.0.1")])])
    server.wait_asked(is_list, 2)
    assert "went from 501 back to 40" in wait_until("it is said", lambda: "back to 40" in daemon.log_text() and daemon.log_text())
    cluster.put(endpoint_slice("catalog-1", "catalog", [pod("a", "10.0.0.1"), pod("n", "10.0.0.9")]))
    wait_until("what is new is used", lambda: "n" in daemon.listed())


def test_it_recovers_unaided_from_a_server_that_dies_in_mid_list(cluster, server, follow):
    for i in range(600):
        cluster.put(endpoint_slice(f"catalog-{i:04}", "catalog", [pod(f"p{i}", f"10.1.{i // 250}.{i % 250 + 1}")]))
    ids = [f"p{i}" for i in range(600)]
    server.faults.append(Fault(lambda request: Cut(cluster.answer(request), 5000), 2, is_list))
    daemon = follow()
    daemon.wait_listed(ids)
    for turn in range(10):
        asked = len(server.asked(is_list))
        server.faults.append(Fault(lambda request: Cut(cluster.answer(request), 1000 * turn), 1, is_list))
        cluster.restore(100 - turn)
        cluster.end_watches()
        # The cut one, and the two pages of the next.
        server.wait_asked(is_list, asked + 3)
        assert set(daemon.listed()) == set(ids)
    cluster.put(endpoint_slice("catalog-0000", "catalog", [pod("p0", "10.1.0.1"), pod("new", "10.9.9.9")]))
    daemon.wait_listed(ids + ["new"])


def test_a_server_that_is_killed_and_comes_back_is_followed_again(cluster, server, follow):
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    daemon = follow()
    daemon.wait_listed(["a", "b"])
    server.stop()
    cluster.end_watches()
    cluster.put(endpoint_slice("catalog-1", "catalog", [pod("b", "10.0.0.2")]))
    wait_until("the failure is shown", lambda: "connect" in str(feed(daemon)))
    assert set(daemon.listed()) == {"a", "b"}
    server.start()
    daemon.wait_listed(["b"])
    assert len(server.asked(is_list)) == 1


# ---- who is let in ----


def test_denied_is_not_empty_and_a_new_token_is_read(cluster, server, follow, tmp_path):
    token = tmp_path / "token"
    token.write_text("old\n")
    cluster.tokens = ["old"]
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    daemon = follow({"token_file": str(token)})
    daemon.wait_listed(["a", "b"])
    cluster.tokens = ["new"]
    cluster.end_watches()
    wait_until("it is shown as denied", lambda: "401" in str(feed(daemon)))
    assert set(daemon.listed()) == {"a", "b"}
    token.write_text("new\n")
    cluster.put(endpoint_slice("catalog-1", "catalog", [pod("b", "10.0.0.2")]))
    daemon.wait_listed(["b"])
    assert "Bearer" not in daemon.log_text()


def test_forbidden_is_told_with_the_servers_words(cluster, follow):
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    cluster.denied = True
    daemon = follow(services={"catalog": {"startup_timeout": "100ms"}})
    error = wait_until("it is shown", lambda: feed(daemon)["error"])
    assert "403" in error and 'User "u" cannot list resource "endpointslices"' in error
    assert feed(daemon)["state"] == "denied"


def kubeconfig(server, user, **cluster):
    return as_yaml({"apiVersion": "v1", "kind": "Config", "current-context": "c",
                    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "shop"}}],
                    "clusters": [{"name": "k", "cluster": {"server": server.url, **cluster}}],
                    "users": [{"name": "u", "user": user}]})


def test_a_kubeconfig_says_where_and_who_and_is_followed(cluster, server, follow, tmp_path):
    path = tmp_path / "kubeconfig"
    cluster.tokens = ["one"]
    cluster.put(endpoint_slice("catalog-1", "catalog", [pod("a", "10.0.0.1")], namespace="shop"))
    path.write_text(kubeconfig(server, {"exec": {"command": "aws"}}))
    daemon = follow({"servers": None, "kubeconfig": str(path)}, {"catalog": {"startup_timeout": "100ms"}})
    wait_until("exec is refused with a reason", lambda: "exec: a program to log in with is not run" in str(feed(daemon)))
    path.write_text(kubeconfig(server, {"token": "one"}))
    daemon.wait_listed(["a"])
    cluster.tokens = ["two"]
    path.write_text(kubeconfig(server, {"token": "two"}))
    cluster.put(endpoint_slice("catalog-1", "catalog", [pod("b", "10.0.0.2")], namespace="shop"))
    daemon.wait_listed(["b"])


def test_a_pod_finds_its_cluster(cluster, usherd, tmp_path):
    """Without TLS in the scripted server it gets as far as the handshake."""
    (tmp_path / "namespace").write_text("shop")
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("none")
    daemon = usherd({"sources": [{"name": "cluster", "plugin": "kubernetes", "options": {"service_account": str(tmp_path)}}],
                     "services": {"catalog": {"startup_timeout": "100ms"}}},
                    environment={"KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "1"})
    daemon.start()
    wait_until("it is asked", lambda: "https://[::1]:1" in str(feed(daemon)))


def test_outside_of_a_cluster_it_says_what_is_missing(usherd):
    daemon = usherd({"sources": [{"name": "cluster", "plugin": "kubernetes"}],
                     "services": {"catalog": {"startup_timeout": "100ms"}}})
    daemon.start()
    wait_until("it is said", lambda: "this is no pod of a cluster" in str(feed(daemon)))


# ---- what slices hold ----


def test_a_slice_that_makes_no_sense_fails_its_service_alone(cluster, follow):
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    cluster.put(endpoint_slice("search-1", "search", [pod("s", "10.0.1.1")]))
    daemon = follow(services={"catalog": {}, "search": {}})
    daemon.wait_listed(["a", "b"])
    cluster.put(endpoint_slice("catalog-1", "catalog", [pod("a", "10.0.0.1")], ports=[{"name": "http", "port": "none"}]))
    cluster.put(endpoint_slice("search-1", "search", [pod("t", "10.0.1.2")]))
    daemon.wait_listed(["t"], "search")
    assert set(daemon.listed()) == {"a", "b"}
    assert "EndpointSlice default/catalog-1: port:" in str(feed(daemon))


@pytest.mark.parametrize("ports,endpoints", [
    ([{"name": "http"}], None), ([{}], None), (None, [{"addresses": []}]), ([], None),
])
def test_slices_without_what_is_needed_crash_nothing(cluster, follow, ports, endpoints):
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    daemon = follow()
    daemon.wait_listed(["a", "b"])
    cluster.put(endpoint_slice("catalog-1", "catalog", endpoints or two_pods(), ports=ports))
    wait_until("it is told", lambda: "none of its" in str(feed(daemon)))
    assert set(daemon.listed()) == {"a", "b"}


# ---- the Pods of this node ----

GATE, DRAINED = "usher.dev/ready", "usher.dev/drained"


@pytest.fixture
def follow_pods(cluster, follow):
    def make(**more):
        for name in "ab":
            cluster.put(whole_pod(name, uid=f"u-{name}"))
        cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
        services = {"catalog": {"restore": {"probe": {"enabled": False}},
                                "drain": {"deadline": "10m", "propagation": {"registry": "5m"}}}}
        daemon = follow({"pods": True, "node_name": "node-1"}, services, **more)
        daemon.wait_listed(["a", "b"])
        return daemon

    return make


def drains(daemon):
    return daemon.get("/v1/drains")["drains"]


def wait_condition(cluster, name, kind, *condition):
    wait_until(f"{kind} of {name} is {condition}", lambda: cluster.condition(name, kind) == condition)


def annotate(cluster, name, value):
    annotations = {"annotations": {"usher.dev/drain": value}} if value is not None else {}
    cluster.put(whole_pod(name, uid=f"u-{name}", **annotations))


def shown(cluster, **state):
    cluster.put(endpoint_slice("catalog-1", "catalog", [pod("a", "10.0.0.1", **state), pod("b", "10.0.0.2")]))


def test_an_annotated_pod_is_drained_and_told_and_comes_back(cluster, follow_pods):
    daemon = follow_pods()
    annotate(cluster, "a", "kernel update")
    wait_condition(cluster, "a", GATE, "False", "Deregistered")
    wait_condition(cluster, "a", DRAINED, "False", "Propagation")
    assert daemon.picked() == {"b"}
    shown(cluster, ready=False)
    wait_condition(cluster, "a", DRAINED, "True", "Drained")
    (drain,) = drains(daemon)
    assert "kernel update" in drain["reason"] and not drain["partial"]
    wait_until("there is an Event", lambda: "Drained" in {e["reason"] for _, e in cluster.events_told})
    space, event = next((s, e) for s, e in cluster.events_told if e["reason"] == "Drained")
    assert (space, event["type"], event["involvedObject"]["uid"]) == ("default", "Normal", "u-a")
    annotate(cluster, "a", None)
    wait_condition(cluster, "a", GATE, "True", "Ready")
    shown(cluster)
    wait_until("a is back", lambda: daemon.picked() == {"a", "b"})
    wait_condition(cluster, "a", DRAINED, "False", "DrainCancelled")


def test_a_deleted_pod_is_drained_and_one_of_its_name_is_not(cluster, follow_pods):
    daemon = follow_pods()
    cluster.put(whole_pod("a", uid="u-a", deletionTimestamp="2099-01-01T00:00:00Z"))
    wait_until("it is drained", lambda: drains(daemon))
    shown(cluster, ready=False, serving=True, terminating=True)
    wait_condition(cluster, "a", DRAINED, "True", "Drained")
    assert cluster.condition("a", GATE) is None  # the cluster knows that it goes
    cluster.delete("a", kind="pods")
    cluster.put(whole_pod("a", uid="u-new"))
    shown(cluster, uid="u-new")
    wait_until("its successor is picked", lambda: daemon.picked() == {"a", "b"})
    assert len(drains(daemon)) == 1


def test_pods_of_other_nodes_and_annotations_that_say_false_are_left_alone(cluster, follow_pods):
    daemon = follow_pods()
    cluster.put(whole_pod("a", node="node-2", uid="u-a", annotations={"usher.dev/drain": "x"}))
    annotate(cluster, "b", "false")
    cluster.put(endpoint_slice("catalog-2", "catalog", [pod("c", "10.0.0.3")]))
    daemon.wait_listed(["a", "b", "c"])
    annotate(cluster, "b", "yes")
    wait_until("b is drained", lambda: [d["endpoint"] for d in drains(daemon)] == ["b"])


def test_pods_that_may_not_be_read_are_no_trouble_for_services(cluster, follow_pods):
    cluster.pods_denied = True
    daemon = follow_pods()
    wait_until("it is said", lambda: 'cannot list resource "pods"; allow list and watch of pods' in daemon.log_text())
    assert not feed(daemon)["error"]
    annotate(cluster, "a", "test")
    cluster.pods_denied = False
    wait_until("it is said", lambda: "are followed again" in daemon.log_text())
    wait_until("a is drained", lambda: daemon.picked() == {"b"})


def test_a_status_that_cannot_be_written_is_tried_again(cluster, server, follow_pods):
    daemon = follow_pods()
    server.faults.append(Fault(lambda request: Reply(status(500, "InternalError", "no"), 500), 2,
                               lambda request: request.method == "PATCH"))
    annotate(cluster, "a", "test")
    wait_condition(cluster, "a", GATE, "False", "Deregistered")
    shown(cluster, ready=False)
    wait_condition(cluster, "a", DRAINED, "True", "Drained")
    assert daemon.picked() == {"b"}


# ---- what befalls a set of endpoints ----


def test_what_goes_and_comes_back_at_once_is_never_missed(cluster, follow):
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    daemon = follow({"settle": "20s"})
    daemon.wait_listed(["a", "b"])
    with daemon.watch() as stream:
        cluster.delete("catalog-1")
        cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
        cluster.put(endpoint_slice("catalog-2", "catalog", [pod("c", "10.0.0.3")]))
        seen = []
        stream.until(lambda line: seen.append(line) or "c" in {e["id"] for e in line.get("changed", [])})
    assert not any(line.get("removed") for line in seen)
    daemon.wait_listed(["a", "b", "c"])


def test_a_set_that_is_swapped_whole_leaves_no_moment_without_any(cluster, follow):
    """As when a Service's selector is edited under traffic, and edited back."""
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    daemon = follow(services={"catalog": {"removal_guard": {"share": "100%"}}})
    daemon.wait_listed(["a", "b"])
    with daemon.watch() as stream:
        listed = {e["id"] for e in stream.next()["endpoints"]}
        for pods in ([pod("x", "10.0.1.1"), pod("y", "10.0.1.2")], two_pods()):
            cluster.put(endpoint_slice("catalog-1", "catalog", pods))
            wanted = {one["targetRef"]["name"] for one in pods}
            while listed != wanted:
                line = stream.next()
                listed = (listed | {e["id"] for e in line.get("changed", [])}) - set(line.get("removed", []))
                assert listed


def test_an_address_that_is_used_again_is_another_endpoint(cluster, follow):
    cluster.put(endpoint_slice("catalog-1", "catalog", [pod("a", "10.0.0.1"), pod("b", "10.0.0.2")], labels={"team": "old"}))
    daemon = follow()
    daemon.wait_listed(["a", "b"])
    cluster.put(endpoint_slice("catalog-1", "catalog", [pod("a", "10.0.0.1", uid="u-2", zone="west"), pod("b", "10.0.0.2")],
                               labels={"team": "new"}))
    wait_until("it is another", lambda: everything(daemon)["a"]["uid"] == "u-2")
    one = everything(daemon)["a"]
    assert (one["zone"], one["metadata"]["team"]) == ("west", "new")


def test_a_store_that_comes_back_empty_empties_nothing(cluster, server, follow):
    names = [f"s{i}" for i in range(30)]
    for name in names:
        cluster.put(endpoint_slice(f"{name}-1", name, two_pods()))
    daemon = follow(services={name: {} for name in names})
    for name in names:
        daemon.wait_listed(["a", "b"], name)
    cluster.restore(3, [])
    for name in names:
        wait_until("its removal is held back", lambda: feed(daemon, name)["held"])
        assert set(daemon.listed(name)) == {"a", "b"}


def test_reloads_leave_no_watch_behind(cluster, server, follow):
    cluster.put(endpoint_slice("catalog-1", "catalog", two_pods()))
    daemon = follow()
    daemon.wait_listed(["a", "b"])
    whole = yaml.safe_load(daemon.config_path.read_text())

    def descriptors():
        return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))

    counts = []
    for turn in range(12):
        extra = {f"more-{turn}-{i}": {"startup_timeout": "10ms"} for i in range(5)}
        daemon.write_config(as_yaml({**whole, "services": {"catalog": {}, **extra}}))
        asked = len(server.asked(is_watch))
        daemon.reload()
        server.wait_asked(is_watch, asked + 1)
        counts.append(descriptors())
    wait_until("as few are open as before", lambda: descriptors() <= max(counts[:3]) + 1)
    daemon.wait_listed(["a", "b"])


# hashicorp/consul-template#1086
def test_more_namespaces_than_connections_are_all_followed(cluster, server, follow):
    names = [f"n{i}" for i in range(12)]
    for name in names:
        cluster.put(endpoint_slice("catalog-1", "catalog", two_pods(), namespace=name))
    daemon = follow({"connections": 4}, {n: {"sources": [{"source": "cluster", "name": f"{n}/catalog"}]} for n in names})
    for name in names:
        daemon.wait_listed(["a", "b"], name)
        cluster.put(endpoint_slice("catalog-2", "catalog", [pod("c", "10.0.0.3")], namespace=name))
    for name in names:
        daemon.wait_listed(["a", "b", "c"], name)
    assert server.most_open <= 4
    daemon.wait_said("too many namespaces, 12, to watch each")
    wait_until("all are proven", lambda: all(feed(daemon, name)["age_ms"] < 3000 for name in names))


def test_a_pod_of_two_services_is_drained_when_it_is_so_in_both(cluster, follow):
    cluster.put(whole_pod("a", uid="u-a"))
    for name in ("catalog", "search"):
        cluster.put(endpoint_slice(f"{name}-1", name, two_pods()))
    both = {"restore": {"probe": {"enabled": False}}, "drain": {"deadline": "10m", "propagation": {"registry": "5m"}}}
    daemon = follow({"pods": True, "node_name": "node-1"}, {"catalog": both, "search": both})
    for name in ("catalog", "search"):
        daemon.wait_listed(["a", "b"], name)
    annotate(cluster, "a", "test")
    shown(cluster, ready=False)
    done = wait_until("one drain is done", lambda: [d for d in drains(daemon) if d["state"] == "done"])
    assert [d["service"] for d in done] == ["catalog"]
    wait_condition(cluster, "a", DRAINED, "False", "Propagation")
    cluster.put(endpoint_slice("search-1", "search", [pod("a", "10.0.0.1", ready=False), pod("b", "10.0.0.2")]))
    wait_condition(cluster, "a", DRAINED, "True", "Drained")


def test_a_registration_opens_the_gate_after_its_first_good_check(cluster, follow_pods, open_port):
    registration = {"service": "catalog", "id": "a", "address": "127.0.0.1", "port": open_port,
                    "health": {"tcp": {}, "interval": "100ms"}}
    follow_pods(registrations=[registration])
    wait_condition(cluster, "a", GATE, "True", "Registered")
