/* SPDX-License-Identifier: Apache-2.0 */
/* A client without the client library, see raw_client.h. */
#include "raw_client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/message.h"

/* Send a message and receive the answer with its descriptors. */
static bool ask(struct raw_client *x, struct mpib_ctl_header *h,
		struct mpib_message *m)
{
	char byte;

	if (mpib_message_send(x->sock, h, NULL, 0) < 0 ||
	    /* The alarm signal of a fuzzer can interrupt recv(). */
	    TEMP_FAILURE_RETRY(recv(x->sock, &byte, 1, MSG_PEEK)) <= 0 ||
	    mpib_message_recv(x->sock, m) <= 0) {
		fprintf(stderr, "raw client: no answer to %u: %m\n", h->type);
		return false;
	}
	if (m->h.status < 0)
		fprintf(stderr, "raw client: %u is refused: %s\n", h->type,
			((struct mpib_ctl_error *)(void *)m->bytes)->why);
	return m->h.status == 0;
}

static void *map(int fd, size_t size, int prot)
{
	void *p = mmap(NULL, size, prot, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

bool raw_attach(struct raw_client *x, int sock)
{
	struct mpib_ctl_hello hello = {
		.h = { .type = MPIB_CTL_HELLO, .len = sizeof(hello) },
		.version = MPIB_ABI_VERSION,
	};
	struct mpib_message m;

	memset(x, 0, sizeof(*x));
	x->sock = sock;
	x->doorbell = -1;
	if (!ask(x, &hello.h, &m) || m.fds < 4)
		return false;
	x->submit = map(m.fd[1], sizeof(*x->submit), PROT_READ | PROT_WRITE);
	x->reply = map(m.fd[2], sizeof(*x->reply), PROT_READ);
	x->doorbell = dup(m.fd[3]);
	mpib_message_close_fds(&m);
	return x->submit && x->reply && x->doorbell >= 0;
}

bool raw_pool(struct raw_client *x, size_t bytes, uint32_t *mr, void **mem)
{
	struct mpib_ctl_pool pool = {
		.h = { .type = MPIB_CTL_POOL, .len = sizeof(pool) },
		.size = bytes,
	};
	struct mpib_message m;

	if (!ask(x, &pool.h, &m) || m.fds != 1)
		return false;
	*mr = ((struct mpib_ctl_region *)(void *)m.bytes)->mr;
	*mem = map(m.fd[0], bytes, PROT_READ | PROT_WRITE);
	mpib_message_close_fds(&m);
	return *mem != NULL;
}

static bool listen_once(struct raw_client *x)
{
	struct mpib_ctl_listen listen = {
		.h = { .type = MPIB_CTL_LISTEN, .len = sizeof(listen) },
	};
	struct mpib_ctl_listening *heard;
	struct mpib_message m;

	if (x->listener)
		return true;
	if (!ask(x, &listen.h, &m))
		return false;
	heard = (void *)m.bytes;
	x->listener = heard->listen_id;
	x->handle = heard->handle;
	return true;
}

uint32_t raw_state(const struct raw_client *x, uint32_t index)
{
	/* This acquire pairs with the release with which the proxy stores the
	 * state. */
	return atomic_load_explicit(&x->reply->conn[index].state,
				    memory_order_acquire);
}

/* Clear the ring, and set the client's tail to the ring's head. */
static void rewind_ring(struct raw_client *x, uint32_t index)
{
	for (unsigned i = 0; i < MPIB_RING_SLOTS; i++)
		atomic_store_explicit(&x->submit->ring[index][i].seq, 0,
				      memory_order_relaxed);
	x->tail[index] = atomic_load_explicit(&x->reply->conn[index].head,
					      memory_order_relaxed);
}

bool raw_pair(struct raw_client *x, uint32_t rx, uint32_t tx)
{
	struct mpib_ctl_accept a = {
		.h = { .type = MPIB_CTL_ACCEPT, .len = sizeof(a) },
		.conn = rx,
	};
	struct mpib_ctl_connect c = {
		.h = { .type = MPIB_CTL_CONNECT, .len = sizeof(c) },
		.conn = tx,
		.traffic_class = -1,
		.number = 1,
	};
	struct mpib_message m;

	if (!listen_once(x) ||
	    getrandom(&c.key, sizeof(c.key), 0) != sizeof(c.key))
		return false;
	a.listen_id = x->listener;
	c.handle = x->handle;
	rewind_ring(x, rx);
	rewind_ring(x, tx);
	if (!ask(x, &a.h, &m) || !ask(x, &c.h, &m))
		return false;
	while (raw_state(x, rx) == MPIB_CONN_PENDING ||
	       raw_state(x, tx) == MPIB_CONN_PENDING)
		usleep(50);
	return true;
}

bool raw_close(struct raw_client *x, uint32_t index)
{
	struct mpib_ctl_id close = {
		.h = { .type = MPIB_CTL_CLOSE, .len = sizeof(close) },
		.id = index,
	};
	struct mpib_message m;

	if (!ask(x, &close.h, &m))
		return false;
	while (raw_state(x, index) != MPIB_CONN_FREE)
		usleep(50);
	return true;
}

void raw_ring(struct raw_client *x, unsigned word, uint64_t bits)
{
	uint64_t one = 1;

	atomic_fetch_or(&x->submit->summary.word[word], bits);
	atomic_fetch_or(&x->submit->summary.top, 1ull << word);
	/* Ignore a full eventfd: it is readable, so the proxy wakes up
	 * anyway. */
	if (write(x->doorbell, &one, sizeof(one)) < 0)
		return;
}

void raw_put(struct raw_client *x, uint32_t index, const struct mpib_desc *d)
{
	struct mpib_ring_slot *s =
		&x->submit->ring[index][x->tail[index] % MPIB_RING_SLOTS];

	s->desc = *d;
	/* This release pairs with the acquire in mpib_ring_pop(). */
	atomic_store_explicit(&s->seq, ++x->tail[index], memory_order_release);
}

void raw_push(struct raw_client *x, uint32_t index, const struct mpib_desc *d)
{
	raw_put(x, index, d);
	raw_ring(x, index / 64, 1ull << index % 64);
}

void raw_detach(struct raw_client *x)
{
	if (x->submit)
		munmap(x->submit, sizeof(*x->submit));
	if (x->reply)
		munmap((void *)(uintptr_t)x->reply, sizeof(*x->reply));
	if (x->doorbell >= 0)
		close(x->doorbell);
	close(x->sock);
}
