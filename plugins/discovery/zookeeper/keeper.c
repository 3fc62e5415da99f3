#include "keeper.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>

#include "own.h"
#include "registration.h"
#include "retry.h"
#include "zookeeper.h"

#define BACKOFF_STEPS 4 /* 1.6 s: longer, and the session would be lost for nothing */
#define IDLE_USEC     UINT64_C(3600000000)

struct job {
	zk_job run;
	void *userdata;
	int r;
	bool is_done;
	struct usher_error why;
};

struct zk_keeper {
	const struct zookeeper *z;
	pthread_t thread;
	int wake_fd;

	pthread_mutex_t lock;
	pthread_cond_t more;
	struct job *job; /* what is to be done, or is being done */
	bool stopping;

	/* Of the thread. */
	struct zk_session *session;
	uint64_t random;
	char *secret;
	bool is_open;
	int lost; /* why it is not, as a negative errno */
	struct usher_error lost_why;
	uint64_t until_usec; /* of the job */
	bool is_asked;
	struct zk_answer answer;
	struct zk_registration *registrations;
	size_t count;
	bool is_new; /* some of them may not be in the session */
	unsigned failures;
	uint64_t retry_usec;
};

void zk_answer_done(struct zk_answer *answer)
{
	free(answer->data);
	*answer = (struct zk_answer){ 0 };
}

/* ---- the session ---- */

static void read_answer(struct zk_keeper *k, struct zk_event *event)
{
	struct zk_answer *a = &k->answer;

	*a = (struct zk_answer){ .code = event->error };
	if (event->error == ZK_OK && event->op == ZK_GET_DATA) {
		const char *data = jute_get_bytes(&event->body, &a->size);

		a->data = data ? strndup(data, a->size) : NULL;
		if (data && (!a->data || strlen(a->data) != a->size))
			a->size = 0; /* no text: nothing that can be understood */
		zk_get_stat(&event->body, &a->stat);
	} else if (event->error == ZK_OK && event->op == ZK_MULTI) {
		a->code = zk_get_multi(&event->body);
	}
	if (event->body.failed) {
		zk_answer_done(a);
		zk_session_lose(k->session, -EBADMSG, "what it answers is garbled");
		return;
	}
	k->is_asked = false;
}

static void take_event(struct zk_keeper *k, struct zk_event *event)
{
	switch (event->kind) {
	case ZK_CONNECTED:
		k->is_open = true;
		if (event->is_new) {
			k->is_new = true;
			k->retry_usec = 0;
		}
		break;
	case ZK_LOST:
		k->is_open = false;
		k->lost = event->code;
		k->lost_why = event->why;
		break;
	case ZK_REPLY:
		if (k->is_asked)
			read_answer(k, event);
		break;
	case ZK_CHANGED:
		break;
	}
}

/* The password may have changed in its file. */
static int tell_secret(struct zk_keeper *k, struct usher_error *reterr)
{
	cleanup(own_free_secret) char *secret = NULL;
	int r = zookeeper_read_secret(k->z, &secret, reterr);

	if (r < 0 || !secret || (k->secret && strcmp(secret, k->secret) == 0))
		return r;
	r = zk_session_set_secret(k->session, secret);
	if (r < 0)
		return usher_error_set(reterr, r, "out of memory");
	own_free_secret(&k->secret);
	k->secret = take(secret);
	return 0;
}

static bool is_stopping(struct zk_keeper *k)
{
	bool stopping;

	pthread_mutex_lock(&k->lock);
	stopping = k->stopping;
	pthread_mutex_unlock(&k->lock);
	return stopping;
}

/* Do what the session has to do, until then at the latest. Negative: it has to stop. */
static int turn(struct zk_keeper *k, uint64_t until_usec)
{
	uint64_t now = retry_now_usec(), due = zk_session_due_usec(k->session);
	struct pollfd fds[] = { { .fd = k->wake_fd, .events = POLLIN },
		{ .fd = zk_session_fd(k->session), .events = zk_session_events(k->session) } };
	struct zk_event event;
	eventfd_t count;

	if (due > until_usec)
		due = until_usec;
	(void) poll(fds, ELEMENTS(fds), due > now ? (int) ((due - now) / 1000 + 1) : 0);
	(void) eventfd_read(k->wake_fd, &count);
	zk_session_process(k->session);
	while (zk_session_next(k->session, &event))
		take_event(k, &event);
	return is_stopping(k) ? -ECANCELED : 0;
}

/* ---- questions ---- */

