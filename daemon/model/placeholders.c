/* Placeholders, filled in from an endpoint. */

#include "placeholders.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

#define NAME_MAX_BYTES 256

/* Only what RFC 3986 calls unreserved stays as it is. */
static void add_encoded(struct text *text, const char *value)
{
	for (const unsigned char *c = (const unsigned char *) value; *c; c++)
		if ((*c >= '0' && *c <= '9') || (*c >= 'A' && *c <= 'Z') ||
				(*c >= 'a' && *c <= 'z') || strchr("-._~", *c))
			text_add(text, (const char *) c, 1);
		else
			text_add_format(text, "%%%02X", *c);
}

static void add_address(struct text *text, const char *address, bool url)
{
	if (url && strchr(address, ':'))
		text_add_format(text, "[%s]", address);
	else
		text_add_string(text, address);
}

/* > 0: there is no such placeholder. Errors: EINVAL (the endpoint has no such metadata). */
static int find_value(const char *name, const struct placeholders *p,
		const struct usher_endpoint *endpoint, const char **ret)
{
	static const char prefix[] = "metadata.";

	if (strcmp(name, "id") == 0)
		*ret = endpoint->id;
	else if (strcmp(name, "service") == 0)
		*ret = p->service;
	else if (strcmp(name, "uid") == 0)
		*ret = endpoint->uid ? endpoint->uid : "";
	else if (strcmp(name, "zone") == 0)
		*ret = endpoint->zone ? endpoint->zone : "";
	else if (p->ready && strcmp(name, "ready") == 0)
		*ret = p->ready;
	else if (strncmp(name, prefix, sizeof(prefix) - 1) == 0)
		*ret = usher_endpoints_metadata(p->set, p->i, name + sizeof(prefix) - 1);
	else
		return 1;
	return *ret ? 0 : -EINVAL;
}

/* > 0: there is no such placeholder. */
static int add_placeholder(struct text *text, const char *name, const struct placeholders *p,
		bool url, struct usher_error *reterr)
{
	struct usher_endpoint endpoint;
	const char *value = NULL;
	int r;

	usher_endpoints_get(p->set, p->i, &endpoint);
	if (strcmp(name, "address") == 0) {
		add_address(text, endpoint.address, url);
		return 0;
	}
	if (strcmp(name, "port") == 0) {
		text_add_unsigned(text, p->port ? p->port : endpoint.port);
		return 0;
	}

	r = find_value(name, p, &endpoint, &value);
	if (r < 0)
		return usher_error_set(reterr, r, "{%s}: endpoint %s has no such metadata", name,
				endpoint.id);
	if (r > 0)
		return r;
	if (url)
		add_encoded(text, value);
	else
		text_add_string(text, value);
	return 0;
}

/* The length of a placeholder's name after its brace; 0: it is none, such as a brace of JSON. */
static size_t name_length(const char *text)
{
	size_t length = strspn(text,
			"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			"0123456789._-/");

	return length < NAME_MAX_BYTES && text[length] == '}' ? length : 0;
}

int placeholders_expand(const char *text, const struct placeholders *p, bool url, char **ret,
		struct usher_error *reterr)
{
	cleanup(text_done) struct text out = {};
	char name[NAME_MAX_BYTES], *done;
	int r;

	for (const char *rest = text; *rest;) {
		size_t length = *rest == '{' ? name_length(rest + 1) : 0;

		if (length == 0) {
			length = 1 + strcspn(rest + 1, "{");
			text_add(&out, rest, length);
			rest += length;
			continue;
		}
		(void) snprintf(name, sizeof(name), "%.*s", (int) length, rest + 1);
		r = add_placeholder(&out, name, p, url, reterr);
		if (r < 0)
			return r;
		if (r > 0)
			text_add(&out, rest, length + 2);
		rest += length + 2;
	}

	done = text_take(&out);
	if (!done)
		return -ENOMEM;
	*ret = done;
	return 0;
}
