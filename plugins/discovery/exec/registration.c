/* Registration by the same program: it gets a verb, the service and the endpoint's id as words
 * behind its own, and the endpoint as JSON to read. */

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "exec.h"
#include "own-json.h"
#include "own.h"
#include "program.h"
#include "retry.h"

/* Until it ends, the time is over, or usherd stops. */
static int wait_for(const struct exec *e, struct program *p, struct usher_error *reterr)
{
	uint64_t until = retry_now_usec() + e->timeout_usec;

	for (;;) {
		struct pollfd fds[] = { { .fd = program_fd(p), .events = POLLIN },
			{ .fd = e->stop_fd > 0 ? e->stop_fd : -1, .events = POLLIN } };
		uint64_t now = retry_now_usec();
		char text[USHER_DURATION_TEXT_MAX];
		int r;

		if (now >= until)
			return program_error(p, reterr, -ETIMEDOUT,
					"has not ended within its timeout of %s",
					usher_duration_format(e->timeout_usec, text));
		(void) poll(fds, 2, (int) ((until - now) / 1000 + 1));
		r = program_process(p, reterr);
		if (r != 0)
			return r < 0 ? r : program_judge(p, reterr);
		if (fds[1].revents)
			return program_error(
					p, reterr, -ECANCELED, "is ended, for its source stops");
	}
}

static int run(const struct exec *e, const char *const *words, json_t *input,
		struct usher_error *reterr)
{
	autofree char *text = input ? json_dumps(input, JSON_COMPACT) : NULL;
	struct program *p = NULL;
	int r;

	if (!e->registers)
		return usher_error_set(reterr, -EROFS,
				"the program only tells where services live; if it knows the verbs "
				"add, renew, set-state and remove, set `registers: true`");
	if (!text)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	r = program_start(e, words, text, &p, reterr);
	if (r == 0)
		r = wait_for(e, p, reterr);
	(void) program_free(p);
	return r < 0 ? usher_error_prefix(reterr, r, "%s", words[0]) : 0;
}

/* In usher's own format; what is not said is left out. */
static json_t *describe(const struct usher_endpoint *e)
{
	json_t *metadata = json_object();
	int r = metadata ? 0 : -1;

	for (size_t i = 0; r == 0 && e->metadata && i < e->metadata_count; i++)
		r = json_object_set_new(
				metadata, e->metadata[i].name, json_string(e->metadata[i].value));
	if (r < 0) {
		json_decref(metadata);
		return NULL;
	}
	return json_pack("{s:s*, s:s*, s:s, s:i, s:s*, s:i, s:b, s:b, s:b, s:b, s:s, s:o}", "id",
			e->id, "uid", e->uid, "address", e->address, "port", (int) e->port, "zone",
			e->zone, "weight", (int) e->weight, "secure", (int) e->secure, "ready",
			(int) e->ready, "serving", (int) e->serving, "terminating",
			(int) e->terminating, "state", usher_admin_state_to_string(e->admin_state),
			"metadata", metadata);
}

int registration_add(void *instance, const struct usher_wanted *service,
		const struct usher_endpoint *endpoint, struct usher_error *reterr)
{
	char authority[USHER_AUTHORITY_MAX];
	const char *id = endpoint->id
			? endpoint->id
			: usher_authority_format(endpoint->address, endpoint->port, authority);
	autojson json_t *input = json_pack("{s:s, s:s, s:o}", "service", service->name, "id", id,
			"endpoint", describe(endpoint));

	return run(instance, (const char *const[]){ "add", service->name, id, NULL }, input,
			reterr);
}

int registration_renew(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	const struct exec *e = instance;
	autojson json_t *input = NULL;

	if (e->registers && e->renew_usec == 0)
		return 0;
	input = json_pack("{s:s, s:s}", "service", service->name, "id", id);
	return run(e, (const char *const[]){ "renew", service->name, id, NULL }, input, reterr);
}

int registration_set_state(void *instance, const struct usher_wanted *service, const char *id,
		enum usher_admin_state state, struct usher_error *reterr)
{
	const char *word = usher_admin_state_to_string(state);
	autojson json_t *input = json_pack(
			"{s:s, s:s, s:s}", "service", service->name, "id", id, "state", word);

	return run(instance, (const char *const[]){ "set-state", service->name, id, word, NULL },
			input, reterr);
}

int registration_remove(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	autojson json_t *input = json_pack("{s:s, s:s}", "service", service->name, "id", id);
	int r = run(instance, (const char *const[]){ "remove", service->name, id, NULL }, input,
			reterr);

	return r == -ENOENT ? 0 : r; /* it is gone, as it should be */
}

uint64_t registration_renew_after_usec(const void *instance)
{
	const struct exec *e = instance;

	return e->registers ? e->renew_usec : 0;
}
