#include "lookup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "own.h"

#define USEC_PER_SEC UINT64_C(1000000)

int lookup_ask(struct lookup *l, struct resolver *resolver, const char *name)
{
	l->hops = 0;
	l->skipped = 0;
	l->ttl = UINT32_MAX;
	return resolver_ask(resolver, name, l->type, l->turn, l);
}

static int fail(struct lookup *l, int code, const struct usher_error *why)
{
	l->end = LOOKUP_FAILED;
	l->code = code;
	l->why = *why;
	return 1;
}

static int keep_addresses(struct lookup *l, const struct message_record *records, size_t count,
		const char *owner)
{
	struct lookup_address *addresses = calloc(count, sizeof(*addresses));
	size_t kept = 0;

	if (!addresses)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		if (records[i].type != l->type || (owner && strcmp(records[i].owner, owner) != 0))
			continue;
		addresses[kept].type = l->type;
		memcpy(addresses[kept++].bytes, records[i].address, sizeof(addresses->bytes));
	}
	free(l->addresses);
	l->addresses = addresses;
	l->address_count = kept;
	return 0;
}

static void found(struct lookup *l, uint64_t asked_usec)
{
	l->end = LOOKUP_RECORDS;
	l->observed_usec = asked_usec;
	l->none_since_usec = 0;
	l->nones = 0;
}

static void is_none(struct lookup *l, const struct message *m, uint64_t asked_usec)
{
	l->end = LOOKUP_NONE;
	l->has_proof = m->has_proof;
	l->no_such_name = m->no_such_name;
	if (l->nones++ == 0)
		l->none_since_usec = asked_usec;
}

static int follow(struct lookup *l, struct resolver *resolver, const char *name,
		const struct message *m, struct usher_error *reterr)
{
	int r;

	if (++l->hops > MESSAGE_HOPS_MAX)
		return usher_error_set(reterr, -EBADMSG,
				"%s: leads through more than %d CNAMEs, so perhaps in a circle",
				name, MESSAGE_HOPS_MAX);
	r = resolver_ask(resolver, m->name, l->type, l->turn, l);
	return r < 0 ? usher_error_set(reterr, r, "out of memory") : 0;
}

int lookup_take(struct lookup *l, struct resolver *resolver, const char *name,
		const struct resolver_event *event, struct message *ret)
{
	struct usher_error why = { 0 };
	struct message m = { .kind = MESSAGE_RECORDS };
	int r = 0;

	l->asked_usec = event->started_usec;
	(void) snprintf(l->server, sizeof(l->server), "%s", event->server);
	if (event->error < 0)
		return fail(l, event->error, &event->why);
	r = message_parse(event->bytes, event->size, event->name, l->type, &m, &why);
	if (r < 0) {
		(void) usher_error_prefix(&why, r, "%s", event->server);
		return fail(l, r, &why);
	}
	if (m.ttl < l->ttl)
		l->ttl = m.ttl;
	l->skipped = m.skipped;
	switch (m.kind) {
	case MESSAGE_ALIAS:
		r = follow(l, resolver, name, &m, &why);
		message_done(&m);
		return r < 0 ? fail(l, r, &why) : 0;
	case MESSAGE_NONE:
		is_none(l, &m, event->started_usec);
		break;
	case MESSAGE_RECORDS:
		if (l->type != MESSAGE_SRV)
			r = keep_addresses(l, m.records, m.count, NULL);
		if (r == 0)
			found(l, event->started_usec);
		break;
	}
	if (r < 0) {
		message_done(&m);
		return fail(l, r, (usher_error_set(&why, r, "out of memory"), &why));
	}
	*ret = m;
	return 1;
}

bool lookup_take_extra(struct lookup *l, const struct message *m, const char *owner,
		const struct lookup *other)
{
	uint32_t ttl = UINT32_MAX;

	for (size_t i = 0; i < m->extra_count; i++)
		if (m->extra[i].type == l->type && strcmp(m->extra[i].owner, owner) == 0 &&
				m->extra[i].ttl < ttl)
			ttl = m->extra[i].ttl;
	if (ttl == UINT32_MAX || keep_addresses(l, m->extra, m->extra_count, owner) < 0)
		return false;
	l->ttl = ttl;
	l->asked_usec = other->asked_usec;
	l->skipped = 0;
	found(l, other->asked_usec);
	return true;
}

void lookup_settle(struct lookup *l, uint64_t floor_usec, uint64_t now_usec)
{
	uint64_t between = (uint64_t) l->ttl * USEC_PER_SEC;

	if (l->end != LOOKUP_NONE)
		return;
	if (between < floor_usec)
		between = floor_usec;
	if (l->nones < 2 || now_usec - l->none_since_usec < 2 * between)
		return;
	free(take(l->addresses));
	l->address_count = 0;
}

bool lookup_is_kept(const struct lookup *l)
{
	return l->address_count > 0 && l->end != LOOKUP_RECORDS;
}

void lookup_done(struct lookup *l)
{
	free(l->addresses);
	*l = (struct lookup){ .owner = l->owner, .type = l->type };
}
