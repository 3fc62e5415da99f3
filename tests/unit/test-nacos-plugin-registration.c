/* Registration by the plug-in nacos, against a server that is played. */

#include "fake-source.h"
#include "nacos.h"
#include "scripted-server.h"

#define CALLS_MAX 32

extern const struct usher_plugin usher_plugin;

static const struct usher_wanted shop = { .service = "shop", .name = "web" };

struct bench {
	struct scripted_server server;
	const char *servers[2];
	struct nacos nacos;
	char lines[CALLS_MAX][1024];  /* method, path and query of each call */
	char bodies[CALLS_MAX][1024]; /* and its body */
	atomic_uint count;
	const char *listed;  /* the hosts of the list */
	const char *details; /* of an instance; NULL: there is none */
	const char *beat;    /* what is said to a sign of life */
	bool only_3;         /* the server has no API v1 */
	bool changes_denied; /* what takes the permission to write */
};

static bool say_v3(struct bench *b, struct scripted_connection *c, const char *path)
{
	char body[2048];

	if (b->changes_denied && strstr(path, "/admin/"))
		return scripted_reply(c, "403 Forbidden", "", "{\"status\":403}");
	if (strstr(path, "/instance/list?")) {
		(void) snprintf(body, sizeof(body), "{\"code\":0,\"data\":[%s]}", b->listed);
		return scripted_reply(c, "200 OK", "", body);
	}
	if (strncmp(c->request, "GET ", 4) == 0 && !b->details)
		return scripted_reply(c, "404 Not Found", "",
				"{\"code\":20004,\"message\":\"resource not found\",\"data\":\"no\"}");
	if (strncmp(c->request, "GET ", 4) == 0) {
		(void) snprintf(body, sizeof(body), "{\"code\":0,\"data\":%s}", b->details);
		return scripted_reply(c, "200 OK", "", body);
	}
	if (strstr(path, "heartBeat=true"))
		return scripted_reply(c, "200 OK", "", b->beat);
	return scripted_reply(c, "200 OK", "", "{\"code\":0,\"data\":\"ok\"}");
}

static bool server_answer(struct scripted_connection *c)
{
	struct bench *b = c->server->userdata;
	unsigned n = atomic_load(&b->count);
	const char *body = strstr(c->request, "\r\n\r\n");
	char text[2048], *path;

	assert_true(n < CALLS_MAX);
	(void) sscanf(c->request, "%1023[^\r]", b->lines[n]);
	*strstr(b->lines[n], " HTTP/") = '\0';
	(void) snprintf(b->bodies[n], sizeof(b->bodies[n]), "%s", body ? body + 4 : "");
	atomic_store(&b->count, n + 1);
	path = strchr(b->lines[n], ' ') + 1;
	if (strncmp(path, "/nacos/v3/", 10) == 0)
		return say_v3(b, c, path);
	/* As 3.1: what is more than a client's is gone from v1. */
	if (b->only_3 || strncmp(c->request, "PATCH ", 6) == 0 ||
			strncmp(c->request, "GET /nacos/v1/ns/instance?", 26) == 0)
		return scripted_reply(c, "410 Gone", "", "{\"status\":410}");
	if (strstr(path, "/instance/list?")) {
		(void) snprintf(text, sizeof(text), "{\"hosts\":[%s]}", b->listed);
		return scripted_reply(c, "200 OK", "", text);
	}
	if (strstr(path, "/instance/beat?"))
		return scripted_reply(c, "200 OK", "", b->beat);
	return scripted_reply(c, "200 OK", "", "ok");
}

static void set_up(struct bench *b)
{
	memset(b, 0, sizeof(*b));
	scripted_server_start(&b->server, server_answer, b);
	b->servers[0] = b->server.url;
	b->listed = "";
	b->beat = "{\"clientBeatInterval\":5000,\"code\":10200,\"lightBeatEnabled\":true}";
	b->nacos = (struct nacos){
		.http = { .servers = b->servers,
				.verify = true,
				.connections = 8,
				.connect_timeout_usec = 60000000 },
		.context_path = "/nacos",
		.namespace_id = "public",
		.group = "DEFAULT_GROUP",
		.cluster = "DEFAULT",
		.ephemeral = true,
		.beat_usec = 5000000,
	};
}

