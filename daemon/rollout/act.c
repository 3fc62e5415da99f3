/* What a step does: to the directory, to the registry, to the instance. Each is harmless to repeat.
 */

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "crash-point.h"
#include "operation.h"
#include "ownership.h"

/* ---- the directory ---- */

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool override_equal(const struct override *a, const struct override *b)
{
	return a->admin_state == b->admin_state && a->withdrawn == b->withdrawn &&
			a->weight_share >= b->weight_share && a->weight_share <= b->weight_share &&
			same_text(a->uid, b->uid);
}

/* After a restart, the step that the disk shows as active may have acted before. */
static bool on_disk(const struct operation *op)
{
	return operation_may_act(op) ||
			(op->resumed && op->entry_version == 0 &&
					drain_record_current(&op->record)->state == STEP_ACTIVE);
}

int operation_apply_override(struct operation *op, uint64_t *ret_revision)
{
	struct directory *d = op->rollout->directory;
	const struct drain_record *record = &op->record;
	const struct override *held = directory_find_override(d, record->service, record->endpoint);
	struct override wanted;

	*ret_revision = record->removal_revision;
	if (rollout_latest(op->rollout, record->service, record->endpoint) != op)
		return 0;
	if (op->released || !steps_override(record, on_disk(op), op->share, &wanted))
		return held ? directory_clear_override(
					      d, record->service, record->endpoint, ret_revision)
			    : 0;
	if (held && override_equal(held, &wanted) &&
			(!wanted.withdrawn || record->removal_revision > 0))
		return 0;
	return directory_set_override(d, record->service, &wanted, ret_revision);
}

/* ---- the registry ---- */

const struct feed *operation_feed(const struct operation *op)
{
	struct context *context = directory_find(op->rollout->directory, op->record.service);
	size_t count = context && op->record.source ? context_feed_count(context) : 0;

	for (size_t i = 0; i < count; i++) {
		const struct feed *feed = context_feed(context, i);

		if (strcmp(feed->config->source, op->record.source) == 0)
			return feed;
	}
	return NULL;
}

void operation_look(const struct operation *op, struct echo *ret)
{
	evidence_look(operation_feed(op), op->record.endpoint, ret);
}

/* What the registry should be told. */
struct wish {
	bool any;
	enum source_registration what;
	enum usher_admin_state state;
	const char *words; /* "set it to draining" */
	const char *why_not;
};

static const struct wish wish_draining = { true, SOURCE_SET_STATE, USHER_ADMIN_DRAINING,
	"show it as draining", NULL };
static const struct wish wish_ready = { true, SOURCE_SET_STATE, USHER_ADMIN_READY,
	"show it as ready", NULL };
static const struct wish wish_removed = { true, SOURCE_REMOVE, USHER_ADMIN_DRAINING,
	"deregister it", NULL };
static const struct wish wish_added = { true, SOURCE_ADD, USHER_ADMIN_READY, "register it", NULL };

static bool feed_can(const struct feed *feed, enum source_registration what)
{
	return !feed || !feed->source || source_can(feed->source, what);
}

/* Whether the registry may have been told in that step. */
static bool was_asked(const struct drain_record *record, enum drain_step step)
{
	const struct step_record *s = drain_record_find(record, step);

	return s &&
			(s->attempts > 1 || step_record_find(s, "registry") ||
					step_record_find(s, "restart"));
}

static struct wish wish_deregister(const struct feed *feed)
{
	if (feed_can(feed, SOURCE_REMOVE))
		return wish_removed;
	if (feed_can(feed, SOURCE_SET_STATE))
		return wish_draining;
	return (struct wish){ .why_not = "cannot be told to deregister" };
}

/* A restore goes by what the registry shows, for the instance may have registered itself; a drain
 * that is cancelled undoes what it has asked for, whether or not it shows yet. */
static struct wish wish_register(const struct operation *op, const struct feed *feed)
{
	bool add = op->add_instead;
	struct echo echo;

	evidence_look(feed, op->record.endpoint, &echo);
	if (op->record.kind == ROLLOUT_RESTORE) {
		if (echo.answered && echo.ready)
			return (struct wish){ .why_not = "shows it ready already" };
		add = add || !echo.present;
	} else if (was_asked(&op->record, STEP_DEREGISTER)) {
		add = add || feed_can(feed, SOURCE_REMOVE);
	} else if (op->record.order != DRAIN_REFUSE_FIRST ||
			op->record.steps[1].step != STEP_READINESS) {
		return (struct wish){ .why_not = "was not told anything" };
	}

	if (add && feed_can(feed, SOURCE_ADD))
		return wish_added;
	if (!add && feed_can(feed, SOURCE_SET_STATE))
		return wish_ready;
	return (struct wish){ .why_not = "cannot be told: it must show the instance by itself" };
}

static struct wish find_wish(const struct operation *op, const struct feed *feed)
{
	const struct drain_record *record = &op->record;

