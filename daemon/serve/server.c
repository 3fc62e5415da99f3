#include "server.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "drain-wait.h"
#include "first-answer.h"
#include "inside.h"
#include "registration-wait.h"
#include "watch.h"

static const struct directory_events directory_events;

static bool server_wants_updates(void *userdata, const struct context *context)
{
	const struct server *s = userdata;
	const struct topic *topic = topics_find(&s->topics, context);

	return topic && topic_wants_updates(topic, clock_boot_usec());
}

static const struct directory_renderer renderer = {
	.wanted = server_wants_updates,
	.difference = topic_difference,
};

static void free_leaving(struct server *s)
{
	while (s->leaving) {
		struct door *door = s->leaving;

		s->leaving = door->next;
		door_free(door);
	}
}

static void server_on_in_flight(
		void *userdata, const char *service, const char *endpoint, uint64_t requests)
{
	const struct server *s = userdata;
	struct context *context = directory_find(s->directory, service);

	/* One that is not in the snapshot gets no picks. */
	if (context)
		(void) context_set_in_flight(context, endpoint, requests);
}

struct server *server_free(struct server *s)
{
	if (!s)
		return NULL;
	for (unsigned i = 0; i < DOOR_MAX; i++)
		s->doors[i] = door_free(s->doors[i]);
	free_leaving(s);
	streams_stop(s);
	watch_done(s);
	waits_done(&s->first_waits);
	waits_done(&s->drain_waits);
	waits_done(&s->registration_waits);
	if (s->registrations)
		registrations_set_above(s->registrations, NULL, NULL);
	answers_done(&s->answers);
	in_flight_free(s->in_flight);
	consumers_free(s->consumers);
	sd_event_unref(s->event);
	free(s);
	return NULL;
}

DEFINE_CLEANUP(struct server, server_free);

int server_new(sd_event *event, struct directory *directory, struct rollout *rollout,
		struct server **ret)
{
	cleanup(server_freep) struct server *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->event = sd_event_ref(event);
	s->directory = directory;
	s->rollout = rollout;
	s->started_usec = clock_boot_usec();
	s->streams.monitor = -1;
	random_init(&s->random);
	s->consumers = consumers_new();
	s->in_flight = in_flight_new(event, server_on_in_flight, s);
	if (!s->consumers || !s->in_flight)
		return -ENOMEM;
	r = streams_start(s);
	if (r < 0)
		return r;
	r = watch_init(s);
	if (r < 0)
		return r;
	r = waits_init(&s->first_waits, s->event);
	if (r < 0)
		return r;
	r = waits_init(&s->drain_waits, s->event);
	if (r < 0)
		return r;
	r = waits_init(&s->registration_waits, s->event);
	if (r < 0)
		return r;
	r = directory_subscribe(directory, &directory_events, s);
	if (r < 0)
		return r;
	directory_set_renderer(directory, &renderer, s);
	*ret = take(s);
	return 0;
}

void server_set_above(struct server *s, const struct server_above *above, void *userdata)
{
	s->above = above;
	s->above_userdata = userdata;
}

void server_set_registrations(struct server *s, struct registrations *registrations)
{
	s->registrations = registrations;
	registrations_set_above(registrations, registration_wait_on_decided, s);
}

const char *server_state(const struct server *s)
{
	if (s->quiescing)
		return "stopping";
	return s->above && s->above->state ? s->above->state(s->above_userdata) : "ready";
}

const char *server_admin_path(const struct server *s)
{
	return s->doors[DOOR_ADMIN] ? s->doors[DOOR_ADMIN]->path
				    : "of the admins (api.admin.socket)";
}

static void server_on_published(
		void *userdata, struct context *context, const struct snapshot *previous)
{
	(void) previous;
	watch_on_published(userdata, context);
	first_answer_on_change(userdata, context);
}

static void server_on_renewed(void *userdata, struct context *context)
{
	watch_on_renewed(userdata, context);
	first_answer_on_change(userdata, context);
}

static void server_on_removed(void *userdata, struct context *context)
{
	watch_on_removed(userdata, context);
	first_answer_on_removed(userdata, context);
}

static const struct directory_events directory_events = {
	.published = server_on_published,
	.renewed = server_on_renewed,
	.removed = server_on_removed,
};

static const struct listen_config *unix_config(const struct config *config, enum server_door which)
{
	return which == DOOR_ADMIN ? &config->admin : &config->consumer;
}

