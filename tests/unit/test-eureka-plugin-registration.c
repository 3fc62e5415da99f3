/* What the plug-in eureka tells a server, which is played: it keeps one instance, as Spring Cloud's
 * server 5.0.3 does. */

#include "eureka.h"
#include "fake-source.h"
#include "scripted-server.h"

#define SEC       UINT64_C(1000000)
#define CALLS_MAX 24

extern const struct usher_plugin usher_plugin;

struct calls {
	struct scripted_server server;
	const char *servers[2];
	struct eureka eureka;
	char lines[CALLS_MAX][256]; /* method and path */
	char bodies[CALLS_MAX][2048];
	atomic_uint count;
	const char *there;    /* the instance that it has; NULL: none */
	const char *restored; /* what it has after an override has been taken away; NULL: the same
			       */
	unsigned forgets;     /* so many signs of life it does not know the instance */
	const char *refuses;  /* a part of a line that is answered with 503 */
};

static bool answer_change(struct scripted_connection *c, struct calls *k, const char *line)
{
	if (k->refuses && strstr(line, k->refuses))
		return scripted_reply(c, "503 Service Unavailable", "", "");
	if (strncmp(line, "POST ", 5) == 0)
		return scripted_reply(c, "204 No Content", "", "");
	if (strncmp(line, "PUT ", 4) == 0 && strstr(line, "?status=") && k->forgets > 0) {
		k->forgets--;
		return scripted_reply(c, "404 Not Found", "", "");
	}
	if (strncmp(line, "DELETE ", 7) == 0 && !strstr(line, "/status?") && !k->there)
		return scripted_reply(c, "404 Not Found", "", "");
	if (strncmp(line, "DELETE ", 7) == 0 && strstr(line, "/status?") && k->restored)
		k->there = k->restored;
	return scripted_reply(c, "200 OK", "", "");
}

static bool server_answer(struct scripted_connection *c)
{
	struct calls *k = c->server->userdata;
	const char *body = strstr(c->request, "\r\n\r\n");
	unsigned n = atomic_load(&k->count);
	char *end;

	if (strncmp(c->request, "GET ", 4) == 0)
		return scripted_reply(c, k->there ? "200 OK" : "404 Not Found", "",
				k->there ? k->there : "");
	assert_true(n < CALLS_MAX);
	(void) snprintf(k->lines[n], sizeof(k->lines[n]), "%.*s", (int) strcspn(c->request, "\r"),
			c->request);
	end = strstr(k->lines[n], " HTTP/");
	if (end)
		*end = '\0';
	(void) snprintf(k->bodies[n], sizeof(k->bodies[n]), "%s", body ? body + 4 : "");
	atomic_store(&k->count, n + 1);
	return answer_change(c, k, k->lines[n]);
}

static const struct usher_wanted shop = { "shop", "web", NULL };

static void set_up(struct calls *k)
{
	memset(k, 0, sizeof(*k));
	scripted_server_start(&k->server, server_answer, k);
	k->servers[0] = k->server.url;
	k->eureka = (struct eureka){ .http = { .servers = k->servers,
						     .verify = true,
						     .connections = 8,
						     .connect_timeout_usec = 60 * SEC },
		.lease_usec = 90 * SEC };
}

static void tear_down(struct calls *k)
{
	registration_done(&k->eureka);
	scripted_server_stop(&k->server);
}

static struct usher_endpoint web_1(void)
{
	static const struct usher_label labels[] = { { "version", "1" },
		{ "eureka.status", "UP" } };
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	e.id = "web-1";
	e.address = "10.0.0.1";
	e.port = 8080;
	e.weight = 10;
	e.zone = "a";
	e.metadata = labels;
	e.metadata_count = 2;
	return e;
}

static void add(struct calls *k)
{
	struct usher_endpoint e = web_1();
	struct usher_error err = { 0 };
	int r = usher_plugin.registration->add(&k->eureka, &shop, &e, &err);

	if (r < 0)
		fail_msg("%s", usher_error_text(&err, r));
}

static void set_state(struct calls *k, enum usher_admin_state state)
{
	struct usher_error err = { 0 };
	int r = usher_plugin.registration->set_state(&k->eureka, &shop, "web-1", state, &err);

	if (r < 0)
		fail_msg("%s", usher_error_text(&err, r));
}

