/* Any text is a document or is refused; what is a document can be walked and read as every type. */

#include <stdint.h>
#include <usher/document.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_as_every_type(const struct usher_node *n)
{
	struct usher_error err = {};
	uint64_t number;
	int64_t integer;
	double share;
	bool boolean;

	(void) usher_node_bool(n, &boolean, &err);
	(void) usher_node_integer(n, INT64_MIN, INT64_MAX, &integer, &err);
	(void) usher_node_share(n, &share, &err);
	(void) usher_node_size(n, &number, &err);
	if (usher_node_duration(n, &number, &err) >= 0) {
		char text[USHER_DURATION_TEXT_MAX];

		(void) usher_duration_format(number, text);
	}
}

static void walk(const struct usher_node *n)
{
	for (size_t i = 0; i < usher_node_count(n); i++) {
		if (usher_node_kind(n) == USHER_NODE_MAP &&
				usher_node_get(n, usher_node_key(n, i)) != usher_node_at(n, i))
			__builtin_trap();
		walk(usher_node_at(n, i));
	}
	read_as_every_type(n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct usher_document *d = NULL;
	struct usher_error err = {};

	if (usher_document_parse("fuzz", (const char *) data, size, &d, &err) < 0) {
		if (!err.text[0])
			__builtin_trap();
		return 0;
	}
	walk(usher_document_root(d));
	if (!usher_node_equal(usher_document_root(d), usher_document_root(d)))
		__builtin_trap();
	usher_document_unref(d);
	return 0;
}
