#pragma once

/* Values with a shape of their own, as the tables name them. */

#include "config.h"
#include "table.h"

extern const struct config_form config_form_options;   /* struct plugin_use: the options */
extern const struct config_form config_form_select;    /* struct plugin_use */
extern const struct config_form config_form_feeds;     /* struct service_config: feeds */
extern const struct config_form config_form_chain;     /* struct service_config: stages */
extern const struct config_form config_form_from;      /* struct drain_config: from_* */
extern const struct config_form config_form_hook;      /* struct hook_config; systemd stops */
extern const struct config_form config_form_open_hook; /* struct hook_config; systemd starts */
extern const struct config_form config_form_command;   /* char **, of a hook */
extern const struct config_form config_form_url;       /* char *, of a hook */
extern const struct config_form config_form_unit;      /* char *, of a hook */
extern const struct config_form config_form_url_path;  /* char * */

/* What the host takes for itself out of a stage's options. */
#define CONFIG_ON_EMPTY "on_empty"
