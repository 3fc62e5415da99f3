/* Whether a step's evidence is in. What is seen is gathered here; what it is worth, evidence.c
 * says. */

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <usher/document.h>

#include "clock.h"
#include "operation.h"
#include "ownership.h"

static void note_proof(struct operation *op, const char *kind, const struct proof *proof)
{
	operation_note(op, kind, proof->kind == PROOF_PROVEN, "%s", proof->text);
}

static const struct drain_config *drain_config(const struct operation *op)
{
	return &rollout_config(op->rollout, op->record.service)->drain;
}

static const struct restore_config *restore_config(const struct operation *op)
{
	return &rollout_config(op->rollout, op->record.service)->restore;
}

/* ---- acts whose answer is their evidence ---- */

static enum step_state until_acted(const struct operation *op)
{
	const struct step_record *step = drain_record_current(&op->record);
	const struct evidence *registry = step_record_find(step, "registry");
	const struct evidence *hook = step_record_find(step, "hook");

	if ((registry && registry->proven) || (hook && hook->proven))
		return STEP_PROVEN;
	return STEP_SKIPPED;
}

static enum step_state until_readiness(struct operation *op)
{
	const char *name;

	if (!operation_hook(op, &name))
		operation_note(op, "plan", false, "no readiness hook is configured");
	return until_acted(op);
}

static enum step_state until_deregistered(struct operation *op)
{
	operation_note(op, "directory", true, "no pick returns it from revision %ju on",
			(uintmax_t) op->record.removal_revision);
	return op->record.partial ? STEP_ASSUMED : STEP_PROVEN;
}

static enum step_state until_closed(struct operation *op)
{
	const char *name;

	if (!operation_hook(op, &name))
		operation_note(op, "plan", false, "no close hook is configured");
	return until_acted(op);
}

/* ---- propagation ---- */

static bool registry_was_told(const struct operation *op)
{
	const struct step_record *step = drain_record_find(&op->record, STEP_DEREGISTER);
	const struct evidence *told = step ? step_record_find(step, "registry") : NULL;

	return told && told->proven;
}

static enum proof_kind prove_echo(struct operation *op, uint64_t now_usec)
{
	struct echo echo;
	struct proof proof;

	operation_look(op, &echo);
	evidence_removed(&echo, registry_was_told(op), op->asked_usec,
			now_usec - op->deregistered_usec, drain_config(op)->registry_usec, &proof);
	if (proof.kind == PROOF_PROVEN && op->echo_usec == 0)
		op->echo_usec = now_usec;
	note_proof(op, "registry_echo", &proof);
	return proof.kind;
}

/* After a restart, consumers need a moment to come back. */
static enum proof_kind prove_consumers(struct operation *op, uint64_t now_usec)
{
	const struct rollout *r = op->rollout;
	struct consumer_evidence consumers = {};
	struct proof proof;
	uint64_t back_usec = r->started_usec + OPERATION_RETURN_USEC;

	if (op->resumed && now_usec < back_usec) {
		operation_note(op, "consumers", false,
				"usherd has restarted: its consumers have %s to come back",
				usher_duration_format(OPERATION_RETURN_USEC,
						(char[USHER_DURATION_TEXT_MAX]){}));
		operation_look_again(op, back_usec);
		return PROOF_MISSING;
	}
	if (r->above.consumers)
		r->above.consumers(r->above_userdata, op->record.service,
				op->record.removal_revision, &consumers);
	evidence_consumers(&consumers, op->record.removal_revision, &proof);
	note_proof(op, "consumers", &proof);
	return proof.kind;
}

/* The caches outside may have read the registry until it showed the removal. */
static enum proof_kind prove_external(struct operation *op, uint64_t now_usec)
{
	uint64_t since = op->deregistered_usec, until;
	struct proof proof;

	if (op->echo_usec > since)
		since = op->echo_usec;
	else if (op->echo_usec == 0)
		since += drain_config(op)->registry_usec;
	evidence_external(drain_config(op), since, now_usec, &proof, &until);
	if (proof.kind == PROOF_MISSING)
		operation_look_again(op, until);
	note_proof(op, "external_caches", &proof);
	return proof.kind;
}

/* For people: connections by somebody who has not heard. */
static void note_newcomers(struct operation *op, uint64_t now_usec)
{
	char text[USHER_DURATION_TEXT_MAX];
	uint64_t after;

	if (!drain_config(op)->from_tcp)
		return;
	census_want(op, now_usec, OPERATION_SLOW_TICK_USEC);
	if (op->newest_connection_usec <= op->deregistered_usec)
		return;
	after = op->newest_connection_usec - op->deregistered_usec;
	operation_note(op, "new_connections", true,
			"the last new connection came %s after the "
			"removal",
			usher_duration_format(after - after % (100 * USEC_PER_MSEC), text));
}

