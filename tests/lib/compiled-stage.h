#pragma once

/* One stage that is compiled into the test, with its options, and what it does to endpoints. */

#include <usher/plugin.h>

#include "plugin-options.h"
#include "test.h"

extern const struct usher_plugin usher_plugin;

#define ELEMENTS_OF(a) (sizeof(a) / sizeof((a)[0]))

struct compiled_stage {
	void *data;
	struct plugin_options *options;
	struct usher_document *document;
};

__attribute__((unused)) static void compiled_stage_done(struct compiled_stage *s)
{
	if (s->data && usher_plugin.done)
		usher_plugin.done(s->data);
	free(s->data);
	(void) plugin_options_free(s->options);
	(void) usher_document_unref(s->document);
	*s = (struct compiled_stage){};
}

/* Options are YAML. What init says is the caller's to look at. */
__attribute__((unused)) static int compiled_stage_init(
		struct compiled_stage *s, const char *options, struct usher_error *reterr)
{
	const struct usher_node *root;
	int r;

	*s = (struct compiled_stage){};
	assert_ok(usher_document_parse(
			"test.yaml", options, strlen(options), &s->document, reterr));
	root = usher_document_root(s->document);
	s->data = calloc(1, usher_plugin.instance_size ? usher_plugin.instance_size : 1);
	assert_non_null(s->data);
	r = plugin_options_parse(usher_plugin.options, usher_plugin.option_size, root, root,
			s->data, &s->options, reterr);
	if (r >= 0 && usher_plugin.init)
		r = usher_plugin.init(s->data, reterr);
	if (r < 0) {
		free(s->data);
		s->data = NULL; /* `done` is for what was initialised */
		compiled_stage_done(s);
	}
	return r;
}

/* An endpoint with one label; value NULL: without. */
struct labelled {
	const char *id, *value;
};

#define LABELLED_MAX 16

/* Some endpoints, all of them candidates. */
struct labelled_set {
	struct usher_endpoints *set;
	uint32_t weights[LABELLED_MAX];
	struct usher_view view;
};

/* The array ends with an id that is NULL, or is full. */
__attribute__((unused)) static void labelled_set_init(
		struct labelled_set *l, const char *name, const struct labelled *endpoints)
{
	*l = (struct labelled_set){ .set = usher_endpoints_new() };
	assert_non_null(l->set);
	for (size_t i = 0; i < LABELLED_MAX && endpoints[i].id; i++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;
		struct usher_label label = { name, endpoints[i].value };

		e.id = endpoints[i].id;
		e.address = "10.0.0.1";
		e.port = (uint16_t) (i + 1);
		e.metadata = &label;
		e.metadata_count = endpoints[i].value ? 1 : 0;
		assert_ok(usher_endpoints_add(l->set, &e, NULL));
		l->weights[i] = USHER_WEIGHT_UNIT;
	}
	usher_endpoints_seal(l->set);
	l->view = (struct usher_view){
		.size = sizeof(l->view), .endpoints = l->set, .weights = l->weights
	};
}

__attribute__((unused)) static void labelled_set_done(struct labelled_set *l)
{
	(void) usher_endpoints_unref(l->set);
}

/* As the stage's mark says of each endpoint; NULL: it has none. */
__attribute__((unused)) static const uint64_t *marks_of(
		const struct compiled_stage *s, const struct labelled_set *l)
{
	static uint64_t marks[LABELLED_MAX];

	if (!usher_plugin.stage->mark)
		return NULL;
	for (uint32_t i = 0; i < usher_endpoints_count(l->set); i++)
		marks[i] = usher_plugin.stage->mark(s->data, &l->view, i);
	return marks;
}

__attribute__((unused)) static size_t run_over(const struct compiled_stage *s,
		const struct labelled_set *l, const struct usher_request *request,
		const uint64_t *marks, uint32_t *candidates)
{
	size_t all = usher_endpoints_count(l->set);
	struct usher_pass pass = {
		.size = sizeof(pass), .view = &l->view, .request = request, .marks = marks
	};

	for (uint32_t i = 0; i < all; i++)
		candidates[i] = i;
	if (usher_plugin.stage->run)
		return usher_plugin.stage->run(s->data, &pass, candidates, all);
	return usher_plugin.stage->filter(s->data, &l->view, request, candidates, all);
}

/* Who stays, as ids with a blank between; valid until the next call. Pure: it is asked twice, with
 * marks and without, and says the same. */
__attribute__((unused)) static const char *kept_ids(const struct compiled_stage *s,
		const struct labelled_set *l, const struct usher_request *request)
{
	static char ids[1024];
	size_t all = usher_endpoints_count(l->set), count, length = 0;
	uint32_t candidates[LABELLED_MAX], again[LABELLED_MAX];

	count = run_over(s, l, request, NULL, candidates);
	assert_true(count <= all);
	assert_int_equal(run_over(s, l, request, marks_of(s, l), again), count);
	assert_memory_equal(candidates, again, count * sizeof(*again));
	ids[0] = '\0';
	for (size_t i = 0; i < count; i++) {
		if (i > 0)
			assert_true(candidates[i - 1] < candidates[i]);
		length += (size_t) snprintf(ids + length, sizeof(ids) - length, "%s%s",
				i ? " " : "", usher_endpoints_id(l->set, candidates[i]));
	}
	return ids;
}

/* Why an endpoint left; valid until the next call. */
__attribute__((unused)) static const char *why_left(const struct compiled_stage *s,
		const struct labelled_set *l, const struct usher_request *request, const char *id)
{
	static char why[160];
	ssize_t i = usher_endpoints_find(l->set, id);

	assert_true(i >= 0);
	why[0] = '\0';
	usher_plugin.stage->explain(s->data, &l->view, request, (uint32_t) i, why, sizeof(why));
	return why;
}

/* What it did as a whole; valid until the next call. */
__attribute__((unused)) static const char *told(const struct compiled_stage *s,
		const struct labelled_set *l, const struct usher_request *request)
{
	static char text[160];
	size_t all = usher_endpoints_count(l->set);
	uint32_t in[LABELLED_MAX], candidates[LABELLED_MAX];
	const struct usher_pass pass = {
		.size = sizeof(pass), .view = &l->view, .request = request
	};

	for (uint32_t i = 0; i < all; i++)
		in[i] = i;
	text[0] = '\0';
	usher_plugin.stage->tell(s->data, &pass, in, all, run_over(s, l, request, NULL, candidates),
			text, sizeof(text));
	return text;
}
