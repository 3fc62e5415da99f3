/* Discovery by a program that prints the directory, and registration by the same program.
 *
 * What it prints is believed as a whole or not at all, and only where it ended well (or, in a
 * stream, where the line is whole): what it printed before it failed is no answer. */

#include "exec.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "directory.h"
#include "own.h"
#include "program.h"
#include "retry.h"

#define USEC_PER_MSEC UINT64_C(1000)
#define USEC_PER_SEC  UINT64_C(1000000)
/* After a failure the first answers may be those of something that has not found everybody yet:
 * what they lack is doubted until it was lacking twice. */
#define TRUSTED_AFTER 2
/* Of a stream, before anything else is looked at: a program that floods is not all there is. */
#define LINES_AT_ONCE 256

struct running {
	const struct exec *exec;
	struct usher_source *source;
	struct program *program;     /* NULL: it does not run */
	struct directory *directory; /* the last; NULL: none yet */
	struct directory *trusted;   /* what is compared with after a failure; NULL: none */
	uint64_t started_usec;       /* the run that is under way */
	uint64_t heard_usec;         /* the last line, or the start */
	uint64_t observed_usec;      /* the directory, or when it was confirmed */
	uint64_t due_usec;           /* the next run */
	unsigned good;               /* answers in turn since the last failure */
	bool has_more;               /* lines that are read and not taken */
	bool has_failed;
	unsigned failures; /* in turn */
	uint64_t random;
};

/* ---- what is told ---- */

static int fail_absent(const struct running *r, const char *name, struct usher_error *reterr)
{
	return usher_error_set(reterr, -ENOENT,
			"%s: does not name the service %s; if it is to be empty, print \"%s\": [] "
			"under \"services\"",
			exec_name(r->exec), name, name);
}

static bool is_doubted(const struct running *r, const char *name, const struct usher_endpoints *set)
{
	const struct usher_endpoints *before = r->trusted ? directory_find(r->trusted, name) : NULL;

	return r->has_failed && r->good < TRUSTED_AFTER && before && directory_lacks(set, before);
}

/* Tell of every wanted service what the directory says. */
static void tell(struct running *r, bool only_confirm)
{
	size_t count;
	const struct usher_wanted *wanted = usher_source_wanted(r->source, &count);

	for (size_t i = 0; r->directory && i < count; i++) {
		struct usher_endpoints *set = directory_find(r->directory, wanted[i].name);
		struct usher_error why = { 0 };

		if (!set)
			usher_source_fail(r->source, wanted[i].service,
					fail_absent(r, wanted[i].name, &why), &why);
		else if (only_confirm && !is_doubted(r, wanted[i].name, set))
			usher_source_confirm(r->source, wanted[i].service, r->observed_usec);
		else
			(void) usher_source_offer(r->source, wanted[i].service,
					usher_endpoints_ref(set),
					is_doubted(r, wanted[i].name, set) ? USHER_SUSPECT
									   : USHER_FRESH,
					NULL, r->observed_usec);
	}
}

static void tell_known(const struct running *r)
{
	const char **names = calloc(r->directory->count + 1, sizeof(*names));

	if (!names)
		return; /* for people only */
	for (size_t i = 0; i < r->directory->count; i++)
		names[i] = r->directory->all[i].name;
	usher_source_known(r->source, names, r->directory->count);
	free(names);
}

static void fail(struct running *r, int code, const struct usher_error *why)
{
	usher_source_fail(r->source, NULL, code, why);
	if (!r->trusted || r->good >= TRUSTED_AFTER) {
		/* From here on what comes is compared with what there was. */
		(void) directory_free(r->trusted);
		r->trusted = take(r->directory);
	} else {
		r->directory = directory_free(r->directory);
	}
	r->has_failed = true;
	r->has_more = false;
	r->good = 0;
	r->program = program_free(r->program);
	r->due_usec = retry_now_usec() + retry_delay_usec(&r->random, ++r->failures);
}

