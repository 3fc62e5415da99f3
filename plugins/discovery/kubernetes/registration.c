/* What Pods are told of what usher knows of them, as conditions in their status.
 *
 *   usher.dev/ready    a readiness gate: while it is not True, the cluster sends them no requests
 *   usher.dev/drained  how a drain goes that their deletion or their annotation has asked for
 *
 * A cluster has no registry to add to: its controllers list what is ready. So to register is to let
 * a Pod be ready, and it takes that the Pod asks for it, by a readiness gate in its spec. */

#include "registration.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "own.h"
#include "pod-drains.h"
#include "pod-status.h"

#define GATE    "usher.dev/ready"
#define DRAINED "usher.dev/drained"

#define REASON_MAX POD_DRAINS_STEP_MAX

static int refuse_unless_on(const struct kubernetes *k, struct usher_error *reterr)
{
	return k->pods ? 0
		       : usher_error_set(reterr, -EROFS,
					 "Pods are told nothing, since the source's option `pods` is "
					 "not set");
}

/* ---- the readiness gate ---- */

static int set_gate(const struct kubernetes *k, const struct usher_wanted *service, const char *id,
		const char *uid, const struct pod_condition *condition, struct usher_error *reterr)
{
	cleanup(pod_status_done) struct pod_status p = { 0 };
	int r = refuse_unless_on(k, reterr);

	if (r < 0 || (r = pod_status_open(k, service, id, &p, reterr)) < 0)
		return r;
	if (uid && *uid && strcmp(uid, p.uid) != 0)
		return usher_error_set(reterr, -ENOENT, "Pod %s/%s is another one by now", p.space,
				p.name);
	if (pod_status_is_deleted(&p) && !condition->is_true)
		return 0; /* the cluster knows that it goes */
	if (!pod_status_has_gate(&p, GATE))
		return usher_error_set(reterr, -EROFS,
				"Pod %s/%s has no readiness gate %s, so the cluster does not ask "
				"usher; add it to the spec of the Pod: readinessGates: "
				"[{conditionType: %s}]",
				p.space, p.name, GATE, GATE);
	r = pod_status_set(&p, condition, reterr);
	return r < 0 ? r : 0;
}

int registration_add(void *instance, const struct usher_wanted *service,
		const struct usher_endpoint *endpoint, struct usher_error *reterr)
{
	const struct pod_condition condition = { .type = GATE,
		.is_true = endpoint->ready,
		.reason = endpoint->ready ? "Registered" : "NotReady",
		.message = endpoint->ready ? "usher has registered it"
					   : "usher has registered it as not ready" };

	return set_gate(instance, service, endpoint->id, endpoint->uid, &condition, reterr);
}

int registration_set_state(void *instance, const struct usher_wanted *service, const char *id,
		enum usher_admin_state state, struct usher_error *reterr)
{
	static const struct pod_condition conditions[] = {
		[USHER_ADMIN_READY] = { GATE, true, "Ready", "usher shows it as ready", 0 },
		[USHER_ADMIN_DRAINING] = { GATE, false, "Draining", "usher drains it", 0 },
		[USHER_ADMIN_MAINTENANCE] = { GATE, false, "Maintenance",
				"usher shows it in maintenance", 0 },
	};

	return set_gate(instance, service, id, NULL, &conditions[state], reterr);
}

int registration_remove(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	static const struct pod_condition condition = { GATE, false, "Deregistered",
		"usher has deregistered it", 0 };
	int r = set_gate(instance, service, id, NULL, &condition, reterr);

	return r == -ENOENT ? 0 : r;
}

/* ---- how a drain goes ---- */

/* "in_flight" as "InFlight" */
static void write_step(const char *step, char *ret, size_t size)
{
	bool begins = true;
	size_t at = 0;

	for (; *step && at + 1 < size; step++) {
		if (*step == '_') {
			begins = true;
			continue;
		}
		ret[at++] = begins ? (char) toupper((unsigned char) *step) : *step;
		begins = false;
	}
	ret[at] = '\0';
}

static const char *reason_of(const struct pod_drains_sum *sum, char *step)
{
	switch (sum->state) {
	case USHER_DRAIN_REFUSED:
		return "DrainRefused";
	case USHER_DRAIN_RUNNING:
		break;
	case USHER_DRAIN_HELD:
		return "DrainHeld";
	case USHER_DRAIN_DONE:
		return "Drained";
	case USHER_DRAIN_FAILED:
		return "DrainFailed";
	case USHER_DRAIN_RETURNING:
		return "Returning";
	case USHER_DRAIN_CANCELLED:
		return "DrainCancelled";
	}
	write_step(sum->step[0] ? sum->step : "requested", step, REASON_MAX);
	return step;
}

static bool is_warning(enum usher_drain_state state)
{
	return state == USHER_DRAIN_REFUSED || state == USHER_DRAIN_HELD ||
			state == USHER_DRAIN_FAILED;
}

static int tell_pod(
		struct pod_status *p, const struct pod_drains_sum *sum, struct usher_error *reterr)
{
	char step[REASON_MAX];
	const struct pod_condition condition = { .type = DRAINED,
		.is_true = sum->state == USHER_DRAIN_DONE,
		.reason = reason_of(sum, step),
		.message = sum->message,
		.since_usec = sum->since_usec };
	int r = pod_status_set(p, &condition, reterr);

	return r <= 0 ? r : pod_status_tell(p, &condition, is_warning(sum->state), reterr);
}

int registration_progress(void *instance, const struct usher_wanted *service, const char *id,
		const struct usher_drain_progress *progress, struct usher_error *reterr)
{
	cleanup(pod_status_done) struct pod_status p = { 0 };
	const struct kubernetes *k = instance;
	struct pod_drains_sum sum;
	int r;

	if (!k->pods)
		return -ENOENT; /* not asked to tell anybody */
	r = pod_status_open(k, service, id, &p, reterr);
	if (r < 0)
		return r;
	r = pod_drains_tell(k->drains, p.uid, service->service, progress, &sum);
	if (r < 0)
		return usher_error_set(reterr, r, "the Pods of this node are not known yet");
	return r == 0 ? 0 : tell_pod(&p, &sum, reterr);
}
