#include "verbs.h"

#include <string.h>

static const char *const formats[] = { "table", "wide", "json", "yaml", NULL };
static const char *const orders[] = { "serve_stale", "refuse_first", NULL };

const struct option_info option_infos[OPTION_IDS] = {
	[OPTION_OUTPUT] = { "output", 'o', "FORMAT", "table (default), wide, json or yaml.",
			formats },
	[OPTION_SOCKET] = { "socket", 0, "PATH",
			"The daemon's socket; without it, verbs that read use the consumer socket, verbs that change the admin socket.",
			NULL },
	[OPTION_NO_COLOR] = { "no-color", 0, NULL,
			"Plain text; so does NO_COLOR in the environment.", NULL },
	[OPTION_HELP] = { "help", 'h', NULL, "Help on the verb.", NULL },
	[OPTION_VERSION] = { "version", 0, NULL, "The version of usherctl.", NULL },
	[OPTION_MAX_AGE] = { "max-age", 0, "DURATION",
			"Refuse an answer that is older (exit 6): 250ms, 5s, 2m.", NULL },
	[OPTION_CHOSEN] = { "chosen", 0, NULL, "Only the endpoints that a pick may give.", NULL },
	[OPTION_HINT] = { "hint", 0, "TEXT", "The request's hint.", NULL },
	[OPTION_VERSION_LABEL] = { "version-label", 0, "TEXT",
			"The version that the request asks for.", NULL },
	[OPTION_STICKY] = { "sticky", 0, "ENDPOINT", "The endpoint to stay with.", NULL },
	[OPTION_KEY] = { "key", 0, "TEXT", "The key for consistent hashing.", NULL },
	[OPTION_EXCLUDE] = { "exclude", 0, "ENDPOINT",
			"Not this one, which was tried already; may be given again.", NULL },
	[OPTION_HEADER] = { "header", 0, "NAME:VALUE",
			"A header of the request that the endpoint is for; may be given again.",
			NULL },
	[OPTION_WAIT] = { "wait", 0, NULL, "Show each step as it happens, until the end.", NULL },
	[OPTION_WAIT_TIMEOUT] = { "wait-timeout", 0, "DURATION",
			"Give up waiting (exit 124) after this time; the job goes on. Implies --wait.",
			NULL },
	[OPTION_TIMEOUT] = { "timeout", 0, "DURATION",
			"The job's own deadline, instead of the configured one.", NULL },
	[OPTION_REASON] = { "reason", 0, "TEXT", "Why, for the record.", NULL },
	[OPTION_ORDER] = { "order", 0, "ORDER",
			"serve_stale (deregister first, keep serving) or refuse_first (turn readiness off first).",
			orders },
	[OPTION_RATE] = { "rate", 0, "PER_SECOND",
			"Requests per second, for the stale picks to expect.", NULL },
	[OPTION_ENDPOINTS] = { "endpoints", 0, "N",
			"For so many endpoints, what their checks would cost.", NULL },
	[OPTION_REVISION] = { "revision", 0, "N",
			"Go on from this revision, where the daemon still knows it.", NULL },
};

#define O(id)   (1u << OPTION_##id)
#define REQUEST (O(HINT) | O(VERSION_LABEL) | O(STICKY) | O(KEY) | O(EXCLUDE) | O(HEADER))
#define REQUEST_USAGE                                                                                 \
	"[--hint TEXT] [--version-label TEXT] [--sticky ENDPOINT] [--key TEXT] [--exclude ENDPOINT] " \
	"[--header NAME:VALUE]"
#define WAITING    (O(WAIT) | O(WAIT_TIMEOUT))
#define WAIT_USAGE "[--wait] [--wait-timeout DURATION]"

