#include "notify.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "clock.h"

struct notify {
	int fd;
	struct sockaddr_un to;
	socklen_t to_size;
	char *unsent[NOTIFY_UNSENT_MAX]; /* from the oldest on */
	size_t count;
};

/* A path, or a name that begins with @. */
static bool set_address(struct notify *n, const char *name)
{
	size_t length = name ? strlen(name) : 0;

	if (length < 2 || length >= sizeof(n->to.sun_path) || (name[0] != '/' && name[0] != '@'))
		return false;
	n->to.sun_family = AF_UNIX;
	memcpy(n->to.sun_path, name, length);
	if (name[0] == '@')
		n->to.sun_path[0] = '\0';
	n->to_size = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + length +
			(name[0] == '/'));
	return true;
}

struct notify *notify_new(void)
{
	struct notify *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets the environment */
	n->fd = set_address(n, getenv("NOTIFY_SOCKET"))
			? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)
			: -1;
	if (n->fd < 0) {
		free(n);
		return NULL;
	}
	return n;
}

struct notify *notify_free(struct notify *n)
{
	if (!n)
		return NULL;
	notify_again(n);
	for (size_t i = 0; i < n->count; i++)
		free(n->unsent[i]);
	closep(&n->fd);
	free(n);
	return NULL;
}

static void drop(struct notify *n, size_t which)
{
	assert(which < n->count);
	free(n->unsent[which]);
	n->count--;
	memmove(n->unsent + which, n->unsent + which + 1,
			(n->count - which) * sizeof(n->unsent[0]));
}

void notify_again(struct notify *n)
{
	while (n && n->count > 0) {
		const char *text = n->unsent[0];

		if (sendto(n->fd, text, strlen(text), MSG_NOSIGNAL,
				    (const struct sockaddr *) &n->to, n->to_size) < 0 &&
				(errno == EAGAIN || errno == ENOBUFS || errno == EINTR))
			return;
		drop(n, 0); /* sent, or nobody is there */
	}
}

static bool same_kind(const char *a, const char *b)
{
	size_t length = strcspn(a, "=");

	return strncmp(a, b, length + 1) == 0;
}

__attribute__((format(printf, 2, 3))) static void tell(struct notify *n, const char *format, ...)
{
	char *text;
	va_list ap;
	int r;

	if (!n)
		return;
	va_start(ap, format);
	r = vasprintf(&text, format, ap);
	va_end(ap);
	if (r < 0)
		return;
	if (n->count > 0 && same_kind(text, n->unsent[n->count - 1]))
		drop(n, n->count - 1);
	if (n->count == NOTIFY_UNSENT_MAX)
		drop(n, 0);
	n->unsent[n->count++] = text;
	notify_again(n);
}

void notify_ready(struct notify *n, const char *status)
{
	tell(n, "READY=1\nSTATUS=%s", status);
}

void notify_status(struct notify *n, const char *status)
{
	tell(n, "STATUS=%s", status);
}

void notify_reloading(struct notify *n)
{
	tell(n, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\nSTATUS=Reading the configuration again",
			clock_monotonic_usec());
}

void notify_stopping(struct notify *n, const char *status)
{
	tell(n, "STOPPING=1\nSTATUS=%s", status);
}

void notify_extend_timeout(struct notify *n, uint64_t usec)
{
	tell(n, "EXTEND_TIMEOUT_USEC=%" PRIu64, usec);
}
