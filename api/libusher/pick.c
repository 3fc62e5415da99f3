#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <usher/client.h>

#include <jansson.h>

#include "api-problem.h"
#include "choice.h"
#include "ownership.h"
#include "path-segment.h"
#include "watch-line.h"

static int pick_parse(const json_t *answer, struct usher_choice *ret, struct usher_error *reterr)
{
	struct watch_freshness freshness;
	struct watch_endpoint endpoint;
	json_int_t revision = json_integer_value(json_object_get(answer, "revision"));
	struct usher_choice choice = {};
	int r;

	r = watch_endpoint_parse(json_object_get(answer, "endpoint"), &endpoint, reterr);
	if (r < 0)
		return r;
	r = watch_freshness_parse(json_object_get(answer, "freshness"), &freshness, reterr);
	if (r < 0)
		return r;
	(void) snprintf(choice.id, sizeof(choice.id), "%s", endpoint.id);
	(void) snprintf(choice.address, sizeof(choice.address), "%s", endpoint.address);
	choice.port = endpoint.port;
	choice.secure = endpoint.secure;
	choice.revision = revision > 0 ? (uint64_t) revision : 0;
	choice.age_usec = freshness.age_usec;
	choice.stale = freshness.stale || freshness.age_usec > freshness.max_age_usec;
	choice.panic = json_is_true(json_object_get(answer, "panic"));
	choice_copy(&choice, ret);
	return 0;
}

int usher_client_pick(struct usher_client *client, const char *service, const char *body,
		struct usher_choice *ret, struct usher_error *reterr)
{
	cleanup(json_decrefp) json_t *answer = NULL;
	autofree char *text = NULL;
	char name[PATH_SEGMENT_MAX], path[PATH_SEGMENT_MAX + 32];
	int r;

	if (!service || !*service || !ret || !path_segment_write(service, name, sizeof(name)))
		return usher_error_set(reterr, -EINVAL,
				"a pick needs the name of a service, of %d bytes at most",
				USHER_TEXT_MAX);
	(void) snprintf(path, sizeof(path), "/v1/services/%s/pick", name);
	r = usher_client_call(client, "POST", path, body, &text, reterr);
	if (r < 0)
		return r;
	if (r != 200)
		return problem_to_error(r, text, reterr);
	answer = json_loads(text, 0, NULL);
	if (!answer)
		return usher_error_set(reterr, -EBADMSG, "the answer to %s on %s is not JSON", path,
				usher_client_socket(client));
	r = pick_parse(answer, ret, reterr);
	if (r < 0)
		return usher_error_prefix(reterr, r, "the answer to %s", path);
	return 0;
}
