#include "in-flight.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "hash.h"
#include "ownership.h"

#define SWEEPS_MAX (IN_FLIGHT_TTL_MAX / IN_FLIGHT_SWEEP_USEC + 2)

/* All reports about one endpoint. The key is the service's name, a NUL, and the endpoint's id. */
struct reported {
	UT_hash_handle hh;
	struct in_flight_report *reports;
	unsigned __int128 requests; /* the sum of their counts */
	size_t key_length;
	char key[];
};

struct in_flight_report {
	struct reported *about;
	struct in_flight_reporter *reporter;
	struct in_flight_report *next, *prev;           /* about the endpoint */
	struct in_flight_report *mine_next, *mine_prev; /* of the reporter */
	struct in_flight_report *late_next, *late_prev; /* that end within the same sweep */
	uint64_t count;
	uint64_t revision;
	uint64_t until_usec;
};

struct in_flight {
	struct reported *by_endpoint;
	in_flight_changed changed;
	void *userdata;
	sd_event_source *sweep; /* armed while there are reports */
	uint64_t swept;         /* the sweep that was done last */
	/* By the sweep that finds them over: a ring, for no report lasts longer. */
	struct in_flight_report *late[SWEEPS_MAX];
};

static void arm(struct in_flight *f)
{
	uint64_t next_usec = (f->swept + 1) * IN_FLIGHT_SWEEP_USEC;

	(void) sd_event_source_set_time(f->sweep, next_usec);
	(void) sd_event_source_set_enabled(
			f->sweep, f->by_endpoint ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

static int in_flight_on_sweep(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void) source;
	(void) usec;
	in_flight_expire(userdata, clock_boot_usec());
	arm(userdata);
	return 0;
}

struct in_flight *in_flight_new(sd_event *event, in_flight_changed changed, void *userdata)
{
	struct in_flight *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->changed = changed;
	f->userdata = userdata;
	if (sd_event_add_time(event, &f->sweep, CLOCK_BOOTTIME, 0, 0, in_flight_on_sweep, f) < 0 ||
			sd_event_source_set_enabled(f->sweep, SD_EVENT_OFF) < 0)
		return in_flight_free(f);
	return f;
}

struct in_flight *in_flight_free(struct in_flight *f)
{
	if (!f)
		return NULL;
	assert(!f->by_endpoint);
	sd_event_source_disable_unref(f->sweep);
	free(f);
	return NULL;
}

struct key {
	size_t length;
	char text[CONFIG_NAME_MAX + 1 + USHER_TEXT_MAX];
};

static bool make_key(const char *service, const char *endpoint, struct key *ret)
{
	int length = snprintf(ret->text, sizeof(ret->text), "%s%c%s", service, '\0', endpoint);

	ret->length = (size_t) length;
	return length >= 0 && ret->length < sizeof(ret->text);
}

static struct reported *find(const struct in_flight *f, const char *service, const char *endpoint)
{
	struct reported *about = NULL;
	struct key key;

	if (make_key(service, endpoint, &key))
		HASH_FIND(hh, f->by_endpoint, key.text, key.length, about);
	return about;
}

static int get(struct in_flight *f, const char *service, const char *endpoint,
		struct reported **ret)
{
	struct reported *about = find(f, service, endpoint);
	struct key key;

	if (about) {
		*ret = about;
		return 0;
	}
	if (!make_key(service, endpoint, &key))
		return -EINVAL;
	about = calloc(1, sizeof(*about) + key.length + 1);
	if (!about)
		return -ENOMEM;
	about->key_length = key.length;
	memcpy(about->key, key.text, key.length);
	HASH_ADD(hh, f->by_endpoint, key[0], about->key_length, about);
	if (!hash_was_added(about)) {
		free(about);
		return -ENOMEM;
	}
	*ret = about;
	return 0;
}

static void tell(const struct in_flight *f, const struct reported *about)
{
	uint64_t requests = about->requests > UINT64_MAX ? UINT64_MAX : (uint64_t) about->requests;

	f->changed(f->userdata, about->key, about->key + strlen(about->key) + 1, requests);
}

static struct in_flight_report **ring_of(struct in_flight *f, uint64_t until_usec)
{
	return &f->late[until_usec / IN_FLIGHT_SWEEP_USEC % SWEEPS_MAX];
}

static void ring_add(struct in_flight *f, struct in_flight_report *report)
{
	struct in_flight_report **first = ring_of(f, report->until_usec);

	report->late_prev = NULL;
	report->late_next = *first;
	if (*first)
		(*first)->late_prev = report;
	*first = report;
}

static void ring_remove(struct in_flight *f, struct in_flight_report *report)
{
	if (report->late_next)
		report->late_next->late_prev = report->late_prev;
	if (report->late_prev)
		report->late_prev->late_next = report->late_next;
	else
		*ring_of(f, report->until_usec) = report->late_next;
}

static void drop_unused(struct in_flight *f, struct reported *about)
{
	if (about->reports)
		return;
	HASH_DEL(f->by_endpoint, about);
	free(about);
}

static void report_free(struct in_flight *f, struct in_flight_report *report)
{
	if (report->next)
		report->next->prev = report->prev;
	if (report->prev)
		report->prev->next = report->next;
	else
		report->about->reports = report->next;
	if (report->mine_next)
		report->mine_next->mine_prev = report->mine_prev;
	if (report->mine_prev)
		report->mine_prev->mine_next = report->mine_next;
	else
		report->reporter->reports = report->mine_next;
	report->reporter->count--;
	ring_remove(f, report);
	report->about->requests -= report->count;
	tell(f, report->about);
	drop_unused(f, report->about);
	free(report);
}

static struct in_flight_report *find_report(
		struct reported *about, const struct in_flight_reporter *reporter)
{
	for (struct in_flight_report *r = about ? about->reports : NULL; r; r = r->next)
		if (r->reporter == reporter)
			return r;
	return NULL;
}

int in_flight_last(const struct in_flight *f, const struct in_flight_reporter *reporter,
		const char *service, const char *endpoint, uint64_t *ret_count,
		uint64_t *ret_revision)
{
	const struct in_flight_report *report = find_report(find(f, service, endpoint), reporter);

	if (!report)
		return -ENOENT;
	*ret_count = report->count;
	*ret_revision = report->revision;
	return 0;
}

static void drop_expired(
		struct in_flight *f, struct in_flight_reporter *reporter, uint64_t now_usec)
{
	struct in_flight_report *next;

	for (struct in_flight_report *r = reporter->reports; r; r = next) {
		next = r->mine_next;
		if (r->until_usec <= now_usec)
			report_free(f, r);
	}
}

static int add_report(struct in_flight *f, struct reported *about,
		struct in_flight_reporter *reporter, struct in_flight_report **ret)
{
	struct in_flight_report *report;

	if (reporter->count == IN_FLIGHT_REPORTS_MAX)
		return -E2BIG;
	report = calloc(1, sizeof(*report));
	if (!report)
		return -ENOMEM;
	report->about = about;
	report->reporter = reporter;
	report->next = about->reports;
	if (report->next)
		report->next->prev = report;
	about->reports = report;
	report->mine_next = reporter->reports;
	if (report->mine_next)
		report->mine_next->mine_prev = report;
	reporter->reports = report;
	reporter->count++;
	ring_add(f, report);
	*ret = report;
	return 0;
}

int in_flight_report(struct in_flight *f, struct in_flight_reporter *reporter,
		const struct in_flight_claim *claim, uint64_t now_usec)
{
	bool first = !f->by_endpoint;
	struct in_flight_report *report;
	struct reported *about;
	int r;

	if (reporter->count == IN_FLIGHT_REPORTS_MAX)
		drop_expired(f, reporter, now_usec);
	r = get(f, claim->service, claim->endpoint, &about);
	if (r < 0)
		return r;
	report = find_report(about, reporter);
	if (!report) {
		r = add_report(f, about, reporter, &report);
		if (r < 0) {
			drop_unused(f, about);
			return r;
		}
	}
	about->requests += claim->count;
	about->requests -= report->count;
	report->count = claim->count;
	report->revision = claim->revision;
	ring_remove(f, report);
	report->until_usec = now_usec + claim->ttl_usec;
	ring_add(f, report);
	tell(f, about);
	if (first) {
		f->swept = now_usec / IN_FLIGHT_SWEEP_USEC;
		arm(f);
	}
	return 0;
}

void in_flight_forget(struct in_flight *f, struct in_flight_reporter *reporter)
{
	while (reporter->reports)
		report_free(f, reporter->reports);
}

/* All that end within one sweep's time are over once it has passed. */
static void sweep(struct in_flight *f, uint64_t number, uint64_t now_usec)
{
	struct in_flight_report *next;

	for (struct in_flight_report *r = f->late[number % SWEEPS_MAX]; r; r = next) {
		next = r->late_next;
		if (r->until_usec <= now_usec)
			report_free(f, r);
	}
}

void in_flight_expire(struct in_flight *f, uint64_t now_usec)
{
	uint64_t last = now_usec / IN_FLIGHT_SWEEP_USEC;

	if (last > f->swept + SWEEPS_MAX)
		f->swept = last - SWEEPS_MAX;
	for (; f->swept < last; f->swept++)
		sweep(f, f->swept, now_usec);
}

void in_flight_evidence(struct in_flight *f, const char *service, const char *endpoint,
		uint64_t now_usec, struct in_flight_evidence *ret)
{
	struct reported *about = find(f, service, endpoint);
	struct in_flight_report *next;

	*ret = (struct in_flight_evidence){};
	for (struct in_flight_report *r = about ? about->reports : NULL; r; r = next) {
		next = r->next;
		if (r->until_usec <= now_usec) {
			report_free(f, r);
			continue;
		}
		ret->reporters++;
		if (__builtin_add_overflow(ret->requests, r->count, &ret->requests))
			ret->requests = UINT64_MAX;
	}
}
