#pragma once

/* What a TCP check says over a connection that is there, and what it is to hear. */

#include <stdbool.h>
#include <stddef.h>

#include "engine.h"

struct tcp_talk {
	struct shard_watch watch; /* first */
	struct shard *shard;
	struct attempt *attempt;
	/* Called once, not from within start; then it is stopped already. */
	void (*done)(struct tcp_talk *talk, const struct verdict *verdict);
	size_t sent;
	size_t matched; /* bytes of what is expected */
	bool is_on, has_spoken;
};

/* The descriptor stays the caller's. Errors: those of shard_watch_add(). */
int tcp_talk_start(struct tcp_talk *talk, struct shard *shard, struct attempt *attempt, int fd,
		void (*done)(struct tcp_talk *talk, const struct verdict *verdict));
void tcp_talk_stop(struct tcp_talk *talk); /* one that is not on is fine */
