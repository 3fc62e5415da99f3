#pragma once

/* A format of files: how to tell it, which services a file names, and how to read their endpoints.
 *
 * A file is checked whole before any of it counts: one malformed endpoint makes the file malformed,
 * for nobody can say what its writer meant, and the answer before it is known to be good. */

#include <stdbool.h>
#include <usher/document.h>
#include <usher/endpoint.h>

#include "format-fields.h"
#include "usher-format.h"

struct catalog;

struct format_options {
	const char *kubernetes_namespace; /* only slices of this one; NULL: all */
	const char *service_label;        /* of Prometheus groups: which names the service */
	const char *stem;                 /* the file's name without its ending; not kept */
};

/* One piece of a file that tells about a service: its list, a slice, a group. */
struct part {
	const char *service;
	const struct usher_node *node; /* NULL: none, the service is merely named */
};

struct format {
	const char *name; /* as the option says it */
	const char *title;
	const char *remedy; /* where to make a change, when usher does not write it; NULL: it does
			     */
	bool merges;        /* a service may be spread over several files */
	bool has_ports; /* endpoints have several ports, and the wanted one decides what they are */
	bool (*detect)(const struct usher_node *root);
	/* Check the file and add its parts. */
	int (*survey)(struct catalog *catalog, const struct usher_node *root,
			const struct format_options *options, struct usher_error *reterr);
	/* Add what the parts of one service say to the set. port: which one is wanted, by name or
	 * number; NULL: the only one, or the first. */
	int (*build)(struct usher_endpoints *set, const struct part *parts, size_t count,
			const char *port, struct usher_error *reterr);
};

enum format_choice {
	FORMAT_AUTO,
	FORMAT_USHER,
	FORMAT_KUBERNETES,
	FORMAT_PROMETHEUS,
	FORMAT_SPRING,
};

extern const char *const format_choices[]; /* NULL-terminated, in the order of the enum */

extern const struct format format_usher;
extern const struct format format_kubernetes;
extern const struct format format_prometheus;
extern const struct format format_spring;

/* The format of a document, told or detected. Errors: EBADMSG (empty, or none of them). */
int format_find(enum format_choice choice, const struct usher_node *root, const struct format **ret,
		struct usher_error *reterr);
