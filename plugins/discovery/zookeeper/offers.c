/* What the host is told, and how much of it is believed. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "watch.h"

void zk_follower_fail(struct zk_follower *f, struct zk_watched *w, int code,
		const struct usher_error *why)
{
	w->retry_usec = retry_now_usec() + retry_delay_usec(&f->random, ++w->failures);
	for (struct zk_want *want = f->wants; want; want = want->next) {
		if (want->watched != w)
			continue;
		usher_source_fail(f->source, want->service, code, why);
		want->is_offered = false;
	}
}

void zk_follower_doubt(struct zk_follower *f, const char *why)
{
	uint64_t until = retry_now_usec() + ZK_DOUBT_USEC;

	usher_log(USHER_LOG_WARNING,
			"ZooKeeper has another history than before (%s): it was wiped or restored, or is "
			"another one; reading everything again",
			why);
	for (struct zk_want *want = f->wants; want; want = want->next) {
		if (!want->offered || want->doubt_until_usec > 0)
			continue;
		want->before = usher_endpoints_ref(want->offered);
		want->doubt_until_usec = until;
	}
}

/* ---- verdicts ---- */

static bool has_lost_some(const struct zk_want *want)
{
	for (size_t i = 0; i < usher_endpoints_count(want->before); i++)
		if (usher_endpoints_find(want->offered, usher_endpoints_id(want->before, i)) < 0)
			return true;
	return false;
}

static enum usher_verdict verdict_of(
		const struct zk_follower *f, struct zk_want *want, bool is_first)
{
	const struct zk_folder *folder = &want->watched->folder;

	/* A server without a majority, instances that we may not read, a way that is gone. */
	if (f->is_read_only || zk_folder_denied(folder) > 0 ||
			(folder->is_missing && f->presence != ZK_THERE))
		return USHER_SUSPECT;
	/* Nobody here knows what there was before, and a wiped ZooKeeper looks like this. */
	if (is_first)
		return usher_endpoints_count(want->offered) == 0 ? USHER_SUSPECT : USHER_FRESH;
	if (!want->before)
		return USHER_FRESH;
	if (retry_now_usec() < want->doubt_until_usec && has_lost_some(want))
		return USHER_SUSPECT;
	want->before = usher_endpoints_unref(want->before);
	want->doubt_until_usec = 0;
	return USHER_FRESH;
}

/* ---- offers ---- */

static int build(const struct zk_follower *f, const struct zk_want *want,
		struct usher_endpoints **ret, struct usher_error *reterr)
{
	struct zk_folder *folder = &want->watched->folder;

	/* A service without instances has no node, but the node above all services is not missed by
	 * those that have some. */
	if (folder->is_missing && f->presence == ZK_MISSING && !f->was_there)
		return usher_error_set(reterr, -ENOENT,
				"ZooKeeper has no node %s: nobody has registered yet, or chroot or "
				"layout is wrong",
				f->base);
	return zk_folder_build(folder, want->service, want->port, ret, reterr);
}

static void offer(struct zk_follower *f, struct zk_want *want)
{
	struct usher_endpoints *set = NULL;
	struct usher_error why = { 0 };
	char revision[32];
	bool is_first = !want->offered;
	int r;

	want->is_dirty = false;
	/* What a server without a majority knows is better than nothing, and no more than that. */
	if (f->is_read_only && want->offered)
		return;
	r = build(f, want, &set, &why);
	want->is_offered = r == 0;
	if (r < 0) {
		usher_source_fail(f->source, want->service, r, &why);
		return;
	}
	usher_endpoints_seal(set);
	(void) usher_endpoints_unref(want->offered);
	want->offered = usher_endpoints_ref(set);
	(void) snprintf(revision, sizeof(revision), "0x%" PRIx64, want->watched->folder.zxid);
	(void) usher_source_offer(f->source, want->service, set, verdict_of(f, want, is_first),
			revision, f->is_read_only ? 1 : want->watched->proven_usec);
	zk_follower_probe_soon(f);
}

static bool may_be_offered(const struct zk_follower *f, const struct zk_want *want)
{
	return want->watched && zk_folder_is_settled(&want->watched->folder) &&
			(f->is_read_only ||
					(f->proven_usec > 0 && want->watched->proven_usec > 0 &&
							f->presence != ZK_UNKNOWN));
}

void zk_follower_offer(struct zk_follower *f)
{
	bool any = false;

	for (struct zk_want *want = f->wants; want; want = want->next)
		want->is_dirty |= want->watched && want->watched->is_dirty;
	for (size_t i = 0; i < f->watched_count; i++) {
		struct zk_watched *w = f->watched[i];

		w->is_dirty = false;
		if (!w->has_denied && zk_folder_is_settled(&w->folder))
			w->denials = 0;
	}
	if (!f->is_open)
		return;
	for (struct zk_want *want = f->wants; want; want = want->next) {
		if (!want->is_dirty || !may_be_offered(f, want))
			continue;
		offer(f, want);
		any = true;
	}
	if (any && f->is_read_only)
		usher_source_fail(f->source, NULL, -EAGAIN,
				&(const struct usher_error){ .code = -EAGAIN,
						.text = "the server is read-only: it has lost its "
							"majority, and proves nothing" });
}

void zk_follower_confirm(struct zk_follower *f, const struct zk_watched *w, uint64_t usec)
{
	if (w->is_dirty)
		return; /* it will be offered */
	for (const struct zk_want *want = f->wants; want; want = want->next)
		if (want->watched == w && want->is_offered && !want->is_dirty)
			usher_source_confirm(f->source, want->service, usec);
}
