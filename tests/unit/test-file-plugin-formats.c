/* The formats that the plug-in file reads: what becomes of each field, what is refused and how that
 * is said, and that no beginning of a file passes for an emptier one. */

#include "catalog.h"
#include "test.h"

/* ---- saying what a set says ---- */

struct words {
	char text[8192];
	size_t used;
};

__attribute__((format(printf, 2, 3))) static void say(struct words *w, const char *format, ...)
{
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vsnprintf(w->text + w->used, sizeof(w->text) - w->used, format, arguments);
	va_end(arguments);
	assert_true(n >= 0 && (size_t) n < sizeof(w->text) - w->used);
	w->used += (size_t) n;
}

static void say_endpoint(struct words *w, const struct usher_endpoints *set, size_t i)
{
	struct usher_endpoint e;

	usher_endpoints_get(set, i, &e);
	say(w, "%s", e.id);
	if (e.uid)
		say(w, " uid=%s", e.uid);
	say(w, " %s %u", e.address, e.port);
	if (e.zone)
		say(w, " zone=%s", e.zone);
	if (e.weight != 1 || e.weight_invalid)
		say(w, " weight=%u%s", e.weight, e.weight_invalid ? "!" : "");
	say(w, "%s%s%s%s", e.secure ? " secure" : "", e.ready ? "" : " unready",
			e.serving ? "" : " unserving", e.terminating ? " terminating" : "");
	if (e.admin_state != USHER_ADMIN_READY)
		say(w, " %s", usher_admin_state_to_string(e.admin_state));
	for (size_t k = 0; k < e.metadata_count; k++) {
		struct usher_label l = usher_endpoints_metadata_at(set, i, k);

		say(w, " %s:%s", l.name, l.value);
	}
	say(w, "\n");
}

/* Read a text as the file /x/NAME and say what it says of a service; or why not. */
static int read_text(const char *name, const char *bytes, size_t size, const char *space,
		struct catalog **ret, struct usher_error *reterr)
{
	char path[64], stem[64];
	struct format_options options = {
		.service_label = "service", .kubernetes_namespace = space, .stem = stem
	};
	struct file_text text = { .size = size };
	int r;

	(void) snprintf(path, sizeof(path), "/x/%s", name);
	(void) snprintf(stem, sizeof(stem), "%.*s", (int) strcspn(name, "."), name);
	text.bytes = malloc(size + 1);
	assert_non_null(text.bytes);
	memcpy(text.bytes, bytes, size);
	text.bytes[size] = '\0';
	r = catalog_read(path, &text, FORMAT_AUTO, &options, ret, reterr);
	file_text_done(&text);
	return r;
}

/* The set of a service, to be given back; NULL with *ret_code when it fails. */
static struct usher_endpoints *build(const struct catalog *c, const char *service, const char *port,
		int *ret_code, struct usher_error *reterr)
{
	const struct catalog_service *s = catalog_find(c, service);
	struct usher_endpoints *set;

	*ret_code = -ENOENT;
	if (!s)
		return NULL;
	set = usher_endpoints_new();
	assert_non_null(set);
	*ret_code = c->format->build(set, &c->parts[s->first], s->count, port, reterr);
	if (*ret_code < 0)
		return usher_endpoints_unref(set);
	usher_endpoints_seal(set);
	return set;
}

static void say_service(struct words *w, const char *name, const char *text, const char *space,
		const char *service, const char *port)
{
	struct usher_error err = { 0 };
	struct usher_endpoints *set;
	struct catalog *c = NULL;
	int r = read_text(name, text, strlen(text), space, &c, &err);

	*w = (struct words){ 0 };
	if (r < 0) {
		say(w, "%s: %s", strerrorname_np(-r), err.text);
		return;
	}
	set = build(c, service, port, &r, &err);
	for (size_t i = 0; set && i < usher_endpoints_count(set); i++)
		say_endpoint(w, set, i);
	if (!set)
		say(w, "%s: %s", strerrorname_np(-r), err.text);
	else if (usher_endpoints_count(set) == 0)
		say(w, "empty");
	(void) usher_endpoints_unref(set);
	(void) catalog_free(c);
}

static char *load(const char *name)
{
	char path[512];
	FILE *f;
	char *text = calloc(1, 65536);

	(void) snprintf(path, sizeof(path), "%s/file/%s", USHER_TEST_DATA, name);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_non_null(text);
	assert_true(fread(text, 1, 65535, f) > 0);
	assert_int_equal(fclose(f), 0);
	return text;
}

/* ---- whole files as others write them ---- */

struct file_case {
	const char *file, *service, *port, *says;
};

#define POD_A(port, more)                                                          \
	"catalog-7c9f-abcde uid=5f0c0f2e-0001 10.244.1.7 " port " zone=east " more \
	"kubernetes.namespace:shop kubernetes.node:node-1 "                        \
	"kubernetes.other-address:fd00:10:244:1::7 "
#define POD_B(port, more)                                       \
	"catalog-7c9f-fghij uid=5f0c0f2e-0002 10.244.2.9 " port \
	" zone=west unready terminating " more "kubernetes.namespace:shop kubernetes.node:node-2 "

