/* Values of `health` with a shape of their own. */

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config-forms.h"
#include "config-tables.h"
#include "ownership.h"
#include "place.h"
#include "table-values.h"

#define RANGES_MAX 64 /* of one list of statuses */
#define STATUS_MIN 100
#define STATUS_MAX 599

static void text_free(void *field)
{
	freep(field);
}

/* ---- statuses ---- */

/* Three digits. Returns what follows, or NULL. */
static const char *parse_status(const char *text, unsigned short *ret)
{
	unsigned status = 0;

	for (size_t i = 0; i < 3; i++, text++) {
		if (*text < '0' || *text > '9')
			return NULL;
		status = status * 10 + (unsigned) (*text - '0');
	}
	if (status < STATUS_MIN || status > STATUS_MAX)
		return NULL;
	*ret = (unsigned short) status;
	return text;
}

static int read_range(
		const struct usher_node *n, struct status_range *ret, struct usher_error *reterr)
{
	const char *text = usher_node_text(n), *end;
	struct status_range range = {};

	end = text ? parse_status(text, &range.first) : NULL;
	range.last = range.first;
	if (end && *end == '-')
		end = parse_status(end + 1, &range.last);
	if (!end || *end)
		return place_error(reterr, n, -EINVAL,
				"%s is no status; write one like 200, or a range like 200-399, of %d..%d",
				text ? text : usher_node_kind_name(n), STATUS_MIN, STATUS_MAX);
	if (range.first > range.last)
		return place_error(reterr, n, -EINVAL,
				"the range %s ends before it begins; write %hu-%hu", text,
				range.last, range.first);
	*ret = range;
	return 0;
}

/* A status or range, or a list of them. */
static int read_statuses(const struct usher_node *n, struct status_range **ret, size_t *ret_count,
		struct usher_error *reterr)
{
	bool is_list = usher_node_kind(n) == USHER_NODE_LIST;
	size_t count = is_list ? usher_node_count(n) : 1;
	autofree struct status_range *ranges = NULL;
	int r;

	if (count == 0)
		return place_error(reterr, n, -EINVAL,
				"is an empty list; name at least one status, such as 200");
	if (count > RANGES_MAX)
		return place_error(reterr, n, -E2BIG,
				"has %zu items; at most %d are possible, and one may be a range",
				count, RANGES_MAX);
	ranges = calloc(count, sizeof(*ranges));
	if (!ranges)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++) {
		r = read_range(is_list ? usher_node_at(n, i) : n, &ranges[i], reterr);
		if (r < 0)
			return r;
	}
	*ret = take(ranges);
	*ret_count = count;
	return 0;
}

static int expect_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	struct check_config *check = field;

	return read_statuses(n, &check->expect, &check->expect_count, reterr);
}

static void expect_free(void *field)
{
	free(((struct check_config *) field)->expect);
}

const struct config_form config_form_expect = { expect_read, expect_free, "statuses" };

static int degraded_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	struct check_config *check = field;

	return read_statuses(n, &check->degraded, &check->degraded_count, reterr);
}

static void degraded_free(void *field)
{
	free(((struct check_config *) field)->degraded);
}

const struct config_form config_form_degraded = { degraded_read, degraded_free, "statuses" };

/* ---- texts that go out, or are looked for, as they are ---- */

static int hex_digit(char c)
{
	return isdigit((unsigned char) c)      ? c - '0'
			: c >= 'a' && c <= 'f' ? c - 'a' + 10
			: c >= 'A' && c <= 'F' ? c - 'A' + 10
					       : -1;
}

/* What stands behind a backslash. Returns how many bytes it takes, or 0: nothing known. */
static size_t resolve_escape(const char *text, char *ret)
{
	static const char letters[] = "rnt\\", values[] = "\r\n\t\\";
	const char *found = *text ? strchr(letters, *text) : NULL;
	int high, low;

	if (found) {
		*ret = values[found - letters];
		return 1;
	}
	high = *text == 'x' ? hex_digit(text[1]) : -1;
	low = high >= 0 ? hex_digit(text[2]) : -1;
	if (low < 0 || high + low == 0)
		return 0;
	*ret = (char) (high * 16 + low);
	return 3;
}

static int short_text_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	char **text = field;
	int r;

	r = config_read_text(n, text, reterr);
	if (r < 0)
		return r;
	if (strlen(*text) > CHECK_TEXT_MAX)
		return place_error(reterr, n, -E2BIG, "has %zu bytes; at most %d are possible",
				strlen(*text), CHECK_TEXT_MAX);
	return 0;
}