static void put_directory(struct running *r, struct directory *d, uint64_t observed_usec)
{
	(void) directory_free(r->directory);
	r->directory = d;
	r->observed_usec = observed_usec;
	r->good++;
	r->failures = 0;
	tell_known(r);
	tell(r, false);
	if (r->good >= TRUSTED_AFTER)
		r->trusted = directory_free(r->trusted);
}

/* Nothing has changed since the last answer. */
static int take_confirmation(struct running *r, uint64_t observed_usec, struct usher_error *reterr)
{
	if (!r->directory)
		return usher_error_set(reterr, -EBADMSG,
				"%s: says that nothing has changed, and has said nothing before; the "
				"first word of a run is the directory",
				exec_name(r->exec));
	r->observed_usec = observed_usec;
	r->failures = 0;
	r->good++;
	tell(r, true);
	return 0;
}

/* 0, or why it is no answer. */
static int take_text(struct running *r, const char *text, size_t size, uint64_t observed_usec,
		struct usher_error *reterr)
{
	struct directory *d = NULL;
	int result = directory_parse(exec_name(r->exec), text, size, &d, reterr);

	if (result < 0)
		return result;
	if (result > 0)
		return take_confirmation(r, observed_usec, reterr);
	put_directory(r, d, observed_usec);
	return 0;
}

/* ---- a run ---- */

static void start(struct running *r, uint64_t now)
{
	struct usher_error why = { 0 };
	int result = program_start(r->exec, NULL, NULL, &r->program, &why);

	r->started_usec = r->heard_usec = now;
	if (result < 0)
		fail(r, result, &why);
}

static bool is_blank(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
			return false;
	return true;
}

static int check_line(const struct running *r, size_t size, struct usher_error *reterr)
{
	if (size <= r->exec->output_max)
		return 0;
	return program_error(r->program, reterr, -EMSGSIZE,
			"a line has more than the %llu bytes that it may (output_max)",
			(unsigned long long) r->exec->output_max);
}

/* Empty lines are a sign of life, and any number of them is one: nothing has changed. */
static int take_lines(struct running *r, uint64_t now, struct usher_error *reterr)
{
	bool is_confirmed = false;
	unsigned count = 0;
	const char *line;
	size_t size;
	int result = 0;

	r->has_more = false;
	while (result == 0 && !r->has_more && program_next_line(r->program, &line, &size)) {
		r->heard_usec = now;
		result = check_line(r, size, reterr);
		if (result == 0 && !is_blank(line, size))
			result = take_text(r, line, size, now, reterr);
		else if (result == 0 && r->directory)
			is_confirmed = true;
		else if (result == 0)
			result = take_confirmation(r, now, reterr);
		r->has_more = ++count == LINES_AT_ONCE;
	}
	(void) program_output(r->program, &size);
	if (result == 0 && !r->has_more)
		result = check_line(r, size, reterr);
	if (result == 0 && is_confirmed)
		result = take_confirmation(r, now, reterr);
	return result;
}

/* It has ended by itself. */
static int take_end(struct running *r, uint64_t now, struct usher_error *reterr)
{
	const char *text;
	size_t size;
	int result = program_judge(r->program, reterr);

	if (result < 0)
		return result;
	if (r->exec->mode == EXEC_STREAM)
		return program_error(r->program, reterr, -EPIPE,
				"has ended, though it is to run on (mode: stream)");
	text = program_output(r->program, &size);
	if (size > 0 && text[size - 1] != '\n')
		return program_error(r->program, reterr, -EBADMSG,
				"what it prints does not end with a line end, so it may be cut off");
	result = take_text(r, text, size, r->started_usec, reterr);
	if (result < 0)
		return result;
	r->program = program_free(r->program);
	r->due_usec = now + r->exec->interval_usec;
	return 0;
}

/* When it is taken for hung, and after how long. */
static uint64_t deadline_of(const struct running *r, uint64_t *ret_usec)
{
	if (r->exec->mode == EXEC_INTERVAL) {
		*ret_usec = r->exec->timeout_usec;
		return r->started_usec + r->exec->timeout_usec;
	}
	*ret_usec = r->exec->silence_usec;
	return r->heard_usec + r->exec->silence_usec;
}

