/* What an API server says, read, and what is made of it. The shapes are those recorded from an API
 * server made of k8s.io/apiserver 0.36.4 over etcd 3.5.30. */

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "access.h"
#include "fake-source.h"
#include "kubernetes.h"
#include "pod-drains.h"
#include "pod.h"
#include "reading.h"
#include "scripted-server.h"
#include "slices.h"
#include "test.h"

#define META(name, uid, version)                                                              \
	"\"metadata\":{\"name\":\"" name "\",\"namespace\":\"default\",\"uid\":\"" uid        \
	"\",\"resourceVersion\":\"" version                                                   \
	"\",\"creationTimestamp\":\"2026-11-30T02:12:03Z\",\"labels\":{\"kubernetes.io/"      \
	"service-name\":\"web\",\"team\":\"shop\"},\"managedFields\":[{\"manager\":\"curl\"," \
	"\"fieldsV1\":{\"f:addressType\":{}}}]}"
#define WEB_1                                                                                     \
	META("web-1", "u1", "2")                                                                  \
	",\"addressType\":\"IPv4\",\"endpoints\":[{\"addresses\":[\"10.0.0.1\"],\"conditions\":{" \
	"\"ready\":true,\"serving\":true,\"terminating\":false},\"targetRef\":{\"kind\":\"Pod\"," \
	"\"namespace\":\"default\",\"name\":\"web-1-pod\",\"uid\":\"u-web-1\"},\"nodeName\":"     \
	"\"n1\",\"zone\":\"a\",\"hints\":{\"forZones\":[{\"name\":\"a\"},{\"name\":\"b\"}]}}],"   \
	"\"ports\":[{\"name\":\"http\",\"protocol\":\"TCP\",\"port\":8080,\"appProtocol\":"       \
	"\"kubernetes.io/h2c\"}]"
#define WEB_2                                                                       \
	META("web-2", "u2", "3")                                                    \
	",\"addressType\":\"IPv4\",\"endpoints\":[{\"addresses\":[\"10.0.0.2\"]}]," \
	"\"ports\":[{\"name\":\"http\",\"port\":8080}]"
#define LIST(version, items)                                                      \
	"{\"kind\":\"EndpointSliceList\",\"apiVersion\":\"discovery.k8s.io/v1\"," \
	"\"metadata\":{\"resourceVersion\":\"" version "\"},\"items\":[" items "]}"

/* ---- reading ---- */

static void a_page_has_slices_a_version_and_the_token_of_the_next(void **state)
{
	static const char text[] =
			"{\"kind\":\"EndpointSliceList\",\"apiVersion\":\"discovery.k8s.io/v1\","
			"\"metadata\":{\"resourceVersion\":\"6\",\"continue\":"
			"\"eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Niwic3RhcnQiOiIvd2ViLTJcdTAwMDAifQ\","
			"\"remainingItemCount\":1},\"items\":[{" WEB_1 "}]}";
	struct reading_page page = { 0 };
	const struct slice *slice;

	(void) state;
	assert_ok(reading_page(&kind_slices, text, strlen(text), &page, NULL));
	slice = page.objects[0];
	assert_int_equal(page.count, 1);
	assert_int_equal(page.version.number, 6);
	assert_string_equal(page.version.text, "6");
	assert_int_equal(strncmp(page.next, "eyJ2", 4), 0);
	assert_string_equal(slice->service, "web");
	assert_string_equal(slice->uid, "u1");
	assert_int_equal(slice->version, 2);
	assert_string_equal(slice->endpoints[0].zone_hints, "a,b");
	assert_string_equal(slice->endpoints[0].target, "web-1-pod");
	assert_int_equal(slice->ports[0].number, 8080);
	assert_int_equal(slice->label_count, 1); /* Kubernetes' own is left out */
	assert_null(slice->fault);
	reading_page_done(&page);
}

static void a_list_of_nothing_has_a_version(void **state)
{
	static const char *const texts[] = { LIST("1", ""),
		"{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":null}" };

	(void) state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct reading_page page = { 0 };

		assert_ok(reading_page(&kind_slices, texts[i], strlen(texts[i]), &page, NULL));
		assert_int_equal(page.count, 0);
		assert_string_equal(page.next, "");
		reading_page_done(&page);
	}
}

static void what_is_no_list_is_never_an_empty_one(void **state)
{
	static const char *const texts[] = { "", "{}", "[]", "null", "{\"items\":[]}",
		"{\"metadata\":{\"resourceVersion\":\"1\"}}",
		"{\"metadata\":{\"resourceVersion\":\"\"},\"items\":[]}",
		"{\"metadata\":{\"resourceVersion\":\"1 2\"},\"items\":[]}",
		"{\"metadata\":{\"resourceVersion\":1},\"items\":[]}",
		"{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":{}}",
		"{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[{}]}",
		"{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[", "<html>proxy</html>" };

	(void) state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct reading_page page = { 0 };
		struct usher_error why = { 0 };

		assert_errno(reading_page(&kind_slices, texts[i], strlen(texts[i]), &page, &why),
				EBADMSG);
		assert_true(why.text[0] != '\0');
	}
}

