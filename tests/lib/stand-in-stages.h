#pragma once

/* Stages and selectors that do what a test asks of them: each uses one thing that the ABI lets a
 * plug-in do. Set stand_in_more = stand_in_stages. */

#include "stand-in-plugins.h"

#define STAND_IN(id, ...)                                                             \
	static const struct usher_plugin id##_plugin = { .size = sizeof(id##_plugin), \
		.option_size = sizeof(struct usher_option),                           \
		.name = #id,                                                          \
		.version = "1.2",                                                     \
		__VA_ARGS__ }

/* ---- everybody, whatever its flags say ---- */

static size_t all_filter(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t *candidates, size_t count)
{
	(void) instance;
	(void) view;
	(void) request;
	(void) candidates;
	return count;
}

static const struct usher_stage whole_stage = {
	.size = sizeof(whole_stage), .filter = all_filter, .flags = USHER_STAGE_WHOLE
};
STAND_IN(whole, .stage = &whole_stage);

/* ---- nobody, and strict by nature ---- */

static size_t nobody_run(
		const void *instance, struct usher_pass *pass, uint32_t *candidates, size_t count)
{
	(void) instance;
	(void) pass;
	(void) candidates;
	(void) count;
	return 0;
}

static const struct usher_stage nobody_stage = {
	.size = sizeof(nobody_stage), .run = nobody_run, .flags = USHER_STAGE_STRICT
};
STAND_IN(nobody, .stage = &nobody_stage);

static size_t finally_nobody_run(
		const void *instance, struct usher_pass *pass, uint32_t *candidates, size_t count)
{
	pass->final = true;
	return nobody_run(instance, pass, candidates, count);
}

static const struct usher_stage finally_nobody_stage = { .size = sizeof(finally_nobody_stage),
	.run = finally_nobody_run };
STAND_IN(finally_nobody, .stage = &finally_nobody_stage);

/* ---- those that are not down; with a panic threshold all, where none is left ---- */

static size_t well_run(
		const void *instance, struct usher_pass *pass, uint32_t *candidates, size_t count)
{
	size_t kept = 0;
	uint32_t first = candidates[0];

	(void) instance;
	for (size_t i = 0; i < count; i++)
		if (!pass->view->health || pass->view->health[candidates[i]] < USHER_HEALTH_DOWN)
			candidates[kept++] = candidates[i];
	if (kept > 0 || pass->view->panic_threshold < 0)
		return kept;
	candidates[0] = first;
	pass->panic = true;
	return count;
}

static void well_tell(const void *instance, const struct usher_pass *pass,
		const uint32_t *candidates, size_t count, size_t kept, char *ret_text, size_t size)
{
	(void) instance;
	(void) candidates;
	if (pass->panic)
		(void) snprintf(ret_text, size, "panic: none of %zu is up, %zu are used", count,
				kept);
}

static void well_explain(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret_text,
		size_t size)
{
	(void) instance;
	(void) request;
	(void) snprintf(ret_text, size, "%s", usher_health_to_string(view->health[candidate]));
}

static const struct usher_stage well_stage = { .size = sizeof(well_stage),
	.run = well_run,
	.tell = well_tell,
	.explain = well_explain,
	.flags = USHER_STAGE_WHOLE | USHER_STAGE_STRICT | USHER_STAGE_HEALTH };
STAND_IN(well, .stage = &well_stage);

/* ---- a part of the weight for a while after it came ---- */

struct growing {
	uint64_t window_usec; /* option */
};

static size_t growing_run(
		const void *instance, struct usher_pass *pass, uint32_t *candidates, size_t count)
{
	const struct growing *g = instance;

	for (size_t i = 0; pass->weights && i < count; i++) {
		uint64_t since_usec = pass->view->since_usec[candidates[i]];
		uint64_t end_usec = since_usec + g->window_usec;

		if (since_usec == 0 || pass->view->now_usec >= end_usec)
			continue;
		pass->weights[candidates[i]] /= 2;
		if (pass->again_usec == 0 || end_usec < pass->again_usec)
			pass->again_usec = end_usec;
	}
	return count;
}

static const struct usher_option growing_options[] = {
	{ .name = "window",
			.type = USHER_OPTION_DURATION,
			.offset = offsetof(struct growing, window_usec),
			.default_text = "10s" },
	{},
};

static const struct usher_stage growing_stage = {
	.size = sizeof(growing_stage), .run = growing_run, .flags = USHER_STAGE_WEIGHS
};
STAND_IN(growing, .instance_size = sizeof(struct growing), .options = growing_options,
		.stage = &growing_stage);

/* ---- the one of this id; `asks`: of the request's hint instead ---- */

struct named {
	const char *id; /* options */
	bool asks;
};

