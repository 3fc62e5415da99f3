"""What docs/health.md shows as configuration is one."""

import os
import re
import subprocess

import pytest
import yaml

from usher import BUILD, SOURCE, USHERD

PAGE = SOURCE / "docs" / "health.md"
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.S | re.M)


def make(path):
    """What an example names must be there, or the check that uses it is refused."""
    if path.suffix == ".pem":
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-subj", "/CN=test", "-keyout", os.devnull, "-out", path], check=True, capture_output=True)
    else:
        path.write_text("#!/bin/true\n")
        path.chmod(0o755)
    return path


@pytest.mark.parametrize("block", BLOCKS, ids=range(1, len(BLOCKS) + 1))
def test_an_example_can_be_used(block, tmp_path):
    for name in re.findall(r"/(?:etc/usher|usr/lib/shop)/[\w.-]+", block):
        block = block.replace(name, str(make(tmp_path / name.rsplit("/", 1)[1])))
    given = yaml.safe_load(block)
    whole = given if "services" in given else {"services": {"catalog": given}}
    whole["sources"] = [{"name": "files", "plugin": "file", "options": {"path": "/etc/usher/endpoints.d"}}]
    whole.setdefault("defaults", {})["sources"] = ["files"]
    whole["plugin_dirs"] = [f"{BUILD}/plugins/lib"]
    path = tmp_path / "usher.yaml"
    path.write_text(yaml.safe_dump(whole))
    done = subprocess.run([USHERD, "--check", path], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