static int check_time(const struct running *r, uint64_t now, struct usher_error *reterr)
{
	char text[USHER_DURATION_TEXT_MAX];
	uint64_t limit_usec;

	if (now < deadline_of(r, &limit_usec))
		return 0;
	(void) usher_duration_format(limit_usec, text);
	if (r->exec->mode == EXEC_STREAM)
		return program_error(r->program, reterr, -ETIMEDOUT,
				"has said nothing for %s (silence); an empty line is enough", text);
	return program_error(r->program, reterr, -ETIMEDOUT,
			"has not ended within its timeout of %s", text);
}

static void process(struct running *r)
{
	struct usher_error why = { 0 };
	uint64_t now = retry_now_usec();
	/* What it prints meanwhile waits in its pipe. */
	int ended = r->has_more ? 0 : program_process(r->program, &why);
	int result = ended < 0 ? ended : 0;

	if (result == 0 && r->exec->mode == EXEC_STREAM)
		result = take_lines(r, now, &why);
	if (result == 0 && ended > 0 && !r->has_more)
		result = take_end(r, now, &why);
	if (result == 0 && r->program)
		result = check_time(r, now, &why);
	if (result < 0)
		fail(r, result, &why);
}

static int run_on(struct running *r)
{
	for (;;) {
		struct usher_wait wait = { .size = sizeof(wait) };
		uint64_t now = retry_now_usec(), until, limit_usec;
		int woken_by;

		if (!r->program && now >= r->due_usec)
			start(r, now);
		until = r->program ? deadline_of(r, &limit_usec) : r->due_usec;
		if (r->program) {
			wait.fd = program_fd(r->program);
			wait.events = POLLIN;
		}
		wait.timeout_usec = until > now && !r->has_more ? until - now : 1;
		woken_by = usher_source_wait(r->source, &wait);
		if (woken_by <= 0)
			return woken_by;
		if (woken_by & USHER_WAIT_WANTED)
			tell(r, false);
		if (r->program)
			process(r);
	}
}

static int exec_run(void *instance, struct usher_source *source)
{
	struct running r = { .exec = instance, .source = source, .random = retry_seed() };
	int result = run_on(&r);

	/* Only here is the order to stop heard: a verb that runs in the other thread ends, too. */
	if (result == 0 && r.exec->stop_fd > 0)
		(void) eventfd_write(r.exec->stop_fd, 1);
	(void) program_free(r.program);
	(void) directory_free(r.directory);
	(void) directory_free(r.trusted);
	return result;
}

/* ---- the plug-in ---- */

static int check_range(const char *name, uint64_t usec, uint64_t min_msec, uint64_t max_sec,
		struct usher_error *reterr)
{
	char least[USHER_DURATION_TEXT_MAX], most[USHER_DURATION_TEXT_MAX],
			text[USHER_DURATION_TEXT_MAX];

	if (usec >= min_msec * USEC_PER_MSEC && usec <= max_sec * USEC_PER_SEC)
		return 0;
	return usher_error_set(reterr, -ERANGE, "%s: %s is not in %s..%s", name,
			usher_duration_format(usec, text),
			usher_duration_format(min_msec * USEC_PER_MSEC, least),
			usher_duration_format(max_sec * USEC_PER_SEC, most));
}

static int check_command(const struct exec *e, struct usher_error *reterr)
{
	if (!e->command[0] || !e->command[0][0])
		return usher_error_set(reterr, -EINVAL,
				"command: is empty; write the program and its arguments as a list");
	if (e->shell && e->command[1])
		return usher_error_set(reterr, -EINVAL,
				"command: is one text for the shell, and no list, where `shell` is true");
	if (!e->shell && e->command[0][0] != '/')
		return usher_error_set(reterr, -EINVAL,
				"command: %s is no absolute path; write where the program is, or set "
				"`shell: true`",
				e->command[0]);
	for (size_t i = 0; e->environment && e->environment[i]; i++)
		if (!strchr(e->environment[i], '=') || e->environment[i][0] == '=')
			return usher_error_set(
					reterr, -EINVAL, "environment[%zu]: is not NAME=VALUE", i);
	return 0;
}

