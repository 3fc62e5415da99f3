#pragma once

/* The inside of the server, for the files of this floor only. */

#include <stdbool.h>
#include <stdint.h>

#include <systemd/sd-event.h>

#include "answers.h"
#include "consumers.h"
#include "door.h"
#include "drain-watch.h"
#include "http.h"
#include "in-flight.h"
#include "log.h"
#include "random.h"
#include "reports.h"
#include "server.h"
#include "stream.h"
#include "topic.h"
#include "waits.h"

#define CONSUMER_HEADER "Usher-Consumer"

struct server {
	sd_event *event;
	struct directory *directory;
	struct rollout *rollout;
	struct registrations *registrations; /* NULL: nothing is registered */
	const struct server_above *above;    /* NULL: nobody is above */
	void *above_userdata;
	uint64_t started_usec;
	bool quiescing;

	struct door *doors[DOOR_MAX]; /* NULL: closed */
	struct door *leaving;

	struct consumers *consumers;
	struct in_flight *in_flight;
	struct streams streams;
	struct topics topics;
	sd_event_source *bookmarks;
	struct drain_watches drain_watches;
	struct answers answers;
	struct reload_wait *reload_waits;
	struct waits drain_waits;
	struct waits registration_waits;
	struct waits first_waits;
	struct random random;

	uint64_t picks[PICK_FILTERED + 1]; /* by result */
	struct reports_told reports;
	uint64_t requests[6]; /* by the first digit of the status */
};

/* "starting", "ready", ...; "ready" when nobody is above. */
const char *server_state(const struct server *s);
/* Nobody is inside any more: one that was leaving is freed. */
void server_door_emptied(struct door *door);
/* The path of the socket that changes things, for messages. */
const char *server_admin_path(const struct server *s);
