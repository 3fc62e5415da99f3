/* Word of changes that a server of Nacos sends to the plug-in nacos over UDP. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "push.h"
#include "test.h"
#include "watch.h"

#define USEC_PER_SEC UINT64_C(1000000)
#define PACKET_OF(type, data) \
	"{\"type\":\"" type "\",\"data\":\"" data "\",\"lastRefTime\":85961000123}"
#define PACKET PACKET_OF("dom", "{\\\"name\\\":\\\"DEFAULT_GROUP@@web\\\",\\\"hosts\\\":[]}")

static const char *const servers[] = { "http://127.0.0.1:8848", NULL };

static struct nacos configured(const char *push_address)
{
	return (struct nacos){ .http = { .servers = servers },
		.group = "DEFAULT_GROUP",
		.push_address = push_address };
}

static void test_a_packet_names_a_service_and_what_to_acknowledge(void **state)
{
	char acknowledged[32], *service = NULL;

	(void) state;
	assert_ok(push_parse(PACKET, strlen(PACKET), &service, acknowledged));
	assert_string_equal(service, "DEFAULT_GROUP@@web");
	assert_string_equal(acknowledged, "85961000123");
	free(service);
}

/* printf '%s' PACKET | gzip -n */
static void test_a_packet_may_be_compressed(void **state)
{
	static const unsigned char packed[] = { 0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x02, 0x03, 0xab, 0x56, 0x2a, 0xa9, 0x2c, 0x48, 0x55, 0xb2, 0x52, 0x4a, 0xc9, 0xcf,
		0x55, 0xd2, 0x51, 0x4a, 0x49, 0x2c, 0x49, 0x04, 0x72, 0xaa, 0x63, 0x94, 0xf2, 0x12,
		0x73, 0x53, 0x63, 0x94, 0xac, 0x62, 0x94, 0x5c, 0x5c, 0xdd, 0x1c, 0x43, 0x7d, 0x42,
		0xe2, 0xdd, 0x83, 0xfc, 0x43, 0x03, 0x1c, 0x1c, 0xca, 0x53, 0x93, 0x62, 0x94, 0x74,
		0x62, 0x94, 0x32, 0xf2, 0x8b, 0x4b, 0x8a, 0x81, 0x0a, 0xa2, 0x63, 0x6b, 0x81, 0xfa,
		0x72, 0x12, 0x8b, 0x4b, 0x82, 0x52, 0xd3, 0x42, 0x32, 0x73, 0x81, 0x66, 0x59, 0x98,
		0x5a, 0x9a, 0x19, 0x1a, 0x18, 0x18, 0x18, 0x1a, 0x19, 0xd7, 0x02, 0x00, 0xe7, 0x91,
		0x86, 0x04, 0x60, 0x00, 0x00, 0x00 };
	char acknowledged[32], *service = NULL;

	(void) state;
	assert_ok(push_parse((const char *) packed, sizeof(packed), &service, acknowledged));
	assert_string_equal(service, "DEFAULT_GROUP@@web");
	free(service);
	for (size_t size = 0; size < sizeof(packed); size++)
		assert_errno(push_parse((const char *) packed, size, &service, acknowledged),
				EBADMSG);
}

static void test_what_is_no_word_of_a_change_is_refused(void **state)
{
	static const char *const cases[] = { "", "{", "[]", "7", PACKET_OF("dump", "{}"),
		PACKET_OF("dom", ""), PACKET_OF("dom", "{}"), PACKET_OF("dom", "{\\\"name\\\":7}"),
		"{\"type\":\"dom\",\"data\":\"{\\\"name\\\":\\\"x\\\"}\"}" };
	char acknowledged[32], *service = NULL;

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_errno(push_parse(cases[i], strlen(cases[i]), &service, acknowledged),
				EBADMSG);
}

static int parse_under_oom(void *userdata)
{
	char acknowledged[32], *service = NULL;
	int r = push_parse(PACKET, strlen(PACKET), &service, acknowledged);

	(void) userdata;
	if (r == 0)
		free(service);
	return r;
}

static void test_reading_survives_that_memory_runs_out(void **state)
{
	(void) state;
	assert_survives_oom(parse_under_oom, NULL);
}

/* ---- the port ---- */

static int sender_to(const struct push *p)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(p->port) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &to.sin_addr), 1);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *) &to, sizeof(to)), 0);
	return fd;
}

static void await(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	assert_int_equal(poll(&p, 1, 30000), 1);
}

static void test_a_server_is_told_where_this_node_is(void **state)
{
	const struct nacos n = configured(NULL), natted = configured("192.0.2.7"),
			   wrong = configured("here");
	struct usher_error err = { 0 };
	struct push p;

	(void) state;
	assert_ok(push_open(&p, &n, &err));
	assert_string_equal(p.address, "127.0.0.1");
	assert_true(p.port > 0);
	push_close(&p);
	assert_ok(push_open(&p, &natted, &err));
	assert_string_equal(p.address, "192.0.2.7");
	push_close(&p);
	assert_errno(push_open(&p, &wrong, &err), EINVAL);
	assert_string_equal(err.text, "push_address: here is no address");
}

