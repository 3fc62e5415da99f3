#pragma once

#include <stdbool.h>

#include <curl/curl.h>

/* A negative errno for a code other than CURLE_OK. */
int http_error_code(CURLcode code);
