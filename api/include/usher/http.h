#pragma once

/* HTTP for discovery plug-ins: hundreds of requests at once in the one thread of a source, over few
 * connections, pulled as events, so that a plug-in stays readable from top to bottom.
 *
 *   usher_http_check()    in the plug-in's init: whether its options can be meant
 *   usher_http_new()      the servers of a registry, how to trust them and how to be trusted
 *   usher_http_start()    begin a request; its tag says which it is
 *   usher_source_wait()   comes back with USHER_WAIT_HTTP
 *   usher_http_next()     one event after the other, until there is none
 *
 * A request goes to the server that answered last. When a server gives no answer, whatever the
 * reason, the next request goes to the next one; the first is drawn at random, so that a thousand
 * daemons do not ask the same. Redirections are not followed: credentials go nowhere they were not
 * meant for.
 *
 * Files with credentials are looked at again when they have changed, at most once a second, and at
 * once after a 401. What is secret is in no message.
 *
 * Thread: everything here belongs to the thread that made it, which is that of `run`, or of the
 * registration's functions. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct usher_source;
struct usher_http;

#define USHER_HTTP_SERVERS_MAX  64
#define USHER_HTTP_REQUESTS_MAX 4096
#define USHER_HTTP_HEADERS_MAX  64
/* Of an answer that is given whole, and of what waits of a stream, where the request does not say
 * less. */
#define USHER_HTTP_ANSWER_MAX (UINT64_C(64) << 20)
/* Of all answers of one registry together that have not been given yet. The one that would be over
 * it fails with EMSGSIZE. */
#define USHER_HTTP_HELD_MAX (UINT64_C(128) << 20)

enum usher_http_auth {
	USHER_HTTP_AUTH_NONE,
	USHER_HTTP_AUTH_BEARER, /* Authorization: Bearer TOKEN */
	USHER_HTTP_AUTH_TOKEN,  /* token_header: TOKEN */
	USHER_HTTP_AUTH_BASIC,  /* user and password */
};

/* What a plug-in's users say about its registry. Embed it in the instance, and USHER_HTTP_OPTIONS
 * in the table of options, so that every registry is configured in the same words. */
struct usher_http_options {
	const char *const *
			servers; /* base URLs: "http://10.0.0.1:8500", "https://[fd00::1]/eureka" */
	const char *ca;          /* file; NULL: the system's */
	const char *certificate, *key; /* files of the client's own */
	const char *server_name;       /* to verify, and for SNI; NULL: the URL's host */
	bool verify;                   /* default true */
	const char *token, *token_file;
	const char *user, *password, *password_file;
	int64_t connections; /* to one server at once; others wait. 1..1000 */
	uint64_t connect_timeout_usec;
};