static enum step_state until_propagated(struct operation *op, uint64_t now_usec)
{
	enum proof_kind echo = prove_echo(op, now_usec);
	enum proof_kind consumers = prove_consumers(op, now_usec);
	enum proof_kind external = prove_external(op, now_usec);

	note_newcomers(op, now_usec);
	if (consumers == PROOF_MISSING)
		operation_look_again(op, now_usec + OPERATION_TICK_USEC);
	else if (echo == PROOF_MISSING)
		operation_look_again(op, now_usec + OPERATION_SLOW_TICK_USEC);
	return evidence_state(echo, consumers, external);
}

/* ---- in flight ---- */

/* Counts change many times a second; people need not see each. */
static bool may_note_count(const struct operation *op, uint64_t now_usec)
{
	return op->noted_usec == 0 || now_usec - op->noted_usec >= OPERATION_SLOW_TICK_USEC;
}

static uint64_t count_reports(struct operation *op, bool note, unsigned *ret_reporters)
{
	const struct rollout *r = op->rollout;
	struct in_flight_evidence reports = {};

	if (r->above.in_flight)
		r->above.in_flight(r->above_userdata, op->record.service, op->record.endpoint,
				&reports);
	*ret_reporters = reports.reporters;
	if (reports.reporters == 0)
		operation_note(op, "reports", false, "no consumer reports its requests");
	else if (note || reports.requests == 0)
		operation_note(op, "reports", reports.requests == 0, "%ju requests of %u consumers",
				(uintmax_t) reports.requests, reports.reporters);
	return reports.requests;
}

static void note_connections(struct operation *op, bool note)
{
	struct usher_endpoint e;

	usher_endpoints_get(op->record.saved, 0, &e);
	if (op->sample_code < 0)
		operation_note(op, "tcp", false, "%s", op->sample_fault);
	else if (note || op->sample_open == 0)
		operation_note(op, "tcp", op->sample_open == 0,
				"%zu open connections to %s port %u", op->sample_open, e.address,
				(unsigned) e.port);
}

/* Take in what is known. Returns when it was true; 0: nothing is known. */
static uint64_t take_sample(struct operation *op, uint64_t now_usec, bool *ret_asked_nobody)
{
	const struct drain_config *config = drain_config(op);
	bool note = may_note_count(op, now_usec);
	uint64_t open = 0;
	unsigned reporters = 0;

	if (note)
		op->noted_usec = now_usec;
	if (config->from_consumers)
		open += count_reports(op, note, &reporters);
	*ret_asked_nobody = !config->from_tcp && reporters == 0;
	if (!config->from_tcp) {
		quiet_take(&op->quiet, open, now_usec);
		operation_look_again(op, now_usec + OPERATION_TICK_USEC);
		return now_usec;
	}

	census_want(op, now_usec, OPERATION_TICK_USEC);
	if (op->sample_usec <= op->step_started_usec)
		return 0;
	note_connections(op, note);
	if (op->sample_code < 0)
		op->quiet.quiet = false; /* not knowing is not zero */
	else
		quiet_take(&op->quiet, open + op->sample_open, op->sample_usec);
	return op->sample_usec;
}

static enum step_state until_quiet(struct operation *op, uint64_t now_usec)
{
	const struct drain_config *config = drain_config(op);
	char text[USHER_DURATION_TEXT_MAX];
	bool asked_nobody = false;
	uint64_t sample_usec;

	if (!config->from_tcp && !config->from_consumers) {
		operation_note(op, "plan", false, "drain.in_flight.from names nothing to count");
		return STEP_SKIPPED;
	}
	sample_usec = take_sample(op, now_usec, &asked_nobody);
	if (sample_usec == 0 || !quiet_long_enough(&op->quiet, config->quiet_usec, sample_usec))
		return STEP_ACTIVE;

	operation_note(op, "quiet", true, "nothing in flight for %s",
			usher_duration_format(config->quiet_usec, text));
	return asked_nobody ? STEP_ASSUMED : STEP_PROVEN;
}

int operation_recheck(struct operation *op, uint64_t now_usec)
{
	const struct step_record *step = drain_record_find(&op->record, STEP_IN_FLIGHT);
	const struct rollout *r = op->rollout;
	struct in_flight_evidence reports = {};

	if (!step || step->state != STEP_PROVEN)
		return 1;
	if (drain_config(op)->from_consumers && r->above.in_flight)
		r->above.in_flight(r->above_userdata, op->record.service, op->record.endpoint,
				&reports);
	if (reports.requests > 0)
		return -EBUSY;
	if (!drain_config(op)->from_tcp)
		return 1;

	if (op->sample_usec <= op->began_usec) {
		census_want(op, now_usec, 0);
		return 0;
	}
	return op->sample_code >= 0 && op->sample_open == 0 ? 1 : -EBUSY;
}

