"""Registrations: instances of this node that registries are told about, in a registry that does what the test says and in
files."""

import contextlib
import http.server
import json
import os
import shutil
import subprocess
import threading

import pytest

from usher import BUILD, PLUGINS, free_port, wait_until

TEST_PLUGINS = BUILD / "tests" / "plugins" / "lib"
HERE = "127.0.0.1"


class Registry:
    """The folder that plug-in `registry` (tests/plugins/registry.c) takes for one."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()

    def options(self, **more):
        return {"path": str(self.folder), "renew_after": "100ms", **more}

    def entry(self, name="catalog/a"):
        try:
            return (self.folder / name).read_text().strip()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def calls(self, call=None):
        try:
            lines = (self.folder / "calls").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [line for line in lines if call is None or line.split()[0] == call]

    def behave(self, how):
        (self.folder / how).touch()

    def behave_well(self):
        for how in ("away", "denied", "slow", "sluggish"):
            (self.folder / how).unlink(missing_ok=True)

    def lose(self, name="catalog/a"):
        (self.folder / name).unlink()

    def wipe(self):
        """As one that comes back without its data."""
        for entry in self.folder.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def wait_entry(self, wanted, name="catalog/a"):
        wait_until(f"{name} is {wanted}", lambda: self.entry(name) == wanted)

    def wait_more_calls(self, call, more=2):
        before = len(self.calls(call))
        wait_until(f"{more} more calls of {call}", lambda: len(self.calls(call)) >= before + more)


class Instance:
    """What is checked: answers with the status it was told."""

    def __init__(self, status=200):
        self.status = status
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(outer.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((HERE, 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def instance():
    made = Instance()
    yield made
    made.close()


@pytest.fixture
def registry(tmp_path):
    made = Registry(tmp_path / "registry")
    yield made
    made.behave_well()  # a call that hangs would keep usherd


def configuration(registry, *items, options=None, **more):
    return {"sources": [{"name": "hub", "plugin": "registry", "options": registry.options(**(options or {}))}],
            "registrations": list(items), **more}


def item(port=80, **more):
    return {"service": "catalog", "id": "a", "address": HERE, "port": port, **more}


CHECKED = {"http": {"path": "/health"}, "interval": "50ms", "timeout": "10s", "rise": 1, "fall": 1, "jitter": "0%"}


@pytest.fixture
def start(usherd, registry):
    def go(*items, options=None, **more):
        daemon = usherd(configuration(registry, *items, options=options, **more), plugin_dirs=[PLUGINS, TEST_PLUGINS])
        return daemon.start()

    return go


def reconfigure(daemon, registry, *items, options=None, **more):
    daemon.configure(configuration(registry, *items, options=options, **more))
    daemon.reload()


def shown(daemon, name="catalog/a"):
    answer = daemon.call("GET", f"/v1/registrations/{name}")
    return answer.json if answer.status == 200 else None


def wait_state(daemon, state, name="catalog/a"):
    return wait_until(f"{name} is {state}, not {shown(daemon, name)}",
                      lambda: (found := shown(daemon, name)) and found["state"] == state and found)


def put(daemon, body, name="catalog/a", status=None):
    answer = daemon.call("PUT", f"/v1/registrations/{name}", body, admin=True)
    assert answer.status in ([status] if status else (200, 201)), answer
    return answer.json


def delete(daemon, name="catalog/a", status=200):
    answer = daemon.call("DELETE", f"/v1/registrations/{name}", admin=True)
    assert answer.status == status, answer
    return answer.json


# ---- registered, kept alive, taken out ----

def test_what_is_declared_is_registered_and_renewed(start, registry):
    daemon = start(item(metadata={"v": "1"}, weight=3))
    registry.wait_entry(f"{HERE} 80 ready 3 v=1")
    registry.wait_more_calls("renew", 3)
    assert len(registry.calls("add")) == 1
    found = wait_state(daemon, "registered")
    assert found["origin"] == "configuration" and found["why"] is None
    assert found["registries"][0]["source"] == "hub" and found["registries"][0]["state"] == "registered"
    assert daemon.get("/v1/status")["registrations"] == {"total": 1, "registered": 1, "failing": 0}
    daemon.wait_listed(["a"])


def test_the_default_id_names_service_node_and_port(start, registry):
    daemon = start({"service": "catalog", "address": HERE, "port": 81})
    registry.wait_entry(f"{HERE} 81 ready 1", "catalog/catalog-node-1-81")
    wait_state(daemon, "registered", "catalog/catalog-node-1-81")


def test_it_is_registered_under_the_name_that_the_service_has_there(start, registry):
    daemon = start(item(), services={"catalog": {"sources": [{"source": "hub", "name": "catalog-svc"}]}})
    registry.wait_entry(f"{HERE} 80 ready 1", "catalog-svc/a")
    daemon.wait_listed(["a"])


def test_a_restart_leaves_no_gap(start, registry):
    daemon = start(item())
    registry.wait_entry(f"{HERE} 80 ready 1")
    daemon.stop()
    assert registry.entry() and not registry.calls("remove")
    daemon.start()
    wait_state(daemon, "registered")
    assert not registry.calls("remove")


def test_on_stop_deregister_takes_it_out_and_the_next_start_puts_it_back(start, registry):
    daemon = start(item(on_stop="deregister"))
    registry.wait_entry(f"{HERE} 80 ready 1")
    daemon.stop()
    assert registry.entry() is None
    daemon.start()
    registry.wait_entry(f"{HERE} 80 ready 1")


def test_a_stop_does_not_wait_long_for_a_registry_that_is_away(start, registry):
    daemon = start(item(on_stop="deregister"))
    registry.wait_entry(f"{HERE} 80 ready 1")
    registry.behave("away")
    daemon.stop()
    daemon.wait_said("is not out of its registries yet")
    registry.behave_well()
    daemon.start()
    wait_state(daemon, "registered")


def test_a_reload_adds_changes_and_removes(start, registry):
    daemon = start(item(), {**item(), "id": "b"})
    registry.wait_entry(f"{HERE} 80 ready 1")
    registry.wait_entry(f"{HERE} 80 ready 1", "catalog/b")
    reconfigure(daemon, registry, item(weight=50), {**item(), "id": "c"})
    registry.wait_entry(f"{HERE} 80 ready 50")
    registry.wait_entry(None, "catalog/b")
    registry.wait_entry(f"{HERE} 80 ready 1", "catalog/c")
    wait_state(daemon, "removed", "catalog/b")
    calls = len(registry.calls("add"))
    reconfigure(daemon, registry, item(weight=50), {**item(), "id": "c"})
    registry.wait_more_calls("renew")
    assert len(registry.calls("add")) == calls  # nothing changed, nothing is said


def test_what_left_the_configuration_while_usherd_was_away_is_taken_out(start, registry):
    daemon = start(item(), {**item(), "id": "b"})
    registry.wait_entry(f"{HERE} 80 ready 1", "catalog/b")
    wait_state(daemon, "registered")
    daemon.kill()
    daemon.configure(configuration(registry, item()))
    daemon.start()
    registry.wait_entry(None, "catalog/b")
    assert registry.entry() == f"{HERE} 80 ready 1"


def test_several_registries_for_one_registration(usherd, registry, tmp_path):
    second = Registry(tmp_path / "second")
    config = configuration(registry, item(sources=["hub", {"source": "spare", "name": "other"}]))
    config["sources"].append({"name": "spare", "plugin": "registry", "options": second.options()})
    daemon = usherd(config, plugin_dirs=[PLUGINS, TEST_PLUGINS])
    second.behave("away")
    daemon.start()
    registry.wait_entry(f"{HERE} 80 ready 1")
    found = wait_state(daemon, "failing")
    assert {r["source"]: r["state"] for r in found["registries"]} == {"hub": "registered", "spare": "failing"}
    assert "the registry is away" in found["why"]
    second.behave_well()
    second.wait_entry(f"{HERE} 80 ready 1", "other/a")
    wait_state(daemon, "registered")


# ---- health ----

def test_it_waits_for_the_first_good_check(start, registry, instance):
    instance.status = 503
    daemon = start(item(instance.port, health=CHECKED))
    found = wait_until("it says why", lambda: (found := shown(daemon)) and found["why"] and found)
    assert found["state"] == "waiting_for_health" and "503" in wait_until(
        "the failure is told", lambda: "503" in shown(daemon)["why"] and shown(daemon)["why"])
    assert not registry.calls("add")
    instance.status = 200
    registry.wait_entry(f"{HERE} {instance.port} ready 1")
    assert wait_state(daemon, "registered")["health"]["state"] == "up"


def test_the_services_own_check_is_the_default_and_none_waits_for_nothing(start, registry):
    closed = free_port()
    daemon = start(item(closed), {**item(closed), "id": "b", "health": "none"},
                   services={"catalog": {"health": {"tcp": {}, "interval": "50ms"}}})
    registry.wait_entry(f"{HERE} {closed} ready 1", "catalog/b")
    assert wait_state(daemon, "waiting_for_health")
    assert not [c for c in registry.calls("add") if "/a " in c]


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("policy, left", [("unready", "unready"), ("deregister", None)])
def test_what_is_down_after_a_restart_is_told_so_where_asked(start, registry, instance, policy, left, forgets):
    """Also where the registry answers that it knows nothing of what an earlier run has registered."""
    daemon = start(item(instance.port, health=CHECKED, on_unhealthy=policy), options={"forgets": forgets})
    registry.wait_entry(f"{HERE} {instance.port} ready 1")
    daemon.kill()
    instance.status = 503
    daemon.start()
    registry.wait_entry(left and f"{HERE} {instance.port} {left} 1")
    instance.status = 200
    registry.wait_entry(f"{HERE} {instance.port} ready 1")


@pytest.mark.parametrize("policy", ["keep", "unready", "deregister"])
def test_health_that_falls_later_is_told_as_the_configuration_wants(start, registry, instance, policy):
    daemon = start(item(instance.port, health=CHECKED, on_unhealthy=policy))
    registry.wait_entry(f"{HERE} {instance.port} ready 1")
    instance.status = 500
    wait_until("it is down", lambda: shown(daemon)["health"]["state"] == "down")
    if policy == "keep":
        registry.wait_more_calls("renew")
        assert registry.entry() == f"{HERE} {instance.port} ready 1"
        wait_state(daemon, "registered")
    elif policy == "unready":
        registry.wait_entry(f"{HERE} {instance.port} unready 1")
    else:
        registry.wait_entry(None)
        wait_state(daemon, "unhealthy")
    instance.status = 200
    registry.wait_entry(f"{HERE} {instance.port} ready 1")
    wait_state(daemon, "registered")


def test_after_a_restart_what_is_down_is_kept_alive_but_not_put_there_anew(start, registry, instance):
    daemon = start(item(instance.port, health=CHECKED))
    registry.wait_entry(f"{HERE} {instance.port} ready 1")
    wait_state(daemon, "registered")
    daemon.kill()
    instance.status = 503
    daemon.start()
    registry.wait_more_calls("renew")
    wait_state(daemon, "waiting_for_health")
    registry.lose()
    registry.wait_more_calls("renew", 1)
    wait_until("the loss is told", lambda: "waiting for its first good check" in daemon.log_text())
    assert registry.entry() is None
    instance.status = 200
    registry.wait_entry(f"{HERE} {instance.port} ready 1")


# ---- registries that fail ----

def test_a_lost_lease_is_registered_again_with_the_newest_content(start, registry):
    daemon = start(item(weight=10))
    registry.wait_entry(f"{HERE} 80 ready 10")
    reconfigure(daemon, registry, item(weight=50))
    registry.wait_entry(f"{HERE} 80 ready 50")
    registry.lose()
    registry.wait_entry(f"{HERE} 80 ready 50")
    daemon.wait_said("there is no lease")


def test_a_registry_that_is_wiped_has_everything_again(start, registry):
    names = [f"i{n}" for n in range(20)]
    daemon = start(*({**item(), "id": name} for name in names))
    for name in names:
        registry.wait_entry(f"{HERE} 80 ready 1", f"catalog/{name}")
    registry.behave("away")
    wait_until("that is told", lambda: daemon.get("/v1/status")["registrations"]["failing"] > 0)
    registry.wipe()
    for name in names:
        registry.wait_entry(f"{HERE} 80 ready 1", f"catalog/{name}")
    wait_until("all is well", lambda: daemon.get("/v1/status")["registrations"]["registered"] == len(names))


def test_a_registry_that_is_away_at_the_start_is_told_later(start, registry):
    registry.behave("away")
    daemon = start(item())
    found = wait_state(daemon, "failing")
    assert "the registry is away" in found["why"]
    registry.behave_well()
    registry.wait_entry(f"{HERE} 80 ready 1")
    wait_state(daemon, "registered")


def test_one_attempt_at_a_time_while_a_registry_is_away(start, registry):
    """Twenty registrations do not knock twenty times as often."""
    registry.behave("away")
    daemon = start(*({**item(), "id": f"i{n}"} for n in range(20)))
    wait_until("the back-off has grown", lambda: len(registry.calls("add")) >= 4)
    assert daemon.get("/v1/status")["registrations"]["failing"] == 20
    for n in range(20):
        assert "away" in shown(daemon, f"catalog/i{n}")["why"]


def test_a_registry_that_refuses_is_told_with_what_to_do(start, registry):
    registry.behave("denied")
    daemon = start(item())
    found = wait_state(daemon, "failing")
    assert found["why"] == "the registry says no; give the credentials of the source the right to register"
    registry.behave_well()
    wait_state(daemon, "registered")


def test_a_registry_that_does_not_answer_holds_nobody_up(start, registry):
    registry.behave("slow")
    daemon = start(item())
    wait_until("it was asked", lambda: registry.calls("add"))
    assert shown(daemon)["registries"][0]["waiting_ms"] is not None
    assert daemon.get("/v1/services/catalog/endpoints")["endpoints"] == []  # the core answers
    registry.behave_well()
    wait_state(daemon, "registered")


def test_leases_that_only_their_owner_knows_survive_a_restart_of_usherd(start, registry):
    daemon = start(item(), options={"forgets": True})
    registry.wait_entry(f"{HERE} 80 ready 1")
    daemon.kill()
    daemon.start()
    wait_state(daemon, "registered")
    registry.wait_more_calls("renew")
    assert registry.entry() == f"{HERE} 80 ready 1"


def test_another_instance_of_the_source_is_told_anew(start, registry):
    daemon = start(item())
    registry.wait_entry(f"{HERE} 80 ready 1")
    reconfigure(daemon, registry, item(), options={"renew_after": "120ms"})
    wait_until("it is added again", lambda: len(registry.calls("add")) == 2)
    wait_state(daemon, "registered")


@pytest.mark.parametrize("arrives", [False, True])
def test_a_kill_while_the_registry_is_told_leaves_nothing_behind(start, registry, arrives):
    """Whether or not the call got there, the next run knows that it may have."""
    registry.behave("slow")
    daemon = start(item())
    wait_until("it is being told", lambda: registry.calls("add"))
    daemon.kill()
    registry.behave_well()
    if arrives:
        (registry.folder / "catalog").mkdir()
        (registry.folder / "catalog" / "a").write_text(f"{HERE} 80 ready 1\n")
    daemon.configure(configuration(registry))
    daemon.start()
    wait_until("it is taken out", lambda: registry.calls("remove"))
    registry.wait_entry(None)
    wait_state(daemon, "removed")


def test_a_kill_while_it_is_taken_out_takes_it_out(start, registry):
    daemon = start()
    put(daemon, {"address": HERE, "port": 80})
    registry.wait_entry(f"{HERE} 80 ready 1")
    registry.behave("slow")
    delete(daemon)
    wait_until("it is being told", lambda: registry.calls("remove") or shown(daemon)["registries"][0]["waiting_ms"] is not None)
    daemon.kill()
    registry.behave_well()
    daemon.start()
    registry.wait_entry(None)
    wait_state(daemon, "removed")


# ---- many in one registry ----

MANY = 300


def start_many(start, count, **options):
    daemon = start(*({**item(), "service": f"s{n % 20}", "id": f"i{n}", "port": n + 1} for n in range(count)), options=options)
    wait_until("all are registered", lambda: daemon.get("/v1/status")["registrations"]["registered"] == count, deadline=120)
    return daemon


def test_hundreds_in_one_registry_are_all_kept_alive(start, registry):
    """Each in its turn, none again and again before another."""
    start_many(start, MANY, renew_after="2s")
    names = {f"s{n % 20}/i{n}" for n in range(MANY)}

    def renewed():
        times = dict.fromkeys(names, 0)
        for line in registry.calls("renew"):
            times[line.split()[1]] += 1
        return times

    wait_until("each was renewed twice", lambda: min(renewed().values()) >= 2, deadline=120)
    assert len(registry.calls("add")) == MANY


def test_renewals_that_are_late_are_told_and_when_they_are_in_time_again(start, registry):
    daemon = start_many(start, 100, renew_after="1s")
    registry.behave("sluggish")  # a hundred calls take ten seconds, and a lease five
    late = wait_until("one of them is late", lambda: [r for r in daemon.get("/v1/registrations")["registrations"]
                                                      if r["state"] == "failing"], deadline=120)
    assert "its lease of 5.0 s is over" in late[0]["why"] and "wait for hub" in late[0]["why"], late[0]
    assert late[0]["registries"][0]["error"] and late[0]["registries"][0]["failures"] == 0
    assert "is over" in daemon.ctl("get", "registrations").stdout
    registry.behave_well()
    wait_until("all are in time", lambda: daemon.get("/v1/status")["registrations"] == {"total": 100, "registered": 100, "failing": 0},
               deadline=120)
    wait_until("that is told, once for each time", lambda: daemon.log_text().count("Renewals in hub are late, first that of")
               == daemon.log_text().count("Renewals in hub are in time again") > 0, deadline=120)
    text = daemon.log_text()
    assert "Cannot keep" not in text and "which works again" not in text  # once for all of them


# ---- over the API ----

def test_put_is_durable_and_idempotent(start, registry):
    daemon = start()
    body = {"address": HERE, "port": 80, "health": "none", "weight": 2}
    made = put(daemon, body, status=201)
    assert made["origin"] == "api" and "uid" in made["requested_by"]
    registry.wait_entry(f"{HERE} 80 ready 2")
    adds = len(registry.calls("add"))
    put(daemon, body, status=200)
    daemon.kill()  # at once: what was answered is on disk
    daemon.start()
    wait_state(daemon, "registered")
    put(daemon, {**body, "weight": 7}, status=200)
    registry.wait_entry(f"{HERE} 80 ready 7")
    assert len(registry.calls("add")) <= adds + 2
    assert delete(daemon)["state"] in ("leaving", "removed")
    daemon.kill()
    daemon.start()
    registry.wait_entry(None)
    delete(daemon, status=404 if shown(daemon) is None else 200)


def test_deregistering_survives_a_registry_that_is_away_and_a_crash(start, registry):
    daemon = start()
    put(daemon, {"address": HERE, "port": 80})
    registry.wait_entry(f"{HERE} 80 ready 1")
    registry.behave("away")
    delete(daemon)
    found = wait_state(daemon, "failing")
    assert "away" in found["why"]
    daemon.kill()
    daemon.start()
    wait_state(daemon, "failing")
    registry.behave_well()
    registry.wait_entry(None)
    wait_state(daemon, "removed")


def test_what_is_asked_again_while_it_leaves_stays(start, registry):
    daemon = start()
    put(daemon, {"address": HERE, "port": 80})
    registry.wait_entry(f"{HERE} 80 ready 1")
    registry.behave("away")
    delete(daemon)
    put(daemon, {"address": HERE, "port": 81}, status=201)
    registry.behave_well()
    registry.wait_entry(f"{HERE} 81 ready 1")
    wait_state(daemon, "registered")


def test_what_a_full_disk_does_not_take_is_refused_and_nothing_else_is_said(start, registry, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("making a full disk needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], check=True)
    try:
        daemon = start(state_dir=str(disk / "state"))
        put(daemon, {"address": HERE, "port": 80})
        wait_state(daemon, "registered")
        with open(disk / "filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
            while filler.write(b"x" * 4096):
                pass
        long = {name: "x" * 1000 for name in "abcdefgh"}
        # What the database has room for in its files is taken.
        refused = next(name for name in (f"b{n}" for n in range(200)) if daemon.call(
            "PUT", f"/v1/registrations/catalog/{name}", {"address": HERE, "port": 81, "metadata": long}, admin=True).status == 503)
        assert shown(daemon, f"catalog/{refused}") is None
        assert refused not in [r["id"] for r in daemon.get("/v1/registrations")["registrations"]]
        put(daemon, {"address": HERE, "port": 82, "metadata": long}, status=503)
        assert shown(daemon)["state"] == "registered" and shown(daemon)["endpoint"]["port"] == 80
        text = daemon.log_text()
        assert f"does not take the change of {refused} of catalog" in text and "does not take the change of a of catalog" in text
        assert "registering it all the same" not in text
        (disk / "filler").unlink()
        wait_until("the disk takes it", lambda: daemon.call("PUT", f"/v1/registrations/catalog/{refused}",
                                                            {"address": HERE, "port": 83}, admin=True).status == 201)
        registry.wait_entry(f"{HERE} 83 ready 1", f"catalog/{refused}")
        daemon.stop()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


REFUSED = [
    ({}, 'body:1:1: "port" is missing'),
    ({"port": 0}, "is not in 1..65535"),
    ({"port": 80, "adress": HERE}, 'did you mean "address"?'),
    ({"port": 80, "service": "x"}, 'unknown key "service"'),
    ({"port": 80, "sources": ["hubb"]}, 'did you mean "hub"?'),
    ({"port": 80, "health": {"http": {"pth": "/"}}}, 'did you mean "path"?'),
    ({"port": 80, "metadata": {"a": []}}, "must be a text"),
    ({"port": 80, "health": {"exec": {"command": ["/bin/true"]}}}, "programs are run only where the configuration says so"),
    ("[1]", "must be a JSON object"),
    ("port: 80", "no JSON"),
    ('{"port": 80, "port": 81}', "duplicate"),
]


@pytest.mark.parametrize("body, said", REFUSED)
def test_what_is_wrong_is_refused_with_its_place(start, registry, body, said):
    daemon = start()
    answer = daemon.call("PUT", "/v1/registrations/catalog/a", body, admin=True)
    assert (answer.status, answer.json["code"]) == (400, "bad_request")
    assert said in answer.json["detail"]
    assert shown(daemon) is None


def test_only_the_admin_socket_changes(start, registry):
    daemon = start()
    for method in ("PUT", "DELETE"):
        answer = daemon.call(method, "/v1/registrations/catalog/a", {"port": 80} if method == "PUT" else None)
        assert (answer.status, answer.json["code"]) == (403, "forbidden")


def test_what_the_configuration_declares_is_not_the_apis(start, registry):
    daemon = start(item())
    wait_state(daemon, "registered")
    for method in ("PUT", "DELETE"):
        answer = daemon.call(method, "/v1/registrations/catalog/a", {"port": 80} if method == "PUT" else None, admin=True)
        assert (answer.status, answer.json["code"]) == (409, "configured")
        assert str(daemon.config_path) in answer.json["detail"]


def test_the_configuration_takes_over_what_was_asked_for(start, registry):
    daemon = start()
    put(daemon, {"address": HERE, "port": 80})
    registry.wait_entry(f"{HERE} 80 ready 1")
    reconfigure(daemon, registry, item(82))
    registry.wait_entry(f"{HERE} 82 ready 1")
    assert wait_state(daemon, "registered")["origin"] == "configuration"
    reconfigure(daemon, registry)
    registry.wait_entry(None)


def test_a_reload_that_takes_its_registry_away_is_told(usherd, registry):
    config = configuration(registry)
    config["sources"].append({"name": "files", "plugin": "file", "options": {"path": "/nonexistent"}})
    daemon = usherd(config, plugin_dirs=[PLUGINS, TEST_PLUGINS]).start()
    put(daemon, {"address": HERE, "port": 80, "sources": ["hub"]})
    registry.wait_entry(f"{HERE} 80 ready 1")
    daemon.configure({"sources": config["sources"][1:]})
    daemon.reload()
    assert "hub" in wait_until("it says why", lambda: shown(daemon)["why"])
    delete(daemon)
    wait_state(daemon, "removed")
    daemon.configure(config)
    daemon.reload()


# ---- drains ----

DRAIN = {"drain": {"in_flight": {"quiet": "0s", "from": ["consumers"]}, "min_ready": 0},
         "restore": {"probe": {"enabled": False}}}


def test_a_drain_holds_it_back_until_it_is_restored(start, registry):
    daemon = start(item(), services={"catalog": DRAIN})
    registry.wait_entry(f"{HERE} 80 ready 1")
    daemon.wait_listed(["a"])
    done = daemon.wait_finished(daemon.drain("a")["id"])
    assert done["state"] == "done"
    registry.wait_entry(None)
    wait_state(daemon, "held")
    adds = len(registry.calls("add"))
    reconfigure(daemon, registry, item(weight=9), services={"catalog": DRAIN})
    daemon.restart()
    wait_state(daemon, "held")
    assert len(registry.calls("add")) == adds and registry.entry() is None
    restored = daemon.wait_finished(daemon.restore("a")["id"])
    assert restored["state"] == "done"
    registry.wait_entry(f"{HERE} 80 ready 9")
    wait_state(daemon, "registered")


def test_what_is_registered_anew_while_it_is_held_is_restored_as_it_is_then(start, registry, instance, tmp_path):
    """The instance was deployed on another port, and nobody listens on the one before."""
    hook = {"command": ["/bin/sh", "-c", f"echo $USHER_ADDRESS $USHER_PORT >> {tmp_path}/hook"]}
    daemon = start(services={"catalog": {"drain": {**DRAIN["drain"], "readiness": {"exec": hook}, "open": {"exec": hook}}}})
    put(daemon, {"address": HERE, "port": free_port(), "health": "none"})
    daemon.wait_listed(["a"])
    assert daemon.wait_finished(daemon.drain("a")["id"])["state"] == "done"
    wait_state(daemon, "held")
    (tmp_path / "hook").unlink(missing_ok=True)
    put(daemon, {"address": HERE, "port": instance.port, "health": "none"})
    restored = daemon.wait_finished(daemon.restore("a")["id"])
    assert restored["state"] == "done", restored
    registry.wait_entry(f"{HERE} {instance.port} ready 1")
    wait_state(daemon, "registered")
    assert set((tmp_path / "hook").read_text().splitlines()) == {f"{HERE} {instance.port}"}


def test_what_is_held_can_be_taken_out(start, registry):
    daemon = start(services={"catalog": DRAIN})
    put(daemon, {"address": HERE, "port": 80})
    daemon.wait_listed(["a"])
    daemon.wait_finished(daemon.drain("a")["id"])
    wait_state(daemon, "held")
    delete(daemon)
    wait_state(daemon, "removed")


# ---- addresses ----

def test_an_address_of_the_node_is_chosen(start, registry):
    daemon = start({"service": "catalog", "id": "at-{address}", "port": 80, "address_from": {"interfaces": ["lo"], "family": "ipv4"}})
    registry.wait_entry(f"{HERE} 80 ready 1", f"catalog/at-{HERE}")
    assert wait_state(daemon, "registered", f"catalog/at-{HERE}")["endpoint"]["address"] == HERE


def test_where_no_address_qualifies_that_is_told(start, registry):
    daemon = start({"service": "catalog", "id": "a", "port": 80}, node={"name": "node-1", "address_from": {"networks": ["198.18.255.252/30"]}})
    found = wait_until("it says why", lambda: (found := shown(daemon)) and found["why"] and found)
    assert found["state"] == "pending" and "no address of this node qualifies" in found["why"]
    assert found["endpoint"] is None
    reconfigure(daemon, registry, item())
    wait_state(daemon, "registered")


class Network:
    """A network of its own for one usherd; its sockets are in the file system, and so anywhere."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.of_root = os.geteuid() == 0
        daemon.prefix = ["unshare", "--net"] if self.of_root else ["unshare", "--map-root-user", "--net"]

    def ip(self, *words):
        enter = ["nsenter", "-t", str(self.daemon.process.pid), "--net"]
        if not self.of_root:
            enter += ["--user", "--preserve-credentials"]
        subprocess.run([*enter, "ip", *words], check=True, capture_output=True)


