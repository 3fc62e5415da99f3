/* The plug-in consul against an agent that is played. What the agent says is in the shape of
 * Consul 1.8.7, as recorded. */

#include "answer.h"
#include "consul.h"
#include "fake-source.h"
#include "scripted-server.h"
#include "watch.h"

#define CHECK(id, status, more) "{\"CheckID\":\"" id "\",\"Status\":\"" status "\"" more "}"
#define ALIVE                   CHECK("serfHealth", "passing", ",\"ServiceID\":\"\"")
#define INSTANCE_OF(node, id, service, checks)                                                     \
	"{\"Node\":{\"ID\":\"81ef4081\",\"Node\":\"" node "\",\"Address\":\"10.1.0.1\","           \
	"\"Datacenter\":\"dc1\",\"TaggedAddresses\":{\"lan\":\"10.1.0.1\",\"wan\":\"192.0.2.1\"}," \
	"\"Meta\":{\"zone\":\"north\"}}," service ",\"Checks\":[" checks "]}"
#define INSTANCE(node, id, checks)                                                             \
	INSTANCE_OF(node, id,                                                                  \
			"\"Service\":{\"ID\":\"" id                                            \
			"\",\"Service\":\"web\",\"Tags\":[\"v1\",\"zone=a\"],\"Address\":"     \
			"\"10.0.0.1\",\"Meta\":{\"version\":\"1\"},\"Port\":8080,\"Weights\":" \
			"{\"Passing\":10,\"Warning\":2},\"CreateIndex\":8}",                   \
			checks)
#define WEB_1(status) INSTANCE("n1", "web-1", ALIVE "," CHECK("service:web-1", status, ""))
#define WEB_2(status) INSTANCE("n1", "web-2", ALIVE "," CHECK("service:web-2", status, ""))

extern const struct usher_plugin usher_plugin;

/* ---- what an answer means ---- */

static struct answer parse_with(const char *text, const struct answer_options *options)
{
	struct usher_error err = { 0 };
	struct answer a = { 0 };
	int r = answer_parse(text, strlen(text), options, &a, &err);

