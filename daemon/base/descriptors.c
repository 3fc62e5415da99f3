#include "descriptors.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

static struct rlimit original;
static bool is_raised;

void descriptors_raise_limit(void)
{
	struct rlimit limit;

	if (is_raised || getrlimit(RLIMIT_NOFILE, &original) < 0)
		return;
	limit = original;
	limit.rlim_cur = limit.rlim_max;
	is_raised = setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

void descriptors_restore_limit(pid_t pid)
{
	if (is_raised)
		(void) prlimit(pid, RLIMIT_NOFILE, &original, NULL);
}
