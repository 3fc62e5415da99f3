/* What a person reads when a configuration is refused: file, line, column, path, what is wrong, and
 * what would be right. */

#include "config-texts.h"

static void an_unknown_key_is_named_with_the_nearest_known_one(void **state)
{
	(void) state;
	assert_refused("sorces: []\n",
			MAIN ":1:1: unknown key \"sorces\"; did you mean \"sources\"?");
	assert_refused("node: {name: a, zon: b}\n",
			MAIN ":1:17: node: unknown key \"zon\"; did you mean \"zone\"?");
	assert_refused("node: {colour: a}\n",
			MAIN
			":1:8: node: unknown key \"colour\"; known are name, zone and address_from");
	assert_refused(SOURCES
			"services:\n  catalog:\n    drain:\n      propagation: {registy: 5s}\n",
			MAIN
			":7:21: services.catalog.drain.propagation: unknown key \"registy\"; did you mean \"registry\"?");
	assert_refused(SOURCES "services:\n  catalog:\n    balance: {interval: 5s}\n",
			MAIN
			":6:5: services.catalog: unknown key \"balance\"; known are startup_timeout, sources, merge, freshness, removal_guard, health, chain, select, drain and restore");
	assert_refused("sources:\n  - {name: files, plugn: file}\n",
			MAIN ":2:19: sources[0]: unknown key \"plugn\"; did you mean \"plugin\"?");
	assert_refused(SOURCES "services: {catalog: {lazy: {}}}\n",
			MAIN
			":4:22: services.catalog: unknown key \"lazy\"; known are startup_timeout, sources, merge, freshness, removal_guard, health, chain, select, drain and restore");
}

static void a_wrong_kind_is_said_in_words(void **state)
{
	(void) state;
	assert_refused("[]\n", MAIN ":1:1: must be a map, not a list");
	assert_refused("node: east\n", MAIN ":1:7: node: must be a map, not a text");
	assert_refused("sources: {a: b}\n",
			MAIN
			":1:10: sources: must be a list of {name, plugin, options}, not a map");
	assert_refused("services: [catalog]\n",
			MAIN ":1:11: services: must be a map of services by name, not a list");
	assert_refused("state_dir: [a]\n", MAIN ":1:12: state_dir: expected a text, got a list");
	assert_refused("plugin_dirs: /a\n", MAIN ":1:14: plugin_dirs: must be a list, not a text");
	assert_refused("sources:\n  - {name: a, plugin: file, options: [b]}\n",
			MAIN ":2:38: sources[0].options: must be a map of options, not a list");
	assert_refused(SOURCES "defaults: {sources: files}\n",
			MAIN ":4:21: defaults.sources: must be a list, not a text");
}

static void a_value_out_of_range_or_shape_is_named_with_what_is_right(void **state)
{
	(void) state;
	assert_refused("defaults: {freshness: {max_age: 10}}\n",
			MAIN
			":1:33: defaults.freshness.max_age: \"10\" is not a duration; write a number and a unit, such as 250ms, 5s or 2m");
	assert_refused("defaults: {freshness: {max_age: 1ms}}\n",
			MAIN ":1:33: defaults.freshness.max_age: 1ms is not in 100ms..7d");
	assert_refused("defaults: {removal_guard: {share: 0.5}}\n",
			MAIN
			":1:35: defaults.removal_guard.share: \"0.5\" is not a share; write a percentage, such as 10%");
	assert_refused("defaults: {drain: {min_ready: -1}}\n",
			MAIN ":1:31: defaults.drain.min_ready: -1 is not in 0..100000");
	assert_refused("defaults: {lazy: {allow: yes}}\n",
			MAIN ":1:26: defaults.lazy.allow: expected true or false, got \"yes\"");
	assert_refused("defaults: {restore: {probe: {port: 65536}}}\n",
			MAIN ":1:36: defaults.restore.probe.port: 65536 is not in 1..65535");
	assert_refused("api: {consumer: {mode: rw-rw-rw-}}\n",
			MAIN
			":1:24: api.consumer.mode: \"rw-rw-rw-\" is not a mode; write it in octal, like \"0660\"");
	assert_refused("api: {consumer: {mode: \"0888\"}}\n",
			MAIN
			":1:24: api.consumer.mode: \"0888\" is not a mode; write it in octal, like \"0660\"");
	assert_refused("api: {http: {listen: \"localhost:9180\"}}\n",
			MAIN
			":1:22: api.http.listen: \"localhost:9180\" is not ADDRESS:PORT; write it like \"127.0.0.1:9180\" or \"[::1]:9180\"");
	assert_refused("api: {http: {listen: \"127.0.0.1:0\"}}\n",
			MAIN
			":1:22: api.http.listen: \"127.0.0.1:0\" is not ADDRESS:PORT; write it like \"127.0.0.1:9180\" or \"[::1]:9180\"");
	assert_refused("state_dir: var\n",
			MAIN ":1:12: state_dir: \"var\" is not an absolute path; start it with /");
	assert_refused("state_dir: \"\"\n", MAIN ":1:12: state_dir: is empty");
	assert_refused("node: {name: \"a b\"}\n",
			MAIN
			":1:14: node.name: the name \"a b\" has a space or a slash; neither is possible");
}

