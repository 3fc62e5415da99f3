/* The list of rollouts, the queue that looks after them, and what wakes them. */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "operation.h"
#include "ownership.h"
#include "petition.h"

/* ---- finding ---- */

struct operation *rollout_find_operation(const struct rollout *r, const char *id)
{
	for (size_t i = 0; i < r->count; i++)
		if (strcmp(r->operations[i]->record.id, id) == 0)
			return r->operations[i];
	return NULL;
}

struct operation *rollout_latest(const struct rollout *r, const char *service, const char *endpoint)
{
	for (size_t i = r->count; i > 0; i--) {
		const struct drain_record *record = &r->operations[i - 1]->record;

		if (strcmp(record->endpoint, endpoint) == 0 &&
				strcmp(record->service, service) == 0)
			return r->operations[i - 1];
	}
	return NULL;
}

const struct service_config *rollout_config(struct rollout *r, const char *service)
{
	struct context *context = directory_find(r->directory, service);
	const struct config *config = directory_config(r->directory);
	const struct service_config *declared;

	if (context)
		return context_config(context);
	declared = config_find_service(config, service);
	return declared ? declared : &config->defaults;
}

const struct drain_record *rollout_find(struct rollout *r, const char *id)
{
	const struct operation *op = rollout_find_operation(r, id);

	return op ? &op->record : NULL;
}

uint64_t rollout_version(struct rollout *r, const char *id, uint64_t *ret_on_disk)
{
	const struct operation *op = rollout_find_operation(r, id);

	*ret_on_disk = op ? op->committed : 0;
	return op ? op->version : 0;
}

size_t rollout_count(const struct rollout *r)
{
	return r->count;
}

const struct drain_record *rollout_at(const struct rollout *r, size_t i)
{
	assert(i < r->count);
	return &r->operations[r->count - 1 - i]->record;
}

size_t rollout_running(const struct rollout *r)
{
	size_t running = 0;

	for (size_t i = 0; i < r->count; i++)
		if (!drain_record_finished(&r->operations[i]->record))
			running++;
	return running;
}

/* ---- the list ---- */

int rollout_append(struct rollout *r, struct operation *op)
{
	struct operation **grown;

	grown = reallocarray(r->operations, r->count + 1, sizeof(struct operation *));
	if (!grown)
		return -ENOMEM;
	r->operations = grown;
	r->operations[r->count++] = op;
	return 0;
}

static void rollout_remove(struct rollout *r, size_t i)
{
	struct operation *op = r->operations[i];

	work_queue_remove(r->queue, op->record.id);
	petitions_forget(r, &op->record);
	if (store_remove_drain(r->store, op->record.id, NULL, NULL) < 0)
		log_warning(FIELDS(.value[LOG_DRAIN] = op->record.id),
				"Cannot remove the old record %s from the disk: out of memory; "
				"it will go after a restart",
				op->record.id);
	memmove(&r->operations[i], &r->operations[i + 1],
			(r->count - i - 1) * sizeof(struct operation *));
	r->count--;
	(void) operation_free(op);
}

/* The newest record of an endpoint that is still kept out of service is what keeps it out. */
static bool is_needed(const struct rollout *r, const struct operation *op)
{
	const struct drain_record *record = &op->record;
	struct echo echo;

	if (op->posting || !drain_record_finished(record))
		return true;
	if (rollout_latest(r, record->service, record->endpoint) != op ||
			!directory_find_override(r->directory, record->service, record->endpoint))
		return false;
	operation_look(op, &echo);
	return echo.present;
}

static void forget(struct rollout *r, size_t i)
{
	const struct operation *op = r->operations[i];
	const struct drain_record *record = &op->record;
	uint64_t revision;

	if (rollout_latest(r, record->service, record->endpoint) == op)
		(void) directory_clear_override(
				r->directory, record->service, record->endpoint, &revision);
	rollout_remove(r, i);
}