/* For a registry that can be found in other ways, too: servers_flags is 0 there. */
#define USHER_HTTP_OPTIONS_WITH(instance_type, member, servers_flags)                                                              \
	{                                                                                                                          \
		.name = "servers",                                                                                                 \
		.type = USHER_OPTION_STRINGS,                                                                                      \
		.offset = offsetof(instance_type, member.servers),                                                                 \
		.flags = (servers_flags),                                                                                          \
		.help = "Where the registry is: http:// or https:// with host and port; several are tried in turn."                \
	},                                                                                                                         \
			{ .name = "ca",                                                                                            \
				.type = USHER_OPTION_PATH,                                                                         \
				.offset = offsetof(instance_type, member.ca),                                                      \
				.help = "The certificates that the registry's is verified with; when absent, the system's." },     \
			{ .name = "certificate",                                                                                   \
				.type = USHER_OPTION_PATH,                                                                         \
				.offset = offsetof(instance_type, member.certificate),                                             \
				.help = "The client's own certificate, in PEM." },                                                 \
			{ .name = "key",                                                                                           \
				.type = USHER_OPTION_PATH,                                                                         \
				.offset = offsetof(instance_type, member.key),                                                     \
				.help = "The key of the client's certificate, in PEM." },                                          \
			{ .name = "server_name",                                                                                   \
				.type = USHER_OPTION_STRING,                                                                       \
				.offset = offsetof(instance_type, member.server_name),                                             \
				.help = "The name that the registry's certificate must have; when absent, the host of its URL." }, \
			{ .name = "verify",                                                                                        \
				.type = USHER_OPTION_BOOL,                                                                         \
				.offset = offsetof(instance_type, member.verify),                                                  \
				.default_text = "true",                                                                            \
				.help = "Whether the registry's certificate is verified; false is for trying only." },             \
			{ .name = "token",                                                                                         \
				.type = USHER_OPTION_STRING,                                                                       \
				.offset = offsetof(instance_type, member.token),                                                   \
				.flags = USHER_SECRET,                                                                             \
				.help = "The token to be let in with." },                                                          \
			{ .name = "token_file",                                                                                    \
				.type = USHER_OPTION_PATH,                                                                         \
				.offset = offsetof(instance_type, member.token_file),                                              \
				.help = "A file that holds the token; read again when it changes." },                              \
			{ .name = "user",                                                                                          \
				.type = USHER_OPTION_STRING,                                                                       \
				.offset = offsetof(instance_type, member.user),                                                    \
				.help = "The user to be let in as." },                                                             \
			{ .name = "password",                                                                                      \
				.type = USHER_OPTION_STRING,                                                                       \
				.offset = offsetof(instance_type, member.password),                                                \
				.flags = USHER_SECRET,                                                                             \
				.help = "The user's password." },                                                                  \
			{ .name = "password_file",                                                                                 \
				.type = USHER_OPTION_PATH,                                                                         \
				.offset = offsetof(instance_type, member.password_file),                                           \
				.help = "A file that holds the password; read again when it changes." },                           \
			{ .name = "connections",                                                                                   \
				.type = USHER_OPTION_INTEGER,                                                                      \
				.offset = offsetof(instance_type, member.connections),                                             \
				.default_text = "64",                                                                              \
				.min = 1,                                                                                          \
				.max = 1000,                                                                                       \
				.help = "How many connections there may be to one server; more requests wait." },                  \
	{                                                                                                                          \
		.name = "connect_timeout", .type = USHER_OPTION_DURATION,                                                          \
		.offset = offsetof(instance_type, member.connect_timeout_usec),                                                    \
		.default_text = "3s", .help = "How long a connection may take to be made."                                         \
	}

#define USHER_HTTP_OPTIONS(instance_type, member) \
	USHER_HTTP_OPTIONS_WITH(instance_type, member, USHER_REQUIRED)

/* What the plug-in itself knows of its registry. */
struct usher_http_config {
	size_t size;
	const struct usher_http_options *options; /* borrowed for as long as the usher_http */
	enum usher_http_auth auth; /* how the token or password is sent, where there is one */
	const char *token_header;  /* of USHER_HTTP_AUTH_TOKEN: "X-Consul-Token" */
	const char *ca_data, *certificate_data,
			*key_data; /* PEM instead of files; copied. NULL: none */
	const char *accept;        /* of the header Accept; NULL: application/json */
};

/* Whether they can be what their author means. Call it in the plug-in's init, so that what is wrong
 * is refused when the configuration is loaded, and not found out by a source that can never work.
 * It looks at no file and asks nobody. Errors: EINVAL (a server that is no URL or holds a secret,
 * token and token_file both, a certificate without key, ...), E2BIG (USHER_HTTP_SERVERS_MAX),
 * ENOMEM; with a message that begins with the option ("servers[1]: ...") and shows no secret. */
int usher_http_check(const struct usher_http_options *options, struct usher_error *reterr);

/* source: whose wait the events end; NULL: none, for usher_http_do() alone. Errors: those of
 * usher_http_check(), E2BIG, ENOMEM; with a message. */
int usher_http_new(struct usher_source *source, const struct usher_http_config *config,
		struct usher_http **ret, struct usher_error *reterr);
struct usher_http *usher_http_free(struct usher_http *h); /* its requests end without an event */

