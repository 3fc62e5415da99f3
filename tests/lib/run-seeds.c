/* Runs a fuzz target over the files of a folder, once each: what fuzzing has found stays found. */

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define SEED_MAX (1024 * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_seed(const char *folder, const char *name)
{
	uint8_t *data = malloc(SEED_MAX);
	char path[4096];
	size_t size;
	FILE *f;

	(void) snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "re");
	if (!f || !data) {
		perror(path);
		if (f)
			(void) fclose(f);
		free(data);
		return -1;
	}
	size = fread(data, 1, SEED_MAX, f);
	(void) fclose(f);
	(void) LLVMFuzzerTestOneInput(data, size);
	free(data);
	return 0;
}

int main(int argc, char **argv)
{
	DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
	struct dirent *entry;
	unsigned count = 0;

	if (!folder) {
		(void) fprintf(stderr, "usage: %s FOLDER-OF-SEEDS\n", argv[0]);
		return EXIT_FAILURE;
	}
	while ((entry = readdir(folder))) {
		if (entry->d_name[0] == '.')
			continue;
		if (run_seed(argv[1], entry->d_name) < 0)
			return EXIT_FAILURE;
		count++;
	}
	(void) closedir(folder);
	(void) printf("%u seeds\n", count);
	return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
