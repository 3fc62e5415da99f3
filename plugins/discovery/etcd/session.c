#include "session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "own-json.h"
#include "password.h"

int etcd_session_open(struct etcd_session *s, const struct etcd *etcd, struct usher_source *source,
		struct usher_error *reterr)
{
	const struct usher_http_config config = {
		.size = sizeof(config),
		.options = &etcd->http,
		.auth = etcd->http.user ? USHER_HTTP_AUTH_NONE : USHER_HTTP_AUTH_TOKEN,
		.token_header = "Authorization",
	};

	s->etcd = etcd;
	return usher_http_new(source, &config, &s->http, reterr);
}

void etcd_session_forget_token(struct etcd_session *s)
{
	own_free_secret(&s->authorization);
}

void etcd_session_close(struct etcd_session *s)
{
	s->http = usher_http_free(s->http);
	etcd_session_forget_token(s);
}

bool etcd_session_needs_token(const struct etcd_session *s)
{
	return s->etcd->http.user && !s->authorization;
}

/* ---- the password ---- */

static int read_password(const struct etcd *etcd, char **ret, struct usher_error *reterr)
{
	const struct usher_http_options *o = &etcd->http;
	cleanup(own_free_secret) char *text =
			o->password ? strdup(o->password) : calloc(1, PASSWORD_MAX);
	int r = 0;

	if (!text)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	if (!o->password)
		r = password_read(o->password_file, text, reterr);
	if (r == 0)
		*ret = take(text);
	return r;
}

/* ---- requests ---- */

int etcd_session_start(struct etcd_session *s, const char *path, char *body, bool watch, void *tag,
		uint64_t *ret_id)
{
	autofree char *owned = body;
	const char *headers[4] = { "Content-Type: application/json" };
	size_t count = 1;
	struct usher_http_request request = {
		.size = sizeof(request),
		.method = "POST",
		.path = path,
		.headers = headers,
		.body = body,
		.flags = watch ? USHER_HTTP_STREAM : 0,
		.timeout_usec = watch ? 0 : ETCD_LINEAR_USEC,
		.tag = tag,
	};

	if (!owned)
		return -ENOMEM;
	request.body_size = strlen(body);
	if (s->authorization)
		headers[count++] = s->authorization;
	/* A member without a leader then ends the watch, which it would hold open for ever. */
	if (watch)
		headers[count] = "Grpc-Metadata-hasleader: true";
	return usher_http_start(s->http, &request, ret_id);
}

/* Whether another member would say the same: etcd's word, or a failure of ours. */
static bool is_final(int r, int code)
{
	if (r == -ENOMEM || r == -EACCES || r == -ECANCELED)
		return true;
	return code != 0 && r != -EAGAIN && r != -EIO && r != -ETIMEDOUT;
}

static int ask(struct etcd_session *s, const char *path, const char *body, json_t **ret,
		int *ret_code, struct usher_error *reterr)
{
	const char *const headers[] = { "Content-Type: application/json", s->authorization, NULL };
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	const struct usher_http_request request = {
		.size = sizeof(request),
		.method = "POST",
		.path = path,
		.headers = headers,
		.body = body,
		.body_size = strlen(body),
		.timeout_usec = ETCD_WRITE_USEC,
	};
	int r;

	*ret_code = 0;
	r = usher_http_do(s->http, &request, &event, reterr);
	if (r == 0)
		r = etcd_answer_read(&event, ret, ret_code, reterr);
	if (r < 0 && !is_final(r, *ret_code))
		usher_http_leave(s->http, event.server);
	return r;
}

int etcd_session_authenticate(struct etcd_session *s, struct usher_error *reterr)
{
	cleanup(own_free_secret) char *password = NULL;
	cleanup(own_free_secret) char *body = NULL;
	autojson json_t *answer = NULL;
	const char *token;
	int code, r;

	etcd_session_forget_token(s);
	r = read_password(s->etcd, &password, reterr);
	if (r < 0)
		return r;
	body = etcd_authenticate_request(s->etcd->http.user, password);
	if (!body) /* what is no UTF-8 cannot be said in JSON */
		return usher_error_set(reterr, -EINVAL, "the password is no UTF-8");
	r = ask(s, "/v3/auth/authenticate", body, &answer, &code, reterr);
	if (r < 0 && code == ETCD_INVALID_ARGUMENT && reterr)
		return usher_error_set(reterr, -EACCES,
				"etcd does not know the user %.100s with this password",
				s->etcd->http.user);
	if (r < 0)
		return r;
	token = json_string_value(json_object_get(answer, "token"));
	if (!token || strpbrk(token, "\r\n"))
		return usher_error_set(reterr, -EBADMSG, "etcd gave no token for the password");
	if (asprintf(&s->authorization, "Authorization: %s", token) < 0) {
		s->authorization = NULL;
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	}
	return 0;
}

int etcd_session_do(struct etcd_session *s, const char *path, char *body, json_t **ret,
		struct usher_error *reterr)
{
	autofree char *owned = body;
	size_t servers = 0;
	int r = -EAGAIN, code = 0;

	if (!owned)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	while (s->etcd->http.servers[servers])
		servers++;
	/* Each member once, and once more for a token that has run out. */
	for (size_t i = 0; i <= servers; i++) {
		struct usher_error why = { 0 };

		r = etcd_session_needs_token(s) ? etcd_session_authenticate(s, &why) : 0;
		if (r == 0)
			r = ask(s, path, body, ret, &code, &why);
		if (r >= 0)
			return 0;
		if (reterr)
			*reterr = why;
		if (r == -EACCES && s->etcd->http.user && etcd_wants_token(code, why.text))
			etcd_session_forget_token(s);
		else if (is_final(r, code))
			break;
	}
	return r;
}
