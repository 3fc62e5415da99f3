/* What sources ask of endpoints, compared with the records there are, and told how it goes. */

#include "petition.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "ownership.h"

#define PETITION_TEXT_MAX 512

/* How a drain goes. */
struct progress {
	enum usher_drain_state state;
	char drain[DRAIN_ID_MAX]; /* empty: it was refused */
	const char *step;         /* NULL: the same */
	char text[PETITION_TEXT_MAX];
	uint64_t since_wall_usec;
};

/* Times are CLOCK_BOOTTIME unless they say wall; 0: not yet. */
struct petition {
	struct rollout *rollout;
	char *key;
	char *source, *service, *endpoint;
	char *uid, *reason; /* NULL: it does not say */
	uint64_t timeout_usec;
	bool wanted; /* else it is taken back */
	bool gone;   /* its record is; it follows */

	/* What stands in the way. */
	int refused; /* negative errno; 0: nothing */
	char refusal[PETITION_TEXT_MAX - 64];
	unsigned refusals; /* in a row */
	uint64_t refused_wall_usec, try_again_usec, absent_until_usec;

	/* What the source knows. */
	struct progress told, telling;
	uint64_t told_serial, telling_serial; /* of the source */
	uint64_t told_usec, tell_again_usec;
	unsigned tell_failures; /* in a row */
	struct registration_job *job;

	uint64_t again_usec; /* when to look again; USEC_FOREVER: on an event */
};

#define PETITION_FIELDS(p)                                                               \
	FIELDS(.value[LOG_SERVICE] = (p)->service, .value[LOG_ENDPOINT] = (p)->endpoint, \
			.value[LOG_SOURCE] = (p)->source)

static struct petition *petition_free(struct petition *p)
{
	if (!p)
		return NULL;
	if (p->job)
		source_forget(p->job);
	free(p->key);
	free(p->source);
	free(p->service);
	free(p->endpoint);
	free(p->uid);
	free(p->reason);
	free(p);
	return NULL;
}
DEFINE_CLEANUP(struct petition, petition_free);

/* ---- finding ---- */

static struct petition *find_petition(const struct rollout *r, const char *key)
{
	for (size_t i = 0; i < r->petition_count; i++)
		if (strcmp(r->petitions[i]->key, key) == 0)
			return r->petitions[i];
	return NULL;
}

static void petition_wake(struct petition *p)
{
	if (work_queue_add(p->rollout->petition_queue, p->key) < 0)
		log_error(PETITION_FIELDS(p),
				"Cannot look now after what source %s asks of %s/%s: out of memory; "
				"the next event will",
				p->source, p->service, p->endpoint);
}

static void look_again(struct petition *p, uint64_t usec)
{
	if (usec < p->again_usec)
		p->again_usec = usec;
}

/* The newest drain of the endpoint that this source has asked for, or NULL. */
static struct operation *find_own(
		const struct rollout *r, const char *source, const char *service, const char *id)
{
	for (size_t i = r->count; i > 0; i--) {
		struct operation *op = r->operations[i - 1];
		const struct drain_record *record = &op->record;

		if (record->kind == ROLLOUT_DRAIN && record->asking_source &&
				strcmp(record->asking_source, source) == 0 &&
				strcmp(record->endpoint, id) == 0 &&
				strcmp(record->service, service) == 0)
			return op;
	}
	return NULL;
}

static struct operation *own_drain(const struct petition *p)
{
	return find_own(p->rollout, p->source, p->service, p->endpoint);
}

static bool is_own(const struct petition *p, const struct operation *op)
{
	return op->record.asking_source && strcmp(op->record.asking_source, p->source) == 0;
}

/* Whether the drain is of the incarnation that is asked for. */
static bool same_incarnation(const struct petition *p, const struct operation *op)
{
	return !op->released && (!p->uid || !op->record.uid || strcmp(p->uid, op->record.uid) == 0);
}

