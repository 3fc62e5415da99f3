"""A plug-in from out of the tree in a real usherd: loaded, used, reloaded, and broken on purpose."""

import os
import subprocess

import pytest
from test_sdk import Sdk, blocks, build_sample
from usher import PLUGINS, USHERD, endpoint, wait_until


@pytest.fixture(scope="module")
def sdk(tmp_path_factory):
    return Sdk(tmp_path_factory.mktemp("sdk"))


@pytest.fixture(scope="module")
def sample(sdk, tmp_path_factory):
    """The bytes of the built sample."""
    return build_sample(sdk, tmp_path_factory.mktemp("build")).read_bytes()


@pytest.fixture(scope="module")
def tracing(sdk, tmp_path_factory):
    """The same, with a constructor that writes the file $SAMPLE_TRACE."""
    return build_sample(sdk, tmp_path_factory.mktemp("build"), "-DCMAKE_C_FLAGS=-DSAMPLE_BROKEN").read_bytes()


def put(folder, name, content, mode=0o644):
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(content)
    path.chmod(mode)
    return path


def check(path, environment=None):
    done = subprocess.run([USHERD, "--check-plugin", path], capture_output=True, text=True,
                          env={**os.environ, **(environment or {})})
    return done.returncode, done.stdout + done.stderr


def plugin(daemon, name):
    return next((p for p in daemon.get("/v1/plugins")["plugins"] if p["name"] == name), None)


def test_it_is_a_source_and_a_stage(usherd, sample, tmp_path):
    folder = tmp_path / "plugins"
    put(folder, "sample.so", sample)
    daemon = usherd({
        "sources": [{"name": "mine", "plugin": "sample", "options": {"endpoints": ["10.0.0.1:80", "10.0.0.2:9000"]}}],
        "defaults": {"sources": ["mine"], "select": "random"},
        "services": {"catalog": {"chain": [{"sample": {"below": 1024}}]}},
    }, plugin_dirs=[folder, PLUGINS]).start()

    assert set(daemon.listed()) == {"10.0.0.1:80"}
    everyone = {e["id"]: e for e in daemon.get("/v1/services/catalog/endpoints?all=true")["endpoints"]}
    assert everyone["10.0.0.2:9000"]["left_out"] == {"stage": "sample", "reason": "port 9000 is not below 1024"}
    about = plugin(daemon, "sample")
    assert about["loaded"] and about["version"] == "0.3" and about["abi"] == "1.1"
    assert sorted(about["facets"]) == ["discovery", "stage"]
    assert [o["name"] for o in about["options"]] == ["endpoints", "below"]
    daemon.wait_said("offered to 1 services")


def test_a_new_file_is_loaded_by_a_reload_and_a_changed_one_waits_for_a_restart(usherd, sample, tmp_path):
    folder = tmp_path / "plugins"
    folder.mkdir()
    daemon = usherd({"services": {"catalog": {}}}, plugin_dirs=[folder, PLUGINS])
    daemon.write_endpoints({"catalog": [endpoint("a")]})
    daemon.start()
    assert plugin(daemon, "sample") is None
    put(folder, "sample.so", sample)
    daemon.reload()
    assert plugin(daemon, "sample")["loaded"]
    put(folder, "sample.so.new", sample + b"\0").rename(folder / "sample.so")
    daemon.reload()
    assert plugin(daemon, "sample")["loaded"]
    wait_until("the change is told", lambda: "sample.so has changed on disk" in daemon.log_text())


