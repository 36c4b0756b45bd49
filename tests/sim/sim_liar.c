/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A liar is a program that speaks the peer protocol but is not a proxy. A liar
 * connects to a proxy as a peer would, and then breaks the protocol. A liar
 * answers proxies that connect to its address, too. A proxy connects to a liar
 * if a rank uses a handle with the liar's address. A rank with such a handle is
 * called a stray. No node has the address of a liar, so a liar cannot break a
 * node's link.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <mpib/client.h>
#include <mpib/control.h>
#include <mpib/wire.h>

#include "peer/protocol.h"
#include "sim_node.h"
#include "sim_wrap.h"

#define PORT 24790
/* last byte of the first liar's address; no node's address has this byte */
#define FIRST 20
#define HOSTS 2
#define CALLS 8
#define WAITS_MS 400

struct liar {
	unsigned node;
	uint32_t ip; /* the liar's address */
	struct sim_rng r;
};

static unsigned made;

static void address(struct sockaddr_in *to, uint32_t ip, uint16_t port)
{
	*to = (struct sockaddr_in){ .sin_family = AF_INET,
				    .sin_port = htons(port) };
	to->sin_addr.s_addr = htonl(ip);
}

static uint32_t ip_of(unsigned last)
{
	return 10u << 24 | 100u << 16 | last;
}

static void name_node(struct mpib_node_id *node, uint32_t ip)
{
	*node = (struct mpib_node_id){
		.addr = mpib_address_of_ip(htonl(ip)),
		.port = PORT,
		.boot = 7,
		.sout = htonl(ip),
	};
}

static void fill(struct sim_rng *r, void *bytes, size_t n)
{
	uint8_t *at = bytes;

	for (size_t i = 0; i < n; i++)
		at[i] = (uint8_t)sim_rng_next(r);
}

/* `b` contains a random byte. Set `b` to 0 or 1, since a bool has no other
 * value. */
static void fit(bool *b)
{
	uint8_t v;

	memcpy(&v, b, sizeof(v));
	*b = v & 1;
}

static void fill_lane(struct sim_rng *r, struct mpib_lane_info *i)
{
	fill(r, i, sizeof(*i));
	fit(&i->delivered);
	i->imm_version = sim_chance(r, 2) ? MPIB_IMM_V1 : MPIB_IMM_V2;
	i->mode = (uint8_t)sim_draw(r, 4);
	i->path = (uint8_t)sim_draw(r, 4);
	i->rails = (uint8_t)(1 + sim_draw(r, MPIB_RAILS));
	i->spread = (uint8_t)sim_draw(r, 5);
	i->away = (uint8_t)sim_draw(r, 2);
	for (unsigned n = 0; n < i->rails; n++) {
		i->rail[n].qps = (uint8_t)sim_draw(r, 5);
		i->rail[n].mtu = (uint8_t)sim_draw(r, 7);
		i->rail[n].max_msg_sz = (uint32_t)sim_draw_wide(r, 1, 1u << 31);
		i->rail[n].ece = sim_chance(r, 2);
	}
}

static void fill_text(struct sim_rng *r, char *text, size_t size)
{
	fill(r, text, size);
	text[sim_draw(r, size)] = '\0';
}

static void fill_report(struct sim_rng *r, struct mpib_node_report *m)
{
	fill(r, m, sizeof(*m));
	fill_text(r, m->version, sizeof(m->version));
	fill_text(r, m->host, sizeof(m->host));
	m->devices = (uint8_t)sim_draw(r, 3);
	m->rails = (uint8_t)sim_draw(r, 3);
	m->settings = (uint8_t)sim_draw(r, MPIB_REPORT_SETTINGS + 1);
	m->jobs = (uint8_t)sim_draw(r, MPIB_REPORT_JOBS + 1);
	m->waiting = (uint8_t)sim_draw(r, MPIB_REPORT_WAITING + 1);
}

static void fill_rail(struct sim_rng *r, struct mpib_rail_msg *m)
{
	fill(r, m, sizeof(*m));
	fit(&m->on);
	fit(&m->more);
	fit(&m->lost);
	fit(&m->info.ece);
	m->type = (uint8_t)sim_draw(r, 6);
	m->rail = (uint8_t)sim_draw(r, 3);
	m->cause = (uint8_t)sim_draw(r, 16);
	m->info.qps = (uint8_t)sim_draw(r, 5);
	m->bitmaps = (uint8_t)sim_draw(r, 3);
	for (unsigned i = 0; i < m->bitmaps; i++) {
		fit(&m->bitmap[i].sender);
		m->bitmap[i].slots = (uint16_t)sim_draw(r, 64);
	}
}

