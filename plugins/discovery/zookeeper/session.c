#include "session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "own.h"
#include "retry.h"
#include "session-private.h"

#define WATCH_BYTES  ((size_t) 128 * 1024) /* of paths in one request: far below jute.maxbuffer */
#define REFUSAL_SIZE 16                    /* of the header of an answer: no greeting is as short */

/* ---- requests ---- */

static struct request *request_free(struct request *r)
{
	if (r)
		free(r->path);
	free(r);
	return NULL;
}

void session_forget_requests(struct zk_session *s)
{
	s->writing = request_free(s->writing);
	s->answered = request_free(s->answered);
	while (s->requests) {
		struct request *r = s->requests;

		s->requests = r->next;
		(void) request_free(r);
	}
	s->last_request = &s->requests;
	s->unanswered = 0;
}

struct jute_out *zk_session_begin(struct zk_session *s, enum zk_op op, const char *path, void *tag)
{
	struct request *r;

	if (s->phase != PHASE_OPEN || s->lost < 0)
		return NULL;
	r = calloc(1, sizeof(*r));
	if (r)
		r->path = strdup(path);
	if (!r || !r->path) {
		free(r);
		return NULL;
	}
	s->last_xid = s->last_xid == INT32_MAX ? 1 : s->last_xid + 1;
	r->xid = s->last_xid;
	r->op = op;
	r->tag = tag;
	s->writing = request_free(s->writing);
	s->writing = r;
	s->out_at = s->out.size;
	zk_put_header(&s->out, r->xid, op);
	return &s->out;
}

int zk_session_send(struct zk_session *s)
{
	struct request *r = take(s->writing);
	bool is_long = s->out.size - s->out_at > ZK_REQUEST_MAX;

	if (s->out.failed || is_long) {
		if (s->out.failed)
			zk_session_lose(s, -ENOMEM, "out of memory");
		s->out.size = s->out_at;
		(void) request_free(r);
		return is_long ? -EMSGSIZE : -ENOMEM;
	}
	zk_end_frame(&s->out, s->out_at);
	r->sent_usec = s->said_usec = retry_now_usec();
	*s->last_request = r;
	s->last_request = &r->next;
	s->unanswered++;
	return 0;
}

int zk_session_read(struct zk_session *s, enum zk_op op, const char *path, bool watch, void *tag)
{
	struct jute_out *out = zk_session_begin(s, op, path, tag);

	if (!out)
		return s->phase == PHASE_OPEN ? -ENOMEM : -ENOTCONN;
	zk_put_read(out, path, watch);
	s->writing->is_watched = watch;
	return zk_session_send(s);
}

int zk_session_sync(struct zk_session *s, const char *path)
{
	struct jute_out *out = zk_session_begin(s, ZK_SYNC, path, NULL);

	if (!out)
		return s->phase == PHASE_OPEN ? -ENOMEM : -ENOTCONN;
	jute_put_text(out, path);
	return zk_session_send(s);
}

void zk_session_forget(struct zk_session *s, const void *tag)
{
	for (struct request *r = s->requests; r; r = r->next)
		if (r->tag == tag)
			r->tag = NULL;
}

/* As many of the row as there is room for. */
static void put_paths(struct jute_out *out, const char *const **paths, size_t *count, size_t limit)
{
	size_t at = out->size;
	int32_t written = 0;

	jute_put_int(out, 0);
	for (; *count > 0 && out->size < limit && !out->failed; (*count)--, written++)
		jute_put_text(out, *(*paths)++);
	jute_set_int(out, at, written);
}

int zk_session_watch_again(struct zk_session *s, const char *const *data, size_t data_count,
		const char *const *exist, size_t exist_count, const char *const *children,
		size_t children_count)
{
	while (data_count + exist_count + children_count > 0) {
		size_t at = s->out.size, limit = at + WATCH_BYTES;

		zk_put_header(&s->out, ZK_XID_SET_WATCHES, ZK_SET_WATCHES);
		jute_put_long(&s->out, s->zxid);
		put_paths(&s->out, &data, &data_count, limit);
		put_paths(&s->out, &exist, &exist_count, limit);
		put_paths(&s->out, &children, &children_count, limit);
		if (s->out.failed) {
			zk_session_lose(s, -ENOMEM, "out of memory");
			return -ENOMEM;
		}
		zk_end_frame(&s->out, at);
	}
	return 0;
}

static void send_secret(struct zk_session *s)
{
	size_t at = s->out.size;

	if (!s->secret)
		return;
	zk_put_header(&s->out, ZK_XID_AUTH, ZK_AUTH);
	zk_put_auth(&s->out, "digest", s->secret);
	zk_end_frame(&s->out, at);
}

