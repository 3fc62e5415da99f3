/* The gRPC health protocol's question and answer. */

#include "grpc-health.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "ownership.h"

#define FRAME_HEAD 5 /* compressed or not, and the length in four bytes, big end first */
#define NO_STATUS  (-1)
#define BAD_STATUS (-2)

/* ---- protobuf, as much of it as is needed ---- */

enum wire_type {
	WIRE_VARINT = 0,
	WIRE_64 = 1,
	WIRE_BYTES = 2,
	WIRE_32 = 5
};

struct wire {
	const uint8_t *at, *end;
};

static bool take_varint(struct wire *w, uint64_t *ret)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64 && w->at < w->end; shift += 7) {
		uint8_t byte = *w->at++;

		value |= (uint64_t) (byte & 0x7f) << shift;
		if (byte < 0x80) {
			*ret = value;
			return true;
		}
	}
	return false;
}

static bool skip_bytes(struct wire *w, uint64_t size)
{
	if (size > (uint64_t) (w->end - w->at))
		return false;
	w->at += size;
	return true;
}

static bool skip_field(struct wire *w, uint64_t type)
{
	uint64_t value;

	switch (type) {
	case WIRE_VARINT:
		return take_varint(w, &value);
	case WIRE_64:
		return skip_bytes(w, 8);
	case WIRE_BYTES:
		return take_varint(w, &value) && skip_bytes(w, value);
	case WIRE_32:
		return skip_bytes(w, 4);
	default:
		return false; /* groups went long ago */
	}
}

/* HealthCheckResponse: `ServingStatus status = 1`. Of a field that comes twice the last counts,
 * unknown ones are skipped, as everywhere in protobuf. False: malformed. */
static bool read_response(const uint8_t *data, size_t size, uint64_t *ret_status)
{
	struct wire w = { data, data + size };
	uint64_t tag, status = 0;

	while (w.at < w.end) {
		if (!take_varint(&w, &tag) || tag >> 3 == 0)
			return false;
		if (tag == (1 << 3 | WIRE_VARINT)) {
			if (!take_varint(&w, &status))
				return false;
		} else if (!skip_field(&w, tag & 7)) {
			return false;
		}
	}
	*ret_status = status;
	return true;
}

/* ---- the question ---- */

size_t grpc_question(const char *service, uint8_t *ret)
{
	size_t length = service ? strlen(service) : 0, size = 0, head = FRAME_HEAD;

	assert(length <= USHER_TEXT_MAX);

	if (length > 0) { /* `string service = 1`; "" is the default and not sent */
		ret[head + size++] = 1 << 3 | WIRE_BYTES;
		if (length >= 0x80)
			ret[head + size++] = (uint8_t) (length | 0x80);
		ret[head + size++] = (uint8_t) (length >= 0x80 ? length >> 7 : length);
		memcpy(ret + head + size, service, length);
		size += length;
	}
	ret[0] = 0; /* not compressed */
	ret[1] = ret[2] = 0;
	ret[3] = (uint8_t) (size >> 8);
	ret[4] = (uint8_t) size;
	return head + size;
}

/* ---- the answer, as it comes ---- */

void grpc_answer_init(struct grpc_answer *a)
{
	a->too_long = false;
	a->size = 0;
	a->is_grpc = false;
	grpc_answer_begin(a);
}

