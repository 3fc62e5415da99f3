/* usherctl __complete: what could stand at the end of a command line. One candidate a line; the
 * line
 * ":files" asks the shell for the names of files. Quick, and silent on every failure: somebody has
 * just pressed Tab. */

#include <stdio.h>
#include <string.h>

#include "directory-answer.h"
#include "human.h"
#include "kinds.h"
#include "verbs.h"

#define COMPLETE_TIMEOUT_USEC UINT64_C(700000)

struct completion {
	const char *word; /* that is being typed */
	struct ctl ctl;
};

static void candidate(const struct completion *c, const char *text)
{
	char line[2 * USHER_TEXT_MAX];

	(void) snprintf(line, sizeof(line), "%s", text);
	if (strncmp(line, c->word, strlen(c->word)) == 0)
		(void) printf("%s\n", human_printable(line));
}

static json_t *ask(struct completion *c, const char *path)
{
	struct usher_client *client = ctl_client(&c->ctl, DOOR_READ);
	autofree char *text = NULL;
	json_t *answer = NULL;

	if (!client || !path)
		return NULL;
	usher_client_set_timeout(client, COMPLETE_TIMEOUT_USEC);
	if (usher_client_call(client, "GET", path, NULL, &text, NULL) == 200)
		answer = json_loads(text, 0, NULL);
	return answer;
}

static void complete_services(struct completion *c, const char *after)
{
	cleanup(json_decrefp) json_t *answer = ask(c, "/v1/services");
	const json_t *services = json_object_get(answer, "services"),
		     *known = json_object_get(answer, "known");
	char text[USHER_TEXT_MAX + 8];

	for (size_t i = 0; i < json_array_size(services); i++) {
		(void) snprintf(text, sizeof(text), "%s%s",
				field_text(json_array_get(services, i), "service"), after);
		candidate(c, text);
	}
	for (size_t i = 0; i < json_array_size(known); i++) {
		(void) snprintf(text, sizeof(text), "%s%s",
				json_string_value(json_array_get(known, i)), after);
		candidate(c, text);
	}
}

static void complete_targets(struct completion *c)
{
	const char *slash = strchr(c->word, '/');
	autofree char *service = NULL, *path = NULL;
	cleanup(json_decrefp) json_t *answer = NULL;
	const json_t *list;

	if (!slash) {
		complete_services(c, "/");
		return;
	}
	service = strndup(c->word, (size_t) (slash - c->word));
	path = service ? ctl_path_add(ctl_path("/v1/services/%s/endpoints", service), "all", "true")
		       : NULL;
	answer = ask(c, path);
	list = json_object_get(answer, "endpoints");
	for (size_t i = 0; i < json_array_size(list); i++) {
		char text[2 * USHER_TEXT_MAX];

		(void) snprintf(text, sizeof(text), "%s/%s", service,
				field_text(json_array_get(list, i), "id"));
		candidate(c, text);
	}
}

static void complete_drains(struct completion *c, bool unfinished)
{
	cleanup(json_decrefp) json_t *answer = ask(c, "/v1/drains");
	const json_t *list = json_object_get(answer, "drains");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *drain = json_array_get(list, i);
		char text[2 * USHER_TEXT_MAX];

		if (unfinished && json_is_string(json_object_get(drain, "finished_at")))
			continue;
		candidate(c, field_text(drain, "id"));
		(void) snprintf(text, sizeof(text), "%s/%s", field_text(drain, "service"),
				field_text(drain, "endpoint"));
		candidate(c, text);
	}
}

/* Those that the configuration declares are not anybody's to take out. */
static void complete_registrations(struct completion *c, bool of_the_api)
{
	cleanup(json_decrefp) json_t *answer = ask(c, "/v1/registrations");
	const json_t *list = json_object_get(answer, "registrations");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *registration = json_array_get(list, i);
		char text[2 * USHER_TEXT_MAX];

		if (of_the_api && strcmp(field_text(registration, "origin"), "api") != 0)
			continue;
		(void) snprintf(text, sizeof(text), "%s/%s", field_text(registration, "service"),
				field_text(registration, "id"));
		candidate(c, text);
	}
}

static void complete_listed(struct completion *c, const struct kind *kind)
{
	cleanup(json_decrefp) json_t *answer = ask(c, kind->path);
	const json_t *list = json_object_get(answer, kind->list);

	for (size_t i = 0; i < json_array_size(list); i++)
		candidate(c, field_text(json_array_get(list, i), kind->key));
}

static const struct kind *kind_named(const char *name)
{
	for (const struct kind *kind = kinds; kind->plural; kind++)
		if (strcmp(kind->plural, name) == 0 || strcmp(kind->singular, name) == 0)
			return kind;
	return NULL;
}

