#include "render-cost.h"

#include "clock.h"

void check_cost_of(const struct context *context, size_t endpoints, struct check_cost *ret)
{
	const struct snapshot *snapshot = context_snapshot(context);
	const struct health *health = context_health(context);

	*ret = (struct check_cost){};
	if (endpoints == 0)
		endpoints = snapshot ? snapshot->count : 0;
	health_cost_estimate(&context_config(context)->health, endpoints, &ret->estimate);
	if (health)
		health_cost(health, &ret->measured);
}

static void add(struct health_cost *sum, const struct health_cost *cost)
{
	sum->endpoints += cost->endpoints;
	sum->probes_per_second += cost->probes_per_second;
	sum->connections_per_second += cost->connections_per_second;
	sum->bytes_per_second += cost->bytes_per_second;
	sum->probes += cost->probes;
	sum->connections += cost->connections;
	sum->bytes += cost->bytes;
}

void check_cost_add(struct check_cost *sum, const struct check_cost *cost)
{
	add(&sum->estimate, &cost->estimate);
	add(&sum->measured, &cost->measured);
}

static void render_rates(struct text *text, const struct health_cost *cost)
{
	text_add_format(text,
			"{\"endpoints\": %zu, \"probes_per_s\": %.4g, \"connections_per_s\": %.4g, \"bytes_per_s\": %.6g",
			cost->endpoints, cost->probes_per_second, cost->connections_per_second,
			cost->bytes_per_second);
}

void render_check_cost(struct text *text, const struct check_cost *cost)
{
	const struct health_cost *measured = &cost->measured;

	text_add_string(text, "\"estimate\": ");
	render_rates(text, &cost->estimate);
	text_add_string(text, "}, \"measured\": ");
	if (measured->probes == 0) {
		text_add_string(text, "null");
		return;
	}
	render_rates(text, measured);
	text_add_format(text, ", \"probes\": %llu, \"connections\": %llu, \"bytes\": %llu}",
			(unsigned long long) measured->probes,
			(unsigned long long) measured->connections,
			(unsigned long long) measured->bytes);
}

static double msec(uint64_t usec)
{
	return (double) usec / (double) USEC_PER_MSEC;
}

void render_prober(struct text *text, const struct directory *directory)
{
	const struct config *config = directory_config(directory);
	struct prober_stats s;

	directory_prober_stats(directory, &s);
	text_add_string(text, "{\"max_rate_per_s\": ");
	if (config && config->prober.max_rate > 0)
		text_add_unsigned(text, config->prober.max_rate);
	else
		text_add_string(text, "null");
	text_add_format(text,
			", \"threads\": %u, \"targets\": %zu, \"under_way\": %zu, \"wanted_per_s\": %.4g, \"rate_per_s\": %.4g, \"stretch\": %.4g, ",
			config ? config->prober.threads : 0, s.count, s.under_way, s.wanted_rate,
			s.rate, s.stretch);
	text_add_format(text,
			"\"probes\": %llu, \"discarded\": %llu, \"local\": %llu, \"connections\": %llu, \"bytes_sent\": %llu, \"bytes_received\": %llu, \"standstills\": %llu, ",
			(unsigned long long) s.probes, (unsigned long long) s.discarded,
			(unsigned long long) s.local, (unsigned long long) s.connections,
			(unsigned long long) s.bytes_sent, (unsigned long long) s.bytes_received,
			(unsigned long long) s.standstills);
	text_add_format(text, "\"late_ms\": {\"p50\": %.3f, \"p99\": %.3f, \"max\": %.3f}}",
			msec(s.late_p50_usec), msec(s.late_p99_usec), msec(s.late_max_usec));
}
