#include "edit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "layout.h"
#include "own.h"

/* ---- words ---- */

/* Whether a text may stand without quotes: names and IPv4 addresses, and nothing that YAML could
 * take for something else. */
static bool is_plain(const char *text)
{
	static const char *const words[] = { "true", "false", "yes", "no", "on", "off", "null", "y",
		"n" };
	size_t length = strlen(text), dots = 0;

	for (size_t i = 0; i < ELEMENTS(words); i++)
		if (strcasecmp(text, words[i]) == 0)
			return false;
	if ((text[0] | 0x20) >= 'a' && (text[0] | 0x20) <= 'z')
		return strspn(text,
				       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				       "._-") == length;
	for (size_t i = 0; i < length; i++)
		dots += text[i] == '.';
	return dots == 3 && strspn(text, "0123456789.") == length && length <= 15 &&
			text[0] != '.' && text[length - 1] != '.' && !strstr(text, "..");
}

static void put_quoted(FILE *out, const char *text)
{
	(void) fputc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			(void) fprintf(out, "\\%c", *text);
		else if ((unsigned char) *text < 0x20)
			(void) fprintf(out, "\\u%04x", (unsigned char) *text);
		else
			(void) fputc(*text, out);
	}
	(void) fputc('"', out);
}

static void put_text(FILE *out, const char *text, bool json)
{
	if (json || !is_plain(text))
		put_quoted(out, text);
	else
		(void) fputs(text, out);
}

struct fields {
	FILE *out;
	bool json, any;
};

static void put_key(struct fields *f, const char *key)
{
	if (f->any)
		(void) fputs(", ", f->out);
	f->any = true;
	put_text(f->out, key, f->json);
	(void) fputs(": ", f->out);
}

static void put_field(struct fields *f, const char *key, const char *text)
{
	if (!text)
		return;
	put_key(f, key);
	put_text(f->out, text, f->json);
}

static void put_flag(struct fields *f, const char *key, bool value, bool usual)
{
	if (value == usual)
		return;
	put_key(f, key);
	(void) fputs(value ? "true" : "false", f->out);
}

static void put_number(struct fields *f, const char *key, unsigned value)
{
	put_key(f, key);
	(void) fprintf(f->out, "%u", value);
}

/* The metadata named weight rules over the field. */
static void put_weight(struct fields *f, const struct usher_endpoint *e)
{
	for (size_t i = 0; i < e->metadata_count; i++)
		if (strcmp(e->metadata[i].name, USHER_WEIGHT_LABEL) == 0)
			return;
	if (e->weight_text)
		put_field(f, "weight", e->weight_text);
	else if (e->weight != 1)
		put_number(f, "weight", e->weight);
}

static void put_metadata(struct fields *f, const struct usher_endpoint *e)
{
	struct fields labels = { .out = f->out, .json = f->json };

	if (e->metadata_count == 0)
		return;
	put_key(f, "metadata");
	(void) fputc('{', f->out);
	for (size_t i = 0; i < e->metadata_count; i++)
		put_field(&labels, e->metadata[i].name, e->metadata[i].value);
	(void) fputc('}', f->out);
}

/* {id: catalog-a, address: 10.0.0.5, port: 8080} */
static void put_endpoint(FILE *out, const struct usher_endpoint *e, bool json)
{
	struct fields f = { .out = out, .json = json };

	(void) fputc('{', out);
	put_field(&f, "id", e->id);
	put_field(&f, "uid", e->uid);
	put_field(&f, "address", e->address);
	put_number(&f, "port", e->port);
	put_flag(&f, "secure", e->secure, false);
	put_field(&f, "zone", e->zone);
	put_weight(&f, e);
	if (e->admin_state != USHER_ADMIN_READY)
		put_field(&f, "state", usher_admin_state_to_string(e->admin_state));
	put_flag(&f, "ready", e->ready, true);
	put_flag(&f, "serving", e->serving, true);
	put_flag(&f, "terminating", e->terminating, false);
	put_metadata(&f, e);
	(void) fputc('}', out);
}

/* ---- cutting and pasting ---- */

