#include "directory-answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "human.h"

const char *endpoint_state(const json_t *endpoint, char *ret)
{
	const char *admin = field_text(endpoint, "admin_state");
	const char *stage = field_text(json_object_get(endpoint, "left_out"), "stage");

	if (strcmp(admin, "ready") != 0 && strcmp(admin, "-") != 0)
		(void) snprintf(ret, ENDPOINT_STATE_MAX, "%s", admin);
	else if (strcmp(stage, "drain") == 0)
		(void) snprintf(ret, ENDPOINT_STATE_MAX, "draining");
	else if (json_is_false(json_object_get(endpoint, "chosen")))
		(void) snprintf(ret, ENDPOINT_STATE_MAX, "left out by %s", stage);
	else
		(void) snprintf(ret, ENDPOINT_STATE_MAX, "ready");
	return ret;
}

const char *endpoint_authority(const json_t *endpoint, char *ret)
{
	const char *address = field_text(endpoint, "address");
	uint64_t port = field_number(endpoint, "port");

	if (strlen(address) >= USHER_TEXT_MAX || port > UINT16_MAX)
		(void) snprintf(ret, USHER_AUTHORITY_MAX, "-");
	else
		(void) usher_authority_format(address, (uint16_t) port, ret);
	return ret;
}

static const struct {
	const char *code, *words;
} why_none_words[] = {
	{ "empty", "there are none, and every source is sure of that" },
	{ "all_unhealthy", "all are unhealthy" },
	{ "source_unknown", "there are none, but a source has not answered yet" },
	{ "source_failed", "there are none, but a source that has never answered fails" },
};

const char *answer_why_none(const json_t *answer, char *ret)
{
	const char *code = json_string_value(json_object_get(answer, "code"));
	const char *stage = field_text(answer, "stage");
	const char *words = code;

	if (!code)
		return NULL;
	for (size_t i = 0; i < ELEMENTS(why_none_words); i++)
		if (strcmp(code, why_none_words[i].code) == 0)
			words = why_none_words[i].words;
	if (strcmp(code, "filtered") != 0)
		(void) snprintf(ret, ENDPOINT_STATE_MAX, "no endpoint is chosen: %.200s", words);
	else if (strcmp(stage, "drain") == 0)
		(void) snprintf(ret, ENDPOINT_STATE_MAX,
				"no endpoint is chosen: all are drained or in maintenance");
	else
		(void) snprintf(ret, ENDPOINT_STATE_MAX,
				"no endpoint is chosen: the stage %.128s leaves none", stage);
	return ret;
}

const char *summary_state(const json_t *summary, char *ret)
{
	const json_t *held = json_object_get(summary, "held");
	const char *panic = json_is_true(json_object_get(summary, "panic")) ? ", in panic" : "";
	const char *state = field_text(json_object_get(summary, "freshness"), "state");

	if (json_is_object(held))
		(void) snprintf(ret, ENDPOINT_STATE_MAX, "%s, holding %" PRIu64 " back%s", state,
				field_number(held, "removed"), panic);
	else
		(void) snprintf(ret, ENDPOINT_STATE_MAX, "%s%s", state, panic);
	return ret;
}

uint64_t answer_age_msec(const json_t *answer)
{
	return field_msec(json_object_get(answer, "freshness"), "age_ms");
}
