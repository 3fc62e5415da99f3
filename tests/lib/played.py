"""Registries that are played, by what all of them have in common:

    registry = Consul()                     # or Etcd, Eureka, Kubernetes, Nacos, ZooKeeper, Dns
    registry.put("catalog", "a", "b")       # instances, each at an address of its own; put again: described anew
    registry.put("catalog")                 # a service of which there is nothing
    registry.take("catalog", "a")
    registry.poison("catalog")              # and one that nobody can use
    registry.wipe()                         # it is started again and knows nothing
    registry.fail(), registry.deny()        # whatever is asked, until registry.behave()
    registry.delay(2)                       # it answers so many seconds late, and knows no more than when it was asked
    registry.options                        # of the source; with registry.other_options(n) it is another one
    registry.asked()                        # how many questions it was asked
    registry.id_of("a"), registry.port_in(endpoint)

Everything else is the server's own, of scripted_*.py: registry.server.
"""

import time
import zlib

import jute
import scripted_consul
import scripted_dns
import scripted_etcd
import scripted_eureka
import scripted_kubernetes
import scripted_nacos
import scripted_registry
import scripted_zookeeper
from scripted_registry import Reply


def port_of(name):
    return 1024 + zlib.crc32(name.encode()) % 60000


class Played:
    def other_options(self, n):
        """Options that mean the same, and make another source of it."""
        return {"connect_timeout": f"{3000 + n}ms"}

    def id_of(self, name):
        """What usher calls it."""
        return name

    def ids_of(self, names):
        return [self.id_of(name) for name in names]

    def port_in(self, endpoint):
        """The port that it was put with."""
        return endpoint["port"]

    def poison(self, service):
        """One instance more, of which usher cannot hold what it says, though it is JSON."""
        self.put(service, "n\0l")


class OverHttp(Played):
    """One whose server is a scripted registry."""

    denial = Reply({"message": "permission denied"}, 403)

    def __init__(self, server):
        self.server = server

    @property
    def options(self):
        return {"servers": [self.server.url], **self.pace}

    def __enter__(self):
        self.server.start()
        return self

    def __exit__(self, *_):
        self.server.stop()

    def stop(self):
        self.server.stop()

    def start(self):
        self.server.start()

    def wipe(self):
        self.stop()
        self.forget()
        self.start()

    def say_always(self, answer):
        self.server.faults.append(scripted_registry.Fault(answer, times=None))
        self.hang_up()

    def fail(self):
        self.say_always(lambda request: Reply("", 500))

    def deny(self):
        self.say_always(lambda request: self.denial)

    def delay(self, seconds):
        def late(request):
            said = self.server.answer(request)
            time.sleep(seconds)
            return said

        self.server.faults.append(scripted_registry.Fault(late, times=None))

    def behave(self):
        self.server.faults.clear()

    def hang_up(self):
        """What is waited for ends."""
        with self.server.lock:
            connections = list(self.server.connections)
        for connection in connections:
            connection.close()

    def asked(self):
        return len(self.server.requests)


class Consul(OverHttp):
    plugin = "consul"
    pace = {"wait": "1s", "poll": "1s", "hold": "2s"}

    def __init__(self):
        super().__init__(scripted_consul.Consul())

    def put(self, service, *names, **more):
        self.server.put(service, *names, **more)

    def take(self, service, *names):
        self.server.take(service, *names)

    def forget(self):
        with self.server.change():
            self.server.instances = {name: one for name, one in self.server.instances.items() if name == "consul"}
            self.server.index = 1


class Etcd(OverHttp):
    plugin = "etcd"
    pace = {"probe": "500ms"}
    denial = Reply({"code": 7, "message": "etcdserver: permission denied"}, 403)

    def __init__(self):
        super().__init__(scripted_etcd.Etcd())

    def put(self, service, *names, port=None):
        for name in names:
            self.server.instance(service, name, port or port_of(name))

    def take(self, service, *names):
        for name in names:
            self.server.gone(service, name)

    def poison(self, service):
        self.server.instance(service, "nul", 80, metadata={"x": "a\0b"})

    def forget(self):
        self.server.wipe()


class Eureka(OverHttp):
    plugin = "eureka"
    pace = {"interval": "1s", "cache": "0s"}
    denial = Reply({"error": "Unauthorized"}, 401)

    def __init__(self):
        super().__init__(scripted_eureka.Eureka())

    def put(self, service, *names, **more):
        self.server.put(service.upper(), *names, **more)

    def take(self, service, *names):
        self.server.take(service.upper(), *names)

    def forget(self):
        self.server.lose_all()


class Nacos(OverHttp):
    plugin = "nacos"
    pace = {"poll": "200ms", "hold": "2s"}
    denial = Reply({"status": 403, "error": "Forbidden"}, 403)

    def __init__(self):
        super().__init__(scripted_nacos.Nacos())

    def put(self, service, *names, **more):
        if service in [s.removeprefix("DEFAULT_GROUP@@") for s in self.server.instances]:
            self.take(service, *names)
        self.server.put(service, *names, **more)

    def take(self, service, *names):
        self.server.take(service, *names)

    def forget(self):
        self.server.instances.clear()


