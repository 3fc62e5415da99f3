/* What went wrong, in errno and in words: the one place that knows curl's codes. */

#include "http-error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <usher/http.h>

int http_error_code(CURLcode code)
{
	switch (code) {
	case CURLE_COULDNT_CONNECT:
		return -ECONNREFUSED;
	case CURLE_OPERATION_TIMEDOUT:
		return -ETIMEDOUT;
	case CURLE_COULDNT_RESOLVE_HOST:
		return -EHOSTUNREACH;
	case CURLE_OUT_OF_MEMORY:
		return -ENOMEM;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_ISSUER_ERROR:
		return -EACCES;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_BAD_CONTENT_ENCODING:
		return -EPROTO;
	case CURLE_GOT_NOTHING:
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
	case CURLE_PARTIAL_FILE:
		return -ECONNRESET;
	default:
		return -EIO;
	}
}

const char *http_error_remedy(CURLcode code)
{
	switch (code) {
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_ISSUER_ERROR:
		return "; if it is the right server, give its CA as `ca`, and as `server_name` the name in its certificate";
	case CURLE_SSL_CACERT_BADFILE:
		return "; see `ca`";
	case CURLE_SSL_CERTPROBLEM:
		return "; see `certificate` and `key`";
	default:
		return "";
	}
}

/* The first line of what a server says, for people: printable, and not much of it. */
static void first_line(const char *data, size_t size, char *ret, size_t ret_size)
{
	size_t at = 0;

	for (size_t i = 0; i < size && at + 1 < ret_size; i++) {
		unsigned char c = (unsigned char) data[i];

		if (c == '\n' || c == '\r')
			break;
		ret[at++] = c < ' ' || c >= 127 ? '?' : (char) c;
	}
	ret[at] = '\0';
}

static int status_code(int status)
{
	switch (status) {
	case 401:
	case 403:
		return -EACCES;
	case 404:
		return -ENOENT;
	case 429:
	case 503:
		return -EAGAIN;
	default:
		return -EIO;
	}
}

int usher_http_status_error(const struct usher_http_event *event, struct usher_error *reterr)
{
	char line[120] = "";

	if (event->status >= 200 && event->status < 300)
		return 0;
	if (event->data)
		first_line(event->data, event->data_size, line, sizeof(line));
	return usher_error_set(reterr, status_code(event->status), "%s says HTTP %d%s%s%s",
			event->server ? event->server : "the server", event->status,
			line[0] ? " (" : "", line, line[0] ? ")" : "");
}

static bool is_unreserved(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			c == '-' || c == '.' || c == '_' || c == '~';
}

bool usher_http_escape(char *path, size_t size, const char *text)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t at = strlen(path);

	for (; *text; text++) {
		unsigned char c = (unsigned char) *text;

		if (at + 4 > size)
			return false;
		if (is_unreserved(c)) {
			path[at++] = (char) c;
		} else {
			path[at++] = '%';
			path[at++] = digits[c >> 4];
			path[at++] = digits[c & 15];
		}
		path[at] = '\0';
	}
	return true;
}
