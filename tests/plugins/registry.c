/* A registry that does what a test says: a folder of files.
 *
 * SERVICE/ID is what is registered: a line "ADDRESS PORT READY WEIGHT LABELS". A test may remove
 * it, as a lease that runs out does, or the whole folder, as a registry that was wiped. calls has a
 * line for each call: "add catalog/a 10.0.0.1 80 ready 1 v=1". While there is a file away or
 * denied, calls fail; while there is slow, they do not return; while there is sluggish, each takes
 * a tenth of a second.
 *
 * Discovery shows what is in the folder. With `forgets`, a renew is answered with ENOENT unless
 * this very instance has added it, as by a registry whose leases only their owner knows. */

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <usher/plugin.h>

#define LOOK_USEC UINT64_C(20000)
#define KNOWN_MAX 64

struct registry {
	const char *path;
	uint64_t renew_after_usec;
	bool forgets;
	char known[KNOWN_MAX][256]; /* that this instance has added */
	size_t known_count;
};

static const char *in(const struct registry *r, const char *name, char text[1024])
{
	(void) snprintf(text, 1024, "%s/%s", r->path, name);
	return text;
}

static bool is_there(const struct registry *r, const char *name)
{
	char path[1024];

	return access(in(r, name, path), F_OK) == 0;
}

static int note(const struct registry *r, const char *line)
{
	char path[1024];
	FILE *f = fopen(in(r, "calls", path), "ae");

	if (!f)
		return -errno;
	(void) fprintf(f, "%s\n", line);
	return fclose(f) == 0 ? 0 : -errno;
}

/* What a call begins with: it is noted, and fails or hangs as the test says. */
static int begin(const struct registry *r, const char *call, const char *service, const char *id,
		const char *rest, struct usher_error *reterr)
{
	const struct timespec nap = { .tv_nsec = 10000000 };
	char line[1024];

	(void) snprintf(line, sizeof(line), "%s %s/%s%s%s", call, service, id, *rest ? " " : "",
			rest);
	(void) note(r, line);
	while (is_there(r, "slow"))
		(void) nanosleep(&nap, NULL);
	for (int i = 0; i < 10 && is_there(r, "sluggish"); i++)
		(void) nanosleep(&nap, NULL);
	if (is_there(r, "away"))
		return usher_error_set(reterr, -ECONNREFUSED, "the registry is away");
	if (is_there(r, "denied"))
		return usher_error_set(reterr, -EACCES, "the registry says no");
	return 0;
}

static size_t find(const struct registry *r, const char *name)
{
	size_t i = 0;

	while (i < r->known_count && strcmp(r->known[i], name) != 0)
		i++;
	return i;
}

static void write_labels(const struct usher_endpoint *e, char *text, size_t size)
{
	size_t used = strlen(text);

	for (size_t i = 0; i < e->metadata_count && used < size; i++)
		used += (size_t) snprintf(text + used, size - used, " %s=%s", e->metadata[i].name,
				e->metadata[i].value);
}

static int registry_add(void *instance, const struct usher_wanted *service,
		const struct usher_endpoint *e, struct usher_error *reterr)
{
	struct registry *r = instance;
	char content[512], name[256], path[1024];
	FILE *f;
	int code;

	(void) snprintf(content, sizeof(content), "%s %u %s %u", e->address, e->port,
			e->ready ? "ready" : "unready", e->weight);
	write_labels(e, content, sizeof(content));
	code = begin(r, "add", service->name, e->id, content, reterr);
	if (code < 0)
		return code;
	(void) mkdir(r->path, 0755);
	(void) mkdir(in(r, service->name, path), 0755);
	(void) snprintf(name, sizeof(name), "%.120s/%.120s", service->name, e->id);
	f = fopen(in(r, name, path), "we");
	if (!f)
		return usher_error_set(reterr, -errno, "%s: cannot be written", path);
	(void) fprintf(f, "%s\n", content);
	if (find(r, name) == r->known_count && r->known_count < KNOWN_MAX)
		memcpy(r->known[r->known_count++], name, sizeof(name));
	return fclose(f) == 0 ? 0 : usher_error_set(reterr, -EIO, "%s: cannot be written", path);
}

