#include "reply.h"

#include <errno.h>
#include <string.h>
#include <usher/plugin.h>

#include "envelope.h"
#include "own-json.h"

#define USEC_PER_SEC UINT64_C(1000000)
#define TOKEN_MAX    8192
#define TTL_MAX_SEC  3153600000 /* a hundred years */
/* Of the envelope, and of the answer to a sign of life. */
#define CODE_BEAT_UNKNOWN_1 20404
#define CODE_BEAT_OK_1      10200
#define CODE_BEAT_UNKNOWN_3 21003

void reply_names_free(char **names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(names[i]);
	free(names);
}

static int copy_names(const json_t *list, char ***ret_names, size_t *ret_count)
{
	size_t count = 0;
	char **names = calloc(json_array_size(list) + 1, sizeof(*names));

	for (size_t i = 0; names && i < json_array_size(list); i++) {
		const json_t *item = json_array_get(list, i);
		const char *name = json_is_string(item) ? json_string_value(item)
							: json_text_at(item, "name");

		if (!name)
			continue;
		names[count] = strdup(name);
		if (!names[count]) {
			reply_names_free(names, count);
			return -ENOMEM;
		}
		count++;
	}
	*ret_names = names;
	*ret_count = count;
	return names ? 0 : -ENOMEM;
}

int reply_parse_names(const char *text, size_t size, char ***ret_names, size_t *ret_count,
		size_t *ret_total, struct usher_error *reterr)
{
	autojson json_t *answer = NULL;
	const json_t *data = NULL, *list;
	json_int_t total;
	int r = envelope_load(text, size, &answer, reterr);

	if (r == 0)
		r = envelope_open(answer, &data, reterr);
	if (r < 0)
		return r;
	list = json_object_get(data, "doms");
	if (!list)
		list = json_object_get(data, "pageItems");
	total = json_integer_at(data, "count", json_integer_at(data, "totalCount", 0));
	if (!json_is_array(list) || total < 0)
		return usher_error_set(reterr, -EBADMSG, "the answer is no list of services");
	if (copy_names(list, ret_names, ret_count) < 0)
		return envelope_no_memory(reterr);
	*ret_total = (size_t) total;
	return 0;
}

/* It goes into a header. */
static bool is_token(const char *text)
{
	for (size_t i = 0; text[i]; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return false;
	return strlen(text) <= TOKEN_MAX;
}

int reply_parse_login(const char *text, size_t size, char **ret_token, uint64_t *ret_ttl_usec,
		struct usher_error *reterr)
{
	autojson json_t *answer = NULL;
	const json_t *data = NULL;
	const char *token;
	json_int_t ttl;
	int r = envelope_load(text, size, &answer, reterr);

	if (r == 0)
		r = envelope_open(answer, &data, reterr);
	if (r < 0)
		return r;
	token = json_text_at(data, "accessToken");
	ttl = json_integer_at(data, "tokenTtl", 0);
	if (!token || !is_token(token) || ttl <= 0 || ttl > TTL_MAX_SEC)
		return usher_error_set(reterr, -EBADMSG, "the answer to the login has no token");
	*ret_token = strdup(token);
	if (!*ret_token)
		return envelope_no_memory(reterr);
	*ret_ttl_usec = (uint64_t) ttl * USEC_PER_SEC;
	return 0;
}

bool reply_is_envelope(const char *text, size_t size)
{
	autojson json_t *answer = NULL;

	return envelope_load(text, size, &answer, NULL) == 0 &&
			json_is_integer(json_object_get(answer, "code"));
}

int reply_check(const char *text, size_t size, struct usher_error *reterr)
{
	autojson json_t *answer = NULL;
	json_int_t code;
	int r;

	if (size == 2 && memcmp(text, "ok", 2) == 0)
		return 0;
	r = envelope_load(text, size, &answer, reterr);
	if (r < 0)
		return r;
	if (!json_is_integer(json_object_get(answer, "code")))
		return usher_error_set(reterr, -EBADMSG,
				"the answer says neither ok nor why not; is this a server of Nacos?");
	code = json_integer_at(answer, "code", 0);
	if (code == 0 || code == CODE_BEAT_OK_1)
		return 0;
	return envelope_fault(answer,
			code == CODE_BEAT_UNKNOWN_1 || code == CODE_BEAT_UNKNOWN_3 ? -ENOENT : -EIO,
			reterr);
}
