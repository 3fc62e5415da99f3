/* The health of endpoints in a context: who is asked, and what becomes of the answers in what is
 * published and picked. Sources, clock and prober are played; the stages are the real ones. */

#include <unistd.h>

#include "directory-private.h"
#include "endpoint-sets.h"
#include "fake-prober.h"
#include "health-private.h"
#include "log.h"
#include "loop.h"
#include "stand-in-plugins.h"
#include "stand-in-source.h"

struct fixture {
	sd_event *event;
	struct directory *d;
	unsigned published;
};

static void on_published(void *userdata, struct context *c, const struct snapshot *previous)
{
	(void) c;
	(void) previous;
	((struct fixture *) userdata)->published++;
}

static const struct directory_events events = { .published = on_published };

/* The timers of the loop go by the real clock: the played one must not be far from it. */
static void set_clock(void)
{
	struct timespec now;

	assert_ok(clock_gettime(CLOCK_BOOTTIME, &now));
	fake_boot_usec = (uint64_t) now.tv_sec * USEC_PER_SEC + (uint64_t) now.tv_nsec / 1000;
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	set_clock();
	assert_ok(sd_event_new(&f->event));
	assert_ok(directory_new(f->event, NULL, NULL, &f->d));
	assert_ok(directory_subscribe(f->d, &events, f));
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
	assert_null(fake_prober);
	return 0;
}

static struct config *config_of(const char *yaml)
{
	char path[] = "/tmp/usher-test-XXXXXX.yaml";
	struct usher_error err = {};
	struct config *config = NULL;
	int fd = mkstemps(path, 5), r;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, yaml, strlen(yaml)), strlen(yaml));
	(void) close(fd);
	r = config_load(path, &config, &err);
	(void) unlink(path);
	if (r < 0)
		fail_msg("%s", err.text);
	return config;
}

static void configure(struct fixture *f, const char *yaml)
{
	struct config *config = config_of(yaml);
	struct directory_plan *plan = NULL;
	struct usher_error err = {};

	if (directory_prepare(f->d, config, &plan, &err) < 0)
		fail_msg("%s", err.text);
	(void) config_unref(config);
	directory_apply(f->d, plan);
}

#define HEAD                             \
	"node: {name: n}\n"              \
	"sources:\n"                     \
	" - {name: one, plugin: fake}\n" \
	" - {name: two, plugin: fake}\n" \
	"defaults: {sources: [one, two], lazy: {allow: false}}\n"
#define CHECKED(more)                                                                     \
	HEAD "services: {catalog: {merge: union, chain: [ready, health], health: {http: " \
	     "{path: /health}, rise: 2, fall: 2" more "}}}\n"

static struct context *catalog(struct fixture *f)
{
	return directory_find(f->d, "catalog");
}

/* Results, and whoever they are told. */
static void find(struct fixture *f, const char *ids, enum probe_reason reason)
{
	fake_results(ids, reason);
	loop_drain(f->event);
	while (catalog(f)->health->is_dirty) {
		set_clock();
		assert_ok(sd_event_run(f->event, 10000));
	}
	directory_end_turn(f->d);
}

/* Who is chosen, or why nobody is. */
static const char *chosen(struct fixture *f)
{
	static char text[1024];
	struct usher_request request = { .size = sizeof(request) };
	const struct snapshot *s = context_snapshot(catalog(f));
	size_t length = 0;
	struct pick p;

	context_pick(catalog(f), &request, fake_boot_usec, &p);
	if (p.result != PICK_OK)
		return pick_result_to_string(p.result);
	text[0] = '\0';
	for (size_t i = 0; i < s->chosen_count; i++)
		length += (size_t) snprintf(text + length, sizeof(text) - length, "%s%s",
				i ? " " : "", usher_endpoints_id(s->all, s->chosen[i]));
	return text;
}

static enum usher_health health_in_snapshot(struct fixture *f, const char *id)
{
	const struct snapshot *s = context_snapshot(catalog(f));
	ssize_t i = usher_endpoints_find(s->all, id);

	assert_true(i >= 0);
	return (enum usher_health) s->entries[i].health;
}

