"""usherd under a real systemd: installed with its units into a machine of its own, and treated as an operator would."""

import json
import os
import re
import subprocess
import threading

import pytest

from machine import Machine
from usher import BUILD, endpoint, wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="booting a systemd needs root")

CONFIG = {
    "sources": [{"name": "files", "plugin": "file", "options": {"path": "/etc/usher/endpoints.d"}}],
    "services": {"catalog": {"startup_timeout": "60s", "drain": {"in_flight": {"quiet": "100ms"}}}},
}
ENDPOINTS = {"services": {"catalog": [endpoint("catalog-a", 8081), endpoint("catalog-b", 8082)]}}


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """What a package would install, below a folder."""
    folder = tmp_path_factory.mktemp("stage")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", "/usr"], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "DESTDIR": str(folder)})
    # A watchdog that bites soon; the unit's own is slower.
    override = folder / "etc/systemd/system/usherd.service.d/test.conf"
    override.parent.mkdir(parents=True)
    override.write_text("[Service]\nWatchdogSec=2s\n")
    return folder


@pytest.fixture
def machine(stage):
    with Machine(stage) as machine:
        machine.check("systemd-sysusers")
        machine.check("systemd-tmpfiles", "--create", "usher.conf")
        configure(machine, CONFIG)
        yield machine


def configure(machine, config):
    machine.write("/etc/usher/usher.yaml", json.dumps(config))


def write_endpoints(machine, endpoints=None):
    machine.write("/etc/usher/endpoints.d/catalog.yaml", json.dumps(endpoints or ENDPOINTS))


def start(machine):
    write_endpoints(machine)
    machine.check("systemctl", "start", "usherd.service")


def call(machine, method, path, body=None, admin=False, **more):
    connection = machine.connect("/run/usher/admin.sock" if admin else "/run/usher/usher.sock", **more)
    try:
        connection.request(method, path, body=None if body is None else json.dumps(body))
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_it_is_active_only_after_the_first_directory_is_in(machine):
    machine.check("systemctl", "start", "--no-block", "usherd.service")
    wait_until("it says what it waits for", lambda: "waiting for catalog" in machine.show("usherd.service", "StatusText"))
    assert machine.show("usherd.service", "StatusText") == "0 of 1 services have their first answer; waiting for catalog"
    assert machine.show("usherd.service", "ActiveState") == "activating"

    write_endpoints(machine)
    wait_until("it is active", lambda: machine.show("usherd.service", "ActiveState") == "active")
    assert machine.show("usherd.service", "StatusText") == "1 of 1 services are live"
    status, answer = call(machine, "GET", "/v1/services/catalog/endpoints")
    assert status == 200
    assert [e["id"] for e in answer["endpoints"]] == ["catalog-a", "catalog-b"]


def test_a_daemon_that_hangs_is_killed_and_started_again(machine):
    start(machine)
    first = machine.show("usherd.service", "MainPID")

    machine.check("kill", "-STOP", first)
    wait_until("systemd has started it again", lambda: machine.show("usherd.service", "NRestarts") == "1" and
               machine.show("usherd.service", "ActiveState") == "active")
    assert machine.show("usherd.service", "MainPID") != first
    assert "atchdog" in machine.journal("-u", "usherd.service")
    assert call(machine, "POST", "/v1/services/catalog/pick")[0] == 200


def test_a_good_reload_takes_and_a_bad_one_fails_and_changes_nothing(machine):
    start(machine)
    pid = machine.show("usherd.service", "MainPID")

    configure(machine, {**CONFIG, "services": {**CONFIG["services"], "search": {"startup_timeout": "1s"}}})
    machine.check("systemctl", "reload", "usherd.service")
    assert [s["service"] for s in call(machine, "GET", "/v1/services")[1]["services"]] == ["catalog", "search"]

    configure(machine, {**CONFIG, "servces": {}})
    assert machine.run("systemctl", "reload", "usherd.service").returncode != 0
    status = machine.show("usherd.service", "StatusText")
    assert re.search(r'the last reload was refused: /etc/usher/usher.yaml:1:\d+: .*"servces"; did you mean "services"\?', status)
    assert machine.show("usherd.service", "ActiveState") == "active"
    assert machine.show("usherd.service", "MainPID") == pid
    assert [s["service"] for s in call(machine, "GET", "/v1/services")[1]["services"]] == ["catalog", "search"]

    configure(machine, CONFIG)
    machine.check("systemctl", "reload", "usherd.service")
    assert "refused" not in machine.show("usherd.service", "StatusText")


