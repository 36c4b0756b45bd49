/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring all-reduce over raw TCP on loopback, with the same steps as pattern
 * "ring" of mpib-perf: floats, chunks of 512 KiB, one process per rank.
 *
 *   bench-ring RANKS SIZE ITERATIONS     busbw (GB/s)
 *
 * Sockets are non-blocking; a rank with nothing to move yields its core, as
 * NCCL's proxy thread does. The first iteration is not timed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peers/args.h"
#include "peers/peer.h"

#define RANKS_MAX 64
#define CHUNK (512u << 10)

/* Shared by all ranks. */
struct ring_test {
	unsigned ranks;
	uint64_t count, iters; /* floats; iterations, with the untimed ones */
	in_port_t port[RANKS_MAX];
	int listener[RANKS_MAX];
	_Atomic unsigned waiting; /* arrivals at all barriers */
	_Atomic uint64_t ns; /* of the slowest rank */
};

struct rank {
	struct ring_test *t;
	unsigned self;
	int to, from;
	float *data;
	char *slot;
	uint64_t seg, chunk, per_seg; /* floats; per_seg: messages */
	uint64_t lap; /* messages per iteration */
	uint64_t total; /* messages of the test, per direction */
	uint64_t sent, done;
	size_t out, in; /* bytes moved of the current messages */
};

static void listen_all(struct ring_test *t)
{
	for (unsigned i = 0; i < t->ranks; i++) {
		struct sockaddr_in a = { .sin_family = AF_INET };
		socklen_t len = sizeof(a);
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) < 0 ||
		    listen(fd, 1) < 0 ||
		    getsockname(fd, (struct sockaddr *)&a, &len) < 0)
			peer_die("listen: %s", strerror(errno));
		t->listener[i] = fd;
		t->port[i] = a.sin_port;
	}
}

