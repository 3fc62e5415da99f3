#include "daemon.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <systemd/sd-event.h>

#include "clock.h"
#include "config-watch.h"
#include "directory.h"
#include "inherited.h"
#include "loader.h"
#include "log.h"
#include "notify.h"
#include "ownership.h"
#include "readiness.h"
#include "registrations.h"
#include "reload.h"
#include "rollout.h"
#include "server.h"
#include "store.h"

#define WORKERS           4
#define STATUS_EVERY_USEC (1 * USEC_PER_SEC)
#define EXTEND_BY_USEC    (10 * USEC_PER_SEC)   /* asked for while something long goes on */
#define QUIESCE_USEC      (300 * USEC_PER_MSEC) /* for answers under way, at a stop */
#define STATUS_TEXT_MAX   512

enum daemon_state {
	DAEMON_STARTING,
	DAEMON_READY,
	DAEMON_RELOADING,
	DAEMON_STOPPING
};

struct daemon {
	char *config_path;
	enum daemon_state state;
	uint64_t started_usec;
	uint64_t loaded_wall_usec;
	char *reload_error;
	char status[STATUS_TEXT_MAX]; /* as systemd knows it */
	struct notify *notify;

	sd_event *event;
	sd_event_source *tick; /* readiness and STATUS= */
	struct inbox *inbox;
	struct worker *worker;
	struct plugins *plugins;
	struct store *store;
	struct directory *directory;
	struct rollout *rollout;
	struct registrations *registrations;
	struct server *server;
	struct reload *reload;
	struct config_watch *watch; /* NULL: a reload is asked for */
	struct config *config;

	bool quiesced, deregistered; /* at a stop */
};

/* ---- what systemd and people are told ---- */

static unsigned count_live(const struct daemon *d, uint64_t now_usec)
{
	unsigned live = 0;

	for (size_t i = 0; i < directory_count(d->directory); i++) {
		struct freshness freshness;

		context_freshness(directory_at(d->directory, i), now_usec, &freshness);
		live += freshness.state == SOURCE_LIVE;
	}
	return live;
}

static void describe_status(
		const struct daemon *d, const struct readiness *readiness, struct text *text)
{
	size_t running = rollout_running(d->rollout), total = directory_count(d->directory);

	if (d->state == DAEMON_STARTING || readiness->gave_up > 0)
		readiness_describe(d->directory, readiness, text);
	else
		text_add_format(text, "%u of %zu services are live",
				count_live(d, clock_boot_usec()), total);
	if (running > 0)
		text_add_format(text, "; %zu %s running", running,
				running == 1 ? "drain" : "drains");
	if (d->reload_error)
		text_add_format(text, "; the last reload was refused: %s", d->reload_error);
}

static void set_status(struct daemon *d, const char *status)
{
	if (strncmp(d->status, status, sizeof(d->status) - 1) == 0)
		return;
	(void) snprintf(d->status, sizeof(d->status), "%s", status);
	notify_status(d->notify, d->status);
}

static void update_status(struct daemon *d, const struct readiness *readiness)
{
	struct text text = {};

	describe_status(d, readiness, &text);
	if (!text.failed)
		set_status(d, text.data);
	text_done(&text);
}

static void become_ready(struct daemon *d, const struct readiness *readiness)
{
	d->state = DAEMON_READY;
	if (readiness->gave_up > 0)
		log_warning(NULL,
				"Ready without the first answer of %u of %u services: their startup_timeout is used up",
				readiness->gave_up, readiness->total);
	else
		log_info(NULL, "Ready: %u services have their first answer", readiness->total);
	update_status(d, readiness);
	notify_ready(d->notify, d->status);
}

/* Level-triggered: looks at how things are, whatever woke it. */
static void look_around(struct daemon *d)
{
	uint64_t now = clock_boot_usec(), next = now + STATUS_EVERY_USEC;
	struct readiness readiness;

	readiness_judge(d->directory, d->started_usec, now, &readiness);
	if (d->state == DAEMON_STARTING && readiness.ready)
		become_ready(d, &readiness);
	else if (d->state == DAEMON_STARTING)
		notify_extend_timeout(d->notify, EXTEND_BY_USEC);
	if (d->state != DAEMON_STOPPING && d->state != DAEMON_RELOADING)
		update_status(d, &readiness);
	notify_again(d->notify);
	if (readiness.next_usec < next)
		next = readiness.next_usec;
	(void) sd_event_source_set_time(d->tick, next);
	(void) sd_event_source_set_enabled(d->tick, SD_EVENT_ONESHOT);
}

