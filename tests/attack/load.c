/* SPDX-License-Identifier: Apache-2.0 */
#include "load.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/line.h"
#include "tenant.h"
#include "test.h"

#define ATTACKERS 4u /* that take as much as the attackers did */
#define BUSY_LEAST_US 100
#define BUSY_MOST_US 20000
#define SKIP_10 " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "

/* CPU time of a thread that moves messages; 0 of others. */
static uint64_t cpu_of_shard_us(pid_t pid, const char *tid)
{
	char name[32];

	mpib_read_line(name, sizeof(name), "/proc/%d/task/%s/comm", pid, tid);
	return strncmp(name, "mpib-shard", 10) ? 0 : thread_us(pid, tid);
}

static uint64_t cpu_of_process_us(pid_t pid)
{
	unsigned long long user, kernel;
	char stat[512];

	mpib_read_line(stat, sizeof(stat), "/proc/%d/stat", pid);
	/* A proxy's name has no space. */
	if (sscanf(stat, "%*d %*s %*c" SKIP_10 "%llu %llu", &user, &kernel) !=
	    2)
		return 0;
	return (user + kernel) * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

/* How often a process's first thread, a proxy's control thread, has waited. */
static uint64_t waits_of(pid_t pid)
{
	unsigned long long n = 0;
	char path[64], line[128];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "voluntary_ctxt_switches: %llu", &n) == 1)
			break;
	}
	if (f)
		fclose(f);
	return n;
}

/* What a proxy did beside moving messages, also in threads that have ended. */
static void add_proxy(struct load_part *c, pid_t pid)
{
	uint64_t us = cpu_of_process_us(pid), shards = 0;
	const struct dirent *e;
	char task[64];
	DIR *dir;

	snprintf(task, sizeof(task), "/proc/%d/task", pid);
	dir = opendir(task);
	if (!dir)
		return; /* it has ended */
	while ((e = readdir(dir)))
		shards += cpu_of_shard_us(pid, e->d_name);
	closedir(dir);
	c->us += us > shards ? us - shards : 0;
	c->waits += waits_of(pid);
}

void load_taken(struct load *load, const char *dir, const char *other)
{
	struct rusage u;

	getrusage(RUSAGE_CHILDREN, &u);
	*load = (struct load){ 0 };
	load->children.us =
		(uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
		(uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
	load->children.waits = (uint64_t)u.ru_nvcsw;
	add_proxy(&load->proxies, attack_proxy(dir));
	add_proxy(&load->proxies, attack_proxy(other));
}

/* Modulo 2^64: an upgrade has a proxy begin anew. */
void load_less(struct load *load, const struct load *by)
{
	load->children.us -= by->children.us;
	load->children.waits -= by->children.waits;
	load->proxies.us -= by->proxies.us;
	load->proxies.waits -= by->proxies.waits;
}

struct pattern {
	uint64_t busy_us, idle_us;
};

static int take_cpu(void *arg)
{
	const struct pattern *p = arg;

	for (;;) {
		uint64_t until = mpib_now_ns() + p->busy_us * 1000;

		while (mpib_now_ns() < until)
			;
		if (p->idle_us > 0)
			usleep((useconds_t)p->idle_us);
	}
	return 0;
}

static uint64_t clamp(uint64_t n, uint64_t least, uint64_t most)
{
	return n < least ? least : n > most ? most : n;
}

static pid_t taking[ATTACKERS + 1];
static unsigned processes;

/* n processes, each with its part of what was taken. */
static struct pattern take_as_much(const struct load_part *l, unsigned n,
				   uint64_t ms)
{
	uint64_t permille = clamp(l->us / n / ms, 1, 1000);
	struct pattern p;

	p.busy_us = clamp(l->us / (l->waits + 1), BUSY_LEAST_US, BUSY_MOST_US);
	p.idle_us = p.busy_us * (1000 - permille) / permille;
	while (n-- > 0)
		taking[processes++] = tenant_begin(ATTACKER, take_cpu, &p);
	return p;
}

void load_begin(const struct load *load, uint64_t ms)
{
	struct pattern a = take_as_much(&load->children, ATTACKERS, ms);
	struct pattern p = take_as_much(&load->proxies, 1, ms);

	print_message("attackers took %.2f cores, %llu us at once, and the "
		      "proxies beside messages %.2f, %llu us\n",
		      (double)load->children.us / 1000 / (double)ms,
		      (unsigned long long)a.busy_us,
		      (double)load->proxies.us / 1000 / (double)ms,
		      (unsigned long long)p.busy_us);
}

void load_end(void)
{
	while (processes > 0)
		child_kill(taking[--processes]);
}
