/* One registration in one registry: deciding, calling, and what became of it. */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "ownership.h"
#include "registration.h"

#define SOURCE_AWAY_USEC USEC_PER_SEC /* until a source that does not run is looked for again */

#define MESSAGE_REGISTERED "7b4a7c2f5f0f4b52b0f3d1c2a6f1e9a2"
#define MESSAGE_FAILING    "7b4a7c2f5f0f4b52b0f3d1c2a6f1e9a3"
#define MESSAGE_LOST       "7b4a7c2f5f0f4b52b0f3d1c2a6f1e9a4"
#define MESSAGE_OUT        "7b4a7c2f5f0f4b52b0f3d1c2a6f1e9a5"
#define MESSAGE_LEFT       "7b4a7c2f5f0f4b52b0f3d1c2a6f1e9a6"

static const char *const call_words[] = {
	[SOURCE_ADD] = "register",
	[SOURCE_RENEW] = "renew",
	[SOURCE_SET_STATE] = "set the state of",
	[SOURCE_REMOVE] = "deregister",
};

#define PLACEMENT_FIELDS(place, message)                                  \
	FIELDS(.value[LOG_SERVICE] = (place)->registration->service,      \
			.value[LOG_ENDPOINT] = (place)->registration->id, \
			.value[LOG_SOURCE] = (place)->source, .value[LOG_MESSAGE_ID] = (message))

/* ---- the object ---- */

int placement_add(struct registration *g, const char *source, const char *name, const char *port)
{
	struct placement **grown =
			reallocarray(g->places, g->place_count + 1, sizeof(struct placement *));
	struct placement *p;

	if (!grown)
		return -ENOMEM;
	g->places = grown;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->registration = g;
	p->source = strdup(source);
	p->name = strdup(name);
	p->port = port ? strdup(port) : NULL;
	p->lane = registrations_lane(g->office, source);
	p->since_usec = clock_boot_usec();
	p->next_usec = USEC_FOREVER;
	if (!p->source || !p->name || (port && !p->port) || !p->lane) {
		(void) placement_free(p);
		return -ENOMEM;
	}
	g->places[g->place_count++] = p;
	return 0;
}

struct placement *placement_free(struct placement *p)
{
	uint64_t now_usec = clock_boot_usec();

	if (!p)
		return NULL;
	if (p->lane) {
		lane_note_late(p, false, now_usec);
		lane_leave(p, now_usec);
	}
	if (p->job) {
		source_forget(p->job);
		lane_stop(p, now_usec);
	}
	(void) usher_endpoints_unref(p->told);
	(void) usher_endpoints_unref(p->telling);
	free(p->source);
	free(p->name);
	free(p->port);
	free(p->error);
	free(p->lateness);
	free(p);
	return NULL;
}

void placement_forget_told(struct placement *p)
{
	p->told = usher_endpoints_unref(p->told);
}

/* ---- deciding ---- */

static bool is_told(const struct placement *p, const struct usher_endpoints *payload)
{
	return p->told && payload && usher_endpoints_equal(p->told, payload);
}

static bool is_to_stay(const struct placement *p)
{
	const struct registration *g = p->registration;

	if (!p->is_wanted || g->is_leaving)
		return false;
	return !g->spec || !g->office->is_stopping || g->spec->what->on_stop == STOP_KEEP;
}

static void find_facts(const struct placement *p, const struct source *source, uint64_t now_usec,
		struct placement_facts *ret)
{
	const struct registration *g = p->registration;

	*ret = (struct placement_facts){
		.is_wanted = is_to_stay(p),
		.is_known = g->payload,
		.is_held = g->is_held,
		.has_passed = g->has_passed,
		.is_well = g->is_well,
		.is_down = g->is_down,
		.on_unhealthy = g->spec ? g->spec->what->on_unhealthy : UNHEALTHY_KEEP,
		.may_be_there = p->version > 0,
		.is_there = p->is_there,
		.is_current = is_told(p, g->payload),
		.is_another = p->told && !is_told(p, g->payload),
		.can_renew = !source || source_can(source, SOURCE_RENEW),
		.can_remove = !source || source_can(source, SOURCE_REMOVE),
		.is_due = now_usec >= p->renew_usec,
	};
}

