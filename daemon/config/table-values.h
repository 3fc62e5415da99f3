#pragma once

/* The types of a table's rows, one reader each. On failure the field is as before; the message has
 * the place, the path, what is wrong and what would be right. */

#include <stdbool.h>
#include <sys/types.h>

#include "table.h"

#define CONFIG_LIST_MAX 256 /* items of a list of texts or paths */

int config_read_name(const struct usher_node *n, char **ret, struct usher_error *reterr);
int config_read_path(const struct usher_node *n, size_t length_max, char **ret,
		struct usher_error *reterr);
int config_read_listen(const struct usher_node *n, char **ret, struct usher_error *reterr);
int config_read_word(const struct config_row *row, const struct usher_node *n, char **ret,
		struct usher_error *reterr);
int config_read_choice(const struct config_row *row, const struct usher_node *n, int *ret,
		struct usher_error *reterr);
int config_read_mode(const struct usher_node *n, mode_t *ret, struct usher_error *reterr);
int config_read_bool(const struct usher_node *n, bool *ret, struct usher_error *reterr);
int config_read_count(const struct config_row *row, const struct usher_node *n, unsigned *ret,
		struct usher_error *reterr);
int config_read_port(const struct usher_node *n, uint16_t *ret, struct usher_error *reterr);
int config_read_duration(const struct config_row *row, const struct usher_node *n, uint64_t *ret,
		struct usher_error *reterr);
int config_read_share(const struct usher_node *n, double *ret, struct usher_error *reterr);
int config_read_paths(const struct usher_node *n, char ***ret, struct usher_error *reterr);

/* A NULL-terminated list of texts, at least one. */
int config_read_texts(const struct usher_node *n, char ***ret, struct usher_error *reterr);
void config_texts_free(char **texts);
