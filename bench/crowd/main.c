/* SPDX-License-Identifier: Apache-2.0 */
/* bench-crowd: one proxy against many nodes, in phases; see crowd.h. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "crowd/crowd.h"
#include "engine/conn/conn.h"
#include "peer/internal.h"
#include "peers/peer.h"

#define PAUSE_NS 100000000ull /* pause between two messages of a lane */
#define ASK_NS 20000000ull
#define PATIENCE_NS 120000000000ull
#define KIB 1024.0

struct bench {
	struct crowd_world *w;
	struct crowd_clients c;
	struct crowd_proxy proxy;
	double seconds;
	const char *faults; /* the file for SOUT's faults, MPIB_SOFT_FAULTS */
};

static pid_t child;

void crowd_say(struct crowd_world *w, enum crowd_stage stage)
{
	atomic_store(&w->stage, (int)stage);
}

/* Wait until the other process has reached the stage. */
static void crowd_await(struct crowd_world *w, enum crowd_stage stage)
{
	while (atomic_load(&w->stage) < (int)stage) {
		if (kill(child, 0) < 0)
			peer_die("the process of the other nodes has ended");
		usleep(1000);
	}
}

static void on_child(int sig)
{
	static const char text[] =
		"bench-crowd: the process of the other nodes ended\n";

	(void)sig;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(2);
	_exit(1);
}

