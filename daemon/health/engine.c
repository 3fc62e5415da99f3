#include "engine.h"

const struct engine *engine_of(const struct target *target)
{
	switch (check_config(target->check)->kind) {
	case CHECK_HTTP:
	case CHECK_TCP:
		return target->tls || !target->is_numeric ? &engine_curl : &engine_plain;
	case CHECK_GRPC:
		return &engine_curl;
	case CHECK_EXEC:
		return &engine_exec;
	case CHECK_NONE:
		break;
	}
	return NULL;
}
