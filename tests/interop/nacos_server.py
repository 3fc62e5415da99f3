"""A real server of Nacos."""

import base64
import json
import pathlib
import shutil
import socket
import urllib.error
import urllib.parse
import urllib.request

from servers import Process, fetched, run

HERE = pathlib.Path(__file__).parent / "nacos"
DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
JVM = ["-Xmx512m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]


def nacos_classes():
    """The class path of the server and of what starts it."""
    def make(folder):
        shutil.copy(HERE / "pom.xml", folder)
        run("mvn", "-B", "-q", "-f", folder / "pom.xml", f"{DEPENDENCIES}:copy-dependencies", f"{DEPENDENCIES}:build-classpath",
            f"-DoutputDirectory={folder}/jars", f"-Dmdep.outputFile={folder}/class-path")
        run("javac", "-cp", f"{folder}/jars/*", "-d", folder / "classes", HERE / "StartNacos.java")

    folder = fetched("nacos-3.1.0-bugfix", make)
    # In Maven's order: a class that two jars have is that of the first.
    jars = [pathlib.Path(jar).name for jar in (folder / "class-path").read_text().strip().split(":")]
    return ":".join([f"{folder}/classes", *(f"{folder}/jars/{jar}" for jar in jars)])


def free_ports():
    """The main port of a server: those of gRPC are above it, raft's below."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as main:
            port = main.getsockname()[1]
            try:
                for other in (port - 1000, port + 1000, port + 1001):
                    socket.create_server(("", other)).close()
            except (OSError, OverflowError):
                continue
            return port


# Without signs of life for an hour, and without being looked after either.
LASTING = {f"preserved.{name}.timeout": "3600000" for name in ("heart.beat", "ip.delete")}


class NacosServer(Process):
    """One server alone. password: that of the administrator, where nobody is let in without one."""

    ADMINISTRATOR = "nacos"

    def __init__(self, folder, password=None, properties=()):
        super().__init__(folder)
        self.port, self.password, self.token = free_ports(), password, None
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
        return ["java", *JVM, "-Dnacos.standalone=true", f"-Dnacos.home={self.data}", "-Dnacos.deployment.type=server",
                f"-Dnacos.server.main.port={self.port}", "-Dnacos.inetutils.ip-address=127.0.0.1",
                "-Dderby.system.durability=test", "-cp", f"{self.folder}/conf:{nacos_classes()}", "StartNacos"]

    def start(self, wait=True):
        super().start(wait=False)
        if wait:
            self.wait_ready(300)
            if self.password:
                self.let_administrator_in()
        return self

    def is_ready(self):
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
