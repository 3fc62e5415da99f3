#include "watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "names.h"
#include "own.h"

static const uint16_t family_types[WATCH_FAMILIES] = { MESSAGE_A, MESSAGE_AAAA };

/* ---- what to ask ---- */

/* A number in 1..65535, or 0. */
static uint16_t port_of(const char *text)
{
	unsigned long value;
	char *end;

	if (!text || text[0] < '1' || text[0] > '9' || strlen(text) > 5)
		return 0;
	value = strtoul(text, &end, 10);
	return *end == '\0' && value <= UINT16_MAX ? (uint16_t) value : 0;
}

static int choose_port(struct watch *w, const struct dns *dns, struct usher_error *reterr)
{
	bool is_in_name = strstr(dns->name, "{port}");

	w->port_number = is_in_name && w->is_srv ? 0 : port_of(w->port);
	if (w->port && w->port_number == 0 && !is_in_name)
		return usher_error_set(reterr, -EINVAL,
				"port %s is no number, and DNS knows ports by nothing else; put it in "
				"the name with {port} in the option `name` of the source",
				w->port);
	if (w->is_srv)
		return 0;
	if (w->port_number == 0)
		w->port_number = (uint16_t) dns->port;
	if (w->port_number == 0)
		return usher_error_set(reterr, -EINVAL,
				"%s has addresses and no port: say which one as `port:` of the "
				"service's source, or as option `port` of the source",
				w->names[0]);
	return 0;
}

static int choose_names(
		struct watch *w, const struct usher_wanted *wanted, struct usher_error *reterr)
{
	const struct dns *dns = w->dns;
	size_t length = strlen(wanted->name), domains = 0;
	char name[MESSAGE_NAME_MAX];
	int r = names_expand(dns->name, wanted, name, reterr);

	if (r < 0)
		return r;
	while (dns->search && dns->search[domains])
		domains++;
	if (wanted->name[length - 1] == '.')
		domains = 0;
	w->names = calloc(domains + 1, sizeof(*w->names));
	if (!w->names)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	for (size_t i = 0; i < domains; i++) {
		r = names_append(name, dns->search[i], w->names[i], reterr);
		if (r < 0)
			return r;
	}
	(void) snprintf(w->names[domains], sizeof(*w->names), "%s", name);
	w->name_count = domains + 1;
	w->is_srv = dns->records == DNS_RECORDS_AUTO ? name[0] == '_'
						     : dns->records == DNS_RECORDS_SRV;
	w->is_secure = strncasecmp(name, "_https.", 7) == 0;
	return choose_port(w, dns, reterr);
}

struct watch *watch_new(const struct dns *dns, struct usher_source *source,
		struct resolver *resolver, const struct usher_wanted *wanted, uint64_t *random)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->dns = dns;
	w->source = source;
	w->resolver = resolver;
	w->random = random;
	w->root = (struct lookup){ .owner = w, .type = MESSAGE_SRV };
	w->service = strdup(wanted->service);
	w->name = strdup(wanted->name);
	w->port = wanted->port ? strdup(wanted->port) : NULL;
	if (!w->service || !w->name || (wanted->port && !w->port))
		return watch_free(w);
	(void) choose_names(w, wanted, &w->fault);
	return w->fault.code == -ENOMEM ? watch_free(w) : w;
}

static void host_free(struct watch *w, struct host *host)
{
	for (size_t i = 0; i < WATCH_FAMILIES; i++) {
		resolver_forget(w->resolver, &host->lookups[i]);
		lookup_done(&host->lookups[i]);
	}
	free(host);
}

struct watch *watch_free(struct watch *w)
{
	if (!w)
		return NULL;
	resolver_forget(w->resolver, &w->root);
	lookup_done(&w->root);
	for (size_t i = 0; i < w->host_count; i++)
		host_free(w, w->hosts[i]);
	free(w->hosts);
	free(w->targets);
	free(w->names);
	members_done(&w->members);
	(void) usher_endpoints_unref(w->offered);
	free(w->service);
	free(w->name);
	free(w->port);
	free(w);
	return NULL;
}

bool watch_is_for(const struct watch *w, const struct usher_wanted *wanted)
{
	if (strcmp(w->service, wanted->service) != 0 || strcmp(w->name, wanted->name) != 0)
		return false;
	return w->port && wanted->port ? strcmp(w->port, wanted->port) == 0
				       : w->port == wanted->port;
}

bool watch_wants_family(const struct watch *w, size_t family)
{
	return w->dns->addresses != (family == 0 ? DNS_IPV6 : DNS_IPV4);
}

bool watch_is_second_choice(const struct watch *w, size_t family)
{
	return w->dns->addresses == (family == 0 ? DNS_PREFER_IPV6 : DNS_PREFER_IPV4);
}

/* ---- a round ---- */

static void ask(struct watch *w, struct lookup *l, const char *name)
{
	/* Whoever is told that there is nothing asks somebody else next. */
	l->turn = w->nones;
	if (lookup_ask(l, w->resolver, name) == 0) {
		w->pending++;
		return;
	}
	l->end = LOOKUP_FAILED;
	l->code = usher_error_set(&l->why, -ENOMEM, "out of memory");
}

/* The host of that name, in this round. NULL: out of memory. */
static struct host *use_host(struct watch *w, const char *name, bool *ret_new)
{
	struct host *host, **grown;

