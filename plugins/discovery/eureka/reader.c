#include "reader.h"

#include <errno.h>
#include <string.h>

#include "json-read.h"

void reader_init(struct reader *r)
{
	*r = (struct reader){ .step = READER_VALUE };
}

void reader_done(struct reader *r)
{
	for (size_t i = 0; r->items && i < r->count; i++)
		free(r->items[i]);
	free(r->items);
	free(r->value);
	*r = (struct reader){ .step = READER_OVER };
}

static int out_of_memory(struct usher_error *reterr)
{
	return usher_error_set(reterr, -ENOMEM, "out of memory");
}

static int not_eureka(struct usher_error *reterr, const char *why)
{
	return usher_error_set(reterr, -EBADMSG,
			"%s; is this a Eureka server, and does its URL end as the server's own: with "
			"/eureka (Spring Cloud) or /eureka/v2 (Netflix)?",
			why);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* ---- values ---- */

static int keep(struct reader *r, char c, struct usher_error *reterr)
{
	if (r->size == r->value_capacity) {
		size_t capacity = r->value_capacity ? 2 * r->value_capacity : 2048;
		char *grown;

		if (r->size >= READER_VALUE_MAX) {
			if (++r->passed_over <= READER_PASS_MAX)
				return 0;
			return usher_error_set(reterr, -E2BIG,
					"one value in the answer has more than %zu bytes",
					READER_VALUE_MAX + READER_PASS_MAX);
		}
		grown = realloc(r->value, capacity);
		if (!grown)
			return out_of_memory(reterr);
		r->value = grown;
		r->value_capacity = capacity;
	}
	r->value[r->size++] = c;
	return 0;
}

static int add_instance(struct reader *r, struct usher_error *reterr)
{
	struct usher_error why = { 0 };
	struct instance *i;
	int e;

	if (r->count == READER_INSTANCES_MAX)
		return usher_error_set(reterr, -E2BIG, "the server lists more than %d instances",
				READER_INSTANCES_MAX);
	if (r->count == r->capacity) {
		size_t capacity = r->capacity ? 2 * r->capacity : 64;
		struct instance **grown = reallocarray(r->items, capacity,
				sizeof(struct instance *)); // NOLINT(bugprone-sizeof-expression)

		if (!grown)
			return out_of_memory(reterr);
		r->items = grown;
		r->capacity = capacity;
	}
	e = instance_parse(r->value, r->size, &i, &why);
	if (e == 0)
		r->items[r->count++] = i;
	return e < 0 ? usher_error_set(reterr, e, "%s", why.text) : 0;
}

static int check_value(struct reader *r, struct usher_error *reterr)
{
	cleanup(own_unref_json) json_t *value = NULL;
	const char *text;
	int e = json_read(r->value, r->size, JSON_DECODE_ANY, &value, NULL);

	if (e == -ENOMEM)
		return out_of_memory(reterr);
	if (e < 0)
		return not_eureka(reterr, "the answer is no JSON");
	if (r->is_instance) {
		if (!json_is_object(value))
			return not_eureka(reterr, "an instance in the answer is no object");
		r->malformed++;
	}
	text = json_string_value(value);
	if (r->is_hash && text && strlen(text) < sizeof(r->hash)) {
		(void) strncpy(r->hash, text, sizeof(r->hash) - 1);
		r->has_hash = true;
	}
	return 0;
}

static int end_value(struct reader *r, struct usher_error *reterr)
{
	int e = 0;

	/* Whoever registers too much of itself is left out, and nobody else. */
	if (r->passed_over > 0)
		r->malformed += r->is_instance;
	else
		e = r->is_instance ? add_instance(r, reterr) : -EBADMSG;
	/* Not read as an instance: at least it must be JSON. */
	if (e == -EBADMSG)
		e = check_value(r, reterr);
	r->passed_over = 0;
	r->size = 0;
	r->step = r->depth == 0 ? READER_OVER : READER_COMMA_OR_END;
	return e;
}

/* One more byte of a value; *ret_used is false where the value ended before it. */
static int take_value(struct reader *r, char c, bool *ret_used, struct usher_error *reterr)
{
	bool over = false;
	int e;

	if (r->quoted) {
		if (r->escaped)
			r->escaped = false;
		else if (c == '\\')
			r->escaped = true;
		else if (c == '"')
			r->quoted = false;
		over = !r->quoted && r->nested == 0;
	} else if (c == '"') {
		r->quoted = true;
	} else if (c == '{' || c == '[') {
		r->nested++;
	} else if ((c == '}' || c == ']') && r->nested > 0) {
		over = --r->nested == 0;
	} else if (r->nested == 0 && (c == ',' || c == '}' || c == ']' || is_blank(c))) {
		*ret_used = false;
		return end_value(r, reterr);
	}
	e = keep(r, c, reterr);
	return e == 0 && over ? end_value(r, reterr) : e;
}

/* ---- what surrounds ---- */

static enum reader_place place(const struct reader *r)
{
	return r->places[r->depth - 1];
}

static bool in_list(const struct reader *r)
{
	return place(r) == READER_APPLICATION_LIST || place(r) == READER_INSTANCE_LIST;
}

static int enter(struct reader *r, enum reader_place to)
{
	r->places[r->depth++] = to;
	r->step = in_list(r) ? READER_VALUE_OR_END : READER_KEY_OR_END;
	return 0;
}

static int leave(struct reader *r)
{
	r->depth--;
	r->step = r->depth == 0 ? READER_OVER : READER_COMMA_OR_END;
	return 0;
}

static bool is_key(const struct reader *r, const char *key)
{
	return strcmp(r->key, key) == 0;
}

/* The first byte of a value: does it lead on to the instances? */
static bool leads_on(const struct reader *r, char c, enum reader_place *ret)
{
	static const struct {
		enum reader_place from;
		const char *key; /* NULL: in a list */
		char first;
		enum reader_place to;
	} ways[] = {
		{ READER_ROOT, "applications", '{', READER_APPLICATIONS },
		{ READER_APPLICATIONS, "application", '[', READER_APPLICATION_LIST },
		{ READER_APPLICATIONS, "application", '{', READER_APPLICATION },
		{ READER_APPLICATION_LIST, NULL, '{', READER_APPLICATION },
		{ READER_APPLICATION, "instance", '[', READER_INSTANCE_LIST },
	};

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		if (ways[i].from != place(r) || ways[i].first != c ||
				(ways[i].key && !is_key(r, ways[i].key)))
			continue;
		*ret = ways[i].to;
		return true;
	}
	return false;
}

