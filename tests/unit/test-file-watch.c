/* Every way of writing a file that is known to have been missed by somebody's watcher. Time is an
 * input of the watch, so nothing here waits for it to pass. */

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "file-watch.h"
#include "test.h"

struct place {
	char dir[PATH_MAX];
	struct file_watch *watch;
	uint64_t now;
};

/* "DIR/format": each call has its own buffer for as long as a test needs. */
__attribute__((format(printf, 2, 3))) static const char *at(
		const struct place *p, const char *format, ...)
{
	static char paths[16][PATH_MAX];
	static unsigned next;
	char *path = paths[next++ % 16];
	int used = snprintf(path, PATH_MAX, "%s/", p->dir);
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(path + used, (size_t) (PATH_MAX - used), format, arguments);
	va_end(arguments);
	return path;
}

static int place_setup(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	(void) snprintf(p->dir, sizeof(p->dir), "/tmp/usher-watch-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	p->now = clock_boot_usec();
	*state = p;
	return 0;
}

static int place_teardown(void **state)
{
	struct place *p = *state;
	const char *const command[] = { "rm", "-rf", p->dir, NULL };
	pid_t child;

	file_watch_free(p->watch);
	child = fork();
	if (child == 0) {
		(void) execvp("rm", (char *const *) (uintptr_t) command);
		_exit(1);
	}
	free(p);
	return child < 0;
}

static int open_write(const char *path, int flags)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);

	assert_true(fd >= 0);
	return fd;
}

