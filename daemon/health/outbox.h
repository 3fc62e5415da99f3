#pragma once

/* Results on their way from a shard to the core, many in one message: so that the core is woken
 * some hundred times a second, however many probes there are.
 *
 * A core that takes nothing loses what is more than OUTBOX_RECORDS_MAX: what was found so long ago
 * is not worth more memory. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inbox.h"
#include "prober.h"

#define OUTBOX_RECORDS_MAX 65536

/* One attempt that has ended. */
struct outbox_record {
	struct probe_result result;
	uint32_t connections, bytes_sent, bytes_received;
	bool discarded; /* no result: it came too late to be believed, or was broken off */
};

struct outbox;

/* On the core. `gone` are probes that the shard has let go of, linked by outbox_next; none of them
 * is in a later batch. `lost` records were dropped for lack of room or memory. */
typedef void (*outbox_on_batch)(void *userdata, const struct outbox_record *records, size_t count,
		struct probe *gone, uint64_t lost);

/* Errors: ENOMEM. */
int outbox_new(struct inbox *inbox, outbox_on_batch on_batch, void *userdata, struct outbox **ret);
/* Once nobody adds any more: what is left is dropped. The probes that are gone are given back. */
struct probe *outbox_close(struct outbox *o);

/* Thread: the shard's. */
void outbox_add(struct outbox *o, const struct outbox_record *record);
void outbox_add_gone(struct outbox *o, struct probe *probe);
/* Drop what the core has not taken yet, as discarded results: it was found before a standstill. */
void outbox_discard(struct outbox *o);
/* Tell the core that there is something. */
void outbox_post(struct outbox *o);
