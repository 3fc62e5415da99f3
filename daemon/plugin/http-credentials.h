#pragma once

/* A token, or a user and a password, given as such or in files that are read again when they
 * change. Secrets are in no message, and wiped when they go. */

#include <stdint.h>
#include <usher/http.h>

#define HTTP_SECRET_MAX       65536
#define HTTP_CREDENTIALS_USEC UINT64_C(1000000) /* files are looked at no more often */

struct http_credentials;

/* Of options that have been checked; NULL when out of memory. A file that cannot be read yet is no
 * error here. */
struct http_credentials *http_credentials_new(const struct usher_http_options *options);
struct http_credentials *http_credentials_free(struct http_credentials *c);

/* Look at the files, if they may have changed; `now`: whatever time has passed. True: something is
 * other than before. What was read before stays in force while its file cannot be read, which is
 * logged when it begins and when it ends. */
bool http_credentials_look(struct http_credentials *c, bool now);
/* The header line that lets the request in, to be freed with http_secret_free(); NULL with 0: none
 * is configured. Errors: EACCES (nothing could be read yet; why), ENOMEM, EMFILE, ENFILE. */
int http_credentials_header(const struct http_credentials *c, enum usher_http_auth auth,
		const char *token_header, char **ret, struct usher_error *reterr);
void http_secret_free(char *secret);
