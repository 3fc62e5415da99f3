/* What a context hands to its chain and selector, and what it makes of their answers, from one
 * publication to the next. */

#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "directory-private.h"
#include "endpoint-sets.h"
#include "log.h"
#include "stand-in-health.h"
#include "stand-in-source.h"
#include "stand-in-stages.h"

#define S USEC_PER_SEC

struct fixture {
	sd_event *event;
	struct directory *d;
	unsigned published;
};

static void on_published(void *userdata, struct context *c, const struct snapshot *previous)
{
	struct fixture *f = userdata;

	(void) c;
	(void) previous;
	f->published++;
}

static const struct directory_events events = { .published = on_published };

/* Of each endpoint that is merged, in the order of ids: a, b, ... */
static const uint8_t *said_health;

static enum usher_health health_of(void *userdata, const char *id)
{
	(void) userdata;
	return said_health ? (enum usher_health) said_health[id[0] - 'a'] : USHER_HEALTH_UNKNOWN;
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_ok(sd_event_new(&f->event));
	assert_ok(directory_new(f->event, NULL, NULL, &f->d));
	assert_ok(directory_subscribe(f->d, &events, f));
	fake_starts = fake_stops = 0;
	fake_start_result = 0;
	fake_health_of = health_of;
	said_health = NULL;
	(void) fake_store_told();
	log_set_priority(LOG_EMERG);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	(void) directory_free(f->d);
	(void) sd_event_unref(f->event);
	free(f);
	assert_int_equal(plugin_instances, 0);
	return 0;
}

static struct config *config_of(const char *service)
{
	char path[] = "/tmp/usher-test-XXXXXX.yaml", yaml[2048];
	struct usher_error err = {};
	struct config *config = NULL;
	int fd = mkstemps(path, 5), r;

	(void) snprintf(yaml, sizeof(yaml),
			"node: {name: n, zone: east}\n"
			"sources: [{name: one, plugin: fake}]\n"
			"defaults: {sources: [one], lazy: {allow: false}}\n"
			"services: {catalog: {%s}}\n",
			service);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, yaml, strlen(yaml)), strlen(yaml));
	(void) close(fd);
	r = config_load(path, &config, &err);
	(void) unlink(path);
	if (r < 0)
		fail_msg("%s", err.text);
	return config;
}

static void configure(struct fixture *f, const char *service)
{
	struct config *config = config_of(service);
	struct directory_plan *plan = NULL;
	struct usher_error err = {};

	if (directory_prepare(f->d, config, &plan, &err) < 0)
		fail_msg("%s", err.text);
	(void) config_unref(config);
	directory_apply(f->d, plan);
}

static struct context *catalog(struct fixture *f)
{
	return directory_find(f->d, "catalog");
}

static void wind(struct fixture *f, uint64_t usec)
{
	fake_boot_usec += usec;
	fake_wall_usec += usec;
	directory_do_due(f->d, fake_boot_usec);
	directory_end_turn(f->d);
}

static const char *pick_with(struct fixture *f, struct usher_request *request, struct pick *ret)
{
	context_pick(catalog(f), request, fake_boot_usec, ret);
	return ret->result == PICK_OK ? usher_endpoints_id(ret->snapshot->all, ret->endpoint)
				      : pick_result_to_string(ret->result);
}

static const char *picked(struct fixture *f)
{
	struct usher_request request = { .size = sizeof(request) };
	struct pick p;

	return pick_with(f, &request, &p);
}

static const char *picked_for(struct fixture *f, const char *consumer, const char *exclude)
{
	const char *const list[] = { exclude };
	struct usher_request request = { .size = sizeof(request),
		.consumer = consumer,
		.exclude = list,
		.exclude_count = exclude ? 1 : 0 };
	struct pick p;

	return pick_with(f, &request, &p);
}

static void drain(struct fixture *f, const char *id, enum usher_admin_state admin_state)
{
	struct override o = { .id = id, .admin_state = admin_state, .weight_share = 1 };

	assert_ok(directory_set_override(f->d, "catalog", &o, NULL));
}