/* The text as it was up to `copied`, and what was put in so far. */
struct editor {
	struct layout from;
	FILE *out;
	struct edit_text result;
	size_t copied;
	const char *line_end;
};

static int editor_init(struct editor *e, const struct edit_text *text)
{
	*e = (struct editor){
		.from = { text->bytes, text->size },
		.line_end = memmem(text->bytes, text->size, "\r\n", 2) ? "\r\n" : "\n",
	};
	e->out = open_memstream(&e->result.bytes, &e->result.size);
	return e->out ? 0 : -ENOMEM;
}

static void editor_done(struct editor *e)
{
	if (e->out)
		(void) fclose(e->out);
	free(e->result.bytes);
}

/* Everything up to here stays. */
static void keep_until(struct editor *e, size_t at)
{
	if (at > e->copied)
		(void) fwrite(e->from.bytes + e->copied, 1, at - e->copied, e->out);
	e->copied = at;
}

static void drop_until(struct editor *e, size_t at)
{
	e->copied = at;
}

/* Begin a line of one's own here, indented as the line that holds `like`. */
static void put_line_start(struct editor *e, size_t like)
{
	size_t start = layout_line_start(&e->from, like);

	if (e->copied > 0 && e->copied == e->from.size && e->from.bytes[e->copied - 1] != '\n')
		(void) fputs(e->line_end, e->out);
	(void) fwrite(e->from.bytes + start, 1, strspn(e->from.bytes + start, " "), e->out);
}

/* What separates an entry of a flow list or map from the one at `next`: the line break that stands
 * before that, or a blank. */
static void put_gap_before(struct editor *e, size_t next)
{
	size_t start = layout_line_start(&e->from, next);

	if (!layout_is_first_in_line(&e->from, next)) {
		(void) fputc(' ', e->out);
		return;
	}
	(void) fputs(e->line_end, e->out);
	(void) fwrite(e->from.bytes + start, 1, next - start, e->out);
}

static int finish(struct editor *e, struct edit_text *ret)
{
	int failed;

	keep_until(e, e->from.size);
	failed = ferror(e->out);
	failed |= fclose(e->out);
	e->out = NULL;
	if (failed)
		return -ENOMEM;
	*ret = e->result;
	e->result.bytes = NULL;
	return 0;
}

/* ---- where things are ---- */

static bool is_flow(const struct editor *e, size_t at)
{
	return e->from.bytes[at] == '{' || e->from.bytes[at] == '[';
}

/* The key under which a value stands in a map. */
static const struct usher_node *key_of(const struct usher_node *map, const struct usher_node *value)
{
	for (size_t i = 0; i < usher_node_count(map); i++)
		if (usher_node_at(map, i) == value)
			return usher_node_key_node(map, i);
	return NULL;
}

/* Replace `KEY: []` by `KEY:`, so that lines can follow; the comment behind it stays. Returns
 * whether it could be done, with the text kept to the end of the line. */
static bool open_up(struct editor *e, const struct usher_node *key, const struct usher_node *value,
		size_t *ret_key)
{
	size_t key_at = layout_offset(&e->from, key), at = layout_offset(&e->from, value);
	size_t colon, end;

	if (key_at == LAYOUT_NOWHERE || at == LAYOUT_NOWHERE)
		return false;
	colon = layout_colon_end(&e->from, key_at);
	end = layout_flow_end(&e->from, at);
	if (colon == LAYOUT_NOWHERE || end == LAYOUT_NOWHERE || colon > at)
		return false;
	if (colon + strspn(e->from.bytes + colon, " ") != at ||
			!layout_is_first_in_line(&e->from, key_at) ||
			!layout_is_last_in_line(&e->from, end))
		return false;
	keep_until(e, colon);
	drop_until(e, end);
	keep_until(e, layout_line_end(&e->from, end));
	*ret_key = key_at;
	return true;
}

static bool is_in_block(const struct editor *e, const struct usher_node *map)
{
	size_t at = layout_offset(&e->from, map);

	return at != LAYOUT_NOWHERE && !is_flow(e, at);
}

/* ---- the edits ---- */

