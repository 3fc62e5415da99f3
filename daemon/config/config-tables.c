/* Every key that a person may type into the configuration, with its default and its help: the
 * loader, the schema, the reference and the manual page follow what stands here. */

#include "config-tables.h"

#include "config-forms.h"
#include "config.h"

#define MILLISECOND UINT64_C(1000)
#define SECOND      (1000 * MILLISECOND)
#define HOUR        (3600 * SECOND)
#define DAY         (24 * HOUR)

#define COUNT_MAX 100000

static const char *const merge_words[] = {
	[MERGE_FIRST] = "first", [MERGE_UNION] = "union", [MERGE_RACE] = "race", NULL
};
static const char *const stale_words[] = { [STALE_SERVE] = "serve", [STALE_FAIL] = "fail", NULL };
static const char *const order_words[] = {
	[DRAIN_SERVE_STALE] = "serve_stale", [DRAIN_REFUSE_FIRST] = "refuse_first", NULL
};
static const char *const budget_words[] = {
	[BUDGET_CONTINUE] = "continue", [BUDGET_HOLD] = "hold", [BUDGET_FAIL] = "fail", NULL
};
static const char *const method_words[] = { "POST", "PUT", "GET", "DELETE", NULL };
static const char *const action_words[] = { "stop", "start", "restart", "kill", NULL };

/* ---- hooks ---- */

#define AT(field) offsetof(struct hook_config, field)

static const struct config_row exec_rows[] = {
	{ "command", ROW_FORM, AT(command), NULL,
			"The argument vector: an absolute path, then its arguments; no shell.",
			.form = &config_form_command, .required = true },
	{ "timeout", ROW_DURATION, AT(timeout_usec), "30s",
			"How long it may run before it is killed and counts as failed.",
			.min = 100 * MILLISECOND, .max = DAY },
	{},
};

static const struct config_row http_rows[] = {
	{ "url", ROW_FORM, AT(url), NULL, "What to call: http:// or https://.",
			.form = &config_form_url, .required = true },
	{ "method", ROW_WORD, AT(method), "POST", "How to call it.", .choices = method_words },
	{ "timeout", ROW_DURATION, AT(timeout_usec), "30s",
			"How long the call may take before it counts as failed.",
			.min = 100 * MILLISECOND, .max = DAY },
	{},
};

static const struct config_row systemd_rows[] = {
	{ "unit", ROW_FORM, AT(unit), NULL, "The unit, with its suffix.", .form = &config_form_unit,
			.required = true },
	{ "action", ROW_WORD, AT(action), NULL,
			"What to do with it; when absent, stop, and in `open` start.",
			.choices = action_words },
	{ "timeout", ROW_DURATION, AT(timeout_usec), "30s",
			"How long systemd may take before the hook counts as failed.",
			.min = 100 * MILLISECOND, .max = DAY },
	{},
};

#undef AT

const struct config_row config_hook_rows[] = {
	{ "exec", ROW_TABLE, 0, NULL, "Run a command: [COMMAND, ARGUMENT...] or a map.",
			.table = exec_rows },
	{ "http", ROW_TABLE, 0, NULL, "Call a URL: URL or a map.", .table = http_rows },
	{ "systemd", ROW_TABLE, 0, NULL, "Act on a unit: UNIT or a map.", .table = systemd_rows },
	{},
};

/* ---- what a service may say ---- */

const struct config_row config_feed_rows[] = {
	{ "source", ROW_NAME, offsetof(struct feed_config, source), NULL,
			"A source that `sources` declares.", .required = true },
	{ "name", ROW_TEXT, offsetof(struct feed_config, name), NULL,
			"The service's name there; when absent, its own." },
	{ "port", ROW_TEXT, offsetof(struct feed_config, port), NULL,
			"Which of its ports there, by name or number; when absent, the only one or the first." },
	{ "decides", ROW_FORM, offsetof(struct feed_config, decides), NULL,
			"With `merge: union`: what its word goes before that of the sources above it about, where several show an endpoint.",
			.form = &config_form_decides },
	{},
};

#define AT(field) offsetof(struct service_config, field)

