#include "fields.h"

#include <errno.h>
#include <string.h>
#include <usher/document.h>

#include "ownership.h"

static int count_parse(const char *text, const char **ret_end, uint64_t *ret)
{
	uint64_t value = 0;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	for (; *text >= '0' && *text <= '9'; text++)
		if (__builtin_mul_overflow(value, 10u, &value) ||
				__builtin_add_overflow(value, (uint64_t) (*text - '0'), &value))
			return -ERANGE;
	*ret_end = text;
	*ret = value;
	return 0;
}

static void *field_in(void *ret, const struct field *field)
{
	return (char *) ret + field->offset;
}

static int set_count(const struct field *field, const char *value, uint64_t *ret,
		struct usher_error *reterr)
{
	const char *end;
	uint64_t count;
	int r;

	r = count_parse(value, &end, &count);
	if (r < 0 || *end)
		return usher_error_set(reterr, r < 0 ? r : -EINVAL,
				"%s: %s is no whole number in 0..%llu", field->name, value,
				(unsigned long long) UINT64_MAX);
	*ret = count;
	return 0;
}

static int set_flag(
		const struct field *field, const char *value, bool *ret, struct usher_error *reterr)
{
	if (strcmp(value, "true") == 0)
		*ret = true;
	else if (strcmp(value, "false") == 0)
		*ret = false;
	else
		return usher_error_set(reterr, -EINVAL, "%s: %s is neither true nor false",
				field->name, value);
	return 0;
}

static const char *skip_digits(const char *text)
{
	return text + strspn(text, "0123456789");
}

/* A JSON number that is not negative. */
static bool is_number(const char *text)
{
	const char *end = skip_digits(text);

	if (end == text)
		return false;
	if (*end == '.') {
		text = end + 1;
		end = skip_digits(text);
		if (end == text)
			return false;
	}
	if (*end == 'e' || *end == 'E') {
		text = end + 1 + (end[1] == '+' || end[1] == '-');
		end = skip_digits(text);
		if (end == text)
			return false;
	}
	return !*end;
}

static int set_msec(const struct field *field, const char *value, uint64_t *ret,
		struct usher_error *reterr)
{
	double usec;

	if (!is_number(value))
		return usher_error_set(reterr, -EINVAL,
				"%s: %s is no number of milliseconds, such as 12 or 0.25",
				field->name, value);
	usec = strtod(value, NULL) * 1000.0;
	if (!(usec < 0x1p63))
		return usher_error_set(reterr, -ERANGE, "%s: %s ms is longer than anything",
				field->name, value);
	*ret = (uint64_t) (usec + 0.5);
	return 0;
}

static int add_text(const struct field *field, const char *value, struct field_texts *ret,
		struct usher_error *reterr)
{
	if (ret->count == FIELD_TEXTS_MAX)
		return usher_error_set(reterr, -E2BIG, "%s: more than %d texts", field->name,
				FIELD_TEXTS_MAX);
	ret->items[ret->count++] = value;
	return 0;
}

int field_set_text(
		const struct field *field, const char *value, void *ret, struct usher_error *reterr)
{
	void *at = field_in(ret, field);
	int r;

	switch (field->type) {
	case FIELD_TEXT:
		if (!*value)
			return usher_error_set(reterr, -EINVAL, "%s: is empty", field->name);
		*(const char **) at = value;
		return 0;
	case FIELD_FLAG:
		return set_flag(field, value, at, reterr);
	case FIELD_COUNT:
		return set_count(field, value, at, reterr);
	case FIELD_DURATION:
		r = usher_duration_parse(value, at);
		if (r < 0)
			return usher_error_set(reterr, r,
					"%s: %s is no duration; write for example 250ms, 10s or 2m",
					field->name, value);
		return 0;
	case FIELD_MSEC:
		return set_msec(field, value, at, reterr);
	case FIELD_TEXTS:
		return add_text(field, value, at, reterr);
	case FIELD_PAIRS:
		return usher_error_set(reterr, -EINVAL, "%s: belongs into a body", field->name);
	}
	return usher_error_set(reterr, -EINVAL, "%s: is of no known type", field->name);
}

