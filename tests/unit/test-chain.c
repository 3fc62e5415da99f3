/* Stages one after the other, what runs once for all, and what happens when nobody is left. */

#include "chain.h"
#include "config-forms.h"
#include "selection.h"

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
		cmocka_unit_test(chains_are_compared_by_what_they_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
