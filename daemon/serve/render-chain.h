#pragma once

/* A service's chain as JSON: its stages with their rules, and what became of them. */

#include "context.h"
#include "text.h"

/* [{"stage", "shared", "on_empty", "rules", "emptied", "faults"}, ...] */
void render_chain(struct text *text, const struct context *context);
