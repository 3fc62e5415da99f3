/* Registration at a server of Nacos. What is registered with `ephemeral` stays for as long as usher
 * gives a sign of life; a server that has forgotten it (it was restarted, or the time was over) is
 * told anew by the next one.
 *
 * A drain is enabled=false, which no client of Nacos is told of any more. What we have registered
 * is registered again for that, with all that was said of it. What others have is not ours to
 * describe: only its state is changed, for which Nacos has another call. The two do not mix, for
 * what that call has set outlives a registration. */

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "call.h"
#include "nacos.h"
#include "own-json.h"
#include "reply.h"

#define WEIGHT_MAX 10000 /* that Nacos takes */

struct registered {
	char *service, *name, *id;
	struct answer_instance instance; /* as it was registered last */
	bool ready;
	enum usher_admin_state state;
	bool is_adopted; /* nobody has told this run of usherd of a state */
	struct registered *next;
};

static int out_of_memory(struct usher_error *reterr)
{
	return usher_error_set(reterr, -ENOMEM, "out of memory");
}

static struct registered *registered_free(struct registered *r)
{
	if (!r)
		return NULL;
	answer_instance_done(&r->instance);
	free(r->service);
	free(r->name);
	free(r->id);
	free(r);
	return NULL;
}

static struct registered **find(struct nacos *n, const char *service, const char *id)
{
	struct registered **at = &n->registered;

	while (*at && (strcmp((*at)->id, id) != 0 || strcmp((*at)->service, service) != 0))
		at = &(*at)->next;
	return at;
}

void registration_done(struct nacos *n)
{
	while (n->registered) {
		struct registered *first = n->registered;

		n->registered = first->next;
		(void) registered_free(first);
	}
	if (n->access)
		access_done(n->access);
	free(n->access);
	n->access = NULL;
}

uint64_t registration_renew_after_usec(const void *instance)
{
	const struct nacos *n = instance;

	return n->ephemeral ? n->beat_usec : 0;
}

static const char *name_of(const struct usher_wanted *service)
{
	return service->name ? service->name : service->service;
}

/* ---- what an instance looks like ---- */

static void write_key(struct form *f, const struct answer_instance *i)
{
	char port[16];

	(void) snprintf(port, sizeof(port), "%u", (unsigned) i->port);
	form_add(f, "ip", i->ip);
	form_add(f, "port", port);
	form_add(f, "clusterName", i->cluster);
	form_add(f, "ephemeral", i->ephemeral ? "true" : "false");
}

static void write_weight(struct form *f, double weight)
{
	char text[32];

	(void) snprintf(text, sizeof(text), "%.6g", weight);
	form_add(f, "weight", text);
}

static void write_instance(struct form *f, const struct access *a, const void *what)
{
	const struct answer_instance *i = what;

	(void) a;
	write_key(f, i);
	write_weight(f, i->weight);
	form_add(f, "enabled", i->enabled ? "true" : "false");
	form_add(f, "healthy", "true");
	form_add(f, "metadata", i->metadata);
}

static void write_key_alone(struct form *f, const struct access *a, const void *what)
{
	(void) a;
	write_key(f, what);
}

static void write_beat(struct form *f, const struct access *a, const void *what)
{
	write_key(f, what);
	if (a->api == NACOS_API_3)
		form_add(f, "heartBeat", "true");
}

/* The weight goes along, for the call makes it 1 where it says nothing of it. */
static void write_state(struct form *f, const struct access *a, const void *what)
{
	const struct answer_instance *i = what;

	(void) a;
	write_key(f, i);
	write_weight(f, i->weight);
	form_add(f, "enabled", i->enabled ? "true" : "false");
}

static int put_instance(struct nacos *n, const char *name, const struct answer_instance *i,
		struct usher_error *reterr)
{
	const struct call c = { "POST", "instance", "POST", "client/ns/instance", name, true, false,
		write_instance, i };

	return call_do(n, &c, reterr);
}

static int delete_instance(struct nacos *n, const char *name, const struct answer_instance *i,
		struct usher_error *reterr)
{
	const struct call c = { "DELETE", "instance", "DELETE", "client/ns/instance", name, false,
		false, write_key_alone, i };

