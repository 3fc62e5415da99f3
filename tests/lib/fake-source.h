#pragma once

/* The host's side of a source, for running a discovery plug-in in a test: synchronous, and every
 * word of the plug-in is on record. `run` returns when on_wait says so. Nothing here fails; what is
 * more than a maximum ends the test. */

#include <usher/plugin.h>

#define FAKE_WANTED_MAX 16
#define FAKE_KNOWN_MAX  64
#define FAKE_DRAINS_MAX 64

struct fake_answer {
	const char *service;
	struct usher_endpoints *set; /* the last offered; NULL: none */
	enum usher_verdict verdict;
	unsigned offers, confirms, fails;
	int code;                        /* of the last fail; 0 after an offer or a confirmation */
	char text[USHER_ERROR_TEXT_MAX]; /* its reason */
};

/* The last word about an endpoint's drain. */
struct fake_drain {
	char service[64], id[128];
	char uid[128], reason[256]; /* empty: it does not say */
	uint64_t deadline_usec;
	bool wanted;
	unsigned said; /* how often in all */
};

struct usher_source {
	struct usher_wanted wanted[FAKE_WANTED_MAX];
	struct fake_answer answers[FAKE_WANTED_MAX]; /* in the order of wanted */
	size_t count;
	char *known[FAKE_KNOWN_MAX];
	size_t known_count;
	struct fake_drain drains[FAKE_DRAINS_MAX];
	size_t drain_count;
	unsigned drains_refused; /* the next so many words about drains: E2BIG */
	/* Called for each wait, with its number from 0. Returns what usher_source_wait() returns.
	 */
	int (*on_wait)(struct usher_source *source, const struct usher_wait *wait, unsigned number);
	void *userdata;
	unsigned waits;
	bool stopped;            /* on_wait has said 0 */
	struct usher_http *http; /* what the plug-in has opened for this source */
};

/* The strings are borrowed. */
void fake_source_want(
		struct usher_source *s, const char *service, const char *name, const char *port);
struct fake_answer *fake_source_answer(struct usher_source *s, const char *service);
bool fake_source_knows(const struct usher_source *s, const char *service);
/* NULL: the plug-in has not spoken of it. */
struct fake_drain *fake_source_drain(struct usher_source *s, const char *service, const char *id);
void fake_source_done(struct usher_source *s);

/* For on_wait: wait in earnest, for what HTTP brings or for the time to be over (a back-off counts
 * as FAKE_BACKOFF_USEC). Returns USHER_WAIT_HTTP or USHER_WAIT_TIMEOUT, or both. A wait that
 * nothing ends within FAKE_PATIENCE_USEC ends the test. */
#define FAKE_BACKOFF_USEC  UINT64_C(10000)
#define FAKE_PATIENCE_USEC UINT64_C(30000000)
int fake_source_wait_http(struct usher_source *s, const struct usher_wait *wait);
