"""Discovery and registration in a real etcd."""

# Needs from Debian: debian-archive-keyring dpkg

import json
import signal
import threading
import time

import pytest
from etcd_members import Etcd, b64, instance
from usher import wait_until

SERVER = "etcd 3.4.23 of Debian 12, one member and three"


@pytest.fixture
def etcd(tmp_path):
    with Etcd(tmp_path / "etcd") as one:
        yield one


@pytest.fixture
def three(tmp_path):
    with Etcd(tmp_path / "three", 3) as cluster:
        yield cluster


def config(etcd, services=("catalog",), drain=None, **options):
    return {
        "sources": [{"name": "registry", "plugin": "etcd",
                     "options": {"servers": etcd.urls, "probe": "1s", **options}}],
        "defaults": {"sources": ["registry"], "freshness": {"max_age": "5s"},
                     "removal_guard": {"share": "60%", "hold": "20s"}},
        "services": {name: {"drain": drain} if drain else {} for name in services},
    }


def freshness(daemon, service="catalog"):
    return daemon.get(f"/v1/services/{service}/endpoints")["freshness"]


def is_fresh(daemon):
    return lambda: freshness(daemon)["state"] == "live"


def test_endpoints_appear_change_and_disappear(etcd, usherd):
    etcd.put("catalog", "a", instance(8080, zone="east", weight=3, metadata={"tier": "gold"}))
    daemon = usherd(config(etcd)).start()
    daemon.wait_listed({"a"})
    listed = daemon.listed()["a"]
    assert (listed["address"], listed["port"], listed["zone"]) == ("127.0.0.1", 8080, "east")
    assert listed["metadata"]["tier"] == "gold"
    with daemon.watch() as stream:
        assert stream.next()["type"] == "snapshot"
        etcd.put("catalog", "b", {"Op": 0, "Addr": "127.0.0.1:8081", "Metadata": {"zone": "west"}})
        line = stream.until(lambda x: x["type"] == "update" and x["changed"])
        assert [e["id"] for e in line["changed"]] == ["b"]
        etcd.put("catalog", "a", instance(9090))
        line = stream.until(lambda x: x["type"] == "update" and x["changed"])
        assert line["changed"][0]["port"] == 9090
        etcd.delete("catalog", "b")
        assert stream.until(lambda x: x["type"] == "update" and x["removed"])["removed"] == ["b"]
    # Silence is proven to be one: the age comes below the bound again and again.
    for _ in range(15):
        wait_until("the silence is proven", lambda: freshness(daemon)["age_ms"] < 3000)
        time.sleep(0.2)


# ---- drains ----

def drained(etcd, usherd, port, **drain):
    """An instance that registers itself, with more in its value than usher reads, and one beside it."""
    lease = etcd.grant(600)
    etcd.put("catalog", "a", instance(port, owner={"team": "shop"}), lease=lease)
    etcd.put("catalog", "b", instance(8081))
    quick = {"propagation": {"registry": "1s", "consumer_refresh": "0s", "consumer_cache": "0s", "margin": "0s"},
             "in_flight": {"quiet": "0s", "from": ["consumers"]}}
    daemon = usherd(config(etcd, drain={**quick, **drain})).start()
    daemon.wait_listed({"a", "b"})
    record = daemon.wait_finished(daemon.drain("a")["id"])
    assert record["state"] == "done", record
    return daemon, lease


def test_a_drain_takes_the_key_out_and_a_restore_puts_it_back_as_it_was(etcd, usherd, open_port):
    daemon, lease = drained(etcd, usherd, open_port)
    assert etcd.get("catalog", "a") is None
    record = daemon.wait_finished(daemon.restore("a")["id"])
    assert record["state"] == "done", record
    kv = etcd.get("catalog", "a")
    assert kv["lease"] == lease
    assert kv["value"] == instance(open_port, owner={"team": "shop"})
    daemon.wait_listed({"a", "b"})


# ---- faults ----

def three_instances(etcd):
    for i, name in enumerate("abc"):
        etcd.put("catalog", name, instance(8080 + i))
    return {"a", "b", "c"}


