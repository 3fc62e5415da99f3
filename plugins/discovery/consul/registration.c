/* Registration at the agent of this node, which owns what is registered at it: it tells the
 * servers, again and again, until they know.
 *
 * What was registered is kept, so that an agent that has forgotten it (it was restarted without its
 * data, or its folder is gone) is told anew by the next renewal. */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "answer.h"
#include "consul.h"
#include "own-json.h"
#include "query.h"

#define USEC_PER_SEC       UINT64_C(1000000)
#define MAINTENANCE_REASON "usher: maintenance"
#define CHECK_PREFIX       "usher:"
#define CHECK_NAME_MAX     (sizeof(CHECK_PREFIX) + USHER_TEXT_MAX)
#define NOT_READY          "not ready" /* in the notes of a check */
/* In the metadata of what we have registered: what others have is theirs to describe. */
#define OWNER_LABEL "registered-by"
#define OWNER       "usher"
/* An agent whose servers are away says yes after 7 s, and tells them later. */
#define CALL_TIMEOUT_USEC (12 * USEC_PER_SEC)
#define REGISTRATIONS_MAX 4096

struct registered {
	char *service, *id, *body; /* as it was registered last */
	bool passing;
	enum usher_admin_state state;
	struct registered *next;
};

static int out_of_memory(struct usher_error *reterr)
{
	(void) usher_error_set(reterr, -ENOMEM, "out of memory");
	return -ENOMEM;
}

static struct registered *registered_free(struct registered *r)
{
	if (!r)
		return NULL;
	free(r->service);
	free(r->id);
	free(r->body);
	free(r);
	return NULL;
}

static struct registered **find(struct consul *c, const char *service, const char *id)
{
	struct registered **at = &c->registered;

	while (*at && (strcmp((*at)->id, id) != 0 || strcmp((*at)->service, service) != 0))
		at = &(*at)->next;
	return at;
}

void registration_done(struct consul *c)
{
	while (c->registered) {
		struct registered *first = c->registered;

		c->registered = first->next;
		(void) registered_free(first);
	}
	c->agent = usher_http_free(c->agent);
}

/* ---- calls ---- */

static void start_call(const struct consul *c, struct query *q, const char *path, const char *id)
{
	query_start(q, path, id);
	query_add_if(q, "ns", c->namespace_name);
	query_add_if(q, "partition", c->partition);
}

/* The event of an answer, whatever its status. */
static int ask(struct consul *c, const char *method, const struct query *q, const char *body,
		struct usher_http_event *ret, struct usher_error *reterr)
{
	static const char *const headers[] = { "Content-Type: application/json", NULL };
	struct usher_http_request request = { .size = sizeof(request),
		.method = method,
		.path = q->text,
		.headers = body ? headers : NULL,
		.body = body ? body : "",
		.body_size = body ? strlen(body) : 0,
		.timeout_usec = CALL_TIMEOUT_USEC };

	if (q->full)
		return usher_error_set(reterr, -E2BIG, "the id is too long for a request");
	if (!c->agent) {
		int r = consul_open(c, NULL, &c->agent, reterr);

		if (r < 0)
			return r;
	}
	return usher_http_do(c->agent, &request, ret, reterr);
}

static int put(struct consul *c, const struct query *q, const char *body,
		struct usher_http_event *ret, struct usher_error *reterr)
{
	int r = ask(c, "PUT", q, body, ret, reterr);

	return r < 0 ? r : usher_http_status_error(ret, reterr);
}

/* Older agents say 500 of what they do not know, and why in words. */
static bool is_unknown(const struct usher_http_event *event)
{
	if (event->status == 404)
		return true;
	return event->status == 500 && event->data &&
			(strstr(event->data, "does not have associated TTL") ||
					strstr(event->data, "Unknown check") ||
					strstr(event->data, "Unknown service"));
}

static int put_maintenance(struct consul *c, const char *id, enum usher_admin_state state,
		struct usher_http_event *ret, struct usher_error *reterr)
{
	struct query q;

	start_call(c, &q, "/v1/agent/service/maintenance/", id);
	query_add(&q, "enable", state == USHER_ADMIN_READY ? "false" : "true");
	if (state != USHER_ADMIN_READY)
		query_add(&q, "reason",
				state == USHER_ADMIN_DRAINING ? ANSWER_DRAIN_REASON
							      : MAINTENANCE_REASON);
	return put(c, &q, NULL, ret, reterr);
}

