/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measure how long jobs pause when a proxy is killed or upgraded. This process
 * has RANKS clients at each of two proxies, and CONNS connections between them.
 * All connections move 4 KiB messages. Each receiving client has REGIONS
 * regions, BYTES in total. This process kills the second proxy TIMES times;
 * another program starts it again. If MPIBCTL is given, this process upgrades
 * the proxy instead.
 *
 *   bench-recovery RUNDIR RUNDIR RANKS CONNS REGIONS BYTES TIMES [MPIBCTL]
 *
 *   back_p50 back_p99    s from the kill until the next proxy listens
 *   first_p50 first_p99  s from that time, for each connection, until the
 *                        first message arrives that had not completed at the
 *                        kill
 *   pause_p50 pause_p99  s, for each connection and upgrade, of the longest
 *                        time in which no message arrives
 */
#include <fcntl.h>
#include <mpib/client.h>
#include <mpib/control.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peers/peer.h"
#include "perf/hist.h"

#define MESSAGE 4096u
#define RANKS_MAX 64
#define PAGE 4096u

struct line {
	struct mpib_conn *tx, *rx;
	struct mpib_region *tx_mr, *rx_mr;
	struct mpib_request *sent, *received;
	char *from, *to;
	/* no message has arrived since the kill or the end of the upgrade */
	bool waits;
	uint64_t at, longest; /* last arrival, longest pause in the upgrade */
};

static struct mpib_client *from[RANKS_MAX], *to[RANKS_MAX];
static struct line *line;
static unsigned ranks, conns;
static struct perf_hist back, first, pauses;

static void must(int rc, const char *call)
{
	if (rc < 0)
		peer_die("%s: %s", call, mpib_strerror());
}

static struct mpib_client *client_of(const char *dir)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = dir,
					 .name = "bench-recovery",
					 .timeout_ms = 10000 };
	struct mpib_client *c;

	must(mpib_attach(&opts, &c), "mpib_attach");
	return c;
}

/* Register memory without messages, only to let the next proxy register it
 * again. */
static void register_more(struct mpib_client *c, unsigned regions, size_t bytes)
{
	size_t each = bytes / regions / PAGE * PAGE;
	struct mpib_region *mr;
	void *map;
	int fd;

	if (each == 0)
		each = PAGE;
	for (unsigned i = 0; i < regions; i++) {
		fd = memfd_create("recovery", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (fd < 0 || ftruncate(fd, (off_t)each) < 0 ||
		    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
			peer_die("memfd of %zu bytes: %m", each);
		map = mmap(NULL, each, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			   0);
		if (map == MAP_FAILED)
			peer_die("mmap of %zu bytes: %m", each);
		memset(map, 1, each);
		must(mpib_reg_fd(c, map, each, 0, fd, MPIB_REG_MEMFD, &mr),
		     "mpib_reg_fd");
		close(fd);
	}
}

static void *shared(struct mpib_client *c, struct mpib_region **mr)
{
	void *mem = mpib_mem_alloc(c, PAGE);

	if (!mem)
		peer_die("mpib_mem_alloc: %s", mpib_strerror());
	must(mpib_reg(c, mem, PAGE, mr), "mpib_reg");
	return mem;
}

static void connect_line(struct line *l, unsigned i)
{
	struct mpib_client *a = from[i % ranks], *b = to[i % ranks];
	struct mpib_listener *listener;
	struct mpib_handle handle;
	int tx = 0, rx = 0;

	l->from = shared(a, &l->tx_mr);
	l->to = shared(b, &l->rx_mr);
	must(mpib_listen(b, &handle, &listener), "mpib_listen");
	must(mpib_accept(listener, &l->rx), "mpib_accept");
	must(mpib_connect(a, &handle, -1, &l->tx), "mpib_connect");
	while (!tx || !rx) {
		must(tx = mpib_ready(l->tx), "mpib_ready");
		must(rx = mpib_ready(l->rx), "mpib_ready");
		sched_yield();
	}
	mpib_close_listen(listener);
}

static bool over(struct mpib_request **r)
{
	int done = 0;

	if (!*r)
		return true;
	must(mpib_test(*r, &done, NULL), "mpib_test");
	if (done)
		*r = NULL;
	return done;
}

/* Test and post the requests of a connection. Return whether a message has
 * arrived. */
static bool step(struct line *l)
{
	size_t size = MESSAGE;
	void *at = l->to;
	bool had = l->received, arrived;

	arrived = over(&l->received) && had;
	if (!l->received)
		must(mpib_irecv(l->rx, 1, &at, &size, NULL, &l->rx_mr,
				&l->received),
		     "mpib_irecv");
	if (over(&l->sent))
		must(mpib_isend(l->tx, l->from, MESSAGE, 0, l->tx_mr, &l->sent),
		     "mpib_isend");
	return arrived;
}

static void turn(void)
{
	for (unsigned i = 0; i < conns; i++)
		(void)step(&line[i]);
}

static pid_t pid_of(const char *dir)
{
	char path[256], text[32] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/proxy.pid", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	close(fd);
	return (pid_t)strtol(text, NULL, 10);
}

static bool listens(const char *dir)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), rc;

	if (snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/%s", dir,
		     MPIB_CONTROL_SOCK) >= (int)sizeof(sun.sun_path))
		peer_die("the path of %s is too long", dir);
	rc = connect(sock, (struct sockaddr *)&sun, sizeof(sun));
	close(sock);
	return rc == 0;
}

