/* What a round comes to: an offer, or why there is none. */

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "own.h"
#include "watch.h"

#define USEC_PER_SEC UINT64_C(1000000)

/* What is put together of one round. */
struct result {
	struct member *members;
	size_t count;
	uint64_t observed_usec;     /* of the oldest part */
	uint32_t ttl;               /* seconds: the shortest of what counted */
	size_t hosts, lost;         /* hosts, and those without an address */
	bool must_retry;            /* something failed */
	struct usher_error trouble; /* of a host whose addresses are kept; code 0: none */
	struct usher_error first;   /* of a host without an address */
};

/* ---- when to look again ---- */

static uint64_t clamp_ttl(const struct watch *w, uint32_t ttl)
{
	uint64_t usec = (uint64_t) ttl * USEC_PER_SEC;

	if (usec < w->dns->ttl_min_usec)
		return w->dns->ttl_min_usec;
	return usec < w->dns->ttl_max_usec ? usec : w->dns->ttl_max_usec;
}

/* A little later than the TTL ends, so that a cache does not answer once more from what it has; and
 * not all at once. */
static void come_back_after(struct watch *w, uint32_t ttl, uint64_t now)
{
	uint64_t usec = clamp_ttl(w, ttl);

	w->failures = 0;
	w->due_usec = now + usec + retry_random(w->random) % (usec / 10 + 1);
}

static void retry(struct watch *w, uint64_t floor_usec, uint64_t ceiling_usec, uint64_t now)
{
	uint64_t delay = retry_delay_usec(w->random, ++w->failures);

	/* Anew, and not at the ceiling: all who wait longer would meet there. */
	if (delay > ceiling_usec)
		delay = 1 + retry_random(w->random) % ceiling_usec;
	if (delay < floor_usec)
		delay = floor_usec + retry_random(w->random) % (floor_usec / 10 + 1);
	w->due_usec = now + delay;
}

/* An answer that is of no use may come at once, time and again: it is asked for no faster than a
 * good one. */
static void fail(struct watch *w, int code, const struct usher_error *why, uint64_t now)
{
	bool was_answered = code == -EBADMSG || code == -EMSGSIZE || code == -ENOENT;

	usher_source_fail(w->source, w->service, code, why);
	retry(w, was_answered ? w->dns->ttl_min_usec : 0, UINT64_MAX, now);
}

/* ---- what there is ---- */

static bool is_relevant(const struct watch *w, const struct host *host, size_t family)
{
	if (!watch_wants_family(w, family))
		return false;
	return !watch_is_second_choice(w, family) || host->lookups[1 - family].address_count == 0;
}

/* Which family's addresses count. */
static bool counts(const struct watch *w, const struct host *host, size_t family)
{
	return is_relevant(w, host, family) && host->lookups[family].address_count > 0;
}

static int explain_lookup(const struct watch *w, const struct host *host, const struct lookup *l,
		struct usher_error *reterr)
{
	*reterr = (struct usher_error){ 0 };
	if (l->end == LOOKUP_FAILED)
		return usher_error_set(reterr, l->code, "%s: %s", host->name,
				usher_error_text(&l->why, l->code));
	return usher_error_set(reterr, -ENOENT, "%s: %s says %s%s", host->name, l->server,
			l->no_such_name ? "that there is no such name"
					: "that it has no such address",
			l->has_proof || !w->dns->require_soa ? "" : ", without an SOA as proof");
}

static bool is_unproven(const struct watch *w, const struct lookup *l)
{
	return l->end == LOOKUP_NONE && !l->has_proof && w->dns->require_soa;
}

static void judge_lookup(struct watch *w, struct host *host, size_t family, struct result *result,
		uint64_t now)
{
	struct lookup *l = &host->lookups[family];

	if (!is_unproven(w, l))
		lookup_settle(l, w->dns->ttl_min_usec, now);
	if (!is_relevant(w, host, family))
		return;
	if (lookup_is_kept(l)) {
		result->must_retry = true;
		if (result->trouble.code == 0)
			(void) explain_lookup(w, host, l, &result->trouble);
	}
	if (l->end == LOOKUP_FAILED)
		result->must_retry = true;
	if (l->address_count == 0)
		return;
	if (l->observed_usec < result->observed_usec)
		result->observed_usec = l->observed_usec;
	if (l->end == LOOKUP_RECORDS && l->ttl < result->ttl)
		result->ttl = l->ttl;
}

static void judge_host(struct watch *w, struct host *host, struct result *result, uint64_t now)
{
	bool has_some = false;

	result->hosts++;
	for (size_t i = 0; i < WATCH_FAMILIES; i++) {
		judge_lookup(w, host, i, result, now);
		has_some = has_some || counts(w, host, i);
	}
	if (has_some)
		return;
	result->lost++;
	for (size_t i = 0; i < WATCH_FAMILIES && result->first.code == 0; i++)
		if (watch_wants_family(w, i))
			(void) explain_lookup(w, host, &host->lookups[i], &result->first);
}

