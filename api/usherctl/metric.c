#include "metric.h"

#include <stdlib.h>
#include <string.h>

double metric_sum(const char *text, const char *name)
{
	size_t length = strlen(name);
	double sum = 0;

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		const char *value, *end;

		line += *line == '\n';
		if (strncmp(line, name, length) != 0 ||
				(line[length] != ' ' && line[length] != '{'))
			continue;
		end = line + strcspn(line, "\n");
		value = line[length] == '{' ? memchr(line, '}', (size_t) (end - line))
					    : line + length;
		if (value)
			sum += strtod(value + (*value == '}'), NULL);
	}
	return sum;
}
