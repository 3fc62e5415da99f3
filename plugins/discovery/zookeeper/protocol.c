#include "protocol.h"

#include <errno.h>
#include <string.h>

#define PERM_READ 1
#define PERM_ALL  31

/* ---- errors ---- */

static const struct {
	int code, error;
	const char *text;
} meanings[] = {
	{ ZK_NO_NODE, ENOENT, "there is no such node" },
	{ ZK_NO_AUTH, EACCES,
			"ZooKeeper denies it: the node's ACL does not let this user; see user and "
			"password_file" },
	{ ZK_BAD_VERSION, EAGAIN, "somebody else has changed it meanwhile" },
	{ ZK_NO_CHILDREN_FOR_EPHEMERALS, EINVAL,
			"its parent is an ephemeral node, which can have no children" },
	{ ZK_NODE_EXISTS, EEXIST, "the node exists" },
	{ ZK_NOT_EMPTY, ENOTEMPTY, "the node has children" },
	{ ZK_SESSION_EXPIRED, EAGAIN, "the session has expired" },
	{ ZK_INVALID_ACL, EINVAL,
			"ZooKeeper takes no such ACL; acl other than open needs user and password" },
	{ ZK_AUTH_FAILED, EACCES, "ZooKeeper does not take user and password (scheme digest)" },
	{ ZK_SESSION_MOVED, EAGAIN, "the session has moved to another server" },
	{ ZK_NOT_READ_ONLY, EAGAIN, "the server is read-only: it has lost its majority" },
	{ ZK_QUOTA_EXCEEDED, EDQUOT, "the quota of the node is used up" },
	{ ZK_THROTTLED, EAGAIN, "the server has too much to do" },
	{ ZK_UNIMPLEMENTED, ENOSYS, "the server is too old for it" },
	{ ZK_BAD_ARGUMENTS, EINVAL, "ZooKeeper takes no such path" },
};

int zk_code_error(int code, const char *path, struct usher_error *reterr)
{
	for (size_t i = 0; i < sizeof(meanings) / sizeof(*meanings); i++)
		if (meanings[i].code == code)
			return usher_error_set(reterr, -meanings[i].error, "%.200s: %s", path,
					meanings[i].text);
	return usher_error_set(
			reterr, -EIO, "%.200s: ZooKeeper answers with its error %d", path, code);
}

/* ---- opening a session ---- */

void zk_put_greeting(struct jute_out *out, const struct zk_greeting *greeting, int64_t zxid)
{
	size_t at = out->size;

	jute_put_int(out, 0); /* the frame's length, known at its end */
	jute_put_int(out, 0); /* the version of the protocol */
	jute_put_long(out, zxid);
	jute_put_int(out, greeting->timeout_ms);
	jute_put_long(out, greeting->session);
	jute_put_bytes(out, greeting->password, ZK_PASSWORD_SIZE);
	jute_put_bool(out, greeting->read_only);
	zk_end_frame(out, at);
}

int zk_get_greeting(struct jute_in *in, struct zk_greeting *ret)
{
	struct zk_greeting greeting = { 0 };
	const char *password;
	size_t size;

	(void) jute_get_int(in);
	greeting.timeout_ms = jute_get_int(in);
	greeting.session = jute_get_long(in);
	password = jute_get_bytes(in, &size);
	if (in->failed || (password && size != ZK_PASSWORD_SIZE))
		return -EBADMSG;
	if (password)
		memcpy(greeting.password, password, ZK_PASSWORD_SIZE);
	/* Servers before 3.4 do not say it. */
	greeting.read_only = in->at < in->size && jute_get_bool(in);
	*ret = greeting;
	return 0;
}

/* ---- requests ---- */

void zk_put_header(struct jute_out *out, int32_t xid, enum zk_op op)
{
	jute_put_int(out, 0); /* the frame's length, known at its end */
	jute_put_int(out, xid);
	jute_put_int(out, (int32_t) op);
}

