#pragma once

/* Endpoints, and sets of them: one complete answer to "where can this service be reached right
 * now?"
 *
 * A discovery plug-in builds a set and offers it; from then on it is sealed: read-only, shared, and
 * reference counted. A change is a new set. Thread: build on any one thread, read a sealed set on
 * any. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <usher/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define USHER_ENDPOINTS_MAX 100000 /* in one set */
#define USHER_METADATA_MAX  128    /* pairs of one endpoint */
#define USHER_TEXT_MAX      1024   /* bytes of an id, address, zone, metadata name or value */
#define USHER_WEIGHT_MAX    100000
#define USHER_WEIGHT_LABEL  "weight" /* the metadata that sets the weight */
#define USHER_ZONE_LABEL    "zone"   /* the metadata that sets the zone where nothing else does */
#define USHER_AUTHORITY_MAX (USHER_TEXT_MAX + 9)

/* What people decided about an endpoint; never mixed with health, which is what was observed. */
enum usher_admin_state {
	USHER_ADMIN_READY = 0,
	USHER_ADMIN_DRAINING = 1,    /* on its way out: listed, not chosen */
	USHER_ADMIN_MAINTENANCE = 2, /* out of service on purpose */
};

const char *usher_admin_state_to_string(enum usher_admin_state state);
int usher_admin_state_from_string(const char *text, enum usher_admin_state *ret); /* EINVAL */

/* What was observed of an endpoint, by checks and by reports of calls. */
enum usher_health {
	USHER_HEALTH_UNKNOWN = 0, /* not known yet */
	USHER_HEALTH_UP = 1,
	USHER_HEALTH_DEGRADED = 2, /* up, but better left alone while others will do */
	USHER_HEALTH_DOWN = 3,     /* checks fail */
	USHER_HEALTH_EJECTED = 4,  /* checks do not fail, but calls do: out for a while */
};

const char *usher_health_to_string(enum usher_health health);           /* "unknown", "up", ... */
int usher_health_from_string(const char *text, enum usher_health *ret); /* EINVAL */

/* How a call to an endpoint went. */
enum usher_outcome {
	USHER_OUTCOME_OK,
	USHER_OUTCOME_ERROR,   /* answered, but with an error of the server */
	USHER_OUTCOME_FAILED,  /* no answer: refused, reset, unreachable */
	USHER_OUTCOME_TIMEOUT, /* no answer in time */
};

#define USHER_OUTCOMES (USHER_OUTCOME_TIMEOUT + 1)

/* "ok", "error", "failed", "timeout"; NULL for what is none. */
const char *usher_outcome_to_string(enum usher_outcome outcome);
int usher_outcome_from_string(const char *text, enum usher_outcome *ret); /* EINVAL */

/* Never grows within a major of the ABI, for it stands in arrays. */
struct usher_label {
	const char *name;
	const char *value;
};

/* One instance of a service. Start from USHER_ENDPOINT_INIT; all pointers are borrowed for the
 * call. Read from a set, pointers are the set's and live as long as it does, and `metadata` is
 * NULL: ask usher_endpoints_metadata(). */
struct usher_endpoint {
	size_t size;
	const char *id;      /* unique in the service; NULL: "ADDRESS:PORT" */
	const char *uid;     /* this incarnation, for an address may be used again by another; NULL:
				none known */
	const char *address; /* IPv4, IPv6 without brackets (a zone as in fe80::1%eth0), or a host
				name */
	const char *zone;    /* NULL or empty: that of the metadata "zone", else unknown */
	const char *weight_text; /* as the registry wrote it, parsed by the set; NULL: use `weight`
				  */
	uint32_t weight;         /* 0..USHER_WEIGHT_MAX; 0 receives no new traffic */
	uint16_t port;           /* 1..65535 */
	bool secure;
	bool ready; /* conditions, as in Kubernetes EndpointSlices */
	bool serving;
	bool terminating;
	bool weight_invalid; /* what the registry wrote is no weight, so it counts as 1; given, it
				stays, as in a copy of an endpoint */
	enum usher_admin_state admin_state;
	const struct usher_label *metadata;
	size_t metadata_count;
};

#define USHER_ENDPOINT_INIT                                                                        \
	{                                                                                          \
		.size = sizeof(struct usher_endpoint), .weight = 1, .ready = true, .serving = true \
	}

