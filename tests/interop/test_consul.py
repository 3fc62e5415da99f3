"""The real usherd against a real Consul."""

# Needs from Debian: debian-archive-keyring dpkg

import concurrent.futures
import time

import pytest
from consul_agents import ConsulCluster, ConsulServer
from usher import DEADLINE, wait_until

SERVER = "Consul 1.8.7 of Debian 11, one server, and three with an agent"


@pytest.fixture
def consul(tmp_path):
    with ConsulServer(tmp_path / "consul") as server:
        yield server


@pytest.fixture
def guarded(tmp_path):
    """With ACLs that deny what no token allows."""
    with ConsulServer(tmp_path / "consul", acl=True) as server:
        yield server


@pytest.fixture
def cluster(tmp_path):
    with ConsulCluster(tmp_path) as servers:
        yield servers


def start(usherd, consul, hold="30s", options=None, **service):
    daemon = usherd({
        "sources": [{"name": "consul", "plugin": "consul",
                     "options": {"servers": [consul.url], "wait": "2s", "hold": hold, **(options or {})}}],
        "services": {"catalog": {"freshness": {"max_age": "10s", "on_stale": "serve"}, **service}},
    })
    daemon.start()
    return daemon


def feed(daemon):
    return daemon.get("/v1/services/catalog")["feeds"][0]


def freshness(daemon):
    return daemon.get("/v1/services/catalog/endpoints")["freshness"]["state"]


def test_appear_change_drain_restore_disappear(usherd, consul, open_port):
    consul.put("catalog", "a", open_port, Meta={"version": "1"}, Tags=["zone=east"], Weights={"Passing": 7, "Warning": 1})
    daemon = start(usherd, consul)
    daemon.wait_listed(["a"])
    assert daemon.listed()["a"]["weight"] == 7
    assert daemon.listed()["a"]["zone"] == "east"
    consul.put("catalog", "b", 8002)
    daemon.wait_listed(["a", "b"])
    consul.put("catalog", "a", open_port, Meta={"version": "2"})
    wait_until("the version is 2", lambda: daemon.listed()["a"]["metadata"].get("version") == "2")

    drain = daemon.drain("a")
    daemon.wait_finished(drain["id"])
    assert daemon.picked() == {"b"}
    checks = consul.call("GET", "/v1/agent/checks")
    assert checks["_service_maintenance:a"]["Notes"] == "usher: draining"
    daemon.restore("a")
    wait_until("a is back", lambda: daemon.picked() == {"a", "b"})
    assert not consul.call("GET", "/v1/agent/checks")
    assert consul.call("GET", "/v1/agent/service/a")["Meta"] == {"version": "2"}

    consul.take("a")
    daemon.wait_listed(["b"])


def test_checks_and_maintenance_of_consul(usherd, consul):
    consul.put("catalog", "a", 8001, ttl="60s")
    consul.put("catalog", "b", 8002, ttl="60s")
    daemon = start(usherd, consul)
    daemon.wait_listed(["a", "b"])
    consul.beat("a", "critical")
    wait_until("only b is picked", lambda: daemon.picked() == {"b"})
    consul.beat("a")
    wait_until("both are picked", lambda: daemon.picked() == {"a", "b"})
    consul.maintain("a", "disk")
    wait_until("only b is picked", lambda: daemon.picked() == {"b"})
    consul.maintain("a", None)
    wait_until("both are picked", lambda: daemon.picked() == {"a", "b"})
    consul.call("PUT", "/v1/agent/maintenance?enable=true&reason=kernel")
    states = wait_until("all are in maintenance", lambda: [
        e for e in daemon.get("/v1/services/catalog/endpoints?all=true")["endpoints"] if e["admin_state"] == "maintenance"])
    assert len(states) in (1, 2)
    consul.call("PUT", "/v1/agent/maintenance?enable=false")
    wait_until("both are picked", lambda: daemon.pick().status == 200 and daemon.picked() == {"a", "b"})


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_restart_loses_nothing(usherd, consul, report, how):
    for i, name in enumerate("abc"):
        consul.put("catalog", name, 8001 + i, ttl="60s")
    daemon = start(usherd, consul)
    daemon.wait_listed(["a", "b", "c"])
    with report.nothing_lost(daemon, "abc", how):
        consul.kill() if how == "killed" else consul.stop()
        wait_until("it fails", lambda: feed(daemon)["error"])
        consul.start()
        wait_until("it is live", lambda: feed(daemon)["state"] == "live" and not feed(daemon)["error"])
        # The checks with a TTL are critical now, until somebody gives a sign of life.
        wait_until("it is held", lambda: feed(daemon)["held"])
        time.sleep(3)
        for name in "abc":
            consul.beat(name)
        wait_until("nothing is held", lambda: not feed(daemon)["held"])
        assert daemon.picked() == {"a", "b", "c"}


