/* What the configuration loader promises: defaults, overriding key by key, merging of files, and
 * a time that grows with the file. */

#include <assert.h>
#include <math.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config-texts.h"

/* ---- defaults and overriding ---- */

static void an_empty_file_gives_every_default(void **state)
{
	struct config *c = parse("");

	(void) state;
	assert_string_equal(c->path, MAIN);
	assert_non_null(c->node_name);
	assert_null(c->node_zone);
	assert_string_equal(c->consumer.socket, "/run/usher/usher.sock");
	assert_int_equal(c->consumer.mode, 0666);
	assert_string_equal(c->admin.socket, "/run/usher/admin.sock");
	assert_int_equal(c->admin.mode, 0660);
	assert_null(c->admin.group);
	assert_null(c->http_listen);
	assert_string_equal(c->state_dir, "/var/lib/usher");
	assert_string_equal(c->plugin_dirs[0], "/usr/lib/usher/plugins");
	assert_null(c->plugin_dirs[1]);
	assert_true(c->lazy_allow);
	assert_int_equal(c->lazy_limit, 1000);
	assert_int_equal(c->source_count, 0);
	assert_int_equal(c->service_count, 0);
	config_unref(c);
}

static void a_service_has_the_defaults_of_the_tables(void **state)
{
	struct config *c = parse(SOURCES "services: {catalog: }\n");
	const struct service_config *s = config_find_service(c, "catalog");

	(void) state;
	assert_non_null(s);
	assert_int_equal(s->startup_timeout_usec, 10000000);
	assert_int_equal(s->merge, MERGE_FIRST);
	assert_int_equal(s->max_age_usec, 30000000);
	assert_int_equal(s->on_stale, STALE_SERVE);
	assert_true(fabs(s->guard_share - 0.5) < 1e-9);
	assert_int_equal(s->guard_hold_usec, 30000000);
	assert_int_equal(s->stage_count, 1);
	assert_string_equal(s->stages[0].rules[0].use.plugin, "ready");
	assert_int_equal(s->stages[0].rules[0].on_empty, EMPTY_UNSAID);
	assert_string_equal(s->select.plugin, "round_robin");
	assert_int_equal(s->drain.order, DRAIN_SERVE_STALE);
	assert_int_equal(s->drain.registry_usec, 0);
	assert_int_equal(s->drain.on_propagation_timeout, BUDGET_FAIL);
	assert_int_equal(s->drain.in_flight_timeout_usec, 30000000);
	assert_int_equal(s->drain.on_in_flight_timeout, BUDGET_CONTINUE);
	assert_true(s->drain.from_tcp && s->drain.from_consumers);
	assert_int_equal(s->drain.deadline_usec, 120000000);
	assert_int_equal(s->drain.min_ready, 1);
	assert_int_equal(s->drain.close.kind, HOOK_NONE);
	assert_true(s->restore.probe.enabled);
	assert_int_equal(s->restore.probe.rise, 2);
	assert_int_equal(s->restore.ramp_usec, 0);
	config_unref(c);
}

static void without_sources_a_service_uses_every_source_in_order(void **state)
{
	struct config *c = parse(SOURCES "services: {catalog: {}}\n");
	const struct service_config *s = config_find_service(c, "catalog");

	(void) state;
	assert_int_equal(s->feed_count, 2);
	assert_string_equal(s->feeds[0].source, "files");
	assert_string_equal(s->feeds[0].name, "catalog");
	assert_null(s->feeds[0].port);
	assert_string_equal(s->feeds[1].source, "cluster");
	assert_int_equal(c->defaults.feed_count, 2);
	assert_null(c->defaults.feeds[0].name);
	config_unref(c);
}

