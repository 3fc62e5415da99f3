#pragma once

/* How to reach the API server and be let in: as configured, as a kubeconfig says, or as a pod is
 * told by its cluster. */

#include <usher/document.h>
#include <usher/http.h>

struct access_options {
	const char *kubeconfig, *context;
	const char *service_account; /* the folder that the cluster gives to a pod */
	struct usher_http_options http;
};

#define ACCESS_TEXTS_MAX 16

struct access {
	struct usher_http_options http;
	struct usher_http_config config; /* points to http, and into what follows */
	char *space;                     /* the namespace that is meant where none is told */
	const char *servers[2];
	char *texts[ACCESS_TEXTS_MAX]; /* owned */
	size_t text_count;
	struct usher_document *document;
	const char *source; /* in words: "/root/.kube/config", "this pod's service account" */
};

/* Errors: EINVAL (something that is not supported, or contradicts itself), ENOENT (not in a
 * cluster, and nothing configured), EBADMSG, and what reading a file says; with a message. */
int access_new(const struct access_options *options, struct access **ret,
		struct usher_error *reterr);
struct access *access_free(struct access *a);

/* ---- for its parts ---- */

/* A text that lives as long as a; takes it. NULL for NULL, and when there is no room. */
const char *access_keep(struct access *a, char *text);
/* What the current, or the named, context of a kubeconfig says. Errors: as access_new. */
int kubeconfig_read(struct access *a, const char *path, const char *context,
		struct usher_error *reterr);
/* The same of a document that a has already. */
int kubeconfig_apply(struct access *a, const char *context, struct usher_error *reterr);
