/* The plug-in nacos: what answers mean, and what a watch makes of them. Answers are in the shape of
 * Nacos 3.1.0, as recorded. */

#include "answer.h"
#include "fake-source.h"
#include "nacos.h"
#include "reply.h"
#include "scripted-server.h"
#include "watch.h"

#define HOST_OF(ip, port, more)                                                             \
	"{\"ip\":\"" ip "\",\"port\":" port ",\"serviceName\":\"DEFAULT_GROUP@@web\"," more \
	",\"ephemeral\":true,\"instanceHeartBeatInterval\":5000}"
#define HOST(ip, healthy)                                                                          \
	HOST_OF(ip, "8080",                                                                        \
			"\"weight\":1.0,\"healthy\":" healthy ",\"enabled\":true,\"clusterName\":" \
			"\"DEFAULT\",\"metadata\":{}")
#define WEIGHED(ip, weight) HOST_OF(ip, "8080", "\"weight\":" weight)
#define LIST_OF(hosts, more)                                                                     \
	"{\"name\":\"DEFAULT_GROUP@@web\",\"groupName\":\"DEFAULT_GROUP\",\"clusters\":\"\","    \
	"\"cacheMillis\":1000,\"hosts\":[" hosts "],\"lastRefTime\":1796031878655,\"checksum\":" \
	"\"\",\"allIps\":false,\"valid\":true" more "}"
#define LIST(hosts)   LIST_OF(hosts, ",\"reachProtectionThreshold\":false")
#define LIST_3(hosts) "{\"code\":0,\"message\":\"success\",\"data\":[" hosts "]}"
#define A             HOST("10.0.0.1", "true")
#define B             HOST("10.0.0.2", "true")
#define FORGED(hosts) LIST_OF(hosts, ",\"reachProtectionThreshold\":true")
#define USEC_PER_SEC  UINT64_C(1000000)

extern const struct usher_plugin usher_plugin;

/* ---- what an answer means ---- */

static struct answer parse_with(const char *text, const struct answer_options *options)
{
	struct usher_error err = { 0 };
	struct answer a = { 0 };
	int r = answer_parse(text, strlen(text), options, &a, &err);

	if (r < 0)
		fail_msg("%s", usher_error_text(&err, r));
	usher_endpoints_seal(a.set);
	return a;
}

static struct answer parse(const char *text)
{
	return parse_with(text, &(const struct answer_options){ 0 });
}

static struct usher_endpoint endpoint_of(const struct answer *a, const char *id)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	ssize_t at = usher_endpoints_find(a->set, id);

	if (at < 0)
		fail_msg("%s is not there", id);
	usher_endpoints_get(a->set, (size_t) at, &e);
	return e;
}

static const char *label_of(const struct answer *a, const char *id, const char *name)
{
	ssize_t at = usher_endpoints_find(a->set, id);

	assert_true(at >= 0);
	return usher_endpoints_metadata(a->set, (size_t) at, name);
}

static void test_an_instance_is_read_with_all_that_is_said_of_it(void **state)
{
	struct answer a = parse(LIST(HOST_OF("10.0.0.1", "8080",
			"\"weight\":10.0,\"healthy\":true,\"enabled\":true,\"clusterName\":\"east\","
			"\"metadata\":{\"version\":\"1\",\"zone\":\"a\",\"secure\":\"true\"}")));
	struct usher_endpoint e = endpoint_of(&a, "10.0.0.1:8080");

	(void) state;
	assert_string_equal(e.address, "10.0.0.1");
	assert_int_equal(e.port, 8080);
	assert_int_equal(e.weight, 10);
	assert_true(e.ready);
	assert_true(e.secure);
	assert_null(e.uid);
	assert_string_equal(e.zone, "a");
	assert_string_equal(label_of(&a, "10.0.0.1:8080", "version"), "1");
	assert_string_equal(label_of(&a, "10.0.0.1:8080", "nacos.cluster"), "east");
	assert_int_equal(a.cache_usec, USEC_PER_SEC);
	answer_done(&a);
}

static void test_both_apis_say_the_same(void **state)
{
	struct answer a = parse(LIST(A "," B)), b = parse(LIST_3(A "," B));
	struct answer c = parse("{\"code\":0,\"data\":" LIST(A "," B) "}");

	(void) state;
	assert_true(usher_endpoints_equal(a.set, b.set));
	assert_true(usher_endpoints_equal(a.set, c.set));
	assert_int_equal(b.cache_usec, 0);
	answer_done(&a);
	answer_done(&b);
	answer_done(&c);
}

