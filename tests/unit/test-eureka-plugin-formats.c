/* What the plug-in eureka makes of what servers say. The shapes are those of Spring Cloud's server
 * 5.0.3, as recorded, and those that older servers are known for. */

#include "fake-source.h"
#include "names.h"
#include "reader.h"
#include "registry.h"
#include "test.h"

#define INSTANCE(id, more)                                                                        \
	"{\"instanceId\":\"" id "\",\"hostName\":\"h1\",\"app\":\"WEB\",\"ipAddr\":\"10.0.0.1\"," \
	"\"port\":{\"$\":8080,\"@enabled\":\"true\"},\"securePort\":{\"$\":443,\"@enabled\":"     \
	"\"false\"},\"countryId\":1,\"dataCenterInfo\":{\"@class\":\"com.netflix.appinfo."        \
	"InstanceInfo$DefaultDataCenterInfo\",\"name\":\"MyOwn\"},"                               \
	"\"isCoordinatingDiscoveryServer\":\"false\"," more "}"
#define STATUS(status)  "\"status\":\"" status "\",\"overriddenStatus\":\"UNKNOWN\""
#define UPDATED(msec)   "\"lastUpdatedTimestamp\":\"" msec "\""
#define APP(name, list) "{\"name\":\"" name "\",\"instance\":[" list "]}"
#define ALL(hash, apps)                                                           \
	"{\"applications\":{\"versions__delta\":\"1\",\"apps__hashcode\":\"" hash \
	"\",\"application\":[" apps "]}}"

/* ---- one instance ---- */

static struct instance *parse(const char *text)
{
	struct usher_error err = { 0 };
	struct instance *i = NULL;
	int r = instance_parse(text, strlen(text), &i, &err);

	if (r < 0)
		fail_msg("%s", usher_error_text(&err, r));
	return i;
}

static struct usher_endpoints *endpoints_of(
		const char *text, const struct instance_options *options)
{
	struct usher_endpoints *set = usher_endpoints_new();
	struct usher_error err = { 0 };
	struct instance *i = parse(text);
	int r = instance_add_to(i, options, set, &err);

	if (r < 0)
		fail_msg("%s", usher_error_text(&err, r));
	usher_endpoints_seal(set);
	free(i);
	return set;
}

static const struct instance_options plain = { 0 };

static void test_an_instance_is_read_with_all_that_is_said_of_it(void **state)
{
	struct usher_endpoints *set = endpoints_of(
			INSTANCE("h1:web:8080",
					STATUS("UP") ",\"metadata\":{\"zone\":\"a\",\"weight\":\"3\","
						     "\"management.port\":\"8081\","
						     "\"@class\":\"java.util.Map\"}"),
			&plain);
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	(void) state;
	usher_endpoints_get(set, 0, &e);
	assert_string_equal(e.id, "h1:web:8080");
	assert_string_equal(e.address, "10.0.0.1");
	assert_int_equal(e.port, 8080);
	assert_false(e.secure);
	assert_true(e.ready);
	assert_int_equal(e.weight, 3);
	assert_string_equal(e.zone, "a");
	assert_string_equal(usher_endpoints_metadata(set, 0, "management.port"), "8081");
	assert_string_equal(usher_endpoints_metadata(set, 0, "eureka.app"), "WEB");
	assert_string_equal(usher_endpoints_metadata(set, 0, "eureka.status"), "UP");
	assert_string_equal(usher_endpoints_metadata(set, 0, "eureka.host"), "h1");
	assert_null(usher_endpoints_metadata(set, 0, "@class"));
	(void) usher_endpoints_unref(set);
}

static void test_what_people_decided_is_kept_apart_from_what_an_instance_says(void **state)
{
	static const struct {
		const char *status;
		enum usher_admin_state admin;
		bool ready;
	} cases[] = {
		{ INSTANCE("a", STATUS("UP")), USHER_ADMIN_READY, true },
		{ INSTANCE("a", STATUS("DOWN")), USHER_ADMIN_READY, false },
		{ INSTANCE("a", STATUS("STARTING")), USHER_ADMIN_READY, false },
		{ INSTANCE("a", STATUS("UNKNOWN")), USHER_ADMIN_READY, false },
		{ INSTANCE("a", STATUS("SOMETHING")), USHER_ADMIN_READY, false },
		{ INSTANCE("a",
				  "\"status\":\"OUT_OF_SERVICE\",\"overriddenStatus\":"
				  "\"OUT_OF_SERVICE\""),
				USHER_ADMIN_MAINTENANCE, true },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct usher_endpoints *set = endpoints_of(cases[i].status, &plain);
		struct usher_endpoint e = USHER_ENDPOINT_INIT;

		usher_endpoints_get(set, 0, &e);
		assert_int_equal(e.admin_state, cases[i].admin);
		assert_int_equal(e.ready, cases[i].ready);
		(void) usher_endpoints_unref(set);
	}
}

