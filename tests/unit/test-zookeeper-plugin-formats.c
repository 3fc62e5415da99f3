/* What ZooKeeper's messages, paths and nodes say, apart from who sends them. */

#include "folder.h"
#include "jute.h"
#include "layout.h"
#include "protocol.h"
#include "test.h"
#include "value.h"

#define ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

static struct jute_in in_of(const struct jute_out *out)
{
	return (struct jute_in){ .data = out->data, .size = out->size };
}

/* ---- jute ---- */

static void test_what_is_written_is_read(void **state)
{
	struct jute_out out = { 0 };
	struct jute_in in;
	const char *text;
	size_t size;

	(void) state;
	jute_put_int(&out, -2);
	jute_put_long(&out, INT64_MIN + 1);
	jute_put_bool(&out, true);
	jute_put_text(&out, "web");
	jute_put_bytes(&out, NULL, 0);
	assert_false(out.failed);
	in = in_of(&out);
	assert_int_equal(jute_get_int(&in), -2);
	assert_int_equal(jute_get_long(&in), INT64_MIN + 1);
	assert_true(jute_get_bool(&in));
	text = jute_get_bytes(&in, &size);
	assert_int_equal(size, 3);
	assert_memory_equal(text, "web", 3);
	assert_non_null(jute_get_bytes(&in, &size));
	assert_int_equal(size, 0);
	assert_false(in.failed);
	assert_int_equal(jute_get_int(&in), 0);
	assert_true(in.failed);
	jute_out_done(&out);
}

static void test_a_buffer_that_is_none_is_not_an_empty_one(void **state)
{
	static const unsigned char none[] = { 255, 255, 255, 255 };
	struct jute_in in = { .data = none, .size = sizeof(none) };
	size_t size = 7;

	(void) state;
	assert_null(jute_get_bytes(&in, &size));
	assert_int_equal(size, 0);
	assert_false(in.failed);
}

static void test_a_length_that_the_message_has_no_room_for_fails(void **state)
{
	static const unsigned char lengths[][5] = { { 0, 0, 0, 2, 'a' },
		{ 127, 255, 255, 255, 'a' }, { 255, 255, 255, 254, 'a' }, { 128, 0, 0, 0, 'a' } };
	size_t size;

	(void) state;
	for (size_t i = 0; i < ELEMENTS(lengths); i++) {
		struct jute_in text = { .data = lengths[i], .size = 5 }, list = text;

		assert_null(jute_get_bytes(&text, &size));
		assert_true(text.failed);
		assert_int_equal(jute_get_count(&list, 4), 0);
		assert_true(list.failed);
		/* And stays so. */
		assert_int_equal(jute_get_int(&list), 0);
	}
}

static int write_much(void *userdata)
{
	struct jute_out out = { 0 };
	bool failed;

	(void) userdata;
	for (int i = 0; i < 100; i++)
		jute_put_text(&out, "a text that takes some room");
	failed = out.failed;
	jute_out_done(&out);
	return failed ? -ENOMEM : 0;
}

static void test_writing_survives_a_lack_of_memory(void **state)
{
	(void) state;
	assert_survives_oom(write_much, NULL);
}

/* ---- messages ---- */

static void test_a_greeting_is_read_with_and_without_read_only(void **state)
{
	struct jute_out out = { 0 };
	struct zk_greeting greeting = { 0 };
	struct jute_in in;

	(void) state;
	jute_put_int(&out, 0);
	jute_put_int(&out, 4000);
	jute_put_long(&out, 0x100001);
	jute_put_bytes(&out, "0123456789abcdef", 16);
	in = in_of(&out);
	assert_ok(zk_get_greeting(&in, &greeting));
	assert_int_equal(greeting.timeout_ms, 4000);
	assert_int_equal(greeting.session, 0x100001);
	assert_memory_equal(greeting.password, "0123456789abcdef", 16);
	assert_false(greeting.read_only);
	jute_put_bool(&out, true);
	in = in_of(&out);
	assert_ok(zk_get_greeting(&in, &greeting));
	assert_true(greeting.read_only);
	for (size_t size = 0; size < 32; size++) {
		in = (struct jute_in){ .data = out.data, .size = size };
		assert_errno(zk_get_greeting(&in, &greeting), EBADMSG);
	}
	jute_out_done(&out);
}

