#include "dl-error.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <usher/plugin.h>

#define WORD_MAX 256

/* Copy what stands between after and the first of the bytes in ends. */
static void copy_word(const char *from, const char *ends, char *ret)
{
	(void) snprintf(ret, WORD_MAX, "%.*s", (int) strcspn(from, ends), from);
}

static int undefined_symbol(const char *name, struct usher_error *reterr)
{
	char symbol[WORD_MAX];

	copy_word(name, ", \t(", symbol);
	if (strncmp(symbol, "usher_", strlen("usher_")) == 0)
		return usher_error_set(reterr, -ENOSYS,
				"calls the function %s, which this usherd (plug-in ABI %u.%u) does not "
				"have; it was built for another",
				symbol, USHER_ABI_MAJOR, USHER_ABI_MINOR);
	return usher_error_set(reterr, -ENOSYS,
			"needs the symbol %s, which is neither in this usherd nor in the libraries that "
			"the file names; link it with the library that has it",
			symbol);
}

/* "LIBRARY: cannot open shared object file: REASON", of the plug-in itself or of a library. */
static int cannot_open(
		const char *path, const char *text, const char *reason, struct usher_error *reterr)
{
	char library[WORD_MAX];

	copy_word(text, ":", library);
	if (strcmp(library, path) == 0)
		return usher_error_set(reterr, -ENOENT, "cannot be opened: %s", reason);
	return usher_error_set(reterr, -ELIBACC,
			"needs the library %s, which this machine does not have (%s); install it, or "
			"see `ldd %s`",
			library, reason, path);
}

/* "LIBRARY: version `VERSION' not found (required by PATH)" */
static int missing_version(const char *text, const char *version, struct usher_error *reterr)
{
	char library[WORD_MAX], needed[WORD_MAX];

	copy_word(text, ":", library);
	copy_word(version, "'", needed);
	return usher_error_set(reterr, -ELIBACC,
			"needs version %s of the library %s; the one on this machine is another",
			needed, library);
}

int dl_error_translate(const char *path, const char *text, struct usher_error *reterr)
{
	static const char undefined[] = "undefined symbol: ";
	static const char unopened[] = ": cannot open shared object file: ";
	static const char version[] = ": version `";
	const char *found;

	assert(path);

	if (!text)
		return usher_error_set(reterr, -ENOEXEC,
				"the dynamic loader refuses it and does not "
				"say why");
	found = strstr(text, undefined);
	if (found)
		return undefined_symbol(found + strlen(undefined), reterr);
	found = strstr(text, unopened);
	if (found)
		return cannot_open(path, text, found + strlen(unopened), reterr);
	found = strstr(text, version);
	if (found)
		return missing_version(text, found + strlen(version), reterr);

	if (strncmp(text, path, strlen(path)) == 0 && text[strlen(path)] == ':')
		text += strlen(path) + 1 + (text[strlen(path) + 1] == ' ');
	return usher_error_set(reterr, -ENOEXEC, "the dynamic loader refuses it: %s", text);
}
