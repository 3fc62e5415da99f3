#include "pod-drains.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "own.h"
#include "pod.h"

#define TEXT_MAX 256

struct pod_drain {
	char *uid, *service;
	bool is_wanted;
	bool is_said_to_stay;
	bool is_told; /* and then the rest */
	enum usher_drain_state state;
	uint64_t since_usec;
	char step[POD_DRAINS_STEP_MAX];
	char text[TEXT_MAX]; /* "catalog, drain d-1: waits for ..." */
	struct pod_drain *next;
};

struct pod_drains {
	pthread_mutex_t lock;
	struct pod_drain *all;
	bool is_complete; /* everything has been asked for that is to be */
};

struct pod_drains *pod_drains_new(void)
{
	struct pod_drains *d = calloc(1, sizeof(*d));

	if (d)
		(void) pthread_mutex_init(&d->lock, NULL);
	return d;
}

static void free_first(struct pod_drain **at)
{
	struct pod_drain *first = *at;

	*at = first->next;
	free(first->uid);
	free(first->service);
	free(first);
}

struct pod_drains *pod_drains_free(struct pod_drains *d)
{
	if (!d)
		return NULL;
	while (d->all)
		free_first(&d->all);
	(void) pthread_mutex_destroy(&d->lock);
	free(d);
	return NULL;
}

/* ---- what is asked for ---- */

static struct pod_drain *find(struct pod_drains *d, const char *uid, const char *service)
{
	struct pod_drain *one = d->all;

	while (one && (strcmp(one->uid, uid) != 0 || strcmp(one->service, service) != 0))
		one = one->next;
	return one;
}

static struct pod_drain *add(struct pod_drains *d, const char *uid, const char *service)
{
	struct pod_drain *one = calloc(1, sizeof(*one));

	if (!one)
		return NULL;
	one->next = d->all;
	d->all = one;
	one->uid = strdup(uid);
	one->service = strdup(service);
	if (one->uid && one->service)
		return one;
	free_first(&d->all);
	return NULL;
}

int pod_drains_ask(struct pod_drains *d, const char *uid, const char *service, bool wanted)
{
	struct pod_drain *one;

	(void) pthread_mutex_lock(&d->lock);
	one = find(d, uid, service);
	if (!one)
		one = add(d, uid, service);
	if (one && wanted && !one->is_wanted)
		one->is_told = false; /* of an earlier drain */
	if (one) {
		one->is_wanted = wanted;
		one->is_said_to_stay &= !wanted;
	}
	(void) pthread_mutex_unlock(&d->lock);
	return one ? 0 : -ENOMEM;
}

bool pod_drains_is_said_to_stay(struct pod_drains *d, const char *uid, const char *service)
{
	const struct pod_drain *one;
	bool is_said;

	(void) pthread_mutex_lock(&d->lock);
	one = find(d, uid, service);
	is_said = one && one->is_said_to_stay;
	(void) pthread_mutex_unlock(&d->lock);
	return is_said;
}

void pod_drains_said_to_stay(struct pod_drains *d, const char *uid, const char *service)
{
	struct pod_drain *one;

	(void) pthread_mutex_lock(&d->lock);
	one = find(d, uid, service);
	if (one)
		one->is_said_to_stay = true;
	(void) pthread_mutex_unlock(&d->lock);
}

static bool is_there(const struct shelf *pods, const char *uid)
{
	for (size_t i = 0; i < pods->count; i++) {
		const struct pod *p = pods->all[i];

		if (p->uid && strcmp(p->uid, uid) == 0)
			return true;
	}
	return false;
}

void pod_drains_keep(struct pod_drains *d, const struct shelf *pods)
{
	(void) pthread_mutex_lock(&d->lock);
	for (struct pod_drain **at = &d->all; *at;) {
		if (is_there(pods, (*at)->uid))
			at = &(*at)->next;
		else
			free_first(at);
	}
	d->is_complete = true;
	(void) pthread_mutex_unlock(&d->lock);
}

/* ---- how it goes ---- */

static bool is_return(enum usher_drain_state state)
{
	return state == USHER_DRAIN_RETURNING || state == USHER_DRAIN_CANCELLED;
}

static void note(struct pod_drain *one, const struct usher_drain_progress *progress)
{
	const char *drain = progress->drain ? progress->drain : "";
	const char *text = progress->text ? progress->text : "";

	one->is_told = true;
	one->state = progress->state;
	one->since_usec = progress->since_usec;
	(void) snprintf(one->step, sizeof(one->step), "%s", progress->step ? progress->step : "");
	(void) snprintf(one->text, sizeof(one->text), "%s%s%s%s%s", one->service,
			*drain ? ", drain " : "", drain, *text ? ": " : "", text);
}

/* What people must know first. */
static unsigned urgency(const struct pod_drain *one)
{
	static const unsigned of[] = {
		[USHER_DRAIN_FAILED] = 6,
		[USHER_DRAIN_HELD] = 5,
		[USHER_DRAIN_REFUSED] = 4,
		[USHER_DRAIN_RUNNING] = 3,
		[USHER_DRAIN_RETURNING] = 2,
		[USHER_DRAIN_CANCELLED] = 1,
		[USHER_DRAIN_DONE] = 0,
	};

	return one->is_told ? of[one->state] : of[USHER_DRAIN_RUNNING];
}

static void append(char *message, const struct pod_drain *one)
{
	size_t length = strlen(message);

	(void) snprintf(message + length, POD_DRAINS_MESSAGE_MAX - length, "%s%s",
			length ? "; " : "", one->is_told ? one->text : one->service);
}

static void sum_up(const struct pod_drains *d, const char *uid, struct pod_drains_sum *ret)
{
	const struct pod_drain *first = NULL;

	*ret = (struct pod_drains_sum){ .state = USHER_DRAIN_RUNNING };
	for (const struct pod_drain *one = d->all; one; one = one->next) {
		if (strcmp(one->uid, uid) != 0 || (!one->is_wanted && !one->is_told))
			continue;
		append(ret->message, one);
		if (!first || urgency(one) > urgency(first))
			first = one;
	}
	if (!first || !first->is_told)
		return;
	ret->state = first->state;
	ret->since_usec = first->since_usec;
	memcpy(ret->step, first->step, sizeof(ret->step));
}

int pod_drains_tell(struct pod_drains *d, const char *uid, const char *service,
		const struct usher_drain_progress *progress, struct pod_drains_sum *ret)
{
	struct pod_drain *one;
	int r;

	(void) pthread_mutex_lock(&d->lock);
	one = find(d, uid, service);
	r = !d->is_complete ? -EAGAIN : one && (one->is_wanted || is_return(progress->state));
	if (r > 0) {
		note(one, progress);
		sum_up(d, uid, ret);
	}
	(void) pthread_mutex_unlock(&d->lock);
	return r;
}
