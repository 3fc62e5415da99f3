/* What the checks of a service cost: before they run, and while they do. */

#include <string.h>

#include "clock.h"
#include "health-private.h"

/* Of what nobody can know before an answer comes: a status line, the usual headers, a few words. */
#define ANSWER_BYTES 200
/* The rest of a request: names of headers, the version, ends of lines. */
#define HTTP_REQUEST_BYTES 90
#define HOST_BYTES         21 /* an IPv4 address with its port */
/* HTTP/2: preface, settings, a compressed header, a frame of data; and back. */
#define GRPC_BYTES 450

static size_t length_of(const char *text)
{
	return text ? strlen(text) : 0;
}

/* Of one check, both ways, as far as the configuration tells. */
static double estimated_bytes(const struct check_config *check)
{
	switch (check->kind) {
	case CHECK_HTTP:
		return (double) (HTTP_REQUEST_BYTES + ANSWER_BYTES + length_of(check->path) +
				(check->host ? strlen(check->host) : HOST_BYTES));
	case CHECK_TCP:
		return (double) (length_of(check->send) + length_of(check->expect_text));
	case CHECK_GRPC:
		return (double) (GRPC_BYTES + length_of(check->grpc_service));
	case CHECK_EXEC:
	case CHECK_NONE:
		break;
	}
	return 0;
}

/* Of one check; those that are kept alive are opened once, and not again as long as all is well. */
static double estimated_connections(const struct check_config *check)
{
	switch (check->kind) {
	case CHECK_HTTP:
	case CHECK_TCP:
		return check_config_keeps_alive(check) ? 0 : 1;
	case CHECK_GRPC:
		return 1;
	case CHECK_EXEC:
	case CHECK_NONE:
		break;
	}
	return 0;
}

static double per_second(uint64_t interval_usec)
{
	return (double) USEC_PER_SEC / (double) interval_usec;
}

void health_cost_estimate(
		const struct health_config *config, size_t endpoints, struct health_cost *ret)
{
	double rate = 0;

	if (config->check.kind != CHECK_NONE)
		rate = (double) endpoints * per_second(config->interval_usec);
	*ret = (struct health_cost){ .endpoints = endpoints,
		.probes_per_second = rate,
		.connections_per_second = rate * estimated_connections(&config->check),
		.bytes_per_second = rate * estimated_bytes(&config->check) };
}

static void add_watched(struct health_cost *cost, const struct watched *w)
{
	struct probe_stats stats;

	if (!w->probe)
		return;
	probe_stats(w->probe, &stats);
	cost->probes += stats.probes;
	cost->connections += stats.connections;
	cost->bytes += stats.bytes_sent + stats.bytes_received;
}

void health_cost(const struct health *h, struct health_cost *ret)
{
	uint64_t now_usec = clock_boot_usec();

	*ret = (struct health_cost){ .endpoints = h->count,
		.probes_per_second = meter_per_second(&h->probes, now_usec),
		.connections_per_second = meter_per_second(&h->connections, now_usec),
		.bytes_per_second = meter_per_second(&h->bytes, now_usec),
		.probes = h->past_probes,
		.connections = h->past_connections,
		.bytes = h->past_bytes };
	for (size_t i = 0; i < h->count; i++)
		add_watched(ret, h->watched[i]);
}
