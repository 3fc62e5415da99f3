/* Metrics of checks and of what they found. */

#include "clock.h"
#include "health.h"
#include "inside.h"
#include "metrics.h"

static size_t series_count(const struct server *s)
{
	size_t count = directory_count(s->directory);

	return count < METRICS_SERVICES_MAX ? count : METRICS_SERVICES_MAX;
}

/* Of a service whose health is observed; else NULL. */
static const struct snapshot *observed_at(const struct server *s, size_t i)
{
	const struct snapshot *snapshot = context_snapshot(directory_at(s->directory, i));

	return snapshot && snapshot->has_health ? snapshot : NULL;
}

static void add_states(struct text *text, const struct server *s)
{
	static const char name[] = "usher_health_endpoints";

	metric_head(text, name, "gauge", "Endpoints by what was observed of them.");
	for (size_t i = 0; i < series_count(s); i++) {
		const struct snapshot *snapshot = observed_at(s, i);
		uint64_t counts[USHER_HEALTH_EJECTED + 1] = {};

		for (size_t k = 0; snapshot && k < snapshot->count; k++)
			counts[snapshot->entries[k].health]++;
		for (unsigned k = 0; snapshot && k < ELEMENTS(counts); k++) {
			text_add_format(text, "%s{service=", name);
			text_add_json(text, context_service(directory_at(s->directory, i)));
			text_add_format(text, ",state=\"%s\"} ",
					usher_health_to_string((enum usher_health) k));
			metric_value(text, counts[k]);
		}
	}
}

static void add_panics(struct text *text, const struct server *s)
{
	static const char name[] = "usher_health_panic";

	metric_head(text, name, "gauge",
			"1 while endpoints are chosen that are not well, for too few are.");
	for (size_t i = 0; i < series_count(s); i++) {
		const struct snapshot *snapshot = observed_at(s, i);

		if (!snapshot)
			continue;
		metric_labelled(text, name, "service",
				context_service(directory_at(s->directory, i)));
		metric_value(text, snapshot->panic);
	}
}

static const struct cost_metric {
	const char *name, *help;
	size_t offset; /* in struct health_cost */
} cost_metrics[] = {
	{ "usher_health_probes_total", "Probes of the service's endpoints.",
			offsetof(struct health_cost, probes) },
	{ "usher_health_connections_total", "Connections that those opened.",
			offsetof(struct health_cost, connections) },
	{ "usher_health_bytes_total", "Bytes of their protocol, both ways.",
			offsetof(struct health_cost, bytes) },
};

static void add_costs(struct text *text, const struct server *s)
{
	size_t count = series_count(s);
	autofree struct health_cost *costs = calloc(count + 1, sizeof(*costs));

	if (!costs) {
		text->failed = true;
		return;
	}
	for (size_t i = 0; i < count; i++) {
		const struct health *health = context_health(directory_at(s->directory, i));

		if (health)
			health_cost(health, &costs[i]);
	}
	for (size_t m = 0; m < ELEMENTS(cost_metrics); m++) {
		const struct cost_metric *metric = &cost_metrics[m];

		metric_head(text, metric->name, "counter", metric->help);
		for (size_t i = 0; i < count; i++) {
			const void *at = (const char *) &costs[i] + metric->offset;

			if (!observed_at(s, i))
				continue;
			metric_labelled(text, metric->name, "service",
					context_service(directory_at(s->directory, i)));
			metric_value(text, *(const uint64_t *) at);
		}
	}
}

void metrics_health(struct text *text, const struct server *s)
{
	add_states(text, s);
	add_panics(text, s);
	add_costs(text, s);
}

static void add_number(struct text *text, const char *name, const char *type, const char *help,
		double value)
{
	metric_head(text, name, type, help);
	text_add_format(text, "%s %.15g\n", name, value);
}

static void add_lateness(struct text *text, const struct prober_stats *p)
{
	static const char name[] = "usher_probe_late_seconds";
	const struct {
		const char *quantile;
		uint64_t usec;
	} values[] = { { "0.5", p->late_p50_usec }, { "0.99", p->late_p99_usec },
		{ "1", p->late_max_usec } };

	metric_head(text, name, "gauge",
			"By how much probes begin after they are due, in the last minute or so.");
	for (size_t i = 0; i < ELEMENTS(values); i++) {
		metric_labelled(text, name, "quantile", values[i].quantile);
		text_add_format(text, "%.6f\n", (double) values[i].usec / (double) USEC_PER_SEC);
	}
}

void metrics_prober(struct text *text, const struct server *s)
{
	struct prober_stats p;

	directory_prober_stats(s->directory, &p);
	add_number(text, "usher_probe_targets", "gauge", "Endpoints that are asked in turn.",
			(double) p.count);
	add_number(text, "usher_probe_under_way", "gauge", "Probes that wait for their answer.",
			(double) p.under_way);
	add_number(text, "usher_probe_wanted_per_second", "gauge",
			"Probes a second that the intervals ask for.", p.wanted_rate);
	add_number(text, "usher_probe_allowed_per_second", "gauge",
			"Probes a second that prober.max_rate leaves.", p.wanted_rate / p.stretch);
	add_number(text, "usher_probe_stretch", "gauge",
			"What intervals are multiplied with because of prober.max_rate.",
			p.stretch);
	add_number(text, "usher_probe_total", "counter", "Probes carried out.", (double) p.probes);
	add_number(text, "usher_probe_discarded_total", "counter",
			"Results that came too late to be believed.", (double) p.discarded);
	add_number(text, "usher_probe_local_total", "counter",
			"Probes that failed by this node's fault, and prove nothing.",
			(double) p.local);
	add_number(text, "usher_probe_connections_total", "counter", "Connections opened.",
			(double) p.connections);
	add_number(text, "usher_probe_sent_bytes_total", "counter", "Bytes of the protocol sent.",
			(double) p.bytes_sent);
	add_number(text, "usher_probe_received_bytes_total", "counter",
			"Bytes of the protocol received.", (double) p.bytes_received);
	add_number(text, "usher_probe_standstills_total", "counter",
			"Times that usherd found it had stood still, and asked everybody again.",
			(double) p.standstills);
	add_lateness(text, &p);
}
