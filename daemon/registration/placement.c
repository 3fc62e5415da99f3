#include "placement.h"

#include <errno.h>

const char *registration_state_to_string(enum registration_state state)
{
	static const char *const names[] = {
		[REGISTRATION_PENDING] = "pending",
		[REGISTRATION_WAITING] = "waiting_for_health",
		[REGISTRATION_REGISTERED] = "registered",
		[REGISTRATION_FAILING] = "failing",
		[REGISTRATION_UNHEALTHY] = "unhealthy",
		[REGISTRATION_HELD] = "held",
		[REGISTRATION_LEAVING] = "leaving",
		[REGISTRATION_REMOVED] = "removed",
	};

	return names[state];
}

/* To keep what is there alive, without saying anything new. */
static enum placement_act keep_alive(const struct placement_facts *f)
{
	return f->is_due && f->can_renew ? PLACEMENT_RENEW : PLACEMENT_NOTHING;
}

static void decide_leaving(const struct placement_facts *f, struct placement_decision *ret)
{
	ret->state = REGISTRATION_REMOVED;
	if (f->can_remove && (f->is_there || f->may_be_there))
		ret->act = PLACEMENT_REMOVE;
}

/* What is there was put there by an earlier run, or before it had another address. It is kept alive
 * unless it is known to be wrong; whether it may be put there anew is not known yet. A registry
 * that does not find it to renew may have it all the same: who put it there is gone. */
static void decide_waiting(const struct placement_facts *f, struct placement_decision *ret)
{
	ret->state = REGISTRATION_WAITING;
	if (!f->is_there && !f->may_be_there)
		return;
	if (f->is_down && f->on_unhealthy == UNHEALTHY_DEREGISTER && f->can_remove)
		ret->act = PLACEMENT_REMOVE;
	else if (f->is_down && f->on_unhealthy == UNHEALTHY_UNREADY && !f->is_current)
		ret->act = PLACEMENT_ADD;
	else if (!f->is_another)
		ret->act = keep_alive(f);
}

static void decide_present(const struct placement_facts *f, struct placement_decision *ret)
{
	ret->state = REGISTRATION_REGISTERED;
	if (!f->is_there || !f->is_current)
		ret->act = PLACEMENT_ADD;
	else if (f->is_due)
		ret->act = f->can_renew ? PLACEMENT_RENEW : PLACEMENT_ADD;
}

void placement_decide(const struct placement_facts *f, struct placement_decision *ret)
{
	*ret = (struct placement_decision){ .act = PLACEMENT_NOTHING };
	if (!f->is_wanted) {
		decide_leaving(f, ret);
	} else if (f->is_held) {
		ret->state = REGISTRATION_HELD;
		if (f->is_there)
			ret->act = keep_alive(f);
	} else if (!f->is_known) {
		ret->state = REGISTRATION_PENDING;
	} else if (!f->has_passed) {
		decide_waiting(f, ret);
	} else if (!f->is_well && f->on_unhealthy == UNHEALTHY_DEREGISTER && f->can_remove) {
		ret->state = REGISTRATION_UNHEALTHY;
		if (f->is_there)
			ret->act = PLACEMENT_REMOVE;
	} else {
		decide_present(f, ret);
	}
}

/* usec times a random part of it. */
static uint64_t share_of(uint64_t usec, uint64_t random)
{
	return usec * (random >> 40) >> 24;
}

uint64_t placement_renew_delay(uint64_t renew_after_usec, uint64_t random)
{
	uint64_t delay = renew_after_usec ? renew_after_usec : PLACEMENT_LOOK_USEC;

	if (delay < PLACEMENT_RENEW_MIN_USEC)
		delay = PLACEMENT_RENEW_MIN_USEC;
	return delay - share_of(delay / 4, random);
}

/* Two thirds of a lease: what comes later may come too late. */
static uint64_t nearly_out(const struct placement_times *times)
{
	uint64_t third = times->renew_after_usec ? times->renew_after_usec : PLACEMENT_LOOK_USEC;

	return times->renewed_usec + 2 * third;
}

bool placement_is_addition(const struct placement_facts *f, enum placement_act act,
		const struct placement_times *times)
{
	return act == PLACEMENT_ADD && !f->is_there && times->failed_usec == 0;
}

uint64_t placement_due(const struct placement_facts *f, enum placement_act act,
		const struct placement_times *times)
{
	bool is_renewal = act == PLACEMENT_RENEW || (act == PLACEMENT_ADD && f->is_current);

	if (times->failed_usec > 0)
		return times->failed_usec + PLACEMENT_PATIENCE_USEC;
	if (is_renewal && f->is_there && times->renewed_usec > 0)
		return nearly_out(times);
	return times->waiting_usec;
}

bool placement_addition_is_first(uint64_t waiting_usec, uint64_t due_usec, uint64_t now_usec)
{
	return due_usec > now_usec || waiting_usec + PLACEMENT_PATIENCE_USEC < due_usec;
}

uint64_t placement_lease(uint64_t renew_after_usec)
{
	uint64_t lease = 3 * renew_after_usec;

	if (lease == 0)
		return 0;
	return lease > PLACEMENT_LEASE_MIN_USEC ? lease : PLACEMENT_LEASE_MIN_USEC;
}

uint64_t placement_lease_end(const struct placement_times *times)
{
	uint64_t lease = placement_lease(times->renew_after_usec);

	return lease > 0 && times->renewed_usec > 0 ? times->renewed_usec + lease : UINT64_MAX;
}

uint64_t placement_backoff(unsigned failures, uint64_t random)
{
	uint64_t delay = PLACEMENT_BACKOFF_MIN_USEC;

	for (unsigned i = 1; i < failures && delay < PLACEMENT_BACKOFF_MAX_USEC; i++)
		delay *= 2;
	if (delay > PLACEMENT_BACKOFF_MAX_USEC)
		delay = PLACEMENT_BACKOFF_MAX_USEC;
	return PLACEMENT_RETRY_MIN_USEC + share_of(delay - PLACEMENT_RETRY_MIN_USEC, random);
}

bool placement_failure_is_shared(int code)
{
	switch (-code) {
	case ETIMEDOUT:
	case ECONNREFUSED:
	case ECONNRESET:
	case ECONNABORTED:
	case EHOSTUNREACH:
	case EHOSTDOWN:
	case ENETUNREACH:
	case ENETDOWN:
	case EPIPE:
	case EIO:
	case EAGAIN:
	case ENOTCONN:
		return true;
	default:
		return false;
	}
}
