#include "range.h"

#include <stdio.h>
#include <string.h>

#define NUMBER_MAX INT32_MAX /* 1 more still fits */

static bool wrong(struct fault *c, const char *expected)
{
	c->expected = expected;
	return false;
}

void fault_describe(const struct fault *fault, char *ret_text, size_t size)
{
	if (*fault->at == '\0')
		(void) snprintf(ret_text, size, "\"%.40s\" ends too early: expected %s",
				fault->text, fault->expected);
	else
		(void) snprintf(ret_text, size, "\"%.40s\" is wrong at character %zu: expected %s",
				fault->text, (size_t) (fault->at - fault->text) + 1,
				fault->expected);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_wildcard(char c)
{
	return c == 'x' || c == 'X' || c == '*';
}

static void skip_blanks(struct fault *c)
{
	c->at += strspn(c->at, " \t");
}

static bool next_is(struct fault *c, const char *sign)
{
	size_t length = strlen(sign);

	if (strncmp(c->at, sign, length) != 0)
		return false;
	c->at += length;
	return true;
}

static bool read_number(struct fault *c, uint32_t *ret)
{
	const char *at = c->at;
	uint64_t number = 0;

	if (!is_digit(*at))
		return wrong(c, "a number");
	for (; is_digit(*at); at++) {
		number = number * 10 + (uint64_t) (*at - '0');
		if (number > NUMBER_MAX)
			return wrong(c, "a number up to 2147483647");
	}
	c->at = at;
	*ret = (uint32_t) number;
	return true;
}

/* Words with dots between, as in "rc.1". */
static bool read_words(struct fault *c, struct piece *ret)
{
	const char *start = c->at;

	do {
		size_t length = strspn(c->at,
				"0123456789abcdefghijklmnopqrstuvwxyz"
				"ABCDEFGHIJKLMNOPQRSTUVWXYZ-");

		if (length == 0)
			return wrong(c, "letters, digits or \"-\", as in 1.0.0-rc.1");
		c->at += length;
	} while (next_is(c, "."));
	*ret = (struct piece){ start, (size_t) (c->at - start) };
	return true;
}

/* One to three parts. */
struct partial {
	struct version version; /* parts that are not given are 0 */
	unsigned given;         /* numbers, before a wildcard or the end */
	bool wildcard;
};

static bool read_part(struct fault *c, struct partial *p, bool wildcards)
{
	uint32_t number;

	if (wildcards && is_wildcard(*c->at)) {
		c->at++;
		p->wildcard = true;
		return true;
	}
	if (!read_number(c, &number))
		return false;
	if (!p->wildcard) /* "1.x.3" is "1.x" */
		p->version.part[p->given++] = number;
	return true;
}

static bool read_partial(struct fault *c, struct partial *p, bool wildcards)
{
	struct piece build;
	unsigned parts = 0;

	*p = (struct partial){};
	do {
		if (!read_part(c, p, wildcards))
			return false;
	} while (++parts < 3 && next_is(c, "."));
	if (p->given < 3)
		return true;
	if (next_is(c, "-") && !read_words(c, &p->version.pre))
		return false;
	return !next_is(c, "+") || read_words(c, &build);
}

static bool read_whole(struct fault *c, struct version *ret)
{
	struct partial p;

	/* The signs of ranges are no prefix: who writes ">=1" does not mean 1. */
	while (*c->at && !is_digit(*c->at)) {
		if (strchr("^~<>=*|", *c->at) || (*c->at & 0x80))
			break;
		c->at++;
	}
	if (!is_digit(*c->at))
		return wrong(c, "a version, as in 1, 1.0 or 1.2.3");
	if (!read_partial(c, &p, false))
		return false;
	if (*c->at)
		return wrong(c, p.given < 3 ? "\".\" and a number, or the end" : "the end");
	*ret = p.version;
	return true;
}

bool version_read(const char *text, struct version *ret, struct fault *ret_fault)
{
	struct fault c = { .text = text, .at = text };

	if (read_whole(&c, ret))
		return true;
	*ret_fault = c;
	return false;
}

/* ---- ranges ---- */

enum sign {
	SIGN_NONE,
	SIGN_CARET,
	SIGN_TILDE,
	SIGN_LESS,
	SIGN_AT_MOST,
	SIGN_AT_LEAST,
	SIGN_MORE,
};

static enum sign read_sign(struct fault *c)
{
	static const struct {
		const char *text;
		enum sign sign;
	} signs[] = {
		{ "^", SIGN_CARET },
		{ "~>", SIGN_TILDE },
		{ "~", SIGN_TILDE },
		{ "<=", SIGN_AT_MOST },
		{ "<", SIGN_LESS },
		{ ">=", SIGN_AT_LEAST },
		{ ">", SIGN_MORE },
		{ "=", SIGN_NONE },
	};

	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
		if (next_is(c, signs[i].text))
			return signs[i].sign;
	return SIGN_NONE;
}

/* The alternative that is being read. */
struct building {
	struct fault cursor;
	struct range *range;
	unsigned alternative;
};

static bool add_bound(struct building *b, enum relation relation, struct version version)
{
	if (b->range->count == RANGE_BOUNDS_MAX)
		return wrong(&b->cursor, "a range of at most 32 bounds");
	b->range->bounds[b->range->count++] = (struct bound){
		.version = version, .relation = relation, .alternative = b->alternative
	};
	return true;
}

/* The first version of all, also before its own pre-releases. */
static struct version before_pre_releases(struct version v)
{
	v.pre = (struct piece){ "0", 1 };
	return v;
}

/* The first one in which the part is greater: after 1.2.3, 1.3.0 for part 1. */
static struct version next(const struct partial *p, unsigned part)
{
	struct version v = {};

	for (unsigned i = 0; i <= part; i++)
		v.part[i] = p->version.part[i];
	v.part[part]++;
	return v;
}

static bool add_anything(struct building *b)
{
	return add_bound(b, RELATION_AT_LEAST, (struct version){});
}

static bool add_nothing(struct building *b)
{
	return add_bound(b, RELATION_LESS, before_pre_releases((struct version){}));
}

/* From the version on, until the part grows. */
static bool add_span(struct building *b, const struct partial *p, unsigned part)
{
	return add_bound(b, RELATION_AT_LEAST, p->version) &&
			add_bound(b, RELATION_LESS, before_pre_releases(next(p, part)));
}

/* The first part that is not 0, or the last that is given. */
static unsigned caret_part(const struct partial *p)
{
	unsigned part = 0;

	while (part + 1 < p->given && p->version.part[part] == 0)
		part++;
	return part;
}

static bool add_at_most(struct building *b, const struct partial *p)
{
	if (p->given == 3)
		return add_bound(b, RELATION_AT_MOST, p->version);
	return add_bound(b, RELATION_LESS, before_pre_releases(next(p, p->given - 1)));
}

/* What a sign and a version, perhaps a part of one, mean as bounds. */
static bool add_term(struct building *b, enum sign sign, const struct partial *p)
{
	if (p->given == 0) /* "*": less than anything is nothing */
		return sign == SIGN_LESS || sign == SIGN_MORE ? add_nothing(b) : add_anything(b);

	switch (sign) {
	case SIGN_NONE:
		if (p->wildcard)
			return add_span(b, p, p->given - 1);
		return add_bound(b, RELATION_EQUAL, p->version);
	case SIGN_CARET:
		return add_span(b, p, caret_part(p));
	case SIGN_TILDE:
		return add_span(b, p, p->given == 1 ? 0 : 1);
	case SIGN_LESS:
		return add_bound(b, RELATION_LESS,
				p->given == 3 ? p->version : before_pre_releases(p->version));
	case SIGN_AT_MOST:
		return add_at_most(b, p);
	case SIGN_AT_LEAST:
		return add_bound(b, RELATION_AT_LEAST, p->version);
	case SIGN_MORE:
		if (p->given == 3)
			return add_bound(b, RELATION_MORE, p->version);
		return add_bound(b, RELATION_AT_LEAST, next(p, p->given - 1));
	}
	return false;
}

static bool read_term_version(struct fault *c, struct partial *p)
{
	skip_blanks(c);
	if (*c->at == 'v' || *c->at == 'V')
		c->at++;
	if (!is_digit(*c->at) && !is_wildcard(*c->at))
		return wrong(c, "a version, as in 1.0, ^1.2 or 1.x");
	return read_partial(c, p, true);
}

/* The rest of "1.2 - 2.3", from the "-" on. */
static bool read_hyphen(struct building *b, const struct partial *from)
{
	struct partial to;

	if (!read_term_version(&b->cursor, &to))
		return false;
	skip_blanks(&b->cursor);
	return add_bound(b, RELATION_AT_LEAST, from->version) &&
			(to.given == 0 || add_at_most(b, &to));
}

/* A blank, the end, or what ends the alternative. */
static bool ends_term(const struct fault *c)
{
	return *c->at == '\0' || is_blank(*c->at) || strncmp(c->at, "||", 2) == 0;
}

static bool read_alternative(struct building *b)
{
	struct fault *c = &b->cursor;
	bool first = true;

	do {
		enum sign sign = read_sign(c);
		struct partial p;

		if (!read_term_version(c, &p))
			return false;
		if (!ends_term(c))
			return wrong(c, "a blank, \"||\" or the end");
		skip_blanks(c);
		if (first && sign == SIGN_NONE && next_is(c, "- "))
			return read_hyphen(b, &p);
		if (!add_term(b, sign, &p))
			return false;
		first = false;
	} while (*c->at && *c->at != '|');
	return true;
}

static bool read_alternatives(struct building *b)
{
	do {
		skip_blanks(&b->cursor);
		if (!read_alternative(b))
			return false;
		b->alternative++;
	} while (next_is(&b->cursor, "||"));
	return *b->cursor.at == '\0' || wrong(&b->cursor, "\"||\" or the end");
}

/* As with Spring Cloud's versions, a blank behind one makes it none; in a header HTTP has taken it
 * off before. */
static bool ends_in_a_blank(struct fault *c)
{
	size_t length = strlen(c->text);

	if (length == 0 || !is_blank(c->text[length - 1]))
		return false;
	c->at = c->text + length - 1;
	return !wrong(c, "no blank at the end");
}

bool range_read(const char *text, struct range *ret, struct fault *ret_fault)
{
	struct building b = { .cursor = { .text = text, .at = text }, .range = ret };
	struct version version;
	struct fault fault;

	ret->count = 0;
	if (!ends_in_a_blank(&b.cursor) && read_alternatives(&b))
		return true;
	*ret_fault = b.cursor;

	/* "release-1.0": what may stand before a version is nothing to a range. */
	b = (struct building){ .range = ret };
	ret->count = 0;
	return version_read(text, &version, &fault) && add_bound(&b, RELATION_EQUAL, version);
}

/* ---- comparing ---- */

static size_t word_length(struct piece p)
{
	const char *dot = memchr(p.start, '.', p.length);

	return dot ? (size_t) (dot - p.start) : p.length;
}

static bool is_numeric(struct piece word)
{
	for (size_t i = 0; i < word.length; i++)
		if (!is_digit(word.start[i]))
			return false;
	return true;
}

static struct piece without_zeros(struct piece number)
{
	while (number.length > 1 && number.start[0] == '0')
		number = (struct piece){ number.start + 1, number.length - 1 };
	return number;
}

static int compare_bytes(struct piece a, struct piece b)
{
	size_t common = a.length < b.length ? a.length : b.length;
	int order = memcmp(a.start, b.start, common);

	return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

/* Numbers by their value, before words by their bytes. */
static int compare_words(struct piece a, struct piece b)
{
	if (is_numeric(a) != is_numeric(b))
		return is_numeric(a) ? -1 : 1;
	if (!is_numeric(a))
		return compare_bytes(a, b);
	a = without_zeros(a);
	b = without_zeros(b);
	if (a.length != b.length)
		return a.length < b.length ? -1 : 1;
	return compare_bytes(a, b);
}

/* https://semver.org, 11.4; a release is after its pre-releases. */
static int compare_pre(struct piece a, struct piece b)
{
	if (a.length == 0 || b.length == 0)
		return (a.length == 0) - (b.length == 0);
	for (;;) {
		size_t a_length = word_length(a), b_length = word_length(b);
		int order = compare_words((struct piece){ a.start, a_length },
				(struct piece){ b.start, b_length });

		if (order != 0)
			return order;
		if (a_length == a.length || b_length == b.length)
			return (a_length < a.length) - (b_length < b.length);
		a = (struct piece){ a.start + a_length + 1, a.length - a_length - 1 };
		b = (struct piece){ b.start + b_length + 1, b.length - b_length - 1 };
	}
}

static bool same_numbers(const struct version *a, const struct version *b)
{
	return memcmp(a->part, b->part, sizeof(a->part)) == 0;
}

static int compare(const struct version *a, const struct version *b)
{
	for (size_t i = 0; i < 3; i++)
		if (a->part[i] != b->part[i])
			return a->part[i] < b->part[i] ? -1 : 1;
	return compare_pre(a->pre, b->pre);
}

static bool holds(const struct bound *b, const struct version *v)
{
	int order = compare(v, &b->version);

	switch (b->relation) {
	case RELATION_LESS:
		return order < 0;
	case RELATION_AT_MOST:
		return order <= 0;
	case RELATION_EQUAL:
		return order == 0;
	case RELATION_AT_LEAST:
		return order >= 0;
	case RELATION_MORE:
		return order > 0;
	}
	return false;
}

/* The bounds from *at on that belong to one alternative; *at is moved behind them. */
static enum range_fit fits_alternative(
		const struct range *range, size_t *at, const struct version *v)
{
	unsigned alternative = range->bounds[*at].alternative;
	bool all = true, named = v->pre.length == 0;

	for (; *at < range->count && range->bounds[*at].alternative == alternative; ++*at) {
		const struct bound *b = &range->bounds[*at];

		all = all && holds(b, v);
		named = named || (b->version.pre.length > 0 && same_numbers(&b->version, v));
	}
	if (!all)
		return RANGE_NO;
	return named ? RANGE_YES : RANGE_BUT_PRE_RELEASE;
}

enum range_fit range_fits(const struct range *range, const struct version *version)
{
	enum range_fit best = RANGE_NO;
	size_t at = 0;

	while (at < range->count && best != RANGE_YES) {
		enum range_fit fit = fits_alternative(range, &at, version);

		if (fit > best)
			best = fit;
	}
	return best;
}