static void decide(const struct placement *p, const struct placement_facts *facts,
		struct placement_decision *ret)
{
	placement_decide(facts, ret);
	/* A registration that stays is left alone once usherd stops. */
	if (p->registration->office->is_stopping && ret->act != PLACEMENT_REMOVE)
		ret->act = PLACEMENT_NOTHING;
}

/* The lease is over, and nothing failed: its turn, or the answer, does not come. */
static bool is_late(const struct placement *p, const struct placement_decision *decision,
		uint64_t now_usec)
{
	return p->is_there && p->failures == 0 && p->lane->failures == 0 &&
			(decision->act == PLACEMENT_RENEW || decision->act == PLACEMENT_ADD) &&
			now_usec >= placement_lease_end(&p->times);
}

/* ---- what became of it ---- */

static const char *why_failing(const struct placement *p)
{
	if (p->error)
		return p->error;
	return p->lane->error ? p->lane->error : "the registry fails";
}

static void tell_state(const struct placement *p, enum registration_state before)
{
	const struct registration *g = p->registration;
	bool was_failing = before == REGISTRATION_FAILING;

	switch (p->state) {
	case REGISTRATION_REGISTERED:
		log_notice(PLACEMENT_FIELDS(p, MESSAGE_REGISTERED),
				"%s of %s is registered in %s as %s%s", g->id, g->service,
				p->source, p->name, was_failing ? ", which works again" : "");
		break;
	case REGISTRATION_FAILING:
		log_warning(PLACEMENT_FIELDS(p, MESSAGE_FAILING),
				"Cannot %s %s of %s in %s: %s; trying again until it works",
				p->is_there ? "keep or change" : "register", g->id, g->service,
				p->source, why_failing(p));
		break;
	case REGISTRATION_UNHEALTHY:
		log_notice(PLACEMENT_FIELDS(p, MESSAGE_OUT),
				"%s of %s goes out of %s until its checks are good again", g->id,
				g->service, p->source);
		break;
	case REGISTRATION_HELD:
		log_info(PLACEMENT_FIELDS(p, NULL),
				"%s of %s is drained: %s is told nothing of it meanwhile", g->id,
				g->service, p->source);
		break;
	case REGISTRATION_REMOVED:
		log_notice(PLACEMENT_FIELDS(p, MESSAGE_OUT), "%s of %s is out of %s", g->id,
				g->service, p->source);
		break;
	case REGISTRATION_PENDING:
	case REGISTRATION_WAITING:
	case REGISTRATION_LEAVING:
		break;
	}
}

/* That renewals are late is told once for all of them, by the lane. */
static void set_state(struct placement *p, enum registration_state state, uint64_t now_usec)
{
	enum registration_state before = p->said;

	if (state != p->state) {
		p->state = state;
		p->since_usec = now_usec;
	}
	if (state == before || (state == REGISTRATION_FAILING && p->is_late))
		return;
	p->said = state;
	tell_state(p, before);
}

/* The registry has answered, and not with a failure. */
static void note_contact(struct placement *p)
{
	lane_note_contact(p->lane);
	p->failures = 0;
	p->again_usec = p->times.failed_usec = 0;
	registration_set_text(&p->error, NULL);
}

static void note_gone(struct placement *p)
{
	p->is_there = false;
	p->told = usher_endpoints_unref(p->told);
	if (p->version == 0)
		return;
	p->version = 0; /* nothing more for the disk to know */
	p->registration->version++;
}

static void plan_renewal(struct placement *p, uint64_t now_usec)
{
	struct registrations *office = p->registration->office;
	const struct source *source = registrations_source(office, p->source);

	p->times.renew_after_usec = source ? source_renew_after_usec(source) : 0;
	p->renew_usec = now_usec +
			placement_renew_delay(
					p->times.renew_after_usec, random_next(&office->random));
}

static void note_success(struct placement *p, uint64_t now_usec)
{
	note_contact(p);
	if (p->call == SOURCE_REMOVE) {
		note_gone(p);
		return;
	}
	p->is_there = true;
	p->times.renewed_usec = now_usec;
	if (p->call == SOURCE_ADD) {
		p->told_usec = now_usec;
		(void) usher_endpoints_unref(p->told);
		p->told = usher_endpoints_ref(p->telling);
	}
	plan_renewal(p, now_usec);
}

