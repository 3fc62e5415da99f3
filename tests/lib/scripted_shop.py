"""What a scripted daemon of a small shop answers: every call of docs/api.md that usherctl makes."""

from scripted_daemon import Channel, Problem


def freshness(age_ms=812, state="live", max_age_ms=30000, source="files"):
    return {"state": state, "age_ms": age_ms, "max_age_ms": max_age_ms, "source": source}


def endpoint(name, address="10.0.0.5", zone="east", weight=1, **more):
    return {
        "id": name, "uid": None, "address": address, "port": 8080, "secure": False, "zone": zone, "weight": weight,
        "conditions": {"ready": True, "serving": True, "terminating": False}, "admin_state": "ready",
        "metadata": {"API_VERSION": "1.0"}, "source": "files", **more,
    }


ALL = [
    endpoint("catalog-a", weight=2, chosen=True),
    endpoint("catalog-b", "fd00::10", zone="west", chosen=False, left_out={"stage": "zone", "reason": "zone west is not east"}),
    endpoint("catalog-c", "10.0.0.7", admin_state="draining", chosen=False, left_out={"stage": "drain", "reason": "it drains"}),
]


def summary(service, **more):
    return {
        "service": service, "eager": True, "revision": 118, "freshness": freshness(),
        "endpoints": {"total": 3, "listed": 3, "chosen": 1, "draining": 1}, "conflicts": 0, "weight_invalid": 0, "held": None, **more,
    }


HELD = {"removed": 12, "of": 20, "endpoints": ["x-1", "x-2"], "since_ms": 4000, "until_ms": 26000}
SERVICES = [
    summary("catalog"),
    summary("orders", freshness=freshness(192000, "stale"), held=HELD),
    summary("search", eager=False, freshness=freshness(None, "unknown", source=None), endpoints={"total": 0, "listed": 0, "chosen": 0, "draining": 0}),
]
DESCRIBED = summary(
    "catalog",
    policy={"max_age_ms": 30000, "on_stale": "serve", "merge": "first", "removal_guard": {"share": 0.5, "hold_ms": 30000}},
    feeds=[
        {"source": "cluster", "name": "catalog-svc", "port": "http", "state": "live", "age_ms": 812, "revision": "4711", "endpoints": 3, "restored": False, "held": HELD, "error": None},
        {"source": "files", "name": "catalog", "port": None, "state": "failed", "age_ms": 61000, "revision": None, "endpoints": 3, "restored": True, "held": None, "error": "cannot read /etc/usher/endpoints.d"},
    ],
    chain=[{"stage": "ready", "shared": True, "on_empty": "pass"}, {"stage": "hint", "shared": False, "on_empty": "fail"}],
    select="round_robin",
)
SOURCES = [{"name": "files", "plugin": "file", "state": "live", "last_contact_ms": 900, "last_change_ms": 720000, "wanted": 3, "known": 5, "restarts": 0, "running": True, "error": None, "remedy": None, "services": {"unknown": 0, "live": 3, "stale": 0, "failed": 0, "denied": 0}}]
CONSUMERS = [
    {"id": 7, "name": "shop", "pid": 4711, "uid": 1000, "program": "shopd", "door": "consumer", "connected_ms": 125000,
     "services": [{"service": "catalog", "watching": True, "sent": 118, "read": 118, "acked": 117, "behind": True}]},
    {"id": 8, "name": "curl", "pid": 4712, "uid": 0, "program": "curl", "door": "admin", "connected_ms": 10, "services": []},
]
PLUGINS = [
    {"name": "file", "path": "/usr/lib/usher/plugins/file.so", "loaded": True, "version": "1.0", "summary": "Endpoints from files", "abi": "1.0",
     "facets": ["discovery", "registration"], "refusal": None,
     "options": [{"name": "path", "type": "path", "required": True, "default": None, "help": "The file or folder to read.", "choices": None},
                 {"name": "format", "type": "choice", "required": False, "default": "auto", "help": "How it is written.", "choices": ["auto", "usher", "kubernetes"]}]},
    {"name": "old", "path": "/usr/lib/usher/plugins/old.so", "loaded": False, "version": None, "summary": None, "abi": "2.0", "facets": [],
     "refusal": "built for plug-in ABI 2.0, this usherd offers 1.0", "options": []},
]
STATUS = {
    "version": "0.1.0", "node": {"name": "node-7", "zone": "east"}, "pid": 99, "state": "ready", "uptime_ms": 192000, "revision": 118,
    "contexts": {"total": 3, "live": 1, "missing": ["search"]}, "drains": {"running": 1},
    "config": {"path": "/etc/usher/usher.yaml", "loaded_at": "2026-11-30T02:55:06Z", "error": None}, "store": {"error": None}, "sources": {"total": 1, "live": 1},
}
BUDGET = {
    "service": "catalog", "windows": [{"name": "registry", "ms": 5000, "proven": True}, {"name": "consumer_cache", "ms": 35000, "proven": False}],
    "worst_case_ms": 40000, "assumed_ms": 35000, "stale_picks": {"rate_per_s": 200, "worst_case": 8000},
}
EXPLAIN = {
    "service": "catalog", "revision": 118, "freshness": freshness(),
    "stages": [{"stage": "ready", "shared": True, "in": 3, "out": 2, "on_empty": None, "left": [{"id": "catalog-c", "reason": "it is not ready"}]},
               {"stage": "zone", "shared": True, "in": 2, "out": 1, "on_empty": "pass", "left": [{"id": "catalog-b", "reason": "zone west is not east"}]}],
    "selector": "round_robin", "candidates": 1, "choice": "catalog-a", "share": 1.0, "code": None,
}


