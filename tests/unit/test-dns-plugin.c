/* The plug-in dns: what answers say, which names are asked for, and who belongs to a service whose
 * answers differ. What is asked when, and of whom, is tested end to end. */

#include "dns.h"
#include "members.h"
#include "message.h"
#include "names.h"
#include "resolver.h"
#include "test.h"

extern const struct usher_plugin usher_plugin;

/* ---- answers, written byte by byte ---- */

struct writer {
	uint8_t bytes[4096];
	size_t size;
};

static void put(struct writer *w, uint32_t value, size_t width)
{
	for (size_t i = width; i-- > 0;)
		w->bytes[w->size++] = (uint8_t) (value >> 8 * i);
}

static void put_name(struct writer *w, const char *name)
{
	while (*name) {
		size_t label = strcspn(name, ".");

		put(w, (uint32_t) label, 1);
		memcpy(w->bytes + w->size, name, label);
		w->size += label;
		name += label + (name[label] == '.');
	}
	put(w, 0, 1);
}

#define AUTHORITATIVE 0x8400

static void begin(struct writer *w, unsigned flags, unsigned answers, unsigned authority,
		unsigned extra, const char *name, unsigned type)
{
	*w = (struct writer){ .size = 0 };
	put(w, 7, 2);
	put(w, flags, 2);
	put(w, 1, 2);
	put(w, answers, 2);
	put(w, authority, 2);
	put(w, extra, 2);
	put_name(w, name);
	put(w, type, 2);
	put(w, 1, 2);
}

static size_t begin_record(struct writer *w, const char *owner, unsigned type, uint32_t ttl)
{
	put_name(w, owner);
	put(w, type, 2);
	put(w, 1, 2);
	put(w, ttl, 4);
	put(w, 0, 2);
	return w->size;
}

static void end_record(struct writer *w, size_t from)
{
	w->bytes[from - 2] = (uint8_t) ((w->size - from) >> 8);
	w->bytes[from - 1] = (uint8_t) (w->size - from);
}

static void put_a(struct writer *w, const char *owner, uint32_t ttl, uint32_t address)
{
	size_t from = begin_record(w, owner, MESSAGE_A, ttl);

	put(w, address, 4);
	end_record(w, from);
}

static void put_cname(struct writer *w, const char *owner, uint32_t ttl, const char *target)
{
	size_t from = begin_record(w, owner, MESSAGE_CNAME, ttl);

	put_name(w, target);
	end_record(w, from);
}

static void put_srv(struct writer *w, const char *owner, uint32_t ttl, unsigned port,
		const char *target)
{
	size_t from = begin_record(w, owner, MESSAGE_SRV, ttl);

	put(w, 10, 2);
	put(w, 20, 2);
	put(w, port, 2);
	put_name(w, target);
	end_record(w, from);
}

static void put_soa(struct writer *w, uint32_t ttl, uint32_t minimum)
{
	size_t from = begin_record(w, "test", MESSAGE_SOA, ttl);

	put_name(w, "ns.test");
	put_name(w, "admin.test");
	for (int i = 0; i < 4; i++)
		put(w, 60, 4);
	put(w, minimum, 4);
	end_record(w, from);
}

static int parse(const struct writer *w, const char *name, uint16_t type, struct message *ret)
{
	struct usher_error why = { 0 };

	return message_parse(w->bytes, w->size, name, type, ret, &why);
}

static void srv_records_come_with_addresses_and_the_least_ttl(void **state)
{
	struct writer w;
	struct message m;

	(void) state;
	begin(&w, AUTHORITATIVE, 2, 0, 1, "_http._tcp.web.test", MESSAGE_SRV);
	put_srv(&w, "_HTTP._tcp.web.test", 9, 8080, "A.test");
	put_srv(&w, "_http._tcp.web.test", 7, 8081, "b.test");
	put_a(&w, "a.test", 3, 0x0a000001);
	assert_ok(parse(&w, "_http._tcp.WEB.test", MESSAGE_SRV, &m));
	assert_int_equal(m.kind, MESSAGE_RECORDS);
	assert_int_equal(m.count, 2);
	assert_int_equal(m.ttl, 7);
	assert_string_equal(m.records[0].target, "a.test");
	assert_int_equal(m.records[1].port, 8081);
	assert_int_equal(m.extra_count, 1);
	assert_string_equal(m.extra[0].owner, "a.test");
	assert_int_equal(m.extra[0].ttl, 3);
	message_done(&m);
}

