"""api/usher.openapi.yaml against the running daemon: every documented call answers in the documented shape, and what is not
documented does not answer."""

import http.client
import json
import pathlib
import re

import jsonschema
import pytest
import yaml

from usher import SOURCE, Stream, Usherd, UnixConnection, endpoint, free_port, wait_until

DOCUMENT = yaml.safe_load((SOURCE / "api" / "usher.openapi.yaml").read_text())
METHODS = ("get", "put", "post", "delete", "patch")
OPERATIONS = {operation["operationId"]: (method, path, operation)
              for path, item in DOCUMENT["paths"].items()
              for method, operation in item.items() if method in METHODS}


def resolve(part):
    while "$ref" in part:
        node = DOCUMENT
        for step in part["$ref"].removeprefix("#/").split("/"):
            node = node[step]
        part = node
    return part


def schema_of(operation, status, content_type):
    responses = operation["responses"]
    assert str(status) in responses or "default" in responses, f"{status} is not documented"
    response = resolve(responses.get(str(status)) or responses["default"])
    content = response.get("content", {})
    if not content and not content_type:
        return None
    assert content_type in content, f"{content_type} is not documented for {status}, only {list(content)}"
    return content[content_type]["schema"]


def validate(schema, value):
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(whole).validate(value)


def check(answer, operation_id):
    """The answer is one that the operation documents; returns it as JSON where it is."""
    content_type = (answer.headers.get("Content-Type") or "").split(";")[0]
    schema = schema_of(OPERATIONS[operation_id][2], answer.status, content_type)
    if schema is None:
        assert answer.body == b""
        return None
    if "json" not in content_type:
        assert isinstance(answer.body.decode(), str)
        return None
    value = answer.json
    validate(schema, value)
    return value


@pytest.fixture
def daemon(tmp_path):
    d = Usherd(tmp_path / "usher", {
        "api": {"consumer": {"socket": str(tmp_path / "usher" / "usher.sock"), "mode": "0666"},
                "admin": {"socket": str(tmp_path / "usher" / "admin.sock"), "mode": "0660"},
                "http": {"listen": f"127.0.0.1:{free_port()}"}},
        "services": {"catalog": {
            "sources": ["files"],
            "chain": [{"ready": {}}, {"zone": {"prefer": "east", "on_empty": "pass"}}],
            "drain": {"propagation": {"registry": "1s", "consumer_refresh": "0s", "consumer_cache": "0s", "margin": "0s"},
                      "in_flight": {"timeout": "1s", "quiet": "0s"}},
        }, "search": {"sources": ["files"], "startup_timeout": "1s"},
           "shop": {"sources": ["files"],
                    "health": {"tcp": {}, "interval": "100ms", "on_all_down": "panic", "outlier": {"enabled": True}},
                    "chain": ["health", {"label": [{"when": {"header.X-Beta": "present"}, "match": "track=canary", "on_empty": "next"},
                                                   {"when": {"key": "absent"}, "match": "!missing"}]}]}},
        "defaults": {"sources": ["files"], "lazy": {"allow": False}},
    })
    d.write_endpoints({
        "catalog": [endpoint("catalog-a", 8081, zone="east", weight=2, metadata={"API_VERSION": "1.0"}),
                    endpoint("catalog-b", 8082, zone="west"),
                    endpoint("catalog-c", 8083, zone="east", ready=False)],
        "search": [], "shop": [endpoint("shop-a", 1), endpoint("shop-b", 1)], "orders": [endpoint("orders-a", 8090)]})
    d.start()
    yield d
    d.stop()


