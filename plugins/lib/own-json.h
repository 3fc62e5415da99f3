#pragma once

/* Who frees what, for values of jansson's. */

#include <jansson.h>

#include "own.h"

#define autojson cleanup(own_unref_json)

static inline void own_unref_json(json_t **j)
{
	json_decref(*j);
}
