"""Several sources of one service, and what is told of each."""

import pytest

from usher import BUILD, PLUGINS, endpoint, replace_file, wait_until


@pytest.fixture
def two(usherd, tmp_path):
    """usherd with two sources that are files, `cluster` and `files`, and catalog in both."""

    def make(catalog, cluster, files):
        paths = {"cluster": tmp_path / "cluster.yaml", "files": tmp_path / "files.yaml"}
        daemon = usherd({
            "sources": [{"name": name, "plugin": "file", "options": {"path": str(path)}}
                        for name, path in paths.items()],
            "services": {"catalog": catalog},
        })
        daemon.paths = paths
        for name, endpoints in (("cluster", cluster), ("files", files)):
            if endpoints is not None:
                daemon.write_endpoints({"catalog": endpoints}, paths[name])
        return daemon.start()

    return make


def source(daemon, name):
    return next(s for s in daemon.get("/v1/sources")["sources"] if s["name"] == name)


def test_a_source_decides_fields_and_where_they_come_from_is_told(two):
    daemon = two(
        {"merge": "union", "sources": ["cluster", {"source": "files", "decides": ["weight", "metadata"]}]},
        [endpoint("a", zone="east", weight=2), endpoint("b", port=81)],
        [endpoint("a", zone="west", weight=7, metadata={"tier": "gold"}), endpoint("c", port=82)])
    daemon.wait_listed({"a", "b", "c"})
    a, b, c = (daemon.listed()[name] for name in "abc")
    assert (a["source"], a["zone"], a["weight"], a["metadata"]) == ("cluster", "east", 7, {"tier": "gold"})
    assert a["origins"] == {"weight": "files", "metadata": "files"}
    assert a["conflict"] is True  # about the zone, which nobody decides
    assert "origins" not in b and "origins" not in c and c["source"] == "files"

    everyone = {e["id"]: e for e in daemon.get("/v1/services/catalog/endpoints?all=true")["endpoints"]}
    assert everyone["a"]["shown_by"] == ["cluster", "files"]
    assert everyone["b"]["shown_by"] == ["cluster"]
    text = daemon.ctl("describe", "endpoint", "catalog/a").stdout
    assert "weight from" in text and "Shown by:" in text and "cluster, files" in text, text


def test_in_a_race_the_first_answer_is_taken_and_stays(two):
    daemon = two({"merge": "race"}, None, [endpoint("f")])
    daemon.wait_listed({"f"})
    failed = wait_until("cluster fails", lambda: source(daemon, "cluster")["state"] == "failed" and source(daemon, "cluster"))
    assert failed["error"] and "tried again" in failed["remedy"] and failed["services"]["failed"] == 1

    daemon.write_endpoints({"catalog": [endpoint("c")]}, daemon.paths["cluster"])
    wait_until("cluster answers", lambda: source(daemon, "cluster")["state"] == "live")
    assert set(daemon.listed()) == {"f"}
    assert source(daemon, "cluster")["remedy"] is None
    daemon.paths["files"].write_text("nonsense: [")
    daemon.wait_listed({"c"})
    assert daemon.get("/v1/services/catalog/endpoints")["freshness"]["source"] == "cluster"


def test_a_source_that_proves_nothing_any_more_is_stale_with_what_to_do(usherd, tmp_path):
    plugins, shop = tmp_path / "plugins", tmp_path / "shop"
    plugins.mkdir()
    shop.mkdir()
    copy = plugins / "asking.so"  # it speaks when its file changes, and never confirms
    copy.write_bytes((BUILD / "tests" / "plugins" / "lib" / "asking.so").read_bytes())
    copy.chmod(0o755)
    replace_file(shop / "registry", "endpoint a 8080\n")
    daemon = usherd({
        "sources": [{"name": "quiet", "plugin": "asking", "options": {"folder": str(shop)}}],
        "services": {"catalog": {"freshness": {"max_age": "300ms"}}},
    }, plugin_dirs=[plugins, PLUGINS]).start()
    wait_until("it is stale", lambda: source(daemon, "quiet")["state"] == "stale")
    assert "proves nothing" in source(daemon, "quiet")["remedy"]
    assert "proves nothing" in daemon.ctl("get", "sources").stdout
    assert "What to do:" in daemon.ctl("describe", "source", "quiet").stdout
    assert daemon.get("/v1/status")["sources"] == {"total": 1, "live": 0}
    assert set(daemon.listed()) == {"a"}
