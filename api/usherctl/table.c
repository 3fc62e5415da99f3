#include <errno.h>
#include <libsmartcols/libsmartcols.h>
#include <stdarg.h>
#include <string.h>

#include "human.h"
#include "output.h"

static const char *const tints[] = {
	[TINT_NONE] = "",
	[TINT_GOOD] = "\033[32m",
	[TINT_WARNING] = "\033[33m",
	[TINT_BAD] = "\033[31m",
	[TINT_DIM] = "\033[2m",
	[TINT_STRONG] = "\033[1m",
};

static const struct {
	const char *word;
	enum tint tint;
} words[] = {
	{ "live", TINT_GOOD },
	{ "ready", TINT_GOOD },
	{ "proven", TINT_GOOD },
	{ "up", TINT_GOOD },
	{ "measured", TINT_GOOD },
	{ "done", TINT_GOOD },
	{ "registered", TINT_GOOD },
	{ "waiting_for_health", TINT_WARNING },
	{ "leaving", TINT_WARNING },
	{ "failing", TINT_BAD },
	{ "unhealthy", TINT_BAD },
	{ "removed", TINT_DIM },
	{ "assumed", TINT_WARNING },
	{ "draining", TINT_WARNING },
	{ "maintenance", TINT_WARNING },
	{ "running", TINT_WARNING },
	{ "cancelling", TINT_WARNING },
	{ "forced", TINT_WARNING },
	{ "partial", TINT_WARNING },
	{ "stale", TINT_WARNING },
	{ "starting", TINT_WARNING },
	{ "reloading", TINT_WARNING },
	{ "degraded", TINT_WARNING },
	{ "estimated", TINT_WARNING },
	{ "down", TINT_BAD },
	{ "ejected", TINT_BAD },
	{ "held", TINT_BAD },
	{ "failed", TINT_BAD },
	{ "denied", TINT_BAD },
	{ "unknown", TINT_BAD },
	{ "skipped", TINT_DIM },
	{ "pending", TINT_DIM },
	{ "cancelled", TINT_DIM },
};

enum tint tint_of(const char *word)
{
	for (size_t i = 0; i < ELEMENTS(words); i++)
		if (strcmp(words[i].word, word) == 0)
			return words[i].tint;
	return TINT_NONE;
}

const char *tint_on(const struct ctl *ctl, enum tint tint)
{
	return ctl->color ? tints[tint] : "";
}

const char *tint_off(const struct ctl *ctl, enum tint tint)
{
	return ctl->color && tint != TINT_NONE ? "\033[0m" : "";
}

struct table {
	struct libscols_table *scols;
	struct libscols_line *line;
	int positions[TABLE_COLUMNS_MAX]; /* of our columns in scols; -1: not shown */
	size_t columns, rows;
	bool failed;
};

static void table_set_up(struct table *table, const struct ctl *ctl)
{
	(void) scols_table_enable_colors(table->scols, ctl->color);
	(void) scols_table_set_column_separator(table->scols, "   ");
	(void) scols_table_enable_nowrap(table->scols, 1);
	(void) scols_table_set_termforce(
			table->scols, ctl->terminal ? SCOLS_TERMFORCE_AUTO : SCOLS_TERMFORCE_NEVER);
	(void) scols_table_enable_noencoding(table->scols, 0);
}

struct table *table_new(const struct ctl *ctl, const struct column *columns)
{
	cleanup(table_freep) struct table *table = calloc(1, sizeof(*table));
	int position = 0;

	if (!table)
		return NULL;
	scols_init_debug(0);
	table->scols = scols_new_table();
	if (!table->scols)
		return NULL;
	table_set_up(table, ctl);
	for (; columns->name && table->columns < TABLE_COLUMNS_MAX; columns++) {
		bool shown = !columns->wide || ctl->options.output == OUTPUT_WIDE;

		table->positions[table->columns++] = shown ? position++ : -1;
		if (shown &&
				!scols_table_new_column(table->scols, columns->name, 0,
						columns->right ? SCOLS_FL_RIGHT : 0))
			return NULL;
	}
	return take(table);
}

struct table *table_free(struct table *table)
{
	if (!table)
		return NULL;
	scols_unref_table(table->scols);
	free(table);
	return NULL;
}

void table_row(struct table *table)
{
	table->line = scols_table_new_line(table->scols, NULL);
	table->rows++;
	table->failed = table->failed || !table->line;
	for (size_t i = 0; i < table->columns; i++)
		table_cell(table, i, "-");
}

void table_cell(struct table *table, size_t column, const char *format, ...)
{
	autofree char *text = NULL;
	va_list args;
	int r;

	if (table->failed || table->positions[column] < 0)
		return;
	va_start(args, format);
	r = vasprintf(&text, format, args);
	va_end(args);
	table->failed = r < 0 ||
			scols_line_set_data(table->line, (size_t) table->positions[column],
					human_printable(text)) != 0;
}

void table_tint(struct table *table, size_t column, enum tint tint)
{
	struct libscols_cell *cell;

	if (table->failed || table->positions[column] < 0 || tint == TINT_NONE)
		return;
	cell = scols_line_get_cell(table->line, (size_t) table->positions[column]);
	(void) scols_cell_set_color(cell, tints[tint]);
}

size_t table_rows(const struct table *table)
{
	return table->rows;
}

/* libsmartcols fills the last column with blanks where it is coloured; nobody wants them in a file.
 */
static void print_lines(const char *text, FILE *stream, const char *indent)
{
	while (*text) {
		size_t length = strcspn(text, "\n"), shown = length;

		while (shown > 0 && text[shown - 1] == ' ')
			shown--;
		(void) fprintf(stream, "%s%.*s\n", indent, (int) shown, text);
		text += length + (text[length] == '\n');
	}
}

int table_print(struct table *table, FILE *stream, const char *indent)
{
	autofree char *text = NULL;

	if (!table || table->failed || scols_print_table_to_string(table->scols, &text) != 0)
		return ctl_fail(EXIT_FAILED, "out of memory");
	if (text)
		print_lines(text, stream, indent);
	return EXIT_DONE;
}
