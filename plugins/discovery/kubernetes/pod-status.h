#pragma once

/* One Pod's status: read, and written to, by the registration's functions. Each call of theirs
 * opens it anew: they are few, and credentials and kubeconfig may have become others. Thread: any
 * one. */

#include <usher/plugin.h>

#include <jansson.h>

#include "kubernetes.h"

struct pod_status {
	struct access *access;
	struct usher_http *http;
	json_t *pod;
	const char *space, *name, *uid; /* of pod */
};

struct pod_condition {
	const char *type; /* "usher.dev/ready" */
	bool is_true;
	const char *reason;  /* one word in CamelCase */
	const char *message; /* for people */
	uint64_t since_usec; /* CLOCK_REALTIME; 0: now */
};

/* The Pod that an endpoint of the service is. Errors: ENOENT (there is none), EACCES, and what
 * access_new() and HTTP say; with a message. */
int pod_status_open(const struct kubernetes *k, const struct usher_wanted *service, const char *id,
		struct pod_status *ret, struct usher_error *reterr);
void pod_status_done(struct pod_status *p);
bool pod_status_has_gate(const struct pod_status *p, const char *type);
bool pod_status_is_deleted(const struct pod_status *p);
/* Write a condition, where it says something else. Returns 1 when status or reason changed, 0 when
 * neither did. Errors: ENOENT (it has gone, or is another one), and as above. */
int pod_status_set(struct pod_status *p, const struct pod_condition *condition,
		struct usher_error *reterr);
/* An Event about the Pod, with the reason and the message of the condition. */
int pod_status_tell(struct pod_status *p, const struct pod_condition *condition, bool is_warning,
		struct usher_error *reterr);
