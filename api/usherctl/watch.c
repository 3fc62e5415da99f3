/* usherctl watch: a service's directory, a line for every change. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backoff.h"
#include "directory-answer.h"
#include "human.h"
#include "output.h"
#include "random-value.h"
#include "verbs.h"

#define WATCH_ENDED 1 /* the daemon says that nothing more comes */

struct watch {
	struct ctl *ctl;
	const char *service;
	char revision[32]; /* of the last line that had one */
	struct backoff backoff;
	bool started; /* a line has come */
	bool away;    /* usherd is, and was said to be */
	bool ended;   /* by the daemon, for good */
};

static void print_time(void)
{
	time_t now = time(NULL);
	struct tm tm;
	char text[16];

	(void) localtime_r(&now, &tm);
	(void) strftime(text, sizeof(text), "%H:%M:%S", &tm);
	(void) printf("%s  ", text);
}

static void print_endpoints(const struct ctl *ctl, const json_t *list, char mark)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *endpoint = json_array_get(list, i),
			     *health = json_object_get(endpoint, "health");
		char state[ENDPOINT_STATE_MAX], authority[USHER_AUTHORITY_MAX],
				line[2048 + USHER_AUTHORITY_MAX];

		(void) endpoint_state(endpoint, state);
		(void) snprintf(line, sizeof(line), "%c %s  %s  weight %" PRIu64, mark,
				field_text(endpoint, "id"), endpoint_authority(endpoint, authority),
				field_number(endpoint, "weight"));
		(void) printf("          %s  %s%s%s%s%s\n", human_printable(line),
				tint_on(ctl, tint_of(state)), state, tint_off(ctl, tint_of(state)),
				health ? ", " : "", health ? field_text(health, "state") : "");
	}
}

static void print_removed(const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		char line[USHER_TEXT_MAX];

		(void) snprintf(line, sizeof(line), "%s",
				json_string_value(json_array_get(list, i)));
		(void) printf("          - %s\n", human_printable(line));
	}
}

static void print_line(const struct watch *w, const json_t *line, const char *type)
{
	const json_t *freshness = json_object_get(line, "freshness");
	const bool answered = json_is_integer(json_object_get(freshness, "age_ms"));
	char age[HUMAN_TEXT_MAX], why[ENDPOINT_STATE_MAX];

	print_time();
	(void) printf("%-8s", type);
	if (freshness)
		(void) printf("  revision %" PRIu64 "  %s%s%s, %s%s",
				field_number(line, "revision"),
				tint_on(w->ctl, tint_of(field_text(freshness, "state"))),
				field_text(freshness, "state"),
				tint_off(w->ctl, tint_of(field_text(freshness, "state"))),
				answered ? human_age(field_msec(freshness, "age_ms"), age)
					 : "never answered",
				answered ? " old" : "");
	if (json_is_true(json_object_get(line, "panic")))
		(void) printf("  in panic");
	if (strcmp(type, "snapshot") == 0)
		(void) printf("  %zu endpoints",
				json_array_size(json_object_get(line, "endpoints")));
	if (strcmp(type, "end") == 0 && json_is_string(json_object_get(line, "code")))
		(void) printf("  %s", field_text(line, "code"));
	else if (answer_why_none(line, why))
		(void) printf("  %s", human_printable(why));
	(void) printf("\n");
	print_endpoints(w->ctl, json_object_get(line, "endpoints"), '+');
	print_endpoints(w->ctl, json_object_get(line, "changed"), '~');
	print_removed(json_object_get(line, "removed"));
}

static int watch_on_line(void *userdata, const char *text, size_t length)
{
	struct watch *w = userdata;
	cleanup(json_decrefp) json_t *line = json_loadb(text, length, 0, NULL);
	const char *type = field_text(line, "type");

	if (w->away)
		(void) fprintf(stderr, "usherd is back.\n");
	w->started = true;
	w->away = false;
	backoff_reset(&w->backoff);
	if (json_is_integer(json_object_get(line, "revision")))
		(void) snprintf(w->revision, sizeof(w->revision), "%" PRIu64,
				field_number(line, "revision"));
	w->ended = strcmp(type, "end") == 0 && strcmp(field_text(line, "code"), "removed") == 0;
	if (w->ctl->options.output == OUTPUT_JSON)
		(void) printf("%s\n", text);
	else if (w->ctl->options.output == OUTPUT_YAML && line)
		(void) (printf("---\n"), output_data(w->ctl, line));
	else
		print_line(w, line, type);
	if (fflush(stdout) != 0)
		return -EPIPE;
	return strcmp(type, "end") == 0 ? WATCH_ENDED : 0;
}

static void watch_pause(struct watch *w, const char *why)
{
	uint64_t delay = backoff_next_usec(&w->backoff, random_value());
	struct timespec pause;

	if (!w->away)
		(void) fprintf(stderr,
				"usherd went away (%s); the watch goes on when it is back.\n", why);
	w->away = true;
	pause = (struct timespec){ .tv_sec = (time_t) (delay / 1000000),
		.tv_nsec = (long) (delay % 1000000) * 1000 };
	(void) nanosleep(&pause, NULL);
}

/* One stream. Returns EXIT_DONE to go on with another, else the exit code. */
static int watch_stream(struct watch *w, struct usher_client *client)
{
	autofree char *path =
			ctl_path_add(ctl_path_add(ctl_path("/v1/services/%s/endpoints", w->service),
						     "watch", "true"),
					"revision", *w->revision ? w->revision : NULL);
	autofree char *body = NULL;
	struct usher_error error = {};
	int r;

	if (!path)
		return ctl_fail(EXIT_FAILED, "out of memory");
	r = usher_client_stream(client, path, watch_on_line, w, &body, &error);
	if (w->ended)
		return ctl_fail(EXIT_NOT_FOUND, "%s is no longer in the configuration", w->service);
	if (r == -EPIPE)
		return EXIT_FAILED;
	if (r > 200)
		return ctl_problem(w->ctl, r, body);
	if (r < 0 && (!w->started || ctl_code_of_errno(r) != EXIT_UNREACHABLE))
		return ctl_fail(ctl_code_of_errno(r), "%s", usher_error_text(&error, r));
	watch_pause(w, r < 0 ? strerrordesc_np(-r) : "it ended the watch");
	return EXIT_DONE;
}

int verb_watch(struct ctl *ctl)
{
	struct watch w = { .ctl = ctl, .service = ctl->arguments[0] };
	struct usher_client *client = ctl_client(ctl, DOOR_READ);
	int r;

	if (!client)
		return ctl_fail(EXIT_FAILED, "out of memory");
	if (ctl->options.revision)
		(void) snprintf(w.revision, sizeof(w.revision), "%s", ctl->options.revision);
	do {
		r = watch_stream(&w, client);
	} while (r == EXIT_DONE);
	return r;
}