static void a_chain_of_cnames_counts_for_the_least_of_its_ttls(void **state)
{
	struct writer w;
	struct message m;

	(void) state;
	begin(&w, AUTHORITATIVE, 3, 0, 0, "cn.test", MESSAGE_A);
	put_a(&w, "a.test", 30, 0x0a000001);
	put_cname(&w, "cn.test", 40, "b.test");
	put_cname(&w, "b.test", 20, "a.test");
	assert_ok(parse(&w, "cn.test", MESSAGE_A, &m));
	assert_int_equal(m.count, 1);
	assert_int_equal(m.ttl, 20);
	assert_string_equal(m.name, "a.test");
	message_done(&m);
}

static void a_chain_that_leads_away_is_an_alias_and_no_emptiness(void **state)
{
	struct writer w;
	struct message m;

	(void) state;
	begin(&w, AUTHORITATIVE, 1, 0, 0, "cn.test", MESSAGE_A);
	put_cname(&w, "cn.test", 40, "a.elsewhere");
	assert_ok(parse(&w, "cn.test", MESSAGE_A, &m));
	assert_int_equal(m.kind, MESSAGE_ALIAS);
	assert_string_equal(m.name, "a.elsewhere");
	message_done(&m);
}

static void a_chain_in_a_circle_is_refused(void **state)
{
	struct writer w;
	struct message m;

	(void) state;
	begin(&w, AUTHORITATIVE, 2, 0, 0, "a.test", MESSAGE_A);
	put_cname(&w, "a.test", 40, "b.test");
	put_cname(&w, "b.test", 40, "a.test");
	assert_errno(parse(&w, "a.test", MESSAGE_A, &m), EBADMSG);
}

static void what_is_not_there_is_proven_by_an_soa_and_counts_for_its_least(void **state)
{
	static const struct {
		unsigned rcode, soas;
		bool no_such_name, has_proof;
		uint32_t ttl;
	} cases[] = {
		{ 3, 1, true, true, 5 },
		{ 0, 1, false, true, 5 },
		{ 3, 0, true, false, 0 },
		{ 0, 0, false, false, 0 },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct writer w;
		struct message m;

		begin(&w, AUTHORITATIVE | cases[i].rcode, 0, cases[i].soas, 0, "x.test", MESSAGE_A);
		if (cases[i].soas)
			put_soa(&w, 60, 5);
		assert_ok(parse(&w, "x.test", MESSAGE_A, &m));
		assert_int_equal(m.kind, MESSAGE_NONE);
		assert_int_equal(m.no_such_name, cases[i].no_such_name);
		assert_int_equal(m.has_proof, cases[i].has_proof);
		assert_int_equal(m.ttl, cases[i].ttl);
		message_done(&m);
	}
}

static void failures_are_told_apart_and_never_empty(void **state)
{
	static const struct {
		unsigned flags;
		int code;
	} cases[] = {
		{ AUTHORITATIVE | 2, EIO },          /* SERVFAIL */
		{ AUTHORITATIVE | 5, EACCES },       /* REFUSED */
		{ AUTHORITATIVE | 0x200, EMSGSIZE }, /* cut off */
		{ 0, EBADMSG },                      /* a question */
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct writer w;
		struct message m;

		begin(&w, cases[i].flags, 0, 0, 0, "x.test", MESSAGE_A);
		assert_errno(parse(&w, "x.test", MESSAGE_A, &m), cases[i].code);
	}
}

