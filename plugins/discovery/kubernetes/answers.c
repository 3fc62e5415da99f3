#include "answers.h"

#include <errno.h>
#include <string.h>

#include "feed.h"
#include "own.h"
#include "slices.h"

static void answer_done(struct answer *a)
{
	free(a->service);
	free(a->space);
	free(a->name);
	free(a->port);
	(void) usher_endpoints_unref(a->told);
	*a = (struct answer){ 0 };
}

void answers_done(struct watcher *w)
{
	for (size_t i = 0; i < w->answer_count; i++)
		answer_done(&w->answers[i]);
	free(w->answers);
	w->answers = NULL;
	w->answer_count = 0;
}

/* ---- what is wanted ---- */

static const char *default_space(const struct watcher *w)
{
	return w->options->space ? w->options->space : w->access->space;
}

/* "SERVICE" or "NAMESPACE/SERVICE". */
static int init_answer(
		const struct watcher *w, const struct usher_wanted *wanted, struct answer *ret)
{
	const char *slash = strchr(wanted->name, '/');
	struct answer a = { .is_due = true, .pods_are_due = true };

	a.service = strdup(wanted->service);
	a.name = strdup(slash ? slash + 1 : wanted->name);
	a.space = slash ? strndup(wanted->name, (size_t) (slash - wanted->name))
			: strdup(default_space(w));
	a.port = wanted->port ? strdup(wanted->port) : NULL;
	if (!a.service || !a.name || !a.space || (wanted->port && !a.port)) {
		answer_done(&a);
		return -ENOMEM;
	}
	*ret = a;
	return 0;
}

static bool is_same(const struct answer *a, const struct answer *b)
{
	if (!a->port != !b->port || (a->port && strcmp(a->port, b->port) != 0))
		return false;
	return strcmp(a->service, b->service) == 0 && strcmp(a->name, b->name) == 0 &&
			strcmp(a->space, b->space) == 0;
}

/* What is wanted as before keeps what is known of it. */
static void take_over(struct watcher *w, struct answer *a)
{
	for (size_t i = 0; i < w->answer_count; i++) {
		struct answer *old = &w->answers[i];

		if (!old->service || !is_same(old, a))
			continue;
		a->told = take(old->told);
		a->is_failed = old->is_failed;
		a->was_there = old->was_there;
		a->settle_usec = old->settle_usec;
		a->pods_said = old->pods_said;
		a->left_out = old->left_out;
		answer_done(old);
		return;
	}
}

/* What a label and a part of a path can be (RFC 1123). */
static bool is_name(const char *text)
{
	size_t length = strlen(text);

	return length > 0 && length <= 253 &&
			strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") == length;
}

static struct feed *find_feed(const struct watcher *w, const char *space)
{
	for (size_t i = 0; i < w->feed_count; i++)
		if (!w->feeds[i]->space || strcmp(w->feeds[i]->space, space) == 0)
			return w->feeds[i];
	return NULL;
}

static int add_feed(struct watcher *w, const char *space, struct feed **ret)
{
	struct feed **feeds;

	if (w->feed_count == FEEDS_MAX)
		return -E2BIG;
	feeds = reallocarray(w->feeds, w->feed_count + 1, sizeof(struct feed *));
	if (!feeds)
		return -ENOMEM;
	w->feeds = feeds;
	*ret = feed_new(&kind_slices, w->options->scope == SCOPE_CLUSTER ? NULL : space);
	if (!*ret)
		return -ENOMEM;
	w->feeds[w->feed_count++] = *ret;
	return 0;
}

static int refuse(struct watcher *w, struct answer *a, int code)
{
	struct usher_error why = { 0 };

	if (code == -E2BIG)
		(void) usher_error_set(&why, code,
				"more than %d namespaces are in question; use `watch: cluster`",
				FEEDS_MAX);
	else
		(void) usher_error_set(&why, code,
				"%s/%s is no name of a Service; it is SERVICE or NAMESPACE/SERVICE, "
				"of small letters, digits, - and .",
				a->space, a->name);
	usher_source_fail(w->source, a->service, code, &why);
	a->is_failed = true;
	a->is_due = false;
	return 0;
}

