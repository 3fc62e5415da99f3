"""As much of a Kubernetes API server as the discovery of EndpointSlices meets: consistent lists in pages, watches with
bookmarks, versions that get too old, several servers over one store. It misbehaves where a test says so.

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
PATH = re.compile(r"/apis/discovery\.k8s\.io/v1/(?:namespaces/([^/]+)/)?endpointslices$")


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
        self.objects = {}  # (namespace, name): slice
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
        self.generation = 0  # one more ends all watches
        self.changed = threading.Condition()
        self.uids = 0

    # ---- what happens in the cluster ----

    def put(self, made):
        with self.changed:
            made = copy.deepcopy(made)
            key = (made["metadata"]["namespace"], made["metadata"]["name"])
            before = self.objects.get(key)
            self.version += 1
            if before:
                made["metadata"]["uid"] = before["metadata"]["uid"]
            else:
                self.uids += 1
                made["metadata"]["uid"] = f"00000000-0000-0000-0000-{self.uids:012}"
            made["metadata"]["resourceVersion"] = str(self.version)
            self.objects[key] = made
            self.history.append((self.version, "MODIFIED" if before else "ADDED", made, before))
            self.changed.notify_all()

    def delete(self, name, namespace="default"):
        with self.changed:
            gone = copy.deepcopy(self.objects.pop((namespace, name)))
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
                    self.objects[(made["metadata"]["namespace"], made["metadata"]["name"])] = made
            self.changed.notify_all()

    def end_watches(self):
        with self.changed:
            self.generation += 1
            self.changed.notify_all()

    # ---- what it says ----

    def answer(self, request):
        where = PATH.match(request.path)
        if not where or request.method != "GET":
            return Reply(status(404, "NotFound", "the server could not find the requested resource"), 404)
        if self.tokens is not None and request.headers.get("authorization") not in [f"Bearer {t}" for t in self.tokens]:
            return Reply(status(401, "Unauthorized", "Unauthorized"), 401)
        if self.denied:
            return Reply(status(403, "Forbidden", 'endpointslices is forbidden: User "u" cannot list resource'), 403)
        if "watch" in request.query:
            return self.watch(request.query, where[1])
        return self.list(request.query, where[1])

    def selected(self, query, namespace):
        return [o for (space, _), o in sorted(self.objects.items())
                if namespace in (None, space) and selects(query.get("labelSelector"), o["metadata"]["labels"])]

    def list(self, query, namespace):
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
                version, items = self.version, self.selected(query, namespace)
            limit = int(query.get("limit", "0")) or len(items) or 1
            metadata = {"resourceVersion": str(version)}
            if len(items) > limit:
                token = f"next/{version}+{len(self.pages)}=="
                self.pages[token] = (version, items[limit:])
                metadata["continue"] = token
            return Reply({"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "metadata": metadata,
                          "items": copy.deepcopy(items[:limit])})

    def watch(self, query, namespace):
        begin = int(query["resourceVersion"])
        if begin < self.oldest:
            return Stream([self.line("ERROR", status(410, "Expired", f"too old resource version: {begin} ({self.oldest})"))])
        return Stream(self.events(query, namespace, begin))

    @staticmethod
    def line(kind, made):
        if kind != "ERROR":
            made = {"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", **made}
        return json.dumps({"type": kind, "object": made}) + "\n"

    def events(self, query, namespace, at):
        selector = query.get("labelSelector")
        end = time.monotonic() + min(float(query["timeoutSeconds"]), self.watch_ends_after or 1e9)
        generation, bookmark = self.generation, time.monotonic()
        while time.monotonic() < end and generation == self.generation:
            pieces = []
            with self.changed:
                if not self.mute:
                    for version, kind, made, before in self.history:
                        if version > at and namespace in (None, made["metadata"]["namespace"]):
                            pieces += self.seen(selector, kind, made, before, version)
                            at = version
                    if self.bookmark_every and time.monotonic() - bookmark >= self.bookmark_every and self.version > at:
                        at, bookmark = self.version, time.monotonic()
                        pieces.append(self.line("BOOKMARK", {"metadata": {"resourceVersion": str(at)}, "addressType": "",
                                                             "endpoints": None, "ports": None}))
                if not pieces:
                    self.changed.wait(min(0.1, max(0.001, end - time.monotonic())))
            yield from pieces

    def seen(self, selector, kind, made, before, version):
        """What leaves a selector is deleted, with its old labels and a new version."""
        is_in = selects(selector, made["metadata"]["labels"])
        was_in = before is not None and selects(selector, before["metadata"]["labels"])
        if kind == "DELETED" or (was_in and not is_in):
            if not was_in:
                return []
            gone = copy.deepcopy(before)
            gone["metadata"]["resourceVersion"] = str(version)
            return [self.line("DELETED", gone)]
        return [self.line("MODIFIED" if was_in else "ADDED", made)] if is_in else []
