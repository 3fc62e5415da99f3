"""The Helm chart: what helm makes of its values, what usherd says to that, and what a real API server takes of it."""

# Needs from Debian: debian-archive-keyring dpkg openssl binutils

import functools
import itertools
import json
import pathlib
import re
import subprocess

import pytest
import yaml

import kubernetes_api
from kubernetes_api import ApiServer
from usher import BUILD, PLUGINS, SOURCE, USHERD, wait_until

CHART = SOURCE / "charts" / "usher"
BUILDS = [kubernetes_api.etcd, kubernetes_api.api_server, kubernetes_api.kubectl, kubernetes_api.helm]
# helm's own idea of the cluster's version, where there is none, is an old one.
OFFLINE = ("--namespace", "usher-system", "--kube-version", "1.35.0")


def helm(*arguments, code=0, values=None, folder=None):
    files = []
    if values is not None:
        path = pathlib.Path(folder) / "values.yaml"
        path.write_text(yaml.safe_dump(values))
        files = ["--values", str(path)]
    done = subprocess.run([str(kubernetes_api.helm()), *arguments, *files], capture_output=True, text=True)
    assert done.returncode == code, f"helm {arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


class StrictLoader(yaml.SafeLoader):
    """Refuses a key that stands in a map twice, as an API server does."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"{node.start_mark}: a key stands twice in {keys}"
        return super().construct_mapping(node, deep)


class Rendered:
    def __init__(self, text):
        self.objects = [one for one in yaml.load_all(text, Loader=StrictLoader) if one]

    def all(self, kind):
        return [one for one in self.objects if one["kind"] == kind]

    def one(self, kind):
        found = self.all(kind)
        assert len(found) == 1, f"{len(found)} {kind}"
        return found[0]

    @property
    def kinds(self):
        return sorted(one["kind"] for one in self.objects)

    @property
    def pod(self):
        return self.one("DaemonSet")["spec"]["template"]["spec"]

    @property
    def usherd(self):
        return self.pod["containers"][0]

    @property
    def config(self):
        return self.one("ConfigMap")["data"]["usher.yaml"]


@pytest.fixture
def render(tmp_path):
    def render(values=None, *arguments):
        return Rendered(helm("template", "usher", str(CHART), *OFFLINE, *arguments,
                             values=values or {}, folder=tmp_path).stdout)
    return render


def judged(config, folder):
    """What usherd --check says to a configuration, with this build's plug-ins."""
    whole = yaml.safe_load(config)
    whole["plugin_dirs"] = [str(PLUGINS)]
    path = pathlib.Path(folder) / "usher.yaml"
    path.write_text(yaml.safe_dump(whole, sort_keys=False))
    return subprocess.run([str(USHERD), "--check", str(path)], capture_output=True, text=True)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with ApiServer(tmp_path_factory.mktemp("cluster") / "api") as api:
        yield api


# ---- values ----


def test_helm_has_nothing_to_complain_about():
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART)).stdout


def test_what_the_defaults_give_is_a_configuration_that_usherd_takes(render, tmp_path):
    made = render()
    assert judged(made.config, tmp_path).returncode == 0, judged(made.config, tmp_path).stderr
    assert made.kinds == ["ClusterRole", "ClusterRoleBinding", "ConfigMap", "DaemonSet", "ServiceAccount"]


SWITCHES = {
    "sources": [None, {"cluster": None}, {"cluster": {"plugin": "kubernetes", "namespaces": ["shop", "search"]}},
                {"cluster": {"plugin": "kubernetes", "options": {"kubeconfig": "/etc/other/kubeconfig"}}}],
    "serviceAccount": [None, {"create": False}, {"create": False, "name": "own"}],
    "rbac": [None, {"create": False}],
    "prepareFolders": [None, {"enabled": False}],
    "preStop": [None, {"waitSeconds": 0}],
    "hostNetwork": [None, True],
    "podMonitor": [None, {"enabled": True, "labels": {"team": "a"}}],
}


def test_every_position_of_the_switches_gives_what_kubernetes_and_usherd_can_read(render, tmp_path):
    """Each switch by itself and each pair of two, which covers what one can do to another."""
    positions = [(name, value) for name, values in SWITCHES.items() for value in values[1:]]
    for chosen in [(), *itertools.combinations(positions, 1), *itertools.combinations(positions, 2)]:
        values = dict(chosen)
        if len(values) < len(chosen):
            continue
        made = render(values)
        assert judged(made.config, tmp_path).returncode == 0, f"{values}: {judged(made.config, tmp_path).stderr}"
        for one in made.objects:
            assert one["metadata"]["name"] and one["metadata"]["labels"]["app.kubernetes.io/instance"] == "usher"


