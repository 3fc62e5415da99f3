/* Programs that are run for somebody. */

#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "descriptors.h"
#include "ownership.h"

DEFINE_CLEANUP(char *, child_strings_free);

/* ---- what it gets ---- */

char **child_strings_free(char **strings)
{
	for (char **s = strings; s && *s; s++)
		free(*s);
	free(strings);
	return NULL;
}

int child_add_string(char **strings, size_t *count, const char *format, ...)
{
	va_list ap;
	char *text;
	int r;

	va_start(ap, format);
	r = vasprintf(&text, format, ap);
	va_end(ap);
	if (r < 0)
		return -ENOMEM;
	strings[(*count)++] = text;
	return 0;
}

/* What is the daemon's own business. */
static bool is_private(const char *variable)
{
	static const char *const prefixes[] = { "NOTIFY_SOCKET=", "WATCHDOG_", "LISTEN_", "USHER_",
		"JOURNAL_STREAM=", "MANAGERPID=", "INVOCATION_ID=" };

	for (size_t i = 0; i < ELEMENTS(prefixes); i++)
		if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return false;
}

int child_environment(size_t more, char ***ret, size_t *ret_count)
{
	cleanup(child_strings_freep) char **env = NULL;
	size_t inherited = 0, count = 0;

	while (environ[inherited])
		inherited++;
	env = calloc(inherited + more + 1, sizeof(*env));
	if (!env)
		return -ENOMEM;
	for (size_t i = 0; i < inherited; i++)
		if (!is_private(environ[i]) && child_add_string(env, &count, "%s", environ[i]) < 0)
			return -ENOMEM;

	*ret = take(env);
	*ret_count = count;
	return 0;
}

/* ---- its start and its end ---- */

static void set_attributes(posix_spawnattr_t *attr)
{
	sigset_t none, all;

	(void) sigemptyset(&none);
	(void) sigfillset(&all);
	(void) posix_spawnattr_setpgroup(attr, 0);
	(void) posix_spawnattr_setsigmask(attr, &none);
	(void) posix_spawnattr_setsigdefault(attr, &all);
	(void) posix_spawnattr_setflags(attr,
			POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

int child_spawn(char *const *argv, char *const *env, int output, pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int fault;

	if (posix_spawn_file_actions_init(&actions) != 0)
		return -ENOMEM;
	if (posix_spawnattr_init(&attr) != 0) {
		(void) posix_spawn_file_actions_destroy(&actions);
		return -ENOMEM;
	}
	set_attributes(&attr);

	fault = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (fault == 0)
		fault = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
	if (fault == 0)
		fault = posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
	/* Each of ours is closed on exec; a library's might not be. */
	if (fault == 0)
		fault = posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
	if (fault == 0)
		fault = posix_spawnp(ret, argv[0], &actions, &attr, argv, env);
	if (fault == 0)
		descriptors_restore_limit(*ret);

	(void) posix_spawnattr_destroy(&attr);
	(void) posix_spawn_file_actions_destroy(&actions);
	return -fault;
}

int child_kill(pid_t pid)
{
	(void) kill(-pid, SIGKILL);
	return kill(pid, SIGKILL) < 0 ? -errno : 0;
}