static uint64_t since(struct fixture *f, const char *id)
{
	const struct snapshot *s = context_snapshot(catalog(f));
	ssize_t i = usher_endpoints_find(s->all, id);

	assert_true(i >= 0);
	return s->since_usec[i];
}

static void say_health(struct fixture *f, const uint8_t *states)
{
	said_health = states;
	fake_health_changed(catalog(f)->health);
}

static const char *explained(struct fixture *f, struct explanation *ret)
{
	struct usher_request request = { .size = sizeof(request) };

	assert_ok(context_explain(catalog(f), &request, fake_boot_usec, ret));
	return ret->pick.result == PICK_OK
			? usher_endpoints_id(ret->pick.snapshot->all, ret->pick.endpoint)
			: pick_result_to_string(ret->pick.result);
}

static const struct explain_stage *stage_of(const struct explanation *e, const char *name)
{
	for (size_t i = 0; i < e->stage_count; i++)
		if (strcmp(e->stages[i].name, name) == 0)
			return &e->stages[i];
	fail_msg("no stage %s", name);
	return NULL;
}

/* ---- since when ---- */

static void the_first_have_been_there_for_ever_and_new_ones_since_now(void **state)
{
	struct fixture *f = *state;

	configure(f, "");
	fake_offer("one", "catalog", "a b!");
	assert_int_equal(since(f, "a"), 0);
	wind(f, S);
	fake_offer("one", "catalog", "a b! c");
	assert_int_equal(since(f, "a"), 0);
	assert_int_equal(since(f, "c"), fake_boot_usec);
}

static void whoever_gets_ready_or_another_incarnation_begins_anew(void **state)
{
	struct fixture *f = *state;
	uint64_t came_usec;

	configure(f, "");
	fake_offer("one", "catalog", "a b! c#u1 d#u1");
	wind(f, S);
	fake_offer("one", "catalog", "a b c#u2 d#u1");
	came_usec = fake_boot_usec;
	assert_int_equal(since(f, "b"), came_usec);
	assert_int_equal(since(f, "c"), came_usec);
	assert_int_equal(since(f, "d"), 0);
	wind(f, S);
	fake_offer("one", "catalog", "0 a b c#u2 d#u1"); /* all have another index */
	assert_int_equal(since(f, "a"), 0);
	assert_int_equal(since(f, "b"), came_usec);
	assert_int_equal(since(f, "c"), came_usec);
}

static void whoever_is_restored_begins_anew(void **state)
{
	struct fixture *f = *state;

	configure(f, "");
	fake_offer("one", "catalog", "a b");
	drain(f, "a", USHER_ADMIN_DRAINING);
	wind(f, S);
	drain(f, "a", USHER_ADMIN_READY);
	assert_int_equal(since(f, "a"), fake_boot_usec);
	assert_int_equal(since(f, "b"), 0);
}

static void whoever_recovers_begins_anew(void **state)
{
	static const uint8_t ill[] = { USHER_HEALTH_DOWN, USHER_HEALTH_UP, USHER_HEALTH_EJECTED };
	static const uint8_t well[] = { USHER_HEALTH_UP, USHER_HEALTH_DEGRADED, USHER_HEALTH_UP };
	struct fixture *f = *state;

	configure(f, "health: {tcp: {}}");
	fake_offer("one", "catalog", "a b c");
	say_health(f, ill);
	wind(f, S);
	say_health(f, well);
	assert_int_equal(since(f, "a"), fake_boot_usec);
	assert_int_equal(since(f, "b"), 0);
	assert_int_equal(since(f, "c"), fake_boot_usec);
}

/* ---- weights that the chain changes ---- */