static void tear_down(struct bench *b)
{
	registration_done(&b->nacos);
	scripted_server_stop(&b->server);
}

static const char *last(const struct bench *b)
{
	return b->lines[atomic_load(&b->count) - 1];
}

static const char *last_body(const struct bench *b)
{
	return b->bodies[atomic_load(&b->count) - 1];
}

static void add_as(struct bench *b, const char *id, bool ready)
{
	static const struct usher_label labels[] = { { "version", "1" } };
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	e.id = id;
	e.address = "10.0.0.1";
	e.port = 8080;
	e.weight = 10;
	e.zone = "a";
	e.ready = ready;
	e.metadata = labels;
	e.metadata_count = 1;
	assert_ok(usher_plugin.registration->add(&b->nacos, &shop, &e, NULL));
}

static void add(struct bench *b)
{
	add_as(b, NULL, true);
}

#define ID "10.0.0.1:8080"
#define METADATA                                                                              \
	"%7B%22version%22%3A%221%22%2C%22zone%22%3A%22a%22%2C%22registered-by%22%3A%22usher%" \
	"22%7D"
#define REGISTERED                                                                    \
	"namespaceId=public&serviceName=DEFAULT_GROUP%40%40web&ip=10.0.0.1&port=8080" \
	"&clusterName=DEFAULT&ephemeral=true&weight=10&enabled=true&healthy=true&metadata=" METADATA
#define OTHERS                                                                \
	"{\"ip\":\"10.0.0.1\",\"port\":8080,\"weight\":2.5,\"enabled\":true," \
	"\"ephemeral\":true,\"clusterName\":\"east\",\"metadata\":{\"version\":\"1\"}}"
#define OURS                                                                                     \
	"{\"ip\":\"10.0.0.1\",\"port\":8080,\"weight\":2.5,\"enabled\":true,\"ephemeral\":true," \
	"\"clusterName\":\"east\",\"metadata\":{\"registered-by\":\"usher\"}}"
#define DISABLED                                                               \
	"{\"ip\":\"10.0.0.1\",\"port\":8080,\"weight\":2.5,\"enabled\":false," \
	"\"ephemeral\":true,\"clusterName\":\"DEFAULT\",\"metadata\":{\"version\":\"1\"}}"
#define OURS_DISABLED                                                          \
	"{\"ip\":\"10.0.0.1\",\"port\":8080,\"weight\":2.5,\"enabled\":false," \
	"\"ephemeral\":true,\"clusterName\":\"DEFAULT\",\"metadata\":{\"registered-by\":\"usher\"}}"
#define UNKNOWN "{\"clientBeatInterval\":5000,\"code\":20404,\"lightBeatEnabled\":true}"
#define BEAT(cluster)                                                                          \
	"PUT /nacos/v1/ns/instance/beat?namespaceId=public&serviceName=DEFAULT_GROUP%40%40web" \
	"&ip=10.0.0.1&port=8080&clusterName=" cluster "&ephemeral=true"
#define PARTIAL(cluster, enabled)                                                    \
	"PUT /nacos/v3/admin/ns/instance/partial?namespaceId=public&serviceName=web" \
	"&groupName=DEFAULT_GROUP&ip=10.0.0.1&port=8080&clusterName=" cluster        \
	"&ephemeral=true&weight=2.5&enabled=" enabled

static void test_an_endpoint_is_registered_with_all_that_is_said_of_it(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	add(&b);
	assert_string_equal(last(&b), "POST /nacos/v1/ns/instance");
	assert_string_equal(last_body(&b), REGISTERED);
	assert_int_equal(usher_plugin.registration->renew_after_usec(&b.nacos), 5000000);
	tear_down(&b);
}

static void test_an_id_that_is_no_address_goes_along(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	add_as(&b, "web-1", true);
	assert_non_null(strstr(last_body(&b), "%22usher.id%22%3A%22web-1%22"));
	tear_down(&b);
}