def test_a_drain_goes_on_after_systemctl_stop_and_start(machine):
    # Its windows keep it in its propagation step long enough to be stopped there.
    service = {**CONFIG["services"]["catalog"],
               "drain": {"propagation": {"consumer_cache": "3s"}, "in_flight": {"quiet": "100ms"}}}
    configure(machine, {**CONFIG, "services": {"catalog": service}})
    start(machine)
    status, drain = call(machine, "POST", "/v1/drains", {"service": "catalog", "endpoint": "catalog-a"}, admin=True)
    assert status == 201
    path = f"/v1/drains/{drain['id']}"
    wait_until("it is in propagation", lambda: call(machine, "GET", path)[1]["step"] == "propagation")

    machine.check("systemctl", "stop", "usherd.service")
    assert machine.show("usherd.service", "Result") == "success"
    machine.check("systemctl", "start", "usherd.service")

    done = wait_until("it is done", lambda: (lambda r: r if r["finished_at"] else None)(call(machine, "GET", path)[1]))
    assert done["state"] == "done"
    assert [e["id"] for e in call(machine, "GET", "/v1/services/catalog/endpoints")[1]["endpoints"]] == ["catalog-b"]


def test_a_close_hook_stops_a_unit_and_an_open_hook_starts_it(machine):
    machine.write("/etc/systemd/system/catalog@.service", "[Service]\nExecStart=/bin/sleep infinity\n")
    # In place of a polkit rule for the user usher.
    machine.write("/etc/systemd/system/usherd.service.d/root.conf",
                  "[Service]\nUser=root\nGroup=root\nCapabilityBoundingSet=CAP_SYS_ADMIN CAP_CHOWN\n")
    unit = {"systemd": {"unit": "catalog@{id}.service"}}
    hooks = {"drain": {"in_flight": {"quiet": "100ms"}, "close": unit, "open": unit},
             "restore": {"probe": {"enabled": False}}}
    configure(machine, {**CONFIG, "services": {"catalog": hooks}})
    machine.check("systemctl", "daemon-reload")
    machine.check("systemctl", "start", "catalog@catalog-a.service", "catalog@catalog-b.service")
    start(machine)

    def state(name):
        return machine.show(f"catalog@{name}.service", "ActiveState")

    def finished(record):
        return wait_until("it is finished", lambda: (lambda r: r if r["finished_at"] else None)(
            call(machine, "GET", f"/v1/drains/{record['id']}")[1]))

    body = {"service": "catalog", "endpoint": "catalog-a"}
    done = finished(call(machine, "POST", "/v1/drains", body, admin=True)[1])
    assert (done["state"], state("catalog-a"), state("catalog-b")) == ("done", "inactive", "active"), done
    done = finished(call(machine, "POST", "/v1/restores", body, admin=True)[1])
    assert (done["state"], state("catalog-a")) == ("done", "active"), done


def test_no_consumer_is_refused_an_answer_while_it_restarts(machine):
    start(machine)
    failures, answers, ending = [], [], threading.Event()

    def ask():
        while not ending.is_set():
            try:
                answers.append(call(machine, "POST", "/v1/services/catalog/pick")[0])
            except Exception as e:
                failures.append(repr(e))

    askers = [threading.Thread(target=ask) for _ in range(4)]
    for asker in askers:
        asker.start()
    for _ in range(3):
        before = len(answers)
        machine.check("systemctl", "restart", "usherd.service")
        wait_until("consumers are answered", lambda: len(answers) > before + 20)
    ending.set()
    for asker in askers:
        asker.join()
    assert failures == []
    assert set(answers) == {200}


def test_it_logs_to_the_journal_with_fields(machine):
    start(machine)
    call(machine, "POST", "/v1/drains", {"service": "catalog", "endpoint": "catalog-a"}, admin=True)
    wait_until("the drain is in the journal", lambda: "catalog-a" in machine.run(
        "journalctl", "--no-pager", "USHER_SERVICE=catalog", "USHER_ENDPOINT=catalog-a").stdout)


def test_the_units_are_clean_and_exposed_little(machine):
    verified = machine.run("systemd-analyze", "verify", "usherd.service", "usherd.socket", "usherd-admin.socket")
    assert verified.returncode == 0
    assert verified.stdout + verified.stderr == ""
    security = machine.run("systemd-analyze", "security", "--threshold=20", "--no-pager", "usherd.service")
    assert security.returncode == 0, security.stdout


def test_the_admin_socket_is_for_root_and_its_group(machine):
    start(machine)
    sockets = machine.check("stat", "-c", "%a %U %G %n", "/run/usher/usher.sock", "/run/usher/admin.sock").splitlines()
    assert sockets == ["666 root root /run/usher/usher.sock", "660 root usher /run/usher/admin.sock"]

