#include <string.h>
#include <usher/document.h>

#define WORD_MAX 64

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours count one
 * each. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	size_t rows[3][WORD_MAX + 1];
	size_t *before = rows[0], *last = rows[1], *row = rows[2], *spare;

	for (size_t k = 0; k <= b_length; k++)
		last[k] = k;
	for (size_t i = 1; i <= a_length; i++) {
		row[0] = i;
		for (size_t k = 1; k <= b_length; k++) {
			size_t cost = a[i - 1] != b[k - 1];

			row[k] = least(least(last[k] + 1, row[k - 1] + 1), last[k - 1] + cost);
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
				row[k] = least(row[k], before[k - 2] + 1);
		}
		spare = before;
		before = last;
		last = row;
		row = spare;
	}
	return last[b_length];
}

const char *usher_nearest_word(const char *text, const char *const *words)
{
	size_t length = strlen(text), nearest = SIZE_MAX;
	const char *found = NULL;

	if (length == 0 || length > WORD_MAX)
		return NULL;
	for (; *words; words++) {
		size_t word_length = strlen(*words), longer, far;

		if (word_length > WORD_MAX)
			continue;
		longer = word_length > length ? word_length : length;
		far = distance(text, length, *words, word_length);
		if (far * 3 <= longer && far < nearest) {
			nearest = far;
			found = *words;
		}
	}
	return found;
}
