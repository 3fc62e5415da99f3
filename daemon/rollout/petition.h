#pragma once

/* What a source asks of an endpoint: that it be drained, or not any more. Inside of the floor.
 *
 * A petition is level-triggered, too: it compares what the source asks for with the records there
 * are, starts, cancels or undoes a drain, and tells the source how it goes. What must survive is in
 * the record (asking_source, withdrawn); the rest is found again from it after a restart. */

#include "operation.h"

/* A change of words alone is told no more often than this. */
#define PETITION_WORDS_USEC UINT64_C(1000000)
/* An endpoint that nobody shows is waited for so long. */
#define PETITION_ABSENT_USEC UINT64_C(60000000)

/* Errors: ENOMEM. */
int petitions_init(struct rollout *r);
void petitions_done(struct rollout *r);
/* Find again what was asked for before the restart. */
void petitions_start(struct rollout *r);

/* For directory_events: userdata is the rollout. */
void petitions_on_drain(
		void *userdata, const struct source *source, const struct source_drain *drain);
/* A record has changed. */
void petitions_note(struct rollout *r, const struct drain_record *record);
/* The directory of a service has changed: what was refused may be possible now. */
void petitions_note_service(struct rollout *r, const char *service);
/* The record goes. */
void petitions_forget(struct rollout *r, const struct drain_record *record);