struct usher_endpoints; /* opaque: packed, with offsets instead of pointers */

/* An empty set, or NULL when out of memory. */
struct usher_endpoints *usher_endpoints_new(void);
/* Counted references; a set starts with one. unref(NULL) is fine and always returns NULL. */
struct usher_endpoints *usher_endpoints_ref(struct usher_endpoints *e);
struct usher_endpoints *usher_endpoints_unref(struct usher_endpoints *e);

/* Add a copy of one endpoint. A failed call leaves the set as it was. The weight comes from the
 * metadata "weight" when there is one, else from weight_text, else from weight; what is no whole
 * number in 0..USHER_WEIGHT_MAX counts as 1 and is marked weight_invalid. Errors: EINVAL (no or
 * malformed address, port 0, no such admin_state, text not UTF-8 or with control characters, a
 * metadata name twice, size not set), EEXIST (the id is in the set), E2BIG (a maximum above), EPERM
 * (sealed), ENOMEM. */
int usher_endpoints_add(struct usher_endpoints *e, const struct usher_endpoint *endpoint,
		struct usher_error *reterr);

/* Sort by id, give back what building needed, and make read-only. Done by every offer; twice is
 * fine. */
void usher_endpoints_seal(struct usher_endpoints *e);

size_t usher_endpoints_count(const struct usher_endpoints *e);
/* The bytes that the set occupies. */
size_t usher_endpoints_size(const struct usher_endpoints *e);
/* Write the i-th endpoint, i < count, as far as the caller's struct goes. */
void usher_endpoints_read(const struct usher_endpoints *e, size_t i, struct usher_endpoint *ret,
		size_t ret_size);
/* The i-th endpoint, i < count. A sealed set is in the order of its ids. Inline, so that a plug-in
 * says how long its struct was when it was built: the host's may have grown since. */
static inline void usher_endpoints_get(
		const struct usher_endpoints *e, size_t i, struct usher_endpoint *ret)
{
	usher_endpoints_read(e, i, ret, sizeof(*ret));
}
/* The id alone, without filling a whole endpoint. */
const char *usher_endpoints_id(const struct usher_endpoints *e, size_t i);
/* The zone alone, or NULL: unknown. */
const char *usher_endpoints_zone(const struct usher_endpoints *e, size_t i);
/* The index of an id, or -ENOENT. */
ssize_t usher_endpoints_find(const struct usher_endpoints *e, const char *id);
/* The value of one metadata name, or NULL. */
const char *usher_endpoints_metadata(const struct usher_endpoints *e, size_t i, const char *name);
/* The k-th pair, in the order of names; k < metadata_count. */
struct usher_label usher_endpoints_metadata_at(const struct usher_endpoints *e, size_t i, size_t k);
/* Whether two sealed sets say the same of the same endpoints. NULL equals NULL only. */
bool usher_endpoints_equal(const struct usher_endpoints *a, const struct usher_endpoints *b);
/* Whether the i-th of a and the k-th of b are the same in every field. */
bool usher_endpoints_same(const struct usher_endpoints *a, size_t i,
		const struct usher_endpoints *b, size_t k);

/* A whole number in 0..USHER_WEIGHT_MAX without sign, blanks, decimals or exponent. EINVAL, ERANGE.
 */
int usher_weight_parse(const char *text, uint32_t *ret);

/* Whether text is an IPv4 or IPv6 address (no brackets; not an unspecified, multicast or broadcast
 * one, where nobody is reached) or a host name (RFC 1123, underscores allowed, 253 bytes at most).
 * EINVAL, with the reason and the remedy. */
int usher_address_check(const char *text, struct usher_error *reterr);
/* Take "10.0.0.5:8080", "host:8080" or "[fd00::10]:8080" apart. An IPv6 address with a port and
 * without brackets is ambiguous and refused. ret_address needs USHER_TEXT_MAX bytes. A missing port
 * takes default_port; 0 means that there must be one. EINVAL. */
int usher_authority_parse(const char *text, uint16_t default_port, char *ret_address,
		uint16_t *ret_port, struct usher_error *reterr);
/* "10.0.0.5:8080" or "[fd00::10]:8080"; ret needs USHER_AUTHORITY_MAX bytes. Returns ret. */
const char *usher_authority_format(const char *address, uint16_t port, char *ret);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
