/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that ignores the protocol writes into its submission segment:
 * descriptors, random sequence words, summary bits, and indices. After a bad
 * descriptor, the shard must fail the connection or disconnect the client.
 * Another client, which follows the rules, must still move its bytes.
 *
 * The input is a list of steps. Each step has a byte that selects the action,
 * and the bytes for the action.
 */
#include <mpib/client.h>
#include <mpib/segment.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "raw_client.h"

#define PAIRS 2
#define MEM 65536u
#define STEPS_MAX 256

static struct mpib_client *good;
static struct mpib_conn *good_tx, *good_rx;
static struct mpib_region *good_mr;
static char *good_mem;

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

static void attach(struct raw_client *x, uint32_t *mr)
{
	void *mem;

	if (!raw_attach(x, fuzz_dial(MPIB_CONTROL_SOCK, SOCK_SEQPACKET)) ||
	    !raw_pool(x, MEM, mr, &mem))
		fuzz_found("a proper request was refused");
	munmap(mem, MEM);
	for (uint32_t i = 0; i < PAIRS; i++) {
		if (!raw_pair(x, 2 * i, 2 * i + 1))
			fuzz_found("a proper connect was refused");
	}
}

/* Push a descriptor that passes the shard's first checks. */
static void push(struct raw_client *x, uint32_t mr, struct fuzz_input *in)
{
	unsigned i = fuzz_take8(in) % (2 * PAIRS);
	uint8_t twist = fuzz_take8(in);
	struct mpib_desc d = {
		.op = i % 2 ? MPIB_OP_SEND : MPIB_OP_RECV,
		.req = fuzz_take8(in),
		.n = 1,
		.gen = (uint32_t)x->tail[i] + 1,
		.mr = mr,
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
	raw_push(x, i, &d);
}

static void scribble(struct raw_client *x, struct fuzz_input *in)
{
	uint32_t at;
	uint64_t v;

	fuzz_take(in, &at, sizeof(at));
	fuzz_take(in, &v, sizeof(v));
	at %= sizeof(*x->submit) / 8;
	atomic_store((_Atomic uint64_t *)(void *)x->submit + at, v);
	raw_ring(x, 0, v);
}

static void run(struct raw_client *x, uint32_t mr, struct fuzz_input *in)
{
	for (int i = 0; i < STEPS_MAX && in->left > 0; i++) {
		uint8_t what = fuzz_take8(in);

		if (what & 7)
			push(x, mr, in);
		else
			scribble(x, in);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	struct raw_client x;
	uint32_t mr;

	attach(&x, &mr);
	run(&x, mr, &in);
	move_good_bytes();
	raw_detach(&x);
	return 0;
}
