/* Every key of `health` and `prober`, with its default and its help. */

#include "config-forms.h"
#include "config-tables.h"
#include "config.h"

#define MILLISECOND UINT64_C(1000)
#define SECOND      (1000 * MILLISECOND)
#define HOUR        (3600 * SECOND)
#define DAY         (24 * HOUR)

#define COUNT_MAX   100000
#define RATE_MAX    1000000
#define THREADS_MAX 16
#define RESULTS_MAX 1000 /* in a row */
#define FLAPS_MAX   16   /* as many changes as a judge remembers */

/* In the order of enum down_policy. */
static const char *const down_words[] = { [DOWN_FAIL] = "fail", [DOWN_PANIC] = "panic", NULL };
static const char *const method_words[] = { "GET", "HEAD", "OPTIONS", "POST", NULL };

/* ---- how an endpoint is asked ---- */

#define AT(field) offsetof(struct health_config, field)

static const struct config_row tls_rows[] = {
	{ "enabled", ROW_FORM, AT(check), NULL,
			"Whether to ask over TLS; when absent, as the endpoint's `secure` says.",
			.form = &config_form_tls_enabled },
	{ "verify", ROW_BOOL, AT(check.tls_verify), "true",
			"Whether the certificate must be valid for the name that is asked for." },
	{ "ca", ROW_PATH, AT(check.tls_ca), NULL,
			"A file of certificates that are trusted, in place of the system's." },
	{ "server_name", ROW_FORM, AT(check.tls_server_name), NULL,
			"The name that is asked for (SNI) and verified; when absent, that of `host`, else the address.",
			.form = &config_form_server_name },
	{},
};

static const struct config_row http_rows[] = {
	{ "path", ROW_FORM, AT(check.path), "/", "What is asked for.",
			.form = &config_form_url_path },
	{ "path_label", ROW_TEXT, AT(check.path_label), NULL,
			"The metadata whose value is the path instead, where an endpoint has it." },
	{ "method", ROW_WORD, AT(check.method), "GET", "How it is asked for.",
			.choices = method_words },
	{ "host", ROW_FORM, AT(check.host), NULL,
			"The header `Host`; when absent, the endpoint's address and port.",
			.form = &config_form_host },
	{ "expect", ROW_FORM, AT(check), "[200]", "The statuses that count as up.",
			.form = &config_form_expect },
	{ "degraded", ROW_FORM, AT(check), NULL,
			"The statuses that count as degraded: used while too few others are up.",
			.form = &config_form_degraded },
	{ "match", ROW_FORM, AT(check), NULL,
			"What the body must have, beside the status: {text} or {pointer, value}.",
			.form = &config_form_match },
	{ "keep_alive", ROW_BOOL, AT(check.keep_alive), "false",
			"Whether the connection of the last check is used again." },
	{ "tls", ROW_TABLE, 0, NULL, "Over TLS.", .table = tls_rows },
	{},
};

static const struct config_row tcp_rows[] = {
	{ "send", ROW_FORM, AT(check.send), NULL,
			"What is sent once connected; `\\r`, `\\n`, `\\t`, `\\\\` and `\\xHH` stand for what they do in C.",
			.form = &config_form_bytes },
	{ "expect", ROW_FORM, AT(check.expect_text), NULL,
			"What the answer must begin with; when absent, being connected is enough.",
			.form = &config_form_bytes },
	{ "keep_alive", ROW_BOOL, AT(check.keep_alive), "false",
			"Whether the connection of the last check is used again." },
	{},
};

static const struct config_row grpc_rows[] = {
	{ "service", ROW_FORM, AT(check.grpc_service), NULL,
			"The service that is asked for by grpc.health.v1; when absent, the server as a whole.",
			.form = &config_form_short_text },
	{ "tls", ROW_TABLE, 0, NULL, "Over TLS.", .table = tls_rows },
	{},
};

static const struct config_row exec_rows[] = {
	{ "command", ROW_FORM, AT(check.command), NULL,
			"The argument vector: an absolute path, then its arguments; no shell. Exit status 0 is up.",
			.form = &config_form_command, .required = true },
	{},
};

#undef AT
#define AT(field) offsetof(struct check_config, field)

const struct config_row config_match_rows[] = {
	{ "text", ROW_FORM, AT(match_text), NULL, "Must stand somewhere in the body.",
			.form = &config_form_bytes },
	{ "pointer", ROW_FORM, AT(match_pointer), NULL,
			"Leads to a value in a JSON body (RFC 6901), like /status.",
			.form = &config_form_pointer },
	{ "value", ROW_FORM, AT(match_value), NULL,
			"What that value must be: a text, a number, or true or false.",
			.form = &config_form_short_text },
	{},
};

/* ---- how it is judged ---- */

#undef AT
#define AT(field) offsetof(struct health_config, field)

static const struct config_row flapping_rows[] = {
	{ "changes", ROW_COUNT, AT(flap_changes), "5",
			"So many changes of state within the window count as flapping; 0: never.",
			.max = FLAPS_MAX },
	{ "window", ROW_DURATION, AT(flap_window_usec), "60s", "In which they are counted.",
			.min = SECOND, .max = DAY },
	{ "hold", ROW_DURATION, AT(flap_hold_usec), "30s",
			"What flaps counts as down until its checks have been good for so long without a break.",
			.max = DAY },
	{},
};

