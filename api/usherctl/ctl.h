#pragma once

/* What every verb of usherctl sees: the options, the arguments, and the ways to talk, to say and to
 * end. One thread, but for `follow`. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/client.h>
#include <usher/document.h>

#include <jansson.h>

#include "ownership.h"

/* Never renumbered. */
enum exit_code {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_UNREACHABLE = 3,
	EXIT_NOT_PERMITTED = 4,
	EXIT_NOT_FOUND = 5,
	EXIT_STALE = 6, /* the answer is older than the asked --max-age */
	EXIT_FORCED = 7,
	EXIT_PARTIAL = 8,
	EXIT_REFUSED = 9, /* by a guard */
	EXIT_DIFFERENCES = 10,
	EXIT_WAITED = 124,      /* gave up waiting; the job goes on */
	EXIT_INTERRUPTED = 130, /* the job goes on */
};

enum output_format {
	OUTPUT_TABLE,
	OUTPUT_WIDE,
	OUTPUT_JSON,
	OUTPUT_YAML,
};

enum door {
	DOOR_READ,   /* the consumer socket */
	DOOR_CHANGE, /* the admin socket */
};

#define EXCLUDE_MAX 64
#define HEADERS_MAX 64

struct ctl_options {
	enum output_format output;
	const char *socket;
	bool no_color, help, version;
	const char *max_age;
	bool chosen;
	const char *hint, *version_label, *sticky, *key;
	const char *exclude[EXCLUDE_MAX];
	size_t exclude_count;
	const char *headers[HEADERS_MAX]; /* NAME:VALUE */
	size_t header_count;
	bool wait;
	uint64_t wait_timeout_usec; /* 0: none */
	const char *timeout, *reason, *order;
	const char *rate, *endpoints;
	const char *revision;
};

struct verb;

struct ctl {
	struct ctl_options options;
	const struct verb *verb;
	char **arguments; /* after the verb */
	size_t count;
	bool terminal; /* on standard output */
	bool color;
	struct usher_client *client; /* of the last call */
	enum door client_door;
	int status; /* HTTP's, of the last call */
};

/* "usherctl: TEXT" to standard error; returns code. */
__attribute__((format(printf, 2, 3))) int ctl_fail(enum exit_code code, const char *format, ...);
/* The same, with where to read more. Returns EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int ctl_usage(const struct ctl *ctl, const char *format, ...);

/* A path from a format in which %s are escaped as segments. To be freed; NULL when out of memory or
 * a name is too long. */
char *ctl_path(const char *format, ...);
/* The same with "?max_age=" or "&max_age=" at its end where --max-age was given. */
char *ctl_path_add(char *path, const char *name, const char *value);

/* The client of a door, kept for the next call. NULL when out of memory. */
struct usher_client *ctl_client(struct ctl *ctl, enum door door);
/* One call. Returns EXIT_DONE with the answer, else an exit code after saying why. path may be NULL
 * (out of memory). body may be NULL. */
int ctl_call(struct ctl *ctl, enum door door, const char *method, const char *path, json_t *body,
		json_t **ret);
int ctl_get(struct ctl *ctl, const char *path, json_t **ret);
/* The exit code of a failed call, and of a problem that the daemon answered with. */
enum exit_code ctl_code_of_errno(int code);
int ctl_problem(const struct ctl *ctl, int status, const char *body);

/* "catalog/catalog-a" taken apart; the texts point into `argument`, which is cut. */
int ctl_split_target(const struct ctl *ctl, char *argument, const char **ret_service,
		const char **ret_endpoint);
