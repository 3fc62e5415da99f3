#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "http-private.h"
#include "ownership.h"

/* One secret, and the file that it is in. */
struct secret {
	const char *name;  /* of its option */
	const char *given; /* in the options; NULL: none */
	const char *file;  /* NULL: none */
	char *text;        /* in force; NULL: none could be read yet */
	struct stat last;
	bool seen;
	struct usher_error why; /* it could not be read the last time; code 0: it could */
};

struct http_credentials {
	const char *user;
	struct secret token, password;
	uint64_t looked_usec;
};

DEFINE_CLEANUP(struct http_credentials, http_credentials_free);
DEFINE_CLEANUP(char, http_secret_free);

void http_secret_free(char *secret)
{
	if (!secret)
		return;
	explicit_bzero(secret, strlen(secret));
	free(secret);
}

static int secret_init(struct secret *s, const char *name, const char *given, const char *file)
{
	s->name = name;
	s->given = given;
	s->file = file;
	if (!given)
		return 0;
	s->text = strdup(given);
	return s->text ? 0 : -ENOMEM;
}

struct http_credentials *http_credentials_new(const struct usher_http_options *options)
{
	cleanup(http_credentials_freep) struct http_credentials *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->user = options->user;
	if (secret_init(&c->token, "token", options->token, options->token_file) < 0 ||
			secret_init(&c->password, "password", options->password,
					options->password_file) < 0)
		return NULL;
	return take(c);
}

struct http_credentials *http_credentials_free(struct http_credentials *c)
{
	if (!c)
		return NULL;
	http_secret_free(c->token.text);
	http_secret_free(c->password.text);
	free(c);
	return NULL;
}

/* ---- files ---- */

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
			a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
			a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* What cannot be read is no secret, whatever errno would call it. */
static int check_kind(const struct stat *s)
{
	if (S_ISDIR(s->st_mode))
		return -EISDIR;
	return S_ISREG(s->st_mode) ? 0 : -EINVAL;
}

static const char *failure_words(int code)
{
	switch (code) {
	case -ENOENT:
		return "there is no such file";
	case -EACCES:
		return "usherd may not read it";
	case -EISDIR:
		return "is a folder, and has to be a file";
	case -EINVAL:
		return "is a pipe, a socket or a device, and has to be a file";
	case -ENODATA:
		return "is empty";
	case -EBADMSG:
		return "holds more than one line of text";
	case -EMSGSIZE:
		return "is too large to be a secret";
	default:
		return usher_error_text(NULL, code);
	}
}

/* The whole of a small file, without the line end that editors leave. */
static int read_secret(const char *path, struct stat *ret_stat, char **ret)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	cleanup(http_secret_freep) char *text = NULL;
	size_t size = 0;
	int r;

	if (fd < 0 || fstat(fd, ret_stat) < 0)
		return -errno;
	r = check_kind(ret_stat);
	if (r < 0)
		return r;
	text = calloc(1, HTTP_SECRET_MAX + 2);
	if (!text)
		return -ENOMEM;
	while (size <= HTTP_SECRET_MAX) {
		ssize_t n = read(fd, text + size, HTTP_SECRET_MAX + 1 - size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		size += (size_t) n;
	}
	if (size > HTTP_SECRET_MAX)
		return -EMSGSIZE;
	while (size > 0 && strchr("\r\n \t", text[size - 1]))
		text[--size] = '\0';
	if (size == 0)
		return -ENODATA;
	if (strlen(text) != size || !http_text_is_plain(text))
		return -EBADMSG;
	*ret = take(text);
	return 0;
}

/* Said when it begins and when it ends, and not of a file that was never read: whoever needs that
 * one fails, with the same words. */
static void log_change(const struct secret *s, const struct usher_error *before)
{
	if (!s->text || !s->why.code == !before->code)
		return;
	if (s->why.code < 0)
		usher_log(USHER_LOG_WARNING, "%s; going on with what it held before", s->why.text);
	else
		usher_log(USHER_LOG_INFO, "%s_file %s: can be read again", s->name, s->file);
}

