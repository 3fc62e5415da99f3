"""usherctl against a scripted daemon: exit codes, tables, JSON and YAML, and waiting for drains."""

import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import threading
import time

import pytest
import yaml

import scripted_shop as shop
from scripted_daemon import Channel, Problem, ScriptedDaemon

BUILD = pathlib.Path(os.environ.get("USHER_BUILD", pathlib.Path(__file__).parents[2] / "build" / "dev")).resolve()
USHERCTL = BUILD / "api" / "usherctl" / "usherctl"
DRAIN = "d-20261130-025506-7f3a"


class Ctl:
    def __init__(self, folder, daemon, admin):
        self.folder = folder
        self.daemon = daemon
        self.admin = admin
        self.env = {
            "PATH": f"{USHERCTL.parent}:/usr/bin:/bin", "USHER_SOCKET": daemon.path, "USHER_ADMIN_SOCKET": admin.path, "LC_ALL": "C.UTF-8", "TZ": "UTC",
            "TERM": "xterm", "HOME": str(folder), **{name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")},
        }

    def __call__(self, *arguments, code=0, **env):
        done = subprocess.run([USHERCTL, *arguments], capture_output=True, text=True, timeout=60, env={**self.env, **env})
        assert done.returncode == code, f"{arguments}: {done.returncode} instead of {code}\n{done.stdout}\n{done.stderr}"
        return done

    def table(self, *arguments, **more):
        lines = self(*arguments, **more).stdout.splitlines()
        return [re.split(r"  +", line.strip()) for line in lines]

    def start(self, *arguments, **env):
        return subprocess.Popen([USHERCTL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**self.env, **env})


@pytest.fixture
def ctl(tmp_path):
    with ScriptedDaemon(tmp_path / "usher.sock") as daemon, ScriptedDaemon(tmp_path / "admin.sock") as admin:
        shop.script(daemon)
        shop.script(admin)
        yield Ctl(tmp_path, daemon, admin)


def said_so_far(pipe, wanted, seconds=60):
    """What comes until it is said."""
    text, end = "", time.monotonic() + seconds
    while wanted not in text:
        ready, _, _ = select.select([pipe], [], [], max(0, end - time.monotonic()))
        assert ready, f"only {text}"
        data = os.read(pipe.fileno(), 65536)
        assert data, f"it ended with {text}"
        text += data.decode()
    return text


def ended(process, code, seconds=60):
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == code, f"{process.returncode} instead of {code}\n{out}\n{err}"
    return out, err


# ---- the command line ----


def test_without_a_verb_it_is_a_usage_error(ctl):
    assert "no verb was given" in ctl(code=2).stderr


def test_help_names_every_verb_and_every_exit_code(ctl):
    text = ctl("help").stdout
    for verb in "get describe pick watch explain drain restore cancel budget top check reload status version completion".split():
        assert re.search(rf"^  {verb} ", text, re.M)
        assert ctl("help", verb).stdout == ctl(verb, "--help").stdout
    for code in "0 1 2 3 4 5 6 7 8 9 10 124 130".split():
        assert re.search(rf"\b{code} [a-z]", text)


def test_an_unknown_verb_option_or_kind_is_met_with_the_nearest(ctl):
    assert 'did you mean "drain"?' in ctl("drian", "catalog/a", code=2).stderr
    assert "did you mean --timeout?" in ctl("drain", "catalog/a", "--timeuot", "5s", code=2).stderr
    assert 'did you mean "endpoints"?' in ctl("get", "endpoint5", code=2).stderr


@pytest.mark.parametrize(
    "arguments, why",
    [
        (["get"], "get needs more"),
        (["pick"], "pick needs more"),
        (["pick", "a", "b"], 'does not take "b"'),
        (["pick", "catalog", "--wait"], "pick has no option --wait"),
        (["drain", "catalog"], "is not SERVICE/ENDPOINT"),
        (["drain", "/a"], "is not SERVICE/ENDPOINT"),
        (["drain", "catalog/"], "is not SERVICE/ENDPOINT"),
        (["drain", "catalog/a", "--timeout", "soon"], "is not a duration"),
        (["drain", "catalog/a", "--timeout"], "--timeout needs a value"),
        (["get", "services", "-o", "xml"], "is not table, wide, json or yaml"),
        (["budget", "catalog", "--rate", "-1"], "is not a whole number"),
        (["pick", "catalog", "--header", "X-Beta"], "--header X-Beta is not NAME:VALUE"),
        (["get", "services", "--chosen"], "--chosen is for endpoints"),
        (["-x", "status"], "there is no option -x"),
        (["completion", "tcsh"], "bash, zsh or fish"),
        (["help", "nothing"], "there is no verb"),
    ],
)
def test_p8_a_usage_error_says_what_is_wrong(ctl, arguments, why):
    assert why in ctl(*arguments, code=2).stderr


def test_options_may_stand_before_and_after_the_verb(ctl):
    assert ctl("-o", "json", "get", "services").stdout == ctl("get", "services", "-ojson").stdout == ctl("get", "--output=json", "services").stdout


def test_verbs_that_read_use_the_consumer_socket_and_verbs_that_change_the_admin_socket(ctl):
    ctl("status")
    ctl("reload")
    assert [r.path for r in ctl.daemon.requests] == ["/v1/status"]
    assert [r.path for r in ctl.admin.requests] == ["/v1/reload"]
    ctl("--socket", ctl.daemon.path, "reload")
    assert ctl.daemon.requests[-1].path == "/v1/reload"


def test_without_a_daemon_it_is_3_and_says_what_to_do(ctl):
    ctl.daemon.stop(leave_socket=True)
    assert ctl("get", "services", code=3).stderr == (
        f"usherctl: usherd does not answer on {ctl.daemon.path}: connection refused; is usherd running? systemctl status usherd\n"
    )
    assert "there is no such socket" in ctl("status", "--socket", "/nowhere/usher.sock", code=3).stderr


@pytest.mark.parametrize(
    "problem, code",
    [
        (Problem(400, "bad_request", "rate is not a number"), 2),
        (Problem(403, "forbidden", "this needs the admin socket"), 4),
        (Problem(404, "unknown_service", "nobody declared it"), 5),
        (Problem(409, "refused", "it would leave 0 ready, fewer than min_ready 1"), 9),
        (Problem(409, "conflict", "the drain is finished"), 1),
        (Problem(422, "invalid_config", "usher.yaml:3:1: unknown key"), 1),
        (Problem(429, "too_many", "100 drains run"), 1),
        (Problem(500, "internal", "out of memory"), 1),
        (Problem(503, "stale", "41 s old"), 1),
        (Problem(503, "source_failed", "files failed"), 1),
    ],
)
def test_each_problem_has_its_exit_code_and_its_words(ctl, problem, code):
    ctl.daemon.on("GET", "/v1/status", problem)
    done = ctl("status", code=code)
    assert done.stderr == f"usherctl: {problem.body['detail']} ({problem.body['code']})\n"
    assert done.stdout == ""


def test_an_answer_older_than_max_age_is_6(ctl):
    ctl.daemon.on("GET", "/v1/services/catalog/endpoints", Problem(503, "stale", "the directory of catalog is 41 s old"))
    ctl("get", "endpoints", "catalog", "--max-age", "5s", code=6)
    assert ctl.daemon.requests[-1].query == {"all": "true", "max_age": "5s"}
    assert "the directory of orders is 3m12s old" in ctl("get", "services", "--max-age", "5s", code=6).stderr
    ctl("get", "services", "catalog", "--max-age", "5s")


# ---- tables ----


def test_get_services(ctl):
    assert ctl.table("get", "services") == [
        ["SERVICE", "STATE", "AGE", "ENDPOINTS", "REVISION"],
        ["catalog", "live", "1s", "1/3", "118"],
        ["orders", "stale, holding 12 back", "3m12s", "1/3", "118"],
        ["search", "unknown", "-", "0/0", "118"],
    ]


def test_get_services_wide_adds_columns(ctl):
    assert ctl.table("get", "services", "-o", "wide")[0] == [
        "SERVICE", "STATE", "AGE", "ENDPOINTS", "REVISION", "MAX-AGE", "SOURCE", "DRAINING", "CONFLICTS", "DECLARED", "HEALTH",
    ]


def test_get_by_name_gives_those_and_tells_which_are_missing(ctl):
    assert [row[0] for row in ctl.table("get", "services", "orders", "catalog")] == ["SERVICE", "catalog", "orders"]
    done = ctl("get", "services", "catalog", "nope", code=5)
    assert "catalog" in done.stdout
    assert done.stderr == 'usherctl: there is no service "nope"\n'


def test_get_endpoints_tells_what_became_of_each(ctl):
    assert ctl.table("get", "endpoints", "catalog") == [
        ["ENDPOINT", "ADDRESS", "ZONE", "WEIGHT", "STATE"],
        ["catalog-a", "10.0.0.5:8080", "east", "2", "ready"],
        ["catalog-b", "[fd00::10]:8080", "west", "1", "left out by zone"],
        ["catalog-c", "10.0.0.7:8080", "east", "1", "draining"],
    ]
    assert "zone west is not east" in ctl("get", "endpoints", "catalog", "-o", "wide").stdout
    assert [row[0] for row in ctl.table("get", "endpoints", "catalog", "--chosen")] == ["ENDPOINT", "catalog-a"]
    assert [row[0] for row in ctl.table("get", "endpoints", "catalog/catalog-b")] == ["ENDPOINT", "catalog-b"]
    assert 'no endpoint "x" in catalog' in ctl("get", "endpoints", "catalog/x", code=5).stderr


def test_get_endpoints_of_all_services(ctl):
    done = ctl("get", "endpoints")
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        ["SERVICE", "ENDPOINT"], ["catalog", "catalog-a"], ["catalog", "catalog-b"], ["catalog", "catalog-c"], ["orders", "orders-a"],
    ]
    assert done.stderr == "There are no endpoints of search (unknown).\n"


