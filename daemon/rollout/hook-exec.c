/* A hook that runs a command. */

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "child.h"
#include "clock.h"
#include "hook-kind.h"
#include "log.h"
#include "ownership.h"

#define VARIABLES 10  /* of ours */
#define REAP_MSEC 100 /* that one which was killed is waited for */

struct hook_exec {
	struct hook hook;
	pid_t pid; /* 0: it is over and reaped */
	int pidfd;
	int output;
	bool timed_out;
	uint64_t started_usec, timeout_usec;
	size_t logged; /* bytes of its output */
	char line[HOOK_LINE_MAX];
	size_t line_length;
	sd_event_source *exit_source, *output_source, *timeout_source;
};

/* ---- its output ---- */

static void log_line(struct hook_exec *exec)
{
	const struct hook *hook = &exec->hook;

	if (exec->line_length == 0)
		return;
	exec->line[exec->line_length] = '\0';
	log_info(FIELDS(.value[LOG_SERVICE] = hook->service, .value[LOG_ENDPOINT] = hook->endpoint,
				 .value[LOG_DRAIN] = hook->drain),
			"%s hook of %s/%s: %s", hook->step, hook->service, hook->endpoint,
			exec->line);
	exec->line_length = 0;
}

static void take_output(struct hook_exec *exec, const char *data, size_t size)
{
	for (size_t i = 0; i < size && exec->logged < HOOK_OUTPUT_MAX; i++) {
		if (data[i] == '\n' || exec->line_length == sizeof(exec->line) - 1)
			log_line(exec);
		if (data[i] != '\n')
			exec->line[exec->line_length++] = data[i];
		if (++exec->logged == HOOK_OUTPUT_MAX) {
			log_line(exec);
			log_info(NULL, "%s hook of %s/%s: the rest of its output is dropped",
					exec->hook.step, exec->hook.service, exec->hook.endpoint);
		}
	}
}

/* False: there is no more. */
static bool read_output(struct hook_exec *exec)
{
	char buffer[4096];
	ssize_t size;

	size = read(exec->output, buffer, sizeof(buffer));
	if (size > 0)
		take_output(exec, buffer, (size_t) size);
	return size > 0 || (size < 0 && errno == EINTR);
}

static int exec_on_output(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct hook_exec *exec = userdata;

	(void) fd;
	if (!read_output(exec) && (events & EPOLLHUP))
		(void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
	return 0;
}

/* ---- its end ---- */

static void say_end(const struct hook_exec *exec, int status, char *ret, size_t size)
{
	char took[USHER_DURATION_TEXT_MAX];
	uint64_t usec = clock_boot_usec() - exec->started_usec;

	(void) usher_duration_format(usec - usec % USEC_PER_MSEC, took);
	if (exec->timed_out)
		(void) snprintf(ret, size, "killed after its timeout of %s", took);
	else if (WIFSIGNALED(status))
		(void) snprintf(ret, size, "ended by SIG%s after %s",
				sigabbrev_np(WTERMSIG(status)), took);
	else
		(void) snprintf(ret, size, "exit status %d after %s", WEXITSTATUS(status), took);
}

/* Nothing is heard of it any more, but for what it has left to read. */
static void exec_stop_watching(struct hook_exec *exec)
{
	(void) sd_event_source_set_enabled(exec->exit_source, SD_EVENT_OFF);
	(void) sd_event_source_set_enabled(exec->timeout_source, SD_EVENT_OFF);
	(void) sd_event_source_set_enabled(exec->output_source, SD_EVENT_OFF);
	for (unsigned i = 0; i < 2 * HOOK_OUTPUT_MAX / 4096 && read_output(exec); i++)
		;
	log_line(exec);
}

static int exec_on_exit(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct hook_exec *exec = userdata;
	char text[128];
	int status = 0, r;
	pid_t reaped;

	(void) source;
	(void) fd;
	(void) events;
	reaped = waitpid(exec->pid, &status, WNOHANG);
	if (reaped == 0 || (reaped < 0 && errno == EINTR))
		return 0;

	exec->pid = 0;
	exec_stop_watching(exec);
	if (reaped < 0) {
		hook_finish(&exec->hook, -ECHILD, "has ended, and nobody knows how");
		return 0;
	}
	r = exec->timed_out ? -ETIMEDOUT : WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
	say_end(exec, status, text, sizeof(text));
	hook_finish(&exec->hook, r, text);
	return 0;
}

static int exec_on_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct hook_exec *exec = userdata;
	char text[128];
	int r;

	(void) source;
	(void) usec;
	exec->timed_out = true;
	r = exec->pid > 0 ? child_kill(exec->pid) : 0;
	if (r < 0) {
		exec_stop_watching(exec);
		(void) snprintf(text, sizeof(text),
				"still runs after its timeout: cannot kill it: %s",
				strerrordesc_np(-r));
		hook_finish(&exec->hook, -ETIMEDOUT, text);
	}
	return 0;
}

/* One that does not go at once is left to whoever inherits it: the loop does not wait. */
static void exec_end(struct hook_exec *exec)
{
	struct pollfd ended = { .fd = exec->pidfd, .events = POLLIN };

	if (exec->pid <= 0)
		return;
	(void) child_kill(exec->pid);
	(void) poll(&ended, 1, REAP_MSEC);
	(void) waitpid(exec->pid, NULL, WNOHANG);
}

