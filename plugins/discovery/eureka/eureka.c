/* Discovery from Eureka servers, and registration at them.
 *
 * What is asked and when is polling.c's to say, what an answer does to what is known registry.c's,
 * and what is said of a service services.c's. */

#include "eureka.h"

#include <errno.h>
#include <stddef.h>

#include "duration.h"
#include "polling.h"

int eureka_open(const struct eureka *e, struct usher_source *source, struct usher_http **ret,
		struct usher_error *reterr)
{
	const struct usher_http_config config = {
		.size = sizeof(config),
		.options = &e->http,
		.auth = e->http.token || e->http.token_file ? USHER_HTTP_AUTH_BEARER
							    : USHER_HTTP_AUTH_BASIC,
	};

	return usher_http_new(source, &config, ret, reterr);
}

static int eureka_run(void *instance, struct usher_source *source)
{
	return polling_run(instance, source);
}

static int eureka_init(void *instance, struct usher_error *reterr)
{
	const struct eureka *e = instance;
	int r = usher_http_check(&e->http, reterr);

	if (r == 0)
		r = duration_check("interval", e->interval_usec, 1 * USEC_PER_SEC,
				600 * USEC_PER_SEC, reterr);
	if (r == 0)
		r = duration_check("resync", e->resync_usec, 10 * USEC_PER_SEC, 3600 * USEC_PER_SEC,
				reterr);
	if (r == 0)
		r = duration_check("cache", e->cache_usec, 0, 300 * USEC_PER_SEC, reterr);
	if (r == 0)
		r = duration_check("settle", e->settle_usec, 0, 3600 * USEC_PER_SEC, reterr);
	if (r == 0)
		r = duration_check("lease", e->lease_usec, 3 * USEC_PER_SEC, 3600 * USEC_PER_SEC,
				reterr);
	return r;
}

static void eureka_done(void *instance)
{
	registration_done(instance);
}

static const char *const bys[] = {
	[INSTANCE_BY_APP] = "app",
	[INSTANCE_BY_VIP] = "vip",
	[INSTANCE_BY_SECURE_VIP] = "secure_vip",
	NULL,
};
static const char *const addresses[] = { "ip", "hostname", NULL };

#define OPTION(n, t, field, ...)                                                                \
	{                                                                                       \
		.name = (n), .type = (t), .offset = offsetof(struct eureka, field), __VA_ARGS__ \
	}

static const struct usher_option eureka_options[] = {
	USHER_HTTP_OPTIONS(struct eureka, http),
	OPTION("by", USHER_OPTION_CHOICE, by, .default_text = "app", .choices = bys,
			.help = "What the name of a service is in Eureka: the app's, a vip's, or a secure "
				"vip's."),
	OPTION("address", USHER_OPTION_CHOICE, address, .default_text = "ip", .choices = addresses,
			.help = "Whether an instance's IP address or host name is taken; the other one "
				"where it has none."),
	OPTION("interval", USHER_OPTION_DURATION, interval_usec, .default_text = "10s",
			.help = "How often to ask for what has changed, 1s to 10m."),
	OPTION("resync", USHER_OPTION_DURATION, resync_usec, .default_text = "5m",
			.help = "How often to ask for all instances, 10s to 1h: not every change shows "
				"in the server's hash."),
	OPTION("cache", USHER_OPTION_DURATION, cache_usec, .default_text = "30s",
			.help = "How old an answer may be when it is given, 0s to 5m: the server's "
				"response-cache-update-interval-ms, or 0s where use-read-only-response-"
				"cache is false."),
	OPTION("settle", USHER_OPTION_DURATION, settle_usec, .default_text = "90s",
			.help = "For how long instances stay that a server does not list and has not "
				"said to be taken out, as after its start; one lease."),
	OPTION("lease", USHER_OPTION_DURATION, lease_usec, .default_text = "90s",
			.help = "Of what is registered, 3s to 1h: without a sign of life for twice as "
				"long it is taken out."),
	{ 0 },
};

static const struct usher_discovery eureka_discovery = {
	.size = sizeof(eureka_discovery),
	.run = eureka_run,
};

static const struct usher_registration eureka_registration = {
	.size = sizeof(eureka_registration),
	.add = registration_add,
	.renew = registration_renew,
	.set_state = registration_set_state,
	.remove = registration_remove,
	.renew_after_usec = registration_renew_after_usec,
};

USHER_PLUGIN(.name = "eureka", .summary = "Endpoints from Netflix Eureka, and registration in it",
		.instance_size = sizeof(struct eureka), .options = eureka_options,
		.init = eureka_init, .done = eureka_done, .discovery = &eureka_discovery,
		.registration = &eureka_registration);
