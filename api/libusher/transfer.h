#pragma once

/* One HTTP exchange at a time over a kept Unix connection: the only file that knows libcurl, and
 * the one that says in words why the daemon cannot be reached. */

#include <stddef.h>
#include <stdint.h>
#include <usher/error.h>

struct transfer;

/* consumer is the value of the header Usher-Consumer; NULL: none is sent. NULL when out of memory.
 */
struct transfer *transfer_new(const char *socket, const char *consumer);
struct transfer *transfer_free(struct transfer *t);
const char *transfer_socket(const struct transfer *t);

struct transfer_request {
	const char *method;
	const char *path;
	const char *body;      /* JSON, or NULL */
	uint64_t timeout_usec; /* 0: none. With a sink it ends with the first word of the answer. */
	/* Gets the body of a 200 as it comes; other than 0 ends the exchange, and is what
	 * transfer_run returns. NULL: the body is collected, as that of any other status is. */
	int (*sink)(void *userdata, const char *data, size_t length);
	void *userdata;
};

/* Returns the HTTP status, or a negative errno with words; *ret_body is set with the status. */
int transfer_run(struct transfer *t, const struct transfer_request *request, char **ret_body,
		struct usher_error *reterr);
/* Thread: any. */
void transfer_interrupt(struct transfer *t);

/* When the connection was last known to hold nothing unread: whatever the sink gets now was written
 * by the daemon after that (CLOCK_BOOTTIME). */
uint64_t transfer_quiet_usec(const struct transfer *t);
/* How often to look, so that the above is not long ago; 1 s at first. */
void transfer_set_look_usec(struct transfer *t, uint64_t look_usec);
