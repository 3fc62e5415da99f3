/* Keeps the endpoints that are up, by what checks and reports of calls have found.
 *
 * Two things are weighed against "up only". Those that are degraded take part when too few others
 * are left, as Envoy's degraded endpoints do. And where the service says on_all_down: panic, all
 * are used when less than its threshold is usable, for then it is likelier that the checks are
 * wrong, or that what is left would be overrun (Envoy's panic threshold:
 * https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/upstream/load_balancing/panic_threshold).
 *
 * Shares are of the candidates, so of what is not drained on purpose, and only of those with
 * weight: what is given no traffic on purpose is not missed. */

#include <stdio.h>
#include <usher/plugin.h>

enum unknown {
	UNKNOWN_INCLUDE,
	UNKNOWN_AVOID
};

enum degraded {
	DEGRADED_FALLBACK,
	DEGRADED_INCLUDE,
	DEGRADED_AVOID
};

struct health {
	int unknown;   /* option, enum unknown */
	int degraded;  /* option, enum degraded */
	double enough; /* option */
};

enum use {
	USE_ALWAYS,
	USE_AT_NEED,
	USE_NEVER
};

struct census {
	size_t weighty; /* candidates with weight */
	size_t up;      /* of them, those that are used always */
	size_t usable;  /* of them, those that are used at least at need */
	bool at_need;   /* whether there is need */
	bool panic;
};

static enum use use_of(const struct health *h, const struct usher_view *view, uint32_t i)
{
	switch ((enum usher_health) view->health[i]) {
	case USHER_HEALTH_UNKNOWN:
		return h->unknown == UNKNOWN_INCLUDE ? USE_ALWAYS : USE_NEVER;
	case USHER_HEALTH_UP:
		return USE_ALWAYS;
	case USHER_HEALTH_DEGRADED:
		if (h->degraded == DEGRADED_INCLUDE)
			return USE_ALWAYS;
		return h->degraded == DEGRADED_FALLBACK ? USE_AT_NEED : USE_NEVER;
	case USHER_HEALTH_DOWN:
	case USHER_HEALTH_EJECTED:
		return USE_NEVER;
	}
	return USE_NEVER;
}

static struct census take_census(const struct health *h, const struct usher_view *view,
		const uint32_t *candidates, size_t count)
{
	struct census c = {};

	for (size_t i = 0; i < count; i++) {
		enum use use = use_of(h, view, candidates[i]);

		if (view->weights[candidates[i]] == 0)
			continue;
		c.weighty++;
		c.up += use == USE_ALWAYS;
		c.usable += use != USE_NEVER;
	}
	c.at_need = c.up == 0 || (double) c.up < h->enough * (double) c.weighty;
	c.panic = view->panic_threshold >= 0 && c.weighty > 0 &&
			(c.usable == 0 ||
					(double) c.usable <
							view->panic_threshold * (double) c.weighty);
	return c;
}

static size_t health_run(
		const void *instance, struct usher_pass *pass, uint32_t *candidates, size_t count)
{
	const struct health *h = instance;
	struct census c;
	size_t kept = 0;

	if (!pass->view->health)
		return count;
	c = take_census(h, pass->view, candidates, count);
	if (c.panic) {
		pass->panic = true;
		return count;
	}
	for (size_t i = 0; i < count; i++) {
		enum use use = use_of(h, pass->view, candidates[i]);

		if (use == USE_ALWAYS || (use == USE_AT_NEED && c.at_need))
			candidates[kept++] = candidates[i];
	}
	return kept;
}

static void health_explain(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret_text,
		size_t size)
{
	const struct health *h = instance;
	const char *text = "";

	(void) request;
	if (!view->health)
		return;
	switch ((enum usher_health) view->health[candidate]) {
	case USHER_HEALTH_UNKNOWN:
		text = "not checked yet, and unknown is avoid";
		break;
	case USHER_HEALTH_UP:
		text = "up";
		break;
	case USHER_HEALTH_DEGRADED:
		text = h->degraded == DEGRADED_AVOID ? "degraded, and degraded is avoid"
						     : "degraded, and enough others are up";
		break;
	case USHER_HEALTH_DOWN:
		text = "down: its checks fail";
		break;
	case USHER_HEALTH_EJECTED:
		text = "ejected: calls to it fail";
		break;
	}
	(void) snprintf(ret_text, size, "%s", text);
}

static void health_tell(const void *instance, const struct usher_pass *pass,
		const uint32_t *candidates, size_t count, size_t kept, char *ret_text, size_t size)
{
	const struct health *h = instance;
	struct census c;

	(void) kept;
	if (!pass->view->health) {
		(void) snprintf(ret_text, size, "the service has no checks: all are let through");
		return;
	}
	c = take_census(h, pass->view, candidates, count);
	if (c.panic && c.usable == 0)
		(void) snprintf(ret_text, size, "panic: none of %zu is usable, so all are used",
				c.weighty);
	else if (c.panic)
		(void) snprintf(ret_text, size,
				"panic: %zu of %zu are usable, less than %.3g%%, so all are used",
				c.usable, c.weighty, 100 * pass->view->panic_threshold);
	else if (c.at_need && c.usable > c.up)
		(void) snprintf(ret_text, size,
				"%zu of %zu are up, too few: %zu degraded are used, too", c.up,
				c.weighty, c.usable - c.up);
}

static const char *const unknown_choices[] = {
	[UNKNOWN_INCLUDE] = "include",
	[UNKNOWN_AVOID] = "avoid",
	NULL,
};

static const char *const degraded_choices[] = {
	[DEGRADED_FALLBACK] = "fallback",
	[DEGRADED_INCLUDE] = "include",
	[DEGRADED_AVOID] = "avoid",
	NULL,
};

static const struct usher_option health_options[] = {
	{ .name = "unknown",
			.type = USHER_OPTION_CHOICE,
			.offset = offsetof(struct health, unknown),
			.help = "What to do with endpoints that no check has judged yet: include "
				"or avoid them.",
			.default_text = "include",
			.choices = unknown_choices },
	{ .name = "degraded",
			.type = USHER_OPTION_CHOICE,
			.offset = offsetof(struct health, degraded),
			.help = "What to do with endpoints that are degraded: use them when too "
				"few others are up (fallback), include or avoid them.",
			.default_text = "fallback",
			.choices = degraded_choices },
	{ .name = "enough",
			.type = USHER_OPTION_SHARE,
			.offset = offsetof(struct health, enough),
			.help = "With degraded: fallback, the share of candidates that has to be "
				"up for the degraded to be left alone.",
			.default_text = "30%" },
	{},
};

USHER_PLUGIN(.name = "health", .summary = "Those that are up",
		.instance_size = sizeof(struct health), .options = health_options,
		.stage = &(const struct usher_stage){
				.size = sizeof(struct usher_stage),
				.explain = health_explain,
				.flags = USHER_STAGE_WHOLE | USHER_STAGE_STRICT |
						USHER_STAGE_HEALTH,
				.run = health_run,
				.tell = health_tell,
		});
