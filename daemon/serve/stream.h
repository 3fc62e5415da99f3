#pragma once

/* An answer that goes on: lines of JSON, one after another, to a peer that takes them at its own
 * pace.
 *
 * libmicrohttpd pulls; between lines the connection is suspended, and a monitor of ours notices
 * when the peer hangs up, which libmicrohttpd does not. So a stream holds only the line under way:
 * what comes next is decided when there is room for it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blob.h"

#define STREAM_PIECES_MAX 3
/* A peer that does not take a byte of a line for so long, while something newer waits, is cut off:
 * it would keep old texts alive. */
#define STREAM_STUCK_USEC UINT64_C(60000000)

struct MHD_Connection;
struct peer;
struct request;
struct server;
struct stream;

/* Part of a line: of a shared text, which is then referenced, or static. */
struct stream_piece {
	struct blob *owner;
	const char *data;
	size_t length;
};

struct stream_kind {
	/* Add the pieces of the next line with stream_add(); none: nothing to say now. */
	void (*next)(struct stream *stream);
	/* Everything added so far is written to the socket. NULL: nobody asks. */
	void (*flushed)(struct stream *stream);
	/* It is over; free what embeds it. */
	void (*done)(struct stream *stream);
};

struct stream {
	const struct stream_kind *kind;
	struct server *server;
	struct peer *peer;
	struct stream *next, *prev; /* of the server */
	struct stream_piece pieces[STREAM_PIECES_MAX];
	unsigned piece_count, piece;
	size_t offset; /* into the piece under way */
	uint64_t moved_usec;
	bool suspended;
	bool over;    /* ends after the pieces it has */
	bool hung_up; /* ends at once */
};

/* Every stream of the server, and the monitor. */
struct streams {
	struct stream *first;
	size_t count;
	int monitor; /* epoll */
	struct sd_event_source *source;
};

int streams_start(struct server *s);
void streams_stop(struct server *s);
/* Everybody who came by the door. */
struct door;
void streams_cut(struct server *s, const struct door *door);

/* Answer the request with the stream, which is zero but for what its kind needs; kind->done() frees
 * it in any case. Returns 0 for the handler to return, or a negative errno. */
int stream_start(struct stream *stream, const struct stream_kind *kind, struct request *q);
/* There may be something to say. */
void stream_wake(struct stream *stream);
/* End after what has been added: next() is not asked again. For use in next(). */
void stream_finish(struct stream *stream);
void stream_add(struct stream *stream, struct blob *owner, const char *data, size_t length);
void stream_add_static(struct stream *stream, const char *line);
/* Cut off whoever is stuck in a line that began before that. */
bool stream_is_stuck(const struct stream *stream, uint64_t now_usec);
void stream_cut(struct stream *stream);
