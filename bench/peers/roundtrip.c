/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The round trip from a client to its proxy's shard: push a no-op into the
 * connection's ring and wait for its completion word.
 *
 *   bench-roundtrip RUNDIR [ROUNDS]    rtt: us, mean; lat_p50...: us
 *
 * Compare with seq_rtt of bench-rings: the same ring between two plain
 * processes.
 */
#include <mpib/control.h>
#include <sched.h>
#include <string.h>

#include "ipc/client.h"
#include "peers/args.h"
#include "peers/peer.h"

#define YIELD_EVERY 4096 /* polls in vain, then yield the core */

static struct mpib_conn *tx, *rx;

static void must(int rc, const char *call)
{
	if (rc < 0)
		peer_die("%s: %s", call, mpib_strerror());
}

/* Connect this client to itself: a no-op does not leave the shard, so the other
 * end does not matter. */
static void connect_self(struct mpib_client *c)
{
	struct mpib_handle handle;
	struct mpib_listener *l;
	int a = 0, b = 0;

	must(mpib_listen(c, &handle, &l), "mpib_listen");
	must(mpib_accept(l, &rx), "mpib_accept");
	must(mpib_connect(c, &handle, -1, &tx), "mpib_connect");
	while (!a || !b) {
		must(a = mpib_ready(tx), "mpib_ready");
		must(b = mpib_ready(rx), "mpib_ready");
		sched_yield();
	}
	mpib_close_listen(l);
}

static void push(uint32_t gen)
{
	struct mpib_desc d = { .op = MPIB_OP_NOP, .n = 1, .gen = gen };

	while (mpib_ring_room(&tx->ring, 1) == 0)
		;
	mpib_ring_push(&tx->ring, &d);
	must(mpib_ring_bell(tx), "doorbell");
}

static void await(uint32_t gen)
{
	unsigned looks = 0;
	int32_t res;

	while (!mpib_completion_poll(tx->completion, gen, &res)) {
		if (++looks % YIELD_EVERY == 0) {
			sched_yield();
			must(-!mpib_client_ok(tx->client), "proxy");
		}
	}
	if (res)
		peer_die("no-op: %d", res);
}

int main(int argc, char **argv)
{
	struct mpib_attach_opts opts = { .name = "bench-roundtrip" };
	static struct perf_hist hist;
	struct mpib_client *c;
	uint64_t rounds, begun;
	uint32_t gen;

	peer_args(argc, argv, 1, 2, "RUNDIR [ROUNDS]");
	rounds = argc > 2 ? peer_size("ROUNDS", argv[2], 10, UINT32_MAX)
			  : 100000;
	opts.run_dir = argv[1];
	must(mpib_attach(&opts, &c), "mpib_attach");
	connect_self(c);
	gen = tx->first_gen;
	for (uint64_t i = 0; i < rounds / 10; i++, gen += 2) {
		push(gen);
		await(gen);
	}
	begun = peer_ns();
	for (uint64_t i = 0; i < rounds; i++, gen += 2) {
		push(gen);
		await(gen);
	}
	peer_say("rtt", (double)(peer_ns() - begun) / (double)rounds / 1e3);
	for (uint64_t i = 0; i < rounds; i++, gen += 2) {
		begun = peer_ns();
		push(gen);
		await(gen);
		perf_hist_add(&hist, peer_ns() - begun);
	}
	peer_say_latency(&hist);
	mpib_detach(c);
	return 0;
}
