#pragma once

/* Plug-in files: found, checked, loaded, or refused with a sentence that names both sides. The
 * daemon runs on without what was refused.
 *
 * Before any code of a file runs: it must be a regular file that only root or the daemon's own user
 * could have written (so must its folder), an ELF shared object for this machine, with the ABI note
 * of a major we offer and a minor not newer than ours. After dlopen(RTLD_NOW | RTLD_LOCAL): the
 * constant must be there, its name must be the file's, and at least one facet complete. Refusals
 * and changes on disk are logged here, when they begin. */

#include <usher/plugin.h>

#include "ownership.h"

struct plugin; /* one file, loaded or refused; lives as long as the registry */

struct plugins; /* the registry */

#define PLUGINS_MAX 1024 /* files, loaded and refused */

struct plugin_info {
	const char *name; /* of the file without .so */
	const char *path;
	const struct usher_plugin *loaded; /* NULL: refused; `size` covers every field (missing ones
					      are NULL) */
	const char *refusal;               /* NULL: loaded */
};

/* Look through the folders in order; the first file of a name wins and a second load is refused. A
 * folder that is missing is no error. Errors: ENOMEM. */
int plugins_new(char *const *dirs, struct plugins **ret);
struct plugins *plugins_free(
		struct plugins *p); /* never unloads: threads left behind may still run in it */
DEFINE_CLEANUP(struct plugins, plugins_free);
/* Look again, for reload: new files are loaded, a loaded file that changed on disk is reported as
 * needing a restart. */
int plugins_rescan(struct plugins *p, char *const *dirs);

/* Errors: ENOENT (with the nearest known name), EINVAL (refused, with the refusal). */
int plugins_find(struct plugins *p, const char *name, const struct usher_plugin **ret,
		struct usher_error *reterr);
size_t plugins_count(const struct plugins *p);
void plugins_get(const struct plugins *p, size_t i, struct plugin_info *ret);

/* Check and load one file without registering it: `usherd --check-plugin FILE`. */
int plugin_check_file(const char *path, struct usher_error *reterr);
