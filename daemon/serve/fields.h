#pragma once

/* What a call takes, as a table: the members of a JSON body or the parameters of a query, put into
 * a struct; or a list of such objects. Strict: an unknown name, a name twice or a wrong type is
 * refused with the name in the message, and the nearest known one where there is one. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/endpoint.h>
#include <usher/error.h>

#define FIELDS_MAX      16   /* of one table */
#define FIELD_TEXTS_MAX 64   /* in one list */
#define FIELD_PAIRS_MAX 64   /* in one object */
#define FIELD_PAIR_MAX  1024 /* bytes of a pair's name, and of its value */

enum field_type {
	FIELD_TEXT,     /* const char *, not empty */
	FIELD_FLAG,     /* bool */
	FIELD_COUNT,    /* uint64_t */
	FIELD_DURATION, /* uint64_t, microseconds: "250ms", "10s", "1m30s", as in the configuration
			 */
	FIELD_MSEC,     /* uint64_t, microseconds, from a number of milliseconds such as 12.5 */
	FIELD_TEXTS, /* struct field_texts: a list; in a query the parameter as often as needed */
	FIELD_PAIRS, /* struct field_pairs: an object of texts with names like those of HTTP
			headers; not in a query */
};

struct field_texts {
	const char *items[FIELD_TEXTS_MAX];
	size_t count;
};

struct field_pairs {
	struct usher_label items[FIELD_PAIRS_MAX];
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

/* One more pair. Errors: EINVAL (no name of a header, a control character, a name twice), E2BIG. */
int field_add_pair(const char *field, const char *name, const char *value, struct field_pairs *ret,
		struct usher_error *reterr);
/* Pairs from texts such as "NAME:VALUE", blanks around the value left out. *ret_room is what the
 * pairs live in, to be freed. Errors: as field_add_pair(), ENOMEM. */
int field_pairs_from_texts(const char *field, const struct field_texts *texts,
		struct field_pairs *ret, char **ret_room, struct usher_error *reterr);

/* A flat JSON object: members are texts, whole numbers, true, false, null (as if not given) and
 * lists and objects of texts. text is changed: what ret points to lives in it, and it needs one
 * byte after its length that is NUL. An empty text is an empty object. Errors: EINVAL, ERANGE,
 * E2BIG; with a message. */
int fields_from_json(const struct field *fields, char *text, size_t length, void *ret,
		fields_given *ret_given, struct usher_error *reterr);

/* A list of such objects, or an object with the list as its only member, called `name`. Every item
 * begins with its fields_given, and is zeroed before. Errors: as above; E2BIG for more than `max`
 * items. */
struct field_list {
	const char *name;
	const struct field *fields; /* of an item */
	void *items;
	size_t item_size, max;
	size_t count; /* written */
};

int fields_list_from_json(
		struct field_list *list, char *text, size_t length, struct usher_error *reterr);
