"""The agents of a real Consul."""

import json
import urllib.request

from servers import Process, from_debian
from usher import free_port


def consul_program():
    """1.8.7 is the last that Debian has, and the last whose licence is free throughout."""
    return from_debian("bullseye", "consul=1.8.7+dfsg1-2+b3") / "usr/bin/consul"


def ports(server=True):
    """Ports of an agent on loopback, where several are to live."""
    names = ["http", "serf_lan"] + (["server", "serf_wan"] if server else [])
    return {**{name: free_port() for name in names}, "dns": -1, "grpc": -1, "https": -1}


class Agent(Process):
    """An agent that listens on loopback. config: what it has beyond that."""

    def __init__(self, folder, name, config, token=None):
        super().__init__(folder)
        self.program = consul_program()
        self.name, self.token = name, token
        self.ports = config["ports"]
        (self.folder / "config.json").write_text(json.dumps({
            "node_name": name, "data_dir": str(self.data), "bind_addr": "127.0.0.1", "client_addr": "127.0.0.1",
            "performance": {"raft_multiplier": 1}, "disable_update_check": True, "log_level": "warn",
            "leave_on_terminate": False, **config}))

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


class ConsulServer(Agent):
    """One server that is the agent, too."""

    MASTER = "11111111-1111-1111-1111-111111111111"

    def __init__(self, folder, acl=False):
        config = {"server": True, "bootstrap": True, "ports": ports()}
        if acl:
            config["acl"] = {"enabled": True, "default_policy": "deny",
                             "tokens": {"master": self.MASTER, "agent": self.MASTER}}
        super().__init__(folder, "n1", config, token=self.MASTER if acl else None)


class ConsulCluster:
    """Three servers, and the agent of the node, as it is run in earnest."""

    def __init__(self, folder):
        self.of_servers = [ports() for _ in range(3)]
        lan = [f"127.0.0.1:{each['serf_lan']}" for each in self.of_servers]
        common = {"retry_join": lan, "retry_interval": "1s"}
        self.servers = [Agent(folder / f"s{i}", f"s{i}", {
            **common, "server": True, "bootstrap_expect": 3, "ports": each, "retry_join_wan": []})
            for i, each in enumerate(self.of_servers)]
        self.agent = Agent(folder / "agent", "node-1", {**common, "server": False, "ports": ports(server=False)})

    def __enter__(self):
        try:
            for each in [*self.servers, self.agent]:
                each.start(wait=False)
            self.wait_ready()
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        for each in [self.agent, *self.servers]:
            each.kill()

    def wait_ready(self):
        for each in [*self.servers, self.agent]:
            each.wait_ready()

    def leader(self):
        """The server that leads, as the agent knows."""
        address = self.agent.call("GET", "/v1/status/leader")
        return next(s for s in self.servers if address.endswith(f":{s.ports['server']}"))
