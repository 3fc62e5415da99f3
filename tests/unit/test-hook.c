/* Hooks with real processes, a real HTTP server, and a systemd that the test plays. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <systemd/sd-bus.h>

#include "clock.h"
#include "hook.h"
#include "ownership.h"
#include "test.h"

#define PATIENCE (120 * USEC_PER_SEC)

static struct bench {
	sd_event *event;
	struct inbox *inbox;
	struct hook_host host;
	struct hook_config config;
	struct hook_call call;
	struct hook *hook;
	bool over;
	int r;
	char text[512];
	char path[32];
} bench;

static int setup(void **state)
{
	struct usher_label labels[] = { { "unit", "catalog@1.service" } };
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	int fd;

	(void) state;
	bench = (struct bench){ .path = "/tmp/test-hook-XXXXXX" };
	fd = mkstemp(bench.path);
	assert_true(fd >= 0);
	(void) close(fd);
	assert_ok(sd_event_new(&bench.event));
	assert_ok(inbox_new(bench.event, &bench.inbox));
	bench.host.event = bench.event;
	assert_ok(worker_new(bench.inbox, "test", 1, &bench.host.worker));

	e.id = "catalog a/1";
	e.uid = "u-1";
	e.address = "fd00::10";
	e.port = 8080;
	e.metadata = labels;
	e.metadata_count = 1;
	bench.call = (struct hook_call){ .config = &bench.config,
		.step = "close",
		.drain = "d-1",
		.service = "catalog",
		.token = "t0ken",
		.attempt = 1,
		.endpoint = usher_endpoints_new() };
	assert_ok(usher_endpoints_add(bench.call.endpoint, &e, NULL));
	usher_endpoints_seal(bench.call.endpoint);
	bench.config.timeout_usec = 60 * USEC_PER_SEC;
	return 0;
}

static int teardown(void **state)
{
	(void) state;
	bench.hook = hook_free(bench.hook);
	hook_host_done(&bench.host);
	bench.host.worker = worker_free(bench.host.worker);
	bench.inbox = inbox_free(bench.inbox);
	bench.event = sd_event_unref(bench.event);
	(void) usher_endpoints_unref(bench.call.endpoint);
	(void) unlink(bench.path);
	return 0;
}

static void on_done(void *userdata, int r, const char *text)
{
	(void) userdata;
	assert_false(bench.over);
	bench.over = true;
	bench.r = r;
	(void) snprintf(bench.text, sizeof(bench.text), "%s", text);
}

static void start(void)
{
	struct usher_error err = {};
	int r = hook_start(&bench.host, &bench.call, on_done, NULL, &bench.hook, &err);

	if (r < 0)
		fail_msg("%s", err.text);
}

static void turn_until(const bool *flag)
{
	uint64_t until = clock_boot_usec() + PATIENCE;

	while (!*flag) {
		assert_true(clock_boot_usec() < until);
		assert_ok(sd_event_run(bench.event, 100 * USEC_PER_MSEC));
	}
}

/* What the hook has written into the file. */
static const char *written(void)
{
	static char text[4096];
	FILE *f = fopen(bench.path, "re");
	size_t size;

	assert_non_null(f);
	size = fread(text, 1, sizeof(text) - 1, f);
	text[size] = '\0';
	(void) fclose(f);
	return text;
}

static void set_script(const char *script)
{
	static char *command[6];

	command[0] = (char *) (uintptr_t) "/bin/sh";
	command[1] = (char *) (uintptr_t) "-c";
	command[2] = (char *) (uintptr_t) script;
	command[3] = (char *) (uintptr_t) "{id}";
	command[4] = bench.path;
	command[5] = NULL;
	bench.config.kind = HOOK_EXEC;
	bench.config.command = command;
}

/* ---- a command ---- */

