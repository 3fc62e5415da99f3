"""What usher promises, one test or more a promise."""

import contextlib
import json
import os
import socket
import sqlite3
import subprocess
import threading

import pytest

from usher import BUILD, endpoint, wait_until

THREE = [endpoint("catalog-a", 8081), endpoint("catalog-b", 8082), endpoint("catalog-c", 8083)]


def service(**more):
    return {"services": {"catalog": {"startup_timeout": "30s", **more}}}


def freshness(daemon, name="catalog"):
    return daemon.get(f"/v1/services/{name}/endpoints")["freshness"]


def feed(daemon, name="catalog"):
    return daemon.get(f"/v1/services/{name}")["feeds"][0]


# ---- P1: staleness is bounded and told ----


def test_p1_every_answer_tells_its_revision_source_and_age(usherd):
    daemon = usherd(service())
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()

    for answer in (daemon.get("/v1/services/catalog/endpoints"), daemon.get("/v1/services/catalog"),
                   daemon.pick().json, daemon.get("/v1/services/catalog/explain")):
        assert answer["revision"] > 0
        assert answer["freshness"]["state"] == "live"
        assert answer["freshness"]["source"] == "files"
        assert 0 <= answer["freshness"]["age_ms"] <= answer["freshness"]["max_age_ms"] == 30000
    with daemon.watch() as watch:
        assert watch.next()["freshness"]["state"] == "live"


def test_p1_past_max_age_the_policy_rules(usherd):
    daemon = usherd({"services": {
        "catalog": {"freshness": {"max_age": "300ms", "on_stale": "serve"}},
        "search": {"freshness": {"max_age": "300ms", "on_stale": "fail"}},
    }})
    daemon.write_endpoints({"catalog": THREE, "search": THREE})
    daemon.start()

    daemon.endpoints.write_text("services: [broken")
    wait_until("the answer is stale", lambda: freshness(daemon)["state"] == "stale")
    assert freshness(daemon)["age_ms"] > 300
    assert daemon.pick("catalog").status == 200
    assert daemon.pick("catalog").json["freshness"]["state"] == "stale"
    refused = daemon.pick("search")
    assert (refused.status, refused.json["code"]) == (503, "stale")
    assert refused.json["freshness"]["age_ms"] > 300

    daemon.write_endpoints({"catalog": THREE, "search": THREE})
    wait_until("it is live again", lambda: daemon.pick("search").status == 200)


def test_p1_a_reader_may_refuse_an_older_answer(usherd):
    daemon = usherd(service())
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()
    daemon.endpoints.write_text("services: [broken")
    wait_until("it has aged", lambda: freshness(daemon)["age_ms"] > 100)

    refused = daemon.call("GET", "/v1/services/catalog/endpoints?max_age=50ms")
    assert (refused.status, refused.json["code"]) == (503, "stale")
    assert daemon.call("GET", "/v1/services/catalog/endpoints?max_age=1h").status == 200


def test_p1_a_quiet_watcher_is_told_the_age_by_bookmarks(usherd):
    daemon = usherd(service(freshness={"max_age": "1s"}))
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()
    with daemon.watch() as watch:
        first = watch.next()
        bookmark = watch.until(lambda line: line["type"] == "bookmark")
        assert bookmark["revision"] == first["revision"]
        assert bookmark["freshness"]["max_age_ms"] == 1000


# ---- P2: failure is never emptiness ----


@pytest.mark.parametrize("broken", [
    "", "services:\n  catalog:\n    - {id: a, addr", "just a text", "services: {catalog: [{id: x, address: '', port: 1}]}",
    "{\"services\": {\"catalog\": [", "\0\0\0",
])
def test_p2_a_broken_file_keeps_the_directory(usherd, broken):
    daemon = usherd(service())
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()

    daemon.endpoints.write_text(broken)
    wait_until("the failure is told", lambda: feed(daemon)["state"] == "failed")
    assert str(daemon.endpoints) in feed(daemon)["error"]
    assert len(daemon.listed()) == 3
    assert len(daemon.picked()) == 3