static int register_again(
		struct consul *c, const struct registered *known, struct usher_error *reterr)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	struct query q;
	int r;

	start_call(c, &q, "/v1/agent/service/register", "");
	query_add(&q, "replace-existing-checks", "true");
	r = put(c, &q, known->body, &event, reterr);
	if (r < 0 || known->state == USHER_ADMIN_READY)
		return r;
	return put_maintenance(c, known->id, known->state, &event, reterr);
}

/* "ID@NODE", as discovery calls what has the name of its service: ID, where NODE is the agent's.
 * Else the id as it is. */
static int local_id(struct consul *c, const char *id, char **ret, struct usher_error *reterr)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	const char *at = strrchr(id, '@');
	autofree char *node = NULL;
	struct query q;
	int r;

	if (at) {
		query_start(&q, "/v1/agent/self", "");
		r = ask(c, "GET", &q, NULL, &event, reterr);
		if (r == 0)
			r = usher_http_status_error(&event, reterr);
		if (r == 0)
			r = answer_parse_node(event.data, event.data_size, &node, reterr);
		if (r < 0)
			return r;
	}
	if (at && node && at > id && strcmp(at + 1, node) == 0)
		*ret = strndup(id, (size_t) (at - id));
	else
		*ret = strdup(id);
	return *ret ? 0 : out_of_memory(reterr);
}

static void name_check(char text[CHECK_NAME_MAX], const char *id)
{
	(void) snprintf(text, CHECK_NAME_MAX, CHECK_PREFIX "%s", id);
}

/* What the agent has under exactly that id; 1: nothing. */
static int look_at(struct consul *c, const char *id, struct answer_own *ret,
		struct usher_error *reterr)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	struct usher_error why = { 0 };
	char check[CHECK_NAME_MAX];
	struct query q;
	int r;

	name_check(check, id);
	start_call(c, &q, "/v1/agent/health/service/id/", id);
	r = ask(c, "GET", &q, NULL, &event, reterr);
	if (r < 0)
		return r;
	if (is_unknown(&event))
		return 1;
	/* The status is that of its health, unless there is nothing else in the answer. */
	r = answer_parse_own(event.data, event.data_size, check, ret, &why);
	if (r == -EBADMSG && usher_http_status_error(&event, &why) < 0)
		r = usher_http_status_error(&event, &why);
	return r < 0 ? usher_error_set(reterr, r, "%s", usher_error_text(&why, r)) : 0;
}

/* The same, or what discovery gives that name, which may not be the agent's. */
static int look_up(struct consul *c, const char *id, char **ret_local, struct answer_own *ret,
		struct usher_error *reterr)
{
	autofree char *local = NULL;
	int r = look_at(c, id, ret, reterr);

	if (r == 0 && !(local = strdup(id)))
		return out_of_memory(reterr);
	if (r == 1 && (r = local_id(c, id, &local, reterr)) == 0)
		r = strcmp(local, id) != 0 ? look_at(c, local, ret, reterr) : 1;
	if (r == 0)
		*ret_local = take(local);
	return r;
}

static bool is_ours(const struct answer_own *o)
{
	const json_t *meta = json_object_get(o->service, "Meta");
	const char *owner = json_string_value(json_object_get(meta, OWNER_LABEL));

	return owner && strcmp(owner, OWNER) == 0;
}

/* An id is one of the agent's, whichever service it is of: what another service has there is not to
 * be touched. 0: it is this service's. */
static int check_service(const struct answer_own *o, const struct usher_wanted *service,
		const char *id, struct usher_error *reterr)
{
	const char *name = json_string_value(json_object_get(o->service, "Service"));

	if (name && strcasecmp(name, service->name ? service->name : service->service) == 0)
		return 0;
	return usher_error_set(reterr, -EEXIST,
			"the agent of this node has the id %s for the service %.200s, at %.100s:%lld; "
			"give one of them another id",
			id, name ? name : "?",
			json_string_value(json_object_get(o->service, "Address"))
					? json_string_value(json_object_get(o->service, "Address"))
					: "",
			(long long) json_integer_value(json_object_get(o->service, "Port")));
}

/* ---- what is registered ---- */

