/* Any text as a label selector: refused with a message, or it filters without looking further. */

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <usher/plugin.h>

extern const struct usher_plugin usher_plugin;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct usher_endpoints *endpoints(void)
{
	const struct usher_label labels[] = { { "a", "b" }, { "tier", "gold" } };
	struct usher_endpoints *set = usher_endpoints_new();
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	e.address = "10.0.0.1";
	e.port = 80;
	e.metadata = labels;
	for (e.metadata_count = 0; e.metadata_count < 3; e.metadata_count++, e.port++)
		(void) usher_endpoints_add(set, &e, NULL);
	usher_endpoints_seal(set);
	return set;
}

static void filter(const void *instance)
{
	static const uint32_t weights[3] = { 1, 1, 1 };
	uint32_t candidates[3] = { 0, 1, 2 };
	struct usher_endpoints *set = endpoints();
	struct usher_view view = { sizeof(view), set, weights, NULL };
	char why[32];

	assert(usher_plugin.stage->filter(instance, &view, NULL, candidates, 3) <= 3);
	for (uint32_t i = 0; i < 3; i++)
		usher_plugin.stage->explain(instance, &view, NULL, i, why, sizeof(why));
	(void) usher_endpoints_unref(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *instance = calloc(1, usher_plugin.instance_size);
	const char *match[] = { text, NULL }, *const *option = match;
	struct usher_error err = {};

	if (text && instance) {
		memcpy(text, data, size);
		text[size] = '\0';
		memcpy(instance + usher_plugin.options[0].offset, &option, sizeof(option));
		if (usher_plugin.init(instance, &err) >= 0) {
			filter(instance);
			usher_plugin.done(instance);
		} else {
			assert(err.text[0] != '\0');
		}
	}
	free(text);
	free(instance);
	return 0;
}