def test_p2_a_file_that_is_gone_keeps_the_directory(usherd):
    daemon = usherd(service())
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()
    daemon.endpoints.unlink()
    wait_until("the failure is told", lambda: feed(daemon)["state"] == "failed")
    assert len(daemon.listed()) == 3


def test_p2_a_sudden_mass_removal_is_held_back_and_then_delivered(usherd):
    daemon = usherd(service(removal_guard={"share": "50%", "hold": "2s"}))
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()
    daemon.write_endpoints({"catalog": []})

    held = wait_until("it is held back", lambda: feed(daemon)["held"])
    assert (held["removed"], held["of"]) == (3, 3)
    assert len(daemon.listed()) == 3
    daemon.wait_listed([])
    answer = daemon.pick()
    assert (answer.status, answer.json["code"]) == (503, "empty")


def test_p2_what_is_held_back_is_a_metric(usherd):
    daemon = usherd(service(removal_guard={"share": "50%", "hold": "10m"}))
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()
    daemon.write_endpoints({"catalog": []})
    wait_until("it is held back", lambda: feed(daemon)["held"])
    assert 'usher_service_held{service="catalog"} 3\n' in daemon.call("GET", "/metrics").body.decode()
    daemon.write_endpoints({"catalog": THREE})
    wait_until("nothing is held", lambda: not feed(daemon)["held"])
    assert 'usher_service_held{service="catalog"} 0\n' in daemon.call("GET", "/metrics").body.decode()


def test_p2_each_reason_for_an_empty_answer_has_its_own_word(usherd):
    daemon = usherd({"services": {
        "truly-empty": {},
        "filtered": {"chain": [{"label": {"match": "tier=gold", "on_empty": "fail"}}]},
        "not-in-the-file": {"startup_timeout": "100ms"},
    }})
    daemon.write_endpoints({"truly-empty": [], "filtered": THREE})
    daemon.start()

    wait_until("the source has looked", lambda: daemon.pick("not-in-the-file").json["code"] != "source_unknown")
    codes = {name: daemon.pick(name).json["code"] for name in ("truly-empty", "filtered", "not-in-the-file")}
    assert codes == {"truly-empty": "empty", "filtered": "filtered", "not-in-the-file": "source_failed"}
    assert daemon.pick("filtered").json["stage"] == "label"


def test_p2_a_service_without_an_answer_is_never_an_empty_list(usherd):
    daemon = usherd(service(startup_timeout="100ms"))
    daemon.start()
    answer = daemon.call("GET", "/v1/services/catalog/endpoints")
    assert (answer.status, answer.json["code"]) in ((503, "source_unknown"), (503, "source_failed"))
    with daemon.watch() as watch:
        daemon.write_endpoints({"catalog": THREE})
        first = watch.until(lambda line: line["type"] != "bookmark")
        assert first["type"] == "snapshot"
        assert len(first["endpoints"]) == 3


def is_on_disk(daemon):
    with contextlib.closing(sqlite3.connect(f"file:{daemon.folder}/state/usher.db?mode=ro", uri=True)) as disk:
        return "catalog-a" in "\n".join(disk.iterdump())


def kill_once_it_is_on_disk(daemon):
    wait_until("the directory is on disk", lambda: is_on_disk(daemon))
    daemon.kill()


@pytest.mark.parametrize("end", [lambda daemon: daemon.stop(), kill_once_it_is_on_disk], ids=["stop", "kill"])
def test_p2_the_last_known_directory_survives_a_restart_with_the_source_down(usherd, end):
    daemon = usherd(service())
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()
    before = daemon.get("/v1/services/catalog/endpoints")
    end(daemon)
    daemon.endpoints.unlink()
    daemon.configure(service(startup_timeout="100ms"))
    daemon.start()

    after = daemon.get("/v1/services/catalog/endpoints")
    assert [e["id"] for e in after["endpoints"]] == [e["id"] for e in before["endpoints"]]
    assert after["revision"] > before["revision"]
    wait_until("the failure is told", lambda: freshness(daemon)["state"] in ("failed", "stale"))
    assert feed(daemon)["restored"] is True


