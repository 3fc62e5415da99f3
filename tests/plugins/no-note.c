/* A shared object of somebody else's. */

#include "trace.h"

__attribute__((visibility("default"))) extern const int something;
const int something = 1;
