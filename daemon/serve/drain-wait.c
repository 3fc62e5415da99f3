#include "drain-wait.h"

#include <errno.h>
#include <string.h>

#include "inside.h"
#include "problem.h"
#include "render.h"

struct drain_wait {
	struct wait wait;
	char id[DRAIN_ID_MAX];
	uint64_t version;
	unsigned status;
};

static bool is_recorded(struct server *s, const char *id, uint64_t version)
{
	uint64_t on_disk;

	return rollout_version(s->rollout, id, &on_disk) > 0 && on_disk > 0 && on_disk >= version;
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
	w->version = version;
	w->status = status;
	w->wait.until_usec = q->now_usec + DRAIN_WAIT_USEC;
	waits_add(&s->drain_waits, &w->wait, q, respond_waited);
	return 0;
}

void drain_wait_on_recorded(struct server *s, const struct drain_record *record)
{
	struct wait *next;

	for (struct wait *wait = s->drain_waits.first; wait; wait = next) {
		const struct drain_wait *w = (struct drain_wait *) wait;

		next = wait->next;
		if (strcmp(w->id, record->id) == 0 && is_recorded(s, w->id, w->version))
			waits_resume(&s->drain_waits, wait);
	}
}
