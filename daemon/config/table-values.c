#include "table-values.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "ownership.h"
#include "place.h"

DEFINE_CLEANUP(char *, config_texts_free);

static int out_of_memory(struct usher_error *reterr)
{
	return usher_error_set(reterr, -ENOMEM, "out of memory");
}

/* Put a copy of text in place of what the field has. */
static int replace_text(char **field, const char *text, struct usher_error *reterr)
{
	char *copy = strdup(text);

	if (!copy)
		return out_of_memory(reterr);
	free(*field);
	*field = copy;
	return 0;
}

/* A text, borrowed from the node, of at least one byte. */
static int borrow_text(const struct usher_node *n, const char **ret, struct usher_error *reterr)
{
	const char *text = "";
	int r;

	r = usher_node_string(n, &text, reterr);
	if (r < 0)
		return place_add_path(reterr, n, r);
	if (!text[0])
		return place_error(reterr, n, -EINVAL, "is empty");
	*ret = text;
	return 0;
}

int config_read_text(const struct usher_node *n, char **ret, struct usher_error *reterr)
{
	const char *text = "";
	int r;

	r = borrow_text(n, &text, reterr);
	return r < 0 ? r : replace_text(ret, text, reterr);
}

int config_read_name(const struct usher_node *n, char **ret, struct usher_error *reterr)
{
	struct usher_error why = {};
	const char *text = "";
	int r;

	r = borrow_text(n, &text, reterr);
	if (r < 0)
		return r;
	r = config_check_name(text, &why);
	if (r < 0)
		return place_error(reterr, n, r, "%s", usher_error_text(&why, r));
	return replace_text(ret, text, reterr);
}

int config_read_path(const struct usher_node *n, size_t length_max, char **ret,
		struct usher_error *reterr)
{
	const char *text = "";
	int r;

	r = borrow_text(n, &text, reterr);
	if (r < 0)
		return r;
	if (text[0] != '/')
		return place_error(reterr, n, -EINVAL,
				"\"%s\" is not an absolute path; start it with /", text);
	if (strlen(text) > length_max)
		return place_error(reterr, n, -ERANGE,
				"the path has %zu bytes; at most %zu are possible here",
				strlen(text), length_max);
	return replace_text(ret, text, reterr);
}

/* Whether text is ADDRESS:PORT or [ADDRESS]:PORT, without a name to resolve. */
static bool is_listen_address(const char *text)
{
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2];
	unsigned char address[sizeof(struct in6_addr)];
	size_t length;
	char *end;
	unsigned long port;

	if (!colon || colon[1] < '0' || colon[1] > '9')
		return false;
	port = strtoul(colon + 1, &end, 10);
	length = (size_t) (colon - text);
	if (*end || port == 0 || port > UINT16_MAX || length < 2 || length >= sizeof(host))
		return false;
	memcpy(host, text, length);
	host[length] = '\0';
	if (host[0] != '[')
		return inet_pton(AF_INET, host, address) == 1;
	if (host[length - 1] != ']')
		return false;
	host[length - 1] = '\0';
	return inet_pton(AF_INET6, host + 1, address) == 1;
}

int config_read_listen(const struct usher_node *n, char **ret, struct usher_error *reterr)
{
	const char *text = "";
	int r;

	r = borrow_text(n, &text, reterr);
	if (r < 0)
		return r;
	if (!is_listen_address(text))
		return place_error(reterr, n, -EINVAL,
				"\"%s\" is not ADDRESS:PORT; write it like \"127.0.0.1:9180\" or \"[::1]:9180\"",
				text);
	return replace_text(ret, text, reterr);
}

static ssize_t find_word(const char *const *words, const char *text)
{
	for (size_t i = 0; words && words[i]; i++)
		if (strcmp(words[i], text) == 0)
			return (ssize_t) i;
	return -1;
}

int config_read_choice(const struct config_row *row, const struct usher_node *n, int *ret,
		struct usher_error *reterr)
{
	const char *text = "";
	ssize_t found;
	int r;

	r = borrow_text(n, &text, reterr);
	if (r < 0)
		return r;
	found = find_word(row->choices, text);
	if (found >= 0) {
		*ret = (int) found;
		return 0;
	}
	return place_unknown_word(reterr, n, "offered", row->choices);
}

int config_read_word(const struct config_row *row, const struct usher_node *n, char **ret,
		struct usher_error *reterr)
{
	int choice = 0;
	int r;