static void put_result(struct jute_out *out, int op, int code)
{
	jute_put_int(out, code == ZK_OK ? op : -1);
	jute_put_bool(out, false);
	jute_put_int(out, code);
	if (code != ZK_OK)
		jute_put_int(out, code);
	else if (op == ZK_CREATE)
		jute_put_text(out, "/a");
}

static void test_a_multi_says_what_went_wrong_first(void **state)
{
	static const struct {
		int deletion, creation, expected;
	} cases[] = { { ZK_OK, ZK_OK, ZK_OK }, { ZK_BAD_VERSION, -2, ZK_BAD_VERSION },
		{ 0, ZK_NODE_EXISTS, ZK_NODE_EXISTS } };

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		struct jute_out out = { 0 };
		struct jute_in in;

		put_result(&out, ZK_DELETE, cases[i].deletion);
		put_result(&out, ZK_CREATE, cases[i].creation);
		jute_put_int(&out, -1);
		jute_put_bool(&out, true);
		jute_put_int(&out, -1);
		in = in_of(&out);
		assert_int_equal(zk_get_multi(&in), cases[i].expected);
		assert_false(in.failed);
		jute_out_done(&out);
	}
}

static void test_errors_name_the_node_and_what_to_do(void **state)
{
	struct usher_error err = { 0 };

	(void) state;
	assert_errno(zk_code_error(ZK_NO_AUTH, "/services/web", &err), EACCES);
	assert_non_null(strstr(err.text, "/services/web"));
	assert_non_null(strstr(err.text, "password_file"));
	assert_errno(zk_code_error(ZK_NO_NODE, "/a", &err), ENOENT);
	assert_errno(zk_code_error(-9999, "/a", &err), EIO);
	assert_non_null(strstr(err.text, "-9999"));
}

/* ---- layouts ---- */

