#include "http-answer.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#define BEGINNING "HTTP/1."

void http_answer_init(struct http_answer *a, bool is_head)
{
	/* All but the line, which is long and need not be cleared. */
	memset(a, 0, offsetof(struct http_answer, line));
	a->is_head = is_head;
	a->fault = NULL;
}

bool http_answer_is_untouched(const struct http_answer *a)
{
	return a->state == ANSWER_STATUS_LINE && a->head_bytes == 0;
}

static int fault(struct http_answer *a, const char *why)
{
	a->fault = why;
	return -EPROTO;
}

/* ---- lines ---- */

/* One line without its end. Not terminated. */
struct line {
	const char *text;
	size_t length;
	bool is_cut;
};

static void keep_line(struct http_answer *a, const char *data, size_t size)
{
	size_t room = HTTP_ANSWER_LINE_MAX - a->line_length;

	if (size > room) {
		a->line_is_cut = true;
		size = room;
	}
	memcpy(a->line + a->line_length, data, size);
	a->line_length = (uint16_t) (a->line_length + size);
}

/* 1 and a line, or 0: its end has not come yet. In one piece it is used where it lies. */
static int take_line(struct http_answer *a, const char **data, size_t *size, struct line *ret)
{
	const char *end = memchr(*data, '\n', *size);
	size_t length = end ? (size_t) (end - *data) : *size;
	size_t used = end ? length + 1 : length;

	if (used > HTTP_ANSWER_HEAD_MAX - a->head_bytes)
		return fault(a, "its headers do not end within 64 KiB");
	a->head_bytes += (uint32_t) used;
	if (!end || a->line_length > 0)
		keep_line(a, *data, length);
	/* The same as of a line that is kept. */
	*ret = length > HTTP_ANSWER_LINE_MAX ? (struct line){ *data, HTTP_ANSWER_LINE_MAX, true }
					     : (struct line){ *data, length, false };
	*data += used;
	*size -= used;
	if (!end)
		return 0;

	if (a->line_length > 0)
		*ret = (struct line){ a->line, a->line_length, a->line_is_cut };
	a->line_length = 0;
	a->line_is_cut = false;
	if (ret->length > 0 && !ret->is_cut && ret->text[ret->length - 1] == '\r')
		ret->length--;
	return 1;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct line trim(struct line line)
{
	while (line.length > 0 && is_blank(line.text[0])) {
		line.text++;
		line.length--;
	}
	while (line.length > 0 && is_blank(line.text[line.length - 1]))
		line.length--;
	return line;
}

static bool line_is(const struct line *line, const char *word)
{
	return line->length == strlen(word) && strncasecmp(line->text, word, line->length) == 0;
}

/* ---- the head ---- */

static int read_status_line(struct http_answer *a, const struct line *line)
{
	const char *t = line->text;

	/* HTTP/1.1 200 OK, where the words may be missing. */
	if (line->length < 12 || memcmp(t, BEGINNING, strlen(BEGINNING)) != 0 || !is_digit(t[7]) ||
			t[8] != ' ')
		return fault(a, "it does not begin like HTTP/1.1");
	if (!is_digit(t[9]) || !is_digit(t[10]) || !is_digit(t[11]) || t[9] == '0' ||
			(line->length > 12 && t[12] != ' '))
		return fault(a, "its status line has no status");
	a->status = (unsigned) (100 * (t[9] - '0') + 10 * (t[10] - '0') + (t[11] - '0'));
	a->wants_close = t[7] == '0';
	a->state = ANSWER_HEADERS;
	return 0;
}

/* What is no HTTP need not have a line's end to be found out. */
static int check_beginning(struct http_answer *a)
{
	size_t length = a->line_length < strlen(BEGINNING) ? a->line_length : strlen(BEGINNING);

	return memcmp(a->line, BEGINNING, length) == 0
			? 0
			: fault(a, "it does not begin like HTTP/1.1");
}

static int read_length(struct http_answer *a, const struct line *value)
{
	uint64_t length = 0;

	if (value->length == 0 || value->length > 18)
		return fault(a, "its Content-Length is no number");
	for (size_t i = 0; i < value->length; i++) {
		if (!is_digit(value->text[i]))
			return fault(a, "its Content-Length is no number");
		length = 10 * length + (uint64_t) (value->text[i] - '0');
	}
	if (a->has_length && a->left != length)
		return fault(a, "it has two Content-Lengths that differ");
	a->has_length = true;
	a->left = length;
	return 0;
}

/* The next of a list's elements; false: there is none. */
static bool next_element(struct line *list, struct line *ret)
{
	const char *comma;

	if (list->length == 0)
		return false;
	comma = memchr(list->text, ',', list->length);
	*ret = (struct line){ list->text, comma ? (size_t) (comma - list->text) : list->length,
		false };
	list->text += ret->length + (comma != NULL);
	list->length -= ret->length + (comma != NULL);
	*ret = trim(*ret);
	return true;
}

static void read_connection(struct http_answer *a, struct line value)
{
	struct line option;

	while (next_element(&value, &option)) {
		if (line_is(&option, "close"))
			a->wants_close = true;
		else if (line_is(&option, "keep-alive"))
			a->wants_close = false;
	}
}

static void read_coding(struct http_answer *a, struct line value)
{
	struct line coding;

	while (next_element(&value, &coding)) {
		a->has_coding = true;
		a->is_chunked = line_is(&coding, "chunked"); /* the last one counts */
	}
}

static int read_header(struct http_answer *a, const struct line *line)
{
	const char *colon = memchr(line->text, ':', line->length);
	struct line name, value;

	if (is_blank(line->text[0]))
		return 0; /* an old way to go on with the line before; of those that matter none
			     does */
	if (!colon)
		return line->is_cut ? 0 : fault(a, "it has a header without a colon");
	name = (struct line){ line->text, (size_t) (colon - line->text), false };
	if (name.length == 0 || is_blank(name.text[name.length - 1]))
		return fault(a, "it has a header without a name");
	value = trim((struct line){ colon + 1, line->length - name.length - 1, false });

	if (line_is(&name, "content-length"))
		return read_length(a, &value);
	if (line_is(&name, "connection"))
		read_connection(a, value);
	else if (line_is(&name, "transfer-encoding"))
		read_coding(a, value);
	return 0;
}

static int finish(struct http_answer *a)
{
	a->state = ANSWER_COMPLETE;
	return HTTP_ANSWER_HEAD;
}

/* After the empty line: where the body ends. */
static int read_end_of_head(struct http_answer *a)
{
	if (a->status < 200 && a->status != 101) {
		a->state = ANSWER_STATUS_LINE;
		a->has_length = a->is_chunked = a->has_coding = a->wants_close = false;
		a->left = 0;
		return HTTP_ANSWER_MORE;
	}
	a->has_head = true;
	a->reusable = !a->wants_close && a->status != 101 && !(a->has_coding && a->has_length);
	if (a->is_head || a->status == 204 || a->status == 304 || a->status == 101)
		return finish(a);
	if (a->is_chunked) {
		a->state = ANSWER_CHUNK_SIZE;
	} else if (a->has_coding || !a->has_length) {
		a->reusable = false;
		a->state = ANSWER_ENDLESS_BODY;
	} else if (a->left == 0) {
		return finish(a);
	} else {
		a->state = ANSWER_LENGTH_BODY;
	}
	return HTTP_ANSWER_HEAD;
}

/* ---- the body ---- */

static int hex_digit(char c)
{
	if (is_digit(c))
		return c - '0';
	c = (char) (c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int read_chunk_size(struct http_answer *a, const struct line *line)
{
	uint64_t chunk = 0;
	size_t i = 0;

	while (i < line->length && hex_digit(line->text[i]) >= 0) {
		if (i == 15)
			return fault(a, "it has a chunk of a size beyond reason");
		chunk = 16 * chunk + (uint64_t) hex_digit(line->text[i++]);
	}
	if (i == 0)
		return fault(a, "it has a chunk without a size");
	while (i < line->length && is_blank(line->text[i]))
		i++;
	if (i < line->length && line->text[i] != ';')
		return fault(a, "it has a chunk whose size is no number");
	a->left = chunk;
	a->state = chunk > 0 ? ANSWER_CHUNK : ANSWER_TRAILERS;
	/* So that many small chunks are no endless head. */
	a->head_bytes = chunk > 0 ? 0 : a->head_bytes;
	return 0;
}

static int read_line(struct http_answer *a, const struct line *line)
{
	switch (a->state) {
	case ANSWER_STATUS_LINE:
		return read_status_line(a, line);
	case ANSWER_HEADERS:
		return line->length > 0 ? read_header(a, line) : read_end_of_head(a);
	case ANSWER_CHUNK_SIZE:
		return read_chunk_size(a, line);
	case ANSWER_CHUNK_END:
		a->state = ANSWER_CHUNK_SIZE;
		return line->length > 0 ? fault(a, "it has a chunk that is longer than it says")
					: 0;
	case ANSWER_TRAILERS:
		if (line->length > 0)
			return 0;
		(void) finish(a);
		return 0;
	case ANSWER_LENGTH_BODY:
	case ANSWER_CHUNK:
	case ANSWER_ENDLESS_BODY:
	case ANSWER_COMPLETE:
		break;
	}
	return 0;
}

static int take_body(struct http_answer *a, const char **data, size_t *size, const char **ret_body,
		size_t *ret_size)
{
	size_t length = *size;

	if (a->state != ANSWER_ENDLESS_BODY) {
		if (length > a->left)
			length = (size_t) a->left;
		a->left -= length;
	}
	*ret_body = *data;
	*ret_size = length;
	*data += length;
	*size -= length;
	if (a->state == ANSWER_LENGTH_BODY && a->left == 0)
		(void) finish(a);
	else if (a->state == ANSWER_CHUNK && a->left == 0)
		a->state = ANSWER_CHUNK_END;
	return HTTP_ANSWER_BODY;
}

static bool is_in_body(const struct http_answer *a)
{
	return a->state == ANSWER_LENGTH_BODY || a->state == ANSWER_CHUNK ||
			a->state == ANSWER_ENDLESS_BODY;
}

int http_answer_read(struct http_answer *a, const char **data, size_t *size, const char **ret_body,
		size_t *ret_size)
{
	while (*size > 0 && a->state != ANSWER_COMPLETE) {
		struct line line;
		int r;

		if (is_in_body(a))
			return take_body(a, data, size, ret_body, ret_size);
		r = take_line(a, data, size, &line);
		if (r > 0)
			r = read_line(a, &line);
		else if (r == 0 && a->state == ANSWER_STATUS_LINE)
			r = check_beginning(a);
		if (r != 0)
			return r;
	}
	return a->state == ANSWER_COMPLETE ? HTTP_ANSWER_END : HTTP_ANSWER_MORE;
}

int http_answer_close(struct http_answer *a)
{
	if (a->state == ANSWER_ENDLESS_BODY)
		a->state = ANSWER_COMPLETE;
	return a->state == ANSWER_COMPLETE ? 0 : -ECONNRESET;
}
