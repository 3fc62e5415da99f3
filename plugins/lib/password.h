#pragma once

/* A password in a file: its first line, read anew whenever it is needed, for it may have changed.
 */

#include <errno.h>
#include <fcntl.h>
#include <usher/error.h>

#include "own.h"

#define PASSWORD_MAX 4096 /* bytes with the zero byte at the end */

/* Who has used it wipes it. Errors: EACCES (it cannot be read, or there is none in it). */
static inline int password_read(
		const char *path, char ret[PASSWORD_MAX], struct usher_error *reterr)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t size = fd >= 0 ? read(fd, ret, PASSWORD_MAX - 1) : -1;

	if (size < 0)
		return usher_error_set(
				reterr, -EACCES, "%s: the password cannot be read: %m", path);
	ret[size] = '\0';
	ret[strcspn(ret, "\r\n")] = '\0';
	return ret[0] ? 0
		      : usher_error_set(reterr, -EACCES, "%s: there is no password in it", path);
}
