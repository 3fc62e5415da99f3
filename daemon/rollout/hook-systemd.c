/* A hook that has systemd start or stop a unit, and waits for the job's result. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "hook-kind.h"
#include "log.h"
#include "ownership.h"

#define MANAGER_NAME      "org.freedesktop.systemd1"
#define MANAGER_PATH      "/org/freedesktop/systemd1"
#define MANAGER_INTERFACE "org.freedesktop.systemd1.Manager"

struct hook_systemd {
	struct hook hook;
	char *unit;
	const char *method;
	char *job;   /* object path, once systemd has said it */
	char *early; /* path and result of a job that ended before it was known to be ours */
	char *early_result;
	sd_bus_slot *call_slot, *match_slot, *subscribe_slot;
	sd_event_source *timeout_source;
};

static void systemd_release(struct hook *hook)
{
	struct hook_systemd *s = (struct hook_systemd *) hook;

	(void) sd_event_source_disable_unref(s->timeout_source);
	(void) sd_bus_slot_unref(s->call_slot);
	(void) sd_bus_slot_unref(s->match_slot);
	(void) sd_bus_slot_unref(s->subscribe_slot);
	free(s->unit);
	free(s->job);
	free(s->early);
	free(s->early_result);
	free(s);
}

static void systemd_end(struct hook_systemd *s, int r, const char *what)
{
	char text[512];

	(void) sd_event_source_set_enabled(s->timeout_source, SD_EVENT_OFF);
	(void) snprintf(text, sizeof(text), "%s of %.300s: %s", s->method, s->unit, what);
	hook_finish(&s->hook, r, text);
}

static void systemd_take_result(struct hook_systemd *s, const char *result)
{
	systemd_end(s, strcmp(result, "done") == 0 || strcmp(result, "skipped") == 0 ? 0 : -EIO,
			result);
}

/* The signal may come before the answer that names the job. */
static int systemd_on_job_removed(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	struct hook_systemd *s = userdata;
	const char *path, *unit, *result;
	uint32_t id;

	(void) error;
	if (!s->hook.done || sd_bus_message_read(message, "uoss", &id, &path, &unit, &result) < 0)
		return 0;
	if (s->job && strcmp(path, s->job) == 0) {
		systemd_take_result(s, result);
	} else if (!s->job && strcmp(unit, s->unit) == 0) {
		free(s->early);
		free(s->early_result);
		s->early = strdup(path);
		s->early_result = strdup(result);
	}
	return 0;
}

static int systemd_on_answer(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	struct hook_systemd *s = userdata;
	const sd_bus_error *fault = sd_bus_message_get_error(message);
	const char *path;

	(void) error;
	if (!s->hook.done)
		return 0;
	if (fault) {
		systemd_end(s, -sd_bus_message_get_errno(message),
				fault->message ? fault->message : fault->name);
		return 0;
	}
	/* KillUnit has no job: it is done when it is answered */
	if (strcmp(s->method, "KillUnit") == 0) {
		systemd_end(s, 0, "done");
		return 0;
	}
	if (sd_bus_message_read(message, "o", &path) < 0) {
		systemd_end(s, -EBADMSG, "an answer without a job");
		return 0;
	}
	s->job = strdup(path);
	if (!s->job)
		systemd_end(s, -ENOMEM, "out of memory");
	else if (s->early && s->early_result && strcmp(s->early, s->job) == 0)
		systemd_take_result(s, s->early_result);
	return 0;
}

/* Without it there are no signals; being subscribed already is as good. */
static int systemd_on_subscribed(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	const struct hook_systemd *s = userdata;

	(void) error;
	if (sd_bus_message_is_method_error(message, NULL) &&
			!sd_bus_message_is_method_error(message, MANAGER_NAME ".AlreadySubscribed"))
		log_debug(NULL, "Cannot subscribe to the signals of systemd for %s: %s", s->unit,
				sd_bus_message_get_error(message)->message);
	return 0;
}

