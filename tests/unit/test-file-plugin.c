/* The plug-in file, run against a host that is played: what it says of services as files come,
 * change, break and go. A test is a list of steps; each is what happens during one of the plug-in's
 * waits. */

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fake-source.h"
#include "file.h"
#include "files.h"
#include "test.h"

extern const struct usher_plugin usher_plugin;

#define STEPS_MAX 12

struct scene {
	struct usher_source source;
	struct file_plugin plugin;
	char folder[64];
	char path[128];
	/* Each returns what the wait returns; a NULL ends the run. */
	int (*steps[STEPS_MAX])(struct scene *s);
};

static int remove_one(const char *path, const struct stat *s, int flag, struct FTW *ftw)
{
	(void) s;
	(void) flag;
	(void) ftw;
	return remove(path);
}

/* What the plug-in takes for the time: that of the newest file, so that none ages while a busy
 * machine lets the test wait. */
static struct timespec wall;

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	if (clock != CLOCK_REALTIME)
		return (int) syscall(SYS_clock_gettime, clock, ret);
	*ret = wall;
	return 0;
}

static int note_time(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	const struct timespec *changed = &st->st_ctim;

	(void) path;
	(void) flag;
	(void) ftw;
	if (changed->tv_sec > wall.tv_sec ||
			(changed->tv_sec == wall.tv_sec && changed->tv_nsec > wall.tv_nsec))
		wall = *changed;
	return 0;
}

static void wind_to_the_newest_file(struct scene *s)
{
	assert_int_equal(nftw(s->folder, note_time, 8, FTW_PHYS), 0);
}

static int take_step(struct usher_source *source, const struct usher_wait *wait, unsigned number)
{
	struct scene *s = source->userdata;
	int r;

	assert_string_equal(wait->path, s->plugin.path);
	assert_true(wait->timeout_usec > 0);
	if (number == 0)
		return USHER_WAIT_TIMEOUT;
	assert_true(number - 1 < STEPS_MAX);
	r = s->steps[number - 1] ? s->steps[number - 1](s) : 0;
	wind_to_the_newest_file(s);
	return r;
}