static int exec_init(void *instance, struct usher_error *reterr)
{
	struct exec *e = instance;
	int r = check_command(e, reterr);

	if (r == 0)
		r = check_range("interval", e->interval_usec, 100, 86400, reterr);
	if (r == 0)
		r = check_range("timeout", e->timeout_usec, 100, 50, reterr);
	if (r == 0)
		r = check_range("silence", e->silence_usec, 100, 86400, reterr);
	if (r == 0 && e->renew_usec != 0)
		r = check_range("renew", e->renew_usec, 100, 86400, reterr);
	if (r == 0 && (e->output_max < 1024 || e->output_max > USHER_DOCUMENT_SIZE_MAX))
		r = usher_error_set(reterr, -ERANGE, "output_max: is not in 1k..64M");
	if (r == 0 && e->registers)
		e->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (e->stop_fd < 0) {
		e->stop_fd = 0;
		return usher_error_set(reterr, -errno, "no descriptor is left");
	}
	return r;
}

static void exec_done(void *instance)
{
	const struct exec *e = instance;

	if (e->stop_fd > 0)
		(void) close(e->stop_fd);
}

static const char *const modes[] = {
	[EXEC_INTERVAL] = "interval",
	[EXEC_STREAM] = "stream",
	NULL,
};

#define OPTION(n, t, field, ...)                                                              \
	{                                                                                     \
		.name = (n), .type = (t), .offset = offsetof(struct exec, field), __VA_ARGS__ \
	}

static const struct usher_option exec_options[] = {
	OPTION("command", USHER_OPTION_STRINGS, command, .flags = USHER_REQUIRED,
			.help = "The program, by its absolute path, and its arguments."),
	OPTION("shell", USHER_OPTION_BOOL, shell, .default_text = "false",
			.help = "The command is one text for /bin/sh."),
	OPTION("environment", USHER_OPTION_STRINGS, environment, .flags = USHER_SECRET,
			.help = "NAME=VALUE of each variable that it gets besides PATH and LANG; it "
				"inherits none."),
	OPTION("folder", USHER_OPTION_PATH, folder, .default_text = "/", .help = "Where it runs."),
	OPTION("mode", USHER_OPTION_CHOICE, mode, .default_text = "interval", .choices = modes,
			.help = "interval: it prints the directory and ends, and is run again; stream: "
				"it runs on and prints the directory as one line after each change."),
	OPTION("interval", USHER_OPTION_DURATION, interval_usec, .default_text = "10s",
			.help = "How long after its end it is run again, 100ms to 1d. Keep it below the "
				"services' max_age."),
	OPTION("timeout", USHER_OPTION_DURATION, timeout_usec, .default_text = "10s",
			.help = "How long a run may take, and a registration, 100ms to 50s."),
	OPTION("silence", USHER_OPTION_DURATION, silence_usec, .default_text = "30s",
			.help = "For how long a stream may say nothing, not even an empty line, 100ms "
				"to 1d; then it is started again."),
	OPTION("output_max", USHER_OPTION_SIZE, output_max, .default_text = "16M",
			.help = "How much a run may print, or a line of a stream have, 1k to 64M."),
	OPTION("registers", USHER_OPTION_BOOL, registers, .default_text = "false",
			.help = "It registers, too: it knows the verbs add, renew, set-state and "
				"remove."),
	OPTION("renew", USHER_OPTION_DURATION, renew_usec, .default_text = "0",
			.help = "How often what it has registered is to be renewed, at least 100ms; 0: "
				"never."),
	{ 0 },
};

static const struct usher_discovery exec_discovery = {
	.size = sizeof(exec_discovery),
	.run = exec_run,
};

static const struct usher_registration exec_registration = {
	.size = sizeof(exec_registration),
	.add = registration_add,
	.renew = registration_renew,
	.set_state = registration_set_state,
	.remove = registration_remove,
	.renew_after_usec = registration_renew_after_usec,
};

USHER_PLUGIN(.name = "exec", .summary = "Endpoints from a program, and registration by it",
		.instance_size = sizeof(struct exec), .options = exec_options, .init = exec_init,
		.done = exec_done, .discovery = &exec_discovery,
		.registration = &exec_registration);
