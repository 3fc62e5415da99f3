#include "fake-source.h"

#include <poll.h>

#include "clock.h"
#include "http-private.h"
#include "test.h"

void fake_source_want(
		struct usher_source *s, const char *service, const char *name, const char *port)
{
	assert_true(s->count < FAKE_WANTED_MAX);
	s->wanted[s->count] = (struct usher_wanted){ service, name, port };
	s->answers[s->count++] = (struct fake_answer){ .service = service };
}

struct fake_answer *fake_source_answer(struct usher_source *s, const char *service)
{
	for (size_t i = 0; i < s->count; i++)
		if (strcmp(s->answers[i].service, service) == 0)
			return &s->answers[i];
	fail_msg("the plug-in speaks of %s, which nobody wants", service);
	return NULL;
}

bool fake_source_knows(const struct usher_source *s, const char *service)
{
	for (size_t i = 0; i < s->known_count; i++)
		if (strcmp(s->known[i], service) == 0)
			return true;
	return false;
}

static void forget_known(struct usher_source *s)
{
	for (size_t i = 0; i < s->known_count; i++)
		free(s->known[i]);
	s->known_count = 0;
}

void fake_source_done(struct usher_source *s)
{
	for (size_t i = 0; i < s->count; i++)
		(void) usher_endpoints_unref(s->answers[i].set);
	forget_known(s);
	*s = (struct usher_source){ 0 };
}

/* ---- what the host offers ---- */

const struct usher_wanted *usher_source_wanted(struct usher_source *source, size_t *ret_count)
{
	*ret_count = source->count;
	return source->wanted;
}

int usher_source_offer(struct usher_source *source, const char *service,
		struct usher_endpoints *set, enum usher_verdict verdict, const char *revision,
		uint64_t observed_usec)
{
	struct fake_answer *a = fake_source_answer(source, service);

	(void) revision;
	assert_true(observed_usec > 0);
	assert_non_null(set);
	usher_endpoints_seal(set);
	(void) usher_endpoints_unref(a->set);
	a->set = set;
	a->verdict = verdict;
	a->offers++;
	a->code = 0;
	return 0;
}

static void confirm_one(struct fake_answer *a)
{
	assert_non_null(a->set);
	a->confirms++;
	a->code = 0;
}

void usher_source_confirm(struct usher_source *source, const char *service, uint64_t observed_usec)
{
	assert_true(observed_usec > 0);
	for (size_t i = 0; i < source->count; i++)
		if (!service || strcmp(source->answers[i].service, service) == 0)
			confirm_one(&source->answers[i]);
}

void usher_source_fail(struct usher_source *source, const char *service, int code,
		const struct usher_error *why)
{
	assert_true(code < 0);
	for (size_t i = 0; i < source->count; i++) {
		struct fake_answer *a = &source->answers[i];

		if (service && strcmp(a->service, service) != 0)
			continue;
		a->fails++;
		a->code = code;
		(void) snprintf(a->text, sizeof(a->text), "%s", usher_error_text(why, code));
	}
}

void usher_source_known(struct usher_source *source, const char *const *names, size_t count)
{
	assert_true(count <= FAKE_KNOWN_MAX);
	forget_known(source);
	for (size_t i = 0; i < count; i++)
		source->known[source->known_count++] = strdup(names[i]);
}

struct fake_drain *fake_source_drain(struct usher_source *s, const char *service, const char *id)
{
	for (size_t i = 0; i < s->drain_count; i++)
		if (strcmp(s->drains[i].service, service) == 0 && strcmp(s->drains[i].id, id) == 0)
			return &s->drains[i];
	return NULL;
}

static struct fake_drain *note_drain(struct usher_source *s, const char *service, const char *id)
{
	struct fake_drain *d = fake_source_drain(s, service, id);
	unsigned said = d ? d->said : 0;

	(void) fake_source_answer(s, service); /* it is wanted */
	assert_non_null(id);
	if (!d) {
		assert_true(s->drain_count < FAKE_DRAINS_MAX);
		d = &s->drains[s->drain_count++];
	}
	*d = (struct fake_drain){ .said = said + 1 };
	(void) snprintf(d->service, sizeof(d->service), "%s", service);
	(void) snprintf(d->id, sizeof(d->id), "%s", id);
	return d;
}

static bool refuse_drain(struct usher_source *s)
{
	if (s->drains_refused == 0)
		return false;
	s->drains_refused--;
	return true;
}

int usher_source_drain(struct usher_source *source, const struct usher_drain_request *request)
{
	struct fake_drain *d;

	if (refuse_drain(source))
		return -E2BIG;
	d = note_drain(source, request->service, request->id);
	d->wanted = true;
	(void) snprintf(d->uid, sizeof(d->uid), "%s", request->uid ? request->uid : "");
	(void) snprintf(d->reason, sizeof(d->reason), "%s", request->reason ? request->reason : "");
	d->deadline_usec = request->deadline_usec;
	return 0;
}

int usher_source_undrain(struct usher_source *source, const char *service, const char *id)
{
	if (refuse_drain(source))
		return -E2BIG;
	(void) note_drain(source, service, id);
	return 0;
}

int usher_source_wait(struct usher_source *source, const struct usher_wait *wait)
{
	int r = source->on_wait(source, wait, source->waits++);

	source->stopped = r == 0;
	return r;
}

const char *usher_source_name(struct usher_source *source)
{
	(void) source;
	return "test";
}

void usher_log(enum usher_log_priority priority, const char *format, ...)
{
	(void) priority;
	(void) format;
}

/* ---- HTTP: what a source does for it ---- */

int source_attach_http(struct usher_source *source, struct usher_http *h)
{
	h->next = source->http;
	source->http = h;
	return 0;
}

void source_detach_http(struct usher_source *source, struct usher_http *h)
{
	struct usher_http **at = &source->http;

	while (*at != h)
		at = &(*at)->next;
	*at = h->next;
}

bool source_is_told_to_stop(struct usher_source *source)
{
	return source->stopped;
}

int source_wake_fd(struct usher_source *source)
{
	(void) source;
	return -1;
}

/* One turn, until `until` at most. */
static int process_http(struct usher_source *s, uint64_t until)
{
	struct pollfd fds[SOURCE_HTTP_MAX];
	uint64_t now = clock_boot_usec();
	nfds_t count = 0;
	int flags = 0;

	for (struct usher_http *h = s->http; h; h = h->next) {
		assert_true(count < SOURCE_HTTP_MAX);
		fds[count++] = (struct pollfd){ .fd = http_fd(h), .events = POLLIN };
		if (http_due_usec(h) < until)
			until = http_due_usec(h);
	}
	(void) poll(fds, count, until <= now ? 0 : (int) ((until - now) / 1000 + 1));
	for (struct usher_http *h = s->http; h; h = h->next)
		if (http_process(h))
			flags |= USHER_WAIT_HTTP;
	return flags;
}

int fake_source_wait_http(struct usher_source *s, const struct usher_wait *wait)
{
	uint64_t patience = clock_boot_usec() + FAKE_PATIENCE_USEC, deadline = patience;
	uint64_t timeout = wait->backoff ? FAKE_BACKOFF_USEC : wait->timeout_usec;
	int flags = 0;

	if (timeout > 0 && timeout < FAKE_PATIENCE_USEC)
		deadline = clock_boot_usec() + timeout;
	while (!flags) {
		flags = process_http(s, deadline);
		if (clock_boot_usec() >= patience)
			fail_msg("nothing has ended the wait");
		if (clock_boot_usec() >= deadline)
			flags |= USHER_WAIT_TIMEOUT;
	}
	return flags;
}
