#include "prober.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "clock.h"
#include "lateness.h"
#include "log.h"
#include "ownership.h"
#include "shard.h"

#define SHARDS_MAX  64
#define RESULTS_MAX 256 /* in one call of on_results */
/* A rate in units that add up without rounding: probes in a million seconds. */
#define RATE_UNITS_PER_SECOND 1000000.0
/* When the stretch has fallen to less than this share of what it was, those who wait are spread
 * anew: they would wait for a time that was right before. */
#define RESPREAD 0.9

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
	struct lateness lateness;

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
	lateness_add(&p->lateness, record->result.late_usec, now_usec);
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
		if (++p->result_count == RESULTS_MAX)
			prober_deliver(p);
	}
	prober_deliver(p);

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

/* ---- what the core calls ---- */

int prober_new(struct inbox *inbox, const struct prober_config *config,
		prober_on_results on_results, void *userdata, struct prober **ret)
{
	struct prober *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->inbox = inbox;
	p->on_results = on_results;
	p->userdata = userdata;
	p->config = *config;
	p->threads = config->threads > SHARDS_MAX ? SHARDS_MAX : config->threads;
	if (p->threads == 0)
		p->threads = 1;
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
	ret->rate = ret->wanted_rate / ret->stretch;
	ret->late_p50_usec = lateness_quantile(&p->lateness, 0.50);
	ret->late_p99_usec = lateness_quantile(&p->lateness, 0.99);
	ret->late_max_usec = lateness_max(&p->lateness);
}

void probe_stats(const struct probe *probe, struct probe_stats *ret)
{
	*ret = probe->stats;
}
