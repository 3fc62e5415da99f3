#include "gateway.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "json-read.h"
#include "layout.h"

/* ---- base64, RFC 4648 section 4 ---- */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static json_t *base64(const char *bytes, size_t size)
{
	autofree char *text = malloc(4 * ((size + 2) / 3) + 1);
	size_t length = 0;

	if (!text)
		return NULL;
	for (size_t i = 0; i < size; i += 3) {
		uint32_t group = (uint32_t) (unsigned char) bytes[i] << 16;

		if (i + 1 < size)
			group |= (uint32_t) (unsigned char) bytes[i + 1] << 8;
		if (i + 2 < size)
			group |= (unsigned char) bytes[i + 2];
		text[length++] = alphabet[group >> 18];
		text[length++] = alphabet[group >> 12 & 63];
		text[length++] = '=';
		text[length++] = '=';
		if (i + 1 < size)
			text[length - 2] = alphabet[group >> 6 & 63];
		if (i + 2 < size)
			text[length - 1] = alphabet[group & 63];
	}
	return json_stringn(text, length);
}

/* The bytes, ended by a zero that does not count. EBADMSG, ENOMEM. */
static int unbase64(const char *text, char **ret, size_t *ret_size)
{
	size_t length = strlen(text), size = 0;
	autofree char *bytes = malloc(length / 4 * 3 + 1);
	uint32_t group = 0;

	if (!bytes)
		return -ENOMEM;
	if (length % 4 != 0)
		return -EBADMSG;
	while (length > 0 && text[length - 1] == '=' && strlen(text) - length < 2)
		length--;
	for (size_t i = 0; i < length; i++) {
		const char *at = strchr(alphabet, text[i]);

		if (!at || text[i] == '\0')
			return -EBADMSG;
		group = group << 6 | (uint32_t) (at - alphabet);
		if (i % 4 != 0)
			bytes[size++] = (char) (group >> (6 - 2 * (i % 4)) & 0xff);
	}
	bytes[size] = '\0';
	*ret_size = size;
	*ret = take(bytes);
	return 0;
}

/* ---- answers ---- */

int64_t etcd_integer(const json_t *value)
{
	const char *text = json_string_value(value);
	char *end;
	long long number;

	if (!text)
		return json_is_integer(value) ? json_integer_value(value) : 0;
	errno = 0;
	number = strtoll(text, &end, 10);
	return errno == 0 && end != text && *end == '\0' ? number : 0;
}

int etcd_header_read(const json_t *answer, struct etcd_header *ret, struct usher_error *reterr)
{
	const json_t *header = json_object_get(answer, "header");
	const json_t *cluster = json_object_get(header, "cluster_id");
	int64_t revision = etcd_integer(json_object_get(header, "revision"));
	const char *id = json_string_value(cluster);

	if (!id || id[0] == '\0' || strlen(id) >= sizeof(ret->cluster) || revision < 1)
		return usher_error_set(reterr, -EBADMSG,
				"the answer has no header with cluster and revision, so it is none of "
				"etcd's; is there something else at this address?");
	(void) snprintf(ret->cluster, sizeof(ret->cluster), "%s", id);
	ret->revision = revision;
	return 0;
}

bool etcd_error_of(const json_t *object, int *ret_code, const char **ret_text)
{
	const json_t *error = json_object_get(object, "error");
	const json_t *said = json_is_object(error) ? error : object;
	const json_t *code = json_object_get(said, "grpc_code");
	const char *text = json_string_value(json_object_get(said, "message"));

	if (!code)
		code = json_object_get(said, "code");
	if (!text)
		text = json_string_value(error);
	if (!code && !text && !error)
		return false;
	*ret_code = (int) etcd_integer(code);
	*ret_text = text ? text : "an error without a text";
	return true;
}

bool etcd_wants_token(int code, const char *text)
{
	return code == ETCD_UNAUTHENTICATED || strstr(text, "invalid auth token") ||
			strstr(text, "user name is empty") ||
			strstr(text, "revision of auth store is old");
}

int etcd_code_to_errno(int code, const char *text)
{
	if (etcd_wants_token(code, text) || strstr(text, "permission denied") ||
			strstr(text, "authentication failed"))
		return -EACCES;
	switch (code) {
	case ETCD_UNAUTHENTICATED:
	case ETCD_PERMISSION_DENIED:
		return -EACCES;
	case ETCD_NOT_FOUND:
		return -ENOENT;
	case ETCD_OUT_OF_RANGE:
		return -ERANGE;
	case ETCD_UNAVAILABLE:
		return -EAGAIN;
	default:
		return -EIO;
	}
}

/* Into words, without what a terminal would obey. */
static int refused(const struct usher_http_event *event, int code, const char *text,
		struct usher_error *reterr)
{
	char clean[200];
	size_t length = 0;

	for (; length < sizeof(clean) - 1 && text[length] != '\0'; length++)
		clean[length] = (unsigned char) text[length] < ' ' || text[length] == 0x7f
				? '?'
				: text[length];
	clean[length] = '\0';
	return usher_error_set(reterr, etcd_code_to_errno(code, text), "%s says: %s (HTTP %d)",
			event->server ? event->server : "etcd", clean, event->status);
}

int etcd_answer_read(const struct usher_http_event *event, json_t **ret, int *ret_code,
		struct usher_error *reterr)
{
	autojson json_t *answer = NULL;
	const char *text;
	int r;