	return call_do(n, &c, reterr);
}

static int denied(struct usher_error *reterr, const struct usher_error *why, const char *server)
{
	return usher_error_set(reterr, -EACCES,
			"%s (to change the state of what others have registered at %s takes the "
			"permission to write in the namespace)",
			usher_error_text(why, -EACCES), server);
}

static int put_state(struct nacos *n, const char *name, const struct answer_instance *i,
		struct usher_error *reterr)
{
	const struct call c = { "PATCH", "instance", "PUT", "admin/ns/instance/partial", name,
		false, true, write_state, i };
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	struct usher_error why = { 0 };
	int r = call_ask(n, &c, &event, &why);

	if (r == 0)
		r = call_done(&event, &why);
	if (r == -EACCES)
		return denied(reterr, &why, event.server ? event.server : "the server");
	return r < 0 ? usher_error_set(reterr, r, "%s", usher_error_text(&why, r)) : 0;
}

static int put_registered(struct nacos *n, struct registered *known, struct usher_error *reterr)
{
	known->instance.enabled = known->ready && known->state == USHER_ADMIN_READY;
	return put_instance(n, known->name, &known->instance, reterr);
}

/* ---- what the server has ---- */

static void write_all_clusters(struct form *f, const struct access *a, const void *what)
{
	(void) what;
	if (a->api == NACOS_API_3)
		form_add(f, "clusterName", ",");
}

/* "ADDRESS:PORT", or "ADDRESS:PORT@CLUSTER". */
static int parse_id(const struct nacos *n, const char *id, struct answer_instance *ret)
{
	char address[USHER_TEXT_MAX], authority[USHER_AUTHORITY_MAX];
	const char *at = strrchr(id, '@');
	size_t length = at ? (size_t) (at - id) : strlen(id);

	if (length >= sizeof(authority))
		return -EINVAL;
	memcpy(authority, id, length);
	authority[length] = '\0';
	if (usher_authority_parse(authority, 0, address, &ret->port, NULL) < 0)
		return -EINVAL;
	ret->ip = strdup(address);
	ret->cluster = strdup(at ? at + 1 : n->cluster);
	ret->metadata = strdup("{}");
	ret->ephemeral = n->ephemeral;
	ret->weight = 1;
	return ret->ip && ret->cluster && ret->metadata ? 0 : -ENOMEM;
}

/* What is disabled is in no list: it is asked for by its key. */
static int look_at(struct nacos *n, const char *name, const struct answer_instance *key,
		struct answer_instance *ret, struct usher_error *reterr)
{
	const struct call c = { "GET", "instance", "GET", "admin/ns/instance", name, false, true,
		write_key_alone, key };
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	struct usher_error why = { 0 };
	int r = call_ask(n, &c, &event, &why);

	if (r == 0)
		r = usher_http_status_error(&event, &why);
	if (r == 0)
		r = answer_parse_instance(event.data, event.data_size, ret, &why);
	/* Who may not see it cannot change it either: to add it anew needs no more than that. */
	if (r == -EACCES || event.status == 404 || event.status == 410)
		r = -ENOENT;
	return r < 0 ? usher_error_set(reterr, r, "%s:%u is not listed: %s", key->ip,
				       (unsigned) key->port, usher_error_text(&why, r))
		     : 0;
}

static int ask_for_list(struct nacos *n, const char *name, struct usher_http_event *ret,
		struct usher_error *reterr)
{
	const struct call c = { "GET", "instance/list", "GET", "client/ns/instance/list", name,
		false, false, write_all_clusters, NULL };
	int r = call_ask(n, &c, ret, reterr);

	return r < 0 ? r : usher_http_status_error(ret, reterr);
}

static int look_up(struct nacos *n, const char *name, const char *id, struct answer_instance *ret,
		struct usher_error *reterr)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	struct usher_error why = { 0 };
	int r = ask_for_list(n, name, &event, &why);

	if (r == 0)
		r = answer_find(event.data, event.data_size, id, ret, &why);
	return r < 0 ? usher_error_set(reterr, r, "%s", usher_error_text(&why, r)) : 0;
}

