/* Registration: a key under a lease of its own.
 *
 * The lease is kept alive by `renew`, which also looks whether the key is still there. Where the
 * lease has run out, or etcd was wiped, the key is put again, with the newest value known: what
 * somebody else has written under our lease counts as newer than what we did. A usherd that was
 * restarted finds the lease beside the key.
 *
 * Each registration has its own lease, so that taking one out revokes nothing else.
 *
 * A drain takes out keys that instances have put themselves, too. Their values and leases are
 * remembered, and a restore puts them back as they were: the instance keeps its lease alive all the
 * while, and its value may say more than usher reads. The lease is in the endpoint's metadata, too,
 * which the host keeps, so that the key comes back under it after a restart.
 *
 * Many of those never come back, and nobody says so: where there are too many, the oldest is
 * forgotten, and comes back as one of before a restart does. */

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "layout.h"
#include "own-json.h"
#include "session.h"

#define REGISTRATIONS_MAX 4096
#define TTL_MAX_S         86400 /* longer than anybody waits for a renewal */
#define TRIES_MAX         5     /* when somebody else changes the key at the same time */

struct registration {
	struct registration *next;
	char *key;
	char *value;    /* the newest */
	int64_t lease;  /* ETCD_NO_LEASE: none any more, or somebody else's key has none */
	bool is_others; /* not ours to keep alive: taken out, to be put back */
};

struct etcd_registrations {
	struct etcd_session session;
	uint64_t ttl_usec;         /* that etcd has granted last */
	struct registration *list; /* the newest first */
	size_t count;
};

static void registration_free(struct registration *r)
{
	free(r->key);
	free(r->value);
	free(r);
}

struct etcd_registrations *etcd_registrations_free(struct etcd_registrations *r)
{
	if (!r)
		return NULL;
	while (r->list) {
		struct registration *next = r->list->next;

		registration_free(r->list);
		r->list = next;
	}
	etcd_session_close(&r->session);
	free(r);
	return NULL;
}

static int out_of_memory(struct usher_error *reterr)
{
	return usher_error_set(reterr, -ENOMEM, "out of memory");
}

static int open_registrations(struct etcd *e, struct usher_error *reterr)
{
	struct etcd_registrations *made;
	int r;

	if (e->registrations)
		return 0;
	made = calloc(1, sizeof(*made));
	if (!made)
		return out_of_memory(reterr);
	r = etcd_session_open(&made->session, e, NULL, reterr);
	if (r < 0) {
		free(made);
		return r;
	}
	e->registrations = made;
	return 0;
}

/* ---- what is known ---- */

static struct registration *find(struct etcd_registrations *all, const char *key)
{
	for (struct registration *r = all->list; r; r = r->next)
		if (strcmp(r->key, key) == 0)
			return r;
	return NULL;
}

static struct registration *find_ours(struct etcd_registrations *all, const char *key)
{
	struct registration *r = find(all, key);

	return r && !r->is_others ? r : NULL;
}

static void forget(struct etcd_registrations *all, const char *key)
{
	for (struct registration **at = &all->list; *at; at = &(*at)->next) {
		struct registration *r = *at;

		if (strcmp(r->key, key) != 0)
			continue;
		*at = r->next;
		all->count--;
		registration_free(r);
		return;
	}
}

static void forget_oldest_of_others(struct etcd_registrations *all)
{
	const struct registration *oldest = NULL;

	for (const struct registration *r = all->list; r; r = r->next)
		if (r->is_others)
			oldest = r;
	if (oldest)
		forget(all, oldest->key);
}

static int add_new(struct etcd_registrations *all, const char *key, struct registration **ret,
		struct usher_error *reterr)
{
	struct registration *r;

	if (all->count == REGISTRATIONS_MAX)
		forget_oldest_of_others(all);
	if (all->count == REGISTRATIONS_MAX)
		return usher_error_set(reterr, -E2BIG, "there are %d registrations already",
				REGISTRATIONS_MAX);
	r = calloc(1, sizeof(*r));
	if (!r || !(r->key = strdup(key))) {
		free(r);
		return out_of_memory(reterr);
	}
	r->next = all->list;
	all->list = r;
	all->count++;
	*ret = r;
	return 0;
}

/* Takes the value. */
static int remember(struct etcd_registrations *all, const char *key, char *value, int64_t lease,
		struct registration **ret, struct usher_error *reterr)
{
	struct registration *r = find(all, key);
	autofree char *owned = value;
	int code;

	if (!owned)
		return out_of_memory(reterr);
	if (!r) {
		code = add_new(all, key, &r, reterr);
		if (code < 0)
			return code;
		assert(r);
	}
	free(r->value);
	r->value = take(owned);
	r->lease = lease;
	r->is_others = false;
	*ret = r;
	return 0;
}