def test_sources_and_services_are_maps_that_values_add_to(render, tmp_path):
    made = render({
        "sources": {"files": {"plugin": "file", "order": 5, "options": {"path": "/etc/endpoints"}},
                    "early": {"plugin": "file", "order": -1, "options": {"path": "/etc/early"}},
                    "off": {"plugin": "file", "enabled": False, "options": {"path": "/etc/off"}}},
        "services": {"catalog": {"sources": ["early", "cluster"]}, "search": None},
        "defaults": {"freshness": {"max_age": "10s"}},
        "extraConfig": {"prober": {"max_rate": 100}},
    })
    config = yaml.safe_load(made.config)
    assert [source["name"] for source in config["sources"]] == ["early", "cluster", "files"]
    assert config["services"] == {"catalog": {"sources": ["early", "cluster"]}, "search": None}
    assert config["defaults"] == {"freshness": {"max_age": "10s"}, "lazy": {"allow": True}}
    assert config["prober"] == {"max_rate": 100}
    assert judged(made.config, tmp_path).returncode == 0, judged(made.config, tmp_path).stderr


@pytest.mark.parametrize("values, words", [
    ({"sourcs": {}}, "sourcs"),
    ({"sources": {"cluster": {"options": {}, "plugin": None}}}, "plugin"),
    ({"http": {"port": 80}}, "http/port"),
    ({"user": 0}, "user"),
    ({"socket": {"hostPath": "run/usher"}}, "hostPath"),
    ({"extraConfig": {"state_dir": "/tmp"}}, "extraConfig.state_dir is set by the chart"),
    ({"logLevel": "loud"}, "logLevel"),
    ({"fullnameOverride": "Usher_X"}, "fullnameOverride"),
    ({"podLabels": {"app.kubernetes.io/name": "x"}}, "podLabels"),
    ({"commonLabels": {"app.kubernetes.io/instance": "x"}}, "commonLabels"),
    ({"podSecurityContext": {"runAsUser": 1000}}, "podSecurityContext/runAsUser"),
    ({"preStop": {"waitSeconds": 40}}, "preStop.waitSeconds (40) must be less than terminationGracePeriodSeconds (40)"),
])
def test_a_wrong_value_is_refused_by_name(tmp_path, values, words):
    done = helm("template", "usher", str(CHART), *OFFLINE, code=1, values=values, folder=tmp_path)
    assert words in done.stderr


# ---- rights ----


def test_rights_follow_from_the_enabled_sources_only(render):
    none = render({"sources": {"cluster": {"enabled": False, "plugin": "kubernetes"}}})
    assert none.kinds == ["ConfigMap", "DaemonSet", "ServiceAccount"]
    assert none.pod["automountServiceAccountToken"] is False
    elsewhere = render({"sources": {"cluster": {"plugin": "kubernetes", "options": {"servers": ["https://10.0.0.1:6443"]}}}})
    assert elsewhere.kinds == ["ConfigMap", "DaemonSet", "ServiceAccount"]
    here = render()
    assert here.pod["automountServiceAccountToken"] is True
    assert here.one("ClusterRole")["rules"] == [
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}]


def test_a_source_that_follows_the_pods_of_its_node_may_do_what_that_takes(render):
    slices = {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}
    pods = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}]
    everywhere = render({"sources": {"cluster": {"options": {"pods": True}}}})
    assert everywhere.one("ClusterRole")["rules"] == [slices, *pods]
    # A node's pods are of all namespaces: rights on them cannot be those of a namespace.
    some = render({"sources": {"cluster": {"namespaces": ["shop"], "options": {"pods": True}}}})
    assert some.one("ClusterRole")["rules"] == pods
    assert some.one("Role")["rules"] == [slices]


def test_a_source_of_some_namespaces_gets_a_role_in_each_and_none_beyond(render):
    made = render({"sources": {"cluster": {"plugin": "kubernetes", "namespaces": ["shop", "search"]}}})
    assert not made.all("ClusterRole") and not made.all("ClusterRoleBinding")
    assert [role["metadata"]["namespace"] for role in made.all("Role")] == ["search", "shop"]
    for binding in made.all("RoleBinding"):
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "usher", "namespace": "usher-system"}]


# ---- the pod ----


