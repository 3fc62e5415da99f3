#pragma once

/* Word of a change, which a server with the API v1 sends over UDP to those who asked for it with a
 * port. Anybody can send such a packet, so nothing in it is believed: it only says which service
 * is worth to be asked for now.
 *
 * A packet is JSON, compressed above a kilobyte, and wants to be acknowledged. */

#include "nacos.h"

#define PUSH_PACKET_MAX 65536
#define PUSH_TEXT_MAX   (1 << 20) /* of a packet, once it is no longer compressed */
/* By which the servers know a client that takes pushes. */
#define PUSH_AGENT "Nacos-C-Client:v1.1.0 (usherd)"

struct push {
	int fd; /* -1: none */
	uint16_t port;
	char address[64];     /* of this node, as the servers see it */
	uint64_t budget_usec; /* of the bucket that limits how many packets are read */
};

bool push_is_address(const char *text);
/* Where nobody says this node's address, it is that from which the first server is reached, or, of
 * a server with a name, from which most of the world is. Errors: with a message; EHOSTUNREACH: this
 * node has no address yet. */
int push_open(struct push *p, const struct nacos *n, struct usher_error *reterr);
void push_close(struct push *p);

/* One packet. > 0: one was there, and ret_service is the name of the service (GROUP@@SERVICE) that
 * it tells of, to be freed, or NULL: of none. 0: no packet is left. A thousand are read at once,
 * then a hundred a second; what is more is dropped unread. */
int push_take(struct push *p, uint64_t now_usec, char **ret_service);

/* What a packet says: the name, and what its acknowledgment is to repeat. EBADMSG, EMSGSIZE,
 * ENOMEM. */
int push_parse(const char *data, size_t size, char **ret_service, char ret_acknowledged[32]);