static void test_ports_are_by_name_or_number(void **state)
{
	static const char text[] =
			"{\"instanceId\":\"a\",\"app\":\"WEB\",\"ipAddr\":\"10.0.0.1\","
			"\"status\":\"UP\",\"port\":{\"$\":\"8080\",\"@enabled\":\"true\"},"
			"\"securePort\":{\"$\":8443,\"@enabled\":true},"
			"\"metadata\":{\"management.port\":\"8081\"}}";
	static const struct {
		const char *wanted;
		int port;
		bool secure;
	} cases[] = {
		{ NULL, 8443, true },
		{ "http", 8080, false },
		{ "https", 8443, true },
		{ "management", 8081, false },
		{ "8081", 8081, false },
		{ "8443", 8443, true },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct instance_options options = { .port = cases[i].wanted };
		struct usher_endpoints *set = endpoints_of(text, &options);
		struct usher_endpoint e = USHER_ENDPOINT_INIT;

		usher_endpoints_get(set, 0, &e);
		assert_int_equal(e.port, cases[i].port);
		assert_int_equal(e.secure, cases[i].secure);
		(void) usher_endpoints_unref(set);
	}
}

static void test_a_port_that_is_not_there_is_said(void **state)
{
	struct instance *i = parse(INSTANCE("a", STATUS("UP")));
	struct usher_endpoints *set = usher_endpoints_new();
	struct usher_error err = { 0 };

	(void) state;
	assert_errno(instance_add_to(i, &(const struct instance_options){ .port = "https" }, set,
				     &err),
			ENOENT);
	assert_string_equal(err.text, "a has no port https that is enabled");
	assert_errno(instance_add_to(i,
				     &(const struct instance_options){
						     .by = INSTANCE_BY_SECURE_VIP },
				     set, &err),
			ENOENT);
	assert_string_equal(err.text, "a has no secure port that is enabled");
	(void) usher_endpoints_unref(set);
	free(i);
}

static void test_what_older_servers_write_is_read(void **state)
{
	struct usher_endpoints *set = endpoints_of(
			"{\"hostName\":\"ec2\",\"app\":\"WEB\",\"ipAddr\":\"10.0.0.2\",\"status\":\"UP\","
			"\"overriddenstatus\":\"UNKNOWN\",\"port\":7001,\"securePort\":{\"@enabled\":"
			"\"false\",\"$\":\"7002\"},\"dataCenterInfo\":{\"name\":\"Amazon\",\"metadata\":"
			"{\"instance-id\":\"i-1\",\"availability-zone\":\"us-east-1c\"}},\"metadata\":"
			"{\"number\":7,\"flag\":true,\"nothing\":null,\"list\":[1]}}",
			&plain);
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	(void) state;
	usher_endpoints_get(set, 0, &e);
	assert_string_equal(e.id, "i-1");
	assert_int_equal(e.port, 7001);
	assert_string_equal(e.zone, "us-east-1c");
	assert_string_equal(usher_endpoints_metadata(set, 0, "eureka.datacenter"), "Amazon");
	assert_string_equal(usher_endpoints_metadata(set, 0, "number"), "7");
	assert_string_equal(usher_endpoints_metadata(set, 0, "flag"), "true");
	assert_null(usher_endpoints_metadata(set, 0, "list"));
	(void) usher_endpoints_unref(set);
}

static void test_the_address_is_the_ip_or_the_host_name(void **state)
{
	const struct instance_options by_name = { .hostname = true };
	struct usher_endpoints *set = endpoints_of(INSTANCE("a", STATUS("UP")), &by_name);
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	(void) state;
	usher_endpoints_get(set, 0, &e);
	assert_string_equal(e.address, "h1");
	(void) usher_endpoints_unref(set);
}

