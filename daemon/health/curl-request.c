/* One attempt of a probe as a transfer of libcurl's. */

#include "curl-request.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "expectation.h"
#include "ownership.h"
#include "probe-sockets.h"

#define NAME_SEC     10L /* that a resolved name is remembered */
#define CA_CACHE_SEC 60L
#define TIDY_EVERY   256 /* requests */
#define CONNECT_SEC  86400L

DEFINE_CLEANUP(struct request, request_free);

static const struct check_config *config_of(const struct request *q)
{
	return check_config(q->attempt->target->check);
}

/* Its name is resolved, or nobody waits for that any more. */
static void end_lookup(struct request *q)
{
	if (q->lookups)
		(*q->lookups)--;
	q->lookups = NULL;
}

/* ---- sockets ---- */

struct kept *kept_unref(struct kept *kept)
{
	if (kept && --kept->refs == 0)
		free(kept);
	return NULL;
}

static curl_socket_t request_on_socket(
		void *userdata, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct request *q = userdata;
	int fd;

	(void) purpose;
	end_lookup(q);
	q->attempt->phase = q->attempt->target->tls ? "connecting, with TLS" : "connecting";
	fd = socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
			address->protocol);
	if (fd < 0) {
		q->fault = errno;
		return CURL_SOCKET_BAD;
	}
	q->attempt->connections++;
	probe_socket_note(fd);
	if (q->kept) {
		q->kept->refs++;
		q->kept->fd = fd;
	}
	return fd;
}

/* libcurl calls it for the connections of requests that are long gone. */
static int kept_on_close(void *userdata, curl_socket_t fd)
{
	struct kept *kept = userdata;

	if (kept->fd == fd)
		kept->fd = -1;
	kept_unref(kept);
	return close(fd);
}

static int request_on_connected(
		/* NOLINTNEXTLINE(readability-non-const-parameter): curl's type */
		void *userdata, char *peer, char *local, int peer_port, int local_port)
{
	struct request *q = userdata;

	(void) peer;
	(void) local;
	(void) peer_port;
	(void) local_port;
	end_lookup(q); /* a kept connection needs none */
	if (q->kept && q->kept->fd >= 0)
		probe_socket_note(q->kept->fd);
	q->attempt->phase = "waiting for the answer";
	return CURL_PREREQFUNC_OK;
}

/* ---- the answer ---- */

static unsigned status_of(const struct request *q)
{
	long status = 0;

	(void) curl_easy_getinfo(q->transfer.easy, CURLINFO_RESPONSE_CODE, &status);
	return (unsigned) status;
}

static bool needs_body(const struct request *q)
{
	return expectation_of_body(config_of(q)) != EXPECTS_NO_BODY &&
			expectation_takes_status(config_of(q), status_of(q));
}

/* Whether the rest of the answer can be left where it is. A connection is only good for the next
 * request when all of it has been read. */
static bool can_hang_up(const struct request *q)
{
	return !config_of(q)->keep_alive || q->body_seen > CHECK_BODY_MAX;
}

static bool is_end_of_head(const char *line, size_t size)
{
	return (size == 2 && line[0] == '\r') || (size == 1 && line[0] == '\n');
}

/* A return value other than the size ends the transfer. */
static size_t request_on_header(char *line, size_t size, size_t count, void *userdata)
{
	struct request *q = userdata;

	size *= count;
	q->attempt->phase = "reading the answer";
	q->head_size += size;
	if (q->head_size > REQUEST_HEAD_MAX)
		return 0;
	if (q->grpc) {
		if (size > 5 && memcmp(line, "HTTP/", 5) == 0)
			grpc_answer_begin(q->grpc);
		else
			grpc_answer_header(q->grpc, line, size);
	} else if (is_end_of_head(line, size) && status_of(q) >= 200 && !needs_body(q) &&
			can_hang_up(q)) {
		q->has_enough = true;
		return 0;
	}
	return size;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): curl's type */
static size_t request_on_grpc_body(char *data, size_t size, size_t count, void *userdata)
{
	struct request *q = userdata;

	q->has_enough = !grpc_answer_body(q->grpc, data, size * count);
	return q->has_enough ? 0 : size * count;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): curl's type */
