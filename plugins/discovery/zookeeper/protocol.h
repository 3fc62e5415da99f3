#pragma once

/* What is said between a client and a server of ZooKeeper, as far as it is said here: requests
 * made, answers taken apart. Source: zookeeper.jute and ZooDefs of Apache ZooKeeper 3.4 to 3.9. */

#include <sys/types.h>
#include <usher/error.h>

#include "jute.h"

enum zk_op {
	ZK_CREATE = 1,
	ZK_DELETE = 2,
	ZK_EXISTS = 3,
	ZK_GET_DATA = 4,
	ZK_SET_DATA = 5,
	ZK_SYNC = 9,
	ZK_PING = 11,
	ZK_GET_CHILDREN2 = 12,
	ZK_MULTI = 14,
	ZK_CREATE_CONTAINER = 19,
	ZK_AUTH = 100,
	ZK_SET_WATCHES = 101,
	ZK_CLOSE = -11,
};

/* Answers with one of these belong to no request in the row. */
enum zk_xid {
	ZK_XID_WATCH = -1,
	ZK_XID_PING = -2,
	ZK_XID_AUTH = -4,
	ZK_XID_SET_WATCHES = -8,
};

enum zk_code {
	ZK_OK = 0,
	ZK_UNIMPLEMENTED = -6,
	ZK_BAD_ARGUMENTS = -8,
	ZK_NO_NODE = -101,
	ZK_NO_AUTH = -102,
	ZK_BAD_VERSION = -103,
	ZK_NO_CHILDREN_FOR_EPHEMERALS = -108,
	ZK_NODE_EXISTS = -110,
	ZK_NOT_EMPTY = -111,
	ZK_SESSION_EXPIRED = -112,
	ZK_INVALID_ACL = -114,
	ZK_AUTH_FAILED = -115,
	ZK_SESSION_MOVED = -118,
	ZK_NOT_READ_ONLY = -119,
	ZK_QUOTA_EXCEEDED = -125,
	ZK_THROTTLED = -127,
};

enum zk_change {
	ZK_NODE_CREATED = 1,
	ZK_NODE_DELETED = 2,
	ZK_NODE_CHANGED = 3,
	ZK_CHILDREN_CHANGED = 4,
};

enum zk_mode {
	ZK_PERSISTENT = 0,
	ZK_EPHEMERAL = 1,
	ZK_CONTAINER = 4,
};

/* Who may do what with a node that is made. */
enum zk_acl {
	ZK_ACL_OPEN,     /* anybody anything */
	ZK_ACL_READABLE, /* who made it anything, everybody else may read */
	ZK_ACL_CREATOR,  /* only who made it */
};

#define ZK_PASSWORD_SIZE 16 /* of a session */
#define ZK_NO_VERSION    (-1)

struct zk_stat {
	int64_t czxid, mzxid, pzxid;
	int64_t owner; /* the session whose end ends the node; 0: none */
	int32_t version, acl_version, children;
};

/* A negative errno and a message, for what a server has answered. */
int zk_code_error(int code, const char *path, struct usher_error *reterr);

/* ---- opening a session ---- */

struct zk_greeting {
	int32_t timeout_ms;
	int64_t session; /* 0: a new one */
	unsigned char password[ZK_PASSWORD_SIZE];
	bool read_only;
};

/* zxid: the last that was seen; who knows less than that refuses. */
void zk_put_greeting(struct jute_out *out, const struct zk_greeting *greeting, int64_t zxid);
/* EBADMSG. */
int zk_get_greeting(struct jute_in *in, struct zk_greeting *ret);

/* ---- requests: a frame with its length and header ---- */

void zk_put_header(struct jute_out *out, int32_t xid, enum zk_op op);
/* The frame that began at `at` is whole. */
void zk_end_frame(struct jute_out *out, size_t at);

void zk_put_read(struct jute_out *out, const char *path, bool watch);
void zk_put_create(struct jute_out *out, const char *path, const char *value, enum zk_mode mode,
		enum zk_acl acl);
void zk_put_delete(struct jute_out *out, const char *path, int32_t version);
void zk_put_set_data(struct jute_out *out, const char *path, const char *value, int32_t version);
void zk_put_auth(struct jute_out *out, const char *scheme, const char *secret);
/* Delete the node and make it again, both or neither. */
void zk_put_replace(struct jute_out *out, const char *path, int32_t version, const char *value,
		enum zk_acl acl);

/* ---- answers ---- */

struct zk_header {
	int32_t xid;
	int64_t zxid;
	int32_t code;
};

void zk_get_header(struct jute_in *in, struct zk_header *ret);
void zk_get_stat(struct jute_in *in, struct zk_stat *ret);
/* The first thing that went wrong in a multi, or ZK_OK. */
int zk_get_multi(struct jute_in *in);