static const struct config_row freshness_rows[] = {
	{ "max_age", ROW_DURATION, AT(max_age_usec), "30s",
			"The age past which the directory counts as stale.",
			.min = 100 * MILLISECOND, .max = 7 * DAY },
	{ "on_stale", ROW_CHOICE, AT(on_stale), "serve",
			"What a stale directory is good for: `serve` with a flag, or `fail`.",
			.choices = stale_words },
	{},
};

static const struct config_row guard_rows[] = {
	{ "share", ROW_SHARE, AT(guard_share), "50%",
			"A removal of more than this share of the known endpoints at once is held back; 100%: never." },
	{ "hold", ROW_DURATION, AT(guard_hold_usec), "30s",
			"How long it is held back before it is believed.", .max = DAY },
	{},
};

#undef AT
#define AT(field) offsetof(struct drain_config, field)

static const struct config_row propagation_rows[] = {
	{ "registry", ROW_DURATION, AT(registry_usec), "0s",
			"How long the registry takes to show a removal to others.", .max = DAY },
	{ "consumer_refresh", ROW_DURATION, AT(consumer_refresh_usec), "0s",
			"How often consumers that are not connected to usher refresh their list.",
			.max = DAY },
	{ "consumer_cache", ROW_DURATION, AT(consumer_cache_usec), "0s",
			"How long such consumers cache what they chose from.", .max = DAY },
	{ "margin", ROW_DURATION, AT(margin_usec), "0s", "Added to the sum of the three.",
			.max = DAY },
	{ "timeout", ROW_DURATION, AT(propagation_timeout_usec), "0s",
			"The budget for the registry's echo and the acknowledgements; 0: what is left of the deadline.",
			.max = DAY },
	{ "on_timeout", ROW_CHOICE, AT(on_propagation_timeout), "fail",
			"What happens when the budget is spent.", .choices = budget_words },
	{},
};

static const struct config_row in_flight_rows[] = {
	{ "timeout", ROW_DURATION, AT(in_flight_timeout_usec), "30s",
			"The budget for open requests to end.", .max = DAY },
	{ "quiet", ROW_DURATION, AT(quiet_usec), "1s",
			"How long the count must stay at zero to be believed.", .max = HOUR },
	{ "from", ROW_FORM, 0, "[tcp, consumers]",
			"What is counted: open TCP connections to the endpoint, and the consumers' own reports.",
			.form = &config_form_from },
	{ "on_timeout", ROW_CHOICE, AT(on_in_flight_timeout), "continue",
			"What happens when the budget is spent.", .choices = budget_words },
	{},
};

static const struct config_row drain_rows[] = {
	{ "order", ROW_CHOICE, AT(order), "serve_stale",
			"`serve_stale` deregisters first and serves whoever still comes; `refuse_first` turns readiness off first and leans on the consumers' retries.",
			.choices = order_words },
	{ "propagation", ROW_TABLE, 0, NULL,
			"What it takes until nobody chooses the endpoint any more.",
			.table = propagation_rows },
	{ "in_flight", ROW_TABLE, 0, NULL, "What it takes until nobody uses it any more.",
			.table = in_flight_rows },
	{ "deadline", ROW_DURATION, AT(deadline_usec), "120s", "The budget of a whole drain.",
			.min = 100 * MILLISECOND, .max = 7 * DAY },
	{ "min_ready", ROW_COUNT, AT(min_ready), "1",
			"A drain that would leave fewer ready endpoints is refused; 0: none is.",
			.max = COUNT_MAX },
	{ "readiness", ROW_FORM, AT(readiness), "none",
			"Turns the instance's own readiness off, and on again when it is restored.",
			.form = &config_form_hook },
	{ "close", ROW_FORM, AT(close), "none", "Stops the instance once nobody uses it.",
			.form = &config_form_hook },
	{ "open", ROW_FORM, AT(open), "none", "Starts the instance before a restore probes it.",
			.form = &config_form_open_hook },
	{},
};

#undef AT
#define AT(field) offsetof(struct restore_config, field)

static const struct config_row probe_http_rows[] = {
	{ "path", ROW_FORM, AT(probe.http_path), NULL,
			"Asked by GET and answered by 2xx; when absent, a TCP connection is enough.",
			.form = &config_form_url_path },
	{},
};