static void test_a_layout_makes_paths(void **state)
{
	static const struct {
		const char *chroot, *layout, *service, *folder, *base;
	} cases[] = {
		{ NULL, ZK_LAYOUT_DEFAULT, "web", "/services/web", "/services" },
		{ "/apps", ZK_LAYOUT_DEFAULT, "web", "/apps/services/web", "/apps/services" },
		{ "/", "/{service}/{id}", "web", "/web", "/" },
		{ NULL, "/nerve/services/{service}/services/{id}", "web",
				"/nerve/services/web/services", "/nerve/services" },
		{ NULL, ZK_LAYOUT_DEFAULT, "/team/web", "/services/team/web", "/services" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		char *folder = NULL, *base = zk_layout_base(cases[i].chroot, cases[i].layout);

		assert_ok(zk_layout_check(cases[i].chroot, cases[i].layout, NULL));
		assert_ok(zk_layout_folder(
				cases[i].chroot, cases[i].layout, cases[i].service, &folder, NULL));
		assert_string_equal(folder, cases[i].folder);
		assert_string_equal(base, cases[i].base);
		free(folder);
		free(base);
	}
}

static void test_a_layout_that_is_no_path_is_refused(void **state)
{
	static const char *const wrong[] = { "", "services/{service}/{id}", "/services/{id}",
		"/services/{service}", "/services/{service}{id}", "/{id}/{service}/",
		"/{service}/{service}/{id}", "/{service}/{id}/node", "/x{service}/{id}",
		"//{service}/{id}", "/../{service}/{id}" };

	(void) state;
	for (size_t i = 0; i < ELEMENTS(wrong); i++)
		assert_errno(zk_layout_check(NULL, wrong[i], NULL), EINVAL);
	assert_errno(zk_layout_check("apps", ZK_LAYOUT_DEFAULT, NULL), EINVAL);
	assert_errno(zk_layout_check("/apps/", ZK_LAYOUT_DEFAULT, NULL), EINVAL);
}

static void test_a_name_that_cannot_be_in_a_path_is_refused(void **state)
{
	static const char *const wrong[] = { "", "/", "a//b", "a/", ".", "..", "a/../b", "a\nb" };
	char *folder = NULL;

	(void) state;
	for (size_t i = 0; i < ELEMENTS(wrong); i++)
		assert_errno(zk_layout_folder(NULL, ZK_LAYOUT_DEFAULT, wrong[i], &folder, NULL),
				EINVAL);
	assert_false(zk_layout_is_id(""));
	assert_false(zk_layout_is_id("a/b"));
	assert_false(zk_layout_is_id(".."));
	assert_true(zk_layout_is_id("..."));
	assert_true(zk_layout_is_id("10.0.0.5:8080"));
}

/* ---- values ---- */

#define SPRING                                                                                    \
	"{\"name\":\"web\",\"id\":\"a\",\"address\":\"10.0.0.5\",\"port\":8080,\"sslPort\":null," \
	"\"payload\":{\"@class\":\"org.springframework.cloud.zookeeper.discovery."                \
	"ZookeeperInstance\",\"id\":\"a\",\"name\":\"web\",\"metadata\":{\"instance_status\":"    \
	"\"%s\",\"zone\":\"east\",\"tier\":\"gold\"}},\"registrationTimeUTC\":1700000000000,"     \
	"\"serviceType\":\"DYNAMIC\",\"uriSpec\":{\"parts\":[{\"value\":\"scheme\",\"variable\":" \
	"true}]}}"

static const char *spring(const char *status)
{
	static char text[1024];

	(void) snprintf(text, sizeof(text), SPRING, status);
	return text;
}

static int read_value(const char *text, const char *port, struct zk_value *ret)
{
	return zk_value_read(text, strlen(text), port, ret, NULL);
}

static void test_an_instance_of_spring_cloud_is_read(void **state)
{
	struct zk_value v;

	(void) state;
	assert_ok(read_value(spring("UP"), NULL, &v));
	assert_string_equal(v.endpoint.address, "10.0.0.5");
	assert_int_equal(v.endpoint.port, 8080);
	assert_string_equal(v.endpoint.uid, "1700000000000");
	assert_false(v.endpoint.secure);
	assert_true(v.endpoint.ready);
	assert_int_equal(v.endpoint.admin_state, USHER_ADMIN_READY);
	assert_int_equal(v.endpoint.metadata_count, 2);
	zk_value_done(&v);
}

static void test_the_status_of_spring_cloud_is_a_state(void **state)
{
	static const struct {
		const char *status;
		enum usher_admin_state state;
		bool ready;
	} cases[] = { { "UP", USHER_ADMIN_READY, true },
		{ "OUT_OF_SERVICE", USHER_ADMIN_MAINTENANCE, true },
		{ "DOWN", USHER_ADMIN_READY, false }, { "STARTING", USHER_ADMIN_READY, false } };

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		struct zk_value v;

		assert_ok(read_value(spring(cases[i].status), NULL, &v));
		assert_int_equal(v.endpoint.admin_state, cases[i].state);
		assert_int_equal(v.endpoint.ready, cases[i].ready);
		zk_value_done(&v);
	}
}

static void test_the_ports_of_curator_are_chosen_by_name_or_number(void **state)
{
	static const char both[] = "{\"address\":\"a\",\"port\":80,\"sslPort\":443}";
	static const char plain[] = "{\"address\":\"a\",\"port\":80,\"sslPort\":null}";
	static const struct {
		const char *text, *port;
		uint16_t expected;
		bool secure;
	} cases[] = { { both, NULL, 443, true }, { both, "http", 80, false },
		{ both, "https", 443, true }, { both, "sslPort", 443, true },
		{ both, "8080", 8080, false }, { both, "443", 443, true },
		{ plain, NULL, 80, false }, { plain, "port", 80, false } };
	struct zk_value v;

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		assert_ok(read_value(cases[i].text, cases[i].port, &v));
		assert_int_equal(v.endpoint.port, cases[i].expected);
		assert_int_equal(v.endpoint.secure, cases[i].secure);
		zk_value_done(&v);
	}
	assert_errno(read_value(plain, "https", &v), EBADMSG);
	assert_errno(read_value(both, "grpc", &v), EBADMSG);
}

