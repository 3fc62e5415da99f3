"""Real registries, the real usherd: what the end-to-end tests have, and a report of what each suite has seen.

A suite is test_NAME.py, and nothing else has to know of it. That of a registry says which server it runs (SERVER); each says which Debian packages
that needs on the machine, in a line that ./dev reads:

    # Needs from Debian: default-jre-headless

What takes long to get before its servers can run it names in BUILDS, as functions: these are called beside the suites that have
less of it, which come first.

Its tests say what they have seen to the fixture `report`. That is kept in build/interop/NAME.json and printed at the end, as
the rows that docs/registries.md has.
"""

import importlib.util
import json
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))

spec = importlib.util.spec_from_file_location("conftest_of_e2e", HERE.parent / "e2e" / "conftest.py")
e2e = importlib.util.module_from_spec(spec)
spec.loader.exec_module(e2e)
usherd, open_port = e2e.usherd, e2e.open_port
pytest_runtest_makereport = e2e.pytest_runtest_makereport

from report import Report  # noqa: E402
from servers import Builder  # noqa: E402
from usher import SOURCE  # noqa: E402

REPORTS, BUILDER = pytest.StashKey(), pytest.StashKey()


def pytest_configure(config):
    config.stash[REPORTS] = {}


def suite_of(path):
    return pathlib.Path(path).stem.removeprefix("test_")


@pytest.fixture
def report(request):
    """What the suite has seen: report.times(...), report.fact(...), and report.nothing_lost(...) around a fault."""
    return request.config.stash[REPORTS][suite_of(request.path)]


def builds_of(item):
    return getattr(item.module, "BUILDS", [])


def pytest_collection_modifyitems(config, items):
    items.sort(key=lambda item: len(builds_of(item)))
    for item in items:
        if hasattr(item.module, "SERVER"):
            config.stash[REPORTS].setdefault(suite_of(item.path), Report(suite_of(item.path), item.module.SERVER))


def pytest_runtestloop(session):
    wanted = list(dict.fromkeys(build for item in session.items for build in builds_of(item)))
    if wanted and not session.config.option.collectonly:
        session.config.stash[BUILDER] = Builder(wanted)


def pytest_unconfigure(config):
    if BUILDER in config.stash:
        config.stash[BUILDER].stop()


def pytest_terminal_summary(terminalreporter, config):
    reports = config.stash[REPORTS]
    for outcome, stats in terminalreporter.stats.items():
        for one in stats:
            suite = suite_of(getattr(one, "nodeid", "").split("::")[0])
            if suite in reports and outcome in ("passed", "failed", "error") and (one.when == "call" or outcome != "passed"):
                reports[suite].count(outcome)
    folder = SOURCE / "build" / "interop"
    folder.mkdir(parents=True, exist_ok=True)
    terminalreporter.write_sep("-", "registries, as in docs/registries.md")
    for name, one in reports.items():
        (folder / f"{name}.json").write_text(json.dumps(one.as_json(), indent=1) + "\n")
        terminalreporter.write_line(one.as_row())


def pytest_sessionfinish(session, exitstatus):
    """Who adds a registry says so in the documentation."""
    table = (SOURCE / "docs" / "registries.md").read_text()
    missing = [name for name in session.config.stash[REPORTS] if f"\n| [{name}](" not in table]
    if missing and exitstatus == 0:
        sys.stderr.write(f"\ndocs/registries.md has no row for {', '.join(missing)}: it is printed below\n")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
