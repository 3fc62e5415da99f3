/* The requests of one registry: begun by the plug-in, carried by curl, pulled as events. */

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "clock.h"
#include "http-private.h"
#include "ownership.h"
#include "random.h"

#define EVENTS_AT_ONCE 64

DEFINE_CLEANUP(struct usher_http, usher_http_free);

/* ---- curl's loop ---- */

static int on_curl_socket(
		CURL *easy, curl_socket_t fd, int what, void *userdata, void *socket_userdata)
{
	struct usher_http *h = userdata;
	struct epoll_event event = { .data.fd = fd };

	(void) easy;
	if (what == CURL_POLL_REMOVE) {
		(void) epoll_ctl(h->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
		return 0;
	}
	if (what & CURL_POLL_IN)
		event.events |= EPOLLIN;
	if (what & CURL_POLL_OUT)
		event.events |= EPOLLOUT;
	if (epoll_ctl(h->epoll_fd, socket_userdata ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) < 0)
		h->failed = -errno;
	(void) curl_multi_assign(h->multi, fd, h); /* whatever is not NULL: it is watched */
	return 0;
}

static int on_curl_timer(CURLM *multi, long timeout_ms, void *userdata)
{
	struct usher_http *h = userdata;

	(void) multi;
	h->timer_usec = timeout_ms < 0 ? USEC_FOREVER
				       : clock_boot_usec() + (uint64_t) timeout_ms * USEC_PER_MSEC;
	return 0;
}

static int set_up_curl(struct usher_http *h)
{
	long connections = (long) h->config.options->connections;

	h->multi = curl_multi_init();
	if (!h->multi)
		return -ENOMEM;
	(void) curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, on_curl_socket);
	(void) curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h);
	(void) curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, on_curl_timer);
	(void) curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h);
	(void) curl_multi_setopt(h->multi, CURLMOPT_MAX_HOST_CONNECTIONS, connections);
	(void) curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, connections);
	return 0;
}

/* ---- the life of it ---- */

static int copy_text(const char *text, char **ret)
{
	if (!text)
		return 0;
	*ret = strdup(text);
	return *ret ? 0 : -ENOMEM;
}

static int copy_texts(struct usher_http *h)
{
	const struct usher_http_config *c = &h->config;

	if (copy_text(c->ca_data, &h->ca_data) < 0 ||
			copy_text(c->certificate_data, &h->certificate_data) < 0 ||
			copy_text(c->key_data, &h->key_data) < 0 ||
			copy_text(c->accept, &h->accept) < 0)
		return -ENOMEM;
	return copy_text(c->token_header ? c->token_header : "Authorization", &h->token_header);
}

/* Without the slashes at its end: a path begins with one. */
static char *copy_server(const char *url)
{
	char *copy = strdup(url);
	size_t length = copy ? strlen(copy) : 0;

	while (length > 0 && copy[length - 1] == '/')
		copy[--length] = '\0';
	return copy;
}

static int take_servers(struct usher_http *h, struct usher_error *reterr)
{
	const char *const *servers = h->config.options->servers;
	struct random random;

	for (; servers[h->server_count]; h->server_count++) {
		h->servers[h->server_count] = copy_server(servers[h->server_count]);
		if (!h->servers[h->server_count])
			return usher_error_set(reterr, -ENOMEM, "out of memory");
	}
	assert(h->server_count > 0); /* they have been checked */
	random_init(&random);
	h->server = random_next(&random) % h->server_count;
	return 0;
}

int usher_http_new(struct usher_source *source, const struct usher_http_config *config,
		struct usher_http **ret, struct usher_error *reterr)
{
	cleanup(usher_http_freep) struct usher_http *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	h->epoll_fd = -1;
	h->timer_usec = USEC_FOREVER;
	memcpy(&h->config, config,
			config->size < sizeof(h->config) ? config->size : sizeof(h->config));
	r = usher_http_check(h->config.options, reterr);
	if (r >= 0)
		r = take_servers(h, reterr);
	if (r < 0)
		return r;
	h->credentials = http_credentials_new(h->config.options);
	if (!h->credentials)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (h->epoll_fd < 0)
		return usher_error_set(reterr, -errno, "cannot wait for the registry: %s",
				usher_error_text(NULL, -errno));
	if (copy_texts(h) < 0 || set_up_curl(h) < 0)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	r = source ? source_attach_http(source, h) : 0;
	if (r < 0)
		return usher_error_set(reterr, r, "the plug-in keeps too many registries at once");
	h->source = source;
	*ret = take(h);
	return 0;
}

struct usher_http *usher_http_free(struct usher_http *h)
{
	if (!h)
		return NULL;
	if (h->source)
		source_detach_http(h->source, h);
	while (h->exchanges) {
		struct exchange *x = h->exchanges;

		h->exchanges = x->next;
		(void) exchange_free(x);
	}
	if (h->multi)
		(void) curl_multi_cleanup(h->multi);
	if (h->epoll_fd >= 0)
		(void) close(h->epoll_fd);
	(void) http_credentials_free(h->credentials);
	for (size_t i = 0; i < h->server_count; i++)
		free(h->servers[i]);
	http_secret_free(h->key_data);
	free(h->ca_data);
	free(h->certificate_data);
	free(h->token_header);
	free(h->accept);
	free(h->lent.data);
	free(h->value.data);
	free(h);
	return NULL;
}

