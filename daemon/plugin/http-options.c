/* What a plug-in's users say about its registry, judged before anything is made of it. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "http-private.h"
#include "ownership.h"

#define MASK      "***"
#define SHOWN_MAX 200 /* bytes of a URL in a message */

static bool is_control(char c)
{
	return (unsigned char) c < ' ' || c == 127;
}

bool http_text_is_plain(const char *text)
{
	while (*text && !is_control(*text))
		text++;
	return !*text;
}

/* ---- servers ---- */

/* Where the host begins, behind a scheme. */
static const char *skip_scheme(const char *url)
{
	size_t length = strspn(url,
			"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
			"0123456789+.-");

	return strncmp(url + length, "://", 3) == 0 ? url + length + 3 : url;
}

/* A URL for people, who are not to see what may be secret in it: what stands before an "@", and
 * behind a "?" or "#". */
static const char *show(const char *url, char ret[static SHOWN_MAX])
{
	const char *host = skip_scheme(url);
	const char *at = strrchr(host, '@');
	const char *rest = at ? at : host;
	size_t end = strcspn(rest, "?#");

	end += rest[end] != '\0';
	(void) snprintf(ret, SHOWN_MAX, "%.*s%s%.*s%s", (int) (host - url), url, at ? MASK : "",
			(int) end, rest, rest[end] ? MASK : "");
	for (char *c = ret; *c; c++)
		if (is_control(*c))
			*c = '?';
	return ret;
}

static CURLUcode parse(const char *url)
{
	cleanup(curl_url_cleanupp) CURLU *parsed = curl_url();
	cleanup(curl_freep) char *port = NULL;
	CURLUcode code = CURLUE_OUT_OF_MEMORY;

	if (parsed)
		code = curl_url_set(parsed, CURLUPART_URL, url, CURLU_DISALLOW_USER);
	if (code == CURLUE_OK)
		code = curl_url_get(parsed, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
	if (code == CURLUE_OK && strcmp(port, "0") == 0)
		code = CURLUE_BAD_PORT_NUMBER;
	return code;
}

/* In words that go on behind the URL; NULL: nothing is wrong. */
static const char *find_fault(const char *url, CURLUcode code)
{
	if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
		return "does not begin with http:// or https://";
	if (code != CURLUE_OK && strchr(url, '@'))
		return "has credentials in it: give them as token, or as user and password";
	if (strpbrk(url, "?#"))
		return "has a query or a fragment, and the URL of a server has none";
	if (!http_text_is_plain(url) || strchr(url, ' '))
		return "has a blank or a control character in it";
	if (code == CURLUE_BAD_PORT_NUMBER)
		return "has a port that is not in 1..65535";
	if (code == CURLUE_NO_HOST)
		return "names no host";
	return code != CURLUE_OK ? "is no URL of a server: write http://HOST:PORT or "
				   "https://HOST:PORT, perhaps with a path"
				 : NULL;
}

static int check_server(const char *url, size_t i, struct usher_error *reterr)
{
	CURLUcode code = parse(url);
	const char *fault = find_fault(url, code);
	char shown[SHOWN_MAX];

	if (code == CURLUE_OUT_OF_MEMORY)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	return fault ? usher_error_set(reterr, -EINVAL, "servers[%zu]: \"%s\" %s", i,
				       show(url, shown), fault)
		     : 0;
}

static int check_servers(const char *const *servers, struct usher_error *reterr)
{
	size_t count = 0;
	int r = 0;

	while (servers && servers[count])
		count++;
	if (count == 0)
		return usher_error_set(reterr, -EINVAL, "servers: is empty; name at least one");
	if (count > USHER_HTTP_SERVERS_MAX)
		return usher_error_set(reterr, -E2BIG,
				"servers: %zu are given, and at most %d are possible", count,
				USHER_HTTP_SERVERS_MAX);
	for (size_t i = 0; i < count && r >= 0; i++)
		r = check_server(servers[i], i, reterr);
	return r;
}

/* ---- how to trust them, and how to be trusted ---- */

static int check_server_name(const char *name, struct usher_error *reterr)
{
	cleanup(curl_url_cleanupp) CURLU *url = NULL;

	if (!name)
		return 0;
	url = curl_url();
	if (!url)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	if (!name[0] || !http_text_is_plain(name) ||
			curl_url_set(url, CURLUPART_HOST, name, 0) != CURLUE_OK)
		return usher_error_set(reterr, -EINVAL, "server_name: is no name of a host");
	return 0;
}

static int check_pair(const struct usher_http_options *o, struct usher_error *reterr)
{
	if (!o->certificate == !o->key)
		return 0;
	return usher_error_set(reterr, -EINVAL,
			"%s: is given without %s; a client's certificate and its key go together",
			o->key ? "key" : "certificate", o->key ? "certificate" : "key");
}

/* What goes into a header, where the end of a line would begin another one. */
static int check_text(
		const char *name, const char *text, bool may_be_empty, struct usher_error *reterr)
{
	if (!text)
		return 0;
	if (!text[0] && !may_be_empty)
		return usher_error_set(reterr, -EINVAL, "%s: is empty", name);
	if (!http_text_is_plain(text))
		return usher_error_set(reterr, -EINVAL,
				"%s: has a control character in it, such as the end of a line",
				name);
	return 0;
}

static int check_one_of(
		const char *name, const char *given, const char *file, struct usher_error *reterr)
{
	if (!given || !file)
		return 0;
	return usher_error_set(reterr, -EINVAL, "%s: is given beside %s_file; remove one of them",
			name, name);
}

static int check_credentials(const struct usher_http_options *o, struct usher_error *reterr)
{
	int r = check_one_of("token", o->token, o->token_file, reterr);

	if (r >= 0)
		r = check_one_of("password", o->password, o->password_file, reterr);
	if (r >= 0)
		r = check_text("token", o->token, false, reterr);
	if (r >= 0)
		r = check_text("user", o->user, false, reterr);
	if (r >= 0)
		r = check_text("password", o->password, true, reterr);
	if (r >= 0 && !o->user && (o->password || o->password_file))
		r = usher_error_set(reterr, -EINVAL, "%s: is given without user",
				o->password ? "password" : "password_file");
	return r;
}

int usher_http_check(const struct usher_http_options *options, struct usher_error *reterr)
{
	int r = check_servers(options->servers, reterr);

	if (r >= 0)
		r = check_server_name(options->server_name, reterr);
	if (r >= 0)
		r = check_pair(options, reterr);
	if (r >= 0)
		r = check_credentials(options, reterr);
	return r;
}
