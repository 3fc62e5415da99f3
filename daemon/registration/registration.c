#include "registration.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "interfaces.h"
#include "log.h"
#include "ownership.h"

#define HELD_LOOK_USEC  USEC_PER_SEC       /* what a drain decides is looked for so often */
#define SHOWN_LOOK_USEC (5 * USEC_PER_SEC) /* and so often for another id of the same address */

/* ---- the object ---- */

void registration_set_text(char **field, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	free(*field);
	*field = copy;
}

static void registration_on_health(void *userdata, struct health *health)
{
	(void) health;
	registration_wake(userdata);
}

static const struct health_events health_events = { .changed = registration_on_health };

struct registration *registration_new(
		struct registrations *office, const char *service, const char *id)
{
	struct registration *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->office = office;
	g->since_usec = clock_boot_usec();
	g->service = strdup(service);
	g->id = strdup(id);
	if (asprintf(&g->key, "%s/%s", service, id) < 0)
		g->key = NULL;
	return g->service && g->id && g->key ? g : registration_free(g);
}

struct registration *registration_free(struct registration *g)
{
	if (!g)
		return NULL;
	registration_end_proposal(g, -ECANCELED, NULL);
	for (size_t i = 0; i < g->place_count; i++)
		(void) placement_free(g->places[i]);
	free(g->places);
	(void) health_free(g->health);
	(void) registration_spec_unref(g->spec);
	(void) usher_endpoints_unref(g->endpoint);
	(void) usher_endpoints_unref(g->payload);
	if (g->office->queue && g->key)
		work_queue_remove(g->office->queue, g->key);
	free(g->service);
	free(g->id);
	free(g->key);
	free(g->json);
	free(g->requested_by);
	free(g->trouble);
	free(g->shown_id);
	free(g);
	return NULL;
}

void registration_wake(struct registration *g)
{
	(void) work_queue_add(g->office->queue, g->key);
}

/* ---- the spec ---- */

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static struct placement *find_place(
		const struct registration *g, const char *source, const char *name)
{
	for (size_t i = 0; i < g->place_count; i++)
		if (strcmp(g->places[i]->source, source) == 0 &&
				strcmp(g->places[i]->name, name) == 0)
			return g->places[i];
	return NULL;
}

/* Another name in the same registry is another place: the old one is left. */
static int want_place(struct registration *g, const struct feed_config *feed)
{
	const char *name = feed->name ? feed->name : g->service;
	struct placement *p = find_place(g, feed->source, name);

	if (!p) {
		if (placement_add(g, feed->source, name, feed->port) < 0)
			return -ENOMEM;
		p = g->places[g->place_count - 1];
	}
	p->is_wanted = true;
	if (!same_text(p->port, feed->port)) {
		registration_set_text(&p->port, feed->port);
		placement_forget_told(p);
	}
	return 0;
}

/* Where it is to be, as the spec says; without one it stays where it is. */
static int want_places(struct registration *g)
{
	int r = 0;

	for (size_t i = 0; (g->spec || g->is_leaving) && i < g->place_count; i++)
		g->places[i]->is_wanted = false;
	for (size_t i = 0; g->spec && i < g->spec->place_count && r >= 0; i++)
		r = want_place(g, &g->spec->places[i]);
	return r;
}

static void set_health(struct registration *g)
{
	const struct registration_spec *spec = g->spec;

	if (!spec || !spec->check) {
		g->health = health_free(g->health);
		return;
	}
	if (g->health) {
		(void) health_configure(g->health, &spec->what->health, spec->check);
		return;
	}
	g->health = health_new(directory_health_office(g->office->directory), g->service,
			&spec->what->health, spec->check, &health_events, g);
}

/* ---- what is told ---- */

static int find_address(const struct registration *g, char chosen[INET6_ADDRSTRLEN],
		const char **ret, struct usher_error *reterr)
{
	const struct registration_config *what = g->spec->what;
	const struct interface_table *table;
	int r;

	if (what->address) {
		*ret = what->address;
		return 0;
	}
	if (!g->office->interfaces)
		return usher_error_set(reterr, -EAGAIN,
				"the addresses of this node cannot be read (%s); trying again, or say one in address",
				strerrordesc_np(-g->office->interfaces_error));
	table = interfaces_table(g->office->interfaces);
	r = address_choose(&what->address_from, table->items, table->count, chosen, reterr);
	if (r < 0)
		return r;
	*ret = chosen;
	return 0;
}