static const struct file_case file_cases[] = {
	{ "kubectl.yaml", "catalog", "http",
			POD_A("8080", "kubernetes.app-protocol:kubernetes.io/h2c ") "kubernetes.port:http team:shop\n" POD_B(
					"8080",
					"kubernetes.app-protocol:kubernetes.io/h2c ") "kubernetes.port:http team:shop\n" },
	{ "kubectl.json", "shop/catalog", "9090",
			POD_A("9090", "") "kubernetes.port:metrics team:shop\n" POD_B(
					"9090", "") "kubernetes.port:metrics team:shop\n" },
	{ "kubectl.yaml", "search", NULL, "empty" },
	{ "kubectl.yaml", "nosuch", NULL, "ENOENT: " },
	{ "slices.json", "web", NULL,
			"web-1-pod uid=u-web-1 10.0.0.1 8080 zone=a "
			"kubernetes.app-protocol:kubernetes.io/h2c kubernetes.namespace:default "
			"kubernetes.node:n1 kubernetes.port:http kubernetes.zone-hints:a,b\n"
			"web-2-pod uid=u-web-2 10.0.0.2 8080 zone=b "
			"kubernetes.app-protocol:kubernetes.io/h2c kubernetes.namespace:default "
			"kubernetes.node:n2 kubernetes.port:http kubernetes.zone-hints:b,b\n" },
	{ "targets.json", "catalog", NULL,
			"10.0.0.5:8080 10.0.0.5 8080 zone=east weight=2 secure __meta_datacenter:dc1 "
			"service:catalog weight:2 zone:east\n"
			"[fd00::10]:8080 fd00::10 8080 zone=east weight=2 secure "
			"__meta_datacenter:dc1 service:catalog weight:2 zone:east\n" },
	{ "targets.json", "search", NULL,
			"search-1.example.org:80 search-1.example.org 80 job:search\n" },
	{ "targets.json", "cart", NULL, "empty" },
	{ "targets.yaml", "targets", NULL,
			"10.0.0.5:9100 10.0.0.5 9100 env:prod\n"
			"10.0.0.6:9100 10.0.0.6 9100 env:prod\n"
			"10.0.0.7:9100 10.0.0.7 9100\n" },
	{ "application.yaml", "catalog", NULL,
			"10.0.0.5:8080 10.0.0.5 8080\n"
			"catalog-b 10.0.0.6 8443 zone=east weight=3 secure weight:3 zone:east\n" },
	{ "application.yaml", "search", NULL, "empty" },
	{ "application.yaml", "cart.v1", NULL, "[fd00::10]:443 fd00::10 443 secure\n" },
	{ "usher.yaml", "catalog", NULL,
			"catalog-a 10.0.0.5 8080 zone=east weight=2 API_VERSION:1.0\n"
			"catalog-b uid=4711 fd00::10 8080 weight=0 secure unready terminating "
			"maintenance note: rack:3\n"
			"catalog-c.example.org:80 catalog-c.example.org 80 weight=1!\n" },
	{ "usher.json", "search", NULL, "empty" },
};

static void files_as_others_write_them_are_understood(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(file_cases) / sizeof(*file_cases); i++) {
		const struct file_case *c = &file_cases[i];
		char *text = load(c->file);
		struct words w;

		say_service(&w, c->file, text, NULL, c->service, c->port);
		if (strcmp(w.text, c->says) != 0)
			fail_msg("%s of %s says\n%s\ninstead of\n%s", c->service, c->file, w.text,
					c->says);
		free(text);
	}
}

/* ---- words and sentences ---- */

struct text_case {
	const char *text, *service, *says;
};

static void check(const char *name, const struct text_case *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct words w;

		say_service(&w, name, cases[i].text, NULL, cases[i].service, NULL);
		if (strncmp(w.text, cases[i].says, strlen(cases[i].says)) != 0)
			fail_msg("%s\nsays\n%s\ninstead of\n%s", cases[i].text, w.text,
					cases[i].says);
	}
}

#define CHECK(name, cases) check(name, cases, sizeof(cases) / sizeof(*(cases)))

#define OWN(endpoint) "services: {c: [" endpoint "]}\n"