	*ret_new = true;
	for (size_t i = 0; i < w->host_count; i++)
		if (strcmp(w->hosts[i]->name, name) == 0) {
			*ret_new = !w->hosts[i]->is_used;
			w->hosts[i]->is_used = true;
			return w->hosts[i];
		}
	grown = reallocarray(w->hosts, w->host_count + 1,
			sizeof(struct host *)); // NOLINT(bugprone-sizeof-expression): of pointers
	if (!grown)
		return NULL;
	w->hosts = grown;
	host = calloc(1, sizeof(*host));
	if (!host)
		return NULL;
	(void) snprintf(host->name, sizeof(host->name), "%s", name);
	for (size_t i = 0; i < WATCH_FAMILIES; i++)
		host->lookups[i] = (struct lookup){ .owner = w, .type = family_types[i] };
	host->is_used = true;
	w->hosts[w->host_count++] = host;
	return host;
}

/* With what came along with the answer that named it, or by asking. */
static void look_up(struct watch *w, struct host *host, const struct message *with)
{
	bool has[WATCH_FAMILIES] = { false, false };

	for (size_t i = 0; with && i < WATCH_FAMILIES; i++)
		has[i] = watch_wants_family(w, i) &&
				lookup_take_extra(&host->lookups[i], with, host->name, &w->root);
	for (size_t i = 0; i < WATCH_FAMILIES; i++) {
		bool is_spare = watch_is_second_choice(w, i) && has[1 - i];

		if (watch_wants_family(w, i) && !has[i] && !is_spare)
			ask(w, &host->lookups[i], host->name);
	}
}

static int add_target(struct watch *w, const char *name, uint16_t priority, uint16_t weight,
		uint16_t port, const struct message *with)
{
	bool is_new;
	struct host *host = use_host(w, name, &is_new);

	if (!host)
		return -ENOMEM;
	w->targets[w->target_count++] = (struct target){
		.priority = priority,
		.weight = weight,
		.port = port,
		.host = host,
	};
	if (is_new)
		look_up(w, host, with);
	return 0;
}

static int make_targets(struct watch *w, size_t count)
{
	free(w->targets);
	w->target_count = 0;
	w->targets = calloc(count + 1, sizeof(*w->targets));
	return w->targets ? 0 : -ENOMEM;
}

static int take_targets(struct watch *w, const struct message *m)
{
	bool is_off = m->count > 0;
	int r = make_targets(w, m->count);

	for (size_t i = 0; i < m->count && r == 0; i++) {
		const struct message_record *srv = &m->records[i];

		if (strcmp(srv->target, ".") == 0)
			continue;
		is_off = false;
		if (w->port_number == 0 || srv->port == w->port_number)
			r = add_target(w, srv->target, srv->priority, srv->weight, srv->port, m);
	}
	w->is_off = is_off;
	return r;
}

static void begin_name(struct watch *w)
{
	const char *name = w->names[w->name_at];
	int r;

	for (size_t i = 0; i < w->host_count; i++)
		w->hosts[i]->is_used = false;
	w->is_off = false;
	w->target_count = 0;
	if (w->is_srv) {
		ask(w, &w->root, name);
		return;
	}
	r = make_targets(w, 1);
	if (r == 0)
		r = add_target(w, name, 0, 0, w->port_number, NULL);
	w->root.end = r == 0 ? LOOKUP_RECORDS : LOOKUP_FAILED;
	if (r < 0)
		w->root.code = usher_error_set(&w->root.why, r, "out of memory");
}

bool watch_is_none(const struct watch *w)
{
	if (w->is_srv)
		return w->root.end == LOOKUP_NONE;
	for (size_t i = 0; w->target_count > 0 && i < WATCH_FAMILIES; i++)
		if (watch_wants_family(w, i) && w->targets[0].host->lookups[i].end != LOOKUP_NONE)
			return false;
	return w->target_count > 0;
}

bool watch_is_believed(const struct watch *w)
{
	bool has_proof = w->is_srv && w->root.has_proof;

	for (size_t i = 0; !w->is_srv && w->target_count > 0 && i < WATCH_FAMILIES; i++)
		if (watch_wants_family(w, i) && w->targets[0].host->lookups[i].has_proof)
			has_proof = true;
	return has_proof || !w->dns->require_soa;
}

/* All questions about one name are answered. */
static void end_name(struct watch *w)
{
	while (w->pending == 0) {
		bool goes_on = watch_is_none(w) && watch_is_believed(w) &&
				w->name_at + 1 < w->name_count;

		if (!goes_on) {
			watch_conclude(w);
			return;
		}
		w->name_at++;
		begin_name(w);
	}
}

void watch_start(struct watch *w)
{
	if (w->fault.code != 0) {
		usher_source_fail(w->source, w->service, w->fault.code, &w->fault);
		w->due_usec = UINT64_MAX;
		return;
	}
	w->name_at = 0;
	begin_name(w);
	end_name(w);
}

void watch_take(struct watch *w, struct lookup *l, const struct resolver_event *event)
{
	struct message m = { .kind = MESSAGE_RECORDS };
	int r;

	if (lookup_take(l, w->resolver, event->name, event, &m) == 0)
		return;
	w->pending--;
	if (l == &w->root && l->end == LOOKUP_RECORDS) {
		r = take_targets(w, &m);
		if (r < 0) {
			l->end = LOOKUP_FAILED;
			l->code = usher_error_set(&l->why, r, "out of memory");
		}
	}
	message_done(&m);
	end_name(w);
}