static int registry_renew(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	struct registry *r = instance;
	char name[256];
	int code = begin(r, "renew", service->name, id, "", reterr);

	if (code < 0)
		return code;
	(void) snprintf(name, sizeof(name), "%.120s/%.120s", service->name, id);
	if (!is_there(r, name) || (r->forgets && find(r, name) == r->known_count))
		return usher_error_set(reterr, -ENOENT, "there is no lease of %s", name);
	return 0;
}

static int registry_remove(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	struct registry *r = instance;
	char name[256], path[1024];
	int code = begin(r, "remove", service->name, id, "", reterr);

	if (code < 0)
		return code;
	(void) snprintf(name, sizeof(name), "%.120s/%.120s", service->name, id);
	if (unlink(in(r, name, path)) < 0 && errno != ENOENT)
		return usher_error_set(reterr, -EIO, "%s: cannot be removed", path);
	return 0;
}

static uint64_t registry_renew_after(const void *instance)
{
	return ((const struct registry *) instance)->renew_after_usec;
}

/* ---- discovery ---- */

static void read_one(const struct registry *r, const char *service, const char *id,
		struct usher_endpoints *set)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	char name[600], path[1024], address[128], ready[16];
	unsigned port, weight;
	FILE *f;

	(void) snprintf(name, sizeof(name), "%s/%s", service, id);
	f = fopen(in(r, name, path), "re");
	if (!f)
		return;
	/* NOLINTNEXTLINE(cert-err34-c): what does not fit is not taken */
	if (fscanf(f, "%127s %u %15s %u", address, &port, ready, &weight) == 4) {
		e.id = id;
		e.address = address;
		e.port = (uint16_t) port;
		e.ready = strcmp(ready, "ready") == 0;
		e.weight = weight;
		(void) usher_endpoints_add(set, &e, NULL);
	}
	(void) fclose(f);
}

static void look(const struct registry *r, struct usher_source *source,
		const struct usher_wanted *wanted)
{
	struct usher_endpoints *set = usher_endpoints_new();
	char path[1024];
	DIR *folder = opendir(in(r, wanted->name, path));
	const struct dirent *entry;

	while (set && folder && (entry = readdir(folder))) /* NOLINT(concurrency-mt-unsafe) */
		if (entry->d_name[0] != '.')
			read_one(r, wanted->name, entry->d_name, set);
	if (folder)
		(void) closedir(folder);
	(void) usher_source_offer(source, wanted->service, set, USHER_FRESH, NULL, 0);
}

static int registry_run(void *instance, struct usher_source *source)
{
	const struct usher_wait wait = { .size = sizeof(wait), .timeout_usec = LOOK_USEC };
	int code;

	do {
		size_t count;
		const struct usher_wanted *wanted = usher_source_wanted(source, &count);

		for (size_t i = 0; i < count; i++)
			look(instance, source, &wanted[i]);
		code = usher_source_wait(source, &wait);
	} while (code > 0);
	return code;
}

static const struct usher_option options[] = {
	{ "path", USHER_OPTION_PATH, offsetof(struct registry, path), USHER_REQUIRED, "The folder.",
			NULL, 0, 0, NULL },
	{ "renew_after", USHER_OPTION_DURATION, offsetof(struct registry, renew_after_usec), 0,
			"When the next renew is due.", "100ms", 0, 0, NULL },
	{ "forgets", USHER_OPTION_BOOL, offsetof(struct registry, forgets), 0,
			"Whether leases are known to who made them only.", "false", 0, 0, NULL },
	{},
};

USHER_PLUGIN(.name = "registry", .summary = "A folder, as a registry that does what a test says",
		.instance_size = sizeof(struct registry), .options = options,
		.discovery =
				&(const struct usher_discovery){
						.size = sizeof(struct usher_discovery),
						.run = registry_run },
		.registration = &(const struct usher_registration){
				.size = sizeof(struct usher_registration),
				.add = registry_add,
				.renew = registry_renew,
				.remove = registry_remove,
				.renew_after_usec = registry_renew_after });
