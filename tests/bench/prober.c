/* The prober alone, with a core that only counts: what asking so many endpoints costs.
 *
 *     bench-prober ADDRESS FIRST-PORT COUNT INTERVAL-MS keep|new
 *
 * Asks COUNT ports in a row, GET /health, until its standard input ends. Says "asking" once each
 * has been asked; from the first line on its standard input on it counts, and tells at the end what
 * it has counted, in one line of JSON. */

#include "prober.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <usher/endpoint.h>

#include "check.h"

#define SAMPLES_MAX 4000000

struct bench {
	sd_event *event;
	struct prober *prober;
	size_t count, asked, results, good;
	bool *seen;
	bool counting;
	uint32_t *late_usec;
	struct verdict fault; /* the last that was not good */
};

static _Noreturn void die(const char *what, int r)
{
	fprintf(stderr, "bench-prober: %s: %s\n", what, strerror(-r)); /* NOLINT */
	exit(1);                                                       /* NOLINT */
}

static void bench_count(struct bench *b, const struct probe_result *result)
{
	if (b->results == SAMPLES_MAX)
		die("too many results", -E2BIG);
	b->late_usec[b->results++] = (uint32_t) result->late_usec;
	if (result->verdict.reason == PROBE_OK)
		b->good++;
	else
		b->fault = result->verdict;
}

static void on_results(void *userdata, const struct probe_result *results, size_t count)
{
	struct bench *b = userdata;

	for (size_t i = 0; i < count; i++) {
		bool *seen = results[i].userdata;

		if (b->counting)
			bench_count(b, &results[i]);
		if (*seen)
			continue;
		*seen = true;
		if (++b->asked == b->count) {
			(void) puts("asking");
			(void) fflush(stdout);
		}
	}
}

static int on_input(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct bench *b = userdata;
	char line[64];

	(void) source;
	(void) events;
	b->counting = true;
	if (read(fd, line, sizeof(line)) <= 0)
		(void) sd_event_exit(b->event, 0);
	return 0;
}

static struct usher_endpoints *endpoints_at(const char *address, unsigned first, unsigned count)
{
	struct usher_endpoints *set = usher_endpoints_new();

	for (unsigned i = 0; set && i < count; i++) {
		struct usher_endpoint endpoint = USHER_ENDPOINT_INIT;
		char id[16];
		int r;

		(void) snprintf(id, sizeof(id), "e%u", i);
		endpoint.id = id;
		endpoint.address = address;
		endpoint.port = (uint16_t) (first + i);
		r = usher_endpoints_add(set, &endpoint, NULL);
		if (r < 0)
			die("endpoints", r);
	}
	if (!set)
		die("endpoints", -ENOMEM);
	usher_endpoints_seal(set);
	return set;
}

static void bench_ask(struct bench *b, const struct usher_endpoints *set, uint64_t interval_usec,
		bool keep_alive)
{
	const struct probe_timing timing = {
		.interval_usec = interval_usec, .timeout_usec = interval_usec, .jitter = 0.1
	};
	struct status_range expected = { 200, 200 };
	char path[] = "/health", method[] = "GET";
	const struct check_config config = { .kind = CHECK_HTTP,
		.path = path,
		.method = method,
		.expect = &expected,
		.expect_count = 1,
		.keep_alive = keep_alive };
	struct check *check;
	int r;

	r = check_new(&config, &check, NULL);
	for (size_t i = 0; r >= 0 && i < b->count; i++) {
		struct target *target;
		struct probe *probe;

		r = target_new(check, "bench", set, i, &target, NULL);
		if (r >= 0)
			r = prober_add(b->prober, target, &timing, &b->seen[i], &probe);
	}
	if (r < 0)
		die("the check", r);
	check_unref(check);
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

	return x < y ? -1 : x > y;
}

static void bench_tell(struct bench *b)
{
	size_t n = b->results;
	struct prober_stats stats;

	prober_stats(b->prober, &stats);
	qsort(b->late_usec, n, sizeof(*b->late_usec), compare);
	printf("{\"counted\": %zu, \"good\": %zu, \"fault\": \"%s\", \"discarded\": %llu, \"connections\": "
	       "%llu, \"late_p50_usec\": %u, \"late_p99_usec\": %u, \"late_max_usec\": %u}\n",
			n, b->good, b->fault.text, (unsigned long long) stats.discarded,
			(unsigned long long) stats.connections, n ? b->late_usec[n / 2] : 0,
			n ? b->late_usec[n * 99 / 100] : 0, n ? b->late_usec[n - 1] : 0);
}

static void use_all_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void) setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
	const struct prober_config config = { .threads = 1 };
	struct usher_endpoints *set;
	struct inbox *inbox;
	struct bench b = {};
	int r;

	if (argc != 6) {
		fprintf(stderr,
				"usage: bench-prober ADDRESS FIRST-PORT COUNT INTERVAL-MS " /* NOLINT
											     */
				"keep|new\n");
		return 2;
	}
	use_all_descriptors();
	b.count = strtoul(argv[3], NULL, 10);
	b.seen = calloc(b.count, sizeof(*b.seen));
	b.late_usec = calloc(SAMPLES_MAX, sizeof(*b.late_usec));
	if (!b.seen || !b.late_usec)
		die("set up", -ENOMEM);
	r = sd_event_new(&b.event);
	if (r >= 0)
		r = inbox_new(b.event, &inbox);
	if (r >= 0)
		r = prober_new(inbox, &config, on_results, &b, &b.prober);
	if (r >= 0)
		r = sd_event_add_io(b.event, NULL, STDIN_FILENO, EPOLLIN, on_input, &b);
	if (r < 0)
		die("set up", r);

	set = endpoints_at(argv[1], (unsigned) strtoul(argv[2], NULL, 10), (unsigned) b.count);
	bench_ask(&b, set, strtoul(argv[4], NULL, 10) * 1000, strcmp(argv[5], "keep") == 0);
	r = sd_event_loop(b.event);
	bench_tell(&b);

	prober_free(b.prober);
	inbox_free(inbox);
	sd_event_unref(b.event);
	usher_endpoints_unref(set);
	free(b.seen);
	free(b.late_usec);
	return r < 0;
}
