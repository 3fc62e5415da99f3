/* The prober with all that it can ask by: the engines side by side in its threads. */

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check-bench.h"
#include "clock.h"
#include "health-servers.h"
#include "inbox.h"
#include "loop.h"
#include "prober.h"

#define TLS .kind = CHECK_HTTP, .tls = true, .tls_verify = true, .tls_ca = server_file("ca.pem")

struct asked {
	struct probe *probe;
	enum probe_reason expected;
	unsigned count; /* results, each as expected */
	struct verdict last;
};

struct bench {
	sd_event *event;
	struct inbox *inbox;
	struct prober *prober;
	struct asked asked[16];
	unsigned count, wanted;
};

static void on_results(void *userdata, const struct probe_result *results, size_t count)
{
	(void) userdata;
	for (size_t i = 0; i < count; i++) {
		struct asked *asked = results[i].userdata;

		asked->last = results[i].verdict;
		if (asked->last.reason != asked->expected)
			fail_msg("%s: %s", probe_reason_to_string(asked->last.reason),
					asked->last.text);
		asked->count++;
	}
}

static int setup(void **state)
{
	static const struct prober_config config = { .threads = 2 };
	struct bench *b = calloc(1, sizeof(*b));

	assert_non_null(b);
	assert_ok(sd_event_new(&b->event));
	assert_ok(inbox_new(b->event, &b->inbox));
	assert_ok(prober_new(b->inbox, &config, on_results, b, &b->prober));
	*state = b;
	return 0;
}

/* Whatever is under way then ends, and no program is left. */
static int teardown(void **state)
{
	struct bench *b = *state;

	prober_free(b->prober);
	inbox_free(b->inbox);
	sd_event_unref(b->event);
	free(b);
	return 0;
}

static struct asked *ask(struct bench *b, struct target *target, enum probe_reason expected)
{
	static const struct probe_timing timing = { .interval_usec = 50 * USEC_PER_MSEC,
		.timeout_usec = 120 * USEC_PER_SEC };
	struct asked *asked = &b->asked[b->count++];

	assert_true(b->count <= 16);
	asked->expected = expected;
	assert_ok(prober_add(b->prober, target, &timing, asked, &asked->probe));
	return asked;
}

static bool have_enough(void *userdata)
{
	const struct bench *b = userdata;

	for (unsigned i = 0; i < b->count; i++)
		if (b->asked[i].count < b->wanted)
			return false;
	return true;
}

static void await_each(struct bench *b, unsigned count)
{
	b->wanted = count;
	loop_until(b->event, have_enough, b);
}

static struct target *at(struct check *check, const char *address, const char *server)
{
	return target_at(check, address, port_of(server), false);
}

static struct target *shell_target(const char *script)
{
	char *command[] = { T("/bin/sh"), T("-c"), T(script), NULL };

	return target_at(CHECK(.kind = CHECK_EXEC, .command = command), "10.0.0.5", 80, false);
}

static void all_kinds_are_asked_side_by_side(void **state)
{
	struct bench *b = *state;

	(void) ask(b, at(CHECK(.kind = CHECK_HTTP), "127.0.0.1", "http"), PROBE_OK);
	(void) ask(b, at(CHECK(.kind = CHECK_HTTP), "localhost", "http"), PROBE_OK);
	(void) ask(b, at(CHECK(TLS), "127.0.0.1", "https"), PROBE_OK);
	(void) ask(b, at(CHECK(TLS, .keep_alive = true), "127.0.0.1", "https"), PROBE_OK);
	(void) ask(b, at(CHECK(TLS), "127.0.0.1", "https-expired"), PROBE_TLS);
	(void) ask(b, at(CHECK(.kind = CHECK_GRPC), "127.0.0.1", "grpc"), PROBE_OK);
	(void) ask(b,
			at(CHECK(.kind = CHECK_GRPC, .grpc_service = T("closed")), "localhost",
					"grpc"),
			PROBE_NOT_SERVING);
	(void) ask(b, at(CHECK(.kind = CHECK_TCP, .expect_text = T("220")), "localhost", "banner"),
			PROBE_OK);
	(void) ask(b, shell_target("echo fine"), PROBE_OK);
	(void) ask(b, shell_target("echo ill; exit 1"), PROBE_STATUS);
	await_each(b, 5);
	assert_string_equal(b->asked[8].last.text, "fine");
	assert_int_equal(b->asked[9].last.code, 1);
}

static void who_hangs_delays_nobody(void **state)
{
	struct bench *b = *state;
	struct asked *hanging[3];

	hanging[0] = ask(b, shell_target("sleep 1000"), PROBE_TIMEOUT);
	hanging[1] = ask(
			b, at(CHECK(TLS, .path = T("/hang")), "127.0.0.1", "https"), PROBE_TIMEOUT);
	hanging[2] = ask(b,
			at(CHECK(.kind = CHECK_TCP, .expect_text = T("x")), "localhost", "silent"),
			PROBE_TIMEOUT);
	for (int i = 0; i < 3; i++)
		hanging[i]->count = 1000; /* nobody waits for them */
	(void) ask(b, at(CHECK(TLS), "127.0.0.1", "https"), PROBE_OK);
	(void) ask(b, at(CHECK(.kind = CHECK_GRPC), "127.0.0.1", "grpc"), PROBE_OK);
	(void) ask(b, shell_target("exit 0"), PROBE_OK);
	await_each(b, 10);
	for (int i = 0; i < 3; i++)
		assert_int_equal(hanging[i]->count, 1000);
}

static bool has_begun(void *userdata)
{
	return access(userdata, F_OK) == 0;
}

static void a_removed_probe_ends_its_program(void **state)
{
	struct bench *b = *state;
	char folder[] = "/tmp/usher-prober-XXXXXX", marker[64], script[256];
	struct asked *asked;
	int fd;

	assert_non_null(mkdtemp(folder));
	(void) snprintf(marker, sizeof(marker), "%s/lock", folder);
	(void) snprintf(script, sizeof(script), "exec 9>%s.new; flock 9; mv %s.new %s; sleep 1000",
			marker, marker, marker);
	asked = ask(b, shell_target(script), PROBE_TIMEOUT);
	loop_until(b->event, has_begun, marker);

	prober_remove(b->prober, asked->probe);
	fd = open(marker, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_return_code(flock(fd, LOCK_EX), errno); /* once the last that had it is gone */
	(void) close(fd);
	(void) unlink(marker);
	(void) rmdir(folder);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(all_kinds_are_asked_side_by_side),
		TEST(who_hangs_delays_nobody),
		TEST(a_removed_probe_ends_its_program),
	};

	return cmocka_run_group_tests(tests, health_servers_start, health_servers_stop);
}
