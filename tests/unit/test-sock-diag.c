/* Connections over the loopback, as the kernel counts them. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ownership.h"
#include "probe-sockets.h"
#include "sock-diag.h"
#include "test.h"

struct server {
	int fd;
	uint16_t port;
};

static void listen_on(struct server *server, const char *address, bool both)
{
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6 };
	socklen_t size = sizeof(sa);
	int only = !both;

	server->fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(server->fd >= 0);
	assert_int_equal(setsockopt(server->fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only)), 0);
	assert_int_equal(inet_pton(AF_INET6, address, &sa.sin6_addr), 1);
	assert_int_equal(bind(server->fd, (struct sockaddr *) &sa, sizeof(sa)), 0);
	assert_int_equal(listen(server->fd, 128), 0);
	assert_int_equal(getsockname(server->fd, (struct sockaddr *) &sa, &size), 0);
	server->port = ntohs(sa.sin6_port);
}

static void listen_on_ipv4(struct server *server)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t size = sizeof(sa);

	server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(server->fd >= 0);
	assert_int_equal(bind(server->fd, (struct sockaddr *) &sa, sizeof(sa)), 0);
	assert_int_equal(listen(server->fd, 128), 0);
	assert_int_equal(getsockname(server->fd, (struct sockaddr *) &sa, &size), 0);
	server->port = ntohs(sa.sin_port);
}

static int connect_ipv4(uint16_t port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *) &sa, sizeof(sa)), 0);
	return fd;
}

static int connect_ipv6(uint16_t port)
{
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6,
		.sin6_port = htons(port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *) &sa, sizeof(sa)), 0);
	return fd;
}

static size_t count_open(const char *address, uint16_t port)
{
	struct sock_diag_target target = { .address = address, .port = port };
	struct sock_diag_sample *sample = NULL;
	struct usher_error err = {};

	assert_ok(sock_diag_count(&target, 1, &sample, &err));
	(void) sock_diag_sample_free(sample);
	return target.open;
}

static void a_connection_seen_from_both_ends_is_one(void **state)
{
	struct server server;
	int client, accepted;

	(void) state;
	listen_on_ipv4(&server);
	assert_int_equal(count_open("127.0.0.1", server.port), 0);

	client = connect_ipv4(server.port);
	assert_int_equal(count_open("127.0.0.1", server.port), 1);
	accepted = accept4(server.fd, NULL, NULL, SOCK_CLOEXEC);
	assert_int_equal(count_open("127.0.0.1", server.port), 1);
	assert_int_equal(count_open("127.0.0.2", server.port), 0);

	(void) close(accepted);
	(void) close(client);
	assert_int_equal(count_open("127.0.0.1", server.port), 0);
	(void) close(server.fd);
}

static void the_checks_of_usherd_are_not_counted(void **state)
{
	struct server server;
	int check, client, accepted;

	(void) state;
	listen_on_ipv4(&server);
	check = connect_ipv4(server.port);
	assert_int_equal(count_open("127.0.0.1", server.port), 1);
	probe_socket_note(check);
	assert_int_equal(count_open("127.0.0.1", server.port), 0);

	accepted = accept4(server.fd, NULL, NULL, SOCK_CLOEXEC);
	client = connect_ipv4(server.port);
	assert_int_equal(count_open("127.0.0.1", server.port), 1);

	(void) close(accepted);
	(void) close(check);
	(void) close(client);
	(void) close(server.fd);
}

static void of_many_checks_the_last_are_known(void **state)
{
	struct server server;
	int check, other;

	(void) state;
	listen_on_ipv4(&server);
	check = connect_ipv4(server.port);
	other = connect_ipv4(server.port);
	for (int i = 0; i < 2 * PROBE_SOCKETS_MAX; i++)
		probe_socket_note(other);
	probe_socket_note(check);
	assert_int_equal(count_open("127.0.0.1", server.port), 0);
	(void) close(check);
	(void) close(other);
	(void) close(server.fd);
}

static void ipv6_is_counted(void **state)
{
	struct server server;
	int client;

	(void) state;
	listen_on(&server, "::1", false);
	client = connect_ipv6(server.port);
	assert_int_equal(count_open("::1", server.port), 1);
	(void) close(client);
	(void) close(server.fd);
}

static void ipv4_to_a_server_of_both_families_is_counted_once(void **state)
{
	struct server server;
	int client, accepted;

	(void) state;
	listen_on(&server, "::", true);
	client = connect_ipv4(server.port);
	accepted = accept4(server.fd, NULL, NULL, SOCK_CLOEXEC);
	assert_int_equal(count_open("127.0.0.1", server.port), 1);
	(void) close(client);
	(void) close(accepted);
	(void) close(server.fd);
}

static void a_host_name_is_resolved(void **state)
{
	struct server server;
	int client;

	(void) state;
	listen_on_ipv4(&server);
	client = connect_ipv4(server.port);
	assert_int_equal(count_open("localhost", server.port), 1);
	(void) close(client);
	(void) close(server.fd);
}

static void a_client_that_has_asked_and_waits_is_in_flight(void **state)
{
	struct server server;
	int client, accepted;

	(void) state;
	listen_on_ipv4(&server);
	client = connect_ipv4(server.port);
	accepted = accept4(server.fd, NULL, NULL, SOCK_CLOEXEC);

	assert_int_equal(shutdown(client, SHUT_WR), 0);
	assert_int_equal(count_open("127.0.0.1", server.port), 1);

	(void) close(accepted);
	(void) close(client);
	(void) close(server.fd);
}

static void a_connection_that_the_server_has_ended_is_not_in_flight(void **state)
{
	struct server server;
	int client, accepted;

	(void) state;
	listen_on_ipv4(&server);
	client = connect_ipv4(server.port);
	accepted = accept4(server.fd, NULL, NULL, SOCK_CLOEXEC);

	(void) close(accepted);
	assert_int_equal(count_open("127.0.0.1", server.port), 0);

	(void) close(client);
	(void) close(server.fd);
}

static void many_ports_are_counted_in_one_dump(void **state)
{
	enum {
		SERVERS = 100
	};
	static struct server servers[SERVERS];
	static struct sock_diag_target targets[SERVERS];
	static int clients[SERVERS];
	struct sock_diag_sample *sample = NULL;
	struct usher_error err = {};

	(void) state;
	for (size_t i = 0; i < SERVERS; i++) {
		listen_on_ipv4(&servers[i]);
		targets[i] = (struct sock_diag_target){
			.address = "127.0.0.1", .port = servers[i].port, .open = 99
		};
		clients[i] = i % 2 ? connect_ipv4(servers[i].port) : -1;
	}

	assert_ok(sock_diag_count(targets, SERVERS, &sample, &err));
	for (size_t i = 0; i < SERVERS; i++)
		assert_int_equal(targets[i].open, i % 2);

	(void) sock_diag_sample_free(sample);
	for (size_t i = 0; i < SERVERS; i++) {
		(void) close(servers[i].fd);
		closep(&clients[i]);
	}
}

static void hundreds_of_connections_arrive_whole(void **state)
{
	enum {
		CLIENTS = 400
	};
	static int clients[CLIENTS], accepted[CLIENTS];
	struct server server;

	(void) state;
	listen_on_ipv4(&server);
	for (size_t i = 0; i < CLIENTS; i++) {
		clients[i] = connect_ipv4(server.port);
		accepted[i] = accept4(server.fd, NULL, NULL, SOCK_CLOEXEC);
	}

	assert_int_equal(count_open("127.0.0.1", server.port), CLIENTS);

	for (size_t i = 0; i < CLIENTS; i++) {
		(void) close(clients[i]);
		(void) close(accepted[i]);
	}
	(void) close(server.fd);
}

static void new_connections_are_told_from_old_ones(void **state)
{
	struct sock_diag_sample *before = NULL, *after = NULL;
	struct sock_diag_target target = { .address = "127.0.0.1" };
	struct usher_error err = {};
	struct server server;
	int old, fresh;

	(void) state;
	listen_on_ipv4(&server);
	target.port = server.port;
	old = connect_ipv4(server.port);
	assert_ok(sock_diag_count(&target, 1, &before, &err));
	assert_int_equal(sock_diag_count_new(before, 0, NULL, 0), 0);
	fresh = connect_ipv4(server.port);
	assert_ok(sock_diag_count(&target, 1, &after, &err));

	assert_int_equal(target.open, 2);
	assert_int_equal(sock_diag_count_new(after, 0, before, 0), 1);
	assert_int_equal(sock_diag_count_new(after, 0, after, 0), 0);

	(void) sock_diag_sample_free(before);
	(void) sock_diag_sample_free(after);
	(void) close(old);
	(void) close(fresh);
	(void) close(server.fd);
}

static void a_name_that_does_not_resolve_leaves_the_others_counted(void **state)
{
	struct sock_diag_target targets[] = { { .address = "no-such-host.invalid", .port = 80 },
		{ .address = "127.0.0.1" } };
	struct sock_diag_sample *sample = NULL;
	struct usher_error err = {};
	struct server server;
	int client;

	(void) state;
	listen_on_ipv4(&server);
	client = connect_ipv4(server.port);
	targets[1].port = server.port;
	assert_ok(sock_diag_count(targets, 2, &sample, &err));
	assert_int_equal(targets[0].code, -EHOSTUNREACH);
	assert_non_null(strstr(targets[0].fault, "no-such-host.invalid"));
	assert_int_equal(targets[1].code, 0);
	assert_int_equal(targets[1].open, 1);
	assert_int_equal(targets[1].address_count, 1);

	(void) sock_diag_sample_free(sample);
	(void) close(client);
	(void) close(server.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_seen_from_both_ends_is_one),
		cmocka_unit_test(the_checks_of_usherd_are_not_counted),
		cmocka_unit_test(of_many_checks_the_last_are_known),
		cmocka_unit_test(ipv6_is_counted),
		cmocka_unit_test(ipv4_to_a_server_of_both_families_is_counted_once),
		cmocka_unit_test(a_host_name_is_resolved),
		cmocka_unit_test(a_client_that_has_asked_and_waits_is_in_flight),
		cmocka_unit_test(a_connection_that_the_server_has_ended_is_not_in_flight),
		cmocka_unit_test(many_ports_are_counted_in_one_dump),
		cmocka_unit_test(hundreds_of_connections_arrive_whole),
		cmocka_unit_test(new_connections_are_told_from_old_ones),
		cmocka_unit_test(a_name_that_does_not_resolve_leaves_the_others_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
