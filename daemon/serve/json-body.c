/* A reader for the small flat objects that calls take, and for lists of them: in place, without
 * allocation, for it stands on the way of every pick that asks for something. RFC 8259, strictly,
 * with no more nesting than the tables have. */

#include <errno.h>
#include <string.h>

#include "fields.h"
#include "utf8.h"

struct reader {
	char *at;
	char *end; /* where a NUL stands */
	const char *what;
	struct usher_error *reterr;
};

static int refuse(const struct reader *r, const char *what)
{
	return usher_error_set(r->reterr, -EINVAL, "the body is no %s: %s", r->what, what);
}

static void skip_blanks(struct reader *r)
{
	while (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')
		r->at++;
}

static bool take_char(struct reader *r, char c)
{
	skip_blanks(r);
	if (*r->at != c || r->at == r->end)
		return false;
	r->at++;
	return true;
}

static int read_hex4(struct reader *r, unsigned *ret)
{
	unsigned value = 0;

	for (int i = 0; i < 4; i++) {
		char c = r->at[i];

		value <<= 4;
		if (c >= '0' && c <= '9')
			value += (unsigned) (c - '0');
		else if (c >= 'a' && c <= 'f')
			value += (unsigned) (c - 'a' + 10);
		else if (c >= 'A' && c <= 'F')
			value += (unsigned) (c - 'A' + 10);
		else
			return refuse(r, "\\u needs four hexadecimal digits");
	}
	r->at += 4;
	*ret = value;
	return 0;
}

static char *put_utf8(char *to, unsigned c)
{
	if (c < 0x80) {
		*to++ = (char) c;
		return to;
	}
	if (c < 0x800) {
		*to++ = (char) (0xc0 | (c >> 6));
	} else {
		if (c < 0x10000) {
			*to++ = (char) (0xe0 | (c >> 12));
		} else {
			*to++ = (char) (0xf0 | (c >> 18));
			*to++ = (char) (0x80 | ((c >> 12) & 0x3f));
		}
		*to++ = (char) (0x80 | ((c >> 6) & 0x3f));
	}
	*to++ = (char) (0x80 | (c & 0x3f));
	return to;
}

static int read_unicode_escape(struct reader *r, char **to)
{
	unsigned c = 0, low = 0;
	int error;

	error = read_hex4(r, &c);
	if (error < 0)
		return error;
	if (c == 0)
		return refuse(r, "a text has a NUL in it");
	if (c >= 0xdc00 && c <= 0xdfff)
		return refuse(r, "half a surrogate pair");
	if (c >= 0xd800 && c <= 0xdbff) {
		if (r->at[0] != '\\' || r->at[1] != 'u')
			return refuse(r, "half a surrogate pair");
		r->at += 2;
		error = read_hex4(r, &low);
		if (error < 0)
			return error;
		if (low < 0xdc00 || low > 0xdfff)
			return refuse(r, "half a surrogate pair");
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	*to = put_utf8(*to, c);
	return 0;
}

static int read_escape(struct reader *r, char **to)
{
	static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
	const char *found;

	if (*r->at == 'u') {
		r->at++;
		return read_unicode_escape(r, to);
	}
	found = *r->at ? strchr(from, *r->at) : NULL;
	if (!found)
		return refuse(r, "an unknown escape");
	*(*to)++ = into[found - from];
	r->at++;
	return 0;
}

/* A text, its escapes resolved in place; they never grow. */
static int read_text(struct reader *r, const char **ret)
{
	char *to;
	size_t length;
	int error;

	if (!take_char(r, '"'))
		return refuse(r, "a text in quotes is missing");
	*ret = to = r->at;
	for (;;) {
		unsigned char c = (unsigned char) *r->at;

		if (c == '"')
			break;
		if (c < 0x20)
			return refuse(r, "a text does not end, or has a control character in it");
		if (c == '\\') {
			r->at++;
			error = read_escape(r, &to);
			if (error < 0)
				return error;
			continue;
		}
		length = utf8_length(r->at);
		if (length == 0)
			return refuse(r, "a text is not UTF-8");
		memmove(to, r->at, length);
		to += length;
		r->at += length;
	}
	r->at++;
	*to = '\0';
	return 0;
}

/* A number or a word, as it stands there. */
static int read_word(struct reader *r, char *ret, size_t size)
{
	size_t length;

	skip_blanks(r);
	length = strspn(r->at, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");
	if (length == 0 || length >= size)
		return refuse(r, "a value is missing or malformed");
	memcpy(ret, r->at, length);
	ret[length] = '\0';
	r->at += length;
	return 0;
}

static int read_texts(struct reader *r, const struct field *field, void *ret)
{
	const char *item = NULL;
	int error;

	if (!take_char(r, '['))
		return usher_error_set(r->reterr, -EINVAL, "%s: is a list of texts", field->name);
	if (take_char(r, ']'))
		return 0;
	do {
		error = read_text(r, &item);
		if (error < 0)
			return usher_error_prefix(r->reterr, error, "%s", field->name);
		error = field_set_text(field, item, ret, r->reterr);
		if (error < 0)
			return error;
	} while (take_char(r, ','));
	return take_char(r, ']') ? 0 : refuse(r, "a list does not end");
}

static int read_pair(struct reader *r, const char *field, struct field_pairs *ret)
{
	const char *name = NULL, *value = NULL;
	int error;

	error = read_text(r, &name);
	if (error < 0)
		return usher_error_prefix(r->reterr, error, "%s", field);
	if (!take_char(r, ':'))
		return refuse(r, "a colon is missing");
	error = read_text(r, &value);
	if (error < 0)
		return usher_error_prefix(r->reterr, error, "%s: %.40s", field, name);
	return field_add_pair(field, name, value, ret, r->reterr);
}

static int read_pairs(struct reader *r, const struct field *field, void *ret)
{
	struct field_pairs *pairs = (struct field_pairs *) ((char *) ret + field->offset);
	int error;

	if (!take_char(r, '{'))
		return refuse(r, "an object is missing");
	if (take_char(r, '}'))
		return 0;
	do {
		error = read_pair(r, field->name, pairs);
		if (error < 0)
			return error;
	} while (take_char(r, ','));
	return take_char(r, '}') ? 0 : refuse(r, "an object does not end");
}

static const char *type_name(enum field_type type)
{
	switch (type) {
	case FIELD_TEXT:
		return "a text";
	case FIELD_FLAG:
		return "true or false";
	case FIELD_COUNT:
		return "a whole number";
	case FIELD_DURATION:
		return "a duration in quotes, such as \"10s\"";
	case FIELD_MSEC:
		return "a number of milliseconds, such as 12 or 0.25";
	case FIELD_TEXTS:
		return "a list of texts";
	case FIELD_PAIRS:
		return "an object whose values are texts";
	}
	return "?";
}

/* Whether a JSON value that begins with c can be of the type. */
static bool fits(enum field_type type, char c)
{
	switch (type) {
	case FIELD_TEXT:
	case FIELD_DURATION:
		return c == '"';
	case FIELD_FLAG:
		return c == 't' || c == 'f';
	case FIELD_COUNT:
	case FIELD_MSEC:
		return c >= '0' && c <= '9';
	case FIELD_TEXTS:
		return c == '[';
	case FIELD_PAIRS:
		return c == '{';
	}
	return false;
}

static int read_value(struct reader *r, const struct field *field, unsigned index, void *ret,
		fields_given *given)
{
	const char *value = NULL;
	char word[32] = "";
	int error;

	skip_blanks(r);
	if (*r->at == 'n') {
		error = read_word(r, word, sizeof(word));
		if (error < 0 || strcmp(word, "null") != 0)
			return refuse(r, "a value is missing or malformed");
		*given &= ~(1u << index);
		return 0;
	}
	if (!fits(field->type, *r->at))
		return usher_error_set(r->reterr, -EINVAL, "%s: is %s", field->name,
				type_name(field->type));
	if (field->type == FIELD_TEXTS)
		return read_texts(r, field, ret);
	if (field->type == FIELD_PAIRS)
		return read_pairs(r, field, ret);
	if (*r->at == '"') {
		error = read_text(r, &value);
	} else {
		error = read_word(r, word, sizeof(word));
		value = word;
		if (error >= 0 && word[0] == '0' && word[1] >= '0' && word[1] <= '9')
			return refuse(r, "a number begins with 0");
	}
	if (error < 0)
		return usher_error_prefix(r->reterr, error, "%s", field->name);
	return field_set_text(field, value, ret, r->reterr);
}

static int read_member(struct reader *r, const struct field *fields, void *ret, uint32_t *seen,
		fields_given *given)
{
	const struct field *field = NULL;
	const char *name = NULL;
	uint32_t before = *seen;
	unsigned index;
	int error;

	error = read_text(r, &name);
	if (error < 0)
		return error;
	error = field_find(fields, name, seen, &field, r->reterr);
	if (error < 0)
		return error;
	index = (unsigned) (field - fields);
	if (field_given(before, index))
		return usher_error_set(r->reterr, -EINVAL, "%s: is given twice", name);
	*given |= 1u << index;
	if (!take_char(r, ':'))
		return refuse(r, "a colon is missing");
	return read_value(r, field, index, ret, given);
}

static int read_object(
		struct reader *r, const struct field *fields, void *ret, fields_given *ret_given)
{
	fields_given given = 0;
	uint32_t seen = 0;
	int error;

	if (!take_char(r, '{'))
		return refuse(r, "it begins with {");
	if (!take_char(r, '}')) {
		do {
			error = read_member(r, fields, ret, &seen, &given);
			if (error < 0)
				return error;
		} while (take_char(r, ','));
		if (!take_char(r, '}'))
			return refuse(r, "it does not end with }");
	}
	*ret_given = given;
	return 0;
}

static int read_end(struct reader *r)
{
	skip_blanks(r);
	return r->at == r->end ? 0 : refuse(r, "something comes after it");
}

// NOLINTNEXTLINE(readability-non-const-parameter): it is changed in place
int fields_from_json(const struct field *fields, char *text, size_t length, void *ret,
		fields_given *ret_given, struct usher_error *reterr)
{
	struct reader r = {
		.at = text, .end = text + length, .what = "JSON object", .reterr = reterr
	};
	fields_given given = 0;
	int error;

	*ret_given = 0;
	if (length == 0)
		return 0;
	skip_blanks(&r);
	if (r.at == r.end)
		return 0;
	error = read_object(&r, fields, ret, &given);
	if (error < 0)
		return error;
	error = read_end(&r);
	if (error < 0)
		return error;
	*ret_given = given;
	return 0;
}

static int read_item(struct reader *r, struct field_list *list)
{
	char *item = (char *) list->items + list->count * list->item_size;
	int error;

	if (list->count == list->max)
		return usher_error_set(r->reterr, -E2BIG,
				"more than %zu %s in one call; send them in several", list->max,
				list->name);
	memset(item, 0, list->item_size);
	error = read_object(r, list->fields, item, (fields_given *) (void *) item);
	if (error < 0)
		return usher_error_prefix(r->reterr, error, "%s[%zu]", list->name, list->count);
	list->count++;
	return 0;
}

static int read_list(struct reader *r, struct field_list *list)
{
	int error;

	if (!take_char(r, '['))
		return refuse(r, "it begins with [");
	if (take_char(r, ']'))
		return 0;
	do {
		error = read_item(r, list);
		if (error < 0)
			return error;
	} while (take_char(r, ','));
	return take_char(r, ']') ? 0 : refuse(r, "it does not end with ]");
}

/* {"NAME": [...]} */
static int read_named_list(struct reader *r, struct field_list *list)
{
	const struct field known[] = { { .name = list->name, .type = FIELD_TEXTS }, {} };
	const struct field *found = NULL;
	const char *name = NULL;
	fields_given given = 0;
	int error;

	error = read_text(r, &name);
	if (error < 0)
		return error;
	error = field_find(known, name, &given, &found, r->reterr);
	if (error < 0)
		return error;
	if (!take_char(r, ':'))
		return refuse(r, "a colon is missing");
	error = read_list(r, list);
	if (error < 0)
		return error;
	return take_char(r, '}') ? 0 : refuse(r, "it does not end with }");
}

int fields_list_from_json(
		// NOLINTNEXTLINE(readability-non-const-parameter): it is changed in place
		struct field_list *list, char *text, size_t length, struct usher_error *reterr)
{
	struct reader r = {
		.at = text, .end = text + length, .what = "list of JSON objects", .reterr = reterr
	};
	int error;

	list->count = 0;
	if (length == 0)
		return refuse(&r, "it is empty");
	error = take_char(&r, '{') ? read_named_list(&r, list) : read_list(&r, list);
	return error < 0 ? error : read_end(&r);
}