static void what_is_wrong_in_ushers_format_is_named_with_its_place(void **state)
{
	static const struct text_case cases[] = {
		{ OWN("{address: 10.0.0.5}"), "c", "EBADMSG: /x/f.yaml:1:16: port: is missing" },
		{ OWN("{port: 1}"), "c", "EBADMSG: /x/f.yaml:1:16: address: is missing" },
		{ OWN("{address: 10.0.0.5, port: 0}"), "c",
				"ERANGE: /x/f.yaml:1:42: port: 0 is not in 1..65535" },
		{ OWN("{address: 10.0.0.5, port: 99999}"), "c", "ERANGE: /x/f.yaml:1:42: port: " },
		{ OWN("{address: 10.0.0.5, port: http}"), "c", "EINVAL: /x/f.yaml:1:42: port: " },
		{ OWN("{address: 10.0.0.5, port: 1, wieght: 2}"), "c",
				"EBADMSG: /x/f.yaml:1:45: wieght: is no key that usher knows here; "
				"did you mean weight?" },
		{ OWN("{address: 10.0.0.5, port: 1, secure: maybe}"), "c",
				"EINVAL: /x/f.yaml:1:53: secure: " },
		{ OWN("{address: 10.0.0.5, port: 1, state: gone}"), "c",
				"EBADMSG: /x/f.yaml:1:52: state: gone is none of ready, draining, "
				"maintenance" },
		{ OWN("{address: 10.0.0.5, port: 1, metadata: {a: [1]}}"), "c",
				"EBADMSG: /x/f.yaml:1:59: metadata.a: is a list, and must be a text" },
		{ OWN("{address: 10.0.0.5, port: 1, metadata: {a: }}"), "c",
				"EBADMSG: /x/f.yaml:1:59: metadata.a: is nothing, and must be a text" },
		{ OWN("{id: a, address: 10.0.0.5, port: 1}, {id: a, address: 10.0.0.6, port: 1}"),
				"c", "EEXIST: /x/f.yaml:1:53: the id a stands twice" },
		{ OWN("{address: 10.0.0.5, port: 1}, {address: 10.0.0.5, port: 1}"), "c",
				"EEXIST: /x/f.yaml:1:46: the address 10.0.0.5 stands twice" },
		{ OWN("text"), "c", "EBADMSG: /x/f.yaml:1:16: endpoint: is a text" },
		{ "services: {c: }\n", "c", "EBADMSG: /x/f.yaml:1:15: c: has no value" },
		{ "services: {c: {}}\n", "c",
				"EBADMSG: /x/f.yaml:1:15: c: is a map, and must be a list" },
		{ "services: []\n", "c", "EBADMSG: /x/f.yaml:1:11: services: is a list" },
		{ "services:\n", "c", "EBADMSG: /x/f.yaml:1:10: services: has no value" },
		{ "services: {}\nservice: {}\n", "c",
				"EBADMSG: /x/f.yaml:2:1: service: is no key that usher knows here; "
				"did you mean services?" },
		{ "services: {c: [], c: []}\n", "c", "EBADMSG: /x/f.yaml:1:19: " },
		{ "services: {\"\": []}\n", "c", "EBADMSG: /x/f.yaml:1:16: the service has" },
		{ "services: &a {}\n", "c", "EBADMSG: /x/f.yaml:1:" },
		{ "services: {}\n---\nservices: {}\n", "c", "EBADMSG: /x/f.yaml:2:1: " },
		{ "", "c", "EBADMSG: /x/f.yaml: is empty" },
		{ " \n\n", "c", "EBADMSG: /x/f.yaml: is empty" },
		{ "# only words\n", "c", "EBADMSG: /x/f.yaml:1:1: the file says nothing" },
		{ "services: {c: []}", "c", "EBADMSG: /x/f.yaml: the last line has no line end" },
		{ "catalog: []\n", "c", "EBADMSG: /x/f.yaml:1:1: this is no list of endpoints" },
		{ "just words\n", "c", "EBADMSG: /x/f.yaml:1:1: this is no list of endpoints" },
		{ "{\"services\": {\"c\": []}}", "c", "empty" },
		{ OWN("{address: 10.0.0.5, port: 1, id: null, zone: ~, metadata: null}"), "c",
				"10.0.0.5:1 10.0.0.5 1\n" },
	};

	(void) state;
	CHECK("f.yaml", cases);
}