static int find_or_add_feed(struct watcher *w, struct answer *a)
{
	int r;

	if (!is_name(a->name) || !is_name(a->space))
		return refuse(w, a, -EINVAL);
	a->feed = find_feed(w, a->space);
	if (a->feed)
		return 0;
	r = add_feed(w, a->space, &a->feed);
	return r == -E2BIG ? refuse(w, a, r) : r;
}

static void forget_unused_feeds(struct watcher *w)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->feed_count; i++) {
		bool is_used = false;

		for (size_t k = 0; k < w->answer_count; k++)
			is_used |= w->answers[k].feed == w->feeds[i];
		if (is_used)
			w->feeds[kept++] = w->feeds[i];
		else
			(void) feed_free(w, w->feeds[i]);
	}
	w->feed_count = kept;
}

/* With more of them all of the namespace are asked for. */
#define SELECTOR_NAMES_MAX 100
#define SELECTOR_BYTES_MAX 8192

/* Which slices of its namespace the feed needs: "kubernetes.io/service-name in (a,b)", and what the
 * options say. ret: NULL: all. */
static int write_selector(const struct watcher *w, const struct feed *f, char **ret)
{
	const char *more = w->options->selector;
	cleanup(own_free) char *text = NULL;
	size_t size = 0, names = 0;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return -ENOMEM;
	for (size_t i = 0; i < w->answer_count; i++) {
		if (w->answers[i].feed != f)
			continue;
		(void) fprintf(out, "%s%s", names ? "," : SLICE_SERVICE_LABEL " in (",
				w->answers[i].name);
		names++;
	}
	(void) fprintf(out, ")%s%s", more ? "," : "", more ? more : "");
	if (fclose(out) != 0)
		return -ENOMEM;
	if (names > SELECTOR_NAMES_MAX || size > SELECTOR_BYTES_MAX ||
			w->options->scope != SCOPE_WANTED) {
		free(text);
		text = more ? strdup(more) : NULL;
		if (more && !text)
			return -ENOMEM;
	}
	*ret = take(text);
	return 0;
}

static int select_services(struct watcher *w)
{
	for (size_t i = 0; i < w->feed_count; i++) {
		struct feed *f = w->feeds[i];
		char *selector = NULL;
		int r = write_selector(w, f, &selector);

		if (r < 0)
			return r;
		if (!selector == !f->selector && (!selector || strcmp(selector, f->selector) == 0))
			free(selector);
		else
			feed_select(w, f, selector);
	}
	return 0;
}

int answers_take_wanted(struct watcher *w)
{
	size_t count = 0, taken = 0;
	const struct usher_wanted *wanted = usher_source_wanted(w->source, &count);
	struct answer *answers = calloc(count + 1, sizeof(*answers));
	int r = answers ? 0 : -ENOMEM;

	for (; r == 0 && taken < count; taken++) {
		r = init_answer(w, &wanted[taken], &answers[taken]);
		if (r < 0)
			break;
		take_over(w, &answers[taken]);
	}
	answers_done(w);
	w->answers = answers;
	w->answer_count = taken;
	for (size_t i = 0; r == 0 && i < taken; i++)
		r = find_or_add_feed(w, &w->answers[i]);
	if (r < 0)
		return r;
	forget_unused_feeds(w);
	return select_services(w);
}

/* ---- what is told ---- */

void answers_mark(struct watcher *w, const struct feed *f, const char *space, const char *service)
{
	for (size_t i = 0; i < w->answer_count; i++) {
		struct answer *a = &w->answers[i];

		if (a->feed == f &&
				(!service ||
						(strcmp(a->name, service) == 0 &&
								strcmp(a->space, space) == 0)))
			a->is_due = true;
	}
}

void answers_fail(struct watcher *w, const struct feed *f, int code, const struct usher_error *why)
{
	for (size_t i = 0; i < w->answer_count; i++)
		if (w->answers[i].feed == f)
			usher_source_fail(w->source, w->answers[i].service, code, why);
}

void answers_confirm(struct watcher *w, const struct feed *f, uint64_t observed_usec)
{
	for (size_t i = 0; i < w->answer_count; i++) {
		const struct answer *a = &w->answers[i];

		if (a->feed == f && a->told && !a->is_failed)
			usher_source_confirm(w->source, a->service, observed_usec);
	}
}

