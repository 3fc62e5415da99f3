#include <stdio.h>
#include <string.h>

#include "verbs.h"

static void option_line(const struct option_info *option)
{
	char text[64];

	(void) snprintf(text, sizeof(text), "%c%c%s --%s%s%s", option->letter ? '-' : ' ',
			option->letter ? option->letter : ' ', option->letter ? "," : " ",
			option->name, option->argument ? " " : "",
			option->argument ? option->argument : "");
	(void) printf("  %-30s %s\n", text, option->help);
}

static void help_verb(const struct verb *verb)
{
	(void) printf("%s.\n\nUsage: usherctl %s\n", verb->summary, verb->usage);
	if (verb->help)
		(void) printf("\n%s\n", verb->help);
	if (verb->options) {
		(void) printf("\nOptions:\n");
		for (size_t i = 0; i < OPTION_IDS; i++)
			if (verb->options & (1u << i))
				option_line(&option_infos[i]);
	}
	(void) printf("\nOptions of every verb:\n");
	for (size_t i = 0; i < OPTION_IDS; i++)
		if (OPTIONS_GLOBAL & (1u << i))
			option_line(&option_infos[i]);
}

static void help_all(void)
{
	(void) printf("usherctl asks the usherd of this node, and tells it to drain and restore.\n\n"
		      "Usage: usherctl VERB [ARGUMENT...] [OPTION...]\n\nVerbs:\n");
	for (const struct verb *verb = verbs; verb->name; verb++)
		(void) printf("  %-12s %s\n", verb->name, verb->summary);
	(void) printf("\nOptions of every verb, before or after it:\n");
	for (size_t i = 0; i < OPTION_IDS; i++)
		if (OPTIONS_GLOBAL & (1u << i))
			option_line(&option_infos[i]);
	(void) printf("\nEnvironment:\n"
		      "  USHER_SOCKET        The consumer socket, instead of " USHER_CONSUMER_SOCKET
		      "\n"
		      "  USHER_ADMIN_SOCKET  The admin socket, instead of " USHER_ADMIN_SOCKET "\n"
		      "  NO_COLOR            No colour\n"
		      "\nExit codes:\n"
		      "  0 done  1 failed  2 usage  3 daemon unreachable  4 not permitted  5 not found\n"
		      "  6 older than --max-age  7 done, but forced  8 done in part  9 refused by a guard\n"
		      "  10 differences found  124 gave up waiting, the job goes on\n"
		      "  130 interrupted, the job goes on\n"
		      "\nusherctl help VERB tells more.\n");
}

int verb_help(struct ctl *ctl)
{
	const struct verb *verb = ctl->verb;

	if (verb && verb->run == verb_help) {
		if (ctl->count == 0) {
			help_all();
			return EXIT_DONE;
		}
		verb = verb_find(ctl->arguments[0]);
		if (!verb)
			return ctl_usage(ctl, "there is no verb \"%s\"", ctl->arguments[0]);
	}
	if (verb)
		help_verb(verb);
	else
		help_all();
	return EXIT_DONE;
}
