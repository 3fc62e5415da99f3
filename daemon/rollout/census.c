/* Counting open connections for every operation that wants it, in one dump a tick. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "errand.h"
#include "operation.h"
#include "ownership.h"

#define RESOLVED_USEC (5 * USEC_PER_SEC) /* how long a name's addresses are used */

struct census {
	struct errand errand;
	struct sock_diag_target *targets;
	char (*ids)[DRAIN_ID_MAX];
	char **addresses; /* the targets' */
	size_t count;
	uint64_t taken_usec;
	struct sock_diag_sample *sample;
	int code;
	struct usher_error error;
	bool kept; /* by the rollout, for comparison with the next */
};

static struct census *census_free(struct census *census)
{
	if (!census)
		return NULL;
	for (size_t i = 0; i < census->count; i++)
		free(census->addresses[i]);
	free(census->addresses);
	free(census->targets);
	free(census->ids);
	(void) sock_diag_sample_free(census->sample);
	free(census);
	return NULL;
}
DEFINE_CLEANUP(struct census, census_free);

static void census_run(struct errand *errand)
{
	struct census *census = (struct census *) errand;

	census->taken_usec = clock_boot_usec();
	census->code = sock_diag_count(
			census->targets, census->count, &census->sample, &census->error);
}

static ssize_t census_find(const struct census *census, const char *id)
{
	for (size_t i = 0; census && i < census->count; i++)
		if (strcmp(census->ids[i], id) == 0)
			return (ssize_t) i;
	return -ENOENT;
}

/* A name is not asked for again at every tick. */
static void census_keep_addresses(const struct sock_diag_target *target, struct operation *op)
{
	if (op->where.address_count == 0)
		op->resolved_usec = clock_boot_usec();
	op->where = *target;
	op->where.address = NULL;
}

static void census_tell_count(const struct census *census, size_t i, struct operation *op)
{
	const struct sock_diag_target *target = &census->targets[i];

	op->sample_code = census->code < 0 ? census->code : target->code;
	op->sample_open = target->open;
	if (op->sample_code == 0)
		census_keep_addresses(target, op);
	else
		(void) snprintf(op->sample_fault, sizeof(op->sample_fault), "%.159s",
				census->code < 0 ? usher_error_text(&census->error, census->code)
						 : target->fault);
}

static void census_tell(const struct census *census, size_t i, const struct census *before)
{
	struct rollout *r = census->errand.userdata;
	struct operation *op = rollout_find_operation(r, census->ids[i]);
	ssize_t k = census_find(before, census->ids[i]);

	if (!op)
		return;
	op->sample_wanted = false;
	op->sample_usec = census->taken_usec;
	census_tell_count(census, i, op);
	if (op->sample_code == 0 && k >= 0 && before->sample &&
			sock_diag_count_new(census->sample, i, before->sample, (size_t) k) > 0)
		op->newest_connection_usec = census->taken_usec;
	rollout_wake(op);
}

static void census_finished(void *userdata, struct errand *errand)
{
	struct census *census = (struct census *) errand;
	struct rollout *r = userdata;

	for (size_t i = 0; i < census->count; i++)
		census_tell(census, i, r->counted);
	(void) census_free(r->counted);
	r->counted = census;
	r->counting = NULL;
	census->kept = true;
}

static void census_release(struct errand *errand)
{
	struct census *census = (struct census *) errand;

	if (!census->kept)
		(void) census_free(census);
}

static struct census *census_new(const struct rollout *r)
{
	cleanup(census_freep) struct census *census = calloc(1, sizeof(*census));

	if (!census)
		return NULL;
	census->targets = calloc(r->count, sizeof(*census->targets));
	census->ids = calloc(r->count, sizeof(*census->ids));
	census->addresses = calloc(r->count, sizeof(*census->addresses));
	if (!census->targets || !census->ids || !census->addresses)
		return NULL;
	return take(census);
}

static int census_add(struct census *census, struct operation *op)
{
	struct sock_diag_target *target = &census->targets[census->count];
	struct usher_endpoint e;
	char *address;

	usher_endpoints_get(op->record.saved, 0, &e);
	address = strdup(e.address);
	if (!address)
		return -ENOMEM;
	census->addresses[census->count] = address;
	memcpy(census->ids[census->count], op->record.id, DRAIN_ID_MAX);
	if (clock_boot_usec() - op->resolved_usec > RESOLVED_USEC)
		op->where.address_count = 0;
	*target = op->where;
	target->address = address;
	target->port = e.port;
	census->count++;
	return 0;
}

static void census_start(struct rollout *r)
{
	struct census *census = census_new(r);

	if (!census)
		return;
	for (size_t i = 0; i < r->count && census->count < SOCK_DIAG_TARGETS_MAX; i++)
		if (r->operations[i]->sample_wanted)
			(void) census_add(census, r->operations[i]);

	census->errand = (struct errand){ .run = census_run,
		.finished = census_finished,
		.release = census_release,
		.userdata = r };
	census->code = -ECANCELED;
	if (census->count == 0) {
		(void) census_free(census);
		return;
	}
	r->counting = census;
	if (errand_start(&census->errand, r->worker) < 0)
		r->counting = NULL;
}

void census_want(struct operation *op, uint64_t now_usec, uint64_t tick_usec)
{
	uint64_t next = op->sample_usec + tick_usec;

	if (op->record.saved && (op->sample_usec == 0 || now_usec >= next)) {
		op->sample_wanted = true;
		if (!op->rollout->counting)
			census_start(op->rollout);
		/* woken by its answer; looked at again in case that there was none */
		next = now_usec + OPERATION_SLOW_TICK_USEC;
	}
	operation_look_again(op, next);
}

void census_done(struct rollout *r)
{
	if (r->counting)
		r->counting = errand_forget(&r->counting->errand);
	r->counted = census_free(r->counted);
}
