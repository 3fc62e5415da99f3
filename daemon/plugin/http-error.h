#pragma once

#include <stdbool.h>

#include <curl/curl.h>

/* A negative errno for a code other than CURLE_OK. */
int http_error_code(CURLcode code);

/* What to do about it, to stand behind the words for it; "": nothing more can be said. */
const char *http_error_remedy(CURLcode code);
