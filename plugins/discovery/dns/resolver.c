#include "resolver.h"

#include <ares.h>
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "message.h"
#include "own.h"
#include "retry.h"

#define DNS_PORT      53
#define EDNS_SIZE     1232
#define EVENTS        32
#define USEC_PER_MSEC UINT64_C(1000)
#define USEC_PER_SEC  UINT64_C(1000000)
#define CLASS_IN      1

struct server {
	struct resolver *resolver;
	uint32_t index;
	ares_channel channel;
	char text[RESOLVER_SERVER_MAX];
};

struct query {
	struct query *next;
	struct resolver *resolver;
	void *tag; /* NULL: nobody waits for it */
	uint16_t type;
	size_t server; /* that is asked, or has answered */
	size_t tried;  /* servers, this one included */
	unsigned turn;
	uint64_t started_usec;
	int error;
	struct usher_error why;
	uint8_t *bytes;
	size_t size;
	char name[MESSAGE_NAME_MAX];
};

struct queue {
	struct query *first, **end;
};

struct resolver {
	struct resolver_config config;
	int epoll_fd;
	struct server *servers;
	size_t server_count, current;
	struct queue waiting, flying, done;
	size_t flying_count;
	struct query *told; /* whose answer was handed out last */
	bool is_moving;     /* to other servers: what they leave unanswered is asked anew */
};

/* ---- queues ---- */

static void queue_init(struct queue *q)
{
	q->first = NULL;
	q->end = &q->first;
}

static void queue_add(struct queue *q, struct query *query)
{
	query->next = NULL;
	*q->end = query;
	q->end = &query->next;
}

static struct query *queue_take(struct queue *q)
{
	struct query *query = q->first;

	if (!query)
		return NULL;
	q->first = query->next;
	if (!q->first)
		q->end = &q->first;
	return query;
}

static void queue_remove(struct queue *q, struct query *query)
{
	struct query **at = &q->first;

	while (*at != query)
		at = &(*at)->next;
	*at = query->next;
	if (q->end == &query->next)
		q->end = at;
}

static struct query *query_free(struct query *query)
{
	if (query)
		free(query->bytes);
	free(query);
	return NULL;
}

static void queue_done(struct queue *q)
{
	struct query *query;

	while ((query = queue_take(q)))
		(void) query_free(query);
}

static void queue_forget(struct queue *q, const void *tag)
{
	for (struct query *query = q->first; query; query = query->next)
		if (query->tag == tag)
			query->tag = NULL;
}

/* ---- servers ---- */

static void server_on_socket(void *data, ares_socket_t fd, int readable, int writable)
{
	const struct server *s = data;
	struct epoll_event event = {
		.events = (readable ? EPOLLIN : 0u) | (writable ? EPOLLOUT : 0u),
		.data.u64 = (uint64_t) s->index << 32 | (uint32_t) fd,
	};
	int epoll_fd = s->resolver->epoll_fd;

	if (event.events == 0)
		(void) epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	else if (epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event) < 0)
		(void) epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int explain_ares(int status, const char *what, struct usher_error *reterr)
{
	return usher_error_set(reterr, status == ARES_ENOMEM ? -ENOMEM : -EINVAL, "%s: %s", what,
			ares_strerror(status));
}

static int server_open(struct server *s, struct usher_error *reterr)
{
	const struct resolver_config *config = &s->resolver->config;
	struct ares_options options = {
		/* A truncated answer is asked for again over TCP; a server's own words are
		 * wanted, not the library's for them. */
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS |
				ARES_FLAG_NOCHECKRESP | (config->tcp ? ARES_FLAG_USEVC : 0),
		.timeout = (int) (config->timeout_usec / USEC_PER_MSEC),
		.tries = RESOLVER_TRIES,
		.ednspsz = EDNS_SIZE,
		.sock_state_cb = server_on_socket,
		.sock_state_cb_data = s,
	};
	int status = ares_init_options(&s->channel, &options,
			ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_EDNSPSZ |
					ARES_OPT_SOCK_STATE_CB);

	if (status != ARES_SUCCESS) {
		s->channel = NULL;
		return explain_ares(status, s->text, reterr);
	}
	status = ares_set_servers_ports_csv(s->channel, s->text);
	return status == ARES_SUCCESS ? 0 : explain_ares(status, s->text, reterr);
}

