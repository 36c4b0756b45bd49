/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ghosts: what an older epoch of a rail left behind turns up under traffic.
 * Each round a QP is killed, so that the rail comes back under a new epoch.
 * Then the sending shard posts, on the rail's QPs of now, IMMs of each of the
 * three other epochs that two bits can tell, for slots that are being filled
 * right then; and the receiving shard posts again every CTS it has out. Each
 * IMM must be dropped and counted, and no message may notice. Enough rounds
 * that the two bits wrap.
 *
 *   ghosts [-n rounds]
 */
#include <endian.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "arg.h"
#include "engine/conn/conn.h"
#include "traffic.h"

#define PER_FLOW 4 /* of each old epoch */

static struct nodes nodes;
static struct traffic traffic;
static uint64_t cts_again;

/* What a shard is asked to do, and says. */
struct haunt {
	unsigned rail, seed;
	unsigned posted;
	uint32_t epoch;
	uint64_t cts;
};

static void post_ghost(struct engine_conn *f, unsigned rail, uint32_t epoch,
		       unsigned chance, struct haunt *h)
{
	/* From a slot that ended to one that has no CTS yet. */
	uint32_t slot = (uint32_t)(f->tx.cts_next - 4 + chance % 16);
	struct mpib_lane_qp *q = engine_conn_qp(f, rail, slot % MPIB_SLOTS);
	struct mpib_wr *w;

	if (mpib_qp_room(q) == 0)
		return;
	w = mpib_qp_write(q, mpib_wr_tag(MPIB_WR_PROBE, f->id, 0));
	w->wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	w->wr.send_flags = IBV_SEND_SIGNALED;
	w->wr.imm_data = htobe32(mpib_imm_v2(slot % MPIB_SLOTS, chance / 16 % 4,
					     epoch, f->remote.id));
	w->wr.wr.rdma.remote_addr = f->remote.addr;
	w->wr.wr.rdma.rkey = f->remote.rkey[rail];
	mpib_qp_add(q, w);
	h->posted++;
}

static void haunt_lane(struct mpib_lane *lane, struct haunt *h)
{
	struct engine_conn *f;

	if (!(lane->open & 1u << h->rail))
		return;
	h->epoch = lane->epoch[h->rail];
	TAILQ_FOREACH(f, &lane->conns, lane_link)
	{
		for (unsigned i = 0; f->is_sender && i < 3 * PER_FLOW; i++)
			post_ghost(f, h->rail, h->epoch + 1 + i % 3,
				   h->seed * 31 + f->id * 7 + i * 13, h);
		if (f->is_sender || f->rx.tail == f->rx.cts_posted)
			continue;
		h->cts += f->rx.cts_posted - f->rx.tail;
		f->rx.cts_again = f->rx.tail;
		if (!f->on_cts) {
			f->on_cts = true;
			TAILQ_INSERT_TAIL(&f->shard->cts, f, cts_link);
		}
	}
}

static void haunt(struct mpib_shard *s, void *arg)
{
	struct mpib_lane *lane;

	TAILQ_FOREACH(lane, &s->lanes, link)
	haunt_lane(lane, arg);
}

static uint64_t stale(unsigned end, unsigned rail)
{
	struct mpib_snapshot *s = node_snapshot(&nodes.node[end]);
	uint64_t n = s->rail[rail].stale_imms;

	mpib_snapshot_free(s);
	return n;
}

static void new_epoch(unsigned end, unsigned rail)
{
	unsigned before = nodes_fences(&nodes);
	uint64_t limit = now_ns() + HANG_MS * MS;

	traffic_until_live(&traffic, &nodes);
	while (!node_kill_qp(&nodes.node[end], rail, 0))
		traffic_until_live(&traffic, &nodes);
	while (nodes_fences(&nodes) == before) {
		traffic_run_for(&traffic, MS);
		if (now_ns() > limit)
			die("a killed QP is not found");
	}
	traffic_until_live(&traffic, &nodes);
}

/* IMMs from one end over a rail; how many, all of them counted. 0: the rail
 * failed by itself meanwhile, and some went with it. */
static unsigned ghosts_from(unsigned end, unsigned rail, unsigned seed,
			    uint32_t *epoch)
{
	struct haunt h = { .rail = rail, .seed = seed };
	uint64_t before = stale(!end, rail), limit = now_ns() + HANG_MS * MS;
	unsigned fenced = nodes_fences(&nodes);

	node_shard_call(&nodes.node[end], haunt, &h);
	cts_again += h.cts;
	*epoch = h.epoch;
	while (stale(!end, rail) - before < h.posted) {
		traffic_run_for(&traffic, MS);
		if (nodes_fences(&nodes) != fenced)
			return 0;
		if (now_ns() > limit)
			die("%llu of %u old IMMs were counted",
			    (unsigned long long)(stale(!end, rail) - before),
			    h.posted);
	}
	if (stale(!end, rail) - before != h.posted)
		die("more old IMMs counted than there were");
	return h.posted;
}

int main(int argc, char **argv)
{
	unsigned rounds = 10;
	uint32_t epoch[2] = { 0 };
	struct mpib_engine_config cfg;
	uint64_t all = 0;
	int opt;

	while ((opt = getopt(argc, argv, "n:")) != -1) {
		if (opt == 'n')
			rounds = arg_count(optarg);
		else
			return 2;
	}
	mpib_engine_config_init(&cfg);
	cfg.hold_ms = 1;
	nodes_open(&nodes, &cfg, TRAFFIC_MEM, false);
	traffic_open(&traffic, &nodes, TRAFFIC_CONNS);
	nodes_start(&nodes);
	for (unsigned i = 0; i < rounds || epoch[0] < 5 || epoch[1] < 5; i++) {
		if (i == 100 + 10 * rounds)
			die("the rails fail by themselves all the time");
		new_epoch(i & 1, i / 2 & 1);
		for (unsigned k = 0; k < 4; k++)
			all += ghosts_from(k & 1, k >> 1, i, &epoch[k >> 1]);
	}
	traffic_until_live(&traffic, &nodes);
	traffic_run_dry(&traffic, NULL);
	if (all == 0)
		die("no ghost was seen");
	printf("%llu IMMs of old epochs, up to epochs %u and %u (2 bits tell): "
	       "all dropped and counted; %llu CTS posted again; %llu messages, "
	       "0 lost, doubled or changed\n",
	       (unsigned long long)all, epoch[0], epoch[1],
	       (unsigned long long)cts_again,
	       (unsigned long long)traffic.messages);
	nodes_close(&nodes);
	return 0;
}
