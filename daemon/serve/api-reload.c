/* POST /v1/reload: answered when the new configuration is in force, or refused. */

#include <errno.h>
#include <microhttpd.h>

#include "api.h"
#include "inside.h"
#include "peer.h"
#include "problem.h"
#include "reload-wait.h"
#include "render.h"

/* A caller that waits. It outlives the server when the reload does. */
struct reload_wait {
	struct reload_wait *next, *prev;
	struct server *server; /* NULL: gone */
	struct request *request;
	bool done;
	int r;
	struct usher_error error;
};

static void reload_wait_unlink(struct reload_wait *w)
{
	struct server *s = w->server;

	if (w->next)
		w->next->prev = w->prev;
	if (w->prev)
		w->prev->next = w->next;
	else
		s->reload_waits = w->next;
	w->server = NULL;
}

/* What is not done yet is freed when it is. */
static void reload_wait_leave(struct reload_wait *w)
{
	if (w->server)
		reload_wait_unlink(w);
	if (w->done)
		free(w);
}

static void reload_wait_forget(void *waiting)
{
	reload_wait_leave(waiting);
}

static int respond_reloaded(struct request *q)
{
	struct reload_wait *w = q->waiting;
	struct server *s = q->server;
	struct text text = {};
	int r = w->r;

	q->waiting = NULL;
	if (r == -ECANCELED || r == -ENOMEM || r == -EAGAIN)
		(void) respond_problem(q, PROBLEM_INTERNAL, "%s", usher_error_text(&w->error, r));
	else if (r < 0)
		(void) respond_problem(q, PROBLEM_INVALID_CONFIG, "%s; the old configuration stays",
				usher_error_text(&w->error, r));
	reload_wait_leave(w);
	if (r < 0)
		return 0;
	text_add_string(&text, "{\"revision\": ");
	text_add_unsigned(&text, directory_revision(s->directory));
	text_add_string(&text, ", \"loaded_at\": ");
	render_wall_time(&text, s->above->loaded_wall_usec(s->above_userdata));
	text_add_string(&text, "}\n");
	return respond_json(q, MHD_HTTP_OK, &text);
}

static void reload_on_done(void *userdata, int r, const char *reason)
{
	struct reload_wait *w = userdata;

	w->done = true;
	if (!w->server) {
		free(w);
		return;
	}
	w->r = r;
	if (r < 0)
		(void) usher_error_set(&w->error, r, "%s", reason);
	request_resume(w->request);
}

void reload_waits_cancel(struct server *s, const struct door *door)
{
	struct reload_wait *next;

	for (struct reload_wait *w = s->reload_waits; w; w = next) {
		next = w->next;
		if (w->request->peer->door != door)
			continue;
		reload_wait_unlink(w);
		w->r = usher_error_set(&w->error, -ECANCELED, "usherd stops");
		if (w->request->suspended)
			request_resume(w->request);
	}
}

int api_reload(struct request *q)
{
	static const struct field none[] = { {} };
	struct server *s = q->server;
	struct reload_wait *w;
	fields_given given;

	if (!request_no_query(q) || !request_body(q, none, NULL, &given))
		return 0;
	if (!s->above || !s->above->reload)
		return -ENOTSUP;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->server = s;
	w->request = q;
	w->next = s->reload_waits;
	if (w->next)
		w->next->prev = w;
	s->reload_waits = w;
	request_suspend(q, respond_reloaded, reload_wait_forget, w);
	s->above->reload(s->above_userdata, reload_on_done, w);
	return 0;
}
