/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs of sends and receives. Each program completes on NCCL's
 * net_ib, which accepts a send only if the oldest receive with a free buffer
 * has the send's tag. Each program runs first on a model of net_ib, then on the
 * client library with a model of the shard. The program must complete on both,
 * with any number of tags, groups of any size, and any extra sends that no
 * receive matches. The sends of a tag must keep their order.
 */
#include <string.h>

#include "ipc/client.h"
#include "loop.h"
#include "test.h"

#define RECEIVES 120
#define SENDS (RECEIVES * MPIB_GROUP_MAX)
#define TAGS 64
#define AHEAD 32 /* maximum number of receives that are posted but not filled */
/* maximum number of buffers that are announced to the sender */
#define SLOTS 64
#define RANGES 64 /* maximum number of ranges that the shard accepts */
/* maximum number of sends that net_ib allows on a connection */
#define OUTSTANDING 256
#define NOBODY TAGS /* no receive has this tag or a higher one */
#define UNWANTED 400 /* maximum number of sends with tags of at least NOBODY */
/* the program counts as hanging if nothing happens in this many rounds */
#define ROUNDS 20000

/* What the program does if a send is not accepted. */
enum order {
	ANY_TAG, /* try a send with another, random tag */
	/* try sends of the same tag while possible, then of the next tag */
	TAG_BY_TAG,
	/* try the same send again; the sends have the order of the receives */
	INSISTS,
	ORDERS
};

struct program {
	enum order order;
	unsigned tags, receives, sends;
	/* Maximum number of outstanding sends: in total for INSISTS, otherwise
	 * per tag. */
	unsigned most;
	unsigned unwanted; /* number of extra sends */
	unsigned n[RECEIVES]; /* number of buffers of each receive */
	int tag[RECEIVES][MPIB_GROUP_MAX];
	int list[SENDS]; /* the tags of the sends in order, for INSISTS */
	unsigned of[TAGS]; /* number of sends with each tag */
	/* maximum size of a send in bytes; 0: all sends are empty */
	size_t size;
	bool mixed; /* some sends are empty */
};

static unsigned seed;

static unsigned draw(unsigned n)
{
	return (unsigned)rand_r(&seed) % n;
}

static void draw_program(struct program *p)
{
	static const size_t size[] = { 0, 0, 3000, 70000, 300000 };

	memset(p, 0, sizeof(*p));
	p->order = draw(ORDERS);
	p->tags = 1 + draw(draw(2) ? TAGS : 16);
	p->receives = 1 + draw(RECEIVES);
	p->most = p->order == INSISTS ? OUTSTANDING : MPIB_REQUESTS;
	p->most -= draw(2) * draw(p->most - MPIB_GROUP_MAX + 1);
	p->unwanted = draw(3) ? 0 : draw(UNWANTED + 1);
	p->size = size[draw(5)];
	p->mixed = draw(2);
	if (p->size > 3000)
		p->receives = 1 + p->receives / 8;
	for (unsigned i = 0, most = 1 + draw(MPIB_GROUP_MAX); i < p->receives;
	     i++) {
		p->n[i] = 1 + draw(most);
		for (unsigned k = 0; k < p->n[i]; k++) {
			p->tag[i][k] = (int)draw(p->tags);
			p->of[p->tag[i][k]]++;
		}
		for (unsigned k = 0, by = draw(8); k < p->n[i]; k++)
			p->list[p->sends++] = p->tag[i][(k + by) % p->n[i]];
	}
}

/* The state of the receives, for both models. */
static const struct program *prog;
/* Number of filled receives, and a mask of the filled buffers of the next
 * receive. */
static unsigned answered, head_taken;
static unsigned posted; /* number of posted receives */

/* Return the buffer that a send with this tag fills in the oldest receive with
 * a free buffer, or -1. */
static int wants(int tag)
{
	if (answered == posted)
		return -1;
	for (unsigned k = 0; k < prog->n[answered]; k++) {
		if (!(head_taken & 1u << k) && prog->tag[answered][k] == tag)
			return (int)k;
	}
	return -1;
}

static void take(int k)
{
	head_taken |= 1u << k;
	if (head_taken == (1u << prog->n[answered]) - 1) {
		answered++;
		head_taken = 0;
	}
}

