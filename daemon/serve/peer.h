#pragma once

/* One connection: who is at its other end, what it may, and the request that is under way on it. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "consumers.h"
#include "in-flight.h"
#include "request.h"

struct MHD_Connection;
struct door;

struct peer {
	struct server *server;
	struct door *door;
	int fd; /* libmicrohttpd's */
	struct MHD_Connection *connection;
	pid_t pid; /* 0: not known */
	uid_t uid;
	bool may_change; /* came by the admin door, and its credentials fit */
	bool over_limit; /* one too many: every request is answered with 429 */
	struct consumer *consumer;
	struct reading list; /* the last list that was sent */
	struct in_flight_reporter in_flight;
	struct request request;
};

/* NULL when out of memory. The descriptor is libmicrohttpd's. */
struct peer *peer_new(
		struct door *door, struct MHD_Connection *connection, int fd, bool over_limit);
struct peer *peer_free(struct peer *peer);

/* The consumer that it belongs to under the name the request gives (NULL: none); changes over when
 * it says another name than before. NULL when out of memory. */
struct consumer *peer_consumer(struct peer *peer, const char *name);

#define PEER_TEXT_MAX 128
/* "root (uid 0, pid 4711)": for records. */
const char *peer_describe(const struct peer *peer, char ret[PEER_TEXT_MAX]);
