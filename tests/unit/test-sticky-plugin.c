/* The stage sticky: the one endpoint that a request is bound to, and the cookie that says so. */

#include "compiled-stage.h"

#define COOKIES_MAX 3

static struct usher_request request_of(struct usher_label *headers, const char *const *cookies)
{
	struct usher_request request = { .size = sizeof(request), .headers = headers };

	for (size_t i = 0; i < COOKIES_MAX && cookies[i]; i++)
		headers[request.header_count++] = (struct usher_label){ "Cookie", cookies[i] };
	return request;
}

/* The rows "sticky" of the conformance vectors for Spring Cloud LoadBalancer (basis: upstream run).
 * What Spring answers with everything because nothing matches is nothing here, and on_empty's to
 * say; ids that two instances share (row 07) a service of usher does not have. */
static void sticky_answers_as_the_vectors_do(void **state)
{
	static const struct {
		const char *number, *options, *cookie;
		struct labelled endpoints[3];
		const char *expected;
	} rows[] = {
		{ "01", "{}", "sc-lb-instance-id=B", { { "A", NULL }, { "B", NULL } }, "B" },
		{ "02", "{}", "sc-lb-instance-id=Z", { { "A", NULL }, { "B", NULL } }, "" },
		{ "04", "{}", "sc-lb-instance-id=b", { { "A", NULL }, { "B", NULL } }, "" },
		{ "05", "{cookie: ring}", "ring=A; sc-lb-instance-id=B",
				{ { "A", NULL }, { "B", NULL } }, "A" },
		{ "08", "{}", "sc-lb-instance-id=A", { { "B", NULL } }, "" },
		{ "without a cookie", "{}", NULL, { { "A", NULL }, { "B", NULL } }, "A B" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS_OF(rows); i++) {
		const char *const cookies[COOKIES_MAX] = { rows[i].cookie };
		struct usher_label headers[COOKIES_MAX];
		const struct usher_request request = request_of(headers, cookies);
		struct compiled_stage s;
		struct labelled_set l;

		print_message("sticky-%s\n", rows[i].number);
		assert_ok(compiled_stage_init(&s, rows[i].options, NULL));
		labelled_set_init(&l, "k", rows[i].endpoints);
		assert_string_equal(kept_ids(&s, &l, &request), rows[i].expected);
		labelled_set_done(&l);
		compiled_stage_done(&s);
	}
}

/* The rows "cookie-parse-blocking" of the same vectors, and what RFC 6265 has beyond them. Spring's
 * blocking clients lose the second cookie of a header (row 02) and cut a value at its "=" (04). */
static void sticky_reads_cookies_as_the_rfc_has_them(void **state)
{
	static const struct {
		const char *what, *cookies[COOKIES_MAX];
		const char *bound; /* NULL: to none */
	} rows[] = {
		{ "01", { "sc-lb-instance-id=B" }, "B" },
		{ "02", { "a=1; sc-lb-instance-id=B" }, "B" },
		{ "04", { "sc-lb-instance-id=host=1" }, "host=1" },
		{ "05", { "a=1", "sc-lb-instance-id=B" }, "B" },
		{ "07", { "sc-lb-instance-id=A", "sc-lb-instance-id=B" }, "B" },
		{ "08", { "sc-lb-instance-id=" }, NULL },
		{ "twice in one header", { "sc-lb-instance-id=A; sc-lb-instance-id=B" }, "B" },
		{ "the first is empty", { "sc-lb-instance-id=; sc-lb-instance-id=B" }, "B" },
		{ "the last is empty", { "sc-lb-instance-id=B; sc-lb-instance-id=" }, "B" },
		{ "the last is empty, in a header of its own",
				{ "sc-lb-instance-id=B", "sc-lb-instance-id" }, "B" },
		{ "in quotes", { "sc-lb-instance-id=\"B\"" }, "B" },
		{ "empty in quotes", { "sc-lb-instance-id=\"\"" }, NULL },
		{ "half in quotes", { "sc-lb-instance-id=\"B" }, "\"B" },
		{ "a quote alone", { "sc-lb-instance-id=\"" }, "\"" },
		{ "no blank between", { "a=1;sc-lb-instance-id=B;c=2" }, "B" },
		{ "blanks and tabs", { " a = 1 ;\t sc-lb-instance-id\t= B \t; c=2" }, "B" },
		{ "semicolons at the ends", { ";;sc-lb-instance-id=B;;" }, "B" },
		{ "a pair without a sign", { "sc-lb-instance-id; x" }, NULL },
		{ "a name that ends so", { "x-sc-lb-instance-id=B" }, NULL },
		{ "a name that begins so", { "sc-lb-instance-id2=B" }, NULL },
		{ "a name in other letters", { "SC-LB-Instance-Id=B" }, NULL },
		{ "the name as a value", { "a=sc-lb-instance-id=B" }, NULL },
		{ "nothing is decoded", { "sc-lb-instance-id=a%20b" }, "a%20b" },
		{ "a blank within", { "sc-lb-instance-id=a b" }, "a b" },
		{ "nothing", { "" }, NULL },
	};
	static const struct labelled others[] = { { "other", NULL }, {} };
	struct compiled_stage s;

	(void) state;
	assert_ok(compiled_stage_init(&s, "{}", NULL));
	for (size_t i = 0; i < ELEMENTS_OF(rows); i++) {
		const struct labelled bound[] = { { "other", NULL }, { rows[i].bound, NULL }, {} };
		struct usher_label headers[COOKIES_MAX];
		const struct usher_request request = request_of(headers, rows[i].cookies);
		struct labelled_set l;

		print_message("%s\n", rows[i].what);
		labelled_set_init(&l, "k", rows[i].bound ? bound : others);
		assert_string_equal(kept_ids(&s, &l, &request),
				rows[i].bound ? rows[i].bound : "other");
		labelled_set_done(&l);
	}
	compiled_stage_done(&s);
}

static const struct labelled two[] = { { "a", NULL }, { "b", NULL }, {} };

static void sticky_prefers_what_the_pick_says_itself(void **state)
{
	const struct usher_label headers[] = { { "X-Cookie", "sc-lb-instance-id=z" },
		{ "COOKIE", "sc-lb-instance-id=a" } };
	struct usher_request request = {
		.size = sizeof(request), .headers = headers, .header_count = 2
	};
	struct compiled_stage s;
	struct labelled_set l;

	(void) state;
	assert_ok(compiled_stage_init(&s, "{}", NULL));
	labelled_set_init(&l, "k", two);
	assert_string_equal(kept_ids(&s, &l, &request), "a");
	assert_string_equal(told(&s, &l, &request), "bound to a by cookie sc-lb-instance-id");
	request.sticky = "";
	assert_string_equal(kept_ids(&s, &l, &request), "a");
	request.sticky = "b";
	assert_string_equal(kept_ids(&s, &l, &request), "b");
	assert_string_equal(told(&s, &l, &request), "bound to b");
	assert_string_equal(why_left(&s, &l, &request, "a"), "the request is bound to b");
	compiled_stage_done(&s);

	assert_ok(compiled_stage_init(&s, "{cookie: ''}", NULL));
	assert_string_equal(kept_ids(&s, &l, &request), "b");
	request.sticky = NULL;
	assert_string_equal(kept_ids(&s, &l, &request), "a b");
	assert_string_equal(told(&s, &l, &request), "the request is bound to none");
	assert_string_equal(kept_ids(&s, &l, NULL), "a b");
	compiled_stage_done(&s);
	labelled_set_done(&l);
}

static void sticky_says_what_became_of_the_endpoint(void **state)
{
	const struct usher_label header = { "cookie", "sc-lb-instance-id=b" };
	struct usher_request request = {
		.size = sizeof(request), .headers = &header, .header_count = 1
	};
	struct usher_pass pass = { .size = sizeof(pass), .request = &request };
	uint32_t candidate = 0;
	struct compiled_stage s;
	struct labelled_set l;
	char text[160];

	(void) state;
	assert_ok(compiled_stage_init(&s, "{}", NULL));
	labelled_set_init(&l, "k", two);
	pass.view = &l.view; /* another stage has dropped b */
	assert_int_equal(usher_plugin.stage->filter(s.data, &l.view, &request, &candidate, 1), 0);
	usher_plugin.stage->tell(s.data, &pass, &candidate, 1, 0, text, sizeof(text));
	assert_string_equal(text, "bound to b by cookie sc-lb-instance-id: no candidate");
	request.sticky = "z";
	assert_string_equal(told(&s, &l, &request), "bound to z: gone");
	labelled_set_done(&l);
	compiled_stage_done(&s);
}

static void sticky_bounds_what_it_looks_for(void **state)
{
	char id[3 * USHER_TEXT_MAX] = "";
	struct usher_request request = { .size = sizeof(request), .sticky = id };
	struct compiled_stage s;
	struct labelled_set l;

	(void) state;
	assert_ok(compiled_stage_init(&s, "{}", NULL));
	labelled_set_init(&l, "k", two);
	memset(id, 'a', USHER_TEXT_MAX);
	assert_string_equal(kept_ids(&s, &l, &request), "");
	memset(id, 'a', sizeof(id) - 1);
	assert_string_equal(kept_ids(&s, &l, &request), "");
	assert_int_equal(strlen(why_left(&s, &l, &request, "a")),
			strlen("the request is bound to ") + 64);
	labelled_set_done(&l);
	compiled_stage_done(&s);
}

static void sticky_refuses_what_is_no_name_of_a_cookie(void **state)
{
	static const char *const rows[] = { "{cookie: 'a b'}", "{cookie: 'a=b'}", "{cookie: 'a;'}",
		"{cookie: 'ä'}" };

	(void) state;
	for (size_t i = 0; i < ELEMENTS_OF(rows); i++) {
		struct compiled_stage s;
		struct usher_error err = {};

		assert_errno(compiled_stage_init(&s, rows[i], &err), EINVAL);
		assert_non_null(strstr(err.text, "is no name of a cookie: write it without"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sticky_answers_as_the_vectors_do),
		cmocka_unit_test(sticky_reads_cookies_as_the_rfc_has_them),
		cmocka_unit_test(sticky_prefers_what_the_pick_says_itself),
		cmocka_unit_test(sticky_says_what_became_of_the_endpoint),
		cmocka_unit_test(sticky_bounds_what_it_looks_for),
		cmocka_unit_test(sticky_refuses_what_is_no_name_of_a_cookie),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
