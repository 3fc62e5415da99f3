#include "plugin-description.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "ownership.h"

/* One bit of the options' types; more types come with a newer minor, which is refused before. */
static size_t field_size(enum usher_option_type type)
{
	switch (type) {
	case USHER_OPTION_STRING:
	case USHER_OPTION_PATH:
	case USHER_OPTION_STRINGS:
	case USHER_OPTION_NODE:
		return sizeof(void *);
	case USHER_OPTION_BOOL:
		return sizeof(bool);
	case USHER_OPTION_INTEGER:
		return sizeof(int64_t);
	case USHER_OPTION_DURATION:
	case USHER_OPTION_SIZE:
		return sizeof(uint64_t);
	case USHER_OPTION_SHARE:
		return sizeof(double);
	case USHER_OPTION_CHOICE:
		return sizeof(int);
	}
	return 0;
}

static int check_option(const struct usher_option *option, size_t i, size_t instance_size,
		struct usher_error *reterr)
{
	size_t size = field_size(option->type);

	if (size == 0)
		return usher_error_set(reterr, -EINVAL,
				"its option %s has the type %d, which ABI %u.%u does not have",
				option->name, (int) option->type, USHER_ABI_MAJOR, USHER_ABI_MINOR);
	if (option->name[0] == '\0')
		return usher_error_set(reterr, -EINVAL, "its option %zu has an empty name", i);
	if (option->offset > instance_size || size > instance_size - option->offset)
		return usher_error_set(reterr, -EINVAL,
				"its option %s lies outside the instance (%zu bytes at %zu, the "
				"instance has %zu)",
				option->name, size, option->offset, instance_size);
	if (option->offset % size != 0)
		return usher_error_set(reterr, -EINVAL,
				"its option %s lies at %zu in the instance, which is no place for %zu "
				"bytes",
				option->name, option->offset, size);
	if (option->type == USHER_OPTION_CHOICE && (!option->choices || !option->choices[0]))
		return usher_error_set(reterr, -EINVAL, "its option %s has nothing to choose from",
				option->name);
	return 0;
}

static const struct usher_option *option_at(const struct usher_plugin *plugin, size_t i)
{
	return (const void *) ((const char *) plugin->options + i * plugin->option_size);
}

static int check_options(const struct usher_plugin *plugin, struct usher_error *reterr)
{
	if (!plugin->options)
		return 0;
	if (plugin->option_size < sizeof(struct usher_option) ||
			plugin->option_size % _Alignof(struct usher_option) != 0)
		return usher_error_set(reterr, -EINVAL,
				"says that an option takes %zu bytes; in ABI %u.%u it takes %zu",
				plugin->option_size, USHER_ABI_MAJOR, USHER_ABI_MINOR,
				sizeof(struct usher_option));

	for (size_t i = 0; option_at(plugin, i)->name; i++) {
		int r;

		if (i == PLUGIN_OPTIONS_MAX)
			return usher_error_set(reterr, -EINVAL,
					"its table of options has no end within %u rows",
					PLUGIN_OPTIONS_MAX);
		r = check_option(option_at(plugin, i), i, plugin->instance_size, reterr);
		if (r < 0)
			return r;
		for (size_t k = 0; k < i; k++)
			if (strcmp(option_at(plugin, k)->name, option_at(plugin, i)->name) == 0)
				return usher_error_set(reterr, -EINVAL, "has the option %s twice",
						option_at(plugin, i)->name);
	}
	return 0;
}

/* Copy what the plug-in's struct covers; the rest of *ret is zero already. */
static int copy_sized(void *ret, size_t full, const void *said, const char *what,
		struct usher_error *reterr)
{
	size_t size = 0;

	memcpy(&size, said, sizeof(size));
	if (size > full)
		return usher_error_set(reterr, -EINVAL,
				"says ABI %u.%u, but its struct %s has %zu bytes; there it has %zu",
				USHER_ABI_MAJOR, USHER_ABI_MINOR, what, size, full);
	if (size != 0 && size < sizeof(size))
		return usher_error_set(reterr, -EINVAL,
				"its struct %s has %zu bytes: too few to say "
				"so",
				what, size);
	memcpy(ret, said, size == 0 ? full : size);
	memcpy(ret, &full, sizeof(full));
	return 0;
}

static int missing(struct usher_error *reterr, const char *facet, const char *member)
{
	return usher_error_set(reterr, -EINVAL, "offers %s without the function %s", facet, member);
}

static int read_discovery(const struct usher_plugin *plugin, struct plugin_description *ret,
		struct usher_error *reterr)
{
	int r;

	if (!plugin->discovery)
		return 0;
	r = copy_sized(&ret->discovery, sizeof(ret->discovery), plugin->discovery,
			"usher_discovery", reterr);
	if (r < 0)
		return r;
	if (!ret->discovery.run)
		return missing(reterr, "discovery", "run");
	ret->plugin.discovery = &ret->discovery;
	return 0;
}

static int read_registration(const struct usher_plugin *plugin, struct plugin_description *ret,
		struct usher_error *reterr)
{
	const struct usher_registration *registration = &ret->registration;
	int r;

