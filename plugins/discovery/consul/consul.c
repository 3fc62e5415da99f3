/* Discovery from an agent of Consul, and registration at it.
 *
 * One blocking query a service, for as many services as there are connections to spare; the rest
 * is looked at every `poll`. What an answer is worth is watch.c's to say. */

#include "consul.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "duration.h"
#include "query.h"
#include "retry.h"
#include "watch.h"

#define NAMES_USEC (30 * USEC_PER_SEC)

struct watches {
	const struct consul *consul;
	struct usher_source *source;
	struct usher_http *http;
	struct watch **items;
	size_t count;
	size_t turn;             /* where the next round begins; taken modulo count */
	size_t asking, blocking; /* requests under way, and those of them that wait */
	uint64_t names_request, names_due_usec;
	unsigned names_failures;
	uint64_t random;
};

int consul_open(const struct consul *c, struct usher_source *source, struct usher_http **ret,
		struct usher_error *reterr)
{
	const struct usher_http_config config = {
		.size = sizeof(config),
		.options = &c->http,
		.auth = USHER_HTTP_AUTH_TOKEN,
		.token_header = "X-Consul-Token",
	};

	return usher_http_new(source, &config, ret, reterr);
}

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

static void settle(struct watches *all, struct watch *w)
{
	if (w->request == 0)
		return;
	all->asking--;
	all->blocking -= w->asked == WATCH_BLOCKING;
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
		settle(all, w);
		if (w->request)
			usher_http_cancel(all->http, w->request);
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

static size_t connections(const struct watches *all)
{
	return (size_t) all->consul->http.connections;
}

/* Where there are more services than connections, a quarter of these is for those that do not
 * wait. */
static bool may_block(const struct watches *all)
{
	size_t most = all->count < connections(all) ? connections(all) : connections(all) * 3 / 4;

	return all->blocking < most;
}

static void ask(struct watches *all, struct watch *w, uint64_t now)
{
	struct usher_error why = { 0 };
	bool block = may_block(all);
	int r = watch_ask(w, all->consul, all->http, block, now);

	if (r < 0) {
		(void) usher_error_prefix(&why, r, "%s cannot be asked for", w->name);
		usher_source_fail(all->source, w->service, r, &why);
		w->due_usec = now + retry_delay_usec(&all->random, ++w->failures);
		return;
	}
	all->asking++;
	all->blocking += w->asked == WATCH_BLOCKING;
}

static void ask_names(struct watches *all, uint64_t now)
{
	struct usher_http_request request = { .size = sizeof(request) };
	struct query q;

	query_start(&q, "/v1/catalog/services", "");
	query_add_if(&q, "dc", all->consul->datacenter);
	query_add_if(&q, "ns", all->consul->namespace_name);
	query_add_if(&q, "partition", all->consul->partition);
	query_add(&q, "stale", NULL);
	request.path = q.text;
	all->names_due_usec = now + NAMES_USEC;
	if (!q.full && usher_http_start(all->http, &request, &all->names_request) == 0)
		all->asking++;
}

/* Ask what is due; returns when the next one is, or 0. */
static uint64_t ask_all(struct watches *all)
{
	uint64_t now = retry_now_usec(), next = 0;

	/* Whoever found no connection left is the first of the next round. */
	for (size_t i = 0, first = all->turn; i < all->count; i++) {
		size_t at = (first + i) % all->count;
		struct watch *w = all->items[at];

		if (w->request == 0 && w->due_usec <= now && all->asking < connections(all)) {
			ask(all, w, now);
			all->turn = at + 1;
		}
		if (w->request == 0 && w->due_usec > now && (next == 0 || w->due_usec < next))
			next = w->due_usec;
	}
	if (all->names_request == 0 && all->names_due_usec <= now && all->asking < connections(all))
		ask_names(all, now);
	if (all->names_request == 0 && all->names_due_usec > now &&
			(next == 0 || all->names_due_usec < next))
		next = all->names_due_usec;
	return next;
}

/* ---- what comes back ---- */

/* For people and completion only: that it fails is no news beside the services' own failures. */
static void take_names(struct watches *all, const struct usher_http_event *event)
{
	uint64_t now = retry_now_usec();
	char **names = NULL;
	size_t count = 0;

	all->names_request = 0;
	all->asking--;
	if (event->error != 0 || usher_http_status_error(event, NULL) < 0 ||
			answer_parse_names(event->data, event->data_size, &names, &count, NULL) <
					0) {
		all->names_due_usec = now + retry_delay_usec(&all->random, ++all->names_failures);
		return;
	}
	all->names_failures = 0;
	/* Spread, so that a thousand daemons do not ask at once. */
	all->names_due_usec = now + NAMES_USEC / 2 + retry_random(&all->random) % NAMES_USEC;
	usher_source_known(all->source, (const char *const *) names, count);
	answer_names_free(names, count);
}

static void take_events(struct watches *all)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;

	while (usher_http_next(all->http, &event)) {
		struct watch *w = event.tag;
		bool polled;

		if (!w) {
			take_names(all, &event);
			continue;
		}
		settle(all, w);
		polled = w->asked == WATCH_PLAIN && w->next == WATCH_BLOCKING && w->index != 0;
		watch_take(w, all->consul, all->http, all->source, &event, retry_now_usec(),
				&all->random);
		/* It would have waited, had there been a connection to spare. */
		if (polled && w->next == WATCH_BLOCKING && !may_block(all))
			w->due_usec = retry_now_usec() + all->consul->poll_usec;
	}
}

