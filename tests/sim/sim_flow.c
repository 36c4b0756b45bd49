/* SPDX-License-Identifier: Apache-2.0 */
/* Simulate the bytes in flight between sockets, and the network between
 * nodes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim_sock.h"
#include "sim_task.h"

#define WINDOW (256u << 10)
#define AGAIN (50 * SIM_MS) /* delay of a retransmission */
#define FLOWS 4096

static struct sim_rng chance;
static uint64_t cut_until[SIM_NODES][SIM_NODES];
static uint64_t dead_until[SIM_NODES][SIM_NETS];
static uint64_t slow_until, slow_ns, far_ns;
/* All TCP flows. sim_net_reset() searches this table. */
static struct sim_flow *flows[FLOWS];

void sim_net_seed(uint64_t seed, uint64_t far)
{
	sim_rng_seed(&chance, seed, "network");
	far_ns = far;
}

uint64_t sim_net_latency(void)
{
	uint64_t ns = 10 * SIM_US + sim_draw(&chance, 40 * SIM_US) + far_ns;

	if (sim_now < slow_until)
		ns += sim_draw(&chance, slow_ns);
	return ns;
}

static unsigned sim_net_node(const struct sockaddr_in *addr)
{
	return (ntohl(addr->sin_addr.s_addr) & 0xff) - 1;
}

void sim_net_cut(unsigned a, unsigned b, uint64_t until)
{
	cut_until[a][b] = cut_until[b][a] = until;
}

void sim_net_half(unsigned a, unsigned b, uint64_t until)
{
	cut_until[a][b] = until;
}

void sim_net_slow(uint64_t until, uint64_t ns)
{
	slow_until = until;
	slow_ns = ns;
}

void sim_net_port(unsigned node, unsigned net, uint64_t until)
{
	dead_until[node][net] = until;
}

/* Return whether the port with this address is dead. Network n has the
 * addresses 10.(100 + n).0.0/16. */
static bool is_dead(const struct sockaddr_in *addr)
{
	unsigned net = (ntohl(addr->sin_addr.s_addr) >> 16 & 0xff) - 100;

	return net < SIM_NETS && dead_until[sim_net_node(addr)][net] > sim_now;
}

bool sim_net_open(const struct sockaddr_in *from, const struct sockaddr_in *to)
{
	unsigned a = sim_net_node(from), b = sim_net_node(to);

	if (a >= SIM_NODES || b >= SIM_NODES)
		return true;
	/* If both addresses belong to the same node, Linux does not send the
	 * data through a port, so a dead port does not stop the data. */
	return cut_until[a][b] <= sim_now &&
	       (a == b || (!is_dead(from) && !is_dead(to)));
}

struct sim_chunk *sim_chunk_new(const void *bytes, size_t len)
{
	struct sim_chunk *c = calloc(1, sizeof(*c));

	if (!c)
		abort();
	c->bytes = malloc(len + 1);
	if (!c->bytes)
		abort();
	if (len)
		memcpy(c->bytes, bytes, len);
	c->len = len;
	return c;
}

void sim_chunk_free(struct sim_chunk *c)
{
	for (unsigned i = 0; i < c->helds; i++)
		sim_fd_drop(c->held[i]);
	free(c->held);
	free(c->bytes);
	free(c);
}

static struct sim_flow *flow_new(struct sim_sock *from, struct sim_sock *to)
{
	struct sim_flow *f = calloc(1, sizeof(*f));

	if (!f)
		abort();
	TAILQ_INIT(&f->flight);
	TAILQ_INIT(&f->arrived);
	f->writer = from;
	f->reader = to;
	f->inet = from->domain == AF_INET;
	f->from = from->addr;
	f->to = to->addr;
	for (unsigned i = 0; f->inet && i < FLOWS; i++) {
		if (!flows[i]) {
			flows[i] = f;
			f->place = &flows[i];
			break;
		}
	}
	return f;
}

void sim_flow_join(struct sim_sock *a, struct sim_sock *b)
{
	a->out = b->in = flow_new(a, b);
	b->out = a->in = flow_new(b, a);
	a->state = b->state = SIM_SOCK_OPEN;
}

bool sim_flow_room(const struct sim_flow *f)
{
	return f->bytes < WINDOW;
}

static void flow_empty(struct sim_flow *f, struct sim_chunks *queue)
{
	struct sim_chunk *c;

	while ((c = TAILQ_FIRST(queue))) {
		TAILQ_REMOVE(queue, c, link);
		f->bytes -= c->len - c->at;
		sim_chunk_free(c);
	}
}