static const struct config_row probe_rows[] = {
	{ "enabled", ROW_BOOL, AT(probe.enabled), "true",
			"Whether the instance must answer before it is brought back." },
	{ "http", ROW_TABLE, 0, NULL, "Ask over HTTP.", .table = probe_http_rows },
	{ "port", ROW_PORT, AT(probe.port), NULL, "Instead of the endpoint's own port." },
	{ "interval", ROW_DURATION, AT(probe.interval_usec), "1s", "From one probe to the next.",
			.min = 10 * MILLISECOND, .max = HOUR },
	{ "timeout", ROW_DURATION, AT(probe.timeout_usec), "1s", "For one probe.",
			.min = 10 * MILLISECOND, .max = HOUR },
	{ "rise", ROW_COUNT, AT(probe.rise), "2", "How many answers in a row are believed.",
			.min = 1, .max = 1000 },
	{},
};

static const struct config_row observed_rows[] = {
	{ "timeout", ROW_DURATION, AT(observed_timeout_usec), "30s",
			"How long the registry may take to show the endpoint again.", .max = DAY },
	{},
};

static const struct config_row restore_rows[] = {
	{ "probe", ROW_TABLE, 0, NULL, "What the instance must answer first.",
			.table = probe_rows },
	{ "observed", ROW_TABLE, 0, NULL, "What the registry must show then.",
			.table = observed_rows },
	{ "ramp", ROW_DURATION, AT(ramp_usec), "0s",
			"How long the weight takes to grow to its own, for selectors that look at weights (`round_robin` and `random` do not); 0: at once.",
			.max = DAY },
	{ "deadline", ROW_DURATION, AT(deadline_usec), "120s", "The budget of a whole restore.",
			.min = 100 * MILLISECOND, .max = 7 * DAY },
	{},
};

#undef AT
#define AT(base, field) ((base) + offsetof(struct service_config, field))

/* base is where the struct service_config lies in the target. */
#define SERVICE_ROWS(base)                                                                                                                                            \
	{ "startup_timeout", ROW_DURATION, AT(base, startup_timeout_usec), "10s",                                                                                     \
		"How long the start of usherd waits for the first answer.", .max = HOUR },                                                                            \
			{ "sources", ROW_FORM, (base), NULL,                                                                                                          \
				"Where the service is looked up, in the order of the merge; when absent, in every "                                                   \
				"source.",                                                                                                                            \
				.form = &config_form_feeds },                                                                                                         \
			{ "merge", ROW_CHOICE, AT(base, merge), "first",                                                                                              \
				"`first`: the first source that has endpoints; `union`: all of them; `race`: the one that answers first, for as long as it is live.", \
				.choices = merge_words },                                                                                                             \
			{ "freshness", ROW_TABLE, (base), NULL, "How old the directory may be.",                                                                      \
				.table = freshness_rows },                                                                                                            \
			{ "removal_guard", ROW_TABLE, (base), NULL,                                                                                                   \
				"Holds back a sudden mass removal.", .table = guard_rows },                                                                           \
			{ "health", ROW_TABLE, AT(base, health), NULL,                                                                                                \
				"Whether its endpoints are well, and what that means; `none`: nobody looks, whatever `defaults` says.",                               \
				.table = config_health_rows, .none = true },                                                                                          \
			{ "chain", ROW_FORM, (base), "[ready]",                                                                                                       \
				"The stages that candidates pass, in this order; [] for none.",                                                                       \
				.form = &config_form_chain },                                                                                                         \
			{ "select", ROW_FORM, AT(base, select), "round_robin",                                                                                        \
				"The selector that picks one of the candidates.",                                                                                     \
				.form = &config_form_select },                                                                                                        \
			{ "drain", ROW_TABLE, AT(base, drain), NULL,                                                                                                  \
				"How an endpoint is taken out of service.", .table = drain_rows },                                                                    \
	{                                                                                                                                                             \
		"restore", ROW_TABLE, AT(base, restore), NULL, "How it is brought back.",                                                                             \
				.table = restore_rows                                                                                                                 \
	}

const struct config_row config_service_rows[] = { SERVICE_ROWS(0), {} };

static const struct config_row lazy_rows[] = {
	{ "allow", ROW_BOOL, offsetof(struct config, lazy_allow), "true",
			"Whether a name that nobody declared is looked up when it is asked for." },
	{ "limit", ROW_COUNT, offsetof(struct config, lazy_limit), "1000",
			"How many such names at once.", .max = COUNT_MAX },
	{},
};

