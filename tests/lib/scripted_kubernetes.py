"""As much of a Kubernetes API server as the plug-in meets: consistent lists in pages of EndpointSlices and Pods, watches with
bookmarks, versions that get too old, several servers over one store, the status of Pods, Events. It misbehaves where a test
says so.

    cluster = Cluster()
    server = Registry(cluster.answer).start()
    cluster.put(endpoint_slice("web-1", "web", [pod("a", "10.0.0.1")]))

The shapes are those that an API server of Kubernetes 1.36 gave.
"""

import copy
import json
import re
import threading
import time

from scripted_registry import Reply, Stream

LABEL = "kubernetes.io/service-name"
PATH = re.compile(r"/(?:apis/discovery\.k8s\.io|api)/v1/(?:namespaces/([^/]+)/)?(endpointslices|pods)$")
POD = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+?)(/status)?$")
EVENTS = re.compile(r"/api/v1/namespaces/([^/]+)/events$")
KINDS = {"endpointslices": ("discovery.k8s.io/v1", "EndpointSlice"), "pods": ("v1", "Pod")}


def pod(name, address, ready=True, serving=None, terminating=None, zone=None, uid=None, **more):
    conditions = {"ready": ready, "serving": serving if serving is not None else ready, "terminating": bool(terminating)}
    made = {"addresses": [address], "conditions": conditions,
            "targetRef": {"kind": "Pod", "namespace": "default", "name": name, "uid": uid or f"u-{name}"}}
    if zone:
        made["zone"] = zone
    return {**made, **more}


def endpoint_slice(name, service, endpoints, ports=None, namespace="default", kind="IPv4", labels=None):
    return {"metadata": {"name": name, "namespace": namespace, "labels": {LABEL: service, **(labels or {})}},
            "addressType": kind, "endpoints": endpoints,
            "ports": ports if ports is not None else [{"name": "http", "protocol": "TCP", "port": 8080}]}


def whole_pod(name, node="node-1", namespace="default", gate=True, **metadata):
    spec = {"nodeName": node, **({"readinessGates": [{"conditionType": "usher.dev/ready"}]} if gate else {})}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": {}, **metadata}, "spec": spec, "status": {}}


def status(code, reason, message):
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason,
            "code": code}


def selects(selector, labels):
    for term in re.findall(r"[^,(]+(?:\([^)]*\))?", selector or ""):
        among = re.match(r"(\S+) in \((.*)\)$", term.strip())
        if among:
            if labels.get(among[1]) not in among[2].split(","):
                return False
        elif "=" in term:
            key, value = re.split("==?", term.strip(), maxsplit=1)
            if labels.get(key) != value:
                return False
    return True


