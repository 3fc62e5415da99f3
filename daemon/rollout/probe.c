/* Whether an instance answers. */

#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "errand.h"
#include "http-call.h"
#include "ownership.h"

static enum probe_result result_of(int r)
{
	switch (-r) {
	case 0:
		return PROBE_UP;
	case ECONNREFUSED:
		return PROBE_REFUSED;
	case ETIMEDOUT:
		return PROBE_TIMEOUT;
	case EHOSTUNREACH:
	case ENETUNREACH:
		return PROBE_UNREACHABLE;
	default:
		return PROBE_FAULT;
	}
}

/* Wait for a connection that is on its way. */
static int connect_wait(int fd, uint64_t until_usec)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLOUT };
	socklen_t size = sizeof(int);
	int fault = 0, r;

	do {
		uint64_t now = clock_boot_usec();
		int left = now < until_usec ? (int) ((until_usec - now) / USEC_PER_MSEC + 1) : 0;

		r = poll(&pollfd, 1, left);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	if (r == 0)
		return -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &fault, &size) < 0)
		return -errno;
	return -fault;
}

static int connect_one(const struct addrinfo *ai, uint64_t until_usec)
{
	autoclose int fd = -1;

	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, ai->ai_addr, ai->ai_addrlen) == 0)
		return 0;
	return errno == EINPROGRESS ? connect_wait(fd, until_usec) : -errno;
}

static int connect_any(const struct probe_target *target, const char **ret_reason)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	uint64_t until = clock_boot_usec() + target->timeout_usec;
	struct addrinfo *list = NULL;
	char port[8];
	int code, r = -EHOSTUNREACH;

	(void) snprintf(port, sizeof(port), "%u", (unsigned) target->port);
	code = getaddrinfo(target->address, port, &hints, &list);
	if (code != 0) {
		*ret_reason = gai_strerror(code);
		return -EHOSTUNREACH;
	}
	for (const struct addrinfo *ai = list; ai && r < 0; ai = ai->ai_next)
		r = connect_one(ai, until);
	freeaddrinfo(list);
	*ret_reason = r < 0 ? strerrordesc_np(-r) : NULL;
	return r;
}

static void probe_tcp(const struct probe_target *target, struct probe_outcome *ret)
{
	const char *reason = NULL;
	int r;

	r = connect_any(target, &reason);
	ret->result = result_of(r);
	if (r >= 0)
		(void) snprintf(ret->text, sizeof(ret->text), "%.100s port %u accepts connections",
				target->address, (unsigned) target->port);
	else
		(void) snprintf(ret->text, sizeof(ret->text),
				"cannot connect to %.100s port %u: %s", target->address,
				(unsigned) target->port, reason);
}

static void probe_http(const struct probe_target *target, struct probe_outcome *ret)
{
	bool ipv6 = strchr(target->address, ':') != NULL;
	struct usher_error err = {};
	autofree char *url = NULL;
	char shown[256];
	int status;

	if (asprintf(&url, "%s://%s%s%s:%u%s%s", target->secure ? "https" : "http", ipv6 ? "[" : "",
			    target->address, ipv6 ? "]" : "", (unsigned) target->port,
			    target->http_path[0] == '/' ? "" : "/", target->http_path) < 0) {
		url = NULL;
		ret->result = PROBE_FAULT;
		(void) snprintf(ret->text, sizeof(ret->text), "out of memory");
		return;
	}

	status = http_call(&(const struct http_call){ .url = url,
					   .timeout_usec = target->timeout_usec,
					   .any_certificate = true },
			&err);
	if (status < 0) {
		ret->result = result_of(status);
		(void) snprintf(ret->text, sizeof(ret->text), "%.255s",
				usher_error_text(&err, status));
		return;
	}
	ret->result = status / 100 == 2 ? PROBE_UP : PROBE_HTTP_STATUS;
	(void) snprintf(ret->text, sizeof(ret->text), "GET %.200s answered %d",
			http_call_show(url, shown, sizeof(shown)), status);
}

void probe_run(const struct probe_target *target, struct probe_outcome *ret)
{
	*ret = (struct probe_outcome){};
	if (target->http_path)
		probe_http(target, ret);
	else
		probe_tcp(target, ret);
}

/* ---- in a worker thread ---- */

struct probe {
	struct errand errand;
	struct probe_target target;
	struct probe_outcome outcome;
	char *address, *path; /* the target's */
	probe_done done;
};

static void probe_on_run(struct errand *errand)
{
	struct probe *probe = (struct probe *) errand;

	probe_run(&probe->target, &probe->outcome);
}

static void probe_on_finished(void *userdata, struct errand *errand)
{
	struct probe *probe = (struct probe *) errand;

	probe->done(userdata, &probe->outcome);
}

static void probe_release(struct errand *errand)
{
	struct probe *probe = (struct probe *) errand;

	free(probe->address);
	free(probe->path);
	free(probe);
}

int probe_start(struct worker *worker, const struct probe_target *target, probe_done done,
		void *userdata, struct probe **ret)
{
	struct probe *probe = calloc(1, sizeof(*probe));
	int r;

	if (!probe)
		return -ENOMEM;
	*probe = (struct probe){ .errand = { .run = probe_on_run,
						 .finished = probe_on_finished,
						 .release = probe_release,
						 .userdata = userdata },
		.target = *target,
		.outcome = { PROBE_FAULT, "usherd is stopping" },
		.done = done };
	probe->address = strdup(target->address);
	if (target->http_path)
		probe->path = strdup(target->http_path);
	if (!probe->address || (target->http_path && !probe->path)) {
		probe_release(&probe->errand);
		return -ENOMEM;
	}
	probe->target.address = probe->address;
	probe->target.http_path = probe->path;

	r = errand_start(&probe->errand, worker);
	if (r >= 0)
		*ret = probe;
	return r;
}

struct probe *probe_forget(struct probe *probe)
{
	return probe ? errand_forget(&probe->errand) : NULL;
}
