/* Lets endpoints that have just come, recovered or been restored get their traffic little by
 * little.
 *
 * The weight grows as Envoy's slow start has it
 * (https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/upstream/load_balancing/slow_start):
 * weight * max(min, (time / window) ^ (1 / aggression)), so in a straight line at aggression 1,
 * faster at first above it, slower at first below. Nobody leaves. */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <usher/plugin.h>

#define STEPS           20     /* of a window, as often as the result is computed again */
#define STEP_MIN_USEC   100000 /* but no more often than that */
#define AGGRESSION_MIN  0.1
#define AGGRESSION_MAX  100.0
#define WINDOW_MIN_USEC UINT64_C(1000000)
#define WINDOW_MAX_USEC UINT64_C(86400000000)

struct slow_start {
	uint64_t window_usec;                     /* option */
	double min;                               /* option */
	const struct usher_node *aggression_node; /* option */
	double aggression;
};

/* When the i-th has all of its weight; 0: it has. */
static uint64_t end_of(const struct slow_start *s, const struct usher_view *view, uint32_t i)
{
	uint64_t since = view->since_usec ? view->since_usec[i] : 0;

	return since > 0 && view->now_usec < since + s->window_usec ? since + s->window_usec : 0;
}

static double part_of(const struct slow_start *s, const struct usher_view *view, uint32_t i)
{
	uint64_t since = view->since_usec[i];
	double time = view->now_usec > since ? (double) (view->now_usec - since) : 0;
	double part = pow(time / (double) s->window_usec, 1 / s->aggression);

	return part > s->min ? part : s->min;
}

/* Never nothing: weight 0 means that somebody wants no traffic. */
static uint32_t scaled(uint32_t weight, double part)
{
	double product = round((double) weight * part);

	return weight > 0 && product < 1 ? 1 : (uint32_t) product;
}

static size_t slow_start_run(
		const void *instance, struct usher_pass *pass, uint32_t *candidates, size_t count)
{
	const struct slow_start *s = instance;
	uint64_t step = s->window_usec / STEPS > STEP_MIN_USEC ? s->window_usec / STEPS
							       : STEP_MIN_USEC;
	uint64_t again = 0;

	for (size_t i = 0; i < count && pass->weights; i++) {
		uint64_t end = end_of(s, pass->view, candidates[i]);
		uint32_t *weight = &pass->weights[candidates[i]];

		if (end == 0)
			continue;
		*weight = scaled(*weight, part_of(s, pass->view, candidates[i]));
		if (again == 0 || end < again)
			again = end;
	}
	if (again > pass->view->now_usec + step)
		again = pass->view->now_usec + step;
	pass->again_usec = again;
	return count;
}

/* Nobody leaves; for who asks all the same, how far it is. */
static void slow_start_explain(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret_text,
		size_t size)
{
	const struct slow_start *s = instance;

	(void) request;
	if (end_of(s, view, candidate) == 0)
		(void) snprintf(ret_text, size, "has all of its weight");
	else
		(void) snprintf(ret_text, size, "has %.3g%% of its weight so far",
				100 * part_of(s, view, candidate));
}

static void slow_start_tell(const void *instance, const struct usher_pass *pass,
		const uint32_t *candidates, size_t count, size_t kept, char *ret_text, size_t size)
{
	const struct slow_start *s = instance;
	char window[USHER_DURATION_TEXT_MAX];
	size_t starting = 0;
	double least = 1;

	(void) kept;
	for (size_t i = 0; i < count; i++) {
		double part;

		if (end_of(s, pass->view, candidates[i]) == 0)
			continue;
		part = part_of(s, pass->view, candidates[i]);
		least = part < least ? part : least;
		starting++;
	}
	if (starting > 0)
		(void) snprintf(ret_text, size,
				"%zu of %zu are in their first %s: weights are scaled, the least "
				"to %.3g%%",
				starting, count, usher_duration_format(s->window_usec, window),
				100 * least);
}

/* "1", "0.5"; digits and a point, whatever the locale. */
static int parse_aggression(const char *text, double *ret)
{
	double value = 0, unit = 1;
	size_t digits = strspn(text, "0123456789");

	if (digits == 0 || digits > 4)
		return -EINVAL;
	for (size_t i = 0; i < digits; i++)
		value = 10 * value + (text[i] - '0');
	text += digits;
	if (*text == '.') {
		digits = strspn(++text, "0123456789");
		if (digits == 0 || digits > 9)
			return -EINVAL;
		for (size_t i = 0; i < digits; i++)
			value += (text[i] - '0') * (unit /= 10);
		text += digits;
	}
	if (*text || value < AGGRESSION_MIN || value > AGGRESSION_MAX)
		return -EINVAL;
	*ret = value;
	return 0;
}

static int slow_start_init(void *instance, struct usher_error *reterr)
{
	struct slow_start *s = instance;
	const char *text = usher_node_text(s->aggression_node);

	if (!text || parse_aggression(text, &s->aggression) < 0)
		return usher_error_set(reterr, -EINVAL,
				"aggression: \"%.64s\" is no number in %.3g..%.3g, such as 1.0 (a "
				"straight line) or 2.0 (faster at first)",
				text ? text : usher_node_kind_name(s->aggression_node),
				AGGRESSION_MIN, AGGRESSION_MAX);
	if (s->window_usec < WINDOW_MIN_USEC || s->window_usec > WINDOW_MAX_USEC)
		return usher_error_set(reterr, -ERANGE, "window is not in 1s..24h");
	return 0;
}

static const struct usher_option slow_start_options[] = {
	{ .name = "window",
			.type = USHER_OPTION_DURATION,
			.offset = offsetof(struct slow_start, window_usec),
			.help = "How long it takes until an endpoint has all of its weight, "
				"1s..24h.",
			.default_text = "30s" },
	{ .name = "aggression",
			.type = USHER_OPTION_NODE,
			.offset = offsetof(struct slow_start, aggression_node),
			.help = "How it grows: 1.0 in a straight line, above faster at first, "
				"below slower at first; 0.1..100.",
			.default_text = "1.0" },
	{ .name = "min",
			.type = USHER_OPTION_SHARE,
			.offset = offsetof(struct slow_start, min),
			.help = "The part of its weight that an endpoint has at once.",
			.default_text = "10%" },
	{},
};

USHER_PLUGIN(.name = "slow_start", .summary = "Little by little for those that have just come",
		.instance_size = sizeof(struct slow_start), .options = slow_start_options,
		.init = slow_start_init,
		.stage = &(const struct usher_stage){
				.size = sizeof(struct usher_stage),
				.explain = slow_start_explain,
				.flags = USHER_STAGE_WHOLE | USHER_STAGE_WEIGHS,
				.run = slow_start_run,
				.tell = slow_start_tell,
		});
