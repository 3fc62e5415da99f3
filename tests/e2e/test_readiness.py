"""When usherd calls itself ready, and what it says until then."""

from usher import endpoint, wait_until

ONE = [endpoint("a", 8081)]


def test_ready_waits_for_the_first_answer_of_every_declared_service(usherd):
    daemon = usherd({"services": {"catalog": {"startup_timeout": "60s"}, "search": {"startup_timeout": "60s"}}})
    daemon.start(wait=False)
    daemon.wait_told("STATUS")
    wait_until("it counts", lambda: daemon.status() ==
               "0 of 2 services have their first answer; waiting for catalog, search")
    daemon.write_endpoints({"catalog": ONE})
    wait_until("one is in", lambda: daemon.status() == "1 of 2 services have their first answer; waiting for search")
    assert not any(m.get("READY") == "1" for m in daemon.told)
    daemon.write_endpoints({"catalog": ONE, "search": ONE})
    daemon.wait_told("READY", "1")


def test_the_start_timeout_is_extended_while_services_are_missing(usherd):
    daemon = usherd({"services": {"catalog": {"startup_timeout": "60s"}}})
    daemon.start(wait=False)
    daemon.wait_told("EXTEND_TIMEOUT_USEC")
    daemon.wait_told("EXTEND_TIMEOUT_USEC")


def test_a_service_that_is_truly_empty_is_an_answer(usherd):
    daemon = usherd({"services": {"search": {"startup_timeout": "60s"}}})
    daemon.write_endpoints({"search": []})
    daemon.start()
    assert daemon.pick("search").json["code"] == "empty"


def test_a_service_whose_time_is_used_up_is_not_waited_for(usherd):
    daemon = usherd({"services": {"catalog": {"startup_timeout": "200ms"}}})
    daemon.start()
    assert daemon.status() == "0 of 1 services have their first answer; without: catalog"


def test_a_source_that_is_down_at_the_start_is_found_later(usherd):
    daemon = usherd({"services": {"catalog": {"startup_timeout": "200ms"}}})
    daemon.start()
    daemon.write_endpoints({"catalog": ONE})
    wait_until("it is found", lambda: daemon.pick().status == 200)
    wait_until("the status follows", lambda: daemon.status() == "1 of 1 services are live")


def test_before_the_first_answer_a_consumer_is_told_so(usherd):
    daemon = usherd({"services": {"catalog": {"startup_timeout": "60s"}}})
    daemon.start(wait=False)
    wait_until("the socket is there", daemon.answers)
    answer = wait_until("it answers", lambda: daemon.pick())
    assert answer.status == 503
    assert answer.json["code"] in ("source_unknown", "source_failed")
    assert daemon.call("GET", "/readyz").status == 503
    assert daemon.call("GET", "/healthz").status == 200
    daemon.write_endpoints({"catalog": ONE})
    daemon.wait_told("READY", "1")
    assert daemon.call("GET", "/readyz").status == 200


def test_a_union_goes_on_without_a_source_whose_time_is_used_up(usherd):
    daemon = usherd()
    daemon.configure({
        "sources": [{"name": "files", "plugin": "file", "options": {"path": str(daemon.endpoints)}},
                    {"name": "absent", "plugin": "file", "options": {"path": str(daemon.folder / "absent.yaml")}}],
        "services": {"catalog": {"merge": "union", "sources": ["files", "absent"], "startup_timeout": "300ms"}},
    })
    daemon.write_endpoints({"catalog": ONE})
    daemon.start()
    wait_until("what there is, is served", lambda: daemon.pick().status == 200)


def test_the_next_source_stands_in_for_one_that_fails(usherd):
    daemon = usherd()
    daemon.configure({
        "sources": [{"name": "absent", "plugin": "file", "options": {"path": str(daemon.folder / "absent.yaml")}},
                    {"name": "files", "plugin": "file", "options": {"path": str(daemon.endpoints)}}],
        "services": {"catalog": {"startup_timeout": "300s"}},
    })
    daemon.write_endpoints({"catalog": ONE})
    daemon.start(wait=False)
    wait_until("it is served before the time is used up", lambda: daemon.answers() and daemon.pick().status == 200)


def test_a_union_is_not_published_before_each_of_its_sources_has_answered(usherd):
    daemon = usherd()
    second = daemon.folder / "second.yaml"
    daemon.configure({
        "sources": [{"name": "files", "plugin": "file", "options": {"path": str(daemon.endpoints)}},
                    {"name": "second", "plugin": "file", "options": {"path": str(second)}}],
        "services": {"catalog": {"merge": "union", "sources": ["files", "second"], "startup_timeout": "60s"}},
    })
    daemon.write_endpoints({"catalog": ONE})
    daemon.start(wait=False)
    wait_until("the first source has answered", lambda: daemon.answers() and
               daemon.get("/v1/services/catalog")["feeds"][0]["state"] == "live")
    assert daemon.pick().status == 503
    daemon.write_endpoints({"catalog": [endpoint("b", 8082)]}, path=second)
    daemon.wait_told("READY", "1")
    assert set(daemon.listed()) == {"a", "b"}


def test_stopping_is_said(usherd):
    daemon = usherd()
    daemon.start()
    daemon.stop()
    while daemon.listen_to_systemd(0):
        pass
    assert any(m.get("STOPPING") == "1" for m in daemon.told)


def test_the_watchdog_is_fed(usherd):
    daemon = usherd()
    daemon.start(environment={"WATCHDOG_USEC": "400000"})
    for _ in range(3):
        daemon.wait_told("WATCHDOG", "1")
