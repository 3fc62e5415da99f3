"""A Eureka server for the scripted registry: all instances, what has changed, overrides, leases, as Spring Cloud's does.

    server.put("WEB", "a", port=8001)       # one call a change; others are take(), status(), override()
    server.lose_all()                       # started again: it knows nobody, and what has changed is nothing
    server.peers.append(other)              # what is changed here is changed there

What it lists comes from a cache where `server.caching` is true: nothing changes in it until server.refresh().
"""

import threading
import time
import zlib

from scripted_registry import Registry, Reply

DATACENTER = "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo"
PREFIX = "/eureka"


def milliseconds():
    return int(time.time() * 1000)


class Eureka(Registry):
    def __init__(self):
        super().__init__(self.say)
        self.changing = threading.RLock()
        self.apps = {}  # {"WEB": {"a": {...}}}
        self.changes = {}  # (app, id): the instance with its actionType, the oldest first
        self.overrides = {}
        self.peers = []
        self.user = None  # the header Authorization that is let in
        self.deltas = True
        self.hash = None  # another one than its own
        self.caching = False
        self.cache = {}
        self.long_since = milliseconds() - 3600_000  # when it was started, as far as leases tell

    @property
    def url(self):
        return super().url + PREFIX

    # ---- what is in it ----

    def instance(self, app, name, port=None, status="UP", address="127.0.0.1", metadata=None, vip=None, secure=False, **more):
        # Two at one address and port are one under two names, to usher.
        port = port or 1024 + zlib.crc32(name.encode()) % 60000
        now = milliseconds()
        return {
            "instanceId": name, "hostName": address, "app": app, "ipAddr": address, "status": status,
            "overriddenStatus": "UNKNOWN", "port": {"$": port, "@enabled": str(not secure).lower()},
            "securePort": {"$": port, "@enabled": str(secure).lower()}, "countryId": 1,
            "dataCenterInfo": {"@class": DATACENTER, "name": "MyOwn"},
            "leaseInfo": {"renewalIntervalInSecs": 30, "durationInSecs": 90, "registrationTimestamp": self.long_since,
                          "lastRenewalTimestamp": now + 90_000, "evictionTimestamp": 0, "serviceUpTimestamp": self.long_since},
            "metadata": metadata or {}, "vipAddress": vip or app.lower(), "secureVipAddress": vip or app.lower(),
            "isCoordinatingDiscoveryServer": "false", "lastUpdatedTimestamp": str(now), "lastDirtyTimestamp": str(now),
            **more,
        }

    def everywhere(self, change):
        for server in [self, *self.peers]:
            with server.changing:
                change(server)

    def changed(self, instance, action):
        key = instance["app"], instance["instanceId"]
        instance = dict(instance, actionType=action, lastUpdatedTimestamp=str(milliseconds()))
        self.changes.pop(key, None)
        self.changes[key] = instance
        if action == "DELETED":
            self.apps.get(key[0], {}).pop(key[1], None)
        else:
            self.apps.setdefault(key[0], {})[key[1]] = instance

    def put(self, app, *names, **more):
        for name in names:
            instance = self.instance(app, name, **more)
            self.everywhere(lambda server: server.register(instance))

    def register(self, instance):
        key = instance["app"], instance["instanceId"]
        known = self.apps.get(key[0], {}).get(key[1])
        if known and int(known["lastDirtyTimestamp"]) > int(instance["lastDirtyTimestamp"]):
            return  # the older description is ignored
        override = self.overrides.get(key)
        if override and instance["status"] not in ("DOWN", "STARTING"):
            instance = dict(instance, status=override, overriddenStatus=override)
        self.changed(instance, "MODIFIED" if known else "ADDED")

    def take(self, app, *names):
        for name in names:
            self.everywhere(lambda server: server.cancel(app, name))

    def cancel(self, app, name):
        self.overrides.pop((app, name), None)
        if name in self.apps.get(app, {}):
            self.changed(self.apps[app][name], "DELETED")

    def status(self, app, name, status):
        """What the instance says of itself."""
        self.everywhere(lambda server: server.changed(dict(server.apps[app][name], status=status), "MODIFIED"))

    def override(self, app, name, status):
        """What people decide; None: the override is taken away."""
        def change(server):
            if status:
                server.overrides[app, name] = status
            elif not server.overrides.pop((app, name), None):
                return
            server.changed(dict(server.apps[app][name], status=status or "UP", overriddenStatus=status or "UNKNOWN"), "MODIFIED")

        self.everywhere(change)

    def lose_all(self):
        """As after a start: nobody has given a sign of life yet."""
        with self.changing:
            self.apps, self.changes, self.overrides, self.cache = {}, {}, {}, {}
            self.long_since = milliseconds()

    def refresh(self):
        with self.changing:
            self.cache = {}

    # ---- what is said ----

    def counted(self):
        counts = {}
        for instances in self.apps.values():
            for one in instances.values():
                counts[one["status"]] = counts.get(one["status"], 0) + 1
        return "".join(f"{status}_{counts[status]}_" for status in sorted(counts))

    def listed(self, instances):
        apps = {}
        for one in instances:
            apps.setdefault(one["app"], []).append(one)
        return {"applications": {"versions__delta": "1", "apps__hashcode": self.counted() if self.hash is None else self.hash,
                                 "application": [{"name": app, "instance": those} for app, those in apps.items()]}}

    def cached(self, what, make):
        if not self.caching:
            return Reply(make())
        if what not in self.cache:
            self.cache[what] = make()
        return Reply(self.cache[what])

    def say(self, request):
        if self.user and request.headers.get("authorization") != self.user:
            return Reply({"error": "Unauthorized"}, 401)
        if not request.path.startswith(PREFIX + "/"):
            return Reply({"error": "Not Found"}, 404)
        with self.changing:
            parts = request.path.removeprefix(PREFIX).strip("/").split("/")
            if parts == ["apps"]:
                return self.cached("all", lambda: self.listed([one for app in self.apps.values() for one in app.values()]))
            if parts == ["apps", "delta"]:
                return self.cached("delta", lambda: self.listed(self.changes.values())) if self.deltas else Reply("", 403)
            if parts[0] == "apps" and len(parts) == 2 and request.method == "POST":
                self.everywhere(lambda server: server.register(request.json["instance"]))
                return Reply("", 204)
            if parts[0] == "apps" and len(parts) >= 3:
                return self.say_one(request, parts[1], parts[2], parts[3:])
            if parts[0] == "instances" and len(parts) == 2:
                found = [one[parts[1]] for one in self.apps.values() if parts[1] in one]
                return Reply({"instance": found[0]}) if found else Reply("", 404)
            return Reply({"error": "Not Found"}, 404)

    def say_one(self, request, app, name, rest):
        one = self.apps.get(app, {}).get(name)
        if not one:
            return Reply("", 404)
        if request.method == "GET":
            return Reply({"instance": one})
        if rest == ["status"]:
            self.override(app, name, request.query["value"] if request.method == "PUT" else None)
        elif request.method == "DELETE":
            self.take(app, name)
        elif int(request.query["lastDirtyTimestamp"]) > int(one["lastDirtyTimestamp"]):
            return Reply("", 404)
        return Reply("")
