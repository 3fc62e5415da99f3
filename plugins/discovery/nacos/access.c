#include "access.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>

#include "own-json.h"
#include "password.h"
#include "reply.h"
#include "retry.h"

#define USEC_PER_SEC       UINT64_C(1000000)
#define LOGIN_TIMEOUT_USEC (10 * USEC_PER_SEC)
/* One that was denied when it was no older is no worse than the next. */
#define TOKEN_YOUNG_USEC (10 * USEC_PER_SEC)
#define GROUP_SEPARATOR  "@@"

int access_init(struct access *a, const struct nacos *n, struct usher_source *source,
		struct usher_error *reterr)
{
	bool has_token = n->http.token || n->http.token_file;
	const struct usher_http_config config = {
		.size = sizeof(config),
		.options = &n->http,
		.auth = has_token ? USHER_HTTP_AUTH_BEARER : USHER_HTTP_AUTH_NONE,
	};

	*a = (struct access){ .nacos = n,
		.api = n->api == NACOS_CHOOSE_3 ? NACOS_API_3 : NACOS_API_1 };
	return usher_http_new(source, &config, &a->http, reterr);
}

static void forget_token(struct access *a)
{
	if (a->token)
		explicit_bzero(a->token, strlen(a->token));
	free(a->token);
	a->token = NULL;
}

void access_done(struct access *a)
{
	forget_token(a);
	a->http = usher_http_free(a->http);
}

/* ---- the login ---- */

static bool logs_in(const struct access *a)
{
	const struct usher_http_options *o = &a->nacos->http;

	return o->user && !o->token && !o->token_file;
}

bool access_is_open(const struct access *a, uint64_t now_usec)
{
	return !logs_in(a) || (a->token && now_usec < a->expires_usec);
}

bool access_wants_login(const struct access *a, uint64_t now_usec)
{
	return logs_in(a) && a->request == 0 && a->due_usec <= now_usec &&
			(!a->token || now_usec >= a->renew_usec);
}

uint64_t access_next_login_usec(const struct access *a)
{
	uint64_t renew_usec = a->token ? a->renew_usec : 0;

	if (!logs_in(a) || a->request != 0)
		return 0;
	return renew_usec > a->due_usec ? renew_usec : a->due_usec;
}

static int write_login(const struct access *a, struct form *path, struct form *body,
		struct usher_error *reterr)
{
	const struct usher_http_options *o = &a->nacos->http;
	char text[PASSWORD_MAX];
	int r = 0;

	if (o->password_file)
		r = password_read(o->password_file, text, reterr);
	else
		(void) snprintf(text, sizeof(text), "%s", o->password ? o->password : "");
	if (r < 0)
		return r;
	form_start(path, a->nacos->context_path);
	path->next = '\0';
	form_put(path, a->old_path ? "/v1/auth/login" : "/v3/auth/user/login");
	form_start(body, NULL);
	form_add(body, "username", o->user);
	form_add(body, "password", text);
	explicit_bzero(text, sizeof(text));
	return form_is_whole(path) && form_is_whole(body)
			? 0
			: usher_error_set(reterr, -ENOMEM, "out of memory");
}

static const char *const form_headers[] = { "Content-Type: application/x-www-form-urlencoded",
	NULL };

static void fill_login(struct access *a, const struct form *path, const struct form *body,
		struct usher_http_request *ret)
{
	assert(path->text && body->text);
	*ret = (struct usher_http_request){
		.size = sizeof(*ret),
		.method = "POST",
		.path = path->text,
		.headers = form_headers,
		.body = body->text,
		.body_size = strlen(body->text),
		.timeout_usec = LOGIN_TIMEOUT_USEC,
		.tag = a,
	};
}

static void forget_form(struct form *f)
{
	if (f->text)
		explicit_bzero(f->text, strlen(f->text));
	form_done(f);
}

int access_login(struct access *a, struct usher_error *reterr)
{
	cleanup(form_done) struct form path = { 0 };
	cleanup(forget_form) struct form body = { 0 };
	struct usher_http_request request;
	int r = write_login(a, &path, &body, reterr);

	if (r < 0)
		return r;
	fill_login(a, &path, &body, &request);
	r = usher_http_start(a->http, &request, &a->request);
	return r < 0 ? usher_error_set(reterr, r, "cannot log in") : 0;
}

static int read_login(struct access *a, const struct usher_http_event *event, uint64_t now,
		struct usher_error *reterr)
{
	uint64_t ttl_usec = 0;
	char *token = NULL;
	int r = event->error;

	if (r < 0)
		*reterr = event->why;
	else
		r = usher_http_status_error(event, reterr);
	/* What 3.1 says of a wrong password. */
	if (event->error == 0 && event->status == 500)
		r = -EACCES;
	if (r == 0)
		r = reply_parse_login(event->data, event->data_size, &token, &ttl_usec, reterr);
	if (r < 0)
		return usher_error_prefix(reterr, r,
				"cannot log in as %s (are the user and the password right?)",
				a->nacos->http.user);
	forget_token(a);
	a->token = token;
	a->serial++;
	a->since_usec = now;
	/* Its time has begun when it was asked for. */
	a->expires_usec = event->started_usec + ttl_usec;
	a->renew_usec = event->started_usec + ttl_usec / 5 * 4;
	if (a->renew_usec <= now)
		a->renew_usec = now + USEC_PER_SEC;
	return 0;
}

