#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <usher/error.h>

static const char *code_words(int code, char *buffer, size_t size)
{
	return strerror_r(code < 0 ? -code : code, buffer, size);
}

int usher_error_set(struct usher_error *reterr, int code, const char *format, ...)
{
	va_list args;

	if (!reterr)
		return code;

	reterr->code = code;
	va_start(args, format);
	(void) vsnprintf(reterr->text, sizeof(reterr->text), format, args);
	va_end(args);
	return code;
}

/* ": TEXT" after the first `length` bytes, as far as it fits. */
static void append(char *error_text, size_t length, const char *text)
{
	const char *const parts[] = { ": ", text };

	for (size_t i = 0; i < 2; i++) {
		size_t room, part = strlen(parts[i]);

		if (length >= USHER_ERROR_TEXT_MAX - 1)
			return;
		room = USHER_ERROR_TEXT_MAX - 1 - length;
		if (part > room)
			part = room;
		memcpy(error_text + length, parts[i], part);
		length += part;
		error_text[length] = 0;
	}
}

int usher_error_prefix(struct usher_error *reterr, int code, const char *format, ...)
{
	char text[USHER_ERROR_TEXT_MAX], words[128];
	va_list args;
	int length;

	if (!reterr)
		return code;

	if (!reterr->text[0])
		(void) snprintf(text, sizeof(text), "%s", code_words(code, words, sizeof(words)));
	else
		memcpy(text, reterr->text, sizeof(text));

	reterr->code = code;
	va_start(args, format);
	length = vsnprintf(reterr->text, sizeof(reterr->text), format, args);
	va_end(args);
	if (length >= 0)
		append(reterr->text, (size_t) length, text);
	return code;
}

const char *usher_error_text(const struct usher_error *err, int code)
{
	static _Thread_local char words[128];

	if (err && err->text[0])
		return err->text;
	return code_words(code, words, sizeof(words));
}
