"""libusher against a scripted daemon: what an application sees while usherd comes, goes and talks nonsense."""

import ctypes
import errno
import os
import threading
import time

import pytest

from scripted_daemon import Channel, Problem, ScriptedDaemon

TEXT_MAX = 1024
BUILD = os.environ.get("USHER_BUILD", os.path.join(os.path.dirname(__file__), "..", "..", "build", "dev"))
LIBRARY = os.path.join(BUILD, "api", "libusher", "libusher.so.0")

with open(LIBRARY, "rb") as file:
    text = file.read()
    if any(word in text for word in (b"__asan_init", b"__tsan_init")):
        pytest.skip("python does not load a sanitized library; test-follower looks at that", allow_module_level=True)


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * 512)]


class Choice(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("id", ctypes.c_char * TEXT_MAX),
        ("address", ctypes.c_char * TEXT_MAX),
        ("port", ctypes.c_uint16),
        ("secure", ctypes.c_bool),
        ("revision", ctypes.c_uint64),
        ("age_usec", ctypes.c_uint64),
        ("stale", ctypes.c_bool),
        ("panic", ctypes.c_bool),
    ]


class CallReport(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("endpoint", ctypes.c_char_p),
        ("latency_usec", ctypes.c_uint64),
        ("count", ctypes.c_uint32),
        ("outcome", ctypes.c_int),
    ]


class LongerReport(CallReport):
    """As a later version of the header may have it."""

    _fields_ = [("more", ctypes.c_uint64)]


OK, ERROR, FAILED, TIMEOUT = range(4)


@pytest.fixture(scope="session")
def library():
    lib = ctypes.CDLL(LIBRARY)
    lib.usher_client_new.restype = ctypes.c_void_p
    lib.usher_client_new.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    lib.usher_client_free.restype = ctypes.c_void_p
    lib.usher_client_free.argtypes = [ctypes.c_void_p]
    lib.usher_client_set_timeout.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    lib.usher_client_interrupt.argtypes = [ctypes.c_void_p]
    lib.usher_client_call.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
    lib.usher_client_pick.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
    lib.usher_client_report.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    lib.usher_follower_new.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
    lib.usher_follower_free.argtypes = [ctypes.c_void_p]
    lib.usher_follower_free.restype = ctypes.c_void_p
    lib.usher_follower_wait.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64]
    lib.usher_follower_pick.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    lib.usher_follower_connected.argtypes = [ctypes.c_void_p]
    lib.usher_follower_connected.restype = ctypes.c_bool
    lib.usher_follower_error.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    return lib


@pytest.fixture
def daemon(tmp_path):
    with ScriptedDaemon(tmp_path / "usher.sock") as daemon:
        yield daemon


class Client:
    def __init__(self, library, path, name=None):
        self.library = library
        self.pointer = library.usher_client_new(str(path).encode(), name.encode() if name else None)
        self.error = Error()

    def call(self, method, path, body=None):
        text = ctypes.c_char_p()
        self.error = Error()
        r = self.library.usher_client_call(
            self.pointer, method.encode(), path.encode(), body.encode() if body else None, ctypes.byref(text), ctypes.byref(self.error)
        )
        return r, text.value

    def pick(self, service, body=None):
        choice = Choice(size=ctypes.sizeof(Choice))
        self.error = Error()
        r = self.library.usher_client_pick(
            self.pointer, service.encode(), body.encode() if body else None, ctypes.byref(choice), ctypes.byref(self.error)
        )
        return r, choice

    def report(self, service, reports, kind=CallReport):
        """reports: (endpoint, outcome, latency_usec, count) each."""
        array = (kind * len(reports))()
        for item, (endpoint, outcome, latency_usec, count) in zip(array, reports):
            item.size, item.endpoint, item.outcome = ctypes.sizeof(kind), endpoint.encode(), outcome
            item.latency_usec, item.count = latency_usec, count
        self.error = Error()
        return self.library.usher_client_report(self.pointer, service.encode(), array, len(reports), ctypes.byref(self.error))

    @property
    def text(self):
        return self.error.text.decode()

    def close(self):
        self.pointer = self.library.usher_client_free(self.pointer)