static void a_service_overrides_maps_key_by_key_and_lists_whole(void **state)
{
	struct config *c = parse(SOURCES
			"defaults:\n"
			"  freshness: {max_age: 10s, on_stale: fail}\n"
			"  chain: [ready, zone]\n"
			"  drain:\n"
			"    deadline: 200s\n"
			"    propagation: {registry: 5s, consumer_cache: 35s}\n"
			"    close: {exec: [/bin/stop, \"{id}\"]}\n"
			"services:\n"
			"  catalog:\n"
			"    freshness: {max_age: 1m30s}\n"
			"    chain: []\n"
			"    sources: [{source: cluster, name: catalog-svc, port: 8080}, files]\n"
			"    drain:\n"
			"      propagation: {registry: 7s}\n"
			"      close: none\n"
			"  search: {}\n");
	const struct service_config *catalog = config_find_service(c, "catalog");
	const struct service_config *search = config_find_service(c, "search");

	(void) state;
	assert_int_equal(catalog->max_age_usec, 90000000);
	assert_int_equal(catalog->on_stale, STALE_FAIL);
	assert_int_equal(catalog->stage_count, 0);
	assert_int_equal(catalog->drain.registry_usec, 7000000);
	assert_int_equal(catalog->drain.consumer_cache_usec, 35000000);
	assert_int_equal(catalog->drain.deadline_usec, 200000000);
	assert_int_equal(catalog->drain.close.kind, HOOK_NONE);
	assert_int_equal(catalog->feed_count, 2);
	assert_string_equal(catalog->feeds[0].source, "cluster");
	assert_string_equal(catalog->feeds[0].name, "catalog-svc");
	assert_string_equal(catalog->feeds[0].port, "8080");
	assert_string_equal(catalog->feeds[1].name, "catalog");
	assert_int_equal(search->max_age_usec, 10000000);
	assert_int_equal(search->stage_count, 2);
	assert_int_equal(search->drain.registry_usec, 5000000);
	assert_int_equal(search->drain.close.kind, HOOK_EXEC);
	assert_string_equal(search->drain.close.command[1], "{id}");
	config_unref(c);
}

static void names_of_services_are_sorted_and_unknown_ones_are_not_found(void **state)
{
	struct config *c = parse(SOURCES "services: {b: {}, c: {}, a: {}}\n");

	(void) state;
	assert_string_equal(c->services[0].name, "a");
	assert_string_equal(c->services[2].name, "c");
	assert_null(config_find_service(c, "d"));
	assert_null(config_find_source(c, "consul"));
	config_unref(c);
}

static void an_owner_survives_until_its_last_reference(void **state)
{
	struct config *c = config_ref(parse(SOURCES));

	(void) state;
	assert_null(config_unref(c));
	assert_string_equal(c->sources[0].name, "files");
	assert_null(config_unref(c));
	assert_null(config_unref(NULL));
}

/* ---- forms ---- */

static void stages_and_selectors_come_with_or_without_options(void **state)
{
	struct config *c = parse(SOURCES "services:\n"
					 "  catalog:\n"
					 "    chain:\n"
					 "      - ready\n"
					 "      - zone: {prefer: east, on_empty: fail}\n"
					 "      - label:\n"
					 "    select: {least_request: {choices: 2}}\n");
	const struct service_config *s = &c->services[0];

	(void) state;
	assert_int_equal(s->stage_count, 3);
	assert_string_equal(s->stages[0].rules[0].use.plugin, "ready");
	assert_null(s->stages[0].rules[0].use.options);
	assert_string_equal(s->stages[1].rules[0].use.plugin, "zone");
	assert_int_equal(s->stages[1].rules[0].on_empty, EMPTY_FAIL);
	assert_string_equal(usher_node_text(usher_node_get(
					    s->stages[1].rules[0].use.options, "prefer")),
			"east");
	assert_int_equal(usher_node_line(s->stages[1].rules[0].use.place), 8);
	assert_null(s->stages[2].rules[0].use.options);
	assert_string_equal(s->select.plugin, "least_request");
	assert_non_null(usher_node_get(s->select.options, "choices"));
	config_unref(c);
}