# ---- P3: strict stays strict ----


def test_p3_a_strict_stage_lets_nothing_else_through(usherd):
    zones = [endpoint("west-a", 8081, zone="west"), endpoint("west-b", 8082, zone="west")]
    daemon = usherd({"services": {
        "strict": {"chain": [{"zone": {"prefer": "east", "on_empty": "fail"}}]},
        "lenient": {"chain": [{"zone": {"prefer": "east", "on_empty": "pass"}}]},
    }})
    daemon.write_endpoints({"strict": zones, "lenient": zones})
    daemon.start()

    refused = daemon.pick("strict")
    assert (refused.status, refused.json["code"], refused.json["stage"]) == (503, "filtered", "zone")
    assert daemon.listed("strict") == {}
    assert daemon.picked("lenient") == {"west-a", "west-b"}

    daemon.write_endpoints({"strict": [*zones, endpoint("east-a", 8083, zone="east")], "lenient": zones})
    wait_until("the one that matches is chosen", lambda: daemon.pick("strict").status == 200)
    assert daemon.picked("strict") == {"east-a"}


def test_p3_what_one_request_asks_for_changes_nothing_for_another(usherd):
    daemon = usherd(service())
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()
    before = daemon.get("/v1/services/catalog/endpoints")
    for body in ({"hint": "blue"}, {"version": "9.9"}, {"sticky": "catalog-a"}, {"exclude": ["catalog-a", "catalog-b"]}):
        daemon.pick(body=body)
    after = daemon.get("/v1/services/catalog/endpoints")
    assert (after["endpoints"], after["revision"]) == (before["endpoints"], before["revision"])
    assert daemon.picked() == {"catalog-a", "catalog-b", "catalog-c"}


# ---- P4: a drained endpoint is not chosen ----


def test_p4_no_pick_returns_a_drained_endpoint_after_its_removal_revision(usherd):
    daemon = usherd(service(drain={"in_flight": {"quiet": "50ms"}}))
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()
    picks, ending = [], threading.Event()

    def pick_on():
        while not ending.is_set():
            answer = daemon.pick()
            assert answer.status == 200
            picks.append((answer.json["revision"], answer.json["endpoint"]["id"]))

    pickers = [threading.Thread(target=pick_on) for _ in range(3)]
    for picker in pickers:
        picker.start()
    wait_until("picks flow", lambda: len(picks) > 50)
    record = daemon.wait_finished(daemon.drain("catalog-b")["id"])
    done_at = len(picks)
    wait_until("picks flow after the drain", lambda: len(picks) > done_at + 50)
    ending.set()
    for picker in pickers:
        picker.join()

    assert record["state"] == "done"
    late = [p for p in picks if p[0] >= record["removal_revision"] and p[1] == "catalog-b"]
    assert late == []
    assert any(p[1] == "catalog-b" for p in picks)
    assert record["last_stale_pick_at"] is None


def test_p4_a_watcher_sees_draining_before_the_removal(usherd):
    daemon = usherd(service(drain={"in_flight": {"quiet": "50ms"}}))
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()
    with daemon.watch() as watch:
        watch.next()
        record = daemon.drain("catalog-b")
        draining = watch.until(lambda line: line["type"] == "update")
        assert [(e["id"], e["admin_state"]) for e in draining["changed"]] == [("catalog-b", "draining")]
        removed = watch.until(lambda line: line["type"] == "update" and line["removed"])
        assert removed["removed"] == ["catalog-b"]
        assert removed["revision"] > draining["revision"]
        assert daemon.wait_finished(record["id"])["removal_revision"] == removed["revision"]