/* The names of a kind: `describe` says endpoint and means SERVICE/ENDPOINT, `get endpoints` takes a
 * service as well. */
static void complete_names(struct completion *c, const struct verb *verb, const char *kind_name)
{
	const struct kind *kind = kind_named(kind_name);

	if (!kind)
		return;
	switch (kind->id) {
	case KIND_SERVICE:
		complete_services(c, "");
		return;
	case KIND_ENDPOINT:
		if (verb->run == verb_get && !strchr(c->word, '/'))
			complete_services(c, "");
		else
			complete_targets(c);
		return;
	case KIND_DRAIN:
		complete_drains(c, false);
		return;
	case KIND_REGISTRATION:
		complete_registrations(c, false);
		return;
	case KIND_SOURCE:
	case KIND_CONSUMER:
	case KIND_PLUGIN:
		complete_listed(c, kind);
		return;
	}
}

static void complete_words(struct completion *c, const char *const *words)
{
	for (; *words; words++)
		candidate(c, *words);
}

static void complete_verbs(struct completion *c)
{
	for (const struct verb *verb = verbs; verb->name; verb++)
		candidate(c, verb->name);
}

static void complete_argument(
		struct completion *c, const struct verb *verb, const char *first, size_t position)
{
	static const char *const shells[] = { "bash", "zsh", "fish", NULL };

	if (position >= verb->most)
		return;
	switch (verb->argument) {
	case ARGUMENT_NONE:
		return;
	case ARGUMENT_KIND:
		if (position > 0) {
			complete_names(c, verb, first);
			return;
		}
		for (const struct kind *kind = kinds; kind->plural; kind++)
			candidate(c, verb->run == verb_get ? kind->plural : kind->singular);
		return;
	case ARGUMENT_SERVICE:
		complete_services(c, "");
		return;
	case ARGUMENT_TARGET:
		complete_targets(c);
		return;
	case ARGUMENT_DRAIN:
		complete_drains(c, true);
		return;
	case ARGUMENT_REGISTRATION:
		if (position == 0)
			complete_registrations(c, true);
		return;
	case ARGUMENT_FILE:
		(void) printf(":files\n");
		return;
	case ARGUMENT_SHELL:
		complete_words(c, shells);
		return;
	case ARGUMENT_VERB:
		complete_verbs(c);
		return;
	}
}

static void complete_option_names(struct completion *c, const struct verb *verb)
{
	uint32_t mine = OPTIONS_GLOBAL | (verb ? verb->options : 0);

	for (size_t i = 0; i < OPTION_IDS; i++) {
		char text[64];

		if (!(mine & (1u << i)))
			continue;
		(void) snprintf(text, sizeof(text), "--%s", option_infos[i].name);
		candidate(c, text);
	}
}

/* Whether a word is an option whose value is the next word. */
static const struct option_info *option_before_value(const char *word)
{
	for (size_t i = 0; i < OPTION_IDS; i++) {
		const struct option_info *info = &option_infos[i];

		if (!info->argument)
			continue;
		if (strncmp(word, "--", 2) == 0 && strcmp(word + 2, info->name) == 0)
			return info;
		if (info->letter && word[0] == '-' && word[1] == info->letter && !word[2])
			return info;
	}
	return NULL;
}

static void complete_value(struct completion *c, const struct option_info *info)
{
	if (info->words)
		complete_words(c, info->words);
	else if (info == &option_infos[OPTION_SOCKET])
		(void) printf(":files\n");
}

int complete(char **words, size_t count)
{
	struct completion c = { .word = count > 0 ? words[count - 1] : "" };
	const struct option_info *value = NULL;
	const struct verb *verb = NULL;
	const char *first = NULL;
	size_t position = 0;

	for (size_t i = 0; i + 1 < count; i++) {
		if (value == &option_infos[OPTION_SOCKET])
			c.ctl.options.socket = words[i];
		if (value) {
			value = NULL;
			continue;
		}
		value = option_before_value(words[i]);
		if (strncmp(words[i], "--socket=", 9) == 0)
			c.ctl.options.socket = words[i] + 9;
		if (value || words[i][0] == '-')
			continue;
		if (!verb) {
			verb = verb_find(words[i]);
			if (!verb)
				return EXIT_DONE;
		} else if (position++ == 0) {
			first = words[i];
		}
	}
	if (value)
		complete_value(&c, value);
	else if (c.word[0] == '-')
		complete_option_names(&c, verb);
	else if (!verb)
		complete_verbs(&c);
	else
		complete_argument(&c, verb, first, position);
	usher_client_free(c.ctl.client);
	return EXIT_DONE;
}
