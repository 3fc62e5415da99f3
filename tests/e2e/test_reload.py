"""Reading the configuration again: what changes, what goes on untouched, what systemd is told."""

import os
import pathlib

from usher import endpoint, wait_until

THREE = [endpoint("catalog-a", 8081), endpoint("catalog-b", 8082), endpoint("catalog-c", 8083)]


def test_a_reload_says_reloading_with_its_time_and_then_ready(usherd):
    daemon = usherd()
    daemon.start()
    daemon.reload()
    reloading = next(m for m in daemon.told if m.get("RELOADING") == "1")
    assert int(reloading["MONOTONIC_USEC"]) > 0


def test_a_refused_reload_is_followed_by_ready_as_well(usherd):
    daemon = usherd()
    daemon.start()
    daemon.write_config("servces: {}\n")
    daemon.reload()
    assert f'the last reload was refused: {daemon.config_path}:1:1: unknown key "servces"' in daemon.status()


def test_services_come_and_go_with_a_reload(usherd):
    daemon = usherd({"services": {"catalog": {}}})
    daemon.write_endpoints({"catalog": THREE, "search": THREE})
    daemon.start()
    with daemon.watch("catalog") as watch:
        watch.next()
        daemon.configure({"services": {"search": {}}, "defaults": {"lazy": {"allow": False}}})
        daemon.reload()
        assert watch.until(lambda line: line["type"] == "end")["code"] == "removed"
    assert [s["service"] for s in daemon.get("/v1/services")["services"]] == ["search"]
    assert daemon.pick("catalog").json["code"] == "unknown_service"


def test_a_watch_of_what_did_not_change_goes_on_through_a_reload(usherd):
    daemon = usherd({"services": {"catalog": {}}})
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()
    with daemon.watch() as watch:
        first = watch.next()
        daemon.configure({"services": {"catalog": {}, "search": {"startup_timeout": "100ms"}}})
        daemon.reload()
        daemon.write_endpoints({"catalog": THREE[:2]})
        update = watch.until(lambda line: line["type"] == "update")
        assert update["removed"] == ["catalog-c"]
        assert update["revision"] > first["revision"]


def test_a_reload_that_changes_nothing_publishes_nothing(usherd):
    daemon = usherd({"services": {"catalog": {}}})
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()
    before = daemon.get("/v1/services/catalog")
    daemon.reload()
    after = daemon.get("/v1/services/catalog")
    assert after["revision"] == before["revision"]
    # The source went on: its answer was not asked for anew.
    assert daemon.get("/v1/sources")["sources"][0]["restarts"] == 0


def test_a_drain_goes_on_through_a_reload_and_a_restart(usherd):
    drain = {"propagation": {"consumer_cache": "2s"}, "in_flight": {"quiet": "100ms"}}
    daemon = usherd({"services": {"catalog": {"drain": drain}}})
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()
    record = daemon.drain("catalog-a")
    wait_until("it propagates", lambda: daemon.record(record["id"])["step"] == "propagation")
    daemon.reload()
    assert "catalog-a" not in daemon.picked()
    daemon.restart()
    assert "catalog-a" not in daemon.picked()
    assert daemon.wait_finished(record["id"])["state"] == "done"
    assert "catalog-a" not in daemon.picked()


def test_a_chain_that_changes_takes_effect(usherd):
    zones = [endpoint("e", 8081, zone="east"), endpoint("w", 8082, zone="west")]
    daemon = usherd({"services": {"catalog": {}}})
    daemon.write_endpoints({"catalog": zones})
    daemon.start()
    assert daemon.picked() == {"e", "w"}
    daemon.configure({"services": {"catalog": {"chain": [{"zone": {"prefer": "west"}}]}}})
    daemon.reload()
    assert daemon.picked() == {"w"}


def test_many_reloads_leave_no_descriptor_behind(usherd):
    daemon = usherd({"services": {f"s{i}": {"startup_timeout": "100ms"} for i in range(50)}})
    daemon.write_endpoints({f"s{i}": THREE for i in range(50)})
    daemon.start()
    descriptors = pathlib.Path(f"/proc/{daemon.process.pid}/fd")
    for _ in range(5):
        assert daemon.call("POST", "/v1/reload", admin=True).status == 200
    before = len(os.listdir(descriptors))
    for _ in range(100):
        assert daemon.call("POST", "/v1/reload", admin=True).status == 200
    # That of the last call may be about to close.
    wait_until("none is left behind", lambda: len(os.listdir(descriptors)) <= before)


