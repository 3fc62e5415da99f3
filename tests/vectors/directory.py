"""What is known: sources, their order, their failures, and what is configured for whom."""

import usher
from verdict import SAME, Failure, better, compare, judges, not_here

BROKEN = "services: {"  # no YAML: the source fails


def lists_of(v, clients, key):
    """[(source name, what it says)] in the order of the sources."""
    ordered = sorted(clients, key=lambda c: c.get("order", 0))
    return [(f"{v['id']}-{n}", c.get(key)) for n, c in enumerate(ordered)]


@judges("composite")
def composite(v, field):
    sources = lists_of(v, v["input"]["clients"], "instances")
    declare_sources(v["id"], sources, field)
    yield
    wanted = next((ids for _, ids in sources if ids and ids != "error"), [])
    ids = wait_for_service(field, v["id"], sorted(wanted))
    if "ids" not in v["expected"]:
        return better("a source that fails does not keep the next one from answering")
    return compare(ids, sorted(v["expected"]["ids"]), sorted(wanted), "a source that fails does not keep the next one from answering")


def declare_sources(name, sources, field):
    for source, ids in sources:
        field.source(source)
        if ids == "error":
            field.put(name, BROKEN, source)
        else:
            field.put(name, ids or [], source)
    field.service(name, None, sources=[s for s, _ in sources] or ["files"])
    if not sources:
        field.put(name, [])


def wait_for_service(field, name, wanted):
    usher.wait_until(f"{name} lists {wanted}", lambda: sorted(i for i in field.listed(name)) == wanted)
    return wanted


@judges("composite-reactive")
def composite_reactive(v, field):
    sources = lists_of(v, v["input"]["clients"], "emits")
    ends = [c["ends"] for c in sorted(v["input"]["clients"], key=lambda c: c.get("order", 0))]
    sources = [(name, "error" if end == "error" and not ids else ids) for (name, ids), end in zip(sources, ends)]
    declare_sources(v["id"], sources, field)
    yield
    wanted = sorted(next((ids for _, ids in sources if ids and ids != "error"), []))
    ids = wait_for_service(field, v["id"], wanted)
    reason = "the order of the sources decides, not who is fastest; an error or silence only takes that source out"
    if v["expected"]["outcome"] == "complete":
        return compare(ids, sorted(v["expected"]["ids"]), wanted, reason)
    return better(reason)


@judges("composite-services")
def composite_services(v, field):
    prefix = v["id"] + "."
    known = []
    for n, client in enumerate(v["input"]["clients"]):
        source = f"{v['id']}-{n}"
        field.source(source)
        names = [prefix + s for s in client["services"] or []]
        for name in names:
            field.put(name, ["A"], source)
        known += names
        field.service(v["id"], [])
    yield

    def seen():
        answer = [s for s in field.daemon.get("/v1/services")["known"] if s.startswith(prefix)]
        return answer if set(answer) == set(known) else None

    got = [s[len(prefix):] for s in usher.wait_until("the names are known", seen)]
    expected = v["expected"]["services"]
    return compare(got, expected, sorted(set(expected)), "each name once, in the order of names")


@judges("cache")
def cache(v, field):
    reason = "nothing is cached for a time: a change is pushed, no pick asks a source, and every answer says its age"
    calls = v["input"].get("calls", [])
    field.service(v["id"], ["A"])
    yield
    got, right = [], []
    for call in calls:
        if isinstance(call["source"], list):
            field.show(v["id"], call["source"])
            right.append(sorted(call["source"]))
        else:  # an outage: the last good list stays
            field.put(v["id"], BROKEN)
            right.append(right[-1] if right else ["A"])
        got.append(field.listed(v["id"]))
    if not calls:
        return better(reason) if field.listed(v["id"]) == ["A"] else None
    expected = [r["ids"] for r in v["expected"]["results"]] if "results" in v["expected"] else None
    return compare(got, expected, right, reason)


