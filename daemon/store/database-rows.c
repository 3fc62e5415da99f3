#include "database-rows.h"

#include <errno.h>
#include <string.h>

#include "endpoint-codec.h"
#include "text.h"

static const char *const statements[STATEMENT_MAX] = {
	[BEGIN] = "BEGIN IMMEDIATE",
	[COMMIT] = "COMMIT",
	[ROLLBACK] = "ROLLBACK",
	[RESERVE] = "UPDATE reserved SET revisions = ?1",
	[PUT_FEED] = "INSERT INTO feed VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET"
		     " revision = ?3, observed_usec = ?4",
	[PUT_ENDPOINTS] = "INSERT INTO endpoints VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET"
			  " text = ?3",
	[TOUCH_FEED] = "UPDATE feed SET observed_usec = ?3 WHERE service = ?1 AND source = ?2",
	[REMOVE_FEED] = "DELETE FROM feed WHERE service = ?1 AND source = ?2",
	[REMOVE_ENDPOINTS] = "DELETE FROM endpoints WHERE service = ?1 AND source = ?2",
	[PUT_DRAIN] = "INSERT INTO drain VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET"
		      " finished = ?2, record = ?3",
	[REMOVE_DRAIN] = "DELETE FROM drain WHERE id = ?1",
	[PUT_CURSOR] = "INSERT INTO cursor VALUES (?1, ?2) ON CONFLICT DO UPDATE SET position = ?2",
	[REMOVE_CURSOR] = "DELETE FROM cursor WHERE service = ?1",
	[PUT_REGISTRATION] =
			"INSERT INTO registration VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET"
			" record = ?3",
	[REMOVE_REGISTRATION] = "DELETE FROM registration WHERE service = ?1 AND id = ?2",
};

static const char clear_all[] =
		"DELETE FROM feed; DELETE FROM endpoints; DELETE FROM drain; DELETE FROM cursor;"
		"DELETE FROM registration";

/* ---- statements ---- */

static int database_run(struct database *d, enum statement which, struct usher_error *reterr)
{
	sqlite3_stmt *statement = d->statement[which];
	int rc;

	rc = sqlite3_step(statement);
	(void) sqlite3_reset(statement); /* says again what step said */
	(void) sqlite3_clear_bindings(statement);

	return rc == SQLITE_DONE ? 0 : database_error(d, rc, "write", reterr);
}

/* Binding fails for lack of memory only; the statement then fails with a NULL where there must be
 * none, so it is asked once, here. */
static int bind_text(struct database *d, enum statement which, int position, const char *text,
		size_t size)
{
	return sqlite3_bind_text64(
			d->statement[which], position, text, size, SQLITE_STATIC, SQLITE_UTF8);
}

static int bind_number(struct database *d, enum statement which, int position, uint64_t number)
{
	return sqlite3_bind_int64(d->statement[which], position, (sqlite3_int64) number);
}

static int bind_key(struct database *d, enum statement which, const struct row *row)
{
	const char *service = row_service(row);
	const char *source = row_source(row);
	int rc;

	rc = bind_text(d, which, 1, service, strlen(service));
	if (rc != SQLITE_OK || row_kind(row) == ROW_DRAIN || row_kind(row) == ROW_CURSOR)
		return rc;

	return bind_text(d, which, 2, source, strlen(source));
}

static int run_bound(struct database *d, enum statement which, int rc, struct usher_error *reterr)
{
	return rc == SQLITE_OK ? database_run(d, which, reterr)
			       : database_error(d, rc, "write", reterr);
}

int database_prepare_all(struct database *d, struct usher_error *reterr)
{
	for (size_t i = 0; i < STATEMENT_MAX; i++) {
		int r = database_prepare(d, statements[i], &d->statement[i], reterr);

		if (r < 0)
			return r;
	}

	return 0;
}

/* ---- writing ---- */