static void test_over_v3_all_is_the_same(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	b.only_3 = true;
	add(&b);
	assert_string_equal(last(&b), "POST /nacos/v3/client/ns/instance");
	assert_non_null(strstr(last_body(&b),
			"namespaceId=public&serviceName=web&groupName=DEFAULT_GROUP&ip=10.0.0.1"));
	b.beat = "{\"code\":0,\"message\":\"success\",\"data\":\"ok\"}";
	assert_ok(usher_plugin.registration->renew(&b.nacos, &shop, ID, NULL));
	assert_non_null(strstr(last(&b), "POST /nacos/v3/client/ns/instance?"));
	assert_non_null(strstr(last(&b), "&heartBeat=true"));
	assert_ok(usher_plugin.registration->remove(&b.nacos, &shop, ID, NULL));
	assert_non_null(strstr(last(&b), "DELETE /nacos/v3/client/ns/instance?"));
	tear_down(&b);
}

static void test_a_sign_of_life_is_given(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	add(&b);
	assert_ok(usher_plugin.registration->renew(&b.nacos, &shop, ID, NULL));
	assert_string_equal(last(&b),
			"PUT /nacos/v1/ns/instance/beat?namespaceId=public&serviceName="
			"DEFAULT_GROUP%40%40web&ip=10.0.0.1&port=8080&clusterName=DEFAULT&ephemeral=true");
	tear_down(&b);
}

static void test_a_server_that_forgot_is_told_the_newest(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	add(&b);
	assert_ok(usher_plugin.registration->set_state(
			&b.nacos, &shop, ID, USHER_ADMIN_DRAINING, NULL));
	assert_non_null(strstr(last_body(&b), "&enabled=false&"));
	b.beat = "{\"clientBeatInterval\":5000,\"code\":20404,\"lightBeatEnabled\":true}";
	assert_ok(usher_plugin.registration->renew(&b.nacos, &shop, ID, NULL));
	assert_string_equal(last(&b), "POST /nacos/v1/ns/instance");
	assert_non_null(strstr(last_body(&b), "&enabled=false&"));
	/* Described anew, it is still drained. */
	add(&b);
	assert_non_null(strstr(last_body(&b), "&enabled=false&"));
	assert_ok(usher_plugin.registration->set_state(
			&b.nacos, &shop, ID, USHER_ADMIN_READY, NULL));
	assert_string_equal(last_body(&b), REGISTERED);
	tear_down(&b);
}

static void test_who_was_never_registered_is_not_renewed(void **state)
{
	struct usher_error err = { 0 };
	struct bench b;

	(void) state;
	set_up(&b);
	assert_errno(usher_plugin.registration->renew(&b.nacos, &shop, ID, &err), ENOENT);
	assert_non_null(strstr(err.text, "is not listed"));
	tear_down(&b);
}

static void test_what_is_not_ready_is_disabled(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	add_as(&b, NULL, false);
	assert_non_null(strstr(last_body(&b), "&enabled=false&"));
	add_as(&b, NULL, true);
	assert_non_null(strstr(last_body(&b), "&enabled=true&"));
	tear_down(&b);
}

static void test_a_persistent_one_is_renewed_by_registering_it_again(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	b.nacos.ephemeral = false;
	add(&b);
	assert_non_null(strstr(last_body(&b), "&ephemeral=false&"));
	assert_int_equal(usher_plugin.registration->renew_after_usec(&b.nacos), 0);
	assert_ok(usher_plugin.registration->renew(&b.nacos, &shop, ID, NULL));
	assert_string_equal(last(&b), "POST /nacos/v1/ns/instance");
	tear_down(&b);
}

static void test_it_is_taken_out_with_the_key_it_came_with(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	add(&b);
	assert_ok(usher_plugin.registration->remove(&b.nacos, &shop, ID, NULL));
	assert_string_equal(last(&b),
			"DELETE /nacos/v1/ns/instance?namespaceId=public&serviceName=DEFAULT_GROUP%40%40web"
			"&ip=10.0.0.1&port=8080&clusterName=DEFAULT&ephemeral=true");
	assert_errno(usher_plugin.registration->renew(&b.nacos, &shop, ID, NULL), ENOENT);
	tear_down(&b);
}

static void add_at(struct bench *b, uint16_t port)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	e.id = "web-1";
	e.address = "10.0.0.1";
	e.port = port;
	assert_ok(usher_plugin.registration->add(&b->nacos, &shop, &e, NULL));
}

