/* What libcurl is for: TLS, HTTP/2 and with it gRPC, and names that must be resolved. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <usher/hash.h>

#include <curl/curl.h>

#include "clock.h"
#include "curl-loop.h"
#include "curl-request.h"
#include "engine.h"
#include "expectation.h"
#include "ownership.h"

/* Each name is resolved in a thread of libcurl's, which cannot be broken off: one that nobody waits
 * for any more is counted for as long as a resolver takes to give up. */
#define LOOKUPS_MAX      128
#define LOOKUP_LAST_USEC (30 * USEC_PER_SEC)

struct curl_engine {
	struct curl_loop loop; /* first */
	struct request_host host;
	uint64_t left_behind[LOOKUPS_MAX]; /* until when those count that nobody waits for */
	unsigned left_behind_count;
};

static const struct check_config *config_of(const struct attempt *attempt)
{
	return check_config(attempt->target->check);
}

/* ---- names ---- */

static unsigned count_lookups(struct curl_engine *e)
{
	uint64_t now = shard_now_usec(e->loop.shard);
	unsigned kept = 0;

	for (unsigned i = 0; i < e->left_behind_count; i++)
		if (e->left_behind[i] > now)
			e->left_behind[kept++] = e->left_behind[i];
	e->left_behind_count = kept;
	return e->host.lookups + kept;
}

static void leave_behind(struct curl_engine *e)
{
	if (e->left_behind_count < LOOKUPS_MAX)
		e->left_behind[e->left_behind_count++] =
				shard_now_usec(e->loop.shard) + LOOKUP_LAST_USEC;
}

/* ---- from libcurl's words to ours ---- */

static enum probe_reason reason_of_code(CURLcode code)
{
	switch (code) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		return PROBE_NO_ADDRESS;
	case CURLE_COULDNT_CONNECT:
		return PROBE_UNREACHABLE;
	case CURLE_OPERATION_TIMEDOUT:
		return PROBE_TIMEOUT;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CIPHER:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_INVALIDCERTSTATUS:
		return PROBE_TLS;
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_PARTIAL_FILE:
		return PROBE_RESET;
	case CURLE_OUT_OF_MEMORY:
	case CURLE_FAILED_INIT:
	case CURLE_ABORTED_BY_CALLBACK:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ENGINE_INITFAILED:
	case CURLE_NOT_BUILT_IN:
		return PROBE_LOCAL;
	default: /* a hundred more, of which most are about what the other side says */
		return PROBE_PROTOCOL;
	}
}

/* Who speaks no HTTP/2 answers its preface with something else and closes. Whether libcurl then
 * finds the end, a reset or a broken pipe is a matter of moments, so all three are one verdict. */
static bool ended_unheard(const struct request *q, CURLcode code)
{
	return q->head_size == 0 &&
			(code == CURLE_GOT_NOTHING || code == CURLE_SEND_ERROR ||
					code == CURLE_RECV_ERROR);
}

static void judge_failure(const struct request *q, CURLcode code, struct verdict *ret)
{
	const char *text = q->error[0] ? q->error : curl_easy_strerror(code);
	long error = 0;

	(void) curl_easy_getinfo(q->transfer.easy, CURLINFO_OS_ERRNO, &error);
	if (q->fault && probe_reason_of_errno(q->fault) == PROBE_LOCAL)
		verdict_set_errno(ret, q->fault, "open a socket");
	else if (code == CURLE_COULDNT_CONNECT && error > 0)
		verdict_set_errno(ret, (int) error, "connect");
	else if (q->head_size > REQUEST_HEAD_MAX)
		verdict_set(ret, PROBE_PROTOCOL, 0, "the answer has more than %d bytes of headers",
				REQUEST_HEAD_MAX);
	else if (q->grpc && ended_unheard(q, code))
		verdict_set(ret, PROBE_PROTOCOL, 0,
				"no answer in HTTP/2: the server speaks another protocol, or hangs up");
	else
		verdict_set(ret, reason_of_code(code), 0, "%s", text);
}

static void judge_answer(const struct request *q, struct verdict *ret)
{
	const struct check_config *config = config_of(q->attempt);
	long status = 0, version = 0;

	(void) curl_easy_getinfo(q->transfer.easy, CURLINFO_RESPONSE_CODE, &status);
	(void) curl_easy_getinfo(q->transfer.easy, CURLINFO_HTTP_VERSION, &version);
	if (q->grpc && version < CURL_HTTP_VERSION_2_0)
		verdict_set(ret, PROBE_PROTOCOL, 0,
				"the server speaks no HTTP/2, which gRPC needs");
	else if (q->grpc)
		grpc_answer_judge(q->grpc, (int) status, config->grpc_service, ret);
	else if (q->body.failed)
		verdict_set_errno(ret, ENOMEM, "keep the body");
	else
		expectation_judge(config, (unsigned) status, q->body.data, q->body.length, ret);
}

/* ---- an attempt's end ---- */