/* ---- publication ---- */

static void the_first_publication_waits_for_no_check(void **state)
{
	struct fixture *f = *state;

	configure(f, CHECKED(""));
	fake_offer("one", "catalog", "a b");
	fake_offer("two", "catalog", "");
	assert_string_equal(chosen(f), "a b");
	assert_int_equal(health_in_snapshot(f, "a"), USHER_HEALTH_UNKNOWN);
	assert_true(context_has_answer(catalog(f)));
	assert_int_equal(fake_prober->count, 2);
}

static void what_is_down_is_not_chosen_until_it_is_up(void **state)
{
	struct fixture *f = *state;

	configure(f, CHECKED(""));
	fake_offer("one", "catalog", "a b");
	fake_offer("two", "catalog", "c");
	find(f, "a c", PROBE_OK);
	find(f, "b", PROBE_STATUS);
	assert_string_equal(chosen(f), "a c");
	assert_int_equal(health_in_snapshot(f, "b"), USHER_HEALTH_DOWN);
	find(f, "b", PROBE_OK);
	assert_string_equal(chosen(f), "a c");
	find(f, "b", PROBE_OK);
	assert_string_equal(chosen(f), "a b c");
}

static void what_is_found_again_is_not_published_again(void **state)
{
	struct fixture *f = *state;
	unsigned published;

	configure(f, CHECKED(""));
	fake_offer("one", "catalog", "a b");
	fake_offer("two", "catalog", "");
	find(f, "a b", PROBE_OK);
	published = f->published;
	find(f, "a b", PROBE_OK);
	find(f, "a", PROBE_STATUS);
	find(f, "a", PROBE_OK);
	assert_int_equal(f->published, published);
	find(f, "a b", PROBE_STATUS);
	find(f, "a b", PROBE_STATUS);
	assert_int_equal(f->published, published + 1);
}

static void when_all_are_down_the_answer_says_that_fact(void **state)
{
	struct fixture *f = *state;

	configure(f, CHECKED(""));
	fake_offer("one", "catalog", "a b");
	fake_offer("two", "catalog", "");
	find(f, "a b", PROBE_STATUS);
	assert_string_equal(chosen(f), "all_unhealthy");
	find(f, "a", PROBE_OK);
	find(f, "a", PROBE_OK);
	assert_string_equal(chosen(f), "a");
}

static const char *why_none(struct fixture *f, const char **ret_stage)
{
	return pick_result_to_string(context_why_none(catalog(f), ret_stage));
}

static void another_reason_why_none_is_chosen_is_a_new_revision(void **state)
{
	struct fixture *f = *state;
	const struct override withdrawn[] = {
		{ .id = "a", .withdrawn = true, .weight_share = 1 },
		{ .id = "b", .withdrawn = true, .weight_share = 1 },
	};
	const char *stage;
	uint64_t revision;

	configure(f, CHECKED(""));
	fake_offer("one", "catalog", "a b");
	fake_offer("two", "catalog", "");
	assert_string_equal(why_none(f, &stage), "ok");
	assert_null(stage);
	find(f, "a b", PROBE_STATUS);
	assert_string_equal(why_none(f, &stage), "all_unhealthy");
	revision = context_snapshot(catalog(f))->revision;
	assert_ok(directory_set_override(f->d, "catalog", &withdrawn[0], NULL));
	assert_true(context_snapshot(catalog(f))->revision == revision);
	assert_ok(directory_set_override(f->d, "catalog", &withdrawn[1], NULL));
	assert_string_equal(why_none(f, &stage), "filtered");
	assert_string_equal(stage, "drain");
	assert_true(context_snapshot(catalog(f))->revision > revision);
	assert_int_equal(context_snapshot(catalog(f))->listed_count, 0);
}