static struct reading_event read_event(const char *text)
{
	struct reading_event event = { 0 };
	struct usher_error why = { 0 };
	int r = reading_event(&kind_slices, text, strlen(text), &event, &why);

	if (r < 0)
		fail_msg("%s", usher_error_text(&why, r));
	return event;
}

static void events_are_told_apart(void **state)
{
	struct reading_event e;
	const struct slice *slice;

	(void) state;
	e = read_event("{\"type\":\"MODIFIED\",\"object\":{\"kind\":\"EndpointSlice\"," WEB_1 "}}");
	assert_int_equal(e.kind, READING_PUT);
	slice = e.object;
	assert_int_equal(slice->endpoint_count, 1);
	(void) slice_free(e.object);
	e = read_event("{\"type\":\"DELETED\",\"object\":{\"kind\":\"EndpointSlice\"," WEB_2 "}}");
	assert_int_equal(e.kind, READING_REMOVE);
	slice = e.object;
	assert_string_equal(slice->uid, "u2");
	assert_int_equal(e.version.number, 3);
	(void) slice_free(e.object);
	/* No slice, though it looks like one. */
	e = read_event("{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"EndpointSlice\","
		       "\"apiVersion\":\"discovery.k8s.io/v1\",\"metadata\":{\"resourceVersion\":"
		       "\"9\"},\"addressType\":\"\",\"endpoints\":null,\"ports\":null}}");
	assert_int_equal(e.kind, READING_BOOKMARK);
	assert_null(e.object);
	assert_int_equal(e.version.number, 9);
	e = read_event("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\","
		       "\"metadata\":{},\"status\":\"Failure\",\"message\":\"too old resource "
		       "version: 2 (9)\",\"reason\":\"Expired\",\"code\":410}}");
	assert_int_equal(e.kind, READING_ERROR);
	assert_int_equal(e.status, 410);
	assert_string_equal(e.message, "too old resource version: 2 (9)");
}