static void a_stage_may_weigh_and_is_run_again_when_it_says(void **state)
{
	struct fixture *f = *state;
	const struct snapshot *s;
	uint64_t revision;

	configure(f, "chain: [growing: {window: 10s}], select: weighted_round_robin");
	fake_offer("one", "catalog", "a b*4");
	wind(f, S);
	fake_offer("one", "catalog", "a b*4 c");
	s = context_snapshot(catalog(f));
	assert_int_equal(s->weights[0], 1000);
	assert_int_equal(s->weights[1], 4000);
	assert_int_equal(s->weights[2], 500);
	assert_int_equal(s->entries[2].weight, 1);
	assert_int_equal(snapshot_entry_ramp(&s->entries[2]), 500);
	revision = s->revision;

	for (unsigned i = 0; i < 9; i++) {
		wind(f, S);
		fake_confirm("one", "catalog");
	}
	assert_int_equal(context_snapshot(catalog(f))->revision, revision);
	wind(f, S);
	s = context_snapshot(catalog(f));
	assert_true(s->revision > revision);
	assert_int_equal(s->weights[2], 1000);
}

static void draining_ones_do_not_make_the_chain_weigh_twice(void **state)
{
	struct fixture *f = *state;

	configure(f, "chain: [growing: {}], select: weighted_round_robin");
	fake_offer("one", "catalog", "a b");
	fake_offer("one", "catalog", "a b c");
	drain(f, "a", USHER_ADMIN_DRAINING);
	assert_int_equal(context_snapshot(catalog(f))->weights[2], 500);
	assert_int_equal(context_snapshot(catalog(f))->weights[0], 1000);
}

static void an_explanation_weighs_as_the_publication_did(void **state)
{
	struct explanation e;
	struct fixture *f = *state;

	configure(f, "chain: [growing: {}], select: weighted_round_robin");
	fake_offer("one", "catalog", "a");
	fake_offer("one", "catalog", "a b");
	(void) explained(f, &e);
	assert_int_equal(context_snapshot(catalog(f))->weights[1], 500);
	assert_true(fabs(e.share - (e.pick.endpoint == 1 ? 1.0 / 3 : 2.0 / 3)) < 1e-9);
	explanation_done(&e);
}

/* ---- health and panic ---- */

static const uint8_t all_down[] = { USHER_HEALTH_DOWN, USHER_HEALTH_DOWN };
static const uint8_t one_up[] = { USHER_HEALTH_DOWN, USHER_HEALTH_UP };

static void who_is_down_is_not_picked_and_none_up_is_a_fact_of_its_own(void **state)
{
	struct fixture *f = *state;

	configure(f, "health: {tcp: {}}, chain: [well]");
	fake_offer("one", "catalog", "a b");
	say_health(f, one_up);
	assert_string_equal(picked(f), "b");
	assert_string_equal(picked(f), "b");
	say_health(f, all_down);
	assert_string_equal(picked(f), "all_unhealthy");
	assert_false(context_snapshot(catalog(f))->panic);
}

static void panic_is_said_and_its_begin_and_end_are_revisions(void **state)
{
	struct usher_request request = { .size = sizeof(request) };
	struct fixture *f = *state;
	struct explanation e;
	uint64_t revision;
	struct pick p;

	configure(f, "health: {tcp: {}, on_all_down: panic}, chain: [well]");
	fake_offer("one", "catalog", "a b");
	say_health(f, one_up);
	(void) pick_with(f, &request, &p);
	assert_false(p.panic);
	revision = p.snapshot->revision;
	say_health(f, all_down);
	(void) pick_with(f, &request, &p);
	assert_int_equal(p.result, PICK_OK);
	assert_true(p.panic);
	assert_true(p.snapshot->panic);
	assert_true(p.snapshot->revision > revision);
	(void) explained(f, &e);
	assert_true(e.pick.panic);
	assert_true(stage_of(&e, "well")->step.panic);
	assert_string_equal(stage_of(&e, "well")->told, "panic: none of 2 is up, 2 are used");
	explanation_done(&e);
	revision = p.snapshot->revision;
	say_health(f, one_up);
	assert_false(context_snapshot(catalog(f))->panic);
	assert_true(context_snapshot(catalog(f))->revision > revision);
}

static void another_panic_policy_is_in_force_after_a_reload(void **state)
{
	struct fixture *f = *state;

	configure(f, "health: {tcp: {}}, chain: [well]");
	fake_offer("one", "catalog", "a b");
	say_health(f, all_down);
	assert_string_equal(picked(f), "all_unhealthy");
	configure(f, "health: {tcp: {}, on_all_down: panic}, chain: [well]");
	assert_true(context_snapshot(catalog(f))->panic);
}