static void test_each_vip_is_a_key_whatever_its_case(void **state)
{
	struct instance *i =
			parse(INSTANCE("a", STATUS("UP") ",\"vipAddress\":\"web, Web-Alias,\""));
	uint64_t key;

	(void) state;
	assert_true(instance_key_at(i, INSTANCE_BY_VIP, 0, &key));
	assert_true(key == instance_key("WEB", 3));
	assert_true(instance_key_at(i, INSTANCE_BY_VIP, 1, &key));
	assert_true(key == instance_key("web-alias", 9));
	assert_false(instance_key_at(i, INSTANCE_BY_VIP, 2, &key));
	assert_false(instance_key_at(i, INSTANCE_BY_SECURE_VIP, 0, &key));
	assert_true(instance_key_at(i, INSTANCE_BY_APP, 0, &key));
	assert_true(key == instance_key("web", 3));
	assert_false(instance_key_at(i, INSTANCE_BY_APP, 1, &key));
	free(i);
}

static void test_an_instance_alone_is_read_from_its_wrapping(void **state)
{
	struct instance *i = parse("{\"instance\":" INSTANCE(
			"a", STATUS("UP") ",\"lastDirtyTimestamp\":\"1700000000005\"") "}");

	(void) state;
	assert_string_equal(i->id, "a");
	assert_true(i->dirty_msec == 1700000000005);
	free(i);
}

static void test_a_renewal_is_written_as_the_end_of_the_lease(void **state)
{
	struct instance *fresh = parse(INSTANCE("a",
			STATUS("UP") ",\"leaseInfo\":{\"durationInSecs\":90,\"registrationTimestamp\":1000000,"
				     "\"lastRenewalTimestamp\":1000000}"));
	struct instance *renewed = parse(INSTANCE("a",
			STATUS("UP") ",\"leaseInfo\":{\"durationInSecs\":90,\"registrationTimestamp\":1000000,"
				     "\"lastRenewalTimestamp\":1120000}"));

	(void) state;
	assert_true(fresh->renewed_msec == 1000000);
	assert_true(renewed->renewed_msec == 1030000);
	free(fresh);
	free(renewed);
}

/* ---- an answer ---- */

/* So many bytes at a time; the reader is to be done. */
static int read_in_pieces(
		struct reader *r, const char *text, size_t piece, struct usher_error *reterr)
{
	size_t size = strlen(text);
	int e = 0;

	reader_init(r);
	for (size_t at = 0; at < size && e == 0; at += piece)
		e = reader_feed(r, &text[at], at + piece < size ? piece : size - at, reterr);
	return e < 0 ? e : reader_finish(r, reterr);
}

static void test_an_answer_is_the_same_in_pieces_of_any_size(void **state)
{
	static const char text[] = ALL("DOWN_1_UP_2_",
			APP("WEB",
					INSTANCE("a", STATUS("UP")) ", " INSTANCE("b\\\"}]",
							STATUS("DOWN"))) "\n,\t" APP("SHOP",
					INSTANCE("c", STATUS("UP"))));

	(void) state;
	for (size_t piece = 1; piece <= sizeof(text); piece = piece * 2 + 1) {
		struct usher_error err = { 0 };
		struct reader r;

		assert_ok(read_in_pieces(&r, text, piece, &err));
		assert_int_equal(r.count, 3);
		assert_string_equal(r.items[1]->id, "b\"}]");
		assert_string_equal(r.hash, "DOWN_1_UP_2_");
		reader_done(&r);
	}
}

static void test_one_of_something_needs_no_list(void **state)
{
	static const char *const cases[] = {
		"{\"applications\":{\"apps__hashcode\":\"UP_1_\",\"application\":{\"instance\":" INSTANCE(
				"a", STATUS("UP")) ",\"name\":\"WEB\"}}}",
		" {\"more\":{\"a\":[1,2,{}]},\"applications\":{\"application\":[{\"name\":\"WEB\",\"instance\":" INSTANCE(
				"a", STATUS("UP")) "}],\"apps__hashcode\":\"UP_1_\"}} ",
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct usher_error err = { 0 };
		struct reader r;

		assert_ok(read_in_pieces(&r, cases[i], 7, &err));
		assert_int_equal(r.count, 1);
		assert_string_equal(r.hash, "UP_1_");
		reader_done(&r);
	}
}

