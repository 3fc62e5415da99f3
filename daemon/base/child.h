#pragma once

/* Programs that are run for somebody: without a shell, with nothing on their standard input, both
 * outputs to one descriptor, no other descriptor of ours, no signal blocked or ignored, and a
 * process group of their own, so that what they start ends with them. */

#include <stddef.h>
#include <sys/types.h>

/* Returns once the program runs. Errors: those of exec (ENOENT, EACCES, ENOEXEC, ...), EAGAIN,
 * ENOMEM. */
int child_spawn(char *const *argv, char *const *env, int output, pid_t *ret);

/* Our own environment without what is the daemon's business (the notify socket and its like), as a
 * list with room for `more` more and the NULL at its end; *ret_count has been filled in. Free with
 * child_strings_free(). */
int child_environment(size_t more, char ***ret, size_t *ret_count);
/* One more string of a list that has room for it. Errors: ENOMEM. */
__attribute__((format(printf, 3, 4))) int child_add_string(
		char **strings, size_t *count, const char *format, ...);
char **child_strings_free(char **strings);

/* With its group, which it may have left. Only while it was not reaped: its id is its own until
 * then. Errors: EPERM (it runs as somebody else by now). */
int child_kill(pid_t pid);
