/* Whatever a member of etcd says, and whatever stands in its keys: reading it neither crashes nor
 * leaks. The first half is taken for a stream, cut in the middle; the whole for a value. */

#include <stdlib.h>
#include <string.h>
#include <usher/endpoint.h>

#include "gateway.h"
#include "json-stream.h"
#include "table.h"
#include "value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_pairs(struct etcd_table *t, const json_t *list, const char *member)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *item = json_array_get(list, i);
		struct etcd_kv kv = { 0 };

		if (etcd_kv_read(member ? json_object_get(item, member) : item, &kv, NULL) < 0)
			continue;
		if (json_object_get(item, "type"))
			etcd_table_remove(t, 1, &kv);
		else
			(void) etcd_table_put(t, 1, &kv);
		etcd_kv_done(&kv);
	}
}

static void read_object(struct etcd_table *t, const json_t *object)
{
	const json_t *result = json_object_get(object, "result");
	struct etcd_header header;
	const char *text;
	int code;

	(void) etcd_error_of(object, &code, &text);
	(void) etcd_header_read(object, &header, NULL);
	(void) etcd_header_read(result, &header, NULL);
	read_pairs(t, json_object_get(result, "events"), "kv");
	read_pairs(t, json_object_get(object, "kvs"), NULL);
}

static void read_stream(struct json_stream *s, struct etcd_table *t)
{
	const char *text;
	size_t size;

	while (json_stream_next(s, &text, &size) > 0) {
		json_t *object = json_loadb(text, size, 0, NULL);

		read_object(t, object);
		json_decref(object);
	}
}

static void read_value(const char *text, size_t size)
{
	static const char *const ports[] = { NULL, "http", "8080" };
	char *other = NULL;

	for (size_t i = 0; i < sizeof(ports) / sizeof(*ports); i++) {
		struct etcd_value v;

		if (etcd_value_read(text, size, ports[i], &v, NULL) == 0)
			etcd_value_done(&v);
	}
	if (etcd_value_set_state(text, USHER_ADMIN_DRAINING, &other, NULL) == 0)
		free(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct usher_http_event event = { .size = sizeof(event), .status = 200, .data_size = size };
	struct json_stream stream = { .max_bytes = ETCD_DOCUMENT_MAX };
	struct etcd_table before = { 0 }, table = { 0 };
	struct usher_endpoints *set = NULL;
	char *text = malloc(size + 1);
	json_t *answer = NULL;
	int code;

	if (!text)
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	event.data = text;
	if (etcd_answer_read(&event, &answer, &code, NULL) == 0)
		read_object(&before, answer);
	json_decref(answer);
	if (json_stream_add(&stream, text, size / 2) == 0)
		read_stream(&stream, &table);
	if (json_stream_add(&stream, text + size / 2, size - size / 2) == 0)
		read_stream(&stream, &table);
	etcd_table_inherit(&table, &before);
	if (etcd_table_build(&table, "fuzzed", "http", &set, NULL) == 0)
		usher_endpoints_unref(set);
	read_value(text, size);
	json_stream_done(&stream);
	etcd_table_done(&before);
	etcd_table_done(&table);
	free(text);
	return 0;
}
