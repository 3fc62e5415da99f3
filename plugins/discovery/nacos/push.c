#include "push.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#define ZLIB_CONST
#include <zlib.h>

#include "envelope.h"
#include "own-json.h"

#define BUDGET_EACH_USEC  UINT64_C(10000)
#define BUDGET_BURST_USEC (1000 * BUDGET_EACH_USEC)
#define GZIP_WINDOW       (15 + 16)

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* ---- where this node is ---- */

static socklen_t size_of(const union address *a)
{
	return a->any.sa_family == AF_INET ? sizeof(a->v4) : sizeof(a->v6);
}

static bool parse_address(const char *text, union address *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (inet_pton(AF_INET, text, &ret->v4.sin_addr) == 1) {
		ret->v4.sin_family = AF_INET;
		ret->v4.sin_port = htons(9);
		return true;
	}
	if (inet_pton(AF_INET6, text, &ret->v6.sin6_addr) == 1) {
		ret->v6.sin6_family = AF_INET6;
		ret->v6.sin6_port = htons(9);
		return true;
	}
	return false;
}

bool push_is_address(const char *text)
{
	union address ignored;

	return parse_address(text, &ignored);
}

/* The host of "http://HOST:PORT/PATH", without brackets. */
static void host_of(const char *url, char *ret, size_t size)
{
	const char *host = strstr(url, "://"), *end;

	host = host ? host + 3 : url;
	end = host + strcspn(host, ":/");
	if (host[0] == '[')
		end = host + 1 + strcspn(host + 1, "]"), host++;
	(void) snprintf(ret, size, "%.*s", (int) (end - host), host);
}

