#include "database.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "database-rows.h"

#define BUSY_MSEC      2000
#define CACHE_KIB      "256"
#define APPLICATION_ID 0x75736872 /* "ushr" */

/* Each brings the schema from its index to the next version; PRAGMA user_version counts them. Only
 * append. The endpoints stand apart from the time of a feed, which is renewed all the time. */
static const char *const migrations[] = {
	"CREATE TABLE reserved (revisions INTEGER NOT NULL);"
	"INSERT INTO reserved VALUES (0);"
	"CREATE TABLE feed (service TEXT NOT NULL, source TEXT NOT NULL, revision TEXT,"
	"  observed_usec INTEGER NOT NULL, PRIMARY KEY (service, source)) WITHOUT ROWID;"
	"CREATE TABLE endpoints (service TEXT NOT NULL, source TEXT NOT NULL, text TEXT NOT NULL,"
	"  PRIMARY KEY (service, source));"
	"CREATE TABLE drain (id TEXT PRIMARY KEY, finished INTEGER NOT NULL, record TEXT NOT NULL);"
	"CREATE TABLE cursor (service TEXT PRIMARY KEY, position INTEGER NOT NULL) WITHOUT ROWID;",

	"CREATE TABLE registration (service TEXT NOT NULL, id TEXT NOT NULL, record TEXT NOT NULL,"
	"  PRIMARY KEY (service, id));",
};

#define SCHEMA_VERSION ((int) ELEMENTS(migrations))

DEFINE_CLEANUP(struct database, database_abandon);

/* ---- errors ---- */

static int translate(sqlite3 *sqlite, int rc)
{
	int system_error = sqlite ? sqlite3_system_errno(sqlite) : 0;

	switch (rc & 0xff) {
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_PERM:
	case SQLITE_AUTH:
		return -EACCES;
	case SQLITE_CANTOPEN:
	case SQLITE_IOERR:
		return system_error > 0 ? -system_error : -EIO;
	default:
		/* Corrupt, no database, a table that is not there, a constraint that cannot be:
		 * whatever is in the file, it is not what we wrote. */
		return -EBADMSG;
	}
}

int database_error(const struct database *d, int rc, const char *what, struct usher_error *reterr)
{
	int code = translate(d->sqlite, rc);

	switch (code) {
	case -ENOMEM:
		return usher_error_set(reterr, code, "out of memory");
	case -EBADMSG:
		return usher_error_set(reterr, code, "%s: damaged, or not usher's: %s", d->path,
				d->sqlite ? sqlite3_errmsg(d->sqlite) : sqlite3_errstr(rc));
	case -EBUSY:
		return usher_error_set(reterr, code,
				"%s: cannot %s: another program keeps it locked; let that one finish",
				d->path, what);
	default:
		return state_dir_explain(reterr, code, d->path, what);
	}
}

int database_execute(struct database *d, const char *sql, struct usher_error *reterr)
{
	int rc = sqlite3_exec(d->sqlite, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : database_error(d, rc, "write", reterr);
}

int database_prepare(
		struct database *d, const char *sql, sqlite3_stmt **ret, struct usher_error *reterr)
{
	int rc = sqlite3_prepare_v2(d->sqlite, sql, -1, ret, NULL);

	return rc == SQLITE_OK ? 0 : database_error(d, rc, "read", reterr);
}

int database_number(struct database *d, const char *sql, uint64_t *ret, struct usher_error *reterr)
{
	cleanup(sqlite3_finalizep) sqlite3_stmt *statement = NULL;
	int r, rc;

	r = database_prepare(d, sql, &statement, reterr);
	if (r < 0)
		return r;
	rc = sqlite3_step(statement);
	if (rc != SQLITE_ROW)
		return database_error(d, rc == SQLITE_DONE ? SQLITE_CORRUPT : rc, "read", reterr);
	*ret = (uint64_t) sqlite3_column_int64(statement, 0);

	return 0;
}

/* ---- opening ---- */

/* SQLite would make the file readable for everybody; what stands beside it has its mode. */
static int make_file(const char *path, struct usher_error *reterr)
{
	autoclose int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);

	return fd < 0 ? state_dir_explain(reterr, -errno, path, "open") : 0;
}

static int check_integrity(struct database *d, struct usher_error *reterr)
{
	cleanup(sqlite3_finalizep) sqlite3_stmt *statement = NULL;
	const char *verdict;
	int r, rc;

	r = database_prepare(d, "PRAGMA quick_check(1)", &statement, reterr);
	if (r < 0)
		return r;
	rc = sqlite3_step(statement);
	if (rc != SQLITE_ROW)
		return database_error(d, rc, "read", reterr);
	verdict = (const char *) sqlite3_column_text(statement, 0);
	if (!verdict)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	if (strcmp(verdict, "ok") != 0)
		return usher_error_set(reterr, -EBADMSG, "%s: damaged: %s", d->path, verdict);

	return 0;
}

