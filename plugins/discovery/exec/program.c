#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "own.h"

#define READ_SIZE    65536
#define READS_MAX    32  /* in one call of program_process, so that nobody keeps us busy for ever */
#define WORDS_MAX    256 /* bytes of the last words that are kept */
#define END_MSEC     500 /* to end by itself, and then to go when killed */
#define SHELL        "/bin/sh"
#define DEFAULT_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define DEFAULT_LANG "LANG=C.UTF-8"

enum stream {
	STREAM_OUTPUT,
	STREAM_ERROR,
	STREAM_EXIT, /* its pidfd */
	STREAMS
};

struct program {
	const struct exec *exec;
	pid_t pid;         /* 0: it is gone */
	bool prints_lines; /* that are taken one by one; otherwise it prints one text */
	int epoll_fd;
	int fds[STREAMS]; /* -1: at its end */
	siginfo_t end;
	char *bytes;
	size_t size, space;
	size_t taken, looked; /* of bytes: lines handed out; up to where no line end is */
	char words[WORDS_MAX];
	size_t word_count;
	bool is_new_line; /* what comes next on its standard error begins a line */
};

/* ---- what it is started with ---- */

static size_t count_texts(const char *const *texts)
{
	size_t count = 0;

	while (texts && texts[count])
		count++;
	return count;
}

/* posix_spawn() leaves them as they are, though its type does not say so. */
static char *as_argument(const char *text)
{
	char *argument;

	memcpy(&argument, &text, sizeof(argument));
	return argument;
}

/* The texts are borrowed. */
static char **make_arguments(const struct exec *e, const char *const *words)
{
	size_t count = 0, own = count_texts(e->command), more = count_texts(words);
	char **arguments = calloc(own + more + 4, sizeof(*arguments));

	if (!arguments)
		return NULL;
	if (e->shell) {
		arguments[count++] = as_argument(SHELL);
		arguments[count++] = as_argument("-c");
	}
	for (size_t i = 0; i < own; i++)
		arguments[count++] = as_argument(e->command[i]);
	if (e->shell)
		arguments[count++] = as_argument(SHELL); /* $0; the words are $1... */
	for (size_t i = 0; i < more; i++)
		arguments[count++] = as_argument(words[i]);
	return arguments;
}

/* The first of a name counts for most programs, so those of the configuration stand in front. */
static char **make_environment(const struct exec *e)
{
	size_t count = count_texts(e->environment);
	char **environment = calloc(count + 3, sizeof(*environment));

	if (!environment)
		return NULL;
	for (size_t i = 0; i < count; i++)
		environment[i] = as_argument(e->environment[i]);
	environment[count++] = as_argument(DEFAULT_PATH);
	environment[count] = as_argument(DEFAULT_LANG);
	return environment;
}

/* A file in memory: no pipe that fills up, or breaks when the program does not read it. */
static int make_input(const char *text)
{
	size_t size = text ? strlen(text) : 0, written = 0;
	int fd = text ? memfd_create("usher-exec", MFD_CLOEXEC)
		      : open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	while (written < size) {
		ssize_t n = write(fd, text + written, size - written);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int r = -errno;

			(void) close(fd);
			return r;
		}
		written += (size_t) n;
	}
	(void) lseek(fd, 0, SEEK_SET);
	return fd;
}