static json_t *write_check(const struct consul *c, const char *id, bool passing)
{
	char text[CHECK_NAME_MAX], ttl[32], after[32];
	json_t *check;

	name_check(text, id);
	(void) snprintf(ttl, sizeof(ttl), "%" PRIu64 "ms", c->ttl_usec / 1000);
	(void) snprintf(after, sizeof(after), "%" PRIu64 "s",
			c->deregister_after_usec / USEC_PER_SEC);
	/* The notes stay when nobody renews it and it becomes critical. */
	check = json_pack("{s:s, s:s, s:s, s:s, s:s}", "CheckID", text, "Name", "usher", "TTL", ttl,
			"Status", passing ? "passing" : "critical", "Notes",
			passing ? "ready" : NOT_READY);
	if (check && c->deregister_after_usec != 0 &&
			json_object_set_new(check, "DeregisterCriticalServiceAfter",
					json_string(after)) < 0) {
		json_decref(check);
		return NULL;
	}
	return check;
}

/* What discovery has added is Consul's already. */
static bool is_added(const char *name)
{
	return strncmp(name, ANSWER_LABEL_PREFIX, strlen(ANSWER_LABEL_PREFIX)) == 0;
}

static int set_text(json_t *object, const char *name, const char *value)
{
	return json_object_set_new(object, name, json_string(value));
}

static json_t *write_metadata(const struct usher_endpoint *e)
{
	json_t *meta = json_object();
	int r = meta ? 0 : -1;

	for (size_t i = 0; i < e->metadata_count && r == 0; i++)
		if (!is_added(e->metadata[i].name))
			r = set_text(meta, e->metadata[i].name, e->metadata[i].value);
	if (r == 0 && e->zone && e->zone[0])
		r = set_text(meta, USHER_ZONE_LABEL, e->zone);
	if (r == 0 && e->secure)
		r = set_text(meta, "secure", "true");
	/* Consul itself has no weight 0. */
	if (r == 0 && e->weight == 0)
		r = set_text(meta, USHER_WEIGHT_LABEL, "0");
	if (r == 0)
		r = set_text(meta, OWNER_LABEL, OWNER);
	if (r == 0)
		return meta;
	json_decref(meta);
	return NULL;
}

static char *write_body(const struct consul *c, const struct usher_wanted *service,
		const struct usher_endpoint *e, const char *id)
{
	autojson json_t *tags = json_array(), *body = NULL;
	json_t *check = write_check(c, id, e->ready), *meta = write_metadata(e);
	int weight = e->weight > 0 ? (int) e->weight : 1;

	for (size_t i = 0; tags && c->tags && c->tags[i]; i++)
		if (json_array_append_new(tags, json_string(c->tags[i])) < 0)
			tags = (json_decref(tags), NULL);
	/* o takes the references, also where it fails. */
	body = json_pack("{s:s, s:s, s:s, s:i, s:O, s:o, s:{s:i, s:i}, s:o}", "ID", id, "Name",
			service->name ? service->name : service->service, "Address", e->address,
			"Port", (int) e->port, "Tags", tags, "Meta", meta, "Weights", "Passing",
			weight, "Warning", weight, "Check", check);
	return body ? json_dumps(body, JSON_COMPACT) : NULL;
}

static int registered_new(const struct consul *c, const struct usher_wanted *service,
		const struct usher_endpoint *e, struct registered **ret)
{
	struct registered *new = calloc(1, sizeof(*new));
	char id[USHER_AUTHORITY_MAX];

	if (!new)
		return -ENOMEM;
	new->id = strdup(e->id ? e->id : usher_authority_format(e->address, e->port, id));
	new->service = strdup(service->service);
	new->body = new->id ? write_body(c, service, e, new->id) : NULL;
	new->passing = e->ready;
	new->state = e->admin_state;
	if (!new->id || !new->service || !new->body) {
		(void) registered_free(new);
		return -ENOMEM;
	}
	*ret = new;
	return 0;
}

/* As what this run has registered for another service; an agent may have forgotten it meanwhile. */
static bool has_id(const struct consul *c, const char *id)
{
	for (const struct registered *r = c->registered; r; r = r->next)
		if (strcmp(r->id, id) == 0)
			return true;
	return false;
}

/* An instance that somebody else has registered is not described anew, which would take its checks
 * away: it is only put to the state. A maintenance that an operator has begun, an operator ends.
 * Returns 1 when that was it. */
