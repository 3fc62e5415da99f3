/* A job for a worker thread whose owner may stop caring about it. */

#include "errand.h"

#include <stddef.h>

static void errand_run(struct job *job)
{
	struct errand *errand = (struct errand *) job;

	errand->run(errand);
}

static void errand_done(struct job *job, bool cancelled)
{
	struct errand *errand = (struct errand *) job;

	(void) cancelled; /* then it says what it was born with */
	if (errand->finished)
		errand->finished(errand->userdata, errand);
	errand->release(errand);
}

int errand_start(struct errand *errand, struct worker *worker)
{
	int r;

	errand->job.run = errand_run;
	errand->job.done = errand_done;
	r = worker_submit(worker, &errand->job);
	if (r < 0)
		errand->release(errand);
	return r;
}

void *errand_forget(struct errand *errand)
{
	if (errand)
		errand->finished = NULL;
	return NULL;
}
