#pragma once

/* The configuration: one immutable value, replaced whole. What people type, and every default, is
 * in the tables of config-tables.c; the schema for editors is made from the same tables.
 *
 * Loading reads FILE and, beside it, conf.d/ *.yaml in the order of their names, merged by name: a
 * source or service that is named twice across files is an error that names both places; a map is
 * merged key by key; the same key with two values is an error, too. Every message has file, line
 * and column. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <usher/document.h>
#include <usher/endpoint.h>
#include <usher/error.h>

#define CONFIG_NAME_MAX     253 /* bytes of a service, source or node name */
#define CONFIG_SERVICES_MAX 20000
#define CONFIG_SOURCES_MAX  64
#define CONFIG_STAGES_MAX   32 /* of one chain */
#define CONFIG_FEEDS_MAX    16 /* sources of one service */
#define CONFIG_RULES_MAX    16 /* of one stage */
#define CONFIG_WHEN_MAX     16 /* conditions of one rule */

struct registration_config;

/* A plug-in and what the configuration says to it. The options are parsed against the plug-in's own
 * table once it is loaded; the node keeps the place for messages. */
struct plugin_use {
	char *plugin;
	const struct usher_node *options; /* a map, or NULL: none given */
	const struct usher_node *place;   /* where the plug-in is named */
};

struct listen_config {
	char *socket; /* path */
	mode_t mode;
	char *owner; /* name or number; NULL: the daemon's own */
	char *group;
};

struct source_config {
	char *name;
	struct plugin_use use;
};

/* One source of one service: under which name there, and which of its ports. */
struct feed_config {
	char *source;
	char *name;       /* the service's own when not given */
	char *port;       /* NULL */
	unsigned decides; /* bits of enum merge_field: what its word goes before others' about */
	const struct usher_node *place;
};

enum merge_policy {
	MERGE_FIRST,
	MERGE_UNION,
	MERGE_RACE
};

const char *merge_policy_to_string(enum merge_policy policy); /* "first", "union", "race" */

/* What one source may decide of an endpoint that several show. */
enum merge_field {
	MERGE_SECURE,
	MERGE_ZONE,
	MERGE_WEIGHT,
	MERGE_CONDITIONS,
	MERGE_ADMIN_STATE,
	MERGE_METADATA,
	MERGE_FIELDS
};

const char *merge_field_to_string(enum merge_field field); /* "secure", "zone", ... */
enum stale_policy {
	STALE_SERVE,
	STALE_FAIL
};
/* What becomes of a stage that would leave none. */
enum empty_policy {
	EMPTY_PASS,   /* also "all": goes on as if the stage was not there */
	EMPTY_FAIL,   /* also "none" */
	EMPTY_NEXT,   /* the next rule of the stage that applies, over what came in */
	EMPTY_UNSAID, /* EMPTY_FAIL for a stage that is strict by nature, else EMPTY_PASS */
};

const char *empty_policy_to_string(enum empty_policy policy); /* "pass", "fail", "next" */

/* What a request must say for a rule to apply. */
enum condition_field {
	CONDITION_HINT,
	CONDITION_VERSION,
	CONDITION_STICKY,
	CONDITION_KEY,
	CONDITION_CONSUMER,
	CONDITION_HEADER
};
enum condition_kind {
	CONDITION_PRESENT,
	CONDITION_ABSENT,
	CONDITION_EQUALS
};
struct condition {
	enum condition_field field;
	enum condition_kind kind;
	const char *header; /* of CONDITION_HEADER: its name; the document's */
	const char *text;   /* of CONDITION_EQUALS; the document's */
};

struct rule_config {
	/* The map of options still has the host's words in it, on_empty and when:
	 * plugin_options_parse and plugin_use_equal look past them, and nothing but a stage may
	 * have them. */
	struct plugin_use use;
	enum empty_policy on_empty;
	struct condition *when; /* all must hold */
	size_t when_count;
};

/* The first of its rules that applies to a request is used; most stages have one that always does.
 */
struct stage_config {
	struct rule_config *rules; /* at least one, all of one plug-in */
	size_t rule_count;
};

/* ---- health ---- */

enum check_kind {
	CHECK_NONE,
	CHECK_HTTP,
	CHECK_TCP,
	CHECK_GRPC, /* grpc.health.v1 over HTTP/2 */
	CHECK_EXEC
};

struct status_range {
	unsigned short first, last; /* both belong to it */
};

/* How an endpoint is asked. Texts are NULL where they are not given. */
struct check_config {
	enum check_kind kind;
	uint16_t port;    /* 0: the endpoint's */
	char *port_label; /* the metadata that says the port, where an endpoint has it */

