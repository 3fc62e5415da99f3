/* What people ask for: start a drain, bring back, cancel. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <usher/document.h>

#include "clock.h"
#include "drain-guard.h"
#include "log.h"
#include "merge.h"
#include "operation.h"
#include "ownership.h"

DEFINE_CLEANUP(struct operation, operation_free);
DEFINE_CLEANUP(struct usher_endpoints, usher_endpoints_unref);

/* ---- a new record ---- */

static void make_id(struct rollout *r, struct drain_record *record)
{
	time_t seconds = (time_t) (record->requested_wall_usec / USEC_PER_SEC);
	struct tm tm = {};
	char when[32];

	(void) gmtime_r(&seconds, &tm);
	(void) strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm);
	do
		(void) snprintf(record->id, sizeof(record->id), "%c-%s-%04x",
				record->kind == ROLLOUT_DRAIN ? 'd' : 'r', when,
				(unsigned) random_below(&r->random, 0x10000));
	while (rollout_find_operation(r, record->id));
}

/* Unique, not secret. */
static char *make_token(struct rollout *r)
{
	char *text;

	return asprintf(&text, "%016" PRIx64 "%016" PRIx64, random_next(&r->random),
			       random_next(&r->random)) < 0
			? NULL
			: text;
}

/* A copy that can be rendered; NULL stays NULL. */
static int copy_text(const char *text, char **ret)
{
	char cut[DRAIN_TEXT_MAX];

	if (!text)
		return 0;
	(void) snprintf(cut, sizeof(cut), "%s", text);
	drain_text_clean(cut);
	*ret = strdup(cut);
	return *ret ? 0 : -ENOMEM;
}

static int copy_endpoint(const struct usher_endpoints *all, size_t i, struct usher_endpoints **ret)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = usher_endpoints_new();
	int r;

	if (!set)
		return -ENOMEM;
	r = merge_copy_endpoint(set, all, i);
	if (r < 0)
		return r;
	usher_endpoints_seal(set);
	*ret = take(set);
	return 0;
}

static int fill_record(struct rollout *r, const struct drain_request *request,
		const struct service_config *config, uint64_t deadline_usec,
		struct drain_record *record)
{
	int code;

	record->requested_wall_usec = clock_wall_usec();
	record->deadline_wall_usec = record->requested_wall_usec + deadline_usec;
	record->order = request->order_given ? request->order : config->drain.order;
	record->token = make_token(r);
	make_id(r, record);
	if (!record->token)
		return -ENOMEM;
	code = copy_text(request->service, &record->service);
	if (code >= 0)
		code = copy_text(request->endpoint, &record->endpoint);
	if (code >= 0)
		code = copy_text(request->reason, &record->reason);
	if (code >= 0)
		code = copy_text(request->requested_by, &record->requested_by);
	if (code >= 0)
		code = copy_text(request->asking_source, &record->asking_source);
	return code < 0 ? code : steps_plan(record, &config->drain);
}

/* Give it to the list and the queue: from here on the reconciler looks after it. */
static int submit(struct operation *op, uint64_t deadline_usec)
{
	int r;

	op->deadline_usec = clock_boot_usec() + deadline_usec;
	operation_begin_step(op);
	operation_touch(op); /* what was asked for is a version of its own, which the disk has not
			      */
	r = rollout_append(op->rollout, op);
	if (r < 0)
		return r;
	rollout_wake(op);
	log_notice(FIELDS(.value[LOG_SERVICE] = op->record.service,
				   .value[LOG_ENDPOINT] = op->record.endpoint,
				   .value[LOG_DRAIN] = op->record.id),
			"%s %s of %s/%s, asked for by %s%s%s",
			op->record.kind == ROLLOUT_DRAIN ? "Drain" : "Restore", op->record.id,
			op->record.service, op->record.endpoint,
			op->record.requested_by ? op->record.requested_by : "(unknown)",
			op->record.reason ? ": " : "", op->record.reason ? op->record.reason : "");
	return 0;
}

/* What it asks for, or what is configured. */
static int choose_deadline(const struct drain_request *request, uint64_t configured_usec,
		uint64_t *ret_usec, struct usher_error *reterr)
{
	if (request->timeout_usec > ROLLOUT_TIMEOUT_MAX_USEC)
		return usher_error_set(reterr, -EINVAL,
				"timeout: a drain or restore may take %d days at most",
				(int) (ROLLOUT_TIMEOUT_MAX_USEC / (86400 * USEC_PER_SEC)));
	*ret_usec = request->timeout_usec ? request->timeout_usec : configured_usec;
	return 0;
}

/* ---- guards ---- */