static void test_none_at_all_is_an_answer(void **state)
{
	static const char *const cases[] = { ALL("", ""), "{\"applications\":{}}",
		"{\"applications\":{\"application\":null,\"apps__hashcode\":\"\"}}" };

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct reader r;

		assert_ok(read_in_pieces(&r, cases[i], 5, NULL));
		assert_int_equal(r.count, 0);
		reader_done(&r);
	}
}

static void test_what_is_no_answer_is_refused_in_words(void **state)
{
	static const char *const cases[] = { "", "{", "{}", "[]", "null", "{\"applications\":null}",
		"<applications/>", "{\"applications\":{}} x", "{\"applications\":{},}",
		"{\"applications\":{\"application\":[1]}}",
		"{\"applications\":{\"application\":[{\"instance\":[7]}]}}",
		"{\"applications\":{\"application\":[{\"instance\":[{]}]}}",
		"{\"applications\":{\"a\":01}}", "{\"applications\" {}}",
		"{\"applications\":{\"application\":[{\"name\":\"WEB\"}", "{,}", "{\"a\":}",
		"{\"a\":\"\\ud800\"}" };

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct usher_error err = { 0 };
		struct reader r;

		assert_errno(read_in_pieces(&r, cases[i], 3, &err), EBADMSG);
		if (!strstr(err.text, "is this a Eureka server"))
			fail_msg("%s: %s", cases[i], err.text);
		reader_done(&r);
	}
}

static void test_an_instance_without_a_name_takes_nothing_else_along(void **state)
{
	struct reader r;

	(void) state;
	assert_ok(read_in_pieces(
			&r, ALL("UP_1_", APP("WEB", "{}," INSTANCE("a", STATUS("UP")))), 9, NULL));
	assert_int_equal(r.count, 1);
	assert_int_equal(r.malformed, 1);
	reader_done(&r);
}

static void test_what_one_instance_says_of_itself_takes_no_other_along(void **state)
{
	struct reader r;

	(void) state;
	assert_ok(read_in_pieces(&r,
			ALL("UP_1_",
					APP("WEB",
							INSTANCE("label", STATUS("UP") ",\"metadata\":{\"x\":\"a\\u0000b\",\"y\":\"\\ud800\",\"good\":\"yes\"}") "," INSTANCE(
									"number",
									STATUS("UP") ",\"lastUpdatedTimestamp\":99999999999999999999") "," INSTANCE("a",
									STATUS("UP")))),
			9, NULL));
	assert_int_equal(r.count, 3);
	assert_int_equal(r.items[0]->label_count, 1);
	assert_string_equal(r.items[0]->labels[0].value, "yes");
	assert_string_equal(r.items[2]->id, "a");
	reader_done(&r);
}

static void test_an_instance_of_too_many_bytes_takes_no_other_along(void **state)
{
	static const char begin[] =
			"{\"applications\":{\"application\":[{\"instance\":[{\"app\":\"WEB\","
			"\"instanceId\":\"large\",\"metadata\":{\"x\":\"",
			  end[] = "\"}}," INSTANCE("a", STATUS("UP")) "]}]}}";
	static char piece[65536];
	struct reader r;

	(void) state;
	memset(piece, 'x', sizeof(piece));
	reader_init(&r);
	assert_ok(reader_feed(&r, begin, strlen(begin), NULL));
	for (size_t i = 0; i <= READER_VALUE_MAX; i += sizeof(piece))
		assert_ok(reader_feed(&r, piece, sizeof(piece), NULL));
	assert_ok(reader_feed(&r, end, strlen(end), NULL));
	assert_ok(reader_finish(&r, NULL));
	assert_int_equal(r.count, 1);
	assert_string_equal(r.items[0]->id, "a");
	assert_int_equal(r.malformed, 1);
	reader_done(&r);
}

static void test_a_value_that_never_ends_is_given_up(void **state)
{
	static const char begin[] = "{\"applications\":{\"apps__hashcode\":\"";
	static char piece[65536];
	struct usher_error err = { 0 };
	struct reader r;
	int e;

	(void) state;
	memset(piece, 'x', sizeof(piece));
	reader_init(&r);
	assert_ok(reader_feed(&r, begin, strlen(begin), &err));
	for (unsigned i = 0; (e = reader_feed(&r, piece, sizeof(piece), &err)) == 0; i++)
		assert_true(i < 1000);
	assert_errno(e, E2BIG);
	reader_done(&r);
}

