/* One request as curl sees it. */

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "http-error.h"
#include "http-private.h"
#include "ownership.h"

DEFINE_CLEANUP(struct exchange, exchange_free);
DEFINE_CLEANUP(char, http_secret_free);

#define DEFAULT_TIMEOUT_USEC UINT64_C(10000000)
/* A connection that is dead without a word is noticed by the kernel. */
#define KEEPALIVE_IDLE_S     15L
#define KEEPALIVE_INTERVAL_S 5L
#define UNACKNOWLEDGED_MS    10000U
/* A connection that was closed while nobody used it shows at once, and curl takes another one. One
 * that dies later takes the answer with it. */
#define RESEND_USEC USEC_PER_SEC

static void free_lines(char **lines)
{
	for (size_t i = 0; lines && lines[i]; i++)
		free(lines[i]);
	free(lines);
}

struct exchange *exchange_free(struct exchange *x)
{
	if (!x)
		return NULL;
	if (x->easy) {
		(void) curl_multi_remove_handle(x->http->multi, x->easy);
		curl_easy_cleanup(x->easy);
	}
	for (struct curl_slist *l = x->headers; l; l = l->next)
		explicit_bzero(l->data, strlen(l->data));
	curl_slist_free_all(x->headers);
	curl_slist_free_all(x->connect_to);
	free_lines(x->own_headers);
	free(x->method);
	free(x->path);
	free(x->body);
	free(x->head.data);
	exchange_forget_data(x);
	free(x->data.data);
	free(x);
	return NULL;
}

void exchange_forget_data(struct exchange *x)
{
	x->http->held -= x->data.size;
	x->data.size = 0;
}

/* What will not be whole is given to nobody: its memory is for the others. */
static void drop_part(struct exchange *x)
{
	if (x->flags & USHER_HTTP_STREAM)
		return;
	exchange_forget_data(x);
	free(x->data.data);
	x->data = (struct http_buffer){};
}

/* ---- what comes ---- */

bool http_buffer_add(struct http_buffer *b, const char *data, size_t size)
{
	if (b->size + size + 1 > b->capacity) {
		size_t capacity = b->capacity ? b->capacity : 4096;
		char *grown;

		while (capacity < b->size + size + 1)
			capacity *= 2;
		grown = realloc(b->data, capacity);
		if (!grown)
			return false;
		b->data = grown;
		b->capacity = capacity;
	}
	memcpy(b->data + b->size, data, size);
	b->size += size;
	b->data[b->size] = '\0';
	return true;
}

/* Whether what let us in may have become another one, so that it is worth another try. */
static bool has_new_credentials(struct exchange *x)
{
	return x->status == 401 && !x->repeated &&
			http_credentials_look(x->http->credentials, true);
}

static size_t on_header(char *line, size_t size, size_t count, void *userdata)
{
	struct exchange *x = userdata;
	size_t bytes = size * count;
	long status = 0;

	x->heard_usec = clock_boot_usec();
	if (bytes >= 5 && strncmp(line, "HTTP/", 5) == 0)
		x->head.size = 0; /* what came before was an informational answer */
	if (x->head.size + bytes > HTTP_HEADER_BYTES_MAX) {
		x->too_large = true;
		return 0;
	}
	if (!http_buffer_add(&x->head, line, bytes))
		return 0;
	if (bytes > 2 || (bytes == 2 && line[0] != '\r'))
		return bytes;
	(void) curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status < 200)
		return bytes;
	x->status = (int) status;
	if (has_new_credentials(x)) {
		x->repeated = true;
		return 0; /* ends this attempt; exchange_finish() sends it again */
	}
	x->begun = true;
	if (x->flags & USHER_HTTP_STREAM)
		http_queue(x);
	return bytes;
}

static size_t on_data(char *data, size_t size, size_t count, void *userdata)
{
	struct exchange *x = userdata;
	size_t bytes = size * count;

	x->heard_usec = clock_boot_usec();
	x->too_large = x->data.size + bytes > x->max_bytes;
	x->too_much = x->http->held + bytes > USHER_HTTP_HELD_MAX;
	if (x->too_large || x->too_much || !http_buffer_add(&x->data, data, bytes)) {
		drop_part(x);
		return 0;
	}
	x->http->held += bytes;
	if (x->flags & USHER_HTTP_STREAM)
		http_queue(x);
	return bytes;
}

/* Whether curl is about to send again, by itself, what has waited for its answer in vain. Who asked
 * has to know: to ask later, at another time than everybody else who has lost this server, and
 * perhaps for something else. */
static bool is_lost(struct exchange *x)
{
	if (x->sent_usec != 0 && clock_boot_usec() - x->sent_usec > RESEND_USEC)
		x->lost = true;
	return x->lost;
}

