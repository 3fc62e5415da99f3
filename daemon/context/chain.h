#pragma once

/* A service's stages and its selector, made ready to run: pure functions over a view.
 *
 * The longest prefix of stages that do not look at a request is the shared part: it runs once, at
 * publication. The rest runs for each pick. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/plugin.h>

#include "config.h"
#include "plugin-instance.h"

struct chain_stage {
	struct plugin_instance *instance;
	enum empty_policy on_empty;
};

struct chain {
	unsigned refs;
	struct chain_stage *stages;
	size_t stage_count;
	size_t shared_count; /* of stages, the prefix that looks at no request */
	struct plugin_instance *selector;
};

/* Errors: what plugin_instance_new says; EINVAL for a stage twice; with the place. */
int chain_new(struct plugins *plugins, const struct service_config *service, struct chain **ret,
		struct usher_error *reterr);
struct chain *chain_ref(struct chain *c);
struct chain *chain_unref(struct chain *c);

const char *chain_stage_name(const struct chain *c, size_t i);
/* Whether two services get chains that do the same, so that one may be kept or shared. */
bool chain_config_equal(const struct service_config *a, const struct service_config *b);

/* What one stage did, for explain. */
struct chain_step {
	size_t in, out;
	bool emptied; /* nothing matched, and on_empty ruled */
	enum empty_policy ruled;
};

/* What stages run over. */
struct chain_work {
	const struct usher_view *view;
	const struct usher_request *request; /* NULL for the shared part */
	uint32_t *candidates;
	size_t count;
	uint32_t *scratch; /* room for count */
};

/* Run stages first..last-1 over the candidates, in place; returns how many stay, which is the count
 * from then on. A stage that would leave none gives on_empty: pass keeps what it got, fail gives 0
 * and *ret_failed_stage, and the stages behind it do not run. steps (NULL: nobody asks) has room
 * for last
 * - first. */
size_t chain_run(const struct chain *c, size_t first, size_t last, struct chain_work *work,
		size_t *ret_failed_stage, struct chain_step *steps);
