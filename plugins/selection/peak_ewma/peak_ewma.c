/* The one that promises the earliest answer, of a few that are drawn: its latency times the
 * requests that would then be open at it.
 *
 * The latency is Finagle's peak-sensitive moving average (Finagle's PeakEwma; also in Linkerd and
 * tower): a worse one counts at once, a better one is believed slowly, and what nobody confirms
 * fades: cost * e^(-age / decay), with the weight of a new value from the time since the last one
 * (Eckner 2019, Algorithms for Unevenly Spaced Time Series). Open requests delay the fading, so
 * that one which was slow is tried again with one or two, and not with all that come until the
 * first of them is answered. A call that failed counts as slow, or an endpoint that refuses fast
 * would draw all of them.
 *
 * One that is not known yet is tried with one request at a time: idle it costs nothing and wins,
 * while that request is open it loses against everyone that is known. So newcomers are learnt soon
 * and never flooded; where none is known the fewest open requests decide. */

#include <errno.h>
#include <math.h>
#include <usher/plugin.h>

#include "../alias-table.h"

#define CHOICES_MAX 64

/* More than any latency times any number of requests. */
#define COST_UNKNOWN 1e30

struct peak_ewma {
	int64_t choices;       /* option */
	uint64_t decay_usec;   /* option */
	uint64_t penalty_usec; /* option */
};

struct slot {
	double latency_usec; /* when it was told; 0: not known */
	uint64_t told_usec;
};

_Static_assert(sizeof(struct slot) <= USHER_SLOT_MAX, "a slot is too large");

static int peak_ewma_init(void *instance, struct usher_error *reterr)
{
	const struct peak_ewma *p = instance;

	if (p->decay_usec == 0)
		return usher_error_set(reterr, -ERANGE,
				"decay is 0: latencies would be forgotten at once; write a time such as 10s");
	return 0;
}

/* ---- learning ---- */

/* What is left of a latency, 1..0. */
static double fade(const struct peak_ewma *p, uint64_t now_usec, uint64_t told_usec, double active)
{
	double age_usec = now_usec > told_usec ? (double) (now_usec - told_usec) : 0;

	return exp(-age_usec / ((double) p->decay_usec * (active + 1)));
}

static void peak_ewma_report(const void *instance, void *slot, const struct usher_report *report)
{
	const struct peak_ewma *p = instance;
	struct slot *s = slot;
	uint64_t latency_usec = report->latency_usec;
	double latency;

	if (report->outcome != USHER_OUTCOME_OK && latency_usec < p->penalty_usec)
		latency_usec = p->penalty_usec;
	if (latency_usec == 0)
		return; /* it went well, and nobody says how fast */

	latency = (double) latency_usec;
	if (latency < s->latency_usec) {
		double old = fade(p, report->now_usec, s->told_usec, 0);

		latency = s->latency_usec * old + latency * (1 - old);
	}
	s->latency_usec = latency;
	s->told_usec = report->now_usec;
}

/* ---- choosing ---- */

struct comparison {
	const struct peak_ewma *options;
	const struct usher_view *view;
	uint64_t now_usec;
};

static double cost_of(const struct comparison *c, uint32_t candidate)
{
	const struct slot *slots = c->view->slots, *s = &slots[candidate];
	double active = c->view->active ? c->view->active[candidate] : 0;

	if (s->latency_usec > 0)
		return s->latency_usec * fade(c->options, c->now_usec, s->told_usec, active) *
				(active + 1);
	return active > 0 ? COST_UNKNOWN * active : 0;
}

static bool costs_less(const void *userdata, uint32_t candidate, uint32_t than)
{
	return cost_of(userdata, candidate) < cost_of(userdata, than);
}

static ssize_t peak_ewma_pick(const void *instance, const void *prepared,
		const struct usher_view *view, const struct usher_request *request,
		const uint32_t *candidates, size_t count)
{
	const struct peak_ewma *p = instance;
	struct lot lot = lot_of(prepared, view, candidates, count);
	struct comparison c = { .options = p, .view = view, .now_usec = request->now_usec };

	if (!view->slots)
		return lot.sum == 0 ? -1 : (ssize_t) lot_draw(&lot, request->random);
	return lot_choose(&lot, request->random, p->choices, costs_less, &c);
}

static const struct usher_option peak_ewma_options[] = {
	{ .name = "decay",
			.type = USHER_OPTION_DURATION,
			.offset = offsetof(struct peak_ewma, decay_usec),
			.help = "How long a latency counts: after this time, a third of it.",
			.default_text = "10s" },
	{ .name = "choices",
			.type = USHER_OPTION_INTEGER,
			.offset = offsetof(struct peak_ewma, choices),
			.help = "How many are drawn for each pick, 2..64.",
			.default_text = "2",
			.min = 2,
			.max = CHOICES_MAX },
	{ .name = "penalty",
			.type = USHER_OPTION_DURATION,
			.offset = offsetof(struct peak_ewma, penalty_usec),
			.help = "The least latency that a call that failed counts as.",
			.default_text = "1s" },
	{},
};

USHER_PLUGIN(.name = "peak_ewma", .summary = "The one that promises the earliest answer",
		.instance_size = sizeof(struct peak_ewma), .options = peak_ewma_options,
		.init = peak_ewma_init,
		.selector = &(const struct usher_selector){
				.size = sizeof(struct usher_selector),
				.prepare = lot_prepare,
				.release = free,
				.pick = peak_ewma_pick,
				.share = lot_share,
				.flags = USHER_SELECTOR_SUBSETS,
				.slot_size = sizeof(struct slot),
				.report = peak_ewma_report,
		});