static void test_curators_payload_and_enabled_are_read(void **state)
{
	struct zk_value v;

	(void) state;
	assert_ok(read_value("{\"address\":\"a\",\"port\":80,\"enabled\":false,"
			     "\"payload\":{\"@class\":\"X\",\"weight\":7,\"deep\":{}}}",
			NULL, &v));
	assert_int_equal(v.endpoint.admin_state, USHER_ADMIN_MAINTENANCE);
	assert_int_equal(v.endpoint.metadata_count, 1);
	assert_string_equal(v.endpoint.metadata[0].value, "7");
	zk_value_done(&v);
	assert_ok(read_value("{\"address\":\"a\",\"port\":80,\"payload\":\"text\"}", NULL, &v));
	assert_int_equal(v.endpoint.metadata_count, 0);
	zk_value_done(&v);
}

static void test_nerve_and_serversets_are_read(void **state)
{
	struct zk_value v;

	(void) state;
	assert_ok(read_value("{\"host\":\"h\",\"port\":\"8080\",\"name\":\"i-1\",\"weight\":3,"
			     "\"labels\":{\"zone\":\"west\"}}",
			NULL, &v));
	assert_string_equal(v.endpoint.address, "h");
	assert_int_equal(v.endpoint.port, 8080);
	assert_string_equal(v.endpoint.weight_text, "3");
	assert_int_equal(v.endpoint.metadata_count, 2);
	zk_value_done(&v);
	assert_ok(read_value(
			"{\"serviceEndpoint\":{\"host\":\"h\",\"port\":1},\"status\":\"ALIVE\","
			"\"additionalEndpoints\":{\"http\":{\"host\":\"i\",\"port\":2}},"
			"\"shard\":4}",
			"http", &v));
	assert_string_equal(v.endpoint.address, "i");
	assert_int_equal(v.endpoint.port, 2);
	assert_string_equal(v.endpoint.metadata[0].value, "4");
	zk_value_done(&v);
	assert_errno(read_value("{\"serviceEndpoint\":{\"host\":\"h\",\"port\":1},\"status\":"
				"\"DEAD\"}",
				     NULL, &v),
			ENOENT);
	assert_ok(read_value("{\"serviceEndpoint\":{\"host\":\"h\",\"port\":1},\"status\":"
			     "\"STARTING\"}",
			NULL, &v));
	assert_false(v.endpoint.ready);
	zk_value_done(&v);
}

static void test_what_is_no_instance_is_refused(void **state)
{
	static const char *const wrong[] = { "", "{", "[]", "\"a\"", "{}", "{\"address\":5}",
		"{\"address\":\"a\"}", "{\"address\":\"a\",\"port\":0}",
		"{\"address\":\"a\",\"port\":65536}", "{\"address\":\"a\",\"port\":\"80x\"}",
		"{\"address\":\"a\",\"port\":80,\"port\":81}", "{\"host\":\"a\",\"port\":true}",
		"{\"host\":\"a\",\"port\":1,\"weight\":{}}", "{\"serviceEndpoint\":{}}" };
	struct zk_value v;

	(void) state;
	for (size_t i = 0; i < ELEMENTS(wrong); i++)
		assert_errno(read_value(wrong[i], NULL, &v), EBADMSG);
}

static void test_what_only_others_read_in_data_may_hold_what_usher_cannot(void **state)
{
	static const char text[] =
			"{\"address\":\"h\",\"port\":1,\"more\":{\"\\u0000\":\"\\ud800\"}}";
	struct usher_error why = { 0 };
	struct zk_value v;
	char *written = NULL;

	(void) state;
	assert_ok(read_value(text, NULL, &v));
	assert_int_equal(v.endpoint.port, 1);
	zk_value_done(&v);
	/* It would be lost. */
	assert_errno(zk_value_set_state(text, strlen(text), USHER_ADMIN_DRAINING, &written, &why),
			EROFS);
	assert_non_null(strstr(why.text, "take it out first"));
}