	if (r < 0)
		fail_msg("%s", usher_error_text(&err, r));
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

static void test_an_instance_is_read_with_all_that_is_said_of_it(void **state)
{
	struct answer a = parse("[" WEB_1("passing") "]");
	struct usher_endpoint e = endpoint_of(&a, "web-1");

	(void) state;
	assert_string_equal(e.address, "10.0.0.1");
	assert_int_equal(e.port, 8080);
	assert_int_equal(e.weight, 10);
	assert_true(e.ready);
	assert_string_equal(e.uid, "81ef4081/8");
	assert_string_equal(e.zone, "a");
	assert_string_equal(usher_endpoints_metadata(a.set, 0, "version"), "1");
	assert_string_equal(usher_endpoints_metadata(a.set, 0, "consul.tags"), "v1,zone=a");
	assert_string_equal(usher_endpoints_metadata(a.set, 0, "consul.node"), "n1");
	answer_done(&a);
}

static void test_health_is_the_worst_of_all_checks(void **state)
{
	static const struct {
		const char *text;
		bool ready;
		uint32_t weight;
	} cases[] = {
		{ "[" WEB_1("passing") "]", true, 10 },
		{ "[" WEB_1("warning") "]", true, 2 },
		{ "[" WEB_1("critical") "]", false, 10 },
		{ "[" WEB_1("strange") "]", false, 10 },
		{ "[" INSTANCE("n1", "web-1",
				  CHECK("serfHealth", "critical", "") "," CHECK(
						  "s", "passing", "")) "]",
				false, 10 },
		{ "[" INSTANCE("n1", "web-1", "") "]", true, 10 },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct answer a = parse(cases[i].text);
		struct usher_endpoint e = endpoint_of(&a, "web-1");

		assert_int_equal(e.ready, cases[i].ready);
		assert_int_equal(e.weight, cases[i].weight);
		answer_done(&a);
	}
}

static void test_maintenance_is_no_ill_health(void **state)
{
	static const struct {
		const char *text, *reason;
		enum usher_admin_state expected;
	} cases[] = {
		{ "[" INSTANCE("n1", "web-1",
				  CHECK("_service_maintenance:web-1", "critical",
						  ",\"Notes\":\"disk\"")) "]",
				"disk", USHER_ADMIN_MAINTENANCE },
		{ "[" INSTANCE("n1", "web-1",
				  CHECK("_node_maintenance", "critical",
						  ",\"Notes\":\"kernel\"")) "]",
				"kernel", USHER_ADMIN_MAINTENANCE },
		{ "[" INSTANCE("n1", "web-1",
				  CHECK("_service_maintenance:web-1", "critical",
						  ",\"Notes\":\"usher: draining\"")) "]",
				"usher: draining", USHER_ADMIN_DRAINING },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct answer a = parse(cases[i].text);
		struct usher_endpoint e = endpoint_of(&a, "web-1");

		assert_true(e.ready);
		assert_int_equal(e.admin_state, cases[i].expected);
		assert_string_equal(usher_endpoints_metadata(a.set, 0, "consul.maintenance"),
				cases[i].reason);
		answer_done(&a);
	}
}

static void test_an_instance_without_an_address_is_at_its_node(void **state)
{
	static const char text[] = "[" INSTANCE_OF("n1", "",
			"\"Service\":{\"ID\":\"x\",\"Service\":\"web\",\"Address\":\"\",\"Port\":80,"
			"\"Tags\":null,\"Meta\":null}",
			ALIVE) "]";
	static const struct answer_options wan = { .tagged_address = "wan" };
	struct answer a = parse(text), b = parse_with(text, &wan);

	(void) state;
	assert_string_equal(endpoint_of(&a, "x").address, "10.1.0.1");
	assert_string_equal(endpoint_of(&a, "x").zone, "north");
	assert_int_equal(endpoint_of(&a, "x").weight, 1);
	assert_string_equal(endpoint_of(&b, "x").address, "192.0.2.1");
	answer_done(&a);
	answer_done(&b);
}

static void test_one_id_on_two_nodes_is_two_endpoints(void **state)
{
	struct answer a = parse("[" INSTANCE("n1", "web-1", ALIVE) "," INSTANCE(
			"n2", "web-1", ALIVE) "," INSTANCE("n1", "web", ALIVE) "]");

	(void) state;
	assert_int_equal(usher_endpoints_count(a.set), 3);
	assert_true(usher_endpoints_find(a.set, "web-1@n1") >= 0);
	assert_true(usher_endpoints_find(a.set, "web-1@n2") >= 0);
	assert_true(usher_endpoints_find(a.set, "web@n1") >= 0);
	answer_done(&a);
}

static void test_what_cannot_be_used_takes_nothing_else_along(void **state)
{
	struct answer a = parse("[" WEB_1("passing") "," INSTANCE_OF("n1", "",
			"\"Service\":{\"ID\":\"y\",\"Service\":\"web\",\"Port\":0}",
			ALIVE) "," INSTANCE_OF("n1", "",
			"\"Service\":{\"ID\":\"z\",\"Service\":\"web\",\"Port\":80,\"Address\":\"no address\"}",
			ALIVE) ",7]");

	(void) state;
	assert_int_equal(usher_endpoints_count(a.set), 1);
	assert_int_equal(a.instances, 4);
	assert_int_equal(a.skipped, 3);
	assert_string_equal(a.first_skip.text, "y: its port is 0");
	answer_done(&a);
}

static void test_what_one_instance_says_of_itself_takes_no_other_along(void **state)
{
#define SERVICE(id, more) \
	INSTANCE_OF("n1", "", "\"Service\":{\"ID\":\"" id "\",\"Service\":\"web\"," more "}", ALIVE)
	struct answer a = parse("[" WEB_1("passing") "," SERVICE(
			"n\\u0000l", "\"Port\":80") "," SERVICE("far",
			"\"Port\":99999999999999999999") "," SERVICE("label",
			"\"Port\":80,\"Tags\":[\"a\\u0000b\",\"\\ud800\",\"x=1\"],"
			"\"Meta\":{\"k\\u0000\":\"v\",\"c\":\"\xff\",\"good\":\"yes\"}") "]");
	size_t at;

	(void) state;
	assert_int_equal(usher_endpoints_count(a.set), 2);
	assert_int_equal(endpoint_of(&a, "web-1").port, 8080);
	usher_endpoints_seal(a.set);
	at = (size_t) usher_endpoints_find(a.set, "label");
	assert_string_equal(usher_endpoints_metadata(a.set, at, "good"), "yes");
	assert_string_equal(usher_endpoints_metadata(a.set, at, "x"), "1");
	assert_null(usher_endpoints_metadata(a.set, at, "c"));
	assert_null(usher_endpoints_metadata(a.set, at, "k"));
	assert_null(usher_endpoints_metadata(a.set, at, "consul.tags"));
	assert_int_equal(a.skipped, 2);
	assert_non_null(strstr(a.first_skip.text, "control characters"));
	answer_done(&a);
}

static void test_what_is_no_answer_is_refused_in_words(void **state)
{
	static const char *const cases[] = { "", "{}", "null", "<html>", "[{\"a\":1,\"a\":2}]", "[",
		"7" };

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct usher_error err = { 0 };
		struct answer a = { 0 };

		assert_errno(answer_parse(cases[i], strlen(cases[i]),
					     &(const struct answer_options){ 0 }, &a, &err),
				EBADMSG);
		assert_non_null(strstr(err.text, "is this an agent of Consul?"));
	}
}

static int parse_under_oom(void *userdata)
{
	static const char text[] = "[" WEB_1("passing") "," WEB_2("critical") "]";
	struct answer a = { 0 };
	int r;

	(void) userdata;
	r = answer_parse(text, strlen(text), &(const struct answer_options){ 0 }, &a, NULL);
	answer_done(&a);
	return r;
}

static void test_reading_survives_that_memory_runs_out(void **state)
{
	(void) state;
	assert_survives_oom(parse_under_oom, NULL);
}

/* ---- a bench with an agent ---- */

#define SAYS_MAX 16

struct says {
	const char *status;  /* NULL: 200 */
	const char *headers; /* NULL: those of an agent in good order, with `index` */
	unsigned index;
	const char *body; /* NULL: the connection is closed without a byte */
};

struct bench {
	struct scripted_server server;
	const char *servers[2];
	struct consul consul;
	struct usher_source source;
	struct says says[SAYS_MAX]; /* of web, one a request; then silence */
	const char *canary;         /* what is said of the service consul */
	char asked[SAYS_MAX][512];  /* the paths */
	atomic_uint count;
	unsigned until;        /* so many offers and failures */
	unsigned until_offers; /* where not 0: so many offers, and any number of failures */
	bool wants_names;      /* and until the names of the services are known */
};

