/* What the wait of a source knows of its HTTP. */

#include <errno.h>

#include "http-private.h"
#include "source-shared.h"

int source_attach_http(struct usher_source *source, struct usher_http *h)
{
	unsigned count = 0;

	for (const struct usher_http *other = source->http; other; other = other->next)
		count++;
	if (count == SOURCE_HTTP_MAX)
		return -E2BIG;
	h->next = source->http;
	source->http = h;
	return 0;
}

void source_detach_http(struct usher_source *source, struct usher_http *h)
{
	struct usher_http **at = &source->http;

	while (*at != h)
		at = &(*at)->next;
	*at = h->next;
}

bool source_is_told_to_stop(struct usher_source *source)
{
	bool stopping;

	pthread_mutex_lock(&source->lock);
	stopping = source->stopping || !source->core;
	pthread_mutex_unlock(&source->lock);
	return stopping;
}

int source_wake_fd(struct usher_source *source)
{
	return source->wake_fd;
}