def test_a_frozen_server_loses_nothing_and_is_noticed(usherd, consul, report):
    consul.put("catalog", "a", 8001)
    daemon = start(usherd, consul)
    daemon.wait_listed(["a"])
    with report.nothing_lost(daemon, "a", "frozen (SIGSTOP)"):
        consul.freeze()
        wait_until("it is noticed", lambda: feed(daemon)["error"])
        consul.thaw()
        wait_until("it is live", lambda: not feed(daemon)["error"])
    consul.put("catalog", "b", 8002)
    daemon.wait_listed(["a", "b"])


def test_a_wiped_server_loses_nothing_for_the_time_of_the_guard(usherd, consul, report):
    consul.put("catalog", "a", 8001)
    consul.put("catalog", "b", 8002)
    daemon = start(usherd, consul)
    daemon.wait_listed(["a", "b"])
    with report.nothing_lost(daemon, "ab", "wiped"):
        consul.kill()
        consul.wipe()
        consul.start()
        wait_until("it is held", lambda: feed(daemon)["held"])
        consul.put("catalog", "a", 8001)
        consul.put("catalog", "b", 8002)
        wait_until("nothing is held", lambda: not feed(daemon)["held"])


def registering(usherd, consul):
    daemon = usherd({
        "sources": [{"name": "consul", "plugin": "consul",
                     "options": {"servers": [consul.url], "wait": "2s", "ttl": "3s", "deregister_after": "1m"}}],
        "services": {"catalog": {"freshness": {"max_age": "10s", "on_stale": "serve"}}},
        "registrations": [{"service": "catalog", "id": "a", "address": "127.0.0.1", "port": 8080,
                           "metadata": {"version": "1"}}],
    })
    daemon.start()
    wait_until("it is registered", lambda: status_of(consul) == "passing")
    return daemon


def status_of(consul, name="a"):
    """What a consumer of Consul sees of it: the worst of its checks; None: it is not there."""
    for instance in consul.call("GET", "/v1/health/service/catalog"):
        if instance["Service"]["ID"] == name:
            states = [check["Status"] for check in instance["Checks"]]
            return "critical" if "critical" in states else "passing"
    return None


def test_what_usher_registers_is_kept_alive_and_comes_back_when_it_is_lost(usherd, consul):
    daemon = registering(usherd, consul)
    daemon.wait_listed(["a"])
    assert consul.call("GET", "/v1/agent/service/a")["Meta"] == {
        "version": "1", "zone": "east", "registered-by": "usher"}
    consul.take("a")
    wait_until("it is registered again", lambda: status_of(consul) == "passing")
    consul.kill()
    consul.wipe()
    consul.start()
    wait_until("it is registered again", lambda: status_of(consul) == "passing")
    daemon.wait_listed(["a"])


def test_a_restart_of_usherd_leaves_no_gap_and_its_end_does(usherd, consul):
    daemon = registering(usherd, consul)
    daemon.restart()
    wait_until("it is kept alive", lambda: daemon.get("/v1/registrations")["registrations"][0]["state"] == "registered")
    assert status_of(consul) == "passing"
    daemon.kill()
    wait_until("it is critical", lambda: status_of(consul) == "critical")
    daemon.start()
    wait_until("it passes again", lambda: status_of(consul) == "passing")


READER = 'service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }'


@pytest.mark.parametrize("rules", ['service_prefix "" { policy = "read" }', 'node_prefix "" { policy = "read" }'])
def test_a_token_that_may_not_see_is_a_denial(usherd, guarded, report, tmp_path, rules):
    guarded.put("catalog", "a", 8001)
    token = tmp_path / "token"
    token.write_text(guarded.new_token("reader", READER))
    daemon = start(usherd, guarded, options={"token_file": str(token)})
    daemon.wait_listed(["a"])
    with report.nothing_lost(daemon, "a", "rights and token taken away"):
        token.write_text(guarded.new_token("weak", rules))
        # A query that is waiting goes on with the token that it was sent with.
        wait_until("it is denied", lambda: "node:read" in (feed(daemon)["error"] or ""))
        token.write_text("99999999-9999-9999-9999-999999999999")
        wait_until("it is denied", lambda: "ACL not found" in (feed(daemon)["error"] or ""))
        token.write_text(guarded.new_token("again", READER))
        wait_until("it is live", lambda: not feed(daemon)["error"])


def register_three(agent):
    for i, name in enumerate("abc"):
        agent.put("catalog", name, 8001 + i)