static int out_of_time(const struct zk_keeper *k, struct usher_error *reterr)
{
	if (k->lost < 0)
		return usher_error_set(reterr, k->lost, "%s", k->lost_why.text);
	return usher_error_set(reterr, -ETIMEDOUT, "ZooKeeper does not answer in time");
}

int zk_keeper_open(struct zk_keeper *k, struct usher_error *reterr)
{
	int r = 0;

	while (r == 0 && !k->is_open) {
		if (retry_now_usec() >= k->until_usec)
			return out_of_time(k, reterr);
		r = tell_secret(k, reterr);
		if (r == 0)
			r = turn(k, k->until_usec);
	}
	return r == -ECANCELED ? usher_error_set(reterr, r, "usherd stops") : r;
}

struct jute_out *zk_keeper_begin(
		struct zk_keeper *k, enum zk_op op, const char *path, struct usher_error *reterr)
{
	struct jute_out *out = zk_session_begin(k->session, op, path, NULL);

	if (!out)
		(void) out_of_time(k, reterr);
	return out;
}

int zk_keeper_ask(struct zk_keeper *k, struct zk_answer *ret, struct usher_error *reterr)
{
	int r = zk_session_send(k->session);

	if (r < 0)
		return usher_error_set(reterr, r, "%s",
				r == -EMSGSIZE ? "it is longer than ZooKeeper takes (1 MiB)"
					       : "out of memory");
	k->is_asked = true;
	k->lost = 0;
	while (r == 0 && k->is_asked && k->is_open) {
		if (retry_now_usec() >= k->until_usec)
			break;
		r = turn(k, k->until_usec);
	}
	if (k->is_asked) {
		k->is_asked = false;
		if (r < 0)
			return usher_error_set(reterr, r, "usherd stops");
		/* Its answer, should it still come, is not to be taken for that of the next. */
		if (k->is_open)
			zk_session_lose(k->session, -ETIMEDOUT, "it does not answer any more");
		return out_of_time(k, reterr);
	}
	*ret = k->answer;
	k->answer = (struct zk_answer){ 0 };
	return 0;
}

/* ---- what is ours ---- */

struct zk_registration *zk_keeper_find(const struct zk_keeper *k, const char *path)
{
	for (struct zk_registration *r = k->registrations; r; r = r->next)
		if (strcmp(r->path, path) == 0)
			return r;
	return NULL;
}

static void registration_free(struct zk_registration *r)
{
	free(r->path);
	free(r->value);
	free(r);
}

int zk_keeper_remember(
		struct zk_keeper *k, const char *path, char *value, struct usher_error *reterr)
{
	struct zk_registration *r = zk_keeper_find(k, path);
	autofree char *owned = value;

	if (!r) {
		if (k->count == ZK_REGISTRATIONS_MAX)
			return usher_error_set(reterr, -E2BIG, "there are %d registrations already",
					ZK_REGISTRATIONS_MAX);
		r = calloc(1, sizeof(*r));
		if (r)
			r->path = strdup(path);
		if (!r || !r->path) {
			free(r);
			return usher_error_set(reterr, -ENOMEM, "out of memory");
		}
		r->next = k->registrations;
		k->registrations = r;
		k->count++;
	}
	free(r->value);
	r->value = take(owned);
	r->session = zk_keeper_session(k);
	return 0;
}

void zk_keeper_forget(struct zk_keeper *k, const char *path)
{
	for (struct zk_registration **at = &k->registrations; *at; at = &(*at)->next) {
		struct zk_registration *r = *at;

		if (strcmp(r->path, path) != 0)
			continue;
		*at = r->next;
		k->count--;
		registration_free(r);
		return;
	}
}

/* In a session that is new, everything that was in the one before. */
static void register_again(struct zk_keeper *k)
{
	struct usher_error why = { 0 };
	int r = 0;

	k->is_new = false;
	k->until_usec = retry_now_usec() + ZK_JOB_USEC;
	for (struct zk_registration *one = k->registrations; r >= 0 && one; one = one->next) {
		if (one->session == zk_keeper_session(k))
			continue;
		r = zk_registration_put(k, one->path, one->value, &why);
		if (r >= 0)
			one->session = zk_keeper_session(k);
	}
	if (r >= 0) {
		k->failures = 0;
		return;
	}
	k->is_new = true;
	k->retry_usec = retry_now_usec() + retry_delay_usec(&k->random, ++k->failures);
	if (k->failures == 1)
		usher_log(USHER_LOG_WARNING,
				"What was registered cannot be registered again in a new session: %s; "
				"going on to try",
				usher_error_text(&why, r));
}

