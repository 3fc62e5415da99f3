/* Registration: ephemeral nodes, and the state in their data.
 *
 * Each function is called in the host's thread and done in the keeper's. A question that was not
 * answered may have been done all the same, so each job is begun anew from what there is, until it
 * is done or its time is over. */

#include "registration.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "layout.h"
#include "own.h"
#include "value.h"
#include "zookeeper.h"

#define TRIES_MAX 8 /* against others who change the same node */

static int out_of_memory(struct usher_error *reterr)
{
	return usher_error_set(reterr, -ENOMEM, "out of memory");
}

/* ---- questions ---- */

static int get(struct zk_keeper *k, const char *path, struct zk_answer *ret,
		struct usher_error *reterr)
{
	struct jute_out *out = zk_keeper_begin(k, ZK_GET_DATA, path, reterr);

	if (!out)
		return -EAGAIN;
	zk_put_read(out, path, false);
	return zk_keeper_ask(k, ret, reterr);
}

static int create(struct zk_keeper *k, const char *path, const char *value, enum zk_mode mode,
		int *ret_code, struct usher_error *reterr)
{
	enum zk_op op = mode == ZK_CONTAINER ? ZK_CREATE_CONTAINER : ZK_CREATE;
	/* What lies above instances is everybody's. */
	enum zk_acl acl =
			mode == ZK_EPHEMERAL ? (enum zk_acl) zk_keeper_config(k)->acl : ZK_ACL_OPEN;
	cleanup(zk_answer_done) struct zk_answer answer = { 0 };
	struct jute_out *out = zk_keeper_begin(k, op, path, reterr);
	int r;

	if (!out)
		return -EAGAIN;
	zk_put_create(out, path, value, mode, acl);
	r = zk_keeper_ask(k, &answer, reterr);
	*ret_code = answer.code;
	return r;
}

static int replace(struct zk_keeper *k, const char *path, int32_t version, const char *value,
		int *ret_code, struct usher_error *reterr)
{
	cleanup(zk_answer_done) struct zk_answer answer = { 0 };
	struct jute_out *out = zk_keeper_begin(k, ZK_MULTI, path, reterr);
	int r;

	if (!out)
		return -EAGAIN;
	zk_put_replace(out, path, version, value, (enum zk_acl) zk_keeper_config(k)->acl);
	r = zk_keeper_ask(k, &answer, reterr);
	*ret_code = answer.code;
	return r;
}

static int set_data(struct zk_keeper *k, const char *path, const char *value, int32_t version,
		int *ret_code, struct usher_error *reterr)
{
	cleanup(zk_answer_done) struct zk_answer answer = { 0 };
	struct jute_out *out = zk_keeper_begin(k, ZK_SET_DATA, path, reterr);
	int r;

	if (!out)
		return -EAGAIN;
	zk_put_set_data(out, path, value, version);
	r = zk_keeper_ask(k, &answer, reterr);
	*ret_code = answer.code;
	return r;
}

static int delete_node(struct zk_keeper *k, const char *path, int32_t version, int *ret_code,
		struct usher_error *reterr)
{
	cleanup(zk_answer_done) struct zk_answer answer = { 0 };
	struct jute_out *out = zk_keeper_begin(k, ZK_DELETE, path, reterr);
	int r;

	if (!out)
		return -EAGAIN;
	zk_put_delete(out, path, version);
	r = zk_keeper_ask(k, &answer, reterr);
	*ret_code = answer.code;
	return r;
}

/* ---- a node of ours ---- */

/* Everything above the node, as Curator makes it: nodes that go when their last child has gone. */
static int make_parents(struct zk_keeper *k, const char *path, struct usher_error *reterr)
{
	autofree char *parent = strdup(path);
	int r = 0;

	if (!parent)
		return out_of_memory(reterr);
	for (char *end = strchr(parent + 1, '/'); r == 0 && end; end = strchr(end + 1, '/')) {
		int code = ZK_OK;

		*end = '\0';
		r = create(k, parent, "", ZK_CONTAINER, &code, reterr);
		if (r == 0 && code == ZK_UNIMPLEMENTED) /* before 3.5 */
			r = create(k, parent, "", ZK_PERSISTENT, &code, reterr);
		/* Who may not make what is there already has no need to. */
		if (r == 0 && code != ZK_OK && code != ZK_NODE_EXISTS && code != ZK_NO_AUTH)
			r = zk_code_error(code, parent, reterr);
		*end = '/';
	}
	return r;
}

struct seen {
	char address[USHER_TEXT_MAX];
	uint16_t port;
	enum usher_admin_state state;
	bool is_ours; /* of this run of usherd, or of an earlier one */
};

