#include "condition.h"

#include <string.h>

static const char *text_or_none(const char *text)
{
	return text && text[0] ? text : NULL;
}

static const char *said(const struct condition *condition, const struct usher_request *request)
{
	if (!request)
		return NULL;
	switch (condition->field) {
	case CONDITION_HINT:
		return text_or_none(request->hint);
	case CONDITION_VERSION:
		return text_or_none(request->version);
	case CONDITION_STICKY:
		return text_or_none(request->sticky);
	case CONDITION_KEY:
		return text_or_none(request->key);
	case CONDITION_CONSUMER:
		return text_or_none(request->consumer);
	case CONDITION_HEADER:
		return usher_request_header(request, condition->header);
	}
	return NULL;
}

static bool holds(const struct condition *condition, const struct usher_request *request)
{
	const char *text = said(condition, request);

	switch (condition->kind) {
	case CONDITION_PRESENT:
		return text;
	case CONDITION_ABSENT:
		return !text;
	case CONDITION_EQUALS:
		return text && strcmp(text, condition->text) == 0;
	}
	return false;
}

bool conditions_hold(const struct condition *conditions, size_t count,
		const struct usher_request *request)
{
	for (size_t i = 0; i < count; i++)
		if (!holds(&conditions[i], request))
			return false;
	return true;
}
