/* Which address usher would register, for tests: the configuration of the first registration is
 * read as usherd reads it, the interfaces come from standard input, as JSON: [{"name", "index",
 * "up", "addresses": [...]}...]. Prints the address, or "none: REASON". */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "address-choice.h"
#include "registration-config.h"

#define ADDRESSES_MAX 256

static size_t add_interface(const json_t *interface, struct interface_address *list, size_t count)
{
	const json_t *addresses = json_object_get(interface, "addresses");
	const char *name = json_string_value(json_object_get(interface, "name"));

	for (size_t i = 0; i < json_array_size(addresses) && count < ADDRESSES_MAX; i++) {
		const char *text = json_string_value(json_array_get(addresses, i));
		struct interface_address a = {
			.index = (unsigned) json_integer_value(json_object_get(interface, "index")),
			.is_up = json_is_true(json_object_get(interface, "up")),
			.is_loopback = name && strcmp(name, "lo") == 0,
			.is_ipv6 = text && strchr(text, ':'),
		};

		(void) snprintf(a.interface, sizeof(a.interface), "%s", name ? name : "");
		if (text && inet_pton(a.is_ipv6 ? AF_INET6 : AF_INET, text, a.bytes) == 1)
			list[count++] = a;
	}
	return count;
}

int main(int argc, char **argv)
{
	struct interface_address addresses[ADDRESSES_MAX];
	char chosen[INET6_ADDRSTRLEN];
	struct config *config = NULL;
	struct usher_error err = {};
	json_t *interfaces = json_loadf(stdin, 0, NULL);
	size_t count = 0;

	if (argc != 2 || !interfaces) {
		(void) fprintf(stderr, "usage: %s CONFIG <INTERFACES\n", argv[0]);
		return EXIT_FAILURE;
	}
	if (config_load(argv[1], &config, &err) < 0 || config->registration_count == 0) {
		(void) fprintf(stderr, "%s\n", err.text);
		return EXIT_FAILURE;
	}
	for (size_t i = 0; i < json_array_size(interfaces); i++)
		count = add_interface(json_array_get(interfaces, i), addresses, count);
	if (address_choose(&config->registrations[0].address_from, addresses, count, chosen, &err) <
			0)
		(void) printf("none: %s\n", err.text);
	else
		(void) printf("%s\n", chosen);
	json_decref(interfaces);
	config_unref(config);
	return EXIT_SUCCESS;
}
