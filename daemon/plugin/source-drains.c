/* What a discovery plug-in says of drains: the latest word about each endpoint, kept for the core.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ownership.h"
#include "source-shared.h"

void drain_words_free(struct drain_word *words)
{
	while (words) {
		struct drain_word *next = words->next;

		free(words);
		words = next;
	}
}

static size_t size_of(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static const char *put_text(char **at, const char *text)
{
	char *copy = *at;

	if (!text)
		return NULL;
	memcpy(copy, text, strlen(text) + 1);
	*at += strlen(text) + 1;
	return copy;
}

static struct drain_word *word_new(const struct source_drain *drain)
{
	struct drain_word *word;
	char *texts;

	word = malloc(sizeof(*word) + size_of(drain->service) + size_of(drain->id) +
			size_of(drain->uid) + size_of(drain->reason));
	if (!word)
		return NULL;
	texts = (char *) (word + 1);
	word->next = NULL;
	word->drain = *drain;
	word->drain.service = put_text(&texts, drain->service);
	word->drain.id = put_text(&texts, drain->id);
	word->drain.uid = put_text(&texts, drain->uid);
	word->drain.reason = put_text(&texts, drain->reason);
	return word;
}

/* Where the word about that endpoint stands, or where the next one goes. */
static struct drain_word **find_word(struct usher_source *source, const struct source_drain *drain)
{
	struct drain_word **at = &source->drains;

	while (*at &&
			(strcmp((*at)->drain.id, drain->id) != 0 ||
					strcmp((*at)->drain.service, drain->service) != 0))
		at = &(*at)->next;
	return at;
}

/* Under the lock. Takes the word, unless it fails. */
static int put_word(struct usher_source *source, struct drain_word *word)
{
	struct drain_word **at, *old;

	if (!source_shared_find(source, word->drain.service))
		return -ENOENT;
	at = find_word(source, &word->drain);
	old = *at;
	if (!old && source->drain_count == SOURCE_DRAINS_MAX)
		return -E2BIG;
	word->next = old ? old->next : NULL;
	*at = word;
	if (!old)
		source->drain_count++;
	free(old);
	source_shared_post(source);
	return 0;
}

static int say(struct usher_source *source, const struct source_drain *drain)
{
	struct drain_word *word;
	int r;

	if (!drain->service || !drain->id || !drain->id[0])
		return -EINVAL;
	word = word_new(drain);
	if (!word)
		return -ENOMEM;
	pthread_mutex_lock(&source->lock);
	r = put_word(source, word);
	pthread_mutex_unlock(&source->lock);
	if (r < 0)
		free(word);
	return r;
}

int usher_source_drain(struct usher_source *source, const struct usher_drain_request *request)
{
	struct usher_drain_request known = {};
	size_t size = request->size;

	if (size == 0 || size > sizeof(known))
		size = sizeof(known);
	memcpy(&known, request, size);
	return say(source,
			&(const struct source_drain){
					.wanted = true,
					.service = known.service,
					.id = known.id,
					.uid = known.uid,
					.reason = known.reason,
					.deadline_usec = known.deadline_usec,
			});
}

int usher_source_undrain(struct usher_source *source, const char *service, const char *id)
{
	return say(source, &(const struct source_drain){ .service = service, .id = id });
}

struct drain_word *source_drains_take(struct usher_source *shared)
{
	struct drain_word *words = take(shared->drains);

	shared->drain_count = 0;
	return words;
}
