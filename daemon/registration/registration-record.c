/* What the disk has of a registration: what the API asked for, and where it may have been put.
 *
 * One that the configuration declares has a record only while it may be in a registry. A record
 * outlives its configuration until it is out of every registry that it names. */

#include <errno.h>
#include <string.h>

#include <jansson.h>

#include "clock.h"
#include "log.h"
#include "ownership.h"
#include "registration.h"

#define MESSAGE_UNWRITTEN "7b4a7c2f5f0f4b52b0f3d1c2a6f1e9a7"

/* ---- out ---- */

static json_t *places_to_json(const struct registration *g)
{
	cleanup(json_decrefp) json_t *list = json_array();

	for (size_t i = 0; i < g->place_count; i++) {
		const struct placement *p = g->places[i];

		if (p->version == 0)
			continue;
		if (json_array_append_new(list,
				    json_pack("{s:s, s:s, s:s?}", "source", p->source, "name",
						    p->name, "port", p->port)) < 0)
			return NULL;
	}
	return take(list);
}

/* null for none. */
static json_t *spec_to_json(const char *json)
{
	return json ? json_loads(json, 0, NULL) : json_null();
}

static bool has_places(const struct registration *g)
{
	for (size_t i = 0; i < g->place_count; i++)
		if (g->places[i]->version > 0)
			return true;
	return false;
}

/* Whether there is anything that the next run should know. */
static bool is_worth_a_record(const struct registration *g)
{
	return (!g->is_configured && !g->is_leaving && g->json) || has_places(g);
}

char *registration_record_write(const struct registration *g, const struct proposal *proposal)
{
	const char *json = proposal ? proposal->json : g->json;
	const char *by = proposal ? proposal->requested_by : g->requested_by;
	bool is_leaving = proposal ? !proposal->json : g->is_leaving;
	json_t *record = json_pack("{s:b, s:b, s:s?, s:o, s:o}", "configured",
			!proposal && g->is_configured, "leaving", is_leaving, "requested_by", by,
			"spec", spec_to_json(is_leaving ? NULL : json), "registries",
			places_to_json(g));
	char *text = record ? json_dumps(record, JSON_COMPACT) : NULL;

	json_decref(record);
	return text;
}

/* ---- in ---- */

static int read_place(struct registration *g, const json_t *place, struct usher_error *reterr)
{
	const char *source = json_string_value(json_object_get(place, "source"));
	const char *name = json_string_value(json_object_get(place, "name"));
	const char *port = json_string_value(json_object_get(place, "port"));
	struct placement *p;

	if (!source || !name)
		return usher_error_set(reterr, -EBADMSG, "a registry has no source or no name");
	if (placement_add(g, source, name, port) < 0)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	p = g->places[g->place_count - 1];
	p->version = 1;
	p->is_there = p->is_wanted = true;
	return 0;
}

static int read_members(struct registration *g, const json_t *record, struct usher_error *reterr)
{
	const json_t *places = json_object_get(record, "registries");
	const json_t *spec = json_object_get(record, "spec");
	int r = 0;

	if (!json_is_array(places))
		return usher_error_set(reterr, -EBADMSG, "registries is no list");
	g->is_configured = json_is_true(json_object_get(record, "configured"));
	g->is_leaving = json_is_true(json_object_get(record, "leaving"));
	registration_set_text(&g->requested_by,
			json_string_value(json_object_get(record, "requested_by")));
	if (json_is_object(spec) && !(g->json = json_dumps(spec, JSON_COMPACT)))
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	if (!g->is_configured && !g->is_leaving && !g->json)
		return usher_error_set(reterr, -EBADMSG, "spec is no object");
	for (size_t i = 0; i < json_array_size(places) && r >= 0; i++)
		r = read_place(g, json_array_get(places, i), reterr);
	return r;
}

int registration_record_read(struct registration *g, const char *json, struct usher_error *reterr)
{
	cleanup(json_decrefp) json_t *record = json_loads(json, 0, NULL);

	if (!json_is_object(record))
		return usher_error_set(reterr, -EBADMSG, "is no JSON object");
	g->version = g->written = 1;
	g->is_on_disk = true;
	return read_members(g, record, reterr);
}

/* ---- to the disk ---- */

static struct proposal *proposal_free(struct proposal *proposal)
{
	if (!proposal)
		return NULL;
	(void) registration_spec_unref(proposal->spec);
	free(proposal->json);
	free(proposal->requested_by);
	free(proposal);
	return NULL;
}