static void test_an_id_of_its_own_is_the_id(void **state)
{
	struct answer a = parse(LIST(HOST_OF("fd00::1", "80",
			"\"metadata\":{\"usher.id\":\"web-1\",\"a\":\"b\"}") "," HOST_OF("fd00::2",
			"80", "\"metadata\":null")));

	(void) state;
	assert_string_equal(endpoint_of(&a, "web-1").address, "fd00::1");
	assert_null(label_of(&a, "web-1", "usher.id"));
	assert_string_equal(endpoint_of(&a, "[fd00::2]:80").address, "fd00::2");
	answer_done(&a);
}

static void test_one_address_in_two_clusters_is_two_endpoints(void **state)
{
	struct answer a = parse(
			LIST(HOST_OF("10.0.0.1", "80", "\"clusterName\":\"east\"") "," HOST_OF(
					"10.0.0.1", "80", "\"clusterName\":\"west\"") "," A));

	(void) state;
	assert_int_equal(usher_endpoints_count(a.set), 3);
	assert_true(usher_endpoints_find(a.set, "10.0.0.1:80@east") >= 0);
	assert_true(usher_endpoints_find(a.set, "10.0.0.1:80@west") >= 0);
	answer_done(&a);
}

static void test_a_generated_id_tells_incarnations_apart(void **state)
{
	struct answer a = parse(LIST(HOST_OF("10.0.0.1", "80",
			"\"instanceId\":\"77\",\"instanceIdGenerator\":\"snowflake\"") "," HOST_OF("10.0.0.2",
			"80",
			"\"instanceId\":\"10.0.0.2#80#DEFAULT\",\"instanceIdGenerator\":\"simple\"")));

	(void) state;
	assert_string_equal(endpoint_of(&a, "10.0.0.1:80").uid, "77");
	assert_null(endpoint_of(&a, "10.0.0.2:80").uid);
	answer_done(&a);
}

static void test_a_cluster_is_a_zone_where_that_is_wanted(void **state)
{
	static const char text[] =
			LIST(HOST_OF("10.0.0.1", "80", "\"clusterName\":\"east\"") "," A);
	static const struct answer_options zones = { .cluster_is_zone = true };
	struct answer a = parse(text), b = parse_with(text, &zones);

	(void) state;
	assert_null(endpoint_of(&a, "10.0.0.1:80").zone);
	assert_string_equal(endpoint_of(&b, "10.0.0.1:80").zone, "east");
	assert_null(endpoint_of(&b, "10.0.0.1:8080").zone);
	answer_done(&a);
	answer_done(&b);
}

static void test_shares_of_weights_are_kept(void **state)
{
	static const struct {
		const char *text;
		uint32_t first, second;
	} cases[] = {
		{ LIST(WEIGHED("10.0.0.1", "1.0") "," WEIGHED("10.0.0.2", "7")), 1, 7 },
		{ LIST(WEIGHED("10.0.0.1", "1.0") "," WEIGHED("10.0.0.2", "0.1")), 10, 1 },
		{ LIST(WEIGHED("10.0.0.1", "2.5") "," WEIGHED("10.0.0.2", "0.25")), 250, 25 },
		{ LIST(WEIGHED("10.0.0.1", "1.0") "," WEIGHED("10.0.0.2", "0.0001")), 1000, 1 },
		{ LIST(WEIGHED("10.0.0.1", "10000.0") "," WEIGHED("10.0.0.2", "0.01")), 100000, 1 },
		{ LIST(WEIGHED("10.0.0.1", "0.0") "," WEIGHED("10.0.0.2", "0.5")), 0, 5 },
		{ LIST(WEIGHED("10.0.0.1", "-1") "," WEIGHED("10.0.0.2", "\"x\"")), 1, 1 },
		{ LIST(WEIGHED("10.0.0.1", "1e300") "," WEIGHED("10.0.0.2", "1")), 1, 1 },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct answer a = parse(cases[i].text);

		assert_int_equal(endpoint_of(&a, "10.0.0.1:8080").weight, cases[i].first);
		assert_int_equal(endpoint_of(&a, "10.0.0.2:8080").weight, cases[i].second);
		answer_done(&a);
	}
}