static void hooks_have_a_short_form(void **state)
{
	struct config *c =
			parse(SOURCES "services:\n"
				      "  catalog:\n"
				      "    drain:\n"
				      "      readiness: {http: \"http://{address}:{port}/drain\"}\n"
				      "      close: {systemd: \"catalog@{id}.service\"}\n"
				      "      open: {systemd: \"catalog@{id}.service\"}\n");
	const struct drain_config *d = &c->services[0].drain;

	(void) state;
	assert_int_equal(d->readiness.kind, HOOK_HTTP);
	assert_string_equal(d->readiness.url, "http://{address}:{port}/drain");
	assert_string_equal(d->readiness.method, "POST");
	assert_int_equal(d->readiness.timeout_usec, 30000000);
	assert_int_equal(d->close.kind, HOOK_SYSTEMD);
	assert_string_equal(d->close.unit, "catalog@{id}.service");
	assert_string_equal(d->close.action, "stop");
	assert_string_equal(d->open.action, "start");
	config_unref(c);
}

static void hooks_have_a_long_form(void **state)
{
	struct config *c = parse(SOURCES
			"defaults:\n"
			"  drain:\n"
			"    readiness: {http: {url: \"https://x/\", method: PUT, timeout: 2s}}\n"
			"    close: {exec: {command: [/bin/true], timeout: 1s}}\n"
			"    open: {systemd: {unit: a.service, action: restart}}\n");
	const struct drain_config *d = &c->defaults.drain;

	(void) state;
	assert_string_equal(d->readiness.method, "PUT");
	assert_int_equal(d->readiness.timeout_usec, 2000000);
	assert_string_equal(d->close.command[0], "/bin/true");
	assert_null(d->close.command[1]);
	assert_int_equal(d->close.timeout_usec, 1000000);
	assert_string_equal(d->open.action, "restart");
	assert_int_equal(d->open.timeout_usec, 30000000);
	config_unref(c);
}

static void the_environment_says_who_a_node_is_where_nobody_else_does(void **state)
{
	struct config *c;

	(void) state;
	assert_return_code(setenv("USHER_NODE_NAME", "node-of-pod", 1), errno);
	assert_return_code(setenv("USHER_NODE_ZONE", "west", 1), errno);
	c = parse("{}\n");
	assert_string_equal(c->node_name, "node-of-pod");
	assert_string_equal(c->node_zone, "west");
	config_unref(c);
	c = parse("node: {name: node-7}\n");
	assert_string_equal(c->node_name, "node-7");
	assert_string_equal(c->node_zone, "west");
	config_unref(c);
	assert_return_code(setenv("USHER_NODE_ZONE", "", 1), errno);
	c = parse("{}\n");
	assert_null(c->node_zone);
	config_unref(c);
	assert_return_code(setenv("USHER_NODE_NAME", "two\nlines", 1), errno);
	assert_refused("{}\n",
			"environment variable USHER_NODE_NAME: a name is not UTF-8 or has a control character");
	assert_return_code(unsetenv("USHER_NODE_NAME"), errno);
	assert_return_code(unsetenv("USHER_NODE_ZONE"), errno);
}

static void the_whole_of_api_node_and_restore_is_read(void **state)
{
	struct config *c = parse(
			"node: {name: node-7, zone: east}\n"
			"api:\n"
			"  consumer: {socket: /tmp/c.sock, mode: 0600, owner: root}\n"
			"  admin: {socket: /tmp/a.sock, mode: \"0640\", group: \"27\"}\n"
			"  http: {listen: \"[::1]:9180\"}\n"
			"state_dir: /tmp/state\n"
			"plugin_dirs: [/a, /b]\n"
			"defaults:\n"
			"  lazy: {allow: false, limit: 5}\n"
			"  restore:\n"
			"    probe: {http: {path: /health}, port: 81, interval: 3s, timeout: 2s, rise: 4}\n"
			"    observed: {timeout: 20s}\n"
			"    ramp: 1m\n"
			"    deadline: 3m\n");
	const struct restore_config *restore = &c->defaults.restore;

	(void) state;
	assert_string_equal(c->node_name, "node-7");
	assert_string_equal(c->node_zone, "east");
	assert_string_equal(c->consumer.owner, "root");
	assert_int_equal(c->consumer.mode, 0600);
	assert_int_equal(c->admin.mode, 0640);
	assert_string_equal(c->admin.group, "27");
	assert_string_equal(c->http_listen, "[::1]:9180");
	assert_string_equal(c->state_dir, "/tmp/state");
	assert_string_equal(c->plugin_dirs[1], "/b");
	assert_false(c->lazy_allow);
	assert_int_equal(c->lazy_limit, 5);
	assert_string_equal(restore->probe.http_path, "/health");
	assert_int_equal(restore->probe.port, 81);
	assert_int_equal(restore->probe.rise, 4);
	assert_int_equal(restore->probe.interval_usec, 3000000);
	assert_int_equal(restore->observed_timeout_usec, 20000000);
	assert_int_equal(restore->ramp_usec, 60000000);
	assert_int_equal(restore->deadline_usec, 180000000);
	config_unref(c);
}

