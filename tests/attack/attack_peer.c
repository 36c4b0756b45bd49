/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks on the peer link. Strangers without the key, and users with forged
 * handles, try to fill the table of peers, to abort the connection attempts of
 * others, and to use up lanes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mover.h"
#include "peer/protocol.h"
#include "test.h"
#include "victim.h"

#define PEER_PORT 24790
#define PEERS 9000
#define ATTACKED 1000 /* messages that the victim moves during a short attack */
#define ELSEWHERE "127.250.6.6"

static struct node node[3];
static char key[64];

/* Connect to node `to` from the address of node `as`. Any user of this machine
 * may bind to this address. Return the socket or -errno. */
static int call_as(const struct node *as, const struct node *to)
{
	struct sockaddr_in src = { .sin_family = AF_INET },
			   dst = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct linger gone = { .l_onoff = 1 };

	src.sin_addr.s_addr = node_address(as->sout);
	dst.sin_addr.s_addr = node_address(to->sout);
	dst.sin_port = htons(PEER_PORT);
	/* Reset the connection at close, so that no port stays in TIME_WAIT. */
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &gone, sizeof(gone));
	if (bind(fd, (struct sockaddr *)&src, sizeof(src)) ||
	    connect(fd, (struct sockaddr *)&dst, sizeof(dst))) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	return fd;
}

static int say_hello(int fd, const struct node *as, uint16_t port)
{
	uint8_t frame[MPIB_PEER_FRAME_MAX];
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_HELLO,
		.magic = MPIB_PEER_MAGIC,
		.version_min = MPIB_PEER_VERSION_MIN,
		.version = MPIB_PEER_VERSION,
		.node = { .addr = mpib_address_of_ip(node_address(as->sout)),
			  .port = port,
			  .boot = 0x1234567 },
	};
	size_t n;

	memset(m.challenge, key[0] ? 7 : 0, sizeof(m.challenge));
	n = mpib_peer_encode(&m, frame);
	return send(fd, frame, n, MSG_NOSIGNAL) == (ssize_t)n ? 0 : -1;
}

/* Send HELLOs from the address of one node. Each HELLO names a different
 * port. */
static int greet_from_every_port(void *arg)
{
	char answer[1024];

	(void)arg;
	for (unsigned i = 0; i < PEERS; i++) {
		int fd = call_as(&node[2], &node[1]);

		if (fd < 0 || say_hello(fd, &node[2], (uint16_t)(1000 + i)))
			return 1;
		if (recv(fd, answer, sizeof(answer), 0) < 0)
			return 2;
		close(fd);
	}
	return 0;
}

/* Send HELLOs from the address of a peer until the test stops this process. */
static int greet_as_the_peer(void *arg)
{
	(void)arg;
	for (;;) {
		int fd = call_as(&node[0], &node[1]);

		if (fd >= 0 && say_hello(fd, &node[0], PEER_PORT) == 0)
			usleep(2000);
		if (fd >= 0)
			close(fd);
		fd = call_as(&node[1], &node[0]);
		if (fd >= 0 && say_hello(fd, &node[1], PEER_PORT) == 0)
			usleep(2000);
		if (fd >= 0)
			close(fd);
	}
	return 0;
}

/* Connect to peers that do not exist, each at a different port. Attach a new
 * client now and then, and keep all clients. */
static int call_everywhere(void *arg)
{
	struct mpib_handle h, real;
	struct mpib_listener *l;
	struct mpib_client *c = tenant_attach(&node[0]);
	struct mpib_conn *conn;
	unsigned refused = 0;

	(void)arg;
	if (!c || mpib_listen(c, &real, &l) < 0)
		return 1;
	for (unsigned i = 0; i < PEERS; i++) {
		if (i % 1000 == 999 && !(c = tenant_attach(&node[0])))
			return 2;
		h = real;
		h.addr = node_address(node[2].sup);
		h.port = (uint16_t)(1000 + i);
		refused += mpib_connect(c, &h, -1, &conn) < 0;
	}
	printf("%u of %d connects refused\n", refused, PEERS);
	pause(); /* keep the clients until the test ends */
	return 0;
}

/* Open a lane for each traffic class. */
static int take_lanes(void *arg)
{
	struct mpib_handle h;
	struct mpib_listener *l;
	struct mpib_client *from = tenant_attach(&node[0]),
			   *to = tenant_attach(&node[1]);
	unsigned failed = 0;

	(void)arg;
	if (!from || !to || mpib_listen(to, &h, &l) < 0)
		return 1;
	for (int class = 1; class <= 255; class ++) {
		struct mpib_conn *tx, *rx;
		int rc;

		if (mpib_accept(l, &rx) < 0 ||
		    mpib_connect(from, &h, class, &tx) < 0)
			return 2;
		while ((rc = mpib_ready(tx)) == 0)
			usleep(100);
		if (rc < 0) {
			if (!failed++)
				printf("class %d: %s\n", class,
				       mpib_strerror());
			mpib_close(rx);
		}
		mpib_close(tx);
	}
	/* With --quota-lanes 16, a peer may open four lanes, a quarter of the
	 * quota. */
	return failed == 255 - 16 / 4 ? 0 : 3;
}

/* Request the traffic class that clients may use, and classes that they may not
 * use. */
static int take_classes(void *arg)
{
	struct mpib_handle h;
	struct mpib_listener *l;
	struct mpib_client *from = tenant_attach(&node[0]),
			   *to = tenant_attach(&node[1]);

	(void)arg;
	if (!from || !to || mpib_listen(to, &h, &l) < 0)
		return 1;
	for (int class = 1; class <= 255; class ++) {
		struct mpib_conn *tx;
		int rc = mpib_connect(from, &h, class, &tx);

		if (rc != (class == 26 || class == 106 ? 0 : -EPERM))
			return 2;
	}
	return 0;
}

