#include "render-health.h"

#include "clock.h"
#include "health.h"
#include "render.h"

static uint64_t msec_since(uint64_t usec, uint64_t now_usec)
{
	return now_usec > usec ? (now_usec - usec) / USEC_PER_MSEC : 0;
}

/* Without the closing brace. */
static void render_open(struct text *text, const struct snapshot *snapshot, uint32_t i)
{
	text_add_string(text, ", \"health\": {\"state\": \"");
	text_add_string(text,
			usher_health_to_string((enum usher_health) snapshot->entries[i].health));
	text_add_string(text, "\"");
}

void render_health(struct text *text, const struct snapshot *snapshot, uint32_t i)
{
	if (!snapshot->has_health)
		return;
	render_open(text, snapshot, i);
	text_add(text, "}", 1);
}

/* Where the endpoint stands in what is observed; its set may be another than the snapshot's. */
static ssize_t find_observed(
		const struct health *health, const struct snapshot *snapshot, uint32_t i)
{
	const struct usher_endpoints *set = health ? health_set(health) : NULL;

	if (set == snapshot->all)
		return i;
	return set ? usher_endpoints_find(set, usher_endpoints_id(snapshot->all, i)) : -1;
}

static void render_msec(struct text *text, uint64_t usec)
{
	text_add_format(text, "%llu.%03llu", (unsigned long long) (usec / USEC_PER_MSEC),
			(unsigned long long) (usec % USEC_PER_MSEC));
}

static void render_last_result(struct text *text, const struct health_detail *d, uint64_t now_usec)
{
	text_add_string(text, ", \"age_ms\": ");
	render_age(text, d->checked_usec ? now_usec - d->checked_usec : USEC_FOREVER);
	text_add_string(text, ", \"took_ms\": ");
	if (d->checked_usec)
		render_msec(text, d->took_usec);
	else
		text_add_string(text, "null");
	text_add_string(text, ", \"reason\": ");
	text_add_json(text, d->verdict ? probe_reason_to_string(d->verdict->reason) : NULL);
	text_add_string(text, ", \"error\": ");
	render_unclean(text, d->failure ? d->failure->text : NULL);
	text_add_string(text, ", \"error_age_ms\": ");
	render_age(text, d->failure ? now_usec - d->failed_usec : USEC_FOREVER);
	text_add_format(text, ", \"good\": %u, \"bad\": %u", d->good, d->bad);
}

/* All but the state, and the closing brace. */
static void render_known(struct text *text, const struct health_detail *d, uint64_t now_usec)
{
	text_add_string(text, ", \"since_ms\": ");
	text_add_unsigned(text, msec_since(d->since_usec, now_usec));
	render_last_result(text, d, now_usec);
	if (d->flapping)
		text_add_string(text, ", \"flapping\": true");
	if (d->ejected_until_usec)
		text_add_format(text, ", \"ejected_ms\": %llu, \"ejections\": %u",
				(unsigned long long) msec_since(now_usec, d->ejected_until_usec),
				d->ejections);
	text_add(text, "}", 1);
}

void render_health_detail(struct text *text, const struct context *context,
		const struct snapshot *snapshot, uint32_t i, uint64_t now_usec)
{
	const struct health *health = context_health(context);
	ssize_t at = find_observed(health, snapshot, i);
	struct health_detail d;

	if (at < 0) {
		render_health(text, snapshot, i);
		return;
	}
	health_detail(health, (size_t) at, &d);
	render_open(text, snapshot, i);
	render_known(text, &d, now_usec);
}

void render_health_of(struct text *text, const struct health *health, size_t i, uint64_t now_usec)
{
	struct health_detail d;

	health_detail(health, i, &d);
	text_add_format(text, "{\"state\": \"%s\"", usher_health_to_string(d.state));
	render_known(text, &d, now_usec);
}

void render_panic(struct text *text, bool panic)
{
	if (panic)
		text_add_string(text, ", \"panic\": true");
}

void render_health_counts(struct text *text, const struct snapshot *snapshot)
{
	size_t counts[USHER_HEALTH_EJECTED + 1] = {};
	const char *comma = "";

	if (!snapshot || !snapshot->has_health) {
		text_add_string(text, "null");
		return;
	}
	for (size_t i = 0; i < snapshot->count; i++)
		counts[snapshot->entries[i].health]++;
	text_add(text, "{", 1);
	for (unsigned i = 0; i <= USHER_HEALTH_EJECTED; i++) {
		render_comma(text, &comma);
		text_add_format(text, "\"%s\": %zu", usher_health_to_string((enum usher_health) i),
				counts[i]);
	}
	text_add(text, "}", 1);
}

const char *check_kind_to_string(enum check_kind kind)
{
	static const char *const names[] = {
		[CHECK_NONE] = "none",
		[CHECK_HTTP] = "http",
		[CHECK_TCP] = "tcp",
		[CHECK_GRPC] = "grpc",
		[CHECK_EXEC] = "exec",
	};

	return names[kind];
}

static void render_outlier_policy(struct text *text, const struct outlier_config *o)
{
	if (!o->enabled) {
		text_add_string(text, "null");
		return;
	}
	text_add_format(text, "{\"consecutive\": %u, \"failure_share\": ", o->consecutive);
	render_share(text, o->failure_share);
	text_add_format(text,
			", \"minimum_calls\": %u, \"interval_ms\": %llu, \"minimum_endpoints\": %u, \"max_ejected\": ",
			o->minimum_calls, (unsigned long long) (o->interval_usec / USEC_PER_MSEC),
			o->minimum_endpoints);
	render_share(text, o->max_ejected);
	text_add_format(text, ", \"ejection_ms\": %llu, \"max_ejection_ms\": %llu}",
			(unsigned long long) (o->ejection_usec / USEC_PER_MSEC),
			(unsigned long long) (o->max_ejection_usec / USEC_PER_MSEC));
}

static void render_check_policy(struct text *text, const struct health_config *c)
{
	uint64_t down_usec = c->interval_down_usec ? c->interval_down_usec : c->interval_usec;

	if (c->check.kind == CHECK_NONE) {
		text_add_string(text, "null");
		return;
	}
	text_add_format(text,
			"{\"kind\": \"%s\", \"interval_ms\": %llu, \"interval_down_ms\": %llu, \"timeout_ms\": %llu, \"jitter\": ",
			check_kind_to_string(c->check.kind),
			(unsigned long long) (c->interval_usec / USEC_PER_MSEC),
			(unsigned long long) (down_usec / USEC_PER_MSEC),
			(unsigned long long) (c->timeout_usec / USEC_PER_MSEC));
	render_share(text, c->jitter);
	text_add_format(text, ", \"rise\": %u, \"fall\": %u, \"initial\": \"%s\"}", c->rise,
			c->fall, usher_health_to_string(c->initial));
}

void render_health_policy(struct text *text, const struct health_config *config)
{
	if (config->check.kind == CHECK_NONE && !config->outlier.enabled) {
		text_add_string(text, "null");
		return;
	}
	text_add_string(text, "{\"check\": ");
	render_check_policy(text, config);
	text_add_string(text, ", \"outlier\": ");
	render_outlier_policy(text, &config->outlier);
	text_add_format(text, ", \"on_all_down\": \"%s\", \"panic_threshold\": ",
			config->on_all_down == DOWN_PANIC ? "panic" : "fail");
	render_share(text, config->panic_threshold);
	text_add(text, "}", 1);
}
