"""Real usherds ask real servers: over TLS, gRPC, TCP, by name and by a program."""

import json
import subprocess
import sys

import pytest

from usher import DEADLINE, SOURCE, Usherd, wait_until


@pytest.fixture(scope="module", name="servers")
def start_servers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("servers")
    process = subprocess.Popen([sys.executable, "-B", SOURCE / "tests" / "lib" / "health_servers.py", folder],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ports = {}
    for line in process.stdout:
        if line == "ready\n":
            break
        name, port = line.split()
        ports[name] = int(port)
    yield ports, folder
    process.stdin.close()
    process.wait(DEADLINE)


def service(check, **more):
    return {"sources": ["files"], "removal_guard": {"share": "100%"},
            "health": {**check, "interval": "50ms", "timeout": "5s", "fall": 1, **more},
            "chain": [{"ready": {}}, {"health": {"unknown": "avoid"}}]}


def endpoint(port, address="127.0.0.1", **more):
    return [{"id": "one", "address": address, "port": port, **more}]


def code_of(usherd, name):
    """ok, or the code of why nothing was picked."""
    answer = usherd.call("POST", f"/v1/services/{name}/pick", {})
    return "ok" if answer.status == 200 else answer.json["code"]


def test_each_kind_of_check_decides(servers, tmp_path):
    ports, folder = servers
    tls = {"ca": str(folder / "ca.pem")}
    program = "[ {port} = 1234 ] && [ $USHER_ENDPOINT = one ] && [ $USHER_SERVICE = program ]"
    services = {
        "https": (service({"http": {"tls": tls}}), endpoint(ports["https"], secure=True), "ok"),
        "https-by-name": (service({"http": {"tls": tls}}), endpoint(ports["https"], "localhost", secure=True), "ok"),
        "https-named": (service({"http": {"tls": {**tls, "enabled": True, "server_name": "elsewhere.test"}}}),
                        endpoint(ports["https-misnamed"]), "ok"),
        "misnamed": (service({"http": {"tls": tls}}), endpoint(ports["https-misnamed"], secure=True), "all_unhealthy"),
        "expired": (service({"http": {"tls": tls}}), endpoint(ports["https-expired"], secure=True), "all_unhealthy"),
        "stranger": (service({"http": {"tls": tls}}), endpoint(ports["https-stranger"], secure=True), "all_unhealthy"),
        "unverified": (service({"http": {"tls": {"verify": False}}}), endpoint(ports["https-expired"], secure=True), "ok"),
        "grpc": (service({"grpc": {"service": "shop"}}), endpoint(ports["grpc"]), "ok"),
        "grpc-tls": (service({"grpc": {"tls": tls}}), endpoint(ports["grpc-tls"], secure=True), "ok"),
        "grpc-closed": (service({"grpc": {"service": "closed"}}), endpoint(ports["grpc"]), "all_unhealthy"),
        "grpc-unknown": (service({"grpc": {"service": "nobody"}}), endpoint(ports["grpc"]), "all_unhealthy"),
        "tcp": (service({"tcp": {"send": "PING\\r\\n", "expect": "+PONG"}}), endpoint(ports["redis"]), "ok"),
        "tcp-by-name": (service({"tcp": {"expect": "220 "}}), endpoint(ports["banner"], "localhost"), "ok"),
        "tcp-wrong": (service({"tcp": {"expect": "250 "}}), endpoint(ports["banner"]), "all_unhealthy"),
        "program": (service({"exec": {"command": ["/bin/sh", "-c", program]}}), endpoint(1234), "ok"),
        "program-ill": (service({"exec": {"command": ["/bin/false"]}}), endpoint(1234), "all_unhealthy"),
        "nowhere": (service({"http": {}}), endpoint(80, "nowhere.invalid"), "all_unhealthy"),
        "labels": (service({"http": {"path": "/503", "path_label": "path"}, "port_label": "health"}),
                   endpoint(1, metadata={"path": "/200", "health": str(ports["http"])}), "ok"),
        "bad-label": (service({"http": {}, "port_label": "health"}),
                      endpoint(ports["http"], metadata={"health": "http"}), "all_unhealthy"),
    }
    usherd = Usherd(tmp_path, {"services": {name: said for name, (said, _, _) in services.items()}})
    usherd.write_endpoints({name: endpoints for name, (_, endpoints, _) in services.items()})
    usherd.start()
    try:
        for name, (_, _, expected) in services.items():
            if expected == "ok":
                wait_until(f"{name} is up", lambda name=name: code_of(usherd, name) == "ok")
        for name, (_, _, expected) in services.items():
            if expected != "ok":
                wait_until(f"{name} is {expected}", lambda name=name, expected=expected: code_of(usherd, name) == expected)
    finally:
        usherd.stop()


def test_a_program_goes_with_its_endpoint_and_with_usherd(tmp_path):
    lock = tmp_path / "lock"
    # Each holds the lock as long as it, or what it has started, lives.
    script = f"exec 9>>{lock}; flock 9; echo up >&9; sleep 1000 & sleep 1000"
    usherd = Usherd(tmp_path, {"services": {"shop": service({"exec": {"command": ["/bin/sh", "-c", script]}}, timeout="1h")}})
    usherd.write_endpoints({"shop": endpoint(1)})
    usherd.start()
    try:
        wait_until("the program runs", lambda: lock.exists() and lock.read_text() == "up\n")
        usherd.write_endpoints({"shop": []})
        subprocess.run(["flock", "-w", str(DEADLINE), lock, "true"], check=True)
        usherd.write_endpoints({"shop": endpoint(2)})
        wait_until("the next one runs", lambda: lock.read_text() == "up\nup\n")
    finally:
        usherd.stop()
    subprocess.run(["flock", "-w", str(DEADLINE), lock, "true"], check=True)


def test_a_drain_does_not_take_checks_for_callers(servers, tmp_path):
    said = service({"http": {"keep_alive": True}}, interval="200ms")
    said["drain"] = {"propagation": {"registry": "0", "consumer_refresh": "0", "consumer_cache": "0", "margin": "0"},
                     "in_flight": {"quiet": "500ms", "timeout": "20s", "from": ["tcp"]}, "min_ready": 0}
    usherd = Usherd(tmp_path, {"services": {"shop": said}})
    # In a format that usherd does not write: the endpoint stays listed, and is asked on.
    usherd.endpoints.write_text(json.dumps([{"targets": [f"127.0.0.1:{servers[0]['http']}"], "labels": {"job": "shop"}}]))
    usherd.start()
    try:
        wait_until("it is up", lambda: code_of(usherd, "shop") == "ok")
        record = usherd.wait_finished(usherd.drain(f"127.0.0.1:{servers[0]['http']}", "shop")["id"])
        assert (record["state"], record["partial"]) == ("done", True), record
        step = next(s for s in record["steps"] if s["step"] == "in_flight")
        assert step["state"] == "proven", step
        assert "new_connections" not in [e["kind"] for e in step["evidence"]], step
    finally:
        usherd.stop()
