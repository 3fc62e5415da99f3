/* A record of a drain: whatever the disk says, it is read or refused, and what was read is written
 * so that it is read as the same. */

#include <assert.h>
#include <stdint.h>

#include <jansson.h>

#include "record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *json = json_loadb((const char *) data, size, JSON_REJECT_DUPLICATES, NULL);
	struct drain_record record = {}, again = {};
	struct usher_error err = {};
	json_t *written, *rewritten;

	if (json && drain_record_from_json(json, &record, &err) >= 0) {
		written = drain_record_to_json(&record);
		assert(written);
		assert(drain_record_from_json(written, &again, &err) >= 0);
		rewritten = drain_record_to_json(&again);
		assert(json_equal(written, rewritten));
		json_decref(written);
		json_decref(rewritten);
	}
	drain_record_done(&record);
	drain_record_done(&again);
	json_decref(json);
	return 0;
}