static int append_to_empty(struct editor *e, const struct usher_node *services,
		const struct usher_node *list, const struct usher_endpoint *endpoint)
{
	size_t at = layout_offset(&e->from, list), key_at;

	if (is_in_block(e, services) && open_up(e, key_of(services, list), list, &key_at)) {
		put_line_start(e, key_at);
		(void) fputs("  - ", e->out);
		put_endpoint(e->out, endpoint, false);
		(void) fputs(e->line_end, e->out);
		return 0;
	}
	if (at == LAYOUT_NOWHERE || e->from.bytes[at] != '[')
		return -ENOTSUP;
	keep_until(e, at + 1);
	put_endpoint(e->out, endpoint, true);
	return 0;
}

static int append_in_flow(struct editor *e, const struct usher_node *list,
		const struct usher_endpoint *endpoint)
{
	size_t last = layout_offset(&e->from, usher_node_at(list, usher_node_count(list) - 1));
	size_t end = last == LAYOUT_NOWHERE || !is_flow(e, last) ? LAYOUT_NOWHERE
								 : layout_flow_end(&e->from, last);

	if (end == LAYOUT_NOWHERE)
		return -ENOTSUP;
	keep_until(e, end);
	(void) fputc(',', e->out);
	put_gap_before(e, last);
	put_endpoint(e->out, endpoint, true);
	return 0;
}

static int append_in_block(struct editor *e, const struct usher_node *list,
		const struct usher_endpoint *endpoint)
{
	size_t last = layout_offset(&e->from, usher_node_at(list, usher_node_count(list) - 1));
	size_t dash = last == LAYOUT_NOWHERE ? last : layout_dash(&e->from, last), end;

	if (dash == LAYOUT_NOWHERE)
		return -ENOTSUP;
	end = layout_item_end(&e->from, dash);
	if (end == LAYOUT_NOWHERE)
		return -ENOTSUP;
	keep_until(e, end);
	put_line_start(e, dash);
	(void) fputs("- ", e->out);
	put_endpoint(e->out, endpoint, false);
	(void) fputs(e->line_end, e->out);
	return 0;
}

int edit_append(const struct edit_text *text, const struct usher_node *services,
		const struct usher_node *list, const struct usher_endpoint *endpoint,
		struct edit_text *ret)
{
	cleanup(editor_done) struct editor e = { 0 };
	int r = editor_init(&e, text);

	if (r < 0)
		return r;
	if (usher_node_count(list) == 0)
		r = append_to_empty(&e, services, list, endpoint);
	else if (is_in_block(&e, list))
		r = append_in_block(&e, list, endpoint);
	else
		r = append_in_flow(&e, list, endpoint);
	return r < 0 ? r : finish(&e, ret);
}

static void put_block_service(struct editor *e, size_t like, const char *indent,
		const char *service, const struct usher_endpoint *endpoint)
{
	put_line_start(e, like);
	(void) fputs(indent, e->out);
	put_text(e->out, service, false);
	(void) fprintf(e->out, ":%s", e->line_end);
	put_line_start(e, like);
	(void) fprintf(e->out, "%s  - ", indent);
	put_endpoint(e->out, endpoint, false);
	(void) fputs(e->line_end, e->out);
}

static void put_flow_service(
		struct editor *e, const char *service, const struct usher_endpoint *endpoint)
{
	put_quoted(e->out, service);
	(void) fputs(": [", e->out);
	put_endpoint(e->out, endpoint, true);
	(void) fputc(']', e->out);
}

static int add_first_service(struct editor *e, const struct usher_node *services,
		const char *service, const struct usher_endpoint *endpoint)
{
	const struct usher_node *root = usher_document_root(usher_node_document(services));
	size_t at = layout_offset(&e->from, services), key_at;

	if (is_in_block(e, root) && open_up(e, key_of(root, services), services, &key_at)) {
		put_block_service(e, key_at, "  ", service, endpoint);
		return 0;
	}
	if (at == LAYOUT_NOWHERE || e->from.bytes[at] != '{')
		return -ENOTSUP;
	keep_until(e, at + 1);
	put_flow_service(e, service, endpoint);
	return 0;
}