void rollout_forget_old(struct rollout *r)
{
	size_t finished = r->count - rollout_running(r);
	uint64_t now = clock_wall_usec();

	for (size_t i = 0; i < r->count;) {
		const struct operation *op = r->operations[i];
		bool old = op->record.finished_wall_usec > 0 &&
				op->record.finished_wall_usec + ROLLOUT_KEPT_USEC < now;

		if ((!old && finished <= ROLLOUT_KEPT_MAX) || is_needed(r, op)) {
			i++;
			continue;
		}
		forget(r, i);
		finished--;
	}
}

/* ---- the queue ---- */

void rollout_wake(struct operation *op)
{
	if (work_queue_add(op->rollout->queue, op->record.id) < 0)
		log_error(FIELDS(.value[LOG_DRAIN] = op->record.id),
				"Cannot look after %s now: out of memory; the next event will",
				op->record.id);
}

static enum work_result rollout_on_work(void *userdata, const char *key, uint64_t *ret_again_usec)
{
	struct rollout *r = userdata;
	struct operation *op = rollout_find_operation(r, key);
	uint64_t now;

	if (!op)
		return WORK_DONE;
	operation_reconcile(op, clock_boot_usec());
	if (op->changed && r->above.changed)
		r->above.changed(r->above_userdata, &op->record);
	if (op->changed)
		petitions_note(r, &op->record);
	op->changed = false;

	if (op->again_usec == USEC_FOREVER)
		return WORK_DONE;
	now = clock_boot_usec();
	*ret_again_usec = op->again_usec > now ? op->again_usec - now : 0;
	return WORK_LATER;
}

/* ---- the directory's events ---- */

/* A finished drain still watches for another incarnation of its endpoint. */
static bool watches(const struct operation *op)
{
	return !drain_record_finished(&op->record) ||
			(op->record.uid && !op->released && !steps_going_back(&op->record));
}

/* A service that was not declared for a while comes back without what was decided about it. */
static bool is_forgotten(const struct operation *op)
{
	const struct drain_record *record = &op->record;
	struct override wanted;

	return !op->released && steps_override(record, true, op->share, &wanted) &&
			!directory_find_override(op->rollout->directory, record->service,
					record->endpoint) &&
			rollout_latest(op->rollout, record->service, record->endpoint) == op;
}

static void wake_service(struct rollout *r, const char *service)
{
	if (r->started_usec == 0)
		return;
	for (size_t i = 0; i < r->count; i++) {
		struct operation *op = r->operations[i];

		if (strcmp(op->record.service, service) == 0 && (watches(op) || is_forgotten(op)))
			rollout_wake(op);
	}
}

static void rollout_on_published(
		void *userdata, struct context *context, const struct snapshot *previous)
{
	(void) previous;
	wake_service(userdata, context_service(context));
	petitions_note_service(userdata, context_service(context));
}

static void rollout_on_renewed(void *userdata, struct context *context)
{
	wake_service(userdata, context_service(context));
}

/* ---- life ---- */

int rollout_new(sd_event *event, struct directory *directory, struct worker *worker,
		struct rollout **ret)
{
	static const struct directory_events events = { .published = rollout_on_published,
		.renewed = rollout_on_renewed,
		.removed = rollout_on_renewed,
		.drain = petitions_on_drain };
	struct rollout *rollout = calloc(1, sizeof(*rollout));
	int r;

	if (!rollout)
		return -ENOMEM;
	random_init(&rollout->random);
	rollout->event = event;
	rollout->directory = directory;
	rollout->worker = worker;
	rollout->hooks = (struct hook_host){ .event = event, .worker = worker };

	r = work_queue_new(event, rollout_on_work, rollout, &rollout->queue);
	if (r >= 0)
		r = petitions_init(rollout);
	if (r >= 0)
		r = directory_subscribe(directory, &events, rollout);
	if (r < 0) {
		(void) rollout_free(rollout);
		return r;
	}
	*ret = rollout;
	return 0;
}

struct rollout *rollout_free(struct rollout *r)
{
	if (!r)
		return NULL;
	census_done(r);
	petitions_done(r);
	for (size_t i = 0; i < r->count; i++)
		(void) operation_free(r->operations[i]);
	free(r->operations);
	(void) work_queue_free(r->queue);
	hook_host_done(&r->hooks);
	free(r);
	return NULL;
}

