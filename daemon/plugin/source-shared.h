#pragma once

/* What a source's thread and the core share: the plug-in knows it as struct usher_source.
 *
 * Both hold a reference, so a thread that was left behind finds everything it touches in place;
 * only nobody listens to it any more (`core` is NULL). What the thread says is kept per service,
 * the latest of each kind, and one message at a time asks the core to take it: a flood costs no
 * memory. */

#include <pthread.h>
#include <stdatomic.h>

#include "file-watch.h"
#include "random.h"
#include "source.h"
#include "wanted-list.h"

#define SOURCE_WATCHES_MAX 16 /* paths that one plug-in waits for; the longest unused goes */

/* A list of names that the source sees: one block. */
struct known {
	size_t count;
	const char *names[]; /* sorted, NULL-terminated */
};

/* What the plug-in says of one endpoint's drain: one block, with its texts. */
struct drain_word {
	struct drain_word *next;
	struct source_drain drain;
};

struct usher_source {
	atomic_uint refs;
	struct plugin_instance *instance;
	struct inbox *inbox;
	char *name;
	int wake_fd; /* readable when there is something new for the thread */

	pthread_mutex_t lock; /* for what follows */
	struct source *core;  /* NULL: nobody listens. Written by the core only */
	bool stopping;
	bool running; /* inside the plug-in's run */
	unsigned restarts;
	struct wanted_list *newest;
	struct wanted_list *current;      /* what the thread goes by; written by the thread only */
	struct said *queue, **queue_last; /* with something for the core */
	struct failure *fault;            /* of the thread itself, for the core */
	struct known *known;              /* for the core */
	struct drain_word *drains;        /* for the core, the latest of each endpoint */
	size_t drain_count;
	struct message message;
	bool posted; /* the message is in the inbox */

	struct random random; /* the thread's from here on */
	unsigned attempt;
	struct source_watch {
		struct file_watch *watch;
		uint64_t used; /* the number of the wait that last asked for it */
	} watches[SOURCE_WATCHES_MAX];
	uint64_t waits;
	struct usher_http *http; /* those that the plug-in has made; a list */
};

struct usher_source *source_shared_ref(struct usher_source *shared);
struct usher_source *source_shared_unref(
		struct usher_source *shared); /* NULL is fine; returns NULL */

/* Under the lock: see that the core comes and takes what there is. */
void source_shared_post(struct usher_source *shared);
/* Under the lock: put what was said in the queue for the core. */
void source_shared_queue(struct usher_source *shared, struct said *said);
/* Under the lock: what the plug-in says of one service. */
void source_shared_fail(struct usher_source *shared, const char *service, struct failure *failure);
/* The same of every service of which its last word was not a failure, and a better one, already. */
void source_shared_fail_quiet(struct usher_source *shared, struct failure *failure);
/* Under the lock: where the thread may put its word about a service. NULL: nobody wants it, or the
 * thread has not seen yet that it is wanted under another name. */
struct said *source_shared_find(struct usher_source *shared, const char *service);

/* In source-drains.c. Under the lock: what was said, the earliest first; the caller's. */
struct drain_word *source_drains_take(struct usher_source *shared);
void drain_words_free(struct drain_word *words); /* NULL is fine */

/* On the thread: go by the newest list. Returns whether that was news. */
bool source_take_wanted(struct usher_source *shared);
/* The thread: run the plug-in until told to stop. userdata is a reference to the shared part. */
void *source_thread_main(void *userdata);
/* The name of the source whose thread this is, for the log; NULL on any other. */
const char *source_thread_name(void);
