#pragma once

/* One stage that is compiled into the test, with options as people write them, over endpoints whose
 * facts are written as short: who stays, what it tells, and why others left. */

#include <usher/plugin.h>

#include "endpoint-sets.h"
#include "plugin-options.h"

extern const struct usher_plugin usher_plugin;

#define BENCH_ENDPOINTS_MAX 1024

struct stage_bench {
	void *instance;
	struct plugin_options *options;
	struct usher_document *document;
	struct usher_endpoints *set;
	uint32_t weights[BENCH_ENDPOINTS_MAX], candidates[BENCH_ENDPOINTS_MAX];
	uint32_t came_in[BENCH_ENDPOINTS_MAX];
	uint8_t health[BENCH_ENDPOINTS_MAX], admin[BENCH_ENDPOINTS_MAX], ranks[BENCH_ENDPOINTS_MAX];
	uint64_t since[BENCH_ENDPOINTS_MAX], marks[BENCH_ENDPOINTS_MAX];
	struct usher_view view;
	struct usher_request request;
	struct usher_pass pass;
	size_t kept;
	char told[256];
};

/* The options alone; what the plug-in says of them. */
__attribute__((unused)) static int bench_configure(
		struct stage_bench *b, const char *options, struct usher_error *reterr)
{
	static const struct usher_option none[] = { {} };
	int r;

	*b = (struct stage_bench){};
	assert_ok(usher_document_parse(
			"test.yaml", options, strlen(options), &b->document, reterr));
	b->instance = calloc(1, usher_plugin.instance_size + 1);
	assert_non_null(b->instance);
	r = plugin_options_parse(usher_plugin.options ? usher_plugin.options : none,
			sizeof(struct usher_option), usher_document_root(b->document), NULL,
			b->instance, &b->options, reterr);
	if (r >= 0 && usher_plugin.init)
		r = usher_plugin.init(b->instance, reterr);
	if (r < 0) {
		free(b->instance);
		b->instance = NULL;
	}
	return r;
}

/* All endpoints are candidates but those that drain or are in maintenance; no health is known. */
__attribute__((unused)) static void bench_endpoints(struct stage_bench *b, const char *endpoints)
{
	(void) usher_endpoints_unref(b->set);
	b->set = set_of(endpoints);
	assert_true(usher_endpoints_count(b->set) <= BENCH_ENDPOINTS_MAX);
	for (uint32_t i = 0; i < usher_endpoints_count(b->set); i++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;

		usher_endpoints_get(b->set, i, &e);
		b->weights[i] = e.weight * USHER_WEIGHT_UNIT;
		b->admin[i] = (uint8_t) e.admin_state;
	}
	b->view = (struct usher_view){ .size = sizeof(b->view),
		.endpoints = b->set,
		.weights = b->weights,
		.zone = "east",
		.service = "catalog",
		.node = "node-7",
		.admin_states = b->admin,
		.panic_threshold = -1 };
	b->request = (struct usher_request){ .size = sizeof(b->request) };
}

__attribute__((unused)) static void bench_init(
		struct stage_bench *b, const char *options, const char *endpoints)
{
	struct usher_error err = {};

	if (bench_configure(b, options, &err) < 0)
		fail_msg("%s: %s", options, err.text);
	bench_endpoints(b, endpoints);
}

__attribute__((unused)) static void bench_done(struct stage_bench *b)
{
	if (b->instance && usher_plugin.done)
		usher_plugin.done(b->instance);
	free(b->instance);
	(void) plugin_options_free(b->options);
	(void) usher_document_unref(b->document);
	(void) usher_endpoints_unref(b->set);
	*b = (struct stage_bench){};
}

__attribute__((unused)) static void assert_options_refused(const char *options, const char *text)
{
	struct usher_error err = {};
	struct stage_bench b;

	if (bench_configure(&b, options, &err) >= 0)
		fail_msg("%s is taken", options);
	if (!strstr(err.text, text))
		fail_msg("%s: \"%s\" instead of \"%s\"", options, err.text, text);
	bench_done(&b);
}

/* Health of the endpoints in the order of their ids: + up, - down, ? unknown, ~ degraded, x
 * ejected. */
