/* Discovery of Kubernetes Services, from their EndpointSlices.
 *
 * run() is level-triggered: each turn it takes what is wanted, starts what is missing, tells what
 * is due, and waits; what comes is given to the feed that asked for it. */

#include "kubernetes.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "answers.h"
#include "feed.h"
#include "own.h"
#include "pod-drains.h"
#include "pods.h"
#include "registration.h"
#include "retry.h"
#include "slices.h"

#define SERVICE_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

static void disconnect(struct watcher *w)
{
	w->http = usher_http_free(w->http);
	w->access = access_free(w->access);
}

static void watcher_done(struct watcher *w)
{
	for (size_t i = 0; i < w->feed_count; i++)
		(void) feed_free(w, w->feeds[i]);
	free(w->feeds);
	pods_done(w);
	answers_done(w);
	disconnect(w);
}

static bool is_same_document(const struct access *a, const struct access *b)
{
	return a && a->document && b->document &&
			usher_node_equal(usher_document_root(a->document),
					usher_document_root(b->document));
}

/* Open a connection anew, where it is configured otherwise now; on failure the one that is stays.
 */
static int connect_anew(struct watcher *w, struct usher_error *reterr)
{
	struct access *access = NULL;
	struct usher_http *http = NULL;
	int r = access_new(&w->options->access, &access, reterr);

	if (r < 0)
		return r;
	if (is_same_document(w->access, access)) {
		(void) access_free(access);
		return 0;
	}
	r = usher_http_new(w->source, &access->config, &http, reterr);
	if (r < 0) {
		(void) access_free(access);
		return r;
	}
	disconnect(w);
	w->access = access;
	w->http = http;
	for (size_t i = 0; i < w->feed_count; i++)
		feed_reconnect(w, w->feeds[i]);
	if (w->pods)
		feed_reconnect(w, w->pods);
	return 0;
}

/* ---- which services there are ---- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

struct names {
	char **all;
	size_t count, space;
};

static void free_names(struct names *n)
{
	for (size_t i = 0; i < n->count; i++)
		free(n->all[i]);
	free(n->all);
}

static int add_name(struct names *n, const struct slice *s)
{
	if (!s->service)
		return 0;
	if (n->count == n->space) {
		size_t space = n->space ? n->space * 2 : 64;
		char **all = reallocarray(n->all, space, sizeof(char *));

		if (!all)
			return -ENOMEM;
		n->all = all;
		n->space = space;
	}
	if (asprintf(&n->all[n->count], "%s/%s", s->space, s->service) < 0)
		return -ENOMEM;
	n->count++;
	return 0;
}

static void keep_one_of_each(struct names *n)
{
	size_t kept = 0;

	if (n->count > 0)
		qsort(n->all, n->count, sizeof(char *), by_text);
	for (size_t i = 0; i < n->count; i++) {
		if (kept && strcmp(n->all[kept - 1], n->all[i]) == 0)
			free(n->all[i]);
		else
			n->all[kept++] = n->all[i];
	}
	n->count = kept;
}

/* What the feeds see beyond what is wanted. */
static void tell_known(struct watcher *w)
{
	cleanup(free_names) struct names names = { 0 };
	uint64_t hash = 0;

	if (!w->known_has_changed || w->options->scope == SCOPE_WANTED)
		return;
	for (size_t i = 0; i < w->feed_count; i++) {
		const struct shelf *shelf = &w->feeds[i]->shelf;

		for (size_t k = 0; k < shelf->count; k++)
			if (add_name(&names, shelf->all[k]) < 0)
				return;
	}
	keep_one_of_each(&names);
	for (size_t i = 0; i < names.count; i++)
		hash = usher_hash_text(names.all[i], hash + 1);
	w->known_has_changed = false;
	if (hash == w->known)
		return;
	w->known = hash;
	usher_source_known(w->source, (const char *const *) names.all, names.count);
}

/* ---- run ---- */

static uint64_t sooner(uint64_t a, uint64_t b)
{
	if (a == 0 || b == 0)
		return a ? a : b;
	return a < b ? a : b;
}

static void tell_polled(struct watcher *w)
{
	bool polls = false;

	for (size_t i = 0; i < w->feed_count; i++)
		polls = polls || w->feeds[i]->is_polled;
	if (w->polls == polls)
		return;
	w->polls = polls;
	if (polls)
		usher_log(USHER_LOG_WARNING,
				"There are too many namespaces, %zu, to watch each over a connection: some "
				"are listed again and again; raise `connections`, or set `watch: cluster`",
				w->feed_count);
	else
		usher_log(USHER_LOG_INFO, "All namespaces are watched again");
}

