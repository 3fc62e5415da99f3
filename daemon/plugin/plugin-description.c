#include "plugin-description.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "ownership.h"

/* What ABI 1.0 has fixed stays where it is. */
static_assert(STAGE_SIZE_1_0 == 4 * sizeof(void *), "usher_stage of ABI 1.0");
static_assert(SELECTOR_SIZE_1_0 == 5 * sizeof(void *), "usher_selector of ABI 1.0");
static_assert(offsetof(struct usher_view, service) == 4 * sizeof(void *), "usher_view of ABI 1.0");
static_assert(offsetof(struct usher_request, consumer) == 7 * sizeof(void *) + 3 * sizeof(uint64_t),
		"usher_request of ABI 1.0");
static_assert(sizeof(struct usher_discovery) == 2 * sizeof(void *), "usher_discovery of ABI 1.0");
static_assert(REGISTRATION_SIZE_1_0 == 5 * sizeof(void *), "usher_registration of ABI 1.0");
static_assert(sizeof(struct usher_option) == 7 * sizeof(void *) + 2 * sizeof(int64_t),
		"usher_option of ABI 1.0");
static_assert(offsetof(struct usher_plugin, selector) == 13 * sizeof(void *),
		"usher_plugin of ABI 1.0");

/* A struct of the ABI: its name, and its bytes in 1.0 and in this usherd's minor. */
struct abi_struct {
	const char *name;
	size_t first, now;
};

static const struct abi_struct abi_plugin = { "usher_plugin", sizeof(struct usher_plugin),
	sizeof(struct usher_plugin) };
static const struct abi_struct abi_discovery = { "usher_discovery", sizeof(struct usher_discovery),
	sizeof(struct usher_discovery) };
static const struct abi_struct abi_registration = { "usher_registration", REGISTRATION_SIZE_1_0,
	sizeof(struct usher_registration) };
static const struct abi_struct abi_stage = { "usher_stage", STAGE_SIZE_1_0,
	sizeof(struct usher_stage) };
static const struct abi_struct abi_selector = { "usher_selector", SELECTOR_SIZE_1_0,
	sizeof(struct usher_selector) };

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
static int copy_sized(void *ret, const struct abi_struct *what, const void *said, uint32_t minor,
		struct usher_error *reterr)
{
	size_t size = 0, most = minor == 0 ? what->first : what->now;

	memcpy(&size, said, sizeof(size));
	if (size > most)
		return usher_error_set(reterr, -EINVAL,
				"says ABI %u.%u, but its struct %s has %zu bytes; there it has %zu",
				USHER_ABI_MAJOR, minor, what->name, size, most);
	if (size != 0 && size < sizeof(size))
		return usher_error_set(reterr, -EINVAL,
				"its struct %s has %zu bytes: too few to say so", what->name, size);
	memcpy(ret, said, size == 0 ? what->first : size);
	memcpy(ret, &what->now, sizeof(what->now));
	return 0;
}

/* More flags come with a newer minor, which is refused before. */
#define STAGE_FLAGS                                                                \
	((unsigned) (USHER_STAGE_WHOLE | USHER_STAGE_STRICT | USHER_STAGE_HEALTH | \
			USHER_STAGE_WEIGHS | USHER_STAGE_EXCLUDES | USHER_STAGE_LAST))
#define SELECTOR_FLAGS ((unsigned) (USHER_SELECTOR_IGNORES_WEIGHTS | USHER_SELECTOR_SUBSETS))
#define UNKNOWN_FLAGS  "offers %s with the flags %#x, not all of which ABI %u.%u has"

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
	r = copy_sized(&ret->discovery, &abi_discovery, plugin->discovery, plugin->abi_minor,
			reterr);
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
	r = copy_sized(&ret->registration, &abi_registration, plugin->registration,
			plugin->abi_minor, reterr);
	if (r < 0)
		return r;
	if (!registration->add && !registration->renew && !registration->set_state &&
			!registration->remove && !registration->progress)
		return usher_error_set(reterr, -EINVAL,
				"offers registration without any of its functions (add, renew, "
				"set_state, remove, progress)");
	ret->plugin.registration = &ret->registration;
	return 0;
}

static int read_stage(const struct usher_plugin *plugin, struct plugin_description *ret,
		struct usher_error *reterr)
{
	int r;

	if (!plugin->stage)
		return 0;
	r = copy_sized(&ret->stage, &abi_stage, plugin->stage, plugin->abi_minor, reterr);
	if (r < 0)
		return r;
	if (!ret->stage.filter && !ret->stage.run)
		return missing(reterr, "a stage", "filter");
	if (!ret->stage.explain)
		return missing(reterr, "a stage", "explain");
	if (ret->stage.flags & ~STAGE_FLAGS)
		return usher_error_set(reterr, -EINVAL, UNKNOWN_FLAGS, "a stage", ret->stage.flags,
				USHER_ABI_MAJOR, USHER_ABI_MINOR);
	ret->plugin.stage = &ret->stage;
	return 0;
}

static int read_selector(const struct usher_plugin *plugin, struct plugin_description *ret,
		struct usher_error *reterr)
{
	int r;

	if (!plugin->selector)
		return 0;
	r = copy_sized(&ret->selector, &abi_selector, plugin->selector, plugin->abi_minor, reterr);
	if (r < 0)
		return r;
	if (!ret->selector.pick)
		return missing(reterr, "a selector", "pick");
	if (!ret->selector.share)
		return missing(reterr, "a selector", "share");
	if (ret->selector.prepare && !ret->selector.release)
		return usher_error_set(reterr, -EINVAL,
				"offers a selector with the function prepare and without release");
	if (ret->selector.flags & ~SELECTOR_FLAGS)
		return usher_error_set(reterr, -EINVAL, UNKNOWN_FLAGS, "a selector",
				ret->selector.flags, USHER_ABI_MAJOR, USHER_ABI_MINOR);
	if (ret->selector.slot_size > USHER_SLOT_MAX)
		return usher_error_set(reterr, -EINVAL,
				"asks for slots of %zu bytes an endpoint; the most is %d",
				ret->selector.slot_size, USHER_SLOT_MAX);
	if (ret->selector.report && ret->selector.slot_size == 0)
		return usher_error_set(reterr, -EINVAL,
				"offers a selector with the function report and without slots to "
				"learn in");
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
	r = copy_sized(&whole, &abi_plugin, said, said->abi_minor, reterr);
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
