"""What docs/chains.md and the pages of the selection plug-ins show as configuration is one: each example goes through
`usherd --check`, and those that a page says are refused are, with the words that it shows.
"""

import re
import subprocess

import pytest
import yaml

from usher import BUILD, SOURCE, USHERD

PAGES = [SOURCE / "docs" / "chains.md", *sorted((SOURCE / "plugins" / "selection").glob("*/README.md"))]
REFUSED = re.compile(r"# refused: (.*)")
# What an example leaves out, for it is about services.
HEAD = {
    "node": "node: {name: node-7, zone: east}\n",
    "plugin_dirs": f"plugin_dirs: [{BUILD}/plugins/lib]\n",
    "sources": "sources:\n"
    + "".join(f"  - {{name: {name}, plugin: file, options: {{path: /etc/usher/endpoints.d}}}}\n" for name in ("files", "own", "partner")),
    "defaults": "defaults: {sources: [files]}\n",
}


def examples():
    for page in PAGES:
        blocks = re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.S | re.M)
        name = page.parent.name if page.name == "README.md" else page.stem
        assert blocks, f"{page} shows no configuration"
        for i, block in enumerate(blocks):
            yield pytest.param(block, id=f"{name}-{i + 1}")


@pytest.mark.parametrize("example", examples())
def test_an_example_is_what_its_page_says(example, tmp_path):
    given = yaml.safe_load(example)
    path = tmp_path / "usher.yaml"
    path.write_text("".join(text for key, text in HEAD.items() if key not in given) + example)
    done = subprocess.run([USHERD, "--check", path], capture_output=True, text=True, timeout=60, check=False)
    refused = REFUSED.search(example)
    if not refused:
        assert (done.returncode, done.stderr) == (0, "")
        return
    assert done.returncode == 1 and refused[1] in done.stderr, done.stderr
    line = path.read_text()[: path.read_text().index("# refused")].count("\n") + 1
    assert f"{path}:{line}:" in done.stderr


def test_every_stage_and_selector_is_on_the_page():
    page = (SOURCE / "docs" / "chains.md").read_text()
    for readme in (SOURCE / "plugins" / "selection").glob("*/README.md"):
        name = readme.parent.name
        assert f"`{name}`" in page, f"docs/chains.md does not know {name}"


def test_strict_is_said_of_the_stages_that_are():
    page = (SOURCE / "docs" / "chains.md").read_text()
    rows = re.findall(r"^\| \[`(\w+)`\]\([^)]*\) \| [^|]* \| (yes)? ?\| the", page, re.M)
    assert rows
    for name, strict in rows:
        source = "".join(f.read_text() for f in (SOURCE / "plugins" / "selection" / name).glob("*.c"))
        assert ("USHER_STAGE_STRICT" in source) == bool(strict), name