/* > 0: the secret is another. */
static int secret_read(struct secret *s)
{
	cleanup(http_secret_freep) char *text = NULL;
	struct usher_error why = {};
	struct stat now;
	int r = read_secret(s->file, &now, &text);

	s->why = why;
	if (r < 0)
		return usher_error_set(
				&s->why, r, "%s_file %s: %s", s->name, s->file, failure_words(r));
	assert(text);
	s->last = now;
	s->seen = true;
	if (s->text && strcmp(s->text, text) == 0)
		return 0;
	http_secret_free(s->text);
	s->text = take(text);
	return 1;
}

static int secret_look(struct secret *s)
{
	struct usher_error before = s->why;
	struct stat now;
	int r;

	if (!s->file)
		return 0;
	if (s->seen && !before.code && stat(s->file, &now) == 0 && same_file(&now, &s->last))
		return 0;
	r = secret_read(s);
	log_change(s, &before);
	return r;
}

bool http_credentials_look(struct http_credentials *c, bool now)
{
	uint64_t now_usec = clock_boot_usec();
	int token, password;

	if (!now && c->looked_usec != 0 && now_usec - c->looked_usec < HTTP_CREDENTIALS_USEC)
		return false;
	c->looked_usec = now_usec;
	token = secret_look(&c->token);
	password = secret_look(&c->password);
	return token > 0 || password > 0;
}

/* ---- headers ---- */

/* Nothing could be read yet: as good as being denied, but for what is our own trouble. */
static int not_there(const struct secret *s, struct usher_error *reterr)
{
	int code = s->why.code;

	if (code != -ENOMEM && code != -EMFILE && code != -ENFILE)
		code = -EACCES;
	return usher_error_set(reterr, code, "%s", s->why.text);
}

static char *format_secret(const char *name, const char *scheme, const char *secret)
{
	char *line = NULL;

	return asprintf(&line, "%s: %s%s", name, scheme, secret) < 0 ? NULL : line;
}

/* RFC 4648, section 4. */
static char *base64(const char *text)
{
	static const char digits[] =
			"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t size = strlen(text), at = 0;
	char *out = calloc(1, (size + 2) / 3 * 4 + 1);

	for (size_t i = 0; out && i < size; i += 3) {
		size_t have = size - i < 3 ? size - i : 3;
		uint32_t bits = 0;

		for (size_t k = 0; k < 3; k++)
			bits = bits << 8 | (k < have ? (unsigned char) text[i + k] : 0);
		for (size_t k = 0; k < 4; k++)
			out[at++] = k <= have ? digits[bits >> (18 - 6 * k) & 63] : '=';
	}
	return out;
}

static int basic_header(const struct http_credentials *c, char **ret, struct usher_error *reterr)
{
	cleanup(http_secret_freep) char *pair = NULL;
	cleanup(http_secret_freep) char *encoded = NULL;

	if (c->password.file && !c->password.text)
		return not_there(&c->password, reterr);
	if (asprintf(&pair, "%s:%s", c->user, c->password.text ? c->password.text : "") < 0)
		pair = NULL;
	encoded = pair ? base64(pair) : NULL;
	*ret = encoded ? format_secret("Authorization", "Basic ", encoded) : NULL;
	return *ret ? 0 : -ENOMEM;
}

int http_credentials_header(const struct http_credentials *c, enum usher_http_auth auth,
		const char *token_header, char **ret, struct usher_error *reterr)
{
	bool has_token = c->token.given || c->token.file;

	*ret = NULL;
	if (auth == USHER_HTTP_AUTH_NONE)
		return 0;
	if (!has_token)
		return c->user ? basic_header(c, ret, reterr) : 0;
	if (!c->token.text)
		return not_there(&c->token, reterr);
	*ret = auth == USHER_HTTP_AUTH_TOKEN
			? format_secret(token_header, "", c->token.text)
			: format_secret("Authorization", "Bearer ", c->token.text);
	return *ret ? 0 : -ENOMEM;
}
