/* How the endpoints of a service are asked: a copy of the configuration that has been looked at. */

#include "check.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "http-words.h"
#include "ownership.h"

#define CA_FILE_MAX 4194304 /* bytes */

struct check {
	atomic_uint refs;
	struct check_config config;
};

DEFINE_CLEANUP(struct check, check_unref);

/* Every text of the configuration: they are copied, compared and freed alike. */
static const size_t texts[] = {
	offsetof(struct check_config, port_label),
	offsetof(struct check_config, path),
	offsetof(struct check_config, path_label),
	offsetof(struct check_config, method),
	offsetof(struct check_config, host),
	offsetof(struct check_config, match_text),
	offsetof(struct check_config, match_pointer),
	offsetof(struct check_config, match_value),
	offsetof(struct check_config, send),
	offsetof(struct check_config, expect_text),
	offsetof(struct check_config, grpc_service),
	offsetof(struct check_config, tls_ca),
	offsetof(struct check_config, tls_server_name),
};

static char **text_at(struct check_config *config, size_t offset)
{
	return (char **) ((char *) config + offset);
}

static const char *text_of(const struct check_config *config, size_t offset)
{
	return *(char *const *) ((const char *) config + offset);
}

/* ---- a copy ---- */

static int copy_ranges(const struct status_range *from, size_t count, struct status_range **ret,
		size_t *ret_count)
{
	struct status_range *copy = NULL;

	if (count > 0) {
		copy = calloc(count, sizeof(*copy));
		if (!copy)
			return -ENOMEM;
		memcpy(copy, from, count * sizeof(*copy));
	}
	*ret = copy;
	*ret_count = count;
	return 0;
}

