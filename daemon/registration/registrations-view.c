/* What people are shown of registrations. */

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "registration.h"

size_t registrations_count(const struct registrations *r)
{
	return r->count;
}

ssize_t registrations_find(const struct registrations *r, const char *service, const char *id)
{
	for (size_t i = 0; i < r->count; i++)
		if (strcmp(r->all[i]->service, service) == 0 && strcmp(r->all[i]->id, id) == 0)
			return (ssize_t) i;
	return -ENOENT;
}

void registrations_get(const struct registrations *r, size_t i, struct registration_view *ret)
{
	const struct registration *g = r->all[i];
	const char *why = NULL;
	enum registration_state state = registration_judge(g, &why);

	*ret = (struct registration_view){
		.service = g->service,
		.id = g->id,
		.is_configured = g->is_configured,
		.requested_by = g->requested_by,
		.state = state,
		.since_usec = g->since_usec,
		.why = why,
		.what = g->spec ? g->spec->what : NULL,
		.endpoint = g->payload ? g->payload : g->endpoint,
		.health = g->health && g->endpoint ? g->health : NULL,
		.place_count = g->place_count,
	};
}

void registrations_get_place(
		const struct registrations *r, size_t i, size_t k, struct registry_view *ret)
{
	const struct placement *p = r->all[i]->places[k];

	*ret = (struct registry_view){
		.source = p->source,
		.name = p->name,
		.port = p->port,
		.state = p->state,
		.since_usec = p->since_usec,
		.told_usec = p->told_usec,
		.renewed_usec = p->renewed_usec,
		.next_usec = p->next_usec,
		.called_usec = p->called_usec,
		.failures = p->failures,
		.error = p->error ? p->error : p->lane->error,
	};
}

size_t registrations_registry_count(const struct registrations *r)
{
	return r->lane_count;
}

void registrations_registry(const struct registrations *r, size_t i, struct registry_calls *ret)
{
	const struct lane *lane = r->lanes[i];

	ret->source = lane->source;
	memcpy(ret->done, lane->done, sizeof(ret->done));
	memcpy(ret->failed, lane->failed, sizeof(ret->failed));
}