/* Whether a drain is under way, or keeps the endpoint out. */
static bool stands(const struct operation *op)
{
	switch (op->record.state) {
	case DRAIN_RUNNING:
	case DRAIN_HELD:
	case DRAIN_DONE:
		return op->record.kind == ROLLOUT_DRAIN;
	case DRAIN_CANCELLING:
	case DRAIN_CANCELLED:
	case DRAIN_FAILED:
		break;
	}
	return false;
}

/* The drain that does what is asked for, or has, whoever began it; or the source's own, however it
 * ended: people have decided about that one. NULL: there is none. */
static struct operation *find_answer(const struct petition *p)
{
	struct operation *latest = rollout_latest(p->rollout, p->service, p->endpoint);
	struct operation *own = own_drain(p);

	if (latest && stands(latest) && same_incarnation(p, latest))
		return latest;
	return own && !own->record.withdrawn && same_incarnation(p, own) ? own : NULL;
}

static struct source *find_source(const struct petition *p)
{
	return directory_find_source(p->rollout->directory, p->source);
}

/* ---- act ---- */

static void set_withdrawn(struct operation *op, bool withdrawn)
{
	if (op->record.withdrawn == withdrawn)
		return;
	op->record.withdrawn = withdrawn;
	operation_touch(op);
	rollout_wake(op);
}

static void not_refused(struct petition *p)
{
	p->refused = 0;
	p->refusals = 0;
	p->try_again_usec = 0;
}

static void refuse(struct petition *p, int code, const char *why, uint64_t now_usec)
{
	if (p->refused == 0) {
		p->refused_wall_usec = clock_wall_usec();
		p->absent_until_usec = now_usec + PETITION_ABSENT_USEC;
		log_notice(PETITION_FIELDS(p),
				"Source %s asks that %s/%s be %s, which is refused: %s; trying again "
				"until it is not",
				p->source, p->service, p->endpoint,
				p->wanted ? "drained" : "brought back", why);
	}
	p->refused = code;
	(void) snprintf(p->refusal, sizeof(p->refusal), "%s", why);
	p->refusals++;
	p->try_again_usec = now_usec + operation_backoff(p->refusals);
	look_again(p, p->try_again_usec);
}

static bool is_too_early(struct petition *p, uint64_t now_usec)
{
	if (now_usec >= p->try_again_usec)
		return false;
	look_again(p, p->try_again_usec);
	return true;
}

static struct drain_request request_of(const struct petition *p, const char *by)
{
	return (struct drain_request){ .service = p->service,
		.endpoint = p->endpoint,
		.uid = p->uid,
		.reason = p->reason,
		.requested_by = by,
		.asking_source = p->source,
		.timeout_usec = p->timeout_usec };
}

static void start_drain(struct petition *p, uint64_t now_usec)
{
	char by[PETITION_TEXT_MAX] = "";
	const struct drain_record *record = NULL;
	struct drain_request request = request_of(p, by);
	struct usher_error err = {};
	int r;

	(void) snprintf(by, sizeof(by), "source %s", p->source);
	r = rollout_drain(p->rollout, &request, &record, &err);
	if (r >= 0 && find_answer(p))
		not_refused(p);
	else if (r >= 0)
		refuse(p, -EAGAIN, "the drain before it is of another incarnation", now_usec);
	else
		refuse(p, r, usher_error_text(&err, r), now_usec);
}

static void ask(struct petition *p, uint64_t now_usec)
{
	struct operation *op = find_answer(p);

	if (!op) {
		if (!is_too_early(p, now_usec))
			start_drain(p, now_usec);
		return;
	}
	if (is_own(p, op))
		set_withdrawn(op, false);
	not_refused(p);
}