/* Make a random message of type `type`. If `type` is 0, choose a random
 * type. */
static size_t lie(struct liar *me, unsigned type, uint8_t *frame)
{
	struct mpib_peer_msg m;
	struct sim_rng *r = &me->r;
	size_t n;

	fill(r, &m, sizeof(m));
	if (!type)
		type = (unsigned)sim_draw(r, MPIB_PEER_LANE_KEPT + 1);
	m.type = (enum mpib_peer_type)(type ? type : MPIB_PEER_REPORT);
	m.to = (uint32_t)sim_draw(r, 8);
	m.from = (uint32_t)sim_draw(r, 4);
	m.name = (struct mpib_conn_name){
		.key = sim_draw(r, 4),
		.uid = 1000 + (uint32_t)sim_draw(r, 2),
		.sender = (uint32_t)sim_draw(r, 2),
	};
	m.key.uid = 1000 + (uint32_t)sim_draw(r, 2);
	m.key.from_shard = (uint16_t)sim_draw(r, 2);
	m.key.to_shard = (uint16_t)sim_draw(r, 3);
	m.key.serial = sim_draw(r, 2);
	m.key.traffic_class = 0;
	m.conn.id %= MPIB_WIRE_CONNS_MAX;
	m.error = -(int)sim_draw(r, 5000);
	fill_text(r, m.why, sizeof(m.why));
	fill_lane(r, &m.lane_info);
	fill_rail(r, &m.rail);
	fill_report(r, &m.report);
	if (sim_chance(r, 2))
		name_node(&m.node, me->ip);
	n = mpib_peer_encode(&m, frame);
	/* change any byte: the type, a count, or the length of a text */
	if (sim_chance(r, 3))
		frame[4 + sim_draw(r, n - 4)] = (uint8_t)sim_rng_next(r);
	if (sim_chance(r, 16))
		frame[sim_draw(r, 4)] ^= (uint8_t)sim_rng_next(r);
	return n;
}

static void say(int fd, const struct mpib_peer_msg *m)
{
	uint8_t frame[MPIB_PEER_FRAME_MAX];

	__wrap_send(fd, frame, mpib_peer_encode(m, frame), MSG_DONTWAIT);
}

static void say_lies(struct liar *me, int fd)
{
	uint8_t frame[MPIB_PEER_FRAME_MAX];

	for (uint64_t n = 1 + sim_draw(&me->r, 4); n > 0; n--) {
		__wrap_send(fd, frame, lie(me, 0, frame), MSG_DONTWAIT);
		sim_wait(sim_now + sim_draw(&me->r, 2 * SIM_MS));
	}
}

/* Wait at most `ms` milliseconds for an answer, and ignore its content. */
static void hear(int fd, unsigned ms)
{
	uint8_t heard[4096];

	for (unsigned i = 0; i < ms; i++) {
		sim_wait(sim_now + SIM_MS);
		if (__wrap_recv(fd, heard, sizeof(heard), MSG_DONTWAIT) >= 0)
			return;
	}
}

static void call_proxy(struct liar *me)
{
	int fd = __wrap_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct mpib_peer_msg hello = {
		.type = MPIB_PEER_HELLO,
		.magic = MPIB_PEER_MAGIC,
		.version_min = MPIB_PEER_VERSION_MIN,
		.version = MPIB_PEER_VERSION,
	};
	struct mpib_peer_msg ready = { .type = MPIB_PEER_READY };
	struct sockaddr_in to;
	uint8_t frame[MPIB_PEER_FRAME_MAX];

	address(&to, me->ip, 0);
	__wrap_bind(fd, (void *)&to, sizeof(to));
	address(&to, ip_of(me->node + 1), PORT);
	__wrap_connect(fd, (void *)&to, sizeof(to));
	sim_wait(sim_now + SIM_MS);
	name_node(&hello.node, me->ip);
	hello.node.boot += sim_draw(&me->r, 2);
	if (sim_chance(&me->r, 3))
		fill(&me->r, hello.challenge, sizeof(hello.challenge));
	if (sim_chance(&me->r, 6))
		__wrap_send(fd, frame, lie(me, 0, frame), MSG_DONTWAIT);
	else
		say(fd, &hello);
	hear(fd, 10);
	if (sim_chance(&me->r, 6))
		__wrap_send(fd, frame, lie(me, 0, frame), MSG_DONTWAIT);
	else
		say(fd, &ready);
	say_lies(me, fd);
	hear(fd, 2);
	__wrap_close(fd);
}

