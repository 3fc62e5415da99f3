/* usher_log: a plug-in's lines in the host's log, under its name. */

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <usher/plugin.h>

#include "log.h"
#include "source-shared.h"

#define LINE_MAX_BYTES 1024
#define NAME_MAX_BYTES 128

/* The plug-in that holds the code at this address: the name of its file, which is its own. False:
 * it is the host itself, in what it does for a plug-in. */
static bool name_of_caller(const void *address, char ret[NAME_MAX_BYTES])
{
	static const char here;
	Dl_info host;
	const char *slash, *base;
	Dl_info info;
	size_t length;

	if (!dladdr(address, &info) || !info.dli_fname) {
		(void) snprintf(ret, NAME_MAX_BYTES, "plug-in");
		return true;
	}
	if (dladdr(&here, &host) && host.dli_fbase == info.dli_fbase)
		return false;
	slash = strrchr(info.dli_fname, '/');
	base = slash ? slash + 1 : info.dli_fname;
	length = strlen(base);
	if (length > 3 && strcmp(base + length - 3, ".so") == 0)
		length -= 3;
	(void) snprintf(ret, NAME_MAX_BYTES, "%.*s", (int) length, base);
	return true;
}

/* noinline: the return address must be the plug-in's. */
__attribute__((noinline)) void usher_log(enum usher_log_priority priority, const char *format, ...)
{
	const char *source = source_thread_name();
	char plugin[NAME_MAX_BYTES] = "usherd", line[LINE_MAX_BYTES];
	va_list arguments;
	bool is_plugin;

	if ((int) priority > log_priority())
		return;
	is_plugin = name_of_caller(__builtin_return_address(0), plugin);
	va_start(arguments, format);
	(void) vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);

	if (source && !is_plugin)
		log_write((int) priority, FIELDS(.value[LOG_SOURCE] = source), "%s: %s", source,
				line);
	else if (source)
		log_write((int) priority,
				FIELDS(.value[LOG_PLUGIN] = plugin, .value[LOG_SOURCE] = source),
				"%s (%s): %s", source, plugin, line);
	else
		log_write((int) priority, FIELDS(.value[LOG_PLUGIN] = plugin), "%s: %s", plugin,
				line);
}
