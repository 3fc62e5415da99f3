/* Whatever an API server says, as a list or in a watch: reading it, and putting the slices
 * together, neither crashes nor leaks. The first byte says what they are of, and in how
 * large pieces the watch comes. */

#include <stdlib.h>
#include <string.h>

#include "json-stream.h"
#include "reading.h"
#include "slices.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_together(const struct slice *const *slices, size_t count, const char *port)
{
	struct usher_endpoints *set = usher_endpoints_new();
	struct slice_choices choices = { 0 };

	if (set && slices_choose(slices, count, "web", port, &choices, NULL) == 0)
		for (size_t i = 0; i < choices.count; i++) {
			struct usher_label labels[USHER_METADATA_MAX];
			struct usher_endpoint e;

			if (slices_describe(&choices.all[i], labels, &e, NULL) == 0)
				(void) usher_endpoints_add(set, &e, NULL);
		}
	free(choices.all);
	(void) usher_endpoints_unref(set);
}

static void read_list(const struct kind *kind, const char *text, size_t size)
{
	struct reading_page page = { 0 };

	if (reading_page(kind, text, size, &page, NULL) < 0)
		return;
	if (kind == &kind_slices) {
		put_together((const struct slice *const *) page.objects, page.count, NULL);
		put_together((const struct slice *const *) page.objects, page.count, "http");
	}
	reading_page_done(&page);
}

static int read_events(const struct kind *kind, struct json_stream *s)
{
	const char *text = NULL;
	size_t size = 0;
	int r;

	while ((r = json_stream_next(s, &text, &size)) > 0) {
		struct reading_event event = { 0 };

		if (reading_event(kind, text, size, &event, NULL) == 0)
			kind->free(event.object);
	}
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_stream s = { .max_bytes = 4096 };
	const char *text = (const char *) data + 1;
	size_t piece = size ? (size_t) data[0] / 2 + 1 : 1;
	const struct kind *kind = size && data[0] % 2 ? &kind_pods : &kind_slices;

	if (size < 2)
		return 0;
	read_list(kind, text, size - 1);
	for (size_t at = 0; at < size - 1; at += piece) {
		size_t left = size - 1 - at;

		if (json_stream_add(&s, text + at, left < piece ? left : piece) < 0 ||
				read_events(kind, &s) < 0)
			break;
	}
	json_stream_done(&s);
	return 0;
}
