"""The real usherd against an agent of Consul that is played, in good order and in bad."""

import pathlib

import pytest
from scripted_consul import Consul
from scripted_registry import Cut, Fault, Flood, Raw, Redirect, Reply, Reset, Silence, Slow
from usher import wait_until


@pytest.fixture
def agent():
    with Consul() as registry:
        yield registry


def start(usherd, agent, wait="1s", guard=None, max_age="60s", **options):
    daemon = usherd({
        "sources": [{"name": "consul", "plugin": "consul", "options": {"servers": [agent.url], "wait": wait, "poll": "1s", **options}}],
        "services": {"catalog": {"freshness": {"max_age": max_age, "on_stale": "serve"}, **(guard or {})}},
    })
    daemon.start()
    return daemon


def feed(daemon):
    return daemon.get("/v1/services/catalog")["feeds"][0]


def wait_failed(daemon, text):
    return wait_until(f"it fails with {text}", lambda: text in (feed(daemon)["error"] or ""))


def wait_live(daemon):
    return wait_until("it is live", lambda: feed(daemon)["state"] == "live" and not feed(daemon)["error"])


def test_instances_appear_change_and_disappear(usherd, agent):
    agent.put("catalog", "a", "b")
    daemon = start(usherd, agent)
    daemon.wait_listed(["a", "b"])
    with daemon.watch() as stream:
        stream.next()
        agent.put("catalog", "c")
        stream.until(lambda line: "c" in str(line))
    daemon.wait_listed(["a", "b", "c"])
    agent.take("catalog", "a")
    daemon.wait_listed(["b", "c"])


def test_maintenance_in_consul_is_a_state_and_no_ill_health(usherd, agent):
    agent.put("catalog", "a", "b")
    daemon = start(usherd, agent)
    daemon.wait_listed(["a", "b"])
    agent.maintain("catalog", "a", "disk")
    wait_until("only b is picked", lambda: daemon.picked() == {"b"})
    states = {e["id"]: e for e in daemon.get("/v1/services/catalog/endpoints?all=true")["endpoints"]}
    assert states["a"]["admin_state"] == "maintenance"
    assert states["a"]["conditions"]["ready"]
    agent.maintain("catalog", "a", None)
    wait_until("a is back", lambda: daemon.picked() == {"a", "b"})


MISBEHAVIOURS = {
    "500": lambda request: Reply("No cluster leader", 500),
    "503": lambda request: Reply("", 503),
    "400": lambda request: Reply("Invalid index", 400),
    "reset": lambda request: Reset(),
    "closed": lambda request: Raw(),
    "half a head": lambda request: Raw(b"HTTP/1.1 200"),
    "cut": lambda request: Cut(Reply('[{"Node":{"Node":"n1"}}]'), 10),
    "no http": lambda request: Raw(b"\x00\x01\x02\r\n\r\n"),
    "no json": lambda request: Reply("<html>", 200, {"X-Consul-Index": 12, "X-Consul-Knownleader": "true", "X-Consul-Lastcontact": "0"}),
    "another document": lambda request: Reply("{}", 200, {"X-Consul-Index": 12, "X-Consul-Knownleader": "true", "X-Consul-Lastcontact": "0"}),
    "redirected": lambda request: Redirect("http://127.0.0.1:1/"),
    "endless head": lambda request: Flood(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1000),
    "not a header of consul": lambda request: Reply("[]"),
    "denied": lambda request: Reply("Permission denied", 403),
}


@pytest.mark.parametrize("name", MISBEHAVIOURS)
def test_whatever_goes_wrong_empties_nothing_and_is_got_over(usherd, agent, name):
    agent.put("catalog", "a", "b")
    daemon = start(usherd, agent)
    daemon.wait_listed(["a", "b"])
    fault = Fault(MISBEHAVIOURS[name], times=None, when=lambda request: "/health/" in request.path)
    agent.faults.append(fault)
    wait_until("it fails", lambda: feed(daemon)["error"])
    assert set(daemon.listed()) == {"a", "b"}
    agent.faults.remove(fault)
    agent.put("catalog", "c")
    daemon.wait_listed(["a", "b", "c"])
    wait_live(daemon)


