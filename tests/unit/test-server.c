/* Doors: from outside, over a reload, when descriptors are short, and at the end. */

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include "clock.h"
#include "http.h"
#include "listen.h"
#include "request.h"
#include "serving.h"

static struct serving serving;
static struct usher_error error;

static const struct fake_endpoint two[] = {
	{ "catalog-a", USHER_ADMIN_READY, 1, false },
	{ "catalog-b", USHER_ADMIN_READY, 1, false },
};

static int start(void **state)
{
	struct context *catalog = fake_add_context("catalog");

	(void) state;
	error = (struct usher_error){};
	serving_start(&serving);
	fake_publish(catalog, two, 2);
	return 0;
}

static int stop(void **state)
{
	(void) state;
	serving_stop(&serving);
	return 0;
}

static void a_descriptor_from_outside_has_to_listen(void **state)
{
	int doors[DOOR_MAX] = { -1, -1, -1 }, pair[2];

	(void) state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	doors[DOOR_CONSUMER] = pair[0];
	assert_errno(server_listen(serving.server, &serving.config, doors, &error), EINVAL);
	assert_non_null(strstr(error.text, "no listening stream socket"));
	/* It is still the caller's, and the doors are as before. */
	assert_int_equal(doors[DOOR_CONSUMER], pair[0]);
	assert_has(call(&serving, serving.consumer, "GET", "/healthz", ""), "alive");
	(void) close(pair[0]);
	(void) close(pair[1]);
}

static void a_socket_from_outside_is_used_and_left_where_it_is(void **state)
{
	int doors[DOOR_MAX] = { -1, -1, -1 };
	char path[108];
	struct listen_config config = { .socket = path, .mode = 0666 };
	struct listen_socket made;

	(void) state;
	(void) snprintf(path, sizeof(path), "%s/passed.sock", serving.folder);
	assert_ok(listen_unix(&config, &made, &error));
	doors[DOOR_CONSUMER] = made.fd;
	assert_ok(server_listen(serving.server, &serving.config, doors, &error));
	assert_int_equal(doors[DOOR_CONSUMER], -1);
	assert_has(call(&serving, path, "GET", "/healthz", ""), "alive");
	/* A reload leaves it alone, whatever the configuration says of the path. */
	assert_ok(server_listen(serving.server, &serving.config, doors, &error));
	assert_has(call(&serving, path, "GET", "/healthz", ""), "alive");
	serving.server = server_free(serving.server);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(unlink(path), 0);
}

static void a_reload_that_changes_nothing_keeps_the_connections(void **state)
{
	int none[DOOR_MAX] = { -1, -1, -1 };
	int fd = client_connect(serving.consumer);
	struct stat st;

	(void) state;
	assert_has(client_call(&serving, fd, "GET", "/healthz", "", ""), "alive");
	serving.config.consumer.mode = 0600;
	assert_ok(server_listen(serving.server, &serving.config, none, &error));
	assert_has(client_call(&serving, fd, "GET", "/healthz", "", ""), "alive");
	assert_int_equal(stat(serving.consumer, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	(void) close(fd);
}

static void a_reload_to_another_path_keeps_who_is_inside(void **state)
{
	int none[DOOR_MAX] = { -1, -1, -1 };
	int fd = client_connect(serving.consumer);
	char path[108];

	(void) state;
	assert_has(client_call(&serving, fd, "GET", "/healthz", "", ""), "alive");
	(void) snprintf(path, sizeof(path), "%s/other.sock", serving.folder);
	serving.config.consumer.socket = path;
	assert_ok(server_listen(serving.server, &serving.config, none, &error));
	assert_int_equal(access(serving.consumer, F_OK), -1);
	assert_has(call(&serving, path, "GET", "/healthz", ""), "alive");
	assert_has(client_call(&serving, fd, "GET", "/healthz", "", ""), "alive");
	(void) close(fd);
	serving_settle(&serving);
}

static void a_reload_that_fails_leaves_the_doors_as_they_were(void **state)
{
	int none[DOOR_MAX] = { -1, -1, -1 };
	char other[108], nowhere[] = "/no/such/folder/usher.sock";

	(void) state;
	(void) snprintf(other, sizeof(other), "%s/other.sock", serving.folder);
	serving.config.consumer.socket = other;
	serving.config.admin.socket = nowhere;
	assert_errno(server_listen(serving.server, &serving.config, none, &error), ENOENT);
	assert_non_null(strstr(error.text, "api.admin: /no/such/folder"));
	assert_int_equal(access(other, F_OK), -1);
	assert_has(call(&serving, serving.consumer, "GET", "/healthz", ""), "alive");
	assert_has(call(&serving, serving.admin, "GET", "/healthz", ""), "alive");
}

static void a_reload_that_fails_leaves_who_may_come_in_as_it_was(void **state)
{
	int none[DOOR_MAX] = { -1, -1, -1 };
	char nobody[] = "no-such-group";
	struct stat st;

	(void) state;
	serving.config.consumer.mode = 0600;
	serving.config.admin.group = nobody;
	assert_errno(server_listen(serving.server, &serving.config, none, &error), ENOENT);
	assert_int_equal(stat(serving.consumer, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0666);
}

static void the_http_door_shows_only_itself(void **state)
{
	int none[DOOR_MAX] = { -1, -1, -1 };
	struct sockaddr_in any = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(any);
	int doors[DOOR_MAX] = { -1, -1, -1 };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;
	static const struct {
		const char *path, *wanted;
	} cases[] = {
		{ "/metrics", "usher_picks_total{result=\"ok\"} 0\n" },
		{ "/healthz", "alive" },
		{ "/readyz", "ready" },
		{ "/", "<h1>usherd node-7</h1>" },
		{ "/v1/services", "\"code\": \"forbidden\"" },
		{ "/v1/services/catalog/endpoints?watch=true", "\"code\": \"forbidden\"" },
	};

	(void) state;
	(void) none;
	assert_int_equal(bind(listener, (struct sockaddr *) &any, sizeof(any)), 0);
	assert_int_equal(listen(listener, 8), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *) &any, &length), 0);
	doors[DOOR_HTTP] = listener;
	assert_ok(server_listen(serving.server, &serving.config, doors, &error));
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *) &any, sizeof(any)), 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	for (size_t i = 0; i < ELEMENTS(cases); i++)
		assert_has(client_call(&serving, fd, "GET", cases[i].path, "", ""),
				cases[i].wanted);
	(void) close(fd);
}

