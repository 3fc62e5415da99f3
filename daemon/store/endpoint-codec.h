#pragma once

/* A set of endpoints as a text that people can read with sqlite3: JSON, with the version of the
 * format first and one endpoint a line.
 *
 *     [1,
 *     {"id": "catalog-a", "address": "10.0.0.5", "port": 8080, "zone": "east", "weight": 2},
 *     {"id": "catalog-b", "address": "fd00::10", "port": 8080, "secure": true, "ready": false}
 *     ]
 *
 * What is as in USHER_ENDPOINT_INIT is not written; keys that this version does not know are passed
 * over. Reading needs memory for one endpoint beside the set, however long the text is. Thread:
 * any. */

#include <stddef.h>
#include <usher/endpoint.h>
#include <usher/error.h>

#include "text.h"

#define ENDPOINT_CODEC_VERSION 1

/* Append the set. Running out of memory marks the text as failed. */
void endpoints_encode(const struct usher_endpoints *endpoints, struct text *text);

/* A sealed set. Errors: EBADMSG (not such a text, or an endpoint that a set refuses), ENOMEM. */
int endpoints_decode(const char *data, size_t size_bytes, struct usher_endpoints **ret,
		struct usher_error *reterr);