static int add_to_others(struct consul *c, const struct usher_wanted *service,
		const struct registered *new, struct usher_error *reterr)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	cleanup(answer_own_done) struct answer_own own = { 0 };
	autofree char *local = NULL;
	int r = look_up(c, new->id, &local, &own, reterr);

	if (r == 0)
		r = check_service(&own, service, new->id, reterr);
	else if (r > 0)
		return 0;
	if (r < 0 || is_ours(&own))
		return r;
	if (new->state == USHER_ADMIN_READY && own.is_theirs)
		return 1;
	r = put_maintenance(c, local, new->state, &event, reterr);
	return r < 0 ? r : 1;
}

int registration_add(void *instance, const struct usher_wanted *service,
		const struct usher_endpoint *endpoint, struct usher_error *reterr)
{
	struct consul *c = instance;
	struct registered *new = NULL, **at;
	int r = registered_new(c, service, endpoint, &new);

	if (r < 0)
		return out_of_memory(reterr);
	at = find(c, new->service, new->id);
	if (!*at && has_id(c, new->id)) {
		(void) registered_free(new);
		return usher_error_set(reterr, -EEXIST,
				"usher has registered another service with the id %s at this agent; "
				"give one of them another id",
				endpoint->id ? endpoint->id : "ADDRESS:PORT");
	}
	if (!*at) {
		r = add_to_others(c, service, new, reterr);
		if (r != 0) {
			(void) registered_free(new);
			return r < 0 ? r : 0;
		}
	}
	/* A drain outlives that its endpoint is described anew. */
	if (*at && new->state == USHER_ADMIN_READY)
		new->state = (*at)->state;
	if (!*at && c->registered_count == REGISTRATIONS_MAX)
		r = usher_error_set(reterr, -E2BIG, "there are %d registrations already",
				REGISTRATIONS_MAX);
	else
		r = register_again(c, new, reterr);
	if (r < 0) {
		(void) registered_free(new);
		return r;
	}
	if (*at) {
		new->next = (*at)->next;
		(void) registered_free(*at);
	} else {
		c->registered_count++;
	}
	*at = new;
	return 0;
}

/* What is registered as the agent has it, for telling it to one that has forgotten it. */
static char *write_again(
		const struct consul *c, const struct answer_own *own, const char *id, bool passing)
{
	const json_t *s = own->service;
	autojson json_t *body =
			json_pack("{s:s, s:o}", "ID", id, "Check", write_check(c, id, passing));
	static const struct {
		const char *name, *from;
	} members[] = { { "Name", "Service" }, { "Address", "Address" }, { "Port", "Port" },
		{ "Tags", "Tags" }, { "Meta", "Meta" }, { "Weights", "Weights" } };

	for (size_t i = 0; body && i < ELEMENTS(members); i++)
		if (json_object_set(body, members[i].name, json_object_get(s, members[i].from)) < 0)
			return NULL;
	return body ? json_dumps(body, JSON_COMPACT) : NULL;
}

static int adopt(struct consul *c, const struct usher_wanted *service, const char *id,
		const struct answer_own *own, struct usher_error *reterr)
{
	struct registered *new;

	if (c->registered_count == REGISTRATIONS_MAX)
		return usher_error_set(reterr, -E2BIG, "there are %d registrations already",
				REGISTRATIONS_MAX);
	new = calloc(1, sizeof(*new));
	if (!new)
		return out_of_memory(reterr);
	new->passing = !own->notes || strcmp(own->notes, NOT_READY) != 0;
	new->state = own->state;
	new->id = strdup(id);
	new->service = strdup(service->service);
	new->body = write_again(c, own, id, new->passing);
	if (!new->id || !new->service || !new->body) {
		(void) registered_free(new);
		return out_of_memory(reterr);
	}
	new->next = c->registered;
	c->registered = new;
	c->registered_count++;
	return 0;
}

/* Of what an earlier run of usherd has registered, the agent knows all that there is to know. What
 * others have registered they keep alive themselves, as long as it is there: 1. */
static int find_or_adopt(struct consul *c, const struct usher_wanted *service, const char *id,
		struct registered **ret, struct usher_error *reterr)
{
	cleanup(answer_own_done) struct answer_own own = { 0 };
	autofree char *local = NULL;
	int r;

	*ret = *find(c, service->service, id);
	if (*ret)
		return 0;
	r = look_up(c, id, &local, &own, reterr);
	if (r == 0 && (r = check_service(&own, service, id, reterr)) < 0)
		return r;
	if (r == 0 && !is_ours(&own))
		return 1;
	if (r == 1 || (r == 0 && strcmp(local, id) != 0)) /* that is another of ours */
		return usher_error_set(reterr, -ENOENT,
				"%s of %s is not registered at the agent of this node", id,
				service->service);
	if (r == 0)
		r = adopt(c, service, id, &own, reterr);
	if (r == 0)
		*ret = c->registered;
	return r;
}