static int daemon_on_tick(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void) source;
	(void) usec;
	look_around(userdata);
	return 0;
}

/* A first answer may be the one that was waited for. */
static void daemon_on_published(
		void *userdata, struct context *context, const struct snapshot *previous)
{
	struct daemon *d = userdata;

	(void) context;
	if (!previous && d->state == DAEMON_STARTING)
		(void) sd_event_source_set_time(d->tick, 0);
}

static const struct directory_events daemon_directory_events = { .published = daemon_on_published };

/* ---- reload ---- */

static void daemon_on_reload_begun(void *userdata)
{
	struct daemon *d = userdata;

	if (d->state != DAEMON_READY)
		return;
	d->state = DAEMON_RELOADING;
	notify_reloading(d->notify);
	notify_extend_timeout(d->notify, EXTEND_BY_USEC);
}

static int check_unchangeable(
		const struct daemon *d, const struct config *config, struct usher_error *reterr)
{
	if (strcmp(d->config->state_dir, config->state_dir) != 0)
		return usher_error_set(reterr, -EINVAL,
				"%s: state_dir cannot change from %s to %s while usherd runs; restart it for that",
				config->path, d->config->state_dir, config->state_dir);
	return 0;
}

/* Everything that can be refused is refused before anything changes. */
static int daemon_apply(struct daemon *d, struct config *config, struct usher_error *reterr)
{
	int none[DOOR_MAX] = { -1, -1, -1 };
	struct registrations_plan *registrations = NULL;
	struct directory_plan *plan = NULL;
	int r;

	r = check_unchangeable(d, config, reterr);
	if (r < 0)
		return r;
	r = plugins_rescan(d->plugins, config->plugin_dirs);
	if (r < 0)
		return usher_error_prefix(reterr, r, "cannot look through the plug-in folders");
	r = directory_prepare(d->directory, config, &plan, reterr);
	if (r >= 0)
		r = registrations_prepare(d->registrations, config, &registrations, reterr);
	if (r >= 0)
		r = server_listen(d->server, config, none, reterr);
	if (r < 0) {
		registrations_plan_free(registrations);
		directory_plan_free(plan);
		return r;
	}
	directory_apply(d->directory, plan);
	registrations_apply(d->registrations, registrations);
	config_unref(d->config);
	d->config = config_ref(config);
	d->loaded_wall_usec = clock_wall_usec();
	return 0;
}

static int daemon_on_reload_apply(void *userdata, struct config *config, struct usher_error *reterr)
{
	struct daemon *d = userdata;
	int r = d->state == DAEMON_STOPPING ? usher_error_set(reterr, -ECANCELED, "usherd stops")
					    : daemon_apply(d, config, reterr);

	config_unref(config);
	return r;
}

/* READY=1 follows whatever became of it: systemd waits for it, and what runs is ready. */
static void daemon_on_reload_ended(void *userdata, int r, const char *reason)
{
	struct daemon *d = userdata;
	struct readiness readiness;

	free(d->reload_error);
	d->reload_error = NULL;
	if (r < 0) {
		log_error(NULL, "Cannot reload the configuration: %s; the old one stays in force",
				reason);
		d->reload_error = strdup(reason);
	} else {
		log_info(NULL, "Reloaded the configuration from %s", d->config_path);
	}
	if (d->state != DAEMON_RELOADING)
		return;
	d->state = DAEMON_READY;
	readiness_judge(d->directory, d->started_usec, clock_boot_usec(), &readiness);
	update_status(d, &readiness);
	notify_ready(d->notify, d->status);
}

static const struct reload_events daemon_reload_events = {
	.begun = daemon_on_reload_begun,
	.apply = daemon_on_reload_apply,
	.ended = daemon_on_reload_ended,
};

