#pragma once

/* libusher: what a local process asks its usherd.
 *
 * A client is one keep-alive connection to one of the daemon's Unix sockets. A follower keeps one
 * service's directory in this process, from a watch: picks from it never wait for the daemon, and
 * go on from the last directory while the daemon is away; its age is always told.
 *
 * Threads: a client belongs to one thread at a time. A follower has a thread of its own; its
 * functions may be called from any. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/endpoint.h>
#include <usher/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define USHER_CONSUMER_SOCKET "/run/usher/usher.sock"
#define USHER_ADMIN_SOCKET    "/run/usher/admin.sock"

#define USHER_BODY_MAX ((size_t) 256 * 1024 * 1024) /* bytes of one answer */
#define USHER_LINE_MAX ((size_t) 256 * 1024 * 1024) /* bytes of one line of a stream */

struct usher_client;

/* socket NULL: $USHER_SOCKET, else USHER_CONSUMER_SOCKET. name is what `usherctl get consumers`
 * shows; NULL: the program's own. Nothing is connected yet. NULL when out of memory. */
struct usher_client *usher_client_new(const char *socket, const char *name);
struct usher_client *usher_client_free(
		struct usher_client *client); /* NULL is fine; returns NULL */

/* The path of the socket it speaks to; lives as long as the client. */
const char *usher_client_socket(const struct usher_client *client);

/* One call of the API: "GET", "/v1/services", a JSON body or NULL. *ret_body is to be freed,
 * terminated, and set for every HTTP status. Returns the HTTP status (100..599), or a negative
 * errno: ECONNREFUSED or ENOENT (no daemon there), EACCES (not permitted on the socket), ETIMEDOUT,
 * ECONNRESET (the daemon went away before it had answered), EBADMSG (what answers is no usherd),
 * E2BIG (a maximum above), ENAMETOOLONG (the path of the socket), EINTR, ENOMEM. */
int usher_client_call(struct usher_client *client, const char *method, const char *path,
		const char *body, char **ret_body, struct usher_error *reterr);
/* For one call, and for the first word of a stream's answer; 0: none. 30 s at first. */
void usher_client_set_timeout(struct usher_client *client, uint64_t timeout_usec);
/* Let the call or stream that runs now, else the next one, end with EINTR. Thread: any. */
void usher_client_interrupt(struct usher_client *client);

/* Follow a stream: `line` gets each line of the answer without its end, and stops it by returning
 * non-zero. Returns that value, or the HTTP status when the stream ended or was refused (then
 * *ret_body has the answer), or a negative errno as above. */
typedef int (*usher_client_line)(void *userdata, const char *line, size_t length);
int usher_client_stream(struct usher_client *client, const char *path, usher_client_line line,
		void *userdata, char **ret_body, struct usher_error *reterr);

/* What a pick gave, or one endpoint of a follower. Strings are the struct's own. Start from
 * USHER_CHOICE_INIT: only what size covers is written; 0 counts as the struct's first version. */
struct usher_choice {
	size_t size;
	char id[USHER_TEXT_MAX];
	char address[USHER_TEXT_MAX];
	uint16_t port;
	bool secure;
	uint64_t revision;
	uint64_t age_usec; /* upper bound */
	bool stale;        /* older than the service's max_age */
	bool panic;        /* too few endpoints are well, so those that are not are chosen, too */
};

#define USHER_CHOICE_INIT                           \
	{                                           \
		.size = sizeof(struct usher_choice) \
	}

/* Ask the daemon to choose. body is the request as JSON ("{\"hint\": ..., \"headers\": {...}}"), or
 * NULL. Errors: as
 * for call, and ENOENT (no such service), EAGAIN (nothing to choose), EINVAL (the daemon does not
 * understand the request), EACCES, EIO (it failed): code and detail in the error. */
int usher_client_pick(struct usher_client *client, const char *service, const char *body,
		struct usher_choice *ret, struct usher_error *reterr);

/* How calls to an endpoint went. Start from USHER_CALL_REPORT_INIT; in an array they stand as far
 * apart as the first one's size says; 0 counts as the struct's first version. */
struct usher_call_report {
	size_t size;
	const char *endpoint;  /* its id */
	uint64_t latency_usec; /* of one of the calls; 0: not told */
	uint32_t count;        /* of calls that went alike; 0 counts as 1 */
	enum usher_outcome outcome;
};

#define USHER_CALL_REPORT_INIT                           \
	{                                                \
		.size = sizeof(struct usher_call_report) \
	}

/* Tell the daemon how calls went: for selection by latency, and for taking endpoints out that fail.
 * As many as there are, in as few calls of the API as they need; where one of those fails, those
 * before it have been told. Endpoints that have gone meanwhile are no error. Returns 0, or as for a
 * pick. */
int usher_client_report(struct usher_client *client, const char *service,
		const struct usher_call_report *reports, size_t count, struct usher_error *reterr);

/* A process's own copy of one service's directory. It reconnects by itself, after 0.1 to 5 s at
 * random, and resumes where it was; meanwhile the last directory stays, and ages. It acknowledges
 * each revision to the daemon once its picks go by it. An age is an upper bound even when this
 * process had been stopped while an answer waited for it. */
struct usher_follower;

/* Start following; socket and name as for a client. Errors: EAGAIN (no thread), ENOMEM. Returns
 * before the first directory is in. */
int usher_follower_new(const char *socket, const char *name, const char *service,
		struct usher_follower **ret, struct usher_error *reterr);
struct usher_follower *usher_follower_free(struct usher_follower *follower);
/* Wait for a directory with at least this revision; 0: any. timeout_usec 0: look, do not wait;
 * UINT64_MAX: no limit. Errors: ETIMEDOUT. */
int usher_follower_wait(struct usher_follower *follower, uint64_t revision, uint64_t timeout_usec);
/* Choose among the endpoints that are ready and do not drain, by smooth turns with their weights,
 * from a random start; no I/O, one short lock. In steps: one while all weights are equal, else one
 * for each endpoint. Errors: EAGAIN (no directory yet, or nothing to choose). */
int usher_follower_pick(struct usher_follower *follower, struct usher_choice *ret);
/* Whether the stream to the daemon stands and has said something within the service's max_age. */
bool usher_follower_connected(struct usher_follower *follower);
/* Why it does not: the last failure, in words. 0 while connected, or before the first attempt has
 * ended. */
int usher_follower_error(struct usher_follower *follower, struct usher_error *ret);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