static const struct config_row outlier_rows[] = {
	{ "enabled", ROW_BOOL, AT(outlier.enabled), "false",
			"Whether an endpoint is ejected for a while when calls to it fail, as consumers report them." },
	{ "consecutive", ROW_COUNT, AT(outlier.consecutive), "5",
			"So many failures in a row eject; 0: they are not counted.",
			.max = COUNT_MAX },
	{ "failure_share", ROW_SHARE, AT(outlier.failure_share), "100%",
			"More than this share of the calls of one interval failed: that ejects; 100%: never." },
	{ "minimum_calls", ROW_COUNT, AT(outlier.minimum_calls), "20",
			"With fewer calls in the interval the share says nothing.", .min = 1,
			.max = COUNT_MAX },
	{ "interval", ROW_DURATION, AT(outlier.interval_usec), "10s",
			"Over which the share is taken; one without an ejection makes the next ejection shorter again.",
			.min = 100 * MILLISECOND, .max = DAY },
	{ "minimum_endpoints", ROW_COUNT, AT(outlier.minimum_endpoints), "3",
			"With fewer endpoints in the service nobody is ejected.",
			.max = COUNT_MAX },
	{ "max_ejected", ROW_SHARE, AT(outlier.max_ejected), "10%",
			"Of the endpoints that may be ejected at once, at least one; what checks find down is not bound by it." },
	{ "ejection", ROW_DURATION, AT(outlier.ejection_usec), "30s",
			"How long the first ejection lasts; the next in a row that much longer.",
			.min = 100 * MILLISECOND, .max = DAY },
	{ "max_ejection", ROW_DURATION, AT(outlier.max_ejection_usec), "300s",
			"How long one lasts at most.", .min = 100 * MILLISECOND, .max = DAY },
	{},
};

/* ---- the whole ---- */

#define KIND(value) .kind = (value), .kind_offset = AT(check.kind)

/* How one endpoint is asked and judged. */
#define CHECK_ROWS                                                                                                       \
	{ "http", ROW_TABLE, 0, NULL, "Ask over HTTP.", .table = http_rows, KIND(CHECK_HTTP) },                          \
			{ "tcp", ROW_TABLE, 0, NULL, "Connect.", .table = tcp_rows,                                      \
				KIND(CHECK_TCP) },                                                                       \
			{ "grpc", ROW_TABLE, 0, NULL, "Ask by grpc.health.v1.",                                          \
				.table = grpc_rows, KIND(CHECK_GRPC) },                                                  \
			{ "exec", ROW_TABLE, 0, NULL, "Run a command.", .table = exec_rows,                              \
				KIND(CHECK_EXEC) },                                                                      \
			{ "port", ROW_PORT, AT(check.port), NULL,                                                        \
				"Instead of the endpoint's own port." },                                                 \
			{ "port_label", ROW_TEXT, AT(check.port_label), NULL,                                            \
				"The metadata whose value is the port instead, where an endpoint has it." },             \
			{ "interval", ROW_DURATION, AT(interval_usec), "5s",                                             \
				"From one check to the next.", .min = 10 * MILLISECOND,                                  \
				.max = HOUR },                                                                           \
			{ "timeout", ROW_DURATION, AT(timeout_usec), "1s",                                               \
				"For one check; may be longer than the interval.",                                       \
				.min = MILLISECOND, .max = HOUR },                                                       \
			{ "interval_down", ROW_DURATION, AT(interval_down_usec), NULL,                                   \
				"While it is not up; when absent, as `interval`.",                                       \
				.min = 10 * MILLISECOND, .max = HOUR },                                                  \
			{ "jitter", ROW_SHARE, AT(jitter), "10%",                                                        \
				"The share of the interval that each check is moved by at random." },                    \
			{ "rise", ROW_COUNT, AT(rise), "2",                                                              \
				"So many good checks in a row bring up.", .min = 1,                                      \
				.max = RESULTS_MAX },                                                                    \
			{ "fall", ROW_COUNT, AT(fall), "3",                                                              \
				"So many bad checks in a row bring down.", .min = 1,                                     \
				.max = RESULTS_MAX },                                                                    \
			{ "initial", ROW_FORM, AT(initial), "unknown",                                                   \
				"What it counts as before the first check; `unknown` is left by the first check alone.", \
				.form = &config_form_initial },                                                          \
	{                                                                                                                \
		"flapping", ROW_TABLE, 0, NULL, "What changes too often is not believed.",                               \
				.table = flapping_rows                                                                   \
	}

const struct config_row config_health_rows[] = {
	CHECK_ROWS,
	{ "on_all_down", ROW_CHOICE, AT(on_all_down), "fail",
			"When all are down: `fail`, or `panic`, which uses all of them and says so.",
			.choices = down_words },
	{ "panic_threshold", ROW_SHARE, AT(panic_threshold), "0%",
			"With `panic`: when less than this share is usable, all are used. What is drained on purpose does not count." },
	{ "outlier", ROW_TABLE, 0, NULL, "What consumers report counts, too.",
			.table = outlier_rows },
	{},
};

const struct config_row config_registration_health_rows[] = { CHECK_ROWS, {} };

#undef AT
#define AT(field) offsetof(struct prober_config, field)

const struct config_row config_prober_rows[] = {
	{ "max_rate", ROW_COUNT, AT(max_rate), "0",
			"Checks a second over all services: more make all intervals longer, which is said; 0: no limit.",
			.max = RATE_MAX },
	{ "threads", ROW_COUNT, AT(threads), "1",
			"Among which the checks are spread; another number takes a restart.",
			.min = 1, .max = THREADS_MAX },
	{},
};
