/* Registration in an etcd that is played: one key, its lease, and what becomes of them. */

#include "etcd.h"
#include "gateway.h"
#include "layout.h"
#include "scripted-server.h"
#include "test.h"

#define HEADER "\"header\":{\"cluster_id\":\"1\",\"revision\":\"9\"}"

struct played {
	pthread_mutex_t lock;
	bool present;
	char key[256], value[2048]; /* in base64 */
	long lease;                 /* of the key; 0: none */
	long live;                  /* the one lease that there is; 0: none */
	long last;
	long mod;
	unsigned grants, puts;
	bool races; /* somebody else changes the key before the next put */
};

struct bench {
	struct scripted_server server;
	struct played played;
	const char *servers[2];
	struct etcd etcd;
	struct usher_wanted service;
};

/* What stands between quotes behind `"name":` in the request, or "". */
static void member(const char *text, const char *name, char *ret, size_t size)
{
	char pattern[64];
	const char *at;
	size_t length = 0;

	(void) snprintf(pattern, sizeof(pattern), "\"%s\":\"", name);
	at = strstr(text, pattern);
	if (at) {
		at += strlen(pattern);
		length = strcspn(at, "\"");
		assert_true(length < size);
		memcpy(ret, at, length);
	}
	ret[length] = '\0';
}

static long number(const char *text, const char *name)
{
	char digits[32];

	member(text, name, digits, sizeof(digits));
	return strtol(digits, NULL, 10);
}

/* The body that the head promises may come in a packet of its own. */
static const char *body_of(struct scripted_connection *c)
{
	char *body = strstr(c->request, "\r\n\r\n") + 4;
	const char *length = strstr(c->request, "Content-Length: ");
	size_t wanted = length ? strtoul(length + 16, NULL, 10) : 0, have = strlen(body);

	while (have < wanted) {
		ssize_t n = recv(c->fd, body + have, wanted - have, 0);

		if (n <= 0)
			break;
		have += (size_t) n;
		body[have] = '\0';
	}
	return body;
}

static bool reply_no_lease(struct scripted_connection *c)
{
	return scripted_reply(c, "404 Not Found", "",
			"{\"code\":5, \"message\":\"etcdserver: requested lease not found\"}");
}

static bool put(struct scripted_connection *c, struct played *p, const char *body)
{
	long lease = number(body, "lease"), expected = number(body, "mod_revision");

	if (p->races) {
		p->races = false;
		p->mod++;
	}
	if (lease && lease != p->live)
		return reply_no_lease(c);
	if (expected && expected != p->mod)
		return scripted_reply(c, "200 OK", "", "{" HEADER "}");
	p->puts++;
	p->mod++;
	p->present = true;
	if (!strstr(body, "ignore_lease"))
		p->lease = lease;
	member(body, "key", p->key, sizeof(p->key));
	member(body, "value", p->value, sizeof(p->value));
	return scripted_reply(c, "200 OK", "", "{" HEADER ",\"succeeded\":true}");
}

static bool tell_key(struct scripted_connection *c, const struct played *p)
{
	char text[4096] = "{" HEADER "}";

	if (p->present)
		(void) snprintf(text, sizeof(text),
				"{" HEADER
				",\"kvs\":[{\"key\":\"%s\",\"value\":\"%s\",\"mod_revision\":\"%ld\",\"lease\":\"%ld\"}],\"count\":\"1\"}",
				p->key, p->value, p->mod, p->lease);
	return scripted_reply(c, "200 OK", "", text);
}

static bool tell_lease(struct scripted_connection *c, long lease, bool lives)
{
	char text[256];

	(void) snprintf(text, sizeof(text), "{\"result\":{" HEADER ",\"ID\":\"%ld\"%s}}\n", lease,
			lives ? ",\"TTL\":\"30\"" : "");
	return scripted_reply(c, "200 OK", "", text);
}

static bool grant(struct scripted_connection *c, struct played *p)
{
	char text[256];

	p->grants++;
	p->live = ++p->last;
	(void) snprintf(text, sizeof(text), "{" HEADER ",\"ID\":\"%ld\",\"TTL\":\"30\"}", p->live);
	return scripted_reply(c, "200 OK", "", text);
}

static bool revoke_lease(struct scripted_connection *c, struct played *p, long lease)
{
	if (lease != p->live)
		return reply_no_lease(c);
	p->live = 0;
	if (p->lease == lease)
		p->present = false;
	return scripted_reply(c, "200 OK", "", "{" HEADER "}");
}

