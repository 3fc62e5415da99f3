#include "prober.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "clock.h"
#include "lateness.h"
#include "log.h"
#include "meter.h"
#include "ownership.h"
#include "shard.h"
#include "trouble.h"

#define SHARDS_MAX  64
#define RESULTS_MAX 256 /* in one call of on_results */
/* A rate in units that add up without rounding: probes in a million seconds. */
#define RATE_UNITS_PER_SECOND 1000000.0
/* When the stretch has fallen to less than this share of what it was, those who wait are spread
 * anew: they would wait for a time that was right before. */
#define RESPREAD 0.9
/* Descriptors that are left to consumers, sources and the store, of those that there may be: so
 * many, or a quarter. Of what is left a shard needs some to keep going. */
#define RESERVE_LEAST 128
#define RESERVE_PART  4
#define ROOM_LEAST    16
#define ROOM_MAX      (4 * (size_t) PROBER_PROBES_MAX)
/* What is told of how the prober keeps up: how often it is looked at, and for how long it must be
 * over to be told so. Less than so many results say nothing. */
#define LOOK_USEC    UINT64_C(1000000)
#define QUIET_USEC   UINT64_C(10000000)
#define LATE_PROBES  20
#define LATE_LOOKS   5    /* that found one late: a moment without time is no trouble */
#define PER_INTERVAL 1000 /* units of how late a probe is, measured by its interval */

struct prober {
	struct inbox *inbox;
	prober_on_results on_results;
	void *userdata;
	struct prober_config config;
	struct shard_rates rates;
	struct shard *shards[SHARDS_MAX];
	size_t shard_count, next_shard, threads;

	uint64_t wanted; /* rate units */
	double spread_stretch;
	bool is_capped; /* and it has been said */
	struct prober_stats stats;
	struct lateness lateness, relative; /* in microseconds; in PER_INTERVAL */
	struct meter meter;                 /* of probes */
	uint64_t looked_usec;
	struct trouble crowded, late;
	bool saw_late;       /* since then */
	unsigned late_looks; /* as long as one of a hundred is */

	/* while a batch is delivered */
	struct probe_result results[RESULTS_MAX];
	size_t result_count;
};

/* ---- rates ---- */

static uint64_t rate_units(uint64_t interval_usec)
{
	return (uint64_t) (RATE_UNITS_PER_SECOND * (double) USEC_PER_SEC) / interval_usec;
}

static double prober_wanted_rate(const struct prober *p)
{
	return (double) p->wanted / RATE_UNITS_PER_SECOND;
}

static double prober_stretch(const struct prober *p)
{
	double wanted = prober_wanted_rate(p);

	return p->config.max_rate > 0 && wanted > p->config.max_rate ? wanted / p->config.max_rate
								     : 1;
}

/* Said when it begins and, once there is some room again, when it ends. */
static void prober_tell_cap(struct prober *p)
{
	double wanted = prober_wanted_rate(p), cap = p->config.max_rate;

	if (!p->is_capped && p->stats.stretch > 1) {
		p->is_capped = true;
		log_notice(NULL,
				"Probes ask for %.1f a second, prober.max_rate allows %.0f: all "
				"intervals are stretched",
				wanted, cap);
	} else if (p->is_capped && p->stats.stretch <= 1 && (cap <= 0 || wanted < 0.9 * cap)) {
		p->is_capped = false;
		log_notice(NULL,
				"Probes ask for %.1f a second, which prober.max_rate allows again: "
				"intervals are as configured",
				wanted);
	}
}

static void prober_set_rates(struct prober *p)
{
	double shards = (double) (p->shard_count ? p->shard_count : 1);

	p->stats.stretch = prober_stretch(p);
	atomic_store_explicit(&p->rates.stretch, p->stats.stretch, memory_order_relaxed);
	atomic_store_explicit(
			&p->rates.max_rate, p->config.max_rate / shards, memory_order_relaxed);
	atomic_store_explicit(&p->rates.burst, PROBER_BURST / shards, memory_order_relaxed);

	if (p->stats.stretch > p->spread_stretch)
		p->spread_stretch = p->stats.stretch;
	if (p->stats.stretch < RESPREAD * p->spread_stretch) {
		p->spread_stretch = p->stats.stretch;
		for (size_t i = 0; i < p->shard_count; i++)
			shard_respread(p->shards[i]);
	}
	prober_tell_cap(p);
}

static void prober_change_wanted(struct prober *p, uint64_t less, uint64_t more)
{
	p->wanted += more;
	p->wanted -= less;
	prober_set_rates(p);
}

/* ---- results ---- */

static void prober_deliver(struct prober *p)
{
	size_t count = p->result_count;

	if (count > 0)
		p->on_results(p->userdata, p->results, count);
	p->result_count = 0;
}