/* The registry has lost it: expired, wiped, or started anew. */
static void note_loss(struct placement *p, const char *reason, uint64_t now_usec)
{
	const struct registration *g = p->registration;

	if (p->is_there)
		log_notice(PLACEMENT_FIELDS(p, MESSAGE_LOST), "%s does not have %s of %s: %s; %s",
				p->source, g->id, g->service, reason,
				g->is_held ? "a drain holds it back"
						: g->has_passed
						? "registering it again"
						: "waiting for its first good check");
	note_contact(p);
	plan_renewal(p, now_usec);
	p->is_there = false;
	p->told = usher_endpoints_unref(p->told);
}

/* It stays where it is, for there is nobody who could take it out. */
static void note_left(struct placement *p, const char *reason)
{
	const struct registration *g = p->registration;

	log_warning(PLACEMENT_FIELDS(p, MESSAGE_LEFT),
			"%s of %s cannot be taken out of %s: %s; leaving it there until the registry drops it",
			g->id, g->service, p->source, reason);
	note_contact(p);
	note_gone(p);
}

static const char *remedy(int code)
{
	switch (-code) {
	case EACCES:
	case EPERM:
		return "; give the credentials of the source the right to register";
	case EINVAL:
	case EBADMSG:
		return "; what is registered, or the source's options, must change";
	default:
		return "";
	}
}

static void note_failure(struct placement *p, int code, const char *reason, uint64_t now_usec)
{
	struct registrations *office = p->registration->office;
	autofree char *text = NULL;

	if (asprintf(&text, "%s%s", reason, remedy(code)) < 0)
		text = NULL;
	registration_set_text(&p->error, text ? text : reason);
	p->failures++;
	p->times.failed_usec = now_usec;
	if (placement_failure_is_shared(code))
		lane_note_failure(p->lane, p->error, now_usec);
	else
		p->again_usec = now_usec +
				placement_backoff(p->failures, random_next(&office->random));
}

static void judge_answer(struct placement *p, int r, const char *reason, uint64_t now_usec)
{
	if (r == 0 || (p->call == SOURCE_REMOVE && r == -ENOENT) ||
			(p->call == SOURCE_ADD && r == -EEXIST))
		note_success(p, now_usec);
	else if (p->call == SOURCE_RENEW && r == -ENOENT)
		note_loss(p, reason, now_usec);
	else if (p->call == SOURCE_REMOVE && (r == -EOPNOTSUPP || r == -ENOSYS))
		note_left(p, reason);
	else if (r == -ECANCELED)
		p->again_usec = now_usec + PLACEMENT_RETRY_MIN_USEC; /* its source has changed */
	else
		note_failure(p, r, reason, now_usec);
}

static void placement_on_answer(void *userdata, int r, const char *reason)
{
	struct placement *p = userdata;
	const char *why = reason && reason[0] ? reason : strerrordesc_np(-r);
	uint64_t now_usec = clock_boot_usec();

	p->lane->answered_usec = now_usec - p->called_usec;
	if (r == 0)
		p->lane->done[p->call]++;
	else
		p->lane->failed[p->call]++;
	judge_answer(p, r, why, now_usec);
	p->telling = usher_endpoints_unref(p->telling);
	lane_stop(p, now_usec);
	registration_wake(p->registration);
}

/* ---- calling ---- */

static struct registration_job *start_call(
		struct placement *p, struct source *source, enum source_registration call)
{
	const struct registration *g = p->registration;
	const struct usher_wanted wanted = {
		.service = g->service, .name = p->name, .port = p->port
	};
	struct usher_label labels[USHER_METADATA_MAX];
	struct usher_endpoint endpoint = USHER_ENDPOINT_INIT;

	if (call != SOURCE_ADD)
		return source_register(source, call, &wanted, NULL, g->id, USHER_ADMIN_READY,
				placement_on_answer, p);
	usher_endpoints_get(g->payload, 0, &endpoint);
	for (size_t i = 0; i < endpoint.metadata_count; i++)
		labels[i] = usher_endpoints_metadata_at(g->payload, 0, i);
	endpoint.metadata = labels;
	return source_register(source, call, &wanted, &endpoint, g->id, USHER_ADMIN_READY,
			placement_on_answer, p);
}

