#pragma once

/* The sum of all series of one metric in a text of Prometheus' exposition format. */
double metric_sum(const char *text, const char *name);
