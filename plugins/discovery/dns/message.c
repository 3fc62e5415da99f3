#include "message.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "own.h"

#define HEADER_SIZE   12
#define NAME_WIRE_MAX 255
#define LABEL_MAX     63
#define CLASS_IN      1
#define RCODE_OK      0
#define RCODE_NONE    3
#define RCODE_REFUSED 5
#define UDP_PLAIN     512  /* the room of an answer over UDP to one who asks for no more */
#define UDP_EDNS      1232 /* what we ask for */
#define TCP_SIZE      65535
/* The largest record of an address: where there was room for one more, none was left out. */
#define ADDRESS_RECORD_MAX (NAME_WIRE_MAX + 10 + 16)

/* What is being read. */
struct cursor {
	const uint8_t *bytes;
	size_t size, at;
	bool is_broken;
};

static unsigned read_number(struct cursor *c, size_t width)
{
	unsigned value = 0;

	if (c->is_broken || c->size - c->at < width) {
		c->is_broken = true;
		return 0;
	}
	for (size_t i = 0; i < width; i++)
		value = value << 8 | c->bytes[c->at++];
	return value;
}

static bool is_of_a_host_name(int byte)
{
	return isalnum(byte) || byte == '-' || byte == '_';
}

/* One label of a name, behind what is there of it. */
struct label {
	size_t at, size; /* its bytes */
};

/* Find the next label, through pointers, which lead only back, so there is an end: at `limit` began
 * what is being read. *ret_end: where the name ends in the place it stands, once that is known. */
static bool find_label(const struct cursor *c, struct label *l, size_t *limit, size_t *ret_end)
{
	size_t at = l->at + l->size;

	while (at < c->size) {
		size_t byte = c->bytes[at++];

		if ((byte & 0xc0) != 0xc0) {
			*l = (struct label){ at, byte };
			if (byte == 0 && *ret_end == 0)
				*ret_end = at;
			return byte <= LABEL_MAX && c->size - at >= byte;
		}
		if (at >= c->size)
			return false;
		if (*ret_end == 0)
			*ret_end = at + 1;
		at = (byte & 0x3f) << 8 | c->bytes[at];
		if (at >= *limit)
			return false;
		*limit = at;
	}
	return false;
}

/* Write it in lower case; returns whether it is of a host's name. */
static bool copy_label(const struct cursor *c, const struct label *l, char *ret)
{
	bool usable = true;

	for (size_t i = 0; i < l->size; i++) {
		int byte = c->bytes[l->at + i];

		usable = usable && is_of_a_host_name(byte);
		ret[i] = is_of_a_host_name(byte) ? (char) tolower(byte) : '?';
	}
	ret[l->size] = '.';
	return usable;
}

/* A name as text. Returns false where it is malformed, or has bytes that no host name has. */
static bool read_name(struct cursor *c, char ret[MESSAGE_NAME_MAX])
{
	struct label l = { c->at, 0 };
	size_t limit = c->at, end = 0, length = 0;
	bool usable = true;

	ret[0] = '\0';
	while (!c->is_broken) {
		if (!find_label(c, &l, &limit, &end) || length + l.size + 1 >= MESSAGE_NAME_MAX) {
			c->is_broken = true;
			return false;
		}
		if (l.size == 0)
			break;
		usable = copy_label(c, &l, ret + length) && usable;
		length += l.size + 1;
	}
	if (c->is_broken)
		return false;
	c->at = end;
	/* The dot at the end goes, unless there is nothing else. */
	if (length == 0)
		ret[length++] = '.';
	else
		length--;
	ret[length] = '\0';
	return usable;
}

static void skip_questions(struct cursor *c, unsigned count)
{
	char name[MESSAGE_NAME_MAX];

	while (count-- > 0 && !c->is_broken) {
		(void) read_name(c, name);
		(void) read_number(c, 4);
	}
}

/* ---- records ---- */

struct head {
	unsigned records[3]; /* answers, authority, additional */
	unsigned rcode;
};

struct reading {
	struct cursor c;
	struct message *m;
	struct message_record *aliases; /* the CNAMEs among the answers */
	size_t alias_count, alias_space;
	uint32_t soa_ttl;
	bool has_soa, has_edns;
	const char *name;
	uint16_t type;
};

static int append(struct message_record **all, size_t *count, size_t *space,
		const struct message_record *record)
{
	if (*count == *space) {
		size_t more = *space ? *space * 2 : 4;
		struct message_record *grown = reallocarray(*all, more, sizeof(**all));

		if (!grown)
			return -ENOMEM;
		*all = grown;
		*space = more;
	}
	(*all)[(*count)++] = *record;
	return 0;
}

