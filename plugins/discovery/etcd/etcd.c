/* Discovery and registration in etcd, over the JSON gateway that each member has.
 *
 * watch.c follows the keys, registration.c writes them; table.c makes endpoints of keys, value.c of
 * one value; gateway.c knows what etcd says, session.c how to be let in. */

#include "etcd.h"

#include <errno.h>
#include <stddef.h>

#include "layout.h"

#define PROBE_MIN_USEC UINT64_C(500000)
#define TTL_MIN_USEC   UINT64_C(5000000)

static int etcd_init(void *instance, struct usher_error *reterr)
{
	const struct etcd *e = instance;
	int r = usher_http_check(&e->http, reterr);

	if (r == 0)
		r = etcd_layout_check(e->layout, reterr);
	if (r < 0)
		return r;
	if (e->probe_usec < PROBE_MIN_USEC)
		return usher_error_set(reterr, -ERANGE, "probe: is shorter than 500ms");
	if (e->ttl_usec < TTL_MIN_USEC)
		return usher_error_set(reterr, -ERANGE, "ttl: is shorter than 5s");
	if (e->http.connections < ETCD_CONNECTIONS_MIN)
		return usher_error_set(reterr, -ERANGE,
				"connections: fewer than %d; a watch holds one of them for good",
				ETCD_CONNECTIONS_MIN);
	if (e->http.user && !e->http.password && !e->http.password_file)
		return usher_error_set(
				reterr, -EINVAL, "user: needs password or password_file beside it");
	if (e->http.user && (e->http.token || e->http.token_file))
		return usher_error_set(reterr, -EINVAL,
				"user: is given beside a token; a user gets one by itself, so remove one of them");
	return 0;
}

static void etcd_done(void *instance)
{
	struct etcd *e = instance;

	e->registrations = etcd_registrations_free(e->registrations);
}

static const struct usher_option etcd_options[] = {
	USHER_HTTP_OPTIONS(struct etcd, http),
	{ .name = "layout",
			.type = USHER_OPTION_STRING,
			.offset = offsetof(struct etcd, layout),
			.help = "The keys of a service's instances, with {service} in it and {id} at "
				"its end.",
			.default_text = ETCD_LAYOUT_DEFAULT },
	{ .name = "format",
			.type = USHER_OPTION_CHOICE,
			.offset = offsetof(struct etcd, format),
			.help = "How registered endpoints are written: usher's JSON, or the naming of "
				"etcd's Go client for gRPC. Both are read in any case.",
			.default_text = "usher",
			.choices = etcd_format_choices },
	{ .name = "probe",
			.type = USHER_OPTION_DURATION,
			.offset = offsetof(struct etcd, probe_usec),
			.help = "How often etcd is asked to prove that what the watch told is all "
				"there is, at least 500ms.",
			.default_text = "5s" },
	{ .name = "ttl",
			.type = USHER_OPTION_DURATION,
			.offset = offsetof(struct etcd, ttl_usec),
			.help = "How long a registered endpoint stays when nobody keeps it alive any "
				"more, at least 5s.",
			.default_text = "30s" },
	{ .name = NULL },
};

static const struct usher_discovery etcd_discovery = {
	.size = sizeof(etcd_discovery),
	.run = etcd_run,
};

static const struct usher_registration etcd_registration = {
	.size = sizeof(etcd_registration),
	.add = etcd_registration_add,
	.renew = etcd_registration_renew,
	.set_state = etcd_registration_set_state,
	.remove = etcd_registration_remove,
	.renew_after_usec = etcd_registration_renew_after_usec,
};

USHER_PLUGIN(.name = "etcd", .summary = "Endpoints from etcd, and registration under leases",
		.instance_size = sizeof(struct etcd), .options = etcd_options, .init = etcd_init,
		.done = etcd_done, .discovery = &etcd_discovery,
		.registration = &etcd_registration);
