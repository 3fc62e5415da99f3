/* usherctl top: services, picks and drains, once a second. */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>

#include "boot-clock.h"
#include "human.h"
#include "kinds.h"
#include "metric.h"
#include "output.h"
#include "verbs.h"

#define FRAME_MSEC 1000

struct top {
	struct ctl *ctl;
	double picks; /* until the last frame */
	uint64_t picks_usec;
	bool counted;
	int signals; /* a descriptor; -1: none */
	struct termios before;
	bool raw;
};

/* Picks per second since the last frame, or -1. */
static double top_rate(struct top *top)
{
	struct usher_client *client = ctl_client(top->ctl, DOOR_READ);
	autofree char *text = NULL;
	uint64_t now = boot_clock_usec();
	double picks, rate = -1;

	if (!client || usher_client_call(client, "GET", "/metrics", NULL, &text, NULL) != 200)
		return -1;
	picks = metric_sum(text, "usher_picks_total");
	if (top->counted && now > top->picks_usec && picks >= top->picks)
		rate = (picks - top->picks) * 1e6 / (double) (now - top->picks_usec);
	top->picks = picks;
	top->picks_usec = now;
	top->counted = true;
	return rate;
}

static void top_print_head(const struct top *top, FILE *stream, const json_t *status, double rate)
{
	const json_t *contexts = json_object_get(status, "contexts"),
		     *sources = json_object_get(status, "sources");
	char age[HUMAN_TEXT_MAX], picks[64] = "";

	if (rate >= 0)
		(void) snprintf(picks, sizeof(picks), ", %.0f picks/s", rate);
	(void) fprintf(stream, "%susherd %s%s on %s, %s, up %s, revision %" PRIu64 "%s\n",
			tint_on(top->ctl, TINT_STRONG), field_text(status, "version"),
			tint_off(top->ctl, TINT_STRONG),
			field_text(json_object_get(status, "node"), "name"),
			field_text(status, "state"),
			human_age(field_msec(status, "uptime_ms"), age),
			field_number(status, "revision"), picks);
	(void) fprintf(stream,
			"services %" PRIu64 "/%" PRIu64 " live, sources %" PRIu64 "/%" PRIu64
			" live, drains %" PRIu64 " running\n\n",
			field_number(contexts, "live"), field_number(contexts, "total"),
			field_number(sources, "live"), field_number(sources, "total"),
			field_number(json_object_get(status, "drains"), "running"));
}

/* Services, or the drains that are not finished; nothing where there are none. */
static int top_print_list(
		const struct top *top, FILE *stream, const struct kind *kind, const json_t *list)
{
	cleanup(table_freep) struct table *table = table_new(top->ctl, kind->columns);

	for (size_t i = 0; table && i < json_array_size(list); i++) {
		const json_t *item = json_array_get(list, i);

		if (kind->id != KIND_DRAIN || !json_is_string(json_object_get(item, "finished_at")))
			kind->add(table, item);
	}
	if (table && table_rows(table) == 0)
		return EXIT_DONE;
	return table_print(table, stream, "");
}

static int top_render(struct top *top, FILE *stream)
{
	cleanup(json_decrefp) json_t *status = NULL, *services = NULL, *drains = NULL;
	int r;

	r = ctl_get(top->ctl, "/v1/status", &status);
	if (r == EXIT_DONE)
		r = ctl_get(top->ctl, kinds[KIND_SERVICE].path, &services);
	if (r == EXIT_DONE)
		r = ctl_get(top->ctl, kinds[KIND_DRAIN].path, &drains);
	if (r != EXIT_DONE)
		return r;
	top_print_head(top, stream, status, top_rate(top));
	r = top_print_list(
			top, stream, &kinds[KIND_SERVICE], json_object_get(services, "services"));
	if (r != EXIT_DONE)
		return r;
	(void) fprintf(stream, "\n");
	return top_print_list(top, stream, &kinds[KIND_DRAIN], json_object_get(drains, "drains"));
}

/* No more than the terminal has lines. */
static void top_show(const char *text)
{
	struct winsize size = {};
	int lines = 24;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1)
		lines = size.ws_row;
	(void) fputs("\033[H", stdout);
	for (; *text && lines > 1; lines--) {
		size_t length = strcspn(text, "\n");

		(void) printf("%.*s\033[K\n", (int) length, text);
		text += length + (text[length] == '\n');
	}
	(void) fputs("\033[J", stdout);
	(void) fflush(stdout);
}

static int top_frame(struct top *top)
{
	autofree char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	int r;

	if (!stream)
		return ctl_fail(EXIT_FAILED, "out of memory");
	r = top_render(top, stream);
	if (fclose(stream) != 0)
		return ctl_fail(EXIT_FAILED, "out of memory");
	if (r == EXIT_DONE)
		top_show(text);
	return r;
}

static void top_enter(struct top *top)
{
	struct termios raw;
	sigset_t signals;

	(void) sigemptyset(&signals);
	(void) sigaddset(&signals, SIGINT);
	(void) sigaddset(&signals, SIGTERM);
	(void) sigaddset(&signals, SIGHUP);
	(void) pthread_sigmask(SIG_BLOCK, &signals, NULL);
	top->signals = signalfd(-1, &signals, SFD_CLOEXEC);
	if (tcgetattr(STDIN_FILENO, &top->before) == 0) {
		raw = top->before;
		raw.c_lflag &= ~(tcflag_t) (ICANON | ECHO);
		top->raw = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
	}
	(void) fputs("\033[?1049h\033[?25l", stdout);
}

static void top_leave(struct top *top)
{
	(void) fputs("\033[?25h\033[?1049l", stdout);
	(void) fflush(stdout);
	if (top->raw)
		(void) tcsetattr(STDIN_FILENO, TCSANOW, &top->before);
	if (top->signals >= 0)
		(void) close(top->signals);
}

/* Until the next frame. Returns EXIT_DONE to go on, -1 to end well, or EXIT_INTERRUPTED. */
static int top_wait(const struct top *top)
{
	struct pollfd fds[] = { { .fd = top->signals, .events = POLLIN },
		{ .fd = top->raw ? STDIN_FILENO : -1, .events = POLLIN } };
	char key;

	if (poll(fds, ELEMENTS(fds), FRAME_MSEC) <= 0)
		return EXIT_DONE;
	if (fds[0].revents)
		return EXIT_INTERRUPTED;
	if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q')
		return -1;
	return EXIT_DONE;
}

static int top_live(struct top *top)
{
	int r;

	top_enter(top);
	do {
		r = top_frame(top);
		if (r == EXIT_DONE)
			r = top_wait(top);
	} while (r == EXIT_DONE);
	top_leave(top);
	return r < 0 ? EXIT_DONE : r;
}

static int top_data(struct ctl *ctl)
{
	cleanup(json_decrefp) json_t *status = NULL, *services = NULL, *all = NULL;
	int r;

	r = ctl_get(ctl, "/v1/status", &status);
	if (r == EXIT_DONE)
		r = ctl_get(ctl, "/v1/services", &services);
	if (r != EXIT_DONE)
		return r;
	all = json_pack("{s:O, s:O?}", "status", status, "services",
			json_object_get(services, "services"));
	return all ? output_data(ctl, all) : ctl_fail(EXIT_FAILED, "out of memory");
}

int verb_top(struct ctl *ctl)
{
	struct top top = { .ctl = ctl, .signals = -1 };

	if (output_is_data(ctl))
		return top_data(ctl);
	return ctl->terminal ? top_live(&top) : top_render(&top, stdout);
}