def test_get_sources_consumers_plugins(ctl):
    assert ctl.table("get", "sources")[1] == ["files", "file", "live", "1s", "12m", "3", "5", "-"]
    assert ctl.table("get", "consumers")[1] == ["shop", "4711", "1000", "consumer", "2m5s", "catalog", "yes", "118", "117", "yes"]
    rows = ctl.table("get", "plugins")
    assert rows[1] == ["file", "1.0", "discovery,registration", "yes", "Endpoints from files"]
    assert rows[2] == ["old", "-", "-", "no", "built for plug-in ABI 2.0, this usherd offers 1.0"]


def test_get_drains(ctl):
    recent = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 65))
    ctl.daemon.on("GET", "/v1/drains", {"drains": [
        shop.record("running", [shop.step("propagation", "active")], requested_at=recent),
        shop.record("done", [shop.step("done", "proven")], id="d-old", endpoint="catalog-b", forced=True),
    ]})
    rows = ctl.table("get", "drains")
    assert rows[0] == ["ID", "ENDPOINT", "STATE", "STEP", "AGE", "REASON"]
    assert rows[1][:4] == [DRAIN, "catalog/catalog-a", "running", "propagation"]
    assert re.fullmatch(r"1m[5-9]s", rows[1][4])
    assert rows[2][2] == "done, forced"
    assert [row[0] for row in ctl.table("get", "drains", "catalog/catalog-b")] == ["ID", "d-old"]
    assert [row[0] for row in ctl.table("get", "drains", DRAIN)] == ["ID", DRAIN]
    assert len(ctl.table("get", "drains", "catalog")) == 3


def test_nothing_to_list_is_said_so(ctl):
    done = ctl("get", "drains")
    assert (done.stdout, done.stderr) == ("", "There are no drains.\n")


def test_json_is_what_the_daemon_said(ctl):
    assert json.loads(ctl("get", "services", "-o", "json").stdout) == {"revision": 118, "services": shop.SERVICES, "known": ["basket"]}
    assert json.loads(ctl("get", "services", "orders", "-o", "json").stdout)["services"] == [shop.SERVICES[1]]
    assert json.loads(ctl("get", "endpoints", "catalog", "-o", "json").stdout)["endpoints"] == shop.ALL
    assert len(json.loads(ctl("get", "endpoints", "-o", "json").stdout)["services"]) == 3
    assert json.loads(ctl("status", "-o", "json").stdout) == shop.STATUS


def test_yaml_says_the_same_as_json(ctl):
    for arguments in (["get", "services"], ["get", "plugins"], ["describe", "service", "catalog"], ["status"], ["budget", "catalog"], ["get", "consumers"]):
        assert yaml.safe_load(ctl(*arguments, "-o", "yaml").stdout) == json.loads(ctl(*arguments, "-o", "json").stdout)


def test_yaml_keeps_texts_texts(ctl):
    odd = {"a": "yes", "b": "1.0", "c": "null", "d": "", "e": " x", "f": "a: b", "g": "2026-11-30", "h": "0x1f", "i": "é\n\tz", "j": "-", "k": ["~", "<<", "="], "l": "a #b"}
    ctl.daemon.on("GET", "/v1/status", odd)
    assert yaml.safe_load(ctl("status", "-o", "yaml").stdout) == odd


def test_a_wide_table_is_not_cut_off_a_terminal(ctl):
    ctl.daemon.on("GET", "/v1/plugins", {"plugins": [{**shop.PLUGINS[0], "summary": "x" * 500}]})
    assert "x" * 500 in ctl("get", "plugins").stdout


def test_what_others_wrote_cannot_drive_the_terminal(ctl):
    ctl.daemon.on("GET", "/v1/drains", {"drains": [shop.record(reason="\x1b[2Jhello\n\x9b31m")]})
    assert "\x1b" not in ctl("get", "drains").stdout
    assert "\x1b" not in ctl("describe", "drain", "catalog/catalog-a").stdout


# ---- describe, pick, explain, budget, status ----


def test_describe_service(ctl):
    text = ctl("describe", "service", "catalog").stdout
    assert re.search(r"^State: +live$", text, re.M)
    assert re.search(r"^  cluster +catalog-svc +http +live +1s +3 +4711 +12 of 20", text, re.M)
    assert re.search(r"^  files .* failed, from disk +1m1s .*cannot read /etc/usher/endpoints.d$", text, re.M)
    assert "the removal of 12 of 20, since 4s, for another 26s" in text
    assert re.search(r"^  Max age: +30s$", text, re.M)
    assert re.search(r"^    Hold: +30s$", text, re.M)
    assert "  1. ready: when empty, pass; the same for every request\n  2. hint: when empty, fail; for each request\n" in text
    ctl("describe", "service", "nope", code=5)


