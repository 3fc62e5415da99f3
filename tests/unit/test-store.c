/* The store: what is committed stays, whatever happens to the process, the file or the disk. */

#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <systemd/sd-event.h>

#include "clock.h"
#include "endpoint-codec.h"
#include "log.h"
#include "ownership.h"
#include "store.h"
#include "test.h"

#define LOADED_MAX 64

/* What a loader was told, and what the callers were. */
struct fixture {
	char *dir;
	sd_event *event;
	struct inbox *inbox;
	struct store *store;
	uint64_t first_revision;
	struct usher_error err;

	struct loaded_feed {
		char service[USHER_TEXT_MAX], source[64], revision[64];
		bool has_revision;
		struct usher_endpoints *endpoints;
		uint64_t observed;
	} feeds[LOADED_MAX];
	struct loaded_drain {
		char id[64], json[256];
		bool finished;
	} drains[LOADED_MAX];
	struct loaded_cursor {
		char service[USHER_TEXT_MAX];
		uint64_t cursor;
	} cursors[LOADED_MAX];
	size_t feed_count, drain_count, cursor_count;

	unsigned answers;
	int last_r;
	char last_reason[USHER_ERROR_TEXT_MAX];
};

DEFINE_CLEANUP(struct usher_endpoints, usher_endpoints_unref);

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void) st;
	(void) type;
	(void) ftw;

	return remove(path);
}

static int remove_tree(const char *path)
{
	return nftw(path, remove_entry, 8,
			FTW_DEPTH | FTW_PHYS); /* NOLINT(concurrency-mt-unsafe) */
}

static void forget_loaded(struct fixture *f)
{
	for (size_t i = 0; i < f->feed_count; i++)
		usher_endpoints_unref(f->feeds[i].endpoints);
	f->feed_count = f->drain_count = f->cursor_count = 0;
}

static void load_feed(void *userdata, const struct stored_feed *feed)
{
	struct fixture *f = userdata;
	struct loaded_feed *loaded = &f->feeds[f->feed_count++];

	(void) snprintf(loaded->service, sizeof(loaded->service), "%s", feed->service);
	(void) snprintf(loaded->source, sizeof(loaded->source), "%s", feed->source);
	loaded->has_revision = feed->revision;
	(void) snprintf(loaded->revision, sizeof(loaded->revision), "%s", feed->revision ?: "");
	loaded->endpoints = usher_endpoints_ref(feed->endpoints);
	loaded->observed = feed->observed_wall_usec;
}

static void load_drain(void *userdata, const struct stored_drain *drain)
{
	struct fixture *f = userdata;
	struct loaded_drain *loaded = &f->drains[f->drain_count++];

	(void) snprintf(loaded->id, sizeof(loaded->id), "%s", drain->id);
	(void) snprintf(loaded->json, sizeof(loaded->json), "%s", drain->json);
	loaded->finished = drain->finished;
}

static void load_cursor(void *userdata, const char *service, uint64_t cursor)
{
	struct fixture *f = userdata;
	struct loaded_cursor *loaded = &f->cursors[f->cursor_count++];

	(void) snprintf(loaded->service, sizeof(loaded->service), "%s", service);
	loaded->cursor = cursor;
}

static const struct store_loader loader = { load_feed, load_drain, load_cursor };

static int try_open(struct fixture *f)
{
	forget_loaded(f);
	f->err = (struct usher_error){};

	return store_open(f->dir, f->inbox, &loader, f, &f->store, &f->first_revision, &f->err);
}

static void open_store(struct fixture *f)
{
	int r = try_open(f);

	if (r < 0)
		fail_msg("%s", f->err.text);
}

