/* What systemd is told, and what becomes of it when nobody reads. */

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "notify.h"
#include "test.h"

struct listener {
	char folder[64];
	char path[96];
	int fd;
	char text[1024];
};

static int setup(void **state)
{
	struct listener *l = calloc(1, sizeof(*l));
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	assert_non_null(l);
	(void) snprintf(l->folder, sizeof(l->folder), "/tmp/usher-test-notify-XXXXXX");
	assert_non_null(mkdtemp(l->folder));
	(void) snprintf(l->path, sizeof(l->path), "%s/notify", l->folder);
	(void) snprintf(address.sun_path, sizeof(address.sun_path), "%s", l->path);
	l->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(l->fd >= 0);
	assert_int_equal(bind(l->fd, (struct sockaddr *) &address, sizeof(address)), 0);
	assert_int_equal(setenv("NOTIFY_SOCKET", l->path, 1), 0);
	*state = l;
	return 0;
}

static int teardown(void **state)
{
	struct listener *l = *state;

	assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
	(void) close(l->fd);
	(void) unlink(l->path);
	(void) rmdir(l->folder);
	free(l);
	return 0;
}

/* The next message, or NULL. */
static const char *heard(struct listener *l)
{
	ssize_t n = recv(l->fd, l->text, sizeof(l->text) - 1, 0);

	if (n < 0)
		return NULL;
	l->text[n] = '\0';
	return l->text;
}

/* What one other sends until it is stopped; returns how much. */
static unsigned send_some(const struct listener *l)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	unsigned count = 0;

	(void) snprintf(address.sun_path, sizeof(address.sun_path), "%s", l->path);
	while (sendto(fd, "X=1", 3, 0, (struct sockaddr *) &address, sizeof(address)) == 3)
		count++;
	assert_int_equal(errno, EAGAIN);
	(void) close(fd);
	return count;
}

/* Messages of others, until there is room for none. */
static void fill(const struct listener *l)
{
	while (send_some(l) > 0)
		;
}

static void empty(struct listener *l)
{
	while (heard(l))
		;
}

static void each_message_is_told_at_once(void **state)
{
	struct listener *l = *state;
	cleanup(notify_freep) struct notify *n = notify_new();

	notify_extend_timeout(n, 10);
	assert_string_equal(heard(l), "EXTEND_TIMEOUT_USEC=10");
	notify_ready(n, "all is well");
	assert_string_equal(heard(l), "READY=1\nSTATUS=all is well");
	notify_reloading(n);
	assert_non_null(strstr(heard(l), "RELOADING=1\nMONOTONIC_USEC="));
	notify_stopping(n, "bye");
	assert_string_equal(heard(l), "STOPPING=1\nSTATUS=bye");
	assert_null(heard(l));
}

static void who_does_not_read_holds_nothing_up_and_hears_the_rest_in_order(void **state)
{
	struct listener *l = *state;
	cleanup(notify_freep) struct notify *n = notify_new();

	fill(l);
	notify_reloading(n);
	notify_ready(n, "one");
	notify_status(n, "two");
	notify_status(n, "three");
	empty(l);
	notify_again(n);
	assert_non_null(strstr(heard(l), "RELOADING=1"));
	assert_string_equal(heard(l), "READY=1\nSTATUS=one");
	assert_string_equal(heard(l), "STATUS=three");
	assert_null(heard(l));
}

static void the_last_of_too_many_are_kept(void **state)
{
	struct listener *l = *state;
	cleanup(notify_freep) struct notify *n = notify_new();
	unsigned count = 1;

	fill(l);
	for (int i = 0; i < 100; i++) {
		notify_reloading(n);
		notify_ready(n, i < 99 ? "then" : "now");
	}
	empty(l);
	notify_again(n);
	assert_non_null(heard(l));
	while (heard(l))
		count++;
	assert_int_equal(count, NOTIFY_UNSENT_MAX);
	assert_string_equal(l->text, "READY=1\nSTATUS=now");
}

static void the_end_is_told_by_who_goes(void **state)
{
	struct listener *l = *state;
	struct notify *n = notify_new();

	fill(l);
	notify_stopping(n, "bye");
	empty(l);
	(void) notify_free(n);
	assert_string_equal(heard(l), "STOPPING=1\nSTATUS=bye");
}

static void without_a_listener_nothing_happens(void **state)
{
	struct listener *l = *state;
	cleanup(notify_freep) struct notify *gone = NULL;

	assert_int_equal(unlink(l->path), 0);
	gone = notify_new();
	notify_ready(gone, "nobody hears this");
	assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
	assert_null(notify_new());
	notify_ready(NULL, "nor this");
	notify_again(NULL);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(each_message_is_told_at_once),
		T(who_does_not_read_holds_nothing_up_and_hears_the_rest_in_order),
		T(the_last_of_too_many_are_kept),
		T(the_end_is_told_by_who_goes),
		T(without_a_listener_nothing_happens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
