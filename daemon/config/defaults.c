#include "defaults.h"

#include <errno.h>
#include <string.h>

#include "text.h"

#define DEFAULTS_NAME "built-in defaults"

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tables */
static void add_rows(const struct config_row *rows, struct text *text)
{
	const char *glue = "";

	text_add_string(text, "{");
	for (; rows->key; rows++) {
		if (rows->type != ROW_TABLE && !rows->default_text)
			continue;
		text_add_format(text, "%s%s: ", glue, rows->key);
		if (rows->type == ROW_TABLE)
			add_rows(rows->table, text);
		else
			text_add_string(text, rows->default_text);
		glue = ", ";
	}
	text_add_string(text, "}");
}

char *config_defaults_text(const struct config_row *rows)
{
	struct text text = {};

	add_rows(rows, &text);
	return text_take(&text);
}

int config_defaults_parse(const struct config_row *rows, struct usher_document **ret,
		struct usher_error *reterr)
{
	autofree char *text = config_defaults_text(rows);

	if (!text)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	return usher_document_parse(DEFAULTS_NAME, text, strlen(text), ret, reterr);
}
