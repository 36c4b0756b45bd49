/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that connect to a proxy but are neither ranks nor peers. Strangers
 * connect to the proxy's peer port, and tools connect to its stats socket. Both
 * ignore the answers. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <mpib/control.h>

#include "peer/protocol.h"
#include "sim_node.h"
#include "sim_wrap.h"

#define PORT 24790

struct visit {
	unsigned node, from, most_ms;
	uint64_t chance;
};

/* Read until the other end closes the connection, at most for `ms`
 * milliseconds. */
static void listen_to(int fd, unsigned ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t until = sim_now + ms * SIM_MS;
	char answer[4096];

	while (sim_now < until) {
		uint64_t left = until - sim_now;
		ssize_t got =
			__wrap_recv(fd, answer, sizeof(answer), MSG_DONTWAIT);

		if (got == 0 || (got < 0 && errno != EAGAIN))
			return;
		if (got < 0)
			__wrap_poll(&p, 1, (int)((left + SIM_MS - 1) / SIM_MS));
	}
}

static void address(struct sockaddr_in *to, unsigned node, uint16_t port)
{
	*to = (struct sockaddr_in){ .sin_family = AF_INET,
				    .sin_port = htons(port) };
	to->sin_addr.s_addr = htonl(10u << 24 | 100u << 16 | (node + 1));
}

/* Make a HELLO with a random mistake. */
static size_t hello(const struct visit *v, uint8_t *frame)
{
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_HELLO,
		.magic = MPIB_PEER_MAGIC,
		.version_min = MPIB_PEER_VERSION_MIN,
		.version = MPIB_PEER_VERSION,
		.node = { .port = PORT, .boot = v->chance, },
	};
	uint8_t addr[16] = { [10] = 0xff,
			     [11] = 0xff,
			     [12] = 10,
			     [13] = 100,
			     [15] = (uint8_t)(v->from + 1) };

	switch (v->chance >> 8 & 7) {
	case 0:
		m.magic++;
		break;
	case 1:
		m.version = m.version_min = MPIB_PEER_VERSION_MIN - 1;
		break;
	case 2:
		m.version = m.version_min = MPIB_PEER_VERSION + 1;
		break;
	case 3:
		/* claim the address of the proxy itself */
		addr[15] = (uint8_t)(v->node + 1);
		break;
	case 4:
		m.node.port = 0;
		break;
	case 5:
		memset(m.challenge, 0x55, sizeof(m.challenge));
		break;
	case 6:
		addr[13] = 7; /* an address in none of the proxy's networks */
		break;
	default: /* do not change the HELLO, but never send a READY */
		break;
	}
	/* Use a port at which no proxy listens, so that the visitor does not
	 * become a peer. */
	if (m.node.port)
		m.node.port = PORT + 1;
	memcpy(&m.node.addr, addr, sizeof(addr));
	return mpib_peer_encode(&m, frame);
}

static size_t words(const struct visit *v, uint8_t *frame)
{
	size_t n;

	switch (v->chance & 3) {
	case 0: /* any message */
		for (n = 0; n < 64; n++)
			frame[n] = (uint8_t)(v->chance >> n % 48);
		return n;
	case 1:
		return 0; /* the visitor sends nothing */
	case 2:
		n = hello(v, frame);
		return n / 2; /* the visitor sends only the first half */
	default:
		return hello(v, frame);
	}
}

static void *stranger(void *arg)
{
	uint8_t frame[MPIB_PEER_FRAME_MAX];
	struct visit *v = arg;
	int fd = __wrap_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct sockaddr_in to;
	size_t n;

	address(&to, v->from, 0);
	__wrap_bind(fd, (void *)&to, sizeof(to));
	address(&to, v->node, PORT);
	__wrap_connect(fd, (void *)&to, sizeof(to));
	sim_wait(sim_now + SIM_MS);
	n = words(v, frame);
	if (n)
		__wrap_send(fd, frame, n, MSG_DONTWAIT);
	listen_to(fd, (unsigned)(v->chance >> 16) % v->most_ms);
	__wrap_close(fd);
	free(v);
	__wrap__exit(0);
	return NULL;
}

static void on_given_back(void *arg)
{
	__wrap_close((int)(uintptr_t)arg);
}

void sim_visit_taken(unsigned node, unsigned net, uint64_t ns)
{
	static struct sim_event ends[SIM_PLAN_NODES];
	int fd = __wrap_socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in at;

	address(&at, node, PORT);
	at.sin_addr.s_addr += htonl(net << 16);
	__wrap_bind(fd, (void *)&at, sizeof(at));
	__wrap_listen(fd, 1);
	sim_event_arm(&ends[node], sim_now + ns, on_given_back,
		      (void *)(uintptr_t)fd);
}

static const char *const commands[] = { "info\n",   "rails\n",	 "devices\n",
					"jobs\n",   "clients\n", "conns\n",
					"lanes\n",  "peers\n",	 "cluster\n",
					"agent\n",  "hist\n",	 "stuck 0\n",
					"why\n",    "events\n",	 "history\n",
					"config\n", "metrics\n", "help\n" };
#define COMMANDS (sizeof(commands) / sizeof(*commands))

static void *tool(void *arg)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct visit *v = arg;

	for (unsigned i = 0; i < 4; i++) {
		const char *text = commands[(v->chance >> 8 * i) % COMMANDS];
		int fd = __wrap_socket(AF_UNIX, SOCK_STREAM, 0);

		/* In half of all cases, the command is "cluster". */
		if (v->chance >> (32 + i) & 1)
			text = "cluster\n";
		snprintf(un.sun_path, sizeof(un.sun_path), "%s/stats.sock",
			 sim_node_dir(v->node));
		if (__wrap_connect(fd, (void *)&un, sizeof(un)) == 0) {
			__wrap_send(fd, text, strlen(text), 0);
			listen_to(fd, 200);
		}
		__wrap_close(fd);
	}
	free(v);
	__wrap__exit(0);
	return NULL;
}

static struct visit *visit_new(unsigned node, unsigned from, uint64_t chance)
{
	struct visit *v = calloc(1, sizeof(*v));

	if (!v)
		abort();
	*v = (struct visit){ .node = node, .from = from, .chance = chance };
	return v;
}

void sim_visit_stranger(unsigned node, unsigned from, uint64_t chance,
			unsigned most_ms)
{
	struct visit *v = visit_new(node, from, chance);

	v->most_ms = most_ms;
	sim_task_new(sim_proc_new("stranger", from, 1234), "stranger", stranger,
		     v);
}

void sim_visit_tool(unsigned node, uint64_t chance)
{
	sim_task_new(sim_proc_new("tool", node, 1000), "tool", tool,
		     visit_new(node, node, chance));
}
