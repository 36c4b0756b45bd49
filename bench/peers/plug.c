/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run both ends of a connection of an ncclNet plugin in one process, for
 * bench/budget. The program makes the turns of both ends. callgrind counts only
 * the instructions of budget_sender() and budget_receiver(), by object file.
 *
 * bench-plug PLUGIN SIZE MESSAGES INFLIGHT [shared [spin]]
 *
 * The program prints how many turns each end made per message. With "shared",
 * the plugin registers the memory by a descriptor, like a GPU's memory. In a
 * turn, like NCCL's proxy thread, the program makes the posts that are due,
 * then tests each request in flight. Between turns the process sleeps, so that
 * each turn finds the data that arrived in between. With "spin" the process
 * does not sleep, so that all system calls are the plugin's.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "peers/peer.h"
#include "perf/plug.h"

#define PAUSE_US 1000
#define INFLIGHT_MAX 32

/* One end's requests of the current batch. */
struct plug_end {
	void *comm, *mr;
	char *mem;
	unsigned posted, done, turns;
	void *req[INFLIGHT_MAX];
};

static struct perf_plug plug;
static struct plug_end tx, rx;
static uint32_t size;
static unsigned inflight, pause_us = PAUSE_US;

static void must(enum nccl_result res, const char *call)
{
	if (res != NCCL_SUCCESS)
		peer_die("%s: error %d", call, (int)res);
}

/* Test all requests. The requests may end in any order; the entry of an ended
 * request becomes NULL. */
static void test_all(struct plug_end *e)
{
	for (unsigned i = 0; i < e->posted; i++) {
		int done = 0;

		if (!e->req[i])
			continue;
		must(perf_plug_test(&plug, e->req[i], &done, NULL), "test");
		if (!done)
			continue;
		e->req[i] = NULL;
		e->done++;
	}
}

/* budget_sender() and budget_receiver() must not be inlined, so that callgrind
 * can count only these functions, by their names. */
__attribute__((noinline)) static void budget_sender(void)
{
	while (tx.posted < inflight) {
		void *req = NULL;

		must(perf_plug_isend(&plug, tx.comm,
				     tx.mem + (size_t)tx.posted * size, size, 0,
				     tx.mr, &req),
		     "isend");
		if (!req)
			break; /* the sender does not know the receive yet */
		tx.req[tx.posted++] = req;
	}
	test_all(&tx);
	/* Count after the call. Otherwise the call would be a tail call, and
	 * callgrind would not see this function's name. */
	tx.turns++;
}

__attribute__((noinline)) static void budget_receiver(void)
{
	while (rx.posted < inflight) {
		void *data = rx.mem + (size_t)rx.posted * size, *req = NULL;
		size_t most = size;
		int tag = 0;

		must(perf_plug_irecv(&plug, rx.comm, 1, &data, &most, &tag,
				     &rx.mr, &req),
		     "irecv");
		if (!req)
			break;
		rx.req[rx.posted++] = req;
	}
	test_all(&rx);
	/* Count after the call. Otherwise the call would be a tail call, and
	 * callgrind would not see this function's name. */
	rx.turns++;
}

static void pause_turn(void)
{
	if (pause_us)
		usleep(pause_us);
}

static void batch(void)
{
	tx.posted = tx.done = rx.posted = rx.done = 0;
	while (tx.done < inflight || rx.done < inflight) {
		budget_receiver();
		pause_turn();
		budget_sender();
		pause_turn();
	}
}

static void connect_self(void)
{
	char handle[NCCL_NET_HANDLE_MAXSIZE] = { 0 };
	void *listening;

	must(perf_plug_listen(&plug, 0, handle, &listening), "listen");
	while (!tx.comm || !rx.comm) {
		if (!tx.comm)
			must(perf_plug_connect(&plug, 0, handle, &tx.comm),
			     "connect");
		if (!rx.comm)
			must(perf_plug_accept(&plug, listening, &rx.comm),
			     "accept");
	}
	must(perf_plug_close_listen(&plug, listening), "closeListen");
}

/* Make a sealed memfd. */
static int memory_fd(size_t bytes)
{
	int fd = memfd_create("bench-plug", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) <
		    0)
		peer_die("memfd: %s", strerror(errno));
	return fd;
}

static void give_memory(struct plug_end *e, bool shared, int fill)
{
	size_t bytes = (size_t)size * inflight + 4096;
	int fd = memory_fd(bytes);

	e->mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (e->mem == MAP_FAILED)
		peer_die("no memory for %zu bytes: %s", bytes, strerror(errno));
	memset(e->mem, fill, bytes);
	if (shared)
		must(perf_plug_reg_fd(&plug, e->comm, e->mem, bytes, fd,
				      &e->mr),
		     "regMrDmaBuf");
	else
		must(perf_plug_reg(&plug, e->comm, e->mem, bytes, &e->mr),
		     "regMr");
	close(fd);
}

int main(int argc, char **argv)
{
	bool shared = argc > 5 && !strcmp(argv[5], "shared");
	unsigned messages;

	peer_args(argc, argv, 4, 6,
		  "PLUGIN SIZE MESSAGES INFLIGHT [shared [spin]]");
	if (argc > 5 && !shared)
		peer_wrong("%s is not shared", argv[5]);
	if (argc > 6 && strcmp(argv[6], "spin"))
		peer_wrong("%s is not spin", argv[6]);
	if (argc > 6)
		pause_us = 0;
	size = (uint32_t)peer_size("SIZE", argv[2], 1, 1 << 24);
	messages = (unsigned)peer_size("MESSAGES", argv[3], 1, INT_MAX);
	inflight = (unsigned)peer_size("INFLIGHT", argv[4], 1, INFLIGHT_MAX);
	if (perf_plug_load(&plug, argv[1], 0) < 0)
		return 1;
	must(perf_plug_init(&plug, perf_plug_warn), "init");
	if (plug.devices < 1)
		peer_die("%s has no device", argv[1]);
	connect_self();
	give_memory(&tx, shared, 1);
	give_memory(&rx, shared, 2);
	for (unsigned i = 0; i < messages; i += inflight)
		batch();
	if (memcmp(tx.mem, rx.mem, (size_t)size * inflight))
		peer_die("received data differs from sent data");
	peer_say("turns_sender", (double)tx.turns / messages);
	peer_say("turns_receiver", (double)rx.turns / messages);
	_exit(0); /* do not measure the clean-up */
}