/* ---- the thread ---- */

static struct job *next_job(struct zk_keeper *k)
{
	struct job *job;

	pthread_mutex_lock(&k->lock);
	job = k->job && !k->job->is_done ? k->job : NULL;
	pthread_mutex_unlock(&k->lock);
	return job;
}

static void finish_job(struct zk_keeper *k, struct job *job, int r)
{
	pthread_mutex_lock(&k->lock);
	job->r = r;
	job->is_done = true;
	pthread_cond_broadcast(&k->more);
	pthread_mutex_unlock(&k->lock);
}

static void do_job(struct zk_keeper *k, struct job *job)
{
	k->until_usec = retry_now_usec() + ZK_JOB_USEC;
	finish_job(k, job, job->run(k, job->userdata, &job->why));
}

static void *keeper_main(void *userdata)
{
	struct zk_keeper *k = userdata;
	int r = 0;

	while (r == 0) {
		struct job *job = next_job(k);
		uint64_t now = retry_now_usec(), until = now + IDLE_USEC;

		if (job)
			do_job(k, job);
		if (k->is_open && k->is_new && now >= k->retry_usec)
			register_again(k);
		if (k->is_new && k->retry_usec > now)
			until = k->retry_usec;
		if (!next_job(k))
			r = turn(k, until);
		else if (is_stopping(k))
			r = -ECANCELED;
		(void) tell_secret(k, NULL);
	}
	return NULL;
}

int zk_keeper_do(struct zk_keeper *k, zk_job run, void *userdata, struct usher_error *reterr)
{
	struct job job = { .run = run, .userdata = userdata };

	pthread_mutex_lock(&k->lock);
	assert(!k->job);
	k->job = &job;
	(void) eventfd_write(k->wake_fd, 1);
	while (!job.is_done)
		pthread_cond_wait(&k->more, &k->lock);
	k->job = NULL;
	pthread_mutex_unlock(&k->lock);
	if (job.r < 0 && reterr)
		*reterr = job.why;
	return job.r;
}

/* ---- whole ---- */

const struct zookeeper *zk_keeper_config(const struct zk_keeper *k)
{
	return k->z;
}

int64_t zk_keeper_session(const struct zk_keeper *k)
{
	return zk_session_id(k->session);
}

static struct zk_keeper *keeper_done(struct zk_keeper *k)
{
	/* Without registrations there is nothing that has to outlive us. */
	k->session = zk_session_free(k->session, !k->registrations);
	while (k->registrations) {
		struct zk_registration *r = k->registrations;

		k->registrations = r->next;
		registration_free(r);
	}
	zk_answer_done(&k->answer);
	own_free_secret(&k->secret);
	if (k->wake_fd >= 0)
		(void) close(k->wake_fd);
	(void) pthread_cond_destroy(&k->more);
	(void) pthread_mutex_destroy(&k->lock);
	free(k);
	return NULL;
}

int zk_keeper_new(const struct zookeeper *z, struct zk_keeper **ret, struct usher_error *reterr)
{
	const struct zk_session_config config = {
		.servers = z->servers,
		.timeout_usec = z->ttl_usec,
		.connect_usec = z->connect_timeout_usec,
		.backoff_steps = BACKOFF_STEPS,
	};
	struct zk_keeper *k = calloc(1, sizeof(*k));
	int r;

	if (!k)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	k->z = z;
	(void) pthread_mutex_init(&k->lock, NULL);
	(void) pthread_cond_init(&k->more, NULL);
	k->random = retry_seed();
	k->session = zk_session_new(&config);
	k->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!k->session || k->wake_fd < 0) {
		(void) keeper_done(k);
		return usher_error_set(reterr, -ENOMEM, "no memory, or no descriptor, is left");
	}
	r = -pthread_create(&k->thread, NULL, keeper_main, k);
	if (r < 0) {
		(void) keeper_done(k);
		return usher_error_set(
				reterr, r, "no thread can be made: %s", usher_error_text(NULL, r));
	}
	*ret = k;
	return 0;
}

struct zk_keeper *zk_keeper_free(struct zk_keeper *k)
{
	if (!k)
		return NULL;
	pthread_mutex_lock(&k->lock);
	k->stopping = true;
	pthread_mutex_unlock(&k->lock);
	(void) eventfd_write(k->wake_fd, 1);
	(void) pthread_join(k->thread, NULL);
	return keeper_done(k);
}
