#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <usher/client.h>

#include "api-problem.h"
#include "backoff.h"
#include "boot-clock.h"
#include "choice.h"
#include "client-private.h"
#include "followed-directory.h"
#include "ownership.h"
#include "path-segment.h"
#include "random-value.h"
#include "time-limit.h"
#include "transfer.h"
#include "watch-line.h"

#define LOOK_MIN_USEC    UINT64_C(250000)
#define LOOK_MAX_USEC    UINT64_C(5000000)
#define LOOKS_PER_AGE    30
#define SILENCE_MIN_USEC UINT64_C(1000000)
#define ACK_TIMEOUT_USEC UINT64_C(2000000)

struct usher_follower {
	char *service;
	struct usher_client *client;
	struct usher_client *ack_client; /* a stream's connection cannot carry a call */
	struct backoff backoff;          /* the thread's own, as all that comes before the lock */
	uint64_t acked; /* revision, on this stream; UINT64_MAX: the daemon takes none */
	pthread_t thread;
	bool started;
	bool resume; /* the directory is whole: a new stream may go on from its revision */

	pthread_mutex_t lock;   /* for everything below */
	pthread_cond_t changed; /* of CLOCK_MONOTONIC */
	bool stop, has_directory, connected;
	struct followed_directory directory;
	uint64_t revision;
	struct watch_freshness freshness;
	bool panic;            /* as the last line says */
	uint64_t written_usec; /* what the freshness said was true no earlier than this */
	uint64_t heard_usec;
	struct usher_error error;
};

/* Locked. */
static uint64_t follower_age_usec(const struct usher_follower *f)
{
	uint64_t since = boot_clock_usec() - f->written_usec;

	if (f->freshness.age_usec > UINT64_MAX - since)
		return UINT64_MAX;
	return f->freshness.age_usec + since;
}

/* The daemon is silent for a third of max_age at most; a follower looks oftener, so that it knows
 * well when what it reads was written. */
static void follower_set_look(struct usher_follower *f, const struct watch_freshness *freshness)
{
	uint64_t look = freshness->max_age_usec / LOOKS_PER_AGE;

	if (look < LOOK_MIN_USEC)
		look = LOOK_MIN_USEC;
	if (look > LOOK_MAX_USEC)
		look = LOOK_MAX_USEC;
	transfer_set_look_usec(client_transfer(f->client), look);
}

/* Locked. */
static void follower_note_freshness(struct usher_follower *f, const struct watch_line *line)
{
	f->revision = line->revision;
	f->freshness = line->freshness;
	f->panic = line->panic;
	f->written_usec = transfer_quiet_usec(client_transfer(f->client));
	(void) pthread_cond_broadcast(&f->changed);
}

/* Locked. */
static int follower_apply(struct usher_follower *f, const struct watch_line *line)
{
	int r;

	switch (line->type) {
	case WATCH_SNAPSHOT:
		r = followed_directory_replace(&f->directory, line, random_value());
		if (r < 0)
			return usher_error_prefix(&f->error, r, "cannot keep the directory of %s",
					f->service);
		f->has_directory = true;
		f->resume = true;
		follower_note_freshness(f, line);
		return 0;
	case WATCH_UPDATE:
		if (!f->has_directory)
			return usher_error_set(&f->error, -EBADMSG,
					"the watch of %s began with an update", f->service);
		r = followed_directory_update(&f->directory, line, random_value());
		if (r < 0)
			return usher_error_prefix(&f->error, r, "cannot keep the directory of %s",
					f->service);
		follower_note_freshness(f, line);
		return 0;
	case WATCH_BOOKMARK:
		if (f->has_directory)
			follower_note_freshness(f, line);
		return 0;
	case WATCH_END:
		return usher_error_set(&f->error, -ESHUTDOWN, "usherd ended the watch of %s: %s",
				f->service, line->code ? line->code : "it did not say why");
	case WATCH_RESYNC:
	case WATCH_OTHER:
		return 0;
	}
	return 0;
}

/* Tell the daemon what picks go by now: that the line has left the socket does not say that it was
 * applied. One that fails is made good by the next line. */
static void follower_ack(struct usher_follower *f)
{
	cleanup(json_decrefp) json_t *body = NULL;
	autofree char *text = NULL, *answer = NULL;
	int r;

	if (!f->resume || f->acked == f->revision || f->acked == UINT64_MAX)
		return;
	body = json_pack("{s:s, s:I}", "service", f->service, "revision", (json_int_t) f->revision);
	text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	if (!text)
		return;
	r = usher_client_call(f->ack_client, "PUT", "/v1/consumers/self/ack", text, &answer, NULL);
	if (r == 204)
		f->acked = f->revision;
	else if (r == 404 || r == 405)
		f->acked = UINT64_MAX;
}

