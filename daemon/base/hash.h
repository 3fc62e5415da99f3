#pragma once

/* uthash with xxHash, that answers when memory is short instead of ending the process: after
 * HASH_ADD*(), an element that could not be added has hash_was_added(element) false. */

#include <xxhash.h>

#define HASH_FUNCTION(key, size, hash) ((hash) = (unsigned) XXH3_64bits(key, size))
#define HASH_NONFATAL_OOM              1
#define uthash_nonfatal_oom(element)   ((element)->hh.tbl = NULL)

#include <uthash.h>

#define hash_was_added(element) ((element)->hh.tbl != NULL)
