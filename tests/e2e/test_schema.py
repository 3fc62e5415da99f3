"""The JSON schema of the configuration: editors accept what usherd accepts."""

import json
import os

import jsonschema
import pytest
import yaml

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

WHOLE = """
node: {name: node-7, zone: east}
api:
  consumer: {socket: /run/usher/usher.sock, mode: "0666"}
  admin:    {socket: /run/usher/admin.sock, mode: "0660", group: usher}
  http:     {listen: "127.0.0.1:9180"}
state_dir: /var/lib/usher
plugin_dirs: [/usr/lib/usher/plugins]
sources:
  - name: files
    plugin: file
    options: {path: /etc/usher/endpoints.d}
  - name: cluster
    plugin: kubernetes
defaults:
  sources: [cluster, files]
  merge: first
  freshness: {max_age: 30s, on_stale: serve}
  removal_guard: {share: 50%, hold: 30s}
  select: round_robin
  lazy: {allow: true, limit: 1000}
services:
  catalog:
    startup_timeout: 10s
    sources:
      - {source: cluster, name: catalog-svc, port: http}
      - files
    health:
      http: {path: /health, expect: [200, 300-399], degraded: 429, match: {pointer: /status, value: UP},
             tls: {enabled: true, ca: /etc/ssl/shop.pem}}
      interval: 5s
      interval_down: 1s
      jitter: 10%
      initial: down
      flapping: {changes: 5, window: 60s, hold: 30s}
      on_all_down: panic
      panic_threshold: 30%
      outlier: {enabled: true, max_ejected: 20%}
    chain:
      - ready: {}
      - zone: {prefer: east, on_empty: pass}
      - label:
      - sticky
    select: {least_request: {choices: 2}}
    drain:
      order: serve_stale
      propagation: {registry: 5s, consumer_refresh: 30s, consumer_cache: 35s, margin: 2s, on_timeout: hold}
      in_flight: {timeout: 30s, quiet: 1s, from: [tcp, consumers]}
      deadline: 120s
      min_ready: 1
      readiness: {http: "http://{address}:{port}/drain"}
      close: {exec: [/bin/stop, "{id}"]}
      open: {systemd: {unit: "catalog@{id}.service", action: start, timeout: 1m30s}}
    restore:
      probe: {http: {path: /health}, port: 8081, rise: 3}
      observed: {timeout: 0}
      ramp: 1m
  search:
    health: {tcp: {send: "PING\\r\\n", expect: "+PONG"}, port: 6379}
  orders:
    health: none
prober: {max_rate: 2000, threads: 2}
"""


@pytest.fixture(scope="module")
def validator():
    with open(os.path.join(TREE, "api", "usher.schema.json")) as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_a_whole_configuration_is_valid(validator):
    validator.validate(yaml.safe_load(WHOLE))


def test_the_installed_default_is_valid(validator):
    with open(os.path.join(TREE, "packaging", "usher.yaml")) as file:
        validator.validate(yaml.safe_load(file))


def test_an_empty_file_is_valid(validator):
    validator.validate(yaml.safe_load(""))


@pytest.mark.parametrize(
    "text",
    [
        "sorces: []",
        "sources: [{name: files}]",
        "sources: {files: {plugin: file}}",
        "state_dir: var",
        "api: {consumer: {mode: rw}}",
        "api: {http: {listen: 'localhost:9180'}}",
        "defaults: {merge: all}",
        "defaults: {sources: [{source: files, decides: [port]}]}",
        "defaults: {freshness: {max_age: 10}}",
        "defaults: {removal_guard: {share: 0.5}}",
        "defaults: {chain: [{zone: {}, on_empty: pass}]}",
        "defaults: {chain: [{zone: {on_empty: stop}}]}",
        "defaults: {drain: {close: {exec: [stop]}}}",
        "defaults: {drain: {close: {exec: [/a], http: 'http://a'}}}",
        "defaults: {drain: {close: {systemd: catalog}}}",
        "defaults: {drain: {in_flight: {from: []}}}",
        "defaults: {drain: {min_ready: -1}}",
        "services: {'a b': {}}",
        "services: {a: {lazy: {}}}",
        "services: {a: {helth: {}}}",
        "defaults: {health: off}",
        "defaults: {health: {http: {}, tcp: {}}}",
        "defaults: {health: {exec: {}}}",
        "defaults: {health: {http: {path: 'a b'}}}",
        "defaults: {health: {http: {expect: [2xx]}}}",
        "defaults: {health: {http: {match: {text: ok, pointer: /a, value: b}}}}",
        "defaults: {health: {http: {match: {pointer: /a}}}}",
        "defaults: {health: {initial: degraded}}",
        "prober: {threads: 0}",
        "services: {a: {sources: []}}",
    ],
)
def test_what_usherd_refuses_for_one_value_is_invalid(validator, text):
    assert not validator.is_valid(yaml.safe_load(text))
