"""Many daemons that lose one registry, or one name server, at one moment: they come back spread, and stay spread."""

import collections
import threading

import pytest
from scripted_dns import DnsServer, Fault, servfail
from scripted_registry import Registry, Reply, Silence
from usher import wait_until

DAEMONS, SOURCES = 8, 63
CLIENTS = DAEMONS * SOURCES
# From the fifth answer that is a failure to the next question is anything from nothing to this.
WINDOW = 0.2 * 2 ** 5
INSTANCE = {"Node": {"Node": "n1", "Address": "127.0.0.1"}, "Service": {"ID": "a", "Service": "s", "Port": 8080}, "Checks": []}


def most_of(values):
    """From which to which are all but the first and the last tenth."""
    values = sorted(values)
    return values[len(values) // 10], values[9 * len(values) // 10]


def assert_spread(waited, window):
    # Most of the window is in use, whatever a slow machine adds to each wait and however late a few are.
    first, last = most_of(waited)
    assert last - first >= 0.4 * window
    # No tenth of the window, nor as long a time behind it, has more than its share, as it would if some of them kept step.
    share = collections.Counter(int(10 * each / window) for each in waited)
    assert max(share.values()) < 0.25 * len(waited), share


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
    assert_spread([times[5] - times[4] for times in came.values()], WINDOW)
    # Nor do they meet again by the clock.
    moments = sorted(times[5] for times in came.values())
    assert moments[-1] - moments[0] >= 0.8 * WINDOW


# ---- a name server ----

RESOLVERS, NAMES = 5, 60
# From the sixth answer that is a failure to the next question: no later than the records are to be looked at again.
TTL = 4


def name_sources(dns, daemon):
    names = [f"d{daemon}s{i}" for i in range(NAMES)]
    options = {"servers": [dns.address], "name": "{name}.test", "port": 80, "addresses": "ipv4", "timeout": "10s"}
    return {
        "sources": [{"name": name, "plugin": "dns", "options": options} for name in names],
        "defaults": {"sources": names[:1], "startup_timeout": "0s", "freshness": {"max_age": "10m"}},
        "services": {name: {"sources": [name]} for name in names},
    }


def asked(dns):
    """When each client has asked, by the name that it asks for."""
    times = collections.defaultdict(list)
    with dns.lock:
        questions = list(dns.questions)
    for question in questions:
        times[question.name].append(question.time)
    return times


def test_three_hundred_clients_of_a_name_server_come_back_spread_over_the_window(usherd):
    clients = RESOLVERS * NAMES
    with DnsServer() as dns:
        for i in range(RESOLVERS):
            for name in name_sources(dns, i)["services"]:
                dns.a(f"{name}.test", "10.0.0.1", ttl=TTL)
        daemons = [usherd(name_sources(dns, i), name=f"usher-{i}").start() for i in range(RESOLVERS)]
        wait_until("all have asked", lambda: len(asked(dns)) == clients, every=0.2)
        with dns.lock:
            dns.faults.append(Fault(servfail, times=None))
            dns.questions.clear()
        wait_until("each has failed seven times", lambda: len(asked(dns)) == clients and all(
            len(times) >= 7 for times in asked(dns).values()), deadline=180, every=0.5)
        assert_spread([times[6] - times[5] for times in asked(dns).values()], TTL)

        # Whom it has failed, and who finds nobody there, asks it again when his own time has come.
        dns.stop()
        with dns.lock:
            dns.faults.clear()
            dns.questions.clear()
        dns.start()
        wait_until("all have asked again", lambda: len(asked(dns)) == clients, deadline=180, every=0.5)
        first, last = most_of(times[0] for times in asked(dns).values())
        assert last - first >= 0.3 * TTL
        for i, daemon in enumerate(daemons):
            for name in (f"d{i}s0", f"d{i}s{NAMES - 1}"):
                daemon.wait_listed(["10.0.0.1:80"], service=name)
