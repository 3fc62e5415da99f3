#pragma once

/* What a call takes, as a table: the members of a JSON body or the parameters of a query, put into
 * a struct. Strict: an unknown name, a name twice or a wrong type is refused with the name in the
 * message, and the nearest known one where there is one. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/error.h>

#define FIELDS_MAX      16 /* of one table */
#define FIELD_TEXTS_MAX 64 /* in one list */

enum field_type {
	FIELD_TEXT,     /* const char *, not empty */
	FIELD_FLAG,     /* bool */
	FIELD_COUNT,    /* uint64_t */
	FIELD_DURATION, /* uint64_t, microseconds: "250ms", "10s", "1m30s", as in the configuration
			 */
	FIELD_TEXTS, /* struct field_texts: a list; in a query the parameter as often as needed */
};

struct field_texts {
	const char *items[FIELD_TEXTS_MAX];
	size_t count;
};

struct field {
	const char *name; /* NULL ends the table */
	enum field_type type;
	size_t offset;
};

/* Which fields were given: bit i for the i-th of the table. */
typedef uint32_t fields_given;

static inline bool field_given(fields_given given, unsigned i)
{
	return given & (1u << i);
}

/* One value as a person writes it in a URL. EINVAL, ERANGE. */
int field_set_text(const struct field *field, const char *value, void *ret,
		struct usher_error *reterr);
/* Find by name, and note that it was given. Errors: EINVAL (unknown; given before and no list). */
int field_find(const struct field *fields, const char *name, fields_given *given,
		const struct field **ret, struct usher_error *reterr);

/* A flat JSON object: members are texts, whole numbers, true, false, null (as if not given) and
 * lists of texts. text is changed: what ret points to lives in it, and it needs one byte after its
 * length that is NUL. An empty text is an empty object. Errors: EINVAL, ERANGE, E2BIG; with a
 * message. */
int fields_from_json(const struct field *fields, char *text, size_t length, void *ret,
		fields_given *ret_given, struct usher_error *reterr);