	r = config_read_choice(row, n, &choice, reterr);
	return r < 0 ? r : replace_text(ret, row->choices[choice], reterr);
}

int config_read_mode(const struct usher_node *n, mode_t *ret, struct usher_error *reterr)
{
	const char *text = "";
	mode_t mode = 0;
	size_t length;
	int r;

	r = borrow_text(n, &text, reterr);
	if (r < 0)
		return r;
	length = strlen(text);
	if (length < 3 || length > 4 || strspn(text, "01234567") != length ||
			(length == 4 && text[0] != '0'))
		return place_error(reterr, n, -EINVAL,
				"\"%s\" is not a mode; write it in octal, like \"0660\"", text);
	for (size_t i = 0; i < length; i++)
		mode = mode * 8 + (mode_t) (text[i] - '0');
	*ret = mode;
	return 0;
}

int config_read_bool(const struct usher_node *n, bool *ret, struct usher_error *reterr)
{
	int r = usher_node_bool(n, ret, reterr);

	return r < 0 ? place_add_path(reterr, n, r) : 0;
}

int config_read_count(const struct config_row *row, const struct usher_node *n, unsigned *ret,
		struct usher_error *reterr)
{
	int64_t value;
	int r;

	r = usher_node_integer(n, (int64_t) row->min, (int64_t) row->max, &value, reterr);
	if (r < 0)
		return place_add_path(reterr, n, r);
	*ret = (unsigned) value;
	return 0;
}

int config_read_port(const struct usher_node *n, uint16_t *ret, struct usher_error *reterr)
{
	int64_t value;
	int r;

	r = usher_node_integer(n, 1, UINT16_MAX, &value, reterr);
	if (r < 0)
		return place_add_path(reterr, n, r);
	*ret = (uint16_t) value;
	return 0;
}

int config_read_duration(const struct config_row *row, const struct usher_node *n, uint64_t *ret,
		struct usher_error *reterr)
{
	char min[USHER_DURATION_TEXT_MAX], max[USHER_DURATION_TEXT_MAX];
	uint64_t value;
	int r;

	r = usher_node_duration(n, &value, reterr);
	if (r < 0)
		return place_add_path(reterr, n, r);
	if (value < row->min || value > row->max)
		return place_error(reterr, n, -ERANGE, "%s is not in %s..%s", usher_node_text(n),
				usher_duration_format(row->min, min),
				usher_duration_format(row->max, max));
	*ret = value;
	return 0;
}

int config_read_share(const struct usher_node *n, double *ret, struct usher_error *reterr)
{
	int r = usher_node_share(n, ret, reterr);

	return r < 0 ? place_add_path(reterr, n, r) : 0;
}

void config_texts_free(char **texts)
{
	for (size_t i = 0; texts && texts[i]; i++)
		free(texts[i]);
	free(texts);
}

static int read_list(
		const struct usher_node *n, bool paths, char ***ret, struct usher_error *reterr)
{
	cleanup(config_texts_freep) char **texts = NULL;
	size_t count = usher_node_count(n);
	int r;

	if (usher_node_kind(n) != USHER_NODE_LIST)
		return place_error(reterr, n, -EINVAL, "must be a list, not %s",
				usher_node_kind_name(n));
	if (count == 0)
		return place_error(reterr, n, -EINVAL, "is an empty list");
	if (count > CONFIG_LIST_MAX)
		return place_error(reterr, n, -E2BIG, "has %zu items; at most %d are possible",
				count, CONFIG_LIST_MAX);
	texts = calloc(count + 1, sizeof(*texts));
	if (!texts)
		return out_of_memory(reterr);
	for (size_t i = 0; i < count; i++) {
		const struct usher_node *item = usher_node_at(n, i);

		r = paths ? config_read_path(item, PATH_MAX - 1, &texts[i], reterr)
			  : config_read_text(item, &texts[i], reterr);
		if (r < 0)
			return r;
	}
	config_texts_free(*ret);
	*ret = take(texts);
	return 0;
}

int config_read_paths(const struct usher_node *n, char ***ret, struct usher_error *reterr)
{
	return read_list(n, true, ret, reterr);
}

int config_read_texts(const struct usher_node *n, char ***ret, struct usher_error *reterr)
{
	return read_list(n, false, ret, reterr);
}