void session_send_ping(struct zk_session *s)
{
	size_t at = s->out.size;

	zk_put_header(&s->out, ZK_XID_PING, ZK_PING);
	zk_end_frame(&s->out, at);
	s->said_usec = retry_now_usec();
}

int zk_session_set_secret(struct zk_session *s, const char *secret)
{
	cleanup(own_free_secret) char *copy = secret ? strdup(secret) : NULL;

	if (secret && !copy)
		return -ENOMEM;
	own_free_secret(&s->secret);
	s->secret = take(copy);
	if (s->phase == PHASE_OPEN)
		send_secret(s);
	return 0;
}

/* ---- events ---- */

/* The next whole message: 1, or 0 when there is none yet. */
static int next_frame(struct zk_session *s, struct jute_in *ret)
{
	struct jute_in in = { .size = s->in_size - s->in_at };
	int32_t size;

	if (in.size < 4)
		return 0;
	in.data = s->in + s->in_at;
	size = jute_get_int(&in);
	if (size < 0 || (size_t) size > ZK_FRAME_MAX) {
		s->in_at = s->in_size;
		zk_session_lose(s, -EMSGSIZE,
				"it sends a message of a length that is none, or more than 16 MiB; "
				"is it a ZooKeeper?");
		return 0;
	}
	if (in.size - 4 < (size_t) size)
		return 0;
	*ret = (struct jute_in){ .data = in.data + 4, .size = (size_t) size };
	s->in_at += 4 + (size_t) size;
	return 1;
}

static void nonsense(struct zk_session *s)
{
	s->in_at = s->in_size;
	zk_session_lose(s, -EBADMSG, "what it says makes no sense; is it a ZooKeeper?");
}

/* It has ended; the same server is asked for a new one. */
static void session_has_expired(struct zk_session *s)
{
	bool had_one = s->granted.session != 0;

	explicit_bzero(&s->granted, sizeof(s->granted));
	if (!had_one) {
		zk_session_lose(s, -EBADMSG, "it opens no session");
		return;
	}
	session_close_connection(s);
	s->retry_usec = 0;
}

/* A server that is read-only and knows no sessions of its own says so as if it had been asked. */
static void refused(struct zk_session *s, struct jute_in *in)
{
	struct usher_error why = { 0 };
	struct zk_header header;
	int r;

	zk_get_header(in, &header);
	r = zk_code_error(header.code, "it opens no session", &why);
	zk_session_lose(s, r, why.text);
}

static void take_greeting(struct zk_session *s, struct jute_in *in)
{
	struct zk_greeting greeting;

	if (in->size == REFUSAL_SIZE) {
		refused(s, in);
		return;
	}
	if (zk_get_greeting(in, &greeting) < 0) {
		nonsense(s);
		return;
	}
	if (greeting.timeout_ms <= 0 || greeting.session == 0) {
		session_has_expired(s);
		return;
	}
	s->is_read_only = greeting.read_only;
	s->is_new = greeting.read_only || greeting.session != s->granted.session;
	s->timeout_ms = greeting.timeout_ms;
	/* A server without a majority knows no sessions: the one that there was goes on elsewhere.
	 */
	if (!greeting.read_only)
		s->granted = greeting;
	s->phase = PHASE_OPEN;
	s->heard_usec = s->said_usec = s->began_usec = retry_now_usec();
	s->refusals = 0;
	s->refused_usec = 0;
	s->greeted = true;
	send_secret(s);
}

static bool tell_greeting(struct zk_session *s, struct zk_event *ret)
{
	s->greeted = false;
	*ret = (struct zk_event){ .kind = ZK_CONNECTED,
		.is_new = s->is_new,
		.is_read_only = s->is_read_only,
		.is_doubtful = s->is_doubtful,
		.path = "" };
	s->is_doubtful = false;
	return true;
}

/* Whether the connection was good for something and outlasted the wait before it. One that did not
 * last is no success: the server may answer, and be in error with what is asked next, each time. */
static bool has_lasted(const struct zk_session *s)
{
	return s->has_answered && retry_now_usec() - s->began_usec > retry_window_usec(s->failures);
}

static bool tell_loss(struct zk_session *s, struct zk_event *ret)
{
	unsigned steps;

	if (has_lasted(s))
		s->failures = 0;
	*ret = (struct zk_event){ .kind = ZK_LOST, .code = s->lost, .path = "" };
	(void) usher_error_set(&ret->why, s->lost, "%s", s->lost_text);
	session_close_connection(s);
	s->failures++;
	ret->is_last = s->failures >= s->servers;
	/* While there are servers that have not been asked, one after the other is. */
	steps = ret->is_last ? s->failures - (unsigned) s->servers + 1 : 1;
	if (steps > s->config.backoff_steps)
		steps = s->config.backoff_steps;
	s->retry_usec = retry_now_usec() + retry_delay_usec(&s->random, steps);
	s->server = (s->server + 1) % s->servers;
	return true;
}

