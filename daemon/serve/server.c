#include "server.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "inside.h"
#include "watch.h"

static const struct directory_events directory_events;

struct server *server_free(struct server *s)
{
	if (!s)
		return NULL;
	for (unsigned i = 0; i < DOOR_MAX; i++)
		door_done(&s->doors[i]);
	http_stop(s);
	streams_stop(s);
	watch_done(s);
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
	for (unsigned i = 0; i < DOOR_MAX; i++)
		door_init(&s->doors[i], s, (enum server_door) i);
	s->consumers = consumers_new();
	s->in_flight = in_flight_new();
	if (!s->consumers || !s->in_flight)
		return -ENOMEM;
	r = streams_start(s);
	if (r < 0)
		return r;
	r = watch_init(s);
	if (r < 0)
		return r;
	r = http_start(s);
	if (r < 0)
		return r;
	r = directory_subscribe(directory, &directory_events, s);
	if (r < 0)
		return r;
	*ret = take(s);
	return 0;
}

void server_set_above(struct server *s, const struct server_above *above, void *userdata)
{
	s->above = above;
	s->above_userdata = userdata;
}

const char *server_state(const struct server *s)
{
	if (s->quiescing)
		return "stopping";
	return s->above && s->above->state ? s->above->state(s->above_userdata) : "ready";
}

const char *server_admin_path(const struct server *s)
{
	const char *path = s->doors[DOOR_ADMIN].path;

	return path ? path : "of the admins (api.admin.socket)";
}

static void server_on_published(
		void *userdata, struct context *context, const struct snapshot *previous)
{
	(void) previous;
	watch_on_published(userdata, context);
}

static void server_on_renewed(void *userdata, struct context *context)
{
	watch_on_renewed(userdata, context);
}

static void server_on_removed(void *userdata, struct context *context)
{
	watch_on_removed(userdata, context);
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

	if (door->fd < 0 || inherited >= 0)
		return false;
	if (door->inherited)
		return true;
	wanted = door->which == DOOR_HTTP ? config->http_listen
					  : unix_config(config, door->which)->socket;
	return wanted && strcmp(door->path, wanted) == 0;
}

static int open_door(struct door *door, const struct config *config, int inherited,
		struct usher_error *reterr)
{
	const struct listen_config *listen = unix_config(config, door->which);

	if (door->which == DOOR_HTTP)
		return inherited >= 0 || config->http_listen
				? door_open_http(door, config->http_listen, inherited, reterr)
				: 0;
	return inherited >= 0 || listen->socket ? door_open_unix(door, listen, inherited, reterr)
						: 0;
}

/* A failed call gives inherited descriptors back: they are the caller's until all doors are open.
 */
static void abandon(struct door doors[DOOR_MAX], const int inherited[DOOR_MAX])
{
	for (unsigned i = 0; i < DOOR_MAX; i++) {
		if (doors[i].fd >= 0 && doors[i].fd == inherited[i])
			doors[i].fd = -1;
		door_done(&doors[i]);
	}
}

/* What may change on a door that stays: who gets in. */
static int permit_again(struct server *s, const struct config *config, struct usher_error *reterr)
{
	for (unsigned i = 0; i < DOOR_HTTP; i++) {
		struct door *door = &s->doors[i];
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
		struct door ret[DOOR_MAX], struct usher_error *reterr)
{
	int r;

	for (unsigned i = 0; i < DOOR_MAX; i++) {
		if (door_stays(&s->doors[i], config, inherited[i]))
			continue;
		r = open_door(&ret[i], config, inherited[i], reterr);
		if (r < 0)
			return r;
		if (ret[i].fd < 0)
			continue;
		r = door_start(&ret[i]);
		if (r < 0)
			return usher_error_set(reterr, r, "cannot watch the %s door: %s",
					server_door_to_string((enum server_door) i), strerror(-r));
	}
	return permit_again(s, config, reterr);
}

int server_listen(struct server *s, const struct config *config, int inherited[DOOR_MAX],
		struct usher_error *reterr)
{
	struct door opened[DOOR_MAX];
	int r;

	for (unsigned i = 0; i < DOOR_MAX; i++)
		door_init(&opened[i], s, (enum server_door) i);
	r = open_new(s, config, inherited, opened, reterr);
	if (r < 0) {
		abandon(opened, inherited);
		return r;
	}
	for (unsigned i = 0; i < DOOR_MAX; i++) {
		if (door_stays(&s->doors[i], config, inherited[i]))
			continue;
		door_done(&s->doors[i]);
		door_move(&s->doors[i], &opened[i]);
		inherited[i] = -1;
	}
	return 0;
}

void server_quiesce(struct server *s)
{
	s->quiescing = true;
	for (unsigned i = 0; i < DOOR_MAX; i++)
		door_stop(&s->doors[i]);
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

const struct rollout_above *server_rollout_above(void)
{
	static const struct rollout_above above = {
		.consumers = server_consumers,
		.in_flight = server_in_flight,
		.changed = server_drain_changed,
	};

	return &above;
}