static int begin_value(struct reader *r, char c, struct usher_error *reterr)
{
	enum reader_place to;
	bool used = true;

	if (r->depth == 0) {
		if (c == '<')
			return not_eureka(reterr, "the answer is XML or HTML, not JSON");
		return c == '{' ? enter(r, READER_ROOT)
				: not_eureka(reterr, "the answer is no JSON object");
	}
	if (leads_on(r, c, &to)) {
		r->has_applications |= to == READER_APPLICATIONS;
		return enter(r, to);
	}
	if (place(r) == READER_APPLICATION_LIST || c == ',' || c == ':' || c == '}' || c == ']')
		return not_eureka(reterr, "the answer is not built as expected");
	r->is_hash = place(r) == READER_APPLICATIONS && is_key(r, "apps__hashcode");
	r->is_instance = place(r) == READER_INSTANCE_LIST ||
			(place(r) == READER_APPLICATION && is_key(r, "instance") && c == '{');
	r->step = READER_IN_VALUE;
	r->size = 0;
	r->nested = 0;
	r->quoted = r->escaped = false;
	return take_value(r, c, &used, reterr);
}

/* Keys that matter have no escapes and are short; of others it is enough that they end. */
static int take_key(struct reader *r, char c)
{
	if (r->escaped) {
		r->escaped = false;
	} else if (c == '\\') {
		r->escaped = true;
	} else if (c == '"') {
		r->key[r->size < sizeof(r->key) ? r->size : 0] = '\0';
		r->step = READER_COLON;
		r->size = 0;
		return 0;
	}
	if (r->size < sizeof(r->key) - 1)
		r->key[r->size++] = c;
	else
		r->size = sizeof(r->key);
	return 0;
}

static int begin_key(struct reader *r)
{
	r->step = READER_IN_KEY;
	r->size = 0;
	r->escaped = false;
	return 0;
}

/* One byte outside of keys and values. */
static int take_mark(struct reader *r, char c, struct usher_error *reterr)
{
	switch (r->step) {
	case READER_VALUE_OR_END:
		return c == ']' ? leave(r) : begin_value(r, c, reterr);
	case READER_VALUE:
		return begin_value(r, c, reterr);
	case READER_KEY_OR_END:
	case READER_KEY:
		if (c == '"')
			return begin_key(r);
		if (c == '}' && r->step == READER_KEY_OR_END)
			return leave(r);
		break;
	case READER_COLON:
		if (c == ':') {
			r->step = READER_VALUE;
			return 0;
		}
		break;
	case READER_COMMA_OR_END:
		if (c == ',') {
			r->step = in_list(r) ? READER_VALUE : READER_KEY;
			return 0;
		}
		if (c == (in_list(r) ? ']' : '}'))
			return leave(r);
		break;
	case READER_OVER:
	case READER_IN_KEY:
	case READER_IN_VALUE:
		break;
	}
	return not_eureka(reterr, "the answer is no JSON");
}

static int take_byte(struct reader *r, char c, struct usher_error *reterr)
{
	bool used = true;

	if (r->step == READER_IN_KEY)
		return take_key(r, c);
	if (r->step == READER_IN_VALUE) {
		int e = take_value(r, c, &used, reterr);

		if (e < 0 || used)
			return e;
	}
	return is_blank(c) ? 0 : take_mark(r, c, reterr);
}

int reader_feed(struct reader *r, const char *data, size_t size, struct usher_error *reterr)
{
	if (r->failed)
		return not_eureka(reterr, "the answer was not understood");
	for (size_t i = 0; i < size; i++) {
		int e = take_byte(r, data[i], reterr);

		if (e < 0) {
			r->failed = true;
			return e;
		}
	}
	return 0;
}

int reader_finish(const struct reader *r, struct usher_error *reterr)
{
	if (r->failed || r->step != READER_OVER)
		return not_eureka(reterr, "the answer ends in its midst");
	return r->has_applications ? 0
				   : not_eureka(reterr, "the answer has no list of applications");
}
