#pragma once

/* A service's stages and its selector, made ready to run: pure functions over a view.
 *
 * The longest prefix of stages that do not look at a request is the shared part: it runs once, at
 * publication. The rest runs for each pick.
 *
 * What the order of stages must not be is refused here (chain-order.c). What a stage answers is not
 * trusted: what it keeps must be some of what it got, in the same order; else the stage fails,
 * whatever its on_empty says. Of weight 0 it may keep what it likes, but nobody is kept from
 * traffic for it: a stage that leaves weight 0 alone, of others, leaves nobody. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/plugin.h>

#include "config.h"
#include "plugin-instance.h"

/* The first rule of a stage that applies to a request is used. */
struct chain_rule {
	struct plugin_instance *instance;
	enum empty_policy on_empty; /* never EMPTY_UNSAID */
	bool reads_request;         /* the instance does; `when` is the host's to judge */
	struct condition *when;     /* the texts are of the instance's document */
	size_t when_count;
	size_t marks; /* which of the marks are the rule's, or CHAIN_NO_MARKS */
};

struct chain_stage {
	const struct usher_plugin *plugin;
	struct chain_rule *rules;
	size_t rule_count;
};

struct chain {
	unsigned refs;
	struct chain_stage *stages;
	size_t stage_count;
	size_t shared_count; /* of stages, the prefix that looks at no request */
	unsigned flags;      /* enum usher_stage_flags, of all stages */
	size_t mark_count;   /* of rules behind the shared part whose stage marks endpoints */
	struct plugin_instance *selector;
};

/* Errors: what plugin_instance_new says; EINVAL for an order that cannot mean what its author
 * thinks; with the place and the remedy. */
int chain_new(struct plugins *plugins, const struct service_config *service, struct chain **ret,
		struct usher_error *reterr);
struct chain *chain_ref(struct chain *c);
struct chain *chain_unref(struct chain *c);

const char *chain_stage_name(const struct chain *c, size_t i);
/* Whether it must be run anew for each request. */
bool chain_stage_looks_at_request(const struct chain_stage *stage);
const struct usher_selector *chain_selector(const struct chain *c);
/* What the rules that run for a request need to know of the view's endpoints, to be freed; NULL:
 * nothing. May allocate. ENOMEM. */
int chain_mark(const struct chain *c, const struct usher_view *view, uint64_t **ret);
/* Whether two services get chains that do the same, so that one may be kept or shared. */
bool chain_config_equal(const struct service_config *a, const struct service_config *b);

/* How often the on_empty of one stage ruled, and how often the stage answered nonsense. */
struct chain_counts {
	uint64_t passed, failed, next, faults;
};

#define CHAIN_NO_RULE  SIZE_MAX
#define CHAIN_NO_MARKS SIZE_MAX

/* What one stage did, for explain. */
struct chain_step {
	size_t in, out;
	size_t kept;     /* by the rule, before on_empty ruled; of a fault, what it claims */
	size_t rule;     /* the last that applied, or CHAIN_NO_RULE: all pass */
	bool emptied;    /* nothing matched, and on_empty ruled */
	bool weightless; /* what matched has weight 0, others had not, and so it counts as nothing
			  */
	enum empty_policy ruled; /* the last time, where several rules gave none */
	bool final;              /* it emptied, and on_empty may not rule */
	bool fault;              /* it answered nonsense, so it fails */
	bool panic;
};

/* What stages run over. */
struct chain_work {
	const struct usher_view *view;
	const struct usher_request *request; /* NULL for the shared part */
	uint32_t *candidates;
	size_t count;
	uint32_t *scratch;           /* room for count */
	uint32_t *weights;           /* the view's, to be changed; NULL outside the shared part */
	const uint64_t *marks;       /* of chain_mark() for the view; NULL: there are none */
	struct chain_counts *counts; /* of each stage of the chain; NULL: not counted */
	/* what came of it */
	bool panic;
	bool fault;          /* the stage that failed is at fault */
	uint64_t again_usec; /* when the result changes by itself; 0: not */
};

/* Run stages first..last-1 over the candidates, in place; returns how many stay, which is the count
 * from then on. A stage that would leave none gives on_empty: pass keeps what it got, fail gives 0
 * and *ret_failed_stage, and the stages behind it do not run. steps (NULL: nobody asks) has room
 * for last - first. */
size_t chain_run(const struct chain *c, size_t first, size_t last, struct chain_work *work,
		size_t *ret_failed_stage, struct chain_step *steps);

/* What the stage that made the step has to say of it as a whole; empty: nothing. candidates are
 * those that came in, work is what it ran over. */
void chain_tell(const struct chain *c, size_t stage, const struct chain_step *step,
		const struct chain_work *work, const uint32_t *candidates, char *ret, size_t size);
/* Why this candidate left under that rule. */
void chain_explain(const struct chain_stage *stage, size_t rule, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret, size_t size);
