#pragma once

/* Every call of the API: one handler each, in the file named after what it is about. */

#include <stddef.h>

#include "request.h"

/* The table, most frequent first. */
const struct route *api_routes(size_t *ret_count);

int api_pick(struct request *q);
int api_endpoints(struct request *q);
int api_in_flight(struct request *q);
int api_reports(struct request *q);
int api_ack(struct request *q);
int api_consumers(struct request *q);
int api_services(struct request *q);
int api_service(struct request *q);
int api_explain(struct request *q);
int api_budget(struct request *q);
int api_budgets(struct request *q);
int api_sources(struct request *q);
int api_plugins(struct request *q);
int api_status(struct request *q);
int api_reload(struct request *q);
int api_drains(struct request *q);
int api_drain(struct request *q);
int api_drain_start(struct request *q);
int api_drain_cancel(struct request *q);
int api_restore_start(struct request *q);
int api_registrations(struct request *q);
int api_registration(struct request *q);
int api_register(struct request *q);
int api_deregister(struct request *q);
int api_metrics(struct request *q);
int api_healthz(struct request *q);
int api_readyz(struct request *q);
int api_page(struct request *q);