	*ret_code = 0;
	if (event->error < 0)
		return usher_error_set(reterr, event->error, "%s",
				usher_error_text(&event->why, event->error));
	r = json_read(event->data, event->data_size, 0, &answer, NULL);
	if (r == -ENOMEM)
		return usher_error_set(reterr, r, "out of memory");
	if (json_is_object(answer) && etcd_error_of(answer, ret_code, &text))
		return refused(event, *ret_code, text, reterr);
	if (event->status != 200)
		return usher_http_status_error(event, reterr) < 0
				? reterr ? reterr->code : -EIO
				: usher_error_set(reterr, -EBADMSG, "%s answers with HTTP %d",
						  event->server ? event->server : "etcd",
						  event->status);
	if (!json_is_object(answer))
		return usher_error_set(reterr, -EBADMSG,
				"%s answers with something that is no JSON of etcd's; is there "
				"something else at this address?",
				event->server ? event->server : "etcd");
	*ret = take(answer);
	return 0;
}

void etcd_kv_done(struct etcd_kv *kv)
{
	free(kv->key);
	free(kv->value);
	*kv = (struct etcd_kv){ 0 };
}

int etcd_kv_read(const json_t *object, struct etcd_kv *ret, struct usher_error *reterr)
{
	const char *key = json_string_value(json_object_get(object, "key"));
	const char *value = json_string_value(json_object_get(object, "value"));
	struct etcd_kv kv = { 0 };
	int r;

	if (!key)
		return usher_error_set(reterr, -EBADMSG, "etcd sent a pair without a key");
	r = unbase64(key, &kv.key, &kv.key_size);
	if (r == 0 && value)
		r = unbase64(value, &kv.value, &kv.value_size);
	if (r < 0) {
		etcd_kv_done(&kv);
		return usher_error_set(reterr, r, "%s",
				r == -ENOMEM ? "out of memory"
					     : "etcd sent a key or value that is no base64");
	}
	kv.mod_revision = etcd_integer(json_object_get(object, "mod_revision"));
	kv.lease = etcd_integer(json_object_get(object, "lease"));
	*ret = kv;
	return 0;
}

/* ---- requests ---- */

/* Takes the object. A member that could not be made for lack of memory leaves it NULL. */
static char *text_of(json_t *object)
{
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;

	json_decref(object);
	return text;
}

static json_t *base64_text(const char *text)
{
	return base64(text, strlen(text));
}

static json_t *number(int64_t value)
{
	return json_sprintf("%" PRId64, value);
}

static json_t *end_of(const char *prefix)
{
	size_t size = 0;
	autofree char *end = etcd_layout_end(prefix, strlen(prefix), &size);

	return end ? base64(end, size) : NULL;
}

char *etcd_range_request(const char *prefix, const char *from, size_t from_size, int64_t revision)
{
	return text_of(json_pack("{s:o, s:o, s:o, s:o}", "key",
			from ? base64(from, from_size) : base64_text(prefix), "range_end",
			end_of(prefix), "limit", number(ETCD_PAGE_KEYS), "revision",
			number(revision)));
}

char *etcd_get_request(const char *key)
{
	return text_of(json_pack("{s:o}", "key", base64_text(key)));
}

static json_t *probe_of(const char *prefix)
{
	return json_pack("{s:{s:o, s:o, s:o, s:b, s:s, s:s}}", "request_range", "key",
			base64_text(prefix), "range_end", end_of(prefix), "limit", number(1),
			"keys_only", 1, "sort_order", "DESCEND", "sort_target", "MOD");
}

char *etcd_probe_request(const char *const *prefixes, size_t count)
{
	autojson json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		if (json_array_append_new(list, probe_of(prefixes[i])) < 0)
			return NULL;
	return text_of(json_pack("{s:O}", "success", list));
}

char *etcd_watch_request(const char *prefix, int64_t start_revision, int64_t watch_id)
{
	return text_of(json_pack("{s:{s:o, s:o, s:o, s:o, s:b}}", "create_request", "key",
			base64_text(prefix), "range_end", end_of(prefix), "start_revision",
			number(start_revision), "watch_id", number(watch_id), "progress_notify",
			1));
}

char *etcd_put_request(const char *key, const char *value, int64_t lease, int64_t expected_revision)
{
	json_t *put = json_pack("{s:o, s:o}", "key", base64_text(key), "value", base64_text(value));
	bool same = lease == ETCD_SAME_LEASE;

	if (put && lease != ETCD_NO_LEASE &&
			json_object_set_new(put, same ? "ignore_lease" : "lease",
					same ? json_true() : number(lease)) < 0) {
		json_decref(put);
		return NULL;
	}
	if (!expected_revision)
		return text_of(json_pack("{s:[{s:o}]}", "success", "request_put", put));
	return text_of(json_pack("{s:[{s:o, s:s, s:s, s:o}], s:[{s:o}]}", "compare", "key",
			base64_text(key), "target", "MOD", "result", "EQUAL", "mod_revision",
			number(expected_revision), "success", "request_put", put));
}

char *etcd_delete_request(const char *key)
{
	return etcd_get_request(key);
}

char *etcd_grant_request(uint64_t ttl_s)
{
	return text_of(json_pack("{s:o}", "TTL", number((int64_t) ttl_s)));
}

char *etcd_lease_request(int64_t lease)
{
	return text_of(json_pack("{s:o}", "ID", number(lease)));
}

char *etcd_authenticate_request(const char *user, const char *password)
{
	return text_of(json_pack("{s:s, s:s}", "name", user, "password", password));
}
