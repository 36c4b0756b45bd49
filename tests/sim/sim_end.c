/* SPDX-License-Identifier: Apache-2.0 */
/* Open and close one end of a line. sim_line.c moves the messages. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mpib/completion.h>

#include "ipc/client.h"
#include "sim_first.h"
#include "sim_rank.h"

static bool is_direct(const struct sim_end *e)
{
	return e->sends ? e->line->plan->tx_direct : e->line->plan->rx_direct;
}

static size_t mem_size(const struct sim_end *e)
{
	const struct sim_line_plan *l = e->line->plan;

	return (size_t)(e->sends ? l->ahead : l->window) * l->group * l->room;
}

static bool is_gpu(const struct sim_end *e)
{
	return e->sends ? e->line->plan->tx_gpu : e->line->plan->rx_gpu;
}

/* Register a sealed memfd as the end's GPU memory. */
static int get_gpu_memory(struct sim_end *e)
{
	size_t size = mem_size(e);
	int fd = memfd_create("gpu", MFD_CLOEXEC | MFD_ALLOW_SEALING), rc;

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
		sim_lacks("memory of a GPU");
	e->mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (e->mem == MAP_FAILED)
		sim_lacks("memory of a GPU");
	rc = mpib_reg_fd(e->rank->client, e->mem, size, 0, fd, MPIB_REG_DMABUF,
			 &e->region);
	close(fd);
	return rc;
}

static int get_memory(struct sim_end *e)
{
	struct mpib_client *c = e->rank->client;

	if (is_gpu(e))
		return get_gpu_memory(e);
	e->mem = is_direct(e) ? mpib_mem_alloc(c, mem_size(e))
			      : malloc(mem_size(e));
	if (!e->mem)
		return -ENOMEM;
	return mpib_reg(c, e->mem, mem_size(e), &e->region);
}

static void end_close(struct sim_end *e)
{
	if (e->conn)
		mpib_close(e->conn);
	if (e->listener)
		mpib_close_listen(e->listener);
	/* All requests of this end have completed, so no request can hold a
	 * reference to the region any more. */
	if (e->region && atomic_load(&e->region->refs))
		sim_fail("line %u: a region has %u references too many",
			 e->line->number, atomic_load(&e->region->refs));
	if (e->region)
		mpib_dereg(e->region);
	if (e->mem && is_gpu(e))
		munmap(e->mem, mem_size(e));
	else if (e->mem && is_direct(e))
		mpib_mem_free(e->rank->client, e->mem);
	else
		free(e->mem);
	e->conn = NULL;
	e->listener = NULL;
	e->region = NULL;
	e->mem = NULL;
	e->open = e->ready = false;
}

static void end_over(struct sim_end *e)
{
	end_close(e);
	e->over = true;
}

/* If ranks do not resume, docs/recovery.md allows only one reason for a
 * failure: a device acknowledged bytes and then lost them, and the sender had
 * already released the buffers of these bytes. Return whether this can be the
 * reason for the failure of this end. The sender keeps a buffer until the
 * buffer's slot completes, unless the staging window or the send ops are used
 * up. */
static bool may_lose(const struct sim_end *e)
{
	const struct sim_line_plan *l = e->line->plan;

	return (l->group > 1 || l->room > 4096) && !sim_ranks_resume() &&
	       (sim_ranks_meet(SIM_FAULT_DEVICE) ||
		sim_ranks_meet(SIM_FAULT_FORGETS)) &&
	       strstr(mpib_strerror(), "died with data it had acknowledged");
}

void sim_end_fail(struct sim_end *e, const char *what, int rc)
{
	sim_trace("line %u %s: %s: %s (%s)", e->line->number,
		  e->sends ? "sends" : "receives", what, strerror(-rc),
		  mpib_strerror());
	if (!sim_ranks_may_fail() && !(e->ready && may_lose(e)))
		sim_fail("line %u, %s: %s: %s", e->line->number,
			 e->sends ? "sender" : "receiver", what,
			 mpib_strerror());
	e->line->failures++;
	e->refused += !e->ready;
	e->again = sim_now + sim_rank_patience(e->refused);
	if (!e->ready && sim_ranks_meet_quotas() && e->refused == SIM_REFUSALS)
		e->line->given_up = true;
	/* If the connection failed before the sender was ready, give up the
	 * line: the receiver may never learn of this connection and would wait
	 * forever. */
	if (e->sends && !e->ready)
		e->line->given_up = true;
	end_close(e);
}

/* Return whether this end has nothing left to do. */
static bool settled(struct sim_end *e)
{
	struct sim_line *l = e->line;

	if (e->open)
		return false;
	if (!l->plan->messages || l->given_up ||
	    (e->sends ? l->sent : l->received) == l->plan->lives)
		return true;
	/* Give up the line in two cases. First case: a connection failed at
	 * this end, although the other end has moved all its messages. Second
	 * case: the receiver has made all allowed attempts. */
	if (e->sends ? l->received > l->sent
		     : l->sent > l->received ||
			       l->offered - l->received == SIM_TRIES)
		l->given_up = true;
	return l->given_up;
}

