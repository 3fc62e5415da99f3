/* A closed loop of the same HTTP request over keep-alive connections, against several servers in
 * turns: the rounds of all of them are interleaved, so that whatever else the machine does falls on
 * each alike.
 *
 *     bench-load CONNECTIONS ROUNDS ROUND-MS REQUEST-FILE NAME SOCKET PID [NAME SOCKET PID]...
 *
 * For each round of each server a line of JSON with the requests answered, the time, and the CPU
 * time that the process PID spent; at the end one for each server with its latencies. */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 512
#define TARGETS_MAX     8
#define REQUEST_MAX     4096
#define RESPONSE_MAX    (1u << 20)
#define SAMPLES_MAX     (1u << 20) /* latencies of one server; later ones are not kept */
#define EVENTS_MAX      256
#define NSEC_PER_SEC    UINT64_C(1000000000)

struct connection {
	int fd;
	bool busy;
	size_t received, expected; /* expected 0: the head is not complete yet */
	uint64_t sent_nsec;
	char *buffer; /* RESPONSE_MAX */
};

struct target {
	const char *name, *socket;
	clockid_t cpu_clock;
	struct connection connections[CONNECTIONS_MAX];
	int epoll_fd;
	uint32_t *samples; /* nanoseconds */
	size_t sample_count;
};

static struct target targets[TARGETS_MAX];
static unsigned connection_count;
static char request[REQUEST_MAX];
static size_t request_size;

static _Noreturn void die(const struct target *target, const char *what)
{
	fprintf(stderr, "bench-load: %s: %s: %s\n", target ? target->name : "-", what,
			strerror(errno)); /* NOLINT */
	exit(1);                          /* NOLINT */
}

static uint64_t clock_nsec(clockid_t clock)
{
	struct timespec now;

	if (clock_gettime(clock, &now) < 0)
		die(NULL, "cannot read the clock of a server; has it ended?");

	return (uint64_t) now.tv_sec * NSEC_PER_SEC + (uint64_t) now.tv_nsec;
}

/* ---- one exchange ---- */

static void connection_send(const struct target *target, struct connection *c, uint64_t now_nsec)
{
	c->busy = true;
	c->received = c->expected = 0;
	c->sent_nsec = now_nsec;
	if (send(c->fd, request, request_size, MSG_NOSIGNAL) != (ssize_t) request_size)
		die(target, "cannot send a request");
}

/* How long the whole answer is, once its head is there; 0: not yet. */
static size_t answer_size(const struct target *target, const struct connection *c)
{
	static const char status[] = "HTTP/1.1 200 ", length[] = "\r\nContent-Length: ";
	const char *end = memmem(c->buffer, c->received, "\r\n\r\n", 4);

	if (!end)
		return 0;
	if (strncmp(c->buffer, status, strlen(status)) != 0) {
		fprintf(stderr, "%.*s\n", (int) c->received, c->buffer); /* NOLINT */
		die(target, "an answer is not 200");
	}
	for (const char *p = c->buffer; p < end; p++)
		if (*p == '\r' && strncasecmp(p, length, strlen(length)) == 0)
			return (size_t) (end + 4 - c->buffer) +
					strtoul(p + strlen(length), NULL, 10);
	die(target, "an answer without Content-Length");
}

/* Read what is there; whether the answer is complete. */
static bool connection_receive(const struct target *target, struct connection *c)
{
	ssize_t size = recv(c->fd, c->buffer + c->received, RESPONSE_MAX - 1 - c->received,
			MSG_DONTWAIT);

	if (size < 0 && errno == EAGAIN)
		return false;
	if (size <= 0)
		die(target, "a server hung up");
	c->received += (size_t) size;
	c->buffer[c->received] = '\0';
	if (c->expected == 0)
		c->expected = answer_size(target, c);
	if (c->expected >= RESPONSE_MAX)
		die(target, "an answer is too long");

	return c->expected > 0 && c->received >= c->expected;
}

/* ---- rounds ---- */

static void target_sample(struct target *target, uint64_t nsec)
{
	if (target->sample_count < SAMPLES_MAX)
		target->samples[target->sample_count++] =
				nsec > UINT32_MAX ? UINT32_MAX : (uint32_t) nsec;
}

