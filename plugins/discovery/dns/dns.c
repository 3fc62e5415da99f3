/* Discovery from DNS: addresses (A, AAAA) and SRV records.
 *
 * Each service is looked up again when the TTL of what was found is over, and what an answer is
 * worth is decided there (conclude.c): what fails, or is gone without a proof, empties nothing. DNS
 * has no registration that would be worth its name. */

#include "dns.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "duration.h"
#include "names.h"
#include "own.h"
#include "resolver.h"
#include "retry.h"
#include "watch.h"

struct watches {
	const struct dns *dns;
	struct usher_source *source;
	struct resolver *resolver;
	struct watch **items; /* in the order of what is wanted */
	size_t count;
	uint64_t random;
};

/* ---- what is wanted ---- */

static struct watch *take_watch(struct watches *all, const struct usher_wanted *wanted, size_t hint)
{
	for (size_t i = 0; i < all->count; i++) {
		size_t at = (hint + i) % all->count;

		if (all->items[at] && watch_is_for(all->items[at], wanted))
			return take(all->items[at]);
	}
	return watch_new(all->dns, all->source, all->resolver, wanted, &all->random);
}

static void free_watches(struct watch **items, size_t count)
{
	for (size_t i = 0; i < count; i++)
		(void) watch_free(items[i]);
	free(items);
}

static int take_wanted(struct watches *all)
{
	size_t count, kept = 0;
	const struct usher_wanted *wanted = usher_source_wanted(all->source, &count);
	struct watch **items = calloc(count + 1,
			sizeof(struct watch *)); // NOLINT(bugprone-sizeof-expression): of pointers

	if (!items)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		items[kept] = take_watch(all, &wanted[i], i);
		kept += items[kept] != NULL;
	}
	free_watches(all->items, all->count);
	all->items = items;
	all->count = kept;
	return kept == count ? 0 : -ENOMEM;
}

/* ---- the loop ---- */

/* Begin the rounds that are due. Returns when the next one is, or UINT64_MAX. */
static uint64_t start_due(struct watches *all)
{
	uint64_t now = retry_now_usec(), next = UINT64_MAX;

	for (size_t i = 0; i < all->count; i++) {
		struct watch *w = all->items[i];

		if (w->pending == 0 && w->due_usec <= now)
			watch_start(w);
		if (w->pending == 0 && w->due_usec < next)
			next = w->due_usec;
	}
	return next;
}

static void take_answers(struct watches *all)
{
	struct resolver_event event;

	while (resolver_next(all->resolver, &event)) {
		struct lookup *l = event.tag;

		watch_take(l->owner, l, &event);
	}
}

static void reload_servers(struct watches *all)
{
	struct usher_error why = { 0 };

	if (resolver_reload(all->resolver, &why) < 0)
		usher_log(USHER_LOG_WARNING,
				"Cannot take over the changed name servers: %s; asking "
				"those from before",
				why.text);
}

/* Until the order to stop: 0, or what stands in the way of going on. */
static int watch_all(struct watches *all)
{
	struct usher_wait wait = {
		.size = sizeof(wait),
		.fd = resolver_fd(all->resolver),
		.events = POLLIN,
		.path = all->dns->servers ? NULL : RESOLVER_FILE,
	};
	int r = USHER_WAIT_WANTED;

	for (;;) {
		uint64_t next, due, now;

		if (r & USHER_WAIT_WANTED) {
			r = take_wanted(all);
			if (r < 0)
				return r;
		}
		next = start_due(all);
		now = retry_now_usec();
		due = resolver_due_usec(all->resolver, now);
		if (due < next)
			next = due;
		wait.timeout_usec = next == UINT64_MAX ? 0 : next > now ? next - now : 1;
		r = usher_source_wait(all->source, &wait);
		if (r <= 0)
			return r;
		if (r & USHER_WAIT_PATH)
			reload_servers(all);
		resolver_process(all->resolver);
		take_answers(all);
	}
}

static int dns_run(void *instance, struct usher_source *source)
{
	const struct dns *d = instance;
	const struct resolver_config config = {
		.servers = d->servers,
		.timeout_usec = d->timeout_usec,
		.most = (size_t) d->queries,
		.tcp = d->tcp,
	};
	struct watches all = { .dns = d, .source = source, .random = retry_seed() };
	struct usher_error why = { 0 };
	int r = resolver_new(&config, &all.resolver, &why);

	if (r < 0) {
		usher_source_fail(source, NULL, r, &why);
		return r;
	}
	r = watch_all(&all);
	free_watches(all.items, all.count);
	(void) resolver_free(all.resolver);
	return r;
}

/* ---- the plug-in ---- */

static int check_texts(const struct dns *d, struct usher_error *reterr)
{
	int r = names_check_template(d->name, reterr);

	if (r == 0 && d->servers && !d->servers[0])
		r = usher_error_set(reterr, -EINVAL,
				"servers: is empty; name some, or leave it out for those of " RESOLVER_FILE);
	for (size_t i = 0; r == 0 && d->servers && d->servers[i]; i++) {
		r = i < RESOLVER_SERVERS_MAX
				? resolver_check_server(d->servers[i], reterr)
				: usher_error_set(reterr, -E2BIG, "there are more than %d",
						  RESOLVER_SERVERS_MAX);
		if (r < 0)
			(void) usher_error_prefix(reterr, r, "servers[%zu]", i);
	}
	for (size_t i = 0; r == 0 && d->search && d->search[i]; i++) {
		char name[MESSAGE_NAME_MAX];

		r = names_append("n", d->search[i], name, reterr);
		if (r < 0)
			(void) usher_error_prefix(reterr, r, "search[%zu]", i);
	}
	return r;
}