static void an_answer_that_ends_early_is_malformed_wherever_it_does(void **state)
{
	struct writer w;
	struct message m;
	size_t whole;

	(void) state;
	begin(&w, AUTHORITATIVE, 1, 0, 1, "_http._tcp.web.test", MESSAGE_SRV);
	put_srv(&w, "_http._tcp.web.test", 9, 8080, "a.test");
	put_a(&w, "a.test", 3, 0x0a000001);
	whole = w.size;
	for (w.size = 0; w.size < whole; w.size++)
		assert_errno(parse(&w, "_http._tcp.web.test", MESSAGE_SRV, &m), EBADMSG);
}

static void a_pointer_that_leads_forward_or_to_itself_is_malformed(void **state)
{
	struct writer w;
	struct message m;

	(void) state;
	for (unsigned to = 0; to < 4; to++) {
		begin(&w, AUTHORITATIVE, 1, 0, 0, "a.test", MESSAGE_A);
		put(&w, 0xc000u | (unsigned) (w.size + 2 * to), 2);
		put(&w, MESSAGE_A, 2);
		put(&w, 1, 2);
		put(&w, 1, 4);
		put(&w, 4, 2);
		put(&w, 0xc0000000, 4);
		assert_errno(parse(&w, "a.test", MESSAGE_A, &m), EBADMSG);
	}
}

static void records_that_cannot_be_used_are_left_out_and_counted(void **state)
{
	struct writer w;
	struct message m;

	(void) state;
	begin(&w, AUTHORITATIVE, 4, 0, 0, "w.test", MESSAGE_SRV);
	put_srv(&w, "w.test", 9, 8080, "a.test");
	put_srv(&w, "w.test", 9, 0, "b.test");
	put_srv(&w, "w.test", 9, 80, "a b.test");
	put_srv(&w, "w.test", 9, 80, "a\nb.test");
	assert_ok(parse(&w, "w.test", MESSAGE_SRV, &m));
	assert_int_equal(m.count, 1);
	assert_int_equal(m.skipped, 3);
	message_done(&m);

	begin(&w, AUTHORITATIVE, 1, 0, 0, "w.test", MESSAGE_A);
	put_a(&w, "w.test", 9, 0);
	assert_errno(parse(&w, "w.test", MESSAGE_A, &m), EBADMSG);
}

static void a_target_of_the_root_is_kept_with_its_port_of_0(void **state)
{
	struct writer w;
	struct message m;

	(void) state;
	begin(&w, AUTHORITATIVE, 1, 0, 0, "w.test", MESSAGE_SRV);
	put_srv(&w, "w.test", 9, 0, "");
	assert_ok(parse(&w, "w.test", MESSAGE_SRV, &m));
	assert_int_equal(m.count, 1);
	assert_string_equal(m.records[0].target, ".");
	message_done(&m);
}

static void a_ttl_with_the_highest_bit_is_none(void **state)
{
	struct writer w;
	struct message m;

	(void) state;
	begin(&w, AUTHORITATIVE, 1, 0, 0, "w.test", MESSAGE_A);
	put_a(&w, "w.test", 0x80000001, 1);
	assert_ok(parse(&w, "w.test", MESSAGE_A, &m));
	assert_int_equal(m.ttl, 0);
	message_done(&m);
}

static void addresses_that_came_along_are_doubted_where_the_room_was_used_up(void **state)
{
	struct writer w;
	struct message m;
	char owner[32];

	(void) state;
	for (unsigned count = 4; count <= 14; count += 10) {
		begin(&w, AUTHORITATIVE, 1, 0, count, "w.test", MESSAGE_SRV);
		put_srv(&w, "w.test", 9, 80, "t1.test");
		for (unsigned i = 0; i < count; i++) {
			(void) snprintf(owner, sizeof(owner), "t%u.test", i);
			put_a(&w, owner, 9, i + 1);
		}
		assert_ok(parse(&w, "w.test", MESSAGE_SRV, &m));
		assert_int_equal(m.extra_count, count == 4 ? 4 : 0);
		message_done(&m);
	}
}

