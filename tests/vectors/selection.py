"""Who is chosen: round robin, weights, random, subsets."""

import collections
import math
import re

from verdict import SAME, Failure, better, compare, judges, not_here

MASK = (1 << 31) - 1


@judges("round-robin")
def round_robin(v, field):
    given = v["input"]
    field.cursors[v["id"]] = (given["seed"] + 1) & MASK
    field.service(v["id"], given["lists"][0], select="round_robin")
    yield
    chosen, promised = [], []
    position = field.cursors[v["id"]]
    for ids in given["lists"]:
        field.show(v["id"], ids)
        chosen.append(field.pick(v["id"])[0])
        promised.append(sorted(ids)[position % len(ids)] if ids else None)
        position += len(ids) > 1
    return compare(chosen, v["expected"]["chosen"], promised,
                   "turns go by the order of ids, whatever order the registry answers in, and the count does not wrap")


def usher_weight(text):
    """0..100000 without sign or blanks; what is no weight counts as 1."""
    if text is None:
        return 1
    if text.isascii() and text.isdigit() and int(text) <= 100000:
        return int(text)
    return 1


def upstream_weight(text):
    """A 32-bit whole number, perhaps with a sign; what is none, or below 1, counts as 1."""
    if text is None or not re.fullmatch(r"[+-]?[0-9]+", text):
        return 1
    return int(text) if 0 < int(text) <= MASK else 1


def weights_of(given):
    if "function_results" in given:
        return {k: str(w) for k, w in given["function_results"].items()}
    return {i["id"]: (i.get("metadata") or {}).get("weight") for i in given["instances"]}


def weighted_reason(weights, expected):
    if "error" in expected or expected.get("size") == 0:
        return "sums have 64 bits: weights that overflow there are shares here"
    if any(w is not None and usher_weight(w) == 0 for w in weights.values()):
        return "weight 0 receives nothing"
    if any(w is not None and w.isdigit() and 100000 < int(w) <= MASK for w in weights.values()):
        return "a weight above 100000 is reported and counts as 1; nothing grows with the weights"
    if any(upstream_weight(w) != usher_weight(w) for w in weights.values()):
        return "a weight is digits and nothing else; what is none counts as 1 and is reported"
    return "the same shares, spread out instead of in bursts"


def shares_are_exact(picks, weights):
    period = math.gcd(*weights.values())
    counts = collections.Counter(picks)
    return all(counts[i] == w // period for i, w in weights.items())


@judges("weighted")
def weighted(v, field):
    texts = weights_of(v["input"])
    field.service(v["id"], [{"id": i, "metadata": {} if w is None else {"weight": w}} for i, w in texts.items()],
                  select="weighted_round_robin")
    field.cursors[v["id"]] = 0
    yield
    weights = {i: usher_weight(w) for i, w in texts.items()}
    invalid = {e["id"] for e in field.all(v["id"]) if e.get("weight_invalid")} if field.listed(v["id"]) else set()
    wrong = {i for i, w in texts.items() if w is not None and usher_weight(w) != (int(w) if w.isascii() and w.isdigit() else -1)}
    if invalid != wrong:
        raise Failure(f"reported as no weights are {invalid}, they are {wrong}")
    total = sum(weights.values()) // (math.gcd(*weights.values()) or 1)
    if total == 0:
        return compare(field.pick(v["id"])[1], None, "filtered", "weight 0 receives nothing")
    picks = field.picks(v["id"], total)
    if not shares_are_exact(picks, weights):
        raise Failure(f"{total} picks with the weights {weights} gave {collections.Counter(picks)}")
    expected = v["expected"]
    if picks == expected.get("expanded"):
        return SAME
    return better(weighted_reason(texts, expected))


@judges("weighted-round-robin")
def weighted_round_robin(v, field):
    given = v["input"]
    texts = weights_of(given)
    field.service(v["id"], given["instances"], select="weighted_round_robin")
    field.cursors[v["id"]] = (given["seed"] + 1) & MASK
    yield
    field.listed(v["id"])
    picks = field.picks(v["id"], given["calls"])
    if picks == v["expected"]["chosen"]:
        return SAME
    weights = {i: usher_weight(w) for i, w in texts.items()}
    cycle = sum(weights.values()) // math.gcd(*weights.values())
    for at in range(0, len(picks) - cycle + 1, cycle):
        if not shares_are_exact(picks[at:at + cycle], weights):
            raise Failure(f"one cycle of {weights} gave {picks[at:at + cycle]}")
    return better("the same shares in every cycle, spread out instead of in bursts")


@judges("random")
def random(v, field):
    ids = v["input"]["instances"]
    field.service(v["id"], ids, select="random")
    yield
    field.listed(v["id"])
    got = sorted({i for i in field.picks(v["id"], 40 * len(ids) or 1) if i is not None})
    return compare(got, sorted(v["expected"]["allowed"]))


@judges("subset")
def subset(v, field):
    given, expected = v["input"], v["expected"]
    size, ids = given["size"], given["instances"]
    use = [{"subset": {"size": size, "identity": given["client_id"]}}]
    if size > 0:
        field.service(v["id"], ids, chain=use)
        field.service(v["id"] + "-again", list(reversed(ids)), chain=use)
    yield
    if size <= 0:
        code, text = field.check({"services": {"svc": {"chain": use}}})
        if code == 0 or "size" not in text:
            raise Failure(f"a subset of {size} is not refused at load: {text}")
        return SAME if "error" in expected else better("a size below 1 is refused at load")
    got = field.listed(v["id"])
    if sorted(got) != sorted(field.listed(v["id"] + "-again")):
        raise Failure("another order of the directory gives another subset")
    if len(got) != min(size, len(ids)) or not set(got) <= set(ids):
        raise Failure(f"{got} is no subset of {size}")
    if sorted(got) == sorted(expected.get("ids", [])):
        return SAME
    more = ids + ["one-more"]
    field.show(v["id"], more)
    moved = set(field.listed(v["id"])) - set(got)
    if len(moved) > 1 or moved - {"one-more"}:
        raise Failure(f"one more instance moved {moved}")
    return better("rendezvous hashing: the order of the directory does not matter, one more instance moves one member at most")


@judges("string-hash", "random-bounded", "shuffle")
def parts_of_the_shuffle(v, field):
    yield
    return not_here("a part of the shuffle that subsets are made by there; here it is rendezvous hashing")


@judges("instance-id")
def instance_id(v, field):
    ids = [f"i{n}" for n in range(4)]
    shown = {v["id"] + "-default": "vectors"}
    field.service(v["id"] + "-default", ids, chain=[{"subset": {"size": 1}}])
    if v["expected"].get("id"):
        shown[v["id"]] = v["expected"]["id"]
        field.service(v["id"], ids, chain=[{"subset": {"size": 1, "identity": shown[v["id"]]}}])
    yield
    for name, identity in shown.items():
        _, told = field.candidates(name)
        if identity not in str(told["stages"]):
            raise Failure(f"explain of {name} does not show the identity {identity}: {told['stages']}")
    return better("the identity is the node's name, which no two share, or what `identity` says; explain shows it")
