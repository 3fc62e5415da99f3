"""Where a request may go: zones, hints, stickiness, versions, retries."""

import re

from verdict import SAME, Failure, better, compare, judges, not_here


def zone_stage(zone):
    return {"zone": {"prefer": zone}} if zone else {"zone": {}}


@judges("zone")
def zone(v, field):
    given = v["input"]
    field.service(v["id"], given["instances"], chain=[zone_stage(given["zone"])])
    yield
    ids = sorted(field.listed(v["id"]))
    everyone = sorted(i["id"] for i in given["instances"])
    promised = everyone if given["zone"] == "" else None
    return compare(ids, sorted(v["expected"]["ids"]), promised, "an empty text is no zone, neither the node's nor an instance's")


@judges("chain-order")
def chain_order(v, field):
    given = v["input"]
    stages = {"zone": zone_stage(given["zone"]), "hint": {"hint": {}}}
    field.service(v["id"], given["instances"], chain=[stages[s] for s in given["chain"]])
    yield
    ids, _ = field.candidates(v["id"], hint=given["hint"])
    return compare(sorted(ids), sorted(v["expected"]["ids"]))


# ---- hints ----

def property_hint(service, properties):
    """What `hint.SERVICE` and `hint.default` come to: the option `value` of the service, or of the defaults."""
    lowered = {k.lower(): t for k, t in properties.items()}
    return lowered.get(service.lower(), lowered.get("default"))


def hint_stage(value):
    return {"hint": {"header": "X-SC-LB-Hint", **({"value": value} if value else {})}}


IMPLICIT = "no hint is implied: an instance that is tagged `default` takes nobody's traffic by that"


@judges("hint")
def hint(v, field):
    given = v["input"]
    value = property_hint(given["service"], given["hint_properties"])
    field.service(v["id"], given["instances"], chain=[hint_stage(value)])
    yield
    ids, _ = field.candidates(v["id"], headers=given["headers"])
    asked = any(t for t in given["headers"].values())
    everyone = sorted(i["id"] for i in given["instances"])
    return compare(sorted(ids), sorted(v["expected"]["ids"]), None if value or asked else everyone, IMPLICIT)


@judges("hint-property")
def hint_property(v, field):
    given = v["input"]
    words = sorted({*given["hints"].values(), "default", "other"} - {""})
    field.service(v["id"], [{"id": w, "metadata": {"hint": w}} for w in words],
                  chain=[hint_stage(property_hint(given["service"], given["hints"]))])
    yield
    ids, _ = field.candidates(v["id"])
    return compare(ids, [v["expected"]["hint"]], None if given["hints"] else words, IMPLICIT)


# ---- sticky ----

def sticky_stage(cookie):
    return {"sticky": {"cookie": cookie}}


def ids_of(instances):
    return list(dict.fromkeys(i["id"] for i in instances))


@judges("sticky")
def sticky(v, field):
    given = v["input"]
    name = given.get("cookie_name", "sc-lb-instance-id")
    field.service(v["id"], given["instances"], chain=[sticky_stage(name)])
    twice = len(ids_of(given["instances"])) < len(given["instances"])
    yield
    if twice:
        source = field.daemon.get(f"/v1/services/{v['id']}")["feeds"][0]
        if source["state"] != "failed" or "twice" not in (source["error"] or "") and "already" not in (source["error"] or ""):
            raise Failure(f"an id that is there twice is not refused: {source}")
        return better("an id is unique: a source that names one twice fails with its place, and the last good list stays")
    cookies = given.get("cookies") if given.get("request_data", True) else None
    line = "; ".join(f"{k}={t}" for k, t in (cookies or {}).items())
    ids, _ = field.candidates(v["id"], headers={"Cookie": line} if line else {})
    return compare(sorted(ids), sorted(v["expected"]["ids"]))


@judges("cookie-parse-blocking")
def cookie_parse(v, field):
    lines = v["input"]["cookie_header_lines"]
    name = "sc-lb-instance-id"
    pairs = [part.strip().partition("=") for line in lines for part in line.split(";")]
    wanted = [value for key, _, value in pairs if key == name]
    ids = sorted({w for w in wanted if w} | {w.split("=")[0] for w in wanted if w} | {"other"})
    field.service(v["id"], ids, chain=[sticky_stage(name)])
    yield
    kept, _ = field.candidates(v["id"], headers={"Cookie": "; ".join(lines)})
    upstream = v["expected"]["cookies"].get(name)
    observed = [upstream] if upstream in ids else ids
    right = [wanted[-1]] if wanted and wanted[-1] else ids
    return compare(kept, observed, right, "cookies are parsed as RFC 6265 says")


@judges("cookie-add")
def cookie_add(v, field):
    yield
    return not_here("usher answers with the id; who sets a cookie is the process that speaks HTTP")


@judges("same-instance")
def same_instance(v, field):
    given = v["input"]
    field.service(v["id"], given["lists"][0], chain=["same_instance"])
    yield
    chosen, promised = [], []
    for instances in given["lists"]:
        field.show(v["id"], instances)
        chosen.append(field.pick(v["id"], consumer="caller")[0])
        ids = [i["id"] for i in instances]
        if not promised or promised[-1] not in ids:
            if chosen[-1] not in ids:
                raise Failure(f"{chosen[-1]} is none of {ids}")
            promised.append(chosen[-1])
        else:
            promised.append(promised[-1])
    return compare(chosen, v["expected"]["chosen"], promised,
                   "the last choice is kept per consumer and by id, whatever happens to its metadata; the first is not always the same one")


