/* What may stand in an HTTP request. */

#include "http-words.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <usher/endpoint.h>

static bool is_visible(const char *text)
{
	for (; *text; text++)
		if (*text <= ' ' || *text > '~')
			return false;
	return true;
}

int http_check_path(const char *path, struct usher_error *reterr)
{
	if (!is_visible(path))
		return usher_error_set(reterr, -EINVAL,
				"the path \"%.80s\" has a blank, a control character or a letter "
				"that is not ASCII: percent-encode it, as in %%20",
				path);
	if (strchr(path, '#'))
		return usher_error_set(reterr, -EINVAL,
				"the path \"%.80s\" has a fragment, which no server gets to see: "
				"leave it out, or write # as %%23",
				path);
	if (path[0] != '/' && strstr(path, "://"))
		return usher_error_set(
				reterr, -EINVAL, "\"%.80s\" is a URL: give only its path", path);
	if (strlen(path) > USHER_TEXT_MAX)
		return usher_error_set(reterr, -EINVAL,
				"the path has %zu bytes; at most %d are possible", strlen(path),
				USHER_TEXT_MAX);
	return 0;
}

int http_check_host(const char *host, char *ret_name, struct usher_error *reterr)
{
	char name[USHER_TEXT_MAX];
	uint16_t port;

	return usher_authority_parse(host, 80, ret_name ? ret_name : name, &port, reterr);
}
