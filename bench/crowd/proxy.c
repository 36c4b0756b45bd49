/* SPDX-License-Identifier: Apache-2.0 */
#include "crowd/proxy.h"

#include <dirent.h>
#include <mpib/control.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "peers/peer.h"

#define ANSWER_MAX 65536
#define CLUSTER_MAX (4u << 20)

/* Read a line and cut it to the buffer's size. */
static void hear(const struct crowd_proxy *p, char *line, size_t len)
{
	size_t n = 0;
	char c;

	while (recv(p->admin, &c, 1, 0) == 1 && c != '\n') {
		if (n + 1 < len)
			line[n++] = c;
	}
	line[n] = '\0';
}

void crowd_proxy_open(struct crowd_proxy *p, const char *run_dir)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	char path[512], line[ANSWER_MAX];
	long pid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/proxy.pid", run_dir);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%ld", &pid) != 1)
		peer_die("%s: no proxy", path);
	fclose(f);
	p->pid = (pid_t)pid;
	snprintf(sun.sun_path, sizeof(sun.sun_path),
		 "%.80s" MPIB_ADMIN_SUFFIX "/" MPIB_ADMIN_SOCK, run_dir);
	p->admin = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (p->admin < 0 ||
	    connect(p->admin, (struct sockaddr *)&sun, sizeof(sun)) < 0)
		peer_die("%s: %m", sun.sun_path);
	hear(p, line, sizeof(line)); /* the greeting */
}

static void ask_proxy(const struct crowd_proxy *p, const char *command,
		      char *answer, size_t len)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "%s\n", command);

	if (send(p->admin, line, (size_t)n, MSG_NOSIGNAL) != n)
		peer_die("%s: %m", command);
	hear(p, answer, len);
	if (!strstr(answer, "\"ok\":true") && !strstr(answer, "\"ok\": true"))
		peer_die("%s: %.200s", command, answer);
}

void crowd_order(const struct crowd_proxy *p, const char *command)
{
	char answer[ANSWER_MAX];

	ask_proxy(p, command, answer, sizeof(answer));
}

static unsigned sum_of(const char *json, const char *name)
{
	unsigned long sum = 0;
	char key[32];

	snprintf(key, sizeof(key), "\"%s\":", name);
	while ((json = strstr(json, key))) {
		json += strlen(key);
		sum += strtoul(json, NULL, 10);
	}
	return (unsigned)sum;
}

struct crowd_rails crowd_rails(const struct crowd_proxy *p)
{
	char answer[ANSWER_MAX];

	ask_proxy(p, "rails", answer, sizeof(answer));
	return (struct crowd_rails){ sum_of(answer, "failovers"),
				     sum_of(answer, "failbacks") };
}

unsigned crowd_cluster(const struct crowd_proxy *p)
{
	static const char question[] = "cluster\n";
	static char answer[CLUSTER_MAX];
	size_t n = 0;
	ssize_t got = 1;

	if (send(p->admin, question, sizeof(question) - 1, MSG_NOSIGNAL) < 0)
		peer_die("cluster: %m");
	while (got > 0 && (n == 0 || answer[n - 1] != '\n')) {
		got = recv(p->admin, answer + n, sizeof(answer) - 1 - n, 0);
		n += got > 0 ? (size_t)got : 0;
	}
	answer[n] = '\0';
	for (got = 0, n = 0; answer[n]; n++) {
		static const char word[] = "\"answered\"";

		got += !strncmp(answer + n, word, sizeof(word) - 1);
	}
	return (unsigned)got;
}

static double thread_seconds(pid_t pid, const char *tid)
{
	char path[320];
	double ns = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", (int)pid,
		 tid);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%lf", &ns) != 1)
		peer_die("%s: no CPU time", path);
	fclose(f);
	return ns * 1e-9;
}

struct crowd_cpu crowd_cpu(const struct crowd_proxy *p)
{
	struct crowd_cpu cpu = { 0 };
	struct dirent *e;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)p->pid);
	dir = opendir(path);
	if (!dir)
		peer_die("%s: %m", path);
	while ((e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		if (atoi(e->d_name) == p->pid)
			cpu.control += thread_seconds(p->pid, e->d_name);
		else
			cpu.shards += thread_seconds(p->pid, e->d_name);
	}
	closedir(dir);
	return cpu;
}

struct crowd_memory crowd_memory(const struct crowd_proxy *p)
{
	struct crowd_memory m = { -1, -1 };
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)p->pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		double kib;

		if (sscanf(line, "RssAnon: %lf", &kib) == 1)
			m.anon = kib * 1024;
		if (sscanf(line, "RssShmem: %lf", &kib) == 1)
			m.shared = kib * 1024;
	}
	if (f)
		fclose(f);
	if (m.anon < 0 || m.shared < 0)
		peer_die("%s: no memory", path);
	return m;
}