static void who_leaves_is_told_why_by_the_rule_that_ruled(void **state)
{
	struct fixture *f = *state;
	struct explanation e;
	char reason[160];

	configure(f, "chain: [named: [{id: x, on_empty: next}, {id: b}]]");
	fake_offer("one", "catalog", "a b");
	context_explain_left_out(catalog(f), 0, reason, sizeof(reason));
	assert_string_equal(reason, "is not b");
	assert_string_equal(explained(f, &e), "b");
	assert_int_equal(stage_of(&e, "named")->step.rule, 1);
	assert_int_equal(stage_of(&e, "named")->rule_count, 2);
	assert_int_equal(stage_of(&e, "named")->step.ruled, EMPTY_NEXT);
	assert_string_equal(stage_of(&e, "named")->left[0].reason, "is not b");
	explanation_done(&e);
}

/* ---- slots and open requests ---- */

static void report(struct fixture *f, const char *id, uint32_t count)
{
	const struct usher_report r = {
		.size = sizeof(r), .count = count, .latency_usec = 1000, .now_usec = fake_boot_usec
	};

	assert_ok(context_report(catalog(f), id, &r));
}

static void a_selector_learns_from_reports_as_long_as_the_endpoint_is_there(void **state)
{
	const struct usher_report r = { .size = sizeof(r), .count = 1 };
	struct fixture *f = *state;

	configure(f, "select: learning");
	assert_errno(context_report(catalog(f), "a", &r), ENOENT);
	fake_offer("one", "catalog", "a b#u1 c");
	assert_string_equal(picked(f), "a");
	report(f, "b", 5);
	report(f, "c", 3);
	assert_string_equal(picked(f), "b");
	fake_offer("one", "catalog", "0 a b#u1 c"); /* it has another index now */
	assert_string_equal(picked(f), "b");
	fake_offer("one", "catalog", "0 a b#u2 c"); /* another incarnation has learned nothing */
	assert_string_equal(picked(f), "c");
	assert_errno(context_report(catalog(f), "x", &r), ENOENT);
	configure(f, "select: round_robin");
	configure(f, "select: learning"); /* another instance begins anew */
	assert_string_equal(picked(f), "0");
}

static void what_is_prepared_serves_some_of_the_candidates_too(void **state)
{
	struct fixture *f = *state;

	configure(f, "select: learning");
	fake_offer("one", "catalog", "a b c");
	assert_string_equal(picked_for(f, NULL, "a"), "b");
	assert_int_equal(learning_saw_prepared, 3);
}

static void open_requests_guide_a_selector(void **state)
{
	struct fixture *f = *state;

	configure(f, "select: idlest");
	fake_offer("one", "catalog", "a b c");
	assert_ok(context_set_in_flight(catalog(f), "a", 1));
	assert_string_equal(picked(f), "b");
	assert_string_equal(picked(f), "c");
	assert_string_equal(picked(f), "a"); /* one each */
	report(f, "c", 1);
	assert_string_equal(picked(f), "c");
	fake_offer("one", "catalog", "0 a b c");
	assert_string_equal(picked(f), "0");
	assert_ok(context_set_in_flight(catalog(f), "0", 10));
	fake_boot_usec += 100 * S; /* picks that nobody answered for are forgotten */
	assert_string_equal(picked(f), "b");
	assert_errno(context_set_in_flight(catalog(f), "x", 1), ENOENT);
}

/* ---- who asked before ---- */

static void a_consumer_stays_with_what_it_was_given(void **state)
{
	struct fixture *f = *state;
	char first[8];

	configure(f, "removal_guard: {share: 100%}, chain: [last]");
	fake_offer("one", "catalog", "a b c");
	(void) snprintf(first, sizeof(first), "%s", picked_for(f, "shop", NULL));
	for (unsigned i = 0; i < 5; i++) {
		(void) picked_for(f, "cart", NULL);
		(void) picked_for(f, NULL, NULL);
		assert_string_equal(picked_for(f, "shop", NULL), first);
	}
	fake_offer("one", "catalog", "0 a b c");
	assert_string_equal(picked_for(f, "shop", NULL), first);
	fake_offer("one", "catalog", "0");
	assert_string_equal(picked_for(f, "shop", NULL), "0");
	fake_offer("one", "catalog", "0 a b c");
	assert_string_equal(picked_for(f, "shop", NULL), "0");
}

