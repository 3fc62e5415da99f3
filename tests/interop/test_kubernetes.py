"""The real usherd against a real API server of Kubernetes, which is driven with kubectl. No controller runs: the slices are
as the tests write them."""

# Needs from Debian: debian-archive-keyring dpkg openssl

import base64
import concurrent.futures
import itertools
import json
import time

import pytest
from kubernetes_api import ApiServer, api_server, etcd, kubectl
from scripted_kubernetes import endpoint_slice, pod
from usher import replace_file, wait_until

SERVER = "kube-apiserver 1.37.2 over etcd 3.5.16 of Debian 13"
BUILDS = [etcd, api_server, kubectl]
SPACES = (f"space-{i}" for i in itertools.count())
READER = {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    with ApiServer(tmp_path_factory.mktemp("kubernetes") / "api") as server:
        yield server


@pytest.fixture
def api(started):
    """Up, whatever the test before has done to it."""
    if started.etcd.process.poll() is not None:
        started.etcd.start()
    if started.process.poll() is not None:
        started.start()
    return started


@pytest.fixture
def space(api):
    """A namespace of the test's own."""
    name = next(SPACES)
    api.kubectl("create", "namespace", name)
    return name


def slice_of(space, name, endpoints, service="catalog", **more):
    made = endpoint_slice(name, service, endpoints, namespace=space, **more)
    for one in made["endpoints"] or []:
        one["targetRef"]["namespace"] = space
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", **made, "endpoints": made["endpoints"] or []}


def service(space, name="catalog"):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": space},
            "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]}}


def two():
    return {"endpoints": [pod("a", "10.1.0.1", zone="east"), pod("b", "10.1.0.2", zone="west")]}


def start(usherd, api, space, options=None, servers=None, environment=None, **settings):
    whole = {"servers": servers or [api.url], "ca": str(api.ca), "certificate": str(api.admin[0]), "key": str(api.admin[1]),
             "namespace": space, "prove": "1s"}
    daemon = usherd({
        "sources": [{"name": "cluster", "plugin": "kubernetes", "options": whole if options is None else options}],
        "services": {"catalog": {"freshness": {"max_age": "10s", "on_stale": "serve"}, **settings}},
    }, environment=environment)
    daemon.start()
    return daemon


def feed(daemon):
    return daemon.get("/v1/services/catalog")["feeds"][0]


def wait_live(daemon):
    wait_until("it is live", lambda: feed(daemon)["state"] == "live" and not feed(daemon)["error"])


def everything(daemon):
    return {e["id"]: e for e in daemon.get("/v1/services/catalog/endpoints?all=true")["endpoints"]}


def test_appear_change_drain_restore_disappear(usherd, api, space):
    api.apply(service(space), slice_of(space, "catalog-1", **two()))
    # The API takes no addresses of loopback, so nobody can be asked whether he is back.
    daemon = start(usherd, api, space, restore={"probe": {"enabled": False}})
    daemon.wait_listed(["a", "b"])
    one = daemon.listed()["a"]
    assert (one["address"], one["port"], one["zone"]) == ("10.1.0.1", 8080, "east")
    api.apply(slice_of(space, "catalog-2", [pod("c", "10.1.0.3")]))
    daemon.wait_listed(["a", "b", "c"])
    api.apply(slice_of(space, "catalog-2", [pod("c", "10.1.0.3", ready=False)]))
    wait_until("c is not ready", lambda: "c" not in daemon.listed() and everything(daemon)["c"]["conditions"]["ready"] is False)
    api.apply(slice_of(space, "catalog-2", [pod("c", "10.1.0.3", ready=False, serving=True, terminating=True)]))
    wait_until("c is terminating", lambda: everything(daemon)["c"]["conditions"]["terminating"])
    api.kubectl("delete", "endpointslice", "catalog-2", "-n", space)
    wait_until("c is gone", lambda: "c" not in everything(daemon))

    drain = daemon.drain("a")
    daemon.wait_finished(drain["id"])
    assert daemon.picked() == {"b"}
    daemon.restore("a")
    wait_until("a is back", lambda: daemon.picked() == {"a", "b"})

    api.apply(slice_of(space, "catalog-1", [pod("b", "10.1.0.2")]))
    daemon.wait_listed(["b"])


def test_an_empty_slice_is_an_empty_service_and_a_deleted_service_is_doubted(usherd, api, space):
    api.apply(slice_of(space, "catalog-1", **two()))
    daemon = start(usherd, api, space, removal_guard={"hold": "2s"})
    daemon.wait_listed(["a", "b"])
    api.apply(slice_of(space, "catalog-1", None))
    daemon.wait_listed([])
    api.apply(slice_of(space, "catalog-1", **two()))
    daemon.wait_listed(["a", "b"])
    api.kubectl("delete", "endpointslice", "catalog-1", "-n", space)
    wait_until("it is doubted", lambda: feed(daemon)["held"])
    daemon.wait_listed([])


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_restart_loses_nothing(usherd, api, space, report, how):
    api.apply(slice_of(space, "catalog-1", **two()))
    daemon = start(usherd, api, space)
    daemon.wait_listed(["a", "b"])
    with report.nothing_lost(daemon, "ab", how):
        api.kill() if how == "killed" else api.stop()
        wait_until("it fails", lambda: feed(daemon)["error"])
        api.start()
        wait_live(daemon)
    api.apply(slice_of(space, "catalog-2", [pod("c", "10.1.0.3")]))
    daemon.wait_listed(["a", "b", "c"])


@pytest.mark.parametrize("who", ["server", "store"])
def test_what_is_frozen_is_noticed_and_loses_nothing(usherd, api, space, report, who):
    api.apply(slice_of(space, "catalog-1", **two()))
    daemon = start(usherd, api, space)
    daemon.wait_listed(["a", "b"])
    frozen = api if who == "server" else api.etcd
    with report.nothing_lost(daemon, "ab", f"frozen (SIGSTOP {'kube-apiserver' if who == 'server' else 'etcd'})"):
        frozen.freeze()
        wait_until("it is noticed", lambda: feed(daemon)["error"])
        frozen.thaw()
        wait_live(daemon)
    api.apply(slice_of(space, "catalog-2", [pod("c", "10.1.0.3")]))
    daemon.wait_listed(["a", "b", "c"])


def test_a_server_whose_store_is_killed_proves_nothing(usherd, api, space, report):
    api.apply(slice_of(space, "catalog-1", **two()))
    daemon = start(usherd, api, space)
    daemon.wait_listed(["a", "b"])
    with report.nothing_lost(daemon, "ab", "without its etcd"):
        api.etcd.kill()
        wait_until("it ages", lambda: feed(daemon)["age_ms"] > 4000)
        wait_until("it is noticed", lambda: feed(daemon)["error"])
        api.etcd.start()
        wait_live(daemon)
    api.apply(slice_of(space, "catalog-2", [pod("c", "10.1.0.3")]))
    daemon.wait_listed(["a", "b", "c"])


def test_a_version_that_is_too_old_leads_to_a_list_that_loses_nothing(usherd, api, space, report, tmp_path):
    """The server comes back without the history that the watch was to go on from, and the store has none either."""
    api.apply(slice_of(space, "catalog-1", **two()))
    daemon = start(usherd, api, space)
    daemon.wait_listed(["a", "b"])
    with ApiServer(tmp_path / "twin", twin=api) as twin, report.nothing_lost(daemon, "ab", "compacted (410)"):
        api.kill()
        twin.apply(slice_of(space, "catalog-2", [pod("c", "10.1.0.3")]))
        api.etcd.compact()
        api.start()
        daemon.wait_listed(["a", "b", "c"])
    assert "is too old" in daemon.log_text()


def test_a_wiped_store_loses_nothing_for_the_time_of_the_guard(usherd, api, space, report):
    api.apply(slice_of(space, "catalog-1", **two()))
    for i in range(30):
        api.call("PATCH", f"/apis/discovery.k8s.io/v1/namespaces/{space}/endpointslices/catalog-1",
                 {"metadata": {"labels": {"round": f"r{i}"}}}, "application/merge-patch+json")
    daemon = start(usherd, api, space, removal_guard={"hold": "2m"})
    daemon.wait_listed(["a", "b"])
    with report.nothing_lost(daemon, "ab", "wiped"):
        api.kill()
        api.etcd.kill()
        api.wipe()
        api.start()
        wait_until("it is held", lambda: feed(daemon)["held"])
        api.kubectl("create", "namespace", space)
        api.apply(slice_of(space, "catalog-1", **two()))
        wait_until("nothing is held", lambda: not feed(daemon)["held"])


def test_another_server_over_the_same_store_takes_over(usherd, api, space, report, tmp_path):
    api.apply(slice_of(space, "catalog-1", **two()))
    with ApiServer(tmp_path / "twin", twin=api) as twin:
        daemon = start(usherd, api, space, servers=[api.url, twin.url])
        daemon.wait_listed(["a", "b"])
        with report.nothing_lost(daemon, "ab", "one of two killed"):
            for down, up in ((api, twin), (twin, api)):
                down.kill()
                name = f"catalog-{down.folder.name}"
                up.apply(slice_of(space, name, [pod("c", "10.1.0.3")]))
                daemon.wait_listed(["a", "b", "c"])
                up.kubectl("delete", "endpointslice", name, "-n", space)
                daemon.wait_listed(["a", "b"])
                down.start()


# ---- who is let in ----


def let_in(api, space, account="usher"):
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "usher", "namespace": space},
            "rules": [READER]}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
               "metadata": {"name": "usher", "namespace": space},
               "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "usher"},
               "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": space}]}
    api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": space}}, role, binding)
    return api.token(account, space, "10m")


