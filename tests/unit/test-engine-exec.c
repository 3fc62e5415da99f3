/* Checks that run a program. */

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check-bench.h"
#include "play-shard.h"

#define LONG_USEC  (120 * USEC_PER_SEC)
#define SHORT_USEC (200 * USEC_PER_MSEC)

static struct shard shard;

static int setup(void **state)
{
	(void) state;
	play_open(&shard, &engine_exec);
	return 0;
}

/* No child is left: not one that runs, not one that nobody has waited for. */
static int teardown(void **state)
{
	(void) state;
	play_close(&shard);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	return 0;
}

static struct target *shell_target(const char *script)
{
	char *command[] = { T("/bin/sh"), T("-c"), T(script), T("sh"), T("{address}"), T("{id}"),
		NULL };

	return target_at(CHECK(.kind = CHECK_EXEC, .command = command), "10.0.0.5", 8080, false);
}

static struct verdict run_for(const char *script, uint64_t timeout_usec)
{
	struct target *target = shell_target(script);
	struct trial trial = {};

	trial_start(&shard, &trial, target, timeout_usec);
	trial_wait(&shard, &trial);
	target_free(target);
	return trial.verdict;
}

#define assert_verdict(v, expected_reason, expected_code, expected_text) \
	do {                                                             \
		struct verdict verdict_ = (v);                           \
		assert_string_equal(verdict_.text, expected_text);       \
		assert_int_equal(verdict_.reason, expected_reason);      \
		assert_int_equal(verdict_.code, expected_code);          \
	} while (0)

static void the_exit_status_decides_and_the_first_line_says_why(void **state)
{
	(void) state;
	assert_verdict(run_for("echo all is well; echo more", LONG_USEC), PROBE_OK, 0,
			"all is well");
	assert_verdict(run_for("exit 0", LONG_USEC), PROBE_OK, 0, "exit status 0");
	assert_verdict(run_for("exit 3", LONG_USEC), PROBE_STATUS, 3, "exit status 3");
	assert_verdict(run_for("echo; echo; echo no disk >&2; exit 1", LONG_USEC), PROBE_STATUS, 1,
			"no disk");
	assert_verdict(run_for("printf 'cut short'; exit 2", LONG_USEC), PROBE_STATUS, 2,
			"cut short");
}

static void a_signal_is_named(void **state)
{
	(void) state;
	assert_verdict(run_for("kill -SEGV $$", LONG_USEC), PROBE_STATUS, 128 + SIGSEGV,
			"ended by SIGSEGV");
	assert_verdict(run_for("echo bye; kill -KILL $$", LONG_USEC), PROBE_STATUS, 128 + SIGKILL,
			"ended by SIGKILL: bye");
}

static void it_gets_the_endpoints_own_words_and_no_shell(void **state)
{
	(void) state;
	assert_verdict(run_for("echo $1 $2 $USHER_SERVICE $USHER_ENDPOINT $USHER_ADDRESS $USHER_PORT",
				       LONG_USEC),
			PROBE_OK, 0, "10.0.0.5 id catalog id 10.0.0.5 8080");
}

static void what_is_binary_makes_no_mess(void **state)
{
	struct verdict v;

	(void) state;
	v = run_for("printf 'a\\000b\\033[31m\\377\\n'", LONG_USEC);
	assert_int_equal(v.reason, PROBE_OK);
	assert_string_equal(v.text, "a.b.[31m.");
	v = run_for("head -c 50000 /dev/urandom", LONG_USEC);
	assert_int_equal(v.reason, PROBE_OK);
}

static void who_hangs_is_killed_with_all_that_it_started(void **state)
{
	char marker[] = "/tmp/usher-exec-XXXXXX", script[256];
	int fd = mkstemp(marker);

	(void) state;
	assert_true(fd >= 0);
	(void) fcntl(fd, F_SETFD, 0);
	/* The lock is held as long as any of them lives. */
	(void) snprintf(script, sizeof(script),
			"exec 9>%s; flock 9; sleep 1000 & echo up; sleep 1000", marker);
	assert_int_equal(run_for(script, SHORT_USEC).reason, PROBE_TIMEOUT);
	(void) snprintf(script, sizeof(script), "exec 9>%s; flock -w 100 9 && echo free", marker);
	assert_verdict(run_for(script, LONG_USEC), PROBE_OK, 0, "free");
	(void) close(fd);
	(void) unlink(marker);
}