static int parse_for_oom(void *userdata)
{
	struct message m;
	int r = parse(userdata, "_http._tcp.web.test", MESSAGE_SRV, &m);

	if (r == 0)
		message_done(&m);
	return r;
}

static void parsing_survives_the_lack_of_memory(void **state)
{
	struct writer w;

	(void) state;
	begin(&w, AUTHORITATIVE, 2, 0, 1, "_http._tcp.web.test", MESSAGE_SRV);
	put_cname(&w, "_http._tcp.web.test", 9, "w.test");
	put_srv(&w, "w.test", 9, 8080, "a.test");
	put_a(&w, "a.test", 3, 0x0a000001);
	assert_survives_oom(parse_for_oom, &w);
}

/* ---- names ---- */

static void names_are_made_by_the_template(void **state)
{
	static const struct {
		const char *template, *name, *port, *expected;
	} cases[] = {
		{ "{name}", "web.test", NULL, "web.test" },
		{ "{name}", "web.test.", NULL, "web.test" },
		{ "{name}.svc.test", "web", NULL, "web.svc.test" },
		{ "{name}.svc.test.", "web", NULL, "web.svc.test" },
		{ "_{port}._tcp.{name}.{service}.test", "web", "http", "_http._tcp.web.shop.test" },
		{ "{name}.svc.test", "whole.name.", NULL, "whole.name" },
		{ "{name}.{port}", "web", NULL, NULL },
		{ "{name}", "two..dots", NULL, NULL },
		{ "{name}", ".", NULL, NULL },
		{ "{name}", "white space", NULL, NULL },
		{ "{name}", "a\nb", NULL, NULL },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct usher_wanted wanted = { "shop", cases[i].name, cases[i].port };
		struct usher_error why = { 0 };
		char name[MESSAGE_NAME_MAX];
		int r = names_expand(cases[i].template, &wanted, name, &why);

		if (!cases[i].expected) {
			assert_errno(r, EINVAL);
			continue;
		}
		assert_ok(r);
		assert_string_equal(name, cases[i].expected);
	}
}

static void names_that_are_too_long_are_refused(void **state)
{
	char label[65], name[300] = "", ret[MESSAGE_NAME_MAX];
	const struct usher_wanted wanted = { "s", name, NULL };

	(void) state;
	memset(label, 'a', sizeof(label));
	label[64] = '\0';
	assert_errno(names_check(label, NULL), EINVAL);
	label[63] = '\0';
	assert_ok(names_check(label, NULL));
	(void) snprintf(name, sizeof(name), "%s.%s.%s.%s", label, label, label, label);
	assert_errno(names_expand("{name}", &wanted, ret, NULL), EINVAL);
	name[253] = '\0';
	assert_ok(names_expand("{name}", &wanted, ret, NULL));
	assert_errno(names_append(ret, "test", ret, NULL), EINVAL);
}

static void a_template_with_an_unknown_placeholder_is_refused(void **state)
{
	(void) state;
	assert_ok(names_check_template("_{port}._tcp.{name}.{service}.test", NULL));
	assert_errno(names_check_template("{nome}.test", NULL), EINVAL);
	assert_errno(names_check_template("{name.test", NULL), EINVAL);
	assert_errno(names_check_template("name}.test", NULL), EINVAL);
	assert_errno(names_check_template("{name} test", NULL), EINVAL);
	assert_errno(names_check_template("", NULL), EINVAL);
}

static void servers_are_addresses_with_or_without_a_port(void **state)
{
	(void) state;
	assert_ok(resolver_check_server("10.0.0.1", NULL));
	assert_ok(resolver_check_server("10.0.0.1:5353", NULL));
	assert_ok(resolver_check_server("fd00::1", NULL));
	assert_ok(resolver_check_server("[fd00::1]:5353", NULL));
	assert_errno(resolver_check_server("ns.test", NULL), EINVAL);
	assert_errno(resolver_check_server("10.0.0.1:0", NULL), EINVAL);
	assert_errno(resolver_check_server("", NULL), EINVAL);
}

