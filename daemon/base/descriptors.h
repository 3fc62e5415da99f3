#pragma once

/* How many descriptors may be open. The limit that a process is started with is low, for the sake
 * of programs that use select(2); thousands of checks and consumers need the one that it may have.
 */

#include <sys/types.h>

/* Raise the soft limit to the hard one. Before other threads start. */
void descriptors_raise_limit(void);
/* A program that we have started gets the limit that we were started with. */
void descriptors_restore_limit(pid_t pid);