static void test_what_is_written_is_read_as_it_was(void **state)
{
	static const struct usher_label labels[] = { { "tier", "gold" } };
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	(void) state;
	e.address = "fd00::10";
	e.port = 8443;
	e.secure = true;
	e.zone = "east";
	e.weight = 5;
	e.metadata = labels;
	e.metadata_count = 1;
	for (int format = ZK_FORMAT_SPRING; format <= ZK_FORMAT_NERVE; format++) {
		char *text = zk_value_write((enum zk_format) format, "web", "a", &e, 1234);
		struct zk_value v;

		assert_non_null(text);
		assert_ok(read_value(text, NULL, &v));
		assert_string_equal(v.endpoint.address, "fd00::10");
		assert_int_equal(v.endpoint.port, 8443);
		assert_int_equal(v.endpoint.secure, format != ZK_FORMAT_NERVE);
		if (format != ZK_FORMAT_NERVE)
			assert_string_equal(v.endpoint.uid, "1234");
		assert_int_equal(v.endpoint.admin_state, USHER_ADMIN_READY);
		assert_true(zk_value_is_ours(&v));
		zk_value_done(&v);
		free(text);
	}
}

static void test_what_others_have_written_is_not_taken_for_ours(void **state)
{
	static const char *const texts[] = {
		"{\"address\":\"a\",\"port\":80,\"payload\":null,\"uriSpec\":null}",
		"{\"address\":\"a\",\"port\":80,\"payload\":{\"registered-by\":\"me\"}}",
		"{\"host\":\"a\",\"port\":80,\"labels\":{\"tier\":\"gold\"}}",
		"{\"serviceEndpoint\":{\"host\":\"a\",\"port\":80},\"shard\":1}",
	};
	struct zk_value v;

	(void) state;
	for (size_t i = 0; i < ELEMENTS(texts); i++) {
		assert_ok(read_value(texts[i], NULL, &v));
		assert_false(zk_value_is_ours(&v));
		zk_value_done(&v);
	}
	assert_ok(read_value(spring("UP"), NULL, &v));
	assert_false(zk_value_is_ours(&v));
	zk_value_done(&v);
}

static void test_a_state_is_set_and_taken_back_without_touching_the_rest(void **state)
{
	static const enum usher_admin_state states[] = { USHER_ADMIN_DRAINING,
		USHER_ADMIN_MAINTENANCE };
	static const char curator[] = "{\"address\":\"a\",\"port\":80,\"payload\":null}";

	(void) state;
	for (size_t i = 0; i < ELEMENTS(states); i++) {
		const char *text = spring("UP");
		char *out = NULL, *back = NULL;
		json_t *before = json_loads(text, 0, NULL), *after;
		struct zk_value v;

		assert_ok(zk_value_set_state(text, strlen(text), states[i], &out, NULL));
		assert_ok(read_value(out, NULL, &v));
		assert_int_equal(v.endpoint.admin_state, states[i]);
		assert_int_equal(v.endpoint.metadata_count, 2);
		zk_value_done(&v);
		assert_ok(zk_value_set_state(out, strlen(out), USHER_ADMIN_READY, &back, NULL));
		after = json_loads(back, 0, NULL);
		assert_true(json_equal(before, after));
		json_decref(before);
		json_decref(after);
		free(out);
		free(back);
		assert_ok(zk_value_set_state(curator, strlen(curator), states[i], &out, NULL));
		assert_ok(read_value(out, NULL, &v));
		assert_int_equal(v.endpoint.admin_state, USHER_ADMIN_MAINTENANCE);
		zk_value_done(&v);
		free(out);
	}
}

static void test_where_a_state_has_no_place_that_is_said(void **state)
{
	static const char *const texts[] = { "{\"host\":\"a\",\"port\":80}", "plain", "" };
	char *out = NULL;

	(void) state;
	for (size_t i = 0; i < ELEMENTS(texts); i++)
		assert_errno(zk_value_set_state(texts[i], strlen(texts[i]), USHER_ADMIN_DRAINING,
					     &out, NULL),
				EROFS);
}

