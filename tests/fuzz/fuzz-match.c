/* Any text as selectors of labels: refused with a message, or it judges without looking further. */

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <usher/match.h>

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

static void judge(const struct usher_match *match)
{
	struct usher_endpoints *set = endpoints();
	char why[32];

	for (size_t i = 0; i < usher_endpoints_count(set); i++) {
		usher_match_explain(match, set, i, why, sizeof(why));
		assert(usher_match_holds(match, set, i) == (strcmp(why, "matches") == 0));
	}
	(void) usher_endpoints_unref(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	const char *texts[] = { text, NULL };
	struct usher_match *match = NULL;
	struct usher_error err = {};

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (usher_match_new(texts, &match, &err) >= 0)
		judge(match);
	else
		assert(err.text[0] != '\0');
	(void) usher_match_free(match);
	free(text);
	return 0;
}
