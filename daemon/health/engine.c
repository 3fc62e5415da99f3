#include "engine.h"

#include "check.h"

const struct engine *engine_of(const struct target *target)
{
	switch (check_config(target->check)->kind) {
	case CHECK_HTTP:
	case CHECK_TCP:
		return target->tls || !target->is_numeric ? NULL : &engine_plain;
	case CHECK_NONE:
	case CHECK_GRPC:
	case CHECK_EXEC:
		return NULL;
	}
	return NULL;
}