int access_take_login(struct access *a, const struct usher_http_event *event, uint64_t now_usec,
		uint64_t *random, struct usher_error *reterr)
{
	int r = read_login(a, event, now_usec, reterr);

	a->request = 0;
	if (r == 0) {
		a->failures = 0;
		return 0;
	}
	/* Servers before 3.0 know another path, and may say 403 of one that they do not know. */
	if (event->error == 0)
		a->old_path = !a->old_path;
	if (a->failures < UINT_MAX)
		a->failures++;
	a->due_usec = now_usec +
			(a->failures == 1 && event->error == 0
							? 0
							: retry_delay_usec(random, a->failures));
	return r;
}

int access_login_now(struct access *a, uint64_t now_usec, struct usher_error *reterr)
{
	uint64_t random = retry_seed();
	int r = 0;

	for (unsigned i = 0; i < 2; i++) {
		cleanup(form_done) struct form path = { 0 };
		cleanup(forget_form) struct form body = { 0 };
		struct usher_http_event event = USHER_HTTP_EVENT_INIT;
		struct usher_http_request request;
		struct usher_error why = { 0 };

		r = write_login(a, &path, &body, reterr);
		if (r < 0)
			return r;
		fill_login(a, &path, &body, &request);
		(void) usher_http_do(a->http, &request, &event, NULL);
		r = access_take_login(a, &event, now_usec, &random, &why);
		if (r == 0)
			return 0;
		/* Of the two paths, the one that is known says why. */
		if (i == 0 || r == -EACCES)
			(void) usher_error_set(reterr, r, "%s", usher_error_text(&why, r));
	}
	return r;
}

bool access_was_denied(struct access *a, unsigned serial, uint64_t now_usec)
{
	if (!logs_in(a))
		return false;
	if (!a->token || serial != a->serial)
		return true;
	if (now_usec - a->since_usec < TOKEN_YOUNG_USEC)
		return false;
	forget_token(a);
	return true;
}

/* ---- requests ---- */

bool access_is_no_path(const struct usher_http_event *event)
{
	if (event->error != 0)
		return false;
	if (event->status == 404)
		return !reply_is_envelope(event->data, event->data_size);
	return event->status == 405 || event->status == 410 || event->status == 501;
}

bool access_lacks_api(struct access *a, enum nacos_api api)
{
	if (a->nacos->api != NACOS_CHOOSE_AUTO)
		return false;
	/* Of many requests under way, the first that is told so changes it for all. */
	if (a->api == api)
		a->api = api == NACOS_API_1 ? NACOS_API_3 : NACOS_API_1;
	return true;
}

void access_path(const struct access *a, struct form *f, const char *v1, const char *v3)
{
	form_start(f, a->nacos->context_path);
	form_put(f, a->api == NACOS_API_1 ? "/v1/ns/" : "/v3/");
	form_put(f, a->api == NACOS_API_1 ? v1 : v3);
}

void access_add_service(const struct access *a, struct form *f, const char *name)
{
	const char *separator = strstr(name, GROUP_SEPARATOR);
	const char *service = separator ? separator + strlen(GROUP_SEPARATOR) : name;
	autofree char *group = separator ? strndup(name, (size_t) (separator - name))
					 : strdup(a->nacos->group);
	autofree char *both = NULL;

	if (!group || asprintf(&both, "%s" GROUP_SEPARATOR "%s", group, service) < 0) {
		both = NULL;
		form_done(f);
		return;
	}
	form_add(f, "namespaceId", a->nacos->namespace_id);
	form_add(f, "serviceName", a->api == NACOS_API_1 ? both : service);
	if (a->api == NACOS_API_3)
		form_add(f, "groupName", group);
}

struct headers {
	char *token, *agent;
	const char *lines[4];
};

static int write_headers(const struct access *a, bool body, struct headers *ret)
{
	size_t count = 0;

	*ret = (struct headers){ 0 };
	if (a->token) {
		if (asprintf(&ret->token, "Authorization: Bearer %s", a->token) < 0)
			return ret->token = NULL, -ENOMEM;
		ret->lines[count++] = ret->token;
	}
	if (body)
		ret->lines[count++] = form_headers[0];
	if (a->agent) {
		if (asprintf(&ret->agent, "User-Agent: %s", a->agent) < 0)
			return ret->agent = NULL, -ENOMEM;
		ret->lines[count++] = ret->agent;
	}
	return 0;
}

static void headers_done(struct headers *h)
{
	if (h->token)
		explicit_bzero(h->token, strlen(h->token));
	free(h->token);
	free(h->agent);
}

static int fill(const struct access *a, struct usher_http_request *request, const struct form *path,
		const struct form *body, struct headers *headers)
{
	if (!form_is_whole(path) || (body && !form_is_whole(body)) ||
			write_headers(a, body, headers) < 0)
		return -ENOMEM;
	request->size = sizeof(*request);
	request->path = path->text;
	request->headers = headers->lines;
	if (body) {
		request->body = body->text;
		request->body_size = strlen(body->text);
	}
	return 0;
}

int access_start(struct access *a, struct usher_http_request *request, const struct form *path,
		const struct form *body, uint64_t *ret_id)
{
	cleanup(headers_done) struct headers headers = { 0 };
	int r = fill(a, request, path, body, &headers);

	return r < 0 ? r : usher_http_start(a->http, request, ret_id);
}

int access_do(struct access *a, struct usher_http_request *request, const struct form *path,
		const struct form *body, struct usher_http_event *ret, struct usher_error *reterr)
{
	cleanup(headers_done) struct headers headers = { 0 };
	int r = fill(a, request, path, body, &headers);

	if (r < 0)
		return usher_error_set(reterr, r, "out of memory");
	return usher_http_do(a->http, request, ret, reterr);
}
