#include "pods.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "answers.h"
#include "feed.h"
#include "own.h"
#include "pod-drains.h"
#include "pod.h"

#define DEADLINE_LEAST_USEC UINT64_C(1000000)
#define DEADLINE_MOST_USEC  UINT64_C(86400000000) /* later than that is no deadline */
#define REASON_MAX          512

/* ---- what is followed ---- */

/* As usherd itself has it, where its configuration says nothing. */
static const char *name_of_node(const struct watcher *w, char *host, size_t size)
{
	/* usherd never changes its environment. */
	const char *told = getenv("USHER_NODE_NAME"); /* NOLINT(concurrency-mt-unsafe) */

	if (w->options->node_name)
		return w->options->node_name;
	if (told && *told)
		return told;
	return gethostname(host, size) == 0 ? host : "localhost";
}

int pods_init(struct watcher *w, struct usher_error *reterr)
{
	char host[HOST_NAME_MAX + 1] = "";
	char *selector = NULL;

	if (!w->options->pods)
		return 0;
	if (asprintf(&selector, "spec.nodeName=%s", name_of_node(w, host, sizeof(host))) < 0)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	w->pods = feed_new(&kind_pods, NULL);
	if (!w->pods) {
		free(selector);
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	}
	feed_select(w, w->pods, selector);
	return 0;
}

void pods_done(struct watcher *w)
{
	w->pods = feed_free(w, w->pods);
}

static void mark_all(struct watcher *w)
{
	for (size_t i = 0; i < w->answer_count; i++)
		w->answers[i].pods_are_due = true;
}

/* They say nothing about any service, so only the log can tell. */
static void on_failed(struct watcher *w, struct feed *f, int code, const struct usher_error *why)
{
	if (!w->pods_have_failed)
		usher_log(USHER_LOG_WARNING,
				"The Pods of this node (%s) cannot be followed: %s; what is being "
				"deleted is not drained meanwhile",
				f->selector, usher_error_text(why, code));
	w->pods_have_failed = true;
}

static void on_well(struct watcher *w, struct feed *f)
{
	if (w->pods_have_failed)
		usher_log(USHER_LOG_INFO, "The Pods of this node (%s) are followed again",
				f->selector);
	w->pods_have_failed = false;
}

static void on_listed(struct watcher *w, struct feed *f)
{
	on_well(w, f);
	mark_all(w);
}

static void on_changed(struct watcher *w, struct feed *f, const void *object, bool came_or_went)
{
	(void) f, (void) object, (void) came_or_went;
	mark_all(w);
}

static void on_proven(struct watcher *w, struct feed *f, uint64_t observed_usec)
{
	(void) observed_usec;
	on_well(w, f);
}

const struct kind kind_pods = {
	.name = "Pods",
	.api = "/api/v1/",
	.resource = "pods",
	.selector = "fieldSelector",
	.read = pod_read,
	.free = pod_free,
	.key = pod_key,
	.listed = on_listed,
	.changed = on_changed,
	.failed = on_failed,
	.proven = on_proven,
};

/* ---- what is told ---- */

static bool is_of(const struct usher_endpoints *set, size_t i, const struct pod *p)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	usher_endpoints_get(set, i, &e);
	return p->uid && e.uid && strcmp(e.uid, p->uid) == 0;
}

/* A Pod's endpoint has its name as its id, but for the second of two of one name. Returns its
 * index, or -1. */
static ssize_t find_endpoint(const struct answer *a, const struct pod *p)
{
	ssize_t i = usher_endpoints_find(a->told, p->name);
	size_t count = usher_endpoints_count(a->told);

	if (i >= 0 && is_of(a->told, (size_t) i, p))
		return i;
	for (size_t k = 0; i >= 0 && k < count; k++)
		if (is_of(a->told, k, p))
			return (ssize_t) k;
	return -1;
}

