/* SPDX-License-Identifier: Apache-2.0 */
#include "bad.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "handover/channel.h"

static void hear(int sock, enum mpib_channel_type type)
{
	struct mpib_serial p;
	int rc = mpib_channel_recv(sock, type, &p);

	if (rc == 0 || rc == -EREMOTEIO)
		mpib_serial_fini(&p);
}

/* Until somebody traces this process, and then until it is killed. */
static int refuse_when_traced(const char *run_dir, int sock)
{
	char path[256], to[256], line[128] = "";
	int tracer = 0;
	FILE *f;

	snprintf(to, sizeof(to), "%s/../pid", run_dir);
	snprintf(path, sizeof(path), "%s/../pid.new", run_dir);
	f = fopen(path, "w");
	if (!f || fprintf(f, "%d\n", (int)getpid()) < 0 || fclose(f) ||
	    rename(path, to) < 0)
		return 2;
	while (!tracer) {
		f = fopen("/proc/self/status", "r");
		while (f && fgets(line, sizeof(line), f))
			(void)sscanf(line, "TracerPid: %d", &tracer);
		if (f)
			fclose(f);
	}
	mpib_channel_fail(sock, "it has a headache");
	for (;;)
		pause();
}

int bad_successor(int argc, char **argv, int sock)
{
	const char *run_dir = "";
	char how[32] = "";
	FILE *f;

	for (int i = 1; i + 1 < argc; i++) {
		char path[256];

		if (strcmp(argv[i], "--run-dir"))
			continue;
		run_dir = argv[i + 1];
		snprintf(path, sizeof(path), "%s/../bad", argv[i + 1]);
		f = fopen(path, "r");
		if (!f || !fgets(how, sizeof(how), f))
			return 2;
		fclose(f);
	}
	hear(sock, MPIB_CHANNEL_BASE);
	if (!strcmp(how, "base"))
		return 3;
	if (!strcmp(how, "refuse"))
		return mpib_channel_fail(sock, "it has a headache");
	if (!strcmp(how, "traced"))
		return refuse_when_traced(run_dir, sock);
	mpib_channel_send(sock, MPIB_CHANNEL_READY, NULL);
	if (!strcmp(how, "ready"))
		return 3;
	hear(sock, MPIB_CHANNEL_CLIENTS);
	if (!strcmp(how, "clients"))
		return 3;
	mpib_channel_send(sock, MPIB_CHANNEL_MAPPED, NULL);
	if (!strcmp(how, "mapped"))
		return 3;
	hear(sock, MPIB_CHANNEL_STATE);
	if (!strcmp(how, "state"))
		return 3;
	mpib_channel_send(sock, MPIB_CHANNEL_PREPARED, NULL);
	if (!strcmp(how, "prepared"))
		return 3;
	hear(sock, MPIB_CHANNEL_GO);
	return 3;
}

pid_t bad_pid(const char *base)
{
	char path[256];
	int pid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/pid", base);
	f = fopen(path, "r");
	if (!f)
		return 0;
	if (fscanf(f, "%d", &pid) != 1)
		pid = 0;
	fclose(f);
	unlink(path);
	return pid;
}
