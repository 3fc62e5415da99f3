#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <usher/match.h>

enum relation {
	RELATION_IN,
	RELATION_NOT_IN,
	RELATION_EXISTS,
	RELATION_MISSING,
};

struct requirement {
	char *name;
	char **values;
	size_t value_count;
	enum relation relation;
	char *text; /* as people read it: "tier in (gold, silver)" */
};

struct usher_match {
	struct requirement *requirements;
	size_t count;
};

static void requirement_done(struct requirement *q)
{
	for (size_t i = 0; i < q->value_count; i++)
		free(q->values[i]);
	free(q->values);
	free(q->name);
	free(q->text);
	*q = (struct requirement){};
}

/* ---- the parser ---- */

struct cursor {
	const char *text; /* the whole, for messages */
	const char *at;
};

static int fault(const struct cursor *c, const char *wanted, struct usher_error *reterr)
{
	if (*c->at == '\0')
		return usher_error_set(reterr, -EINVAL,
				"selector \"%.200s\" ends too early: expected %s", c->text, wanted);
	return usher_error_set(reterr, -EINVAL,
			"selector \"%.200s\" is wrong at character %zu (\"%.20s\"): expected %s",
			c->text, (size_t) (c->at - c->text) + 1, c->at, wanted);
}

static void skip_blanks(struct cursor *c)
{
	c->at += strspn(c->at, " \t");
}

static bool next_is(struct cursor *c, const char *sign)
{
	size_t length = strlen(sign);

	if (strncmp(c->at, sign, length) != 0)
		return false;
	c->at += length;
	return true;
}

static size_t word_length(const struct cursor *c)
{
	return strcspn(c->at, " \t\r\n,=!()<>\"'");
}

/* A word that stands alone: "in (", "notin (" but not the beginning of "inner". */
static bool next_is_word(struct cursor *c, const char *word)
{
	size_t length = strlen(word);

	if (word_length(c) != length || strncmp(c->at, word, length) != 0)
		return false;
	c->at += length;
	return true;
}

static int take_word(struct cursor *c, const char *what, char **ret, struct usher_error *reterr)
{
	size_t length = word_length(c);
	char *word;

	if (length == 0)
		return fault(c, what, reterr);
	if (length > USHER_TEXT_MAX)
		return usher_error_set(reterr, -E2BIG,
				"selector \"%.200s\": a word is longer than %d bytes", c->text,
				USHER_TEXT_MAX);
	word = strndup(c->at, length);
	if (!word)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	c->at += length;
	*ret = word;
	return 0;
}

static int add_value(struct requirement *q, char *value)
{
	char **values = reallocarray(q->values, q->value_count + 1, sizeof(*values));

	if (!values) {
		free(value);
		return -ENOMEM;
	}
	q->values = values;
	q->values[q->value_count++] = value;
	return 0;
}

/* One value; an empty one is allowed, as in Kubernetes: "a=" asks for an empty label. */
static int parse_value(struct cursor *c, struct requirement *q, struct usher_error *reterr)
{
	char *value = NULL;
	int r = 0;

	if (q->value_count == USHER_MATCH_VALUES_MAX)
		return usher_error_set(reterr, -E2BIG,
				"selector \"%.200s\" has more than %d values for %.64s", c->text,
				USHER_MATCH_VALUES_MAX, q->name);
	skip_blanks(c);
	if (word_length(c) > 0)
		r = take_word(c, "a value", &value, reterr);
	else
		value = strdup("");
	if (r < 0)
		return r;
	if (!value || add_value(q, value) < 0)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	return 0;
}

static int parse_values(struct cursor *c, struct requirement *q, struct usher_error *reterr)
{
	int r;

	skip_blanks(c);
	if (!next_is(c, "("))
		return fault(c, "\"(\" and the values, as in \"tier in (gold, silver)\"", reterr);
	do {
		r = parse_value(c, q, reterr);
		if (r < 0)
			return r;
		skip_blanks(c);
	} while (next_is(c, ","));
	if (!next_is(c, ")"))
		return fault(c, "\",\" or \")\"", reterr);
	return 0;
}

static int parse_operator(struct cursor *c, struct requirement *q, struct usher_error *reterr)
{
	skip_blanks(c);
	if (next_is_word(c, "in")) {
		q->relation = RELATION_IN;
		return parse_values(c, q, reterr);
	}
	if (next_is_word(c, "notin")) {
		q->relation = RELATION_NOT_IN;
		return parse_values(c, q, reterr);
	}
	if (next_is(c, "!=")) {
		q->relation = RELATION_NOT_IN;
		return parse_value(c, q, reterr);
	}
	if (next_is(c, "==") || next_is(c, "=")) {
		q->relation = RELATION_IN;
		return parse_value(c, q, reterr);
	}
	q->relation = RELATION_EXISTS;
	return 0;
}

