"""What an earlier run of usherd has registered, in each registry whose leases run out: usherd is killed while the instance is
ill, and keeps alive what it finds until it knows more, without saying anything new of it."""

import jute
import pytest
from checked_server import Instance
from scripted_consul import Consul
from scripted_etcd import Etcd
from scripted_eureka import Eureka
from scripted_nacos import Nacos
from scripted_zookeeper import ZooKeeper
from usher import wait_until

CHECKED = {"http": {"path": "/"}, "interval": "100ms", "timeout": "20s", "rise": 1, "fall": 1, "jitter": "0%"}
# Each with the shortest lease that it takes, for a test waits for its renewals.
LEASES = {"consul": {"ttl": "3s"}, "etcd": {"ttl": "5s"}, "eureka": {"lease": "3s", "interval": "1s", "cache": "0s"},
          "nacos": {"beat": "1s"}, "zookeeper": {"ttl": "3s"}}


class InConsul(Consul):
    def is_good(self):
        return self.check("me", "usher:me")["Status"] == "passing"

    def age(self):
        """Nobody renews it while usherd is away."""
        with self.change():
            self.check("me", "usher:me")["Status"] = "critical"

    def renewals(self):
        return self.asked(lambda request: request.path.startswith("/v1/agent/check/update/"))

    def is_description(self, request):
        return request.path == "/v1/agent/service/register"


class InEtcd(Etcd):
    def is_good(self):
        return self.value("catalog", "me")["port"]

    def renewals(self):
        return self.asked(lambda request: request.path == "/v3/lease/keepalive")

    def is_description(self, request):
        return request.path in ("/v3/kv/txn", "/v3/kv/put", "/v3/lease/grant")


class InEureka(Eureka):
    def is_good(self):
        return self.apps["CATALOG"]["me"]["status"] == "UP"

    def renewals(self):
        return self.asked(lambda request: request.method == "PUT" and request.path.endswith("/apps/CATALOG/me"))

    def is_description(self, request):
        return request.method == "POST"


class InNacos(Nacos):
    def is_good(self):
        return self.find("me")["enabled"]

    def renewals(self):
        return self.asked(lambda request: request.path.endswith("/beat") or request.query.get("heartBeat") == "true")

    def is_description(self, request):
        return request.method == "POST" and not request.query.get("heartBeat")


class InZooKeeper(ZooKeeper):
    PATH = "/services/catalog/me"

    @property
    def url(self):
        return self.address

    def is_good(self):
        return self.value(self.PATH)["payload"]["metadata"]["instance_status"] == "UP"

    def age(self):
        self.before = self.nodes[self.PATH].owner

    def renewals(self):
        """The session renews itself; that the node is in the new one is looked after."""
        if self.nodes[self.PATH].owner == self.before:
            return []
        self.expire(self.before)
        return self.asked(jute.GET_DATA, self.PATH)

    def is_description(self, request):
        return False  # that it is put into the new session is one


@pytest.mark.parametrize("plugin, registry", [
    ("consul", InConsul), ("etcd", InEtcd), ("eureka", InEureka), ("nacos", InNacos), ("zookeeper", InZooKeeper)])
def test_what_is_ill_when_usherd_comes_back_stays_registered_as_it_was(usherd, plugin, registry):
    with registry() as server:
        instance = Instance("me")
        daemon = usherd({
            "sources": [{"name": "hub", "plugin": plugin, "options": {"servers": [server.url], **LEASES[plugin]}}],
            "services": {"catalog": {}},
            "registrations": [{"service": "catalog", "id": "me", "address": "127.0.0.1", "port": instance.port,
                               "health": CHECKED}],
        }).start()

        def state():
            return daemon.get("/v1/registrations/catalog/me")["state"]

        wait_until("it is registered", lambda: state() == "registered")
        instance.status = 503
        daemon.kill()
        age = getattr(server, "age", None)
        if age:
            age()
        renewed, described = len(server.renewals()), len(server.asked(server.is_description))
        daemon.start()
        wait_until("it is kept alive", lambda: len(server.renewals()) >= renewed + 3)
        assert state() == "waiting_for_health"
        assert server.is_good()
        assert len(server.asked(server.is_description)) == described
        assert "does not have me" not in daemon.log_text()
        instance.status = 200
        wait_until("it is registered", lambda: state() == "registered")
        assert server.is_good()
        instance.stop()
