/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile [N]: one client breaks every rule, and another client of the same
 * proxy keeps all rules. First the hostile client sends N bad descriptors and
 * index jumps. Each bad descriptor or jump ends its connection with one error
 * and has no other effect. Then the hostile client sends 50 * N descriptors.
 * While the proxy reads these descriptors, two threads overwrite descriptors,
 * sequence words and the summary. A descriptor that the proxy accepts was valid
 * when the proxy copied it. Any other descriptor ends its connection. The
 * neighbour's bytes are correct, and memory that no descriptor names does not
 * change. Under AddressSanitizer (preset asan) no access is out of bounds.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>

#include "draw.h"
#include "mover.h"
#include "node.h"
#include "raw_client.h"
#include "spoil.h"
#include "test.h"

/* number of pairs of connection ends; end 2 * i receives from end 2 * i + 1 */
#define PAIRS 32u
#define GOOD PAIRS /* index of one more pair, which gets no bad descriptors */
#define WRITERS 2u
#define RACED 4u /* number of pairs whose rings the threads change */
#define CANARY 0xc7
#define HANG_MS 60000

static unsigned bad = 400;
static struct node node;
static struct mover neighbour;
static struct raw_client client;
static uint32_t mr;
static uint8_t *mem, *canary;

static void must(bool ok, const char *what)
{
	if (!ok)
		fail_msg("%s", what);
}

static void step_neighbour(void)
{
	if (mover_step(&neighbour) < 0)
		fail_msg("the neighbour: %s", mpib_strerror());
}

static struct mpib_desc valid(uint32_t index)
{
	return (struct mpib_desc){
		.op = index % 2 ? MPIB_OP_SEND : MPIB_OP_RECV,
		.n = 1,
		.gen = (uint32_t)client.tail[index] + 1,
		.mr = mr,
		.off = index * 256,
		.len = SPOIL_LEN,
		.total = SPOIL_LEN,
	};
}

static void jump(uint32_t index, uint64_t *rng)
{
	static const int64_t by[] = { 1,   63,	      64,	 65,
				      -1,  1LL << 31, 1LL << 62, -(1LL << 31),
				      -65, -63,	      1000003,	 1LL << 32 };
	uint64_t next = client.tail[index];
	uint64_t seq =
		next + 1 + (uint64_t)by[draw(rng, sizeof(by) / sizeof(*by))];

	atomic_store(&client.submit->ring[index][next % MPIB_RING_SLOTS].seq,
		     seq ? seq : next + 2);
	raw_ring(&client, index / 64, 1ULL << index % 64);
}

static void do_bad(uint32_t index, unsigned how, uint64_t *rng)
{
	struct mpib_desc d = valid(index);

	if (how == BAD_JUMP) {
		jump(index, rng);
		return;
	}
	if (how == BAD_TWICE)
		raw_push(&client, index, &d);
	else if (how == BAD_WAY)
		d.op = valid(index ^ 1).op;
	else
		spoil(&d, (enum spoil)how, (uint32_t)draw(rng, 1u << 30));
	raw_push(&client, index, &d);
}

/* Move a message over the pair GOOD, which gets no bad descriptors. */
static void move_good(void)
{
	struct mpib_desc r = valid(2 * GOOD), s = valid(2 * GOOD + 1);
	const struct mpib_completion *c =
		&client.reply->completion[2 * GOOD][0];
	unsigned long long since = node_ms();
	int32_t result;

	memset(mem + s.off, (int)s.gen, s.len);
	raw_push(&client, 2 * GOOD, &r);
	raw_push(&client, 2 * GOOD + 1, &s);
	while (!mpib_completion_poll(c, r.gen, &result) ||
	       !mpib_completion_poll(&client.reply->completion[2 * GOOD + 1][0],
				     s.gen, &result)) {
		if (node_ms() - since > HANG_MS)
			fail_msg("a good message does not arrive");
		step_neighbour();
	}
	assert_int_equal(result, SPOIL_LEN);
	assert_memory_equal(mem + r.off, mem + s.off, SPOIL_LEN);
}

