#include "registrations.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "interfaces.h"
#include "log.h"
#include "ownership.h"
#include "registration.h"

#define MESSAGE_UNREADABLE "7b4a7c2f5f0f4b52b0f3d1c2a6f1e9a8"
#define MESSAGE_TAKEN_OVER "7b4a7c2f5f0f4b52b0f3d1c2a6f1e9a9"

DEFINE_CLEANUP(struct registrations, registrations_free);
DEFINE_CLEANUP(struct registrations_plan, registrations_plan_free);
DEFINE_CLEANUP(struct registration_spec, registration_spec_unref);
DEFINE_CLEANUP(struct registration_config, registration_config_free);

/* ---- the list ---- */

static int compare(const struct registration *g, const char *service, const char *id)
{
	int by_service = strcmp(g->service, service);

	return by_service ? by_service : strcmp(g->id, id);
}

/* The index of it, or where it would be. */
static bool search(const struct registrations *r, const char *service, const char *id, size_t *ret)
{
	size_t low = 0, high = r->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = compare(r->all[middle], service, id);

		if (order == 0) {
			*ret = middle;
			return true;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*ret = low;
	return false;
}

static struct registration *find(const struct registrations *r, const char *service, const char *id)
{
	size_t i;

	return search(r, service, id, &i) ? r->all[i] : NULL;
}

/* Of those that are out and only shown still, the one that has been for longest. */
static void make_room(struct registrations *r)
{
	struct registration *oldest = NULL;

	for (size_t i = 0; i < r->count; i++)
		if (registration_is_over(r->all[i]) && r->all[i]->version == r->all[i]->written &&
				(!oldest || r->all[i]->since_usec < oldest->since_usec))
			oldest = r->all[i];
	if (oldest)
		registrations_forget_registration(oldest);
}

static int find_or_add(struct registrations *r, const char *service, const char *id,
		struct registration **ret)
{
	struct registration *g;
	size_t i;

	if (search(r, service, id, &i)) {
		*ret = r->all[i];
		return 0;
	}
	if (r->count == REGISTRATIONS_MAX) {
		make_room(r);
		if (r->count == REGISTRATIONS_MAX)
			return -EUSERS;
		(void) search(r, service, id, &i);
	}
	if (r->count == r->capacity) {
		size_t capacity = r->capacity ? 2 * r->capacity : 16;
		struct registration **grown =
				reallocarray(r->all, capacity, sizeof(struct registration *));

		if (!grown)
			return -ENOMEM;
		r->all = grown;
		r->capacity = capacity;
	}
	g = registration_new(r, service, id);
	if (!g)
		return -ENOMEM;
	HASH_ADD_KEYPTR(hh, r->by_key, g->key, strlen(g->key), g);
	if (!hash_was_added(g)) {
		(void) registration_free(g);
		return -ENOMEM;
	}
	memmove(&r->all[i + 1], &r->all[i], (r->count - i) * sizeof(struct registration *));
	r->all[i] = g;
	r->count++;
	*ret = g;
	return 0;
}

void registrations_forget_registration(struct registration *g)
{
	struct registrations *r = g->office;
	size_t i;

	if (search(r, g->service, g->id, &i)) {
		memmove(&r->all[i], &r->all[i + 1],
				(r->count - i - 1) * sizeof(struct registration *));
		r->count--;
	}
	HASH_DEL(r->by_key, g);
	(void) registration_free(g);
}

ssize_t registrations_find(const struct registrations *r, const char *service, const char *id)
{
	size_t i;

	return search(r, service, id, &i) && !registration_is_nothing(r->all[i]) ? (ssize_t) i
										 : -ENOENT;
}

struct usher_endpoints *registrations_endpoint(
		const struct registrations *r, const char *service, const char *id)
{
	const struct registration *g = find(r, service, id);

	return g ? g->endpoint : NULL;
}

/* ---- registries ---- */

struct lane *registrations_lane(struct registrations *r, const char *source)
{
	struct lane **grown, *lane;

	for (size_t i = 0; i < r->lane_count; i++)
		if (strcmp(r->lanes[i]->source, source) == 0)
			return r->lanes[i];
	grown = reallocarray(r->lanes, r->lane_count + 1, sizeof(struct lane *));
	if (!grown)
		return NULL;
	r->lanes = grown;
	lane = lane_new(r, source);
	if (lane)
		r->lanes[r->lane_count++] = lane;
	return lane;
}

struct source *registrations_source(const struct registrations *r, const char *name)
{
	return directory_find_source(r->directory, name);
}

/* ---- events ---- */

static enum work_result on_key(void *userdata, const char *key, uint64_t *ret_again_usec)
{
	struct registrations *r = userdata;
	struct registration *g;

	HASH_FIND_STR(r->by_key, key, g);
	return g ? registration_reconcile(g, ret_again_usec) : WORK_DONE;
}

static void wake_all(struct registrations *r)
{
	for (size_t i = 0; i < r->count; i++)
		registration_wake(r->all[i]);
}

/* A drain's override is another, perhaps: only then, for a service may have many, and change with
 * each of them. */
static void on_published(void *userdata, struct context *context, const struct snapshot *previous)
{
	struct registrations *r = userdata;
	uint64_t now_usec = clock_boot_usec();
	size_t i;

	(void) previous;
	(void) search(r, context_service(context), "", &i);
	for (; i < r->count && strcmp(r->all[i]->service, context_service(context)) == 0; i++)
		if (registration_hold_has_changed(r->all[i], now_usec))
			registration_wake(r->all[i]);
}

static const struct directory_events directory_events = { .published = on_published };

/* ---- the configuration ---- */

struct registrations_plan {
	struct config *config;
	struct registration_spec **specs;
	size_t count;
};

struct registrations_plan *registrations_plan_free(struct registrations_plan *plan)
{
	if (!plan)
		return NULL;
	for (size_t i = 0; i < plan->count; i++)
		(void) registration_spec_unref(plan->specs[i]);
	free(plan->specs);
	(void) config_unref(plan->config);
	free(plan);
	return NULL;
}

int registrations_prepare(struct registrations *r, struct config *config,
		struct registrations_plan **ret, struct usher_error *reterr)
{
	cleanup(registrations_plan_freep) struct registrations_plan *plan =
			calloc(1, sizeof(*plan));

	if (plan)
		plan->specs = calloc(
				config->registration_count + 1, sizeof(struct registration_spec *));
	if (!plan || !plan->specs)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	plan->config = config_ref(config);
	for (size_t i = 0; i < config->registration_count; i++) {
		int code = registration_spec_new(directory_plugins(r->directory), config,
				&config->registrations[i], NULL, &plan->specs[i], reterr);

		if (code < 0)
			return code;
		plan->count++;
	}
	*ret = take(plan);
	return 0;
}

/* Its id, which is that of the template as long as it takes an address and there is none. */
static int name_declared(struct registrations *r, const struct registration_spec *spec, char **ret,
		bool *ret_unnamed, struct usher_error *reterr)
{
	const struct registration_config *what = spec->what;
	char chosen[INET6_ADDRSTRLEN];
	const char *address = what->address;
	int code;

	if (!address && r->interfaces) {
		const struct interface_table *table = interfaces_table(r->interfaces);

		if (address_choose(&what->address_from, table->items, table->count, chosen, NULL) >=
				0)
			address = chosen;
	}
	code = registration_config_id(what, spec->config, address, ret, reterr);
	*ret_unnamed = code == -EADDRNOTAVAIL;
	if (*ret_unnamed) {
		*ret = strdup(what->id);
		return *ret ? 0 : -ENOMEM;
	}
	return code;
}

/* The configuration wins over what somebody has asked for. */
static void take_over(struct registration *g)
{
	if (!g->is_configured && g->json)
		log_notice(FIELDS(.value[LOG_SERVICE] = g->service, .value[LOG_ENDPOINT] = g->id,
					   .value[LOG_MESSAGE_ID] = MESSAGE_TAKEN_OVER),
				"%s of %s, which was registered over the API, is the configuration's now",
				g->id, g->service);
	registration_end_proposal(g, -ECANCELED, "the configuration declares it now");
	if (!g->is_configured || g->is_leaving)
		g->version++;
	registration_set_text(&g->json, NULL);
	registration_set_text(&g->requested_by, NULL);
	g->is_configured = true;
	g->is_leaving = false;
}

static int declare(struct registrations *r, struct registration_spec *spec)
{
	struct registration *g = NULL;
	autofree char *id = NULL;
	struct usher_error why = {};
	bool is_unnamed;
	int code = name_declared(r, spec, &id, &is_unnamed, &why);

	if (code >= 0)
		code = find_or_add(r, spec->what->service, id, &g);
	if (code == -EUSERS)
		(void) usher_error_set(&why, code, "there are %d registrations already",
				REGISTRATIONS_MAX);
	if (code < 0) {
		log_error(FIELDS(.value[LOG_SERVICE] = spec->what->service),
				"Cannot register an instance of %s: %s; trying again with the next change",
				spec->what->service, usher_error_text(&why, code));
		return code;
	}
	take_over(g);
	g->is_declared = true;
	g->is_unnamed = is_unnamed;
	if (g->spec != spec)
		registration_set_spec(g, registration_spec_ref(spec));
	return 0;
}

static void leave(struct registration *g)
{
	g->is_leaving = true;
	g->version++;
	registration_set_spec(g, NULL);
}

/* Those that are declared, under the ids that they have now. While one of them cannot be told by
 * its id, nobody knows which of the others is it: then none is taken out. */
static void declare_all(struct registrations *r)
{
	bool all_are_known = true;

	for (size_t i = 0; i < r->count; i++)
		r->all[i]->is_declared = false;
	for (size_t i = 0; i < r->declared_count; i++)
		if (declare(r, r->declared[i]) < 0)
			all_are_known = false;
	for (size_t i = 0; all_are_known && i < r->count; i++) {
		struct registration *g = r->all[i];

		if (g->is_configured && !g->is_declared && !g->is_leaving)
			leave(g);
	}
}

/* What the API asked for, read anew: what it means is also the configuration's. */
static void read_again(struct registrations *r, struct registration *g)
{
	struct registration_spec *spec = NULL;
	struct registration_config *own = NULL;
	struct usher_error why = {};
	int code = registration_config_parse(r->config, g->service, g->id, g->json, &own, &why);

	if (code >= 0)
		code = registration_spec_new(
				directory_plugins(r->directory), r->config, own, own, &spec, &why);
	if (code < 0) {
		(void) registration_config_free(own);
		log_warning(FIELDS(.value[LOG_SERVICE] = g->service, .value[LOG_ENDPOINT] = g->id),
				"%s of %s, registered over the API, does not fit the configuration: %s; leaving it as it is in the registry",
				g->id, g->service, usher_error_text(&why, code));
	}
	registration_set_spec(g, spec);
	if (code < 0)
		registration_set_text(&g->trouble, usher_error_text(&why, code));
}

/* The instance of a source that changed knows nothing of what the one before was told. */
static void forget_changed_sources(struct registrations *r, const struct config *before)
{
	for (size_t i = 0; before && i < before->source_count; i++) {
		const struct source_config *old = &before->sources[i];
		const struct source_config *new = config_find_source(r->config, old->name);

		if (new &&plugin_use_equal(&old->use, &new->use))
			continue;
		for (size_t k = 0; k < r->count; k++)
			for (size_t m = 0; m < r->all[k]->place_count; m++)
				if (strcmp(r->all[k]->places[m]->source, old->name) == 0)
					placement_forget_told(r->all[k]->places[m]);
	}
}

static void on_interfaces(void *userdata)
{
	struct registrations *r = userdata;

	for (size_t i = 0; i < r->count; i++)
		r->all[i]->is_built = false;
	declare_all(r);
	wake_all(r);
}

/* Only who registers needs to know. */
static void follow_interfaces(struct registrations *r)
{
	if (r->interfaces || (r->declared_count == 0 && r->count == 0))
		return;
	r->interfaces_error = interfaces_new(r->event, on_interfaces, r, &r->interfaces);
	if (r->interfaces_error < 0)
		log_warning(NULL, "Cannot read the addresses of this node: %s",
				strerrordesc_np(-r->interfaces_error));
}

void registrations_apply(struct registrations *r, struct registrations_plan *plan)
{
	struct config *before = r->config;
	struct registration_spec **declared_before = r->declared;
	size_t declared_before_count = r->declared_count;

	r->config = take(plan->config);
	r->declared = take(plan->specs);
	r->declared_count = plan->count;
	plan->count = 0;
	(void) registrations_plan_free(plan);
	follow_interfaces(r);
	forget_changed_sources(r, before);
	declare_all(r);
	for (size_t i = 0; i < r->count; i++)
		if (!r->all[i]->is_configured && !r->all[i]->is_leaving && r->all[i]->json)
			read_again(r, r->all[i]);
	wake_all(r);
	for (size_t i = 0; i < declared_before_count; i++)
		(void) registration_spec_unref(declared_before[i]);
	free(declared_before);
	(void) config_unref(before);
}

/* ---- life ---- */

int registrations_new(sd_event *event, struct directory *directory, struct registrations **ret)
{
	cleanup(registrations_freep) struct registrations *r = calloc(1, sizeof(*r));
	int code;

	if (!r)
		return -ENOMEM;
	r->event = sd_event_ref(event);
	r->directory = directory;
	random_init(&r->random);
	code = work_queue_new(event, on_key, r, &r->queue);
	if (code >= 0)
		code = directory_subscribe(directory, &directory_events, r);
	if (code < 0)
		return code;
	*ret = take(r);
	return 0;
}

struct registrations *registrations_free(struct registrations *r)
{
	if (!r)
		return NULL;
	r->decided = NULL;
	HASH_CLEAR(hh, r->by_key);
	(void) sd_event_source_disable_unref(r->stop_timer);
	(void) interfaces_free(r->interfaces);
	for (size_t i = 0; i < r->count; i++)
		(void) registration_free(r->all[i]);
	for (size_t i = 0; i < r->declared_count; i++)
		(void) registration_spec_unref(r->declared[i]);
	for (size_t i = 0; i < r->lane_count; i++)
		(void) lane_free(r->lanes[i]);
	free(r->lanes);
	free(r->declared);
	free(r->all);
	(void) work_queue_free(r->queue);
	(void) config_unref(r->config);
	(void) sd_event_unref(r->event);
	free(r);
	return NULL;
}

void registrations_set_store(struct registrations *r, struct store *store)
{
	r->store = store;
}

void registrations_restore(struct registrations *r, const struct stored_registration *stored)
{
	struct registration *g = NULL;
	struct usher_error why = {};
	int code = find_or_add(r, stored->service, stored->id, &g);

	if (code >= 0)
		code = registration_record_read(g, stored->json, &why);
	if (code >= 0)
		return;
	log_error(FIELDS(.value[LOG_SERVICE] = stored->service, .value[LOG_ENDPOINT] = stored->id,
				  .value[LOG_MESSAGE_ID] = MESSAGE_UNREADABLE),
			"The record of %s of %s cannot be read (%s); it is not looked after any more",
			stored->id, stored->service, usher_error_text(&why, code));
	if (g)
		registrations_forget_registration(g);
}

/* ---- the end ---- */

static bool is_going(const struct registration *g)
{
	if (!g->spec || g->spec->what->on_stop != STOP_DEREGISTER)
		return false;
	for (size_t i = 0; i < g->place_count; i++)
		if (g->places[i]->is_there || g->places[i]->job)
			return true;
	return false;
}

static void tell_left(const struct registration *g)
{
	const char *why = NULL;

	if (!is_going(g))
		return;
	(void) registration_judge(g, &why);
	log_warning(FIELDS(.value[LOG_SERVICE] = g->service, .value[LOG_ENDPOINT] = g->id),
			"%s of %s is not out of its registries yet: %s; stopping all the same",
			g->id, g->service, why ? why : "no answer");
}

static int on_stop_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct registrations *r = userdata;
	void (*done)(void *userdata) = r->stopped;

	(void) source;
	(void) usec;
	r->stopped = NULL;
	for (size_t i = 0; i < r->count; i++)
		tell_left(r->all[i]);
	if (done)
		done(r->stopped_userdata);
	return 0;
}

