/* SPDX-License-Identifier: Apache-2.0 */
#include "victim.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "mover.h"
#include "test.h"

#define ROOM (64u << 10)
#define HANG_MS 60000
#define EVERY 64 /* messages between two attaches */
#define COMPARED 1024 /* messages without an attack */
#define LOADERS 4
#define BUSY_MOST_US 20000
#define TOO_SLOW 2u /* upgrades tried again */

static int victim_say(struct victim *v, const char *step, int rc)
{
	snprintf(v->why, sizeof(v->why), "%s: %s", step, mpib_strerror());
	return rc;
}

static int until_ready(struct victim *v, struct mover *m)
{
	unsigned long long until = node_ms() + HANG_MS;
	int rc;

	while ((rc = mover_ready(m)) == 0 && node_ms() < until)
		sched_yield();
	return rc > 0 ? 0 : victim_say(v, "ready", rc ? rc : -ETIMEDOUT);
}

/* A newcomer of the same user: attach, connect, be ready, go. */
static void attach_anew(struct victim *v)
{
	struct mover m;
	int rc = mover_open(&m, v->from, v->to, 4096, true, 7);

	rc = rc < 0 ? victim_say(v, "attach", rc) : until_ready(v, &m);
	mover_close(&m);
	atomic_fetch_add(rc < 0 ? &v->refused : &v->attached, 1);
}

/* One step, and how long a message took that ended by it. */
static int victim_step(struct victim *v, struct mover *m, uint64_t *sent)
{
	uint64_t before = m->messages;
	bool flew = m->stage == MOVER_FLYING;
	int rc = mover_step(m);

	if (!flew && m->stage == MOVER_FLYING)
		*sent = mpib_now_ns();
	if (m->messages != before && !atomic_load(&v->apart))
		mpib_hist_record(&v->beside[atomic_load(&v->left_alone)],
				 mpib_now_ns() - *sent);
	return rc;
}

static int victim_main(void *arg)
{
	struct victim *v = arg;
	uint64_t sent = 0;
	unsigned long long moved = node_ms();
	struct mover m;
	int rc = mover_open(&m, v->from, v->to, ROOM, true, 1);

	rc = rc < 0 ? victim_say(v, "open", rc) : until_ready(v, &m);
	while (rc >= 0 && !atomic_load(&v->stop)) {
		uint64_t before = m.messages;

		rc = victim_step(v, &m, &sent);
		if (m.messages != before) {
			moved = node_ms();
			atomic_store(&v->messages, m.messages);
			atomic_store(&v->wrong, m.wrong);
			if (m.messages % EVERY == 0)
				attach_anew(v);
		} else if (rc == 0) {
			sched_yield();
			if (node_ms() - moved > HANG_MS)
				rc = -ETIMEDOUT;
		}
	}
	if (rc < 0) {
		victim_say(v, "move", rc);
		atomic_store(&v->error, rc);
	}
	mover_close(&m);
	return 0;
}

/* CPU time of a thread; 0 if it is one that moves messages, or is gone. */
static uint64_t cpu_of_thread_us(const char *task, const char *tid)
{
	unsigned long long ns = 0;
	char path[300], name[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/%.20s/comm", task, tid);
	f = fopen(path, "r");
	if (!f)
		return 0;
	if (!fgets(name, sizeof(name), f) || !strncmp(name, "mpib-shard", 10))
		name[0] = '\0';
	fclose(f);
	snprintf(path, sizeof(path), "%s/%.20s/schedstat", task, tid);
	f = name[0] ? fopen(path, "r") : NULL;
	if (!f)
		return 0;
	if (fscanf(f, "%llu", &ns) != 1)
		ns = 0;
	fclose(f);
	return ns / 1000;
}

/* CPU time of a proxy's threads that do not move messages. */
static uint64_t cpu_of_proxy_us(pid_t pid)
{
	const struct dirent *e;
	uint64_t us = 0;
	char task[64];
	DIR *dir;

	snprintf(task, sizeof(task), "/proc/%d/task", pid);
	dir = opendir(task);
	if (!dir)
		return 0; /* another process took over */
	while ((e = readdir(dir)))
		us += cpu_of_thread_us(task, e->d_name);
	closedir(dir);
	return us;
}

/* CPU time of all children that ended, attackers when they have, and of what the
 * proxies' other threads than the shards did for them. */
static uint64_t cpu_of_attack_us(const struct victim *v)
{
	struct rusage u;

	getrusage(RUSAGE_CHILDREN, &u);
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) +
	       cpu_of_proxy_us(v->proxy[0]) + cpu_of_proxy_us(v->proxy[1]);
}