/* Start and tell what is due. Returns how long there is nothing to do, in microseconds; 0: until
 * something comes. */
static uint64_t turn(struct watcher *w)
{
	uint64_t now = retry_now_usec(), due = answers_tell(w, now);

	tell_known(w);
	pods_tell(w);
	/* The pods first, for a drain is waited for. */
	if (w->pods)
		due = sooner(due, feed_start(w, w->pods, now));
	for (size_t i = 0; i < w->feed_count; i++)
		due = sooner(due, feed_start(w, w->feeds[i], now));
	tell_polled(w);
	if (due == 0)
		return 0;
	now = retry_now_usec();
	return due > now ? due - now : 1;
}

static void take_events(struct watcher *w)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;

	while (usher_http_next(w->http, &event)) {
		feed_on_event(w, event.tag, &event);
		event = (struct usher_http_event) USHER_HTTP_EVENT_INIT;
	}
}

static void fail_all(struct watcher *w, int code, const struct usher_error *why)
{
	usher_source_fail(w->source, NULL, code, why);
}

/* One turn while there is a connection. Returns what the wait returned. */
static int follow(struct watcher *w)
{
	struct usher_wait wait = {
		.size = sizeof(wait), .path = w->options->access.kubeconfig, .timeout_usec = turn(w)
	};

	return usher_source_wait(w->source, &wait);
}

/* Until there is a connection. Returns as usher_source_wait(). */
static int connect_first(struct watcher *w)
{
	const struct usher_wait backoff = {
		.size = sizeof(backoff), .backoff = true, .path = w->options->access.kubeconfig
	};

	for (;;) {
		struct usher_error why = { 0 };
		int r = connect_anew(w, &why);

		if (r == 0)
			return USHER_WAIT_WANTED;
		fail_all(w, r, &why);
		r = usher_source_wait(w->source, &backoff);
		if (r <= 0)
			return r;
	}
}

/* The kubeconfig has changed; while the new one is wrong, the old one is good enough. */
static void read_kubeconfig_again(struct watcher *w)
{
	struct usher_error why = { 0 };
	int r = connect_anew(w, &why);

	if (r < 0)
		usher_log(USHER_LOG_WARNING, "%s; going on as before", usher_error_text(&why, r));
}

static int kubernetes_run(void *instance, struct usher_source *source)
{
	cleanup(watcher_done) struct watcher w = {
		.options = instance, .source = source, .random = retry_seed()
	};
	struct usher_error why = { 0 };
	int woken_by = pods_init(&w, &why);

	if (woken_by < 0)
		return woken_by;
	woken_by = connect_first(&w);

	while (woken_by > 0) {
		if (woken_by & USHER_WAIT_PATH)
			read_kubeconfig_again(&w);
		if (woken_by & USHER_WAIT_HTTP)
			take_events(&w);
		if (woken_by & (USHER_WAIT_WANTED | USHER_WAIT_PATH)) {
			int r = answers_take_wanted(&w);

			if (r < 0)
				return r;
		}
		woken_by = follow(&w);
	}
	return woken_by;
}

/* ---- options ---- */

static void kubernetes_done(void *instance)
{
	struct kubernetes *k = instance;

	k->drains = pod_drains_free(k->drains);
}

/* The name of an option that is of use with `servers` alone, and given; NULL: there is none. */
static const char *find_without_servers(const struct usher_http_options *http)
{
	const struct {
		const char *name, *value;
	} all[] = { { "ca", http->ca }, { "certificate", http->certificate }, { "key", http->key },
		{ "server_name", http->server_name }, { "token", http->token },
		{ "token_file", http->token_file }, { "user", http->user },
		{ "password", http->password }, { "password_file", http->password_file } };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].value)
			return all[i].name;
	return NULL;
}

/* The API server's grammar is the host's. */
static int check_selector(const char *selector, struct usher_error *reterr)
{
	const char *const texts[] = { selector, NULL };
	struct usher_match *match = NULL;
	int r = selector ? usher_match_new(texts, &match, reterr) : 0;

	(void) usher_match_free(match);
	return r < 0 ? usher_error_prefix(reterr, r, "selector") : 0;
}

