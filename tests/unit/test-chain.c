/* Stages one after the other, what runs once for all, and what happens when nobody is left. */

#include "chain.h"
#include "config-forms.h"
#include "selection.h"
#include "stand-in-stages.h"

/* A service whose chain is this YAML list. */
struct chain_config {
	struct service_config service;
	struct usher_document *document;
};

static int chain_config_read(struct chain_config *c, const char *yaml, struct usher_error *reterr)
{
	*c = (struct chain_config){ .service = { .name = (char *) (uintptr_t) "catalog" } };
	c->service.select.plugin = (char *) (uintptr_t) "round_robin";
	assert_ok(usher_document_parse("usher.yaml", yaml, strlen(yaml), &c->document, NULL));
	return config_form_chain.read(usher_document_root(c->document), &c->service, reterr);
}

static void chain_config_init(struct chain_config *c, const char *yaml)
{
	struct usher_error err = {};

	if (chain_config_read(c, yaml, &err) < 0)
		fail_msg("%s: %s", yaml, err.text);
}

static void chain_config_done(struct chain_config *c)
{
	config_form_chain.done(&c->service);
	(void) usher_document_unref(c->document);
}

static struct chain *chain_of(const char *yaml)
{
	struct usher_error err = {};
	struct chain_config c;
	struct chain *chain = NULL;

	chain_config_init(&c, yaml);
	if (chain_new(NULL, &c.service, &chain, &err) < 0)
		fail_msg("%s: %s", yaml, err.text);
	chain_config_done(&c);
	return chain;
}

static void run(const struct chain *chain, const char *endpoints, const char *sticky,
		const char *expected, size_t expected_failed)
{
	struct usher_request request = { .size = sizeof(request), .sticky = sticky };
	struct choice c;
	uint32_t scratch[64];
	struct chain_work work;
	size_t failed = SIZE_MAX, count, length = 0;
	char ids[256] = "";

	choice_init(&c, endpoints, "east");
	work = (struct chain_work){ .view = &c.view,
		.request = &request,
		.candidates = c.candidates,
		.count = c.count,
		.scratch = scratch };
	count = chain_run(chain, 0, chain->stage_count, &work, &failed, NULL);
	for (size_t i = 0; i < count; i++)
		length += (size_t) snprintf(ids + length, sizeof(ids) - length, "%s%s",
				i ? " " : "", usher_endpoints_id(c.set, c.candidates[i]));
	assert_string_equal(ids, expected);
	assert_int_equal(failed, expected_failed);
	choice_done(&c);
}

static void stages_run_in_their_order(void **state)
{
	struct chain *chain = chain_of("[ready: {}, zone: {}]");

	(void) state;
	run(chain, "a/east b/west c/east!", NULL, "a", SIZE_MAX);
	/* nobody is ready in the zone: ready came first */
	run(chain, "a/east! b/west", NULL, "b", SIZE_MAX);
	(void) chain_unref(chain);
	chain = chain_of("[zone: {}, ready: {}]");
	run(chain, "a/east! b/west", NULL, "a", SIZE_MAX);
	(void) chain_unref(chain);
}

/* Promise P3: strict stays strict. */
static void a_strict_stage_lets_nobody_through_who_does_not_match(void **state)
{
	struct chain *chain = chain_of("[zone: {on_empty: fail}, ready: {}]");

	(void) state;
	run(chain, "a/east b/west", NULL, "a", SIZE_MAX);
	run(chain, "b/west c", NULL, "", 0);
	(void) chain_unref(chain);
	chain = chain_of("[ready: {}, zone: {on_empty: fail}]");
	run(chain, "b/west c", NULL, "", 1);
	(void) chain_unref(chain);
}

static void a_lenient_stage_keeps_what_it_got(void **state)
{
	struct chain *chain = chain_of("[zone: {on_empty: pass}]");

	(void) state;
	run(chain, "b/west c", NULL, "b c", SIZE_MAX);
	run(chain, "", NULL, "", SIZE_MAX);
	(void) chain_unref(chain);
}

