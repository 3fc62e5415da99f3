#pragma once

/* What the files behind <usher/http.h> share. */

#include <usher/plugin.h>

#include <curl/curl.h>

#include "http-credentials.h"
#include "ownership.h"

#define SOURCE_HTTP_MAX 16 /* registries of one plug-in at once */
/* What an answer says in its headers; more than this is nobody's registry. */
#define HTTP_HEADER_BYTES_MAX 65536

DEFINE_CLEANUP(CURLU, curl_url_cleanup);

static inline void curl_freep(char **text)
{
	curl_free(*text);
}

struct http_buffer {
	char *data; /* ended by a zero byte where there is any */
	size_t size, capacity;
};

/* One request, from its start to the call after its last event. */
struct exchange {
	struct usher_http *http;
	uint64_t id;
	CURL *easy; /* NULL: over */
	struct curl_slist *headers, *connect_to;
	char *method, *path, *body, **own_headers;
	size_t body_size;
	unsigned flags;
	uint64_t timeout_usec, idle_usec, max_bytes;
	void *tag;
	size_t server;

	uint64_t started_usec, heard_usec;
	uint64_t sent_usec; /* when it went out; 0: not yet */
	int status;
	bool begun;      /* the last line of the headers has come */
	bool told_begun; /* a stream's BEGIN has been given */
	bool over;
	bool repeated; /* it was sent again because credentials had changed */
	bool too_large, too_much, idle, lost; /* why we broke it off; too_much: of all together */
	int error;
	struct usher_error why;
	char error_text[CURL_ERROR_SIZE];
	struct http_buffer head, data; /* the lines of the headers; what has not been given yet */

	bool queued; /* among those with something to tell */
	struct exchange *next_queued;
	struct exchange *previous, *next; /* of all */
};

struct usher_http {
	struct usher_source *source; /* NULL: none waits for it */
	struct usher_http_config config;
	struct http_credentials *credentials;
	char *ca_data, *certificate_data, *key_data, *token_header, *accept;
	char *servers[USHER_HTTP_SERVERS_MAX];
	size_t server_count, server; /* server: the one that the next request goes to */

	CURLM *multi;
	int epoll_fd;
	uint64_t timer_usec; /* when curl wants to be called; USEC_FOREVER */
	int failed;          /* of curl itself or epoll, as a negative errno */

	uint64_t last_id;
	size_t count;
	uint64_t held;              /* bytes of what the answers have in `data` */
	struct exchange *exchanges; /* those under way, and those with events left */
	struct exchange *queue, *queue_last;
	struct exchange *told;    /* whose data the last event lent; freed by the next call if it is
				     over */
	struct http_buffer lent;  /* a stream's piece */
	struct http_buffer value; /* of the header that was asked for last */
	struct usher_http *next;  /* of the same source */
};

/* ---- http-exchange.c ---- */
int exchange_new(struct usher_http *h, const struct usher_http_request *request,
		struct exchange **ret);
struct exchange *exchange_free(struct exchange *x); /* NULL is fine */
/* Send it, to the server of the moment. Errors: ENOMEM. */
int exchange_send(struct exchange *x);
/* curl is through with it. True: it goes out again. */
bool exchange_finish(struct exchange *x, CURLcode code);
/* Nothing came for too long. */
void exchange_break_off_idle(struct exchange *x);
/* What was held of the answer is given, or worth nothing any more. */
void exchange_forget_data(struct exchange *x);

/* False: no memory. */
bool http_buffer_add(struct http_buffer *b, const char *data, size_t size);

/* ---- http-options.c ---- */
/* Without control characters, which would begin another header. */
bool http_text_is_plain(const char *text);

/* ---- http.c ---- */
void http_queue(struct exchange *x);

/* ---- for the wait of a source ---- */
/* Readable when there is something to do. */
int http_fd(const struct usher_http *h);
/* When there is something to do in any case, or USEC_FOREVER. */
uint64_t http_due_usec(const struct usher_http *h);
/* Do it. True: there are events. */
bool http_process(struct usher_http *h);

/* ---- what a source does for it: source-http.c, or a test that plays the source ---- */
/* Errors: E2BIG (SOURCE_HTTP_MAX). */
int source_attach_http(struct usher_source *source, struct usher_http *h);
void source_detach_http(struct usher_source *source, struct usher_http *h);
bool source_is_told_to_stop(struct usher_source *source);
int source_wake_fd(struct usher_source *source);