static void uses_are_equal_when_plugin_and_options_are(void **state)
{
	struct config *c = parse(SOURCES "services:\n"
					 "  a: {chain: [{zone: {prefer: east, on_empty: fail}}]}\n"
					 "  b: {chain: [{zone: {prefer: east}}]}\n"
					 "  c: {chain: [{zone: {prefer: west}}]}\n"
					 "  d: {chain: [zone]}\n"
					 "  e: {chain: [{zone: {on_empty: fail}}]}\n"
					 "  f: {chain: [{label: {prefer: east}}]}\n");
	const struct plugin_use *use[6];

	(void) state;
	for (size_t i = 0; i < 6; i++)
		use[i] = &c->services[i].stages[0].rules[0].use;
	assert_true(plugin_use_equal(use[0], use[1]));
	assert_false(plugin_use_equal(use[1], use[2]));
	assert_false(plugin_use_equal(use[1], use[3]));
	assert_true(plugin_use_equal(use[3], use[4]));
	assert_false(plugin_use_equal(use[1], use[5]));
	config_unref(c);
}

/* ---- files ---- */

static void files_are_merged_by_name(void **state)
{
	const char *const texts[] = {
		"node: {name: n}\nsources: [{name: files, plugin: file}]\nservices: {a: {}}\n",
		"node: {zone: east}\nservices: {b: {}}\ndefaults: {freshness: {max_age: 5s}}\n",
		"sources: [{name: cluster, plugin: kubernetes}]\nservices:\nnode: {name: n}\ndefaults: {freshness: {on_stale: fail}}\n",
	};
	struct config *c = NULL;
	struct usher_error err = {};

	(void) state;
	assert_ok(parse_texts(texts, 3, &c, &err));
	assert(c);
	assert_string_equal(c->node_name, "n");
	assert_string_equal(c->node_zone, "east");
	assert_int_equal(c->source_count, 2);
	assert_string_equal(c->sources[1].name, "cluster");
	assert_int_equal(c->service_count, 2);
	assert_int_equal(c->services[0].max_age_usec, 5000000);
	assert_int_equal(c->services[1].on_stale, STALE_FAIL);
	assert_int_equal(c->services[1].feed_count, 2);
	config_unref(c);
}

static void a_name_in_two_files_is_refused_with_both_places(void **state)
{
	(void) state;
	assert_files_refused(
			"/etc/usher/conf.d/a.yaml:2:3: services: the service \"b\" is declared already, at " MAIN
			":4",
			SOURCES "services: {b: {}}\n", "services:\n  b: {}\n");
	assert_files_refused(
			"/etc/usher/conf.d/a.yaml:1:18: sources[0].name: the source \"files\" is declared already, at " MAIN
			":2",
			SOURCES, "sources: [{name: files, plugin: file}]\n");
}

static void a_key_with_two_values_is_refused_with_both_places(void **state)
{
	(void) state;
	assert_files_refused(
			"/etc/usher/conf.d/b.yaml:1:33: defaults.freshness.max_age: has another value at /etc/usher/conf.d/a.yaml:2:34; keep one of the two",
			"", "\ndefaults: {freshness: { max_age: 5s}}\n",
			"defaults: {freshness: {max_age: 6s}}\n");
}

static void make_dir(char *ret, size_t size)
{
	(void) snprintf(ret, size, "/tmp/usher-test-config-XXXXXX");
	assert_non_null(mkdtemp(ret));
}

