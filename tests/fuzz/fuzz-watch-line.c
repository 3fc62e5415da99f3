/* The lines of a watch, and what a follower makes of them: bytes are cut into lines, each parsed
 * and applied to one directory, which is then picked from. */

#include <stdlib.h>

#include "followed-directory.h"
#include "line-splitter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int apply(void *userdata, const char *text, size_t length)
{
	struct followed_directory *directory = userdata;
	struct watch_line line = {};

	if (watch_line_parse(text, length, &line, NULL) < 0)
		return 0;
	if (line.type == WATCH_SNAPSHOT)
		(void) followed_directory_replace(directory, &line, line.revision);
	if (line.type == WATCH_UPDATE)
		(void) followed_directory_update(directory, &line, line.revision);
	watch_line_done(&line);
	for (size_t i = 0; i < 3; i++) {
		const struct followed_endpoint *endpoint = followed_directory_turn(directory);

		if (endpoint && (!endpoint->ready || endpoint->weight == 0 || !endpoint->id))
			abort();
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct line_splitter splitter = { .maximum = 65536 };
	struct followed_directory directory = {};

	(void) line_splitter_add(&splitter, (const char *) data, size, apply, &directory);
	line_splitter_done(&splitter);
	followed_directory_done(&directory);
	return 0;
}