static int migrate_step(struct database *d, int version, struct usher_error *reterr)
{
	char set_version[64];
	int r;

	(void) snprintf(set_version, sizeof(set_version), "PRAGMA user_version = %d", version + 1);
	r = database_execute(d, "BEGIN IMMEDIATE", reterr);
	if (r < 0)
		return r;
	r = database_execute(d, migrations[version], reterr);
	if (r >= 0)
		r = database_execute(d, set_version, reterr);
	if (r >= 0)
		r = database_execute(d, "COMMIT", reterr);
	if (r < 0 && !sqlite3_get_autocommit(d->sqlite))
		(void) sqlite3_exec(d->sqlite, "ROLLBACK", NULL, NULL, NULL);

	return r;
}

static int migrate(struct database *d, struct usher_error *reterr)
{
	uint64_t version = 0, application = 0, tables = 0;
	char set_application[64];
	int r;

	r = database_number(d, "PRAGMA user_version", &version, reterr);
	if (r < 0)
		return r;
	r = database_number(d, "PRAGMA application_id", &application, reterr);
	if (r < 0)
		return r;
	r = database_number(d, "SELECT count(*) FROM sqlite_schema", &tables, reterr);
	if (r < 0)
		return r;
	if (application != APPLICATION_ID && (version > 0 || tables > 0))
		return usher_error_set(
				reterr, -EBADMSG, "%s: the database of another program", d->path);
	if (version > (uint64_t) SCHEMA_VERSION)
		return usher_error_set(reterr, -EPROTONOSUPPORT,
				"%s: written by a newer usherd (schema %d, this one knows %d); start "
				"that one, or move the file away and lose its drains and registrations",
				d->path, (int) version, SCHEMA_VERSION);
	if (version == (uint64_t) SCHEMA_VERSION)
		return 0;

	(void) snprintf(set_application, sizeof(set_application), "PRAGMA application_id = %d",
			APPLICATION_ID);
	r = database_execute(d, set_application, reterr);
	for (int i = (int) version; r >= 0 && i < SCHEMA_VERSION; i++)
		r = migrate_step(d, i, reterr);

	return r;
}

static int set_up(struct database *d, struct usher_error *reterr)
{
	int r;

	(void) sqlite3_extended_result_codes(d->sqlite, 1);
	(void) sqlite3_busy_timeout(d->sqlite, BUSY_MSEC);
	r = database_execute(d,
			"PRAGMA cache_size = -" CACHE_KIB "; PRAGMA journal_mode = WAL;"
			"PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 1048576;"
			"PRAGMA trusted_schema = OFF",
			reterr);
	if (r < 0)
		return r;
	r = check_integrity(d, reterr);
	if (r < 0)
		return r;
	r = migrate(d, reterr);
	if (r < 0)
		return r;

	return database_prepare_all(d, reterr);
}

int database_open(const char *path, struct database **ret, struct usher_error *reterr)
{
	cleanup(database_abandonp) struct database *d = calloc(1, sizeof(*d));
	int r, rc;

	if (!d || !(d->path = strdup(path)) || asprintf(&d->log_path, "%s-wal", path) < 0)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	r = make_file(path, reterr);
	if (r < 0)
		return r;
	d->file = file_identify(path);
	rc = sqlite3_open_v2(path, &d->sqlite, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	if (rc != SQLITE_OK)
		return database_error(d, rc, "open", reterr);
	r = set_up(d, reterr);
	if (r < 0)
		return r;
	*ret = take(d);

	return 0;
}

static struct database *database_free(struct database *d)
{
	for (size_t i = 0; i < STATEMENT_MAX; i++)
		(void) sqlite3_finalize(d->statement[i]);
	(void) sqlite3_close(d->sqlite);
	free(d->path);
	free(d->log_path);
	free(d);

	return NULL;
}

struct database *database_close(struct database *d)
{
	return d ? database_free(d) : NULL;
}

struct database *database_abandon(struct database *d)
{
	if (!d)
		return NULL;
	if (d->sqlite)
		(void) sqlite3_db_config(d->sqlite, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);

	return database_free(d);
}

bool database_file_in_place(const struct database *d)
{
	return file_identity_equal(d->file, file_identify(d->path));
}

bool database_in_place(const struct database *d)
{
	return database_file_in_place(d) &&
			(d->log.inode == 0 ||
					file_identity_equal(d->log, file_identify(d->log_path)));
}