static void count_bytes(const struct request *q)
{
	struct attempt *attempt = q->attempt;
	curl_off_t body = 0;
	long sent = 0;

	(void) curl_easy_getinfo(q->transfer.easy, CURLINFO_REQUEST_SIZE, &sent);
	(void) curl_easy_getinfo(q->transfer.easy, CURLINFO_SIZE_DOWNLOAD_T, &body);
	attempt->bytes_sent += (uint32_t) sent;
	attempt->bytes_received += (uint32_t) (q->head_size + (size_t) body);
}

/* The request goes, whatever the verdict. */
static void let_go(struct request *q)
{
	count_bytes(q);
	q->attempt->state = NULL;
	tcp_talk_stop(&q->talk); /* before libcurl closes its descriptor */
	curl_loop_remove(&q->transfer);
	request_free(q);
}

static void request_finish(struct request *q, const struct verdict *verdict)
{
	struct attempt *attempt = q->attempt;

	let_go(q);
	attempt_finish(attempt, verdict);
}

static void talk_on_done(struct tcp_talk *talk, const struct verdict *verdict)
{
	struct request *q = (struct request *) ((char *) talk - offsetof(struct request, talk));

	request_finish(q, verdict);
}

/* The connection of a TCP check is there. */
static void on_connected(struct curl_engine *e, struct request *q)
{
	const struct check_config *config = config_of(q->attempt);
	curl_socket_t fd = CURL_SOCKET_BAD;
	struct verdict verdict;
	int r = -ENOTCONN;

	if (!config->send && !config->expect_text) {
		verdict_set(&verdict, PROBE_OK, 0, "it accepts connections");
		request_finish(q, &verdict);
		return;
	}
	(void) curl_easy_getinfo(q->transfer.easy, CURLINFO_ACTIVESOCKET, &fd);
	if (fd != CURL_SOCKET_BAD)
		r = tcp_talk_start(&q->talk, e->loop.shard, q->attempt, fd, talk_on_done);
	if (r < 0) {
		verdict_set(&verdict, PROBE_LOCAL, -r, "cannot use the connection: %s",
				strerrordesc_np(-r));
		request_finish(q, &verdict);
	}
}

static void loop_on_done(struct curl_loop *loop, struct curl_transfer *transfer, CURLcode code)
{
	struct curl_engine *e = (struct curl_engine *) loop;
	struct request *q = (struct request *) transfer;
	struct verdict verdict;

	if (code == CURLE_OK && config_of(q->attempt)->kind == CHECK_TCP) {
		on_connected(e, q);
		return;
	}
	if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && q->has_enough))
		judge_answer(q, &verdict);
	else
		judge_failure(q, code, &verdict);
	request_finish(q, &verdict);
}

/* ---- the engine ---- */

static int engine_start(void *engine, struct attempt *attempt)
{
	struct curl_engine *e = engine;
	struct request *q = NULL;
	struct verdict verdict;
	int r;

	if (!attempt->target->is_numeric && count_lookups(e) >= LOOKUPS_MAX) {
		verdict_set(&verdict, PROBE_LOCAL, EAGAIN,
				"%d names are being resolved already: the resolver is slow",
				LOOKUPS_MAX);
		attempt_finish(attempt, &verdict);
		return 0;
	}
	r = request_new(&e->host, attempt, &q);
	if (r < 0)
		return r;
	r = curl_loop_add(&e->loop, &q->transfer,
			usher_hash_text(attempt->target->address, attempt->target->port));
	if (r < 0) {
		request_free(q);
		return r;
	}
	attempt->state = q;
	return 0;
}

static void engine_cancel(void *engine, struct attempt *attempt)
{
	struct curl_engine *e = engine;
	struct request *q = attempt->state;

	if (q->lookups)
		leave_behind(e);
	let_go(q);
}

static void engine_forget(void *engine, struct attempt *attempt)
{
	struct kept *kept = attempt->kept;

	(void) engine;
	attempt->kept = NULL;
	if (kept && kept->fd >= 0)
		(void) shutdown(kept->fd, SHUT_RDWR);
	kept_unref(kept);
}

static int engine_open(struct shard *shard, void **ret)
{
	const curl_version_info_data *version = curl_version_info(CURLVERSION_NOW);
	struct curl_engine *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	if (version->age >= CURLVERSION_SEVENTH && version->cainfo &&
			access(version->cainfo, R_OK) == 0)
		e->host.system_ca = version->cainfo;
	curl_loop_init(&e->loop, shard, &engine_curl, loop_on_done);
	*ret = e;
	return 0;
}

static void engine_close(void *engine)
{
	struct curl_engine *e = engine;

	curl_loop_done(&e->loop);
	free(e);
}

const struct engine engine_curl = {
	.name = "curl",
	.descriptors = 2, /* both families are tried at once; a resolving thread has a pair */
	.open = engine_open,
	.close = engine_close,
	.start = engine_start,
	.cancel = engine_cancel,
	.forget = engine_forget,
};