static void weights_that_are_none_count_as_one_and_are_marked(void **state)
{
	static const struct {
		const char *weight, *says;
	} cases[] = {
		{ "20", " weight=20\n" },
		{ "\"20\"", " weight=20\n" },
		{ "0", " weight=0\n" },
		{ "100000", " weight=100000\n" },
		{ "100001", " weight=1!\n" },
		{ "\" 20 \"", " weight=1!\n" },
		{ "30%", " weight=1!\n" },
		{ "-5", " weight=1!\n" },
		{ "1e9", " weight=1!\n" },
		{ "NaN", " weight=1!\n" },
		{ "\"\"", " weight=1!\n" },
		{ "0x10", " weight=1!\n" },
		{ "4294967297", " weight=1!\n" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char text[160], says[160];
		struct words w;

		(void) snprintf(text, sizeof(text), OWN("{address: h, port: 1, weight: %s}"),
				cases[i].weight);
		(void) snprintf(says, sizeof(says), "h:1 h 1%s", cases[i].says);
		say_service(&w, "f.yaml", text, NULL, "c", NULL);
		assert_string_equal(w.text, says);
	}
}

static void addresses_are_understood_or_refused_with_field_and_line(void **state)
{
	static const struct text_case cases[] = {
		{ OWN("{address: \"fd00::10\", port: 8080}"), "c",
				"[fd00::10]:8080 fd00::10 8080\n" },
		{ OWN("{address: \"::1\", port: 80}"), "c", "[::1]:80 ::1 80\n" },
		{ OWN("{address: \"fe80::1%eth0\", port: 80}"), "c",
				"[fe80::1%eth0]:80 fe80::1%eth0 80\n" },
		{ OWN("{address: \"::ffff:10.0.0.1\", port: 80}"), "c", "[::ffff:10.0.0.1]:80 " },
		{ OWN("{address: \"[::1]\", port: 80}"), "c", "EINVAL: /x/f.yaml:1:26: address" },
		{ OWN("{address: \"[::1]:80\", port: 80}"), "c",
				"EINVAL: /x/f.yaml:1:26: address" },
		{ OWN("{address: \"10.0.0.5:80\", port: 80}"), "c",
				"EINVAL: /x/f.yaml:1:26: address" },
		{ OWN("{address: \"a b\", port: 80}"), "c", "EINVAL: /x/f.yaml:1:26: address" },
		{ OWN("{address: \"\", port: 80}"), "c", "EINVAL: /x/f.yaml:1:26: address" },
		{ "[{targets: [\"[fd00::10]:8080\"]}]\n", "f", "[fd00::10]:8080 fd00::10 8080\n" },
		{ "[{targets: [\"2001:db8::1:8080\"]}]\n", "f",
				"EINVAL: /x/f.yaml:1:13: targets: " },
		{ "[{targets: [\"::1\"]}]\n", "f", "EINVAL: /x/f.yaml:1:13: targets: " },
		{ "[{targets: [\"10.0.0.5\"]}]\n", "f", "EINVAL: /x/f.yaml:1:13: targets: " },
		{ "[{targets: [\"10.0.0.5\"], labels: {__scheme__: https}}]\n", "f",
				"10.0.0.5:443 10.0.0.5 443 secure\n" },
	};

	(void) state;
	CHECK("f.yaml", cases);
}

static void prometheus_groups_are_judged(void **state)
{
	static const struct text_case cases[] = {
		{ "[]\n", "f", "ENOENT: " },
		{ "[{labels: {service: s}}]\n", "s",
				"EBADMSG: /x/f.yaml:1:2: targets: is missing" },
		{ "[{targets: }]\n", "f", "EBADMSG: /x/f.yaml:1:12: targets: has no value" },
		{ "[{targets: [], lables: {}}]\n", "f",
				"EBADMSG: /x/f.yaml:1:16: lables: is no key" },
		{ "[{targets: [\"h:1\", \"h:1\"]}]\n", "f", "h:1 h 1\n" },
		{ "[{targets: [\"h:1\"]}, {targets: [\"h:1\"], labels: {a: b}}]\n", "f",
				"EEXIST: /x/f.yaml:1:33: targets: h:1 stands twice" },
		{ "[{targets: [\"h:1\"], labels: {service: s, job: j}}]\n", "s", "h:1 h 1 job:j" },
		{ "[{targets: [\"h:1\"], labels: {zone: \"\"}}]\n", "f", "h:1 h 1 zone:\n" },
		{ "[{targets: [{}]}]\n", "f", "EBADMSG: /x/f.yaml:1:13: targets: is a map" },
		{ "[1]\n", "f", "EBADMSG: /x/f.yaml:1:2: group: is a text" },
	};

	(void) state;
	CHECK("f.yaml", cases);
}

#define INSTANCES(c) "spring.cloud.discovery.client.simple.instances: {c: " c "}\n"

static void spring_instances_are_judged(void **state)
{
	static const struct text_case cases[] = {
		{ INSTANCES("[]"), "c", "empty" },
		{ INSTANCES("[{uri: \"http://h\"}]"), "c", "h:80 h 80\n" },
		{ INSTANCES("[{uri: \"lb://h\"}]"), "c", "EINVAL: /x/f.yaml:1:60: uri: " },
		{ INSTANCES("[{uri: \"h:80\"}]"), "c",
				"EBADMSG: /x/f.yaml:1:60: uri: h:80 is none" },
		{ INSTANCES("[{uri: \"https://h:1/\", host: other, port: 2, secure: false}]"), "c",
				"h:1 h 1 secure\n" },
		{ INSTANCES("[{host: h, secure: true}]"), "c", "h:443 h 443 secure\n" },
		{ INSTANCES("[{host: h, port: 0}]"), "c", "h:80 h 80\n" },
		{ INSTANCES("[{port: 80}]"), "c",
				"EBADMSG: /x/f.yaml:1:54: an instance needs `uri`" },
		{ INSTANCES("[{host: h, instance-id: i, service-id: other}]"), "c", "i h 80\n" },
		{ INSTANCES(""), "c", "EBADMSG: /x/f.yaml:1:53: c: has no value" },
		{ INSTANCES("[], \"d[0].uri\": \"http://h\""), "d",
				"EBADMSG: /x/f.yaml:1:69: d[0].uri: instances that are numbered" },
		{ "spring: {cloud: {discovery: {client: {simple: {instances: {c: []}}}}}}\n", "c",
				"empty" },
		{ "spring.cloud: {discovery.client: {simple.instances.c: []}}\n", "c", "empty" },
		{ "spring: {application: {name: x}}\n", "c",
				"EBADMSG: /x/f.yaml:1:1: spring.cloud.discovery.client.simple.instances: "
				"is missing" },
		{ "spring: text\n", "c", "EBADMSG: " },
	};

	(void) state;
	CHECK("f.yaml", cases);
}

/* ---- EndpointSlices ---- */

#define META(name, version)                                                    \
	"metadata: {name: " name ", namespace: n, resourceVersion: \"" version \
	"\", labels: {kubernetes.io/service-name: c}}"
#define SLICE(name, version, endpoints, ports)                                                    \
	"{kind: EndpointSlice, addressType: IPv4, " META(name, version) ", endpoints: " endpoints \
									", ports: " ports "}"
#define SIX(name, version, endpoints, ports)                                                      \
	"{kind: EndpointSlice, addressType: IPv6, " META(name, version) ", endpoints: " endpoints \
									", ports: " ports "}"
#define LIST(...)      "apiVersion: v1\nkind: List\nitems: [" __VA_ARGS__ "]\n"
#define POD(name, uid) ", targetRef: {kind: Pod, name: " name ", uid: " uid "}"
#define PORT80         "[{port: 80}]"
#define NS             " kubernetes.namespace:n"

static void slices_are_put_together(void **state)
{
	static const struct text_case cases[] = {
		/* Nil is ready, serving, not terminating. */
		{ LIST(SLICE("a", "1", "[{addresses: [10.0.0.1]}]", PORT80)), "c",
				"10.0.0.1:80 10.0.0.1 80" NS "\n" },
		{ LIST(SLICE("a", "1", "[{addresses: [10.0.0.1], conditions: {}}]", PORT80)), "c",
				"10.0.0.1:80 10.0.0.1 80" NS "\n" },
		{ LIST(SLICE("a", "1",
				  "[{addresses: [10.0.0.1], conditions: {ready: null, serving: false}}]",
				  PORT80)),
				"c", "10.0.0.1:80 10.0.0.1 80 unserving" NS "\n" },
		/* Only the first address counts. */
		{ LIST(SLICE("a", "1", "[{addresses: [10.0.0.1, 10.0.0.2]}]", PORT80)), "c",
				"10.0.0.1:80 10.0.0.1 80" NS "\n" },
		/* The same pod in two slices: the newer slice. */
		{ LIST(SLICE("a", "9",
				  "[{addresses: [10.0.0.1], conditions: {ready: false}" POD(
						  "p", "u") "}]",
				  PORT80) "," SLICE("b", "10",
				  "[{addresses: [10.0.0.1], conditions: {ready: true}" POD(
						  "p", "u") "}]",
				  PORT80)),
				"c", "p uid=u 10.0.0.1 80" NS "\n" },
		{ LIST(SLICE("a", "10",
				  "[{addresses: [10.0.0.1], conditions: {ready: false}" POD(
						  "p", "u") "}]",
				  PORT80) "," SLICE("b", "9",
				  "[{addresses: [10.0.0.1], conditions: {ready: true}" POD(
						  "p", "u") "}]",
				  PORT80)),
				"c", "p uid=u 10.0.0.1 80 unready" NS "\n" },
		/* Neither is newer: the ready one. */
		{ LIST(SLICE("a", "1", "[{addresses: [10.0.0.1], conditions: {ready: false}}]",
				  PORT80) "," SLICE("b", "1",
				  "[{addresses: [10.0.0.1], conditions: {ready: true}}]", PORT80)),
				"c", "10.0.0.1:80 10.0.0.1 80" NS "\n" },
		/* Two pods with one address: the ready one, though its slice is older. */
		{ LIST(SLICE("a", "10",
				  "[{addresses: [10.0.0.1], conditions: {ready: false, terminating: true}" POD(
						  "p", "u") "}]",
				  PORT80) "," SLICE("b", "9",
				  "[{addresses: [10.0.0.1]" POD("q", "v") "}]", PORT80)),
				"c", "q uid=v 10.0.0.1 80" NS "\n" },
		/* A pod of both families is one endpoint. */
		{ LIST(SIX("a", "1", "[{addresses: [\"fd00::1\"]" POD("p", "u") "}]",
				  PORT80) "," SLICE("b", "1",
				  "[{addresses: [10.0.0.1]" POD("p", "u") "}]", PORT80)),
				"c",
				"p uid=u 10.0.0.1 80" NS " kubernetes.other-address:fd00::1\n" },
		/* Named ports that differ from pod to pod. */
		{ LIST(SLICE("a", "1", "[{addresses: [10.0.0.1]}]",
				  "[{name: x, port: 8080}]") "," SLICE("b", "1",
				  "[{addresses: [10.0.0.2]}]", "[{name: x, port: 9090}]")),
				"c",
				"10.0.0.1:8080 10.0.0.1 8080" NS " kubernetes.port:x\n"
				"10.0.0.2:9090 10.0.0.2 9090" NS " kubernetes.port:x\n" },
		/* A pod and its successor of the same name. */
		{ LIST(SLICE("a", "1",
				  "[{addresses: [10.0.0.1], conditions: {ready: false, terminating: true}" POD(
						  "p", "u") "},"
							    "{addresses: [10.0.0.2]" POD(
									    "p", "v") "}]",
				  PORT80)),
				"c",
				"10.0.0.1:80 uid=u 10.0.0.1 80 unready terminating" NS "\n"
				"p uid=v 10.0.0.2 80" NS "\n" },
		/* UDP only when there is no TCP. */
		{ LIST(SLICE("a", "1", "[{addresses: [10.0.0.1]}]",
				  "[{name: d, protocol: UDP, port: 53}, {port: 54}]")),
				"c", "10.0.0.1:54 " },
		{ LIST(SLICE("a", "1", "[{addresses: [10.0.0.1]}]", "[{name: https, port: 443}]")),
				"c", "10.0.0.1:443 10.0.0.1 443 secure" },
		/* Slices that are nobody's, and kinds that are none. */
		{ LIST("{kind: Pod}, " SLICE("a", "1", "[]", "[]")), "c", "empty" },
		{ LIST("{kind: EndpointSlice, addressType: FQDN, " META(
				  "a", "1") ", endpoints: [{addresses: [x.org]}], ports: []}"),
				"c", "ENOENT: " },
		{ LIST("{kind: EndpointSlice, metadata: {name: x}}"), "c", "ENOENT: " },
	};

	(void) state;
	CHECK("f.yaml", cases);
}

static void slices_that_are_odd_neither_crash_nor_empty_a_service(void **state)
{
	static const struct text_case cases[] = {
		{ LIST(SLICE("a", "1", "null", "null")), "c", "empty" },
		{ LIST(SLICE("a", "1", "[]", "[{}]")), "c", "empty" },
		{ LIST(SLICE("a", "1", "[{addresses: [10.0.0.1]}]", "null")), "c",
				"EBADMSG: /x/f.yaml:3:9: service c: none of its 1 endpoints" },
		{ LIST(SLICE("a", "1", "[{addresses: [10.0.0.1]}]", "[{}]")), "c",
				"EBADMSG: /x/f.yaml:3:9: service c: none of its 1 endpoints" },
		{ LIST(SLICE("a", "1", "[{addresses: [10.0.0.1]}]", "[{name: http}]")), "c",
				"EBADMSG: /x/f.yaml:3:9: service c: none of its 1 endpoints" },
		{ LIST(SLICE("a", "1", "[{addresses: []}]", PORT80)), "c",
				"EBADMSG: /x/f.yaml:3:9: service c: none of its 1 endpoints" },
		{ LIST(SLICE("a", "1", "[{addresses: null}, {addresses: [10.0.0.1]}, {}]", PORT80)),
				"c", "10.0.0.1:80 10.0.0.1 80" },
		{ LIST(SLICE("a", "1", "[{addresses: [x]}]", PORT80)), "c",
				"EBADMSG: /x/f.yaml:3:" },
		{ LIST(SLICE("a", "1", "[{addresses: [\"fd00::1\"]}]", PORT80)), "c",
				"EBADMSG: /x/f.yaml:3:" },
		{ LIST(SLICE("a", "1", "[{conditions: [1]}]", PORT80)), "c", "EBADMSG: " },
		{ LIST(SLICE("a", "1", "[{conditions: {ready: 3}}]", PORT80)), "c", "EINVAL: " },
		{ LIST(SLICE("a", "1", "[{addresses: x}]", PORT80)), "c", "EBADMSG: " },
		{ LIST(SLICE("a", "1", "[null]", PORT80)), "c", "EBADMSG: " },
		{ LIST(SLICE("a", "1", "[]", "[null]")), "c", "EBADMSG: " },
		{ LIST(SLICE("a", "1", "[]", "[{port: 0}]")), "c", "ERANGE: " },
		{ LIST(SLICE("a", "1", "{}", "[]")), "c", "EBADMSG: " },
		{ LIST("{kind: EndpointSlice, addressType: IPv4, " META("a", "1") "}"), "c",
				"EBADMSG: /x/f.yaml:3:9: endpoints: is missing" },
		{ LIST("{kind: EndpointSlice, addressType: IPv9, " META("a", "1") "}"), "c",
				"EBADMSG: " },
		{ LIST("{kind: EndpointSlice}"), "c",
				"EBADMSG: /x/f.yaml:3:9: metadata: is missing" },
		{ LIST("{kind: EndpointSlice, metadata: [], x: y}"), "c", "EBADMSG: " },
		{ LIST("{}"), "c", "EBADMSG: /x/f.yaml:3:9: kind: is missing in an item" },
		{ LIST("null"), "c", "EBADMSG: " },
		{ LIST("{kind: Pod}"), "c", "EBADMSG: /x/f.yaml:3:16: kind: Pod is none of" },
		{ LIST("{kind: Endpoints}"), "c",
				"EBADMSG: /x/f.yaml:3:16: kind: Endpoints are cut off at 1000" },
		{ "apiVersion: v1\nkind: Endpoints\nmetadata: {annotations: "
		  "{endpoints.kubernetes.io/over-capacity: truncated}}\n",
				"c",
				"EBADMSG: /x/f.yaml:2:7: kind: Endpoints are cut off at 1000" },
		{ "apiVersion: v1\nkind: List\n", "c",
				"EBADMSG: /x/f.yaml:1:1: items: is missing" },
		{ "apiVersion: v1\nkind: List\nitems:\n", "c", "EBADMSG: " },
		{ "apiVersion: v1\nkind:\nitems: []\n", "c",
				"EBADMSG: /x/f.yaml:1:1: kind: is missing" },
		{ "apiVersion: v1\nkind: EndpointSliceList\nmetadata: {continue: abc}\nitems: []\n",
				"c",
				"EBADMSG: /x/f.yaml:3:11: metadata.continue: the file is only one page" },
		{ "apiVersion: discovery.k8s.io/v1\nkind: EndpointSliceList\nmetadata: {}\nitems: []\n",
				"c", "ENOENT: " },
	};

	(void) state;
	CHECK("f.yaml", cases);
}

static void a_port_that_no_slice_has_is_said(void **state)
{
	struct words w;

	(void) state;
	say_service(&w, "f.yaml", LIST(SLICE("a", "1", "[{addresses: [10.0.0.1]}]", PORT80)), NULL,
			"c", "grpc");
	assert_non_null(strstr(
			w.text, "ENOENT: /x/f.yaml:3:9: service c: no slice has the port grpc"));
}

#define OF(space, address)                                                              \
	"{kind: EndpointSlice, addressType: IPv4, metadata: {namespace: " space         \
	", labels: {kubernetes.io/service-name: c}}, endpoints: [{addresses: [" address \
	"]}], ports: [{port: 80}]}"

static void namespaces_are_not_mixed(void **state)
{
	static const char text[] = LIST(OF("n", "10.0.0.1") "," OF("m", "10.0.0.2"));
	struct words w;

	(void) state;
	say_service(&w, "f.yaml", text, NULL, "c", NULL);
	assert_non_null(strstr(w.text, "EEXIST: "));
	assert_non_null(strstr(w.text, "in the namespaces n and m"));
	say_service(&w, "f.yaml", text, NULL, "m/c", NULL);
	assert_string_equal(w.text, "10.0.0.2:80 10.0.0.2 80 kubernetes.namespace:m\n");
	say_service(&w, "f.yaml", text, "n", "c", NULL);
	assert_string_equal(w.text, "10.0.0.1:80 10.0.0.1 80 kubernetes.namespace:n\n");
}

/* ---- what a cut does ---- */

/* No beginning of a file makes a service empty that has endpoints in the whole. */
static void check_beginning(
		const char *name, const char *text, size_t size, const struct catalog *whole)
{
	struct catalog *c = NULL;

	if (read_text(name, text, size, NULL, &c, NULL) < 0)
		return;
	for (size_t i = 0; i < whole->service_count; i++) {
		int r;
		struct usher_endpoints *all = build(whole, whole->services[i].name, NULL, &r, NULL);
		struct usher_endpoints *some = build(c, whole->services[i].name, NULL, &r, NULL);

		assert_non_null(all);
		if (some && usher_endpoints_count(some) == 0 && usher_endpoints_count(all) > 0)
			fail_msg("the first %zu bytes of %s make %s empty", size, name,
					whole->services[i].name);
		if (some && text[size - 1] != '\n' &&
				usher_endpoints_count(some) < usher_endpoints_count(all))
			fail_msg("the first %zu bytes of %s pass for all of it", size, name);
		(void) usher_endpoints_unref(all);
		(void) usher_endpoints_unref(some);
	}
	(void) catalog_free(c);
}

static void promise_p2_no_beginning_of_a_file_empties_a_service(void **state)
{
	static const char *const files[] = { "kubectl.yaml", "kubectl.json", "slices.json",
		"targets.json", "targets.yaml", "application.yaml", "usher.yaml", "usher.json" };

	(void) state;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		char *text = load(files[i]);
		struct catalog *whole = NULL;

		assert_ok(read_text(files[i], text, strlen(text), NULL, &whole, NULL));
		for (size_t size = 1; size < strlen(text); size++)
			check_beginning(files[i], text, size, whole);
		(void) catalog_free(whole);
		free(text);
	}
}

