#include "path-walk.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct walk {
	char real[PATH_MAX]; /* as far as it has been walked; "" is the root */
	char rest[PATH_MAX]; /* what is left */
	unsigned links;
};

/* Cut the first component off rest. Returns its length; 0: nothing is left. */
static size_t next_component(struct walk *walk, char name[NAME_MAX + 1])
{
	char *start = walk->rest + strspn(walk->rest, "/");
	size_t length = strcspn(start, "/");

	if (length > NAME_MAX)
		return SIZE_MAX;
	memcpy(name, start, length);
	name[length] = '\0';
	memmove(walk->rest, start + length, strlen(start + length) + 1);
	return length;
}

static bool anything_left(const struct walk *walk)
{
	return walk->rest[strspn(walk->rest, "/")] != '\0';
}

static void go_up(struct walk *walk)
{
	char *slash = strrchr(walk->real, '/');

	if (slash)
		*slash = '\0';
}

static int append_name(struct walk *walk, const char *name)
{
	size_t used = strlen(walk->real);
	int n;

	n = snprintf(walk->real + used, sizeof(walk->real) - used, "/%s", name);
	return n < 0 || (size_t) n >= sizeof(walk->real) - used ? -ENAMETOOLONG : 0;
}

/* real is a link: go on with what it says. */
static int follow_link(struct walk *walk)
{
	char target[PATH_MAX], rest[PATH_MAX];
	ssize_t length;
	int n;

	if (++walk->links > PATH_WALK_LINKS_MAX)
		return -ELOOP;
	length = readlink(walk->real, target, sizeof(target) - 1);
	if (length <= 0)
		return 0; /* it went away meanwhile: the way ends here */
	target[length] = '\0';
	n = snprintf(rest, sizeof(rest), "%s/%s", target, walk->rest);
	if (n < 0 || (size_t) n >= sizeof(rest))
		return -ENAMETOOLONG;
	memcpy(walk->rest, rest, (size_t) n + 1);
	go_up(walk);
	if (target[0] == '/')
		walk->real[0] = '\0';
	return 1;
}

/* Look one name up. 1: go on; 0: the way ends. */
static int walk_name(struct walk *walk, const char *name, path_step_handler handler, void *userdata)
{
	struct path_step step = { .folder = walk->real[0] ? walk->real : "/", .name = name };
	struct stat status = {};
	char looked[PATH_MAX];
	bool link;
	int n, r;

	n = snprintf(looked, sizeof(looked), "%s/%s", walk->real, name);
	if (n < 0 || (size_t) n >= sizeof(looked))
		return -ENAMETOOLONG;
	link = lstat(looked, &status) == 0 && S_ISLNK(status.st_mode);
	step.final = link || !anything_left(walk);
	r = handler(userdata, &step);
	if (r < 0)
		return r;

	/* Again, now that the folder is watched. */
	if (lstat(looked, &status) < 0)
		return 0;
	r = append_name(walk, name);
	if (r < 0)
		return r;
	if (S_ISLNK(status.st_mode))
		return follow_link(walk);
	return S_ISDIR(status.st_mode) || !anything_left(walk);
}

int path_walk(const char *path, path_step_handler handler, void *userdata, char *ret_real)
{
	struct walk walk = {};

	assert(path);
	assert(handler);
	assert(ret_real);

	if (path[0] != '/')
		return -EINVAL;
	if (strlen(path) >= sizeof(walk.rest))
		return -ENAMETOOLONG;
	memcpy(walk.rest, path, strlen(path) + 1);

	for (;;) {
		char name[NAME_MAX + 1];
		size_t length = next_component(&walk, name);
		int r;

		if (length == SIZE_MAX)
			return -ENAMETOOLONG;
		if (length == 0)
			break;
		if (strcmp(name, ".") == 0)
			continue;
		if (strcmp(name, "..") == 0) {
			go_up(&walk);
			continue;
		}
		r = walk_name(&walk, name, handler, userdata);
		if (r <= 0)
			return r;
	}
	(void) snprintf(ret_real, PATH_MAX, "%s", walk.real[0] ? walk.real : "/");
	return 1;
}
