#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <usher/client.h>

#include <jansson.h>

#include "api-problem.h"
#include "ownership.h"
#include "path-segment.h"

/* What the daemon takes in one call, with room for the longest report there is. */
#define REPORTS_A_CALL   1000
#define REPORT_TEXT_MAX  (6 * USHER_TEXT_MAX + 128)
#define BODY_SIZE        65536
#define BODY_FULL_LENGTH (BODY_SIZE - REPORT_TEXT_MAX)

/* Of the struct's first version. */
#define REPORT_SIZE_0 (offsetof(struct usher_call_report, outcome) + sizeof(enum usher_outcome))

struct reporting {
	struct usher_client *client;
	char path[PATH_SEGMENT_MAX + 32];
	char *body; /* of BODY_SIZE */
	size_t length;
	size_t count; /* in the body */
};

static int send_body(struct reporting *s, struct usher_error *reterr)
{
	autofree char *answer = NULL;
	int r;

	if (s->count == 0)
		return 0;
	(void) snprintf(s->body + s->length, BODY_SIZE - s->length, "]");
	r = usher_client_call(s->client, "POST", s->path, s->body, &answer, reterr);
	s->length = s->count = 0;
	if (r < 0)
		return r;
	return r == 204 ? 0 : problem_to_error(r, answer, reterr);
}

/* The text of one, within REPORT_TEXT_MAX. */
static int report_write(const struct usher_call_report *report, char ret[static REPORT_TEXT_MAX],
		struct usher_error *reterr)
{
	cleanup(json_decrefp) json_t *id = json_string(report->endpoint);
	autofree char *quoted = id ? json_dumps(id, JSON_ENCODE_ANY) : NULL;
	char latency[48] = "";

	if (!quoted)
		return usher_error_set(reterr, -EINVAL, "the id of an endpoint is no UTF-8");
	if (report->latency_usec > 0)
		(void) snprintf(latency, sizeof(latency), ",\"latency_ms\":%" PRIu64 ".%03" PRIu64,
				report->latency_usec / 1000, report->latency_usec % 1000);
	(void) snprintf(ret, REPORT_TEXT_MAX,
			"{\"endpoint\":%s,\"outcome\":\"%s\",\"count\":%" PRIu32 "%s}", quoted,
			usher_outcome_to_string(report->outcome), report->count ? report->count : 1,
			latency);
	return 0;
}

static int report_add(struct reporting *s, const struct usher_call_report *report,
		struct usher_error *reterr)
{
	char text[REPORT_TEXT_MAX];
	int r;

	if (!report->endpoint || !*report->endpoint || strlen(report->endpoint) > USHER_TEXT_MAX ||
			!usher_outcome_to_string(report->outcome))
		return usher_error_set(reterr, -EINVAL,
				"a report needs the id of an endpoint, of %d bytes at most, and an outcome",
				USHER_TEXT_MAX);
	r = report_write(report, text, reterr);
	if (r < 0)
		return r;
	s->length += (size_t) snprintf(s->body + s->length, BODY_SIZE - s->length, "%s%s",
			s->count ? "," : "[", text);
	s->count++;
	if (s->count == REPORTS_A_CALL || s->length >= BODY_FULL_LENGTH)
		return send_body(s, reterr);
	return 0;
}

int usher_client_report(struct usher_client *client, const char *service,
		const struct usher_call_report *reports, size_t count, struct usher_error *reterr)
{
	char name[PATH_SEGMENT_MAX];
	struct reporting s = { .client = client };
	autofree char *body = NULL;
	size_t size;
	int r;

	if (!service || !*service || (count > 0 && !reports) ||
			!path_segment_write(service, name, sizeof(name)))
		return usher_error_set(reterr, -EINVAL,
				"reports need the name of a service, of %d bytes at most",
				USHER_TEXT_MAX);
	if (count == 0)
		return 0;
	size = reports->size ? reports->size : REPORT_SIZE_0;
	if (size < REPORT_SIZE_0 || size % _Alignof(struct usher_call_report) != 0)
		return usher_error_set(reterr, -EINVAL, "a report of %zu bytes is none", size);
	s.body = body = malloc(BODY_SIZE);
	if (!body)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	(void) snprintf(s.path, sizeof(s.path), "/v1/services/%s/reports", name);
	for (size_t i = 0; i < count; i++) {
		r = report_add(&s, (const void *) ((const char *) reports + i * size), reterr);
		if (r < 0)
			return usher_error_prefix(reterr, r, "report %zu", i);
	}
	return send_body(&s, reterr);
}
