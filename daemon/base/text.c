#include "text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

void text_done(struct text *text)
{
	free(text->data);
	*text = (struct text){};
}

char *text_take(struct text *text)
{
	char *data;

	if (!text->failed && !text->data)
		text_add(text, "", 0);
	if (text->failed) {
		text_done(text);
		return NULL;
	}
	data = text->data;
	*text = (struct text){};
	return data;
}

static bool text_reserve(struct text *text, size_t more)
{
	size_t wanted, grown;
	char *data;

	if (text->failed)
		return false;
	wanted = text->length + more + 1;
	if (text->data && wanted <= text->capacity)
		return true;
	grown = text->capacity + text->capacity / 2 + 128;
	if (grown < wanted)
		grown = wanted;
	data = realloc(text->data, grown);
	if (!data) {
		text->failed = true;
		return false;
	}
	text->data = data;
	text->capacity = grown;
	return true;
}

void text_add(struct text *text, const char *data, size_t length)
{
	if (!text_reserve(text, length))
		return;
	memcpy(text->data + text->length, data, length);
	text->length += length;
	text->data[text->length] = 0;
}

void text_add_string(struct text *text, const char *string)
{
	text_add(text, string, strlen(string));
}

void text_add_unsigned(struct text *text, uint64_t value)
{
	char digits[20];
	size_t i = sizeof(digits);

	do {
		digits[--i] = (char) ('0' + value % 10);
		value /= 10;
	} while (value);
	text_add(text, digits + i, sizeof(digits) - i);
}

void text_add_format(struct text *text, const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (length < 0) {
		text->failed = true;
		return;
	}
	if (!text_reserve(text, (size_t) length))
		return;
	va_start(args, format);
	(void) vsnprintf(text->data + text->length, (size_t) length + 1, format, args);
	va_end(args);
	text->length += (size_t) length;
}

static const char *json_escape(unsigned char c, char *buffer)
{
	switch (c) {
	case '"':
		return "\\\"";
	case '\\':
		return "\\\\";
	case '\n':
		return "\\n";
	case '\r':
		return "\\r";
	case '\t':
		return "\\t";
	default:
		if (c >= 0x20)
			return NULL;
		(void) snprintf(buffer, 7, "\\u%04x", c);
		return buffer;
	}
}

void text_add_json(struct text *text, const char *string)
{
	const char *plain = string;

	if (!string) {
		text_add(text, "null", 4);
		return;
	}
	text_add(text, "\"", 1);
	for (; *string; string++) {
		char buffer[7];
		const char *escape = json_escape((unsigned char) *string, buffer);

		if (!escape)
			continue;
		text_add(text, plain, (size_t) (string - plain));
		text_add_string(text, escape);
		plain = string + 1;
	}
	text_add(text, plain, (size_t) (string - plain));
	text_add(text, "\"", 1);
}