/* Listed or not. ENOENT: the server has no such instance, as far as we may see it. */
static int look_for(struct nacos *n, const char *name, const char *id, struct answer_instance *ret,
		struct usher_error *reterr)
{
	cleanup(answer_instance_done) struct answer_instance key = { 0 };
	struct usher_error why = { 0 };
	int r = look_up(n, name, id, ret, &why);

	if (r == -ENOENT && parse_id(n, id, &key) == 0)
		r = look_at(n, name, &key, ret, &why);
	return r < 0 ? usher_error_set(reterr, r, "%s", usher_error_text(&why, r)) : 0;
}

/* ---- add ---- */

/* What discovery has added is the registry's already. */
static bool is_added(const char *name)
{
	return strncmp(name, NACOS_LABEL_PREFIX, strlen(NACOS_LABEL_PREFIX)) == 0;
}

static int set_text(json_t *object, const char *name, const char *value)
{
	return json_object_set_new(object, name, json_string(value));
}

static char *write_metadata(const struct usher_endpoint *e)
{
	autojson json_t *meta = json_object();
	char authority[USHER_AUTHORITY_MAX];
	int r = meta ? 0 : -1;

	for (size_t i = 0; i < e->metadata_count && r == 0; i++)
		if (!is_added(e->metadata[i].name))
			r = set_text(meta, e->metadata[i].name, e->metadata[i].value);
	if (r == 0 && e->zone && e->zone[0])
		r = set_text(meta, USHER_ZONE_LABEL, e->zone);
	if (r == 0 && e->secure)
		r = set_text(meta, "secure", "true");
	if (r == 0 && e->id &&
			strcmp(e->id, usher_authority_format(e->address, e->port, authority)) != 0)
		r = set_text(meta, NACOS_ID_LABEL, e->id);
	if (r == 0)
		r = set_text(meta, NACOS_OWNER_LABEL, NACOS_OWNER);
	return r == 0 ? json_dumps(meta, JSON_COMPACT) : NULL;
}

static const char *label_of(const struct usher_endpoint *e, const char *name)
{
	for (size_t i = 0; i < e->metadata_count; i++)
		if (strcmp(e->metadata[i].name, name) == 0)
			return e->metadata[i].value;
	return NULL;
}

/* As it is configured, or, of what comes back from a drain, as it was. */
static void describe(
		const struct nacos *n, const struct usher_endpoint *e, struct answer_instance *ret)
{
	const char *cluster = label_of(e, NACOS_CLUSTER_LABEL);
	const char *weight = label_of(e, NACOS_WEIGHT_LABEL);

	ret->ip = strdup(e->address);
	ret->cluster = strdup(cluster ? cluster : n->cluster);
	ret->metadata = write_metadata(e);
	ret->port = e->port;
	ret->ephemeral = cluster ? !label_of(e, NACOS_EPHEMERAL_LABEL) : n->ephemeral;
	ret->weight = weight ? strtod(weight, NULL) : e->weight;
	if (!(ret->weight >= 0 && ret->weight <= WEIGHT_MAX))
		ret->weight = WEIGHT_MAX;
}

static int registered_new(const struct nacos *n, const struct usher_wanted *service,
		const struct usher_endpoint *e, struct registered **ret)
{
	struct registered *new = calloc(1, sizeof(*new));
	char id[USHER_AUTHORITY_MAX];

	if (!new)
		return -ENOMEM;
	new->id = strdup(e->id ? e->id : usher_authority_format(e->address, e->port, id));
	new->service = strdup(service->service);
	new->name = strdup(name_of(service));
	describe(n, e, &new->instance);
	new->ready = e->ready;
	new->state = e->admin_state;
	if (!new->id || !new->service || !new->name || !new->instance.ip ||
			!new->instance.cluster || !new->instance.metadata) {
		(void) registered_free(new);
		return -ENOMEM;
	}
	*ret = new;
	return 0;
}