static int read_under_oom(void *userdata)
{
	struct reader r;
	int e;

	(void) userdata;
	e = read_in_pieces(&r,
			ALL("UP_2_",
					APP("WEB",
							INSTANCE("a", STATUS("UP") ",\"metadata\":{\"x\":\"y\"}") "," INSTANCE(
									"b", STATUS("UP")))),
			100, NULL);
	reader_done(&r);
	return e;
}

static void test_reading_survives_that_memory_runs_out(void **state)
{
	(void) state;
	assert_survives_oom(read_under_oom, NULL);
}

/* ---- what is known ---- */

/* The instances of an answer. */
static struct instance **items_of(const char *text, size_t *ret_count)
{
	struct usher_error err = { 0 };
	struct instance **items;
	struct reader r;

	assert_ok(read_in_pieces(&r, text, 1000, &err));
	items = r.items;
	*ret_count = r.count;
	r.items = NULL;
	reader_done(&r);
	return items;
}

static void replace(struct registry *r, const char *text, uint64_t now_usec)
{
	size_t count;
	struct instance **items = items_of(text, &count);

	assert_ok(registry_replace(r, items, count, now_usec - 1, now_usec));
}

static void apply(struct registry *r, const char *text)
{
	size_t count;
	struct instance **items = items_of(text, &count);

	assert_ok(registry_apply(r, items, count));
}

static const char *hash_of(const struct registry *r)
{
	static char text[REGISTRY_HASH_MAX];

	registry_hash(r, text);
	return text;
}

static size_t count_of(const struct registry *r, const char *key)
{
	size_t count;

	(void) registry_find(r, instance_key(key, strlen(key)), &count);
	return count;
}

#define CHANGE(id, status, action, msec) \
	INSTANCE(id, STATUS(status) ",\"actionType\":\"" action "\"," UPDATED(msec))

static void test_the_hash_counts_each_status(void **state)
{
	struct registry r;

	(void) state;
	registry_init(&r, INSTANCE_BY_APP);
	assert_string_equal(hash_of(&r), "");
	replace(&r,
			ALL("",
					APP("WEB",
							INSTANCE("a", STATUS("UP")) "," INSTANCE(
									"b",
									STATUS("OUT_OF_SERVICE")) "," INSTANCE("c",
									STATUS("UP")) "," INSTANCE("d",
									STATUS("DOWN")))),
			100);
	assert_string_equal(hash_of(&r), "DOWN_1_OUT_OF_SERVICE_1_UP_2_");
	registry_done(&r);
}

static void test_changes_are_taken_over_any_number_of_times(void **state)
{
	static const char changes[] = ALL("",
			APP("WEB",
					CHANGE("b", "UP", "ADDED", "20") "," CHANGE(
							"a", "UP", "DELETED", "30") "," CHANGE("c",
							"DOWN", "MODIFIED", "40")));
	struct registry r;

	(void) state;
	registry_init(&r, INSTANCE_BY_APP);
	replace(&r,
			ALL("",
					APP("WEB",
							CHANGE("a", "UP", "ADDED", "10") "," CHANGE(
									"c", "UP", "ADDED", "10"))),
			100);
	registry_settle(&r);
	apply(&r, changes);
	assert_string_equal(hash_of(&r), "DOWN_1_UP_1_");
	assert_int_equal(count_of(&r, "web"), 2);
	assert_true(registry_is_touched(&r, instance_key("WEB", 3)));
	assert_false(registry_is_touched(&r, instance_key("SHOP", 4)));
	registry_settle(&r);
	apply(&r, changes);
	assert_string_equal(hash_of(&r), "DOWN_1_UP_1_");
	assert_false(registry_is_touched(&r, instance_key("WEB", 3)));
	registry_done(&r);
}

static void test_a_change_that_is_older_than_what_is_known_is_none(void **state)
{
	struct registry r;

	(void) state;
	registry_init(&r, INSTANCE_BY_APP);
	replace(&r, ALL("", APP("WEB", CHANGE("a", "UP", "ADDED", "50"))), 100);
	apply(&r, ALL("", APP("WEB", CHANGE("a", "UP", "DELETED", "40"))));
	assert_string_equal(hash_of(&r), "UP_1_");
	apply(&r, ALL("", APP("WEB", CHANGE("a", "UP", "DELETED", "60"))));
	assert_string_equal(hash_of(&r), "");
	registry_done(&r);
}

