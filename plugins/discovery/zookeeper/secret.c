/* The password of the user, out of the configuration or of a file that is read anew each time. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "own.h"
#include "zookeeper.h"

#define PASSWORD_MAX 4096

static int read_file(const char *path, char *ret, struct usher_error *reterr)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t size = fd >= 0 ? read(fd, ret, PASSWORD_MAX) : -1;

	if (size < 0)
		return usher_error_set(
				reterr, -EACCES, "%s: the password cannot be read: %m", path);
	ret[size] = '\0';
	ret[strcspn(ret, "\r\n")] = '\0';
	if (ret[0] == '\0')
		return usher_error_set(reterr, -EACCES, "%s: there is no password in it", path);
	return 0;
}

int zookeeper_read_secret(const struct zookeeper *z, char **ret, struct usher_error *reterr)
{
	cleanup(own_free_secret) char *password = NULL;
	char *secret;
	int r;

	*ret = NULL;
	if (!z->user)
		return 0;
	password = z->password ? strdup(z->password) : calloc(1, PASSWORD_MAX + 1);
	if (!password)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	if (!z->password) {
		r = read_file(z->password_file, password, reterr);
		if (r < 0)
			return r;
	}
	if (asprintf(&secret, "%s:%s", z->user, password) < 0)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	*ret = secret;
	return 0;
}