/* Weight 0 receives no new traffic: who was bound to it, or near it, goes elsewhere. */
static void a_stage_that_keeps_only_weight_0_keeps_nobody(void **state)
{
	struct chain *chain = chain_of("[zone: {on_empty: pass}, asked: {}]");

	(void) state;
	run(chain, "a/east*0 b/west c/west*0", NULL, "a b c", SIZE_MAX);
	run(chain, "a/east*0 b/west c/east", "a", "a c", SIZE_MAX);
	run(chain, "a/east*0 b/west c/east", "c", "c", SIZE_MAX);
	/* but who has come to nothing else keeps what it has */
	run(chain, "a/east*0 b/west*0", "a", "a", SIZE_MAX);
	(void) chain_unref(chain);
	chain = chain_of("[zone: {on_empty: fail}]");
	run(chain, "a/east*0 b/west", NULL, "", 0);
	run(chain, "a/east*0 b/west*0", NULL, "a", SIZE_MAX);
	(void) chain_unref(chain);
}

static void steps_tell_what_each_stage_did(void **state)
{
	struct chain *chain = chain_of("[ready: {}, zone: {}, label: {match: a, on_empty: fail}]");
	struct chain_step steps[3];
	uint32_t scratch[64];
	struct chain_work work;
	struct choice c;

	(void) state;
	choice_init(&c, "a/west b/west c!", "east");
	work = (struct chain_work){
		.view = &c.view, .candidates = c.candidates, .count = c.count, .scratch = scratch
	};
	assert_int_equal(chain_run(chain, 0, 3, &work, NULL, steps), 0);
	assert_int_equal(steps[0].in, 3);
	assert_int_equal(steps[0].out, 2);
	assert_false(steps[0].emptied);
	assert_int_equal(steps[1].in, 2);
	assert_int_equal(steps[1].out, 2);
	assert_true(steps[1].emptied);
	assert_int_equal(steps[1].ruled, EMPTY_PASS);
	assert_int_equal(steps[2].in, 2);
	assert_int_equal(steps[2].out, 0);
	assert_true(steps[2].emptied);
	assert_int_equal(steps[2].ruled, EMPTY_FAIL);
	choice_done(&c);
	(void) chain_unref(chain);
}

static void what_looks_at_a_request_ends_the_shared_part(void **state)
{
	struct chain *chain = chain_of("[ready: {}, asked: {}, zone: {}]");

	(void) state;
	assert_int_equal(chain->stage_count, 3);
	assert_int_equal(chain->shared_count, 1);
	run(chain, "a/east b/west", "b", "b", SIZE_MAX);
	run(chain, "a/east b/west", NULL, "a", SIZE_MAX);
	(void) chain_unref(chain);
	chain = chain_of("[ready: {}, zone: {}]");
	assert_int_equal(chain->shared_count, 2);
	(void) chain_unref(chain);
	chain = chain_of("[]");
	assert_int_equal(chain->shared_count, 0);
	(void) chain_unref(chain);
}

static void a_stage_is_in_a_chain_once(void **state)
{
	struct usher_error err = {};
	struct chain_config c;
	struct chain *chain = NULL;

	(void) state;
	chain_config_init(&c, "- zone: {}\n- ready: {}\n- zone: {prefer: west}\n");
	assert_errno(chain_new(NULL, &c.service, &chain, &err), EINVAL);
	assert_string_equal(err.text,
			"usher.yaml:3:3: stage zone is twice in the chain, first in line 1: remove one");
	chain_config_done(&c);
	assert_int_equal(plugin_instances, 0);
}

/* ---- rules ---- */

