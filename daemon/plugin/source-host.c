/* What a discovery plug-in may call: its words, kept for the core to take. */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "ownership.h"
#include "source-shared.h"

DEFINE_CLEANUP(struct observation, observation_unref);

const char *usher_source_name(struct usher_source *source)
{
	return source->name;
}

const struct usher_wanted *usher_source_wanted(struct usher_source *source, size_t *ret_count)
{
	*ret_count = source->current->count;
	return source->current->wanted;
}

static uint64_t time_of(uint64_t observed_usec)
{
	uint64_t now = clock_boot_usec();

	return observed_usec == 0 || observed_usec > now ? now : observed_usec;
}

static bool observation_equal(const struct observation *a, const struct observation *b)
{
	return a && b && a->verdict == b->verdict &&
			usher_endpoints_equal(a->endpoints, b->endpoints);
}

/* Under the lock. */
static void put_confirm(struct usher_source *source, struct said *said, uint64_t observed_usec)
{
	if (observed_usec > said->confirmed_usec)
		said->confirmed_usec = observed_usec;
	said->failed = failure_unref(said->failed);
	said->failing = false;
	source_shared_queue(source, said);
}

/* Under the lock: a new answer, which makes everything said before it pointless. */
static void put_offer(struct usher_source *source, struct said *said, struct observation *offer)
{
	observation_unref(said->offered);
	said->offered = offer;
	said->confirmed_usec = 0;
	said->failed = failure_unref(said->failed);
	said->failing = false;
	source_shared_queue(source, said);
}

/* The last words before this one, with references: comparing sets takes too long for the lock. */
static int last_offers(struct usher_source *source, const char *service,
		struct observation **ret_offered, struct observation **ret_delivered)
{
	struct said *said;

	pthread_mutex_lock(&source->lock);
	said = source_shared_find(source, service);
	if (said) {
		*ret_offered = observation_ref(said->offered);
		*ret_delivered = observation_ref(said->delivered);
	}
	pthread_mutex_unlock(&source->lock);
	return said ? 0 : -ENOENT;
}

int usher_source_offer(struct usher_source *source, const char *service,
		struct usher_endpoints *set, enum usher_verdict verdict, const char *revision,
		uint64_t observed_usec)
{
	cleanup(observation_unrefp) struct observation *offered = NULL;
	cleanup(observation_unrefp) struct observation *delivered = NULL;
	cleanup(observation_unrefp) struct observation *offer = NULL;
	uint64_t observed = time_of(observed_usec);
	bool same_as_offered, same_as_delivered;
	struct said *said;
	int r;

	if (!service || !set) {
		usher_endpoints_unref(set);
		return -EINVAL;
	}
	offer = observation_new(set, verdict, revision, observed);
	if (!offer)
		return -ENOMEM;
	source->attempt = 0;
	r = last_offers(source, service, &offered, &delivered);
	if (r < 0)
		return r;
	same_as_offered = observation_equal(offered, offer);
	same_as_delivered = observation_equal(delivered, offer);

	/* Meanwhile the core may have taken what was offered, which is then what it was delivered;
	 * a said that is another by now has neither of the two. */
	pthread_mutex_lock(&source->lock);
	said = source_shared_find(source, service);
	if (!said) {
		r = -ENOENT;
	} else if (offered && said_last_offer(said) == offered && same_as_offered) {
		put_confirm(source, said, observed);
	} else if (delivered && said->delivered == delivered && same_as_delivered) {
		said->offered = observation_unref(said->offered);
		put_confirm(source, said, observed);
	} else {
		put_offer(source, said, take(offer));
	}
	pthread_mutex_unlock(&source->lock);
	return r;
}

void usher_source_confirm(struct usher_source *source, const char *service, uint64_t observed_usec)
{
	uint64_t observed = time_of(observed_usec);

	source->attempt = 0;
	pthread_mutex_lock(&source->lock);
	for (size_t i = 0; i < source->current->count; i++) {
		const char *name = source->current->wanted[i].service;
		struct said *said;

		if (service)
			name = service;
		said = source_shared_find(source, name);
		if (said && said_last_offer(said))
			put_confirm(source, said, observed);
		if (service)
			break;
	}
	pthread_mutex_unlock(&source->lock);
}

void usher_source_fail(struct usher_source *source, const char *service, int code,
		const struct usher_error *why)
{
	int negative = code > 0 ? -code : code < 0 ? code : -EIO;
	struct failure *failure;

	failure = failure_new(negative, usher_error_text(why, negative));
	if (!failure)
		failure = failure_new(-ENOMEM, "");
	if (!failure) {
		log_error(FIELDS(.value[LOG_SOURCE] = source->name),
				"Source %s failed, and there is no memory to say so", source->name);
		return;
	}

	pthread_mutex_lock(&source->lock);
	if (service)
		source_shared_fail(source, service, failure);
	else
		for (size_t i = 0; i < source->current->count; i++)
			source_shared_fail(source, source->current->wanted[i].service, failure);
	failure_unref(failure);
	pthread_mutex_unlock(&source->lock);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

static bool is_name(const char *name)
{
	return name && name[0] && strlen(name) <= USHER_TEXT_MAX;
}

/* One block: the table, then the texts. */
static struct known *copy_known(const char *const *names, size_t count)
{
	size_t size = sizeof(struct known) + sizeof(char *);
	struct known *known;
	char *texts;

	for (size_t i = 0; i < count; i++)
		if (is_name(names[i]))
			size += sizeof(char *) + strlen(names[i]) + 1;
	known = calloc(1, size);
	if (!known)
		return NULL;

	for (size_t i = 0; i < count; i++)
		if (is_name(names[i]))
			known->names[known->count++] = names[i];
	texts = (char *) &known->names[known->count + 1];
	for (size_t i = 0; i < known->count; i++) {
		size_t length = strlen(known->names[i]) + 1;

		known->names[i] = memcpy(texts, known->names[i], length);
		texts += length;
	}
	return known;
}

static void sort_known(struct known *known)
{
	size_t kept = 0;

	if (known->count == 0)
		return;
	qsort(known->names, known->count, sizeof(*known->names), compare_names);
	for (size_t i = 1; i < known->count; i++)
		if (strcmp(known->names[kept], known->names[i]) != 0)
			known->names[++kept] = known->names[i];
	known->count = kept + 1;
	known->names[known->count] = NULL;
}

void usher_source_known(struct usher_source *source, const char *const *names, size_t count)
{
	struct known *known;

	if (count > SOURCE_KNOWN_MAX) {
		log_warning(FIELDS(.value[LOG_SOURCE] = source->name),
				"Source %s sees %zu services; listing the first %d as known",
				source->name, count, SOURCE_KNOWN_MAX);
		count = SOURCE_KNOWN_MAX;
	}
	known = copy_known(names, count);
	if (!known) {
		log_error(FIELDS(.value[LOG_SOURCE] = source->name),
				"No memory for the %zu services that source %s sees; keeping the list "
				"before",
				count, source->name);
		return;
	}
	sort_known(known);

	pthread_mutex_lock(&source->lock);
	free(source->known);
	source->known = known;
	source_shared_post(source);
	pthread_mutex_unlock(&source->lock);
}