int registration_renew(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	struct usher_error why = { 0 };
	struct consul *c = instance;
	struct registered *known;
	char name[CHECK_NAME_MAX];
	struct query q;
	int r = find_or_adopt(c, service, id, &known, reterr);

	if (r != 0)
		return r < 0 ? r : 0;
	name_check(name, id);
	start_call(c, &q, "/v1/agent/check/update/", name);
	r = put(c, &q, known->passing ? "{\"Status\":\"passing\"}" : "{\"Status\":\"critical\"}",
			&event, &why);
	if (r < 0 && is_unknown(&event)) {
		usher_log(USHER_LOG_WARNING,
				"The agent does not know %s of %s any more; registering it again",
				id, service->service);
		return register_again(c, known, reterr);
	}
	return r < 0 ? usher_error_set(reterr, r, "%s", usher_error_text(&why, r)) : 0;
}

/* ---- what others have registered, too ---- */

int registration_set_state(void *instance, const struct usher_wanted *service, const char *id,
		enum usher_admin_state state, struct usher_error *reterr)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	struct usher_error why = { 0 };
	struct consul *c = instance;
	struct registered *known = *find(c, service->service, id);
	autofree char *local = known ? strdup(id) : NULL;
	int r;

	if (known && !local)
		return out_of_memory(reterr);
	if (!known && (r = local_id(c, id, &local, reterr)) < 0)
		return r;
	if (known)
		known->state = state;
	r = put_maintenance(c, local, state, &event, &why);
	if (r < 0 && is_unknown(&event)) {
		if (known)
			return register_again(c, known, reterr);
		return usher_error_set(reterr, -ENOENT,
				"%s is not registered at the agent of this node (%s); only the agent "
				"that it is registered at can change its state",
				id, event.server);
	}
	return r < 0 ? usher_error_set(reterr, r, "%s", usher_error_text(&why, r)) : 0;
}

/* Unknown to the agent: gone, unless another agent has it. */
static int check_gone(struct consul *c, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	const struct answer_options options = { 0 };
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	cleanup(answer_done) struct answer a = { 0 };
	struct query q;
	int r;

	start_call(c, &q, "/v1/health/service/", service->name);
	r = ask(c, "GET", &q, NULL, &event, reterr);
	if (r == 0)
		r = usher_http_status_error(&event, reterr);
	if (r == 0)
		r = answer_parse(event.data, event.data_size, &options, &a, reterr);
	if (r < 0 || usher_endpoints_find(a.set, id) < 0)
		return r;
	return usher_error_set(reterr, -EROFS,
			"%s is not registered at the agent of this node (%s); only the agent that "
			"it is registered at can take it out",
			id, event.server);
}

static int deregister(struct consul *c, const char *id, struct usher_error *reterr)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	struct usher_error why = { 0 };
	struct query q;
	int r;

	start_call(c, &q, "/v1/agent/service/deregister/", id);
	r = put(c, &q, NULL, &event, &why);
	if (r < 0 && !is_unknown(&event))
		return usher_error_set(reterr, r, "%s", usher_error_text(&why, r));
	return 0;
}

/* What others have registered is not ours to deregister, for nobody could register it again as it
 * was: it is put into maintenance, where no consumer of Consul uses it either. */
static int remove_from_others(struct consul *c, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	cleanup(answer_own_done) struct answer_own own = { 0 };
	autofree char *local = NULL;
	int r = look_up(c, id, &local, &own, reterr);

	if (r < 0)
		return r;
	if (r == 1 || check_service(&own, service, id, NULL) < 0)
		return check_gone(c, service, id, reterr);
	if (is_ours(&own))
		return deregister(c, local, reterr);
	return put_maintenance(c, local, USHER_ADMIN_DRAINING, &event, reterr);
}

int registration_remove(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	struct consul *c = instance;
	struct registered **at = find(c, service->service, id), *known = *at;
	int r;

	if (!known)
		return remove_from_others(c, service, id, reterr);
	r = deregister(c, id, reterr);
	if (r < 0)
		return r;
	*at = known->next;
	c->registered_count--;
	(void) registered_free(known);
	return 0;
}

uint64_t registration_renew_after_usec(const void *instance)
{
	const struct consul *c = instance;

	return c->ttl_usec / 3;
}