#define DELETED(port)                                                                               \
	"DELETE /nacos/v1/ns/instance?namespaceId=public&serviceName=DEFAULT_GROUP%40%40web&ip=10." \
	"0.0.1&port=" port "&clusterName=DEFAULT&ephemeral=true"

static void test_what_gets_another_port_leaves_nothing_at_the_former(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	add_at(&b, 8080);
	add_at(&b, 8080);
	assert_string_equal(last(&b), "POST /nacos/v1/ns/instance");
	add_at(&b, 9090);
	assert_string_equal(b.lines[atomic_load(&b.count) - 2], "POST /nacos/v1/ns/instance");
	assert_string_equal(last(&b), DELETED("8080"));
	add_at(&b, 9090);
	assert_string_equal(last(&b), "POST /nacos/v1/ns/instance");
	tear_down(&b);
}

static void test_what_gets_another_port_meanwhile_leaves_nothing_there_either(void **state)
{
#define AT(port, owner)                                                                            \
	"{\"ip\":\"10.0.0.1\",\"port\":" port ",\"weight\":1,\"enabled\":true,\"ephemeral\":true," \
	"\"clusterName\":\"DEFAULT\",\"metadata\":{\"usher.id\":\"web-1\"" owner "}}"
#define BY_US ",\"registered-by\":\"usher\""
	struct bench b;

	(void) state;
	set_up(&b);
	b.listed = AT("8080", BY_US);
	add_at(&b, 9090);
	assert_string_equal(b.lines[atomic_load(&b.count) - 2], "POST /nacos/v1/ns/instance");
	assert_string_equal(last(&b), DELETED("8080"));
	tear_down(&b);
	/* A run that ended between the two steps has left both there. */
	set_up(&b);
	b.listed = AT("9090", BY_US) "," AT("8080", BY_US);
	add_at(&b, 9090);
	assert_string_equal(last(&b), DELETED("8080"));
	tear_down(&b);
	/* What is another's stays. */
	set_up(&b);
	b.listed = AT("8080", "");
	add_at(&b, 9090);
	for (unsigned i = 0; i < atomic_load(&b.count); i++)
		assert_null(strstr(b.lines[i], "DELETE"));
	tear_down(&b);
}

static void test_what_an_earlier_run_has_registered_is_kept_alive_as_it_was(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	b.listed = OURS;
	assert_ok(usher_plugin.registration->renew(&b.nacos, &shop, ID, NULL));
	assert_string_equal(last(&b), BEAT("east"));
	/* From then on it is known, as it was. */
	b.listed = "";
	b.beat = UNKNOWN;
	assert_ok(usher_plugin.registration->renew(&b.nacos, &shop, ID, NULL));
	assert_string_equal(last(&b), "POST /nacos/v1/ns/instance");
	assert_non_null(strstr(last_body(&b),
			"&clusterName=east&ephemeral=true&weight=2.5&enabled=true&"));
	assert_non_null(strstr(last_body(&b), "registered-by"));
	tear_down(&b);
}

static void test_what_is_disabled_is_found_by_its_address_and_enabled_by_the_next_add(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	b.details = OURS_DISABLED;
	assert_ok(usher_plugin.registration->renew(&b.nacos, &shop, ID, NULL));
	assert_string_equal(last(&b), BEAT("DEFAULT"));
	b.beat = UNKNOWN;
	assert_ok(usher_plugin.registration->renew(&b.nacos, &shop, ID, NULL));
	assert_non_null(strstr(last_body(&b), "&enabled=false&"));
	add(&b);
	assert_non_null(strstr(last_body(&b), "&enabled=true&"));
	tear_down(&b);
}

static void test_what_goes_while_it_is_looked_at_is_not_brought_back(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	b.listed = OURS;
	b.beat = UNKNOWN;
	assert_errno(usher_plugin.registration->renew(&b.nacos, &shop, ID, NULL), ENOENT);
	assert_string_equal(last(&b), BEAT("east"));
	tear_down(&b);
}

static void test_what_this_run_has_taken_out_is_not_found_again(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	b.listed = OURS; /* and stays so for a while, as in a list that is kept */
	assert_ok(usher_plugin.registration->remove(&b.nacos, &shop, ID, NULL));
	assert_errno(usher_plugin.registration->renew(&b.nacos, &shop, ID, NULL), ENOENT);
	assert_non_null(strstr(last(&b), "DELETE "));
	add(&b);
	assert_ok(usher_plugin.registration->renew(&b.nacos, &shop, ID, NULL));
	assert_string_equal(last(&b), BEAT("DEFAULT"));
	tear_down(&b);
}

