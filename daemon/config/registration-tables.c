/* Every key of `registrations` and `address_from`, with its default and its help. */

#include "config-forms.h"
#include "config-tables.h"
#include "registration-config.h"

static const char *const family_words[] = { [ADDRESS_PREFER_IPV4] = "prefer_ipv4",
	[ADDRESS_PREFER_IPV6] = "prefer_ipv6",
	[ADDRESS_IPV4] = "ipv4",
	[ADDRESS_IPV6] = "ipv6",
	NULL };
static const char *const unhealthy_words[] = { [UNHEALTHY_KEEP] = "keep",
	[UNHEALTHY_UNREADY] = "unready",
	[UNHEALTHY_DEREGISTER] = "deregister",
	NULL };
static const char *const stop_words[] = {
	[STOP_KEEP] = "keep", [STOP_DEREGISTER] = "deregister", NULL
};

const char *unhealthy_policy_to_string(enum unhealthy_policy policy)
{
	return unhealthy_words[policy];
}

const char *stop_policy_to_string(enum stop_policy policy)
{
	return stop_words[policy];
}

#define AT(field) offsetof(struct address_config, field)

const struct config_row config_address_rows[] = {
	{ "family", ROW_CHOICE, AT(family), "prefer_ipv4",
			"Which family of addresses: one alone, or one before the other.",
			.choices = family_words },
	{ "interfaces", ROW_FORM, AT(interfaces), NULL,
			"Only interfaces whose names match one of these, the first before the second; loopback only where a pattern names it. When absent, any.",
			.form = &config_form_patterns },
	{ "ignored_interfaces", ROW_FORM, AT(ignored_interfaces),
			"[docker*, br-*, veth*, virbr*, cni*, flannel*, cali*, lxc*, kube-ipvs*, nodelocaldns*]",
			"Never an interface whose name matches one of these.",
			.form = &config_form_patterns },
	{ "networks", ROW_FORM, 0, NULL,
			"Only addresses in one of these, the first before the second; `private` stands for the private ranges. When absent, any.",
			.form = &config_form_networks },
	{},
};

const struct config_row config_registry_rows[] = {
	{ "source", ROW_NAME, offsetof(struct feed_config, source), NULL,
			"A source that `sources` declares.", .required = true },
	{ "name", ROW_TEXT, offsetof(struct feed_config, name), NULL,
			"The service's name there; when absent, its own." },
	{ "port", ROW_TEXT, offsetof(struct feed_config, port), NULL,
			"Which of its ports it is there, by name or number, where the registry has several." },
	{},
};

#undef AT
#define AT(field) offsetof(struct registration_config, field)

#define PAYLOAD_ROWS                                                                                                                                                                                                   \
	{ "port", ROW_PORT, AT(port), NULL, "The port that the instance serves on.",                                                                                                                                   \
		.required = true },                                                                                                                                                                                    \
			{ "address", ROW_FORM, AT(address), NULL,                                                                                                                                                      \
				"Its IP address or host name; when absent, one of the node's own, chosen by `address_from`.",                                                                                          \
				.form = &config_form_address },                                                                                                                                                        \
			{ "address_from", ROW_TABLE, AT(address_from), NULL,                                                                                                                                           \
				"Overrides `node.address_from`, key by key.",                                                                                                                                          \
				.table = config_address_rows, .elsewhere = true },                                                                                                                                     \
			{ "secure", ROW_BOOL, AT(secure), "false", "Whether it speaks TLS." },                                                                                                                         \
			{ "zone", ROW_NAME, AT(zone), NULL, "When absent, the node's." },                                                                                                                              \
			{ "weight", ROW_COUNT, AT(weight), "1", "0 receives no new traffic.",                                                                                                                          \
				.max = USHER_WEIGHT_MAX },                                                                                                                                                             \
			{ "metadata", ROW_FORM, 0, NULL, "Names and texts.",                                                                                                                                           \
				.form = &config_form_labels },                                                                                                                                                         \
			{ "sources", ROW_FORM, 0, NULL,                                                                                                                                                                \
				"Where it is registered; when absent, in the first of the service's sources whose plug-in can register.",                                                                              \
				.form = &config_form_registries },                                                                                                                                                     \
			{ "health", ROW_TABLE, AT(health), NULL,                                                                                                                                                       \
				"The check whose first success it waits for: keys of a service's `health` that are not about the service as a whole, over those of the service itself; `none`: it waits for nothing.", \
				.table = config_registration_health_rows, .none = true,                                                                                                                                \
				.elsewhere = true },                                                                                                                                                                   \
			{ "on_unhealthy", ROW_CHOICE, AT(on_unhealthy), "keep",                                                                                                                                        \
				"When its checks fail later: `keep` tells the registry nothing, `unready` shows it as not ready, `deregister` takes it out until it is well again.",                                   \
				.choices = unhealthy_words },                                                                                                                                                          \
	{                                                                                                                                                                                                              \
		"on_stop", ROW_CHOICE, AT(on_stop), "keep",                                                                                                                                                            \
				"When usherd stops: `keep` leaves it, so that a restart makes no gap; `deregister` takes it out.",                                                                                     \
				.choices = stop_words                                                                                                                                                                  \
	}

const struct config_row config_registration_rows[] = {
	{ "service", ROW_NAME, AT(service), NULL, "The service that it is an instance of.",
			.required = true },
	{ "id", ROW_FORM, AT(id), "\"{service}-{node}-{port}\"",
			"Its id; {node}, {service}, {port}, {zone} and {address} stand for its own.",
			.form = &config_form_id },
	PAYLOAD_ROWS,
	{},
};

const struct config_row config_registration_body_rows[] = { PAYLOAD_ROWS, {} };