static void reopen_store(struct fixture *f)
{
	f->store = store_close(f->store);
	open_store(f);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	log_set_priority(LOG_EMERG);
	f->dir = strdup("/tmp/test-store-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	assert_ok(sd_event_new(&f->event));
	assert_ok(inbox_new(f->event, &f->inbox));
	*state = f;

	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	store_close(f->store);
	inbox_free(f->inbox);
	sd_event_unref(f->event);
	forget_loaded(f);
	(void) remove_tree(f->dir);
	free(f->dir);
	free(f);

	return 0;
}

static void on_done(void *userdata, int r, const char *reason)
{
	struct fixture *f = userdata;

	f->answers++;
	f->last_r = r;
	(void) snprintf(f->last_reason, sizeof(f->last_reason), "%s", reason ?: "");
}

static void await_answers(struct fixture *f, unsigned count)
{
	while (f->answers < count)
		assert_true(sd_event_run(f->event, 120 * USEC_PER_SEC) > 0);
	f->answers = 0;
}

/* Put a drain and wait for the answer. */
static int put_drain(struct fixture *f, const char *id, const char *json, bool finished)
{
	assert_ok(store_put_drain(f->store, id, json, finished, on_done, f));
	await_answers(f, 1);

	return f->last_r;
}

static struct usher_endpoints *some_endpoints(unsigned count)
{
	struct usher_endpoints *set = usher_endpoints_new();

	for (unsigned i = 0; i < count; i++) {
		struct usher_endpoint endpoint = USHER_ENDPOINT_INIT;
		char id[32];

		(void) snprintf(id, sizeof(id), "e%u", i);
		endpoint.id = id;
		endpoint.address = "10.0.0.5";
		endpoint.port = 8080;
		assert_ok(usher_endpoints_add(set, &endpoint, NULL));
	}
	usher_endpoints_seal(set);

	return set;
}

static int put_feed(struct fixture *f, const char *service, const char *source,
		struct usher_endpoints *set, uint64_t observed)
{
	assert_ok(store_put_feed(f->store, service, source, set, "r1", observed, on_done, f));
	await_answers(f, 1);

	return f->last_r;
}

static void path_in(const struct fixture *f, const char *name, char *ret, size_t size)
{
	(void) snprintf(ret, size, "%s/%s", f->dir, name);
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	assert_ok(stat(path, &st));

	return st.st_mode & 0777;
}

/* How many names in the folder match. */
static unsigned count_names(const struct fixture *f, const char *pattern)
{
	char command[128];
	unsigned count = 0;
	FILE *list;

	(void) snprintf(command, sizeof(command), "ls %s | grep -c '^%s$'", f->dir, pattern);
	list = popen(command, "r"); /* NOLINT: a fixed command */
	assert_non_null(list);
	assert_int_equal(fscanf(list, "%u", &count), 1); /* NOLINT(cert-err34-c) */
	(void) pclose(list);

	return count;
}

/* One number out of the file, past the store. */
static int64_t ask_file(const struct fixture *f, const char *sql)
{
	char path[128];
	sqlite3_stmt *statement;
	sqlite3 *sqlite;
	int64_t number = -1;

	path_in(f, "usher.db", path, sizeof(path));
	assert_int_equal(sqlite3_open_v2(path, &sqlite, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(sqlite, sql, -1, &statement, NULL), SQLITE_OK);
	if (sqlite3_step(statement) == SQLITE_ROW)
		number = sqlite3_column_int64(statement, 0);
	(void) sqlite3_finalize(statement);
	(void) sqlite3_db_config(sqlite, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	assert_int_equal(sqlite3_close(sqlite), SQLITE_OK);

	return number;
}

/* ---- what is put is there again ---- */

static void a_new_folder_is_empty_and_private(void **state)
{
	struct fixture *f = *state;
	char path[128];

	assert_ok(rmdir(f->dir));
	open_store(f);
	assert_int_equal(f->first_revision, 1);
	assert_int_equal(f->feed_count + f->drain_count + f->cursor_count, 0);
	assert_null(store_trouble(f->store));
	assert_int_equal(mode_of(f->dir), 0750);
	path_in(f, "usher.db", path, sizeof(path));
	assert_int_equal(mode_of(path), 0640);
	path_in(f, "usher.db-wal", path, sizeof(path));
	assert_int_equal(mode_of(path), 0640);
}

static void drains_feeds_and_cursors_come_back(void **state)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = some_endpoints(3);
	struct fixture *f = *state;

	open_store(f);
	assert_ok(put_drain(f, "d-2", "{\"state\": \"running\"}", false));
	assert_ok(put_drain(f, "d-1", "{\"state\": \"done\"}", true));
	assert_ok(put_feed(f, "catalog", "files", set, 42));
	assert_ok(store_put_cursor(f->store, "catalog", UINT64_MAX - 1));
	reopen_store(f);

	assert_int_equal(f->drain_count, 2);
	assert_string_equal(f->drains[0].id, "d-2"); /* in the order in which they began */
	assert_string_equal(f->drains[0].json, "{\"state\": \"running\"}");
	assert_false(f->drains[0].finished);
	assert_true(f->drains[1].finished);
	assert_int_equal(f->feed_count, 1);
	assert_string_equal(f->feeds[0].service, "catalog");
	assert_string_equal(f->feeds[0].source, "files");
	assert_string_equal(f->feeds[0].revision, "r1");
	assert_int_equal(f->feeds[0].observed, 42);
	assert_true(usher_endpoints_equal(f->feeds[0].endpoints, set));
	assert_int_equal(f->cursor_count, 1);
	assert_true(f->cursors[0].cursor == UINT64_MAX - 1);
}

static void any_name_is_just_a_key(void **state)
{
	static const char *const names[] = { "a@@b", "100%", "a/b", "..", "../../etc/passwd", "%2e",
		"a'b\"c", "", "ü", "a b", NULL };
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = some_endpoints(1);
	struct fixture *f = *state;
	char longest[256];

	memset(longest, 'x', 255);
	longest[255] = '\0';
	open_store(f);
	assert_ok(put_feed(f, longest, "files", set, 255));
	for (unsigned i = 0; names[i]; i++)
		assert_ok(put_feed(f, names[i], names[i], set, i));
	/* Where one name ends and the other begins makes a difference. */
	assert_ok(put_feed(f, "ab", "c", set, 1000));
	assert_ok(put_feed(f, "a", "bc", set, 2000));
	reopen_store(f);

	assert_int_equal(f->feed_count, ELEMENTS(names) - 1 + 3);
	for (size_t i = 0; i < f->feed_count; i++) {
		const struct loaded_feed *feed = &f->feeds[i];
		const char *expected = feed->observed == 255 ? longest
				: feed->observed == 1000     ? "ab"
				: feed->observed == 2000     ? "a"
							     : names[feed->observed];

		assert_string_equal(feed->service, expected);
	}
	assert_int_equal(count_names(f, "usher.db.*"), 3); /* itself, its log, its index */
}

static void a_name_beyond_the_maximum_is_refused(void **state)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = some_endpoints(1);
	struct fixture *f = *state;
	char name[USHER_TEXT_MAX + 2];

	memset(name, 'x', USHER_TEXT_MAX + 1);
	name[USHER_TEXT_MAX + 1] = '\0';
	open_store(f);
	assert_errno(store_put_feed(f->store, name, "s", set, NULL, 1, on_done, f), E2BIG);
	assert_errno(store_put_drain(f->store, name, "{}", false, on_done, f), E2BIG);
	name[USHER_TEXT_MAX] = '\0';
	assert_ok(put_feed(f, name, "s", set, 1));
}

static void the_last_put_before_a_commit_counts_and_all_are_answered(void **state)
{
	struct fixture *f = *state;
	char json[32];

	open_store(f);
	for (unsigned i = 0; i < 100; i++) {
		(void) snprintf(json, sizeof(json), "{\"n\": %u}", i);
		assert_ok(store_put_drain(f->store, "d", json, false, on_done, f));
	}
	await_answers(f, 100);
	assert_ok(f->last_r);
	reopen_store(f);
	assert_int_equal(f->drain_count, 1);
	assert_string_equal(f->drains[0].json, "{\"n\": 99}");
}

static void what_is_removed_stays_away(void **state)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = some_endpoints(1);
	struct fixture *f = *state;

	open_store(f);
	assert_ok(put_drain(f, "d", "{}", false));
	assert_ok(put_feed(f, "s", "a", set, 1));
	assert_ok(put_feed(f, "s", "b", set, 1));
	assert_ok(store_put_cursor(f->store, "s", 7));
	assert_ok(store_remove_drain(f->store, "d", on_done, f));
	await_answers(f, 1);
	assert_ok(store_remove_feed(f->store, "s", "a"));
	reopen_store(f);
	assert_int_equal(f->drain_count, 0);
	assert_int_equal(f->feed_count, 1);
	assert_int_equal(f->cursor_count, 1);

	/* The last feed of a service takes the cursor along. */
	assert_ok(store_remove_feed(f->store, "s", "b"));
	assert_errno(store_remove_feed(f->store, "s", "b"), ENOENT);
	reopen_store(f);
	assert_int_equal(f->feed_count + f->cursor_count, 0);
	assert_int_equal(ask_file(f, "SELECT count(*) FROM endpoints"), 0);
}

