/* A follower and a client against a daemon of this process: for what the sanitizers see, which the
 * end-to-end tests of the shared library do not. */

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <usher/client.h>

#include "test.h"

#define CONNECTIONS_MAX 16
#define SECOND          UINT64_C(1000000)

#define FRESH \
	"\"freshness\": {\"state\": \"live\", \"age_ms\": 10, \"max_age_ms\": 30000, \"source\": \"files\"}"
#define ENDPOINT(id) \
	"{\"id\": \"" id "\", \"address\": \"" id ".example\", \"port\": 80, \"weight\": 1}"

/* Answers every watch with its lines and leaves it open, every other GET with {}, the rest with
 * 204.
 */
struct daemon {
	char path[108];
	const char *lines;
	int listener;
	int stop[2];
	pthread_t thread;
};

static void answer(int fd, const struct daemon *daemon, const char *request)
{
	char text[4096];

	if (strstr(request, "watch=true"))
		(void) snprintf(text, sizeof(text),
				"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%zx\r\n%s\r\n",
				strlen(daemon->lines), daemon->lines);
	else if (strncmp(request, "GET", 3) == 0)
		(void) snprintf(text, sizeof(text),
				"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
	else
		(void) snprintf(text, sizeof(text), "HTTP/1.1 204 No Content\r\n\r\n");
	(void) send(fd, text, strlen(text), MSG_NOSIGNAL);
}

static void *daemon_run(void *userdata)
{
	struct daemon *daemon = userdata;
	struct pollfd fds[CONNECTIONS_MAX] = { { .fd = daemon->stop[0], .events = POLLIN },
		{ .fd = daemon->listener, .events = POLLIN } };
	nfds_t count = 2;
	char request[8192];

	while (poll(fds, count, -1) > 0 && !fds[0].revents) {
		for (nfds_t i = 2; i < count; i++) {
			ssize_t length;

			if (!fds[i].revents)
				continue;
			length = recv(fds[i].fd, request, sizeof(request) - 1, 0);
			if (length <= 0) {
				(void) close(fds[i].fd);
				fds[i] = fds[--count];
				break;
			}
			request[length] = 0;
			answer(fds[i].fd, daemon, request);
		}
		if (fds[1].revents && count < CONNECTIONS_MAX)
			fds[count++] = (struct pollfd){ .fd = accept(daemon->listener, NULL, NULL),
				.events = POLLIN };
	}
	for (nfds_t i = 2; i < count; i++)
		(void) close(fds[i].fd);
	return NULL;
}

static void daemon_start(struct daemon *daemon, const char *lines)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	daemon->lines = lines;
	(void) unlink(daemon->path);
	(void) snprintf(address.sun_path, sizeof(address.sun_path), "%s", daemon->path);
	daemon->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(daemon->listener, (struct sockaddr *) &address, sizeof(address)), 0);
	assert_int_equal(listen(daemon->listener, CONNECTIONS_MAX), 0);
	assert_int_equal(pipe(daemon->stop), 0);
	assert_int_equal(pthread_create(&daemon->thread, NULL, daemon_run, daemon), 0);
}

static void daemon_stop(struct daemon *daemon)
{
	assert_int_equal(write(daemon->stop[1], "", 1), 1);
	(void) pthread_join(daemon->thread, NULL);
	(void) close(daemon->stop[0]);
	(void) close(daemon->stop[1]);
	(void) close(daemon->listener);
	(void) unlink(daemon->path);
}

static int set_up(void **state)
{
	struct daemon *daemon = calloc(1, sizeof(*daemon));

	(void) snprintf(daemon->path, sizeof(daemon->path), "/tmp/usher-test-follower-%d.sock",
			(int) getpid());
	*state = daemon;
	return 0;
}

static int tear_down(void **state)
{
	free(*state);
	return 0;
}