static void test_of_two_alike_the_later_one_counts(void **state)
{
	struct registry r;

	(void) state;
	registry_init(&r, INSTANCE_BY_APP);
	replace(&r,
			ALL("",
					APP("WEB",
							INSTANCE("a", STATUS("UP")) "," INSTANCE(
									"a", STATUS("DOWN")))),
			100);
	assert_string_equal(hash_of(&r), "DOWN_1_");
	registry_done(&r);
}

static void test_who_is_not_listed_any_more_stays_for_a_while(void **state)
{
	struct registry r;

	(void) state;
	registry_init(&r, INSTANCE_BY_APP);
	replace(&r,
			ALL("",
					APP("WEB",
							CHANGE("a", "UP", "ADDED", "10") "," CHANGE(
									"b", "UP", "ADDED", "10"))),
			100);
	replace(&r, ALL("", ""), 200);
	assert_string_equal(hash_of(&r), "");
	assert_int_equal(count_of(&r, "web"), 2);
	assert_int_equal(r.missing, 2);
	/* One comes back, whatever its timestamp; of the other it is said that it was taken out. */
	apply(&r,
			ALL("",
					APP("WEB",
							CHANGE("a", "UP", "ADDED", "5") "," CHANGE(
									"b", "UP", "DELETED",
									"5"))));
	assert_int_equal(count_of(&r, "web"), 1);
	assert_int_equal(r.missing, 0);
	/* Since when it is missing does not begin anew with each list. */
	replace(&r, ALL("", ""), 300);
	replace(&r, ALL("", ""), 400);
	assert_ok(registry_drop_missing(&r, 300));
	assert_int_equal(count_of(&r, "web"), 1);
	assert_ok(registry_drop_missing(&r, 301));
	assert_int_equal(count_of(&r, "web"), 0);
	assert_int_equal(r.count, 0);
	registry_done(&r);
}

static void test_who_came_back_under_another_id_is_not_missing(void **state)
{
	struct registry r;

	(void) state;
	registry_init(&r, INSTANCE_BY_APP);
	replace(&r, ALL("", APP("WEB", INSTANCE("web:1234", STATUS("UP")))), 100);
	replace(&r, ALL("", APP("WEB", INSTANCE("web:5678", STATUS("UP")))), 200);
	assert_int_equal(r.count, 1);
	assert_int_equal(r.missing, 0);
	assert_string_equal(r.items[0]->id, "web:5678");
	registry_done(&r);
}

#define LEASE(id, registered, renewed)                                                                             \
	INSTANCE(id,                                                                                               \
			STATUS("UP") ",\"leaseInfo\":{\"durationInSecs\":90,\"registrationTimestamp\":" registered \
				     ",\"lastRenewalTimestamp\":" renewed "}")

static void test_a_lease_that_is_over_and_kept_is_seen(void **state)
{
	struct registry r;

	(void) state;
	registry_init(&r, INSTANCE_BY_APP);
	replace(&r,
			ALL("",
					APP("WEB",
							LEASE("a", "1000000", "9090000") "," LEASE(
									"b", "1000000",
									"8690000") "," LEASE("c",
									"1000000", "8900000"))),
			100);
	assert_int_equal(r.overdue, 1);
	assert_true(r.items[1]->overdue);
	/* From the first registration to the last sign of life. */
	assert_true(registry_span_usec(&r) == UINT64_C(8000000000));
	registry_done(&r);
}

static void test_an_instance_with_two_vips_is_found_by_each(void **state)
{
	struct registry r;

	(void) state;
	registry_init(&r, INSTANCE_BY_VIP);
	replace(&r,
			ALL("",
					APP("WEB",
							INSTANCE("a", STATUS("UP") ",\"vipAddress\":\"x,y\"") "," INSTANCE(
									"b",
									STATUS("UP") ",\"vipAddress\":\"Y\""))),
			100);
	assert_int_equal(count_of(&r, "x"), 1);
	assert_int_equal(count_of(&r, "y"), 2);
	assert_int_equal(count_of(&r, "web"), 0);
	registry_done(&r);
}