__attribute__((unused)) static void bench_health(struct stage_bench *b, const char *states)
{
	static const char signs[] = { [USHER_HEALTH_UNKNOWN] = '?',
		[USHER_HEALTH_UP] = '+',
		[USHER_HEALTH_DEGRADED] = '~',
		[USHER_HEALTH_DOWN] = '-',
		[USHER_HEALTH_EJECTED] = 'x' };

	assert_int_equal(strlen(states), usher_endpoints_count(b->set));
	for (size_t i = 0; states[i]; i++)
		b->health[i] = (uint8_t) ((const char *) memchr(signs, states[i], sizeof(signs)) -
				signs);
	b->view.health = b->health;
}

/* The same run without marks, if it had some, gives the same. */
static void bench_run_without_marks(const struct stage_bench *b, size_t count)
{
	struct usher_pass pass = b->pass;
	static uint32_t candidates[BENCH_ENDPOINTS_MAX];

	if (!pass.marks)
		return;
	pass.marks = NULL;
	pass.panic = pass.final = false;
	memcpy(candidates, b->came_in, count * sizeof(*candidates));
	assert_int_equal(usher_plugin.stage->run(b->instance, &pass, candidates, count), b->kept);
	assert_memory_equal(candidates, b->candidates, b->kept * sizeof(*candidates));
	assert_int_equal(pass.final, b->pass.final);
}

/* Run over the first `count` that came in, with marks where the request is looked at, as the host
 * does. */
static size_t bench_run_over(
		struct stage_bench *b, const struct usher_request *request, size_t count)
{
	memcpy(b->candidates, b->came_in, count * sizeof(*b->candidates));
	b->pass = (struct usher_pass){ .size = sizeof(b->pass),
		.view = &b->view,
		.request = request,
		.weights = request ? NULL : b->weights };
	if (request && usher_plugin.stage->mark) {
		for (uint32_t i = 0; i < usher_endpoints_count(b->set); i++)
			b->marks[i] = usher_plugin.stage->mark(b->instance, &b->view, i);
		b->pass.marks = b->marks;
	}
	b->kept = usher_plugin.stage->run
			? usher_plugin.stage->run(b->instance, &b->pass, b->candidates, count)
			: usher_plugin.stage->filter(
					  b->instance, &b->view, request, b->candidates, count);
	assert_true(b->kept <= count);
	bench_run_without_marks(b, count);
	b->told[0] = '\0';
	if (usher_plugin.stage->tell)
		usher_plugin.stage->tell(b->instance, &b->pass, b->came_in, count, b->kept, b->told,
				sizeof(b->told));
	return b->kept;
}

/* As in the shared part of the chain, or for the request. Returns how many stay. */
static size_t bench_run_for(struct stage_bench *b, const struct usher_request *request)
{
	size_t count = 0;

	for (uint32_t i = 0; i < usher_endpoints_count(b->set); i++)
		if (b->admin[i] == USHER_ADMIN_READY)
			b->came_in[count++] = i;
	return bench_run_over(b, request, count);
}

__attribute__((unused)) static size_t bench_run(struct stage_bench *b)
{
	bool needs = usher_plugin.stage->looks_at_request ||
			(usher_plugin.stage->needs_request &&
					usher_plugin.stage->needs_request(b->instance));

	return bench_run_for(b, needs ? &b->request : NULL);
}

/* The ids that have stayed, with a blank between. */
__attribute__((unused)) static const char *bench_kept(const struct stage_bench *b)
{
	static char text[65536];
	size_t length = 0;

	text[0] = '\0';
	for (size_t i = 0; i < b->kept; i++)
		length += (size_t) snprintf(text + length, sizeof(text) - length, "%s%s",
				i ? " " : "", usher_endpoints_id(b->set, b->candidates[i]));
	return text;
}

/* Why the endpoint has left. */
__attribute__((unused)) static const char *bench_why(const struct stage_bench *b, const char *id)
{
	static char text[160];
	ssize_t i = usher_endpoints_find(b->set, id);

	assert_true(i >= 0);
	text[0] = '\0';
	usher_plugin.stage->explain(
			b->instance, &b->view, b->pass.request, (uint32_t) i, text, sizeof(text));
	return text;
}