static void test_health_that_is_forged_is_not_believed(void **state)
{
	struct answer before = parse(LIST(A "," HOST("10.0.0.2", "false")));
	const struct answer_options options = { .before = before.set };
	struct answer a = parse_with(FORGED(A "," B "," HOST("10.0.0.3", "true")), &options);

	(void) state;
	assert_true(endpoint_of(&a, "10.0.0.1:8080").ready);
	assert_false(endpoint_of(&a, "10.0.0.2:8080").ready);
	assert_true(endpoint_of(&a, "10.0.0.3:8080").ready);
	answer_done(&a);
	answer_done(&before);
}

static void test_what_is_disabled_is_a_state_and_no_ill_health(void **state)
{
	struct answer a = parse(LIST(HOST_OF("10.0.0.1", "80", "\"enabled\":false")));
	struct usher_endpoint e = endpoint_of(&a, "10.0.0.1:80");

	(void) state;
	assert_true(e.ready);
	assert_int_equal(e.admin_state, USHER_ADMIN_MAINTENANCE);
	answer_done(&a);
}

static void test_what_cannot_be_used_takes_nothing_else_along(void **state)
{
	struct answer a = parse(LIST(A "," HOST_OF("10.0.0.3", "0", "\"weight\":1") "," HOST_OF(
			"not an address", "80", "\"weight\":1") ",7,null"));

	(void) state;
	assert_int_equal(usher_endpoints_count(a.set), 1);
	assert_int_equal(a.instances, 5);
	assert_int_equal(a.skipped, 4);
	assert_string_equal(a.first_skip.text, "10.0.0.3: its port is 0");
	answer_done(&a);
}

static void test_what_one_instance_says_of_itself_takes_no_other_along(void **state)
{
	static const char text[] = LIST(A "," HOST_OF("10.0.0.2", "80",
			"\"weight\":1,\"metadata\":{\"usher.id\":\"n\\u0000l\"}") "," HOST_OF("10.0.0.3",
			"99999999999999999999", "\"weight\":1e999") "," HOST_OF("10.0.0.4", "80",
			"\"weight\":1,\"metadata\":{\"a\":\"\\ud800\",\"k\\u0000\":\"v\",\"good\":"
			"\"yes\"}"));
	struct answer a = parse(text);
	struct answer_instance i = { 0 };
	size_t at = (size_t) usher_endpoints_find(a.set, "10.0.0.4:80");

	(void) state;
	assert_int_equal(usher_endpoints_count(a.set), 2);
	assert_int_equal(endpoint_of(&a, "10.0.0.1:8080").port, 8080);
	assert_string_equal(usher_endpoints_metadata(a.set, at, "good"), "yes");
	assert_null(usher_endpoints_metadata(a.set, at, "a"));
	assert_null(usher_endpoints_metadata(a.set, at, "k"));
	assert_int_equal(a.skipped, 2);
	assert_non_null(strstr(a.first_skip.text, "control characters"));
	answer_done(&a);
	/* To write back what usher cannot hold would be to lose it. */
	assert_errno(answer_find(text, strlen(text), "10.0.0.4:80", &i, NULL), EROFS);
	assert_ok(answer_find(text, strlen(text), "10.0.0.1:8080", &i, NULL));
	answer_instance_done(&i);
}

static void test_what_is_no_answer_is_refused_in_words(void **state)
{
	static const char *const cases[] = { "", "{}", "null", "<html>", "[]", "7",
		"{\"hosts\":null}", "{\"hosts\":[],\"hosts\":[]}", "{\"code\":0,\"data\":null}" };

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct usher_error err = { 0 };
		struct answer a = { 0 };

		assert_errno(answer_parse(cases[i], strlen(cases[i]),
					     &(const struct answer_options){ 0 }, &a, &err),
				EBADMSG);
		assert_non_null(strstr(err.text, "is this a server of Nacos?"));
	}
}

static void test_a_fault_in_an_envelope_is_told_in_its_words(void **state)
{
	static const char text[] =
			"{\"code\":30000,\"message\":\"server error\",\"data\":\"disk\"}";
	struct usher_error err = { 0 };
	struct answer a = { 0 };

	(void) state;
	assert_errno(answer_parse(text, strlen(text), &(const struct answer_options){ 0 }, &a,
				     &err),
			EBADMSG);
	assert_string_equal(err.text, "the server says 30000: server error: disk");
}

