/* What a TCP check says over a connection, and what it is to hear. */

#include "tcp-talk.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define SHOWN_MAX 40 /* bytes of an answer in a verdict */

static const struct check_config *config_of(const struct tcp_talk *talk)
{
	return check_config(talk->attempt->target->check);
}

void tcp_talk_stop(struct tcp_talk *talk)
{
	if (talk->is_on)
		shard_watch_remove(talk->shard, &talk->watch);
	talk->is_on = false;
}

static void finish(struct tcp_talk *talk, const struct verdict *verdict)
{
	tcp_talk_stop(talk);
	talk->done(talk, verdict);
}

static void fail(struct tcp_talk *talk, int error, const char *doing)
{
	struct verdict verdict;

	verdict_set_errno(&verdict, error, doing);
	finish(talk, &verdict);
}

static void succeed(struct tcp_talk *talk, const char *text)
{
	struct verdict verdict;

	verdict_set(&verdict, PROBE_OK, 0, "%s", text);
	finish(talk, &verdict);
}

/* ---- hearing ---- */

static void hear(struct tcp_talk *talk, const char *data, size_t size)
{
	const char *expected = config_of(talk)->expect_text;
	size_t left = strlen(expected) - talk->matched;
	size_t length = size < left ? size : left;
	struct verdict verdict;

	talk->attempt->bytes_received += (uint32_t) size;
	if (memcmp(data, expected + talk->matched, length) != 0) {
		verdict_set(&verdict, PROBE_BODY, 0, "it answers \"%.*s%.*s\", expected \"%.40s\"",
				(int) (talk->matched < SHOWN_MAX ? talk->matched : SHOWN_MAX),
				expected, (int) (size < SHOWN_MAX ? size : SHOWN_MAX), data,
				expected);
		finish(talk, &verdict);
		return;
	}
	talk->matched += length;
	if (!expected[talk->matched])
		succeed(talk, "it answers as expected");
}

static void receive(struct tcp_talk *talk)
{
	struct verdict verdict;
	char buffer[4096];
	ssize_t size;

	size = recv(talk->watch.fd, buffer, sizeof(buffer), MSG_DONTWAIT);
	if (size > 0) {
		hear(talk, buffer, (size_t) size);
	} else if (size == 0) {
		verdict_set(&verdict, PROBE_RESET, 0,
				"it closes the connection after %zu bytes, expected \"%.40s\"",
				talk->matched, config_of(talk)->expect_text);
		finish(talk, &verdict);
	} else if (errno != EAGAIN && errno != EINTR) {
		fail(talk, errno, "receive");
	}
}

/* ---- saying ---- */

/* Once all is said: what is to be heard, or nothing more. */
static void turn_to_hearing(struct tcp_talk *talk)
{
	const char *expected = config_of(talk)->expect_text;
	int r;

	if (!expected || !expected[0]) {
		succeed(talk, "it takes what is sent");
		return;
	}
	talk->has_spoken = true;
	talk->attempt->phase = "waiting for the answer";
	r = shard_watch_change(talk->shard, &talk->watch, EPOLLIN);
	if (r < 0)
		fail(talk, -r, "wait for the answer");
}

static void say(struct tcp_talk *talk)
{
	const char *text = config_of(talk)->send ? config_of(talk)->send : "";
	size_t left = strlen(text) - talk->sent;
	ssize_t size = 0;

	if (left > 0)
		size = send(talk->watch.fd, text + talk->sent, left, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (size < 0) {
		if (errno != EAGAIN && errno != EINTR)
			fail(talk, errno, "send");
		return;
	}
	talk->sent += (size_t) size;
	talk->attempt->bytes_sent += (uint32_t) size;
	if (!text[talk->sent])
		turn_to_hearing(talk);
}

static void talk_on_ready(struct shard_watch *watch, uint32_t events)
{
	struct tcp_talk *talk = (struct tcp_talk *) watch;

	(void) events;
	if (talk->has_spoken)
		receive(talk);
	else
		say(talk);
}

int tcp_talk_start(struct tcp_talk *talk, struct shard *shard, struct attempt *attempt, int fd,
		void (*done)(struct tcp_talk *talk, const struct verdict *verdict))
{
	int r;

	*talk = (struct tcp_talk){ .watch = { .ready = talk_on_ready, .fd = fd },
		.shard = shard,
		.attempt = attempt,
		.done = done };
	attempt->phase = "sending";
	r = shard_watch_add(shard, &talk->watch, EPOLLOUT);
	if (r >= 0)
		talk->is_on = true;
	return r;
}
