"""Many daemons that lose one registry at one moment: they come back spread, and stay spread."""

import collections
import threading

import pytest
from scripted_registry import Registry, Reply, Silence
from usher import wait_until

DAEMONS, SOURCES = 8, 63
CLIENTS = DAEMONS * SOURCES
# From the fifth answer that is a failure to the next question is anything from nothing to this.
WINDOW = 0.2 * 2 ** 5
INSTANCE = {"Node": {"Node": "n1", "Address": "127.0.0.1"}, "Service": {"ID": "a", "Service": "s", "Port": 8080}, "Checks": []}


class Agent(Registry):
    """As one of Consul's: whoever asks with an index waits for a change, and none comes."""

    def __init__(self):
        super().__init__(self.say)
        self.fails = threading.Event()

    def say(self, request):
        if self.fails.is_set():
            return Reply("No cluster leader", 500)
        if "index" in request.query:
            return Silence()
        body = {} if request.path == "/v1/catalog/services" else [INSTANCE]
        return Reply(body, headers={"X-Consul-Index": 10, "X-Consul-Knownleader": "true", "X-Consul-Lastcontact": 0})

    def times(self):
        """When each client has asked for its service, by its name."""
        times = collections.defaultdict(list)
        for request in self.asked(lambda r: r.path.startswith("/v1/health/service/")):
            times[request.path].append((request.time, "index" in request.query))
        return times

    def hang_up(self):
        self.fails.set()
        with self.lock:
            open_ones = list(self.connections)
        for connection in open_ones:
            connection.close()


@pytest.fixture
def agent():
    with Agent() as registry:
        yield registry


def client_sources(agent, daemon):
    names = [f"d{daemon}s{i}" for i in range(SOURCES)]
    return {
        "sources": [{"name": name, "plugin": "consul", "options": {"servers": [agent.url], "wait": "60s"}} for name in names],
        "defaults": {"sources": names[:1], "startup_timeout": "0s", "freshness": {"max_age": "10m"}},
        "services": {name: {"sources": [name]} for name in names},
    }


def test_five_hundred_clients_come_back_spread_over_the_window(usherd, agent):
    for i in range(DAEMONS):
        usherd(client_sources(agent, i), name=f"usher-{i}").start()
    wait_until("all wait for a change", lambda: sum(
        any(waits for _, waits in times) for times in agent.times().values()) == CLIENTS, every=0.2)
    before = {name: len(times) for name, times in agent.times().items()}
    agent.hang_up()
    wait_until("each has failed six times", lambda: all(
        len(times) - before[name] >= 6 for name, times in agent.times().items()), deadline=180, every=0.5)

    came = {name: [when for when, _ in times[before[name]:]] for name, times in agent.times().items()}
    waited = sorted(times[5] - times[4] for times in came.values())
    # Most of the window is in use, whatever a slow machine adds to each wait and however late a few are.
    assert waited[9 * CLIENTS // 10] - waited[CLIENTS // 10] >= 0.4 * WINDOW
    # No tenth of the window, nor as long a time behind it, has more than its share, as it would if some of them kept step.
    share = collections.Counter(int(10 * each / WINDOW) for each in waited)
    assert max(share.values()) < 0.25 * CLIENTS, share
    # Nor do they meet again by the clock.
    moments = sorted(times[5] for times in came.values())
    assert moments[-1] - moments[0] >= 0.8 * WINDOW