/* ---- exchanges ---- */

void http_queue(struct exchange *x)
{
	struct usher_http *h = x->http;

	if (x->queued)
		return;
	x->queued = true;
	x->next_queued = NULL;
	if (h->queue_last)
		h->queue_last->next_queued = x;
	else
		h->queue = x;
	h->queue_last = x;
}

static void unqueue(struct exchange *x)
{
	struct usher_http *h = x->http;
	struct exchange *before = NULL;

	if (!x->queued)
		return;
	for (struct exchange *q = h->queue; q != x; q = q->next_queued)
		before = q;
	if (before)
		before->next_queued = x->next_queued;
	else
		h->queue = x->next_queued;
	if (h->queue_last == x)
		h->queue_last = before;
	x->queued = false;
}

static void add_exchange(struct usher_http *h, struct exchange *x)
{
	x->id = ++h->last_id;
	x->next = h->exchanges;
	if (x->next)
		x->next->previous = x;
	h->exchanges = x;
	h->count++;
}

static void drop_exchange(struct exchange *x)
{
	struct usher_http *h = x->http;

	unqueue(x);
	if (x->previous)
		x->previous->next = x->next;
	else
		h->exchanges = x->next;
	if (x->next)
		x->next->previous = x->previous;
	h->count--;
	if (h->told == x)
		h->told = NULL;
	(void) exchange_free(x);
}

static struct exchange *find_exchange(const struct usher_http *h, uint64_t id)
{
	for (struct exchange *x = h->exchanges; x; x = x->next)
		if (x->id == id)
			return x;
	return NULL;
}

static void read_request(const struct usher_http_request *said, struct usher_http_request *ret)
{
	*ret = (struct usher_http_request){};
	memcpy(ret, said, said->size < sizeof(*ret) ? said->size : sizeof(*ret));
}

int usher_http_start(
		struct usher_http *h, const struct usher_http_request *request, uint64_t *ret_id)
{
	struct usher_http_request asked;
	struct exchange *x = NULL;
	int r;

	read_request(request, &asked);
	r = exchange_new(h, &asked, &x);
	if (r < 0)
		return r;
	add_exchange(h, x);
	r = exchange_send(x);
	if (r == -ENOMEM) {
		drop_exchange(x);
		return r;
	}
	if (r < 0) { /* credentials that cannot be read: as much a failure as an answer that says so
		      */
		x->error = r;
		x->over = true;
		if (x->easy)
			curl_easy_cleanup(take(x->easy));
		http_queue(x);
	}
	if (ret_id)
		*ret_id = x->id;
	return 0;
}

void usher_http_leave(struct usher_http *h, const char *server)
{
	if (server && strcmp(h->servers[h->server], server) == 0)
		h->server = (h->server + 1) % h->server_count;
}

void usher_http_cancel(struct usher_http *h, uint64_t id)
{
	struct exchange *x = find_exchange(h, id);

	if (x)
		drop_exchange(x);
}

/* ---- work ---- */

int http_fd(const struct usher_http *h)
{
	return h->epoll_fd;
}

uint64_t http_due_usec(const struct usher_http *h)
{
	uint64_t due = h->queue ? 0 : h->timer_usec;

	for (const struct exchange *x = h->exchanges; x; x = x->next)
		if (!x->over && x->idle_usec != 0 && x->heard_usec + x->idle_usec < due)
			due = x->heard_usec + x->idle_usec;
	return due;
}

static void take_what_is_over(struct usher_http *h)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(h->multi, &left))) {
		struct exchange *x = NULL;

		if (message->msg != CURLMSG_DONE)
			continue;
		(void) curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **) &x);
		assert(x);
		(void) exchange_finish(x, message->data.result);
	}
}

static void break_off_what_is_silent(struct usher_http *h)
{
	uint64_t now = clock_boot_usec();

	for (struct exchange *x = h->exchanges; x; x = x->next)
		if (!x->over && x->idle_usec != 0 && now >= x->heard_usec + x->idle_usec)
			exchange_break_off_idle(x);
}