static void count_lateness(struct prober *p, const struct probe_result *result, uint64_t now_usec)
{
	double interval = (double) result->probe->interval_usec;
	uint64_t relative = (uint64_t) ((double) result->late_usec * PER_INTERVAL / interval);

	lateness_add(&p->lateness, result->late_usec, now_usec);
	lateness_add(&p->relative, relative, now_usec);
	p->saw_late |= relative > PER_INTERVAL;
}

static void prober_count(struct prober *p, const struct outbox_record *record, uint64_t now_usec)
{
	struct probe_stats *stats = &record->result.probe->stats;

	stats->connections += record->connections;
	stats->bytes_sent += record->bytes_sent;
	stats->bytes_received += record->bytes_received;
	p->stats.connections += record->connections;
	p->stats.bytes_sent += record->bytes_sent;
	p->stats.bytes_received += record->bytes_received;
	if (record->discarded) {
		p->stats.discarded += !record->result.probe->removed;
		return;
	}
	stats->probes++;
	p->stats.probes++;
	p->stats.local += record->result.verdict.reason == PROBE_LOCAL;
	count_lateness(p, &record->result, now_usec);
	meter_add(&p->meter, 1, now_usec);
}

/* ---- how it keeps up ---- */

static bool prober_is_crowded(const struct prober *p)
{
	for (size_t i = 0; i < p->shard_count; i++) {
		struct shard_counts counts;

		shard_counts(p->shards[i], &counts);
		if (counts.crowded_usec > p->looked_usec)
			return true;
	}
	return false;
}

static void prober_tell_room(struct prober *p, uint64_t now_usec)
{
	int news = trouble_note(&p->crowded, prober_is_crowded(p), QUIET_USEC, now_usec);

	if (news > 0)
		log_warning(NULL,
				"Probes have all of the %zu descriptors open that they may have: those that are due wait for one, and are late; raise LimitNOFILE, or shorten the timeouts of checks that get no answer",
				p->stats.room);
	else if (news < 0)
		log_notice(NULL, "Probes find room within their %zu descriptors again",
				p->stats.room);
}

static bool prober_is_late(struct prober *p)
{
	const struct lateness *l = &p->relative;
	uint64_t count = l->windows[0].count + l->windows[1].count;

	p->late_looks += p->saw_late;
	p->saw_late = false;
	if (count < LATE_PROBES || lateness_quantile(l, 0.99) <= PER_INTERVAL)
		p->late_looks = 0;
	return p->late_looks >= LATE_LOOKS;
}

static void prober_tell_late(struct prober *p, uint64_t now_usec)
{
	double late_sec = (double) lateness_quantile(&p->lateness, 0.99) / (double) USEC_PER_SEC;
	int news = trouble_note(&p->late, prober_is_late(p), QUIET_USEC, now_usec);

	if (news > 0)
		log_warning(NULL,
				"Probes begin late by more than their interval (up to %.3g s at 99%% of them): outages are noticed later than configured; lengthen intervals, or give usherd more CPU time or prober.threads",
				late_sec);
	else if (news < 0)
		log_notice(NULL,
				"Probes begin within their intervals again (at most %.3g s late at 99%% of them)",
				late_sec);
}

/* Now and then, for it costs a way through the histogram. */
static void prober_look(struct prober *p, uint64_t now_usec)
{
	if (now_usec < p->looked_usec + LOOK_USEC)
		return;
	prober_tell_room(p, now_usec);
	prober_tell_late(p, now_usec);
	p->looked_usec = now_usec;
}

static void prober_on_batch(void *userdata, const struct outbox_record *records, size_t count,
		struct probe *gone, uint64_t lost)
{
	struct prober *p = userdata;
	uint64_t now = clock_boot_usec();

	p->stats.discarded += lost;
	for (size_t i = 0; i < count; i++) {
		struct probe *probe = records[i].result.probe;
		struct probe_result *result = &p->results[p->result_count];

		prober_count(p, &records[i], now);
		if (records[i].discarded || probe->removed)
			continue;
		*result = records[i].result;
		result->userdata = probe->userdata;
		result->connections = records[i].connections;
		result->bytes = records[i].bytes_sent + records[i].bytes_received;
		if (++p->result_count == RESULTS_MAX)
			prober_deliver(p);
	}
	prober_deliver(p);
	prober_look(p, now);

	while (gone) {
		struct probe *next = gone->outbox_next;

		probe_free(gone);
		gone = next;
	}
}

/* ---- shards ---- */

/* One more, while there are fewer than wanted, for probes that are spread over all. */
static int prober_open_shard(struct prober *p)
{
	int r;

	r = shard_new(p->inbox, &p->rates, prober_on_batch, p, &p->shards[p->shard_count]);
	if (r < 0)
		return r;
	p->shard_count++;
	prober_set_rates(p);
	return 0;
}