static void until_failed(uint32_t index, unsigned how)
{
	unsigned long long since = node_ms();

	/* The control thread may report the end before the shard does. */
	while (raw_state(&client, index) == MPIB_CONN_READY ||
	       !atomic_load(&client.reply->conn[index].broken)) {
		if (node_ms() - since > HANG_MS)
			fail_msg(
				"bad descriptor of kind %u on connection %u is not reported",
				how, index);
		step_neighbour();
	}
	assert_int_equal(raw_state(&client, index), MPIB_CONN_FAILED);
}

static void open_pair(unsigned pair)
{
	must(raw_pair(&client, 2 * pair, 2 * pair + 1), "no pair");
}

static void close_pair(unsigned pair)
{
	must(raw_close(&client, 2 * pair) && raw_close(&client, 2 * pair + 1),
	     "a pair does not close");
}

TEST(each_bad_descriptor_ends_its_connection)
{
	unsigned how[PAIRS], kinds[BADS] = { 0 }, done = 0;
	uint32_t index[PAIRS];
	uint64_t rng = 6;

	open_pair(GOOD);
	while (done < bad) {
		for (unsigned i = 0; i < PAIRS; i++, done++) {
			how[i] =
				done < BADS ? done : (unsigned)draw(&rng, BADS);
			index[i] = 2 * i + (unsigned)draw(&rng, 2);
			kinds[how[i]]++;
			open_pair(i);
			assert_int_equal(raw_state(&client, index[i]),
					 MPIB_CONN_READY);
		}
		for (unsigned i = 0; i < PAIRS; i++)
			do_bad(index[i], how[i], &rng);
		for (unsigned i = 0; i < PAIRS; i++) {
			until_failed(index[i], how[i]);
			close_pair(i);
		}
		move_good();
	}
	close_pair(GOOD);
	for (unsigned i = 0; i < BADS; i++)
		assert_true(kinds[i] > 0);
	printf("%u bad descriptors and index jumps (%u of them jumps): each "
	       "ended its connection, 0 other connections ended\n",
	       done, kinds[BAD_JUMP]);
}

/* Change one field of the descriptor in `s` for a moment, then restore it. The
 * client's regions are `mr` and `mr` + 1. */
static void rewrite_slot(struct mpib_ring_slot *s, uint64_t *rng)
{
	struct {
		void *at;
		unsigned bytes;
		uint64_t value;
	} field[] = {
		{ &s->desc.op, 1, draw(rng, 6) },
		{ &s->desc.op, 1, MPIB_OP_REPORT + draw(rng, 6) },
		{ &s->desc.req, 1, draw(rng, 40) },
		{ &s->desc.n, 1, draw(rng, 10) },
		{ &s->desc.idx, 1, draw(rng, 3) },
		{ &s->desc.gen, 4, draw(rng, 3) },
		{ &s->desc.mr, 4, mr + 2 + draw(rng, 1u << 30) },
		{ &s->desc.off, 8, SPOIL_MEM - SPOIL_LEN + draw(rng, 256) },
		{ &s->desc.off, 8, UINT64_MAX - draw(rng, 256) },
		{ &s->desc.len, 4, draw(rng, 1ULL << 32) },
		{ &s->desc.pos, 4, draw(rng, 1ULL << 32) },
		{ &s->desc.total, 4, draw(rng, 1ULL << 32) },
	};
	unsigned i = (unsigned)draw(rng, sizeof(field) / sizeof(*field));
	volatile uint8_t *p = field[i].at;
	uint8_t before[8];

	for (unsigned k = 0; k < field[i].bytes; k++) {
		before[k] = p[k];
		p[k] = (uint8_t)(field[i].value >> 8 * k);
	}
	for (unsigned k = 0; k < field[i].bytes; k++)
		p[k] = before[k];
}

