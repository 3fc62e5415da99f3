#include "format-fields.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int format_field_error(struct usher_error *reterr, const struct usher_node *n, const char *field,
		int r, const struct usher_error *cause)
{
	const char *text = usher_error_text(cause, r);
	char place[USHER_ERROR_TEXT_MAX];
	size_t length;

	(void) snprintf(place, sizeof(place),
			"%s:%u:%u: ", usher_document_name(usher_node_document(n)),
			usher_node_line(n), usher_node_column(n));
	length = strlen(place);
	if (strncmp(text, place, length) == 0)
		text += length;
	/* What was checked may have named itself already. */
	length = strlen(field);
	if (strncmp(text, field, length) == 0 && text[length] == ' ')
		return usher_node_error(reterr, n, r, "%s", text);
	return usher_node_error(reterr, n, r, "%s: %s", field, text);
}

static const char *kind_wanted(enum usher_node_kind kind)
{
	switch (kind) {
	case USHER_NODE_NULL:
		return "nothing";
	case USHER_NODE_SCALAR:
		return "a text";
	case USHER_NODE_LIST:
		return "a list";
	case USHER_NODE_MAP:
		return "a map";
	}
	return "something";
}

int format_expect(const struct usher_node *n, const char *field, enum usher_node_kind kind,
		struct usher_error *reterr)
{
	if (usher_node_kind(n) == kind)
		return 0;
	if (usher_node_kind(n) == USHER_NODE_NULL)
		return usher_node_error(reterr, n, -EBADMSG,
				"%s: has no value, as in a file that is only half written; if it "
				"is empty on purpose, write `%s`",
				field, kind == USHER_NODE_LIST ? "[]" : "{}");
	return usher_node_error(reterr, n, -EBADMSG, "%s: is %s, and must be %s", field,
			usher_node_kind_name(n), kind_wanted(kind));
}

const char *format_text(const struct usher_node *n)
{
	return n ? usher_node_text(n) : NULL;
}

size_t format_count(const struct usher_node *n)
{
	return n ? usher_node_count(n) : 0;
}

static const struct usher_node *find_value(const struct usher_node *map, const char *key)
{
	const struct usher_node *n = usher_node_get(map, key);

	return n && usher_node_kind(n) != USHER_NODE_NULL ? n : NULL;
}

int format_get_text(const struct usher_node *map, const char *key, const char **ret,
		struct usher_error *reterr)
{
	const struct usher_node *n = find_value(map, key);
	int r;

	if (!n)
		return 0;
	r = format_expect(n, key, USHER_NODE_SCALAR, reterr);
	if (r < 0)
		return r;
	*ret = usher_node_text(n);
	return 1;
}

int format_get_bool(const struct usher_node *map, const char *key, bool *ret,
		struct usher_error *reterr)
{
	const struct usher_node *n = find_value(map, key);
	struct usher_error cause = { 0 };
	int r;

	if (!n)
		return 0;
	r = usher_node_bool(n, ret, &cause);
	if (r < 0)
		return format_field_error(reterr, n, key, r, &cause);
	return 1;
}

int format_get_port(const struct usher_node *map, const char *key, uint16_t *ret,
		struct usher_error *reterr)
{
	const struct usher_node *n = find_value(map, key);
	struct usher_error cause = { 0 };
	int64_t port = 0;
	int r;

	if (!n)
		return 0;
	r = usher_node_integer(n, 1, UINT16_MAX, &port, &cause);
	if (r < 0)
		return format_field_error(reterr, n, key, r, &cause);
	*ret = (uint16_t) port;
	return 1;
}

int format_get_labels(const struct usher_node *map, const char *key, bool (*keep)(const char *name),
		struct usher_label *labels, size_t *count, struct usher_error *reterr)
{
	const struct usher_node *n = find_value(map, key);
	int r;

	if (!n)
		return 0;
	r = format_expect(n, key, USHER_NODE_MAP, reterr);
	if (r < 0)
		return r;
	for (size_t i = 0; i < usher_node_count(n); i++) {
		const struct usher_node *value = usher_node_at(n, i);
		const char *name = usher_node_key(n, i);

		if (keep && !keep(name))
			continue;
		if (usher_node_kind(value) != USHER_NODE_SCALAR)
			return usher_node_error(reterr, value, -EBADMSG,
					"%s.%s: is %s, and must be a text (\"\" for an empty one)",
					key, name, usher_node_kind_name(value));
		if (*count == USHER_METADATA_MAX)
			return usher_node_error(reterr, value, -E2BIG,
					"%s: there are more than %d for one endpoint", key,
					USHER_METADATA_MAX);
		labels[(*count)++] = (struct usher_label){ name, usher_node_text(value) };
	}
	return 1;
}

int format_add(struct usher_endpoints *set, const struct usher_endpoint *endpoint,
		const struct usher_node *n, struct usher_error *reterr)
{
	struct usher_error cause = { 0 };
	int r = usher_endpoints_add(set, endpoint, &cause);

	if (r == -EEXIST)
		return usher_node_error(reterr, n, r,
				"%s%s stands twice in this service; give each endpoint an id of "
				"its own",
				endpoint->id ? "the id " : "the address ",
				endpoint->id ? endpoint->id : endpoint->address);
	if (r < 0)
		return usher_node_error(reterr, n, r, "%s", usher_error_text(&cause, r));
	return 0;
}
