#include "expectation.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "json-error.h"
#include "ownership.h"

#define TOKEN_MAX 256 /* of a JSON pointer */

enum expectation_body expectation_of_body(const struct check_config *config)
{
	if (config->match_pointer)
		return EXPECTS_VALUE;
	return config->match_text ? EXPECTS_TEXT : EXPECTS_NO_BODY;
}

/* ---- status ---- */

static bool is_in(const struct status_range *ranges, size_t count, unsigned status)
{
	for (size_t i = 0; i < count; i++)
		if (status >= ranges[i].first && status <= ranges[i].last)
			return true;
	return false;
}

static bool is_expected(const struct check_config *config, unsigned status)
{
	if (config->expect_count == 0)
		return status == 200;
	return is_in(config->expect, config->expect_count, status);
}

static bool is_degraded(const struct check_config *config, unsigned status)
{
	return is_in(config->degraded, config->degraded_count, status);
}

bool expectation_takes_status(const struct check_config *config, unsigned status)
{
	return is_expected(config, status) || is_degraded(config, status);
}

static void judge_wrong_status(
		const struct check_config *config, unsigned status, struct verdict *ret)
{
	char ranges[80] = "200";
	size_t length = 0;

	for (size_t i = 0; i < config->expect_count && length < sizeof(ranges); i++) {
		const struct status_range *range = &config->expect[i];
		const char *comma = i ? ", " : "";

		length += (size_t) (range->first == range->last
						? snprintf(ranges + length, sizeof(ranges) - length,
								  "%s%u", comma, range->first)
						: snprintf(ranges + length, sizeof(ranges) - length,
								  "%s%u-%u", comma, range->first,
								  range->last));
	}
	verdict_set(ret, PROBE_STATUS, (int) status, "HTTP %u, expected %s", status, ranges);
}

/* ---- body ---- */

bool expectation_is_met(const struct check_config *config, const char *body, size_t size)
{
	if (size == 0)
		return config->match_text[0] == '\0';
	return memmem(body, size, config->match_text, strlen(config->match_text)) != NULL;
}

/* The next token of a pointer (RFC 6901), unescaped, into ret; the rest of the pointer, or NULL: it
 * is too long to be in any document that is looked at. */
static const char *take_token(const char *pointer, char *ret)
{
	size_t length = 0;

	while (*pointer && *pointer != '/') {
		char c = *pointer++;

		if (c == '~' && (*pointer == '0' || *pointer == '1'))
			c = *pointer++ == '0' ? '~' : '/';
		if (length == TOKEN_MAX - 1)
			return NULL;
		ret[length++] = c;
	}
	ret[length] = '\0';
	return pointer;
}

static json_t *find_element(const json_t *array, const char *token)
{
	char *end;
	unsigned long i;

	if (token[0] < '0' || token[0] > '9' || (token[0] == '0' && token[1]))
		return NULL;
	errno = 0;
	i = strtoul(token, &end, 10);
	return *end || errno ? NULL : json_array_get(array, i);
}

static json_t *find_value(json_t *value, const char *pointer)
{
	char token[TOKEN_MAX];

	while (value && *pointer == '/') {
		pointer = take_token(pointer + 1, token);
		if (!pointer)
			return NULL;
		value = json_is_object(value)          ? json_object_get(value, token)
				: json_is_array(value) ? find_element(value, token)
						       : NULL;
	}
	return value;
}

static bool number_reads_like(const json_t *value, const char *expected)
{
	char *end;
	double number;

	if (json_is_integer(value)) {
		char text[24];

		(void) snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT,
				json_integer_value(value));
		if (strcmp(text, expected) == 0)
			return true;
	}
	number = strtod(expected, &end);
	return end != expected && !*end && number >= json_number_value(value) &&
			number <= json_number_value(value);
}

static bool reads_like(const json_t *value, const char *expected)
{
	switch (json_typeof(value)) {
	case JSON_STRING:
		return strcmp(json_string_value(value), expected) == 0;
	case JSON_INTEGER:
	case JSON_REAL:
		return number_reads_like(value, expected);
	case JSON_TRUE:
		return strcmp(expected, "true") == 0;
	case JSON_FALSE:
		return strcmp(expected, "false") == 0;
	case JSON_NULL:
		return strcmp(expected, "null") == 0;
	case JSON_OBJECT:
	case JSON_ARRAY:
		return false;
	}
	return false;
}

static void judge_value(const struct check_config *config, const char *body, size_t size,
		struct verdict *ret)
{
	cleanup(json_decrefp) json_t *document = NULL;
	autofree char *text = NULL;
	json_error_t error;
	json_t *value;

	document = json_loadb(size ? body : "", size, JSON_DECODE_ANY, &error);
	if (!document) {
		if (json_error_code(&error) == json_error_out_of_memory)
			verdict_set_errno(ret, ENOMEM, "read the body");
		else
			verdict_set(ret, PROBE_BODY, 0, "the body is no JSON: %s (byte %d)",
					json_error_words(&error), error.position);
		return;
	}
	value = find_value(document, config->match_pointer);
	if (!value) {
		verdict_set(ret, PROBE_BODY, 0, "the body has no %s", config->match_pointer);
		return;
	}
	if (reads_like(value, config->match_value))
		return;
	text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
	verdict_set(ret, PROBE_BODY, 0, "%s is %.40s, expected %s", config->match_pointer,
			text ? text : "another", config->match_value);
}

static void judge_text(const struct check_config *config, const char *body, size_t size,
		struct verdict *ret)
{
	if (!expectation_is_met(config, body, size))
		verdict_set(ret, PROBE_BODY, 0,
				"\"%.60s\" is not in the first %zu bytes of the body",
				config->match_text, size);
}

void expectation_judge(const struct check_config *config, unsigned status, const char *body,
		size_t size, struct verdict *ret)
{
	if (size > CHECK_BODY_MAX)
		size = CHECK_BODY_MAX;
	if (is_degraded(config, status) && !is_expected(config, status)) {
		verdict_set(ret, PROBE_DEGRADED, (int) status, "HTTP %u counts as degraded",
				status);
		return;
	}
	if (!is_expected(config, status)) {
		judge_wrong_status(config, status, ret);
		return;
	}
	verdict_set(ret, PROBE_OK, (int) status, "HTTP %u", status);
	switch (expectation_of_body(config)) {
	case EXPECTS_NO_BODY:
		return;
	case EXPECTS_TEXT:
		judge_text(config, body, size, ret);
		return;
	case EXPECTS_VALUE:
		judge_value(config, body, size, ret);
		return;
	}
}
