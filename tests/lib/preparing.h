#pragma once

/* prepare() of the selector that is compiled into the test, with each of its allocations failing in
 * turn. */

#include <usher/plugin.h>

#include "endpoint-sets.h"

extern const struct usher_plugin usher_plugin;

struct preparing {
	const void *instance; /* its options */
	const struct usher_view *view;
	const uint32_t *candidates;
	size_t count;
};

__attribute__((unused)) static int prepare_once(void *userdata)
{
	const struct preparing *p = userdata;
	const struct usher_selector *selector = usher_plugin.selector;
	void *prepared = NULL;
	int r;

	r = selector->prepare(p->instance, p->view, p->candidates, p->count, &prepared);
	if (r >= 0)
		selector->release(prepared);
	else
		assert_null(prepared);
	return r;
}

/* Weights that have no divisor in common and make a long period, all of them 0, and one alone. */
__attribute__((unused)) static void check_prepare_survives_oom(const void *instance)
{
	static const uint32_t candidates[] = { 0, 1, 2, 3 };
	static const uint32_t weights[][4] = { { 1000003, 2000003, 0, 7 }, { 3, 1, 1, 0 },
		{ 1000, 1000, 0, 1000 }, {} };
	struct usher_endpoints *set = set_of("a b c d");

	for (size_t i = 0; i < sizeof(weights) / sizeof(weights[0]); i++)
		for (size_t count = 1; count <= 4; count += 3) {
			struct usher_view view = {
				.size = sizeof(view), .endpoints = set, .weights = weights[i]
			};
			struct preparing p = { instance, &view, candidates, count };

			assert_survives_oom(prepare_once, &p);
		}
	(void) usher_endpoints_unref(set);
}
