/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test that a peer cannot access a connection of another peer by using its own
 * rkeys with wrong addresses. In this test, all lanes belong to one tenant, and
 * each lane stands for a peer. One lane is honest: its connections move
 * messages from node 0 to node 1, and the test checks the data. On each of the
 * other lanes, one node is hostile. A hostile receiver on node 1 writes CTS to
 * addresses before and after its own table. A hostile sender on node 0 writes
 * payload to such addresses. The engine does not use the cluster's key
 * (peer.key_file), so the result does not depend on it.
 */
#include <errno.h>
#include <sys/mman.h>

#include "engine/conn/conn.h"
#include "engine_pair.h"
#include "test.h"

#define HONEST 8u /* number of honest connections */
#define HOSTILE 100u /* index of the first hostile connection */
/* bytes before and after the tables that the attacks try to write */
#define FAR (64 << 10)
#define LEN 3000u

#define TABLES 16384 /* maximum bytes of a connection's tables */
/* bytes per write */
#define STEP (MPIB_REQUESTS * (int)sizeof(struct mpib_cts))

static struct pair honest;
static struct pair_end tx[HONEST], rx[HONEST];
static uint32_t hostiles;
static char before[2 * HONEST][TABLES], after[2 * HONEST][TABLES];

/* Act as a hostile receiver: write CTS to the address of the sender's table
 * plus `off`. */
static void write_cts_at(struct pair *peer, uint32_t index, int off)
{
	struct pair_node *n = &peer->node[1];
	struct engine_conn_info told, own;
	struct pair_end to, from;

	pair_make_end(peer, 0, index, true, &to);
	pair_make_end(peer, 1, index, false, &from);
	engine_conn_local(to.conn, &told);
	engine_conn_local(from.conn, &own);
	told.addr += (uint64_t)(int64_t)off;
	engine_conn_start(to.conn, &own);
	engine_conn_start(from.conn, &told);
	for (uint8_t req = 0; req < MPIB_REQUESTS; req++)
		pair_post(&from, MPIB_OP_RECV, req, n->mr, 0, 64, 7);
	pair_turns(peer, 100);
}

struct key {
	uint64_t addr; /* address that was announced */
	uint32_t rkey[MPIB_RAILS];
};

/* Act as a hostile sender: write STEP bytes to the address of key[`at`] plus
 * `off`, with the rkeys of key[`by`]. key[0] belongs to the receiver's tables,
 * and key[1] to the region of the posted receive. */
static void write_at(struct pair *peer, uint32_t index, uint32_t region,
		     unsigned at, unsigned by, int off)
{
	struct engine_conn_info told;
	struct pair_end to, from;
	struct mpib_cts *entry, cts;
	struct key key[2];
	uint64_t slot;

	pair_connect(peer, index, 0, &from, &to);
	slot = from.conn->tx.cts_next;
	pair_post(&to, MPIB_OP_RECV, 0, region, 0, STEP, 7);
	while (!mpib_cts_copy(from.conn, slot, &cts))
		pair_turn(peer);
	engine_conn_local(to.conn, &told);
	key[0].addr = told.addr;
	key[1].addr = cts.addr;
	memcpy(key[0].rkey, told.rkey, sizeof(told.rkey));
	memcpy(key[1].rkey, cts.rkey, sizeof(cts.rkey));
	entry = from.conn->tables.in;
	entry += slot % MPIB_TABLE_SLOTS;
	entry->addr = key[at].addr + (uint64_t)(int64_t)off;
	memcpy(entry->rkey, key[by].rkey, sizeof(entry->rkey));
	pair_post(&from, MPIB_OP_SEND, 0, peer->node[0].mr, 0, STEP, 7);
	pair_turns(peer, 100);
}

static void open_honest(void)
{
	struct mpib_engine_config cfg;

	hostiles = 0;
	mpib_engine_config_init(&cfg);
	cfg.completion = MPIB_COMPLETION_DELIVERED;
	pair_open(&honest, &cfg, MPIB_IMM_V2);
	for (unsigned i = 0; i < HONEST; i++)
		pair_connect(&honest, i, 0, &tx[i], &rx[i]);
}

