#pragma once

/* The tables of the configuration file: every key, with its type, range, default and help. */

#include "table.h"

/* The whole file, into struct config. */
extern const struct config_row config_rows[];
/* One item of `sources`, into struct source_config. */
extern const struct config_row config_source_rows[];
/* One item of `services`, into struct service_config. */
extern const struct config_row config_service_rows[];

/* The long form of a feed, into struct feed_config. */
extern const struct config_row config_feed_rows[];
/* `health`, into struct health_config, and `prober`, into struct prober_config. */
extern const struct config_row config_health_rows[];
extern const struct config_row config_prober_rows[];
/* One item of `registrations`, into struct registration_config, and what of it the API takes. */
extern const struct config_row config_registration_rows[];
extern const struct config_row config_registration_body_rows[];
/* The long form of one of its registries, into struct feed_config. */
extern const struct config_row config_registry_rows[];
/* `health` of a registration, into struct health_config: what is not about a whole service. */
extern const struct config_row config_registration_health_rows[];
/* `address_from`, into struct address_config. */
extern const struct config_row config_address_rows[];
/* What the body of an answer must have, into struct check_config. */
extern const struct config_row config_match_rows[];
/* The kinds of a hook, of which a hook names one; each is a table into struct hook_config, whose
 * first row is what the short form gives. */
extern const struct config_row config_hook_rows[];
