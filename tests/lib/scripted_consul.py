"""An agent of Consul for the scripted registry: a catalog with an index, blocking queries, maintenance, checks."""

import threading
import time
import zlib

from scripted_registry import Registry, Reply


def seconds(text):
    return float(text[:-2]) / 1000 if text.endswith("ms") else float(text[:-1])


class Consul(Registry):
    """Everything that is in the catalog is in `instances`, by service and id; change it with `with agent.change():`."""

    def __init__(self, node="n1"):
        super().__init__(self.say)
        self.node = node
        self.index = 10
        self.changed = threading.Condition()
        self.instances = {"consul": {"consul": self.instance("consul", "consul", 8300)}}
        self.headers = {}  # that differ from those of an agent in good order
        self.token = None  # the one that is let in

    def instance(self, service, name, port=None, status="passing", address="127.0.0.1", **more):
        # Two at one address and port are one under two names, to usher.
        port = port or 1024 + zlib.crc32(name.encode()) % 60000
        return {
            "Node": {"ID": "81ef4081", "Node": self.node, "Address": "127.0.0.1", "Datacenter": "dc1"},
            "Service": {"ID": name, "Service": service, "Tags": [], "Address": address, "Port": port, "Meta": {},
                        "Weights": {"Passing": 1, "Warning": 1}, "CreateIndex": 8, **more},
            "Checks": [{"CheckID": "serfHealth", "Status": "passing", "ServiceID": ""},
                       {"CheckID": f"service:{name}", "Status": status, "ServiceID": name}],
        }

    def change(self):
        return Change(self)

    def put(self, service, *names, **more):
        with self.change():
            for name in names:
                self.instances.setdefault(service, {})[name] = self.instance(service, name, **more)

    def take(self, service, *names):
        with self.change():
            for name in names:
                del self.instances[service][name]

    def maintain(self, service, name, reason):
        with self.change():
            checks = self.instances[service][name]["Checks"]
            checks[:] = [c for c in checks if not c["CheckID"].startswith("_service_maintenance")]
            if reason is not None:
                checks.append({"CheckID": f"_service_maintenance:{name}", "Status": "critical", "Notes": reason,
                               "ServiceID": name})

    # ---- what is said ----

    def good(self, body):
        headers = {"X-Consul-Index": self.index, "X-Consul-Knownleader": "true", "X-Consul-Lastcontact": "0", **self.headers}
        return Reply(body, headers={k: v for k, v in headers.items() if v is not None})

    def say(self, request):
        if self.token and request.headers.get("x-consul-token") != self.token:
            return Reply("ACL not found", 403)
        if request.path == "/v1/catalog/services":
            return self.good({name: [] for name in self.instances})
        if request.path.startswith("/v1/health/service/"):
            return self.say_health(request, request.path.rsplit("/", 1)[1])
        if request.path.startswith("/v1/agent/service/maintenance/"):
            return self.say_maintenance(request, request.path.rsplit("/", 1)[1])
        if request.path == "/v1/agent/service/register":
            return self.say_registered(request.json)
        if request.path.startswith("/v1/agent/service/deregister/"):
            return self.say_deregistered(request.path.rsplit("/", 1)[1])
        if request.path.startswith("/v1/agent/check/update/"):
            return self.say_updated(request.path.rsplit("/", 1)[1], request.json["Status"])
        if request.path.startswith("/v1/agent/health/service/id/"):
            return self.say_own(request.path.rsplit("/", 1)[1])
        if request.path == "/v1/agent/self":
            return Reply({"Config": {"NodeName": self.node}})
        return Reply("no such path", 404)

    def say_health(self, request, service):
        end = time.monotonic() + seconds(request.query.get("wait", "0s"))
        index = int(request.query.get("index", 0))
        with self.changed:
            while self.listener and index >= self.index and time.monotonic() < end:
                self.changed.wait(min(0.2, end - time.monotonic()))
            return self.good(list(self.instances.get(service, {}).values()))

    def say_maintenance(self, request, name):
        for service, instances in self.instances.items():
            if name in instances:
                self.maintain(service, name, request.query.get("reason", "") if request.query["enable"] == "true" else None)
                return Reply("")
        return Reply(f'Unknown service "{name}"', 404)

    def find(self, name):
        return next((instances[name] for instances in self.instances.values() if name in instances), None)

    def check(self, name, check_id):
        return next(c for c in self.find(name)["Checks"] if c["CheckID"] == check_id)

    def say_own(self, name):
        found = self.find(name)
        if not found:
            return Reply({"AggregatedStatus": "critical", "Service": None, "Checks": None}, 404)
        own = [check for check in found["Checks"] if check["ServiceID"]]
        good = all(check["Status"] == "passing" for check in own)
        return Reply({"AggregatedStatus": "passing" if good else "critical", "Service": found["Service"], "Checks": own},
                     200 if good else 503)

    def say_registered(self, said):
        made = self.instance(said["Name"], said["ID"], said["Port"], address=said["Address"], Meta=said["Meta"],
                             Weights=said["Weights"], Tags=said["Tags"])
        made["Checks"][1] = {"ServiceID": said["ID"], **said["Check"]}
        with self.change():
            self.instances.setdefault(said["Name"], {})[said["ID"]] = made
        return Reply("")

    def say_deregistered(self, name):
        found = self.find(name)
        if not found:
            return Reply(f"Unknown service ID {name}", 404)
        self.take(found["Service"]["Service"], name)
        return Reply("")

    def say_updated(self, check_id, status):
        found = self.find(check_id.removeprefix("usher:"))
        if not found:
            return Reply(f'CheckID "{check_id}" does not have associated TTL', 404)
        with self.change():
            self.check(found["Service"]["ID"], check_id)["Status"] = status
        return Reply("")


class Change:
    def __init__(self, agent):
        self.agent = agent

    def __enter__(self):
        self.agent.changed.acquire()

    def __exit__(self, *_):
        self.agent.index += 1
        self.agent.changed.notify_all()
        self.agent.changed.release()