/* Answer a proxy that has connected to the liar. Most answers have one
 * mistake. */
static void answer(struct liar *me, int fd)
{
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_WELCOME,
		.version = MPIB_PEER_VERSION,
	};
	uint8_t frame[MPIB_PEER_FRAME_MAX];
	unsigned how = (unsigned)sim_draw(&me->r, 6);

	hear(fd, 10);
	name_node(&m.node, me->ip);
	if (how == 0)
		m.version = MPIB_PEER_VERSION + 1;
	if (how == 1)
		m.node.port++;
	if (how == 2)
		fill(&me->r, m.proof, sizeof(m.proof));
	if (how == 3)
		m.type = MPIB_PEER_PING;
	if (how == 4)
		__wrap_send(fd, frame, lie(me, MPIB_PEER_REFUSED, frame),
			    MSG_DONTWAIT);
	else
		say(fd, &m);
	say_lies(me, fd);
	hear(fd, 2);
	__wrap_close(fd);
}

static void *answers(void *arg)
{
	int fd = __wrap_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), got;
	struct liar *me = arg;
	struct sockaddr_in at;

	address(&at, me->ip, PORT);
	if (__wrap_bind(fd, (void *)&at, sizeof(at)) == 0)
		__wrap_listen(fd, 16);
	for (unsigned i = 0; i < WAITS_MS; i++) {
		sim_wait(sim_now + SIM_MS);
		got = __wrap_accept4(fd, NULL, NULL, SOCK_NONBLOCK);
		if (got >= 0)
			answer(me, got);
	}
	__wrap_close(fd);
	free(me);
	__wrap__exit(0);
	return NULL;
}

static void *calls(void *arg)
{
	struct liar *me = arg;

	for (uint64_t n = 1 + sim_draw(&me->r, CALLS); n > 0; n--)
		call_proxy(me);
	free(me);
	__wrap__exit(0);
	return NULL;
}

/* Connect with a handle that has the liar's address, as if the handle had been
 * damaged outside mpib. */
static void connect_to(struct mpib_client *c, struct liar *me)
{
	struct mpib_handle h = {
		.magic = MPIB_HANDLE_MAGIC,
		.version = MPIB_ABI_VERSION,
		.addr = htonl(me->ip),
		.port = PORT,
		.shard = (uint16_t)sim_draw(&me->r, 2),
		.nonce = sim_draw(&me->r, 8),
	};
	struct mpib_conn *conn;

	/* In some cases, put other values into the handle: a node's address, an
	 * IPv6 address, or a shard that does not exist. */
	if (sim_chance(&me->r, 3))
		h.addr = htonl(ip_of(1 + (unsigned)sim_draw(&me->r, 2)));
	if (sim_chance(&me->r, 3))
		h.shard = 7;
	if (sim_chance(&me->r, 4)) {
		memset(h.addr6, 0xff, 2);
		h.addr = 0;
	}
	if (mpib_connect(c, &h, -1, &conn) < 0)
		return;
	for (unsigned i = 0; i < WAITS_MS / 4 && mpib_ready(conn) == 0; i++)
		sim_wait(sim_now + SIM_MS);
	mpib_close(conn);
}

static void *strays(void *arg)
{
	struct liar *me = arg;
	struct mpib_attach_opts opts = {
		.size = sizeof(opts),
		.run_dir = sim_node_dir(me->node),
		.name = "stray",
		.timeout_ms = 100,
	};
	struct mpib_client *c;

	if (mpib_attach(&opts, &c) == 0) {
		for (unsigned n = 0; n < 3; n++)
			connect_to(c, me);
		mpib_detach(c);
	}
	free(me);
	__wrap__exit(0);
	return NULL;
}

static void begin(const char *name, const struct liar *like, uid_t uid,
		  void *(*fn)(void *))
{
	struct liar *me = calloc(1, sizeof(*me));

	if (!me)
		abort();
	*me = *like;
	me->r.state += sim_rng_next(&me->r) ^ uid;
	sim_task_new(sim_proc_new(name, me->node, uid), name, fn, me);
}

void sim_visit_liar(unsigned node, uint64_t chance)
{
	struct liar like = { .node = node,
			     .ip = ip_of(FIRST + made++ % HOSTS),
			     .r = { .state = chance } };

	begin("liar", &like, 1234, calls);
	begin("answers", &like, 1235, answers);
	begin("stray", &like, 1000, strays);
}

bool sim_liars_came(void)
{
	return made > 0;
}
