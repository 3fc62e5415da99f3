/* Any text as a cookie header: read without looking further, and what is kept is a candidate. */

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <usher/plugin.h>

extern const struct usher_plugin usher_plugin;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct usher_endpoints *endpoints(void)
{
	static const char *const ids[] = { "A", "B", "host=1" };
	struct usher_endpoints *set = usher_endpoints_new();

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;

		e.id = ids[i];
		e.address = "10.0.0.1";
		e.port = 80;
		assert(usher_endpoints_add(set, &e, NULL) >= 0);
	}
	usher_endpoints_seal(set);
	return set;
}

/* The header as it is, and cut into two at its middle. */
static void choose(const void *instance, char *text, size_t size)
{
	static struct usher_endpoints *set;
	const struct usher_label headers[] = { { "Cookie", text }, { "cookie", text + size / 2 } };
	struct usher_request request = { .size = sizeof(request), .headers = headers };
	struct usher_view view = { .size = sizeof(view) };

	if (!set)
		set = endpoints();
	view.endpoints = set;
	for (request.header_count = 1; request.header_count <= 2; request.header_count++) {
		const struct usher_pass pass = {
			.size = sizeof(pass), .view = &view, .request = &request
		};
		uint32_t candidates[3] = { 0, 1, 2 };
		size_t kept;
		char told[96];

		kept = usher_plugin.stage->filter(instance, &view, &request, candidates, 3);
		assert(kept <= 3 && kept != 2);
		assert(kept != 1 || candidates[0] < 3);
		usher_plugin.stage->explain(instance, &view, &request, 0, told, sizeof(told));
		usher_plugin.stage->tell(instance, &pass, candidates, 3, kept, told, sizeof(told));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *cookie = "sc-lb-instance-id";
	char *text = malloc(size + 1), *instance = calloc(1, usher_plugin.instance_size);

	if (text && instance) {
		memcpy(text, data, size);
		text[size] = '\0';
		memcpy(instance + usher_plugin.options[0].offset, &cookie, sizeof(cookie));
		choose(instance, text, size);
	}
	free(text);
	free(instance);
	return 0;
}