/* What is listed under the id; former: where else an earlier run of usherd has registered it. */
static int look_up_both(struct nacos *n, const struct registered *new, struct answer_instance *ret,
		struct answer_instance *former, struct usher_error *reterr)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	int r = ask_for_list(n, new->name, &event, reterr), of_former;

	if (r < 0)
		return r;
	of_former = answer_find_former(
			event.data, event.data_size, new->id, &new->instance, former, reterr);
	if (of_former < 0 && of_former != -ENOENT)
		return of_former;
	return answer_find(event.data, event.data_size, new->id, ret, reterr);
}

/* What others have registered is not described anew: it is only put to the state. Returns 1 when
 * that was it. */
static int add_to_others(struct nacos *n, const struct registered *new,
		struct answer_instance *former, struct usher_error *reterr)
{
	cleanup(answer_instance_done) struct answer_instance i = { 0 };
	struct usher_error why = { 0 };
	bool enabled = new->ready &&new->state == USHER_ADMIN_READY;
	int r = look_up_both(n, new, &i, former, &why);

	if (r == -ENOENT)
		r = look_at(n, new->name, &new->instance, &i, &why);
	if (r == -ENOENT || (r == 0 && i.ours))
		return 0;
	if (r < 0)
		return usher_error_set(reterr, r, "%s", usher_error_text(&why, r));
	if (i.enabled == enabled)
		return 1;
	i.enabled = enabled;
	r = put_state(n, new->name, &i, reterr);
	return r < 0 ? r : 1;
}

/* To Nacos another address or port is another instance: the one that was there before goes, once
 * the new one is there. */
static int delete_former(struct nacos *n, const struct registered *new,
		const struct answer_instance *former, struct usher_error *reterr)
{
	int r;

	if (!former->ip || answer_is_same_place(former, &new->instance))
		return 0;
	r = delete_instance(n, new->name, former, reterr);
	return r == -ENOENT ? 0 : r;
}

int registration_add(void *instance, const struct usher_wanted *service,
		const struct usher_endpoint *endpoint, struct usher_error *reterr)
{
	struct nacos *n = instance;
	cleanup(answer_instance_done) struct answer_instance former = { 0 };
	struct registered *new = NULL, **at;
	int r = registered_new(n, service, endpoint, &new);

	if (r < 0)
		return out_of_memory(reterr);
	at = find(n, new->service, new->id);
	if (!*at) {
		r = add_to_others(n, new, &former, reterr);
		if (r != 0) {
			(void) registered_free(new);
			return r < 0 ? r : 0;
		}
	}
	/* A drain outlives that its endpoint is described anew. */
	if (*at && !(*at)->is_adopted && new->state == USHER_ADMIN_READY)
		new->state = (*at)->state;
	r = put_registered(n, new, reterr);
	if (r == 0)
		r = delete_former(n, new, *at ? &(*at)->instance : &former, reterr);
	if (r < 0) {
		(void) registered_free(new);
		return r;
	}
	if (*at) {
		new->next = (*at)->next;
		(void) registered_free(*at);
	}
	*at = new;
	taken_out_remove(&n->taken_out, new->service, new->id);
	return 0;
}

/* ---- renew ---- */

/* Takes the instance. What is disabled may be drained, or not ready: the next add says which. */
static int adopt(const struct usher_wanted *service, const char *id, struct answer_instance *there,
		struct registered **ret, struct usher_error *reterr)
{
	struct registered *new = calloc(1, sizeof(*new));

	if (!new)
		return out_of_memory(reterr);
	new->id = strdup(id);
	new->service = strdup(service->service);
	new->name = strdup(name_of(service));
	new->instance = *there;
	*there = (struct answer_instance){ 0 };
	new->ready = new->is_adopted = true;
	new->state = new->instance.enabled ? USHER_ADMIN_READY : USHER_ADMIN_DRAINING;
	if (!new->id || !new->service || !new->name) {
		(void) registered_free(new);
		return out_of_memory(reterr);
	}
	*ret = new;
	return 0;
}

/* Of what an earlier run of usherd has registered, the server knows all that there is to know. 1:
 * somebody else's, who gives the signs of life. */