static uint64_t call(struct placement *p, struct source *source, enum placement_act act,
		uint64_t now_usec)
{
	static const enum source_registration calls[] = {
		[PLACEMENT_ADD] = SOURCE_ADD,
		[PLACEMENT_RENEW] = SOURCE_RENEW,
		[PLACEMENT_REMOVE] = SOURCE_REMOVE,
	};

	p->call = calls[act];
	p->telling = act == PLACEMENT_ADD ? usher_endpoints_ref(p->registration->payload) : NULL;
	p->job = start_call(p, source, p->call);
	if (!p->job) {
		p->telling = usher_endpoints_unref(p->telling);
		note_failure(p, -ENOMEM, "out of memory, or too much waits for the registry",
				now_usec);
		lane_leave(p, now_usec);
		return p->again_usec;
	}
	lane_start(p, now_usec);
	log_debug(PLACEMENT_FIELDS(p, NULL), "Asking %s to %s %s of %s", p->source,
			call_words[p->call], p->registration->id, p->registration->service);
	return USEC_FOREVER;
}

/* The disk knows that it may be there before it is. */
static bool is_recorded(struct placement *p)
{
	struct registration *g = p->registration;

	if (p->version == 0)
		p->version = ++g->version;
	return g->written >= p->version;
}

/* What stands in the way of even waiting for the lane: when to look again; 0: nothing. */
static uint64_t find_obstacle(struct placement *p, const struct source *source,
		enum placement_act act, uint64_t now_usec)
{
	if (!source) {
		registration_set_text(&p->error, "its source does not run");
		return now_usec + SOURCE_AWAY_USEC;
	}
	if (now_usec < p->again_usec)
		return p->again_usec;
	if (act == PLACEMENT_ADD && !is_recorded(p))
		return USEC_FOREVER;
	return 0;
}

static uint64_t act(struct placement *p, struct source *source, const struct placement_facts *facts,
		enum placement_act what, uint64_t now_usec)
{
	struct lane *lane = p->lane;
	uint64_t again_usec = find_obstacle(p, source, what, now_usec);

	if (again_usec > 0) {
		lane_leave(p, now_usec);
		return again_usec;
	}
	lane_join(p, facts, what, now_usec);
	if (!lane_is_turn(p, now_usec))
		return USEC_FOREVER;
	if (now_usec < lane->again_usec)
		return lane->again_usec;
	return call(p, source, what, now_usec);
}

/* How it is while the act is still to be done. */
static enum registration_state state_before(
		const struct placement *p, const struct placement_decision *decision)
{
	if (p->failures > 0 || p->lane->failures > 0)
		return REGISTRATION_FAILING;
	if (decision->state == REGISTRATION_REMOVED)
		return REGISTRATION_LEAVING;
	if (decision->state != REGISTRATION_REGISTERED)
		return decision->state;
	/* What an earlier run has put there is not known to be there still. */
	if (!p->is_there || p->times.renewed_usec == 0)
		return REGISTRATION_PENDING;
	return p->is_late ? REGISTRATION_FAILING : REGISTRATION_REGISTERED;
}

static void rest(struct placement *p, enum registration_state state, uint64_t now_usec)
{
	lane_leave(p, now_usec);
	p->failures = 0;
	p->times.failed_usec = 0;
	registration_set_text(&p->error, NULL);
	set_state(p, state, now_usec);
	p->next_usec = (p->is_there || p->version > 0) && !p->registration->office->is_stopping
			? p->renew_usec
			: USEC_FOREVER;
	if (p->next_usec <= now_usec)
		p->next_usec = USEC_FOREVER;
}

uint64_t placement_reconcile(struct placement *p, uint64_t now_usec)
{
	struct source *source = registrations_source(p->registration->office, p->source);
	struct placement_decision decision;
	struct placement_facts facts;
	uint64_t late_usec;

	find_facts(p, source, now_usec, &facts);
	decide(p, &facts, &decision);
	lane_note_late(p, is_late(p, &decision, now_usec), now_usec);
	if (!p->job && decision.act == PLACEMENT_NOTHING) {
		rest(p, decision.state, now_usec);
	} else {
		p->next_usec = p->job ? USEC_FOREVER
				      : act(p, source, &facts, decision.act, now_usec);
		set_state(p, state_before(p, &decision), now_usec);
	}
	lane_look_at_time(p->lane, now_usec);
	if (now_usec >= p->lane->again_usec)
		lane_wake(p->lane, now_usec);
	late_usec = placement_lease_end(&p->times);
	return late_usec > now_usec && late_usec < p->next_usec ? late_usec : p->next_usec;
}