def test_describe_endpoint(ctl):
    text = ctl("describe", "endpoint", "catalog/catalog-b").stdout
    assert re.search(r"^State: +left out by zone$", text, re.M)
    assert re.search(r"^Left out: +zone: zone west is not east$", text, re.M)
    assert re.search(r"^  Serving: +yes$", text, re.M)
    assert re.search(r"^  API_VERSION: +1.0$", text, re.M)


def test_describe_plugin_prints_the_table_of_options(ctl):
    text = ctl("describe", "plugin", "file").stdout
    assert re.search(r"^  path +path +yes +- +The file or folder to read\.$", text, re.M)
    assert re.search(r"^  format +auto\|usher\|kubernetes +no +auto +How it is written\.$", text, re.M)
    assert "built for plug-in ABI 2.0" in ctl("describe", "plugin", "old").stdout
    ctl("describe", "plugin", "none", code=5)


def test_describe_source_and_drain(ctl):
    assert re.search(r"^Wanted: +3 services \(3 live\)$", ctl("describe", "source", "files").stdout, re.M)
    done = shop.record("done", [shop.step("deregister", "proven", shop.ECHO), shop.step("propagation", "assumed", shop.READ, shop.CACHES)])
    ctl.daemon.on("GET", f"/v1/drains/{DRAIN}", done)
    text = ctl("describe", "drain", DRAIN).stdout
    assert re.search(r"^ +2\.5s  deregister +proven +files no longer lists catalog-a$", text, re.M)
    assert re.search(r"^ +proven +3 of 3 consumers have read revision 118$", text, re.M)
    assert re.search(r"^ +assumed +external caches had their 35s$", text, re.M)


def test_only_a_step_that_is_assumed_rests_on_what_is_assumed(ctl):
    quiet = [("reports", False, "no consumer reports its requests"), ("tcp", True, "0 open connections")]
    hook = [("hook", False, "attempt 1 starts"), ("hook", True, "exit status 0")]
    late = [("tcp", False, "2 open connections"), ("budget", False, "its time is spent, going on")]
    steps = [shop.step("in_flight", "proven", *quiet), shop.step("close", "proven", *hook), shop.step("propagation", "forced", *late)]
    ctl.daemon.on("GET", f"/v1/drains/{DRAIN}", shop.record("done", steps))
    text = ctl("describe", "drain", DRAIN).stdout
    assert [line.split(None, 1)[0] for line in text.splitlines() if line.startswith(" " * 24)] == ["note", "proven", "note", "proven", "missing", "note"]


def test_pick(ctl):
    assert ctl("pick", "catalog").stdout == "catalog-a  10.0.0.5:8080\n"
    ctl("pick", "catalog", "--hint", "blue", "--version-label", "1.0", "--sticky", "a", "--key", "k", "--exclude", "x", "--exclude", "y")
    assert ctl.daemon.requests[-1].body == {"hint": "blue", "version": "1.0", "sticky": "a", "key": "k", "exclude": ["x", "y"]}
    ctl("pick", "catalog", "--header", "X-API-Version: 1.0", "--header", "X-Beta:")
    assert ctl.daemon.requests[-1].body == {"headers": {"X-API-Version": "1.0", "X-Beta": ""}}
    assert ctl.table("pick", "catalog", "-o", "wide")[1] == ["catalog-a", "10.0.0.5:8080", "east", "no", "live", "1s", "118"]
    ctl("pick", "nope", code=5)


def test_a_stale_pick_is_given_with_a_warning(ctl):
    ctl.daemon.on("POST", "/v1/services/catalog/pick", {"service": "catalog", "revision": 118, "freshness": shop.freshness(41000, "stale"), "endpoint": shop.ALL[0]})
    done = ctl("pick", "catalog")
    assert done.stdout == "catalog-a  10.0.0.5:8080\n"
    assert "41s old, older than its max_age of 30s" in done.stderr


def test_explain_tells_why_each_endpoint_left(ctl):
    text = ctl("explain", "catalog", "--hint", "a b", "--exclude", "x", "--exclude", "y").stdout
    assert ctl.daemon.requests[-1].query == {"hint": "a b", "exclude": ["x", "y"]}
    ctl("explain", "catalog", "--header", "X-API-Version: 1.0", "--header", "X-Beta:yes")
    assert ctl.daemon.requests[-1].query == {"header": ["X-API-Version: 1.0", "X-Beta:yes"]}
    assert re.search(r"^  zone +2 +1 +pass +yes +catalog-b +zone west is not east$", text, re.M)
    assert re.search(r"^Choice: +catalog-a$", text, re.M)
    assert re.search(r"^Share: +100.0%$", text, re.M)


def test_budget(ctl):
    text = ctl("budget", "catalog", "--rate", "200").stdout
    assert ctl.daemon.requests[-1].query == {"rate": "200"}
    assert re.search(r"^registry +5s +proven$", text, re.M)
    assert re.search(r"^Worst case: +40s$", text, re.M)
    assert re.search(r"^Stale picks: +up to 8000, at 200 requests per second$", text, re.M)


def test_status_version_reload(ctl):
    text = ctl("status").stdout
    assert re.search(r"^Services: +1 live of 3$", text, re.M)
    assert re.search(r"^Missing: +search$", text, re.M)
    assert re.search(r"^Up: +3m12s$", text, re.M)
    assert re.fullmatch(r"usherctl \S+\nusherd 0\.1\.0\n", ctl("version").stdout)
    assert re.fullmatch(r"usherctl \S+\n", ctl("--version").stdout)
    assert "revision 119" in ctl("reload").stdout
    ctl.admin.on("POST", "/v1/reload", Problem(422, "invalid_config", "/etc/usher/usher.yaml:3:1: unknown key \"servces\""))
    assert "/etc/usher/usher.yaml:3:1" in ctl("reload", code=1).stderr


def test_top_off_a_terminal_is_one_frame(ctl):
    ctl.daemon.on("GET", "/v1/drains", {"drains": [shop.record(), shop.record("done", id="d-old")]})
    text = ctl("top").stdout
    assert "usherd 0.1.0 on node-7, ready, up 3m12s, revision 118" in text
    assert "catalog" in text and DRAIN in text and "d-old" not in text


def test_check_runs_usherd(ctl):
    folder = ctl.folder / "bin"
    folder.mkdir()
    for code, expected in ((0, 0), (1, 1), (2, 2), (78, 1)):
        (folder / "usherd").write_text(f'#!/bin/sh\necho "$@" >&2\nexit {code}\n')
        (folder / "usherd").chmod(0o755)
        assert ctl("check", "usher.yaml", code=expected, PATH=f"{folder}:/usr/bin:/bin").stderr == "--check usher.yaml\n"


# ---- health ----


DOWN = {"state": "down", "since_ms": 12034, "age_ms": 512, "took_ms": 1.204, "reason": "status", "error": "HTTP 503, expected 200",
        "error_age_ms": 512, "good": 0, "bad": 12}
EJECTED = {"state": "ejected", "since_ms": 3000, "age_ms": 200, "took_ms": 0.4, "reason": "ok", "error": None, "error_age_ms": None, "good": 40,
           "bad": 0, "flapping": True, "ejected_ms": 27000, "ejections": 2}