static _Atomic bool stop;
static _Atomic uint64_t changes;

static void *write_wildly(void *arg)
{
	uint64_t rng = 1000 + (uint64_t)(uintptr_t)arg;

	while (!atomic_load(&stop)) {
		unsigned i = (unsigned)draw(&rng, 2 * RACED);
		struct mpib_ring_slot *s =
			&client.submit->ring[i][draw(&rng, MPIB_RING_SLOTS)];

		if (draw(&rng, 50000) == 0)
			atomic_store(&s->seq, draw(&rng, 200));
		else if (draw(&rng, 1000) == 0)
			raw_ring(&client, (unsigned)draw(&rng, 16),
				 draw(&rng, UINT64_MAX));
		else
			rewrite_slot(s, &rng);
		atomic_fetch_add_explicit(&changes, 1, memory_order_relaxed);
	}
	return NULL;
}

/* Push plausible descriptors into every ring with room. Return the number of
 * pushed descriptors. */
static unsigned push_all(void)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < 2 * RACED; i++) {
		uint64_t head = atomic_load(&client.reply->conn[i].head);

		for (; client.tail[i] - head < MPIB_RING_SLOTS &&
		       raw_state(&client, i) == MPIB_CONN_READY;
		     n++) {
			struct mpib_desc d = valid(i);

			d.req = (uint8_t)(client.tail[i] % MPIB_REQUESTS);
			raw_push(&client, i, &d);
		}
	}
	return n;
}

static unsigned reopen(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < RACED; i++) {
		if (raw_state(&client, 2 * i) == MPIB_CONN_READY &&
		    raw_state(&client, 2 * i + 1) == MPIB_CONN_READY)
			continue;
		close_pair(i);
		open_pair(i);
		n++;
	}
	return n;
}

TEST(changes_while_the_proxy_reads_descriptors_do_no_harm)
{
	pthread_t writer[WRITERS];
	uint64_t pushed = 0;
	unsigned broken = 0;

#ifdef __SANITIZE_THREAD__
	skip_as("the test has a race in its own memory");
#endif
	for (unsigned i = 0; i < RACED; i++)
		open_pair(i);
	for (uintptr_t i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&writer[i], NULL, write_wildly,
						(void *)i),
				 0);
	while (pushed < 50ull * bad) {
		pushed += push_all();
		broken += reopen();
		step_neighbour();
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(writer[i], NULL);
	for (unsigned i = 0; i < SPOIL_MEM; i++)
		assert_int_equal(canary[i], CANARY);
	printf("%llu descriptors under %llu changes by %u threads: %u "
	       "connections ended, 0 bytes written outside the named memory\n",
	       (unsigned long long)pushed, (unsigned long long)changes, WRITERS,
	       broken);
}

static int setup(void **state)
{
	uint32_t unnamed;
	void *p[2];

	node_start(&node, 8, "--log-level", "error", NULL);
	mover_must(mover_begin(&neighbour, node.dir, node.dir, 50000, true, 8));
	if (!raw_attach(&client,
			node_dial(&node, MPIB_CONTROL_SOCK, SOCK_SEQPACKET)) ||
	    !raw_pool(&client, SPOIL_MEM, &mr, &p[0]) ||
	    !raw_pool(&client, SPOIL_MEM, &unnamed, &p[1]))
		return -1;
	mem = p[0];
	canary = p[1];
	memset(canary, CANARY, SPOIL_MEM);
	return 0;
}

static int teardown(void **state)
{
	raw_detach(&client);
	node_until_usage(&node, "attached", 2);
	mover_must(mover_move(&neighbour, 3));
	printf("the neighbour: %llu messages, 0 wrong\n",
	       (unsigned long long)neighbour.messages);
	mover_close(&neighbour);
	node_until_usage(&node, "regions", 0);
	node_stop(&node);
	return 0;
}

struct test_group test_group = { setup, teardown };
unsigned *test_times = &bad;
