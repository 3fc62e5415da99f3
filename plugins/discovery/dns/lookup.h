#pragma once

/* One question that is asked again and again: a name and a type, what its last good answer was, and
 * how the last attempt ended.
 *
 * What fails keeps its last answer. What is not there any more keeps it, too, until the server has
 * said so twice with two of the times between for which it may be believed (its negative TTL):
 * names are gone for a moment when a zone is loaded. */

#include "message.h"
#include "resolver.h"

struct watch;

struct lookup_address {
	uint16_t type; /* MESSAGE_A or MESSAGE_AAAA */
	uint8_t bytes[16];
};

enum lookup_end {
	LOOKUP_FAILED,
	LOOKUP_RECORDS,
	LOOKUP_NONE,
};

struct lookup {
	struct watch *owner;
	uint16_t type;
	unsigned turn; /* with which server to begin, see resolver_ask() */
	unsigned hops; /* to other names, in this attempt */
	/* How the last attempt ended. */
	enum lookup_end end;
	int code; /* of LOOKUP_FAILED */
	struct usher_error why;
	bool has_proof, no_such_name; /* of LOOKUP_NONE */
	uint64_t asked_usec;          /* when */
	uint32_t ttl;                 /* seconds that it counts for; not of LOOKUP_FAILED */
	size_t skipped;
	char server[RESOLVER_SERVER_MAX];
	/* The last good answer. */
	struct lookup_address *addresses;
	size_t address_count;
	uint64_t observed_usec;
	/* Since when it is not there. */
	uint64_t none_since_usec; /* 0: it is */
	unsigned nones;           /* in turn */
};

/* Ask for name. The lookup is the tag. ENOMEM. */
int lookup_ask(struct lookup *l, struct resolver *resolver, const char *name);
/* Take the answer. 1: ended, and *ret is the answer where it has one, for records beyond addresses;
 * 0: the name is another's, who is asked now. ENOMEM counts as an end. */
int lookup_take(struct lookup *l, struct resolver *resolver, const char *name,
		const struct resolver_event *event, struct message *ret);
/* Take addresses that came along with another answer, if there are any of that owner. */
bool lookup_take_extra(struct lookup *l, const struct message *m, const char *owner,
		const struct lookup *other);
/* Let go of the last good answer where it is not there any more beyond doubt. floor_usec: at least
 * so long apart. */
void lookup_settle(struct lookup *l, uint64_t floor_usec, uint64_t now_usec);
/* Whether what it says is not from the last attempt, but kept. */
bool lookup_is_kept(const struct lookup *l);
void lookup_done(struct lookup *l);
