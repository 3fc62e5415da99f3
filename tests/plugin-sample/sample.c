/* A plug-in as somebody outside of usher's tree writes it: installed headers, and nothing else.
 *
 * As a source it offers the endpoints of its option to every service; as a stage it keeps those
 * whose port is below a limit. */

#include <inttypes.h>
#include <stdio.h>
#include <usher/plugin.h>

struct sample {
	const char *const *endpoints;
	int64_t below;
};

static int sample_set(
		const struct sample *s, struct usher_endpoints **ret, struct usher_error *reterr)
{
	struct usher_endpoints *set = usher_endpoints_new();

	for (size_t i = 0; set && s->endpoints && s->endpoints[i]; i++) {
		struct usher_endpoint endpoint = USHER_ENDPOINT_INIT;
		char address[USHER_TEXT_MAX];
		int r;

		r = usher_authority_parse(s->endpoints[i], 0, address, &endpoint.port, reterr);
		endpoint.address = address;
		if (r >= 0)
			r = usher_endpoints_add(set, &endpoint, reterr);
		if (r < 0) {
			usher_endpoints_unref(set);
			return usher_error_prefix(reterr, r, "endpoints[%zu]", i);
		}
	}
	if (!set)
		return usher_error_set(reterr, -12, "out of memory");
	*ret = set;
	return 0;
}

static int sample_run(void *instance, struct usher_source *source)
{
	int r;

	do {
		const struct usher_wanted *wanted;
		size_t count;

		wanted = usher_source_wanted(source, &count);
		for (size_t i = 0; i < count; i++) {
			struct usher_endpoints *set = NULL;
			struct usher_error err = { 0 };

			r = sample_set(instance, &set, &err);
			if (r < 0)
				usher_source_fail(source, wanted[i].service, r, &err);
			else
				(void) usher_source_offer(source, wanted[i].service, set,
						USHER_FRESH, "options", 0);
		}
		usher_log(USHER_LOG_DEBUG, "offered to %zu services", count);
		r = usher_source_wait(source,
				&(const struct usher_wait){ .size = sizeof(struct usher_wait),
						.timeout_usec = 1000000 });
	} while (r > 0);
	return r;
}

static size_t sample_filter(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t *candidates, size_t count)
{
	const struct sample *s = instance;
	size_t kept = 0;

	(void) request;
	for (size_t i = 0; i < count; i++) {
		struct usher_endpoint endpoint;

		usher_endpoints_get(view->endpoints, candidates[i], &endpoint);
		if (endpoint.port < s->below)
			candidates[kept++] = candidates[i];
	}
	return kept;
}

static void sample_explain(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret_text,
		size_t size)
{
	const struct sample *s = instance;
	struct usher_endpoint endpoint;

	(void) request;
	usher_endpoints_get(view->endpoints, candidate, &endpoint);
	(void) snprintf(ret_text, size, "port %u is not below %" PRId64, (unsigned) endpoint.port,
			s->below);
}

static const struct usher_option sample_options[] = {
	{ .name = "endpoints",
			.type = USHER_OPTION_STRINGS,
			.offset = offsetof(struct sample, endpoints),
			.help = "ADDRESS:PORT of each endpoint." },
	{ .name = "below",
			.type = USHER_OPTION_INTEGER,
			.offset = offsetof(struct sample, below),
			.help = "Keep ports below this.",
			.default_text = "65536",
			.min = 1,
			.max = 65536 },
	{ .name = NULL },
};

#ifdef SAMPLE_BROKEN
/* Must not run: whoever breaks this plug-in looks for the file. */
#include <stdlib.h>

__attribute__((constructor)) static void sample_trace(void)
{
	FILE *trace = fopen(getenv("SAMPLE_TRACE"), "w");

	if (trace)
		(void) fclose(trace);
}
#endif

USHER_PLUGIN(.name = "sample", .version = "0.3", .summary = "Endpoints from its options",
		.instance_size = sizeof(struct sample), .options = sample_options,
		.discovery =
				&(const struct usher_discovery){
						.size = sizeof(struct usher_discovery),
						.run = sample_run },
		.stage = &(const struct usher_stage){ .size = sizeof(struct usher_stage),
				.filter = sample_filter,
				.explain = sample_explain });
