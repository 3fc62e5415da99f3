/* A kubeconfig, as kubectl has it: contexts that name a cluster and a user.
 *
 * Paths in it are relative to its own folder. What would run a program of the user's to log in is
 * refused: usherd starts nobody's programs as root. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "access.h"
#include "own.h"

#define DATA_MAX ((size_t) 1024 * 1024) /* bytes of a certificate or key in base64 */

static int out_of_memory(struct usher_error *reterr)
{
	return usher_error_set(reterr, -ENOMEM, "out of memory");
}

static bool is_told(const struct usher_node *n)
{
	return n && usher_node_kind(n) != USHER_NODE_NULL;
}

/* A text of a map; what is absent, null or empty leaves *ret as it is. */
static int get_text(const struct usher_node *map, const char *key, const char **ret,
		struct usher_error *reterr)
{
	const struct usher_node *n = usher_node_get(map, key);

	if (!is_told(n))
		return 0;
	if (usher_node_kind(n) != USHER_NODE_SCALAR)
		return usher_node_error(reterr, n, -EINVAL, "%s: is %s, and must be a text", key,
				usher_node_kind_name(n));
	if (*usher_node_text(n) != '\0')
		*ret = usher_node_text(n);
	return 0;
}

static int get_bool(const struct usher_node *map, const char *key, bool *ret,
		struct usher_error *reterr)
{
	const struct usher_node *n = usher_node_get(map, key);

	return is_told(n) ? usher_node_bool(n, ret, reterr) : 0;
}

/* The entry of that name: clusters, users and contexts are lists of {name, cluster|user|context}.
 */
static int find_entry(const struct usher_node *root, const char *list, const char *key,
		const char *name, const struct usher_node **ret, struct usher_error *reterr)
{
	const struct usher_node *entries = usher_node_get(root, list);

	for (size_t i = 0; entries && i < usher_node_count(entries); i++) {
		const struct usher_node *entry = usher_node_at(entries, i);
		const struct usher_node *n = usher_node_get(entry, "name");
		const char *text = n ? usher_node_text(n) : NULL;

		if (!text || strcmp(text, name) != 0)
			continue;
		*ret = usher_node_get(entry, key);
		if (*ret && usher_node_kind(*ret) == USHER_NODE_MAP)
			return 0;
		return usher_node_error(
				reterr, entry, -EINVAL, "%s %s: has no map `%s`", list, name, key);
	}
	return usher_node_error(
			reterr, root, -ENOENT, "%s: there is none of the name %s", list, name);
}

/* ---- values ---- */

/* A path, relative to the kubeconfig. */
static int get_path(struct access *a, const struct usher_node *map, const char *key,
		const char **ret, struct usher_error *reterr)
{
	const char *name = usher_document_name(a->document), *slash = strrchr(name, '/');
	const char *text = NULL;
	char *path = NULL;
	int r = get_text(map, key, &text, reterr);

	if (r < 0 || !text)
		return r;
	if (text[0] == '/' || !slash) {
		*ret = text;
		return 0;
	}
	if (asprintf(&path, "%.*s/%s", (int) (slash - name), name, text) < 0)
		return out_of_memory(reterr);
	*ret = access_keep(a, path);
	return *ret ? 0 : out_of_memory(reterr);
}

static int digit(char c)
{
	static const char digits[] =
			"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int) (at - digits) : -1;
}

/* Base64 (RFC 4648), with blanks and line ends between. ret has room for all. False: it is none. */
static bool decode(const char *text, char *ret)
{
	unsigned bits = 0, count = 0, padding = 0, digits = 0;

	for (; *text; text++) {
		int d = digit(*text);

		if (strchr(" \t\r\n", *text))
			continue;
		if (*text == '=') {
			padding++;
			continue;
		}
		if (d < 0 || padding > 0)
			return false;
		digits++;
		bits = (bits << 6 | (unsigned) d) & 0xffffff;
		count += 6;
		if (count >= 8) {
			count -= 8;
			*ret++ = (char) (bits >> count & 0xff);
		}
	}
	*ret = '\0';
	return digits % 4 != 1 && padding <= 2;
}

/* PEM in base64. */
static int get_data(struct access *a, const struct usher_node *map, const char *key,
		const char **ret, struct usher_error *reterr)
{
	const char *text = NULL;
	char *pem;
	int r = get_text(map, key, &text, reterr);

	if (r < 0 || !text)
		return r;
	if (strlen(text) > DATA_MAX)
		return usher_node_error(reterr, usher_node_get(map, key), -E2BIG,
				"%s: has more than %zu bytes", key, DATA_MAX);
	pem = malloc(strlen(text) + 1);
	if (!pem)
		return out_of_memory(reterr);
	pem[0] = '\0';
	if (!decode(text, pem) || !strstr(pem, "-----BEGIN ")) {
		free(pem);
		return usher_node_error(reterr, usher_node_get(map, key), -EBADMSG,
				"%s: is no PEM in base64", key);
	}
	*ret = access_keep(a, pem);
	return *ret ? 0 : out_of_memory(reterr);
}

/* ---- cluster and user ---- */

