#pragma once

/* Tables of what people may type, and the one loader that reads any of them.
 *
 * A table says for each key of a map what its value is, where it goes in a struct, what holds when
 * it is absent, and what it is for. Reading, checking, merging, freeing, the schema and the
 * reference all follow the table.
 *
 * Values are looked up in layers: maps of the same shape, of which the first that has a key wins. A
 * service is read from its own map, then from the defaults of the files, then from the defaults of
 * the tables; so it overrides key by key, however deep. The last layer is always that of the
 * tables' own defaults, where those have any: it has every table, of each kind. */

#include <stddef.h>
#include <stdint.h>
#include <usher/document.h>

enum config_row_type {
	ROW_TEXT,     /* char *, not empty */
	ROW_NAME,     /* char *, config_check_name() */
	ROW_PATH,     /* char *, absolute */
	ROW_SOCKET,   /* char *, absolute, and fits sockaddr_un */
	ROW_LISTEN,   /* char *, ADDRESS:PORT */
	ROW_WORD,     /* char *, one of choices */
	ROW_CHOICE,   /* an enum, the index in choices */
	ROW_MODE,     /* mode_t */
	ROW_BOOL,     /* bool */
	ROW_COUNT,    /* unsigned, min..max */
	ROW_PORT,     /* uint16_t, 1..65535 */
	ROW_DURATION, /* uint64_t microseconds, min..max */
	ROW_SHARE,    /* double, 0..1 */
	ROW_PATHS,    /* char **, NULL-terminated, absolute */
	ROW_TABLE,    /* a map, read by a table of its own */
	ROW_FORM,     /* what no other type can say */
	ROW_ITEMS,    /* sources and services: whoever owns them reads them */
};

/* A value with a shape of its own. field is at the row's offset. */
struct config_form {
	int (*read)(const struct usher_node *n, void *field, struct usher_error *reterr);
	void (*done)(void *field); /* NULL: nothing to free */
	const char *definition;    /* its name in the schema's definitions, and in the reference */
};

struct config_row {
	const char *key; /* NULL ends the table */
	enum config_row_type type;
	unsigned offset;          /* in the struct; of a table: added to those of its rows */
	const char *default_text; /* as YAML; NULL: the field stays zero */
	const char *help;         /* one sentence, for the schema and the reference */
	uint64_t min, max;
	const char *const *choices; /* NULL-terminated */
	const struct config_row *table;
	const struct config_form *form;
	bool required;
	bool elsewhere; /* a table whose rows the reference tells where they come first */
	bool none;      /* a table: `none` in place of the map hides what the layers below it say */
	unsigned kind;  /* a table: of all tables of a map that have a kind (not 0), there is one at
			   most. The first layer that has one decides which is read; its kind goes
			   to the enum at kind_offset. */
	unsigned kind_offset;
};

/* Whether each layer has only keys of the table and no two layers give one key two values; all the
 * way down. Sources and services are not looked into. */
int config_table_check(const struct config_row *rows, const struct usher_node *const *layers,
		size_t count, struct usher_error *reterr);
/* Read every row from the first layer that has it. The fields are zero before, or what a default
 * put there. */
int config_table_read(const struct config_row *rows, const struct usher_node *const *layers,
		size_t count, void *target, struct usher_error *reterr);
/* Read one value. */
int config_row_read(const struct config_row *row, const struct usher_node *n, void *target,
		struct usher_error *reterr);
/* Free what the rows own; the struct itself is the caller's. */
void config_table_done(const struct config_row *rows, void *target);

/* The first layer's value of a key, or NULL. */
const struct usher_node *config_layers_get(
		const struct usher_node *const *layers, size_t count, const char *key);
/* The layers' values of a key, those that have it, to be freed; NULL when out of memory. */
const struct usher_node **config_layers_descend(const struct usher_node *const *layers,
		size_t count, const char *key, size_t *ret_count);

/* A copy of a text of at least one byte. */
int config_read_text(const struct usher_node *n, char **ret, struct usher_error *reterr);