static int build_set(const struct registration *g, const char *address, bool ready,
		struct usher_endpoints **ret, struct usher_error *reterr)
{
	const struct registration_config *what = g->spec->what;
	struct usher_endpoint endpoint = USHER_ENDPOINT_INIT;
	struct usher_endpoints *set = usher_endpoints_new();
	int r;

	if (!set)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	endpoint.id = g->id;
	endpoint.address = address;
	endpoint.port = what->port;
	endpoint.secure = what->secure;
	endpoint.zone = registration_config_zone(what, g->spec->config);
	endpoint.weight = what->weight;
	endpoint.metadata = what->metadata;
	endpoint.metadata_count = what->metadata_count;
	endpoint.ready = ready;
	r = usher_endpoints_add(set, &endpoint, reterr);
	if (r < 0) {
		(void) usher_endpoints_unref(set);
		return r;
	}
	usher_endpoints_seal(set);
	*ret = set;
	return 0;
}

/* Put a set in place of another, unless they say the same. */
static bool replace_set(struct usher_endpoints **field, struct usher_endpoints *set)
{
	if (usher_endpoints_equal(*field, set)) {
		(void) usher_endpoints_unref(set);
		return false;
	}
	(void) usher_endpoints_unref(*field);
	*field = set;
	return true;
}

static bool is_elsewhere(const struct usher_endpoints *before, const struct usher_endpoints *now)
{
	struct usher_endpoint a, b;

	if (!before)
		return false;
	usher_endpoints_get(before, 0, &a);
	usher_endpoints_get(now, 0, &b);
	return a.port != b.port || strcmp(a.address, b.address) != 0;
}

static void lose_address(struct registration *g, const struct usher_error *why, int code)
{
	const char *text = usher_error_text(why, code);

	if (!same_text(g->trouble, text))
		log_warning(FIELDS(.value[LOG_SERVICE] = g->service, .value[LOG_ENDPOINT] = g->id),
				"Cannot register %s of %s: %s", g->id, g->service, text);
	registration_set_text(&g->trouble, text);
	g->endpoint = usher_endpoints_unref(g->endpoint);
	g->payload = usher_endpoints_unref(g->payload);
	g->has_passed = g->is_well = g->is_down = false;
}

/* Again once what it is made of has changed. */
static void find_endpoint(struct registration *g)
{
	char chosen[INET6_ADDRSTRLEN];
	struct usher_endpoints *set = NULL;
	struct usher_error why = {};
	const char *address = NULL;
	int r = find_address(g, chosen, &address, &why);

	if (r >= 0)
		r = build_set(g, address, true, &set, &why);
	if (r < 0) {
		lose_address(g, &why, r);
		return;
	}
	g->is_built = true;
	registration_set_text(&g->trouble, NULL);
	if (is_elsewhere(g->endpoint, set)) {
		registration_set_text(&g->shown_id, NULL); /* that of the former address */
		g->shown_usec = 0;
	}
	if (replace_set(&g->endpoint, set) && g->payload)
		log_info(FIELDS(.value[LOG_SERVICE] = g->service, .value[LOG_ENDPOINT] = g->id),
				"%s of %s is another now (address %s): registering that", g->id,
				g->service, address);
}

static bool is_ready(const struct usher_endpoints *set)
{
	struct usher_endpoint endpoint;

	usher_endpoints_get(set, 0, &endpoint);
	return endpoint.ready;
}

/* Where the checks say so, and the configuration wants it told, it is shown as not ready. */
static void find_payload(struct registration *g, bool is_another)
{
	bool ready = !g->is_down || g->spec->what->on_unhealthy != UNHEALTHY_UNREADY;
	struct usher_endpoints *set = NULL;
	struct usher_endpoint endpoint;

	if (!g->endpoint) {
		g->payload = usher_endpoints_unref(g->payload);
		return;
	}
	if (!is_another && g->payload && is_ready(g->payload) == ready)
		return;
	usher_endpoints_get(g->endpoint, 0, &endpoint);
	if (build_set(g, endpoint.address, ready, &set, NULL) >= 0)
		(void) replace_set(&g->payload, set);
	else
		g->is_built = false;
}

/* ---- how it is ---- */

static void set_well(struct registration *g, bool has_passed, bool is_well, bool is_down)
{
	g->has_passed = has_passed;
	g->is_well = is_well;
	g->is_down = is_down;
}

