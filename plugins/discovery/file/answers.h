#pragma once

/* What the source last told the host of each wanted service. Thread: the source's. */

#include <usher/plugin.h>

#include "files.h"

struct answer {
	char *service, *name, *port; /* port may be NULL */
	struct usher_endpoints *set; /* the last offered; NULL: never */
	enum usher_verdict verdict;  /* with it */
	int failure;                 /* what was said since then; 0: nothing */
	char *reason;
};

struct answers {
	struct answer *all; /* sorted by service */
	size_t count;
};

/* Tell the host of every wanted service: an offer where it has changed, a confirmation where it has
 * not, a failure where nobody can know. change: of files_refresh. ENOMEM. */
int answers_tell(struct answers *a, struct usher_source *source, const struct files *files,
		int change, uint64_t observed_usec);
void answers_done(struct answers *a);