static int setup(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	(void) snprintf(s->folder, sizeof(s->folder), "/tmp/usher-test-file-XXXXXX");
	assert_non_null(mkdtemp(s->folder));
	s->plugin = (struct file_plugin){
		.path = s->folder,
		.poll_usec = 5000000,
		.service_label = "service",
	};
	s->source.on_wait = take_step;
	s->source.userdata = s;
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct scene *s = *state;

	fake_source_done(&s->source);
	(void) nftw(s->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(s);
	return 0;
}

static const char *path_in(struct scene *s, const char *name)
{
	(void) snprintf(s->path, sizeof(s->path), "%s/%s", s->folder, name);
	return s->path;
}

static void write_in_place(struct scene *s, const char *name, const char *text)
{
	FILE *f = fopen(path_in(s, name), "we");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* By a rename, as what knows how to write files does. */
static void put(struct scene *s, const char *name, const char *text)
{
	char temporary[160];

	write_in_place(s, ".new", text);
	(void) snprintf(temporary, sizeof(temporary), "%s", s->path);
	assert_int_equal(rename(temporary, path_in(s, name)), 0);
}

static void want(struct scene *s, const char *service)
{
	fake_source_want(&s->source, service, service, NULL);
}

static struct fake_answer *answer(struct scene *s, const char *service)
{
	return fake_source_answer(&s->source, service);
}

static void run(struct scene *s)
{
	wind_to_the_newest_file(s);
	assert_int_equal(usher_plugin.discovery->run(&s->plugin, &s->source), 0);
}

#define CATALOG_TWO                                      \
	"services:\n"                                    \
	"  catalog:\n"                                   \
	"    - {id: a, address: 10.0.0.5, port: 8080}\n" \
	"    - {id: b, address: 10.0.0.6, port: 8080, zone: east}\n"
#define CATALOG_ONE    \
	"services:\n"  \
	"  catalog:\n" \
	"    - {id: a, address: 10.0.0.5, port: 8080}\n"
#define SEARCH_ONE    \
	"services:\n" \
	"  search:\n" \
	"    - {id: s, address: 10.0.1.5, port: 8080}\n"

/* ---- from here on, each test with its steps ---- */

static void a_service_of_a_folder_is_offered(void **state)
{
	struct scene *s = *state;

	put(s, "a.yaml", CATALOG_TWO);
	want(s, "catalog");
	run(s);
	assert_int_equal(answer(s, "catalog")->offers, 1);
	assert_int_equal(usher_endpoints_count(answer(s, "catalog")->set), 2);
	assert_int_equal(answer(s, "catalog")->verdict, USHER_FRESH);
	assert_true(fake_source_knows(&s->source, "catalog"));
}

static int wait_for_the_poll(struct scene *s)
{
	(void) s;
	return USHER_WAIT_TIMEOUT;
}

static void a_look_at_an_unchanged_file_confirms(void **state)
{
	struct scene *s = *state;

	put(s, "a.yaml", CATALOG_TWO);
	want(s, "catalog");
	s->steps[0] = wait_for_the_poll;
	s->steps[1] = wait_for_the_poll;
	run(s);
	assert_int_equal(answer(s, "catalog")->offers, 1);
	assert_int_equal(answer(s, "catalog")->confirms, 2);
}

static int replace_by_one(struct scene *s)
{
	put(s, "a.yaml", CATALOG_ONE);
	return USHER_WAIT_PATH;
}

static void a_file_that_is_replaced_is_offered_anew(void **state)
{
	struct scene *s = *state;

	put(s, "a.yaml", CATALOG_TWO);
	want(s, "catalog");
	s->steps[0] = replace_by_one;
	run(s);
	assert_int_equal(usher_endpoints_count(answer(s, "catalog")->set), 1);
	assert_int_equal(answer(s, "catalog")->verdict, USHER_FRESH);
}

static int write_the_same_again(struct scene *s)
{
	put(s, "a.yaml", CATALOG_TWO);
	return USHER_WAIT_PATH;
}

static void a_file_written_again_with_the_same_words_confirms(void **state)
{
	struct scene *s = *state;

	put(s, "a.yaml", CATALOG_TWO);
	want(s, "catalog");
	s->steps[0] = write_the_same_again;
	run(s);
	assert_int_equal(answer(s, "catalog")->offers, 1);
	assert_int_equal(answer(s, "catalog")->confirms, 1);
}

static int replace_by_nothing(struct scene *s)
{
	put(s, "a.yaml", "");
	return USHER_WAIT_PATH;
}

static int replace_by_half(struct scene *s)
{
	struct fake_answer *a = answer(s, "catalog");

	assert_int_equal(a->code, -EBADMSG);
	assert_non_null(strstr(a->text, "is empty"));
	put(s, "a.yaml", "services:\n  catalog:\n    - {id: a, addr");
	return USHER_WAIT_PATH;
}

static int replace_by_null(struct scene *s)
{
	struct fake_answer *a = answer(s, "catalog");

	assert_int_equal(a->code, -EBADMSG);
	assert_non_null(strstr(a->text, "cut off"));
	put(s, "a.yaml", "services:\n  catalog:\n");
	return USHER_WAIT_PATH;
}

static int replace_by_other_service(struct scene *s)
{
	struct fake_answer *a = answer(s, "catalog");

	assert_int_equal(a->code, -EBADMSG);
	assert_non_null(strstr(a->text, "a.yaml:2:11: catalog: has no value"));
	put(s, "a.yaml", SEARCH_ONE);
	return USHER_WAIT_PATH;
}

static int remove_the_file(struct scene *s)
{
	struct fake_answer *a = answer(s, "catalog");

	assert_int_equal(a->code, -ENOENT);
	assert_non_null(strstr(a->text, "`catalog: []`"));
	assert_int_equal(unlink(path_in(s, "a.yaml")), 0);
	return USHER_WAIT_PATH;
}

static void promise_p2_no_failure_of_a_file_empties_a_service(void **state)
{
	struct scene *s = *state;

	put(s, "a.yaml", CATALOG_TWO);
	want(s, "catalog");
	s->steps[0] = replace_by_nothing;
	s->steps[1] = replace_by_half;
	s->steps[2] = replace_by_null;
	s->steps[3] = replace_by_other_service;
	s->steps[4] = remove_the_file;
	run(s);
	assert_int_equal(answer(s, "catalog")->offers, 1);
	assert_int_equal(answer(s, "catalog")->fails, 5);
	assert_int_equal(usher_endpoints_count(answer(s, "catalog")->set), 2);
	assert_int_equal(answer(s, "catalog")->code, -ENOENT);
}

static int replace_by_empty_list(struct scene *s)
{
	put(s, "a.yaml", "services:\n  catalog: []\n");
	return USHER_WAIT_PATH;
}

static void an_empty_list_written_on_purpose_is_empty(void **state)
{
	struct scene *s = *state;

	put(s, "a.yaml", CATALOG_TWO);
	want(s, "catalog");
	s->steps[0] = replace_by_empty_list;
	run(s);
	assert_int_equal(answer(s, "catalog")->offers, 2);
	assert_int_equal(usher_endpoints_count(answer(s, "catalog")->set), 0);
}

static int break_the_other_file(struct scene *s)
{
	put(s, "b.yaml", "services: {search: [{id: s}]}\n");
	return USHER_WAIT_PATH;
}

static void a_broken_file_fails_its_own_services_only(void **state)
{
	struct scene *s = *state;

	put(s, "a.yaml", CATALOG_TWO);
	put(s, "b.yaml", SEARCH_ONE);
	want(s, "catalog");
	want(s, "search");
	s->steps[0] = break_the_other_file;
	s->steps[1] = wait_for_the_poll;
	run(s);
	assert_int_equal(answer(s, "catalog")->fails, 0);
	assert_int_equal(answer(s, "search")->fails, 2);
	assert_non_null(strstr(answer(s, "search")->text, "b.yaml:1:21: address: is missing"));
	assert_int_equal(usher_endpoints_count(answer(s, "search")->set), 1);
	assert_true(fake_source_knows(&s->source, "search"));
}

static void a_service_that_a_broken_file_may_hold_is_not_called_absent(void **state)
{
	struct scene *s = *state;

	put(s, "a.yaml", CATALOG_TWO);
	put(s, "b.yaml", "services: {search: [\n");
	want(s, "catalog");
	want(s, "search");
	run(s);
	assert_int_equal(answer(s, "catalog")->code, 0);
	assert_int_equal(answer(s, "search")->code, -EBADMSG);
	assert_non_null(strstr(answer(s, "search")->text, "b.yaml:"));
}

#define CATALOG_AND(port)                                \
	"services:\n"                                    \
	"  catalog:\n"                                   \
	"    - {id: a, address: 10.0.0.5, port: 8080}\n" \
	"  search:\n"                                    \
	"    - {id: s, address: 10.0.1.5, port: " port "}\n"

static const struct usher_endpoints *set_before;

static int move_search(struct scene *s)
{
	set_before = answer(s, "catalog")->set;
	put(s, "a.yaml", CATALOG_AND("8081"));
	return USHER_WAIT_PATH;
}

static void what_stays_the_same_in_a_file_is_held_once(void **state)
{
	struct scene *s = *state;

	put(s, "a.yaml", CATALOG_AND("8080"));
	want(s, "catalog");
	want(s, "search");
	s->steps[0] = move_search;
	run(s);
	assert_ptr_equal(answer(s, "catalog")->set, set_before);
	assert_int_equal(answer(s, "search")->offers, 2);
}

static void a_service_in_two_files_is_refused_with_both_places(void **state)
{
	struct scene *s = *state;

	put(s, "a.yaml", CATALOG_TWO);
	put(s, "b.yaml", CATALOG_ONE);
	want(s, "catalog");
	run(s);
	assert_int_equal(answer(s, "catalog")->code, -EEXIST);
	assert_non_null(strstr(answer(s, "catalog")->text, "/a.yaml:3:5"));
	assert_non_null(strstr(answer(s, "catalog")->text, "/b.yaml:3:5"));
	assert_null(answer(s, "catalog")->set);
}

static void leftovers_and_hidden_files_are_not_read(void **state)
{
	struct scene *s = *state;

	put(s, "a.yaml", CATALOG_ONE);
	write_in_place(s, ".b.yaml", CATALOG_TWO);
	write_in_place(s, ".a.yaml.swp", "garbage");
	write_in_place(s, "a.yaml~", CATALOG_TWO);
	write_in_place(s, "#a.yaml#", CATALOG_TWO);
	write_in_place(s, "a.yaml.bak", CATALOG_TWO);
	write_in_place(s, ".a.yaml.usher-Xy12Ab", CATALOG_TWO);
	assert_int_equal(mkdir(path_in(s, "sub.yaml"), 0755), 0);
	want(s, "catalog");
	run(s);
	assert_int_equal(answer(s, "catalog")->code, 0);
	assert_int_equal(usher_endpoints_count(answer(s, "catalog")->set), 1);
}

static int swap_the_data_link(struct scene *s)
{
	char data[160];

	assert_int_equal(mkdir(path_in(s, "..2026_02"), 0755), 0);
	write_in_place(s, "..2026_02/a.yaml", CATALOG_TWO);
	assert_int_equal(symlink("..2026_02", path_in(s, "..data_tmp")), 0);
	(void) snprintf(data, sizeof(data), "%s", path_in(s, "..data_tmp"));
	assert_int_equal(rename(data, path_in(s, "..data")), 0);
	return USHER_WAIT_PATH;
}

static void the_link_of_a_mounted_configmap_is_followed(void **state)
{
	struct scene *s = *state;

	assert_int_equal(mkdir(path_in(s, "..2026_01"), 0755), 0);
	write_in_place(s, "..2026_01/a.yaml", CATALOG_ONE);
	assert_int_equal(symlink("..2026_01", path_in(s, "..data")), 0);
	assert_int_equal(symlink("..data/a.yaml", path_in(s, "a.yaml")), 0);
	want(s, "catalog");
	s->steps[0] = swap_the_data_link;
	run(s);
	assert_int_equal(answer(s, "catalog")->offers, 2);
	assert_int_equal(usher_endpoints_count(answer(s, "catalog")->set), 2);
}

/* How old a change is, is the kernel's word: so that time has to pass, or the next one is not
 * newer. */
static void let_changes_age(void)
{
	const struct timespec nap = { .tv_sec = 1, .tv_nsec = 150000000 };

	(void) nanosleep(&nap, NULL);
	(void) syscall(SYS_clock_gettime, CLOCK_REALTIME, &wall);
}

static int cut_short_in_place(struct scene *s)
{
	write_in_place(s, "a.yaml", CATALOG_ONE);
	return USHER_WAIT_PATH;
}

static int let_it_settle(struct scene *s)
{
	assert_int_equal(answer(s, "catalog")->offers, 1);
	assert_int_equal(answer(s, "catalog")->confirms, 0);
	let_changes_age();
	return USHER_WAIT_TIMEOUT;
}

static int add_another_file(struct scene *s)
{
	assert_int_equal(answer(s, "catalog")->verdict, USHER_SUSPECT);
	put(s, "b.yaml", SEARCH_ONE);
	return USHER_WAIT_PATH;
}

static void a_file_cut_short_in_place_is_suspect(void **state)
{
	struct scene *s = *state;

	put(s, "a.yaml", CATALOG_TWO);
	want(s, "catalog");
	s->steps[0] = cut_short_in_place;
	s->steps[1] = let_it_settle;
	s->steps[2] = add_another_file;
	run(s);
	assert_int_equal(answer(s, "catalog")->offers, 3);
	assert_int_equal(answer(s, "catalog")->verdict, USHER_SUSPECT);
	assert_int_equal(usher_endpoints_count(answer(s, "catalog")->set), 1);
}

static int write_the_first_half(struct scene *s)
{
	write_in_place(s, "a.yaml", "services:\n  catalog:\n    - {id: a, addr");
	return USHER_WAIT_PATH;
}

static int write_the_rest(struct scene *s)
{
	assert_int_equal(answer(s, "catalog")->fails, 0);
	write_in_place(s, "a.yaml", CATALOG_TWO "    - {id: c, address: 10.0.0.7, port: 1}\n");
	return USHER_WAIT_PATH;
}

static void a_slow_writer_in_place_is_waited_for(void **state)
{
	struct scene *s = *state;

	put(s, "a.yaml", CATALOG_TWO);
	want(s, "catalog");
	s->steps[0] = write_the_first_half;
	s->steps[1] = write_the_rest;
	run(s);
	assert_int_equal(answer(s, "catalog")->fails, 0);
	assert_int_equal(usher_endpoints_count(answer(s, "catalog")->set), 3);
}

static int settle_broken(struct scene *s)
{
	(void) s;
	let_changes_age();
	return USHER_WAIT_TIMEOUT;
}

static void a_half_written_file_that_stays_so_is_a_failure(void **state)
{
	struct scene *s = *state;

	put(s, "a.yaml", CATALOG_TWO);
	want(s, "catalog");
	s->steps[0] = write_the_first_half;
	s->steps[1] = settle_broken;
	run(s);
	assert_int_equal(answer(s, "catalog")->code, -EBADMSG);
	assert_int_equal(usher_endpoints_count(answer(s, "catalog")->set), 2);
}

#define SLICE(name, address)                                                           \
	"{\"apiVersion\": \"discovery.k8s.io/v1\", \"kind\": \"EndpointSlice\", "      \
	"\"metadata\": {\"name\": \"" name "\", \"namespace\": \"shop\", \"labels\": " \
	"{\"kubernetes.io/service-name\": \"catalog\"}}, \"addressType\": \"IPv4\", "  \
	"\"endpoints\": [{\"addresses\": [\"" address "\"]}], \"ports\": [{\"port\": 80}]}"

static int remove_one_slice(struct scene *s)
{
	assert_int_equal(usher_endpoints_count(answer(s, "catalog")->set), 2);
	assert_int_equal(answer(s, "catalog")->verdict, USHER_FRESH);
	assert_int_equal(unlink(path_in(s, "2.json")), 0);
	return USHER_WAIT_PATH;
}

static void slices_in_several_files_are_one_service(void **state)
{
	struct scene *s = *state;

	put(s, "1.json", SLICE("catalog-1", "10.0.0.5"));
	put(s, "2.json", SLICE("catalog-2", "10.0.0.6"));
	want(s, "catalog");
	s->steps[0] = remove_one_slice;
	s->steps[1] = wait_for_the_poll;
	run(s);
	assert_int_equal(usher_endpoints_count(answer(s, "catalog")->set), 1);
	assert_int_equal(answer(s, "catalog")->verdict, USHER_SUSPECT);
	assert_int_equal(answer(s, "catalog")->confirms, 1);
}

static int create_the_file(struct scene *s)
{
	assert_int_equal(answer(s, "catalog")->code, -ENOENT);
	put(s, "only.yaml", CATALOG_ONE);
	return USHER_WAIT_PATH;
}

static int remove_it_again(struct scene *s)
{
	assert_int_equal(answer(s, "catalog")->code, 0);
	assert_int_equal(unlink(path_in(s, "only.yaml")), 0);
	return USHER_WAIT_PATH;
}

static void a_single_file_may_come_later_and_go(void **state)
{
	struct scene *s = *state;
	char path[128];

	(void) snprintf(path, sizeof(path), "%s", path_in(s, "only.yaml"));
	s->plugin.path = path;
	want(s, "catalog");
	s->steps[0] = create_the_file;
	s->steps[1] = remove_it_again;
	run(s);
	assert_int_equal(answer(s, "catalog")->code, -ENOENT);
	assert_int_equal(usher_endpoints_count(answer(s, "catalog")->set), 1);
	s->plugin.path = s->folder;
}

static int want_search_too(struct scene *s)
{
	want(s, "search");
	return USHER_WAIT_WANTED;
}

static void a_service_wanted_later_is_told_at_once(void **state)
{
	struct scene *s = *state;

	put(s, "a.yaml", CATALOG_TWO);
	put(s, "b.yaml", SEARCH_ONE);
	want(s, "catalog");
	s->steps[0] = want_search_too;
	run(s);
	assert_int_equal(answer(s, "search")->offers, 1);
}

static void a_port_asked_of_a_format_without_ports_is_refused(void **state)
{
	struct scene *s = *state;

	put(s, "a.yaml", CATALOG_TWO);
	fake_source_want(&s->source, "shop", "catalog", "http");
	run(s);
	assert_int_equal(answer(s, "shop")->code, -EINVAL);
	assert_non_null(strstr(answer(s, "shop")->text, "leave `port` away"));
}

static void a_name_in_the_registry_may_differ(void **state)
{
	struct scene *s = *state;

	put(s, "a.yaml", CATALOG_TWO);
	fake_source_want(&s->source, "shop", "catalog", NULL);
	run(s);
	assert_int_equal(usher_endpoints_count(answer(s, "shop")->set), 2);
}

static void a_pipe_under_the_name_does_not_hang(void **state)
{
	struct scene *s = *state;

	assert_int_equal(mkfifo(path_in(s, "a.yaml"), 0644), 0);
	want(s, "catalog");
	run(s);
	assert_int_equal(answer(s, "catalog")->code, -EINVAL);
}

static void a_folder_has_a_maximum_of_files(void **state)
{
	struct scene *s = *state;

	for (int i = 0; i <= FILES_MAX; i++) {
		char name[32];

		(void) snprintf(name, sizeof(name), "%d.yaml", i);
		assert_int_equal(
				close(open(path_in(s, name), O_CREAT | O_WRONLY | O_CLOEXEC, 0644)),
				0);
	}
	want(s, "catalog");
	run(s);
	assert_int_equal(answer(s, "catalog")->code, -E2BIG);
	assert_non_null(strstr(answer(s, "catalog")->text, "more than 10000 files"));
}

int main(void)
{
#define SCENE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		SCENE(a_service_of_a_folder_is_offered),
		SCENE(a_look_at_an_unchanged_file_confirms),
		SCENE(a_file_that_is_replaced_is_offered_anew),
		SCENE(a_file_written_again_with_the_same_words_confirms),
		SCENE(promise_p2_no_failure_of_a_file_empties_a_service),
		SCENE(an_empty_list_written_on_purpose_is_empty),
		SCENE(a_broken_file_fails_its_own_services_only),
		SCENE(a_service_that_a_broken_file_may_hold_is_not_called_absent),
		SCENE(what_stays_the_same_in_a_file_is_held_once),
		SCENE(a_service_in_two_files_is_refused_with_both_places),
		SCENE(leftovers_and_hidden_files_are_not_read),
		SCENE(the_link_of_a_mounted_configmap_is_followed),
		SCENE(a_file_cut_short_in_place_is_suspect),
		SCENE(a_slow_writer_in_place_is_waited_for),
		SCENE(a_half_written_file_that_stays_so_is_a_failure),
		SCENE(slices_in_several_files_are_one_service),
		SCENE(a_single_file_may_come_later_and_go),
		SCENE(a_service_wanted_later_is_told_at_once),
		SCENE(a_port_asked_of_a_format_without_ports_is_refused),
		SCENE(a_name_in_the_registry_may_differ),
		SCENE(a_folder_has_a_maximum_of_files),
		SCENE(a_pipe_under_the_name_does_not_hang),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
