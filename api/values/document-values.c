#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "document-node.h"

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit duration_units[] = {
	{ "d", UINT64_C(86400000000) },
	{ "h", UINT64_C(3600000000) },
	{ "m", 60000000 },
	{ "s", 1000000 },
	{ "ms", 1000 },
	{ "us", 1 },
};

static const struct unit size_units[] = {
	{ "", 1 },
	{ "k", UINT64_C(1) << 10 },
	{ "K", UINT64_C(1) << 10 },
	{ "Ki", UINT64_C(1) << 10 },
	{ "M", UINT64_C(1) << 20 },
	{ "Mi", UINT64_C(1) << 20 },
	{ "G", UINT64_C(1) << 30 },
	{ "Gi", UINT64_C(1) << 30 },
};

/* Digits, perhaps with a fraction, in units of `factor`. Returns what follows, or NULL: no number,
 * or too large. */
static const char *parse_scaled(
		const char *text, const struct unit *units, size_t count, uint64_t *ret)
{
	size_t digits = strspn(text, "0123456789"), fraction = 0, unit_length;
	const char *unit;
	double part = 0;
	uint64_t whole;

	if (digits == 0 || digits > 18)
		return NULL;
	whole = strtoull(text, NULL, 10);
	unit = text + digits;
	if (*unit == '.') {
		fraction = strspn(unit + 1, "0123456789");
		if (fraction == 0 || fraction > 9)
			return NULL;
		for (size_t i = fraction; i > 0; i--)
			part = (part + (unit[i] - '0')) / 10;
		unit += 1 + fraction;
	}
	unit_length = strspn(unit, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
	for (size_t i = 0; i < count; i++)
		if (strlen(units[i].name) == unit_length &&
				strncmp(units[i].name, unit, unit_length) == 0) {
			if (__builtin_mul_overflow(whole, units[i].factor, &whole) ||
					__builtin_add_overflow(whole,
							(uint64_t) llround(part *
									(double) units[i].factor),
							ret))
				return NULL;
			return unit + unit_length;
		}
	return NULL;
}

int usher_duration_parse(const char *text, uint64_t *ret_usec)
{
	uint64_t total = 0;

	if (strcmp(text, "0") == 0) {
		*ret_usec = 0;
		return 0;
	}
	do {
		uint64_t part;

		text = parse_scaled(text, duration_units,
				sizeof(duration_units) / sizeof(*duration_units), &part);
		if (!text)
			return -EINVAL;
		if (__builtin_add_overflow(total, part, &total) || total > INT64_MAX)
			return -ERANGE;
	} while (*text);
	*ret_usec = total;
	return 0;
}

const char *usher_duration_format(uint64_t usec, char *ret)
{
	size_t length = 0;

	if (usec == 0)
		return memcpy(ret, "0s", sizeof("0s"));
	for (size_t i = 0; i < sizeof(duration_units) / sizeof(*duration_units); i++) {
		const struct unit *unit = &duration_units[i];

		if (usec < unit->factor)
			continue;
		length += (size_t) snprintf(ret + length, USHER_DURATION_TEXT_MAX - length,
				"%" PRIu64 "%s", usec / unit->factor, unit->name);
		usec %= unit->factor;
	}
	return ret;
}

static int want_scalar(const struct usher_node *n, const char *expected, struct usher_error *reterr)
{
	if (n->kind == USHER_NODE_SCALAR)
		return 0;
	return usher_node_error(reterr, n, -EINVAL, "expected %s, got %s", expected,
			usher_node_kind_name(n));
}

int usher_node_string(const struct usher_node *n, const char **ret, struct usher_error *reterr)
{
	int r = want_scalar(n, "a text", reterr);

	if (r < 0)
		return r;
	*ret = n->text;
	return 0;
}

int usher_node_bool(const struct usher_node *n, bool *ret, struct usher_error *reterr)
{
	int r = want_scalar(n, "true or false", reterr);

	if (r < 0)
		return r;
	if (!n->quoted && strcmp(n->text, "true") == 0)
		*ret = true;
	else if (!n->quoted && strcmp(n->text, "false") == 0)
		*ret = false;
	else
		return usher_node_error(
				reterr, n, -EINVAL, "expected true or false, got \"%s\"", n->text);
	return 0;
}

int usher_node_integer(const struct usher_node *n, int64_t min, int64_t max, int64_t *ret,
		struct usher_error *reterr)
{
	const char *digits;
	int64_t value;
	int r = want_scalar(n, "a whole number", reterr);

	if (r < 0)
		return r;
	digits = n->text + (n->text[0] == '-');
	if (n->quoted || !*digits || strspn(digits, "0123456789") != strlen(digits))
		return usher_node_error(
				reterr, n, -EINVAL, "expected a whole number, got \"%s\"", n->text);
	errno = 0;
	value = strtoll(n->text, NULL, 10);
	if (errno == ERANGE || value < min || value > max)
		return usher_node_error(reterr, n, -ERANGE, "%s is not in %" PRIi64 "..%" PRIi64,
				n->text, min, max);
	*ret = value;
	return 0;
}

int usher_node_duration(const struct usher_node *n, uint64_t *ret_usec, struct usher_error *reterr)
{
	int r = want_scalar(n, "a duration such as 250ms, 5s or 2m", reterr);

	if (r < 0)
		return r;
	r = usher_duration_parse(n->text, ret_usec);
	if (r == -ERANGE)
		return usher_node_error(reterr, n, r, "duration \"%s\" is too long", n->text);
	if (r < 0)
		return usher_node_error(reterr, n, r,
				"\"%s\" is not a duration; write a number and a unit, such as 250ms, 5s or 2m",
				n->text);
	return 0;
}

int usher_node_percent(const struct usher_node *n, int64_t min, int64_t max, double *ret,
		struct usher_error *reterr)
{
	static const struct unit percent[] = { { "", 1000000 } };
	const char *end;
	uint64_t millionths;
	int r = want_scalar(n, "a share such as 10%", reterr);

	if (r < 0)
		return r;
	end = parse_scaled(n->text, percent, 1, &millionths);
	if (!end || strcmp(end, "%") != 0)
		return usher_node_error(reterr, n, -EINVAL,
				"\"%s\" is not a share; write a percentage, such as 10%%", n->text);
	if ((double) millionths < (double) min * 1e6 || (double) millionths > (double) max * 1e6)
		return usher_node_error(reterr, n, -ERANGE,
				"share %s is not in %" PRIi64 "%%..%" PRIi64 "%%", n->text, min,
				max);
	*ret = (double) millionths / 100000000;
	return 0;
}

int usher_node_share(const struct usher_node *n, double *ret, struct usher_error *reterr)
{
	return usher_node_percent(n, 0, 100, ret, reterr);
}

int usher_node_size(const struct usher_node *n, uint64_t *ret_bytes, struct usher_error *reterr)
{
	const char *end;
	int r = want_scalar(n, "a size such as 64k or 8M", reterr);

	if (r < 0)
		return r;
	end = parse_scaled(
			n->text, size_units, sizeof(size_units) / sizeof(*size_units), ret_bytes);
	if (!end || *end)
		return usher_node_error(reterr, n, -EINVAL,
				"\"%s\" is not a size; write bytes, or a unit, such as 64k or 8M",
				n->text);
	return 0;
}
