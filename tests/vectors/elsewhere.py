"""What usher does not do, for it is not in the way of the requests."""

from verdict import judges, not_here

REASONS = {
    "retry-reactive": "usher makes no calls and so retries none: who calls passes what was tried in `exclude`",
    "retry-blocking": "usher makes no calls and so retries none: who calls passes what was tried in `exclude`",
    "retry-exception-match": "usher sees no exceptions of a client",
    "backoff": "the back-off between a caller's attempts is the caller's",
    "lifecycle-blocking": "who calls says how calls went, in reports; there are no callbacks in its process",
    "lifecycle-reactive": "who calls says how calls went, in reports; there are no callbacks in its process",
    "uri-reconstruct": "usher answers with an address and a port; who calls makes the URL",
    "http-group": "usher configures no HTTP clients",
    "service-id": "a service is asked for by its name, not taken from a URL",
    "x-forwarded": "usher sees no request headers but those passed on to choose by, and sets none",
    "gateway-status": "usher is no gateway; a pick that finds nobody is 503 with a code that says which fact failed",
    "stats": "usher has meters of its own at /metrics; those of calls belong to who calls",
    "auto-registration": "starting and stopping an application is not usher's; it drains what is registered",
    "registry-endpoint": "what people decide about an instance is a drain or a restore, recorded with who and why",
}


@judges(*REASONS)
def elsewhere(v, field):
    yield
    return not_here(REASONS[v["feature"]])