/* Kill the proxy and wait until each connection has moved a message. A
 * message must have been posted after the kill: this process may notice an
 * earlier message's completion only after the kill. */
static void kill_once(const char *dir)
{
	uint64_t killed, listened;
	unsigned waiting = conns;
	pid_t pid = pid_of(dir);

	if (pid <= 1 || kill(pid, SIGKILL) < 0)
		peer_die("%s/proxy.pid names no process", dir);
	killed = peer_ns();
	/* A killed proxy still accepts until the kernel has closed its
	 * sockets. */
	while (kill(pid, 0) == 0 || !listens(dir)) {
		turn();
		if (peer_ns() - killed > 60000000000u)
			peer_die("no proxy came back at %s within 60 s", dir);
	}
	listened = peer_ns();
	perf_hist_add(&back, listened - killed);
	for (unsigned i = 0; i < conns; i++)
		line[i].waits = true;
	while (waiting) {
		for (unsigned i = 0; i < conns; i++) {
			if (!step(&line[i]) || !line[i].waits)
				continue;
			line[i].waits = false;
			waiting--;
			perf_hist_add(&first, peer_ns() - listened);
		}
	}
}

static pid_t start_upgrade(char *ctl, char *dir)
{
	char socket[] = "-s", verb[] = "upgrade";
	char *argv[] = { ctl, socket, dir, verb, NULL };
	pid_t pid = fork();

	if (pid < 0)
		peer_die("fork: %m");
	if (pid == 0) {
		execv(ctl, argv);
		_exit(127);
	}
	return pid;
}

/* Return whether the upgrade has ended. */
static bool upgraded(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, WNOHANG) == 0)
		return false;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		peer_die("mpibctl upgrade failed");
	return true;
}

/* Upgrade the proxy, and continue until each connection has moved a message
 * after that. */
static void upgrade_once(char *ctl, char *dir)
{
	pid_t pid = start_upgrade(ctl, dir);
	unsigned waiting = conns;
	bool ended = false;

	for (unsigned i = 0; i < conns; i++) {
		line[i].at = peer_ns();
		line[i].longest = 0;
	}
	while (waiting) {
		for (unsigned i = 0; i < conns; i++) {
			struct line *l = &line[i];
			uint64_t now;

			if (!step(l))
				continue;
			now = peer_ns();
			if (now - l->at > l->longest)
				l->longest = now - l->at;
			l->at = now;
			waiting -= l->waits;
			l->waits = false;
		}
		if (ended || !upgraded(pid))
			continue;
		ended = true;
		for (unsigned i = 0; i < conns; i++)
			line[i].waits = true;
	}
	for (unsigned i = 0; i < conns; i++)
		perf_hist_add(&pauses, line[i].longest);
}

static void say(const char *name, const struct perf_hist *h)
{
	char key[32];

	snprintf(key, sizeof(key), "%s_p50", name);
	peer_say(key, perf_hist_quantile(h, 0.5) / 1e9);
	snprintf(key, sizeof(key), "%s_p99", name);
	peer_say(key, perf_hist_quantile(h, 0.99) / 1e9);
}

int main(int argc, char **argv)
{
	unsigned regions, times;
	size_t bytes;

	peer_args(argc, argv, 7, 8,
		  "RUNDIR RUNDIR RANKS CONNS REGIONS BYTES TIMES [MPIBCTL]");
	ranks = (unsigned)peer_size("RANKS", argv[3], 1, RANKS_MAX);
	conns = (unsigned)peer_size("CONNS", argv[4], 1, 65536);
	regions = (unsigned)peer_size("REGIONS", argv[5], 1, 4096);
	bytes = peer_size("BYTES", argv[6], PAGE, 64ul << 30);
	times = (unsigned)peer_size("TIMES", argv[7], 1, 100000);
	line = calloc(conns, sizeof(*line));
	if (!line)
		peer_die("out of memory");
	for (unsigned i = 0; i < ranks; i++) {
		from[i] = client_of(argv[1]);
		to[i] = client_of(argv[2]);
		register_more(to[i], regions, bytes / ranks);
	}
	for (unsigned i = 0; i < conns; i++)
		connect_line(&line[i], i);
	for (unsigned i = 0; i < times; i++) {
		for (unsigned k = 0; k < 200; k++)
			turn();
		if (argc > 8)
			upgrade_once(argv[8], argv[2]);
		else
			kill_once(argv[2]);
	}
	if (argc > 8) {
		say("pause", &pauses);
	} else {
		say("back", &back);
		say("first", &first);
	}
	return 0;
}
