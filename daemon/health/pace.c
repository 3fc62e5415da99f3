#include "pace.h"

#include "clock.h"

void pace_init(struct pace *p, double rate, double depth, uint64_t now_usec)
{
	*p = (struct pace){ .rate = rate, .depth = depth < 1 ? 1 : depth, .filled_usec = now_usec };
	p->tokens = p->depth;
}

static void pace_fill(struct pace *p, uint64_t now_usec)
{
	if (now_usec <= p->filled_usec)
		return;
	p->tokens += (double) (now_usec - p->filled_usec) * p->rate / (double) USEC_PER_SEC;
	if (p->tokens > p->depth)
		p->tokens = p->depth;
	p->filled_usec = now_usec;
}

void pace_set(struct pace *p, double rate, double depth, uint64_t now_usec)
{
	pace_fill(p, now_usec);
	p->rate = rate;
	p->depth = depth < 1 ? 1 : depth;
	if (p->tokens > p->depth)
		p->tokens = p->depth;
}

bool pace_allows(struct pace *p, uint64_t now_usec)
{
	if (p->rate <= 0)
		return true;
	pace_fill(p, now_usec);
	return p->tokens >= 1;
}

void pace_take(struct pace *p)
{
	if (p->rate > 0)
		p->tokens -= 1;
}

uint64_t pace_next_usec(const struct pace *p)
{
	if (p->rate <= 0 || p->tokens >= 1)
		return 0;
	return p->filled_usec + 1 + (uint64_t) ((1 - p->tokens) * (double) USEC_PER_SEC / p->rate);
}
