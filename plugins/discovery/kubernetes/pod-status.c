#include "pod-status.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "access.h"
#include "json-read.h"
#include "path.h"
#include "reading.h"

#define STATUS_PATH_MAX 2048
#define TIMEOUT_USEC    UINT64_C(10000000)
#define TIME_TEXT_MAX   32
#define FIELD_MANAGER   "?fieldManager=usherd"

static int out_of_memory(struct usher_error *reterr)
{
	return usher_error_set(reterr, -ENOMEM, "out of memory");
}

void pod_status_done(struct pod_status *p)
{
	json_decref(p->pod);
	p->http = usher_http_free(p->http);
	p->access = access_free(p->access);
}

/* ---- requests ---- */

/* /api/v1/namespaces/SPACE/KIND[/NAME], and what follows */
static int write_path(char *path, const char *space, const char *kind, const char *name,
		const char *rest, struct usher_error *reterr)
{
	const size_t size = STATUS_PATH_MAX;
	bool fits;

	path[0] = '\0';
	fits = path_append(path, size, "/api/v1/namespaces/") &&
			usher_http_escape(path, size, space) && path_append(path, size, "/") &&
			path_append(path, size, kind);
	if (name)
		fits = fits && path_append(path, size, "/") && usher_http_escape(path, size, name);
	if (fits && path_append(path, size, rest))
		return 0;
	return usher_error_set(reterr, -E2BIG, "the name of a Pod has too many letters");
}

/* The event of an answer of success; every other is an error. */
static int ask(struct usher_http *http, const char *method, const char *path, const char *type,
		const json_t *body, struct usher_http_event *ret, struct usher_error *reterr)
{
	const char *const headers[] = { type, NULL };
	autofree char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	struct usher_http_request request = { .size = sizeof(request),
		.method = method,
		.path = path,
		.headers = body ? headers : NULL,
		.body = text,
		.body_size = text ? strlen(text) : 0,
		.timeout_usec = TIMEOUT_USEC };
	int r;

	if (body && !text)
		return out_of_memory(reterr);
	r = usher_http_do(http, &request, ret, reterr);
	return r < 0 ? r : reading_failure(ret, reterr);
}

static int connect_to(const struct kubernetes *k, struct pod_status *p, struct usher_error *reterr)
{
	int r = access_new(&k->access, &p->access, reterr);

	return r < 0 ? r : usher_http_new(NULL, &p->access->config, &p->http, reterr);
}

static int get_pod(struct pod_status *p, const char *space, const char *name,
		struct usher_error *reterr)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	char path[STATUS_PATH_MAX];
	const json_t *metadata;
	int r = write_path(path, space, "pods", name, "", reterr);

	if (r < 0 || (r = ask(p->http, "GET", path, NULL, NULL, &event, reterr)) < 0)
		return r;
	(void) json_read(event.data, event.data_size, 0, &p->pod, NULL);
	metadata = reading_get(p->pod, "metadata");
	p->space = reading_text(metadata, "namespace");
	p->name = reading_text(metadata, "name");
	p->uid = reading_text(metadata, "uid");
	if (!p->space || !p->name || !p->uid)
		return usher_error_set(reterr, -EBADMSG, "%s says what is no Pod", event.server);
	return 0;
}

int pod_status_open(const struct kubernetes *k, const struct usher_wanted *service, const char *id,
		struct pod_status *ret, struct usher_error *reterr)
{
	cleanup(pod_status_done) struct pod_status p = { 0 };
	const char *slash = strchr(service->name, '/'), *space;
	autofree char *own =
			slash ? strndup(service->name, (size_t) (slash - service->name)) : NULL;
	int r;

	if (slash && !own)
		return out_of_memory(reterr);
	r = connect_to(k, &p, reterr);
	if (r < 0)
		return r;
	space = own ? own : k->space ? k->space : p.access->space;
	r = get_pod(&p, space, id, reterr);
	if (r < 0)
		return r;
	*ret = p;
	p = (struct pod_status){ 0 };
	return 0;
}

/* ---- what it says ---- */