static void a_cursor_without_a_directory_is_not_kept(void **state)
{
	struct fixture *f = *state;

	open_store(f);
	assert_errno(store_put_cursor(f->store, "nobody", 7), ENOENT);
	reopen_store(f);
	assert_int_equal(f->cursor_count, 0);
}

static void a_touch_renews_the_time_with_the_next_commit(void **state)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = some_endpoints(2);
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *equal = some_endpoints(2);
	struct fixture *f = *state;

	open_store(f);
	assert_ok(put_feed(f, "s", "a", set, 1));
	assert_errno(store_touch_feed(f->store, "s", "b", 2), ENOENT);
	assert_ok(store_touch_feed(f->store, "s", "a", 2));
	assert_ok(put_drain(f, "d", "{}", false));
	assert_int_equal(ask_file(f, "SELECT observed_usec FROM feed"), 2);

	/* An equal set is no more than a touch. */
	assert_ok(put_feed(f, "s", "a", equal, 3));
	assert_int_equal(ask_file(f, "SELECT observed_usec FROM feed"), 3);
	reopen_store(f);
	assert_int_equal(f->feeds[0].observed, 3);
	assert_true(usher_endpoints_equal(f->feeds[0].endpoints, set));
}

static void an_empty_directory_is_remembered_as_empty(void **state)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = some_endpoints(0);
	struct fixture *f = *state;

	open_store(f);
	assert_ok(store_put_feed(f->store, "s", "a", set, NULL, 5, on_done, f));
	await_answers(f, 1);
	reopen_store(f);
	assert_int_equal(f->feed_count, 1);
	assert_int_equal(usher_endpoints_count(f->feeds[0].endpoints), 0);
	assert_false(f->feeds[0].has_revision);
}

