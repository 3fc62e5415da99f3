#pragma once

/* The addresses of a server's name, looked up without ever waiting.
 *
 * The owner polls the descriptor for input, until it is due at the latest, and lets the lookup do
 * what there is to do. It may be dropped at any time. Thread: one. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct zk_lookup;

/* Whether the host is an address, which needs no looking up. */
bool zk_lookup_is_address(
		const char *host, uint16_t port, struct sockaddr_storage *ret, socklen_t *ret_size);

/* timeout_usec: of all that is asked for it. name_servers: "ADDRESS:PORT,..."; NULL: those of the
 * system, which also has its own word in /etc/hosts. NULL: no memory, or no descriptor. */
struct zk_lookup *zk_lookup_new(
		const char *host, uint16_t port, uint64_t timeout_usec, const char *name_servers);
struct zk_lookup *zk_lookup_free(struct zk_lookup *l); /* NULL is fine */

int zk_lookup_fd(const struct zk_lookup *l);
uint64_t zk_lookup_due_usec(const struct zk_lookup *l);
void zk_lookup_process(struct zk_lookup *l);

/* 0: not yet. 1: found; one of the addresses, at random from `random`. EHOSTUNREACH: there is none,
 * and why in words. */
int zk_lookup_result(const struct zk_lookup *l, uint64_t random, struct sockaddr_storage *ret,
		socklen_t *ret_size, const char **ret_why);
