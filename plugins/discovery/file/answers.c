#include "answers.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "own.h"

/* ---- where a service stands, and what is said of it there ---- */

static const struct catalog_service *service_in(const struct files_entry *e)
{
	return catalog_find(e->file->catalog, e->service);
}

static int fail_absent(const struct files *files, const char *name, struct usher_error *reterr)
{
	const struct file *unknown = files_unknown(files);

	if (unknown)
		return usher_error_set(reterr, unknown->failure, "%s", unknown->reason);
	return usher_error_set(reterr, -ENOENT,
			"%s: nothing there names the service %s; if it is to be empty, write "
			"`%s: []` under `services`",
			files->path, name, name);
}

static int fail_gone(const struct files_entry *e, struct usher_error *reterr)
{
	return usher_error_set(reterr, -ENOENT,
			"%s: the file that named the service %s is gone; if the service is to be "
			"empty, write `%s: []` under `services`",
			e->file->path, e->service, e->service);
}

static int fail_twice(const struct files_entry *a, const struct files_entry *b,
		struct usher_error *reterr)
{
	const struct catalog_service *one = service_in(a), *other = service_in(b);

	return usher_error_set(reterr, -EEXIST,
			"%s:%u:%u: the service %s stands here and in %s:%u:%u; keep it in one of "
			"them",
			b->file->path, other->line, other->column, b->service, a->file->path,
			one->line, one->column);
}

/* Files of a format whose services may be spread say it together; any other pair contradicts. */
static int check_entries(const struct files_entry *entries, size_t count,
		const struct files_entry **ret_first, struct usher_error *reterr)
{
	const struct files_entry *first = NULL;

	for (size_t i = 0; i < count; i++)
		if (!entries[i].file->is_gone && entries[i].file->failure != 0)
			return usher_error_set(reterr, entries[i].file->failure, "%s",
					entries[i].file->reason);
	for (size_t i = 0; i < count; i++) {
		const struct format *format = entries[i].file->catalog->format;

		if (entries[i].file->is_gone)
			continue;
		if (first && (!format->merges || format != first->file->catalog->format))
			return fail_twice(first, &entries[i], reterr);
		if (!first)
			first = &entries[i];
	}
	if (!first)
		return fail_gone(&entries[0], reterr);
	*ret_first = first;
	return 0;
}

static int build_from(const struct files_entry *entries, size_t count, const char *port,
		struct usher_endpoints *set, struct usher_error *reterr)
{
	autofree struct part *parts = NULL;
	const struct format *format = NULL;
	size_t total = 0, n = 0;

	for (size_t i = 0; i < count; i++)
		total += service_in(&entries[i])->count;
	parts = calloc(total, sizeof(*parts));
	if (!parts)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++) {
		const struct catalog *c = entries[i].file->catalog;
		const struct catalog_service *s = service_in(&entries[i]);

		if (entries[i].file->is_gone)
			continue;
		format = c->format;
		memcpy(parts + n, c->parts + s->first, s->count * sizeof(*parts));
		n += s->count;
	}
	assert(format); /* for one of the files is there */
	return format->build(set, parts, n, port, reterr);
}

static int fail_port(
		const struct files_entry *e, const struct answer *a, struct usher_error *reterr)
{
	const struct catalog_service *s = service_in(e);

	return usher_error_set(reterr, -EINVAL,
			"%s:%u:%u: the port %s of the service %s is asked for, but in %s an "
			"endpoint has one port only; leave `port` away for this source",
			e->file->path, s->line, s->column, a->port, a->name,
			e->file->catalog->format->title);
}

static int decide(const struct files *files, const struct answer *a, struct usher_endpoints **ret,
		bool *ret_is_doubtful, struct usher_error *reterr)
{
	cleanup(own_unref_endpoints) struct usher_endpoints *set = NULL;
	const struct files_entry *entries, *first = NULL;
	const struct format *format;
	size_t count;
	int r;

	if (files->failure != 0)
		return usher_error_set(reterr, files->failure, "%s", files->reason);
	entries = files_find(files, a->name, &count);
	if (count == 0)
		return fail_absent(files, a->name, reterr);
	r = check_entries(entries, count, &first, reterr);
	if (r < 0)
		return r;
	assert(first);
	format = first->file->catalog->format;
	if (a->port && !format->has_ports)
		return fail_port(first, a, reterr);

	if (count == 1 && service_in(first)->set) {
		set = usher_endpoints_ref(service_in(first)->set);
	} else {
		set = usher_endpoints_new();
		if (!set)
			return usher_error_set(reterr, -ENOMEM, "out of memory");
		r = build_from(entries, count, a->port, set, reterr);
		if (r < 0)
			return r;
		usher_endpoints_seal(set);
	}
	*ret_is_doubtful = false;
	for (size_t i = 0; i < count; i++)
		*ret_is_doubtful |= entries[i].file->has_shrunk || entries[i].file->is_gone;
	*ret = take(set);
	return 0;
}

/* ---- telling ---- */

/* Fewer, after a file was cut short in place or one of several went: that may be meant, and may be
 * an accident. Saying it once more makes it no surer. */