static bool see(const char *value, size_t size, struct seen *ret)
{
	struct zk_value v;

	if (!value || zk_value_read(value, size, NULL, &v, NULL) < 0)
		return false;
	(void) snprintf(ret->address, sizeof(ret->address), "%s", v.endpoint.address);
	ret->port = v.endpoint.port;
	ret->state = v.endpoint.admin_state;
	ret->is_ours = zk_value_is_ours(&v);
	zk_value_done(&v);
	return true;
}

/* What is there is of the same instance: 0, or EBUSY. (EEXIST would mean that it is registered.) */
static int check_instance(const char *path, const struct zk_answer *there, const char *value,
		struct seen *ret, struct usher_error *reterr)
{
	struct seen ours = { .port = 0 };

	*ret = (struct seen){ .port = 0 };
	if (!see(value, strlen(value), &ours) || !see(there->data, there->size, ret))
		return 0; /* nobody can read what is there: it is of nobody */
	if (ours.port == ret->port && strcmp(ours.address, ret->address) == 0)
		return 0;
	return usher_error_set(reterr, -EBUSY,
			"%.200s: is there already, of another instance at %.100s port %u; give this one "
			"another id, or wait until that has gone",
			path, ret->address, ret->port);
}

/* Somebody else's node gets the state that ours was to have, and stays as it was in all else. */
static int put_back(struct zk_keeper *k, const char *path, const struct zk_answer *there,
		const char *value, struct usher_error *reterr)
{
	struct seen ours = { .state = USHER_ADMIN_READY };
	autofree char *changed = NULL;
	int code = ZK_OK, r;

	(void) see(value, strlen(value), &ours);
	r = zk_value_set_state(there->data, there->size, ours.state, &changed, reterr);
	if (r == 0)
		r = set_data(k, path, changed, there->stat.version, &code, reterr);
	if (r == 0 && code != ZK_OK)
		r = zk_code_error(code == ZK_NO_NODE ? ZK_BAD_VERSION : code, path, reterr);
	return r < 0 ? r : 1;
}

/* Something is there already. EAGAIN: look again. > 0: it stays somebody else's. */
static int put_over(struct zk_keeper *k, const char *path, const char *value,
		struct usher_error *reterr)
{
	cleanup(zk_answer_done) struct zk_answer there = { 0 };
	struct seen seen = { .port = 0 };
	int code = ZK_OK, r = get(k, path, &there, reterr);

	if (r < 0)
		return r;
	if (there.code == ZK_NO_NODE)
		return usher_error_set(reterr, -EAGAIN, "%.200s: comes and goes", path);
	if (there.code != ZK_OK)
		return zk_code_error(there.code, path, reterr);
	if (there.stat.owner != zk_keeper_session(k))
		r = check_instance(path, &there, value, &seen, reterr);
	if (r < 0)
		return r;
	/* What is somebody else's and out of service was put there by a drain: its own session is
	 * what it has to live and die with. */
	if (there.stat.owner != zk_keeper_session(k) && !seen.is_ours &&
			seen.state != USHER_ADMIN_READY)
		return put_back(k, path, &there, value, reterr);
	if (there.stat.owner == 0 || there.stat.owner == zk_keeper_session(k))
		r = set_data(k, path, value, there.stat.version, &code, reterr);
	else
		r = replace(k, path, there.stat.version, value, &code, reterr);
	if (r == 0 && code == ZK_NO_NODE)
		code = ZK_BAD_VERSION;
	return r < 0 || code == ZK_OK ? r : zk_code_error(code, path, reterr);
}

/* EAGAIN: look again. > 0: it stays somebody else's. */
static int put_once(struct zk_keeper *k, const char *path, const char *value,
		struct usher_error *reterr)
{
	int code = ZK_OK, r = create(k, path, value, ZK_EPHEMERAL, &code, reterr);

	if (r == 0 && code == ZK_NO_NODE) {
		r = make_parents(k, path, reterr);
		if (r == 0)
			r = create(k, path, value, ZK_EPHEMERAL, &code, reterr);
	}
	if (r < 0 || code == ZK_OK)
		return r;
	return code == ZK_NODE_EXISTS ? put_over(k, path, value, reterr)
				      : zk_code_error(code, path, reterr);
}

/* Whether the same may go well when it is done again. */
static bool is_passing(int r)
{
	return r == -EAGAIN || r == -ECONNRESET || r == -ECONNREFUSED || r == -ETIMEDOUT;
}

struct act {
	const char *path, *value;
	enum usher_admin_state state;
};

typedef int (*attempt)(struct zk_keeper *k, const struct act *act, struct usher_error *reterr);

/* From the start, while somebody else is faster, or the session is lost in between. */
static int until_done(struct zk_keeper *k, attempt once, const struct act *act,
		struct usher_error *reterr)
{
	int r = -EAGAIN;

