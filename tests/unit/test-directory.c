/* The directory as a whole: what sources say, what rollouts decide, what is published and picked.
 */

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "directory-private.h"
#include "endpoint-sets.h"
#include "log.h"
#include "stand-in-plugins.h"
#include "stand-in-source.h"
#include "text.h"

#define S USEC_PER_SEC

struct seen {
	unsigned published, renewed, removed;
	uint64_t revision; /* of the last that was published */
};

struct fixture {
	sd_event *event;
	struct directory *d;
	struct seen seen;
};

static void on_published(void *userdata, struct context *c, const struct snapshot *previous)
{
	struct seen *seen = userdata;

	(void) previous;
	assert_true(context_snapshot(c)->revision > seen->revision);
	seen->revision = context_snapshot(c)->revision;
	seen->published++;
}

static void on_renewed(void *userdata, struct context *c)
{
	(void) c;
	((struct seen *) userdata)->renewed++;
}

static void on_removed(void *userdata, struct context *c)
{
	(void) c;
	((struct seen *) userdata)->removed++;
}

static const struct directory_events events = { on_published, on_renewed, on_removed };

/* ---- around each test ---- */

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_ok(sd_event_new(&f->event));
	assert_ok(directory_new(f->event, NULL, NULL, &f->d));
	assert_ok(directory_subscribe(f->d, &events, &f->seen));
	fake_starts = fake_stops = 0;
	fake_start_result = 0;
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
	assert_int_equal(fake_source_count, 0);
	assert_int_equal(plugin_instances, 0);
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

/* Two sources, and what the defaults and services of a test say. */
#define HEAD                              \
	"node: {name: n, zone: east}\n"   \
	"sources:\n"                      \
	"  - {name: one, plugin: fake}\n" \
	"  - {name: two, plugin: fake}\n" \
	"defaults:\n"                     \
	"  sources: [one, two]\n"         \
	"  lazy: {allow: false}\n"

#define ONE                                      \
	"node: {name: n, zone: east}\n"          \
	"sources: [{name: one, plugin: fake}]\n" \
	"defaults: {sources: [one], lazy: {allow: false}}\n"

static void wind(struct fixture *f, uint64_t usec)
{
	fake_boot_usec += usec;
	fake_wall_usec += usec;
	directory_do_due(f->d, fake_boot_usec);
	directory_end_turn(f->d);
}

static struct context *catalog(struct fixture *f)
{
	return directory_find(f->d, "catalog");
}

/* Who is listed; one that drains has a "-", one that is not chosen otherwise a "?". */
static const char *listed(struct fixture *f)
{
	static char text[4096];
	const struct snapshot *s = context_snapshot(catalog(f));
	size_t length = 0;

	if (!s)
		return "nothing";
	text[0] = '\0';
	for (size_t i = 0; i < s->listed_count; i++) {
		const struct snapshot_entry *entry = &s->entries[s->listed[i]];
		const char *mark = entry->chosen                             ? ""
				: entry->admin_state == USHER_ADMIN_DRAINING ? "-"
									     : "?";

		length += (size_t) snprintf(text + length, sizeof(text) - length, "%s%s%s",
				i ? " " : "", usher_endpoints_id(s->all, s->listed[i]), mark);
	}
	return text;
}

static struct pick pick(struct fixture *f)
{
	struct usher_request request = { .size = sizeof(request) };
	struct pick p;

	context_pick(catalog(f), &request, fake_boot_usec, &p);
	return p;
}

static const char *picked_id(const struct pick *p)
{
	return p->result == PICK_OK ? usher_endpoints_id(p->snapshot->all, p->endpoint)
				    : pick_result_to_string(p->result);
}

static void assert_pick(struct fixture *f, enum pick_result result, const char *stage)
{
	struct pick p = pick(f);

	assert_int_equal(p.result, result);
	if (stage)
		assert_string_equal(p.stage, stage);
}

static enum source_state state_of(struct fixture *f)
{
	struct freshness freshness;

	context_freshness(catalog(f), fake_boot_usec, &freshness);
	return freshness.state;
}

static uint64_t age_of(struct fixture *f)
{
	struct freshness freshness;

	context_freshness(catalog(f), fake_boot_usec, &freshness);
	return freshness.age_usec;
}

static const struct feed *feed(struct fixture *f, size_t i)
{
	return context_feed(catalog(f), i);
}

/* ---- answers ---- */

static void each_fact_of_an_answer_has_a_word_of_its_own(void **state)
{
	struct fixture *f = *state;

	configure(f,
			ONE
			"services: {catalog: {chain: [{ready: {on_empty: fail}}], freshness: {max_age: "
			"30s, on_stale: fail}}}\n");
	assert_pick(f, PICK_SOURCE_UNKNOWN, NULL);
	assert_false(context_has_answer(catalog(f)));
	assert_int_equal(state_of(f), SOURCE_UNKNOWN);
	assert_int_equal(age_of(f), USEC_FOREVER);

	fake_fail("one", "catalog", -ETIMEDOUT, "timed out");
	assert_pick(f, PICK_SOURCE_FAILED, NULL);
	assert_false(context_has_answer(catalog(f)));
	assert_string_equal(feed(f, 0)->error, "timed out");

	fake_offer("one", "catalog", "");
	assert_pick(f, PICK_EMPTY, NULL);
	assert_true(context_has_answer(catalog(f)));
	assert_null(feed(f, 0)->error);

	fake_offer("one", "catalog", "a!");
	assert_pick(f, PICK_FILTERED, "ready");
	fake_offer("one", "catalog", "a-");
	assert_pick(f, PICK_FILTERED, "drain");
	fake_offer("one", "catalog", "a*0");
	assert_pick(f, PICK_FILTERED, "round_robin");
	assert_string_equal(listed(f), "a");
	fake_offer("one", "catalog", "a");
	assert_pick(f, PICK_OK, NULL);

	wind(f, 31 * S);
	assert_pick(f, PICK_STALE, NULL);
	fake_confirm("one", "catalog");
	assert_pick(f, PICK_OK, NULL);
}

static void an_empty_answer_is_believed_when_everybody_has_answered(void **state)
{
	struct fixture *f = *state;

	configure(f, HEAD "services: {catalog: {}}\n");
	fake_offer("two", "catalog", "");
	assert_string_equal(listed(f), "nothing");
	assert_pick(f, PICK_SOURCE_UNKNOWN, NULL);
	fake_fail("one", "catalog", -EACCES, "denied");
	assert_pick(f, PICK_SOURCE_FAILED, NULL);
	fake_offer("one", "catalog", "");
	assert_string_equal(listed(f), "");
	assert_pick(f, PICK_EMPTY, NULL);
	assert_int_equal(f->seen.published, 1);
}

static void the_first_source_that_is_not_empty_is_taken(void **state)
{
	struct fixture *f = *state;

	configure(f, HEAD "services: {catalog: {}}\n");
	fake_offer("two", "catalog", "b");
	assert_null(context_snapshot(catalog(f)));
	fake_fail("one", "catalog", -EIO, "unreachable");
	assert_string_equal(listed(f), "b");
	assert_false(context_has_answer(catalog(f)));
	fake_offer("one", "catalog", "a");
	assert_string_equal(listed(f), "a");
	assert_true(context_has_answer(catalog(f)));
	/* what the other says then is nobody's business */
	fake_offer("two", "catalog", "c d");
	assert_int_equal(f->seen.published, 2);
	assert_int_equal(context_snapshot(catalog(f))->entries[0].source, 0);
}