/* What was done of it is undone. */
static int undo(struct petition *p, struct operation *own, struct usher_error *reterr)
{
	const struct drain_record *record;
	char by[PETITION_TEXT_MAX] = "";
	struct drain_request request = request_of(p, by);

	switch (own->record.state) {
	case DRAIN_RUNNING:
	case DRAIN_HELD:
		operation_note(own, "source", true, "source %s does not ask for it any more",
				p->source);
		return rollout_cancel(p->rollout, own->record.id, &record, reterr);
	case DRAIN_DONE:
	case DRAIN_FAILED:
		/* people may have brought it back, or drained it again */
		if (rollout_latest(p->rollout, p->service, p->endpoint) != own ||
				!rollout_keeper(own))
			return 0;
		(void) snprintf(by, sizeof(by), "source %s", p->source);
		request.reason = "it does not ask for the drain any more";
		request.timeout_usec = 0;
		return rollout_restore(p->rollout, &request, &record, reterr);
	case DRAIN_CANCELLING:
	case DRAIN_CANCELLED:
		break;
	}
	return 0;
}

/* The registry has another one of that name by now, which nobody has drained. */
static bool is_replaced(const struct operation *op)
{
	struct echo echo;

	operation_look(op, &echo);
	return echo.present && echo.uid && op->record.uid && strcmp(echo.uid, op->record.uid) != 0;
}

static void take_back(struct petition *p, uint64_t now_usec)
{
	struct operation *own = own_drain(p);
	struct usher_error err = {};
	int r;

	if (!own || is_replaced(own) || is_too_early(p, now_usec))
		return;
	set_withdrawn(own, true);
	r = undo(p, own, &err);
	if (r < 0)
		refuse(p, r, usher_error_text(&err, r), now_usec);
	else
		not_refused(p);
}

/* ---- how it goes ---- */

static void describe_end(const struct operation *op, const char *well, struct progress *ret)
{
	const struct drain_record *record = &op->record;

	ret->since_wall_usec = record->finished_wall_usec;
	(void) snprintf(ret->text, sizeof(ret->text), "%s%s%s",
			record->failure ? record->failure : well,
			record->forced ? "; a step was forced, for its time was over" : "",
			record->partial ? "; the registry could not be told of it" : "");
}

static void describe_drain(const struct operation *op, struct progress *ret)
{
	static const enum usher_drain_state states[] = {
		[DRAIN_RUNNING] = USHER_DRAIN_RUNNING,
		[DRAIN_HELD] = USHER_DRAIN_HELD,
		[DRAIN_CANCELLING] = USHER_DRAIN_RETURNING,
		[DRAIN_DONE] = USHER_DRAIN_DONE,
		[DRAIN_CANCELLED] = USHER_DRAIN_CANCELLED,
		[DRAIN_FAILED] = USHER_DRAIN_FAILED,
	};
	const struct step_record *step = drain_record_current(&op->record);

	ret->state = states[op->record.state];
	ret->step = drain_step_to_string(step->step);
	(void) snprintf(ret->drain, sizeof(ret->drain), "%s", op->record.id);
	if (drain_record_finished(&op->record)) {
		describe_end(op,
				op->record.state == DRAIN_DONE ? "nobody uses it any more"
							       : "it is in service again",
				ret);
		return;
	}
	ret->since_wall_usec = step->started_wall_usec ? step->started_wall_usec
						       : op->record.requested_wall_usec;
	operation_say_why_waiting(step, ret->text, sizeof(ret->text));
}

/* What came after a drain that is over: it is being brought back. */
static void describe_restore(const struct operation *restore, struct progress *ret)
{
	describe_drain(restore, ret);
	switch (restore->record.state) {
	case DRAIN_RUNNING:
	case DRAIN_HELD:
	case DRAIN_CANCELLING:
		ret->state = USHER_DRAIN_RETURNING;
		break;
	case DRAIN_DONE:
		ret->state = USHER_DRAIN_CANCELLED;
		describe_end(restore, "it is in service again", ret);
		break;
	case DRAIN_CANCELLED:
	case DRAIN_FAILED:
		ret->state = USHER_DRAIN_FAILED;
		describe_end(restore, "bringing it back was cancelled: it stays out of service",
				ret);
		break;
	}
}