static int find_to_adopt(struct nacos *n, const struct usher_wanted *service, const char *id,
		struct registered **ret, struct usher_error *reterr)
{
	cleanup(answer_instance_done) struct answer_instance there = { 0 };
	int r;

	if (taken_out_has(&n->taken_out, service->service, id))
		return usher_error_set(reterr, -ENOENT, "%s of %s has been taken out", id,
				service->service);
	r = look_for(n, name_of(service), id, &there, reterr);
	if (r < 0)
		return r;
	return there.ours ? adopt(service, id, &there, ret, reterr) : 1;
}

static int give_sign_of_life(
		struct nacos *n, const struct registered *known, struct usher_error *reterr)
{
	const struct call c = { "PUT", "instance/beat", "POST", "client/ns/instance", known->name,
		false, false, write_beat, &known->instance };

	return call_do(n, &c, reterr);
}

/* A persistent one needs no sign of life: that it is there is all. */
static int renew_adopted(struct nacos *n, struct registered *adopted, struct usher_error *reterr)
{
	int r = adopted->instance.ephemeral ? give_sign_of_life(n, adopted, reterr) : 0;

	if (r < 0) {
		(void) registered_free(adopted);
		return r;
	}
	adopted->next = n->registered;
	n->registered = adopted;
	return 0;
}

int registration_renew(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	struct nacos *n = instance;
	struct registered *known = *find(n, service->service, id), *adopted = NULL;
	struct usher_error why = { 0 };
	int r;

	if (!known) {
		r = find_to_adopt(n, service, id, &adopted, reterr);
		if (r != 0)
			return r < 0 ? r : 0;
		assert(adopted);
		return renew_adopted(n, adopted, reterr);
	}
	if (!known->instance.ephemeral)
		return put_registered(n, known, reterr);
	r = give_sign_of_life(n, known, &why);
	if (r == -ENOENT) {
		usher_log(USHER_LOG_WARNING,
				"The server does not know %s of %s any more; registering it again",
				id, service->service);
		return put_registered(n, known, reterr);
	}
	return r < 0 ? usher_error_set(reterr, r, "%s", usher_error_text(&why, r)) : 0;
}

/* ---- what others have registered, too ---- */

/* Whoever has registered it. */
static int set_enabled(struct nacos *n, const char *name, const char *id, bool enabled,
		struct usher_error *reterr)
{
	cleanup(answer_instance_done) struct answer_instance i = { 0 };
	int r = look_for(n, name, id, &i, reterr);

	if (r < 0)
		return r;
	i.enabled = enabled;
	return i.ours ? put_instance(n, name, &i, reterr) : put_state(n, name, &i, reterr);
}

int registration_set_state(void *instance, const struct usher_wanted *service, const char *id,
		enum usher_admin_state state, struct usher_error *reterr)
{
	struct nacos *n = instance;
	struct registered *known = *find(n, service->service, id);

	if (!known)
		return set_enabled(n, name_of(service), id, state == USHER_ADMIN_READY, reterr);
	known->state = state;
	known->is_adopted = false;
	return put_registered(n, known, reterr);
}

/* What others have registered is not ours to deregister, for nobody could register it again as it
 * was: it is disabled. */
static int remove_unknown(
		struct nacos *n, const char *name, const char *id, struct usher_error *reterr)
{
	cleanup(answer_instance_done) struct answer_instance i = { 0 };
	struct usher_error why = { 0 };
	int r = look_for(n, name, id, &i, &why);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return usher_error_set(reterr, r, "%s", usher_error_text(&why, r));
	if (i.ours)
		return delete_instance(n, name, &i, reterr);
	i.enabled = false;
	return put_state(n, name, &i, reterr);
}

int registration_remove(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	struct nacos *n = instance;
	struct registered **at = find(n, service->service, id), *known = *at;
	int r;

	r = known ? delete_instance(n, known->name, &known->instance, reterr)
		  : remove_unknown(n, name_of(service), id, reterr);
	if (r < 0)
		return r;
	taken_out_add(&n->taken_out, service->service, id);
	if (known)
		*at = known->next;
	(void) registered_free(known);
	return 0;
}