/* A line that makes no sense ends the stream, and the next one starts with a snapshot: what was
 * applied before it stays. */
static int follower_on_line(void *userdata, const char *text, size_t length)
{
	cleanup(watch_line_done) struct watch_line line = {};
	struct usher_follower *f = userdata;
	struct usher_error error = {};
	int r;

	r = watch_line_parse(text, length, &line, &error);
	(void) pthread_mutex_lock(&f->lock);
	if (f->stop) {
		r = -EINTR;
	} else if (r < 0) {
		(void) usher_error_prefix(&error, r, "the watch of %s", f->service);
		f->error = error;
		f->resume = false;
	} else {
		f->heard_usec = boot_clock_usec();
		f->connected = true;
		f->error = (struct usher_error){};
		r = follower_apply(f, &line);
		if (r < 0 && r != -ESHUTDOWN)
			f->resume = false;
	}
	(void) pthread_mutex_unlock(&f->lock);
	if (r < 0)
		return r;
	backoff_reset(&f->backoff);
	follower_ack(f);
	if (line.type == WATCH_SNAPSHOT || line.type == WATCH_BOOKMARK)
		follower_set_look(f, &line.freshness);
	return 0;
}

/* One stream, from its opening to its end. */
static void follower_stream(struct usher_follower *f, const char *escaped)
{
	char path[PATH_SEGMENT_MAX + 96], revision[32] = "";
	autofree char *body = NULL;
	struct usher_error error = {};
	int r;

	f->acked = 0;
	if (f->resume && f->revision > 0)
		(void) snprintf(revision, sizeof(revision), "&revision=%" PRIu64, f->revision);
	(void) snprintf(path, sizeof(path), "/v1/services/%s/endpoints?watch=true%s", escaped,
			revision);
	r = usher_client_stream(f->client, path, follower_on_line, f, &body, &error);
	if (r == 200)
		(void) usher_error_set(
				&error, -ECONNRESET, "usherd ended the watch of %s", f->service);
	else if (r > 0)
		(void) problem_to_error(r, body, &error);

	(void) pthread_mutex_lock(&f->lock);
	f->connected = false;
	if (error.code != 0) /* else the stream ended for what its last line said */
		f->error = error;
	(void) pthread_cond_broadcast(&f->changed);
	(void) pthread_mutex_unlock(&f->lock);
}

/* Returns whether to go on. */
static bool follower_pause(struct usher_follower *f)
{
	struct timespec until = time_limit_after(backoff_next_usec(&f->backoff, random_value()));
	bool stop;
	int r = 0;

	(void) pthread_mutex_lock(&f->lock);
	while (!f->stop && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&f->changed, &f->lock, &until);
	stop = f->stop;
	(void) pthread_mutex_unlock(&f->lock);
	return !stop;
}

static bool follower_stopped(struct usher_follower *f)
{
	bool stop;

	(void) pthread_mutex_lock(&f->lock);
	stop = f->stop;
	(void) pthread_mutex_unlock(&f->lock);
	return stop;
}

static void *follower_run(void *userdata)
{
	struct usher_follower *f = userdata;
	char escaped[PATH_SEGMENT_MAX];

	(void) path_segment_write(f->service, escaped, sizeof(escaped)); /* checked by new */
	do {
		if (follower_stopped(f))
			break;
		follower_stream(f, escaped);
	} while (follower_pause(f));
	return NULL;
}

/* The application's signals are not the thread's. */
static int follower_start(struct usher_follower *f)
{
	sigset_t all, before;
	int r;

	(void) sigfillset(&all);
	(void) pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&f->thread, NULL, follower_run, f);
	(void) pthread_sigmask(SIG_SETMASK, &before, NULL);
	f->started = r == 0;
	return r == 0 ? 0 : -EAGAIN;
}

static void follower_init_lock(struct usher_follower *f)
{
	pthread_condattr_t attributes;

	(void) pthread_mutex_init(&f->lock, NULL);
	(void) pthread_condattr_init(&attributes);
	(void) pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	(void) pthread_cond_init(&f->changed, &attributes);
	(void) pthread_condattr_destroy(&attributes);
}

int usher_follower_new(const char *socket, const char *name, const char *service,
		struct usher_follower **ret, struct usher_error *reterr)
{
	char escaped[PATH_SEGMENT_MAX];
	struct usher_follower *f;
	int r;