static void start_nodes(struct crowd_world *w)
{
	pid_t parent = getpid();

	signal(SIGCHLD, on_child);
	child = fork();
	if (child < 0)
		peer_die("fork: %s", strerror(errno));
	if (child)
		return;
	signal(SIGCHLD, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	crowd_nodes(w);
	_exit(0);
}

/* Check the limit of descriptors. Each node needs a link, a listener and six
 * QPs, which are sockets on software rails. */
static void want_descriptors(unsigned nodes)
{
	rlim_t want = 9 * (rlim_t)nodes + 200;
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		peer_die("getrlimit: %s", strerror(errno));
	if (lim.rlim_max < want)
		peer_die("%u nodes need %llu descriptors, but the limit is "
			 "%llu (raise it with ulimit -n, or use fewer nodes)",
			 nodes, (unsigned long long)want,
			 (unsigned long long)lim.rlim_max);
	lim.rlim_cur = lim.rlim_max;
	setrlimit(RLIMIT_NOFILE, &lim);
}

static double seconds_since(uint64_t ns)
{
	return (double)(peer_ns() - ns) * 1e-9;
}

static void say_of(const char *row, const char *metric, double value)
{
	char key[48];

	snprintf(key, sizeof(key), "%s_%s", row, metric);
	peer_say(key, value);
}

/* Return how much memory was added since *before, in KiB per object for `n`
 * objects. Update *before. */
static struct crowd_memory grown(const struct bench *b, unsigned n,
				 struct crowd_memory *before)
{
	struct crowd_memory now = crowd_memory(&b->proxy), one = {
		.anon = (now.anon - before->anon) / n / KIB,
		.shared = (now.shared - before->shared) / n / KIB,
	};

	*before = now;
	return one;
}

static void say_memory(const char *row, struct crowd_memory one, size_t bytes)
{
	say_of(row, "kib", one.anon + one.shared);
	say_of(row, "anon", one.anon);
	say_of(row, "shared", one.shared);
	say_of(row, "struct", (double)bytes / KIB);
}

/* Print the CPU time since *before in the given unit, and update *before. */
static void say_cpu(const struct bench *b, const char *row, double unit,
		    struct crowd_cpu *before)
{
	struct crowd_cpu now = crowd_cpu(&b->proxy);
	double control = (now.control - before->control) * unit;
	double shard = (now.shards - before->shards) * unit;

	say_of(row, "control", control);
	say_of(row, "shard", shard);
	say_of(row, "cpu", control + shard);
	*before = now;
}

static void connect_all(struct bench *b, struct crowd_memory *mem,
			struct crowd_memory lane)
{
	struct crowd_cpu cpu = crowd_cpu(&b->proxy);
	unsigned n = b->w->nodes;
	uint64_t begun = peer_ns();
	struct crowd_memory one;

	crowd_connect(&b->c, 1, CROWD_SENDERS);
	one = grown(b, (CROWD_SENDERS - 1) * n, mem);
	say_memory("sender", one,
		   engine_conn_bytes(true) + sizeof(struct peer_conn));
	/* The lane was created together with the first connection. */
	lane.anon -= one.anon;
	lane.shared -= one.shared;
	say_memory("lane", lane,
		   sizeof(struct mpib_lane) + sizeof(struct peer_lane));
	crowd_connect(&b->c, CROWD_SENDERS, CROWD_CLIENTS);
	one = grown(b, (CROWD_CLIENTS - CROWD_SENDERS) * n, mem);
	say_memory("receiver", one,
		   engine_conn_bytes(false) + sizeof(struct peer_conn));
	peer_say("conns_s", seconds_since(begun));
	say_cpu(b, "conns", 1e6 / n / (CROWD_CLIENTS - 1), &cpu);
}

static void set_up(struct bench *b)
{
	struct crowd_memory mem = crowd_memory(&b->proxy);
	struct crowd_cpu cpu = crowd_cpu(&b->proxy);
	unsigned n = b->w->nodes;
	uint64_t begun = peer_ns(), links;

	crowd_links(&b->c);
	links = peer_ns();
	peer_say("links_s", (double)(links - begun) * 1e-9);
	say_memory("peer", grown(b, n, &mem),
		   sizeof(struct mpib_peer) + sizeof(struct mpib_link));
	say_cpu(b, "links", 1e6 / n, &cpu);
	crowd_connect(&b->c, 0, 1);
	peer_say("lanes_s", seconds_since(links));
	peer_say("setup_s", seconds_since(begun));
	say_cpu(b, "lanes", 1e6 / n, &cpu);
	connect_all(b, &mem, grown(b, n, &mem));
}

/* Wait until the proxy has been idle for half a second, but at most ten
 * seconds. After the lanes are up, software rails and the other nodes still
 * connect for a while. */
static struct crowd_cpu settled(const struct bench *b)
{
	struct crowd_cpu now = crowd_cpu(&b->proxy), before;
	unsigned looks = 0;

	do {
		before = now;
		usleep(500000);
		now = crowd_cpu(&b->proxy);
	} while (++looks < 20 &&
		 now.control + now.shards - before.control - before.shards >
			 0.02);
	return now;
}

static void idle(struct bench *b)
{
	struct crowd_cpu cpu;
	uint64_t begun;

	cpu = settled(b);
	begun = peer_ns();
	usleep((useconds_t)(b->seconds * 1e6));
	say_cpu(b, "idle", 100 / seconds_since(begun), &cpu);
}

/* Ask for the state of all nodes and wait for the answer. Then count the nodes
 * that answered. */
static void ask_cluster(struct bench *b)
{
	struct crowd_cpu cpu = crowd_cpu(&b->proxy);
	uint64_t begun = peer_ns();
	unsigned n = crowd_cluster(&b->proxy);

	peer_say("ask_s", seconds_since(begun));
	say_cpu(b, "ask", 1e6 / b->w->nodes, &cpu);
	if (n != b->w->nodes + 1)
		peer_die("%u nodes answered, of %u", n, b->w->nodes + 1);
	begun = peer_ns();
	crowd_cluster(&b->proxy);
	peer_say("again_s", seconds_since(begun));
	say_cpu(b, "again", 1e6 / b->w->nodes, &cpu);
}

static void talk(struct bench *b)
{
	uint64_t begun = peer_ns(), until;
	struct crowd_cpu cpu;

	/* Move a message on each lane before the measurement. */
	crowd_mark(&b->c, begun);
	while (!crowd_moved(&b->c)) {
		crowd_talk_turn(&b->c, PAUSE_NS);
		if (peer_ns() - begun > PATIENCE_NS)
			peer_die("not all lanes carry a message");
	}
	cpu = crowd_cpu(&b->proxy);
	b->c.messages = 0;
	begun = peer_ns();
	until = begun + (uint64_t)(b->seconds * 1e9);
	while (peer_ns() < until) {
		crowd_talk_turn(&b->c, PAUSE_NS);
		usleep(500);
	}
	peer_say("busy_messages", (double)b->c.messages / seconds_since(begun));
	say_cpu(b, "busy", 100 / seconds_since(begun), &cpu);
}

/* Return whether the counts of fail-overs and failbacks have reached *want. */
static bool reached(const struct bench *b, const struct crowd_rails *want)
{
	struct crowd_rails now = crowd_rails(&b->proxy);

	return now.failovers >= want->failovers &&
	       now.failbacks >= want->failbacks;
}

/* Send messages until the counts of fail-overs and failbacks have reached
 * *want. If `moved` is true, continue until each lane has moved a message. */
static uint64_t until(struct bench *b, const char *name, bool moved,
		      const struct crowd_rails *want)
{
	uint64_t begun = peer_ns(), asked = begun, there = 0;

	while (!there || (moved && !crowd_moved(&b->c))) {
		uint64_t now = peer_ns();

		if (now - begun > PATIENCE_NS)
			peer_die("%s: %u of %u lanes failed over, %u came back",
				 name, crowd_rails(&b->proxy).failovers,
				 want->failovers,
				 crowd_rails(&b->proxy).failbacks);
		crowd_talk_turn(&b->c, PAUSE_NS);
		if (!there && now - asked > ASK_NS) {
			there = reached(b, want) ? peer_ns() : 0;
			asked = peer_ns();
		}
		usleep(500);
	}
	return there;
}

static void set_fault(const struct bench *b, const char *fault)
{
	FILE *f = fopen(b->faults, "we");

	if (!f || fprintf(f, "%s\n", fault) < 0 || fclose(f))
		peer_die("%s: %m", b->faults);
}

/* Inject a fault into SOUT. Measure the time until each lane has moved a
 * message that was posted after the fault, the time until all lanes are fenced,
 * and the time from the fault's end until all lanes have both rails. */
static void fail_rail(struct bench *b, const char *name, const char *what)
{
	struct crowd_rails want = crowd_rails(&b->proxy);
	struct crowd_cpu cpu = crowd_cpu(&b->proxy);
	uint64_t begun = peer_ns(), fenced;
	char text[64];

	set_fault(b, what);
	crowd_mark(&b->c, begun);
	want.failovers += b->w->nodes;
	fenced = until(b, name, true, &want);
	say_of(name, "moving", (double)(crowd_moved(&b->c) - begun) * 1e-9);
	say_of(name, "fenced", (double)(fenced - begun) * 1e-9);
	say_cpu(b, name, 1e6 / b->w->nodes, &cpu);
	set_fault(b, "");
	begun = peer_ns();
	want.failbacks += b->w->nodes;
	say_of(name, "back",
	       (double)(until(b, name, false, &want) - begun) * 1e-9);
	snprintf(text, sizeof(text), "%s_back", name);
	say_cpu(b, text, 1e6 / b->w->nodes, &cpu);
}

int main(int argc, char **argv)
{
	struct bench b = { 0 };
	unsigned nodes;

	peer_args(argc, argv, 5, 5, "RUN-DIR NET NODES SECONDS FAULTS");
	nodes = (unsigned)peer_size("NODES", argv[3], 1, 1000);
	b.seconds = peer_number("SECONDS", argv[4]);
	b.faults = argv[5];
	want_descriptors(nodes);
	b.w = peer_shared(sizeof(*b.w) + nodes * sizeof(b.w->node[0]));
	b.w->nodes = nodes;
	b.w->net = argv[2];
	start_nodes(b.w);
	crowd_proxy_open(&b.proxy, argv[1]);
	crowd_attach(&b.c, b.w, argv[1]);
	crowd_await(b.w, CROWD_ACCEPTING);
	set_up(&b);
	idle(&b);
	ask_cluster(&b);
	crowd_talk_begin(&b.c);
	crowd_say(b.w, CROWD_TALKING);
	crowd_await(b.w, CROWD_READY);
	talk(&b);
	fail_rail(&b, "down", "link-down");
	fail_rail(&b, "hole", "black-hole");
	signal(SIGCHLD, SIG_DFL);
	_exit(0); /* the clients' connections end with the process */
}