/* ---- the codec ---- */

static struct usher_endpoints *round_trip(const struct usher_endpoints *set)
{
	cleanup(text_done) struct text text = {};
	struct usher_endpoints *back = NULL;
	struct usher_error err = {};

	endpoints_encode(set, &text);
	assert_false(text.failed);
	if (endpoints_decode(text.data, text.length, &back, &err) < 0)
		fail_msg("%s: %s", err.text, text.data);

	return back;
}

static void every_field_of_an_endpoint_round_trips(void **state)
{
	static const struct usher_label labels[] = { { "API_VERSION", "1.0" },
		{ "quoted", "a\"b\\c" }, { "ünï", "☃" } };
	const struct usher_endpoint endpoints[] = {
		{ .size = sizeof(endpoints[0]),
				.id = "a",
				.uid = "u-1",
				.address = "10.0.0.5",
				.zone = "east",
				.weight = 7,
				.port = 1,
				.secure = true,
				.ready = true,
				.serving = true,
				.metadata = labels,
				.metadata_count = ELEMENTS(labels) },
		{ .size = sizeof(endpoints[0]),
				.id = "b",
				.address = "fe80::1%eth0",
				.weight = 0,
				.port = 65535,
				.terminating = true,
				.admin_state = USHER_ADMIN_DRAINING },
		{ .size = sizeof(endpoints[0]),
				.address = "host.example",
				.weight = 1,
				.port = 80,
				.serving = true,
				.weight_text = "heavy",
				.admin_state = USHER_ADMIN_MAINTENANCE },
	};
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = usher_endpoints_new();
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *back = NULL;

	(void) state;
	for (size_t i = 0; i < ELEMENTS(endpoints); i++)
		assert_ok(usher_endpoints_add(set, &endpoints[i], NULL));
	usher_endpoints_seal(set);
	back = round_trip(set);
	assert_true(usher_endpoints_equal(set, back));
}

static void a_damaged_text_is_refused_with_its_place(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{ "", "begins with [" },
		{ "{}", "begins with [" },
		{ "[", "unexpected" },
		{ "[2]", "not of version 1" },
		{ "[1", "does not end" },
		{ "[1]]", "does not end" },
		{ "[1,]", "endpoints[0]" },
		{ "[1, 7]", "endpoints[0]: an endpoint is a map" },
		{ "[1, {\"address\": \"10.0.0.1\", \"port\": 0}]", "\"port\" is not" },
		{ "[1, {\"address\": \"10.0.0.1\", \"port\": 65536}]", "\"port\" is not" },
		{ "[1, {\"address\": 7, \"port\": 1}]", "\"address\" is not a text" },
		{ "[1, {\"port\": 1}]", "endpoints[0]" },
		{ "[1, {\"address\": \"10.0.0.1\", \"port\": 1},\n{}]", "endpoints[1]" },
		{ "[1, {\"address\": \"10.0.0.1\", \"port\": 1, \"ready\": 1}]", "true or false" },
		{ "[1, {\"address\": \"10.0.0.1\", \"port\": 1, \"weight\": -1}]", "a weight" },
		{ "[1, {\"address\": \"10.0.0.1\", \"port\": 1, \"admin_state\": \"x\"}]",
				"admin_state" },
		{ "[1, {\"address\": \"10.0.0.1\", \"port\": 1, \"metadata\": {\"a\": 1}}]",
				"map of texts" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		struct usher_endpoints *set = NULL;
		struct usher_error err = {};

		assert_errno(endpoints_decode(cases[i].text, strlen(cases[i].text), &set, &err),
				EBADMSG);
		assert_null(set);
		if (!strstr(err.text, cases[i].message))
			fail_msg("%s: %s", cases[i].text, err.text);
	}
}

/* ---- revisions ---- */

static void revisions_go_on_after_a_stop(void **state)
{
	struct fixture *f = *state;

	open_store(f);
	for (uint64_t i = 1; i <= 118; i++)
		assert_int_equal(store_next_revision(f->store), i);
	reopen_store(f);
	assert_int_equal(f->first_revision, 119);
	assert_int_equal(store_next_revision(f->store), 119);
}

static void the_next_block_is_reserved_before_the_first_is_used_up(void **state)
{
	struct fixture *f = *state;
	uint64_t last = 0;

	open_store(f);
	assert_int_equal(ask_file(f, "SELECT revisions FROM reserved"), 1 + STORE_REVISION_STEP);
	while (last < STORE_REVISION_STEP / 2 + 10)
		last = store_next_revision(f->store);
	assert_ok(put_drain(
			f, "d", "{}", false)); /* the commit that it went with, or a later one */
	assert_true(ask_file(f, "SELECT revisions FROM reserved") >
			(int64_t) (STORE_REVISION_STEP + STORE_REVISION_STEP / 4));
	while (last < 2 * STORE_REVISION_STEP)
		assert_int_equal(store_next_revision(f->store), ++last);
}

