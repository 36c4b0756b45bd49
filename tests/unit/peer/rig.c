/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "base/log.h"
#include "peer/internal.h"
#include "sums.h"
#include "test.h"

int rig_setup(void **state)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	rig->seed = 1;
	mpib_log_set_level(getenv("MPIB_TEST_LOG") ? MPIB_LOG_DEBUG
						   : MPIB_LOG_ERROR);
	*state = rig;
	return 0;
}

void rig_up(struct rig *rig, unsigned n)
{
	struct node *node = &rig->node[n];
	struct mpib_broker_opts opts = {
		.loop = &node->loop,
		.engine = &node->engine,
		.addr = rig->v6 ? in6addr_loopback
				: mpib_address_of_ip(htonl(0x7f170001u + n)),
		.port = rig->port[n],
		.key = &rig->key,
		.sout = htonl(rig->sout[n]),
		.networks = rig->networks[n],
		.islands = &rig->islands[n],
		.private_lanes = rig->private_lanes,
		.silence_s = rig->silence_s,
		.grace_s = rig->grace_s,
	};
	char why[200] = "";

	assert_int_equal(mpib_loop_init(&node->loop), 0);
	mpib_loop_advance(&node->loop, 0);
	fake_engine_init(&node->engine, 2, &mpib_broker_events, &node->broker);
	if (rig->agent_dir)
		assert_int_equal(mpib_agent_open(&node->loop, &node->engine,
						 rig->agent_dir,
						 MPIB_AGENT_NO_USER,
						 rig->adaptive, &node->agent),
				 0);
	if (mpib_broker_open(&opts, &node->broker, why, sizeof(why)) < 0 ||
	    mpib_broker_serve(node->broker, node->agent, why, sizeof(why)) < 0)
		fail_msg("%s", why);
}

static void take_down(struct node *node)
{
	mpib_broker_close(node->broker);
	mpib_agent_close(node->agent);
	fake_engine_fini(&node->engine);
	mpib_loop_fini(&node->loop);
	for (unsigned i = 0; i < node->clients; i++) {
		if (node->client[i].attached)
			free(node->client[i].client.reply);
	}
	memset(node, 0, sizeof(*node));
}

void rig_kill(struct rig *rig, unsigned n)
{
	fake_engine_die(&rig->node[n].engine);
	take_down(&rig->node[n]);
}

void rig_cut(struct rig *rig, unsigned n)
{
	struct mpib_peer *p;
	char lost[4096];

	TAILQ_FOREACH(p, &rig->node[n].broker->peers, entry)
	{
		if (!p->link)
			continue;
		mpib_fifo_fini(&p->link->out);
		while (recv(p->link->fd, lost, sizeof(lost), MSG_DONTWAIT) > 0)
			;
		shutdown(p->link->fd, SHUT_RDWR);
	}
}

static void on_gone(void *arg, int status)
{
	struct client *c = arg;

	assert_false(c->gone);
	c->gone = true;
}

int rig_teardown(void **state)
{
	struct rig *rig = *state;
	struct node *n;

	for (n = rig->node; n < rig->node + NODES; n++) {
		if (n->broker)
			fake_engine_hold(&n->engine, false);
		for (unsigned i = 0; n->broker && i < n->clients; i++) {
			struct client *c = &n->client[i];

			if (!c->client.leaving)
				mpib_broker_forget(n->broker, &c->client,
						   on_gone, c);
		}
	}
	rig_pass(rig, 20 * MPIB_SEC);
	for (n = rig->node; n < rig->node + NODES; n++) {
		for (unsigned i = 0; n->broker && i < n->clients; i++)
			assert_true(n->client[i].gone);
		if (n->broker)
			assert_int_equal(fake_conns(&n->engine), 0);
	}
	for (n = rig->node; n < rig->node + NODES; n++) {
		if (n->broker)
			take_down(n);
	}
	if (fake_violation())
		fail_msg("%s", fake_violation());
	fake_reset();
	free(rig);
	return 0;
}

struct client *rig_client(struct rig *rig, unsigned n, uid_t uid,
			  unsigned shard)
{
	struct node *node = &rig->node[n];
	struct client *c = &node->client[node->clients++];

	c->node = node;
	c->engine_client.id = node->clients;
	c->attached = true;
	c->client.uid = uid;
	c->client.shard = shard;
	c->client.engine_client = &c->engine_client;
	c->client.reply = calloc(1, sizeof(struct mpib_reply));
	assert_int_equal(
		mpib_tenant_get(&node->engine, shard, uid, &c->client.tenant),
		0);
	c->engine_client.tenant = c->client.tenant;
	return c;
}

uint32_t rig_state(const struct client *c, uint32_t index)
{
	return atomic_load(&c->client.reply->conn[index].state);
}

void rig_assert_ready(const struct client *a, const struct client *b,
		      uint32_t index)
{
	assert_int_equal(rig_state(a, index), MPIB_CONN_READY);
	assert_int_equal(rig_state(b, index), MPIB_CONN_READY);
}

int rig_error(const struct client *c, uint32_t index)
{
	return c->client.reply->conn[index].error;
}

const char *rig_why(const struct client *c, uint32_t index)
{
	return c->client.reply->why[index];
}