static void test_a_packet_is_acknowledged(void **state)
{
	static const char expected[] =
			"{\"type\":\"push-ack\",\"lastRefTime\":\"85961000123\",\"data\":\"\"}";
	const struct nacos n = configured(NULL);
	char text[256] = "", *service;
	struct push p;
	int fd;

	(void) state;
	assert_ok(push_open(&p, &n, NULL));
	fd = sender_to(&p);
	assert_int_equal(send(fd, "nonsense", 8, 0), 8);
	assert_int_equal(send(fd, PACKET, strlen(PACKET), 0), strlen(PACKET));
	await(p.fd);
	assert_int_equal(push_take(&p, USEC_PER_SEC, &service), 1);
	assert_null(service);
	await(p.fd);
	assert_int_equal(push_take(&p, USEC_PER_SEC, &service), 1);
	assert_string_equal(service, "DEFAULT_GROUP@@web");
	free(service);
	assert_int_equal(push_take(&p, USEC_PER_SEC, &service), 0);
	await(fd);
	assert_true(recv(fd, text, sizeof(text) - 1, 0) > 0);
	assert_string_equal(text, expected);
	(void) close(fd);
	push_close(&p);
}

static void test_no_more_packets_are_read_than_a_bucket_allows(void **state)
{
	const struct nacos n = configured(NULL);
	unsigned read = 0;
	struct push p;
	char *service;
	int fd;

	(void) state;
	assert_ok(push_open(&p, &n, NULL));
	fd = sender_to(&p);
	for (unsigned i = 0; i < 1200; i++) {
		assert_int_equal(send(fd, PACKET, strlen(PACKET), 0), strlen(PACKET));
		await(p.fd);
		assert_int_equal(push_take(&p, USEC_PER_SEC, &service), 1);
		read += service != NULL;
		free(service);
	}
	assert_int_equal(read, 1001);
	(void) close(fd);
	push_close(&p);
}

/* ---- what becomes of it ---- */

static struct watch *watch_of(const char *name)
{
	const struct usher_wanted wanted = { .service = "shop", .name = name };
	struct watch *w = watch_new(&wanted);

	assert_non_null(w);
	return w;
}

static void test_a_name_may_leave_its_group_out(void **state)
{
	const struct nacos n = configured(NULL);
	struct watch *plain = watch_of("web"), *other = watch_of("OTHER@@web");

	(void) state;
	assert_true(watch_is_named(plain, &n, "DEFAULT_GROUP@@web"));
	assert_false(watch_is_named(plain, &n, "OTHER@@web"));
	assert_false(watch_is_named(plain, &n, "DEFAULT_GROUP@@website"));
	assert_true(watch_is_named(other, &n, "OTHER@@web"));
	assert_false(watch_is_named(other, &n, "DEFAULT_GROUP@@web"));
	(void) watch_free(plain);
	(void) watch_free(other);
}

static void test_hints_are_followed_three_times_at_once_and_then_four_a_second(void **state)
{
	static const uint64_t expected[] = { 0, 0, 0, 250000, 500000 };
	uint64_t now = 100 * USEC_PER_SEC;
	struct watch *w = watch_of("web");

	(void) state;
	for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
		w->due_usec = now + 300 * USEC_PER_SEC; /* it was asked for just now */
		watch_hint(w, now);
		assert_int_equal(w->due_usec, now + expected[i]);
	}
	(void) watch_free(w);
}

static void test_a_hint_does_not_cut_a_back_off_short(void **state)
{
	struct watch *w = watch_of("web");

	(void) state;
	w->failures = 1;
	w->due_usec = 200 * USEC_PER_SEC;
	watch_hint(w, 100 * USEC_PER_SEC);
	assert_int_equal(w->due_usec, 200 * USEC_PER_SEC);
	(void) watch_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_packet_names_a_service_and_what_to_acknowledge),
		cmocka_unit_test(test_a_packet_may_be_compressed),
		cmocka_unit_test(test_what_is_no_word_of_a_change_is_refused),
		cmocka_unit_test(test_reading_survives_that_memory_runs_out),
		cmocka_unit_test(test_a_server_is_told_where_this_node_is),
		cmocka_unit_test(test_a_packet_is_acknowledged),
		cmocka_unit_test(test_no_more_packets_are_read_than_a_bucket_allows),
		cmocka_unit_test(test_a_name_may_leave_its_group_out),
		cmocka_unit_test(
				test_hints_are_followed_three_times_at_once_and_then_four_a_second),
		cmocka_unit_test(test_a_hint_does_not_cut_a_back_off_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
