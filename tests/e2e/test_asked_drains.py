"""Drains that a registry asks for: by a plug-in that reads a folder, against the real usherd."""

import socket

import pytest

from usher import BUILD, PLUGINS, replace_file, wait_until

PROPAGATION = {"registry": "0s", "consumer_refresh": "0s", "consumer_cache": "0s", "margin": "0s"}
# Nobody shows the endpoint as gone, so that it waits until the test lets go.
WAITING = {**PROPAGATION, "consumer_cache": "600s"}


class Shop:
    """usherd with one service, and the folder that is its registry."""

    def __init__(self, usherd, tmp_path):
        self.folder = tmp_path / "shop"
        self.folder.mkdir()
        # A restore asks the instance first.
        self.instances = {f"catalog-{name}": socket.create_server(("127.0.0.1", 0)) for name in "abc"}
        plugins = tmp_path / "plugins"
        plugins.mkdir()
        copy = plugins / "asking.so"
        copy.write_bytes((BUILD / "tests" / "plugins" / "lib" / "asking.so").read_bytes())
        copy.chmod(0o755)
        self.daemon = usherd(self.config(PROPAGATION), plugin_dirs=[plugins, PLUGINS])

    def config(self, propagation, **drain):
        return {
            "sources": [{"name": "cluster", "plugin": "asking", "options": {"folder": str(self.folder)}}],
            "defaults": {"sources": ["cluster"]},
            "services": {"catalog": {"drain": {"propagation": propagation, "deadline": "900s", **drain}}},
        }

    def say(self, *lines):
        """The registry as it is now: three endpoints, and what is asked of them."""
        endpoints = [f"endpoint {name} {s.getsockname()[1]}" for name, s in self.instances.items()]
        replace_file(self.folder / "registry", "\n".join([*endpoints, *lines]) + "\n")

    def told(self):
        path = self.folder / "told"
        return path.read_text().splitlines() if path.exists() else []

    def wait_told(self, words, since=0):
        return wait_until(f"the registry is told {words}", lambda: next(
            (line for line in self.told()[since:] if line.startswith(words)), None))

    def drains(self):
        return self.daemon.get("/v1/drains")["drains"]

    def close(self):
        for instance in self.instances.values():
            instance.close()


@pytest.fixture
def shop(usherd, tmp_path):
    made = Shop(usherd, tmp_path)
    yield made
    made.close()


def test_the_registry_asks_is_told_and_takes_it_back(shop):
    shop.say()
    shop.daemon.start()
    shop.say("drain catalog-a pod catalog-a is being deleted")
    shop.wait_told("catalog-a running ")
    shop.wait_told("catalog-a done done nobody uses it any more")
    shop.daemon.wait_listed({"catalog-b", "catalog-c"})

    (record,) = shop.drains()
    assert record["requested_by"] == "source cluster" and record["asking_source"] == "cluster"
    assert record["reason"] == "pod catalog-a is being deleted" and not record["withdrawn"]
    table = shop.daemon.ctl("get", "drains")
    assert "source cluster: pod catalog-a is being deleted" in table.stdout, table

    shop.say("undrain catalog-a")
    shop.wait_told("catalog-a cancelled ")
    shop.daemon.wait_listed({"catalog-a", "catalog-b", "catalog-c"})
    restore, drain = shop.drains()
    assert restore["kind"] == "restore" and restore["requested_by"] == "source cluster"
    assert drain["withdrawn"]


def test_a_guard_refuses_it_as_anybodys_until_it_does_not(shop):
    shop.daemon.configure(shop.config(PROPAGATION, min_ready=3))
    shop.say("drain catalog-a")
    shop.daemon.start()
    # Before the first answer it is refused for another reason.
    wait_until("the guard refuses", lambda: any(
        line.startswith("catalog-a refused - ") and "min_ready" in line for line in shop.told()))
    assert shop.drains() == []
    shop.daemon.configure(shop.config(PROPAGATION))
    shop.daemon.reload()
    shop.wait_told("catalog-a done done")


def test_killed_in_the_middle_it_goes_on_and_tells_again(shop):
    shop.daemon.configure(shop.config(WAITING))
    shop.say("drain catalog-a", "drain catalog-b")
    shop.daemon.start()
    shop.wait_told("catalog-a running propagation")
    shop.wait_told("catalog-b running propagation")
    for _ in range(3):
        before = len(shop.told())
        shop.daemon.kill()
        shop.daemon.start()
        shop.wait_told("catalog-a running propagation", before)
        shop.wait_told("catalog-b running propagation", before)
    assert len(shop.drains()) == 2

    shop.daemon.kill()
    before = len(shop.told())
    shop.say("drain catalog-a", "undrain catalog-b")
    shop.daemon.start()
    shop.wait_told("catalog-b cancelled ", before)
    shop.daemon.wait_listed({"catalog-b", "catalog-c"})
    assert {d["endpoint"]: d["state"] for d in shop.drains()} == {"catalog-a": "running", "catalog-b": "cancelled"}


def test_what_people_cancel_stays_cancelled_until_the_registry_asks_anew(shop):
    shop.daemon.configure(shop.config(WAITING))
    shop.say("drain catalog-a")
    shop.daemon.start()
    shop.wait_told("catalog-a running propagation")
    assert shop.daemon.ctl("cancel", "catalog/catalog-a").returncode == 0
    shop.wait_told("catalog-a cancelled ")
    before = len(shop.told())
    shop.daemon.restart()
    shop.wait_told("catalog-a cancelled ", before)
    assert len(shop.drains()) == 1

    shop.say("undrain catalog-a")
    wait_until("it is taken back", lambda: shop.drains()[0]["withdrawn"])
    shop.say("drain catalog-a")
    shop.wait_told("catalog-a running propagation", before)
    assert len(shop.drains()) == 2
