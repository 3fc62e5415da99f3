#include "chain-order.h"

#include <errno.h>
#include <string.h>

static const struct plugin_use *use_of(const struct service_config *service, size_t i)
{
	return &service->stages[i].rules[0].use;
}

static unsigned line_of(const struct plugin_use *use)
{
	return use->place ? usher_node_line(use->place) : 0;
}

/* "stage zone ...", with the place where that is known. */
static __attribute__((format(printf, 3, 4))) int refuse(
		const struct plugin_use *use, struct usher_error *reterr, const char *format, ...)
{
	struct usher_error why = {};
	va_list args;

	va_start(args, format);
	(void) vsnprintf(why.text, sizeof(why.text), format, args);
	va_end(args);
	if (!use->place)
		return usher_error_set(reterr, -EINVAL, "stage %s %s", use->plugin, why.text);
	return usher_node_error(reterr, use->place, -EINVAL, "stage %s %s", use->plugin, why.text);
}

static int check_twice(const struct service_config *service, size_t i, struct usher_error *reterr)
{
	const struct plugin_use *use = use_of(service, i);

	for (size_t k = 0; k < i; k++)
		if (strcmp(use_of(service, k)->plugin, use->plugin) == 0)
			return refuse(use, reterr,
					"is twice in the chain, first in line %u: remove one",
					line_of(use_of(service, k)));
	return 0;
}

bool service_observes_health(const struct service_config *service)
{
	return service->health.check.kind != CHECK_NONE || service->health.outlier.enabled;
}

static int check_health(const struct chain *c, const struct service_config *service, size_t i,
		struct usher_error *reterr)
{
	if (!(c->stages[i].plugin->stage->flags & USHER_STAGE_HEALTH) ||
			service_observes_health(service))
		return 0;
	return refuse(use_of(service, i), reterr,
			"goes by the health of the endpoints, which nothing observes for %s: give it a "
			"check, as health: {http: {path: /health}}, or remove the stage",
			service->name ? service->name : "the defaults");
}

/* The first stage that looks at the request, up to and with the i-th, or NULL. */
static const struct plugin_use *first_request_aware(
		const struct chain *c, const struct service_config *service, size_t end)
{
	for (size_t i = 0; i < end; i++)
		if (chain_stage_looks_at_request(&c->stages[i]))
			return use_of(service, i);
	return NULL;
}

static int check_whole(const struct chain *c, const struct service_config *service, size_t i,
		struct usher_error *reterr)
{
	const struct plugin_use *use = use_of(service, i), *before;
	unsigned flags = c->stages[i].plugin->stage->flags;

	if (!(flags & (USHER_STAGE_WHOLE | USHER_STAGE_WEIGHS)))
		return 0;
	before = first_request_aware(c, service, i);
	if (before)
		return refuse(use, reterr,
				"judges the service as a whole, but stands behind %s (line %u), which "
				"leaves other candidates for each request: put it before that",
				before->plugin, line_of(before));
	if (flags & USHER_STAGE_WEIGHS && chain_stage_looks_at_request(&c->stages[i]))
		return refuse(use, reterr,
				"changes weights, which are the same for all requests, but has a rule "
				"that looks at the request: remove its `when`");
	return 0;
}

static int check_weighs(const struct chain *c, const struct service_config *service, size_t i,
		struct usher_error *reterr)
{
	if (!(c->stages[i].plugin->stage->flags & USHER_STAGE_WEIGHS) ||
			!(chain_selector(c)->flags & USHER_SELECTOR_IGNORES_WEIGHTS))
		return 0;
	return refuse(use_of(service, i), reterr,
			"changes weights, which the selector %s (line %u) does not look at: select "
			"weighted_round_robin or another that does, or remove the stage",
			service->select.plugin, line_of(&service->select));
}

int chain_check_order(const struct chain *c, const struct service_config *service,
		struct usher_error *reterr)
{
	int r;

	for (size_t i = 0; i < c->stage_count; i++) {
		r = check_twice(service, i, reterr);
		if (r >= 0)
			r = check_health(c, service, i, reterr);
		if (r >= 0)
			r = check_whole(c, service, i, reterr);
		if (r >= 0)
			r = check_weighs(c, service, i, reterr);
		if (r < 0)
			return r;
	}
	return 0;
}