/* What is under way comes back at once, through query_on_answer. */
static void servers_free(struct server *servers, size_t count)
{
	for (size_t i = 0; servers && i < count; i++)
		if (servers[i].channel)
			ares_destroy(servers[i].channel);
	free(servers);
}

static int parse_server(const char *text, char *address, uint16_t *port, struct usher_error *reterr)
{
	struct in6_addr bytes;
	int r;

	if (inet_pton(AF_INET6, text, &bytes) == 1) {
		(void) snprintf(address, USHER_TEXT_MAX, "%s", text);
		*port = DNS_PORT;
		return 0;
	}
	r = usher_authority_parse(text, DNS_PORT, address, port, reterr);
	if (r < 0)
		return r;
	if (inet_pton(AF_INET, address, &bytes) != 1 && inet_pton(AF_INET6, address, &bytes) != 1)
		return usher_error_set(reterr, -EINVAL,
				"%s is no address; a name server is given as ADDRESS or ADDRESS:PORT",
				text);
	return 0;
}

int resolver_check_server(const char *text, struct usher_error *reterr)
{
	char address[USHER_TEXT_MAX];
	uint16_t port;

	return parse_server(text, address, &port, reterr);
}

static void write_server(const char *address, uint16_t port, struct server *ret)
{
	char text[USHER_AUTHORITY_MAX];

	(void) snprintf(ret->text, sizeof(ret->text), "%.63s",
			usher_authority_format(address, port, text));
}

/* The texts of the servers to ask. Returns how many, or a negative errno. */
static int list_configured(const struct resolver_config *config, struct server *ret,
		struct usher_error *reterr)
{
	int count = 0;

	for (; config->servers[count]; count++) {
		char address[USHER_TEXT_MAX];
		uint16_t port;
		int r;

		if (count == RESOLVER_SERVERS_MAX)
			return usher_error_set(reterr, -E2BIG,
					"there are more than %d name servers",
					RESOLVER_SERVERS_MAX);
		r = parse_server(config->servers[count], address, &port, reterr);
		if (r < 0)
			return r;
		write_server(address, port, &ret[count]);
	}
	return count;
}

static int list_system(struct server *ret, struct usher_error *reterr)
{
	struct ares_addr_port_node *nodes = NULL;
	ares_channel channel;
	int count = 0, status = ares_init(&channel);

	if (status != ARES_SUCCESS)
		return explain_ares(status, RESOLVER_FILE, reterr);
	status = ares_get_servers_ports(channel, &nodes);
	for (struct ares_addr_port_node *n = nodes; n && count < RESOLVER_SERVERS_MAX;
			n = n->next) {
		char address[INET6_ADDRSTRLEN];

		if (!inet_ntop(n->family, &n->addr, address, sizeof(address)))
			continue;
		write_server(address, n->udp_port ? (uint16_t) n->udp_port : DNS_PORT,
				&ret[count++]);
	}
	if (nodes)
		ares_free_data(nodes);
	ares_destroy(channel);
	return status == ARES_SUCCESS ? count : explain_ares(status, RESOLVER_FILE, reterr);
}

static int servers_new(struct resolver *r, struct server **ret, size_t *ret_count,
		struct usher_error *reterr)
{
	struct server *servers = calloc(RESOLVER_SERVERS_MAX, sizeof(*servers));
	int count, result = 0;

	if (!servers)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	count = r->config.servers ? list_configured(&r->config, servers, reterr)
				  : list_system(servers, reterr);
	if (count == 0)
		count = usher_error_set(reterr, -ENOENT,
				"there is no name server to ask; name one in `servers`, or in " RESOLVER_FILE);
	if (count < 0)
		result = count;
	for (int i = 0; i < count && result == 0; i++) {
		servers[i].resolver = r;
		servers[i].index = (uint32_t) i;
		result = server_open(&servers[i], reterr);
	}
	if (result < 0) {
		servers_free(servers, RESOLVER_SERVERS_MAX);
		return result;
	}
	*ret = servers;
	*ret_count = (size_t) count;
	return 0;
}

/* ---- questions ---- */

static void query_start(struct query *query);

static void query_finish(struct query *query, int error)
{
	struct resolver *r = query->resolver;

	query->error = error;
	queue_remove(&r->flying, query);
	r->flying_count--;
	queue_add(&r->done, query);
}