	switch (drain_record_current(record)->step) {
	case STEP_READINESS:
		if (steps_going_back(record) || record->order != DRAIN_REFUSE_FIRST)
			return (struct wish){};
		if (feed_can(feed, SOURCE_SET_STATE))
			return wish_draining;
		return (struct wish){ .why_not = "cannot show an endpoint as draining" };
	case STEP_DEREGISTER:
		return wish_deregister(feed);
	case STEP_REGISTER:
		return wish_register(op, feed);
	case STEP_REQUESTED:
	case STEP_PROPAGATION:
	case STEP_IN_FLIGHT:
	case STEP_CLOSE:
	case STEP_OPEN:
	case STEP_PROBE:
	case STEP_OBSERVED:
	case STEP_RAMP:
	case STEP_DONE:
	case STEP_MAX:
		break;
	}
	return (struct wish){};
}

static const char *source_words(const struct operation *op)
{
	return op->record.source ? op->record.source : "(none)";
}

/* A drain is partial when the registry could not be told that the endpoint goes. */
static void registry_cannot(struct operation *op, const char *why)
{
	enum drain_step step = drain_record_current(&op->record)->step;

	operation_note(op, "registry", false, "source %s %s", source_words(op), why);
	if (step == STEP_DEREGISTER)
		op->record.partial = true;
	op->registry.state = ACT_DONE;
}

static void act_failed(struct act *act)
{
	act->state = ACT_FAILED;
	act->failures++;
	act->again_usec = clock_boot_usec() + operation_backoff(act->failures);
}

static bool registry_is_fine(const struct operation *op, int r)
{
	switch (drain_record_current(&op->record)->step) {
	case STEP_READINESS:
	case STEP_DEREGISTER:
		return r >= 0 || r == -ENOENT;
	default:
		return r >= 0 || r == -EEXIST;
	}
}

/* The answer to a step that is over already: its evidence is still worth having. */
static void registry_answered_late(struct operation *op, int r)
{
	struct step_record *step = drain_record_find(&op->record, STEP_DEREGISTER);

	if (r != 0 || !step || steps_going_back(&op->record))
		return;
	(void) step_record_note(step, "registry", true, clock_wall_usec(),
			"source %s has done it, late", source_words(op));
	op->record.partial = false;
	operation_touch(op);
}

static void registry_answered(void *userdata, int r, const char *reason)
{
	struct operation *op = userdata;
	const char *why = reason ? reason : strerrordesc_np(-r);

	op->job = NULL;
	rollout_wake(op);
	if (op->job_serial != op->serial) {
		registry_answered_late(op, r);
		return;
	}

	if (registry_is_fine(op, r)) {
		operation_note(op, "registry", true, "source %s has done it%s", source_words(op),
				r == -ENOENT ? ": it was not registered" : "");
		op->registry.state = ACT_DONE;
	} else if (r == -EROFS || r == -EOPNOTSUPP || r == -ENOSYS) {
		registry_cannot(op, why);
	} else if (r == -ENOENT && !op->add_instead) {
		op->add_instead = true;
		op->registry.state = ACT_FAILED;
		op->registry.again_usec = 0;
	} else {
		act_failed(&op->registry);
		operation_note(op, "registry", false, "source %s: %s; tried %u time%s",
				source_words(op), why, op->registry.failures,
				op->registry.failures == 1 ? "" : "s");
	}
}

/* Bring it back as it was, but in service. */
static void endpoint_for_add(const struct usher_endpoints *saved, struct usher_label *labels,
		struct usher_endpoint *ret)
{
	usher_endpoints_get(saved, 0, ret);
	for (size_t i = 0; i < ret->metadata_count; i++)
		labels[i] = usher_endpoints_metadata_at(saved, 0, i);
	ret->metadata = labels;
	ret->admin_state = USHER_ADMIN_READY;
	ret->ready = true;
	ret->serving = true;
	ret->terminating = false;
}

static void registry_ask(struct operation *op, const struct feed *feed, const struct wish *wish)
{
	struct usher_label labels[USHER_METADATA_MAX];
	struct usher_endpoint endpoint = USHER_ENDPOINT_INIT;
	struct usher_wanted wanted = { .service = op->record.service,
		.name = feed->config->name ? feed->config->name : op->record.service,
		.port = feed->config->port };

	operation_refresh_saved(op);
	if (op->record.saved)
		endpoint_for_add(op->record.saved, labels, &endpoint);
	if (op->registry.failures == 0)
		op->asked_usec = clock_boot_usec();
	op->job_serial = op->serial;
	op->registry.state = ACT_RUNNING;
	operation_note(op, "registry", false, "waiting for source %s to %s", source_words(op),
			wish->words);
	op->job = source_register(feed->source, wish->what, &wanted,
			wish->what == SOURCE_ADD ? &endpoint : NULL, op->record.endpoint,
			wish->state, registry_answered, op);
	if (!op->job)
		act_failed(&op->registry);
}

