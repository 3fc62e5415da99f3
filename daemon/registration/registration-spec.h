#pragma once

/* What is to be registered, made ready: where, under which names, and the check that it waits for.
 * Immutable, reference counted. */

#include "check.h"
#include "loader.h"
#include "registration-config.h"

struct registration_spec {
	unsigned refs;
	struct config *config;           /* a reference: under which it was read */
	struct registration_config *own; /* of the API; NULL: it is one of the configuration's */
	const struct registration_config *what;
	const struct feed_config *places; /* the registries: at least one */
	size_t place_count;
	struct check *check; /* NULL: it waits for none */
};

/* what is one of config's, or own, which is taken on success. Errors: EINVAL (a source whose
 * plug-in cannot register, or none that can; a check that cannot be), what plugins_find says,
 * ENOMEM; with the place. */
int registration_spec_new(struct plugins *plugins, struct config *config,
		const struct registration_config *what, struct registration_config *own,
		struct registration_spec **ret, struct usher_error *reterr);
struct registration_spec *registration_spec_ref(struct registration_spec *s);
struct registration_spec *registration_spec_unref(struct registration_spec *s);
