/* A registry in a folder, which asks for drains: for the tests of how usherd hears of them.
 *
 * FOLDER/registry, a line a word: "endpoint ID PORT", "drain ID REASON...", "undrain ID". What is
 * told of the drains is appended to FOLDER/told: "ID STATE STEP TEXT". */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <usher/plugin.h>

struct asking {
	const char *folder;
	char registry[4096], told[4096];
};

static int asking_init(void *instance, struct usher_error *reterr)
{
	struct asking *a = instance;

	(void) reterr;
	(void) snprintf(a->registry, sizeof(a->registry), "%s/registry", a->folder);
	(void) snprintf(a->told, sizeof(a->told), "%s/told", a->folder);
	return 0;
}

static void read_endpoint(char *line, struct usher_endpoints *set)
{
	struct usher_endpoint endpoint = USHER_ENDPOINT_INIT;
	char *at = line;

	endpoint.id = strsep(&at, " ");
	endpoint.address = "127.0.0.1";
	endpoint.port = (uint16_t) strtoul(at ? at : "0", NULL, 10);
	(void) usher_endpoints_add(set, &endpoint, NULL);
}

static void read_drain(struct usher_source *source, const char *service, char *line)
{
	char *at = line;
	const char *id = strsep(&at, " ");

	(void) usher_source_drain(source,
			&(const struct usher_drain_request){
					.size = sizeof(struct usher_drain_request),
					.service = service,
					.id = id,
					.reason = at });
}

static void read_line(struct usher_source *source, const char *service, char *line,
		struct usher_endpoints *set)
{
	char *at = line;
	const char *word = strsep(&at, " ");

	if (at && strcmp(word, "endpoint") == 0)
		read_endpoint(at, set);
	else if (at && strcmp(word, "drain") == 0)
		read_drain(source, service, at);
	else if (at && strcmp(word, "undrain") == 0)
		(void) usher_source_undrain(source, service, at);
}

static void read_registry(const struct asking *a, struct usher_source *source, const char *service)
{
	struct usher_endpoints *set = usher_endpoints_new();
	FILE *file = fopen(a->registry, "re");
	char line[1024];

	if (!set || !file) {
		usher_source_fail(source, service, -errno, NULL);
		usher_endpoints_unref(set);
	} else {
		while (fgets(line, sizeof(line), file)) {
			line[strcspn(line, "\n")] = '\0';
			read_line(source, service, line, set);
		}
		(void) usher_source_offer(source, service, set, USHER_FRESH, NULL, 0);
	}
	if (file)
		(void) fclose(file);
}

static int asking_run(void *instance, struct usher_source *source)
{
	const struct asking *a = instance;
	int r;

	do {
		size_t count;
		const struct usher_wanted *wanted = usher_source_wanted(source, &count);

		for (size_t i = 0; i < count; i++)
			read_registry(a, source, wanted[i].service);
		r = usher_source_wait(source,
				&(const struct usher_wait){ .size = sizeof(struct usher_wait),
						.path = a->registry });
	} while (r > 0);
	return r;
}

static int asking_progress(void *instance, const struct usher_wanted *service, const char *id,
		const struct usher_drain_progress *progress, struct usher_error *reterr)
{
	static const char *const states[] = {
		[USHER_DRAIN_REFUSED] = "refused",
		[USHER_DRAIN_RUNNING] = "running",
		[USHER_DRAIN_HELD] = "held",
		[USHER_DRAIN_DONE] = "done",
		[USHER_DRAIN_FAILED] = "failed",
		[USHER_DRAIN_RETURNING] = "returning",
		[USHER_DRAIN_CANCELLED] = "cancelled",
	};
	const struct asking *a = instance;
	FILE *file = fopen(a->told, "ae");

	(void) service;
	if (!file)
		return usher_error_set(reterr, -EIO, "cannot open %s", a->told);
	(void) fprintf(file, "%s %s %s %s\n", id, states[progress->state],
			progress->step ? progress->step : "-", progress->text);
	return fclose(file) == 0 ? 0 : usher_error_set(reterr, -EIO, "cannot write %s", a->told);
}

static const struct usher_option asking_options[] = {
	{ "folder", USHER_OPTION_PATH, offsetof(struct asking, folder), USHER_REQUIRED,
			"The registry.", NULL, 0, 0, NULL },
	{ 0 },
};

USHER_PLUGIN(.name = "asking", .summary = "A registry that asks for drains, for the tests",
		.instance_size = sizeof(struct asking), .options = asking_options,
		.init = asking_init,
		.discovery =
				&(const struct usher_discovery){
						.size = sizeof(struct usher_discovery),
						.run = asking_run },
		.registration = &(const struct usher_registration){
				.size = sizeof(struct usher_registration),
				.progress = asking_progress });
