/* The plug-in exec, run against a host that is played, with programs that are scripts: what is made
 * of what they print, and of how they end. */

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "directory.h"
#include "exec.h"
#include "fake-source.h"
#include "test.h"

extern const struct usher_plugin usher_plugin;

#define ONE \
	"{\"services\": {\"catalog\": [{\"id\": \"a\", \"address\": \"10.0.0.5\", \"port\": 80}]}}"
#define TWO                                                                                       \
	"{\"services\": {\"catalog\": [{\"id\": \"a\", \"address\": \"10.0.0.5\", \"port\": 80}," \
	" {\"id\": \"b\", \"address\": \"10.0.0.6\", \"port\": 80}]}}"
#define NONE          "{\"services\": {\"catalog\": []}}"
#define PATIENCE_USEC UINT64_C(60000000)

struct scene {
	struct usher_source source;
	struct exec plugin;
	const char *command[2];
	const char *environment[2];
	char folder[64];
	char variable[80];
	bool (*is_over)(struct scene *s);
	unsigned wanted_offers, wanted_fails, wanted_confirms;
	uint64_t until_usec;
	int removed; /* what that came to */
};

static struct fake_answer *answer(struct scene *s)
{
	return fake_source_answer(&s->source, "catalog");
}

static bool has_said(struct scene *s)
{
	struct fake_answer *a = answer(s);

	return a->offers >= s->wanted_offers && a->fails >= s->wanted_fails &&
			a->confirms >= s->wanted_confirms;
}

static int wait_in_earnest(
		struct usher_source *source, const struct usher_wait *wait, unsigned number)
{
	struct scene *s = source->userdata;
	struct pollfd fd = { .fd = wait->events ? wait->fd : -1, .events = wait->events };
	uint64_t msec = wait->timeout_usec / 1000 + 1;
	int r;

	(void) number;
	if (has_said(s))
		return 0;
	if (clock_boot_usec() > s->until_usec)
		fail_msg("%u offers, %u confirmations, %u failures: %s", answer(s)->offers,
				answer(s)->confirms, answer(s)->fails, answer(s)->text);
	r = poll(&fd, 1, (int) (msec < 1000 ? msec : 1000));
	assert_true(r >= 0);
	return r > 0 ? USHER_WAIT_FD : USHER_WAIT_TIMEOUT;
}

static int setup(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	(void) snprintf(s->folder, sizeof(s->folder), "/tmp/usher-test-exec-XXXXXX");
	assert_non_null(mkdtemp(s->folder));
	(void) snprintf(s->variable, sizeof(s->variable), "FOLDER=%s", s->folder);
	s->environment[0] = s->variable;
	s->plugin = (struct exec){
		.command = s->command,
		.environment = s->environment,
		.folder = s->folder,
		.shell = true,
		.registers = true,
		.interval_usec = 100000,
		.timeout_usec = 30000000,
		.silence_usec = 30000000,
		.output_max = 65536,
	};
	s->source.on_wait = wait_in_earnest;
	s->source.userdata = s;
	fake_source_want(&s->source, "catalog", "catalog", NULL);
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct scene *s = *state;
	char command[128];

	(void) snprintf(command, sizeof(command), "%s/said", s->folder);
	(void) unlink(command);
	(void) snprintf(command, sizeof(command), "%s/new", s->folder);
	(void) unlink(command);
	(void) rmdir(s->folder);
	fake_source_done(&s->source);
	free(s);
	return 0;
}

static void run(struct scene *s, const char *command, unsigned offers, unsigned fails)
{
	s->command[0] = command;
	s->wanted_offers = offers;
	s->wanted_fails = fails;
	s->until_usec = clock_boot_usec() + PATIENCE_USEC;
	assert_int_equal(usher_plugin.discovery->run(&s->plugin, &s->source), 0);
}

static void assert_failed(struct scene *s, int code, const char *text)
{
	struct fake_answer *a = answer(s);

	assert_int_equal(a->code, -code);
	if (!strstr(a->text, text))
		fail_msg("%s does not have %s", a->text, text);
}

