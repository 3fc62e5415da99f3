/* Discovery from servers of Nacos, and registration at them.
 *
 * HTTP alone: each service is asked for at the interval that the server says. What an answer is
 * worth is watch.c's to say, how a server is talked to access.c's. */

#include "nacos.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "access.h"
#include "duration.h"
#include "names.h"
#include "retry.h"
#include "watch.h"

#define PACKETS_AT_ONCE 256

struct watches {
	struct access access;
	struct usher_source *source;
	struct watch **items;
	size_t count;
	size_t turn;   /* where the next round begins; taken modulo count */
	size_t asking; /* requests under way */
	struct names names;
	struct push push;
	uint64_t random;
};

/* ---- what is wanted ---- */

static struct watch *find(struct watches *all, const struct usher_wanted *wanted, size_t hint)
{
	if (hint < all->count && watch_is_for(all->items[hint], wanted))
		return all->items[hint];
	for (size_t i = 0; i < all->count; i++)
		if (watch_is_for(all->items[i], wanted))
			return all->items[i];
	return NULL;
}

static void drop_unwanted(struct watches *all)
{
	size_t kept = 0;

	for (size_t i = 0; i < all->count; i++) {
		struct watch *w = all->items[i];

		if (w->wanted) {
			all->items[kept++] = w;
			continue;
		}
		all->asking -= w->request != 0;
		if (w->request)
			usher_http_cancel(all->access.http, w->request);
		(void) watch_free(w);
	}
	all->count = kept;
}

static int take_wanted(struct watches *all)
{
	size_t count, before = all->count;
	const struct usher_wanted *wanted = usher_source_wanted(all->source, &count);
	struct watch **items = reallocarray(all->items, before + count + 1,
			sizeof(struct watch *)); // NOLINT(bugprone-sizeof-expression): of pointers

	if (!items)
		return -ENOMEM;
	all->items = items;
	for (size_t i = 0; i < before; i++)
		items[i]->wanted = false;
	for (size_t i = 0; i < count; i++) {
		struct watch *w = find(all, &wanted[i], i);

		if (!w) {
			w = watch_new(&wanted[i]);
			if (!w)
				return -ENOMEM;
			items[all->count++] = w;
		}
		w->wanted = true;
	}
	drop_unwanted(all);
	return 0;
}

/* ---- asking ---- */

static bool has_room(const struct watches *all)
{
	return all->asking < (size_t) all->access.nacos->http.connections;
}

static void ask(struct watches *all, struct watch *w, uint64_t now)
{
	struct usher_error why = { 0 };
	int r = watch_ask(w, &all->access, &all->push);

	if (r < 0) {
		(void) usher_error_set(&why, r, "%s cannot be asked for: %s", w->name,
				usher_error_text(NULL, r));
		watch_fail(w, all->source, r, &why, now, &all->random);
		return;
	}
	all->asking++;
}

/* 0: none. */
static void sooner(uint64_t *next, uint64_t usec)
{
	if (usec != 0 && (*next == 0 || usec < *next))
		*next = usec;
}

static void log_in(struct watches *all, uint64_t now)
{
	struct access *a = &all->access;
	struct usher_error why = { 0 };
	int r = access_login(a, &why);

	if (r == 0)
		return;
	a->due_usec = now + retry_delay_usec(&all->random, ++a->failures);
	usher_source_fail(all->source, NULL, r, &why);
}

/* Ask what is due; returns when the next one is, or 0. */
static uint64_t ask_all(struct watches *all)
{
	uint64_t now = retry_now_usec(), next = 0;
	struct access *a = &all->access;

	if (access_wants_login(a, now))
		log_in(all, now);
	sooner(&next, access_next_login_usec(a));
	if (!access_is_open(a, now))
		return next;
	/* Whoever found no room is the first of the next round. */
	for (size_t i = 0, first = all->turn; i < all->count; i++) {
		size_t at = (first + i) % all->count;
		struct watch *w = all->items[at];

		if (w->request == 0 && w->due_usec <= now && has_room(all)) {
			ask(all, w, now);
			all->turn = at + 1;
		}
		if (w->request == 0 && w->due_usec > now)
			sooner(&next, w->due_usec);
	}
	if (all->names.request == 0 && all->names.due_usec <= now && has_room(all))
		all->asking += names_ask(&all->names, a, now);
	if (all->names.request == 0)
		sooner(&next, all->names.due_usec);
	return next;
}

