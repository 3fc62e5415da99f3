import pathlib
import socket
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lib"))

from usher import Usherd  # noqa: E402


@pytest.fixture
def usherd(tmp_path):
    """Make usherds; each is stopped, and its end checked, when the test is over."""
    made = []

    def make(config=None, name="usher", **more):
        daemon = Usherd(tmp_path / name, config, **more)
        made.append(daemon)
        return daemon

    yield make
    failures = []
    for daemon in made:
        try:
            daemon.stop()
        except Exception as failure:
            failures.append(failure)
        finally:
            if daemon.process and daemon.process.poll() is None:
                daemon.kill()
            if daemon.notify:
                daemon.notify.close()
    if failures:
        raise failures[0]


@pytest.fixture
def open_port():
    """A port where somebody listens, as a restore wants to see."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """What usherd logged belongs to a failure's report."""
    outcome = yield
    report = outcome.get_result()
    if report.when == "call" and report.failed and "tmp_path" in item.fixturenames:
        for log in sorted(item.funcargs["tmp_path"].glob("*/usherd.log")):
            report.sections.append((str(log), log.read_text(errors="replace")[-20000:]))
