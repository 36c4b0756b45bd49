/* SPDX-License-Identifier: Apache-2.0 */
/* Two engines whose turns the test calls, see engine_pair.h. */
#include "engine_pair.h"
#include "engine/conn/conn.h"
#include "engine/recovery/stop.h"
#include "guarded.h"
#include "rails.h"
#include "sums.h"
#include "verbs/soft/ctx.h"
#include "verbs/soft/qp.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <unistd.h>

#define MANY_TURNS 2000000

static void on_conn_broken(void *ctx, struct engine_conn *conn, int error,
			   const char *why)
{
	struct pair_node *n = ctx;

	(void)conn;
	(void)error;
	n->broken++;
	snprintf(n->why, sizeof(n->why), "%s", why);
}

static void on_lane_broken(void *ctx, struct mpib_lane *lane, int error,
			   const char *why)
{
	struct pair_node *n = ctx;

	(void)lane;
	(void)error;
	n->lanes_broken++;
	snprintf(n->why, sizeof(n->why), "%s", why);
}

struct pair *pair_opened;

/* A rail message that was sent but has not reached the other node. */
struct told {
	struct mpib_rail_msg msg;
	struct mpib_lane *to;
	STAILQ_ENTRY(told) link;
};
static STAILQ_HEAD(, told) told = STAILQ_HEAD_INITIALIZER(told);

static void on_lane_send(void *ctx, struct mpib_lane *lane,
			 const struct mpib_rail_msg *msg)
{
	struct pair *p = pair_opened;
	struct told *t;

	(void)lane;
	if (!p->fences)
		return;
	t = malloc(sizeof(*t));
	assert_non_null(t);
	t->msg = *msg;
	t->to = p->node[ctx == &p->node[0]].lane;
	STAILQ_INSERT_TAIL(&told, t, link);
}

static void deliver(void)
{
	struct told *t;

	while ((t = STAILQ_FIRST(&told))) {
		STAILQ_REMOVE_HEAD(&told, link);
		assert_true(mpib_lane_receive(t->to, &t->msg));
		free(t);
	}
}

void pair_fences(struct pair *p)
{
	p->fences = true;
	for (unsigned i = 0; i < 2; i++) {
		p->node[i].lane->failover = true;
		mpib_lane_established(p->node[i].lane);
	}
}

static const struct mpib_engine_events events = {
	.conn_broken = on_conn_broken,
	.lane_broken = on_lane_broken,
	.lane_send = on_lane_send,
};

int pair_turn(struct pair *p)
{
	int moved = 0;

	deliver();

	for (unsigned i = 0; i < 2; i++) {
		struct mpib_engine *e = p->node[i].engine;

		for (unsigned s = 0; e && s < e->shards; s++)
			moved += mpib_shard_turn(&e->shard[s]);
		if (e)
			mpib_engine_dispatch(e);
	}
	return moved;
}

void pair_turns(struct pair *p, unsigned n)
{
	while (n-- > 0)
		pair_turn(p);
}

void pair_turn_sender(struct pair *p)
{
	const struct mpib_shard *peer = &p->node[1].engine->shard[0];

	mpib_shard_turn(&p->node[0].engine->shard[0]);
	mpib_engine_dispatch(p->node[0].engine);
	for (unsigned r = 0; r < p->cfg.rails; r++)
		soft_turn(to_ctx(peer->rail[r].ctx));
}

void pair_until(struct pair *p, const bool *flag)
{
	for (unsigned i = 0; i < MANY_TURNS && !*flag; i++)
		pair_turn(p);
	assert_true(*flag);
}

static uint32_t add_region(struct pair *p, unsigned node,
			   const struct mpib_mr_attr *attr)
{
	bool ready = false;
	uint32_t mr;

	assert_int_equal(mpib_mr_add(p->node[node].engine_client, attr, &mr,
				     pair_set_flag, &ready),
			 0);
	pair_until(p, &ready);
	return mr;
}

uint32_t pair_add_memory(struct pair *p, unsigned node, void *mem, size_t len)
{
	const struct mpib_mr_attr attr = { .addr = mem,
					   .len = len,
					   .dmabuf_fd = -1 };

	return add_region(p, node, &attr);
}

static const struct mpib_shard *shard_of(const struct ibv_context *ctx)
{
	const struct mpib_engine *e;

	for (unsigned i = 0; i < 2; i++) {
		e = pair_opened->node[i].engine;
		for (unsigned k = 0; e && k < e->shards * MPIB_RAILS; k++) {
			if (e->shard[k / MPIB_RAILS].rail[k % MPIB_RAILS].ctx ==
			    ctx)
				return &e->shard[k / MPIB_RAILS];
		}
	}
	fail_msg("a WR was posted to an unknown device");
	return NULL;
}

