#pragma once

/* The host's side of a source, for running a discovery plug-in in a test: synchronous, and every
 * word of the plug-in is on record. `run` returns when on_wait says so. Nothing here fails; what is
 * more than a maximum ends the test. */

#include <usher/plugin.h>

#define FAKE_WANTED_MAX 16
#define FAKE_KNOWN_MAX  64

struct fake_answer {
	const char *service;
	struct usher_endpoints *set; /* the last offered; NULL: none */
	enum usher_verdict verdict;
	unsigned offers, confirms, fails;
	int code;                        /* of the last fail; 0 after an offer or a confirmation */
	char text[USHER_ERROR_TEXT_MAX]; /* its reason */
};

struct usher_source {
	struct usher_wanted wanted[FAKE_WANTED_MAX];
	struct fake_answer answers[FAKE_WANTED_MAX]; /* in the order of wanted */
	size_t count;
	char *known[FAKE_KNOWN_MAX];
	size_t known_count;
	/* Called for each wait, with its number from 0. Returns what usher_source_wait() returns.
	 */
	int (*on_wait)(struct usher_source *source, const struct usher_wait *wait, unsigned number);
	void *userdata;
	unsigned waits;
};

/* The strings are borrowed. */
void fake_source_want(
		struct usher_source *s, const char *service, const char *name, const char *port);
struct fake_answer *fake_source_answer(struct usher_source *s, const char *service);
bool fake_source_knows(const struct usher_source *s, const char *service);
void fake_source_done(struct usher_source *s);