def test_the_pod_is_nobody_and_writes_to_its_two_folders_only(render):
    pod, usherd = render().pod, render().usherd
    assert pod["securityContext"]["runAsNonRoot"] is True and pod["securityContext"]["runAsUser"] == 64180
    assert usherd["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                         "capabilities": {"drop": ["ALL"]}}
    paths = {volume["name"]: volume.get("hostPath", {}).get("path") for volume in pod["volumes"]}
    assert {name: path for name, path in paths.items() if path} == {"run": "/run/usher", "state": "/var/lib/usher"}
    assert pod["initContainers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["CHOWN"]}


def test_numbers_as_large_as_some_clusters_give_to_users_are_written_whole(render):
    made = render({"user": 1000680000, "group": 1000680001, "terminationGracePeriodSeconds": 10000000})
    assert made.pod["securityContext"]["runAsUser"] == 1000680000
    assert made.pod["securityContext"]["runAsGroup"] == 1000680001
    assert made.pod["terminationGracePeriodSeconds"] == 10000000
    assert made.pod["initContainers"][0]["command"][1] == "1000680000:1000680001"


def test_what_a_value_says_stands_in_the_place_of_what_the_chart_does(render):
    """A key that stood there twice would be refused by the API server, without a word about which value it was."""
    made = render({"securityContext": {"readOnlyRootFilesystem": False}, "podSecurityContext": {"seccompProfile": {"type": "Unconfined"}},
                   "commonLabels": {"team": "a", "app.kubernetes.io/version": "9"}, "podLabels": {"team": "b"},
                   "podAnnotations": {"kubectl.kubernetes.io/default-container": "other"},
                   "podMonitor": {"enabled": True, "labels": {"team": "c"}}})
    assert made.usherd["securityContext"]["readOnlyRootFilesystem"] is False
    assert made.pod["securityContext"]["seccompProfile"] == {"type": "Unconfined"}
    daemon_set = made.one("DaemonSet")
    template = daemon_set["spec"]["template"]["metadata"]
    assert template["labels"]["team"] == "b" and template["labels"]["app.kubernetes.io/version"] == "9"
    assert template["annotations"] == {"kubectl.kubernetes.io/default-container": "other"}
    assert daemon_set["metadata"]["labels"]["team"] == "a"
    assert made.one("PodMonitor")["metadata"]["labels"]["team"] == "c"


def test_no_probe_asks_how_fresh_anything_is(render):
    usherd = render().usherd
    assert usherd["livenessProbe"]["httpGet"]["path"] == usherd["startupProbe"]["httpGet"]["path"] == "/healthz"
    assert usherd["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_what_the_pod_runs_exists(render):
    """Its arguments and its hook are taken by this build's programs."""
    usherd = render().usherd
    known = subprocess.run([str(USHERD), "--help"], capture_output=True, text=True, check=True).stdout
    for argument in usherd["args"]:
        assert not argument.startswith("--") or argument in known
    hook = usherd["lifecycle"]["preStop"]["exec"]["command"]
    done = subprocess.run([str(BUILD / "api" / "usherctl" / "usherctl"), *hook[1:], "--socket", "/nowhere"],
                          capture_output=True, text=True)
    assert done.returncode == 3, done.stderr  # understood, and nobody there


def test_the_image_has_the_libraries_that_the_binaries_need():
    """Those that the Containerfile installs are those that ldd finds, by package; nothing is missing, nothing too much."""
    programs = [USHERD, BUILD / "api" / "usherctl" / "usherctl", *PLUGINS.glob("*.so")]
    recipe, needed = (SOURCE / "Containerfile").read_text(), set()
    for program in programs:
        listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
        dynamic = subprocess.run(["readelf", "-d", str(program)], capture_output=True, text=True, check=True).stdout
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
            path = re.search(rf"{re.escape(name)} => (\S+)", listed)
            if path and str(BUILD) in path[1]:
                assert re.search(rf"^COPY .*{re.escape(name)}", recipe, re.M), f"{name} of {program.name} is not copied"
            elif path:
                needed.add(package_of(path[1]))
    installed = set(re.findall(r"^\t\t([a-z0-9.+-]+) \\$", recipe, re.M))
    assert installed - {"ca-certificates"} == needed - {"libc6", "libgcc-s1"}


@functools.cache
def package_of(path):
    names = [path, path.removeprefix("/usr"), "/usr" + path, str(pathlib.Path(path).resolve())]
    found = subprocess.run(["dpkg", "-S", *names], capture_output=True, text=True).stdout
    assert found, f"no package has {path}"
    return found.split(":")[0]


# ---- a real API server ----


def install(cluster, folder, namespace, values=None):
    helm("install", "usher", str(CHART), "--kubeconfig", str(cluster.kubeconfig), "--namespace", namespace, "--create-namespace",
         values=values or {}, folder=folder)


def rights(cluster, namespace, account, within="default"):
    """What the account may do in a namespace, beyond what anybody who is logged in may do."""
    def rules(of):
        made = cluster.call("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": within}},
                            token=cluster.token(of, namespace))
        return {(group, resource, verb) for rule in made["status"]["resourceRules"] for group in rule["apiGroups"]
                for resource in rule["resources"] for verb in rule["verbs"]}

    if "nobody" not in cluster.kubectl("get", "serviceaccounts", "-n", namespace, "-o", "name"):
        cluster.kubectl("create", "serviceaccount", "nobody", "-n", namespace)
    return rules(account) - rules("nobody")


SLICES = {("discovery.k8s.io", "endpointslices", verb) for verb in ("list", "watch")}
PODS = {("", "pods", verb) for verb in ("get", "list", "watch")} | {("", "pods/status", "patch"), ("", "events", "create")}


def test_what_is_installed_is_what_the_server_keeps(cluster, tmp_path):
    """The server takes each field: what it knows not, it would drop or refuse."""
    install(cluster, tmp_path, "kept", {"sources": {"cluster": {"options": {"pods": True}}}})
    rendered = Rendered(helm("get", "manifest", "usher", "--kubeconfig", str(cluster.kubeconfig), "-n", "kept").stdout)
    for one in rendered.objects:
        found = json.loads(cluster.kubectl("get", one["kind"], one["metadata"]["name"], "-n", "kept", "-o", "json"))
        assert_within(one, found, one["kind"])
    pod = json.loads(cluster.kubectl("get", "daemonset", "usher", "-n", "kept", "-o", "json"))["spec"]["template"]
    pod["metadata"]["name"] = "as-the-daemonset-makes-it"
    pod["spec"]["nodeName"] = "node-1"
    cluster.kubectl("create", "-n", "kept", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "Pod", **pod}))