/* The functions of a transport. */
struct net {
	bool (*send)(int tag); /* returns false if the send is not accepted */
	/* tests the sends, and counts those that have completed */
	void (*test)(void);
	void (*turn)(void);
};

static bool ib_send(int tag)
{
	int k = wants(tag);

	if (k >= 0)
		take(k);
	return k >= 0;
}

static unsigned ended, ended_of[TAGS];

static void end_send(int tag)
{
	if (tag >= NOBODY)
		return;
	ended++;
	ended_of[tag]++;
}

static unsigned ib_seen;

static void ib_test(void)
{
	for (; ib_seen < answered; ib_seen++) {
		for (unsigned k = 0; k < prog->n[ib_seen]; k++)
			end_send(prog->tag[ib_seen][k]);
	}
}

/* The model of the shard. The receiver sees each completion immediately. */
static struct mpib_desc range[RANGES];
static unsigned ranges;
/* for each request slot; 1: the send has a receive, and some of its parts were
 * not posted yet */
static uint8_t filling[MPIB_REQUESTS];
static struct mpib_desc flying[4096];
static unsigned first_flying, last_flying;
static struct mpib_request *out[2048];
static int tag_of[2048];
static unsigned outs, unwanted_out;

/* Sizes of the sends of each tag in the order of their posts, and how many of
 * these sends are matched. */
static uint32_t size_of[TAGS][SENDS];
static unsigned posted_of[TAGS], taken_of[TAGS];

static void take_descriptors(void)
{
	struct mpib_desc d;

	while (ranges < RANGES && mpib_ring_pop(&f->conn[0].ring, &d)) {
		assert_true(d.len || !d.total);
		range[ranges++] = d;
	}
	mpib_ring_publish(&f->conn[0].ring);
}

static void drop_range(unsigned i)
{
	memmove(&range[i], &range[i + 1], (--ranges - i) * sizeof(range[0]));
}

/* Post the first range that can be posted. Return false if no range can be
 * posted. */
static bool post_one(void)
{
	for (unsigned i = 0; i < ranges; i++) {
		struct mpib_desc d = range[i];
		int k = d.pos == 0 ? wants(d.tag) : -1;

		if (d.pos == 0 && k < 0)
			continue;
		if (d.pos > 0 && !filling[d.req])
			continue;
		drop_range(i);
		filling[d.req] = d.pos + d.len < d.total;
		if (k >= 0) {
			assert_int_equal(d.total,
					 size_of[d.tag][taken_of[d.tag]++]);
			take(k);
		}
		flying[last_flying++ % 4096] = d;
		return true;
	}
	return false;
}

static void tell_wants(void)
{
	int32_t tag[MPIB_GROUP_MAX];
	unsigned n = 0;

	if (answered == posted || !ranges)
		return; /* without a range, the shard does not look for a CTS */
	for (unsigned k = 0; k < prog->n[answered]; k++) {
		if (!(head_taken & 1u << k))
			tag[n++] = prog->tag[answered][k];
	}
	mpib_want_tell(&f->reply->conn[0].want, f->conn[0].ring.next, tag, n);
}

static void end_one(void)
{
	struct mpib_desc d = flying[first_flying++ % 4096];
	struct mpib_completion *cpl = &f->reply->completion[0][d.req];

	if (d.pos + d.len < d.total)
		mpib_completion_advance(cpl, d.gen, d.pos + d.len);
	else
		mpib_completion_finish(cpl, d.gen, (int32_t)d.total);
}

static unsigned announced(void)
{
	unsigned n = 0;

	for (unsigned i = answered; i < posted; i++)
		n += prog->n[i];
	return n;
}

static void post_receives(void)
{
	while (posted < prog->receives && posted - answered < AHEAD &&
	       announced() + prog->n[posted] <= SLOTS && draw(4))
		posted++;
}

static void mpib_turn(void)
{
	post_receives();
	take_descriptors();
	while (post_one())
		;
	tell_wants();
	while (first_flying != last_flying && draw(4))
		end_one();
}

