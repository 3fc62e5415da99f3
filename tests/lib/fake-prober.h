#pragma once

/* A prober that asks nobody: a test says what came of each probe. Defines every function of
 * prober.h, so include it in one file of a test only. */

#include "ownership.h"
#include "prober.h"
#include "test.h"

struct probe {
	struct target *target;
	struct probe_timing timing;
	void *userdata;
	struct probe_stats stats;
	struct probe *next;
};

struct prober {
	struct prober_config config;
	prober_on_results on_results;
	void *userdata;
	struct probe *first;
	size_t count, added;
	int add_error; /* what prober_add fails with; 0: it does not */
};

static struct prober *fake_prober; /* the one that there is */

int prober_new(struct inbox *inbox, const struct prober_config *config,
		prober_on_results on_results, void *userdata, struct prober **ret)
{
	struct prober *p = calloc(1, sizeof(*p));

	(void) inbox;
	if (!p)
		return -ENOMEM;
	p->config = *config;
	p->on_results = on_results;
	p->userdata = userdata;
	*ret = fake_prober = p;
	return 0;
}

struct prober *prober_free(struct prober *p)
{
	if (p)
		assert_null(p->first);
	free(p);
	fake_prober = NULL;
	return NULL;
}

void prober_configure(struct prober *p, const struct prober_config *config)
{
	p->config = *config;
}

int prober_add(struct prober *p, struct target *target, const struct probe_timing *timing,
		void *userdata, struct probe **ret)
{
	struct probe *probe;

	if (p->add_error)
		return p->add_error;
	probe = calloc(1, sizeof(*probe));
	if (!probe)
		return -ENOMEM;
	probe->target = target;
	probe->timing = *timing;
	probe->userdata = userdata;
	probe->next = p->first;
	p->first = probe;
	p->count++;
	p->added++;
	*ret = probe;
	return 0;
}

void prober_remove(struct prober *p, struct probe *probe)
{
	struct probe **link = &p->first;

	while (*link != probe)
		link = &(*link)->next;
	*link = probe->next;
	p->count--;
	(void) target_free(probe->target);
	free(probe);
}

void prober_set_interval(struct prober *p, struct probe *probe, uint64_t interval_usec)
{
	(void) p;
	probe->timing.interval_usec = interval_usec;
}

void prober_stats(struct prober *p, struct prober_stats *ret)
{
	*ret = (struct prober_stats){ .count = p->count, .stretch = 1 };
}

void probe_stats(const struct probe *probe, struct probe_stats *ret)
{
	*ret = probe->stats;
}

/* ---- what a test says ---- */

/* The probe of an endpoint, or NULL. */
static struct probe *fake_probe_of(const char *id)
{
	struct probe *probe = fake_prober->first;

	while (probe && strcmp(probe->target->id, id) != 0)
		probe = probe->next;
	return probe;
}

/* One result for each of the ids, "a b c", in one batch. */
__attribute__((unused)) static void fake_results(const char *ids, enum probe_reason reason)
{
	struct probe_result results[64];
	char copy[1024], *word, *rest = NULL;
	size_t count = 0;

	(void) snprintf(copy, sizeof(copy), "%s", ids);
	for (word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		struct probe *probe = fake_probe_of(word);

		if (!probe)
			fail_msg("%s is not asked", word);
		assert_true(count < ELEMENTS(results));
		probe->stats.probes++;
		probe->stats.connections++;
		probe->stats.bytes_sent += 100;
		probe->stats.bytes_received += 200;
		results[count] = (struct probe_result){ .probe = probe,
			.userdata = probe->userdata,
			.took_usec = 1000,
			.connections = 1,
			.bytes = 300 };
		verdict_set(&results[count++].verdict, reason, reason == PROBE_STATUS ? 503 : 0,
				"%s",
				reason == PROBE_STATUS ? "HTTP 503, expected 200" : "HTTP 200");
	}
	fake_prober->on_results(fake_prober->userdata, results, count);
}
