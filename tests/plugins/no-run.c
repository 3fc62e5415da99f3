/* Discovery without its one function: calling it would be a jump to address 0. */

#include <usher/plugin.h>

#include "trace.h"

USHER_PLUGIN(.name = "no-run", .discovery = &(const struct usher_discovery){ .run = NULL });