/* Check that `answer` records two facts about each send request of the send op:
 * its generation, and whether the send was refused. */
static void check_answers(struct engine_conn *f, uint32_t op)
{
	const struct send_op *p = send_op_at(f, op & 0xff);

	for (unsigned i = 0; i < p->n; i++) {
		uint8_t req = send_op_range(f, p, i)->req;
		const struct mpib_completion *c = &f->completion[req];
		uint64_t answer = f->answer[req];
		bool refused = answer & MPIB_ANSWER_REFUSED;

		assert_int_equal(answer >> 32, f->req[req].gen);
		assert_int_equal(refused, f->req[req].refused);
		if (refused)
			assert_true(c->size[0] > c->size[1]);
	}
}

/* Before WRs are posted, the records of their send op must be complete: the WRs
 * may arrive even if this process ends right after the post. */
static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	const struct mpib_shard *s = shard_of(qp->context);

	for (const struct ibv_send_wr *w = wr; w; w = w->next) {
		enum mpib_wr_kind kind = mpib_wr_kind(w->wr_id);

		if (kind == MPIB_WR_OP || kind == MPIB_WR_REPLAY)
			check_answers(s->conn[mpib_wr_conn(w->wr_id)],
				      mpib_wr_op(w->wr_id));
	}
	return soft_post_send(qp, wr, bad);
}

/* Call check_answers() for each WR that is posted to a software HCA. */
static void watch_posts(struct mpib_engine *e)
{
	for (unsigned i = 0; i < e->shards; i++) {
		for (unsigned r = 0; r < MPIB_RAILS; r++) {
			struct ibv_context *ctx = e->shard[i].rail[r].ctx;

			if (ctx && ctx->ops.post_send == soft_post_send)
				ctx->ops.post_send = post_send;
		}
	}
}

static void open_node(struct pair *p, unsigned i)
{
	struct pair_node *n = &p->node[i];
	char why[200] = "", spec[64];

	for (unsigned r = 0; r < p->cfg.devices * p->cfg.rails; r++) {
		if (r < p->cfg.rails && test_rail(spec, sizeof(spec), i, r))
			p->cfg.timeout = TEST_RAIL_TIMEOUT;
		else
			snprintf(spec, sizeof(spec), "soft:127.25.%u.%u", r,
				 i + 1);
		assert_int_equal(mpib_rail_spec_parse(spec, &p->cfg.rail[r],
						      why, sizeof(why)),
				 0);
	}
	if (mpib_engine_open_idle(&p->cfg, &events, n, &n->engine, why,
				  sizeof(why)) < 0)
		fail_msg("%s", why);
	watch_posts(n->engine);
}

/* Open a client of user `uid` on node `i`, and register memory for the
 * client. */
static void attach(struct pair *p, unsigned i, uid_t uid)
{
	struct pair_node *n = &p->node[i];

	assert_int_equal(
		mpib_tenant_get(n->engine, p->shard[i], uid, &n->tenant), 0);
	n->submit = guarded_map(sizeof(*n->submit));
	n->reply = guarded_map(sizeof(*n->reply));
	n->mem = guarded_map(PAIR_MEM);
	assert_int_equal(engine_client_open(n->tenant, 2 * uid + i + 1,
					    n->submit, n->reply, -1,
					    &n->engine_client),
			 0);
	n->mr = pair_add_memory(p, i, n->mem, PAIR_MEM);
}

/* If MPIB_TEST_SPREAD is set to a value of enum mpib_spread, use that spread
 * for all lanes. */
static void take_spread(struct mpib_engine_config *cfg)
{
	const char *spread = getenv("MPIB_TEST_SPREAD");

	if (!spread || cfg->spread != MPIB_SPREAD_SPLIT)
		return;
	cfg->spread = (uint32_t)atoi(spread);
	cfg->frag = MPIB_FRAG_MIN;
}

static void make_lane(struct pair *p, uint8_t imm_version)
{
	struct mpib_lane_info a, b;
	char why[200] = "";

	assert_int_equal(mpib_lane_create(p->node[0].tenant, imm_version,
					  p->path, NULL, &p->node[0].lane),
			 0);
	mpib_lane_local(p->node[0].lane, &a);
	assert_int_equal(mpib_lane_create(p->node[1].tenant, 0, p->path, &a,
					  &p->node[1].lane),
			 0);
	mpib_lane_local(p->node[1].lane, &b);
	assert_int_equal(
		mpib_lane_connect(p->node[1].lane, &a, why, sizeof(why)), 0);
	assert_int_equal(
		mpib_lane_connect(p->node[0].lane, &b, why, sizeof(why)), 0);
}

