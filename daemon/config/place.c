#include "place.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WORDS_MAX 256 /* bytes of a list of words in a message */

struct step {
	const struct usher_node *node;
	size_t next;
};

/* The way from the root to n: steps[i].next - 1 is where it goes on in steps[i].node. Returns its
 * length, 0 for the root. */
static size_t find_steps(const struct usher_node *n, struct step *steps)
{
	const struct usher_node *root = usher_document_root(usher_node_document(n));
	size_t depth = 0;

	if (root == n)
		return 0;
	steps[depth++] = (struct step){ root, 0 };
	while (depth > 0) {
		struct step *top = &steps[depth - 1];
		const struct usher_node *child;

		if (top->next == usher_node_count(top->node)) {
			depth--;
			continue;
		}
		child = usher_node_at(top->node, top->next);
		top->next++;
		if (child == n)
			return depth;
		if (usher_node_kind(top->node) == USHER_NODE_MAP &&
				usher_node_key_node(top->node, top->next - 1) == n)
			return depth;
		if (usher_node_count(child) > 0 && depth < USHER_DOCUMENT_DEPTH_MAX)
			steps[depth++] = (struct step){ child, 0 };
	}
	return 0;
}

const char *place_path(const struct usher_node *n, char *ret)
{
	struct step steps[USHER_DOCUMENT_DEPTH_MAX];
	size_t depth = find_steps(n, steps);
	size_t length = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < depth && length < PLACE_PATH_MAX; i++) {
		const struct usher_node *node = steps[i].node;
		size_t at = steps[i].next - 1;
		int written;

		if (usher_node_kind(node) == USHER_NODE_MAP)
			written = snprintf(ret + length, PLACE_PATH_MAX - length, "%s%s",
					i > 0 ? "." : "", usher_node_key(node, at));
		else
			written = snprintf(ret + length, PLACE_PATH_MAX - length, "[%zu]", at);
		if (written > 0)
			length += (size_t) written;
	}
	return ret;
}

static int set_error(struct usher_error *reterr, const struct usher_node *at,
		const struct usher_node *path_of, int code, const char *text)
{
	char path[PLACE_PATH_MAX];

	place_path(path_of, path);
	return usher_node_error(reterr, at, code, "%s%s%s", path, path[0] ? ": " : "", text);
}

int place_error(struct usher_error *reterr, const struct usher_node *n, int code,
		const char *format, ...)
{
	char text[USHER_ERROR_TEXT_MAX];
	va_list arguments;

	if (!reterr)
		return code;
	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (!n)
		return usher_error_set(reterr, code, "%s", text);
	return set_error(reterr, n, n, code, text);
}

int place_key_error(struct usher_error *reterr, const struct usher_node *map, size_t i, int code,
		const char *format, ...)
{
	char text[USHER_ERROR_TEXT_MAX];
	va_list arguments;

	if (!reterr)
		return code;
	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return set_error(reterr, usher_node_key_node(map, i), map, code, text);
}

int place_add_path(struct usher_error *reterr, const struct usher_node *n, int code)
{
	char place[USHER_ERROR_TEXT_MAX], text[USHER_ERROR_TEXT_MAX];
	const char *rest = text;
	size_t length;

	if (!reterr)
		return code;
	(void) snprintf(place, sizeof(place),
			"%s:%u:%u: ", usher_document_name(usher_node_document(n)),
			usher_node_line(n), usher_node_column(n));
	length = strlen(place);
	(void) snprintf(text, sizeof(text), "%s", usher_error_text(reterr, code));
	if (strncmp(text, place, length) == 0)
		rest = text + length;
	return set_error(reterr, n, n, code, rest);
}

const char *place_list(const char *const *words, char *ret, size_t size)
{
	size_t length = 0;

	ret[0] = '\0';
	for (size_t i = 0; words[i]; i++) {
		const char *glue = i == 0 ? "" : words[i + 1] ? ", " : " and ";

		if (length + strlen(glue) + strlen(words[i]) + sizeof(", ...") > size) {
			(void) snprintf(ret + length, size - length, ", ...");
			return ret;
		}
		length += (size_t) snprintf(ret + length, size - length, "%s%s", glue, words[i]);
	}
	return ret;
}

int place_unknown_key(struct usher_error *reterr, const struct usher_node *map, size_t i,
		const char *const *words)
{
	const char *key = usher_node_key(map, i);
	const char *nearest = usher_nearest_word(key, words);
	char known[WORDS_MAX];

	if (nearest)
		return place_key_error(reterr, map, i, -EINVAL,
				"unknown key \"%s\"; did you mean \"%s\"?", key, nearest);
	if (!words[0])
		return place_key_error(reterr, map, i, -EINVAL,
				"unknown key \"%s\"; none is known here", key);
	return place_key_error(reterr, map, i, -EINVAL, "unknown key \"%s\"; known are %s", key,
			place_list(words, known, sizeof(known)));
}

int place_unknown_word(struct usher_error *reterr, const struct usher_node *n, const char *what,
		const char *const *words)
{
	const char *text = usher_node_text(n);
	const char *nearest = usher_nearest_word(text, words);
	char known[WORDS_MAX];

	if (nearest)
		return place_error(reterr, n, -EINVAL, "\"%s\" is not %s; did you mean \"%s\"?",
				text, what, nearest);
	return place_error(reterr, n, -EINVAL, "\"%s\" is not %s; there %s %s", text, what,
			words[0] && words[1] ? "are" : "is",
			words[0] ? place_list(words, known, sizeof(known)) : "none");
}