static void a_part_of_the_sources_passes_for_the_whole_only_when_time_is_used_up(void **state)
{
	struct fixture *f = *state;

	configure(f, HEAD "services: {catalog: {merge: union, startup_timeout: 10s}}\n");
	fake_offer("one", "catalog", "a b");
	wind(f, 9 * S);
	assert_null(context_snapshot(catalog(f)));
	wind(f, 2 * S);
	assert_string_equal(listed(f), "a b");
}

static void a_union_joins_and_counts_conflicts(void **state)
{
	struct fixture *f = *state;

	configure(f, HEAD "services: {catalog: {merge: union}}\n");
	fake_offer("one", "catalog", "a b");
	fake_offer("two", "catalog", "b*5 c");
	assert_string_equal(listed(f), "a b c");
	assert_int_equal(context_snapshot(catalog(f))->conflict_count, 1);
	assert_int_equal(context_snapshot(catalog(f))->entries[2].source, 1);
	assert_int_equal(context_snapshot(catalog(f))->weights[1], 1000);
}

static void who_answers_first_leads_a_race_for_as_long_as_it_is_live(void **state)
{
	struct fixture *f = *state;

	configure(f, HEAD "services: {catalog: {merge: race, freshness: {max_age: 30s}}}\n");
	fake_fail("one", "catalog", -EIO, "fails fast");
	assert_null(context_snapshot(catalog(f)));
	fake_offer("two", "catalog", "b");
	assert_string_equal(listed(f), "b");
	assert_true(context_has_answer(catalog(f)));
	fake_offer("one", "catalog", "a");
	fake_confirm("one", "catalog");
	assert_string_equal(listed(f), "b");
	assert_int_equal(f->seen.published, 1);

	fake_fail("two", "catalog", -EIO, "unreachable");
	assert_string_equal(listed(f), "a");
	assert_int_equal(state_of(f), SOURCE_LIVE);
	fake_offer("two", "catalog", "b c");
	assert_string_equal(listed(f), "a");
	/* it says nothing any more */
	wind(f, 20 * S);
	fake_confirm("two", "catalog");
	wind(f, 11 * S);
	assert_string_equal(listed(f), "b c");
	assert_int_equal(state_of(f), SOURCE_LIVE);
}

static void a_race_is_empty_only_when_all_are(void **state)
{
	struct fixture *f = *state;

	configure(f, HEAD "services: {catalog: {merge: race, removal_guard: {share: 100%}}}\n");
	fake_offer("one", "catalog", "");
	assert_null(context_snapshot(catalog(f)));
	fake_offer("two", "catalog", "b");
	assert_string_equal(listed(f), "b");
	fake_offer("one", "catalog", "a");
	fake_offer("two", "catalog", "");
	assert_string_equal(listed(f), "a");
	fake_offer("one", "catalog", "");
	assert_string_equal(listed(f), "");
	assert_pick(f, PICK_EMPTY, NULL);
}

static void a_race_goes_on_with_its_leader_after_a_reload(void **state)
{
	struct fixture *f = *state;

	configure(f, HEAD "services: {catalog: {merge: race}}\n");
	fake_offer("two", "catalog", "b");
	fake_offer("one", "catalog", "a");
	configure(f, HEAD "services: {catalog: {merge: race, startup_timeout: 1s}}\n");
	assert_string_equal(listed(f), "b");
}

static void which_source_decided_a_field_is_known(void **state)
{
	struct fixture *f = *state;
	const struct snapshot *s;

	configure(f,
			HEAD
			"services: {catalog: {merge: union, sources: [one, {source: two, decides: [weight]}]}}\n");
	fake_offer("one", "catalog", "a b");
	fake_offer("two", "catalog", "b*5 c");
	s = context_snapshot(catalog(f));
	assert_int_equal(s->weights[1], 5000);
	assert_int_equal(s->conflict_count, 0);
	assert_string_equal(context_source_of(catalog(f), s, 1), "one");
	assert_string_equal(context_field_source(catalog(f), s, 1, MERGE_WEIGHT), "two");
	assert_null(context_field_source(catalog(f), s, 1, MERGE_ZONE));
	assert_null(context_field_source(catalog(f), s, 2, MERGE_WEIGHT));
	assert_string_equal(context_shown_by(catalog(f), s, 1, 0), "one");
	assert_string_equal(context_shown_by(catalog(f), s, 1, 1), "two");
	assert_null(context_shown_by(catalog(f), s, 2, 0));
}

/* Promise P2: failure is never emptiness. */
static void a_failing_source_keeps_what_it_said(void **state)
{
	struct fixture *f = *state;

	configure(f, ONE "services: {catalog: {}}\n");
	fake_offer("one", "catalog", "a b");
	wind(f, 5 * S);
	for (int i = 0; i < 10; i++)
		fake_fail("one", "catalog", -EIO, "nonsense");
	assert_string_equal(listed(f), "a b");
	assert_pick(f, PICK_OK, NULL);
	assert_int_equal(state_of(f), SOURCE_FAILED);
	assert_int_equal(age_of(f), 5 * S);
	assert_int_equal(feed(f, 0)->failures, 10);
	fake_fail("one", "catalog", -EPERM, "403");
	assert_int_equal(state_of(f), SOURCE_DENIED);
	fake_confirm("one", "catalog");
	assert_int_equal(state_of(f), SOURCE_LIVE);
	assert_int_equal(age_of(f), 0);
	assert_int_equal(f->seen.published, 1);
}

/* Promise P1: staleness is bounded and told. */
static void an_answer_ages_and_everybody_hears_when_it_is_stale(void **state)
{
	struct fixture *f = *state;
	unsigned renewed;

	configure(f, ONE "services: {catalog: {freshness: {max_age: 30s}}}\n");
	fake_offer("one", "catalog", "a");
	renewed = f->seen.renewed;
	wind(f, 30 * S);
	assert_int_equal(state_of(f), SOURCE_LIVE);
	assert_int_equal(f->seen.renewed, renewed);
	wind(f, 1);
	assert_int_equal(state_of(f), SOURCE_STALE);
	assert_int_equal(feed(f, 0)->state, SOURCE_STALE);
	assert_int_equal(f->seen.renewed, renewed + 1);
	assert_pick(f, PICK_OK, NULL);
	fake_confirm("one", "catalog");
	assert_int_equal(state_of(f), SOURCE_LIVE);
	assert_int_equal(f->seen.renewed, renewed + 2);
	assert_int_equal(f->seen.published, 1);
}

static void the_same_answer_again_is_no_new_revision(void **state)
{
	struct fixture *f = *state;

	configure(f, ONE "services: {catalog: {}}\n");
	for (int i = 0; i < 1000; i++)
		fake_offer("one", "catalog", "a b");
	assert_int_equal(f->seen.published, 1);
}

static const char *why_none(struct fixture *f)
{
	const char *stage;

	return pick_result_to_string(context_why_none(catalog(f), &stage));
}

static void what_is_empty_without_everybodys_word_is_not_called_so(void **state)
{
	struct fixture *f = *state;
	unsigned published;

	configure(f, HEAD "services: {catalog: {merge: first, removal_guard: {share: 100%}}}\n");
	fake_offer("one", "catalog", "a");
	assert_string_equal(why_none(f), "ok");
	fake_offer("one", "catalog", "");
	wind(f, 3600 * S);
	assert_string_equal(why_none(f), "source_unknown");
	published = f->seen.published;
	fake_fail("two", "catalog", -EIO, "gone");
	assert_string_equal(why_none(f), "source_failed");
	assert_int_equal(f->seen.published, published + 1);
	fake_fail("two", "catalog", -EIO, "gone");
	assert_int_equal(f->seen.published, published + 1);
	fake_offer("two", "catalog", "");
	assert_string_equal(why_none(f), "empty");
	assert_int_equal(f->seen.published, published + 2);
}

