/* The record as a value, and its JSON. */

#include <jansson.h>

#include "ownership.h"
#include "record.h"
#include "test.h"

static void make_record(struct drain_record *record)
{
	struct usher_label labels[] = { { "API_VERSION", "1.0" } };
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	*record = (struct drain_record){ .id = "d-20261130-025506-7f3a",
		.kind = ROLLOUT_DRAIN,
		.state = DRAIN_RUNNING,
		.order = DRAIN_REFUSE_FIRST,
		.requested_wall_usec = UINT64_C(1796007306123456),
		.deadline_wall_usec = UINT64_C(1796007426123456),
		.removal_revision = 118,
		.partial = true };
	record->service = strdup("catalog");
	record->endpoint = strdup("catalog-a");
	record->source = strdup("files");
	record->uid = strdup("u-1");
	record->reason = strdup("rollout 42");
	record->requested_by = strdup("root (uid 0, pid 4711)");
	record->token = strdup("0123456789abcdef0123456789abcdef");

	e.id = "catalog-a";
	e.uid = "u-1";
	e.address = "fd00::10";
	e.port = 8080;
	e.secure = true;
	e.zone = "east";
	e.weight = 7;
	e.metadata = labels;
	e.metadata_count = 1;
	record->saved = usher_endpoints_new();
	assert_ok(usher_endpoints_add(record->saved, &e, NULL));
	usher_endpoints_seal(record->saved);

	assert_ok(drain_record_add_step(record, STEP_REQUESTED));
	assert_ok(drain_record_add_step(record, STEP_PROPAGATION));
	record->current = 1;
	record->steps[0].state = STEP_PROVEN;
	record->steps[1].state = STEP_ACTIVE;
	record->steps[1].attempts = 2;
	record->steps[1].started_wall_usec = UINT64_C(1796007307000001);
	assert_true(step_record_note(&record->steps[1], "consumers", false,
				    UINT64_C(1796007308000000), "%d of %d", 2, 3) > 0);
}

static void what_is_written_is_what_is_read(void **state)
{
	struct drain_record record, again = {};
	struct usher_error err = {};
	json_t *first, *second;

	(void) state;
	make_record(&record);
	first = drain_record_to_json(&record);
	assert_non_null(first);
	assert_ok(drain_record_from_json(first, &again, &err));
	second = drain_record_to_json(&again);
	assert_true(json_equal(first, second));
	assert_true(usher_endpoints_equal(record.saved, again.saved));
	assert_int_equal(again.steps[1].started_wall_usec, record.steps[1].started_wall_usec);

	json_decref(first);
	json_decref(second);
	drain_record_done(&record);
	drain_record_done(&again);
}

static void the_json_has_the_shape_of_the_api(void **state)
{
	struct drain_record record;
	json_t *json, *step_json;
	const char *step, *kind, *at, *address, *source;
	int revision, attempts;

	(void) state;
	make_record(&record);
	json = drain_record_to_json(&record);
	assert_ok(json_unpack(json, "{s:s, s:i, s:{s:s, s:s}}", "step", &step, "removal_revision",
			&revision, "saved", "address", &address, "source", &source));
	assert_string_equal(step, "propagation");
	assert_int_equal(revision, 118);
	assert_string_equal(address, "fd00::10");
	assert_string_equal(source, "files");
	step_json = json_array_get(json_object_get(json, "steps"), 1);
	assert_ok(json_unpack(step_json, "{s:i, s:[{s:s, s:s}]}", "attempts", &attempts, "evidence",
			"kind", &kind, "at", &at));
	assert_int_equal(attempts, 2);
	assert_string_equal(kind, "consumers");
	assert_string_equal(at, "2026-11-30T02:55:08.000000Z");
	assert_true(json_is_null(json_object_get(json, "finished_at")));
	assert_true(json_is_null(json_object_get(json, "last_stale_pick_at")));
	assert_true(json_is_null(json_object_get(json, "failure")));

	json_decref(json);
	drain_record_done(&record);
}

static void members_of_a_newer_usherd_are_ignored(void **state)
{
	struct drain_record record, again = {};
	struct usher_error err = {};
	json_t *json;

	(void) state;
	make_record(&record);
	json = drain_record_to_json(&record);
	json_object_set_new(json, "colour", json_string("blue"));
	json_object_set_new(
			json_array_get(json_object_get(json, "steps"), 0), "mood", json_integer(3));
	assert_ok(drain_record_from_json(json, &again, &err));

	json_decref(json);
	drain_record_done(&record);
	drain_record_done(&again);
}

/* A record with one member replaced by a JSON text; NULL: gone. */
static void assert_refused(const char *path, const char *text, const char *expected)
{
	struct drain_record record, again = {};
	struct usher_error err = {};
	json_t *json, *place, *value;
	char parts[128], *name, *rest = parts;

	make_record(&record);
	json = place = drain_record_to_json(&record);
	(void) snprintf(parts, sizeof(parts), "%s", path);
	while ((name = strsep(&rest, "/")) && rest)
		place = json_is_array(place) ? json_array_get(place, (size_t) atol(name))
					     : json_object_get(place, name);
	value = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
	if (value)
		json_object_set_new(place, name, value);
	else
		json_object_del(place, name);

	assert_errno(drain_record_from_json(json, &again, &err), EBADMSG);
	if (!strstr(err.text, expected))
		fail_msg("%s: \"%s\" does not say \"%s\"", path, err.text, expected);
	assert_null(again.service);
	json_decref(json);
	drain_record_done(&record);
}

