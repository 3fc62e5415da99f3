#pragma once

/* One selector over endpoints, and picks from it as the host makes them. */

#include "random.h"
#include "selection.h"

struct selecting {
	struct plugin_instance *instance;
	const struct usher_selector *selector;
	struct choice choice;
	void *prepared;
	struct random random;
};

__attribute__((unused)) static void selecting_init_with(
		struct selecting *s, const char *name, const char *options, const char *endpoints)
{
	struct usher_error err = {};
	int r;

	*s = (struct selecting){};
	r = selection_new(name, options, FACET_SELECTOR, &s->instance, &err);
	if (r < 0)
		fail_msg("%s: %s", name, err.text);
	s->selector = s->instance->plugin->selector;
	choice_init(&s->choice, endpoints, NULL);
	random_init(&s->random);
}

__attribute__((unused)) static void selecting_init(
		struct selecting *s, const char *name, const char *endpoints)
{
	selecting_init_with(s, name, NULL, endpoints);
}

/* `count` endpoints of weight 1, with the ids that a registry would give them; the text of set_of()
 * is too short for many. */
__attribute__((unused)) static void selecting_init_many(
		struct selecting *s, const char *name, const char *options, size_t count)
{
	struct usher_endpoints *set = usher_endpoints_new();

	selecting_init_with(s, name, options, "");
	choice_done(&s->choice);
	for (size_t i = 0; i < count; i++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;
		char id[32];

		(void) snprintf(id, sizeof(id), "catalog-%06zu", i);
		e.id = id;
		e.address = "10.0.0.1";
		e.port = 80;
		assert_ok(usher_endpoints_add(set, &e, NULL));
	}
	usher_endpoints_seal(set);
	s->choice = (struct choice){ .set = set, .count = count };
	s->choice.weights = calloc(count, sizeof(*s->choice.weights));
	s->choice.candidates = calloc(count, sizeof(*s->choice.candidates));
	for (size_t i = 0; i < count; i++) {
		s->choice.weights[i] = USHER_WEIGHT_UNIT;
		s->choice.candidates[i] = (uint32_t) i;
	}
	s->choice.view = (struct usher_view){
		.size = sizeof(s->choice.view), .endpoints = set, .weights = s->choice.weights
	};
}

__attribute__((unused)) static void selecting_prepare(struct selecting *s)
{
	if (s->prepared)
		s->selector->release(s->prepared);
	assert_ok(s->selector->prepare(s->instance->data, &s->choice.view, s->choice.candidates,
			s->choice.count, &s->prepared));
	assert_non_null(s->prepared);
}

/* The choice for a request, checked to be one. */
__attribute__((unused)) static ssize_t select_for(
		const struct selecting *s, const struct usher_request *request)
{
	const struct choice *c = &s->choice;
	ssize_t position = s->selector->pick(
			s->instance->data, s->prepared, &c->view, request, c->candidates, c->count);

	assert_in_range(position + 1, 0, c->count);
	if (position >= 0)
		assert_int_not_equal(c->weights[c->candidates[position]], 0);
	return position;
}

__attribute__((unused)) static ssize_t select_at(struct selecting *s, uint64_t cursor)
{
	struct usher_request request = {
		.size = sizeof(request), .cursor = cursor, .random = random_next(&s->random)
	};

	return select_for(s, &request);
}

__attribute__((unused)) static void selecting_done(struct selecting *s)
{
	if (s->prepared)
		s->selector->release(s->prepared);
	choice_done(&s->choice);
	(void) plugin_instance_unref(s->instance);
}
