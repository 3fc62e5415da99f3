#pragma once

/* What may stand in an HTTP request, so that nothing of the configuration or of an endpoint's
 * metadata breaks one apart. */

#include <stdint.h>
#include <usher/error.h>

/* The path with its query: visible ASCII, no fragment, no scheme. A missing slash at its beginning
 * is fine: it is put there. EINVAL, with the remedy. */
int http_check_path(const char *path, struct usher_error *reterr);
/* "name", "name:port" or "[fd00::10]:8080". ret_name, which may be NULL, gets it without port and
 * brackets and needs USHER_TEXT_MAX bytes. EINVAL. */
int http_check_host(const char *host, char *ret_name, struct usher_error *reterr);