static void renew(struct calls *k)
{
	assert_ok(usher_plugin.registration->renew(&k->eureka, &shop, "web-1", NULL));
}

/* The number behind a name, in a body or a path. */
static long long stamp_of(const char *text)
{
	const char *at = strstr(text, "lastDirtyTimestamp");

	assert_non_null(at);
	return strtoll(at + strcspn(at, "0123456789"), NULL, 10);
}

#define THERE(status, override, owner)                                                            \
	"{\"instance\":{\"instanceId\":\"web-1\",\"app\":\"WEB\",\"ipAddr\":\"10.0.0.1\","        \
	"\"status\":\"" status "\",\"overriddenStatus\":\"" override                              \
	"\",\"port\":{\"$\":8080,\"@enabled\":\"true\"},\"lastDirtyTimestamp\":\"9700000000000\"" \
	",\"metadata\":{" owner "}}}"
#define OURS "\"registered-by\":\"usher\""

/* ---- what usher registers ---- */

static void test_an_endpoint_is_registered_with_all_that_is_known_of_it(void **state)
{
	struct calls k;
	char *stamp;

	(void) state;
	set_up(&k);
	add(&k);
	assert_int_equal(atomic_load(&k.count), 1);
	assert_string_equal(k.lines[0], "POST /apps/WEB");
	stamp = strstr(k.bodies[0], ",\"lastDirtyTimestamp\"");
	assert_non_null(stamp);
	*stamp = '\0';
	assert_string_equal(k.bodies[0],
			"{\"instance\":{\"instanceId\":\"web-1\",\"hostName\":\"10.0.0.1\",\"app\":"
			"\"WEB\",\"ipAddr\":\"10.0.0.1\",\"vipAddress\":\"web\","
			"\"secureVipAddress\":\"web\",\"status\":\"UP\",\"port\":{\"$\":8080,"
			"\"@enabled\":\"true\"},\"securePort\":{\"$\":8080,\"@enabled\":\"false\"},"
			"\"dataCenterInfo\":{\"@class\":\"com.netflix.appinfo.InstanceInfo$"
			"DefaultDataCenterInfo\",\"name\":\"MyOwn\"},\"leaseInfo\":{"
			"\"renewalIntervalInSecs\":30,\"durationInSecs\":90},\"metadata\":{"
			"\"version\":\"1\",\"zone\":\"a\",\"weight\":\"10\",\"registered-by\":"
			"\"usher\"}");
	assert_true(usher_plugin.registration->renew_after_usec(&k.eureka) == 30 * SEC);
	tear_down(&k);
}

static void test_a_sign_of_life_names_the_description_that_it_is_of(void **state)
{
	struct calls k;

	(void) state;
	set_up(&k);
	add(&k);
	renew(&k);
	assert_int_equal(strncmp(k.lines[1],
					 "PUT /apps/WEB/web-1?status=UP&lastDirtyTimestamp=", 49),
			0);
	assert_true(stamp_of(k.lines[1]) == stamp_of(k.bodies[0]));
	tear_down(&k);
}

static void test_a_description_is_newer_than_the_one_before(void **state)
{
	struct calls k;

	(void) state;
	set_up(&k);
	add(&k);
	k.there = THERE("UP", "UNKNOWN", OURS); /* with a stamp of the future */
	add(&k);
	assert_true(stamp_of(k.bodies[1]) == 9700000000001);
	k.there = NULL;
	add(&k);
	assert_true(stamp_of(k.bodies[2]) == 9700000000002);
	tear_down(&k);
}

static void test_a_server_that_forgot_is_told_again_with_the_newest_and_the_state(void **state)
{
	struct usher_endpoint e = web_1();
	struct calls k;

	(void) state;
	set_up(&k);
	add(&k);
	e.weight = 50;
	assert_ok(usher_plugin.registration->add(&k.eureka, &shop, &e, NULL));
	set_state(&k, USHER_ADMIN_DRAINING);
	assert_string_equal(k.lines[2], "PUT /apps/WEB/web-1/status?value=OUT_OF_SERVICE");
	k.forgets = 1;
	renew(&k);
	assert_string_equal(k.lines[4], "POST /apps/WEB");
	assert_non_null(strstr(k.bodies[4], "\"weight\":\"50\""));
	assert_string_equal(k.lines[5], k.lines[2]);
	renew(&k);
	assert_int_equal(atomic_load(&k.count), 7);
	tear_down(&k);
}

