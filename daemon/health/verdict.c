#include "verdict.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ownership.h"

static const char *const names[] = {
	[PROBE_OK] = "ok",
	[PROBE_DEGRADED] = "degraded",
	[PROBE_TIMEOUT] = "timeout",
	[PROBE_REFUSED] = "refused",
	[PROBE_UNREACHABLE] = "unreachable",
	[PROBE_RESET] = "reset",
	[PROBE_NO_ADDRESS] = "no_address",
	[PROBE_TLS] = "tls",
	[PROBE_PROTOCOL] = "protocol",
	[PROBE_STATUS] = "status",
	[PROBE_BODY] = "body",
	[PROBE_NOT_SERVING] = "not_serving",
	[PROBE_TARGET] = "target",
	[PROBE_LOCAL] = "local",
};

const char *probe_reason_to_string(enum probe_reason reason)
{
	assert((size_t) reason < ELEMENTS(names));
	return names[reason];
}

enum probe_outcome probe_reason_outcome(enum probe_reason reason)
{
	switch (reason) {
	case PROBE_OK:
		return PROBE_IS_UP;
	case PROBE_DEGRADED:
		return PROBE_IS_DEGRADED;
	case PROBE_LOCAL:
		return PROBE_IS_NOTHING;
	case PROBE_TIMEOUT:
	case PROBE_REFUSED:
	case PROBE_UNREACHABLE:
	case PROBE_RESET:
	case PROBE_NO_ADDRESS:
	case PROBE_TLS:
	case PROBE_PROTOCOL:
	case PROBE_STATUS:
	case PROBE_BODY:
	case PROBE_NOT_SERVING:
	case PROBE_TARGET:
		return PROBE_IS_DOWN;
	}
	return PROBE_IS_NOTHING;
}

enum probe_reason probe_reason_of_errno(int error)
{
	switch (error) {
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOBUFS:
	case ENOSPC: /* of epoll's watches */
	case EADDRNOTAVAIL:
	case EADDRINUSE:
	case EAGAIN:
		return PROBE_LOCAL;
	case ECONNREFUSED:
		return PROBE_REFUSED;
	case ETIMEDOUT:
		return PROBE_TIMEOUT;
	case ECONNRESET:
	case ECONNABORTED:
	case EPIPE:
		return PROBE_RESET;
	case EINVAL: /* an address without the scope that it needs */
		return PROBE_TARGET;
	case EPROTO:
		return PROBE_PROTOCOL;
	default:
		return PROBE_UNREACHABLE;
	}
}

/* How many bytes from here make one printable character; 0: none. */
static size_t printable_length(const unsigned char *text)
{
	size_t length;

	if (text[0] < 0x80)
		return text[0] >= 0x20 && text[0] != 0x7f;
	if (text[0] == 0xc2 && text[1] < 0xa0)
		return 0; /* C1 controls */
	length = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
	if (text[0] < 0xc2 || text[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	return length;
}

static void make_printable(char *text)
{
	while (*text) {
		size_t length = printable_length((const unsigned char *) text);

		if (length == 0)
			*text = '.';
		text += length ? length : 1;
	}
}

void verdict_set(struct verdict *verdict, enum probe_reason reason, int code, const char *format,
		...)
{
	va_list arguments;

	*verdict = (struct verdict){ .reason = reason, .code = code };
	va_start(arguments, format);
	(void) vsnprintf(verdict->text, sizeof(verdict->text), format, arguments);
	va_end(arguments);
	make_printable(verdict->text);
}

void verdict_set_errno(struct verdict *verdict, int error, const char *doing)
{
	const char *words = strerrordesc_np(error);

	verdict_set(verdict, probe_reason_of_errno(error), error, "cannot %s: %s", doing,
			words ? words : "unknown fault");
}