static int prober_choose_shard(struct prober *p, struct shard **ret)
{
	size_t i = p->next_shard;
	int r;

	if (i >= p->shard_count) {
		r = prober_open_shard(p);
		if (r < 0 && p->shard_count == 0)
			return r;
		if (r < 0)
			i = 0;
	}
	p->next_shard = (i + 1) % p->threads;
	*ret = p->shards[i];
	return 0;
}

/* Of the descriptors that there may be. */
static size_t room_for_probes(void)
{
	struct rlimit limit;
	size_t most, reserve;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return ROOM_LEAST;
	most = limit.rlim_cur < ROOM_MAX ? (size_t) limit.rlim_cur : ROOM_MAX;
	reserve = most / RESERVE_PART > RESERVE_LEAST ? most / RESERVE_PART : RESERVE_LEAST;
	return most > reserve + ROOM_LEAST ? most - reserve : ROOM_LEAST;
}

/* ---- what the core calls ---- */

int prober_new(struct inbox *inbox, const struct prober_config *config,
		prober_on_results on_results, void *userdata, struct prober **ret)
{
	struct prober *p = calloc(1, sizeof(*p));
	size_t room;

	if (!p)
		return -ENOMEM;
	p->inbox = inbox;
	p->on_results = on_results;
	p->userdata = userdata;
	p->config = *config;
	p->threads = config->threads > SHARDS_MAX ? SHARDS_MAX : config->threads;
	if (p->threads == 0)
		p->threads = 1;
	room = room_for_probes();
	if (p->threads > room / ROOM_LEAST)
		p->threads = room / ROOM_LEAST;
	assert(p->threads > 0);
	p->rates.room = room / p->threads;
	p->stats.room = p->rates.room * p->threads;
	p->spread_stretch = 1;
	prober_set_rates(p);
	*ret = p;
	return 0;
}

struct prober *prober_free(struct prober *p)
{
	if (!p)
		return NULL;
	assert(p->result_count == 0);
	for (size_t i = 0; i < p->shard_count; i++)
		shard_free(p->shards[i]);
	free(p);
	return NULL;
}

void prober_configure(struct prober *p, const struct prober_config *config)
{
	if (config->threads != p->config.threads)
		log_notice(NULL,
				"prober.threads is %u now; the prober goes on with %zu until usherd "
				"is started again",
				config->threads, p->threads);
	p->config = *config;
	prober_set_rates(p);
}

int prober_add(struct prober *p, struct target *target, const struct probe_timing *timing,
		void *userdata, struct probe **ret)
{
	const struct engine *engine = engine_of(target);
	autofree struct probe *probe = NULL;
	struct shard *shard;
	int r;

	assert(engine);
	assert(timing->interval_usec > 0);
	assert(timing->timeout_usec > 0);

	if (p->stats.count == PROBER_PROBES_MAX)
		return -E2BIG;
	probe = calloc(1, sizeof(*probe));
	if (!probe)
		return -ENOMEM;
	r = prober_choose_shard(p, &shard);
	if (r < 0)
		return r;

	*probe = (struct probe){ .attempt.target = target,
		.engine = engine,
		.target = target,
		.userdata = userdata,
		.timing = *timing,
		.interval_usec = timing->interval_usec };
	p->stats.count++;
	prober_change_wanted(p, 0, rate_units(timing->interval_usec));
	*ret = probe;
	shard_add(shard, take(probe));
	return 0;
}

void prober_remove(struct prober *p, struct probe *probe)
{
	assert(!probe->removed);
	probe->removed = true;
	for (size_t i = 0; i < p->result_count; i++) {
		if (p->results[i].probe != probe)
			continue;
		p->results[i].probe = NULL;
		p->results[i].userdata = NULL;
	}
	p->stats.count--;
	prober_change_wanted(p, rate_units(probe->interval_usec), 0);
	shard_remove(probe->shard, probe);
}

void prober_set_interval(struct prober *p, struct probe *probe, uint64_t interval_usec)
{
	assert(interval_usec > 0);
	if (interval_usec == probe->interval_usec)
		return;
	prober_change_wanted(p, rate_units(probe->interval_usec), rate_units(interval_usec));
	probe->interval_usec = interval_usec;
	shard_set_interval(probe->shard, probe, interval_usec);
}

void prober_stats(struct prober *p, struct prober_stats *ret)
{
	*ret = p->stats;
	for (size_t i = 0; i < p->shard_count; i++) {
		struct shard_counts counts;

		shard_counts(p->shards[i], &counts);
		ret->under_way += counts.under_way;
		ret->standstills += counts.standstills;
	}
	ret->wanted_rate = prober_wanted_rate(p);
	ret->rate = meter_per_second(&p->meter, clock_boot_usec());
	ret->late_p50_usec = lateness_quantile(&p->lateness, 0.50);
	ret->late_p99_usec = lateness_quantile(&p->lateness, 0.99);
	ret->late_max_usec = lateness_max(&p->lateness);
}

void probe_stats(const struct probe *probe, struct probe_stats *ret)
{
	*ret = probe->stats;
}
