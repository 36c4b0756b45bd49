/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The submit segment, written by a client that follows no rule: descriptors,
 * sequence words, summary bits and indices as they come. The shard answers
 * each bad descriptor by an error on its connection or drops the client, and
 * a proper client beside it still moves its bytes.
 *
 * Input: for each step a byte of what to do, then its bytes.
 */
#include <mpib/client.h>
#include <mpib/segment.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "ipc/message.h"

#define PAIRS 2
#define MEM 65536u
#define STEPS_MAX 256

static struct mpib_client *good;
static struct mpib_conn *good_tx, *good_rx;
static struct mpib_region *good_mr;
static char *good_mem;

struct hostile {
	int sock, doorbell;
	struct mpib_submit *submit;
	const struct mpib_reply *reply;
	uint32_t mr;
	uint64_t tail[2 * PAIRS];
};

static void must(int rc, const char *what)
{
	if (rc < 0)
		fuzz_found(what);
}

static void connect_good(void)
{
	struct mpib_attach_opts opts = { .run_dir = fuzz_run_dir() };
	struct mpib_listener *l;
	struct mpib_handle h;

	must(mpib_attach(&opts, &good), "a proper client is not served");
	must(mpib_listen(good, &h, &l), "listen");
	must(mpib_accept(l, &good_rx), "accept");
	must(mpib_connect(good, &h, -1, &good_tx), "connect");
	while (mpib_ready(good_rx) == 0 || mpib_ready(good_tx) == 0)
		usleep(100);
	good_mem = mpib_mem_alloc(good, 2 * MEM);
	if (!good_mem)
		fuzz_found("no memory for a proper client");
	must(mpib_reg(good, good_mem, 2 * MEM, &good_mr), "register");
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	fuzz_proxy_start();
	connect_good();
	return 0;
}

static void wait_for(struct mpib_request *r, const char *what)
{
	int done = 0;

	for (unsigned i = 0; !done; i++) {
		must(mpib_test(r, &done, NULL), what);
		if (i > 200000)
			fuzz_found("a proper client's message does not arrive");
		if (i > 1000)
			usleep(50);
	}
}

static void move_good_bytes(void)
{
	static uint8_t stamp;
	struct mpib_request *s = NULL, *r = NULL;
	void *to = good_mem + MEM;
	size_t size = MEM;

	memset(good_mem, ++stamp, MEM);
	must(mpib_irecv(good_rx, 1, &to, &size, NULL, &good_mr, &r), "irecv");
	must(mpib_isend(good_tx, good_mem, MEM, 0, good_mr, &s), "isend");
	if (!r || !s)
		fuzz_found("a proper client's ring is full");
	wait_for(s, "a proper client's send failed");
	wait_for(r, "a proper client's receive failed");
	if (memcmp(good_mem, to, MEM))
		fuzz_found("a proper client's bytes changed");
}

/* One question and its answer, with its descriptors. */
static void ask(struct hostile *x, struct mpib_ctl_header *h,
		struct mpib_message *m)
{
	char byte;

	must(mpib_message_send(x->sock, h, NULL, 0), "a question");
	if (recv(x->sock, &byte, 1, MSG_PEEK) <= 0 ||
	    mpib_message_recv(x->sock, m) <= 0 || m->h.status < 0)
		fuzz_found("a proper question was refused");
}

