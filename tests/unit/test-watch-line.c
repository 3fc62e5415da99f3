#include "test.h"
#include "watch-line.h"

#define FRESH \
	"\"freshness\": {\"state\": \"live\", \"age_ms\": 812, \"max_age_ms\": 30000, \"source\": \"files\"}"

static int parse(const char *text, struct watch_line *ret, struct usher_error *reterr)
{
	return watch_line_parse(text, strlen(text), ret, reterr);
}

static void assert_refused(const char *text, const char *why)
{
	struct watch_line line = { .revision = 7 };
	struct usher_error error = {};

	assert_errno(parse(text, &line, &error), EBADMSG);
	assert_non_null(strstr(error.text, why));
	assert_int_equal(line.revision, 7);
}

static void a_snapshot_gives_its_endpoints_and_its_age(void **state)
{
	struct watch_line line;

	(void) state;
	assert_ok(parse("{\"type\": \"snapshot\", \"service\": \"catalog\", \"revision\": 118, " FRESH
			", \"endpoints\": [{\"id\": \"a\", \"address\": \"10.0.0.5\", \"port\": 8080, \"weight\": 2, \"ramp\": 0.25,"
			" \"secure\": true, \"admin_state\": \"draining\"}, {\"id\": \"b\", \"address\": \"fd00::10\", \"port\": 1}]}",
			&line, NULL));
	assert_int_equal(line.type, WATCH_SNAPSHOT);
	assert_int_equal(line.revision, 118);
	assert_true(line.freshness.known);
	assert_int_equal(line.freshness.age_usec, 812000);
	assert_int_equal(line.freshness.max_age_usec, 30000000);
	assert_int_equal(line.endpoint_count, 2);
	assert_string_equal(line.endpoints[0].id, "a");
	assert_string_equal(line.endpoints[0].address, "10.0.0.5");
	assert_int_equal(line.endpoints[0].port, 8080);
	assert_int_equal(line.endpoints[0].weight, 2);
	assert_int_equal(line.endpoints[0].ramp, 250);
	assert_true(line.endpoints[0].secure);
	assert_int_equal(line.endpoints[0].admin_state, USHER_ADMIN_DRAINING);
	assert_int_equal(line.endpoints[1].weight, 1);
	assert_int_equal(line.endpoints[1].ramp, WATCH_RAMP_UNIT);
	assert_false(line.endpoints[1].secure);
	assert_int_equal(line.endpoints[1].admin_state, USHER_ADMIN_READY);
	watch_line_done(&line);
}

static void an_update_gives_what_changed_and_what_went(void **state)
{
	struct watch_line line;

	(void) state;
	assert_ok(parse("{\"type\": \"update\", \"revision\": 119, " FRESH
			", \"changed\": [{\"id\": \"c\", \"address\": \"c.example\", \"port\": 80}], \"removed\": [\"a\", \"b\"]}",
			&line, NULL));
	assert_int_equal(line.type, WATCH_UPDATE);
	assert_int_equal(line.endpoint_count, 1);
	assert_int_equal(line.removed_count, 2);
	assert_string_equal(line.removed[1], "b");
	watch_line_done(&line);
}

static void an_age_that_nobody_knows_is_endless(void **state)
{
	struct watch_line line;

	(void) state;
	assert_ok(parse("{\"type\": \"bookmark\", \"revision\": 0, \"freshness\": {\"state\": \"unknown\", \"age_ms\": null,"
			" \"max_age_ms\": 30000, \"source\": null}}",
			&line, NULL));
	assert_int_equal(line.type, WATCH_BOOKMARK);
	assert_false(line.freshness.known);
	assert_true(line.freshness.age_usec == UINT64_MAX);
	watch_line_done(&line);
}

static void resync_and_end_need_nothing_more(void **state)
{
	struct watch_line line;

	(void) state;
	assert_ok(parse("{\"type\": \"resync\"}", &line, NULL));
	assert_int_equal(line.type, WATCH_RESYNC);
	watch_line_done(&line);
	assert_ok(parse("{\"type\": \"end\", \"code\": \"removed\"}", &line, NULL));
	assert_int_equal(line.type, WATCH_END);
	assert_string_equal(line.code, "removed");
	watch_line_done(&line);
}

static void words_of_a_newer_daemon_are_passed_over(void **state)
{
	struct watch_line line;

	(void) state;
	assert_ok(parse("{\"type\": \"weather\", \"rain\": true}", &line, NULL));
	assert_int_equal(line.type, WATCH_OTHER);
	watch_line_done(&line);
	assert_ok(parse("{\"type\": \"update\", \"revision\": 2, " FRESH
			", \"more\": {}, \"changed\": "
			"[{\"id\": \"a\", \"address\": \"a\", \"port\": 1, \"admin_state\": \"resting\", \"mood\": 3}]}",
			&line, NULL));
	assert_int_equal(line.endpoints[0].admin_state, USHER_ADMIN_MAINTENANCE);
	watch_line_done(&line);
}

