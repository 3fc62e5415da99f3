#pragma once

/* Calls that change a registration are answered when the disk has what they asked for. They wait no
 * longer than REGISTRATION_WAIT_USEC. */

#include <stdint.h>

#define REGISTRATION_WAIT_USEC UINT64_C(5000000)

struct request;
struct registrations_change;

/* Answer with the registration of the path and the status, once the change is decided. Returns 0,
 * or a negative errno. */
int registration_wait(
		struct request *q, const struct registrations_change *change, unsigned status);
/* userdata: the server. */
void registration_wait_on_decided(void *userdata, uint64_t ticket, int r, const char *reason);

/* Answer with the registration of the path now. */
int respond_registration(struct request *q, unsigned status);