static void test_one_instance_is_found_by_its_id(void **state)
{
	static const char text[] = LIST(A "," HOST_OF("10.0.0.2", "80",
			"\"clusterName\":\"east\",\"weight\":0.5,\"metadata\":{\"a\":\"b\"}"));
	struct answer_instance i = { 0 };

	(void) state;
	assert_ok(answer_find(text, strlen(text), "10.0.0.2:80", &i, NULL));
	assert_string_equal(i.cluster, "east");
	assert_string_equal(i.metadata, "{\"a\":\"b\"}");
	assert_true(i.weight == 0.5);
	assert_true(i.ephemeral && i.enabled && !i.ours);
	answer_instance_done(&i);
	assert_errno(answer_find(text, strlen(text), "10.0.0.3:80", &i, NULL), ENOENT);
}

static void test_calls_are_done_or_not(void **state)
{
	static const struct {
		const char *text;
		int expected;
	} cases[] = {
		{ "ok", 0 },
		{ "{\"code\":0,\"message\":\"success\",\"data\":\"ok\"}", 0 },
		{ "{\"clientBeatInterval\":5000,\"code\":10200,\"lightBeatEnabled\":true}", 0 },
		{ "{\"clientBeatInterval\":5000,\"code\":20404,\"lightBeatEnabled\":true}",
				-ENOENT },
		{ "{\"code\":21003,\"message\":\"instance not found\",\"data\":null}", -ENOENT },
		{ "{\"code\":30000,\"message\":\"server error\"}", -EIO },
		{ "{}", -EBADMSG },
		{ "o", -EBADMSG },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_int_equal(reply_check(cases[i].text, strlen(cases[i].text), NULL),
				cases[i].expected);
}

static int parse_under_oom(void *userdata)
{
	static const char text[] = LIST(A "," B "," WEIGHED("10.0.0.3", "0.5"));
	struct answer_instance i = { 0 };
	struct answer a = { 0 };
	int r;

	(void) userdata;
	r = answer_parse(text, strlen(text), &(const struct answer_options){ 0 }, &a, NULL);
	answer_done(&a);
	if (r < 0)
		return r;
	r = answer_find(text, strlen(text), "10.0.0.3:8080", &i, NULL);
	answer_instance_done(&i);
	return r;
}

static void test_reading_survives_that_memory_runs_out(void **state)
{
	(void) state;
	assert_survives_oom(parse_under_oom, NULL);
}

/* ---- a bench with a server ---- */

#define SAYS_MAX 16

struct says {
	const char *status; /* NULL: 200 */
	const char *body;   /* NULL: the connection is closed without a byte */
};

struct bench {
	struct scripted_server server;
	const char *servers[2];
	struct nacos nacos;
	struct usher_source source;
	struct says says[SAYS_MAX];     /* of the lists, one a request; then silence */
	char asked[SAYS_MAX][512];      /* the paths */
	char authorized[SAYS_MAX][128]; /* and their header Authorization */
	const char *login;              /* what is said to a login; NULL: 403 */
	atomic_uint count, logins;
	unsigned until; /* so many offers and failures */
};

static bool answer_login(struct bench *b, struct scripted_connection *c)
{
	if (strncmp(c->request, "POST /nacos/v3/", 15) == 0)
		return scripted_reply(c, "404 Not Found", "", "");
	assert_non_null(strstr(c->request, "username=usher&password=a%26b"));
	atomic_fetch_add(&b->logins, 1);
	return b->login ? scripted_reply(c, "200 OK", "", b->login)
			: scripted_reply(c, "403 Forbidden", "", "unknown user!");
}

static bool server_answer(struct scripted_connection *c)
{
	struct bench *b = c->server->userdata;
	const struct says *s;
	const char *authorization;
	unsigned n;

	if (strstr(c->request, "/service/list?"))
		return scripted_reply(c, "200 OK", "", "{\"count\":2,\"doms\":[\"shop\",\"web\"]}");
	if (strncmp(c->request, "POST ", 5) == 0)
		return answer_login(b, c);
	n = atomic_load(&b->count);
	if (n == SAYS_MAX)
		return scripted_hang(c);
	(void) sscanf(c->request, "GET %511s", b->asked[n]);
	authorization = strstr(c->request, "Authorization: ");
	if (authorization)
		(void) sscanf(authorization, "Authorization: %127[^\r]", b->authorized[n]);
	atomic_store(&b->count, n + 1);
	s = &b->says[n];
	if (!s->body)
		return s->status ? false : scripted_hang(c);
	return scripted_reply(c, s->status ? s->status : "200 OK", "", s->body);
}

static int bench_on_wait(
		struct usher_source *source, const struct usher_wait *wait, unsigned number)
{
	struct bench *b = source->userdata;
	const struct fake_answer *a = &source->answers[0];

	(void) number;
	if (a->offers + a->fails >= b->until)
		return 0;
	return fake_source_wait_http(source, wait);
}

static void set_up(struct bench *b)
{
	memset(b, 0, sizeof(*b));
	scripted_server_start(&b->server, server_answer, b);
	b->servers[0] = b->server.url;
	b->nacos = (struct nacos){
		.http = { .servers = b->servers,
				.verify = true,
				.connections = 8,
				.connect_timeout_usec = 60 * USEC_PER_SEC },
		.context_path = "/nacos",
		.namespace_id = "public",
		.group = "DEFAULT_GROUP",
		.poll_usec = USEC_PER_SEC / 10,
		.hold_usec = 25 * USEC_PER_SEC,
		.cluster = "DEFAULT",
		.ephemeral = true,
		.beat_usec = 5 * USEC_PER_SEC,
	};
	b->source.on_wait = bench_on_wait;
	b->source.userdata = b;
	fake_source_want(&b->source, "shop", "web", NULL);
}

static const struct fake_answer *run(struct bench *b, unsigned until)
{
	b->until = until;
	assert_ok(usher_plugin.discovery->run(&b->nacos, &b->source));
	return fake_source_answer(&b->source, "shop");
}

static void tear_down(struct bench *b)
{
	fake_source_done(&b->source);
	registration_done(&b->nacos);
	scripted_server_stop(&b->server);
}

/* ---- polling ---- */

static void test_it_looks_again_and_again(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .body = LIST(A) };
	b.says[1] = (struct says){ .body = LIST(A "," B) };
	a = run(&b, 2);
	assert_int_equal(usher_endpoints_count(a->set), 2);
	assert_int_equal(a->verdict, USHER_FRESH);
	assert_string_equal(b.asked[0],
			"/nacos/v1/ns/instance/list?namespaceId=public&serviceName=DEFAULT_GROUP%40%40web"
			"&healthyOnly=false");
	assert_true(fake_source_knows(&b.source, "web"));
	tear_down(&b);
}

