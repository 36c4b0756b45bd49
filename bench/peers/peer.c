/* SPDX-License-Identifier: Apache-2.0 */
/* What the small programs share: processes, memory, clocks, results. */
#include "peers/peer.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void peer_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

uint64_t peer_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

double peer_cpu(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

void *peer_shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		peer_die("no memory for %zu bytes: %s", bytes, strerror(errno));
	return p;
}

void peer_pin(unsigned n)
{
	cpu_set_t may, one;
	unsigned nth;

	if (sched_getaffinity(0, sizeof(may), &may) < 0)
		peer_die("sched_getaffinity: %s", strerror(errno));
	nth = n % (unsigned)CPU_COUNT(&may);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &may) || nth-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (sched_setaffinity(0, sizeof(one), &one) < 0)
			peer_die("sched_setaffinity: %s", strerror(errno));
		return;
	}
}

void peer_pair(void (*first)(void *arg), void (*second)(void *arg), void *arg)
{
	pid_t parent = getpid(), pid = fork();
	int status = 0;

	if (pid < 0)
		peer_die("fork: %s", strerror(errno));
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		second(arg);
		_exit(0);
	}
	first(arg);
	if (waitpid(pid, &status, 0) < 0 || status)
		peer_die("the second process failed (status %#x)", status);
}

void peer_say(const char *metric, double value)
{
	printf("%s %.9g\n", metric, value);
	fflush(stdout);
}

void peer_say_latency(const struct perf_hist *h)
{
	peer_say("lat_p50", perf_hist_quantile(h, 0.5) / 1e3);
	peer_say("lat_p90", perf_hist_quantile(h, 0.9) / 1e3);
	peer_say("lat_p99", perf_hist_quantile(h, 0.99) / 1e3);
	peer_say("lat_p999", perf_hist_quantile(h, 0.999) / 1e3);
}