@pytest.fixture
def client(library, daemon):
    client = Client(library, daemon.path, "shop")
    yield client
    client.close()


class Follower:
    def __init__(self, library, path, service="catalog"):
        self.library = library
        self.pointer = ctypes.c_void_p()
        assert library.usher_follower_new(str(path).encode(), b"shop", service.encode(), ctypes.byref(self.pointer), None) == 0

    def wait(self, revision=0, seconds=60):
        return self.library.usher_follower_wait(self.pointer, revision, int(seconds * 1e6))

    def pick(self):
        choice = Choice(size=ctypes.sizeof(Choice))
        r = self.library.usher_follower_pick(self.pointer, ctypes.byref(choice))
        return choice if r == 0 else r

    def connected(self):
        return self.library.usher_follower_connected(self.pointer)

    def error(self):
        error = Error()
        return self.library.usher_follower_error(self.pointer, ctypes.byref(error)), error.text.decode()

    def close(self):
        self.library.usher_follower_free(self.pointer)


@pytest.fixture
def follow(library, daemon):
    followers = []

    def start(service="catalog"):
        followers.append(Follower(library, daemon.path, service))
        return followers[-1]

    yield start
    for follower in followers:
        follower.close()


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.01)


def freshness(age_ms=100, max_age_ms=30000, state="live"):
    return {"state": state, "age_ms": age_ms, "max_age_ms": max_age_ms, "source": "files"}


def endpoint(name, **more):
    return {"id": name, "address": f"{name}.example", "port": 8080, "secure": False, "weight": 1, "admin_state": "ready", **more}


def snapshot(revision, *endpoints, **fresh):
    return {"type": "snapshot", "service": "catalog", "revision": revision, "freshness": freshness(**fresh), "endpoints": list(endpoints)}


def update(revision, changed=(), removed=(), **fresh):
    return {"type": "update", "revision": revision, "freshness": freshness(**fresh), "changed": list(changed), "removed": list(removed)}


WATCH = "/v1/services/catalog/endpoints"
ACK = "/v1/consumers/self/ack"


def test_a_call_gives_status_and_body_and_names_its_consumer(daemon, client):
    daemon.on("GET", "/v1/services", {"services": []})
    assert client.call("GET", "/v1/services") == (200, b'{"services": []}')
    assert daemon.requests[0].headers["Usher-Consumer"] == "shop"


def test_a_problem_is_an_answer_like_any_other(daemon, client):
    status, body = client.call("GET", "/v1/nothing")
    assert status == 404
    assert b'"code": "not_found"' in body


def test_calls_share_one_connection_and_survive_its_end(daemon, client):
    daemon.on("GET", "/v1/services", {})
    for _ in range(3):
        assert client.call("GET", "/v1/services")[0] == 200
    assert len(daemon.connections) == 1
    daemon.stop()
    daemon.start()
    assert client.call("GET", "/v1/services")[0] == 200


def test_a_body_of_zero_bytes_and_204_are_answers(daemon, client):
    daemon.on("PUT", "/v1/consumers/self/ack", (204, b""))
    assert client.call("PUT", "/v1/consumers/self/ack", '{"service": "catalog", "revision": 3}') == (204, b"")
    assert daemon.requests[0].body == {"service": "catalog", "revision": 3}