static void exec_release(struct hook *hook)
{
	struct hook_exec *exec = (struct hook_exec *) hook;

	(void) sd_event_source_disable_unref(exec->exit_source);
	(void) sd_event_source_disable_unref(exec->output_source);
	(void) sd_event_source_disable_unref(exec->timeout_source);
	exec_end(exec);
	closep(&exec->pidfd);
	closep(&exec->output);
	free(exec);
}

/* ---- its start ---- */

DEFINE_CLEANUP(char *, child_strings_free);

static int add_own_variables(char **env, size_t *count, const struct hook_call *call)
{
	struct usher_endpoint e;
	int r;

	usher_endpoints_get(call->endpoint, 0, &e);
	r = child_add_string(env, count, "USHER_TOKEN=%s", call->token);
	if (r >= 0)
		r = child_add_string(env, count, "USHER_DRAIN=%s", call->drain);
	if (r >= 0)
		r = child_add_string(env, count, "USHER_SERVICE=%s", call->service);
	if (r >= 0)
		r = child_add_string(env, count, "USHER_ENDPOINT=%s", e.id);
	if (r >= 0)
		r = child_add_string(env, count, "USHER_ADDRESS=%s", e.address);
	if (r >= 0)
		r = child_add_string(env, count, "USHER_PORT=%u", (unsigned) e.port);
	if (r >= 0)
		r = child_add_string(env, count, "USHER_UID=%s", e.uid ? e.uid : "");
	if (r >= 0)
		r = child_add_string(env, count, "USHER_STEP=%s", call->step);
	if (r >= 0)
		r = child_add_string(env, count, "USHER_READY=%s", call->ready ? "true" : "false");
	if (r >= 0)
		r = child_add_string(env, count, "USHER_ATTEMPT=%u", call->attempt);
	return r;
}

static int make_environment(const struct hook_call *call, char ***ret)
{
	cleanup(child_strings_freep) char **env = NULL;
	size_t count;
	int r;

	r = child_environment(VARIABLES, &env, &count);
	if (r >= 0)
		r = add_own_variables(env, &count, call);
	if (r < 0)
		return r;

	*ret = take(env);
	return 0;
}

static int make_arguments(const struct hook_call *call, char ***ret, struct usher_error *reterr)
{
	cleanup(child_strings_freep) char **argv = NULL;
	size_t count = 0;
	int r;

	while (call->config->command && call->config->command[count])
		count++;
	if (count == 0)
		return usher_error_set(reterr, -EINVAL, "it has no command");
	argv = calloc(count + 1, sizeof(*argv));
	if (!argv)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		r = hook_expand(call->config->command[i], call, false, &argv[i], reterr);
		if (r < 0)
			return r;
	}
	*ret = take(argv);
	return 0;
}

static int exec_watch(struct hook_exec *exec, sd_event *event)
{
	int r;

	exec->pidfd = pidfd_open(exec->pid, 0);
	if (exec->pidfd < 0)
		return -errno;
	r = sd_event_add_io(event, &exec->exit_source, exec->pidfd, EPOLLIN, exec_on_exit, exec);
	if (r >= 0)
		r = sd_event_add_io(event, &exec->output_source, exec->output, EPOLLIN,
				exec_on_output, exec);
	if (r >= 0)
		r = sd_event_add_time_relative(event, &exec->timeout_source, CLOCK_BOOTTIME,
				exec->timeout_usec, 10 * USEC_PER_MSEC, exec_on_timeout, exec);
	return r;
}

static int exec_spawn(
		struct hook_exec *exec, const struct hook_call *call, struct usher_error *reterr)
{
	cleanup(child_strings_freep) char **argv = NULL;
	cleanup(child_strings_freep) char **env = NULL;
	autoclose int output = -1;
	int ends[2], r;

	r = make_arguments(call, &argv, reterr);
	if (r >= 0)
		r = make_environment(call, &env);
	if (r < 0)
		return r;
	assert(argv && argv[0]);

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	exec->output = ends[0];
	output = ends[1];
	if (fcntl(exec->output, F_SETFL, O_NONBLOCK) < 0)
		return -errno;

	r = child_spawn(argv, env, output, &exec->pid);
	if (r < 0)
		return usher_error_set(
				reterr, r, "cannot run %s: %s", argv[0], strerrordesc_np(-r));
	return 0;
}

int hook_exec_start(struct hook_host *host, const struct hook_call *call, struct hook **ret,
		struct usher_error *reterr)
{
	struct hook_exec *exec = calloc(1, sizeof(*exec));
	int r;

	if (!exec)
		return -ENOMEM;
	*exec = (struct hook_exec){ .hook = { .release = exec_release },
		.pidfd = -1,
		.output = -1,
		.started_usec = clock_boot_usec(),
		.timeout_usec = call->config->timeout_usec };

	r = exec_spawn(exec, call, reterr);
	if (r >= 0)
		r = exec_watch(exec, host->event);
	if (r < 0) {
		exec_release(&exec->hook);
		return r;
	}
	*ret = &exec->hook;
	return 0;
}
