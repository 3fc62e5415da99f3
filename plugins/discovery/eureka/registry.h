#pragma once

/* All instances, as far as the servers have told.
 *
 * Two kinds of answers tell of them: the list of all, and what has changed in the last minutes, as
 * often as it is asked for. That an instance was taken out is believed of the second alone: there
 * it is said. Missing in the list of all it may be that the server was started again a moment ago,
 * or has lost touch with its peers; so it stays for a while, marked as missing. */

#include "instance.h"

struct registry {
	enum instance_by by;
	struct instance **items; /* by app and id; each once */
	size_t count, missing, overdue;
	struct registry_entry *index; /* by key */
	size_t index_count;
	uint64_t *touched; /* keys, sorted: of what the last answer has changed */
	size_t touched_count;
	bool all_touched; /* since registry_settle() there was more than one answer, or a list of
			     all */
};

struct registry_entry {
	uint64_t key;
	struct instance *instance;
};

void registry_init(struct registry *r, enum instance_by by);
void registry_done(struct registry *r);

/* The list of all. Takes the instances, whatever it returns; of two alike the later one counts.
 * seen_usec: of the answer before. Errors: ENOMEM, and all is as before. */
int registry_replace(struct registry *r, struct instance **items, size_t count, uint64_t seen_usec,
		uint64_t now_usec);
/* What has changed, in the order of the answer. The same. */
int registry_apply(struct registry *r, struct instance **items, size_t count);
/* Let those go that have been missing since before. ENOMEM. */
int registry_drop_missing(struct registry *r, uint64_t before_usec);

/* How many there are in each status, as the server writes it. */
#define REGISTRY_HASH_MAX 192
void registry_hash(const struct registry *r, char *ret);

/* The instances of a key; *ret_count may be 0. Good until the next change. */
const struct registry_entry *registry_find(
		const struct registry *r, uint64_t key, size_t *ret_count);
bool registry_is_touched(const struct registry *r, uint64_t key);
/* What has changed so far has been told of. */
void registry_settle(struct registry *r);
/* For how long the server has known instances at least, by its own clock. */
uint64_t registry_span_usec(const struct registry *r);