static void test_one_that_is_not_ready_is_down(void **state)
{
	struct usher_endpoint e = web_1();
	struct calls k;

	(void) state;
	set_up(&k);
	e.ready = false;
	assert_ok(usher_plugin.registration->add(&k.eureka, &shop, &e, NULL));
	assert_non_null(strstr(k.bodies[0], "\"status\":\"DOWN\""));
	tear_down(&k);
}

static void test_who_was_never_registered_is_not_renewed(void **state)
{
	struct usher_error err = { 0 };
	struct calls k;

	(void) state;
	set_up(&k);
	assert_errno(usher_plugin.registration->renew(&k.eureka, &shop, "web-1", &err), ENOENT);
	assert_non_null(strstr(err.text, "404"));
	tear_down(&k);
}

static void test_what_usher_has_registered_is_deregistered(void **state)
{
	struct calls k;

	(void) state;
	set_up(&k);
	add(&k);
	assert_ok(usher_plugin.registration->remove(&k.eureka, &shop, "web-1", NULL));
	assert_string_equal(k.lines[1], "DELETE /apps/WEB/web-1");
	assert_errno(usher_plugin.registration->renew(&k.eureka, &shop, "web-1", NULL), ENOENT);
	/* By an usherd before this one, too; and what is not there is gone. */
	k.there = THERE("UP", "UNKNOWN", OURS);
	assert_ok(usher_plugin.registration->remove(&k.eureka, &shop, "web-1", NULL));
	assert_string_equal(k.lines[2], "DELETE /apps/WEB/web-1");
	k.there = NULL;
	assert_ok(usher_plugin.registration->remove(&k.eureka, &shop, "web-1", NULL));
	assert_int_equal(atomic_load(&k.count), 3);
	tear_down(&k);
}

static void test_a_drain_of_an_usherd_before_is_ended_by_adding(void **state)
{
	struct calls k;

	(void) state;
	set_up(&k);
	k.there = THERE("OUT_OF_SERVICE", "OUT_OF_SERVICE", OURS);
	add(&k);
	assert_string_equal(k.lines[0], "DELETE /apps/WEB/web-1/status?value=UP");
	assert_string_equal(k.lines[1], "POST /apps/WEB");
	tear_down(&k);
}

static void test_what_is_refused_is_told_with_the_server(void **state)
{
	struct usher_endpoint e = web_1();
	struct usher_error err = { 0 };
	struct calls k;

	(void) state;
	set_up(&k);
	k.refuses = "POST";
	assert_errno(usher_plugin.registration->add(&k.eureka, &shop, &e, &err), EAGAIN);
	assert_non_null(strstr(err.text, k.server.url));
	assert_errno(usher_plugin.registration->renew(&k.eureka, &shop, "web-1", NULL), ENOENT);
	tear_down(&k);
}

/* ---- what an earlier run of usherd has registered ---- */

static void test_it_is_kept_alive_by_its_own_description(void **state)
{
	struct calls k;

	(void) state;
	set_up(&k);
	k.there = THERE("UP", "UNKNOWN", OURS);
	renew(&k);
	assert_string_equal(k.lines[0],
			"PUT /apps/WEB/web-1?status=UP&lastDirtyTimestamp=9700000000000");
	k.there = NULL; /* it is not looked at again */
	renew(&k);
	assert_string_equal(k.lines[1], k.lines[0]);
	tear_down(&k);
}

static void test_one_that_was_not_ready_stays_so(void **state)
{
	struct calls k;

	(void) state;
	set_up(&k);
	k.there = THERE("DOWN", "UNKNOWN", OURS);
	renew(&k);
	assert_non_null(strstr(k.lines[0], "?status=DOWN&"));
	tear_down(&k);
}

