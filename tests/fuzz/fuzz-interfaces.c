/* What the kernel says of links and addresses. */

#include <stdlib.h>
#include <string.h>

#include "interfaces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct address_config config = { .family = ADDRESS_PREFER_IPV6 };
	struct interface_table table = {};
	char chosen[INET6_ADDRSTRLEN];
	uint8_t *copy = malloc(size + 1);

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	(void) interface_table_take(&table, copy, size);
	interface_table_settle(&table);
	(void) address_choose(&config, table.items, table.count, chosen, NULL);
	interface_table_done(&table);
	free(copy);
	return 0;
}
