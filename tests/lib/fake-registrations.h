#pragma once

/* Registrations made by hand, for tests of the floor above: they say what a test puts into them.
 * Defines every function of registrations.h that serve/ calls. */

#include "clock.h"
#include "registration-config.h"
#include "registrations.h"
#include "test.h"

#define FAKE_REGISTRATIONS_MAX 4

struct registrations {
	struct registration_view views[FAKE_REGISTRATIONS_MAX];
	struct registry_view places[FAKE_REGISTRATIONS_MAX];
	size_t count;
	char asked[256]; /* the last change: "put catalog/a {...} by WHO" */
	int refuses;     /* a negative errno, with this text */
	const char *refusal;
	struct registrations_change change;
	registrations_decided decided;
	void *userdata;
};

__attribute__((unused)) static struct registrations fake_registrations;

void registrations_set_above(struct registrations *r, registrations_decided decided, void *userdata)
{
	r->decided = decided;
	r->userdata = userdata;
}

static int fake_change(struct registrations *r, struct registrations_change *ret,
		struct usher_error *reterr)
{
	if (r->refuses < 0)
		return usher_error_set(reterr, r->refuses, "%s", r->refusal);
	*ret = r->change;
	return 0;
}

int registrations_put(struct registrations *r, const char *service, const char *id,
		const char *json, const char *requested_by, struct registrations_change *ret,
		struct usher_error *reterr)
{
	(void) requested_by;
	(void) snprintf(r->asked, sizeof(r->asked), "put %s/%s %s", service, id, json);
	return fake_change(r, ret, reterr);
}

int registrations_remove(struct registrations *r, const char *service, const char *id,
		struct registrations_change *ret, struct usher_error *reterr)
{
	(void) snprintf(r->asked, sizeof(r->asked), "remove %s/%s", service, id);
	return fake_change(r, ret, reterr);
}

size_t registrations_count(const struct registrations *r)
{
	return r->count;
}

void registrations_get(const struct registrations *r, size_t i, struct registration_view *ret)
{
	*ret = r->views[i];
}

void registrations_get_place(
		const struct registrations *r, size_t i, size_t k, struct registry_view *ret)
{
	(void) k;
	*ret = r->places[i];
}

ssize_t registrations_find(const struct registrations *r, const char *service, const char *id)
{
	for (size_t i = 0; i < r->count; i++)
		if (strcmp(r->views[i].service, service) == 0 && strcmp(r->views[i].id, id) == 0)
			return (ssize_t) i;
	return -ENOENT;
}

size_t registrations_registry_count(const struct registrations *r)
{
	return r->count > 0;
}

void registrations_registry(const struct registrations *r, size_t i, struct registry_calls *ret)
{
	(void) i;
	*ret = (struct registry_calls){ .source = r->places[0].source,
		.done = { [SOURCE_ADD] = 1 },
		.failed = { [SOURCE_RENEW] = 2 } };
}
