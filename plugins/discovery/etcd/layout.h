#pragma once

/* Where a service's keys are: "/services/{service}/{id}".
 *
 * All keys of a service have one prefix, and what stands behind it is the id of an instance. A key
 * with a further "/" behind the prefix belongs to somebody else. */

#include <stdbool.h>
#include <stddef.h>
#include <usher/error.h>

#define ETCD_LAYOUT_DEFAULT "/services/{service}/{id}"

/* EINVAL: {service} is missing or comes twice, nothing stands between it and {id}, or {id} is not
 * the end. */
int etcd_layout_check(const char *layout, struct usher_error *reterr);

/* The prefix of a service's keys, to be freed; NULL: out of memory. */
char *etcd_layout_prefix(const char *layout, const char *service);

/* The first key behind all that have the prefix, of `*ret_size` bytes, to be freed. A prefix of
 * 0xff alone has none: that is "\0", which etcd takes for the end of all keys. NULL: out of memory.
 */
char *etcd_layout_end(const char *prefix, size_t size, size_t *ret_size);

/* Whether what stands behind the prefix can be an instance's id: no "/", nothing that a terminal
 * would obey. */
bool etcd_layout_is_id(const char *rest, size_t size);
