/* Registration by the plug-in file: what a change leaves as it was, and what it does when it cannot
 * be made. */

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "file.h"
#include "format.h"
#include "test.h"

static const struct usher_wanted catalog = { .service = "catalog", .name = "catalog" };

struct scene {
	struct file_plugin plugin;
	char folder[64];
	char path[128];
	char text[65536];
};

static int remove_one(const char *path, const struct stat *s, int flag, struct FTW *ftw)
{
	(void) s;
	(void) flag;
	(void) ftw;
	return remove(path);
}

static int setup(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	(void) snprintf(s->folder, sizeof(s->folder), "/tmp/usher-test-registration-XXXXXX");
	assert_non_null(mkdtemp(s->folder));
	(void) snprintf(s->path, sizeof(s->path), "%s/endpoints.yaml", s->folder);
	s->plugin = (struct file_plugin){ .path = s->path, .service_label = "service" };
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct scene *s = *state;

	(void) nftw(s->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(s);
	return 0;
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static const char *read_file(struct scene *s, const char *path)
{
	FILE *f = fopen(path, "re");
	size_t n;

	assert_non_null(f);
	n = fread(s->text, 1, sizeof(s->text) - 1, f);
	s->text[n] = '\0';
	assert_int_equal(fclose(f), 0);
	return s->text;
}

static size_t count_entries(const char *folder)
{
	DIR *d = opendir(folder);
	size_t count = 0;

	assert_non_null(d);
	while (readdir(d))
		count++;
	assert_int_equal(closedir(d), 0);
	return count - 2;
}

static struct usher_endpoint endpoint_c(void)
{
	static const struct usher_label labels[] = { { "API_VERSION", "1.0" } };
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	e.id = "c";
	e.address = "fd00::10";
	e.port = 8443;
	e.secure = true;
	e.zone = "east";
	e.weight = 2;
	e.metadata = labels;
	e.metadata_count = 1;
	return e;
}

#define LINE_C \
	"{id: c, address: \"fd00::10\", port: 8443, secure: true, zone: east, weight: 2, metadata: {API_VERSION: \"1.0\"}}"
#define JSON_C                                                                                    \
	"{\"id\": \"c\", \"address\": \"fd00::10\", \"port\": 8443, \"secure\": true, \"zone\": " \
	"\"east\", \"weight\": 2, \"metadata\": {\"API_VERSION\": \"1.0\"}}"

enum what {
	ADD_C,
	REMOVE_A,
	REMOVE_B,
	DRAIN_A,
	READY_A,
	ADD_PLAIN_A,
};

struct edit_case {
	const char *about;
	enum what what;
	const char *before, *after;
};

static const struct edit_case edit_cases[] = {
	{ "a line is added with the indentation of the others", ADD_C,
			"# ours\n"
			"services:\n"
			"  catalog:   # the shop's\n"
			"    - {id: a, address: 10.0.0.5, port: 8080}  # rack 3\n"
			"\n"
			"    # the other one\n"
			"    - {id: b, address: 10.0.0.6, port: 8080}\n"
			"# end of catalog\n"
			"  search: []\n",
			"# ours\n"
			"services:\n"
			"  catalog:   # the shop's\n"
			"    - {id: a, address: 10.0.0.5, port: 8080}  # rack 3\n"
			"\n"
			"    # the other one\n"
			"    - {id: b, address: 10.0.0.6, port: 8080}\n"
			"    - " LINE_C "\n"
			"# end of catalog\n"
			"  search: []\n" },
	{ "a list that is not indented stays so", ADD_C,
			"services:\n"
			"  catalog:\n"
			"  - id: a\n"
			"    address: 10.0.0.5\n"
			"    port: 8080\n"
			"    metadata:\n"
			"      note: >-\n"
			"        # no comment\n"
			"        more\n"
			"  other: []\n",
			"services:\n"
			"  catalog:\n"
			"  - id: a\n"
			"    address: 10.0.0.5\n"
			"    port: 8080\n"
			"    metadata:\n"
			"      note: >-\n"
			"        # no comment\n"
			"        more\n"
			"  - " LINE_C "\n"
			"  other: []\n" },
	{ "an empty list opens up, and keeps its comment", ADD_C,
			"services:\n"
			"  catalog: []  # none yet\n"
			"  search: []\n",
			"services:\n"
			"  catalog:  # none yet\n"
			"    - " LINE_C "\n"
			"  search: []\n" },
	{ "a service is added below the key", ADD_C,
			"services: # all\n"
			"  # of the search\n"
			"  search: []\n",
			"services: # all\n"
			"  catalog:\n"
			"    - " LINE_C "\n"
			"  # of the search\n"
			"  search: []\n" },
	{ "a service is added to none", ADD_C, "services: {}\n",
			"services:\n"
			"  catalog:\n"
			"    - " LINE_C "\n" },
	{ "JSON stays JSON", ADD_C,
			"{\"services\": {\"catalog\": [{\"id\": \"a\", \"address\": \"10.0.0.5\", \"port\": 1}]}}",
			"{\"services\": {\"catalog\": [{\"id\": \"a\", \"address\": \"10.0.0.5\", \"port\": 1}, " JSON_C
			"]}}" },
	{ "JSON on many lines keeps its layout", ADD_C,
			"{\n"
			"  \"services\": {\n"
			"    \"catalog\": [\n"
			"      {\"id\": \"a\", \"address\": \"10.0.0.5\", \"port\": 1}\n"
			"    ]\n"
			"  }\n"
			"}\n",
			"{\n"
			"  \"services\": {\n"
			"    \"catalog\": [\n"
			"      {\"id\": \"a\", \"address\": \"10.0.0.5\", \"port\": 1},\n"
			"      " JSON_C "\n"
			"    ]\n"
			"  }\n"
			"}\n" },
	{ "a service is added to JSON", ADD_C, "{\"services\": {\"search\": []}}",
			"{\"services\": {\"catalog\": [" JSON_C "], \"search\": []}}" },
	{ "a service is added to JSON that has none", ADD_C, "{\"services\": {}}",
			"{\"services\": {\"catalog\": [" JSON_C "]}}" },
	{ "an id that is there is replaced in its place", ADD_C,
			"services:\n"
			"  catalog:\n"
			"    - {id: c, address: 10.0.0.9, port: 1} # old\n"
			"    - {id: d, address: 10.0.0.8, port: 1}\n",
			"services:\n"
			"  catalog:\n"
			"    - " LINE_C " # old\n"
			"    - {id: d, address: 10.0.0.8, port: 1}\n" },
	{ "an id that is there on several lines is replaced", ADD_C,
			"services:\n"
			"  catalog:\n"
			"    - id: c\n"
			"      address: 10.0.0.9\n"
			"      port: 1\n"
			"    # d\n"
			"    - {id: d, address: 10.0.0.8, port: 1}\n",
			"services:\n"
			"  catalog:\n"
			"    - " LINE_C "\n"
			"    # d\n"
			"    - {id: d, address: 10.0.0.8, port: 1}\n" },
	{ "Windows' ends of lines stay", ADD_C,
			"services:\r\n  catalog:\r\n    - {id: a, address: 10.0.0.5, port: 1}\r\n",
			"services:\r\n  catalog:\r\n    - {id: a, address: 10.0.0.5, port: 1}\r\n    - " LINE_C
			"\r\n" },
	{ "columns count characters, not bytes", ADD_C,
			"services: {\"h\xc3\xa4t\": [], catalog: [{id: a, address: 10.0.0.5, port: 1}]}\n",
			"services: {\"h\xc3\xa4t\": [], catalog: [{id: a, address: 10.0.0.5, port: 1}, " JSON_C
			"]}\n" },
	{ "a line is taken out", REMOVE_A,
			"services:\n"
			"  catalog:\n"
			"    - {id: a, address: 10.0.0.5, port: 8080}\n"
			"    # b\n"
			"    - {id: b, address: 10.0.0.6, port: 8080}\n",
			"services:\n"
			"  catalog:\n"
			"    # b\n"
			"    - {id: b, address: 10.0.0.6, port: 8080}\n" },
	{ "several lines are taken out", REMOVE_B,
			"services:\n"
			"  catalog:\n"
			"    - {id: a, address: 10.0.0.5, port: 8080}\n"
			"    -\n"
			"      id: b\n"
			"      # its address\n"
			"      address: 10.0.0.6\n"
			"      port: 8080\n"
			"  search: []\n",
			"services:\n"
			"  catalog:\n"
			"    - {id: a, address: 10.0.0.5, port: 8080}\n"
			"  search: []\n" },
	{ "the last one leaves a list that is empty on purpose", REMOVE_A,
			"services:\n"
			"  catalog: # the shop's\n"
			"    - {id: a, address: 10.0.0.5, port: 8080}\n"
			"  search: []\n",
			"services:\n"
			"  catalog: [] # the shop's\n"
			"  search: []\n" },
	{ "the first of JSON is taken out", REMOVE_A,
			"{\"services\": {\"catalog\": [\n"
			"  {\"id\": \"a\", \"address\": \"10.0.0.5\", \"port\": 1},\n"
			"  {\"id\": \"b\", \"address\": \"10.0.0.6\", \"port\": 1}\n"
			"]}}\n",
			"{\"services\": {\"catalog\": [\n"
			"  {\"id\": \"b\", \"address\": \"10.0.0.6\", \"port\": 1}\n"
			"]}}\n" },
	{ "the last of JSON is taken out", REMOVE_B,
			"{\"services\": {\"catalog\": [\n"
			"  {\"id\": \"a\", \"address\": \"10.0.0.5\", \"port\": 1},\n"
			"  {\"id\": \"b\", \"address\": \"10.0.0.6\", \"port\": 1}\n"
			"]}}\n",
			"{\"services\": {\"catalog\": [\n"
			"  {\"id\": \"a\", \"address\": \"10.0.0.5\", \"port\": 1}\n"
			"]}}\n" },
	{ "the only one of a flow list is taken out", REMOVE_A,
			"services: {catalog: [{id: a, address: 10.0.0.5, port: 1}], search: []}\n",
			"services: {catalog: [], search: []}\n" },
	{ "an endpoint without an id is called by its address", REMOVE_A,
			"services:\n"
			"  catalog:\n"
			"    - {id: a, address: 10.0.0.5, port: 1}\n"
			"    - {address: 10.0.0.5, port: 1}\n",
			"services:\n"
			"  catalog:\n"
			"    - {address: 10.0.0.5, port: 1}\n" },
	{ "a state is added to a line", DRAIN_A,
			"services:\n"
			"  catalog:\n"
			"    - {id: a, address: 10.0.0.5, port: 1} # rack 3\n",
			"services:\n"
			"  catalog:\n"
			"    - {id: a, state: draining, address: 10.0.0.5, port: 1} # rack 3\n" },
	{ "a state is added to several lines", DRAIN_A,
			"services:\n"
			"  catalog:\n"
			"    - id: a\n"
			"      # where\n"
			"      address: 10.0.0.5\n"
			"      port: 1\n",
			"services:\n"
			"  catalog:\n"
			"    - id: a\n"
			"      # where\n"
			"      state: draining\n"
			"      address: 10.0.0.5\n"
			"      port: 1\n" },
	{ "a state is added to JSON", DRAIN_A,
			"{\"services\": {\"catalog\": [{\n"
			"  \"id\": \"a\",\n"
			"  \"address\": \"10.0.0.5\",\n"
			"  \"port\": 1\n"
			"}]}}\n",
			"{\"services\": {\"catalog\": [{\n"
			"  \"id\": \"a\",\n"
			"  \"state\": \"draining\",\n"
			"  \"address\": \"10.0.0.5\",\n"
			"  \"port\": 1\n"
			"}]}}\n" },
	{ "a state is changed where it stands", READY_A,
			"services:\n"
			"  catalog:\n"
			"    - {id: a, address: 10.0.0.5, port: 1, state: 'draining'} # rack 3\n",
			"services:\n"
			"  catalog:\n"
			"    - {id: a, address: 10.0.0.5, port: 1, state: 'ready'} # rack 3\n" },
	{ "adding one that only drains makes it ready again, comments and all", ADD_PLAIN_A,
			"services:\n"
			"  catalog:\n"
			"    - id: a # rack 3\n"
			"      address: 10.0.0.5\n"
			"      port: 1\n"
			"      state: draining # for a while\n",
			"services:\n"
			"  catalog:\n"
			"    - id: a # rack 3\n"
			"      address: 10.0.0.5\n"
			"      port: 1\n"
			"      state: ready # for a while\n" },
	{ "what is said already is not written", ADD_PLAIN_A,
			"services: {  catalog: [ {address: \"10.0.0.5\",id: a, port: 1} ] }\n",
			"services: {  catalog: [ {address: \"10.0.0.5\",id: a, port: 1} ] }\n" },
	{ "a state that is the same is not written", READY_A,
			"services: {catalog: [{id: a, address: 10.0.0.5, port: 1}]}\n",
			"services: {catalog: [{id: a, address: 10.0.0.5, port: 1}]}\n" },
	{ "brackets, quotes and hashes in texts mislead nobody", REMOVE_A,
			"services:\n"
			"  catalog:\n"
			"    - {id: a, address: 10.0.0.5, port: 1, metadata: {n: \"]}#\\\"\", m: 'it''s }'}}\n"
			"    - {id: b, address: 10.0.0.6, port: 1, metadata: {n: a#b, m: don't}}\n",
			"services:\n"
			"  catalog:\n"
			"    - {id: b, address: 10.0.0.6, port: 1, metadata: {n: a#b, m: don't}}\n" },
};

static int make_change(struct scene *s, enum what what, struct usher_error *err)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	switch (what) {
	case ADD_C:
		e = endpoint_c();
		return registration_add(&s->plugin, &catalog, &e, err);
	case ADD_PLAIN_A:
		e.id = "a";
		e.address = "10.0.0.5";
		e.port = 1;
		return registration_add(&s->plugin, &catalog, &e, err);
	case REMOVE_A:
		return registration_remove(&s->plugin, &catalog, "a", err);
	case REMOVE_B:
		return registration_remove(&s->plugin, &catalog, "b", err);
	case DRAIN_A:
		return registration_set_state(&s->plugin, &catalog, "a", USHER_ADMIN_DRAINING, err);
	case READY_A:
		return registration_set_state(&s->plugin, &catalog, "a", USHER_ADMIN_READY, err);
	}
	return -EINVAL;
}

static void each_change_leaves_the_other_lines_alone(void **state)
{
	struct scene *s = *state;

	for (size_t i = 0; i < sizeof(edit_cases) / sizeof(*edit_cases); i++) {
		const struct edit_case *c = &edit_cases[i];
		struct usher_error err = { 0 };
		const char *after;

		write_file(s->path, c->before);
		if (make_change(s, c->what, &err) < 0)
			fail_msg("%s: %s", c->about, err.text);
		after = read_file(s, s->path);
		if (strcmp(after, c->after) != 0)
			fail_msg("%s:\n%s\ninstead of\n%s", c->about, after, c->after);
		/* Twice is once. */
		assert_ok(make_change(s, c->what, NULL));
		assert_string_equal(read_file(s, s->path), c->after);
	}
	assert_int_equal(count_entries(s->folder), 1);
}

#define ONE "services: {catalog: [{id: a, address: 10.0.0.5, port: 1}]}\n"

static void an_absent_endpoint_is_removed_already_and_has_no_state(void **state)
{
	struct scene *s = *state;
	struct usher_error err = { 0 };
	const struct usher_wanted other = { .service = "x", .name = "other" };

	write_file(s->path, ONE);
	assert_ok(registration_remove(&s->plugin, &catalog, "z", NULL));
	assert_ok(registration_remove(&s->plugin, &other, "z", NULL));
	assert_errno(registration_set_state(&s->plugin, &catalog, "z", USHER_ADMIN_READY, &err),
			ENOENT);
	assert_non_null(strstr(err.text, "has no endpoint z"));
	assert_errno(registration_set_state(&s->plugin, &other, "z", USHER_ADMIN_READY, &err),
			ENOENT);
	assert_string_equal(read_file(s, s->path), ONE);
}

static void of_a_file_that_is_not_there_nobody_says_that_something_was_removed(void **state)
{
	struct scene *s = *state;
	struct usher_error err = { 0 };

	assert_errno(registration_remove(&s->plugin, &catalog, "a", &err), EIO);
	assert_non_null(strstr(
			err.text, "is not there, so nobody can tell whether a is registered"));
	assert_errno(registration_set_state(&s->plugin, &catalog, "a", USHER_ADMIN_DRAINING, &err),
			EIO);
	assert_int_equal(count_entries(s->folder), 0);
}

/* What others do while the plug-in naps; NULL: nothing. */
static void (*meanwhile)(void);

int nanosleep(const struct timespec *time, struct timespec *left)
{
	if (meanwhile)
		meanwhile();
	return (int) syscall(SYS_nanosleep, time, left);
}

static const char *path_of_editor;
static unsigned naps;

static void put_back_in_the_second_nap(void)
{
	if (++naps == 2)
		write_file(path_of_editor, ONE);
}

static void a_file_that_is_away_for_a_moment_is_waited_for(void **state)
{
	struct scene *s = *state;
	struct usher_endpoint e = endpoint_c();

	path_of_editor = s->path;
	naps = 0;
	meanwhile = put_back_in_the_second_nap;
	assert_ok(registration_add(&s->plugin, &catalog, &e, NULL));
	meanwhile = NULL;
	assert_int_equal(naps, 2);
	assert_non_null(strstr(read_file(s, s->path), "{id: a, address: 10.0.0.5, port: 1}"));
	assert_non_null(strstr(read_file(s, s->path), JSON_C));
}

static void a_file_that_is_not_there_is_made(void **state)
{
	struct scene *s = *state;
	struct usher_endpoint e = endpoint_c();
	struct stat st;

	assert_ok(registration_add(&s->plugin, &catalog, &e, NULL));
	assert_string_equal(read_file(s, s->path), "services:\n  catalog:\n    - " LINE_C "\n");
	assert_int_equal(stat(s->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	(void) snprintf(s->path, sizeof(s->path), "%s/endpoints.json", s->folder);
	assert_ok(registration_add(&s->plugin, &catalog, &e, NULL));
	assert_string_equal(read_file(s, s->path), "{\"services\": {\"catalog\": [" JSON_C "]}}\n");
}

static void in_a_folder_the_file_that_names_the_service_is_changed(void **state)
{
	struct scene *s = *state;
	struct usher_endpoint e = endpoint_c();
	const struct usher_wanted unheard = { .service = "new", .name = "new" };
	char path[192];

	write_file(s->path, ONE);
	(void) snprintf(path, sizeof(path), "%s/a.yaml", s->folder);
	write_file(path, "services: {search: []}\n");
	s->plugin.path = s->folder;
	assert_ok(registration_add(&s->plugin, &catalog, &e, NULL));
	assert_non_null(strstr(read_file(s, s->path), JSON_C));
	assert_ok(registration_add(&s->plugin, &unheard, &e, NULL));
	(void) snprintf(path, sizeof(path), "%s/registered.yaml", s->folder);
	assert_string_equal(read_file(s, path), "services:\n  new:\n    - " LINE_C "\n");
}

static void a_broken_file_that_may_hold_the_service_stops_the_change(void **state)
{
	struct scene *s = *state;
	struct usher_endpoint e = endpoint_c();
	struct usher_error err = { 0 };

	write_file(s->path, "services: {catalog: [\n");
	assert_errno(registration_add(&s->plugin, &catalog, &e, &err), EBADMSG);
	s->plugin.path = s->folder;
	assert_errno(registration_add(&s->plugin, &catalog, &e, &err), EBADMSG);
	assert_non_null(strstr(err.text, "nobody can tell whether catalog is registered"));
	assert_string_equal(read_file(s, s->path), "services: {catalog: [\n");
}

static void foreign_formats_are_read_only(void **state)
{
	struct scene *s = *state;
	struct usher_endpoint e = endpoint_c();
	static const char *const texts[] = {
		"[{\"targets\": [\"10.0.0.5:80\"], \"labels\": {\"service\": \"catalog\"}}]\n",
		"spring: {cloud: {discovery: {client: {simple: {instances: {catalog: []}}}}}}\n",
		"{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": []}\n",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct usher_error err = { 0 };

		write_file(s->path, texts[i]);
		assert_errno(registration_add(&s->plugin, &catalog, &e, &err), EROFS);
		assert_non_null(strstr(err.text, "usher only reads"));
		assert_string_equal(read_file(s, s->path), texts[i]);
	}
	s->plugin.format = FORMAT_SPRING;
	assert_errno(registration_remove(&s->plugin, &catalog, "a", NULL), EROFS);
}

static void a_link_leads_to_the_file_that_is_written(void **state)
{
	struct scene *s = *state;
	struct usher_endpoint e = endpoint_c();
	char real[192];
	struct stat st;

	(void) snprintf(real, sizeof(real), "%s/real", s->folder);
	assert_int_equal(mkdir(real, 0755), 0);
	(void) snprintf(real, sizeof(real), "%s/real/e.yaml", s->folder);
	write_file(real, ONE);
	assert_int_equal(symlink("real/e.yaml", s->path), 0);
	assert_ok(registration_add(&s->plugin, &catalog, &e, NULL));
	assert_int_equal(lstat(s->path, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_non_null(strstr(read_file(s, real), JSON_C));
}

static void mode_and_owner_stay(void **state)
{
	struct scene *s = *state;
	struct usher_endpoint e = endpoint_c();
	uid_t owner = geteuid() == 0 ? 12345 : geteuid();
	struct stat st;

	write_file(s->path, ONE);
	assert_int_equal(chown(s->path, owner, getegid()), 0);
	assert_int_equal(chmod(s->path, 0640), 0);
	assert_ok(registration_add(&s->plugin, &catalog, &e, NULL));
	assert_int_equal(stat(s->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(st.st_uid, owner);
}

static void what_a_killed_writer_left_is_cleared_away(void **state)
{
	struct scene *s = *state;
	struct usher_endpoint e = endpoint_c();
	char path[192], foreign[192];

	write_file(s->path, ONE);
	(void) snprintf(path, sizeof(path), "%s/.endpoints.yaml.usher-Ab12Cd", s->folder);
	write_file(path, "half");
	(void) snprintf(foreign, sizeof(foreign), "%s/.endpoints.yaml.swp", s->folder);
	write_file(foreign, "an editor's");
	assert_ok(registration_add(&s->plugin, &catalog, &e, NULL));
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(access(foreign, F_OK), 0);
}

static void a_full_disk_leaves_the_file_as_it_was(void **state)
{
	struct scene *s = *state;
	struct usher_endpoint e = endpoint_c();
	struct rlimit old, none = { .rlim_cur = 20, .rlim_max = RLIM_INFINITY };
	struct usher_error err = { 0 };
	int r;

	write_file(s->path, ONE);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	none.rlim_max = old.rlim_max;
	assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	r = registration_add(&s->plugin, &catalog, &e, &err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(r, -EFBIG);
	assert_string_equal(read_file(s, s->path), ONE);
	assert_int_equal(count_entries(s->folder), 1);
}

static void a_service_in_two_files_is_not_registered_in_either(void **state)
{
	struct scene *s = *state;
	struct usher_endpoint e = endpoint_c();
	char path[192];

	write_file(s->path, ONE);
	(void) snprintf(path, sizeof(path), "%s/a.yaml", s->folder);
	write_file(path, ONE);
	s->plugin.path = s->folder;
	assert_errno(registration_add(&s->plugin, &catalog, &e, NULL), EEXIST);
}

static void a_malformed_endpoint_is_refused_before_anything_is_touched(void **state)
{
	struct scene *s = *state;
	struct usher_endpoint e = endpoint_c();

	write_file(s->path, ONE);
	e.port = 0;
	assert_errno(registration_add(&s->plugin, &catalog, &e, NULL), EINVAL);
	assert_string_equal(read_file(s, s->path), ONE);
}

static void texts_that_yaml_could_misread_come_back_as_they_were(void **state)
{
	struct scene *s = *state;
	static const char *const texts[] = { "yes", "NULL", "1.0", "0x10", "~", "a b", "a: b", "#x",
		"\"q\"", "back\\slash", "'s", "-", "[", "h\xc3\xa4t", "1e9", "2026-11-30", "@x" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct usher_label label = { texts[i], texts[i] };
		struct usher_endpoint e = USHER_ENDPOINT_INIT;
		struct usher_error err = { 0 };

		write_file(s->path, "services: {}\n");
		e.id = texts[i];
		e.zone = texts[i];
		e.address = "10.0.0.5";
		e.port = 1;
		e.metadata = &label;
		e.metadata_count = 1;
		/* The plug-in itself compares what it wrote with what was meant. */
		if (registration_add(&s->plugin, &catalog, &e, &err) < 0)
			fail_msg("%s: %s", texts[i], err.text);
		assert_ok(registration_remove(&s->plugin, &catalog, texts[i], NULL));
		assert_string_equal(read_file(s, s->path), "services:\n  catalog: []\n");
	}
}

#define WRITERS 4
#define BY_EACH 5 /* each waits for the others, for no longer than ten seconds */

static void *register_some(void *argument)
{
	struct scene *s = argument;

	for (int i = 0; i < BY_EACH; i++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;
		char id[64];

		(void) snprintf(id, sizeof(id), "%lx-%d", (unsigned long) pthread_self(), i);
		e.id = id;
		e.address = "10.0.0.5";
		e.port = 1;
		if (registration_add(&s->plugin, &catalog, &e, NULL) < 0)
			return argument;
	}
	return NULL;
}

static void many_at_once_lose_no_registration(void **state)
{
	struct scene *s = *state;
	pthread_t threads[WRITERS];
	size_t lines = 0;

	for (int i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, register_some, s), 0);
	for (int i = 0; i < WRITERS; i++) {
		void *failed = NULL;

		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	for (const char *at = read_file(s, s->path); (at = strstr(at, "- {id:")); at++)
		lines++;
	assert_int_equal(lines, WRITERS * BY_EACH);
	assert_int_equal(count_entries(s->folder), 1);
}

/* As a user who is not root, whom everything is allowed. Returns the error's text over a pipe. */
static int add_as_nobody(struct scene *s, char *ret_text, size_t size)
{
	int ends[2], status = 0;
	ssize_t n;
	pid_t child;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct usher_endpoint e = endpoint_c();
		struct usher_error err = { 0 };
		int r = geteuid() == 0 && (setegid(65534) < 0 || seteuid(65534) < 0)
				? -1
				: registration_add(&s->plugin, &catalog, &e, &err);

		(void) !write(ends[1], err.text, strlen(err.text));
		_exit(-r & 0xff);
	}
	assert_int_equal(close(ends[1]), 0);
	n = read(ends[0], ret_text, size - 1);
	ret_text[n > 0 ? n : 0] = '\0';
	assert_int_equal(close(ends[0]), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	return -WEXITSTATUS(status);
}

static void a_folder_that_may_not_be_written_is_named_with_the_remedy(void **state)
{
	struct scene *s = *state;
	char text[USHER_ERROR_TEXT_MAX];

	write_file(s->path, ONE);
	assert_int_equal(chmod(s->path, 0644), 0);
	assert_int_equal(chmod(s->folder, 0555), 0);
	assert_errno(add_as_nobody(s, text, sizeof(text)), EACCES);
	assert_int_equal(chmod(s->folder, 0755), 0);
	assert_non_null(strstr(text, "endpoints.yaml"));
	assert_non_null(strstr(text, "give its user the right to write"));
	assert_string_equal(read_file(s, s->path), ONE);
}

static void renewing_needs_nothing(void **state)
{
	struct scene *s = *state;

	assert_ok(registration_renew(&s->plugin, &catalog, "a", NULL));
}

int main(void)
{
#define SCENE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		SCENE(each_change_leaves_the_other_lines_alone),
		SCENE(an_absent_endpoint_is_removed_already_and_has_no_state),
		SCENE(of_a_file_that_is_not_there_nobody_says_that_something_was_removed),
		SCENE(a_file_that_is_away_for_a_moment_is_waited_for),
		SCENE(a_file_that_is_not_there_is_made),
		SCENE(in_a_folder_the_file_that_names_the_service_is_changed),
		SCENE(a_broken_file_that_may_hold_the_service_stops_the_change),
		SCENE(foreign_formats_are_read_only),
		SCENE(a_link_leads_to_the_file_that_is_written),
		SCENE(mode_and_owner_stay),
		SCENE(what_a_killed_writer_left_is_cleared_away),
		SCENE(a_full_disk_leaves_the_file_as_it_was),
		SCENE(a_service_in_two_files_is_not_registered_in_either),
		SCENE(a_malformed_endpoint_is_refused_before_anything_is_touched),
		SCENE(texts_that_yaml_could_misread_come_back_as_they_were),
		SCENE(many_at_once_lose_no_registration),
		SCENE(a_folder_that_may_not_be_written_is_named_with_the_remedy),
		SCENE(renewing_needs_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