/* In front of the others, right below `services:`, for there its comments end. */
static int add_service_in_block(struct editor *e, const struct usher_node *services,
		const char *service, const struct usher_endpoint *endpoint)
{
	const struct usher_node *root = usher_document_root(usher_node_document(services));
	size_t first = layout_offset(&e->from, usher_node_key_node(services, 0));
	size_t key = layout_offset(&e->from, key_of(root, services)), colon;

	if (first == LAYOUT_NOWHERE || key == LAYOUT_NOWHERE ||
			!layout_is_first_in_line(&e->from, first))
		return -ENOTSUP;
	colon = layout_colon_end(&e->from, key);
	if (colon == LAYOUT_NOWHERE || !layout_is_last_in_line(&e->from, colon))
		return -ENOTSUP;
	keep_until(e, layout_line_end(&e->from, colon));
	put_block_service(e, first, "", service, endpoint);
	return 0;
}

int edit_add_service(const struct edit_text *text, const struct usher_node *services,
		const char *service, const struct usher_endpoint *endpoint, struct edit_text *ret)
{
	cleanup(editor_done) struct editor e = { 0 };
	int r = editor_init(&e, text);

	if (r < 0)
		return r;
	if (usher_node_count(services) == 0) {
		r = add_first_service(&e, services, service, endpoint);
	} else if (is_in_block(&e, services)) {
		r = add_service_in_block(&e, services, service, endpoint);
	} else {
		size_t first = layout_offset(&e.from, usher_node_key_node(services, 0));

		if (first == LAYOUT_NOWHERE)
			return -ENOTSUP;
		keep_until(&e, first);
		put_flow_service(&e, service, endpoint);
		(void) fputc(',', e.out);
		put_gap_before(&e, first);
	}
	return r < 0 ? r : finish(&e, ret);
}

int edit_replace(const struct edit_text *text, const struct usher_node *list, size_t item,
		const struct usher_endpoint *endpoint, struct edit_text *ret)
{
	cleanup(editor_done) struct editor e = { 0 };
	size_t at, dash, end;
	int r = editor_init(&e, text);

	if (r < 0)
		return r;
	at = layout_offset(&e.from, usher_node_at(list, item));
	if (at == LAYOUT_NOWHERE)
		return -ENOTSUP;
	if (is_flow(&e, at)) {
		end = layout_flow_end(&e.from, at);
		if (end == LAYOUT_NOWHERE)
			return -ENOTSUP;
		keep_until(&e, at);
		put_endpoint(e.out, endpoint, !is_in_block(&e, list));
	} else {
		dash = layout_dash(&e.from, at);
		end = dash == LAYOUT_NOWHERE ? dash : layout_item_end(&e.from, dash);
		if (end == LAYOUT_NOWHERE)
			return -ENOTSUP;
		keep_until(&e, at);
		put_endpoint(e.out, endpoint, false);
		(void) fputs(e.line_end, e.out);
	}
	drop_until(&e, end);
	return finish(&e, ret);
}

static int remove_in_flow(struct editor *e, const struct usher_node *list, size_t item)
{
	size_t count = usher_node_count(list), from, to;

	if (count == 1) {
		from = layout_offset(&e->from, list);
		to = from == LAYOUT_NOWHERE ? from : layout_flow_end(&e->from, from);
		if (to == LAYOUT_NOWHERE)
			return -ENOTSUP;
		from++;
		to--;
	} else if (item + 1 < count) {
		from = layout_offset(&e->from, usher_node_at(list, item));
		to = layout_offset(&e->from, usher_node_at(list, item + 1));
	} else {
		size_t before = layout_offset(&e->from, usher_node_at(list, item - 1));

		to = layout_offset(&e->from, usher_node_at(list, item));
		if (before == LAYOUT_NOWHERE || to == LAYOUT_NOWHERE || !is_flow(e, before) ||
				!is_flow(e, to))
			return -ENOTSUP;
		from = layout_flow_end(&e->from, before);
		to = layout_flow_end(&e->from, to);
	}
	if (from == LAYOUT_NOWHERE || to == LAYOUT_NOWHERE)
		return -ENOTSUP;
	keep_until(e, from);
	drop_until(e, to);
	return 0;
}

