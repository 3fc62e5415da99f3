/* Registration at a Eureka server, which tells its peers.
 *
 * What was registered is kept, so that a server that has forgotten it (it was started again, or
 * evicted it while usherd could not reach it) is told anew by the next renewal. Out of service is
 * an override of the status: it outlives that the instance describes itself anew, and takes effect
 * also on what others have registered. */

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "eureka.h"
#include "own-json.h"

#define USEC_PER_SEC      UINT64_C(1000000)
#define CALL_TIMEOUT_USEC (10 * USEC_PER_SEC)
#define LEASE_RENEWALS    3 /* within one lease, as Eureka's own client */
#define PATH_MAX_BYTES    8192

struct registered {
	char *service, *id, *app;
	json_t *body; /* as it was registered last */
	enum instance_status status;
	enum usher_admin_state state;
	bool is_adopted; /* nobody has told this run of usherd of a state */
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
	free(r->app);
	json_decref(r->body);
	free(r);
	return NULL;
}

static struct registered **find(struct eureka *e, const char *service, const char *id)
{
	struct registered **at = &e->registered;

	while (*at && (strcmp((*at)->id, id) != 0 || strcmp((*at)->service, service) != 0))
		at = &(*at)->next;
	return at;
}

void registration_done(struct eureka *e)
{
	while (e->registered) {
		struct registered *first = e->registered;

		e->registered = first->next;
		(void) registered_free(first);
	}
	e->server = usher_http_free(e->server);
}

/* ---- calls ---- */

/* "/apps/APP/ID" and what follows; too long, it is full and stays so. */
struct path {
	char text[PATH_MAX_BYTES];
	bool full;
};

static void path_add(struct path *p, const char *text)
{
	size_t used = strlen(p->text);
	int n = snprintf(&p->text[used], sizeof(p->text) - used, "%s", text);

	p->full = p->full || n < 0 || (size_t) n >= sizeof(p->text) - used;
}

static void path_add_escaped(struct path *p, const char *text)
{
	p->full = p->full || !usher_http_escape(p->text, sizeof(p->text), text);
}

static void path_start(struct path *p, const char *app, const char *id, const char *rest)
{
	p->text[0] = '\0';
	p->full = false;
	path_add(p, "/apps/");
	path_add_escaped(p, app);
	if (id) {
		path_add(p, "/");
		path_add_escaped(p, id);
	}
	path_add(p, rest);
}

/* The event of an answer, whatever its status. */
static int ask(struct eureka *e, const char *method, const struct path *p, const char *body,
		struct usher_http_event *ret, struct usher_error *reterr)
{
	static const char *const headers[] = { "Content-Type: application/json", NULL };
	struct usher_http_request request = { .size = sizeof(request),
		.method = method,
		.path = p->text,
		.headers = body ? headers : NULL,
		.body = body ? body : "",
		.body_size = body ? strlen(body) : 0,
		.timeout_usec = CALL_TIMEOUT_USEC };
	int r;

	if (p->full)
		return usher_error_set(reterr, -E2BIG, "the id is too long for a request");
	if (!e->server && (r = eureka_open(e, NULL, &e->server, reterr)) < 0)
		return r;
	r = usher_http_do(e->server, &request, ret, reterr);
	if (r == 0 && ret->status >= 500) /* not ready: the next call goes to its peer */
		usher_http_leave(e->server, ret->server);
	return r;
}

/* The same, and a status that is no success is an error. */
static int call(struct eureka *e, const char *method, const struct path *p, const char *body,
		struct usher_error *reterr)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	struct usher_error why = { 0 };
	int r = ask(e, method, p, body, &event, &why);

	if (r == 0)
		r = usher_http_status_error(&event, &why);
	return r < 0 ? usher_error_set(reterr, r, "%s", usher_error_text(&why, r)) : 0;
}