/* Slices and endpoints that cannot be used. Whoever may write one slice of a Service cannot keep
 * the others from being followed. */
struct left_out {
	size_t count;
	struct usher_error first;
};

static void leave_out(struct left_out *l, int code, const struct slice *s, const char *why)
{
	if (l->count++ == 0)
		(void) usher_error_set(
				&l->first, code, "EndpointSlice %s/%s: %s", s->space, s->name, why);
}

/* Returns how many are left, in front. */
static size_t keep_faultless(const struct slice **slices, size_t count, struct left_out *l)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		char why[USHER_ERROR_TEXT_MAX];

		if (!slices[i]->fault) {
			slices[kept++] = slices[i];
			continue;
		}
		(void) snprintf(why, sizeof(why), "%s: is not what the API says it is",
				slices[i]->fault);
		leave_out(l, -EBADMSG, slices[i], why);
	}
	return kept;
}

static void free_choices(struct slice_choices *c)
{
	free(c->all);
}

static int add_choices(struct usher_endpoints *set, const struct slice_choices *choices,
		struct left_out *l, struct usher_error *reterr)
{
	for (size_t i = 0; i < choices->count; i++) {
		const struct slice *s = choices->all[i].slice;
		struct usher_label labels[USHER_METADATA_MAX];
		struct usher_error why = { 0 };
		struct usher_endpoint e;
		int r = slices_describe(&choices->all[i], labels, &e, &why);

		if (r == 0)
			r = usher_endpoints_add(set, &e, &why);
		if (r == -ENOMEM ||
				(r == -E2BIG && usher_endpoints_count(set) == USHER_ENDPOINTS_MAX))
			return usher_error_set(reterr, r, "EndpointSlice %s/%s: %s", s->space,
					s->name, usher_error_text(&why, r));
		if (r < 0)
			leave_out(l, r, s, usher_error_text(&why, r));
	}
	return 0;
}

static void free_endpoints(struct usher_endpoints **e)
{
	(void) usher_endpoints_unref(*e);
}

static void tell_of_left_out(struct answer *a, const struct left_out *l)
{
	if (l->count != a->left_out && l->count > 0)
		usher_log(USHER_LOG_WARNING,
				"%zu slices or endpoints of Service %s/%s cannot be used: %s; leaving "
				"them out",
				l->count, a->space, a->name, l->first.text);
	a->left_out = l->count;
}

/* Put all slices of a service together. */
static int build(const struct slice **slices, size_t count, struct answer *a,
		struct usher_endpoints **ret, struct usher_error *reterr)
{
	cleanup(free_endpoints) struct usher_endpoints *set = usher_endpoints_new();
	cleanup(free_choices) struct slice_choices choices = { 0 };
	struct left_out l = { 0 };
	int r;

	if (!set)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	count = keep_faultless(slices, count, &l);
	if ((r = slices_choose(slices, count, a->name, a->port, &choices, reterr)) < 0 ||
			(r = add_choices(set, &choices, &l, reterr)) < 0)
		return r;
	if (l.count > 0 && usher_endpoints_count(set) == 0)
		return usher_error_set(reterr, l.first.code, "%s", l.first.text);
	tell_of_left_out(a, &l);
	if (choices.conflicts > 0)
		usher_log(USHER_LOG_DEBUG,
				"Service %s/%s: %zu entries of its slices claim an address that "
				"another has; the newer slice or the ready endpoint counts",
				a->space, a->name, choices.conflicts);
	*ret = take(set);
	return 0;
}

/* Add what was told and is gone. Returns how many, or a negative errno. */
static int keep_gone(struct usher_endpoints *set, const struct usher_endpoints *told)
{
	size_t count = told ? usher_endpoints_count(told) : 0;
	int kept = 0;

	for (size_t i = 0; i < count; i++) {
		struct usher_label labels[USHER_METADATA_MAX];
		struct usher_endpoint e = USHER_ENDPOINT_INIT;
		int r;

		if (usher_endpoints_find(set, usher_endpoints_id(told, i)) >= 0)
			continue;
		usher_endpoints_get(told, i, &e);
		for (size_t k = 0; k < e.metadata_count; k++)
			labels[k] = usher_endpoints_metadata_at(told, i, k);
		e.metadata = labels;
		r = usher_endpoints_add(set, &e, NULL);
		if (r < 0)
			return r;
		kept++;
	}
	return kept;
}