static void nothing_is_remembered_where_no_stage_goes_by_it(void **state)
{
	struct fixture *f = *state;

	configure(f, "");
	fake_offer("one", "catalog", "a b c");
	(void) picked_for(f, "shop", NULL);
	assert_null(catalog(f)->last);
	configure(f, "chain: [last]");
	assert_non_null(catalog(f)->last);
	configure(f, "");
	assert_null(catalog(f)->last);
}

static void a_stage_may_see_to_exclusions_itself(void **state)
{
	struct fixture *f = *state;
	struct explanation e;
	const char *const list[] = { "a" };
	struct usher_request request = {
		.size = sizeof(request), .exclude = list, .exclude_count = 1
	};

	configure(f, "chain: [untried: {on_empty: pass}]");
	fake_offer("one", "catalog", "a");
	assert_string_equal(picked_for(f, NULL, "a"), "a");
	assert_ok(context_explain(catalog(f), &request, fake_boot_usec, &e));
	for (size_t i = 0; i < e.stage_count; i++)
		assert_string_not_equal(e.stages[i].name, "exclude");
	explanation_done(&e);
	configure(f, "");
	assert_string_equal(picked_for(f, NULL, "a"), "filtered");
}

static void who_had_no_choice_does_not_shift_the_turns(void **state)
{
	struct fixture *f = *state;
	uint64_t cursor;

	configure(f, "");
	fake_offer("one", "catalog", "a b");
	cursor = catalog(f)->cursor;
	assert_string_equal(picked_for(f, NULL, "a"), "b");
	assert_true(catalog(f)->cursor == cursor);
	(void) picked(f);
	assert_true(catalog(f)->cursor == cursor + 1);
}

/* ---- counts and faults ---- */

static void what_on_empty_ruled_is_counted_for_the_context(void **state)
{
	struct fixture *f = *state;
	struct chain_counts counts;

	configure(f, "chain: [zone: {prefer: west}, asked: {on_empty: fail}]");
	fake_offer("one", "catalog", "a b");
	assert_string_equal(picked(f), "filtered");
	assert_string_equal(picked(f), "filtered");
	context_stage_counts(catalog(f), 0, &counts);
	assert_int_equal(counts.passed, 1); /* once, at the publication */
	assert_int_equal(counts.failed, 0);
	context_stage_counts(catalog(f), 1, &counts);
	assert_int_equal(counts.failed, 2);
	fake_offer("one", "catalog", "a b c");
	context_stage_counts(catalog(f), 0, &counts);
	assert_int_equal(counts.passed, 2);
	fake_confirm("one", "catalog");
	assert_true(context_recompute(catalog(f)) >= 0); /* the same again */
	context_stage_counts(catalog(f), 0, &counts);
	assert_int_equal(counts.passed, 2);
	configure(f, "chain: [zone: {prefer: west}]");
	context_stage_counts(catalog(f), 0, &counts);
	assert_int_equal(counts.passed, 1);
}

/* What is logged while run runs, on standard error. */
static unsigned lines_with(struct fixture *f, void (*run)(struct fixture *f), const char *words)
{
	int memory = memfd_create("log", MFD_CLOEXEC), before = dup(STDERR_FILENO);
	static char text[8192];
	ssize_t length;
	unsigned count = 0;

	assert_true(memory >= 0 && before >= 0);
	assert_true(dup2(memory, STDERR_FILENO) >= 0);
	log_set_priority(LOG_WARNING);
	run(f);
	log_set_priority(LOG_EMERG);
	assert_true(dup2(before, STDERR_FILENO) >= 0);
	length = pread(memory, text, sizeof(text) - 1, 0);
	assert_true(length >= 0);
	text[length] = '\0';
	(void) close(memory);
	(void) close(before);
	for (const char *at = text; (at = strstr(at, words)); at++)
		count++;
	return count;
}

