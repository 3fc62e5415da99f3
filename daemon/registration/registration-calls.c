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
	if (!p)
		return NULL;
	if (p->job) {
		source_forget(p->job);
		p->lane->busy = NULL;
	}
	(void) usher_endpoints_unref(p->told);
	(void) usher_endpoints_unref(p->telling);
	free(p->source);
	free(p->name);
	free(p->port);
	free(p->error);
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

static void decide(const struct placement *p, const struct source *source, uint64_t now_usec,
		struct placement_decision *ret)
{
	const struct registration *g = p->registration;

	placement_decide(
			&(const struct placement_facts){
					.is_wanted = is_to_stay(p),
					.is_known = g->payload,
					.is_held = g->is_held,
					.has_passed = g->has_passed,
					.is_well = g->is_well,
					.is_down = g->is_down,
					.on_unhealthy = g->spec ? g->spec->what->on_unhealthy
								: UNHEALTHY_KEEP,
					.may_be_there = p->version > 0,
					.is_there = p->is_there,
					.is_current = is_told(p, g->payload),
					.is_another = p->told && !is_told(p, g->payload),
					.can_renew = !source || source_can(source, SOURCE_RENEW),
					.can_remove = !source || source_can(source, SOURCE_REMOVE),
					.is_due = now_usec >= p->renew_usec,
			},
			ret);
	/* A registration that stays is left alone once usherd stops. */
	if (g->office->is_stopping && ret->act != PLACEMENT_REMOVE)
		ret->act = PLACEMENT_NOTHING;
}

/* ---- what became of it ---- */

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
				p->source, p->error ? p->error : "the registry fails");
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

static void set_state(struct placement *p, enum registration_state state, uint64_t now_usec)
{
	enum registration_state before = p->state;

	if (state == before)
		return;
	p->state = state;
	p->since_usec = now_usec;
	tell_state(p, before);
}

/* The registry has answered, and not with a failure. */
static void note_contact(struct placement *p)
{
	p->lane->failures = 0;
	registration_set_text(&p->lane->error, NULL);
	p->failures = 0;
	p->again_usec = 0;
	registration_set_text(&p->error, NULL);
}

static void note_gone(struct placement *p)
{
	p->is_there = false;
	p->told = usher_endpoints_unref(p->told);
	if (is_to_stay(p) || p->version == 0)
		return;
	p->version = 0; /* nothing more for the disk to know */
	p->registration->version++;
}

static void note_success(struct placement *p, uint64_t now_usec)
{
	struct registrations *office = p->registration->office;
	const struct source *source = registrations_source(office, p->source);

	note_contact(p);
	if (p->call == SOURCE_REMOVE) {
		note_gone(p);
		return;
	}
	p->is_there = true;
	p->renewed_usec = now_usec;
	if (p->call == SOURCE_ADD) {
		p->told_usec = now_usec;
		(void) usher_endpoints_unref(p->told);
		p->told = usher_endpoints_ref(p->telling);
	}
	p->renew_usec = now_usec +
			placement_renew_delay(source ? source_renew_after_usec(source) : 0,
					random_next(&office->random));
}

/* The registry has lost it: expired, wiped, or started anew. */
static void note_loss(struct placement *p, const char *reason)
{
	const struct registration *g = p->registration;

	log_notice(PLACEMENT_FIELDS(p, MESSAGE_LOST), "%s does not have %s of %s: %s; %s",
			p->source, g->id, g->service, reason,
			g->is_held                      ? "a drain holds it back"
					: g->has_passed ? "registering it again"
							: "waiting for its first good check");
	note_contact(p);
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
	if (placement_failure_is_shared(code)) {
		p->lane->failures++;
		registration_set_text(&p->lane->error, p->error);
		p->lane->again_usec = now_usec +
				placement_backoff(p->lane->failures, random_next(&office->random));
		return;
	}
	p->again_usec = now_usec + placement_backoff(p->failures, random_next(&office->random));
}

static void judge_answer(struct placement *p, int r, const char *reason, uint64_t now_usec)
{
	if (r == 0 || (p->call == SOURCE_REMOVE && r == -ENOENT) ||
			(p->call == SOURCE_ADD && r == -EEXIST))
		note_success(p, now_usec);
	else if (p->call == SOURCE_RENEW && r == -ENOENT)
		note_loss(p, reason);
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

	p->job = NULL;
	p->called_usec = 0;
	p->lane->busy = NULL;
	if (r == 0)
		p->lane->done[p->call]++;
	else
		p->lane->failed[p->call]++;
	judge_answer(p, r, why, now_usec);
	p->telling = usher_endpoints_unref(p->telling);
	registrations_wake_lane(p->registration->office, p->lane);
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
		return p->again_usec;
	}
	p->called_usec = now_usec;
	p->lane->busy = p;
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

static uint64_t act(struct placement *p, struct source *source,
		const struct placement_decision *decision, uint64_t now_usec)
{
	struct lane *lane = p->lane;

	if (!source) {
		registration_set_text(&p->error, "its source does not run");
		return now_usec + SOURCE_AWAY_USEC;
	}
	if (now_usec < p->again_usec)
		return p->again_usec;
	if (decision->act == PLACEMENT_ADD && !is_recorded(p))
		return USEC_FOREVER;
	if (lane->busy) {
		p->waits = true;
		return USEC_FOREVER;
	}
	if (now_usec < lane->again_usec)
		return lane->again_usec;
	return call(p, source, decision->act, now_usec);
}

/* How it is while the act is still to be done. */
static enum registration_state state_before(
		const struct placement *p, const struct placement_decision *decision)
{
	if (p->failures > 0 || p->lane->failures > 0)
		return REGISTRATION_FAILING;
	if (decision->state == REGISTRATION_REMOVED)
		return REGISTRATION_LEAVING;
	/* What an earlier run has put there is not known to be there still. */
	if (decision->state == REGISTRATION_REGISTERED && (!p->is_there || p->renewed_usec == 0))
		return REGISTRATION_PENDING;
	return decision->state;
}

uint64_t placement_reconcile(struct placement *p, uint64_t now_usec)
{
	struct source *source = registrations_source(p->registration->office, p->source);
	struct placement_decision decision;

	p->waits = false;
	decide(p, source, now_usec, &decision);
	if (p->job) {
		set_state(p, state_before(p, &decision), now_usec);
		p->next_usec = USEC_FOREVER;
	} else if (decision.act == PLACEMENT_NOTHING) {
		p->failures = 0;
		registration_set_text(&p->error, NULL);
		set_state(p, decision.state, now_usec);
		p->next_usec = p->is_there && !p->registration->office->is_stopping ? p->renew_usec
										    : USEC_FOREVER;
		if (p->next_usec <= now_usec)
			p->next_usec = USEC_FOREVER;
	} else {
		p->next_usec = act(p, source, &decision, now_usec);
		set_state(p, state_before(p, &decision), now_usec);
	}
	return p->next_usec;
}
