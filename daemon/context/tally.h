#pragma once

/* What a context remembers of each endpoint from one snapshot to the next, and picks go by: the
 * selector's slots, and how many requests are open, as far as is known.
 *
 * Open are those that consumers say they have in flight, and the picks that no report has answered
 * for yet; those are forgotten little by little, for nobody may ever report. Pure: time is an
 * argument. Thread: the core's. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* After this long a pick that nobody answered for counts 1/e. */
#define TALLY_DECAY_USEC UINT64_C(10000000)
/* Counts are brought up to date at most this often; less often while there are no picks. */
#define TALLY_STEP_USEC UINT64_C(250000)

#define TALLY_NEW UINT32_MAX

struct tally {
	size_t count;
	size_t slot_size;
	unsigned char *slots; /* slot_size bytes of each; NULL: the selector has none */
	uint32_t *active;     /* in flight, and picks, rounded */
	uint32_t *in_flight;
	float *picks;
	uint64_t updated_usec;
};

/* Room for `count` endpoints. Errors: ENOMEM. */
int tally_init(struct tally *t, size_t count, size_t slot_size, uint64_t now_usec);
void tally_done(struct tally *t);
/* Take over what is known: origins[i] is the index there of what is i here, or TALLY_NEW. Slots are
 * taken over when they are of one size and with_slots says that they mean the same. */
void tally_carry(struct tally *t, const struct tally *from, const uint32_t *origins,
		bool with_slots);

/* A copy of all of it. Errors: ENOMEM. */
int tally_copy(struct tally *t, const struct tally *from);

void tally_picked(struct tally *t, size_t i);
/* So many calls have been reported, and are answered for. */
void tally_reported(struct tally *t, size_t i, uint32_t calls);
void tally_set_in_flight(struct tally *t, size_t i, uint64_t count);
/* Let time pass. */
void tally_update(struct tally *t, uint64_t now_usec);
/* NULL: the selector has none. */
void *tally_slot(const struct tally *t, size_t i);
