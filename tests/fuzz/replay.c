/* SPDX-License-Identifier: Apache-2.0 */
/* Run a target on files and folders of inputs, in builds without a fuzzer. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

static unsigned inputs;

static void one(const char *path)
{
	static uint8_t buf[1 << 20];
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f) {
		perror(path);
		exit(1);
	}
	n = fread(buf, 1, sizeof(buf), f);
	fclose(f);
	LLVMFuzzerTestOneInput(buf, n);
	inputs++;
}

static void all(const char *path)
{
	struct dirent **names;
	struct stat st;
	int n;

	if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
		one(path);
		return;
	}
	n = scandir(path, &names, NULL, alphasort);
	if (n < 0) {
		perror(path);
		exit(1);
	}
	for (int i = 0; i < n; i++) {
		char sub[4096];

		snprintf(sub, sizeof(sub), "%s/%s", path, names[i]->d_name);
		if (names[i]->d_name[0] != '.')
			one(sub);
		free(names[i]);
	}
	free(names);
}

int main(int argc, char **argv)
{
	LLVMFuzzerInitialize(&argc, &argv);
	for (int i = 1; i < argc; i++)
		all(argv[i]);
	printf("%u inputs\n", inputs);
	return inputs == 0;
}