def observed(ctl):
    endpoints = [{**shop.ALL[0], "health": EJECTED, "ramp": 0.25}, {**shop.ALL[1], "health": DOWN},
                 {**shop.ALL[2], "health": {"state": "unknown", "since_ms": 5, "age_ms": None, "took_ms": None, "reason": None, "error": None,
                                            "error_age_ms": None, "good": 0, "bad": 0}}]
    ctl.daemon.on("GET", "/v1/services/catalog/endpoints",
                  {"service": "catalog", "revision": 118, "panic": True, "freshness": shop.freshness(), "endpoints": endpoints})


def test_get_endpoints_wide_tells_what_was_observed(ctl):
    observed(ctl)
    rows = ctl.table("get", "endpoints", "catalog", "-o", "wide")
    first = rows[0].index("HEALTH")
    assert rows[0][first:] == ["HEALTH", "CHECKED", "LAST ERROR", "WHY"]
    assert [row[first:first + 3] for row in rows[1:]] == [
        ["ejected for another 27s, flapping", "1s", "-"], ["down for 13s", "1s", "HTTP 503, expected 200, 1s ago"], ["unknown for 1s", "-", "-"]]
    assert rows[1][3] == "2 at 25%"
    assert "HEALTH" not in ctl("get", "endpoints", "catalog").stdout


def test_describe_endpoint_tells_its_health_with_the_last_error_in_words(ctl):
    observed(ctl)
    text = ctl("describe", "endpoint", "catalog/catalog-b").stdout
    assert re.search(r"^Health: +down for 13s$", text, re.M)
    assert re.search(r"^  Last check: +1s ago, took 1.2 ms: status$", text, re.M)
    assert re.search(r"^  In a row: +12 bad$", text, re.M)
    assert re.search(r"^  Last error: +HTTP 503, expected 200, 1s ago$", text, re.M)
    text = ctl("describe", "endpoint", "catalog/catalog-a").stdout
    assert re.search(r"^Health: +ejected for another 27s, flapping$", text, re.M)
    assert re.search(r"^  Ejections in a row: +2$", text, re.M)
    assert re.search(r"^  Last error: +none$", text, re.M)
    assert re.search(r"^Weight: +2, of which it is given 25% for now$", text, re.M)
    text = ctl("describe", "endpoint", "catalog/catalog-c").stdout
    assert re.search(r"^  Last check: +none yet$", text, re.M)


def test_describe_service_tells_its_health_and_what_its_stages_ran_into(ctl):
    rules = [{"on_empty": "next", "when": {"header.X-Beta": "present", "key": "k"}}, {"on_empty": "fail", "when": None}]
    emptied = {"pass": 0, "fail": 3, "next": 12}
    chain = [{"stage": "health", "shared": True, "on_empty": "fail", "rules": [{"on_empty": "fail", "when": None}],
              "emptied": {"pass": 0, "fail": 0, "next": 0}, "faults": 0},
             {"stage": "version", "shared": False, "on_empty": "fail", "rules": rules, "emptied": emptied, "faults": 2}]
    health = {"unknown": 0, "up": 3, "degraded": 0, "down": 1, "ejected": 0}
    ctl.daemon.on("GET", "/v1/services/catalog", {**shop.DESCRIBED, "chain": chain, "health": health, "panic": True})
    text = ctl("describe", "service", "catalog").stdout
    assert re.search(r"^Health: +3 up, 1 down$", text, re.M)
    assert re.search(r"^Panic: +too few endpoints are well", text, re.M)
    assert ("  1. health: when empty, fail; the same for every request\n"
            "  2. version: for each request; left nobody: fail 3 times, next 12 times; answered nonsense 2 times\n"
            "       rule 1: when header.X-Beta is present and key is k; when empty, next\n"
            "       rule 2: always; when empty, fail\n") in text
    ctl.daemon.on("GET", "/v1/services", {"revision": 118, "services": [shop.summary("catalog", health=health, panic=True)], "known": []})
    assert ctl.table("get", "services", "-o", "wide")[1][1] == "live, in panic"
    assert ctl.table("get", "services", "-o", "wide")[1][-1] == "3 up, 1 down"


def test_explain_tells_what_each_stage_did(ctl):
    stages = [
        {"stage": "admin", "shared": True, "in": 4, "out": 4, "on_empty": None, "rules": 0, "rule": None, "told": None, "left": []},
        {"stage": "health", "shared": True, "in": 4, "out": 3, "on_empty": None, "rules": 1, "rule": 0, "told": None, "panic": True,
         "left": [{"id": "catalog-b", "reason": "down: its checks fail", "health": DOWN}]},
        {"stage": "zone", "shared": False, "in": 3, "out": 2, "on_empty": None, "rules": 1, "rule": 0, "told": "zone east bears 60%",
         "left": [{"id": "catalog-c", "reason": "zone west is not east"}]},
        {"stage": "version", "shared": False, "in": 2, "out": 2, "on_empty": "pass", "rules": 3, "rule": 1, "told": None, "left": []},
        {"stage": "canary", "shared": False, "in": 2, "out": 2, "on_empty": None, "rules": 2, "rule": None, "told": None, "left": []},
        {"stage": "hint", "shared": False, "in": 2, "out": 0, "on_empty": "fail", "rules": 1, "rule": 0, "told": None, "fault": True, "left": []},
    ]
    answer = {**shop.EXPLAIN, "stages": stages, "choice": None, "share": 0, "code": "filtered", "stage": "hint", "panic": True}
    ctl.daemon.on("GET", "/v1/services/catalog/explain", answer)
    text = ctl("explain", "catalog").stdout
    assert re.search(r"^  admin +4 +4 +- +yes +- +-$", text, re.M)
    assert re.search(r"^  health +4 +3 +panic +yes +catalog-b +down: its checks fail: HTTP 503, expected 200, 1s ago$", text, re.M)
    assert re.search(r"^  zone +3 +2 +- +no +zone east bears 60%\n +catalog-c +zone west is not east$", text, re.M)
    assert re.search(r"^  version \(rule 2 of 3\) +2 +2 +pass +no", text, re.M)
    assert re.search(r"^  canary \(no rule applies\) +2 +2 +- +no", text, re.M)
    assert re.search(r"^  hint +2 +0 +fault +no", text, re.M)
    assert re.search(r"^Panic: +too few endpoints are well", text, re.M)
    assert re.search(r"^Why none: +filtered by hint$", text, re.M)
    assert json.loads(ctl("explain", "catalog", "-o", "json").stdout) == answer


def test_a_pick_in_panic_is_given_with_a_warning(ctl):
    ctl.daemon.on("POST", "/v1/services/catalog/pick",
                  {"service": "catalog", "revision": 118, "panic": True, "freshness": shop.freshness(), "endpoint": shop.ALL[0]})
    done = ctl("pick", "catalog")
    assert done.stdout == "catalog-a  10.0.0.5:8080\n"
    assert "too few endpoints of catalog are well" in done.stderr


ESTIMATE = {"endpoints": 100, "probes_per_s": 20, "connections_per_s": 20, "bytes_per_s": 6400.5}
MEASURED = {"endpoints": 3, "probes_per_s": 0.6, "connections_per_s": 0.6, "bytes_per_s": 180, "probes": 41, "connections": 41, "bytes": 12300}
CHECKS = {"kind": "http", "interval_ms": 5000, "estimate": ESTIMATE, "measured": MEASURED}
PROBER = {"max_rate_per_s": None, "threads": 1, "targets": 3, "under_way": 0, "wanted_per_s": 0.6, "rate_per_s": 0.6, "stretch": 1, "probes": 41,
          "discarded": 0, "local": 0, "connections": 41, "bytes_sent": 1, "bytes_received": 1, "standstills": 0,
          "late_ms": {"p50": 0.1, "p99": 1.25, "max": 3}}