static int remove_in_block(struct editor *e, const struct usher_node *services,
		const struct usher_node *list, size_t item)
{
	size_t at = layout_offset(&e->from, usher_node_at(list, item));
	size_t dash = at == LAYOUT_NOWHERE ? at : layout_dash(&e->from, at);
	size_t end = dash == LAYOUT_NOWHERE ? dash : layout_item_end(&e->from, dash);

	if (end == LAYOUT_NOWHERE)
		return -ENOTSUP;
	if (usher_node_count(list) == 1) {
		size_t key = layout_offset(&e->from, key_of(services, list));
		size_t colon = key == LAYOUT_NOWHERE ? key : layout_colon_end(&e->from, key);

		if (colon == LAYOUT_NOWHERE || !layout_is_last_in_line(&e->from, colon))
			return -ENOTSUP;
		keep_until(e, colon);
		(void) fputs(" []", e->out);
	}
	keep_until(e, layout_line_start(&e->from, dash));
	drop_until(e, end);
	return 0;
}

int edit_remove(const struct edit_text *text, const struct usher_node *services,
		const struct usher_node *list, size_t item, struct edit_text *ret)
{
	cleanup(editor_done) struct editor e = { 0 };
	int r = editor_init(&e, text);

	if (r < 0)
		return r;
	r = is_in_block(&e, list) ? remove_in_block(&e, services, list, item)
				  : remove_in_flow(&e, list, item);
	return r < 0 ? r : finish(&e, ret);
}

static int change_state(struct editor *e, const struct usher_node *value, const char *state)
{
	size_t at = layout_offset(&e->from, value), end;
	char quote;

	if (at == LAYOUT_NOWHERE)
		return -ENOTSUP;
	quote = e->from.bytes[at];
	if (quote == '"' || quote == '\'') {
		end = layout_quote_end(&e->from, at);
		if (end == LAYOUT_NOWHERE)
			return -ENOTSUP;
		keep_until(e, at);
		(void) fprintf(e->out, "%c%s%c", quote, state, quote);
	} else {
		end = at + strspn(e->from.bytes + at, "abcdefghijklmnopqrstuvwxyz");
		keep_until(e, at);
		(void) fputs(state, e->out);
	}
	drop_until(e, end);
	return 0;
}

/* Behind the first field, which is the id as a rule. */
static int insert_state(struct editor *e, const struct usher_node *map, const char *state)
{
	size_t at, second;
	bool json;

	if (usher_node_count(map) < 2)
		return -ENOTSUP;
	at = layout_offset(&e->from, map);
	second = layout_offset(&e->from, usher_node_key_node(map, 1));
	if (at == LAYOUT_NOWHERE || second == LAYOUT_NOWHERE)
		return -ENOTSUP;
	if (is_flow(e, at)) {
		json = e->from.bytes[second] == '"';
		keep_until(e, second);
		(void) fprintf(e->out, json ? "\"state\": \"%s\"," : "state: %s,", state);
		put_gap_before(e, second);
		return 0;
	}
	if (!layout_is_first_in_line(&e->from, second))
		return -ENOTSUP;
	keep_until(e, second);
	(void) fprintf(e->out, "state: %s", state);
	put_gap_before(e, second);
	return 0;
}

int edit_set_state(const struct edit_text *text, const struct usher_node *list, size_t item,
		enum usher_admin_state state, struct edit_text *ret)
{
	cleanup(editor_done) struct editor e = { 0 };
	const struct usher_node *map = usher_node_at(list, item);
	const struct usher_node *value = usher_node_get(map, "state");
	const char *word = usher_admin_state_to_string(state);
	int r = editor_init(&e, text);

	if (r < 0)
		return r;
	if (value && usher_node_kind(value) != USHER_NODE_SCALAR)
		return -ENOTSUP;
	r = value ? change_state(&e, value, word) : insert_state(&e, map, word);
	return r < 0 ? r : finish(&e, ret);
}
