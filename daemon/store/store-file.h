#pragma once

/* The store's file through its misfortunes: damaged, deleted, replaced, its folder gone. Each ends
 * with a file that works and is empty, said once, and what was there kept beside it. */

#include "database.h"
#include "state-dir.h"

struct store_file {
	struct state_dir dir;
	char *path;
	struct database *database; /* NULL: could not be opened again yet */
	bool renewed;              /* what an earlier usherd stored in it is lost */
};

/* Errors: as of store_open(). */
int store_file_init(struct store_file *file, const char *dir, struct usher_error *reterr);
/* Moves everything into the one file. */
void store_file_done(struct store_file *file);

/* See that the file is where it was. > 0: it was lost and is there anew, empty. */
int store_file_check(struct store_file *file, struct usher_error *reterr);
/* It is damaged, and why: set aside, and there anew, empty. */
int store_file_renew(struct store_file *file, const char *why, struct usher_error *reterr);