def test_budget_tells_what_checks_cost_before_and_while_they_run(ctl):
    ctl.daemon.on("GET", "/v1/services/catalog/budget", {**shop.BUDGET, "checks": {**CHECKS, "measured": None}})
    row = [re.split(r"  +", line) for line in ctl("budget", "catalog").stdout.splitlines()][-1]
    assert row == ["catalog", "http", "5s", "100", "20", "20", "6400", "estimated"]
    ctl.daemon.on("GET", "/v1/services/catalog/budget", {**shop.BUDGET, "checks": CHECKS})
    rows = [re.split(r"  +", line) for line in ctl("budget", "catalog", "--endpoints", "100").stdout.splitlines()][-2:]
    assert ctl.daemon.requests[-1].query == {"endpoints": "100"}
    assert rows == [["catalog", "http", "5s", "3", "0.60", "0.60", "180", "measured"],
                    ["catalog", "http", "5s", "100", "20", "20", "6400", "estimated"]]


def test_budget_without_a_service_tells_what_all_checks_cost(ctl):
    other = {"service": "orders", "kind": "tcp", "interval_ms": 1000, "estimate": ESTIMATE, "measured": None}
    total = {"estimate": ESTIMATE, "measured": MEASURED}
    ctl.daemon.on("GET", "/v1/budget", {"services": [{"service": "catalog", **CHECKS}, other], "total": total, "prober": PROBER})
    text = ctl("budget").stdout
    assert re.search(r"^catalog +http +5s +3 +0.60 +0.60 +180 +measured$", text, re.M)
    assert re.search(r"^orders +tcp +1s +100 +20 +20 +6400 +estimated$", text, re.M)
    assert re.search(r"^\(all\) +- +- +3 ", text, re.M)
    assert re.search(r"^Cap: +none$", text, re.M)
    assert re.search(r"^Begun late by: +0.10 ms at half of them, 1.25 ms at 99%, 3.00 ms at most$", text, re.M)
    capped = {**PROBER, "max_rate_per_s": 500, "wanted_per_s": 1250, "rate_per_s": 500, "stretch": 2.5, "discarded": 2, "local": 3}
    ctl.daemon.on("GET", "/v1/budget", {"services": [other], "total": total, "prober": capped})
    text = ctl("budget").stdout
    assert re.search(r"^Cap: +500 per second, and the intervals ask for 1250: each is 2.5 times as long$", text, re.M)
    assert re.search(r"^Discarded: +2 results", text, re.M) and re.search(r"^Own faults: +3 probes", text, re.M)
    ctl.daemon.on("GET", "/v1/budget", {"services": [], "total": total, "prober": {**PROBER, "targets": 0}})
    done = ctl("budget")
    assert (done.stdout, done.stderr) == ("", "No service has checks.\n")
    assert "--rate is for one service" in ctl("budget", "--rate", "5", code=2).stderr


def test_status_tells_how_much_is_checked(ctl):
    ctl.daemon.on("GET", "/v1/status", {**shop.STATUS, "prober": {**PROBER, "stretch": 2}})
    assert re.search(r"^Checks: +3 endpoints, 0.6 probes per second, intervals stretched by prober.max_rate", ctl("status").stdout, re.M)


def test_a_watch_tells_health_and_panic(ctl):
    channel = Channel({"type": "snapshot", "service": "catalog", "revision": 5, "panic": True, "freshness": shop.freshness(),
                       "endpoints": [{**shop.endpoint("a"), "health": {"state": "down"}}]}, {"type": "end", "code": "removed"}, None)
    ctl.daemon.on("GET", "/v1/services/catalog/endpoints", channel)
    text = ctl("watch", "catalog", code=5).stdout
    assert re.search(r"in panic  1 endpoints\n +\+ a  10.0.0.5:8080  weight 1  ready, down$", text, re.M)


def test_a_watch_tells_in_words_why_there_is_nobody(ctl):
    def update(**more):
        return {"type": "update", "revision": 6, "freshness": shop.freshness(), "changed": [], "removed": [], **more}

    channel = Channel({"type": "snapshot", "service": "catalog", "revision": 5, "code": "empty", "freshness": shop.freshness(), "endpoints": []},
                      update(code="all_unhealthy"), update(code="filtered", stage="drain"), update(code="filtered", stage="zone"),
                      update(code="source_unknown"), update(code="source_failed"), update(code="unheard_of"), update(),
                      {"type": "end", "code": "removed"}, None)
    ctl.daemon.on("GET", "/v1/services/catalog/endpoints", channel)
    lines = ctl("watch", "catalog", code=5).stdout.splitlines()
    none = "  no endpoint is chosen: "
    assert lines[0].endswith(f"  0 endpoints{none}there are none, and every source is sure of that")
    assert [line.partition(none)[2] for line in lines[1:]] == [
        "all are unhealthy", "all are drained or in maintenance", "the stage zone leaves none",
        "there are none, but a source has not answered yet", "there are none, but a source that has never answered fails",
        "unheard_of", "", ""]
    assert lines[-1].endswith("  removed")


# ---- drains ----


def started(ctl, channel, first=None, status=201, path="/v1/drains"):
    first = first or shop.record("running", [shop.step("deregister", "active")])
    ctl.admin.on("POST", path, (status, first))
    ctl.admin.on("GET", f"/v1/drains/{DRAIN}", channel)


def test_drain_starts_and_says_how_to_follow(ctl):
    started(ctl, Channel())
    done = ctl("drain", "catalog/catalog-a", "--timeout", "90s", "--reason", "rollout 42", "--order", "refuse_first")
    assert ctl.admin.requests[-1].body == {"service": "catalog", "endpoint": "catalog-a", "timeout": "90s", "reason": "rollout 42", "order": "refuse_first"}
    assert done.stdout == f"drain {DRAIN} of catalog/catalog-a has started (serve_stale)\nFollow it: usherctl drain catalog/catalog-a --wait\n"
    started(ctl, Channel(), status=200)
    assert "runs already" in ctl("drain", "catalog/catalog-a").stdout
    done = ctl("drain", "catalog/catalog-a", "-o", "json")
    assert json.loads(done.stdout)["id"] == DRAIN


def test_a_drain_that_a_guard_refuses_is_9(ctl):
    ctl.admin.on("POST", "/v1/drains", Problem(409, "refused", "it would leave 0 ready endpoints, fewer than min_ready 1"))
    assert "min_ready 1" in ctl("drain", "catalog/catalog-a", "--wait", code=9).stderr


