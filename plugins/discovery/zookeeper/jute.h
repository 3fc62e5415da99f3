#pragma once

/* Jute, as ZooKeeper's messages are written: numbers in network order, texts and lists behind their
 * length.
 *
 * What fails once (a message that is too short, a length that is none, no memory) has failed for
 * good, so that a whole message is read or written before anybody asks. What has failed to be read
 * is 0, false, or an empty text. Source: zookeeper.jute of Apache ZooKeeper. Thread: any. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jute_in {
	const unsigned char *data; /* borrowed */
	size_t size, at;
	bool failed;
};

int32_t jute_get_int(struct jute_in *in);
int64_t jute_get_long(struct jute_in *in);
bool jute_get_bool(struct jute_in *in);
/* The bytes of a text or a buffer, in the message; NULL with a size of 0: there is none. */
const char *jute_get_bytes(struct jute_in *in, size_t *ret_size);
/* How many items of at least item_size bytes follow; a list that the message has no room for has
 * failed. */
size_t jute_get_count(struct jute_in *in, size_t item_size);

struct jute_out {
	unsigned char *data;
	size_t size, capacity;
	bool failed;
};

void jute_out_done(struct jute_out *out);
void jute_put_int(struct jute_out *out, int32_t value);
void jute_put_long(struct jute_out *out, int64_t value);
void jute_put_bool(struct jute_out *out, bool value);
void jute_put_bytes(struct jute_out *out, const void *data, size_t size);
void jute_put_text(struct jute_out *out, const char *text);
/* Just the bytes, without their length. */
void jute_put_raw(struct jute_out *out, const void *data, size_t size);
/* Overwrite the number at `at`. */
void jute_set_int(struct jute_out *out, size_t at, int32_t value);
