#include "json-read.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts ---- */

/* How many bytes the character has; 0: it is no UTF-8 (RFC 3629). */
static size_t character_size(const unsigned char *c, size_t size)
{
	size_t length = c[0] < 0x80 ? 1 : c[0] < 0xc2 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;

	if (length == 0 || length > size || c[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((c[i] & 0xc0) != 0x80)
			return 0;
	if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] >= 0xa0) || /* a surrogate */
			(c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] >= 0x90))
		return 0;
	return length;
}

/* The number of a \uXXXX, or -1. */
static int escaped_unit(const char *text, size_t size)
{
	int unit = 0;

	if (size < 6 || text[0] != '\\' || text[1] != 'u')
		return -1;
	for (size_t i = 2; i < 6; i++) {
		static const char digits[] = "0123456789abcdef0123456789ABCDEF";
		const char *digit = memchr(digits, text[i], sizeof(digits) - 1);

		if (!digit)
			return -1;
		unit = unit << 4 | (int) ((digit - digits) & 15);
	}
	return unit;
}

/* JSON_READ_MARK, as an escape. */
static const char mark[] = { '\\', 'u', '0', '0', '7', 'f' };

/* One escape; returns its size. */
static size_t mend_escape(char *text, size_t size, bool *mended)
{
	int unit = escaped_unit(text, size), next;

	if (unit < 0)
		return size < 2 ? size : 2;
	if (unit >= 0xd800 && unit < 0xdc00) {
		next = escaped_unit(text + 6, size - 6);
		if (next >= 0xdc00 && next < 0xe000)
			return 12;
	}
	if (unit == 0 || (unit >= 0xd800 && unit < 0xe000)) {
		memcpy(text, mark, sizeof(mark));
		*mended = true;
	}
	return 6;
}

/* A text, from its first quotation mark; returns its size with the last one. */
static size_t mend_text(char *text, size_t size, bool *mended)
{
	size_t at = 1;

	while (at < size && text[at] != '"') {
		if (text[at] == '\\') {
			at += mend_escape(&text[at], size - at, mended);
		} else {
			size_t length = character_size((unsigned char *) &text[at], size - at);

			if (length == 0) {
				text[at] = JSON_READ_MARK;
				*mended = true;
			}
			at += length ? length : 1;
		}
	}
	return at < size ? at + 1 : size;
}

/* ---- numbers and depth ---- */

/* text ends in NUL. */
static size_t mend_number(char *text, bool *mended)
{
	size_t length = strspn(text, "+-.0123456789eE");
	bool is_integer = strspn(text, "+-0123456789") == length, is_beyond;

	errno = 0;
	if (is_integer) {
		(void) strtoll(text, NULL, 10);
		is_beyond = errno == ERANGE;
	} else {
		is_beyond = isinf(strtod(text, NULL)) != 0;
	}
	if (is_beyond && length > 4) {
		memcpy(text, "null", 4);
		memset(text + 4, ' ', length - 4);
		*mended = true;
	}
	return length;
}

/* Blank what is nested too deep, from behind the bracket that opens it; returns how much that is.
 */
static size_t empty_value(char *text, size_t size, bool *mended)
{
	size_t at = 0, depth = 1;

	while (at < size) {
		size_t length = text[at] == '"' ? mend_text(&text[at], size - at, mended) : 1;

		if (text[at] == '[' || text[at] == '{')
			depth++;
		else if ((text[at] == ']' || text[at] == '}') && --depth == 0)
			break;
		memset(&text[at], ' ', length);
		*mended = true;
		at += length;
	}
	return at;
}

/* Returns whether something was altered. What is put in place has never more bytes. */
static bool mend(char *text, size_t size)
{
	size_t at = 0, depth = 0;
	bool mended = false;

	while (at < size) {
		char c = text[at];

		if (c == '"') {
			at += mend_text(&text[at], size - at, &mended);
			continue;
		}
		if (c == '-' || (c >= '0' && c <= '9')) {
			at += mend_number(&text[at], &mended);
			continue;
		}
		at++;
		if (c == '[' || c == '{') {
			if (++depth == JSON_READ_DEPTH_MAX)
				at += empty_value(&text[at], size - at, &mended);
		} else if ((c == ']' || c == '}') && depth > 0) {
			depth--;
		}
	}
	return mended;
}

/* ---- both ---- */

static int out_of_memory(struct usher_error *reterr)
{
	return usher_error_set(reterr, -ENOMEM, "out of memory");
}

static bool is_out_of_memory(const json_error_t *why)
{
	return json_error_code(why) == json_error_out_of_memory;
}

int json_read(const char *text, size_t size, size_t flags, json_t **ret, struct usher_error *reterr)
{
	autofree char *mended = NULL;
	json_error_t why;
	json_t *value = json_loadb(text ? text : "", size, flags, &why);

	if (value) {
		*ret = value;
		return 0;
	}
	if (is_out_of_memory(&why))
		return out_of_memory(reterr);
	mended = malloc(size + 1);
	if (!mended)
		return out_of_memory(reterr);
	assert(text || size == 0);
	if (size > 0)
		memcpy(mended, text, size);
	mended[size] = '\0';
	/* Two keys may be the same now. */
	if (mend(mended, size))
		value = json_loadb(mended, size, flags & ~(size_t) JSON_REJECT_DUPLICATES, &why);
	if (value) {
		*ret = value;
		return 1;
	}
	if (is_out_of_memory(&why))
		return out_of_memory(reterr);
	return usher_error_set(
			reterr, -EBADMSG, "line %d, column %d: %s", why.line, why.column, why.text);
}

int json_read_answer(const char *text, size_t size, const char *server, json_t **ret,
		struct usher_error *reterr)
{
	struct usher_error why = { 0 };
	int r = json_read(text, size, JSON_REJECT_DUPLICATES, ret, &why);

	if (r == -EBADMSG)
		return usher_error_set(reterr, r, "the answer is no JSON: %s; is this %s?",
				why.text, server);
	return r < 0 ? usher_error_set(reterr, r, "%s", usher_error_text(&why, r)) : 0;
}

static bool has_mark(const char *text)
{
	return text && strchr(text, JSON_READ_MARK);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the document, which has a maximum */
bool json_read_is_marked(json_t *value)
{
	for (size_t i = 0; i < json_array_size(value); i++)
		if (json_read_is_marked(json_array_get(value, i)))
			return true;
	for (void *at = json_object_iter(value); at; at = json_object_iter_next(value, at))
		if (has_mark(json_object_iter_key(at)) ||
				json_read_is_marked(json_object_iter_value(at)))
			return true;
	return has_mark(json_string_value(value));
}

int json_read_refuse(struct usher_error *reterr)
{
	return usher_error_set(reterr, -EROFS,
			"what is registered has a text with U+0000, half a character, or a number or a "
			"depth beyond all bounds in it, which would be lost with writing it back; take "
			"it out first");
}