/* A child that opens the store and hands out revisions, until it is killed. */
static void hand_out_revisions(struct fixture *f, int fd)
{
	if (try_open(f) < 0)
		_exit(1);
	for (;;) {
		uint64_t revision = store_next_revision(f->store);

		if (write(fd, &revision, sizeof(revision)) != sizeof(revision))
			_exit(1);
	}
}

static void no_revision_repeats_across_fifty_crashes(void **state)
{
	struct fixture *f = *state;
	uint64_t highest = 0;

	for (unsigned crash = 0; crash < 50; crash++) {
		uint64_t revision;
		unsigned count = 0;
		int pipe_fds[2];
		int status;
		pid_t pid;

		assert_ok(pipe(pipe_fds)); /* NOLINT(android-cloexec-pipe) */
		pid = fork();
		if (pid == 0)
			hand_out_revisions(f, pipe_fds[1]);
		(void) close(pipe_fds[1]);
		while (read(pipe_fds[0], &revision, sizeof(revision)) == sizeof(revision)) {
			assert_true(revision > highest);
			highest = revision;
			if (++count == 100 + crash)
				(void) kill(pid, SIGKILL);
		}
		assert_true(count >= 100);
		(void) close(pipe_fds[0]);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
	}
}

static void a_file_deleted_while_stopped_repeats_no_revision(void **state)
{
	struct fixture *f = *state;
	uint64_t last;
	char path[128];

	open_store(f);
	last = store_next_revision(f->store);
	f->store = store_close(f->store);
	path_in(f, "usher.db", path, sizeof(path));
	assert_ok(unlink(path));
	open_store(f);
	assert_true(f->first_revision > last + STORE_REVISION_STEP);
}

/* ---- crashes ---- */

struct crasher {
	struct fixture *f;
	int fd;
	unsigned next;
};

static void crasher_put(struct crasher *c);

static void crasher_on_done(void *userdata, int r, const char *reason)
{
	struct crasher *c = userdata;
	unsigned number = c->next;

	(void) reason;
	if (r < 0 || write(c->fd, &number, sizeof(number)) != sizeof(number))
		_exit(1);
	crasher_put(c);
}

static void crasher_put(struct crasher *c)
{
	char json[32];

	(void) snprintf(json, sizeof(json), "%u", ++c->next);
	if (store_put_drain(c->f->store, "d", json, false, crasher_on_done, c) < 0)
		_exit(1);
}

/* A child that commits one number after the other to one drain, and says so after each. */
static void commit_numbers(struct fixture *f, int fd, unsigned first)
{
	struct crasher c = { .f = f, .fd = fd, .next = first };

	/* The thread of an event loop made before the fork is the parent's. */
	if (sd_event_new(&f->event) < 0 || inbox_new(f->event, &f->inbox) < 0 || try_open(f) < 0)
		_exit(1);
	crasher_put(&c);
	for (;;)
		(void) sd_event_run(f->event, UINT64_MAX);
}

static void a_committed_drain_survives_kill_9_at_any_moment(void **state)
{
	struct fixture *f = *state;
	unsigned committed = 0;

	srandom(4711);
	for (unsigned crash = 0; crash < 40; crash++) {
		unsigned until = committed + 1 + (unsigned) random() % 20; /* NOLINT */
		int pipe_fds[2];
		unsigned number;
		pid_t pid;

		assert_ok(pipe(pipe_fds)); /* NOLINT(android-cloexec-pipe) */
		pid = fork();
		if (pid == 0)
			commit_numbers(f, pipe_fds[1], committed);
		(void) close(pipe_fds[1]);
		/* The kill falls somewhere into the commits after this one. */
		while (read(pipe_fds[0], &number, sizeof(number)) == sizeof(number)) {
			committed = number;
			if (committed == until)
				(void) kill(pid, SIGKILL);
		}
		(void) close(pipe_fds[0]);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		assert_true(committed >= until);

		open_store(f);
		assert_int_equal(f->drain_count, 1);
		assert_true((unsigned) strtoul(f->drains[0].json, NULL, 10) >= committed);
		committed = (unsigned) strtoul(f->drains[0].json, NULL, 10);
		f->store = store_close(f->store);
	}
}

/* ---- misfortunes of the file ---- */

static void overwrite(const char *path, off_t offset, const char *garbage)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	for (unsigned i = 0; i < 2000; i++)
		assert_true(pwrite(fd, garbage, strlen(garbage),
					    offset + (off_t) (i * strlen(garbage))) > 0);
	(void) close(fd);
}

