/* Keeps the endpoints whose version is the one that the request asks for, or is in its range.
 *
 * The version or range is the field `version` of the pick, else a header of the request that the
 * endpoint is for, else the option `default`. One that cannot be read is met by nobody, as is none
 * at all: whoever cares for versions must not get any. An endpoint's version stands in its
 * metadata; one that is missing or cannot be read leaves that endpoint out, and nothing else. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <usher/plugin.h>

#include "range.h"

struct version_stage {
	const char *label;        /* option */
	const char *header;       /* option; empty: no header is looked at */
	const char *default_text; /* option; NULL: none */
	struct range default_range;
};

enum origin {
	ORIGIN_NONE,
	ORIGIN_REQUEST,
	ORIGIN_HEADER,
	ORIGIN_DEFAULT,
};

/* What a request asks for. */
struct wanted {
	enum origin origin;
	const char *text;
	const struct range *range; /* NULL: nothing, or what cannot be read */
	struct fault fault;        /* why */
	struct range own;
};

static void wanted_read(struct wanted *w, const struct version_stage *s,
		const struct usher_request *request)
{
	w->range = NULL;
	w->origin = ORIGIN_REQUEST;
	w->text = request && request->version && request->version[0] ? request->version : NULL;
	if (!w->text && s->header[0]) {
		w->origin = ORIGIN_HEADER;
		w->text = usher_request_header(request, s->header);
	}
	if (w->text) {
		/* A header that says nothing is malformed, too: it was meant to say something. */
		w->range = range_read(w->text, &w->own, &w->fault) ? &w->own : NULL;
		return;
	}
	w->origin = s->default_text ? ORIGIN_DEFAULT : ORIGIN_NONE;
	w->text = s->default_text;
	w->range = s->default_text ? &s->default_range : NULL;
}

/* What an endpoint's version is, in a mark: its three numbers, where they are small and there is no
 * pre-release; or that its text must be read; or 0, for one that is missing or cannot be read. */
#define MARK_NUMBERS   (UINT64_C(1) << 63)
#define MARK_TEXT      UINT64_C(1)
#define MARK_PART_BITS 21
#define MARK_PART_MAX  ((1u << MARK_PART_BITS) - 1)

static uint64_t version_mark(const void *instance, const struct usher_view *view, uint32_t endpoint)
{
	const struct version_stage *s = instance;
	const char *text = usher_endpoints_metadata(view->endpoints, endpoint, s->label);
	struct version version;
	struct fault fault;
	uint64_t mark = 1;

	if (!text || !version_read(text, &version, &fault))
		return 0;
	for (size_t i = 0; i < 3; i++) {
		if (version.part[i] > MARK_PART_MAX || version.pre.length > 0)
			return MARK_TEXT;
		mark = mark << MARK_PART_BITS | version.part[i];
	}
	return mark; /* the 1 has become MARK_NUMBERS */
}

static uint64_t mark_of(const struct version_stage *s, const struct usher_pass *pass, uint32_t i)
{
	return pass->marks ? pass->marks[i] : version_mark(s, pass->view, i);
}

static bool numbers_fit(uint64_t mark, const struct range *range)
{
	struct version version = {};

	for (size_t i = 3; i > 0; i--, mark >>= MARK_PART_BITS)
		version.part[i - 1] = (uint32_t) mark & MARK_PART_MAX;
	return range_fits(range, &version) == RANGE_YES;
}

static bool text_fits(const struct version_stage *s, const struct usher_view *view, uint32_t i,
		const struct range *range)
{
	const char *text = usher_endpoints_metadata(view->endpoints, i, s->label);
	struct version version;
	struct fault fault;

	return text && version_read(text, &version, &fault) &&
			range_fits(range, &version) == RANGE_YES;
}

/* A service has many endpoints and few versions: what was found of a mark holds for it again. */
struct found {
	uint64_t mark;
	bool fits;
};

#define FOUND_BITS 4

static bool mark_fits(const struct version_stage *s, const struct usher_pass *pass, uint32_t i,
		const struct range *range, struct found *found)
{
	uint64_t mark = mark_of(s, pass, i);

	if (!(mark & MARK_NUMBERS))
		return mark == MARK_TEXT && text_fits(s, pass->view, i, range);
	/* Fibonacci hashing, as in Knuth's The Art of Computer Programming, 6.4 */
	found += mark * UINT64_C(0x9e3779b97f4a7c15) >> (64 - FOUND_BITS);
	if (found->mark != mark)
		*found = (struct found){ mark, numbers_fit(mark, range) };
	return found->fits;
}

static size_t version_run(
		const void *instance, struct usher_pass *pass, uint32_t *candidates, size_t count)
{
	const struct version_stage *s = instance;
	struct found found[1 << FOUND_BITS] = {};
	struct wanted w;
	size_t kept = 0;

	wanted_read(&w, s, pass->request);
	if (!w.range)
		return 0;
	for (size_t i = 0; i < count; i++) {
		bool fits = mark_fits(s, pass, candidates[i], w.range, found);

		/* Without a branch, for who fits comes in no order. */
		candidates[kept] = candidates[i];
		kept += fits;
	}
	return kept;
}

