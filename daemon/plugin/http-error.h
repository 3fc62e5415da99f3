#pragma once

#include <stdbool.h>

#include <curl/curl.h>

/* A negative errno for a code other than CURLE_OK. */
int http_error_code(CURLcode code);
/* Whether the server as such could not be reached or trusted, so that another one may do better. */
bool http_error_is_connecting(CURLcode code);
