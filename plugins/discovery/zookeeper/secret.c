/* The password of the user, out of the configuration or of a file that is read anew each time. */

#include <errno.h>
#include <stdio.h>

#include "own.h"
#include "password.h"
#include "zookeeper.h"

int zookeeper_read_secret(const struct zookeeper *z, char **ret, struct usher_error *reterr)
{
	cleanup(own_free_secret) char *password = NULL;
	char *secret;
	int r;

	*ret = NULL;
	if (!z->user)
		return 0;
	password = z->password ? strdup(z->password) : calloc(1, PASSWORD_MAX);
	if (!password)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	if (!z->password) {
		r = password_read(z->password_file, password, reterr);
		if (r < 0)
			return r;
	}
	if (asprintf(&secret, "%s:%s", z->user, password) < 0)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	*ret = secret;
	return 0;
}
