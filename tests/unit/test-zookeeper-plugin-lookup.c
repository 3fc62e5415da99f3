/* Looking up the names of servers of ZooKeeper: from a name server that is played, and from one
 * that is silent. */

#include <arpa/inet.h>
#include <poll.h>
#include <usher/plugin.h>

#include "lookup.h"
#include "own.h"
#include "retry.h"
#include "session.h"
#include "test.h"

#define LONG_USEC  UINT64_C(60000000) /* nothing here waits for it to be over */
#define SHORT_USEC UINT64_C(200000)   /* for what is to be over */
#define QUERY_MAX  512

/* ---- a name server ---- */

struct name_server {
	int fd;
	char text[32]; /* "127.0.0.1:PORT" */
};

static void name_server_start(struct name_server *s)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);

	s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(s->fd >= 0);
	assert_int_equal(bind(s->fd, (const struct sockaddr *) &address, size), 0);
	assert_int_equal(getsockname(s->fd, (struct sockaddr *) &address, &size), 0);
	(void) snprintf(s->text, sizeof(s->text), "127.0.0.1:%u", ntohs(address.sin_port));
}

/* 10.0.0.7 to whoever asks for an A record, and that there is none of any other kind. */
static void name_server_answer(const struct name_server *s)
{
	static const unsigned char record[] = { 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 0, 0,
		7 };
	unsigned char text[QUERY_MAX + sizeof(record)];
	struct sockaddr_in from;
	socklen_t from_size = sizeof(from);
	ssize_t n = recvfrom(s->fd, text, QUERY_MAX, MSG_DONTWAIT, (struct sockaddr *) &from,
			&from_size);
	size_t size = 12;

	if (n < 17)
		return;
	size += strlen((const char *) text + 12) + 1 + 4; /* what follows is not repeated */
	text[2] |= 0x80;
	text[3] = 0x80;
	text[7] = text[size - 3] == 1;
	text[9] = text[11] = 0;
	if (text[7]) {
		memcpy(text + size, record, sizeof(record));
		size += sizeof(record);
	}
	(void) sendto(s->fd, text, size, 0, (const struct sockaddr *) &from, from_size);
}

/* ---- a lookup ---- */

#define ADDRESS_MAX (INET6_ADDRSTRLEN + 8)

static void write_address(const struct sockaddr_storage *found, char text[ADDRESS_MAX])
{
	const struct sockaddr_in *in = (const void *) found;
	const struct sockaddr_in6 *in6 = (const void *) found;
	bool is_6 = found->ss_family == AF_INET6;

	(void) inet_ntop(found->ss_family,
			is_6 ? (const void *) &in6->sin6_addr : (const void *) &in->sin_addr, text,
			INET6_ADDRSTRLEN);
	(void) snprintf(text + strlen(text), 8, ":%u", ntohs(is_6 ? in6->sin6_port : in->sin_port));
}

static int wait_result(struct zk_lookup *l, const struct name_server *s, char address[ADDRESS_MAX],
		const char **ret_why)
{
	struct sockaddr_storage found = { 0 };
	socklen_t size = 0;
	int r;

	assert_non_null(l);
	while ((r = zk_lookup_result(l, 0, &found, &size, ret_why)) == 0) {
		uint64_t now = retry_now_usec(), due = zk_lookup_due_usec(l);
		struct pollfd fds[] = { { .fd = zk_lookup_fd(l), .events = POLLIN },
			{ .fd = s ? s->fd : -1, .events = POLLIN } };

		(void) poll(fds, ELEMENTS(fds), due > now ? (int) ((due - now) / 1000 + 1) : 0);
		if (fds[1].revents)
			name_server_answer(s);
		zk_lookup_process(l);
	}
	if (r > 0)
		write_address(&found, address);
	return r;
}

static void an_address_needs_no_looking_up(void **state)
{
	static const char *const hosts[] = { "10.0.0.5", "fd00::10" };
	static const char *const names[] = { "zk-1.example", "localhost", "10.0.0.5.example", "" };
	static const char *const expected[] = { "10.0.0.5:2181", "fd00::10:2181" };
	struct sockaddr_storage found;
	char address[ADDRESS_MAX];
	socklen_t size;

	(void) state;
	for (size_t i = 0; i < ELEMENTS(hosts); i++) {
		assert_true(zk_lookup_is_address(hosts[i], 2181, &found, &size));
		write_address(&found, address);
		assert_string_equal(address, expected[i]);
	}
	for (size_t i = 0; i < ELEMENTS(names); i++)
		assert_false(zk_lookup_is_address(names[i], 2181, &found, &size));
}