@judges("retry-aware")
def retry_aware(v, field):
    given = v["input"]
    field.service(v["id"], given["instances"], chain=[{"exclude": {"on_empty": "pass"}}])
    yield
    previous = given["previous"]
    ids, _ = field.candidates(v["id"], exclude=[previous["id"]] if previous else [])
    others = [i["id"] for i in given["instances"] if not previous or i["id"] != previous["id"]]
    promised = sorted(others) or sorted(ids_of(given["instances"]))
    return compare(sorted(ids), sorted(v["expected"]["ids"]), promised, "what was tried is excluded by id, in every copy")


# ---- versions ----

NO_MATCH = "filtered"


@judges("api-version-parse")
def version_parse(v, field):
    text, expected = v["input"]["text"], v["expected"]
    right = "{major}.{minor}.{patch}".format(**expected) if "error" not in expected else "1.0.0"
    field_ids = sorted({right, "0.0.1", "1.0.0", "2.0.0", "1.2.3", "1.2.0", "2147483647"})
    field.service(v["id"], [{"id": t, "metadata": {"API_VERSION": t}} for t in field_ids], chain=["version"])
    yield
    field.listed(v["id"])
    ids, told = field.candidates(v["id"], version=text) if text else ([], None)
    if "error" not in expected:
        return compare(ids, [right])
    in_range = sorted(t for t in field_ids if re.fullmatch(re.sub(r"[xX*]", "[0-9]+", re.escape(text).replace(r"\*", "*")) + r"(\.[0-9]+)*", t))
    return compare(ids, [], in_range if re.search(r"[xX*]", text) else None, "a range of versions is one, too")


@judges("api-version-compare")
def version_compare(v, field):
    left, right = v["input"]["left"], v["input"]["right"]
    field.service(v["id"], [{"id": "left", "metadata": {"API_VERSION": left}}], chain=["version"])
    yield
    found = {}
    for sign, compared in (("=", 0), ("<", -1), (">", 1)):
        found[compared] = field.candidates(v["id"], version=sign + right)[0] == ["left"]
    wanted = (v["expected"]["compare"] > 0) - (v["expected"]["compare"] < 0)
    return compare(found, {c: c == wanted for c in (0, -1, 1)})


@judges("api-version-filter")
def version_filter(v, field):
    given, expected = v["input"], v["expected"]
    config = given["config"]
    elsewhere = {"query-parameter", "path-segment", "media-type-parameters"} & set(config)
    options = {"label": "API_VERSION"}
    if "header" in config:
        options["header"] = config["header"]
    if config.get("default") is not None:
        options["default"] = config["default"]
    if config.get("fallback-to-available-instances"):
        options["on_empty"] = "pass"
    field.service(v["id"], given["instances"], chain=[{"version": options}])
    yield
    if elsewhere:
        return not_here(f"usher sees no URL: who has the request takes the version from its {sorted(elsewhere)[0]} and passes it on")
    ids, told = field.candidates(v["id"], headers=given.get("headers") or {})
    ids = sorted(ids)
    if not config:
        return compare(ids, None, ["A"], "the header X-API-Version is looked at, and the pick's own `version`, where nothing is configured")
    if config.get("required") and "default" in config:
        return compare(ids, None, ids, "there is no `required` that a default could contradict: a request without version gets the default's")
    if given.get("flag") is False or not given.get("call-get-with-request-on-delegates", True):
        return compare(ids, sorted(expected.get("ids", [])), ids, "there is no switch that hides the request from a stage")
    malformed = [i["id"] for i in given["instances"] if not version_ok((i.get("metadata") or {}).get("API_VERSION"))]
    if malformed and "error" in expected:
        return compare(ids, None, [i for i in ids if i not in malformed], "an instance whose version is none is left out alone, with the reason")
    if "error" in expected:
        chosen, code = field.pick(v["id"], headers=given.get("headers") or {})
        if chosen is not None or code != NO_MATCH:
            raise Failure(f"chosen is {chosen}, wanted is an error")
        return SAME
    others = [i for i in ids if i not in malformed]
    return compare(ids, sorted(expected["ids"]), others if malformed else None,
                   "an instance whose version is none is left out alone, with the reason")


def version_ok(text):
    return text is None or text.lstrip("vV")[:1].isdigit()


# ---- the request on its way through the chain ----

@judges("request-propagation")
def request_propagation(v, field):
    given, expected = v["input"], v["expected"]
    inner = given["chain_inner_to_outer"]
    stages = {"hint": "hint", "same-instance": "same_instance", "zone": "zone"}
    field.service(v["id"], given.get("instances") or ["A", "B"], chain=[stages[s] for s in inner if s in stages],
                  select="weighted_round_robin" if "weighted" in inner else "round_robin")
    yield
    if "steps" in given:
        field.show(v["id"], ["A", "B"])
        first = field.pick(v["id"], consumer="caller")[0]
        second = field.pick(v["id"], consumer="caller")[0]
        field.show(v["id"], [i for i in ("A", "B") if i != first])
        third = field.pick(v["id"], consumer="caller")[0]
        if second != first or third in (None, first):
            raise Failure(f"chosen were {first}, {second} and, after {first} left, {third}")
        return better("nothing is cached behind the chain: who has left is not chosen again")
    if "hints_of_calls" in given:
        per_call = [sorted(field.candidates(v["id"], hint=h)[0]) for h in given["hints_of_calls"]]
        right = [sorted(i["id"] for i in given["instances"] if i["metadata"].get("hint") == h) for h in given["hints_of_calls"]]
        return compare(per_call, expected["ids_per_call"], right, "every request passes the stages that look at requests; only what looks at none is shared")
    ids = sorted(field.candidates(v["id"], hint=given["hint"])[0])
    right = sorted(i["id"] for i in given["instances"] if i["metadata"].get("hint") == given["hint"])
    return compare(ids, sorted(expected["ids"]), right, "there is no switch that hides the request from a stage")
