#pragma once

/* What goes to standard output: tables, sections of "Name: value", JSON, YAML. */

#include <stdbool.h>
#include <stdio.h>

#include "ctl.h"

enum tint {
	TINT_NONE,
	TINT_GOOD,
	TINT_WARNING,
	TINT_BAD,
	TINT_DIM,
	TINT_STRONG,
};

/* The tint of a state's word: live, stale, failed, draining, proven, ... */
enum tint tint_of(const char *word);
/* Start and end of a tint; empty texts without colour. */
const char *tint_on(const struct ctl *ctl, enum tint tint);
const char *tint_off(const struct ctl *ctl, enum tint tint);

#define TABLE_COLUMNS_MAX 20

struct column {
	const char *name;
	bool right;
	bool wide; /* only with -o wide */
};

struct table;

/* columns ends with {} and outlives the table. NULL when out of memory. */
struct table *table_new(const struct ctl *ctl, const struct column *columns);
struct table *table_free(struct table *table); /* NULL is fine; returns NULL */
/* Start a row; cells are set by the column's index, and "-" otherwise. */
void table_row(struct table *table);
__attribute__((format(printf, 3, 4))) void table_cell(
		struct table *table, size_t column, const char *format, ...);
void table_tint(struct table *table, size_t column, enum tint tint);
size_t table_rows(const struct table *table);
/* To a stream, each line after `indent`. Returns an exit code. */
int table_print(struct table *table, FILE *stream, const char *indent);

DEFINE_CLEANUP(struct table, table_free);

/* The value in the format that was asked for; false when that is a table. */
bool output_is_data(const struct ctl *ctl);
int output_data(const struct ctl *ctl, json_t *value);

#define SECTION_WIDTH 24
/* "Name:   value" */
__attribute__((format(printf, 3, 4))) void section_field(
		int indent, const char *name, const char *format, ...);
/* The same with a state's word in its tint. */
void section_state(const struct ctl *ctl, int indent, const char *name, const char *word);
/* A value of any shape, its keys turned into names: {"max_age_ms": 30000} is "Max age: 30s". */
void section_value(int indent, const char *key, json_t *value);
/* Pairs of text whose names are kept as they are: metadata. */
void section_labels(int indent, json_t *labels);