def test_drain_wait_tells_each_step_with_its_evidence(ctl):
    channel = Channel()
    started(ctl, channel)
    process = ctl.start("drain", "catalog/catalog-a", "--wait")
    assert channel.opened.acquire(timeout=60)
    deregistered = shop.step("deregister", "proven", shop.ECHO)
    channel.put(shop.line(shop.record("running", [deregistered, shop.step("propagation", "active", ("consumers", False, "2 of 3 consumers have read revision 118"))])))
    channel.put(shop.line(shop.record("running", [deregistered, shop.step("propagation", "assumed", shop.READ, shop.CACHES), shop.step("in_flight", "active")])))
    channel.put(shop.line(shop.record("done", [deregistered, shop.step("propagation", "assumed", shop.READ, shop.CACHES), shop.step("in_flight", "proven", ("tcp", True, "0 connections for 1s"))])))
    channel.end()
    out, err = ended(process, 0)
    assert err == ""
    assert [line.split(None, 1) for line in out.splitlines()][1:] == [
        ["1.0s", "deregister    waiting"],
        ["2.5s", "deregister    proven     files no longer lists catalog-a"],
        ["1.0s", "propagation   waiting"],
        ["2.0s", "not yet    2 of 3 consumers have read revision 118"],
        ["2.5s", "propagation   assumed"],
        ["proven", "3 of 3 consumers have read revision 118"],
        ["assumed", "external caches had their 35s"],
        ["1.0s", "in_flight     waiting"],
        ["2.5s", "in_flight     proven     0 connections for 1s"],
        ["12.4s", "done: 2 proven, 1 assumed"],
    ]


@pytest.mark.parametrize(
    "state, more, code, why",
    [
        ("done", {}, 0, ""),
        ("done", {"forced": True}, 7, "done, but forced"),
        ("done", {"partial": True, "failure": "files cannot be written"}, 8, "done in part: files cannot be written"),
        ("done", {"partial": True, "forced": True}, 8, "done in part"),
        ("failed", {"failure": "the close hook failed; usherctl restore catalog/catalog-a"}, 1, "has ended as failed, not as done: the close hook failed"),
        ("cancelled", {}, 1, "has ended as cancelled"),
        ("held", {"failure": "2 of 3 consumers have read"}, 1, "is held in step propagation: 2 of 3 consumers have read; go on: usherctl drain"),
    ],
)
def test_the_end_of_a_drain_is_the_exit_code(ctl, state, more, code, why):
    started(ctl, Channel(shop.line(shop.record(state, [shop.step("propagation", "proven")], **more)), None))
    assert why in ctl("drain", "catalog/catalog-a", "--wait", code=code).stderr


def test_a_drain_that_is_finished_at_once_is_not_waited_for(ctl):
    started(ctl, Channel(), shop.record("done"))
    ctl("drain", "catalog/catalog-a", "--wait")


def test_data_and_progress_do_not_mix(ctl):
    started(ctl, Channel(shop.line(shop.record("done", [shop.step("deregister", "proven", shop.ECHO)])), None))
    done = ctl("drain", "catalog/catalog-a", "--wait", "-o", "json")
    assert json.loads(done.stdout)["state"] == "done"
    assert "files no longer lists catalog-a" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_waiting_and_not_the_drain(ctl, number):
    channel = Channel()
    started(ctl, channel)
    process = ctl.start("drain", "catalog/catalog-a", "--wait")
    assert channel.opened.acquire(timeout=60)
    process.send_signal(number)
    _, err = ended(process, 130)
    assert f"interrupted; the drain of catalog/catalog-a goes on as {DRAIN}, in step deregister" in err
    assert "Follow it: usherctl drain catalog/catalog-a --wait" in err
    assert f"cancel {DRAIN}" in err
    assert not ctl.admin.asked("POST", f"/v1/drains/{DRAIN}/cancel")


def test_ctrl_c_before_usherd_has_answered_says_that_nobody_knows(ctl):
    asked = Channel()
    ctl.admin.on("POST", "/v1/drains", asked)
    process = ctl.start("drain", "catalog/catalog-a", "--wait")
    assert asked.opened.acquire(timeout=60)
    process.send_signal(signal.SIGINT)
    assert "it may have started: usherctl get drains catalog" in ended(process, 130)[1]


def test_giving_up_is_124_and_the_drain_goes_on(ctl):
    started(ctl, Channel())
    began = time.monotonic()
    err = ctl("drain", "catalog/catalog-a", "--wait-timeout", "300ms", code=124).stderr
    assert time.monotonic() - began > 0.25
    assert f"gave up waiting after 300ms; the drain of catalog/catalog-a goes on as {DRAIN}" in err
    assert "timeout" not in ctl.admin.asked("POST", "/v1/drains")[0].body


def test_get_drains_wait_waits_until_none_runs(ctl):
    channel = Channel()
    first = shop.record("running", [shop.step("deregister", "active")])
    ctl.daemon.on("GET", "/v1/drains", {"drains": [first, shop.record("held")]})
    ctl.daemon.on("GET", f"/v1/drains/{DRAIN}", channel)
    process = ctl.start("get", "drains", "--wait")
    assert channel.opened.acquire(timeout=60)
    ctl.daemon.on("GET", "/v1/drains", {"drains": [shop.record("done")]})
    channel.put(shop.line(shop.record("done", [shop.step("deregister", "proven", shop.ECHO)])))
    channel.end()
    out, err = ended(process, 0)
    assert "files no longer lists catalog-a" in out
    assert err == ""


def test_get_drains_wait_follows_one_after_the_other_and_tells_the_first_failure(ctl):
    other = dict(shop.record("running"), id="d-2", endpoint="catalog-b")
    channels = {DRAIN: Channel(), "d-2": Channel()}
    for name, channel in channels.items():
        ctl.daemon.on("GET", f"/v1/drains/{name}", channel)
    ctl.daemon.on("GET", "/v1/drains", {"drains": [shop.record("running"), other]})
    process = ctl.start("get", "drains", "--wait")
    assert channels[DRAIN].opened.acquire(timeout=60)
    ctl.daemon.on("GET", "/v1/drains", {"drains": [other]})
    channels[DRAIN].put(shop.line(shop.record("failed", failure="the close hook failed")))
    assert channels["d-2"].opened.acquire(timeout=60)
    ctl.daemon.on("GET", "/v1/drains", {"drains": []})
    channels["d-2"].put(shop.line(dict(other, state="done")))
    assert "the close hook failed" in ended(process, 1)[1]


def test_get_drains_wait_gives_up_and_is_for_drains(ctl):
    ctl.daemon.on("GET", "/v1/drains", {"drains": [shop.record("running")]})
    ctl.daemon.on("GET", f"/v1/drains/{DRAIN}", Channel())
    assert "gave up waiting" in ctl("get", "drains", "--wait-timeout", "300ms", code=124).stderr
    assert "--wait is for drains" in ctl("get", "services", "--wait", code=2).stderr
    ctl.daemon.on("GET", "/v1/drains", {"drains": []})
    ctl("get", "drains", "--wait")


def test_p5_the_waiting_goes_on_through_a_restart_of_usherd(ctl):
    channel = Channel()
    started(ctl, channel)
    process = ctl.start("drain", "catalog/catalog-a", "--wait")
    assert channel.opened.acquire(timeout=60)
    ctl.admin.stop()
    before = said_so_far(process.stdout, "usherd went away")
    ctl.admin.on("GET", f"/v1/drains/{DRAIN}", Channel(shop.line(shop.record("done", [shop.step("deregister", "proven", shop.ECHO)])), None))
    ctl.admin.start()
    out = before + ended(process, 0)[0]
    assert out.count("usherd went away") == 1
    assert out.count("usherd is back") == 1
    assert "files no longer lists catalog-a" in out
    assert len(ctl.admin.asked("POST", "/v1/drains")) == 1


def test_ctrl_c_while_usherd_is_away(ctl):
    channel = Channel()
    started(ctl, channel)
    process = ctl.start("drain", "catalog/catalog-a", "--wait")
    assert channel.opened.acquire(timeout=60)
    ctl.admin.stop()
    said_so_far(process.stdout, "usherd went away")
    process.send_signal(signal.SIGINT)
    ended(process, 130)