void registrations_look_at_stop(struct registrations *r)
{
	if (!r->stopped)
		return;
	for (size_t i = 0; i < r->count; i++)
		if (is_going(r->all[i]))
			return;
	(void) sd_event_source_set_time(r->stop_timer, 0);
}

void registrations_stop(struct registrations *r, void (*done)(void *userdata), void *userdata)
{
	r->is_stopping = true;
	r->stopped = done;
	r->stopped_userdata = userdata;
	if (sd_event_add_time_relative(r->event, &r->stop_timer, CLOCK_BOOTTIME,
			    REGISTRATIONS_STOP_USEC, 1, on_stop_time, r) < 0) {
		r->stopped = NULL;
		done(userdata);
		return;
	}
	wake_all(r);
	registrations_look_at_stop(r);
}

/* ---- over the API ---- */

static int refuse_configured(const struct registration *g, struct usher_error *reterr)
{
	const struct usher_node *place = g->spec ? g->spec->what->place : NULL;

	return usher_error_set(reterr, -EPERM,
			"%s of %s is declared in the configuration%s%s%s; change it there", g->id,
			g->service, place ? " (" : "",
			place ? usher_document_name(usher_node_document(place)) : "",
			place ? ")" : "");
}

static int check_change(const struct registration *g, struct usher_error *reterr)
{
	if (g->is_configured && !g->is_leaving)
		return refuse_configured(g, reterr);
	if (g->proposal)
		return usher_error_set(reterr, -EBUSY,
				"another change of %s of %s is on its way to the disk; try again",
				g->id, g->service);
	if (g->office->is_stopping)
		return usher_error_set(reterr, -EBUSY, "usherd stops; try again once it is back");
	return 0;
}