/* One instance as the server has it, past its caches; ENOENT. */
static int look(struct eureka *e, const struct path *p, struct instance **ret,
		struct usher_error *reterr)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	struct usher_error why = { 0 };
	struct instance *i = NULL;
	int r = ask(e, "GET", p, NULL, &event, &why);

	if (r == 0)
		r = usher_http_status_error(&event, &why);
	if (r == 0)
		r = instance_parse(event.data, event.data_size, &i, &why);
	if (r < 0) {
		(void) usher_error_set(reterr, r, "%s", usher_error_text(&why, r));
		return r;
	}
	assert(i);
	*ret = i;
	return 0;
}

/* In capitals, as servers have them. */
static char *app_of(const struct usher_wanted *service)
{
	char *app = strdup(service->name ? service->name : service->service);

	for (char *c = app; c && *c; c++)
		*c = *c >= 'a' && *c <= 'z' ? (char) (*c - 'a' + 'A') : *c;
	return app;
}

/* Where services are looked up by vip, the name says nothing of the app. */
static int look_up(struct eureka *e, const struct usher_wanted *service, const char *id,
		struct instance **ret, struct usher_error *reterr)
{
	autofree char *app = app_of(service);
	struct path p;
	int r;

	if (!app)
		return out_of_memory(reterr);
	path_start(&p, app, id, "");
	if (e->by != INSTANCE_BY_APP) {
		p.text[0] = '\0';
		path_add(&p, "/instances/");
		path_add_escaped(&p, id);
	}
	r = look(e, &p, ret, reterr);
	assert(r < 0 || *ret);
	return r;
}

static bool is_ours(const struct instance *i)
{
	for (size_t k = 0; k < i->label_count; k++)
		if (strcmp(i->labels[k].name, INSTANCE_OWNER_LABEL) == 0)
			return strcmp(i->labels[k].value, INSTANCE_OWNER) == 0;
	return false;
}

/* ---- out of service, and back ---- */

static int override_status(struct eureka *e, const char *app, const char *id, const char *status,
		struct usher_error *reterr)
{
	struct path p;

	/* Without a timestamp: with one that is newer than what the instance itself has, the server
	 * would refuse what it says later. */
	path_start(&p, app, id, "/status?value=");
	path_add(&p, status);
	return call(e, "PUT", &p, NULL, reterr);
}

static int end_override(
		struct eureka *e, const char *app, const char *id, struct usher_error *reterr)
{
	struct path p;

	path_start(&p, app, id, "/status?value=UP");
	return call(e, "DELETE", &p, NULL, reterr);
}

static int still_out(const struct instance *i, struct usher_error *reterr)
{
	const char *status = instance_status_to_string(i->status);

	return usher_error_set(reterr, -EROFS,
			"there is no override of %s any more, but it is %s: that is what the instance "
			"says of itself, and only it can say otherwise",
			i->id, status);
}

/* A server that has lost the override still shows what it made of it, and takes the instance's own
 * word for nothing: put up, and that put away, it is up. */
static int put_back(struct eureka *e, const char *app, const char *id, const struct path *one,
		struct usher_error *reterr)
{
	autofree struct instance *i = NULL;
	int r = look(e, one, &i, reterr);

	if (r < 0 || i->status == INSTANCE_UP)
		return r;
	if (i->status != INSTANCE_OUT_OF_SERVICE)
		return still_out(i, reterr);
	r = override_status(e, app, id, "UP", reterr);
	return r < 0 ? r : end_override(e, app, id, reterr);
}

static int set_state(struct eureka *e, const char *app, const char *id,
		enum usher_admin_state state, struct usher_error *reterr)
{
	struct path one;
	int r;

	if (state != USHER_ADMIN_READY)
		return override_status(e, app, id,
				instance_status_to_string(INSTANCE_OUT_OF_SERVICE), reterr);
	path_start(&one, app, id, "");
	r = end_override(e, app, id, reterr);
	return r < 0 ? r : put_back(e, app, id, &one, reterr);
}

/* ---- what is registered ---- */

/* What discovery has added is Eureka's already. */
static bool is_added(const char *name)
{
	return strncmp(name, INSTANCE_LABEL_PREFIX, strlen(INSTANCE_LABEL_PREFIX)) == 0;
}