class Cluster:
    def __init__(self, version=10):
        self.version = version
        self.objects = {}  # (kind, namespace, name): slice or Pod
        self.events_told = []  # (namespace, Event)
        self.pods_denied = False
        self.history = []  # (version, type, slice as it is now, slice before)
        self.oldest = 0  # what a watch may begin from
        self.pages = {}  # token: the rest of a list
        self.page_age = None  # a token that is asked for so late (0: always) has expired
        self.tokens = None  # who is let in; None: everybody
        self.denied = False
        self.deaf = set()  # servers (by connection of their watch) whose watches say nothing any more
        self.mute = False  # open watches, and new ones, say nothing
        self.store_is_down = False
        self.watch_ends_after = None  # seconds
        self.bookmark_every = None
        self.watches = self.bookmarks = 0  # begun, and told
        self.generation = 0  # one more ends all watches
        self.changed = threading.Condition()
        self.uids = 0

    # ---- what happens in the cluster ----

    def put(self, made):
        with self.changed:
            made = copy.deepcopy(made)
            key = self.key_of(made)
            before = self.objects.get(key)
            self.version += 1
            if before:
                made["metadata"]["uid"] = before["metadata"]["uid"]
            elif "uid" not in made["metadata"]:
                self.uids += 1
                made["metadata"]["uid"] = f"00000000-0000-0000-0000-{self.uids:012}"
            made["metadata"]["resourceVersion"] = str(self.version)
            self.objects[key] = made
            self.history.append((self.version, "MODIFIED" if before else "ADDED", made, before))
            self.changed.notify_all()

    @staticmethod
    def key_of(made):
        kind = "pods" if made.get("kind") == "Pod" else "endpointslices"
        return (kind, made["metadata"]["namespace"], made["metadata"]["name"])

    def delete(self, name, namespace="default", kind="endpointslices"):
        with self.changed:
            gone = copy.deepcopy(self.objects.pop((kind, namespace, name)))
            self.version += 1
            gone["metadata"]["resourceVersion"] = str(self.version)
            self.history.append((self.version, "DELETED", gone, gone))
            self.changed.notify_all()

    def tick(self, by=1):
        """Something else was written: only the version rises."""
        with self.changed:
            self.version += by
            self.changed.notify_all()

    def compact(self):
        with self.changed:
            self.oldest = self.version
            self.history.clear()

    def restore(self, version, objects=None):
        """The store is another one, of an older version; watches stay open and silent."""
        with self.changed:
            self.version = version
            self.history.clear()
            self.oldest = 0
            if objects is not None:
                self.objects = {}
                for made in objects:
                    made = copy.deepcopy(made)
                    self.uids += 1
                    made["metadata"].update(uid=f"00000000-0000-0000-0001-{self.uids:012}", resourceVersion=str(version))
                    self.objects[self.key_of(made)] = made
            self.changed.notify_all()

    def end_watches(self):
        with self.changed:
            self.generation += 1
            self.changed.notify_all()

    # ---- what it says ----

    def answer(self, request):
        where, one, events = PATH.match(request.path), POD.match(request.path), EVENTS.match(request.path)
        if self.tokens is not None and request.headers.get("authorization") not in [f"Bearer {t}" for t in self.tokens]:
            return Reply(status(401, "Unauthorized", "Unauthorized"), 401)
        if self.denied:
            return Reply(status(403, "Forbidden", 'endpointslices is forbidden: User "u" cannot list resource "endpointslices"'), 403)
        if self.pods_denied and not (where and where[2] == "endpointslices"):
            return Reply(status(403, "Forbidden", 'pods is forbidden: User "u" cannot list resource "pods"'), 403)
        if one:
            return self.one_pod(request, one)
        if events and request.method == "POST":
            self.events_told.append((events[1], json.loads(request.body)))
            return Reply(self.events_told[-1][1], 201)
        if not where or request.method != "GET":
            return Reply(status(404, "NotFound", "the server could not find the requested resource"), 404)
        if "watch" in request.query:
            return self.watch(request.query, where[1], where[2])
        return self.list(request.query, where[1], where[2])

    def one_pod(self, request, where):
        found = self.objects.get(("pods", where[1], where[2]))
        if not found:
            return Reply(status(404, "NotFound", f'pods "{where[2]}" not found'), 404)
        if request.method == "GET":
            return Reply(copy.deepcopy(found))
        assert request.headers["content-type"] == "application/strategic-merge-patch+json" and where[3]
        patch = json.loads(request.body)
        if patch["metadata"].get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
            return Reply(status(422, "Invalid", "metadata.uid: Invalid value: field is immutable"), 422)
        made = copy.deepcopy(found)
        conditions = {c["type"]: c for c in made["status"].get("conditions", [])}
        for new in patch["status"]["conditions"]:
            conditions[new["type"]] = {**conditions.get(new["type"], {}), **new}
        made["status"]["conditions"] = list(conditions.values())
        self.put(made)
        return Reply(made)

    def condition(self, name, kind, namespace="default"):
        """(status, reason)"""
        with self.changed:
            for c in self.objects[("pods", namespace, name)]["status"].get("conditions", []):
                if c["type"] == kind:
                    return c["status"], c["reason"]
        return None

    @staticmethod
    def is_chosen(query, namespace, kind, made):
        if Cluster.key_of(made)[0] != kind or namespace not in (None, made["metadata"]["namespace"]):
            return False
        if "fieldSelector" in query:
            name, value = query["fieldSelector"].split("=")
            assert name == "spec.nodeName"
            return made["spec"]["nodeName"] == value
        return selects(query.get("labelSelector"), made["metadata"]["labels"])

    def selected(self, query, namespace, kind):
        return [o for _, o in sorted(self.objects.items()) if self.is_chosen(query, namespace, kind, o)]

    def list(self, query, namespace, kind):
        assert "resourceVersion" not in query, "a list of any age is asked for"
        if self.store_is_down:
            time.sleep(0.3)
            return Reply(status(504, "Timeout", "Timeout: request did not complete within the allotted timeout"), 504)
        with self.changed:
            token = query.get("continue")
            if token:
                if self.page_age == 0 or token not in self.pages:
                    return Reply(status(410, "Expired", "The provided continue parameter is too old"), 410)
                version, items = self.pages.pop(token)
            else:
                version, items = self.version, self.selected(query, namespace, kind)
            limit = int(query.get("limit", "0")) or len(items) or 1
            metadata = {"resourceVersion": str(version)}
            if len(items) > limit:
                token = f"next/{version}+{len(self.pages)}=="
                self.pages[token] = (version, items[limit:])
                metadata["continue"] = token
            return Reply({"kind": f"{KINDS[kind][1]}List", "apiVersion": KINDS[kind][0], "metadata": metadata,
                          "items": copy.deepcopy(items[:limit])})

    def watch(self, query, namespace, kind):
        begin = int(query["resourceVersion"])
        if begin < self.oldest:
            return Stream([self.line("ERROR", status(410, "Expired", f"too old resource version: {begin} ({self.oldest})"))])
        return Stream(self.events(query, namespace, kind, begin))

    @staticmethod
    def line(kind, made):
        if kind != "ERROR":
            made = {"kind": "EndpointSlice", **made}
        return json.dumps({"type": kind, "object": made}) + "\n"

    def events(self, query, namespace, which, at):
        end = time.monotonic() + min(float(query["timeoutSeconds"]), self.watch_ends_after or 1e9)
        generation, bookmark = self.generation, time.monotonic()
        self.watches += 1
        while time.monotonic() < end and generation == self.generation:
            pieces = []
            with self.changed:
                if not self.mute:
                    for version, kind, made, before in self.history:
                        if version > at and (made["metadata"]["namespace"] == namespace or namespace is None):
                            pieces += self.seen(query, which, kind, made, before, version)
                            at = version
                    if self.bookmark_every and time.monotonic() - bookmark >= self.bookmark_every and self.version > at:
                        at, bookmark = self.version, time.monotonic()
                        pieces.append(self.line("BOOKMARK", {"metadata": {"resourceVersion": str(at)}, "addressType": "",
                                                             "endpoints": None, "ports": None}))
                        self.bookmarks += 1
                if not pieces:
                    self.changed.wait(min(0.1, max(0.001, end - time.monotonic())))
            yield from pieces

    def seen(self, query, which, kind, made, before, version):
        """What leaves a selector is deleted, with its old labels and a new version."""
        is_in = self.is_chosen(query, None, which, made)
        was_in = before is not None and self.is_chosen(query, None, which, before)
        if kind == "DELETED" or (was_in and not is_in):
            if not was_in:
                return []
            gone = copy.deepcopy(before)
            gone["metadata"]["resourceVersion"] = str(version)
            return [self.line("DELETED", gone)]
        return [self.line("MODIFIED" if was_in else "ADDED", made)] if is_in else []
