#pragma once

/* The way to a path: every folder in which some name decides where it leads.
 *
 * Symbolic links are followed by hand, so that the folder of each link is on the way, too. Thread:
 * any. */

#include <stdbool.h>
#include <sys/stat.h>

#define PATH_WALK_LINKS_MAX 40 /* as the kernel's */

struct path_step {
	const char *folder; /* absolute, with no link in it; valid for the call */
	const char *name;   /* what is looked up there */
	bool final;         /* the path's own entry, or a link: not just a folder passed through */
};

/* Called for each step before the name is looked up, so that a watch set in it misses nothing. A
 * negative value ends the walk. */
typedef int (*path_step_handler)(void *userdata, const struct path_step *step);

/* Walk an absolute path as far as it goes. > 0: something is there, and ret_real (PATH_MAX bytes)
 * is its path with no link in it; 0: the way ends early. Errors: what the handler returns, EINVAL,
 * ELOOP, ENAMETOOLONG. */
int path_walk(const char *path, path_step_handler handler, void *userdata, char *ret_real);