/* Until it is to be gone; 0: as configured. */
static uint64_t time_left(const struct pod *p)
{
	struct timespec t = { 0 };
	uint64_t now;

	(void) clock_gettime(CLOCK_REALTIME, &t);
	now = (uint64_t) t.tv_sec * 1000000 + (uint64_t) t.tv_nsec / 1000;
	if (p->deleted_by_usec == 0 || p->deleted_by_usec > now + DEADLINE_MOST_USEC)
		return 0;
	return p->deleted_by_usec > now + DEADLINE_LEAST_USEC ? p->deleted_by_usec - now
							      : DEADLINE_LEAST_USEC;
}

static int ask_for_drain(
		struct watcher *w, const struct answer *a, const char *id, const struct pod *p)
{
	char reason[REASON_MAX];

	if (p->is_deleted)
		(void) snprintf(reason, sizeof(reason), "Pod %s/%s is being deleted", p->space,
				p->name);
	else
		(void) snprintf(reason, sizeof(reason), "annotation %s of Pod %s/%s: %s",
				POD_DRAIN_ANNOTATION, p->space, p->name, p->annotation);
	return usher_source_drain(w->source,
			&(const struct usher_drain_request){
					.size = sizeof(struct usher_drain_request),
					.service = a->service,
					.id = id,
					.uid = p->uid,
					.reason = reason,
					.deadline_usec = time_left(p),
			});
}

/* What is to be said about the answer's endpoints: 0 for nothing. */
static uint64_t sum_up(const struct watcher *w, const struct answer *a)
{
	const struct shelf *shelf = &w->pods->shelf;
	uint64_t sum = 0;

	for (size_t i = 0; i < shelf->count; i++) {
		const struct pod *p = shelf->all[i];

		if (strcmp(p->space, a->space) == 0 && find_endpoint(a, p) >= 0)
			sum += usher_hash_text(p->uid,
					p->is_deleted                             ? 3
							: pod_is_to_be_drained(p) ? 2
										  : 1);
	}
	return sum;
}

/* That a Pod stays is said once: an earlier run may have asked for a drain. */
static int say_one(struct watcher *w, const struct answer *a, const char *id, const struct pod *p)
{
	struct pod_drains *drains = w->options->drains;
	bool wanted = pod_is_to_be_drained(p);
	int r = pod_drains_ask(drains, p->uid, a->service, wanted);

	if (r < 0 || (!wanted && pod_drains_is_said_to_stay(drains, p->uid, a->service)))
		return r;
	r = wanted ? ask_for_drain(w, a, id, p) : usher_source_undrain(w->source, a->service, id);
	if (r == 0 && !wanted)
		pod_drains_said_to_stay(drains, p->uid, a->service);
	return r;
}

/* What is not said, for lack of memory or since too much waits for usherd, is said again later. */
static bool say(struct watcher *w, const struct answer *a)
{
	const struct shelf *shelf = &w->pods->shelf;
	bool is_said = true;

	for (size_t i = 0; i < shelf->count; i++) {
		const struct pod *p = shelf->all[i];
		ssize_t at = strcmp(p->space, a->space) == 0 ? find_endpoint(a, p) : -1;

		if (at < 0)
			continue;
		if (say_one(w, a, usher_endpoints_id(a->told, (size_t) at), p) < 0)
			is_said = false;
	}
	return is_said;
}

static void tell_answer(struct watcher *w, struct answer *a)
{
	uint64_t sum = sum_up(w, a);

	a->pods_are_due = false;
	if (sum == a->pods_said)
		return;
	if (say(w, a))
		a->pods_said = sum;
	else
		a->pods_are_due = true;
}

void pods_tell(struct watcher *w)
{
	bool is_all = true;

	if (!w->pods || !feed_is_current(w->pods))
		return;
	for (size_t i = 0; i < w->answer_count; i++) {
		struct answer *a = &w->answers[i];

		is_all &= a->told || a->is_failed;
		if (a->pods_are_due && a->told)
			tell_answer(w, a);
	}
	if (is_all)
		pod_drains_keep(w->options->drains, &w->pods->shelf);
}
