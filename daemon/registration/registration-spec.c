#include "registration-spec.h"

#include <errno.h>
#include <string.h>

#include "ownership.h"
#include "place.h"
#include "text.h"

DEFINE_CLEANUP(struct registration_spec, registration_spec_unref);

static int out_of_memory(struct usher_error *reterr)
{
	return usher_error_set(reterr, -ENOMEM, "out of memory");
}

/* ---- registries ---- */

/* Whether the source's plug-in registers; what is refused of the plug-in itself is said where the
 * source is. */
static bool can_register(struct plugins *plugins, const struct config *c, const char *source)
{
	const struct source_config *config = config_find_source(c, source);
	const struct usher_plugin *plugin;

	return config && plugins_find(plugins, config->use.plugin, &plugin, NULL) >= 0 &&
			plugin->registration && plugin->registration->add;
}

/* "consul, files" of those that can, or "none" */
static void list_able(struct plugins *plugins, const struct config *c, struct text *text)
{
	const char *comma = "";

	for (size_t i = 0; i < c->source_count; i++) {
		if (!can_register(plugins, c, c->sources[i].name))
			continue;
		text_add_format(text, "%s%s", comma, c->sources[i].name);
		comma = ", ";
	}
	if (text->length == 0)
		text_add_string(text, "none");
}

static int refuse_source(struct plugins *plugins, const struct config *c,
		const struct usher_node *place, const char *source, struct usher_error *reterr)
{
	const struct source_config *config = config_find_source(c, source);
	cleanup(text_done) struct text able = {};

	list_able(plugins, c, &able);
	return place_error(reterr, place, -EINVAL,
			"plug-in %s of source %s cannot register an endpoint; sources that can: %s",
			config ? config->use.plugin : "?", source, able.data ? able.data : "?");
}

static int refuse_none(struct plugins *plugins, const struct config *c,
		const struct registration_config *what, struct usher_error *reterr)
{
	cleanup(text_done) struct text able = {};

	list_able(plugins, c, &able);
	return place_error(reterr, what->place, -EINVAL,
			"no source that %s is looked up in can register; name one in sources (those that can: %s)",
			what->service, able.data ? able.data : "?");
}

static int use_named(
		struct plugins *plugins, struct registration_spec *s, struct usher_error *reterr)
{
	for (size_t i = 0; i < s->what->feed_count; i++) {
		const struct feed_config *feed = &s->what->feeds[i];

		if (!can_register(plugins, s->config, feed->source))
			return refuse_source(plugins, s->config, feed->place, feed->source, reterr);
	}
	s->places = s->what->feeds;
	s->place_count = s->what->feed_count;
	return 0;
}

/* Under the name that the service is looked up by, for what is registered is to be found. */
static int use_first_able(
		struct plugins *plugins, struct registration_spec *s, struct usher_error *reterr)
{
	const struct service_config *service = config_find_service(s->config, s->what->service);

	if (!service)
		service = &s->config->defaults;
	for (size_t i = 0; i < service->feed_count; i++) {
		if (!can_register(plugins, s->config, service->feeds[i].source))
			continue;
		s->places = &service->feeds[i];
		s->place_count = 1;
		return 0;
	}
	return refuse_none(plugins, s->config, s->what, reterr);
}

/* ---- the check ---- */

static int make_check(struct registration_spec *s, struct usher_error *reterr)
{
	struct usher_error why = {};
	int r;

	if (s->what->health.check.kind == CHECK_NONE)
		return 0;
	r = check_new(&s->what->health.check, &s->check, &why);
	if (r >= 0)
		return 0;
	if (r == -ENOMEM)
		return out_of_memory(reterr);
	return place_error(reterr, s->what->place, r, "health: %s", usher_error_text(&why, r));
}

/* ---- the whole ---- */

int registration_spec_new(struct plugins *plugins, struct config *config,
		const struct registration_config *what, struct registration_config *own,
		struct registration_spec **ret, struct usher_error *reterr)
{
	cleanup(registration_spec_unrefp) struct registration_spec *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return out_of_memory(reterr);
	s->refs = 1;
	s->config = config_ref(config);
	s->what = what;
	r = what->feed_count > 0 ? use_named(plugins, s, reterr)
				 : use_first_able(plugins, s, reterr);
	if (r >= 0)
		r = make_check(s, reterr);
	if (r < 0)
		return r;
	s->own = own;
	*ret = take(s);
	return 0;
}

struct registration_spec *registration_spec_ref(struct registration_spec *s)
{
	s->refs++;
	return s;
}

struct registration_spec *registration_spec_unref(struct registration_spec *s)
{
	if (!s || --s->refs > 0)
		return NULL;
	(void) check_unref(s->check);
	(void) registration_config_free(s->own);
	(void) config_unref(s->config);
	free(s);
	return NULL;
}
