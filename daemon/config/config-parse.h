#pragma once

/* From parsed documents to a configuration; config_load() adds the reading of files. */

#include "config.h"
#include "table.h"

/* The documents in their order, the main file first; takes references. path stands for all of them.
 * Errors: as config_load, but for those of reading. */
int config_parse(const char *path, struct usher_document *const *documents, size_t count,
		struct config **ret, struct usher_error *reterr);

/* The layers that a service, or the defaults, were read from; the last is the built-in one. */
struct config_scope {
	const struct usher_node *const *layers;
	size_t count;
	const struct usher_node *place; /* what to blame when no layer says it; NULL */
};

/* Where a path of keys stands: where the files say it, or the map around it, or scope->place. The
 * built-in layer is nobody's. */
const struct usher_node *config_scope_place(
		const struct config_scope *scope, const char *const *path);

/* What the tables cannot say: contradictions between values, and names that nobody declares. */
int config_check_service(const struct config *c, const struct service_config *service,
		const struct config_scope *scope, struct usher_error *reterr);
int config_check_whole(const struct config *c, const struct config_scope *scope,
		struct usher_error *reterr);
/* The items of `registrations`; after sources and services. registration-parse.c. */
int config_read_registrations(
		struct config *c, const struct config_scope *whole, struct usher_error *reterr);
/* Free them, and what was read by the way. */
void config_registrations_done(struct config *c);
/* That each source is declared and named once. */
int config_check_feeds(const struct config *c, const struct feed_config *feeds, size_t count,
		const char *why_once, struct usher_error *reterr);
/* The part of config_check_service() that is about `health`. */
int config_check_health(const struct health_config *health, const struct config_scope *scope,
		struct usher_error *reterr);
