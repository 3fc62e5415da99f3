#pragma once

/* The SQLite file: its schema, its statements, and its errors in our words. The only room that
 * knows SQLite. Thread: one at a time. */

#include <stdbool.h>
#include <stdint.h>
#include <usher/error.h>

#include "ledger.h"

struct database;

/* Open the file, making it (0640) as needed, check it, and bring its schema up to date. Errors:
 * EBADMSG (damaged, or another's), EPROTONOSUPPORT (of a newer usherd), EBUSY (locked), what open
 * says, ENOMEM; with a message. */
int database_open(const char *path, struct database **ret, struct usher_error *reterr);
/* Move everything into the one file and close; NULL is fine. */
struct database *database_close(struct database *d);
/* Close without touching what is at the path now: it is not ours any more. */
struct database *database_abandon(struct database *d);

/* Whether the path still leads to the files that are open. */
bool database_in_place(const struct database *d);
/* Whether the file itself is in place, whatever became of its log. */
bool database_file_in_place(const struct database *d);

/* Everything that is stored. Errors: EBADMSG, EIO, ENOMEM. */
struct database_reader {
	int (*feed)(void *userdata, const struct stored_feed *feed, const char *endpoints,
			size_t endpoints_size);
	int (*drain)(void *userdata, const struct stored_drain *drain);
	int (*cursor)(void *userdata, const char *service, uint64_t cursor);
	int (*registration)(void *userdata, const struct stored_registration *registration);
};
int database_read(struct database *d, const struct database_reader *reader, void *userdata,
		struct usher_error *reterr);
/* The first revision that is not reserved; 0: none ever was. */
int database_read_reserved(struct database *d, uint64_t *ret_revision, struct usher_error *reterr);

/* One transaction. */
struct transaction {
	bool clear; /* remove everything first */
	const struct row *rows;
	uint64_t reserved; /* revisions below it; 0: as it was */
};
/* On disk when it returns 0; otherwise nothing is. Errors: EBADMSG (damaged), ENOSPC, EROFS, EBUSY,
 * EIO, ..., ENOMEM; with a message. */
int database_write(struct database *d, const struct transaction *transaction,
		struct usher_error *reterr);