static void write_file(const char *dir, const char *name, const char *text)
{
	char path[256];
	FILE *f;

	(void) snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void remove_file(const char *dir, const char *name)
{
	char path[256];

	(void) snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(remove(path), 0);
}

static void loading_reads_conf_d_beside_the_file(void **state)
{
	char dir[64], path[128], conf_d[128];
	struct config *c = NULL;
	struct usher_error err = {};

	(void) state;
	make_dir(dir, sizeof(dir));
	(void) snprintf(path, sizeof(path), "%s/usher.yaml", dir);
	(void) snprintf(conf_d, sizeof(conf_d), "%s/conf.d", dir);
	assert_int_equal(mkdir(conf_d, 0700), 0);
	write_file(dir, "usher.yaml", SOURCES);
	write_file(conf_d, "20-b.yaml", "services: {b: {}}\n");
	write_file(conf_d, "10-a.yaml", "services: {a: {}}\n");
	write_file(conf_d, ".hidden.yaml", "nonsense: 1\n");
	write_file(conf_d, "README.md", "nonsense: 1\n");

	assert_ok(config_load(path, &c, &err));
	assert_int_equal(c->service_count, 2);
	assert_string_equal(c->path, path);
	config_unref(c);

	remove_file(conf_d, "README.md");
	remove_file(conf_d, ".hidden.yaml");
	remove_file(conf_d, "10-a.yaml");
	remove_file(conf_d, "20-b.yaml");
	remove_file(dir, "conf.d");
	remove_file(dir, "usher.yaml");
	assert_int_equal(rmdir(dir), 0);
}

static void conf_d_has_a_maximum_of_files(void **state)
{
	char dir[64], path[128], conf_d[128], name[32];
	struct config *c = NULL;
	struct usher_error err = {};

	(void) state;
	make_dir(dir, sizeof(dir));
	(void) snprintf(path, sizeof(path), "%s/usher.yaml", dir);
	(void) snprintf(conf_d, sizeof(conf_d), "%s/conf.d", dir);
	assert_int_equal(mkdir(conf_d, 0700), 0);
	write_file(dir, "usher.yaml", "");
	for (unsigned i = 0; i <= 4096; i++) {
		(void) snprintf(name, sizeof(name), "%u.yaml", i);
		write_file(conf_d, name, "");
	}

	assert_errno(config_load(path, &c, &err), E2BIG);
	assert_non_null(strstr(err.text, "conf.d: has 4097 files; at most 4096 are possible"));
	remove_file(conf_d, "0.yaml");
	assert_ok(config_load(path, &c, &err));
	config_unref(c);

	for (unsigned i = 1; i <= 4096; i++) {
		(void) snprintf(name, sizeof(name), "%u.yaml", i);
		remove_file(conf_d, name);
	}
	remove_file(dir, "conf.d");
	remove_file(dir, "usher.yaml");
	assert_int_equal(rmdir(dir), 0);
}

static void a_missing_file_is_named(void **state)
{
	struct config *c = NULL;
	struct usher_error err = {};

	(void) state;
	assert_errno(config_load("/nonexistent/usher.yaml", &c, &err), ENOENT);
	assert_non_null(strstr(err.text, "/nonexistent/usher.yaml"));
	assert_null(c);
}

/* ---- names ---- */

static void names_are_what_can_be_typed_logged_and_put_in_a_url(void **state)
{
	struct usher_error err = {};
	char name[CONFIG_NAME_MAX + 2];

	(void) state;
	memset(name, 'n', sizeof(name));
	name[CONFIG_NAME_MAX] = '\0';
	assert_ok(config_check_name(name, NULL));
	name[CONFIG_NAME_MAX] = 'n';
	name[CONFIG_NAME_MAX + 1] = '\0';
	assert_errno(config_check_name(name, &err), EINVAL);
	assert_string_equal(err.text, "a name has 254 bytes; at most 253 are possible");
	assert_ok(config_check_name("größe.v1", NULL));
	assert_errno(config_check_name("", NULL), EINVAL);
	assert_errno(config_check_name("a\nb", NULL), EINVAL);
	assert_errno(config_check_name("a\xff", NULL), EINVAL);
	assert_errno(config_check_name("..", NULL), EINVAL);
}

/* ---- size ---- */

static char *many_services(size_t count)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	assert_true(fputs(SOURCES "services:\n", f) >= 0);
	for (size_t i = 0; i < count; i++)
		assert_true(fprintf(f,
					    "  service-%zu:\n"
					    "    freshness: {max_age: 10s}\n"
					    "    sources: [{source: cluster, name: svc-%zu}, files]\n",
					    (i * 7919) % count, i) > 0);
	assert_int_equal(fclose(f), 0);
	return text;
}

