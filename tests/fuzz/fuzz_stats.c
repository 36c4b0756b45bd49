/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input contains lines for the stats socket. The proxy must answer each
 * line with one line of JSON or close the connection. Afterwards the proxy must
 * still answer a correct command.
 */
#include <jansson.h>
#include <mpib/control.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "stats/command.h"

/* Check that an answer is JSON, except the answer to "metrics". */
static void check(const char *line, size_t len)
{
	json_error_t e;
	json_t *o;

	if (len > 1 &&
	    (line[0] == '#' || (len > 5 && !memcmp(line, "mpib_", 5))))
		return;
	o = json_loadb(line, len, 0, &e);
	if (!o)
		fuzz_found("the answer is not JSON");
	json_decref(o);
}

static void read_all(int fd)
{
	static char buf[1 << 20];
	size_t len = 0;
	ssize_t n;

	while (len < sizeof(buf) &&
	       (n = TEMP_FAILURE_RETRY(
			recv(fd, buf + len, sizeof(buf) - len, 0))) > 0) {
		char *nl, *at = buf;

		len += (size_t)n;
		while ((nl = memchr(at, '\n', len - (size_t)(at - buf)))) {
			check(at, (size_t)(nl - at));
			at = nl + 1;
		}
		len -= (size_t)(at - buf);
		memmove(buf, at, len);
	}
}

static void ask(const void *data, size_t size)
{
	int fd = fuzz_dial(MPIB_STATS_SOCK, SOCK_STREAM);

	if (send(fd, data, size, MSG_NOSIGNAL) >= 0 &&
	    send(fd, "\nhelp\n", 6, MSG_NOSIGNAL) >= 0 &&
	    shutdown(fd, SHUT_WR) == 0)
		read_all(fd);
	close(fd);
}

/* Send each command once at the start, because the fuzzer does not know the
 * names of the commands. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	fuzz_proxy_start();
	for (unsigned i = 0; i < mpib_command_count; i++)
		ask(mpib_commands[i].name, strlen(mpib_commands[i].name));
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	ask(data, size);
	return 0;
}