static void add_members(const struct watch *w, const struct target *target, struct result *result)
{
	for (size_t i = 0; i < WATCH_FAMILIES; i++) {
		const struct lookup *l = &target->host->lookups[i];

		for (size_t k = 0; counts(w, target->host, i) && k < l->address_count; k++) {
			struct member *m = &result->members[result->count++];

			*m = (struct member){
				.port = target->port,
				.priority = target->priority,
				.weight = target->weight,
			};
			(void) inet_ntop(l->type == MESSAGE_A ? AF_INET : AF_INET6,
					l->addresses[k].bytes, m->address, sizeof(m->address));
			(void) snprintf(m->target, sizeof(m->target), "%s", target->host->name);
		}
	}
}

static int gather(struct watch *w, struct result *result, uint64_t now, struct usher_error *reterr)
{
	size_t most = 0;

	result->observed_usec = w->is_srv ? w->root.asked_usec : now;
	result->ttl = w->is_srv ? w->root.ttl : UINT32_MAX;
	for (size_t i = 0; i < w->host_count; i++)
		if (w->hosts[i]->is_used)
			judge_host(w, w->hosts[i], result, now);
	for (size_t i = 0; i < w->target_count; i++)
		for (size_t k = 0; k < WATCH_FAMILIES; k++)
			most += w->targets[i].host->lookups[k].address_count;
	if (most > USHER_ENDPOINTS_MAX)
		return usher_error_set(reterr, -E2BIG, "%s: has more than %d addresses",
				w->names[w->name_at], USHER_ENDPOINTS_MAX);
	result->members = calloc(most + 1, sizeof(*result->members));
	if (!result->members)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	for (size_t i = 0; i < w->target_count; i++)
		add_members(w, &w->targets[i], result);
	result->count = members_unite(result->members, result->count);
	return 0;
}

/* ---- what is told ---- */

static void warn_of_lost(struct watch *w, const struct result *result)
{
	if (result->lost != w->lost && result->lost > 0)
		usher_log(USHER_LOG_WARNING,
				"%zu of %zu targets of %s have no address and are left out, such as %s",
				result->lost, result->hosts, w->names[w->name_at],
				result->first.text);
	w->lost = result->lost;
}

static void warn_of_skipped(struct watch *w)
{
	size_t skipped = w->is_srv ? w->root.skipped : 0;

	for (size_t i = 0; i < w->host_count; i++)
		for (size_t k = 0; w->hosts[i]->is_used && k < WATCH_FAMILIES; k++)
			skipped += w->hosts[i]->lookups[k].skipped;
	if (skipped != w->skipped && skipped > 0)
		usher_log(USHER_LOG_WARNING,
				"%zu records of %s cannot be used (a port of 0, an address of zeros, or a "
				"target that is no host name) and are left out",
				skipped, w->names[w->name_at]);
	w->skipped = skipped;
}

/* Where an offer is followed by a failure, for a part of it is old, an equal one is not made: it
 * would only take back the failure for a moment. */
static void offer(struct watch *w, struct usher_endpoints *set, enum usher_verdict verdict,
		const char *revision, uint64_t observed, bool only_if_new)
{
	usher_endpoints_seal(set);
	if (only_if_new && w->offered && usher_endpoints_equal(w->offered, set)) {
		(void) usher_endpoints_unref(set);
		return;
	}
	(void) usher_endpoints_unref(w->offered);
	w->offered = usher_endpoints_ref(set);
	(void) usher_source_offer(w->source, w->service, set, verdict, revision, observed);
}

static const char *server_of(const struct watch *w)
{
	if (w->is_srv)
		return w->root.server;
	for (size_t i = 0; i < WATCH_FAMILIES; i++)
		if (counts(w, w->targets[0].host, i))
			return w->targets[0].host->lookups[i].server;
	return w->targets[0].host->lookups[0].server;
}

/* Whoever is asked may show a part of the targets, and nothing in the answer tells of it. */
static void warn_of_rotation(
		struct watch *w, const struct members_rule *rule, size_t count, uint64_t now)
{
	bool rotates = members_rotate(&w->members, rule, now);

	if (rotates == w->was_rotating)
		return;
	w->was_rotating = rotates;
	if (rotates)
		usher_log(USHER_LOG_WARNING,
				"Each answer for %s has another part of its records, such as %zu of "
				"them: who is left out stays for `hold`; ask a server that shows all",
				w->names[w->name_at], count);
	else
		usher_log(USHER_LOG_INFO, "The answers for %s show all records again",
				w->names[w->name_at]);
}

static int tell_members(struct watch *w, const struct result *result, uint64_t now,
		struct usher_error *reterr)
{
	const struct members_rule rule = { (enum dns_rotates) w->dns->rotates, w->dns->hold_usec };
	uint32_t ttl = result->ttl < UINT32_MAX ? result->ttl : 0; /* all is from before */
	struct usher_endpoints *set;
	char revision[192];
	int r = members_take(&w->members, result->members, result->count, &rule, now);

