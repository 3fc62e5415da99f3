#include "transfer.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <usher/client.h>
#include <usher/document.h>

#include <curl/curl.h>

#include "boot-clock.h"
#include "ownership.h"

#define URL_MAX        16384
#define LOOK_USEC      UINT64_C(1000000)
#define USEC_PER_MSEC_ 1000
#define SELINUX_STATE  "/sys/fs/selinux/enforce"

struct transfer {
	char *socket;
	CURL *easy;
	CURLM *multi;
	struct curl_slist *headers;
	atomic_bool interrupted;
	uint64_t quiet_usec, look_usec;

	/* of the exchange that runs */
	const struct transfer_request *request;
	uint64_t deadline_usec; /* 0: none */
	char *body;
	size_t body_length, body_capacity;
	int stopped; /* what the sink returned, or why the body could not be kept */
	bool answered;
};

static void curl_start(void)
{
	(void) curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* A header's value: printable and short, whatever the caller called itself. */
static struct curl_slist *consumer_header(const char *consumer)
{
	char header[256];

	(void) snprintf(header, sizeof(header), "Usher-Consumer: %s", consumer);
	for (char *c = header; *c; c++)
		if ((unsigned char) *c < ' ' || *c == 0x7f)
			*c = '_';
	return curl_slist_append(NULL, header);
}

static bool transfer_set_headers(struct transfer *t, const char *consumer)
{
	static const char *const own[] = { "Content-Type: application/json", "Expect:" };

	if (consumer) {
		t->headers = consumer_header(consumer);
		if (!t->headers)
			return false;
	}
	for (size_t i = 0; i < ELEMENTS(own); i++) {
		struct curl_slist *longer = curl_slist_append(t->headers, own[i]);

		if (!longer)
			return false;
		t->headers = longer;
	}
	return true;
}

struct transfer *transfer_new(const char *socket, const char *consumer)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct transfer *t;

	(void) pthread_once(&once, curl_start);
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->look_usec = LOOK_USEC;
	t->socket = strdup(socket);
	t->easy = curl_easy_init();
	t->multi = curl_multi_init();
	if (!t->socket || !t->easy || !t->multi || !transfer_set_headers(t, consumer))
		return transfer_free(t);
	return t;
}

struct transfer *transfer_free(struct transfer *t)
{
	if (!t)
		return NULL;
	curl_easy_cleanup(t->easy);
	if (t->multi)
		(void) curl_multi_cleanup(t->multi);
	curl_slist_free_all(t->headers);
	free(t->body);
	free(t->socket);
	free(t);
	return NULL;
}

const char *transfer_socket(const struct transfer *t)
{
	return t->socket;
}

uint64_t transfer_quiet_usec(const struct transfer *t)
{
	return t->quiet_usec;
}

void transfer_set_look_usec(struct transfer *t, uint64_t look_usec)
{
	t->look_usec = look_usec;
}

void transfer_interrupt(struct transfer *t)
{
	atomic_store(&t->interrupted, true);
	(void) curl_multi_wakeup(t->multi);
}

static int transfer_keep(struct transfer *t, const char *data, size_t length)
{
	size_t needed = t->body_length + length + 1;

	if (t->body_length + length > USHER_BODY_MAX)
		return -E2BIG;
	if (needed > t->body_capacity) {
		size_t capacity = t->body_capacity ? t->body_capacity : 1024;
		char *grown;

		while (capacity < needed)
			capacity *= 2;
		grown = realloc(t->body, capacity);
		if (!grown)
			return -ENOMEM;
		t->body = grown;
		t->body_capacity = capacity;
	}
	if (length > 0)
		memcpy(t->body + t->body_length, data, length);
	t->body_length += length;
	t->body[t->body_length] = 0;
	return 0;
}

static long transfer_status(const struct transfer *t)
{
	long status = 0;

	(void) curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	return status;
}

