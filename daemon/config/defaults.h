#pragma once

/* The defaults of a table as a document in the shape of the file: the last layer that is looked at.
 */

#include "ownership.h"
#include "table.h"

DEFINE_CLEANUP(struct usher_document, usher_document_unref);

/* A YAML text, to be freed; NULL when out of memory. Sources and services have none. */
char *config_defaults_text(const struct config_row *rows);
int config_defaults_parse(const struct config_row *rows, struct usher_document **ret,
		struct usher_error *reterr);
