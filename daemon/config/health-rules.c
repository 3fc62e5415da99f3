/* What the tables of `health` cannot say: values that contradict one another. */

#include <errno.h>

#include "config-parse.h"
#include "place.h"

#define DURATION(usec)    usher_duration_format(usec, (char[USHER_DURATION_TEXT_MAX]){ 0 })
#define PLACE(scope, ...) config_scope_place(scope, (const char *const[]){ __VA_ARGS__, NULL })

/* The first layer that says health.KEY; the built-in one does when no other does. */
static size_t layer_of(const struct config_scope *scope, const char *key)
{
	size_t i = 0;

	while (i + 1 < scope->count &&
			!usher_node_get(usher_node_get(scope->layers[i], "health"), key))
		i++;
	return i;
}

static bool is_judged(const struct health_config *health)
{
	return health->check.kind != CHECK_NONE || health->outlier.enabled;
}

/* Whoever writes `health` in a service wants one. In the defaults it may be there for others. */
static int check_purpose(const struct health_config *health, const struct config_scope *scope,
		struct usher_error *reterr)
{
	const struct usher_node *own = usher_node_get(scope->layers[0], "health");

	if (is_judged(health) || !scope->place || !own || usher_node_count(own) == 0)
		return 0;
	return place_error(reterr, own, -EINVAL,
			"has no check; add one of http, tcp, grpc and exec, or outlier: {enabled: true}, or write none");
}

static int check_statuses(const struct check_config *check, const struct config_scope *scope,
		struct usher_error *reterr)
{
	for (size_t i = 0; i < check->degraded_count; i++)
		for (size_t k = 0; k < check->expect_count; k++) {
			const struct status_range *a = &check->degraded[i], *b = &check->expect[k];

			if (a->first > b->last || b->first > a->last)
				continue;
			return place_error(reterr, PLACE(scope, "health", "http", "degraded"),
					-EINVAL,
					"the status %d counts as degraded and, by `expect`, as up; take it out of one of them",
					a->first > b->first ? a->first : b->first);
		}
	return 0;
}

static int check_http(const struct check_config *check, const struct config_scope *scope,
		struct usher_error *reterr)
{
	if (check->kind != CHECK_HTTP)
		return 0;
	if ((check->match_text || check->match_pointer) && check->method[0] == 'H')
		return place_error(reterr, PLACE(scope, "health", "http", "match"), -EINVAL,
				"the answer to HEAD has no body to match; ask by GET, or leave match out");
	return check_statuses(check, scope, reterr);
}

static int check_judgement(const struct health_config *health, const struct config_scope *scope,
		struct usher_error *reterr)
{
	if (health->flap_changes == 1)
		return place_error(reterr, PLACE(scope, "health", "flapping", "changes"), -EINVAL,
				"one change is no flapping; write 2 or more, or 0 for never");
	if (health->panic_threshold > 0 && health->on_all_down == DOWN_FAIL &&
			layer_of(scope, "panic_threshold") <= layer_of(scope, "on_all_down"))
		return place_error(reterr, PLACE(scope, "health", "panic_threshold"), -EINVAL,
				"is of no use while on_all_down is fail; write on_all_down: panic beside it");
	return 0;
}

static int check_outlier(const struct outlier_config *outlier, const struct config_scope *scope,
		struct usher_error *reterr)
{
	if (!outlier->enabled)
		return 0;
	if (outlier->max_ejection_usec < outlier->ejection_usec)
		return place_error(reterr, PLACE(scope, "health", "outlier", "max_ejection"),
				-EINVAL,
				"is %s at most, and the first ejection takes %s already; raise max_ejection or shorten ejection",
				DURATION(outlier->max_ejection_usec),
				DURATION(outlier->ejection_usec));
	if (outlier->max_ejected <= 0)
		return place_error(reterr, PLACE(scope, "health", "outlier", "max_ejected"),
				-EINVAL,
				"nobody could be ejected; write a share (at least one may be ejected whatever it is), or enabled: false");
	if (outlier->consecutive == 0 && outlier->failure_share >= 1)
		return place_error(reterr, PLACE(scope, "health", "outlier"), -EINVAL,
				"nothing ejects: consecutive is 0 and failure_share 100%%; set one of them, or enabled: false");
	return 0;
}

int config_check_health(const struct health_config *health, const struct config_scope *scope,
		struct usher_error *reterr)
{
	int r;

	r = check_purpose(health, scope, reterr);
	if (r < 0)
		return r;
	r = check_http(&health->check, scope, reterr);
	if (r < 0)
		return r;
	r = check_judgement(health, scope, reterr);
	if (r < 0)
		return r;
	return check_outlier(&health->outlier, scope, reterr);
}