/* One requirement, up to the comma or the end. */
static int parse_requirement(struct cursor *c, struct requirement *q, struct usher_error *reterr)
{
	const char *start;
	int r;

	skip_blanks(c);
	start = c->at;
	if (next_is(c, "!")) {
		q->relation = RELATION_MISSING;
		skip_blanks(c);
		r = take_word(c, "the name of a label", &q->name, reterr);
	} else {
		r = take_word(c, "the name of a label", &q->name, reterr);
		if (r >= 0)
			r = parse_operator(c, q, reterr);
	}
	if (r < 0)
		return r;

	q->text = strndup(start, (size_t) (c->at - start));
	if (!q->text)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	skip_blanks(c);
	if (*c->at != '\0' && *c->at != ',')
		return fault(c,
				"\",\", the end, or one of the operators =, !=, in (...) and notin "
				"(...)",
				reterr);
	return 0;
}

static int add_requirement(struct usher_match *m, struct requirement *q, struct usher_error *reterr)
{
	struct requirement *requirements;

	if (m->count == USHER_MATCH_SELECTORS_MAX)
		return usher_error_set(reterr, -E2BIG, "match has more than %d selectors",
				USHER_MATCH_SELECTORS_MAX);
	requirements = reallocarray(m->requirements, m->count + 1, sizeof(*requirements));
	if (!requirements)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	m->requirements = requirements;
	m->requirements[m->count++] = *q;
	*q = (struct requirement){};
	return 0;
}

static int parse_text(struct usher_match *m, const char *text, struct usher_error *reterr)
{
	struct cursor c = { .text = text, .at = text };

	do {
		struct requirement q = {};
		int r;

		r = parse_requirement(&c, &q, reterr);
		if (r >= 0)
			r = add_requirement(m, &q, reterr);
		requirement_done(&q);
		if (r < 0)
			return r;
	} while (next_is(&c, ","));
	return 0;
}

struct usher_match *usher_match_free(struct usher_match *m)
{
	if (!m)
		return NULL;
	for (size_t i = 0; i < m->count; i++)
		requirement_done(&m->requirements[i]);
	free(m->requirements);
	free(m);
	return NULL;
}

int usher_match_new(const char *const *texts, struct usher_match **ret, struct usher_error *reterr)
{
	struct usher_match *m;

	if (!texts || !texts[0])
		return usher_error_set(reterr, -EINVAL,
				"match is empty: name at least one selector, such as \"tier=gold\"");
	m = calloc(1, sizeof(*m));
	if (!m)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	for (size_t i = 0; texts[i]; i++) {
		int r = parse_text(m, texts[i], reterr);

		if (r < 0) {
			(void) usher_match_free(m);
			return r;
		}
	}
	*ret = m;
	return 0;
}

/* ---- the question ---- */

static bool is_one_of(const struct requirement *q, const char *value)
{
	for (size_t i = 0; i < q->value_count; i++)
		if (strcmp(q->values[i], value) == 0)
			return true;
	return false;
}

static bool meets(const struct requirement *q, const char *value)
{
	switch (q->relation) {
	case RELATION_IN:
		return value && is_one_of(q, value);
	case RELATION_NOT_IN:
		return !value || !is_one_of(q, value);
	case RELATION_EXISTS:
		return value;
	case RELATION_MISSING:
		return !value;
	}
	return false;
}

/* The first requirement that the endpoint does not meet, or NULL. */
static const struct requirement *first_unmet(
		const struct usher_match *m, const struct usher_endpoints *e, size_t i)
{
	for (size_t k = 0; k < m->count; k++) {
		const struct requirement *q = &m->requirements[k];

		if (!meets(q, usher_endpoints_metadata(e, i, q->name)))
			return q;
	}
	return NULL;
}

bool usher_match_holds(const struct usher_match *m, const struct usher_endpoints *e, size_t i)
{
	return !first_unmet(m, e, i);
}

void usher_match_explain(const struct usher_match *m, const struct usher_endpoints *e, size_t i,
		char *ret_text, size_t size)
{
	const struct requirement *q = first_unmet(m, e, i);
	const char *value;

	if (!q) {
		(void) snprintf(ret_text, size, "matches");
		return;
	}
	value = usher_endpoints_metadata(e, i, q->name);
	if (value)
		(void) snprintf(ret_text, size, "label %s is %s, asked for is %s", q->name, value,
				q->text);
	else
		(void) snprintf(ret_text, size, "has no label %s, asked for is %s", q->name,
				q->text);
}