/* Over a b c, what the request asks for, and who is left. */
static void run_rules(const struct chain *chain, const struct usher_request *request,
		const char *expected, size_t expected_rule)
{
	uint32_t scratch[64];
	struct chain_work work;
	struct chain_step step;
	struct choice c;
	size_t count, length = 0;
	char ids[256] = "";

	choice_init(&c, "a b c", "east");
	work = (struct chain_work){ .view = &c.view,
		.request = request,
		.candidates = c.candidates,
		.count = c.count,
		.scratch = scratch };
	count = chain_run(chain, 0, 1, &work, NULL, &step);
	for (size_t i = 0; i < count; i++)
		length += (size_t) snprintf(ids + length, sizeof(ids) - length, "%s%s",
				i ? " " : "", usher_endpoints_id(c.set, c.candidates[i]));
	assert_string_equal(ids, expected);
	assert_true(step.rule == expected_rule);
	choice_done(&c);
}

static void the_first_rule_that_applies_is_used_and_next_goes_on(void **state)
{
	static const struct {
		const char *rules, *hint, *kept;
		size_t rule;
	} rows[] = {
		/* one rule: pass and all, fail and none, unsaid */
		{ "[named: {id: b}]", NULL, "b", 0 },
		{ "[named: {id: x}]", NULL, "a b c", 0 },
		{ "[named: {id: x, on_empty: pass}]", NULL, "a b c", 0 },
		{ "[named: {id: x, on_empty: all}]", NULL, "a b c", 0 },
		{ "[named: {id: x, on_empty: fail}]", NULL, "", 0 },
		{ "[named: {id: x, on_empty: none}]", NULL, "", 0 },
		{ "[nobody: {}]", NULL, "", 0 },
		{ "[nobody: {on_empty: pass}]", NULL, "a b c", 0 },
		{ "[finally_nobody: {on_empty: pass}]", NULL, "", 0 },
		/* next */
		{ "[named: [{id: b, on_empty: next}, {id: c}]]", NULL, "b", 0 },
		{ "[named: [{id: x, on_empty: next}, {id: c}]]", NULL, "c", 1 },
		{ "[named: [{id: x, on_empty: next}, {id: y, on_empty: all}]]", NULL, "a b c", 1 },
		{ "[named: [{id: x, on_empty: next}, {id: y, on_empty: none}]]", NULL, "", 1 },
		{ "[named: [{id: x, on_empty: next}, {id: y, on_empty: next}, {id: a}]]", NULL, "a",
				2 },
		/* when */
		{ "[named: {id: b, when: {hint: present}}]", "h", "b", 0 },
		{ "[named: {id: b, when: {hint: present}}]", NULL, "a b c", CHAIN_NO_RULE },
		{ "[named: {id: b, when: {hint: absent}}]", NULL, "b", 0 },
		{ "[named: {id: b, when: {hint: absent}}]", "h", "a b c", CHAIN_NO_RULE },
		{ "[named: {id: x, when: {hint: present}, on_empty: none}]", "h", "", 0 },
		{ "[named: [{id: a, when: {hint: blue}}, {id: b, when: {hint: green}}, {id: c}]]",
				"blue", "a", 0 },
		{ "[named: [{id: a, when: {hint: blue}}, {id: b, when: {hint: green}}, {id: c}]]",
				"green", "b", 1 },
		{ "[named: [{id: a, when: {hint: blue}}, {id: b, when: {hint: green}}, {id: c}]]",
				"red", "c", 2 },
		{ "[named: [{id: a, when: {hint: blue}}, {id: b, when: {hint: green}}, {id: c}]]",
				NULL, "c", 2 },
		/* next goes on to one that applies, and over what came in */
		{ "[named: [{id: x, when: {hint: blue}, on_empty: next}, {id: b, when: {hint: "
		  "green}}, {id: c}]]",
				"blue", "c", 2 },
		{ "[named: [{id: x, when: {hint: blue}, on_empty: next}, {id: b, when: {hint: "
		  "green}}]]",
				"blue", "a b c", 0 },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(rows); i++) {
		struct usher_request request = { .size = sizeof(request), .hint = rows[i].hint };
		struct chain *chain = chain_of(rows[i].rules);

		run_rules(chain, &request, rows[i].kept, rows[i].rule);
		(void) chain_unref(chain);
	}
}