static void test_where_v1_is_gone_v3_is_asked(void **state)
{
	static const char *const statuses[] = { "404 Not Found", "410 Gone",
		"405 Method Not Allowed", "501 Not Implemented" };

	(void) state;
	for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++) {
		const struct fake_answer *a;
		struct bench b;

		set_up(&b);
		b.says[0] = (struct says){ statuses[i], "{\"status\":410,\"error\":\"Gone\"}" };
		b.says[1] = (struct says){ .body = LIST_3(A) };
		a = run(&b, 1);
		assert_int_equal(usher_endpoints_count(a->set), 1);
		assert_int_equal(a->fails, 0);
		assert_string_equal(b.asked[1],
				"/nacos/v3/client/ns/instance/list?namespaceId=public&serviceName=web"
				"&groupName=DEFAULT_GROUP&clusterName=%2C&healthyOnly=false");
		tear_down(&b);
	}
}

static void test_a_server_without_both_is_told_of(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = b.says[1] = (struct says){ "404 Not Found", "" };
	a = run(&b, 1);
	assert_int_equal(a->code, -EPROTO);
	assert_non_null(strstr(a->text,
			"has none of the paths /nacos/v1/ns and "
			"/nacos/v3/client/ns"));
	tear_down(&b);
}

static void test_an_api_that_is_prescribed_is_not_left(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.nacos.api = NACOS_CHOOSE_3;
	b.says[0] = (struct says){ "404 Not Found", "" };
	a = run(&b, 1);
	assert_int_equal(a->fails, 1);
	assert_non_null(strstr(b.asked[0], "/nacos/v3/client/ns/instance/list?"));
	tear_down(&b);
}

static void test_a_group_in_the_name_and_clusters_are_asked_for(void **state)
{
	static const char *const clusters[] = { "a", "b", NULL };
	struct bench b;

	(void) state;
	set_up(&b);
	b.source.count = 0;
	fake_source_want(&b.source, "shop", "OTHER@@web", NULL);
	b.nacos.clusters = clusters;
	b.says[0] = (struct says){ .body = LIST(A) };
	(void) run(&b, 1);
	assert_string_equal(b.asked[0],
			"/nacos/v1/ns/instance/list?namespaceId=public&serviceName=OTHER%40%40web"
			"&clusters=a%2Cb&healthyOnly=false");
	tear_down(&b);
}