static bool agent_answer(struct scripted_connection *c)
{
	static const char good[] = "X-Consul-Knownleader: true\r\nX-Consul-Lastcontact: 12\r\n";
	struct bench *b = c->server->userdata;
	const struct says *s;
	char headers[512];
	unsigned n;

	if (strncmp(c->request, "GET /v1/catalog/services", 24) == 0)
		return scripted_reply(c, "200 OK", "", "{\"consul\":[],\"web\":[]}");
	if (strncmp(c->request, "GET /v1/health/service/consul?", 30) == 0)
		return scripted_reply(c, "200 OK", "X-Consul-Knownleader: true\r\n", b->canary);
	n = atomic_load(&b->count);
	if (n == SAYS_MAX)
		return scripted_hang(c);
	(void) sscanf(c->request, "GET %511s", b->asked[n]);
	atomic_store(&b->count, n + 1);
	s = &b->says[n];
	if (!s->body)
		return s->index ? false : scripted_hang(c);
	(void) snprintf(headers, sizeof(headers), "%sX-Consul-Index: %u\r\n", good, s->index);
	return scripted_reply(c, s->status ? s->status : "200 OK",
			s->headers ? s->headers : headers, s->body);
}

static int bench_on_wait(
		struct usher_source *source, const struct usher_wait *wait, unsigned number)
{
	struct bench *b = source->userdata;
	const struct fake_answer *a = &source->answers[0];

	(void) number;
	if (b->wants_names && !fake_source_knows(source, "web"))
		return fake_source_wait_http(source, wait);
	if (b->until_offers ? a->offers >= b->until_offers : a->offers + a->fails >= b->until)
		return 0;
	return fake_source_wait_http(source, wait);
}

static void set_up(struct bench *b)
{
	memset(b, 0, sizeof(*b));
	scripted_server_start(&b->server, agent_answer, b);
	b->servers[0] = b->server.url;
	b->canary = "[{}]";
	b->consul = (struct consul){
		.http = { .servers = b->servers,
				.verify = true,
				.connections = 8,
				.connect_timeout_usec = 60000000 },
		.canary = "consul",
		.max_stale_usec = 5000000,
		.wait_usec = 10000000,
		.poll_usec = 1000000,
		.hold_usec = 30000000,
		.ttl_usec = 15000000,
		.deregister_after_usec = 60000000,
	};
	b->source.on_wait = bench_on_wait;
	b->source.userdata = b;
	fake_source_want(&b->source, "shop", "web", NULL);
}

static const struct fake_answer *run(struct bench *b, unsigned until)
{
	b->until = until;
	assert_ok(usher_plugin.discovery->run(&b->consul, &b->source));
	return fake_source_answer(&b->source, "shop");
}

static void tear_down(struct bench *b)
{
	fake_source_done(&b->source);
	registration_done(&b->consul);
	scripted_server_stop(&b->server);
}

/* ---- blocking queries ---- */

static void test_the_index_of_an_answer_is_waited_behind(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .index = 9, .body = "[" WEB_1("passing") "]" };
	b.says[1] = (struct says){ .index = 13,
		.body = "[" WEB_1("passing") "," WEB_2("passing") "]" };
	b.wants_names = true; /* they come with an answer of their own */
	a = run(&b, 2);
	assert_int_equal(usher_endpoints_count(a->set), 2);
	assert_int_equal(a->verdict, USHER_FRESH);
	assert_string_equal(b.asked[0], "/v1/health/service/web?stale");
	assert_string_equal(b.asked[1], "/v1/health/service/web?stale&index=9&wait=10000ms");
	assert_true(fake_source_knows(&b.source, "web"));
	tear_down(&b);
}

static void test_an_index_that_went_back_is_asked_for_at_the_leader(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .index = 950,
		.body = "[" WEB_1("passing") "," WEB_2("passing") "]" };
	b.says[1] = (struct says){ .index = 900, .body = "[" WEB_1("passing") "]" }; /* behind */
	b.says[2] = (struct says){ .index = 951,
		.body = "[" WEB_1("passing") "," WEB_2("passing") "]" };
	a = run(&b, 2);
	assert_int_equal(usher_endpoints_count(a->set), 2);
	assert_int_equal(a->verdict, USHER_FRESH);
	assert_string_equal(b.asked[2], "/v1/health/service/web?consistent");
	tear_down(&b);
}

static void test_another_history_that_is_less_is_doubted(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .index = 950,
		.body = "[" WEB_1("passing") "," WEB_2("passing") "]" };
	b.says[1] = (struct says){ .index = 12, .body = "[" WEB_1("passing") "]" };
	b.says[2] = (struct says){ .index = 12, .body = "[" WEB_1("passing") "]" };
	b.says[3] = (struct says){ .index = 13,
		.body = "[" WEB_1("passing") "," WEB_2("passing") "]" };
	a = run(&b, 2);
	assert_int_equal(a->verdict, USHER_SUSPECT);
	a = run(&b, 3); /* from the start, for `run` has forgotten */
	assert_int_equal(a->verdict, USHER_FRESH);
	tear_down(&b);
}

static void test_after_a_failure_the_index_is_dropped(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .index = 9, .body = "[" WEB_1("passing") "]" };
	b.says[1] = (struct says){ .status = "500 Internal Server Error",
		.headers = "X-Consul-Index: 1\r\nX-Consul-Knownleader: false\r\n",
		.body = "No cluster leader" };
	b.says[2] = (struct says){ .index = 9, .body = "[" WEB_1("passing") "]" };
	a = run(&b, 3);
	assert_int_equal(a->fails, 1);
	assert_int_equal(a->code, 0);
	assert_string_equal(b.asked[2], "/v1/health/service/web?stale");
	tear_down(&b);
}