static bool tell_change(struct zk_session *s, struct jute_in *in, struct zk_event *ret)
{
	int32_t change = jute_get_int(in);
	const char *path;
	size_t size;

	(void) jute_get_int(in);
	path = jute_get_bytes(in, &size);
	if (in->failed) {
		nonsense(s);
		return false;
	}
	s->answered = request_free(s->answered);
	s->answered = calloc(1, sizeof(*s->answered));
	if (s->answered)
		s->answered->path = strndup(path ? path : "", size);
	if (!s->answered || !s->answered->path) {
		zk_session_lose(s, -ENOMEM, "out of memory");
		return false;
	}
	*ret = (struct zk_event){
		.kind = ZK_CHANGED, .change = (enum zk_change) change, .path = s->answered->path
	};
	return true;
}

static bool tell_reply(struct zk_session *s, const struct zk_header *header, struct jute_in *in,
		struct zk_event *ret)
{
	struct request *r = s->requests;

	if (!r || r->xid != header->xid) {
		nonsense(s);
		return false;
	}
	s->requests = r->next;
	if (!s->requests)
		s->last_request = &s->requests;
	s->unanswered--;
	s->answered = request_free(s->answered);
	s->answered = r;
	s->has_answered = true;
	*ret = (struct zk_event){ .kind = ZK_REPLY,
		.op = r->op,
		.tag = r->tag,
		.is_watched = r->is_watched,
		.error = header->code,
		.is_behind = header->zxid > 0 && header->zxid < s->zxid,
		.body = *in,
		.sent_usec = r->sent_usec,
		.path = r->path };
	if (header->zxid > 0)
		s->zxid = header->zxid;
	return true;
}

/* True: it is an event. */
static bool take_message(struct zk_session *s, struct jute_in *in, struct zk_event *ret)
{
	struct zk_header header;

	zk_get_header(in, &header);
	if (in->failed) {
		nonsense(s);
		return false;
	}
	switch (header.xid) {
	case ZK_XID_WATCH:
		return tell_change(s, in, ret);
	case ZK_XID_AUTH:
		if (header.code != ZK_OK)
			zk_session_lose(s, -EACCES, "it does not take user and password (digest)");
		return false;
	case ZK_XID_SET_WATCHES:
		if (header.code != ZK_OK)
			zk_session_lose(s, -EIO, "it does not watch again what was watched");
		return false;
	case ZK_XID_PING:
		return false;
	default:
		return tell_reply(s, &header, in, ret);
	}
}

bool zk_session_next(struct zk_session *s, struct zk_event *ret)
{
	struct jute_in in;

	if (s->greeted)
		return tell_greeting(s, ret);
	while (next_frame(s, &in) > 0) {
		if (s->phase == PHASE_GREETING) {
			take_greeting(s, &in);
			if (s->greeted)
				return tell_greeting(s, ret);
		} else if (take_message(s, &in, ret)) {
			return true;
		}
	}
	return s->lost < 0 && tell_loss(s, ret);
}

/* ---- whole ---- */

const char *zk_session_server(const struct zk_session *s)
{
	return s->config.servers[s->server];
}

bool zk_session_is_open(const struct zk_session *s)
{
	return s->phase == PHASE_OPEN && s->lost == 0;
}

int64_t zk_session_id(const struct zk_session *s)
{
	return s->granted.session;
}

int64_t zk_session_zxid(const struct zk_session *s)
{
	return s->zxid;
}

size_t zk_session_unanswered(const struct zk_session *s)
{
	return s->unanswered;
}

struct zk_session *zk_session_new(const struct zk_session_config *config)
{
	struct zk_session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->config = *config;
	s->fd = -1;
	s->last_request = &s->requests;
	s->random = retry_seed();
	while (config->servers[s->servers])
		s->servers++;
	s->server = (size_t) (retry_random(&s->random) % s->servers);
	return s;
}

struct zk_session *zk_session_free(struct zk_session *s, bool polite)
{
	if (!s)
		return NULL;
	if (polite && s->phase == PHASE_OPEN && s->lost == 0) {
		size_t at = s->out.size;

		zk_put_header(&s->out, 0, ZK_CLOSE);
		zk_end_frame(&s->out, at);
		session_flush(s);
	}
	session_close_connection(s);
	jute_out_done(&s->out);
	own_free_secret(&s->secret);
	explicit_bzero(&s->granted, sizeof(s->granted));
	free(s->in);
	free(s);
	return NULL;
}
