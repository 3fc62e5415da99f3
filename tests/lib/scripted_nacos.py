"""A server of Nacos for the scripted registry: services by group and name, both APIs, logins, signs of life, pushes."""

import gzip
import json
import socket
import threading
import urllib.parse
import zlib

from scripted_registry import Registry, Reply

GONE = {"status": 410, "error": "Gone"}


class Nacos(Registry):
    """What is registered is in `instances`, by GROUP@@SERVICE and IP:PORT; `apis` are those that it has. A user in `users`
    (with the password) logs in and gets a token of `tokens`; with none, nobody is asked."""

    def __init__(self, apis=("v1", "v3")):
        super().__init__(self.say)
        self.apis = apis
        self.instances = {}
        self.forged = False
        self.cache_msec = 1000
        self.users, self.tokens, self.logins = {}, set(), 0
        self.ttl = 18000
        self.changed = threading.Lock()
        self.subscribers, self.acknowledged = {}, []
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))

    def instance(self, service, name, port=None, ip="127.0.0.1", **more):
        # Two at one address and port are one under two names, to usher.
        port = port or 1024 + zlib.crc32(name.encode()) % 60000
        return {"ip": ip, "port": port, "weight": 1.0, "healthy": True, "enabled": True, "ephemeral": True,
                "clusterName": "DEFAULT", "serviceName": service, **more,
                "metadata": {"usher.id": name, **more.get("metadata", {})}}

    def put(self, service, *names, **more):
        service = service if "@@" in service else f"DEFAULT_GROUP@@{service}"
        with self.changed:
            for name in names:
                one = self.instance(service, name, **more)
                self.instances.setdefault(service, {})[f"{one['ip']}:{one['port']}"] = one

    def push(self, service="DEFAULT_GROUP@@catalog", data=None, times=1):
        """Tell those who want to know that it has changed; data: those bytes instead."""
        listed = {"name": service, "hosts": list(self.instances.get(service, {}).values())}
        packet = json.dumps({"type": "dom", "data": json.dumps(listed), "lastRefTime": 85961000123}).encode()
        packet = gzip.compress(packet) if len(packet) > 1024 else packet
        for to in self.subscribers[service]:
            for _ in range(times):
                self.udp.sendto(data or packet, to)

    def wait_acknowledged(self, deadline=60.0):
        self.udp.settimeout(deadline)
        return json.loads(self.udp.recv(65536))

    def find(self, name, service="DEFAULT_GROUP@@catalog"):
        return next(i for i in self.instances[service].values() if i["metadata"].get("usher.id") == name)

    def take(self, service, *names):
        instances = self.instances[f"DEFAULT_GROUP@@{service}"]
        with self.changed:
            for name in names:
                for key in [k for k, i in instances.items() if i["metadata"]["usher.id"] == name]:
                    del instances[key]

    # ---- what is said ----

    def fields(self, request):
        fields = dict(request.query)
        # As the real one: only the body of a POST is read.
        if request.method == "POST" and request.body:
            fields.update(urllib.parse.parse_qsl(request.body.decode(), keep_blank_values=True))
        return fields

    def say(self, request):
        fields = self.fields(request)
        path = request.path.removeprefix("/nacos")
        if path in ("/v1/auth/login", "/v3/auth/user/login"):
            return self.say_login(path, fields)
        if self.users and request.headers.get("authorization", "").removeprefix("Bearer ") not in self.tokens:
            return Reply({"status": 403, "error": "Forbidden"}, 403)
        api = path.split("/")[1]
        if api not in self.apis or self.is_gone(request, api):
            return Reply(GONE, 410 if api == "v1" else 404)
        with self.changed:
            if api == "v3":
                return self.say_v3(request.method, path.removeprefix("/v3/"), fields)
            return self.say_v1(request.method, path.removeprefix("/v1/ns/"), fields, request.headers.get("user-agent", ""))

    def is_gone(self, request, api):
        """From 3.0 on, what takes more than a client's rights is asked over v3 alone."""
        return api == "v1" and "v3" in self.apis and request.method in ("PATCH", "GET") and request.path.endswith("/instance")

    def say_login(self, path, fields):
        if path.split("/")[1] not in self.apis:
            return Reply(GONE, 404)
        if not self.users or self.users.get(fields["username"]) != fields["password"]:
            return Reply("unknown user!", 403)
        self.logins += 1
        self.tokens.add(f"token-{self.logins}")
        return Reply({"accessToken": f"token-{self.logins}", "tokenTtl": self.ttl, "globalAdmin": False})

    def hosts(self, service, clusters):
        clusters = [c for c in clusters.split(",") if c]
        hosts = [i for i in self.instances.get(service, {}).values() if i["enabled"]]
        return [i for i in hosts if not clusters or i["clusterName"] in clusters]

    def say_v1(self, method, path, fields, agent):
        service = fields.get("serviceName", "")
        if (method, path) == ("GET", "instance/list"):
            if "udpPort" in fields and agent.startswith("Nacos-C-Client:v1.1"):
                self.subscribers.setdefault(service, set()).add((fields["clientIP"], int(fields["udpPort"])))
            return Reply({"name": service, "groupName": service.split("@@")[0], "clusters": "", "cacheMillis": self.cache_msec,
                          "hosts": self.hosts(service, fields.get("clusters", "")), "lastRefTime": 1, "checksum": "",
                          "reachProtectionThreshold": self.forged, "valid": True})
        if (method, path) == ("GET", "service/list"):
            names = [s.split("@@")[1] for s in self.instances]
            first = (int(fields["pageNo"]) - 1) * int(fields["pageSize"])
            return Reply({"count": len(names), "doms": names[first:first + int(fields["pageSize"])]})
        if (method, path) == ("PUT", "instance/beat"):
            known = self.key(fields) in self.instances.get(service, {})
            return Reply({"clientBeatInterval": 5000, "code": 10200 if known else 20404, "lightBeatEnabled": True})
        if path == "instance":
            return self.say_instance(method, service, fields, Reply("ok"), lambda i: Reply({"service": service, **i}))
        return Reply("no such path", 404)

    def say_v3(self, method, path, fields):
        service = f"{fields.get('groupName', 'DEFAULT_GROUP')}@@{fields.get('serviceName', '')}"

        def good(data):
            return Reply({"code": 0, "message": "success", "data": data})

        if (method, path) == ("GET", "client/ns/instance/list"):
            return good(self.hosts(service, fields.get("clusterName") or "DEFAULT"))
        if (method, path) == ("GET", "admin/ns/service/list"):
            return good({"totalCount": len(self.instances), "pageItems": [{"name": s.split("@@")[1]} for s in self.instances]})
        if fields.get("heartBeat") == "true":
            if self.key(fields) in self.instances.get(service, {}):
                return good("ok")
            return Reply({"code": 21003, "message": "instance not found", "data": None})
        if path == "admin/ns/instance/partial":
            return self.say_instance("PATCH", service, fields, good("ok"), good)
        return self.say_instance(method, service, fields, good("ok"), good)

    @staticmethod
    def key(fields):
        return f"{fields['ip']}:{fields['port']}"

    def say_instance(self, method, service, fields, done, describe):
        instances, key = self.instances.setdefault(service, {}), self.key(fields)
        if method == "POST":
            instances[key] = {"ip": fields["ip"], "port": int(fields["port"]), "weight": float(fields.get("weight", 1)),
                              "healthy": fields.get("healthy", "true") == "true",
                              "enabled": fields.get("enabled", "true") == "true",
                              "ephemeral": fields.get("ephemeral", "true") == "true",
                              "clusterName": fields.get("clusterName", "DEFAULT"), "serviceName": service,
                              "metadata": json.loads(fields.get("metadata") or "{}")}
        elif method == "DELETE":
            instances.pop(key, None)
        elif key not in instances:
            return Reply({"code": 20004, "message": "resource not found", "data": "no matched ip found!"}, 404)
        elif method == "PATCH":
            instances[key].update(enabled=fields["enabled"] == "true", weight=float(fields["weight"]))
        else:
            return describe(instances[key])
        return done
