#pragma once

/* Which endpoint each consumer of a service was given last, for stages that go by that. Bounded:
 * among those that fall together the one unused for longest is forgotten. No allocation but for the
 * table itself. Thread: the core's. */

#include <stddef.h>
#include <stdint.h>
#include <usher/endpoint.h>

#define LAST_CHOICES_MAX  1024
#define LAST_CHOICES_WAYS 4

#define LAST_CHOICE_NONE UINT32_MAX

struct last_choices;

struct last_choices *last_choices_new(void); /* NULL when out of memory */
struct last_choices *last_choices_free(struct last_choices *l);
/* The index of what the consumer was given, or LAST_CHOICE_NONE. */
uint32_t last_choices_get(struct last_choices *l, const char *consumer);
void last_choices_put(struct last_choices *l, const char *consumer, uint32_t endpoint);
/* The endpoints have other indexes now. */
void last_choices_move(struct last_choices *l, const struct usher_endpoints *from,
		const struct usher_endpoints *to);