/* Takes spec on success. */
static int propose(struct registration *g, struct registration_spec *spec, const char *json,
		const char *by, uint64_t *ret_ticket)
{
	struct proposal *proposal = calloc(1, sizeof(*proposal));

	if (!proposal)
		return -ENOMEM;
	proposal->json = json ? strdup(json) : NULL;
	proposal->requested_by = by ? strdup(by) : NULL;
	if ((json && !proposal->json) || (by && !proposal->requested_by)) {
		free(proposal->json);
		free(proposal->requested_by);
		free(proposal);
		return -ENOMEM;
	}
	proposal->spec = spec;
	proposal->ticket = *ret_ticket = ++g->office->tickets;
	g->proposal = proposal;
	g->version++;
	registration_wake(g);
	return 0;
}

static bool is_as_asked(const struct registration *g, const struct registration_config *own)
{
	return g && !g->is_leaving && !g->proposal && g->json && g->spec && g->spec->own &&
			registration_config_equal(g->spec->own, own);
}

static int read_spec(struct registrations *r, const char *service, const char *id, const char *json,
		struct registration_spec **ret, struct usher_error *reterr)
{
	cleanup(registration_config_freep) struct registration_config *own = NULL;
	int code = registration_config_parse(r->config, service, id, json, &own, reterr);

