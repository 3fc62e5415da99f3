#pragma once

/* The kinds of things that get and describe know. */

#include "output.h"

enum kind_id {
	KIND_SERVICE,
	KIND_ENDPOINT,
	KIND_SOURCE,
	KIND_CONSUMER,
	KIND_DRAIN,
	KIND_PLUGIN,
	KIND_REGISTRATION,
};

struct kind {
	enum kind_id id;
	const char *plural, *singular;
	const char *path; /* of the list */
	const char *list; /* the name of the list in the answer */
	const char *key;  /* the name of an item's name */
	const struct column *columns;
	void (*add)(struct table *table, const json_t *item);
};

extern const struct kind kinds[]; /* ends with {} */
/* NULL after saying what there is. */
const struct kind *kind_find(const struct ctl *ctl, const char *name);

/* A number, a text, or yes and no; else the cell stays "-". */
void cell_of_value(struct table *table, size_t column, const json_t *value);
void table_add_service(struct table *table, const json_t *service);
/* The endpoints of a service, or one of them; an exit code. */
int get_endpoints(struct ctl *ctl, const char *service, const char *endpoint, json_t **ret);