static int set_text(json_t *object, const char *name, const char *value)
{
	return json_object_set_new(object, name, json_string(value));
}

static json_t *write_metadata(const struct usher_endpoint *e)
{
	json_t *metadata = json_object();
	char weight[16];
	int r = metadata ? 0 : -1;

	for (size_t i = 0; i < e->metadata_count && r == 0; i++)
		if (!is_added(e->metadata[i].name))
			r = set_text(metadata, e->metadata[i].name, e->metadata[i].value);
	if (r == 0 && e->zone && e->zone[0])
		r = set_text(metadata, USHER_ZONE_LABEL, e->zone);
	(void) snprintf(weight, sizeof(weight), "%" PRIu32, e->weight);
	if (r == 0 && e->weight != 1)
		r = set_text(metadata, USHER_WEIGHT_LABEL, weight);
	if (r == 0)
		r = set_text(metadata, INSTANCE_OWNER_LABEL, INSTANCE_OWNER);
	if (r == 0)
		return metadata;
	json_decref(metadata);
	return NULL;
}

static json_t *write_port(uint16_t port, bool enabled)
{
	return json_pack("{s:i, s:s}", "$", (int) port, "@enabled", enabled ? "true" : "false");
}

static json_t *write_body(const struct eureka *e, const struct usher_wanted *service,
		const struct usher_endpoint *endpoint, const struct registered *r)
{
	const char *vip = service->name ? service->name : service->service;
	int lease_sec = (int) (e->lease_usec / USEC_PER_SEC);

	return json_pack(
			"{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:{s:s, s:s}, s:{s:i, s:i}, "
			"s:o}",
			"instanceId", r->id, "hostName", endpoint->address, "app", r->app, "ipAddr",
			endpoint->address, "vipAddress", vip, "secureVipAddress", vip, "status",
			instance_status_to_string(r->status), "port",
			write_port(endpoint->port, !endpoint->secure), "securePort",
			write_port(endpoint->port, endpoint->secure), "dataCenterInfo", "@class",
			"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name", "MyOwn",
			"leaseInfo", "renewalIntervalInSecs", lease_sec / LEASE_RENEWALS,
			"durationInSecs", lease_sec, "metadata", write_metadata(endpoint));
}

static int registered_new(const struct eureka *e, const struct usher_wanted *service,
		const struct usher_endpoint *endpoint, struct registered **ret)
{
	struct registered *new = calloc(1, sizeof(*new));
	char id[USHER_AUTHORITY_MAX];

	if (!new)
		return -ENOMEM;
	new->id = strdup(endpoint->id ? endpoint->id
				      : usher_authority_format(
							endpoint->address, endpoint->port, id));
	new->service = strdup(service->service);
	new->app = app_of(service);
	new->status = endpoint->ready ? INSTANCE_UP : INSTANCE_DOWN;
	new->state = endpoint->admin_state;
	if (new->id &&new->service &&new->app)
		new->body = write_body(e, service, endpoint, new);
	if (!new->body) {
		(void) registered_free(new);
		return -ENOMEM;
	}
	*ret = new;
	return 0;
}

/* Of two descriptions the server takes the one with the higher timestamp, so that of each is higher
 * than that of the one before, whatever the clock does. */