def test_a_pod_is_let_in_by_its_service_account_and_no_more_than_that(usherd, api, space, report, tmp_path):
    """As in a pod: the folder with token, ca.crt and namespace, and where the server is in the environment."""
    account = tmp_path / "serviceaccount"
    account.mkdir()
    (account / "token").write_text(let_in(api, space))
    (account / "ca.crt").write_text(api.ca.read_text())
    (account / "namespace").write_text(space)
    api.apply(slice_of(space, "catalog-1", **two()))
    daemon = start(usherd, api, space, {"service_account": str(account), "prove": "1s"},
                   environment={"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(api.port)})
    daemon.wait_listed(["a", "b"])
    user = f"system:serviceaccount:{space}:usher"
    assert "usher" not in api.kubectl("get", "clusterrolebindings", "-o", "name")
    with report.nothing_lost(daemon, "ab", "rights and token taken away"):
        api.kubectl("delete", "rolebinding", "usher", "-n", space)
        wait_until("it is denied", lambda: "403" in (feed(daemon)["error"] or "") and user in feed(daemon)["error"])
        let_in(api, space)
        wait_live(daemon)
        api.kubectl("delete", "serviceaccount", "usher", "-n", space)
        wait_until("the token is not taken", lambda: "401" in (feed(daemon)["error"] or ""))
        assert feed(daemon)["state"] in ("denied", "live", "stale")
        replace_file(account / "token", let_in(api, space))
        wait_live(daemon)
    api.apply(slice_of(space, "catalog-1", [pod("b", "10.1.0.2")]))
    daemon.wait_listed(["b"])
    assert "eyJ" not in daemon.log_text()


def encoded(path):
    return base64.b64encode(path.read_bytes()).decode()


def test_a_kubeconfig_with_client_certificates_is_followed(usherd, api, space, tmp_path):
    certificate, key = api.authority.issue(f"reader-{space}", "/O=readers/CN=reader")
    api.kubectl("create", "role", "reader", "-n", space, "--verb=list,watch", "--resource=endpointslices.discovery.k8s.io")
    api.kubectl("create", "rolebinding", "reader", "-n", space, "--role=reader", "--group=readers")
    api.apply(slice_of(space, "catalog-1", **two()))
    path = tmp_path / "kubeconfig"
    whole = api.kubeconfig_of({"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}, space)
    whole["clusters"][0]["cluster"] = {"server": api.url, "certificate-authority-data": encoded(api.ca)}
    replace_file(path, json.dumps(whole))
    daemon = start(usherd, api, space, {"kubeconfig": str(path), "prove": "1s"})
    daemon.wait_listed(["a", "b"])
    stranger = api.authority.issue(f"stranger-{space}", "/O=strangers/CN=stranger")
    whole["users"][0]["user"] = {"client-certificate": str(stranger[0]), "client-key": str(stranger[1])}
    replace_file(path, json.dumps(whole))
    wait_until("the stranger is not let in", lambda: '"stranger" cannot list' in (feed(daemon)["error"] or ""))
    assert set(daemon.listed()) == {"a", "b"}


def test_a_server_that_cannot_be_trusted_is_told_nothing(usherd, api, space):
    api.apply(slice_of(space, "catalog-1", **two()))
    other, _ = api.authority.make(f"other-{space}", "/CN=other", "basicConstraints=critical,CA:TRUE")
    options = {"servers": [api.url], "ca": str(other), "token": "secret", "namespace": space}
    daemon = start(usherd, api, space, options, startup_timeout="100ms")
    wait_until("it is said", lambda: "certificate" in (feed(daemon)["error"] or "").lower())
    assert "secret" not in daemon.log_text()


def test_a_certificate_of_another_name_needs_that_name(usherd, api, space):
    api.apply(slice_of(space, "catalog-1", **two()))
    options = {"servers": [api.url.replace("127.0.0.1", "localhost")], "ca": str(api.ca), "namespace": space,
               "certificate": str(api.admin[0]), "key": str(api.admin[1]), "server_name": "kubernetes.default.svc"}
    start(usherd, api, space, options).wait_listed(["a", "b"])


# ---- how much, and how fast ----

SERVICES, ENDPOINTS = 1000, 100


def many(space, i):
    pods = [pod(f"p{i}-{k}", f"10.{i // 250}.{i % 250}.{k + 1}", zone="east") for k in range(ENDPOINTS)]
    return slice_of(space, f"service-{i}-1", pods, f"service-{i}")


def test_a_thousand_services_of_a_hundred_endpoints_each(usherd, api, space, report):
    path = f"/apis/discovery.k8s.io/v1/namespaces/{space}/endpointslices"
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: api.call("POST", path, many(space, i)), range(SERVICES)))
    api.apply(slice_of(space, "catalog-1", **two()))
    before = time.monotonic()
    daemon = usherd({
        "sources": [{"name": "cluster", "plugin": "kubernetes", "options": {
            "servers": [api.url], "ca": str(api.ca), "certificate": str(api.admin[0]), "key": str(api.admin[1]),
            "namespace": space, "watch": "namespace"}}],
        "services": {"catalog": {}, **{f"service-{i}": {} for i in range(SERVICES)}},
    })
    daemon.start()
    daemon.wait_listed(["a", "b"])
    for i in range(SERVICES):
        daemon.wait_listed([f"p{i}-{k}" for k in range(ENDPOINTS)], f"service-{i}")
    report.fact("100,000 endpoints in 1,000 services listed after", f"{time.monotonic() - before:.1f} s")
    before = time.monotonic()
    with daemon.watch("service-7") as stream:
        stream.next()
        one = many(space, 7)
        one["endpoints"] = one["endpoints"][:-1]
        api.call("PUT", f"{path}/service-7-1", one)
        stream.until(lambda line: line.get("removed") == [f"p7-{ENDPOINTS - 1}"])
    report.fact("among them a removal is seen after", f"{(time.monotonic() - before) * 1000:.0f} ms")


def test_the_time_from_a_write_to_the_watchers_line(usherd, api, space, report):
    api.apply(slice_of(space, "catalog-1", **two()))
    daemon = start(usherd, api, space)
    daemon.wait_listed(["a", "b"])
    times = []
    with daemon.watch() as stream:
        stream.next()
        for i in range(60):
            # As changes come in a rollout: the bucket that holds back a storm is not what is measured.
            time.sleep(0.3)
            before = time.monotonic()
            api.call("PATCH", f"/apis/discovery.k8s.io/v1/namespaces/{space}/endpointslices/catalog-1",
                     {"metadata": {"labels": {"round": f"r{i}"}}}, "application/merge-patch+json")
            stream.until(lambda line: f"'r{i}'" in str(line))
            times.append((time.monotonic() - before) * 1000)
    report.times(times)


# ---- the Pods of this node ----

RIGHTS = [READER, {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
          {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
          {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}]
GATE, DRAINED, ANNOTATION = "usher.dev/ready", "usher.dev/drained", "usher.dev/drain"


class Node:
    """The Pods of a node, and their slice as the cluster's controllers would have it."""

    def __init__(self, api, space):
        self.api, self.space, self.states = api, space, {}

    def make(self, name, gate=True):
        spec = {"nodeName": "node-1", "terminationGracePeriodSeconds": 600, "containers": [{"name": "app", "image": "none"}]}
        if gate:
            spec["readinessGates"] = [{"conditionType": GATE}]
        self.api.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": self.space}, "spec": spec})
        self.show(name, ready=True)
        return self.pod(name)["metadata"]["uid"]

    def pod(self, name):
        return self.api.call("GET", f"/api/v1/namespaces/{self.space}/pods/{name}")

    def condition(self, name, kind):
        found = [c for c in self.pod(name)["status"].get("conditions", []) if c["type"] == kind]
        return (found[0]["status"], found[0]["reason"]) if found else None

    def annotate(self, name, value):
        self.api.kubectl("annotate", "pod", name, "-n", self.space, "--overwrite",
                         f"{ANNOTATION}={value}" if value else f"{ANNOTATION}-")

    def show(self, name, **state):
        """What the endpoint slice controller would write of it; without a state it has gone."""
        self.states[name] = {**state, "uid": self.pod(name)["metadata"]["uid"]} if state else None
        pods = [pod(one, f"10.1.0.{ord(one)}", **its) for one, its in self.states.items() if its]
        self.api.apply(slice_of(self.space, "catalog-1", pods))

    def events(self, name):
        told = json.loads(self.api.kubectl("get", "events", "-n", self.space, "-o", "json",
                                           "--field-selector", f"involvedObject.name={name}"))
        return {one["reason"]: one for one in told["items"]}


@pytest.fixture
def node(api, space):
    return Node(api, space)


@pytest.fixture
def follow(usherd, api, space, tmp_path):
    """An usherd of node-1 that has the rights which the documentation asks for, and no others."""
    let_in(api, space)
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": space}, "rules": RIGHTS}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": space},
               "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": space},
               "subjects": [{"kind": "ServiceAccount", "name": "usher", "namespace": space}]}
    api.apply(role, binding)
    token = tmp_path / "token"
    token.write_text(api.token("usher", space))
    options = {"servers": [api.url], "ca": str(api.ca), "token_file": str(token), "namespace": space, "prove": "1s",
               "pods": True}

    def make():
        return start(usherd, api, space, options, environment={"USHER_NODE_NAME": "node-1"},
                     restore={"probe": {"enabled": False}}, drain={"deadline": "10m", "propagation": {"registry": "5m"}})

    return make


def drains(daemon):
    return daemon.get("/v1/drains")["drains"]


def test_an_annotation_drains_a_pod_and_its_removal_brings_it_back(follow, node, space, api):
    uid = node.make("a")
    node.make("b")
    daemon = follow()
    daemon.wait_listed(["a", "b"])
    node.annotate("a", "kernel update")
    wait_until("its gate is shut", lambda: node.condition("a", GATE) == ("False", "Deregistered"))
    wait_until("the step is told", lambda: node.condition("a", DRAINED) == ("False", "Propagation"))
    assert daemon.picked() == {"b"}
    node.show("a", ready=False)
    api.kubectl("wait", f"--for=condition={DRAINED}", "pod/a", "-n", space, "--timeout=60s")
    (drain,) = drains(daemon)
    assert drain["uid"] == uid and "kernel update" in drain["reason"] and drain["requested_by"] == "source cluster"
    assert node.condition("a", DRAINED) == ("True", "Drained")
    wait_until("it is told as an Event", lambda: {"Propagation", "Drained"} <= set(node.events("a")))
    assert node.events("a")["Drained"]["source"]["component"] == "usherd"
    assert "catalog" in node.events("a")["Drained"]["message"]

    node.annotate("a", None)
    wait_until("its gate is open", lambda: (node.condition("a", GATE) or " ")[0] == "True")
    node.show("a", ready=True)
    wait_until("a is back", lambda: daemon.picked() == {"a", "b"})
    wait_until("that is told, too", lambda: node.condition("a", DRAINED) == ("False", "DrainCancelled"))
    assert "eyJ" not in daemon.log_text()


def test_a_pod_that_is_deleted_is_drained_and_its_successor_is_not(follow, node, space, api):
    node.make("a", gate=False)
    node.make("b", gate=False)
    daemon = follow()
    daemon.wait_listed(["a", "b"])
    api.kubectl("delete", "pod", "a", "-n", space, "--wait=false")
    wait_until("it is drained", lambda: drains(daemon))
    node.show("a", ready=False, serving=True, terminating=True)
    api.kubectl("wait", f"--for=condition={DRAINED}", "pod/a", "-n", space, "--timeout=60s")
    (drain,) = drains(daemon)
    assert "is being deleted" in drain["reason"] and daemon.picked() == {"b"}
    assert not drain["partial"]  # the cluster knows
    api.kubectl("delete", "pod", "a", "-n", space, "--grace-period=0", "--force")
    node.make("a", gate=False)
    wait_until("its successor is picked", lambda: daemon.picked() == {"a", "b"})
    assert len(drains(daemon)) == 1


def test_what_is_asked_for_holds_over_restarts_of_both(follow, node, api):
    node.make("a")
    node.make("b")
    daemon = follow()
    daemon.wait_listed(["a", "b"])
    node.annotate("a", "disk")
    wait_until("its gate is shut", lambda: node.condition("a", GATE) == ("False", "Deregistered"))
    node.show("a", ready=False)
    wait_until("it is drained", lambda: node.condition("a", DRAINED) == ("True", "Drained"))
    api.kill()
    wait_until("it is noticed", lambda: "cannot be followed" in daemon.log_text())
    assert daemon.picked() == {"b"}
    api.start()
    wait_until("they are followed again", lambda: "are followed again" in daemon.log_text())
    daemon.restart()
    daemon.wait_listed(["b"])
    assert len(drains(daemon)) == 1
    daemon.stop()
    node.annotate("a", None)
    daemon.start()
    wait_until("its gate is open", lambda: (node.condition("a", GATE) or " ")[0] == "True")
    node.show("a", ready=True)
    wait_until("a is back", lambda: daemon.picked() == {"a", "b"})


def test_a_pod_without_a_gate_is_drained_for_this_node_alone(follow, node):
    node.make("a", gate=False)
    node.make("b", gate=False)
    daemon = follow()
    daemon.wait_listed(["a", "b"])
    node.annotate("a", "test")
    wait_until("it is drained", lambda: node.condition("a", DRAINED) == ("True", "Drained"))
    (drain,) = drains(daemon)
    assert drain["partial"] and "has no readiness gate usher.dev/ready" in json.dumps(daemon.record(drain["id"]))
    node.annotate("a", None)
    wait_until("a is back", lambda: daemon.picked() == {"a", "b"})


def test_a_guard_that_refuses_is_told_to_the_pod(follow, node):
    node.make("a")
    daemon = follow()
    daemon.wait_listed(["a"])
    node.annotate("a", "test")
    wait_until("it is told", lambda: node.condition("a", DRAINED) == ("False", "DrainRefused"))
    wait_until("it is a warning", lambda: node.events("a").get("DrainRefused", {}).get("type") == "Warning")
    assert daemon.picked() == {"a"}
    node.make("b")
    wait_until("it is drained after all", lambda: daemon.picked() == {"b"})


def test_without_rights_the_services_are_followed_all_the_same(usherd, node, api, space, tmp_path):
    node.make("a")
    token = tmp_path / "token"
    token.write_text(let_in(api, space))
    daemon = start(usherd, api, space, {"servers": [api.url], "ca": str(api.ca), "token_file": str(token),
                                        "namespace": space, "pods": True, "node_name": "node-1"})
    daemon.wait_listed(["a"])
    wait_until("it is said", lambda: "The Pods of this node (spec.nodeName=node-1) cannot be followed" in daemon.log_text())
    assert feed(daemon)["state"] == "live" and not feed(daemon)["error"]
