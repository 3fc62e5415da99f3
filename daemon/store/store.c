#include "store.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "clock.h"
#include "endpoint-codec.h"
#include "log.h"
#include "ownership.h"
#include "store-writer.h"
#include "thread.h"

#define GATHER_USEC (200 * USEC_PER_MSEC) /* that a change nobody waits for may wait for others */

#define MESSAGE_OVERRUN   "7b4a7c2f5f0f4b52b0f3d1c2a6f1e905"
#define MESSAGE_FORGOTTEN "7b4a7c2f5f0f4b52b0f3d1c2a6f1e906"
#define MESSAGE_LEFT      "7b4a7c2f5f0f4b52b0f3d1c2a6f1e907"

DEFINE_CLEANUP(struct store, store_free);
DEFINE_CLEANUP(struct usher_endpoints, usher_endpoints_unref);

/* ---- what the core calls ---- */

/* Under the lock. While the disk fails, its retry is what comes next. */
static void due_within(struct store *s, uint64_t usec)
{
	uint64_t due_usec = clock_monotonic_usec() + usec;

	if (due_usec >= s->due_usec || s->failing)
		return;
	s->due_usec = due_usec;
	(void) pthread_cond_signal(&s->wake);
}

static void due_now(struct store *s)
{
	s->hurry = true;
	s->due_usec = 0;
	(void) pthread_cond_signal(&s->wake);
}

/* Under the lock: somebody waits for what was changed, unless it was not. */
static int end_change(struct store *store, int r, struct completion *completion)
{
	if (r >= 0)
		due_now(store);
	store_unlock(store);
	if (r < 0)
		free(completion);

	return r;
}

int store_put_drain(struct store *store, const char *id, const char *json, bool finished,
		store_done done, void *userdata)
{
	struct completion *completion;
	int r;

	r = completion_new(done, userdata, &completion);
	if (r < 0)
		return r;
	store_lock(store);
	r = ledger_put_drain(store->ledger, id, json, finished, completion);

	return end_change(store, r, completion);
}

int store_remove_drain(struct store *store, const char *id, store_done done, void *userdata)
{
	struct completion *completion;
	int r;

	r = completion_new(done, userdata, &completion);
	if (r < 0)
		return r;
	store_lock(store);
	r = ledger_remove_drain(store->ledger, id, completion);

	return end_change(store, r, completion);
}

int store_put_registration(struct store *store, const char *service, const char *id,
		const char *json, store_done done, void *userdata)
{
	struct completion *completion;
	int r;

	r = completion_new(done, userdata, &completion);
	if (r < 0)
		return r;
	store_lock(store);
	r = ledger_put_registration(store->ledger, service, id, json, completion);

	return end_change(store, r, completion);
}

int store_remove_registration(struct store *store, const char *service, const char *id,
		store_done done, void *userdata)
{
	struct completion *completion;
	int r;

	r = completion_new(done, userdata, &completion);
	if (r < 0)
		return r;
	store_lock(store);
	r = ledger_remove_registration(store->ledger, service, id, completion);

	return end_change(store, r, completion);
}

/* NOLINTNEXTLINE(readability-function-size): a feed is that much */
int store_put_feed(struct store *store, const char *service, const char *source,
		struct usher_endpoints *endpoints, const char *revision,
		uint64_t observed_wall_usec, store_done done, void *userdata)
{
	struct stored_feed feed = {
		.service = service,
		.source = source,
		.endpoints = endpoints,
		.revision = revision,
		.observed_wall_usec = observed_wall_usec,
	};
	struct completion *completion;
	int r;

	r = completion_new(done, userdata, &completion);
	if (r < 0)
		return r;
	store_lock(store);
	r = ledger_put_feed(store->ledger, &feed, completion);
	if (r >= 0 && completion)
		due_now(store);
	else if (r >= 0)
		due_within(store, r > 0 ? STORE_REFRESH_USEC : GATHER_USEC);
	store_unlock(store);
	if (r < 0)
		free(completion);

	return r < 0 ? r : 0;
}

int store_touch_feed(struct store *store, const char *service, const char *source,
		uint64_t observed_wall_usec)
{
	int r;

	store_lock(store);
	r = ledger_touch_feed(store->ledger, service, source, observed_wall_usec);
	if (r >= 0)
		due_within(store, STORE_REFRESH_USEC);
	store_unlock(store);

	return r;
}

int store_remove_feed(struct store *store, const char *service, const char *source)
{
	int r;

	store_lock(store);
	r = ledger_remove_feed(store->ledger, service, source);
	if (r >= 0)
		due_within(store, GATHER_USEC);
	store_unlock(store);

	return r;
}

int store_put_cursor(struct store *store, const char *service, uint64_t cursor)
{
	int r;

	store_lock(store);
	r = ledger_put_cursor(store->ledger, service, cursor);
	if (r >= 0)
		due_within(store, STORE_REFRESH_USEC);
	store_unlock(store);

	return r;
}

uint64_t store_next_revision(struct store *store)
{
	uint64_t revision;
	bool overrun;

	store_lock(store);
	revision = store->next_revision++;
	if (store->reserve == 0 && revision + STORE_REVISION_STEP / 2 >= store->reserved) {
		store->reserve = revision + STORE_REVISION_STEP;
		due_now(store);
	}
	overrun = revision >= store->reserved && !store->overrun;
	store->overrun |= overrun;
	store_unlock(store);
	if (overrun)
		log_error(FIELDS(.value[LOG_MESSAGE_ID] = MESSAGE_OVERRUN),
				"The disk has not taken the reservation of revisions above %" PRIu64
				"; going on without it: after a crash they may be given again",
				revision);

	return revision;
}

