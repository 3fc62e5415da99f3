#pragma once

/* Changing one endpoint in a text of usher's own format, and leaving every other line as it is.
 *
 * The text is edited where the parsed document says that things stand, not written anew from it: so
 * comments, order and layout of all else survive. Not every layout can be edited so; whoever calls
 * parses the result and compares it with what was meant before it counts. */

#include <stddef.h>
#include <usher/document.h>
#include <usher/endpoint.h>

/* A new text. Errors: ENOTSUP (a layout that cannot be edited), ENOMEM. */
struct edit_text {
	char *bytes; /* size bytes and a NUL */
	size_t size;
};

/* services is the map of that name in the document that the text was parsed into, list the
 * service's own in it, item the index of an endpoint. */

/* Add an endpoint behind the others of the list. */
int edit_append(const struct edit_text *text, const struct usher_node *services,
		const struct usher_node *list, const struct usher_endpoint *endpoint,
		struct edit_text *ret);
/* Add a service with one endpoint. */
int edit_add_service(const struct edit_text *text, const struct usher_node *services,
		const char *service, const struct usher_endpoint *endpoint, struct edit_text *ret);
int edit_replace(const struct edit_text *text, const struct usher_node *list, size_t item,
		const struct usher_endpoint *endpoint, struct edit_text *ret);
/* Take an endpoint out; a list that has no other says `[]` from then on. */
int edit_remove(const struct edit_text *text, const struct usher_node *services,
		const struct usher_node *list, size_t item, struct edit_text *ret);
int edit_set_state(const struct edit_text *text, const struct usher_node *list, size_t item,
		enum usher_admin_state state, struct edit_text *ret);