static void a_socket_path_must_fit_its_address(void **state)
{
	char text[256], fits[108] = "/";

	(void) state;
	memset(fits + 1, 's', 106);
	(void) snprintf(text, sizeof(text), "api: {consumer: {socket: %s}}\n", fits);
	config_unref(parse(text));
	(void) snprintf(text, sizeof(text), "api: {consumer: {socket: %sx}}\n", fits);
	assert_refused(text,
			MAIN
			":1:26: api.consumer.socket: the path has 108 bytes; at most 107 are possible here");
}

static void a_word_that_is_not_offered_is_named_with_what_is(void **state)
{
	(void) state;
	assert_refused("sources: [{name: a, plugin: file}]\n"
		       "services: {x: {sources: [{source: a, decides: [port]}]}}\n",
			MAIN
			":2:48: services.x.sources[0].decides[0]: \"port\" is not offered; there are secure, zone, weight, conditions, admin_state and metadata");
	assert_refused("sources: [{name: a, plugin: file}]\n"
		       "services: {x: {sources: [{source: a, decides: [zone]}]}}\n",
			MAIN
			":2:26: services.x.sources[0]: \"decides\" says whose word counts where several sources show an endpoint, and merge: first takes all of it from one; write merge: union, or leave it out");
	assert_refused("defaults: {merge: onion}\n",
			MAIN
			":1:19: defaults.merge: \"onion\" is not offered; did you mean \"union\"?");
	assert_refused("defaults: {drain: {order: fast}}\n",
			MAIN
			":1:27: defaults.drain.order: \"fast\" is not offered; there are serve_stale and refuse_first");
	assert_refused("defaults: {drain: {in_flight: {from: [tpc]}}}\n",
			MAIN
			":1:39: defaults.drain.in_flight.from[0]: \"tpc\" is not offered; did you mean \"tcp\"?");
	assert_refused("defaults: {drain: {in_flight: {from: []}}}\n",
			MAIN
			":1:38: defaults.drain.in_flight.from: must be a list of \"tcp\" and \"consumers\"");
	assert_refused(SOURCES "services: {a: {chain: [{zone: {on_empty: stop}}]}}\n",
			MAIN
			":4:42: services.a.chain[0].zone.on_empty: \"stop\" is not offered; there are pass, fail and next");
	assert_refused(SOURCES "services: {a: {chain: [{zone: {on_empty: next}}]}}\n",
			MAIN
			":4:42: services.a.chain[0].zone.on_empty: there is no next rule; write pass or fail, or add a rule");
	assert_refused(SOURCES "services: {a: {chain: [{zone: []}]}}\n",
			MAIN
			":4:31: services.a.chain[0].zone: is an empty list of rules; write {} for a stage without options");
	assert_refused(SOURCES "services: {a: {chain: [{zone: [{prefer: a}, {prefer: b}]}]}}\n",
			MAIN
			":4:45: services.a.chain[0].zone[1]: is never reached, for the rule before it always applies; give that a `when` or on_empty: next, or remove this one");
	assert_refused(SOURCES "services: {a: {chain: [{zone: [a]}]}}\n",
			MAIN
			":4:32: services.a.chain[0].zone[0]: must be the options of a rule, {...}, not a text");
	assert_refused(SOURCES "services: {a: {chain: [{zone: {when: {hnt: present}}}]}}\n",
			MAIN
			":4:39: services.a.chain[0].zone.when: unknown key \"hnt\"; did you mean \"hint\"?");
	assert_refused(SOURCES "services: {a: {chain: [{zone: {when: {}}}]}}\n",
			MAIN
			":4:38: services.a.chain[0].zone.when: has 0 conditions; 1 to 16 are possible, and a rule without `when` always applies");
	assert_refused(SOURCES "services: {a: {chain: [{zone: {when: hint}}]}}\n",
			MAIN
			":4:38: services.a.chain[0].zone.when: must be a map of conditions as {header.NAME: present}, not a text");
	assert_refused(SOURCES "services: {a: {chain: [{zone: {when: {hint: [x]}}}]}}\n",
			MAIN
			":4:45: services.a.chain[0].zone.when.hint: must be `present`, `absent`, or the text that it must be");
	assert_refused(SOURCES "services: {a: {select: {random: {when: {hint: x}}}}}\n",
			MAIN
			":4:34: services.a.select.random: only a stage of a chain has \"when\"");
}

