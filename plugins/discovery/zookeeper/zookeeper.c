/* Discovery and registration in ZooKeeper.
 *
 * watch.c follows the nodes of the wanted services, registration.c and keeper.c make nodes and keep
 * them; folder.c is one service's nodes, value.c what one of them says, layout.c where they are;
 * session.c talks to the servers, in the words of protocol.c. */

#include "zookeeper.h"

#include <errno.h>
#include <stddef.h>

#include "keeper.h"
#include "layout.h"
#include "session.h"

#define TIMEOUT_MIN_USEC UINT64_C(1000000)
#define TIMEOUT_MAX_USEC UINT64_C(3600000000)
#define PROBE_MIN_USEC   UINT64_C(500000)
#define CONNECT_MIN_USEC UINT64_C(100000)

static const char *const acl_choices[] = { "open", "readable", "creator", NULL };

static int check_servers(const struct zookeeper *z, struct usher_error *reterr)
{
	size_t count = 0;
	int r = 0;

	for (; r == 0 && z->servers[count]; count++) {
		r = zk_server_check(z->servers[count], reterr);
		if (r < 0)
			return usher_error_prefix(reterr, r, "servers[%zu]", count);
	}
	if (count == 0 || count > ZK_SERVERS_MAX)
		return usher_error_set(reterr, -EINVAL, "servers: give 1 to %d", ZK_SERVERS_MAX);
	return 0;
}

static int check_user(const struct zookeeper *z, struct usher_error *reterr)
{
	if (!z->user && (z->password || z->password_file))
		return usher_error_set(reterr, -EINVAL, "user: is missing beside its password");
	if (z->user && !z->password == !z->password_file)
		return usher_error_set(reterr, -EINVAL,
				"user: needs either password or password_file beside it");
	if (!z->user && z->acl != ZK_ACL_OPEN)
		return usher_error_set(reterr, -EINVAL,
				"acl: other than open needs user and password, for it is of a user");
	return 0;
}

static int zookeeper_init(void *instance, struct usher_error *reterr)
{
	const struct zookeeper *z = instance;
	int r = check_servers(z, reterr);

	if (r == 0)
		r = zk_layout_check(z->chroot, z->layout, reterr);
	if (r == 0)
		r = check_user(z, reterr);
	if (r < 0)
		return r;
	if (z->session_timeout_usec < TIMEOUT_MIN_USEC ||
			z->session_timeout_usec > TIMEOUT_MAX_USEC)
		return usher_error_set(reterr, -ERANGE, "session_timeout: is not in 1s..1h");
	if (z->ttl_usec < TIMEOUT_MIN_USEC || z->ttl_usec > TIMEOUT_MAX_USEC)
		return usher_error_set(reterr, -ERANGE, "ttl: is not in 1s..1h");
	if (z->probe_usec < PROBE_MIN_USEC)
		return usher_error_set(reterr, -ERANGE, "probe: is shorter than 500ms");
	if (z->connect_timeout_usec < CONNECT_MIN_USEC)
		return usher_error_set(reterr, -ERANGE, "connect_timeout: is shorter than 100ms");
	return 0;
}

static void zookeeper_done(void *instance)
{
	struct zookeeper *z = instance;

	z->keeper = zk_keeper_free(z->keeper);
}

static const struct usher_option zookeeper_options[] = {
	{ .name = "servers",
			.type = USHER_OPTION_STRINGS,
			.offset = offsetof(struct zookeeper, servers),
			.flags = USHER_REQUIRED,
			.help = "The servers of the ensemble, as HOST or HOST:PORT (2181)." },
	{ .name = "chroot",
			.type = USHER_OPTION_STRING,
			.offset = offsetof(struct zookeeper, chroot),
			.help = "The node that stands for the root." },
	{ .name = "layout",
			.type = USHER_OPTION_STRING,
			.offset = offsetof(struct zookeeper, layout),
			.help = "The nodes of a service's instances, with /{service}/ in it and /{id} at "
				"its end.",
			.default_text = ZK_LAYOUT_DEFAULT },
	{ .name = "format",
			.type = USHER_OPTION_CHOICE,
			.offset = offsetof(struct zookeeper, format),
			.help = "How registered endpoints are written: as Spring Cloud, plain Curator, or "
				"Nerve does. All are read in any case.",
			.default_text = "spring",
			.choices = zk_format_choices },
	{ .name = "acl",
			.type = USHER_OPTION_CHOICE,
			.offset = offsetof(struct zookeeper, acl),
			.help = "Who may do what with registered nodes: open (anybody anything), readable "
				"(only the user may change them), creator (only the user may read them).",
			.default_text = "open",
			.choices = acl_choices },
	{ .name = "probe",
			.type = USHER_OPTION_DURATION,
			.offset = offsetof(struct zookeeper, probe_usec),
			.help = "How often ZooKeeper is asked to prove that what the watches told is all "
				"there is, at least 500ms.",
			.default_text = "5s" },
	{ .name = "session_timeout",
			.type = USHER_OPTION_DURATION,
			.offset = offsetof(struct zookeeper, session_timeout_usec),
			.help = "Of the session that watches; the servers have limits of their own.",
			.default_text = "10s" },
	{ .name = "ttl",
			.type = USHER_OPTION_DURATION,
			.offset = offsetof(struct zookeeper, ttl_usec),
			.help = "Of the session that registers: how long a registered endpoint stays when "
				"nobody keeps it alive any more; the servers have limits of their own.",
			.default_text = "30s" },
	{ .name = "connect_timeout",
			.type = USHER_OPTION_DURATION,
			.offset = offsetof(struct zookeeper, connect_timeout_usec),
			.help = "How long a server may take to open a session before the next is tried.",
			.default_text = "3s" },
	{ .name = "read_only",
			.type = USHER_OPTION_BOOL,
			.offset = offsetof(struct zookeeper, read_only),
			.help = "Whether a server that has lost its majority may tell what it last knew, "
				"where nothing is known yet." },
	{ .name = "user",
			.type = USHER_OPTION_STRING,
			.offset = offsetof(struct zookeeper, user),
			.help = "For the scheme digest." },
	{ .name = "password",
			.type = USHER_OPTION_STRING,
			.offset = offsetof(struct zookeeper, password),
			.flags = USHER_SECRET,
			.help = "The user's password; better in a file." },
	{ .name = "password_file",
			.type = USHER_OPTION_PATH,
			.offset = offsetof(struct zookeeper, password_file),
			.help = "A file with the user's password in its first line, read again when it changes." },
	{ .name = NULL },
};

static const struct usher_discovery zookeeper_discovery = {
	.size = sizeof(zookeeper_discovery),
	.run = zookeeper_run,
};

static const struct usher_registration zookeeper_registration = {
	.size = sizeof(zookeeper_registration),
	.add = zookeeper_add,
	.renew = zookeeper_renew,
	.set_state = zookeeper_set_state,
	.remove = zookeeper_remove,
	.renew_after_usec = zookeeper_renew_after_usec,
};

USHER_PLUGIN(.name = "zookeeper", .summary = "Endpoints from ZooKeeper, and ephemeral registration",
		.instance_size = sizeof(struct zookeeper), .options = zookeeper_options,
		.init = zookeeper_init, .done = zookeeper_done, .discovery = &zookeeper_discovery,
		.registration = &zookeeper_registration);
