#pragma once

/* An answer about all instances, or about what has changed, read while it arrives:
 *
 *   {"applications": {"apps__hashcode": "UP_2_", "application": [
 *     {"name": "WEB", "instance": [{...}, {...}]}, ...]}}
 *
 * A registry of 100,000 instances is more than 100 MB of JSON. So an answer is never held whole:
 * what surrounds the instances is taken apart here, byte by byte, and each instance is a document
 * of its own. Where there is one of something, its list may be left out. */

#include "instance.h"

#define READER_INSTANCES_MAX 400000
#define READER_VALUE_MAX     ((size_t) 1 << 20)  /* bytes of one instance that is read */
#define READER_PASS_MAX      ((size_t) 16 << 20) /* and how many more are passed over */
#define READER_HASH_MAX      128

enum reader_place {
	READER_ROOT,
	READER_APPLICATIONS,
	READER_APPLICATION_LIST,
	READER_APPLICATION,
	READER_INSTANCE_LIST,
	READER_PLACES,
};

enum reader_step {
	READER_VALUE,        /* one must come */
	READER_VALUE_OR_END, /* the first of a list, or none */
	READER_KEY,
	READER_KEY_OR_END,
	READER_IN_KEY,
	READER_COLON,
	READER_COMMA_OR_END,
	READER_IN_VALUE,
	READER_OVER,
};

struct reader {
	struct instance **items; /* in the order of the answer; taken by whoever sets it to NULL */
	size_t count;
	size_t malformed;           /* instances without app or id, or larger than the maximum */
	char hash[READER_HASH_MAX]; /* apps__hashcode */
	bool has_hash, has_applications;

	size_t capacity;
	enum reader_place places[READER_PLACES]; /* that it is in, the innermost last */
	size_t depth;
	enum reader_step step;
	char *value; /* what is being read: a key, or a value that is no part of what surrounds */
	size_t size, value_capacity;
	size_t passed_over; /* bytes of a value that is larger than the maximum */
	unsigned nested;    /* of the value's own objects and lists */
	bool quoted, escaped, failed;
	bool is_hash, is_instance; /* what the value is */
	char key[32];
};

void reader_init(struct reader *r);
void reader_done(struct reader *r);
/* The next piece. After an error it takes no more. Errors: EBADMSG (not such an answer), E2BIG (a
 * maximum above), ENOMEM. */
int reader_feed(struct reader *r, const char *data, size_t size, struct usher_error *reterr);
/* Nothing more comes: was it whole? EBADMSG. */
int reader_finish(const struct reader *r, struct usher_error *reterr);
