"""What can be said of one vector, and who says it.

Every feature has one judge: a function that runs the vector against usher and says `same` (usher gives the
answer that was observed there), `better` (usher gives another one, which the judge has checked to be what
it promises instead) or `not_here` (usher has no such thing, and why). What it cannot say is a failure.
"""

import collections

Verdict = collections.namedtuple("Verdict", "kind reason")

SAME = Verdict("same", "")


class Failure(Exception):
    """usher did neither what was observed there nor what it promises instead."""


def better(reason):
    return Verdict("better", reason)


def not_here(reason):
    return Verdict("not here", reason)


def compare(actual, expected, promised=None, reason=None):
    """Same as observed; else what is promised instead, for a reason."""
    if actual == expected:
        return SAME
    if promised is not None and actual == promised:
        return better(reason)
    wanted = f"{expected!r}" if promised is None else f"{expected!r}, or {promised!r} because {reason}"
    raise Failure(f"usher says {actual!r}, wanted is {wanted}")


JUDGES = {}  # feature: (function, number of the section of the reference page that it belongs to)


def judges(*features):
    def register(function):
        for feature in features:
            assert feature not in JUDGES, feature
            JUDGES[feature] = function
        return function

    return register