static void be_nonsensical(struct fixture *f)
{
	configure(f, "chain: [nonsense: {asks: true, on_empty: pass}]");
	fake_offer("one", "catalog", "a b");
	for (unsigned i = 0; i < 3; i++)
		assert_string_equal(picked(f), "filtered");
}

static void a_stage_that_answers_nonsense_fails_the_pick_and_is_said_once(void **state)
{
	struct fixture *f = *state;
	struct chain_counts counts;
	struct explanation e;

	assert_int_equal(lines_with(f, be_nonsensical, "The stage nonsense of catalog answers"), 1);
	context_stage_counts(catalog(f), 0, &counts);
	assert_int_equal(counts.faults, 3);
	assert_string_equal(explained(f, &e), "filtered");
	assert_string_equal(e.pick.stage, "nonsense");
	assert_true(stage_of(&e, "nonsense")->step.fault);
	assert_non_null(strstr(stage_of(&e, "nonsense")->told, "the plug-in is at fault"));
	explanation_done(&e);
}

static void be_nonsensical_at_publication(struct fixture *f)
{
	configure(f, "chain: [nonsense: {kind: foreign}]");
	fake_offer("one", "catalog", "a b");
	fake_offer("one", "catalog", "a b c");
	assert_string_equal(picked(f), "filtered");
}

static void nonsense_at_publication_is_said_once_too(void **state)
{
	struct fixture *f = *state;
	char reason[160];

	assert_int_equal(lines_with(f, be_nonsensical_at_publication,
					 "The stage nonsense of catalog answers"),
			1);
	context_explain_left_out(catalog(f), 0, reason, sizeof(reason));
	assert_string_equal(reason, "nonsense answered nonsense, and so lets nobody through");
}

static void go_astray(struct fixture *f)
{
	configure(f, "select: astray");
	fake_offer("one", "catalog", "a b");
	for (unsigned i = 0; i < 3; i++)
		assert_string_equal(picked(f), "filtered");
}

static void a_selector_that_goes_astray_fails_the_pick_and_is_said_once(void **state)
{
	struct fixture *f = *state;
	struct explanation e;

	assert_int_equal(lines_with(f, go_astray,
					 "The selector astray of catalog picks number 2 of 2"),
			1);
	assert_string_equal(explained(f, &e), "filtered");
	assert_string_equal(e.pick.stage, "astray");
	assert_true(e.selector_fault);
	explanation_done(&e);
}

/* ---- marks ---- */

static const char *picked_by_hint(struct fixture *f, const char *hint)
{
	struct usher_request request = { .size = sizeof(request), .hint = hint };
	struct pick p;

	return pick_with(f, &request, &p);
}

static void each_rule_marks_each_endpoint_once_a_publication(void **state)
{
	struct fixture *f = *state;

	marking_asked = 0;
	configure(f,
			"chain: [{marking: [{when: {hint: b}, id: b, asks: true}, "
			"{id: c, asks: true}]}]");
	fake_offer("one", "catalog", "a b c");
	assert_int_equal(marking_asked, 2 * 3);
	assert_string_equal(picked_by_hint(f, "b"), "b");
	assert_string_equal(picked_by_hint(f, "x"), "c");
	assert_true(marking_had_marks);
	assert_int_equal(marking_asked, 2 * 3);

	/* Now they stand elsewhere. */
	fake_offer("one", "catalog", "aa b c d");
	fake_offer("one", "catalog", "b c d");
	assert_int_equal(marking_asked, 2 * (3 + 4 + 3));
	assert_string_equal(picked_by_hint(f, "b"), "b");
	assert_string_equal(picked_by_hint(f, "x"), "c");
	assert_int_equal(marking_asked, 2 * (3 + 4 + 3));
}