/* All slices of a Service go only with the Service itself: one without endpoints has a slice that
 * is empty. */
static int judge_absence(const struct answer *a, struct usher_endpoints **ret,
		enum usher_verdict *ret_verdict, struct usher_error *reterr)
{
	if (!a->was_there)
		return usher_error_set(reterr, -ENOENT,
				"no EndpointSlice is of Service %s in namespace %s: there is no such "
				"Service, or one without a selector",
				a->name, a->space);
	*ret = usher_endpoints_new();
	*ret_verdict = USHER_SUSPECT;
	return *ret ? 0 : usher_error_set(reterr, -ENOMEM, "out of memory");
}

/* The slices of a service: ret is the caller's to free. */
static int find_slices(const struct answer *a, const struct slice ***ret, size_t *ret_count)
{
	const struct shelf *shelf = &a->feed->shelf;
	const struct slice **found = calloc(shelf->count + 1, sizeof(const struct slice *));
	size_t count = 0;

	if (!found)
		return -ENOMEM;
	for (size_t i = 0; i < shelf->count; i++) {
		const struct slice *s = shelf->all[i];

		if (s->service && strcmp(s->service, a->name) == 0 &&
				strcmp(s->space, a->space) == 0)
			found[count++] = s;
	}
	*ret = found;
	*ret_count = count;
	return 0;
}

static int find_set(struct answer *a, struct usher_endpoints **ret, size_t *ret_slices,
		enum usher_verdict *ret_verdict, struct usher_error *reterr)
{
	autofree const struct slice **slices = NULL;
	int r = find_slices(a, &slices, ret_slices);

	if (r < 0)
		return usher_error_set(reterr, r, "out of memory");
	if (*ret_slices == 0)
		return judge_absence(a, ret, ret_verdict, reterr);
	*ret_verdict = a->feed->is_suspect ? USHER_SUSPECT : USHER_FRESH;
	return build(slices, *ret_slices, a, ret, reterr);
}

/* What is gone is held for a moment, and what is new told at once. */
static int hold_gone(const struct watcher *w, struct answer *a, struct usher_endpoints *set,
		uint64_t now_usec)
{
	bool is_over = a->settle_usec && now_usec >= a->settle_usec;
	int kept = is_over ? 0 : keep_gone(set, a->told);

	if (kept < 0)
		return kept;
	a->is_due = kept > 0;
	if (kept == 0)
		a->settle_usec = 0;
	else if (a->settle_usec == 0)
		a->settle_usec = now_usec + w->options->settle_usec;
	return 0;
}

static void tell(struct watcher *w, struct answer *a, uint64_t now_usec)
{
	cleanup(free_endpoints) struct usher_endpoints *set = NULL;
	enum usher_verdict verdict = USHER_FRESH;
	struct usher_error why = { 0 };
	size_t slices = 0;
	int r;

	a->is_due = false;
	r = find_set(a, &set, &slices, &verdict, &why);
	if (r == 0)
		r = hold_gone(w, a, set, now_usec);
	if (r < 0) {
		a->is_failed = true;
		a->settle_usec = 0;
		usher_source_fail(w->source, a->service, r, &why);
		return;
	}
	a->was_there |= slices > 0;
	a->is_failed = false;
	(void) usher_endpoints_unref(a->told);
	a->told = usher_endpoints_ref(set);
	a->pods_are_due = true;
	(void) usher_source_offer(w->source, a->service, take(set), verdict, a->feed->version.text,
			a->feed->proven_usec);
}

uint64_t answers_tell(struct watcher *w, uint64_t now_usec)
{
	uint64_t due = 0;

	for (size_t i = 0; i < w->answer_count; i++) {
		struct answer *a = &w->answers[i];

		if (!a->feed || !a->is_due || !feed_is_current(a->feed))
			continue;
		tell(w, a, now_usec);
		if (a->is_due && (due == 0 || a->settle_usec < due))
			due = a->settle_usec;
	}
	return due;
}