static void a_damaged_file_is_set_aside_and_begun_anew(void **state)
{
	struct fixture *f = *state;
	uint64_t last;
	char path[128];

	path_in(f, "usher.db", path, sizeof(path));
	for (unsigned i = 1; i <= 2; i++) {
		open_store(f);
		last = store_next_revision(f->store);
		assert_ok(put_drain(f, "d", "{}", false));
		f->store = store_close(f->store);
		overwrite(path, i == 1 ? 0 : 4096, "garbage ");

		open_store(f);
		assert_int_equal(f->drain_count, 0);
		assert_true(f->first_revision > last);
		assert_int_equal(count_names(f, "usher.db.damaged-.*Z"), i);
		f->store = store_close(f->store);
	}
}

static void few_damaged_files_are_kept(void **state)
{
	struct fixture *f = *state;
	char path[128];

	path_in(f, "usher.db", path, sizeof(path));
	for (unsigned i = 0; i < 20; i++) {
		open_store(f);
		f->store = store_close(f->store);
		overwrite(path, 0, "garbage ");
	}
	open_store(f);
	assert_in_range(count_names(f, "usher.db.damaged-.*Z"), 8, 16);
}

static void an_endpoint_set_that_cannot_be_read_is_left_out_alone(void **state)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = some_endpoints(2);
	struct fixture *f = *state;

	open_store(f);
	assert_ok(put_feed(f, "a", "files", set, 1));
	assert_ok(put_feed(f, "b", "files", set, 1));
	f->store = store_close(f->store);
	(void) ask_file(f, "UPDATE endpoints SET text = '[1, what]' WHERE service = 'a'");
	open_store(f);
	assert_int_equal(f->feed_count, 1);
	assert_string_equal(f->feeds[0].service, "b");
}

static void the_file_of_a_newer_usherd_is_refused(void **state)
{
	struct fixture *f = *state;

	open_store(f);
	f->store = store_close(f->store);
	(void) ask_file(f, "PRAGMA user_version = 99");
	assert_errno(try_open(f), EPROTONOSUPPORT);
	assert_non_null(strstr(f->err.text, "newer usherd"));
}

static void another_programs_database_is_set_aside(void **state)
{
	struct fixture *f = *state;

	open_store(f);
	f->store = store_close(f->store);
	(void) ask_file(f, "PRAGMA application_id = 1");
	open_store(f);
	assert_int_equal(count_names(f, "usher.db.damaged-.*Z"), 1);
}

static void fill(struct fixture *f, struct usher_endpoints *set)
{
	open_store(f);
	for (unsigned i = 0; i < 10; i++) {
		char name[16];

		(void) snprintf(name, sizeof(name), "s%u", i);
		assert_ok(put_feed(f, name, "files", set, i));
		assert_ok(store_put_cursor(f->store, name, i));
	}
	assert_ok(put_drain(f, "d-1", "{\"n\": 1}", false));
	assert_ok(put_drain(f, "d-2", "{\"n\": 2}", true));
}

/* As after kill -9: what the file holds now is all there is. */
static void copy_and_open(struct fixture *f)
{
	autofree struct fixture *copy = calloc(1, sizeof(*copy));
	autofree char *command = NULL, *dir = NULL;

	assert_true(asprintf(&dir, "%s/copy", f->dir) > 0);
	assert_true(asprintf(&command, "mkdir %s && cp %s/usher.db %s/usher.db-wal %s", dir, f->dir,
				    f->dir, dir) > 0);
	assert_int_equal(system(command), 0); /* NOLINT: a fixed command */
	copy->dir = dir;
	copy->event = f->event;
	copy->inbox = f->inbox;
	open_store(copy);
	assert_int_equal(copy->feed_count, 10);
	assert_int_equal(copy->drain_count, 2);
	assert_string_equal(copy->drains[0].id, "d-1");
	assert_string_equal(copy->drains[0].json, "{\"n\": 1}");
	assert_int_equal(copy->cursor_count, 10);
	store_close(copy->store);
	forget_loaded(copy);
}

static void a_deleted_file_is_written_again_while_nothing_changes(void **state)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = some_endpoints(3);
	struct fixture *f = *state;
	struct pollfd watch = { .events = POLLIN };
	char path[128], log_path[128];

	fill(f, set);
	path_in(f, "usher.db", path, sizeof(path));
	path_in(f, "usher.db-wal", log_path, sizeof(log_path));
	assert_ok(unlink(path));
	assert_ok(unlink(log_path));
	watch.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	assert_ok(inotify_add_watch(watch.fd, f->dir, IN_MODIFY));
	assert_int_equal(poll(&watch, 1, 120000), 1);
	(void) close(watch.fd);

	/* The next commit is after the one that wrote everything. */
	assert_ok(put_drain(f, "d-2", "{\"n\": 2}", true));
	assert_int_equal(mode_of(path), 0640);
	copy_and_open(f);
}

