#pragma once

/* GET /metrics, in parts: Prometheus' text format. */

#include <stdint.h>

#include "text.h"

#define METRICS_SERVICES_MAX 1000 /* that have series of their own */

struct server;

void metric_head(struct text *text, const char *name, const char *type, const char *help);
/* NAME{LABEL="VALUE"} with a blank behind it. Quotes, backslashes and line ends of the value are
 * escaped, as in JSON. */
void metric_labelled(struct text *text, const char *name, const char *label, const char *value);
void metric_value(struct text *text, uint64_t value);

/* The observed health of services, and what finding out costs each of them. */
void metrics_health(struct text *text, const struct server *s);
/* The node's one prober. */
void metrics_prober(struct text *text, const struct server *s);
/* What the stages of chains ran into. */
void metrics_stages(struct text *text, const struct server *s);