static void accept_proposal(struct registration *g, struct proposal *proposal)
{
	free(g->json);
	free(g->requested_by);
	g->json = take(proposal->json);
	g->requested_by = take(proposal->requested_by);
	g->is_configured = false;
	g->is_leaving = !g->json;
	registration_set_spec(g, take(proposal->spec));
}

void registration_end_proposal(struct registration *g, int r, const char *reason)
{
	struct proposal *proposal = take(g->proposal);

	if (!proposal)
		return;
	if (r >= 0)
		accept_proposal(g, proposal);
	if (g->office->decided)
		g->office->decided(g->office->decided_userdata, proposal->ticket, r < 0 ? r : 0,
				reason);
	(void) proposal_free(proposal);
}

/* That a change was refused is told once; that what was before is to be written again is not. */
static void write_failed(struct registration *g, const char *reason)
{
	if (!g->is_unwritten && g->writing != g->undoing) {
		g->is_unwritten = true;
		log_warning(FIELDS(.value[LOG_SERVICE] = g->service, .value[LOG_ENDPOINT] = g->id,
					    .value[LOG_MESSAGE_ID] = MESSAGE_UNWRITTEN),
				"The disk does not take the record of %s of %s: %s; registering it all the same, and trying again",
				g->id, g->service, reason);
	}
	g->write_failures++;
	g->write_again_usec = clock_boot_usec() +
			placement_backoff(g->write_failures, random_next(&g->office->random));
}

/* Nobody knows what of it has come to the disk: what was before is written again. */
static void refuse_proposal(struct registration *g, int r, const char *reason)
{
	log_warning(FIELDS(.value[LOG_SERVICE] = g->service, .value[LOG_ENDPOINT] = g->id,
				    .value[LOG_MESSAGE_ID] = MESSAGE_UNWRITTEN),
			"The disk does not take the change of %s of %s: %s; refused, and nothing has changed",
			g->id, g->service, reason);
	if (g->version == g->writing)
		g->undoing = g->version;
	registration_end_proposal(g, r, reason);
}

static void note_unwritten(struct registration *g, const char *reason)
{
	bool is_undoing = g->writing == g->undoing && g->version == g->writing;

	write_failed(g, reason);
	g->version++;
	if (is_undoing)
		g->undoing = g->version;
}

static void registration_on_written(void *userdata, int r, const char *reason)
{
	struct registration *g = userdata;
	const char *why = r < 0 ? (reason ? reason : strerrordesc_np(-r)) : NULL;

	g->is_writing = false;
	if (g->writing_proposal) {
		g->writing_proposal = false;
		if (r >= 0) {
			g->written = g->writing;
			registration_end_proposal(g, 0, NULL);
		} else {
			refuse_proposal(g, r, why);
		}
	} else {
		/* What could not be written is written later; the registry is not kept waiting. */
		g->written = g->writing;
		if (r < 0) {
			note_unwritten(g, why);
		} else {
			g->write_failures = 0;
			g->is_unwritten = false;
		}
	}
	registration_wake(g);
}

static int post(struct registration *g)
{
	struct store *store = g->office->store;
	autofree char *json = NULL;

	if (!g->proposal && !is_worth_a_record(g)) {
		if (!g->is_on_disk)
			return 1;
		return store_remove_registration(
				store, g->service, g->id, registration_on_written, g);
	}
	json = registration_record_write(g, g->proposal);
	if (!json)
		return -ENOMEM;
	return store_put_registration(store, g->service, g->id, json, registration_on_written, g);
}

uint64_t registration_record_commit(struct registration *g, uint64_t now_usec)
{
	int r;

	if (g->is_writing || g->version == g->written)
		return USEC_FOREVER;
	if (now_usec < g->write_again_usec && !g->proposal)
		return g->write_again_usec;
	g->writing = g->version;
	g->writing_proposal = g->proposal;
	r = g->office->store ? post(g) : 1;
	if (r > 0) {
		g->written = g->writing; /* there is nothing to write, or nowhere */
		if (g->writing_proposal)
			registration_end_proposal(g, 0, NULL);
		g->writing_proposal = false;
		registration_wake(g);
		return USEC_FOREVER;
	}
	if (r < 0) {
		if (g->writing_proposal)
			refuse_proposal(g, r, strerrordesc_np(-r));
		g->writing_proposal = false;
		write_failed(g, strerrordesc_np(-r));
		return g->write_again_usec;
	}
	g->is_writing = true;
	g->is_on_disk = g->proposal || is_worth_a_record(g);
	return USEC_FOREVER;
}
