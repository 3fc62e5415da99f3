/* libcurl's transfers in the loop of a shard. */

#include "curl-loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "clock.h"
#include "prober.h"

/* One of libcurl's descriptors, for as long as it is waited for. */
struct curl_socket {
	struct shard_watch watch; /* first, see socket_on_ready */
	struct curl_pool *pool;
};

/* ---- driving libcurl ---- */

static void take_out(struct curl_transfer *t)
{
	if (!t->link)
		return;
	*t->link = t->next;
	if (t->next)
		t->next->link = t->link;
	t->link = NULL;
}

/* libcurl gives a handle up whose socket cannot be watched: all that goes over it fails, and the
 * next transfer gets another handle. */
static void pool_break(struct curl_pool *pool)
{
	struct curl_transfer *list = pool->transfers, *t;
	CURLM *multi = pool->multi;

	pool->multi = NULL;
	pool->transfers = NULL;
	pool->timer_usec = USEC_FOREVER;
	if (list)
		list->link = &list;
	for (t = list; t; t = t->next) {
		(void) curl_multi_remove_handle(multi, t->easy);
		t->pool = NULL;
	}
	(void) curl_multi_cleanup(multi);
	while ((t = list)) { /* done() may remove any of them, and start others */
		take_out(t);
		pool->loop->done(pool->loop, t, CURLE_ABORTED_BY_CALLBACK);
	}
}

/* What has ended. done() may start and remove transfers. */
static void pool_collect(struct curl_pool *pool)
{
	const CURLMsg *message;
	int left;

	while (pool->multi && (message = curl_multi_info_read(pool->multi, &left))) {
		CURLcode code = message->data.result;
		char *private = NULL;

		if (message->msg != CURLMSG_DONE)
			continue;
		(void) curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
		pool->loop->done(pool->loop, (struct curl_transfer *) (void *) private, code);
	}
}

static void pool_drive(struct curl_pool *pool, curl_socket_t fd, int events)
{
	int running;

	if (!pool->multi)
		return;
	if (curl_multi_socket_action(pool->multi, fd, events, &running) == CURLM_OK)
		pool_collect(pool);
	else
		pool_break(pool);
}

/* ---- its timers: one a pool, of which the shard knows the first ---- */

static void loop_on_timer(void *engine);

static void set_timer(struct curl_loop *loop)
{
	uint64_t first = USEC_FOREVER;

	for (unsigned i = 0; i < CURL_POOLS; i++)
		if (loop->pools[i].timer_usec < first)
			first = loop->pools[i].timer_usec;
	shard_timer_set(loop->shard, loop->engine, first == USEC_FOREVER ? 0 : first,
			loop_on_timer);
}

static void loop_on_timer(void *engine)
{
	struct curl_loop *loop = engine;
	uint64_t now = shard_now_usec(loop->shard);

	for (unsigned i = 0; i < CURL_POOLS; i++) {
		struct curl_pool *pool = &loop->pools[i];

		if (pool->timer_usec > now)
			continue;
		pool->timer_usec = USEC_FOREVER;
		pool_drive(pool, CURL_SOCKET_TIMEOUT, 0);
	}
	set_timer(loop);
}

static int pool_on_timer_change(CURLM *multi, long timeout_ms, void *userdata)
{
	struct curl_pool *pool = userdata;
	uint64_t wait;

	(void) multi;
	wait = timeout_ms > 0 ? (uint64_t) timeout_ms * USEC_PER_MSEC : 0;
	pool->timer_usec = timeout_ms < 0 ? USEC_FOREVER : shard_now_usec(pool->loop->shard) + wait;
	set_timer(pool->loop);
	return 0;
}

/* ---- its descriptors ---- */

static void socket_on_ready(struct shard_watch *watch, uint32_t events)
{
	struct curl_socket *s = (struct curl_socket *) watch;
	int bits = 0;

	/* What is wrong with a socket, reading and writing tell better than CURL_CSELECT_ERR. */
	if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		bits |= CURL_CSELECT_IN;
	if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
		bits |= CURL_CSELECT_OUT;
	pool_drive(s->pool, watch->fd, bits);
}

static int socket_watch(struct curl_pool *pool, curl_socket_t fd, uint32_t events)
{
	struct curl_socket *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	*s = (struct curl_socket){ .watch = { .ready = socket_on_ready, .fd = fd }, .pool = pool };
	r = shard_watch_add(pool->loop->shard, &s->watch, events);
	if (r < 0) {
		free(s);
		return r;
	}
	(void) curl_multi_assign(pool->multi, fd, s);
	return 0;
}

static int pool_on_socket_change(
		CURL *easy, curl_socket_t fd, int what, void *userdata, void *assigned)
{
	struct curl_pool *pool = userdata;
	struct curl_socket *s = assigned;
	uint32_t events =
			(what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);
	int r = 0;

	(void) easy;
	if (what == CURL_POLL_REMOVE) {
		if (s) {
			shard_watch_remove(pool->loop->shard, &s->watch);
			free(s);
			(void) curl_multi_assign(pool->multi, fd, NULL);
		}
		return 0;
	}
	if (s)
		r = shard_watch_change(pool->loop->shard, &s->watch, events);
	else
		r = socket_watch(pool, fd, events);
	return r < 0 ? -1 : 0;
}

/* ---- the loop ---- */

void curl_loop_init(struct curl_loop *loop, struct shard *shard, const struct engine *engine,
		void (*done)(struct curl_loop *loop, struct curl_transfer *transfer, CURLcode code))
{
	*loop = (struct curl_loop){ .shard = shard, .engine = engine, .done = done };
	for (unsigned i = 0; i < CURL_POOLS; i++) {
		loop->pools[i].loop = loop;
		loop->pools[i].timer_usec = USEC_FOREVER;
	}
}

void curl_loop_done(struct curl_loop *loop)
{
	for (unsigned i = 0; i < CURL_POOLS; i++)
		if (loop->pools[i].multi)
			(void) curl_multi_cleanup(loop->pools[i].multi);
	shard_timer_set(loop->shard, loop->engine, 0, loop_on_timer);
}

static int pool_open(struct curl_pool *pool)
{
	CURLM *multi;

	if (pool->multi)
		return 0;
	multi = curl_multi_init();
	if (!multi)
		return -ENOMEM;
	(void) curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, pool_on_socket_change);
	(void) curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, pool);
	(void) curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, pool_on_timer_change);
	(void) curl_multi_setopt(multi, CURLMOPT_TIMERDATA, pool);
	/* Else it is four times what is under way, which is few, and kept ones would be closed. */
	(void) curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long) PROBER_PROBES_MAX);
	pool->multi = multi;
	return 0;
}

int curl_loop_add(struct curl_loop *loop, struct curl_transfer *transfer, uint64_t key)
{
	struct curl_pool *pool = &loop->pools[key % CURL_POOLS];

	if (pool_open(pool) < 0)
		return -ENOMEM;
	(void) curl_easy_setopt(transfer->easy, CURLOPT_PRIVATE, transfer);
	transfer->pool = pool;
	if (curl_multi_add_handle(pool->multi, transfer->easy) != CURLM_OK) {
		transfer->pool = NULL;
		return -ENOMEM;
	}
	transfer->next = pool->transfers;
	transfer->link = &pool->transfers;
	if (transfer->next)
		transfer->next->link = &transfer->next;
	pool->transfers = transfer;
	return 0;
}

void curl_loop_remove(struct curl_transfer *transfer)
{
	take_out(transfer);
	if (!transfer->pool)
		return;
	(void) curl_multi_remove_handle(transfer->pool->multi, transfer->easy);
	transfer->pool = NULL;
}