/* Filters answer 0.0.0.0 or :: in place of what they block. */
static bool is_somewhere(const uint8_t *address, size_t size)
{
	char text[INET6_ADDRSTRLEN];

	return inet_ntop(size == 4 ? AF_INET : AF_INET6, address, text, sizeof(text)) &&
			usher_address_check(text, NULL) == 0;
}

/* What stands in the record, which must fill its size. Returns whether it can be used. */
static bool read_data(struct reading *r, struct message_record *record, size_t size)
{
	struct cursor *c = &r->c;
	size_t end = c->at + size;
	bool usable = true;

	switch (record->type) {
	case MESSAGE_A:
	case MESSAGE_AAAA:
		if (size != (record->type == MESSAGE_A ? 4 : 16)) {
			c->is_broken = true;
			return false;
		}
		memcpy(record->address, c->bytes + c->at, size);
		c->at = end;
		return is_somewhere(record->address, size);
	case MESSAGE_SRV:
		record->priority = (uint16_t) read_number(c, 2);
		record->weight = (uint16_t) read_number(c, 2);
		record->port = (uint16_t) read_number(c, 2);
		usable = read_name(c, record->target);
		usable = usable && (record->port != 0 || strcmp(record->target, ".") == 0);
		break;
	case MESSAGE_CNAME:
		usable = read_name(c, record->target);
		break;
	default:
		c->at = end;
		return false;
	}
	c->is_broken = c->is_broken || c->at != end;
	return usable;
}

static void read_soa(struct reading *r, uint32_t ttl, size_t size)
{
	struct cursor *c = &r->c;
	size_t end = c->at + size;
	char name[MESSAGE_NAME_MAX];
	uint32_t minimum;

	(void) read_name(c, name);
	(void) read_name(c, name);
	(void) read_number(c, 4);
	(void) read_number(c, 4);
	(void) read_number(c, 4);
	(void) read_number(c, 4);
	minimum = read_number(c, 4);
	c->is_broken = c->is_broken || c->at != end;
	r->has_soa = true;
	r->soa_ttl = minimum < ttl ? minimum : ttl;
}

static bool is_wanted_type(unsigned type)
{
	return type == MESSAGE_A || type == MESSAGE_AAAA || type == MESSAGE_SRV ||
			type == MESSAGE_CNAME;
}

static int keep(struct reading *r, const struct message_record *record, unsigned section)
{
	struct message *m = r->m;

	if (section == 0 && record->type == MESSAGE_CNAME)
		return append(&r->aliases, &r->alias_count, &r->alias_space, record);
	if (section == 0 && record->type == r->type)
		return append(&m->records, &m->count, &m->space, record);
	if (record->type == MESSAGE_A || record->type == MESSAGE_AAAA)
		return append(&m->extra, &m->extra_count, &m->extra_space, record);
	return 0;
}

static int read_record(struct reading *r, unsigned section)
{
	struct cursor *c = &r->c;
	struct message_record record = { .type = 0 };
	unsigned class_code;
	bool usable = read_name(c, record.owner);
	size_t size;

	record.type = (uint16_t) read_number(c, 2);
	class_code = read_number(c, 2);
	record.ttl = read_number(c, 4);
	size = read_number(c, 2);
	if (c->is_broken || c->size - c->at < size)
		return -EBADMSG;
	if (record.ttl > INT32_MAX)
		record.ttl = 0;
	if (record.type == MESSAGE_OPT)
		r->has_edns = true;
	if (section == 1 && record.type == MESSAGE_SOA && class_code == CLASS_IN)
		read_soa(r, record.ttl, size);
	else if (class_code != CLASS_IN || section == 1 || !is_wanted_type(record.type))
		c->at += size;
	else if (read_data(r, &record, size) && usable)
		return keep(r, &record, section);
	else if (section == 0 && record.type == r->type)
		r->m->skipped++;
	return c->is_broken ? -EBADMSG : 0;
}

/* ---- what it comes to ---- */

static void lower(uint32_t *ttl, uint32_t other)
{
	if (other < *ttl)
		*ttl = other;
}

static const struct message_record *alias_of(const struct reading *r, const char *name)
{
	for (size_t i = 0; i < r->alias_count; i++)
		if (strcasecmp(r->aliases[i].owner, name) == 0)
			return &r->aliases[i];
	return NULL;
}

/* From the name to where the CNAMEs lead. */
static int follow_aliases(struct reading *r, struct usher_error *reterr)
{
	struct message *m = r->m;
	const struct message_record *alias;

	(void) snprintf(m->name, sizeof(m->name), "%s", r->name);
	for (int hops = 0; (alias = alias_of(r, m->name)); hops++) {
		if (hops == MESSAGE_HOPS_MAX)
			return usher_error_set(reterr, -EBADMSG,
					"%s: leads through more than %d CNAMEs, so perhaps in a circle",
					r->name, MESSAGE_HOPS_MAX);
		lower(&m->ttl, alias->ttl);
		(void) snprintf(m->name, sizeof(m->name), "%s", alias->target);
	}
	return 0;
}