static void test_an_answer_without_index_is_asked_for_again_without(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){
		.headers = "X-Consul-Knownleader: true\r\nX-Consul-Lastcontact: 0\r\n",
		.body = "[" WEB_1("passing") "]"
	};
	b.says[1] = b.says[0];
	(void) run(&b, 2);
	assert_string_equal(b.asked[1], "/v1/health/service/web?stale");
	tear_down(&b);
}

/* ---- what is not believed ---- */

static void test_an_answer_that_is_too_old_is_asked_for_at_the_leader(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .headers = "X-Consul-Index: 9\r\nX-Consul-Knownleader: true\r\n"
					      "X-Consul-Lastcontact: 60000\r\n",
		.body = "[]" };
	b.says[1] = (struct says){ .index = 9, .body = "[" WEB_1("passing") "]" };
	a = run(&b, 1);
	assert_int_equal(usher_endpoints_count(a->set), 1);
	assert_string_equal(b.asked[1], "/v1/health/service/web?consistent");
	tear_down(&b);
}

static void test_streaming_says_nothing_of_its_age(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .headers = "X-Consul-Index: 9\r\nX-Consul-Knownleader: true\r\n"
					      "X-Consul-Lastcontact: 0\r\n"
					      "X-Consul-Query-Backend: streaming\r\n",
		.body = "[]" };
	b.says[1] = (struct says){ .index = 9, .body = "[" WEB_1("passing") "]" };
	(void) run(&b, 1);
	assert_string_equal(b.asked[1], "/v1/health/service/web?consistent");
	tear_down(&b);
}

static void test_without_a_leader_nothing_is_believed(void **state)
{
	static const char headers[] = "X-Consul-Index: 9\r\nX-Consul-Knownleader: false\r\n"
				      "X-Consul-Lastcontact: 90000\r\n";
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .headers = headers, .body = "[]" };
	b.says[1] = (struct says){ .headers = headers, .body = "[]" };
	a = run(&b, 1);
	assert_null(a->set);
	assert_errno(a->code, EAGAIN);
	assert_non_null(strstr(a->text, "have no leader"));
	tear_down(&b);
}

static void test_a_filtered_answer_is_a_denial(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .headers = "X-Consul-Index: 9\r\nX-Consul-Knownleader: true\r\n"
					      "X-Consul-Lastcontact: 0\r\n"
					      "X-Consul-Results-Filtered-By-ACLs: true\r\n",
		.body = "[]" };
	a = run(&b, 1);
	assert_errno(a->code, EACCES);
	tear_down(&b);
}

static void test_an_empty_answer_is_a_denial_where_nothing_is_seen(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .index = 11, .body = "[]" };
	b.says[1] = (struct says){ .index = 11, .body = "[]" };
	b.canary = "[]";
	a = run(&b, 1);
	assert_null(a->set);
	assert_errno(a->code, EACCES);
	assert_non_null(strstr(a->text, "service:read and node:read"));
	tear_down(&b);
}

static void test_an_empty_answer_is_believed_of_a_majority(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .index = 11, .body = "[]" };
	b.says[1] = (struct says){ .index = 11, .body = "[]" };
	a = run(&b, 1);
	assert_int_equal(usher_endpoints_count(a->set), 0);
	assert_int_equal(a->verdict, USHER_FRESH);
	tear_down(&b);
}

static void test_a_token_that_is_unknown_is_a_denial(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .status = "403 Forbidden", .index = 1, .body = "ACL not found" };
	a = run(&b, 1);
	assert_errno(a->code, EACCES);
	assert_non_null(strstr(a->text, "ACL not found"));
	tear_down(&b);
}

static void test_all_that_fail_at_once_are_doubted(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .index = 9,
		.body = "[" WEB_1("passing") "," WEB_2("passing") "]" };
	b.says[1] = (struct says){ .index = 10,
		.body = "[" WEB_1("critical") "," WEB_2("critical") "]" };
	b.says[2] = b.says[1];
	a = run(&b, 2);
	assert_int_equal(a->verdict, USHER_SUSPECT);
	/* It does not speak of those it doubts, so that the host keeps what it has of them. */
	assert_int_equal(usher_endpoints_count(a->set), 0);
	assert_string_equal(b.asked[2], "/v1/health/service/web?consistent");
	tear_down(&b);
}

static void test_a_query_waits_no_longer_than_a_doubt(void **state)
{
	unsigned wait_msec = 0;
	struct bench b;

	(void) state;
	set_up(&b);
	b.consul.hold_usec = 8000000;
	b.says[0] = (struct says){ .index = 9, .body = "[" WEB_1("passing") "]" };
	for (unsigned i = 1; i < 5; i++)
		b.says[i] = (struct says){ .index = 9 + i, .body = "[" WEB_1("critical") "]" };
	(void) run(&b, 3);
	assert_int_equal(sscanf(b.asked[3], "/v1/health/service/web?stale&index=11&wait=%ums",
					 &wait_msec),
			1);
	assert_true(wait_msec > 0 && wait_msec <= 7500);
	tear_down(&b);
}