static void a_deleted_folder_is_made_again(void **state)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = some_endpoints(3);
	struct fixture *f = *state;
	struct store *other = NULL;
	uint64_t revision;

	fill(f, set);
	assert_ok(remove_tree(f->dir));
	assert_ok(put_drain(f, "d-2", "{\"n\": 2}", true));
	assert_int_equal(mode_of(f->dir), 0750);
	copy_and_open(f);
	/* and is ours again */
	assert_errno(store_open(f->dir, f->inbox, &loader, f, &other, &revision, NULL), EBUSY);
}

static void a_deleted_log_is_noticed(void **state)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = some_endpoints(3);
	struct fixture *f = *state;
	char path[128];

	fill(f, set);
	path_in(f, "usher.db-wal", path, sizeof(path));
	assert_ok(unlink(path));
	assert_ok(put_drain(f, "d-2", "{\"n\": 2}", true));
	copy_and_open(f);
}

static void a_replaced_file_is_set_aside_and_written_again(void **state)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = some_endpoints(3);
	struct fixture *f = *state;
	char path[128], other[128];

	fill(f, set);
	path_in(f, "usher.db", path, sizeof(path));
	path_in(f, "other", other, sizeof(other));
	(void) close(open(other, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_ok(rename(other, path));
	assert_ok(put_drain(f, "d-2", "{\"n\": 2}", true));
	assert_true(count_names(f, "usher.db.replaced-.*Z") >= 1);
	copy_and_open(f);
}

static void a_file_damaged_while_open_is_written_again(void **state)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = some_endpoints(3);
	struct fixture *f = *state;
	char path[128], log_path[128];

	fill(f, set);
	path_in(f, "usher.db", path, sizeof(path));
	path_in(f, "usher.db-wal", log_path, sizeof(log_path));
	/* Everything in the file, so that it is read from there. */
	(void) ask_file(f, "PRAGMA wal_checkpoint(TRUNCATE)");
	overwrite(path, 0, "garbage ");
	assert_ok(put_drain(f, "d-2", "{\"n\": 2}", true));
	assert_null(store_trouble(f->store));
	assert_true(count_names(f, "usher.db.damaged-.*Z") >= 1);
	copy_and_open(f);
}

static void a_second_usherd_is_refused(void **state)
{
	struct fixture *f = *state;
	struct store *other = NULL;
	uint64_t revision;
	char pid[32];

	open_store(f);
	(void) snprintf(pid, sizeof(pid), "pid %d", getpid());
	assert_errno(store_open(f->dir, f->inbox, &loader, f, &other, &revision, &f->err), EBUSY);
	assert_non_null(strstr(f->err.text, pid));
	f->store = store_close(f->store);
	open_store(f);
}

static void a_folder_that_cannot_be_is_refused_with_a_remedy(void **state)
{
	struct fixture *f = *state;
	autofree char *dir = NULL, *file = NULL;
	char *root = f->dir;

	assert_true(asprintf(&dir, "%s/a/b", root) > 0);
	assert_true(asprintf(&file, "%s/file", root) > 0);
	f->dir = dir;
	assert_errno(try_open(f), ENOENT);
	assert_non_null(strstr(f->err.text, "make the folder above it"));
	f->dir = file;
	(void) close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_errno(try_open(f), ENOTDIR);
	f->dir = root;
}

/* ---- misfortunes of the disk, in a mount namespace of the test's own ---- */