static bool named_needs_request(const void *instance)
{
	return ((const struct named *) instance)->asks;
}

static size_t named_run(
		const void *instance, struct usher_pass *pass, uint32_t *candidates, size_t count)
{
	const struct named *n = instance;
	const char *wanted = n->asks ? pass->request->hint : n->id;
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (wanted &&
				strcmp(usher_endpoints_id(pass->view->endpoints, candidates[i]),
						wanted) == 0)
			candidates[kept++] = candidates[i];
	return kept;
}

static void named_explain(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret_text,
		size_t size)
{
	const struct named *n = instance;

	(void) view;
	(void) candidate;
	(void) snprintf(ret_text, size, "is not %s", n->asks ? request->hint : n->id);
}

static const struct usher_option named_options[] = {
	{ .name = "id", .type = USHER_OPTION_STRING, .offset = offsetof(struct named, id) },
	{ .name = "asks", .type = USHER_OPTION_BOOL, .offset = offsetof(struct named, asks) },
	{},
};

static const struct usher_stage named_stage = { .size = sizeof(named_stage),
	.needs_request = named_needs_request,
	.run = named_run,
	.explain = named_explain };
STAND_IN(named, .instance_size = sizeof(struct named), .options = named_options,
		.stage = &named_stage);

/* ---- the one of this id, as it was marked; `asks`: for a request ---- */

static unsigned marking_asked; /* for one endpoint */
static bool marking_had_marks; /* in the last run */

static uint64_t marking_mark(const void *instance, const struct usher_view *view, uint32_t endpoint)
{
	const struct named *n = instance;

	marking_asked++;
	return strcmp(usher_endpoints_id(view->endpoints, endpoint), n->id) == 0;
}

static size_t marking_run(
		const void *instance, struct usher_pass *pass, uint32_t *candidates, size_t count)
{
	size_t kept = 0;

	marking_had_marks = pass->marks;
	for (size_t i = 0; i < count; i++)
		if (pass->marks ? pass->marks[candidates[i]]
				: marking_mark(instance, pass->view, candidates[i]))
			candidates[kept++] = candidates[i];
	return kept;
}

static void marking_tell(const void *instance, const struct usher_pass *pass,
		const uint32_t *candidates, size_t count, size_t kept, char *ret_text, size_t size)
{
	(void) instance;
	(void) candidates;
	(void) count;
	(void) kept;
	(void) snprintf(ret_text, size, "%s marks", pass->marks ? "with" : "without");
}

static const struct usher_stage marking_stage = { .size = sizeof(marking_stage),
	.needs_request = named_needs_request,
	.run = marking_run,
	.tell = marking_tell,
	.mark = marking_mark };
STAND_IN(marking, .instance_size = sizeof(struct named), .options = named_options,
		.stage = &marking_stage);

/* ---- what the host hands over ---- */

static size_t last_run(
		const void *instance, struct usher_pass *pass, uint32_t *candidates, size_t count)
{
	const char *last = pass->request->last;
	size_t kept = 0;

	(void) instance;
	for (size_t i = 0; i < count; i++)
		if (last &&
				strcmp(usher_endpoints_id(pass->view->endpoints, candidates[i]),
						last) == 0)
			candidates[kept++] = candidates[i];
	return kept;
}

static const struct usher_stage last_stage = { .size = sizeof(last_stage),
	.looks_at_request = true,
	.run = last_run,
	.flags = USHER_STAGE_LAST };
STAND_IN(last, .stage = &last_stage);

/* Excluded ones are out, but for the last resort. */
static size_t untried_run(
		const void *instance, struct usher_pass *pass, uint32_t *candidates, size_t count)
{
	size_t kept = 0;

	(void) instance;
	for (size_t i = 0; i < count; i++) {
		const char *id = usher_endpoints_id(pass->view->endpoints, candidates[i]);
		bool tried = false;

		for (size_t k = 0; k < pass->request->exclude_count; k++)
			tried |= strcmp(pass->request->exclude[k], id) == 0;
		if (!tried)
			candidates[kept++] = candidates[i];
	}
	return kept;
}

static const struct usher_stage untried_stage = { .size = sizeof(untried_stage),
	.looks_at_request = true,
	.run = untried_run,
	.flags = USHER_STAGE_EXCLUDES };
STAND_IN(untried, .stage = &untried_stage);

/* ---- nonsense ---- */

enum nonsense_kind {
	NONSENSE_MORE,    /* more than it got */
	NONSENSE_FOREIGN, /* one that it did not get */
	NONSENSE_SWAPPED, /* in another order */
	NONSENSE_TWICE
};

struct nonsense {
	int kind; /* options */
	bool asks;
};

