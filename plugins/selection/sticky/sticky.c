/* Keeps the one endpoint that the request is bound to, by its id.
 *
 * The id is the field `sticky` of the pick, else the value of a cookie in the `cookie` header of
 * the request that the endpoint is for. The header is read as RFC 6265, section 4.2.1, has it:
 * pairs separated by semicolons, a name in its own case of letters, a value up to the semicolon
 * with whatever "=" is in it, perhaps in double quotes. Which of several cookies of one name rules
 * the RFC leaves open (section 4.2.2); here it is the last that has a value, as with the clients of
 * Spring Cloud. HTTP/2 may split the header into several (RFC 9113, section 8.2.3); all are read,
 * in order. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <usher/plugin.h>

struct sticky {
	const char *cookie; /* option; empty: no cookie is looked at */
};

/* A piece of somebody else's text. */
struct piece {
	const char *start;
	size_t length;
};

/* ---- cookies ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct piece trim(const char *start, size_t length)
{
	while (length > 0 && is_blank(start[0])) {
		start++;
		length--;
	}
	while (length > 0 && is_blank(start[length - 1]))
		length--;
	return (struct piece){ start, length };
}

static struct piece unquote(struct piece value)
{
	if (value.length < 2 || value.start[0] != '"' || value.start[value.length - 1] != '"')
		return value;
	return (struct piece){ value.start + 1, value.length - 2 };
}

/* The value in one "name=value", or nothing where the name is another. */
static struct piece value_in_pair(struct piece pair, const char *name)
{
	const char *sign = memchr(pair.start, '=', pair.length);
	struct piece given;

	if (!sign)
		return (struct piece){};
	given = trim(pair.start, (size_t) (sign - pair.start));
	if (given.length != strlen(name) || memcmp(given.start, name, given.length) != 0)
		return (struct piece){};
	return unquote(trim(sign + 1, (size_t) (pair.start + pair.length - sign) - 1));
}

/* The last value that is not empty, in one header. */
static struct piece value_in_header(const char *header, const char *name)
{
	struct piece last = {};

	for (;;) {
		size_t length = strcspn(header, ";");
		struct piece value = value_in_pair((struct piece){ header, length }, name);

		if (value.length > 0)
			last = value;
		if (header[length] == '\0')
			return last;
		header += length + 1;
	}
}

static struct piece value_in_request(const struct usher_request *request, const char *name)
{
	struct piece last = {};

	for (size_t i = 0; i < request->header_count; i++) {
		struct piece value;

		if (strcasecmp(request->headers[i].name, "cookie") != 0)
			continue;
		value = value_in_header(request->headers[i].value, name);
		if (value.length > 0)
			last = value;
	}
	return last;
}

/* ---- the stage ---- */

/* The id that is asked for; length 0: none. */
static struct piece wanted_id(const struct sticky *s, const struct usher_request *request)
{
	if (!request)
		return (struct piece){};
	if (request->sticky && request->sticky[0])
		return (struct piece){ request->sticky, strlen(request->sticky) };
	if (s->cookie[0] == '\0')
		return (struct piece){};
	return value_in_request(request, s->cookie);
}

/* The index of the id, or a negative value. A piece is no string, which finding an id takes; one
 * that is longer than any id is nobody's. */
static ssize_t find_endpoint(const struct usher_view *view, struct piece id)
{
	char text[USHER_TEXT_MAX + 1];

	if (id.length > USHER_TEXT_MAX)
		return -ENOENT;
	memcpy(text, id.start, id.length);
	text[id.length] = '\0';
	return usher_endpoints_find(view->endpoints, text);
}

static size_t sticky_filter(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t *candidates, size_t count)
{
	struct piece id = wanted_id(instance, request);
	ssize_t found;

	if (id.length == 0)
		return count;
	found = find_endpoint(view, id);
	for (size_t i = 0; i < count; i++)
		if ((ssize_t) candidates[i] == found) {
			candidates[0] = candidates[i];
			return 1;
		}
	return 0;
}

/* A piece in a message: never more than this of it. */
static int shown(struct piece id)
{
	return id.length > 64 ? 64 : (int) id.length;
}

static void sticky_explain(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret_text,
		size_t size)
{
	struct piece id = wanted_id(instance, request);

	(void) view;
	(void) candidate;
	if (id.length == 0)
		(void) snprintf(ret_text, size, "the request is bound to none");
	else
		(void) snprintf(ret_text, size, "the request is bound to %.*s", shown(id),
				id.start);
}

static void sticky_tell(const void *instance, const struct usher_pass *pass,
		const uint32_t *candidates, size_t count, size_t kept, char *ret_text, size_t size)
{
	const struct sticky *s = instance;
	const struct usher_request *request = pass->request;
	struct piece id = wanted_id(s, request);
	char from[96] = "";

	(void) candidates;
	(void) count;
	if (id.length == 0) {
		(void) snprintf(ret_text, size, "the request is bound to none");
		return;
	}
	if (!request->sticky || !request->sticky[0])
		(void) snprintf(from, sizeof(from), " by cookie %.64s", s->cookie);
	(void) snprintf(ret_text, size, "bound to %.*s%s%s", shown(id), id.start, from,
			kept > 0                                            ? ""
					: find_endpoint(pass->view, id) < 0 ? ": gone"
									    : ": no candidate");
}

/* A token of RFC 9110, section 5.6.2, which a cookie's name is. */
static bool is_token(const char *text)
{
	for (; *text; text++)
		if (*text <= ' ' || *text >= 127 || strchr("()<>@,;:\\\"/[]?={}", *text))
			return false;
	return true;
}

static int sticky_init(void *instance, struct usher_error *reterr)
{
	const struct sticky *s = instance;

	if (!is_token(s->cookie))
		return usher_error_set(reterr, -EINVAL,
				"cookie \"%.64s\" is no name of a cookie: write it without blanks, "
				"quotes and separators, or \"\" for none",
				s->cookie);
	return 0;
}

static const struct usher_option sticky_options[] = {
	{ .name = "cookie",
			.type = USHER_OPTION_STRING,
			.offset = offsetof(struct sticky, cookie),
			.help = "The cookie of the request that holds an endpoint's id where the "
				"pick does not say it; \"\" for none.",
			.default_text = "sc-lb-instance-id" },
	{},
};

USHER_PLUGIN(.name = "sticky", .summary = "The one that the request is bound to",
		.instance_size = sizeof(struct sticky), .options = sticky_options,
		.init = sticky_init,
		.stage = &(const struct usher_stage){
				.size = sizeof(struct usher_stage),
				.looks_at_request = true,
				.filter = sticky_filter,
				.explain = sticky_explain,
				.tell = sticky_tell,
		});
