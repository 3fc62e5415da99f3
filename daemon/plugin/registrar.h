#pragma once

/* What a registry is told, one thing at a time, in a thread of the source's own that starts with
 * the first. source.h has the contract. */

#include "source.h"

struct registrar;

struct registration {
	enum source_registration what;
	struct usher_wanted service;
	const struct usher_endpoint *endpoint;
	const char *id;
	enum usher_admin_state state;
	const struct usher_drain_progress *progress; /* of SOURCE_PROGRESS */
};

/* Errors: ENOMEM. */
int registrar_new(const char *source, struct plugin_instance *instance, struct inbox *inbox,
		struct registrar **ret);
void registrar_ask_to_stop(struct registrar *registrar);
/* Every job that waits is answered with ECANCELED; the thread is waited for until then. */
void registrar_stop(struct registrar *registrar, uint64_t until_usec);
struct registrar *registrar_free(struct registrar *registrar); /* after the stop; NULL is fine */

bool registrar_can(const struct registrar *registrar, enum source_registration what);
uint64_t registrar_renew_after_usec(const struct registrar *registrar);
/* Copies. NULL when out of memory, when too many wait, or after the stop. */
struct registration_job *registrar_add(struct registrar *registrar,
		const struct registration *registration, source_registered done, void *userdata);
