/* SPDX-License-Identifier: Apache-2.0 */
/* One process of bench-many: its connections, its messages, its figures. */
#include <mpib/client.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "many/many.h"
#include "peers/peer.h"

struct conn {
	struct mpib_conn *c;
	struct mpib_request *req[MANY_INFLIGHT_MAX];
	uint64_t at[MANY_INFLIGHT_MAX]; /* when posted, ns; by request */
	uint64_t head, tail;
	char *mem; /* one buffer for each request in flight */
	struct mpib_region *region;
};

struct many_end {
	struct many_world *w;
	struct many_proc *p;
	int side;
	struct mpib_client *client;
	struct mpib_listener *listener[2];
	struct conn *conn; /* busy ones first */
	unsigned n;
};

static void must(int rc, const char *call)
{
	if (rc < 0)
		peer_die("%s: %s", call, mpib_strerror());
}

static bool is_busy(const struct many_end *e, unsigned i)
{
	return i < e->w->opt.conns;
}

/* Connect all. Busy and idle connections have a listener each, so that both
 * ends of a connection agree on which kind it is. */
static void begin_all(struct many_end *e)
{
	if (e->side == 0) {
		while (!atomic_load(&e->p->listening))
			usleep(1000);
	} else {
		for (int k = 0; k < 2; k++)
			must(mpib_listen(e->client, &e->p->handle[k],
					 &e->listener[k]),
			     "mpib_listen");
		atomic_store(&e->p->listening, 1);
	}
	for (unsigned i = 0; i < e->n; i++) {
		int k = !is_busy(e, i);
		struct mpib_conn **c = &e->conn[i].c;

		must(e->side ? mpib_accept(e->listener[k], c)
			     : mpib_connect(e->client, &e->p->handle[k], -1, c),
		     e->side ? "mpib_accept" : "mpib_connect");
	}
}

static void connect_all(struct many_end *e)
{
	uint64_t begun = peer_ns();

	begin_all(e);
	for (unsigned i = 0; i < e->n; i++) {
		int rc;

		while ((rc = mpib_ready(e->conn[i].c)) == 0)
			usleep(100);
		must(rc, "mpib_ready");
	}
	if (e->side == 0)
		e->p->connected = (double)(peer_ns() - begun) * 1e-9;
	for (int k = 0; e->side && k < 2; k++)
		mpib_close_listen(e->listener[k]);
}

static void memory(struct many_end *e)
{
	const struct many_options *o = &e->w->opt;
	size_t each = (size_t)(o->size ? o->size : 1) * o->inflight;

	for (unsigned i = 0; i < o->conns; i++) {
		struct conn *c = &e->conn[i];

		c->mem = o->shared ? mpib_mem_alloc(e->client, each)
				   : malloc(each);
		if (!c->mem)
			peer_die("no memory for %zu bytes", each);
		memset(c->mem, e->side, each);
		must(mpib_reg(e->client, c->mem, each, &c->region), "mpib_reg");
		must(mpib_prepare(c->c, c->region), "mpib_prepare");
	}
}

static bool post(struct many_end *e, struct conn *c)
{
	const struct many_options *o = &e->w->opt;
	unsigned at = (unsigned)(c->head % o->inflight);
	void *addr = c->mem + at * o->size;
	size_t size = (size_t)o->size;
	int tag = 0;

	if (e->side)
		must(mpib_irecv(c->c, 1, &addr, &size, &tag, &c->region,
				&c->req[at]),
		     "mpib_irecv");
	else
		must(mpib_isend(c->c, addr, size, 0, c->region, &c->req[at]),
		     "mpib_isend");
	if (!c->req[at])
		return false;
	c->at[at] = e->side ? 0 : peer_ns();
	c->head++;
	return true;
}

static bool take(struct many_end *e, struct conn *c)
{
	unsigned at = (unsigned)(c->tail % e->w->opt.inflight);
	int done = 0;

	must(mpib_test(c->req[at], &done, NULL), "mpib_test");
	if (!done)
		return false;
	c->tail++;
	if (e->side == 0)
		perf_hist_add(&e->p->hist, peer_ns() - c->at[at]);
	return true;
}

/* Post (if more is set) and complete requests of every busy connection. True if
 * there was anything to do. */
static bool turn(struct many_end *e, bool more)
{
	unsigned depth = e->w->opt.inflight;
	bool moved = false;

	for (unsigned i = 0; i < e->w->opt.conns; i++) {
		struct conn *c = &e->conn[i];

		if (more && c->head - c->tail < depth)
			moved |= post(e, c);
		if (c->head != c->tail)
			moved |= take(e, c);
	}
	return moved;
}

static uint64_t under_way(const struct many_end *e)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < e->w->opt.conns; i++)
		n += e->conn[i].head - e->conn[i].tail;
	return n;
}

static void send_for(struct many_end *e)
{
	uint64_t end = peer_ns() + (uint64_t)(e->w->opt.seconds * 1e9);

	while (peer_ns() < end) {
		if (!turn(e, true))
			sched_yield();
	}
	for (unsigned i = 0; i < e->w->opt.conns; i++)
		e->p->messages[i] = e->conn[i].tail;
	while (under_way(e)) {
		if (!turn(e, false))
			sched_yield();
	}
	/* The receiving process reads `sending` and ends: all messages sent
	 * have been completed by now. */
	atomic_store(&e->p->sending, 0);
}

static void receive(struct many_end *e)
{
	while (atomic_load(&e->p->sending)) {
		if (!turn(e, true))
			sched_yield();
	}
}

static void work(struct many_end *e)
{
	double cpu;

	atomic_fetch_add(&e->w->arrived, 1);
	while (!atomic_load(&e->w->go))
		usleep(1000);
	cpu = peer_cpu();
	if (e->w->opt.conns == 0)
		usleep((useconds_t)(e->w->opt.seconds * 1e6));
	else if (e->side)
		receive(e);
	else
		send_for(e);
	e->p->cpu[e->side] = peer_cpu() - cpu;
}

void many_run(struct many_world *w, unsigned proc, int side)
{
	struct mpib_attach_opts opts = { .name = "bench-many",
					 .run_dir = w->opt.dir[side],
					 .timeout_ms = 20000 };
	struct many_end e = { .w = w, .p = &w->proc[proc], .side = side };

	e.n = w->opt.conns + w->opt.idle;
	e.conn = calloc(e.n + 1, sizeof(*e.conn));
	if (!e.conn)
		peer_die("out of memory");
	must(mpib_attach(&opts, &e.client), "mpib_attach");
	connect_all(&e);
	memory(&e);
	work(&e);
	mpib_detach(e.client);
	free(e.conn);
}