void pair_open_on(struct pair *p, const struct mpib_engine_config *cfg,
		  uint8_t imm_version, enum mpib_path path)
{
	memset(p, 0, sizeof(*p));
	pair_opened = p;
	p->cfg = *cfg;
	/* Fail-over is off until the test calls pair_fences(). */
	p->cfg.failover = false;
	take_spread(&p->cfg);
	p->path = path;
	for (unsigned i = 0; i < 2; i++) {
		open_node(p, i);
		attach(p, i, 0);
	}
	make_lane(p, imm_version);
}

void pair_join_on(struct pair *p, struct pair *more, uid_t uid, unsigned a,
		  unsigned b)
{
	memset(more, 0, sizeof(*more));
	more->cfg = p->cfg;
	more->path = p->path;
	more->shard[0] = a;
	more->shard[1] = b;
	for (unsigned i = 0; i < 2; i++)
		more->node[i].engine = p->node[i].engine;
	for (unsigned i = 0; i < 2; i++)
		attach(more, i, uid);
	make_lane(more, MPIB_IMM_V2);
}

void pair_more_lane(const struct pair *p, struct pair *more)
{
	*more = *p;
	make_lane(more, MPIB_IMM_V2);
}

/* Unmap the node's memory. The node's engine may already be closed. */
static void unmap(struct pair_node *n)
{
	/* A second munmap() would unmap whatever is at these addresses now. */
	assert_non_null(n->submit);
	guarded_unmap(n->submit, sizeof(*n->submit));
	guarded_unmap(n->reply, sizeof(*n->reply));
	guarded_unmap(n->mem, PAIR_MEM);
	n->submit = NULL;
}

void pair_leave(struct pair *more)
{
	unmap(&more->node[0]);
	unmap(&more->node[1]);
}

/* Check that the shards' counters equal the sums over their objects, see
 * sums.h. */
static void check_sums(const struct pair *p, unsigned node)
{
	const struct mpib_engine *e = p->node[node].engine;
	struct sum sum;

	for (unsigned s = 0; s < e->shards; s++) {
		if (!sums_of_shard(&e->shard[s], &sum))
			fail_msg("node %u, shard %u: %s: %llu counted, but the "
				 "objects have %llu",
				 node, s, sum.what,
				 (unsigned long long)sum.owed,
				 (unsigned long long)sum.have);
	}
}

static bool checks_rails(const struct pair *p)
{
	bool checks = false;

	for (unsigned i = 0; i < 2; i++) {
		const struct mpib_engine *e = p->node[i].engine;

		for (unsigned s = 0; s < e->shards; s++)
			checks |= !TAILQ_EMPTY(&e->shard[s].looks);
	}
	return checks;
}

void pair_close(struct pair *p)
{
	p->fences = false;
	/* Finish the rail checks that a peer has requested, because the engine
	 * does not free these checks when it closes. */
	pair_turn(p);
	for (unsigned i = 0; i < 10000 && checks_rails(p); i++)
		pair_turn(p);
	for (unsigned i = 0; i < 2; i++) {
		check_sums(p, i);
		mpib_engine_close(p->node[i].engine);
		p->node[i].engine = NULL;
		unmap(&p->node[i]);
	}
	pair_opened = NULL;
}

static void wrap_soon(struct engine_conn *f)
{
	struct mpib_sender *tx = &f->tx;

	if (!f->is_sender) {
		f->rx.msg = PAIR_FIRST;
		return;
	}
	tx->range_head = tx->range_tail = tx->looked = PAIR_FIRST;
	tx->op_head = tx->op_tail = PAIR_FIRST;
	tx->op_range_head = tx->op_range_tail = PAIR_FIRST;
	tx->msg = PAIR_FIRST;
}

void pair_make_end(struct pair *p, unsigned node, uint32_t index, bool sender,
		   struct pair_end *e)
{
	struct pair_node *n = &p->node[node];

	memset(e, 0, sizeof(*e));
	assert_int_equal(engine_conn_create(n->engine_client, index, sender,
					    n->lane, &e->conn),
			 0);
	wrap_soon(e->conn);
	e->submit = n->submit;
	e->reply = n->reply;
	e->index = index;
	e->ring = (struct mpib_producer){
		.slot = n->submit->ring[index],
		.head = &n->reply->conn[index].head,
		.mask = MPIB_RING_SLOTS - 1,
	};
}

void pair_connect(struct pair *p, uint32_t index, unsigned from,
		  struct pair_end *tx, struct pair_end *rx)
{
	struct engine_conn_info a, b;

	pair_make_end(p, from, index, true, tx);
	pair_make_end(p, !from, index, false, rx);
	engine_conn_local(tx->conn, &a);
	engine_conn_local(rx->conn, &b);
	engine_conn_start(rx->conn, &a);
	engine_conn_start(tx->conn, &b);
	pair_turns(p, 8);
}