static int key_of(const struct etcd *e, const struct usher_wanted *service, const char *id,
		char **ret, struct usher_error *reterr)
{
	autofree char *prefix = etcd_layout_prefix(e->layout, service->name);

	if (!prefix)
		return out_of_memory(reterr);
	if (!etcd_layout_is_id(id, strlen(id)))
		return usher_error_set(reterr, -EINVAL,
				"the id \"%.200s\" cannot be the end of a key: it must not be empty or have a \"/\"",
				id);
	if (asprintf(ret, "%s%s", prefix, id) < 0) {
		*ret = NULL;
		return out_of_memory(reterr);
	}
	return 0;
}

/* ---- what etcd is told ---- */

/* The key as it is: 1, or 0 when it is not there. */
static int get(struct etcd_session *s, const char *key, struct etcd_kv *ret,
		struct usher_error *reterr)
{
	autojson json_t *answer = NULL;
	struct etcd_header header;
	const json_t *pair;
	int r = etcd_session_do(s, "/v3/kv/range", etcd_get_request(key), &answer, reterr);

	if (r >= 0)
		r = etcd_header_read(answer, &header, reterr);
	if (r < 0)
		return r;
	pair = json_array_get(json_object_get(answer, "kvs"), 0);
	if (!pair)
		return 0;
	r = etcd_kv_read(pair, ret, reterr);
	return r < 0 ? r : 1;
}

/* ENOENT: there is no such lease. EAGAIN: the key was changed meanwhile. */
static int put(struct etcd_session *s, const char *key, const char *value, int64_t lease,
		int64_t expected_revision, struct usher_error *reterr)
{
	autojson json_t *answer = NULL;
	struct etcd_header header;
	int r = etcd_session_do(s, "/v3/kv/txn",
			etcd_put_request(key, value, lease, expected_revision), &answer, reterr);

	if (r >= 0)
		r = etcd_header_read(answer, &header, reterr);
	if (r < 0)
		return r;
	if (!json_is_true(json_object_get(answer, "succeeded")))
		return usher_error_set(reterr, -EAGAIN, "%s: somebody else is changing it", key);
	return 0;
}

/* How long a lease lives, as an answer says: what was asked for is a wish. */
static bool note_ttl(struct etcd_registrations *all, const json_t *answer)
{
	int64_t ttl_s = etcd_integer(json_object_get(answer, "TTL"));

	if (ttl_s <= 0)
		return false;
	all->ttl_usec = (uint64_t) (ttl_s < TTL_MAX_S ? ttl_s : TTL_MAX_S) * 1000000;
	return true;
}

static int grant(struct etcd_registrations *all, int64_t *ret, struct usher_error *reterr)
{
	struct etcd_session *s = &all->session;
	uint64_t ttl_s = (s->etcd->ttl_usec + 999999) / 1000000;
	autojson json_t *answer = NULL;
	int64_t lease;
	int r = etcd_session_do(s, "/v3/lease/grant", etcd_grant_request(ttl_s), &answer, reterr);

	if (r < 0)
		return r;
	lease = etcd_integer(json_object_get(answer, "ID"));
	if (lease == 0 || !note_ttl(all, answer))
		return usher_error_set(reterr, -EBADMSG,
				"etcd granted a lease without a number or a time to live");
	*ret = lease;
	return 0;
}

/* 1: it lives; 0: there is no such lease any more. */
static int keep_alive(struct etcd_registrations *all, int64_t lease, struct usher_error *reterr)
{
	autojson json_t *answer = NULL;
	struct usher_error why = { 0 };
	const json_t *result;
	int r;

	if (lease == 0)
		return 0;
	r = etcd_session_do(&all->session, "/v3/lease/keepalive", etcd_lease_request(lease),
			&answer, &why);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return usher_error_set(reterr, r, "%s", usher_error_text(&why, r));
	result = json_object_get(answer, "result");
	if (etcd_integer(json_object_get(result, "ID")) != lease)
		return usher_error_set(reterr, -EBADMSG, "etcd speaks of another lease");
	return note_ttl(all, result); /* without one it is gone */
}

static int revoke_lease(struct etcd_session *s, int64_t lease, struct usher_error *reterr)
{
	autojson json_t *answer = NULL;
	struct usher_error why = { 0 };
	int r = etcd_session_do(s, "/v3/lease/revoke", etcd_lease_request(lease), &answer, &why);

	if (r >= 0 || r == -ENOENT)
		return 0;
	return usher_error_set(reterr, r, "%s", usher_error_text(&why, r));
}

/* Put it under a new lease. */
static int register_anew(
		struct etcd_registrations *all, struct registration *r, struct usher_error *reterr)
{
	struct etcd_session *s = &all->session;
	int64_t lease = 0;
	int code;