static int copy_command(char *const *from, char ***ret)
{
	char **copy;
	size_t count = 0;

	if (!from)
		return 0;
	while (from[count])
		count++;
	copy = calloc(count + 1, sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	*ret = copy; /* check_unref frees what there is of it */
	for (size_t i = 0; i < count; i++) {
		copy[i] = strdup(from[i]);
		if (!copy[i])
			return -ENOMEM;
	}
	return 0;
}

static int copy_config(struct check_config *to, const struct check_config *from)
{
	static const struct status_range ok = { 200, 200 };
	bool given = from->expect_count > 0;
	int r;

	*to = *from;
	to->expect = to->degraded = NULL;
	to->command = NULL;
	for (size_t i = 0; i < ELEMENTS(texts); i++)
		*text_at(to, texts[i]) = NULL;

	for (size_t i = 0; i < ELEMENTS(texts); i++) {
		const char *text = text_of(from, texts[i]);

		if (text) {
			*text_at(to, texts[i]) = strdup(text);
			if (!text_of(to, texts[i]))
				return -ENOMEM;
		}
	}
	r = copy_ranges(given ? from->expect : &ok, given ? from->expect_count : 1, &to->expect,
			&to->expect_count);
	if (r >= 0)
		r = copy_ranges(from->degraded, from->degraded_count, &to->degraded,
				&to->degraded_count);
	if (r >= 0)
		r = copy_command(from->command, &to->command);
	return r;
}

static void free_config(struct check_config *config)
{
	for (size_t i = 0; i < ELEMENTS(texts); i++)
		free(*text_at(config, texts[i]));
	free(config->expect);
	free(config->degraded);
	for (char **argument = config->command; argument && *argument; argument++)
		free(*argument);
	free(config->command);
}

/* ---- whether it makes sense ---- */

static int examine_method(const struct check_config *config, struct usher_error *reterr)
{
	static const char *const known[] = { "GET", "HEAD", "OPTIONS", "POST" };

	if (!config->method)
		return 0;
	for (size_t i = 0; i < ELEMENTS(known); i++)
		if (strcmp(config->method, known[i]) == 0)
			return 0;
	return usher_error_set(reterr, -EINVAL,
			"method: \"%.40s\" is none of GET, HEAD, OPTIONS, POST", config->method);
}

/* RFC 6901: it is empty or begins with '/', and has '~' only as "~0" and "~1". */
static int examine_pointer(const char *pointer, struct usher_error *reterr)
{
	if (pointer[0] && pointer[0] != '/')
		return usher_error_set(reterr, -EINVAL,
				"match: pointer: \"%.80s\" does not begin with '/', as in /status",
				pointer);
	for (const char *tilde = strchr(pointer, '~'); tilde; tilde = strchr(tilde + 1, '~'))
		if (tilde[1] != '0' && tilde[1] != '1')
			return usher_error_set(reterr, -EINVAL,
					"match: pointer: in \"%.80s\", write ~ as ~0 and / as ~1",
					pointer);
	return 0;
}

static int examine_match(const struct check_config *config, struct usher_error *reterr)
{
	bool by_value = config->match_pointer || config->match_value;

	if (config->match_text && by_value)
		return usher_error_set(
				reterr, -EINVAL, "match: give either text, or pointer and value");
	if (by_value && !config->match_value)
		return usher_error_set(reterr, -EINVAL,
				"match: pointer needs the value that it is to lead to");
	if (by_value && !config->match_pointer)
		return usher_error_set(reterr, -EINVAL,
				"match: value needs a pointer to it, such as /status");
	if ((config->match_text || by_value) && config->method &&
			strcmp(config->method, "HEAD") == 0)
		return usher_error_set(reterr, -EINVAL,
				"match: the answer to HEAD has no body; use method: GET");
	return by_value ? examine_pointer(config->match_pointer, reterr) : 0;
}

/* Whether the file has a certificate; what exactly, the TLS library finds out. */
static int examine_ca(const char *path, struct usher_error *reterr)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	autofree char *data = NULL;
	struct stat st;
	ssize_t size;

	if (fd < 0 || fstat(fd, &st) < 0)
		return usher_error_set(reterr, -errno, "tls: ca: cannot read %s: %s", path,
				strerrordesc_np(errno));
	if (!S_ISREG(st.st_mode) || st.st_size > CA_FILE_MAX)
		return usher_error_set(reterr, -EINVAL,
				"tls: ca: %s is no file of certificates in PEM", path);
	data = malloc((size_t) st.st_size + 1);
	if (!data)
		return -ENOMEM;
	size = read(fd, data, (size_t) st.st_size);
	if (size < 0)
		return usher_error_set(reterr, -errno, "tls: ca: cannot read %s: %s", path,
				strerrordesc_np(errno));
	data[size] = '\0';
	if (!strstr(data, "-----BEGIN CERTIFICATE-----") &&
			!strstr(data, "-----BEGIN TRUSTED CERTIFICATE-----"))
		return usher_error_set(reterr, -EINVAL,
				"tls: ca: %s has no certificate in PEM (-----BEGIN CERTIFICATE-----)",
				path);
	return 0;
}

static int examine_tls(const struct check_config *config, struct usher_error *reterr)
{
	int r;

	if (config->tls_ca && !config->tls_verify)
		return usher_error_set(reterr, -EINVAL,
				"tls: ca is of no use with verify: false; leave one of them out");
	if (config->tls_server_name) {
		r = usher_address_check(config->tls_server_name, reterr);
		if (r < 0)
			return usher_error_prefix(reterr, r, "tls: server_name");
	}
	return config->tls_ca ? examine_ca(config->tls_ca, reterr) : 0;
}

static int examine_http(const struct check_config *config, struct usher_error *reterr)
{
	int r;

	r = examine_method(config, reterr);
	if (r >= 0)
		r = examine_match(config, reterr);
	if (r >= 0 && config->path)
		r = http_check_path(config->path, reterr);
	if (r < 0)
		return r;
	if (config->host) {
		r = http_check_host(config->host, NULL, reterr);
		if (r < 0)
			return usher_error_prefix(reterr, r, "host");
	}
	return examine_tls(config, reterr);
}

/* Without a slash it is looked for in PATH, with a placeholder it is another for each endpoint:
 * then only running it tells. */
