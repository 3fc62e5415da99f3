#include "services.h"

#include <errno.h>
#include <string.h>

#include "own-json.h"

/* ---- what is wanted ---- */

static void service_done(struct service *s)
{
	(void) usher_endpoints_unref(s->set);
	free(s->service);
	free(s->name);
	free(s->port);
}

void services_done(struct services *s)
{
	for (size_t i = 0; i < s->count; i++)
		service_done(&s->items[i]);
	free(s->items);
	*s = (struct services){ 0 };
}

static int service_init(struct service *s, const struct usher_wanted *wanted)
{
	*s = (struct service){ .wanted = true };
	s->service = strdup(wanted->service);
	s->name = strdup(wanted->name);
	s->port = wanted->port ? strdup(wanted->port) : NULL;
	if (!s->service || !s->name || (wanted->port && !s->port)) {
		service_done(s);
		return -ENOMEM;
	}
	s->key = instance_key(s->name, strlen(s->name));
	return 0;
}

static bool is_for(const struct service *s, const struct usher_wanted *wanted)
{
	if (strcmp(s->service, wanted->service) != 0 || strcmp(s->name, wanted->name) != 0)
		return false;
	return s->port && wanted->port ? strcmp(s->port, wanted->port) == 0
				       : s->port == wanted->port;
}

/* What was wanted before mostly is where it was. */
static struct service *find(struct services *s, const struct usher_wanted *wanted, size_t hint)
{
	if (hint < s->count && is_for(&s->items[hint], wanted))
		return &s->items[hint];
	for (size_t i = 0; i < s->count; i++)
		if (is_for(&s->items[i], wanted))
			return &s->items[i];
	return NULL;
}

static void drop_unwanted(struct services *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->count; i++) {
		if (s->items[i].wanted)
			s->items[kept++] = s->items[i];
		else
			service_done(&s->items[i]);
	}
	s->count = kept;
}

int services_take(struct services *s, struct usher_source *source)
{
	size_t count, before = s->count;
	const struct usher_wanted *wanted = usher_source_wanted(source, &count);
	struct service *items = reallocarray(s->items, before + count + 1, sizeof(*items));

	if (!items)
		return -ENOMEM;
	s->items = items;
	for (size_t i = 0; i < before; i++)
		items[i].wanted = false;
	for (size_t i = 0; i < count; i++) {
		struct service *known = find(s, &wanted[i], i);

		if (known) {
			known->wanted = true;
			continue;
		}
		if (service_init(&items[s->count], &wanted[i]) < 0)
			return -ENOMEM;
		s->count++;
	}
	drop_unwanted(s);
	return 0;
}

/* ---- what is there ---- */

/* A service in the registry. */
struct found {
	struct usher_endpoints *set;
	size_t instances, missing;
	uint64_t seen_usec; /* when the last of those that are missing was listed */
	size_t skipped;     /* instances that cannot be used */
	struct usher_error first_skip;
};

static void found_done(struct found *f)
{
	f->set = usher_endpoints_unref(f->set);
}

static int add(struct found *f, const struct instance *i, const struct instance_options *options)
{
	struct usher_error why = { 0 };
	int r;

	f->instances++;
	if (i->missing_usec != 0) {
		f->missing++;
		if (f->seen_usec == 0 || i->seen_usec < f->seen_usec)
			f->seen_usec = i->seen_usec;
	}
	r = instance_add_to(i, options, f->set, &why);
	if (r == 0 || r == -ENOMEM)
		return r;
	if (r == -E2BIG && usher_endpoints_count(f->set) == USHER_ENDPOINTS_MAX)
		return r;
	if (f->skipped++ == 0)
		f->first_skip = why;
	return 0;
}

static int look_up(const struct service *s, const struct services_news *news, struct found *ret)
{
	const struct instance_options options = {
		.by = (enum instance_by) news->eureka->by,
		.hostname = news->eureka->address == 1,
		.port = s->port,
	};
	size_t count;
	const struct registry_entry *entries = registry_find(news->registry, s->key, &count);
	struct found f = { .set = usher_endpoints_new() };
	int r = f.set ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && r == 0; i++)
		r = add(&f, entries[i].instance, &options);
	if (r < 0) {
		found_done(&f);
		return r;
	}
	usher_endpoints_seal(f.set);
	*ret = f;
	return 0;
}