	r->lease = ETCD_NO_LEASE;
	r->is_others = false;
	code = grant(all, &lease, reterr);
	if (code < 0)
		return code;
	code = put(s, r->key, r->value, lease, 0, reterr);
	if (code < 0)
		(void) revoke_lease(s, lease, NULL);
	else
		r->lease = lease;
	return code;
}

/* ---- the facet ---- */

static const char *id_of(const struct usher_endpoint *endpoint, char *authority)
{
	return endpoint->id ? endpoint->id
			    : usher_authority_format(endpoint->address, endpoint->port, authority);
}

/* Whether the value speaks of this address. */
static bool is_of(const char *value, const struct usher_endpoint *endpoint, const char *port)
{
	struct etcd_value v;
	bool same;

	if (etcd_value_read(value, strlen(value), port, &v, NULL) < 0)
		return false;
	same = strcmp(v.endpoint.address, endpoint->address) == 0 &&
			v.endpoint.port == endpoint->port;
	etcd_value_done(&v);
	return same;
}

/* 1: somebody else's key is back as it was; 0: it cannot be, so that it becomes ours. */
static int put_back(struct etcd_registrations *all, const struct registration *r,
		const struct usher_wanted *service, const struct usher_endpoint *endpoint,
		struct usher_error *reterr)
{
	autofree char *value = NULL;
	int code;

	if (!r->is_others || !is_of(r->value, endpoint, service->port))
		return 0;
	if (etcd_value_set_state(r->value, endpoint->admin_state, &value, NULL) < 0) {
		value = strdup(r->value); /* a plain address has no state */
		if (!value)
			return out_of_memory(reterr);
	}
	code = put(&all->session, r->key, value, r->lease, 0, reterr);
	if (code == -ENOENT)
		return 0; /* the instance has ended, or has another lease now */
	return code < 0 ? code : 1;
}

/* The same for a key that an earlier run of usherd has taken out, of which is known only what was
 * read of it: its endpoint says which lease it was under. */
static int put_back_unknown(const struct etcd *e, const char *key,
		const struct usher_endpoint *endpoint, struct usher_error *reterr)
{
	int64_t lease = etcd_value_lease(endpoint);
	autofree char *value = NULL;
	int code;

	if (lease < 0)
		return 0;
	value = etcd_value_write((enum etcd_format) e->format, endpoint);
	if (!value)
		return out_of_memory(reterr);
	code = put(&e->registrations->session, key, value, lease, 0, reterr);
	if (code == -ENOENT)
		return 0;
	return code < 0 ? code : 1;
}

/* Under the lease that we have for it, else under a new one. */
static int put_ours(struct etcd *e, const char *key, const struct usher_endpoint *endpoint,
		int64_t lease, struct usher_error *reterr)
{
	struct registration *r = NULL;
	int code = remember(e->registrations, key,
			etcd_value_write((enum etcd_format) e->format, endpoint), lease, &r,
			reterr);

	if (code == 0)
		code = keep_alive(e->registrations, lease, reterr);
	if (code < 0)
		return code;
	assert(r);
	if (code == 0)
		return register_anew(e->registrations, r, reterr);
	return put(&e->registrations->session, key, r->value, lease, 0, reterr);
}

int etcd_registration_add(void *instance, const struct usher_wanted *service,
		const struct usher_endpoint *endpoint, struct usher_error *reterr)
{
	struct etcd *e = instance;
	char authority[USHER_AUTHORITY_MAX];
	autofree char *key = NULL;
	const struct registration *known;
	int r = open_registrations(e, reterr);

	if (r == 0)
		r = key_of(e, service, id_of(endpoint, authority), &key, reterr);
	if (r < 0)
		return r;
	assert(key);
	known = find(e->registrations, key);
	r = known ? put_back(e->registrations, known, service, endpoint, reterr)
		  : put_back_unknown(e, key, endpoint, reterr);
	if (r != 0) {
		if (r > 0)
			forget(e->registrations, key);
		return r < 0 ? r : 0;
	}
	return put_ours(e, key, endpoint, known && !known->is_others ? known->lease : ETCD_NO_LEASE,
			reterr);
}

/* Of a registration that another run of usherd made, the key and its lease are in etcd. */
static int adopt(struct etcd_registrations *all, const char *key, struct registration **ret,
		struct usher_error *reterr)
{
	cleanup(etcd_kv_done) struct etcd_kv kv = { 0 };
	int r = get(&all->session, key, &kv, reterr);

	if (r < 0)
		return r;
	if (r == 0 || kv.lease == 0)
		return usher_error_set(reterr, -ENOENT, "%s: is not registered under a lease", key);
	if (!kv.value)
		return usher_error_set(reterr, -EBADMSG, "%s: is empty", key);
	return remember(all, key, take(kv.value), kv.lease, ret, reterr);
}