	for (int i = 0; is_passing(r) && i < TRIES_MAX; i++) {
		r = zk_keeper_open(k, reterr);
		if (r < 0)
			return r;
		r = once(k, act, reterr);
	}
	return r;
}

static int put_act(struct zk_keeper *k, const struct act *act, struct usher_error *reterr)
{
	return put_once(k, act->path, act->value, reterr);
}

int zk_registration_put(struct zk_keeper *k, const char *path, const char *value,
		struct usher_error *reterr)
{
	const struct act act = { .path = path, .value = value };

	return until_done(k, put_act, &act, reterr);
}

/* ---- jobs ---- */

static int add_job(struct zk_keeper *k, void *userdata, struct usher_error *reterr)
{
	const struct act *act = userdata;
	int r = zk_registration_put(k, act->path, act->value, reterr);
	char *value;

	if (r < 0)
		return r;
	if (r > 0) {
		zk_keeper_forget(k, act->path);
		return 0;
	}
	value = strdup(act->value);
	return value ? zk_keeper_remember(k, act->path, value, reterr) : out_of_memory(reterr);
}

/* What an earlier run of usherd has registered is in that one's session, and would go with it.
 * Somebody else's has its own. */
static int adopt(struct zk_keeper *k, const char *path, struct zk_answer *there,
		struct usher_error *reterr)
{
	struct seen seen = { .port = 0 };
	int code = ZK_OK, r = 0;

	if (!see(there->data, there->size, &seen) || !seen.is_ours)
		return 0;
	if (there->stat.owner != zk_keeper_session(k))
		r = replace(k, path, there->stat.version, there->data, &code, reterr);
	if (r < 0)
		return r;
	if (code != ZK_OK)
		return zk_code_error(code == ZK_NO_NODE ? ZK_BAD_VERSION : code, path, reterr);
	return zk_keeper_remember(k, path, take(there->data), reterr);
}

/* It is there, and in our session; then what it says is the newest there is. */
static int renew_once(struct zk_keeper *k, const struct act *act, struct usher_error *reterr)
{
	cleanup(zk_answer_done) struct zk_answer there = { 0 };
	const struct zk_registration *known = zk_keeper_find(k, act->path);
	int r = get(k, act->path, &there, reterr);

	if (r < 0)
		return r;
	if (there.code != ZK_OK && (there.code != ZK_NO_NODE || !known))
		return zk_code_error(there.code, act->path, reterr);
	if (!known)
		return adopt(k, act->path, &there, reterr);
	if (there.code == ZK_NO_NODE ||
			(there.stat.owner != 0 && there.stat.owner != zk_keeper_session(k)))
		return put_once(k, act->path, known->value, reterr);
	if (!there.data || there.size == 0)
		return 0;
	return zk_keeper_remember(k, act->path, take(there.data), reterr);
}

static int renew_job(struct zk_keeper *k, void *userdata, struct usher_error *reterr)
{
	int r = until_done(k, renew_once, userdata, reterr);

	return r > 0 ? 0 : r;
}

/* Ours, which has gone: it comes back with the state. */
static int set_state_of_gone(struct zk_keeper *k, const struct act *act, struct usher_error *reterr)
{
	const struct zk_registration *known = zk_keeper_find(k, act->path);
	autofree char *value = NULL;
	int r;

	if (!known)
		return zk_code_error(ZK_NO_NODE, act->path, reterr);
	r = zk_value_set_state(known->value, strlen(known->value), act->state, &value, reterr);
	if (r == 0)
		r = put_once(k, act->path, value, reterr);
	if (r != 0)
		return r < 0 ? r : 0;
	return zk_keeper_remember(k, act->path, take(value), reterr);
}

/* The node keeps its session, whosever it is: an instance that registers itself is drained, too. */
static int set_state_once(struct zk_keeper *k, const struct act *act, struct usher_error *reterr)
{
	cleanup(zk_answer_done) struct zk_answer there = { 0 };
	autofree char *value = NULL;
	int code = ZK_OK, r = get(k, act->path, &there, reterr);

	if (r < 0)
		return r;
	if (there.code == ZK_NO_NODE)
		return set_state_of_gone(k, act, reterr);
	if (there.code != ZK_OK)
		return zk_code_error(there.code, act->path, reterr);
	r = zk_value_set_state(
			there.data ? there.data : "", there.size, act->state, &value, reterr);
	if (r < 0)
		return usher_error_prefix(reterr, r, "%.200s", act->path);
	r = set_data(k, act->path, value, there.stat.version, &code, reterr);
	if (r < 0 || code != ZK_OK)
		return r < 0 ? r : zk_code_error(code, act->path, reterr);
	if (!zk_keeper_find(k, act->path))
		return 0;
	return zk_keeper_remember(k, act->path, take(value), reterr);
}