static int write_removal(struct database *d, const struct row *row, struct usher_error *reterr)
{
	static const enum statement removal[] = {
		[ROW_FEED] = REMOVE_FEED,
		[ROW_DRAIN] = REMOVE_DRAIN,
		[ROW_CURSOR] = REMOVE_CURSOR,
		[ROW_REGISTRATION] = REMOVE_REGISTRATION,
	};
	enum statement which = removal[row_kind(row)];
	int r;

	r = run_bound(d, which, bind_key(d, which, row), reterr);
	if (r < 0 || row_kind(row) != ROW_FEED)
		return r;

	return run_bound(d, REMOVE_ENDPOINTS, bind_key(d, REMOVE_ENDPOINTS, row), reterr);
}

static int write_time(struct database *d, const struct row *row, struct usher_error *reterr)
{
	int rc = bind_key(d, TOUCH_FEED, row);

	if (rc == SQLITE_OK)
		rc = bind_number(d, TOUCH_FEED, 3, row_number(row));

	return run_bound(d, TOUCH_FEED, rc, reterr);
}

static int write_feed(struct database *d, const struct row *row, struct usher_error *reterr)
{
	const struct content *content = row_content(row);
	cleanup(text_done) struct text text = {};
	int rc, r;

	endpoints_encode(content->endpoints, &text);
	if (text.failed)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	rc = bind_key(d, PUT_ENDPOINTS, row);
	if (rc == SQLITE_OK)
		rc = bind_text(d, PUT_ENDPOINTS, 3, text.data, text.length);
	r = run_bound(d, PUT_ENDPOINTS, rc, reterr);
	if (r < 0)
		return r;

	rc = bind_key(d, PUT_FEED, row);
	if (rc == SQLITE_OK && content->has_text)
		rc = bind_text(d, PUT_FEED, 3, content->text, strlen(content->text));
	if (rc == SQLITE_OK)
		rc = bind_number(d, PUT_FEED, 4, row_number(row));

	return run_bound(d, PUT_FEED, rc, reterr);
}

static int write_drain(struct database *d, const struct row *row, struct usher_error *reterr)
{
	const struct content *content = row_content(row);
	int rc = bind_key(d, PUT_DRAIN, row);

	if (rc == SQLITE_OK)
		rc = bind_number(d, PUT_DRAIN, 2, content->finished);
	if (rc == SQLITE_OK)
		rc = bind_text(d, PUT_DRAIN, 3, content->text, strlen(content->text));

	return run_bound(d, PUT_DRAIN, rc, reterr);
}

static int write_cursor(struct database *d, const struct row *row, struct usher_error *reterr)
{
	int rc = bind_key(d, PUT_CURSOR, row);

	if (rc == SQLITE_OK)
		rc = bind_number(d, PUT_CURSOR, 2, row_number(row));

	return run_bound(d, PUT_CURSOR, rc, reterr);
}

static int write_registration(struct database *d, const struct row *row, struct usher_error *reterr)
{
	const struct content *content = row_content(row);
	int rc = bind_key(d, PUT_REGISTRATION, row);

	if (rc == SQLITE_OK)
		rc = bind_text(d, PUT_REGISTRATION, 3, content->text, strlen(content->text));

	return run_bound(d, PUT_REGISTRATION, rc, reterr);
}

static int write_row(struct database *d, const struct row *row, struct usher_error *reterr)
{
	if (!row_present(row))
		return write_removal(d, row, reterr);
	switch (row_kind(row)) {
	case ROW_FEED:
		return row_whole(row) ? write_feed(d, row, reterr) : write_time(d, row, reterr);
	case ROW_DRAIN:
		return write_drain(d, row, reterr);
	case ROW_CURSOR:
		return write_cursor(d, row, reterr);
	case ROW_REGISTRATION:
		return write_registration(d, row, reterr);
	}

	return -EINVAL;
}

static int write_all(struct database *d, const struct transaction *transaction,
		struct usher_error *reterr)
{
	int r;

	r = transaction->clear ? database_execute(d, clear_all, reterr) : 0;
	if (r < 0)
		return r;
	for (const struct row *row = transaction->rows; row; row = row_next(row)) {
		r = write_row(d, row, reterr);
		if (r < 0)
			return r;
	}
	if (transaction->reserved == 0)
		return 0;

	return run_bound(d, RESERVE, bind_number(d, RESERVE, 1, transaction->reserved), reterr);
}

