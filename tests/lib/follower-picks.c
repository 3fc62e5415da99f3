/* A consumer for end-to-end tests: follows a service through libusher and, for every line on
 * standard input, picks once from the directory in its own memory and says what it got: {"id",
 * "revision", "age_ms", "stale", "connected"}, or
 * {"error"}. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <usher/client.h>

static void pick_once(struct usher_follower *follower)
{
	struct usher_choice choice = { .size = sizeof(choice) };
	int r = usher_follower_pick(follower, &choice);

	if (r < 0)
		(void) printf("{\"error\": %d}\n", r);
	else
		(void) printf("{\"id\": \"%s\", \"revision\": %" PRIu64 ", \"age_ms\": %" PRIu64
			      ", \"stale\": %s, \"connected\": %s}\n",
				choice.id, choice.revision, choice.age_usec / 1000,
				choice.stale ? "true" : "false",
				usher_follower_connected(follower) ? "true" : "false");
	(void) fflush(stdout);
}

int main(int argc, char **argv)
{
	struct usher_follower *follower = NULL;
	struct usher_error err = {};
	char line[16];
	int r;

	if (argc != 3) {
		(void) fprintf(stderr, "usage: %s SOCKET SERVICE\n", argv[0]);
		return EXIT_FAILURE;
	}
	r = usher_follower_new(argv[1], "follower-picks", argv[2], &follower, &err);
	if (r < 0) {
		(void) fprintf(stderr, "%s\n", usher_error_text(&err, r));
		return EXIT_FAILURE;
	}
	while (fgets(line, sizeof(line), stdin))
		pick_once(follower);
	usher_follower_free(follower);
	return EXIT_SUCCESS;
}