static uint64_t spent_usec(const char *text, size_t count)
{
	clock_t start = clock();
	struct config *c = parse(text);

	assert_int_equal(c->service_count, count);
	config_unref(c);
	return (uint64_t) (clock() - start) * 1000000 / CLOCKS_PER_SEC;
}

static void time_grows_with_the_number_of_services_and_not_with_its_square(void **state)
{
	char *few = many_services(1000), *many = many_services(10000);
	uint64_t few_usec, many_usec;

	(void) state;
	few_usec = spent_usec(few, 1000);
	many_usec = spent_usec(many, 10000);
	print_message("1000 services: %lu us, 10000 services: %lu us\n", (unsigned long) few_usec,
			(unsigned long) many_usec);
	assert_true(many_usec < 40 * few_usec + 1000000);
	free(few);
	free(many);
}

static void more_than_the_maximum_is_refused(void **state)
{
	char *services = many_services(CONFIG_SERVICES_MAX + 1);

	(void) state;
	assert_refused(services,
			MAIN
			":5:3: services: 20001 services are declared so far; at most 20000 are possible");
	free(services);
}

static int parse_with_failing_memory(void *userdata)
{
	const char *text = userdata;
	struct config *c = NULL;
	int r = parse_texts(&text, 1, &c, NULL);

	config_unref(c);
	return r;
}

static void every_failing_allocation_is_survived(void **state)
{
	char text[] = SOURCES "node: {name: n}\n"
			      "defaults: {sources: [files, {source: cluster, name: x, port: a}]}\n"
			      "services:\n"
			      "  a: {drain: {close: {exec: [/a, b]}, open: {systemd: a.service}}}\n"
			      "  b: {chain: [zone, {label: {name: a}}], select: random}\n";

	(void) state;
	assert_survives_oom(parse_with_failing_memory, text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_file_gives_every_default),
		cmocka_unit_test(a_service_has_the_defaults_of_the_tables),
		cmocka_unit_test(without_sources_a_service_uses_every_source_in_order),
		cmocka_unit_test(a_service_overrides_maps_key_by_key_and_lists_whole),
		cmocka_unit_test(names_of_services_are_sorted_and_unknown_ones_are_not_found),
		cmocka_unit_test(an_owner_survives_until_its_last_reference),
		cmocka_unit_test(stages_and_selectors_come_with_or_without_options),
		cmocka_unit_test(hooks_have_a_short_form),
		cmocka_unit_test(hooks_have_a_long_form),
		cmocka_unit_test(the_environment_says_who_a_node_is_where_nobody_else_does),
		cmocka_unit_test(the_whole_of_api_node_and_restore_is_read),
		cmocka_unit_test(uses_are_equal_when_plugin_and_options_are),
		cmocka_unit_test(files_are_merged_by_name),
		cmocka_unit_test(a_name_in_two_files_is_refused_with_both_places),
		cmocka_unit_test(a_key_with_two_values_is_refused_with_both_places),
		cmocka_unit_test(loading_reads_conf_d_beside_the_file),
		cmocka_unit_test(conf_d_has_a_maximum_of_files),
		cmocka_unit_test(a_missing_file_is_named),
		cmocka_unit_test(names_are_what_can_be_typed_logged_and_put_in_a_url),
		cmocka_unit_test(time_grows_with_the_number_of_services_and_not_with_its_square),
		cmocka_unit_test(more_than_the_maximum_is_refused),
		cmocka_unit_test(every_failing_allocation_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