	/* http */
	char *path, *path_label;     /* path_label: as port_label */
	char *method;                /* GET, HEAD, OPTIONS or POST */
	char *host;                  /* of the header; NULL: the endpoint's address and port */
	struct status_range *expect; /* what counts as up; 200 when not given */
	size_t expect_count;
	struct status_range *degraded; /* what counts as degraded */
	size_t degraded_count;
	char *match_text;    /* must be in the first CHECK_BODY_MAX bytes of the body */
	char *match_pointer; /* JSON pointer (RFC 6901) ... */
	char *match_value;   /* ... to a text, number or boolean that reads like this */
	bool keep_alive;     /* http, tcp: use a connection again */

	/* tcp */
	char *send, *expect_text; /* texts with escapes resolved; expect_text must begin the answer
				   */

	/* grpc */
	char *grpc_service; /* NULL: the whole server, as "" */

	/* http, grpc */
	bool tls; /* also where the endpoint is `secure`, unless tls_off */
	bool tls_off;
	bool tls_verify;
	char *tls_ca;          /* file; NULL: the system's */
	char *tls_server_name; /* for SNI and verification; NULL: the host header's name or the
				  address */

	/* exec: NULL-terminated argument vector, no shell; {address} and the like as in hooks */
	char **command;
};

#define CHECK_BODY_MAX 65536
#define CHECK_TEXT_MAX 1024 /* bytes of a path, or of what is sent, expected or matched */

enum down_policy {
	DOWN_FAIL,
	DOWN_PANIC
};

/* Signals from what consumers report; Envoy's outlier detection. */
struct outlier_config {
	bool enabled;
	unsigned consecutive; /* failures in a row that eject; 0: not judged */
	double failure_share; /* of the calls in one interval, above which one ejects; 1: not judged
			       */
	unsigned minimum_calls; /* in one interval, for the share to mean something */
	uint64_t interval_usec;
	unsigned minimum_endpoints; /* with fewer in the service nobody is ejected */
	double max_ejected; /* share of the service's endpoints, rounded down but at least 1; checks
			       are not bound by it */
	uint64_t ejection_usec; /* the first time; each time in a row that much longer */
	uint64_t max_ejection_usec;
};

struct health_config {
	struct check_config check;
	uint64_t interval_usec, timeout_usec;
	uint64_t interval_down_usec; /* while it is not up; 0: interval */
	double jitter;               /* share of the interval */
	unsigned rise, fall;
	enum usher_health initial; /* unknown, up or down */
	unsigned flap_changes; /* this many changes of state within flap_window damp; 0: never */
	uint64_t flap_window_usec;
	uint64_t flap_hold_usec; /* how long a damped one must agree with itself to be believed */
	enum down_policy on_all_down;
	double panic_threshold; /* with panic: below this share of usable ones all are used; 0: only
				   when none is usable */
	struct outlier_config outlier;
};

/* The daemon's one prober. */
struct prober_config {
	unsigned max_rate; /* probes a second over all services; 0: as many as they ask for */
	unsigned threads;
};

enum drain_order {
	DRAIN_SERVE_STALE,
	DRAIN_REFUSE_FIRST
};
/* When the budget of a step is spent. */
enum budget_policy {
	BUDGET_CONTINUE,
	BUDGET_HOLD,
	BUDGET_FAIL
};

enum hook_kind {
	HOOK_NONE,
	HOOK_EXEC,
	HOOK_HTTP,
	HOOK_SYSTEMD
};

/* What is run to turn an instance's readiness off or on, to close it, to start it. In every text
 * {id}, {address}, {port}, {service}, {uid}, {zone} and {metadata.NAME} stand for the endpoint's
 * own, and {ready} for which way its readiness is turned. */
struct hook_config {
	enum hook_kind kind;
	char **command; /* exec: NULL-terminated argument vector, no shell */
	char *method;   /* http */
	char *url;
	char *unit;   /* systemd */
	char *action; /* systemd: stop, start, restart, kill */
	uint64_t timeout_usec;
};

struct drain_config {
	enum drain_order order;
	uint64_t registry_usec, consumer_refresh_usec, consumer_cache_usec,
			margin_usec;               /* propagation */
	enum budget_policy on_propagation_timeout; /* propagation: on_timeout */
	uint64_t propagation_timeout_usec; /* for echo and acknowledgements; 0: what is left of the
					      deadline */
	uint64_t in_flight_timeout_usec, quiet_usec;
	bool from_tcp, from_consumers;
	enum budget_policy on_in_flight_timeout;
	uint64_t deadline_usec;
	unsigned min_ready;
	struct hook_config readiness; /* runs in the readiness step, and backwards on restore */
	struct hook_config close;
	struct hook_config open; /* before a restore probes */
};