static void find_health(struct registration *g)
{
	struct health_detail detail;

	if (g->spec->check && !g->health)
		set_health(g);
	if (!g->spec->check) {
		set_well(g, true, true, false);
		return;
	}
	if (!g->health || !g->endpoint || health_follow(g->health, g->endpoint) < 0) {
		set_well(g, false, false, false);
		return;
	}
	health_detail(g->health, 0, &detail);
	if (detail.state == USHER_HEALTH_UP || detail.state == USHER_HEALTH_DEGRADED)
		set_well(g, true, true, false);
	else if (detail.checked_usec == 0)
		set_well(g, false, false, false); /* asked anew, as at another address */
	else
		set_well(g, g->has_passed, false, detail.state == USHER_HEALTH_DOWN);
}

/* What it is and how it is, now. ENOMEM: look again. */
static int look_at_instance(struct registration *g)
{
	int r = want_places(g);

	if (g->spec) {
		bool is_another = !g->is_built;

		if (is_another)
			find_endpoint(g);
		find_health(g);
		find_payload(g, is_another);
	}
	return r;
}

void registration_set_spec(struct registration *g, struct registration_spec *spec)
{
	(void) registration_spec_unref(g->spec);
	g->spec = spec;
	g->is_built = false;
	registration_set_text(&g->trouble, NULL);
	if (!spec) {
		g->endpoint = usher_endpoints_unref(g->endpoint);
		g->payload = usher_endpoints_unref(g->payload);
	}
	set_health(g);
	(void) look_at_instance(g);
	registration_wake(g);
}

static bool is_out(const struct override *override)
{
	return override && (override->withdrawn || override->admin_state != USHER_ADMIN_READY);
}

static bool is_at(const struct usher_endpoints *set, ssize_t i, const struct usher_endpoint *ours)
{
	struct usher_endpoint other;

	if (i < 0)
		return false;
	usher_endpoints_get(set, (size_t) i, &other);
	return other.port == ours->port && strcmp(other.address, ours->address) == 0;
}

/* Some registries give an instance another id than the one it was registered with; a drain goes by
 * that. The same address and port are the same instance. */
static void find_shown(struct registration *g, const struct usher_endpoints *set)
{
	struct usher_endpoint ours;

	usher_endpoints_get(g->endpoint, 0, &ours);
	if (g->shown_id && is_at(set, usher_endpoints_find(set, g->shown_id), &ours))
		return;
	for (size_t i = 0; i < usher_endpoints_count(set); i++) {
		struct usher_endpoint other;

		if (!is_at(set, (ssize_t) i, &ours))
			continue;
		usher_endpoints_get(set, i, &other);
		registration_set_text(&g->shown_id, other.id);
		return;
	}
}

static void look_for_shown(struct registration *g, uint64_t now_usec)
{
	struct context *context = directory_find(g->office->directory, g->service);

	if (!context || !g->endpoint || now_usec < g->shown_usec + SHOWN_LOOK_USEC)
		return;
	g->shown_usec = now_usec;
	for (size_t i = 0; i < context_feed_count(context); i++) {
		const struct feed *feed = context_feed(context, i);

		if (!feed->observation || !registration_find_place(g, feed->config->source))
			continue;
		if (usher_endpoints_find(feed->observation->endpoints, g->id) < 0)
			find_shown(g, feed->observation->endpoints);
	}
}

static bool is_held_now(struct registration *g, uint64_t now_usec)
{
	const struct directory *directory = g->office->directory;

	look_for_shown(g, now_usec);
	return is_out(directory_find_override(directory, g->service, g->id)) ||
			(g->shown_id &&
					is_out(directory_find_override(
							directory, g->service, g->shown_id)));
}

bool registration_hold_has_changed(struct registration *g, uint64_t now_usec)
{
	return is_held_now(g, now_usec) != g->is_held;
}

static void find_hold(struct registration *g, uint64_t now_usec)
{
	bool was_held = g->is_held;

	g->is_held = is_held_now(g, now_usec);
	/* Whatever the drain and the restore have told the registry: it is told anew. */
	for (size_t i = 0; was_held && !g->is_held && i < g->place_count; i++)
		placement_forget_told(g->places[i]);
}

/* ---- one look ---- */

struct placement *registration_find_place(const struct registration *g, const char *source)
{
	for (size_t i = 0; i < g->place_count; i++)
		if (strcmp(g->places[i]->source, source) == 0)
			return g->places[i];
	return NULL;
}

