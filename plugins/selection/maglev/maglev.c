/* The same key goes to the same endpoint, all get as many keys as their weights say to within one
 * place of a table, and few keys move when an endpoint comes or goes: Maglev hashing (Eisenbud et
 * al. 2016, Maglev: A Fast and Reliable Software Network Load Balancer, section 3.4).
 *
 * Each endpoint has an order of its own in which it likes the places of the table: from an offset
 * on by a skip, both out of its id's hash, which visits every place since their number is prime.
 * They take turns, and who has a turn takes the place that it likes best of those that are left.
 *
 * Weights work by rounds, as in Envoy: the heaviest has a turn in every round, one of half its
 * weight in every other. Here the k-th turn is in the round (k + 1/2) * heaviest / weight, so that
 * places are the weights' shares rounded to the nearest, with one for everyone who has any weight;
 * and who has a turn in a round is looked up, so that ten thousand light endpoints beside a heavy
 * one do not cost ten thousand looks a round. */

#include <assert.h>
#include <usher/plugin.h>

#include "../lookup-table.h"

#define TABLE_MAX       5000011 /* places */
#define PLACES_AT_LEAST 2       /* an endpoint */
#define NOBODY          UINT32_MAX

struct maglev {
	int64_t table_size; /* option */
};

/* ---- primes ---- */

static bool is_prime(uint64_t n)
{
	if (n < 4 || n % 2 == 0)
		return n == 2 || n == 3;
	for (uint64_t i = 3; i * i <= n; i += 2)
		if (n % i == 0)
			return false;
	return true;
}

static uint64_t prime_from(uint64_t n)
{
	while (!is_prime(n))
		n++;
	return n;
}

static int maglev_init(void *instance, struct usher_error *reterr)
{
	const struct maglev *m = instance;
	uint64_t size = (uint64_t) m->table_size, below = size;

	if (is_prime(size))
		return 0;
	while (!is_prime(below))
		below--;
	return usher_error_set(reterr, -EINVAL,
			"table_size %llu is not a prime; the next ones are %llu and %llu",
			(unsigned long long) size, (unsigned long long) below,
			(unsigned long long) prime_from(size));
}

/* ---- turns ---- */

/* A candidate's way through the table, and its turns. */
struct walker {
	uint32_t place, skip;
	double phase, stride; /* a turn every so many rounds */
	uint32_t turns;       /* it has had */
	uint32_t next;        /* of those that have a turn in the same round */
};

/* Who has a turn in which round, in the order in which they came to be there. */
struct rounds {
	uint32_t *first, *last; /* by round, 0..count-1 */
	size_t count;
};

struct filling {
	struct lookup_table *table;
	struct walker *walkers;
	struct rounds rounds;
	uint64_t *taken; /* a bit a place: small enough for the first-level cache */
	size_t left;     /* places */
	uint32_t heaviest;
};

static void add_to_round(struct filling *f, uint64_t round, uint32_t position)
{
	struct rounds *r = &f->rounds;

	if (round >= r->count)
		return; /* the table will be full by then */
	f->walkers[position].next = NOBODY;
	if (r->first[round] == NOBODY)
		r->first[round] = position;
	else
		f->walkers[r->last[round]].next = position;
	r->last[round] = position;
}

/* The round of a candidate's next turn; 1 is the first. */
static uint64_t next_round(const struct walker *w)
{
	return (uint64_t) ceil((w->turns + w->phase) * w->stride);
}

static void take_turn(struct filling *f, uint32_t position)
{
	struct walker *w = &f->walkers[position];
	uint32_t place = w->place, places = (uint32_t) f->table->places;

	while (f->taken[place / 64] >> place % 64 & 1) {
		place += w->skip;
		place -= place >= places ? places : 0;
	}
	f->taken[place / 64] |= UINT64_C(1) << place % 64;
	lookup_table_give(f->table, place, position);
	w->place = place;
	w->turns++;
	f->left--;
}

static void play_round(struct filling *f, size_t round)
{
	uint32_t position = f->rounds.first[round];

	while (position != NOBODY && f->left > 0) {
		uint32_t next = f->walkers[position].next;

		take_turn(f, position);
		add_to_round(f, next_round(&f->walkers[position]), position);
		position = next;
	}
}

/* Everyone's first turn is in the middle of the game at the latest, when there are places left for
 * all: as many as half of the table at most are candidates. */