static void only_slices_end_where_they_were_cut(void **state)
{
	/* kubectl's YAML says what it is at its end: no cut of it at the end of a line passes. */
	char *text = load("kubectl.yaml");
	size_t size = strlen(text), passed = 0;

	(void) state;
	for (size_t n = 1; n < size; n++) {
		struct catalog *c = NULL;

		if (text[n - 1] == '\n' && read_text("k.yaml", text, n, NULL, &c, NULL) == 0 &&
				catalog_find(c, "search") == NULL)
			passed++;
		(void) catalog_free(c);
	}
	assert_int_equal(passed, 0);
	free(text);
}

/* ---- resources ---- */

/* before + count times each + after. */
static char *repeat(const char *before, const char *each, size_t count, const char *after)
{
	size_t first = strlen(before), step = strlen(each);
	char *text = malloc(first + count * step + strlen(after) + 1);

	assert_non_null(text);
	memcpy(text, before, first + 1);
	for (size_t i = 0; i < count; i++)
		memcpy(text + first + i * step, each, step);
	memcpy(text + first + count * step, after, strlen(after) + 1);
	return text;
}

static void more_than_a_maximum_is_refused(void **state)
{
	static const struct {
		const char *name, *before, *each, *after;
		size_t maximum;
		int code;
	} cases[] = {
		{ "groups.yaml", "[", "{targets: []},", "]\n", CATALOG_PARTS_MAX, E2BIG },
		{ "targets.yaml", "- targets:\n", "  - h:1\n", "", 300000, 0 },
		{ "deep.yaml", "services: ", "[", "\n", USHER_DOCUMENT_DEPTH_MAX, E2BIG },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *text = repeat(cases[i].before, cases[i].each, cases[i].maximum + 1,
				cases[i].after);
		struct catalog *c = NULL;

		if (cases[i].code == 0)
			assert_ok(read_text(cases[i].name, text, strlen(text), NULL, &c, NULL));
		else
			assert_errno(read_text(cases[i].name, text, strlen(text), NULL, &c, NULL),
					cases[i].code);
		(void) catalog_free(c);
		free(text);
	}
}