/* ---- what comes back ---- */

static void take_login(struct watches *all, const struct usher_http_event *event)
{
	struct access *a = &all->access;
	struct usher_error why = { 0 };
	uint64_t now = retry_now_usec();
	int r = access_take_login(a, event, now, &all->random, &why);

	/* While the token of before is good, nobody needs to know; nor of a first path that the
	 * server does not have. */
	if (r < 0 && !access_is_open(a, now) && a->due_usec > now)
		usher_source_fail(all->source, NULL, r, &why);
}

static void take_events(struct watches *all)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;

	while (usher_http_next(all->access.http, &event)) {
		if (event.tag == &all->access) {
			take_login(all, &event);
			continue;
		}
		all->asking--;
		if (event.tag == &all->names)
			names_take(&all->names, all->source, &event, retry_now_usec(),
					&all->random);
		else
			watch_take(event.tag, &all->access, all->source, &event, retry_now_usec(),
					&all->random);
	}
}

static void take_pushes(struct watches *all)
{
	uint64_t now = retry_now_usec();
	char *name;

	for (unsigned i = 0; i < PACKETS_AT_ONCE && push_take(&all->push, now, &name) > 0; i++) {
		for (size_t k = 0; name && k < all->count; k++)
			if (watch_is_named(all->items[k], all->access.nacos, name))
				watch_hint(all->items[k], now);
		free(name);
	}
}

/* It goes without, too, only slower. */
static void open_push(struct watches *all)
{
	struct usher_error why = { 0 };

	all->push = (struct push){ .fd = -1 };
	if (!all->access.nacos->push)
		return;
	if (push_open(&all->push, all->access.nacos, &why) < 0)
		usher_log(USHER_LOG_WARNING, "%s; looking from time to time only", why.text);
	else
		all->access.agent = PUSH_AGENT;
}

static void watches_done(struct watches *all)
{
	for (size_t i = 0; i < all->count; i++)
		(void) watch_free(all->items[i]);
	free(all->items);
	push_close(&all->push);
	names_done(&all->names);
	access_done(&all->access);
}

/* Until the order to stop: 0, or what stands in the way of going on. */
static int watch_all(struct watches *all)
{
	struct usher_wait wait = { .size = sizeof(wait) };

	for (;;) {
		uint64_t next, now;
		int r = take_wanted(all);

		if (r < 0)
			return r;
		next = ask_all(all);
		now = retry_now_usec();
		wait.fd = all->push.fd;
		wait.events = all->push.fd >= 0 ? POLLIN : 0;
		wait.timeout_usec = next == 0 ? 0 : next > now ? next - now : 1;
		r = usher_source_wait(all->source, &wait);
		if (r <= 0)
			return r;
		take_events(all);
		if (r & USHER_WAIT_FD)
			take_pushes(all);
	}
}

static int nacos_run(void *instance, struct usher_source *source)
{
	struct watches all = { .source = source, .random = retry_seed() };
	struct usher_error why = { 0 };
	int r = access_init(&all.access, instance, source, &why);

	if (r < 0) {
		usher_source_fail(source, NULL, r, &why);
		return r;
	}
	open_push(&all);
	r = watch_all(&all);
	watches_done(&all);
	return r;
}

/* ---- the plug-in ---- */

