#include <usher/endpoint.h>

#include "test.h"

static struct usher_endpoint endpoint_at(const char *id, const char *address, uint16_t port)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	e.id = id;
	e.address = address;
	e.port = port;
	return e;
}

static void a_set_gives_back_what_was_added(void **state)
{
	const struct usher_label labels[] = { { "version", "2" }, { "API", "x" } };
	struct usher_endpoints *set = usher_endpoints_new();
	struct usher_endpoint e = endpoint_at("a", "10.0.0.5", 8080), got;

	(void) state;
	e.uid = "u-1";
	e.zone = "east";
	e.weight = 7;
	e.secure = true;
	e.ready = false;
	e.admin_state = USHER_ADMIN_DRAINING;
	e.metadata = labels;
	e.metadata_count = 2;
	assert_ok(usher_endpoints_add(set, &e, NULL));
	usher_endpoints_seal(set);

	usher_endpoints_get(set, 0, &got);
	assert_string_equal(got.id, "a");
	assert_string_equal(got.uid, "u-1");
	assert_string_equal(got.address, "10.0.0.5");
	assert_string_equal(got.zone, "east");
	assert_int_equal(got.weight, 7);
	assert_int_equal(got.port, 8080);
	assert_true(got.secure);
	assert_false(got.ready);
	assert_true(got.serving);
	assert_int_equal(got.admin_state, USHER_ADMIN_DRAINING);
	assert_string_equal(usher_endpoints_metadata(set, 0, "version"), "2");
	assert_null(usher_endpoints_metadata(set, 0, "absent"));
	assert_string_equal(usher_endpoints_metadata_at(set, 0, 0).name, "API");
	usher_endpoints_unref(set);
}

static void the_zone_is_that_of_the_metadata_where_there_is_no_other(void **state)
{
	static const struct {
		const char *zone, *label, *expected;
	} rows[] = {
		{ "east", NULL, "east" },
		{ "east", "west", "east" },
		{ NULL, "west", "west" },
		{ "", "west", "west" },
		{ NULL, NULL, NULL },
		{ NULL, "", NULL },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct usher_label label = { "zone", rows[i].label };
		struct usher_endpoints *set = usher_endpoints_new();
		struct usher_endpoint e = endpoint_at("a", "10.0.0.5", 8080), got;

		e.zone = rows[i].zone;
		e.metadata = &label;
		e.metadata_count = rows[i].label != NULL;
		assert_ok(usher_endpoints_add(set, &e, NULL));
		usher_endpoints_seal(set);
		usher_endpoints_get(set, 0, &got);
		if (rows[i].expected)
			assert_string_equal(got.zone, rows[i].expected);
		else
			assert_null(got.zone);
		assert_ptr_equal(usher_endpoints_zone(set, 0), got.zone);
		usher_endpoints_unref(set);
	}
}

static void an_endpoint_without_an_id_is_called_after_its_place(void **state)
{
	struct usher_endpoints *set = usher_endpoints_new();
	struct usher_endpoint e = endpoint_at(NULL, "FD00:0::10", 80);

	(void) state;
	assert_ok(usher_endpoints_add(set, &e, NULL));
	assert_string_equal(usher_endpoints_id(set, 0), "[fd00::10]:80");
	usher_endpoints_unref(set);
}

static void an_id_is_in_a_set_once(void **state)
{
	struct usher_endpoints *set = usher_endpoints_new();
	struct usher_endpoint e = endpoint_at("a", "10.0.0.5", 80);
	struct usher_error err = {};

	(void) state;
	assert_ok(usher_endpoints_add(set, &e, NULL));
	assert_errno(usher_endpoints_add(set, &e, &err), EEXIST);
	assert_string_equal(err.text, "id \"a\" is in the set twice");
	assert_int_equal(usher_endpoints_count(set), 1);
	usher_endpoints_unref(set);
}

static void a_sealed_set_takes_no_more(void **state)
{
	struct usher_endpoints *set = usher_endpoints_new();
	struct usher_endpoint e = endpoint_at("a", "10.0.0.5", 80);

	(void) state;
	usher_endpoints_seal(set);
	assert_errno(usher_endpoints_add(set, &e, NULL), EPERM);
	usher_endpoints_unref(set);
}

