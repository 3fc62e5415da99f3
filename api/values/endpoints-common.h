#pragma once

/* Comparing many endpoints of two sets. Each text stands in a set once, so where the texts of both
 * begin the same, as they do after a small change, two texts are equal when their places are. */

#include <usher/endpoint.h>

/* How many bytes of their texts two sealed sets have in common. */
size_t endpoints_common(const struct usher_endpoints *a, const struct usher_endpoints *b);
/* As usher_endpoints_same, given that. */
bool endpoints_same(const struct usher_endpoints *a, size_t i, const struct usher_endpoints *b,
		size_t k, size_t common);