static void line_up(struct filling *f, const struct usher_view *view, uint64_t sum)
{
	struct lookup_table *t = f->table;
	uint64_t middle = (uint64_t) ((unsigned __int128) t->places * f->heaviest / sum / 2);

	if (middle == 0)
		middle = 1;
	for (size_t i = 0; i < t->count; i++) {
		struct walker *w = &f->walkers[i];
		uint32_t weight = view->weights[t->candidates[i]];
		uint64_t round;

		if (weight == 0)
			continue;
		w->place = (uint32_t) lookup_scale(lookup_mix(t->hashes[i], 1), t->places);
		w->skip = (uint32_t) lookup_scale(lookup_mix(t->hashes[i], 2), t->places - 1) + 1;
		w->phase = ((double) (uint32_t) lookup_mix(t->hashes[i], 3) + 0.5) * 0x1p-32;
		w->stride = (double) f->heaviest / weight;
		round = next_round(w);
		add_to_round(f, round < middle ? round : middle, (uint32_t) i);
	}
}

static void filling_done(struct filling *f)
{
	free(f->walkers);
	free(f->taken);
	free(f->rounds.first);
	free(f->rounds.last);
}

/* How many rounds there can be: the heaviest has a turn in every one, and in t of them everyone has
 * more than t * weight / heaviest - 1. One more is for what rounding may have put off. */
static size_t rounds_at_most(const struct lookup_table *t, uint32_t heaviest, uint64_t sum)
{
	uint64_t rounds = (uint64_t) ((unsigned __int128) (t->places + t->count) * heaviest / sum) +
			1;

	return rounds < t->places ? (size_t) rounds : t->places;
}

static int filling_init(struct filling *f, struct lookup_table *t, uint32_t heaviest, uint64_t sum)
{
	*f = (struct filling){ .table = t, .left = t->places, .heaviest = heaviest };
	f->rounds.count = rounds_at_most(t, heaviest, sum) + 1;
	f->walkers = calloc(t->count, sizeof(*f->walkers));
	f->taken = calloc(t->places / 64 + 1, sizeof(*f->taken));
	f->rounds.first = malloc(f->rounds.count * sizeof(*f->rounds.first));
	f->rounds.last = calloc(f->rounds.count, sizeof(*f->rounds.last));
	if (!f->walkers || !f->taken || !f->rounds.first || !f->rounds.last) {
		filling_done(f);
		return -ENOMEM;
	}
	memset(f->rounds.first, 0xff, f->rounds.count * sizeof(*f->rounds.first));
	return 0;
}

static int fill_table(struct lookup_table *t, const struct usher_view *view, uint32_t heaviest,
		uint64_t sum)
{
	struct filling f;
	int r;

	r = filling_init(&f, t, heaviest, sum);
	if (r < 0)
		return r;
	line_up(&f, view, sum);
	for (size_t round = 1; f.left > 0; round++) {
		assert(round < f.rounds.count);
		play_round(&f, round);
	}
	filling_done(&f);
	return 0;
}

/* ---- the selector ---- */

static int maglev_prepare(const void *instance, const struct usher_view *view,
		const uint32_t *candidates, size_t count, void **ret_prepared)
{
	const struct maglev *m = instance;
	uint64_t sum = 0, places = (uint64_t) m->table_size;
	uint32_t heaviest = 0;
	struct lookup_table *t;
	int r;

	for (size_t i = 0; i < count; i++) {
		uint32_t weight = view->weights[candidates[i]];

		sum += weight;
		heaviest = weight > heaviest ? weight : heaviest;
	}
	if (places < count * PLACES_AT_LEAST)
		places = prime_from(count * PLACES_AT_LEAST);
	r = lookup_table_new(view, candidates, count, sum == 0 ? 0 : places, &t);
	if (r < 0)
		return r;
	if (sum > 0)
		r = fill_table(t, view, heaviest, sum);
	if (r < 0) {
		lookup_table_release(t);
		return r;
	}
	*ret_prepared = t;
	return 0;
}

static ssize_t maglev_pick(const void *instance, const void *prepared,
		const struct usher_view *view, const struct usher_request *request,
		const uint32_t *candidates, size_t count)
{
	(void) instance;
	return lookup_pick(prepared, view, request, candidates, count, NULL);
}

static const struct usher_option maglev_options[] = {
	{ .name = "table_size",
			.type = USHER_OPTION_INTEGER,
			.offset = offsetof(struct maglev, table_size),
			.help = "The number of places in the table, a prime in 3..5000011.",
			.default_text = "65537",
			.min = 3,
			.max = TABLE_MAX },
	{},
};

USHER_PLUGIN(.name = "maglev", .summary = "The same key to the same one, evenly",
		.instance_size = sizeof(struct maglev), .options = maglev_options,
		.init = maglev_init,
		.selector = &(const struct usher_selector){
				.size = sizeof(struct usher_selector),
				.prepare = maglev_prepare,
				.release = lookup_table_release,
				.pick = maglev_pick,
				.share = lookup_share,
				.flags = USHER_SELECTOR_SUBSETS,
		});