static void connect_ring(struct rank *r)
{
	struct ring_test *t = r->t;
	struct sockaddr_in a = {
		.sin_family = AF_INET,
		.sin_port = t->port[(r->self + 1) % t->ranks],
	};
	int one = 1;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	r->to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (r->to < 0 || connect(r->to, (struct sockaddr *)&a, sizeof(a)) < 0)
		peer_die("connect: %s", strerror(errno));
	r->from = accept4(t->listener[r->self], NULL, NULL, SOCK_CLOEXEC);
	if (r->from < 0)
		peer_die("accept: %s", strerror(errno));
	setsockopt(r->to, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* The floats of message i. A receive has the segment that the previous rank of
 * the ring sends in the same step. */
static float *part(const struct rank *r, uint64_t i, bool sends, size_t *bytes)
{
	unsigned n = r->t->ranks;
	uint64_t step = i / r->per_seg % (2 * (n - 1)), k = i % r->per_seg;
	uint64_t seg = (r->self + 2 * n - step - (sends ? 0 : 1)) % n;
	uint64_t at = k * r->chunk;
	uint64_t len = r->seg - at < r->chunk ? r->seg - at : r->chunk;

	*bytes = len * sizeof(float);
	return r->data + seg * r->seg + at;
}

static size_t moved(ssize_t n, const char *what)
{
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		peer_die("%s: %s", what, n ? strerror(errno) : "closed");
	return n < 0 ? 0 : (size_t)n;
}

/* A step sends the segment that the step before received, so a send waits for
 * the receive of the same chunk in that step. */
static bool send_some(struct rank *r)
{
	size_t len, n;
	char *at;

	if (r->sent == r->total || r->sent >= r->done + r->per_seg)
		return false;
	at = (char *)part(r, r->sent, true, &len);
	n = moved(send(r->to, at + r->out, len - r->out,
		       MSG_DONTWAIT | MSG_NOSIGNAL),
		  "send");
	r->out += n;
	if (r->out == len) {
		r->out = 0;
		r->sent++;
	}
	return n > 0;
}

static void received(struct rank *r, float *to, size_t len)
{
	const float *from = (const float *)(const void *)r->slot;
	unsigned n = r->t->ranks;

	if (r->done / r->per_seg % (2 * (n - 1)) >= n - 1) {
		memcpy(to, from, len);
		return;
	}
	for (size_t k = 0; k < len / sizeof(float); k++)
		to[k] += from[k];
}

static bool recv_some(struct rank *r)
{
	size_t len, n;
	float *to;

	/* Do not receive for the next iteration while this one still has data
	 * to send: the sum would go into data that is not sent yet. */
	if (r->done == r->total || r->sent < r->done / r->lap * r->lap)
		return false;
	to = part(r, r->done, false, &len);
	n = moved(recv(r->from, r->slot + r->in, len - r->in, MSG_DONTWAIT),
		  "recv");
	r->in += n;
	if (r->in == len) {
		r->in = 0;
		received(r, to, len);
		r->done++;
	}
	return n > 0;
}

static void run(struct rank *r, uint64_t iters)
{
	r->total += iters * r->lap;
	while (r->sent < r->total || r->done < r->total) {
		bool progress = send_some(r);

		progress |= recv_some(r);
		if (!progress)
			sched_yield();
	}
}

static void barrier(struct ring_test *t)
{
	unsigned came = atomic_fetch_add(&t->waiting, 1);

	while (atomic_load(&t->waiting) < came - came % t->ranks + t->ranks)
		sched_yield();
}

static void check(const struct rank *r)
{
	unsigned n = r->t->ranks;
	float sum = (float)(n * (n + 1) / 2);

	for (uint64_t i = 1; i < r->t->iters; i++)
		sum *= (float)n;
	for (uint64_t i = 0; i < r->seg * n; i++) {
		if (r->data[i] != sum)
			peer_die("rank %u: element %llu is %g, not %g", r->self,
				 (unsigned long long)i, (double)r->data[i],
				 (double)sum);
	}
}

static void be_rank(struct ring_test *t, unsigned self)
{
	struct rank r = { .t = t, .self = self };
	uint64_t begun, ns;

	r.seg = t->count / t->ranks;
	r.chunk = r.seg < CHUNK / sizeof(float) ? r.seg : CHUNK / sizeof(float);
	r.per_seg = (r.seg + r.chunk - 1) / r.chunk;
	r.lap = 2 * (t->ranks - 1) * r.per_seg;
	r.data = malloc(t->count * sizeof(float));
	r.slot = malloc(r.chunk * sizeof(float));
	if (!r.data || !r.slot)
		peer_die("no memory");
	for (uint64_t i = 0; i < t->count; i++)
		r.data[i] = (float)(self + 1);
	connect_ring(&r);
	barrier(t);
	run(&r, 1);
	barrier(t);
	begun = peer_ns();
	run(&r, t->iters - 1);
	begun = peer_ns() - begun;
	ns = atomic_load(&t->ns);
	while (ns < begun && !atomic_compare_exchange_weak(&t->ns, &ns, begun))
		;
	check(&r);
	free(r.slot);
	free(r.data);
}

static void start(struct ring_test *t, unsigned self)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		peer_die("fork: %s", strerror(errno));
	if (pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	be_rank(t, self);
	_exit(0);
}

int main(int argc, char **argv)
{
	struct ring_test *t = peer_shared(sizeof(*t));
	double bytes;
	int status;

	peer_args(argc, argv, 3, 3, "RANKS SIZE ITERATIONS");
	t->ranks = (unsigned)peer_size("RANKS", argv[1], 2, RANKS_MAX);
	t->count = peer_size("SIZE", argv[2], sizeof(float) * t->ranks,
			     1ull << 34) /
		   sizeof(float) / t->ranks * t->ranks;
	t->iters = peer_size("ITERATIONS", argv[3], 1, UINT32_MAX) + 1;
	listen_all(t);
	for (unsigned i = 0; i < t->ranks; i++)
		start(t, i);
	for (unsigned i = 0; i < t->ranks; i++) {
		if (wait(&status) < 0 || status)
			peer_die("a rank failed (status %#x)", status);
	}
	bytes = (double)t->count * sizeof(float) * (double)(t->iters - 1);
	peer_say("busbw", bytes * 2 * (t->ranks - 1) / t->ranks /
				  (double)atomic_load(&t->ns));
	return 0;
}
