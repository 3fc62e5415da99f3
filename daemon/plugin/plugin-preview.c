#include "plugin-preview.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf-data.h"
#include "ownership.h"
#include "plugin-description.h"

/* What the constant will be. Its functions are stand-ins: they are there or not, and never called.
 */
struct preview {
	struct usher_plugin plugin;
	struct usher_discovery discovery;
	struct usher_registration registration;
	struct usher_stage stage;
	struct usher_selector selector;
	struct usher_option options[PLUGIN_OPTIONS_MAX + 2];
	const char *choices[2];
	struct plugin_description judged;
};

static const char elsewhere[] = "?"; /* stands for what is there and cannot be looked at */

/* Read the pointer at an address into *ret: NULL, or the bytes in the image that it leads to, or
 * something else that is not NULL. Returns whether it can be told. */
static bool read_pointer(const struct elf_data *data, uint64_t address, const void **ret,
		uint64_t *ret_target)
{
	*ret_target = 0;
	switch (elf_data_pointer(data, address, ret_target)) {
	case ELF_POINTER_NULL:
		*ret = NULL;
		return true;
	case ELF_POINTER_HERE:
		*ret = elf_data_at(data, *ret_target, 1);
		if (!*ret)
			*ret = elsewhere;
		return true;
	case ELF_POINTER_ELSEWHERE:
		*ret = elsewhere;
		return true;
	case ELF_POINTER_UNKNOWN:
		return false;
	}
	return false;
}

static bool read_text(const struct elf_data *data, uint64_t address, const char **ret)
{
	const void *pointer;
	uint64_t target;

	if (!read_pointer(data, address, &pointer, &target))
		return false;
	*ret = pointer ? elf_data_text(data, target) : NULL;
	return !pointer || *ret;
}

/* Where a facet's pointer stands in the plug-in, and where the facet goes in the preview. */
struct facet_place {
	size_t member;
	size_t at;
	size_t plain;                /* bytes before its first function */
	size_t first, full;          /* bytes in ABI 1.0, and today */
	size_t numbers, numbers_end; /* what is no function among them, from and to before */
};

#define FACET(facet, first_function, first_size, ...)                                       \
	{                                                                                   \
		offsetof(struct usher_plugin, facet), offsetof(struct preview, facet),      \
				offsetof(struct usher_##facet, first_function), first_size, \
				sizeof(struct usher_##facet), __VA_ARGS__                   \
	}

static const struct facet_place facet_places[] = {
	FACET(discovery, run, sizeof(struct usher_discovery), 0, 0),
	FACET(registration, add, REGISTRATION_SIZE_1_0, 0, 0),
	FACET(stage, filter, STAGE_SIZE_1_0, offsetof(struct usher_stage, flags),
			offsetof(struct usher_stage, needs_request)),
	FACET(selector, prepare, SELECTOR_SIZE_1_0, offsetof(struct usher_selector, flags),
			offsetof(struct usher_selector, report)),
};

/* A struct of functions: copy what its size covers, and read each pointer anew. */
static bool read_functions(const struct elf_data *data, uint64_t address,
		const struct facet_place *place, void *ret)
{
	const void *found;
	size_t size;

	found = elf_data_at(data, address, sizeof(size));
	if (!found)
		return false;
	memcpy(&size, found, sizeof(size));
	if (size > place->full || (size > 0 && size < place->plain)) {
		memcpy(ret, &size, sizeof(size)); /* to be refused for it */
		return true;
	}
	if (size == 0)
		size = place->first;
	found = elf_data_at(data, address, size);
	if (!found)
		return false;
	memcpy(ret, found, size);
	for (size_t at = place->plain; at + sizeof(void *) <= size; at += sizeof(void *)) {
		const void *pointer;
		uint64_t target;

		if (at >= place->numbers && at < place->numbers_end)
			continue;
		if (!read_pointer(data, address + at, &pointer, &target))
			return false;
		memcpy((char *) ret + at, &pointer, sizeof(pointer));
	}
	return true;
}

static bool read_facet(const struct elf_data *data, uint64_t plugin,
		const struct facet_place *place, struct preview *ret)
{
	const void *facet;
	uint64_t target;

	if (!read_pointer(data, plugin + place->member, &facet, &target))
		return false;
	if (facet) {
		facet = (char *) ret + place->at;
		if (!read_functions(data, target, place, (char *) ret + place->at))
			return false;
	}
	memcpy((char *) &ret->plugin + place->member, &facet, sizeof(facet));
	return true;
}

static bool read_facets(const struct elf_data *data, uint64_t address, struct preview *ret)
{
	if (ret->plugin.size < sizeof(ret->plugin))
		return false; /* of an older minor: judged after loading */
	for (size_t i = 0; i < ELEMENTS(facet_places); i++)
		if (!read_facet(data, address, &facet_places[i], ret))
			return false;
	return true;
}

static bool read_option(const struct elf_data *data, uint64_t address, struct preview *preview,
		struct usher_option *ret)
{
	const void *found = elf_data_at(data, address, sizeof(*ret)), *choices;
	uint64_t target;

	if (!found)
		return false;
	memcpy(ret, found, sizeof(*ret));
	if (!read_text(data, address + offsetof(struct usher_option, name), &ret->name) ||
			!read_pointer(data, address + offsetof(struct usher_option, choices),
					&choices, &target))
		return false;
	ret->help = ret->default_text = NULL;
	ret->choices = choices ? preview->choices : NULL;
	return true;
}

static bool read_options(const struct elf_data *data, uint64_t address, struct preview *ret)
{
	const void *pointer;
	uint64_t table;

	if (!read_pointer(data, address + offsetof(struct usher_plugin, options), &pointer, &table))
		return false;
	ret->plugin.options = pointer ? ret->options : NULL;
	ret->choices[0] = elsewhere;
	if (!pointer || ret->plugin.option_size != sizeof(struct usher_option))
		return true;
	for (size_t i = 0; i <= PLUGIN_OPTIONS_MAX; i++) {
		if (!read_option(data, table + i * sizeof(struct usher_option), ret,
				    &ret->options[i]))
			return false;
		if (!ret->options[i].name)
			return true;
	}
	return true;
}

/* Returns whether the whole constant could be read. */
static bool read_plugin(const struct elf_data *data, uint64_t address, struct preview *ret)
{
	struct usher_plugin *plugin = &ret->plugin;
	const void *found;

	found = elf_data_at(data, address, sizeof(*plugin));
	if (!found)
		return false;
	memcpy(plugin, found, sizeof(*plugin));
	plugin->version = plugin->summary = NULL;
	plugin->init = NULL;
	plugin->done = NULL;
	return read_text(data, address + offsetof(struct usher_plugin, name), &plugin->name) &&
			read_options(data, address, ret) && read_facets(data, address, ret);
}

int plugin_preview(const uint8_t *image, size_t size, const char *file_name,
		const struct elf_abi *abi, struct usher_error *reterr)
{
	autofree struct preview *preview = NULL;
	struct elf_data data;
	uint64_t address;

	assert(image);
	assert(file_name);

	if (elf_data_open(image, size, &data) <= 0)
		return 0;
	if (elf_data_find(&data, "usher_plugin", &address) < 0)
		return usher_error_set(reterr, -EINVAL,
				"does not export the constant usher_plugin; write it with "
				"USHER_PLUGIN()");
	preview = calloc(1, sizeof(*preview));
	if (!preview)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	if (!read_plugin(&data, address, preview))
		return 0;
	return plugin_description_read(&preview->plugin, file_name, abi, &preview->judged, reterr);
}