static void a_missing_key_is_explained(void **state)
{
	(void) state;
	assert_refused("sources: [{name: files}]\n",
			MAIN
			":1:11: sources[0]: \"plugin\" is missing: The discovery plug-in: the name of its file without .so.");
	assert_refused(SOURCES "services: {a: {sources: [{name: b}]}}\n",
			MAIN
			":4:26: services.a.sources[0]: \"source\" is missing: A source that `sources` declares.");
	assert_refused("defaults: {drain: {close: {http: {method: GET}}}}\n",
			MAIN
			":1:34: defaults.drain.close.http: \"url\" is missing: What to call: http:// or https://.");
}

static void a_source_that_nobody_declares_is_named_with_the_nearest(void **state)
{
	(void) state;
	assert_refused(SOURCES "services: {a: {sources: [clustr]}}\n",
			MAIN
			":4:26: services.a.sources[0]: \"clustr\" is not a declared source; did you mean \"cluster\"?");
	assert_refused(SOURCES "defaults: {sources: [{source: consul}]}\n",
			MAIN
			":4:31: defaults.sources[0].source: \"consul\" is not a declared source; there are files and cluster");
	assert_refused("defaults: {sources: [files]}\n",
			MAIN
			":1:22: defaults.sources[0]: \"files\" is not a declared source; there is none");
	assert_refused("services: {a: {}}\n",
			MAIN
			":1:12: services: a service is declared, but no source to look it up in; declare one in sources");
	assert_refused(SOURCES "services: {a: {sources: [files, {source: files, name: b}]}}\n",
			MAIN
			":4:33: services.a.sources[1]: the source \"files\" is named twice; a service is looked up once in each");
	assert_refused(SOURCES "services: {a: {sources: []}}\n",
			MAIN
			":4:25: services.a.sources: is an empty list; name a source, or leave it out for all of them");
}

static void a_stage_of_two_keys_is_explained(void **state)
{
	(void) state;
	assert_refused(SOURCES
			"services:\n  a:\n    chain:\n      - zone: {prefer: east}\n        on_empty: pass\n",
			MAIN
			":7:9: services.a.chain[0]: has 2 keys; a stage is one NAME: {OPTIONS}, with everything else among the options");
	assert_refused(SOURCES "services: {a: {select: {random: {on_empty: pass}}}}\n",
			MAIN
			":4:34: services.a.select.random: only a stage of a chain has \"on_empty\"");
	assert_refused("sources: [{name: a, plugin: b, options: {on_empty: pass}}]\n",
			MAIN ":1:42: sources[0].options: only a stage of a chain has \"on_empty\"");
	assert_refused("defaults: {chain: [[ready]]}\n",
			MAIN
			":1:20: defaults.chain[0]: must be NAME or NAME: {OPTIONS}, not a list");
	assert_refused("defaults: {chain: [{zone: east}]}\n",
			MAIN ":1:27: defaults.chain[0].zone: must be a map of options, not a text");
}