const struct config_form config_form_short_text = { short_text_read, text_free, "bytes" };

static int bytes_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	const char *in;
	char *out;
	int r;

	r = short_text_read(n, field, reterr);
	if (r < 0)
		return r;
	in = out = *(char **) field;
	while (*in) {
		size_t length = 0;

		if (*in++ != '\\') {
			*out++ = in[-1];
			continue;
		}
		length = resolve_escape(in, out++);
		if (length == 0)
			return place_error(reterr, n, -EINVAL,
					"has a backslash before what is no escape; known are \\r, \\n, \\t, \\xHH (but \\x00), and \\\\ for a backslash");
		in += length;
	}
	*out = '\0';
	return 0;
}

const struct config_form config_form_bytes = { bytes_read, text_free, "bytes" };

/* ---- what the body must have ---- */

static int pointer_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	char **pointer = field;
	int r;

	r = short_text_read(n, pointer, reterr);
	if (r < 0)
		return r;
	if (**pointer != '/')
		return place_error(reterr, n, -EINVAL,
				"\"%s\" is no JSON pointer; start it with /, like \"/%s\"",
				*pointer, *pointer);
	for (const char *tilde = *pointer; (tilde = strchr(tilde, '~')); tilde++)
		if (tilde[1] != '0' && tilde[1] != '1')
			return place_error(reterr, n, -EINVAL,
					"\"%s\" is no JSON pointer; write ~0 for ~ and ~1 for / in a name",
					*pointer);
	return 0;
}

const struct config_form config_form_pointer = { pointer_read, text_free, "pointer" };

static int match_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	struct check_config *check = field;
	int r;

	r = config_table_check(config_match_rows, &n, 1, reterr);
	if (r < 0)
		return r;
	r = config_table_read(config_match_rows, &n, 1, check, reterr);
	if (r < 0)
		return r;
	if (check->match_text && (check->match_pointer || check->match_value))
		return place_error(reterr, n, -EINVAL,
				"has a text and a pointer; write either {text} or {pointer, value}");
	if (!check->match_pointer != !check->match_value)
		return place_error(reterr, n, -EINVAL, "\"%s\" is missing beside \"%s\"",
				check->match_pointer ? "value" : "pointer",
				check->match_pointer ? "pointer" : "value");
	if (!check->match_text && !check->match_pointer)
		return place_error(reterr, n, -EINVAL,
				"says nothing; write {text: TEXT} or {pointer: /NAME, value: VALUE}");
	return 0;
}

static void match_free(void *field)
{
	config_table_done(config_match_rows, field);
}

const struct config_form config_form_match = { match_read, match_free, "match" };

/* ---- names ---- */

static int host_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	char **host = field, address[USHER_TEXT_MAX];
	struct usher_error why = {};
	uint16_t port;
	int r;

	r = config_read_text(n, host, reterr);
	if (r < 0)
		return r;
	r = usher_authority_parse(*host, 80, address, &port, &why);
	return r < 0 ? place_error(reterr, n, r, "%s", usher_error_text(&why, r)) : 0;
}

const struct config_form config_form_host = { host_read, text_free, "host" };

static int server_name_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	struct usher_error why = {};
	char **name = field;
	int r;

	r = config_read_text(n, name, reterr);
	if (r < 0)
		return r;
	r = usher_address_check(*name, &why);
	return r < 0 ? place_error(reterr, n, r, "%s", usher_error_text(&why, r)) : 0;
}

const struct config_form config_form_server_name = { server_name_read, text_free, "host" };

/* ---- words ---- */

/* Said or not, true or false: three cases in two fields. */
static int tls_enabled_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	struct check_config *check = field;
	bool enabled;
	int r;

	r = config_read_bool(n, &enabled, reterr);
	if (r < 0)
		return r;
	check->tls = enabled;
	check->tls_off = !enabled;
	return 0;
}

const struct config_form config_form_tls_enabled = { tls_enabled_read, NULL, "boolean" };

static int initial_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	static const char *const words[] = { "unknown", "up", "down", NULL };
	static const enum usher_health states[] = { USHER_HEALTH_UNKNOWN, USHER_HEALTH_UP,
		USHER_HEALTH_DOWN };
	static const struct config_row row = { "initial", ROW_CHOICE, .choices = words };
	enum usher_health *initial = field;
	int word, r;

	r = config_row_read(&row, n, &word, reterr);
	if (r < 0)
		return r;
	*initial = states[word];
	return 0;
}

const struct config_form config_form_initial = { initial_read, NULL, "initial" };
