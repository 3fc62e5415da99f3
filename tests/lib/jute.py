"""What ZooKeeper's clients and servers say to each other, taken apart and put together. Source: zookeeper.jute."""

import struct

CREATE, DELETE, EXISTS, GET_DATA, SET_DATA, GET_ACL, SET_ACL = 1, 2, 3, 4, 5, 6, 7
GET_CHILDREN, SYNC, PING, GET_CHILDREN2, CHECK, MULTI, CREATE2, CREATE_CONTAINER = 8, 9, 11, 12, 13, 14, 15, 19
AUTH, SET_WATCHES, CLOSE = 100, 101, -11
WATCH_XID, PING_XID, AUTH_XID, SET_WATCHES_XID = -1, -2, -4, -8
OK, UNIMPLEMENTED, NO_NODE, NO_AUTH, BAD_VERSION, NODE_EXISTS, NOT_EMPTY = 0, -6, -101, -102, -103, -110, -111
SESSION_EXPIRED, AUTH_FAILED = -112, -115
CREATED, DELETED, CHANGED, CHILD = 1, 2, 3, 4
PERSISTENT, EPHEMERAL, CONTAINER = 0, 1, 4
READ, ALL = 1, 31
OPEN = [(ALL, "world", "anyone")]


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        piece = self.data[self.at:self.at + size]
        if len(piece) != size:
            raise EOFError("the message is too short")
        self.at += size
        return piece

    def int(self):
        return struct.unpack(">i", self.take(4))[0]

    def long(self):
        return struct.unpack(">q", self.take(8))[0]

    def bool(self):
        return self.take(1) != b"\0"

    def bytes(self):
        size = self.int()
        return None if size < 0 else self.take(size)

    def text(self):
        return (self.bytes() or b"").decode()

    def texts(self):
        return [self.text() for _ in range(max(0, self.int()))]

    def acl(self):
        return [(self.int(), self.text(), self.text()) for _ in range(max(0, self.int()))]


class Writer:
    def __init__(self):
        self.data = b""

    def int(self, value):
        self.data += struct.pack(">i", value)
        return self

    def long(self, value):
        self.data += struct.pack(">q", value)
        return self

    def bool(self, value):
        self.data += b"\1" if value else b"\0"
        return self

    def bytes(self, value):
        if value is None:
            return self.int(-1)
        self.int(len(value))
        self.data += value
        return self

    def raw(self, data):
        self.data += data
        return self

    def text(self, value):
        return self.bytes(value.encode())

    def texts(self, values):
        self.int(len(values))
        self.data += b"".join(struct.pack(">i", len(v.encode())) + v.encode() for v in values)
        return self

    def acl(self, entries):
        self.int(len(entries))
        for permissions, scheme, name in entries:
            self.int(permissions).text(scheme).text(name)
        return self

    def frame(self):
        return struct.pack(">i", len(self.data)) + self.data
