/* Which of the node's addresses is registered, and why others are not. */

#include <stdio.h>

#include "address-choice.h"
#include "ownership.h"
#include "test.h"

#define ADDRESS(name, number, text) address(name, number, text, (struct interface_address){})

static struct interface_address address(
		const char *name, unsigned index, const char *text, struct interface_address more)
{
	more.index = index;
	more.is_up = true;
	more.is_loopback = strcmp(name, "lo") == 0;
	more.is_ipv6 = strchr(text, ':');
	(void) snprintf(more.interface, sizeof(more.interface), "%s", name);
	assert_int_equal(inet_pton(more.is_ipv6 ? AF_INET6 : AF_INET, text, more.bytes), 1);
	return more;
}

static struct network_config network(const char *text, unsigned prefix)
{
	struct network_config n = { .is_ipv6 = strchr(text, ':'), .prefix = prefix };

	assert_int_equal(inet_pton(n.is_ipv6 ? AF_INET6 : AF_INET, text, n.bytes), 1);
	return n;
}

static void assert_chosen(const struct address_config *config, const struct interface_address *list,
		size_t count, const char *expected)
{
	char chosen[INET6_ADDRSTRLEN];
	struct usher_error err = {};
	int r = address_choose(config, list, count, chosen, &err);

	if (r < 0)
		fail_msg("none instead of %s: %s", expected, err.text);
	assert_string_equal(chosen, expected);
}

#define CHOSEN(config, list, expected) assert_chosen(config, list, ELEMENTS(list), expected)

static void the_lowest_interface_wins_and_of_it_the_first_address(void **state)
{
	const struct address_config config = {};
	const struct interface_address list[] = { ADDRESS("lo", 1, "127.0.0.1"),
		ADDRESS("eth1", 3, "10.0.1.5"), ADDRESS("eth0", 2, "10.0.0.6"),
		ADDRESS("eth0", 2, "10.0.0.5") };

	(void) state;
	CHOSEN(&config, list, "10.0.0.6");
}

static void the_family_that_is_preferred_wins_and_the_other_will_do(void **state)
{
	struct address_config config = { .family = ADDRESS_PREFER_IPV4 };
	const struct interface_address both[] = { ADDRESS("eth0", 2, "fd00::5"),
		ADDRESS("eth1", 3, "10.0.1.5") };
	const struct interface_address ipv6[] = { ADDRESS("eth0", 2, "fd00::5") };

	(void) state;
	CHOSEN(&config, both, "10.0.1.5");
	CHOSEN(&config, ipv6, "fd00::5");
	config.family = ADDRESS_PREFER_IPV6;
	CHOSEN(&config, both, "fd00::5");
	config.family = ADDRESS_IPV4;
	assert_errno(address_choose(&config, ipv6, 1, (char[INET6_ADDRSTRLEN]){ 0 }, NULL),
			EADDRNOTAVAIL);
}

static void only_networks_that_are_named_count_in_their_order(void **state)
{
	struct network_config networks[] = { network("192.168.4.0", 22), network("10.0.0.0", 8) };
	const struct address_config config = { .networks = networks, .network_count = 2 };
	const struct interface_address list[] = { ADDRESS("eth0", 2, "172.16.0.1"),
		ADDRESS("eth1", 3, "10.9.9.9"), ADDRESS("eth2", 4, "192.168.7.255"),
		ADDRESS("eth3", 5, "192.168.8.1") };

	(void) state;
	CHOSEN(&config, list, "192.168.7.255");
	assert_chosen(&config, list, 2, "10.9.9.9");
	assert_errno(address_choose(&config, list, 1, (char[INET6_ADDRSTRLEN]){ 0 }, NULL),
			EADDRNOTAVAIL);
}

static void patterns_name_interfaces_in_their_order_and_loopback_only_so(void **state)
{
	char bond[] = "bond*", lo[] = "lo", eth[] = "eth?";
	char *some[] = { bond, eth, NULL }, *loopback[] = { lo, NULL };
	const struct interface_address list[] = { ADDRESS("lo", 1, "127.0.0.1"),
		ADDRESS("eth0", 2, "10.0.0.5"), ADDRESS("bond7", 9, "10.0.7.5") };
	struct address_config config = { .interfaces = some };

	(void) state;
	CHOSEN(&config, list, "10.0.7.5");
	config.interfaces = loopback;
	CHOSEN(&config, list, "127.0.0.1");
}