def test_a_proxy_in_the_environment_is_not_asked(daemon, client, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    daemon.on("GET", "/v1/services", {})
    assert client.call("GET", "/v1/services")[0] == 200


def test_without_a_socket_the_words_say_so_and_what_to_do(library, tmp_path):
    client = Client(library, tmp_path / "none.sock")
    assert client.call("GET", "/v1/services")[0] == -errno.ENOENT
    assert client.text == (
        f"usherd does not answer on {tmp_path}/none.sock: there is no such socket; is usherd running? systemctl status usherd"
    )
    client.close()


def test_a_socket_that_nobody_listens_on_is_refused(daemon, client):
    daemon.stop(leave_socket=True)
    assert client.call("GET", "/v1/services")[0] == -errno.ECONNREFUSED
    assert client.text == (
        f"usherd does not answer on {daemon.path}: connection refused; is usherd running? systemctl status usherd"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become somebody else")
def test_a_socket_of_others_is_not_permitted(library, tmp_path):
    os.chmod(tmp_path, 0o755)
    with ScriptedDaemon(tmp_path / "admin.sock") as daemon:
        os.chmod(daemon.path, 0o600)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.setresuid(65534, 65534, 65534)
            client = Client(library, daemon.path)
            r, _ = client.call("GET", "/v1/services")
            os.write(write, f"{r} {client.text}".encode())
            os._exit(0)
        os.waitpid(child, 0)
        said = os.read(read, 4096).decode()
    if "ENOENT" in said or said.startswith(f"-{errno.ENOENT} ") or "no such socket" in said:
        pytest.skip("the temporary folder cannot be entered by others")
    assert said.startswith(f"-{errno.EACCES} not permitted to connect to {daemon.path}: join the group that owns it")


def test_a_path_too_long_for_a_socket_is_said_so(library, tmp_path):
    client = Client(library, "/tmp/" + "x" * 110)
    assert client.call("GET", "/v1/services")[0] == -errno.ENAMETOOLONG
    assert "107 bytes" in client.text
    client.close()


def test_a_silent_daemon_is_given_up_at_the_timeout(library, daemon, client):
    never = threading.Event()
    daemon.on("GET", "/v1/services", lambda request: never.wait(120))
    library.usher_client_set_timeout(client.pointer, 200000)
    began = time.monotonic()
    assert client.call("GET", "/v1/services")[0] == -errno.ETIMEDOUT
    assert 0.19 < time.monotonic() - began < 60  # and not when it answers
    assert "within 200ms" in client.text
    never.set()


def test_a_call_can_be_interrupted_from_another_thread(library, daemon, client):
    never = threading.Event()

    def interrupt(request):
        library.usher_client_interrupt(client.pointer)
        never.wait(120)

    daemon.on("GET", "/v1/services", interrupt)
    assert client.call("GET", "/v1/services")[0] == -errno.EINTR
    never.set()


def test_what_is_no_http_is_no_usherd(library, tmp_path):
    import socket

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "odd.sock"))
    listener.listen()

    def answer():
        connection, _ = listener.accept()
        connection.recv(4096)
        connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
        connection.close()

    threading.Thread(target=answer, daemon=True).start()
    client = Client(library, tmp_path / "odd.sock")
    assert client.call("GET", "/v1/services")[0] == -errno.EBADMSG
    assert "no usherd" in client.text
    client.close()


def test_a_pick_gives_the_choice_and_its_age(daemon, client):
    daemon.on(
        "POST",
        "/v1/services/cat a/log/pick",
        {"service": "catalog", "revision": 7, "freshness": freshness(812), "endpoint": endpoint("a", secure=True)},
    )
    r, choice = client.pick("cat a/log", '{"hint": "blue"}')
    assert r == 0
    assert (choice.id, choice.address, choice.port, choice.secure) == (b"a", b"a.example", 8080, True)
    assert (choice.revision, choice.age_usec, choice.stale) == (7, 812000, False)
    assert daemon.requests[0].body == {"hint": "blue"}


def test_a_choice_in_panic_says_so(daemon, client, follow):
    answer = {"service": "catalog", "revision": 7, "freshness": freshness(), "endpoint": endpoint("a")}
    daemon.on("POST", "/v1/services/catalog/pick", {**answer, "panic": True})
    assert client.pick("catalog")[1].panic
    daemon.on("POST", "/v1/services/catalog/pick", answer)
    assert not client.pick("catalog")[1].panic

    channel = Channel(snapshot(5, endpoint("a")))
    daemon.on("GET", WATCH, channel)
    follower = follow()
    assert follower.wait() == 0 and not follower.pick().panic
    channel.put({**update(6, changed=[endpoint("a"), endpoint("b")]), "panic": True})
    assert follower.wait(6) == 0 and follower.pick().panic
    channel.put(update(7, removed=["b"]))
    assert follower.wait(7) == 0 and not follower.pick().panic