def test_another_address_of_the_node_is_registered_in_place_of_the_one_before(usherd, registry):
    daemon = usherd(configuration(registry, {"service": "catalog", "id": "a", "port": 80},
                                  node={"name": "node-1", "address_from": {"interfaces": ["lo"], "networks": ["10.0.0.0/8"]}}),
                    plugin_dirs=[PLUGINS, TEST_PLUGINS])
    network = Network(daemon)
    daemon.start()
    assert "no address of this node qualifies" in wait_until("there is none yet", lambda: (shown(daemon) or {}).get("why"))
    network.ip("link", "set", "lo", "up")
    network.ip("address", "add", "10.1.1.1/32", "dev", "lo")
    registry.wait_entry("10.1.1.1 80 ready 1")
    network.ip("address", "add", "10.1.1.2/32", "dev", "lo")
    network.ip("address", "del", "10.1.1.1/32", "dev", "lo")
    registry.wait_entry("10.1.1.2 80 ready 1")
    assert wait_state(daemon, "registered")["endpoint"]["address"] == "10.1.1.2"
    network.ip("address", "del", "10.1.1.2/32", "dev", "lo")
    found = wait_state(daemon, "pending")
    assert "no address of this node qualifies" in found["why"]


# ---- files, and a plug-in that cannot ----