def test_p4_a_consumer_that_has_not_read_the_removal_holds_the_drain(usherd):
    many = [endpoint(f"catalog-{i:05}", 8000, f"10.0.{i // 250}.{i % 250 + 1}") for i in range(5000)]
    daemon = usherd(service(drain={"in_flight": {"quiet": "50ms"}}))
    daemon.write_endpoints({"catalog": many})
    daemon.start()
    # It reads nothing at all: the snapshot fills its socket, and the removal is behind it.
    lazy = socket.socket(socket.AF_UNIX)
    lazy.connect(str(daemon.socket))
    lazy.sendall(b"GET /v1/services/catalog/endpoints?watch=true HTTP/1.1\r\nHost: x\r\nUsher-Consumer: lazy\r\n\r\n")
    wait_until("it is a consumer", lambda: any(
        c["name"] == "lazy" and c["services"] for c in daemon.get("/v1/consumers")["consumers"]))
    record = daemon.drain("catalog-00001")

    def waits_for_it():
        step = next(s for s in daemon.record(record["id"])["steps"] if s["step"] == "propagation")
        return any(e["kind"] == "consumers" and not e["proven"] and "lazy" in e["text"] for e in step["evidence"])

    wait_until("the drain names who is behind", waits_for_it)
    assert daemon.record(record["id"])["state"] == "running"
    lazy.close()
    assert daemon.wait_finished(record["id"])["state"] == "done"


# ---- P5: a drain survives anything (crashes at each step: test_crashes.py) ----


def test_p5_a_drain_goes_on_after_kill_9_at_any_instant(usherd):
    daemon = usherd(service(drain={"propagation": {"consumer_cache": "500ms"}, "in_flight": {"quiet": "100ms"}}))
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()
    record = daemon.drain("catalog-a")
    steps = []
    for _ in range(8):
        daemon.kill()
        daemon.start()
        now = daemon.record(record["id"])
        steps.append([s["step"] for s in now["steps"]].index(now["step"]) if now["step"] != "done" else len(now["steps"]))
        assert "catalog-a" not in daemon.picked()
    assert steps == sorted(steps)
    done = daemon.wait_finished(record["id"])
    assert (done["state"], done["token"]) == ("done", record["token"])


# ---- P6: the core never blocks ----


def test_p6_a_consumer_that_never_reads_delays_nobody(usherd):
    many = [endpoint(f"catalog-{i:05}", 8000, f"10.0.{i // 250}.{i % 250 + 1}") for i in range(2000)]
    daemon = usherd(service())
    daemon.write_endpoints({"catalog": many})
    daemon.start()
    lazy = []
    for _ in range(20):
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(daemon.socket))
        s.sendall(b"GET /v1/services/catalog/endpoints?watch=true HTTP/1.1\r\nHost: x\r\n\r\n")
        lazy.append(s)
    with daemon.watch() as watch:
        watch.next()
        for turn in range(10):
            daemon.write_endpoints({"catalog": many[:-1 - turn]})
            update = watch.until(lambda line: line["type"] == "update")
            assert update["removed"] == [many[-1 - turn]["id"]]
        assert daemon.pick().status == 200
    for s in lazy:
        s.close()