static unsigned listen_at(const char *addr, int *fd)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	socklen_t len = sizeof(sa);

	inet_pton(AF_INET, addr, &sa.sin_addr);
	*fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (bind(*fd, (struct sockaddr *)&sa, sizeof(sa)) || listen(*fd, 8) ||
	    getsockname(*fd, (struct sockaddr *)&sa, &len))
		return 0;
	return ntohs(sa.sin_port);
}

/* Ask the proxy to connect to open and closed ports of another network. All
 * answers must be the same, and no connection may arrive. */
static int knock_elsewhere(void *arg)
{
	struct mpib_handle h;
	struct mpib_listener *l;
	struct mpib_client *c = tenant_attach(&node[0]);
	struct mpib_conn *conn;
	struct in_addr there;
	unsigned open;
	int fd;

	(void)arg;
	open = listen_at(ELSEWHERE, &fd);
	if (!c || !open || mpib_listen(c, &h, &l) < 0)
		return 1;
	inet_pton(AF_INET, ELSEWHERE, &there);
	h.addr = there.s_addr;
	for (unsigned i = 0; i < 100; i++) {
		h.port = i % 2 ? (uint16_t)open : (uint16_t)(1 + i);
		if (mpib_connect(c, &h, -1, &conn) != -EACCES)
			return 2;
	}
	usleep(200000);
	return accept(fd, NULL, NULL) < 0 && errno == EAGAIN ? 0 : 3;
}

static void start_all(void **state, const char *const *args)
{
	attack_needs_root();
	for (unsigned i = 0; i < 3; i++)
		attack_start(&node[i], 1 + i, args);
}

static void stop_all(void)
{
	for (unsigned i = 0; i < 3; i++)
		node_stop(&node[i]);
}

/* Check that a new node can connect to node 1. */
static void assert_newcomer_served(void)
{
	victim_newcomer(&node[2], &node[1], 10);
}

TEST(strangers_cannot_fill_the_table_of_peers)
{
	struct victim *v;

	start_all(state, NULL);
	v = victim_start(&node[0], &node[1]);
	assert_int_equal(tenant_run(ATTACKER, greet_from_every_port, NULL), 0);
	victim_goes_on(v, 100);
	assert_newcomer_served();
	victim_end(v);
	stop_all();
}

TEST(a_user_who_connects_everywhere_cannot_fill_the_table_of_peers)
{
	struct victim *v;
	json_int_t all;
	pid_t pid;

	start_all(state, NULL);
	v = victim_start(&node[0], &node[1]);
	all = 1 + PEERS / 1000 + victim_is_here(v);
	pid = tenant_begin(ATTACKER, call_everywhere, NULL);
	victim_goes_on(v, 2000);
	/* Wait until the user has as many clients as its quota allows. */
	for (unsigned i = 0; node_usage(&node[0], "attached") < all && i < 6000;
	     i++)
		usleep(10000);
	victim_goes_on(v, 100);
	victim_newcomer(&node[0], &node[2], 1);
	child_kill(pid);
	victim_end(v);
	stop_all();
}

TEST(a_hello_from_a_peers_address_breaks_no_connection_attempt)
{
	const char *const args[] = { "--peer-key-file", key, NULL };
	struct victim *v;
	pid_t pid;
	int fd;

	attack_needs_root();
	snprintf(key, sizeof(key), "/tmp/mpib-key-XXXXXX");
	fd = mkstemp(key);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "the key of this cluster", 23), 23);
	close(fd);
	start_all(state, args);
	/* Start the attacker before the peer link exists. The attacker
	 * continues when the link is up. */
	pid = tenant_begin(ATTACKER, greet_as_the_peer, NULL);
	usleep(100000);
	v = victim_start(&node[0], &node[1]);
	victim_goes_on(v, 1000);
	child_kill(pid);
	victim_end(v);
	stop_all();
	unlink(key);
	key[0] = '\0';
}

TEST(lanes_of_a_user_are_bounded)
{
	const char *const args[] = { "--quota-lanes", "16", NULL };
	struct victim *v;

	start_all(state, args);
	v = victim_start(&node[0], &node[1]);
	while (atomic_load(&v->messages) < ATTACKED)
		assert_int_equal(tenant_run(ATTACKER, take_lanes, NULL), 0);
	victim_goes_on(v, 100);
	assert_newcomer_served();
	victim_end(v);
	stop_all();
}

TEST(only_operators_can_allow_traffic_classes)
{
	const char *const args[] = { "--qp-traffic-classes", "26,106", NULL };
	struct victim *v;

	start_all(state, args);
	v = victim_start(&node[0], &node[1]);
	while (atomic_load(&v->messages) < ATTACKED)
		assert_int_equal(tenant_run(ATTACKER, take_classes, NULL), 0);
	victim_goes_on(v, 100);
	victim_end(v);
	stop_all();
}

TEST(a_users_handle_causes_no_connects_to_other_networks)
{
	char nets[64];
	const char *const args[] = { "--peer-networks", nets, NULL };
	struct in_addr in;
	struct victim *v;

	attack_needs_root();
	node_rail(nets, sizeof(nets), 1);
	inet_pton(AF_INET, nets + strlen("soft:"), &in);
	in.s_addr &= htonl(0xffffff00);
	inet_ntop(AF_INET, &in, nets, sizeof(nets));
	strcat(nets, "/24");
	start_all(state, args);
	v = victim_start(&node[0], &node[1]);
	assert_int_equal(tenant_run(ATTACKER, knock_elsewhere, NULL), 0);
	victim_goes_on(v, 100);
	assert_newcomer_served();
	victim_end(v);
	stop_all();
}
