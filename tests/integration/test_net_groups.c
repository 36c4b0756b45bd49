/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grouped receives through the plugin's table of one ABI version, as NCCL's
 * proxy thread drives them: receives are posted ahead, each tag's sends come in
 * their order but tags in any, what is answered with no request is tried again
 * later, and a buffer is checked by which send of its tag it should have.
 *
 *   test_net_groups ABI
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "node.h"
#include "perf/plug.h"
#include "test.h"

#define TAGS 8 /* a group has most */
#define AHEAD 8 /* groups */
#define HANG_MS 60000

static unsigned abi = 12;
static struct node node;
static struct perf_plug plug;
static void *send_comm, *recv_comm;
static unsigned seed = 1;

static unsigned draw(unsigned n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % n;
}

struct memory {
	char *at;
	void *mh;
};

/* A stream of groups, and where it stands. */
struct stream {
	unsigned groups, tags, ahead;
	size_t room; /* of a buffer */
	bool all; /* each group has every tag; else some, or one */
	bool greedy; /* all that can be sent of a tag goes before the next */
	bool sealed; /* memory that needs no copy */
	struct memory tx, rx;
	unsigned posted, done; /* groups */
	unsigned sent[TAGS], ended[TAGS]; /* groups, by tag */
	void *recv[AHEAD], *send[AHEAD][TAGS];
	unsigned long long moved_ms;
};

static uint32_t mix(uint32_t a, uint32_t b)
{
	uint64_t z = ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 29) * 0xbf58476d1ce4e5b9ull;
	return (uint32_t)(z >> 32);
}

/* Of tags whether group g has it. */
static bool has(const struct stream *s, unsigned g, unsigned tag)
{
	return s->all || g % s->tags == tag || mix(g, tag) & 1;
}

static size_t size_of(const struct stream *s, unsigned g, unsigned tag)
{
	return s->all ? s->room : mix(g, tag + 100) % (s->room + 1);
}

static char *place(const struct stream *s, const struct memory *m, unsigned g,
		   unsigned tag)
{
	return m->at + (g % s->ahead * TAGS + tag) * s->room;
}

static void fill(char *p, size_t len, uint32_t word)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (char)(word + i * 7 + (i >> 9));
}

static void moved(struct stream *s)
{
	s->moved_ms = node_ms();
}

static bool post_receive(struct stream *s)
{
	unsigned g = s->posted;
	void *to[TAGS], *mh[TAGS], **req = &s->recv[g % s->ahead];
	size_t size[TAGS];
	int tag[TAGS], n = 0;

	if (g == s->groups || g - s->done == s->ahead)
		return false;
	for (unsigned i = 0; i < s->tags; i++) {
		unsigned t = (g + i) % s->tags;

		if (!has(s, g, t))
			continue;
		to[n] = place(s, &s->rx, g, t);
		memset(to[n], 0xee, s->room);
		size[n] = s->room;
		mh[n] = s->rx.mh;
		tag[n++] = (int)(1000 + t);
	}
	*req = NULL;
	assert_int_equal(
		perf_plug_irecv(&plug, recv_comm, n, to, size, tag, mh, req),
		NCCL_SUCCESS);
	s->posted += *req != NULL;
	return *req != NULL;
}

/* The tag's next send, unless it is too far ahead. */
static bool post_send(struct stream *s, unsigned t)
{
	unsigned g = s->sent[t];
	void **req = &s->send[g % s->ahead][t];
	size_t len;
	char *from;

	while (g < s->groups && !has(s, g, t))
		g++;
	s->sent[t] = g;
	if (g == s->groups || g >= s->done + s->ahead)
		return false;
	req = &s->send[g % s->ahead][t];
	len = size_of(s, g, t);
	from = place(s, &s->tx, g, t);
	fill(from, len, mix(g, t));
	*req = NULL;
	assert_int_equal(perf_plug_isend(&plug, send_comm, from, len,
					 (int)(1000 + t), s->tx.mh, req),
			 NCCL_SUCCESS);
	s->sent[t] += *req != NULL;
	return *req != NULL;
}

static bool is_over(void **req, int *sizes)
{
	int done = 0;

	assert_int_equal(perf_plug_test(&plug, *req, &done, sizes),
			 NCCL_SUCCESS);
	if (done)
		*req = NULL;
	return done;
}

static void check(const struct stream *s, const int *sizes)
{
	unsigned g = s->done;
	int n = 0;

	for (unsigned i = 0; i < s->tags; i++) {
		unsigned t = (g + i) % s->tags;
		size_t len = size_of(s, g, t);
		const char *to = place(s, &s->rx, g, t);

		if (!has(s, g, t))
			continue;
		assert_int_equal(sizes[n++], len);
		for (size_t k = 0; k < len; k++) {
			if (to[k] != (char)(mix(g, t) + k * 7 + (k >> 9)))
				fail_msg("group %u tag %u: byte %zu of %zu", g,
					 t, k, len);
		}
	}
}

static bool all_sent(const struct stream *s, unsigned g)
{
	for (unsigned t = 0; t < s->tags; t++) {
		if (has(s, g, t) &&
		    (s->sent[t] <= g || s->send[g % s->ahead][t]))
			return false;
	}
	return true;
}

