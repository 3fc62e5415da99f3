"""The demo is the product's main job: no request fails, in any of several runs."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from usher import BUILD, SOURCE

NGINX = os.environ.get("USHER_NGINX") or shutil.which("nginx")


@pytest.mark.skipif(not NGINX, reason="no nginx; ./dev test brings one")
def test_a_rollout_under_load_loses_no_request(tmp_path):
    results = tmp_path / "results.json"
    demo = subprocess.run(
        [sys.executable, SOURCE / "tests" / "demo" / "demo.py", "--build", BUILD, "--nginx", NGINX, "--runs", "3",
         "--only-usher", "--json", results], capture_output=True, text=True, timeout=400)

    assert demo.returncode == 0, demo.stdout + demo.stderr
    runs = json.loads(results.read_text())["with_usher"]
    assert [r["failed"] for r in runs] == [0, 0, 0]
    assert all(r["last_stale_pick_s"] == 0 for r in runs)
    assert all(r["requests"] > 1000 for r in runs)
