#pragma once

/* One wanted service, looked up in rounds: its name, then the addresses of the targets that its SRV
 * records name; told to usher when all have answered or failed, and again when the shortest TTL of
 * what counted is over. */

#include "dns.h"
#include "lookup.h"
#include "members.h"
#include "retry.h"

#define WATCH_FAMILIES 2

/* A name whose addresses are looked up: a target, or the service's name itself. */
struct host {
	char name[MESSAGE_NAME_MAX];
	struct lookup lookups[WATCH_FAMILIES]; /* A, AAAA */
	bool is_used;                          /* in this round */
};

struct target {
	uint16_t priority, weight, port;
	struct host *host;
};

struct watch {
	char *service, *name, *port; /* port may be NULL */
	const struct dns *dns;
	struct usher_source *source;
	struct resolver *resolver;
	bool wanted;
	uint64_t due_usec; /* of the next round */
	size_t pending;    /* questions of this round */
	unsigned failures; /* rounds in turn */
	uint64_t *random;

	char (*names)[MESSAGE_NAME_MAX]; /* to try, in this order */
	size_t name_count, name_at;
	bool is_srv, is_secure;
	uint16_t port_number; /* of addresses; of SRV records the only one that counts; 0: any */
	struct usher_error fault; /* why nothing can be asked; code 0: it can */

	struct lookup root; /* SRV */
	struct target *targets;
	size_t target_count;
	bool is_off; /* the only target is ".": decidedly not offered */
	struct host **hosts;
	size_t host_count;

	struct members members;
	bool was_rotating;               /* as was said */
	struct usher_endpoints *offered; /* the last; NULL: none */
	unsigned nones;                  /* rounds in turn in which the service was not there */
	uint64_t none_since_usec;        /* with them */
	size_t skipped, lost;            /* records and targets that were last warned of */
};

/* NULL: out of memory. */
struct watch *watch_new(const struct dns *dns, struct usher_source *source,
		struct resolver *resolver, const struct usher_wanted *wanted, uint64_t *random);
struct watch *watch_free(struct watch *w);
bool watch_is_for(const struct watch *w, const struct usher_wanted *wanted);
/* Begin a round. */
void watch_start(struct watch *w);
/* Take the answer to one of its questions, which end the round with the last of them. */
void watch_take(struct watch *w, struct lookup *l, const struct resolver_event *event);
/* Tell usher of the round that has ended, and say when the next one is due. */
void watch_conclude(struct watch *w);

/* ---- for these two files ---- */

/* Whether the address family (an index of host.lookups) is wanted at all, and whether it is only
 * for hosts that have no address of the other. */
bool watch_wants_family(const struct watch *w, size_t family);
bool watch_is_second_choice(const struct watch *w, size_t family);
/* Whether there is no such name, or nothing of the type under it. */
bool watch_is_none(const struct watch *w);
/* Whether that was said with a proof, or without one is good enough. */
bool watch_is_believed(const struct watch *w);
