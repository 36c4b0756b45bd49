/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grouped receives and their sends, all of ordinary memory, between the client
 * library and the engine, turned by hand: in orders in which the room of a staging
 * window decides whether it goes on.
 */
#include "engine_pair.h"
#include "fake_proxy.h"
#include "test.h"

#define GROUPS 12
#define BUFS 4
#define ROOM 40000u
#define BYTES ((size_t)GROUPS * BUFS * ROOM)
#define STILL 300000 /* turns */
#define MR 1 /* the engine's first number for a region, of a window here */

/* A client, its end of the connection and its memory. */
struct end {
	struct fake_proxy *fake;
	struct mpib_client *client;
	struct engine_client *engine;
	struct mpib_conn *conn;
	struct engine_conn *shard;
	struct mpib_region *region;
	char *mem;
};

static struct pair pair;
static struct end tx, rx;

/* What is sent: group g has n buffers; buffer k is for the next send of its tag,
 * of so many bytes. In which order the sends are posted. */
struct script {
	unsigned groups, ahead; /* receives posted at once */
	unsigned n[GROUPS];
	int tag[GROUPS][BUFS];
	uint32_t size[GROUPS][BUFS];
	unsigned sends;
	struct {
		unsigned g, k;
	} send[GROUPS * BUFS];
	bool first; /* all sends before the first receive */
};

static char *place(const struct end *e, unsigned g, unsigned k)
{
	return e->mem + ((size_t)g * BUFS + k) * ROOM;
}

static void attach(struct end *e, unsigned node, uint32_t window, uint32_t part)
{
	e->fake = fake_proxy_start();
	assert_non_null(e->fake);
	e->fake->pools = MR;
	e->fake->welcome.window = window;
	e->fake->welcome.part = part;
	assert_int_equal(fake_attach(e->fake, &e->client), 0);
	e->mem = malloc(BYTES);
	assert_int_equal(mpib_reg(e->client, e->mem, BYTES, &e->region), 0);
	assert_int_equal(engine_client_open(pair.node[node].tenant, 50 + node,
					    e->fake->submit, e->fake->reply, -1,
					    &e->engine),
			 0);
}

/* The window that the client has got is a region of the engine, too. */
static void lend_window(struct end *e)
{
	struct mpib_mr_attr attr = { .dmabuf_fd = -1 };
	bool ready = false;
	uint32_t mr;

	assert_int_equal(mpib_ready(e->conn), 1);
	assert_int_equal(mpib_prepare(e->conn, e->region), 0);
	attr.addr = e->fake->pool[MR].addr;
	attr.len = e->fake->pool[MR].size;
	assert_int_equal(
		mpib_mr_add(e->engine, &attr, &mr, pair_set_flag, &ready), 0);
	assert_int_equal(mr, MR);
	pair_until(&pair, &ready);
}

static void open_both(uint32_t window, uint32_t part)
{
	struct mpib_handle h = { .magic = MPIB_HANDLE_MAGIC };
	struct engine_conn_info a, b;
	struct mpib_engine_config cfg;
	struct mpib_listener *l;

	mpib_engine_config_init(&cfg);
	cfg.sup_bw = 512;
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	attach(&tx, 0, window, part);
	attach(&rx, 1, 4 * ROOM + 4 * MPIB_ALIGN, part);
	assert_int_equal(mpib_connect(tx.client, &h, -1, &tx.conn), 0);
	assert_int_equal(mpib_listen(rx.client, &h, &l), 0);
	assert_int_equal(mpib_accept(l, &rx.conn), 0);
	mpib_close_listen(l);
	lend_window(&tx);
	lend_window(&rx);
	assert_int_equal(engine_conn_create(tx.engine, 0, true,
					    MPIB_TABLE_SLOTS, pair.node[0].lane,
					    &tx.shard),
			 0);
	assert_int_equal(engine_conn_create(rx.engine, 0, false,
					    MPIB_TABLE_SLOTS, pair.node[1].lane,
					    &rx.shard),
			 0);
	engine_conn_local(tx.shard, &a);
	engine_conn_local(rx.shard, &b);
	engine_conn_start(rx.shard, &a);
	engine_conn_start(tx.shard, &b);
}

