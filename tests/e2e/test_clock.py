"""Time that passes while usherd does not run."""

import signal
import time

from usher import endpoint, wait_until


def test_the_age_tells_of_the_time_that_usherd_was_stopped(usherd):
    daemon = usherd({"services": {"catalog": {"freshness": {"max_age": "1s"}}}})
    daemon.write_endpoints({"catalog": [endpoint("catalog-a", 8081)]})
    daemon.start()
    with daemon.watch() as watch:
        watch.next()
        daemon.endpoints.unlink()
        watch.until(lambda line: line["freshness"]["state"] != "live")
        stopped_at = time.monotonic()
        daemon.process.send_signal(signal.SIGSTOP)
        # What is waited for is time itself.
        time.sleep(2)
        stopped = time.monotonic() - stopped_at
        daemon.process.send_signal(signal.SIGCONT)
        answer = daemon.get("/v1/services/catalog/endpoints")
        assert answer["freshness"]["age_ms"] >= stopped * 1000
        assert answer["freshness"]["state"] == "stale"
    daemon.write_endpoints({"catalog": [endpoint("catalog-a", 8081)]})
    wait_until("it is live again",
               lambda: daemon.get("/v1/services/catalog/endpoints")["freshness"]["state"] == "live")


def test_a_source_that_is_fine_is_asked_before_its_answer_is_judged(usherd):
    daemon = usherd({"services": {"catalog": {"freshness": {"max_age": "1s", "on_stale": "fail"}}},
                     })
    daemon.configure({
        "sources": [{"name": "files", "plugin": "file", "options": {"path": str(daemon.endpoints), "poll": "200ms"}}],
        "services": {"catalog": {"freshness": {"max_age": "1s", "on_stale": "fail"}}}})
    daemon.write_endpoints({"catalog": [endpoint("catalog-a", 8081)]})
    daemon.start()
    daemon.process.send_signal(signal.SIGSTOP)
    time.sleep(2)
    daemon.process.send_signal(signal.SIGCONT)
    wait_until("picks succeed as before", lambda: daemon.pick().status == 200)