/* ---- what is not believed ---- */

static void test_an_empty_list_is_looked_at_twice_and_doubted(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .body = LIST(A "," B) };
	b.says[1] = b.says[2] = (struct says){ .body = LIST("") };
	a = run(&b, 2);
	assert_int_equal(a->verdict, USHER_SUSPECT);
	assert_int_equal(usher_endpoints_count(a->set), 0);
	assert_int_equal(atomic_load(&b.count), 3);
	tear_down(&b);
}

static void test_an_empty_list_is_believed_in_the_end(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.nacos.hold_usec = USEC_PER_SEC / 2;
	b.says[0] = (struct says){ .body = LIST(A "," B) };
	for (size_t i = 1; i < SAYS_MAX; i++)
		b.says[i] = (struct says){ .body = LIST("") };
	a = run(&b, 3);
	assert_int_equal(a->verdict, USHER_FRESH);
	assert_int_equal(usher_endpoints_count(a->set), 0);
	tear_down(&b);
}

static void test_one_of_two_that_goes_is_gone(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .body = LIST(A "," B) };
	b.says[1] = (struct says){ .body = LIST(A) };
	a = run(&b, 2);
	assert_int_equal(a->verdict, USHER_FRESH);
	assert_int_equal(usher_endpoints_count(a->set), 1);
	tear_down(&b);
}

static void test_less_after_a_failure_is_doubted(void **state)
{
	static const struct says failures[] = { { "500 Internal Server Error", "caused: disk" },
		{ "503 Service Unavailable", "server is DOWN now" }, { "closed", NULL } };

	(void) state;
	for (size_t i = 0; i < sizeof(failures) / sizeof(*failures); i++) {
		const struct fake_answer *a;
		struct bench b;

		set_up(&b);
		b.says[0] = (struct says){ .body = LIST(A "," B) };
		b.says[1] = failures[i];
		/* A request whose connection is closed is sent once more by itself. */
		for (size_t k = 2; k < SAYS_MAX; k++)
			b.says[k] = (struct says){ .body = LIST(A) };
		a = run(&b, failures[i].body ? 3 : 2);
		if (a->fails > 0)
			assert_int_equal(a->verdict, USHER_SUSPECT);
		assert_int_equal(usher_endpoints_count(a->set), 1);
		tear_down(&b);
	}
}

static void test_all_that_are_unhealthy_at_once_are_doubted(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .body = LIST(A "," B) };
	b.says[1] = b.says[2] = (struct says){ .body = LIST(HOST("10.0.0.1", "false") "," HOST(
							       "10.0.0.2", "false")) };
	a = run(&b, 2);
	assert_int_equal(a->verdict, USHER_SUSPECT);
	assert_int_equal(usher_endpoints_count(a->set), 0);
	tear_down(&b);
}

static void test_a_denial_is_no_emptiness(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .body = LIST(A) };
	b.says[1] = (struct says){ "403 Forbidden", "{\"status\":403}" };
	a = run(&b, 2);
	assert_int_equal(a->code, -EACCES);
	assert_int_equal(usher_endpoints_count(a->set), 1);
	tear_down(&b);
}

static void test_none_that_can_be_used_is_no_emptiness(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .body = LIST(A) };
	b.says[1] = (struct says){ .body = LIST(HOST_OF("10.0.0.1", "0", "\"weight\":1")) };
	a = run(&b, 2);
	assert_int_equal(a->code, -EBADMSG);
	assert_string_equal(a->text,
			"none of the 1 instances of web can be used: 10.0.0.1: its port is 0");
	tear_down(&b);
}

/* ---- being let in ---- */

static void test_a_login_comes_first_and_its_token_goes_along(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.nacos.http.user = "usher";
	b.nacos.http.password = "a&b";
	b.login = "{\"accessToken\":\"eyJ\",\"tokenTtl\":18000,\"globalAdmin\":false}";
	b.says[0] = (struct says){ .body = LIST(A) };
	a = run(&b, 1);
	assert_int_equal(a->offers, 1);
	assert_int_equal(a->fails, 0);
	assert_string_equal(b.authorized[0], "Bearer eyJ");
	tear_down(&b);
}