	if (!plugin->registration)
		return 0;
	if (!plugin->discovery)
		return usher_error_set(reterr, -EINVAL,
				"offers registration without discovery, which it belongs to");
	r = copy_sized(&ret->registration, sizeof(ret->registration), plugin->registration,
			"usher_registration", reterr);
	if (r < 0)
		return r;
	if (!registration->add && !registration->renew && !registration->set_state &&
			!registration->remove)
		return usher_error_set(reterr, -EINVAL,
				"offers registration without any of its functions (add, renew, "
				"set_state, remove)");
	ret->plugin.registration = &ret->registration;
	return 0;
}

static int read_stage(const struct usher_plugin *plugin, struct plugin_description *ret,
		struct usher_error *reterr)
{
	int r;

	if (!plugin->stage)
		return 0;
	r = copy_sized(&ret->stage, sizeof(ret->stage), plugin->stage, "usher_stage", reterr);
	if (r < 0)
		return r;
	if (!ret->stage.filter)
		return missing(reterr, "a stage", "filter");
	if (!ret->stage.explain)
		return missing(reterr, "a stage", "explain");
	ret->plugin.stage = &ret->stage;
	return 0;
}

static int read_selector(const struct usher_plugin *plugin, struct plugin_description *ret,
		struct usher_error *reterr)
{
	int r;

	if (!plugin->selector)
		return 0;
	r = copy_sized(&ret->selector, sizeof(ret->selector), plugin->selector, "usher_selector",
			reterr);
	if (r < 0)
		return r;
	if (!ret->selector.pick)
		return missing(reterr, "a selector", "pick");
	if (!ret->selector.share)
		return missing(reterr, "a selector", "share");
	if (ret->selector.prepare && !ret->selector.release)
		return usher_error_set(reterr, -EINVAL,
				"offers a selector with the function prepare and without release");
	ret->plugin.selector = &ret->selector;
	return 0;
}

static int check_identity(const struct usher_plugin *said, const char *file_name,
		const struct elf_abi *abi, struct usher_error *reterr)
{
	if (said->abi_major != abi->major || said->abi_minor != abi->minor)
		return usher_error_set(reterr, -EINVAL,
				"contradicts itself: its note says ABI %u.%u, its usher_plugin says "
				"%u.%u",
				abi->major, abi->minor, said->abi_major, said->abi_minor);
	if (said->size < offsetof(struct usher_plugin, init))
		return usher_error_set(reterr, -EINVAL,
				"its struct usher_plugin has %zu bytes; ABI %u.%u needs %zu at least",
				said->size, USHER_ABI_MAJOR, USHER_ABI_MINOR,
				offsetof(struct usher_plugin, init));
	if (!said->name || !said->name[0])
		return usher_error_set(reterr, -EINVAL,
				"has no name; it must be \"%s\", as its file", file_name);
	if (strcmp(said->name, file_name) != 0)
		return usher_error_set(reterr, -EINVAL,
				"calls itself \"%s\", but its file is called %s.so; the two must "
				"agree",
				said->name, file_name);
	if (said->instance_size > PLUGIN_INSTANCE_MAX)
		return usher_error_set(reterr, -EINVAL,
				"asks for instances of %zu bytes; the most is %zu",
				said->instance_size, PLUGIN_INSTANCE_MAX);
	return 0;
}

static int read_facets(const struct usher_plugin *whole, struct plugin_description *ret,
		struct usher_error *reterr)
{
	int r;

	if (!whole->discovery && !whole->registration && !whole->stage && !whole->selector)
		return usher_error_set(reterr, -EINVAL,
				"offers nothing: neither discovery, a stage nor a selector");
	r = read_discovery(whole, ret, reterr);
	if (r < 0)
		return r;
	r = read_registration(whole, ret, reterr);
	if (r < 0)
		return r;
	r = read_stage(whole, ret, reterr);
	if (r < 0)
		return r;
	return read_selector(whole, ret, reterr);
}

int plugin_description_read(const struct usher_plugin *said, const char *file_name,
		const struct elf_abi *abi, struct plugin_description *ret,
		struct usher_error *reterr)
{
	struct usher_plugin whole = {};
	int r;

	assert(said);
	assert(file_name);
	assert(abi);
	assert(ret);

	*ret = (struct plugin_description){};
	r = check_identity(said, file_name, abi, reterr);
	if (r < 0)
		return r;
	r = copy_sized(&whole, sizeof(whole), said, "usher_plugin", reterr);
	if (r < 0)
		return r;
	r = check_options(&whole, reterr);
	if (r < 0)
		return r;

	ret->plugin = whole;
	ret->plugin.version = whole.version ? whole.version : "1.0";
	ret->plugin.summary = whole.summary ? whole.summary : "";
	ret->plugin.discovery = NULL;
	ret->plugin.registration = NULL;
	ret->plugin.stage = NULL;
	ret->plugin.selector = NULL;
	return read_facets(&whole, ret, reterr);
}