static int set_state_job(struct zk_keeper *k, void *userdata, struct usher_error *reterr)
{
	return until_done(k, set_state_once, userdata, reterr);
}

/* Ours are also those of an earlier run. */
static bool is_to_delete(const struct zk_keeper *k, const char *path, const struct zk_answer *there)
{
	struct seen seen = { .port = 0 };

	return zk_keeper_find(k, path) || there->stat.owner == zk_keeper_session(k) ||
			(see(there->data, there->size, &seen) && seen.is_ours);
}

/* A node that is not ours could not be put back as it was, in its own session, so it is marked as
 * out of service in place of being deleted. */
static int remove_once(struct zk_keeper *k, const struct act *act, struct usher_error *reterr)
{
	cleanup(zk_answer_done) struct zk_answer there = { 0 };
	int code = ZK_OK, r = get(k, act->path, &there, reterr);

	if (r < 0 || there.code == ZK_NO_NODE)
		return r;
	if (there.code != ZK_OK)
		return zk_code_error(there.code, act->path, reterr);
	if (!is_to_delete(k, act->path, &there))
		return set_state_once(k, act, reterr);
	r = delete_node(k, act->path, there.stat.version, &code, reterr);
	if (r < 0 || code == ZK_OK || code == ZK_NO_NODE)
		return r;
	return zk_code_error(code, act->path, reterr);
}

static int remove_job(struct zk_keeper *k, void *userdata, struct usher_error *reterr)
{
	const struct act *act = userdata;
	int r = until_done(k, remove_once, act, reterr);

	if (r == 0)
		zk_keeper_forget(k, act->path);
	return r;
}

/* ---- the facet ---- */

static int path_of(const struct zookeeper *z, const struct usher_wanted *service, const char *id,
		char **ret, struct usher_error *reterr)
{
	autofree char *folder = NULL;
	int r;

	if (!zk_layout_is_id(id))
		return usher_error_set(reterr, -EINVAL,
				"the id \"%.200s\" cannot be the name of a node: it must not be empty, "
				"\".\", \"..\", or have a \"/\"",
				id);
	r = zk_layout_folder(z->chroot, z->layout, service->name, &folder, reterr);
	if (r < 0)
		return r;
	if (asprintf(ret, "%s/%s", folder, id) < 0) {
		*ret = NULL;
		return out_of_memory(reterr);
	}
	return 0;
}

static int do_act(struct zookeeper *z, const struct usher_wanted *service, const char *id,
		zk_job job, struct act *act, struct usher_error *reterr)
{
	autofree char *path = NULL;
	int r = path_of(z, service, id, &path, reterr);

	if (r == 0 && !z->keeper)
		r = zk_keeper_new(z, &z->keeper, reterr);
	if (r < 0)
		return r;
	act->path = path;
	return zk_keeper_do(z->keeper, job, act, reterr);
}

static int64_t now_ms(void)
{
	struct timespec t = { 0 };

	(void) clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int zookeeper_add(void *instance, const struct usher_wanted *service,
		const struct usher_endpoint *endpoint, struct usher_error *reterr)
{
	struct zookeeper *z = instance;
	char authority[USHER_AUTHORITY_MAX];
	const char *id = endpoint->id
			? endpoint->id
			: usher_authority_format(endpoint->address, endpoint->port, authority);
	autofree char *value = zk_value_write(
			(enum zk_format) z->format, service->name, id, endpoint, now_ms());
	struct act act = { .value = value };

	if (!endpoint->ready && z->format == ZK_FORMAT_NERVE)
		return usher_error_set(reterr, -EROFS,
				"Nerve's data have no room for what is not ready; see format, or "
				"on_unhealthy");
	return value ? do_act(z, service, id, add_job, &act, reterr) : out_of_memory(reterr);
}

int zookeeper_renew(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	struct act act = { 0 };

	return do_act(instance, service, id, renew_job, &act, reterr);
}

/* The session is kept alive by the keeper, so this is about nodes that somebody has deleted. */
uint64_t zookeeper_renew_after_usec(const void *instance)
{
	const struct zookeeper *z = instance;

	return z->ttl_usec / 3;
}

int zookeeper_set_state(void *instance, const struct usher_wanted *service, const char *id,
		enum usher_admin_state state, struct usher_error *reterr)
{
	struct act act = { .state = state };

	return do_act(instance, service, id, set_state_job, &act, reterr);
}

int zookeeper_remove(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	struct act act = { .state = USHER_ADMIN_DRAINING };

	return do_act(instance, service, id, remove_job, &act, reterr);
}