def test_a_single_500_is_over_with_the_next_change(usherd, agent):
    agent.put("catalog", "a")
    daemon = start(usherd, agent)
    daemon.wait_listed(["a"])
    agent.faults.append(Fault(lambda request: Reply("", 500), when=lambda request: "/health/" in request.path))
    wait_until("it is used up", lambda: not agent.faults)
    agent.put("catalog", "b")
    daemon.wait_listed(["a", "b"])


def test_slow_bytes_are_an_answer(usherd, agent):
    agent.put("catalog", "a")
    agent.faults.append(Fault(lambda request: Slow(agent.say(request), 64, 0.01), times=3))
    start(usherd, agent).wait_listed(["a"])


def test_an_election_with_empty_stale_answers_empties_nothing(usherd, agent):
    agent.put("catalog", "a", "b")
    daemon = start(usherd, agent)
    daemon.wait_listed(["a", "b"])
    agent.faults.append(Fault(lambda request: Reply([], headers={
        "X-Consul-Index": 9, "X-Consul-Knownleader": "false", "X-Consul-Lastcontact": "60000"}),
        times=None, when=lambda request: "/health/" in request.path))
    wait_failed(daemon, "have no leader")
    assert set(daemon.listed()) == {"a", "b"}
    agent.faults.clear()
    wait_live(daemon)


@pytest.mark.parametrize("headers", [{}, {"X-Consul-Results-Filtered-By-Acls": "true"}])
def test_what_acls_leave_out_is_a_denial(usherd, agent, headers):
    agent.put("catalog", "a", "b")
    daemon = start(usherd, agent)
    daemon.wait_listed(["a", "b"])
    saved = dict(agent.instances)
    with agent.change():
        agent.instances.clear()
        agent.headers = headers
    wait_failed(daemon, "node:read")
    assert set(daemon.listed()) == {"a", "b"}
    with agent.change():
        agent.instances.update(saved)
        agent.headers = {}
    wait_live(daemon)


def test_an_agent_that_was_restarted_and_knows_less_is_doubted(usherd, agent):
    agent.put("catalog", "a", "b", "c", "d")
    daemon = start(usherd, agent)
    daemon.wait_listed(["a", "b", "c", "d"])
    agent.stop()
    wait_until("it fails", lambda: feed(daemon)["error"])
    agent.take("catalog", "a")  # less than the guard's share
    agent.start()
    wait_until("it is held", lambda: feed(daemon)["held"])
    assert set(daemon.listed()) == {"a", "b", "c", "d"}
    agent.put("catalog", "a")
    wait_until("nothing is held", lambda: not feed(daemon)["held"])
    assert set(daemon.listed()) == {"a", "b", "c", "d"}


def test_all_that_are_critical_at_once_stay(usherd, agent):
    agent.put("catalog", "a", "b")
    daemon = start(usherd, agent)
    daemon.wait_listed(["a", "b"])
    agent.put("catalog", "a", "b", status="critical")
    wait_until("it is held", lambda: feed(daemon)["held"])
    assert daemon.picked() == {"a", "b"}
    agent.put("catalog", "a", "b")
    wait_until("nothing is held", lambda: not feed(daemon)["held"])


# kubernetes/kubernetes#65012
@pytest.mark.parametrize("how", ["stop", "freeze"])
def test_the_next_server_takes_over(usherd, agent, how):
    with Consul() as second:
        for server in (agent, second):
            server.put("catalog", "a", "b")
        daemon = start(usherd, agent, servers=[agent.url, second.url])
        daemon.wait_listed(["a", "b"])
        first, other = (agent, second) if agent.asked() else (second, agent)
        getattr(first, how)()
        other.put("catalog", "c")
        daemon.wait_listed(["a", "b", "c"])
        wait_live(daemon)
        first.thaw()


def test_an_agent_that_freezes_is_noticed(usherd, agent):
    agent.put("catalog", "a")
    daemon = start(usherd, agent)
    daemon.wait_listed(["a"])
    agent.freeze()
    wait_until("it fails", lambda: feed(daemon)["error"])
    assert set(daemon.listed()) == {"a"}
    agent.thaw()
    agent.put("catalog", "b")
    daemon.wait_listed(["a", "b"])