static void in_panic_all_are_chosen_and_the_snapshot_says_so(void **state)
{
	struct fixture *f = *state;

	configure(f, CHECKED(", on_all_down: panic, panic_threshold: 50%"));
	fake_offer("one", "catalog", "a b c");
	fake_offer("two", "catalog", "d-");
	find(f, "a b", PROBE_STATUS);
	find(f, "c", PROBE_OK);
	assert_string_equal(chosen(f), "a b c");
	assert_true(context_snapshot(catalog(f))->panic);
	find(f, "a", PROBE_OK);
	find(f, "a", PROBE_OK);
	assert_string_equal(chosen(f), "a c");
	assert_false(context_snapshot(catalog(f))->panic);
}

/* ---- who is asked ---- */

static void everybody_who_is_merged_is_asked(void **state)
{
	struct fixture *f = *state;
	const struct override withdrawn = { .id = "b", .withdrawn = true, .weight_share = 1 };

	configure(f, CHECKED(""));
	fake_offer("one", "catalog", "a! b c-");
	fake_offer("two", "catalog", "d=");
	assert_ok(directory_set_override(f->d, "catalog", &withdrawn, NULL));
	assert_int_equal(fake_prober->count, 4);
	find(f, "b", PROBE_STATUS);
	assert_int_equal(health_in_snapshot(f, "b"), USHER_HEALTH_DOWN);
	/* health is one thing, and what people decided another */
	assert_ok(directory_clear_override(f->d, "catalog", "b", NULL));
	assert_int_equal(health_in_snapshot(f, "b"), USHER_HEALTH_DOWN);
	find(f, "b", PROBE_OK);
	find(f, "b", PROBE_OK);
	assert_string_equal(chosen(f), "b");
}

static void whoever_leaves_is_asked_no_more(void **state)
{
	struct fixture *f = *state;

	configure(f, CHECKED(""));
	fake_offer("one", "catalog", "a b c");
	fake_offer("two", "catalog", "");
	find(f, "a", PROBE_OK);
	find(f, "b c", PROBE_STATUS);
	fake_offer("one", "catalog", "b c");
	assert_null(fake_probe_of("a"));
	fake_offer("one", "catalog", "c");
	assert_null(fake_probe_of("b"));
	assert_string_equal(chosen(f), "all_unhealthy");
	fake_offer("one", "catalog", "b c");
	assert_string_equal(chosen(f), "b"); /* which starts anew */
}

/* ---- another configuration ---- */

static void a_reload_loses_nothing(void **state)
{
	struct fixture *f = *state;
	uint64_t revision;
	size_t added;

	configure(f, CHECKED(""));
	fake_offer("one", "catalog", "a b");
	fake_offer("two", "catalog", "");
	find(f, "a", PROBE_OK);
	find(f, "b", PROBE_STATUS);
	revision = context_snapshot(catalog(f))->revision;
	added = fake_prober->added;
	configure(f, CHECKED(", interval: 7s"));
	assert_int_equal(context_snapshot(catalog(f))->revision, revision);
	assert_int_equal(fake_prober->added, added);
	assert_int_equal(fake_probe_of("a")->timing.interval_usec, 7000000);
	find(f, "b", PROBE_OK);
	find(f, "b", PROBE_OK);
	assert_string_equal(chosen(f), "a b");
}

static void a_check_may_go_and_come(void **state)
{
	struct fixture *f = *state;

	configure(f, CHECKED(""));
	fake_offer("one", "catalog", "a b");
	fake_offer("two", "catalog", "");
	find(f, "a", PROBE_STATUS);
	assert_string_equal(chosen(f), "b");
	configure(f, HEAD "services: {catalog: {merge: union, health: none}}\n");
	assert_string_equal(chosen(f), "a b");
	assert_int_equal(fake_prober->count, 0);
	assert_null(context_health(catalog(f)));
	assert_false(context_snapshot(catalog(f))->has_health);
	configure(f, CHECKED(""));
	assert_int_equal(fake_prober->count, 2);
	find(f, "b", PROBE_STATUS);
	assert_string_equal(chosen(f), "a");
}

static void another_threshold_is_in_force_at_once(void **state)
{
	struct fixture *f = *state;

	configure(f, CHECKED(""));
	fake_offer("one", "catalog", "a b");
	fake_offer("two", "catalog", "");
	find(f, "a b", PROBE_STATUS);
	assert_string_equal(chosen(f), "all_unhealthy");
	configure(f, CHECKED(", on_all_down: panic"));
	assert_string_equal(chosen(f), "a b");
}