static int dns_init(void *instance, struct usher_error *reterr)
{
	const struct dns *d = instance;
	int r = check_texts(d, reterr);

	if (r == 0)
		r = duration_check("ttl_min", d->ttl_min_usec, 100 * USEC_PER_MSEC,
				3600 * USEC_PER_SEC, reterr);
	if (r == 0)
		r = duration_check("ttl_max", d->ttl_max_usec, 100 * USEC_PER_MSEC,
				86400 * USEC_PER_SEC, reterr);
	if (r == 0 && d->ttl_min_usec > d->ttl_max_usec)
		r = usher_error_set(reterr, -ERANGE, "ttl_min: is longer than ttl_max");
	if (r == 0)
		r = duration_check("timeout", d->timeout_usec, 50 * USEC_PER_MSEC,
				30 * USEC_PER_SEC, reterr);
	if (r == 0)
		r = duration_check("hold", d->hold_usec, 0, 3600 * USEC_PER_SEC, reterr);
	return r;
}

static const char *const records_choices[] = {
	[DNS_RECORDS_AUTO] = "auto",
	[DNS_RECORDS_SRV] = "srv",
	[DNS_RECORDS_ADDRESS] = "address",
	NULL,
};
static const char *const addresses_choices[] = {
	[DNS_PREFER_IPV4] = "prefer_ipv4",
	[DNS_PREFER_IPV6] = "prefer_ipv6",
	[DNS_IPV4] = "ipv4",
	[DNS_IPV6] = "ipv6",
	[DNS_BOTH] = "both",
	NULL,
};
static const char *const rotates_choices[] = {
	[DNS_ROTATES_AUTO] = "auto",
	[DNS_ROTATES_YES] = "yes",
	[DNS_ROTATES_NO] = "no",
	NULL,
};

#define OPTION(n, t, field, ...)                                                             \
	{                                                                                    \
		.name = (n), .type = (t), .offset = offsetof(struct dns, field), __VA_ARGS__ \
	}

static const struct usher_option dns_options[] = {
	OPTION("servers", USHER_OPTION_STRINGS, servers,
			.help = "Name servers as ADDRESS or ADDRESS:PORT, at most 8; the next one is asked "
				"where one fails. When absent, those of " RESOLVER_FILE "."),
	OPTION("name", USHER_OPTION_STRING, name, .default_text = "{name}",
			.help = "The name to ask for, with {name}, {service} and {port} of the service's "
				"source. A service's name that ends in a dot is taken as it is."),
	OPTION("records", USHER_OPTION_CHOICE, records, .default_text = "auto",
			.choices = records_choices,
			.help = "What to ask for: srv, address (A and AAAA), or auto: srv where the name "
				"begins with an underscore."),
	OPTION("addresses", USHER_OPTION_CHOICE, addresses, .default_text = "prefer_ipv4",
			.choices = addresses_choices,
			.help = "Of which families; with prefer_* the other one counts where there is "
				"none of that."),
	OPTION("port", USHER_OPTION_INTEGER, port, .default_text = "0", .max = UINT16_MAX,
			.help = "Of services that are found by address, where the service's source "
				"says none."),
	OPTION("search", USHER_OPTION_STRINGS, search,
			.help = "Domains below which a name is looked up first, in this order. When "
				"absent, names are whole."),
	OPTION("ttl_min", USHER_OPTION_DURATION, ttl_min_usec, .default_text = "1s",
			.help = "How often to ask at most, whatever TTLs say, 100ms to 1h."),
	OPTION("ttl_max", USHER_OPTION_DURATION, ttl_max_usec, .default_text = "15s",
			.help = "How often to ask at least, whatever TTLs say, 100ms to 1d. Keep it below "
				"the services' max_age."),
	OPTION("rotates", USHER_OPTION_CHOICE, rotates, .default_text = "auto",
			.choices = rotates_choices,
			.help = "Whether a server answers with a part of what there is, and another part "
				"each time; auto: as far as the answers show it."),
	OPTION("hold", USHER_OPTION_DURATION, hold_usec, .default_text = "30s",
			.help = "How long who is left out of an answer stays where a name rotates, at "
				"most 1h."),
	OPTION("require_soa", USHER_OPTION_BOOL, require_soa, .default_text = "true",
			.help = "Believe that a name is not there only with an SOA as proof."),
	OPTION("tcp", USHER_OPTION_BOOL, tcp, .default_text = "false",
			.help = "Ask over TCP always, and not only where an answer over UDP is cut off."),
	OPTION("timeout", USHER_OPTION_DURATION, timeout_usec, .default_text = "1s",
			.help = "How long to wait for an answer, 50ms to 30s; then it is asked once more, "
				"for twice as long."),
	OPTION("queries", USHER_OPTION_INTEGER, queries, .default_text = "64", .min = 1,
			.max = 1000, .help = "How many questions may be under way at once."),
	{ 0 },
};

static const struct usher_discovery dns_discovery = {
	.size = sizeof(dns_discovery),
	.run = dns_run,
};

USHER_PLUGIN(.name = "dns", .summary = "Endpoints from DNS: SRV, A and AAAA records",
		.instance_size = sizeof(struct dns), .options = dns_options, .init = dns_init,
		.discovery = &dns_discovery);