static size_t transfer_on_bytes(char *data, size_t size, size_t count, void *userdata)
{
	struct transfer *t = userdata;
	size_t length = size * count;

	t->answered = true;
	if (t->request->sink && transfer_status(t) == 200)
		t->stopped = t->request->sink(t->request->userdata, data, length);
	else
		t->stopped = transfer_keep(t, data, length);
	return t->stopped == 0 ? length : length + 1; /* anything else makes curl stop */
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the type is curl's */
static size_t transfer_on_header(char *data, size_t size, size_t count, void *userdata)
{
	struct transfer *t = userdata;

	(void) data;
	t->answered = true;
	return size * count;
}

static int transfer_prepare(struct transfer *t, const struct transfer_request *request)
{
	char url[URL_MAX];
	CURL *easy = t->easy;

	if (strlen(request->path) + sizeof("http://usher") > sizeof(url))
		return -E2BIG;
	(void) snprintf(url, sizeof(url), "http://usher%s", request->path);
	t->request = request;
	t->stopped = 0;
	t->answered = false;
	t->body_length = 0;
	t->deadline_usec = request->timeout_usec ? boot_clock_usec() + request->timeout_usec : 0;
	t->quiet_usec = boot_clock_usec();

	curl_easy_reset(easy);
	if (curl_easy_setopt(easy, CURLOPT_URL, url) != CURLE_OK ||
			curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, t->socket) != CURLE_OK)
		return -ENOMEM;
	(void) curl_easy_setopt(easy, CURLOPT_PROXY, "");
	(void) curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	(void) curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	(void) curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
	(void) curl_easy_setopt(easy, CURLOPT_HTTPHEADER, t->headers);
	(void) curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, transfer_on_bytes);
	(void) curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
	(void) curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, transfer_on_header);
	(void) curl_easy_setopt(easy, CURLOPT_HEADERDATA, t);
	if (request->body)
		(void) curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body);
	else if (strcmp(request->method, "POST") == 0 || strcmp(request->method, "PUT") == 0)
		(void) curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "");
	if (strcmp(request->method, "GET") != 0 &&
			curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method) != CURLE_OK)
		return -ENOMEM;
	return 0;
}

/* Until when to sleep: the time to look at the connection again, or the deadline. */
static int transfer_sleep_msec(const struct transfer *t, uint64_t now)
{
	uint64_t until = t->look_usec;

	if (t->deadline_usec && !(t->answered && t->request->sink)) {
		uint64_t left = t->deadline_usec > now ? t->deadline_usec - now : 0;

		if (left < until)
			until = left;
	}
	return (int) (until / USEC_PER_MSEC_) + 1;
}

static bool transfer_late(const struct transfer *t)
{
	if (!t->deadline_usec || (t->answered && t->request->sink))
		return false;
	return boot_clock_usec() >= t->deadline_usec;
}

/* Returns curl's result, or a negative errno. */
static int transfer_loop(struct transfer *t)
{
	CURLMsg *message;
	int running = 0, events = 0, left = 0;

	for (;;) {
		uint64_t now;

		if (curl_multi_perform(t->multi, &running) != CURLM_OK)
			return -ENOMEM;
		if (running == 0)
			break;
		now = boot_clock_usec();
		if (curl_multi_poll(t->multi, NULL, 0, 0, &events) != CURLM_OK)
			return -ENOMEM;
		if (events == 0)
			t->quiet_usec = now;
		if (atomic_exchange(&t->interrupted, false))
			return -EINTR;
		if (transfer_late(t))
			return -ETIMEDOUT;
		if (events == 0 &&
				curl_multi_poll(t->multi, NULL, 0, transfer_sleep_msec(t, now),
						&events) != CURLM_OK)
			return -ENOMEM;
	}
	message = curl_multi_info_read(t->multi, &left);
	return message && message->msg == CURLMSG_DONE ? (int) message->data.result : -EIO;
}

static bool selinux_enforces(void)
{
	cleanup(fclosep) FILE *file = fopen(SELINUX_STATE, "re");

	return file && fgetc(file) == '1';
}

