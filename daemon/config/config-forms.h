#pragma once

/* Values with a shape of their own, as the tables name them. */

#include "config.h"
#include "table.h"

extern const struct config_form config_form_options;   /* struct plugin_use: the options */
extern const struct config_form config_form_select;    /* struct plugin_use */
extern const struct config_form config_form_feeds;     /* struct service_config: feeds */
extern const struct config_form config_form_decides;   /* unsigned, bits of enum merge_field */
extern const struct config_form config_form_chain;     /* struct service_config: stages */
extern const struct config_form config_form_from;      /* struct drain_config: from_* */
extern const struct config_form config_form_hook;      /* struct hook_config; systemd stops */
extern const struct config_form config_form_open_hook; /* struct hook_config; systemd starts */
extern const struct config_form config_form_command;   /* char **, of a hook */
extern const struct config_form config_form_url;       /* char *, of a hook */
extern const struct config_form config_form_unit;      /* char *, of a hook */
extern const struct config_form config_form_url_path;  /* char * */

/* of `health` */
extern const struct config_form config_form_expect;      /* struct check_config: expect */
extern const struct config_form config_form_degraded;    /* struct check_config: degraded */
extern const struct config_form config_form_match;       /* struct check_config: match_* */
extern const struct config_form config_form_tls_enabled; /* struct check_config: tls, tls_off */
extern const struct config_form config_form_bytes;       /* char *, escapes resolved */
extern const struct config_form config_form_short_text;  /* char * */
extern const struct config_form config_form_pointer;     /* char *, a JSON pointer */
extern const struct config_form config_form_host;        /* char *, of a header */
extern const struct config_form config_form_server_name; /* char * */
extern const struct config_form config_form_initial;     /* enum usher_health */

/* of `registrations` and `address_from` */
extern const struct config_form config_form_registries; /* struct registration_config: feeds */
extern const struct config_form config_form_id;         /* char *, with placeholders */
extern const struct config_form config_form_labels;     /* struct registration_config: metadata */
extern const struct config_form config_form_address;    /* char *: IP or host name */
extern const struct config_form config_form_patterns;   /* char **, of interfaces */
extern const struct config_form config_form_networks;   /* struct address_config: networks */

/* What the host takes for itself out of a stage's options. */
#define CONFIG_ON_EMPTY "on_empty"
#define CONFIG_WHEN     "when"
bool config_is_host_word(const char *key);

/* What forms share. */

/* A list with at most max items, for count * size bytes of zeros. */
int config_start_list(const struct usher_node *n, size_t max, size_t size, void **ret,
		struct usher_error *reterr);
/* Whether it is a NAME or one {NAME: OPTIONS}. what is "a stage", "a selector". */
int config_check_use(const struct usher_node *n, const char *what, struct usher_error *reterr);
/* The name of a plug-in, and where it stands. */
int config_set_plugin(const struct usher_node *place, const char *name, struct plugin_use *use,
		struct usher_error *reterr);
/* A list of feeds, which may not be empty. Whatever was read is in *feeds, also on failure. */
struct feeds_kind {
	const struct config_row *rows;
	const char *keys;      /* of the rows, for messages */
	const char *otherwise; /* what leaving it out means */
};
int config_read_feeds(const struct usher_node *n, const struct feeds_kind *kind,
		struct feed_config **feeds, size_t *count, struct usher_error *reterr);
void config_feeds_free(struct feed_config *feeds, size_t count);
int config_read_options(
		const struct usher_node *n, struct plugin_use *use, struct usher_error *reterr);