static void registry_act(struct operation *op)
{
	const struct feed *feed = operation_feed(op);
	struct wish wish = find_wish(op, feed);

	if (!wish.any) {
		if (wish.why_not)
			registry_cannot(op, wish.why_not);
		op->registry.state = ACT_DONE;
		return;
	}
	if (op->job)
		return; /* of an earlier step; its answer wakes us */
	if (!feed || !feed->source) {
		act_failed(&op->registry);
		operation_note(op, "registry", false, "source %s does not run", source_words(op));
		return;
	}
	if (wish.what == SOURCE_ADD && feed->state != SOURCE_LIVE) {
		/* Added to what has gone, it would be all that there is. */
		act_failed(&op->registry);
		operation_note(op, "registry", false,
				"source %s is not added to while it cannot be read: %s",
				source_words(op),
				feed->error ? feed->error : "it has not answered yet");
		return;
	}
	registry_ask(op, feed, &wish);
}

/* ---- the instance ---- */

const struct hook_config *operation_hook(const struct operation *op, const char **ret_name)
{
	const struct service_config *config = rollout_config(op->rollout, op->record.service);
	const struct hook_config *hook = NULL;

	switch (drain_record_current(&op->record)->step) {
	case STEP_READINESS:
		hook = &config->drain.readiness;
		*ret_name = "readiness";
		break;
	case STEP_CLOSE:
		hook = &config->drain.close;
		*ret_name = "close";
		break;
	case STEP_OPEN:
		hook = &config->drain.open;
		*ret_name = "open";
		break;
	case STEP_REQUESTED:
	case STEP_DEREGISTER:
	case STEP_PROPAGATION:
	case STEP_IN_FLIGHT:
	case STEP_PROBE:
	case STEP_REGISTER:
	case STEP_OBSERVED:
	case STEP_RAMP:
	case STEP_DONE:
	case STEP_MAX:
		break;
	}
	return hook && hook->kind != HOOK_NONE ? hook : NULL;
}

static void hook_failed(struct operation *op, const char *text)
{
	act_failed(&op->hook);
	if (op->hook.failures >= OPERATION_HOOK_ATTEMPTS)
		op->hook.again_usec = USEC_FOREVER;
	(void) step_record_append(drain_record_current(&op->record), "hook", false,
			clock_wall_usec(), "failed: %s", text);
	operation_touch(op);
}

static void hook_on_done(void *userdata, int r, const char *text)
{
	struct operation *op = userdata;

	op->hook_over = true;
	rollout_wake(op);
	if (op->hook_serial != op->serial)
		return; /* cancelled meanwhile */
	crash_point(drain_record_current(&op->record)->step, "acted");

	if (r < 0) {
		hook_failed(op, text);
		return;
	}
	(void) step_record_append(drain_record_current(&op->record), "hook", true,
			clock_wall_usec(), "%s", text);
	operation_touch(op);
	op->hook.state = ACT_DONE;
}

static void hook_run(struct operation *op, const struct hook_config *config, const char *name)
{
	struct step_record *step = drain_record_current(&op->record);
	struct usher_error err = {};
	int r;

	operation_refresh_saved(op);
	op->hook_over = false;
	op->hook_serial = op->serial;
	op->hook.state = ACT_RUNNING;
	r = hook_start(&op->rollout->hooks,
			&(const struct hook_call){ .config = config,
					.step = name,
					.ready = steps_going_back(&op->record),
					.drain = op->record.id,
					.service = op->record.service,
					.token = op->record.token,
					.attempt = step->attempts,
					.endpoint = op->record.saved },
			hook_on_done, op, &op->running_hook, &err);
	if (r < 0)
		hook_failed(op, usher_error_text(&err, r));
}

static void hook_act(struct operation *op)
{
	const struct step_record *step = drain_record_current(&op->record);
	const struct evidence *last = step_record_find(step, "hook");
	const char *name = NULL;
	const struct hook_config *config = operation_hook(op, &name);

	/* one that has finished and was recorded never runs twice */
	if (!config || (last && last->proven)) {
		op->hook.state = ACT_DONE;
		return;
	}
	if (op->running_hook)
		return; /* of an earlier step; its end wakes us */
	hook_run(op, config, name);
}

/* ---- the step ---- */

void operation_reset_acts(struct operation *op)
{
	op->registry = (struct act){};
	op->hook = (struct act){};
	op->add_instead = false;
}

bool operation_act(struct operation *op)
{
	if (op->running_hook && op->hook_over)
		op->running_hook = hook_free(op->running_hook);
	if (op->registry.state == ACT_IDLE)
		registry_act(op);
	if (op->hook.state == ACT_IDLE)
		hook_act(op);

	if (op->registry.state == ACT_FAILED)
		operation_look_again(op, op->registry.again_usec);
	if (op->hook.state == ACT_FAILED)
		operation_look_again(op, op->hook.again_usec);
	return op->registry.state == ACT_DONE && op->hook.state == ACT_DONE;
}
