"""Reports of calls, over the API, by a real usherd."""

import re

import pytest

from usher import UnixConnection, endpoint

THREE = [endpoint("catalog-a", 8081), endpoint("catalog-b", 8082), endpoint("catalog-c", 8083)]
PATH = "/v1/services/catalog/reports"


def metric(daemon, name):
    text = daemon.call("GET", "/metrics").body.decode()
    return int(re.search(rf"^{re.escape(name)} (\d+)$", text, re.M).group(1))


@pytest.fixture
def daemon(usherd):
    daemon = usherd({"services": {"catalog": {}}})
    daemon.write_endpoints({"catalog": THREE})
    return daemon.start()


def test_reports_are_counted_by_how_the_calls_went(daemon):
    reports = [{"endpoint": "catalog-a", "outcome": "ok", "latency_ms": 0.25, "count": 40},
               {"endpoint": "catalog-b", "outcome": "timeout", "latency_ms": 1000},
               {"endpoint": "gone", "outcome": "failed", "count": 2}]
    assert daemon.call("POST", PATH, reports).status == 204
    assert daemon.call("POST", PATH, {"reports": reports}).status == 204
    assert metric(daemon, 'usher_reports_total{outcome="ok"}') == 80
    assert metric(daemon, 'usher_reports_total{outcome="timeout"}') == 2
    assert metric(daemon, 'usher_reports_total{outcome="failed"}') == 4
    assert metric(daemon, "usher_reports_unknown_total") == 4


def test_a_call_with_one_wrong_report_counts_none(daemon):
    reports = [{"endpoint": "catalog-a", "outcome": "ok"}, {"endpoint": "catalog-b", "outcome": "tiemout"}]
    answer = daemon.call("POST", PATH, reports)
    assert (answer.status, answer.json["code"]) == (400, "bad_request")
    assert answer.json["detail"] == 'reports[1]: outcome: "tiemout" is none of ok, error, failed and timeout; did you mean timeout?'
    assert metric(daemon, 'usher_reports_total{outcome="ok"}') == 0


def test_far_too_many_reports_in_one_body_harm_nobody(daemon):
    connection = UnixConnection(daemon.socket)
    for count, detail in ((1001, "more than 1000 reports in one call; send them in several"), (10000, "the body is over 65536 bytes")):
        answer = daemon.call("POST", PATH, [{"endpoint": "catalog-a", "outcome": "ok"}] * count)
        assert (answer.status, answer.json["code"], answer.json["detail"]) == (413, "too_large", detail)
    assert metric(daemon, 'usher_reports_total{outcome="ok"}') == 0
    connection.request("POST", "/v1/services/catalog/pick")
    assert connection.getresponse().status == 200
    connection.close()
