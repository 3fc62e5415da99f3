/* The addresses of this node, from the kernel's own words, and as they are here. */

#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "interfaces.h"
#include "ownership.h"
#include "test.h"

/* A dump as the kernel makes it. */
struct dump {
	_Alignas(NLMSG_ALIGNTO) uint8_t bytes[4096];
	size_t size;
	struct nlmsghdr *message;
};

static void begin(struct dump *d, uint16_t type, const void *body, size_t size)
{
	d->message = (struct nlmsghdr *) (void *) (d->bytes + d->size);
	*d->message = (struct nlmsghdr){ .nlmsg_len = (uint32_t) NLMSG_LENGTH(size),
		.nlmsg_type = type };
	memcpy(NLMSG_DATA(d->message), body, size);
	d->size += NLMSG_SPACE(size);
}

static void add_attribute(struct dump *d, unsigned short type, const void *data, size_t size)
{
	struct rtattr *a = (struct rtattr *) (void *) (d->bytes + d->size);

	*a = (struct rtattr){ .rta_len = (unsigned short) RTA_LENGTH(size), .rta_type = type };
	memcpy(RTA_DATA(a), data, size);
	d->size += RTA_SPACE(size);
	d->message->nlmsg_len = (unsigned) (d->bytes + d->size - (uint8_t *) d->message);
}

static void add_link(struct dump *d, int index, const char *name, unsigned flags)
{
	const struct ifinfomsg link = { .ifi_index = index, .ifi_flags = flags };

	begin(d, RTM_NEWLINK, &link, sizeof(link));
	add_attribute(d, IFLA_IFNAME, name, strlen(name) + 1);
}

static void add_address(struct dump *d, uint8_t family, unsigned index, unsigned short type,
		const char *text, uint32_t flags)
{
	const struct ifaddrmsg address = { .ifa_family = family, .ifa_index = index };
	uint8_t bytes[16];

	assert_int_equal(inet_pton(family, text, bytes), 1);
	begin(d, RTM_NEWADDR, &address, sizeof(address));
	add_attribute(d, type, bytes, family == AF_INET ? 4 : 16);
	add_attribute(d, IFA_FLAGS, &flags, sizeof(flags));
}

static void end(struct dump *d)
{
	const int code = 0;

	begin(d, NLMSG_DONE, &code, sizeof(code));
}

static void links_and_addresses_become_a_table(void **state)
{
	struct interface_table table = {};
	struct dump d = {};

	(void) state;
	add_link(&d, 1, "lo", IFF_UP | IFF_LOOPBACK);
	add_link(&d, 2, "eth0", 0);
	end(&d);
	assert_int_equal(interface_table_take(&table, d.bytes, d.size), 1);
	d.size = 0;
	add_address(&d, AF_INET, 1, IFA_LOCAL, "127.0.0.1", IFA_F_PERMANENT);
	add_address(&d, AF_INET, 2, IFA_LOCAL, "10.0.0.5", IFA_F_SECONDARY);
	add_address(&d, AF_INET6, 2, IFA_ADDRESS, "fd00::5", IFA_F_TEMPORARY | IFA_F_DEPRECATED);
	add_address(&d, AF_INET6, 2, IFA_ADDRESS, "fd00::6", IFA_F_TENTATIVE);
	add_address(&d, AF_INET, 9, IFA_LOCAL, "10.0.0.9", 0); /* of a link that came since */
	end(&d);
	assert_int_equal(interface_table_take(&table, d.bytes, d.size), 1);
	interface_table_settle(&table);

	assert_int_equal(table.count, 4);
	assert_true(table.items[0].is_loopback && table.items[0].is_up);
	assert_string_equal(table.items[1].interface, "eth0");
	assert_false(table.items[1].is_up || table.items[1].is_temporary || table.items[1].is_link);
	assert_true(table.items[2].is_temporary && table.items[2].is_deprecated);
	assert_true(table.items[3].is_tried && table.items[3].is_ipv6);
	interface_table_done(&table);
}

static void the_address_of_a_tunnel_is_its_own_end(void **state)
{
	struct interface_table table = {};
	struct dump d = {};
	uint8_t other[4] = { 10, 0, 0, 2 };

	(void) state;
	add_link(&d, 3, "tun0", IFF_UP);
	add_address(&d, AF_INET, 3, IFA_LOCAL, "10.0.0.1", 0);
	add_attribute(&d, IFA_ADDRESS, other, sizeof(other));
	assert_ok(interface_table_take(&table, d.bytes, d.size));
	interface_table_settle(&table);
	assert_int_equal(table.count, 1);
	assert_int_equal(table.items[0].bytes[3], 1);
	interface_table_done(&table);
}

static void what_the_kernel_refuses_is_an_error(void **state)
{
	const struct nlmsgerr error = { .error = -EPERM };
	struct interface_table table = {};
	struct dump d = {};

	(void) state;
	begin(&d, NLMSG_ERROR, &error, sizeof(error));
	assert_errno(interface_table_take(&table, d.bytes, d.size), EPERM);
	d.size = 0;
	begin(&d, RTM_NEWLINK, &error, 4); /* too short for one */
	assert_errno(interface_table_take(&table, d.bytes, d.size), EBADMSG);
}

static void a_table_has_a_maximum(void **state)
{
	struct interface_table table = {};
	int r = 0;

	(void) state;
	for (int i = 0; i < INTERFACES_ADDRESSES_MAX && r >= 0; i++) {
		struct dump d = {};

		add_link(&d, i + 1, "eth0", IFF_UP);
		r = interface_table_take(&table, d.bytes, d.size);
	}
	assert_ok(r);
	{
		struct dump d = {};

		add_link(&d, INTERFACES_ADDRESSES_MAX + 1, "eth0", IFF_UP);
		assert_errno(interface_table_take(&table, d.bytes, d.size), E2BIG);
	}
	interface_table_done(&table);
}

static void on_changed(void *userdata)
{
	(void) userdata;
}

static void those_of_this_node_are_there_at_once(void **state)
{
	const struct interface_table *table;
	struct interfaces *interfaces = NULL;
	sd_event *event = NULL;

	(void) state;
	assert_ok(sd_event_new(&event));
	assert_ok(interfaces_new(event, on_changed, NULL, &interfaces));
	table = interfaces_table(interfaces);
	for (size_t i = 0; i < table->count; i++)
		assert_true(table->items[i].interface[0] && table->items[i].index > 0);
	assert_true(interface_table_equal(table, table));
	interfaces_free(interfaces);
	sd_event_unref(event);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links_and_addresses_become_a_table),
		cmocka_unit_test(the_address_of_a_tunnel_is_its_own_end),
		cmocka_unit_test(what_the_kernel_refuses_is_an_error),
		cmocka_unit_test(a_table_has_a_maximum),
		cmocka_unit_test(those_of_this_node_are_there_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