/* ---- what is said of it ---- */

static void offer(struct service *s, const struct services_news *news, const struct found *f,
		enum usher_verdict verdict, uint64_t observed_usec)
{
	(void) usher_endpoints_unref(s->set);
	s->set = usher_endpoints_ref(f->set);
	s->told = true;
	(void) usher_source_offer(news->source, s->service, usher_endpoints_ref(f->set), verdict,
			news->revision, observed_usec);
}

static void fail(struct service *s, const struct services_news *news, int code,
		const struct usher_error *why)
{
	s->told = false;
	usher_source_fail(news->source, s->service, code, why);
}

static void tell_of_skipped(struct service *s, const struct found *f)
{
	if (f->skipped != s->skipped && f->skipped > 0)
		usher_log(USHER_LOG_WARNING, "%zu of %zu instances of %s cannot be used: %s",
				f->skipped, f->instances, s->name, f->first_skip.text);
	s->skipped = f->skipped;
}

/* Those that are missing stay, as old as they are; and what the service is missing is said. */
static void tell_missing(struct service *s, const struct services_news *news, const struct found *f)
{
	struct usher_error why = { 0 };

	if (!s->set || !usher_endpoints_equal(s->set, f->set))
		offer(s, news, f, USHER_FRESH, f->seen_usec);
	(void) usher_error_set(&why, -EAGAIN,
			"%s lists %zu of %zu instances, and has not said that the others were taken "
			"out: it may have been started again, or miss them; they stay for up to "
			"%llu s in all",
			news->server, f->instances - f->missing, f->instances,
			(unsigned long long) (news->eureka->settle_usec / 1000000));
	fail(s, news, -EAGAIN, &why);
}

static void tell_none_yet(struct service *s, const struct services_news *news)
{
	struct usher_error why = { 0 };

	(void) usher_error_set(&why, -EAGAIN,
			"%s lists no instance of %s, but has not known any instance for longer than "
			"a moment: it may have been started just now, and is believed after %llu s",
			news->server, s->name,
			(unsigned long long) (news->eureka->settle_usec / 1000000));
	fail(s, news, -EAGAIN, &why);
}

static void tell_found(struct service *s, const struct services_news *news, const struct found *f)
{
	struct usher_error why = { 0 };

	tell_of_skipped(s, f);
	if (f->instances == 0 && news->young) {
		tell_none_yet(s, news);
	} else if (f->instances > 0 && usher_endpoints_count(f->set) == 0) {
		(void) usher_error_set(&why, f->first_skip.code,
				"none of the %zu instances of %s can be used: %s", f->instances,
				s->name, f->first_skip.text);
		fail(s, news, why.code, &why);
	} else if (f->missing > 0) {
		tell_missing(s, news, f);
	} else {
		offer(s, news, f, news->young ? USHER_SUSPECT : USHER_FRESH, news->observed_usec);
	}
}

static void tell(struct service *s, const struct services_news *news)
{
	cleanup(found_done) struct found f = { 0 };
	struct usher_error why = { 0 };
	int r;

	if (s->told && !registry_is_touched(news->registry, s->key)) {
		usher_source_confirm(news->source, s->service, news->observed_usec);
		return;
	}
	r = look_up(s, news, &f);
	if (r == -E2BIG)
		(void) usher_error_set(&why, r, "%s has more than %d instances", s->name,
				USHER_ENDPOINTS_MAX);
	else if (r < 0)
		(void) usher_error_set(&why, r, "out of memory");
	if (r < 0)
		fail(s, news, r, &why);
	else
		tell_found(s, news, &f);
}

void services_tell(struct services *s, const struct services_news *news)
{
	for (size_t i = 0; i < s->count; i++)
		tell(&s->items[i], news);
}

void services_tell_new(struct services *s, const struct services_news *news)
{
	for (size_t i = 0; i < s->count; i++)
		if (!s->items[i].told && !s->items[i].set)
			tell(&s->items[i], news);
}
