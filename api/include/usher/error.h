#pragma once

/* Why something failed, in words that a person can act on.
 *
 * An error lives on the caller's stack, starts as `= {}` and has a fixed size, so reporting one
 * cannot fail. The callee writes it on failure only; NULL means that nobody asks. Each level up
 * puts in front what it alone knows, so that the reader gets a path:
 *
 *     /etc/usher/usher.yaml:14:7: sources[2]: port 99999 is not in 1..65535
 *
 * Thread: any; an error belongs to whoever declared it. */

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define USHER_ERROR_TEXT_MAX 512

struct usher_error {
	int code;                        /* negative errno; 0 while unset */
	char text[USHER_ERROR_TEXT_MAX]; /* cut to fit, always terminated */
};

/* Set code and text, and return the code: `return usher_error_set(reterr, -ERANGE, "...");` */
__attribute__((format(printf, 3, 4))) int usher_error_set(
		struct usher_error *reterr, int code, const char *format, ...);

/* Put "PREFIX: " in front of the text and return the code. An unset error first gets the code's own
 * words (strerror), so that no failure is without a text. */
__attribute__((format(printf, 3, 4))) int usher_error_prefix(
		struct usher_error *reterr, int code, const char *format, ...);

/* The text, or the code's own words when the callee gave none. Borrowed from err or static. */
const char *usher_error_text(const struct usher_error *err, int code);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
