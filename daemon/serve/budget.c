#include "budget.h"

#include "clock.h"
#include "render.h"

static void add_window(struct budget *b, const char *name, uint64_t usec, bool proven)
{
	b->windows[b->count++] =
			(struct budget_window){ .name = name, .usec = usec, .proven = proven };
	b->worst_usec += usec;
	if (!proven)
		b->assumed_usec += usec;
}

/* The share of picks of the heaviest of the chosen endpoints. */
static double largest_share(const struct snapshot *snapshot)
{
	uint64_t sum = 0, most = 0;

	for (size_t i = 0; snapshot && i < snapshot->chosen_count; i++) {
		uint64_t weight = snapshot->weights[snapshot->chosen[i]];

		sum += weight;
		if (weight > most)
			most = weight;
	}
	return sum ? (double) most / (double) sum : 1.0;
}

void budget_of(const struct drain_config *drain, const struct snapshot *snapshot,
		uint64_t rate_per_s, struct budget *ret)
{
	double picks;

	*ret = (struct budget){ .rate_per_s = rate_per_s, .share = largest_share(snapshot) };
	add_window(ret, "registry", drain->registry_usec, true);
	add_window(ret, "consumer_refresh", drain->consumer_refresh_usec, false);
	add_window(ret, "consumer_cache", drain->consumer_cache_usec, false);
	add_window(ret, "margin", drain->margin_usec, false);
	picks = (double) rate_per_s * ret->share *
			((double) ret->worst_usec / (double) USEC_PER_SEC);
	ret->picks = picks < 9e18 ? (uint64_t) picks : UINT64_C(9000000000000000000);
	if ((double) ret->picks < picks)
		ret->picks++;
}

void budget_render(const struct budget *budget, struct text *text)
{
	const char *comma = "";

	text_add_string(text, ", \"windows\": [");
	for (size_t i = 0; i < budget->count; i++) {
		const struct budget_window *w = &budget->windows[i];

		render_comma(text, &comma);
		text_add_format(text, "{\"name\": \"%s\", \"ms\": %llu, \"proven\": %s}", w->name,
				(unsigned long long) (w->usec / USEC_PER_MSEC),
				w->proven ? "true" : "false");
	}
	text_add_format(text,
			"], \"worst_case_ms\": %llu, \"assumed_ms\": %llu, \"stale_picks\": {\"rate_per_s\": %llu, \"share\": %.4g, \"worst_case\": %llu}",
			(unsigned long long) (budget->worst_usec / USEC_PER_MSEC),
			(unsigned long long) (budget->assumed_usec / USEC_PER_MSEC),
			(unsigned long long) budget->rate_per_s, budget->share,
			(unsigned long long) budget->picks);
}
