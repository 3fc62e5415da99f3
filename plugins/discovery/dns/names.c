#include "names.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LABEL_MAX 63

int names_check(const char *name, struct usher_error *reterr)
{
	size_t label = 0, i;

	for (i = 0; name[i]; i++) {
		unsigned char c = (unsigned char) name[i];

		if (c == '.' && label > 0)
			label = 0;
		else if (isalnum(c) || c == '-' || c == '_')
			label++;
		else
			label = LABEL_MAX + 1;
		if (label > LABEL_MAX || i >= MESSAGE_NAME_MAX - 1)
			break;
	}
	if (name[i] || label == 0)
		return usher_error_set(reterr, -EINVAL,
				"\"%.64s\" is no name of DNS: that is labels of 1 to 63 letters, "
				"digits, hyphens and underscores with dots between, 253 bytes in all",
				name);
	return 0;
}

static const char *value_of(
		const struct usher_wanted *wanted, const char *placeholder, size_t length)
{
	if (length == 6 && memcmp(placeholder, "{name}", length) == 0)
		return wanted->name;
	if (length == 9 && memcmp(placeholder, "{service}", length) == 0)
		return wanted->service;
	if (length == 6 && memcmp(placeholder, "{port}", length) == 0)
		return wanted->port ? wanted->port : "";
	return NULL;
}

/* Up to the next placeholder or the end. Returns the placeholder's length, 0 at the end. */
static int next_part(
		const char *at, size_t *ret_before, size_t *ret_length, struct usher_error *reterr)
{
	const char *end;

	*ret_before = strcspn(at, "{}");
	*ret_length = 0;
	if (!at[*ret_before])
		return 0;
	end = strchr(at + *ret_before, '}');
	if (at[*ret_before] == '}' || !end)
		return usher_error_set(reterr, -EINVAL, "name: a brace without its other one");
	*ret_length = (size_t) (end - at) - *ret_before + 1;
	return 0;
}

static int fill(const char *template, const struct usher_wanted *wanted, char ret[MESSAGE_NAME_MAX],
		struct usher_error *reterr)
{
	size_t used = 0, before, length;

	ret[0] = '\0';
	for (const char *at = template;; at += before + length) {
		const char *value = "";
		int r = next_part(at, &before, &length, reterr);

		if (r < 0)
			return r;
		if (length > 0)
			value = value_of(wanted, at + before, length);
		if (!value)
			return usher_error_set(reterr, -EINVAL,
					"name: %.*s is no placeholder; there are {name}, {service} "
					"and {port}",
					(int) length, at + before);
		if (length > 0 && !*value)
			return usher_error_set(reterr, -EINVAL,
					"the option `name` of the source has {port}; write which one "
					"as `port:` of the service's source");
		used += (size_t) snprintf(ret + used, MESSAGE_NAME_MAX - used, "%.*s%s",
				(int) before, at, value);
		if (used >= MESSAGE_NAME_MAX)
			return usher_error_set(reterr, -EINVAL,
					"the name to ask DNS for is longer than %d bytes",
					MESSAGE_NAME_MAX - 1);
		if (length == 0)
			return 0;
	}
}

static void drop_dot(char *name)
{
	size_t length = strlen(name);

	if (length > 1 && name[length - 1] == '.')
		name[length - 1] = '\0';
}

int names_expand(const char *template, const struct usher_wanted *wanted,
		char ret[MESSAGE_NAME_MAX], struct usher_error *reterr)
{
	size_t length = strlen(wanted->name);
	bool is_whole = length > 1 && wanted->name[length - 1] == '.';
	int r = fill(is_whole ? "{name}" : template, wanted, ret, reterr);

	if (r < 0)
		return r;
	drop_dot(ret);
	return names_check(ret, reterr);
}

int names_append(const char *name, const char *domain, char ret[MESSAGE_NAME_MAX],
		struct usher_error *reterr)
{
	size_t size = (size_t) snprintf(ret, MESSAGE_NAME_MAX, "%s.%s", name, domain);

	if (size >= MESSAGE_NAME_MAX)
		return usher_error_set(reterr, -EINVAL, "%s.%s is longer than %d bytes", name,
				domain, MESSAGE_NAME_MAX - 1);
	drop_dot(ret);
	return names_check(ret, reterr);
}

int names_check_template(const char *template, struct usher_error *reterr)
{
	const struct usher_wanted wanted = { .service = "s", .name = "n", .port = "p" };
	char name[MESSAGE_NAME_MAX];
	int r = fill(template, &wanted, name, reterr);

	if (r < 0)
		return r;
	drop_dot(name);
	r = names_check(name, reterr);
	return r < 0 ? usher_error_prefix(reterr, r, "name") : 0;
}