static void a_call_and_a_stream_give_back_all_they_took(void **state)
{
	struct daemon *daemon = *state;
	struct usher_client *client = usher_client_new(daemon->path, "a\nname");
	struct usher_error error = {};
	char *body = NULL;

	daemon_start(daemon, "");
	assert_int_equal(
			usher_client_call(client, "GET", "/v1/services", NULL, &body, &error), 200);
	assert_string_equal(body, "{}");
	free(body);
	body = NULL;
	daemon_stop(daemon);
	assert_errno(usher_client_call(client, "GET", "/v1/services", NULL, &body, &error), ENOENT);
	assert_null(body);
	assert_non_null(strstr(error.text, "systemctl status usherd"));
	usher_client_free(client);
	assert_null(usher_client_free(NULL));
}

static void mistakes_of_the_caller_are_answered(void **state)
{
	struct usher_client *client = usher_client_new("/nowhere", NULL);
	struct usher_follower *follower = NULL;
	struct usher_choice choice = USHER_CHOICE_INIT;
	char name[2 * USHER_TEXT_MAX];
	char *body = NULL;

	(void) state;
	memset(name, '/', sizeof(name));
	name[sizeof(name) - 1] = 0;
	assert_errno(usher_client_call(client, "GET", "v1", NULL, &body, NULL), EINVAL);
	assert_errno(usher_client_pick(client, "", NULL, &choice, NULL), EINVAL);
	assert_errno(usher_client_pick(client, name, NULL, &choice, NULL), EINVAL);
	assert_errno(usher_follower_new(NULL, NULL, "", &follower, NULL), EINVAL);
	assert_errno(usher_follower_new(NULL, NULL, name, &follower, NULL), EINVAL);
	assert_null(follower);
	usher_client_free(client);
}

static void a_follower_is_read_from_any_thread_while_the_daemon_comes_and_goes(void **state)
{
	struct daemon *daemon = *state;
	struct usher_choice choice = USHER_CHOICE_INIT;
	struct usher_follower *follower = NULL;

	daemon_start(daemon,
			"{\"type\": \"snapshot\", \"revision\": 5, " FRESH
			", \"endpoints\": [" ENDPOINT("a") "]}\n");
	assert_ok(usher_follower_new(daemon->path, "shop", "catalog", &follower, NULL));
	assert_ok(usher_follower_wait(follower, 5, 20 * SECOND));
	assert_ok(usher_follower_pick(follower, &choice));
	assert_string_equal(choice.id, "a");
	assert_string_equal(choice.address, "a.example");
	daemon_stop(daemon);
	assert_ok(usher_follower_pick(follower, &choice));

	daemon_start(daemon,
			"{\"type\": \"update\", \"revision\": 6, " FRESH
			", \"changed\": [" ENDPOINT("b") "], \"removed\": [\"a\"]}\n");
	while (usher_follower_wait(follower, 6, SECOND / 100) < 0)
		assert_ok(usher_follower_pick(follower, &choice));
	assert_ok(usher_follower_pick(follower, &choice));
	assert_string_equal(choice.id, "b");
	assert_int_equal(choice.revision, 6);
	assert_true(usher_follower_connected(follower));
	usher_follower_free(follower);
	daemon_stop(daemon);
}

/* An older caller's struct ends before what was added since. */
static void only_what_the_size_covers_is_written(void **state)
{
	struct daemon *daemon = *state;
	struct usher_choice choice = {
		.size = offsetof(struct usher_choice, revision), .revision = 77, .stale = true
	};
	struct usher_follower *follower = NULL;

	daemon_start(daemon,
			"{\"type\": \"snapshot\", \"revision\": 5, " FRESH
			", \"endpoints\": [" ENDPOINT("a") "]}\n");
	assert_ok(usher_follower_new(daemon->path, NULL, "catalog", &follower, NULL));
	assert_ok(usher_follower_wait(follower, 0, 20 * SECOND));
	assert_ok(usher_follower_pick(follower, &choice));
	assert_string_equal(choice.id, "a");
	assert_int_equal(choice.revision, 77);
	assert_true(choice.stale);
	usher_follower_free(follower);
	daemon_stop(daemon);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
				a_call_and_a_stream_give_back_all_they_took, set_up, tear_down),
		cmocka_unit_test(mistakes_of_the_caller_are_answered),
		cmocka_unit_test_setup_teardown(
				a_follower_is_read_from_any_thread_while_the_daemon_comes_and_goes,
				set_up, tear_down),
		cmocka_unit_test_setup_teardown(
				only_what_the_size_covers_is_written, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