static void flow_free(struct sim_flow *f)
{
	if (f->writer || f->reader)
		return;
	sim_event_disarm(&f->event);
	flow_empty(f, &f->flight);
	flow_empty(f, &f->arrived);
	if (f->place)
		*f->place = NULL;
	free(f);
}

static void sock_error(struct sim_sock *s, int err)
{
	if (!s || s->err)
		return;
	s->err = err;
	sim_file_changed(&s->file);
}

static void flow_stop(struct sim_flow *f)
{
	sim_event_disarm(&f->event);
	flow_empty(f, &f->flight);
	f->ended = f->eof = true;
}

/* Reset the connection: report an error to both ends immediately. */
static void sim_flow_reset(struct sim_sock *sock, int err)
{
	struct sim_sock *other = sock->out->reader;

	flow_stop(sock->out);
	flow_stop(sock->in);
	sock_error(sock, err);
	sock_error(other, ECONNRESET);
}

unsigned sim_net_reset(unsigned a, unsigned b)
{
	unsigned n = 0;

	for (unsigned i = 0; i < FLOWS; i++) {
		struct sim_flow *f = flows[i];

		if (!f || sim_net_node(&f->from) != a ||
		    sim_net_node(&f->to) != b || f->ended || !f->writer ||
		    !f->writer->out)
			continue;
		sim_flow_reset(f->writer, ECONNRESET);
		n++;
	}
	return n;
}

/* Return whether TCP_USER_TIMEOUT has passed. If so, fail this end with an
 * error, and do not tell the other end. */
static bool out_of_patience(struct sim_flow *f, const struct sim_chunk *c)
{
	struct sim_sock *s = f->writer;

	if (!s || !s->user_timeout || sim_now - c->sent < s->user_timeout)
		return false;
	flow_stop(f);
	sock_error(s, ETIMEDOUT);
	return true;
}

static void flow_arrive(struct sim_flow *f, struct sim_chunk *c)
{
	TAILQ_REMOVE(&f->flight, c, link);
	if (!f->reader) {
		/* The reader's socket no longer exists, so the writer gets a
		 * reset. */
		f->bytes -= c->len;
		if (!c->last)
			sock_error(f->writer, ECONNRESET);
		sim_chunk_free(c);
		return;
	}
	if (c->last) {
		f->eof = true;
		sim_chunk_free(c);
	} else {
		TAILQ_INSERT_TAIL(&f->arrived, c, link);
	}
	sim_file_changed(&f->reader->file);
}

static void on_arrival(void *arg)
{
	struct sim_flow *f = arg;
	struct sim_chunk *c = TAILQ_FIRST(&f->flight);

	if (!c)
		return;
	if (!sim_net_open(&f->from, &f->to)) {
		if (!out_of_patience(f, c))
			sim_event_arm(&f->event, sim_now + AGAIN, on_arrival,
				      f);
		return;
	}
	flow_arrive(f, c);
	if (TAILQ_FIRST(&f->flight))
		sim_event_arm(&f->event, sim_now + sim_net_latency() / 4,
			      on_arrival, f);
	flow_free(f);
}

void sim_flow_send(struct sim_flow *f, struct sim_chunk *c)
{
	bool first = !TAILQ_FIRST(&f->flight);

	c->sent = sim_now;
	f->bytes += c->len;
	f->ended |= c->last;
	TAILQ_INSERT_TAIL(&f->flight, c, link);
	if (!f->inet)
		flow_arrive(f, c);
	else if (first)
		sim_event_arm(&f->event, sim_now + sim_net_latency(),
			      on_arrival, f);
}

static void send_end(struct sim_flow *f)
{
	struct sim_chunk *c;

	if (f->ended)
		return;
	c = sim_chunk_new(NULL, 0);
	c->last = true;
	sim_flow_send(f, c);
}

void sim_flows_leave(struct sim_sock *sock)
{
	struct sim_flow *in = sock->in, *out = sock->out;

	sock->in = sock->out = NULL;
	/* If the socket is closed with unread bytes, the peer gets a reset. */
	if (TAILQ_FIRST(&in->arrived)) {
		flow_stop(out);
		sock_error(out->reader, ECONNRESET);
	} else {
		send_end(out);
	}
	in->reader = NULL;
	out->writer = NULL;
	flow_empty(in, &in->arrived);
	if (in->writer)
		sim_file_changed(&in->writer->file);
	flow_free(in);
	/* Data in flight must still arrive after the writer has closed its
	 * socket. */
	if (!TAILQ_FIRST(&out->flight) || !out->reader)
		flow_free(out);
}
