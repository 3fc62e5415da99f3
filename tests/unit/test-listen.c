#include <fcntl.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "door.h"
#include "fake-core.h"
#include "listen.h"
#include "test.h"

static char folder[64], path[108], deep[108];
static struct usher_error error;

static int start(void **state)
{
	(void) state;
	error = (struct usher_error){};
	(void) snprintf(folder, sizeof(folder), "/tmp/usher-listen-XXXXXX");
	assert_non_null(mkdtemp(folder));
	(void) snprintf(path, sizeof(path), "%s/usher.sock", folder);
	(void) snprintf(deep, sizeof(deep), "%s/run/usher.sock", folder);
	return 0;
}

static int stop(void **state)
{
	char sub[80];

	(void) state;
	(void) unlink(path);
	(void) unlink(deep);
	(void) snprintf(sub, sizeof(sub), "%s/run", folder);
	(void) rmdir(sub);
	return rmdir(folder);
}

static struct listen_config config_of(char *socket_path, mode_t mode)
{
	return (struct listen_config){ .socket = socket_path, .mode = mode };
}

static int connect_to(const char *to)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void) snprintf(address.sun_path, sizeof(address.sun_path), "%s", to);
	if (connect(fd, (struct sockaddr *) &address, sizeof(address)) == 0)
		return fd;
	(void) close(fd);
	return -errno;
}

static void a_socket_has_the_mode_of_the_configuration(void **state)
{
	static const mode_t modes[] = { 0666, 0660, 0600 };

	(void) state;
	for (size_t i = 0; i < ELEMENTS(modes); i++) {
		struct listen_config config = config_of(path, modes[i]);
		struct listen_socket made;
		struct stat st;

		assert_ok(listen_unix(&config, &made, &error));
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 0777, modes[i]);
		assert_true(listen_is_listening(made.fd));
		listen_unix_remove(path, &made);
		(void) close(made.fd);
		assert_int_equal(access(path, F_OK), -1);
	}
}

static void a_socket_has_the_owner_and_group_of_the_configuration(void **state)
{
	struct listen_config config = config_of(path, 0660);
	char group[] = "daemon", owner[] = "1";
	struct listen_socket made;
	struct stat st;

	(void) state;
	if (geteuid() != 0)
		skip();
	config.group = group;
	config.owner = owner;
	assert_ok(listen_unix(&config, &made, &error));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_gid, getgrnam("daemon")->gr_gid);
	assert_int_equal(st.st_uid, 1);
	(void) close(made.fd);
}

static void an_unknown_group_is_refused_and_leaves_nothing_behind(void **state)
{
	struct listen_config config = config_of(path, 0660);
	char group[] = "no-such-group";
	struct listen_socket made;

	(void) state;
	config.group = group;
	assert_errno(listen_unix(&config, &made, &error), ENOENT);
	assert_non_null(strstr(error.text, "there is no group no-such-group"));
	assert_int_equal(access(path, F_OK), -1);
}

static void a_dead_leftover_is_replaced(void **state)
{
	struct listen_config config = config_of(path, 0666);
	struct listen_socket dead, made;
	int client;

	(void) state;
	assert_ok(listen_unix(&config, &dead, &error));
	(void) close(dead.fd);
	assert_errno(connect_to(path), ECONNREFUSED);
	assert_ok(listen_unix(&config, &made, &error));
	client = connect_to(path);
	assert_true(client >= 0);
	(void) close(client);
	(void) close(made.fd);
}

static void a_live_socket_is_refused_with_who_answers_there(void **state)
{
	struct listen_config config = config_of(path, 0666);
	struct listen_socket live, made;
	char who[32];
	int client;

	(void) state;
	assert_ok(listen_unix(&config, &live, &error));
	assert_errno(listen_unix(&config, &made, &error), EADDRINUSE);
	(void) snprintf(who, sizeof(who), "pid %d", (int) getpid());
	assert_non_null(strstr(error.text, path));
	assert_non_null(strstr(error.text, who));
	client = connect_to(path);
	assert_true(client >= 0);
	(void) close(client);
	(void) close(live.fd);
}

static void a_file_in_the_way_is_kept(void **state)
{
	struct listen_config config = config_of(path, 0666);
	struct listen_socket made;
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	(void) state;
	(void) close(fd);
	assert_errno(listen_unix(&config, &made, &error), EEXIST);
	assert_int_equal(access(path, F_OK), 0);
}

static void a_missing_folder_is_made(void **state)
{
	struct listen_config config = config_of(deep, 0666);
	struct listen_socket made;

	(void) state;
	assert_ok(listen_unix(&config, &made, &error));
	listen_unix_remove(deep, &made);
	(void) close(made.fd);
}

static void a_path_that_no_socket_can_have_is_refused(void **state)
{
	char far[200];
	struct listen_config config = config_of(far, 0666);
	struct listen_socket made;

	(void) state;
	memset(far, 'x', sizeof(far) - 1);
	far[0] = '/';
	far[sizeof(far) - 1] = '\0';
	assert_errno(listen_unix(&config, &made, &error), ENAMETOOLONG);
}

static void anothers_socket_is_not_removed(void **state)
{
	struct listen_config config = config_of(path, 0666);
	struct listen_socket first, second;

	(void) state;
	assert_ok(listen_unix(&config, &first, &error));
	(void) close(first.fd);
	/* Keep the inode busy, so that the next file cannot have the same number. */
	assert_int_equal(rename(path, deep), -1);
	(void) snprintf(deep, sizeof(deep), "%s/kept", folder);
	assert_int_equal(rename(path, deep), 0);
	assert_ok(listen_unix(&config, &second, &error));
	listen_unix_remove(path, &first);
	assert_int_equal(access(path, F_OK), 0);
	(void) close(second.fd);
}

static void the_http_door_wants_an_address_and_a_port(void **state)
{
	int fd;

	(void) state;
	assert_errno(listen_tcp("example.org:80", &fd, &error), EINVAL);
	assert_errno(listen_tcp("127.0.0.1", &fd, &error), EINVAL);
	assert_errno(listen_tcp("", &fd, &error), EINVAL);
}

static void a_door_lets_in_who_may_write_to_its_file(void **state)
{
	const gid_t groups[] = { 5, 6, 7 };
	struct door door = { .uid = 100, .gid = 6, .mode = 0660 };

	(void) state;
	assert_true(door_lets(&door, 0, 0, NULL, 0));
	assert_true(door_lets(&door, geteuid(), 4711, NULL, 0));
	assert_true(door_lets(&door, 100, 4711, NULL, 0));
	assert_true(door_lets(&door, 4711, 6, NULL, 0));
	assert_true(door_lets(&door, 4711, 4711, groups, 3));
	assert_false(door_lets(&door, 4711, 4711, NULL, 0));
	door.mode = 0600;
	assert_false(door_lets(&door, 4711, 6, groups, 3));
	door.mode = 0666;
	assert_true(door_lets(&door, 4711, 4711, NULL, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, start, stop)
		T(a_socket_has_the_mode_of_the_configuration),
		T(a_socket_has_the_owner_and_group_of_the_configuration),
		T(an_unknown_group_is_refused_and_leaves_nothing_behind),
		T(a_dead_leftover_is_replaced),
		T(a_live_socket_is_refused_with_who_answers_there),
		T(a_file_in_the_way_is_kept),
		T(a_missing_folder_is_made),
		T(a_path_that_no_socket_can_have_is_refused),
		T(anothers_socket_is_not_removed),
		T(the_http_door_wants_an_address_and_a_port),
		T(a_door_lets_in_who_may_write_to_its_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
