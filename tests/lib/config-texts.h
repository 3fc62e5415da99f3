#pragma once

/* Configurations from texts, and the messages of those that are refused. */

#include "config-parse.h"
#include "config.h"
#include "test.h"

#define MAIN "/etc/usher/usher.yaml"
#define SOURCES                                                                    \
	"sources:\n"                                                               \
	"  - {name: files, plugin: file, options: {path: /etc/usher/endpoints}}\n" \
	"  - {name: cluster, plugin: kubernetes}\n"

static const char *const config_file_names[] = { MAIN, "/etc/usher/conf.d/a.yaml",
	"/etc/usher/conf.d/b.yaml" };

static inline int parse_texts(const char *const *texts, size_t count, struct config **ret,
		struct usher_error *reterr)
{
	struct usher_document *documents[3] = {};
	int r = 0;

	for (size_t i = 0; i < count && r >= 0; i++)
		r = usher_document_parse(config_file_names[i], texts[i], strlen(texts[i]),
				&documents[i], reterr);
	if (r >= 0)
		r = config_parse(MAIN, documents, count, ret, reterr);
	for (size_t i = 0; i < count; i++)
		usher_document_unref(documents[i]);
	return r;
}

static inline struct config *parse(const char *text)
{
	struct config *c = NULL;
	struct usher_error err = {};

	if (parse_texts(&text, 1, &c, &err) < 0)
		fail_msg("%s", err.text);
	return c;
}

#define assert_refused(yaml, expected)                               \
	do {                                                         \
		const char *text_ = (yaml);                          \
		struct config *c_ = NULL;                            \
		struct usher_error err_ = {};                        \
		assert_true(parse_texts(&text_, 1, &c_, &err_) < 0); \
		assert_null(c_);                                     \
		assert_string_equal(err_.text, expected);            \
	} while (0)

#define assert_files_refused(expected, ...)                                                     \
	do {                                                                                    \
		const char *const texts_[] = { __VA_ARGS__ };                                   \
		struct config *c_ = NULL;                                                       \
		struct usher_error err_ = {};                                                   \
		assert_true(parse_texts(texts_, sizeof(texts_) / sizeof(*texts_), &c_, &err_) < \
				0);                                                             \
		assert_string_equal(err_.text, expected);                                       \
	} while (0)