	if (code >= 0)
		code = registration_spec_new(
				directory_plugins(r->directory), r->config, own, own, ret, reterr);
	if (code >= 0)
		(void) take(own);
	return code;
}

static bool has_room_for_api(const struct registrations *r)
{
	size_t count = 0;

	for (size_t i = 0; i < r->count; i++)
		count += !r->all[i]->is_configured && !registration_is_over(r->all[i]);
	return count < REGISTRATIONS_API_MAX;
}

int registrations_put(struct registrations *r, const char *service, const char *id,
		const char *json, const char *requested_by, struct registrations_change *ret,
		struct usher_error *reterr)
{
	cleanup(registration_spec_unrefp) struct registration_spec *spec = NULL;
	struct registration *g = find(r, service, id);
	struct registrations_change change = { .is_new = !g || g->is_leaving ||
				registration_is_nothing(g) };
	int code = g ? check_change(g, reterr) : 0;

	if (code >= 0)
		code = read_spec(r, service, id, json, &spec, reterr);
	if (code < 0)
		return code;
	if (is_as_asked(g, spec->own)) {
		*ret = change;
		return 0;
	}
	if (!g)
		code = has_room_for_api(r) ? find_or_add(r, service, id, &g) : -EUSERS;
	if (code == -EUSERS)
		return usher_error_set(reterr, code,
				"there are %d registrations over the API already",
				REGISTRATIONS_API_MAX);
	if (code >= 0)
		code = propose(g, spec, json, requested_by, &change.ticket);
	if (code < 0)
		return usher_error_set(reterr, code, "out of memory");
	(void) take(spec);
	follow_interfaces(r);
	*ret = change;
	return 0;
}

int registrations_remove(struct registrations *r, const char *service, const char *id,
		struct registrations_change *ret, struct usher_error *reterr)
{
	struct registration *g = find(r, service, id);
	struct registrations_change change = {};
	int code;

	if (!g || (!g->is_configured && !g->json && !g->is_leaving))
		return usher_error_set(reterr, -ENOENT, "%s of %s is not registered", id, service);
	code = check_change(g, reterr);
	if (code >= 0 && !g->is_leaving) {
		code = propose(g, NULL, NULL, NULL, &change.ticket);
		if (code < 0)
			return usher_error_set(reterr, code, "out of memory");
	}
	if (code < 0)
		return code;
	*ret = change;
	return 0;
}

void registrations_set_above(struct registrations *r, registrations_decided decided, void *userdata)
{
	r->decided = decided;
	r->decided_userdata = userdata;
}
