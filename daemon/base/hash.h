#pragma once

/* uthash that answers when memory is short instead of ending the process: after HASH_ADD*(), an
 * element that could not be added has hash_was_added(element) false. */

#define HASH_NONFATAL_OOM            1
#define uthash_nonfatal_oom(element) ((element)->hh.tbl = NULL)

#include <uthash.h>

#define hash_was_added(element) ((element)->hh.tbl != NULL)