static void a_rule_applies_when_all_its_conditions_hold(void **state)
{
	static const struct usher_label headers[] = { { "X-Beta", "yes" }, { "x-empty", "" } };
	static const struct {
		const char *when;
		bool holds;
	} rows[] = {
		{ "version: '1.0'", true },
		{ "version: '1.1'", false },
		{ "version: present", true },
		{ "version: absent", false },
		{ "sticky: absent", true },
		{ "key: absent", true }, /* the request has an empty one */
		{ "key: present", false },
		{ "consumer: shop", true },
		{ "consumer: Shop", false },
		{ "header.x-beta: present", true },
		{ "header.X-BETA: yes", true },
		{ "header.X-Beta: no", false },
		{ "header.X-Beta: absent", false },
		{ "header.X-Gamma: absent", true },
		{ "header.X-Gamma: yes", false },
		{ "header.X-Empty: present", true },
		{ "header.X-Empty: absent", false },
		{ "header.X-Beta: yes, consumer: shop, hint: absent", true },
		{ "header.X-Beta: yes, consumer: shop, hint: present", false },
	};
	const struct usher_request request = { .size = sizeof(request),
		.version = "1.0",
		.key = "",
		.consumer = "shop",
		.headers = headers,
		.header_count = ELEMENTS(headers) };

	(void) state;
	for (size_t i = 0; i < ELEMENTS(rows); i++) {
		char yaml[200];
		struct chain *chain;

		(void) snprintf(yaml, sizeof(yaml), "[named: {id: b, when: {%s}}]", rows[i].when);
		chain = chain_of(yaml);
		run_rules(chain, &request, rows[i].holds ? "b" : "a b c",
				rows[i].holds ? 0 : CHAIN_NO_RULE);
		(void) chain_unref(chain);
	}
}

static void an_instance_says_whether_it_looks_at_the_request(void **state)
{
	static const struct {
		const char *yaml;
		size_t shared;
	} rows[] = {
		{ "[named: {id: a}, ready: {}]", 2 },
		{ "[named: {asks: true}, ready: {}]", 0 },
		{ "[ready: {}, named: {id: a, when: {hint: present}}]", 1 },
		{ "[ready: {}, named: [{id: a, on_empty: next}, {id: b}]]", 2 },
		{ "[ready: {}, named: [{id: a, on_empty: next}, {asks: true}]]", 1 },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(rows); i++) {
		struct chain *chain = chain_of(rows[i].yaml);

		assert_int_equal(chain->shared_count, rows[i].shared);
		(void) chain_unref(chain);
	}
}

static void what_on_empty_ruled_is_counted(void **state)
{
	struct chain *chain = chain_of(
			"[named: [{id: x, on_empty: next}, {id: y, on_empty: pass}], nobody: {}]");
	struct chain_counts counts[2] = {};
	uint32_t scratch[64];
	struct chain_work work;
	struct choice c;

	(void) state;
	choice_init(&c, "a b", "east");
	work = (struct chain_work){ .view = &c.view,
		.candidates = c.candidates,
		.count = c.count,
		.scratch = scratch,
		.counts = counts };
	assert_int_equal(chain_run(chain, 0, 2, &work, NULL, NULL), 0);
	assert_int_equal(counts[0].next, 1);
	assert_int_equal(counts[0].passed, 1);
	assert_int_equal(counts[0].failed, 0);
	assert_int_equal(counts[1].failed, 1);
	choice_done(&c);
	(void) chain_unref(chain);
}

/* ---- nonsense ---- */