static int daemon_on_hangup(
		sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct daemon *d = userdata;

	(void) source;
	(void) info;
	reload_request(d->reload, NULL, NULL);
	return 0;
}

static void daemon_on_config_changed(void *userdata)
{
	struct daemon *d = userdata;

	if (d->state != DAEMON_STOPPING)
		reload_request(d->reload, NULL, NULL);
}

/* ---- what the API asks of us ---- */

static void daemon_reload(void *userdata, server_reloaded done, void *done_userdata)
{
	struct daemon *d = userdata;

	reload_request(d->reload, done, done_userdata);
}

static const char *daemon_state(void *userdata)
{
	static const char *const names[] = {
		[DAEMON_STARTING] = "starting",
		[DAEMON_READY] = "ready",
		[DAEMON_RELOADING] = "reloading",
		[DAEMON_STOPPING] = "stopping",
	};
	const struct daemon *d = userdata;

	return names[d->state];
}

static const char *daemon_reload_error(void *userdata)
{
	return ((const struct daemon *) userdata)->reload_error;
}

static uint64_t daemon_loaded_wall_usec(void *userdata)
{
	return ((const struct daemon *) userdata)->loaded_wall_usec;
}

static const char *daemon_store_error(void *userdata)
{
	const struct daemon *d = userdata;

	return d->store ? store_trouble(d->store) : NULL;
}

static const struct server_above daemon_above = {
	.reload = daemon_reload,
	.state = daemon_state,
	.reload_error = daemon_reload_error,
	.loaded_wall_usec = daemon_loaded_wall_usec,
	.store_error = daemon_store_error,
};

/* ---- stop ---- */

static void exit_when_done(struct daemon *d)
{
	if (d->quiesced && d->deregistered)
		(void) sd_event_exit(d->event, 0);
}

static int daemon_on_quiesced(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct daemon *d = userdata;

	(void) usec;
	sd_event_source_disable_unref(source);
	d->quiesced = true;
	exit_when_done(d);
	return 0;
}

static void daemon_on_deregistered(void *userdata)
{
	struct daemon *d = userdata;

	d->deregistered = true;
	exit_when_done(d);
}

static int daemon_on_terminate(
		sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct daemon *d = userdata;
	size_t running;

	(void) source;
	(void) info;
	if (d->state == DAEMON_STOPPING)
		return sd_event_exit(d->event, 0);
	d->state = DAEMON_STOPPING;
	running = rollout_running(d->rollout);
	notify_stopping(d->notify,
			running > 0 ? "Stopping; drains that run go on after the next start"
				    : "Stopping");
	notify_extend_timeout(d->notify, EXTEND_BY_USEC);
	if (running > 0)
		log_notice(NULL,
				"Stopping with %zu drains running: they are on disk and go on after the next start",
				running);
	else
		log_info(NULL, "Stopping");
	server_quiesce(d->server);
	registrations_stop(d->registrations, daemon_on_deregistered, d);
	if (sd_event_add_time_relative(d->event, NULL, CLOCK_BOOTTIME, QUIESCE_USEC, 1,
			    daemon_on_quiesced, d) < 0)
		return sd_event_exit(d->event, 0);
	return 0;
}

/* ---- start ---- */

static void daemon_restore_feed(void *userdata, const struct stored_feed *feed)
{
	directory_restore_feed(((struct daemon *) userdata)->directory, feed);
}

static void daemon_restore_drain(void *userdata, const struct stored_drain *drain)
{
	rollout_restore_drain(((struct daemon *) userdata)->rollout, drain);
}

static void daemon_restore_cursor(void *userdata, const char *service, uint64_t cursor)
{
	directory_restore_cursor(((struct daemon *) userdata)->directory, service, cursor);
}

static void daemon_restore_registration(
		void *userdata, const struct stored_registration *registration)
{
	registrations_restore(((struct daemon *) userdata)->registrations, registration);
}

static const struct store_loader daemon_store_loader = {
	.feed = daemon_restore_feed,
	.drain = daemon_restore_drain,
	.cursor = daemon_restore_cursor,
	.registration = daemon_restore_registration,
};

