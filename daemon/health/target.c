/* One endpoint, as a check asks it: everything that one probe needs, resolved once. */

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "grpc-health.h"
#include "http-words.h"
#include "ownership.h"
#include "placeholders.h"

DEFINE_CLEANUP(struct target, target_free);

/* ---- where ---- */

/* The metadata that the check has a label for, where the endpoint has it. */
static const char *label_value(const struct usher_endpoints *set, size_t i, const char *label)
{
	return label ? usher_endpoints_metadata(set, i, label) : NULL;
}

static int find_port(const struct check_config *config, const struct usher_endpoints *set, size_t i,
		uint16_t *ret, struct usher_error *reterr)
{
	const char *text = label_value(set, i, config->port_label);
	struct usher_endpoint endpoint;
	size_t length;
	unsigned long port;

	if (!text) {
		usher_endpoints_get(set, i, &endpoint);
		*ret = config->port ? config->port : endpoint.port;
		return 0;
	}
	length = strspn(text, "0123456789");
	port = length > 0 && length <= 5 && !text[length] ? strtoul(text, NULL, 10) : 0;
	if (port < 1 || port > 65535)
		return usher_error_set(reterr, -EINVAL,
				"its metadata %s is \"%.40s\": a port is a number in 1..65535",
				config->port_label, text);
	*ret = (uint16_t) port;
	return 0;
}

/* Names are left to be resolved, each time: they may mean another address tomorrow. */
static void find_sockaddr(struct target *t)
{
	struct addrinfo hints = {
		.ai_family = AF_INET6, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST
	};
	struct sockaddr_in ip4 = { .sin_family = AF_INET, .sin_port = htons(t->port) };
	struct addrinfo *found = NULL;

	if (inet_pton(AF_INET, t->address, &ip4.sin_addr) == 1) {
		memcpy(&t->sockaddr, &ip4, sizeof(ip4));
		t->sockaddr_size = sizeof(ip4);
		t->is_numeric = true;
		return;
	}
	/* With getaddrinfo, because an address may name its interface: fe80::1%eth0. */
	if (!strchr(t->address, ':') || getaddrinfo(t->address, NULL, &hints, &found) != 0)
		return;
	memcpy(&t->sockaddr, found->ai_addr, found->ai_addrlen);
	((struct sockaddr_in6 *) &t->sockaddr)->sin6_port = htons(t->port);
	t->sockaddr_size = found->ai_addrlen;
	t->is_numeric = true;
	freeaddrinfo(found);
}

/* ---- HTTP ---- */