static void a_line_that_makes_no_sense_is_refused_with_the_field(void **state)
{
	(void) state;
	assert_refused("", "not JSON");
	assert_refused("[]", "no \"type\"");
	assert_refused("{\"type\": \"snapshot\"", "not JSON");
	assert_refused("{\"type\": 3}", "no \"type\"");
	assert_refused("{\"type\": \"bookmark\", " FRESH "}", "\"revision\"");
	assert_refused("{\"type\": \"bookmark\", \"revision\": -1, " FRESH "}", "\"revision\"");
	assert_refused("{\"type\": \"bookmark\", \"revision\": 1}", "\"freshness\"");
	assert_refused("{\"type\": \"bookmark\", \"revision\": 1, \"freshness\": {}}", "age_ms");
	assert_refused("{\"type\": \"bookmark\", \"revision\": 1, \"freshness\": {\"age_ms\": -1}}",
			"age_ms");
	assert_refused("{\"type\": \"bookmark\", \"revision\": 1, \"freshness\": {\"age_ms\": 1e300}}",
			"age_ms");
	assert_refused("{\"type\": \"snapshot\", \"revision\": 1, " FRESH "}", "\"endpoints\"");
	assert_refused("{\"type\": \"snapshot\", \"revision\": 1, " FRESH
		       ", \"endpoints\": [null]}",
			"endpoints[0]: \"id\"");
	assert_refused("{\"type\": \"snapshot\", \"revision\": 1, " FRESH
		       ", \"endpoints\": [{\"id\": \"a\"}]}",
			"\"address\"");
	assert_refused("{\"type\": \"snapshot\", \"revision\": 1, " FRESH
		       ", \"endpoints\": [{\"id\": \"a\", \"address\": \"a\", \"port\": 1, \"ramp\": -0.1}]}",
			"endpoints[0]: \"ramp\" is not a number in 0..1000");
	assert_refused("{\"type\": \"snapshot\", \"revision\": 1, " FRESH
		       ", \"endpoints\": [{\"id\": \"a\", \"address\": \"a\", \"port\": 0}]}",
			"\"port\"");
	assert_refused("{\"type\": \"snapshot\", \"revision\": 1, " FRESH
		       ", \"endpoints\": [{\"id\": \"a\", \"address\": \"a\", \"port\": 1, \"weight\": 100001}]}",
			"\"weight\"");
	assert_refused("{\"type\": \"update\", \"revision\": 1, " FRESH ", \"removed\": [3]}",
			"removed[0]");
}

static void an_id_at_its_maximum_is_taken_and_one_above_is_refused(void **state)
{
	char id[USHER_TEXT_MAX + 1], text[USHER_TEXT_MAX + 256];
	struct watch_line line;

	(void) state;
	memset(id, 'x', sizeof(id));
	id[USHER_TEXT_MAX - 1] = 0;
	(void) snprintf(text, sizeof(text),
			"{\"type\": \"update\", \"revision\": 1, " FRESH ", \"removed\": [\"%s\"]}",
			id);
	assert_ok(parse(text, &line, NULL));
	watch_line_done(&line);
	id[USHER_TEXT_MAX - 1] = 'x';
	id[USHER_TEXT_MAX] = 0;
	(void) snprintf(text, sizeof(text),
			"{\"type\": \"update\", \"revision\": 1, " FRESH ", \"removed\": [\"%s\"]}",
			id);
	assert_refused(text, "removed[0]");
}

static int parse_an_update(void *userdata)
{
	struct watch_line line;
	int r;

	(void) userdata;
	r = parse("{\"type\": \"update\", \"revision\": 119, " FRESH
		  ", \"changed\": [{\"id\": \"c\", \"address\": \"c\", \"port\": 80}], \"removed\": [\"a\"]}",
			&line, NULL);
	if (r < 0)
		return r;
	watch_line_done(&line);
	return 0;
}

static void no_failed_allocation_is_lost(void **state)
{
	(void) state;
	assert_survives_oom(parse_an_update, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_snapshot_gives_its_endpoints_and_its_age),
		cmocka_unit_test(an_update_gives_what_changed_and_what_went),
		cmocka_unit_test(an_age_that_nobody_knows_is_endless),
		cmocka_unit_test(resync_and_end_need_nothing_more),
		cmocka_unit_test(words_of_a_newer_daemon_are_passed_over),
		cmocka_unit_test(a_line_that_makes_no_sense_is_refused_with_the_field),
		cmocka_unit_test(an_id_at_its_maximum_is_taken_and_one_above_is_refused),
		cmocka_unit_test(no_failed_allocation_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
