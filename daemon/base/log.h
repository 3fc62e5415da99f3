#pragma once

/* The log: the journal with fields under systemd, plain lines on standard error otherwise.
 *
 * A line says what happened, to what, why, and what the daemon does about it. Only whoever decides
 * what happens next logs. Fields and message ids are stable like an API. Thread: any. */

#include <stdbool.h>
#include <syslog.h>

enum log_field {
	LOG_SERVICE, /* USHER_SERVICE */
	LOG_SOURCE,
	LOG_ENDPOINT,
	LOG_DRAIN,
	LOG_PLUGIN,
	LOG_CONSUMER,
	LOG_MESSAGE_ID, /* MESSAGE_ID: 32 hexadecimal digits */
	LOG_FIELDS_MAX,
};

struct log_fields {
	const char *value[LOG_FIELDS_MAX]; /* NULL: not said */
};

/* Lines of less importance than `priority` are dropped; LOG_INFO at first. */
void log_set_priority(int priority);
int log_priority(void);

__attribute__((format(printf, 3, 4))) void log_write(
		int priority, const struct log_fields *fields, const char *format, ...);

/* log_info(FIELDS(.value[LOG_SERVICE] = name), "...") or log_info(NULL, "..."). */
#define FIELDS(...)              (&(const struct log_fields){ __VA_ARGS__ })
#define log_error(fields, ...)   log_write(LOG_ERR, fields, __VA_ARGS__)
#define log_warning(fields, ...) log_write(LOG_WARNING, fields, __VA_ARGS__)
#define log_notice(fields, ...)  log_write(LOG_NOTICE, fields, __VA_ARGS__)
#define log_info(fields, ...)    log_write(LOG_INFO, fields, __VA_ARGS__)
#define log_debug(fields, ...)   log_write(LOG_DEBUG, fields, __VA_ARGS__)
