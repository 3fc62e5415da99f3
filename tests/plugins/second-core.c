/* Brings a library that has functions of the host's names along. */

#include <stdbool.h>
#include <usher/plugin.h>

int second_core_calls(void);

static int run(void *instance, struct usher_source *source)
{
	(void) instance;
	return usher_source_wait(source, NULL);
}

/* Whose usher_endpoints_new is called from here? The second core's counts its calls. */
static int init(void *instance, struct usher_error *reterr)
{
	struct usher_endpoints *set = usher_endpoints_new();

	(void) instance;
	usher_endpoints_unref(set);
	if (second_core_calls() > 0)
		return usher_error_set(reterr, -1, "the second core stood in for the host");
	return 0;
}

USHER_PLUGIN(.name = "second-core", .init = init,
		.discovery = &(const struct usher_discovery){ .run = run });
