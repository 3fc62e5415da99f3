#include "call.h"

#include <errno.h>
#include <stdlib.h>

#include "own-json.h"
#include "reply.h"
#include "retry.h"

#define USEC_PER_SEC      UINT64_C(1000000)
#define CALL_TIMEOUT_USEC (8 * USEC_PER_SEC)
#define TRIES_MAX         3

static int open_access(struct nacos *n, struct usher_error *reterr)
{
	uint64_t now = retry_now_usec();
	int r;

	if (!n->access) {
		n->access = calloc(1, sizeof(*n->access));
		if (!n->access)
			return usher_error_set(reterr, -ENOMEM, "out of memory");
		r = access_init(n->access, n, NULL, reterr);
		if (r < 0) {
			free(n->access);
			n->access = NULL;
			return r;
		}
	}
	/* Somebody waits for the answer, so an earlier failure holds nothing up. */
	n->access->due_usec = 0;
	return access_wants_login(n->access, now) ? access_login_now(n->access, now, reterr) : 0;
}

static int ask_once(struct nacos *n, const struct call *call, struct usher_http_event *ret,
		struct usher_error *reterr)
{
	cleanup(form_done) struct form path = { 0 }, body = { 0 };
	struct access *a = n->access;
	bool old = a->api == NACOS_API_1;
	struct usher_http_request request = {
		.method = old ? call->method_1 : call->method_3,
		.timeout_usec = CALL_TIMEOUT_USEC,
	};
	struct form *fields = call->body ? &body : &path;

	access_path(a, &path, call->path_1, call->path_3);
	if (call->body)
		form_start(&body, NULL);
	access_add_service(a, fields, call->name);
	if (call->write)
		call->write(fields, a, call->what);
	return access_do(a, &request, &path, call->body ? &body : NULL, ret, reterr);
}

/* Whether it is worth to ask again: over the other API, at another server, with a new token. */
static bool goes_on(struct nacos *n, const struct call *call, const struct usher_http_event *event,
		enum nacos_api api, unsigned serial, bool first)
{
	struct access *a = n->access;

	if (event->error != 0 || event->status >= 500) {
		if (event->error == 0)
			usher_http_leave(a->http, event->server);
		return n->http.servers[1];
	}
	if (access_is_no_path(event)) {
		if (call->either)
			a->api = api == NACOS_API_1 ? NACOS_API_3 : NACOS_API_1;
		return first && (call->either || access_lacks_api(a, api));
	}
	return (event->status == 401 || event->status == 403) &&
			access_was_denied(a, serial, retry_now_usec());
}

int call_ask(struct nacos *n, const struct call *call, struct usher_http_event *ret,
		struct usher_error *reterr)
{
	int r = open_access(n, reterr);
	enum nacos_api api, kept = n->access ? n->access->api : NACOS_API_1;

	for (unsigned tries = 0; r == 0; tries++) {
		unsigned serial = n->access->serial;

		api = n->access->api;
		*ret = (struct usher_http_event) USHER_HTTP_EVENT_INIT;
		r = ask_once(n, call, ret, reterr);
		if (r == -ENOMEM || r == -ECANCELED || tries == TRIES_MAX - 1 ||
				!goes_on(n, call, ret, api, serial, tries == 0))
			break;
		r = open_access(n, reterr);
	}
	if (call->either && n->access)
		n->access->api = kept;
	return r;
}

int call_done(const struct usher_http_event *event, struct usher_error *reterr)
{
	int r = usher_http_status_error(event, reterr);

	return r < 0 ? r : reply_check(event->data, event->data_size, reterr);
}

int call_do(struct nacos *n, const struct call *c, struct usher_error *reterr)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	struct usher_error why = { 0 };
	int r = call_ask(n, c, &event, &why);

	if (r == 0)
		r = call_done(&event, &why);
	return r < 0 ? usher_error_set(reterr, r, "%s", usher_error_text(&why, r)) : 0;
}
