#include "ownership.h"
#include "router.h"
#include "test.h"

static const struct route routes[] = {
	{ METHOD_GET, "/", NULL },
	{ METHOD_GET, "/v1/services", NULL },
	{ METHOD_GET, "/v1/services/{s}", NULL },
	{ METHOD_GET, "/v1/services/{s}/endpoints", NULL },
	{ METHOD_PUT, "/v1/services/{s}/endpoints/{id}/in-flight", NULL },
	{ METHOD_GET, "/v1/drains", NULL },
	{ METHOD_POST, "/v1/drains", NULL },
};

static int find(enum method method, const char *path, struct route_match *ret)
{
	static char copy[256];

	(void) snprintf(copy, sizeof(copy), "%s", path);
	return router_find(routes, ELEMENTS(routes), method, copy, ret);
}

static void paths_find_their_route(void **state)
{
	static const struct {
		const char *path, *pattern;
	} cases[] = {
		{ "/", "/" },
		{ "/v1/services", "/v1/services" },
		{ "/v1/services/catalog", "/v1/services/{s}" },
		{ "/v1/services/catalog/endpoints", "/v1/services/{s}/endpoints" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		struct route_match match;

		assert_ok(find(METHOD_GET, cases[i].path, &match));
		assert_string_equal(match.route->pattern, cases[i].pattern);
	}
}

static void parameters_are_decoded_once_they_are_cut_out(void **state)
{
	struct route_match match;

	(void) state;
	assert_ok(find(METHOD_PUT, "/v1/services/a%2fb/endpoints/10.0.0.5%3A8080%2Fx/in-flight",
			&match));
	assert_string_equal(match.params[0], "a/b");
	assert_string_equal(match.params[1], "10.0.0.5:8080/x");
}

static void other_paths_are_not_found(void **state)
{
	static const char *const paths[] = { "", "x", "//", "/v1", "/v1/services/",
		"/v1/services//", "/v1/services//endpoints", "/v1/servicesx", "/v1/service",
		"/v1/services/a/endpoints/b", "/1/2/3/4/5/6/7/8/9/10" };

	(void) state;
	for (size_t i = 0; i < ELEMENTS(paths); i++) {
		struct route_match match;

		assert_errno(find(METHOD_GET, paths[i], &match), ENOENT);
	}
}

static void another_method_learns_what_is_allowed(void **state)
{
	struct route_match match;

	(void) state;
	assert_errno(find(METHOD_PUT, "/v1/drains", &match), EOPNOTSUPP);
	assert_int_equal(match.allowed, 1u << METHOD_GET | 1u << METHOD_POST);
	assert_errno(find(METHOD_UNKNOWN, "/v1/services", &match), EOPNOTSUPP);
	assert_int_equal(match.allowed, 1u << METHOD_GET);
}

static void malformed_escapes_are_refused(void **state)
{
	static const char *const paths[] = { "/v1/services/%", "/v1/services/%4",
		"/v1/services/%zz", "/v1/services/a%00b" };

	(void) state;
	for (size_t i = 0; i < ELEMENTS(paths); i++) {
		struct route_match match;

		assert_errno(find(METHOD_GET, paths[i], &match), EINVAL);
	}
}

static void head_is_get(void **state)
{
	(void) state;
	assert_int_equal(method_from_string("HEAD"), METHOD_GET);
	assert_int_equal(method_from_string("DELETE"), METHOD_DELETE);
	assert_int_equal(method_from_string("PATCH"), METHOD_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_find_their_route),
		cmocka_unit_test(parameters_are_decoded_once_they_are_cut_out),
		cmocka_unit_test(other_paths_are_not_found),
		cmocka_unit_test(another_method_learns_what_is_allowed),
		cmocka_unit_test(malformed_escapes_are_refused),
		cmocka_unit_test(head_is_get),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
