/* `registrations` and `address_from`: what holds, and what a person reads when it cannot be. */

#include "config-texts.h"
#include "ownership.h"
#include "registration-config.h"

#define NODE  "node: {name: n7, zone: east}\n"
#define ITEMS "registrations:\n"

static struct config *parse_items(const char *items)
{
	char yaml[4096];

	(void) snprintf(yaml, sizeof(yaml), SOURCES NODE "%s", items);
	return parse(yaml);
}

static void assert_item_refused(const char *item, const char *expected)
{
	char yaml[4096], message[USHER_ERROR_TEXT_MAX];

	(void) snprintf(yaml, sizeof(yaml), SOURCES NODE ITEMS "- %s\n", item);
	(void) snprintf(message, sizeof(message), MAIN ":6:%s", expected);
	assert_refused(yaml, message);
}

static void assert_id(const struct registration_config *r, const struct config *c,
		const char *address, const char *expected)
{
	struct usher_error err = {};
	autofree char *id = NULL;

	if (registration_config_id(r, c, address, &id, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(id, expected);
}

/* ---- what holds ---- */

static void an_item_has_the_defaults_of_its_table(void **state)
{
	struct config *c = parse_items(ITEMS "- {service: catalog, port: 8080}\n");
	const struct registration_config *r = c->registrations;

	(void) state;
	assert_int_equal(c->registration_count, 1);
	assert_string_equal(r->service, "catalog");
	assert_id(r, c, NULL, "catalog-n7-8080");
	assert_int_equal(r->weight, 1);
	assert_null(r->address);
	assert_int_equal(r->feed_count, 0);
	assert_int_equal(r->health.check.kind, CHECK_NONE);
	assert_int_equal(r->on_unhealthy, UNHEALTHY_KEEP);
	assert_int_equal(r->on_stop, STOP_KEEP);
	assert_int_equal(r->address_from.family, ADDRESS_PREFER_IPV4);
	assert_string_equal(r->address_from.ignored_interfaces[0], "docker*");
	assert_string_equal(registration_config_zone(r, c), "east");
	config_unref(c);
}

static void placeholders_stand_for_its_own(void **state)
{
	struct config *c = parse_items(ITEMS
			"- {service: catalog, port: 1, zone: west, id: '{service}.{node}.{port}.{zone}'}\n"
			"- {service: catalog, port: 1, id: 'at-{address}'}\n");
	autofree char *none = NULL;

	(void) state;
	assert_id(&c->registrations[0], c, NULL, "catalog.n7.1.west");
	assert_id(&c->registrations[1], c, "fd00::5", "at-fd00::5");
	assert_errno(registration_config_id(&c->registrations[1], c, NULL, &none, NULL),
			EADDRNOTAVAIL);
	config_unref(c);
}

static void sources_and_metadata_are_read_whole(void **state)
{
	struct config *c = parse_items(ITEMS
			"- {service: catalog, port: 1, sources: [files, {source: cluster, name: svc, port: http}],\n"
			"   metadata: {a: 1, b: 'true'}}\n");
	const struct registration_config *r = c->registrations;

	(void) state;
	assert_int_equal(r->feed_count, 2);
	assert_string_equal(r->feeds[0].name, "catalog");
	assert_string_equal(r->feeds[1].name, "svc");
	assert_string_equal(r->feeds[1].port, "http");
	assert_int_equal(r->metadata_count, 2);
	assert_string_equal(r->metadata[0].value, "1");
	config_unref(c);
}

static void address_from_overrides_that_of_the_node_key_by_key(void **state)
{
	struct config *c = parse(SOURCES
			"node: {address_from: {family: ipv6, networks: [private], ignored_interfaces: []}}\n" ITEMS
			"- {service: a, port: 1, address_from: {family: ipv4, interfaces: [eth0, 'b*']}}\n"
			"- {service: b, port: 1}\n");
	const struct address_config *a = &c->registrations[0].address_from;

	(void) state;
	assert_int_equal(a->family, ADDRESS_IPV4);
	assert_string_equal(a->interfaces[1], "b*");
	assert_null(a->ignored_interfaces[0]);
	assert_int_equal(a->network_count, 4);
	assert_true(a->networks[3].is_ipv6 && a->networks[3].prefix == 7);
	assert_int_equal(c->registrations[1].address_from.family, ADDRESS_IPV6);
	config_unref(c);
}

static void its_check_is_its_own_over_that_of_the_service_key_by_key(void **state)
{
	struct config *c = parse_items(
			"services: {catalog: {health: {http: {path: /up}, interval: 7s, outlier: {enabled: true}}}}\n" ITEMS
			"- {service: catalog, port: 1, health: {interval: 1s}}\n"
			"- {service: catalog, port: 2, health: none}\n"
			"- {service: catalog, port: 3, health: {tcp: }}\n"
			"- {service: other, port: 4, health: {initial: up, exec: {command: [/bin/true]}}}\n");
	const struct registration_config *r = c->registrations;

	(void) state;
	assert_int_equal(r[0].health.check.kind, CHECK_HTTP);
	assert_string_equal(r[0].health.check.path, "/up");
	assert_int_equal(r[0].health.interval_usec, 1000000);
	assert_false(r[0].health.outlier.enabled);
	assert_int_equal(r[1].health.check.kind, CHECK_NONE);
	assert_int_equal(r[2].health.check.kind, CHECK_TCP);
	assert_int_equal(r[2].health.interval_usec, 7000000);
	assert_int_equal(r[3].health.check.kind, CHECK_EXEC);
	/* Before the first check it is nothing, whatever is written. */
	assert_int_equal(r[3].health.initial, USHER_HEALTH_UNKNOWN);
	config_unref(c);
}

static void files_of_conf_d_add_theirs(void **state)
{
	static const char *const texts[] = { SOURCES ITEMS "- {service: a, port: 1}\n",
		ITEMS "- {service: b, port: 1}\n" };
	struct config *c = NULL;

	(void) state;
	assert_ok(parse_texts(texts, 2, &c, NULL));
	assert_int_equal(c->registration_count, 2);
	assert_string_equal(c->registrations[1].service, "b");
	config_unref(c);
}

/* ---- what is refused ---- */

static void what_is_wrong_is_named_with_its_place_and_what_is_right(void **state)
{
	(void) state;
	assert_item_refused("{service: catalog}",
			"3: registrations[0]: \"port\" is missing: The port that the instance serves on.");
	assert_item_refused("{service: catalog, port: 1, adress: a}",
			"31: registrations[0]: unknown key \"adress\"; did you mean \"address\"?");
	assert_item_refused("{service: catalog, port: 1, sources: [filez]}",
			"41: registrations[0].sources[0]: \"filez\" is not a declared source; did you mean \"files\"?");
	assert_item_refused("{service: catalog, port: 1, sources: [files, files]}",
			"48: registrations[0].sources[1]: the source \"files\" is named twice; it is registered once in each");
	assert_item_refused(
			"{service: catalog, port: 1, sources: [{source: files, decides: [zone]}]}",
			"57: registrations[0].sources[0]: unknown key \"decides\"; known are source, name and port");
	assert_item_refused("{service: catalog, port: 1, sources: []}",
			"40: registrations[0].sources: is an empty list; name a source, or leave it out for the first of the service's that can register");
	assert_item_refused("{service: catalog, port: 1, address: '10.0.0.5:80'}",
			"40: registrations[0].address: address \"10.0.0.5:80\" contains a port; write the address and the port apart");
}

static void ids_that_cannot_be_are_refused(void **state)
{
	(void) state;
	assert_item_refused("{service: catalog, port: 1, id: 'a/b'}",
			"35: registrations[0].id: the name \"a/b\" has a space or a slash; neither is possible");
	assert_item_refused("{service: catalog, port: 1, id: '{nod}'}",
			"35: registrations[0].id: {nod} is no placeholder; did you mean {node}?");
	assert_item_refused("{service: catalog, port: 1, id: '{x}'}",
			"35: registrations[0].id: {x} is no placeholder; there are {node}, {service}, {port}, {zone} and {address}");
	assert_item_refused("{service: catalog, port: 1, id: 'a{node'}",
			"35: registrations[0].id: the brace in \"{node\" is not closed");
	assert_refused(SOURCES NODE ITEMS "- {service: a, port: 1}\n- {service: a, port: 1}\n",
			MAIN
			":7:3: registrations[1]: a-n7-1 of a is declared already, at /etc/usher/usher.yaml:6; give each an id of its own");
}

static void networks_that_are_none_are_refused(void **state)
{
	(void) state;
	assert_item_refused("{service: a, port: 1, address_from: {networks: [10.2]}}",
			"51: registrations[0].address_from.networks[0]: \"10.2\" is no network; write one like 10.0.0.0/8 or fd00::/8, or private");
	assert_item_refused("{service: a, port: 1, address_from: {networks: [10.0.0.1/8]}}",
			"51: registrations[0].address_from.networks[0]: 10.0.0.1/8 has bits behind its /8; write the network's own address");
	assert_item_refused("{service: a, port: 1, address_from: {networks: [10.0.0.0/33]}}",
			"51: registrations[0].address_from.networks[0]: \"10.0.0.0/33\" is no network; write one like 10.0.0.0/8 or fd00::/8, or private");
}

static void health_has_what_is_about_one_instance_only(void **state)
{
	(void) state;
	assert_item_refused("{service: a, port: 1, health: {tcp: , outlier: {enabled: true}}}",
			"41: registrations[0].health: unknown key \"outlier\"; known are http, tcp, grpc, exec, port, port_label, interval, timeout, interval_down, jitter, rise, fall, initial and flapping");
	assert_item_refused("{service: a, port: 1, health: {interval: 1s}}",
			"33: registrations[0].health: has no check; add one of http, tcp, grpc and exec, or write none");
}

/* ---- over the API ---- */

static void assert_body_refused(const struct config *c, const char *body, const char *expected)
{
	struct registration_config *r = NULL;
	struct usher_error err = {};

	assert_true(registration_config_parse(c, "catalog", "a", body, &r, &err) < 0);
	assert_null(r);
	assert_string_equal(err.text, expected);
}

static void the_api_takes_the_same_keys_and_an_id_as_it_is(void **state)
{
	struct config *c = parse_items("services: {catalog: {health: {tcp: }}}\n");
	struct registration_config *r = NULL, *same = NULL;

	(void) state;
	assert_ok(registration_config_parse(c, "catalog", "{node}",
			"{\"port\": 80, \"metadata\": {\"v\": \"1\"}}", &r, NULL));
	assert_ok(registration_config_parse(c, "catalog", "{node}",
			"{\"metadata\": {\"v\": \"1\"},\n \"port\": 80}", &same, NULL));
	assert_id(r, c, NULL, "{node}");
	assert_int_equal(r->health.check.kind, CHECK_TCP);
	assert_true(registration_config_equal(r, same));
	registration_config_free(r);
	registration_config_free(same);
	config_unref(c);
}

static void a_body_that_is_wrong_is_refused_with_its_place(void **state)
{
	struct config *c = parse_items("");

	(void) state;
	assert_body_refused(c, "{}",
			"body:1:1: \"port\" is missing: The port that the instance serves on.");
	assert_body_refused(c, "port: 80", "body:1:4: no JSON: '[' or '{' expected near 'port'");
	assert_body_refused(c,
			"{\"port\": 1, \"health\": {\"exec\": {\"command\": [\"/bin/true\"]}}}",
			"body:1:32: health.exec: programs are run only where the configuration says so; ask by http, tcp or grpc, or declare the check there");
	assert_body_refused(c, "[]", "body: must be a JSON object");
	assert_body_refused(c, "{\"port\": 1, \"zone\": \"a\\u0000\"}",
			"body:1:29: no JSON: a text has \\u0000 in it, which usher does not take; leave it out");
	assert_body_refused(c, "{\"port\": 1, \"id\": \"b\"}",
			"body:1:13: unknown key \"id\"; known are port, address, address_from, secure, zone, weight, metadata, sources, health, on_unhealthy and on_stop");
	config_unref(c);
}

static int parse_without_memory(void *userdata)
{
	static const char text[] = SOURCES NODE ITEMS
			"- {service: a, port: 1, metadata: {x: y}, sources: [files], health: {http: },"
			" address_from: {networks: [private], interfaces: [a]}}\n";
	const char *texts[] = { text };
	struct config *c = NULL;
	int r = parse_texts(texts, 1, &c, NULL);

	(void) userdata;
	config_unref(c);
	return r;
}

static void memory_that_runs_out_leaves_nothing_behind(void **state)
{
	(void) state;
	assert_survives_oom(parse_without_memory, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_item_has_the_defaults_of_its_table),
		cmocka_unit_test(placeholders_stand_for_its_own),
		cmocka_unit_test(sources_and_metadata_are_read_whole),
		cmocka_unit_test(address_from_overrides_that_of_the_node_key_by_key),
		cmocka_unit_test(its_check_is_its_own_over_that_of_the_service_key_by_key),
		cmocka_unit_test(files_of_conf_d_add_theirs),
		cmocka_unit_test(what_is_wrong_is_named_with_its_place_and_what_is_right),
		cmocka_unit_test(ids_that_cannot_be_are_refused),
		cmocka_unit_test(networks_that_are_none_are_refused),
		cmocka_unit_test(health_has_what_is_about_one_instance_only),
		cmocka_unit_test(the_api_takes_the_same_keys_and_an_id_as_it_is),
		cmocka_unit_test(a_body_that_is_wrong_is_refused_with_its_place),
		cmocka_unit_test(memory_that_runs_out_leaves_nothing_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