@pytest.mark.parametrize("how, fault", [(signal.SIGTERM, "stopped"), (signal.SIGKILL, "killed")])
def test_nothing_is_lost_while_etcd_is_down_and_what_changed_before_comes_with_it(etcd, usherd, report, how, fault):
    ids = three_instances(etcd)
    daemon = usherd(config(etcd)).start()
    daemon.wait_listed(ids)
    with report.nothing_lost(daemon, ids, fault):
        etcd.members[0].stop(how)
        wait_until("it is stale", lambda: freshness(daemon)["state"] == "stale")
        time.sleep(1)
        etcd.members[0].start()
        etcd.wait_ready()
        etcd.put("catalog", "d", instance(9000))
        daemon.wait_listed(ids | {"d"})
        wait_until("it is fresh", is_fresh(daemon))


def test_a_member_that_stands_still_is_noticed(etcd, usherd, report):
    ids = three_instances(etcd)
    daemon = usherd(config(etcd)).start()
    daemon.wait_listed(ids)
    with report.nothing_lost(daemon, ids, "frozen (SIGSTOP)"):
        etcd.members[0].freeze()
        wait_until("it is stale", lambda: freshness(daemon)["state"] == "stale")
        time.sleep(1)
        etcd.members[0].thaw()
        wait_until("it is fresh", is_fresh(daemon))
    etcd.delete("catalog", "c")
    daemon.wait_listed(ids - {"c"})


def test_a_wiped_etcd_empties_nothing_and_who_registers_again_is_there(etcd, usherd, report):
    ids = three_instances(etcd)
    for i in range(20):
        etcd.put("other", f"x{i}", "1")
    daemon = usherd(config(etcd)).start()
    daemon.wait_listed(ids)
    with report.nothing_lost(daemon, ids, "wiped"):
        etcd.members[0].kill()
        etcd.members[0].wipe()
        etcd.members[0].start()
        etcd.wait_ready()
        wait_until("the other history is told", lambda: "another history" in daemon.log_text())
        time.sleep(2)
        assert three_instances(etcd) == ids
        etcd.put("catalog", "d", instance(9000))
        daemon.wait_listed(ids | {"d"})
        wait_until("it is fresh", is_fresh(daemon))


def test_what_was_compacted_while_nobody_listened_is_read_again(etcd, usherd, report):
    ids = three_instances(etcd)
    daemon = usherd(config(etcd)).start()
    daemon.wait_listed(ids)
    with report.nothing_lost(daemon, {"a", "b"}, "compacted"):
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            etcd.delete("catalog", "c")
            etcd.put("catalog", "d", instance(9000))
            etcd.compact()
            etcd.members[0].stop()
            etcd.members[0].start()
            etcd.wait_ready()
        finally:
            daemon.process.send_signal(signal.SIGCONT)
        daemon.wait_listed({"a", "b", "d"})


def test_a_service_that_becomes_empty_is_empty(etcd, usherd):
    etcd.put("catalog", "a", instance(8080))
    whole = config(etcd)
    whole["defaults"]["removal_guard"] = {"share": "100%", "hold": "0s"}
    daemon = usherd(whole).start()
    daemon.wait_listed({"a"})
    etcd.delete("catalog", "a")
    daemon.wait_listed(set())


def test_instances_whose_lease_runs_out_go(etcd, usherd):
    lease = etcd.grant(2)
    etcd.put("catalog", "a", instance(8080), lease=lease)
    etcd.put("catalog", "b", instance(8081))
    daemon = usherd(config(etcd)).start()
    daemon.wait_listed({"b"})


# ---- members ----

def test_another_member_takes_over_and_nothing_is_missed(three, usherd, report):
    ids = three_instances(three)
    daemon = usherd(config(three)).start()
    daemon.wait_listed(ids)
    with report.nothing_lost(daemon, set(ids), "each member in turn frozen"):
        for number, member in enumerate(three.members):
            member.freeze()
            other = three.members[(number + 1) % 3]
            wait_until("there is a leader", other.is_ready)
            three.put("catalog", f"n{number}", instance(9000 + number), member=other)
            ids.add(f"n{number}")
            daemon.wait_listed(ids)
            member.thaw()
            three.wait_ready()