struct restore_config {
	struct probe_config {
		bool enabled; /* tcp unless a path is given */
		char *http_path;
		uint16_t port; /* 0: the endpoint's */
		uint64_t timeout_usec, interval_usec;
		unsigned rise;
	} probe;
	uint64_t observed_timeout_usec; /* for the registry to show it again */
	uint64_t ramp_usec;             /* 0: full weight at once */
	uint64_t deadline_usec;
};

/* ---- which of the node's addresses ---- */

#define CONFIG_NETWORKS_MAX 64
#define CONFIG_PATTERNS_MAX 64

enum address_family {
	ADDRESS_PREFER_IPV4,
	ADDRESS_PREFER_IPV6,
	ADDRESS_IPV4,
	ADDRESS_IPV6
};

struct network_config {
	uint8_t bytes[16]; /* IPv4: the first four */
	bool is_ipv6;
	unsigned prefix; /* bits */
};

/* Which of the node's addresses it is. */
struct address_config {
	enum address_family family;
	char **interfaces;         /* patterns, NULL-terminated; NULL or empty: any */
	char **ignored_interfaces; /* patterns, NULL-terminated */
	struct network_config *networks;
	size_t network_count; /* 0: any */
};

struct service_config {
	char *name; /* NULL in defaults */
	uint64_t startup_timeout_usec;
	struct feed_config *feeds;
	size_t feed_count;
	enum merge_policy merge;
	uint64_t max_age_usec;
	enum stale_policy on_stale;
	double guard_share; /* a removal of more than this share of the known endpoints is held
			       back; 1: never */
	uint64_t guard_hold_usec;
	struct stage_config *stages;
	size_t stage_count;
	struct plugin_use select;
	struct health_config health;
	struct drain_config drain;
	struct restore_config restore;
	const struct usher_node *place; /* where it is declared; NULL in defaults */
};

struct config {
	unsigned refs;
	char *path;
	struct usher_document **documents; /* what the nodes point into */
	size_t document_count;
	char *node_name; /* the environment's or the host name when not given */
	char *node_zone; /* NULL */
	struct address_config node_address;
	struct listen_config consumer, admin;
	char *http_listen; /* "127.0.0.1:9180"; NULL: off */
	char *state_dir;
	char **plugin_dirs; /* NULL-terminated */
	struct source_config *sources;
	size_t source_count;
	struct prober_config prober;
	struct service_config defaults;
	bool lazy_allow;
	unsigned lazy_limit;
	struct service_config *services; /* sorted by name, defaults filled in */
	size_t service_count;
	struct registration_config *registrations; /* registration-config.h */
	size_t registration_count;
	struct usher_document *registration_defaults; /* those of its table */
};

/* Errors: EBADMSG, EINVAL, ERANGE, ENOENT, EACCES, EEXIST, E2BIG, EAGAIN (a file kept changing
 * while it was read), ENOMEM; always with a message. */
int config_load(const char *path, struct config **ret, struct usher_error *reterr);
/* The folder beside the main file whose files are read with it, whether or not there is one. To be
 * freed; NULL: out of memory. */
char *config_fragments_path(const char *path);
struct config *config_ref(struct config *c);
struct config *config_unref(struct config *c); /* NULL is fine; returns NULL */

const struct service_config *config_find_service(const struct config *c, const char *name);
const struct source_config *config_find_source(const struct config *c, const char *name);
bool plugin_use_equal(const struct plugin_use *a, const struct plugin_use *b);
bool stage_config_equal(const struct stage_config *a, const struct stage_config *b);

/* The JSON schema of the configuration file, for editors; to be freed. NULL when out of memory. */
char *config_schema(void);

/* Every key, with its type, range, default and meaning, in Markdown: tables for a page, or the
 * definition lists that pandoc makes a manual page of. To be freed; NULL when out of memory. */
enum config_reference_style {
	CONFIG_REFERENCE_TABLE,
	CONFIG_REFERENCE_MANUAL
};
char *config_reference(enum config_reference_style style);

/* One service's name: what can be typed, logged, and put in a URL: 1..CONFIG_NAME_MAX bytes of
 * UTF-8 without control characters, '/' or spaces. EINVAL with the reason. */
int config_check_name(const char *name, struct usher_error *reterr);
