/* A check that runs a program: exit status 0 is up, its first line of output is what it says.
 *
 * The program ends with its attempt: it has a process group of its own, which is killed when the
 * attempt is broken off, and also when the program has ended by itself, for what it left behind. A
 * killed one that does not go at once (it waits for a disk) is waited for, never by standing still:
 * it counts among those that run. */

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "child.h"
#include "clock.h"
#include "engine.h"
#include "ownership.h"

#define CHILDREN_MAX 256   /* of one shard */
#define OUTPUT_MAX   65536 /* bytes of one; then nobody reads any more, and it gets SIGPIPE */
#define VARIABLES    4     /* of ours */
#define REAP_MSEC    200   /* that the killed are waited for at the end */

struct child {
	struct shard_watch exit; /* on its pidfd; first, see child_on_exit */
	struct shard_watch output;
	struct exec_engine *engine;
	struct attempt *attempt; /* NULL: nobody waits for it */
	pid_t pid;
	char line[2 * VERDICT_TEXT_MAX]; /* the first */
	size_t length;
	bool has_line; /* all of it */
	size_t size;   /* bytes read so far */
	struct child *next, **link;
};

struct exec_engine {
	struct shard *shard;
	struct child *children;
	unsigned count;
};

DEFINE_CLEANUP(char *, child_strings_free);

/* ---- its output ---- */

static void take_output(struct child *c, const char *data, size_t size)
{
	c->size += size;
	for (size_t i = 0; i < size && !c->has_line; i++)
		if (data[i] == '\n')
			c->has_line = c->length > 0; /* empty lines say nothing */
		else if (c->length < sizeof(c->line) - 1)
			c->line[c->length++] = data[i] ? data[i] : '.';
}

static void stop_output(struct child *c)
{
	if (c->output.fd < 0)
		return;
	shard_watch_remove(c->engine->shard, &c->output);
	(void) close(take_fd(c->output.fd));
}

/* False: there is nothing more to be had now. */
static bool read_output(struct child *c)
{
	char buffer[4096];
	ssize_t size;

	if (c->output.fd < 0)
		return false;
	size = read(c->output.fd, buffer, sizeof(buffer));
	if (size > 0)
		take_output(c, buffer, (size_t) size);
	if (size == 0 || c->size >= OUTPUT_MAX || (size < 0 && errno != EAGAIN && errno != EINTR))
		stop_output(c);
	return size > 0;
}

static void child_on_output(struct shard_watch *watch, uint32_t events)
{
	struct child *c = (struct child *) ((char *) watch - offsetof(struct child, output));

	(void) events;
	(void) read_output(c);
}

/* ---- its end ---- */

static struct child *child_free(struct child *c)
{
	if (!c)
		return NULL;
	stop_output(c);
	if (c->exit.fd >= 0) {
		shard_watch_remove(c->engine->shard, &c->exit);
		(void) close(c->exit.fd);
	}
	if (c->link) {
		*c->link = c->next;
		if (c->next)
			c->next->link = c->link;
		c->engine->count--;
	}
	free(c);
	return NULL;
}

static void judge(const struct child *c, const siginfo_t *info, struct verdict *ret)
{
	enum probe_reason reason = PROBE_STATUS;
	const char *name;

	if (info->si_code != CLD_EXITED) {
		name = sigabbrev_np(info->si_status);
		verdict_set(ret, PROBE_STATUS, 128 + info->si_status, "ended by SIG%s%s%s",
				name ? name : "?", c->length ? ": " : "", c->line);
		return;
	}
	if (info->si_status == 0)
		reason = PROBE_OK;
	if (c->length > 0)
		verdict_set(ret, reason, info->si_status, "%s", c->line);
	else
		verdict_set(ret, reason, info->si_status, "exit status %d", info->si_status);
}

