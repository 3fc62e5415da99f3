/* What people are shown of registrations. */

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "registration.h"

size_t registrations_count(const struct registrations *r)
{
	return r->count;
}

void registrations_get(const struct registrations *r, size_t i, struct registration_view *ret)
{
	const struct registration *g = r->all[i];
	const char *why = NULL;
	enum registration_state state = registration_judge(g, &why);

	*ret = (struct registration_view){
		.service = g->service,
		.id = g->id,
		.is_nothing = registration_is_nothing(g),
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

static const char *placement_error(const struct placement *p)
{
	if (p->error)
		return p->error;
	return p->lateness ? p->lateness : p->lane->error;
}

void registrations_get_place(
		const struct registrations *r, size_t i, size_t k, struct registry_view *ret)
{
	const struct placement *p = r->all[i]->places[k];
	bool is_in_back_off = p->line && p->lane->failures > 0;

	*ret = (struct registry_view){
		.source = p->source,
		.name = p->name,
		.port = p->port,
		.state = p->state,
		.since_usec = p->since_usec,
		.told_usec = p->told_usec,
		.renewed_usec = p->times.renewed_usec,
		.next_usec = is_in_back_off ? p->lane->again_usec : p->next_usec,
		.called_usec = p->called_usec,
		.failures = p->failures,
		.error = placement_error(p),
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