static void test_it_is_told_as_it_was_to_a_server_that_forgets_it_later(void **state)
{
	struct calls k;

	(void) state;
	set_up(&k);
	k.there = THERE("OUT_OF_SERVICE", "OUT_OF_SERVICE", OURS ",\"version\":\"1\"");
	renew(&k);
	k.forgets = 1;
	renew(&k);
	assert_string_equal(k.lines[2], "POST /apps/WEB");
	assert_non_null(strstr(k.bodies[2], "\"ipAddr\":\"10.0.0.1\""));
	assert_non_null(strstr(k.bodies[2], "\"port\":{\"$\":8080,\"@enabled\":\"true\"}"));
	assert_non_null(strstr(k.bodies[2], "\"version\":\"1\""));
	assert_null(strstr(k.bodies[2], "eureka.")); /* what discovery has added */
	assert_string_equal(k.lines[3], "PUT /apps/WEB/web-1/status?value=OUT_OF_SERVICE");
	tear_down(&k);
}

static void test_the_first_description_of_it_ends_what_nobody_here_has_begun(void **state)
{
	struct calls k;

	(void) state;
	set_up(&k);
	k.there = THERE("OUT_OF_SERVICE", "OUT_OF_SERVICE", OURS);
	renew(&k);
	add(&k);
	assert_string_equal(k.lines[1], "DELETE /apps/WEB/web-1/status?value=UP");
	assert_string_equal(k.lines[2], "POST /apps/WEB");
	assert_int_equal(atomic_load(&k.count), 3);
	tear_down(&k);
}

static void test_what_goes_while_it_is_looked_at_is_not_brought_back(void **state)
{
	struct calls k;

	(void) state;
	set_up(&k);
	k.there = THERE("UP", "UNKNOWN", OURS);
	k.forgets = 1;
	assert_errno(usher_plugin.registration->renew(&k.eureka, &shop, "web-1", NULL), ENOENT);
	assert_int_equal(atomic_load(&k.count), 1);
	tear_down(&k);
}

static void test_what_this_run_has_taken_out_is_not_found_again(void **state)
{
	struct calls k;

	(void) state;
	set_up(&k);
	k.there = THERE("UP", "UNKNOWN", OURS); /* and stays so, as on another server */
	assert_ok(usher_plugin.registration->remove(&k.eureka, &shop, "web-1", NULL));
	assert_errno(usher_plugin.registration->renew(&k.eureka, &shop, "web-1", NULL), ENOENT);
	assert_int_equal(atomic_load(&k.count), 1);
	add(&k);
	renew(&k);
	assert_int_equal(atomic_load(&k.count), 3);
	tear_down(&k);
}

static void test_what_others_have_registered_is_not_kept_alive_by_us(void **state)
{
	struct calls k;

	(void) state;
	set_up(&k);
	k.there = THERE("UP", "UNKNOWN", "");
	renew(&k);
	assert_int_equal(atomic_load(&k.count), 0);
	tear_down(&k);
}

/* ---- what others have registered ---- */

static void test_what_others_have_registered_is_put_out_of_service_and_back(void **state)
{
	struct calls k;

	(void) state;
	set_up(&k);
	k.there = THERE("UP", "UNKNOWN", "");
	assert_ok(usher_plugin.registration->remove(&k.eureka, &shop, "web-1", NULL));
	assert_string_equal(k.lines[0], "PUT /apps/WEB/web-1/status?value=OUT_OF_SERVICE");
	k.there = THERE("OUT_OF_SERVICE", "OUT_OF_SERVICE", "");
	k.restored = THERE("UP", "UNKNOWN", "");
	add(&k);
	assert_string_equal(k.lines[1], "DELETE /apps/WEB/web-1/status?value=UP");
	assert_int_equal(atomic_load(&k.count), 2);
	tear_down(&k);
}

static void test_a_state_that_no_override_explains_is_ended_all_the_same(void **state)
{
	struct calls k;

	(void) state;
	set_up(&k);
	k.there = THERE("OUT_OF_SERVICE", "UNKNOWN", ""); /* the server has lost the override */
	set_state(&k, USHER_ADMIN_READY);
	assert_string_equal(k.lines[0], "DELETE /apps/WEB/web-1/status?value=UP");
	assert_string_equal(k.lines[1], "PUT /apps/WEB/web-1/status?value=UP");
	assert_string_equal(k.lines[2], "DELETE /apps/WEB/web-1/status?value=UP");
	tear_down(&k);
}