static void watches_done(struct watches *all)
{
	for (size_t i = 0; i < all->count; i++)
		(void) watch_free(all->items[i]);
	free(all->items);
	(void) usher_http_free(all->http);
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
		wait.timeout_usec = next == 0 ? 0 : next > now ? next - now : 1;
		r = usher_source_wait(all->source, &wait);
		if (r <= 0)
			return r;
		take_events(all);
	}
}

static int consul_run(void *instance, struct usher_source *source)
{
	struct watches all = { .consul = instance, .source = source };
	struct usher_error why = { 0 };
	int r = consul_open(all.consul, source, &all.http, &why);

	if (r < 0) {
		usher_source_fail(source, NULL, r, &why);
		return r;
	}
	all.random = retry_seed();
	r = watch_all(&all);
	watches_done(&all);
	return r;
}

/* ---- the plug-in ---- */

static int consul_init(void *instance, struct usher_error *reterr)
{
	const struct consul *c = instance;
	int r = usher_http_check(&c->http, reterr);

	if (r == 0)
		r = duration_check(
				"wait", c->wait_usec, 1 * USEC_PER_SEC, 600 * USEC_PER_SEC, reterr);
	if (r == 0)
		r = duration_check("poll", c->poll_usec, 1 * USEC_PER_SEC, 3600 * USEC_PER_SEC,
				reterr);
	if (r == 0)
		r = duration_check(
				"ttl", c->ttl_usec, 3 * USEC_PER_SEC, 3600 * USEC_PER_SEC, reterr);
	/* Consul itself takes no less than a minute. */
	if (r == 0 && c->deregister_after_usec != 0)
		r = duration_check("deregister_after", c->deregister_after_usec, 60 * USEC_PER_SEC,
				604800 * USEC_PER_SEC, reterr);
	return r;
}

static void consul_done(void *instance)
{
	registration_done(instance);
}

static const char *const consistencies[] = { "stale", "default", "consistent", NULL };

#define OPTION(n, t, field, ...)                                                                \
	{                                                                                       \
		.name = (n), .type = (t), .offset = offsetof(struct consul, field), __VA_ARGS__ \
	}

static const struct usher_option consul_options[] = {
	USHER_HTTP_OPTIONS(struct consul, http),
	OPTION("datacenter", USHER_OPTION_STRING, datacenter,
			.help = "Whose services; when absent, the agent's own."),
	OPTION("namespace", USHER_OPTION_STRING, namespace_name,
			.help = "Of Consul Enterprise, for discovery and registration."),
	OPTION("partition", USHER_OPTION_STRING, partition,
			.help = "Of Consul Enterprise, for discovery and registration."),
	OPTION("tags", USHER_OPTION_STRINGS, tags,
			.help = "Only instances that have all of these tags."),
	OPTION("tagged_address", USHER_OPTION_STRING, tagged_address,
			.help = "Which of the tagged addresses to take where there is one, such as wan."),
	OPTION("consistency", USHER_OPTION_CHOICE, consistency, .default_text = "stale",
			.choices = consistencies,
			.help = "Who may answer: any server, the leader, or the leader with a majority's "
				"consent."),
	OPTION("max_stale", USHER_OPTION_DURATION, max_stale_usec, .default_text = "5s",
			.help = "How far behind the leader an answer may be; beyond, the leader is asked."),
	OPTION("wait", USHER_OPTION_DURATION, wait_usec, .default_text = "10s",
			.help = "How long a query waits for a change, 1s to 10m; an answer may be twice "
				"as old before the next one proves it."),
	OPTION("poll", USHER_OPTION_DURATION, poll_usec, .default_text = "5s",
			.help = "How often to look where no connection can be spared to wait for a "
				"change."),
	OPTION("hold", USHER_OPTION_DURATION, hold_usec, .default_text = "25s",
			.help = "For how long it is doubted that instances are gone after a restart of "
				"Consul, or that all fail at once."),
	OPTION("canary", USHER_OPTION_STRING, canary, .default_text = "consul",
			.help = "A service that is always there: only who sees it is believed that "
				"another is empty. \"\": do not look."),
	OPTION("ttl", USHER_OPTION_DURATION, ttl_usec, .default_text = "15s",
			.help = "Of the check of what is registered: without a sign of life for so long "
				"it is critical."),
	OPTION("deregister_after", USHER_OPTION_DURATION, deregister_after_usec,
			.default_text = "10m",
			.help = "How long it may be critical before Consul takes it out, at least 1m; 0: "
				"for ever."),
	{ 0 },
};

static const struct usher_discovery consul_discovery = {
	.size = sizeof(consul_discovery),
	.run = consul_run,
};

static const struct usher_registration consul_registration = {
	.size = sizeof(consul_registration),
	.add = registration_add,
	.renew = registration_renew,
	.set_state = registration_set_state,
	.remove = registration_remove,
	.renew_after_usec = registration_renew_after_usec,
};

USHER_PLUGIN(.name = "consul", .summary = "Endpoints from HashiCorp Consul, and registration in it",
		.instance_size = sizeof(struct consul), .options = consul_options,
		.init = consul_init, .done = consul_done, .discovery = &consul_discovery,
		.registration = &consul_registration);
