/* What etcd's gateway says, in both of its dialects, and what the values of keys say. The answers
 * are those of etcd 3.4.23 and 3.5.30. */

#include "gateway.h"
#include "layout.h"
#include "table.h"
#include "test.h"
#include "value.h"

#define ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

#define HEADER(revision)                                                                                                      \
	"\"header\":{\"cluster_id\":\"12101053776118486841\",\"member_id\":\"15985099378392235387\",\"revision\":\"" revision \
	"\",\"raft_term\":\"2\"}"

/* ---- layouts ---- */

static void test_a_layout_makes_the_prefix_of_a_service(void **state)
{
	char *prefix = etcd_layout_prefix("/services/{service}/{id}", "web");

	(void) state;
	assert_string_equal(prefix, "/services/web/");
	free(prefix);
	prefix = etcd_layout_prefix("apps-{service}.nodes:{id}", "a/b");
	assert_string_equal(prefix, "apps-a/b.nodes:");
	free(prefix);
}

static void test_a_layout_that_cannot_tell_services_apart_is_refused(void **state)
{
	static const char *const wrong[] = { "/services/", "/services/{id}", "/{service}",
		"/{service}{id}", "/{id}/{service}", "/{service}/{service}/{id}",
		"/{service}/{id}/node" };

	(void) state;
	assert_ok(etcd_layout_check(ETCD_LAYOUT_DEFAULT, NULL));
	for (size_t i = 0; i < ELEMENTS(wrong); i++)
		assert_errno(etcd_layout_check(wrong[i], NULL), EINVAL);
}

static void test_the_end_of_a_prefix_is_the_first_key_behind_it(void **state)
{
	static const struct {
		const char *prefix, *end;
	} cases[] = { { "/services/web/", "/services/web0" }, { "a\xff\xff", "b" },
		{ "\xff", "" } };

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		size_t size = 0, expected = strlen(cases[i].end);
		char *end = etcd_layout_end(cases[i].prefix, strlen(cases[i].prefix), &size);

		assert_non_null(end);
		assert_int_equal(size, expected ? expected : 1);
		assert_memory_equal(end, cases[i].end, expected ? expected : 1);
		free(end);
	}
}

static void test_what_others_keep_below_a_service_is_no_instance(void **state)
{
	static const char *const others[] = { "", "a/b", "/", "a\nb", "\x1b[2J", "\x7f" };

	(void) state;
	assert_true(etcd_layout_is_id("10.0.0.5:8080", 13));
	assert_false(etcd_layout_is_id("a\0b", 3));
	for (size_t i = 0; i < ELEMENTS(others); i++)
		assert_false(etcd_layout_is_id(others[i], strlen(others[i])));
}

/* ---- requests ---- */

static void test_requests_are_as_the_gateway_wants_them(void **state)
{
	char *text = etcd_range_request("/services/web/", NULL, 0, 0);

	(void) state;
	assert_string_equal(text,
			"{\"key\":\"L3NlcnZpY2VzL3dlYi8=\",\"range_end\":\"L3NlcnZpY2VzL3dlYjA=\",\"limit\":\"500\",\"revision\":\"0\"}");
	free(text);
	text = etcd_watch_request("/services/web/", 3, 7);
	assert_string_equal(text,
			"{\"create_request\":{\"key\":\"L3NlcnZpY2VzL3dlYi8=\",\"range_end\":\"L3NlcnZpY2VzL3dlYjA=\",\"start_revision\":\"3\",\"watch_id\":\"7\",\"progress_notify\":true}}");
	free(text);
	text = etcd_put_request("/services/web/a", "{}", INT64_C(9041998978783709194), 0);
	assert_string_equal(text,
			"{\"success\":[{\"request_put\":{\"key\":\"L3NlcnZpY2VzL3dlYi9h\",\"value\":\"e30=\",\"lease\":\"9041998978783709194\"}}]}");
	free(text);
	text = etcd_put_request("/services/web/a", "{}", ETCD_SAME_LEASE, 12);
	assert_string_equal(text,
			"{\"compare\":[{\"key\":\"L3NlcnZpY2VzL3dlYi9h\",\"target\":\"MOD\",\"result\":\"EQUAL\",\"mod_revision\":\"12\"}],\"success\":[{\"request_put\":{\"key\":\"L3NlcnZpY2VzL3dlYi9h\",\"value\":\"e30=\",\"ignore_lease\":true}}]}");
	free(text);
}

