#include "names.h"

#include "own-json.h"
#include "reply.h"
#include "retry.h"

#define USEC_PER_SEC UINT64_C(1000000)
#define NAMES_USEC   (30 * USEC_PER_SEC)
#define PAGE_SIZE    "500"
#define PAGES_MAX    200

void names_done(struct names *names)
{
	reply_names_free(names->items, names->count);
	names->items = NULL;
	names->count = 0;
	names->page = 0;
}

size_t names_ask(struct names *names, struct access *a, uint64_t now_usec)
{
	struct usher_http_request request = { .tag = names };
	cleanup(form_done) struct form path = { 0 };
	char page[16];

	(void) snprintf(page, sizeof(page), "%u", names->page + 1);
	access_path(a, &path, "service/list", "admin/ns/service/list");
	form_add(&path, "pageNo", page);
	form_add(&path, "pageSize", PAGE_SIZE);
	form_add(&path, "namespaceId", a->nacos->namespace_id);
	form_add(&path, a->api == NACOS_API_1 ? "groupName" : "groupNameParam", a->nacos->group);
	names->due_usec = now_usec + NAMES_USEC;
	if (access_start(a, &request, &path, NULL, &names->request) < 0)
		return 0;
	return 1;
}

static int add_page(struct names *names, char **page, size_t count)
{
	char **items = reallocarray(names->items, names->count + count + 1, sizeof(*items));

	if (!items)
		return -1;
	for (size_t i = 0; i < count; i++)
		items[names->count + i] = page[i];
	names->items = items;
	names->count += count;
	free(page);
	return 0;
}

/* 1: that was the last page. */
static int take_page(struct names *names, const struct usher_http_event *event)
{
	size_t count, total;
	char **page;

	if (event->error != 0 || usher_http_status_error(event, NULL) < 0 ||
			reply_parse_names(event->data, event->data_size, &page, &count, &total,
					NULL) < 0)
		return -1;
	if (add_page(names, page, count) < 0) {
		reply_names_free(page, count);
		return -1;
	}
	names->page++;
	return count == 0 || names->count >= total || names->page == PAGES_MAX;
}

void names_take(struct names *names, struct usher_source *source,
		const struct usher_http_event *event, uint64_t now_usec, uint64_t *random)
{
	int r = take_page(names, event);

	names->request = 0;
	if (r == 0) {
		names->due_usec = now_usec;
		return;
	}
	names->due_usec = now_usec + NAMES_USEC / 2 + retry_random(random) % NAMES_USEC;
	if (r < 0)
		names->due_usec = now_usec + retry_delay_usec(random, ++names->failures);
	if (r > 0) {
		names->failures = 0;
		usher_source_known(source, (const char *const *) names->items, names->count);
	}
	names_done(names);
}
