#pragma once

/* A format of files: how to tell it, which services a file names, and how to read their endpoints.
 *
 * A file is checked whole before any of it counts: one malformed endpoint makes the file malformed,
 * for nobody can say what its writer meant, and the answer before it is known to be good. */

#include <stdbool.h>
#include <usher/document.h>
#include <usher/endpoint.h>

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

/* One endpoint of usher's own format. labels: USHER_METADATA_MAX, for its metadata; all texts are
 * the document's. Errors: EBADMSG, EINVAL, ERANGE, with the place. */
int format_usher_read(const struct usher_node *n, struct usher_endpoint *ret,
		struct usher_label *labels, struct usher_error *reterr);

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

/* ---- for the formats ---- */

/* "FILE:LINE:COLUMN: FIELD: why", whether or not cause begins with that place; returns r. */
int format_field_error(struct usher_error *reterr, const struct usher_node *n, const char *field,
		int r, const struct usher_error *cause);
/* "FIELD is nothing; ..." and the like, for a node of a wrong kind. */
int format_expect(const struct usher_node *n, const char *field, enum usher_node_kind kind,
		struct usher_error *reterr);

/* As usher_node_text and usher_node_count, of a node that may be NULL. */
const char *format_text(const struct usher_node *n);
size_t format_count(const struct usher_node *n);

/* Fields of a map, or of NULL. An absent key and an explicit null leave *ret as it is, and return
 * 0; 1: read. Errors: EINVAL, ERANGE, with the place and the field. */
int format_get_text(const struct usher_node *map, const char *key, const char **ret,
		struct usher_error *reterr);
int format_get_bool(const struct usher_node *map, const char *key, bool *ret,
		struct usher_error *reterr);
int format_get_port(const struct usher_node *map, const char *key, uint16_t *ret,
		struct usher_error *reterr);
/* A map of texts as labels; *count is in and out, at most USHER_METADATA_MAX. keep: which names, or
 * NULL for all. Borrowed from the document. */
int format_get_labels(const struct usher_node *map, const char *key, bool (*keep)(const char *name),
		struct usher_label *labels, size_t *count, struct usher_error *reterr);
/* Add an endpoint that stands at n. Errors: as usher_endpoints_add, with the place. */
int format_add(struct usher_endpoints *set, const struct usher_endpoint *endpoint,
		const struct usher_node *n, struct usher_error *reterr);