static void set_attributes(posix_spawnattr_t *attributes)
{
	sigset_t none, all;

	(void) sigemptyset(&none);
	(void) sigfillset(&all);
	(void) posix_spawnattr_setpgroup(attributes, 0);
	(void) posix_spawnattr_setsigmask(attributes, &none);
	(void) posix_spawnattr_setsigdefault(attributes, &all);
	(void) posix_spawnattr_setflags(attributes,
			POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

static int set_actions(posix_spawn_file_actions_t *actions, const char *folder, const int fds[3])
{
	int fault = 0;

	for (int i = 0; i < 3 && fault == 0; i++)
		fault = posix_spawn_file_actions_adddup2(actions, fds[i], i);
	if (fault == 0)
		fault = posix_spawn_file_actions_addclosefrom_np(actions, 3);
	if (fault == 0)
		fault = posix_spawn_file_actions_addchdir_np(actions, folder);
	return fault;
}

/* Returns an errno, not negated, as posix_spawn does. */
static int spawn(const struct exec *e, const char *const *words, const int fds[3], pid_t *ret)
{
	autofree char **arguments = make_arguments(e, words), **environment = make_environment(e);
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int fault;

	if (!arguments || !environment || posix_spawn_file_actions_init(&actions) != 0)
		return ENOMEM;
	if (posix_spawnattr_init(&attributes) != 0) {
		(void) posix_spawn_file_actions_destroy(&actions);
		return ENOMEM;
	}
	set_attributes(&attributes);
	fault = set_actions(&actions, e->folder, fds);
	if (fault == 0)
		fault = posix_spawn(
				ret, exec_name(e), &actions, &attributes, arguments, environment);
	(void) posix_spawnattr_destroy(&attributes);
	(void) posix_spawn_file_actions_destroy(&actions);
	return fault;
}

/* ---- its start ---- */

static int watch(struct program *p, enum stream stream)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = stream };

	if (fcntl(p->fds[stream], F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	return epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, p->fds[stream], &event) < 0 ? -errno : 0;
}

static int start(struct program *p, const char *const *words, const char *input)
{
	int output[2] = { -1, -1 }, error[2] = { -1, -1 }, fds[3], fault;
	int r = make_input(input);

	if (r < 0)
		return r;
	fds[0] = r;
	r = pipe2(output, O_CLOEXEC) < 0 || pipe2(error, O_CLOEXEC) < 0 ? -errno : 0;
	p->fds[STREAM_OUTPUT] = output[0];
	p->fds[STREAM_ERROR] = error[0];
	if (r == 0) {
		fds[1] = output[1];
		fds[2] = error[1];
		fault = spawn(p->exec, words, fds, &p->pid);
		if (fault != 0)
			p->pid = 0;
		r = -fault;
	}
	(void) close(fds[0]);
	own_close(&output[1]);
	own_close(&error[1]);
	if (r < 0)
		return r;
	p->fds[STREAM_EXIT] = pidfd_open(p->pid, 0);
	if (p->fds[STREAM_EXIT] < 0)
		return -errno;
	for (unsigned i = 0; i < STREAMS && r == 0; i++)
		r = watch(p, (enum stream) i);
	return r;
}

/* Why nothing can be started in this folder; 0: it can. */
static int check_folder(const char *folder)
{
	struct stat s;

	if (stat(folder, &s) < 0)
		return -errno;
	if (!S_ISDIR(s.st_mode))
		return -ENOTDIR;
	return faccessat(AT_FDCWD, folder, X_OK, AT_EACCESS) < 0 ? -errno : 0;
}

/* The same errno may be meant of the program and of the folder. */
static int refuse_start(const struct exec *e, int code, struct usher_error *reterr)
{
	int fault = check_folder(e->folder);
	char folder[300] = "";

	if (fault < 0)
		(void) snprintf(folder, sizeof(folder), " in its folder %.250s", e->folder);
	return usher_error_set(reterr, code, "%s: cannot be started%s: %s", exec_name(e), folder,
			usher_error_text(NULL, fault < 0 ? fault : code));
}

int program_start(const struct exec *e, const char *const *words, const char *input,
		struct program **ret, struct usher_error *reterr)
{
	struct program *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	p->exec = e;
	p->prints_lines = !words && e->mode == EXEC_STREAM;
	for (size_t i = 0; i < STREAMS; i++)
		p->fds[i] = -1;
	p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	r = p->epoll_fd < 0 ? -errno : start(p, words, input);
	if (r < 0) {
		(void) program_free(p);
		return refuse_start(e, r, reterr);
	}
	*ret = p;
	return 0;
}

/* ---- its output ---- */

static void close_stream(struct program *p, enum stream stream)
{
	if (p->fds[stream] >= 0)
		(void) close(p->fds[stream]);
	p->fds[stream] = -1;
}

static void drop_taken(struct program *p)
{
	if (p->taken == 0)
		return;
	memmove(p->bytes, p->bytes + p->taken, p->size - p->taken);
	p->size -= p->taken;
	p->looked -= p->taken;
	p->taken = 0;
}

static int keep_output(struct program *p, const char *bytes, size_t size)
{
	drop_taken(p);
	if (p->size + size + 1 > p->space) {
		size_t space = (p->size + size + 1) * 2;
		char *grown = realloc(p->bytes, space);

		if (!grown)
			return -ENOMEM;
		p->bytes = grown;
		p->space = space;
	}
	memcpy(p->bytes + p->size, bytes, size);
	p->size += size;
	p->bytes[p->size] = '\0';
	return 0;
}

/* The last line that says something, as far as there is room for it. */
static void keep_words(struct program *p, const char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char) bytes[i];

		if (c == '\n') {
			p->is_new_line = true;
			continue;
		}
		if (p->is_new_line)
			p->word_count = 0;
		p->is_new_line = false;
		if (p->word_count < sizeof(p->words) - 1)
			p->words[p->word_count++] = c >= ' ' && c < 127 ? (char) c : '?';
		p->words[p->word_count] = '\0';
	}
}

/* 1: there may be more; 0: not now. */
static int read_stream(struct program *p, enum stream stream)
{
	char bytes[READ_SIZE];
	ssize_t size = read(p->fds[stream], bytes, sizeof(bytes));

	if (size < 0 && (errno == EINTR || errno == EAGAIN))
		return errno == EINTR;
	if (size <= 0) {
		close_stream(p, stream);
		return 0;
	}
	if (stream == STREAM_ERROR) {
		keep_words(p, bytes, (size_t) size);
		return 1;
	}
	return keep_output(p, bytes, (size_t) size) < 0 ? -ENOMEM : 1;
}

