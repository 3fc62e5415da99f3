#include "pick-request.h"

json_t *request_body(const struct ctl *ctl)
{
	const struct ctl_options *options = &ctl->options;
	cleanup(json_decrefp) json_t *body = json_pack("{s:s*, s:s*, s:s*, s:s*}", "hint",
			options->hint, "version", options->version_label, "sticky", options->sticky,
			"key", options->key);
	json_t *exclude;

	if (!body || options->exclude_count == 0)
		return take(body);
	exclude = json_array();
	if (json_object_set_new(body, "exclude", exclude) < 0)
		return NULL;
	for (size_t i = 0; i < options->exclude_count; i++)
		if (json_array_append_new(exclude, json_string(options->exclude[i])) < 0)
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
	return ctl_path_add(path, "max_age", options->max_age);
}
