/* usherctl: from the command line to a verb. */

#include <errno.h>
#include <getopt.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "verbs.h"

#define LONG_BASE 256 /* getopt's values: LONG_BASE + option_id */

static void options_for_getopt(struct option *ret, char *ret_letters, size_t size)
{
	size_t used = 0;

	ret_letters[used++] = ':';
	for (size_t i = 0; i < OPTION_IDS; i++) {
		const struct option_info *info = &option_infos[i];

		ret[i] = (struct option){ info->name,
			info->argument ? required_argument : no_argument, NULL,
			LONG_BASE + (int) i };
		if (info->letter && used + 3 < size) {
			ret_letters[used++] = info->letter;
			if (info->argument)
				ret_letters[used++] = ':';
		}
	}
	ret[OPTION_IDS] = (struct option){};
	ret_letters[used] = 0;
}

static int option_of(int value)
{
	if (value >= LONG_BASE)
		return value - LONG_BASE;
	for (size_t i = 0; i < OPTION_IDS; i++)
		if (option_infos[i].letter == value)
			return (int) i;
	return -1;
}

static int bad_option(const struct ctl *ctl, char **argv)
{
	const char *names[OPTION_IDS + 1] = {};
	const char *given = argv[optind - 1], *near;

	if (optopt != 0 && optopt < LONG_BASE && optopt != '?')
		return ctl_usage(ctl, "there is no option -%c", optopt);
	for (size_t i = 0; i < OPTION_IDS; i++)
		names[i] = option_infos[i].name;
	near = strncmp(given, "--", 2) == 0 ? usher_nearest_word(given + 2, names) : NULL;
	if (near)
		return ctl_usage(ctl, "there is no option %s; did you mean --%s?", given, near);
	return ctl_usage(ctl, "there is no option %s", given);
}

static int set_output(struct ctl *ctl, const char *text)
{
	const char *const *words = option_infos[OPTION_OUTPUT].words;

	for (int i = 0; words[i]; i++) {
		if (strcmp(words[i], text) == 0) {
			ctl->options.output = (enum output_format) i;
			return EXIT_DONE;
		}
	}
	return ctl_usage(ctl, "-o %s is not table, wide, json or yaml", text);
}

static int check_duration(
		const struct ctl *ctl, enum option_id id, const char *text, uint64_t *ret_usec)
{
	uint64_t usec;

	if (usher_duration_parse(text, &usec) < 0 || usec == 0)
		return ctl_usage(ctl, "--%s %s is not a duration, such as 250ms, 5s or 2m",
				option_infos[id].name, text);
	if (ret_usec)
		*ret_usec = usec;
	return EXIT_DONE;
}

static int check_number(const struct ctl *ctl, enum option_id id, const char *text)
{
	if (!*text || strlen(text) > 18 || strspn(text, "0123456789") != strlen(text))
		return ctl_usage(ctl, "--%s %s is not a whole number", option_infos[id].name, text);
	return EXIT_DONE;
}

static int add_exclude(struct ctl *ctl, const char *text)
{
	if (ctl->options.exclude_count == EXCLUDE_MAX)
		return ctl_usage(ctl, "--exclude is given more than %d times", EXCLUDE_MAX);
	ctl->options.exclude[ctl->options.exclude_count++] = text;
	return EXIT_DONE;
}

static int add_header(struct ctl *ctl, const char *text)
{
	if (!strchr(text, ':') || *text == ':')
		return ctl_usage(ctl, "--header %s is not NAME:VALUE", text);
	if (ctl->options.header_count == HEADERS_MAX)
		return ctl_usage(ctl, "--header is given more than %d times", HEADERS_MAX);
	ctl->options.headers[ctl->options.header_count++] = text;
	return EXIT_DONE;
}

static int set_option(struct ctl *ctl, enum option_id id, const char *text)
{
	struct ctl_options *options = &ctl->options;

	switch (id) {
	case OPTION_OUTPUT:
		return set_output(ctl, text);
	case OPTION_SOCKET:
		options->socket = text;
		return EXIT_DONE;
	case OPTION_NO_COLOR:
		options->no_color = true;
		return EXIT_DONE;
	case OPTION_HELP:
		options->help = true;
		return EXIT_DONE;
	case OPTION_VERSION:
		options->version = true;
		return EXIT_DONE;
	case OPTION_MAX_AGE:
		options->max_age = text;
		return check_duration(ctl, id, text, NULL);
	case OPTION_CHOSEN:
		options->chosen = true;
		return EXIT_DONE;
	case OPTION_HINT:
		options->hint = text;
		return EXIT_DONE;
	case OPTION_VERSION_LABEL:
		options->version_label = text;
		return EXIT_DONE;
	case OPTION_STICKY:
		options->sticky = text;
		return EXIT_DONE;
	case OPTION_KEY:
		options->key = text;
		return EXIT_DONE;
	case OPTION_EXCLUDE:
		return add_exclude(ctl, text);
	case OPTION_HEADER:
		return add_header(ctl, text);
	case OPTION_WAIT:
		options->wait = true;
		return EXIT_DONE;
	case OPTION_WAIT_TIMEOUT:
		options->wait = true;
		return check_duration(ctl, id, text, &options->wait_timeout_usec);
	case OPTION_TIMEOUT:
		options->timeout = text;
		return check_duration(ctl, id, text, NULL);
	case OPTION_REASON:
		options->reason = text;
		return EXIT_DONE;
	case OPTION_ORDER:
		options->order = text;
		return EXIT_DONE;
	case OPTION_RATE:
		options->rate = text;
		return check_number(ctl, id, text);
	case OPTION_ENDPOINTS:
		options->endpoints = text;
		return check_number(ctl, id, text);
	case OPTION_REVISION:
		options->revision = text;
		return check_number(ctl, id, text);
	case OPTION_IDS:
		break;
	}
	return EXIT_USAGE;
}

