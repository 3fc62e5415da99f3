#include "completion.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

static void completion_receive(struct message *message, void *userdata)
{
	struct completion *completion = (struct completion *) message;

	completion->done(userdata, completion->r, completion->r < 0 ? completion->reason : NULL);
	free(completion);
}

static void completion_discard(struct message *message)
{
	free(message);
}

int completion_new(store_done done, void *userdata, struct completion **ret)
{
	struct completion *completion;

	if (!done) {
		*ret = NULL;
		return 0;
	}
	completion = calloc(1, sizeof(*completion));
	if (!completion)
		return -ENOMEM;
	completion->message.receive = completion_receive;
	completion->message.discard = completion_discard;
	completion->message.userdata = userdata;
	completion->done = done;
	*ret = completion;

	return 0;
}

void completions_answer(struct completion **list, int r, const char *reason, struct inbox *inbox)
{
	struct completion *completion, *next;

	LL_FOREACH_SAFE(*list, completion, next)
	{
		completion->r = r;
		if (r < 0 && reason)
			(void) snprintf(completion->reason, sizeof(completion->reason), "%s",
					reason);
		if (inbox)
			inbox_post(inbox, &completion->message);
		else
			free(completion);
	}
	*list = NULL;
}
