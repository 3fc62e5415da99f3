/* usherctl register and deregister: instances of this node that registries are told about. */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "boot-clock.h"
#include "human.h"
#include "output.h"
#include "verbs.h"

#define LOOK_NSEC 100000000L /* from one look to the next, while it is waited for */
#define MAP       "metadata" /* its names may have dots */

/* ---- the body ---- */

/* JSON where it is some, else a text. */
static json_t *parse_value(const char *text)
{
	json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);

	return value ? value : json_string(text);
}

/* The map that the part of a key before a dot leads to. */
static json_t *descend(json_t *map, const char *key, size_t length)
{
	autofree char *name = strndup(key, length);
	json_t *below = name ? json_object_get(map, name) : NULL;

	if (below || !name)
		return below;
	below = json_object();
	return json_object_set_new(map, name, below) < 0 ? NULL : below;
}

static int add_pair(const struct ctl *ctl, json_t *body, const char *pair)
{
	const char *equals = strchr(pair, '='), *dot;
	autofree char *whole = equals ? strndup(pair, (size_t) (equals - pair)) : NULL;
	const char *key = whole;
	json_t *map = body;

	if (!equals || equals == pair)
		return ctl_usage(ctl, "\"%s\" is not KEY=VALUE, such as port=8080", pair);
	while (key && (dot = strchr(key, '.')) && map) {
		bool is_labels = map == body && (size_t) (dot - key) == strlen(MAP) &&
				strncmp(key, MAP, strlen(MAP)) == 0;

		map = descend(map, key, (size_t) (dot - key));
		key = dot + 1;
		if (is_labels)
			break;
	}
	if (!key || !json_is_object(map) || !*key)
		return ctl_usage(ctl, "\"%s\": a part of the key is empty, or no map", pair);
	if (json_object_get(map, key))
		return ctl_usage(ctl, "\"%s\" is given twice", whole);
	if (json_object_set_new(map, key, parse_value(equals + 1)) < 0)
		return ctl_fail(EXIT_USAGE, "\"%s\" is not valid UTF-8", pair);
	return EXIT_DONE;
}

/* ---- waiting ---- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
	(void) signal;
	interrupted = 1;
}

static void catch_interrupts(void)
{
	const struct sigaction action = { .sa_handler = on_interrupt };

	(void) sigaction(SIGINT, &action, NULL);
	(void) sigaction(SIGTERM, &action, NULL);
}

static int wait_over(const struct ctl *ctl, const json_t *registration, uint64_t until_usec)
{
	const char *why = json_string_value(json_object_get(registration, "why"));
	char duration[USHER_DURATION_TEXT_MAX];

	if (interrupted)
		return ctl_fail(EXIT_INTERRUPTED, "interrupted; usherd goes on with it");
	if (until_usec == 0 || boot_clock_usec() < until_usec)
		return EXIT_DONE;
	return ctl_fail(EXIT_WAITED,
			"gave up waiting after %s: it is %s%s%s; usherd goes on with it",
			usher_duration_format(ctl->options.wait_timeout_usec, duration),
			field_text(registration, "state"), why ? ": " : "", why ? why : "");
}

static void tell_state(const json_t *registration)
{
	const char *why = json_string_value(json_object_get(registration, "why"));

	(void) fprintf(stderr, "%s%s%s\n", field_text(registration, "state"), why ? ": " : "",
			why ? why : "");
}

/* Until it has the state; shows each other one once. */
static int wait_for(struct ctl *ctl, const char *path, const char *wanted, json_t **registration)
{
	const struct timespec nap = { .tv_nsec = LOOK_NSEC };
	uint64_t until_usec = ctl->options.wait_timeout_usec
			? boot_clock_usec() + ctl->options.wait_timeout_usec
			: 0;
	char shown[64] = "";

	catch_interrupts();
	for (;;) {
		const char *state = field_text(*registration, "state");
		json_t *next = NULL;
		int r;

		if (strcmp(state, wanted) == 0)
			return EXIT_DONE;
		if (strcmp(state, shown) != 0)
			tell_state(*registration);
		(void) snprintf(shown, sizeof(shown), "%s", state);
		r = wait_over(ctl, *registration, until_usec);
		if (r != EXIT_DONE)
			return r;
		(void) nanosleep(&nap, NULL);
		r = ctl_call(ctl, DOOR_CHANGE, "GET", path, NULL, &next);
		if (r != EXIT_DONE)
			return r;
		json_decref(*registration);
		*registration = next;
	}
}

static int tell(struct ctl *ctl, json_t *registration)
{
	if (output_is_data(ctl))
		return output_data(ctl, registration);
	(void) printf("%s/%s is %s\n", field_text(registration, "service"),
			field_text(registration, "id"), field_text(registration, "state"));
	return EXIT_DONE;
}

static int change(struct ctl *ctl, const char *method, json_t *body, const char *wanted)
{
	cleanup(json_decrefp) json_t *registration = NULL;
	autofree char *path = NULL;
	const char *service, *id;
	int r = ctl_split_target(ctl, ctl->arguments[0], &service, &id);

	if (r != EXIT_DONE)
		return r;
	path = ctl_path("/v1/registrations/%s/%s", service, id);
	r = ctl_call(ctl, DOOR_CHANGE, method, path, body, &registration);
	if (r == EXIT_DONE && ctl->options.wait)
		r = wait_for(ctl, path, wanted, &registration);
	return r == EXIT_DONE ? tell(ctl, registration) : r;
}

int verb_register(struct ctl *ctl)
{
	cleanup(json_decrefp) json_t *body = json_object();
	int r = body ? EXIT_DONE : ctl_fail(EXIT_FAILED, "out of memory");

	for (size_t i = 1; i < ctl->count && r == EXIT_DONE; i++)
		r = add_pair(ctl, body, ctl->arguments[i]);
	return r == EXIT_DONE ? change(ctl, "PUT", body, "registered") : r;
}

int verb_deregister(struct ctl *ctl)
{
	return change(ctl, "DELETE", NULL, "removed");
}
