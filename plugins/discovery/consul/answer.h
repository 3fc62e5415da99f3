#pragma once

/* What an agent says of a service at /v1/health/service/NAME, as usher's endpoints.
 *
 * The answer is asked for without `passing`, so that an instance whose checks fail is there and
 * not ready, instead of gone. Health is the worst of all checks that are listed; a maintenance
 * check is what people decided and no health. */

#include <stddef.h>
#include <usher/endpoint.h>

#include <jansson.h>

/* The reason of a maintenance that a drain of usher's has begun. */
#define ANSWER_DRAIN_REASON "usher: draining"
/* With which every reason of usher's begins. */
#define ANSWER_REASON_PREFIX "usher: "

/* Of the metadata that are not the registry's own. */
#define ANSWER_LABEL_PREFIX "consul."

struct answer_options {
	const char *tagged_address; /* the one of the TaggedAddresses to take; NULL: none */
	const char *port;           /* which port is wanted, as a number; NULL: the one there is */
	/* Where not NULL: an instance that is ready in here and whose checks fail now is left out,
	 * so that a doubted offer does not speak of it. */
	const struct usher_endpoints *trusted;
};

struct answer {
	struct usher_endpoints *set;   /* not sealed: an offer does that */
	size_t instances;              /* that the registry has listed */
	size_t skipped;                /* of them without a port that is wanted, or malformed */
	struct usher_error first_skip; /* why the first of them was */
	size_t doubted;                /* left out because of `trusted` */
};

/* Errors: EBADMSG (no such answer), ENOMEM; E2BIG (more than a set holds). */
int answer_parse(const char *text, size_t size, const struct answer_options *options,
		struct answer *ret, struct usher_error *reterr);
void answer_done(struct answer *a);

/* The names of /v1/catalog/services; free the list with answer_names_free(). EBADMSG, ENOMEM. */
int answer_parse_names(const char *text, size_t size, char ***ret_names, size_t *ret_count,
		struct usher_error *reterr);
void answer_names_free(char **names, size_t count);

/* The name of the node in /v1/agent/self; free it. EBADMSG, ENOMEM. */
int answer_parse_node(const char *text, size_t size, char **ret, struct usher_error *reterr);

/* What an agent itself has of a service, at /v1/agent/health/service/id/ID. */
struct answer_own {
	json_t *service;
	const char *notes; /* of the check that was asked for; NULL: it has none */
	enum usher_admin_state state;
	bool is_theirs; /* who began a maintenance is not usher */
	json_t *root;   /* that all of this is in */
};

/* EBADMSG, ENOMEM. */
int answer_parse_own(const char *text, size_t size, const char *check_id, struct answer_own *ret,
		struct usher_error *reterr);
void answer_own_done(struct answer_own *o);