@pytest.mark.parametrize(
    "problem, code",
    [
        (Problem(404, "unknown_service", "nobody declared nope"), errno.ENOENT),
        (Problem(503, "all_unhealthy", "all 3 endpoints of nope are unhealthy"), errno.EAGAIN),
        (Problem(400, "bad_request", "hint is not a text"), errno.EINVAL),
    ],
)
def test_a_pick_without_an_answer_says_which_fact_failed(daemon, client, problem, code):
    daemon.on("POST", "/v1/services/nope/pick", problem)
    assert client.pick("nope")[0] == -code
    assert client.text == f"{problem.body['detail']} ({problem.body['code']})"


REPORTS = "/v1/services/catalog/reports"


@pytest.mark.parametrize("kind", [CallReport, LongerReport])
def test_reports_say_how_calls_went(daemon, client, kind):
    daemon.on("POST", REPORTS, (204, None))
    assert client.report("catalog", [('a"b', OK, 12345, 2), ("c", TIMEOUT, 0, 0)], kind) == 0
    assert [r.body for r in daemon.requests] == [
        [{"endpoint": 'a"b', "outcome": "ok", "count": 2, "latency_ms": 12.345}, {"endpoint": "c", "outcome": "timeout", "count": 1}]
    ]
    assert client.report("catalog", []) == 0
    assert len(daemon.requests) == 1


def test_many_reports_go_in_as_many_calls_as_they_need(daemon, client):
    daemon.on("POST", REPORTS, (204, None))
    assert client.report("catalog", [(f"endpoint-{i}", i % 4, i, 1) for i in range(10000)]) == 0
    told = [item["endpoint"] for request in daemon.requests for item in request.body]
    assert told == [f"endpoint-{i}" for i in range(10000)]
    assert all(len(request.body) <= 1000 and int(request.headers["Content-Length"]) <= 65536 for request in daemon.requests)
    daemon.requests.clear()
    assert client.report("catalog", [("\n" * TEXT_MAX, ERROR, 1, 1)] * 30) == 0
    assert sum(len(request.body) for request in daemon.requests) == 30
    assert all(int(request.headers["Content-Length"]) <= 65536 for request in daemon.requests)


def test_reports_that_cannot_be_told_say_why(daemon, client):
    daemon.on("POST", REPORTS, Problem(404, "unknown_service", "catalog is not declared, and nobody has asked for it yet"))
    assert client.report("catalog", [("a", OK, 1, 1)]) == -errno.ENOENT
    assert "nobody has asked for it yet (unknown_service)" in client.text
    assert client.report("catalog", [("a", OK, 1, 1), ("", OK, 1, 1)]) == -errno.EINVAL
    assert client.text.startswith("report 1: a report needs the id of an endpoint")
    assert client.report("catalog", [("a", 9, 1, 1)]) == -errno.EINVAL
    assert client.report("", [("a", OK, 1, 1)]) == -errno.EINVAL
    assert len(daemon.requests) == 1


def test_a_follower_takes_turns_over_what_the_watch_says(daemon, follow):
    channel = Channel(snapshot(5, endpoint("a"), endpoint("b"), endpoint("c", admin_state="draining")))
    daemon.on("GET", WATCH, channel)
    follower = follow()
    assert follower.wait() == 0
    assert follower.connected()
    assert {follower.pick().id for _ in range(10)} == {b"a", b"b"}

    channel.put(update(6, changed=[endpoint("a", admin_state="draining")]))
    assert follower.wait(6) == 0
    assert {follower.pick().id for _ in range(10)} == {b"b"}

    channel.put(update(7, changed=[endpoint("d")], removed=["a", "b"]))
    assert follower.wait(7) == 0
    assert {follower.pick().id for _ in range(10)} == {b"d"}

    channel.put({"type": "resync"})
    channel.put(snapshot(9, endpoint("e")))
    assert follower.wait(9) == 0
    assert {follower.pick().id for _ in range(10)} == {b"e"}