static int code_of(int status)
{
	switch (status) {
	case ARES_ETIMEOUT:
		return -ETIMEDOUT;
	case ARES_ECONNREFUSED:
		return -ECONNREFUSED;
	case ARES_ENOMEM:
		return -ENOMEM;
	case ARES_EBADNAME:
		return -EINVAL;
	default:
		return -EIO;
	}
}

/* Behind what the servers before have said. */
static int note_failure(struct query *query, int code, const char *what)
{
	const char *server = query->resolver->servers[query->server].text;
	char before[USHER_ERROR_TEXT_MAX];

	if (query->tried == 1)
		return usher_error_set(&query->why, code, "%s: %s", server, what);
	(void) snprintf(before, sizeof(before), "%s", query->why.text);
	query->why = (struct usher_error){ 0 };
	return usher_error_set(&query->why, code, "%s; %s: %s", before, server, what);
}

static int judge_status(struct query *query, int status)
{
	const struct resolver *r = query->resolver;
	char text[128];

	if (status == ARES_ETIMEOUT) {
		(void) snprintf(text, sizeof(text), "no answer within %.3g s",
				(double) r->config.timeout_usec * ((1 << RESOLVER_TRIES) - 1) /
						USEC_PER_SEC);
		return note_failure(query, -ETIMEDOUT, text);
	}
	if (status == ARES_ECONNREFUSED)
		return note_failure(query, -ECONNREFUSED, "cannot be reached");
	return note_failure(query, code_of(status), ares_strerror(status));
}

/* An answer's own word of failure, or 0. */
static int judge_answer(struct query *query, const unsigned char *bytes, size_t size)
{
	int rcode = message_rcode(bytes, size);

	if (rcode == 0 || rcode == 3)
		return 0;
	if (rcode < 0)
		return note_failure(query, -EBADMSG, "the answer is malformed");
	return note_failure(query, rcode == 5 ? -EACCES : -EIO, message_rcode_name(rcode));
}

static int take_bytes(struct query *query, const unsigned char *bytes, size_t size)
{
	int error = judge_answer(query, bytes, size);

	if (error < 0)
		return error;
	query->bytes = malloc(size);
	if (!query->bytes)
		return note_failure(query, -ENOMEM, "out of memory");
	memcpy(query->bytes, bytes, size);
	query->size = size;
	return 0;
}

static void query_on_answer(void *arg, int status, int timeouts, unsigned char *bytes, int size)
{
	struct query *query = arg;
	struct resolver *r = query->resolver;
	int error;

	(void) timeouts;
	if (status == ARES_EDESTRUCTION || status == ARES_ECANCELLED) {
		queue_remove(&r->flying, query);
		r->flying_count--;
		queue_add(r->is_moving ? &r->waiting : &r->done, query);
		return;
	}
	error = bytes ? take_bytes(query, bytes, (size_t) size) : judge_status(query, status);
	if (error == 0 && query->turn == 0)
		r->current = query->server;
	if (error == 0) {
		query_finish(query, 0);
		return;
	}
	if (query->tried == r->server_count || error == -EINVAL || error == -ENOMEM) {
		query_finish(query, error);
		return;
	}
	query->server = (query->server + 1) % r->server_count;
	query_start(query);
}

static void query_start(struct query *query)
{
	query->tried++;
	query->started_usec = retry_now_usec();
	ares_query(query->resolver->servers[query->server].channel, query->name, CLASS_IN,
			query->type, query_on_answer, query);
}

static void start_waiting(struct resolver *r)
{
	assert(r->server_count > 0);

	while (r->flying_count < r->config.most) {
		struct query *query = queue_take(&r->waiting);

		if (!query)
			return;
		if (!query->tag) {
			(void) query_free(query);
			continue;
		}
		queue_add(&r->flying, query);
		r->flying_count++;
		query->tried = 0;
		query->why = (struct usher_error){ 0 };
		query->server = (r->current + query->turn) % r->server_count;
		query_start(query);
	}
}

int resolver_ask(struct resolver *r, const char *name, uint16_t type, unsigned turn, void *tag)
{
	struct query *query = calloc(1, sizeof(*query));

	assert(tag);

	if (!query)
		return -ENOMEM;
	query->resolver = r;
	query->tag = tag;
	query->type = type;
	query->turn = turn;
	(void) snprintf(query->name, sizeof(query->name), "%s", name);
	queue_add(&r->waiting, query);
	return 0;
}

