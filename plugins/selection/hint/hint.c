/* Keeps the endpoints that carry the hint of the request as a label.
 *
 * The hint is the field `hint` of the pick, else a header of the request that the endpoint is for,
 * else the option `value`. There is no implicit one: without a hint nothing was asked for, and the
 * stage keeps everything. A hint that nobody carries empties the stage, and on_empty rules; another
 * place where a hint could have stood is not looked at then. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <usher/plugin.h>

struct hint {
	const char *label;  /* option */
	const char *header; /* option; empty: no header is looked at */
	const char *value;  /* option; NULL: none */
};

/* Blanks alone say nothing, as in Spring Cloud. */
static bool says_something(const char *text)
{
	return text && text[strspn(text, " \t")] != '\0';
}

enum origin {
	ORIGIN_NONE,
	ORIGIN_REQUEST,
	ORIGIN_HEADER,
	ORIGIN_VALUE,
};

/* What is asked for, and who said so. */
struct wanted {
	const char *hint; /* NULL: nothing */
	enum origin origin;
};

static struct wanted wanted_hint(const struct hint *h, const struct usher_request *request)
{
	const char *header = h->header[0] ? usher_request_header(request, h->header) : NULL;

	if (request && says_something(request->hint))
		return (struct wanted){ request->hint, ORIGIN_REQUEST };
	if (says_something(header))
		return (struct wanted){ header, ORIGIN_HEADER };
	if (h->value)
		return (struct wanted){ h->value, ORIGIN_VALUE };
	return (struct wanted){};
}

/* The address of the hint that an endpoint carries; 0: none. */
static uint64_t hint_mark(const void *instance, const struct usher_view *view, uint32_t endpoint)
{
	const struct hint *h = instance;

	return (uintptr_t) usher_endpoints_metadata(view->endpoints, endpoint, h->label);
}

static const char *value_of(const struct hint *h, const struct usher_pass *pass, uint32_t i)
{
	uint64_t mark = pass->marks ? pass->marks[i] : hint_mark(h, pass->view, i);

	return (const char *) (uintptr_t) mark; /* NOLINT(performance-no-int-to-ptr): it was one */
}

static size_t hint_run(
		const void *instance, struct usher_pass *pass, uint32_t *candidates, size_t count)
{
	const struct hint *h = instance;
	const char *hint = wanted_hint(h, pass->request).hint;
	const char *right = NULL, *wrong = NULL; /* what was the hint, and what was not */
	size_t kept = 0;

	if (!hint)
		return count;
	for (size_t i = 0; i < count; i++) {
		const char *value = value_of(h, pass, candidates[i]);

		/* A set has each text once, so few need to be compared. */
		if (value && value != right && value != wrong) {
			if (strcmp(value, hint) == 0)
				right = value;
			else
				wrong = value;
		}
		/* Without a branch, for who has it comes in no order. */
		candidates[kept] = candidates[i];
		kept += value && value == right;
	}
	return kept;
}

static void hint_explain(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret_text,
		size_t size)
{
	const struct hint *h = instance;
	const char *hint = wanted_hint(h, request).hint;
	const char *value = usher_endpoints_metadata(view->endpoints, candidate, h->label);

	if (!hint)
		(void) snprintf(ret_text, size, "the request has no hint");
	else if (value)
		(void) snprintf(ret_text, size, "label %.48s is %.48s, the hint is %.48s", h->label,
				value, hint);
	else
		(void) snprintf(ret_text, size, "has no label %.48s, the hint is %.48s", h->label,
				hint);
}

static void hint_tell(const void *instance, const struct usher_pass *pass,
		const uint32_t *candidates, size_t count, size_t kept, char *ret_text, size_t size)
{
	const struct hint *h = instance;
	struct wanted wanted = wanted_hint(h, pass->request);

	(void) candidates;
	(void) count;
	(void) kept;
	switch (wanted.origin) {
	case ORIGIN_NONE:
		(void) snprintf(ret_text, size, "the request has no hint");
		break;
	case ORIGIN_REQUEST:
		(void) snprintf(ret_text, size, "the hint is %.48s", wanted.hint);
		break;
	case ORIGIN_HEADER:
		(void) snprintf(ret_text, size, "the hint is %.48s, from header %.48s", wanted.hint,
				h->header);
		break;
	case ORIGIN_VALUE:
		(void) snprintf(ret_text, size, "the hint is %.48s, for the request has none",
				wanted.hint);
		break;
	}
}

static int hint_init(void *instance, struct usher_error *reterr)
{
	const struct hint *h = instance;

	if (h->label[0] == '\0')
		return usher_error_set(reterr, -EINVAL,
				"label is empty: name the label that carries the hint, such as "
				"\"hint\"");
	if (strpbrk(h->header, " \t\r\n:"))
		return usher_error_set(reterr, -EINVAL,
				"header \"%.64s\" is no name of a header: write it without blanks "
				"and without a colon, or \"\" for none",
				h->header);
	if (h->value && !says_something(h->value))
		return usher_error_set(reterr, -EINVAL,
				"value is empty: leave it out where requests without a hint may go "
				"anywhere");
	return 0;
}

static const struct usher_option hint_options[] = {
	{ .name = "label",
			.type = USHER_OPTION_STRING,
			.offset = offsetof(struct hint, label),
			.help = "The metadata that says which hint an endpoint is for.",
			.default_text = "hint" },
	{ .name = "header",
			.type = USHER_OPTION_STRING,
			.offset = offsetof(struct hint, header),
			.help = "The header of the request that holds the hint where the pick does "
				"not say it; \"\" for none.",
			.default_text = "X-SC-LB-Hint" },
	{ .name = "value",
			.type = USHER_OPTION_STRING,
			.offset = offsetof(struct hint, value),
			.help = "The hint of a request that has none; without it such a request "
				"may go anywhere." },
	{},
};

USHER_PLUGIN(.name = "hint", .summary = "Those that the request hints at",
		.instance_size = sizeof(struct hint), .options = hint_options, .init = hint_init,
		.stage = &(const struct usher_stage){
				.size = sizeof(struct usher_stage),
				.looks_at_request = true,
				.explain = hint_explain,
				.run = hint_run,
				.tell = hint_tell,
				.mark = hint_mark,
		});