static void *map(int fd, size_t size, int prot)
{
	void *p = mmap(NULL, size, prot, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		fuzz_found("a segment cannot be mapped");
	return p;
}

static void attach(struct hostile *x)
{
	struct mpib_ctl_hello hello = {
		.h = { .type = MPIB_CTL_HELLO, .len = sizeof(hello) },
		.version = MPIB_ABI_VERSION,
	};
	struct mpib_ctl_pool pool = {
		.h = { .type = MPIB_CTL_POOL, .len = sizeof(pool) },
		.size = MEM,
	};
	struct mpib_message m;

	x->sock = fuzz_dial(MPIB_CONTROL_SOCK, SOCK_SEQPACKET);
	ask(x, &hello.h, &m);
	x->submit = map(m.fd[1], sizeof(*x->submit), PROT_READ | PROT_WRITE);
	x->reply = map(m.fd[2], sizeof(*x->reply), PROT_READ);
	x->doorbell = dup(m.fd[3]);
	mpib_message_close_fds(&m);
	ask(x, &pool.h, &m);
	x->mr = ((struct mpib_ctl_region *)(void *)m.bytes)->mr;
	mpib_message_close_fds(&m);
}

static uint32_t conn_state(const struct hostile *x, unsigned i)
{
	return atomic_load_explicit(&x->reply->conn[i].state,
				    memory_order_acquire);
}

/* Index 2 i receives what 2 i + 1 sends. */
static void connect_pairs(struct hostile *x)
{
	struct mpib_ctl_header listen = { .type = MPIB_CTL_LISTEN,
					  .len = sizeof(listen) };
	struct mpib_ctl_listening *heard;
	struct mpib_message m, n;

	ask(x, &listen, &m);
	heard = (void *)m.bytes;
	for (uint32_t i = 0; i < PAIRS; i++) {
		struct mpib_ctl_accept a = {
			.h = { .type = MPIB_CTL_ACCEPT, .len = sizeof(a) },
			.listen_id = heard->listen_id,
			.conn = 2 * i,
		};
		struct mpib_ctl_connect c = {
			.h = { .type = MPIB_CTL_CONNECT, .len = sizeof(c) },
			.conn = 2 * i + 1,
			.traffic_class = -1,
			.handle = heard->handle,
		};

		ask(x, &a.h, &n);
		ask(x, &c.h, &n);
	}
	for (unsigned i = 0; i < 2 * PAIRS; i++) {
		while (conn_state(x, i) == MPIB_CONN_PENDING)
			usleep(100);
	}
}

static void ring_bell(struct hostile *x, uint64_t word)
{
	uint64_t one = 1;

	atomic_fetch_or(&x->submit->summary.word[0], word);
	atomic_fetch_or(&x->submit->summary.top, 1);
	if (write(x->doorbell, &one, sizeof(one)) < 0)
		fuzz_found("the doorbell is gone");
}

/* A descriptor that is nearly right, so that it gets far. */
static void push(struct hostile *x, struct fuzz_input *in)
{
	unsigned i = fuzz_take8(in) % (2 * PAIRS);
	uint8_t twist = fuzz_take8(in);
	struct mpib_ring_slot *s =
		&x->submit->ring[i][x->tail[i] % MPIB_RING_SLOTS];
	struct mpib_desc d = {
		.op = i % 2 ? MPIB_OP_SEND : MPIB_OP_RECV,
		.req = fuzz_take8(in),
		.n = 1,
		.gen = (uint32_t)x->tail[i] + 1,
		.mr = x->mr,
		.off = (uint64_t)fuzz_take8(in) << 8,
		.len = (uint32_t)fuzz_take8(in) << 6,
	};

	d.total = d.len;
	if (twist & 1)
		d.req %= MPIB_REQUESTS;
	if (twist & 2)
		fuzz_take(in, (char *)&d + fuzz_take8(in) % 48, 8);
	if (twist & 4)
		fuzz_take(in, &d, sizeof(d));
	s->desc = d;
	atomic_store(&s->seq, ++x->tail[i]);
	ring_bell(x, 1ull << i);
}

static void scribble(struct hostile *x, struct fuzz_input *in)
{
	_Static_assert(sizeof(struct mpib_submit) < 1 << 23, "offset's mask");
	uint32_t at;
	uint64_t v;

	fuzz_take(in, &at, sizeof(at));
	fuzz_take(in, &v, sizeof(v));
	at %= sizeof(*x->submit) / 8;
	atomic_store((_Atomic uint64_t *)(void *)x->submit + at, v);
	ring_bell(x, v);
}

static void run(struct hostile *x, struct fuzz_input *in)
{
	for (int i = 0; i < STEPS_MAX && in->left > 0; i++) {
		uint8_t what = fuzz_take8(in);

		if (what & 7)
			push(x, in);
		else
			scribble(x, in);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	struct hostile x = { 0 };

	attach(&x);
	connect_pairs(&x);
	run(&x, &in);
	move_good_bytes();
	close(x.sock);
	close(x.doorbell);
	munmap(x.submit, sizeof(*x.submit));
	munmap((void *)(uintptr_t)x.reply, sizeof(*x.reply));
	return 0;
}