/* Use up every descriptor; returns the last one. */
static int use_up(void)
{
	int last = -1, fd;

	while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		last = fd;
	assert_int_equal(errno, EMFILE);
	return last;
}

static void give_back(int from, int to)
{
	for (int fd = from; fd <= to; fd++)
		(void) close(fd);
}

static void the_admins_get_in_when_descriptors_are_short_and_all_others_later(void **state)
{
	const struct rlimit low = { .rlim_cur = 96, .rlim_max = 4096 };
	struct rlimit before;
	int inside, consumer, admin, first, last;

	(void) state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(
			setrlimit(RLIMIT_NOFILE, &(struct rlimit){ low.rlim_cur, before.rlim_max }),
			0);
	inside = client_connect(serving.consumer);
	assert_has(client_call(&serving, inside, "GET", "/healthz", "", ""), "alive");
	consumer = client_connect(serving.consumer);
	admin = client_connect(serving.admin);
	first = open("/dev/null", O_RDONLY | O_CLOEXEC);
	last = use_up();

	assert_has(client_call(&serving, admin, "GET", "/healthz", "", ""), "alive");
	client_send(consumer, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
	serving_settle(&serving);
	assert_int_equal(recv(consumer, (char[1]){}, 1, 0), -1);
	assert_has(client_call(&serving, inside, "GET", "/healthz", "", ""), "alive");

	give_back(first, last);
	client_read_until(&serving, consumer, "alive");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	(void) close(inside);
	(void) close(consumer);
	(void) close(admin);
	serving_settle(&serving);
}

/* Turn the loop over several of the rests that a door takes between its tries. */
static void outlast_some_rests(void)
{
	uint64_t until_usec = clock_boot_usec() + 3 * HTTP_REST_USEC;

	while (clock_boot_usec() < until_usec)
		serving_turn(&serving);
}

static void who_waits_gets_in_however_long_descriptors_were_short(void **state)
{
	struct rlimit before;
	int inside, consumer, first, last;

	(void) state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 96, before.rlim_max }), 0);
	inside = client_connect(serving.consumer);
	assert_has(client_call(&serving, inside, "GET", "/healthz", "", ""), "alive");
	consumer = client_connect(serving.consumer);
	client_send(consumer, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
	first = open("/dev/null", O_RDONLY | O_CLOEXEC);
	last = use_up();
	outlast_some_rests();
	assert_int_equal(recv(consumer, (char[1]){}, 1, MSG_DONTWAIT), -1);

	give_back(first, last);
	client_read_until(&serving, consumer, "alive");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	(void) close(inside);
	(void) close(consumer);
	serving_settle(&serving);
}

static void one_connection_too_many_is_told_so(void **state)
{
	static int fds[HTTP_ADMIN_MAX + 1];

	(void) state;
	for (size_t i = 0; i < ELEMENTS(fds); i++) {
		fds[i] = client_connect(serving.admin);
		assert_has(client_call(&serving, fds[i], "GET", "/healthz", "", ""),
				i < HTTP_ADMIN_MAX ? "HTTP/1.1 200" : "\"code\": \"too_many\"");
	}
	(void) close(fds[0]);
	serving_settle(&serving);
	assert_has(call(&serving, serving.admin, "GET", "/healthz", ""), "\"too_many\"");
	(void) close(fds[1]);
	serving_settle(&serving);
	assert_has(call(&serving, serving.admin, "GET", "/healthz", ""), "alive");
	for (size_t i = 2; i < ELEMENTS(fds); i++)
		(void) close(fds[i]);
	serving_settle(&serving);
}