void grpc_answer_begin(struct grpc_answer *a)
{
	a->status = NO_STATUS;
	a->message[0] = '\0';
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char) (c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* grpc-message is percent-encoded; what is malformed stays as it is. */
static void decode_message(const char *value, size_t size, char *ret)
{
	size_t length = 0;

	for (size_t i = 0; i < size && length < VERDICT_TEXT_MAX - 1; i++) {
		int high = i + 2 < size && value[i] == '%' ? hex_digit(value[i + 1]) : -1;
		int low = high >= 0 ? hex_digit(value[i + 2]) : -1;

		if (low >= 0)
			i += 2;
		ret[length++] = (char) (low >= 0 ? high << 4 | low : value[i]);
		if (ret[length - 1] == '\0')
			ret[length - 1] = '.';
	}
	ret[length] = '\0';
}

static int parse_status(const char *value, size_t size)
{
	int status = 0;

	if (size == 0 || size > 3)
		return BAD_STATUS;
	for (size_t i = 0; i < size; i++) {
		if (value[i] < '0' || value[i] > '9')
			return BAD_STATUS;
		status = status * 10 + value[i] - '0';
	}
	return status;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Whether the line is this header's; then its value without blanks around it. */
static bool header_is(const char *line, size_t size, const char *name, const char **ret_value,
		size_t *ret_size)
{
	size_t length = strlen(name);

	if (size <= length || line[length] != ':' || strncasecmp(line, name, length) != 0)
		return false;
	line += length + 1;
	size -= length + 1;
	while (size > 0 && is_blank(line[0])) {
		line++;
		size--;
	}
	while (size > 0 && is_blank(line[size - 1]))
		size--;
	*ret_value = line;
	*ret_size = size;
	return true;
}

/* "application/grpc", "application/grpc+proto", "application/grpc;..." */
static bool is_grpc_type(const char *value, size_t size)
{
	static const char type[] = "application/grpc";
	size_t length = sizeof(type) - 1;

	if (size < length || strncasecmp(value, type, length) != 0)
		return false;
	return size == length || value[length] == '+' || value[length] == ';' ||
			is_blank(value[length]);
}

void grpc_answer_header(struct grpc_answer *a, const char *line, size_t size)
{
	const char *value;
	size_t length;

	if (header_is(line, size, "grpc-status", &value, &length))
		a->status = parse_status(value, length);
	else if (header_is(line, size, "grpc-message", &value, &length))
		decode_message(value, length, a->message);
	else if (header_is(line, size, "content-type", &value, &length))
		a->is_grpc = is_grpc_type(value, length);
}

bool grpc_answer_body(struct grpc_answer *a, const void *data, size_t size)
{
	if (size > sizeof(a->body) - a->size) {
		a->too_long = true;
		return false;
	}
	if (size > 0)
		memcpy(a->body + a->size, data, size);
	a->size += size;
	return true;
}

/* ---- the answer, whole ---- */

static const char *status_name(int status)
{
	static const char *const names[] = { "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT",
		"DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
		"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
		"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED" };

	return (size_t) status < ELEMENTS(names) ? names[status] : "of no known name";
}

#define NOT_FOUND     5
#define UNIMPLEMENTED 12

static void judge_status(const struct grpc_answer *a, const char *service, struct verdict *ret)
{
	if (a->status == NOT_FOUND)
		verdict_set(ret, PROBE_NOT_SERVING, a->status,
				"the server knows no service \"%.60s\"", service);
	else if (a->status == UNIMPLEMENTED)
		verdict_set(ret, PROBE_STATUS, a->status,
				"gRPC UNIMPLEMENTED: the server has no health service");
	else
		verdict_set(ret, PROBE_STATUS, a->status, "gRPC status %d %s%s%s", a->status,
				status_name(a->status), a->message[0] ? ": " : "", a->message);
}

static void judge_serving(uint64_t status, struct verdict *ret)
{
	static const char *const names[] = { "UNKNOWN", "SERVING", "NOT_SERVING",
		"SERVICE_UNKNOWN" };

	if (status >= ELEMENTS(names))
		verdict_set(ret, PROBE_PROTOCOL, 0, "a serving status of no known name: %llu",
				(unsigned long long) status);
	else
		verdict_set(ret, status == 1 ? PROBE_OK : PROBE_NOT_SERVING, (int) status, "%s",
				names[status]);
}

/* One frame, and nothing behind it. NULL: fine. */
static const char *frame_fault(const struct grpc_answer *a)
{
	const uint8_t *b = a->body;
	uint32_t length;

	if (a->too_long)
		return "the answer is too long";
	if (a->size == 0)
		return "the answer has no message";
	if (a->size < FRAME_HEAD)
		return "the answer's frame is cut short";
	if (b[0] != 0)
		return "the answer is compressed, which was not asked for";
	length = (uint32_t) b[1] << 24 | (uint32_t) b[2] << 16 | (uint32_t) b[3] << 8 | b[4];
	if (length != a->size - FRAME_HEAD)
		return "the answer's frame is not as long as it says";
	return NULL;
}

void grpc_answer_judge(const struct grpc_answer *a, int http_status, const char *service,
		struct verdict *ret)
{
	const char *fault;
	uint64_t serving;

	if (!a->is_grpc && http_status != 200)
		verdict_set(ret, PROBE_STATUS, http_status, "HTTP %d instead of a gRPC answer",
				http_status);
	else if (!a->is_grpc)
		verdict_set(ret, PROBE_PROTOCOL, 0,
				"the answer's content type is not application/grpc");
	else if (a->too_long)
		verdict_set(ret, PROBE_PROTOCOL, 0, "%s", frame_fault(a));
	else if (a->status < 0)
		verdict_set(ret, PROBE_PROTOCOL, 0, "the answer has no %sgrpc-status",
				a->status == BAD_STATUS ? "valid " : "");
	else if (a->status > 0)
		judge_status(a, service ? service : "", ret);
	else if ((fault = frame_fault(a)))
		verdict_set(ret, PROBE_PROTOCOL, 0, "%s", fault);
	else if (!read_response(a->body + FRAME_HEAD, a->size - FRAME_HEAD, &serving))
		verdict_set(ret, PROBE_PROTOCOL, 0, "the answer is no HealthCheckResponse");
	else
		judge_serving(serving, ret);
}