void zk_end_frame(struct jute_out *out, size_t at)
{
	jute_set_int(out, at, (int32_t) (out->size - at - 4));
}

void zk_put_read(struct jute_out *out, const char *path, bool watch)
{
	jute_put_text(out, path);
	jute_put_bool(out, watch);
}

static void put_acl(struct jute_out *out, int32_t permissions, const char *scheme, const char *id)
{
	jute_put_int(out, permissions);
	jute_put_text(out, scheme);
	jute_put_text(out, id);
}

static void put_acls(struct jute_out *out, enum zk_acl acl)
{
	jute_put_int(out, acl == ZK_ACL_READABLE ? 2 : 1);
	if (acl == ZK_ACL_OPEN)
		put_acl(out, PERM_ALL, "world", "anyone");
	else
		put_acl(out, PERM_ALL, "auth", "");
	if (acl == ZK_ACL_READABLE)
		put_acl(out, PERM_READ, "world", "anyone");
}

void zk_put_create(struct jute_out *out, const char *path, const char *value, enum zk_mode mode,
		enum zk_acl acl)
{
	jute_put_text(out, path);
	jute_put_text(out, value);
	put_acls(out, acl);
	jute_put_int(out, (int32_t) mode);
}

void zk_put_delete(struct jute_out *out, const char *path, int32_t version)
{
	jute_put_text(out, path);
	jute_put_int(out, version);
}

void zk_put_set_data(struct jute_out *out, const char *path, const char *value, int32_t version)
{
	jute_put_text(out, path);
	jute_put_text(out, value);
	jute_put_int(out, version);
}

void zk_put_auth(struct jute_out *out, const char *scheme, const char *secret)
{
	jute_put_int(out, 0);
	jute_put_text(out, scheme);
	jute_put_text(out, secret);
}

static void put_multi_header(struct jute_out *out, int32_t op, bool done)
{
	jute_put_int(out, op);
	jute_put_bool(out, done);
	jute_put_int(out, -1);
}

void zk_put_replace(struct jute_out *out, const char *path, int32_t version, const char *value,
		enum zk_acl acl)
{
	put_multi_header(out, ZK_DELETE, false);
	zk_put_delete(out, path, version);
	put_multi_header(out, ZK_CREATE, false);
	zk_put_create(out, path, value, ZK_EPHEMERAL, acl);
	put_multi_header(out, -1, true);
}

/* ---- answers ---- */

void zk_get_header(struct jute_in *in, struct zk_header *ret)
{
	ret->xid = jute_get_int(in);
	ret->zxid = jute_get_long(in);
	ret->code = jute_get_int(in);
}

void zk_get_stat(struct jute_in *in, struct zk_stat *ret)
{
	ret->czxid = jute_get_long(in);
	ret->mzxid = jute_get_long(in);
	(void) jute_get_long(in); /* ctime, mtime: of clocks that are not ours */
	(void) jute_get_long(in);
	ret->version = jute_get_int(in);
	(void) jute_get_int(in); /* of the list of children */
	ret->acl_version = jute_get_int(in);
	ret->owner = jute_get_long(in);
	(void) jute_get_int(in); /* the size of the data */
	ret->children = jute_get_int(in);
	ret->pzxid = jute_get_long(in);
}

int zk_get_multi(struct jute_in *in)
{
	int first = ZK_OK;

	for (;;) {
		int32_t op = jute_get_int(in);
		bool done = jute_get_bool(in);
		size_t size;

		(void) jute_get_int(in);
		if (in->failed || done)
			return first;
		if (op == ZK_CREATE)
			(void) jute_get_bytes(in, &size);
		if (op == -1) {
			int code = jute_get_int(in);

			/* Those before the one that failed are undone, and say 0; those behind it
			 * say -2. */
			if (first == ZK_OK && code != ZK_OK && code != -2)
				first = code;
		}
	}
}
