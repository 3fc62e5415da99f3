#include "fields.h"

#include <errno.h>
#include <string.h>
#include <usher/document.h>

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
	case FIELD_TEXTS:
		return add_text(field, value, at, reterr);
	}
	return usher_error_set(reterr, -EINVAL, "%s: is of no known type", field->name);
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
