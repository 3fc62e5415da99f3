#pragma once

/* One answer to one caller of the store, made when the call is, so that answering cannot fail. */

#include <usher/error.h>

#include "inbox.h"
#include "store.h"

struct completion {
	struct message message;
	struct completion *next;
	store_done done;
	int r;
	char reason[USHER_ERROR_TEXT_MAX];
};

/* done NULL: nobody waits, and there is no completion. Errors: ENOMEM. */
int completion_new(store_done done, void *userdata, struct completion **ret);
/* Answer all of the list and empty it; inbox NULL: nobody is there any more to hear it. */
void completions_answer(struct completion **list, int r, const char *reason, struct inbox *inbox);