/* The address from which there would be reached. No packet is sent for that. */
static int reached_from(const union address *there, union address *ret)
{
	int fd = socket(there->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(*ret);
	int r = 0;

	if (fd < 0 || connect(fd, &there->any, size_of(there)) < 0 ||
			getsockname(fd, &ret->any, &size) < 0)
		r = -errno;
	if (fd >= 0)
		(void) close(fd);
	return r;
}

static int find_address(const struct nacos *n, union address *ret)
{
	/* Of documentation, RFC 5737 and 3849: nobody has them. */
	static const char *const elsewhere[] = { "192.0.2.1", "2001:db8::1" };
	union address there;
	char host[256];

	host_of(n->http.servers[0], host, sizeof(host));
	if (strcmp(host, "localhost") == 0)
		(void) snprintf(host, sizeof(host), "127.0.0.1");
	if (parse_address(host, &there))
		return reached_from(&there, ret);
	for (size_t i = 0; i < ELEMENTS(elsewhere); i++)
		if (parse_address(elsewhere[i], &there) && reached_from(&there, ret) == 0)
			return 0;
	return -EHOSTUNREACH;
}

static int open_at(struct push *p, union address *at)
{
	socklen_t size = sizeof(*at);

	if (at->any.sa_family == AF_INET)
		at->v4.sin_port = 0;
	else
		at->v6.sin6_port = 0;
	p->fd = socket(at->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (p->fd < 0 || bind(p->fd, &at->any, size_of(at)) < 0 ||
			getsockname(p->fd, &at->any, &size) < 0)
		return -errno;
	p->port = ntohs(at->any.sa_family == AF_INET ? at->v4.sin_port : at->v6.sin6_port);
	return 0;
}

int push_open(struct push *p, const struct nacos *n, struct usher_error *reterr)
{
	union address at = { 0 };
	int r = 0;

	*p = (struct push){ .fd = -1 };
	if (!n->push_address)
		r = find_address(n, &at);
	else if (!parse_address(n->push_address, &at))
		return usher_error_set(reterr, -EINVAL, "push_address: %.100s is no address",
				n->push_address);
	if (r < 0)
		return usher_error_set(reterr, r,
				"this node has no address to be told of changes at: %s",
				usher_error_text(NULL, r));
	if (at.any.sa_family == AF_INET)
		(void) inet_ntop(AF_INET, &at.v4.sin_addr, p->address, sizeof(p->address));
	else
		(void) inet_ntop(AF_INET6, &at.v6.sin6_addr, p->address, sizeof(p->address));
	/* What others see may be no address of this node's own. */
	if (n->push_address && at.any.sa_family == AF_INET)
		at.v4.sin_addr.s_addr = htonl(INADDR_ANY);
	else if (n->push_address)
		at.v6.sin6_addr = in6addr_any;
	r = open_at(p, &at);
	if (r == 0)
		return 0;
	push_close(p);
	return usher_error_set(reterr, r, "no UDP port to be told of changes at: %s",
			usher_error_text(NULL, r));
}

void push_close(struct push *p)
{
	if (p->fd >= 0)
		(void) close(p->fd);
	*p = (struct push){ .fd = -1 };
}

/* ---- packets ---- */

static int unpack(const char *data, size_t size, char **ret, size_t *ret_size)
{
	autofree char *text = malloc(PUSH_TEXT_MAX);
	z_stream z = { .next_in = (const Bytef *) data, .avail_in = (uInt) size };
	int r;

	if (!text || inflateInit2(&z, GZIP_WINDOW) != Z_OK)
		return -ENOMEM;
	z.next_out = (Bytef *) text;
	z.avail_out = PUSH_TEXT_MAX;
	r = inflate(&z, Z_FINISH);
	*ret_size = PUSH_TEXT_MAX - z.avail_out;
	(void) inflateEnd(&z);
	if (r == Z_BUF_ERROR && z.avail_out == 0)
		return -EMSGSIZE;
	if (r != Z_STREAM_END)
		return r == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
	*ret = take(text);
	return 0;
}

static int read_packet(const char *text, size_t size, char **ret_service, char ret_acknowledged[32])
{
	autojson json_t *packet = NULL, *list = NULL;
	const char *type, *data, *name;
	int r = envelope_load(text, size, &packet, NULL);

	if (r < 0)
		return r;
	type = json_text_at(packet, "type");
	data = json_text_at(packet, "data");
	if (!type || !data || (strcmp(type, "dom") != 0 && strcmp(type, "service") != 0))
		return -EBADMSG;
	r = envelope_load(data, strlen(data), &list, NULL);
	if (r < 0)
		return r;
	name = json_text_at(list, "name");
	if (!name || !json_is_integer(json_object_get(packet, "lastRefTime")))
		return -EBADMSG;
	*ret_service = strdup(name);
	if (!*ret_service)
		return -ENOMEM;
	(void) snprintf(ret_acknowledged, 32, "%lld",
			(long long) json_integer_at(packet, "lastRefTime", 0));
	return 0;
}

int push_parse(const char *data, size_t size, char **ret_service, char ret_acknowledged[32])
{
	autofree char *text = NULL;
	size_t text_size;
	int r;

	if (size < 2 || (unsigned char) data[0] != 0x1f || (unsigned char) data[1] != 0x8b)
		return read_packet(data, size, ret_service, ret_acknowledged);
	r = unpack(data, size, &text, &text_size);
	return r < 0 ? r : read_packet(text, text_size, ret_service, ret_acknowledged);
}

/* Without an answer the server sends it again. */
static void acknowledge(const struct push *p, const char *acknowledged, const union address *to)
{
	char text[128];
	int size = snprintf(text, sizeof(text),
			"{\"type\":\"push-ack\",\"lastRefTime\":\"%s\",\"data\":\"\"}",
			acknowledged);

	(void) sendto(p->fd, text, (size_t) size, MSG_DONTWAIT, &to->any, size_of(to));
}

static bool may_read(struct push *p, uint64_t now_usec)
{
	uint64_t from = p->budget_usec > now_usec ? p->budget_usec : now_usec;

	if (from > now_usec + BUDGET_BURST_USEC)
		return false;
	p->budget_usec = from + BUDGET_EACH_USEC;
	return true;
}

int push_take(struct push *p, uint64_t now_usec, char **ret_service)
{
	autofree char *data = malloc(PUSH_PACKET_MAX);
	union address from = { 0 };
	socklen_t from_size = sizeof(from);
	char acknowledged[32];
	ssize_t n = data ? recvfrom(p->fd, data, PUSH_PACKET_MAX, 0, &from.any, &from_size) : -1;

	*ret_service = NULL;
	if (n < 0)
		return 0;
	if (may_read(p, now_usec) && push_parse(data, (size_t) n, ret_service, acknowledged) == 0)
		acknowledge(p, acknowledged, &from);
	return 1;
}
