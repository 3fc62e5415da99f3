/* usher's own format, see usher-format.h. */

#include "catalog.h"

static bool usher_detect(const struct usher_node *root)
{
	return usher_node_get(root, "services") != NULL;
}

static int usher_survey(struct catalog *catalog, const struct usher_node *root,
		const struct format_options *options, struct usher_error *reterr)
{
	const struct usher_node *services;
	int r = usher_format_services(root, "the file", &services, reterr);

	(void) options;
	for (size_t i = 0; r == 0 && i < usher_node_count(services); i++)
		r = catalog_add(catalog, usher_node_key(services, i), usher_node_at(services, i),
				reterr);
	return r;
}

static int usher_build(struct usher_endpoints *set, const struct part *parts, size_t count,
		const char *port, struct usher_error *reterr)
{
	int r = 0;

	(void) port;
	for (size_t p = 0; r == 0 && p < count; p++)
		r = usher_format_build(set, parts[p].node, reterr);
	return r;
}

const struct format format_usher = {
	.name = "usher",
	.title = "usher's own format",
	.detect = usher_detect,
	.survey = usher_survey,
	.build = usher_build,
};
