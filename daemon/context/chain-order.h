#pragma once

/* What the order of a chain must not be: one that cannot mean what its author thinks. */

#include "chain.h"

/* Errors: EINVAL, with the place, the reason and the remedy. */
int chain_check_order(const struct chain *c, const struct service_config *service,
		struct usher_error *reterr);
/* Whether anything observes the health of the service's endpoints. */
bool service_observes_health(const struct service_config *service);
