/* What rollouts have decided about single endpoints. */

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "context-private.h"
#include "ownership.h"

/* Owned strings behind the const of what others see. */
static void override_done(struct override *o)
{
	free((void *) (uintptr_t) o->id);
	free((void *) (uintptr_t) o->uid);
	*o = (struct override){};
}

void overrides_free(struct override *overrides, size_t count)
{
	for (size_t i = 0; i < count; i++)
		override_done(&overrides[i]);
	free(overrides);
}

static int override_copy(const struct override *from, struct override *ret)
{
	struct override o = *from;

	o.id = strdup(from->id);
	o.uid = from->uid ? strdup(from->uid) : NULL;
	if (!o.id || (from->uid && !o.uid)) {
		override_done(&o);
		return -ENOMEM;
	}
	if (!(o.weight_share >= 0))
		o.weight_share = 0;
	if (o.weight_share > 1)
		o.weight_share = 1;
	*ret = o;
	return 0;
}

static size_t find_index(const struct context *c, const char *id)
{
	size_t i = 0;

	while (i < c->override_count && strcmp(c->overrides[i].id, id) != 0)
		i++;
	return i;
}

const struct override *context_find_override(const struct context *c, const char *id)
{
	size_t i = find_index(c, id);

	return i < c->override_count ? &c->overrides[i] : NULL;
}

bool override_binds(const struct override *override, const char *uid)
{
	/* Only another incarnation is free of it; one that nobody can tell apart is not. */
	return !override->uid || !uid || strcmp(override->uid, uid) == 0;
}

static int append(struct context *c)
{
	struct override *overrides;

	if (c->override_count == CONTEXT_OVERRIDES_MAX)
		return -E2BIG;
	overrides = reallocarray(c->overrides, c->override_count + 1, sizeof(*overrides));
	if (!overrides)
		return -ENOMEM;
	c->overrides = overrides;
	c->overrides[c->override_count++] = (struct override){};
	return 0;
}

int context_set_override(struct context *c, const struct override *override)
{
	size_t i = find_index(c, override->id);
	bool is_new = i == c->override_count;
	struct override copy, before;
	int r;

	r = override_copy(override, &copy);
	if (r < 0)
		return r;
	r = is_new ? append(c) : 0;
	if (r < 0) {
		override_done(&copy);
		return r;
	}

	before = c->overrides[i];
	c->overrides[i] = copy;
	r = context_recompute(c);
	if (r < 0) {
		c->overrides[i] = before;
		c->override_count -= is_new;
		before = copy;
	}
	override_done(&before);
	return r;
}

int context_clear_override(struct context *c, const char *id)
{
	size_t i = find_index(c, id), last = c->override_count - 1;
	struct override gone;
	int r;

	if (i == c->override_count)
		return 0;
	gone = c->overrides[i];
	c->overrides[i] = c->overrides[last];
	c->override_count--;
	r = context_recompute(c);
	if (r < 0) {
		c->overrides[last] = c->overrides[i];
		c->overrides[i] = gone;
		c->override_count++;
		return r;
	}
	override_done(&gone);
	return r;
}