def test_without_a_quorum_nothing_is_proven_and_nothing_lost(three, usherd, report):
    ids = three_instances(three)
    daemon = usherd(config(three)).start()
    daemon.wait_listed(ids)
    with report.nothing_lost(daemon, ids, "without a majority"):
        for member in three.members[1:]:
            member.stop(signal.SIGKILL)
        wait_until("it is stale", lambda: freshness(daemon)["state"] == "stale")
        time.sleep(3)
        for member in three.members[1:]:
            member.start(wait=False)
        three.wait_ready()
        wait_until("it is fresh", is_fresh(daemon))
    three.delete("catalog", "c")
    daemon.wait_listed(ids - {"c"})


# ---- who may ----

def with_auth(etcd):
    for path, body in [
        ("/v3/auth/user/add", {"name": "root", "password": "rootpw"}),
        ("/v3/auth/role/add", {"name": "root"}),
        ("/v3/auth/user/grant", {"user": "root", "role": "root"}),
        ("/v3/auth/user/add", {"name": "usher", "password": "usherpw"}),
        ("/v3/auth/role/add", {"name": "reader"}),
        ("/v3/auth/role/grant", {"name": "reader", "perm": {"permType": "READ", "key": b64("/services/catalog/"),
                                                             "range_end": b64("/services/catalog0")}}),
        ("/v3/auth/user/grant", {"user": "usher", "role": "reader"}),
        ("/v3/auth/enable", {}),
    ]:
        etcd.call(path, body)
    etcd.log_in("root", "rootpw")


def test_a_user_is_let_in_and_kept_from_what_it_may_not_read(etcd, usherd, report, tmp_path):
    ids = three_instances(etcd)
    etcd.put("search", "s", instance(7000))
    with_auth(etcd)
    password = tmp_path / "password"
    password.write_text("wrong\n")
    daemon = usherd(config(etcd, ("catalog", "search"), user="usher", password_file=str(password)))
    daemon.start(wait=False)
    wait_until("it says what is wrong", lambda: "does not know the user usher" in daemon.log_text())
    password.write_text("usherpw\n")
    daemon.wait_listed(ids)
    wait_until("it says that it is denied",
               lambda: b"denied" in daemon.call("GET", "/v1/services/search/endpoints").body)
    assert daemon.call("GET", "/v1/services/search/endpoints").status == 503
    assert "usherpw" not in daemon.log_text()
    # The right to read is taken away: nothing is emptied.
    with report.nothing_lost(daemon, ids, "rights and token taken away"):
        etcd.call("/v3/auth/user/revoke", {"name": "usher", "role": "reader"})
        wait_until("it is stale", lambda: freshness(daemon)["state"] == "stale")
        time.sleep(1)
        etcd.call("/v3/auth/user/grant", {"user": "usher", "role": "reader"})
        etcd.put("catalog", "d", instance(9000))
        daemon.wait_listed(ids | {"d"})


def test_a_token_that_etcd_has_forgotten_is_asked_for_again(etcd, usherd, report):
    ids = three_instances(etcd)
    with_auth(etcd)
    daemon = usherd(config(etcd, user="usher", password="usherpw")).start()
    daemon.wait_listed(ids)
    with report.nothing_lost(daemon, ids, "rights and token taken away"):
        etcd.members[0].stop()
        etcd.members[0].start()
        etcd.wait_ready()
        etcd.log_in("root", "rootpw")
        etcd.put("catalog", "d", instance(9000))
        daemon.wait_listed(ids | {"d"})


# ---- registration ----

def registering(etcd, usherd, ttl):
    whole = config(etcd, ttl=ttl)
    whole["registrations"] = [{"service": "catalog", "id": "a", "address": "127.0.0.1", "port": 8080,
                               "metadata": {"version": "1"}}]
    return usherd(whole).start()


