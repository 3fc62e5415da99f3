"""kill -9 at each step of a drain, in both orders: the same or the next step goes on after the restart, and it ends done."""

import json

import pytest

from usher import endpoint, wait_until

STEPS = {
    "serve_stale": ["requested", "deregister", "propagation", "readiness", "in_flight", "close"],
    "refuse_first": ["requested", "readiness", "deregister", "propagation", "in_flight", "close"],
}
CRASHES = [(order, step, moment) for order, steps in STEPS.items() for step in steps
           for moment in ("before", "acted", "after")]
THREE = [endpoint("catalog-a", 8081), endpoint("catalog-b", 8082), endpoint("catalog-c", 8083)]


@pytest.mark.parametrize("order, step, moment", CRASHES)
def test_a_drain_goes_on_after_a_crash(usherd, order, step, moment):
    daemon = usherd()
    runs = daemon.folder / "runs"
    hook = daemon.folder / "hook"
    hook.write_text(f'#!/bin/sh\necho "$USHER_STEP $USHER_TOKEN $USHER_ATTEMPT" >>{runs}\n')
    hook.chmod(0o755)
    daemon.configure({"services": {"catalog": {"drain": {
        "order": order, "propagation": {"consumer_cache": "100ms"}, "in_flight": {"quiet": "50ms"},
        "readiness": {"exec": [str(hook)]}, "close": {"exec": [str(hook)]}}}}})
    daemon.write_endpoints({"catalog": THREE})
    daemon.start(environment={"USHER_CRASH_AT": f"{step}:{moment}"})
    answer = None
    try:
        answer = daemon.call("POST", "/v1/drains", {"service": "catalog", "endpoint": "catalog-a"}, admin=True)
    except OSError:
        pass  # it crashed before it could answer
    assert daemon.wait_end() == -9

    daemon.start()
    drains = daemon.get("/v1/drains")["drains"]
    if not drains:
        # Before the record was on disk, nothing has happened, and nobody was told otherwise.
        assert (step, moment) == ("requested", "before") and not answer
        drains = [daemon.drain("catalog-a")]
    record = drains[0]
    order_of_steps = [*STEPS[order], "done"]
    now = order_of_steps.index(record["step"])
    crashed_in = order_of_steps.index(step)
    assert now >= crashed_in, f"went back to {record['step']}"
    if now < order_of_steps.index("done"):
        assert "catalog-a" not in daemon.picked()
    done = daemon.wait_finished(record["id"])
    assert done["state"] == "done", json.dumps(done, indent=1)
    assert "catalog-a" not in daemon.listed()

    lines = [line.split() for line in runs.read_text().splitlines()]
    assert {token for _, token, _ in lines} == {done["token"]}
    for hooked in ("readiness", "close"):
        attempts = [int(attempt) for name, _, attempt in lines if name == hooked]
        fell_inside = step == hooked and moment in ("before", "acted")
        # The end of a step and the entry of the next are on disk in one: its attempt has been announced.
        announced = moment == "after" and order_of_steps[crashed_in + 1] == hooked
        assert attempts in ([[1], [2], [1, 2]] if fell_inside else [[1], [2]] if announced else [[1]])
        if attempts == [1, 2]:
            hook_step = next(s for s in done["steps"] if s["step"] == hooked)
            assert hook_step["attempts"] == 2
            assert any("again" in e["text"] for e in hook_step["evidence"] if e["kind"] == "hook")


def test_a_restore_goes_on_after_a_crash(usherd):
    daemon = usherd({"services": {"catalog": {
        "drain": {"in_flight": {"quiet": "50ms"}}, "restore": {"ramp": "1s", "probe": {"enabled": False}}}}})
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()
    daemon.wait_finished(daemon.drain("catalog-a")["id"])
    record = daemon.restore("catalog-a")
    wait_until("it ramps", lambda: daemon.record(record["id"])["step"] == "ramp")
    daemon.kill()
    daemon.start()
    assert daemon.wait_finished(record["id"])["state"] == "done"
    wait_until("it is chosen", lambda: "catalog-a" in daemon.picked(count=50))
    assert daemon.listed()["catalog-a"]["weight"] == 1


def test_the_drained_endpoint_stays_out_through_any_number_of_restarts(usherd):
    daemon = usherd({"services": {"catalog": {"drain": {"in_flight": {"quiet": "50ms"}}}}})
    daemon.write_endpoints({"catalog": THREE})
    daemon.start()
    daemon.wait_finished(daemon.drain("catalog-a")["id"])
    for _ in range(3):
        daemon.kill()
        daemon.start()
        assert "catalog-a" not in daemon.picked()
