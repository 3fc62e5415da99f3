"""Health checks, against instances that really answer."""

from field import Instances, address_of
import usher
from verdict import SAME, Failure, better, compare, judges

INTERVAL = "100ms"


def instances_of(field):
    if not field.instances:
        field.instances = Instances()
    return field.instances


def declare(v, field, ids, scripts, **health):
    """A service whose endpoints each have an address of their own, with these scripts."""
    asked = instances_of(field)
    endpoints = []
    for i in ids:
        n = field.addresses.setdefault((v["id"], i), len(field.addresses))
        asked.scripts[address_of(n)] = scripts.get(i, [{}])
        endpoints.append({"id": i, "address": address_of(n), "port": asked.port})
    check = {"http": {"path": "/actuator/health"}, "interval": INTERVAL, "timeout": INTERVAL, "jitter": "0%", "rise": 1, "fall": 1,
             "initial": "down", **health}
    field.service(v["id"], endpoints, chain=["health"], health=check)
    return endpoints


def asked_paths(field, endpoint):
    return instances_of(field).asked.get(endpoint["address"], [])


def states(field, service):
    return {e["id"]: e["health"]["state"] for e in field.all(service) or []}


def alive_ids(catalog, probes, interval):
    """Who is up in the end: the last step of each script, if it is up within the time that a probe has."""
    last = {i: probes.get(i, [{"latency_ms": 0, "result": "up"}])[-1] for i in catalog}
    return sorted(i for i, step in last.items() if step["result"] == "up" and step["latency_ms"] < interval)


@judges("health-check")
def health_check(v, field):
    given = v["input"]
    catalog = given["catalog_by_fetch"][-1]
    probes = given.get("probes") or {i: [{"latency_ms": given["probe_ms"], "result": "up"}] for i in catalog}
    interval = given["config"]["interval_ms"]
    # Times stay in proportion: a probe that is slower than the interval there is slower than the timeout here.
    scale = max(1, 300 // interval)
    scripts = {i: [{**s, "latency_ms": s["latency_ms"] * scale} for s in steps] for i, steps in probes.items()}
    timeout = max(interval, given.get("probe_ms", 0) + 100) * scale
    endpoints = declare(v, field, catalog, scripts, interval=f"{interval * scale}ms", timeout=f"{timeout}ms")
    yield
    wanted = alive_ids(catalog, probes, timeout / scale)
    down = sorted(set(catalog) - set(wanted))

    def judged():
        told = states(field, v["id"])
        return all(told.get(i) == "up" for i in wanted) and all(told.get(i) == "down" for i in down)

    for e in endpoints:  # up to the last step of its script, which then stays
        steps = len(scripts.get(e["id"], [{}]))
        usher.wait_until(f"{e['id']} is asked again", lambda: len(asked_paths(field, e)) > steps)
    usher.wait_until(f"{wanted} are up, {down} are down", judged)
    usher.wait_until(f"{wanted} are listed", lambda: sorted(field.listed(v["id"])) == wanted)
    published = v["expected"].get("published")
    lists = [p["ids"] for p in published] if published is not None else [v["expected"]["ids"]]
    if lists and all(sorted(p) == wanted for p in lists) and all(p == sorted(p) for p in lists):
        return SAME
    return better("each result counts by itself: no round empties or shrinks the list, cancels another or fixes a first verdict; the order is that of ids")


@judges("health-path")
def health_path(v, field):
    given, expected = v["input"], v["expected"]
    paths = {k.lower(): p for k, p in given["paths"].items()}
    path = paths.get(given["service"].lower(), paths.get("default", "/actuator/health"))
    if path:
        endpoints = declare(v, field, ["A"], {}, http={"path": "/" + path.lstrip("/")})
    elif given["service"].lower() in paths:
        field.service(v["id"], ["A"])
    else:
        endpoints = declare(v, field, ["A"], {}, http={"path": "/"})
    yield
    if expected["probed_path"] is None:
        return compare(field.listed(v["id"]) == ["A"], expected["alive_without_probe"])
    asked = usher.wait_until("the instance is asked", lambda: asked_paths(field, endpoints[0]))
    return compare(asked[0], expected["probed_path"] or "/")


@judges("health-probe-status")
def probe_status(v, field):
    status = v["input"]["status"]
    declare(v, field, ["A"], {"A": [{"status": status}]})
    yield
    state = usher.wait_until("it is judged", lambda: states(field, v["id"]).get("A") if asked_twice(v, field) else None)
    return compare(state == "up", v["expected"]["alive"])


def asked_twice(v, field):
    address = address_of(field.addresses[v["id"], "A"])
    return len(instances_of(field).asked.get(address, [])) >= 2