static int read_cluster(struct access *a, const struct usher_node *n, struct usher_error *reterr)
{
	bool insecure = false;
	int r;

	if (is_told(usher_node_get(n, "proxy-url")))
		return usher_node_error(reterr, usher_node_get(n, "proxy-url"), -EINVAL,
				"proxy-url: proxies are not supported; name an address of the API "
				"server that can be reached without one");
	if ((r = get_text(n, "server", &a->servers[0], reterr)) < 0 ||
			(r = get_text(n, "tls-server-name", &a->http.server_name, reterr)) < 0 ||
			(r = get_bool(n, "insecure-skip-tls-verify", &insecure, reterr)) < 0 ||
			(r = get_path(a, n, "certificate-authority", &a->http.ca, reterr)) < 0 ||
			(r = get_data(a, n, "certificate-authority-data", &a->config.ca_data,
					 reterr)) < 0)
		return r;
	if (!a->servers[0])
		return usher_node_error(reterr, n, -EINVAL, "server: is missing in the cluster");
	if (a->config.ca_data)
		a->http.ca = NULL; /* as kubectl has it */
	a->http.servers = a->servers;
	a->http.verify = !insecure;
	return 0;
}

static int refuse_program(const struct usher_node *user, struct usher_error *reterr)
{
	if (is_told(usher_node_get(user, "exec")))
		return usher_node_error(reterr, usher_node_get(user, "exec"), -EINVAL,
				"exec: a program to log in with is not run by usherd, which would "
				"give it its own rights; use a ServiceAccount's token (`token` or "
				"`tokenFile`) or a client certificate");
	if (is_told(usher_node_get(user, "auth-provider")))
		return usher_node_error(reterr, usher_node_get(user, "auth-provider"), -EINVAL,
				"auth-provider: Kubernetes has removed these; use a "
				"ServiceAccount's token (`token` or `tokenFile`) or a client "
				"certificate");
	return 0;
}

/* How this user is let in: a token goes before a password, as with kubectl; a certificate goes with
 * either. */
static int read_user(struct access *a, const struct usher_node *n, struct usher_error *reterr)
{
	int r = refuse_program(n, reterr);

	if (r < 0 || (r = get_text(n, "token", &a->http.token, reterr)) < 0 ||
			(r = get_path(a, n, "tokenFile", &a->http.token_file, reterr)) < 0 ||
			(r = get_text(n, "username", &a->http.user, reterr)) < 0 ||
			(r = get_text(n, "password", &a->http.password, reterr)) < 0 ||
			(r = get_path(a, n, "client-certificate", &a->http.certificate, reterr)) <
					0 ||
			(r = get_path(a, n, "client-key", &a->http.key, reterr)) < 0 ||
			(r = get_data(a, n, "client-certificate-data", &a->config.certificate_data,
					 reterr)) < 0 ||
			(r = get_data(a, n, "client-key-data", &a->config.key_data, reterr)) < 0)
		return r;
	if (a->config.certificate_data)
		a->http.certificate = NULL;
	if (a->config.key_data)
		a->http.key = NULL;
	if (a->http.token_file)
		a->http.token = NULL; /* the file is the newer one, as kubectl has it */
	if (a->http.token || a->http.token_file)
		a->http.user = a->http.password = NULL;
	a->config.auth = a->http.user ? USHER_HTTP_AUTH_BASIC : USHER_HTTP_AUTH_BEARER;
	return 0;
}

static int read_context(
		struct access *a, const struct usher_node *context, struct usher_error *reterr)
{
	const struct usher_node *root = usher_document_root(a->document), *cluster = NULL,
				*user = NULL;
	const char *cluster_name = NULL, *user_name = NULL, *space = NULL;
	int r;

	if ((r = get_text(context, "cluster", &cluster_name, reterr)) < 0 ||
			(r = get_text(context, "user", &user_name, reterr)) < 0 ||
			(r = get_text(context, "namespace", &space, reterr)) < 0)
		return r;
	if (!cluster_name)
		return usher_node_error(
				reterr, context, -EINVAL, "cluster: is missing in the context");
	r = find_entry(root, "clusters", "cluster", cluster_name, &cluster, reterr);
	if (r < 0 || (r = read_cluster(a, cluster, reterr)) < 0)
		return r;
	if (space && !(a->space = strdup(space)))
		return out_of_memory(reterr);
	if (!user_name)
		return 0;
	r = find_entry(root, "users", "user", user_name, &user, reterr);
	return r < 0 ? r : read_user(a, user, reterr);
}

int kubeconfig_apply(struct access *a, const char *context, struct usher_error *reterr)
{
	const struct usher_node *root = usher_document_root(a->document), *n = NULL;
	int r = context ? 0 : get_text(root, "current-context", &context, reterr);

	if (r < 0)
		return r;
	if (!context)
		return usher_node_error(reterr, root, -EINVAL,
				"current-context: is not set; set the option `context`");
	r = find_entry(root, "contexts", "context", context, &n, reterr);
	return r < 0 ? r : read_context(a, n, reterr);
}

int kubeconfig_read(
		struct access *a, const char *path, const char *context, struct usher_error *reterr)
{
	int r = usher_document_load(path, &a->document, reterr);

	if (r < 0)
		return r;
	a->source = path;
	r = kubeconfig_apply(a, context, reterr);
	if (r < 0)
		return r;
	r = usher_http_check(&a->http, reterr);
	return r < 0 ? usher_error_prefix(reterr, r, "%s", path) : 0;
}