static void put(int fd, const char *text)
{
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void write_file(const char *path, const char *text)
{
	int fd = open_write(path, O_TRUNC);

	put(fd, text);
	assert_int_equal(close(fd), 0);
}

static void make_link(const char *target, const char *path)
{
	assert_int_equal(symlink(target, path), 0);
}

static void make_dir(const char *path)
{
	assert_int_equal(mkdir(path, 0755), 0);
}

static void move(const char *from, const char *to)
{
	assert_int_equal(rename(from, to), 0);
}

static void replace_file(const struct place *p, const char *path, const char *text)
{
	write_file(at(p, "new.tmp"), text);
	move(at(p, "new.tmp"), path);
}

static void watch_path(struct place *p, const char *path)
{
	p->watch = file_watch_free(p->watch);
	assert_ok(file_watch_new(path, &p->watch));
	p->now = clock_boot_usec();
}

/* How long after the events until the change is told; 0: it never is. */
static uint64_t told_after(struct place *p)
{
	uint64_t due;

	assert_int_equal(file_watch_check(p->watch, p->now), 0);
	due = file_watch_due_usec(p->watch);
	if (due - p->now > FILE_WATCH_OPEN_USEC - 1000)
		return 0; /* nothing has been noticed: that is the time of the next look */
	assert_int_equal(file_watch_check(p->watch, due - 1), 0);
	if (file_watch_check(p->watch, due) == 0)
		due = p->now;
	due -= p->now;
	p->now += due;
	return due;
}

#define assert_told(p)         assert_int_equal(told_after(p), FILE_WATCH_SETTLE_USEC)
#define assert_told_at_once(p) assert_int_equal(told_after(p), FILE_WATCH_WHOLE_USEC)
#define assert_not_told(p)     assert_int_equal(told_after(p), 0)

static void rewriting_in_place_is_told_once(void **state)
{
	struct place *p = *state;

	write_file(at(p, "ep.yaml"), "one");
	watch_path(p, at(p, "ep.yaml"));
	assert_not_told(p);
	write_file(at(p, "ep.yaml"), "two");
	assert_told(p);
	assert_not_told(p);
}

static void a_slow_writer_is_waited_for(void **state)
{
	struct place *p = *state;
	int fd;

	write_file(at(p, "ep.yaml"), "one");
	watch_path(p, at(p, "ep.yaml"));
	fd = open_write(at(p, "ep.yaml"), O_TRUNC);
	assert_int_equal(file_watch_check(p->watch, p->now), 0);
	p->now += FILE_WATCH_SETTLE_USEC * 6;
	put(fd, "first half");
	assert_int_equal(file_watch_check(p->watch, p->now), 0);
	p->now += FILE_WATCH_SETTLE_USEC * 6;
	put(fd, "second half");
	assert_int_equal(file_watch_check(p->watch, p->now), 0);
	p->now += FILE_WATCH_SETTLE_USEC;
	assert_int_equal(close(fd), 0);
	assert_int_equal(file_watch_check(p->watch, p->now), 1); /* it has waited long enough */
}

static void a_new_file_is_not_told_while_it_is_still_empty(void **state)
{
	struct place *p = *state;
	int fd;

	watch_path(p, at(p, "ep.yaml"));
	fd = open_write(at(p, "ep.yaml"), O_TRUNC);
	assert_int_equal(file_watch_check(p->watch, p->now), 0);
	assert_int_equal(file_watch_check(p->watch, p->now + FILE_WATCH_SETTLE_USEC * 2), 0);
	put(fd, "all");
	assert_int_equal(close(fd), 0);
	assert_told(p);
}

static void a_writer_that_never_closes_is_not_waited_for_forever(void **state)
{
	struct place *p = *state;
	int fd;

	write_file(at(p, "ep.yaml"), "one");
	watch_path(p, at(p, "ep.yaml"));
	fd = open_write(at(p, "ep.yaml"), O_APPEND);
	put(fd, "two");
	assert_int_equal(told_after(p), FILE_WATCH_WRITER_USEC);
	assert_int_equal(close(fd), 0);
	assert_told(p);
}

static void every_atomic_replacement_is_told(void **state)
{
	struct place *p = *state;

	write_file(at(p, "ep.yaml"), "one");
	watch_path(p, at(p, "ep.yaml"));
	for (int i = 0; i < 3; i++) {
		replace_file(p, at(p, "ep.yaml"), "next");
		assert_told_at_once(p);
	}
}

static void neighbours_and_swap_files_are_not_told(void **state)
{
	struct place *p = *state;

	write_file(at(p, "ep.yaml"), "one");
	watch_path(p, at(p, "ep.yaml"));
	write_file(at(p, ".ep.yaml.swp"), "b0VIM");
	write_file(at(p, "ep.yaml~"), "one");
	assert_int_equal(unlink(at(p, ".ep.yaml.swp")), 0);
	make_dir(at(p, "other"));
	assert_not_told(p);
	write_file(at(p, "ep.yaml"), "two");
	assert_told(p);
}

static void deleting_and_making_again_are_told(void **state)
{
	struct place *p = *state;

	write_file(at(p, "ep.yaml"), "one");
	watch_path(p, at(p, "ep.yaml"));
	assert_int_equal(unlink(at(p, "ep.yaml")), 0);
	assert_told(p);
	write_file(at(p, "ep.yaml"), "two");
	assert_told(p);
}

static void becoming_readable_is_told(void **state)
{
	struct place *p = *state;

	write_file(at(p, "ep.yaml"), "one");
	assert_int_equal(chmod(at(p, "ep.yaml"), 0000), 0);
	watch_path(p, at(p, "ep.yaml"));
	assert_int_equal(chmod(at(p, "ep.yaml"), 0644), 0);
	assert_told(p);
}

/* The layout of kubelet's AtomicWriter. */
static void make_configmap(const struct place *p)
{
	make_dir(at(p, "cm"));
	make_dir(at(p, "cm/..2026_01"));
	write_file(at(p, "cm/..2026_01/ep.yaml"), "one");
	make_link("..2026_01", at(p, "cm/..data"));
	make_link("..data/ep.yaml", at(p, "cm/ep.yaml"));
}

static void update_configmap(const struct place *p, const char *from, const char *to)
{
	make_dir(at(p, "cm/%s", to));
	write_file(at(p, "cm/%s/ep.yaml", to), to);
	make_link(to, at(p, "cm/..data_tmp"));
	move(at(p, "cm/..data_tmp"), at(p, "cm/..data"));
	assert_int_equal(unlink(at(p, "cm/%s/ep.yaml", from)), 0);
	assert_int_equal(rmdir(at(p, "cm/%s", from)), 0);
}

static void a_configmap_update_is_told_for_the_file(void **state)
{
	struct place *p = *state;

	make_configmap(p);
	watch_path(p, at(p, "cm/ep.yaml"));
	update_configmap(p, "..2026_01", "..2026_02");
	assert_told_at_once(p);
	update_configmap(p, "..2026_02", "..2026_03");
	assert_told_at_once(p);
	assert_not_told(p);
}

static void a_configmap_update_is_told_for_the_folder(void **state)
{
	struct place *p = *state;

	make_configmap(p);
	watch_path(p, at(p, "cm"));
	update_configmap(p, "..2026_01", "..2026_02");
	assert_told_at_once(p);
	update_configmap(p, "..2026_02", "..2026_03");
	assert_told_at_once(p);
}

static void a_link_in_the_middle_of_the_way_is_followed(void **state)
{
	struct place *p = *state;

	make_dir(at(p, "v1"));
	make_dir(at(p, "v2"));
	write_file(at(p, "v1/ep.yaml"), "one");
	write_file(at(p, "v2/ep.yaml"), "two");
	make_link(at(p, "v1"), at(p, "current"));
	make_link("current", at(p, "live"));
	watch_path(p, at(p, "live/ep.yaml"));

	make_link("v2", at(p, "tmp"));
	move(at(p, "tmp"), at(p, "current"));
	assert_told_at_once(p);
	write_file(at(p, "v1/ep.yaml"), "nobody looks here now");
	assert_not_told(p);
	write_file(at(p, "v2/ep.yaml"), "three");
	assert_told(p);
}

static void a_replaced_folder_is_followed(void **state)
{
	struct place *p = *state;

	make_dir(at(p, "plain"));
	write_file(at(p, "plain/ep.yaml"), "one");
	watch_path(p, at(p, "plain/ep.yaml"));
	make_dir(at(p, "plain.new"));
	write_file(at(p, "plain.new/ep.yaml"), "two");
	move(at(p, "plain"), at(p, "plain.old"));
	move(at(p, "plain.new"), at(p, "plain"));
	assert_told_at_once(p);
	write_file(at(p, "plain.old/ep.yaml"), "nobody looks here now");
	assert_not_told(p);
	write_file(at(p, "plain/ep.yaml"), "three");
	assert_told(p);
}

static void a_path_that_does_not_exist_is_waited_for(void **state)
{
	struct place *p = *state;

	watch_path(p, at(p, "a/b/ep.yaml"));
	assert_not_told(p);
	make_dir(at(p, "a"));
	assert_not_told(p);
	make_dir(at(p, "a/b"));
	write_file(at(p, "a/b/ep.yaml"), "one");
	assert_told(p);
	write_file(at(p, "a/b/ep.yaml"), "two");
	assert_told(p);
}

static void a_whole_tree_moved_into_place_is_told(void **state)
{
	struct place *p = *state;

	watch_path(p, at(p, "a/b/ep.yaml"));
	make_dir(at(p, "t"));
	make_dir(at(p, "t/b"));
	write_file(at(p, "t/b/ep.yaml"), "one");
	move(at(p, "t"), at(p, "a"));
	assert_told_at_once(p);
}

static void any_entry_of_a_folder_is_told(void **state)
{
	struct place *p = *state;

	make_dir(at(p, "d"));
	watch_path(p, at(p, "d"));
	write_file(at(p, "d/one.yaml"), "one");
	assert_told(p);
	write_file(at(p, "d/two.yaml"), "two");
	assert_told(p);
	assert_int_equal(unlink(at(p, "d/one.yaml")), 0);
	assert_told(p);
	write_file(at(p, "beside.yaml"), "no");
	assert_not_told(p);
}

static void what_a_folder_links_to_is_told(void **state)
{
	struct place *p = *state;

	make_dir(at(p, "d"));
	make_dir(at(p, "elsewhere"));
	write_file(at(p, "elsewhere/ep.yaml"), "one");
	make_link("../elsewhere/ep.yaml", at(p, "d/ep.yaml"));
	watch_path(p, at(p, "d"));
	replace_file(p, at(p, "elsewhere/ep.yaml"), "two");
	assert_told_at_once(p);
	write_file(at(p, "elsewhere/other.yaml"), "no");
	assert_not_told(p);
}

static void a_link_made_in_a_folder_is_told_at_once(void **state)
{
	struct place *p = *state;

	make_dir(at(p, "d"));
	write_file(at(p, "ep.yaml"), "one");
	watch_path(p, at(p, "d"));
	make_link("../ep.yaml", at(p, "d/soft.yaml"));
	assert_told_at_once(p);
	assert_int_equal(link(at(p, "ep.yaml"), at(p, "d/hard.yaml")), 0);
	assert_told_at_once(p);
}

static void two_writers_are_both_waited_for(void **state)
{
	struct place *p = *state;
	int one, two;

	make_dir(at(p, "d"));
	watch_path(p, at(p, "d"));
	one = open_write(at(p, "d/one.yaml"), O_TRUNC);
	two = open_write(at(p, "d/two.yaml"), O_TRUNC);
	put(one, "one");
	put(two, "half of ");
	assert_int_equal(close(one), 0);
	assert_int_equal(file_watch_check(p->watch, p->now), 0);
	assert_int_equal(file_watch_check(p->watch, p->now + FILE_WATCH_SETTLE_USEC * 2), 0);
	put(two, "two");
	assert_int_equal(close(two), 0);
	assert_told(p);
}

static void a_burst_of_replacements_is_told_within_its_bound(void **state)
{
	struct place *p = *state;
	uint64_t first;
	int told = 0;

	write_file(at(p, "ep.yaml"), "one");
	watch_path(p, at(p, "ep.yaml"));
	first = p->now;
	while (!told) {
		replace_file(p, at(p, "ep.yaml"), "next");
		told = file_watch_check(p->watch, p->now);
		assert_ok(told);
		p->now += FILE_WATCH_SETTLE_USEC / 2;
		assert_true(p->now - first <= FILE_WATCH_BUSY_USEC + FILE_WATCH_SETTLE_USEC);
	}
}

static void what_is_written_beside_does_not_delay_a_replacement(void **state)
{
	struct place *p = *state;
	int swap;

	make_dir(at(p, "d"));
	write_file(at(p, "d/ep.yaml"), "one");
	watch_path(p, at(p, "d"));
	swap = open_write(at(p, "d/.ep.yaml.swp"), O_TRUNC);
	put(swap, "b0VIM");
	write_file(at(p, "d/ep.yaml.new"), "two");
	move(at(p, "d/ep.yaml.new"), at(p, "d/ep.yaml"));
	assert_told_at_once(p);
	assert_int_equal(close(swap), 0);
}

static void a_writer_in_place_delays_a_replacement_of_its_neighbour(void **state)
{
	struct place *p = *state;
	int fd;

	make_dir(at(p, "d"));
	write_file(at(p, "new"), "one");
	watch_path(p, at(p, "d"));
	fd = open_write(at(p, "d/two.yaml"), O_TRUNC);
	put(fd, "half of ");
	move(at(p, "new"), at(p, "d/one.yaml"));
	assert_int_equal(file_watch_check(p->watch, p->now), 0);
	assert_int_equal(file_watch_check(p->watch, p->now + FILE_WATCH_SETTLE_USEC * 2), 0);
	put(fd, "two");
	assert_int_equal(close(fd), 0);
	assert_told(p);
}

/* More names than are followed. */
static void a_crowd_of_writers_is_settled_for(void **state)
{
	struct place *p = *state;

	make_dir(at(p, "d"));
	write_file(at(p, "new"), "one");
	watch_path(p, at(p, "d"));
	for (int i = 0; i < 40; i++)
		write_file(at(p, "d/%d.yaml", i), "one");
	move(at(p, "new"), at(p, "d/one.yaml"));
	assert_told(p);
}

static void a_flood_of_replacements_is_told_within_its_bound(void **state)
{
	struct place *p = *state;
	uint64_t first;
	int told = 0;

	write_file(at(p, "ep.yaml"), "one");
	watch_path(p, at(p, "ep.yaml"));
	first = p->now;
	while (!told) {
		replace_file(p, at(p, "ep.yaml"), "next");
		told = file_watch_check(p->watch, p->now);
		assert_ok(told);
		p->now += FILE_WATCH_WHOLE_USEC / 2;
	}
	assert_in_range(p->now - first, FILE_WATCH_SETTLE_USEC,
			FILE_WATCH_SETTLE_USEC + FILE_WATCH_WHOLE_USEC);
}

static void a_reader_that_takes_long_is_told_later(void **state)
{
	struct place *p = *state;

	write_file(at(p, "ep.yaml"), "one");
	watch_path(p, at(p, "ep.yaml"));
	replace_file(p, at(p, "ep.yaml"), "two");
	assert_told_at_once(p);
	p->now += 5000;
	file_watch_rest(p->watch, p->now);
	replace_file(p, at(p, "ep.yaml"), "three");
	assert_int_equal(told_after(p), 20000);
	p->now += 1000000;
	file_watch_rest(p->watch, p->now);
	p->now += 1000000;
	file_watch_rest(p->watch, p->now);
	replace_file(p, at(p, "ep.yaml"), "four");
	assert_told_at_once(p);
}

static void an_overflowing_queue_is_a_change(void **state)
{
	struct place *p = *state;

	write_file(at(p, "ep.yaml"), "one");
	watch_path(p, at(p, "ep.yaml"));
	for (int i = 0; i < 10000; i++) {
		write_file(at(p, "noise"), "");
		assert_int_equal(unlink(at(p, "noise")), 0);
	}
	write_file(at(p, "ep.yaml"), "two");
	assert_told(p);
	write_file(at(p, "ep.yaml"), "three");
	assert_told(p);
}

static void a_circle_of_links_is_survived_and_its_end_is_told(void **state)
{
	struct place *p = *state;

	make_link("b", at(p, "a"));
	make_link("a", at(p, "b"));
	watch_path(p, at(p, "a"));
	assert_not_told(p);
	assert_int_equal(unlink(at(p, "b")), 0);
	write_file(at(p, "b"), "an end");
	assert_told(p);
}

static void without_inotify_the_path_is_looked_at(void **state)
{
	struct place *p = *state;
	struct rlimit before, none;

	write_file(at(p, "ep.yaml"), "one");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	watch_path(p, at(p, "ep.yaml"));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(file_watch_fd(p->watch), -1);
	assert_non_null(strstr(file_watch_weakness(p->watch), "max_user_instances"));

	replace_file(p, at(p, "ep.yaml"), "two");
	assert_int_equal(file_watch_check(p->watch, p->now), 0);
	assert_int_equal(file_watch_check(p->watch, file_watch_due_usec(p->watch)), 1);
	assert_int_equal(file_watch_check(p->watch, file_watch_due_usec(p->watch)), 0);
}

static void the_descriptor_is_ready_when_something_happened(void **state)
{
	struct place *p = *state;
	struct pollfd ready = { .events = POLLIN };

	write_file(at(p, "ep.yaml"), "one");
	watch_path(p, at(p, "ep.yaml"));
	assert_null(file_watch_weakness(p->watch));
	ready.fd = file_watch_fd(p->watch);
	replace_file(p, at(p, "ep.yaml"), "two");
	assert_int_equal(poll(&ready, 1, 10000), 1);
}

static void a_relative_path_is_refused(void **state)
{
	struct file_watch *watch = NULL;

	(void) state;
	assert_errno(file_watch_new("ep.yaml", &watch), EINVAL);
	assert_null(watch);
}

static int make_and_free(void *userdata)
{
	cleanup(file_watch_freep) struct file_watch *watch = NULL;

	return file_watch_new(userdata, &watch);
}

static void running_out_of_memory_leaks_nothing(void **state)
{
	struct place *p = *state;
	autofree char *path = strdup(at(p, "cm/ep.yaml"));

	make_configmap(p);
	assert_survives_oom(make_and_free, path);
}

static void settling_is_bounded(void **state)
{
	static const struct {
		uint64_t first, last;
		enum file_watch_calm calm;
		uint64_t due;
	} cases[] = {
		{ 1000, 1000, FILE_WATCH_WHOLE, 1000 + FILE_WATCH_WHOLE_USEC },
		{ 0, 30000, FILE_WATCH_WHOLE, 30000 + FILE_WATCH_WHOLE_USEC },
		{ 0, 49000, FILE_WATCH_WHOLE, FILE_WATCH_SETTLE_USEC },
		{ 1000, 1000, FILE_WATCH_SETTLING, 1000 + FILE_WATCH_SETTLE_USEC },
		{ 0, 400000, FILE_WATCH_SETTLING, 400000 + FILE_WATCH_SETTLE_USEC },
		{ 0, 490000, FILE_WATCH_SETTLING, FILE_WATCH_BUSY_USEC },
		{ 0, 0, FILE_WATCH_WRITING, FILE_WATCH_WRITER_USEC },
		{ 0, 4900000, FILE_WATCH_WRITING, FILE_WATCH_OPEN_USEC },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++)
		assert_int_equal(file_watch_settled_usec(
						 cases[i].first, cases[i].last, cases[i].calm),
				cases[i].due);
}

static void the_rest_after_a_reading_is_bounded(void **state)
{
	(void) state;
	assert_int_equal(file_watch_rested_usec(1000, 1000), 1000);
	assert_int_equal(file_watch_rested_usec(1000, 2000), 6000);
	assert_int_equal(file_watch_rested_usec(1000, 901000), 901000 + FILE_WATCH_SETTLE_USEC);
}

#define watch_test(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		watch_test(rewriting_in_place_is_told_once),
		watch_test(a_slow_writer_is_waited_for),
		watch_test(a_new_file_is_not_told_while_it_is_still_empty),
		watch_test(a_writer_that_never_closes_is_not_waited_for_forever),
		watch_test(every_atomic_replacement_is_told),
		watch_test(neighbours_and_swap_files_are_not_told),
		watch_test(deleting_and_making_again_are_told),
		watch_test(becoming_readable_is_told),
		watch_test(a_configmap_update_is_told_for_the_file),
		watch_test(a_configmap_update_is_told_for_the_folder),
		watch_test(a_link_in_the_middle_of_the_way_is_followed),
		watch_test(a_replaced_folder_is_followed),
		watch_test(a_path_that_does_not_exist_is_waited_for),
		watch_test(a_whole_tree_moved_into_place_is_told),
		watch_test(any_entry_of_a_folder_is_told),
		watch_test(what_a_folder_links_to_is_told),
		watch_test(a_link_made_in_a_folder_is_told_at_once),
		watch_test(two_writers_are_both_waited_for),
		watch_test(a_burst_of_replacements_is_told_within_its_bound),
		watch_test(what_is_written_beside_does_not_delay_a_replacement),
		watch_test(a_writer_in_place_delays_a_replacement_of_its_neighbour),
		watch_test(a_crowd_of_writers_is_settled_for),
		watch_test(a_flood_of_replacements_is_told_within_its_bound),
		watch_test(a_reader_that_takes_long_is_told_later),
		watch_test(an_overflowing_queue_is_a_change),
		watch_test(a_circle_of_links_is_survived_and_its_end_is_told),
		watch_test(without_inotify_the_path_is_looked_at),
		watch_test(the_descriptor_is_ready_when_something_happened),
		watch_test(running_out_of_memory_leaks_nothing),
		cmocka_unit_test(a_relative_path_is_refused),
		cmocka_unit_test(settling_is_bounded),
		cmocka_unit_test(the_rest_after_a_reading_is_bounded),
	};

	return cmocka_run_group_tests_name("file-watch", tests, NULL, NULL);
}