static void an_endpoint_has_a_maximum_of_metadata(void **state)
{
	char text[4096];
	struct usher_error err = { 0 };
	struct catalog *c = NULL;
	size_t used = (size_t) snprintf(
			text, sizeof(text), "services: {c: [{address: h, port: 1, metadata: {");

	(void) state;
	for (int i = 0; i <= USHER_METADATA_MAX; i++)
		used += (size_t) snprintf(text + used, sizeof(text) - used, "k%d: v, ", i);
	used += (size_t) snprintf(text + used, sizeof(text) - used, "}}]}\n");
	assert_errno(read_text("f.yaml", text, used, NULL, &c, &err), E2BIG);
	assert_non_null(strstr(err.text, "metadata: there are more than 128 for one endpoint"));
}

static void a_service_has_a_maximum_of_endpoints(void **state)
{
	const size_t count = USHER_ENDPOINTS_MAX + 1, space = count * 48 + 64;
	char *text = malloc(space);
	struct usher_error err = { 0 };
	struct catalog *c = NULL;
	size_t used;

	(void) state;
	assert_non_null(text);
	used = (size_t) snprintf(text, space, "services:\n  c:\n");
	for (size_t i = 0; i < count; i++)
		used += (size_t) snprintf(text + used, space - used,
				"  - {id: e%zu, address: h, port: 1}\n", i);
	assert_errno(read_text("f.yaml", text, used, NULL, &c, &err), E2BIG);
	assert_non_null(strstr(err.text, "/x/f.yaml:100003:5: "));
	free(text);
}

