/* The one with the fewest open requests of a few that are drawn at random: the power of two choices
 * (Mitzenmacher 2001), which is nearly as even as looking at all of them, and does not send
 * everyone to the same idle one at once.
 *
 * Drawn is in proportion to the weights, and open requests count in proportion to them:
 * active^bias / weight is compared, the comparison of Envoy's dynamic weight
 * weight / (active + 1)^bias without the 1. Drawing already gives each its share, so an idle one
 * must not also win for being heavy (or light ones would get nothing while there is little to do);
 * ties go to the first drawn, and with nothing open the shares are those of the weights. */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <usher/plugin.h>

#include "../alias-table.h"

#define BIAS_MAX    10
#define CHOICES_MAX 64

struct least_request {
	int64_t choices;       /* option */
	const char *bias_text; /* option */
	double bias;
};

static int least_request_init(void *instance, struct usher_error *reterr)
{
	struct least_request *l = instance;
	char *end;

	/* Without this sign strtod would take hexadecimal numbers, "nan" and "inf". */
	if (l->bias_text[strspn(l->bias_text, "0123456789.")] != '\0' || l->bias_text[0] == '\0')
		return usher_error_set(reterr, -EINVAL,
				"bias \"%.40s\" is not a number; write one in 0..%d, such as 1.0",
				l->bias_text, BIAS_MAX);
	l->bias = strtod(l->bias_text, &end);
	if (*end != '\0' || end == l->bias_text || l->bias > BIAS_MAX)
		return usher_error_set(reterr, -ERANGE, "bias \"%.40s\" is not a number in 0..%d",
				l->bias_text, BIAS_MAX);
	return 0;
}

struct comparison {
	const uint32_t *active, *weights;
	double bias;
};

/* In whole numbers where the bias is 1: 32 bits times 32 bits. */
static bool has_fewer(const void *userdata, uint32_t candidate, uint32_t than)
{
	const struct comparison *c = userdata;

	return (uint64_t) c->active[candidate] * c->weights[than] <
			(uint64_t) c->active[than] * c->weights[candidate];
}

static bool has_fewer_with_bias(const void *userdata, uint32_t candidate, uint32_t than)
{
	const struct comparison *c = userdata;

	return pow(c->active[candidate], c->bias) * c->weights[than] <
			pow(c->active[than], c->bias) * c->weights[candidate];
}

static ssize_t least_request_pick(const void *instance, const void *prepared,
		const struct usher_view *view, const struct usher_request *request,
		const uint32_t *candidates, size_t count)
{
	const struct least_request *l = instance;
	struct lot lot = lot_of(prepared, view, candidates, count);
	struct comparison c = { .active = view->active, .weights = view->weights, .bias = l->bias };

	if (!view->active || l->bias <= 0)
		return lot.sum == 0 ? -1 : (ssize_t) lot_draw(&lot, request->random);
	if (l->bias < 1 || l->bias > 1)
		return lot_choose(&lot, request->random, l->choices, has_fewer_with_bias, &c);
	return lot_choose(&lot, request->random, l->choices, has_fewer, &c);
}

static const struct usher_option least_request_options[] = {
	{ .name = "choices",
			.type = USHER_OPTION_INTEGER,
			.offset = offsetof(struct least_request, choices),
			.help = "How many are drawn for each pick, 2..64.",
			.default_text = "2",
			.min = 2,
			.max = CHOICES_MAX },
	{ .name = "bias",
			.type = USHER_OPTION_STRING,
			.offset = offsetof(struct least_request, bias_text),
			.help = "How much open requests count against the weight, 0..10; 0: not at "
				"all.",
			.default_text = "1.0" },
	{},
};

USHER_PLUGIN(.name = "least_request", .summary = "The least busy of a few that are drawn",
		.instance_size = sizeof(struct least_request), .options = least_request_options,
		.init = least_request_init,
		.selector = &(const struct usher_selector){
				.size = sizeof(struct usher_selector),
				.prepare = lot_prepare,
				.release = free,
				.pick = least_request_pick,
				.share = lot_share,
				.flags = USHER_SELECTOR_SUBSETS,
		});