/* The connection is there, and the request is about to go out. */
/* NOLINTNEXTLINE(readability-non-const-parameter): curl's type */
static int on_ready(void *userdata, char *remote_address, char *local_address, int remote_port,
		int local_port)
{
	struct exchange *x = userdata;

	(void) remote_address;
	(void) local_address;
	(void) remote_port;
	(void) local_port;
	if (is_lost(x))
		return CURL_PREREQFUNC_ABORT;
	x->started_usec = x->heard_usec = clock_boot_usec();
	if (x->sent_usec == 0)
		x->sent_usec = x->started_usec;
	return CURL_PREREQFUNC_OK;
}

static int on_socket(void *userdata, curl_socket_t fd, curlsocktype purpose)
{
	unsigned timeout_ms = UNACKNOWLEDGED_MS;

	(void) purpose;
	if (is_lost(userdata))
		return CURL_SOCKOPT_ERROR;
	(void) setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
	return CURL_SOCKOPT_OK;
}

/* ---- what goes out ---- */

static int add_line(struct exchange *x, const char *line)
{
	struct curl_slist *more = curl_slist_append(x->headers, line);

	if (!more)
		return -ENOMEM;
	x->headers = more;
	return 0;
}

static int add_own_lines(struct exchange *x)
{
	char accept[256];
	int r;

	(void) snprintf(accept, sizeof(accept), "Accept: %s",
			x->http->accept ? x->http->accept : "application/json");
	r = add_line(x, accept);
	for (size_t i = 0; r >= 0 && x->own_headers && x->own_headers[i]; i++)
		r = add_line(x, x->own_headers[i]);
	if (r >= 0)
		r = add_line(x, "Expect:");
	return r;
}

static int add_headers(struct exchange *x)
{
	cleanup(http_secret_freep) char *secret = NULL;
	struct usher_http *h = x->http;
	int r;

	for (struct curl_slist *l = x->headers; l; l = l->next)
		explicit_bzero(l->data, strlen(l->data));
	curl_slist_free_all(take(x->headers));
	(void) http_credentials_look(h->credentials, false);
	r = http_credentials_header(
			h->credentials, h->config.auth, h->token_header, &secret, &x->why);
	if (r >= 0 && secret)
		r = add_line(x, secret);
	return r < 0 ? r : add_own_lines(x);
}

static void set_tls(struct exchange *x)
{
	const struct usher_http *h = x->http;
	const struct usher_http_options *o = h->config.options;
	struct curl_blob blob = { .flags = CURL_BLOB_NOCOPY };

	(void) curl_easy_setopt(x->easy, CURLOPT_SSL_VERIFYPEER, o->verify ? 1L : 0L);
	(void) curl_easy_setopt(x->easy, CURLOPT_SSL_VERIFYHOST, o->verify ? 2L : 0L);
	if (o->ca)
		(void) curl_easy_setopt(x->easy, CURLOPT_CAINFO, o->ca);
	if (o->certificate)
		(void) curl_easy_setopt(x->easy, CURLOPT_SSLCERT, o->certificate);
	if (o->key)
		(void) curl_easy_setopt(x->easy, CURLOPT_SSLKEY, o->key);
	if (h->ca_data) {
		blob.data = h->ca_data;
		blob.len = strlen(h->ca_data);
		(void) curl_easy_setopt(x->easy, CURLOPT_CAINFO_BLOB, &blob);
	}
	if (h->certificate_data) {
		blob.data = h->certificate_data;
		blob.len = strlen(h->certificate_data);
		(void) curl_easy_setopt(x->easy, CURLOPT_SSLCERT_BLOB, &blob);
	}
	if (h->key_data) {
		blob.data = h->key_data;
		blob.len = strlen(h->key_data);
		(void) curl_easy_setopt(x->easy, CURLOPT_SSLKEY_BLOB, &blob);
	}
}

static void set_method(struct exchange *x)
{
	if (x->method)
		(void) curl_easy_setopt(x->easy, CURLOPT_CUSTOMREQUEST, x->method);
	if (x->method && strcmp(x->method, "HEAD") == 0)
		(void) curl_easy_setopt(x->easy, CURLOPT_NOBODY, 1L);
	if (x->body) {
		(void) curl_easy_setopt(x->easy, CURLOPT_POSTFIELDS, x->body);
		(void) curl_easy_setopt(
				x->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) x->body_size);
	}
}

