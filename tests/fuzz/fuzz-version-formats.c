/* Any text as a version, and as a range: read without looking further, or refused with a place in
 * it. What the one says must fit what the other says. */

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "range.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_fault(const struct fault *fault, const char *text)
{
	char described[160];

	assert(fault->text == text && fault->at >= text && fault->at <= text + strlen(text));
	assert(fault->expected);
	fault_describe(fault, described, sizeof(described));
	assert(described[0] != '\0');
}

/* Of a version, a range that is not less, and its contrary, one holds. */
static void check_order(const struct version *version, const struct range *range)
{
	struct range bound = { .count = 2 };
	enum range_fit less, not_less;

	for (size_t i = 0; i < range->count; i++) {
		/* It names the version itself, so that pre-releases count. */
		bound.bounds[0] = (struct bound){ *version, RELATION_EQUAL, 0 };
		bound.bounds[1] = (struct bound){ range->bounds[i].version, RELATION_LESS, 0 };
		less = range_fits(&bound, version);
		bound.bounds[1].relation = RELATION_AT_LEAST;
		not_less = range_fits(&bound, version);
		assert((less == RANGE_YES) != (not_less == RANGE_YES));
	}
}

/* A text with what follows the first line feed as the range. */
static void read_both(const char *text, const char *range_text)
{
	static const struct version zero;
	struct version version;
	struct range range, own;
	struct fault fault;

	if (!range_read(range_text, &range, &fault)) {
		check_fault(&fault, range_text);
		range = (struct range){ 1, { { zero, RELATION_AT_LEAST, 0 } } };
	}
	assert(range.count > 0 && range.count <= RANGE_BOUNDS_MAX);
	(void) range_fits(&range, &zero);
	if (!version_read(text, &version, &fault)) {
		check_fault(&fault, text);
		return;
	}
	check_order(&version, &range);
	own = (struct range){ 1, { { version, RELATION_EQUAL, 0 } } };
	assert(range_fits(&own, &version) == RANGE_YES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *end;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	end = strchr(text, '\n');
	if (end)
		*end = '\0';
	read_both(text, end ? end + 1 : text);
	free(text);
	return 0;
}
