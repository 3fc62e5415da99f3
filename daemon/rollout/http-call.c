/* One HTTP request that blocks. */

#include "http-call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <curl/curl.h>

#include "clock.h"
#include "ownership.h"

DEFINE_CLEANUP(CURL, curl_easy_cleanup);

static inline void curl_slist_freep(struct curl_slist **list)
{
	curl_slist_free_all(*list);
}

const char *http_call_show(const char *url, char *ret, size_t size)
{
	const char *host = strstr(url, "://");
	size_t scheme, length;
	const char *at;

	host = host ? host + 3 : url;
	scheme = (size_t) (host - url);
	length = strcspn(host, "?#");
	at = memrchr(host, '@', strcspn(host, "/?#"));
	if (at) {
		length -= (size_t) (at + 1 - host);
		host = at + 1;
	}
	(void) snprintf(ret, size, "%.*s%.*s", (int) scheme, url, (int) length, host);
	return ret;
}

static int code_to_errno(CURLcode code)
{
	switch (code) {
	case CURLE_COULDNT_CONNECT:
		return -ECONNREFUSED;
	case CURLE_OPERATION_TIMEDOUT:
		return -ETIMEDOUT;
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		return -EHOSTUNREACH;
	case CURLE_URL_MALFORMAT:
	case CURLE_UNSUPPORTED_PROTOCOL:
		return -EINVAL;
	case CURLE_OUT_OF_MEMORY:
		return -ENOMEM;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_GOT_NOTHING:
		return -EPROTO;
	default:
		return -EIO;
	}
}

/* The status is what counts; of the body, a bounded part is read and dropped. */
/* NOLINTNEXTLINE(readability-non-const-parameter): curl's type */
static size_t drop_body(char *data, size_t size, size_t count, void *userdata)
{
	size_t *left = userdata, bytes = size * count;

	(void) data;
	if (bytes > *left)
		return 0;
	*left -= bytes;
	return bytes;
}

static void set_options(CURL *curl, const struct http_call *call, size_t *left)
{
	(void) curl_easy_setopt(curl, CURLOPT_URL, call->url);
	(void) curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	(void) curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	(void) curl_easy_setopt(curl, CURLOPT_PROXY, "");
	(void) curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
	(void) curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, 1L);
	(void) curl_easy_setopt(curl, CURLOPT_USERAGENT, "usherd");
	(void) curl_easy_setopt(
			curl, CURLOPT_TIMEOUT_MS, (long) (call->timeout_usec / USEC_PER_MSEC + 1));
	(void) curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop_body);
	(void) curl_easy_setopt(curl, CURLOPT_WRITEDATA, left);
	if (call->method)
		(void) curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, call->method);
	if (call->method && strcmp(call->method, "HEAD") == 0)
		(void) curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
	if (call->body)
		(void) curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call->body);
	if (call->any_certificate) {
		(void) curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
		(void) curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
	}
}

/* The lines that go with the request. -ENOMEM leaves the list as it was. */
static int add_header(struct curl_slist **list, const char *line)
{
	struct curl_slist *more = curl_slist_append(*list, line);

	if (!more)
		return -ENOMEM;
	*list = more;
	return 0;
}

int http_call(const struct http_call *call, struct usher_error *reterr)
{
	cleanup(curl_easy_cleanupp) CURL *curl = curl_easy_init();
	cleanup(curl_slist_freep) struct curl_slist *headers = NULL;
	char text[CURL_ERROR_SIZE] = "", shown[256];
	size_t left = HTTP_CALL_ANSWER_MAX;
	long status = 0;
	CURLcode code;
	int r = 0;

	if (!curl)
		return -ENOMEM;
	if (call->header)
		r = add_header(&headers, call->header);
	if (r >= 0 && call->body)
		r = add_header(&headers, "Content-Type: application/json");
	if (r < 0)
		return r;

	set_options(curl, call, &left);
	(void) curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	(void) curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, text);
	code = curl_easy_perform(curl);
	(void) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	if (code != CURLE_OK && !(code == CURLE_WRITE_ERROR && status > 0))
		return usher_error_set(reterr, code_to_errno(code), "%s %s: %s",
				call->method ? call->method : "GET",
				http_call_show(call->url, shown, sizeof(shown)),
				text[0] ? text : curl_easy_strerror(code));
	return (int) status;
}