static void test_what_others_have_registered_is_not_kept_alive_by_us(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	b.listed = OTHERS;
	assert_ok(usher_plugin.registration->renew(&b.nacos, &shop, ID, NULL));
	assert_non_null(strstr(last(&b), "GET /nacos/v1/ns/instance/list?"));
	tear_down(&b);
}

static void test_a_persistent_one_of_an_earlier_run_is_only_looked_at(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	b.listed = "{\"ip\":\"10.0.0.1\",\"port\":8080,\"ephemeral\":false,"
		   "\"metadata\":{\"registered-by\":\"usher\"}}";
	assert_ok(usher_plugin.registration->renew(&b.nacos, &shop, ID, NULL));
	assert_non_null(strstr(last(&b), "GET /nacos/v1/ns/instance/list?"));
	tear_down(&b);
}

static void test_what_is_disabled_is_taken_out_after_a_restart_too(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	b.details = OURS_DISABLED;
	assert_ok(usher_plugin.registration->remove(&b.nacos, &shop, ID, NULL));
	assert_non_null(strstr(last(&b), "DELETE /nacos/v1/ns/instance?"));
	assert_non_null(strstr(last(&b), "&ip=10.0.0.1&port=8080&clusterName=DEFAULT&"));
	tear_down(&b);
	/* Nobody has it, or nobody lets us see it: it is gone. */
	set_up(&b);
	assert_ok(usher_plugin.registration->remove(&b.nacos, &shop, ID, NULL));
	assert_non_null(strstr(last(&b), "GET "));
	assert_ok(usher_plugin.registration->remove(&b.nacos, &shop, "web-1", NULL));
	tear_down(&b);
}

static void test_what_others_have_registered_is_only_disabled(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	b.listed = OTHERS;
	assert_ok(usher_plugin.registration->remove(&b.nacos, &shop, ID, NULL));
	assert_string_equal(last(&b), PARTIAL("east", "false"));
	assert_ok(usher_plugin.registration->set_state(
			&b.nacos, &shop, ID, USHER_ADMIN_DRAINING, NULL));
	assert_string_equal(last(&b), PARTIAL("east", "false"));
	/* Then no list has it any more. */
	b.listed = "";
	b.details = DISABLED;
	assert_ok(usher_plugin.registration->set_state(
			&b.nacos, &shop, ID, USHER_ADMIN_READY, NULL));
	assert_string_equal(last(&b), PARTIAL("DEFAULT", "true"));
	tear_down(&b);
}

static void test_what_others_have_registered_comes_back_from_a_drain_as_it_was(void **state)
{
	static const struct usher_label labels[] = { { "nacos.cluster", "east" },
		{ "nacos.weight", "2.5" }, { "version", "1" } };
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	struct bench b;

	(void) state;
	set_up(&b);
	e.id = ID;
	e.address = "10.0.0.1";
	e.port = 8080;
	e.weight = 25;
	e.metadata = labels;
	e.metadata_count = 3;
	b.details = DISABLED;
	assert_ok(usher_plugin.registration->add(&b.nacos, &shop, &e, NULL));
	assert_non_null(strstr(b.lines[2], "&clusterName=east&"));
	assert_string_equal(last(&b), PARTIAL("DEFAULT", "true"));
	/* Gone altogether, it is registered. */
	b.details = NULL;
	assert_ok(usher_plugin.registration->add(&b.nacos, &shop, &e, NULL));
	assert_string_equal(last(&b), "POST /nacos/v1/ns/instance");
	assert_non_null(strstr(last_body(&b), "&clusterName=east&ephemeral=true&weight=2.5&"));
	assert_null(strstr(last_body(&b), "nacos."));
	tear_down(&b);
}

static void test_what_others_have_and_is_enabled_is_left_alone(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	b.listed = OTHERS;
	add(&b);
	assert_int_equal(atomic_load(&b.count), 1);
	tear_down(&b);
}

