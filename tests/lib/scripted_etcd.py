"""A member of etcd for the scripted registry: keys with revisions, watches, leases, users, compaction; in the dialect of
grpc-gateway v1 (etcd 3.4) or v2 (3.5 and later)."""

import base64
import itertools
import json
import queue
import threading
import urllib.parse

from scripted_registry import Registry, Reply, Stream

OUT_OF_RANGE, NOT_FOUND, DENIED, INVALID, UNAUTHENTICATED, UNAVAILABLE = 11, 5, 7, 3, 16, 14
STATUS = {OUT_OF_RANGE: 400, NOT_FOUND: 404, DENIED: 403, INVALID: 400, UNAUTHENTICATED: 401, UNAVAILABLE: 503}


def b64(text):
    return base64.b64encode(text.encode()).decode()


def unb64(text):
    return base64.b64decode(text).decode("latin-1")


def documents(text):
    """The objects of a body that holds several behind each other."""
    decoder, at, found = json.JSONDecoder(), 0, []
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        found.append(value)
    return found


class Failure(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code, self.text = code, "etcdserver: " + text


class Watcher:
    def __init__(self, start, end):
        self.start, self.end = start, end
        self.messages = queue.Queue()


class Etcd(Registry):
    def __init__(self, dialect=2, cluster="12101053776118486841"):
        super().__init__(self.say)
        self.dialect, self.cluster = dialect, cluster
        self.store = threading.RLock()
        self.users = {}       # name: password; empty: nobody has to say who it is
        self.tokens = set()
        self.readable = [""]  # prefixes
        self.wipe()

    def wipe(self):
        """As it is when its data were wiped: everything from the start, and no stream knows of it."""
        with self.store:
            self.revision = 1
            self.compacted = 0
            self.keys = {}      # name: kv
            self.history = []   # (revision, key, kv or None)
            self.leases = {}    # number: ttl
            self.next_lease = 9041998978783709192
            self.watchers = []

    # ---- what a test does ----

    def put(self, key, value, lease=None):
        with self.store:
            self.revision += 1
            old = self.keys.get(key)
            kv = {"key": b64(key), "mod_revision": str(self.revision),
                  "create_revision": old["create_revision"] if old else str(self.revision),
                  "value": b64(value if isinstance(value, str) else json.dumps(value))}
            if lease:
                kv["lease"] = str(lease)
            self.keys[key] = kv
            self.changed(key, kv)

    def delete(self, key):
        with self.store:
            if key in self.keys:
                self.revision += 1
                del self.keys[key]
                self.changed(key, None)

    def instance(self, service, name, port=8080, **more):
        self.put(f"/services/{service}/{name}", {"address": "127.0.0.1", "port": port, **more})

    def gone(self, service, name):
        self.delete(f"/services/{service}/{name}")

    def value(self, service, name):
        kv = self.keys.get(f"/services/{service}/{name}")
        return kv and json.loads(base64.b64decode(kv["value"]))

    def compact(self):
        with self.store:
            self.compacted = self.revision
            self.history = []

    def end_streams(self, *last):
        """Each watch's stream ends, after these messages."""
        with self.store:
            for watcher in self.watchers:
                for message in (*last, None):
                    watcher.messages.put(message)
            self.watchers = []

    def expire(self, lease):
        with self.store:
            self.leases.pop(lease, None)
            for key in [k for k, kv in self.keys.items() if kv.get("lease") == str(lease)]:
                self.delete(key)

    # ---- what is said ----

    def changed(self, key, kv):
        self.history.append((self.revision, key, kv))
        for watcher in self.watchers:
            watcher.messages.put((self.revision, key, kv))

    def header(self, **more):
        return {"header": {"cluster_id": self.cluster, "member_id": "15985099378392235387",
                           "revision": str(self.revision), "raft_term": "2"}, **more}

    def error(self, failure):
        body = {"code": failure.code, "message": failure.text}
        if self.dialect == 1:
            body = {"error": failure.text, "message": failure.text, "code": failure.code}
        return Reply(body, STATUS.get(failure.code, 500))

    def say(self, request):
        path = urllib.parse.urlsplit(request.target).path
        call = getattr(self, path.removeprefix("/v3/").replace("/", "_"), None)
        if request.method != "POST" or not path.startswith("/v3/") or not call:
            return Reply("Not Found", 404)
        try:
            if path != "/v3/auth/authenticate":
                self.let_in(request)
            with self.store:
                return call(request)
        except Failure as failure:
            return self.error(failure)

    def let_in(self, request):
        token = request.headers.get("authorization")
        if self.users and not token:
            raise Failure(INVALID, "user name is empty")
        if self.users and token not in self.tokens:
            raise Failure(UNAUTHENTICATED, "invalid auth token")

    def auth_authenticate(self, request):
        said = request.json
        if self.users.get(said["name"]) != said["password"]:
            raise Failure(INVALID, "authentication failed, invalid user ID or password")
        token = f"token.{len(self.tokens) + 1}"
        self.tokens.add(token)
        return self.header(token=token)

    def range_of(self, said):
        start = unb64(said["key"])
        end = unb64(said["range_end"]) if said.get("range_end") else start + "\0"
        if not any(start.startswith(prefix) for prefix in self.readable):
            raise Failure(DENIED, "permission denied")
        asked = int(said.get("revision", 0))
        if asked > self.revision:
            raise Failure(OUT_OF_RANGE, "mvcc: required revision is a future revision")
        if 0 < asked < self.compacted:
            raise Failure(OUT_OF_RANGE, "mvcc: required revision has been compacted")
        found = [kv for key, kv in sorted(self.keys.items()) if start <= key < end]
        count = len(found)
        if said.get("sort_target") == "MOD":
            found.sort(key=lambda kv: int(kv["mod_revision"]), reverse=said.get("sort_order") == "DESCEND")
        limit = int(said.get("limit", 0)) or count
        answer = {}
        if found[:limit]:
            answer["kvs"] = [{k: v for k, v in kv.items() if not (said.get("keys_only") and k == "value")}
                             for kv in found[:limit]]
        if count > limit:
            answer["more"] = True
        if count:
            answer["count"] = str(count)
        return answer

    def kv_range(self, request):
        return self.header(**self.range_of(request.json))

    def kv_deleterange(self, request):
        self.delete(unb64(request.json["key"]))
        return self.header()

    def put_of(self, said):
        key = unb64(said["key"])
        lease = said.get("lease")
        if said.get("ignore_lease"):
            if key not in self.keys:
                raise Failure(NOT_FOUND, "key not found")
            lease = self.keys[key].get("lease")
        elif lease and int(lease) not in self.leases:
            raise Failure(NOT_FOUND, "requested lease not found")
        self.put(key, base64.b64decode(said["value"]).decode(), lease)
        return {}

    def holds(self, compare):
        kv = self.keys.get(unb64(compare["key"]))
        return (kv["mod_revision"] if kv else "0") == compare["mod_revision"]

    def kv_txn(self, request):
        said = request.json
        if not all(self.holds(c) for c in said.get("compare", [])):
            return self.header()
        responses = []
        for op in said.get("success", []):
            if "request_range" in op:
                responses.append({"response_range": {"header": {}, **self.range_of(op["request_range"])}})
            else:
                responses.append({"response_put": {"header": {}, **self.put_of(op["request_put"])}})
        return self.header(succeeded=True, responses=responses)

    def lease_grant(self, request):
        self.next_lease += 1
        self.leases[self.next_lease] = int(request.json["TTL"])
        return self.header(ID=str(self.next_lease), TTL=request.json["TTL"])

    def lease_keepalive(self, request):
        lease = int(request.json["ID"])
        result = self.header(ID=str(lease))
        if lease in self.leases:
            result["TTL"] = str(self.leases[lease])
        return Stream([json.dumps({"result": result}) + "\n"], {"Content-Type": "application/json"})

    def lease_revoke(self, request):
        lease = int(request.json["ID"])
        if lease not in self.leases:
            raise Failure(NOT_FOUND, "requested lease not found")
        self.expire(lease)
        return self.header()

    # ---- watches ----

    def watch(self, request):
        wanted = [d["create_request"] for d in documents(request.body.decode())]
        messages = queue.Queue()
        first = []
        for said in wanted:
            watcher = Watcher(unb64(said["key"]), unb64(said["range_end"]))
            watcher.messages, watcher.number = messages, said.get("watch_id", "0")
            start = int(said.get("start_revision", 0))
            first.append(self.header(watch_id=watcher.number, created=True))
            if 0 < start <= self.compacted:
                first.append(self.header(watch_id=watcher.number, canceled=True,
                                         compact_revision=str(self.compacted)))
                continue
            first += [self.event_of(watcher, *change) for change in self.history if change[0] >= start]
            watcher.messages = Forward(self, watcher, messages, start)
            self.watchers.append(watcher)
        lines = (json.dumps({"result": m}) + "\n" for m in first if m)
        return Stream(itertools.chain(lines, self.told(messages)), {"Content-Type": "application/json"})

    def event_of(self, watcher, revision, key, kv):
        if not watcher.start <= key < watcher.end:
            return None
        event = {"kv": kv} if kv else {"type": "DELETE", "kv": {"key": b64(key), "mod_revision": str(revision)}}
        return {"header": {"cluster_id": self.cluster, "member_id": "1", "revision": str(revision), "raft_term": "2"},
                "watch_id": watcher.number, "events": [event]}

    def told(self, messages):
        while True:
            message = messages.get()
            if message is None:
                return
            yield message


class Forward:
    """What one watch puts into its stream, as text."""

    def __init__(self, etcd, watcher, messages, start):
        self.etcd, self.watcher, self.messages, self.start = etcd, watcher, messages, start

    def put(self, message):
        if isinstance(message, tuple):
            event = self.etcd.event_of(self.watcher, *message) if message[0] >= self.start else None
            message = event and json.dumps({"result": event}) + "\n"
            if not message:
                return
        self.messages.put(message)