static void test_what_an_instance_says_of_itself_is_not_ended_by_us(void **state)
{
	struct usher_error err = { 0 };
	struct calls k;

	(void) state;
	set_up(&k);
	k.there = THERE("DOWN", "UNKNOWN", "");
	assert_errno(usher_plugin.registration->set_state(
				     &k.eureka, &shop, "web-1", USHER_ADMIN_READY, &err),
			EROFS);
	assert_non_null(strstr(err.text, "it is DOWN: that is what the instance says of itself"));
	tear_down(&k);
}

static void test_the_state_of_what_is_unknown_cannot_be_set(void **state)
{
	struct usher_error err = { 0 };
	struct calls k;

	(void) state;
	set_up(&k);
	assert_errno(usher_plugin.registration->set_state(
				     &k.eureka, &shop, "web-1", USHER_ADMIN_DRAINING, &err),
			ENOENT);
	tear_down(&k);
}

static void test_by_vip_the_app_is_the_servers_to_say(void **state)
{
	static const struct usher_wanted vip = { "shop", "web-alias", NULL };
	struct calls k;

	(void) state;
	set_up(&k);
	k.eureka.by = INSTANCE_BY_VIP;
	k.there = THERE("UP", "UNKNOWN", "");
	assert_ok(usher_plugin.registration->set_state(
			&k.eureka, &vip, "web-1", USHER_ADMIN_DRAINING, NULL));
	assert_string_equal(k.lines[0], "PUT /apps/WEB/web-1/status?value=OUT_OF_SERVICE");
	tear_down(&k);
}

static void test_an_id_is_escaped(void **state)
{
	struct calls k;

	(void) state;
	set_up(&k);
	k.there = THERE("UP", "UNKNOWN", "");
	assert_ok(usher_plugin.registration->set_state(
			&k.eureka, &shop, "h1/web:80 80?", USHER_ADMIN_DRAINING, NULL));
	assert_string_equal(k.lines[0],
			"PUT /apps/WEB/h1%2Fweb%3A80%2080%3F/status?value=OUT_OF_SERVICE");
	tear_down(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_endpoint_is_registered_with_all_that_is_known_of_it),
		cmocka_unit_test(test_a_sign_of_life_names_the_description_that_it_is_of),
		cmocka_unit_test(test_a_description_is_newer_than_the_one_before),
		cmocka_unit_test(
				test_a_server_that_forgot_is_told_again_with_the_newest_and_the_state),
		cmocka_unit_test(test_one_that_is_not_ready_is_down),
		cmocka_unit_test(test_who_was_never_registered_is_not_renewed),
		cmocka_unit_test(test_what_usher_has_registered_is_deregistered),
		cmocka_unit_test(test_a_drain_of_an_usherd_before_is_ended_by_adding),
		cmocka_unit_test(test_what_is_refused_is_told_with_the_server),
		cmocka_unit_test(test_it_is_kept_alive_by_its_own_description),
		cmocka_unit_test(test_one_that_was_not_ready_stays_so),
		cmocka_unit_test(test_it_is_told_as_it_was_to_a_server_that_forgets_it_later),
		cmocka_unit_test(test_the_first_description_of_it_ends_what_nobody_here_has_begun),
		cmocka_unit_test(test_what_goes_while_it_is_looked_at_is_not_brought_back),
		cmocka_unit_test(test_what_this_run_has_taken_out_is_not_found_again),
		cmocka_unit_test(test_what_others_have_registered_is_not_kept_alive_by_us),
		cmocka_unit_test(test_what_others_have_registered_is_put_out_of_service_and_back),
		cmocka_unit_test(test_a_state_that_no_override_explains_is_ended_all_the_same),
		cmocka_unit_test(test_what_an_instance_says_of_itself_is_not_ended_by_us),
		cmocka_unit_test(test_the_state_of_what_is_unknown_cannot_be_set),
		cmocka_unit_test(test_by_vip_the_app_is_the_servers_to_say),
		cmocka_unit_test(test_an_id_is_escaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