static int guard_capacity(struct rollout *r, struct usher_error *reterr)
{
	if (!r->store)
		return usher_error_set(reterr, -EIO,
				"the record cannot be written: usherd has no state folder that "
				"works, see state_dir; nothing was started");
	if (store_trouble(r->store))
		return usher_error_set(reterr, -EIO,
				"the record cannot be written: %s; nothing was started",
				store_trouble(r->store));
	rollout_forget_old(r);
	if (rollout_running(r) >= ROLLOUT_RUNNING_MAX)
		return usher_error_set(reterr, -E2BIG,
				"%d drains and restores are running already: wait for some to end",
				ROLLOUT_RUNNING_MAX);
	return 0;
}

static int guard_left(struct rollout *r, const struct drain_request *request,
		struct context *context, struct usher_error *reterr)
{
	autofree const char **leaving = calloc(r->count + 1, sizeof(*leaving));
	size_t count = 0;

	if (!leaving)
		return -ENOMEM;
	for (size_t i = 0; i < r->count; i++) {
		const struct drain_record *record = &r->operations[i]->record;

		if (!drain_record_finished(record) &&
				strcmp(record->service, request->service) == 0)
			leaving[count++] = record->endpoint;
	}
	return guard_min_ready(context_snapshot(context), request->endpoint, leaving, count,
			context_config(context)->drain.min_ready, reterr);
}

static ssize_t find_endpoint(struct context *context, const char *id, struct usher_error *reterr)
{
	const struct snapshot *snapshot = context_snapshot(context);
	ssize_t i = snapshot ? usher_endpoints_find(snapshot->all, id) : -ENOENT;

	if (i < 0)
		return usher_error_set(reterr, -ENOENT,
				"service %s has no endpoint %s: see `usherctl get endpoints %s`",
				context_service(context), id, context_service(context));
	return i;
}

const struct operation *rollout_keeper(const struct operation *latest)
{
	if (!latest || latest->released)
		return NULL;
	if (latest->record.kind == ROLLOUT_DRAIN)
		return latest->record.state == DRAIN_CANCELLED ? NULL : latest;
	return latest->record.state == DRAIN_DONE ? NULL : latest;
}

/* ---- drain ---- */

/* The endpoint to drain. What an earlier drain has withdrawn, and nobody has brought back, is not
 * there: then that is said. */
static ssize_t find_drainable(struct rollout *r, const struct drain_request *request,
		struct context *context, struct usher_error *reterr)
{
	const struct operation *keeper =
			rollout_keeper(rollout_latest(r, request->service, request->endpoint));
	ssize_t i = find_endpoint(context, request->endpoint, reterr);

	if (i >= 0 || !keeper)
		return i;
	return usher_error_set(reterr, -EPERM,
			"%s is out of service since %s %s %s: bring it back with `usherctl restore "
			"%s/%s`, then drain it",
			request->endpoint, rollout_kind_to_string(keeper->record.kind),
			keeper->record.id,
			keeper->record.state == DRAIN_CANCELLED ? "was cancelled" : "failed",
			request->service, request->endpoint);
}

/* An address may be another's by now. */
static ssize_t check_incarnation(const struct drain_request *request, struct context *context,
		ssize_t i, struct usher_error *reterr)
{
	struct usher_endpoint e;

	if (!request->uid)
		return i;
	usher_endpoints_get(context_snapshot(context)->all, (size_t) i, &e);
	if (e.uid && strcmp(e.uid, request->uid) == 0)
		return i;
	return usher_error_set(reterr, -ENOENT,
			"%s is another incarnation: uid %s, and the drain is asked for of uid %s",
			request->endpoint, e.uid ? e.uid : "(none)", request->uid);
}

/* One that waits for somebody to decide goes on, with a deadline from now. */
static void go_on(struct operation *op, uint64_t deadline_usec)
{
	op->record.state = DRAIN_RUNNING;
	op->record.deadline_wall_usec = clock_wall_usec() + deadline_usec;
	op->deadline_usec = clock_boot_usec() + deadline_usec;
	operation_begin_step(op);
	operation_touch(op);
	rollout_wake(op);
}

/* What there is already for this endpoint. > 0: that is the answer; 0: there is nothing. */
static int find_drain(struct rollout *r, const struct drain_request *request,
		uint64_t deadline_usec, struct operation **ret, struct usher_error *reterr)
{
	struct operation *op = rollout_latest(r, request->service, request->endpoint);

	if (!op)
		return 0;
	switch (op->record.state) {
	case DRAIN_HELD:
		go_on(op, deadline_usec);
		break;
	case DRAIN_RUNNING:
		if (op->record.kind == ROLLOUT_DRAIN)
			break;
		return usher_error_set(reterr, -EPERM,
				"restore %s of it is running: wait for it, or `usherctl cancel %s`",
				op->record.id, op->record.id);
	case DRAIN_CANCELLING:
		return usher_error_set(reterr, -EPERM,
				"drain %s of it is being cancelled: wait until it is back",
				op->record.id);
	case DRAIN_DONE:
		/* drained and not brought back since: asking again changes nothing */
		if (op->record.kind == ROLLOUT_DRAIN && !op->released)
			break;
		return 0;
	case DRAIN_CANCELLED:
	case DRAIN_FAILED:
		return 0;
	}
	*ret = op;
	return 1;
}

