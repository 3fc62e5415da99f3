#pragma once

/* A path with its query, or the body of a form, piece by piece. What goes wrong on the way is told
 * once, by form_is_whole(). */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <usher/http.h>

struct form {
	char *text; /* NULL: no memory, now or before */
	size_t room;
	char next; /* what stands before the next pair; 0: nothing */
};

static inline bool form_grow(struct form *f, size_t more)
{
	size_t need = f->text ? strlen(f->text) + more + 1 : 0;
	char *text;

	if (!f->text || need <= f->room)
		return f->text;
	text = realloc(f->text, need * 2);
	if (!text) {
		free(f->text);
		f->text = NULL;
		return false;
	}
	f->text = text;
	f->room = need * 2;
	return true;
}

static inline void form_put(struct form *f, const char *text)
{
	if (form_grow(f, strlen(text)))
		memcpy(f->text + strlen(f->text), text, strlen(text) + 1);
}

/* path: NULL for a body. */
static inline void form_start(struct form *f, const char *path)
{
	f->room = 256;
	f->text = calloc(1, f->room);
	f->next = path ? '?' : '\0';
	if (path)
		form_put(f, path);
}

/* NULL: nothing to add. */
static inline void form_add(struct form *f, const char *name, const char *value)
{
	const char separator[] = { f->next, '\0' };

	if (!value)
		return;
	form_put(f, separator);
	form_put(f, name);
	form_put(f, "=");
	f->next = '&';
	if (form_grow(f, 3 * strlen(value)))
		(void) usher_http_escape(f->text, f->room, value);
}

static inline bool form_is_whole(const struct form *f)
{
	return f->text;
}

static inline void form_done(struct form *f)
{
	free(f->text);
	f->text = NULL;
}
