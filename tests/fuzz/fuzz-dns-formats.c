/* Whatever a name server answers: it is read without a crash or a leak, and what is made of it are
 * endpoints. The first byte says which type was asked for. */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "members.h"
#include "message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void make_endpoints(const struct message *m)
{
	const struct members_rule rule = { DNS_ROTATES_AUTO, 30000000 };
	struct member *all = calloc(m->count + 1, sizeof(*all));
	struct members members = { 0 };
	struct usher_endpoints *set;
	size_t count = 0;

	for (size_t i = 0; all && i < m->count; i++) {
		const struct message_record *r = &m->records[i];

		all[count] = (struct member){
			.port = r->port ? r->port : 1,
			.priority = r->priority,
			.weight = r->weight,
		};
		(void) inet_ntop(r->type == MESSAGE_A ? AF_INET : AF_INET6, r->address,
				all[count].address, sizeof(all[count].address));
		(void) snprintf(all[count].target, sizeof(all[count].target), "%s", r->owner);
		count++;
	}
	count = members_unite(all, count);
	for (uint64_t now = 1; now < 3; now++)
		(void) members_take(&members, all, count / now, &rule, now);
	if (members_to_endpoints(&members, m->count > 0 && m->records[0].type == MESSAGE_SRV, false,
			    2, &set, NULL) == 0)
		(void) usher_endpoints_unref(set);
	members_done(&members);
	free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint16_t types[] = { MESSAGE_A, MESSAGE_AAAA, MESSAGE_SRV };
	struct usher_error why = { 0 };
	struct message m;

	if (size < 1)
		return 0;
	(void) message_rcode(data + 1, size - 1);
	if (message_parse(data + 1, size - 1, "web.test", types[data[0] % 3], &m, &why) < 0)
		return 0;
	make_endpoints(&m);
	message_done(&m);
	return 0;
}