static void test_one_of_two_that_fails_is_not_doubted(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .index = 9,
		.body = "[" WEB_1("passing") "," WEB_2("passing") "]" };
	b.says[1] = (struct says){ .index = 10,
		.body = "[" WEB_1("passing") "," WEB_2("critical") "]" };
	a = run(&b, 2);
	assert_int_equal(a->verdict, USHER_FRESH);
	assert_int_equal(usher_endpoints_count(a->set), 2);
	tear_down(&b);
}

static void test_less_after_a_restart_is_doubted(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .index = 9,
		.body = "[" WEB_1("passing") "," WEB_2("passing") "]" };
	/* Killed; each connection that was kept is tried first. */
	b.says[1] = b.says[2] = b.says[3] = (struct says){ .index = 1 };
	b.says[4] = (struct says){ .index = 14, .body = "[" WEB_1("passing") "]" };
	b.says[5] = b.says[4];
	b.until_offers = 2;
	a = run(&b, 0);
	assert_true(a->fails > 0);
	assert_int_equal(a->verdict, USHER_SUSPECT);
	tear_down(&b);
}

static void test_without_a_doubt_what_went_is_gone(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.says[0] = (struct says){ .index = 9,
		.body = "[" WEB_1("passing") "," WEB_2("passing") "]" };
	b.says[1] = (struct says){ .index = 14, .body = "[" WEB_1("passing") "]" };
	a = run(&b, 2);
	assert_int_equal(a->verdict, USHER_FRESH);
	assert_int_equal(usher_endpoints_count(a->set), 1);
	tear_down(&b);
}

static void test_wake_ups_for_nothing_are_not_run_after(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	for (unsigned i = 0; i < SAYS_MAX; i++)
		b.says[i] = (struct says){ .index = 9 + i, .body = "[" WEB_1("passing") "]" };
	{
		struct timespec from, to;

		(void) clock_gettime(CLOCK_BOOTTIME, &from);
		(void) run(&b, 8);
		(void) clock_gettime(CLOCK_BOOTTIME, &to);
		/* Three at once, then four a second. */
		assert_true((to.tv_sec - from.tv_sec) * 1000 +
						(to.tv_nsec - from.tv_nsec) / 1000000 >
				1000);
	}
	tear_down(&b);
}

/* ---- registration ---- */

struct calls {
	char lines[16][256]; /* method and path */
	char bodies[16][2048];
	atomic_uint count;
	const char *unknown;   /* what the agent does not know: a part of the path */
	const char *described; /* what it says of any service; NULL: that it has none */
	const char *only;      /* of what is asked for with this in the line; NULL: of any */
	const char *status;    /* of that answer; NULL: 200 */
	const char *catalog;   /* what it says of all nodes */
};

static bool agent_register(struct scripted_connection *c)
{
	struct calls *k = c->server->userdata;
	unsigned n = atomic_load(&k->count);
	const char *body = strstr(c->request, "\r\n\r\n");
	char *end;

	if (strncmp(c->request, "GET /v1/agent/self", 18) == 0)
		return scripted_reply(c, "200 OK", "", "{\"Config\":{\"NodeName\":\"n1\"}}");
	if (strncmp(c->request, "GET /v1/health/", 15) == 0)
		return scripted_reply(c, "200 OK", "", k->catalog ? k->catalog : "[]");
	if (strncmp(c->request, "GET ", 4) == 0 && k->described &&
			(!k->only || strstr(c->request, k->only)))
		return scripted_reply(c, k->status ? k->status : "200 OK", "", k->described);
	if (strncmp(c->request, "GET ", 4) == 0)
		return scripted_reply(c, "404 Not Found", "", "unknown service ID");
	(void) snprintf(k->lines[n], sizeof(k->lines[n]), "%.*s", (int) strcspn(c->request, "\r"),
			c->request);
	end = strstr(k->lines[n], " HTTP/");
	if (end)
		*end = '\0';
	(void) snprintf(k->bodies[n], sizeof(k->bodies[n]), "%s", body ? body + 4 : "");
	atomic_store(&k->count, n + 1);
	if (strstr(k->lines[n], "/agent/service/register"))
		k->unknown = NULL;
	if (k->unknown && strstr(k->lines[n], k->unknown))
		return scripted_reply(c, "500 Internal Server Error", "",
				"CheckID \"usher:web-1\" does not have associated TTL");
	return scripted_reply(c, "200 OK", "", "");
}

static const struct usher_wanted shop = { "shop", "web", NULL };

static void set_up_calls(struct bench *b, struct calls *k)
{
	set_up(b);
	memset(k, 0, sizeof(*k));
	b->server.userdata = k;
	b->server.answer = agent_register;
}

static void add(struct bench *b)
{
	static const struct usher_label labels[] = { { "version", "1" } };
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	e.id = "web-1";
	e.address = "10.0.0.1";
	e.port = 8080;
	e.weight = 10;
	e.zone = "a";
	e.metadata = labels;
	e.metadata_count = 1;
	assert_ok(usher_plugin.registration->add(&b->consul, &shop, &e, NULL));
}