static int write_and_set(void *userdata)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	char *text, *out = NULL;
	int r;

	(void) userdata;
	e.address = "a";
	e.port = 1;
	text = zk_value_write(ZK_FORMAT_SPRING, "web", "a", &e, 1);
	r = text ? zk_value_set_state(text, strlen(text), USHER_ADMIN_DRAINING, &out, NULL)
		 : -ENOMEM;
	free(text);
	free(out);
	/* Where a text could not be parsed for want of memory it looks like one without room. */
	return r == -EROFS ? -ENOMEM : r;
}

static void test_values_survive_a_lack_of_memory(void **state)
{
	(void) state;
	assert_survives_oom(write_and_set, NULL);
}

/* ---- folders ---- */

static void put_stat(struct jute_out *out, int64_t zxid, int32_t acl_version)
{
	jute_put_long(out, zxid);
	jute_put_long(out, zxid);
	jute_put_long(out, 0);
	jute_put_long(out, 0);
	jute_put_int(out, 0);
	jute_put_int(out, 0);
	jute_put_int(out, acl_version);
	jute_put_long(out, 0);
	jute_put_int(out, 0);
	jute_put_int(out, 0);
	jute_put_long(out, zxid);
}

static int list(struct zk_folder *f, const char *const *names, size_t count, int64_t zxid)
{
	struct jute_out out = { 0 };
	struct zk_stat stat = { 0 };
	struct jute_in in;
	int r;

	jute_put_int(&out, (int32_t) count);
	for (size_t i = 0; i < count; i++)
		jute_put_text(&out, names[i]);
	put_stat(&out, zxid, 0);
	in = in_of(&out);
	f->needs_list = false;
	r = zk_folder_list(f, &in, &stat, NULL);
	jute_out_done(&out);
	return r;
}

/* Answer the next question about a node. */
static void answer(struct zk_folder *f, int code, const char *data, int64_t zxid)
{
	struct zk_node *n = zk_folder_next(f);
	struct jute_out out = { 0 };
	struct jute_in in;
	char path[256];

	assert_non_null(n);
	(void) snprintf(path, sizeof(path), "%s/%s", f->path, n->name);
	zk_folder_asked(f, n);
	jute_put_bytes(&out, data, data ? strlen(data) : 0);
	put_stat(&out, zxid, 0);
	in = in_of(&out);
	assert_ok(zk_folder_take(f, path, code, &in, NULL));
	jute_out_done(&out);
}

static size_t build(struct zk_folder *f)
{
	struct usher_endpoints *set = NULL;
	size_t count;

	assert_ok(zk_folder_build(f, "web", NULL, &set, NULL));
	count = usher_endpoints_count(set);
	(void) usher_endpoints_unref(set);
	return count;
}

#define INSTANCE "{\"address\":\"10.0.0.5\",\"port\":8080}"

static int setup(void **state)
{
	static struct zk_folder f;

	*state = &f;
	return zk_folder_init(&f, "/services/web");
}

static int teardown(void **state)
{
	zk_folder_done(*state);
	return 0;
}

static void test_a_folder_is_settled_when_all_is_read(void **state)
{
	static const char *const names[] = { "b", "a" };
	struct zk_folder *f = *state;

	assert_false(zk_folder_is_settled(f));
	assert_ok(list(f, names, 2, 5));
	assert_false(zk_folder_is_settled(f));
	answer(f, ZK_OK, INSTANCE, 3);
	answer(f, ZK_OK, INSTANCE, 7);
	assert_true(zk_folder_is_settled(f));
	assert_int_equal(f->zxid, 7);
	assert_int_equal(build(f), 2);
}