/* What the program has written to the file `said`. */
static void assert_said(struct scene *s, const char *expected)
{
	char path[128], text[2048] = "";
	FILE *f;

	(void) snprintf(path, sizeof(path), "%s/said", s->folder);
	f = fopen(path, "re");
	assert_non_null(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	(void) fclose(f);
	if (!strstr(text, expected))
		fail_msg("%s does not have %s", text, expected);
}

/* ---- runs ---- */

static void what_a_program_prints_is_offered_again_and_again(void **state)
{
	struct scene *s = *state;

	run(s, "echo '" TWO "'", 3, 0);
	assert_int_equal(usher_endpoints_count(answer(s)->set), 2);
	assert_int_equal(answer(s)->verdict, USHER_FRESH);
	assert_true(fake_source_knows(&s->source, "catalog"));
}

static void a_service_may_be_empty_on_purpose(void **state)
{
	struct scene *s = *state;

	run(s, "echo '" NONE "'", 1, 0);
	assert_int_equal(usher_endpoints_count(answer(s)->set), 0);
}

static void what_ends_badly_is_no_answer_whatever_it_printed(void **state)
{
	static const struct {
		const char *command;
		int code;
		const char *text;
	} cases[] = {
		{ "echo '" ONE "'; echo no database >&2; exit 1", EIO,
				"failed with exit status 1; its last words: no database" },
		{ "echo '" ONE "'; exit 77", EACCES, "was denied access" },
		{ "echo '" ONE "'; exit 75", EAGAIN, "cannot say for now" },
		{ "echo '" ONE "'; kill -9 $$", EIO, "was ended by SIGKILL" },
		{ "true", EBADMSG, "printed nothing" },
		{ "printf %s '" ONE "'", EBADMSG, "does not end with a line end" },
		{ "echo '{\"services\": {\"catalog\": [{\"id\": \"a\"'", EBADMSG, "/bin/sh:" },
		{ "echo '{\"services\": {\"catalog\": [{\"adress\": \"a\"}]}}'", EBADMSG,
				"did you mean address" },
		{ "echo '{\"services\": {\"other\": []}}'", ENOENT, "print \"catalog\": []" },
		{ "echo '{\"confirm\": true}'", EBADMSG, "has said nothing before" },
		{ "head -c 70000 /dev/zero", EMSGSIZE, "more than the 65536 bytes" },
		{ "while :; do echo too much; done", EMSGSIZE, "more than the 65536 bytes" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct scene *s;
		void *own = NULL;

		(void) state;
		assert_int_equal(setup(&own), 0);
		s = own;
		run(s, cases[i].command, 0, 1);
		assert_failed(s, cases[i].code, cases[i].text);
		assert_int_equal(answer(s)->offers, 0);
		(void) teardown(&own);
	}
}

static void a_text_for_the_shell_is_told_to_nobody(void **state)
{
	struct scene *s = *state;

	run(s, "password=hunter2; echo no database >&2; exit 1", 0, 1);
	assert_failed(s, EIO, "/bin/sh: failed with exit status 1; its last words: no database");
	assert_null(strstr(answer(s)->text, "hunter2"));
}

static void a_program_that_is_not_there_says_so(void **state)
{
	struct scene *s = *state;

	s->plugin.shell = false;
	run(s, "/nonexistent/program", 0, 1);
	assert_failed(s, ENOENT, "/nonexistent/program: cannot be started");
}

static void a_folder_that_is_not_there_is_not_taken_for_the_program(void **state)
{
	struct scene *s = *state;

	s->plugin.shell = false;
	s->plugin.folder = "/nonexistent/folder";
	run(s, "/bin/true", 0, 1);
	assert_failed(s, ENOENT,
			"/bin/true: cannot be started in its folder /nonexistent/folder: No such file");
}

static void a_folder_that_is_none_is_not_taken_for_the_program(void **state)
{
	struct scene *s = *state;

	s->plugin.shell = false;
	s->plugin.folder = "/bin/true";
	run(s, "/bin/true", 0, 1);
	assert_failed(s, ENOTDIR,
			"/bin/true: cannot be started in its folder /bin/true: Not a directory");
}

static void one_that_hangs_is_ended_with_what_it_started(void **state)
{
	struct scene *s = *state;
	char path[128], text[32] = "";
	FILE *f;

	/* A machine that is busy has to start a shell in it. */
	s->plugin.timeout_usec = 5000000;
	run(s, "sleep 1000 & echo $! > $FOLDER/said; echo hanging >&2; wait", 0, 1);
	assert_failed(s, ETIMEDOUT,
			"has not ended within its timeout of 5s; its last words: hanging");
	(void) snprintf(path, sizeof(path), "%s/said", s->folder);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	(void) fclose(f);
	for (int i = 0; i < 3000 && kill((pid_t) strtol(text, NULL, 10), 0) == 0; i++)
		(void) usleep(10000);
	/* A zombie, until its new parent looks, is gone as well. */
	(void) snprintf(path, sizeof(path), "/proc/%.20s", text);
	path[strcspn(path, "\n")] = '\0';
	(void) strncat(path, "/exe", sizeof(path) - strlen(path) - 1);
	assert_int_equal(readlink(path, text, sizeof(text)), -1);
}

static void one_that_ignores_the_order_to_end_is_killed(void **state)
{
	struct scene *s = *state;

	s->plugin.timeout_usec = 2000000;
	run(s, "trap '' TERM; while :; do sleep 1; done", 0, 2);
	assert_failed(s, ETIMEDOUT, "has not ended");
}

static void a_program_inherits_no_environment_and_no_descriptor(void **state)
{
	struct scene *s = *state;

	assert_int_equal(setenv("USHER_TEST_SECRET", "secret", 1), 0);
	/* Whole, for it may be running again by then. */
	run(s, "{ env; ls /proc/self/fd | wc -l; pwd; } > new; mv new said; echo '" ONE "'", 1, 0);
	assert_said(s, s->variable);
	assert_said(s, "LANG=C.UTF-8");
	assert_said(s, "\n4\n"); /* 0, 1, 2 and the folder that ls reads */
	assert_said(s, s->folder);
}

static void what_lacks_endpoints_after_a_failure_is_doubted_until_it_is_said_twice(void **state)
{
	struct scene *s = *state;

	/* Two, then a failure, then one for ever. */
	static const char command[] =
			"n=$(cat said 2>/dev/null || echo 0); echo $((n + 1)) > said;"
			" case $n in 0) echo '" TWO "';; 1) exit 1;; *) echo '" ONE "';; esac";
	char path[128];

	run(s, command, 2, 1);
	assert_int_equal(answer(s)->verdict, USHER_SUSPECT);
	(void) snprintf(path, sizeof(path), "%s/said", s->folder);
	assert_int_equal(unlink(path), 0);
	run(s, command, 2 + 3, 2);
	assert_int_equal(answer(s)->verdict, USHER_FRESH);
}

/* ---- streams ---- */

static void each_line_of_a_stream_is_the_directory(void **state)
{
	struct scene *s = *state;

	s->plugin.mode = EXEC_STREAM;
	run(s, "echo '" ONE "'; echo '" TWO "'; exec sleep 1000", 2, 0);
	assert_int_equal(usher_endpoints_count(answer(s)->set), 2);
}

static void an_empty_line_is_a_sign_of_life(void **state)
{
	struct scene *s = *state;

	s->plugin.mode = EXEC_STREAM;
	s->wanted_confirms = 2;
	run(s, "echo '" ONE "'; echo; echo '{\"confirm\": true}'; exec sleep 1000", 1, 0);
	assert_int_equal(answer(s)->offers, 1);
}

/* It goes back to the wait, where it is told to stop, whatever the program does. */
static void a_stream_that_floods_is_taken_in_turns(void **state)
{
	struct scene *s = *state;

	s->plugin.mode = EXEC_STREAM;
	s->wanted_confirms = 3;
	run(s, "echo '" ONE "'; exec yes ''", 1, 0);
	assert_int_equal(answer(s)->confirms, 3);
	s->wanted_confirms += 1;
	run(s, "echo '" ONE "'; exec yes '{\"confirm\": true}'", 1, 0);
	assert_true(answer(s)->confirms < 1000);
}

static void a_sign_of_life_before_the_first_line_proves_nothing(void **state)
{
	struct scene *s = *state;

	s->plugin.mode = EXEC_STREAM;
	run(s, "echo; exec sleep 1000", 0, 1);
	assert_failed(s, EBADMSG, "has said nothing before");
}

static void a_stream_that_says_nothing_is_started_again(void **state)
{
	struct scene *s = *state;

	s->plugin.mode = EXEC_STREAM;
	s->plugin.silence_usec = 2000000;
	run(s, "echo '" ONE "'; exec sleep 1000", 2, 1);
	assert_int_equal(usher_endpoints_count(answer(s)->set), 1);
}

static void a_stream_that_ends_is_a_failure_and_started_again(void **state)
{
	struct scene *s = *state;

	s->plugin.mode = EXEC_STREAM;
	run(s, "echo '" ONE "'", 3, 2);
}

static void half_a_line_at_the_end_of_a_stream_is_no_answer(void **state)
{
	struct scene *s = *state;

	s->plugin.mode = EXEC_STREAM;
	run(s, "echo '" TWO "'; printf %s '" NONE "'", 1, 1);
	assert_int_equal(usher_endpoints_count(answer(s)->set), 2);
	assert_failed(s, EPIPE, "has ended, though it is to run on");
}

static void a_line_that_is_too_long_is_a_failure(void **state)
{
	struct scene *s = *state;

	s->plugin.mode = EXEC_STREAM;
	run(s, "echo '" ONE "'; yes | tr -d '\\n'", 1, 1);
	assert_failed(s, EMSGSIZE, "a line has more than the 65536 bytes");
}

static void many_lines_at_once_are_more_than_one_line_may_have(void **state)
{
	struct scene *s = *state;

	s->plugin.mode = EXEC_STREAM;
	run(s, "i=0; while [ $i -lt 3000 ]; do echo '" ONE "'; i=$((i + 1)); done; exec sleep 1000",
			3000, 0);
	assert_int_equal(answer(s)->fails, 0);
}

/* ---- registration ---- */

static const struct usher_wanted catalog = { .service = "catalog", .name = "the-catalog" };

static void the_verbs_come_with_words_and_json(void **state)
{
	const struct usher_registration *r = usher_plugin.registration;
	const struct usher_label labels[] = { { "version", "1.0" } };
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	struct scene *s = *state;
	struct usher_error why = { 0 };

	e.id = "a";
	e.address = "10.0.0.5";
	e.port = 80;
	e.zone = "east";
	e.metadata = labels;
	e.metadata_count = 1;
	s->plugin.renew_usec = 1000000;
	s->command[0] = "{ echo \"$@\"; cat; echo; } > said";
	assert_ok(r->add(&s->plugin, &catalog, &e, &why));
	assert_said(s,
			"add the-catalog a\n{\"service\":\"the-catalog\",\"id\":\"a\",\"endpoint\":{\"id\":\"a\","
			"\"address\":\"10.0.0.5\",\"port\":80,\"zone\":\"east\",\"weight\":1,");
	assert_said(s, "\"metadata\":{\"version\":\"1.0\"}}}\n");
	assert_ok(r->renew(&s->plugin, &catalog, "a", &why));
	assert_said(s, "renew the-catalog a\n{\"service\":\"the-catalog\",\"id\":\"a\"}\n");
	assert_ok(r->set_state(&s->plugin, &catalog, "a", USHER_ADMIN_DRAINING, &why));
	assert_said(s, "set-state the-catalog a draining\n");
	assert_said(s, "\"state\":\"draining\"");
	assert_ok(r->remove(&s->plugin, &catalog, "a; rm -rf $FOLDER", &why));
	assert_said(s, "remove the-catalog a; rm -rf $FOLDER\n");
	assert_int_equal(r->renew_after_usec(&s->plugin), 1000000);
}

static void what_is_registered_is_described_as_it_is_read(void **state)
{
	const struct usher_registration *r = usher_plugin.registration;
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	struct scene *s = *state;
	struct usher_error why = { 0 };

	e.address = "fd00::5";
	e.port = 80;
	e.weight = 7;
	e.secure = true;
	e.ready = false;
	s->command[0] = "case $1 in add) sed 's/.*\"endpoint\":\\(.*\\)}$/{\"services\":{\"catalog\":[\\1]}}/' > said;"
			" echo >> said;; *) cat said;; esac";
	assert_ok(r->add(&s->plugin, &catalog, &e, &why));
	run(s, s->command[0], 1, 0);
	usher_endpoints_get(answer(s)->set, 0, &e);
	assert_string_equal(e.id, "[fd00::5]:80");
	assert_int_equal(e.weight, 7);
	assert_true(e.secure);
	assert_false(e.ready);
}

static void how_a_verb_ends_is_judged(void **state)
{
	static const struct {
		const char *command;
		int code;
	} cases[] = {
		{ "exit 64", EROFS },
		{ "exit 66", ENOENT },
		{ "exit 75", EAGAIN },
		{ "exit 77", EACCES },
		{ "exit 3", EIO },
		{ "sleep 1000", ETIMEDOUT },
		{ "while :; do echo too much; done", EMSGSIZE },
	};
	const struct usher_registration *r = usher_plugin.registration;
	struct scene *s = *state;

	for (int mode = EXEC_INTERVAL; mode <= EXEC_STREAM; mode++)
		for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
			struct usher_error why = { 0 };

			s->plugin.mode = mode;
			s->command[0] = cases[i].command;
			s->plugin.timeout_usec = cases[i].code == ETIMEDOUT ? 300000 : 30000000;
			assert_errno(r->set_state(&s->plugin, &catalog, "a", USHER_ADMIN_READY,
						     &why),
					cases[i].code);
			assert_non_null(strstr(why.text, "set-state: /bin/sh"));
		}
	s->plugin.timeout_usec = 30000000;
	s->command[0] = "exit 66";
	assert_ok(r->remove(&s->plugin, &catalog, "a", NULL));
}

static bool is_there(const char *path)
{
	return access(path, F_OK) == 0;
}

static void *call_remove(void *userdata)
{
	struct scene *s = userdata;
	struct usher_error why = { 0 };

	s->removed = usher_plugin.registration->remove(&s->plugin, &catalog, "a", &why);
	return NULL;
}

static void a_verb_that_runs_ends_when_its_source_stops(void **state)
{
	struct scene *s = *state;
	char path[128], number[16] = "";
	pthread_t thread;
	FILE *f;

	s->plugin.timeout_usec = 50000000;
	s->command[0] = "if [ \"$1\" = remove ]; then trap '' TERM; echo $$ > new; mv new said;"
			" while :; do sleep 1; done; fi; echo '{\"services\": {\"catalog\": []}}'";
	s->plugin.folder = s->folder;
	assert_ok(usher_plugin.init(&s->plugin, NULL));
	assert_int_equal(pthread_create(&thread, NULL, call_remove, s), 0);
	(void) snprintf(path, sizeof(path), "%s/said", s->folder);
	for (uint64_t until = clock_boot_usec() + PATIENCE_USEC; !is_there(path);) {
		assert_true(clock_boot_usec() < until);
		(void) poll(NULL, 0, 10);
	}
	run(s, s->command[0], 1, 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_errno(s->removed, ECANCELED);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_non_null(fgets(number, sizeof(number), f));
	(void) fclose(f);
	assert_int_equal(kill((pid_t) strtol(number, NULL, 10), 0), -1);
	usher_plugin.done(&s->plugin);
}

static void who_does_not_register_says_so_and_runs_nothing(void **state)
{
	const struct usher_registration *r = usher_plugin.registration;
	struct scene *s = *state;
	struct usher_error why = { 0 };

	s->plugin.registers = false;
	s->command[0] = "/nonexistent";
	assert_errno(r->remove(&s->plugin, &catalog, "a", &why), EROFS);
	assert_non_null(strstr(why.text, "registers: true"));
	assert_int_equal(r->renew_after_usec(&s->plugin), 0);
}

/* ---- the rest ---- */

static int parse_for_oom(void *userdata)
{
	struct directory *d = NULL;
	int r = directory_parse("p", userdata, strlen(userdata), &d, NULL);

	(void) directory_free(d);
	return r;
}

static void reading_survives_the_lack_of_memory(void **state)
{
	(void) state;
	assert_survives_oom(parse_for_oom, (void *) (uintptr_t) "{\"services\": {}}");
}

static void services_are_found_by_name(void **state)
{
	static const char text[] = "{\"services\": {\"c\": [], \"a\": [], \"b\": []}}";
	struct directory *d = NULL;

	(void) state;
	assert_int_equal(directory_parse("p", text, strlen(text), &d, NULL), 0);
	assert_non_null(directory_find(d, "a"));
	assert_non_null(directory_find(d, "b"));
	assert_non_null(directory_find(d, "c"));
	assert_null(directory_find(d, "aa"));
	assert_null(directory_find(d, "d"));
	(void) directory_free(d);
}

static void options_are_judged_together(void **state)
{
	struct scene *s = *state;
	struct exec e = s->plugin;
	const char *two[] = { "/bin/echo", "x", NULL }, *none[] = { NULL },
		   *relative[] = { "echo", NULL };
	const char *bad[] = { "NAME", NULL };

	e.registers = false; /* which would have a descriptor */
	s->command[0] = "echo x";
	assert_ok(usher_plugin.init(&e, NULL));
	e.command = two;
	assert_errno(usher_plugin.init(&e, NULL), EINVAL);
	e.shell = false;
	assert_ok(usher_plugin.init(&e, NULL));
	e.command = relative;
	assert_errno(usher_plugin.init(&e, NULL), EINVAL);
	e.command = none;
	assert_errno(usher_plugin.init(&e, NULL), EINVAL);
	e.command = two;
	e.environment = bad;
	assert_errno(usher_plugin.init(&e, NULL), EINVAL);
	e.environment = NULL;
	e.interval_usec = 1;
	assert_errno(usher_plugin.init(&e, NULL), ERANGE);
	e.interval_usec = s->plugin.interval_usec;
	e.output_max = 1;
	assert_errno(usher_plugin.init(&e, NULL), ERANGE);
}

#define RUN(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(what_a_program_prints_is_offered_again_and_again),
		RUN(a_service_may_be_empty_on_purpose),
		RUN(what_ends_badly_is_no_answer_whatever_it_printed),
		RUN(a_text_for_the_shell_is_told_to_nobody),
		RUN(a_program_that_is_not_there_says_so),
		RUN(a_folder_that_is_not_there_is_not_taken_for_the_program),
		RUN(a_folder_that_is_none_is_not_taken_for_the_program),
		RUN(one_that_hangs_is_ended_with_what_it_started),
		RUN(one_that_ignores_the_order_to_end_is_killed),
		RUN(a_program_inherits_no_environment_and_no_descriptor),
		RUN(what_lacks_endpoints_after_a_failure_is_doubted_until_it_is_said_twice),
		RUN(each_line_of_a_stream_is_the_directory),
		RUN(an_empty_line_is_a_sign_of_life),
		RUN(a_stream_that_floods_is_taken_in_turns),
		RUN(a_sign_of_life_before_the_first_line_proves_nothing),
		RUN(a_stream_that_says_nothing_is_started_again),
		RUN(a_stream_that_ends_is_a_failure_and_started_again),
		RUN(half_a_line_at_the_end_of_a_stream_is_no_answer),
		RUN(a_line_that_is_too_long_is_a_failure),
		RUN(many_lines_at_once_are_more_than_one_line_may_have),
		RUN(the_verbs_come_with_words_and_json),
		RUN(what_is_registered_is_described_as_it_is_read),
		RUN(how_a_verb_ends_is_judged),
		RUN(a_verb_that_runs_ends_when_its_source_stops),
		RUN(who_does_not_register_says_so_and_runs_nothing),
		cmocka_unit_test(reading_survives_the_lack_of_memory),
		cmocka_unit_test(services_are_found_by_name),
		RUN(options_are_judged_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