enum usher_http_flags {
	USHER_HTTP_STREAM = 1u << 0, /* the answer comes in pieces, as it arrives */
};

struct usher_http_request {
	size_t size;
	const char *method; /* NULL: GET */
	const char *path;   /* behind the server's base URL, with the query; begins with "/" */
	const char *const *headers; /* "Name: value", NULL-terminated; NULL: none more */
	const char *body;           /* copied; NULL: none */
	size_t body_size;
	unsigned flags;        /* enum usher_http_flags */
	uint64_t timeout_usec; /* for the whole answer; 0: 10 s, for a stream no limit */
	uint64_t idle_usec; /* without a byte for so long it failed: silence is no proof of life; 0:
			       no limit */
	uint64_t max_bytes; /* of the answer, of a stream between two events; 0:
			       USHER_HTTP_ANSWER_MAX */
	void *tag;          /* handed back with each event */
};

/* Begin. Everything given is copied. Errors: EINVAL, E2BIG (USHER_HTTP_REQUESTS_MAX), ENOMEM; what
 * goes wrong on the way comes as an event. */
int usher_http_start(
		struct usher_http *h, const struct usher_http_request *request, uint64_t *ret_id);
/* That server (of an event; NULL: none) answers, but not as it should: ask another one from now on.
 * Of many requests under way there, the first that is told so moves them all. */
void usher_http_leave(struct usher_http *h, const char *server);
/* Break off; no event of it comes any more. An id that is over is fine. */
void usher_http_cancel(struct usher_http *h, uint64_t id);

enum usher_http_event_kind {
	USHER_HTTP_BEGIN, /* of a stream: status and headers are there */
	USHER_HTTP_DATA,  /* of a stream: data, the next piece */
	USHER_HTTP_END,   /* over: failed, where `error` is not 0; else data is the whole answer, or
			     nothing more for a stream */
};

struct usher_http_event {
	size_t size;
	uint64_t id;
	void *tag;
	enum usher_http_event_kind kind;
	int status;       /* 0: none came */
	const char *data; /* ended by a zero byte that does not count; borrowed until the next call
			     of usher_http_next() or usher_http_cancel() */
	size_t data_size;
	int error; /* negative errno: ECONNREFUSED, EHOSTUNREACH, ETIMEDOUT (also idle), ECONNRESET
		      (it ended early), EPROTO (no HTTP, TLS), EACCES (the certificate), EMSGSIZE,
		      ... */
	struct usher_error why; /* in words, with the server: for usher_source_fail() */
	const char *server;     /* the base URL of the one that was asked */
	uint64_t started_usec;  /* when it was sent, or sent again: the time of observation of an
				   answer; CLOCK_BOOTTIME */
};

/* The next event, if there is one. ret->size says how much of it the caller knows; use
 * USHER_HTTP_EVENT_INIT. */
bool usher_http_next(struct usher_http *h, struct usher_http_event *ret);
#define USHER_HTTP_EVENT_INIT                           \
	{                                               \
		.size = sizeof(struct usher_http_event) \
	}
/* A header of the answer that the event belongs to, in any case of letters, or NULL. Borrowed as
 * its data. */
const char *usher_http_header(
		struct usher_http *h, const struct usher_http_event *event, const char *name);

/* A request that is waited for: for registration, and for what comes before a watch. The event is
 * an END; its data are borrowed until the next call. Returns its error. In the thread of `run` an
 * order to stop breaks it off (ECANCELED). */
int usher_http_do(struct usher_http *h, const struct usher_http_request *request,
		struct usher_http_event *ret, struct usher_error *reterr);

/* A status that is no success, as an error for usher_source_fail(): EACCES for 401 and 403, ENOENT
 * for 404, EAGAIN for 429 and 503, EIO else; with the status, the server and the first line of the
 * answer cut short. 0 for 2xx. */
int usher_http_status_error(const struct usher_http_event *event, struct usher_error *reterr);

/* Append text to a path, percent-encoded as a segment or a value of the query. False: no room. */
bool usher_http_escape(char *path, size_t size, const char *text);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