static int systemd_on_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct hook_systemd *s = userdata;

	(void) source;
	(void) usec;
	if (s->hook.done)
		systemd_end(s, -ETIMEDOUT, "no result within its timeout");
	return 0;
}

/* Backwards, a unit that is stopped is started, and the other way round. */
static const char *method_for(const char *action, bool backwards)
{
	if (strcmp(action, "stop") == 0)
		return backwards ? "StartUnit" : "StopUnit";
	if (strcmp(action, "start") == 0)
		return backwards ? "StopUnit" : "StartUnit";
	if (strcmp(action, "restart") == 0)
		return "RestartUnit";
	if (strcmp(action, "kill") == 0)
		return "KillUnit";
	return NULL;
}

static int open_bus(struct hook_host *host, struct usher_error *reterr)
{
	sd_bus *bus = NULL;
	int r;

	if (host->bus && sd_bus_is_open(host->bus) > 0)
		return 0;
	host->bus = sd_bus_flush_close_unref(host->bus);

	r = sd_bus_open_system(&bus);
	if (r >= 0)
		r = sd_bus_attach_event(bus, host->event, SD_EVENT_PRIORITY_NORMAL);
	if (r < 0) {
		(void) sd_bus_unref(bus);
		return usher_error_set(
				reterr, r, "cannot reach the system bus: %s", strerrordesc_np(-r));
	}
	host->bus = bus;
	return 0;
}

static int systemd_call(struct hook_systemd *s, sd_bus *bus)
{
	if (strcmp(s->method, "KillUnit") == 0)
		return sd_bus_call_method_async(bus, &s->call_slot, MANAGER_NAME, MANAGER_PATH,
				MANAGER_INTERFACE, s->method, systemd_on_answer, s, "ssi", s->unit,
				"all", 15);
	return sd_bus_call_method_async(bus, &s->call_slot, MANAGER_NAME, MANAGER_PATH,
			MANAGER_INTERFACE, s->method, systemd_on_answer, s, "ss", s->unit,
			"replace");
}

static int systemd_begin(struct hook_systemd *s, struct hook_host *host, uint64_t timeout_usec,
		struct usher_error *reterr)
{
	int r;

	r = open_bus(host, reterr);
	if (r < 0)
		return r;
	r = sd_bus_match_signal_async(host->bus, &s->match_slot, MANAGER_NAME, MANAGER_PATH,
			MANAGER_INTERFACE, "JobRemoved", systemd_on_job_removed, NULL, s);
	if (r >= 0)
		r = sd_bus_call_method_async(host->bus, &s->subscribe_slot, MANAGER_NAME,
				MANAGER_PATH, MANAGER_INTERFACE, "Subscribe", systemd_on_subscribed,
				s, NULL);
	if (r >= 0)
		r = systemd_call(s, host->bus);
	if (r >= 0)
		r = sd_event_add_time_relative(host->event, &s->timeout_source, CLOCK_BOOTTIME,
				timeout_usec, 10 * USEC_PER_MSEC, systemd_on_timeout, s);
	return r < 0 ? usher_error_set(reterr, r, "cannot ask systemd: %s", strerrordesc_np(-r))
		     : 0;
}

int hook_systemd_start(struct hook_host *host, const struct hook_call *call, struct hook **ret,
		struct usher_error *reterr)
{
	bool backwards = call->ready && strcmp(call->step, "readiness") == 0;
	const char *action = call->config->action;
	struct hook_systemd *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	if (!action)
		action = strcmp(call->step, "open") == 0 ? "start" : "stop";
	s->hook.release = systemd_release;
	s->method = method_for(action, backwards);
	r = hook_expand(call->config->unit, call, false, &s->unit, reterr);
	if (r >= 0 && !s->method)
		r = usher_error_set(reterr, -EINVAL,
				"action %s is none of stop, start, restart, kill", action);
	if (r >= 0)
		r = systemd_begin(s, host, call->config->timeout_usec, reterr);
	if (r < 0) {
		systemd_release(&s->hook);
		return r;
	}
	*ret = &s->hook;
	return 0;
}