static size_t request_on_body(char *data, size_t size, size_t count, void *userdata)
{
	struct request *q = userdata;
	bool needed = needs_body(q), done = !needed;

	size *= count;
	q->body_seen += size;
	if (needed) {
		size_t room = CHECK_BODY_MAX - q->body.length;

		text_add(&q->body, data, size < room ? size : room);
		done = q->body.length == CHECK_BODY_MAX || q->body.failed ||
				(expectation_of_body(config_of(q)) == EXPECTS_TEXT &&
						expectation_is_met(config_of(q), q->body.data,
								q->body.length));
	}
	q->has_enough = done && can_hang_up(q);
	return q->has_enough ? 0 : size;
}

/* ---- what is asked ---- */

static int add_line(struct curl_slist **list, const char *line)
{
	struct curl_slist *more = curl_slist_append(*list, line);

	if (!more)
		return -ENOMEM;
	*list = more;
	return 0;
}

__attribute__((format(printf, 2, 3))) static int add_header(
		struct request *q, const char *format, ...)
{
	autofree char *line = NULL;
	va_list ap;
	int r;

	va_start(ap, format);
	r = vasprintf(&line, format, ap);
	va_end(ap);
	if (r < 0) {
		line = NULL;
		return -ENOMEM;
	}
	return add_line(&q->headers, line);
}

/* Every transfer goes through all that is remembered, where addresses are kept like names. So who
 * has no name does not ask for it, but now and then, lest addresses of long ago pile up. */
static void remember_names(struct request *q, struct request_host *host)
{
	bool tidies = !q->attempt->target->is_numeric || host->started++ % TIDY_EVERY == 0;

	(void) curl_easy_setopt(
			q->transfer.easy, CURLOPT_DNS_CACHE_TIMEOUT, tidies ? NAME_SEC : -1L);
}

static void ask_in_general(struct request *q)
{
	const struct target *target = q->attempt->target;
	CURL *easy = q->transfer.easy;

	(void) curl_easy_setopt(easy, CURLOPT_URL, target->url);
	(void) curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	(void) curl_easy_setopt(easy, CURLOPT_PROXY, "");
	(void) curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	(void) curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	(void) curl_easy_setopt(easy, CURLOPT_USERAGENT, "usherd");
	(void) curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, q->error);
	(void) curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, request_on_socket);
	(void) curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, q);
	(void) curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, request_on_connected);
	(void) curl_easy_setopt(easy, CURLOPT_PREREQDATA, q);
	/* The shard knows when an attempt ends; libcurl's own limit is shorter than some timeouts.
	 */
	(void) curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, CONNECT_SEC);
	/* Else giving up a name's resolution waits for it to end. */
	(void) curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	if (target->sockaddr.ss_family == AF_INET6)
		(void) curl_easy_setopt(easy, CURLOPT_ADDRESS_SCOPE,
				(long) ((const struct sockaddr_in6 *) &target->sockaddr)
						->sin6_scope_id);
	if (q->kept) {
		(void) curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, kept_on_close);
		(void) curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, q->kept);
	} else {
		(void) curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
		/* One that only connects would end before it can be used. */
		(void) curl_easy_setopt(easy, CURLOPT_FORBID_REUSE,
				config_of(q)->kind == CHECK_TCP ? 0L : 1L);
	}
}

static void ask_for_tls(struct request *q, const char *system_ca)
{
	const struct check_config *config = config_of(q);
	CURL *easy = q->transfer.easy;

	/* A session that goes on would not be verified again. */
	(void) curl_easy_setopt(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
	(void) curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, CA_CACHE_SEC);
	(void) curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, config->tls_verify ? 1L : 0L);
	(void) curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, config->tls_verify ? 2L : 0L);
	if (config->tls_ca)
		(void) curl_easy_setopt(easy, CURLOPT_CAINFO, config->tls_ca);
	/* Beside a CA that was chosen, no other is believed. */
	if (config->tls_ca || system_ca)
		(void) curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
}

static int ask_http(struct request *q)
{
	const struct check_config *config = config_of(q);
	const char *method = config->method ? config->method : "GET";
	CURL *easy = q->transfer.easy;
	int r;

	if (strcmp(method, "HEAD") == 0) {
		(void) curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
	} else if (strcmp(method, "POST") == 0) {
		(void) curl_easy_setopt(easy, CURLOPT_POST, 1L);
		(void) curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, 0L);
		(void) curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "");
	} else if (strcmp(method, "GET") != 0) {
		(void) curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
	}
	(void) curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, request_on_body);
	r = add_header(q, "Host: %s", q->attempt->target->host);
	if (r >= 0 && strcmp(method, "POST") == 0)
		r = add_header(q, "Content-Type:"); /* there is nothing that would have one */
	if (r >= 0 && !config->keep_alive)
		r = add_header(q, "Connection: close");
	return r;
}