static void leave(struct end *e)
{
	mpib_detach(e->client);
	fake_proxy_stop(e->fake);
	free(e->mem);
}

static void close_both(void)
{
	pair_close(&pair);
	leave(&tx);
	leave(&rx);
}

/* A script under way. */
struct play {
	const struct script *s;
	struct mpib_request *send[GROUPS * BUFS], *recv[GROUPS];
	unsigned sent, posted, done;
	unsigned still; /* turns since something moved */
};

static unsigned char byte_of(unsigned g, unsigned k, uint32_t i)
{
	return (unsigned char)(g * 29 + k * 7 + i + (i >> 8));
}

static bool post_send(struct play *p)
{
	const struct script *s = p->s;
	unsigned g, k;

	if (p->sent == s->sends)
		return false;
	g = s->send[p->sent].g;
	k = s->send[p->sent].k;
	for (uint32_t i = 0; i < s->size[g][k]; i++)
		place(&tx, g, k)[i] = (char)byte_of(g, k, i);
	assert_int_equal(mpib_isend(tx.conn, place(&tx, g, k), s->size[g][k],
				    s->tag[g][k], tx.region, &p->send[p->sent]),
			 0);
	p->sent += p->send[p->sent] != NULL;
	return true;
}

static bool post_receive(struct play *p)
{
	const struct script *s = p->s;
	struct mpib_region *region[BUFS];
	unsigned g = p->posted;
	size_t room[BUFS];
	void *to[BUFS];

	if (g == s->groups || g - p->done == s->ahead)
		return false;
	for (unsigned k = 0; k < s->n[g]; k++) {
		to[k] = place(&rx, g, k);
		room[k] = ROOM;
		region[k] = rx.region;
	}
	assert_int_equal(mpib_irecv(rx.conn, (int)s->n[g], to, room, s->tag[g],
				    region, &p->recv[g]),
			 0);
	p->posted += p->recv[g] != NULL;
	return true;
}

static void check(const struct script *s, unsigned g, const size_t *size)
{
	for (unsigned k = 0; k < s->n[g]; k++) {
		assert_int_equal(size[k], s->size[g][k]);
		for (uint32_t i = 0; i < size[k]; i++)
			assert_int_equal((unsigned char)place(&rx, g, k)[i],
					 byte_of(g, k, i));
	}
}

static bool is_over(struct mpib_request **r, size_t *size)
{
	int done = 0;

	if (!*r)
		return false;
	assert_int_equal(mpib_test(*r, &done, size), 0);
	if (done)
		*r = NULL;
	return done;
}

static void test_all(struct play *p)
{
	size_t size[BUFS];

	for (unsigned i = 0; i < p->sent; i++) {
		if (is_over(&p->send[i], size))
			p->still = 0;
	}
	if (p->done < p->posted && is_over(&p->recv[p->done], size)) {
		check(p->s, p->done++, size);
		p->still = 0;
	}
}

static void run(const struct script *s)
{
	struct play p = { .s = s };
	unsigned left = 1;

	while (s->first && p.sent < s->sends && p.still++ < 1000) {
		post_send(&p);
		pair_turn(&pair);
	}
	p.still = 0;
	while (p.done < s->groups || left) {
		assert_int_equal(pair.node[0].broken + pair.node[1].broken, 0);
		if (p.still++ == STILL)
			fail_msg("%u of %u groups, and it stands still", p.done,
				 s->groups);
		post_receive(&p);
		post_send(&p);
		pair_turn(&pair);
		test_all(&p);
		left = s->sends - p.sent;
		for (unsigned i = 0; i < p.sent; i++)
			left += p.send[i] != NULL;
	}
}

static void add_group(struct script *s, unsigned n, const int *tag,
		      uint32_t size)
{
	unsigned g = s->groups++;

	s->n[g] = n;
	for (unsigned k = 0; k < n; k++) {
		s->tag[g][k] = tag[k];
		s->size[g][k] = size;
	}
}