static int start_signals(struct daemon *d)
{
	static const struct {
		int signal;
		sd_event_signal_handler_t handler;
	} handlers[] = {
		{ SIGTERM, daemon_on_terminate },
		{ SIGINT, daemon_on_terminate },
		{ SIGHUP, daemon_on_hangup },
	};
	sigset_t mask;
	int r;

	(void) signal(SIGPIPE, SIG_IGN);
	(void) signal(SIGCHLD, SIG_DFL); /* ignored, as some parents leave it, nobody could wait */
	(void) sigemptyset(&mask);
	for (size_t i = 0; i < ELEMENTS(handlers); i++)
		(void) sigaddset(&mask, handlers[i].signal);
	(void) sigaddset(&mask, SIGCHLD);
	r = pthread_sigmask(SIG_BLOCK, &mask, NULL); /* threads are started later and inherit it */
	if (r > 0)
		return -r;
	for (size_t i = 0; i < ELEMENTS(handlers); i++) {
		r = sd_event_add_signal(d->event, NULL, handlers[i].signal, handlers[i].handler, d);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The loop and what lets threads speak to it. */
static int start_loop(struct daemon *d)
{
	int r = sd_event_new(&d->event);

	if (r < 0)
		return r;
	r = start_signals(d);
	if (r < 0)
		return r;
	(void) sd_event_set_watchdog(d->event, true);
	r = sd_event_add_time(d->event, &d->tick, CLOCK_BOOTTIME, 0, 1, daemon_on_tick, d);
	if (r < 0)
		return r;
	(void) sd_event_source_set_enabled(d->tick, SD_EVENT_OFF);
	r = inbox_new(d->event, &d->inbox);
	if (r < 0)
		return r;
	r = worker_new(d->inbox, "usher-worker", WORKERS, &d->worker);
	if (r < 0)
		return r;
	return reload_new(d->worker, d->config_path, &daemon_reload_events, d, &d->reload);
}

static struct usher_endpoints *daemon_find_registered(
		void *userdata, const char *service, const char *endpoint)
{
	const struct daemon *d = userdata;

	return registrations_endpoint(d->registrations, service, endpoint);
}

static int build_floors(struct daemon *d)
{
	int r = plugins_new(d->config->plugin_dirs, &d->plugins);

	if (r < 0)
		return r;
	r = directory_new(d->event, d->inbox, d->plugins, &d->directory);
	if (r < 0)
		return r;
	r = rollout_new(d->event, d->directory, d->worker, &d->rollout);
	if (r < 0)
		return r;
	r = registrations_new(d->event, d->directory, &d->registrations);
	if (r < 0)
		return r;
	r = server_new(d->event, d->directory, d->rollout, &d->server);
	if (r < 0)
		return r;
	server_set_above(d->server, &daemon_above, d);
	server_set_registrations(d->server, d->registrations);
	rollout_set_above(d->rollout, server_rollout_above(), d->server);
	rollout_set_registered(d->rollout, daemon_find_registered, d);
	return directory_subscribe(d->directory, &daemon_directory_events, d);
}

static int open_store(struct daemon *d, struct usher_error *reterr)
{
	uint64_t revision;
	int r = store_open(d->config->state_dir, d->inbox, &daemon_store_loader, d, &d->store,
			&revision, reterr);

	if (r < 0)
		return r;
	directory_set_store(d->directory, d->store);
	rollout_set_store(d->rollout, d->store);
	registrations_set_store(d->registrations, d->store);
	return 0;
}

/* The directory as the disk and the configuration know it, with what the rollouts decided, before
 * anybody can ask. */
static int start_directory(struct daemon *d, struct usher_error *reterr)
{
	struct registrations_plan *registrations = NULL;
	struct directory_plan *plan = NULL;
	int r = directory_prepare(d->directory, d->config, &plan, reterr);

	if (r < 0)
		return r;
	r = registrations_prepare(d->registrations, d->config, &registrations, reterr);
	if (r < 0) {
		directory_plan_free(plan);
		return r;
	}
	directory_apply(d->directory, plan);
	rollout_start(d->rollout);
	registrations_apply(d->registrations, registrations);
	return 0;
}

static int open_doors(struct daemon *d, struct usher_error *reterr)
{
	int doors[DOOR_MAX];
	int r;

	inherited_sockets(d->config, doors);
	r = server_listen(d->server, d->config, doors, reterr);
	for (int door = 0; door < DOOR_MAX; door++)
		closep(&doors[door]);
	return r;
}

/* Watched from before it is read, so that no change is missed. */
static int load_config(struct daemon *d, unsigned flags, struct usher_error *reterr)
{
	int r = flags & DAEMON_RELOAD_ON_CHANGE
			? config_watch_new(d->inbox, d->config_path, daemon_on_config_changed, d,
					  &d->watch)
			: 0;

	if (r < 0)
		return usher_error_set(reterr, r, "cannot watch %s: %s", d->config_path,
				strerrordesc_np(-r));
	r = config_load(d->config_path, &d->config, reterr);
	if (r >= 0)
		d->loaded_wall_usec = clock_wall_usec();
	return r;
}

static int daemon_start(struct daemon *d, unsigned flags, struct usher_error *reterr)
{
	int r = start_loop(d);

	if (r < 0)
		return usher_error_set(reterr, r, "cannot start: %s", strerrordesc_np(-r));
	r = load_config(d, flags, reterr);
	if (r < 0)
		return r;
	r = build_floors(d);
	if (r < 0)
		return usher_error_set(reterr, r, "cannot start: %s", strerrordesc_np(-r));
	r = open_store(d, reterr);
	if (r < 0)
		return r;
	r = start_directory(d, reterr);
	if (r < 0)
		return r;
	return open_doors(d, reterr);
}

int daemon_new(const char *config_path, unsigned flags, struct daemon **ret,
		struct usher_error *reterr)
{
	struct daemon *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	d->started_usec = clock_boot_usec();
	d->notify = notify_new();
	d->config_path = strdup(config_path);
	r = d->config_path ? daemon_start(d, flags, reterr)
			   : usher_error_set(reterr, -ENOMEM, "out of memory");
	if (r < 0) {
		daemon_free(d);
		return r;
	}
	*ret = d;
	return 0;
}

/* From the top floor to the ground: nobody is called who has gone. */
static void daemon_release(struct daemon *d)
{
	d->watch = config_watch_free(d->watch);
	d->reload = reload_free(d->reload);
	d->server = server_free(d->server);
	d->rollout = rollout_free(d->rollout);
	d->registrations = registrations_free(d->registrations);
	if (d->directory && d->store)
		directory_save(d->directory);
	d->directory = directory_free(d->directory);
	d->worker = worker_free(d->worker);
	d->store = store_close(d->store);
	/* What is left in it holds plug-ins. */
	d->inbox = inbox_free(d->inbox);
	d->plugins = plugins_free(d->plugins);
	sd_event_source_disable_unref(d->tick);
	sd_event_unref(d->event);
	config_unref(d->config);
	d->notify = notify_free(d->notify);
	free(d->reload_error);
	free(d->config_path);
}

struct daemon *daemon_free(struct daemon *d)
{
	if (!d)
		return NULL;
	daemon_release(d);
	free(d);
	return NULL;
}

int daemon_run(struct daemon *d)
{
	look_around(d);
	return sd_event_loop(d->event);
}

int daemon_check(const char *config_path, struct usher_error *reterr)
{
	struct daemon d = { .config_path = strdup(config_path) };
	struct registrations_plan *registrations = NULL;
	struct directory_plan *plan = NULL;
	int r = d.config_path ? config_load(config_path, &d.config, reterr) : -ENOMEM;

	if (r >= 0)
		r = start_loop(&d);
	if (r >= 0)
		r = build_floors(&d);
	if (r >= 0)
		r = directory_prepare(d.directory, d.config, &plan, reterr);
	if (r >= 0)
		r = registrations_prepare(d.registrations, d.config, &registrations, reterr);
	registrations_plan_free(registrations);
	directory_plan_free(plan);
	daemon_release(&d);
	return r;
}
