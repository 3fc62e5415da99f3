#pragma once

/* Bytes as they come from a socket, cut into lines. */

#include <stdbool.h>
#include <stddef.h>
#include <usher/client.h>

struct line_splitter {
	char *data;
	size_t length, capacity;
	size_t maximum; /* bytes of one line; USHER_LINE_MAX */
};

/* Give each whole line, without its end and terminated, to `line`; keep the rest. Empty lines are
 * passed over. A value of `line` other than 0 ends it and is returned. Errors: E2BIG, ENOMEM. */
int line_splitter_add(struct line_splitter *splitter, const char *data, size_t length,
		usher_client_line line, void *userdata);
void line_splitter_done(struct line_splitter *splitter);
