#pragma once

/* Sets of endpoints, written short. */

#include <usher/endpoint.h>

#include "test.h"

/* "tier:gold"; takes the text apart. */
static struct usher_label label_of(char *text)
{
	char *colon = strchr(text, ':');

	assert_non_null(colon);
	*colon = '\0';
	return (struct usher_label){ text, colon + 1 };
}

/* "a b c": ids; "a@10.0.0.9:81" sets the address and port, "a/west" the zone, "a*3" the weight,
 * "a#u1" the uid, "a^tier:gold" metadata, "a!" not ready, "a~" terminating (not ready, serving),
 * "a-" draining, "a=" in maintenance. Without an address, an endpoint has one of its own, made from
 * its id. */
__attribute__((unused)) static struct usher_endpoints *set_of(const char *text)
{
	struct usher_endpoints *set = usher_endpoints_new();
	char copy[4096], *word, *rest = NULL;

	assert_non_null(set);
	assert_true(strlen(text) < sizeof(copy));
	(void) snprintf(copy, sizeof(copy), "%s", text);
	for (word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;
		struct usher_error err = {};
		struct usher_label labels[4];
		char id[64] = "", address[USHER_TEXT_MAX], *at = word + strcspn(word, "@/*#!~-=^");
		int r;

		(void) snprintf(id, sizeof(id), "%.*s", (int) (at - word), word);
		(void) snprintf(address, sizeof(address), "%s.test", id);
		e.id = id;
		e.address = address;
		e.port = 80;
		e.metadata = labels;
		while (*at) {
			char kind = *at++, value[64];
			size_t length = strcspn(at, "@/*#!~-=^");

			(void) snprintf(value, sizeof(value), "%.*s", (int) length, at);
			at += length;
			if (kind == '@')
				assert_ok(usher_authority_parse(value, 80, address, &e.port, &err));
			else if (kind == '/')
				e.zone = strdupa(value);
			else if (kind == '*')
				e.weight_text = strdupa(value);
			else if (kind == '#')
				e.uid = strdupa(value);
			else if (kind == '^')
				labels[e.metadata_count++] = label_of(strdupa(value));
			else if (kind == '!')
				e.ready = e.serving = false;
			else if (kind == '~')
				e.terminating = !(e.ready = false);
			else if (kind == '-')
				e.admin_state = USHER_ADMIN_DRAINING;
			else
				e.admin_state = USHER_ADMIN_MAINTENANCE;
		}
		r = usher_endpoints_add(set, &e, &err);
		if (r < 0)
			fail_msg("%s: %s", word, err.text);
	}
	usher_endpoints_seal(set);
	return set;
}

/* The ids, in order, with a blank between. */
__attribute__((unused)) static const char *ids_of(const struct usher_endpoints *set)
{
	static char text[65536];
	size_t length = 0;

	text[0] = '\0';
	for (size_t i = 0; i < usher_endpoints_count(set); i++)
		length += (size_t) snprintf(text + length, sizeof(text) - length, "%s%s",
				i ? " " : "", usher_endpoints_id(set, i));
	return text;
}

/* Sealing a set does without memory, so what ends with it can succeed although an allocation has
 * failed: asked last, this says so. */
__attribute__((unused)) static bool memory_is_short(void)
{
	void *volatile probe = malloc(1); /* clang leaves out what is only freed */

	free(probe);
	return !probe;
}