/* ---- who belongs to a service ---- */

#define SEC UINT64_C(1000000)

static const struct members_rule automatic = { DNS_ROTATES_AUTO, 30 * SEC };
static const struct members_rule always = { DNS_ROTATES_YES, 30 * SEC };
static const struct members_rule never = { DNS_ROTATES_NO, 30 * SEC };

/* Each digit is the end of an address. */
static void answer(struct members *m, const struct members_rule *rule, uint64_t at_sec,
		const char *digits)
{
	struct member all[16] = { 0 };
	size_t count = strlen(digits);

	for (size_t i = 0; i < count; i++) {
		(void) snprintf(all[i].address, sizeof(all[i].address), "10.0.0.%c", digits[i]);
		all[i].port = 80;
	}
	count = members_unite(all, count);
	assert_ok(members_take(m, all, count, rule, at_sec * SEC));
}

static void assert_listed(const struct members *m, uint64_t at_sec, const char *digits)
{
	char listed[17] = "";
	size_t length = 0;

	for (size_t i = 0; i < m->count; i++)
		if (member_is_listed(&m->all[i], at_sec * SEC))
			listed[length++] = m->all[i].address[7];
	assert_string_equal(listed, digits);
}

static void who_leaves_alone_is_gone_at_once(void **state)
{
	struct members m = { 0 };

	(void) state;
	answer(&m, &automatic, 1, "123");
	answer(&m, &automatic, 2, "12");
	assert_listed(&m, 2, "12");
	members_done(&m);
}

static void a_rolling_deployment_is_followed_once_the_name_is_known(void **state)
{
	struct members m = { 0 };

	(void) state;
	answer(&m, &automatic, 1, "123");
	answer(&m, &automatic, 40, "124");
	assert_listed(&m, 40, "124");
	answer(&m, &automatic, 41, "154");
	assert_listed(&m, 41, "145");
	members_done(&m);
}

static void until_the_name_is_known_who_leaves_as_others_come_stays(void **state)
{
	struct members m = { 0 };

	(void) state;
	answer(&m, &automatic, 1, "123");
	answer(&m, &automatic, 2, "124");
	assert_listed(&m, 2, "1234");
	answer(&m, &automatic, 33, "124");
	assert_listed(&m, 33, "124");
	members_done(&m);
}

static void a_name_that_is_seen_to_rotate_loses_nobody(void **state)
{
	struct members m = { 0 };

	(void) state;
	answer(&m, &automatic, 1, "123");
	answer(&m, &automatic, 2, "456");
	answer(&m, &automatic, 3, "781");
	assert_true(members_rotate(&m, &automatic, 3 * SEC));
	assert_listed(&m, 3, "12345678");
	for (uint64_t at = 4; at < 200; at += 3) {
		answer(&m, &automatic, at, "234");
		answer(&m, &automatic, at + 1, "567");
		answer(&m, &automatic, at + 2, "812");
		assert_listed(&m, at + 2, "12345678");
	}
	members_done(&m);
}

static void a_name_that_rotates_lets_go_of_who_was_not_seen_for_the_hold(void **state)
{
	struct members m = { 0 };

	(void) state;
	answer(&m, &always, 1, "12");
	answer(&m, &always, 2, "3");
	answer(&m, &always, 30, "4");
	assert_listed(&m, 30, "1234");
	answer(&m, &always, 31, "4");
	assert_listed(&m, 31, "34");
	answer(&m, &always, 32, "4");
	assert_listed(&m, 32, "4");
	members_done(&m);
}

static void an_instance_that_flaps_is_no_rotation(void **state)
{
	struct members m = { 0 };

	(void) state;
	answer(&m, &automatic, 1, "123");
	answer(&m, &automatic, 2, "12");
	answer(&m, &automatic, 3, "123");
	answer(&m, &automatic, 4, "12");
	assert_false(members_rotate(&m, &automatic, 4 * SEC));
	assert_listed(&m, 4, "12");
	members_done(&m);
}