/* 0: all that there is now; 1: there may be more. */
static int read_all(struct program *p, enum stream stream)
{
	for (int i = 0; i < READS_MAX && p->fds[stream] >= 0; i++) {
		int r = read_stream(p, stream);

		if (r <= 0)
			return r;
		if (p->size - p->taken > p->exec->output_max)
			return 1;
	}
	return p->fds[stream] >= 0;
}

/* Its group goes with it, before its id may be another's. */
static void reap(struct program *p)
{
	if (waitid(P_PIDFD, (id_t) p->fds[STREAM_EXIT], &p->end, WEXITED | WNOHANG | WNOWAIT) < 0 ||
			p->end.si_pid == 0)
		return;
	(void) kill(-p->pid, SIGKILL);
	(void) waitid(P_PIDFD, (id_t) p->fds[STREAM_EXIT], &p->end, WEXITED | WNOHANG);
	p->pid = 0;
	close_stream(p, STREAM_EXIT);
}

int program_process(struct program *p, struct usher_error *reterr)
{
	bool has_ended;
	int r;

	if (p->pid != 0)
		reap(p);
	has_ended = p->pid == 0; /* what it printed is there by now */
	r = read_all(p, STREAM_OUTPUT);
	(void) read_all(p, STREAM_ERROR);
	if (r < 0)
		return usher_error_set(reterr, r, "out of memory");
	/* Of lines each has that much. */
	if (!p->prints_lines && p->size > p->exec->output_max)
		return program_error(p, reterr, -EMSGSIZE,
				"prints more than the %llu bytes that it may (output_max)",
				(unsigned long long) p->exec->output_max);
	return has_ended && r == 0;
}

const char *program_output(const struct program *p, size_t *ret_size)
{
	*ret_size = p->size - p->taken;
	return p->bytes ? p->bytes + p->taken : "";
}

bool program_next_line(struct program *p, const char **ret, size_t *ret_size)
{
	const char *end = p->size > p->looked
			? memchr(p->bytes + p->looked, '\n', p->size - p->looked)
			: NULL;

	if (!end) {
		p->looked = p->size;
		return false;
	}
	*ret = p->bytes + p->taken;
	*ret_size = (size_t) (end - *ret);
	p->taken = p->looked = (size_t) (end - p->bytes) + 1;
	return true;
}

int program_fd(const struct program *p)
{
	return p->epoll_fd;
}

/* ---- its end ---- */

int program_error(const struct program *p, struct usher_error *reterr, int code, const char *format,
		...)
{
	char text[256];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (p->word_count == 0)
		return usher_error_set(reterr, code, "%s: %s", exec_name(p->exec), text);
	return usher_error_set(reterr, code, "%s: %s; its last words: %s", exec_name(p->exec), text,
			p->words);
}

int program_judge(const struct program *p, struct usher_error *reterr)
{
	int status = p->end.si_status;
	const char *name;

	if (p->end.si_code != CLD_EXITED) {
		name = sigabbrev_np(status);
		return program_error(p, reterr, -EIO, "was ended by SIG%s", name ? name : "?");
	}
	switch (status) {
	case 0:
		return 0;
	case EX_USAGE:
		return program_error(p, reterr, -EROFS,
				"does not know what was asked of it (exit status %d)", status);
	case EX_NOINPUT:
		return program_error(
				p, reterr, -ENOENT, "knows none such (exit status %d)", status);
	case EX_TEMPFAIL:
		return program_error(
				p, reterr, -EAGAIN, "cannot say for now (exit status %d)", status);
	case EX_NOPERM:
		return program_error(
				p, reterr, -EACCES, "was denied access (exit status %d)", status);
	default:
		return program_error(p, reterr, -EIO, "failed with exit status %d", status);
	}
}

static void wait_a_moment(struct program *p)
{
	struct pollfd fd = { .fd = p->fds[STREAM_EXIT], .events = POLLIN };

	if (p->pid != 0 && fd.fd >= 0)
		(void) poll(&fd, 1, END_MSEC);
	if (p->pid != 0 && fd.fd >= 0)
		reap(p);
}

struct program *program_free(struct program *p)
{
	if (!p)
		return NULL;
	if (p->pid != 0) {
		(void) kill(-p->pid, SIGTERM);
		wait_a_moment(p);
	}
	if (p->pid != 0) {
		(void) kill(-p->pid, SIGKILL);
		wait_a_moment(p);
	}
	for (unsigned i = 0; i < STREAMS; i++)
		close_stream(p, (enum stream) i);
	if (p->epoll_fd >= 0)
		(void) close(p->epoll_fd);
	free(p->bytes);
	free(p);
	return NULL;
}
