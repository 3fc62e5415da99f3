/* What the tables cannot say: values that contradict one another, and names that nobody declares.
 * Each message has the numbers and what to change. */

#include <errno.h>
#include <string.h>

#include "config-parse.h"
#include "place.h"

#define DURATION(usec) usher_duration_format(usec, (char[USHER_DURATION_TEXT_MAX]){ 0 })

const struct usher_node *config_scope_place(
		const struct config_scope *scope, const char *const *path)
{
	const struct usher_node *found = scope->place;
	size_t best = 0;

	for (size_t i = 0; i + 1 < scope->count; i++) {
		const struct usher_node *n = scope->layers[i];

		for (size_t depth = 0; n && path[depth]; depth++) {
			n = usher_node_get(n, path[depth]);
			if (n && depth + 1 > best) {
				best = depth + 1;
				found = n;
			}
		}
	}
	return found;
}

#define PLACE(scope, ...) config_scope_place(scope, (const char *const[]){ __VA_ARGS__, NULL })

/* ---- feeds ---- */

static int unknown_source(
		const struct config *c, const struct feed_config *feed, struct usher_error *reterr)
{
	const char *words[CONFIG_SOURCES_MAX + 1] = {};
	const struct usher_node *n = usher_node_get(feed->place, "source");

	for (size_t i = 0; i < c->source_count; i++)
		words[i] = c->sources[i].name;
	return place_unknown_word(reterr, n ? n : feed->place, "a declared source", words);
}

int config_check_feeds(const struct config *c, const struct feed_config *feeds, size_t count,
		const char *why_once, struct usher_error *reterr)
{
	for (size_t i = 0; i < count; i++) {
		const struct feed_config *feed = &feeds[i];

		if (!config_find_source(c, feed->source))
			return unknown_source(c, feed, reterr);
		for (size_t k = 0; k < i; k++)
			if (strcmp(feed->source, feeds[k].source) == 0)
				return place_error(reterr, feed->place, -EEXIST,
						"the source \"%s\" is named twice; %s",
						feed->source, why_once);
	}
	return 0;
}

static int check_decides(const struct service_config *service, struct usher_error *reterr)
{
	for (size_t i = 0; i < service->feed_count; i++) {
		const struct feed_config *feed = &service->feeds[i];

		if (feed->decides && service->merge != MERGE_UNION)
			return place_error(reterr, feed->place, -EINVAL,
					"\"decides\" says whose word counts where several sources show an endpoint, and merge: %s takes all of it from one; write merge: union, or leave it out",
					merge_policy_to_string(service->merge));
	}
	return 0;
}

/* ---- drains and restores ---- */

static int check_drain_windows(const struct drain_config *drain, const struct config_scope *scope,
		struct usher_error *reterr)
{
	uint64_t windows = drain->registry_usec + drain->consumer_refresh_usec +
			drain->consumer_cache_usec + drain->margin_usec;
	uint64_t sum = windows + drain->in_flight_timeout_usec;
	uint64_t waited = drain->propagation_timeout_usec + drain->in_flight_timeout_usec;
	const struct usher_node *place = PLACE(scope, "drain", "deadline");

	if (sum > drain->deadline_usec)
		return place_error(reterr, place, -EINVAL,
				"the deadline of %s does not cover the windows: registry %s + consumer_refresh %s + consumer_cache %s + margin %s + in_flight.timeout %s = %s; raise the deadline or shorten them",
				DURATION(drain->deadline_usec), DURATION(drain->registry_usec),
				DURATION(drain->consumer_refresh_usec),
				DURATION(drain->consumer_cache_usec), DURATION(drain->margin_usec),
				DURATION(drain->in_flight_timeout_usec), DURATION(sum));
	if (waited > drain->deadline_usec)
		return place_error(reterr, place, -EINVAL,
				"the deadline of %s does not cover propagation.timeout %s + in_flight.timeout %s = %s; raise the deadline or shorten them",
				DURATION(drain->deadline_usec),
				DURATION(drain->propagation_timeout_usec),
				DURATION(drain->in_flight_timeout_usec), DURATION(waited));
	if (drain->propagation_timeout_usec > 0 && drain->propagation_timeout_usec < windows)
		return place_error(reterr, PLACE(scope, "drain", "propagation", "timeout"), -EINVAL,
				"a timeout of %s ends before the declared windows, %s, have passed; raise it or shorten them",
				DURATION(drain->propagation_timeout_usec), DURATION(windows));
	return 0;
}