static void a_hook_that_could_not_run_is_refused(void **state)
{
	(void) state;
	assert_refused("defaults: {drain: {close: {exe: [/a]}}}\n",
			MAIN
			":1:28: defaults.drain.close: unknown key \"exe\"; did you mean \"exec\"?");
	assert_refused("defaults: {drain: {close: /bin/stop}}\n",
			MAIN
			":1:27: defaults.drain.close: must be \"none\" or a map with one of exec, http and systemd");
	assert_refused("defaults: {drain: {close: {exec: [stop]}}}\n",
			MAIN
			":1:35: defaults.drain.close.exec[0]: \"stop\" is not an absolute path; there is no shell to look for it");
	assert_refused("defaults: {drain: {close: {exec: stop}}}\n",
			MAIN ":1:34: defaults.drain.close.exec: must be a list, not a text");
	assert_refused("defaults: {drain: {close: {http: \"ftp://a\"}}}\n",
			MAIN
			":1:34: defaults.drain.close.http: is not a URL of http:// or https:// (not shown, for a password may stand in it)");
	assert_refused("defaults: {drain: {close: {systemd: catalog}}}\n",
			MAIN
			":1:37: defaults.drain.close.systemd: \"catalog\" is not the name of a unit; did you mean \"catalog.service\"?");
	assert_refused("defaults: {drain: {close: {exec: [/a, \"{adress}\"]}}}\n",
			MAIN
			":1:39: defaults.drain.close.exec[1]: unknown placeholder \"{adress}\"; did you mean \"{address}\"?");
	config_unref(parse("defaults: {drain: {close: {exec: [/usr/bin/awk, \"{print}\"]}}}\n"));
}

static void windows_beyond_the_deadline_are_added_up(void **state)
{
	(void) state;
	assert_refused(SOURCES
			"services:\n"
			"  catalog:\n"
			"    drain:\n"
			"      propagation: {registry: 5s, consumer_refresh: 30s, consumer_cache: 35s, margin: 2s}\n"
			"      deadline: 1m\n",
			MAIN
			":8:17: services.catalog.drain.deadline: the deadline of 1m does not cover the windows: registry 5s + consumer_refresh 30s + consumer_cache 35s + margin 2s + in_flight.timeout 30s = 1m42s; raise the deadline or shorten them");
	assert_refused(SOURCES "services: {catalog: {drain: {propagation: {timeout: 100s}}}}\n",
			MAIN
			":4:29: services.catalog.drain: the deadline of 2m does not cover propagation.timeout 1m40s + in_flight.timeout 30s = 2m10s; raise the deadline or shorten them");
	assert_refused("defaults: {drain: {propagation: {registry: 5s, timeout: 2s}}}\n",
			MAIN
			":1:57: defaults.drain.propagation.timeout: a timeout of 2s ends before the declared windows, 5s, have passed; raise it or shorten them");
	config_unref(parse("defaults: {drain: {propagation: {registry: 90s}}}\n"));
}

static void contradictions_are_refused(void **state)
{
	(void) state;
	assert_refused("defaults: {drain: {in_flight: {quiet: 31s}}}\n",
			MAIN
			":1:39: defaults.drain.in_flight.quiet: zero would have to last for 31s and is waited for only 30s; shorten quiet or raise in_flight.timeout");
	assert_refused("defaults: {drain: {close: {exec: {command: [/a], timeout: 5m}}}}\n",
			MAIN
			":1:27: defaults.drain.close: a timeout of 5m is longer than the deadline of the drain, 2m; raise the deadline or shorten it");
	assert_refused("defaults: {drain: {open: {exec: {command: [/a], timeout: 3m}}}}\n",
			MAIN
			":1:26: defaults.drain.open: a timeout of 3m is longer than the deadline of the restore, 2m; raise the deadline or shorten it");
	assert_refused("defaults: {restore: {ramp: 2m}}\n",
			MAIN
			":1:21: defaults.restore: the deadline of 2m does not cover observed.timeout 30s + ramp 2m = 2m30s; raise the deadline or shorten them");
	assert_refused("api: {consumer: {socket: /a}, admin: {socket: /a}}\n",
			MAIN
			":1:47: api.admin.socket: /a is the consumer socket, too; who may only read could change: give each a path of its own");
	assert_refused("defaults: {lazy: {limit: 0}}\n",
			MAIN
			":1:26: defaults.lazy.limit: a limit of 0 allows none; write allow: false to say so");
	config_unref(parse("defaults: {lazy: {allow: false, limit: 0}}\n"));
	config_unref(parse("defaults: {drain: {in_flight: {timeout: 0, quiet: 5s}}}\n"));
}

