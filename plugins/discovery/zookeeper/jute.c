#include "jute.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static const unsigned char *get(struct jute_in *in, size_t size)
{
	const unsigned char *at;

	if (in->failed || !in->data || in->size - in->at < size) {
		in->failed = true;
		return NULL;
	}
	at = in->data + in->at;
	in->at += size;
	return at;
}

static uint64_t get_number(struct jute_in *in, size_t size)
{
	const unsigned char *at = get(in, size);
	uint64_t value = 0;

	for (size_t i = 0; at && i < size; i++)
		value = value << 8 | at[i];
	return value;
}

int32_t jute_get_int(struct jute_in *in)
{
	return (int32_t) (uint32_t) get_number(in, 4);
}

int64_t jute_get_long(struct jute_in *in)
{
	return (int64_t) get_number(in, 8);
}

bool jute_get_bool(struct jute_in *in)
{
	return get_number(in, 1) != 0;
}

const char *jute_get_bytes(struct jute_in *in, size_t *ret_size)
{
	int32_t size = jute_get_int(in);
	const char *at;

	*ret_size = 0;
	if (size == -1) /* none, which is not the same as an empty one */
		return NULL;
	if (size < 0)
		in->failed = true;
	at = (const char *) get(in, (size_t) size);
	if (at)
		*ret_size = (size_t) size;
	return at;
}

size_t jute_get_count(struct jute_in *in, size_t item_size)
{
	int32_t count = jute_get_int(in);

	if (count == -1)
		return 0;
	if (count < 0 || (size_t) count > (in->size - in->at) / item_size)
		in->failed = true;
	return in->failed ? 0 : (size_t) count;
}

/* ---- writing ---- */

void jute_out_done(struct jute_out *out)
{
	free(out->data);
	*out = (struct jute_out){ 0 };
}

static unsigned char *room(struct jute_out *out, size_t size)
{
	size_t wanted = out->size + size, capacity = out->capacity ? out->capacity : 64;
	unsigned char *grown;

	if (out->failed)
		return NULL;
	while (capacity < wanted)
		capacity *= 2;
	if (capacity > out->capacity) {
		grown = realloc(out->data, capacity);
		if (!grown) {
			out->failed = true;
			return NULL;
		}
		out->data = grown;
		out->capacity = capacity;
	}
	out->size = wanted;
	return out->data + wanted - size;
}

static void put_number(unsigned char *at, uint64_t value, size_t size)
{
	for (size_t i = 0; i < size; i++)
		at[i] = (unsigned char) (value >> 8 * (size - 1 - i));
}

static void add_number(struct jute_out *out, uint64_t value, size_t size)
{
	unsigned char *at = room(out, size);

	if (at)
		put_number(at, value, size);
}

void jute_put_int(struct jute_out *out, int32_t value)
{
	add_number(out, (uint32_t) value, 4);
}

void jute_put_long(struct jute_out *out, int64_t value)
{
	add_number(out, (uint64_t) value, 8);
}

void jute_put_bool(struct jute_out *out, bool value)
{
	add_number(out, value, 1);
}

void jute_put_raw(struct jute_out *out, const void *data, size_t size)
{
	unsigned char *at = room(out, size);

	if (at && size > 0)
		memcpy(at, data, size);
}

void jute_put_bytes(struct jute_out *out, const void *data, size_t size)
{
	jute_put_int(out, (int32_t) size);
	jute_put_raw(out, data, size);
}

void jute_put_text(struct jute_out *out, const char *text)
{
	jute_put_bytes(out, text, strlen(text));
}

void jute_set_int(struct jute_out *out, size_t at, int32_t value)
{
	if (out->failed)
		return;
	assert(at + 4 <= out->size);
	put_number(out->data + at, (uint32_t) value, 4);
}
