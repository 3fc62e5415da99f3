#pragma once

/* What a source is asked to watch: one immutable list, replaced whole, with a place beside each
 * service for what the plug-in says of it until the core takes it.
 *
 * A new list inherits the places of services that are wanted as before, so that nothing that was
 * said is lost; a service that is now looked up under another name there has a new place, so that
 * an answer about the old name cannot be taken for one about the new.
 *
 * Thread: a list and the references are the source's, under its lock; a list that somebody holds a
 * reference to may be read by him without. */

#include <stdbool.h>
#include <stdint.h>
#include <usher/plugin.h>

#include "observation.h"

/* Why a plug-in could not find out; shared by every service that it says it of. */
struct failure {
	unsigned refs;
	int code; /* negative errno */
	char text[];
};
struct failure *failure_new(int code, const char *text); /* NULL when out of memory */
struct failure *failure_ref(struct failure *failure);
struct failure *failure_unref(struct failure *failure); /* NULL is fine; returns NULL */

/* What was said of one service and waits for the core: the latest of each kind, in this order. */
struct said {
	unsigned refs;
	const char *service; /* this struct's own */
	uint64_t since;      /* the generation of the list in which it was first wanted so */
	bool wanted;         /* by the newest list */
	bool failing;        /* the last word of it was a failure */
	bool queued;         /* in the source's queue */
	bool held;           /* the core does not want to hear of it now */
	struct said *next;   /* there */
	struct observation *offered;
	uint64_t confirmed_usec; /* 0: not */
	struct failure *failed;
	struct observation *delivered; /* the last offer that the core has taken; NULL */
};
struct said *said_ref(struct said *said);
struct said *said_unref(struct said *said); /* NULL is fine; returns NULL */
/* The last that was offered, taken or not; NULL. */
struct observation *said_last_offer(const struct said *said);

struct wanted_list {
	unsigned refs;
	uint64_t generation;
	size_t count;
	struct usher_wanted *wanted; /* sorted by service */
	struct said **said;          /* of the same index */
};

/* The first of a service counts. previous (NULL: none) are lists whose places are inherited, the
 * newer first. Errors: ENOMEM. */
int wanted_list_new(const struct usher_wanted *wanted, size_t count, uint64_t generation,
		const struct wanted_list *const *previous, size_t previous_count,
		struct wanted_list **ret);
struct wanted_list *wanted_list_ref(struct wanted_list *list);
struct wanted_list *wanted_list_unref(struct wanted_list *list); /* NULL is fine; returns NULL */

/* NULL: not in it. */
struct said *wanted_list_find(const struct wanted_list *list, const char *service);
/* Whether both ask for the same, under the same names. */
bool wanted_list_equal(const struct wanted_list *a, const struct wanted_list *b);