def test_no_directory_yet_is_no_choice_and_a_wait_that_ends(daemon, follow):
    daemon.on("GET", WATCH, Channel({"type": "bookmark", "revision": 0, "freshness": freshness(None, state="unknown")}))
    follower = follow()
    until(follower.connected)
    assert follower.wait(seconds=0) == -errno.ETIMEDOUT
    assert follower.pick() == -errno.EAGAIN


def test_p9_a_follower_keeps_choosing_while_the_daemon_is_away_and_tells_the_age(daemon, follow):
    daemon.on("GET", WATCH, Channel(snapshot(5, endpoint("a"), age_ms=200, max_age_ms=5000)))
    follower = follow()
    assert follower.wait() == 0
    assert 200000 <= follower.pick().age_usec < 5000000
    daemon.stop()
    until(lambda: not follower.connected())
    until(lambda: follower.pick().stale)
    assert follower.pick().id == b"a"
    assert follower.pick().age_usec >= 5000000
    until(lambda: "no such socket" in follower.error()[1])


def test_a_follower_resumes_from_its_revision_when_the_daemon_is_back(daemon, follow):
    daemon.on("GET", WATCH, Channel(snapshot(5, endpoint("a"))))
    follower = follow()
    assert follower.wait() == 0
    daemon.stop()
    daemon.on("GET", WATCH, Channel(update(8, changed=[endpoint("b")], removed=["a"])))
    until(lambda: not follower.connected())
    daemon.start()
    assert follower.wait(8) == 0
    assert [request.query for request in daemon.asked("GET", WATCH)] == [{"watch": "true"}, {"watch": "true", "revision": "5"}]
    assert follower.pick().id == b"b"
    assert follower.error() == (0, "")


def test_bookmarks_renew_the_age_and_move_the_revision(daemon, follow):
    channel = Channel(snapshot(5, endpoint("a"), age_ms=20000))
    daemon.on("GET", WATCH, channel)
    follower = follow()
    assert follower.wait() == 0
    assert follower.pick().age_usec >= 20000000
    channel.put({"type": "bookmark", "revision": 6, "freshness": freshness(10)})
    assert follower.wait(6) == 0
    assert follower.pick().age_usec < 15000000


def test_p2_nonsense_keeps_the_directory_and_asks_for_a_new_snapshot(daemon, follow):
    channels = [Channel(snapshot(5, endpoint("a")), b'{"type": "update", "revision": 6}\n'), Channel(snapshot(7, endpoint("b")))]
    daemon.on("GET", WATCH, lambda request: channels[min(len(daemon.asked("GET", WATCH)), 2) - 1])
    follower = follow()
    assert follower.wait(5) == 0
    assert follower.pick().id in (b"a", b"b")
    assert follower.wait(7) == 0
    assert daemon.asked("GET", WATCH)[1].query == {"watch": "true"}
    assert follower.pick().id == b"b"


def test_a_daemon_that_says_it_ends_is_asked_again(daemon, follow):
    channels = [Channel(snapshot(5, endpoint("a")), {"type": "end", "code": "shutting_down"}), Channel(snapshot(6, endpoint("b")))]
    daemon.on("GET", WATCH, lambda request: channels[min(len(daemon.asked("GET", WATCH)), 2) - 1])
    follower = follow()
    assert follower.wait(6) == 0
    assert daemon.asked("GET", WATCH)[1].query["revision"] == "5"


