#pragma once

/* Versions, and the ranges that requests ask for.
 *
 * A version is one to three numbers up to 2147483647, missing ones count as 0, with whatever ASCII
 * stands before the first digit left out ("v1"), as Spring Cloud reads it; and behind three numbers
 * a pre-release and a build, ordered as in https://semver.org.
 *
 * A range is in the words of node-semver (https://github.com/npm/node-semver#ranges) with two
 * differences: a version without a sign or an "x" is that version, filled up with zeros, and no
 * range; and there is something on both sides of "||". As there, a pre-release is in a range only
 * if one of its bounds names a pre-release of the same three numbers.
 *
 * Nothing is allocated: what was read points into its text, which has to outlive it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANGE_BOUNDS_MAX 32 /* a sign makes one or two */

/* A piece of the text that was read. */
struct piece {
	const char *start;
	size_t length;
};

struct version {
	uint32_t part[3];
	struct piece pre; /* length 0: a release */
};

enum relation {
	RELATION_LESS,
	RELATION_AT_MOST,
	RELATION_EQUAL,
	RELATION_AT_LEAST,
	RELATION_MORE,
};

struct bound {
	struct version version;
	enum relation relation;
	unsigned alternative; /* which of those between "||", from 0; one is met when all of its
				 bounds are */
};

struct range {
	size_t count;
	struct bound bounds[RANGE_BOUNDS_MAX];
};

/* Where reading went wrong. */
struct fault {
	const char *text;
	const char *at;
	const char *expected;
};

/* false: ret_fault says what is wrong, and ret is nothing. */
bool version_read(const char *text, struct version *ret, struct fault *ret_fault);
/* A version alone, or a range. */
bool range_read(const char *text, struct range *ret, struct fault *ret_fault);
/* "\"1.y\" is wrong at character 3: expected a number" */
void fault_describe(const struct fault *fault, char *ret_text, size_t size);

enum range_fit {
	RANGE_NO,
	RANGE_BUT_PRE_RELEASE, /* within the bounds, but none of them names its numbers */
	RANGE_YES,
};
enum range_fit range_fits(const struct range *range, const struct version *version);