def test_what_usher_registers_is_kept_alive_and_comes_back_when_it_is_lost(etcd, usherd):
    daemon = registering(etcd, usherd, ttl="5s")
    kv = wait_until("it is registered", lambda: etcd.get("catalog", "a"))
    assert kv["value"]["metadata"] == {"version": "1"}
    daemon.wait_listed({"a"})
    # The lease, and with it the key, is taken away; then the key alone; then everything.
    etcd.call("/v3/lease/revoke", {"ID": kv["lease"]})
    again = wait_until("it is registered again", lambda: etcd.get("catalog", "a"))
    assert again["lease"] != kv["lease"]
    etcd.delete("catalog", "a")
    wait_until("it is registered again", lambda: etcd.get("catalog", "a"))
    etcd.members[0].kill()
    etcd.members[0].wipe()
    etcd.members[0].start()
    etcd.wait_ready()
    wait_until("it is registered again", lambda: etcd.get("catalog", "a"))
    daemon.wait_listed({"a"})


def test_a_restart_of_usherd_leaves_no_gap_and_its_end_does(etcd, usherd):
    daemon = registering(etcd, usherd, ttl="20s")
    wait_until("it is registered", lambda: etcd.get("catalog", "a"))
    seen, over = [], threading.Event()

    def look():
        while not over.wait(0.02):
            seen.append(etcd.get("catalog", "a") is not None)

    looker = threading.Thread(target=look)
    looker.start()
    try:
        before = etcd.get("catalog", "a")["lease"]
        daemon.restart()
        wait_until("it is under a new lease", lambda: etcd.get("catalog", "a")["lease"] != before)
        etcd.call("/v3/lease/revoke", {"ID": before})  # what the old run has left takes nothing along
    finally:
        over.set()
        looker.join()
    assert seen and all(seen)
    daemon.kill()
    wait_until("the lease has run out", lambda: etcd.get("catalog", "a") is None)


def test_a_restore_after_a_restart_leaves_the_key_under_its_own_lease(etcd, usherd, open_port):
    daemon, lease = drained(etcd, usherd, open_port)
    daemon.restart()
    record = daemon.wait_finished(daemon.restore("a")["id"])
    assert record["state"] == "done", record
    kv = etcd.get("catalog", "a")
    assert kv["lease"] == lease
    assert kv["value"] == instance(open_port)


# ---- how fast ----

def test_time_from_the_write_to_the_line_at_a_watcher(etcd, usherd, report):
    three_instances(etcd)
    daemon = usherd(config(etcd)).start()
    times = []
    with daemon.watch() as stream:
        stream.next()
        for i in range(200):
            began = time.monotonic()
            etcd.put("catalog", "a", instance(8080, metadata={"n": str(i)}))
            stream.until(lambda x: x["type"] == "update" and x["changed"] and
                         x["changed"][0]["metadata"].get("n") == str(i))
            times.append((time.monotonic() - began) * 1000)
    report.times(times)


def test_a_thousand_services_of_a_hundred_endpoints(etcd, usherd, report):
    for service in range(1000):
        etcd.call("/v3/kv/txn", {"success": [
            {"request_put": {"key": b64(f"/services/s{service}/i{i}"),
                             "value": b64(json.dumps(instance(1000 + i)))}} for i in range(100)]})
    names = [f"s{i}" for i in range(1000)]
    whole = config(etcd, names, probe="5s")
    whole["defaults"]["freshness"]["max_age"] = "30s"
    began = time.monotonic()
    daemon = usherd(whole).start(wait=False)
    wait_until("it listens", daemon.answers)
    wait_until("all are listed", lambda: len(daemon.get("/v1/services")["services"]) == 1000 and all(
        s["endpoints"]["listed"] == 100 for s in daemon.get("/v1/services")["services"]), deadline=120, every=0.2)
    report.fact("1,000 services of 100 endpoints listed after", f"{time.monotonic() - began:.1f} s")
    for name in names[::97]:
        assert len(daemon.listed(name)) == 100
    with daemon.watch("s500") as stream:
        stream.next()
        began = time.monotonic()
        etcd.delete("s500", "i7")
        stream.until(lambda x: x["type"] == "update" and "i7" in x["removed"])
    report.fact("a change at once after that seen after", f"{(time.monotonic() - began) * 1000:.0f} ms")