void rollout_set_store(struct rollout *r, struct store *store)
{
	r->store = store;
}

void rollout_set_above(struct rollout *r, const struct rollout_above *above, void *userdata)
{
	r->above = *above;
	r->above_userdata = userdata;
}

void rollout_set_registered(struct rollout *r, rollout_registered registered, void *userdata)
{
	r->registered = registered;
	r->registered_userdata = userdata;
}

/* ---- after a restart ---- */

static int read_drain(const char *text, struct drain_record *ret, struct usher_error *reterr)
{
	json_error_t fault;
	json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &fault);
	int r;

	if (!json)
		return usher_error_set(reterr, -EBADMSG, "column %d: %s", fault.column, fault.text);
	r = drain_record_from_json(json, ret, reterr);
	json_decref(json);
	return r;
}

void rollout_restore_drain(struct rollout *r, const struct stored_drain *drain)
{
	struct operation *op = operation_new(r);
	struct usher_error err = {};
	int code = -ENOMEM;

	if (op)
		code = read_drain(drain->json, &op->record, &err);
	if (code >= 0)
		code = rollout_append(r, op);
	if (code < 0) {
		log_error(FIELDS(.value[LOG_DRAIN] = drain->id),
				"Cannot read the record of %s: %s; it stays on disk, and its "
				"endpoint is not kept out of service",
				drain->id, usher_error_text(&err, code));
		(void) operation_free(op);
		return;
	}
	operation_resume(op);
}

static int compare_age(const void *a, const void *b)
{
	const struct operation *left = *(struct operation *const *) a;
	const struct operation *right = *(struct operation *const *) b;

	return (left->record.requested_wall_usec > right->record.requested_wall_usec) -
			(left->record.requested_wall_usec < right->record.requested_wall_usec);
}

/* What was drained stays out, before anybody is shown the directory again. */
static void keep_out(struct operation *op)
{
	struct context *context;
	struct usher_error err = {};
	struct override wanted;
	uint64_t revision;
	int r;

	if (!steps_override(&op->record, true, op->share, &wanted))
		return;
	r = directory_get(op->rollout->directory, op->record.service, &context, &err);
	if (r >= 0)
		r = operation_apply_override(op, &revision);
	if (r < 0)
		log_warning(FIELDS(.value[LOG_SERVICE] = op->record.service,
					    .value[LOG_ENDPOINT] = op->record.endpoint,
					    .value[LOG_DRAIN] = op->record.id),
				"Cannot keep %s/%s out of service as %s says: %s",
				op->record.service, op->record.endpoint, op->record.id,
				usher_error_text(&err, r));
}

void rollout_start(struct rollout *r)
{
	r->started_usec = clock_boot_usec();
	if (r->count > 0)
		qsort(r->operations, r->count, sizeof(struct operation *), compare_age);
	for (size_t i = 0; i < r->count; i++) {
		struct operation *op = r->operations[i];

		if (rollout_latest(r, op->record.service, op->record.endpoint) == op)
			keep_out(op);
		if (!drain_record_finished(&op->record))
			log_notice(FIELDS(.value[LOG_SERVICE] = op->record.service,
						   .value[LOG_ENDPOINT] = op->record.endpoint,
						   .value[LOG_DRAIN] = op->record.id),
					"Going on with %s %s of %s/%s at %s",
					rollout_kind_to_string(op->record.kind), op->record.id,
					op->record.service, op->record.endpoint,
					drain_step_to_string(
							drain_record_current(&op->record)->step));
		rollout_wake(op);
	}
	petitions_start(r);
	rollout_forget_old(r);
}

void rollout_note_stale_pick(
		struct rollout *r, const char *service, const char *endpoint, uint64_t wall_usec)
{
	struct operation *op = rollout_latest(r, service, endpoint);

	if (!op || op->record.kind != ROLLOUT_DRAIN || op->record.removal_revision == 0 ||
			drain_record_finished(&op->record))
		return;
	op->record.last_stale_pick_wall_usec = wall_usec;
	operation_touch(op);
	rollout_wake(op);
}
