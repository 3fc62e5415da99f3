#include "last-choices.h"

#include <stdlib.h>
#include <string.h>
#include <usher/hash.h>

/* A consumer is its hash: of 64 bits, two alike among a thousand are a matter of 10^-14. */
struct last_choice {
	uint64_t consumer;
	uint64_t used; /* 0: free */
	uint32_t endpoint;
};

struct last_choices {
	uint64_t clock;
	struct last_choice choices[LAST_CHOICES_MAX];
};

struct last_choices *last_choices_new(void)
{
	return calloc(1, sizeof(struct last_choices));
}

struct last_choices *last_choices_free(struct last_choices *l)
{
	free(l);
	return NULL;
}

static struct last_choice *set_of(struct last_choices *l, uint64_t consumer)
{
	return &l->choices[consumer % (LAST_CHOICES_MAX / LAST_CHOICES_WAYS) * LAST_CHOICES_WAYS];
}

uint32_t last_choices_get(struct last_choices *l, const char *consumer)
{
	uint64_t hash = usher_hash_text(consumer, 0);
	const struct last_choice *set = set_of(l, hash);

	for (size_t i = 0; i < LAST_CHOICES_WAYS; i++)
		if (set[i].used > 0 && set[i].consumer == hash)
			return set[i].endpoint;
	return LAST_CHOICE_NONE;
}

void last_choices_put(struct last_choices *l, const char *consumer, uint32_t endpoint)
{
	uint64_t hash = usher_hash_text(consumer, 0);
	struct last_choice *set = set_of(l, hash), *slot = &set[0];

	for (size_t i = 0; i < LAST_CHOICES_WAYS; i++) {
		if (set[i].used > 0 && set[i].consumer == hash) {
			slot = &set[i];
			break;
		}
		if (set[i].used < slot->used)
			slot = &set[i];
	}
	*slot = (struct last_choice){ .consumer = hash, .used = ++l->clock, .endpoint = endpoint };
}

void last_choices_move(struct last_choices *l, const struct usher_endpoints *from,
		const struct usher_endpoints *to)
{
	if (from == to)
		return;
	for (size_t i = 0; i < LAST_CHOICES_MAX; i++) {
		struct last_choice *choice = &l->choices[i];
		ssize_t k;

		if (choice->used == 0)
			continue;
		k = usher_endpoints_find(to, usher_endpoints_id(from, choice->endpoint));
		if (k >= 0)
			choice->endpoint = (uint32_t) k;
		else
			*choice = (struct last_choice){};
	}
}