static void a_bad_name_of_a_service_is_blamed_on_its_key(void **state)
{
	(void) state;
	assert_refused(SOURCES "services: {\"a/b\": {}}\n",
			MAIN
			":4:12: services: the name \"a/b\" has a space or a slash; neither is possible");
	assert_refused(SOURCES "services: {\"\": {}}\n", MAIN ":4:12: services: a name is empty");
}
/* What stands around a number of numbered items. */
struct list {
	const char *before, *item_before, *item_after, *after;
};

static char *list_of(const struct list *list, size_t count)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	assert_true(fputs(list->before, f) >= 0);
	for (size_t i = 0; i < count; i++)
		assert_true(fprintf(f, "%s%zu%s, ", list->item_before, i, list->item_after) > 0);
	assert_true(fputs(list->after, f) >= 0);
	assert_int_equal(fclose(f), 0);
	return text;
}

/* One more than max is refused, max is fine. */
static void assert_at_most(const struct list *list, size_t max, const char *expected)
{
	char *fits = list_of(list, max), *more = list_of(list, max + 1);

	config_unref(parse(fits));
	assert_refused(more, expected);
	free(fits);
	free(more);
}

static void what_can_grow_has_a_maximum(void **state)
{
	static const struct list stages = { "defaults: {chain: [", "s", "", "]}\n" };
	static const struct list arguments = { "defaults: {drain: {close: {exec: [/a, ", "s", "",
		"]}}}\n" };
	static const struct list dirs = { "plugin_dirs: [", "/s", "", "]\n" };
	static const struct list sources = { "sources: [", "{plugin: file, name: s", "}",
		"]\ndefaults: {sources: [s0]}\n" };
	static const struct list used = { "sources: [", "{plugin: file, name: s", "}", "]\n" };

	(void) state;
	assert_at_most(&stages, CONFIG_STAGES_MAX,
			MAIN ":1:19: defaults.chain: has 33 items; at most 32 are possible");
	assert_at_most(&arguments, 255,
			MAIN
			":1:34: defaults.drain.close.exec: has 257 items; at most 256 are possible");
	assert_at_most(&dirs, 256,
			MAIN ":1:14: plugin_dirs: has 257 items; at most 256 are possible");
	assert_at_most(&sources, CONFIG_SOURCES_MAX,
			MAIN ":1:1729: sources[64]: at most 64 sources are possible");
	assert_at_most(&used, CONFIG_FEEDS_MAX,
			MAIN
			":1:442: sources[16].plugin: a service may use at most 16 sources and 17 are declared; name those it uses in defaults.sources");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_unknown_key_is_named_with_the_nearest_known_one),
		cmocka_unit_test(a_wrong_kind_is_said_in_words),
		cmocka_unit_test(a_value_out_of_range_or_shape_is_named_with_what_is_right),
		cmocka_unit_test(a_socket_path_must_fit_its_address),
		cmocka_unit_test(a_word_that_is_not_offered_is_named_with_what_is),
		cmocka_unit_test(a_missing_key_is_explained),
		cmocka_unit_test(a_source_that_nobody_declares_is_named_with_the_nearest),
		cmocka_unit_test(a_stage_of_two_keys_is_explained),
		cmocka_unit_test(a_hook_that_could_not_run_is_refused),
		cmocka_unit_test(windows_beyond_the_deadline_are_added_up),
		cmocka_unit_test(contradictions_are_refused),
		cmocka_unit_test(a_bad_name_of_a_service_is_blamed_on_its_key),
		cmocka_unit_test(what_can_grow_has_a_maximum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
