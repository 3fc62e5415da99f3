#include "in-flight.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "hash.h"
#include "ownership.h"

/* All reports about one endpoint. The key is SERVICE, a slash (which no service's name has), and
 * the endpoint's id. */
struct reported {
	UT_hash_handle hh;
	struct in_flight_report *reports;
	size_t key_length;
	char key[];
};

struct in_flight_report {
	struct reported *about;
	struct in_flight_reporter *reporter;
	struct in_flight_report *next, *prev;           /* about the endpoint */
	struct in_flight_report *mine_next, *mine_prev; /* of the reporter */
	uint64_t count;
	uint64_t revision;
	uint64_t until_usec;
};

struct in_flight {
	struct reported *by_endpoint;
};

struct in_flight *in_flight_new(void)
{
	return calloc(1, sizeof(struct in_flight));
}

struct in_flight *in_flight_free(struct in_flight *f)
{
	if (!f)
		return NULL;
	assert(!f->by_endpoint);
	free(f);
	return NULL;
}

struct key {
	size_t length;
	char text[CONFIG_NAME_MAX + 1 + USHER_TEXT_MAX];
};

static bool make_key(const char *service, const char *endpoint, struct key *ret)
{
	int length = snprintf(ret->text, sizeof(ret->text), "%s/%s", service, endpoint);

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

static int add_report(struct reported *about, struct in_flight_reporter *reporter,
		struct in_flight_report **ret)
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
	*ret = report;
	return 0;
}

int in_flight_report(struct in_flight *f, struct in_flight_reporter *reporter,
		const struct in_flight_claim *claim, uint64_t now_usec)
{
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
		r = add_report(about, reporter, &report);
		if (r < 0) {
			drop_unused(f, about);
			return r;
		}
	}
	report->count = claim->count;
	report->revision = claim->revision;
	report->until_usec = now_usec + claim->ttl_usec;
	return 0;
}

void in_flight_forget(struct in_flight *f, struct in_flight_reporter *reporter)
{
	while (reporter->reports)
		report_free(f, reporter->reports);
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