const struct verb verbs[] = {
	{ "get", "get services|endpoints|sources|consumers|drains|plugins|registrations [NAME...]",
			"List things, all or by name",
			"NAME is the thing's own; for endpoints it is SERVICE or SERVICE/ENDPOINT, for drains and\n"
			"registrations an id, a SERVICE or SERVICE/ID. Endpoints are listed with those that are left out,\n"
			"and why; --chosen leaves them out. get drains --wait waits until none of them runs, those included\n"
			"that begin meanwhile: 0 all ended as meant, 124 gave up waiting, else as for drain.",
			O(MAX_AGE) | O(CHOSEN) | WAITING, ARGUMENT_KIND, 1, SIZE_MAX, verb_get },
	{ "describe", "describe service|endpoint|source|consumer|drain|plugin|registration NAME...",
			"Everything about one thing",
			"An endpoint or registration is named SERVICE/ID; a drain by its id, or SERVICE/ENDPOINT for the newest one\n"
			"of it. A plug-in is described with the table of its options.",
			O(MAX_AGE), ARGUMENT_KIND, 2, SIZE_MAX, verb_describe },
	{ "pick", "pick SERVICE " REQUEST_USAGE, "Choose one endpoint",
			"Prints its id and address. Counts as a pick like any consumer's.",
			O(MAX_AGE) | REQUEST, ARGUMENT_SERVICE, 1, 1, verb_pick },
	{ "watch", "watch SERVICE [--revision N]", "Follow a service's directory",
			"A line for every change, until interrupted; -o json gives the lines of the stream as they are.\n"
			"When usherd goes away, the watch goes on as soon as it is back.",
			O(REVISION), ARGUMENT_SERVICE, 1, 1, verb_watch },
	{ "explain", "explain SERVICE " REQUEST_USAGE,
			"A pick, stage by stage, and why each endpoint left",
			"Does not count as a pick.", O(MAX_AGE) | REQUEST, ARGUMENT_SERVICE, 1, 1,
			verb_explain },
	{ "drain",
			"drain SERVICE/ENDPOINT " WAIT_USAGE
			" [--timeout DURATION] [--reason TEXT] [--order ORDER]",
			"Take an endpoint out of service",
			"Asking again for an endpoint that is being drained finds the drain that runs. With --wait the exit\n"
			"code tells how it ended: 0 done, 7 done but forced (a step's budget was spent), 8 done in part\n"
			"(the registry could not be told), 1 failed or held, 9 refused by a guard, 124 gave up waiting,\n"
			"130 interrupted. Ending the wait never ends the drain.\n"
			"--timeout is the drain's own deadline; --wait-timeout is how long this command waits.",
			WAITING | O(TIMEOUT) | O(REASON) | O(ORDER), ARGUMENT_TARGET, 1, 1,
			verb_drain },
	{ "restore", "restore SERVICE/ENDPOINT " WAIT_USAGE " [--timeout DURATION] [--reason TEXT]",
			"Bring an endpoint back",
			"Probes it, registers it, waits until the registry shows it, and raises its weight step by step.\n"
			"Exit codes as for drain.",
			WAITING | O(TIMEOUT) | O(REASON), ARGUMENT_TARGET, 1, 1, verb_restore },
	{ "cancel", "cancel DRAIN-ID|SERVICE/ENDPOINT " WAIT_USAGE, "Stop a drain and go back",
			"With --wait, 0 says that the endpoint is back in service.", WAITING,
			ARGUMENT_DRAIN, 1, 1, verb_cancel },
	{ "register", "register SERVICE/ID port=PORT [KEY=VALUE...] " WAIT_USAGE,
			"Have an instance of this node registered",
			"KEY is one of an item of `registrations` in the configuration, such as address, sources or\n"
			"metadata.NAME; a dot goes a map deeper (health.http.path=/health). VALUE is a text, or JSON.\n"
			"usherd keeps it, through restarts too, until it is deregistered: it waits for the first good\n"
			"check, registers it, keeps it alive, and registers it again where a registry loses it.\n"
			"Asking again changes what is registered. With --wait, 0 says that every registry has it.",
			WAITING, ARGUMENT_REGISTRATION, 2, SIZE_MAX, verb_register },
	{ "deregister", "deregister SERVICE/ID " WAIT_USAGE, "Take out what was registered",
			"With --wait, 0 says that no registry has it any more. What the configuration declares is taken out\n"
			"there.",
			WAITING, ARGUMENT_REGISTRATION, 1, 1, verb_deregister },
	{ "budget", "budget [SERVICE [--rate PER_SECOND] [--endpoints N]]",
			"How long a stopped endpoint may still be chosen, at worst; what checks cost",
			"Adds the declared windows up before anyone starts, and tells what is proven from what is assumed;\n"
			"with what the service's checks cost, estimated before the first of them, then measured.\n"
			"Without SERVICE: what all checks of this node cost, and how the prober keeps up.",
			O(RATE) | O(ENDPOINTS), ARGUMENT_SERVICE, 0, 1, verb_budget },
	{ "top", "top", "A live table of the services",
			"Refreshed each second, until q or Ctrl-C; off a terminal, one frame.", 0,
			ARGUMENT_NONE, 0, 0, verb_top },
	{ "check", "check FILE", "Check a configuration file",
			"Runs usherd --check FILE, of the usherd beside usherctl or in the PATH.",
			0, ARGUMENT_FILE, 1, 1, verb_check },
	{ "reload", "reload", "Let usherd read its configuration again",
			"A configuration with a fault is refused, and the one before stays.", 0,
			ARGUMENT_NONE, 0, 0, verb_reload },
	{ "status", "status", "How usherd is", NULL, 0, ARGUMENT_NONE, 0, 0, verb_status },
	{ "version", "version", "The versions of usherctl and usherd", NULL, 0, ARGUMENT_NONE, 0, 0,
			verb_version },
	{ "completion", "completion bash|zsh|fish", "A shell's completion script",
			"To try one: source <(usherctl completion bash)", 0, ARGUMENT_SHELL, 1, 1,
			verb_completion },
	{ "help", "help [VERB]", "This, or help on a verb", NULL, 0, ARGUMENT_VERB, 0, 1,
			verb_help },
	{ 0 },
};

const struct verb *verb_find(const char *name)
{
	for (const struct verb *verb = verbs; verb->name; verb++)
		if (strcmp(verb->name, name) == 0)
			return verb;
	return NULL;
}
