#include "stream.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <systemd/sd-event.h>

#include "clock.h"
#include "inside.h"
#include "peer.h"

#define MONITOR_EVENTS_MAX 64
#define HTTP_1_0_BLOCK     1024 /* bytes a piece; 1.1 fills the connection's own buffer */

void stream_add(struct stream *stream, struct blob *owner, const char *data, size_t length)
{
	assert(stream->piece_count < STREAM_PIECES_MAX);
	stream->pieces[stream->piece_count++] = (struct stream_piece){
		.owner = blob_ref(owner), .data = data, .length = length
	};
}

void stream_add_static(struct stream *stream, const char *line)
{
	stream_add(stream, NULL, line, strlen(line));
}

void stream_finish(struct stream *stream)
{
	stream->over = true;
}

static void drop_pieces(struct stream *stream)
{
	for (unsigned i = 0; i < stream->piece_count; i++)
		blob_unref(stream->pieces[i].owner);
	stream->piece_count = stream->piece = 0;
	stream->offset = 0;
}

/* Copy what fits of the line under way; a line that is done goes. */
static size_t copy_pieces(struct stream *stream, char *buffer, size_t size)
{
	size_t copied = 0;

	while (stream->piece < stream->piece_count && copied < size) {
		const struct stream_piece *piece = &stream->pieces[stream->piece];
		size_t length = piece->length - stream->offset;

		if (length > size - copied)
			length = size - copied;
		memcpy(buffer + copied, piece->data + stream->offset, length);
		copied += length;
		stream->offset += length;
		if (stream->offset == piece->length) {
			stream->piece++;
			stream->offset = 0;
		}
	}
	if (stream->piece == stream->piece_count)
		drop_pieces(stream);
	return copied;
}

static ssize_t stream_on_pull(void *userdata, uint64_t position, char *buffer, size_t size)
{
	struct stream *stream = userdata;
	size_t filled = 0;

	(void) position;
	if (stream->hung_up)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	stream->moved_usec = clock_boot_usec();
	if (stream->piece_count == 0 && stream->kind->flushed)
		stream->kind->flushed(stream);
	while (filled < size) {
		if (stream->piece_count == 0 && !stream->over)
			stream->kind->next(stream);
		if (stream->piece_count == 0)
			break;
		filled += copy_pieces(stream, buffer + filled, size - filled);
	}
	if (filled > 0)
		return (ssize_t) filled;
	if (stream->over)
		return MHD_CONTENT_READER_END_OF_STREAM;
	stream->suspended = true;
	MHD_suspend_connection(stream->peer->connection);
	return 0;
}

void stream_wake(struct stream *stream)
{
	if (!stream->suspended)
		return;
	stream->suspended = false;
	MHD_resume_connection(stream->peer->connection);
	http_run_soon(&stream->peer->door->http);
}

static void stream_on_over(void *userdata)
{
	struct stream *stream = userdata;
	struct streams *all = &stream->server->streams;

	(void) epoll_ctl(all->monitor, EPOLL_CTL_DEL, stream->peer->fd, NULL);
	if (stream->next)
		stream->next->prev = stream->prev;
	if (stream->prev)
		stream->prev->next = stream->next;
	else
		all->first = stream->next;
	all->count--;
	drop_pieces(stream);
	stream->kind->done(stream);
}

static int answer_with(struct stream *stream, struct request *q)
{
	struct MHD_Response *response;

	response = MHD_create_response_from_callback(
			MHD_SIZE_UNKNOWN, HTTP_1_0_BLOCK, stream_on_pull, stream, stream_on_over);
	if (!response) {
		stream_on_over(stream);
		return -ENOMEM;
	}
	(void) MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, NDJSON_TYPE);
	(void) respond_with(q, MHD_HTTP_OK, response);
	MHD_destroy_response(response); /* over with it, when it was not queued */
	return 0;
}

int stream_start(struct stream *stream, const struct stream_kind *kind, struct request *q)
{
	struct streams *all = &q->server->streams;
	/* Only the end of both directions: a peer that has merely said all it has to say (as `nc
	 * -N` does) still listens. One event for each connection, however long it lasts. */
	struct epoll_event event = { .events = EPOLLHUP | EPOLLERR | EPOLLET, .data.ptr = stream };

	stream->kind = kind;
	stream->server = q->server;
	stream->peer = q->peer;
	stream->moved_usec = q->now_usec;
	stream->next = all->first;
	if (stream->next)
		stream->next->prev = stream;
	all->first = stream;
	all->count++;
	if (epoll_ctl(all->monitor, EPOLL_CTL_ADD, q->peer->fd, &event) < 0) {
		int r = -errno;

		stream_on_over(stream);
		return r;
	}
	return answer_with(stream, q);
}

/* Streams are freed only while libmicrohttpd runs, so every one in the list still is. */
static int monitor_on_ready(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct epoll_event events[MONITOR_EVENTS_MAX];
	int count;

	(void) source;
	(void) revents;
	(void) userdata;
	count = epoll_wait(fd, events, MONITOR_EVENTS_MAX, 0);
	for (int i = 0; i < count; i++) {
		struct stream *stream = events[i].data.ptr;

		stream->hung_up = true;
		stream_wake(stream);
	}
	return 0;
}

int streams_start(struct server *s)
{
	struct streams *all = &s->streams;
	int r;

	all->monitor = epoll_create1(EPOLL_CLOEXEC);
	if (all->monitor < 0)
		return -errno;
	r = sd_event_add_io(s->event, &all->source, all->monitor, EPOLLIN, monitor_on_ready, s);
	if (r < 0)
		return r;
	return 0;
}

void streams_stop(struct server *s)
{
	struct streams *all = &s->streams;

	assert(!all->first);
	all->source = sd_event_source_disable_unref(all->source);
	if (all->monitor >= 0)
		(void) close(all->monitor);
	all->monitor = -1;
}

bool stream_is_stuck(const struct stream *stream, uint64_t now_usec)
{
	return !stream->suspended && stream->piece_count > 0 &&
			now_usec - stream->moved_usec >= STREAM_STUCK_USEC;
}

void streams_cut(struct server *s, const struct door *door)
{
	for (struct stream *stream = s->streams.first; stream; stream = stream->next)
		if (stream->peer->door == door)
			stream_cut(stream);
}

void stream_cut(struct stream *stream)
{
	stream->hung_up = true;
	(void) shutdown(stream->peer->fd, SHUT_RDWR);
	stream_wake(stream);
}
