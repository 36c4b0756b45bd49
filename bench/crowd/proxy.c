/* SPDX-License-Identifier: Apache-2.0 */
#include "crowd/crowd.h"

#include <dirent.h>
#include <mpib/control.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "peers/peer.h"

/* Read the next line of the proxy. The text is valid until the next call. */
static const char *hear(const struct crowd_proxy *p)
{
	static char *line;
	static size_t room;

	if (getline(&line, &room, p->admin) < 0)
		peer_die("the proxy does not answer: %m");
	return line;
}

void crowd_proxy_open(struct crowd_proxy *p, const char *run_dir)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	char path[512];
	long pid = 0;
	int fd;
	FILE *f;

	snprintf(path, sizeof(path), "%s/proxy.pid", run_dir);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%ld", &pid) != 1)
		peer_die("%s: no proxy", path);
	fclose(f);
	p->pid = (pid_t)pid;
	snprintf(sun.sun_path, sizeof(sun.sun_path),
		 "%.80s" MPIB_ADMIN_SUFFIX "/" MPIB_ADMIN_SOCK, run_dir);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0 ||
	    !(p->admin = fdopen(fd, "r+")))
		peer_die("%s: %m", sun.sun_path);
	hear(p); /* the greeting */
}

static const char *ask_proxy(const struct crowd_proxy *p, const char *command)
{
	const char *answer;

	if (fprintf(p->admin, "%s\n", command) < 0 || fflush(p->admin))
		peer_die("%s: %m", command);
	answer = hear(p);
	if (!strstr(answer, "\"ok\":true") && !strstr(answer, "\"ok\": true"))
		peer_die("%s: %.200s", command, answer);
	return answer;
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
	const char *answer = ask_proxy(p, "rails");

	return (struct crowd_rails){ sum_of(answer, "failovers"),
				     sum_of(answer, "failbacks") };
}

unsigned crowd_cluster(const struct crowd_proxy *p)
{
	static const char word[] = "\"answered\"";
	const char *answer = ask_proxy(p, "cluster");
	unsigned n = 0;

	while ((answer = strstr(answer, word))) {
		answer += sizeof(word) - 1;
		n++;
	}
	return n;
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
