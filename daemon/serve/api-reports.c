/* POST /v1/services/{s}/reports: how calls went. Whatever is wrong with one of them refuses all, so
 * that a caller may send the same body again. */

#include <errno.h>
#include <microhttpd.h>
#include <string.h>
#include <usher/document.h>

#include "api.h"
#include "inside.h"
#include "problem.h"

struct report_item {
	fields_given given;
	const char *endpoint, *outcome;
	uint64_t latency_usec, count;
};

enum {
	ITEM_ENDPOINT,
	ITEM_OUTCOME,
	ITEM_LATENCY,
	ITEM_COUNT
};

static const struct field item_fields[] = {
	[ITEM_ENDPOINT] = { "endpoint", FIELD_TEXT, offsetof(struct report_item, endpoint) },
	[ITEM_OUTCOME] = { "outcome", FIELD_TEXT, offsetof(struct report_item, outcome) },
	[ITEM_LATENCY] = { "latency_ms", FIELD_MSEC, offsetof(struct report_item, latency_usec) },
	[ITEM_COUNT] = { "count", FIELD_COUNT, offsetof(struct report_item, count) },
	{},
};

static int outcome_parse(const char *text, enum usher_outcome *ret, struct usher_error *reterr)
{
	const char *words[USHER_OUTCOMES + 1] = {};
	const char *nearest;

	if (usher_outcome_from_string(text, ret) >= 0)
		return 0;
	for (unsigned i = 0; i < USHER_OUTCOMES; i++)
		words[i] = usher_outcome_to_string((enum usher_outcome) i);
	nearest = usher_nearest_word(text, words);
	return usher_error_set(reterr, -EINVAL,
			"outcome: \"%.40s\" is none of ok, error, failed and timeout%s%s%s", text,
			nearest ? "; did you mean " : "", nearest ? nearest : "",
			nearest ? "?" : "");
}

static int report_from_item(const struct report_item *item, struct usher_report *ret,
		struct usher_error *reterr)
{
	struct usher_report report = { .size = sizeof(report), .count = 1 };
	int r;

	for (unsigned i = ITEM_ENDPOINT; i <= ITEM_OUTCOME; i++)
		if (!field_given(item->given, i))
			return usher_error_set(
					reterr, -EINVAL, "%s: is missing", item_fields[i].name);
	r = outcome_parse(item->outcome, &report.outcome, reterr);
	if (r < 0)
		return r;
	if (item->latency_usec > REPORT_LATENCY_MAX_USEC)
		return usher_error_set(reterr, -ERANGE, "latency_ms: is not in 0..%llu, a day",
				(unsigned long long) (REPORT_LATENCY_MAX_USEC / 1000));
	/* Who measures in whole milliseconds says 0 of what was quick. */
	if (field_given(item->given, ITEM_LATENCY))
		report.latency_usec = item->latency_usec ? item->latency_usec : 1;
	if (field_given(item->given, ITEM_COUNT)) {
		if (item->count < 1 || item->count > UINT32_MAX)
			return usher_error_set(reterr, -ERANGE, "count: %llu is not in 1..%u",
					(unsigned long long) item->count, UINT32_MAX);
		report.count = (uint32_t) item->count;
	}
	*ret = report;
	return 0;
}

/* context NULL: only look whether all can be taken. */
static int walk(const struct field_list *list, struct request *q, struct context *context,
		struct usher_error *reterr)
{
	const struct report_item *items = list->items;

	for (size_t i = 0; i < list->count; i++) {
		struct reports_told *told = &q->server->reports;
		struct usher_report report = {};
		int r;

		r = report_from_item(&items[i], &report, reterr);
		if (r < 0)
			return usher_error_prefix(reterr, r, "%s[%zu]", list->name, i);
		if (!context)
			continue;
		report.now_usec = q->now_usec;
		told->calls[report.outcome] += report.count;
		if (context_report(context, items[i].endpoint, &report) < 0)
			told->unknown += report.count;
	}
	return 0;
}

int api_reports(struct request *q)
{
	struct field_list list = { .name = "reports",
		.fields = item_fields,
		.item_size = sizeof(struct report_item),
		.max = REPORTS_MAX };
	autofree struct report_item *items = NULL;
	struct usher_error error = {};
	struct context *context;
	int r;

	if (!request_no_query(q))
		return 0;
	context = request_known_context(q);
	if (!context)
		return 0;
	items = malloc(REPORTS_MAX * sizeof(*items));
	if (!items)
		return -ENOMEM;
	list.items = items;
	r = fields_list_from_json(&list, q->body.data, q->body.length, &error);
	if (r >= 0)
		r = walk(&list, q, NULL, &error);
	if (r < 0)
		return respond_problem(q, r == -E2BIG ? PROBLEM_TOO_LARGE : PROBLEM_BAD_REQUEST,
				"%s", usher_error_text(&error, r));
	(void) walk(&list, q, context, NULL);
	return respond_nothing(q, MHD_HTTP_NO_CONTENT);
}