static bool answer_locked(struct scripted_connection *c, struct played *p, const char *body)
{
	if (strstr(c->request, "POST /v3/lease/grant "))
		return grant(c, p);
	if (strstr(c->request, "POST /v3/lease/keepalive "))
		return tell_lease(c, number(body, "ID"), number(body, "ID") == p->live);
	if (strstr(c->request, "POST /v3/lease/revoke "))
		return revoke_lease(c, p, number(body, "ID"));
	if (strstr(c->request, "POST /v3/kv/txn "))
		return put(c, p, body);
	if (strstr(c->request, "POST /v3/kv/range "))
		return tell_key(c, p);
	if (strstr(c->request, "POST /v3/kv/deleterange ")) {
		p->present = false;
		return scripted_reply(c, "200 OK", "", "{" HEADER "}");
	}
	return scripted_reply(c, "404 Not Found", "", "{}");
}

static bool answer(struct scripted_connection *c)
{
	struct played *p = c->server->userdata;
	const char *body = body_of(c);
	bool goes_on;

	pthread_mutex_lock(&p->lock);
	goes_on = answer_locked(c, p, body);
	pthread_mutex_unlock(&p->lock);
	return goes_on;
}

static void set_up(struct bench *b)
{
	memset(b, 0, sizeof(*b));
	pthread_mutex_init(&b->played.lock, NULL);
	b->played.mod = 10;
	b->played.last = 70;
	scripted_server_start(&b->server, answer, &b->played);
	b->servers[0] = b->server.url;
	b->etcd = (struct etcd){ .http = { .servers = b->servers,
						 .verify = true,
						 .connections = 4,
						 .connect_timeout_usec = 60000000 },
		.layout = ETCD_LAYOUT_DEFAULT,
		.ttl_usec = 30000000 };
	b->service = (struct usher_wanted){ "catalog", "catalog", NULL };
}

static void tear_down(struct bench *b)
{
	(void) etcd_registrations_free(b->etcd.registrations);
	scripted_server_stop(&b->server);
	pthread_mutex_destroy(&b->played.lock);
}

/* As after a restart of usherd. */
static void restart(struct bench *b)
{
	b->etcd.registrations = etcd_registrations_free(b->etcd.registrations);
}

static void change(struct bench *b, void (*fn)(struct played *p))
{
	pthread_mutex_lock(&b->played.lock);
	fn(&b->played);
	pthread_mutex_unlock(&b->played.lock);
}

static void expire(struct played *p)
{
	p->live = 0;
	p->present = false;
}

static void lose_key(struct played *p)
{
	p->present = false;
}

static void begin_race(struct played *p)
{
	p->races = true;
}

/* {"address":"10.0.0.9","port":1}: what somebody else has made of it */
static void write_anew(struct played *p)
{
	p->mod++;
	strcpy(p->value, "eyJhZGRyZXNzIjoiMTAuMC4wLjkiLCJwb3J0IjoxfQ==");
}

/* An instance that has registered itself, as {"address":"10.0.0.5","port":8080,"owner":"x"}. */
static void register_itself(struct played *p)
{
	p->present = true;
	p->live = p->lease = 55;
	strcpy(p->key, "L3NlcnZpY2VzL2NhdGFsb2cvYQ==");
	strcpy(p->value, "eyJhZGRyZXNzIjoiMTAuMC4wLjUiLCJwb3J0Ijo4MDgwLCJvd25lciI6IngifQ==");
}

static void assert_value_of(struct bench *b, const char *key, const char *expected)
{
	struct etcd_kv kv = { 0 };
	json_t *pair;

	pthread_mutex_lock(&b->played.lock);
	assert_true(b->played.present);
	pair = json_pack("{s:s, s:s}", "key", b->played.key, "value", b->played.value);
	pthread_mutex_unlock(&b->played.lock);
	assert_ok(etcd_kv_read(pair, &kv, NULL));
	assert_string_equal(kv.key, key);
	assert_string_equal(kv.value, expected);
	etcd_kv_done(&kv);
	json_decref(pair);
}

static void assert_value(struct bench *b, const char *expected)
{
	assert_value_of(b, "/services/catalog/a", expected);
}

static int add_id(struct bench *b, const char *id, uint32_t weight)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	struct usher_error why = { 0 };
	int r;

	e.id = id;
	e.address = "10.0.0.5";
	e.port = 8080;
	e.weight = weight;
	r = etcd_registration_add(&b->etcd, &b->service, &e, &why);
	if (r < 0)
		print_message("%s\n", why.text);
	return r;
}

static int add(struct bench *b, uint32_t weight)
{
	return add_id(b, "a", weight);
}

static int renew(struct bench *b)
{
	return etcd_registration_renew(&b->etcd, &b->service, "a", NULL);
}

static int set_state(struct bench *b, enum usher_admin_state state)
{
	return etcd_registration_set_state(&b->etcd, &b->service, "a", state, NULL);
}

