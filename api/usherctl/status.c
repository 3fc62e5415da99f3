/* usherctl status, version and reload: the daemon itself. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "human.h"
#include "output.h"
#include "verbs.h"

static void status_probes(const json_t *prober)
{
	double stretch = json_number_value(json_object_get(prober, "stretch"));

	if (field_number(prober, "targets") == 0)
		return;
	section_field(0, "Checks", "%" PRIu64 " endpoints, %.4g probes per second%s",
			field_number(prober, "targets"),
			json_number_value(json_object_get(prober, "rate_per_s")),
			stretch > 1 ? ", intervals stretched by prober.max_rate: see usherctl budget"
				    : "");
}

static void status_registrations(const json_t *registrations)
{
	uint64_t failing = field_number(registrations, "failing");

	if (field_number(registrations, "total") == 0)
		return;
	section_field(0, "Registrations", "%" PRIu64 " registered of %" PRIu64,
			field_number(registrations, "registered"),
			field_number(registrations, "total"));
	if (failing > 0)
		section_field(0, "Failing", "%" PRIu64 ": see usherctl get registrations", failing);
}

static void status_print(const struct ctl *ctl, const json_t *status)
{
	const json_t *node = json_object_get(status, "node"),
		     *contexts = json_object_get(status, "contexts");
	const json_t *config = json_object_get(status, "config"),
		     *sources = json_object_get(status, "sources");
	json_t *missing = json_object_get(contexts, "missing");
	const char *config_error = json_string_value(json_object_get(config, "error"));
	const char *store_error = json_string_value(
			json_object_get(json_object_get(status, "store"), "error"));
	char age[HUMAN_TEXT_MAX];

	section_field(0, "Version", "%s", field_text(status, "version"));
	section_field(0, "Node", "%s, zone %s", field_text(node, "name"), field_text(node, "zone"));
	section_field(0, "PID", "%" PRIu64, field_number(status, "pid"));
	section_state(ctl, 0, "State", field_text(status, "state"));
	section_field(0, "Up", "%s", human_age(field_msec(status, "uptime_ms"), age));
	section_field(0, "Revision", "%" PRIu64, field_number(status, "revision"));
	section_field(0, "Services", "%" PRIu64 " live of %" PRIu64, field_number(contexts, "live"),
			field_number(contexts, "total"));
	if (json_array_size(missing) > 0)
		section_value(0, "missing", missing);
	section_field(0, "Sources", "%" PRIu64 " live of %" PRIu64, field_number(sources, "live"),
			field_number(sources, "total"));
	section_field(0, "Drains", "%" PRIu64 " running",
			field_number(json_object_get(status, "drains"), "running"));
	status_registrations(json_object_get(status, "registrations"));
	status_probes(json_object_get(status, "prober"));
	section_field(0, "Configuration", "%s, loaded %s", field_text(config, "path"),
			field_text(config, "loaded_at"));
	if (config_error)
		section_field(0, "Last reload", "refused: %s", config_error);
	if (store_error)
		section_field(0, "Store", "%s", store_error);
}

int verb_status(struct ctl *ctl)
{
	cleanup(json_decrefp) json_t *status = NULL;
	int r;

	r = ctl_get(ctl, "/v1/status", &status);
	if (r != EXIT_DONE)
		return r;
	if (output_is_data(ctl))
		return output_data(ctl, status);
	status_print(ctl, status);
	return EXIT_DONE;
}

int verb_version(struct ctl *ctl)
{
	cleanup(json_decrefp) json_t *status = NULL, *versions = NULL;
	int r;

	if (!output_is_data(ctl))
		(void) printf("%s\n", USHERCTL_VERSION_TEXT);
	(void) fflush(stdout);
	r = ctl_get(ctl, "/v1/status", &status);
	if (!output_is_data(ctl)) {
		if (r == EXIT_DONE)
			(void) printf("usherd %s\n", field_text(status, "version"));
		return r;
	}
	versions = json_pack("{s:s, s:s?}", "usherctl", USHER_VERSION, "usherd",
			json_string_value(json_object_get(status, "version")));
	(void) output_data(ctl, versions);
	return r;
}

int verb_reload(struct ctl *ctl)
{
	cleanup(json_decrefp) json_t *answer = NULL;
	int r;

	r = ctl_call(ctl, DOOR_CHANGE, "POST", "/v1/reload", NULL, &answer);
	if (r != EXIT_DONE)
		return r;
	if (output_is_data(ctl))
		return output_data(ctl, answer);
	(void) printf("The configuration is loaded; revision %" PRIu64 ".\n",
			field_number(answer, "revision"));
	return EXIT_DONE;
}
