#include "drain-wait.h"

#include <errno.h>
#include <string.h>

#include "clock.h"
#include "inside.h"
#include "peer.h"
#include "problem.h"
#include "render.h"

struct drain_wait {
	struct drain_wait *next, *prev;
	struct request *request;
	char id[DRAIN_ID_MAX];
	uint64_t version;
	uint64_t until_usec;
	unsigned status;
	bool linked;
};

static bool is_recorded(struct server *s, const char *id, uint64_t version)
{
	uint64_t on_disk;

	return rollout_version(s->rollout, id, &on_disk) > 0 && on_disk > 0 && on_disk >= version;
}

static void unlink_wait(struct server *s, struct drain_wait *w)
{
	if (!w->linked)
		return;
	if (w->next)
		w->next->prev = w->prev;
	if (w->prev)
		w->prev->next = w->next;
	else
		s->drain_waits = w->next;
	w->linked = false;
}

static void resume(struct server *s, struct drain_wait *w)
{
	unlink_wait(s, w);
	request_resume(w->request);
}

int respond_drain(struct request *q, unsigned status, const struct drain_record *record)
{
	struct text text = {};

	render_drain(&text, record);
	text_add(&text, "\n", 1);
	return respond_json(q, status, &text);
}

static const char *disk_trouble(const struct server *s)
{
	const char *trouble = s->above && s->above->store_error
			? s->above->store_error(s->above_userdata)
			: NULL;

	return trouble ? trouble : "it is slow";
}

static int respond_waited(struct request *q)
{
	autofree struct drain_wait *w = q->waiting;
	struct server *s = q->server;
	const struct drain_record *record = rollout_find(s->rollout, w->id);

	if (record && is_recorded(s, w->id, w->version))
		return respond_drain(q, w->status, record);
	return respond_problem(q, PROBLEM_STORE_FAILED,
			"the disk has not taken the record of %s yet (%s): nothing acts until it has; follow it, or cancel it",
			w->id, disk_trouble(s));
}

static void arm(struct server *s, uint64_t until_usec)
{
	int enabled = SD_EVENT_OFF;

	/* The one that is armed is for an earlier time: each waits equally long. */
	(void) sd_event_source_get_enabled(s->drain_late, &enabled);
	if (enabled != SD_EVENT_OFF)
		return;
	(void) sd_event_source_set_time(s->drain_late, until_usec);
	(void) sd_event_source_set_enabled(s->drain_late, SD_EVENT_ONESHOT);
}

int drain_wait(struct request *q, const struct drain_record *record, unsigned status)
{
	struct server *s = q->server;
	struct drain_wait *w;
	uint64_t on_disk, version;

	version = rollout_version(s->rollout, record->id, &on_disk);
	if (is_recorded(s, record->id, version))
		return respond_drain(q, status, record);
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	memcpy(w->id, record->id, sizeof(w->id));
	w->request = q;
	w->version = version;
	w->status = status;
	w->until_usec = q->now_usec + DRAIN_WAIT_USEC;
	w->linked = true;
	w->next = s->drain_waits;
	if (w->next)
		w->next->prev = w;
	s->drain_waits = w;
	request_suspend(q, respond_waited, w);
	arm(s, w->until_usec);
	return 0;
}

void drain_wait_on_recorded(struct server *s, const struct drain_record *record)
{
	struct drain_wait *next;

	for (struct drain_wait *w = s->drain_waits; w; w = next) {
		next = w->next;
		if (strcmp(w->id, record->id) == 0 && is_recorded(s, w->id, w->version))
			resume(s, w);
	}
}

void drain_wait_cancel(struct server *s, const struct door *door)
{
	struct drain_wait *next;

	for (struct drain_wait *w = s->drain_waits; w; w = next) {
		next = w->next;
		if (w->request->peer->door == door)
			resume(s, w);
	}
}

static int drain_wait_on_late(sd_event_source *source, uint64_t usec, void *userdata)
{
	uint64_t now_usec = clock_boot_usec(), next_usec = USEC_FOREVER;
	struct server *s = userdata;
	struct drain_wait *next;

	(void) source;
	(void) usec;
	for (struct drain_wait *w = s->drain_waits; w; w = next) {
		next = w->next;
		if (w->until_usec <= now_usec)
			resume(s, w);
		else if (w->until_usec < next_usec)
			next_usec = w->until_usec;
	}
	if (next_usec != USEC_FOREVER)
		arm(s, next_usec);
	return 0;
}

int drain_wait_init(struct server *s)
{
	int r;

	r = sd_event_add_time(
			s->event, &s->drain_late, CLOCK_BOOTTIME, 0, 0, drain_wait_on_late, s);
	if (r < 0)
		return r;
	return sd_event_source_set_enabled(s->drain_late, SD_EVENT_OFF);
}

void drain_wait_done(struct server *s)
{
	s->drain_late = sd_event_source_disable_unref(s->drain_late);
}