def test_a_drain_that_the_daemon_no_longer_knows_is_5(ctl):
    started(ctl, Problem(404, "unknown_drain", f"there is no drain {DRAIN}"))
    ctl("drain", "catalog/catalog-a", "--wait", code=5)


def test_restore(ctl):
    first = shop.record("running", [shop.step("probe", "active")], kind="restore")
    started(ctl, Channel(shop.line(shop.record("done", [shop.step("probe", "proven", ("tcp", True, "answers"))], kind="restore")), None), first, path="/v1/restores")
    out = ctl("restore", "catalog/catalog-a", "--wait", "--timeout", "30s").stdout
    assert out.startswith(f"restore {DRAIN} of catalog/catalog-a has started\n")
    assert ctl.admin.asked("POST", "/v1/restores")[0].body == {"service": "catalog", "endpoint": "catalog-a", "timeout": "30s"}


def test_cancel_by_id_and_by_endpoint(ctl):
    running = shop.record("running", [shop.step("propagation", "active")])
    ctl.daemon.on("GET", f"/v1/drains/{DRAIN}", running)
    ctl.daemon.on("GET", "/v1/drains", {"drains": [shop.record("done", id="d-done"), running]})
    ctl.admin.on("POST", f"/v1/drains/{DRAIN}/cancel", (202, shop.record("cancelling")))
    assert "is being cancelled" in ctl("cancel", DRAIN).stdout
    assert "is being cancelled" in ctl("cancel", "catalog/catalog-a").stdout
    assert ctl.daemon.requests[-1].query == {"service": "catalog", "endpoint": "catalog-a"}
    assert len(ctl.admin.asked("POST", f"/v1/drains/{DRAIN}/cancel")) == 2

    ctl.admin.on("GET", f"/v1/drains/{DRAIN}", Channel(shop.line(shop.record("cancelled")), None))
    ctl("cancel", DRAIN, "--wait")
    ctl.admin.on("GET", f"/v1/drains/{DRAIN}", Channel(shop.line(shop.record("done")), None))
    assert "has ended as done, not as cancelled" in ctl("cancel", DRAIN, "--wait", code=1).stderr
    ctl.daemon.on("GET", "/v1/drains", {"drains": [shop.record("done")]})
    assert "there is no running drain of catalog/catalog-a" in ctl("cancel", "catalog/catalog-a", code=5).stderr


# ---- watch ----


def read_lines(process, count, seconds=60):
    text = b""
    end = time.monotonic() + seconds
    while text.count(b"\n") < count:
        ready, _, _ = select.select([process.stdout], [], [], max(0, end - time.monotonic()))
        assert ready, f"only {text}"
        text += os.read(process.stdout.fileno(), 65536)
    return text.decode().splitlines()


def test_watch_tells_every_change(ctl):
    channel = Channel({"type": "snapshot", "service": "catalog", "revision": 118, "freshness": shop.freshness(), "endpoints": [shop.endpoint("catalog-a")]})
    ctl.daemon.on("GET", "/v1/services/catalog/endpoints", channel)
    process = ctl.start("watch", "catalog")
    channel.put({"type": "update", "revision": 119, "freshness": shop.freshness(), "changed": [shop.endpoint("catalog-a", admin_state="draining")], "removed": ["catalog-b"]})
    lines = read_lines(process, 5)
    process.kill()
    process.communicate()
    assert re.fullmatch(r"\d\d:\d\d:\d\d  snapshot  revision 118  live, 1s old  1 endpoints", lines[0])
    assert lines[1] == "          + catalog-a  10.0.0.5:8080  weight 1  ready"
    assert lines[3] == "          ~ catalog-a  10.0.0.5:8080  weight 1  draining"
    assert lines[4] == "          - catalog-b"


def test_watch_of_a_service_that_never_answered_gives_no_age(ctl):
    ctl.daemon.on("GET", "/v1/services/catalog/endpoints", Channel({"type": "bookmark", "revision": 0, "freshness": shop.freshness(state="unknown", age_ms=None)}))
    process = ctl.start("watch", "catalog")
    assert read_lines(process, 1)[0].endswith("bookmark  revision 0  unknown, never answered")
    process.kill()
    process.communicate()


def test_watch_json_gives_the_lines_as_they_are_and_resumes_after_a_restart(ctl):
    first = b'{"type":  "snapshot", "service": "catalog", "revision": 118, "freshness": {}, "endpoints": []}\n'
    second = b'{"type":  "bookmark", "revision": 120, "freshness": {}}\n'
    channel = Channel(first)
    ctl.daemon.on("GET", "/v1/services/catalog/endpoints", channel)
    process = ctl.start("watch", "catalog", "-o", "json")
    assert read_lines(process, 1) == [first.decode().rstrip()]
    ctl.daemon.stop()
    ctl.daemon.on("GET", "/v1/services/catalog/endpoints", Channel(second, b'{"type": "end", "code": "removed"}\n'))
    before = said_so_far(process.stderr, "usherd went away")
    ctl.daemon.start()
    out, err = ended(process, 5)
    err = before + err
    assert out.splitlines() == [second.decode().rstrip(), '{"type": "end", "code": "removed"}']
    assert ctl.daemon.requests[-1].query == {"watch": "true", "revision": "118"}
    assert err.count("usherd went away") == 1
    assert "catalog is no longer in the configuration" in err


def test_watch_of_what_is_not_there(ctl):
    ctl("watch", "nope", code=5)
    ctl.daemon.stop()
    ctl("watch", "catalog", code=3)


# ---- terminals ----


def on_terminal(ctl, *arguments, columns=100, seconds=60, until=None, press=None, **env):
    child, fd = pty.fork()
    if child == 0:
        os.execve(USHERCTL, [str(USHERCTL), *arguments], {**ctl.env, **env})
    import fcntl
    import struct
    import termios

    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    text = b""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ready, _, _ = select.select([fd], [], [], 0.1)
        if ready:
            try:
                data = os.read(fd, 65536)
            except OSError:
                break
            if not data:
                break
            text += data
        if until and press and until in text.decode(errors="replace"):
            os.write(fd, press)
            press = None
    _, status = os.waitpid(child, 0)
    os.close(fd)
    return os.waitstatus_to_exitcode(status), text.decode(errors="replace")


def test_colour_only_on_a_terminal_that_wants_it(ctl):
    assert "\x1b[32m" in on_terminal(ctl, "get", "services")[1]
    for arguments, env in ((["--no-color"], {}), ([], {"NO_COLOR": "1"}), ([], {"TERM": "dumb"})):
        assert "\x1b" not in on_terminal(ctl, "get", "services", *arguments, **env)[1]
    assert "\x1b" not in ctl("get", "services").stdout


def test_drain_wait_draws_the_waiting_line_in_place(ctl):
    channel = Channel()
    started(ctl, channel)
    channel.put(shop.line(shop.record("running", [shop.step("deregister", "active", ("registry_echo", False, "files still lists catalog-a"))])))

    import threading

    threading.Timer(0.7, lambda: (channel.put(shop.line(shop.record("done", [shop.step("deregister", "proven", shop.ECHO)]))), channel.end())).start()
    code, text = on_terminal(ctl, "drain", "catalog/catalog-a", "--wait")
    assert code == 0
    assert text.count("\r\x1b[K") >= 2
    assert "waiting    files still lists catalog-a" in text
    assert text.split("\r\x1b[K")[-1].count("\n") == 2  # the step's end and the last line