static void describe_refusal(const struct petition *p, struct progress *ret)
{
	ret->state = USHER_DRAIN_REFUSED;
	ret->since_wall_usec = p->refused_wall_usec;
	(void) snprintf(ret->text, sizeof(ret->text), "%s", p->refusal);
}

/* False: there is nothing to tell, or not yet: what is told is on disk, so that no crash takes it
 * back. */
static bool describe(const struct petition *p, struct progress *ret)
{
	const struct operation *latest = rollout_latest(p->rollout, p->service, p->endpoint);
	const struct operation *op = p->wanted ? find_answer(p) : own_drain(p);

	*ret = (struct progress){};
	if (!op && p->refused < 0) {
		describe_refusal(p, ret);
		return true;
	}
	if (!op)
		return false;
	if (latest != op && latest->record.kind == ROLLOUT_RESTORE)
		op = latest;
	if (op->committed < op->version)
		return false;
	if (op->record.kind == ROLLOUT_RESTORE)
		describe_restore(op, ret);
	else
		describe_drain(op, ret);
	if (p->refused < 0)
		(void) snprintf(ret->text, sizeof(ret->text), "cannot be brought back: %s",
				p->refusal);
	return true;
}

static bool same_step(const struct progress *a, const struct progress *b)
{
	const char *step = a->step ? a->step : "", *other = b->step ? b->step : "";

	return a->state == b->state && strcmp(a->drain, b->drain) == 0 && strcmp(step, other) == 0;
}

/* ---- tell ---- */

/* Under which name the source knows the service. */
static struct usher_wanted wanted_of(const struct petition *p)
{
	struct usher_wanted wanted = { .service = p->service, .name = p->service };
	struct context *context = directory_find(p->rollout->directory, p->service);

	for (size_t i = 0; context && i < context_feed_count(context); i++) {
		const struct feed_config *config = context_feed(context, i)->config;

		if (strcmp(config->source, p->source) != 0)
			continue;
		wanted.name = config->name ? config->name : p->service;
		wanted.port = config->port;
	}
	return wanted;
}

static void petition_on_told(void *userdata, int r, const char *reason)
{
	struct petition *p = userdata;
	uint64_t now = clock_boot_usec();

	p->job = NULL;
	petition_wake(p);
	if (r >= 0 || r == -ENOENT || r == -EOPNOTSUPP) {
		p->told = p->telling;
		p->told_serial = p->telling_serial;
		p->told_usec = now;
		p->tell_failures = 0;
		return;
	}
	p->tell_failures++;
	p->tell_again_usec = now + operation_backoff(p->tell_failures);
	if (p->tell_failures == 1 && r != -ECANCELED)
		log_warning(PETITION_FIELDS(p),
				"Cannot tell source %s how the drain of %s/%s goes: %s; trying again",
				p->source, p->service, p->endpoint,
				reason ? reason : strerrordesc_np(-r));
}

static void start_telling(struct petition *p, struct source *source, uint64_t now_usec)
{
	const struct progress *t = &p->telling;
	struct usher_wanted wanted = wanted_of(p);

	p->telling_serial = source_serial(source);
	p->job = source_tell_progress(source, &wanted, p->endpoint,
			&(const struct usher_drain_progress){
					.size = sizeof(struct usher_drain_progress),
					.state = t->state,
					.drain = t->drain[0] ? t->drain : NULL,
					.step = t->step,
					.text = t->text,
					.since_usec = t->since_wall_usec },
			petition_on_told, p);
	if (!p->job)
		look_again(p, now_usec + OPERATION_SLOW_TICK_USEC);
}

