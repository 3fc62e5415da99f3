#pragma once

/* What one well-formed file says: its services, in the order of their names. Immutable once read.
 */

#include <stddef.h>

#include "format.h"
#include "text.h"

#define CATALOG_PARTS_MAX 200000 /* slices, groups or services in one file */

struct catalog_service {
	const char *name;            /* the catalog's */
	unsigned line, column;       /* where the file first names it */
	size_t first, count;         /* of the catalog's parts */
	struct usher_endpoints *set; /* sealed; NULL where the wanted port has a say */
};

struct catalog {
	const struct format *format;
	struct usher_document *document; /* NULL: let go of, and the parts with it */
	struct part *parts; /* sorted by service; those of one in the order of the file */
	size_t part_count, part_space;
	struct catalog_service *services;
	size_t service_count;
	char **names; /* owned names of parts that the document does not hold */
	size_t name_count, name_space;
	char *kept_names; /* of the services, where the document has been let go of */
};

/* Read a text. Errors: EBADMSG (no YAML, cut off, empty, none of the formats, malformed), EINVAL,
 * ERANGE, EEXIST (a name or an id twice), E2BIG, ENOMEM; each with the place and what to do. */
int catalog_read(const char *path, const struct file_text *text, enum format_choice choice,
		const struct format_options *options, struct catalog **ret,
		struct usher_error *reterr);
struct catalog *catalog_free(struct catalog *c); /* NULL is fine; returns NULL */

/* Let go of the document, which is ten times the size of what it says, where all that will be asked
 * for is known: the sets, and where the services stand. Where a set depends on the port that is
 * wanted, or on other files, it stays. Errors: ENOMEM; then nothing has changed. */
int catalog_forget_document(struct catalog *c);

/* Share the sets that say the same in the catalog before, which the host still holds. */
void catalog_share_sets(struct catalog *c, const struct catalog *before);

/* NULL: not in it. */
const struct catalog_service *catalog_find(const struct catalog *c, const char *service);

/* For the formats: add a part. The name is borrowed from the document. E2BIG, ENOMEM. */
int catalog_add(struct catalog *c, const char *service, const struct usher_node *node,
		struct usher_error *reterr);
/* A name that the document does not hold, kept as long as the catalog. NULL when out of memory. */
__attribute__((format(printf, 2, 3))) const char *catalog_name(
		struct catalog *c, const char *format, ...);