def test_the_document_is_whole():
    """Every reference resolves, every operation has an id, every parameter of a path is declared."""
    text = (SOURCE / "api" / "usher.openapi.yaml").read_text()
    for reference in re.findall(r"\$ref: \"(#/[^\"]+)\"", text):
        resolve({"$ref": reference})
    for name, schema in DOCUMENT["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema({**schema, "components": DOCUMENT["components"]})
    for path, item in DOCUMENT["paths"].items():
        declared = {resolve(p)["name"] for p in item.get("parameters", []) if resolve(p)["in"] == "path"}
        assert declared == set(re.findall(r"{(\w+)}", path)), path


@pytest.mark.parametrize("operation_id, path", [
    ("listServices", "/v1/services"),
    ("getService", "/v1/services/catalog"),
    ("getService", "/v1/services/nobody"),
    ("getService", "/v1/services/catalog?max_age=1h"),
    ("listEndpoints", "/v1/services/catalog/endpoints"),
    ("listEndpoints", "/v1/services/catalog/endpoints?all=true"),
    ("listEndpoints", "/v1/services/search/endpoints"),
    ("listEndpoints", "/v1/services/nobody/endpoints"),
    ("listEndpoints", "/v1/services/catalog/endpoints?nonsense=1"),
    ("explain", "/v1/services/catalog/explain"),
    ("explain", "/v1/services/catalog/explain?exclude=catalog-a&exclude=catalog-b&key=k&hint=h&version=1&sticky=x"),
    ("explain", "/v1/services/catalog/explain?header=X-API-Version:1.0&header=X-Beta:"),
    ("explain", "/v1/services/catalog/explain?header=nonsense"),
    ("explain", "/v1/services/search/explain"),
    ("budget", "/v1/services/catalog/budget"),
    ("budget", "/v1/services/catalog/budget?rate=200"),
    ("budget", "/v1/services/shop/budget?endpoints=5000"),
    ("budget", "/v1/services/shop/budget?endpoints=100001"),
    ("budgets", "/v1/budget"),
    ("getService", "/v1/services/shop"),
    ("listEndpoints", "/v1/services/shop/endpoints"),
    ("listEndpoints", "/v1/services/shop/endpoints?all=true"),
    ("explain", "/v1/services/shop/explain?header=X-Beta:1"),
    ("listConsumers", "/v1/consumers"),
    ("listSources", "/v1/sources"),
    ("listPlugins", "/v1/plugins"),
    ("status", "/v1/status"),
    ("listDrains", "/v1/drains"),
    ("getDrain", "/v1/drains/d-0"),
    ("listRegistrations", "/v1/registrations"),
    ("listRegistrations", "/v1/registrations?service=catalog"),
    ("getRegistration", "/v1/registrations/catalog/nobody"),
    ("metrics", "/metrics"),
    ("healthz", "/healthz"),
    ("readyz", "/readyz"),
    ("page", "/"),
])
def test_reading_calls_answer_as_documented_on_both_sockets(daemon, operation_id, path):
    for admin in (False, True):
        check(daemon.call("GET", path, admin=admin), operation_id)
        head = daemon.call("HEAD", path, admin=admin)
        assert head.body == b"" and head.status == daemon.call("GET", path, admin=admin).status


def test_what_a_service_shows_is_what_its_file_says(daemon):
    listed = check(daemon.call("GET", "/v1/services/catalog/endpoints"), "listEndpoints")["endpoints"]
    assert [e["id"] for e in listed] == ["catalog-a"]
    everything = check(daemon.call("GET", "/v1/services/catalog/endpoints?all=true"), "listEndpoints")["endpoints"]
    assert {e["id"]: e.get("left_out", {}).get("stage") for e in everything} == {
        "catalog-a": None, "catalog-b": "zone", "catalog-c": "ready"}
    services = check(daemon.call("GET", "/v1/services"), "listServices")
    assert [s["service"] for s in services["services"]] == ["catalog", "search", "shop"]
    assert services["known"] == ["orders"]
    # Empty on purpose is an answer, and no failure.
    assert check(daemon.call("GET", "/v1/services/search/endpoints"), "listEndpoints")["endpoints"] == []
    assert check(daemon.pick("search"), "pick")["code"] == "empty"


def test_picks_answer_as_documented(daemon):
    assert check(daemon.pick(), "pick")["endpoint"]["id"] == "catalog-a"
    for body in ({"hint": "h", "version": "1", "sticky": "x", "key": "k", "exclude": ["y"]}, {"hint": None}, {}, "",
                 {"headers": {"X-API-Version": "1.0", "X-Beta": ""}}, {"headers": None}):
        assert check(daemon.pick(body=body), "pick")["service"] == "catalog"
    for body in ("[]", "{", {"hnit": "x"}, {"hint": 3}, {"exclude": "a"}, "x" * 70000,
                 {"headers": {"a b": "c"}}, {"headers": ["a"]}, {"headers": {"a": 1}}, {"headers": {"a": "b", "A": "b"}}):
        assert check(daemon.pick(body=body), "pick")["code"] in ("bad_request", "too_large")


def test_what_is_observed_answers_as_documented(daemon):
    """Nobody listens at port 1."""
    def all_down():
        listed = check(daemon.call("GET", "/v1/services/shop/endpoints?all=true"), "listEndpoints")
        return listed if {e["health"]["state"] for e in listed["endpoints"]} == {"down"} else None

    listed = wait_until("both are down", all_down)
    assert listed["panic"] is True
    health = listed["endpoints"][0]["health"]
    assert health["reason"] == "refused" and health["error"] and health["bad"] > 0 and health["good"] == 0
    assert check(daemon.pick("shop"), "pick")["panic"] is True
    brief = check(daemon.call("GET", "/v1/services/shop/endpoints"), "listEndpoints")
    assert [e["health"] for e in brief["endpoints"]] == [{"state": "down"}] * 2 and brief["panic"] is True
    explained = check(daemon.call("GET", "/v1/services/shop/explain?header=x-beta:1"), "explain")
    assert explained["panic"] is True
    assert [(s["stage"], s["rules"], s["on_empty"]) for s in explained["stages"]] == [
        ("admin", 0, None), ("health", 1, None), ("label", 2, "next")]
    service = check(daemon.call("GET", "/v1/services/shop"), "getService")
    assert service["health"] == {"unknown": 0, "up": 0, "degraded": 0, "down": 2, "ejected": 0}
    assert service["policy"]["health"]["check"]["kind"] == "tcp"
    assert service["chain"][1]["rules"] == [{"on_empty": "next", "when": {"header.X-Beta": "present"}},
                                            {"on_empty": "pass", "when": {"key": "absent"}}]
    line = DOCUMENT["components"]["schemas"]["WatchLine"]
    with daemon.watch("shop") as watch:
        first = watch.next()
        validate(line, first)
        assert first["panic"] is True
    budget = check(daemon.call("GET", "/v1/services/shop/budget?endpoints=5000"), "budget")["checks"]
    assert budget["estimate"]["endpoints"] == 5000 and budget["estimate"]["probes_per_s"] == 50000
    assert budget["measured"]["endpoints"] == 2 and budget["measured"]["probes"] > 0
    total = check(daemon.call("GET", "/v1/budget"), "budgets")
    assert [s["service"] for s in total["services"]] == ["shop"]
    assert total["total"]["measured"]["probes"] >= budget["measured"]["probes"]
    assert total["prober"]["targets"] == 2 and total["prober"]["max_rate_per_s"] is None
    assert check(daemon.call("GET", "/v1/status"), "status")["prober"]["probes"] > 0


def test_acks_and_reports_answer_as_documented(daemon):
    revision = daemon.get("/v1/services/catalog/endpoints")["revision"]
    check(daemon.call("PUT", "/v1/consumers/self/ack", {"service": "catalog", "revision": revision}), "acknowledge")
    check(daemon.call("PUT", "/v1/consumers/self/ack", {"service": "catalog"}), "acknowledge")
    path = "/v1/services/catalog/endpoints/catalog-a/in-flight"
    check(daemon.call("PUT", path, {"count": 3, "ttl": "10s"}), "reportInFlight")
    check(daemon.call("PUT", path, {"count": -3}), "reportInFlight")
    check(daemon.call("PUT", path.replace("catalog-a", "x"), {"count": 3}), "reportInFlight")


@pytest.mark.parametrize("body, status", [
    ([], 204),
    ([{"endpoint": "catalog-a", "outcome": "ok", "latency_ms": 1.5, "count": 2}, {"endpoint": "gone", "outcome": "failed"}], 204),
    ({"reports": [{"endpoint": "catalog-a", "outcome": "timeout", "latency_ms": 0}]}, 204),
    ("", 400), ({}, 400), ({"reports": {}}, 400), ([{"endpoint": "catalog-a"}], 400), ([{"endpoint": "catalog-a", "outcome": "bad"}], 400),
    ([{"endpoint": "catalog-a", "outcome": "ok", "latency_ms": -1}], 400), ([{"endpoint": "catalog-a", "outcome": "ok", "count": 0}], 400),
    ([{"endpoint": "catalog-a", "outcome": "ok"}] * 1001, 413),
    ([{"endpoint": "catalog-a", "outcome": "ok"}] * 10000, 413),
])
def test_reports_are_taken_as_documented(daemon, body, status):
    answer = daemon.call("POST", "/v1/services/catalog/reports", body)
    assert answer.status == status, answer
    check(answer, "report")
    documented = {**DOCUMENT["components"]["schemas"]["Reports"], "components": DOCUMENT["components"]}
    assert jsonschema.Draft202012Validator(documented).is_valid(body) == (status == 204)


def test_every_line_of_a_watch_is_documented(daemon):
    line = DOCUMENT["components"]["schemas"]["WatchLine"]
    with daemon.watch(headers={"Usher-Consumer": "reader"}) as watch:
        first = watch.next()
        validate(line, first)
        assert first["type"] == "snapshot"
        shown = check(daemon.call("GET", "/v1/consumers"), "listConsumers")["consumers"]
        assert [c["services"][0]["watching"] for c in shown if c["name"] == "reader"] == [True]
        daemon.write_endpoints({"catalog": [endpoint("catalog-a", 8081, zone="east"),
                                            endpoint("catalog-d", 8084, zone="east")]})
        update = watch.until(lambda l: validate(line, l) or l["type"] == "update")
        assert [e["id"] for e in update["changed"]] == ["catalog-a", "catalog-d"]
        daemon.process.terminate()
        assert watch.until(lambda l: validate(line, l) or l["type"] == "end")["code"] == "shutting_down"
    daemon.wait_end()


def test_drains_answer_as_documented(daemon):
    daemon.write_endpoints({"catalog": [endpoint("catalog-a", 8081, zone="east"),
                                        endpoint("catalog-b", 8082, zone="east")]})
    daemon.wait_listed(["catalog-a", "catalog-b"])
    body = {"service": "catalog", "endpoint": "catalog-a", "reason": "rollout 42", "timeout": "60s", "order": "serve_stale"}
    answer = daemon.call("POST", "/v1/drains", body, admin=True)
    assert answer.status == 201
    drain = check(answer, "startDrain")
    again = daemon.call("POST", "/v1/drains", body, admin=True)
    assert again.status == 200 and check(again, "startDrain")["id"] == drain["id"]

    line = DOCUMENT["components"]["schemas"]["DrainLine"]
    with Stream(daemon.socket, f"/v1/drains/{drain['id']}?watch=true") as stream:
        last = stream.until(lambda l: validate(line, l) or l["drain"]["finished_at"])
    assert last["drain"]["state"] == "done"
    listed = check(daemon.call("GET", "/v1/drains?service=catalog&endpoint=catalog-a"), "listDrains")["drains"]
    assert [d["id"] for d in listed] == [drain["id"]]
    assert check(daemon.call("GET", "/v1/drains?service=search"), "listDrains")["drains"] == []
    check(daemon.call("GET", f"/v1/drains/{drain['id']}"), "getDrain")
    check(daemon.call("GET", "/v1/services/catalog/endpoints?all=true"), "listEndpoints")

    finished = daemon.call("POST", f"/v1/drains/{drain['id']}/cancel", admin=True)
    assert check(finished, "cancelDrain")["code"] == "conflict"
    check(daemon.call("POST", "/v1/drains/nonsense/cancel", admin=True), "cancelDrain")
    # It would leave none.
    guarded = daemon.call("POST", "/v1/drains", {"service": "catalog", "endpoint": "catalog-b"}, admin=True)
    assert check(guarded, "startDrain")["code"] == "refused"
    check(daemon.call("POST", "/v1/restores", {"service": "catalog", "endpoint": "nobody"}, admin=True), "startRestore")
    restore = daemon.call("POST", "/v1/restores", {"service": "catalog", "endpoint": "catalog-a"}, admin=True)
    restore = check(restore, "startRestore")
    cancelled = daemon.call("POST", f"/v1/drains/{restore['id']}/cancel", admin=True)
    assert check(cancelled, "cancelDrain")["id"] == restore["id"]


def test_registrations_answer_as_documented(daemon):
    path = "/v1/registrations/catalog/mine"
    for body in ({}, {"port": "x"}, "nonsense", {"port": 1, "prt": 2}):
        assert check(daemon.call("PUT", path, body, admin=True), "putRegistration")["code"] == "bad_request"
    answer = daemon.call("PUT", path, {"port": 1, "address": "127.0.0.1", "metadata": {"a": "b"}, "health": {"tcp": {}}}, admin=True)
    assert answer.status == 201
    check(answer, "putRegistration")
    waiting = wait_until("it is down", lambda: (
        found := check(daemon.call("GET", path), "getRegistration"))["health"]["state"] == "down" and found)
    assert waiting["state"] == "waiting_for_health" and waiting["endpoint"]["metadata"] == {"a": "b"}
    answer = daemon.call("PUT", path, {"port": 1, "address": "127.0.0.1"}, admin=True)
    assert answer.status == 200
    wait_until("it is registered", lambda: check(daemon.call("GET", path), "getRegistration")["state"] == "registered")
    listed = check(daemon.call("GET", "/v1/registrations?service=catalog"), "listRegistrations")["registrations"]
    assert [r["id"] for r in listed] == ["mine"]
    check(daemon.call("DELETE", path, admin=True), "deleteRegistration")
    wait_until("it is out", lambda: check(daemon.call("GET", path), "getRegistration")["state"] == "removed")
    unknown = daemon.call("DELETE", "/v1/registrations/catalog/nobody", admin=True)
    assert check(unknown, "deleteRegistration")["code"] == "unknown_registration"


def test_reloads_answer_as_documented(daemon):
    check(daemon.call("POST", "/v1/reload", admin=True), "reload")
    good = daemon.config_path.read_text()
    daemon.write_config(good + "\nnonsense: 1\n")
    refused = daemon.call("POST", "/v1/reload", admin=True)
    assert refused.status == 422 and "nonsense" in check(refused, "reload")["detail"]
    status = check(daemon.call("GET", "/v1/status"), "status")
    assert "nonsense" in status["config"]["error"]
    daemon.write_config(good)
    check(daemon.call("POST", "/v1/reload", admin=True), "reload")


def test_what_changes_something_needs_the_admin_socket(daemon):
    for operation_id in ("startDrain", "cancelDrain", "startRestore", "putRegistration", "deleteRegistration", "reload"):
        method, path, _ = OPERATIONS[operation_id]
        answer = daemon.call(method.upper(), re.sub(r"{\w+}", "x", path), {})
        problem = check(answer, operation_id)
        assert answer.status == 403 and problem["code"] == "forbidden"
        assert str(daemon.admin) in problem["detail"]


def test_every_other_method_is_refused_with_what_is_allowed(daemon):
    for path, item in DOCUMENT["paths"].items():
        concrete = path.replace("{service}", "catalog").replace("{endpoint}", "catalog-a").replace("{id}", "d-0").replace("{registration}", "x")
        for method in METHODS:
            if method in item:
                continue
            answer = daemon.call(method.upper(), concrete, admin=True)
            assert answer.status == 405, (method, path)
            allowed = set(answer.headers["Allow"].replace(" ", "").split(","))
            documented = {m.upper() for m in METHODS if m in item}
            assert allowed - {"HEAD"} == documented, (method, path)


def test_undocumented_paths_do_not_answer(daemon):
    for path in ("/v1", "/v1/", "/v2/services", "/v1/services/", "/v1/services/catalog/", "/v1/services/catalog/x", "/v1/drain",
                 "/v1/consumers/self", "/v1/restores/d-0", "/metrics/", "/index.html", "//", "/v1/services/catalog/endpoints/x"):
        for method in ("GET", "POST", "PUT"):
            answer = daemon.call(method, path, admin=True)
            assert answer.status == 404, (method, path, answer)
            assert json.loads(answer.body)["code"] == "not_found"


def test_the_source_has_no_route_that_is_not_documented():
    table = (SOURCE / "daemon" / "serve" / "api.c").read_text()
    routes = {(method.lower(), pattern) for method, pattern in re.findall(r"METHOD_(\w+), \"([^\"]+)\"", table)}

    def shape(path):
        return re.sub(r"{\w+}", "{}", path)

    assert {(m, shape(p)) for m, p in routes} == {(m, shape(p)) for m, p, _ in OPERATIONS.values()}


def test_the_http_port_shows_only_what_is_open(daemon):
    listen = yaml.safe_load(daemon.config_path.read_text())["api"]["http"]["listen"]
    connection = http.client.HTTPConnection(*listen.split(":"), timeout=30)
    for _, path, _ in OPERATIONS.values():
        concrete = path.replace("{service}", "catalog").replace("{endpoint}", "catalog-a").replace("{id}", "d-0")
        method = "GET" if "get" in DOCUMENT["paths"][path] else next(m for m in METHODS if m in DOCUMENT["paths"][path])
        connection.request(method.upper(), concrete)
        response = connection.getresponse()
        response.read()
        assert response.status == (200 if path in ("/", "/metrics", "/healthz", "/readyz") else 403), path
    connection.close()
