#pragma once

/* Where the instances of a service are: "/services/{service}/{id}".
 *
 * {service} is one name on the way, {id} the last. A service whose name has a "/" in it lies
 * deeper.
 */

#include <stdbool.h>
#include <stddef.h>
#include <usher/error.h>

#define ZK_LAYOUT_DEFAULT "/services/{service}/{id}"
#define ZK_PATH_MAX       4096 /* bytes of a path */

/* Whether it is a path that ZooKeeper takes: from the root, without "//", ".", "..", a "/" at its
 * end, or control characters. */
bool zk_path_is_valid(const char *path);

/* chroot: NULL or a path. EINVAL. */
int zk_layout_check(const char *chroot, const char *layout, struct usher_error *reterr);

/* The node that holds the service's instances; to be freed. Errors: EINVAL (the name cannot be in a
 * path), ENOMEM. */
int zk_layout_folder(const char *chroot, const char *layout, const char *service, char **ret,
		struct usher_error *reterr);
/* The node that holds the services; to be freed. NULL: out of memory. */
char *zk_layout_base(const char *chroot, const char *layout);

/* Whether it can be the name of an instance's node. */
bool zk_layout_is_id(const char *id);