static void a_document_is_let_go_of_once_the_sets_are_made(void **state)
{
	static const char text[] = "services:\n"
				   "  search: []\n"
				   "  catalog:\n"
				   "    - {id: a, address: 10.0.0.5, port: 8080}\n";
	const struct catalog_service *s;
	struct catalog *c = NULL;

	(void) state;
	assert_ok(read_text("f.yaml", text, strlen(text), NULL, &c, NULL));
	assert_ok(catalog_forget_document(c));
	assert_null(c->document);
	s = catalog_find(c, "catalog");
	assert_non_null(s);
	assert_string_equal(s->name, "catalog");
	assert_int_equal(s->line, 4);
	assert_int_equal(s->column, 5);
	assert_string_equal(usher_endpoints_id(s->set, 0), "a");
	assert_int_equal(usher_endpoints_count(catalog_find(c, "search")->set), 0);
	assert_null(catalog_find(c, "other"));
	assert_ok(catalog_forget_document(c));
	(void) catalog_free(c);
}

/* What a service's endpoints are is not known from the file alone. */
static void a_document_that_is_still_asked_is_kept(void **state)
{
	static const char *const files[] = { "kubectl.yaml", "targets.json" };

	(void) state;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		char *text = load(files[i]);
		struct catalog *c = NULL;

		assert_ok(read_text(files[i], text, strlen(text), NULL, &c, NULL));
		assert_ok(catalog_forget_document(c));
		assert_non_null(c->document);
		(void) catalog_free(c);
		free(text);
	}
}