def assert_within(part, whole, place):
    if isinstance(part, dict):
        for key, value in part.items():
            assert key in whole, f"{place}.{key} was dropped"
            assert_within(value, whole[key], f"{place}.{key}")
    elif isinstance(part, list):
        assert len(part) <= len(whole), place
        for i, value in enumerate(part):
            assert_within(value, whole[i], f"{place}[{i}]")
    else:
        assert part == whole, place


def test_its_account_may_do_what_the_enabled_sources_need_and_nothing_more(cluster, tmp_path):
    install(cluster, tmp_path, "everywhere")
    assert rights(cluster, "everywhere", "usher") == SLICES
    who = "system:serviceaccount:everywhere:usher"
    assert cluster.kubectl("auth", "can-i", "watch", "endpointslices.discovery.k8s.io", "-A", as_=who).strip() == "yes"
    install(cluster, tmp_path, "with-pods", {"sources": {"cluster": {"options": {"pods": True}}}})
    assert rights(cluster, "with-pods", "usher") == SLICES | PODS
    install(cluster, tmp_path, "with-none", {"sources": {"cluster": {"enabled": False}}})
    assert rights(cluster, "with-none", "usher") == set()
    cluster.kubectl("create", "namespace", "shop")
    install(cluster, tmp_path, "within", {"sources": {"cluster": {"namespaces": ["shop"]}}})
    assert rights(cluster, "within", "usher", within="shop") == SLICES
    assert rights(cluster, "within", "usher", within="default") == set()


def slice_of(service, namespace, address):
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": f"{service}-1", "namespace": namespace, "labels": {"kubernetes.io/service-name": service}},
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}


def test_the_token_of_its_account_is_enough_for_usherd(cluster, usherd, tmp_path):
    cluster.kubectl("create", "namespace", "market")
    cluster.kubectl("create", "namespace", "cellar")
    cluster.apply(slice_of("catalog", "market", "10.0.0.5"), slice_of("wine", "cellar", "10.0.0.6"))
    install(cluster, tmp_path, "in-market", {"sources": {"cluster": {"namespaces": ["market"]}}})
    (tmp_path / "token").write_text(cluster.token("usher", "in-market"))
    daemon = usherd({
        "sources": [{"name": "cluster", "plugin": "kubernetes", "options": {
            "servers": [cluster.url], "ca": str(cluster.ca), "token_file": str(tmp_path / "token"), "namespace": "market"}}],
        "services": {"catalog": None, "wine": {"sources": [{"source": "cluster", "name": "cellar/wine"}], "startup_timeout": "100ms"}},
    })
    daemon.start()
    wait_until("the endpoint of the namespace that it may see", lambda: list(daemon.listed("catalog")) == ["10.0.0.5:8080"])

    def refusal():
        return daemon.get("/v1/services/wine")["feeds"][0]

    wait_until("the refusal of the other", lambda: refusal()["state"] == "denied")
    assert "endpointslices" in refusal()["error"] and "cellar" in refusal()["error"]
