/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a message in the sending process: one isend, and the test that
 * finds the send complete. bench/hotpath counts the instructions of hot_isend()
 * and hot_test() with callgrind, and the system calls of the loop with strace.
 */
#include <fcntl.h>
#include <limits.h>
#include <mpib/control.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "peers/args.h"
#include "perf/plug.h"

#define MEM 65536
#define SIZE 64
/* With this many at once the shard has no time to fall asleep. */
#define INFLIGHT 16

static struct perf_plug plug;
static void *send_comm, *recv_comm, *send_mh, *recv_mh;
static struct message {
	void *rreq, *sreq;
	char *from, *to;
} message[INFLIGHT];

static void must(enum nccl_result res, const char *call)
{
	if (res == NCCL_SUCCESS)
		return;
	fprintf(stderr, "hotpath: %s: error %d\n", call, (int)res);
	exit(1);
}

/* hot_isend() and hot_test() are not inlined, so that callgrind, which is told
 * these names, can count them alone. */
__attribute__((noinline)) static enum nccl_result
hot_isend(const struct nccl_net_v12 *net, void *data, void **req)
{
	return net->isend(send_comm, data, SIZE, 0, send_mh, NULL, req);
}

__attribute__((noinline)) static enum nccl_result
hot_test(const struct nccl_net_v12 *net, void *req, int *done)
{
	return net->test(req, done, NULL);
}

static void connect_self(void)
{
	char handle[NCCL_NET_HANDLE_MAXSIZE];
	void *lcomm;

	must(perf_plug_listen(&plug, 0, handle, &lcomm), "listen");
	while (!send_comm || !recv_comm) {
		if (!send_comm)
			must(perf_plug_connect(&plug, 0, handle, &send_comm),
			     "connect");
		if (!recv_comm)
			must(perf_plug_accept(&plug, lcomm, &recv_comm),
			     "accept");
	}
	must(perf_plug_close_listen(&plug, lcomm), "closeListen");
}

/* Register a sealed memfd; like GPU memory it is sent without a copy. */
static void *reg(const struct nccl_net_v12 *net, void *comm, void **mh)
{
	int fd = memfd_create("hotpath", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *mem;

	if (fd < 0 || ftruncate(fd, MEM) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) <
		    0) {
		perror("hotpath: memfd");
		exit(1);
	}
	mem = mmap(NULL, MEM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(net->regMrDmaBuf(comm, mem, MEM, NCCL_PTR_CUDA, 0, fd, mh),
	     "regMrDmaBuf");
	close(fd);
	return mem;
}

static void post(const struct nccl_net_v12 *net, int i)
{
	struct message *m = &message[i % INFLIGHT];
	void *to = m->to;
	size_t size = SIZE;
	int tag = 0;

	memset(m->from, i, SIZE);
	m->rreq = m->sreq = NULL;
	while (!m->rreq)
		must(net->irecv(recv_comm, 1, &to, &size, &tag, &recv_mh, NULL,
				&m->rreq),
		     "irecv");
	while (!m->sreq)
		must(hot_isend(net, m->from, &m->sreq), "isend");
}

static void finish(const struct nccl_net_v12 *net, int i, int pause)
{
	const struct message *m = &message[i % INFLIGHT];
	int done = 0;

	while (!done)
		must(net->test(m->rreq, &done, NULL), "test");
	/* The message was received; the proxy only has to report that the send
	 * has completed. Wait for that, so that one hot_test() is enough. */
	if (pause)
		usleep(20000);
	do {
		must(hot_test(net, m->sreq, &done), "test");
	} while (!done);
	if (memcmp(m->from, m->to, SIZE)) {
		fprintf(stderr, "hotpath: message %d is wrong\n", i);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	const struct nccl_net_v12 *net;
	int pause = argc > 3 && !strcmp(argv[3], "pause");
	int inflight = pause ? 1 : INFLIGHT, count;
	char *from, *to;

	peer_args(argc, argv, 2, 3, "PLUGIN MESSAGES [pause]");
	count = (int)peer_size("MESSAGES", argv[2], 1, INT_MAX);
	if (argc > 3 && !pause)
		peer_wrong("%s is not pause", argv[3]);
	if (perf_plug_load(&plug, argv[1], 12) < 0)
		return 1;
	net = plug.table;
	must(perf_plug_init(&plug, perf_plug_warn), "init");
	connect_self();
	from = reg(net, send_comm, &send_mh);
	to = reg(net, recv_comm, &recv_mh);
	/* Tells a reader of stdout that set-up is complete. */
	if (write(STDOUT_FILENO, "steady\n", 7) != 7)
		return 1;
	for (int i = 0; i < INFLIGHT; i++) {
		message[i].from = from + (size_t)i * SIZE;
		message[i].to = to + (size_t)i * SIZE;
	}
	for (int i = 0; i < count || i - count < inflight; i++) {
		if (i >= inflight)
			finish(net, i - inflight, pause);
		if (i < count)
			post(net, i);
	}
	_exit(0); /* do not measure tearing down */
}