static int find_path(struct target *t, const struct check_config *config,
		const struct usher_endpoints *set, size_t i, struct usher_error *reterr)
{
	const char *text = label_value(set, i, config->path_label);
	int r;

	if (text) {
		r = http_check_path(text, reterr);
		if (r < 0)
			return usher_error_prefix(reterr, r, "its metadata %s", config->path_label);
	} else {
		text = config->path ? config->path : "/";
	}
	if (asprintf(&t->path, "%s%s", text[0] == '/' ? "" : "/", text) < 0) {
		t->path = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* "10.0.0.5:8080", "[fd00::10]:8080": the interface of an address is nobody else's business, and
 * the port is left out where it is the scheme's. */
static void show_authority(const char *name, uint16_t port, uint16_t scheme_port, char *ret)
{
	char bare[USHER_TEXT_MAX];

	(void) snprintf(bare, sizeof(bare), "%.*s", (int) strcspn(name, "%"), name);
	if (port != scheme_port)
		(void) usher_authority_format(bare, port, ret);
	else
		(void) snprintf(ret, USHER_AUTHORITY_MAX, "%s%s%s", strchr(bare, ':') ? "[" : "",
				bare, strchr(bare, ':') ? "]" : "");
}

static int make_host(struct target *t, const struct check_config *config)
{
	char authority[USHER_AUTHORITY_MAX];
	const char *name = t->tls && config->tls_server_name ? config->tls_server_name : t->address;

	if (config->host) {
		t->host = strdup(config->host);
	} else {
		show_authority(name, t->port, t->tls ? 443 : 80, authority);
		t->host = strdup(authority);
	}
	return t->host ? 0 : -ENOMEM;
}

static int make_request(struct target *t, const struct check_config *config)
{
	const char *method = config->method ? config->method : "GET";
	int size;

	size = asprintf(&t->request,
			"%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: usherd\r\nAccept: */*\r\n%s%s\r\n",
			method, t->path, t->host, config->keep_alive ? "" : "Connection: close\r\n",
			strcmp(method, "POST") == 0 ? "Content-Length: 0\r\n" : "");
	if (size < 0) {
		t->request = NULL;
		return -ENOMEM;
	}
	t->request_size = (size_t) size;
	return 0;
}

/* ---- for libcurl ---- */

/* The name that TLS asks for and verifies. */
static void find_server_name(const struct target *t, const struct check_config *config, char *ret)
{
	const char *name = t->address;

	if (t->tls && config->tls_server_name)
		name = config->tls_server_name;
	else if (t->tls && config->host && http_check_host(config->host, ret, NULL) >= 0)
		return;
	(void) snprintf(ret, USHER_TEXT_MAX, "%s", name);
}

static int make_url(struct target *t, const struct check_config *config)
{
	char name[USHER_TEXT_MAX], authority[USHER_AUTHORITY_MAX];
	const char *path = t->path ? t->path : "/";

	if (config->kind == CHECK_GRPC)
		path = GRPC_PATH;
	find_server_name(t, config, name);
	show_authority(name, t->port, 0, authority);
	if (asprintf(&t->url, "%s://%s%s", t->tls ? "https" : "http", authority, path) < 0) {
		t->url = NULL;
		return -ENOMEM;
	}
	if (strcmp(name, t->address) == 0)
		return 0;
	show_authority(t->address, t->port, 0, authority);
	if (asprintf(&t->connect_to, "::%s", authority) < 0) {
		t->connect_to = NULL;
		return -ENOMEM;
	}
	return 0;
}

static int make_http(struct target *t, const struct check_config *config,
		const struct usher_endpoints *set, size_t i, struct usher_error *reterr)
{
	int r;

	r = find_path(t, config, set, i, reterr);
	if (r >= 0)
		r = make_host(t, config);
	if (r >= 0)
		r = t->tls || !t->is_numeric ? make_url(t, config) : make_request(t, config);
	return r;
}

/* ---- a program ---- */

static int make_command(struct target *t, const struct check_config *config,
		const struct usher_endpoints *set, size_t i, struct usher_error *reterr)
{
	const struct placeholders from = {
		.service = t->service, .set = set, .i = i, .port = t->port
	};
	size_t count = 0;
	int r;

	while (config->command[count])
		count++;
	t->command = calloc(count + 1, sizeof(*t->command));
	if (!t->command)
		return -ENOMEM;
	for (size_t k = 0; k < count; k++) {
		r = placeholders_expand(config->command[k], &from, false, &t->command[k], reterr);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- the whole ---- */

static int make_question(struct target *t, const struct usher_endpoints *set, size_t i,
		struct usher_error *reterr)
{
	const struct check_config *config = check_config(t->check);

	switch (config->kind) {
	case CHECK_HTTP:
		return make_http(t, config, set, i, reterr);
	case CHECK_TCP:
		return t->is_numeric ? 0 : make_url(t, config);
	case CHECK_GRPC:
		return make_url(t, config);
	case CHECK_EXEC:
		return make_command(t, config, set, i, reterr);
	case CHECK_NONE:
		break;
	}
	return 0;
}

static bool uses_tls(const struct check_config *config, const struct usher_endpoint *endpoint)
{
	if (config->kind != CHECK_HTTP && config->kind != CHECK_GRPC)
		return false;
	return config->tls || (endpoint->secure && !config->tls_off);
}

int target_new(struct check *check, const char *service, const struct usher_endpoints *set,
		size_t i, struct target **ret, struct usher_error *reterr)
{
	cleanup(target_freep) struct target *t = NULL;
	const struct check_config *config = check_config(check);
	struct usher_endpoint endpoint;
	int r;

	assert(i < usher_endpoints_count(set));

	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	usher_endpoints_get(set, i, &endpoint);
	t->check = check_ref(check);
	t->tls = uses_tls(config, &endpoint);
	t->service = strdup(service);
	t->id = strdup(endpoint.id);
	t->address = strdup(endpoint.address);
	if (!t->service || !t->id || !t->address)
		return -ENOMEM;

	r = find_port(config, set, i, &t->port, reterr);
	if (r < 0)
		return r;
	find_sockaddr(t);
	r = make_question(t, set, i, reterr);
	if (r < 0)
		return r;
	*ret = take(t);
	return 0;
}

struct target *target_free(struct target *t)
{
	if (!t)
		return NULL;
	check_unref(t->check);
	free(t->service);
	free(t->id);
	free(t->address);
	free(t->path);
	free(t->request);
	free(t->url);
	free(t->connect_to);
	free(t->host);
	for (char **argument = t->command; argument && *argument; argument++)
		free(*argument);
	free(t->command);
	free(t);
	return NULL;
}

static bool texts_equal(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

bool target_same(const struct target *a, const struct target *b)
{
	if (a->check != b->check &&
			!check_config_equal(check_config(a->check), check_config(b->check)))
		return false;
	for (size_t i = 0;; i++) {
		const char *left = a->command ? a->command[i] : NULL;
		const char *right = b->command ? b->command[i] : NULL;

		if (!texts_equal(left, right))
			return false;
		if (!left)
			break;
	}
	return a->port == b->port && a->tls == b->tls && texts_equal(a->service, b->service) &&
			texts_equal(a->id, b->id) && texts_equal(a->address, b->address) &&
			texts_equal(a->path, b->path);
}