/* Options may stand before and after the verb, so each is kept first and judged once the verb is
 * known. */
static int parse_options(struct ctl *ctl, int argc, char **argv, uint32_t *ret_seen)
{
	struct option options[OPTION_IDS + 1];
	char letters[2 * OPTION_IDS + 2];
	int value, r;

	options_for_getopt(options, letters, sizeof(letters));
	opterr = 0;
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is no other thread yet */
	while ((value = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		int id = option_of(value);

		if (value == ':')
			return ctl_usage(ctl, "%s needs a value", argv[optind - 1]);
		if (id < 0)
			return bad_option(ctl, argv);
		*ret_seen |= 1u << id;
		r = set_option(ctl, (enum option_id) id, optarg);
		if (r != EXIT_DONE)
			return r;
	}
	ctl->arguments = argv + optind;
	ctl->count = (size_t) (argc - optind);
	return EXIT_DONE;
}

static int unknown_verb(const struct ctl *ctl, const char *name)
{
	const char *names[64] = {};
	const char *near;

	for (size_t i = 0; i < ELEMENTS(names) - 1 && verbs[i].name; i++)
		names[i] = verbs[i].name;
	near = usher_nearest_word(name, names);
	if (near)
		return ctl_usage(ctl, "there is no verb \"%s\"; did you mean \"%s\"?", name, near);
	return ctl_usage(ctl, "there is no verb \"%s\"", name);
}

static int check_command(const struct ctl *ctl, uint32_t seen)
{
	const struct verb *verb = ctl->verb;
	uint32_t foreign = seen & ~(verb->options | OPTIONS_GLOBAL);

	for (size_t i = 0; i < OPTION_IDS; i++)
		if (foreign & (1u << i))
			return ctl_usage(ctl, "%s has no option --%s", verb->name,
					option_infos[i].name);
	if (ctl->count < verb->least)
		return ctl_usage(ctl, "%s needs more: usherctl %s", verb->name, verb->usage);
	if (ctl->count > verb->most)
		return ctl_usage(ctl, "%s does not take \"%s\"", verb->name,
				ctl->arguments[verb->most]);
	return EXIT_DONE;
}

static void choose_color(struct ctl *ctl)
{
	const char *no_color = secure_getenv("NO_COLOR");
	const char *term = secure_getenv("TERM");

	ctl->terminal = isatty(STDOUT_FILENO);
	ctl->color = ctl->terminal && !ctl->options.no_color && !(no_color && *no_color) &&
			!(term && strcmp(term, "dumb") == 0);
}

static int run(struct ctl *ctl, int argc, char **argv)
{
	uint32_t seen = 0;
	int r;

	r = parse_options(ctl, argc, argv, &seen);
	if (r != EXIT_DONE)
		return r;
	choose_color(ctl);
	if (ctl->options.version) {
		(void) printf("%s\n", USHERCTL_VERSION_TEXT);
		return EXIT_DONE;
	}
	if (ctl->count == 0) {
		if (ctl->options.help)
			return verb_help(ctl);
		return ctl_usage(ctl, "no verb was given: what is to be done?");
	}
	ctl->verb = verb_find(ctl->arguments[0]);
	if (!ctl->verb)
		return unknown_verb(ctl, ctl->arguments[0]);
	ctl->arguments++;
	ctl->count--;
	if (ctl->options.help) {
		ctl->count = 0;
		return verb_help(ctl);
	}
	r = check_command(ctl, seen);
	return r != EXIT_DONE ? r : ctl->verb->run(ctl);
}

int main(int argc, char **argv)
{
	struct ctl ctl = {};
	int r;

	/* NOLINTNEXTLINE(concurrency-mt-unsafe): the first thing there is */
	(void) setlocale(LC_CTYPE, "");
	if (argc > 1 && strcmp(argv[1], "__complete") == 0)
		return complete(argv + 2, (size_t) argc - 2);
	r = run(&ctl, argc, argv);
	usher_client_free(ctl.client);
	if (fflush(stdout) != 0 && r == EXIT_DONE && errno != EPIPE)
		r = ctl_fail(EXIT_FAILED, "cannot write to standard output: %s",
				strerrordesc_np(errno));
	return r;
}