static void set_connection(struct exchange *x)
{
	const struct usher_http_options *o = x->http->config.options;

	(void) curl_easy_setopt(x->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	(void) curl_easy_setopt(x->easy, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
	(void) curl_easy_setopt(x->easy, CURLOPT_NOSIGNAL, 1L);
	(void) curl_easy_setopt(x->easy, CURLOPT_PROXY, "");
	(void) curl_easy_setopt(x->easy, CURLOPT_USERAGENT, "usherd");
	(void) curl_easy_setopt(x->easy, CURLOPT_ACCEPT_ENCODING, "gzip");
	(void) curl_easy_setopt(x->easy, CURLOPT_TCP_KEEPALIVE, 1L);
	(void) curl_easy_setopt(x->easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
	(void) curl_easy_setopt(x->easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
	(void) curl_easy_setopt(x->easy, CURLOPT_SOCKOPTFUNCTION, on_socket);
	(void) curl_easy_setopt(x->easy, CURLOPT_SOCKOPTDATA, x);
	(void) curl_easy_setopt(x->easy, CURLOPT_CONNECTTIMEOUT_MS,
			(long) (o->connect_timeout_usec / USEC_PER_MSEC));
	(void) curl_easy_setopt(
			x->easy, CURLOPT_TIMEOUT_MS, (long) (x->timeout_usec / USEC_PER_MSEC));
}

static void set_callbacks(struct exchange *x)
{
	(void) curl_easy_setopt(x->easy, CURLOPT_PRIVATE, x);
	(void) curl_easy_setopt(x->easy, CURLOPT_ERRORBUFFER, x->error_text);
	(void) curl_easy_setopt(x->easy, CURLOPT_HEADERFUNCTION, on_header);
	(void) curl_easy_setopt(x->easy, CURLOPT_HEADERDATA, x);
	(void) curl_easy_setopt(x->easy, CURLOPT_WRITEFUNCTION, on_data);
	(void) curl_easy_setopt(x->easy, CURLOPT_WRITEDATA, x);
	(void) curl_easy_setopt(x->easy, CURLOPT_PREREQFUNCTION, on_ready);
	(void) curl_easy_setopt(x->easy, CURLOPT_PREREQDATA, x);
}

/* Where the certificate bears another name than the URL, the URL gets that name, and the connection
 * is led to the server's own address. */
static int lead_to_address(struct exchange *x, CURLU *url, const char *name)
{
	cleanup(curl_freep) char *host = NULL;
	cleanup(curl_freep) char *port = NULL;
	autofree char *to = NULL;

	if (curl_url_get(url, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
			curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK ||
			asprintf(&to, "%s:%s:%s:%s", name, port, host, port) < 0)
		return -ENOMEM;
	x->connect_to = curl_slist_append(NULL, to);
	if (!x->connect_to || curl_url_set(url, CURLUPART_HOST, name, 0) != CURLUE_OK)
		return -ENOMEM;
	(void) curl_easy_setopt(x->easy, CURLOPT_CONNECT_TO, x->connect_to);
	return 0;
}

static int set_url(struct exchange *x)
{
	const char *base = x->http->servers[x->server];
	const char *name = x->http->config.options->server_name;
	cleanup(curl_url_cleanupp) CURLU *url = curl_url();
	cleanup(curl_freep) char *whole = NULL;
	autofree char *text = NULL;
	int r = 0;

	if (!url || asprintf(&text, "%s%s", base, x->path) < 0) {
		text = NULL;
		return -ENOMEM;
	}
	if (curl_url_set(url, CURLUPART_URL, text, 0) != CURLUE_OK)
		return usher_error_set(&x->why, -EINVAL, "%s: the path %.100s makes no URL", base,
				x->path);
	if (name && strncmp(base, "https://", 8) == 0)
		r = lead_to_address(x, url, name);
	if (r < 0 || curl_url_get(url, CURLUPART_URL, &whole, 0) != CURLUE_OK)
		return -ENOMEM;
	return curl_easy_setopt(x->easy, CURLOPT_URL, whole) == CURLE_OK ? 0 : -ENOMEM;
}

int exchange_send(struct exchange *x)
{
	int r;

	assert(!x->easy);
	curl_slist_free_all(take(x->connect_to));
	x->easy = curl_easy_init();
	if (!x->easy)
		return -ENOMEM;
	x->server = x->http->server;
	x->status = 0;
	x->begun = false;
	x->head.size = 0;
	exchange_forget_data(x);
	x->started_usec = x->heard_usec = clock_boot_usec();
	x->sent_usec = 0;
	set_connection(x);
	set_callbacks(x);
	set_tls(x);
	set_method(x);
	r = set_url(x);
	if (r >= 0)
		r = add_headers(x);
	if (r < 0)
		return r;
	(void) curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, x->headers);
	return curl_multi_add_handle(x->http->multi, x->easy) == CURLM_OK ? 0 : -ENOMEM;
}

/* ---- the end ---- */

static void set_error(struct exchange *x, int error, const char *text)
{
	x->error = usher_error_set(&x->why, error, "%s%s%s: %s", x->http->servers[x->server],
			x->begun ? " answered, and then" : "", x->begun ? " failed" : "", text);
}

static void judge(struct exchange *x, CURLcode code)
{
	char text[USHER_ERROR_TEXT_MAX];

	if (x->lost) {
		set_error(x, -ECONNRESET, "closed the connection without an answer");
	} else if (x->idle) {
		(void) snprintf(text, sizeof(text), "has been silent for %.1f s",
				(double) x->idle_usec / (double) USEC_PER_SEC);
		set_error(x, -ETIMEDOUT, text);
	} else if (x->too_large) {
		(void) snprintf(text, sizeof(text), "says more than %zu bytes",
				(size_t) x->max_bytes);
		set_error(x, -EMSGSIZE, text);
	} else if (x->too_much) {
		(void) snprintf(text, sizeof(text),
				"this answer and the others under way have more than %zu MiB together",
				(size_t) (USHER_HTTP_HELD_MAX >> 20));
		set_error(x, -EMSGSIZE, text);
	} else if (code == CURLE_WRITE_ERROR) {
		set_error(x, -ENOMEM, "out of memory");
	} else if (code != CURLE_OK) {
		(void) snprintf(text, sizeof(text), "%s%s",
				x->error_text[0] ? x->error_text : curl_easy_strerror(code),
				http_error_remedy(code));
		set_error(x, http_error_code(code), text);
	}
}

/* Whether it is the server that failed. */
static bool gave_no_answer(const struct exchange *x)
{
	return x->error < 0 && x->error != -ENOMEM && x->error != -EMSGSIZE;
}

bool exchange_finish(struct exchange *x, CURLcode code)
{
	bool again = x->repeated && !x->begun && x->status == 401;

	(void) curl_multi_remove_handle(x->http->multi, x->easy);
	curl_easy_cleanup(take(x->easy));
	if (again) {
		int r = exchange_send(x);

		if (r >= 0)
			return true;
		set_error(x, r, "cannot be asked again");
	} else {
		judge(x, code);
		if (gave_no_answer(x))
			usher_http_leave(x->http, x->http->servers[x->server]);
	}
	if (x->error < 0)
		drop_part(x);
	x->over = true;
	http_queue(x);
	return false;
}

void exchange_break_off_idle(struct exchange *x)
{
	x->idle = true;
	(void) exchange_finish(x, CURLE_OPERATION_TIMEDOUT);
}

/* ---- the start ---- */

static int copy_lines(const char *const *lines, char ***ret)
{
	size_t count = 0;
	char **copy;

	while (lines && lines[count])
		if (++count > USHER_HTTP_HEADERS_MAX)
			return -E2BIG;
	copy = calloc(count + 1, sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		copy[i] = strdup(lines[i]);
		if (!copy[i]) {
			free_lines(copy);
			return -ENOMEM;
		}
	}
	*ret = copy;
	return 0;
}

static int copy_request(struct exchange *x, const struct usher_http_request *request)
{
	x->path = strdup(request->path);
	if (!x->path)
		return -ENOMEM;
	if (request->method) {
		x->method = strdup(request->method);
		if (!x->method)
			return -ENOMEM;
	}
	if (request->body) {
		x->body = malloc(request->body_size + 1);
		if (!x->body)
			return -ENOMEM;
		memcpy(x->body, request->body, request->body_size);
		x->body_size = request->body_size;
	}
	return copy_lines(request->headers, &x->own_headers);
}

int exchange_new(struct usher_http *h, const struct usher_http_request *request,
		struct exchange **ret)
{
	cleanup(exchange_freep) struct exchange *x = NULL;
	bool stream = request->flags & USHER_HTTP_STREAM;
	int r;

	if (!request->path || request->path[0] != '/')
		return -EINVAL;
	if (h->count == USHER_HTTP_REQUESTS_MAX)
		return -E2BIG;
	x = calloc(1, sizeof(*x));
	if (!x)
		return -ENOMEM;
	x->http = h;
	x->flags = request->flags;
	x->tag = request->tag;
	x->timeout_usec = request->timeout_usec || stream ? request->timeout_usec
							  : DEFAULT_TIMEOUT_USEC;
	x->idle_usec = request->idle_usec;
	x->max_bytes = request->max_bytes ? request->max_bytes : USHER_HTTP_ANSWER_MAX;
	r = copy_request(x, request);
	if (r < 0)
		return r;
	*ret = take(x);
	return 0;
}
