#pragma once

/* Health without checks: endpoints are as well as a test says. Defines what health.h declares, so
 * include it in one file of a test. */

#include "health.h"
#include "test.h"

struct health {
	struct usher_endpoints *set;
	uint8_t *states;
	const struct health_events *events;
	void *userdata;
};

/* How well the endpoint of an id is; NULL: nobody knows. */
static enum usher_health (*fake_health_of)(void *userdata, const char *id);
static void *fake_health_userdata;

static void fake_health_judge(struct health *h)
{
	for (size_t i = 0; h->set && i < usher_endpoints_count(h->set); i++)
		h->states[i] = fake_health_of ? (uint8_t) fake_health_of(fake_health_userdata,
								usher_endpoints_id(h->set, i))
					      : USHER_HEALTH_UNKNOWN;
}

/* It may be another now. */
__attribute__((unused)) static void fake_health_changed(struct health *h)
{
	fake_health_judge(h);
	h->events->changed(h->userdata, h);
}

/* ---- health.h ---- */

int health_office_new(sd_event *event, struct inbox *inbox, const struct prober_config *config,
		struct health_office **ret)
{
	(void) event;
	(void) inbox;
	(void) config;
	*ret = NULL;
	return 0;
}

struct health_office *health_office_free(struct health_office *o)
{
	(void) o;
	return NULL;
}

void health_office_configure(struct health_office *o, const struct prober_config *config)
{
	(void) o;
	(void) config;
}

void health_office_stats(struct health_office *o, struct prober_stats *ret)
{
	(void) o;
	*ret = (struct prober_stats){};
}

struct health *health_new(struct health_office *o, const char *service,
		const struct health_config *config, struct check *check,
		const struct health_events *events, void *userdata)
{
	struct health *h = calloc(1, sizeof(*h));

	(void) o;
	(void) service;
	(void) config;
	(void) check;
	assert_non_null(h);
	h->events = events;
	h->userdata = userdata;
	return h;
}

struct health *health_free(struct health *h)
{
	if (!h)
		return NULL;
	(void) usher_endpoints_unref(h->set);
	free(h->states);
	free(h);
	return NULL;
}

bool health_configure(struct health *h, const struct health_config *config, struct check *check)
{
	(void) h;
	(void) config;
	(void) check;
	return false;
}

bool health_config_equal(const struct health_config *a, const struct health_config *b)
{
	return a->check.kind == b->check.kind;
}

int health_follow(struct health *h, struct usher_endpoints *all)
{
	if (h->set == all)
		return 0;
	(void) usher_endpoints_unref(h->set);
	free(h->states);
	h->set = usher_endpoints_ref(all);
	h->states = calloc(usher_endpoints_count(all) + 1, 1);
	assert_non_null(h->states);
	fake_health_judge(h);
	return 0;
}

const uint8_t *health_states(const struct health *h)
{
	return h->states;
}

const struct usher_endpoints *health_set(const struct health *h)
{
	return h->set;
}

int health_report(struct health *h, const char *id, const struct usher_report *report)
{
	(void) report;
	return usher_endpoints_find(h->set, id) < 0 ? -ENOENT : 0;
}

void health_detail(const struct health *h, size_t i, struct health_detail *ret)
{
	*ret = (struct health_detail){ .state = (enum usher_health) h->states[i] };
}