#define REGISTRATIONS_MAX 4096

#define OWNED "{\"address\":\"10.0.0.5\",\"port\":8080,\"owner\":\"x\"}"
#define PLAIN "{\"address\":\"10.0.0.5\",\"port\":8080}"
#define HEAVY "{\"address\":\"10.0.0.5\",\"port\":8080,\"weight\":50}"

static void test_an_endpoint_is_registered_under_a_lease(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	assert_ok(add(&b, 1));
	assert_value(&b, PLAIN);
	assert_int_equal(b.played.lease, 71);
	/* Twice is once: the same lease. */
	assert_ok(add(&b, 1));
	assert_int_equal(b.played.grants, 1);
	assert_ok(renew(&b));
	assert_int_equal(b.played.puts, 2);
	tear_down(&b);
}

/* apache/curator#702, Netflix/curator#131 */
static void test_after_its_lease_ran_out_the_newest_payload_is_registered(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	assert_ok(add(&b, 10));
	assert_ok(add(&b, 50));
	change(&b, expire);
	assert_ok(renew(&b));
	assert_value(&b, HEAVY);
	assert_int_equal(b.played.lease, 72);
	tear_down(&b);
}

static void test_what_somebody_else_wrote_is_newer_and_kept(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	assert_ok(add(&b, 1));
	change(&b, write_anew);
	assert_ok(renew(&b));
	assert_value(&b, "{\"address\":\"10.0.0.9\",\"port\":1}");
	change(&b, expire);
	assert_ok(renew(&b));
	assert_value(&b, "{\"address\":\"10.0.0.9\",\"port\":1}");
	tear_down(&b);
}

static void test_a_key_that_was_deleted_is_put_again_under_the_lease(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	assert_ok(add(&b, 1));
	change(&b, lose_key);
	assert_ok(renew(&b));
	assert_value(&b, PLAIN);
	assert_int_equal(b.played.grants, 1);
	tear_down(&b);
}

static void test_a_restarted_usherd_finds_the_lease_beside_the_key(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	assert_ok(add(&b, 50));
	restart(&b);
	assert_ok(renew(&b));
	assert_int_equal(b.played.grants, 1);
	change(&b, expire);
	assert_ok(renew(&b));
	assert_value(&b, HEAVY);
	restart(&b);
	change(&b, expire);
	assert_errno(renew(&b), ENOENT);
	tear_down(&b);
}

static void test_a_state_stays_through_a_new_lease(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	assert_ok(add(&b, 1));
	assert_ok(set_state(&b, USHER_ADMIN_DRAINING));
	assert_value(&b, "{\"address\":\"10.0.0.5\",\"port\":8080,\"state\":\"draining\"}");
	assert_int_equal(b.played.lease, 71);
	change(&b, expire);
	assert_ok(renew(&b));
	assert_value(&b, "{\"address\":\"10.0.0.5\",\"port\":8080,\"state\":\"draining\"}");
	assert_ok(set_state(&b, USHER_ADMIN_READY));
	assert_value(&b, PLAIN);
	tear_down(&b);
}

static void test_a_state_is_set_again_where_somebody_was_faster(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	assert_ok(add(&b, 1));
	change(&b, begin_race);
	assert_ok(set_state(&b, USHER_ADMIN_DRAINING));
	assert_value(&b, "{\"address\":\"10.0.0.5\",\"port\":8080,\"state\":\"draining\"}");
	tear_down(&b);
}

static void test_taking_out_ends_the_lease_and_twice_is_once(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	assert_ok(add(&b, 1));
	assert_ok(etcd_registration_remove(&b.etcd, &b.service, "a", NULL));
	assert_false(b.played.present);
	assert_int_equal(b.played.live, 0);
	assert_ok(etcd_registration_remove(&b.etcd, &b.service, "a", NULL));
	assert_errno(renew(&b), ENOENT);
	tear_down(&b);
}

static void test_a_key_of_the_instance_itself_comes_back_as_it_was(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	change(&b, register_itself);
	assert_ok(etcd_registration_remove(&b.etcd, &b.service, "a", NULL));
	assert_false(b.played.present);
	assert_int_equal(b.played.live, 55);
	assert_ok(add(&b, 1));
	assert_value(&b, "{\"address\":\"10.0.0.5\",\"port\":8080,\"owner\":\"x\"}");
	assert_int_equal(b.played.lease, 55);
	assert_int_equal(b.played.grants, 0);
	tear_down(&b);
}

