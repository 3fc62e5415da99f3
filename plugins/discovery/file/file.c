/* Discovery from files, such as configuration management or a rollout tool writes, and registration
 * in them.
 *
 * The files are read whole after every change: what counts is what they say now, not which events
 * led there. Between changes they are looked at every `poll`, for file systems that tell of no
 * changes, and so that the answer stays young. */

#include "file.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

#include "answers.h"
#include "files.h"
#include "own.h"

#define POLL_MIN_USEC    UINT64_C(100000)
#define SETTLE_LOOK_USEC UINT64_C(100000)

static uint64_t now_usec(void)
{
	struct timespec t = { 0 };

	(void) clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t) t.tv_sec * 1000000 + (uint64_t) t.tv_nsec / 1000;
}

struct watch {
	struct files files;
	struct answers answers;
};

static void watch_done(struct watch *w)
{
	answers_done(&w->answers);
	files_done(&w->files);
}

/* Look, and tell. Returns enum files_change or -ENOMEM. */
static int look(struct watch *w, struct usher_source *source, int woken_by)
{
	uint64_t observed_usec = now_usec();
	int change = files_refresh(&w->files, woken_by & USHER_WAIT_PATH), r;

	if (change < 0)
		return change;
	/* What is wanted again after a while has to be told from the start. */
	if (woken_by & USHER_WAIT_WANTED)
		change |= FILES_CHANGED;
	r = answers_tell(&w->answers, source, &w->files, change, observed_usec);
	files_forget_gone(&w->files);
	return r < 0 ? r : change;
}

static int file_run(void *instance, struct usher_source *source)
{
	const struct file_plugin *f = instance;
	cleanup(watch_done) struct watch w = {
		.files = {
			.path = f->path,
			.choice = (enum format_choice) f->format,
			.options = {
				.kubernetes_namespace = f->kubernetes_namespace,
				.service_label = f->service_label,
			},
		},
	};
	struct usher_wait wait = { .size = sizeof(wait), .timeout_usec = 1, .path = f->path };
	/* The first wait only starts the watch: what changes from here on is not missed. */
	int woken_by = usher_source_wait(source, &wait);

	while (woken_by > 0) {
		int change = look(&w, source, woken_by);

		wait.backoff = change < 0;
		wait.timeout_usec = f->poll_usec;
		if (change < 0) {
			struct usher_error why = { 0 };

			usher_source_fail(source, NULL, change,
					(usher_error_set(&why, change, "%s: out of memory",
							 f->path),
							&why));
		} else if ((change & FILES_UNSETTLED) && SETTLE_LOOK_USEC < f->poll_usec) {
			wait.timeout_usec = SETTLE_LOOK_USEC;
		}
		woken_by = usher_source_wait(source, &wait);
	}
	return woken_by;
}

static int file_init(void *instance, struct usher_error *reterr)
{
	const struct file_plugin *f = instance;

	if (f->poll_usec < POLL_MIN_USEC)
		return usher_error_set(reterr, -ERANGE, "poll: is shorter than 100ms");
	return 0;
}

static const struct usher_option file_options[] = {
	{ .name = "path",
			.type = USHER_OPTION_PATH,
			.offset = offsetof(struct file_plugin, path),
			.flags = USHER_REQUIRED,
			.help = "The file to read, or the folder whose *.yaml, *.yml and *.json files "
				"to read." },
	{ .name = "format",
			.type = USHER_OPTION_CHOICE,
			.offset = offsetof(struct file_plugin, format),
			.help = "What the files are written in; auto looks at each of them.",
			.default_text = "auto",
			.choices = format_choices },
	{ .name = "poll",
			.type = USHER_OPTION_DURATION,
			.offset = offsetof(struct file_plugin, poll_usec),
			.help = "How often to look at the files when no change is announced, at least "
				"100ms.",
			.default_text = "5s" },
	{ .name = "namespace",
			.type = USHER_OPTION_STRING,
			.offset = offsetof(struct file_plugin, kubernetes_namespace),
			.help = "Of Kubernetes EndpointSlices, only those of this namespace." },
	{ .name = "service_label",
			.type = USHER_OPTION_STRING,
			.offset = offsetof(struct file_plugin, service_label),
			.help = "The label of a Prometheus group that names its service; without it "
				"the label job, else the file's name.",
			.default_text = "service" },
	{ 0 },
};

static const struct usher_discovery file_discovery = {
	.size = sizeof(file_discovery),
	.run = file_run,
};

static const struct usher_registration file_registration = {
	.size = sizeof(file_registration),
	.add = registration_add,
	.renew = registration_renew,
	.set_state = registration_set_state,
	.remove = registration_remove,
};

USHER_PLUGIN(.name = "file", .summary = "Endpoints from files, and registration in them",
		.instance_size = sizeof(struct file_plugin), .options = file_options,
		.init = file_init, .discovery = &file_discovery,
		.registration = &file_registration);