bool pod_status_has_gate(const struct pod_status *p, const char *type)
{
	const json_t *gates = reading_get(reading_get(p->pod, "spec"), "readinessGates");

	for (size_t i = 0; i < json_array_size(gates); i++) {
		const char *text = reading_text(json_array_get(gates, i), "conditionType");

		if (text && strcmp(text, type) == 0)
			return true;
	}
	return false;
}

bool pod_status_is_deleted(const struct pod_status *p)
{
	return reading_text(reading_get(p->pod, "metadata"), "deletionTimestamp");
}

/* ---- what is written ---- */

static const char *write_time(uint64_t usec, char text[static TIME_TEXT_MAX])
{
	time_t seconds = usec ? (time_t) (usec / 1000000) : time(NULL);
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) ||
			strftime(text, TIME_TEXT_MAX, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		return "1970-01-01T00:00:00Z";
	return text;
}

static json_t *find_condition(const struct pod_status *p, const char *type)
{
	const json_t *all = reading_get(reading_get(p->pod, "status"), "conditions");

	for (size_t i = 0; i < json_array_size(all); i++) {
		const char *text = reading_text(json_array_get(all, i), "type");

		if (text && strcmp(text, type) == 0)
			return json_array_get(all, i);
	}
	return NULL;
}

static bool is_text(const json_t *object, const char *key, const char *text)
{
	const char *found = reading_text(object, key);

	return found && strcmp(found, text) == 0;
}

static int patch(struct pod_status *p, const struct pod_condition *condition, bool is_new_status,
		struct usher_error *reterr)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	char path[STATUS_PATH_MAX], time_text[TIME_TEXT_MAX];
	/* Merged by type: what is not told of a condition stays. */
	autojson json_t *body = json_pack("{s:{s:s}, s:{s:[{s:s, s:s, s:s, s:s, s:s*}]}}",
			"metadata", "uid", p->uid, "status", "conditions", "type", condition->type,
			"status", condition->is_true ? "True" : "False", "reason",
			condition->reason, "message", condition->message, "lastTransitionTime",
			is_new_status ? write_time(condition->since_usec, time_text) : NULL);
	int r = write_path(path, p->space, "pods", p->name, "/status" FIELD_MANAGER, reterr);

	if (r < 0)
		return r;
	if (!body)
		return out_of_memory(reterr);
	r = ask(p->http, "PATCH", path, "Content-Type: application/strategic-merge-patch+json",
			body, &event, reterr);
	return r < 0 && event.status == 422
			? usher_error_prefix(reterr, -ENOENT, "Pod %s/%s is another one by now",
					  p->space, p->name)
			: r;
}

int pod_status_set(struct pod_status *p, const struct pod_condition *condition,
		struct usher_error *reterr)
{
	const json_t *is = find_condition(p, condition->type);
	bool is_new_status = !is_text(is, "status", condition->is_true ? "True" : "False");
	bool is_news = is_new_status || !is_text(is, "reason", condition->reason);
	int r;

	if (!is_news && is_text(is, "message", condition->message))
		return 0;
	r = patch(p, condition, is_new_status, reterr);
	return r < 0 ? r : is_news;
}

int pod_status_tell(struct pod_status *p, const struct pod_condition *condition, bool is_warning,
		struct usher_error *reterr)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	char path[STATUS_PATH_MAX], time_text[TIME_TEXT_MAX];
	const char *now = write_time(0, time_text);
	autojson json_t *body = json_pack(
			"{s:{s:s+}, s:{s:s, s:s, s:s, s:s, s:s}, s:s, s:s, s:s, s:{s:s}, s:s, s:s, s:i, s:s, s:s}",
			"metadata", "generateName", p->name, ".", "involvedObject", "apiVersion",
			"v1", "kind", "Pod", "namespace", p->space, "name", p->name, "uid", p->uid,
			"reason", condition->reason, "message", condition->message, "type",
			is_warning ? "Warning" : "Normal", "source", "component", "usherd",
			"firstTimestamp", now, "lastTimestamp", now, "count", 1,
			"reportingComponent", "usher.dev/usherd", "reportingInstance", "usherd");
	int r = write_path(path, p->space, "events", NULL, FIELD_MANAGER, reterr);

	if (r < 0)
		return r;
	if (!body)
		return out_of_memory(reterr);
	return ask(p->http, "POST", path, "Content-Type: application/json", body, &event, reterr);
}