int database_write(struct database *d, const struct transaction *transaction,
		struct usher_error *reterr)
{
	int r;

	r = database_run(d, BEGIN, reterr);
	if (r < 0)
		return r;
	r = write_all(d, transaction, reterr);
	if (r >= 0)
		r = database_run(d, COMMIT, reterr);
	if (r < 0 && !sqlite3_get_autocommit(d->sqlite)) {
		(void) database_run(d, ROLLBACK, NULL);
		return r;
	}
	if (r >= 0 && d->log.inode == 0)
		d->log = file_identify(d->log_path);

	return r;
}

/* ---- reading ---- */

static const char *column_text(sqlite3_stmt *statement, int column)
{
	return (const char *) sqlite3_column_text(statement, column);
}

static int read_feed(sqlite3_stmt *statement, const struct database_reader *reader, void *userdata)
{
	struct stored_feed feed = {
		.service = column_text(statement, 0),
		.source = column_text(statement, 1),
		.revision = column_text(statement, 2),
		.observed_wall_usec = (uint64_t) sqlite3_column_int64(statement, 3),
	};
	const char *endpoints = column_text(statement, 4);

	if (!feed.service || !feed.source || !endpoints)
		return -ENOMEM;

	return reader->feed(
			userdata, &feed, endpoints, (size_t) sqlite3_column_bytes(statement, 4));
}

static int read_drain(sqlite3_stmt *statement, const struct database_reader *reader, void *userdata)
{
	struct stored_drain drain = {
		.id = column_text(statement, 0),
		.finished = sqlite3_column_int(statement, 1),
		.json = column_text(statement, 2),
	};

	return drain.id && drain.json ? reader->drain(userdata, &drain) : -ENOMEM;
}

static int read_cursor(
		sqlite3_stmt *statement, const struct database_reader *reader, void *userdata)
{
	const char *service = column_text(statement, 0);

	if (!service)
		return -ENOMEM;

	return reader->cursor(userdata, service, (uint64_t) sqlite3_column_int64(statement, 1));
}

static int read_registration(
		sqlite3_stmt *statement, const struct database_reader *reader, void *userdata)
{
	struct stored_registration registration = {
		.service = column_text(statement, 0),
		.id = column_text(statement, 1),
		.json = column_text(statement, 2),
	};

	if (!registration.service || !registration.id || !registration.json)
		return -ENOMEM;

	return reader->registration(userdata, &registration);
}

static int read_table(struct database *d, const char *sql,
		int (*read)(sqlite3_stmt *, const struct database_reader *, void *),
		const struct database_reader *reader, void *userdata, struct usher_error *reterr)
{
	cleanup(sqlite3_finalizep) sqlite3_stmt *statement = NULL;
	int r, rc;

	r = database_prepare(d, sql, &statement, reterr);
	if (r < 0)
		return r;
	while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
		r = read(statement, reader, userdata);
		if (r < 0)
			return usher_error_prefix(reterr, r, "%s", d->path);
	}

	return rc == SQLITE_DONE ? 0 : database_error(d, rc, "read", reterr);
}

int database_read(struct database *d, const struct database_reader *reader, void *userdata,
		struct usher_error *reterr)
{
	int r;

	r = read_table(d,
			"SELECT service, source, revision, observed_usec, text FROM feed"
			" JOIN endpoints USING (service, source) ORDER BY service, source",
			read_feed, reader, userdata, reterr);
	if (r < 0)
		return r;
	r = read_table(d, "SELECT id, finished, record FROM drain ORDER BY rowid", read_drain,
			reader, userdata, reterr);
	if (r < 0)
		return r;

	r = read_table(d, "SELECT service, position FROM cursor ORDER BY service", read_cursor,
			reader, userdata, reterr);
	if (r < 0)
		return r;

	return read_table(d, "SELECT service, id, record FROM registration ORDER BY service, id",
			read_registration, reader, userdata, reterr);
}

int database_read_reserved(struct database *d, uint64_t *ret_revision, struct usher_error *reterr)
{
	return database_number(d, "SELECT max(revisions) FROM reserved", ret_revision, reterr);
}
