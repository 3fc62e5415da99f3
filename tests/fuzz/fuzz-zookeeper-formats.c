/* Whatever a server of ZooKeeper says, and whatever stands in its nodes: reading it neither crashes
 * nor leaks. The first byte chooses what the rest is taken for. */

#include <stdlib.h>
#include <string.h>
#include <usher/endpoint.h>

#include "folder.h"
#include "layout.h"
#include "value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_value(const char *text, size_t size)
{
	static const char *const ports[] = { NULL, "http", "https", "8080" };
	char *other = NULL;

	for (size_t i = 0; i < sizeof(ports) / sizeof(*ports); i++) {
		struct zk_value v;
		struct usher_endpoints *set;

		if (zk_value_read(text, size, ports[i], &v, NULL) < 0)
			continue;
		set = usher_endpoints_new();
		v.endpoint.id = "a";
		if (set)
			(void) usher_endpoints_add(set, &v.endpoint, NULL);
		(void) usher_endpoints_unref(set);
		(void) zk_value_is_ours(&v);
		zk_value_done(&v);
	}
	if (zk_value_set_state(text, size, USHER_ADMIN_DRAINING, &other, NULL) == 0)
		free(other);
}

static void read_folder(const uint8_t *data, size_t size)
{
	struct jute_in in = { .data = data, .size = size };
	struct usher_endpoints *set = NULL;
	struct zk_folder f;
	struct zk_stat stat;
	struct zk_node *n;

	if (zk_folder_init(&f, "/services/web") < 0)
		return;
	f.needs_list = false;
	(void) zk_folder_list(&f, &in, &stat, NULL);
	while ((n = zk_folder_next(&f)) != NULL) {
		char path[USHER_TEXT_MAX + 32];

		(void) snprintf(path, sizeof(path), "/services/web/%s", n->name);
		zk_folder_asked(&f, n);
		if (zk_folder_take(&f, path, ZK_OK, &in, NULL) < 0)
			break;
	}
	if (zk_folder_build(&f, "web", NULL, &set, NULL) == 0)
		(void) usher_endpoints_unref(set);
	(void) zk_folder_check(&f, ZK_OK, &in);
	zk_folder_done(&f);
}

static void read_messages(const uint8_t *data, size_t size)
{
	struct jute_in greeting = { .data = data, .size = size }, multi = greeting;
	struct zk_greeting ret;

	(void) zk_get_greeting(&greeting, &ret);
	(void) zk_get_multi(&multi);
}

static void read_names(const char *text)
{
	char *folder = NULL;

	(void) zk_layout_is_id(text);
	(void) zk_layout_check(text, text, NULL);
	if (zk_layout_folder(NULL, ZK_LAYOUT_DEFAULT, text, &folder, NULL) == 0)
		free(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size == 0 || size > 1 << 16)
		return 0;
	text = strndup((const char *) data + 1, size - 1);
	if (!text)
		return 0;
	switch (data[0] % 4) {
	case 0:
		read_folder(data + 1, size - 1);
		break;
	case 1:
		read_messages(data + 1, size - 1);
		break;
	case 2:
		read_names(text);
		break;
	default:
		read_value((const char *) data + 1, size - 1);
	}
	free(text);
	return 0;
}