@judges("discovery-supplier")
def discovery_supplier(v, field):
    source = v["id"]
    field.source(source)
    field.service(v["id"], None, source=source)
    yield
    given = v["input"]
    chosen, code = field.pick(v["id"])
    if chosen is not None or code not in ("source_unknown", "source_failed"):
        raise Failure(f"before the source has answered a pick says {chosen}, {code}")
    failed = given.get("ends") == "error"
    field.put(v["id"], BROKEN if failed else given["emits"], source)
    if failed:
        usher.wait_until("the failure is told", lambda: field.pick(v["id"])[1] == "source_failed")
        return better("an error is told as an error, never as an empty list")
    wait_for_service(field, v["id"], sorted(given["emits"]))
    published = v["expected"].get("published")
    if published and [p["ids"] for p in published] == [given["emits"]]:
        return SAME
    return better("a slow source is told as one that has not answered, in no caller's time, and its late answer counts")


@judges("heartbeat-monitor")
def heartbeat_monitor(v, field):
    values = v["input"]["values"]
    field.service(v["id"], [{"id": "A", "metadata": {"state": values[0]}}] if values[0] is not None else [])
    yield
    changed, last, value_before = [], 0, None
    for value in values:
        if value is not None:
            field.show(v["id"], [{"id": "A", "metadata": {"state": value}}])
        revision = field.daemon.get(f"/v1/services/{v['id']}")["revision"]
        changed.append(revision != last)
        last = revision
    return compare(changed, v["expected"]["changed"])


@judges("discovery-indicator")
def discovery_indicator(v, field):
    source = v["id"]
    field.source(source)
    field.service(v["id"], BROKEN if v["input"]["source"] == "error" else ["A"], source=source)
    yield
    wanted = "failed" if v["input"]["source"] == "error" else "live"
    def state():
        return field.daemon.get(f"/v1/services/{v['id']}")["feeds"][0]["state"] == wanted
    usher.wait_until(f"the source is {wanted}", state)
    return better("the state is that of the last attempt at the source itself, with its age and error; it waits for nobody's registration")


# ---- what is configured ----

CHAINS = {
    "default": ([], "round_robin"),
    "zone-preference": (["zone"], "round_robin"),
    "health-check": (["health"], "round_robin"),
    "request-based-sticky-session": (["sticky"], "round_robin"),
    "same-instance-preference": (["same_instance"], "round_robin"),
    "weighted": ([], "weighted_round_robin"),
    "subset": (["subset"], "round_robin"),
    "api-version": (["version"], "round_robin"),
}


def usher_chain(name):
    """A service's keys for one of the predefined chains; a name that is none is written as a stage."""
    if name is None:
        return {}
    stages, select = CHAINS.get(name.lower(), ([name], "round_robin"))
    keys = {"chain": [{"subset": {"size": 100}} if s == "subset" else s for s in stages], "select": select}
    return keys | ({"health": {"tcp": {}}} if "health" in stages else {})


@judges("configurations")
def configurations(v, field):
    given, wanted = v["input"], v["expected"]["chain"]
    effective = {"chain": [], "select": "round_robin"} | usher_chain(given["global"]) | usher_chain(given["client"])
    config = {"defaults": {"chain": [], **usher_chain(given["global"])}, "services": {"svc": usher_chain(given["client"])}}
    if wanted is not None:
        field.service(v["id"], ["A"], **effective)
    yield
    code, text = field.check(config)
    if wanted is None:
        if code == 0:
            raise Failure("an unknown chain is not refused")
        return better("a name that is none is refused at load, with its place and the nearest known")
    if code != 0:
        raise Failure(text)
    told = field.daemon.get(f"/v1/services/{v['id']}")
    stages, select = CHAINS[wanted]
    return compare(([s["stage"] for s in told["chain"]], told["select"]), (stages, select))


@judges("client-overlay")
def client_overlay(v, field):
    yield
    if any(isinstance(value, (bool, type(None))) for value in v["input"]["global"].values()):
        return not_here("there is no retry and no cache that could be switched off")
    # The same shape in usher's keys: one key from the defaults, one from the service.
    code, text = field.check({"defaults": {"health": {"tcp": {}, "timeout": "1s"}},
                              "services": {"myclient": {"health": {"interval": "30s"}, "chain": ["health"]},
                                           "other": {"chain": ["health"]}}})
    if code != 0:
        raise Failure(text)
    return SAME
