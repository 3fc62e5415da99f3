#include "follow.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "backoff.h"
#include "boot-clock.h"
#include "human.h"
#include "output.h"
#include "random-value.h"
#include "record-view.h"
#include "time-limit.h"

#define TICK_USEC        UINT64_C(200000)
#define WAITING_MAX      1024
#define WIDTH_IF_UNKNOWN 80

struct follow {
	struct ctl *ctl;
	struct usher_client *client;
	FILE *stream; /* of the progress: not where data goes */
	bool live;    /* the line of the step that waits is drawn again and again */
	struct backoff backoff;
	uint64_t deadline_usec; /* 0: none */
	pthread_t watcher;
	bool watching;
	sigset_t signals_before;

	pthread_mutex_t lock;
	pthread_cond_t changed; /* of CLOCK_MONOTONIC */
	int reason;             /* why the waiting ends: an exit code, or EXIT_DONE */
	bool over;
	json_t *record;
	bool drawn; /* the line of the step that waits is on the terminal */
	bool away;  /* usherd is, and was said to be */
};

static void signals_of_follow(sigset_t *ret)
{
	(void) sigemptyset(ret);
	(void) sigaddset(ret, SIGINT);
	(void) sigaddset(ret, SIGTERM);
	(void) sigaddset(ret, SIGHUP);
	(void) sigaddset(ret, SIGUSR1); /* from ourselves: it is over */
}

/* Locked. */
static void erase(struct follow *f)
{
	if (f->drawn)
		(void) fprintf(f->stream, "\r\033[K");
	f->drawn = false;
}

