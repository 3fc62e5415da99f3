/* What a person configured to be run at a step. */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hook-kind.h"
#include "ownership.h"
#include "placeholders.h"

void hook_host_done(struct hook_host *host)
{
	host->bus = sd_bus_flush_close_unref(host->bus);
}

void hook_finish(struct hook *hook, int r, const char *text)
{
	hook_done done = hook->done;

	hook->done = NULL;
	if (done)
		done(hook->userdata, r, text);
}

struct hook *hook_free(struct hook *hook)
{
	if (!hook)
		return NULL;
	hook->done = NULL;
	free(hook->service);
	free(hook->endpoint);
	free(hook->drain);
	free(hook->step);
	hook->release(hook);
	return NULL;
}
DEFINE_CLEANUP(struct hook, hook_free);

int hook_expand(const char *text, const struct hook_call *call, bool url, char **ret,
		struct usher_error *reterr)
{
	const struct placeholders from = { .service = call->service,
		.set = call->endpoint,
		.ready = call->ready ? "true" : "false" };

	return placeholders_expand(text, &from, url, ret, reterr);
}

static int start_kind(struct hook_host *host, const struct hook_call *call, struct hook **ret,
		struct usher_error *reterr)
{
	switch (call->config->kind) {
	case HOOK_EXEC:
		return hook_exec_start(host, call, ret, reterr);
	case HOOK_HTTP:
		return hook_http_start(host, call, ret, reterr);
	case HOOK_SYSTEMD:
		return hook_systemd_start(host, call, ret, reterr);
	case HOOK_NONE:
		break;
	}
	return -EINVAL;
}

int hook_start(struct hook_host *host, const struct hook_call *call, hook_done done, void *userdata,
		struct hook **ret, struct usher_error *reterr)
{
	cleanup(hook_freep) struct hook *hook = NULL;
	int r;

	assert(call->endpoint && usher_endpoints_count(call->endpoint) == 1);

	r = start_kind(host, call, &hook, reterr);
	if (r < 0)
		return usher_error_prefix(reterr, r, "%s hook", call->step);
	hook->service = strdup(call->service);
	hook->endpoint = strdup(usher_endpoints_id(call->endpoint, 0));
	hook->drain = strdup(call->drain);
	hook->step = strdup(call->step);
	if (!hook->service || !hook->endpoint || !hook->drain || !hook->step)
		return -ENOMEM;

	hook->done = done;
	hook->userdata = userdata;
	*ret = take(hook);
	return 0;
}