static void what_a_stage_hides_changes_without_a_revision(void **state)
{
	struct fixture *f = *state;

	configure(f, ONE "services: {catalog: {chain: [{zone: {on_empty: fail}}]}}\n");
	fake_offer("one", "catalog", "a/east b/west");
	fake_offer("one", "catalog", "a/east b/north");
	assert_int_equal(f->seen.published, 1);
	assert_int_equal(context_snapshot(catalog(f))->count, 2);
	assert_int_equal(context_snapshot(catalog(f))->entries[1].stage, 0);
}

/* ---- the guard ---- */

#define GUARDED \
	"services: {catalog: {removal_guard: {share: 50%, hold: 30s}, freshness: {max_age: 5m}}}\n"

static void a_sudden_removal_is_held_back_and_then_delivered(void **state)
{
	struct fixture *f = *state;

	configure(f, ONE GUARDED);
	fake_offer("one", "catalog", "a b c d");
	fake_offer("one", "catalog", "a");
	assert_string_equal(listed(f), "a b c d");
	assert_non_null(feed(f, 0)->held);
	assert_int_equal(feed(f, 0)->held_removed, 3);
	assert_int_equal(feed(f, 0)->held_of, 4);
	wind(f, 29 * S);
	fake_confirm("one", "catalog");
	assert_string_equal(listed(f), "a b c d");
	assert_int_equal(age_of(f), 29 * S);
	wind(f, 1 * S);
	assert_string_equal(listed(f), "a");
	assert_null(feed(f, 0)->held);
	assert_int_equal(f->seen.published, 2);
}

static void an_explicit_empty_list_is_held_back_and_then_delivered(void **state)
{
	struct fixture *f = *state;

	configure(f, ONE GUARDED);
	fake_offer("one", "catalog", "a b");
	fake_offer("one", "catalog", "");
	assert_string_equal(listed(f), "a b");
	assert_pick(f, PICK_OK, NULL);
	wind(f, 30 * S);
	assert_string_equal(listed(f), "");
	assert_pick(f, PICK_EMPTY, NULL);
}

static void a_hold_ends_when_the_endpoints_return(void **state)
{
	struct fixture *f = *state;

	configure(f, ONE GUARDED);
	fake_offer("one", "catalog", "a b c d");
	fake_offer("one", "catalog", "");
	wind(f, 10 * S);
	fake_offer("one", "catalog", "a b c");
	assert_null(feed(f, 0)->held);
	assert_string_equal(listed(f), "a b c");
	wind(f, 60 * S);
	assert_string_equal(listed(f), "a b c");
}

static void a_source_that_fails_does_not_confirm_a_removal(void **state)
{
	struct fixture *f = *state;

	configure(f, ONE GUARDED);
	fake_offer("one", "catalog", "a b");
	fake_offer("one", "catalog", "");
	wind(f, 10 * S);
	fake_fail("one", "catalog", -EIO, "gone");
	wind(f, 50 * S);
	assert_string_equal(listed(f), "a b");
	fake_confirm("one", "catalog");
	assert_string_equal(listed(f), "");
}

static void what_comes_with_a_held_removal_is_in_force_at_once(void **state)
{
	struct fixture *f = *state;

	configure(f, ONE GUARDED);
	fake_offer("one", "catalog", "a b c");
	fake_offer("one", "catalog", "d e f");
	assert_string_equal(listed(f), "a b c d e f");
	wind(f, 10 * S);
	fake_offer("one", "catalog", "d e f*7");
	assert_int_equal(feed(f, 0)->held_removed, 3);
	assert_int_equal(context_snapshot(catalog(f))->weights[5], 7000);
	wind(f, 20 * S);
	assert_string_equal(listed(f), "d e f");
}

static void a_suspect_answer_that_shrank_is_held_back(void **state)
{
	struct fixture *f = *state;

	configure(f, ONE GUARDED);
	fake_offer("one", "catalog", "a b c d");
	fake_suspect("one", "catalog", "a b c");
	assert_string_equal(listed(f), "a b c d");
	fake_suspect("one", "catalog", "a b c d e");
	assert_string_equal(listed(f), "a b c d e");
	assert_null(feed(f, 0)->held);
}

static void a_removal_that_a_drain_works_for_is_no_surprise(void **state)
{
	struct fixture *f = *state;
	struct override out = {
		.id = "a", .admin_state = USHER_ADMIN_DRAINING, .withdrawn = true, .weight_share = 1
	};

	configure(f, ONE GUARDED);
	fake_offer("one", "catalog", "a");
	assert_ok(directory_set_override(f->d, "catalog", &out, NULL));
	fake_offer("one", "catalog", "");
	assert_null(feed(f, 0)->held);
	assert_int_equal(context_snapshot(catalog(f))->count, 0);
}

static void a_guard_of_100_percent_lets_everything_through(void **state)
{
	struct fixture *f = *state;

	configure(f, ONE "services: {catalog: {removal_guard: {share: 100%, hold: 30s}}}\n");
	fake_offer("one", "catalog", "a b c d");
	fake_offer("one", "catalog", "");
	assert_string_equal(listed(f), "");
}

/* Eight of ten leave within one hold, one by one: the final set is exact. */
static void a_fast_scale_down_ends_with_the_exact_set(void **state)
{
	struct fixture *f = *state;

	configure(f, ONE GUARDED);
	fake_offer("one", "catalog", "a b c d e f g h i j");
	fake_offer("one", "catalog", "a b c");
	fake_offer("one", "catalog", "a c");
	wind(f, 30 * S);
	assert_string_equal(listed(f), "a c");
}

/* ---- the log ---- */

/* What is logged from now on; to be ended with log_end(). */
static int log_begin(int *ret_stderr)
{
	int fd = memfd_create("log", MFD_CLOEXEC);

	assert_true(fd >= 0);
	*ret_stderr = dup(STDERR_FILENO);
	assert_true(dup2(fd, STDERR_FILENO) >= 0);
	log_set_priority(LOG_INFO);
	return fd;
}

static const char *log_end(int fd, int stderr_before)
{
	static char text[65536];
	ssize_t size = pread(fd, text, sizeof(text) - 1, 0);

	assert_true(dup2(stderr_before, STDERR_FILENO) >= 0);
	(void) close(stderr_before);
	(void) close(fd);
	log_set_priority(LOG_EMERG);
	assert_true(size >= 0);
	text[size] = '\0';
	return text;
}