static int connect_error(const struct transfer *t, struct usher_error *reterr)
{
	const char *socket = t->socket;
	long code = 0;

	(void) curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &code);
	switch (code) {
	case ENOENT:
	case ENOTDIR:
		return usher_error_set(reterr, -ENOENT,
				"usherd does not answer on %s: there is no such socket; is usherd running? systemctl status usherd",
				socket);
	case EACCES:
	case EPERM:
		return usher_error_set(reterr, -EACCES,
				"not permitted to connect to %s: join the group that owns it (ls -l %s), or use sudo%s",
				socket, socket,
				selinux_enforces() ? "; SELinux is enforcing here and may be what "
						     "refuses: ausearch -m avc -ts recent"
						   : "");
	case EAGAIN:
		return usher_error_set(reterr, -ECONNREFUSED,
				"usherd does not answer on %s: its queue of new connections is full; it may be stopped or overloaded: systemctl status usherd",
				socket);
	default:
		return usher_error_set(reterr, -ECONNREFUSED,
				"usherd does not answer on %s: connection refused; is usherd running? systemctl status usherd",
				socket);
	}
}

static int own_error(const struct transfer *t, int code, struct usher_error *reterr)
{
	char duration[USHER_DURATION_TEXT_MAX];

	switch (-code) {
	case ETIMEDOUT:
		return usher_error_set(reterr, code,
				"usherd did not answer on %s within %s; it may be stopped or overloaded: systemctl status usherd",
				t->socket,
				usher_duration_format(t->request->timeout_usec, duration));
	case EINTR:
		return usher_error_set(reterr, code, "interrupted while waiting for usherd on %s",
				t->socket);
	case E2BIG:
		return usher_error_set(reterr, code,
				"the answer of usherd on %s to %s is larger than the %zu bytes that are taken",
				t->socket, t->request->path, USHER_BODY_MAX);
	default:
		return usher_error_prefix(reterr, code, "%s %s on %s", t->request->method,
				t->request->path, t->socket);
	}
}

static int curl_error(const struct transfer *t, CURLcode code, struct usher_error *reterr)
{
	switch ((int) code) {
	case CURLE_COULDNT_CONNECT:
		return connect_error(t, reterr);
	case CURLE_GOT_NOTHING:
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
	case CURLE_PARTIAL_FILE:
		return usher_error_set(reterr, -ECONNRESET,
				"usherd closed the connection on %s before its answer was complete; was it restarted? systemctl status usherd",
				t->socket);
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_BAD_CONTENT_ENCODING:
		return usher_error_set(reterr, -EBADMSG,
				"what answers on %s does not speak HTTP, so it is no usherd; is this the right socket?",
				t->socket);
	case CURLE_OUT_OF_MEMORY:
		return own_error(t, -ENOMEM, reterr);
	default:
		return usher_error_set(reterr, -EIO, "%s %s on %s: %s", t->request->method,
				t->request->path, t->socket, curl_easy_strerror(code));
	}
}

int transfer_run(struct transfer *t, const struct transfer_request *request, char **ret_body,
		struct usher_error *reterr)
{
	long status;
	int r;

	assert(t);
	assert(request->method && request->path);

	if (strlen(t->socket) >= sizeof(((struct sockaddr_un *) NULL)->sun_path))
		return usher_error_set(reterr, -ENAMETOOLONG,
				"%s is no socket's path: it has more than %zu bytes", t->socket,
				sizeof(((struct sockaddr_un *) NULL)->sun_path) - 1);
	r = transfer_prepare(t, request);
	if (r < 0)
		return usher_error_prefix(reterr, r, "%s on %s", request->method, t->socket);
	if (curl_multi_add_handle(t->multi, t->easy) != CURLM_OK)
		return usher_error_prefix(reterr, -ENOMEM, "%s on %s", request->method, t->socket);
	r = transfer_loop(t);
	status = transfer_status(t);
	if (t->stopped != 0)
		r = t->stopped < 0 && !request->sink ? own_error(t, t->stopped, reterr)
						     : t->stopped;
	else if (r < 0)
		r = own_error(t, r, reterr);
	else if (r > 0)
		r = curl_error(t, (CURLcode) r, reterr);
	else
		r = transfer_keep(t, "", 0) < 0 ? own_error(t, -ENOMEM, reterr) : (int) status;
	(void) curl_multi_remove_handle(t->multi, t->easy);
	if (r == (int) status && t->stopped == 0) {
		*ret_body = take(t->body);
		t->body_capacity = 0;
	}
	return r;
}
