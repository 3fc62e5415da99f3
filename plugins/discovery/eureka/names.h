#pragma once

/* The names under which services can be had, for people and completion. */

#include <usher/plugin.h>

#include "registry.h"

void names_tell(const struct registry *r, struct usher_source *source);