struct victim *victim_start(const struct node *from, const struct node *to)
{
	struct victim *v = mmap(NULL, sizeof(*v), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct rusage u;

	assert_true(v != MAP_FAILED);
	snprintf(v->from, sizeof(v->from), "%s", from->dir);
	snprintf(v->to, sizeof(v->to), "%s", to->dir);
	v->pid = tenant_begin(VICTIM, victim_main, v);
	victim_goes_on(v, 1);
	v->proxy[0] = from->pid;
	v->proxy[1] = to->pid;
	getrusage(RUSAGE_CHILDREN, &u);
	v->waits = u.ru_nvcsw;
	v->cpu_us = cpu_of_attack_us(v);
	v->since_ms = node_ms();
	return v;
}

void victim_goes_on(struct victim *v, uint64_t messages)
{
	uint64_t from = atomic_load(&v->messages);
	uint64_t attached = atomic_load(&v->attached);
	unsigned long long until = node_ms() + 2 * HANG_MS;

	while (atomic_load(&v->messages) < from + messages ||
	       atomic_load(&v->attached) == attached) {
		if (atomic_load(&v->error) || atomic_load(&v->refused) ||
		    node_ms() > until)
			fail_msg("the victim: error %d, %llu refused, %llu "
				 "moved: %s",
				 v->error, (unsigned long long)v->refused,
				 (unsigned long long)v->messages, v->why);
		usleep(1000);
	}
}

void victim_goes_on_over_upgrades(struct victim *v, const struct node node[2],
				  unsigned n)
{
	unsigned slow = 0;
	struct run run;

	for (unsigned i = 0; i < n;) {
		const char *const argv[] = { "mpibctl", "-s", node[i % 2].dir,
					     "upgrade", NULL };

		/* What it takes is the upgrade's and no attack. */
		atomic_store(&v->apart, true);
		run_wait(&run, argv);
		atomic_store(&v->apart, false);
		printf("%s", run.out); /* how long traffic stood still */
		fflush(stdout);
		/* A process that gets no CPU for seconds is given up, whoever
		 * else there is. */
		if (run.status && strstr(run.err, "does not answer") &&
		    slow++ < TOO_SLOW)
			continue;
		if (run.status)
			fail_msg("upgrade %u: %s", i, run.err);
		victim_goes_on(v, 64);
		i++;
	}
	if (slow)
		print_message("%u upgrades had to be tried again\n", slow);
}

/* How the attackers took the CPU: so much of it, and so much each time. */
struct load {
	uint64_t busy_us, idle_us;
};

static int take_cpu(void *arg)
{
	const struct load *load = arg;

	for (;;) {
		uint64_t until = mpib_now_ns() + load->busy_us * 1000;

		while (mpib_now_ns() < until)
			;
		if (load->idle_us > 0)
			usleep((useconds_t)load->idle_us);
	}
	return 0;
}

static struct load load_of_attack(const struct victim *v, unsigned *permille)
{
	uint64_t cpu_us = cpu_of_attack_us(v);
	uint64_t ms = node_ms() - v->since_ms + 1;
	struct load load;
	struct rusage u;

	/* Of a proxy that another took over from nothing is known. */
	cpu_us -= cpu_us > v->cpu_us ? v->cpu_us : cpu_us;
	*permille = (unsigned)(cpu_us / LOADERS / ms);
	*permille = *permille < 1 ? 1 : *permille > 1000 ? 1000 : *permille;
	getrusage(RUSAGE_CHILDREN, &u);
	/* Until one of them waits it goes on, and its proxies for it. */
	load.busy_us = cpu_us / ((uint64_t)(u.ru_nvcsw - v->waits) + 1);
	if (load.busy_us < 100)
		load.busy_us = 100;
	if (load.busy_us > BUSY_MOST_US)
		load.busy_us = BUSY_MOST_US;
	load.idle_us = load.busy_us * (1000 - *permille) / *permille;
	return load;
}

static double p99_us(const struct mpib_hist *h)
{
	struct mpib_hist_counts n = { 0 };

	mpib_hist_read(h, &n);
	return (double)mpib_hist_quantile(&n, 0.99) / 1000;
}

void victim_compare(struct victim *v)
{
	unsigned permille;
	struct load load = load_of_attack(v, &permille);
	pid_t pid[LOADERS];

	for (unsigned i = 0; i < LOADERS; i++)
		pid[i] = tenant_begin(ATTACKER, take_cpu, &load);
	atomic_store(&v->left_alone, true);
	victim_goes_on(v, COMPARED);
	for (unsigned i = 0; i < LOADERS; i++)
		child_kill(pid[i]);
	print_message("the victim: p99 %.0f us, and %.0f us beside the same "
		      "CPU load (%.2f cores, %llu us at once) without the "
		      "attack\n",
		      p99_us(&v->beside[0]), p99_us(&v->beside[1]),
		      LOADERS * permille / 1000.0,
		      (unsigned long long)load.busy_us);
}

void victim_end(struct victim *v)
{
	atomic_store(&v->stop, true);
	assert_int_equal(tenant_end(v->pid), 0);
	if (v->error || v->wrong || v->refused)
		fail_msg("the victim: error %d, %llu wrong, %llu refused: %s",
			 v->error, (unsigned long long)v->wrong,
			 (unsigned long long)v->refused, v->why);
	print_message("the victim: %llu messages, %llu attaches, 0 wrong, "
		      "0 refused\n",
		      (unsigned long long)v->messages,
		      (unsigned long long)v->attached);
	munmap(v, sizeof(*v));
}

/* Of victim_between(), for victim_teardown(). */
static struct victim *left_with;
static struct node *between;

struct victim *victim_between(struct node node[2], const char *const *args)
{
	if (geteuid() != 0)
		return NULL;
	attack_start(&node[0], 1, args);
	attack_start(&node[1], 2, args);
	between = node;
	left_with = victim_start(&node[0], &node[1]);
	return left_with;
}

int victim_teardown(void **state)
{
	victim_leave(left_with, between);
	return 0;
}

void victim_leave(struct victim *v, struct node node[2])
{
	if (!v)
		return;
	victim_compare(v);
	victim_end(v);
	node_stop(&node[0]);
	node_stop(&node[1]);
}
