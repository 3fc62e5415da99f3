#include "api-problem.h"

#include <errno.h>
#include <string.h>

#include <jansson.h>

#include "ownership.h"

static int status_to_errno(int status)
{
	switch (status) {
	case 400:
	case 405:
	case 413:
	case 422:
		return -EINVAL;
	case 403:
		return -EACCES;
	case 404:
		return -ENOENT;
	case 409:
		return -EPERM;
	case 429:
		return -EBUSY;
	case 503:
		return -EAGAIN;
	default:
		return -EIO;
	}
}

int problem_to_error(int status, const char *body, struct usher_error *reterr)
{
	cleanup(json_decrefp) json_t *problem = json_loads(body ? body : "", 0, NULL);
	const char *detail = json_string_value(json_object_get(problem, "detail"));
	const char *code = json_string_value(json_object_get(problem, "code"));

	if (!detail)
		detail = json_string_value(json_object_get(problem, "title"));
	if (!detail)
		return usher_error_set(reterr, status_to_errno(status),
				"usherd answered with HTTP status %d and no explanation", status);
	if (!code)
		return usher_error_set(reterr, status_to_errno(status), "%s", detail);
	return usher_error_set(reterr, status_to_errno(status), "%s (%s)", detail, code);
}