static void add_send(struct script *s, unsigned g, unsigned k)
{
	s->send[s->sends].g = g;
	s->send[s->sends++].k = k;
}

static void sends_of_one_tag_in_one_group_share_a_small_window(void **state)
{
	static const int tag[] = { 5, 5, 5 };
	struct script s = { .ahead = 1 };

	for (unsigned g = 0; g < 4; g++) {
		add_group(&s, 3, tag, 16000 + 1000 * g);
		for (unsigned k = 0; k < 3; k++)
			add_send(&s, g, k);
	}
	open_both(20480, 16384);
	run(&s);
	close_both();
}

/* Of the first tag there are more than the window has room for. */
static void a_tag_may_be_groups_ahead_of_the_other(void **state)
{
	static const int tag[] = { 5, 6 };

	for (uint32_t size = 300; size <= ROOM; size *= 5) {
		struct script s = { .ahead = 8, .first = true };

		for (unsigned g = 0; g < 8; g++)
			add_group(&s, 2, tag, size);
		for (unsigned k = 0; k < 2; k++) {
			for (unsigned g = 0; g < 8; g++)
				add_send(&s, g, k);
		}
		open_both(20480, 4096);
		run(&s);
		close_both();
	}
}

/* The last send of the first tag is half in the window, behind one that fits
 * whole and waits for its group. */
static void a_send_that_is_half_in_the_window_goes_on(void **state)
{
	static const int tag[] = { 5, 5, 6 };
	struct script s = { .ahead = 1, .first = true };

	add_group(&s, 3, tag, 40000);
	s.size[0][0] = 9000;
	for (unsigned k = 0; k < 3; k++)
		add_send(&s, 0, k);
	open_both(32768, 12288);
	run(&s);
	close_both();
}

static unsigned draw(unsigned *seed, unsigned n)
{
	*seed = *seed * 1103515245 + 12345;
	return (*seed >> 16) % n;
}

/* Groups of any tags, also of one twice; each tag's sends in their order, tags in
 * any. */
static void draw_script(struct script *s, unsigned seed)
{
	unsigned next[4] = { 0 }, tags = 1 + draw(&seed, 4), left = 0;
	unsigned most = draw(&seed, 2) ? ROOM : 6000;

	memset(s, 0, sizeof(*s));
	s->ahead = 1 + draw(&seed, 8);
	s->first = draw(&seed, 2);
	for (unsigned g = 0; g < GROUPS; g++) {
		unsigned n = 1 + draw(&seed, BUFS);
		int tag[BUFS];

		for (unsigned k = 0; k < n; k++)
			tag[k] = (int)draw(&seed, tags);
		add_group(s, n, tag, 0);
		left += n;
		for (unsigned k = 0; k < n; k++)
			s->size[g][k] = draw(&seed, most + 1);
	}
	while (left) {
		unsigned t = draw(&seed, tags), g, k;

		for (; next[t] < GROUPS * BUFS; next[t]++) {
			g = next[t] / BUFS;
			k = next[t] % BUFS;
			if (k < s->n[g] && s->tag[g][k] == (int)t)
				break;
		}
		if (next[t] == GROUPS * BUFS)
			continue;
		add_send(s, next[t] / BUFS, next[t] % BUFS);
		next[t]++;
		left--;
	}
}

static void any_order_gets_through_any_window(void **state)
{
	unsigned from =
		getenv("MPIB_SEED") ? (unsigned)atoi(getenv("MPIB_SEED")) : 1;

	for (unsigned seed = from; seed < from + 24; seed++) {
		unsigned r = seed * 7919;
		uint32_t part = 128 * (1 + draw(&r, 128));
		struct script s;

		draw_script(&s, seed);
		open_both((part + 4096 + draw(&r, 60000)) & ~127u, part);
		run(&s);
		close_both();
	}
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(sends_of_one_tag_in_one_group_share_a_small_window),
	cmocka_unit_test(a_tag_may_be_groups_ahead_of_the_other),
	cmocka_unit_test(a_send_that_is_half_in_the_window_goes_on),
	cmocka_unit_test(any_order_gets_through_any_window),
	{ 0 },
};
