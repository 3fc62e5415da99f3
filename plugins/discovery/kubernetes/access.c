#include "access.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "own.h"

#define NAMESPACE_MAX 253

const char *access_keep(struct access *a, char *text)
{
	if (!text)
		return NULL;
	if (a->text_count == ACCESS_TEXTS_MAX) {
		free(text);
		return NULL;
	}
	a->texts[a->text_count++] = text;
	return text;
}

struct access *access_free(struct access *a)
{
	if (!a)
		return NULL;
	for (size_t i = 0; i < a->text_count; i++) {
		explicit_bzero(a->texts[i], strlen(a->texts[i]));
		free(a->texts[i]);
	}
	(void) usher_document_unref(a->document);
	free(a->space);
	free(a);
	return NULL;
}

static void free_access(struct access **a)
{
	(void) access_free(*a);
}

static int out_of_memory(struct usher_error *reterr)
{
	return usher_error_set(reterr, -ENOMEM, "out of memory");
}

/* ---- in a pod ---- */

static const char *keep_path(struct access *a, const char *folder, const char *name)
{
	char *path = NULL;

	if (asprintf(&path, "%s/%s", folder, name) < 0)
		return NULL;
	return access_keep(a, path);
}

static const char *keep_server(struct access *a, const char *host, const char *port)
{
	bool is_ipv6 = strchr(host, ':') && host[0] != '[';
	char *url = NULL;

	if (asprintf(&url, "https://%s%s%s:%s", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "",
			    port) < 0)
		return NULL;
	return access_keep(a, url);
}

/* The pod's own namespace. A token without it is of use, too. */
static char *read_namespace(const char *path)
{
	char text[NAMESPACE_MAX + 1] = "";
	FILE *f = fopen(path, "re");

	if (!f)
		return NULL;
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	(void) fclose(f);
	text[strcspn(text, "\r\n")] = '\0';
	return text[0] ? strdup(text) : NULL;
}

static int read_pod(struct access *a, const char *folder, struct usher_error *reterr)
{
	/* usherd never changes its environment. */
	const char *host = getenv("KUBERNETES_SERVICE_HOST"); /* NOLINT(concurrency-mt-unsafe) */
	const char *port = getenv("KUBERNETES_SERVICE_PORT"); /* NOLINT(concurrency-mt-unsafe) */
	const char *space = keep_path(a, folder, "namespace");

	if (!host || !*host || !port || !*port)
		return usher_error_set(reterr, -ENOENT,
				"this is no pod of a cluster (KUBERNETES_SERVICE_HOST and _PORT are "
				"not set); say in the source's options where the cluster is: "
				"`kubeconfig`, or `servers` with `ca` and `token_file`");
	a->servers[0] = keep_server(a, host, port);
	a->http.ca = keep_path(a, folder, "ca.crt");
	a->http.token_file = keep_path(a, folder, "token");
	if (!space || !a->servers[0] || !a->http.ca || !a->http.token_file)
		return out_of_memory(reterr);
	a->http.servers = a->servers;
	a->config.auth = USHER_HTTP_AUTH_BEARER;
	a->space = read_namespace(space);
	a->source = "this pod's service account";
	return 0;
}

/* ---- as configured ---- */

static int read_options(struct access *a, const struct access_options *o)
{
	a->http = o->http;
	a->config.auth = o->http.user ? USHER_HTTP_AUTH_BASIC : USHER_HTTP_AUTH_BEARER;
	a->source = "the source's options";
	return 0;
}

int access_new(const struct access_options *options, struct access **ret,
		struct usher_error *reterr)
{
	cleanup(free_access) struct access *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return out_of_memory(reterr);
	a->http.verify = true;
	a->http.connections = options->http.connections;
	a->http.connect_timeout_usec = options->http.connect_timeout_usec;
	if (options->kubeconfig)
		r = kubeconfig_read(a, options->kubeconfig, options->context, reterr);
	else if (options->http.servers)
		r = read_options(a, options);
	else
		r = read_pod(a, options->service_account, reterr);
	if (r < 0)
		return r;
	if (!a->space && !(a->space = strdup("default")))
		return out_of_memory(reterr);
	a->config.size = sizeof(a->config);
	a->config.options = &a->http;
	*ret = take(a);
	return 0;
}