static int plan_drain(struct operation *op, const struct drain_request *request,
		struct context *context, size_t i, uint64_t deadline_usec,
		const struct step_budgets *budgets)
{
	const struct service_config *config = context_config(context);
	const struct snapshot *snapshot = context_snapshot(context);
	char sum[USHER_DURATION_TEXT_MAX], deadline[USHER_DURATION_TEXT_MAX];
	struct usher_endpoint e;
	int r;

	r = fill_record(op->rollout, request, config, deadline_usec, &op->record);
	if (r < 0)
		return r;
	usher_endpoints_get(snapshot->all, i, &e);
	r = copy_text(e.uid, &op->record.uid);
	if (r >= 0)
		r = copy_text(context_source_of(context, snapshot, i), &op->record.source);
	if (r >= 0)
		r = copy_endpoint(snapshot->all, i, &op->record.saved);
	if (r >= 0 && budgets->scaled)
		operation_note(op, "plan", true,
				"the budgets of its steps add up to %s, more than the deadline of "
				"%s: each has its part of it",
				usher_duration_format(budgets->sum_usec, sum),
				usher_duration_format(deadline_usec, deadline));
	return r;
}

int rollout_drain(struct rollout *r, const struct drain_request *request,
		const struct drain_record **ret, struct usher_error *reterr)
{
	cleanup(operation_freep) struct operation *op = NULL;
	struct freshness freshness;
	struct step_budgets budgets;
	struct operation *found = NULL;
	struct context *context;
	uint64_t deadline_usec = 0;
	ssize_t i;
	int code;

	code = directory_get(r->directory, request->service, &context, reterr);
	if (code >= 0)
		code = choose_deadline(request, context_config(context)->drain.deadline_usec,
				&deadline_usec, reterr);
	if (code < 0)
		return code;
	code = find_drain(r, request, deadline_usec, &found, reterr);
	if (code > 0)
		*ret = &found->record;
	if (code != 0)
		return code;

	i = find_drainable(r, request, context, reterr);
	if (i >= 0)
		i = check_incarnation(request, context, i, reterr);
	if (i < 0)
		return (int) i;
	context_freshness(context, clock_boot_usec(), &freshness);
	code = guard_live(request->service, &freshness, reterr);
	if (code >= 0)
		code = guard_left(r, request, context, reterr);
	if (code >= 0)
		code = steps_budget_drain(&context_config(context)->drain,
				request->order_given ? request->order
						     : context_config(context)->drain.order,
				deadline_usec, &budgets, reterr);
	if (code == -ERANGE)
		return usher_error_prefix(reterr, -EPERM, "%s", request->service);
	if (code >= 0)
		code = guard_capacity(r, reterr);
	if (code < 0)
		return code;

	op = operation_new(r);
	if (!op)
		return -ENOMEM;
	op->record.kind = ROLLOUT_DRAIN;
	code = plan_drain(op, request, context, (size_t) i, deadline_usec, &budgets);
	if (code >= 0)
		code = submit(op, deadline_usec);
	if (code < 0)
		return code;
	*ret = &take(op)->record;
	return 0;
}

/* ---- restore ---- */

/* What there is already. > 0: that is the answer; 0: there is nothing. */
static int find_restore(const struct operation *latest, struct usher_error *reterr)
{
	if (!latest || drain_record_finished(&latest->record))
		return 0;
	if (latest->record.kind == ROLLOUT_RESTORE)
		return 1;
	return usher_error_set(reterr, -EPERM,
			"drain %s of it is running: wait for it, or `usherctl cancel %s`",
			latest->record.id, latest->record.id);
}

/* Somebody else took it out: the source shows it so. */
static int plan_from_snapshot(struct operation *op, struct context *context,
		const struct operation *latest, struct usher_error *reterr)
{
	const struct snapshot *snapshot = context_snapshot(context);
	struct usher_endpoint e;
	ssize_t i;
	int r;

	i = find_endpoint(context, op->record.endpoint, reterr);
	if (i < 0)
		return (int) i;
	usher_endpoints_get(snapshot->all, (size_t) i, &e);
	if (e.admin_state == USHER_ADMIN_READY && latest &&
			latest->record.kind == ROLLOUT_RESTORE &&
			latest->record.state == DRAIN_DONE)
		return 1;
	if (e.admin_state == USHER_ADMIN_READY)
		return usher_error_set(reterr, -EPERM,
				"%s is in service: there is nothing to bring back",
				op->record.endpoint);
	r = copy_text(context_source_of(context, snapshot, (size_t) i), &op->record.source);
	return r < 0 ? r : copy_endpoint(snapshot->all, (size_t) i, &op->record.saved);
}