/* A round of the proxy thread. */
static bool step(struct stream *s)
{
	int sizes[TAGS] = { 0 };
	bool any = draw(2) && post_receive(s);

	for (unsigned t = 0; s->greedy && t < s->tags; t++) {
		while (post_send(s, t))
			any = true;
	}
	if (draw(2))
		any |= post_send(s, draw(s->tags));
	for (unsigned i = 0; i < s->ahead; i++) {
		for (unsigned t = 0; t < s->tags; t++) {
			if (s->send[i][t])
				any |= is_over(&s->send[i][t], NULL);
		}
	}
	if (s->done == s->posted)
		return any;
	if (s->recv[s->done % s->ahead] &&
	    is_over(&s->recv[s->done % s->ahead], sizes))
		check(s, sizes);
	if (s->recv[s->done % s->ahead] || !all_sent(s, s->done))
		return any;
	s->done++;
	return true;
}

static void reg(struct stream *s, void *comm, struct memory *m)
{
	size_t len = (size_t)AHEAD * TAGS * s->room;
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	m->at = mmap(NULL, len, PROT_READ | PROT_WRITE,
		     s->sealed ? MAP_SHARED : MAP_PRIVATE, fd, 0);
	assert_true(m->at != MAP_FAILED);
	assert_int_equal(
		s->sealed
			? perf_plug_reg_fd(&plug, comm, m->at, len, fd, &m->mh)
			: perf_plug_reg(&plug, comm, m->at, len, &m->mh),
		NCCL_SUCCESS);
	close(fd);
}

static void unreg(const struct stream *s, void *comm, struct memory *m)
{
	assert_int_equal(perf_plug_dereg(&plug, comm, m->mh), NCCL_SUCCESS);
	munmap(m->at, (size_t)AHEAD * TAGS * s->room);
}

static void run(struct stream s)
{
	reg(&s, send_comm, &s.tx);
	reg(&s, recv_comm, &s.rx);
	moved(&s);
	while (s.done < s.groups) {
		if (step(&s))
			moved(&s);
		else if (node_ms() - s.moved_ms > HANG_MS)
			fail_msg("group %u of %u stands still", s.done,
				 s.groups);
	}
	unreg(&s, send_comm, &s.tx);
	unreg(&s, recv_comm, &s.rx);
}

static void tags_come_in_any_order(void **state)
{
	for (unsigned sealed = 0; sealed < 2; sealed++) {
		run((struct stream){ .groups = 300,
				     .tags = 4,
				     .ahead = 8,
				     .room = 3000,
				     .sealed = sealed });
		run((struct stream){ .groups = 60,
				     .tags = 8,
				     .ahead = 4,
				     .room = 100000,
				     .sealed = sealed });
	}
}

/* Two groups of them are larger than a staging window of 4 MiB. */
static void large_ones_go_through_the_staging_window(void **state)
{
	for (unsigned sealed = 0; sealed < 2; sealed++)
		run((struct stream){ .groups = 10,
				     .tags = 8,
				     .ahead = 2,
				     .room = 500000,
				     .all = true,
				     .sealed = sealed });
}

/* As eight ranks of a node that send through one of them (PXN): the first ones
 * have more sends than there are requests. */
static void a_tag_that_is_far_ahead_keeps_none_out(void **state)
{
	for (unsigned sealed = 0; sealed < 2; sealed++)
		run((struct stream){ .groups = 100,
				     .tags = 8,
				     .ahead = 8,
				     .room = 3000,
				     .all = true,
				     .greedy = true,
				     .sealed = sealed });
}

static void connect_self(void)
{
	char handle[NCCL_NET_HANDLE_MAXSIZE];
	void *listen_comm;

	assert_int_equal(perf_plug_listen(&plug, 0, handle, &listen_comm),
			 NCCL_SUCCESS);
	while (!send_comm || !recv_comm) {
		if (!send_comm)
			assert_int_equal(
				perf_plug_connect(&plug, 0, handle, &send_comm),
				NCCL_SUCCESS);
		if (!recv_comm)
			assert_int_equal(perf_plug_accept(&plug, listen_comm,
							  &recv_comm),
					 NCCL_SUCCESS);
	}
	perf_plug_close_listen(&plug, listen_comm);
}

static void quiet(enum nccl_log_level level, unsigned long flags,
		  const char *where, int line, const char *fmt, ...)
{
	(void)level;
	(void)flags;
	(void)where;
	(void)line;
	(void)fmt;
}

static int setup(void **state)
{
	node_start(&node, 9, "--sup-bw", "512", NULL);
	setenv("MPIB_RUN_DIR", node.dir, 1);
	assert_int_equal(perf_plug_load(&plug, PLUGIN_PATH, (int)abi), 0);
	assert_int_equal(perf_plug_init(&plug, quiet), NCCL_SUCCESS);
	connect_self();
	return 0;
}

static int teardown(void **state)
{
	perf_plug_close_send(&plug, send_comm);
	perf_plug_close_recv(&plug, recv_comm);
	node_stop(&node);
	return 0;
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(tags_come_in_any_order),
	cmocka_unit_test(large_ones_go_through_the_staging_window),
	cmocka_unit_test(a_tag_that_is_far_ahead_keeps_none_out),
	{ 0 },
};
struct test_group test_group = { setup, teardown };
unsigned *test_times = &abi;
