#include "readiness.h"

#include "clock.h"

#define NAMES_SHOWN 5

static bool is_missing(const struct context *context)
{
	return context_is_eager(context) && !context_has_answer(context);
}

void readiness_judge(const struct directory *directory, uint64_t started_usec, uint64_t now_usec,
		struct readiness *ret)
{
	struct readiness readiness = { .next_usec = USEC_FOREVER };

	for (size_t i = 0; i < directory_count(directory); i++) {
		const struct context *context = directory_at(directory, i);
		uint64_t until_usec;

		if (!context_is_eager(context))
			continue;
		readiness.total++;
		if (!is_missing(context)) {
			readiness.answered++;
			continue;
		}
		until_usec = started_usec + context_config(context)->startup_timeout_usec;
		if (until_usec <= now_usec)
			readiness.gave_up++;
		else if (until_usec < readiness.next_usec)
			readiness.next_usec = until_usec;
	}
	readiness.ready = readiness.answered + readiness.gave_up == readiness.total;
	*ret = readiness;
}

void readiness_describe(const struct directory *directory, const struct readiness *readiness,
		struct text *text)
{
	unsigned shown = 0, missing = readiness->total - readiness->answered;

	text_add_format(text, "%u of %u services have their first answer", readiness->answered,
			readiness->total);
	if (missing == 0)
		return;
	text_add_string(text, readiness->ready ? "; without: " : "; waiting for ");
	for (size_t i = 0; i < directory_count(directory) && shown < NAMES_SHOWN; i++) {
		const struct context *context = directory_at(directory, i);

		if (is_missing(context))
			text_add_format(text, "%s%s", shown++ ? ", " : "",
					context_service(context));
	}
	if (missing > shown)
		text_add_format(text, " and %u more", missing - shown);
}