static void a_command_gets_the_endpoint_in_its_environment(void **state)
{
	(void) state;
	assert_int_equal(setenv("NOTIFY_SOCKET", "/run/private", 1), 0);
	bench.call.attempt = 2;
	set_script("env | grep -E '^(USHER|NOTIFY)_' | sort >\"$1\"");
	start();
	turn_until(&bench.over);
	assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
	assert_int_equal(bench.r, 0);
	assert_non_null(strstr(bench.text, "exit status 0"));
	assert_string_equal(written(),
			"USHER_ADDRESS=fd00::10\n"
			"USHER_ATTEMPT=2\n"
			"USHER_DRAIN=d-1\n"
			"USHER_ENDPOINT=catalog a/1\n"
			"USHER_PORT=8080\n"
			"USHER_READY=false\n"
			"USHER_SERVICE=catalog\n"
			"USHER_STEP=close\n"
			"USHER_TOKEN=t0ken\n"
			"USHER_UID=u-1\n");
}

static void placeholders_are_arguments_without_a_shell(void **state)
{
	(void) state;
	set_script("printf %s \"$0\" >\"$1\"");
	start();
	turn_until(&bench.over);
	assert_string_equal(written(), "catalog a/1");
}

static void a_command_that_fails_says_its_status(void **state)
{
	(void) state;
	set_script("exit 7");
	start();
	turn_until(&bench.over);
	assert_int_equal(bench.r, -EIO);
	assert_non_null(strstr(bench.text, "exit status 7"));
}

static void a_command_that_is_killed_says_by_what(void **state)
{
	(void) state;
	set_script("kill -SEGV $$");
	start();
	turn_until(&bench.over);
	assert_int_equal(bench.r, -EIO);
	assert_non_null(strstr(bench.text, "SIGSEGV"));
}

static void a_command_that_is_not_there_is_refused_with_its_name(void **state)
{
	char *command[] = { (char *) (uintptr_t) "/no/such/command", NULL };
	struct usher_error err = {};

	(void) state;
	bench.config.kind = HOOK_EXEC;
	bench.config.command = command;
	assert_errno(hook_start(&bench.host, &bench.call, on_done, NULL, &bench.hook, &err),
			ENOENT);
	assert_non_null(strstr(err.text, "close hook: cannot run /no/such/command"));
}

static bool is_gone(pid_t pid)
{
	return kill(pid, 0) < 0 && errno == ESRCH;
}

static void at_the_timeout_the_whole_group_is_killed(void **state)
{
	pid_t child;

	(void) state;
	/* A busy machine has to start a shell in it. */
	bench.config.timeout_usec = 5 * USEC_PER_SEC;
	set_script("sleep 600 & echo $! >\"$1\"; sleep 600");
	start();
	turn_until(&bench.over);
	assert_int_equal(bench.r, -ETIMEDOUT);
	assert_non_null(strstr(bench.text, "killed after its timeout"));
	child = atoi(written());
	assert_true(child > 1);
	for (unsigned i = 0; i < 12000 && !is_gone(child); i++)
		assert_ok(sd_event_run(bench.event, 10 * USEC_PER_MSEC));
	assert_true(is_gone(child));
}

static void at_the_timeout_one_that_has_left_its_group_is_killed(void **state)
{
	static char python[] = "/usr/bin/python3", option[] = "-c";
	static char script[] = "import os, time; os.setpgid(0, os.getpgid(os.getppid())); "
			       "time.sleep(60)";
	static char *command[] = { python, option, script, NULL };

	(void) state;
	bench.config.timeout_usec = USEC_PER_SEC;
	bench.config.kind = HOOK_EXEC;
	bench.config.command = command;
	start();
	turn_until(&bench.over);
	assert_int_equal(bench.r, -ETIMEDOUT);
}

