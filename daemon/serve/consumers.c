#include "consumers.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>

#include "clock.h"
#include "door.h"
#include "hash.h"
#include "ownership.h"

/* All interests in one service. */
struct followed {
	UT_hash_handle hh;
	struct interest *interests;
	char service[];
};

struct interest_key {
	struct consumer *consumer;
	struct followed *followed;
};

struct interest {
	UT_hash_handle hh;
	struct interest_key key;
	struct interest *next, *prev;           /* of the service */
	struct interest *mine_next, *mine_prev; /* of the consumer */
	struct reading *watches;
	struct reading *lists;
	uint64_t listed_sent, listed_read;
	bool acks;
	uint64_t acked;
};

struct consumer_key {
	int door;
	pid_t pid;
	uint64_t alone; /* not 0: a consumer of one connection, for its process is not known */
	char name[CONSUMER_NAME_MAX];
};

struct consumer {
	UT_hash_handle hh;
	struct consumer_key key;
	struct consumers *consumers;
	uint64_t id;
	uid_t uid;
	unsigned connections;
	uint64_t connected_usec;
	bool looked; /* for the program */
	char program[CONSUMER_NAME_MAX];
	char shown[CONSUMER_NAME_MAX];
	struct interest *interests;
	size_t interest_count;
};

struct consumers {
	struct consumer *by_key;
	struct followed *by_service;
	struct interest *by_pair;
	uint64_t last_id;
	size_t count[DOOR_MAX];
};

struct consumers *consumers_new(void)
{
	return calloc(1, sizeof(struct consumers));
}

struct consumers *consumers_free(struct consumers *c)
{
	if (!c)
		return NULL;
	assert(!c->by_key && !c->by_service);
	free(c);
	return NULL;
}

size_t consumers_count(const struct consumers *c, enum server_door door)
{
	return c->count[door];
}

/* What peers call themselves may be any bytes: only printable ASCII gets in. */
static void copy_name(const char *name, char ret[CONSUMER_NAME_MAX])
{
	size_t i = 0;

	for (; name && name[i] && i < CONSUMER_NAME_MAX - 1; i++)
		ret[i] = name[i] > 0x20 && name[i] < 0x7f ? name[i] : '?';
	memset(ret + i, 0, CONSUMER_NAME_MAX - i);
}

