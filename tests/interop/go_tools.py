"""Programs built from Go modules, each once, into build/servers."""

import functools
import hashlib
import os
import pathlib
import re
import shutil
import tempfile
import urllib.request
import zipfile

from servers import fetched, run, say

GO = "1.26.8"
# What nobody debugs, and what a few tests ask: compiled so, it takes little more than half of the time.
QUICK = ["-gcflags=all=-dwarf=false -l"]
GO_SHA256 = "30c2b1bf7dcc88d3eb0a1364e47ddd9128edb3110a30e8a0ef61cd5856b31de7"


def proxy():
    """The first that is a server; what a machine has in GOPROXY goes for this, too."""
    for one in re.split("[,|]", os.environ.get("GOPROXY", "")):
        if one.startswith("http"):
            return one.rstrip("/")
    return "https://proxy.golang.org"


def fetch_go(root):
    """The toolchain, which is a module like any other."""
    name = f"golang.org/toolchain/@v/v0.0.1-go{GO}.linux-amd64.zip"
    with tempfile.NamedTemporaryFile(dir=root, suffix=".zip") as file:
        with urllib.request.urlopen(f"{proxy()}/{name}", timeout=60) as answer:
            shutil.copyfileobj(answer, file)
        file.flush()
        found = hashlib.sha256(pathlib.Path(file.name).read_bytes()).hexdigest()
        if found != GO_SHA256:
            raise RuntimeError(f"{name} has the SHA-256 {found}, and should have {GO_SHA256}")
        with zipfile.ZipFile(file) as whole:
            whole.extractall(root)
    module = next((root / "golang.org").iterdir())
    module.rename(root / "go")
    for program in [*(root / "go/bin").iterdir(), *(p for p in (root / "go/pkg/tool").rglob("*") if p.is_file())]:
        program.chmod(0o755)


@functools.cache
def go():
    """A go that is new enough: the machine's, else one of our own."""
    own = shutil.which("go")
    if own:
        version = run(own, "env", "GOVERSION", env={**os.environ, "GOTOOLCHAIN": "local"})
        if tuple(map(int, re.findall(r"\d+", version)[:2])) >= tuple(map(int, GO.split(".")[:2])):
            return own
    return str(fetched(f"go-{GO}", fetch_go) / "go/bin/go")


def built(name, source, package, variables=None):
    """The program NAME of "NAME-VERSION": that package of the module in the folder source, which has the versions of all
    it is made of in go.mod and go.sum. variables: texts of the program's own that the linker sets."""
    def make(root):
        say(f"Building {name} from its Go modules; this takes some minutes, once")
        flags = " ".join(["-s -w", *(f"-X {key}={value}" for key, value in (variables or {}).items())])
        run(go(), "build", "-buildvcs=false", *QUICK, "-ldflags", flags, "-o", root / program, package, cwd=source,
            env={**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "", "CGO_ENABLED": "0", "GOGC": "400"})

    program = name.rsplit("-", 1)[0]
    return fetched(name, make) / program