/* Locked. */
static void draw(struct follow *f)
{
	char text[WAITING_MAX];
	struct winsize size = {};
	int width = WIDTH_IF_UNKNOWN;

	if (!f->live || !f->record)
		return;
	if (ioctl(fileno(f->stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		width = size.ws_col;
	record_waiting(f->record, text, sizeof(text));
	erase(f);
	if (!*text)
		return;
	(void) fprintf(f->stream, "%.*s", width - 1, text);
	(void) fflush(f->stream);
	f->drawn = true;
}

static void follow_end(struct follow *f, int reason)
{
	(void) pthread_mutex_lock(&f->lock);
	if (f->reason == EXIT_DONE)
		f->reason = reason;
	(void) pthread_cond_broadcast(&f->changed);
	(void) pthread_mutex_unlock(&f->lock);
	usher_client_interrupt(f->client);
}

/* Signals, the end of the time to wait, and the line that is drawn again. */
static void *follow_watch(void *userdata)
{
	const struct timespec tick = { .tv_nsec = (long) (TICK_USEC * 1000) };
	struct follow *f = userdata;
	sigset_t signals;

	signals_of_follow(&signals);
	for (;;) {
		int signal = sigtimedwait(&signals, NULL, &tick);

		if (signal == SIGUSR1)
			return NULL;
		if (signal > 0)
			follow_end(f, EXIT_INTERRUPTED);
		else if (f->deadline_usec != 0 && boot_clock_usec() >= f->deadline_usec)
			follow_end(f, EXIT_WAITED);
		(void) pthread_mutex_lock(&f->lock);
		if (!f->over && f->reason == EXIT_DONE && !f->away)
			draw(f);
		(void) pthread_mutex_unlock(&f->lock);
	}
}

static int follow_start(struct follow *f)
{
	pthread_condattr_t attributes;
	sigset_t signals;

	(void) pthread_mutex_init(&f->lock, NULL);
	(void) pthread_condattr_init(&attributes);
	(void) pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	(void) pthread_cond_init(&f->changed, &attributes);
	(void) pthread_condattr_destroy(&attributes);
	signals_of_follow(&signals);
	(void) pthread_sigmask(SIG_BLOCK, &signals, &f->signals_before);
	f->watching = pthread_create(&f->watcher, NULL, follow_watch, f) == 0;
	return f->watching ? 0 : -EAGAIN;
}

struct follow *follow_new(struct ctl *ctl, enum door door)
{
	struct follow *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->ctl = ctl;
	f->client = ctl_client(ctl, door);
	f->stream = output_is_data(ctl) ? stderr : stdout;
	f->live = f->stream == stdout && ctl->terminal;
	if (ctl->options.wait_timeout_usec > 0)
		f->deadline_usec = boot_clock_usec() + ctl->options.wait_timeout_usec;
	if (!f->client || follow_start(f) < 0)
		return follow_free(f);
	return f;
}

struct follow *follow_free(struct follow *f)
{
	if (!f)
		return NULL;
	if (f->watching) {
		(void) pthread_kill(f->watcher, SIGUSR1);
		(void) pthread_join(f->watcher, NULL);
		(void) pthread_sigmask(SIG_SETMASK, &f->signals_before, NULL);
	}
	json_decref(f->record);
	(void) pthread_cond_destroy(&f->changed);
	(void) pthread_mutex_destroy(&f->lock);
	free(f);
	return NULL;
}

int follow_reason(struct follow *f)
{
	int reason;

	(void) pthread_mutex_lock(&f->lock);
	reason = f->reason;
	(void) pthread_mutex_unlock(&f->lock);
	return reason;
}

/* Take the newer record, telling what happened since. */
static void follow_take(struct follow *f, json_t *record)
{
	(void) pthread_mutex_lock(&f->lock);
	erase(f);
	if (f->away)
		(void) fprintf(f->stream, "%8s  usherd is back\n", "");
	f->away = false;
	record_tell(f->ctl, f->stream, f->record, record);
	(void) fflush(f->stream);
	json_decref(f->record);
	f->record = record;
	draw(f);
	(void) pthread_mutex_unlock(&f->lock);
	backoff_reset(&f->backoff);
}

static bool follow_finished(const struct follow *f)
{
	return record_finished(f->record) || record_is(f->record, "held");
}

static int follow_on_line(void *userdata, const char *text, size_t length)
{
	struct follow *f = userdata;
	cleanup(json_decrefp) json_t *line = json_loadb(text, length, 0, NULL);
	json_t *record = json_object_get(line, "drain");

	if (json_is_object(record))
		follow_take(f, json_incref(record));
	return follow_finished(f) ? 1 : 0;
}

static void follow_say_away(struct follow *f, const char *why)
{
	(void) pthread_mutex_lock(&f->lock);
	erase(f);
	if (!f->away)
		(void) fprintf(f->stream,
				"%8s  usherd went away (%s); the %s goes on when it is back, and so does this\n",
				"", why, record_kind(f->record));
	(void) fflush(f->stream);
	f->away = true;
	(void) pthread_mutex_unlock(&f->lock);
}

static void follow_pause(struct follow *f)
{
	struct timespec until = time_limit_after(backoff_next_usec(&f->backoff, random_value()));
	int r = 0;

	(void) pthread_mutex_lock(&f->lock);
	while (f->reason == EXIT_DONE && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&f->changed, &f->lock, &until);
	(void) pthread_mutex_unlock(&f->lock);
}

/* Whether a failure is one that a restart of usherd makes. */
static bool follow_may_come_back(int r)
{
	return r == -ECONNREFUSED || r == -ENOENT || r == -ECONNRESET || r == -ETIMEDOUT ||
			r == 200 || r == 503;
}

static const char *follow_why(int r)
{
	switch (-r) {
	case ECONNREFUSED:
		return "connection refused";
	case ENOENT:
		return "its socket is gone";
	case ETIMEDOUT:
		return "it does not answer";
	default:
		return "the connection ended";
	}
}

/* Until the record is finished, or there is a reason to stop. Returns EXIT_DONE, or the exit code
 * of what cannot be followed. */
static int follow_stream(struct follow *f)
{
	autofree char *path = ctl_path_add(
			ctl_path("/v1/drains/%s", field_text(f->record, "id")), "watch", "true");

	if (!path)
		return ctl_fail(EXIT_FAILED, "out of memory");
	while (!follow_finished(f) && follow_reason(f) == EXIT_DONE) {
		autofree char *body = NULL;
		struct usher_error error = {};
		int r;

		r = usher_client_stream(f->client, path, follow_on_line, f, &body, &error);
		if (follow_finished(f) || follow_reason(f) != EXIT_DONE)
			break;
		if (!follow_may_come_back(r) && r > 0)
			return ctl_problem(f->ctl, r, body);
		if (!follow_may_come_back(r))
			return ctl_fail(ctl_code_of_errno(r), "%s", usher_error_text(&error, r));
		follow_say_away(f, follow_why(r));
		follow_pause(f);
	}
	return EXIT_DONE;
}

static void follow_say_goes_on(struct follow *f, int reason)
{
	const json_t *record = f->record;
	const char *kind = record_kind(record), *id = field_text(record, "id");
	char duration[USHER_DURATION_TEXT_MAX];

	if (reason == EXIT_WAITED)
		(void) ctl_fail((enum exit_code) reason,
				"gave up waiting after %s; the %s of %s/%s goes on as %s, in step %s",
				usher_duration_format(f->ctl->options.wait_timeout_usec, duration),
				kind, field_text(record, "service"), field_text(record, "endpoint"),
				id, field_text(record, "step"));
	else
		(void) ctl_fail((enum exit_code) reason,
				"interrupted; the %s of %s/%s goes on as %s, in step %s", kind,
				field_text(record, "service"), field_text(record, "endpoint"), id,
				field_text(record, "step"));
	(void) fprintf(stderr,
			"Follow it: usherctl %s %s/%s --wait\nLook at it: usherctl describe drain %s\nStop it and go back: usherctl cancel %s\n",
			kind, field_text(record, "service"), field_text(record, "endpoint"), id,
			id);
}

static void say_end(const struct follow *f)
{
	const json_t *record = f->record;
	struct record_counts counts = record_count(record);
	const char *state = field_text(record, "state");
	char elapsed[HUMAN_TEXT_MAX];

	(void) human_elapsed(record_elapsed_msec(record, record, "finished_at"), elapsed);
	(void) fprintf(f->stream, "%8s  %s%s%s: %u proven, %u assumed", elapsed,
			tint_on(f->ctl, tint_of(state)), state, tint_off(f->ctl, tint_of(state)),
			counts.proven, counts.assumed);
	if (counts.forced > 0)
		(void) fprintf(f->stream, ", %u forced", counts.forced);
	if (counts.skipped > 0)
		(void) fprintf(f->stream, ", %u skipped", counts.skipped);
	(void) fprintf(f->stream, "\n");
	if (json_is_string(json_object_get(record, "last_stale_pick_at")))
		(void) fprintf(f->stream, "%8s  last stale pick at %s\n", "",
				field_text(record, "last_stale_pick_at"));
	(void) fflush(f->stream);
}

static int code_of_end(const json_t *record, const char *wanted)
{
	const char *kind = record_kind(record), *id = field_text(record, "id");
	const char *failure = json_string_value(json_object_get(record, "failure"));

	if (record_is(record, wanted)) {
		if (json_is_true(json_object_get(record, "partial")))
			return ctl_fail(EXIT_PARTIAL, "%s %s is done in part: %s", kind, id,
					failure ? failure
						: "the registry could not be told everything");
		if (json_is_true(json_object_get(record, "forced")))
			return ctl_fail(EXIT_FORCED,
					"%s %s is done, but forced: the budget of a step was spent before its evidence was in",
					kind, id);
		return EXIT_DONE;
	}
	if (record_is(record, "held"))
		return ctl_fail(EXIT_FAILED,
				"%s %s is held in step %s%s%s; go on: usherctl %s %s/%s --wait; go back: usherctl cancel %s",
				kind, id, field_text(record, "step"), failure ? ": " : "",
				failure ? failure : "", kind, field_text(record, "service"),
				field_text(record, "endpoint"), id);
	return ctl_fail(EXIT_FAILED, "%s %s has ended as %s, not as %s%s%s", kind, id,
			field_text(record, "state"), wanted, failure ? ": " : "",
			failure ? failure : "");
}

static void follow_begin(struct follow *f)
{
	(void) pthread_mutex_lock(&f->lock);
	json_decref(take(f->record));
	f->over = false;
	(void) pthread_mutex_unlock(&f->lock);
}

int follow_record(struct follow *f, const json_t *record, const char *wanted)
{
	json_t *copy = json_deep_copy(record);
	int r, reason;

	if (!copy)
		return ctl_fail(EXIT_FAILED, "out of memory");
	follow_begin(f);
	usher_client_set_timeout(f->client, UINT64_C(10000000));
	follow_take(f, copy);
	r = follow_stream(f);
	(void) pthread_mutex_lock(&f->lock);
	erase(f);
	f->over = true;
	reason = f->reason;
	(void) pthread_mutex_unlock(&f->lock);
	(void) fflush(f->stream);
	if (r != EXIT_DONE)
		return r;
	if (!follow_finished(f)) {
		follow_say_goes_on(f, reason);
		return reason;
	}
	say_end(f);
	if (output_is_data(f->ctl))
		(void) output_data(f->ctl, f->record);
	return code_of_end(f->record, wanted);
}