	if (!service || !*service || !ret || !path_segment_write(service, escaped, sizeof(escaped)))
		return usher_error_set(reterr, -EINVAL,
				"a follower needs the name of a service, of %d bytes at most",
				USHER_TEXT_MAX);
	f = calloc(1, sizeof(*f));
	if (!f)
		return usher_error_prefix(reterr, -ENOMEM, "cannot follow %s", service);
	follower_init_lock(f);
	f->service = strdup(service);
	f->client = usher_client_new(socket, name);
	f->ack_client = usher_client_new(socket, name);
	if (f->ack_client)
		usher_client_set_timeout(f->ack_client, ACK_TIMEOUT_USEC);
	r = f->service && f->client && f->ack_client ? follower_start(f) : -ENOMEM;
	if (r < 0) {
		usher_follower_free(f);
		return usher_error_prefix(reterr, r, "cannot follow %s", service);
	}
	*ret = f;
	return 0;
}

struct usher_follower *usher_follower_free(struct usher_follower *follower)
{
	if (!follower)
		return NULL;
	if (follower->started) {
		(void) pthread_mutex_lock(&follower->lock);
		follower->stop = true;
		(void) pthread_cond_broadcast(&follower->changed);
		(void) pthread_mutex_unlock(&follower->lock);
		usher_client_interrupt(follower->client);
		usher_client_interrupt(follower->ack_client);
		(void) pthread_join(follower->thread, NULL);
	}
	usher_client_free(follower->client);
	usher_client_free(follower->ack_client);
	followed_directory_done(&follower->directory);
	(void) pthread_cond_destroy(&follower->changed);
	(void) pthread_mutex_destroy(&follower->lock);
	free(follower->service);
	free(follower);
	return NULL;
}

int usher_follower_wait(struct usher_follower *follower, uint64_t revision, uint64_t timeout_usec)
{
	struct timespec until = {};
	bool there;
	int r = 0;

	if (timeout_usec != UINT64_MAX)
		until = time_limit_after(timeout_usec);
	(void) pthread_mutex_lock(&follower->lock);
	for (;;) {
		there = follower->has_directory && follower->revision >= revision;
		if (there || r == ETIMEDOUT)
			break;
		if (timeout_usec == UINT64_MAX)
			r = pthread_cond_wait(&follower->changed, &follower->lock);
		else
			r = pthread_cond_timedwait(&follower->changed, &follower->lock, &until);
	}
	(void) pthread_mutex_unlock(&follower->lock);
	return there ? 0 : -ETIMEDOUT;
}

int usher_follower_pick(struct usher_follower *follower, struct usher_choice *ret)
{
	const struct followed_endpoint *endpoint;
	struct usher_choice choice;

	if (!follower || !ret)
		return -EINVAL;
	(void) pthread_mutex_lock(&follower->lock);
	endpoint = follower->has_directory ? followed_directory_turn(&follower->directory) : NULL;
	if (endpoint) {
		memcpy(choice.id, endpoint->id, strlen(endpoint->id) + 1);
		memcpy(choice.address, endpoint->address, strlen(endpoint->address) + 1);
		choice.port = endpoint->port;
		choice.secure = endpoint->secure;
		choice.revision = follower->revision;
		choice.age_usec = follower_age_usec(follower);
		choice.stale = follower->freshness.stale ||
				choice.age_usec > follower->freshness.max_age_usec;
		choice.panic = follower->panic;
	}
	(void) pthread_mutex_unlock(&follower->lock);
	if (!endpoint)
		return -EAGAIN;
	choice_copy(&choice, ret);
	return 0;
}

bool usher_follower_connected(struct usher_follower *follower)
{
	uint64_t silence;
	bool connected;

	(void) pthread_mutex_lock(&follower->lock);
	silence = follower->freshness.max_age_usec > SILENCE_MIN_USEC
			? follower->freshness.max_age_usec
			: SILENCE_MIN_USEC;
	connected = follower->connected && boot_clock_usec() - follower->heard_usec <= silence;
	(void) pthread_mutex_unlock(&follower->lock);
	return connected;
}

int usher_follower_error(struct usher_follower *follower, struct usher_error *ret)
{
	struct usher_error error;
	bool connected;

	(void) pthread_mutex_lock(&follower->lock);
	error = follower->error;
	connected = follower->connected;
	(void) pthread_mutex_unlock(&follower->lock);
	if (connected || error.code == 0)
		return 0;
	if (ret)
		*ret = error;
	return error.code;
}