/* ---- answers ---- */

static struct usher_http_event said(int status, const char *body)
{
	return (struct usher_http_event){ .size = sizeof(struct usher_http_event),
		.kind = USHER_HTTP_END,
		.status = status,
		.data = body,
		.data_size = strlen(body),
		.server = "http://etcd:2379" };
}

static void test_errors_of_both_dialects_are_understood(void **state)
{
	static const struct {
		int status;
		const char *body;
		int error, code;
	} cases[] = {
		{ 400, "{\"error\":\"etcdserver: user name is empty\",\"message\":\"etcdserver: user name is empty\",\"code\":3}",
				EACCES, 3 },
		{ 403, "{\"error\":\"etcdserver: permission denied\",\"message\":\"etcdserver: permission denied\",\"code\":7}",
				EACCES, 7 },
		{ 401, "{\"error\":\"etcdserver: invalid auth token\",\"message\":\"etcdserver: invalid auth token\",\"code\":16}",
				EACCES, 16 },
		{ 404, "{\"code\":5, \"message\":\"etcdserver: requested lease not found\"}",
				ENOENT, 5 },
		{ 400, "{\"code\":11,\"message\":\"etcdserver: mvcc: required revision has been compacted\"}",
				ERANGE, 11 },
		{ 503, "{\"error\":\"etcdserver: request timed out\",\"message\":\"etcdserver: request timed out\",\"code\":14}",
				EAGAIN, 14 },
		{ 500, "{\"error\":\"context deadline exceeded\",\"message\":\"context deadline exceeded\",\"code\":2}",
				EIO, 2 },
		{ 200, "{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"etcdserver: no leader\",\"http_status\":\"Service Unavailable\"}}",
				EAGAIN, 14 },
		{ 200, "{\"error\":{\"code\":1,\"message\":\"grpc: the client connection is closing\"}}",
				EIO, 1 },
		{ 405, "Method Not Allowed", EIO, 0 },
		{ 200, "<html>Please log in</html>", EBADMSG, 0 },
		{ 200, "", EBADMSG, 0 },
		{ 200, "[]", EBADMSG, 0 },
		{ 302, "{}", EIO, 0 },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		struct usher_http_event event = said(cases[i].status, cases[i].body);
		struct usher_error why = { 0 };
		json_t *answer = NULL;
		int code;

		assert_errno(etcd_answer_read(&event, &answer, &code, &why), cases[i].error);
		assert_int_equal(code, cases[i].code);
		assert_non_null(strstr(why.text, "http://etcd:2379"));
		assert_null(answer);
	}
}

/* What any web server could say is not taken for an empty directory. */
static void test_an_answer_without_a_header_is_none_of_etcd(void **state)
{
	static const char *const wrong[] = {
		"{}", "{\"kvs\":[]}", "{\"header\":{}}", "{\"header\":{\"cluster_id\":\"1\"}}",
		"{\"header\":{\"revision\":\"7\"}}",
		"{\"header\":{\"cluster_id\":\"1\",\"revision\":\"-7\"}}",
		"{\"header\":{\"cluster_id\":\"1\",\"revision\":\"7x\"}}",
		"{\"header\":{\"cluster_id\":\"121010537761184868411210105377611848684\",\"revision\":\"7\"}}"
	};
	struct etcd_header header;
	json_t *answer = json_loads("{" HEADER("9007199254740993") "}", 0, NULL);

	(void) state;
	assert_ok(etcd_header_read(answer, &header, NULL));
	assert_string_equal(header.cluster, "12101053776118486841");
	assert_true(header.revision == INT64_C(9007199254740993));
	json_decref(answer);
	for (size_t i = 0; i < ELEMENTS(wrong); i++) {
		answer = json_loads(wrong[i], 0, NULL);
		assert_non_null(answer);
		assert_errno(etcd_header_read(answer, &header, NULL), EBADMSG);
		json_decref(answer);
	}
}

