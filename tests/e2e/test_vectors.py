"""Observed behaviour of Spring Cloud LoadBalancer: each vector is the same here, better, or not here for a reason."""

import json
import os
import re
import subprocess

from usher import BUILD, SOURCE

RUN = SOURCE / "tests" / "run-vectors"
FILE = SOURCE / "tests" / "data" / "vectors" / "spring-cloud.json"


def run(*arguments):
    return subprocess.run([str(RUN), *map(str, arguments)], capture_output=True, text=True, timeout=500,
                          env={**os.environ, "USHER_BUILD": str(BUILD)})


def test_every_vector_is_the_same_or_better_or_has_a_reason():
    vectors = json.loads(FILE.read_text())["vectors"]
    done = run("--list", FILE)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    total = re.search(r"^total\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)$", done.stdout, re.M)
    same, better, not_here, failed = map(int, total.groups())
    assert failed == 0 and same + better + not_here == len(vectors)
    for vector in vectors:
        assert re.search(rf"\b{re.escape(vector['id'])}\b", done.stdout), f"{vector['id']} is not told"


def test_a_vector_that_usher_does_not_answer_fails_the_run(tmp_path):
    wrong = {"vectors": [{"id": "zone-wrong", "feature": "zone", "input": {"zone": "east", "instances": [
        {"id": "A", "metadata": {"zone": "east"}}, {"id": "B", "metadata": {"zone": "west"}}]}, "expected": {"ids": ["B"]}}]}
    (tmp_path / "wrong.json").write_text(json.dumps(wrong))
    done = run(tmp_path / "wrong.json")
    assert done.returncode == 1 and "failed: zone-wrong" in done.stdout


def test_a_feature_that_nobody_can_judge_fails_the_run(tmp_path):
    unknown = {"vectors": [{"id": "tea-01", "feature": "tea", "input": {}, "expected": {}}]}
    (tmp_path / "unknown.json").write_text(json.dumps(unknown))
    done = run(tmp_path / "unknown.json")
    assert done.returncode == 1 and "nobody knows how to judge the feature tea" in done.stdout


def test_a_file_that_holds_no_vectors_is_refused(tmp_path):
    for text in ("{", '{"x": 1}', "[]", '{"vectors": [1]}'):
        (tmp_path / "none.json").write_text(text)
        done = run(tmp_path / "none.json")
        assert done.returncode == 2 and "none.json" in done.stderr, text
