/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's profiler callback, played by the test: an event for each QP that a
 * request used, begun and ended once, with the bytes that went there; and
 * silence where no profiler takes them.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nccl_abi.h"
#include "node.h"
#include "test.h"

#define MEM (4u << 20)
#define MIB (1u << 20)

static struct node node;
static const struct nccl_net_v12 *net;
static void *ctx, *listen_comm, *send_comm, *recv_comm, *send_mh, *recv_mh;
static char *from, *to;

/* What the callback saw. */
static struct seen {
	bool taken; /* a profiler is loaded */
	unsigned starts, stops, wrong;
	uint64_t bytes; /* of the events of the phandle asked for */
	unsigned of_send, of_recv, of_each[3];
	int qp[16];
} seen;

static int send_ph, recv_ph, each_ph[3]; /* only their addresses matter */

static enum nccl_result profiler(void **event, int type, void *phandle,
				 int64_t plugin_id, void *data)
{
	const struct nccl_profiler_ib_v1 *d = data;

	seen.wrong += plugin_id != NCCL_PROFILER_IB_V1 ||
		      (phandle != &send_ph && phandle != &recv_ph &&
		       phandle != &each_ph[0] && phandle != &each_ph[2]);
	if (type == 1) {
		seen.stops++;
		seen.wrong += *event != &seen;
		return NCCL_SUCCESS;
	}
	seen.wrong += type != 0 || d->type != NCCL_PROFILE_QP;
	seen.qp[seen.starts++ % 16] = d->qp.qpNum;
	seen.wrong += d->qp.wr_id > 31 || d->qp.device > 1 ||
		      d->qp.opcode != (phandle == &send_ph);
	for (unsigned i = 0; i < 3; i++)
		seen.of_each[i] += phandle == &each_ph[i];
	if (phandle == &send_ph) {
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
	(void)level;
	(void)flags;
	(void)where;
	(void)line;
	(void)fmt;
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

	/* Half of each message on either rail. */
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

static void move(size_t size)
{
	void *sreq = NULL, *rreq = NULL, *addr = to, *ph = &recv_ph;
	size_t room = MEM;
	int tag = 0;

	while (!rreq)
		assert_int_equal(net->irecv(recv_comm, 1, &addr, &room, &tag,
					    &recv_mh, &ph, &rreq),
				 NCCL_SUCCESS);
	while (!sreq)
		assert_int_equal(net->isend(send_comm, from, size, 0, send_mh,
					    &send_ph, &sreq),
				 NCCL_SUCCESS);
	finish(rreq);
	finish(sreq);
	assert_memory_equal(from, to, size);
}

static void each_qp_of_a_request_is_an_event(void **state)
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

static void every_request_is_told_once_a_profiler_is_there(void **state)
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

/* Tests that find nothing, as NCCL makes by the thousand. */
static void wait_in_vain(unsigned tests)
{
	void *rreq = NULL, *sreq = NULL, *addr = to, *ph = &recv_ph;
	size_t room = MEM;
	int tag = 0, done = 0;

	while (!rreq)
		assert_int_equal(net->irecv(recv_comm, 1, &addr, &room, &tag,
					    &recv_mh, &ph, &rreq),
				 NCCL_SUCCESS);
	for (unsigned i = 0; i < tests; i++)
		assert_int_equal(net->test(rreq, &done, NULL), NCCL_SUCCESS);
	assert_int_equal(done, 0);
	while (!sreq)
		assert_int_equal(net->isend(send_comm, from, 64, 0, send_mh,
					    &send_ph, &sreq),
				 NCCL_SUCCESS);
	finish(rreq);
	finish(sreq);
}

static void without_a_profiler_it_is_asked_again_much_later(void **state)
{
	unsigned asked;

	move(64);
	/* One rail of the first request, at either end. */
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

static void requests_without_a_handle_are_not_told(void **state)
{
	void *sreq = NULL, *rreq = NULL, *addr = to;
	size_t room = MEM;
	int tag = 0;

	seen.taken = true;
	while (!rreq)
		assert_int_equal(net->irecv(recv_comm, 1, &addr, &room, &tag,
					    &recv_mh, NULL, &rreq),
				 NCCL_SUCCESS);
	while (!sreq)
		assert_int_equal(net->isend(send_comm, from, 64, 0, send_mh,
					    NULL, &sreq),
				 NCCL_SUCCESS);
	finish(rreq);
	finish(sreq);
	assert_int_equal(seen.starts, 0);
}

static void each_buffer_of_a_receive_has_its_events(void **state)
{
	void *rreq = NULL, *sreq[3] = { NULL };
	void *addr[3] = { to, to + MIB, to + 2 * MIB };
	void *mh[3] = { recv_mh, recv_mh, recv_mh };
	void *ph[3] = { &each_ph[0], NULL, &each_ph[2] };
	size_t room[3] = { MIB, MIB, MIB };
	int tag[3] = { 4, 5, 6 };

	seen.taken = true;
	while (!rreq)
		assert_int_equal(net->irecv(recv_comm, 3, addr, room, tag, mh,
					    ph, &rreq),
				 NCCL_SUCCESS);
	for (int i = 0; i < 3; i++) {
		while (!sreq[i])
			assert_int_equal(net->isend(send_comm, from, MIB,
						    tag[i], send_mh, &send_ph,
						    &sreq[i]),
					 NCCL_SUCCESS);
	}
	finish(rreq);
	for (int i = 0; i < 3; i++)
		finish(sreq[i]);
	assert_int_equal(seen.wrong, 0);
	assert_true(seen.of_each[0] > 0);
	assert_int_equal(seen.of_each[2], seen.of_each[0]);
	assert_int_equal(seen.stops, seen.starts);
}

#define COMM_TEST(f) cmocka_unit_test_setup_teardown(f, open_comms, close_comms)

int main(void)
{
	const struct CMUnitTest tests[] = {
		COMM_TEST(each_qp_of_a_request_is_an_event),
		COMM_TEST(every_request_is_told_once_a_profiler_is_there),
		COMM_TEST(each_buffer_of_a_receive_has_its_events),
		COMM_TEST(without_a_profiler_it_is_asked_again_much_later),
		COMM_TEST(requests_without_a_handle_are_not_told),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
