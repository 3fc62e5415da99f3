/* Keeps a few of many endpoints: always the same for one identity, others for another.
 *
 * Rendezvous hashing (Thaler and Ravishankar 1998, "Using name-based mappings to increase hit
 * rates"): each endpoint has a score for the identity, the hash of both, and the highest `size`
 * scores stay. No score depends on another, so an endpoint that comes takes the place of one that
 * is kept, or of none, and one that goes gives its place to one: the order of the directory and its
 * size do not matter. An endpoint of weight 0 takes no place, for it would get no traffic there. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <usher/plugin.h>

#define SIZE_MAXIMUM 1000 /* scores are sorted on the stack */
#define IDENTITY_MAX 1024
#define RANKS_MAX    512 /* endpoints among which explain tells a rank: that is a square in time */

struct subset {
	int64_t size;         /* option */
	const char *identity; /* option */
};

/* ---- identity ---- */

static const char *const placeholders[] = { "{node}", "{zone}", "{service}", NULL };

/* The placeholder that text begins with, or the end of the list. */
static size_t find_placeholder(const char *text)
{
	size_t i = 0;

	while (placeholders[i] && strncmp(text, placeholders[i], strlen(placeholders[i])) != 0)
		i++;
	return i;
}

/* Cut to fit: what would be longer differs early enough. */
static void write_identity(const struct subset *s, const struct usher_view *view, char *ret)
{
	const char *const values[] = { view->node, view->zone, view->service };
	size_t length = 0;

	for (const char *at = s->identity; *at && length + 1 < IDENTITY_MAX;) {
		size_t i = find_placeholder(at);

		if (!placeholders[i]) {
			ret[length++] = *at++;
			continue;
		}
		at += strlen(placeholders[i]);
		for (const char *v = values[i]; v && *v && length + 1 < IDENTITY_MAX; v++)
			ret[length++] = *v;
	}
	ret[length] = '\0';
}

/* ---- scores ---- */

static uint64_t score_of(const struct usher_view *view, uint64_t identity, uint32_t i)
{
	return usher_hash_text(usher_endpoints_id(view->endpoints, i), identity);
}

/* Put the root of a heap, whose least is on top, where it belongs. */
static void sift_down(uint64_t *heap, size_t count)
{
	size_t i = 0;

	for (;;) {
		size_t least = i, left = 2 * i + 1, right = left + 1;
		uint64_t value = heap[i];

		if (left < count && heap[left] < heap[least])
			least = left;
		if (right < count && heap[right] < heap[least])
			least = right;
		if (least == i)
			return;
		heap[i] = heap[least];
		heap[least] = value;
		i = least;
	}
}

static void sift_up(uint64_t *heap, size_t i)
{
	while (i > 0 && heap[i] < heap[(i - 1) / 2]) {
		uint64_t value = heap[i];

		heap[i] = heap[(i - 1) / 2];
		heap[(i - 1) / 2] = value;
		i = (i - 1) / 2;
	}
}

/* The least of the `size` highest scores; 0 when there are no more than that. */
static uint64_t least_score(const struct usher_view *view, uint64_t identity, size_t size,
		const uint32_t *candidates, size_t count)
{
	uint64_t heap[SIZE_MAXIMUM] = { 0 };
	size_t weighty = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t score;

		if (view->weights[candidates[i]] == 0)
			continue;
		score = score_of(view, identity, candidates[i]);
		if (weighty < size) {
			heap[weighty] = score;
			sift_up(heap, weighty);
		} else if (score > heap[0]) {
			heap[0] = score;
			sift_down(heap, size);
		}
		weighty++;
	}
	return weighty > size ? heap[0] : 0;
}

/* ---- the stage ---- */

