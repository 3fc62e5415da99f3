#include "pick-request.h"

#include <string.h>

static int add_excluded(const struct ctl_options *options, json_t *body)
{
	json_t *exclude;

	if (options->exclude_count == 0)
		return 0;
	exclude = json_array();
	if (json_object_set_new(body, "exclude", exclude) < 0)
		return -1;
	for (size_t i = 0; i < options->exclude_count; i++)
		if (json_array_append_new(exclude, json_string(options->exclude[i])) < 0)
			return -1;
	return 0;
}

/* One that is given again replaces the first. */
static int add_headers(const struct ctl_options *options, json_t *body)
{
	json_t *headers;

	if (options->header_count == 0)
		return 0;
	headers = json_object();
	if (json_object_set_new(body, "headers", headers) < 0)
		return -1;
	for (size_t i = 0; i < options->header_count; i++) {
		const char *value = strchr(options->headers[i], ':') + 1;
		autofree char *name = strndup(
				options->headers[i], (size_t) (value - 1 - options->headers[i]));

		value += strspn(value, " \t");
		if (!name || json_object_set_new(headers, name, json_string(value)) < 0)
			return -1;
	}
	return 0;
}

json_t *request_body(const struct ctl *ctl)
{
	const struct ctl_options *options = &ctl->options;
	cleanup(json_decrefp) json_t *body = json_pack("{s:s*, s:s*, s:s*, s:s*}", "hint",
			options->hint, "version", options->version_label, "sticky", options->sticky,
			"key", options->key);

	if (!body || add_excluded(options, body) < 0 || add_headers(options, body) < 0)
		return NULL;
	return take(body);
}

char *request_query(const struct ctl *ctl, char *path)
{
	const struct ctl_options *options = &ctl->options;

	path = ctl_path_add(path, "hint", options->hint);
	path = ctl_path_add(path, "version", options->version_label);
	path = ctl_path_add(path, "sticky", options->sticky);
	path = ctl_path_add(path, "key", options->key);
	for (size_t i = 0; i < options->exclude_count; i++)
		path = ctl_path_add(path, "exclude", options->exclude[i]);
	for (size_t i = 0; i < options->header_count; i++)
		path = ctl_path_add(path, "header", options->headers[i]);
	return ctl_path_add(path, "max_age", options->max_age);
}