static int know_under_oom(void *userdata)
{
	static const char before[] = ALL("",
			APP("WEB",
					CHANGE("a", "UP", "ADDED", "10") "," CHANGE(
							"b", "UP", "ADDED", "10")));
	static const char now[] = ALL("",
			APP("WEB",
					CHANGE("b", "UP", "ADDED", "10") "," CHANGE(
							"c", "UP", "ADDED", "10")));
	static const char changes[] = ALL("",
			APP("WEB",
					CHANGE("b", "UP", "DELETED", "20") "," CHANGE(
							"d", "UP", "ADDED", "10")));
	struct registry r;
	struct reader reader;
	int e = 0;

	(void) userdata;
	registry_init(&r, INSTANCE_BY_APP);
	for (int i = 0; i < 3 && e == 0; i++) {
		const char *const texts[] = { before, now, changes };

		e = read_in_pieces(&reader, texts[i], 1000, NULL);
		if (e == 0) {
			struct instance **items = reader.items;
			size_t count = reader.count;

			reader.items = NULL;
			e = i < 2 ? registry_replace(&r, items, count, 1, 100)
				  : registry_apply(&r, items, count);
		}
		reader_done(&reader);
	}
	if (e == 0)
		e = registry_drop_missing(&r, 101);
	registry_done(&r);
	return e;
}

static void test_knowing_survives_that_memory_runs_out(void **state)
{
	(void) state;
	assert_survives_oom(know_under_oom, NULL);
}

static void test_names_are_told_once_and_in_small_letters(void **state)
{
	struct usher_source source = { 0 };
	struct registry r;

	(void) state;
	registry_init(&r, INSTANCE_BY_APP);
	replace(&r,
			ALL("",
					APP("WEB",
							INSTANCE("a", STATUS("UP") ",\"vipAddress\":\"x,Y\"") "," INSTANCE(
									"b",
									STATUS("UP") ",\"vipAddress\":\"y\""))),
			100);
	names_tell(&r, &source);
	assert_int_equal(source.known_count, 1);
	assert_true(fake_source_knows(&source, "web"));
	r.by = INSTANCE_BY_VIP;
	names_tell(&r, &source);
	assert_int_equal(source.known_count, 2);
	assert_true(fake_source_knows(&source, "x"));
	assert_true(fake_source_knows(&source, "y"));
	fake_source_done(&source);
	registry_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_instance_is_read_with_all_that_is_said_of_it),
		cmocka_unit_test(test_what_people_decided_is_kept_apart_from_what_an_instance_says),
		cmocka_unit_test(test_ports_are_by_name_or_number),
		cmocka_unit_test(test_a_port_that_is_not_there_is_said),
		cmocka_unit_test(test_what_older_servers_write_is_read),
		cmocka_unit_test(test_the_address_is_the_ip_or_the_host_name),
		cmocka_unit_test(test_each_vip_is_a_key_whatever_its_case),
		cmocka_unit_test(test_an_instance_alone_is_read_from_its_wrapping),
		cmocka_unit_test(test_a_renewal_is_written_as_the_end_of_the_lease),
		cmocka_unit_test(test_an_answer_is_the_same_in_pieces_of_any_size),
		cmocka_unit_test(test_one_of_something_needs_no_list),
		cmocka_unit_test(test_none_at_all_is_an_answer),
		cmocka_unit_test(test_what_is_no_answer_is_refused_in_words),
		cmocka_unit_test(test_an_instance_without_a_name_takes_nothing_else_along),
		cmocka_unit_test(test_what_one_instance_says_of_itself_takes_no_other_along),
		cmocka_unit_test(test_an_instance_of_too_many_bytes_takes_no_other_along),
		cmocka_unit_test(test_a_value_that_never_ends_is_given_up),
		cmocka_unit_test(test_reading_survives_that_memory_runs_out),
		cmocka_unit_test(test_the_hash_counts_each_status),
		cmocka_unit_test(test_changes_are_taken_over_any_number_of_times),
		cmocka_unit_test(test_a_change_that_is_older_than_what_is_known_is_none),
		cmocka_unit_test(test_of_two_alike_the_later_one_counts),
		cmocka_unit_test(test_who_is_not_listed_any_more_stays_for_a_while),
		cmocka_unit_test(test_who_came_back_under_another_id_is_not_missing),
		cmocka_unit_test(test_a_lease_that_is_over_and_kept_is_seen),
		cmocka_unit_test(test_an_instance_with_two_vips_is_found_by_each),
		cmocka_unit_test(test_knowing_survives_that_memory_runs_out),
		cmocka_unit_test(test_names_are_told_once_and_in_small_letters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