/* RFC 9110, section 5.6.2. */
static bool is_token(const char *text)
{
	static const char letters[] =
			"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

	return *text && !text[strspn(text, letters)];
}

static bool has_control(const char *text)
{
	for (; *text; text++)
		if (((unsigned char) *text < 0x20 && *text != '\t') || *text == 0x7f)
			return true;
	return false;
}

int field_add_pair(const char *field, const char *name, const char *value, struct field_pairs *ret,
		struct usher_error *reterr)
{
	if (strlen(name) > FIELD_PAIR_MAX || strlen(value) > FIELD_PAIR_MAX)
		return usher_error_set(reterr, -E2BIG,
				"%s: %.40s: a name or a value is over %d bytes", field, name,
				FIELD_PAIR_MAX);
	if (!is_token(name))
		return usher_error_set(reterr, -EINVAL, "%s: \"%.40s\" is no name of a header",
				field, name);
	if (has_control(value))
		return usher_error_set(reterr, -EINVAL,
				"%s: %.40s: the value has a control character in it", field, name);
	for (size_t i = 0; i < ret->count; i++)
		if (strcasecmp(ret->items[i].name, name) == 0)
			return usher_error_set(
					reterr, -EINVAL, "%s: %.40s is given twice", field, name);
	if (ret->count == FIELD_PAIRS_MAX)
		return usher_error_set(
				reterr, -E2BIG, "%s: more than %d of them", field, FIELD_PAIRS_MAX);
	ret->items[ret->count++] = (struct usher_label){ .name = name, .value = value };
	return 0;
}

/* Cut "NAME: VALUE" in place. */
static int add_pair_text(
		const char *field, char *text, struct field_pairs *ret, struct usher_error *reterr)
{
	char *value = strchr(text, ':'), *end;

	if (!value)
		return usher_error_set(reterr, -EINVAL, "%s: %.80s is no NAME:VALUE", field, text);
	*value++ = '\0';
	value += strspn(value, " \t");
	for (end = value + strlen(value); end > value && (end[-1] == ' ' || end[-1] == '\t');)
		*--end = '\0';
	return field_add_pair(field, text, value, ret, reterr);
}

int field_pairs_from_texts(const char *field, const struct field_texts *texts,
		struct field_pairs *ret, char **ret_room, struct usher_error *reterr)
{
	autofree char *room = NULL;
	size_t size = 1;
	char *at;
	int r;

	for (size_t i = 0; i < texts->count; i++)
		size += strlen(texts->items[i]) + 1;
	room = at = malloc(size);
	if (!room)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	ret->count = 0;
	for (size_t i = 0; i < texts->count; i++) {
		size_t length = strlen(texts->items[i]) + 1;

		memcpy(at, texts->items[i], length);
		r = add_pair_text(field, at, ret, reterr);
		if (r < 0)
			return r;
		at += length;
	}
	*ret_room = take(room);
	return 0;
}

int field_find(const struct field *fields, const char *name, fields_given *given,
		const struct field **ret, struct usher_error *reterr)
{
	const char *words[FIELDS_MAX + 1] = {};
	const char *nearest;
	size_t count = 0;

	for (; fields[count].name; count++) {
		words[count] = fields[count].name;
		if (strcmp(fields[count].name, name) != 0)
			continue;
		if (field_given(*given, (unsigned) count) && fields[count].type != FIELD_TEXTS)
			return usher_error_set(reterr, -EINVAL, "%s: is given twice", name);
		*given |= 1u << count;
		*ret = &fields[count];
		return 0;
	}
	nearest = usher_nearest_word(name, words);
	if (nearest)
		return usher_error_set(reterr, -EINVAL, "%s: is not known here; did you mean %s?",
				name, nearest);
	if (count == 0)
		return usher_error_set(reterr, -EINVAL,
				"%s: is not known here, and nothing else is", name);
	return usher_error_set(reterr, -EINVAL, "%s: is not known here", name);
}