def test_the_file_plug_in_registers(usherd):
    at_once = {"defaults": {"removal_guard": {"share": "100%"}}}
    daemon = usherd({"registrations": [item(metadata={"v": "1"})], **at_once})
    daemon.write_endpoints({"catalog": []})
    daemon.start()
    daemon.wait_listed(["a"])
    assert daemon.listed()["a"]["metadata"] == {"v": "1"}
    daemon.stop()
    daemon.configure(at_once)
    daemon.start()
    daemon.wait_listed([])


def test_a_plug_in_that_cannot_register_is_refused_by_name(usherd, registry):
    config = configuration(registry, item(sources=["dumb"]))
    config["sources"].append({"name": "dumb", "plugin": "complete", "options": {"path": "/x"}})
    daemon = usherd(config, plugin_dirs=[PLUGINS, TEST_PLUGINS])
    daemon.start(wait=False)
    assert daemon.wait_end() == 1
    text = daemon.log_text()
    assert "plug-in complete of source dumb cannot register an endpoint; sources that can: hub" in text
    assert "registrations[0].sources[0]" in text


# ---- the command line ----

def test_usherctl_registers_and_takes_out(start, registry):
    daemon = start()
    done = daemon.ctl("register", "catalog/a", f"address={HERE}", "port=80", "metadata.a.b=c", "health=none", "--wait")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "catalog/a is registered\n"
    assert registry.entry() == f"{HERE} 80 ready 1 a.b=c"
    rows = [line.split() for line in daemon.ctl("get", "registrations").stdout.splitlines()]
    assert rows[1][:4] == ["catalog/a", "registered", f"{HERE}:80", "hub"]
    assert "hub" in daemon.ctl("describe", "registration", "catalog/a").stdout
    refused = daemon.ctl("register", "catalog/a", "prt=80")
    assert refused.returncode == 2 and 'did you mean "port"?' in refused.stderr
    done = daemon.ctl("deregister", "catalog/a", "--wait")
    assert (done.returncode, done.stdout) == (0, "catalog/a is removed\n")
    assert registry.entry() is None
    assert daemon.ctl("deregister", "catalog/b").returncode == 5


def test_an_id_may_be_of_any_script(start, registry):
    daemon = start()
    assert daemon.ctl("register", "catalog/zürich-東", f"address={HERE}", "port=80", "health=none", "--wait").returncode == 0
    listed = json.loads(daemon.ctl("get", "registrations", "catalog/zürich-東", "-o", "json").stdout)
    assert [one["id"] for one in listed["registrations"]] == ["zürich-東"]
    assert daemon.ctl("deregister", "catalog/zürich-東", "--wait").returncode == 0


def test_waiting_for_a_registration_gives_up_and_usherd_goes_on(start, registry):
    daemon = start()
    registry.behave("away")
    done = daemon.ctl("register", "catalog/a", f"address={HERE}", "port=80", "--wait-timeout", "300ms")
    assert done.returncode == 124 and "usherd goes on with it" in done.stderr
    registry.behave_well()
    wait_state(daemon, "registered")
