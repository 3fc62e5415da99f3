"""What is said wrong about a registry is found when the configuration is read, and not by a source that never works."""

import subprocess

import pytest
from usher import USHERD, wait_until

HTTP = ("consul", "etcd", "eureka", "nacos", "kubernetes")
GOOD = "http://127.0.0.1:9"
SECRET = "S3CRET"

# The wrong option, what stands beside it, and the words.
WRONG = [
    ("servers", "[]", "", "servers: is empty; name at least one"),
    ("servers", f'["{GOOD}", "ftp://h"]', "", 'servers[1]: "ftp://h" does not begin with http:// or https://'),
    ("servers", '["http://h:99999"]', "", 'servers[0]: "http://h:99999" has a port that is not in 1..65535'),
    ("servers", '"http://h h:1"', "", 'servers: "http://h h:1" has a blank or a control character in it'),
    ("servers", f'["http://bob:{SECRET}@h:1"]', "", 'servers[0]: "http://***@h:1" has credentials in it'),
    ("servers", f'["http://h:1/?accessToken={SECRET}"]', "", 'servers[0]: "http://h:1/?***" has a query'),
    ("servers", "[" + ", ".join([GOOD] * 65) + "]", "", "servers: 65 are given, and at most 64 are possible"),
    ("key", "/k", f"servers: {GOOD}", "key: is given without certificate"),
    ("token", SECRET, f"servers: {GOOD}, token_file: /t", "token: is given beside token_file"),
    ("token", '""', f"servers: {GOOD}", "token: is empty"),
    ("token", f'"{SECRET}\\r\\nX-Evil: 1"', f"servers: {GOOD}", "token: has a control character in it"),
    ("password", SECRET, f"servers: {GOOD}", "password: is given without user"),
]


def written(daemon, plugin, option, value, beside=""):
    """One option on the last line, so that its place is known. Returns where its value stands."""
    start = f"      {option}: "
    daemon.write_config(f"""\
plugin_dirs: {daemon.plugin_dirs}
api:
  consumer: {{socket: {daemon.socket}, mode: "0666"}}
  admin: {{socket: {daemon.admin}, mode: "0660"}}
state_dir: {daemon.folder}/state
sources:
  - name: it
    plugin: {plugin}
    options:
      {(beside or 'connections: 8').replace(', ', chr(10) + '      ')}
{start}{value}
services: {{catalog: {{sources: [it], startup_timeout: 100ms}}}}
""")
    line = daemon.config_path.read_text().splitlines().index(f"{start}{value}") + 1
    return line, len(start) + 1


def checked(daemon):
    done = subprocess.run([USHERD, "--check", daemon.config_path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    return done.stdout + done.stderr


@pytest.mark.parametrize("plugin", HTTP)
@pytest.mark.parametrize("option,value,beside,words", WRONG)
def test_what_is_wrong_with_a_registry_is_refused_at_its_place(usherd, plugin, option, value, beside, words):
    daemon = usherd()
    line, column = written(daemon, plugin, option, value, beside)
    told = checked(daemon)
    assert f"usher.yaml:{line}:" in told and f"sources[0].options.{words}" in told
    assert f":{column}: " in told or "[1]" in words or "[0]" in words
    assert SECRET not in told


@pytest.mark.parametrize("plugin,option,value,beside,words", [
    ("kubernetes", "selector", '"a in ("', f"servers: {GOOD}", 'selector: selector "a in (" ends too early'),
    ("kubernetes", "selector", '""', f"servers: {GOOD}", 'selector: selector "" ends too early'),
    ("kubernetes", "server_name", "h", "", "server_name: goes with servers, which are not given"),
    ("kubernetes", "servers", f"[{GOOD}]", "kubeconfig: /k", "servers: are given beside kubeconfig"),
    ("zookeeper", "servers", f'[h, "bob:{SECRET}@h:1"]', "", 'servers[1]: there is an "@" in it'),
    ("zookeeper", "servers", '[h, "h:99999"]', "", 'servers[1]: "h:99999": port 99999 is not in 1..65535'),
    ("dns", "servers", f'["bob:{SECRET}@h:1"]', "", 'servers[0]: there is an "@" in it'),
])
def test_what_is_wrong_with_one_kind_of_registry_is_refused_at_its_place(usherd, plugin, option, value, beside, words):
    daemon = usherd()
    line, _ = written(daemon, plugin, option, value, beside or "connect_timeout: 1s" if plugin != "dns" else "timeout: 1s")
    told = checked(daemon)
    assert f"usher.yaml:{line}:" in told and f"sources[0].options.{words}" in told
    assert SECRET not in told


def test_a_selector_in_all_of_kubernetes_words_is_taken(usherd):
    daemon = usherd()
    selector = "team=shop, tier in (a,b),tier notin (c), app.kubernetes.io/name!=x,y==z,!gone,there,empty="
    written(daemon, "kubernetes", "selector", f'"{selector}"', f"servers: {GOOD}")
    subprocess.run([USHERD, "--check", daemon.config_path], check=True, timeout=60)


@pytest.mark.parametrize("plugin", HTTP)
def test_a_reload_with_a_wrong_registry_leaves_the_good_configuration_in_force(usherd, plugin):
    daemon = usherd()
    written(daemon, plugin, "servers", f'["{GOOD}"]')
    daemon.start()
    before = daemon.get("/v1/sources")["sources"][0]["plugin"]
    written(daemon, plugin, "servers", f'["http://bob:{SECRET}@h:1"]')
    daemon.reload()
    assert 'sources[0].options.servers[0]: "http://***@h:1" has credentials in it' in daemon.status()
    assert daemon.get("/v1/sources")["sources"][0]["plugin"] == before == plugin
    wait_until("the good one is asked", lambda: "127.0.0.1" in str(daemon.get("/v1/services/catalog")["feeds"][0]["error"]))
    assert SECRET not in daemon.log_text() + daemon.status() + str(daemon.get("/v1/sources"))


def test_a_token_file_that_vanishes_is_told_when_it_begins_and_when_it_ends(usherd, tmp_path):
    token = tmp_path / "token"
    token.write_text(f"{SECRET}\n")
    daemon = usherd()
    written(daemon, "consul", "token_file", token, f"servers: {GOOD}, wait: 1s")
    daemon.start()
    wait_until("it is asked", lambda: daemon.get("/v1/services/catalog")["feeds"][0]["error"])
    token.unlink()
    gone = f"it: token_file {token}: there is no such file; going on with what it held before"
    wait_until("it is missed", lambda: gone in daemon.log_text())
    token.write_text(f"{SECRET}\n")
    wait_until("it is found", lambda: f"it: token_file {token}: can be read again" in daemon.log_text())
    assert daemon.log_text().count(gone) == 1
    assert SECRET not in daemon.log_text()


def test_credentials_in_the_url_of_a_kubeconfig_are_shown_to_nobody(usherd, tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text(f"""\
current-context: a
contexts: [{{name: a, context: {{cluster: c}}}}]
clusters: [{{name: c, cluster: {{server: "https://bob:{SECRET}@127.0.0.1:9"}}}}]
""")
    daemon = usherd()
    written(daemon, "kubernetes", "kubeconfig", path)
    daemon.start()
    wait_until("it is told", lambda: daemon.get("/v1/services/catalog")["feeds"][0]["error"])
    told = daemon.get("/v1/services/catalog")["feeds"][0]["error"]
    assert f'{path}: servers[0]: "https://***@127.0.0.1:9" has credentials in it' in told
    assert SECRET not in daemon.log_text() + daemon.status() + str(daemon.get("/v1/sources"))
