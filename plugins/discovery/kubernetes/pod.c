#include "pod.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "own-json.h"
#include "reading.h"

#define NOT_SET "false" /* an annotation that says so is as good as none */

void pod_free(void *object)
{
	struct pod *p = object;

	if (!p)
		return;
	free(p->space);
	free(p->name);
	free(p->uid);
	free(p->annotation);
	free(p);
}

static void free_pod(struct pod **p)
{
	pod_free(*p);
}

static int copy(const char *text, char **ret)
{
	if (!text)
		return 0;
	*ret = strdup(text);
	return *ret ? 0 : -ENOMEM;
}

/* RFC 3339 in UTC, in whole seconds, as the API has it. 0: it is none. */
static uint64_t read_time(const char *text)
{
	struct tm tm = { 0 };
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
	time_t seconds = end && *end == '\0' ? timegm(&tm) : 0;

	return seconds > 0 ? (uint64_t) seconds * 1000000 : 0;
}

static int read_content(const json_t *metadata, struct pod *p)
{
	const char *deleted = reading_text(metadata, "deletionTimestamp");
	const char *annotation =
			reading_text(reading_get(metadata, "annotations"), POD_DRAIN_ANNOTATION);

	p->is_deleted = deleted;
	p->deleted_by_usec = deleted ? read_time(deleted) : 0;
	if (!annotation || strcmp(annotation, NOT_SET) == 0)
		return 0;
	return copy(annotation, &p->annotation);
}

int pod_read(const json_t *j, bool content, const struct version *version, void **ret,
		struct usher_error *reterr)
{
	const json_t *metadata = reading_get(j, "metadata");
	const char *space = reading_text(metadata, "namespace"),
		   *name = reading_text(metadata, "name");
	cleanup(free_pod) struct pod *p = calloc(1, sizeof(*p));

	(void) version;
	if (!name)
		return usher_error_set(reterr, -EBADMSG, "a Pod has no metadata.name");
	if (!p || copy(space ? space : "", &p->space) < 0 || copy(name, &p->name) < 0 ||
			copy(reading_text(metadata, "uid"), &p->uid) < 0 ||
			(content && read_content(metadata, p) < 0))
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	*ret = take(p);
	return 0;
}

struct object_key pod_key(const void *object)
{
	const struct pod *p = object;

	return (struct object_key){ p->uid, p->space, p->name };
}