def step(name, state, *evidence, **more):
    return {
        "step": name, "state": state, "started_at": "2026-11-30T02:55:07Z", "finished_at": None if state == "active" else "2026-11-30T02:55:08.5Z",
        "revision": 117, "attempts": 1,
        "evidence": [{"kind": kind, "proven": proven, "text": text, "at": "2026-11-30T02:55:08Z"} for kind, proven, text in evidence], **more,
    }


ECHO = ("registry_echo", True, "files no longer lists catalog-a")
READ = ("consumers", True, "3 of 3 consumers have read revision 118")
CACHES = ("external_caches", False, "external caches had their 35s")


def record(state="running", steps=(), id="d-20261130-025506-7f3a", kind="drain", endpoint="catalog-a", **more):
    finished = state in ("done", "cancelled", "failed")
    return {
        "id": id, "kind": kind, "state": state, "service": "catalog", "endpoint": endpoint, "uid": None, "reason": "rollout 42",
        "requested_by": "root (uid 0, pid 4711)", "token": "t", "order": "serve_stale", "requested_at": "2026-11-30T02:55:06Z",
        "finished_at": "2026-11-30T02:55:18.4Z" if finished else None, "deadline_at": "2026-11-30T02:57:06Z", "removal_revision": 118,
        "last_stale_pick_at": None, "step": steps[-1]["step"] if steps else "requested", "forced": False, "partial": False, "failure": None,
        "saved": endpoint, "steps": list(steps), **more,
    }


def line(drain):
    return {"type": "drain", "drain": drain}


def script(daemon, **replace):
    """Let the daemon answer like the shop's; a name replaces what is at its path."""
    endpoints = {"service": "catalog", "revision": 118, "freshness": freshness(), "endpoints": ALL}

    def endpoints_of(request):
        if "watch" in request.query:
            return Channel()
        wanted = ALL if request.query.get("all") == "true" else [e for e in ALL if e["chosen"]]
        return {**endpoints, "endpoints": list(wanted)}

    daemon.on("GET", "/v1/services", {"revision": 118, "services": SERVICES, "known": ["basket"]})
    daemon.on("GET", "/v1/services/catalog", DESCRIBED)
    daemon.on("GET", "/v1/services/catalog/endpoints", endpoints_of)
    daemon.on("GET", "/v1/services/orders/endpoints", {**endpoints, "service": "orders", "endpoints": [endpoint("orders-a", chosen=True)]})
    daemon.on("GET", "/v1/services/search/endpoints", {**endpoints, "service": "search", "freshness": freshness(None, "unknown"), "endpoints": []})
    daemon.on("GET", "/v1/services/catalog/explain", EXPLAIN)
    daemon.on("GET", "/v1/services/catalog/budget", BUDGET)
    daemon.on("POST", "/v1/services/catalog/pick", {"service": "catalog", "revision": 118, "freshness": freshness(), "endpoint": ALL[0]})
    daemon.on("GET", "/v1/sources", {"sources": SOURCES})
    daemon.on("GET", "/v1/consumers", {"consumers": CONSUMERS})
    daemon.on("GET", "/v1/plugins", {"plugins": PLUGINS})
    daemon.on("GET", "/v1/status", STATUS)
    daemon.on("GET", "/v1/drains", {"drains": []})
    daemon.on("POST", "/v1/reload", {"revision": 119, "loaded_at": "2026-11-30T02:55:06Z"})
    daemon.on("GET", "/metrics", (200, b'# TYPE usher_picks_total counter\nusher_picks_total{result="ok"} 100\nusher_picks_total{result="empty"} 5\n', "text/plain"))
    for path in ("/v1/services/nope", "/v1/services/nope/endpoints", "/v1/services/nope/pick"):
        daemon.on("POST" if path.endswith("pick") else "GET", path, Problem(404, "unknown_service", "nobody declared nope, and no lazy context may be made"))