static void begin(struct sim_end *e)
{
	e->posted = e->done = e->emptied = 0;
	memset(e->sent_of, 0, sizeof(e->sent_of));
	memset(e->filled_of, 0, sizeof(e->filled_of));
	memset(e->req, 0, sizeof(e->req));
	memset(e->ended, 0, sizeof(e->ended));
	e->arrived = e->flushing = false;
	e->open = true;
}

static bool end_open(struct sim_end *e, struct sim_rng *r)
{
	struct sim_line *l = e->line;
	struct mpib_handle handle = { 0 };
	int rc;

	if (sim_now < e->again)
		return false;
	if (e->sends && l->tried == l->offered)
		return false; /* the receiver does not listen yet */
	rc = get_memory(e);
	if (rc == 0 && e->sends) {
		e->life = l->tried = l->offered;
		handle = l->handle;
		rc = mpib_connect(e->rank->client, &handle, -1, &e->conn);
	} else if (rc == 0) {
		rc = mpib_listen(e->rank->client, &handle, &e->listener);
	}
	if (rc == 0 && !e->sends) {
		l->handle = handle;
		e->life = ++l->offered;
		e->accept_at = sim_now + sim_draw(r, sim_ranks_late());
	}
	if (rc < 0) {
		sim_end_fail(e, "connecting", rc);
		return true;
	}
	if (e->conn)
		sim_first_conn(e->conn);
	begin(e);
	return true;
}

/* Call the report functions for the request, as a profiler would. */
static void on_watch(void *user, struct mpib_request *req, enum mpib_watch what)
{
	struct mpib_rail_report report[MPIB_RAILS];
	struct mpib_report_times times;

	(void)user;
	(void)what;
	mpib_request_rails(req, report);
	mpib_request_times(req, &times);
}

static bool check_ready(struct sim_end *e)
{
	int rc = 0;

	if (!e->conn && sim_now < e->accept_at)
		return false;
	if (!e->conn) {
		rc = mpib_accept(e->listener, &e->conn);
		if (rc == 0)
			sim_first_conn(e->conn);
	}
	if (rc == 0)
		rc = mpib_ready(e->conn);
	if (rc < 0) {
		sim_end_fail(e, "connecting", rc);
		return true;
	}
	e->ready = rc > 0;
	if (e->ready && e->line->plan->watched)
		mpib_report(e->conn, MPIB_REPORT_ALL, on_watch, e);
	if (e->ready && e->listener) {
		mpib_close_listen(e->listener);
		e->listener = NULL;
	}
	return e->ready;
}

/* Return true if this end must stop waiting, because the other end will not
 * connect again. For example, a receiver listens again after its connection
 * failed, but the sender has completed its last send and does not connect
 * again. */
static bool alone(const struct sim_end *e)
{
	const struct sim_line *l = e->line;

	return l->given_up || (!e->sends && l->sent == l->plan->lives);
}

static bool peer_has_less(const struct sim_end *e)
{
	const struct sim_end *peer =
		e->sends ? e->line->receives : e->line->sends;
	unsigned left = e->sends ? e->line->received : e->line->sent;
	unsigned mine = e->sends ? e->line->sent : e->line->received;

	return left == mine && peer->life == e->life &&
	       peer->done < e->line->plan->messages;
}

bool sim_end_step(struct sim_end *e, struct sim_rng *r)
{
	struct sim_line *l = e->line;
	bool moved;

	if (settled(e)) {
		end_over(e);
		return true;
	}
	if (!e->open)
		return end_open(e, r);
	if (!e->ready && alone(e)) {
		end_close(e);
		return true;
	}
	if (!e->ready)
		return check_ready(e);
	moved = sim_line_take(e);
	if (e->open)
		moved |= sim_line_post(e, r);
	if (!e->open || e->done < l->plan->messages)
		return moved;
	/* If a proxy was killed, a close that reaches the peer late can fail
	 * requests of the peer's next connection. So in plans with this fault,
	 * each end closes only after the other end has completed all its
	 * messages, as real ranks do. */
	if (!sim_ranks_may_fail() && sim_ranks_meet(SIM_FAULT_KILL_PROXY) &&
	    peer_has_less(e))
		return moved;
	/* Let the receiver close first. A send can complete before its receive,
	 * so a close by the sender could lose data in flight. */
	if (e->sends && l->received == l->sent && !sim_ranks_may_fail())
		return moved;
	if (e->sends)
		l->sent++;
	else
		l->received++;
	end_close(e);
	return true;
}