@pytest.mark.parametrize("fault", ["its leader killed", "its leader frozen"])
def test_another_leader_is_found_and_nothing_is_lost(usherd, cluster, report, fault):
    register_three(cluster.agent)
    daemon = start(usherd, cluster.agent)
    daemon.wait_listed(["a", "b", "c"])
    with report.nothing_lost(daemon, "abc", fault):
        leader = cluster.leader()
        leader.kill() if fault.endswith("killed") else leader.freeze()
        wait_until("another leads", lambda: is_led_by_another(cluster, leader))
        wait_until("it is written", lambda: is_written(cluster.agent, "d", 8004), 3 * DEADLINE)
        daemon.wait_listed(["a", "b", "c", "d"])
        wait_until("it is live", lambda: feed(daemon)["state"] == "live" and not feed(daemon)["error"])
        leader.start(wait=False) if fault.endswith("killed") else leader.thaw()
        cluster.wait_ready()


def is_led_by_another(cluster, leader):
    try:
        return cluster.leader() is not leader
    except (OSError, StopIteration):
        return False


def is_written(agent, name, port):
    """The agent goes on asking the frozen server for as long as it believes that it lives."""
    try:
        agent.put("catalog", name, port)
        return True
    except OSError:
        return False


def test_without_a_majority_nothing_is_proven_and_nothing_lost(usherd, cluster, report):
    register_three(cluster.agent)
    daemon = start(usherd, cluster.agent)
    daemon.wait_listed(["a", "b", "c"])
    with report.nothing_lost(daemon, "abc", "without a majority"):
        killed = cluster.servers[1:]
        for server in killed:
            server.kill()
        wait_until("it is stale", lambda: freshness(daemon) == "stale")
        wait_until("it says why", lambda: feed(daemon)["error"])
        for server in killed:
            server.start(wait=False)
        cluster.wait_ready()
        wait_until("it is live", lambda: feed(daemon)["state"] == "live" and not feed(daemon)["error"])
    cluster.agent.take("c")
    daemon.wait_listed(["a", "b"])


def test_an_agent_whose_servers_are_all_gone_is_not_believed(usherd, cluster, report):
    register_three(cluster.agent)
    daemon = start(usherd, cluster.agent)
    daemon.wait_listed(["a", "b", "c"])
    with report.nothing_lost(daemon, "abc", "its servers all gone"):
        for server in cluster.servers:
            server.kill()
        wait_until("it is stale", lambda: freshness(daemon) == "stale")
        for server in cluster.servers:
            server.start(wait=False)
        cluster.wait_ready()
        wait_until("it is live", lambda: feed(daemon)["state"] == "live" and not feed(daemon)["error"])


def test_the_time_from_a_write_to_the_watchers_line(usherd, consul, report):
    consul.put("catalog", "a", 8001)
    daemon = start(usherd, consul)
    daemon.wait_listed(["a"])
    times = []
    with daemon.watch() as stream:
        stream.next()
        for i in range(60):
            # As changes come in a rollout: the bucket that holds back a storm is not what is measured.
            time.sleep(0.3)
            before = time.monotonic()
            consul.put("catalog", "a", 8001, Meta={"round": f"r{i}"})
            stream.until(lambda line: f'r{i}"' in str(line).replace("'", '"'))
            times.append((time.monotonic() - before) * 1000)
    report.times(times)


def load(consul, services, endpoints):
    """Through transactions, several at once: the agent's own way takes one write an instance."""
    for n in range(endpoints):
        consul.call("PUT", "/v1/catalog/register", {"Node": f"node-{n}", "Address": f"10.0.0.{n + 1}"})
    verbs = [{"Service": {"Verb": "set", "Node": f"node-{n}", "Service": {
        "ID": f"s{s}-{n}", "Service": f"s{s}", "Address": f"10.1.0.{n + 1}", "Port": 8080}}}
        for s in range(services) for n in range(endpoints)]
    batches = [verbs[at:at + 64] for at in range(0, len(verbs), 64)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda batch: consul.call("PUT", "/v1/txn", batch), batches))


def test_a_thousand_services_of_a_hundred_endpoints(usherd, consul, report):
    load(consul, 1000, 100)
    names = [f"s{s}" for s in range(1000)]
    began = time.monotonic()
    daemon = usherd({
        "sources": [{"name": "consul", "plugin": "consul", "options": {"servers": [consul.url], "poll": "10s"}}],
        "defaults": {"freshness": {"max_age": "60s"}, "startup_timeout": "1s"},
        "services": {name: {} for name in names},
    }).start()
    wait_until("all are listed", lambda: all(
        service["endpoints"]["listed"] == 100 for service in daemon.get("/v1/services")["services"]), 180, every=0.5)
    report.fact("1,000 services of 100 endpoints listed after", f"{time.monotonic() - began:.0f} s")
    with daemon.watch("s500") as stream:
        assert len(stream.next()["endpoints"]) == 100
        consul.call("PUT", "/v1/catalog/deregister", {"Node": "node-7", "ServiceID": "s500-7"})
        assert stream.until(lambda line: line["type"] == "update")["removed"] == ["s500-7"]
    assert all(len(daemon.listed(name)) == 100 for name in names[::97])