void pair_push(struct pair_end *e, const struct mpib_desc *d)
{
	assert_true(mpib_ring_room(&e->ring, 1) > 0);
	mpib_ring_push(&e->ring, d);
	atomic_fetch_or(&e->submit->summary.word[e->index / 64],
			1ull << e->index % 64);
	atomic_fetch_or(&e->submit->summary.top, 1ull << e->index / 64);
}

uint32_t pair_post_group(struct pair_end *e, uint8_t req, uint8_t n,
			 uint32_t mr, uint64_t off, uint32_t len, int32_t tag)
{
	uint32_t gen = ++e->gen;

	for (uint8_t i = 0; i < n; i++) {
		struct mpib_desc d = { .op = MPIB_OP_RECV,
				       .req = req,
				       .idx = i,
				       .n = n,
				       .gen = gen,
				       .mr = mr,
				       .tag = tag + i,
				       .off = off + (uint64_t)i * len,
				       .len = len,
				       .total = len };

		pair_push(e, &d);
	}
	return gen;
}

uint32_t pair_post(struct pair_end *e, enum mpib_op op, uint8_t req,
		   uint32_t mr, uint64_t off, uint32_t len, int32_t tag)
{
	struct mpib_desc d = {
		.op = (uint8_t)op,
		.req = req,
		.n = 1,
		.gen = ++e->gen,
		.mr = mr,
		.tag = tag,
		.off = off,
		.len = len,
		.total = len,
	};

	pair_push(e, &d);
	return d.gen;
}

const struct mpib_completion *pair_completion(const struct pair_end *e,
					      uint8_t req)
{
	return &e->reply->completion[e->index][req];
}

int32_t pair_wait(struct pair *p, struct pair_end *e, uint8_t req, uint32_t gen)
{
	int32_t result = 0;

	for (unsigned i = 0; i < MANY_TURNS; i++) {
		if (mpib_completion_poll(pair_completion(e, req), gen, &result))
			return result;
		pair_turn(p);
	}
	fail_msg("request %u of generation %u never completed", req, gen);
	return 0;
}

void pair_flush(struct pair_end *e, uint32_t mr, uint64_t off, uint32_t gen)
{
	const struct mpib_desc d = { .op = MPIB_OP_FLUSH,
				     .n = 1,
				     .gen = gen,
				     .mr = mr,
				     .off = off,
				     .len = 1,
				     .total = 1 };

	pair_push(e, &d);
}

uint32_t pair_add_device(struct pair *p, unsigned node, size_t len, char **map)
{
	int fd = memfd_create("device", MFD_CLOEXEC);
	struct mpib_mr_attr attr = { .len = len, .dmabuf_fd = fd };
	uint32_t mr;

	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	mr = add_region(p, node, &attr);
	if (map) {
		*map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			    0);
		assert_true(*map != MAP_FAILED);
	}
	close(fd);
	return mr;
}

struct taken {
	bool done;
	struct mpib_snapshot *snap;
};

static void on_snapshot(void *arg, struct mpib_snapshot *snap)
{
	struct taken *t = arg;

	t->snap = snap;
	t->done = true;
}

void pair_fill(char *p, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (char)(seed + i * 31 + (i >> 8));
}

void pair_transfer(struct pair *p, struct pair_end *tx, struct pair_end *rx,
		   uint8_t req, uint32_t len, uint32_t room, unsigned seed)
{
	char *from = p->node[0].mem + 4096, *to = p->node[1].mem + PAIR_RX;
	uint32_t g_rx, g_tx;

	pair_fill(from, len, seed);
	memset(to, 0x55, room + 64);
	g_rx = pair_post(rx, MPIB_OP_RECV, req, p->node[1].mr, PAIR_RX, room,
			 7);
	g_tx = pair_post(tx, MPIB_OP_SEND, req, p->node[0].mr, 4096, len, 7);
	assert_int_equal(pair_wait(p, rx, req, g_rx), len);
	assert_int_equal(pair_wait(p, tx, req, g_tx), len);
	assert_int_equal(pair_completion(rx, req)->size[0], len);
	assert_memory_equal(from, to, len);
	for (uint32_t i = len; i < room + 64; i++)
		assert_int_equal(to[i], 0x55);
}

struct mpib_snapshot *pair_snapshot(struct pair *p, unsigned node)
{
	struct taken t = { 0 };

	assert_int_equal(
		mpib_engine_snapshot(p->node[node].engine, on_snapshot, &t), 0);
	pair_until(p, &t.done);
	return t.snap;
}

void pair_open_at(struct pair *p, uint32_t sup_bw, uint8_t imm_version,
		  struct pair_end *tx, struct pair_end *rx)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.sup_bw = sup_bw;
	pair_open(p, &cfg, imm_version);
	pair_connect(p, 5, 0, tx, rx);
}