static int plan_from_record(struct operation *op, const struct drain_record *keeper)
{
	op->record.saved = usher_endpoints_ref(keeper->saved);
	op->record.removal_revision = keeper->removal_revision;
	return copy_text(keeper->source, &op->record.source);
}

/* > 0: it has been brought back already. */
static int plan_restore(struct operation *op, const struct drain_request *request,
		struct context *context, uint64_t deadline_usec, const struct operation *latest,
		struct usher_error *reterr)
{
	const struct operation *keeper = rollout_keeper(latest);
	int r;

	r = fill_record(op->rollout, request, context_config(context), deadline_usec, &op->record);
	if (r < 0)
		return r;
	if (keeper && keeper->record.saved)
		return plan_from_record(op, &keeper->record);
	return plan_from_snapshot(op, context, latest, reterr);
}

int rollout_restore(struct rollout *r, const struct drain_request *request,
		const struct drain_record **ret, struct usher_error *reterr)
{
	const struct operation *latest = rollout_latest(r, request->service, request->endpoint);
	cleanup(operation_freep) struct operation *op = NULL;
	const struct service_config *config;
	struct step_budgets budgets;
	struct context *context;
	uint64_t deadline_usec = 0;
	int code;

	code = directory_get(r->directory, request->service, &context, reterr);
	if (code >= 0)
		code = find_restore(latest, reterr);
	if (code > 0)
		*ret = &latest->record;
	if (code != 0)
		return code;

	config = context_config(context);
	code = choose_deadline(request, config->restore.deadline_usec, &deadline_usec, reterr);
	if (code < 0)
		return code;
	code = steps_budget_restore(
			&config->restore, &config->drain, deadline_usec, &budgets, reterr);
	if (code < 0)
		return usher_error_prefix(reterr, -EPERM, "%s", request->service);

	op = operation_new(r);
	if (!op)
		return -ENOMEM;
	op->record.kind = ROLLOUT_RESTORE;
	code = plan_restore(op, request, context, deadline_usec, latest, reterr);
	if (code > 0)
		*ret = &latest->record;
	if (code == 0)
		code = guard_capacity(r, reterr);
	if (code == 0)
		code = submit(op, deadline_usec);
	if (code != 0)
		return code;
	*ret = &take(op)->record;
	return 0;
}

/* ---- cancel ---- */

/* A restore that is stopped leaves the endpoint where it was: out of service. */
static void cancel_restore(struct operation *op)
{
	struct step_record *step = drain_record_current(&op->record);
	uint64_t wall = clock_wall_usec();

	(void) step_record_append(step, "cancel", true, wall,
			"cancelled here; the endpoint stays out of service");
	step->state = STEP_SKIPPED;
	step->finished_wall_usec = wall;
	drain_record_cut_steps(&op->record, op->record.current + 1);
	op->record.state = DRAIN_CANCELLED;
	op->record.finished_wall_usec = wall;
	op->serial++;
}

static int cancel_drain(struct operation *op)
{
	const struct service_config *config = rollout_config(op->rollout, op->record.service);
	uint64_t now = clock_wall_usec();
	int r;

	if (op->interrupted)
		(void) step_record_append(drain_record_current(&op->record), "restart", true, now,
				"usherd was interrupted here");
	r = steps_plan_back(&op->record, &config->drain, now);
	if (r < 0)
		return r;
	op->record.state = DRAIN_CANCELLING;
	op->record.deadline_wall_usec = now + config->restore.deadline_usec;
	op->deadline_usec = clock_boot_usec() + config->restore.deadline_usec;
	operation_begin_step(op);
	return 0;
}

int rollout_cancel(struct rollout *r, const char *id, const struct drain_record **ret,
		struct usher_error *reterr)
{
	struct operation *op = rollout_find_operation(r, id);
	int code = 0;

	if (!op)
		return usher_error_set(reterr, -ENOENT,
				"there is no drain or restore %s: see `usherctl get drains`", id);
	*ret = &op->record;
	if (op->record.state == DRAIN_CANCELLING)
		return 1;
	if (drain_record_finished(&op->record))
		return usher_error_set(reterr, -EALREADY, "%s %s is finished: %s",
				rollout_kind_to_string(op->record.kind), id,
				drain_state_to_string(op->record.state));

	if (op->record.kind == ROLLOUT_RESTORE)
		cancel_restore(op);
	else
		code = cancel_drain(op);
	if (code < 0)
		return code;
	operation_touch(op);
	rollout_wake(op);
	return 0;
}