static const struct config_row defaults_rows[] = {
	SERVICE_ROWS(offsetof(struct config, defaults)),
	{ "lazy", ROW_TABLE, 0, NULL, "Services that nobody declared.", .table = lazy_rows },
	{},
};

/* ---- the file ---- */

#undef AT
#define AT(field) offsetof(struct config, field)

static const struct config_row node_rows[] = {
	{ "name", ROW_NAME, AT(node_name), NULL,
			"Its name; when absent, USHER_NODE_NAME of the environment, else the host's." },
	{ "zone", ROW_NAME, AT(node_zone), NULL,
			"The zone it is in, for stages that prefer it; when absent, USHER_NODE_ZONE of the environment." },
	{ "address_from", ROW_TABLE, AT(node_address), NULL,
			"Which of its addresses is that of an instance that is registered and says none.",
			.table = config_address_rows },
	{},
};

#define LISTEN_ROWS(default_socket, default_mode)                                                             \
	{ "socket", ROW_SOCKET, offsetof(struct listen_config, socket), default_socket,                       \
		"The path of the Unix socket." },                                                             \
			{ "mode", ROW_MODE, offsetof(struct listen_config, mode), default_mode,               \
				"Who may connect, in octal." },                                               \
			{ "owner", ROW_TEXT, offsetof(struct listen_config, owner), NULL,                     \
				"The user that owns it, by name or number; when absent, the daemon's own." }, \
	{                                                                                                     \
		"group", ROW_TEXT, offsetof(struct listen_config, group), NULL,                               \
				"The group that owns it, by name or number; when absent, the daemon's own."   \
	}

static const struct config_row consumer_rows[] = {
	LISTEN_ROWS("/run/usher/usher.sock", "\"0666\""),
	{},
};

static const struct config_row admin_rows[] = {
	LISTEN_ROWS("/run/usher/admin.sock", "\"0660\""),
	{},
};

static const struct config_row http_listen_rows[] = {
	{ "listen", ROW_LISTEN, AT(http_listen), NULL, "ADDRESS:PORT; when absent, off." },
	{},
};

static const struct config_row api_rows[] = {
	{ "consumer", ROW_TABLE, AT(consumer), NULL, "The socket that reads.",
			.table = consumer_rows },
	{ "admin", ROW_TABLE, AT(admin), NULL, "The socket that also changes.",
			.table = admin_rows },
	{ "http", ROW_TABLE, 0, NULL, "Metrics, health and status over TCP.",
			.table = http_listen_rows },
	{},
};

const struct config_row config_source_rows[] = {
	{ "name", ROW_NAME, offsetof(struct source_config, name), NULL,
			"What services call the source.", .required = true },
	{ "plugin", ROW_NAME, offsetof(struct source_config, use.plugin), NULL,
			"The discovery plug-in: the name of its file without .so.",
			.required = true },
	{ "options", ROW_FORM, offsetof(struct source_config, use), NULL,
			"What the plug-in is told; `usherctl describe plugin NAME` lists them.",
			.form = &config_form_options },
	{},
};

const struct config_row config_rows[] = {
	{ "node", ROW_TABLE, 0, NULL, "The node that usherd runs on.", .table = node_rows },
	{ "api", ROW_TABLE, 0, NULL, "Where the daemon answers.", .table = api_rows },
	{ "state_dir", ROW_PATH, AT(state_dir), "/var/lib/usher",
			"Where drains and the last known directory are kept." },
	{ "plugin_dirs", ROW_PATHS, AT(plugin_dirs), "[/usr/lib/usher/plugins]",
			"Where plug-ins are looked for; the first of a name wins." },
	{ "prober", ROW_TABLE, AT(prober), NULL, "Carries out the checks of all services.",
			.table = config_prober_rows },
	{ "sources", ROW_ITEMS, 0, NULL, "Where services live: uses of discovery plug-ins.",
			.table = config_source_rows },
	{ "registrations", ROW_ITEMS, 0, NULL,
			"Instances of this node that registries are told about.",
			.table = config_registration_rows },
	{ "defaults", ROW_TABLE, 0, NULL,
			"What holds for every service, unless it says otherwise, key by key.",
			.table = defaults_rows },
	{ "services", ROW_ITEMS, 0, NULL,
			"The services by name; those declared here are looked up at once, and the start waits for them.",
			.table = config_service_rows },
	{},
};
