#include "format.h"

#include <errno.h>

#include "own.h"

const char *const format_choices[] = {
	[FORMAT_AUTO] = "auto",
	[FORMAT_USHER] = "usher",
	[FORMAT_KUBERNETES] = "kubernetes",
	[FORMAT_PROMETHEUS] = "prometheus",
	[FORMAT_SPRING] = "spring",
	NULL,
};

static const struct format *const formats[] = {
	[FORMAT_USHER] = &format_usher,
	[FORMAT_KUBERNETES] = &format_kubernetes,
	[FORMAT_PROMETHEUS] = &format_prometheus,
	[FORMAT_SPRING] = &format_spring,
};

int format_find(enum format_choice choice, const struct usher_node *root, const struct format **ret,
		struct usher_error *reterr)
{
	if (usher_node_kind(root) == USHER_NODE_NULL)
		return usher_node_error(reterr, root, -EBADMSG,
				"the file says nothing; if it is to name no service, write "
				"`services: {}`");
	if (choice != FORMAT_AUTO) {
		*ret = formats[choice];
		return 0;
	}
	for (size_t i = FORMAT_USHER; i < ELEMENTS(formats); i++)
		if (formats[i]->detect(root)) {
			*ret = formats[i];
			return 0;
		}
	return usher_node_error(reterr, root, -EBADMSG,
			"this is no list of endpoints that usher knows: its own format is a map "
			"with the key `services`, Kubernetes objects have a `kind`, Prometheus "
			"file_sd is a list of groups with `targets`, Spring has "
			"`spring.cloud.discovery.client.simple.instances`");
}