static int ask_grpc(struct request *q)
{
	uint64_t now = clock_boot_usec(), deadline = q->attempt->deadline_usec;
	CURL *easy = q->transfer.easy;
	size_t size;
	int r;

	q->grpc = malloc(sizeof(*q->grpc));
	if (!q->grpc)
		return -ENOMEM;
	grpc_answer_init(q->grpc);
	size = grpc_question(config_of(q)->grpc_service, q->question);
	(void) curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
			q->attempt->target->tls ? (long) CURL_HTTP_VERSION_2TLS
						: (long) CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE);
	(void) curl_easy_setopt(easy, CURLOPT_POST, 1L);
	(void) curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long) size);
	(void) curl_easy_setopt(easy, CURLOPT_POSTFIELDS, q->question);
	(void) curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, request_on_grpc_body);
	r = add_header(q, "Content-Type: application/grpc");
	if (r >= 0)
		r = add_header(q, "TE: trailers");
	if (r >= 0)
		r = add_header(q, "Accept:");
	if (r >= 0 && deadline > now)
		r = add_header(q, "grpc-timeout: %llum",
				(unsigned long long) ((deadline - now) / USEC_PER_MSEC + 1) %
						100000000);
	return r;
}

static int ask(struct request *q, struct request_host *host)
{
	const struct target *target = q->attempt->target;
	int r;

	ask_in_general(q);
	remember_names(q, host);
	if (target->tls)
		ask_for_tls(q, host->system_ca);
	if (target->connect_to) {
		r = add_line(&q->connect_to, target->connect_to);
		if (r < 0)
			return r;
		(void) curl_easy_setopt(q->transfer.easy, CURLOPT_CONNECT_TO, q->connect_to);
	}
	if (config_of(q)->kind == CHECK_TCP) {
		(void) curl_easy_setopt(q->transfer.easy, CURLOPT_CONNECT_ONLY, 1L);
		return 0;
	}
	r = config_of(q)->kind == CHECK_GRPC ? ask_grpc(q) : ask_http(q);
	if (r < 0)
		return r;
	(void) curl_easy_setopt(q->transfer.easy, CURLOPT_WRITEDATA, q);
	(void) curl_easy_setopt(q->transfer.easy, CURLOPT_HEADERFUNCTION, request_on_header);
	(void) curl_easy_setopt(q->transfer.easy, CURLOPT_HEADERDATA, q);
	(void) curl_easy_setopt(q->transfer.easy, CURLOPT_HTTPHEADER, q->headers);
	return 0;
}

/* ---- its life ---- */

static int keep(struct request *q)
{
	struct kept *kept = q->attempt->kept;

	if (!kept) {
		kept = calloc(1, sizeof(*kept));
		if (!kept)
			return -ENOMEM;
		*kept = (struct kept){ .refs = 1, .fd = -1 };
		q->attempt->kept = kept;
	}
	kept->refs++;
	q->kept = kept;
	return 0;
}

int request_new(struct request_host *host, struct attempt *attempt, struct request **ret)
{
	cleanup(request_freep) struct request *q = calloc(1, sizeof(*q));
	int r = 0;

	if (!q)
		return -ENOMEM;
	q->attempt = attempt;
	q->transfer.easy = curl_easy_init();
	if (!q->transfer.easy)
		return -ENOMEM;
	if (config_of(q)->kind == CHECK_HTTP && config_of(q)->keep_alive && !attempt->closes)
		r = keep(q);
	if (r >= 0)
		r = ask(q, host);
	if (r < 0)
		return r;
	attempt->phase = "connecting";
	if (!attempt->target->is_numeric) {
		q->lookups = &host->lookups;
		host->lookups++;
		attempt->phase = "resolving its name";
	}
	*ret = take(q);
	return 0;
}

struct request *request_free(struct request *q)
{
	if (!q)
		return NULL;
	end_lookup(q);
	tcp_talk_stop(&q->talk);
	curl_easy_cleanup(q->transfer.easy);
	curl_slist_free_all(q->headers);
	curl_slist_free_all(q->connect_to);
	kept_unref(q->kept);
	text_done(&q->body);
	free(q->grpc);
	free(q);
	return NULL;
}