static void test_an_endpoint_is_registered_with_a_check_that_passes(void **state)
{
	struct calls k;
	struct bench b;

	(void) state;
	set_up_calls(&b, &k);
	add(&b);
	assert_int_equal(usher_plugin.registration->renew_after_usec(&b.consul), 5000000);
	assert_string_equal(
			k.lines[0], "PUT /v1/agent/service/register?replace-existing-checks=true");
	assert_string_equal(k.bodies[0],
			"{\"ID\":\"web-1\",\"Name\":\"web\",\"Address\":\"10.0.0.1\",\"Port\":8080,"
			"\"Tags\":[],\"Meta\":{\"version\":\"1\",\"zone\":\"a\",\"registered-by\":\"usher\"},\"Weights\":"
			"{\"Passing\":10,\"Warning\":10},\"Check\":{\"CheckID\":\"usher:web-1\","
			"\"Name\":\"usher\",\"TTL\":\"15000ms\",\"Status\":\"passing\","
			"\"Notes\":\"ready\",\"DeregisterCriticalServiceAfter\":\"60s\"}}");
	tear_down(&b);
}

static void test_an_agent_that_forgot_is_told_again_with_the_state(void **state)
{
	struct calls k;
	struct bench b;

	(void) state;
	set_up_calls(&b, &k);
	add(&b);
	assert_ok(usher_plugin.registration->set_state(
			&b.consul, &shop, "web-1", USHER_ADMIN_DRAINING, NULL));
	assert_string_equal(k.lines[1],
			"PUT /v1/agent/service/maintenance/web-1?enable=true&reason="
			"usher%3A%20draining");
	k.unknown = "/check/update/usher%3Aweb-1";
	assert_ok(usher_plugin.registration->renew(&b.consul, &shop, "web-1", NULL));
	assert_string_equal(
			k.lines[3], "PUT /v1/agent/service/register?replace-existing-checks=true");
	assert_string_equal(k.bodies[3], k.bodies[0]);
	assert_string_equal(k.lines[4], k.lines[1]);
	assert_ok(usher_plugin.registration->renew(&b.consul, &shop, "web-1", NULL));
	assert_int_equal(atomic_load(&k.count), 6);
	tear_down(&b);
}

static void test_who_was_never_registered_is_not_renewed(void **state)
{
	struct usher_error err = { 0 };
	struct calls k;
	struct bench b;

	(void) state;
	set_up_calls(&b, &k);
	assert_errno(usher_plugin.registration->renew(&b.consul, &shop, "web-1", &err), ENOENT);
	assert_non_null(strstr(err.text, "is not registered at the agent of this node"));
	tear_down(&b);
}

static void test_the_node_in_an_id_must_be_the_agents(void **state)
{
	struct calls k;
	struct bench b;

	(void) state;
	set_up_calls(&b, &k);
	assert_ok(usher_plugin.registration->set_state(
			&b.consul, &shop, "web@n1", USHER_ADMIN_READY, NULL));
	assert_string_equal(k.lines[0], "PUT /v1/agent/service/maintenance/web?enable=false");
	assert_ok(usher_plugin.registration->set_state(
			&b.consul, &shop, "web@n2", USHER_ADMIN_READY, NULL));
	assert_string_equal(k.lines[1], "PUT /v1/agent/service/maintenance/web%40n2?enable=false");
	tear_down(&b);
}

static void test_removing_what_is_unknown_is_done(void **state)
{
	struct calls k;
	struct bench b;

	(void) state;
	set_up_calls(&b, &k);
	add(&b);
	assert_ok(usher_plugin.registration->remove(&b.consul, &shop, "web-1", NULL));
	assert_string_equal(k.lines[1], "PUT /v1/agent/service/deregister/web-1");
	assert_errno(usher_plugin.registration->renew(&b.consul, &shop, "web-1", NULL), ENOENT);
	tear_down(&b);
}

#define OURS "\"registered-by\":\"usher\""
#define OWN(meta, checks)                                                                       \
	"{\"AggregatedStatus\":\"critical\",\"Service\":{\"ID\":\"web-1\",\"Service\":\"web\"," \
	"\"Tags\":[\"blue\"],\"Meta\":{" meta "},\"Port\":8080,\"Address\":\"10.0.0.1\","       \
	"\"Weights\":{\"Passing\":10,\"Warning\":10},\"EnableTagOverride\":false},"             \
	"\"Checks\":[" checks "]}"
#define TTL_CHECK(notes) \
	"{\"CheckID\":\"usher:web-1\",\"Status\":\"critical\",\"Notes\":\"" notes "\"}"

static void test_what_others_have_registered_is_never_described_anew(void **state)
{
	struct calls k;
	struct bench b;

	(void) state;
	set_up_calls(&b, &k);
	k.described = OWN("\"version\":\"1\"", "");
	assert_ok(usher_plugin.registration->remove(&b.consul, &shop, "web-1", NULL));
	assert_string_equal(k.lines[0],
			"PUT /v1/agent/service/maintenance/web-1?enable=true&reason="
			"usher%3A%20draining");
	add(&b);
	assert_string_equal(k.lines[1], "PUT /v1/agent/service/maintenance/web-1?enable=false");
	/* Nor kept alive: it is looked whether it is there. */
	assert_ok(usher_plugin.registration->renew(&b.consul, &shop, "web-1", NULL));
	assert_int_equal(atomic_load(&k.count), 2);
	k.described = NULL;
	assert_errno(usher_plugin.registration->renew(&b.consul, &shop, "web-1", NULL), ENOENT);
	tear_down(&b);
}

static void test_what_an_earlier_usherd_has_registered_is_ours(void **state)
{
	struct calls k;
	struct bench b;

	(void) state;
	set_up_calls(&b, &k);
	k.described = OWN(OURS, "");
	assert_ok(usher_plugin.registration->remove(&b.consul, &shop, "web-1", NULL));
	assert_string_equal(k.lines[0], "PUT /v1/agent/service/deregister/web-1");
	add(&b);
	assert_string_equal(
			k.lines[1], "PUT /v1/agent/service/register?replace-existing-checks=true");
	tear_down(&b);
}

