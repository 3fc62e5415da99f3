#pragma once

/* One selection plug-in with its options, and picks without a daemon around them. */

#include "endpoint-sets.h"
#include "stand-in-plugins.h"

/* With options as YAML, or NULL. Errors of the options are the caller's to look at. */
__attribute__((unused)) static int selection_new(const char *name, const char *options,
		enum plugin_facet facet, struct plugin_instance **ret, struct usher_error *reterr)
{
	struct usher_document *document = NULL;
	struct plugin_use use = { .plugin = (char *) (uintptr_t) name };
	int r;

	if (options) {
		r = usher_document_parse("test.yaml", options, strlen(options), &document, reterr);
		assert_ok(r);
		use.options = use.place = usher_document_root(document);
	}
	r = plugin_instance_new(NULL, &use, facet, ret, reterr);
	(void) usher_document_unref(document);
	return r;
}

struct choice {
	struct usher_endpoints *set;
	uint32_t *weights, *candidates;
	size_t count;
	struct usher_view view;
};

static void choice_init(struct choice *c, const char *text, const char *zone)
{
	*c = (struct choice){ .set = set_of(text) };
	c->count = usher_endpoints_count(c->set);
	c->weights = calloc(c->count + 1, sizeof(*c->weights));
	c->candidates = calloc(c->count + 1, sizeof(*c->candidates));
	for (uint32_t i = 0; i < c->count; i++) {
		struct usher_endpoint e;

		usher_endpoints_get(c->set, i, &e);
		c->weights[i] = e.weight * USHER_WEIGHT_UNIT;
		c->candidates[i] = i;
	}
	c->view = (struct usher_view){
		.size = sizeof(c->view), .endpoints = c->set, .weights = c->weights, .zone = zone
	};
}

static void choice_done(struct choice *c)
{
	(void) usher_endpoints_unref(c->set);
	free(c->weights);
	free(c->candidates);
}
