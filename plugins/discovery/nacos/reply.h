#pragma once

/* The smaller things that a server of Nacos says. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/error.h>

/* The names of a page of services, and how many there are on all pages; free them with
 * reply_names_free(). EBADMSG, ENOMEM. */
int reply_parse_names(const char *text, size_t size, char ***ret_names, size_t *ret_count,
		size_t *ret_total, struct usher_error *reterr);
void reply_names_free(char **names, size_t count);

/* The token of a login, and for how long it is good. EBADMSG, ENOMEM. */
int reply_parse_login(const char *text, size_t size, char **ret_token, uint64_t *ret_ttl_usec,
		struct usher_error *reterr);

/* Whether the API itself has answered, and not the server around it. */
bool reply_is_envelope(const char *text, size_t size);
/* Whether a call was done, where a status of 200 alone does not say it: 0, or ENOENT for a sign of
 * life of what the server does not know, EIO for another code, with its words. EBADMSG, ENOMEM. */
int reply_check(const char *text, size_t size, struct usher_error *reterr);