static void nonsense_is_a_failed_stage_and_ends_nothing(void **state)
{
	static const char *const kinds[] = { "more", "foreign", "swapped", "twice" };

	(void) state;
	for (size_t i = 0; i < ELEMENTS(kinds); i++) {
		struct chain_counts counts = {};
		struct chain_step step;
		uint32_t scratch[64];
		struct chain_work work;
		struct chain *chain;
		struct choice c;
		size_t failed = SIZE_MAX;
		char yaml[64], told[200];

		(void) snprintf(yaml, sizeof(yaml), "[nonsense: {kind: %s, on_empty: pass}]",
				kinds[i]);
		chain = chain_of(yaml);
		choice_init(&c, "a b c", "east");
		work = (struct chain_work){ .view = &c.view,
			.candidates = c.candidates,
			.count = c.count,
			.scratch = scratch,
			.counts = &counts };
		assert_int_equal(chain_run(chain, 0, 1, &work, &failed, &step), 0);
		assert_int_equal(failed, 0);
		assert_true(step.fault && work.fault);
		assert_int_equal(step.out, 0);
		assert_int_equal(counts.faults, 1);
		chain_tell(chain, 0, &step, &work, scratch, told, sizeof(told));
		assert_non_null(strstr(told, "the plug-in is at fault"));
		choice_done(&c);
		(void) chain_unref(chain);
	}
}

/* ---- the order of stages ---- */

static void assert_order(const char *yaml, const char *select, enum check_kind check, bool outlier,
		const char *refusal)
{
	struct usher_error err = {};
	struct chain *chain = NULL;
	struct chain_config c;
	int r;

	chain_config_init(&c, yaml);
	c.service.select.plugin = (char *) (uintptr_t) select;
	c.service.health.check.kind = check;
	c.service.health.outlier.enabled = outlier;
	r = chain_new(NULL, &c.service, &chain, &err);
	if (refusal) {
		assert_errno(r, EINVAL);
		assert_string_equal(err.text, refusal);
	} else if (r < 0) {
		fail_msg("%s: %s", yaml, err.text);
	}
	(void) chain_unref(chain);
	chain_config_done(&c);
	assert_int_equal(plugin_instances, 0);
}

static void health_needs_something_that_observes_it(void **state)
{
	(void) state;
	assert_order("- ready\n- well\n", "round_robin", CHECK_HTTP, false, NULL);
	assert_order("- ready\n- well\n", "round_robin", CHECK_NONE, true, NULL);
	assert_order("- ready\n- well\n", "round_robin", CHECK_NONE, false,
			"usher.yaml:2:3: stage well goes by the health of the endpoints, which nothing "
			"observes for catalog: give it a check, as health: {http: {path: /health}}, or "
			"remove the stage");
}

static void what_judges_the_whole_stands_before_what_looks_at_a_request(void **state)
{
	(void) state;
	assert_order("- whole\n- asked\n", "round_robin", CHECK_NONE, false, NULL);
	assert_order("- ready\n- asked\n- zone\n- whole\n", "round_robin", CHECK_NONE, false,
			"usher.yaml:4:3: stage whole judges the service as a whole, but stands behind "
			"asked (line 2), which leaves other candidates for each request: put it before "
			"that");
	assert_order("- named: {id: a, when: {hint: present}}\n- whole\n", "round_robin",
			CHECK_NONE, false,
			"usher.yaml:2:3: stage whole judges the service as a whole, but stands behind "
			"named (line 1), which leaves other candidates for each request: put it before "
			"that");
	/* these only leave fewer, whoever asks */
	assert_order("- asked\n- zone\n", "round_robin", CHECK_NONE, false, NULL);
}

static void what_changes_weights_needs_a_selector_that_looks_at_them(void **state)
{
	(void) state;
	assert_order("- growing\n", "weighted_round_robin", CHECK_NONE, false, NULL);
	assert_order("- ready\n- growing\n", "round_robin", CHECK_NONE, false,
			"usher.yaml:2:3: stage growing changes weights, which the selector round_robin "
			"(line 0) does not look at: select weighted_round_robin or another that does, or "
			"remove the stage");
	assert_order("- growing: {when: {hint: absent}}\n", "weighted_round_robin", CHECK_NONE,
			false,
			"usher.yaml:1:3: stage growing changes weights, which are the same for all "
			"requests, but has a rule that looks at the request: remove its `when`");
	assert_order("- asked\n- growing\n", "weighted_round_robin", CHECK_NONE, false,
			"usher.yaml:2:3: stage growing judges the service as a whole, but stands behind "
			"asked (line 1), which leaves other candidates for each request: put it before "
			"that");
}