void resolver_forget(struct resolver *r, const void *tag)
{
	queue_forget(&r->waiting, tag);
	queue_forget(&r->flying, tag);
	queue_forget(&r->done, tag);
}

bool resolver_next(struct resolver *r, struct resolver_event *ret)
{
	struct query *query;

	r->told = query_free(r->told);
	while ((query = queue_take(&r->done)) && !query->tag)
		(void) query_free(query);
	if (!query)
		return false;
	r->told = query;
	*ret = (struct resolver_event){
		.tag = query->tag,
		.error = query->error,
		.why = query->why,
		.bytes = query->bytes,
		.size = query->size,
		.started_usec = query->started_usec,
		.name = query->name,
		.server = r->servers[query->server].text,
	};
	return true;
}

/* ---- the loop's side ---- */

int resolver_fd(const struct resolver *r)
{
	return r->epoll_fd;
}

uint64_t resolver_due_usec(struct resolver *r, uint64_t now_usec)
{
	uint64_t due = UINT64_MAX;

	start_waiting(r);
	if (r->done.first)
		return now_usec;
	for (size_t i = 0; i < r->server_count; i++) {
		struct timeval left;

		if (ares_timeout(r->servers[i].channel, NULL, &left)) {
			uint64_t usec = (uint64_t) left.tv_sec * USEC_PER_SEC +
					(uint64_t) left.tv_usec;

			if (now_usec + usec < due)
				due = now_usec + usec;
		}
	}
	return due;
}

void resolver_process(struct resolver *r)
{
	struct epoll_event events[EVENTS];
	int count = epoll_wait(r->epoll_fd, events, EVENTS, 0);

	for (int i = 0; i < count; i++) {
		size_t index = (size_t) (events[i].data.u64 >> 32);
		ares_socket_t fd = (ares_socket_t) (events[i].data.u64 & UINT32_MAX);
		uint32_t what = events[i].events;

		if (index < r->server_count)
			ares_process_fd(r->servers[index].channel,
					what & (EPOLLIN | EPOLLERR | EPOLLHUP) ? fd
									       : ARES_SOCKET_BAD,
					what & EPOLLOUT ? fd : ARES_SOCKET_BAD);
	}
	for (size_t i = 0; i < r->server_count; i++)
		ares_process_fd(r->servers[i].channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	start_waiting(r);
}

int resolver_reload(struct resolver *r, struct usher_error *reterr)
{
	struct server *servers, *old = r->servers;
	size_t count, old_count = r->server_count;
	bool same;
	int result;

	if (r->config.servers)
		return 0;
	result = servers_new(r, &servers, &count, reterr);
	if (result < 0)
		return result;
	same = count == old_count;
	for (size_t i = 0; i < count && same; i++)
		same = strcmp(servers[i].text, old[i].text) == 0;
	if (same) {
		servers_free(servers, count);
		return 0;
	}
	r->is_moving = true;
	r->servers = servers;
	r->server_count = count;
	r->current = 0;
	servers_free(old, old_count);
	r->is_moving = false;
	/* What the old ones have answered is asked again. */
	for (struct query *query; (query = queue_take(&r->done));) {
		query->bytes = (free(query->bytes), NULL);
		query->error = 0;
		queue_add(&r->waiting, query);
	}
	return 0;
}

int resolver_new(const struct resolver_config *config, struct resolver **ret,
		struct usher_error *reterr)
{
	struct resolver *r = calloc(1, sizeof(*r));
	int result;

	if (!r)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	r->config = *config;
	queue_init(&r->waiting);
	queue_init(&r->flying);
	queue_init(&r->done);
	result = ares_library_init(ARES_LIB_INIT_ALL);
	if (result != ARES_SUCCESS) {
		free(r);
		return explain_ares(result, "c-ares", reterr);
	}
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (r->epoll_fd < 0)
		result = usher_error_set(reterr, -errno, "epoll: %m");
	else
		result = servers_new(r, &r->servers, &r->server_count, reterr);
	if (result < 0) {
		(void) resolver_free(r);
		return result;
	}
	*ret = r;
	return 0;
}

struct resolver *resolver_free(struct resolver *r)
{
	if (!r)
		return NULL;
	servers_free(r->servers, r->server_count);
	queue_done(&r->waiting);
	queue_done(&r->flying);
	queue_done(&r->done);
	(void) query_free(r->told);
	own_close(&r->epoll_fd);
	ares_library_cleanup();
	free(r);
	return NULL;
}