/* Out, and nobody wants it there. */
static void drop_places(struct registration *g)
{
	size_t kept = 0;

	for (size_t i = 0; i < g->place_count; i++) {
		struct placement *p = g->places[i];

		if (p->is_wanted || p->job || p->is_there || p->state != REGISTRATION_REMOVED) {
			g->places[kept++] = p;
			continue;
		}
		if (p->version > 0)
			g->version++;
		(void) placement_free(p);
	}
	g->place_count = kept;
}

/* A source that the configuration does not have any more cannot be told anything. */
static void give_up_places(struct registration *g)
{
	for (size_t i = 0; i < g->place_count; i++) {
		struct placement *p = g->places[i];

		if (p->is_wanted || p->job || config_find_source(g->office->config, p->source))
			continue;
		log_warning(FIELDS(.value[LOG_SERVICE] = g->service, .value[LOG_ENDPOINT] = g->id,
					    .value[LOG_SOURCE] = p->source),
				"%s of %s cannot be taken out of %s, which is not configured any more; leaving it there until the registry drops it",
				g->id, g->service, p->source);
		p->is_there = false;
		p->state = p->said = REGISTRATION_REMOVED;
	}
}

bool registration_is_nothing(const struct registration *g)
{
	return !g->spec && !g->json && !g->trouble && !g->proposal && !g->is_configured &&
			!g->is_leaving && g->place_count == 0;
}

bool registration_is_over(const struct registration *g)
{
	return !g->spec && !g->trouble && !g->proposal && g->place_count == 0 && !g->is_writing;
}

enum registration_state registration_judge(const struct registration *g, const char **ret_why)
{
	static const enum registration_state order[] = { REGISTRATION_FAILING, REGISTRATION_HELD,
		REGISTRATION_UNHEALTHY, REGISTRATION_WAITING, REGISTRATION_PENDING,
		REGISTRATION_LEAVING, REGISTRATION_REGISTERED };

	*ret_why = g->trouble;
	if (g->trouble && !(g->spec && g->place_count > 0))
		return REGISTRATION_PENDING;
	for (size_t i = 0; i < ELEMENTS(order); i++)
		for (size_t k = 0; k < g->place_count; k++) {
			const struct placement *p = g->places[k];

			if (p->state != order[i])
				continue;
			if (g->is_leaving && p->state != REGISTRATION_FAILING)
				return REGISTRATION_LEAVING;
			if (p->error)
				*ret_why = p->error;
			else if (p->lateness)
				*ret_why = p->lateness;
			else if (p->state == REGISTRATION_FAILING)
				*ret_why = p->lane->error;
			return p->state;
		}
	return g->spec || g->proposal ? REGISTRATION_PENDING : REGISTRATION_REMOVED;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t look_at_places(struct registration *g, uint64_t now_usec)
{
	uint64_t again_usec = USEC_FOREVER;

	give_up_places(g);
	for (size_t i = 0; i < g->place_count; i++)
		if (g->places[i]->state != REGISTRATION_REMOVED || g->places[i]->is_wanted ||
				g->places[i]->is_there)
			again_usec = earlier(
					again_usec, placement_reconcile(g->places[i], now_usec));
	drop_places(g);
	return again_usec;
}

enum work_result registration_reconcile(struct registration *g, uint64_t *ret_again_usec)
{
	uint64_t now_usec = clock_boot_usec(), again_usec;
	enum registration_state state;
	const char *why;
	bool is_complete = look_at_instance(g) >= 0;

	find_hold(g, now_usec);
	again_usec = look_at_places(g, now_usec);
	again_usec = earlier(again_usec, registration_record_commit(g, now_usec));
	if (g->is_held || !is_complete)
		again_usec = earlier(again_usec, now_usec + HELD_LOOK_USEC);
	state = registration_judge(g, &why);
	if (state != g->state) {
		g->state = state;
		g->since_usec = now_usec;
	}
	if (registration_is_over(g) && g->version == g->written) {
		again_usec = earlier(again_usec, g->since_usec + REGISTRATIONS_KEPT_USEC);
		/* One that never became anything is not shown. */
		if (now_usec >= g->since_usec + REGISTRATIONS_KEPT_USEC || g->is_unnamed ||
				!g->is_leaving) {
			registrations_forget_registration(g);
			return WORK_DONE;
		}
	}
	registrations_look_at_stop(g->office);
	if (again_usec == USEC_FOREVER)
		return WORK_DONE;
	*ret_again_usec = again_usec > now_usec ? again_usec - now_usec : 0;
	return WORK_LATER;
}
