#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <usher/client.h>

#include "client-private.h"
#include "line-splitter.h"
#include "ownership.h"
#include "transfer.h"

#define CALL_TIMEOUT_USEC UINT64_C(30000000)

struct usher_client {
	struct transfer *transfer;
	uint64_t timeout_usec;
};

struct usher_client *usher_client_new(const char *socket, const char *name)
{
	struct usher_client *client;

	if (!socket || !*socket)
		socket = secure_getenv("USHER_SOCKET");
	if (!socket || !*socket)
		socket = USHER_CONSUMER_SOCKET;
	client = calloc(1, sizeof(*client));
	if (!client)
		return NULL;
	client->timeout_usec = CALL_TIMEOUT_USEC;
	client->transfer = transfer_new(socket, name);
	if (!client->transfer)
		return usher_client_free(client);
	return client;
}

struct usher_client *usher_client_free(struct usher_client *client)
{
	if (!client)
		return NULL;
	transfer_free(client->transfer);
	free(client);
	return NULL;
}

const char *usher_client_socket(const struct usher_client *client)
{
	return transfer_socket(client->transfer);
}

void usher_client_set_timeout(struct usher_client *client, uint64_t timeout_usec)
{
	client->timeout_usec = timeout_usec;
}

void usher_client_interrupt(struct usher_client *client)
{
	transfer_interrupt(client->transfer);
}

struct transfer *client_transfer(struct usher_client *client)
{
	return client->transfer;
}

int usher_client_call(struct usher_client *client, const char *method, const char *path,
		const char *body, char **ret_body, struct usher_error *reterr)
{
	const struct transfer_request request = {
		.method = method,
		.path = path,
		.body = body,
		.timeout_usec = client->timeout_usec,
	};

	if (!method || !path || *path != '/' || !ret_body)
		return usher_error_set(reterr, -EINVAL,
				"a call needs a method, a path from /, and a place for the answer");
	return transfer_run(client->transfer, &request, ret_body, reterr);
}

struct stream {
	struct line_splitter splitter;
	usher_client_line line;
	void *userdata;
	bool stopped; /* by the caller's function, not by a failure of ours */
};

static int stream_on_line(void *userdata, const char *line, size_t length)
{
	struct stream *stream = userdata;
	int r = stream->line(stream->userdata, line, length);

	stream->stopped = r != 0;
	return r;
}

static int stream_on_bytes(void *userdata, const char *data, size_t length)
{
	struct stream *stream = userdata;

	return line_splitter_add(&stream->splitter, data, length, stream_on_line, stream);
}

int usher_client_stream(struct usher_client *client, const char *path, usher_client_line line,
		void *userdata, char **ret_body, struct usher_error *reterr)
{
	struct stream stream = {
		.splitter = { .maximum = USHER_LINE_MAX },
		.line = line,
		.userdata = userdata,
	};
	const struct transfer_request request = {
		.method = "GET",
		.path = path,
		.timeout_usec = client->timeout_usec,
		.sink = stream_on_bytes,
		.userdata = &stream,
	};
	struct usher_error error = {};
	int r;

	if (!path || *path != '/' || !line || !ret_body)
		return usher_error_set(reterr, -EINVAL,
				"a stream needs a path from /, a function for its lines, and a place for the answer");
	r = transfer_run(client->transfer, &request, ret_body, &error);
	line_splitter_done(&stream.splitter);
	if (r >= 0 || stream.stopped)
		return r;
	if (r == -E2BIG)
		return usher_error_set(reterr, r,
				"a line of %s is longer than the %zu bytes that are taken", path,
				USHER_LINE_MAX);
	return usher_error_set(reterr, r, "%s", usher_error_text(&error, r));
}
