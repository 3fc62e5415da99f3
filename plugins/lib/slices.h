#pragma once

/* Kubernetes EndpointSlices, and how all slices of one Service are put together into its endpoints.
 *
 * The rules are those of the API's documentation (discovery.k8s.io/v1): all slices of a service
 * together are its endpoints; a nil `ready` or `serving` is true, a nil `terminating` false; a port
 * without a number is any port and of no use; only the first of several addresses counts. What
 * stands in them more than once is put together: the same address and port of one pod counts as the
 * newer slice says, else where it is ready; of two pods the ready one counts; an IPv4 and an IPv6
 * address of one pod are one endpoint.
 *
 * Whoever reads slices fills a struct slice; texts are copied into it. Thread: any one. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/endpoint.h>

#define SLICE_SERVICE_LABEL "kubernetes.io/service-name"

struct slice_port {
	const char *name, *protocol, *app_protocol; /* NULL: not told */
	uint16_t number;                            /* 0: none, which is nothing to connect to */
};

struct slice_endpoint {
	const char *address; /* the first one; NULL: none */
	const char *zone, *node, *hostname;
	const char *target, *target_uid; /* of the pod */
	const char *zone_hints;          /* "a,b": the zones it is meant for */
	bool ready, serving, terminating;
	const void *origin; /* where it was read; the reader's own */
};

struct slice_texts;

struct slice {
	const char *space, *name, *uid, *service; /* the namespace is "" where it is not told */
	uint64_t version;                         /* resourceVersion; 0: none */
	bool ipv6;
	struct slice_port *ports;
	size_t port_count, port_space;
	struct slice_endpoint *endpoints;
	size_t endpoint_count, endpoint_space;
	struct usher_label *labels; /* the users' own, which are those of the Service */
	size_t label_count, label_space;
	const char *fault; /* the field that makes no sense, where the reader keeps such a slice;
			      NULL: none */
	struct slice_texts *texts;
	bool is_short_of_memory; /* something of it is missing */
};

struct slice *slice_new(void); /* NULL: out of memory */
struct slice *slice_free(struct slice *s);
/* A copy that lives as long as the slice. NULL for NULL, and when out of memory, which the slice
 * then says of itself. */
const char *slice_text(struct slice *s, const char *text);
/* A new one, to be filled in; NULL: out of memory, which the slice says of itself. An endpoint is
 * ready and serving at first. Borrowed until the next one. */
struct slice_port *slice_add_port(struct slice *s);
struct slice_endpoint *slice_add_endpoint(struct slice *s);
/* Kubernetes' own labels are left out. */
void slice_add_label(struct slice *s, const char *name, const char *value);
/* Whether it is one that slice_add_label() keeps. */
bool slice_is_users_label(const char *name);

/* One endpoint of a service, on the wanted port. */
struct slice_choice {
	const struct slice *slice;
	const struct slice_endpoint *endpoint;
	const struct slice_port *port;
	const char *other_address; /* of the other family, of the same pod; NULL: none */
	bool is_namesake;          /* another incarnation has the name as its id */
};

struct slice_choices {
	struct slice_choice *all; /* the caller's to free */
	size_t count;
	size_t conflicts; /* entries that claim an address that another has, and do not count */
};

/* What the slices of one service say together. port: which one is wanted, by name or number; NULL:
 * the first of TCP. Errors: EBADMSG (there are endpoints, but none that can be used, which is no
 * empty service), ENOENT (no slice has the wanted port), ENOMEM; with a message. */
int slices_choose(const struct slice *const *slices, size_t count, const char *service,
		const char *port, struct slice_choices *ret, struct usher_error *reterr);
/* As an endpoint of usher, with labels (USHER_METADATA_MAX) for its metadata. Errors: E2BIG. */
int slices_describe(const struct slice_choice *choice, struct usher_label *labels,
		struct usher_endpoint *ret, struct usher_error *reterr);
