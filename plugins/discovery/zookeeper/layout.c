#include "layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <usher/endpoint.h>

#define SERVICE "/{service}"
#define ID      "/{id}"

static bool is_name(const char *name, size_t size)
{
	if (size == 0 || (size == 1 && name[0] == '.') ||
			(size == 2 && name[0] == '.' && name[1] == '.'))
		return false;
	for (size_t i = 0; i < size; i++)
		if ((unsigned char) name[i] < ' ' || name[i] == 0x7f)
			return false;
	return true;
}

bool zk_path_is_valid(const char *path)
{
	if (path[0] != '/' || strlen(path) > ZK_PATH_MAX)
		return false;
	if (path[1] == '\0')
		return true;
	for (const char *name = path; *name == '/';) {
		size_t size = strcspn(++name, "/");

		if (!is_name(name, size))
			return false;
		name += size;
	}
	return true;
}

bool zk_layout_is_id(const char *id)
{
	size_t size = strlen(id);

	return size <= USHER_TEXT_MAX && !memchr(id, '/', size) && is_name(id, size);
}

static const char *root_of(const char *chroot)
{
	return chroot && strcmp(chroot, "/") != 0 ? chroot : "";
}

int zk_layout_check(const char *chroot, const char *layout, struct usher_error *reterr)
{
	const char *service = strstr(layout, SERVICE), *id = strstr(layout, ID);
	const char *behind = service ? service + strlen(SERVICE) : NULL;

	if (chroot && !zk_path_is_valid(chroot))
		return usher_error_set(reterr, -EINVAL,
				"chroot: \"%.200s\" is no path of ZooKeeper, as \"/apps\" is",
				chroot);
	if (!service || behind[0] != '/' || strstr(behind, SERVICE))
		return usher_error_set(reterr, -EINVAL,
				"layout: \"%.200s\" has to have /{service}/ in it once, as in \"%s\"",
				layout, ZK_LAYOUT_DEFAULT);
	if (!id || id < behind || id[strlen(ID)] != '\0')
		return usher_error_set(reterr, -EINVAL,
				"layout: \"%.200s\" has to end in /{id}, as in \"%s\"", layout,
				ZK_LAYOUT_DEFAULT);
	if (!zk_path_is_valid(layout))
		return usher_error_set(reterr, -EINVAL,
				"layout: \"%.200s\" is no path of ZooKeeper, as \"%s\" is", layout,
				ZK_LAYOUT_DEFAULT);
	return 0;
}

int zk_layout_folder(const char *chroot, const char *layout, const char *service, char **ret,
		struct usher_error *reterr)
{
	const char *at = strstr(layout, SERVICE);
	const char *behind = at + strlen(SERVICE);
	char *path;

	/* A slash before the name of the service is what some put there, and means nothing. */
	while (*service == '/')
		service++;
	if (asprintf(&path, "%s%.*s/%s%.*s", root_of(chroot), (int) (at - layout), layout, service,
			    (int) (strlen(behind) - strlen(ID)), behind) < 0)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	if (!zk_path_is_valid(path)) {
		free(path);
		return usher_error_set(reterr, -EINVAL,
				"the name \"%.200s\" cannot be in a path of ZooKeeper", service);
	}
	*ret = path;
	return 0;
}

char *zk_layout_base(const char *chroot, const char *layout)
{
	char *path;

	if (asprintf(&path, "%s%.*s", root_of(chroot), (int) (strstr(layout, SERVICE) - layout),
			    layout) < 0)
		return NULL;
	if (path[0] == '\0') {
		free(path);
		return strdup("/");
	}
	return path;
}
