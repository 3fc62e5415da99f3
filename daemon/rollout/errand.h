#pragma once

/* A job for a worker thread whose owner may stop caring about it.
 *
 * Embed at the start of what the job needs. `run` sees only its errand; `finished` is called on the
 * core, unless the owner has forgotten it; `release` frees it in any case. When the worker goes
 * first, `finished` is called for what never ran: an errand's result starts as -ECANCELED. */

#include "worker.h"

struct errand {
	struct job job;
	void (*run)(struct errand *errand);
	void (*finished)(void *userdata, struct errand *errand);
	void (*release)(struct errand *errand);
	void *userdata;
};

/* Takes the errand, also when it fails. Errors: EAGAIN. */
int errand_start(struct errand *errand, struct worker *worker);
/* NULL is fine; returns NULL. */
void *errand_forget(struct errand *errand);
