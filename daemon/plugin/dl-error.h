#pragma once

/* The dynamic loader's complaint in sentences that name both sides: what the plug-in needs, and
 * what is not there. */

#include <usher/error.h>

/* text is dlerror()'s, after dlopen(path) failed. Sets a message that continues "FILE: " and
 * returns its code: ENOENT (the file went away), ELIBACC (a library it needs is missing or
 * unusable), ENOSYS (a function it needs is nowhere), ENOEXEC (anything else). Thread: any. */
int dl_error_translate(const char *path, const char *text, struct usher_error *reterr);
