"""A real API server of Kubernetes and the kubectl that goes with it, built from their Go modules, over Debian's etcd.

    with ApiServer(tmp_path / "api") as api:
        api.kubectl("apply", "-f", "-", input=json.dumps(made))

Nothing else of a cluster runs: no controller, no scheduler, no kubelet. So slices are as a test writes them, a Pod that is
deleted stays until somebody says that it has ended, and no namespace has a ServiceAccount that a test has not made.
"""

import json
import os
import pathlib
import ssl
import urllib.error
import urllib.request

from go_tools import built
from servers import Process, from_debian, run
from usher import free_port

MODULES = pathlib.Path(__file__).parent / "kubernetes"
VERSION = "1.37.2"
HELM_VERSION = "3.22.0"


def kubernetes_program(name):
    major, minor, _ = VERSION.split(".")
    version = "k8s.io/component-base/version."
    return built(f"{name}-{VERSION}", MODULES, f"k8s.io/kubernetes/cmd/{name}",
                 {version + "gitVersion": f"v{VERSION}", version + "gitMajor": major, version + "gitMinor": minor})


def api_server():
    return kubernetes_program("kube-apiserver")


def kubectl():
    return kubernetes_program("kubectl")


def helm():
    """Of the same modules: its own Kubernetes would have to be compiled, too."""
    return built(f"helm-{HELM_VERSION}", MODULES, "helm.sh/helm/v3/cmd/helm")


def etcd():
    return from_debian("trixie", "etcd-server=3.5.16-4") / "usr/bin/etcd"


class Etcd(Process):
    def __init__(self, folder):
        super().__init__(folder)
        self.program = etcd()
        self.url, self.peer = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"

    def command(self):
        return [str(self.program), f"--data-dir={self.data}", f"--listen-client-urls={self.url}",
                f"--advertise-client-urls={self.url}", f"--listen-peer-urls={self.peer}",
                f"--initial-advertise-peer-urls={self.peer}", f"--initial-cluster=default={self.peer}",
                "--log-level=error", "--unsafe-no-fsync"]

    def is_ready(self):
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                return json.load(answer)["health"] == "true"
        except OSError:
            return False

    def compact(self):
        """Forget all versions but the newest."""
        def post(path, body):
            request = urllib.request.Request(self.url + path, json.dumps(body).encode(), method="POST")
            with urllib.request.urlopen(request, timeout=20) as answer:
                return json.load(answer)

        revision = post("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
        post("/v3/kv/compaction", {"revision": revision, "physical": True})


class Authority:
    """Certificates of our own, and the key that tokens of ServiceAccounts are signed with."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        (self.folder / "openssl.cnf").write_text("[req]\ndistinguished_name = dn\n[dn]\n")
        self.ca = self.make("ca", "/CN=ca", "basicConstraints=critical,CA:TRUE")[0]
        self.key = self.folder / "service-accounts.key"
        run("openssl", "genrsa", "-out", self.key, "2048")

    def make(self, name, subject, *extensions, by=()):
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        more = [word for extension in extensions for word in ("-addext", extension)]
        run("openssl", "req", "-x509", *by, "-config", self.folder / "openssl.cnf", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", subject, *more, "-keyout", key, "-out", certificate)
        return certificate, key

    def issue(self, name, subject, *extensions):
        """A certificate and its key, for a server or for a user: the subject is "/O=GROUP/CN=USER"."""
        return self.make(name, subject, "extendedKeyUsage=serverAuth,clientAuth", *extensions,
                         by=("-CA", self.ca, "-CAkey", self.folder / "ca.key"))


class ApiServer(Process):
    """One API server; its etcd and its authority may be those of another, whose twin it then is."""

    def __init__(self, folder, twin=None):
        super().__init__(folder)
        self.program, self.kubectl_program = api_server(), kubectl()
        self.twin = twin
        self.etcd = twin.etcd if twin else Etcd(self.folder / "etcd")
        self.authority = twin.authority if twin else Authority(self.folder / "pki")
        self.ca = self.authority.ca
        self.certificate = self.authority.issue(f"server-{self.folder.name}", "/CN=kube-apiserver",
                                                "subjectAltName=IP:127.0.0.1,DNS:kubernetes.default.svc")
        self.admin = twin.admin if twin else self.authority.issue("admin", "/O=system:masters/CN=admin")
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.kubeconfig = self.folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(self.kubeconfig_of({"client-certificate": str(self.admin[0]),
                                                                  "client-key": str(self.admin[1])})))
        self.context = ssl.create_default_context(cafile=self.ca)
        self.context.load_cert_chain(*self.admin)

    def kubeconfig_of(self, user, namespace="default"):
        return {"apiVersion": "v1", "kind": "Config", "current-context": "test",
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
                "clusters": [{"name": "test", "cluster": {"server": self.url, "certificate-authority": str(self.ca)}}],
                "users": [{"name": "test", "user": user}]}

    def command(self):
        certificate, key = self.certificate
        return [str(self.program), f"--etcd-servers={self.etcd.url}", "--bind-address=127.0.0.1", f"--secure-port={self.port}",
                "--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none", f"--cert-dir={self.data}",
                f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}", f"--client-ca-file={self.ca}",
                "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={self.authority.key}",
                f"--service-account-signing-key-file={self.authority.key}", "--service-cluster-ip-range=10.96.0.0/16",
                "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount", "--v=0"]

    def is_ready(self):
        try:
            return self.call("GET", "/readyz", is_json=False) == "ok"
        except OSError:
            return False

    def start(self, wait=True):
        if not self.twin and not (self.etcd.process and self.etcd.process.poll() is None):
            self.etcd.start()
        return super().start(wait)

    def wipe(self):
        """The store, which has to be stopped."""
        self.etcd.wipe()

    def __exit__(self, *_):
        self.kill()
        if not self.twin:
            self.etcd.kill()

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    # ---- what is asked of it ----

    def call(self, method, path, body=None, kind="application/json", token=None, is_json=True):
        """What it answers; an error raises urllib.error.HTTPError."""
        headers = {"Content-Type": kind, **({"Authorization": f"Bearer {token}"} if token else {})}
        data = None if body is None else json.dumps(body).encode()
        context = ssl.create_default_context(cafile=self.ca) if token else self.context
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            text = answer.read().decode()
        return json.loads(text) if is_json and text else text

    def kubectl(self, *words, input=None, as_=None):
        """What kubectl prints, run as the administrator, or on behalf of another."""
        more = ["--as", as_] if as_ else []
        return run(str(self.kubectl_program), "--kubeconfig", str(self.kubeconfig), *more, *map(str, words),
                   input=input, cwd=self.folder, env={**os.environ, "HOME": str(self.folder)})

    def apply(self, *objects):
        self.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def token(self, account, namespace="default", duration="1h"):
        return self.kubectl("create", "token", account, "-n", namespace, "--duration", duration).strip()