static void a_body_that_is_far_too_large_is_not_read(void **state)
{
	const char *text;
	int fd = client_connect(serving.consumer);

	(void) state;
	client_send(fd, "POST /v1/services/catalog/pick HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n");
	text = client_read_until(&serving, fd, "}\n");
	assert_has(text, "HTTP/1.1 413");
	assert_has(text, "Connection: close");
	(void) close(fd);
}

static void a_body_without_an_end_is_cut_off(void **state)
{
	static char chunk[6 + 4096 + 2 + 1];
	int fd = client_connect(serving.consumer);
	size_t sent = 0;

	(void) state;
	client_send(fd, "POST /v1/services/catalog/pick HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
	(void) snprintf(chunk, sizeof(chunk), "1000\r\n%4096s\r\n", "");
	while (sent < 4u * REQUEST_SWALLOW_MAX) {
		ssize_t n = send(fd, chunk + sent % (sizeof(chunk) - 1),
				sizeof(chunk) - 1 - sent % (sizeof(chunk) - 1), MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			break;
		if (n < 0)
			serving_turn(&serving);
		else
			sent += (size_t) n;
	}
	assert_true(sent < 4u * REQUEST_SWALLOW_MAX);
	(void) close(fd);
}

static void quiet_connections_are_closed_at_the_end(void **state)
{
	int fd = client_connect(serving.consumer);

	(void) state;
	assert_has(client_call(&serving, fd, "GET", "/healthz", "", ""), "alive");
	server_quiesce(serving.server);
	assert_has(client_call(&serving, fd, "GET", "/readyz", "", ""), "stopping");
	serving.server = server_free(serving.server);
	assert_int_equal(recv(fd, (char[1]){}, 1, 0), 0);
	(void) close(fd);
}

static server_reloaded reload_done;
static void *reload_userdata;

static void note_reload(void *userdata, server_reloaded done, void *done_userdata)
{
	(void) userdata;
	reload_done = done;
	reload_userdata = done_userdata;
}

static uint64_t loaded(void *userdata)
{
	(void) userdata;
	return UINT64_C(1796000000000000);
}

static const struct server_above above = { .reload = note_reload, .loaded_wall_usec = loaded };

static int ask_to_reload(void)
{
	int fd = client_connect(serving.admin);

	server_set_above(serving.server, &above, NULL);
	client_send(fd, "POST /v1/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
	serving_settle(&serving);
	assert_non_null(reload_done);
	return fd;
}

static void a_reload_is_answered_when_it_is_through(void **state)
{
	int fd = ask_to_reload();

	(void) state;
	assert_int_equal(recv(fd, (char[1]){}, 1, 0), -1);
	reload_done(reload_userdata, 0, NULL);
	assert_has(client_read_until(&serving, fd, "}\n"),
			"{\"revision\": 1, \"loaded_at\": \"2026-");
	(void) close(fd);
}

static void a_refused_reload_says_why(void **state)
{
	const char *text;
	int fd = ask_to_reload();

	(void) state;
	reload_done(reload_userdata, -EINVAL, "usher.yaml:3:1: no");
	text = client_read_until(&serving, fd, "}\n");
	assert_has(text, "HTTP/1.1 422");
	assert_has(text, "usher.yaml:3:1: no; the old configuration stays");
	(void) close(fd);
}

static void a_caller_of_a_reload_may_leave_before_its_end(void **state)
{
	int fd = ask_to_reload();

	(void) state;
	(void) close(fd);
	reload_done(reload_userdata, 0, NULL);
	serving_settle(&serving);
}

static void a_reload_may_outlive_the_server_and_its_caller(void **state)
{
	int fd = ask_to_reload();

	(void) state;
	(void) close(fd);
	serving_settle(&serving);
	serving.server = server_free(serving.server);
	reload_done(reload_userdata, -ECANCELED, "usherd stops");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, start, stop)
		T(a_descriptor_from_outside_has_to_listen),
		T(a_socket_from_outside_is_used_and_left_where_it_is),
		T(a_reload_that_changes_nothing_keeps_the_connections),
		T(a_reload_to_another_path_keeps_who_is_inside),
		T(a_reload_that_fails_leaves_the_doors_as_they_were),
		T(a_reload_that_fails_leaves_who_may_come_in_as_it_was),
		T(the_http_door_shows_only_itself),
		T(the_admins_get_in_when_descriptors_are_short_and_all_others_later),
		T(who_waits_gets_in_however_long_descriptors_were_short),
		T(one_connection_too_many_is_told_so),
		T(a_body_that_is_far_too_large_is_not_read),
		T(a_body_without_an_end_is_cut_off),
		T(quiet_connections_are_closed_at_the_end),
		T(a_reload_is_answered_when_it_is_through),
		T(a_refused_reload_says_why),
		T(a_caller_of_a_reload_may_leave_before_its_end),
		T(a_reload_may_outlive_the_server_and_its_caller),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