static int64_t next_dirty_msec(struct eureka *e, int64_t known_msec)
{
	struct timespec t = { 0 };
	int64_t now;

	(void) clock_gettime(CLOCK_REALTIME, &t);
	now = (int64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000;
	if (now <= e->dirty_msec)
		now = e->dirty_msec + 1;
	if (now <= known_msec)
		now = known_msec + 1;
	e->dirty_msec = now;
	return now;
}

/* known_msec: the timestamp that the server has of it; 0: none. */
static int register_again(struct eureka *e, const struct registered *known, int64_t known_msec,
		struct usher_error *reterr)
{
	autofree char *text = NULL;
	cleanup(own_unref_json) json_t *whole = NULL;
	char stamp[32];
	struct path p;
	int r;

	(void) snprintf(stamp, sizeof(stamp), "%" PRId64, next_dirty_msec(e, known_msec));
	if (set_text(known->body, "lastDirtyTimestamp", stamp) == 0 &&
			set_text(known->body, "lastUpdatedTimestamp", stamp) == 0)
		whole = json_pack("{s:O}", "instance", known->body);
	text = whole ? json_dumps(whole, JSON_COMPACT) : NULL;
	if (!text)
		return out_of_memory(reterr);
	path_start(&p, known->app, NULL, "");
	r = call(e, "POST", &p, text, reterr);
	if (r < 0 || known->state == USHER_ADMIN_READY)
		return r;
	return set_state(e, known->app, known->id, known->state, reterr);
}

/* What is there already. An instance that somebody else has registered is not described anew, for
 * the two of us would take turns: it is only put to the state. Returns 1 when that was it. */
static int look_first(struct eureka *e, const struct usher_wanted *service,
		const struct registered *new, int64_t *ret_dirty_msec, struct usher_error *reterr)
{
	autofree struct instance *there = NULL;
	struct usher_error why = { 0 };
	int r = look_up(e, service, new->id, &there, &why);

	*ret_dirty_msec = 0;
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return usher_error_set(reterr, r, "%s", usher_error_text(&why, r));
	if (!is_ours(there)) {
		r = set_state(e, there->app, there->id, new->state, reterr);
		return r < 0 ? r : 1;
	}
	*ret_dirty_msec = there->dirty_msec;
	/* A drain that an usherd before has begun, and this one ends. */
	if (there->overridden == INSTANCE_OUT_OF_SERVICE && new->state == USHER_ADMIN_READY)
		return end_override(e, there->app, there->id, reterr);
	return 0;
}

int registration_add(void *instance, const struct usher_wanted *service,
		const struct usher_endpoint *endpoint, struct usher_error *reterr)
{
	struct eureka *e = instance;
	struct registered *new = NULL, **at;
	int64_t dirty_msec = 0;
	int r = registered_new(e, service, endpoint, &new);

	if (r < 0)
		return out_of_memory(reterr);
	at = find(e, new->service, new->id);
	/* A drain outlives that its endpoint is described anew. */
	if (*at && !(*at)->is_adopted && new->state == USHER_ADMIN_READY)
		new->state = (*at)->state;
	r = look_first(e, service, new, &dirty_msec, reterr);
	if (r == 0)
		r = register_again(e, new, dirty_msec, reterr);
	if (r != 0) {
		(void) registered_free(new);
		return r < 0 ? r : 0;
	}
	if (*at) {
		new->next = (*at)->next;
		(void) registered_free(*at);
	}
	*at = new;
	taken_out_remove(&e->taken_out, new->service, new->id);
	return 0;
}

/* ---- renew ---- */

/* Of what an earlier run of usherd has registered, the server knows all that there is to know. */
static int adopt(const struct eureka *e, const struct usher_wanted *service,
		const struct instance *there, struct registered **ret, struct usher_error *reterr)
{
	const struct instance_options options = { .by = INSTANCE_BY_APP };
	struct usher_label labels[USHER_METADATA_MAX];
	struct usher_endpoint endpoint;
	struct registered *new = NULL;
	char stamp[32];
	int r = instance_to_endpoint(there, &options, labels, &endpoint, reterr);

	if (r < 0)
		return r;
	(void) snprintf(stamp, sizeof(stamp), "%" PRId64, there->dirty_msec);
	r = registered_new(e, service, &endpoint, &new);
	if (r == 0 && set_text(new->body, "lastDirtyTimestamp", stamp) < 0) {
		new = registered_free(new);
		r = -ENOMEM;
	}
	if (r < 0)
		return out_of_memory(reterr);
	new->is_adopted = true;
	*ret = new;
	return 0;
}

/* 1: somebody else's, who gives the signs of life. */
static int find_to_adopt(struct eureka *e, const struct usher_wanted *service, const char *id,
		struct registered **ret, struct usher_error *reterr)
{
	autofree struct instance *there = NULL;
	int r;

	if (taken_out_has(&e->taken_out, service->service, id))
		return usher_error_set(reterr, -ENOENT, "%s of %s has been taken out", id,
				service->service);
	r = look_up(e, service, id, &there, reterr);
	if (r < 0)
		return r;
	return is_ours(there) ? adopt(e, service, there, ret, reterr) : 1;
}

static int give_sign_of_life(
		struct eureka *e, const struct registered *known, struct usher_error *reterr)
{
	struct path p;

	path_start(&p, known->app, known->id, "?status=");
	path_add(&p, instance_status_to_string(known->status));
	path_add(&p, "&lastDirtyTimestamp=");
	path_add_escaped(&p, json_string_value(json_object_get(known->body, "lastDirtyTimestamp")));
	return call(e, "PUT", &p, NULL, reterr);
}

int registration_renew(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	struct eureka *e = instance;
	struct registered *known = *find(e, service->service, id), *adopted = NULL;
	struct usher_error why = { 0 };
	int r = known ? 0 : find_to_adopt(e, service, id, &adopted, reterr);

	if (r != 0)
		return r < 0 ? r : 0;
	assert(known || adopted);
	r = give_sign_of_life(e, known ? known : adopted, &why);
	if (r == -ENOENT && known) {
		usher_log(USHER_LOG_WARNING,
				"The registry does not know %s of %s any more; registering it again",
				id, service->service);
		return register_again(e, known, 0, reterr);
	}
	if (r < 0) {
		(void) registered_free(adopted);
		return usher_error_set(reterr, r, "%s", usher_error_text(&why, r));
	}
	if (adopted) {
		adopted->next = e->registered;
		e->registered = adopted;
	}
	return 0;
}

/* As often as what is registered says of itself: the server counts on it. */
uint64_t registration_renew_after_usec(const void *instance)
{
	const struct eureka *e = instance;

	return e->lease_usec / LEASE_RENEWALS;
}

/* ---- what others have registered, too ---- */

int registration_set_state(void *instance, const struct usher_wanted *service, const char *id,
		enum usher_admin_state state, struct usher_error *reterr)
{
	struct eureka *e = instance;
	struct registered *known = *find(e, service->service, id);
	autofree struct instance *there = NULL;
	struct usher_error why = { 0 };
	int r;

	if (!known) {
		r = look_up(e, service, id, &there, reterr);
		return r < 0 ? r : set_state(e, there->app, id, state, reterr);
	}
	known->state = state;
	known->is_adopted = false;
	r = set_state(e, known->app, id, state, &why);
	if (r == -ENOENT)
		return register_again(e, known, 0, reterr);
	return r < 0 ? usher_error_set(reterr, r, "%s", usher_error_text(&why, r)) : 0;
}

static int deregister(struct eureka *e, const char *app, const char *id, struct usher_error *reterr)
{
	struct usher_error why = { 0 };
	struct path p;
	int r;

	path_start(&p, app, id, "");
	r = call(e, "DELETE", &p, NULL, &why);
	if (r < 0 && r != -ENOENT)
		return usher_error_set(reterr, r, "%s", usher_error_text(&why, r));
	return 0;
}

/* What others have registered is not ours to deregister, and would come back with its next sign of
 * life: it is put out of service, where no consumer of Eureka uses it either. */
static int remove_from_others(struct eureka *e, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	autofree struct instance *there = NULL;
	struct usher_error why = { 0 };
	int r = look_up(e, service, id, &there, &why);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return usher_error_set(reterr, r, "%s", usher_error_text(&why, r));
	if (is_ours(there))
		return deregister(e, there->app, id, reterr);
	return set_state(e, there->app, id, USHER_ADMIN_DRAINING, reterr);
}

int registration_remove(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	struct eureka *e = instance;
	struct registered **at = find(e, service->service, id), *known = *at;
	int r;

	r = known ? deregister(e, known->app, id, reterr)
		  : remove_from_others(e, service, id, reterr);
	if (r < 0)
		return r;
	taken_out_add(&e->taken_out, service->service, id);
	if (known)
		*at = known->next;
	(void) registered_free(known);
	return 0;
}