static void sets_that_say_the_same_are_held_once(void **state)
{
	static const char before[] = "services:\n"
				     "  a: [{id: a, address: 10.0.0.5, port: 8080}]\n"
				     "  b: [{id: b, address: 10.0.0.6, port: 8080}]\n";
	static const char after[] = "services:\n"
				    "  a: [{id: a, address: 10.0.0.5, port: 8080}]\n"
				    "  b: [{id: b, address: 10.0.0.6, port: 8081}]\n"
				    "  c: [{id: c, address: 10.0.0.7, port: 8080}]\n";
	struct catalog *old = NULL, *c = NULL;

	(void) state;
	assert_ok(read_text("f.yaml", before, strlen(before), NULL, &old, NULL));
	assert_ok(read_text("f.yaml", after, strlen(after), NULL, &c, NULL));
	catalog_share_sets(c, old);
	assert_ptr_equal(catalog_find(c, "a")->set, catalog_find(old, "a")->set);
	assert_ptr_not_equal(catalog_find(c, "b")->set, catalog_find(old, "b")->set);
	(void) catalog_free(old);
	assert_string_equal(usher_endpoints_id(catalog_find(c, "a")->set, 0), "a");
	assert_string_equal(usher_endpoints_id(catalog_find(c, "c")->set, 0), "c");
	(void) catalog_free(c);
}

static int forget_or_run_out(void *userdata)
{
	return catalog_forget_document(userdata);
}

static int read_or_run_out(void *userdata)
{
	struct format_options options = { .service_label = "service", .stem = "x" };
	struct file_text text = { .bytes = userdata, .size = strlen(userdata) };
	struct catalog *c = NULL;
	int r = catalog_read("/x/x.yaml", &text, FORMAT_AUTO, &options, &c, NULL);

	(void) catalog_free(c);
	return r;
}

static int build_or_run_out(void *userdata)
{
	const struct catalog *c = userdata;
	struct usher_endpoints *set = usher_endpoints_new();
	int r;

	if (!set)
		return -ENOMEM;
	r = c->format->build(set, &c->parts[0], c->services[0].count, NULL, NULL);
	(void) usher_endpoints_unref(set);
	return r;
}

static void running_out_of_memory_is_survived(void **state)
{
	static const char *const files[] = { "usher.yaml", "kubectl.yaml", "targets.json",
		"application.yaml" };

	(void) state;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		char *text = load(files[i]);
		struct catalog *c = NULL;

		assert_ok(read_text(files[i], text, strlen(text), NULL, &c, NULL));
		/* Sealing the sets that others are read into can do without memory. */
		if (c->format->has_ports)
			assert_survives_oom(read_or_run_out, text);
		assert_survives_oom(build_or_run_out, c);
		assert_survives_oom(forget_or_run_out, c);
		(void) catalog_free(c);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_as_others_write_them_are_understood),
		cmocka_unit_test(what_is_wrong_in_ushers_format_is_named_with_its_place),
		cmocka_unit_test(weights_that_are_none_count_as_one_and_are_marked),
		cmocka_unit_test(addresses_are_understood_or_refused_with_field_and_line),
		cmocka_unit_test(prometheus_groups_are_judged),
		cmocka_unit_test(spring_instances_are_judged),
		cmocka_unit_test(slices_are_put_together),
		cmocka_unit_test(slices_that_are_odd_neither_crash_nor_empty_a_service),
		cmocka_unit_test(a_port_that_no_slice_has_is_said),
		cmocka_unit_test(namespaces_are_not_mixed),
		cmocka_unit_test(promise_p2_no_beginning_of_a_file_empties_a_service),
		cmocka_unit_test(only_slices_end_where_they_were_cut),
		cmocka_unit_test(more_than_a_maximum_is_refused),
		cmocka_unit_test(an_endpoint_has_a_maximum_of_metadata),
		cmocka_unit_test(a_service_has_a_maximum_of_endpoints),
		cmocka_unit_test(a_document_is_let_go_of_once_the_sets_are_made),
		cmocka_unit_test(a_document_that_is_still_asked_is_kept),
		cmocka_unit_test(sets_that_say_the_same_are_held_once),
		cmocka_unit_test(running_out_of_memory_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
