#include "table.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/un.h>

#include "config.h"
#include "ownership.h"
#include "place.h"
#include "table-values.h"

#define ROWS_MAX 64 /* of one table */

const struct usher_node *config_layers_get(
		const struct usher_node *const *layers, size_t count, const char *key)
{
	for (size_t i = 0; i < count; i++) {
		const struct usher_node *n = usher_node_get(layers[i], key);

		if (n)
			return n;
	}
	return NULL;
}

const struct usher_node **config_layers_descend(const struct usher_node *const *layers,
		size_t count, const char *key, size_t *ret_count)
{
	const struct usher_node **below = calloc(count + 1, sizeof(const struct usher_node *));
	size_t found = 0;

	if (!below)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		const struct usher_node *n = usher_node_get(layers[i], key);

		if (n)
			below[found++] = n;
	}
	*ret_count = found;
	return below;
}

static const struct config_row *find_row(const struct config_row *rows, const char *key)
{
	for (; rows->key; rows++)
		if (strcmp(rows->key, key) == 0)
			return rows;
	return NULL;
}

static int unknown_key(const struct config_row *rows, const struct usher_node *map, size_t i,
		struct usher_error *reterr)
{
	const char *words[ROWS_MAX + 1] = {};

	for (size_t w = 0; w < ROWS_MAX && rows[w].key; w++)
		words[w] = rows[w].key;
	return place_unknown_key(reterr, map, i, words);
}

static int check_keys(const struct config_row *rows, const struct usher_node *map,
		struct usher_error *reterr)
{
	if (usher_node_kind(map) == USHER_NODE_NULL)
		return 0;
	if (usher_node_kind(map) != USHER_NODE_MAP)
		return place_error(reterr, map, -EINVAL, "must be a map, not %s",
				usher_node_kind_name(map));
	for (size_t i = 0; i < usher_node_count(map); i++)
		if (!find_row(rows, usher_node_key(map, i)))
			return unknown_key(rows, map, i, reterr);
	return 0;
}

/* One key, one value, however many files name it. */
static int check_agreement(
		const struct usher_node *const *values, size_t count, struct usher_error *reterr)
{
	for (size_t i = 1; i < count; i++)
		if (!usher_node_equal(values[0], values[i]))
			return place_error(reterr, values[i], -EEXIST,
					"has another value at %s:%u:%u; keep one of the two",
					usher_document_name(usher_node_document(values[0])),
					usher_node_line(values[0]), usher_node_column(values[0]));
	return 0;
}

/* ---- tables of which there is one, or none ---- */

static bool is_none(const struct usher_node *n)
{
	return usher_node_kind(n) == USHER_NODE_SCALAR && strcmp(usher_node_text(n), "none") == 0;
}

/* `none` leaves nothing of the layers below it but the tables' own defaults, which stand last. */
static size_t hide_below_none(const struct usher_node **layers, size_t count)
{
	for (size_t i = 0; i + 1 < count; i++)
		if (is_none(layers[i])) {
			layers[i] = layers[count - 1];
			return i + 1;
		}
	return count;
}

static int two_kinds(const struct config_row *rows, const struct usher_node *map, size_t i,
		const struct usher_node *first, struct usher_error *reterr)
{
	const char *words[ROWS_MAX + 1] = {};
	char list[USHER_ERROR_TEXT_MAX / 2];
	size_t count = 0;

	for (; rows->key && count < ROWS_MAX; rows++)
		if (rows->kind)
			words[count++] = rows->key;
	return place_key_error(reterr, map, i, -EEXIST,
			"\"%s\" cannot be beside what is at %s:%u:%u; keep one of %s",
			usher_node_key(map, i), usher_document_name(usher_node_document(first)),
			usher_node_line(first), usher_node_column(first),
			place_list(words, list, sizeof(list)));
}

static int check_kinds(const struct config_row *rows, const struct usher_node *const *layers,
		size_t count, struct usher_error *reterr)
{
	const struct config_row *kind = NULL;
	const struct usher_node *first = NULL;

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < usher_node_count(layers[i]); k++) {
			const struct config_row *row = find_row(rows, usher_node_key(layers[i], k));

			if (!row || !row->kind || row == kind)
				continue;
			if (kind)
				return two_kinds(rows, layers[i], k, first, reterr);
			kind = row;
			first = usher_node_key_node(layers[i], k);
		}
	return 0;
}

/* The table with a kind that is read, or NULL: no layer has one. */
static const struct config_row *decide_kind(
		const struct config_row *rows, const struct usher_node *const *layers, size_t count)
{
	for (size_t i = 0; i + 1 < count; i++)
		for (const struct config_row *row = rows; row->key; row++)
			if (row->kind && usher_node_get(layers[i], row->key))
				return row;
	return NULL;
}

static unsigned *kind_field(const struct config_row *row, void *target)
{
	return (void *) ((char *) target + row->kind_offset);
}

