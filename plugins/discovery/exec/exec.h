#pragma once

/* The instance of the plug-in: its options, which never change, and a descriptor. So the thread of
 * `run` and that of the registrations share nothing that needs a lock. */

#include <usher/plugin.h>

enum exec_mode {
	EXEC_INTERVAL, /* runs, prints the directory, ends; and again */
	EXEC_STREAM,   /* runs on, and prints the directory as a line after each change */
};

struct exec {
	const char *const *command;
	const char *const *environment;
	const char *folder;
	int mode; /* enum exec_mode */
	bool shell, registers;
	uint64_t interval_usec, timeout_usec, silence_usec, renew_usec;
	uint64_t output_max;
	int stop_fd; /* of one that registers: readable once usherd stops; 0: none */
};

/* What it is called in messages: a text for the shell may be long, and have secrets in it. */
static inline const char *exec_name(const struct exec *e)
{
	return e->shell ? "/bin/sh" : e->command[0];
}

int registration_add(void *instance, const struct usher_wanted *service,
		const struct usher_endpoint *endpoint, struct usher_error *reterr);
int registration_renew(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr);
int registration_set_state(void *instance, const struct usher_wanted *service, const char *id,
		enum usher_admin_state state, struct usher_error *reterr);
int registration_remove(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr);
uint64_t registration_renew_after_usec(const void *instance);