static void what_is_ignored_is_never_chosen(void **state)
{
	char docker[] = "docker*";
	char *ignored[] = { docker, NULL };
	const struct address_config config = { .ignored_interfaces = ignored };
	const struct interface_address list[] = { ADDRESS("docker0", 2, "172.17.0.1"),
		ADDRESS("eth0", 3, "10.0.0.5") };

	(void) state;
	CHOSEN(&config, list, "10.0.0.5");
}

static void what_lasts_is_better_than_what_is_temporary_or_phased_out(void **state)
{
	const struct address_config config = { .family = ADDRESS_IPV6 };
	const struct interface_address list[] = {
		address("eth0", 2, "fd00::1", (struct interface_address){ .is_deprecated = true }),
		address("eth0", 2, "fd00::2", (struct interface_address){ .is_temporary = true }),
		address("eth0", 2, "fd00::3", (struct interface_address){ .is_tried = true }),
		ADDRESS("eth0", 2, "fd00::4"),
	};

	(void) state;
	CHOSEN(&config, list, "fd00::4");
	assert_chosen(&config, list, 2, "fd00::2");
	assert_chosen(&config, list, 1, "fd00::1");
}

static void where_none_qualifies_each_is_told_why(void **state)
{
	char docker[] = "docker*";
	char *ignored[] = { docker, NULL };
	const struct address_config config = { .ignored_interfaces = ignored };
	struct interface_address list[] = { ADDRESS("lo", 1, "127.0.0.1"),
		ADDRESS("docker0", 2, "172.17.0.1"), ADDRESS("eth0", 3, "fe80::1"),
		ADDRESS("eth1", 4, "169.254.3.4"), ADDRESS("eth2", 5, "10.0.0.5") };
	struct usher_error err = {};

	(void) state;
	list[4].is_up = false;
	assert_errno(address_choose(&config, list, ELEMENTS(list), (char[INET6_ADDRSTRLEN]){ 0 },
				     &err),
			EADDRNOTAVAIL);
	assert_string_equal(err.text,
			"no address of this node qualifies: 127.0.0.1 of lo (loopback), 172.17.0.1 of "
			"docker0 (its interface is ignored), fe80::1 of eth0 (link-local), 169.254.3.4 "
			"of eth1 (link-local), 10.0.0.5 of eth2 (its interface is down); say one in "
			"address, or change address_from");
	err = (struct usher_error){};
	assert_errno(address_choose(&config, NULL, 0, (char[INET6_ADDRSTRLEN]){ 0 }, &err),
			EADDRNOTAVAIL);
	assert_string_equal(err.text,
			"no address of this node qualifies; say one in address, or change address_from");
}

static void no_address_of_a_host_is_none(void **state)
{
	static const char *const texts[] = { "0.0.0.0", "224.0.0.1", "255.255.255.255",
		"::", "ff02::1", "::1", "127.9.9.9", "febf::1" };
	const struct address_config config = {};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(texts); i++) {
		const struct interface_address a = ADDRESS("eth0", 2, texts[i]);

		if (address_choose(&config, &a, 1, (char[INET6_ADDRSTRLEN]){ 0 }, NULL) >= 0)
			fail_msg("%s was chosen", texts[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_lowest_interface_wins_and_of_it_the_first_address),
		cmocka_unit_test(the_family_that_is_preferred_wins_and_the_other_will_do),
		cmocka_unit_test(only_networks_that_are_named_count_in_their_order),
		cmocka_unit_test(patterns_name_interfaces_in_their_order_and_loopback_only_so),
		cmocka_unit_test(what_is_ignored_is_never_chosen),
		cmocka_unit_test(what_lasts_is_better_than_what_is_temporary_or_phased_out),
		cmocka_unit_test(where_none_qualifies_each_is_told_why),
		cmocka_unit_test(no_address_of_a_host_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