static void child_on_exit(struct shard_watch *watch, uint32_t events)
{
	struct child *c = (struct child *) watch;
	struct attempt *attempt = c->attempt;
	siginfo_t info = {};
	struct verdict verdict;

	(void) events;
	(void) child_kill(c->pid); /* its group, before its id may be another's */
	if (waitid(P_PIDFD, (id_t) c->exit.fd, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0)
		return;
	while (read_output(c))
		;
	c->line[c->length] = '\0';
	judge(c, &info, &verdict);
	if (attempt) {
		attempt->bytes_received = (uint32_t) c->size;
		attempt->state = NULL;
	}
	child_free(c);
	if (attempt)
		attempt_finish(attempt, &verdict);
}

static void exec_cancel(void *engine, struct attempt *attempt)
{
	struct child *c = attempt->state;

	(void) engine;
	attempt->state = NULL;
	c->attempt = NULL;
	(void) child_kill(c->pid);
	stop_output(c); /* child_on_exit frees it */
}

/* ---- its start ---- */

static int make_environment(const struct target *target, char ***ret)
{
	cleanup(child_strings_freep) char **env = NULL;
	size_t count;
	int r;

	r = child_environment(VARIABLES, &env, &count);
	if (r >= 0)
		r = child_add_string(env, &count, "USHER_SERVICE=%s", target->service);
	if (r >= 0)
		r = child_add_string(env, &count, "USHER_ENDPOINT=%s", target->id);
	if (r >= 0)
		r = child_add_string(env, &count, "USHER_ADDRESS=%s", target->address);
	if (r >= 0)
		r = child_add_string(env, &count, "USHER_PORT=%u", (unsigned) target->port);
	if (r >= 0)
		*ret = take(env);
	return r;
}

/* From here on the child is the engine's, whatever becomes of the attempt. */
static int watch_child(struct child *c)
{
	struct exec_engine *e = c->engine;
	int fd, r;

	fd = pidfd_open(c->pid, 0);
	if (fd < 0)
		return -errno;
	c->exit = (struct shard_watch){ .ready = child_on_exit, .fd = fd };
	r = shard_watch_add(e->shard, &c->exit, EPOLLIN);
	if (r < 0) {
		(void) close(take_fd(c->exit.fd));
		return r;
	}
	c->next = e->children;
	c->link = &e->children;
	if (c->next)
		c->next->link = &c->next;
	e->children = c;
	e->count++;
	return 0;
}

/* One that cannot be watched: killed and waited for here, which is a moment. */
static void abandon(pid_t pid)
{
	(void) child_kill(pid);
	(void) waitpid(pid, NULL, 0);
}

static int run(struct exec_engine *e, struct child *c, const struct target *target)
{
	cleanup(child_strings_freep) char **env = NULL;
	autoclose int output = -1;
	int ends[2], r;

	r = make_environment(target, &env);
	if (r < 0)
		return r;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	output = ends[1];
	c->output = (struct shard_watch){ .ready = child_on_output, .fd = ends[0] };
	/* The reading end alone: the program expects to wait where it writes. */
	r = fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0
			? -errno
			: shard_watch_add(e->shard, &c->output, EPOLLIN);
	if (r < 0) {
		(void) close(take_fd(c->output.fd));
		return r;
	}
	r = child_spawn(target->command, env, output, &c->pid);
	if (r < 0)
		return r;
	r = watch_child(c);
	if (r < 0)
		abandon(c->pid);
	return r;
}

static int exec_start(void *engine, struct attempt *attempt)
{
	struct exec_engine *e = engine;
	struct verdict verdict;
	struct child *c;
	int r;

	if (e->count >= CHILDREN_MAX) {
		verdict_set(&verdict, PROBE_LOCAL, EAGAIN,
				"%d programs of checks run already: they take too long or do not end",
				CHILDREN_MAX);
		attempt_finish(attempt, &verdict);
		return 0;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->engine = e;
	c->exit.fd = c->output.fd = -1;
	attempt->phase = "waiting for the program's end";
	r = run(e, c, attempt->target);
	if (r < 0) {
		child_free(c);
		verdict_set(&verdict, PROBE_LOCAL, -r, "cannot run %.60s: %s",
				attempt->target->command[0], strerrordesc_np(-r));
		attempt_finish(attempt, &verdict);
		return 0;
	}
	c->attempt = attempt;
	attempt->state = c;
	return 0;
}

/* ---- the engine ---- */

static int exec_open(struct shard *shard, void **ret)
{
	struct exec_engine *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	e->shard = shard;
	*ret = e;
	return 0;
}

/* One that does not go in time is left to whoever inherits it. */
static void exec_close(void *engine)
{
	struct exec_engine *e = engine;
	uint64_t until = clock_boot_usec() + REAP_MSEC * USEC_PER_MSEC;

	for (struct child *c = e->children; c; c = c->next)
		(void) child_kill(c->pid);
	while (e->children) {
		struct pollfd ended = { .fd = e->children->exit.fd, .events = POLLIN };
		uint64_t now = clock_boot_usec();
		int left = now < until ? (int) ((until - now) / USEC_PER_MSEC) : 0;

		assert(!e->children->attempt);
		(void) poll(&ended, 1, left);
		(void) waitpid(e->children->pid, NULL, WNOHANG);
		child_free(e->children);
	}
	free(e);
}

const struct engine engine_exec = {
	.name = "exec",
	.descriptors = 3, /* both ends of the pipe, until it runs; the pidfd */
	.open = exec_open,
	.close = exec_close,
	.start = exec_start,
	.cancel = exec_cancel,
};
