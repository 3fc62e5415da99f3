#include "log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "ownership.h"

#define LINE_MAX_BYTES  4096
#define FIELD_MAX_BYTES 1100

static atomic_int threshold = LOG_INFO;

static const char *const field_names[] = {
	[LOG_SERVICE] = "USHER_SERVICE",
	[LOG_SOURCE] = "USHER_SOURCE",
	[LOG_ENDPOINT] = "USHER_ENDPOINT",
	[LOG_DRAIN] = "USHER_DRAIN",
	[LOG_PLUGIN] = "USHER_PLUGIN",
	[LOG_CONSUMER] = "USHER_CONSUMER",
	[LOG_MESSAGE_ID] = "MESSAGE_ID",
};

void log_set_priority(int priority)
{
	atomic_store(&threshold, priority);
}

int log_priority(void)
{
	return atomic_load(&threshold);
}

/* systemd says in $JOURNAL_STREAM which file standard error was when it connected it to the
 * journal. */
static bool stderr_is_journal(void)
{
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets it */
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;
	char *end;

	if (!stream)
		return false;
	device = strtoull(stream, &end, 10);
	if (*end != ':')
		return false;
	inode = strtoull(end + 1, &end, 10);
	return *end == 0 && fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device &&
			st.st_ino == inode;
}

static bool use_journal(void)
{
	static atomic_int known; /* 0: not yet, 1: no, 2: yes */
	int value = atomic_load(&known);

	if (value == 0) {
		value = stderr_is_journal() ? 2 : 1;
		atomic_store(&known, value);
	}
	return value == 2;
}

static int write_journal(int priority, const struct log_fields *fields, const char *line)
{
	char texts[LOG_FIELDS_MAX][FIELD_MAX_BYTES], message[LINE_MAX_BYTES + 16], level[16];
	struct iovec parts[LOG_FIELDS_MAX + 2];
	int count = 0;

	(void) snprintf(message, sizeof(message), "MESSAGE=%s", line);
	(void) snprintf(level, sizeof(level), "PRIORITY=%d", priority);
	parts[count++] = (struct iovec){ message, strlen(message) };
	parts[count++] = (struct iovec){ level, strlen(level) };
	for (size_t i = 0; fields && i < LOG_FIELDS_MAX; i++) {
		if (!fields->value[i])
			continue;
		(void) snprintf(texts[i], sizeof(texts[i]), "%s=%s", field_names[i],
				fields->value[i]);
		parts[count++] = (struct iovec){ texts[i], strlen(texts[i]) };
	}
	return sd_journal_sendv(parts, count);
}

/* One write a line, so that lines of several threads do not mix. What cannot be printed is shown as
 * '?'. */
static void write_stderr(int priority, const char *line)
{
	static const char *const words[] = { "emergency", "alert", "critical", "error", "warning",
		"notice", "info", "debug" };
	char text[LINE_MAX_BYTES + 32];
	int length = snprintf(text, sizeof(text), "%s: %s\n", words[priority & 7], line);

	if (length < 0)
		return;
	if ((size_t) length >= sizeof(text)) {
		length = sizeof(text) - 1;
		text[length - 1] = '\n';
	}
	for (int i = 0; i < length - 1; i++)
		if ((unsigned char) text[i] < 0x20 || text[i] == 0x7f)
			text[i] = '?';
	(void) !write(STDERR_FILENO, text, (size_t) length);
}

void log_write(int priority, const struct log_fields *fields, const char *format, ...)
{
	char line[LINE_MAX_BYTES];
	va_list args;

	if (priority > log_priority())
		return;
	va_start(args, format);
	(void) vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (use_journal() && write_journal(priority, fields, line) >= 0)
		return;
	write_stderr(priority, line);
}