bool http_process(struct usher_http *h)
{
	struct epoll_event events[EVENTS_AT_ONCE];
	int running, count;

	count = epoll_wait(h->epoll_fd, events, EVENTS_AT_ONCE, 0);
	for (int i = 0; i < count; i++) {
		int what = (events[i].events & EPOLLIN ? CURL_CSELECT_IN : 0) |
				(events[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
				(events[i].events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);

		(void) curl_multi_socket_action(h->multi, events[i].data.fd, what, &running);
	}
	if (clock_boot_usec() >= h->timer_usec) {
		h->timer_usec = USEC_FOREVER;
		(void) curl_multi_socket_action(h->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	}
	take_what_is_over(h);
	break_off_what_is_silent(h);
	return h->queue;
}

/* ---- events ---- */

static void fill_event(const struct exchange *x, struct usher_http_event *ret)
{
	ret->id = x->id;
	ret->tag = x->tag;
	ret->status = x->status;
	ret->server = x->http->servers[x->server];
	ret->started_usec = x->started_usec;
}

/* The piece that has come, as a loan. */
static void lend(struct exchange *x, struct usher_http_event *ret)
{
	struct usher_http *h = x->http;
	struct http_buffer came = x->data;

	exchange_forget_data(x);
	x->data = h->lent;
	x->data.size = 0;
	h->lent = came;
	ret->kind = USHER_HTTP_DATA;
	ret->data = h->lent.data;
	ret->data_size = h->lent.size;
}

static void end(const struct exchange *x, struct usher_http_event *ret)
{
	ret->kind = USHER_HTTP_END;
	ret->error = x->error;
	ret->why = x->why;
	if (x->flags & USHER_HTTP_STREAM)
		return;
	ret->data = x->data.data ? x->data.data : "";
	ret->data_size = x->data.size;
}

/* The next event of one exchange; whether there may be more. */
static bool tell(struct exchange *x, struct usher_http_event *ret)
{
	bool stream = x->flags & USHER_HTTP_STREAM;

	if (stream && x->begun && !x->told_begun) {
		x->told_begun = true;
		ret->kind = USHER_HTTP_BEGIN;
		return x->data.size > 0 || x->over;
	}
	if (stream && x->data.size > 0) {
		lend(x, ret);
		return x->over;
	}
	end(x, ret);
	return false;
}

bool usher_http_next(struct usher_http *h, struct usher_http_event *ret)
{
	struct usher_http_event event = { .size = ret->size };
	struct exchange *x;

	if (h->told && h->told->over && !h->told->queued)
		drop_exchange(h->told);
	h->told = NULL;
	x = h->queue;
	if (!x)
		return false;
	unqueue(x);
	fill_event(x, &event);
	if (tell(x, &event))
		http_queue(x);
	h->told = x;
	memcpy(ret, &event, ret->size < sizeof(event) ? ret->size : sizeof(event));
	return true;
}

/* The value in one line of the headers, or NULL. */
static const char *value_in_line(const char *line, const char *name)
{
	size_t length = strlen(name);

	if (strncasecmp(line, name, length) != 0 || line[length] != ':')
		return NULL;
	line += length + 1;
	return line + strspn(line, " \t");
}

const char *usher_http_header(
		struct usher_http *h, const struct usher_http_event *event, const char *name)
{
	const struct exchange *x = find_exchange(h, event->id);
	const char *line = x && x->head.size > 0 ? x->head.data : "";

	while (*line) {
		const char *value = value_in_line(line, name);

		if (value) {
			h->value.size = 0;
			return http_buffer_add(&h->value, value, strcspn(value, "\r\n"))
					? h->value.data
					: NULL;
		}
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return NULL;
}

/* ---- one that is waited for ---- */

static int wait_for_work(struct usher_http *h)
{
	struct pollfd fds[] = { { .fd = h->epoll_fd, .events = POLLIN },
		{ .fd = h->source ? source_wake_fd(h->source) : -1, .events = POLLIN } };
	uint64_t now = clock_boot_usec(), due = http_due_usec(h);
	uint64_t left = due > now ? due - now : 0;
	struct timespec timeout = { .tv_sec = (time_t) (left / USEC_PER_SEC),
		.tv_nsec = (long) (left % USEC_PER_SEC) * 1000 };

	if (ppoll(fds, ELEMENTS(fds), due == USEC_FOREVER ? NULL : &timeout, NULL) < 0 &&
			errno != EINTR)
		return -errno;
	return h->source && source_is_told_to_stop(h->source) ? -ECANCELED : 0;
}

int usher_http_do(struct usher_http *h, const struct usher_http_request *request,
		struct usher_http_event *ret, struct usher_error *reterr)
{
	struct usher_http_event event = { .size = ret->size };
	struct usher_http_request asked;
	struct exchange *x;
	uint64_t id;
	int r;

	if (h->told && h->told->over && !h->told->queued)
		drop_exchange(h->told);
	read_request(request, &asked);
	asked.size = sizeof(asked);
	asked.flags &= ~(unsigned) USHER_HTTP_STREAM;
	r = usher_http_start(h, &asked, &id);
	if (r < 0)
		return usher_error_set(reterr, r, "%s: %s", asked.path ? asked.path : "no path",
				usher_error_text(NULL, r));
	x = find_exchange(h, id);
	while (!x->over) {
		r = wait_for_work(h);
		if (r < 0) {
			drop_exchange(x);
			return usher_error_set(reterr, r, "%s",
					r == -ECANCELED ? "told to stop"
							: usher_error_text(NULL, r));
		}
		(void) http_process(h);
	}
	unqueue(x);
	fill_event(x, &event);
	end(x, &event);
	h->told = x;
	memcpy(ret, &event, ret->size < sizeof(event) ? ret->size : sizeof(event));
	if (x->error < 0)
		return usher_error_set(reterr, x->error, "%s", usher_error_text(&x->why, x->error));
	return 0;
}