static void test_a_login_that_is_denied_is_a_denial(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.nacos.http.user = "usher";
	b.nacos.http.password = "a&b";
	a = run(&b, 1);
	assert_int_equal(a->code, -EACCES);
	assert_non_null(strstr(a->text, "cannot log in as usher"));
	assert_int_equal(atomic_load(&b.count), 0);
	tear_down(&b);
}

static void test_a_young_token_that_is_denied_is_not_replaced(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.nacos.http.user = "usher";
	b.nacos.http.password = "a&b";
	b.login = "{\"accessToken\":\"eyJ\",\"tokenTtl\":18000,\"globalAdmin\":false}";
	b.says[0] = b.says[1] = (struct says){ "403 Forbidden", "" };
	a = run(&b, 2);
	assert_int_equal(a->code, -EACCES);
	assert_int_equal(atomic_load(&b.logins), 1);
	tear_down(&b);
}

static void test_options_that_contradict_each_other_are_refused(void **state)
{
	struct usher_error err = { 0 };
	struct bench b;

	(void) state;
	set_up(&b);
	assert_ok(usher_plugin.init(&b.nacos, &err));
	b.nacos.http.user = "usher";
	assert_errno(usher_plugin.init(&b.nacos, &err), EINVAL);
	b.nacos.http.password = "secret";
	assert_ok(usher_plugin.init(&b.nacos, &err));
	b.nacos.http.token = "token";
	assert_errno(usher_plugin.init(&b.nacos, &err), EINVAL);
	b.nacos.http.token = NULL;
	b.nacos.push_address = "here";
	assert_errno(usher_plugin.init(&b.nacos, &err), EINVAL);
	b.nacos.push_address = NULL;
	b.nacos.poll_usec = 1;
	assert_errno(usher_plugin.init(&b.nacos, &err), ERANGE);
	tear_down(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_instance_is_read_with_all_that_is_said_of_it),
		cmocka_unit_test(test_both_apis_say_the_same),
		cmocka_unit_test(test_an_id_of_its_own_is_the_id),
		cmocka_unit_test(test_one_address_in_two_clusters_is_two_endpoints),
		cmocka_unit_test(test_a_generated_id_tells_incarnations_apart),
		cmocka_unit_test(test_a_cluster_is_a_zone_where_that_is_wanted),
		cmocka_unit_test(test_shares_of_weights_are_kept),
		cmocka_unit_test(test_health_that_is_forged_is_not_believed),
		cmocka_unit_test(test_what_is_disabled_is_a_state_and_no_ill_health),
		cmocka_unit_test(test_what_cannot_be_used_takes_nothing_else_along),
		cmocka_unit_test(test_what_one_instance_says_of_itself_takes_no_other_along),
		cmocka_unit_test(test_what_is_no_answer_is_refused_in_words),
		cmocka_unit_test(test_a_fault_in_an_envelope_is_told_in_its_words),
		cmocka_unit_test(test_one_instance_is_found_by_its_id),
		cmocka_unit_test(test_calls_are_done_or_not),
		cmocka_unit_test(test_reading_survives_that_memory_runs_out),
		cmocka_unit_test(test_it_looks_again_and_again),
		cmocka_unit_test(test_where_v1_is_gone_v3_is_asked),
		cmocka_unit_test(test_a_server_without_both_is_told_of),
		cmocka_unit_test(test_an_api_that_is_prescribed_is_not_left),
		cmocka_unit_test(test_a_group_in_the_name_and_clusters_are_asked_for),
		cmocka_unit_test(test_an_empty_list_is_looked_at_twice_and_doubted),
		cmocka_unit_test(test_an_empty_list_is_believed_in_the_end),
		cmocka_unit_test(test_one_of_two_that_goes_is_gone),
		cmocka_unit_test(test_less_after_a_failure_is_doubted),
		cmocka_unit_test(test_all_that_are_unhealthy_at_once_are_doubted),
		cmocka_unit_test(test_a_denial_is_no_emptiness),
		cmocka_unit_test(test_none_that_can_be_used_is_no_emptiness),
		cmocka_unit_test(test_a_login_comes_first_and_its_token_goes_along),
		cmocka_unit_test(test_a_login_that_is_denied_is_a_denial),
		cmocka_unit_test(test_a_young_token_that_is_denied_is_not_replaced),
		cmocka_unit_test(test_options_that_contradict_each_other_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
