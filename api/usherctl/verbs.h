#pragma once

/* The verbs, and which options each takes: what help, completion and the check of the command line
 * are made from. */

#include "ctl.h"

enum option_id {
	OPTION_OUTPUT,
	OPTION_SOCKET,
	OPTION_NO_COLOR,
	OPTION_HELP,
	OPTION_VERSION,
	OPTION_MAX_AGE,
	OPTION_CHOSEN,
	OPTION_HINT,
	OPTION_VERSION_LABEL,
	OPTION_STICKY,
	OPTION_KEY,
	OPTION_EXCLUDE,
	OPTION_HEADER,
	OPTION_WAIT,
	OPTION_WAIT_TIMEOUT,
	OPTION_TIMEOUT,
	OPTION_REASON,
	OPTION_ORDER,
	OPTION_RATE,
	OPTION_ENDPOINTS,
	OPTION_REVISION,
	OPTION_IDS,
};

struct option_info {
	const char *name;     /* without the dashes */
	char letter;          /* 0: none */
	const char *argument; /* its name in the help; NULL: takes none */
	const char *help;
	const char *const *words; /* what the argument can be; NULL: anything */
};

extern const struct option_info option_infos[OPTION_IDS];

/* What a verb's arguments are, for completion. */
enum argument_kind {
	ARGUMENT_NONE,
	ARGUMENT_KIND,         /* a kind of thing, then names of it */
	ARGUMENT_SERVICE,      /* one service */
	ARGUMENT_TARGET,       /* SERVICE/ENDPOINT */
	ARGUMENT_DRAIN,        /* a drain's id, or SERVICE/ENDPOINT */
	ARGUMENT_REGISTRATION, /* SERVICE/ID */
	ARGUMENT_FILE,
	ARGUMENT_SHELL,
	ARGUMENT_VERB,
};

struct verb {
	const char *name;
	const char *usage; /* "drain SERVICE/ENDPOINT [--wait] ..." */
	const char *summary;
	const char *help; /* the rest, paragraphs; NULL */
	uint32_t options; /* 1 << option_id, besides the global ones */
	enum argument_kind argument;
	size_t least, most;
	int (*run)(struct ctl *ctl);
};

extern const struct verb verbs[]; /* ends with {} */
const struct verb *verb_find(const char *name);

#define OPTIONS_GLOBAL                                                                           \
	(1u << OPTION_OUTPUT | 1u << OPTION_SOCKET | 1u << OPTION_NO_COLOR | 1u << OPTION_HELP | \
			1u << OPTION_VERSION)

int verb_get(struct ctl *ctl);
int verb_describe(struct ctl *ctl);
int verb_pick(struct ctl *ctl);
int verb_explain(struct ctl *ctl);
int verb_watch(struct ctl *ctl);
int verb_drain(struct ctl *ctl);
int verb_restore(struct ctl *ctl);
int verb_cancel(struct ctl *ctl);
int verb_register(struct ctl *ctl);
int verb_deregister(struct ctl *ctl);
int verb_budget(struct ctl *ctl);
int verb_top(struct ctl *ctl);
int verb_check(struct ctl *ctl);
int verb_reload(struct ctl *ctl);
int verb_status(struct ctl *ctl);
int verb_version(struct ctl *ctl);
int verb_completion(struct ctl *ctl);
int verb_help(struct ctl *ctl);

/* `usherctl __complete WORD...`: the last word is the one to complete. */
int complete(char **words, size_t count);

#define USHERCTL_VERSION_TEXT "usherctl " USHER_VERSION