/* Keep every connection busy until the time, then wait for what is under way; the answers. */
static uint64_t run_until(struct target *target, uint64_t until_nsec)
{
	struct epoll_event events[EVENTS_MAX];
	unsigned busy = connection_count;
	uint64_t answers = 0;

	for (unsigned i = 0; i < connection_count; i++)
		connection_send(target, &target->connections[i], clock_nsec(CLOCK_MONOTONIC));
	while (busy > 0) {
		int count = epoll_wait(target->epoll_fd, events, EVENTS_MAX, 5000);

		if (count == 0)
			die(target, "no answer within 5 s");
		for (int i = 0; i < count; i++) {
			struct connection *c = events[i].data.ptr;
			uint64_t now_nsec;

			if (!connection_receive(target, c))
				continue;
			now_nsec = clock_nsec(CLOCK_MONOTONIC);
			target_sample(target, now_nsec - c->sent_nsec);
			answers++;
			if (now_nsec < until_nsec)
				connection_send(target, c, now_nsec);
			else
				busy--;
		}
	}

	return answers;
}

static void run_round(struct target *target, uint64_t round_nsec, unsigned round)
{
	uint64_t start_nsec = clock_nsec(CLOCK_MONOTONIC);
	uint64_t cpu_nsec = clock_nsec(target->cpu_clock);
	uint64_t answers = run_until(target, start_nsec + round_nsec);

	cpu_nsec = clock_nsec(target->cpu_clock) - cpu_nsec;
	printf("{\"target\": \"%s\", \"round\": %u, \"requests\": %llu, \"seconds\": %.9f, "
	       "\"cpu_usec\": %.3f}\n",
			target->name, round, (unsigned long long) answers,
			(double) (clock_nsec(CLOCK_MONOTONIC) - start_nsec) / 1e9,
			(double) cpu_nsec / 1e3);
}

static int compare_samples(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

	return x < y ? -1 : x > y;
}

static void tell_latencies(struct target *target)
{
	size_t count = target->sample_count;

	qsort(target->samples, count, sizeof(*target->samples), compare_samples);
	printf("{\"target\": \"%s\", \"p50_usec\": %.3f, \"p99_usec\": %.3f}\n", target->name,
			target->samples[count / 2] / 1e3, target->samples[count * 99 / 100] / 1e3);
}

/* ---- setting up ---- */

static void connection_open(struct target *target, struct connection *c)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };

	(void) snprintf(address.sun_path, sizeof(address.sun_path), "%s", target->socket);
	c->buffer = malloc(RESPONSE_MAX);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (!c->buffer || c->fd < 0 ||
			connect(c->fd, (const struct sockaddr *) &address, sizeof(address)) < 0 ||
			epoll_ctl(target->epoll_fd, EPOLL_CTL_ADD, c->fd, &event) < 0)
		die(target, target->socket);
}

static void target_open(struct target *target, char **argv)
{
	target->name = argv[0];
	target->socket = argv[1];
	target->samples = calloc(SAMPLES_MAX, sizeof(*target->samples));
	target->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!target->samples || target->epoll_fd < 0 ||
			clock_getcpuclockid(
					(pid_t) strtol(argv[2], NULL, 10), &target->cpu_clock) != 0)
		die(target, "cannot set up");
	for (unsigned i = 0; i < connection_count; i++)
		connection_open(target, &target->connections[i]);
	/* Caches, pools and the answer's rendering are not what is measured. */
	(void) run_until(target, clock_nsec(CLOCK_MONOTONIC) + NSEC_PER_SEC / 50);
	target->sample_count = 0;
}

static void load_request(const char *path)
{
	FILE *file = fopen(path, "re");

	if (!file || (request_size = fread(request, 1, sizeof(request), file)) == 0)
		die(NULL, path);
	(void) fclose(file);
}

int main(int argc, char **argv)
{
	unsigned rounds;
	uint64_t round_nsec;
	int target_count = (argc - 5) / 3;

	if (argc < 8 || (argc - 5) % 3 != 0 || target_count > TARGETS_MAX) {
		fprintf(stderr,
				"usage: bench-load CONNECTIONS ROUNDS ROUND-MS REQUEST-FILE "
				"NAME SOCKET PID [NAME SOCKET PID]...\n"); /* NOLINT */
		return 2;
	}
	connection_count = (unsigned) strtoul(argv[1], NULL, 10);
	rounds = (unsigned) strtoul(argv[2], NULL, 10);
	round_nsec = strtoul(argv[3], NULL, 10) * 1000000;
	if (connection_count == 0 || connection_count > CONNECTIONS_MAX)
		die(NULL, "CONNECTIONS is not in 1..512");
	load_request(argv[4]);

	for (int i = 0; i < target_count; i++)
		target_open(&targets[i], argv + 5 + 3 * i);
	for (unsigned round = 0; round < rounds; round++)
		for (int i = 0; i < target_count; i++)
			run_round(&targets[i], round_nsec, round);
	for (int i = 0; i < target_count; i++)
		tell_latencies(&targets[i]);

	return 0;
}
