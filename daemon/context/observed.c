/* The health of a context's endpoints: observed where the service says how, of every endpoint that
 * is merged, whatever becomes of it in the chain. Nothing is waited for: what has not been asked
 * yet is unknown. */

#include <errno.h>
#include <stdio.h>

#include "chain-order.h"
#include "clock.h"
#include "context-private.h"
#include "directory-private.h"
#include "log.h"

#define MESSAGE_PANIC    "9d3f0a5be4c14d0fa7c6b2c81f5e7b01"
#define MESSAGE_ALL_DOWN "9d3f0a5be4c14d0fa7c6b2c81f5e7b02"

static void observed_on_changed(void *userdata, struct health *health)
{
	struct context *c = userdata;
	uint64_t now_usec = clock_boot_usec();

	(void) health;
	(void) context_recompute_or_retry(c, now_usec);
	context_schedule(c, now_usec);
}

static const struct health_events observed_events = { .changed = observed_on_changed };

struct health *context_health(const struct context *c)
{
	return c->health;
}

void context_set_health(struct context *c, const struct usher_endpoints *set, const uint8_t *states)
{
	c->health_set = set;
	c->health_states = states;
}

static void stop_observing(struct context *c)
{
	context_set_health(c, NULL, NULL);
	c->health = health_free(c->health);
}

bool context_observe(struct context *c, struct check *check)
{
	bool was_observed = c->health;

	if (check)
		(void) check_ref(check);
	(void) check_unref(c->check);
	c->check = check;
	if (!service_observes_health(c->config)) {
		stop_observing(c);
		return was_observed;
	}
	/* made when there is something to follow, for that may fail and be tried again */
	return !was_observed || health_configure(c->health, &c->config->health, check);
}

void context_observe_no_more(struct context *c)
{
	stop_observing(c);
	c->check = check_unref(c->check);
}

int context_follow_health(struct context *c)
{
	int r;

	if (!service_observes_health(c->config) || !c->merged.endpoints)
		return 0;
	if (!c->health)
		c->health = health_new(c->directory->office, c->service, &c->config->health,
				c->check, &observed_events, c);
	if (!c->health)
		return -ENOMEM;
	r = health_follow(c->health, c->merged.endpoints);
	if (r >= 0)
		context_set_health(c, c->merged.endpoints, health_states(c->health));
	return r;
}

/* ---- what is said ---- */

/* "1 down, 2 ejected" of what is neither drained nor in maintenance. */
static const char *count_states(const struct snapshot *s, char *ret, size_t size)
{
	unsigned counts[USHER_HEALTH_EJECTED + 1] = {};
	size_t length = 0;

	for (size_t i = 0; i < s->count; i++)
		if (!s->entries[i].withdrawn && s->entries[i].admin_state == USHER_ADMIN_READY)
			counts[s->entries[i].health]++;
	ret[0] = '\0';
	for (size_t i = 0; i <= USHER_HEALTH_EJECTED && length < size; i++)
		if (counts[i] > 0)
			length += (size_t) snprintf(ret + length, size - length, "%s%u %s",
					length ? ", " : "", counts[i],
					usher_health_to_string((enum usher_health) i));
	return ret;
}

void context_note_outage(
		const struct context *c, const struct snapshot *previous, bool was_all_down)
{
	const struct snapshot *s = c->snapshot;
	bool panicked = previous && previous->panic, all_down = c->why_none == PICK_ALL_UNHEALTHY;
	char states[96];

	if (s->panic == panicked && all_down == was_all_down)
		return;
	(void) count_states(s, states, sizeof(states));
	if (s->panic && !panicked)
		log_warning(FIELDS(.value[LOG_SERVICE] = c->service,
					    .value[LOG_MESSAGE_ID] = MESSAGE_PANIC),
				"Too few endpoints of %s are usable (%s): all of them are used, and every answer says so",
				c->service, states);
	else if (!s->panic && panicked)
		log_notice(FIELDS(.value[LOG_SERVICE] = c->service,
					   .value[LOG_MESSAGE_ID] = MESSAGE_PANIC),
				"The panic about %s is over (%s)", c->service, states);
	if (all_down && !was_all_down)
		log_error(FIELDS(.value[LOG_SERVICE] = c->service,
					  .value[LOG_MESSAGE_ID] = MESSAGE_ALL_DOWN),
				"No endpoint of %s is usable (%s): picks fail with all_unhealthy until one is",
				c->service, states);
	else if (!all_down && was_all_down)
		log_notice(FIELDS(.value[LOG_SERVICE] = c->service,
					   .value[LOG_MESSAGE_ID] = MESSAGE_ALL_DOWN),
				"Endpoints of %s are usable again (%s)", c->service, states);
}
