/* HTTP answers as a check reads them: the bytes are read whole and in two pieces, which must come
 * to the same. The first byte says where they are cut and whether the request was HEAD. */

#include <stdlib.h>
#include <string.h>

#include "http-answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reading {
	struct http_answer answer;
	uint64_t body_hash;
	size_t body_size, taken;
	int event;
};

static void read_piece(struct reading *reading, const char *data, size_t size)
{
	const char *body, *begin = data, *end = data + size;
	size_t body_size;

	while ((reading->event = http_answer_read(&reading->answer, &data, &size, &body,
				&body_size)) > HTTP_ANSWER_MORE &&
			reading->event != HTTP_ANSWER_END) {
		if (reading->event != HTTP_ANSWER_BODY)
			continue;
		if (body_size == 0 || body < begin || body + body_size > end)
			abort();
		for (size_t i = 0; i < body_size; i++)
			reading->body_hash = reading->body_hash * 31 + (unsigned char) body[i];
		reading->body_size += body_size;
	}
	reading->taken += (size_t) (data - begin);
}

static void check_same(const struct reading *a, const struct reading *b)
{
	if (a->event != b->event || a->body_size != b->body_size || a->body_hash != b->body_hash)
		abort();
	if (a->event >= 0 &&
			(a->answer.status != b->answer.status ||
					a->answer.has_head != b->answer.has_head))
		abort();
	if (a->event == HTTP_ANSWER_END &&
			(a->taken != b->taken || a->answer.reusable != b->answer.reusable))
		abort();
	if (a->event < 0 && !a->answer.fault)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reading whole = {}, cut = {};
	size_t at;

	if (size == 0)
		return 0;
	http_answer_init(&whole.answer, data[0] & 1);
	http_answer_init(&cut.answer, data[0] & 1);
	at = (size_t) (data[0] >> 1) * (size - 1) / 127;
	read_piece(&whole, (const char *) data + 1, size - 1);
	read_piece(&cut, (const char *) data + 1, at);
	if (cut.event == HTTP_ANSWER_MORE)
		read_piece(&cut, (const char *) data + 1 + at, size - 1 - at);
	if (!(cut.event < 0 && whole.event < 0)) /* the faults may differ in what was read before */
		check_same(&whole, &cut);
	return 0;
}