class Kubernetes(OverHttp):
    """The endpoints of a Service in one slice."""

    plugin = "kubernetes"
    pace = {"prove": "500ms"}
    denial = Reply(scripted_kubernetes.status(403, "Forbidden", "endpointslices is forbidden"), 403)

    def __init__(self):
        self.cluster = scripted_kubernetes.Cluster()
        self.pods = {}
        super().__init__(scripted_registry.Registry(self.cluster.answer))

    def __exit__(self, *_):
        self.cluster.end_watches()
        super().__exit__()

    def put(self, service, *names, port=None):
        for name in names:
            # A slice has one port for all, so what tells two descriptions apart is in the address.
            number = (port or port_of(name)) % 65536
            address = f"10.{zlib.crc32(name.encode()) % 256}.{number // 256}.{number % 256}"
            self.pods.setdefault(service, {})[name] = scripted_kubernetes.pod(name, address)
        self.write(service)

    def port_in(self, endpoint):
        high, low = endpoint["address"].split(".")[2:]
        return int(high) * 256 + int(low)

    def take(self, service, *names):
        for name in names:
            del self.pods[service][name]
        self.write(service)

    def write(self, service):
        self.cluster.put(scripted_kubernetes.endpoint_slice(f"{service}-1", service, list(self.pods.get(service, {}).values())))

    def forget(self):
        self.pods = {}
        self.cluster.end_watches()
        self.cluster.restore(3, [])

    def hang_up(self):
        self.cluster.end_watches()
        super().hang_up()


class ZooKeeper(Played):
    plugin = "zookeeper"

    def __init__(self):
        self.server = scripted_zookeeper.ZooKeeper()
        self.runs = True

    @property
    def options(self):
        return {"servers": [self.server.address], "probe": "500ms"}

    def __enter__(self):
        # What a service is below is there, though nobody may be in it.
        self.server.put("/services", b"")
        return self

    def __exit__(self, *_):
        if self.runs:
            self.stop()

    def put(self, service, *names, port=None):
        for name in names:
            self.server.instance(service, name, port or port_of(name))

    def take(self, service, *names):
        for name in names:
            self.server.gone(service, name)

    def poison(self, service):
        self.server.instance(service, "nul", 80, metadata={"x": "a\0b"})

    def stop(self):
        self.server.stop()
        self.runs = False

    def start(self):
        self.server.start()
        self.runs = True

    def wipe(self):
        self.stop()
        self.server.forget()
        self.server.put("/services", b"")
        self.start()

    def say_always(self, answer):
        # Whatever they wait for, they keep: the question after it is in error.
        is_question = lambda request: request is not None and request.op != jute.PING  # noqa: E731
        self.server.faults.append(scripted_zookeeper.Fault(answer, None, is_question))
        self.server.expire()

    def fail(self):
        self.say_always(scripted_zookeeper.cut)

    def deny(self):
        self.say_always(scripted_zookeeper.error(jute.NO_AUTH))

    def delay(self, seconds):
        def late(connection, request):
            send = connection.send
            connection.send = lambda data: (time.sleep(seconds), send(data))
            connection.answer(request)
            connection.send = send

        self.server.faults.append(scripted_zookeeper.Fault(late, None, lambda request: request is not None))

    def behave(self):
        self.server.faults.clear()

    def asked(self):
        return len(self.server.greetings) + len([r for r in list(self.server.requests) if r.op != jute.PING])


class Dns(Played):
    """A service is the name below test. with an SRV record for each."""

    plugin = "dns"

    def __init__(self):
        self.server = scripted_dns.DnsServer()
        self.offered = {}

    @property
    def options(self):
        return {"servers": [self.server.address], "name": "_x._tcp.{name}.test", "ttl_min": "200ms", "ttl_max": "200ms",
                "timeout": "5s", "hold": "1s"}

    def __enter__(self):
        self.server.start()
        return self

    def __exit__(self, *_):
        self.server.stop()

    def other_options(self, n):
        return {"timeout": f"{5000 + n}ms"}

    def id_of(self, name):
        return f"127.0.0.1:{port_of(name)}"

    def put(self, service, *names, port=None):
        for name in names:
            self.server.a(f"{name}.test", "127.0.0.1")
            self.offered.setdefault(service, {})[name] = port or port_of(name)
        self.write(service)

    def take(self, service, *names):
        for name in names:
            del self.offered[service][name]
        self.write(service)

    def write(self, service):
        name = f"_x._tcp.{service}.test"
        records = [(10, 1, port, f"{one}.test") for one, port in self.offered.get(service, {}).items()]
        if records:
            self.server.srv(name, *records)
        else:
            self.server.drop(name)

    def stop(self):
        self.server.stop()

    def start(self):
        self.server.start()

    def wipe(self):
        self.server.stop()
        self.offered = {}
        with self.server.lock:
            self.server.records.clear()
        self.server.start()

    def fail(self):
        self.server.faults.append(scripted_dns.Fault(scripted_dns.servfail, times=None))

    def delay(self, seconds):
        self.server.faults.append(scripted_dns.Fault(scripted_dns.late(seconds), times=None))

    def behave(self):
        self.server.faults.clear()

    def asked(self):
        return len(self.server.questions)


def config(registry, services=("catalog",), guard=None, max_age="5m", options=None):
    """Of an usherd whose source `it` is that registry."""
    policy = {"freshness": {"max_age": max_age, "on_stale": "serve"}, "startup_timeout": "100ms"}
    return {
        "sources": [{"name": "it", "plugin": registry.plugin, "options": {**registry.options, **(options or {})}}],
        "defaults": {"sources": ["it"], **policy, **({"removal_guard": guard} if guard else {})},
        "services": services if isinstance(services, dict) else {name: {} for name in services},
    }


OVER_HTTP = [Consul, Etcd, Eureka, Kubernetes, Nacos]
IN_JSON = [*OVER_HTTP, ZooKeeper]
ALL = [Consul, Etcd, Eureka, Kubernetes, Nacos, ZooKeeper, Dns]