const char *store_trouble(struct store *store)
{
	store_lock(store);
	memcpy(store->trouble_shown, store->trouble, sizeof(store->trouble_shown));
	store_unlock(store);

	return store->trouble_shown[0] ? store->trouble_shown : NULL;
}

/* ---- opening and closing ---- */

struct load {
	struct store *store;
	const struct store_loader *loader;
	void *userdata;
};

static int load_feed(void *userdata, const struct stored_feed *stored, const char *endpoints,
		size_t endpoints_size)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = NULL;
	const struct load *load = userdata;
	struct stored_feed feed = *stored;
	struct usher_error err = {};
	int r;

	r = endpoints_decode(endpoints, endpoints_size, &set, &err);
	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		log_warning(FIELDS(.value[LOG_SERVICE] = feed.service,
					    .value[LOG_SOURCE] = feed.source,
					    .value[LOG_MESSAGE_ID] = MESSAGE_FORGOTTEN),
				"Cannot read what %s said of %s before the restart: %s; waiting for its "
				"next answer",
				feed.source, feed.service, err.text);
		return 0;
	}
	feed.endpoints = set;
	r = ledger_put_feed(load->store->ledger, &feed, NULL);
	if (r >= 0)
		load->loader->feed(load->userdata, &feed);

	return r;
}

static int load_drain(void *userdata, const struct stored_drain *drain)
{
	const struct load *load = userdata;
	int r;

	r = ledger_put_drain(load->store->ledger, drain->id, drain->json, drain->finished, NULL);
	if (r >= 0)
		load->loader->drain(load->userdata, drain);

	return r;
}

static int load_cursor(void *userdata, const char *service, uint64_t cursor)
{
	const struct load *load = userdata;
	int r;

	r = ledger_put_cursor(load->store->ledger, service, cursor);
	if (r >= 0)
		load->loader->cursor(load->userdata, service, cursor);

	return r == -ENOENT ? 0 : r; /* of a service that has gone */
}

static int load_registration(void *userdata, const struct stored_registration *registration)
{
	const struct load *load = userdata;
	int r;

	r = ledger_put_registration(load->store->ledger, registration->service, registration->id,
			registration->json, NULL);
	if (r >= 0 && load->loader->registration)
		load->loader->registration(load->userdata, registration);

	return r;
}

static int store_load(struct store *s, const struct store_loader *loader, void *userdata,
		struct usher_error *reterr)
{
	static const struct database_reader reader = {
		.feed = load_feed,
		.drain = load_drain,
		.cursor = load_cursor,
		.registration = load_registration,
	};
	struct load load = { .store = s, .loader = loader, .userdata = userdata };
	int r;

	r = database_read(s->file.database, &reader, &load, reterr);
	if (r >= 0)
		ledger_settle_all(s->ledger);

	return r;
}

/* The first revision, and a reservation ahead of it. */
static int reserve_first(struct store *s, struct usher_error *reterr)
{
	struct transaction transaction = {};
	uint64_t reserved;
	int r;

	r = database_read_reserved(s->file.database, &reserved, reterr);
	if (r < 0)
		return r;
	s->next_revision = reserved > 0 ? reserved : 1;
	if (s->file.renewed && s->next_revision < clock_wall_usec())
		s->next_revision = clock_wall_usec();
	transaction.reserved = s->next_revision + STORE_REVISION_STEP;
	r = database_write(s->file.database, &transaction, reterr);
	if (r < 0)
		return r;
	s->reserved = transaction.reserved;

	return 0;
}

static struct store *store_new(struct inbox *inbox)
{
	struct store *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	(void) pthread_mutex_init(&s->lock, NULL);
	(void) pthread_cond_init(&s->wake, NULL);
	s->inbox = inbox;
	s->due_usec = USEC_FOREVER;
	s->ledger = ledger_new();

	return s->ledger ? s : store_free(s);
}

/* NOLINTNEXTLINE(readability-function-size) */
int store_open(const char *dir, struct inbox *inbox, const struct store_loader *loader,
		void *userdata, struct store **ret, uint64_t *ret_revision,
		struct usher_error *reterr)
{
	cleanup(store_freep) struct store *s = store_new(inbox);
	int r;

	if (!s)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	r = store_file_init(&s->file, dir, reterr);
	if (r < 0)
		return r;
	r = store_load(s, loader, userdata, reterr);
	if (r < 0)
		return r;
	r = reserve_first(s, reterr);
	if (r < 0)
		return r;
	s->check_usec = clock_monotonic_usec() + STORE_CHECK_USEC;
	r = thread_start(&s->thread, "store", store_run, s);
	if (r < 0)
		return usher_error_set(reterr, r, "cannot start the thread of the store");
	*ret_revision = s->next_revision;
	*ret = take(s);

	return 0;
}

struct store *store_close(struct store *store)
{
	pthread_t thread;
	bool finished;
	int r;

	if (!store)
		return NULL;
	thread = store->thread;
	store_lock(store);
	store->closing = true;
	(void) pthread_cond_signal(&store->wake);
	store_unlock(store);

	r = thread_join_until(thread, clock_boot_usec() + STORE_CLOSE_USEC);
	store_lock(store);
	finished = store->finished;
	if (!finished)
		store->inbox = NULL; /* the thread frees the store */
	store_unlock(store);
	if (!finished) {
		log_error(FIELDS(.value[LOG_MESSAGE_ID] = MESSAGE_LEFT),
				"The disk has not taken what waits for it within %" PRIu64
				" s; stopping without it",
				STORE_CLOSE_USEC / USEC_PER_SEC);
		(void) pthread_detach(thread);
		return NULL;
	}
	if (r < 0)
		(void) pthread_join(thread, NULL);

	return store_free(store);
}
