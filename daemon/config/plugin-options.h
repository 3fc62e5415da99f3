#pragma once

/* A plug-in's table of options, applied to what the configuration says: the same loader, the same
 * messages and the same suggestions as for the daemon's own keys. */

#include <usher/plugin.h>

/* Fill the instance's fields from the map `given` (NULL: nothing given, every default) and hand
 * what they point to to *ret_owned, which lives as long as the instance. `option_size` is the size
 * of a row as the plug-in was built. place is what a missing required option is blamed on. Errors:
 * EINVAL (unknown option with the nearest known one named, wrong type, not in the choices,
 * missing), ERANGE, E2BIG, ENOMEM; always with a message and its place; the instance is then of no
 * use. The host's own words in a stage's map, on_empty and when, are looked past. A default of a
 * text or path stands for itself; any other is read as YAML. The value of a secret is never in a
 * message. */
struct plugin_options; /* opaque: strings and lists that the fields point to */
int plugin_options_parse(const struct usher_option *table, size_t option_size,
		const struct usher_node *given, const struct usher_node *place, void *instance,
		struct plugin_options **ret_owned, struct usher_error *reterr);
struct plugin_options *plugin_options_free(struct plugin_options *o);