static void look_for_program(struct consumer *consumer)
{
	char path[32], line[CONSUMER_NAME_MAX] = "";
	autoclose int fd = -1;
	ssize_t length;

	consumer->looked = true;
	if (consumer->key.pid <= 0)
		return;
	(void) snprintf(path, sizeof(path), "/proc/%d/comm", (int) consumer->key.pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	length = read(fd, line, sizeof(line) - 1);
	if (length <= 0)
		return;
	line[strcspn(line, "\n")] = '\0';
	copy_name(line, consumer->program);
}

const char *consumer_name(struct consumer *consumer)
{
	if (consumer->key.name[0])
		return consumer->key.name;
	if (!consumer->looked)
		look_for_program(consumer);
	if (consumer->program[0])
		return consumer->program;
	if (consumer->key.pid > 0)
		(void) snprintf(consumer->shown, sizeof(consumer->shown), "pid %d",
				(int) consumer->key.pid);
	else
		(void) snprintf(consumer->shown, sizeof(consumer->shown), "c-%llu",
				(unsigned long long) consumer->id);
	return consumer->shown;
}

bool consumer_is_named(const struct consumer *consumer, const char *name)
{
	char wanted[CONSUMER_NAME_MAX];

	if (!name || !*name)
		return !consumer->key.name[0];
	copy_name(name, wanted);
	return strcmp(consumer->key.name, wanted) == 0;
}

struct consumer *consumers_enter(struct consumers *c, enum server_door door, pid_t pid, uid_t uid,
		const char *name, uint64_t now_usec)
{
	struct consumer *consumer;
	struct consumer_key key;

	memset(&key, 0, sizeof(key)); /* the padding is part of the key */
	key.door = (int) door;
	key.pid = pid;
	key.alone = pid > 0 ? 0 : c->last_id + 1;
	copy_name(name, key.name);
	HASH_FIND(hh, c->by_key, &key, sizeof(key), consumer);
	if (consumer) {
		consumer->connections++;
		return consumer;
	}
	consumer = calloc(1, sizeof(*consumer));
	if (!consumer)
		return NULL;
	consumer->key = key;
	consumer->consumers = c;
	consumer->uid = uid;
	consumer->id = ++c->last_id;
	consumer->connections = 1;
	consumer->connected_usec = now_usec;
	HASH_ADD(hh, c->by_key, key, sizeof(key), consumer);
	if (!hash_was_added(consumer)) {
		free(consumer);
		return NULL;
	}
	c->count[door]++;
	return consumer;
}

static struct followed *followed_get(struct consumers *c, const char *service)
{
	size_t length = strlen(service);
	struct followed *f;

	HASH_FIND(hh, c->by_service, service, length, f);
	if (f)
		return f;
	f = calloc(1, sizeof(*f) + length + 1);
	if (!f)
		return NULL;
	memcpy(f->service, service, length);
	HASH_ADD(hh, c->by_service, service[0], length, f);
	if (!hash_was_added(f)) {
		free(f);
		return NULL;
	}
	return f;
}

static void followed_drop_unused(struct consumers *c, struct followed *f)
{
	if (f->interests)
		return;
	HASH_DEL(c->by_service, f);
	free(f);
}

static struct interest *interest_find(struct consumer *consumer, struct followed *f)
{
	struct interest_key key = { .consumer = consumer, .followed = f };
	struct interest *i;

	HASH_FIND(hh, consumer->consumers->by_pair, &key, sizeof(key), i);
	return i;
}

static struct interest *interest_new(struct consumer *consumer, struct followed *f)
{
	struct interest *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	i->key.consumer = consumer;
	i->key.followed = f;
	HASH_ADD(hh, consumer->consumers->by_pair, key, sizeof(i->key), i);
	if (!hash_was_added(i)) {
		free(i);
		return NULL;
	}
	i->next = f->interests;
	if (i->next)
		i->next->prev = i;
	f->interests = i;
	i->mine_next = consumer->interests;
	if (i->mine_next)
		i->mine_next->mine_prev = i;
	consumer->interests = i;
	consumer->interest_count++;
	return i;
}

static int interest_get(struct consumer *consumer, const char *service, struct interest **ret)
{
	struct interest *i;
	struct followed *f;

	f = followed_get(consumer->consumers, service);
	if (!f)
		return -ENOMEM;
	i = interest_find(consumer, f);
	if (!i) {
		bool full = consumer->interest_count == CONSUMER_INTERESTS_MAX;

		i = full ? NULL : interest_new(consumer, f);
		if (!i) {
			followed_drop_unused(consumer->consumers, f);
			return full ? -E2BIG : -ENOMEM;
		}
	}
	*ret = i;
	return 0;
}

static void interest_free(struct interest *i)
{
	struct consumer *consumer = i->key.consumer;
	struct followed *f = i->key.followed;

	assert(!i->watches && !i->lists);
	if (i->next)
		i->next->prev = i->prev;
	if (i->prev)
		i->prev->next = i->next;
	else
		f->interests = i->next;
	if (i->mine_next)
		i->mine_next->mine_prev = i->mine_prev;
	if (i->mine_prev)
		i->mine_prev->mine_next = i->mine_next;
	else
		consumer->interests = i->mine_next;
	consumer->interest_count--;
	HASH_DEL(consumer->consumers->by_pair, i);
	followed_drop_unused(consumer->consumers, f);
	free(i);
}

void consumers_leave(struct consumer *consumer)
{
	struct consumers *c;

	if (!consumer || --consumer->connections > 0)
		return;
	while (consumer->interests)
		interest_free(consumer->interests);
	c = consumer->consumers;
	c->count[consumer->key.door]--;
	HASH_DEL(c->by_key, consumer);
	free(consumer);
}

static void reading_link(
		struct reading *reading, struct interest *interest, struct reading **list, int fd)
{
	*reading = (struct reading){ .interest = interest, .fd = fd, .next = *list };
	if (reading->next)
		reading->next->prev = reading;
	*list = reading;
}

static void reading_unlink(struct reading *reading)
{
	struct interest *i = reading->interest;

	if (reading->next)
		reading->next->prev = reading->prev;
	if (reading->prev)
		reading->prev->next = reading->next;
	else if (i->watches == reading)
		i->watches = reading->next;
	else
		i->lists = reading->next;
	reading->interest = NULL;
	reading->next = reading->prev = NULL;
}

/* Look how far the peer has got. */
static void reading_poll(struct reading *reading)
{
	int unread = 0;

	if (reading->read < reading->flushed && ioctl(reading->fd, SIOCOUTQ, &unread) == 0 &&
			unread == 0)
		reading->read = reading->flushed;
}

int reading_start_watch(
		struct reading *reading, struct consumer *consumer, const char *service, int fd)
{
	struct interest *interest;
	int r;

	r = interest_get(consumer, service, &interest);
	if (r < 0)
		return r;
	reading_link(reading, interest, &interest->watches, fd);
	return 0;
}

static void note_listed(struct reading *reading)
{
	struct interest *i = reading->interest;

	if (i && reading->read > i->listed_read)
		i->listed_read = reading->read;
}

int reading_sent_list(struct reading *reading, struct consumer *consumer, const char *service,
		int fd, uint64_t revision)
{
	struct interest *interest = reading->interest;
	int r;

	if (!interest || interest->key.consumer != consumer ||
			strcmp(interest->key.followed->service, service) != 0) {
		r = interest_get(consumer, service, &interest);
		if (r < 0)
			return r;
		reading_stop(reading);
		reading_link(reading, interest, &interest->lists, fd);
	}
	reading->sent = revision;
	reading->flushed = reading->read = 0;
	if (revision > interest->listed_sent)
		interest->listed_sent = revision;
	return 0;
}

void reading_flushed_list(struct reading *reading)
{
	reading->flushed = reading->sent;
}

void reading_answered_by_next_request(struct reading *reading)
{
	reading->read = reading->flushed;
	note_listed(reading);
}

void reading_stop(struct reading *reading)
{
	struct interest *i = reading->interest;

	if (!i)
		return;
	note_listed(reading);
	reading_unlink(reading);
	if (!i->watches && !i->lists && i->listed_sent == 0 && !i->acks)
		interest_free(i);
}

int consumer_ack(struct consumer *consumer, const char *service, uint64_t revision)
{
	struct interest *interest;
	int r;

	r = interest_get(consumer, service, &interest);
	if (r < 0)
		return r;
	interest->acks = true;
	interest->acked = revision;
	return 0;
}

/* How far the consumer has been sent the service, and how far it has read. */
static void interest_progress(struct interest *i, uint64_t *ret_sent, uint64_t *ret_read)
{
	uint64_t sent = 0, least_read = UINT64_MAX;

	for (struct reading *w = i->watches; w; w = w->next) {
		reading_poll(w);
		if (w->sent > sent)
			sent = w->sent;
		if (w->read < least_read)
			least_read = w->read;
	}
	if (!i->watches) {
		for (struct reading *l = i->lists; l; l = l->next) {
			reading_poll(l);
			note_listed(l);
		}
		sent = i->listed_sent;
		least_read = i->listed_read;
	}
	*ret_sent = sent;
	*ret_read = least_read;
}

void consumers_evidence(struct consumers *c, const char *service, uint64_t revision,
		struct consumer_evidence *ret)
{
	struct followed *f;

	*ret = (struct consumer_evidence){};
	HASH_FIND(hh, c->by_service, service, strlen(service), f);
	for (struct interest *i = f ? f->interests : NULL; i; i = i->next) {
		uint64_t sent, at;

		ret->connected++;
		interest_progress(i, &sent, &at);
		if (i->acks)
			at = i->acked;
		if (at >= revision) {
			ret->caught_up++;
		} else if (!ret->behind || at < ret->behind_revision) {
			ret->behind = consumer_name(i->key.consumer);
			ret->behind_revision = at;
		}
	}
}

static void render_interest(struct interest *i, uint64_t current, struct text *text)
{
	uint64_t sent, at;

	interest_progress(i, &sent, &at);
	text_add_string(text, "{\"service\": ");
	text_add_json(text, i->key.followed->service);
	text_add_format(text, ", \"watching\": %s, \"sent\": %llu, \"read\": %llu, \"acked\": ",
			i->watches ? "true" : "false", (unsigned long long) sent,
			(unsigned long long) at);
	if (i->acks)
		text_add_unsigned(text, i->acked);
	else
		text_add_string(text, "null");
	text_add_format(text, ", \"behind\": %s}",
			(i->acks ? i->acked : at) < current ? "true" : "false");
}

static void render_consumer(struct consumer *consumer, uint64_t now_usec, struct text *text)
{
	uint64_t connected_usec = 0;

	text_add_format(text, "{\"id\": \"c-%llu\", \"name\": ", (unsigned long long) consumer->id);
	text_add_json(text, consumer_name(consumer));
	if (consumer->key.door == DOOR_HTTP) {
		text_add_string(text, ", \"pid\": null, \"uid\": null");
	} else {
		text_add_string(text, ", \"pid\": ");
		if (consumer->key.pid > 0)
			text_add_unsigned(text, (uint64_t) consumer->key.pid);
		else
			text_add_string(text, "null");
		text_add_format(text, ", \"uid\": %u", (unsigned) consumer->uid);
	}
	if (!consumer->looked)
		look_for_program(consumer);
	text_add_string(text, ", \"program\": ");
	text_add_json(text, consumer->program[0] ? consumer->program : NULL);
	/* Who asks may have connected after the round's time was taken. */
	if (now_usec > consumer->connected_usec)
		connected_usec = now_usec - consumer->connected_usec;
	text_add_format(text, ", \"door\": \"%s\", \"connections\": %u, \"connected_ms\": %llu",
			server_door_to_string((enum server_door) consumer->key.door),
			consumer->connections,
			(unsigned long long) (connected_usec / USEC_PER_MSEC));
}

void consumers_render(struct consumers *c, uint64_t now_usec,
		uint64_t (*current)(void *userdata, const char *service), void *userdata,
		struct text *text)
{
	struct consumer *consumer, *next;
	const char *comma = "";

	text_add_string(text, "{\"consumers\": [");
	HASH_ITER(hh, c->by_key, consumer, next)
	{
		const char *inner = "";

		text_add_string(text, comma);
		comma = ", ";
		render_consumer(consumer, now_usec, text);
		text_add_string(text, ", \"services\": [");
		for (struct interest *i = consumer->interests; i; i = i->mine_next) {
			text_add_string(text, inner);
			inner = ", ";
			render_interest(i, current(userdata, i->key.followed->service), text);
		}
		text_add_string(text, "]}");
	}
	text_add_string(text, "]}\n");
}
