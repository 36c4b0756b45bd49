/* SPDX-License-Identifier: Apache-2.0 */
/* The input is a configuration file. The proxy must accept it or refuse it with
 * an error message, each line of which begins with the file's name. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/config.h"
#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return 0;
}

/* Return whether each line of the text begins with the file's name. */
static int names_file(const char *why, const char *path)
{
	size_t len = strlen(path);

	while (strncmp(why, path, len) == 0) {
		why = strchr(why, '\n');
		if (!why)
			return 1;
		why++;
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct mpib_config cfg;
	int fd = memfd_create("fuzz.conf", MFD_CLOEXEC);
	char path[64], why[MPIB_WHY_MAX] = "";

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		fuzz_found("no memfd");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	mpib_config_init(&cfg);
	if (mpib_config_read_file(&cfg, path, why) < 0) {
		if (!names_file(why, path))
			fuzz_found("an error line lacks the file's name");
	} else if (mpib_config_finish(&cfg, why) < 0 && !why[0]) {
		fuzz_found("refused without a reason");
	}
	close(fd);
	return 0;
}