static void services_that_go_are_asked_no_more(void **state)
{
	struct fixture *f = *state;

	configure(f, CHECKED(""));
	fake_offer("one", "catalog", "a b");
	fake_offer("two", "catalog", "");
	find(f, "a", PROBE_OK);
	fake_results("b", PROBE_STATUS); /* and before it is told, */
	configure(f, HEAD);
	loop_drain(f->event);
	assert_int_equal(fake_prober->count, 0);
}

static void services_that_nobody_declared_are_asked_as_the_defaults_say(void **state)
{
	struct fixture *f = *state;
	struct context *c = NULL;

	configure(f,
			"sources: [{name: one, plugin: fake}]\n"
			"defaults: {chain: [ready, health], health: {http: {path: /lazy}}}\n");
	assert_ok(directory_get(f->d, "catalog", &c, NULL));
	fake_offer("one", "catalog", "a b");
	assert_string_equal(fake_probe_of("a")->target->path, "/lazy");
	find(f, "a", PROBE_STATUS);
	assert_string_equal(chosen(f), "b");
	configure(f,
			"sources: [{name: one, plugin: fake}]\n"
			"defaults: {chain: [ready, health], health: {http: {path: /other}}}\n");
	assert_string_equal(fake_probe_of("a")->target->path, "/other");
	assert_string_equal(chosen(f), "a b");
	directory_remove(f->d, catalog(f), true);
	assert_int_equal(fake_prober->count, 0);
}

static void a_check_that_cannot_be_made_is_refused_with_its_place(void **state)
{
	struct fixture *f = *state;
	struct config *config = config_of(
			HEAD "services:\n"
			     "  catalog:\n"
			     "    health: {http: {tls: {enabled: true, ca: /nowhere/ca.pem}}}\n");
	struct directory_plan *plan = NULL;
	struct usher_error err = {};

	assert_errno(directory_prepare(f->d, config, &plan, &err), ENOENT);
	(void) config_unref(config);
	assert_non_null(strstr(err.text, ".yaml:7:3: services"));
	assert_non_null(strstr(err.text, "/nowhere/ca.pem"));
}

/* ---- reports ---- */

static void reports_of_calls_eject(void **state)
{
	const struct usher_report report = {
		.size = sizeof(report), .outcome = USHER_OUTCOME_ERROR, .count = 5
	};
	struct fixture *f = *state;

	configure(f,
			HEAD
			"services: {catalog: {merge: union, chain: [health], health: {outlier: "
			"{enabled: true}}}}\n");
	fake_offer("one", "catalog", "a b c");
	fake_offer("two", "catalog", "");
	assert_int_equal(fake_prober->count, 0);
	assert_ok(context_report(catalog(f), "a", &report));
	loop_drain(f->event);
	assert_int_equal(health_in_snapshot(f, "a"), USHER_HEALTH_EJECTED);
	assert_string_equal(chosen(f), "b c");
	assert_errno(context_report(catalog(f), "x", &report), ENOENT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_first_publication_waits_for_no_check),
		TEST(what_is_down_is_not_chosen_until_it_is_up),
		TEST(what_is_found_again_is_not_published_again),
		TEST(when_all_are_down_the_answer_says_that_fact),
		TEST(another_reason_why_none_is_chosen_is_a_new_revision),
		TEST(in_panic_all_are_chosen_and_the_snapshot_says_so),
		TEST(everybody_who_is_merged_is_asked),
		TEST(whoever_leaves_is_asked_no_more),
		TEST(a_reload_loses_nothing),
		TEST(a_check_may_go_and_come),
		TEST(another_threshold_is_in_force_at_once),
		TEST(services_that_go_are_asked_no_more),
		TEST(services_that_nobody_declared_are_asked_as_the_defaults_say),
		TEST(a_check_that_cannot_be_made_is_refused_with_its_place),
		TEST(reports_of_calls_eject),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