static unsigned lines_in(const char *text)
{
	unsigned lines = 0;

	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

static void assert_logged(const char *log, const char *text)
{
	if (!strstr(log, text))
		fail_msg("\"%s\" is not in \"%s\"", text, log);
}

static void a_failure_is_one_line_when_it_begins_and_one_when_it_ends(void **state)
{
	struct fixture *f = *state;
	int before, fd;
	const char *log;

	configure(f, ONE "services: {catalog: {freshness: {max_age: 1h}}}\n");
	fake_offer("one", "catalog", "a b c");
	wind(f, 41 * S);
	fd = log_begin(&before);
	for (int i = 0; i < 5; i++) {
		fake_fail("one", "catalog", -EACCES, "403 permission denied");
		wind(f, 1 * S);
	}
	fake_confirm("one", "catalog");
	wind(f, 1 * S);
	log = log_end(fd, before);
	assert_int_equal(lines_in(log), 2);
	assert_logged(log,
			"Cannot read the endpoints of catalog from one: 403 permission denied; keeping "
			"the 3 it has, 41 s old");
	assert_logged(log, "Can read the endpoints of catalog from one again, after 5 s");
}

static void a_source_that_fails_for_many_services_is_one_line(void **state)
{
	struct fixture *f = *state;
	int before, fd;
	const char *log;

	configure(f, ONE "services: {a: {}, b: {}, c: {}, d: {}}\n");
	fd = log_begin(&before);
	fake_fail("one", "a", -ETIMEDOUT, "timed out");
	fake_fail("one", "b", -ETIMEDOUT, "timed out");
	fake_fail("one", "c", -ETIMEDOUT, "timed out");
	wind(f, 1 * S);
	log = log_end(fd, before);
	assert_int_equal(lines_in(log), 1);
	assert_logged(log,
			"Cannot read the endpoints of 3 services (a and others) from one: timed out; "
			"keeping those they have");
}

static void a_held_removal_is_said_when_it_begins_and_when_it_ends(void **state)
{
	struct fixture *f = *state;
	int before, fd;
	const char *log;

	configure(f, ONE GUARDED);
	fake_offer("one", "catalog", "a b c d");
	fd = log_begin(&before);
	fake_offer("one", "catalog", "a");
	fake_offer("one", "catalog", "b");
	wind(f, 30 * S);
	wind(f, 1 * S);
	log = log_end(fd, before);
	assert_int_equal(lines_in(log), 2);
	assert_logged(log,
			"one suddenly lacks 3 of the 4 endpoints of catalog; keeping them for 30s, "
			"unless they return (removal_guard)");
	assert_logged(log,
			"one still lacks 3 of the 4 endpoints of catalog after 30 s; removing them");
}

static void a_stale_answer_is_said_with_what_is_done_about_it(void **state)
{
	struct fixture *f = *state;
	int before, fd;
	const char *log;

	configure(f, ONE "services: {catalog: {freshness: {max_age: 30s, on_stale: fail}}}\n");
	fake_offer("one", "catalog", "a");
	fd = log_begin(&before);
	wind(f, 31 * S);
	wind(f, 31 * S);
	fake_confirm("one", "catalog");
	wind(f, 1 * S);
	log = log_end(fd, before);
	assert_int_equal(lines_in(log), 2);
	assert_logged(log,
			"The endpoints of catalog from one are 31 s old, and max_age is 30s; refusing "
			"picks (on_stale: fail)");
	assert_logged(log, "The endpoints of catalog from one are current again, 0 s old");
}

static void a_weight_that_is_none_is_said_once_and_counted(void **state)
{
	struct fixture *f = *state;
	int before, fd;
	const char *log;

	configure(f, ONE "services: {catalog: {}}\n");
	fd = log_begin(&before);
	fake_offer("one", "catalog", "a*30% b*1e9 c*NaN d*0x10 e*20");
	fake_offer("one", "catalog", "a*30% b*1e9 c*NaN d*0x10 e*21");
	log = log_end(fd, before);
	assert_int_equal(lines_in(log), 4);
	assert_logged(log,
			"The weight of endpoint a of catalog is no whole number in 0..100000; counting "
			"it as 1");
	assert_int_equal(context_snapshot(catalog(f))->weight_invalid_count, 4);
	assert_int_equal(context_snapshot(catalog(f))->weights[0], 1000);
	assert_int_equal(context_snapshot(catalog(f))->weights[4], 21000);
}

static void another_incarnation_of_a_drained_endpoint_is_said(void **state)
{
	struct fixture *f = *state;
	struct override o = { .id = "a", .uid = "u1", .withdrawn = true, .weight_share = 1 };
	int before, fd;
	const char *log;

	configure(f, ONE "services: {catalog: {}}\n");
	fake_offer("one", "catalog", "a#u1 b#u1");
	assert_ok(directory_set_override(f->d, "catalog", &o, NULL));
	fd = log_begin(&before);
	fake_offer("one", "catalog", "a#u2 b#u2");
	log = log_end(fd, before);
	assert_int_equal(lines_in(log), 1);
	assert_logged(log,
			"Endpoint a of catalog is another instance now (uid u2, was u1); what was decided "
			"about the one before does not bind it");
}

/* ---- the disk ---- */

static void restore(
		struct fixture *f, const char *service, const char *endpoints, uint64_t age_usec)
{
	struct stored_feed stored = { .service = service,
		.source = "one",
		.endpoints = set_of(endpoints),
		.observed_wall_usec = fake_wall_usec - age_usec };

	directory_restore_feed(f->d, &stored);
	(void) usher_endpoints_unref(stored.endpoints);
}

static void the_last_known_directory_answers_until_the_source_does(void **state)
{
	struct fixture *f = *state;

	restore(f, "catalog", "a b c", 20 * S);
	configure(f, ONE "services: {catalog: {freshness: {max_age: 30s}}}\n");
	assert_string_equal(listed(f), "a b c");
	assert_int_equal(age_of(f), 20 * S);
	assert_int_equal(state_of(f), SOURCE_UNKNOWN);
	assert_true(feed(f, 0)->restored);
	assert_false(context_has_answer(catalog(f)));
	assert_pick(f, PICK_OK, NULL);
	wind(f, 11 * S);
	assert_int_equal(state_of(f), SOURCE_STALE);
	/* its first word counts against what was restored, too */
	fake_offer("one", "catalog", "a");
	assert_string_equal(listed(f), "a b c");
	assert_int_equal(feed(f, 0)->held_removed, 2);
	fake_offer("one", "catalog", "a b");
	assert_string_equal(listed(f), "a b");
	assert_false(feed(f, 0)->restored);
	assert_true(context_has_answer(catalog(f)));
}

static void a_restored_answer_from_the_future_is_of_unknown_age(void **state)
{
	struct fixture *f = *state;

	restore(f, "catalog", "a", 0 - 3600 * S);
	configure(f, ONE "services: {catalog: {freshness: {on_stale: fail}}}\n");
	assert_int_equal(age_of(f), USEC_FOREVER);
	assert_int_equal(state_of(f), SOURCE_STALE);
	assert_pick(f, PICK_STALE, NULL);
	wind(f, 100 * S);
	assert_int_equal(age_of(f), USEC_FOREVER);
	fake_confirm("one", "catalog");
	assert_int_equal(age_of(f), 0);
}

static void the_disk_hears_of_changes_and_now_and_then_of_proofs(void **state)
{
	struct fixture *f = *state;

	directory_set_store(f->d, &fake_store);
	configure(f, ONE "services: {catalog: {}}\n");
	fake_offer("one", "catalog", "a b");
	assert_string_equal(fake_store_told(), "put catalog/one a b @-0; ");
	wind(f, 4 * S);
	fake_confirm("one", "catalog");
	wind(f, 4 * S);
	fake_fail("one", "catalog", -EIO, "no");
	assert_string_equal(fake_store_told(), "");
	wind(f, 4 * S);
	fake_confirm("one", "catalog");
	assert_string_equal(fake_store_told(), "touch catalog/one @-0; ");
	fake_offer("one", "catalog", "a b c");
	assert_string_equal(fake_store_told(), "put catalog/one a b c @-0; ");
	(void) pick(f);
	wind(f, 2 * S);
	directory_save(f->d);
	assert_string_equal(fake_store_told(), "touch catalog/one @-2; cursor catalog; ");
	assert_true(directory_revision(f->d) >= 1000);
	configure(f, ONE "services: {search: {}}\n");
	assert_string_equal(fake_store_told(), "remove catalog/one; ");
}

static void picks_go_on_where_they_were_before_the_restart(void **state)
{
	struct fixture *f = *state;
	struct pick first, second;

	directory_restore_cursor(f->d, "catalog", 7);
	configure(f, ONE "services: {catalog: {}}\n");
	fake_offer("one", "catalog", "a b c d e");
	first = pick(f);
	second = pick(f);
	assert_string_equal(picked_id(&first), "c");
	assert_string_equal(picked_id(&second), "d");
}

/* ---- overrides ---- */

static void an_endpoint_drains_is_withdrawn_and_comes_back(void **state)
{
	struct fixture *f = *state;
	struct override o = { .id = "a", .admin_state = USHER_ADMIN_DRAINING, .weight_share = 1 };
	uint64_t revision, before;

	configure(f, ONE "services: {catalog: {}}\n");
	assert_ok(directory_set_override(f->d, "catalog", &o, &revision));
	assert_int_equal(revision, 0);
	fake_offer("one", "catalog", "a b");
	assert_string_equal(listed(f), "a- b");
	before = context_snapshot(catalog(f))->revision;
	for (int i = 0; i < 20; i++) {
		struct pick p = pick(f);

		assert_string_equal(picked_id(&p), "b");
	}

	assert_ok(directory_set_override(f->d, "catalog", &o, &revision));
	assert_int_equal(revision, before);
	o.withdrawn = true;
	assert_ok(directory_set_override(f->d, "catalog", &o, &revision));
	assert_true(revision > before);
	assert_string_equal(listed(f), "b");
	assert_true(directory_find_override(f->d, "catalog", "a")->withdrawn);

	assert_ok(directory_clear_override(f->d, "catalog", "a", &revision));
	assert_string_equal(listed(f), "a b");
	assert_null(directory_find_override(f->d, "catalog", "a"));
	assert_errno(directory_set_override(f->d, "nobody", &o, &revision), ENOENT);
}

static void the_state_further_out_rules(void **state)
{
	struct fixture *f = *state;
	struct override o = { .id = "a", .admin_state = USHER_ADMIN_DRAINING, .weight_share = 1 };

	configure(f, ONE "services: {catalog: {}}\n");
	fake_offer("one", "catalog", "a= b- c");
	assert_string_equal(listed(f), "b- c");
	assert_ok(directory_set_override(f->d, "catalog", &o, NULL));
	assert_string_equal(listed(f), "b- c");
	o.id = "b";
	o.admin_state = USHER_ADMIN_MAINTENANCE;
	assert_ok(directory_set_override(f->d, "catalog", &o, NULL));
	assert_string_equal(listed(f), "c");
}

static void another_incarnation_is_not_bound_by_what_was_decided_about_the_one_before(void **state)
{
	struct fixture *f = *state;
	struct override o = { .id = "a",
		.uid = "u1",
		.admin_state = USHER_ADMIN_DRAINING,
		.withdrawn = true,
		.weight_share = 1 };

	configure(f, ONE "services: {catalog: {}}\n");
	fake_offer("one", "catalog", "a#u1 b");
	assert_ok(directory_set_override(f->d, "catalog", &o, NULL));
	assert_string_equal(listed(f), "b");
	fake_offer("one", "catalog", "a#u2 b");
	assert_string_equal(listed(f), "a b");
	fake_offer("one", "catalog", "a#u1 b");
	assert_string_equal(listed(f), "b");
}

static void a_ramp_scales_the_weight_in_thousandths(void **state)
{
	static const struct {
		double share;
		uint32_t a, b, ramp;
	} rows[] = {
		{ 1, 200000, 1000, 1000 },
		{ 0.5, 100000, 500, 500 },
		{ 0.25, 50000, 250, 250 },
		{ 0.001, 200, 1, 1 },
		{ 0.000001, 1, 1, 1 },
		{ 0, 0, 0, 0 },
		{ 7, 200000, 1000, 1000 },
		{ -1, 0, 0, 0 },
	};
	struct fixture *f = *state;

	configure(f, ONE "services: {catalog: {}}\n");
	fake_offer("one", "catalog", "a*200 b*1 c*1 z*0");
	for (size_t i = 0; i < ELEMENTS(rows); i++) {
		struct override a = { .id = "a", .weight_share = rows[i].share };
		struct override b = { .id = "b", .weight_share = rows[i].share };
		const struct snapshot *s;

		assert_ok(directory_set_override(f->d, "catalog", &a, NULL));
		assert_ok(directory_set_override(f->d, "catalog", &b, NULL));
		s = context_snapshot(catalog(f));
		assert_int_equal(s->weights[0], rows[i].a);
		assert_int_equal(s->weights[1], rows[i].b);
		assert_int_equal(s->weights[2], 1000);
		assert_int_equal(s->weights[3], 0);
		assert_int_equal(s->entries[0].weight, 200);
		assert_int_equal(snapshot_entry_ramp(&s->entries[0]), rows[i].ramp);
		assert_int_equal(snapshot_entry_ramp(&s->entries[3]), USHER_WEIGHT_UNIT);
	}
}

static void a_restored_endpoint_of_weight_one_gets_its_part(void **state)
{
	struct override o = { .id = "a", .weight_share = 0.25 };
	struct fixture *f = *state;
	unsigned a = 0;

	configure(f, ONE "services: {catalog: {select: weighted_round_robin}}\n");
	fake_offer("one", "catalog", "a b c");
	assert_ok(directory_set_override(f->d, "catalog", &o, NULL));
	for (unsigned i = 0; i < 900; i++) {
		const struct pick p = pick(f);

		a += strcmp(picked_id(&p), "a") == 0;
	}
	assert_int_equal(a, 100);
}

static void one_that_drains_is_listed_only_where_it_would_be_chosen(void **state)
{
	struct fixture *f = *state;

	configure(f, ONE "services: {catalog: {chain: [{zone: {on_empty: fail}}]}}\n");
	fake_offer("one", "catalog", "a/east- b/west- c/east");
	assert_string_equal(listed(f), "a- c");
}

static const char *source_of(struct fixture *f, const char *id)
{
	const struct context *c = directory_find(f->d, "catalog");
	struct snapshot *snapshot = context_snapshot(c);
	ssize_t i = usher_endpoints_find(snapshot->all, id);

	assert_true(i >= 0);
	return context_source_of(c, snapshot, (size_t) i);
}

static void an_endpoint_is_of_the_source_that_shows_it(void **state)
{
	struct fixture *f = *state;

	configure(f, HEAD "services: {catalog: {merge: union, sources: [one, two]}}\n");
	fake_offer("one", "catalog", "a");
	fake_offer("two", "catalog", "b");
	assert_string_equal(source_of(f, "a"), "one");
	assert_string_equal(source_of(f, "b"), "two");

	/* the snapshot outlives the sources it is of */
	configure(f,
			"node: {name: n, zone: east}\n"
			"sources: [{name: three, plugin: fake}]\n"
			"services: {catalog: {merge: union, sources: [three]}}\n");
	assert_null(source_of(f, "a")); /* 0 was one and is three now */
	assert_null(source_of(f, "b")); /* there is no 1 */
}

/* ---- picks ---- */

static void a_request_cannot_have_what_it_excludes(void **state)
{
	const char *exclude[] = { "a", "b", "nobody" };
	struct usher_request request = { .size = sizeof(request), .exclude = exclude };
	struct fixture *f = *state;
	struct pick p;

	configure(f, ONE "services: {catalog: {}}\n");
	fake_offer("one", "catalog", "a b c");
	request.exclude_count = 3;
	for (int i = 0; i < 20; i++) {
		context_pick(catalog(f), &request, fake_boot_usec, &p);
		assert_string_equal(picked_id(&p), "c");
	}
	exclude[2] = "c";
	context_pick(catalog(f), &request, fake_boot_usec, &p);
	assert_int_equal(p.result, PICK_FILTERED);
	assert_string_equal(p.stage, "exclude");
	assert_pick(f, PICK_OK, NULL);
}

/* Promise P3: what one request asked for never changes what another request sees. */
static void requests_do_not_see_each_other(void **state)
{
	struct usher_request request = { .size = sizeof(request), .sticky = "b" };
	struct fixture *f = *state;
	bool seen[3] = {};
	struct pick p;

	configure(f, ONE "services: {catalog: {chain: [{ready: {}}, {asked: {}}]}}\n");
	fake_offer("one", "catalog", "a b c");
	for (int i = 0; i < 200; i++) {
		context_pick(catalog(f), &request, fake_boot_usec, &p);
		assert_string_equal(picked_id(&p), "b");
		p = pick(f);
		seen[p.endpoint] = true;
	}
	assert_true(seen[0] && seen[1] && seen[2]);
}

static void explain_tells_each_stage_and_why_each_one_left(void **state)
{
	struct usher_request request = { .size = sizeof(request) };
	struct fixture *f = *state;
	struct explanation e;
	char why[160];

	configure(f, ONE "services: {catalog: {chain: [{ready: {}}, {zone: {on_empty: fail}}]}}\n");
	fake_offer("one", "catalog", "a/east b/west c- d! e/east*3");
	assert_ok(context_explain(catalog(f), &request, fake_boot_usec, &e));
	assert_int_equal(e.pick.result, PICK_OK);
	assert_int_equal(e.stage_count, 3);
	assert_string_equal(e.stages[0].name, "admin");
	assert_int_equal(e.stages[0].step.in, 5);
	assert_int_equal(e.stages[0].step.out, 4);
	assert_string_equal(e.stages[0].left[0].reason, "draining");
	assert_string_equal(e.stages[1].name, "ready");
	assert_true(e.stages[1].shared);
	assert_string_equal(e.stages[1].left[0].reason, "not ready");
	assert_string_equal(e.stages[2].left[0].reason, "zone west is not east");
	assert_string_equal(e.selector, "round_robin");
	assert_int_equal(e.candidate_count, 2);
	assert_true(e.share > 0.49 && e.share < 0.51);
	explanation_done(&e);

	context_explain_left_out(catalog(f), 1, why, sizeof(why));
	assert_string_equal(why, "zone west is not east");
	context_explain_left_out(catalog(f), 2, why, sizeof(why));
	assert_string_equal(why, "draining");
	context_explain_left_out(catalog(f), 3, why, sizeof(why));
	assert_string_equal(why, "not ready");
}

static void explaining_is_no_pick(void **state)
{
	struct usher_request request = { .size = sizeof(request) };
	struct fixture *f = *state;
	struct explanation e;
	struct pick p;

	configure(f, ONE "services: {catalog: {}}\n");
	fake_offer("one", "catalog", "a b c");
	for (int i = 0; i < 3; i++) {
		assert_ok(context_explain(catalog(f), &request, fake_boot_usec, &e));
		p = pick(f);
		assert_int_equal(e.pick.endpoint, p.endpoint);
		explanation_done(&e);
	}
}

static void explain_names_the_fact_that_failed(void **state)
{
	const char *exclude[] = { "a" };
	struct usher_request request = { .size = sizeof(request) };
	struct fixture *f = *state;
	struct explanation e;

	configure(f, ONE "services: {catalog: {chain: [{zone: {on_empty: fail}}]}}\n");
	assert_ok(context_explain(catalog(f), &request, fake_boot_usec, &e));
	assert_int_equal(e.pick.result, PICK_SOURCE_UNKNOWN);
	explanation_done(&e);
	fake_offer("one", "catalog", "a/west");
	assert_ok(context_explain(catalog(f), &request, fake_boot_usec, &e));
	assert_int_equal(e.pick.result, PICK_FILTERED);
	assert_string_equal(e.pick.stage, "zone");
	assert_true(e.stages[1].step.emptied);
	explanation_done(&e);
	fake_offer("one", "catalog", "a/east");
	request.exclude = exclude;
	request.exclude_count = 1;
	assert_ok(context_explain(catalog(f), &request, fake_boot_usec, &e));
	assert_string_equal(e.pick.stage, "exclude");
	assert_string_equal(e.stages[2].left[0].reason, "excluded by the request");
	explanation_done(&e);
}

/* ---- lazy contexts ---- */

#define LAZY                                     \
	"node: {name: n, zone: east}\n"          \
	"sources: [{name: one, plugin: fake}]\n" \
	"defaults: {sources: [one], lazy: {allow: true, limit: 2}, chain: [ready: {}]}\n"

static void a_lazy_context_is_made_on_first_use_and_goes_when_idle(void **state)
{
	struct fixture *f = *state;
	struct usher_error err = {};
	struct context *c, *again;

	directory_set_store(f->d, &fake_store);
	configure(f, LAZY "services: {search: {}}\n");
	assert_null(directory_find(f->d, "catalog"));
	assert_ok(directory_get(f->d, "catalog", &c, &err));
	assert_false(context_is_eager(c));
	assert_int_equal(directory_count(f->d), 2);
	assert_ptr_equal(directory_at(f->d, 0), c);
	directory_end_turn(f->d);
	assert_string_equal(fake_source("one")->wanted, "catalog=catalog search=search");
	assert_ok(directory_get(f->d, "catalog", &again, &err));
	assert_ptr_equal(again, c);

	/* nobody knows it, so the disk does not hear of it */
	fake_offer("one", "catalog", "");
	(void) fake_store_told();
	fake_offer("one", "catalog", "a");
	assert_string_equal(fake_store_told(), "put catalog/one a @-0; ");

	context_hold(c);
	wind(f, 2 * DIRECTORY_IDLE_USEC);
	assert_int_equal(directory_count(f->d), 2);
	context_release(c);
	wind(f, DIRECTORY_IDLE_USEC - 1);
	assert_int_equal(f->seen.removed, 0);
	wind(f, 1);
	assert_int_equal(f->seen.removed, 1);
	assert_int_equal(directory_count(f->d), 1);
	assert_string_equal(fake_source("one")->wanted, "search=search");
	assert_string_equal(fake_store_told(), "remove catalog/one; ");
}

static void an_empty_lazy_context_is_not_written_to_disk(void **state)
{
	struct fixture *f = *state;
	struct context *c;

	directory_set_store(f->d, &fake_store);
	configure(f, LAZY);
	assert_ok(directory_get(f->d, "catalog", &c, NULL));
	fake_offer("one", "catalog", "");
	fake_confirm("one", "catalog");
	(void) pick(f);
	directory_save(f->d);
	assert_string_equal(fake_store_told(), "");
}

static void lazy_contexts_have_their_limits(void **state)
{
	struct fixture *f = *state;
	struct usher_error err = {};
	struct context *c;

	configure(f, LAZY);
	assert_ok(directory_get(f->d, "a", &c, &err));
	assert_ok(directory_get(f->d, "b", &c, &err));
	assert_errno(directory_get(f->d, "c", &c, &err), E2BIG);
	assert_errno(directory_get(f->d, "no/name", &c, &err), EINVAL);
	configure(f, ONE);
	assert_int_equal(directory_count(f->d), 0);
	assert_int_equal(f->seen.removed, 2);
	assert_errno(directory_get(f->d, "c", &c, &err), ENOENT);
	assert_non_null(strstr(err.text, "lazy"));
}

static void a_lazy_context_takes_over_what_the_disk_remembers(void **state)
{
	struct fixture *f = *state;
	struct context *c;

	directory_set_store(f->d, &fake_store);
	restore(f, "catalog", "a b", 5 * S);
	restore(f, "other", "x", 5 * S);
	configure(f, LAZY);
	assert_int_equal(directory_count(f->d), 0);
	wind(f, 3 * S);
	assert_ok(directory_get(f->d, "catalog", &c, NULL));
	assert_string_equal(listed(f), "a b");
	assert_int_equal(age_of(f), 8 * S);
	context_hold(c);
	/* and what nobody asks for is forgotten in the end */
	wind(f, DIRECTORY_IDLE_USEC);
	assert_string_equal(fake_store_told(), "remove other/one; ");
}

/* ---- reload ---- */

static void a_reload_keeps_what_did_not_change(void **state)
{
	struct fixture *f = *state;
	struct override o = { .id = "a", .admin_state = USHER_ADMIN_DRAINING, .weight_share = 1 };
	struct source *one;
	uint64_t revision;
	unsigned published;

	configure(f, HEAD "services: {catalog: {}, search: {}}\n");
	one = fake_source("one");
	fake_offer("one", "catalog", "a b");
	assert_ok(directory_set_override(f->d, "catalog", &o, NULL));
	revision = context_snapshot(catalog(f))->revision;
	published = f->seen.published;
	wind(f, 3 * S);

	configure(f, HEAD "services: {catalog: {freshness: {max_age: 2s}}, another: {}}\n");
	assert_ptr_equal(fake_source("one"), one);
	assert_int_equal(fake_starts, 2);
	assert_string_equal(listed(f), "a- b");
	assert_int_equal(context_snapshot(catalog(f))->revision, revision);
	assert_int_equal(f->seen.published, published);
	assert_int_equal(f->seen.removed, 1);
	assert_null(directory_find(f->d, "search"));
	assert_string_equal(fake_source("one")->wanted, "another=another catalog=catalog");
	assert_int_equal(age_of(f), 3 * S);
	assert_int_equal(state_of(f), SOURCE_STALE);
	assert_non_null(directory_find_override(f->d, "catalog", "a"));
	fake_offer("one", "catalog", "a b c");
	assert_string_equal(listed(f), "a- b c");
}

static void a_reload_keeps_the_cursor(void **state)
{
	struct fixture *f = *state;
	struct pick p;

	directory_restore_cursor(f->d, "catalog", 0);
	configure(f, ONE "services: {catalog: {}}\n");
	fake_offer("one", "catalog", "a b c");
	p = pick(f);
	assert_string_equal(picked_id(&p), "a");
	configure(f, ONE "services: {catalog: {chain: [{ready: {}}]}}\n");
	p = pick(f);
	assert_string_equal(picked_id(&p), "b");
}

static void a_changed_source_is_replaced_and_its_last_word_stays(void **state)
{
	struct fixture *f = *state;
	struct source *before;

	configure(f,
			"sources: [{name: one, plugin: fake, options: {path: a}}]\n"
			"services: {catalog: {sources: [one]}}\n");
	before = fake_source("one");
	fake_offer("one", "catalog", "a b");
	configure(f,
			"sources: [{name: one, plugin: fake, options: {path: b}}]\n"
			"services: {catalog: {sources: [one]}}\n");
	assert_true(before->asked_to_stop);
	assert_ptr_not_equal(fake_source("one"), before);
	assert_string_equal(fake_source("one")->wanted, "catalog=catalog");
	assert_string_equal(listed(f), "a b");
	/* the old one is not heard any more, and is not waited for */
	before->events->failed(before->userdata, before, "catalog", -EIO, "stopping");
	assert_int_equal(state_of(f), SOURCE_LIVE);
	assert_int_equal(fake_stops, 0);
	wind(f, SOURCE_STOP_USEC);
	assert_int_equal(fake_stops, 1);
	fake_offer("one", "catalog", "a b c");
	assert_string_equal(listed(f), "a b c");
}

static void a_changed_chain_is_in_force_at_once(void **state)
{
	struct fixture *f = *state;

	configure(f, ONE "services: {catalog: {}}\n");
	fake_offer("one", "catalog", "a/east b/west");
	assert_string_equal(listed(f), "a b");
	configure(f, ONE "services: {catalog: {chain: [{zone: {}}]}}\n");
	assert_string_equal(listed(f), "a");
	assert_int_equal(f->seen.published, 2);
	/* another zone of the node is another chain */
	configure(f,
			"node: {name: n, zone: west}\n"
			"sources: [{name: one, plugin: fake}]\n"
			"defaults: {sources: [one], lazy: {allow: false}}\n"
			"services: {catalog: {chain: [{zone: {}}]}}\n");
	assert_string_equal(listed(f), "b");
}

/* Promise P8: a bad configuration never replaces a good one. */
static void what_cannot_be_built_is_refused_before_anything_changes(void **state)
{
	static const char *const bad[] = {
		ONE "services: {catalog: {chain: [{nobody: {}}]}}\n",
		ONE "services: {catalog: {chain: [{zone: {}}, {zone: {}}]}}\n",
		ONE "services: {catalog: {chain: [{zone: {prefered: east}}]}}\n",
		ONE "services: {catalog: {chain: [{label: {match: 'a b'}}]}}\n",
		ONE "services: {catalog: {select: ready}}\n",
		"sources: [{name: one, plugin: nobody}]\n",
	};
	struct fixture *f = *state;

	configure(f, ONE "services: {catalog: {}}\n");
	fake_offer("one", "catalog", "a");
	for (size_t i = 0; i < ELEMENTS(bad); i++) {
		struct directory_plan *plan = NULL;
		struct usher_error err = {};
		struct config *config = NULL;
		char path[] = "/tmp/usher-test-XXXXXX.yaml";
		int fd = mkstemps(path, 5), r;

		assert_int_equal(write(fd, bad[i], strlen(bad[i])), strlen(bad[i]));
		(void) close(fd);
		r = config_load(path, &config, &err);
		(void) unlink(path);
		if (r >= 0)
			r = directory_prepare(f->d, config, &plan, &err);
		(void) config_unref(config);
		assert_true(r < 0);
		assert_null(plan);
		print_message("%s\n", err.text);
		assert_true(err.text[0]);
	}
	assert_string_equal(listed(f), "a");
	assert_int_equal(fake_starts, 1);
	assert_pick(f, PICK_OK, NULL);
}

static void a_plan_may_be_dropped(void **state)
{
	struct fixture *f = *state;
	struct config *config = config_of(LAZY "services: {catalog: {}}\n");
	struct directory_plan *plan = NULL;

	assert_ok(directory_prepare(f->d, config, &plan, NULL));
	(void) config_unref(config);
	(void) directory_plan_free(plan);
	assert_int_equal(directory_count(f->d), 0);
}

static void a_lazy_context_goes_on_when_it_is_declared(void **state)
{
	struct fixture *f = *state;
	struct context *c;

	configure(f, LAZY);
	assert_ok(directory_get(f->d, "catalog", &c, NULL));
	fake_offer("one", "catalog", "a");
	configure(f, LAZY "services: {catalog: {}}\n");
	assert_ptr_equal(catalog(f), c);
	assert_true(context_is_eager(c));
	assert_string_equal(listed(f), "a");
	assert_int_equal(f->seen.removed, 0);
	wind(f, 2 * DIRECTORY_IDLE_USEC);
	assert_int_equal(directory_count(f->d), 1);
	/* and a lazy one under new defaults */
	assert_ok(directory_get(f->d, "search", &c, NULL));
	fake_offer("one", "search", "x! y");
	configure(f, ONE "services: {catalog: {}}\n");
	assert_null(directory_find(f->d, "search"));
}

static void a_source_that_cannot_start_is_tried_again(void **state)
{
	struct fixture *f = *state;

	fake_start_result = -EAGAIN;
	configure(f, ONE "services: {catalog: {}}\n");
	assert_int_equal(directory_source_count(f->d), 0);
	assert_pick(f, PICK_SOURCE_UNKNOWN, NULL);
	fake_start_result = 0;
	wind(f, 1 * S);
	assert_int_equal(directory_source_count(f->d), 1);
	assert_string_equal(fake_source("one")->wanted, "catalog=catalog");
	fake_offer("one", "catalog", "a");
	assert_string_equal(listed(f), "a");
}

/* ---- memory ---- */

struct attempt {
	struct fixture *f;
	struct config *config;
};

static int prepare_and_drop(void *userdata)
{
	struct attempt *a = userdata;
	struct directory_plan *plan = NULL;
	struct usher_error err = {};
	int r = directory_prepare(a->f->d, a->config, &plan, &err);

	if (r >= 0)
		(void) directory_plan_free(plan);
	return r;
}

static void a_plan_survives_the_lack_of_memory(void **state)
{
	struct attempt a = {
		*state,
		config_of(LAZY "services: {catalog: {chain: [{zone: {prefer: west}}]}, search: {}}\n")
	};

	configure(a.f, ONE "services: {catalog: {}}\n");
	/* what the dynamic loader allocates on its first turn is not ours */
	assert_ok(prepare_and_drop(&a));
	assert_survives_oom(prepare_and_drop, &a);
	assert_int_equal(directory_count(a.f->d), 1);
	(void) config_unref(a.config);
}

static int withdraw(void *userdata)
{
	struct override o = { .id = "a", .withdrawn = true, .weight_share = 1 };
	struct fixture *f = userdata;
	int r = directory_set_override(f->d, "catalog", &o, NULL);

	assert_string_equal(listed(f), r < 0 ? "a b" : "b");
	assert_int_equal(directory_find_override(f->d, "catalog", "a") != NULL, r >= 0);
	return r;
}

static int bring_back(void *userdata)
{
	struct fixture *f = userdata;
	int r = directory_clear_override(f->d, "catalog", "a", NULL);

	assert_string_equal(listed(f), r < 0 ? "b" : "a b");
	assert_int_equal(directory_find_override(f->d, "catalog", "a") != NULL, r < 0);
	return r;
}

static void an_override_that_memory_is_too_short_for_changes_nothing(void **state)
{
	struct fixture *f = *state;

	configure(f, ONE "services: {catalog: {}}\n");
	fake_offer("one", "catalog", "a b");
	assert_survives_oom(withdraw, f);
	assert_survives_oom(bring_back, f);
}

/* ---- size ---- */

static char *many_services(size_t count)
{
	struct text text = {};

	text_add_string(&text, ONE "services:\n");
	for (size_t i = 0; i < count; i++)
		text_add_format(&text, "  s%05zu: {}\n", i);
	return text_take(&text);
}

static void ten_thousand_services_are_applied_in_linear_time(void **state)
{
	struct fixture *f = *state;
	char *yaml = many_services(10000);
	struct config *config = config_of(yaml);
	struct timespec before, after;
	double seconds;

	free(yaml);
	for (int round = 0; round < 2; round++) {
		struct directory_plan *plan = NULL;

		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
		assert_ok(directory_prepare(f->d, config, &plan, NULL));
		directory_apply(f->d, plan);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
		seconds = (double) (after.tv_sec - before.tv_sec) +
				(double) (after.tv_nsec - before.tv_nsec) / 1e9;
		print_message("round %d: %.3f s\n", round, seconds);
		assert_true(seconds < 5);
	}
	(void) config_unref(config);
	assert_int_equal(directory_count(f->d), 10000);
	assert_int_equal(fake_source("one")->wanted_count, 10000);
	for (size_t i = 0; i < 10000; i++) {
		char name[16];

		(void) snprintf(name, sizeof(name), "s%05zu", i);
		fake_offer("one", name, "a b c");
	}
	assert_int_equal(f->seen.published, 10000);
	wind(f, 3600 * S);
	while (f->d->heap_count > 0)
		wind(f, 1 * S);
	assert_int_equal(f->seen.published, 10000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_fact_of_an_answer_has_a_word_of_its_own),
		TEST(an_empty_answer_is_believed_when_everybody_has_answered),
		TEST(the_first_source_that_is_not_empty_is_taken),
		TEST(a_part_of_the_sources_passes_for_the_whole_only_when_time_is_used_up),
		TEST(a_union_joins_and_counts_conflicts),
		TEST(who_answers_first_leads_a_race_for_as_long_as_it_is_live),
		TEST(a_race_is_empty_only_when_all_are),
		TEST(a_race_goes_on_with_its_leader_after_a_reload),
		TEST(which_source_decided_a_field_is_known),
		TEST(a_failing_source_keeps_what_it_said),
		TEST(an_answer_ages_and_everybody_hears_when_it_is_stale),
		TEST(the_same_answer_again_is_no_new_revision),
		TEST(what_is_empty_without_everybodys_word_is_not_called_so),
		TEST(what_a_stage_hides_changes_without_a_revision),
		TEST(a_sudden_removal_is_held_back_and_then_delivered),
		TEST(an_explicit_empty_list_is_held_back_and_then_delivered),
		TEST(a_hold_ends_when_the_endpoints_return),
		TEST(a_source_that_fails_does_not_confirm_a_removal),
		TEST(what_comes_with_a_held_removal_is_in_force_at_once),
		TEST(a_suspect_answer_that_shrank_is_held_back),
		TEST(a_removal_that_a_drain_works_for_is_no_surprise),
		TEST(a_guard_of_100_percent_lets_everything_through),
		TEST(a_fast_scale_down_ends_with_the_exact_set),
		TEST(a_failure_is_one_line_when_it_begins_and_one_when_it_ends),
		TEST(a_source_that_fails_for_many_services_is_one_line),
		TEST(a_held_removal_is_said_when_it_begins_and_when_it_ends),
		TEST(a_stale_answer_is_said_with_what_is_done_about_it),
		TEST(a_weight_that_is_none_is_said_once_and_counted),
		TEST(another_incarnation_of_a_drained_endpoint_is_said),
		TEST(the_last_known_directory_answers_until_the_source_does),
		TEST(a_restored_answer_from_the_future_is_of_unknown_age),
		TEST(the_disk_hears_of_changes_and_now_and_then_of_proofs),
		TEST(picks_go_on_where_they_were_before_the_restart),
		TEST(an_endpoint_drains_is_withdrawn_and_comes_back),
		TEST(the_state_further_out_rules),
		TEST(another_incarnation_is_not_bound_by_what_was_decided_about_the_one_before),
		TEST(a_ramp_scales_the_weight_in_thousandths),
		TEST(a_restored_endpoint_of_weight_one_gets_its_part),
		TEST(one_that_drains_is_listed_only_where_it_would_be_chosen),
		TEST(an_endpoint_is_of_the_source_that_shows_it),
		TEST(a_request_cannot_have_what_it_excludes),
		TEST(requests_do_not_see_each_other),
		TEST(explain_tells_each_stage_and_why_each_one_left),
		TEST(explaining_is_no_pick),
		TEST(explain_names_the_fact_that_failed),
		TEST(a_lazy_context_is_made_on_first_use_and_goes_when_idle),
		TEST(an_empty_lazy_context_is_not_written_to_disk),
		TEST(lazy_contexts_have_their_limits),
		TEST(a_lazy_context_takes_over_what_the_disk_remembers),
		TEST(a_reload_keeps_what_did_not_change),
		TEST(a_reload_keeps_the_cursor),
		TEST(a_changed_source_is_replaced_and_its_last_word_stays),
		TEST(a_changed_chain_is_in_force_at_once),
		TEST(what_cannot_be_built_is_refused_before_anything_changes),
		TEST(a_plan_may_be_dropped),
		TEST(a_lazy_context_goes_on_when_it_is_declared),
		TEST(a_source_that_cannot_start_is_tried_again),
		TEST(a_plan_survives_the_lack_of_memory),
		TEST(an_override_that_memory_is_too_short_for_changes_nothing),
		TEST(ten_thousand_services_are_applied_in_linear_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