static int nacos_init(void *instance, struct usher_error *reterr)
{
	const struct nacos *n = instance;
	const struct usher_http_options *h = &n->http;
	int r = usher_http_check(h, reterr);

	if (r == 0 && n->poll_usec)
		r = duration_check("poll", n->poll_usec, 100 * USEC_PER_MSEC, 300 * USEC_PER_SEC,
				reterr);
	if (r == 0)
		r = duration_check("beat", n->beat_usec, 1 * USEC_PER_SEC, 3600 * USEC_PER_SEC,
				reterr);
	if (r == 0 && n->push_address && !push_is_address(n->push_address))
		r = usher_error_set(reterr, -EINVAL, "push_address: %.100s is no address",
				n->push_address);
	if (r == 0 && h->user && !h->password && !h->password_file)
		r = usher_error_set(reterr, -EINVAL,
				"user: is given without password or password_file; a login needs both");
	if (r == 0 && h->user && (h->token || h->token_file))
		r = usher_error_set(reterr, -EINVAL,
				"user: is given beside a token; a login makes its own, so remove one of them");
	return r;
}

static void nacos_done(void *instance)
{
	registration_done(instance);
}

static const char *const apis[] = { "auto", "v1", "v3", NULL };

#define OPTION(n, t, field, ...)                                                               \
	{                                                                                      \
		.name = (n), .type = (t), .offset = offsetof(struct nacos, field), __VA_ARGS__ \
	}

static const struct usher_option nacos_options[] = {
	USHER_HTTP_OPTIONS(struct nacos, http),
	OPTION("context_path", USHER_OPTION_STRING, context_path, .default_text = "/nacos",
			.help = "What stands before the paths of the API at every server."),
	OPTION("api", USHER_OPTION_CHOICE, api, .default_text = "auto", .choices = apis,
			.help = "Which API to ask over; auto: v1, which says more, where the server has "
				"it, else v3."),
	OPTION("namespace", USHER_OPTION_STRING, namespace_id, .default_text = "public",
			.help = "The id of the namespace, which is not its name for people."),
	OPTION("group", USHER_OPTION_STRING, group, .default_text = "DEFAULT_GROUP",
			.help = "The group of services whose name does not say it (GROUP@@SERVICE)."),
	OPTION("clusters", USHER_OPTION_STRINGS, clusters,
			.help = "Only instances of these clusters; when absent, of all."),
	OPTION("cluster_is_zone", USHER_OPTION_BOOL, cluster_is_zone, .default_text = "false",
			.help = "Whether an instance whose metadata name no zone is in that of its "
				"cluster's name."),
	OPTION("poll", USHER_OPTION_DURATION, poll_usec,
			.help = "How often to look, 100ms to 300s; when absent, as often as the server "
				"says, which is every 10s."),
	OPTION("push", USHER_OPTION_BOOL, push, .default_text = "true",
			.help = "Whether to be told of changes over UDP by servers that do so."),
	OPTION("push_address", USHER_OPTION_STRING, push_address,
			.help = "The address of this node at which the servers can tell it; when absent, "
				"the one from which the first of them is reached."),
	OPTION("hold", USHER_OPTION_DURATION, hold_usec, .default_text = "25s",
			.help = "For how long it is doubted that instances are gone after a change of "
				"server or connection, or that none is left."),
	OPTION("cluster", USHER_OPTION_STRING, cluster, .default_text = NACOS_CLUSTER,
			.help = "The cluster that what is registered belongs to."),
	OPTION("ephemeral", USHER_OPTION_BOOL, ephemeral, .default_text = "true",
			.help = "Whether what is registered goes by itself when usher gives no sign of "
				"life; false: the server looks after it."),
	OPTION("beat", USHER_OPTION_DURATION, beat_usec, .default_text = "5s",
			.help = "How often to give a sign of life for what is registered; three that "
				"fail make it unhealthy, six take it out."),
	{ 0 },
};

static const struct usher_discovery nacos_discovery = {
	.size = sizeof(nacos_discovery),
	.run = nacos_run,
};

static const struct usher_registration nacos_registration = {
	.size = sizeof(nacos_registration),
	.add = registration_add,
	.renew = registration_renew,
	.set_state = registration_set_state,
	.remove = registration_remove,
	.renew_after_usec = registration_renew_after_usec,
};

USHER_PLUGIN(.name = "nacos", .summary = "Endpoints from Nacos, and registration in it",
		.instance_size = sizeof(struct nacos), .options = nacos_options, .init = nacos_init,
		.done = nacos_done, .discovery = &nacos_discovery,
		.registration = &nacos_registration);
