/* A library with a function of the host's name. */

#include <usher/endpoint.h>

static int calls;

__attribute__((visibility("default"))) int second_core_calls(void);
__attribute__((visibility("default"))) struct usher_endpoints *usher_endpoints_new(void);

int second_core_calls(void)
{
	return calls;
}

struct usher_endpoints *usher_endpoints_new(void)
{
	calls++;
	return NULL;
}
