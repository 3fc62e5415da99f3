"""The agents of a real Consul."""

import json
import urllib.request

from servers import Process, from_debian
from usher import free_port


def consul_program():
    """1.8.7 is the last that Debian has, and the last whose licence is free throughout."""
    return from_debian("bullseye", "consul=1.8.7+dfsg1-2+b3") / "usr/bin/consul"


class ConsulServer(Process):
    """One server that is the agent, too. Rules: what ACLs are to be on for; None: without ACLs."""

    MASTER = "11111111-1111-1111-1111-111111111111"

    def __init__(self, folder, acl=False):
        super().__init__(folder)
        self.program = consul_program()
        self.ports = {"http": free_port(), "server": free_port(), "serf_lan": free_port(), "serf_wan": free_port(),
                      "dns": -1, "grpc": -1, "https": -1}
        self.token = self.MASTER if acl else None
        config = {
            "server": True, "bootstrap": True, "node_name": "n1", "data_dir": str(self.data), "bind_addr": "127.0.0.1",
            "client_addr": "127.0.0.1", "ports": self.ports, "performance": {"raft_multiplier": 1},
            "disable_update_check": True, "log_level": "warn", "leave_on_terminate": False,
        }
        if acl:
            config["acl"] = {"enabled": True, "default_policy": "deny",
                             "tokens": {"master": self.MASTER, "agent": self.MASTER}}
        (self.folder / "config.json").write_text(json.dumps(config))

    @property
    def url(self):
        return f"http://127.0.0.1:{self.ports['http']}"

    def command(self):
        return [str(self.program), "agent", f"-config-file={self.folder}/config.json"]

    def is_ready(self):
        """A leader, and the server itself in the catalog."""
        try:
            return self.call("GET", "/v1/status/leader") and self.call("GET", "/v1/health/service/consul")
        except OSError:
            return False

    def call(self, method, path, body=None, token=None):
        headers = {"Content-Type": "application/json"}
        if token or self.token:
            headers["X-Consul-Token"] = token or self.token
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def put(self, service, name, port, ttl=None, status="passing", **more):
        body = {"ID": name, "Name": service, "Address": "127.0.0.1", "Port": port, **more}
        if ttl:
            body["Check"] = {"CheckID": f"service:{name}", "TTL": ttl, "Status": status}
        self.call("PUT", "/v1/agent/service/register?replace-existing-checks=true", body)

    def take(self, name):
        self.call("PUT", f"/v1/agent/service/deregister/{name}")

    def beat(self, name, status="passing"):
        self.call("PUT", f"/v1/agent/check/update/service:{name}", {"Status": status})

    def maintain(self, name, reason):
        more = f"true&reason={reason}" if reason else "false"
        self.call("PUT", f"/v1/agent/service/maintenance/{name}?enable={more}")

    def new_token(self, name, rules):
        self.call("PUT", "/v1/acl/policy", {"Name": name, "Rules": rules})
        return self.call("PUT", "/v1/acl/token", {"Policies": [{"Name": name}]})["SecretID"]