/* With more objects, checking all sums in each turn takes too long. */
#define OBJECTS_LOOKED_AT 500

static void check_sums(const struct mpib_broker *b)
{
	struct sum wrong;

	if (HASH_COUNT(b->conns) + HASH_COUNT(b->listeners) +
		    HASH_COUNT(b->lanes) + HASH_COUNT(b->by_key) >
	    OBJECTS_LOOKED_AT)
		return;
	if (!sums_of_broker(b, &wrong))
		fail_msg("%s: the counter is %llu, but its objects have %llu",
			 wrong.what, (unsigned long long)wrong.owed,
			 (unsigned long long)wrong.have);
}

static int turn(struct node *n)
{
	int ran = n->broker ? mpib_loop_turn(&n->loop, 0) : 0;

	assert_true(ran >= 0);
	if (ran > 0)
		check_sums(n->broker);
	return ran;
}

void rig_step(struct rig *rig)
{
	turn(&rig->node[(unsigned)rand_r(&rig->seed) % NODES]);
}

void rig_settle(struct rig *rig)
{
	int still = 0;

	while (still < 3) {
		unsigned first = (unsigned)rand_r(&rig->seed) % NODES;
		int ran = 0;

		for (unsigned i = 0; i < NODES; i++)
			ran += turn(&rig->node[(first + i) % NODES]);
		still = ran ? 0 : still + 1;
	}
}

void rig_advance(struct rig *rig, uint64_t ns)
{
	for (unsigned i = 0; i < NODES; i++) {
		if (rig->node[i].broker)
			mpib_loop_advance(&rig->node[i].loop, ns);
	}
}

void rig_pass(struct rig *rig, uint64_t ns)
{
	uint64_t each = 100 * MPIB_MSEC;

	rig_settle(rig);
	for (uint64_t t = 0; t < ns; t += each) {
		rig_advance(rig, each);
		rig_settle(rig);
	}
}

void rig_both_up(struct rig *rig, struct client **a, struct client **b,
		 unsigned b_shard)
{
	rig_up(rig, 0);
	rig_up(rig, 1);
	*a = rig_client(rig, 0, 1000, 0);
	*b = rig_client(rig, 1, 1000, b_shard);
}

uint32_t rig_listen(struct client *c, struct mpib_handle *handle)
{
	uint32_t id;

	assert_int_equal(
		mpib_broker_listen(c->node->broker, &c->client, 0, &id, handle),
		0);
	return id;
}

int rig_try_call(struct client *c, uint32_t index, int traffic_class,
		 const struct mpib_handle *handle)
{
	static uint64_t keys;
	const struct mpib_ctl_connect ask = {
		.conn = index,
		.traffic_class = traffic_class,
		.key = ++keys,
		.number = 1,
		.handle = *handle,
	};

	return mpib_broker_connect(c->node->broker, &c->client, &ask, true);
}

void rig_call(struct client *c, uint32_t index, int traffic_class,
	      const struct mpib_handle *handle)
{
	assert_int_equal(rig_try_call(c, index, traffic_class, handle), 0);
}

void rig_accept(struct client *c, uint32_t id, uint32_t index)
{
	assert_int_equal(
		mpib_broker_accept(c->node->broker, &c->client, id, index), 0);
}

void rig_connect(struct rig *rig, struct client *from, uint32_t from_index,
		 struct client *to, uint32_t to_index)
{
	struct mpib_handle handle;
	uint32_t id = rig_listen(to, &handle);

	rig_call(from, from_index, rig->traffic_class, &handle);
	rig_accept(to, id, to_index);
	rig_settle(rig);
	assert_int_equal(rig_state(from, from_index), MPIB_CONN_READY);
	assert_int_equal(rig_state(to, to_index), MPIB_CONN_READY);
	assert_int_equal(
		mpib_broker_close_listen(to->node->broker, &to->client, id), 0);
}

#define STRANGER 0x7f170009u

int rig_stranger(const struct rig *rig)
{
	struct sockaddr_in to = { .sin_family = AF_INET },
			   self = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	self.sin_addr.s_addr = htonl(STRANGER);
	to.sin_addr.s_addr = htonl(0x7f170001u);
	to.sin_port = htons(mpib_broker_port(rig->node[0].broker));
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&self, sizeof(self)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

struct mpib_peer_msg rig_hello(uint16_t port)
{
	return (struct mpib_peer_msg){
		.type = MPIB_PEER_HELLO,
		.magic = MPIB_PEER_MAGIC,
		.version_min = MPIB_PEER_VERSION_MIN,
		.version = MPIB_PEER_VERSION,
		.node = { .addr = mpib_address_of_ip(htonl(STRANGER)),
			  .port = port,
			  .boot = 1 },
	};
}

void rig_say(int fd, const struct mpib_peer_msg *m)
{
	uint8_t frame[MPIB_PEER_FRAME_MAX];
	size_t n = mpib_peer_encode(m, frame);

	assert_int_equal(send(fd, frame, n, MSG_NOSIGNAL), n);
}

void rig_both_connected(struct rig *rig, struct client **a, struct client **b)
{
	rig_both_up(rig, a, b, 0);
	rig_connect(rig, *a, 0, *b, 0);
}