static int build(void *userdata)
{
	struct chain *chain = NULL;
	int r = chain_new(NULL, userdata, &chain, NULL);

	(void) chain_unref(chain);
	assert_int_equal(plugin_instances, 0);
	return r;
}

static void a_chain_is_built_whole_or_not_at_all(void **state)
{
	struct chain_config c;

	(void) state;
	chain_config_init(&c,
			"[whole: {}, named: [{id: a, when: {hint: present}}, {id: b}], asked: {}]");
	assert_survives_oom(build, &c.service);
	chain_config_done(&c);
}

static void chains_are_compared_by_what_they_do(void **state)
{
	static const struct {
		const char *a, *b;
		bool equal;
	} rows[] = {
		{ "[ready: {}, zone: {}]", "[ready: {}, zone: {}]", true },
		{ "[zone: {prefer: east}]", "- zone:\n    prefer: east\n", true },
		{ "[ready: {}, zone: {}]", "[zone: {}, ready: {}]", false },
		{ "[zone: {}]", "[zone: {prefer: east}]", false },
		{ "[zone: {}]", "[zone: {on_empty: fail}]", false },
		{ "[zone: {}]", "[]", false },
		{ "[zone: {}]", "[zone]", true },
		{ "[zone: {on_empty: fail}]", "[zone: {on_empty: none}]", true },
		{ "[zone: {}]", "[zone: {when: {hint: present}}]", false },
		{ "[zone: {when: {hint: present}}]", "[zone: {when: {hint: present}}]", true },
		{ "[zone: {when: {hint: a}}]", "[zone: {when: {hint: b}}]", false },
		{ "[zone: {when: {header.A: x}}]", "[zone: {when: {header.a: x}}]", true },
		{ "[zone: {when: {header.A: x}}]", "[zone: {when: {header.B: x}}]", false },
		{ "[zone: [{prefer: a, on_empty: next}, {}]]", "[zone: {prefer: a}]", false },
		{ "[zone: [{prefer: a, on_empty: next}, {}]]",
				"[zone: [{prefer: a, on_empty: next}, {}]]", true },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(rows); i++) {
		struct chain_config a, b;

		chain_config_init(&a, rows[i].a);
		chain_config_init(&b, rows[i].b);
		assert_int_equal(chain_config_equal(&a.service, &b.service), rows[i].equal);
		chain_config_done(&a);
		chain_config_done(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stages_run_in_their_order),
		cmocka_unit_test(a_strict_stage_lets_nobody_through_who_does_not_match),
		cmocka_unit_test(a_lenient_stage_keeps_what_it_got),
		cmocka_unit_test(a_stage_that_keeps_only_weight_0_keeps_nobody),
		cmocka_unit_test(steps_tell_what_each_stage_did),
		cmocka_unit_test(what_looks_at_a_request_ends_the_shared_part),
		cmocka_unit_test(a_stage_is_in_a_chain_once),
		cmocka_unit_test(the_first_rule_that_applies_is_used_and_next_goes_on),
		cmocka_unit_test(a_rule_applies_when_all_its_conditions_hold),
		cmocka_unit_test(an_instance_says_whether_it_looks_at_the_request),
		cmocka_unit_test(what_on_empty_ruled_is_counted),
		cmocka_unit_test(nonsense_is_a_failed_stage_and_ends_nothing),
		cmocka_unit_test(health_needs_something_that_observes_it),
		cmocka_unit_test(what_judges_the_whole_stands_before_what_looks_at_a_request),
		cmocka_unit_test(what_changes_weights_needs_a_selector_that_looks_at_them),
		cmocka_unit_test(a_chain_is_built_whole_or_not_at_all),
		cmocka_unit_test(chains_are_compared_by_what_they_do),
	};

	stand_in_more = stand_in_stages;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
