#pragma once

/* The instance of the plug-in: its options, and what its registration keeps. */

#include <usher/plugin.h>

#include "taken-out.h"

enum nacos_api {
	NACOS_API_1, /* servers up to 3.1: says more, and pushes */
	NACOS_API_3, /* servers from 3.0 */
};

enum nacos_api_choice {
	NACOS_CHOOSE_AUTO, /* the first where the server has it */
	NACOS_CHOOSE_1,
	NACOS_CHOOSE_3,
};

/* An instance of which Nacos says no cluster is in that one. */
#define NACOS_CLUSTER "DEFAULT"
/* In the metadata of what we have registered: what others have is theirs to describe. */
#define NACOS_OWNER_LABEL "registered-by"
#define NACOS_OWNER       "usher"
/* The id in usher, where it is not the address and port. */
#define NACOS_ID_LABEL "usher.id"
/* What discovery adds to the metadata, so that it can be registered again as it was. */
#define NACOS_LABEL_PREFIX    "nacos."
#define NACOS_CLUSTER_LABEL   NACOS_LABEL_PREFIX "cluster"
#define NACOS_EPHEMERAL_LABEL NACOS_LABEL_PREFIX "ephemeral" /* where it is false */
#define NACOS_WEIGHT_LABEL    NACOS_LABEL_PREFIX "weight"    /* where usher's is a multiple */

struct access;
struct registered; /* registration.c */

struct nacos {
	struct usher_http_options http;
	const char *context_path;
	const char *namespace_id, *group;
	const char *const *clusters;
	int api; /* enum nacos_api_choice */
	bool cluster_is_zone;
	uint64_t poll_usec, hold_usec;
	bool push;
	const char *push_address;
	const char *cluster;
	bool ephemeral;
	uint64_t beat_usec;

	/* Of the registration's thread alone. */
	struct access *access;
	struct registered *registered;
	struct taken_out taken_out;
};

int registration_add(void *instance, const struct usher_wanted *service,
		const struct usher_endpoint *endpoint, struct usher_error *reterr);
int registration_renew(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr);
int registration_set_state(void *instance, const struct usher_wanted *service, const char *id,
		enum usher_admin_state state, struct usher_error *reterr);
int registration_remove(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr);
uint64_t registration_renew_after_usec(const void *instance);
void registration_done(struct nacos *n);