static enum usher_verdict judge(
		const struct answer *a, const struct usher_endpoints *set, bool is_doubtful)
{
	if (a->set && usher_endpoints_equal(a->set, set))
		return a->verdict;
	if (is_doubtful && a->set && usher_endpoints_count(set) < usher_endpoints_count(a->set))
		return USHER_SUSPECT;
	return USHER_FRESH;
}

static int tell_failure(struct answer *a, struct usher_source *source, int code,
		const struct usher_error *why)
{
	char *reason = strdup(usher_error_text(why, code));

	usher_source_fail(source, a->service, code, why);
	if (!reason)
		return -ENOMEM;
	free(a->reason);
	a->reason = reason;
	a->failure = code;
	return 0;
}

static int tell_anew(struct answer *a, struct usher_source *source, const struct files *files,
		uint64_t observed_usec)
{
	struct usher_endpoints *set = NULL;
	struct usher_error why = { 0 };
	enum usher_verdict verdict;
	bool is_doubtful = false;
	int r = decide(files, a, &set, &is_doubtful, &why);

	if (r < 0)
		return tell_failure(a, source, r, &why);
	verdict = judge(a, set, is_doubtful);
	if (a->set && usher_endpoints_equal(a->set, set)) {
		/* The host has the other one already: keep one of them. */
		(void) usher_endpoints_unref(set);
		set = usher_endpoints_ref(a->set);
	} else {
		(void) usher_endpoints_unref(a->set);
		a->set = usher_endpoints_ref(set);
	}
	a->verdict = verdict;
	a->failure = 0;
	r = usher_source_offer(source, a->service, set, verdict, NULL, observed_usec);
	return r == -ENOENT ? 0 : r;
}

static void tell_again(struct answer *a, struct usher_source *source, uint64_t observed_usec)
{
	struct usher_error why = { 0 };

	if (a->failure == 0) {
		usher_source_confirm(source, a->service, observed_usec);
		return;
	}
	(void) usher_error_set(&why, a->failure, "%s", a->reason);
	usher_source_fail(source, a->service, a->failure, &why);
}

static void answer_done(struct answer *a)
{
	(void) usher_endpoints_unref(a->set);
	free(a->service);
	free(a->name);
	free(a->port);
	free(a->reason);
}

static int compare_answers(const void *a, const void *b)
{
	return strcmp(((const struct answer *) a)->service, ((const struct answer *) b)->service);
}

static bool is_same_port(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Take over what was said of it before, when it asks for the same. */
static void inherit(struct answer *to, const struct answers *from)
{
	struct answer *old = from->count == 0
			? NULL
			: bsearch(to, from->all, from->count, sizeof(*to), compare_answers);

	if (!old || strcmp(old->name, to->name) != 0 || !is_same_port(old->port, to->port))
		return;
	to->set = take(old->set);
	to->verdict = old->verdict;
	to->reason = take(old->reason);
	to->failure = old->failure;
}

static int fill(struct answer *a, const struct usher_wanted *w)
{
	a->service = strdup(w->service);
	a->name = strdup(w->name);
	a->port = w->port ? strdup(w->port) : NULL;
	return a->service && a->name && (a->port || !w->port) ? 0 : -ENOMEM;
}

static int collect_wanted(struct answers *ret, const struct usher_wanted *wanted, size_t count)
{
	ret->all = calloc(count + 1, sizeof(*ret->all));
	if (!ret->all)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (fill(&ret->all[ret->count++], &wanted[i]) < 0)
			return -ENOMEM;
	if (ret->count > 1)
		qsort(ret->all, ret->count, sizeof(*ret->all), compare_answers);
	return 0;
}

static int follow_wanted(struct answers *a, struct usher_source *source)
{
	struct answers now = { 0 };
	size_t count = 0;
	const struct usher_wanted *wanted = usher_source_wanted(source, &count);
	int r = collect_wanted(&now, wanted, count);

	if (r < 0) {
		answers_done(&now);
		return r;
	}
	for (size_t i = 0; i < now.count; i++)
		inherit(&now.all[i], a);
	answers_done(a);
	*a = now;
	return 0;
}

static int tell_known(struct usher_source *source, const struct files *files)
{
	autofree const char **names = calloc(files->index_count + 1, sizeof(*names));
	size_t count = 0;

	if (!names)
		return -ENOMEM;
	for (size_t i = 0; i < files->index_count; i++) {
		const struct files_entry *e = &files->index[i];

		if (!e->file->is_gone && (count == 0 || strcmp(names[count - 1], e->service) != 0))
			names[count++] = e->service;
	}
	usher_source_known(source, names, count);
	return 0;
}

int answers_tell(struct answers *a, struct usher_source *source, const struct files *files,
		int change, uint64_t observed_usec)
{
	int r = follow_wanted(a, source);

	if (r == 0 && (change & FILES_CHANGED))
		r = tell_known(source, files);
	for (size_t i = 0; r == 0 && i < a->count; i++) {
		struct answer *one = &a->all[i];
		bool is_new = !one->set && one->failure == 0;

		if ((change & FILES_CHANGED) || is_new)
			r = tell_anew(one, source, files, observed_usec);
		else if (!(change & FILES_UNSETTLED))
			tell_again(one, source, observed_usec);
	}
	return r;
}

void answers_done(struct answers *a)
{
	for (size_t i = 0; i < a->count; i++)
		answer_done(&a->all[i]);
	free(a->all);
	*a = (struct answers){ 0 };
}