static void test_a_pair_is_decoded(void **state)
{
	json_t *pair = json_loads(
			"{\"key\":\"L3NlcnZpY2VzL3dlYi9h\",\"create_revision\":\"2\",\"mod_revision\":\"2\",\"version\":\"1\",\"value\":\"eyJhZGRyIjoiMTAuMC4wLjE6ODAifQ==\",\"lease\":\"9041998978783709194\"}",
			0, NULL);
	struct etcd_kv kv = { 0 };

	(void) state;
	assert_ok(etcd_kv_read(pair, &kv, NULL));
	assert_string_equal(kv.key, "/services/web/a");
	assert_string_equal(kv.value, "{\"addr\":\"10.0.0.1:80\"}");
	assert_int_equal(kv.mod_revision, 2);
	assert_true(kv.lease == INT64_C(9041998978783709194));
	etcd_kv_done(&kv);
	json_decref(pair);
}

static void test_what_is_no_base64_is_refused(void **state)
{
	static const char *const wrong[] = { "***", "a", "ab", "abc", "ab=c",
		"a===", "====", "L3Nl cnZp" };

	(void) state;
	for (size_t i = 0; i < ELEMENTS(wrong); i++) {
		json_t *pair = json_pack("{s:s}", "key", wrong[i]);
		struct etcd_kv kv = { 0 };

		assert_errno(etcd_kv_read(pair, &kv, NULL), EBADMSG);
		json_decref(pair);
	}
}

/* ---- values ---- */

static void test_values_are_read_in_each_of_their_formats(void **state)
{
	static const struct {
		const char *text, *port;
		const char *address;
		uint16_t number;
		bool secure;
		enum usher_admin_state admin_state;
	} cases[] = {
		{ "{\"address\":\"10.0.0.5\",\"port\":8080}", NULL, "10.0.0.5", 8080, false, 0 },
		{ "{\"addr\":\"10.0.0.1:80\"}", NULL, "10.0.0.1", 80, false, 0 },
		{ "{\"host\":\"fd00::10\",\"port\":\"8080\",\"tls\":true}", NULL, "fd00::10", 8080,
				true, 0 },
		{ "{\"address\":\"[fd00::10]:81\",\"draining\":true}", NULL, "fd00::10", 81, false,
				USHER_ADMIN_DRAINING },
		{ "{\"address\":\"h\",\"ports\":{\"http\":8080,\"admin\":9}}", "admin", "h", 9,
				false, 0 },
		{ "{\"address\":\"h:1\",\"ports\":{\"http\":8080}}", "http", "h", 8080, false, 0 },
		{ "{\"address\":\"h:1\"}", "8443", "h", 8443, false, 0 },
		{ "{\"Op\":0,\"Addr\":\"10.0.0.5:50051\",\"Metadata\":null}", NULL, "10.0.0.5",
				50051, false, 0 },
		{ "{\"Op\":0,\"Addr\":\"10.0.0.5:50051\",\"Metadata\":{\"state\":\"draining\"}}",
				NULL, "10.0.0.5", 50051, false, USHER_ADMIN_DRAINING },
		{ "10.0.0.5:8080\n", NULL, "10.0.0.5", 8080, false, 0 },
		{ "https://web-1.example:8443/", NULL, "web-1.example", 8443, true, 0 },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		struct usher_error why = { 0 };
		struct etcd_value v;

		if (etcd_value_read(cases[i].text, strlen(cases[i].text), cases[i].port, &v, &why) <
				0)
			fail_msg("%s: %s", cases[i].text, why.text);
		assert_string_equal(v.endpoint.address, cases[i].address);
		assert_int_equal(v.endpoint.port, cases[i].number);
		assert_int_equal(v.endpoint.secure, cases[i].secure);
		assert_int_equal(v.endpoint.admin_state, cases[i].admin_state);
		etcd_value_done(&v);
	}
}