static void enter_namespace(void)
{
	if (geteuid() != 0)
		skip();
	assert_ok(unshare(CLONE_NEWNS));
	assert_ok(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
}

static void a_read_only_folder_is_refused_with_a_remedy(void **state)
{
	struct fixture *f = *state;

	enter_namespace();
	assert_ok(mount("none", f->dir, "tmpfs", MS_RDONLY, "size=64k"));
	assert_errno(try_open(f), EROFS);
	assert_non_null(strstr(f->err.text, "mount it writable"));
	assert_ok(umount(f->dir));
}

/* Leave nothing of the disk; returns the file that holds it. */
static int fill_disk(const struct fixture *f)
{
	static const char zeros[4096];
	char path[128];
	int fd;

	path_in(f, "ballast", path, sizeof(path));
	fd = open(path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	while (write(fd, zeros, sizeof(zeros)) > 0)
		;
	assert_int_equal(errno, ENOSPC);

	return fd;
}

/* Put drains until the room that the log already has is used up, and one is refused. */
static unsigned put_until_refused(struct fixture *f)
{
	static char big[16384];
	unsigned taken = 0;
	char id[32];

	memset(big, ' ', sizeof(big) - 1);
	big[0] = '1';
	do {
		(void) snprintf(id, sizeof(id), "big-%u", taken++);
		assert_true(taken < 1000);
	} while (put_drain(f, id, big, false) == 0);

	return taken - 1;
}

static void a_full_disk_refuses_drains_and_recovers_by_itself(void **state)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = some_endpoints(3);
	struct fixture *f = *state;
	char path[128];
	unsigned taken;

	enter_namespace();
	assert_ok(mount("none", f->dir, "tmpfs", 0, "size=2m"));
	open_store(f);
	assert_ok(put_drain(f, "d-1", "{\"n\": 1}", false));
	(void) close(fill_disk(f));

	taken = put_until_refused(f);
	assert_int_equal(f->last_r, -ENOSPC);
	assert_non_null(strstr(f->last_reason, "No space left"));
	assert_non_null(store_trouble(f->store));
	/* A feed is told, and kept for later. */
	(void) put_feed(f, "catalog", "files", set, 7);
	path_in(f, "ballast", path, sizeof(path));
	assert_ok(unlink(path));
	assert_ok(put_drain(f, "d-1", "{\"n\": 2}", false));
	assert_null(store_trouble(f->store));
	reopen_store(f);

	/* The refused drain is not there; everything else is. */
	assert_int_equal(f->drain_count, taken + 1);
	assert_string_equal(f->drains[0].json, "{\"n\": 2}");
	assert_int_equal(f->feed_count, 1);
	assert_int_equal(f->feeds[0].observed, 7);
	f->store = store_close(f->store);
	assert_ok(umount(f->dir));
}

/* Standard error, where the log goes, through a pipe from now on. */
static FILE *catch_log(int *ret_stderr)
{
	int pipe_fds[2];

	*ret_stderr = dup(STDERR_FILENO); /* NOLINT(android-cloexec-dup) */
	assert_ok(pipe(pipe_fds));        /* NOLINT(android-cloexec-pipe) */
	assert_ok(dup2(pipe_fds[1], STDERR_FILENO));
	(void) close(pipe_fds[1]);
	log_set_priority(LOG_NOTICE);

	return fdopen(pipe_fds[0], "r");
}

static void await_line(FILE *log, const char *text)
{
	char line[1024];

	do
		assert_non_null(fgets(line, sizeof(line), log));
	while (!strstr(line, text));
}

static void release_log(FILE *log, int saved_stderr)
{
	log_set_priority(LOG_EMERG);
	assert_ok(dup2(saved_stderr, STDERR_FILENO));
	(void) close(saved_stderr);
	(void) fclose(log);
}

static void trouble_is_told_when_it_begins_and_when_it_has_ended_by_itself(void **state)
{
	struct fixture *f = *state;
	int saved_stderr;
	char path[128];
	FILE *log;

	enter_namespace();
	assert_ok(mount("none", f->dir, "tmpfs", 0, "size=2m"));
	open_store(f);
	(void) close(fill_disk(f));
	log = catch_log(&saved_stderr);
	(void) put_until_refused(f);
	await_line(log, "No space left on device; free some space there");

	path_in(f, "ballast", path, sizeof(path));
	assert_ok(unlink(path));
	await_line(log, "takes writes again");
	release_log(log, saved_stderr);
	assert_null(store_trouble(f->store));
	f->store = store_close(f->store);
	assert_ok(umount(f->dir));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_new_folder_is_empty_and_private),
		TEST(drains_feeds_and_cursors_come_back),
		TEST(any_name_is_just_a_key),
		TEST(a_name_beyond_the_maximum_is_refused),
		TEST(the_last_put_before_a_commit_counts_and_all_are_answered),
		TEST(what_is_removed_stays_away),
		TEST(a_cursor_without_a_directory_is_not_kept),
		TEST(a_touch_renews_the_time_with_the_next_commit),
		TEST(an_empty_directory_is_remembered_as_empty),
		TEST(every_field_of_an_endpoint_round_trips),
		TEST(a_damaged_text_is_refused_with_its_place),
		TEST(revisions_go_on_after_a_stop),
		TEST(the_next_block_is_reserved_before_the_first_is_used_up),
		TEST(no_revision_repeats_across_fifty_crashes),
		TEST(a_file_deleted_while_stopped_repeats_no_revision),
		TEST(a_committed_drain_survives_kill_9_at_any_moment),
		TEST(a_damaged_file_is_set_aside_and_begun_anew),
		TEST(few_damaged_files_are_kept),
		TEST(an_endpoint_set_that_cannot_be_read_is_left_out_alone),
		TEST(the_file_of_a_newer_usherd_is_refused),
		TEST(another_programs_database_is_set_aside),
		TEST(a_deleted_file_is_written_again_while_nothing_changes),
		TEST(a_deleted_folder_is_made_again),
		TEST(a_deleted_log_is_noticed),
		TEST(a_replaced_file_is_set_aside_and_written_again),
		TEST(a_file_damaged_while_open_is_written_again),
		TEST(a_second_usherd_is_refused),
		TEST(a_folder_that_cannot_be_is_refused_with_a_remedy),
		TEST(a_read_only_folder_is_refused_with_a_remedy),
		TEST(a_full_disk_refuses_drains_and_recovers_by_itself),
		TEST(trouble_is_told_when_it_begins_and_when_it_has_ended_by_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