static void one_that_somebody_else_has_reaped_is_over(void **state)
{
	FILE *f;

	(void) state;
	set_script("until [ -s \"$1\" ]; do sleep 0.01; done");
	assert_true(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
	start();
	f = fopen(bench.path, "we");
	assert_non_null(f);
	assert_true(fputs("go on", f) >= 0);
	assert_int_equal(fclose(f), 0);
	turn_until(&bench.over);
	assert_true(signal(SIGCHLD, SIG_DFL) != SIG_ERR);
	assert_int_equal(bench.r, -ECHILD);
}

static void what_a_command_leaves_behind_is_left_alone(void **state)
{
	pid_t child;

	(void) state;
	set_script("sleep 60 >/dev/null 2>&1 & echo $! >\"$1\"");
	start();
	turn_until(&bench.over);
	assert_int_equal(bench.r, 0);
	child = atoi(written());
	assert_int_equal(kill(child, 0), 0);
	assert_int_equal(kill(child, SIGKILL), 0);
}

static void any_amount_of_output_is_taken(void **state)
{
	(void) state;
	set_script("head -c 300000 /dev/zero | tr '\\0' 'x'; echo; echo end");
	start();
	turn_until(&bench.over);
	assert_int_equal(bench.r, 0);
}

static void a_hook_that_is_freed_ends_its_command(void **state)
{
	pid_t pid;

	(void) state;
	set_script("echo $$ >\"$1\"; exec sleep 60");
	start();
	while (written()[0] == '\0')
		assert_ok(sd_event_run(bench.event, 10 * USEC_PER_MSEC));
	pid = atoi(written());
	bench.hook = hook_free(bench.hook);
	while (!is_gone(pid)) /* who has not gone at once is left to whoever waits for it */
		(void) waitpid(pid, NULL, 0);
	assert_false(bench.over);
}

/* ---- placeholders ---- */

static void placeholders_are_filled_in(void **state)
{
	static const struct {
		const char *text;
		bool url;
		const char *expected;
	} cases[] = {
		{ "plain", false, "plain" },
		{ "", false, "" },
		{ "{address}:{port}", false, "fd00::10:8080" },
		{ "http://{address}:{port}/{id}", true, "http://[fd00::10]:8080/catalog%20a%2F1" },
		{ "{service} {uid} [{zone}] {ready}", false, "catalog u-1 [] false" },
		{ "{metadata.unit}", false, "catalog@1.service" },
		{ "{\"a\": {\"b\": 1}}", false, "{\"a\": {\"b\": 1}}" },
		{ "{} { {port {port}", false, "{} { {port 8080" },
		{ "${HOME} {other}", false, "${HOME} {other}" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		autofree char *text = NULL;
		struct usher_error err = {};

		assert_ok(hook_expand(cases[i].text, &bench.call, cases[i].url, &text, &err));
		assert_string_equal(text, cases[i].expected);
	}
}

static void metadata_that_is_not_there_is_an_error_with_its_name(void **state)
{
	struct usher_error err = {};
	char *text = NULL;

	(void) state;
	assert_errno(hook_expand("{metadata.colour}", &bench.call, false, &text, &err), EINVAL);
	assert_non_null(strstr(err.text, "{metadata.colour}"));
}

/* ---- a URL ---- */

struct server {
	int fd;
	uint16_t port;
	const char *answer; /* NULL: none, ever */
	char request[4096];
	pthread_t thread;
};

static bool has_whole(const char *request)
{
	const char *end = strstr(request, "\r\n\r\n");
	const char *length = strstr(request, "Content-Length: ");

	return end && strlen(end + 4) >= (length ? strtoul(length + 16, NULL, 10) : 0);
}

static void *serve_one(void *userdata)
{
	struct server *s = userdata;
	int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
	size_t used = 0;

	while (!has_whole(s->request)) {
		ssize_t size = recv(fd, s->request + used, sizeof(s->request) - used - 1, 0);

		if (size <= 0)
			break;
		used += (size_t) size;
	}
	if (s->answer)
		(void) send(fd, s->answer, strlen(s->answer), MSG_NOSIGNAL);
	else
		(void) recv(fd, s->request + used, 1, 0); /* until it hangs up */
	(void) close(fd);
	return NULL;
}

static void serve(struct server *s, const char *answer)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t size = sizeof(sa);

	*s = (struct server){ .answer = answer,
		.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
	assert_int_equal(bind(s->fd, (struct sockaddr *) &sa, sizeof(sa)), 0);
	assert_int_equal(listen(s->fd, 1), 0);
	assert_int_equal(getsockname(s->fd, (struct sockaddr *) &sa, &size), 0);
	s->port = ntohs(sa.sin_port);
	assert_int_equal(pthread_create(&s->thread, NULL, serve_one, s), 0);
}

static void serve_end(struct server *s)
{
	assert_int_equal(pthread_join(s->thread, NULL), 0);
	(void) close(s->fd);
}

static void call_url(struct server *s, const char *method)
{
	static char url[128];

	(void) snprintf(url, sizeof(url), "http://user:secret@127.0.0.1:%u/close/{id}?key=secret",
			(unsigned) s->port);
	bench.config.kind = HOOK_HTTP;
	bench.config.method = (char *) (uintptr_t) method;
	bench.config.url = url;
	start();
	turn_until(&bench.over);
}

static void a_url_gets_the_token_and_the_endpoint(void **state)
{
	struct server server;

	(void) state;
	serve(&server, "HTTP/1.1 204 No Content\r\n\r\n");
	call_url(&server, "POST");
	serve_end(&server);
	assert_int_equal(bench.r, 0);
	assert_non_null(strstr(server.request, "POST /close/catalog%20a%2F1?key=secret HTTP/1.1"));
	assert_non_null(strstr(server.request, "Idempotency-Key: t0ken\r\n"));
	assert_non_null(strstr(server.request, "\"endpoint\": \"catalog a/1\""));
	assert_non_null(strstr(server.request, "\"attempt\": 1}"));
}

static void a_url_that_answers_otherwise_failed_and_secrets_are_not_told(void **state)
{
	struct server server;

	(void) state;
	serve(&server, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
	call_url(&server, "DELETE");
	serve_end(&server);
	assert_int_equal(bench.r, -EIO);
	assert_non_null(strstr(bench.text, "answered 503"));
	assert_non_null(strstr(bench.text, "DELETE http://127.0.0.1:"));
	assert_null(strstr(bench.text, "secret"));
}

static void a_url_that_does_not_answer_times_out(void **state)
{
	struct server server;

	(void) state;
	bench.config.timeout_usec = 200 * USEC_PER_MSEC;
	serve(&server, NULL);
	call_url(&server, "POST");
	serve_end(&server);
	assert_int_equal(bench.r, -ETIMEDOUT);
	assert_null(strstr(bench.text, "secret"));
}

/* ---- systemd ---- */

/* A manager at the other end of a socket pair. */
static struct manager {
	sd_bus *bus;
	const char *result; /* of its jobs; NULL: they never end */
	bool signal_first;
	const char *fault; /* instead of a job */
	char asked[128];
} manager;

static void emit_job_removed(const char *unit)
{
	sd_bus_message *signal = NULL;

	assert_ok(sd_bus_message_new_signal(manager.bus, &signal, "/org/freedesktop/systemd1",
			"org.freedesktop.systemd1.Manager", "JobRemoved"));
	assert_ok(sd_bus_message_set_sender(signal, "org.freedesktop.systemd1"));
	assert_ok(sd_bus_message_append(signal, "uoss", 7u, "/org/freedesktop/systemd1/job/7", unit,
			manager.result));
	assert_ok(sd_bus_send(manager.bus, signal, NULL));
	(void) sd_bus_message_unref(signal);
}

static int on_call(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	const char *member = sd_bus_message_get_member(message), *unit, *mode;

	(void) userdata;
	(void) error;
	if (!member || strcmp(member, "Subscribe") == 0)
		return sd_bus_reply_method_return(message, NULL);
	assert_ok(sd_bus_message_read(message, "ss", &unit, &mode));
	(void) snprintf(manager.asked, sizeof(manager.asked), "%s %s %s", member, unit, mode);
	if (manager.fault)
		return sd_bus_reply_method_errorf(message, "org.freedesktop.systemd1.NoSuchUnit",
				"%s", manager.fault);
	if (strcmp(member, "KillUnit") == 0)
		return sd_bus_reply_method_return(message, NULL);
	if (manager.result && manager.signal_first)
		emit_job_removed(unit);
	assert_ok(sd_bus_reply_method_return(message, "o", "/org/freedesktop/systemd1/job/7"));
	if (manager.result && !manager.signal_first)
		emit_job_removed(unit);
	return 1;
}

static void connect_manager(void)
{
	sd_id128_t id;
	int ends[2];

	manager = (struct manager){};
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends),
			0);
	assert_ok(sd_id128_randomize(&id));
	assert_ok(sd_bus_new(&manager.bus));
	assert_ok(sd_bus_set_fd(manager.bus, ends[0], ends[0]));
	assert_ok(sd_bus_set_server(manager.bus, 1, id));
	assert_ok(sd_bus_add_filter(manager.bus, NULL, on_call, NULL));
	assert_ok(sd_bus_start(manager.bus));
	assert_ok(sd_bus_attach_event(manager.bus, bench.event, 0));

	assert_ok(sd_bus_new(&bench.host.bus));
	assert_ok(sd_bus_set_fd(bench.host.bus, ends[1], ends[1]));
	assert_ok(sd_bus_start(bench.host.bus));
	assert_ok(sd_bus_attach_event(bench.host.bus, bench.event, 0));
}

static void ask_systemd(const char *action)
{
	bench.config.kind = HOOK_SYSTEMD;
	bench.config.unit = (char *) (uintptr_t) "{metadata.unit}";
	bench.config.action = (char *) (uintptr_t) action;
	start();
	turn_until(&bench.over);
	bench.hook = hook_free(bench.hook);
	manager.bus = sd_bus_close_unref(manager.bus);
}

static void a_unit_is_stopped_and_its_job_waited_for(void **state)
{
	(void) state;
	connect_manager();
	manager.result = "done";
	ask_systemd("stop");
	assert_int_equal(bench.r, 0);
	assert_string_equal(manager.asked, "StopUnit catalog@1.service replace");
	assert_string_equal(bench.text, "StopUnit of catalog@1.service: done");
}

static void a_job_that_ends_before_it_is_known_is_not_missed(void **state)
{
	(void) state;
	connect_manager();
	manager.result = "done";
	manager.signal_first = true;
	ask_systemd("restart");
	assert_int_equal(bench.r, 0);
	assert_string_equal(manager.asked, "RestartUnit catalog@1.service replace");
}

static void a_job_that_fails_says_its_result(void **state)
{
	(void) state;
	connect_manager();
	manager.result = "timeout";
	ask_systemd("stop");
	assert_int_equal(bench.r, -EIO);
	assert_string_equal(bench.text, "StopUnit of catalog@1.service: timeout");
}

static void a_unit_that_is_not_there_says_so(void **state)
{
	(void) state;
	connect_manager();
	manager.fault = "Unit catalog@1.service not loaded.";
	ask_systemd("start");
	assert_true(bench.r < 0);
	assert_non_null(strstr(bench.text, "not loaded"));
}

static void a_job_without_an_end_times_out(void **state)
{
	(void) state;
	connect_manager();
	bench.config.timeout_usec = 200 * USEC_PER_MSEC;
	ask_systemd("stop");
	assert_int_equal(bench.r, -ETIMEDOUT);
}

static void readiness_of_a_unit_is_turned_back_by_the_opposite(void **state)
{
	(void) state;
	connect_manager();
	manager.result = "done";
	bench.call.step = "readiness";
	bench.call.ready = true;
	ask_systemd("stop");
	assert_string_equal(manager.asked, "StartUnit catalog@1.service replace");
}

#define hook_test(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		hook_test(a_command_gets_the_endpoint_in_its_environment),
		hook_test(placeholders_are_arguments_without_a_shell),
		hook_test(a_command_that_fails_says_its_status),
		hook_test(a_command_that_is_killed_says_by_what),
		hook_test(a_command_that_is_not_there_is_refused_with_its_name),
		hook_test(at_the_timeout_the_whole_group_is_killed),
		hook_test(at_the_timeout_one_that_has_left_its_group_is_killed),
		hook_test(one_that_somebody_else_has_reaped_is_over),
		hook_test(what_a_command_leaves_behind_is_left_alone),
		hook_test(any_amount_of_output_is_taken),
		hook_test(a_hook_that_is_freed_ends_its_command),
		hook_test(placeholders_are_filled_in),
		hook_test(metadata_that_is_not_there_is_an_error_with_its_name),
		hook_test(a_url_gets_the_token_and_the_endpoint),
		hook_test(a_url_that_answers_otherwise_failed_and_secrets_are_not_told),
		hook_test(a_url_that_does_not_answer_times_out),
		hook_test(a_unit_is_stopped_and_its_job_waited_for),
		hook_test(a_job_that_ends_before_it_is_known_is_not_missed),
		hook_test(a_job_that_fails_says_its_result),
		hook_test(a_unit_that_is_not_there_says_so),
		hook_test(a_job_without_an_end_times_out),
		hook_test(readiness_of_a_unit_is_turned_back_by_the_opposite),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
