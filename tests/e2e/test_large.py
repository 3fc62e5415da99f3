"""A service that is large enough to be computed beside the loop: nothing that is promised changes by that."""

import json
import threading

import pytest

from usher import endpoint, wait_until

COUNT = 5000  # more than it takes to be computed beside the loop


def endpoints(count=COUNT, **more):
    return [{**endpoint(f"e{i:05}", 1 + i % 60000, f"10.0.{i // 256}.{i % 256}"), **more} for i in range(count)]


def write(daemon, items, path=None):
    """JSON is YAML, and quicker to write."""
    path = path or daemon.endpoints
    new = path.with_name("." + path.name)
    new.write_text(json.dumps({"services": {"catalog": items}}))
    new.replace(path)


@pytest.fixture
def large(usherd):
    daemon = usherd({"services": {"catalog": {"startup_timeout": "60s"}}})
    write(daemon, endpoints())
    return daemon.start()


def weight_of(daemon, name):
    everyone = daemon.get("/v1/services/catalog/endpoints")["endpoints"]
    return next(e["weight"] for e in everyone if e["id"] == name)


def test_a_watcher_hears_of_each_change_once(large):
    with large.watch() as watch:
        first = watch.until(lambda line: line["type"] == "snapshot")
        assert len(first["endpoints"]) == COUNT
        revision = first["revision"]
        for weight in (2, 3):
            items = endpoints()
            items[7]["weight"] = weight
            del items[11:11 + weight]
            write(large, items)
            line = watch.until(lambda line: line["type"] == "update")
            assert [(e["id"], e["weight"], e["source"]) for e in line["changed"]] == [("e00007", weight, "files")]
            assert line["removed"] == (["e00011", "e00012"] if weight == 2 else ["e00013"])
            assert line["revision"] > revision
            revision = line["revision"]
    assert large.get("/v1/services/catalog")["revision"] == revision
    assert large.get("/v1/services/catalog")["endpoints"]["total"] == COUNT - 3


def test_a_mass_removal_is_held_back(large):
    write(large, endpoints(10))
    held = wait_until("it is held", lambda: large.get("/v1/services/catalog")["held"])
    assert held["removed"] == COUNT - 10
    assert large.get("/v1/services/catalog")["endpoints"]["total"] == COUNT
    write(large, endpoints(COUNT - 1))
    wait_until("it has returned", lambda: not large.get("/v1/services/catalog")["held"])
    wait_until("and one is gone", lambda: large.get("/v1/services/catalog")["endpoints"]["total"] == COUNT - 1)


def test_decisions_hold_while_it_changes_all_the_time(large):
    """A drain that comes in between is in every result from then on."""
    over = threading.Event()

    def change():
        weight = 1
        while not over.is_set():
            weight = weight % 9 + 1
            write(large, endpoints(weight=weight))
            over.wait(0.02)

    changing = threading.Thread(target=change)
    changing.start()
    try:
        record = large.drain("e00003")
        wait_until("it is withdrawn", lambda: large.record(record["id"])["removal_revision"])
        for _ in range(5):
            listed = {e["id"]: e for e in large.get("/v1/services/catalog/endpoints")["endpoints"]}
            assert "e00003" not in listed or listed["e00003"]["admin_state"] == "draining"
            assert "e00003" not in large.picked(count=50)
        assert large.wait_finished(record["id"])["state"] == "done"
        large.reload()
    finally:
        over.set()
        changing.join()
    write(large, endpoints(weight=77))
    wait_until("the last word is in force", lambda: weight_of(large, "e04999") == 77)
    assert "e00003" not in large.listed()
    large.restart()
    assert "e00003" not in large.listed()


def test_two_sources_are_merged_beside_the_loop_too(usherd, tmp_path):
    paths = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    daemon = usherd({
        "sources": [{"name": p.stem, "plugin": "file", "options": {"path": str(p)}} for p in paths],
        "services": {"catalog": {"merge": "union", "startup_timeout": "60s",
                                 "sources": ["one", {"source": "two", "decides": ["weight"]}]}},
    })
    write(daemon, endpoints(), paths[0])
    write(daemon, endpoints(weight=4), paths[1])
    daemon.start()
    wait_until("both are merged", lambda: weight_of(daemon, "e00000") == 4)
    with daemon.watch() as watch:
        watch.until(lambda line: line["type"] == "snapshot")
        items = endpoints(weight=4)
        items[3]["weight"] = 9
        write(daemon, items, paths[1])
        line = watch.until(lambda line: line["type"] == "update")
        (changed,) = line["changed"]
        assert (changed["id"], changed["weight"], changed["source"]) == ("e00003", 9, "one")
        assert changed["origins"] == {"weight": "two"}
    assert daemon.listed()["e00003"]["origins"] == {"weight": "two"}
