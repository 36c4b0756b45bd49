/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks by a peer that sends false reports. Such a peer either has the
 * cluster's key, or is in a cluster without a key. The peer requests the node's
 * state endlessly without reading the answers. The peer sends megabytes of
 * unrequested reports in the name of another node, and does not answer
 * requests.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer/protocol.h"
#include "test.h"
#include "victim.h"

#define PEER_PORT 24790
#define LIARS 4

static struct node node[2];
static struct victim *victim;
static char other[32]; /* address that no proxy uses */
/* the attacker writes to this pipe when it has become a peer */
static int ready[2];

static int setup(void **state)
{
	victim = victim_between(node, NULL);
	node_rail(other, sizeof(other), 30);
	return pipe(ready);
}

static bool say(int fd, const struct mpib_peer_msg *m)
{
	uint8_t frame[MPIB_PEER_FRAME_MAX];
	size_t n = mpib_peer_encode(m, frame);

	return send(fd, frame, n, MSG_NOSIGNAL) == (ssize_t)n;
}

/* Become a peer of the first node. Return the socket, or -1. */
static int become_a_peer(uint16_t port)
{
	struct sockaddr_in src = { .sin_family = AF_INET },
			   dst = { .sin_family = AF_INET };
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_HELLO,
		.magic = MPIB_PEER_MAGIC,
		.version_min = MPIB_PEER_VERSION_MIN,
		.version = MPIB_PEER_VERSION,
		.node = { .addr = mpib_address_of_ip(node_address(other)),
			  .port = port,
			  .boot = 0x1234567 },
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char answer[4096];

	src.sin_addr.s_addr = node_address(other);
	dst.sin_addr.s_addr = node_address(node[0].sout);
	dst.sin_port = htons(PEER_PORT);
	if (fd < 0 || bind(fd, (struct sockaddr *)&src, sizeof(src)) ||
	    connect(fd, (struct sockaddr *)&dst, sizeof(dst)) || !say(fd, &m) ||
	    recv(fd, answer, sizeof(answer), 0) <= 0)
		return -1;
	m = (struct mpib_peer_msg){ .type = MPIB_PEER_READY };
	return say(fd, &m) ? fd : -1;
}

/* Make a report of maximum size in which every value is wrong. */
static void lie(struct mpib_peer_msg *m)
{
	struct mpib_node_report *r = &m->report;

	m->type = MPIB_PEER_REPORT;
	memset(r, 0xff, sizeof(*r));
	memset(r->version, '\033', sizeof(r->version));
	snprintf(r->host, sizeof(r->host), "\033[2J\n\"},{\"peer\":\"x");
	r->devices = MPIB_RAILS_MAX / MPIB_RAILS;
	r->rails = MPIB_RAILS;
	r->settings = MPIB_REPORT_SETTINGS;
	r->jobs = MPIB_REPORT_JOBS;
	r->waiting = MPIB_REPORT_WAITING;
	memset(r->drain_why, '\n', sizeof(r->drain_why));
}

/* Send requests and reports endlessly. When the proxy disconnects, connect
 * again. */
static int lie_without_end(void *arg)
{
	const uint16_t *port = arg;
	struct mpib_peer_msg ask = { .type = MPIB_PEER_ASK }, told = { 0 };
	bool first = true;

	lie(&told);
	for (;;) {
		int fd = become_a_peer(*port);

		if (fd < 0) {
			usleep(1000);
			continue;
		}
		if (!say(fd, &told))
			return 2;
		if (first && write(ready[1], "x", 1) != 1)
			return 1;
		first = false;
		while (say(fd, &ask) && say(fd, &told) && say(fd, &ask))
			usleep(50);
		close(fd);
	}
	return 0;
}

/* Return the answer, or NULL. Check that every string of the answer is
 * printable. */
static json_t *ask_politely(const char *command)
{
	json_t *data = node_ask(&node[0], command);
	char *text = json_dumps(data, 0);

	assert_non_null(text);
	assert_null(strstr(text, "\\u00"));
	free(text);
	return data;
}

TEST(a_lying_peer_harms_only_itself)
{
	static uint16_t port[LIARS] = { 1001, 1002, 1003, 1004 };
	pid_t pid[LIARS];

	attack_needs_root();
	for (unsigned i = 0; i < LIARS; i++)
		pid[i] = attacker_begin(lie_without_end, &port[i], ready[0]);
	for (unsigned i = 0; i < 5; i++) {
		json_t *cluster = ask_politely("cluster");

		assert_true(json_array_size(
				    json_object_get(cluster, "nodes")) >= 2);
		json_decref(cluster);
		victim_goes_on(victim, 256);
	}
	for (unsigned i = 0; i < LIARS; i++)
		child_kill(pid[i]);
}

struct test_group test_group = { setup, victim_teardown };