static void copy_tables(char (*copy)[TABLES], const struct pair_end *end)
{
	for (unsigned i = 0; i < HONEST; i++) {
		const struct mpib_tables *tables = &end[i].conn->tables;
		uint32_t bytes = tables->in_bytes + tables->out_bytes;

		assert_in_range(bytes, 1, TABLES);
		memcpy(copy[i], tables->in, bytes);
	}
}

/* Make a lane for the next hostile connection, and return the connection's
 * index. Each connection has its own lane, since an access that the rkey does
 * not allow ends the lane. */
static uint32_t hostile_lane(struct pair *peer)
{
	pair_more_lane(&honest, peer);
	copy_tables(before, tx);
	copy_tables(before + HONEST, rx);
	return HOSTILE + hostiles++;
}

static void assert_honest_go_on(void)
{
	copy_tables(after, tx);
	copy_tables(after + HONEST, rx);
	assert_memory_equal(before, after, sizeof(before));
	for (unsigned i = 0; i < HONEST; i++)
		pair_transfer(&honest, &tx[i], &rx[i], 0, LEN, LEN,
			      hostiles + i);
}

pair_test(a_receiver_cannot_write_to_another_peers_connection)
{
	struct pair peer;

	open_honest();
	for (int off = -FAR; off <= FAR; off += STEP) {
		write_cts_at(&peer, hostile_lane(&peer), off);
		assert_honest_go_on();
	}
	assert_true(honest.node[1].lanes_broken > 0);
}

pair_test(a_sender_cannot_write_to_another_peers_connection)
{
	char *mem = mmap(NULL, 3 * FAR, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	static const char untouched[FAR];
	struct pair peer;
	uint32_t region;

	open_honest();
	region = pair_add_memory(&honest, 1, mem + FAR, FAR);
	pair_fill(honest.node[0].mem, STEP, 1);
	for (unsigned i = 0; i < 4; i++) {
		for (int off = -FAR; off <= FAR; off += STEP) {
			write_at(&peer, hostile_lane(&peer), region, i / 2,
				 i % 2, off);
			assert_honest_go_on();
		}
	}
	assert_true(honest.node[1].lanes_broken > 0);
	assert_memory_equal(mem, untouched, FAR);
	assert_memory_equal(mem + 2 * FAR, untouched, FAR);
	pair_close(&honest);
	munmap(mem, 3 * FAR);
}

/* The receiver writes an ack for slots that it has not announced. */
pair_test(an_ack_of_unsent_slots_breaks_the_connection)
{
	struct mpib_cts *entry, cts;
	struct pair_end from, to;
	uint64_t slot;

	open_honest();
	pair_connect(&honest, HOSTILE, 0, &from, &to);
	slot = from.conn->tx.cts_next;
	pair_post(&to, MPIB_OP_RECV, 0, honest.node[1].mr, 0, LEN, 7);
	while (!mpib_cts_copy(from.conn, slot, &cts))
		pair_turn(&honest);
	entry = from.conn->tables.in;
	entry[slot % MPIB_TABLE_SLOTS].ended = UINT64_MAX;
	pair_post(&from, MPIB_OP_SEND, 0, honest.node[0].mr, 0, LEN, 7);
	pair_turns(&honest, 100);
	assert_int_equal(from.conn->error, -EPROTO);
	assert_int_equal(honest.node[0].broken, 1);
	pair_close(&honest);
}

static void keys_differ(const struct engine_conn *one,
			const struct engine_conn *other)
{
	struct engine_conn_info first, second;

	engine_conn_local(one, &first);
	engine_conn_local(other, &second);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		assert_int_not_equal(first.rkey[r], second.rkey[r]);
}

/* The tables of different lanes must have different rkeys, at both ends. */
pair_test(a_key_gives_access_to_the_tables_of_one_lane)
{
	struct pair peer, user;

	pair_open_at(&honest, 512, MPIB_IMM_V2, &tx[0], &rx[0]);
	pair_more_lane(&honest, &peer);
	pair_connect(&peer, HOSTILE, 0, &tx[1], &rx[1]);
	pair_join(&honest, &user, 1000);
	pair_connect(&user, 0, 0, &tx[2], &rx[2]);
	for (unsigned i = 1; i <= 2; i++) {
		keys_differ(tx[0].conn, tx[i].conn);
		keys_differ(rx[0].conn, rx[i].conn);
	}
	pair_close(&honest);
	pair_leave(&user);
}