def test_silence_behind_a_head_is_noticed(usherd, agent):
    agent.put("catalog", "a")
    daemon = start(usherd, agent)
    daemon.wait_listed(["a"])
    fault = Fault(lambda request: Silence(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n["), times=None)
    agent.faults.append(fault)
    wait_until("it fails", lambda: feed(daemon)["error"])
    agent.faults.remove(fault)
    agent.put("catalog", "b")
    daemon.wait_listed(["a", "b"])


def test_the_index_is_never_sent_that_was_never_given(usherd, agent):
    agent.put("catalog", "a")
    agent.headers = {"X-Consul-Index": None}
    daemon = start(usherd, agent)
    daemon.wait_listed(["a"])
    agent.wait_asked(lambda request: request.path.endswith("/catalog"), 3)
    assert not agent.asked(lambda request: "index" in request.query)
    agent.headers = {}
    agent.wait_asked(lambda request: "index" in request.query)


def test_a_thousand_wake_ups_for_nothing_tell_consumers_nothing(usherd, agent):
    agent.put("catalog", "a")
    daemon = start(usherd, agent)
    daemon.wait_listed(["a"])
    revision = daemon.get("/v1/services/catalog")["revision"]
    before = len(agent.requests)
    for _ in range(1000):
        with agent.change():
            pass
    agent.wait_asked(lambda request: request.path.endswith("/catalog"), before + 4)
    assert daemon.get("/v1/services/catalog")["revision"] == revision


def test_more_services_than_connections_are_all_looked_after(usherd, agent):
    names = [f"s{i}" for i in range(30)]
    for name in names:
        agent.put(name, f"{name}-1")
    daemon = usherd({
        "sources": [{"name": "consul", "plugin": "consul", "options": {"servers": [agent.url], "poll": "1s", "wait": "2s", "connections": 4}}],
        "services": {name: {} for name in names},
    })
    daemon.start()
    for name in names:
        daemon.wait_listed([f"{name}-1"], name)
        agent.put(name, f"{name}-2")
    for name in names:
        daemon.wait_listed([f"{name}-1", f"{name}-2"], name)
    assert agent.most_open <= 4


def test_a_token_is_read_again_when_its_file_changes(usherd, agent, tmp_path):
    agent.token = "one"
    agent.put("catalog", "a")
    path = tmp_path / "token"
    path.write_text("one\n")
    daemon = start(usherd, agent, token_file=str(path))
    daemon.wait_listed(["a"])
    agent.token = "two"
    wait_failed(daemon, "ACL not found")
    path.write_text("two\n")
    agent.put("catalog", "b")
    daemon.wait_listed(["a", "b"])
    assert "two" not in daemon.log_text()


def test_a_drain_is_maintenance_at_the_agent(usherd, agent, open_port):
    agent.put("catalog", "a", port=open_port)
    agent.put("catalog", "b")
    daemon = start(usherd, agent)
    daemon.wait_listed(["a", "b"])
    drain = daemon.drain("a")
    agent.wait_asked(lambda request: request.path == "/v1/agent/service/maintenance/a" and request.query["enable"] == "true")
    wait_until("a is draining", lambda: daemon.picked() == {"b"})
    assert daemon.wait_finished(drain["id"])
    daemon.restore("a")
    agent.wait_asked(lambda request: request.path == "/v1/agent/service/maintenance/a" and request.query["enable"] == "false")
    wait_until("a is back", lambda: daemon.picked() == {"a", "b"})


def test_the_names_of_services_are_known(usherd, agent):
    agent.put("catalog", "a")
    agent.put("search", "s")
    daemon = start(usherd, agent)
    wait_until("it knows three", lambda: daemon.get("/v1/sources")["sources"][0]["known"] == 3)


def test_reloads_leave_no_connections_and_descriptors_behind(usherd, agent):
    names = [f"s{i}" for i in range(40)]
    for name in names:
        agent.put(name, "a")

    def config(services):
        return {"sources": [{"name": "consul", "plugin": "consul", "options": {"servers": [agent.url], "wait": "30s"}}],
                "services": {name: {} for name in services}}

    daemon = usherd(config(names)).start()
    for name in names:
        daemon.wait_listed(["a"], name)
    fds = pathlib.Path(f"/proc/{daemon.process.pid}/fd")
    before = len(list(fds.iterdir()))
    for i in range(25):
        for services in (names[:1], names):
            daemon.configure(config(services))
            daemon.reload()
    for name in names:
        daemon.wait_listed(["a"], name)
    # A connection or two may be kept for another time.
    wait_until("there are no more than before", lambda: len(list(fds.iterdir())) <= before + 5)
