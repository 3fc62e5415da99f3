#pragma once

/* The services that are wanted, and what is said of each after an answer. */

#include "eureka.h"
#include "registry.h"

struct service {
	char *service, *name, *port; /* as wanted; port may be NULL */
	uint64_t key;
	bool wanted, told;           /* told: of what there is now */
	size_t skipped;              /* that were told of in the log */
	struct usher_endpoints *set; /* the last that was offered */
};

struct services {
	struct service *items;
	size_t count;
};

/* After an answer. */
struct services_news {
	const struct eureka *eureka;
	const struct registry *registry;
	struct usher_source *source;
	const char *server;     /* that gave it */
	const char *revision;   /* its word for it */
	uint64_t observed_usec; /* of what it lists */
	bool young;             /* it may have been started a moment ago, and not know of all yet */
};

void services_done(struct services *s);
/* Take over what is wanted now. ENOMEM, and all is as before. */
int services_take(struct services *s, struct usher_source *source);
/* Offer or confirm each, or say why neither can be. */
void services_tell(struct services *s, const struct services_news *news);
/* The same for those alone that have not been told of yet. */
void services_tell_new(struct services *s, const struct services_news *news);