static void test_what_an_earlier_usherd_has_registered_is_kept_alive_as_it_was(void **state)
{
	struct calls k;
	struct bench b;

	(void) state;
	set_up_calls(&b, &k);
	k.described = OWN(OURS, TTL_CHECK("ready")); /* nobody renewed it meanwhile */
	assert_ok(usher_plugin.registration->renew(&b.consul, &shop, "web-1", NULL));
	assert_string_equal(k.lines[0], "PUT /v1/agent/check/update/usher%3Aweb-1");
	assert_string_equal(k.bodies[0], "{\"Status\":\"passing\"}");
	k.described = NULL; /* it is not looked at again */
	assert_ok(usher_plugin.registration->renew(&b.consul, &shop, "web-1", NULL));
	assert_string_equal(k.bodies[1], k.bodies[0]);
	tear_down(&b);
	set_up_calls(&b, &k);
	k.described = OWN(OURS, TTL_CHECK("not ready"));
	assert_ok(usher_plugin.registration->renew(&b.consul, &shop, "web-1", NULL));
	assert_string_equal(k.bodies[0], "{\"Status\":\"critical\"}");
	tear_down(&b);
}

static void test_what_was_adopted_is_told_to_an_agent_that_forgot_it(void **state)
{
	struct calls k;
	struct bench b;

	(void) state;
	set_up_calls(&b, &k);
	k.described = OWN(OURS,
			TTL_CHECK("ready") ",{\"CheckID\":\"_service_maintenance:web-1\","
					   "\"Status\":\"critical\",\"Notes\":"
					   "\"usher: draining\"}");
	k.unknown = "/check/update/usher%3Aweb-1";
	assert_ok(usher_plugin.registration->renew(&b.consul, &shop, "web-1", NULL));
	assert_string_equal(
			k.lines[1], "PUT /v1/agent/service/register?replace-existing-checks=true");
	assert_string_equal(k.bodies[1],
			"{\"ID\":\"web-1\",\"Check\":{\"CheckID\":\"usher:web-1\",\"Name\":\"usher\","
			"\"TTL\":\"15000ms\",\"Status\":\"passing\",\"Notes\":\"ready\","
			"\"DeregisterCriticalServiceAfter\":\"60s\"},\"Name\":\"web\",\"Address\":"
			"\"10.0.0.1\",\"Port\":8080,\"Tags\":[\"blue\"],\"Meta\":{" OURS
			"},\"Weights\":{\"Passing\":10,\"Warning\":10}}");
	assert_string_equal(k.lines[2],
			"PUT /v1/agent/service/maintenance/web-1?enable=true&reason="
			"usher%3A%20draining");
	tear_down(&b);
}

static void test_what_is_ours_under_another_id_is_not_taken_for_it(void **state)
{
	struct usher_error err = { 0 };
	struct calls k;
	struct bench b;

	(void) state;
	set_up_calls(&b, &k);
	k.described = OWN(OURS, TTL_CHECK("ready"));
	k.only = "/web-1 ";
	assert_errno(usher_plugin.registration->renew(&b.consul, &shop, "web-1@n1", &err), ENOENT);
	assert_int_equal(atomic_load(&k.count), 0);
	tear_down(&b);
}

static void test_an_agent_that_cannot_say_is_no_loss(void **state)
{
	struct usher_error err = { 0 };
	struct calls k;
	struct bench b;

	(void) state;
	set_up_calls(&b, &k);
	k.described = "rpc error: no leader";
	k.status = "503 Service Unavailable";
	assert_errno(usher_plugin.registration->renew(&b.consul, &shop, "web-1", &err), EAGAIN);
	assert_non_null(strstr(err.text, "503"));
	tear_down(&b);
}

static int add_to(struct bench *b, const struct usher_wanted *service, struct usher_error *reterr)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	e.id = "web-1";
	e.address = "10.0.0.9";
	e.port = 81;
	return usher_plugin.registration->add(&b->consul, service, &e, reterr);
}

static void test_what_another_service_has_under_the_id_is_not_touched(void **state)
{
	static const struct usher_wanted other = { .service = "catalog", .name = "catalog" };
	const char *const described[] = { OWN("\"version\":\"1\"", ""),
		OWN(OURS, TTL_CHECK("ready")) };
	struct calls k;
	struct bench b;

	(void) state;
	for (size_t i = 0; i < sizeof(described) / sizeof(*described); i++) {
		struct usher_error err = { 0 };

		set_up_calls(&b, &k);
		k.described = described[i];
		assert_errno(add_to(&b, &other, &err), EEXIST);
		assert_non_null(strstr(err.text, "has the id web-1 for the service web"));
		assert_errno(usher_plugin.registration->renew(&b.consul, &other, "web-1", NULL),
				EEXIST);
		assert_ok(usher_plugin.registration->remove(&b.consul, &other, "web-1", NULL));
		assert_int_equal(atomic_load(&k.count), 0);
		tear_down(&b);
	}
}

