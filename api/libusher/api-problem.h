#pragma once

/* A problem document (RFC 9457) that the daemon answered with, as an error. */

#include <usher/error.h>

/* The errno that a status and its code stand for: ENOENT (404), EAGAIN (503), EACCES (403), EINVAL
 * (400, 405, 413, 422), EPERM (409), EBUSY (429), EIO (the rest). The text is "DETAIL (CODE)".
 * Always negative. */
int problem_to_error(int status, const char *body, struct usher_error *reterr);
