#pragma once

/* What a server of Nacos says of the instances of a service, as usher's endpoints.
 *
 * A list is read in whatever shape it comes: bare ("hosts") from the API v1, in an envelope of code
 * and data from v2 and v3. A weight of Nacos is any number up to 10000, one of usher's is whole: so
 * that shares are kept, all weights of a list are multiplied by the smallest of 1, 10, 100, 1000
 * that makes them whole. */

#include <stddef.h>
#include <usher/endpoint.h>

struct answer_options {
	const char *port;     /* which port is wanted, as a number; NULL: the one there is */
	bool cluster_is_zone; /* where nothing else says the zone */
	/* Where the server says that it calls all instances healthy because too few are: who was
	 * not ready in here stays so. NULL: none was. */
	const struct usher_endpoints *before;
	/* Where not NULL: an instance that is ready in here and is not healthy now is left out, so
	 * that a doubted offer does not speak of it. */
	const struct usher_endpoints *trusted;
};

struct answer {
	struct usher_endpoints *set;   /* not sealed: an offer does that */
	size_t instances;              /* that the registry has listed */
	size_t skipped;                /* of them without a port that is wanted, or malformed */
	struct usher_error first_skip; /* why the first of them was */
	bool forged;                   /* all are called healthy, whatever they are */
	uint64_t cache_usec;           /* for how long the server wants not to be asked; 0: it does
					  not say */
};

/* Errors: EBADMSG (no such answer), ENOMEM; E2BIG (more than a set holds). */
int answer_parse(const char *text, size_t size, const struct answer_options *options,
		struct answer *ret, struct usher_error *reterr);
void answer_done(struct answer *a);

/* One instance as the registry has it, for writing it back. */
struct answer_instance {
	char *ip, *cluster;
	char *metadata; /* a JSON object */
	uint16_t port;
	double weight;
	bool ephemeral, enabled;
	bool ours; /* usher has registered it */
};

/* The one that discovery calls `id`, in a list. ENOENT, EBADMSG, EROFS (it cannot be
 * written back), ENOMEM. */
int answer_find(const char *text, size_t size, const char *id, struct answer_instance *ret,
		struct usher_error *reterr);
/* The first that usher has registered with this id, but for the one at that place. ENOENT, EBADMSG,
 * EROFS, ENOMEM. */
int answer_find_former(const char *text, size_t size, const char *id,
		const struct answer_instance *but, struct answer_instance *ret,
		struct usher_error *reterr);
/* Whether it is one to the registry: where it is, in which cluster, and whether it is ephemeral. */
bool answer_is_same_place(const struct answer_instance *a, const struct answer_instance *b);
/* The one that is described alone. EBADMSG, EROFS, ENOMEM. */
int answer_parse_instance(const char *text, size_t size, struct answer_instance *ret,
		struct usher_error *reterr);
void answer_instance_done(struct answer_instance *i);