static void marks_change_with_the_chain(void **state)
{
	struct fixture *f = *state;

	configure(f, "chain: [{marking: {id: a, asks: true}}]");
	fake_offer("one", "catalog", "a b c");
	assert_string_equal(picked(f), "a");
	configure(f, "chain: [{last: {}}, {marking: {id: b, asks: true}}]");
	assert_string_equal(picked(f), "b");
	configure(f, "chain: [{last: {}}]");
	assert_null(catalog(f)->marks);
	configure(f, "chain: [{last: {}}, {marking: {id: c}}]"); /* behind one that asks */
	assert_string_equal(picked(f), "c");
	assert_true(marking_had_marks);
}

static void the_shared_part_has_no_marks(void **state)
{
	struct fixture *f = *state;

	configure(f, "chain: [{marking: {id: b}}]");
	fake_offer("one", "catalog", "a b c");
	assert_false(marking_had_marks);
	assert_null(catalog(f)->marks);
	assert_string_equal(picked(f), "b");
}

static void an_explanation_has_the_marks_of_a_pick(void **state)
{
	struct fixture *f = *state;
	struct explanation e;

	configure(f, "chain: [{marking: {id: b, asks: true}}]");
	fake_offer("one", "catalog", "a b c");
	assert_string_equal(explained(f, &e), "b");
	assert_string_equal(stage_of(&e, "marking")->told, "with marks");
	explanation_done(&e);
}

/* ---- memory ---- */

static int publish(void *userdata)
{
	struct fixture *f = userdata;
	struct context *c = catalog(f);
	int r;

	c->merged_valid = false;
	r = context_recompute(c);
	if (r < 0)
		assert_true(context_snapshot(c)->revision > 0);
	directory_end_turn(f->d);
	return r;
}

static void a_publication_without_memory_leaves_the_last_one_whole(void **state)
{
	struct fixture *f = *state;

	configure(f, "chain: [whole, last, {marking: {id: b, asks: true}}], select: learning");
	fake_offer("one", "catalog", "a b c");
	report(f, "c", 7);
	assert_survives_oom(publish, f);
	assert_string_equal(picked(f), "b");
	assert_true(marking_had_marks);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_first_have_been_there_for_ever_and_new_ones_since_now),
		TEST(whoever_gets_ready_or_another_incarnation_begins_anew),
		TEST(whoever_is_restored_begins_anew),
		TEST(whoever_recovers_begins_anew),
		TEST(a_stage_may_weigh_and_is_run_again_when_it_says),
		TEST(draining_ones_do_not_make_the_chain_weigh_twice),
		TEST(an_explanation_weighs_as_the_publication_did),
		TEST(who_is_down_is_not_picked_and_none_up_is_a_fact_of_its_own),
		TEST(panic_is_said_and_its_begin_and_end_are_revisions),
		TEST(another_panic_policy_is_in_force_after_a_reload),
		TEST(who_leaves_is_told_why_by_the_rule_that_ruled),
		TEST(a_selector_learns_from_reports_as_long_as_the_endpoint_is_there),
		TEST(what_is_prepared_serves_some_of_the_candidates_too),
		TEST(open_requests_guide_a_selector),
		TEST(a_consumer_stays_with_what_it_was_given),
		TEST(nothing_is_remembered_where_no_stage_goes_by_it),
		TEST(a_stage_may_see_to_exclusions_itself),
		TEST(who_had_no_choice_does_not_shift_the_turns),
		TEST(what_on_empty_ruled_is_counted_for_the_context),
		TEST(a_stage_that_answers_nonsense_fails_the_pick_and_is_said_once),
		TEST(nonsense_at_publication_is_said_once_too),
		TEST(a_selector_that_goes_astray_fails_the_pick_and_is_said_once),
		TEST(each_rule_marks_each_endpoint_once_a_publication),
		TEST(marks_change_with_the_chain),
		TEST(the_shared_part_has_no_marks),
		TEST(an_explanation_has_the_marks_of_a_pick),
		TEST(a_publication_without_memory_leaves_the_last_one_whole),
	};

	stand_in_more = stand_in_stages;
	return cmocka_run_group_tests_name("chain-picks", tests, NULL, NULL);
}