static void keep_those_of(struct message *m, const char *owner)
{
	size_t kept = 0;

	for (size_t i = 0; i < m->count; i++)
		if (strcasecmp(m->records[i].owner, owner) == 0) {
			lower(&m->ttl, m->records[i].ttl);
			m->records[kept++] = m->records[i];
		}
	m->count = kept;
}

/* A server that runs out of room drops additional records without a word. */
static bool may_lack_extra(const struct reading *r)
{
	size_t room = r->has_edns ? UDP_EDNS : UDP_PLAIN;

	if (r->c.size > room)
		room = TCP_SIZE;
	return r->c.size + ADDRESS_RECORD_MAX > room;
}

static int judge(struct reading *r, unsigned rcode, struct usher_error *reterr)
{
	struct message *m = r->m;
	bool is_alias;
	int result;

	m->ttl = UINT32_MAX;
	result = follow_aliases(r, reterr);
	if (result < 0)
		return result;
	keep_those_of(m, m->name);
	if (may_lack_extra(r))
		m->extra_count = 0;
	if (m->count > 0)
		return 0;
	if (m->skipped > 0)
		return usher_error_set(reterr, -EBADMSG,
				"%s: none of its %zu records can be used: a port of 0, an address of "
				"zeros, or a target that is no host name",
				r->name, m->skipped);
	is_alias = strcasecmp(m->name, r->name) != 0;
	m->kind = is_alias && rcode == RCODE_OK && !r->has_soa ? MESSAGE_ALIAS : MESSAGE_NONE;
	m->no_such_name = rcode == RCODE_NONE;
	m->has_proof = r->has_soa;
	if (m->kind == MESSAGE_NONE)
		lower(&m->ttl, r->has_soa ? r->soa_ttl : 0);
	return 0;
}

static int read_head(struct cursor *c, struct head *ret, struct usher_error *reterr)
{
	unsigned flags, questions;

	(void) read_number(c, 2);
	flags = read_number(c, 2);
	questions = read_number(c, 2);
	for (size_t i = 0; i < ELEMENTS(ret->records); i++)
		ret->records[i] = read_number(c, 2);
	if (c->is_broken || !(flags & 0x8000))
		return usher_error_set(reterr, -EBADMSG, "this is no answer of DNS");
	if (flags & 0x0200)
		return usher_error_set(reterr, -EMSGSIZE,
				"the answer is cut off, even over TCP: there are more records than "
				"DNS can carry; split the name, or take the endpoints from the "
				"registry itself");
	ret->rcode = flags & 0xf;
	if (ret->rcode != RCODE_OK && ret->rcode != RCODE_NONE)
		return usher_error_set(reterr, ret->rcode == RCODE_REFUSED ? -EACCES : -EIO, "%s",
				message_rcode_name((int) ret->rcode));
	skip_questions(c, questions);
	return 0;
}

static int read_all(struct reading *r, struct usher_error *reterr)
{
	struct head head = { 0 };
	int result = read_head(&r->c, &head, reterr);

	if (result < 0)
		return result;
	for (unsigned section = 0; section < ELEMENTS(head.records); section++)
		for (unsigned i = 0; i < head.records[section]; i++) {
			result = read_record(r, section);
			if (result == -ENOMEM)
				return usher_error_set(reterr, result, "out of memory");
			if (result < 0 || r->c.is_broken)
				return usher_error_set(reterr, -EBADMSG,
						"%s: the answer is malformed", r->name);
		}
	return judge(r, head.rcode, reterr);
}

int message_parse(const uint8_t *bytes, size_t size, const char *name, uint16_t type,
		struct message *ret, struct usher_error *reterr)
{
	struct message m = { .kind = MESSAGE_RECORDS };
	struct reading r = {
		.c = { .bytes = bytes, .size = size },
		.m = &m,
		.name = name,
		.type = type,
	};
	int result = read_all(&r, reterr);

	free(r.aliases);
	if (result < 0) {
		message_done(&m);
		return result;
	}
	*ret = m;
	return 0;
}

void message_done(struct message *m)
{
	free(m->records);
	free(m->extra);
	*m = (struct message){ .kind = MESSAGE_RECORDS };
}

int message_rcode(const uint8_t *bytes, size_t size)
{
	return size < HEADER_SIZE ? -EBADMSG : bytes[3] & 0xf;
}

const char *message_rcode_name(int rcode)
{
	static const char *const names[] = { "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP",
		"REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH", "NOTZONE" };

	return rcode >= 0 && rcode < (int) ELEMENTS(names) ? names[rcode]
							   : "an error that DNS does not name";
}