static int kubernetes_init(void *instance, struct usher_error *reterr)
{
	struct kubernetes *k = instance;
	const struct usher_http_options *http = &k->access.http;

	const char *more = find_without_servers(http);
	int r = 0;

	if (k->access.kubeconfig && http->servers)
		return usher_error_set(reterr, -EINVAL,
				"servers: are given beside kubeconfig, which says where the cluster is; remove one of them");
	if (k->access.context && !k->access.kubeconfig)
		return usher_error_set(reterr, -EINVAL,
				"context: is one of a kubeconfig, which is not given");
	if (!http->servers && more)
		return usher_error_set(reterr, -EINVAL,
				"%s: goes with servers, which are not given; a kubeconfig and a pod's "
				"service account have their own",
				more);
	if (http->servers)
		r = usher_http_check(http, reterr);
	if (r == 0)
		r = check_selector(k->selector, reterr);
	if (r < 0)
		return r;
	if (k->prove_usec < 100000 || k->silence_usec < 100000)
		return usher_error_set(reterr, -ERANGE, "%s: is shorter than 100ms",
				k->prove_usec < 100000 ? "prove" : "silence");
	k->drains = pod_drains_new();
	return k->drains ? 0 : usher_error_set(reterr, -ENOMEM, "out of memory");
}

static const char *const scopes[] = { "wanted", "namespace", "cluster", NULL };

#define OPTION_OF(field) .offset = offsetof(struct kubernetes, field)

static const struct usher_option kubernetes_options[] = {
	{ .name = "kubeconfig",
			.type = USHER_OPTION_PATH,
			OPTION_OF(access.kubeconfig),
			.help = "The kubeconfig that says where the cluster is; read again when it "
				"changes. Without it and without `servers`: this pod's service "
				"account." },
	{ .name = "context",
			.type = USHER_OPTION_STRING,
			OPTION_OF(access.context),
			.help = "Which context of the kubeconfig, in place of its current one." },
	{ .name = "service_account",
			.type = USHER_OPTION_PATH,
			OPTION_OF(access.service_account),
			.default_text = SERVICE_ACCOUNT,
			.help = "The folder with token, ca.crt and namespace that a cluster gives to "
				"its pods." },
	{ .name = "namespace",
			.type = USHER_OPTION_STRING,
			OPTION_OF(space),
			.help = "The namespace of services that are named without one; when absent, "
				"the context's or the pod's, else default." },
	{ .name = "watch",
			.type = USHER_OPTION_CHOICE,
			OPTION_OF(scope),
			.default_text = "wanted",
			.choices = scopes,
			.help = "What to follow: the wanted services, all of their namespaces, or "
				"all of the cluster in one stream." },
	{ .name = "selector",
			.type = USHER_OPTION_STRING,
			OPTION_OF(selector),
			.help = "Only EndpointSlices with these labels, in Kubernetes' own words." },
	{ .name = "prove",
			.type = USHER_OPTION_DURATION,
			OPTION_OF(prove_usec),
			.default_text = "15s",
			.help = "How often to ask for a proof that what is known is current." },
	{ .name = "silence",
			.type = USHER_OPTION_DURATION,
			OPTION_OF(silence_usec),
			.default_text = "75s",
			.help = "How long a watch may lag behind the version that proofs show before "
				"it is opened anew; more than a minute, the pace of bookmarks." },
	{ .name = "settle",
			.type = USHER_OPTION_DURATION,
			OPTION_OF(settle_usec),
			.default_text = "100ms",
			.help = "How long what has disappeared is kept: an endpoint that moves to "
				"another slice is in none for a moment." },
	{ .name = "pods",
			.type = USHER_OPTION_BOOL,
			OPTION_OF(pods),
			.default_text = "false",
			.help = "Drain the Pods of this node that are being deleted, or have the "
				"annotation usher.dev/drain; and write what is registered and how "
				"drains go into the conditions of Pods." },
	{ .name = "node_name",
			.type = USHER_OPTION_STRING,
			OPTION_OF(node_name),
			.help = "What the cluster calls this node; when absent, USHER_NODE_NAME of "
				"the environment, else the host's name." },
	USHER_HTTP_OPTIONS_WITH(struct kubernetes, access.http, 0),
	{ 0 },
};

static const struct usher_discovery kubernetes_discovery = {
	.size = sizeof(kubernetes_discovery),
	.run = kubernetes_run,
};

static const struct usher_registration kubernetes_registration = {
	.size = sizeof(kubernetes_registration),
	.add = registration_add,
	.set_state = registration_set_state,
	.remove = registration_remove,
	.progress = registration_progress,
};

USHER_PLUGIN(.name = "kubernetes", .summary = "Services of a Kubernetes cluster",
		.instance_size = sizeof(struct kubernetes), .options = kubernetes_options,
		.init = kubernetes_init, .done = kubernetes_done,
		.discovery = &kubernetes_discovery, .registration = &kubernetes_registration);
