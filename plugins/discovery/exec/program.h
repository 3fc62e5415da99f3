#pragma once

/* A program that is run: what it prints, within bounds, its last words, and how it ends.
 *
 * It has a process group of its own, which ends with it: what it left behind is killed when it has
 * ended, or when nobody wants it any more. It gets no descriptor but its three, no blocked or
 * ignored signal, and an environment that is told, not inherited. */

#include <stdbool.h>
#include <stddef.h>

#include "exec.h"

struct program;

/* Start the instance's command with these words added to it (NULL-terminated; NULL: none, it is to
 * tell where services live), and input (NULL: none) to read. Errors: what exec says, EMFILE,
 * ENOMEM; with a message. */
int program_start(const struct exec *e, const char *const *words, const char *input,
		struct program **ret, struct usher_error *reterr);
/* Where it runs still it is told to end (SIGTERM), and killed when it does not within a moment. */
struct program *program_free(struct program *p);

/* A descriptor that is readable when there is something to process. */
int program_fd(const struct program *p);
/* Read what it has printed. 1: it has ended, and all is read; 0: not yet. Errors: EMSGSIZE (it
 * printed more than it may), ENOMEM; with a message. */
int program_process(struct program *p, struct usher_error *reterr);
/* What it has printed, but for the lines that were taken; with a NUL behind it. */
const char *program_output(const struct program *p, size_t *ret_size);
/* Take the next whole line, without its end. Borrowed until the next call of anything here. */
bool program_next_line(struct program *p, const char **ret, size_t *ret_size);
/* How it ended: 0, or EACCES (exit status 77), EAGAIN (75), ENOENT (66), EROFS (64: it does not
 * know what was asked of it), EIO (any other, or a signal); with a message that has its last words.
 */
int program_judge(const struct program *p, struct usher_error *reterr);
/* "COMMAND: WHY: its last words were: ..."; returns code. */
__attribute__((format(printf, 4, 5))) int program_error(const struct program *p,
		struct usher_error *reterr, int code, const char *format, ...);