static void a_slice_says_which_field_makes_no_sense(void **state)
{
#define OF(type, endpoints, ports) \
	META("s", "u", "1")        \
	",\"addressType\":" type ",\"endpoints\":" endpoints ",\"ports\":" ports
	static const struct {
		const char *slice, *fault;
	} cases[] = {
		{ OF("\"IPv4\"", "null", "null"), NULL },
		{ OF("\"FQDN\"", "[{\"addresses\":[\"a.example\"]}]", "[]"), NULL },
		{ OF("\"IPv4\"", "[{\"addresses\":[]}]", "[{}]"), NULL },
		{ OF("\"IPv4\"", "[{\"addresses\":null,\"conditions\":null}]", "[{\"port\":null}]"),
				NULL },
		{ OF("\"IPv7\"", "[]", "[]"), "addressType" },
		{ OF("null", "[]", "[]"), "addressType" },
		{ OF("\"IPv4\"", "{}", "[]"), "endpoints" },
		{ OF("\"IPv4\"", "[7]", "[]"), "endpoints" },
		{ OF("\"IPv4\"", "[{\"addresses\":[\"fd00::1\"]}]", "[]"), "addresses" },
		{ OF("\"IPv6\"", "[{\"addresses\":[\"10.0.0.1\"]}]", "[]"), "addresses" },
		{ OF("\"IPv4\"", "[{\"conditions\":{\"ready\":\"yes\"}}]", "[]"), "ready" },
		{ OF("\"IPv4\"", "[{\"zone\":[]}]", "[]"), "zone" },
		{ OF("\"IPv4\"", "[]", "[{\"port\":\"http\"}]"), "port" },
		{ OF("\"IPv4\"", "[]", "[{\"port\":0}]"), "port" },
		{ OF("\"IPv4\"", "[]", "[{\"port\":65536}]"), "port" },
		{ OF("\"IPv4\"", "[]", "[{\"name\":5}]"), "name" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char text[2048];
		struct reading_event e;
		const struct slice *slice;

		(void) snprintf(text, sizeof(text), "{\"type\":\"ADDED\",\"object\":{%s}}",
				cases[i].slice);
		e = read_event(text);
		slice = e.object;
		if (cases[i].fault) {
			assert_non_null(slice->fault);
			assert_string_equal(slice->fault, cases[i].fault);
		} else {
			assert_null(slice->fault);
		}
		(void) slice_free(e.object);
	}
}

static void a_pod_is_to_be_drained_when_it_is_deleted_or_annotated(void **state)
{
#define POD(metadata)                                                                            \
	"{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"a\",\"uid\":\"u\"" metadata \
	"}}}"
	static const struct {
		const char *text;
		bool drained;
		uint64_t by_usec;
	} cases[] = {
		{ POD(""), false, 0 },
		{ POD(",\"annotations\":null,\"deletionTimestamp\":null"), false, 0 },
		{ POD(",\"annotations\":{\"usher.dev/drain\":\"disk\"}"), true, 0 },
		{ POD(",\"annotations\":{\"usher.dev/drain\":\"\"}"), true, 0 },
		{ POD(",\"annotations\":{\"usher.dev/drain\":\"false\"}"), false, 0 },
		{ POD(",\"annotations\":{\"usher.dev/other\":\"x\"}"), false, 0 },
		{ POD(",\"deletionTimestamp\":\"2026-11-30T02:14:39Z\""), true,
				UINT64_C(1796004879000000) },
		{ POD(",\"deletionTimestamp\":\"soon\""), true, 0 },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct reading_event e = { 0 };
		const struct pod *p;

		assert_ok(reading_event(
				&kind_pods, cases[i].text, strlen(cases[i].text), &e, NULL));
		p = e.object;
		assert_int_equal(pod_is_to_be_drained(p), cases[i].drained);
		assert_int_equal(p->deleted_by_usec, cases[i].by_usec);
		kind_pods.free(e.object);
	}
}

static int read_two(void *userdata)
{
	static const char text[] = LIST("6", "{" WEB_1 "},{" WEB_2 "}");
	struct reading_page page = { 0 };
	int r = reading_page(&kind_slices, text, strlen(text), &page, NULL);

	(void) userdata;
	if (r == 0)
		reading_page_done(&page);
	return r;
}

static void running_out_of_memory_is_survived(void **state)
{
	(void) state;
	assert_survives_oom(read_two, NULL);
}

/* ---- kubeconfig ---- */

#define KUBECONFIG(cluster, user)                                                           \
	"apiVersion: v1\nkind: Config\ncurrent-context: c\n"                                \
	"contexts: [{name: d, context: {cluster: none}}, {name: c, context: "               \
	"{cluster: k, user: u, namespace: shop}}]\nclusters: [{name: k, cluster: {" cluster \
	"}}]\nusers: [{name: u, user: {" user "}}]\n"
#define SERVER "server: 'https://10.0.0.1:6443'"

static struct access *apply(
		const char *text, const char *context, int *ret, struct usher_error *why)
{
	struct access *a = calloc(1, sizeof(*a));

	assert_non_null(a);
	assert_ok(usher_document_parse("/k/config", text, strlen(text), &a->document, why));
	*ret = kubeconfig_apply(a, context, why);
	return a;
}

static void a_kubeconfig_says_server_namespace_and_credentials(void **state)
{
	struct usher_error why = { 0 };
	int r;
	/* "-----BEGIN CERTIFICATE-----\n" */
	struct access *a = apply(
			KUBECONFIG(SERVER
					", certificate-authority: pki/ca.crt, tls-server-name: api",
					"client-certificate-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==,"
					" client-key: /etc/key.pem, token: old, tokenFile: token"),
			NULL, &r, &why);

	(void) state;
	assert_ok(r);
	assert_string_equal(a->http.servers[0], "https://10.0.0.1:6443");
	assert_string_equal(a->http.ca, "/k/pki/ca.crt");
	assert_string_equal(a->http.server_name, "api");
	assert_string_equal(a->config.certificate_data, "-----BEGIN CERTIFICATE-----\n");
	assert_string_equal(a->http.key, "/etc/key.pem");
	assert_string_equal(a->http.token_file, "/k/token");
	assert_null(a->http.token);
	assert_string_equal(a->space, "shop");
	assert_true(a->http.verify);
	assert_int_equal(a->config.auth, USHER_HTTP_AUTH_BEARER);
	(void) access_free(a);
}

static void a_kubeconfig_of_no_use_is_refused_with_its_place(void **state)
{
	static const struct {
		const char *text, *context, *error;
	} cases[] = {
		{ KUBECONFIG(SERVER, "exec: {command: aws}"), NULL,
				"exec: a program to log in with is not run by usherd" },
		{ KUBECONFIG(SERVER, "auth-provider: {name: gcp}"), NULL,
				"auth-provider: Kubernetes has removed these" },
		{ KUBECONFIG(SERVER ", proxy-url: 'http://p'", ""), NULL,
				"proxy-url: proxies are not supported" },
		{ KUBECONFIG("server: ''", ""), NULL, "server: is missing" },
		{ KUBECONFIG("server: [a]", ""), NULL, "server: is a list, and must be a text" },
		{ KUBECONFIG(SERVER ", certificate-authority-data: '%%'", ""), NULL,
				"certificate-authority-data: is no PEM in base64" },
		{ KUBECONFIG(SERVER, "client-key-data: aGVsbG8="), NULL,
				"client-key-data: is no PEM in base64" },
		{ KUBECONFIG(SERVER, ""), "e", "contexts: there is none of the name e" },
		{ KUBECONFIG(SERVER, ""), "d", "clusters: there is none of the name none" },
		{ "kind: Config\n", NULL, "current-context: is not set" },
		{ "", NULL, "current-context: is not set" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct usher_error why = { 0 };
		int r;
		struct access *a = apply(cases[i].text, cases[i].context, &r, &why);

		assert_true(r < 0);
		if (strncmp(why.text, "/k/config:", 10) != 0 || !strstr(why.text, cases[i].error))
			fail_msg("%s", why.text);
		(void) access_free(a);
	}
}

/* ---- run ---- */

struct play {
	struct scripted_server server;
	struct usher_source source;
	struct kubernetes instance;
	const char *servers[2];
	atomic_uint lists, proofs, watches;
	bool (*answer)(struct scripted_connection *c, struct play *p);
	bool (*is_over)(struct play *p);
	unsigned turns;
};

static bool is_asked(const struct scripted_connection *c, const char *what)
{
	const char *end = strstr(c->request, "\r\n"), *at = strstr(c->request, what);

	return at && at < end;
}

static bool answer_play(struct scripted_connection *c)
{
	struct play *p = c->server->userdata;

	if (is_asked(c, "watch=1"))
		atomic_fetch_add(&p->watches, 1);
	else if (is_asked(c, "limit=1 "))
		atomic_fetch_add(&p->proofs, 1);
	else
		atomic_fetch_add(&p->lists, 1);
	return p->answer(c, p);
}

static int wait_in_play(struct usher_source *s, const struct usher_wait *wait, unsigned number)
{
	struct play *p = s->userdata;

	if (number == 0)
		return USHER_WAIT_WANTED;
	if (p->is_over(p))
		return 0;
	if (++p->turns > 10000)
		fail_msg("it goes on for ever");
	return fake_source_wait_http(s, wait);
}

static void play(struct play *p, bool (*answer)(struct scripted_connection *c, struct play *p),
		bool (*is_over)(struct play *p))
{
	extern const struct usher_plugin usher_plugin;

	*p = (struct play){ .answer = answer,
		.is_over = is_over,
		.instance = p->instance,
		.source.drains_refused = p->source.drains_refused };
	scripted_server_start(&p->server, answer_play, p);
	p->servers[0] = p->server.url;
	p->instance.drains = pod_drains_new();
	assert_non_null(p->instance.drains);
	p->instance.prove_usec = p->instance.settle_usec = 100000;
	p->instance.silence_usec = 75000000;
	p->instance.access.http = (struct usher_http_options){ .servers = p->servers,
		.verify = true,
		.connections = 8,
		.connect_timeout_usec = 60000000 };
	p->source.userdata = p;
	p->source.on_wait = wait_in_play;
	fake_source_want(&p->source, "web", "web", "http");
	assert_int_equal(usher_plugin.discovery->run(&p->instance, &p->source), 0);
}

static void play_done(struct play *p)
{
	fake_source_done(&p->source);
	scripted_server_stop(&p->server);
	p->instance.drains = pod_drains_free(p->instance.drains);
}

/* A watch that stays open after its text. */
static bool say_watch(struct scripted_connection *c, const char *text)
{
	char chunk[4096];

	scripted_say(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	if (*text) {
		(void) snprintf(chunk, sizeof(chunk), "%zx\r\n%s\r\n", strlen(text), text);
		scripted_say(c, chunk);
	}
	return scripted_hang(c);
}

static bool delete_the_service(struct scripted_connection *c, struct play *p)
{
	(void) p;
	if (is_asked(c, "limit=1 "))
		return scripted_reply(c, "200 OK", "", LIST("7", ""));
	if (!is_asked(c, "watch=1"))
		return scripted_reply(c, "200 OK", "", LIST("6", "{" WEB_1 "}"));
	return say_watch(c, "{\"type\":\"DELETED\",\"object\":{" META("web-1", "u1", "7") "}}");
}

static bool is_empty(struct play *p)
{
	const struct fake_answer *a = fake_source_answer(&p->source, "web");

	return a->set && usher_endpoints_count(a->set) == 0;
}

static void all_slices_gone_are_doubted_and_told_a_moment_later(void **state)
{
	struct play p = { 0 };

	(void) state;
	play(&p, delete_the_service, is_empty);
	assert_int_equal(fake_source_answer(&p.source, "web")->verdict, USHER_SUSPECT);
	play_done(&p);
}

static bool show_poison(struct scripted_connection *c, struct play *p)
{
	(void) p;
	if (is_asked(c, "watch=1"))
		return say_watch(c,
				"{\"type\":\"ADDED\",\"object\":{" WEB_2
				",\"annotations\":{\"x\":\"\\ud800\"}}}");
	return scripted_reply(c, "200 OK", "",
			LIST("6",
					"{" WEB_1 ",\"x\":{\"y\":\"a\\u0000b\"}},"
					"{" META("nul", "u3",
							"4") ",\"addressType\":\"IPv4\",\"endpoints\":[{"
							     "\"addresses\":[\"10.0.0.3\"],\"targetRef\":{\"name\":\"n\\u0000l\"}}],"
							     "\"ports\":[{\"name\":\"http\",\"port\":8080}]},"
							     "{" META("far", "u4",
									     "5") ",\"addressType\":\"IPv4\",\"endpoints\":[{"
										  "\"addresses\":[\"10.0.0.4\"]}],\"ports\":[{\"name\":\"http\",\"port\":"
										  "70000}]}"));
}

static bool has_two(struct play *p)
{
	const struct fake_answer *a = fake_source_answer(&p->source, "web");

	return a->set && usher_endpoints_count(a->set) == 2;
}

static void one_slice_takes_no_other_along(void **state)
{
	struct play p = { 0 };
	const struct fake_answer *a;

	(void) state;
	play(&p, show_poison, has_two);
	a = fake_source_answer(&p.source, "web");
	assert_int_equal(a->fails, 0);
	assert_true(usher_endpoints_find(a->set, "web-1-pod") >= 0);
	assert_true(usher_endpoints_find(a->set, "10.0.0.2:8080") >= 0);
	play_done(&p);
}

static bool show_nothing_else(struct scripted_connection *c, struct play *p)
{
	(void) p;
	if (is_asked(c, "watch=1"))
		return say_watch(c, "");
	return scripted_reply(c, "200 OK", "",
			LIST("6",
					"{" META("far", "u4",
							"5") ",\"addressType\":\"IPv4\",\"endpoints\":[{"
							     "\"addresses\":[\"10.0.0.4\"]}],\"ports\":[{\"name\":\"http\",\"port\":"
							     "70000}]}"));
}

static bool the_service_has_failed(struct play *p)
{
	return fake_source_answer(&p->source, "web")->fails > 0;
}

static void slices_of_which_none_can_be_used_are_no_empty_service(void **state)
{
	struct play p = { 0 };
	const struct fake_answer *a;

	(void) state;
	play(&p, show_nothing_else, the_service_has_failed);
	a = fake_source_answer(&p.source, "web");
	assert_null(a->set);
	assert_string_equal(
			a->text, "EndpointSlice default/far: port: is not what the API says it is");
	play_done(&p);
}

static bool go_back(struct scripted_connection *c, struct play *p)
{
	if (is_asked(c, "watch=1"))
		return say_watch(c, "");
	if (atomic_load(&p->lists) == 1 && !is_asked(c, "limit=1 "))
		return scripted_reply(c, "200 OK", "", LIST("600", "{" WEB_1 "},{" WEB_2 "}"));
	return scripted_reply(c, "200 OK", "", LIST("4", "{" WEB_1 "}"));
}

static bool has_one(struct play *p)
{
	const struct fake_answer *a = fake_source_answer(&p->source, "web");

	return a->set && usher_endpoints_count(a->set) == 1;
}

static void a_version_that_went_backwards_makes_a_shrunken_list_suspect(void **state)
{
	struct play p = { 0 };

	(void) state;
	play(&p, go_back, has_one);
	assert_int_equal(fake_source_answer(&p.source, "web")->verdict, USHER_SUSPECT);
	assert_int_equal(atomic_load(&p.lists), 2);
	play_done(&p);
}

static bool is_confirmed(struct play *p)
{
	return fake_source_answer(&p->source, "web")->confirms >= 3;
}

static bool stand_still(struct scripted_connection *c, struct play *p)
{
	(void) p;
	if (is_asked(c, "watch=1"))
		return say_watch(c, "");
	return scripted_reply(c, "200 OK", "", LIST("6", "{" WEB_1 "},{" WEB_2 "}"));
}

static void a_proof_confirms_without_another_offer(void **state)
{
	struct play p = { 0 };
	const struct fake_answer *a;

	(void) state;
	play(&p, stand_still, is_confirmed);
	a = fake_source_answer(&p.source, "web");
	assert_int_equal(a->offers, 1);
	assert_int_equal(a->verdict, USHER_FRESH);
	assert_int_equal(usher_endpoints_count(a->set), 2);
	assert_int_equal(atomic_load(&p.lists), 1);
	assert_int_equal(atomic_load(&p.watches), 1);
	play_done(&p);
}

static bool forbid(struct scripted_connection *c, struct play *p)
{
	(void) p;
	return scripted_reply(c, "403 Forbidden", "",
			"{\"kind\":\"Status\",\"message\":\"endpointslices is forbidden\","
			"\"reason\":\"Forbidden\",\"code\":403}");
}

static bool has_failed(struct play *p)
{
	return fake_source_answer(&p->source, "web")->fails > 0;
}

static void denied_is_no_emptiness(void **state)
{
	struct play p = { 0 };

	(void) state;
	play(&p, forbid, has_failed);
	assert_int_equal(fake_source_answer(&p.source, "web")->code, -EACCES);
	assert_null(fake_source_answer(&p.source, "web")->set);
	play_done(&p);
}

/* ---- the Pods of this node ---- */

#define PODS(metadata)                                                                   \
	"{\"metadata\":{\"resourceVersion\":\"6\"},\"items\":[{\"metadata\":{\"name\":"  \
	"\"web-1-pod\",\"namespace\":\"default\",\"uid\":\"u-web-1\"" metadata "}},"     \
	"{\"metadata\":{\"name\":\"web-1-pod\",\"namespace\":\"other\",\"uid\":\"u-2\"," \
	"\"deletionTimestamp\":\"2026-11-30T02:14:39Z\"}}]}"

static bool show_pods(struct scripted_connection *c, struct play *p)
{
	if (!is_asked(c, "/pods?"))
		return stand_still(c, p);
	if (!is_asked(c, "watch=1"))
		return scripted_reply(c, "200 OK", "",
				PODS(",\"annotations\":{\"usher.dev/drain\":\"disk\",\"x\":\"a\\u0000b\"}"));
	assert_true(is_asked(c, "fieldSelector=spec.nodeName%3Dn1"));
	return say_watch(c, "");
}

static bool is_said(struct play *p)
{
	return fake_source_drain(&p->source, "web", "web-1-pod");
}

static void an_annotated_pod_of_this_node_is_asked_to_be_drained(void **state)
{
	struct play p = { .instance = { .pods = true, .node_name = "n1" } };
	const struct fake_drain *d;

	(void) state;
	play(&p, show_pods, is_said);
	d = fake_source_drain(&p.source, "web", "web-1-pod");
	assert_true(d->wanted);
	assert_string_equal(d->uid, "u-web-1");
	assert_non_null(strstr(d->reason, "disk"));
	assert_int_equal(p.source.drain_count, 1); /* nothing of another namespace's */
	play_done(&p);
}

static bool show_pods_that_stay(struct scripted_connection *c, struct play *p)
{
	if (!is_asked(c, "/pods?"))
		return stand_still(c, p);
	return is_asked(c, "watch=1") ? say_watch(c, "")
				      : scripted_reply(c, "200 OK", "", PODS(""));
}

static void a_pod_that_stays_is_said_to_stay(void **state)
{
	struct play p = { .instance = { .pods = true, .node_name = "n1" } };

	(void) state;
	play(&p, show_pods_that_stay, is_said);
	assert_false(fake_source_drain(&p.source, "web", "web-1-pod")->wanted);
	play_done(&p);
}

static void what_usherd_has_no_room_for_is_said_again(void **state)
{
	struct play p = { .instance = { .pods = true, .node_name = "n1" },
		.source.drains_refused = 2 };
	struct play stays = p;

	(void) state;
	play(&p, show_pods, is_said);
	assert_true(fake_source_drain(&p.source, "web", "web-1-pod")->wanted);
	play_done(&p);
	play(&stays, show_pods_that_stay, is_said);
	assert_false(fake_source_drain(&stays.source, "web", "web-1-pod")->wanted);
	assert_int_equal(fake_source_drain(&stays.source, "web", "web-1-pod")->said, 1);
	play_done(&stays);
}

static void that_a_pod_stays_is_said_once_until_a_drain_was_asked_for(void **state)
{
	struct pod_drains *d = pod_drains_new();

	(void) state;
	assert_ok(pod_drains_ask(d, "u-a", "web", false));
	assert_false(pod_drains_is_said_to_stay(d, "u-a", "web"));
	pod_drains_said_to_stay(d, "u-a", "web");
	assert_ok(pod_drains_ask(d, "u-a", "web", false));
	assert_true(pod_drains_is_said_to_stay(d, "u-a", "web"));
	assert_false(pod_drains_is_said_to_stay(d, "u-a", "grpc"));
	assert_ok(pod_drains_ask(d, "u-a", "web", true));
	assert_ok(pod_drains_ask(d, "u-a", "web", false));
	assert_false(pod_drains_is_said_to_stay(d, "u-a", "web"));
	(void) pod_drains_free(d);
}

/* ---- registration ---- */

struct office {
	struct scripted_server server;
	const char *servers[2];
	struct kubernetes instance;
	const char *pod;               /* what is there; NULL: nothing */
	char patch[1024], event[2048]; /* bodies of what was written last */
};

static void keep_body(const struct scripted_connection *c, char *ret, size_t size)
{
	const char *body = strstr(c->request, "\r\n\r\n");

	(void) snprintf(ret, size, "%s", body ? body + 4 : "");
}

static bool answer_office(struct scripted_connection *c)
{
	struct office *o = c->server->userdata;

	if (strncmp(c->request, "PATCH", 5) == 0) {
		assert_true(is_asked(c, "/api/v1/namespaces/shop/pods/a/status"));
		keep_body(c, o->patch, sizeof(o->patch));
		return scripted_reply(c, "200 OK", "Connection: close\r\n", "{}") && false;
	}
	if (strncmp(c->request, "POST", 4) == 0) {
		keep_body(c, o->event, sizeof(o->event));
		return scripted_reply(c, "201 Created", "Connection: close\r\n", "{}") && false;
	}
	return o->pod ? scripted_reply(c, "200 OK", "", o->pod)
		      : scripted_reply(c, "404 Not Found", "", "{\"message\":\"pods not found\"}");
}

static void open_office(struct office *o, const char *pod)
{
	*o = (struct office){ .pod = pod };
	scripted_server_start(&o->server, answer_office, o);
	o->servers[0] = o->server.url;
	o->instance = (struct kubernetes){ .pods = true,
		.access.http = { .servers = o->servers,
				.verify = true,
				.connections = 8,
				.connect_timeout_usec = 60000000 } };
}

static const struct usher_registration *registration(void)
{
	extern const struct usher_plugin usher_plugin;

	return usher_plugin.registration;
}

#define OFFICE_POD(spec, conditions)                                                            \
	"{\"metadata\":{\"name\":\"a\",\"namespace\":\"shop\",\"uid\":\"u-a\"},\"spec\":{" spec \
	"},\"status\":{\"conditions\":[" conditions "]}}"
#define GATED "\"readinessGates\":[{\"conditionType\":\"usher.dev/ready\"}]"
static const struct usher_wanted shop_web = { "web", "shop/web", NULL };

static void a_gate_is_opened_and_shut(void **state)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	struct office o;

	(void) state;
	open_office(&o, OFFICE_POD(GATED, ""));
	e.id = "a";
	e.ready = true;
	assert_ok(registration()->add(&o.instance, &shop_web, &e, NULL));
	assert_non_null(strstr(o.patch, "\"uid\":\"u-a\""));
	assert_non_null(strstr(o.patch, "\"type\":\"usher.dev/ready\",\"status\":\"True\""));
	assert_ok(registration()->set_state(
			&o.instance, &shop_web, "a", USHER_ADMIN_DRAINING, NULL));
	assert_non_null(strstr(o.patch, "\"status\":\"False\",\"reason\":\"Draining\""));
	assert_ok(registration()->remove(&o.instance, &shop_web, "a", NULL));
	assert_non_null(strstr(o.patch, "\"reason\":\"Deregistered\""));
	scripted_server_stop(&o.server);
}

static void what_a_condition_says_already_is_not_written_again(void **state)
{
	struct office o;

	(void) state;
	open_office(&o,
			OFFICE_POD(GATED,
					"{\"type\":\"usher.dev/ready\",\"status\":\"False\",\"reason\":"
					"\"Draining\",\"message\":\"usher drains it\"}"));
	assert_ok(registration()->set_state(
			&o.instance, &shop_web, "a", USHER_ADMIN_DRAINING, NULL));
	assert_string_equal(o.patch, "");
	/* Only the reason is another: the time of its last transition stays. */
	assert_ok(registration()->set_state(
			&o.instance, &shop_web, "a", USHER_ADMIN_MAINTENANCE, NULL));
	assert_non_null(strstr(o.patch, "Maintenance"));
	assert_null(strstr(o.patch, "lastTransitionTime"));
	scripted_server_stop(&o.server);
}

static void a_pod_that_cannot_be_told_is_a_reason_with_its_remedy(void **state)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	struct usher_error why = { 0 };
	struct office o;

	(void) state;
	open_office(&o, OFFICE_POD("", ""));
	assert_errno(registration()->remove(&o.instance, &shop_web, "a", &why), EROFS);
	assert_non_null(strstr(why.text, "readinessGates: [{conditionType: usher.dev/ready}]"));
	o.pod = OFFICE_POD(GATED, "");
	e.id = "a";
	e.uid = "of-another";
	assert_errno(registration()->add(&o.instance, &shop_web, &e, &why), ENOENT);
	o.pod = NULL;
	assert_ok(registration()->remove(&o.instance, &shop_web, "a", &why));
	assert_errno(registration()->set_state(
				     &o.instance, &shop_web, "a", USHER_ADMIN_READY, &why),
			ENOENT);
	o.instance.pods = false;
	assert_errno(registration()->remove(&o.instance, &shop_web, "a", &why), EROFS);
	assert_non_null(strstr(why.text, "option `pods`"));
	assert_string_equal(o.patch, "");
	scripted_server_stop(&o.server);
}

/* There is one Pod, of uid u-a. */
static void know_pods(struct pod_drains *d)
{
	static char name[] = "a", space[] = "shop", uid[] = "u-a";
	struct pod pod = { .name = name, .space = space, .uid = uid };
	void *all[] = { &pod };

	pod_drains_keep(d, &(const struct shelf){ .kind = &kind_pods, .all = all, .count = 1 });
}

static void a_drain_that_fails_is_a_condition_and_a_warning(void **state)
{
	const struct usher_drain_progress failed = { .size = sizeof(failed),
		.state = USHER_DRAIN_FAILED,
		.drain = "d-1",
		.step = "in_flight",
		.text = "3 requests are open",
		.since_usec = UINT64_C(1796004879000000) };
	const struct usher_drain_progress running = { .size = sizeof(running),
		.state = USHER_DRAIN_RUNNING,
		.drain = "d-1",
		.step = "in_flight" };
	struct office o;

	(void) state;
	open_office(&o, OFFICE_POD("", ""));
	o.instance.drains = pod_drains_new();
	assert_errno(registration()->progress(&o.instance, &shop_web, "a", &failed, NULL), EAGAIN);
	assert_ok(pod_drains_ask(o.instance.drains, "u-a", "web", true));
	know_pods(o.instance.drains);
	assert_ok(registration()->progress(&o.instance, &shop_web, "a", &failed, NULL));
	assert_non_null(strstr(o.patch,
			"\"type\":\"usher.dev/drained\",\"status\":\"False\",\"reason\":"
			"\"DrainFailed\",\"message\":\"web, drain d-1: 3 requests are open\","
			"\"lastTransitionTime\":\"2026-11-30T02:14:39Z\""));
	assert_non_null(strstr(o.event, "\"type\":\"Warning\""));
	assert_non_null(strstr(o.event, "\"uid\":\"u-a\""));
	assert_ok(registration()->progress(&o.instance, &shop_web, "a", &running, NULL));
	assert_non_null(strstr(o.patch, "\"reason\":\"InFlight\""));
	o.pod = NULL;
	assert_errno(registration()->progress(&o.instance, &shop_web, "a", &failed, NULL), ENOENT);
	scripted_server_stop(&o.server);
	o.instance.drains = pod_drains_free(o.instance.drains);
}

static struct pod_drains_sum tell_drain(struct pod_drains *d, const char *service,
		enum usher_drain_state state, const char *step)
{
	const struct usher_drain_progress progress = {
		.size = sizeof(progress), .state = state, .step = step, .drain = "d"
	};
	struct pod_drains_sum sum = { 0 };

	assert_int_equal(pod_drains_tell(d, "u-a", service, &progress, &sum), 1);
	return sum;
}

static void a_pod_is_drained_when_it_is_so_in_every_service(void **state)
{
	struct pod_drains *d = pod_drains_new();
	struct pod_drains_sum sum;

	(void) state;
	assert_ok(pod_drains_ask(d, "u-a", "web", true));
	assert_ok(pod_drains_ask(d, "u-a", "grpc", true));
	know_pods(d);
	sum = tell_drain(d, "web", USHER_DRAIN_DONE, "done");
	assert_int_equal(sum.state, USHER_DRAIN_RUNNING);
	sum = tell_drain(d, "grpc", USHER_DRAIN_RUNNING, "propagation");
	assert_int_equal(sum.state, USHER_DRAIN_RUNNING);
	assert_string_equal(sum.step, "propagation");
	assert_non_null(strstr(sum.message, "web, drain d"));
	assert_non_null(strstr(sum.message, "grpc, drain d"));
	assert_int_equal(tell_drain(d, "grpc", USHER_DRAIN_FAILED, "close").state,
			USHER_DRAIN_FAILED);
	assert_int_equal(tell_drain(d, "grpc", USHER_DRAIN_DONE, "done").state, USHER_DRAIN_DONE);
	/* What people bring back in one service is not drained. */
	assert_int_equal(tell_drain(d, "web", USHER_DRAIN_CANCELLED, "done").state,
			USHER_DRAIN_CANCELLED);
	(void) pod_drains_free(d);
}

static void news_of_a_pod_that_had_the_name_before_is_none(void **state)
{
	const struct usher_drain_progress done = { .size = sizeof(done),
		.state = USHER_DRAIN_DONE };
	struct pod_drains *d = pod_drains_new();
	struct pod_drains_sum sum;

	(void) state;
	assert_ok(pod_drains_ask(d, "u-old", "web", true));
	assert_ok(pod_drains_ask(d, "u-a", "web", false));
	know_pods(d);
	assert_int_equal(pod_drains_tell(d, "u-a", "web", &done, &sum), 0);
	assert_int_equal(pod_drains_tell(d, "u-old", "web", &done, &sum), 0); /* it has gone */
	(void) pod_drains_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_page_has_slices_a_version_and_the_token_of_the_next),
		cmocka_unit_test(a_list_of_nothing_has_a_version),
		cmocka_unit_test(what_is_no_list_is_never_an_empty_one),
		cmocka_unit_test(events_are_told_apart),
		cmocka_unit_test(a_slice_says_which_field_makes_no_sense),
		cmocka_unit_test(a_pod_is_to_be_drained_when_it_is_deleted_or_annotated),
		cmocka_unit_test(running_out_of_memory_is_survived),
		cmocka_unit_test(a_kubeconfig_says_server_namespace_and_credentials),
		cmocka_unit_test(a_kubeconfig_of_no_use_is_refused_with_its_place),
		cmocka_unit_test(all_slices_gone_are_doubted_and_told_a_moment_later),
		cmocka_unit_test(one_slice_takes_no_other_along),
		cmocka_unit_test(slices_of_which_none_can_be_used_are_no_empty_service),
		cmocka_unit_test(a_version_that_went_backwards_makes_a_shrunken_list_suspect),
		cmocka_unit_test(a_proof_confirms_without_another_offer),
		cmocka_unit_test(denied_is_no_emptiness),
		cmocka_unit_test(an_annotated_pod_of_this_node_is_asked_to_be_drained),
		cmocka_unit_test(a_pod_that_stays_is_said_to_stay),
		cmocka_unit_test(what_usherd_has_no_room_for_is_said_again),
		cmocka_unit_test(that_a_pod_stays_is_said_once_until_a_drain_was_asked_for),
		cmocka_unit_test(a_gate_is_opened_and_shut),
		cmocka_unit_test(what_a_condition_says_already_is_not_written_again),
		cmocka_unit_test(a_pod_that_cannot_be_told_is_a_reason_with_its_remedy),
		cmocka_unit_test(a_drain_that_fails_is_a_condition_and_a_warning),
		cmocka_unit_test(a_pod_is_drained_when_it_is_so_in_every_service),
		cmocka_unit_test(news_of_a_pod_that_had_the_name_before_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
