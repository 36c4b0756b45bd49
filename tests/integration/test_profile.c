/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The test provides the profiler callback that NCCL passes to the plugin. The
 * plugin reports one event for each QP that a request uses: a start, a stop,
 * the bytes and the times. Without a profiler, it reports no event.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <mpib/report.h>

#include "nccl_abi.h"
#include "node.h"
#include "test.h"

#define MEM (4u << 20)
#define MIB (1u << 20)

static struct node node;
static const struct nccl_net_v12 *net;
static void *ctx, *listen_comm, *send_comm, *recv_comm, *send_mh, *recv_mh;
static char *from, *to;

static struct seen {
	bool taken; /* the test acts as if a profiler were loaded */
	unsigned starts, stops, wrong, undone;
	uint64_t bytes; /* sum of the bytes in the events of sends */
	unsigned of_send, of_recv, of_each[3];
	uint64_t of_each_send[3]; /* bytes of each send */
	int qp[16];
	/* the last event of a receive ([0]) and of a send ([1]) */
	struct mpib_profiled last[2];
} seen;

/* The test uses only the addresses of these variables, as profiler handles. */
static int send_ph, recv_ph, each_ph[3], each_send_ph[3];

static bool is_send(const int *ph)
{
	return ph == &send_ph || (ph >= each_send_ph && ph < each_send_ph + 3);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void look_at_times(const void *phandle, const struct mpib_profiled *d)
{
	uint64_t now = now_ns();

	seen.stops++;
	seen.wrong += d->magic != MPIB_PROFILED_MAGIC ||
		      d->size != sizeof(*d) || d->rail > 1;
	seen.wrong += d->submitted_ns > now || d->posted_ns > now ||
		      d->done_ns > now || d->over_ns > now || d->seen_ns > now;
	seen.undone += !d->done_ns;
	seen.last[is_send(phandle)] = *d;
}

static enum nccl_result profiler(void **event, int type, void *phandle,
				 int64_t plugin_id, void *data)
{
	const struct nccl_profiler_ib_v1 *d = data;

	seen.wrong += plugin_id != NCCL_PROFILER_IB_V1 ||
		      (!is_send(phandle) && phandle != &recv_ph &&
		       phandle != &each_ph[0] && phandle != &each_ph[2]);
	if (type == 3) {
		seen.wrong += *event != &seen;
		look_at_times(phandle, data);
		return NCCL_SUCCESS;
	}
	seen.wrong += type != 0 || d->type != NCCL_PROFILE_QP;
	seen.qp[seen.starts++ % 16] = d->qp.qpNum;
	seen.wrong += d->qp.wr_id > 31 || d->qp.device > 1 ||
		      d->qp.opcode != is_send(phandle);
	for (unsigned i = 0; i < 3; i++) {
		seen.of_each[i] += phandle == &each_ph[i];
		if (phandle == &each_send_ph[i])
			seen.of_each_send[i] += d->qp.length;
	}
	if (is_send(phandle)) {
		seen.of_send++;
		seen.bytes += d->qp.length;
	} else {
		seen.of_recv++;
	}
	*event = seen.taken ? &seen : NULL;
	return NCCL_SUCCESS;
}

static void quiet(enum nccl_log_level level, unsigned long flags,
		  const char *where, int line, const char *fmt, ...)
{
	(void)level, (void)flags, (void)where, (void)line, (void)fmt;
}

static void *reg(void *comm, void **mh)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *mem;

	assert_int_equal(ftruncate(fd, MEM), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	mem = mmap(NULL, MEM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(mem != MAP_FAILED);
	assert_int_equal(
		net->regMrDmaBuf(comm, mem, MEM, NCCL_PTR_CUDA, 0, fd, mh),
		NCCL_SUCCESS);
	close(fd);
	return mem;
}

static void connect_self(void)
{
	char handle[NCCL_NET_HANDLE_MAXSIZE];

	assert_int_equal(net->init(&ctx, 7, NULL, quiet, profiler),
			 NCCL_SUCCESS);
	assert_int_equal(net->listen(ctx, 0, handle, &listen_comm),
			 NCCL_SUCCESS);
	while (!send_comm || !recv_comm) {
		if (!send_comm)
			assert_int_equal(
				net->connect(ctx, 0, handle, &send_comm, NULL),
				NCCL_SUCCESS);
		if (!recv_comm)
			assert_int_equal(
				net->accept(listen_comm, &recv_comm, NULL),
				NCCL_SUCCESS);
	}
	from = reg(send_comm, &send_mh);
	to = reg(recv_comm, &recv_mh);
}

static int setup(void **state)
{
	void *lib;

	/* Each rail carries half of each message. */
	node_start(&node, 8, "--sup-bw", "512", NULL);
	setenv("MPIB_RUN_DIR", node.dir, 1);
	lib = dlopen(PLUGIN_PATH, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(lib);
	net = dlsym(lib, NCCL_NET_SYMBOL_PREFIX "12");
	assert_non_null(net);
	return 0;
}

static int teardown(void **state)
{
	node_stop(&node);
	return 0;
}

static int open_comms(void **state)
{
	connect_self();
	memset(&seen, 0, sizeof(seen));
	return 0;
}

static int close_comms(void **state)
{
	net->deregMr(send_comm, send_mh);
	net->deregMr(recv_comm, recv_mh);
	net->closeSend(send_comm);
	net->closeRecv(recv_comm);
	net->closeListen(listen_comm);
	net->finalize(ctx);
	send_comm = recv_comm = NULL;
	return 0;
}

static void finish(void *req)
{
	for (int done = 0; !done;)
		assert_int_equal(net->test(req, &done, NULL), NCCL_SUCCESS);
}

/* Post a receive of `n` buffers with the tags 0, 1 and so on. Each buffer has
 * its own part of the memory. */
static void *begin_recv(int n, void **phandles)
{
	void *req = NULL, *addr[8], *mh[8];
	size_t room[8];
	int tag[8];

	for (int i = 0; i < n; i++) {
		tag[i] = i;
		room[i] = MEM / (size_t)n;
		addr[i] = to + (size_t)i * room[i];
		mh[i] = recv_mh;
	}
	while (!req)
		net->irecv(recv_comm, n, addr, room, tag, mh, phandles, &req);
	return req;
}

static void *begin_send(size_t size, int tag, void *phandle)
{
	void *req = NULL;

	while (!req)
		assert_int_equal(net->isend(send_comm, from, size, tag, send_mh,
					    phandle, &req),
				 NCCL_SUCCESS);
	return req;
}

static void move(size_t size)
{
	void *ph = &recv_ph, *rreq = begin_recv(1, &ph);
	void *sreq = begin_send(size, 0, &send_ph);

	finish(rreq);
	finish(sreq);
	assert_memory_equal(from, to, size);
}

#define CASE(name) TEST_OF(name, open_comms, close_comms)

CASE(each_qp_of_a_request_causes_one_event)
{
	seen.taken = true;
	memset(from, 1, MIB);
	move(MIB);
	assert_int_equal(seen.wrong, 0);
	assert_int_equal(seen.of_send, 2);
	assert_true(seen.of_recv >= 2);
	assert_int_equal(seen.bytes, MIB);
	assert_int_equal(seen.stops, seen.starts);
	for (unsigned i = 0; i < seen.starts; i++)
		assert_true(seen.qp[i] > 0);
}

CASE(once_a_profiler_has_answered_every_request_is_reported)
{
	seen.taken = true;
	for (unsigned i = 0; i < 50; i++) {
		memset(from, (int)i, 4096);
		move(4096);
	}
	assert_int_equal(seen.wrong, 0);
	assert_int_equal(seen.of_send, 100);
	assert_int_equal(seen.bytes, 50 * 4096);
	assert_int_equal(seen.stops, seen.starts);
}

/* Poll an incomplete request many times, as NCCL does. */
static void wait_in_vain(unsigned tests)
{
	void *ph = &recv_ph, *rreq = begin_recv(1, &ph), *sreq;
	int done = 0;

	for (unsigned i = 0; i < tests; i++)
		assert_int_equal(net->test(rreq, &done, NULL), NCCL_SUCCESS);
	assert_int_equal(done, 0);
	sreq = begin_send(64, 0, &send_ph);
	finish(rreq);
	finish(sreq);
}

CASE(without_a_profiler_the_plugin_rarely_calls_back)
{
	unsigned asked;

	move(64);
	/* So far, the plugin has called back only once per end: for one rail of
	 * the first request. */
	asked = seen.starts;
	assert_true(asked >= 1 && asked <= 2);
	assert_int_equal(seen.stops, 0);
	wait_in_vain(5000);
	move(64);
	assert_true(seen.starts > asked);
	seen.taken = true;
	wait_in_vain(5000);
	seen.of_recv = 0;
	for (unsigned i = 0; i < 10; i++)
		move(64);
	assert_true(seen.of_recv >= 10);
	assert_int_equal(seen.wrong, 0);
}

/* The proxy's times have a resolution of 64 ns. */
static bool in_order(uint64_t first, uint64_t then)
{
	return first && then && first < then + 64;
}

/* Requests of a connection complete in order. So when the second request is
 * done, the first has completed, too, even if the test has not called the
 * plugin for it yet. */
CASE(event_times_come_from_the_proxy)
{
	const struct mpib_profiled *recv = &seen.last[0];
	const struct mpib_profiled *send = &seen.last[1];
	void *ph = &recv_ph, *rreq[2], *sreq[2];
	uint64_t begun, then;

	seen.taken = true;
	move(64); /* with the first request, the plugin asks for a profiler */
	begun = now_ns();
	for (int i = 0; i < 2; i++) {
		rreq[i] = begin_recv(1, &ph);
		sreq[i] = begin_send(64, 0, &send_ph);
	}
	finish(rreq[1]);
	finish(sreq[1]);
	then = now_ns();
	finish(rreq[0]);
	finish(sreq[0]);
	assert_int_equal(seen.wrong, 0);
	assert_true(in_order(begun, recv->submitted_ns));
	assert_true(in_order(recv->submitted_ns, send->submitted_ns));
	assert_true(in_order(send->submitted_ns, send->posted_ns));
	assert_true(in_order(send->posted_ns, send->done_ns));
	assert_true(in_order(send->done_ns, send->over_ns));
	assert_true(in_order(recv->posted_ns, recv->done_ns));
	assert_true(in_order(send->posted_ns, recv->done_ns));
	assert_true(in_order(recv->done_ns, recv->over_ns));
	/* The plugin learns only after `then` that the first requests have
	 * completed. A profiler that took the times at the callbacks would
	 * record later times. */
	assert_true(in_order(send->over_ns, then));
	assert_true(in_order(recv->over_ns, then));
	assert_true(in_order(then, recv->seen_ns));
	assert_true(in_order(recv->seen_ns, send->seen_ns));
}

static void move_group(int n, void **phs, const size_t *size)
{
	void *rreq, *sreq[8];

	seen.taken = true;
	move(64);
	rreq = begin_recv(n, phs);
	for (int i = 0; i < n; i++)
		sreq[i] = begin_send(size[i], i, &each_send_ph[i % 3]);
	finish(rreq);
	for (int i = 0; i < n; i++)
		finish(sreq[i]);
	assert_int_equal(seen.wrong + seen.undone, 0);
	assert_int_equal(seen.stops, seen.starts);
}

CASE(each_buffer_of_a_group_has_its_events)
{
	void *phs[3] = { &each_ph[0], NULL, &each_ph[2] };
	size_t size[3] = { 64, 100000, MIB };

	move_group(3, phs, size);
	assert_true(seen.of_each[0] && seen.of_each[2] == seen.of_each[0]);
	for (int i = 0; i < 3; i++)
		assert_int_equal(seen.of_each_send[i], size[i]);
}

struct test_group test_group = { setup, teardown };
