#include "trouble.h"

int trouble_note(struct trouble *t, bool is_there, uint64_t quiet_usec, uint64_t now_usec)
{
	if (is_there) {
		t->last_usec = now_usec;
		if (t->is_told)
			return 0;
		t->is_told = true;
		return 1;
	}
	if (!t->is_told || now_usec - t->last_usec < quiet_usec)
		return 0;
	t->is_told = false;
	return -1;
}
