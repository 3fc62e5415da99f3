#include "layout.h"

#include <string.h>

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_break(char c)
{
	return c == '\n' || c == '\r';
}

/* Columns count characters, and a document's lines end where YAML says: the three rarer ends of
 * lines are not looked for, which the check of the result would find out. */
size_t layout_offset(const struct layout *l, const struct usher_node *n)
{
	unsigned line = usher_node_line(n), column = usher_node_column(n);
	size_t at = 0;

	for (; line > 1; line--) {
		at = layout_line_end(l, at);
		if (at == l->size)
			return LAYOUT_NOWHERE;
	}
	for (; column > 1 && at < l->size; column--) {
		at++;
		while (at < l->size && ((unsigned char) l->bytes[at] & 0xc0) == 0x80)
			at++;
	}
	return at < l->size ? at : LAYOUT_NOWHERE;
}

size_t layout_line_start(const struct layout *l, size_t at)
{
	while (at > 0 && !is_break(l->bytes[at - 1]))
		at--;
	return at;
}

size_t layout_line_end(const struct layout *l, size_t at)
{
	while (at < l->size && !is_break(l->bytes[at]))
		at++;
	if (at + 1 < l->size && l->bytes[at] == '\r' && l->bytes[at + 1] == '\n')
		at++;
	return at < l->size ? at + 1 : at;
}

bool layout_is_first_in_line(const struct layout *l, size_t at)
{
	while (at > 0 && is_blank(l->bytes[at - 1]))
		at--;
	return at == 0 || is_break(l->bytes[at - 1]);
}

bool layout_is_last_in_line(const struct layout *l, size_t at)
{
	bool after_blank = false;

	for (; at < l->size && is_blank(l->bytes[at]); at++)
		after_blank = true;
	return at == l->size || is_break(l->bytes[at]) || (after_blank && l->bytes[at] == '#');
}

size_t layout_quote_end(const struct layout *l, size_t at)
{
	char quote = l->bytes[at];

	for (at++; at < l->size; at++) {
		bool is_pair = at + 1 < l->size && quote == '\'' && l->bytes[at] == quote &&
				l->bytes[at + 1] == quote;

		if (is_pair || (quote == '"' && l->bytes[at] == '\\'))
			at++;
		else if (l->bytes[at] == quote)
			return at + 1;
	}
	return LAYOUT_NOWHERE;
}

/* Where something begins: a quote inside a plain text, as in it's, is none. */
static bool begins_here(const struct layout *l, size_t at)
{
	return at == 0 || is_blank(l->bytes[at - 1]) || is_break(l->bytes[at - 1]) ||
			strchr("[{,:", l->bytes[at - 1]);
}

size_t layout_flow_end(const struct layout *l, size_t at)
{
	size_t depth = 0;

	while (at < l->size) {
		char c = l->bytes[at];

		if ((c == '"' || c == '\'') && begins_here(l, at)) {
			at = layout_quote_end(l, at);
			if (at == LAYOUT_NOWHERE)
				return at;
			continue;
		}
		if (c == '#' && (is_blank(l->bytes[at - 1]) || is_break(l->bytes[at - 1]))) {
			at = layout_line_end(l, at);
			continue;
		}
		if (c == '[' || c == '{')
			depth++;
		if ((c == ']' || c == '}') && --depth == 0)
			return at + 1;
		at++;
	}
	return LAYOUT_NOWHERE;
}

size_t layout_dash(const struct layout *l, size_t at)
{
	while (at > 0 && (is_blank(l->bytes[at - 1]) || is_break(l->bytes[at - 1])))
		at--;
	if (at == 0 || l->bytes[at - 1] != '-' || !layout_is_first_in_line(l, at - 1))
		return LAYOUT_NOWHERE;
	return at - 1;
}

/* The first byte of a line that is no blank. */
static size_t text_of_line(const struct layout *l, size_t at)
{
	while (at < l->size && is_blank(l->bytes[at]))
		at++;
	return at;
}

/* An item goes on through lines that are further in than its dash; blank ones and comments that are
 * not, belong to what follows. */
size_t layout_item_end(const struct layout *l, size_t dash)
{
	size_t indent = dash - layout_line_start(l, dash);
	size_t line = layout_line_end(l, dash), end;
	size_t value = text_of_line(l, dash + 1);

	if (value < l->size && (l->bytes[value] == '{' || l->bytes[value] == '[')) {
		value = layout_flow_end(l, value);
		if (value == LAYOUT_NOWHERE)
			return LAYOUT_NOWHERE;
		return layout_line_end(l, value);
	}
	for (end = line; line < l->size; line = layout_line_end(l, line)) {
		size_t text = text_of_line(l, line);

		if (text == l->size || is_break(l->bytes[text]))
			continue;
		if (text - line <= indent)
			break;
		end = layout_line_end(l, line);
	}
	return end;
}

size_t layout_colon_end(const struct layout *l, size_t at)
{
	if (l->bytes[at] == '"' || l->bytes[at] == '\'') {
		at = layout_quote_end(l, at);
		if (at == LAYOUT_NOWHERE)
			return at;
		at = text_of_line(l, at);
		return at < l->size && l->bytes[at] == ':' ? at + 1 : LAYOUT_NOWHERE;
	}
	for (; at < l->size && !is_break(l->bytes[at]); at++)
		if (l->bytes[at] == ':' &&
				(at + 1 == l->size || is_blank(l->bytes[at + 1]) ||
						is_break(l->bytes[at + 1])))
			return at + 1;
	return LAYOUT_NOWHERE;
}
