#include "router.h"

#include <errno.h>
#include <string.h>

static const char *const method_names[] = {
	[METHOD_GET] = "GET",
	[METHOD_POST] = "POST",
	[METHOD_PUT] = "PUT",
	[METHOD_DELETE] = "DELETE",
};

enum method method_from_string(const char *text)
{
	if (strcmp(text, "HEAD") == 0)
		return METHOD_GET;
	for (unsigned i = 0; i < METHOD_MAX; i++)
		if (strcmp(method_names[i], text) == 0)
			return (enum method) i;
	return METHOD_UNKNOWN;
}

const char *method_to_string(enum method method)
{
	return method < METHOD_MAX ? method_names[method] : "?";
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int url_decode(char *text, size_t *ret_length)
{
	const char *from = strchr(text, '%');
	char *to;

	if (!from) {
		*ret_length = strlen(text);
		return 0;
	}
	to = text + (from - text);
	while (*from) {
		int high, low;

		if (*from != '%') {
			*to++ = *from++;
			continue;
		}
		high = hex_value(from[1]);
		low = high < 0 ? -1 : hex_value(from[2]);
		if (low < 0 || high + low == 0)
			return -EINVAL;
		*to++ = (char) (high * 16 + low);
		from += 3;
	}
	*to = '\0';
	*ret_length = (size_t) (to - text);
	return 0;
}

/* Cut "/a/b" into "a", "b". Returns how many, or 0 for what no route looks like. */
static size_t split_path(char *path, char *ret_segments[ROUTE_SEGMENTS_MAX])
{
	size_t count = 0;

	while (*path == '/') {
		if (count == ROUTE_SEGMENTS_MAX)
			return 0;
		*path++ = '\0';
		ret_segments[count++] = path;
		path += strcspn(path, "/");
	}
	return *path ? 0 : count;
}

static bool pattern_matches(const char *pattern, char *const *segments, size_t count,
		char *ret_params[ROUTE_PARAMS_MAX])
{
	size_t params = 0;

	for (size_t i = 0; i < count; i++) {
		size_t length;

		if (*pattern++ != '/')
			return false;
		length = strcspn(pattern, "/");
		if (*pattern == '{') {
			if (!*segments[i])
				return false;
			ret_params[params++] = segments[i];
		} else if (strncmp(pattern, segments[i], length) != 0 || segments[i][length]) {
			return false;
		}
		pattern += length;
	}
	return !*pattern;
}

static int decode_params(char *const *params, struct route_match *ret)
{
	size_t length;
	int r;

	for (size_t i = 0; i < ROUTE_PARAMS_MAX; i++) {
		ret->params[i] = params[i];
		if (!params[i])
			continue;
		r = url_decode(params[i], &length);
		if (r < 0)
			return r;
	}
	return 0;
}

int router_find(const struct route *routes, size_t count, enum method method, char *path,
		struct route_match *ret)
{
	char *segments[ROUTE_SEGMENTS_MAX];
	struct route_match match = {};
	size_t segment_count;

	segment_count = split_path(path, segments);
	if (segment_count == 0)
		return -ENOENT;
	for (size_t i = 0; i < count; i++) {
		char *params[ROUTE_PARAMS_MAX] = {};

		if (!pattern_matches(routes[i].pattern, segments, segment_count, params))
			continue;
		if (routes[i].method != method) {
			match.allowed |= 1u << routes[i].method;
			continue;
		}
		match.route = &routes[i];
		*ret = match;
		return decode_params(params, ret);
	}
	if (!match.allowed)
		return -ENOENT;
	*ret = match;
	return -EOPNOTSUPP;
}