static void a_name_is_asked_for_at_a_name_server(void **state)
{
	struct name_server s;
	struct zk_lookup *l;
	char address[ADDRESS_MAX];
	const char *why;

	(void) state;
	name_server_start(&s);
	l = zk_lookup_new("zk-1.example.", 2182, LONG_USEC, s.text);
	assert_int_equal(wait_result(l, &s, address, &why), 1);
	assert_string_equal(address, "10.0.0.7:2182");
	(void) zk_lookup_free(l);
	(void) close(s.fd);
}

static void this_machine_has_its_name_without_asking_anybody(void **state)
{
	struct name_server s;
	struct zk_lookup *l;
	char address[ADDRESS_MAX];
	const char *why;

	(void) state;
	name_server_start(&s);
	l = zk_lookup_new("localhost", 2181, LONG_USEC, s.text);
	assert_int_equal(wait_result(l, NULL, address, &why), 1);
	assert_true(strcmp(address, "127.0.0.1:2181") == 0 || strcmp(address, "::1:2181") == 0);
	(void) zk_lookup_free(l);
	(void) close(s.fd);
}

static void a_silent_name_server_is_waited_for_until_the_time_is_over(void **state)
{
	struct name_server s;
	struct zk_lookup *l;
	char address[ADDRESS_MAX];
	const char *why = NULL;

	(void) state;
	name_server_start(&s);
	l = zk_lookup_new("zk-1.example.", 2181, SHORT_USEC, s.text);
	assert_int_equal(wait_result(l, NULL, address, &why), -EHOSTUNREACH);
	assert_string_equal(why, "no name server says in time which address it has");
	(void) zk_lookup_free(l);
	(void) close(s.fd);
}

static void a_lookup_may_be_dropped_while_it_is_under_way(void **state)
{
	struct name_server s;

	(void) state;
	name_server_start(&s);
	(void) zk_lookup_free(zk_lookup_new("zk-1.example.", 2181, LONG_USEC, s.text));
	(void) close(s.fd);
}

/* ---- a session whose server has a name ---- */

static struct zk_session *begin(const struct name_server *s, uint64_t connect_usec)
{
	static const char *const servers[] = { "zk-1.example.:2181", NULL };
	const struct zk_session_config config = { .servers = servers,
		.timeout_usec = LONG_USEC,
		.connect_usec = connect_usec,
		.backoff_steps = 1,
		.name_servers = s->text };
	struct zk_session *session = zk_session_new(&config);

	assert_non_null(session);
	zk_session_process(session);
	assert_true(zk_session_fd(session) >= 0);
	return session;
}

static void a_session_loses_a_server_whose_name_nobody_knows_in_time(void **state)
{
	struct zk_session *session;
	struct name_server s;
	struct zk_event event;

	(void) state;
	name_server_start(&s);
	session = begin(&s, SHORT_USEC);
	while (!zk_session_next(session, &event)) {
		uint64_t now = retry_now_usec(), due = zk_session_due_usec(session);
		struct pollfd fd = { .fd = zk_session_fd(session),
			.events = zk_session_events(session) };

		(void) poll(&fd, 1, due > now ? (int) ((due - now) / 1000 + 1) : 0);
		zk_session_process(session);
	}
	assert_int_equal(event.kind, ZK_LOST);
	assert_int_equal(event.code, -EHOSTUNREACH);
	assert_non_null(strstr(event.why.text, "zk-1.example.:2181: no name server says in time"));
	(void) zk_session_free(session, true);
	(void) close(s.fd);
}

static void a_session_ends_at_once_while_a_name_is_looked_up(void **state)
{
	struct name_server s;

	(void) state;
	name_server_start(&s);
	(void) zk_session_free(begin(&s, LONG_USEC), true);
	(void) close(s.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_needs_no_looking_up),
		cmocka_unit_test(a_name_is_asked_for_at_a_name_server),
		cmocka_unit_test(this_machine_has_its_name_without_asking_anybody),
		cmocka_unit_test(a_silent_name_server_is_waited_for_until_the_time_is_over),
		cmocka_unit_test(a_lookup_may_be_dropped_while_it_is_under_way),
		cmocka_unit_test(a_session_loses_a_server_whose_name_nobody_knows_in_time),
		cmocka_unit_test(a_session_ends_at_once_while_a_name_is_looked_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