static void a_rotation_that_has_ended_is_forgotten(void **state)
{
	struct members m = { 0 };

	(void) state;
	answer(&m, &automatic, 1, "1");
	answer(&m, &automatic, 2, "2");
	answer(&m, &automatic, 3, "1");
	assert_true(members_rotate(&m, &automatic, 3 * SEC));
	answer(&m, &automatic, 400, "123");
	answer(&m, &automatic, 401, "12");
	assert_false(members_rotate(&m, &automatic, 401 * SEC));
	assert_listed(&m, 401, "12");
	members_done(&m);
}

static void without_rotation_each_answer_is_whole(void **state)
{
	struct members m = { 0 };

	(void) state;
	answer(&m, &never, 1, "123");
	answer(&m, &never, 2, "456");
	answer(&m, &never, 3, "123");
	assert_listed(&m, 3, "123");
	members_done(&m);
}

static void one_address_and_port_is_one_member_of_the_best_priority(void **state)
{
	struct member all[] = {
		{ .address = "10.0.0.1", .port = 80, .priority = 20, .weight = 5, .target = "c" },
		{ .address = "10.0.0.1", .port = 80, .priority = 10, .weight = 3, .target = "b" },
		{ .address = "10.0.0.1", .port = 81, .priority = 10, .weight = 9, .target = "a" },
		{ .address = "10.0.0.1", .port = 80, .priority = 10, .weight = 4, .target = "a" },
	};

	(void) state;
	assert_int_equal(members_unite(all, 4), 2);
	assert_string_equal(all[0].target, "a");
	assert_int_equal(all[0].weight, 7);
	assert_int_equal(all[0].priority, 10);
	assert_int_equal(all[1].port, 81);
	assert_int_equal(members_unite(all, 0), 0);
}

static void tiers_are_the_ranks_of_the_priorities_that_there_are(void **state)
{
	const struct member all[] = {
		{ .address = "10.0.0.1",
				.port = 80,
				.priority = 700,
				.weight = 70000,
				.target = "a" },
		{ .address = "10.0.0.2", .port = 80, .priority = 7, .weight = 0, .target = "b" },
		{ .address = "10.0.0.3",
				.port = 80,
				.priority = 700,
				.weight = 131070,
				.target = "c" },
	};
	const char *const tiers[] = { "2", "1", "2" };
	const uint32_t weights[] = { 70000, 1, USHER_WEIGHT_MAX };
	struct members m = { 0 };
	struct usher_endpoints *set;

	(void) state;
	assert_ok(members_take(&m, all, 3, &never, SEC));
	assert_ok(members_to_endpoints(&m, true, true, SEC, &set, NULL));
	usher_endpoints_seal(set);
	for (size_t i = 0; i < 3; i++) {
		struct usher_endpoint e;

		usher_endpoints_get(set, i, &e);
		assert_int_equal(e.weight, weights[i]);
		assert_true(e.secure);
		assert_string_equal(usher_endpoints_metadata(set, i, "dns.tier"), tiers[i]);
	}
	(void) usher_endpoints_unref(set);
	members_done(&m);
}

static int members_for_oom(void *userdata)
{
	struct member all[] = {
		{ .address = "10.0.0.1", .port = 80, .target = "a" },
		{ .address = "10.0.0.2", .port = 80, .target = "b" },
	};
	struct members m = { 0 };
	struct usher_endpoints *set;
	int r;

	(void) userdata;
	r = members_take(&m, all, 2, &always, SEC);
	if (r == 0)
		r = members_to_endpoints(&m, true, false, SEC, &set, NULL);
	if (r == 0)
		(void) usher_endpoints_unref(set);
	members_done(&m);
	return r;
}

static void members_survive_the_lack_of_memory(void **state)
{
	(void) state;
	assert_survives_oom(members_for_oom, NULL);
}

