/* A hook that calls a URL. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errand.h"
#include "hook-kind.h"
#include "http-call.h"
#include "ownership.h"
#include "text.h"

struct http_errand {
	struct errand errand;
	struct http_call call;
	char *method, *url, *header, *body; /* the call's */
	int status;
	struct usher_error error;
};

struct hook_http {
	struct hook hook;
	struct http_errand *errand; /* NULL once it is over */
};

static void http_errand_run(struct errand *errand)
{
	struct http_errand *http = (struct http_errand *) errand;

	http->status = http_call(&http->call, &http->error);
}

static void http_errand_finished(void *userdata, struct errand *errand)
{
	struct hook_http *hook = userdata;
	struct http_errand *http = (struct http_errand *) errand;
	char text[USHER_ERROR_TEXT_MAX], shown[256];

	hook->errand = NULL;
	if (http->status < 0) {
		hook_finish(&hook->hook, http->status,
				usher_error_text(&http->error, http->status));
		return;
	}
	(void) snprintf(text, sizeof(text), "%s %s answered %d", http->method,
			http_call_show(http->url, shown, sizeof(shown)), http->status);
	hook_finish(&hook->hook, http->status / 100 == 2 ? 0 : -EIO, text);
}

static void http_errand_release(struct errand *errand)
{
	struct http_errand *http = (struct http_errand *) errand;

	free(http->method);
	free(http->url);
	free(http->header);
	free(http->body);
	free(http);
}

static void hook_http_release(struct hook *hook)
{
	struct hook_http *http = (struct hook_http *) hook;

	if (http->errand)
		(void) errand_forget(&http->errand->errand);
	free(http);
}

static char *make_body(const struct hook_call *call)
{
	cleanup(text_done) struct text text = {};
	struct usher_endpoint e;

	usher_endpoints_get(call->endpoint, 0, &e);
	text_add_string(&text, "{\"token\": ");
	text_add_json(&text, call->token);
	text_add_string(&text, ", \"drain\": ");
	text_add_json(&text, call->drain);
	text_add_string(&text, ", \"service\": ");
	text_add_json(&text, call->service);
	text_add_string(&text, ", \"endpoint\": ");
	text_add_json(&text, e.id);
	text_add_string(&text, ", \"address\": ");
	text_add_json(&text, e.address);
	text_add_format(&text, ", \"port\": %u, \"uid\": ", (unsigned) e.port);
	text_add_json(&text, e.uid);
	text_add_string(&text, ", \"step\": ");
	text_add_json(&text, call->step);
	text_add_format(&text, ", \"ready\": %s, \"attempt\": %u}", call->ready ? "true" : "false",
			call->attempt);
	return text_take(&text);
}

static int http_errand_fill(
		struct http_errand *http, const struct hook_call *call, struct usher_error *reterr)
{
	static const char *const with_body[] = { "POST", "PUT" };
	int r;

	r = hook_expand(call->config->url, call, true, &http->url, reterr);
	if (r < 0)
		return r;
	http->method = strdup(call->config->method ? call->config->method : "POST");
	if (!http->method)
		return -ENOMEM;
	if (asprintf(&http->header, "Idempotency-Key: %s", call->token) < 0) {
		http->header = NULL;
		return -ENOMEM;
	}
	for (size_t i = 0; i < ELEMENTS(with_body); i++)
		if (strcmp(http->method, with_body[i]) == 0) {
			http->body = make_body(call);
			if (!http->body)
				return -ENOMEM;
		}

	http->call = (struct http_call){ .method = http->method,
		.url = http->url,
		.header = http->header,
		.body = http->body,
		.timeout_usec = call->config->timeout_usec };
	return 0;
}

int hook_http_start(struct hook_host *host, const struct hook_call *call, struct hook **ret,
		struct usher_error *reterr)
{
	autofree struct hook_http *hook = calloc(1, sizeof(*hook));
	struct http_errand *http = calloc(1, sizeof(*http));
	int r;

	if (!hook || !http) {
		free(http);
		return -ENOMEM;
	}
	http->errand = (struct errand){ .run = http_errand_run,
		.finished = http_errand_finished,
		.release = http_errand_release,
		.userdata = hook };
	http->status = -ECANCELED;
	r = http_errand_fill(http, call, reterr);
	if (r < 0) {
		http_errand_release(&http->errand);
		return r;
	}

	r = errand_start(&http->errand, host->worker);
	if (r < 0)
		return usher_error_set(reterr, r, "cannot start a thread for it");
	hook->hook.release = hook_http_release;
	hook->errand = http;
	*ret = &take(hook)->hook;
	return 0;
}