static void what_is_wrong_is_named(void **state)
{
	static const struct {
		const char *path, *text, *expected;
	} cases[] = {
		{ "id", NULL, "id" },
		{ "id", "\"\"", "id" },
		{ "id", "\"0123456789012345678901234567890123456789\"", "id" },
		{ "kind", "\"holiday\"", "kind \"holiday\"" },
		{ "state", "7", "state" },
		{ "service", "null", "service" },
		{ "token", NULL, "token" },
		{ "order", "\"random\"", "order" },
		{ "requested_at", "\"yesterday\"", "requested_at" },
		{ "requested_at", "\"2026-13-30T02:55:06Z\"", "requested_at" },
		{ "deadline_at", "null", "deadline_at" },
		{ "forced", "\"no\"", "forced" },
		{ "removal_revision", "-1", "removal_revision" },
		{ "steps", "[]", "steps" },
		{ "steps", "{}", "steps" },
		{ "current", "2", "current" },
		{ "steps/1/step", "\"dance\"", "steps[1]: step \"dance\"" },
		{ "steps/1/state", "\"odd\"", "steps[1]: state" },
		{ "steps/1/attempts", "1.5", "steps[1]: attempts" },
		{ "steps/1/evidence", "3", "steps[1]: evidence" },
		{ "steps/1/evidence/0/text", "null", "steps[1]: evidence[0]: text" },
		{ "saved", "[]", "saved" },
		{ "saved", "null", "saved" },
		{ "saved/port", "70000", "saved: port" },
		{ "saved/port", "0", "saved" },
		{ "saved/address", "\"not an address\"", "saved" },
		{ "saved/metadata", "{\"a\": 1}", "saved: metadata.a" },
		{ "saved/admin_state", "\"sleepy\"", "saved: admin_state" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++)
		assert_refused(cases[i].path, cases[i].text, cases[i].expected);
}

static void evidence_of_a_kind_is_replaced_and_events_are_kept(void **state)
{
	struct drain_record record = {};

	(void) state;
	assert_ok(drain_record_add_step(&record, STEP_IN_FLIGHT));
	assert_int_equal(record.steps[0].state, STEP_PENDING);

	assert_int_equal(step_record_note(&record.steps[0], "tcp", false, 1, "%d open", 3), 1);
	assert_int_equal(step_record_note(&record.steps[0], "tcp", false, 2, "%d open", 3), 0);
	assert_int_equal(step_record_note(&record.steps[0], "tcp", true, 3, "none open"), 1);
	assert_int_equal(record.steps[0].evidence_count, 1);
	assert_int_equal(record.steps[0].evidence[0].wall_usec, 3);
	assert_int_equal(step_record_append(&record.steps[0], "hook", false, 4, "starts"), 1);
	assert_int_equal(step_record_append(&record.steps[0], "hook", false, 4, "starts"), 1);
	assert_int_equal(record.steps[0].evidence_count, 3);
	drain_record_done(&record);
}

static void the_oldest_evidence_goes_at_the_maximum(void **state)
{
	struct drain_record record = {};

	(void) state;
	assert_ok(drain_record_add_step(&record, STEP_CLOSE));
	for (int i = 0; i <= DRAIN_EVIDENCE_MAX; i++)
		assert_ok(step_record_append(&record.steps[0], "hook", false, 0, "attempt %d", i));
	assert_int_equal(record.steps[0].evidence_count, DRAIN_EVIDENCE_MAX);
	assert_string_equal(record.steps[0].evidence[0].text, "attempt 1");
	assert_string_equal(step_record_find(&record.steps[0], "hook")->text, "attempt 32");
	drain_record_done(&record);
}

static void a_record_has_at_most_so_many_steps(void **state)
{
	struct drain_record record = {};

	(void) state;
	for (unsigned i = 0; i < DRAIN_STEPS_MAX; i++)
		assert_ok(drain_record_add_step(&record, STEP_REQUESTED));
	assert_errno(drain_record_add_step(&record, STEP_REQUESTED), E2BIG);
	drain_record_done(&record);
}

static void what_is_not_utf8_can_still_be_rendered(void **state)
{
	static const struct {
		const char *given, *expected;
	} cases[] = {
		{ "plain", "plain" },
		{ "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f" },
		{ "\xe2\x82\xac \xf0\x9f\x8e\xad", "\xe2\x82\xac \xf0\x9f\x8e\xad" },
		{ "latin \xfc", "latin ?" },
		{ "cut \xe2\x82", "cut ??" },
		{ "\xc0\xaf", "??" },
		{ "\xed\xa0\x80", "???" },
		{ "\xf4\x90\x80\x80", "????" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		char text[32];

		(void) snprintf(text, sizeof(text), "%s", cases[i].given);
		drain_text_clean(text);
		assert_string_equal(text, cases[i].expected);
	}
}

static int read_and_forget(void *userdata)
{
	struct drain_record record = {};
	int r = drain_record_from_json(userdata, &record, NULL);

	drain_record_done(&record);
	return r;
}

static void reading_survives_any_failed_allocation(void **state)
{
	struct drain_record record;
	json_t *json;

	(void) state;
	make_record(&record);
	json = drain_record_to_json(&record);
	assert_survives_oom(read_and_forget, json);
	json_decref(json);
	drain_record_done(&record);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_what_is_read),
		cmocka_unit_test(the_json_has_the_shape_of_the_api),
		cmocka_unit_test(members_of_a_newer_usherd_are_ignored),
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(evidence_of_a_kind_is_replaced_and_events_are_kept),
		cmocka_unit_test(the_oldest_evidence_goes_at_the_maximum),
		cmocka_unit_test(a_record_has_at_most_so_many_steps),
		cmocka_unit_test(what_is_not_utf8_can_still_be_rendered),
		cmocka_unit_test(reading_survives_any_failed_allocation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
