#pragma once

/* Questions to name servers, many at once in one thread; the answers are pulled.
 *
 * A question goes to the server that answered last. Where that one cannot be reached, or says
 * SERVFAIL, REFUSED and the like, it goes to the next, until all have been asked. A channel of
 * c-ares a server: so each answer has a sender, and each failure the name of who failed. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/error.h>

#define RESOLVER_SERVERS_MAX 8
#define RESOLVER_SERVER_MAX  64 /* bytes of an address and its port */
#define RESOLVER_TRIES       2  /* of each server, the second one twice as patient */
#define RESOLVER_FILE        "/etc/resolv.conf"

struct resolver_config {
	const char *const *servers; /* ADDRESS or ADDRESS:PORT; NULL: those of RESOLVER_FILE */
	uint64_t timeout_usec;      /* of the first try */
	size_t most;                /* questions under way; the others wait their turn */
	bool tcp;                   /* never UDP */
};

struct resolver;

/* Errors: EINVAL (a server that is no address), ENOENT (no server at all), ENOMEM, EMFILE, ...;
 * with a message. The configuration is borrowed. */
int resolver_new(const struct resolver_config *config, struct resolver **ret,
		struct usher_error *reterr);
struct resolver *resolver_free(struct resolver *r);
/* Read RESOLVER_FILE again. What is under way is asked of the new servers. On failure the old ones
 * stay. */
int resolver_reload(struct resolver *r, struct usher_error *reterr);

/* Ask. tag comes back with the answer. turn: how many servers behind the one that answered last to
 * begin, for a second opinion. Errors: ENOMEM. */
int resolver_ask(struct resolver *r, const char *name, uint16_t type, unsigned turn, void *tag);
/* Drop all questions with that tag. */
void resolver_forget(struct resolver *r, const void *tag);

/* A descriptor that is readable when there is something to process, and when to process at the
 * latest (CLOCK_BOOTTIME; UINT64_MAX: whenever). */
int resolver_fd(const struct resolver *r);
uint64_t resolver_due_usec(struct resolver *r, uint64_t now_usec);
void resolver_process(struct resolver *r);

struct resolver_event {
	void *tag;
	int error;              /* 0: bytes and size are an answer, NOERROR or NXDOMAIN */
	struct usher_error why; /* who failed, and how */
	const uint8_t *bytes;   /* borrowed until the next resolver_next */
	size_t size;
	uint64_t started_usec; /* when it was asked */
	const char *name;      /* that was asked for; borrowed as well */
	const char *server;    /* who answered, or failed last; borrowed as well */
};

bool resolver_next(struct resolver *r, struct resolver_event *ret);

/* For options: whether it is ADDRESS or ADDRESS:PORT. EINVAL, with a message. */
int resolver_check_server(const char *text, struct usher_error *reterr);
