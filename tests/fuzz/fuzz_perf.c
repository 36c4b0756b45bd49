/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input contains the messages that servers send to "mpib-perf check", the
 * hub. There are two servers. For the hub, each server is a socket that already
 * holds all messages of the server. The hub must accept the messages or fail
 * with an error line. No line that the hub prints may have a control character.
 *
 * Input: messages. Each message has the number of the server, the type, two
 * bytes of length in native byte order, and the data. If a server's first
 * message is not a HELLO, the target sends a correct HELLO before this message.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "perf/hosts/hosts.h"
#include "perf/report.h"

#define SERVERS 2
#define OUT_MAX (64 << 10)

static struct perf_options opt;
static uint8_t out[SERVERS][OUT_MAX];
static size_t out_len[SERVERS];
static int far_end[SERVERS];

/* Check error lines. This function replaces the function with the same name in
 * perf/bad.c. */
const char *perf_bad_said(void)
{
	return "";
}

int perf_bad(const char *fmt, ...)
{
	char line[4096];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	for (const char *c = line; *c; c++) {
		if (*c < ' ' || *c > '~')
			fuzz_found("a line has a control character");
	}
	return -EINVAL;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static char name[] = "mpib-perf", check[] = "check", first[] = "a";
	static char second[] = "b", plugin[] = "--plugin", none[] = "none";
	char *words[] = { name, check, first, second, plugin, none, NULL };

	(void)argc;
	(void)argv;
	if (perf_options_parse(&opt, 6, words) != PERF_PARSE_RUN)
		fuzz_found("the options are refused");
	opt.pattern = PERF_PINGPONG;
	opt.min = opt.max = 8;
	opt.channels = 1;
	return 0;
}

static void say(unsigned server, uint32_t type, const void *data, uint32_t len)
{
	const uint32_t head[2] = { type, len };

	if (out_len[server] + sizeof(head) + len > OUT_MAX)
		return;
	memcpy(out[server] + out_len[server], head, sizeof(head));
	memcpy(out[server] + out_len[server] + sizeof(head), data, len);
	out_len[server] += sizeof(head) + len;
}

static void read_messages(const uint8_t *data, size_t size)
{
	static const struct perf_hello hello = { .magic = PERF_LINK_MAGIC,
						 .proto = PERF_LINK_PROTO,
						 .rank = -1,
						 .host = "host" };

	memset(out_len, 0, sizeof(out_len));
	while (size >= 4) {
		unsigned server = data[0] % SERVERS;
		uint16_t len;

		memcpy(&len, data + 2, sizeof(len));
		if (len > size - 4)
			len = (uint16_t)(size - 4);
		if (!out_len[server] && data[1] != PERF_HELLO)
			say(server, PERF_HELLO, &hello, sizeof(hello));
		say(server, data[1], data + 4, len);
		data += 4 + len;
		size -= 4u + len;
	}
}

/* Return the hub's end of a socket from which the hub can read all messages of
 * the server. The data that the hub writes stays unread at the other end,
 * far_end[server]. */
static int server_open(unsigned server)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		fuzz_found("socketpair");
	if (send(pair[1], out[server], out_len[server], MSG_NOSIGNAL) !=
	    (ssize_t)out_len[server])
		fuzz_found("the socket cannot hold the messages");
	shutdown(pair[1], SHUT_WR);
	far_end[server] = pair[1];
	return pair[0];
}

static void report(struct perf_hub *hub)
{
	struct perf_row row = perf_row_make(hub->w, 0);
	struct perf_verdict v = { .host = { 0, 1 },
				  .ran = true,
				  .wrong = row.wrong_messages,
				  .p50_us = row.p50,
				  .p99_us = row.p99,
				  .busbw = row.busbw };
	char text[24][PERF_FAULT_LEN];
	int faults;

	for (unsigned i = 0; i < SERVERS; i++)
		v.rails[i] = hub->node[i].rails;
	faults = perf_verdict_faults(&opt, &v, 0, text, 24);
	for (int i = 0; i < faults; i++)
		perf_bad("%s", text[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perf_hub *hub = perf_hub_new(&opt);
	unsigned opened = 0;
	bool greeted = true;

	if (!hub)
		fuzz_found("no hub");
	hub->quiet = true;
	hub->device = 0;
	read_messages(data, size);
	for (; greeted && opened < SERVERS; opened++)
		greeted = perf_hub_greet(hub, server_open(opened), (int)opened,
					 "a-host") >= 0;
	if (greeted && perf_hub_run(hub) == 0)
		report(hub);
	perf_hub_free(hub);
	while (opened > 0)
		close(far_end[--opened]);
	return 0;
}