static void test_a_maintenance_that_an_operator_began_is_not_ended_by_an_add(void **state)
{
#define IN_MAINTENANCE(why)                                                                    \
	OWN("\"version\":\"1\"",                                                               \
			"{\"CheckID\":\"_service_maintenance:web-1\",\"Status\":\"critical\"," \
			"\"Notes\":\"" why "\"}")
	struct calls k;
	struct bench b;

	(void) state;
	set_up_calls(&b, &k);
	k.described = IN_MAINTENANCE("a disk is changed");
	assert_ok(add_to(&b, &shop, NULL));
	assert_int_equal(atomic_load(&k.count), 0);
	k.described = IN_MAINTENANCE("usher: draining");
	assert_ok(add_to(&b, &shop, NULL));
	assert_int_equal(atomic_load(&k.count), 1);
	assert_non_null(strstr(k.lines[0], "enable=false"));
	tear_down(&b);
}

static void test_one_id_is_registered_for_one_service(void **state)
{
	static const struct usher_wanted other = { .service = "catalog", .name = "catalog" };
	struct usher_error err = { 0 };
	struct calls k;
	struct bench b;

	(void) state;
	set_up_calls(&b, &k);
	assert_ok(add_to(&b, &shop, NULL));
	assert_int_equal(atomic_load(&k.count), 1);
	assert_errno(add_to(&b, &other, &err), EEXIST); /* which the agent has forgotten */
	assert_non_null(strstr(err.text, "another service with the id web-1"));
	assert_int_equal(atomic_load(&k.count), 1);
	tear_down(&b);
}

static void test_what_another_agent_has_cannot_be_taken_out_here(void **state)
{
	struct usher_error err = { 0 };
	struct calls k;
	struct bench b;

	(void) state;
	set_up_calls(&b, &k);
	k.catalog = "[" INSTANCE("n2", "web-1", ALIVE) "]";
	assert_errno(usher_plugin.registration->remove(&b.consul, &shop, "web-1", &err), EROFS);
	assert_non_null(strstr(err.text, "only the agent that it is registered at"));
	assert_ok(usher_plugin.registration->remove(&b.consul, &shop, "web-2", NULL));
	assert_int_equal(atomic_load(&k.count), 0);
	tear_down(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_instance_is_read_with_all_that_is_said_of_it),
		cmocka_unit_test(test_health_is_the_worst_of_all_checks),
		cmocka_unit_test(test_maintenance_is_no_ill_health),
		cmocka_unit_test(test_an_instance_without_an_address_is_at_its_node),
		cmocka_unit_test(test_one_id_on_two_nodes_is_two_endpoints),
		cmocka_unit_test(test_what_cannot_be_used_takes_nothing_else_along),
		cmocka_unit_test(test_what_one_instance_says_of_itself_takes_no_other_along),
		cmocka_unit_test(test_what_is_no_answer_is_refused_in_words),
		cmocka_unit_test(test_reading_survives_that_memory_runs_out),
		cmocka_unit_test(test_the_index_of_an_answer_is_waited_behind),
		cmocka_unit_test(test_an_index_that_went_back_is_asked_for_at_the_leader),
		cmocka_unit_test(test_another_history_that_is_less_is_doubted),
		cmocka_unit_test(test_after_a_failure_the_index_is_dropped),
		cmocka_unit_test(test_an_answer_without_index_is_asked_for_again_without),
		cmocka_unit_test(test_an_answer_that_is_too_old_is_asked_for_at_the_leader),
		cmocka_unit_test(test_streaming_says_nothing_of_its_age),
		cmocka_unit_test(test_without_a_leader_nothing_is_believed),
		cmocka_unit_test(test_a_filtered_answer_is_a_denial),
		cmocka_unit_test(test_an_empty_answer_is_a_denial_where_nothing_is_seen),
		cmocka_unit_test(test_an_empty_answer_is_believed_of_a_majority),
		cmocka_unit_test(test_a_token_that_is_unknown_is_a_denial),
		cmocka_unit_test(test_all_that_fail_at_once_are_doubted),
		cmocka_unit_test(test_a_query_waits_no_longer_than_a_doubt),
		cmocka_unit_test(test_one_of_two_that_fails_is_not_doubted),
		cmocka_unit_test(test_less_after_a_restart_is_doubted),
		cmocka_unit_test(test_without_a_doubt_what_went_is_gone),
		cmocka_unit_test(test_wake_ups_for_nothing_are_not_run_after),
		cmocka_unit_test(test_an_endpoint_is_registered_with_a_check_that_passes),
		cmocka_unit_test(test_an_agent_that_forgot_is_told_again_with_the_state),
		cmocka_unit_test(test_who_was_never_registered_is_not_renewed),
		cmocka_unit_test(test_the_node_in_an_id_must_be_the_agents),
		cmocka_unit_test(test_removing_what_is_unknown_is_done),
		cmocka_unit_test(test_what_others_have_registered_is_never_described_anew),
		cmocka_unit_test(test_what_an_earlier_usherd_has_registered_is_ours),
		cmocka_unit_test(
				test_what_an_earlier_usherd_has_registered_is_kept_alive_as_it_was),
		cmocka_unit_test(test_what_was_adopted_is_told_to_an_agent_that_forgot_it),
		cmocka_unit_test(test_what_is_ours_under_another_id_is_not_taken_for_it),
		cmocka_unit_test(test_an_agent_that_cannot_say_is_no_loss),
		cmocka_unit_test(test_what_another_service_has_under_the_id_is_not_touched),
		cmocka_unit_test(test_a_maintenance_that_an_operator_began_is_not_ended_by_an_add),
		cmocka_unit_test(test_one_id_is_registered_for_one_service),
		cmocka_unit_test(test_what_another_agent_has_cannot_be_taken_out_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