def test_the_pages_plug_in_follows_its_file(usherd, sdk, tmp_path):
    folder, hosts = tmp_path / "plugins", tmp_path / "hosts"
    folder.mkdir()
    (tmp_path / "hosts.c").write_text(blocks()["hosts.c"])
    done = sdk.compile(tmp_path / "hosts.c", folder / "hosts.so")
    assert done.returncode == 0, done.stderr
    (folder / "hosts.so").chmod(0o755)

    hosts.write_text("catalog 10.0.0.1:80\nsearch 10.0.0.9:80\n")
    daemon = usherd({
        "sources": [{"name": "mine", "plugin": "hosts", "options": {"path": str(hosts)}}],
        "defaults": {"sources": ["mine"]},
        "services": {"catalog": {}},
    }, plugin_dirs=[folder, PLUGINS]).start()
    daemon.wait_listed({"10.0.0.1:80"})
    hosts.write_text("catalog 10.0.0.1:80\ncatalog 10.0.0.2:80\n")
    daemon.wait_listed({"10.0.0.1:80", "10.0.0.2:80"})
    hosts.write_text("catalog nonsense\n")
    wait_until("the failure is told", lambda: daemon.get("/v1/sources")["sources"][0]["state"] == "failed")
    assert set(daemon.listed()) == {"10.0.0.1:80", "10.0.0.2:80"}


def patched(content, at, bytes_):
    return content[:at] + bytes_ + content[at + len(bytes_):]


def break_abi(content):
    at = content.index(b"usher\0\0\0") + 8
    return patched(content, at, (2).to_bytes(4, "little"))


BROKEN = {
    "abi": ("sample.so", break_abi, 0o644, "built for plug-in ABI 2.1, this usherd offers 1.1"),
    "name": ("other.so", lambda c: c, 0o644, 'calls itself "sample", but its file is called other.so'),
    "constant": ("sample.so", lambda c: c.replace(b"usher_plugin\0", b"usher_plugim\0"), 0o644,
                 "does not export the constant usher_plugin"),
    "function": ("sample.so", lambda c: c.replace(b"usher_source_wait\0", b"usher_source_wail\0"), 0o644,
                 "calls the function usher_source_wail, which this usherd"),
    "library": ("sample.so", lambda c: c.replace(b"libc.so.6\0", b"libz.so.9\0"), 0o644, "needs the library libz.so.9"),
    "machine": ("sample.so", lambda c: patched(c, 18, (22).to_bytes(2, "little")), 0o644, "built for S/390"),
    "truncated": ("sample.so", lambda c: c[:len(c) // 4], 0o644, "is cut short"),
    "text": ("sample.so", lambda c: b"#!/bin/sh\n", 0o644, "is no ELF file"),
    "writable": ("sample.so", lambda c: c, 0o666, "others may write it (mode 0666)"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_one_is_refused_by_name_without_running(tracing, tmp_path, case):
    name, damage, mode, words = BROKEN[case]
    path = put(tmp_path / "plugins", name, damage(tracing), mode)
    trace = tmp_path / "trace"
    code, said = check(path, {"SAMPLE_TRACE": str(trace)})
    assert code == 1 and f"{path}: " in said and words in said, said
    assert not trace.exists()


def test_a_whole_one_passes_the_check(tracing, tmp_path):
    path = put(tmp_path / "plugins", "sample.so", tracing)
    trace = tmp_path / "trace"
    code, said = check(path, {"SAMPLE_TRACE": str(trace)})
    assert code == 0, said
    assert trace.exists()  # so the constructor does run where it may


def test_the_daemon_runs_on_without_what_it_refused(usherd, tracing, tmp_path):
    folder = tmp_path / "plugins"
    for case, (name, damage, mode, _) in BROKEN.items():
        put(folder / case, name, damage(tracing), mode)
    daemon = usherd({"services": {"catalog": {}}}, environment={"SAMPLE_TRACE": str(tmp_path / "trace")},
                    plugin_dirs=[*(folder / case for case in BROKEN), PLUGINS])
    daemon.write_endpoints({"catalog": [endpoint("a")]})
    daemon.start()
    assert set(daemon.listed()) == {"a"}
    refused = [p for p in daemon.get("/v1/plugins")["plugins"] if not p["loaded"]]
    assert len(refused) == len(BROKEN)
    assert not (tmp_path / "trace").exists()
