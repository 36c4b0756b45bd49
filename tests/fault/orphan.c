/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orphan [N]: clients are killed while their peer is stopped. The clients have
 * device memory, which the peer reads and writes. The test uses sealed memfds
 * as device memory. The proxy must release the memory long before it removes
 * the dead client. Other clients must not be affected.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "buffer.h"
#include "moving.h"
#include "test.h"

#define ROOM 300000

static unsigned kills = 4;
static struct node node[2];

/* Send and receive messages. After each message, write a byte to the descriptor
 * `tell`. */
static void rank_run(int tell)
{
	struct mover m[2];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned i = 0; i < 2; i++) {
		if (mover_begin(&m[i], node[i].dir, node[!i].dir, ROOM, true,
				90 + i) < 0)
			_exit(1);
	}
	for (uint64_t n = 0;; n = m[0].messages) {
		if (mover_step(&m[0]) < 0 || mover_step(&m[1]) < 0)
			_exit(2);
		if (m[0].messages > n && write(tell, "", 1) != 1)
			_exit(3);
	}
}

static void until_let_go(void)
{
	unsigned long long since = node_ms();

	while (buffer_held(&node[0], "mover") > 0 ||
	       buffer_mapped(&node[0], "mover")) {
		if (node_ms() - since > MOVING_HANG_MS)
			fail_msg("the memory is never released");
		usleep(1000);
	}
}

TEST(a_dead_ranks_memory_is_released_without_waiting_for_its_peer)
{
	struct mover other;

	for (unsigned i = 0; i < 2; i++)
		node_start(&node[i], 7 + i, "--log-level", "error", "--dmabuf",
			   "yes", "--peer-silence", "600", "--failover-grace",
			   MOVING_GRACE_MS, NULL);
	mover_must(
		mover_begin(&other, node[0].dir, node[1].dir, ROOM, false, 5));
	mover_must(mover_move(&other, 20));
	for (unsigned i = 0; i < kills; i++) {
		unsigned long long since;
		char byte;
		int told[2];
		pid_t pid;

		assert_int_equal(pipe2(told, O_CLOEXEC), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			rank_run(told[1]);
		close(told[1]);
		for (unsigned n = 0; n < 3; n++)
			assert_int_equal(read(told[0], &byte, 1), 1);
		assert_int_equal(buffer_held(&node[0], "mover"), 2);
		child_freeze(node[1].pid);
		child_kill(pid);
		since = node_ms();
		until_let_go();
		printf("memory released %llu ms after the client was killed\n",
		       node_ms() - since);
		/* The dead client's connections still wait for the peer. */
		assert_int_equal(node_usage(&node[0], "leaving"), 2);
		kill(node[1].pid, SIGCONT);
		close(told[0]);
		mover_must(mover_move(&other, 20));
		node_until_usage(&node[0], "attached", 1);
		node_until_usage(&node[1], "attached", 1);
	}
	mover_close(&other);
	for (unsigned i = 0; i < 2; i++)
		node_stop(&node[i]);
}

unsigned *test_times = &kills;
