#pragma once

/* The slices of one service, put together into one set of endpoints. */

#include "format.h"

/* The slices must have been checked. Errors: EBADMSG (there are endpoints, but none that can be
 * used, which is no empty service), ENOENT (no slice has the wanted port), E2BIG, ENOMEM; with the
 * place. */
int kubernetes_endpoints(struct usher_endpoints *set, const struct part *parts, size_t count,
		const char *port, struct usher_error *reterr);

/* Of a slice; "" when it does not say. */
const char *kubernetes_namespace(const struct usher_node *slice);