def test_p6_a_full_disk_stops_no_answers_and_starts_no_drain(usherd, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("making a full disk needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], check=True)
    try:
        daemon = usherd({**service(), "state_dir": str(disk / "state")})
        daemon.write_endpoints({"catalog": THREE})
        daemon.start()
        with open(disk / "filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
            while filler.write(b"x" * 4096):
                pass
        many = [endpoint(f"e{i}", 8000) for i in range(3000)]
        daemon.write_endpoints({"catalog": [*THREE, *many]})
        wait_until("the new directory is served", lambda: len(daemon.listed()) == 3003)
        refused = daemon.call("POST", "/v1/drains", {"service": "catalog", "endpoint": "catalog-a"}, admin=True)
        if refused.status == 201:
            # Accepted for the disk to take, then: nothing may have acted, and the reason is told.
            record = wait_until("it says why", lambda: (lambda r: r if "disk" in json.dumps(r).lower() or
                                "space" in json.dumps(r).lower() else None)(daemon.record(refused.json["id"])))
            assert record["step"] == "requested"
        else:
            assert refused.json["code"] == "store_failed"
        (disk / "filler").unlink()
        wait_until("the disk takes drains again", lambda: daemon.call(
            "POST", "/v1/drains", {"service": "catalog", "endpoint": "catalog-b"}, admin=True).status in (200, 201))
        daemon.stop()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


# ---- P7: nobody changes what they may not ----


@pytest.mark.parametrize("method, path, body", [
    ("POST", "/v1/drains", {"service": "catalog", "endpoint": "catalog-a"}),
    ("POST", "/v1/restores", {"service": "catalog", "endpoint": "catalog-a"}),
    ("POST", "/v1/drains/d-1/cancel", None),
    ("POST", "/v1/reload", None),
])
def test_p7_the_consumer_socket_only_reads(usherd, method, path, body):
    daemon = usherd(service())
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()
    refused = daemon.call(method, path, body)
    assert (refused.status, refused.json["code"]) == (403, "forbidden")
    assert str(daemon.admin) in refused.json["detail"]


def test_p7_the_sockets_have_their_modes(usherd):
    daemon = usherd(service())
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()
    assert daemon.socket.stat().st_mode & 0o777 == 0o666
    assert daemon.admin.stat().st_mode & 0o777 == 0o660


# ---- P8: a bad configuration never replaces a good one ----


@pytest.mark.parametrize("text, message", [
    ("services: {catalog: {selct: random}}", 'unknown key "selct"; did you mean "select"?'),
    ("services: {catalog: {select: randm}}", "random"),
    ("services: {catalog: {startup_timeout: 5}}", '"5" is not a duration'),
    ("services: [", "not valid YAML"),
])
def test_p8_a_bad_configuration_is_refused_with_its_place(usherd, text, message):
    daemon = usherd(service())
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()
    good = daemon.config_path.read_text()
    daemon.write_config(good.replace("services:\n  catalog:\n    startup_timeout: 30s\n", "") + text + "\n")

    daemon.reload()
    assert "the last reload was refused" in daemon.status()
    refused = daemon.call("POST", "/v1/reload", admin=True)
    assert (refused.status, refused.json["code"]) == (422, "invalid_config")
    assert message in refused.json["detail"]
    assert f"{daemon.config_path}:" in refused.json["detail"]
    assert len(daemon.picked()) == 3

    daemon.write_config(good)
    assert daemon.call("POST", "/v1/reload", admin=True).status == 200


# ---- P9: consumers outlive the daemon ----


def test_p9_a_process_goes_on_choosing_while_usherd_is_away_and_knows_the_age(usherd):
    daemon = usherd(service(freshness={"max_age": "1s"}))
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()
    consumer = subprocess.Popen([BUILD / "tests" / "follower-picks", daemon.socket, "catalog"], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)

    def pick():
        consumer.stdin.write("\n")
        consumer.stdin.flush()
        return json.loads(consumer.stdout.readline())

    try:
        wait_until("the first directory is in", lambda: "id" in pick())
        daemon.kill()
        wait_until("it notices", lambda: not pick()["connected"])
        assert {pick()["id"] for _ in range(9)} == {"catalog-a", "catalog-b", "catalog-c"}
        old = wait_until("it knows that it is stale", lambda: (lambda p: p if p["stale"] else None)(pick()))
        assert old["age_ms"] >= 1000

        daemon.write_endpoints({"catalog": THREE[:2]})
        daemon.start()
        wait_until("it follows again", lambda: (lambda p: p["connected"] and not p["stale"])(pick()))
        wait_until("it has the new directory", lambda: {pick()["id"] for _ in range(6)} == {"catalog-a", "catalog-b"})
    finally:
        consumer.stdin.close()
        assert consumer.wait(60) == 0
        consumer.stdout.close()
