#include "store-file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "ownership.h"

#define FILE_NAME "usher.db"

/* Make room at the path; what is there is a person's to look at. */
static int set_aside(const struct store_file *file, const char *word, char *ret_name,
		struct usher_error *reterr)
{
	int r;

	r = state_dir_set_aside(file->path, word, ret_name);
	if (r < 0 && r != -ENOENT)
		return state_dir_explain(reterr, r, file->path, "move the file aside");

	return 0;
}

static int open_new(struct store_file *file, const char *why, struct usher_error *reterr)
{
	char name[STATE_DIR_NAME_MAX];
	int r;

	r = set_aside(file, "damaged", name, reterr);
	if (r < 0)
		return r;
	r = database_open(file->path, &file->database, reterr);
	if (r < 0)
		return r;
	file->renewed = true;
	log_error(FIELDS(.value[LOG_MESSAGE_ID] = "7b4a7c2f5f0f4b52b0f3d1c2a6f1e901"),
			"%s; kept as %s, and begun anew", why, name);

	return 0;
}

static int open_or_renew(struct store_file *file, struct usher_error *reterr)
{
	struct usher_error err = {};
	int r;

	r = database_open(file->path, &file->database, &err);
	if (r == -EBADMSG)
		return open_new(file, err.text, reterr);
	if (r < 0 && reterr)
		*reterr = err;

	return r;
}

int store_file_init(struct store_file *file, const char *dir, struct usher_error *reterr)
{
	struct store_file made = {};
	int r;

	r = state_dir_init(&made.dir, dir, reterr);
	if (r < 0)
		return r;
	if (asprintf(&made.path, "%s/" FILE_NAME, dir) < 0) {
		made.path = NULL;
		r = usher_error_set(reterr, -ENOMEM, "out of memory");
	} else {
		made.renewed = !made.dir.fresh && file_identify(made.path).inode == 0;
		r = open_or_renew(&made, reterr);
	}
	if (r < 0) {
		free(made.path);
		state_dir_done(&made.dir);
		return r;
	}
	*file = made;

	return 0;
}

void store_file_done(struct store_file *file)
{
	database_close(file->database);
	free(file->path);
	state_dir_done(&file->dir);
	*file = (struct store_file){};
}

/* What stands at the path is not what we had open, unless only the log is gone. */
static int reopen(struct store_file *file, bool ours, struct usher_error *reterr)
{
	char name[STATE_DIR_NAME_MAX];
	int r;

	r = state_dir_refresh(&file->dir, reterr);
	if (r < 0)
		return r;
	if (!ours) {
		r = set_aside(file, "replaced", name, reterr);
		if (r < 0)
			return r;
	}
	r = open_or_renew(file, reterr);
	if (r < 0)
		return r;
	log_warning(FIELDS(.value[LOG_MESSAGE_ID] = "7b4a7c2f5f0f4b52b0f3d1c2a6f1e902"),
			"%s was removed or replaced while usherd uses it; it is written again from memory",
			file->path);

	return 1;
}

int store_file_check(struct store_file *file, struct usher_error *reterr)
{
	bool ours = file->database && database_file_in_place(file->database);

	if (ours && database_in_place(file->database))
		return 0;
	file->database = database_abandon(file->database);

	return reopen(file, ours, reterr);
}

int store_file_renew(struct store_file *file, const char *why, struct usher_error *reterr)
{
	file->database = database_abandon(file->database);

	return open_new(file, why, reterr);
}