static bool nonsense_needs_request(const void *instance)
{
	return ((const struct nonsense *) instance)->asks;
}

static size_t nonsense_run(
		const void *instance, struct usher_pass *pass, uint32_t *candidates, size_t count)
{
	uint32_t first = candidates[0];

	(void) pass;
	switch ((enum nonsense_kind)((const struct nonsense *) instance)->kind) {
	case NONSENSE_MORE:
		return count + 1;
	case NONSENSE_FOREIGN:
		candidates[0] = 4711;
		return 1;
	case NONSENSE_SWAPPED:
		candidates[0] = candidates[count - 1];
		candidates[count - 1] = first;
		return count;
	case NONSENSE_TWICE:
		candidates[count - 1] = candidates[0];
		return count;
	}
	return 0;
}

static const char *const nonsense_kinds[] = { "more", "foreign", "swapped", "twice", NULL };

static const struct usher_option nonsense_options[] = {
	{ .name = "kind",
			.type = USHER_OPTION_CHOICE,
			.offset = offsetof(struct nonsense, kind),
			.choices = nonsense_kinds },
	{ .name = "asks", .type = USHER_OPTION_BOOL, .offset = offsetof(struct nonsense, asks) },
	{},
};

static const struct usher_stage nonsense_stage = {
	.size = sizeof(nonsense_stage), .needs_request = nonsense_needs_request, .run = nonsense_run
};
STAND_IN(nonsense, .instance_size = sizeof(struct nonsense), .options = nonsense_options,
		.stage = &nonsense_stage);

/* ---- selectors ---- */

/* Picks what is not there. */
static ssize_t astray_pick(const void *instance, const void *prepared,
		const struct usher_view *view, const struct usher_request *request,
		const uint32_t *candidates, size_t count)
{
	(void) instance;
	(void) prepared;
	(void) view;
	(void) request;
	(void) candidates;
	return (ssize_t) count;
}

static const struct usher_selector astray_selector = { .size = sizeof(astray_selector),
	.pick = astray_pick };
STAND_IN(astray, .selector = &astray_selector);

/* The one of which most calls have been reported; among equals the first. Remembers what prepare
 * was given. */
struct learning_prepared {
	size_t count;
};

static int learning_prepare(const void *instance, const struct usher_view *view,
		const uint32_t *candidates, size_t count, void **ret_prepared)
{
	struct learning_prepared *p = malloc(sizeof(*p));

	(void) instance;
	(void) candidates;
	assert_non_null(view->slots);
	if (!p)
		return -ENOMEM;
	p->count = count;
	*ret_prepared = p;
	return 0;
}

static size_t learning_saw_prepared; /* of the last pick; 0: none */

static ssize_t learning_pick(const void *instance, const void *prepared,
		const struct usher_view *view, const struct usher_request *request,
		const uint32_t *candidates, size_t count)
{
	const uint64_t *slots = view->slots;
	size_t best = 0;

	(void) instance;
	(void) request;
	learning_saw_prepared = prepared ? ((const struct learning_prepared *) prepared)->count : 0;
	for (size_t i = 1; i < count; i++)
		if (slots[candidates[i]] > slots[candidates[best]])
			best = i;
	return (ssize_t) best;
}

static void learning_report(const void *instance, void *slot, const struct usher_report *report)
{
	(void) instance;
	*(uint64_t *) slot += report->count;
}

static const struct usher_selector learning_selector = { .size = sizeof(learning_selector),
	.prepare = learning_prepare,
	.release = free,
	.pick = learning_pick,
	.flags = USHER_SELECTOR_SUBSETS,
	.slot_size = sizeof(uint64_t),
	.report = learning_report };
STAND_IN(learning, .selector = &learning_selector);

/* The one with the fewest open requests. */
static ssize_t idlest_pick(const void *instance, const void *prepared,
		const struct usher_view *view, const struct usher_request *request,
		const uint32_t *candidates, size_t count)
{
	size_t best = 0;

	(void) instance;
	(void) prepared;
	(void) request;
	for (size_t i = 1; i < count; i++)
		if (view->active[candidates[i]] < view->active[candidates[best]])
			best = i;
	return (ssize_t) best;
}

static const struct usher_selector idlest_selector = { .size = sizeof(idlest_selector),
	.pick = idlest_pick };
STAND_IN(idlest, .selector = &idlest_selector);

static const struct usher_plugin *const stand_in_stages[] = {
	&whole_plugin,
	&nobody_plugin,
	&finally_nobody_plugin,
	&well_plugin,
	&growing_plugin,
	&named_plugin,
	&marking_plugin,
	&last_plugin,
	&untried_plugin,
	&nonsense_plugin,
	&astray_plugin,
	&learning_plugin,
	&idlest_plugin,
	NULL,
};
