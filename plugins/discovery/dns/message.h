#pragma once

/* What an answer of DNS says about one name and one type, with the times that it may be kept for.
 *
 * Read from the bytes, for a resolver's own functions drop the TTLs. RFC 1035, 2181 (TTLs), 2308
 * (what is not there, and for how long), 2782 (SRV). Names are in lower case and without the dot at
 * their end; the root is ".". */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/error.h>

#define MESSAGE_NAME_MAX 254 /* with the NUL */
#define MESSAGE_HOPS_MAX 16  /* CNAMEs in turn */

enum message_type {
	MESSAGE_A = 1,
	MESSAGE_CNAME = 5,
	MESSAGE_SOA = 6,
	MESSAGE_AAAA = 28,
	MESSAGE_SRV = 33,
	MESSAGE_OPT = 41,
};

enum message_kind {
	MESSAGE_RECORDS,
	MESSAGE_NONE,  /* there is no such name, or no such record of it */
	MESSAGE_ALIAS, /* a chain of CNAMEs leads to a name that the answer is silent about */
};

struct message_record {
	char owner[MESSAGE_NAME_MAX];
	uint16_t type;
	uint32_t ttl;
	uint8_t address[16];             /* A and AAAA */
	uint16_t priority, weight, port; /* SRV */
	char target[MESSAGE_NAME_MAX];   /* SRV and CNAME */
};

struct message {
	enum message_kind kind;
	bool no_such_name; /* of MESSAGE_NONE: the name itself is not there */
	bool has_proof;    /* of MESSAGE_NONE: an SOA says who says so */
	uint32_t ttl; /* seconds: the least of all that counts, along the chain; of MESSAGE_NONE
			 that of the SOA, 0 without one */
	char name[MESSAGE_NAME_MAX];    /* the end of the chain */
	struct message_record *records; /* of the wanted type */
	size_t count, space;
	struct message_record *extra; /* addresses of others, sent along; none where some may have
					 been left out for lack of room */
	size_t extra_count, extra_space;
	size_t skipped; /* records that cannot be used, as of a name that is none */
};

/* Read an answer to a question for name, in any case of letters, and type. Errors: EMSGSIZE (cut
 * off on its way), EBADMSG (malformed), EIO (SERVFAIL and its like), EACCES (REFUSED), ENOMEM; with
 * a message. */
int message_parse(const uint8_t *bytes, size_t size, const char *name, uint16_t type,
		struct message *ret, struct usher_error *reterr);
void message_done(struct message *m);

/* The code of an answer whose header is whole, or -EBADMSG. */
int message_rcode(const uint8_t *bytes, size_t size);
/* "SERVFAIL", "NXDOMAIN", ... */
const char *message_rcode_name(int rcode);
