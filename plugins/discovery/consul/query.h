#pragma once

/* A path with its query, piece by piece; too long, it is `full` and stays so. */

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <usher/http.h>

#define QUERY_MAX 16384

struct query {
	char text[QUERY_MAX];
	bool full, asked; /* asked: there is a "?" */
};

static inline void query_start(struct query *q, const char *path, const char *name)
{
	q->asked = false;
	q->full = snprintf(q->text, sizeof(q->text), "%s", path) >= (int) sizeof(q->text) ||
			!usher_http_escape(q->text, sizeof(q->text), name);
}

/* "name=value", or "name" alone. NULL: nothing to add. */
static inline void query_add(struct query *q, const char *name, const char *value)
{
	size_t used = strlen(q->text);
	int n = snprintf(&q->text[used], sizeof(q->text) - used, "%c%s%s", q->asked ? '&' : '?',
			name, value ? "=" : "");

	q->asked = true;
	q->full = q->full || n < 0 || (size_t) n >= sizeof(q->text) - used ||
			(value && !usher_http_escape(q->text, sizeof(q->text), value));
}

static inline void query_add_if(struct query *q, const char *name, const char *value)
{
	if (value && value[0])
		query_add(q, name, value);
}
