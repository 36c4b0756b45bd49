/* SPDX-License-Identifier: Apache-2.0 */
/* Move and check messages on one connection, see mover.h. */
#include "mover.h"

#include <errno.h>
#include <fcntl.h>
#include <mpib/control.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"

/* longest time of a connect or a request; after this time it counts as hung */
#define HANGS_NS 60000000000u

static uint64_t next(struct mover *m)
{
	m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
	return m->seed >> 20;
}

static int attach(const char *dir, struct mpib_client **c)
{
	struct mpib_attach_opts opts = {
		.size = sizeof(opts),
		.run_dir = dir,
		.name = "mover",
		.timeout_ms = 60000,
	};

	return mpib_attach(&opts, c);
}

static bool knows_devices(const struct mover *m)
{
	struct mpib_node_info from, to;

	mpib_query(m->from, &from);
	mpib_query(m->to, &to);
	return from.dmabuf && to.dmabuf;
}

static int get_device(struct mpib_client *c, size_t size, char **at,
		      struct mpib_region **mr)
{
	int fd = memfd_create("mover", MFD_CLOEXEC | MFD_ALLOW_SEALING), rc;
	void *map;

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
		return -errno;
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	*at = map;
	rc = mpib_reg_fd(c, map, size, 0, fd, MPIB_REG_DMABUF, mr);
	close(fd);
	return rc;
}

static int get_memory(struct mover *m, bool direct)
{
	int rc;

	m->device = direct && knows_devices(m);
	if (m->device) {
		rc = get_device(m->from, m->room, &m->src, &m->tx_mr);
		return rc < 0 ? rc
			      : get_device(m->to, m->room, &m->dst, &m->rx_mr);
	}
	m->allocated = direct;
	m->src = direct ? mpib_mem_alloc(m->from, m->room) : malloc(m->room);
	m->dst = direct ? mpib_mem_alloc(m->to, m->room) : malloc(m->room);
	if (!m->src || !m->dst)
		return -ENOMEM;
	rc = mpib_reg(m->from, m->src, m->room, &m->tx_mr);
	if (rc < 0)
		return rc;
	return mpib_reg(m->to, m->dst, m->room, &m->rx_mr);
}

int mover_open(struct mover *m, const char *from, const char *to, size_t room,
	       bool direct, uint64_t seed)
{
	struct mpib_handle h;
	int rc;

	*m = (struct mover){ .room = room, .seed = seed };
	rc = attach(from, &m->from);
	if (rc == 0)
		rc = attach(to, &m->to);
	if (rc == 0)
		rc = get_memory(m, direct);
	if (rc == 0)
		rc = mpib_listen(m->to, &h, &m->listener);
	if (rc == 0)
		rc = mpib_accept(m->listener, &m->rx);
	return rc == 0 ? mpib_connect(m->from, &h, -1, &m->tx) : rc;
}

int mover_ready(struct mover *m)
{
	int tx = mpib_ready(m->tx), rx = mpib_ready(m->rx);

	if (tx < 0 || rx < 0)
		return tx < 0 ? tx : rx;
	return tx && rx;
}

/* Fill the message with other bytes than the last message. */
static void fill(struct mover *m)
{
	uint64_t v = next(m);

	for (size_t i = 0; i < m->size; i += 8, v += 0x9e3779b97f4a7c15u)
		memcpy(m->src + i, &v, m->size - i < 8 ? m->size - i : 8);
}

/* Post the receive. If the receive is posted already, post the matching
 * send. */
static int post(struct mover *m)
{
	void *to = m->dst;
	int rc;

	if (m->stage == MOVER_IDLE) {
		m->size = next(m) % (m->room + 1);
		fill(m);
		rc = mpib_irecv(m->rx, 1, &to, &m->room, NULL, &m->rx_mr,
				&m->received);
		if (rc < 0 || !m->received)
			return rc;
		m->stage = MOVER_POSTED;
	}
	rc = mpib_isend(m->tx, m->src, m->size, 0, m->tx_mr, &m->sent);
	if (rc < 0 || !m->sent)
		return rc;
	m->stage = MOVER_FLYING;
	return 1;
}

int mover_look(struct mpib_request **r, size_t *size)
{
	int done = 0, rc;

	if (!*r)
		return 1;
	rc = mpib_test(*r, &done, size);
	if (rc < 0 || done)
		*r = NULL;
	return rc < 0 ? rc : done;
}

/* The message has arrived and is flushed: compare its bytes. */
static int compare(struct mover *m)
{
	m->messages++;
	m->bytes += m->size;
	m->wrong += m->got != m->size || memcmp(m->src, m->dst, m->size);
	m->stage = MOVER_IDLE;
	return 1;
}

static int flush(struct mover *m)
{
	int rc = mpib_iflush(m->rx, m->dst, m->rx_mr, &m->flushed);

	m->wrong += rc == 0 && !m->flushed;
	m->stage = MOVER_FLUSHING;
	return rc < 0 ? rc : 1;
}

static int step_flushing(struct mover *m)
{
	int rc = mover_look(&m->flushed, NULL);

	m->flushes += rc == 1;
	return rc == 1 ? compare(m) : rc;
}

int mover_step(struct mover *m)
{
	int tx, rx;

	if (m->stage == MOVER_FLUSHING)
		return step_flushing(m);
	if (m->stage != MOVER_FLYING)
		return post(m);
	tx = mover_look(&m->sent, NULL);
	rx = mover_look(&m->received, &m->got);
	if (tx < 0 || rx < 0)
		return tx < 0 ? tx : rx;
	if (!tx || !rx)
		return 0;
	return m->device ? flush(m) : compare(m);
}

int mover_wait(struct mover *m)
{
	const uint64_t end = mpib_now_ns() + HANGS_NS;
	int rc;

	while ((rc = mover_ready(m)) == 0) {
		if (mpib_now_ns() > end)
			return -ETIME;
		usleep(50);
	}
	return rc < 0 ? rc : 0;
}

int mover_begin(struct mover *m, const char *from, const char *to, size_t room,
		bool direct, uint64_t seed)
{
	int rc = mover_open(m, from, to, room, direct, seed);

	return rc < 0 ? rc : mover_wait(m);
}

int mover_move(struct mover *m, uint64_t messages)
{
	const uint64_t end = mpib_now_ns() + HANGS_NS;
	uint64_t goal = m->messages + messages;

	while (m->messages < goal) {
		int rc = mover_step(m);

		if (rc < 0)
			return rc;
		if (mpib_now_ns() > end)
			return -ETIME;
	}
	return m->wrong ? -EBADMSG : 0;
}

const char *mover_why(int rc)
{
	return rc == -ETIME	? "it never ends"
	       : rc == -EBADMSG ? "a message has wrong bytes"
				: mpib_strerror();
}

void mover_close(struct mover *m)
{
	if (m->tx)
		mpib_close(m->tx);
	if (m->rx)
		mpib_close(m->rx);
	if (m->src && m->allocated)
		mpib_mem_free(m->from, m->src);
	if (m->dst && m->allocated)
		mpib_mem_free(m->to, m->dst);
	mpib_detach(m->from);
	mpib_detach(m->to);
	if (m->device && m->src)
		munmap(m->src, m->room);
	if (m->device && m->dst)
		munmap(m->dst, m->room);
	if (!m->allocated && !m->device) {
		free(m->src);
		free(m->dst);
	}
	*m = (struct mover){ 0 };
}
