/* usherctl check: what `usherd --check FILE` says. */

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "verbs.h"

static bool is_usherd(const char *path)
{
	return access(path, X_OK) == 0;
}

/* Beside usherctl, or in the sbin beside its bin. */
static bool find_beside(char *ret, size_t size)
{
	static const char *const places[] = { "usherd", "../sbin/usherd" };
	char own[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);
	char *slash;

	if (length <= 0)
		return false;
	own[length] = 0;
	slash = strrchr(own, '/');
	if (!slash)
		return false;
	slash[1] = 0;
	for (size_t i = 0; i < ELEMENTS(places); i++)
		if ((size_t) snprintf(ret, size, "%s%s", own, places[i]) < size && is_usherd(ret))
			return true;
	return false;
}

static bool find_in_path(char *ret, size_t size)
{
	static const char sbin[] = "/usr/local/sbin:/usr/sbin:/sbin";
	autofree char *places = NULL;
	const char *path = secure_getenv("PATH");
	char *rest, *folder;

	if (asprintf(&places, "%s:%s", path ? path : "", sbin) < 0)
		return false;
	rest = places;
	while ((folder = strsep(&rest, ":")))
		if (*folder && (size_t) snprintf(ret, size, "%s/usherd", folder) < size &&
				is_usherd(ret))
			return true;
	return false;
}

int verb_check(struct ctl *ctl)
{
	char program[PATH_MAX + 32];
	char name[] = "usherd", option[] = "--check";
	char *arguments[] = { name, option, ctl->arguments[0], NULL };
	pid_t pid;
	int r, status = 0;

	if (!find_beside(program, sizeof(program)) && !find_in_path(program, sizeof(program)))
		return ctl_fail(EXIT_FAILED,
				"there is no usherd beside usherctl, in the PATH or in /usr/sbin; install it, or put it in the PATH");
	r = posix_spawn(&pid, program, NULL, NULL, arguments, environ);
	if (r != 0)
		return ctl_fail(EXIT_FAILED, "cannot run %s: %s", program, strerrordesc_np(r));
	do {
		r = waitpid(pid, &status, 0);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return ctl_fail(EXIT_FAILED, "cannot wait for %s: %s", program,
				strerrordesc_np(errno));
	if (WIFSIGNALED(status))
		return ctl_fail(EXIT_FAILED, "%s was ended by signal %d", program,
				WTERMSIG(status));
	switch (WEXITSTATUS(status)) {
	case 0:
		return EXIT_DONE;
	case EXIT_USAGE:
		return EXIT_USAGE;
	default:
		return EXIT_FAILED;
	}
}