static bool post(int tag, struct mpib_request **r)
{
	size_t size = prog->size ? 1 + draw((unsigned)prog->size) : 0;
	void *data = from;

	if (prog->mixed && draw(2))
		size = 0;
	assert_int_equal(
		mpib_isend(tx, data, size, tag, size ? from_region : NULL, r),
		0);
	if (*r && tag < NOBODY)
		size_of[tag][posted_of[tag]++] = (uint32_t)size;
	return *r;
}

static bool mpib_send(int tag)
{
	tag_of[outs] = tag;
	return post(tag, &out[outs]) && ++outs;
}

static void mpib_over(void)
{
	unsigned i = draw(2) ? 0 : draw(outs + 1);
	int done;

	while (i < outs) {
		assert_int_equal(mpib_test(out[i], &done, NULL), 0);
		if (!done) {
			i++;
			continue;
		}
		end_send(tag_of[i]);
		tag_of[i] = tag_of[--outs];
		out[i] = out[outs];
	}
}

static const struct net ib = { ib_send, ib_test, post_receives };
static const struct net mpib = { mpib_send, mpib_over, mpib_turn };

/* The progress of the program: accepted sends, and the tag that is tried. */
static unsigned sent, sent_of[TAGS], tag_now;

static bool offer(const struct net *net, int tag)
{
	unsigned under_way = prog->order == INSISTS
				     ? sent - ended
				     : sent_of[tag] - ended_of[tag];

	if (under_way == prog->most || sent_of[tag] == prog->of[tag] ||
	    !net->send(tag))
		return false;
	sent_of[tag]++;
	sent++;
	return true;
}

static void offer_some(const struct net *net)
{
	switch (prog->order) {
	case INSISTS:
		while (sent < prog->sends && offer(net, prog->list[sent]))
			;
		break;
	case TAG_BY_TAG:
		for (unsigned i = 0; i < prog->tags; i++) {
			tag_now = (tag_now + 1) % prog->tags;
			while (offer(net, (int)tag_now))
				;
		}
		break;
	default:
		for (unsigned i = 0; i < prog->tags; i++)
			offer(net, (int)draw(prog->tags));
	}
}

static void offer_unwanted(const struct net *net)
{
	struct mpib_request *r;

	for (unsigned i = 0; i < 20 && unwanted_out < prog->unwanted; i++) {
		if (net == &mpib &&
		    !post(NOBODY + (int)draw(1 + prog->unwanted / 10), &r))
			return;
		unwanted_out++;
	}
}

/* Run the program on a transport. An INSISTS program tests its sends only when
 * it may not send more, or has sent everything. */
static void run(const struct net *net, unsigned number)
{
	unsigned idle = 0, before = 0;

	answered = head_taken = posted = sent = ended = tag_now = 0;
	memset(sent_of, 0, sizeof(sent_of));
	memset(ended_of, 0, sizeof(ended_of));
	while (ended < prog->sends) {
		offer_unwanted(net);
		offer_some(net);
		net->turn();
		if (sent - ended == prog->most || sent == prog->sends ||
		    (prog->order != INSISTS && draw(2)))
			net->test();
		idle = answered + ended + sent == before ? idle + 1 : 0;
		before = answered + ended + sent;
		if (idle == ROUNDS)
			fail_msg("program %u hangs on %s: order %u, %u tags, "
				 "%u of %u receives answered, %u of %u sends "
				 "accepted, %u ended, %u extra sends",
				 number, net == &ib ? "net_ib" : "mpib",
				 prog->order, prog->tags, answered,
				 prog->receives, sent, prog->sends, ended,
				 unwanted_out);
	}
}

TEST_OF(any_program_that_net_ib_completes_also_completes_here, loop_start,
	loop_stop)
{
	static struct program p;

	prog = &p;
	for (unsigned number = 1; number <= 400; number++) {
		seed = number;
		draw_program(&p);
		ib_seen = unwanted_out = 0;
		run(&ib, number);
		ranges = first_flying = last_flying = outs = unwanted_out = 0;
		memset(filling, 0, sizeof(filling));
		memset(posted_of, 0, sizeof(posted_of));
		memset(taken_of, 0, sizeof(taken_of));
		run(&mpib, number);
		mpib_close(tx);
		mpib_close(rx);
		connect_both();
	}
}