	if (r < 0)
		return usher_error_set(reterr, r, "%s: %s", w->names[w->name_at],
				usher_error_text(NULL, r));
	warn_of_rotation(w, &rule, result->count, now);
	r = members_to_endpoints(&w->members, w->is_srv, w->is_secure, now, &set, reterr);
	if (r < 0)
		return r;
	if (members_rotate(&w->members, &rule, now))
		(void) snprintf(revision, sizeof(revision),
				"%zu an answer and another part each time, from %s, TTL %us",
				result->count, server_of(w), ttl);
	else
		(void) snprintf(revision, sizeof(revision), "from %s, TTL %us", server_of(w), ttl);
	offer(w, set, USHER_FRESH, revision, result->observed_usec, result->trouble.code != 0);
	return 0;
}

static int none_usable(
		const struct watch *w, const struct result *result, struct usher_error *reterr)
{
	int code = result->first.code;

	if (w->is_srv && w->target_count == 0)
		return usher_error_set(reterr, -ENOENT,
				"none of the SRV records of %s has the port %u",
				w->names[w->name_at], w->port_number);
	if (!w->is_srv)
		return usher_error_set(reterr, code, "%s", result->first.text);
	return usher_error_set(reterr, code, "none of the %zu targets of %s has an address: %s",
			result->hosts, w->names[w->name_at], result->first.text);
}

static int conclude_some(
		struct watch *w, struct result *result, uint64_t now, struct usher_error *reterr)
{
	int r = gather(w, result, now, reterr);

	if (r < 0)
		return r;
	if (result->count == 0)
		return none_usable(w, result, reterr);
	warn_of_lost(w, result);
	warn_of_skipped(w);
	r = tell_members(w, result, now, reterr);
	if (r < 0)
		return r;
	if (result->trouble.code != 0)
		usher_source_fail(w->source, w->service, result->trouble.code,
				(usher_error_prefix(&result->trouble, result->trouble.code,
						 "a part is kept from before"),
						&result->trouble));
	if (result->must_retry)
		retry(w, 0, clamp_ttl(w, result->ttl), now);
	else
		come_back_after(w, result->ttl, now);
	return 0;
}

/* ---- what there is not ---- */

/* The lookup that says so. */
static const struct lookup *none_of(const struct watch *w)
{
	const struct lookup *found = NULL;

	if (w->is_srv)
		return &w->root;
	for (size_t i = 0; i < WATCH_FAMILIES; i++) {
		const struct lookup *l = &w->targets[0].host->lookups[i];

		if (watch_wants_family(w, i) && (!found || l->has_proof))
			found = l;
	}
	return found;
}

static int conclude_none(struct watch *w, uint64_t now, struct usher_error *reterr)
{
	const struct lookup *l = none_of(w);
	const char *what = l->no_such_name ? "no such name" : "no such records";
	struct usher_endpoints *set;
	char revision[192];
	bool is_sure;

	if (!watch_is_believed(w))
		return usher_error_set(reterr, -EBADMSG,
				"%s says of %s: %s, without an SOA that would prove it; if this server "
				"never sends one, as dnsmasq of its own names, set `require_soa: false`",
				l->server, w->names[w->name_at], what);
	set = usher_endpoints_new();
	if (!set)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	if (w->nones++ == 0)
		w->none_since_usec = l->asked_usec;
	is_sure = w->nones > 1 && now - w->none_since_usec >= 2 * clamp_ttl(w, l->ttl);
	if (is_sure)
		members_done(&w->members);
	(void) snprintf(revision, sizeof(revision), "%s, from %s, TTL %us", what, l->server,
			l->ttl);
	offer(w, set, is_sure ? USHER_FRESH : USHER_SUSPECT, revision, l->asked_usec, false);
	come_back_after(w, l->ttl, now);
	return 0;
}

/* Target ".": it says so itself. */
static int conclude_off(struct watch *w, uint64_t now, struct usher_error *reterr)
{
	struct usher_endpoints *set = usher_endpoints_new();

	if (!set)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	members_done(&w->members);
	offer(w, set, USHER_FRESH, "not offered here: the target is \".\"", w->root.asked_usec,
			false);
	come_back_after(w, w->root.ttl, now);
	return 0;
}

static void forget_unused_hosts(struct watch *w)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->host_count; i++) {
		struct host *host = w->hosts[i];

		if (host->is_used) {
			w->hosts[kept++] = host;
			continue;
		}
		for (size_t k = 0; k < WATCH_FAMILIES; k++)
			lookup_done(&host->lookups[k]);
		free(host);
	}
	w->host_count = kept;
}

void watch_conclude(struct watch *w)
{
	struct result result = { 0 };
	struct usher_error why = { 0 };
	uint64_t now = retry_now_usec();
	bool is_none = watch_is_none(w);
	int r;

	if (w->root.end == LOOKUP_FAILED) {
		r = usher_error_set(&why, w->root.code, "%s: %s", w->names[w->name_at],
				usher_error_text(&w->root.why, w->root.code));
	} else if (is_none) {
		r = conclude_none(w, now, &why);
	} else {
		w->nones = 0;
		r = w->is_off ? conclude_off(w, now, &why) : conclude_some(w, &result, now, &why);
	}
	free(result.members);
	if (r < 0)
		fail(w, r, &why, now);
	else
		forget_unused_hosts(w);
}