/* ---- options ---- */

static void options_are_judged_together(void **state)
{
	static const char *const good[] = { "127.0.0.1:53", NULL };
	static const char *const bad[] = { "localhost", NULL };
	static const char *const none[] = { NULL };
	const struct dns base = {
		.name = "{name}",
		.ttl_min_usec = SEC,
		.ttl_max_usec = 15 * SEC,
		.timeout_usec = SEC,
		.hold_usec = 30 * SEC,
	};
	struct dns d = base;

	(void) state;
	assert_ok(usher_plugin.init(&d, NULL));
	d.servers = good;
	assert_ok(usher_plugin.init(&d, NULL));
	d.servers = bad;
	assert_errno(usher_plugin.init(&d, NULL), EINVAL);
	d.servers = none;
	assert_errno(usher_plugin.init(&d, NULL), EINVAL);
	d = base;
	d.ttl_min_usec = 16 * SEC;
	assert_errno(usher_plugin.init(&d, NULL), ERANGE);
	d = base;
	d.ttl_max_usec = 0;
	assert_errno(usher_plugin.init(&d, NULL), ERANGE);
	d = base;
	d.timeout_usec = 1;
	assert_errno(usher_plugin.init(&d, NULL), ERANGE);
	d = base;
	d.search = bad;
	assert_ok(usher_plugin.init(&d, NULL));
	d.search = (const char *const[]){ "a..b", NULL };
	assert_errno(usher_plugin.init(&d, NULL), EINVAL);
	assert_null(usher_plugin.registration);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(srv_records_come_with_addresses_and_the_least_ttl),
		cmocka_unit_test(a_chain_of_cnames_counts_for_the_least_of_its_ttls),
		cmocka_unit_test(a_chain_that_leads_away_is_an_alias_and_no_emptiness),
		cmocka_unit_test(a_chain_in_a_circle_is_refused),
		cmocka_unit_test(what_is_not_there_is_proven_by_an_soa_and_counts_for_its_least),
		cmocka_unit_test(failures_are_told_apart_and_never_empty),
		cmocka_unit_test(an_answer_that_ends_early_is_malformed_wherever_it_does),
		cmocka_unit_test(a_pointer_that_leads_forward_or_to_itself_is_malformed),
		cmocka_unit_test(records_that_cannot_be_used_are_left_out_and_counted),
		cmocka_unit_test(a_target_of_the_root_is_kept_with_its_port_of_0),
		cmocka_unit_test(a_ttl_with_the_highest_bit_is_none),
		cmocka_unit_test(addresses_that_came_along_are_doubted_where_the_room_was_used_up),
		cmocka_unit_test(parsing_survives_the_lack_of_memory),
		cmocka_unit_test(names_are_made_by_the_template),
		cmocka_unit_test(names_that_are_too_long_are_refused),
		cmocka_unit_test(a_template_with_an_unknown_placeholder_is_refused),
		cmocka_unit_test(servers_are_addresses_with_or_without_a_port),
		cmocka_unit_test(who_leaves_alone_is_gone_at_once),
		cmocka_unit_test(a_rolling_deployment_is_followed_once_the_name_is_known),
		cmocka_unit_test(until_the_name_is_known_who_leaves_as_others_come_stays),
		cmocka_unit_test(a_name_that_is_seen_to_rotate_loses_nobody),
		cmocka_unit_test(a_name_that_rotates_lets_go_of_who_was_not_seen_for_the_hold),
		cmocka_unit_test(an_instance_that_flaps_is_no_rotation),
		cmocka_unit_test(a_rotation_that_has_ended_is_forgotten),
		cmocka_unit_test(without_rotation_each_answer_is_whole),
		cmocka_unit_test(one_address_and_port_is_one_member_of_the_best_priority),
		cmocka_unit_test(tiers_are_the_ranks_of_the_priorities_that_there_are),
		cmocka_unit_test(members_survive_the_lack_of_memory),
		cmocka_unit_test(options_are_judged_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
