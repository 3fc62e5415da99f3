/* Values of `registrations` and `address_from` with a shape of their own. */

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config-forms.h"
#include "config-tables.h"
#include "ownership.h"
#include "place.h"
#include "registration-config.h"
#include "table-values.h"

static void text_free(void *field)
{
	freep(field);
}

/* ---- registries ---- */

static int registries_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	static const struct feeds_kind kind = { config_registry_rows, "source, name, port",
		"the first of the service's that can register" };
	struct registration_config *r = field;

	return config_read_feeds(n, &kind, &r->feeds, &r->feed_count, reterr);
}

static void registries_done(void *field)
{
	struct registration_config *r = field;

	config_feeds_free(r->feeds, r->feed_count);
}

const struct config_form config_form_registries = { registries_read, registries_done,
	"registries" };

/* ---- texts ---- */

static int id_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	return config_read_text(n, field, reterr); /* judged once its placeholders are known */
}

const struct config_form config_form_id = { id_read, text_free, "id" };

static int address_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	struct usher_error why = {};
	char **address = field;
	int r;

	r = config_read_text(n, address, reterr);
	if (r < 0)
		return r;
	r = usher_address_check(*address, &why);
	return r < 0 ? place_error(reterr, n, r, "%s", usher_error_text(&why, r)) : 0;
}

const struct config_form config_form_address = { address_read, text_free, "address" };

/* ---- metadata ---- */

/* A label's texts are const for everybody but who made them. */
static void free_text(const char *const *field)
{
	void *text;

	memcpy(&text, field, sizeof(text));
	free(text);
}

static void labels_done(void *field)
{
	struct registration_config *r = field;

	for (size_t i = 0; i < r->metadata_count; i++) {
		free_text(&r->metadata[i].name);
		free_text(&r->metadata[i].value);
	}
	free(r->metadata);
}

static int add_label(struct registration_config *r, const struct usher_node *map, size_t i,
		struct usher_error *reterr)
{
	struct usher_label *label = &r->metadata[r->metadata_count];
	const struct usher_node *value = usher_node_at(map, i);
	const char *name = usher_node_key(map, i), *text = usher_node_text(value);

	if (!name[0] || strlen(name) > USHER_TEXT_MAX)
		return place_key_error(reterr, map, i, -EINVAL, "a name has 1 to %d bytes",
				USHER_TEXT_MAX);
	if (!text)
		return place_error(reterr, value, -EINVAL, "must be a text, not %s",
				usher_node_kind_name(value));
	if (strlen(text) > USHER_TEXT_MAX)
		return place_error(reterr, value, -E2BIG, "has %zu bytes; at most %d are possible",
				strlen(text), USHER_TEXT_MAX);
	r->metadata_count++;
	label->name = strdup(name);
	label->value = strdup(text);
	if (!label->name || !label->value)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	return 0;
}

static int labels_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	struct registration_config *config = field;
	size_t count = usher_node_count(n);
	int r = 0;

	if (usher_node_kind(n) == USHER_NODE_NULL)
		return 0;
	if (usher_node_kind(n) != USHER_NODE_MAP)
		return place_error(reterr, n, -EINVAL, "must be a map of texts, not %s",
				usher_node_kind_name(n));
	if (count > USHER_METADATA_MAX)
		return place_error(reterr, n, -E2BIG, "has %zu names; at most %d are possible",
				count, USHER_METADATA_MAX);
	config->metadata = calloc(count + 1, sizeof(*config->metadata));
	if (!config->metadata)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	for (size_t i = 0; i < count && r >= 0; i++)
		r = add_label(config, n, i, reterr);
	return r;
}

const struct config_form config_form_labels = { labels_read, labels_done, "labels" };

/* ---- patterns ---- */

static int patterns_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	char ***patterns = field;
	void *items = NULL;
	int r;

	r = config_start_list(n, CONFIG_PATTERNS_MAX, sizeof(char *), &items, reterr);
	if (r < 0)
		return r;
	*patterns = items;
	for (size_t i = 0; i < usher_node_count(n); i++) {
		r = config_read_text(usher_node_at(n, i), &(*patterns)[i], reterr);
		if (r < 0)
			return r;
	}
	return 0;
}

static void patterns_done(void *field)
{
	config_texts_free(*(char ***) field);
}

const struct config_form config_form_patterns = { patterns_read, patterns_done, "patterns" };

/* ---- networks ---- */

static const char *const private_networks[] = { "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",
	"fc00::/7" };

/* The bits behind the prefix, or true when all of them are 0. */
static bool host_bits_are_zero(const struct network_config *network)
{
	unsigned bits = network->is_ipv6 ? 128 : 32;

	for (unsigned i = network->prefix; i < bits; i++)
		if (network->bytes[i / 8] & (0x80u >> i % 8))
			return false;
	return true;
}

/* ADDRESS/BITS, or an address alone. */
static bool parse_network(const char *text, struct network_config *ret)
{
	const char *slash = strchr(text, '/');
	size_t length = slash ? (size_t) (slash - text) : strlen(text);
	struct network_config network = {};
	char address[INET6_ADDRSTRLEN];
	uint32_t bits;

	if (length >= sizeof(address))
		return false;
	memcpy(address, text, length);
	address[length] = '\0';
	network.is_ipv6 = strchr(address, ':');
	network.prefix = network.is_ipv6 ? 128 : 32;
	if (inet_pton(network.is_ipv6 ? AF_INET6 : AF_INET, address, network.bytes) != 1)
		return false;
	if (slash && (usher_weight_parse(slash + 1, &bits) < 0 || bits > network.prefix))
		return false;
	if (slash)
		network.prefix = bits;
	*ret = network;
	return true;
}

static int add_network(const struct usher_node *n, const char *text, struct address_config *config,
		struct usher_error *reterr)
{
	struct network_config network = {};

	if (!parse_network(text, &network))
		return place_error(reterr, n, -EINVAL,
				"\"%s\" is no network; write one like 10.0.0.0/8 or fd00::/8, or private",
				text);
	if (!host_bits_are_zero(&network))
		return place_error(reterr, n, -EINVAL,
				"%s has bits behind its /%u; write the network's own address", text,
				network.prefix);
	config->networks[config->network_count++] = network;
	return 0;
}

static int networks_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	struct address_config *config = field;
	void *items = NULL;
	int r;

	r = config_start_list(n, CONFIG_NETWORKS_MAX,
			ELEMENTS(private_networks) * sizeof(struct network_config), &items, reterr);
	if (r < 0)
		return r;
	config->networks = items;
	for (size_t i = 0; i < usher_node_count(n) && r >= 0; i++) {
		const struct usher_node *item = usher_node_at(n, i);
		const char *text = usher_node_text(item);

		if (!text)
			return place_error(reterr, item, -EINVAL, "must be a network, not %s",
					usher_node_kind_name(item));
		if (strcmp(text, "private") != 0) {
			r = add_network(item, text, config, reterr);
			continue;
		}
		for (size_t k = 0; k < ELEMENTS(private_networks) && r >= 0; k++)
			r = add_network(item, private_networks[k], config, reterr);
	}
	return r;
}

static void networks_done(void *field)
{
	free(((struct address_config *) field)->networks);
}

const struct config_form config_form_networks = { networks_read, networks_done, "networks" };