static void explain_wanted(const struct wanted *w, char *ret_text, size_t size)
{
	char why[128];

	if (w->origin == ORIGIN_NONE) {
		(void) snprintf(ret_text, size, "no version is asked for, and there is no default");
		return;
	}
	fault_describe(&w->fault, why, sizeof(why));
	(void) snprintf(ret_text, size, "the version that is asked for cannot be read: %s", why);
}

static void version_explain(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret_text,
		size_t size)
{
	const struct version_stage *s = instance;
	const char *text = usher_endpoints_metadata(view->endpoints, candidate, s->label);
	struct version version;
	struct fault fault;
	struct wanted w;
	char why[128];

	wanted_read(&w, s, request);
	if (!w.range) {
		explain_wanted(&w, ret_text, size);
	} else if (!text) {
		(void) snprintf(ret_text, size, "has no label %.48s, asked for is %.48s", s->label,
				w.text);
	} else if (!version_read(text, &version, &fault)) {
		fault_describe(&fault, why, sizeof(why));
		(void) snprintf(ret_text, size, "label %.32s cannot be read: %s", s->label, why);
	} else if (range_fits(w.range, &version) == RANGE_BUT_PRE_RELEASE) {
		(void) snprintf(ret_text, size,
				"%.40s is a pre-release, and %.40s names none of that version",
				text, w.text);
	} else {
		(void) snprintf(ret_text, size, "version %.48s, asked for is %.48s", text, w.text);
	}
}

static size_t count_unreadable(const struct version_stage *s, const struct usher_view *view,
		const uint32_t *candidates, size_t count)
{
	size_t unreadable = 0;

	for (size_t i = 0; i < count; i++) {
		const char *text =
				usher_endpoints_metadata(view->endpoints, candidates[i], s->label);
		struct version version;
		struct fault fault;

		unreadable += text && !version_read(text, &version, &fault);
	}
	return unreadable;
}

static void version_tell(const void *instance, const struct usher_pass *pass,
		const uint32_t *candidates, size_t count, size_t kept, char *ret_text, size_t size)
{
	static const char *const origins[] = { [ORIGIN_REQUEST] = "",
		[ORIGIN_HEADER] = ", from header ",
		[ORIGIN_DEFAULT] = ", by default" };
	const struct version_stage *s = instance;
	size_t unreadable = count_unreadable(s, pass->view, candidates, count);
	char more[96] = "";
	struct wanted w;

	(void) kept;
	wanted_read(&w, s, pass->request);
	if (!w.range) {
		explain_wanted(&w, ret_text, size);
		return;
	}
	if (unreadable > 0)
		(void) snprintf(more, sizeof(more), "; %zu cannot be read in label %.32s",
				unreadable, s->label);
	(void) snprintf(ret_text, size, "asked for is %.40s%s%.32s%s", w.text, origins[w.origin],
			w.origin == ORIGIN_HEADER ? s->header : "", more);
}

static int version_init(void *instance, struct usher_error *reterr)
{
	struct version_stage *s = instance;
	struct fault wrong;
	char why[128];

	if (s->label[0] == '\0')
		return usher_error_set(reterr, -EINVAL,
				"label is empty: name the label that holds an endpoint's version, "
				"such as \"API_VERSION\"");
	if (strpbrk(s->header, " \t\r\n:"))
		return usher_error_set(reterr, -EINVAL,
				"header \"%.64s\" is no name of a header: write it without blanks "
				"and without a colon, or \"\" for none",
				s->header);
	if (!s->default_text || range_read(s->default_text, &s->default_range, &wrong))
		return 0;
	fault_describe(&wrong, why, sizeof(why));
	return usher_error_set(reterr, -EINVAL,
			"default %s; a version is written as \"1.0\", a range as \"^1.2\", "
			"\">=1.0 <2\", \"1.x\" or \"1.0 || 2.0\"",
			why);
}

static const struct usher_option version_options[] = {
	{ .name = "label",
			.type = USHER_OPTION_STRING,
			.offset = offsetof(struct version_stage, label),
			.help = "The metadata that holds an endpoint's version.",
			.default_text = "API_VERSION" },
	{ .name = "header",
			.type = USHER_OPTION_STRING,
			.offset = offsetof(struct version_stage, header),
			.help = "The header of the request that holds the version where the pick "
				"does not say it; \"\" for none.",
			.default_text = "X-API-Version" },
	{ .name = "default",
			.type = USHER_OPTION_STRING,
			.offset = offsetof(struct version_stage, default_text),
			.help = "The version or range of a request that asks for none; without it "
				"such a request matches nothing." },
	{},
};

USHER_PLUGIN(.name = "version", .summary = "Those of the version that is asked for",
		.instance_size = sizeof(struct version_stage), .options = version_options,
		.init = version_init,
		.stage = &(const struct usher_stage){
				.size = sizeof(struct usher_stage),
				.looks_at_request = true,
				.explain = version_explain,
				.flags = USHER_STAGE_STRICT,
				.run = version_run,
				.tell = version_tell,
				.mark = version_mark,
		});
