#include "layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <usher/endpoint.h>

#define SERVICE "{service}"
#define ID      "{id}"

int etcd_layout_check(const char *layout, struct usher_error *reterr)
{
	const char *service = strstr(layout, SERVICE);
	const char *id = strstr(layout, ID);

	if (!service || strstr(service + strlen(SERVICE), SERVICE))
		return usher_error_set(reterr, -EINVAL,
				"layout: \"%.200s\" has to name " SERVICE " once, as in \"%s\"",
				layout, ETCD_LAYOUT_DEFAULT);
	if (!id || id[strlen(ID)] != '\0')
		return usher_error_set(reterr, -EINVAL,
				"layout: \"%.200s\" has to end in " ID ", as in \"%s\"", layout,
				ETCD_LAYOUT_DEFAULT);
	if (id <= service + strlen(SERVICE))
		return usher_error_set(reterr, -EINVAL,
				"layout: in \"%.200s\" something has to stand between " SERVICE
				" and " ID ", or web could not be told from web2",
				layout);
	return 0;
}

char *etcd_layout_prefix(const char *layout, const char *service)
{
	const char *at = strstr(layout, SERVICE);
	const char *behind = at + strlen(SERVICE);
	char *prefix;

	if (asprintf(&prefix, "%.*s%s%.*s", (int) (at - layout), layout, service,
			    (int) (strlen(behind) - strlen(ID)), behind) < 0)
		return NULL;
	return prefix;
}

char *etcd_layout_end(const char *prefix, size_t size, size_t *ret_size)
{
	char *end = malloc(size + 1);

	if (!end)
		return NULL;
	memcpy(end, prefix, size);
	while (size > 0 && (unsigned char) end[size - 1] == 0xff)
		size--;
	if (size == 0)
		end[size++] = '\0';
	else
		end[size - 1] = (char) ((unsigned char) end[size - 1] + 1);
	*ret_size = size;
	return end;
}

bool etcd_layout_is_id(const char *rest, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if ((unsigned char) rest[i] < ' ' || rest[i] == '/' || rest[i] == 0x7f)
			return false;
	return size > 0 && size <= USHER_TEXT_MAX;
}