def test_p4_a_follower_acknowledges_what_it_has_applied(daemon, follow):
    channel = Channel(snapshot(5, endpoint("a"), endpoint("b")))
    daemon.on("GET", WATCH, channel)
    picked, followers = [], []
    daemon.on("PUT", ACK, lambda request: (picked.append({f.pick().id for f in followers for _ in range(4)}), (204, b""))[1])
    followers.append(follow())
    until(lambda: len(daemon.asked("PUT", ACK)) == 1)
    channel.put({"type": "bookmark", "revision": 5, "freshness": freshness()})
    channel.put(update(6, changed=[endpoint("a", admin_state="draining")]))
    until(lambda: len(picked) == 2)
    assert [request.body for request in daemon.asked("PUT", ACK)] == [{"service": "catalog", "revision": revision} for revision in (5, 6)]
    assert picked[1] == {b"b"}
    assert {request.headers["Usher-Consumer"] for request in daemon.requests} == {"shop"}


def test_acknowledgements_that_a_daemon_does_not_take_do_not_disturb(daemon, follow):
    channel = Channel(snapshot(5, endpoint("a")))
    daemon.on("GET", WATCH, channel)
    follower = follow()
    until(lambda: len(daemon.asked("PUT", ACK)) == 1)
    channel.put(update(6, changed=[endpoint("b")]))
    assert follower.wait(6) == 0
    assert len(daemon.asked("PUT", ACK)) == 1


def test_a_refusal_is_told_and_tried_again_later(daemon, follow):
    daemon.on("GET", WATCH, Problem(404, "unknown_service", "nobody declared catalog"))
    follower = follow()
    until(lambda: follower.error()[1] == "nobody declared catalog (unknown_service)")
    daemon.on("GET", WATCH, Channel(snapshot(5, endpoint("a"))))
    assert follower.wait() == 0


def test_a_daemon_that_falls_silent_does_not_count_as_connected(daemon, follow):
    daemon.on("GET", WATCH, Channel(snapshot(5, endpoint("a"), max_age_ms=300)))
    follower = follow()
    assert follower.wait() == 0
    assert follower.connected()
    until(lambda: not follower.connected(), 5)


def test_p1_the_age_is_true_even_when_this_process_slept_on_an_answer(library, daemon):
    """A child follows, is stopped while a bookmark of age 0 comes, and looks 1.5 s later."""
    channel = Channel(snapshot(5, endpoint("a"), max_age_ms=1000))
    daemon.on("GET", WATCH, channel)
    read, write = os.pipe()
    go_read, go_write = os.pipe()
    child = os.fork()
    if child == 0:
        follower = Follower(library, daemon.path)
        follower.wait()
        os.write(write, b".")
        os.read(go_read, 1)
        follower.wait(6)
        os.write(write, str(follower.pick().age_usec).encode())
        os._exit(0)
    os.read(read, 1)
    os.kill(child, 19)
    channel.put({"type": "bookmark", "revision": 6, "freshness": freshness(0, max_age_ms=1000)})
    time.sleep(1.5)
    os.write(go_write, b".")
    os.kill(child, 18)
    age_usec = int(os.read(read, 100))
    os.waitpid(child, 0)
    assert age_usec >= 1400000


def test_freeing_a_follower_does_not_wait_for_the_daemon(library, daemon):
    for state in ["streaming", "away"]:
        daemon.on("GET", WATCH, Channel(snapshot(5, endpoint("a"))))
        follower = Follower(library, daemon.path)
        assert follower.wait() == 0
        if state == "away":
            daemon.stop()
            until(lambda: not follower.connected())
        began = time.monotonic()
        follower.close()
        assert time.monotonic() - began < 10


def test_case_158_followers_that_lose_the_daemon_together_come_back_apart(library, daemon):
    daemon.on("GET", WATCH, Channel(snapshot(5, endpoint("a"))))
    followers = [Follower(library, daemon.path) for _ in range(20)]
    assert all(follower.wait() == 0 for follower in followers)
    daemon.stop()
    time.sleep(1.0)
    times = []
    daemon.on("GET", WATCH, lambda request: (times.append(time.monotonic()), Channel(snapshot(6, endpoint("a"))))[1])
    daemon.start()
    assert all(follower.wait(6) == 0 for follower in followers)
    for follower in followers:
        follower.close()
    assert max(times) - min(times) > 0.3