def test_a_supervisor_that_does_not_listen_holds_nothing_up(usherd):
    daemon = usherd({"services": {"catalog": {}}})
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()
    # More messages than the socket of a supervisor takes that reads none of them.
    for _ in range(400):
        assert daemon.call("POST", "/v1/reload", admin=True).status == 200
    assert daemon.pick().status == 200
    daemon.reload()  # it reads again, and hears of the newest


def test_ten_thousand_services_are_reloaded_while_the_watchdog_is_fed_and_picks_go_on(usherd):
    services = {f"service-{i}": {"startup_timeout": "100ms"} for i in range(10000)}
    daemon = usherd({"services": {"catalog": {}}})
    daemon.write_endpoints({"catalog": THREE})
    daemon.start(environment={"WATCHDOG_USEC": "10000000"})
    daemon.configure({"services": {"catalog": {}, **services}})
    daemon.reload()
    assert len(daemon.get("/v1/services")["services"]) == 10001
    assert daemon.picked() == {"catalog-a", "catalog-b", "catalog-c"}
    assert any("EXTEND_TIMEOUT_USEC" in m for m in daemon.told)


def test_conf_d_is_read_as_well(usherd):
    daemon = usherd({"services": {"catalog": {}}})
    daemon.write_endpoints({"catalog": THREE, "search": THREE})
    daemon.start()
    extra = daemon.folder / "conf.d"
    extra.mkdir()
    (extra / "10-search.yaml").write_text("services: {search: {select: random}}\n")
    daemon.reload()
    assert [s["service"] for s in daemon.get("/v1/services")["services"]] == ["catalog", "search"]
    (extra / "20-again.yaml").write_text("services: {search: {}}\n")
    daemon.reload()
    assert "20-again.yaml:1:12" in daemon.status() and "10-search.yaml" in daemon.status()


def services(daemon):
    return [s["service"] for s in daemon.get("/v1/services")["services"]]


def test_when_asked_for_a_change_of_the_files_is_a_reload(usherd):
    daemon = usherd({"services": {"catalog": {}}})
    daemon.write_endpoints({"catalog": THREE, "search": THREE})
    daemon.start(arguments=["--reload-on-change"])
    daemon.configure({"services": {"search": {}}})
    wait_until("the new configuration is in force", lambda: services(daemon) == ["search"])
    (daemon.folder / "conf.d").mkdir()
    (daemon.folder / "conf.d" / "10-catalog.yaml").write_text("services: {catalog: {}}\n")
    wait_until("the fragment is read as well", lambda: services(daemon) == ["catalog", "search"])
    daemon.write_config("servces: {}\n")
    wait_until("the fault is told", lambda: 'unknown key "servces"' in (daemon.status() or ""))
    assert services(daemon) == ["catalog", "search"]


def test_a_configuration_that_is_mounted_as_a_configmap_is_reloaded_when_its_link_turns(usherd):
    daemon = usherd({"services": {"catalog": {}}})
    daemon.write_endpoints({"catalog": THREE, "search": THREE})
    mounted = daemon.folder / "mounted"
    mounted.mkdir()
    (mounted / "..1").mkdir()
    (mounted / "..1" / "usher.yaml").write_text(daemon.config_path.read_text())
    (mounted / "..data").symlink_to("..1")
    (mounted / "usher.yaml").symlink_to("..data/usher.yaml")
    daemon.config_path = mounted / "usher.yaml"
    daemon.start(arguments=["--reload-on-change"])
    (mounted / "..2").mkdir()
    (mounted / "..2" / "usher.yaml").write_text(
        (mounted / "..1" / "usher.yaml").read_text().replace("catalog:", "search:"))
    (mounted / "..data_tmp").symlink_to("..2")
    (mounted / "..data_tmp").rename(mounted / "..data")
    wait_until("the new configuration is in force", lambda: services(daemon) == ["search"])
