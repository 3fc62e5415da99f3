#include "ctl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "human.h"
#include "path-segment.h"
#include "verbs.h"

__attribute__((format(printf, 1, 0))) static void say(const char *format, va_list args)
{
	char text[4096];

	(void) vsnprintf(text, sizeof(text), format, args);
	(void) fprintf(stderr, "usherctl: %s\n", human_printable(text));
}

int ctl_fail(enum exit_code code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	return (int) code;
}

int ctl_usage(const struct ctl *ctl, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	if (ctl && ctl->verb)
		(void) fprintf(stderr, "Usage: usherctl %s\nSee: usherctl help %s\n",
				ctl->verb->usage, ctl->verb->name);
	else
		(void) fprintf(stderr, "See: usherctl help\n");
	return EXIT_USAGE;
}

char *ctl_path(const char *format, ...)
{
	autofree char *path = NULL;
	size_t size = 0, length;
	FILE *stream = open_memstream(&path, &size);
	bool fits = true;
	va_list args;

	if (!stream)
		return NULL;
	va_start(args, format);
	while (*format) {
		length = strcspn(format, "%");
		(void) fwrite(format, 1, length, stream);
		format += length;
		if (strncmp(format, "%s", 2) == 0) {
			char segment[PATH_SEGMENT_MAX];

			fits = fits &&
					path_segment_write(va_arg(args, const char *), segment,
							sizeof(segment));
			if (fits)
				(void) fputs(segment, stream);
			format += 2;
		}
	}
	va_end(args);
	if (fclose(stream) != 0 || !fits)
		return NULL;
	return take(path);
}

char *ctl_path_add(char *path, const char *name, const char *value)
{
	autofree char *before = path;
	char escaped[PATH_SEGMENT_MAX];
	char *longer = NULL;

	if (!path || !value)
		return take(before);
	if (!path_segment_write(value, escaped, sizeof(escaped)) ||
			asprintf(&longer, "%s%c%s=%s", path, strchr(path, '?') ? '&' : '?', name,
					escaped) < 0)
		return NULL;
	return longer;
}

static const char *door_socket(const struct ctl *ctl, enum door door)
{
	const char *socket = ctl->options.socket;

	if (socket)
		return socket;
	if (door == DOOR_READ)
		return NULL; /* the library knows */
	socket = secure_getenv("USHER_ADMIN_SOCKET");
	return socket && *socket ? socket : USHER_ADMIN_SOCKET;
}

struct usher_client *ctl_client(struct ctl *ctl, enum door door)
{
	if (ctl->client && ctl->client_door == door)
		return ctl->client;
	usher_client_free(ctl->client);
	ctl->client = usher_client_new(door_socket(ctl, door), NULL);
	ctl->client_door = door;
	return ctl->client;
}

enum exit_code ctl_code_of_errno(int code)
{
	switch (-code) {
	case ECONNREFUSED:
	case ENOENT:
	case ETIMEDOUT:
	case ECONNRESET:
	case EBADMSG:
	case ENAMETOOLONG:
		return EXIT_UNREACHABLE;
	case EACCES:
		return EXIT_NOT_PERMITTED;
	case EINTR:
		return EXIT_INTERRUPTED;
	default:
		return EXIT_FAILED;
	}
}

static enum exit_code code_of_problem(const struct ctl *ctl, int status, const char *code)
{
	switch (status) {
	case 400:
		return EXIT_USAGE;
	case 403:
		return EXIT_NOT_PERMITTED;
	case 404:
		return EXIT_NOT_FOUND;
	case 409:
		return strcmp(code, "refused") == 0 ? EXIT_REFUSED : EXIT_FAILED;
	default:
		return ctl->options.max_age && strcmp(code, "stale") == 0 ? EXIT_STALE
									  : EXIT_FAILED;
	}
}

int ctl_problem(const struct ctl *ctl, int status, const char *body)
{
	cleanup(json_decrefp) json_t *problem = json_loads(body ? body : "", 0, NULL);
	const char *detail = json_string_value(json_object_get(problem, "detail"));
	const char *code = json_string_value(json_object_get(problem, "code"));

	if (!detail)
		detail = json_string_value(json_object_get(problem, "title"));
	if (!code)
		code = "";
	if (!detail)
		return ctl_fail(code_of_problem(ctl, status, code),
				"usherd answered with HTTP status %d and no explanation", status);
	return ctl_fail(code_of_problem(ctl, status, code), "%s (%s)", detail, code);
}

static int parse_answer(const char *text, const char *path, json_t **ret)
{
	json_error_t where = {};
	json_t *answer = *text ? json_loads(text, 0, &where) : json_object();

	if (!answer)
		return ctl_fail(EXIT_FAILED, "usherd's answer to %s is not JSON: line %d: %s", path,
				where.line, where.text);
	*ret = answer;
	return EXIT_DONE;
}

int ctl_call(struct ctl *ctl, enum door door, const char *method, const char *path, json_t *body,
		json_t **ret)
{
	struct usher_client *client = ctl_client(ctl, door);
	autofree char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	autofree char *answer = NULL;
	struct usher_error error = {};

	if (!client || !path || (body && !text))
		return ctl_fail(EXIT_FAILED, "out of memory, or a name is too long");
	ctl->status = usher_client_call(client, method, path, text, &answer, &error);
	if (ctl->status < 0)
		return ctl_fail(ctl_code_of_errno(ctl->status), "%s",
				usher_error_text(&error, ctl->status));
	if (ctl->status >= 300)
		return ctl_problem(ctl, ctl->status, answer);
	return parse_answer(answer, path, ret);
}

int ctl_get(struct ctl *ctl, const char *path, json_t **ret)
{
	return ctl_call(ctl, DOOR_READ, "GET", path, NULL, ret);
}

int ctl_split_target(const struct ctl *ctl, char *argument, const char **ret_service,
		const char **ret_endpoint)
{
	char *slash = strchr(argument, '/');

	if (!slash || slash == argument || !slash[1])
		return ctl_usage(ctl, "\"%s\" is not SERVICE/ENDPOINT, such as catalog/catalog-a",
				argument);
	*slash = 0;
	*ret_service = argument;
	*ret_endpoint = slash + 1;
	return EXIT_DONE;
}
