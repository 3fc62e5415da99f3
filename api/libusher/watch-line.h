#pragma once

/* One line of a watch, checked: "snapshot", "update", "bookmark", "resync", "end".
 *
 * Fields that are not known are passed over, a type that is not known is WATCH_OTHER, so that an
 * older library understands a newer daemon. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/endpoint.h>
#include <usher/error.h>

#include <jansson.h>

enum watch_type {
	WATCH_SNAPSHOT,
	WATCH_UPDATE,
	WATCH_BOOKMARK,
	WATCH_RESYNC,
	WATCH_END,
	WATCH_OTHER,
};

struct watch_freshness {
	bool known; /* some source has answered once; else the age is UINT64_MAX */
	bool stale;
	uint64_t age_usec;     /* upper bound, when the line was written */
	uint64_t max_age_usec; /* UINT64_MAX: not said */
};

#define WATCH_RAMP_UNIT 1000 /* all of the weight */

struct watch_endpoint {
	const char *id;
	const char *address;
	uint32_t weight;
	uint32_t ramp; /* the part of its weight that it is given for now, in thousandths */
	uint16_t port;
	bool secure;
	enum usher_admin_state admin_state; /* a state that is not known counts as maintenance */
};

struct watch_line {
	enum watch_type type;
	uint64_t revision; /* of snapshot, update and bookmark */
	struct watch_freshness freshness;
	bool panic;                       /* of those three, too */
	struct watch_endpoint *endpoints; /* all of a snapshot, the changed ones of an update */
	size_t endpoint_count;
	const char **removed; /* ids, of an update */
	size_t removed_count;
	const char *code; /* of end; NULL: not said */
	json_t *json;     /* what the texts point into */
};

/* Errors: EBADMSG (not JSON, or a field is missing or malformed; which), E2BIG (more than
 * USHER_ENDPOINTS_MAX endpoints), ENOMEM. */
int watch_line_parse(const char *text, size_t length, struct watch_line *ret,
		struct usher_error *reterr);
void watch_line_done(struct watch_line *line);

/* The parts that other answers have as well; what is written points into json. EBADMSG. */
int watch_endpoint_parse(
		const json_t *json, struct watch_endpoint *ret, struct usher_error *reterr);
int watch_freshness_parse(
		const json_t *json, struct watch_freshness *ret, struct usher_error *reterr);
