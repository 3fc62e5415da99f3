#pragma once

/* Who belongs to a service, as far as the answers say: the last answer, and where a name rotates
 * also those of the answers before.
 *
 * Some servers answer with a part of what they have, and another part each time. A name that does
 * so is told by what comes back: in one answer some leave as others come, and those that left come
 * as others leave. From then on who is left out stays for `hold` since it was last seen. Until
 * `hold` has passed since the first answer nobody can know, so who leaves as others come stays,
 * too. Pure; time comes as an argument. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/endpoint.h>

#include "dns.h"
#include "message.h"

#define MEMBER_ADDRESS_MAX 46

struct member {
	char address[MEMBER_ADDRESS_MAX];
	uint16_t port, priority;
	uint32_t weight;
	char target[MESSAGE_NAME_MAX]; /* the name whose address it is */
	/* Of struct members alone: */
	uint64_t seen_usec, keep_until_usec;
	bool is_present;          /* in the last answer */
	bool left_as_others_came; /* when it left */
};

struct members {
	struct member *all; /* by address and port; also those that are only remembered */
	size_t count, space;
	uint64_t first_usec, rotates_until_usec;
	size_t answered; /* in the last answer */
};

struct members_rule {
	enum dns_rotates rotates;
	uint64_t hold_usec;
};

/* Put the members of one answer in order: one an address and port, that of the best priority, with
 * the weights of those that say the same added up. Returns how many are left. */
size_t members_unite(struct member *answer, size_t count);
/* Take an answer, united. Errors: E2BIG, ENOMEM; then nothing has changed. */
int members_take(struct members *m, const struct member *answer, size_t count,
		const struct members_rule *rule, uint64_t now_usec);
bool members_rotate(const struct members *m, const struct members_rule *rule, uint64_t now_usec);
/* Whether it belongs to the service now. */
bool member_is_listed(const struct member *m, uint64_t now_usec);
/* As endpoints. is_srv: with target, priority and tier in their metadata. Errors: E2BIG, ENOMEM,
 * ...; with a message. */
int members_to_endpoints(const struct members *m, bool is_srv, bool secure, uint64_t now_usec,
		struct usher_endpoints **ret, struct usher_error *reterr);
void members_done(struct members *m);
