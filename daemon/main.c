/* usherd: the command line of the daemon. */

#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "daemon.h"
#include "descriptors.h"
#include "loader.h"
#include "log.h"
#include "notify.h"
#include "ownership.h"

#define CONFIG_DEFAULT "/etc/usher/usher.yaml"

#define EXIT_USAGE 2

#define LARGE_BLOCK (256 * 1024)

enum long_option {
	OPTION_CHECK = 256,
	OPTION_CHECK_PLUGIN,
	OPTION_RELOAD_ON_CHANGE,
	OPTION_SCHEMA,
	OPTION_LOG_LEVEL,
	OPTION_VERSION
};

static const struct option options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "check", required_argument, NULL, OPTION_CHECK },
	{ "check-plugin", required_argument, NULL, OPTION_CHECK_PLUGIN },
	{ "reload-on-change", no_argument, NULL, OPTION_RELOAD_ON_CHANGE },
	{ "schema", no_argument, NULL, OPTION_SCHEMA },
	{ "log-level", required_argument, NULL, OPTION_LOG_LEVEL },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{},
};

static void print_help(void)
{
	(void) puts("usherd - keep a node's directory of services fresh, and clear instances without losing a request\n"
		    "\n"
		    "Usage: usherd [--config FILE] [--reload-on-change] [--log-level LEVEL]\n"
		    "       usherd --check FILE | --check-plugin FILE | --schema | --version | --help\n"
		    "\n"
		    "  -c, --config FILE      the configuration (" CONFIG_DEFAULT ")\n"
		    "      --reload-on-change  reload whenever the configuration's files change\n"
		    "      --check FILE       say whether a configuration is good, and where it is not; then exit\n"
		    "      --check-plugin FILE  say whether a plug-in would be loaded, and why not; then exit\n"
		    "      --schema           print the JSON schema of the configuration; then exit\n"
		    "      --log-level LEVEL  error, warning, notice, info or debug (info)\n"
		    "      --version          print the version; then exit\n"
		    "  -h, --help             print this; then exit\n"
		    "\n"
		    "See usherd(8), usher.yaml(5), usherctl(1).");
}

static int set_log_level(const char *text)
{
	static const char *const names[] = {
		[LOG_ERR] = "error", "warning", "notice", "info", "debug"
	};

	for (int i = LOG_ERR; i <= LOG_DEBUG; i++)
		if (strcmp(text, names[i]) == 0) {
			log_set_priority(i);
			return 0;
		}
	(void) fprintf(stderr,
			"usherd: --log-level \"%s\" is none of error, warning, notice, info, debug\n",
			text);
	return EXIT_USAGE;
}

static int check_plugin(const char *path)
{
	struct usher_error err = {};
	int r = plugin_check_file(path, &err);

	if (r < 0) {
		(void) fprintf(stderr, "%s\n", usher_error_text(&err, r));
		return EXIT_FAILURE;
	}
	(void) printf("%s: good\n", path);
	return EXIT_SUCCESS;
}

static int check_config(const char *path)
{
	struct usher_error err = {};
	int r = daemon_check(path, &err);

	if (r < 0) {
		(void) fprintf(stderr, "%s\n", usher_error_text(&err, r));
		return EXIT_FAILURE;
	}
	(void) printf("%s: good\n", path);
	return EXIT_SUCCESS;
}

static int print_schema(void)
{
	autofree char *schema = config_schema();

	if (!schema || puts(schema) == EOF) {
		(void) fputs("usherd: cannot print the schema: out of memory, or the output is closed\n",
				stderr);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

static int run(const char *config_path, unsigned flags)
{
	struct usher_error err = {};
	struct daemon *d = NULL;
	int r;

	/* What a source parses is large and soon over. Left alone, glibc learns from the first such
	 * block to take the next ones from the heap of the source's thread, where any small block
	 * that outlives them keeps all of it: hundreds of MB for a file that says 10. */
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread yet */
	(void) mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK);
	descriptors_raise_limit();
	r = daemon_new(config_path, flags, &d, &err);
	if (r < 0) {
		cleanup(notify_freep) struct notify *notify = notify_new();

		log_error(NULL, "Cannot start: %s", usher_error_text(&err, r));
		notify_status(notify, usher_error_text(&err, r));
		return EXIT_FAILURE;
	}
	r = daemon_run(d);
	if (r < 0)
		log_error(NULL, "The loop failed: %s; stopping", strerrordesc_np(-r));
	daemon_free(d);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	const char *config_path = CONFIG_DEFAULT;
	unsigned flags = 0;
	int c;

	/* NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread yet */
	while ((c = getopt_long(argc, argv, "c:h", options, NULL)) >= 0) {
		switch (c) {
		case 'c':
			config_path = optarg;
			break;
		case 'h':
			print_help();
			return EXIT_SUCCESS;
		case OPTION_CHECK:
			return check_config(optarg);
		case OPTION_CHECK_PLUGIN:
			return check_plugin(optarg);
		case OPTION_RELOAD_ON_CHANGE:
			flags |= DAEMON_RELOAD_ON_CHANGE;
			break;
		case OPTION_SCHEMA:
			return print_schema();
		case OPTION_VERSION:
			(void) puts("usherd " USHER_VERSION);
			return EXIT_SUCCESS;
		case OPTION_LOG_LEVEL:
			if (set_log_level(optarg) != 0)
				return EXIT_USAGE;
			break;
		default:
			return EXIT_USAGE;
		}
	}
	if (optind < argc) {
		(void) fprintf(stderr, "usherd: unexpected argument \"%s\"; see usherd --help\n",
				argv[optind]);
		return EXIT_USAGE;
	}
	return run(config_path, flags);
}
