#pragma once

/* The two halves of the database: database.c opens it, database-rows.c writes and reads it. */

#include <sqlite3.h>

#include "database.h"
#include "ownership.h"
#include "state-dir.h"

enum statement {
	BEGIN,
	COMMIT,
	ROLLBACK,
	RESERVE,
	PUT_FEED,
	PUT_ENDPOINTS,
	TOUCH_FEED,
	REMOVE_FEED,
	REMOVE_ENDPOINTS,
	PUT_DRAIN,
	REMOVE_DRAIN,
	PUT_CURSOR,
	REMOVE_CURSOR,
	PUT_REGISTRATION,
	REMOVE_REGISTRATION,
	STATEMENT_MAX,
};

struct database {
	sqlite3 *sqlite;
	sqlite3_stmt *statement[STATEMENT_MAX];
	char *path, *log_path;
	struct file_identity file, log;
};

DEFINE_CLEANUP(sqlite3_stmt, sqlite3_finalize);

/* SQLite's code as an errno with a message. */
int database_error(const struct database *d, int rc, const char *what, struct usher_error *reterr);
int database_execute(struct database *d, const char *sql, struct usher_error *reterr);
int database_prepare(struct database *d, const char *sql, sqlite3_stmt **ret,
		struct usher_error *reterr);
int database_prepare_all(struct database *d, struct usher_error *reterr);
/* The first column of the first row. */
int database_number(struct database *d, const char *sql, uint64_t *ret, struct usher_error *reterr);