/* As the host keeps it: what discovery has read of the key, with its lease. */
static int add_as_read(struct bench *b, const char *lease)
{
	const struct usher_label labels[] = { { ETCD_LABEL_LEASE, lease } };
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	e.id = "a";
	e.address = "10.0.0.5";
	e.port = 8080;
	e.metadata = labels;
	e.metadata_count = 1;
	return etcd_registration_add(&b->etcd, &b->service, &e, NULL);
}

static void test_a_restarted_usherd_puts_a_key_back_under_the_lease_that_its_endpoint_tells(
		void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	change(&b, register_itself);
	assert_ok(etcd_registration_remove(&b.etcd, &b.service, "a", NULL));
	restart(&b);
	assert_ok(add_as_read(&b, "55"));
	assert_value(&b, PLAIN);
	assert_int_equal(b.played.lease, 55);
	assert_int_equal(b.played.grants, 0);
	/* A key without a lease stays one. */
	assert_ok(add_as_read(&b, "0"));
	assert_int_equal(b.played.lease, 0);
	/* And a lease that has run out meanwhile is replaced by one of ours. */
	change(&b, expire);
	assert_ok(add_as_read(&b, "55"));
	assert_value(&b, PLAIN);
	assert_int_equal(b.played.lease, 71);
	tear_down(&b);
}

static void test_a_renewal_is_due_after_a_third_of_what_etcd_grants(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	assert_int_equal(etcd_registration_renew_after_usec(&b.etcd), 0);
	assert_ok(add(&b, 1));
	assert_int_equal(etcd_registration_renew_after_usec(&b.etcd), 10000000);
	tear_down(&b);
}

static void test_a_key_whose_instance_has_ended_comes_back_as_ours(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b);
	change(&b, register_itself);
	assert_ok(etcd_registration_remove(&b.etcd, &b.service, "a", NULL));
	change(&b, expire);
	assert_ok(add(&b, 1));
	assert_value(&b, PLAIN);
	assert_int_equal(b.played.lease, 71);
	tear_down(&b);
}

static void take_out_others(struct bench *b, const char *id)
{
	change(b, register_itself);
	assert_ok(etcd_registration_remove(&b->etcd, &b->service, id, NULL));
}

static void test_keys_of_others_are_taken_out_without_end_and_the_oldest_are_forgotten(void **state)
{
	char id[32] = "";
	struct bench b;

	(void) state;
	set_up(&b);
	take_out_others(&b, "a");
	for (unsigned i = 0; i < REGISTRATIONS_MAX; i++) {
		(void) snprintf(id, sizeof(id), "n%u", i);
		take_out_others(&b, id);
	}
	/* The last comes back as it was, the first as much as its endpoint tells. */
	assert_ok(add_id(&b, id, 1));
	assert_value_of(&b, "/services/catalog/n4095", OWNED);
	assert_int_equal(b.played.lease, 55);
	assert_ok(add(&b, 1));
	assert_value(&b, PLAIN);
	/* What is ours is never forgotten for others. */
	take_out_others(&b, "one");
	take_out_others(&b, "two");
	assert_ok(renew(&b));
	assert_value(&b, PLAIN);
	tear_down(&b);
}

static void test_an_id_that_makes_no_key_is_refused(void **state)
{
	struct usher_error why = { 0 };
	struct bench b;

	(void) state;
	set_up(&b);
	assert_errno(etcd_registration_renew(&b.etcd, &b.service, "a/b", &why), EINVAL);
	assert_non_null(strstr(why.text, "a/b"));
	tear_down(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_endpoint_is_registered_under_a_lease),
		cmocka_unit_test(test_after_its_lease_ran_out_the_newest_payload_is_registered),
		cmocka_unit_test(test_what_somebody_else_wrote_is_newer_and_kept),
		cmocka_unit_test(test_a_key_that_was_deleted_is_put_again_under_the_lease),
		cmocka_unit_test(test_a_restarted_usherd_finds_the_lease_beside_the_key),
		cmocka_unit_test(test_a_state_stays_through_a_new_lease),
		cmocka_unit_test(test_a_state_is_set_again_where_somebody_was_faster),
		cmocka_unit_test(test_taking_out_ends_the_lease_and_twice_is_once),
		cmocka_unit_test(test_a_key_of_the_instance_itself_comes_back_as_it_was),
		cmocka_unit_test(test_a_key_whose_instance_has_ended_comes_back_as_ours),
		cmocka_unit_test(
				test_a_restarted_usherd_puts_a_key_back_under_the_lease_that_its_endpoint_tells),
		cmocka_unit_test(test_a_renewal_is_due_after_a_third_of_what_etcd_grants),
		cmocka_unit_test(
				test_keys_of_others_are_taken_out_without_end_and_the_oldest_are_forgotten),
		cmocka_unit_test(test_an_id_that_makes_no_key_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