/* what is "drain" or "restore", the operation that runs the hook. */
static int check_hook(const char *name, const struct hook_config *hook, const char *what,
		uint64_t deadline_usec, const struct config_scope *scope,
		struct usher_error *reterr)
{
	if (hook->kind == HOOK_NONE || hook->timeout_usec <= deadline_usec)
		return 0;
	return place_error(reterr, PLACE(scope, "drain", name), -EINVAL,
			"a timeout of %s is longer than the deadline of the %s, %s; raise the deadline or shorten it",
			DURATION(hook->timeout_usec), what, DURATION(deadline_usec));
}

static int check_drain(const struct drain_config *drain, const struct config_scope *scope,
		struct usher_error *reterr)
{
	int r;

	r = check_drain_windows(drain, scope, reterr);
	if (r < 0)
		return r;
	if (drain->in_flight_timeout_usec > 0 && drain->quiet_usec > drain->in_flight_timeout_usec)
		return place_error(reterr, PLACE(scope, "drain", "in_flight", "quiet"), -EINVAL,
				"zero would have to last for %s and is waited for only %s; shorten quiet or raise in_flight.timeout",
				DURATION(drain->quiet_usec),
				DURATION(drain->in_flight_timeout_usec));
	r = check_hook("readiness", &drain->readiness, "drain", drain->deadline_usec, scope,
			reterr);
	if (r < 0)
		return r;
	return check_hook("close", &drain->close, "drain", drain->deadline_usec, scope, reterr);
}

static int check_restore(const struct restore_config *restore, const struct config_scope *scope,
		struct usher_error *reterr)
{
	uint64_t sum = restore->observed_timeout_usec + restore->ramp_usec;

	if (sum > restore->deadline_usec)
		return place_error(reterr, PLACE(scope, "restore", "deadline"), -EINVAL,
				"the deadline of %s does not cover observed.timeout %s + ramp %s = %s; raise the deadline or shorten them",
				DURATION(restore->deadline_usec),
				DURATION(restore->observed_timeout_usec),
				DURATION(restore->ramp_usec), DURATION(sum));
	return 0;
}

int config_check_service(const struct config *c, const struct service_config *service,
		const struct config_scope *scope, struct usher_error *reterr)
{
	int r;

	r = config_check_feeds(c, service->feeds, service->feed_count,
			"a service is looked up once in each", reterr);
	if (r >= 0)
		r = check_decides(service, reterr);
	if (r < 0)
		return r;
	r = config_check_health(&service->health, scope, reterr);
	if (r < 0)
		return r;
	r = check_drain(&service->drain, scope, reterr);
	if (r < 0)
		return r;
	r = check_restore(&service->restore, scope, reterr);
	if (r < 0)
		return r;
	return check_hook("open", &service->drain.open, "restore", service->restore.deadline_usec,
			scope, reterr);
}

int config_check_whole(const struct config *c, const struct config_scope *scope,
		struct usher_error *reterr)
{
	if (strcmp(c->consumer.socket, c->admin.socket) == 0)
		return place_error(reterr, PLACE(scope, "api", "admin", "socket"), -EINVAL,
				"%s is the consumer socket, too; who may only read could change: give each a path of its own",
				c->admin.socket);
	if (c->lazy_allow && c->lazy_limit == 0)
		return place_error(reterr, PLACE(scope, "defaults", "lazy", "limit"), -EINVAL,
				"a limit of 0 allows none; write allow: false to say so");
	return 0;
}