/* ---- the way back ---- */

static void probe_on_done(void *userdata, const struct probe_outcome *outcome)
{
	struct operation *op = userdata;
	unsigned rise = restore_config(op)->probe.rise;

	op->probe = NULL;
	op->probes_passed = outcome->result == PROBE_UP ? op->probes_passed + 1 : 0;
	op->probe_next_usec = clock_boot_usec() + restore_config(op)->probe.interval_usec;
	if (drain_record_current(&op->record)->step == STEP_PROBE)
		operation_note(op, "probe", op->probes_passed >= rise, "%u of %u in a row: %s",
				op->probes_passed < rise ? op->probes_passed : rise, rise,
				outcome->text);
	rollout_wake(op);
}

static void probe_again(struct operation *op)
{
	const struct probe_config *config = &restore_config(op)->probe;
	struct usher_endpoint e;
	int r;

	operation_refresh_saved(op);
	usher_endpoints_get(op->record.saved, 0, &e);
	r = probe_start(op->rollout->worker,
			&(const struct probe_target){ .address = e.address,
					.port = config->port ? config->port : e.port,
					.secure = e.secure,
					.http_path = config->http_path,
					.timeout_usec = config->timeout_usec },
			probe_on_done, op, &op->probe);
	if (r < 0) {
		op->probe_next_usec = clock_boot_usec() + config->interval_usec;
		operation_look_again(op, op->probe_next_usec);
	}
}

static enum step_state until_probed(struct operation *op, uint64_t now_usec)
{
	const struct probe_config *config = &restore_config(op)->probe;

	if (!config->enabled || !op->record.saved) {
		operation_note(op, "plan", false, "no probe is configured");
		return STEP_SKIPPED;
	}
	if (op->probes_passed > 0 && op->probes_passed >= config->rise)
		return STEP_PROVEN;
	if (op->probe)
		return STEP_ACTIVE;
	if (now_usec >= op->probe_next_usec)
		probe_again(op);
	else
		operation_look_again(op, op->probe_next_usec);
	return STEP_ACTIVE;
}

/* What was asked for in the step before, or, where nothing was, what has always been so. */
static enum step_state until_observed(struct operation *op, uint64_t now_usec)
{
	struct echo echo;
	struct proof proof;

	operation_look(op, &echo);
	evidence_ready(&echo, op->asked_usec, &proof);
	note_proof(op, "registry_echo", &proof);
	if (proof.kind == PROOF_PROVEN)
		return STEP_PROVEN;
	operation_look_again(op, now_usec + OPERATION_SLOW_TICK_USEC);
	return STEP_ACTIVE;
}

/* What was not closed is warm. */
static uint64_t ramp_of(const struct operation *op)
{
	bool cold = op->record.kind == ROLLOUT_RESTORE || steps_closed(&op->record);

	return cold ? restore_config(op)->ramp_usec : 0;
}

void operation_take_share(struct operation *op, uint64_t now_usec)
{
	uint64_t next_usec;

	if (drain_record_current(&op->record)->step != STEP_RAMP)
		return;
	op->share = steps_ramp_share(now_usec - op->step_started_usec, ramp_of(op), &next_usec);
	operation_look_again(op, op->step_started_usec + next_usec);
}

static enum step_state until_ramped(struct operation *op, uint64_t now_usec)
{
	if (ramp_of(op) == 0) {
		operation_note(op, "plan", false, "full weight at once");
		return STEP_SKIPPED;
	}
	operation_note(op, "ramp", true, "%.0f%% of its weight", 100 * op->share);
	return now_usec - op->step_started_usec >= ramp_of(op) ? STEP_PROVEN : STEP_ACTIVE;
}

enum step_state operation_until(struct operation *op, uint64_t now_usec)
{
	switch (drain_record_current(&op->record)->step) {
	case STEP_REQUESTED:
	case STEP_DONE:
		return STEP_PROVEN;
	case STEP_READINESS:
		return until_readiness(op);
	case STEP_DEREGISTER:
		return until_deregistered(op);
	case STEP_PROPAGATION:
		return until_propagated(op, now_usec);
	case STEP_IN_FLIGHT:
		return until_quiet(op, now_usec);
	case STEP_CLOSE:
		return until_closed(op);
	case STEP_OPEN:
	case STEP_REGISTER:
		return until_acted(op);
	case STEP_PROBE:
		return until_probed(op, now_usec);
	case STEP_OBSERVED:
		return until_observed(op, now_usec);
	case STEP_RAMP:
		return until_ramped(op, now_usec);
	case STEP_MAX:
		break;
	}
	return STEP_PROVEN;
}