static void test_what_an_earlier_usherd_has_registered_is_ours(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	b.listed = OURS;
	assert_ok(usher_plugin.registration->set_state(
			&b.nacos, &shop, ID, USHER_ADMIN_DRAINING, NULL));
	assert_string_equal(last(&b), "POST /nacos/v1/ns/instance");
	assert_non_null(strstr(last_body(&b),
			"&clusterName=east&ephemeral=true&weight=2.5&enabled="
			"false&"));
	assert_ok(usher_plugin.registration->remove(&b.nacos, &shop, ID, NULL));
	assert_non_null(strstr(last(&b), "DELETE /nacos/v1/ns/instance?"));
	tear_down(&b);
}

static void test_what_is_not_there_is_not_there(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	assert_ok(usher_plugin.registration->remove(&b.nacos, &shop, ID, NULL));
	assert_errno(usher_plugin.registration->set_state(
				     &b.nacos, &shop, ID, USHER_ADMIN_DRAINING, NULL),
			ENOENT);
	assert_errno(usher_plugin.registration->set_state(
				     &b.nacos, &shop, "web-1", USHER_ADMIN_DRAINING, NULL),
			ENOENT);
	tear_down(&b);
}

static void test_a_denial_says_what_it_takes(void **state)
{
	struct usher_error err = { 0 };
	struct bench b;

	(void) state;
	set_up(&b);
	b.listed = OTHERS;
	b.changes_denied = true;
	assert_errno(usher_plugin.registration->remove(&b.nacos, &shop, ID, &err), EACCES);
	assert_non_null(strstr(err.text, "permission to write in the namespace"));
	tear_down(&b);
}

static void test_a_server_that_is_not_there_is_told_of(void **state)
{
	struct usher_error err = { 0 };
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	struct bench b;

	(void) state;
	set_up(&b);
	scripted_server_stop(&b.server);
	e.address = "10.0.0.1";
	e.port = 8080;
	assert_errno(usher_plugin.registration->add(&b.nacos, &shop, &e, &err), ECONNREFUSED);
	assert_non_null(strstr(err.text, b.servers[0]));
	registration_done(&b.nacos);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_endpoint_is_registered_with_all_that_is_said_of_it),
		cmocka_unit_test(test_an_id_that_is_no_address_goes_along),
		cmocka_unit_test(test_over_v3_all_is_the_same),
		cmocka_unit_test(test_a_sign_of_life_is_given),
		cmocka_unit_test(test_a_server_that_forgot_is_told_the_newest),
		cmocka_unit_test(test_who_was_never_registered_is_not_renewed),
		cmocka_unit_test(test_what_is_not_ready_is_disabled),
		cmocka_unit_test(test_a_persistent_one_is_renewed_by_registering_it_again),
		cmocka_unit_test(test_it_is_taken_out_with_the_key_it_came_with),
		cmocka_unit_test(test_what_gets_another_port_leaves_nothing_at_the_former),
		cmocka_unit_test(test_what_gets_another_port_meanwhile_leaves_nothing_there_either),
		cmocka_unit_test(test_what_an_earlier_run_has_registered_is_kept_alive_as_it_was),
		cmocka_unit_test(
				test_what_is_disabled_is_found_by_its_address_and_enabled_by_the_next_add),
		cmocka_unit_test(test_what_goes_while_it_is_looked_at_is_not_brought_back),
		cmocka_unit_test(test_what_this_run_has_taken_out_is_not_found_again),
		cmocka_unit_test(test_what_others_have_registered_is_not_kept_alive_by_us),
		cmocka_unit_test(test_a_persistent_one_of_an_earlier_run_is_only_looked_at),
		cmocka_unit_test(test_what_is_disabled_is_taken_out_after_a_restart_too),
		cmocka_unit_test(test_what_others_have_registered_is_only_disabled),
		cmocka_unit_test(
				test_what_others_have_registered_comes_back_from_a_drain_as_it_was),
		cmocka_unit_test(test_what_others_have_and_is_enabled_is_left_alone),
		cmocka_unit_test(test_what_an_earlier_usherd_has_registered_is_ours),
		cmocka_unit_test(test_what_is_not_there_is_not_there),
		cmocka_unit_test(test_a_denial_says_what_it_takes),
		cmocka_unit_test(test_a_server_that_is_not_there_is_told_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
