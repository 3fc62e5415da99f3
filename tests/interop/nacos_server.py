"""A real server of Nacos."""

import base64
import contextlib
import json
import pathlib
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from java_servers import JVM, START_DEADLINE, JavaServer, class_path
from usher import DEADLINE, wait_until

HERE = pathlib.Path(__file__).parent / "nacos"


def nacos_classes():
    return class_path("nacos-3.1.0-bugfix", HERE)


# Without signs of life for an hour, and without being looked after either.
LASTING = {f"preserved.{name}.timeout": "3600000" for name in ("heart.beat", "ip.delete")}


class NacosServer(JavaServer):
    """One server alone. password: that of the administrator, where nobody is let in without one."""

    ADMINISTRATOR = "nacos"
    DISTANCES = [0, 1000, 1001, -1000]  # HTTP, gRPC for clients and for servers, raft

    def __init__(self, folder, password=None, properties=()):
        super().__init__(folder)
        self.password, self.token = password, None
        auth = "true" if password else "false"
        lines = [f"nacos.core.auth.enabled={auth}", f"nacos.core.auth.admin.enabled={auth}", "nacos.core.auth.system.type=nacos",
                 "nacos.core.auth.server.identity.key=usher", "nacos.core.auth.server.identity.value=usher",
                 "nacos.core.auth.plugin.nacos.token.secret.key=" + base64.b64encode(b"not a secret, for tests" * 2).decode(),
                 "nacos.core.auth.caching.enabled=false", "server.address=127.0.0.1", "spring.sql.init.platform=derby",
                 *properties]
        (self.folder / "conf").mkdir(exist_ok=True)
        (self.folder / "conf" / "application.properties").write_text("\n".join(lines) + "\n")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def command(self):
        return ["java", *JVM, "-Xmx1g", "-Dnacos.standalone=true", f"-Dnacos.home={self.data}", "-Dnacos.deployment.type=server",
                f"-Dnacos.server.main.port={self.port}", "-Dnacos.inetutils.ip-address=127.0.0.1",
                "-Dderby.system.durability=test", "-cp", f"{self.folder}/conf:{nacos_classes()}", "StartNacos"]

    def wait_ready(self, *deadline):
        super().wait_ready(*deadline)
        if self.password:
            self.let_administrator_in()

    def answers(self):
        try:
            return self.call("GET", "/v3/admin/core/state/readiness")
        except OSError:
            return False

    def let_administrator_in(self):
        """The first one to ask becomes the administrator."""
        try:
            self.call("POST", "/v3/auth/user/admin", password=self.password)
        except urllib.error.HTTPError:
            pass  # after a restart there is one
        self.log_in()

    def log_in(self):
        self.token = None  # one whose time is over would be looked at
        self.token = self.ask("POST", "/v3/auth/user/login", username=self.ADMINISTRATOR, password=self.password)["accessToken"]

    def call(self, method, path, **fields):
        try:
            return self.ask(method, path, **fields)
        except urllib.error.HTTPError as e:
            if e.code != 403 or not self.token:
                raise
        self.log_in()  # its time was over
        return self.ask(method, path, **fields)

    def ask(self, method, path, **fields):
        data = urllib.parse.urlencode(fields)
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        url = f"{self.url}/nacos{path}" + ("" if method == "POST" or not data else "?" + data)
        request = urllib.request.Request(url, data.encode() if method == "POST" else None, headers, method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            text = answer.read().decode()
        try:
            said = json.loads(text)
        except ValueError:
            return text
        return said["data"] if "data" in said else said

    def put(self, service, port, ip="127.0.0.1", metadata=None, **fields):
        # Persistent ones are there without anybody who gives signs of life.
        fields = {"ephemeral": "false", **fields}
        self.call("POST", "/v3/client/ns/instance", serviceName=service, ip=ip, port=port, metadata=json.dumps(metadata or {}), **fields)

    def take(self, service, port, ip="127.0.0.1", **fields):
        fields = {"ephemeral": "false", **fields}
        self.call("DELETE", "/v3/client/ns/instance", serviceName=service, ip=ip, port=port, **fields)

    def look_away(self, service, cluster="DEFAULT"):
        """Do not look whether what is persistent is well: on a busy machine it seems not to be."""
        self.call("PUT", "/v3/admin/ns/cluster", serviceName=service, clusterName=cluster, checkPort=80,
                  useInstancePort4Check="true", healthChecker='{"type": "NONE"}', metadata="{}")

    def look(self, service, port, ip="127.0.0.1", cluster="DEFAULT"):
        """An instance as it is, whether anybody is told of it or not; None."""
        try:
            return self.call("GET", "/v3/admin/ns/instance", serviceName=service, ip=ip, port=port, clusterName=cluster)
        except urllib.error.HTTPError as e:
            if e.code == 404:
                return None
            raise

    def new_user(self, name, password, action="rw"):
        """May read and write in all of the namespace public, and is no administrator."""
        self.call("POST", "/v3/auth/user", username=name, password=password)
        self.call("POST", "/v3/auth/role", username=name, role=f"role-{name}")
        self.call("POST", "/v3/auth/permission", role=f"role-{name}", resource="public:*:*", action=action)

    @contextlib.contextmanager
    def provided(self, services, endpoints):
        """The services many-0, many-1 and so on, registered and kept by Nacos's own client."""
        path = self.folder / "provider.log"
        with open(path, "wb") as log:
            provider = subprocess.Popen(
                ["java", *JVM, f"-Duser.home={self.folder}", "-cp", nacos_classes(), "Provider", f"127.0.0.1:{self.port}",
                 str(services), str(endpoints)], stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=self.folder)

        def is_done():
            text = path.read_text(errors="replace")
            if provider.poll() is not None:
                raise RuntimeError(f"the provider ended with {provider.returncode}:\n{text[-4000:]}")
            return "all are registered\n" in text

        try:
            wait_until("all are registered", is_done, START_DEADLINE)
            yield
            provider.stdin.close()
            provider.wait(DEADLINE)
        finally:
            provider.kill()