static void test_only_what_is_new_in_a_list_is_read(void **state)
{
	static const char *const before[] = { "a", "c" }, *const after[] = { "c", "b" };
	struct zk_folder *f = *state;

	assert_ok(list(f, before, 2, 1));
	answer(f, ZK_OK, INSTANCE, 1);
	answer(f, ZK_OK, INSTANCE, 1);
	assert_ok(list(f, after, 2, 2));
	assert_int_equal(f->needed, 1);
	assert_string_equal(zk_folder_next(f)->name, "b");
	answer(f, ZK_OK, INSTANCE, 2);
	assert_int_equal(build(f), 2);
}

static void test_names_that_are_none_and_names_twice_are_left_out(void **state)
{
	static const char *const names[] = { "a", "", ".", "a/b", "a", "b\n" };
	struct zk_folder *f = *state;

	assert_ok(list(f, names, ELEMENTS(names), 1));
	assert_int_equal(f->count, 1);
}

static void test_data_that_cannot_be_read_leave_what_was_good(void **state)
{
	static const char *const names[] = { "a", "b" };
	struct zk_folder *f = *state;

	assert_ok(list(f, names, 2, 1));
	answer(f, ZK_OK, INSTANCE, 1);
	answer(f, ZK_OK, "nonsense", 1);
	assert_int_equal(build(f), 1);
	zk_folder_need(f, zk_folder_find(f, "/services/web/a"));
	answer(f, ZK_OK, "{", 2);
	assert_int_equal(build(f), 1);
	zk_folder_need(f, zk_folder_find(f, "/services/web/a"));
	answer(f, ZK_OK, "[", 3);
	assert_int_equal(build(f), 1);
	zk_folder_need(f, zk_folder_find(f, "/services/web/a"));
	answer(f, ZK_OK, INSTANCE, 4);
	assert_int_equal(build(f), 1);
}

static void test_a_folder_of_which_nothing_can_be_read_fails(void **state)
{
	static const char *const names[] = { "a", "b" };
	struct usher_endpoints *set = NULL;
	struct zk_folder *f = *state;

	assert_ok(list(f, names, 2, 1));
	answer(f, ZK_OK, "{}", 1);
	answer(f, ZK_OK, NULL, 1);
	assert_errno(zk_folder_build(f, "web", NULL, &set, NULL), EBADMSG);
}

static void test_nodes_that_are_denied_keep_what_they_said_and_all_together_are_a_denial(
		void **state)
{
	static const char *const names[] = { "a", "b" };
	struct usher_endpoints *set = NULL;
	struct zk_folder *f = *state;

	assert_ok(list(f, names, 2, 1));
	answer(f, ZK_OK, INSTANCE, 1);
	answer(f, ZK_OK, INSTANCE, 1);
	assert_int_equal(build(f), 2);
	zk_folder_need(f, zk_folder_find(f, "/services/web/a"));
	answer(f, ZK_NO_AUTH, NULL, 0);
	assert_int_equal(zk_folder_denied(f), 1);
	assert_int_equal(build(f), 2);
	zk_folder_need(f, zk_folder_find(f, "/services/web/b"));
	answer(f, ZK_NO_AUTH, NULL, 0);
	assert_errno(zk_folder_build(f, "web", NULL, &set, NULL), EACCES);
}

static void test_a_node_that_goes_meanwhile_is_seen_in_the_next_list(void **state)
{
	static const char *const names[] = { "a" };
	struct zk_folder *f = *state;

	assert_ok(list(f, names, 1, 1));
	answer(f, ZK_NO_NODE, NULL, 0);
	assert_true(f->needs_list);
	assert_false(zk_folder_is_settled(f));
	assert_ok(list(f, NULL, 0, 2));
	assert_int_equal(build(f), 0);
}

static void test_what_changes_while_it_is_read_is_read_again(void **state)
{
	static const char *const names[] = { "a" };
	struct zk_folder *f = *state;
	struct zk_node *n;

	assert_ok(list(f, names, 1, 1));
	n = zk_folder_next(f);
	zk_folder_asked(f, n);
	zk_folder_need(f, n); /* its watch, before the answer */
	assert_null(zk_folder_next(f));
	zk_folder_lose(f, false);
	assert_ptr_equal(zk_folder_next(f), n);
	assert_int_equal(f->needed, 1);
	answer(f, ZK_OK, INSTANCE, 1);
	assert_true(zk_folder_is_settled(f));
}