/* Whether the open door is the one that the configuration wants. */
static bool door_stays(const struct door *door, const struct config *config, int inherited)
{
	const char *wanted;

	if (!door || inherited >= 0)
		return false;
	if (door->inherited)
		return true;
	wanted = door->which == DOOR_HTTP ? config->http_listen
					  : unix_config(config, door->which)->socket;
	return wanted && strcmp(door->path, wanted) == 0;
}

static int open_door(struct server *s, enum server_door which, const struct config *config,
		int inherited, struct door **ret, struct usher_error *reterr)
{
	const struct listen_config *listen = unix_config(config, which);

	if (which == DOOR_HTTP)
		return inherited >= 0 || config->http_listen
				? door_new_http(s, config->http_listen, inherited, ret, reterr)
				: 0;
	return inherited >= 0 || listen->socket
			? door_new_unix(s, which, listen, inherited, ret, reterr)
			: 0;
}

/* What may change on a door that stays: who gets in. */
static int permit_again(struct server *s, const struct config *config, struct usher_error *reterr)
{
	for (unsigned i = 0; i < DOOR_HTTP; i++) {
		struct door *door = s->doors[i];
		int r;

		if (!door_stays(door, config, -1) || door->inherited)
			continue;
		r = door_permit(door, unix_config(config, door->which), reterr);
		if (r < 0)
			return r;
	}
	return 0;
}

static int open_new(struct server *s, const struct config *config, const int inherited[DOOR_MAX],
		struct door *ret[DOOR_MAX], struct usher_error *reterr)
{
	for (unsigned i = 0; i < DOOR_MAX; i++) {
		int r;

		if (door_stays(s->doors[i], config, inherited[i]))
			continue;
		r = open_door(s, (enum server_door) i, config, inherited[i], &ret[i], reterr);
		if (r < 0)
			return r;
	}
	return permit_again(s, config, reterr);
}

static void close_old(struct server *s, enum server_door which)
{
	struct door *door = s->doors[which];

	if (!door)
		return;
	s->doors[which] = NULL;
	door_leave(door);
	door->next = s->leaving;
	s->leaving = door;
}

void server_door_emptied(struct door *door)
{
	for (struct door **at = &door->server->leaving; *at; at = &(*at)->next)
		if (*at == door) {
			*at = door->next;
			door_free(door);
			return;
		}
}

int server_listen(struct server *s, const struct config *config, int inherited[DOOR_MAX],
		struct usher_error *reterr)
{
	struct door *opened[DOOR_MAX] = {};
	int r;

	r = open_new(s, config, inherited, opened, reterr);
	if (r < 0) /* the first may have its new mode when the second is refused */
		(void) permit_again(s, directory_config(s->directory), NULL);
	for (unsigned i = 0; i < DOOR_MAX; i++) {
		if (r < 0) {
			door_abandon(opened[i]);
			continue;
		}
		if (door_stays(s->doors[i], config, inherited[i]))
			continue;
		close_old(s, (enum server_door) i);
		s->doors[i] = opened[i];
		inherited[i] = -1;
	}
	return r < 0 ? r : 0;
}

void server_quiesce(struct server *s)
{
	s->quiescing = true;
	waits_cancel(&s->first_waits, NULL);
	for (unsigned i = 0; i < DOOR_MAX; i++)
		if (s->doors[i])
			http_quiesce(&s->doors[i]->http);
	for (struct stream *stream = s->streams.first; stream; stream = stream->next)
		stream_wake(stream);
}

static void server_consumers(void *userdata, const char *service, uint64_t revision,
		struct consumer_evidence *ret)
{
	struct server *s = userdata;

	consumers_evidence(s->consumers, service, revision, ret);
}

static void server_in_flight(void *userdata, const char *service, const char *endpoint,
		struct in_flight_evidence *ret)
{
	struct server *s = userdata;

	in_flight_evidence(s->in_flight, service, endpoint, clock_boot_usec(), ret);
}

static void server_drain_changed(void *userdata, const struct drain_record *record)
{
	drain_watch_on_changed(userdata, record);
}

static void server_drain_recorded(void *userdata, const struct drain_record *record)
{
	drain_wait_on_recorded(userdata, record);
}

const struct rollout_above *server_rollout_above(void)
{
	static const struct rollout_above above = {
		.consumers = server_consumers,
		.in_flight = server_in_flight,
		.changed = server_drain_changed,
		.recorded = server_drain_recorded,
	};

	return &above;
}