int etcd_registration_renew(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	struct etcd *e = instance;
	cleanup(etcd_kv_done) struct etcd_kv kv = { 0 };
	struct registration *known = NULL;
	struct etcd_session *s;
	autofree char *key = NULL;
	int r = open_registrations(e, reterr);

	if (r == 0)
		r = key_of(e, service, id, &key, reterr);
	if (r < 0)
		return r;
	assert(key);
	s = &e->registrations->session;
	known = find(e->registrations, key);
	if (!known || known->is_others)
		r = adopt(e->registrations, key, &known, reterr);
	if (r < 0)
		return r;
	assert(known);
	r = keep_alive(e->registrations, known->lease, reterr);
	if (r <= 0)
		return r < 0 ? r : register_anew(e->registrations, known, reterr);
	r = get(s, key, &kv, reterr);
	if (r < 0)
		return r;
	if (r == 0 || kv.lease != known->lease || !kv.value)
		return put(s, key, known->value, known->lease, 0, reterr);
	free(known->value);
	known->value = take(kv.value);
	return 0;
}

/* The key keeps its lease, whosever it is: an instance that registers itself is drained, too. */
static int set_state_once(struct etcd_registrations *all, const char *key,
		enum usher_admin_state state, struct usher_error *reterr)
{
	cleanup(etcd_kv_done) struct etcd_kv kv = { 0 };
	struct registration *known = find_ours(all, key);
	autofree char *value = NULL;
	int r = get(&all->session, key, &kv, reterr);

	if (r < 0)
		return r;
	if (r == 0 && !known)
		return usher_error_set(reterr, -ENOENT, "%s: there is no such key", key);
	r = etcd_value_set_state(kv.value       ? kv.value
					: known ? known->value
						: "",
			state, &value, reterr);
	if (r < 0)
		return usher_error_prefix(reterr, r, "%s", key);
	if (known) {
		free(known->value);
		known->value = strdup(value);
		if (!known->value) {
			forget(all, key);
			return out_of_memory(reterr);
		}
	}
	if (!kv.key)
		return register_anew(all, known, reterr);
	if (kv.value && strcmp(kv.value, value) == 0)
		return 0;
	return put(&all->session, key, value, ETCD_SAME_LEASE, kv.mod_revision, reterr);
}

int etcd_registration_set_state(void *instance, const struct usher_wanted *service, const char *id,
		enum usher_admin_state state, struct usher_error *reterr)
{
	struct etcd *e = instance;
	autofree char *key = NULL;
	int r = open_registrations(e, reterr);

	if (r == 0)
		r = key_of(e, service, id, &key, reterr);
	if (r < 0)
		return r;
	assert(key);
	r = -EAGAIN;
	for (int i = 0; r == -EAGAIN && i < TRIES_MAX; i++)
		r = set_state_once(e->registrations, key, state, reterr);
	return r;
}

static int delete_key(struct etcd_session *s, const char *key, struct usher_error *reterr)
{
	autojson json_t *answer = NULL;
	struct etcd_header header;
	int r = etcd_session_do(s, "/v3/kv/deleterange", etcd_delete_request(key), &answer, reterr);

	return r < 0 ? r : etcd_header_read(answer, &header, reterr);
}

/* So that it can be put back. */
static int remember_others(
		struct etcd_registrations *all, const char *key, struct usher_error *reterr)
{
	cleanup(etcd_kv_done) struct etcd_kv kv = { 0 };
	struct registration *r = NULL;
	int code = get(&all->session, key, &kv, reterr);

	if (code <= 0 || !kv.value)
		return code < 0 ? code : 0;
	code = remember(all, key, take(kv.value), kv.lease, &r, reterr);
	if (code == 0 && r)
		r->is_others = true;
	return code;
}

int etcd_registration_remove(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	struct etcd *e = instance;
	const struct registration *ours;
	autofree char *key = NULL;
	int r = open_registrations(e, reterr);

	if (r == 0)
		r = key_of(e, service, id, &key, reterr);
	if (r < 0)
		return r;
	assert(key);
	ours = find_ours(e->registrations, key);
	if (!ours)
		r = remember_others(e->registrations, key, reterr);
	/* The key itself, too: it may be under another lease than the one that is known. */
	if (r == 0)
		r = delete_key(&e->registrations->session, key, reterr);
	if (r == 0 && ours && ours->lease)
		r = revoke_lease(&e->registrations->session, ours->lease, reterr);
	if (r == 0 && ours)
		forget(e->registrations, key);
	return r;
}

uint64_t etcd_registration_renew_after_usec(const void *instance)
{
	const struct etcd *e = instance;

	return e->registrations ? e->registrations->ttl_usec / 3 : 0;
}