static int examine_program(const char *program, struct usher_error *reterr)
{
	struct stat st;

	if (!strchr(program, '/') || strchr(program, '{'))
		return 0;
	if (stat(program, &st) < 0 || (S_ISREG(st.st_mode) && access(program, X_OK) < 0))
		return usher_error_set(reterr, -errno, "exec: cannot run %s: %s", program,
				strerrordesc_np(errno));
	if (!S_ISREG(st.st_mode))
		return usher_error_set(
				reterr, -EACCES, "exec: cannot run %s: it is no file", program);
	return 0;
}

static int examine_exec(const struct check_config *config, struct usher_error *reterr)
{
	size_t count = 0;

	while (config->command && config->command[count])
		count++;
	if (count == 0 || !config->command[0][0])
		return usher_error_set(reterr, -EINVAL, "exec: it has no command");
	if (count > CHECK_COMMAND_MAX)
		return usher_error_set(reterr, -E2BIG,
				"exec: the command has %zu words; at most %d are possible", count,
				CHECK_COMMAND_MAX);
	return examine_program(config->command[0], reterr);
}

static int examine(const struct check_config *config, struct usher_error *reterr)
{
	switch (config->kind) {
	case CHECK_HTTP:
		return examine_http(config, reterr);
	case CHECK_GRPC:
		if (config->grpc_service && strlen(config->grpc_service) > USHER_TEXT_MAX)
			return usher_error_set(reterr, -E2BIG,
					"grpc: service has %zu bytes; at most %d are possible",
					strlen(config->grpc_service), USHER_TEXT_MAX);
		return examine_tls(config, reterr);
	case CHECK_EXEC:
		return examine_exec(config, reterr);
	case CHECK_TCP:
		return 0;
	case CHECK_NONE:
		break;
	}
	return usher_error_set(reterr, -EINVAL, "there is no check: give http, tcp, grpc or exec");
}

/* ---- the object ---- */

int check_new(const struct check_config *config, struct check **ret, struct usher_error *reterr)
{
	cleanup(check_unrefp) struct check *c = NULL;
	int r;

	assert(config);

	r = examine(config, reterr);
	if (r < 0)
		return r;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	atomic_init(&c->refs, 1);
	r = copy_config(&c->config, config);
	if (r >= 0)
		*ret = take(c);
	return r;
}

struct check *check_ref(struct check *c)
{
	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	return c;
}

struct check *check_unref(struct check *c)
{
	if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	free_config(&c->config);
	free(c);
	return NULL;
}

const struct check_config *check_config(const struct check *c)
{
	return &c->config;
}

/* ---- comparing ---- */

static bool texts_equal(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool ranges_equal(const struct status_range *a, size_t a_count, const struct status_range *b,
		size_t b_count)
{
	if (a_count != b_count)
		return false;
	for (size_t i = 0; i < a_count; i++)
		if (a[i].first != b[i].first || a[i].last != b[i].last)
			return false;
	return true;
}

static bool commands_equal(char *const *a, char *const *b)
{
	if (!a || !b)
		return a == b;
	while (*a && *b && strcmp(*a, *b) == 0) {
		a++;
		b++;
	}
	return !*a && !*b;
}

bool check_config_equal(const struct check_config *a, const struct check_config *b)
{
	for (size_t i = 0; i < ELEMENTS(texts); i++)
		if (!texts_equal(text_of(a, texts[i]), text_of(b, texts[i])))
			return false;
	return a->kind == b->kind && a->port == b->port && a->keep_alive == b->keep_alive &&
			a->tls == b->tls && a->tls_off == b->tls_off &&
			a->tls_verify == b->tls_verify &&
			ranges_equal(a->expect, a->expect_count, b->expect, b->expect_count) &&
			ranges_equal(a->degraded, a->degraded_count, b->degraded,
					b->degraded_count) &&
			commands_equal(a->command, b->command);
}

bool check_config_keeps_alive(const struct check_config *config)
{
	if (config->kind != CHECK_TCP)
		return config->keep_alive;
	return config->keep_alive && config->send && config->send[0] && config->expect_text;
}