/* True: the source knows, or cannot be told. */
static bool tell(struct petition *p, uint64_t now_usec)
{
	struct source *source = find_source(p);
	struct progress now;

	if (!source || !source_can(source, SOURCE_PROGRESS))
		return true;
	if (p->job || !describe(p, &now))
		return false;
	if (p->told_serial == source_serial(source) && same_step(&p->told, &now)) {
		if (strcmp(p->told.text, now.text) == 0)
			return true;
		if (now_usec < p->told_usec + PETITION_WORDS_USEC) {
			look_again(p, p->told_usec + PETITION_WORDS_USEC);
			return false;
		}
	}
	if (now_usec < p->tell_again_usec) {
		look_again(p, p->tell_again_usec);
		return false;
	}
	p->telling = now;
	start_telling(p, source, now_usec);
	return false;
}

/* ---- the queue ---- */

/* Whether a petition that was taken back has nothing more to do. */
static bool is_undone(const struct petition *p)
{
	const struct operation *latest = rollout_latest(p->rollout, p->service, p->endpoint);
	const struct operation *own = own_drain(p);

	if (!own)
		return true;
	return drain_record_finished(&latest->record) && (latest != own || !rollout_keeper(own));
}

/* Told: the source knows all there is to know. */
static bool is_over(struct petition *p, bool told, uint64_t now_usec)
{
	if (p->gone)
		return true;
	if (!p->wanted)
		return is_undone(p) && (told || !own_drain(p));
	if (p->refused != -ENOENT)
		return false;
	look_again(p, p->absent_until_usec);
	return told && now_usec >= p->absent_until_usec;
}

static void petition_remove(struct petition *p)
{
	struct rollout *r = p->rollout;
	size_t i = 0;

	work_queue_remove(r->petition_queue, p->key);
	while (r->petitions[i] != p)
		i++;
	r->petitions[i] = r->petitions[--r->petition_count];
	(void) petition_free(p);
}

static enum work_result petition_on_work(void *userdata, const char *key, uint64_t *ret_again_usec)
{
	struct petition *p = find_petition(userdata, key);
	uint64_t now = clock_boot_usec();
	bool told = false;

	if (!p)
		return WORK_DONE;
	p->again_usec = USEC_FOREVER;
	if (!p->gone) {
		if (p->wanted)
			ask(p, now);
		else
			take_back(p, now);
		told = tell(p, now);
	}
	if (is_over(p, told, now)) {
		petition_remove(p);
		return WORK_DONE;
	}
	if (p->again_usec == USEC_FOREVER)
		return WORK_DONE;
	*ret_again_usec = p->again_usec > now ? p->again_usec - now : 0;
	return WORK_LATER;
}

/* ---- what wakes it ---- */

void petitions_note(struct rollout *r, const struct drain_record *record)
{
	for (size_t i = 0; i < r->petition_count; i++) {
		struct petition *p = r->petitions[i];

		if (strcmp(p->endpoint, record->endpoint) == 0 &&
				strcmp(p->service, record->service) == 0)
			petition_wake(p);
	}
}

void petitions_note_service(struct rollout *r, const char *service)
{
	for (size_t i = 0; i < r->petition_count; i++) {
		struct petition *p = r->petitions[i];

		if (p->refused == 0 || strcmp(p->service, service) != 0)
			continue;
		p->try_again_usec = 0;
		petition_wake(p);
	}
}

void petitions_forget(struct rollout *r, const struct drain_record *record)
{
	for (size_t i = 0; i < r->petition_count; i++) {
		struct petition *p = r->petitions[i];

		if (!record->asking_source || strcmp(p->source, record->asking_source) != 0 ||
				strcmp(p->endpoint, record->endpoint) != 0 ||
				strcmp(p->service, record->service) != 0)
			continue;
		p->gone = p->refused == 0;
		petition_wake(p);
	}
}

/* ---- what is asked ---- */

static int replace_text(char **at, const char *text)
{
	char *copy = NULL;

	if (*at && text && strcmp(*at, text) == 0)
		return 0;
	if (text) {
		copy = strdup(text);
		if (!copy)
			return -ENOMEM;
	}
	free(*at);
	*at = copy;
	return 0;
}

