/* What rollouts have decided about single endpoints. */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "context-private.h"
#include "ownership.h"

static void entry_done(struct override_entry *e)
{
	free(e->id);
	free(e->uid);
	*e = (struct override_entry){};
}

void overrides_free(struct override_entry *overrides, size_t count)
{
	for (size_t i = 0; i < count; i++)
		entry_done(&overrides[i]);
	free(overrides);
}

int override_entry_init(struct override_entry *e, const struct override *from)
{
	*e = (struct override_entry){ .override = *from };
	e->override.id = e->id = strdup(from->id);
	e->override.uid = e->uid = from->uid ? strdup(from->uid) : NULL;
	if (!e->id || (from->uid && !e->uid)) {
		entry_done(e);
		return -ENOMEM;
	}
	if (!(from->weight_share >= 0))
		e->override.weight_share = 0;
	if (from->weight_share > 1)
		e->override.weight_share = 1;
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

	return i < c->override_count ? &c->overrides[i].override : NULL;
}

bool override_binds(const struct override *override, const char *uid)
{
	/* Only another incarnation is free of it; one that nobody can tell apart is not. */
	return !override->uid || !uid || strcmp(override->uid, uid) == 0;
}

bool override_takes_out(const struct override *override, const char *uid)
{
	return override_binds(override, uid) &&
			(override->withdrawn || override->admin_state != USHER_ADMIN_READY);
}

static int append(struct context *c)
{
	struct override_entry *overrides;

	if (c->override_count == CONTEXT_OVERRIDES_MAX)
		return -E2BIG;
	overrides = reallocarray(c->overrides, c->override_count + 1, sizeof(*overrides));
	if (!overrides)
		return -ENOMEM;
	c->overrides = overrides;
	c->overrides[c->override_count++] = (struct override_entry){};
	return 0;
}

int context_set_override(struct context *c, const struct override *override)
{
	size_t i = find_index(c, override->id);
	bool is_new = i == c->override_count;
	struct override_entry entry, before;
	int r;

	r = override_entry_init(&entry, override);
	if (r < 0)
		return r;
	r = is_new ? append(c) : 0;
	if (r < 0) {
		entry_done(&entry);
		return r;
	}

	before = c->overrides[i];
	c->overrides[i] = entry;
	r = context_recompute(c);
	if (r < 0) {
		c->overrides[i] = before;
		c->override_count -= is_new;
		before = entry;
	}
	entry_done(&before);
	return r;
}

int context_clear_override(struct context *c, const char *id)
{
	size_t i = find_index(c, id), last = c->override_count - 1;
	struct override_entry gone;
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
	entry_done(&gone);
	return r;
}