static bool check(struct zk_folder *f, int code, int64_t zxid, int32_t acl_version)
{
	struct jute_out out = { 0 };
	struct jute_in in;
	bool is_same;

	put_stat(&out, zxid, acl_version);
	in = in_of(&out);
	is_same = zk_folder_check(f, code, &in);
	jute_out_done(&out);
	return is_same;
}

static void test_a_folder_is_compared_with_what_is_known(void **state)
{
	struct zk_folder *f = *state;

	assert_ok(list(f, NULL, 0, 5));
	assert_true(check(f, ZK_OK, 5, 0));
	assert_false(check(f, ZK_OK, 6, 0));
	assert_true(f->needs_list);
	assert_false(check(f, ZK_OK, 5, 1)); /* who may read it has changed */
	assert_false(check(f, ZK_NO_NODE, 0, 0));
	zk_folder_miss(f);
	assert_true(check(f, ZK_NO_NODE, 0, 0));
	assert_false(check(f, ZK_OK, 7, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_written_is_read),
		cmocka_unit_test(test_a_buffer_that_is_none_is_not_an_empty_one),
		cmocka_unit_test(test_a_length_that_the_message_has_no_room_for_fails),
		cmocka_unit_test(test_writing_survives_a_lack_of_memory),
		cmocka_unit_test(test_a_greeting_is_read_with_and_without_read_only),
		cmocka_unit_test(test_a_multi_says_what_went_wrong_first),
		cmocka_unit_test(test_errors_name_the_node_and_what_to_do),
		cmocka_unit_test(test_a_layout_makes_paths),
		cmocka_unit_test(test_a_layout_that_is_no_path_is_refused),
		cmocka_unit_test(test_a_name_that_cannot_be_in_a_path_is_refused),
		cmocka_unit_test(test_an_instance_of_spring_cloud_is_read),
		cmocka_unit_test(test_the_status_of_spring_cloud_is_a_state),
		cmocka_unit_test(test_the_ports_of_curator_are_chosen_by_name_or_number),
		cmocka_unit_test(test_curators_payload_and_enabled_are_read),
		cmocka_unit_test(test_nerve_and_serversets_are_read),
		cmocka_unit_test(test_what_is_no_instance_is_refused),
		cmocka_unit_test(test_what_only_others_read_in_data_may_hold_what_usher_cannot),
		cmocka_unit_test(test_what_is_written_is_read_as_it_was),
		cmocka_unit_test(test_what_others_have_written_is_not_taken_for_ours),
		cmocka_unit_test(test_a_state_is_set_and_taken_back_without_touching_the_rest),
		cmocka_unit_test(test_where_a_state_has_no_place_that_is_said),
		cmocka_unit_test(test_values_survive_a_lack_of_memory),
		cmocka_unit_test_setup_teardown(
				test_a_folder_is_settled_when_all_is_read, setup, teardown),
		cmocka_unit_test_setup_teardown(
				test_only_what_is_new_in_a_list_is_read, setup, teardown),
		cmocka_unit_test_setup_teardown(
				test_names_that_are_none_and_names_twice_are_left_out, setup,
				teardown),
		cmocka_unit_test_setup_teardown(
				test_data_that_cannot_be_read_leave_what_was_good, setup, teardown),
		cmocka_unit_test_setup_teardown(
				test_a_folder_of_which_nothing_can_be_read_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(
				test_nodes_that_are_denied_keep_what_they_said_and_all_together_are_a_denial,
				setup, teardown),
		cmocka_unit_test_setup_teardown(
				test_a_node_that_goes_meanwhile_is_seen_in_the_next_list, setup,
				teardown),
		cmocka_unit_test_setup_teardown(
				test_what_changes_while_it_is_read_is_read_again, setup, teardown),
		cmocka_unit_test_setup_teardown(
				test_a_folder_is_compared_with_what_is_known, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