static char *make_key(const char *source, const char *service, const char *id)
{
	char *key;

	return asprintf(&key, "%s\n%s\n%s", source, service, id) < 0 ? NULL : key;
}

static struct petition *petition_new(struct rollout *r, const char *key, const char *source,
		const struct source_drain *drain)
{
	cleanup(petition_freep) struct petition *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->rollout = r;
	p->key = strdup(key);
	p->source = strdup(source);
	p->service = strdup(drain->service);
	p->endpoint = strdup(drain->id);
	return p->key && p->source && p->service && p->endpoint ? take(p) : NULL;
}

static int petition_append(struct rollout *r, struct petition *p)
{
	struct petition **grown;

	grown = reallocarray(r->petitions, r->petition_count + 1, sizeof(struct petition *));
	if (!grown)
		return -ENOMEM;
	r->petitions = grown;
	r->petitions[r->petition_count++] = p;
	return 0;
}

/* > 0: there is nothing to do. */
static int find_or_add(struct rollout *r, const char *source, const struct source_drain *drain,
		struct petition **ret)
{
	autofree char *key = make_key(source, drain->service, drain->id);
	struct petition *p = key ? find_petition(r, key) : NULL;
	int code;

	if (!key)
		return -ENOMEM;
	if (!p && !drain->wanted && !find_own(r, source, drain->service, drain->id))
		return 1;
	if (!p && r->petition_count == ROLLOUT_PETITIONS_MAX)
		return -E2BIG;
	if (!p) {
		p = petition_new(r, key, source, drain);
		code = p ? petition_append(r, p) : -ENOMEM;
		if (code < 0) {
			(void) petition_free(p);
			return code;
		}
	}
	*ret = p;
	return 0;
}

static int take_word(struct rollout *r, const char *source, const struct source_drain *drain)
{
	struct petition *p = NULL;
	int code = find_or_add(r, source, drain, &p);

	if (code != 0)
		return code;
	p->gone = false;
	if (p->wanted != drain->wanted)
		not_refused(p);
	p->wanted = drain->wanted;
	p->timeout_usec = drain->deadline_usec;
	code = replace_text(&p->uid, drain->uid);
	if (code >= 0)
		code = replace_text(&p->reason, drain->reason);
	petition_wake(p);
	return code;
}

void petitions_on_drain(
		void *userdata, const struct source *source, const struct source_drain *drain)
{
	int r = take_word(userdata, source_name(source), drain);

	if (r < 0)
		log_error(FIELDS(.value[LOG_SERVICE] = drain->service,
					  .value[LOG_ENDPOINT] = drain->id,
					  .value[LOG_SOURCE] = source_name(source)),
				"Source %s asks that %s/%s be %s, which is lost: %s",
				source_name(source), drain->service, drain->id,
				drain->wanted ? "drained" : "brought back",
				r == -E2BIG ? "too many are asked for already" : "out of memory");
}

/* ---- life ---- */

int petitions_init(struct rollout *r)
{
	return work_queue_new(r->event, petition_on_work, r, &r->petition_queue);
}

void petitions_done(struct rollout *r)
{
	for (size_t i = 0; i < r->petition_count; i++)
		(void) petition_free(r->petitions[i]);
	free(r->petitions);
	(void) work_queue_free(r->petition_queue);
}

void petitions_start(struct rollout *r)
{
	for (size_t i = 0; i < r->count; i++) {
		const struct drain_record *record = &r->operations[i]->record;

		if (record->kind != ROLLOUT_DRAIN || !record->asking_source)
			continue;
		if (take_word(r, record->asking_source,
				    &(const struct source_drain){ .wanted = !record->withdrawn,
						    .service = record->service,
						    .id = record->endpoint,
						    .uid = record->uid,
						    .reason = record->reason }) < 0)
			log_error(FIELDS(.value[LOG_DRAIN] = record->id),
					"Cannot follow what source %s asked for with %s: out of memory",
					record->asking_source, record->id);
	}
}