static void sets_are_equal_whatever_the_order_of_adding(void **state)
{
	struct usher_endpoint a = endpoint_at("a", "10.0.0.1", 80),
			      b = endpoint_at("b", "10.0.0.2", 80);
	struct usher_endpoints *x = usher_endpoints_new(), *y = usher_endpoints_new();

	(void) state;
	assert_ok(usher_endpoints_add(x, &a, NULL));
	assert_ok(usher_endpoints_add(x, &b, NULL));
	assert_ok(usher_endpoints_add(y, &b, NULL));
	assert_ok(usher_endpoints_add(y, &a, NULL));
	usher_endpoints_seal(x);
	usher_endpoints_seal(y);
	assert_true(usher_endpoints_equal(x, y));
	assert_int_equal(usher_endpoints_find(x, "b"), 1);
	assert_int_equal(usher_endpoints_find(x, "c"), -ENOENT);
	usher_endpoints_unref(x);
	usher_endpoints_unref(y);
}

static void what_is_no_weight_counts_as_one_and_is_marked(void **state)
{
	static const struct {
		const char *text;
		uint32_t weight;
		bool invalid;
	} cases[] = {
		{ "20", 20, false },
		{ "0", 0, false },
		{ "100000", 100000, false },
		{ "100001", 1, true },
		{ "4294967295", 1, true },
		{ "99999999999999999999", 1, true },
		{ " 20 ", 1, true },
		{ "30%", 1, true },
		{ "-5", 1, true },
		{ "+5", 1, true },
		{ "1e9", 1, true },
		{ "NaN", 1, true },
		{ "", 1, true },
		{ "0x10", 1, true },
		{ "2.5", 1, true },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct usher_label label = { "weight", cases[i].text };
		struct usher_endpoints *set = usher_endpoints_new();
		struct usher_endpoint e = endpoint_at("a", "10.0.0.1", 80), got;

		e.metadata = &label;
		e.metadata_count = 1;
		assert_ok(usher_endpoints_add(set, &e, NULL));
		usher_endpoints_get(set, 0, &got);
		assert_int_equal(got.weight, cases[i].weight);
		assert_int_equal(got.weight_invalid, cases[i].invalid);
		usher_endpoints_unref(set);
	}
}

/* Where their texts begin the same, places are compared, and a text may end or begin there. */
static void sets_that_differ_in_one_text_are_told_apart(void **state)
{
	static const struct variant {
		const char *id, *zone, *value;
	} variants[] = {
		{ "b", "east", "1.0" },
		{ "b", "east", "1.01" },
		{ "b", "east", "1" },
		{ "b", "east", "east" },
		{ "b", "east", "" },
		{ "b", "eas", "1.0" },
		{ "b", "easts", "1.0" },
		{ "b", "b", "1.0" },
		{ "b", NULL, "1.0" },
		{ "bb", "east", "1.0" },
		{ "c", "east", "1.0" },
	};
	struct usher_endpoints *sets[2 * (sizeof(variants) / sizeof(*variants))];

	(void) state;
	for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
		const struct variant *v = &variants[i / 2];
		const struct usher_label label = { "version", v->value };
		struct usher_endpoint first = endpoint_at("a", "10.0.0.1", 80);
		struct usher_endpoint second = endpoint_at(v->id, "10.0.0.2", 80);

		first.zone = "east";
		second.zone = v->zone;
		second.metadata = &label;
		second.metadata_count = 1;
		sets[i] = usher_endpoints_new();
		assert_non_null(sets[i]);
		/* One of each pair has its texts in another order. */
		assert_ok(usher_endpoints_add(sets[i], i % 2 ? &second : &first, NULL));
		assert_ok(usher_endpoints_add(sets[i], i % 2 ? &first : &second, NULL));
		usher_endpoints_seal(sets[i]);
	}
	for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++)
		for (size_t k = 0; k < sizeof(sets) / sizeof(*sets); k++)
			assert_int_equal(usher_endpoints_equal(sets[i], sets[k]), i / 2 == k / 2);
	for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++)
		usher_endpoints_unref(sets[i]);
}