static void test_what_is_no_endpoint_is_refused_with_the_reason(void **state)
{
	static const struct {
		const char *text, *port, *why;
	} cases[] = {
		{ "", NULL, "address" },
		{ "{", NULL, "value: line 1, column" },
		{ "{\"port\":1}", NULL, "address: has to be there" },
		{ "{\"address\":7,\"port\":1}", NULL, "address: has to be there" },
		{ "{\"address\":\"h\"}", NULL, "address" },
		{ "{\"address\":\"h\",\"port\":0}", NULL, "port: has to be a port" },
		{ "{\"address\":\"h\",\"port\":65536}", NULL, "port" },
		{ "{\"address\":\"h\",\"port\":\"+1\"}", NULL, "port" },
		{ "{\"address\":\"fd00::1:8080\"}", NULL, "address" },
		{ "{\"address\":\"h:1\",\"weight\":[]}", NULL, "weight" },
		{ "{\"address\":\"h:1\",\"state\":\"gone\"}", NULL, "state" },
		{ "{\"address\":\"h:1\",\"ready\":\"yes\"}", NULL, "ready" },
		{ "{\"address\":\"h:1\",\"metadata\":[]}", NULL, "metadata" },
		{ "{\"address\":\"h:1\",\"address\":\"g:1\"}", NULL, "value: line 1, column" },
		{ "{\"address\":\"h:1\"}", "grpc", "none named grpc" },
		{ "10.0.0.5:8080", "grpc", "no port named grpc" },
		{ "two", NULL, "address" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		struct usher_error why = { 0 };
		struct etcd_value v;

		assert_errno(etcd_value_read(cases[i].text, strlen(cases[i].text), cases[i].port,
					     &v, &why),
				EBADMSG);
		if (!strstr(why.text, cases[i].why))
			fail_msg("%s: %s", cases[i].text, why.text);
	}
}

static void test_what_only_others_read_in_a_value_may_hold_what_usher_cannot(void **state)
{
	static const char text[] = "{\"address\":\"h:1\",\"more\":\"a\\u0000b\",\"n\":1e999}";
	struct usher_error why = { 0 };
	struct etcd_value v;
	char *written = NULL;

	(void) state;
	assert_ok(etcd_value_read(text, strlen(text), NULL, &v, NULL));
	assert_int_equal(v.endpoint.port, 1);
	etcd_value_done(&v);
	/* It would be lost. */
	assert_errno(etcd_value_set_state(text, USHER_ADMIN_DRAINING, &written, &why), EROFS);
	assert_non_null(strstr(why.text, "take it out first"));
}

static void test_a_deleted_address_of_grpc_naming_is_no_instance(void **state)
{
	static const char text[] = "{\"Op\":1,\"Addr\":\"10.0.0.5:50051\"}";
	struct etcd_value v;

	(void) state;
	assert_errno(etcd_value_read(text, strlen(text), NULL, &v, NULL), ENOENT);
}

static const struct usher_endpoint written = { .size = sizeof(struct usher_endpoint),
	.id = "a",
	.uid = "u-1",
	.address = "fd00::10",
	.port = 8080,
	.zone = "east",
	.weight = 7,
	.secure = true,
	.ready = false,
	.serving = true,
	.admin_state = USHER_ADMIN_MAINTENANCE,
	.metadata = (const struct usher_label[]){ { "tier", "gold" }, { "v", "1.0" } },
	.metadata_count = 2 };

static void test_what_is_written_reads_the_same(void **state)
{
	char *text = etcd_value_write(ETCD_FORMAT_USHER, &written);
	struct etcd_value v;

	(void) state;
	assert_non_null(text);
	assert_ok(etcd_value_read(text, strlen(text), NULL, &v, NULL));
	assert_string_equal(v.endpoint.address, "fd00::10");
	assert_string_equal(v.endpoint.uid, "u-1");
	assert_string_equal(v.endpoint.zone, "east");
	assert_string_equal(v.endpoint.weight_text, "7");
	assert_true(v.endpoint.secure && !v.endpoint.ready && v.endpoint.serving);
	assert_int_equal(v.endpoint.admin_state, USHER_ADMIN_MAINTENANCE);
	assert_int_equal(v.endpoint.metadata_count, 2);
	assert_string_equal(v.endpoint.metadata[0].name, "tier");
	etcd_value_done(&v);
	free(text);
}

static void test_grpc_naming_is_written_as_its_readers_know_it(void **state)
{
	char *text = etcd_value_write(ETCD_FORMAT_GRPC, &written);

	(void) state;
	assert_string_equal(text,
			"{\"Op\":0,\"Addr\":\"[fd00::10]:8080\",\"Metadata\":{\"tier\":\"gold\",\"v\":\"1.0\",\"zone\":\"east\",\"weight\":\"7\",\"state\":\"maintenance\"}}");
	free(text);
}

static void test_a_state_is_set_and_the_rest_stays_as_it_was(void **state)
{
	static const struct {
		const char *before;
		enum usher_admin_state admin_state;
		const char *after;
	} cases[] = {
		{ "{\"x\": [1, {\"y\": 2.50}], \"address\": \"h:1\"}", USHER_ADMIN_DRAINING,
				"{\"x\":[1,{\"y\":2.5}],\"address\":\"h:1\",\"state\":\"draining\"}" },
		{ "{\"address\":\"h:1\",\"state\":\"draining\",\"draining\":true}",
				USHER_ADMIN_READY, "{\"address\":\"h:1\"}" },
		{ "{\"Op\":0,\"Addr\":\"h:1\",\"Metadata\":null}", USHER_ADMIN_DRAINING,
				"{\"Op\":0,\"Addr\":\"h:1\",\"Metadata\":{\"state\":\"draining\"}}" },
		{ "10.0.0.5:8080", USHER_ADMIN_DRAINING, NULL },
		{ "{\"Addr\":\"h:1\",\"Metadata\":\"text\"}", USHER_ADMIN_DRAINING, NULL },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		char *after = NULL;
		int r = etcd_value_set_state(cases[i].before, cases[i].admin_state, &after, NULL);

		if (!cases[i].after) {
			assert_errno(r, EROFS);
			continue;
		}
		assert_ok(r);
		assert_string_equal(after, cases[i].after);
		free(after);
	}
}

/* ---- tables ---- */

static int put(struct etcd_table *t, const char *key, const char *value, int64_t revision)
{
	struct etcd_kv kv = { .key = strdup(key),
		.key_size = strlen(key),
		.value = value ? strdup(value) : NULL,
		.value_size = value ? strlen(value) : 0,
		.mod_revision = revision };

	if (!kv.key || (value && !kv.value)) {
		etcd_kv_done(&kv);
		return -ENOMEM;
	}
	return etcd_table_put(t, strlen("/s/"), &kv);
}

static void drop(struct etcd_table *t, char *key)
{
	const struct etcd_kv kv = { .key = key, .key_size = strlen(key) };

	etcd_table_remove(t, strlen("/s/"), &kv);
}

static struct usher_endpoints *build(struct etcd_table *t)
{
	struct usher_endpoints *set = NULL;

	assert_ok(etcd_table_build(t, "s", NULL, &set, NULL));
	usher_endpoints_seal(set);
	return set;
}

static void test_a_table_says_what_its_keys_say(void **state)
{
	char a[] = "/s/a", none[] = "/s/none";
	struct etcd_table t = { 0 };
	struct usher_endpoints *set;

	(void) state;
	assert_ok(put(&t, "/s/b", "10.0.0.2:80", 5));
	assert_ok(put(&t, "/s/a", "10.0.0.1:80", 9));
	assert_ok(put(&t, "/s/b", "10.0.0.2:81", 7));
	assert_ok(put(&t, "/s/sub/key", "not an instance", 8));
	assert_ok(put(&t, "/s/", NULL, 3));
	assert_int_equal(t.count, 4);
	assert_int_equal(etcd_table_newest(&t), 9);
	set = build(&t);
	assert_int_equal(usher_endpoints_count(set), 2);
	usher_endpoints_unref(set);
	drop(&t, a);
	drop(&t, none);
	assert_int_equal(t.count, 3);
	assert_int_equal(etcd_table_newest(&t), 8);
	set = build(&t);
	assert_int_equal(usher_endpoints_count(set), 1);
	assert_string_equal(usher_endpoints_id(set, 0), "b");
	usher_endpoints_unref(set);
	etcd_table_done(&t);
}

static uint16_t port_of(struct etcd_table *t, const char *id)
{
	struct usher_endpoints *set = build(t);
	struct usher_endpoint e = { 0 };
	ssize_t at = usher_endpoints_find(set, id);

	if (at >= 0)
		usher_endpoints_get(set, (size_t) at, &e);
	usher_endpoints_unref(set);
	return e.port;
}

static void test_a_value_that_cannot_be_read_leaves_the_endpoint_as_it_was(void **state)
{
	struct etcd_table t = { 0 }, again = { 0 };

	(void) state;
	assert_ok(put(&t, "/s/a", "10.0.0.1:80", 1));
	assert_ok(put(&t, "/s/b", "10.0.0.2:80", 2));
	assert_int_equal(port_of(&t, "a"), 80);
	assert_ok(put(&t, "/s/a", "half a val", 3));
	assert_int_equal(port_of(&t, "a"), 80);
	assert_ok(put(&t, "/s/a", "still none", 4));
	assert_int_equal(port_of(&t, "a"), 80);
	/* Also when all is read again. */
	assert_ok(put(&again, "/s/a", "still none", 4));
	assert_ok(put(&again, "/s/b", "10.0.0.2:80", 2));
	etcd_table_inherit(&again, &t);
	assert_int_equal(port_of(&again, "a"), 80);
	assert_ok(put(&again, "/s/a", "10.0.0.1:81", 5));
	assert_int_equal(port_of(&again, "a"), 81);
	etcd_table_done(&t);
	etcd_table_done(&again);
}

static void test_what_is_read_for_the_first_time_and_bad_is_left_out(void **state)
{
	struct etcd_table t = { 0 };

	(void) state;
	assert_ok(put(&t, "/s/a", "nonsense", 1));
	assert_ok(put(&t, "/s/b", "10.0.0.2:80", 2));
	assert_int_equal(port_of(&t, "a"), 0);
	assert_int_equal(port_of(&t, "b"), 80);
	etcd_table_done(&t);
}

static void test_nonsense_in_all_keys_is_no_empty_service(void **state)
{
	struct usher_endpoints *set = NULL;
	struct etcd_table t = { 0 };

	(void) state;
	assert_ok(put(&t, "/s/a", "nonsense", 1));
	assert_ok(put(&t, "/s/b", NULL, 2));
	assert_errno(etcd_table_build(&t, "s", NULL, &set, NULL), EBADMSG);
	etcd_table_done(&t);
}

static int use_a_table(void *userdata)
{
	struct etcd_table t = { 0 };
	struct usher_endpoints *set = NULL;
	int r = put(&t, "/s/a", "10.0.0.1:80", 1);

	(void) userdata;
	if (r == 0)
		r = put(&t, "/s/b", "{\"address\":\"h:1\",\"metadata\":{\"n\":1}}", 2);
	if (r == 0)
		r = etcd_table_build(&t, "s", NULL, &set, NULL);
	usher_endpoints_unref(set);
	etcd_table_done(&t);
	return r;
}

static void test_a_table_survives_a_lack_of_memory(void **state)
{
	(void) state;
	assert_survives_oom(use_a_table, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_layout_makes_the_prefix_of_a_service),
		cmocka_unit_test(test_a_layout_that_cannot_tell_services_apart_is_refused),
		cmocka_unit_test(test_the_end_of_a_prefix_is_the_first_key_behind_it),
		cmocka_unit_test(test_what_others_keep_below_a_service_is_no_instance),
		cmocka_unit_test(test_requests_are_as_the_gateway_wants_them),
		cmocka_unit_test(test_errors_of_both_dialects_are_understood),
		cmocka_unit_test(test_an_answer_without_a_header_is_none_of_etcd),
		cmocka_unit_test(test_a_pair_is_decoded),
		cmocka_unit_test(test_what_is_no_base64_is_refused),
		cmocka_unit_test(test_values_are_read_in_each_of_their_formats),
		cmocka_unit_test(test_what_is_no_endpoint_is_refused_with_the_reason),
		cmocka_unit_test(test_what_only_others_read_in_a_value_may_hold_what_usher_cannot),
		cmocka_unit_test(test_a_deleted_address_of_grpc_naming_is_no_instance),
		cmocka_unit_test(test_what_is_written_reads_the_same),
		cmocka_unit_test(test_grpc_naming_is_written_as_its_readers_know_it),
		cmocka_unit_test(test_a_state_is_set_and_the_rest_stays_as_it_was),
		cmocka_unit_test(test_a_table_says_what_its_keys_say),
		cmocka_unit_test(test_a_value_that_cannot_be_read_leaves_the_endpoint_as_it_was),
		cmocka_unit_test(test_what_is_read_for_the_first_time_and_bad_is_left_out),
		cmocka_unit_test(test_nonsense_in_all_keys_is_no_empty_service),
		cmocka_unit_test(test_a_table_survives_a_lack_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
