"""Real servers of Spring Cloud Netflix Eureka, one alone or two that are peers."""

import json
import pathlib
import time
import urllib.error
import urllib.request

from java_servers import JVM, JavaServer, class_path

HERE = pathlib.Path(__file__).parent / "eureka"
DATACENTER = {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"}


def eureka_classes():
    return class_path("eureka-5.0.3", HERE)


class EurekaServer(JavaServer):
    """Its caches are refreshed every half a second; all else is as Spring has it, also that it preserves itself."""

    def __init__(self, folder, hostname="127.0.0.1", memory="256m"):
        super().__init__(folder)
        self.hostname, self.memory = hostname, memory
        self.peer = self
        self.stamp = 0  # of the last description: of two the server takes the newer one

    @property
    def url(self):
        return f"http://{self.hostname}:{self.port}/eureka"

    def command(self):
        properties = {
            "server.port": self.port, "server.address": "127.0.0.1", "eureka.instance.hostname": self.hostname,
            # Peers are told apart by their host names; one's own is left out.
            "eureka.client.service-url.defaultZone": self.peer.url + "/", "eureka.client.register-with-eureka": "false",
            "eureka.client.fetch-registry": str(self.peer is not self).lower(),
            "eureka.client.registry-fetch-interval-seconds": 5, "eureka.server.response-cache-update-interval-ms": 500,
            "eureka.server.registry-sync-retries": 3, "eureka.server.registry-sync-retry-wait-ms": 500,
            "eureka.server.wait-time-in-ms-when-sync-empty": 0, "spring.main.banner-mode": "off",
        }
        return ["java", *JVM, f"-Xmx{self.memory}", "-cp", eureka_classes(), "Eureka",
                *(f"--{name}={value}" for name, value in properties.items())]

    def answers(self):
        try:
            return self.one("NOBODY", "nobody") is None
        except OSError:
            return False

    def page(self):
        """What it shows to people."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=60) as answer:
            return answer.read().decode()

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/eureka{path}", data, method=method,
                                         headers={"Accept": "application/json", "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def instance(self, app, name, port, status="UP", lease=90, **metadata):
        self.stamp = max(self.stamp + 1, time.time_ns() // 1000000)
        return {"instanceId": name, "hostName": "127.0.0.1", "app": app, "ipAddr": "127.0.0.1", "status": status,
                "vipAddress": app.lower(), "port": {"$": port, "@enabled": "true"}, "securePort": {"$": 443, "@enabled": "false"},
                "dataCenterInfo": DATACENTER, "leaseInfo": {"renewalIntervalInSecs": 30, "durationInSecs": lease},
                "metadata": metadata, "lastDirtyTimestamp": str(self.stamp)}

    def put(self, app, name, port, **more):
        self.call("POST", f"/apps/{app}", {"instance": self.instance(app, name, port, **more)})

    def put_many(self, instances):
        """As a peer does it."""
        self.call("POST", "/peerreplication/batch/", {"replicationList": [
            {"appName": one["app"], "id": one["instanceId"], "lastDirtyTimestamp": int(one["lastDirtyTimestamp"]),
             "status": one["status"], "instanceInfo": one, "action": "Register"} for one in instances]})

    def take(self, app, name):
        self.call("DELETE", f"/apps/{app}/{name}")

    def beat(self, app, name):
        self.call("PUT", f"/apps/{app}/{name}?status=UP&lastDirtyTimestamp=1")

    def override(self, app, name, status):
        self.call("PUT" if status else "DELETE", f"/apps/{app}/{name}/status?value={status or 'UP'}")

    def one(self, app, name):
        """None: it is not there."""
        try:
            return self.call("GET", f"/apps/{app}/{name}")["instance"]
        except urllib.error.HTTPError as e:
            if e.code != 404:
                raise
            return None