static void addresses_are_judged_by_their_form(void **state)
{
	static const struct {
		const char *text;
		const char *fault; /* NULL: good */
	} cases[] = {
		{ "10.0.0.5", NULL },
		{ "fd00::10", NULL },
		{ "::1", NULL },
		{ "::ffff:10.0.0.1", NULL },
		{ "fe80::1%eth0", NULL },
		{ "2001:db8::1:8080", NULL },
		{ "catalog.shop.svc", NULL },
		{ "_catalog._tcp.shop", NULL },
		{ "", "the address is empty" },
		{ "[::1]", "address \"[::1]\" is in brackets; write the IPv6 address without them, and the port apart" },
		{ "10.0.0.5:80",
				"address \"10.0.0.5:80\" contains a port; write the address and the port apart" },
		{ "10.0.0.256", "address \"10.0.0.256\" is neither an IPv4 or IPv6 address nor a host name" },
		{ "fd00::10%eth0",
				"address \"fd00::10%eth0\" is neither an IPv4 or IPv6 address nor a host name" },
		{ "-a", "address \"-a\" is neither an IPv4 or IPv6 address nor a host name" },
		{ "0.0.0.0", "address \"0.0.0.0\" is nobody's; write one that the instance is reached at" },
		{ "239.1.2.3", "address \"239.1.2.3\" is nobody's; write one that the instance is reached at" },
		{ "255.255.255.255",
				"address \"255.255.255.255\" is nobody's; write one that the instance is reached at" },
		{ "::", "address \"::\" is nobody's; write one that the instance is reached at" },
		{ "ff02::1", "address \"ff02::1\" is nobody's; write one that the instance is reached at" },
		{ "a b", "address \"a b\" is neither an IPv4 or IPv6 address nor a host name" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct usher_error err = {};
		int r = usher_address_check(cases[i].text, &err);

		assert_int_equal(r, cases[i].fault ? -EINVAL : 0);
		assert_string_equal(err.text, cases[i].fault ? cases[i].fault : "");
	}
}

static void an_authority_is_taken_apart_or_refused(void **state)
{
	static const struct {
		const char *text, *address;
		uint16_t port;
	} cases[] = {
		{ "10.0.0.5:8080", "10.0.0.5", 8080 },
		{ "[fd00::10]:8080", "fd00::10", 8080 },
		{ "[::1]:80", "::1", 80 },
		{ "host", "host", 9 },
		{ "[fe80::1%eth0]:80", "fe80::1%eth0", 80 },
		{ "2001:db8::1:8080", NULL, 0 },
		{ "::1", NULL, 0 },
		{ "[::1", NULL, 0 },
		{ "[::1]80", NULL, 0 },
		{ "[10.0.0.1]:80", NULL, 0 },
		{ "host:0", NULL, 0 },
		{ "host:65536", NULL, 0 },
		{ "host:", NULL, 0 },
		{ ":80", NULL, 0 },
		{ "host:8o", NULL, 0 },
		{ "user:S3CRET@host:80", NULL, 0 },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct usher_error err = {};
		char address[USHER_TEXT_MAX];
		uint16_t port;
		int r = usher_authority_parse(cases[i].text, 9, address, &port, &err);

		assert_int_equal(r, cases[i].address ? 0 : -EINVAL);
		if (r < 0) {
			assert_true(err.text[0]);
			assert_null(strstr(err.text, "S3CRET"));
			continue;
		}
		assert_string_equal(address, cases[i].address);
		assert_int_equal(port, cases[i].port);
	}
}

static void malformed_endpoints_are_refused_and_leave_the_set_as_it_was(void **state)
{
	const struct usher_label twice[] = { { "a", "1" }, { "a", "2" } };
	struct usher_endpoints *set = usher_endpoints_new();
	struct usher_endpoint e;

	(void) state;
	e = endpoint_at("a", NULL, 80);
	assert_errno(usher_endpoints_add(set, &e, NULL), EINVAL);
	e = endpoint_at("a", "10.0.0.1", 0);
	assert_errno(usher_endpoints_add(set, &e, NULL), EINVAL);
	e = endpoint_at("a\n", "10.0.0.1", 80);
	assert_errno(usher_endpoints_add(set, &e, NULL), EINVAL);
	e = endpoint_at("\xc0\x80", "10.0.0.1", 80);
	assert_errno(usher_endpoints_add(set, &e, NULL), EINVAL);
	e = endpoint_at("a", "10.0.0.1", 80);
	e.metadata = twice;
	e.metadata_count = 2;
	assert_errno(usher_endpoints_add(set, &e, NULL), EINVAL);
	assert_int_equal(usher_endpoints_count(set), 0);
	usher_endpoints_unref(set);
}

/* A plug-in that was built when the struct was shorter. */
static void no_more_is_written_than_the_caller_has_room_for(void **state)
{
	struct usher_endpoints *set = usher_endpoints_new();
	struct usher_endpoint e = endpoint_at("a", "10.0.0.5", 8080), got;
	size_t shorter = offsetof(struct usher_endpoint, metadata_count);

	(void) state;
	assert_ok(usher_endpoints_add(set, &e, NULL));
	memset(&got, 0x5a, sizeof(got));
	usher_endpoints_read(set, 0, &got, shorter);
	assert_int_equal(got.size, shorter);
	assert_string_equal(got.id, "a");
	assert_memory_equal((char *) &got + shorter, &(uint64_t){ UINT64_C(0x5a5a5a5a5a5a5a5a) },
			sizeof(uint64_t));
	usher_endpoints_unref(set);
}

static void what_a_caller_leaves_unset_is_refused_and_ends_nobody(void **state)
{
	struct usher_endpoints *set = usher_endpoints_new();
	struct usher_endpoint unset = { .address = "10.0.0.5", .port = 8080 };
	struct usher_endpoint nonsense = endpoint_at("a", "10.0.0.5", 8080);
	struct usher_error err = {};

	(void) state;
	assert_errno(usher_endpoints_add(set, &unset, &err), EINVAL);
	assert_string_equal(err.text,
			"its size is not set: an endpoint starts from USHER_ENDPOINT_INIT");
	nonsense.admin_state = (enum usher_admin_state) 7;
	assert_errno(usher_endpoints_add(set, &nonsense, &err), EINVAL);
	assert_string_equal(err.text, "admin_state 7 is none that there is");
	assert_int_equal(usher_endpoints_count(set), 0);
	usher_endpoints_unref(set);
}

static void a_set_holds_its_maximum_and_no_more(void **state)
{
	struct usher_endpoints *set = usher_endpoints_new();
	struct usher_endpoint e = endpoint_at(NULL, "10.0.0.1", 1);
	char id[16];

	(void) state;
	e.id = id;
	for (int i = 0; i < USHER_ENDPOINTS_MAX; i++) {
		(void) snprintf(id, sizeof(id), "e%d", i);
		assert_ok(usher_endpoints_add(set, &e, NULL));
	}
	(void) snprintf(id, sizeof(id), "one-more");
	assert_errno(usher_endpoints_add(set, &e, NULL), E2BIG);
	usher_endpoints_seal(set);
	assert_true(usher_endpoints_find(set, "e99999") >= 0);
	usher_endpoints_unref(set);
}

static int build_a_set(void *userdata)
{
	const struct usher_label label = { "name", "value" };
	struct usher_endpoints *set = usher_endpoints_new();
	struct usher_endpoint e = endpoint_at("a", "10.0.0.1", 80);
	int r;

	(void) userdata;
	if (!set)
		return -ENOMEM;
	e.zone = "east";
	e.metadata = &label;
	e.metadata_count = 1;
	r = usher_endpoints_add(set, &e, NULL);
	usher_endpoints_unref(set);
	return r;
}

static void running_out_of_memory_is_an_answer(void **state)
{
	(void) state;
	assert_survives_oom(build_a_set, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_set_gives_back_what_was_added),
		cmocka_unit_test(the_zone_is_that_of_the_metadata_where_there_is_no_other),
		cmocka_unit_test(an_endpoint_without_an_id_is_called_after_its_place),
		cmocka_unit_test(an_id_is_in_a_set_once),
		cmocka_unit_test(a_sealed_set_takes_no_more),
		cmocka_unit_test(sets_are_equal_whatever_the_order_of_adding),
		cmocka_unit_test(what_is_no_weight_counts_as_one_and_is_marked),
		cmocka_unit_test(sets_that_differ_in_one_text_are_told_apart),
		cmocka_unit_test(addresses_are_judged_by_their_form),
		cmocka_unit_test(an_authority_is_taken_apart_or_refused),
		cmocka_unit_test(malformed_endpoints_are_refused_and_leave_the_set_as_it_was),
		cmocka_unit_test(no_more_is_written_than_the_caller_has_room_for),
		cmocka_unit_test(what_a_caller_leaves_unset_is_refused_and_ends_nobody),
		cmocka_unit_test(a_set_holds_its_maximum_and_no_more),
		cmocka_unit_test(running_out_of_memory_is_an_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