/* ---- whole tables ---- */

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tables */
static int check_row(const struct config_row *row, const struct usher_node *const *values,
		size_t count, struct usher_error *reterr)
{
	if (row->type != ROW_TABLE)
		return check_agreement(values, count, reterr);
	for (size_t i = 0; row->none && i < count; i++) {
		if (is_none(values[i]))
			return check_agreement(values, count, reterr);
		if (usher_node_kind(values[i]) == USHER_NODE_SCALAR)
			return place_error(reterr, values[i], -EINVAL,
					"must be a map or \"none\", not \"%s\"",
					usher_node_text(values[i]));
	}
	return config_table_check(row->table, values, count, reterr);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tables */
int config_table_check(const struct config_row *rows, const struct usher_node *const *layers,
		size_t count, struct usher_error *reterr)
{
	int r;

	for (size_t i = 0; i < count; i++) {
		r = check_keys(rows, layers[i], reterr);
		if (r < 0)
			return r;
	}
	r = check_kinds(rows, layers, count, reterr);
	if (r < 0)
		return r;
	for (; rows->key; rows++) {
		autofree const struct usher_node **values = NULL;
		size_t values_count = 0;

		if (rows->type == ROW_ITEMS)
			continue;
		values = config_layers_descend(layers, count, rows->key, &values_count);
		if (!values)
			return usher_error_set(reterr, -ENOMEM, "out of memory");
		r = check_row(rows, values, values_count, reterr);
		if (r < 0)
			return r;
	}
	return 0;
}

int config_row_read(const struct config_row *row, const struct usher_node *n, void *target,
		struct usher_error *reterr)
{
	void *field = (char *) target + row->offset;

	switch (row->type) {
	case ROW_TEXT:
		return config_read_text(n, field, reterr);
	case ROW_NAME:
		return config_read_name(n, field, reterr);
	case ROW_PATH:
		return config_read_path(n, PATH_MAX - 1, field, reterr);
	case ROW_SOCKET:
		return config_read_path(
				n, sizeof(((struct sockaddr_un *) 0)->sun_path) - 1, field, reterr);
	case ROW_LISTEN:
		return config_read_listen(n, field, reterr);
	case ROW_WORD:
		return config_read_word(row, n, field, reterr);
	case ROW_CHOICE:
		return config_read_choice(row, n, field, reterr);
	case ROW_MODE:
		return config_read_mode(n, field, reterr);
	case ROW_BOOL:
		return config_read_bool(n, field, reterr);
	case ROW_COUNT:
		return config_read_count(row, n, field, reterr);
	case ROW_PORT:
		return config_read_port(n, field, reterr);
	case ROW_DURATION:
		return config_read_duration(row, n, field, reterr);
	case ROW_SHARE:
		return config_read_share(n, field, reterr);
	case ROW_PATHS:
		return config_read_paths(n, field, reterr);
	case ROW_FORM:
		return row->form->read(n, field, reterr);
	case ROW_TABLE:
	case ROW_ITEMS:
		break;
	}
	assert(false); /* a row that is not one value */
	return -EINVAL;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tables */
static int read_below(const struct config_row *row, const struct usher_node *const *layers,
		size_t count, void *target, struct usher_error *reterr)
{
	autofree const struct usher_node **below = NULL;
	size_t below_count = 0;

	below = config_layers_descend(layers, count, row->key, &below_count);
	if (!below)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	if (row->none)
		below_count = hide_below_none(below, below_count);
	if (row->kind)
		*kind_field(row, target) = row->kind;
	return config_table_read(
			row->table, below, below_count, (char *) target + row->offset, reterr);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tables */
int config_table_read(const struct config_row *rows, const struct usher_node *const *layers,
		size_t count, void *target, struct usher_error *reterr)
{
	const struct config_row *kind = decide_kind(rows, layers, count);
	int r = 0;

	for (; rows->key && r >= 0; rows++) {
		const struct usher_node *n;

		if (rows->type == ROW_ITEMS || (rows->kind && rows != kind))
			continue;
		if (rows->type == ROW_TABLE) {
			r = read_below(rows, layers, count, target, reterr);
			continue;
		}
		n = config_layers_get(layers, count, rows->key);
		if (n)
			r = config_row_read(rows, n, target, reterr);
		else if (rows->required)
			r = place_error(reterr, count > 0 ? layers[0] : NULL, -EINVAL,
					"\"%s\" is missing: %s", rows->key, rows->help);
	}
	return r < 0 ? r : 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tables */
void config_table_done(const struct config_row *rows, void *target)
{
	for (; rows->key; rows++) {
		void *field = (char *) target + rows->offset;

		switch (rows->type) {
		case ROW_TEXT:
		case ROW_NAME:
		case ROW_PATH:
		case ROW_SOCKET:
		case ROW_LISTEN:
		case ROW_WORD:
			freep(field);
			break;
		case ROW_PATHS:
			config_texts_free(*(char ***) field);
			break;
		case ROW_TABLE: /* kinds may share fields, and only one was read */
			if (!rows->kind || *kind_field(rows, target) == rows->kind)
				config_table_done(rows->table, field);
			break;
		case ROW_FORM:
			if (rows->form->done)
				rows->form->done(field);
			break;
		case ROW_CHOICE:
		case ROW_MODE:
		case ROW_BOOL:
		case ROW_COUNT:
		case ROW_PORT:
		case ROW_DURATION:
		case ROW_SHARE:
		case ROW_ITEMS:
			break;
		}
	}
}