def test_ctrl_c_on_a_terminal(ctl):
    started(ctl, Channel())
    code, text = on_terminal(ctl, "drain", "catalog/catalog-a", "--wait", until="waiting", press=b"\x03")
    assert code == 130
    assert "goes on as" in text


def test_top_on_a_terminal_is_live_until_q(ctl):
    code, text = on_terminal(ctl, "top", until="picks/s", press=b"q")
    assert code == 0
    assert text.startswith("\x1b[?1049h") and text.endswith("\x1b[?1049l")
    assert "0 picks/s" in text
    code, text = on_terminal(ctl, "top", until="catalog", press=b"\x03")
    assert code == 130
    assert text.endswith("\x1b[?1049l")


# ---- completion ----


def complete(ctl, *words, **env):
    return ctl("__complete", *words, **env).stdout.split()


def test_completion_knows_verbs_options_and_names(ctl):
    ctl.daemon.on("GET", "/v1/drains", {"drains": [shop.record(), shop.record("done", id="d-old")]})
    assert complete(ctl, "re") == ["restore", "register", "reload"]
    assert "services" in complete(ctl, "get", "")
    assert complete(ctl, "get", "services", "") == ["catalog", "orders", "search", "basket"]
    assert complete(ctl, "pick", "ca") == ["catalog"]
    assert complete(ctl, "pick", "catalog", "") == []
    assert complete(ctl, "drain", "ca") == ["catalog/"]
    assert complete(ctl, "drain", "catalog/") == ["catalog/catalog-a", "catalog/catalog-b", "catalog/catalog-c"]
    assert complete(ctl, "-o", "json", "drain", "--reason", "x", "catalog/catalog-b") == ["catalog/catalog-b"]
    assert complete(ctl, "cancel", "") == [DRAIN, "catalog/catalog-a"]
    assert complete(ctl, "describe", "plugin", "") == ["file", "old"]
    assert complete(ctl, "drain", "--order", "") == ["serve_stale", "refuse_first"]
    assert complete(ctl, "-o", "") == ["table", "wide", "json", "yaml"]
    assert "--timeout" in complete(ctl, "drain", "--t")
    assert "--timeout" not in complete(ctl, "pick", "c", "--")
    assert complete(ctl, "check", "") == [":files"]
    assert complete(ctl, "completion", "") == ["bash", "zsh", "fish"]


def test_completion_is_quick_and_silent_without_a_daemon(ctl):
    over = threading.Event()
    ctl.daemon.on("GET", "/v1/services", lambda request: over.wait(60))
    began = time.monotonic()
    done = ctl("__complete", "pick", "")
    took = time.monotonic() - began
    over.set()
    assert (done.stdout, done.stderr) == ("", "")
    assert took < 30  # and not until usherd answers
    ctl.daemon.stop()
    done = ctl("__complete", "pick", "")
    assert (done.stdout, done.stderr) == ("", "")


def in_bash(ctl, line):
    script = r"""
source <(usherctl completion bash)
COMP_LINE="$1"; COMP_POINT=${#1}
words=()
# as bash does: the breaks of COMP_WORDBREAKS are words of their own
while [[ "$1" =~ ^([[:space:]]*)([^[:space:]:=]+|[:=]+)(.*)$ ]]; do words+=("${BASH_REMATCH[2]}"); set -- "${BASH_REMATCH[3]}"; done
case "$COMP_LINE" in *[[:space:]]|*[:=]) words+=("");; esac
COMP_WORDS=("${words[@]}"); COMP_CWORD=$((${#words[@]} - 1))
_usherctl usherctl "${words[-1]}" ""
printf '%s\n' "${COMPREPLY[@]}"
"""
    done = subprocess.run(["bash", "--norc", "-c", script, "bash", line], capture_output=True, text=True, env=ctl.env, timeout=60)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completion(ctl):
    assert in_bash(ctl, "usherctl dr") == ["drain"]
    assert in_bash(ctl, "usherctl drain catalog/") == ["catalog/catalog-a", "catalog/catalog-b", "catalog/catalog-c"]
    assert in_bash(ctl, "usherctl pick ") == ["catalog", "orders", "search", "basket"]
    assert in_bash(ctl, "usherctl -o j") == ["json"]
    ctl.daemon.on("GET", "/v1/services/catalog/endpoints", {"service": "catalog", "endpoints": [{"id": "10.0.0.5:8080"}, {"id": "10.0.0.5:8081"}]})
    assert in_bash(ctl, "usherctl drain catalog/10.0.0.5:80") == ["8080", "8081"]


def test_bash_completes_at_a_real_prompt(ctl):
    child, fd = pty.fork()
    if child == 0:
        os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"], {**ctl.env, "PS1": "$ "})
    os.write(fd, b"source <(usherctl completion bash); echo ready\n")
    text = b""
    sent = False
    end = time.monotonic() + 60
    while time.monotonic() < end and b"catalog-a --wait" not in text.replace(b"\x07", b""):
        if select.select([fd], [], [], 0.1)[0]:
            text += os.read(fd, 65536)
        if not sent and text.count(b"ready") > 1:
            os.write(fd, b"usherctl drain cat\tcatalog-a\t--wa\t")
            sent = True
    os.write(fd, b"\x03exit\n")
    os.close(fd)
    os.waitpid(child, 0)
    assert b"catalog/catalog-a --wait" in text.replace(b"\x07", b"")


@pytest.mark.skipif(not shutil.which("fish"), reason="there is no fish here")
def test_fish_completion(ctl):
    def in_fish(line):
        done = subprocess.run(
            ["fish", "--no-config", "-c", f"usherctl completion fish | source; complete -C '{line}'"], capture_output=True, text=True, env=ctl.env, timeout=60
        )
        return sorted(line.split("\t")[0] for line in done.stdout.splitlines())

    assert in_fish("usherctl dr") == ["drain"]
    assert in_fish("usherctl drain catalog/") == ["catalog/catalog-a", "catalog/catalog-b", "catalog/catalog-c"]
    assert "orders" in in_fish("usherctl pick ")


@pytest.mark.skipif(not shutil.which("zsh"), reason="there is no zsh here")
def test_zsh_completes_at_a_real_prompt(ctl):
    folder = ctl.folder / "zsh"
    folder.mkdir()
    (folder / "_usherctl").write_text(ctl("completion", "zsh").stdout)
    child, fd = pty.fork()
    if child == 0:
        os.execve(shutil.which("zsh"), ["zsh", "-f", "-i"], {**ctl.env, "PS1": "$ "})
    os.write(fd, f"fpath=({folder} $fpath); autoload -Uz compinit; compinit -D -u; echo rea''dy\n".encode())
    text = b""
    sent = False
    end = time.monotonic() + 60
    while time.monotonic() < end and b"--wait-timeout" not in text:
        if select.select([fd], [], [], 0.1)[0]:
            text += os.read(fd, 65536)
        if not sent and b"ready\r\n" in text:
            os.write(fd, b"usherctl drain cat\tcatalog-a --wait-\t")
            sent = True
    os.write(fd, b"\x03exit\n")
    os.close(fd)
    os.waitpid(child, 0)
    assert b"--wait-timeout" in text