static void what_it_leaves_behind_ends_with_it(void **state)
{
	char marker[] = "/tmp/usher-exec-XXXXXX", script[256];
	int fd = mkstemp(marker);

	(void) state;
	assert_true(fd >= 0);
	(void) snprintf(script, sizeof(script), "exec 9>%s; flock 9; sleep 1000 & echo fine",
			marker);
	assert_verdict(run_for(script, LONG_USEC), PROBE_OK, 0, "fine");
	(void) snprintf(script, sizeof(script), "exec 9>%s; flock -w 100 9 && echo free", marker);
	assert_verdict(run_for(script, LONG_USEC), PROBE_OK, 0, "free");
	(void) close(fd);
	(void) unlink(marker);
}

static void who_prints_without_end_is_not_read_without_end(void **state)
{
	(void) state;
	assert_verdict(run_for("exec yes nonsense", LONG_USEC), PROBE_STATUS, 128 + SIGPIPE,
			"ended by SIGPIPE: nonsense");
}

static void it_has_no_descriptor_of_ours(void **state)
{
	int fd = open("/dev/null", O_RDONLY); /* without CLOEXEC, as a library might */

	(void) state;
	assert_verdict(run_for("for i in 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$i ] && echo $i; done; echo none",
				       LONG_USEC),
			PROBE_OK, 0, "none");
	(void) close(fd);
}

static void it_hears_signals_that_we_do_not(void **state)
{
	sigset_t all, before;

	(void) state;
	(void) sigfillset(&all);
	(void) sigprocmask(SIG_SETMASK, &all, &before);
	(void) signal(SIGUSR1, SIG_IGN);
	assert_verdict(run_for("kill -USR1 $$; echo deaf", LONG_USEC), PROBE_STATUS, 128 + SIGUSR1,
			"ended by SIGUSR1");
	(void) signal(SIGUSR1, SIG_DFL);
	(void) sigprocmask(SIG_SETMASK, &before, NULL);
}

static void a_program_that_cannot_run_proves_nothing(void **state)
{
	char name[] = "/tmp/usher-exec-XXXXXX", *command[] = { name, NULL };
	int fd = mkstemp(name);
	struct target *target;
	struct trial trial = {};

	(void) state;
	assert_true(fd >= 0);
	(void) fchmod(fd, 0700);
	(void) close(fd);
	target = target_at(CHECK(.kind = CHECK_EXEC, .command = command), "10.0.0.5", 8080, false);
	(void) unlink(name);
	trial_start(&shard, &trial, target, LONG_USEC);
	assert_true(trial.is_done);
	assert_int_equal(trial.verdict.reason, PROBE_LOCAL);
	assert_int_equal(trial.verdict.code, ENOENT);
	assert_non_null(strstr(trial.verdict.text, "No such file"));
	shard.refuses = true;
	target_free(target);
	target = shell_target("exit 0");
	trial_start(&shard, &trial, target, LONG_USEC);
	assert_true(trial.is_done);
	assert_int_equal(trial.verdict.reason, PROBE_LOCAL);
	target_free(target);
}

static void there_are_not_more_than_can_be_told_apart(void **state)
{
	struct target *target = shell_target("sleep 1000");
	static struct trial trials[300];
	size_t refused = 0;

	(void) state;
	for (size_t i = 0; i < 300; i++) {
		trial_start(&shard, &trials[i], target, LONG_USEC);
		refused += trials[i].is_done;
	}
	assert_int_equal(refused, 300 - 256);
	assert_int_equal(trials[299].verdict.reason, PROBE_LOCAL);
	for (size_t i = 0; i < 300 - refused; i++)
		engine_exec.cancel(shard.opened, &trials[i].attempt);
	while (shard.watches > 0) /* the killed are gone */
		play_turn(&shard, clock_boot_usec() + USEC_PER_SEC);
	target_free(target);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_exit_status_decides_and_the_first_line_says_why),
		TEST(a_signal_is_named),
		TEST(it_gets_the_endpoints_own_words_and_no_shell),
		TEST(what_is_binary_makes_no_mess),
		TEST(who_hangs_is_killed_with_all_that_it_started),
		TEST(what_it_leaves_behind_ends_with_it),
		TEST(who_prints_without_end_is_not_read_without_end),
		TEST(it_has_no_descriptor_of_ours),
		TEST(it_hears_signals_that_we_do_not),
		TEST(a_program_that_cannot_run_proves_nothing),
		TEST(there_are_not_more_than_can_be_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