static size_t subset_run(
		const void *instance, struct usher_pass *pass, uint32_t *candidates, size_t count)
{
	const struct subset *s = instance;
	const struct usher_view *view = pass->view;
	size_t size = (size_t) s->size, kept = 0;
	char identity[IDENTITY_MAX];
	uint64_t seed, least;

	write_identity(s, view, identity);
	seed = usher_hash_text(identity, 0);
	least = least_score(view, seed, size, candidates, count);
	if (least == 0)
		return count;
	for (size_t i = 0; i < count && kept < size; i++)
		if (view->weights[candidates[i]] > 0 &&
				score_of(view, seed, candidates[i]) >= least)
			candidates[kept++] = candidates[i];
	return kept;
}

static bool is_drained(const struct usher_view *view, uint32_t i)
{
	return view->weights[i] == 0 ||
			(view->admin_states && view->admin_states[i] != USHER_ADMIN_READY);
}

/* Among all endpoints that are not taken out on purpose, from 1. */
static size_t rank_of(const struct usher_view *view, uint64_t seed, uint32_t candidate)
{
	uint64_t score = score_of(view, seed, candidate);
	size_t count = usher_endpoints_count(view->endpoints), rank = 1;

	for (uint32_t i = 0; i < count; i++)
		rank += !is_drained(view, i) && score_of(view, seed, i) > score;
	return rank;
}

static void subset_explain(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret_text,
		size_t size)
{
	const struct subset *s = instance;
	char identity[IDENTITY_MAX];

	(void) request;
	write_identity(s, view, identity);
	if (view->weights[candidate] == 0)
		(void) snprintf(ret_text, size, "has weight 0, and so no place in the subset");
	else if (usher_endpoints_count(view->endpoints) > RANKS_MAX)
		(void) snprintf(ret_text, size, "not among the %lld for %.64s", (long long) s->size,
				identity);
	else
		(void) snprintf(ret_text, size,
				"not among the %lld for %.64s: rank %zu of the directory",
				(long long) s->size, identity,
				rank_of(view, usher_hash_text(identity, 0), candidate));
}

static void subset_tell(const void *instance, const struct usher_pass *pass,
		const uint32_t *candidates, size_t count, size_t kept, char *ret_text, size_t size)
{
	const struct subset *s = instance;
	char identity[IDENTITY_MAX];

	(void) candidates;
	write_identity(s, pass->view, identity);
	if (kept < count)
		(void) snprintf(ret_text, size, "%zu of %zu, by rank for the identity \"%.128s\"",
				kept, count, identity);
	else
		(void) snprintf(ret_text, size,
				"all %zu, for no more than %lld are wanted for the identity \"%.128s\"",
				count, (long long) s->size, identity);
}

static int subset_init(void *instance, struct usher_error *reterr)
{
	const struct subset *s = instance;

	if (!*s->identity)
		return usher_error_set(reterr, -EINVAL,
				"identity is empty, so that all nodes would use the same endpoints; "
				"leave it out, or write {node}");
	for (const char *at = s->identity; (at = strchr(at, '{')); at++)
		if (!placeholders[find_placeholder(at)])
			return usher_error_set(reterr, -EINVAL,
					"identity: \"%.*s\" is no placeholder; there are {node}, "
					"{zone} and {service}",
					(int) (strcspn(at, "}") + (strchr(at, '}') ? 1 : 0)), at);
	return 0;
}

static const struct usher_option subset_options[] = {
	{ .name = "size",
			.type = USHER_OPTION_INTEGER,
			.offset = offsetof(struct subset, size),
			.help = "How many endpoints stay.",
			.default_text = "20",
			.min = 1,
			.max = SIZE_MAXIMUM },
	{ .name = "identity",
			.type = USHER_OPTION_STRING,
			.offset = offsetof(struct subset, identity),
			.help = "Who chooses; the same identity keeps the same endpoints. {node}, "
				"{zone} and {service} are filled in.",
			.default_text = "{node}" },
	{},
};

USHER_PLUGIN(.name = "subset", .summary = "A few of many, others for each node",
		.instance_size = sizeof(struct subset), .options = subset_options,
		.init = subset_init,
		.stage = &(const struct usher_stage){
				.size = sizeof(struct usher_stage),
				.explain = subset_explain,
				.flags = USHER_STAGE_WHOLE,
				.run = subset_run,
				.tell = subset_tell,
		});
