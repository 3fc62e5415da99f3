#pragma once

/* Checks and targets, written short. */

#include "check.h"
#include "test.h"

/* A literal where a configuration wants a text of its own. */
#define T(literal) ((char *) (uintptr_t) (literal))

/* A check of this configuration, of which only what matters is given. */
__attribute__((unused)) static struct check *check_of(const struct check_config *config)
{
	struct check *check = NULL;
	struct usher_error err = {};

	if (check_new(config, &check, &err) < 0)
		fail_msg("%s", err.text);
	return check;
}
#define CHECK(...) check_of(&(const struct check_config){ __VA_ARGS__ })

/* A set of one endpoint, "id", in zone "east". */
__attribute__((unused)) static struct usher_endpoints *one_endpoint(const char *address,
		uint16_t port, bool secure, const struct usher_label *metadata, size_t count)
{
	struct usher_endpoints *set = usher_endpoints_new();
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	struct usher_error err = {};

	assert_non_null(set);
	e.id = "id";
	e.zone = "east";
	e.address = address;
	e.port = port;
	e.secure = secure;
	e.metadata = metadata;
	e.metadata_count = count;
	if (usher_endpoints_add(set, &e, &err) < 0)
		fail_msg("%s", err.text);
	usher_endpoints_seal(set);
	return set;
}

/* The endpoint at this address, as the check asks it; the check is handed over. */
__attribute__((unused)) static struct target *target_at(
		struct check *check, const char *address, uint16_t port, bool secure)
{
	struct usher_endpoints *set = one_endpoint(address, port, secure, NULL, 0);
	struct target *target = NULL;
	struct usher_error err = {};

	if (target_new(check, "catalog", set, 0, &target, &err) < 0)
		fail_msg("%s", err.text);
	usher_endpoints_unref(set);
	check_unref(check);
	return target;
}
