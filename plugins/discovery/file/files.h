#pragma once

/* The files that a source reads: one, or those of a folder, and what each of them last said.
 *
 * What a broken file said before is kept, for its services are not gone: nobody knows. Thread: the
 * source's. */

#include "catalog.h"

#define FILES_MAX       10000  /* in one folder */
#define FILES_NAMES_MAX 100000 /* services in all of them */

struct file {
	char *path;
	struct file_stamp stamp; /* of the last attempt; zero: none */
	struct catalog *catalog; /* the last good one; NULL: never */
	struct file_stamp good;  /* of what the catalog was read from */
	uint64_t hash;           /* of its text */
	int failure;             /* what is wrong with the file now; 0: nothing */
	char *reason;
	bool is_gone;
	bool is_young;   /* written so shortly before it was read that its stamp proves nothing */
	bool has_shrunk; /* in place, in this refresh, as a file does that is cut off */
	bool is_seen;    /* by the refresh that is under way */
	unsigned unsettled; /* how often in turn it was found being written */
};

/* Where a service stands. */
struct files_entry {
	const char *service;
	const struct file *file;
};

struct files {
	const char *path;
	enum format_choice choice;
	struct format_options options;
	struct file **all; /* sorted by path */
	size_t count, space;
	int failure; /* of the path as a whole; 0: none */
	char *reason;
	struct files_entry *index; /* sorted by service, then path */
	size_t index_count;
};

enum files_change {
	FILES_UNCHANGED = 0, /* all says what it said before, as just proved */
	FILES_CHANGED = 1,
	FILES_UNSETTLED = 2, /* one is being written: look again in a moment */
};

/* Look at the disk. is_quiet: a watch said that nothing is being written at the moment. Returns
 * enum files_change, or a negative errno when nothing could be done (ENOMEM); what fails of a file
 * stands in it. */
int files_refresh(struct files *f, bool is_quiet);
/* Forget the files that are gone. */
void files_forget_gone(struct files *f);
void files_done(struct files *f);

/* The places of a service: ret[0..count). */
const struct files_entry *files_find(const struct files *f, const char *service, size_t *ret_count);
/* A file that is broken and has never said what it holds; NULL: none. */
const struct file *files_unknown(const struct files *f);

/* ---- for the registrations, which look for themselves ---- */

/* The names of a folder's files, sorted, as whole paths; a NULL ends them. Errors: what opendir
 * says, E2BIG, ENOMEM. */
int files_list(const char *folder, char ***ret, size_t *ret_count, struct usher_error *reterr);
void files_list_free(char **paths);
/* The name without folder and ending, into ret; returns ret. */
#define FILES_STEM_MAX 256
const char *files_stem(const char *path, char *ret);
