#pragma once

/* usher's own format, as files hold it and programs print it:
 *
 *     services:
 *       catalog:
 *         - {id: catalog-a, address: 10.0.0.5, port: 8080, zone: east, weight: 2}
 *       search: []
 *
 * Unknown keys are errors: a misspelt `terminatng: true` must not be taken for a ready endpoint.
 * All texts are the document's. Errors: EBADMSG, EINVAL, ERANGE, EEXIST, E2BIG, ENOMEM, with the
 * place.
 */

#include <usher/document.h>
#include <usher/endpoint.h>

/* The map of services, each of which is a list. what: names the whole in an error ("the file"). */
int usher_format_services(const struct usher_node *root, const char *what,
		const struct usher_node **ret, struct usher_error *reterr);
/* One endpoint. labels: USHER_METADATA_MAX, for its metadata. */
int usher_format_read(const struct usher_node *n, struct usher_endpoint *ret,
		struct usher_label *labels, struct usher_error *reterr);
/* Add all endpoints of a list. */
int usher_format_build(struct usher_endpoints *set, const struct usher_node *list,
		struct usher_error *reterr);
