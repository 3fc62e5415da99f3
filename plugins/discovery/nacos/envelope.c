#include "envelope.h"

#include <errno.h>
#include <usher/plugin.h>

#include "json-read.h"

int envelope_no_memory(struct usher_error *reterr)
{
	return usher_error_set(reterr, -ENOMEM, "out of memory");
}

int envelope_load(const char *text, size_t size, json_t **ret, struct usher_error *reterr)
{
	return json_read_answer(text, size, "a server of Nacos", ret, reterr);
}

const char *json_text_at(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text && text[0] ? text : NULL;
}

bool json_bool_at(const json_t *object, const char *key, bool otherwise)
{
	const json_t *value = json_object_get(object, key);

	return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

json_int_t json_integer_at(const json_t *object, const char *key, json_int_t otherwise)
{
	const json_t *value = json_object_get(object, key);

	return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

int envelope_fault(const json_t *envelope, int code, struct usher_error *reterr)
{
	const char *message = json_text_at(envelope, "message"),
		   *data = json_text_at(envelope, "data");

	return usher_error_set(reterr, code, "the server says %lld: %.200s%s%.200s",
			(long long) json_integer_at(envelope, "code", 0),
			message ? message : "no reason given", data ? ": " : "", data ? data : "");
}

int envelope_open(const json_t *answer, const json_t **ret, struct usher_error *reterr)
{
	const json_t *code = json_object_get(answer, "code");

	*ret = answer;
	if (!json_is_integer(code))
		return 0;
	if (json_integer_value(code) != 0)
		return envelope_fault(answer, -EBADMSG, reterr);
	*ret = json_object_get(answer, "data");
	return 0;
}
